//! Latency against threads, and scaling against threads: at one message size, the one in the middle.

use msgpath_analyse::summary::CaseSummary;

use super::chart::{Axis, Chart, Line, Point, across, and_more, beside, extent, range, rate, rate_text};
use super::{DataTable, Datum, Drawn, Figure, Picture, SERIES, Scene, hue};
use crate::view::{Grid, Shape};
use crate::words;

pub(super) const LATENCY: Figure = Figure {
    name: "latency-threads",
    heading: "Latency, by number of threads",
    how: "Median latency against the number of threads, both axes logarithmic. Bars are 95 % intervals over rounds; at a hollow point the range of what levels, drift or few rounds leave open.",
    draw: latency,
};

pub(super) const SCALING: Figure = Figure {
    name: "scaling",
    heading: "Throughput, by number of threads",
    how: "What all threads together get done. The thin dashed lines start at the fewest threads and rise in proportion: on them, twice the threads do twice as much.",
    draw: scaling,
};

const SIZE: (f64, f64) = (960.0, 400.0);

/// The size in the middle; `None` with one thread count.
fn middle(grid: &Grid) -> Option<Shape> {
    (grid.threads.len() > 1).then(|| grid.shapes.get(grid.shapes.len() / 2).copied()).flatten()
}

/// The lines of the run, with those of the one that it is compared with.
fn of_both(scene: &Scene<'_>, shape: Shape, point: impl Fn(f64, &CaseSummary) -> Option<Point>) -> Vec<Line> {
    let mut all = lines(&scene.grid(), shape, &point);
    if let Some(earlier) = &scene.earlier {
        let within = across(&all);
        beside(&mut all, lines(&Grid::new(earlier.summary), shape, &point), within);
    }
    all
}

/// One line per path, of the cases that have a point.
fn lines(grid: &Grid, shape: Shape, point: impl Fn(f64, &CaseSummary) -> Option<Point>) -> Vec<Line> {
    let line = |path: &&msgpath_core::PathName| {
        let cases =
            grid.threads.iter().filter_map(|threads| Some((f64::from(*threads), grid.case(path, shape, *threads)?)));
        let points = cases.filter_map(|(threads, case)| point(threads, case)).collect();
        Line { label: path.to_string(), points, ..Line::default() }
    };
    grid.paths.iter().map(line).collect()
}

fn describe(case: &CaseSummary) -> String {
    format!("{}, {}", case.case.path, words::counted(case.case.threads.into(), "thread"))
}

/// `oversubscribed: 16 threads on 2 CPUs`; `None`: there is a CPU for every thread.
fn oversubscribed(case: &CaseSummary) -> Option<String> {
    let crowd = case.threads.as_ref()?.oversubscribed.as_ref()?;
    Some(format!("oversubscribed: {} threads on {} CPUs", crowd.threads, crowd.cpus))
}

fn note(grid: &Grid, shape: Shape) -> String {
    format!("Messages of {}. {}", grid.head(shape, false), and_more(grid.paths.len())).trim_end().to_owned()
}

fn latency(scene: &Scene<'_>) -> Drawn {
    let grid = scene.grid();
    let Some(shape) = middle(&grid) else { return Drawn::Nothing };
    let lines =
        of_both(scene, shape, |threads, case| Point::quantile(threads, words::quantile(case, 0.5)?, &describe(case)));
    let Some(extent) = extent(&lines) else { return Drawn::Nothing };
    let x = Axis::counts("threads (log)", grid.threads.iter().copied());
    let mut chart = Chart::new(SIZE, &x, &Axis::times(&format!("median {} (log)", scene.timed().name), extent));
    chart.paths();
    chart.lines(&lines);
    let mut data = DataTable::new(&[
        ("path", "path"),
        ("message", "message"),
        ("threads", "threads"),
        ("p50", "p50_ns"),
        ("from", "low_ns"),
        ("to", "high_ns"),
    ]);
    for case in scene.measured() {
        let Some(p50) = words::quantile(case, 0.5) else { continue };
        let ns = |ns: Option<u64>| Datum::maybe_ns(ns.map(|ns| ns as f64));
        data.row([
            case.case.path.to_string().into(),
            words::message_at(&case.case).into(),
            Datum::count(case.case.threads.into()),
            ns(p50.ns),
            ns(p50.lo_ns),
            ns(p50.hi_ns),
        ]);
    }
    let panels = vec![chart.finish(&format!("Median {} against threads", scene.timed().name))];
    Drawn::Picture(Picture { panels, data, note: note(&grid, shape), ..Picture::default() })
}

fn scaling(scene: &Scene<'_>) -> Drawn {
    let grid = scene.grid();
    let Some(shape) = middle(&grid) else { return Drawn::Nothing };
    let lines = of_both(scene, shape, |threads, case| {
        let mut point = Point::estimate(threads, rate(case)?, &describe(case), rate_text(case));
        if let Some(crowd) = oversubscribed(case) {
            point.hollow = true;
            point.title = format!("{}; {crowd}", point.title);
        }
        Some(point)
    });
    let Some(case) = scene.measured().into_iter().find(|case| rate(case).is_some()) else { return Drawn::Nothing };
    let print = rate_text(case);
    // In proportion to the fewest threads: where a line would go on if the threads did not get in each other's way.
    let most = f64::from(*grid.threads.last().unwrap_or(&1));
    let ideal: Vec<[(f64, f64); 2]> = lines
        .iter()
        .filter(|line| line.of.is_none())
        .take(SERIES)
        .filter_map(|line| line.points.first().map(|first| [(first.x, first.y), (most, first.y * most / first.x)]))
        .collect();
    let values = extent(&lines).into_iter().flat_map(|(low, high)| [low, high]);
    let Some(extent) = range(values.chain(ideal.iter().map(|ends| ends[1].1))) else { return Drawn::Nothing };
    let (name, saved) = match case.throughput {
        Some(_) => ("throughput, all threads (log)", "bits_per_s"),
        None => ("messages a second, all threads (log)", "messages_per_s"),
    };
    let x = Axis::counts("threads (log)", grid.threads.iter().copied());
    let mut chart = Chart::new(SIZE, &x, &Axis::values(name, extent, |rate| words::chosen(&print(rate))));
    for (at, ends) in ideal.iter().enumerate() {
        let [from, to] = ends.map(|(x, y)| (chart.x.at(x), chart.y.at(y)));
        chart.drawing.line(&format!("whisker mark t{}", hue(at)), from, to);
    }
    chart.paths();
    chart.lines(&lines);
    let mut data = DataTable::new(&[("path", "path"), ("message", "message"), ("threads", "threads")]);
    data.head("together", saved);
    data.head("from", format!("low_{saved}"));
    data.head("to", format!("high_{saved}"));
    for case in scene.measured() {
        let Some(rate) = rate(case) else { continue };
        let datum = |value: Option<f64>| value.map_or(Datum::Missing, |value| Datum::Number(value, print(value)));
        data.row([
            case.case.path.to_string().into(),
            words::message_at(&case.case).into(),
            Datum::count(case.case.threads.into()),
            datum(Some(rate.value)),
            datum(rate.low),
            datum(rate.high),
        ]);
    }
    let panels = vec![chart.finish("What all threads get done against their number")];
    let mut note = note(&grid, shape);
    let crowded = scene.measured().into_iter().find_map(|case| Some((case.case.threads, oversubscribed(case)?)));
    if let Some((threads, crowd)) = crowded {
        let threads = words::counted(threads.into(), "thread");
        note.push_str(&format!(" Hollow points from {threads} on are {crowd}, so they show no scaling."));
    }
    Drawn::Picture(Picture { panels, data, note, ..Picture::default() })
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;
    use crate::fixture;

    #[test]
    fn two_thread_counts() {
        let (run, summary) = fixture::compare();
        let scene = Scene::new(&run, &summary);
        insta::assert_snapshot!("latency-threads", drawn(&LATENCY, &scene));
        insta::assert_snapshot!("scaling", drawn(&SCALING, &scene));
        let (run, mut summary) = fixture::compare();
        for case in summary.cases.iter_mut().filter(|case| case.case.threads > 1) {
            case.threads = Some(fixture::crowd(2 * u64::from(case.case.threads), 2));
        }
        let marked = drawn(&SCALING, &Scene::new(&run, &summary));
        assert!(marked.contains("hollow") && marked.contains("so they show no scaling"), "{marked}");
        for (run, summary) in [fixture::echo(), fixture::shapes()] {
            assert_eq!(drawn(&LATENCY, &Scene::new(&run, &summary)), "nothing");
            assert_eq!(drawn(&SCALING, &Scene::new(&run, &summary)), "nothing");
        }
    }
}
