//! Throughput against the size of the message: streams.

use super::chart::{Axis, Chart, Line, Point, across, and_more, beside, extent};
use super::{DataTable, Datum, Drawn, Figure, Picture, Scene};
use crate::svg::Svg;
use crate::view::Grid;
use crate::words;

pub(super) const FIGURE: Figure = Figure {
    name: "throughput",
    heading: "Throughput, by message size",
    how: "Payload bits a second at the receiver, both axes logarithmic. Bars are 95 % intervals over rounds; a hollow point has none.",
    draw: picture,
};

fn print(bits: f64) -> String {
    words::throughput(bits, Default::default())
}

fn picture(scene: &Scene<'_>) -> Drawn {
    let grid = scene.grid();
    let streams = scene.measured().iter().any(|case| case.throughput.is_some());
    if !streams || grid.in_pieces() || grid.shapes.len() < 2 {
        return Drawn::Nothing;
    }
    let mut data = DataTable::new(&[
        ("path", "path"),
        ("size", "size_bytes"),
        ("threads", "threads"),
        ("throughput", "bits_per_s"),
        ("from", "low_bits_per_s"),
        ("to", "high_bits_per_s"),
        ("messages", "messages_per_s"),
    ]);
    for case in scene.measured() {
        let Some(throughput) = &case.throughput else { continue };
        let bits = |bits: Option<f64>| bits.map_or(Datum::Missing, |bits| Datum::Number(bits, print(bits)));
        data.row([
            case.case.path.to_string().into(),
            Datum::Number(case.case.size as f64, words::message(&case.case)),
            Datum::count(case.case.threads.into()),
            bits(Some(throughput.receiver_bits.value)),
            bits(throughput.receiver_bits.low),
            bits(throughput.receiver_bits.high),
            Datum::Number(throughput.messages.value, words::per_second(throughput.messages.value)),
        ]);
    }
    let panels = grid.threads.iter().filter_map(|threads| panel(scene, &grid, *threads)).collect();
    Drawn::Picture(Picture { panels, data, note: and_more(grid.paths.len()), ..Picture::default() })
}

/// The lines of a run, one for each path.
fn lines(grid: &Grid, threads: u32) -> Vec<Line> {
    grid.paths
        .iter()
        .map(|path| {
            let point = |shape| {
                let case = grid.case(path, shape, threads)?;
                let bits = &case.throughput.as_ref()?.receiver_bits;
                let name = format!("{path}, {}", words::message(&case.case));
                Some(Point::estimate(case.case.size as f64, bits, &name, print))
            };
            let mut points: Vec<Point> = grid.shapes.iter().filter_map(|shape| point(*shape)).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            Line { label: path.to_string(), points, ..Line::default() }
        })
        .collect()
}

fn panel(scene: &Scene<'_>, grid: &Grid, threads: u32) -> Option<Svg> {
    let mut lines = self::lines(grid, threads);
    if let Some(earlier) = &scene.earlier {
        let within = across(&lines);
        beside(&mut lines, self::lines(&Grid::new(earlier.summary), threads), within);
    }
    let of = words::counted(threads.into(), "thread");
    let x = Axis::sizes(grid.shapes.iter().map(|shape| shape.size));
    let y = Axis::values(&format!("throughput, {of} (log)"), extent(&lines)?, |bits| words::chosen(&print(bits)));
    let mut chart = Chart::new((600.0, 320.0), &x, &y);
    chart.paths();
    chart.lines(&lines);
    Some(chart.finish(&format!("Throughput against message size with {of}")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;
    use crate::fixture;

    #[test]
    fn streams_of_several_sizes() {
        let (run, summary) = fixture::stream_sizes();
        insta::assert_snapshot!("throughput", drawn(&FIGURE, &Scene::new(&run, &summary)));
        for (run, summary) in [fixture::shapes(), fixture::stream(), fixture::compare()] {
            assert_eq!(drawn(&FIGURE, &Scene::new(&run, &summary)), "nothing");
        }
    }
}
