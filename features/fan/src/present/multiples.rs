//! Each client in a small picture of its own: its round trips or its goodput in each round, all on one scale.

use msgpath_core::units::{BitUnits, Glyphs, bits_per_second};
use msgpath_present::html::Scene;
use msgpath_present::html::figures::{DataTable, Datum, Drawn, Figure, Picture};
use msgpath_present::svg::{Anchor, Drawing, Scale, Svg};

use crate::analyse::{FanDirection, FanSummary, joint, one_clock};

pub(super) const FIGURE: Figure = Figure {
    name: "clients",
    heading: "Each client by rounds",
    how: "A picture a client, all on one scale from 0; its rounds from left to right. Of a stream its goodput in the time in which all send, with a line where an equal share is. Of an echo its median round trip, with a line from its first to its ninth decile, and a line across where the median client is.",
    draw: picture,
};

/// The slowest so many have a picture.
const MOST: usize = 48;
const COLUMNS: usize = 4;
const WIDTH: f64 = 860.0;
const GAP: f64 = 18.0;
const TALL: f64 = 92.0;
const HEAD: f64 = 18.0;
const LEFT: f64 = 4.0;

/// A round of a client: the value, and of an echo the first and the ninth decile.
#[derive(Clone, Copy)]
struct Point {
    pass: u32,
    value: f64,
    deciles: Option<(f64, f64)>,
}

fn picture(scene: &Scene<'_>) -> Drawn {
    let Some(fan) = scene.summary.sections.get::<FanSummary>() else { return Drawn::Nothing };
    let each = points(scene, fan);
    if each.iter().all(Vec::is_empty) {
        return Drawn::Unavailable("no round has a time in which all clients send".into());
    }
    let echo = fan.direction == FanDirection::Both;
    let what = if echo { ("p50", "p50_ns") } else { ("goodput", "bits_per_s") };
    let mut data = DataTable::new(&[("client", "client"), ("round", "pass"), what]);
    for (client, points) in fan.each.iter().zip(&each) {
        for point in points {
            let value = if echo { Datum::ns(point.value) } else { Datum::number(point.value) };
            data.row([Datum::count(client.client.into()), Datum::count(point.pass.into()), value]);
        }
    }
    Drawn::Picture(Picture { panels: vec![draw(fan, &each)], data, ..Picture::default() })
}

fn points(scene: &Scene<'_>, fan: &FanSummary) -> Vec<Vec<Point>> {
    let mut each: Vec<Vec<Point>> = vec![Vec::new(); fan.each.len()];
    for round in scene.run.rounds.iter().filter(|round| round.clients.len() == fan.each.len()) {
        let rates = joint(&round.clients, one_clock(&scene.run.header));
        for (at, (client, points)) in round.clients.iter().zip(&mut each).enumerate() {
            let point = match fan.direction {
                FanDirection::Both => client.latency.p50_ns.map(|ns| {
                    let quantile = |p: f64| {
                        let all = &client.latency.quantiles_ns;
                        all.get((p * all.len() as f64) as usize).copied().flatten().map(|ns| ns as f64)
                    };
                    Point { pass: round.pass, value: ns as f64, deciles: quantile(0.1).zip(quantile(0.9)) }
                }),
                _ => rates.as_ref().map(|(bytes, ns)| Point {
                    pass: round.pass,
                    value: 8e9 * bytes[at] as f64 / *ns as f64,
                    deciles: None,
                }),
            };
            points.extend(point);
        }
    }
    each
}

/// The clients that have a picture, in their order: where not all have, those that are slowest.
fn chosen(fan: &FanSummary, each: &[Vec<Point>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..fan.each.len()).collect();
    if order.len() <= MOST {
        return order;
    }
    let mean = |at: &usize| each[*at].iter().map(|point| point.value).sum::<f64>() / each[*at].len().max(1) as f64;
    let slow = |at: &usize| if fan.direction == FanDirection::Both { -mean(at) } else { mean(at) };
    order.sort_by(|a, b| slow(a).total_cmp(&slow(b)));
    order.truncate(MOST);
    order.sort_unstable();
    order
}

fn draw(fan: &FanSummary, each: &[Vec<Point>]) -> Svg {
    let chosen = chosen(fan, each);
    let all = || chosen.iter().flat_map(|at| &each[*at]);
    let top = |point: &Point| point.deciles.map_or(point.value, |deciles| deciles.1.max(point.value));
    let most = all().map(top).fold(0.0, f64::max).max(1.0);
    let last = all().map(|point| point.pass).max().unwrap_or(0);
    let echo = fan.direction == FanDirection::Both;
    let print = |value: f64| if echo { Glyphs::Unicode.time(value) } else { bits_per_second(value, BitUnits::Si) };
    let line = if echo { fan.p50_ns.as_ref() } else { fan.bits_per_s.as_ref() }.map(|estimate| estimate.value);
    let line = line.map(|value| if echo { value } else { value / fan.each.len() as f64 });
    let columns = COLUMNS.min(chosen.len());
    let wide = (WIDTH - GAP * (columns as f64 - 1.0)) / columns as f64;
    let rows = chosen.len().div_ceil(columns);
    let mut drawing = Drawing::new(WIDTH, rows as f64 * (TALL + HEAD + GAP) + 4.0);
    for (place, at) in chosen.iter().enumerate() {
        let left = (place % columns) as f64 * (wide + GAP);
        let head = (place / columns) as f64 * (TALL + HEAD + GAP) + HEAD - 4.0;
        let (x, y) = (
            Scale::linear((-0.5, f64::from(last) + 0.5), (left + LEFT, left + wide)),
            Scale::linear((0.0, most), (head + 4.0 + TALL, head + 6.0)),
        );
        let client = &fan.each[*at];
        let name = if client.place.is_empty() { String::new() } else { format!(" {}", client.place) };
        let slow = Some(client.client) == fan.slowest && fan.slowest_in == fan.rounds && fan.rounds > 1;
        let mark = if slow { ", the slowest" } else { "" };
        drawing.text("b small", (left, head), Anchor::Start, &format!("{}{name}{mark}", client.client));
        let own = if echo { client.p50_ns.as_ref() } else { client.bits_per_s.as_ref() };
        if let Some(own) = own {
            drawing.text("m small", (left + wide, head), Anchor::End, &print(own.value));
        }
        drawing.line("grid", (left, y.at(0.0)), (left + wide, y.at(0.0)));
        if let Some(line) = line {
            drawing.line("grid", (left, y.at(line)), (left + wide, y.at(line)));
        }
        for point in &each[*at] {
            let middle = x.at(f64::from(point.pass));
            if let Some((low, high)) = point.deciles {
                drawing.path("ln s0", &[(middle, y.at(low)), (middle, y.at(high))]);
            }
            let title = format!("client {}, round {}: {}", client.client, point.pass + 1, print(point.value));
            drawing.dot("f0", (middle, y.at(point.value)), 2.5, &title);
        }
    }
    let label = format!("{} clients by rounds, each from 0 to {}", chosen.len(), print(most));
    drawing.finish(&label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bed;
    use msgpath_present::html::figures::testing::drawn;

    fn text(bed: &Bed) -> String {
        let run = bed.run();
        let summary = msgpath_analyse::summarise(&run);
        drawn(&FIGURE, &Scene::new(&run, &summary))
    }

    #[test]
    fn each_client_has_a_picture_with_its_rounds() {
        let stream = text(&Bed::stream(&[125e6, 125e6, 12.5e6]));
        assert_eq!(stream.matches("<circle").count(), 30, "{stream}");
        assert!(stream.contains("3, the slowest") && stream.contains("100 Mbit/s"), "{stream}");
        let echo = text(&Bed::echo(&[50_000, 60_000]));
        assert!(echo.contains("50.0 µs") && echo.matches("<circle").count() == 20, "{echo}");
    }

    #[test]
    fn of_many_clients_the_slowest_have_a_picture() {
        let mut rates = vec![1e6; 100];
        rates[70] = 1e5;
        let many = text(&Bed::stream(&rates));
        assert_eq!(many.matches("<circle").count(), MOST * 10);
        assert!(many.contains("71, the slowest"), "{many}");
    }
}
