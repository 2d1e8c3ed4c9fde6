//! Fastest, median, mean and slowest of every case, on a log scale.

use msgpath_analyse::summary::CaseSummary;

use super::super::G;
use super::chart::{range, times_between};
use super::{DataTable, Datum, Drawn, Figure, Picture, Scene, short, some_of};
use crate::svg::{Anchor, Drawing, Scale, Svg};
use crate::words;

pub(super) const FIGURE: Figure = Figure {
    name: "spread",
    heading: "Fastest, mean and slowest message",
    how: "A line from the fastest to the slowest message that arrived, logarithmic. | median, ◆ mean: where they lie far apart, a few slow messages make the mean.",
    draw: picture,
};

/// Rows at most; the rest is in the numbers.
const ROWS: usize = 24;
const WIDTH: f64 = 860.0;
/// Width of a letter, on the large side.
const LETTER: f64 = 7.0;
const ROW: f64 = 20.0;
const TOP: f64 = 30.0;

fn picture(scene: &Scene<'_>) -> Drawn {
    let timed = |case: &&CaseSummary| case.latency.fastest_ns.is_some() && case.latency.slowest_ns.is_some();
    let all: Vec<&CaseSummary> = scene.measured().into_iter().filter(timed).collect();
    let shown: Vec<&CaseSummary> = scene.chosen().into_iter().filter(timed).take(ROWS).collect();
    let Some(svg) = draw(&shown) else { return Drawn::Nothing };
    let mut data = DataTable::new(&[
        ("path", "path"),
        ("message", "message"),
        ("threads", "threads"),
        ("fastest", "fastest_ns"),
        ("p50", "p50_ns"),
        ("mean", "mean_ns"),
        ("slowest", "slowest_ns"),
    ]);
    for case in &all {
        let p50 = words::quantile(case, 0.5).and_then(|quantile| quantile.ns);
        data.row([
            case.case.path.to_string().into(),
            words::message_at(&case.case).into(),
            Datum::count(case.case.threads.into()),
            Datum::maybe_ns(case.latency.fastest_ns.map(|ns| ns as f64)),
            Datum::maybe_ns(p50.map(|ns| ns as f64)),
            Datum::maybe_ns(case.latency.mean_ns),
            Datum::maybe_ns(case.latency.slowest_ns.map(|ns| ns as f64)),
        ]);
    }
    let mut notes: Vec<String> = Vec::new();
    notes.extend(some_of(shown.len(), all.len()).map(|note| format!("{note} The numbers are those of all.")));
    notes.extend(shown.iter().find_map(|case| words::batch(case)));
    Drawn::Picture(Picture { panels: vec![svg], data, note: notes.join(" "), ..Picture::default() })
}

fn draw(shown: &[&CaseSummary]) -> Option<Svg> {
    let ends = shown.iter().flat_map(|case| [case.latency.fastest_ns, case.latency.slowest_ns]).flatten();
    let (low, high) = range(ends.map(|ns| ns.max(1) as f64))?;
    let bottom = TOP + ROW * shown.len() as f64;
    let mut drawing = Drawing::new(WIDTH, bottom + 8.0);
    let name = |case: &CaseSummary| {
        let threads = if case.case.threads > 1 { format!(" ×{}", case.case.threads) } else { String::new() };
        format!("{}{threads}", short(&case.case.path.to_string()))
    };
    let widest = |text: &dyn Fn(&CaseSummary) -> String| {
        shown.iter().map(|case| text(case).chars().count()).max().unwrap_or(0) as f64 * LETTER
    };
    let names = 10.0 + widest(&name);
    let left = names + 20.0 + widest(&|case| words::message_at(&case.case));
    let x = Scale::log((low * 0.9, high * 1.1), (left, WIDTH - 20.0));
    for (tick, name) in times_between(low * 0.9, high * 1.1) {
        drawing.line("grid", (x.at(tick), TOP - 6.0), (x.at(tick), bottom));
        drawing.text("m", (x.at(tick), 14.0), Anchor::Middle, &name);
    }
    for (at, case) in shown.iter().enumerate() {
        let y = TOP + ROW * (at as f64 + 0.5);
        let name = name(case);
        drawing.text("", (names, y + 4.0), Anchor::End, &name);
        drawing.text("m", (left - 10.0, y + 4.0), Anchor::End, &words::message_at(&case.case));
        let (fastest, slowest) =
            (case.latency.fastest_ns.unwrap_or(0) as f64, case.latency.slowest_ns.unwrap_or(0) as f64);
        drawing.line("axis", (x.at(fastest), y), (x.at(slowest), y));
        drawing.dot("hollow t0", (x.at(fastest), y), 3.0, &format!("{name} fastest {}", G.time(fastest)));
        drawing.dot("hollow t2", (x.at(slowest), y), 3.0, &format!("{name} slowest {}", G.time(slowest)));
        if let Some(p50) = words::quantile(case, 0.5).and_then(|quantile| quantile.ns) {
            let place = x.at(p50 as f64);
            drawing.rectangle(
                "f0",
                (place - 1.0, y - 6.0),
                (2.0, 12.0),
                1.0,
                &format!("{name} p50 {}", G.time(p50 as f64)),
            );
        }
        if let Some(mean) = case.latency.mean_ns {
            let place = x.at(mean);
            let title = format!("{name} mean {}", G.time(mean));
            let (upper, lower) = (
                [(place - 5.0, y), (place, y - 5.0), (place + 5.0, y)],
                [(place - 5.0, y), (place, y + 5.0), (place + 5.0, y)],
            );
            drawing.band("f1", &upper, &lower);
            drawing.dot("f1", (place, y), 1.0, &title);
        }
    }
    Some(
        drawing.finish(&format!("Fastest, median, mean and slowest of {}", words::counted(shown.len() as u64, "case"))),
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;
    use crate::fixture;

    #[test]
    fn every_case_is_a_row() {
        let (run, summary) = fixture::echo_sizes();
        insta::assert_snapshot!("spread", drawn(&FIGURE, &Scene::new(&run, &summary)));
        let (run, summary) = fixture::compare();
        assert!(drawn(&FIGURE, &Scene::new(&run, &summary)).contains("3 of 48 cases are shown"));
        let (run, summary) = fixture::stream();
        assert_eq!(drawn(&FIGURE, &Scene::new(&run, &summary)), "nothing");
    }
}
