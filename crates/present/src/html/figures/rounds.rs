//! Throughput round by round: what a stream was asked, where it has one size. A round is a point, the shaded stretch the
//! 95 % interval of their mean.

use msgpath_analyse::series::receiver;
use msgpath_analyse::summary::CaseSummary;
use msgpath_core::Plan;
use msgpath_core::schema::RoundRecord;

use super::{DataTable, Datum, Drawn, Figure, Picture, SERIES, Scene, chosen, every, hue, short};
use crate::svg::{Anchor, Drawing, Scale, label_positions, round_step};
use crate::words;

pub(super) const FIGURE: Figure = Figure {
    name: "rounds",
    question: "How fast was it, round by round?",
    how: "A point is a round: what the receiver took in, by its clock. The line is the mean of the rounds, the band its 95 % interval. The axis begins at 0.",
    draw: picture,
};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 160.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 44.0;

/// What the receiver of a round took in, bits per second.
fn bits(plan: &Plan, round: &RoundRecord) -> Option<f64> {
    let receiver = receiver(plan, round);
    (receiver.elapsed_ns > 0).then(|| receiver.bytes_received as f64 * 8e9 / receiver.elapsed_ns as f64)
}

fn print(bits: f64) -> String {
    words::throughput(bits, Default::default())
}

fn picture(scene: &Scene<'_>) -> Drawn {
    let cases = scene.measured();
    let (shown, what) = chosen(scene.summary, &cases);
    let rounds_of = |case: &CaseSummary| -> Vec<f64> {
        let mut own: Vec<&RoundRecord> = scene.run.rounds.iter().filter(|round| round.case == case.case.id).collect();
        own.sort_by_key(|round| round.start_ns);
        own.into_iter().filter_map(|round| bits(&scene.run.header.plan, round)).collect()
    };
    let series: Vec<(String, &CaseSummary, Vec<f64>)> = shown
        .into_iter()
        .filter(|(_, case)| case.throughput.is_some())
        .take(SERIES)
        .map(|(label, case)| (label, case, rounds_of(case)))
        .filter(|(_, _, rounds)| !rounds.is_empty())
        .collect();
    let most = series.iter().flat_map(|(_, _, rounds)| rounds).copied().fold(0.0, f64::max);
    let longest = series.iter().map(|(_, _, rounds)| rounds.len()).max().unwrap_or(0);
    if most <= 0.0 {
        return Drawn::Nothing;
    }
    let mut data = DataTable::new(&[("case", "case"), ("round", "round"), ("throughput", "bits_per_s")]);
    for (label, _, rounds) in &series {
        for (at, bits) in rounds.iter().enumerate() {
            data.row([label.as_str().into(), Datum::count(at as u64 + 1), Datum::Number(*bits, print(*bits))]);
        }
    }
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let y = Scale::linear((0.0, most * 1.06), (bottom, TOP));
    let x = Scale::linear((0.5, longest as f64 + 0.5), (LEFT, right));
    let mut drawing = Drawing::new(WIDTH, HEIGHT);
    drawing.attribute("data-paths", "");
    drawing.text("m", (0.0, 13.0), Anchor::Start, "throughput, payload");
    let step = round_step(most / 5.0);
    for tick in 0..=(most * 1.06 / step) as u32 {
        let value = f64::from(tick) * step;
        drawing.line(if tick == 0 { "axis" } else { "grid" }, (LEFT, y.at(value)), (right, y.at(value)));
        let text = if tick == 0 { "0".into() } else { words::chosen(&print(value)) };
        drawing.text("m", (LEFT - 7.0, y.at(value) + 4.0), Anchor::End, &text);
    }
    let step = every(longest);
    for round in (1..=longest).filter(|round| *round == 1 || round % step == 0) {
        drawing.text("m", (x.at(round as f64), bottom + 17.0), Anchor::Middle, &round.to_string());
    }
    drawing.text("m", ((LEFT + right) / 2.0, HEIGHT - 6.0), Anchor::Middle, "round, in the order of time");
    let mut ends = Vec::new();
    for (at, (label, case, rounds)) in series.iter().enumerate() {
        let colour = hue(at);
        let Some(throughput) = &case.throughput else { continue };
        let mean = &throughput.receiver_bits;
        if let (Some(low), Some(high)) = (mean.low, mean.high) {
            let (low, high) = (y.at(low.max(0.0)), y.at(high.min(most * 1.06)));
            drawing.band(&format!("bd f{colour}"), &[(LEFT, high), (right, high)], &[(LEFT, low), (right, low)]);
        }
        drawing.path(&format!("ln s{colour}"), &[(LEFT, y.at(mean.value)), (right, y.at(mean.value))]);
        for (round, bits) in rounds.iter().enumerate() {
            let title = format!("{label}, round {}: {}", round + 1, print(*bits));
            drawing.dot(&format!("f{colour}"), (x.at(round as f64 + 1.0), y.at(*bits)), 3.2, &title);
        }
        ends.push(y.at(mean.value));
    }
    for (at, (place, (label, ..))) in label_positions(&ends, 15.0, (TOP, bottom)).into_iter().zip(&series).enumerate() {
        drawing.text(&format!("b name f{}", hue(at)), (right + 8.0, place + 4.0), Anchor::Start, &short(label));
    }
    let names: Vec<&str> = series.iter().map(|(label, ..)| label.as_str()).collect();
    let panel = drawing.finish(&format!("Throughput of each round of {} ({what})", names.join(", ")));
    Drawn::Picture(Picture { panels: vec![panel], data, note: format!("{what}."), ..Picture::default() })
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;
    use crate::fixture;

    #[test]
    fn streams_have_a_point_a_round() {
        let (mut run, summary) = fixture::stream();
        let case = summary.cases.iter().find(|case| case.throughput.is_some()).unwrap().case.id;
        run.rounds = (0..7)
            .map(|pass| {
                let mut round = RoundRecord { case, pass, start_ns: u64::from(pass), ..RoundRecord::default() };
                for end in round.reports_mut() {
                    (end.elapsed_ns, end.bytes_received) = (1_000_000_000, 125_000_000);
                }
                round
            })
            .collect();
        let text = drawn(&FIGURE, &Scene::new(&run, &summary));
        assert!(text.matches("<circle").count() == 7 && text.contains("round 7: 1.00 Gbit/s"), "{text}");
        let (run, summary) = fixture::echo();
        assert_eq!(drawn(&FIGURE, &Scene::new(&run, &summary)), "nothing");
    }
}
