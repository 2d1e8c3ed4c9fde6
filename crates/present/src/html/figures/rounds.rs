//! Throughput round by round: what a stream was asked, where it has one size. A round is a point, the shaded stretch the
//! 95 % interval of their mean.

use msgpath_analyse::summary::CaseSummary;
use msgpath_core::Plan;
use msgpath_core::carried::Carried;
use msgpath_core::schema::RoundRecord;
use msgpath_record::Run;

use super::{DataTable, Datum, Drawn, Figure, Picture, SERIES, Scene, chosen, every, hue, short};
use crate::svg::{Anchor, Drawing, Scale, label_positions, round_step};
use crate::words;

pub(super) const FIGURE: Figure = Figure {
    name: "rounds",
    heading: "Median of each round",
    how: "A point is a round: what the receiver took in, by its clock. The line is the mean of the rounds, the band its 95 % interval. The axis begins at 0.",
    draw: picture,
};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 160.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 44.0;

/// Throughput of a round, bits per second.
fn bits(plan: &Plan, round: &RoundRecord) -> Option<f64> {
    Carried::of(plan, round).bits_per_s()
}

/// Its label, the case, and the throughput of each round in the order of time.
type Series<'a> = (String, &'a CaseSummary, Vec<f64>);

fn rounds_of(run: &Run, case: &CaseSummary) -> Vec<f64> {
    let mut own: Vec<&RoundRecord> = run.rounds.iter().filter(|round| round.case == case.case.id).collect();
    own.sort_by_key(|round| round.start_ns);
    own.into_iter().filter_map(|round| bits(&run.header.plan, round)).collect()
}

fn print(bits: f64) -> String {
    words::throughput(bits, Default::default())
}

fn picture(scene: &Scene<'_>) -> Drawn {
    let cases = scene.measured();
    let (shown, what) = chosen(scene.summary, &cases);
    let mut series: Vec<Series<'_>> = shown
        .into_iter()
        .filter(|(_, case)| case.throughput.is_some())
        .take(SERIES)
        .map(|(label, case)| (label, case, rounds_of(scene.run, case)))
        .filter(|(_, _, rounds)| !rounds.is_empty())
        .collect();
    let later = series.len();
    let mut before: Vec<usize> = Vec::new();
    if let Some(earlier) = &scene.earlier {
        for at in 0..later {
            let own = &series[at].1.case;
            let same = |other: &&CaseSummary| {
                let other = &other.case;
                (&other.path, other.size, other.pieces, other.threads, other.role)
                    == (&own.path, own.size, own.pieces, own.threads, own.role)
            };
            let found = earlier.summary.cases.iter().filter(|case| case.throughput.is_some()).find(same);
            let Some((case, rounds)) = found.map(|case| (case, rounds_of(earlier.run, case))) else { continue };
            series.push((format!("{}, earlier", series[at].0), case, rounds));
            before.push(at);
        }
    }
    // The position that gives a series its colour, and how it is drawn where it is of the earlier run.
    let style = |at: usize| match at.checked_sub(later) {
        Some(earlier) => (hue(before[earlier]), " was"),
        None => (hue(at), ""),
    };
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
        let (colour, was) = style(at);
        let Some(throughput) = &case.throughput else { continue };
        let mean = &throughput.receiver_bits;
        if let (Some(low), Some(high)) = (mean.low, mean.high) {
            let (low, high) = (y.at(low.max(0.0)), y.at(high.min(most * 1.06)));
            drawing.band(&format!("bd f{colour}"), &[(LEFT, high), (right, high)], &[(LEFT, low), (right, low)]);
        }
        drawing.path(&format!("ln s{colour}{was}"), &[(LEFT, y.at(mean.value)), (right, y.at(mean.value))]);
        for (round, bits) in rounds.iter().enumerate() {
            let title = format!("{label}, round {}: {}", round + 1, print(*bits));
            let radius = if was.is_empty() { 3.2 } else { 2.2 };
            drawing.dot(&format!("f{colour}"), (x.at(round as f64 + 1.0), y.at(*bits)), radius, &title);
        }
        ends.push(y.at(mean.value));
    }
    for (at, (place, (label, ..))) in label_positions(&ends, 15.0, (TOP, bottom)).into_iter().zip(&series).enumerate() {
        let (colour, was) = style(at);
        let class = if was.is_empty() { "b name f" } else { "f" };
        drawing.text(&format!("{class}{colour}"), (right + 8.0, place + 4.0), Anchor::Start, &short(label));
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
    use crate::html::{Earlier, Messages};

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
        let diff = msgpath_analyse::diff::diff(&run, &run, &[]);
        let earlier = Earlier { run: &run, summary: &summary, diff: &diff, messages: Messages::default() };
        let both = drawn(&FIGURE, &Scene { earlier: Some(earlier), ..Scene::new(&run, &summary) });
        assert!(both.matches("<circle").count() == 14 && both.contains("class=\"ln s0 was\""), "{both}");
        let (run, summary) = fixture::echo();
        assert_eq!(drawn(&FIGURE, &Scene::new(&run, &summary)), "nothing");
    }
}
