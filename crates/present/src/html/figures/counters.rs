//! What the kernel counted, against the size of the message; and cycles per byte.

use msgpath_analyse::events::cycles_per_byte;
use msgpath_analyse::summary::CaseSummary;
use msgpath_core::schema::{FAR, NEAR};

use super::chart::{Axis, Chart, Line, Point, and_more, extent};
use super::{DataTable, Datum, Drawn, Figure, Picture, Scene};
use crate::svg::Svg;
use crate::view::Grid;
use crate::words;

pub(super) const KERNEL: Figure = Figure {
    name: "counters",
    heading: "Kernel counters, by message size",
    how: "Events at the near end per message, both axes logarithmic. A count of 0 lies below the axis and stands in the numbers. Other programs on the machine are counted too.",
    draw: kernel,
};

pub(super) const CYCLES: Figure = Figure {
    name: "cycles-per-byte",
    heading: "CPU cycles per byte",
    how: "Cycles of both ends divided by the bytes of the message.",
    draw: cycles,
};

/// Counters that are drawn; all of them are in the numbers.
const PANELS: usize = 4;

/// Whether the run has several sizes of messages in one piece.
fn applies(grid: &Grid) -> bool {
    !grid.in_pieces() && grid.shapes.len() > 1
}

fn cycles(scene: &Scene<'_>) -> Drawn {
    let grid = scene.grid();
    if !applies(&grid) {
        return Drawn::Nothing;
    }
    let cases = scene.measured();
    let of = |case: &CaseSummary| -> Result<f64, String> {
        Ok(cycles_per_byte(case, NEAR)?.value + cycles_per_byte(case, FAR)?.value)
    };
    let mut data = DataTable::new(&[("path", "path"), ("message", "message"), ("threads", "threads")]);
    data.head("cycles a byte", "cycles_per_byte");
    for case in &cases {
        let value = of(case).map_or(Datum::Missing, |value| Datum::Number(value, words::per_message(value)));
        let heads = [
            case.case.path.to_string().into(),
            words::message_at(&case.case).into(),
            Datum::count(case.case.threads.into()),
        ];
        data.row(heads.into_iter().chain([value]));
    }
    match lines_of(&grid, &("cycles a byte", "a byte"), |case| of(case).ok()) {
        Some(panel) => {
            let note = and_more(grid.paths.len());
            Drawn::Picture(Picture { panels: vec![panel], data, note, ..Picture::default() })
        }
        None => {
            let why = cases.iter().find_map(|case| of(case).err()).unwrap_or_else(|| "no case was measured".into());
            Drawn::Unavailable(format!("no cycles were counted: {why}"))
        }
    }
}

/// A counter of one case, per message; 0 where it was read and has not changed.
fn value(case: &CaseSummary, name: &str) -> Option<f64> {
    case.per_message(case.end(NEAR).kernel.get(name).copied().unwrap_or(0))
}

/// Counters that say what the machine did, whoever did it: the network's come first.
fn of_the_machine(name: &str) -> bool {
    ["pressure.", "stat.", "irq."].iter().any(|group| name.starts_with(group))
}

fn kernel(scene: &Scene<'_>) -> Drawn {
    let grid = scene.grid();
    if !applies(&grid) {
        return Drawn::Nothing;
    }
    let cases = scene.measured();
    let known = &scene.run.header.end(NEAR).counters;
    if known.is_empty() {
        return Drawn::Unavailable("no kernel counter could be read at the near end".into());
    }
    let total = |name: &str| cases.iter().filter_map(|case| case.end(NEAR).kernel.get(name)).sum::<u64>();
    // Something that happens once in a thousand messages has no line against their size.
    let often = |name: &str| {
        let values: Vec<f64> = cases.iter().filter_map(|case| value(case, name)).collect();
        values.iter().filter(|value| **value >= 0.005).count() * 2 >= values.len()
    };
    let mut names: Vec<&str> = known.iter().map(String::as_str).filter(|name| total(name) > 0).collect();
    names.sort_by_key(|name| (of_the_machine(name), std::cmp::Reverse(total(name))));
    if names.is_empty() {
        return Drawn::Unavailable(format!("none of the {} kernel counters read at the near end changed", known.len()));
    }
    let mut data = DataTable::new(&[("path", "path"), ("message", "message"), ("threads", "threads")]);
    names.iter().for_each(|name| data.head(*name, format!("{name}_per_message")));
    for case in &cases {
        let values = names.iter().map(|name| match value(case, name) {
            Some(value) => Datum::Number(value, words::per_message(value)),
            None => Datum::Missing,
        });
        let heads = [
            case.case.path.to_string().into(),
            words::message_at(&case.case).into(),
            Datum::count(case.case.threads.into()),
        ];
        data.row(heads.into_iter().chain(values));
    }
    let shown: Vec<&str> = names.iter().copied().filter(|name| often(name)).take(PANELS).collect();
    let mut note = and_more(grid.paths.len());
    if names.len() > shown.len() {
        let count = shown.len();
        note = format!("{count} of {} counters that changed are drawn, those of the network first; the others changed less than once in 200 messages of most cases, or stand in the numbers. {note}", names.len())
            .trim_end()
            .to_owned();
    }
    let panels = shown.iter().filter_map(|name| panel(&grid, name)).collect();
    Drawn::Picture(Picture { panels, data, note, ..Picture::default() })
}

fn panel(grid: &Grid, name: &str) -> Option<Svg> {
    lines_of(grid, &(&format!("{name} per message"), "per message"), |case| value(case, name))
}

/// A line for each path; `name`: of the axis, and what a point's value is for.
fn lines_of(grid: &Grid, name: &(&str, &str), value: impl Fn(&CaseSummary) -> Option<f64>) -> Option<Svg> {
    let (name, each) = *name;
    let threads = *grid.threads.first()?;
    let lines: Vec<Line> = grid
        .paths
        .iter()
        .map(|path| {
            let cases = grid.shapes.iter().filter_map(|shape| grid.case(path, *shape, threads));
            let mut points: Vec<Point> = cases
                .filter_map(|case| Some((case, value(case).filter(|value| *value > 0.0)?)))
                .map(|(case, value)| Point {
                    x: case.case.size as f64,
                    y: value,
                    title: format!("{path}, {}: {} {each}", words::message_at(&case.case), words::per_message(value)),
                    ..Point::default()
                })
                .collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            Line { label: path.to_string(), points, ..Line::default() }
        })
        .collect();
    let x = Axis::sizes(grid.shapes.iter().map(|shape| shape.size));
    let y = Axis::values(&format!("{name} (log)"), extent(&lines)?, words::per_message);
    let mut chart = Chart::new((540.0, 260.0), &x, &y);
    chart.lines(&lines);
    Some(chart.finish(&format!("{name} against message size")))
}

#[cfg(test)]
mod tests {
    use msgpath_analyse::summary::EventRate;
    use msgpath_stats::estimate::Estimate;

    use super::super::testing::drawn;
    use super::*;
    use crate::fixture;

    #[test]
    fn counters_that_changed_are_drawn() {
        let (mut run, mut summary) = fixture::compare();
        let text = drawn(&KERNEL, &Scene::new(&run, &summary));
        assert_eq!(text, "n/a: no kernel counter could be read at the near end");
        run.header.ends[NEAR].counters = vec!["TcpExt.TCPAutoCorking".into(), "Tcp.RetransSegs".into()];
        let text = drawn(&KERNEL, &Scene::new(&run, &summary));
        assert_eq!(text, "n/a: none of the 2 kernel counters read at the near end changed");
        for case in summary.cases.iter_mut().filter(|case| case.case.path.method != "send") {
            let held = case.delivery.sent * case.case.size / 4096;
            case.end_mut(NEAR).kernel.insert("TcpExt.TCPAutoCorking".into(), held);
        }
        let scene = Scene::new(&run, &summary);
        insta::assert_snapshot!("counters", drawn(&KERNEL, &scene));
        assert!(drawn(&CYCLES, &scene).starts_with("n/a: no cycles were counted"));
        assert!(!drawn(&CYCLES, &scene).contains("this version"));
        let refused = |case: &mut CaseSummary| {
            case.end_mut(NEAR).events =
                vec![EventRate { name: "cycles".into(), why: Some("no PMU".into()), ..EventRate::default() }];
        };
        summary.cases.iter_mut().for_each(refused);
        assert_eq!(drawn(&CYCLES, &Scene::new(&run, &summary)), "n/a: no cycles were counted: no PMU");
        for case in &mut summary.cases {
            let per_message = Some(Estimate { value: case.case.size as f64, low: None, high: None });
            let counted = vec![EventRate { name: "cycles".into(), per_message, ..EventRate::default() }];
            (case.end_mut(NEAR).events, case.end_mut(FAR).events) = (counted.clone(), counted);
        }
        assert!(drawn(&CYCLES, &Scene::new(&run, &summary)).contains("<svg"));
        let (run, summary) = fixture::echo();
        assert_eq!(drawn(&KERNEL, &Scene::new(&run, &summary)), "nothing");
    }
}
