//! Message size against time or throughput, all paths: what `compare` asks. Views of the same cases: the metric itself, the
//! ratio to the baseline, the tail, the CPU.

use msgpath_analyse::summary::{CaseSummary, Comparison};
use msgpath_core::schema::{FAR, NEAR};

use super::super::G;
use super::chart::{Axis, Chart, Line, Point, across, beside, extent, range};
use super::{DataTable, Datum, Drawn, Figure, Picture, Scene};
use crate::svg::Svg;
use crate::view::{self, Grid};
use crate::words;
use msgpath_core::units;

pub(super) const FIGURE: Figure = Figure {
    name: "sizes",
    heading: "Time of a message, by its size",
    how: "A line is a path, a point a measured size with its 95 % interval over rounds; a hollow point has a wider range, of what levels, drift or few rounds leave open. Ratios in the answer compare rounds of the same pass, so they can differ from those of two points. Both axes are logarithmic.",
    draw: picture,
};

const SIZE: (f64, f64) = (960.0, 430.0);

/// A way to look at the cases.
struct View {
    name: String,
    axis: fn(&str, (f64, f64)) -> Axis,
    point: fn(&CaseSummary, Option<&Comparison>) -> Option<Point>,
    print: fn(f64) -> String,
    saved: &'static str,
}

fn describe(case: &CaseSummary) -> String {
    format!("{}, {}", case.case.path, words::message_at(&case.case))
}

fn quantile(case: &CaseSummary, p: f64) -> Option<Point> {
    Point::quantile(case.case.size as f64, words::quantile(case, p)?, &describe(case))
}

/// What both ends together used of their CPUs.
fn cpu(case: &CaseSummary) -> Option<Point> {
    let costs = [case.end(NEAR), case.end(FAR)].map(|end| &end.cost);
    let ns: f64 = costs.iter().map(|cost| cost.user_ns + cost.system_ns).sum();
    (ns > 0.0 && costs.iter().all(|cost| !cost.unread)).then(|| Point {
        x: case.case.size as f64,
        y: ns,
        title: format!("{}: {} of CPU time at both ends", describe(case), G.time(ns)),
        ..Point::default()
    })
}

fn ratio(case: &CaseSummary, comparison: Option<&Comparison>) -> Option<Point> {
    let comparison = comparison?;
    let x = case.case.size as f64;
    if case.case.path == comparison.baseline {
        let title = format!("{}: the baseline", describe(case));
        return Some(Point { x, y: 1.0, title, ..Point::default() });
    }
    let ratio = view::ratio(comparison, case)?;
    let range = words::ends(ratio.low, ratio.high, words::change);
    let range = range.map_or_else(|| "no interval".into(), |range| format!("95 %: {range}"));
    let title = format!("{}: {} {}, {range}", describe(case), words::mark(ratio), words::change(ratio.ratio));
    Some(Point { x, y: ratio.ratio, low: ratio.low, high: ratio.high, hollow: ratio.low.is_none(), title })
}

fn views(scene: &Scene<'_>, stream: bool) -> Vec<View> {
    let time = |ns: f64| G.time(ns);
    let mut views = Vec::new();
    if stream {
        views.push(View {
            name: "throughput".into(),
            axis: Axis::throughputs,
            point: |case, _| {
                let bits = &case.throughput.as_ref()?.receiver_bits;
                let print = |bits| words::throughput(bits, Default::default());
                Some(Point::estimate(case.case.size as f64, bits, &describe(case), print))
            },
            print: |bits| words::throughput(bits, Default::default()),
            saved: "bits_per_s",
        });
    } else {
        let median = format!("median {}", scene.timed().name);
        views.push(View {
            name: median,
            axis: Axis::times,
            point: |case, _| quantile(case, 0.5),
            print: time,
            saved: "p50_ns",
        });
    }
    if let Some(comparison) = &scene.summary.comparison {
        views.push(View {
            name: format!("ratio to {}", comparison.baseline),
            axis: Axis::ratios,
            point: ratio,
            print: |ratio| words::change(ratio),
            saved: "ratio",
        });
    }
    if !stream {
        views.push(View {
            name: "p99".into(),
            axis: Axis::times,
            point: |case, _| quantile(case, 0.99),
            print: time,
            saved: "p99_ns",
        });
    }
    views.push(View {
        name: "CPU time of a message, both ends".into(),
        axis: Axis::times,
        point: |case, _| cpu(case),
        print: time,
        saved: "cpu_ns",
    });
    views
}

fn picture(scene: &Scene<'_>) -> Drawn {
    let grid = scene.grid();
    let workload = scene.run.header.plan.workload;
    // Rates at one size are a load curve; calls and periodic runs have figures of their own.
    if !workload.in_rounds || grid.in_pieces() || grid.shapes.len() < 2 || !scene.summary.load_curves.is_empty() {
        return Drawn::Nothing;
    }
    let stream = scene.measured().iter().any(|case| case.throughput.is_some());
    let comparison = scene.summary.comparison.as_ref();
    let mut data = DataTable::new(&[("path", "path"), ("threads", "threads"), ("size", "size_bytes")]);
    let all = views(scene, stream);
    for view in &all {
        data.head(view.name.clone(), view.saved);
        data.head("range from", format!("{}_low", view.saved));
        data.head("to", format!("{}_high", view.saved));
    }
    for case in scene.measured() {
        let mut row = vec![
            case.case.path.to_string().into(),
            Datum::count(u64::from(case.case.threads)),
            Datum::Number(case.case.size as f64, units::size(case.case.size)),
        ];
        for view in &all {
            let show = |value: f64| Datum::Number(value, (view.print)(value));
            let point = (view.point)(case, comparison);
            let of = |value: Option<f64>| value.map_or(Datum::Missing, show);
            row.push(point.as_ref().map_or(Datum::Missing, |point| show(point.y)));
            row.extend([
                of(point.as_ref().and_then(|point| point.low)),
                of(point.as_ref().and_then(|point| point.high)),
            ]);
        }
        data.row(row);
    }
    let (mut panels, mut shown) = (Vec::new(), Vec::new());
    for view in all {
        let drawn: Vec<Svg> = grid.threads.iter().filter_map(|threads| panel(scene, &grid, &view, *threads)).collect();
        if !drawn.is_empty() {
            shown.push((view.name, drawn.len()));
            panels.extend(drawn);
        }
    }
    if panels.is_empty() {
        return Drawn::Nothing;
    }
    Drawn::Picture(Picture { panels, views: shown, data, ..Picture::default() })
}

fn lines(grid: &Grid, comparison: Option<&Comparison>, view: &View, threads: u32) -> Vec<Line> {
    let line = |path: &&msgpath_core::PathName| {
        let cases = grid.shapes.iter().filter_map(|shape| grid.case(path, *shape, threads));
        let mut points: Vec<Point> = cases.filter_map(|case| (view.point)(case, comparison)).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Line { label: path.to_string(), points, ..Line::default() }
    };
    grid.paths.iter().map(line).collect()
}

fn panel(scene: &Scene<'_>, grid: &Grid, view: &View, threads: u32) -> Option<Svg> {
    let mut all = lines(grid, scene.summary.comparison.as_ref(), view, threads);
    if let Some(earlier) = &scene.earlier {
        let before = Grid::new(earlier.summary);
        let within = across(&all);
        beside(&mut all, lines(&before, earlier.summary.comparison.as_ref(), view, threads), within);
    }
    // A range that reaches to the moon would flatten the rest: it is cut where the frame ends.
    let values = all.iter().flat_map(|line| &line.points).map(|point| point.y);
    let (low, high) = range(values)?;
    let (least, most) = extent(&all)?;
    let reach = (least.max(low / 1.6), most.min(high * 1.6));
    let name = match grid.threads.len() {
        1 => format!("{} (log)", view.name),
        _ => format!("{}, {} (log)", view.name, words::counted(u64::from(threads), "thread")),
    };
    let x = Axis::sizes(grid.shapes.iter().map(|shape| shape.size));
    let mut chart = Chart::new(SIZE, &x, &(view.axis)(&name, reach));
    chart.paths();
    if view.saved == "ratio" {
        let (left, right, ..) = chart.frame();
        let at = chart.y.at(1.0);
        chart.drawing.line("axis", (left, at), (right, at));
    }
    chart.lines(&all);
    Some(chart.finish(&format!("{name} against message size")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;
    use crate::fixture;

    #[test]
    fn all_paths_in_every_view() {
        let (run, summary) = fixture::compare();
        let Drawn::Picture(picture) = picture(&Scene::new(&run, &summary)) else { panic!("a picture") };
        let names: Vec<&str> = picture.views.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["median round trip", "ratio to tcp:send", "p99", "CPU time of a message, both ends"]);
        let threads = Scene::new(&run, &summary).grid().threads.len();
        assert!(picture.views.iter().all(|(_, panels)| *panels == threads));
        for panel in &picture.panels {
            assert_eq!(panel.markup().matches("class=\"b name f").count(), 3, "a line for each path");
        }
        for (run, summary) in [fixture::shapes(), fixture::stream(), fixture::echo(), fixture::load_curve()] {
            assert_eq!(drawn(&FIGURE, &Scene::new(&run, &summary)), "nothing");
        }
    }

    #[test]
    fn streams_and_single_paths_have_one_too() {
        for ((run, summary), first) in
            [(fixture::stream_sizes(), "throughput"), (fixture::echo_sizes(), "median round trip")]
        {
            let Drawn::Picture(picture) = picture(&Scene::new(&run, &summary)) else { panic!("a picture") };
            assert_eq!(picture.views[0].0, first);
        }
    }
}
