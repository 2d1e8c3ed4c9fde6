//! Cost dots: faster, but at what price? A row for each path, a column for each price.

use msgpath_analyse::summary::{CaseSummary, Cost};
use msgpath_core::schema::{FAR, NEAR};

use super::super::G;
use super::{DataTable, Datum, Drawn, Figure, Picture, Scene, short};
use crate::svg::{Anchor, Drawing, Scale, Svg};
use crate::view::{self, Grid};
use crate::words;

pub(super) const FIGURE: Figure = Figure {
    name: "cost",
    heading: "CPU time and system calls per message",
    how: "Cost of one message, mean over all rounds; every column begins at 0, and all counts have one scale. ● near end, ○ far end. What could not be counted says n/a and why.",
    draw: picture,
};

const LEFT: f64 = 140.0;
const COLUMN: f64 = 168.0;
const ROW: f64 = 24.0;
const TOP: f64 = 40.0;

/// A price: at both ends, or once for both together.
struct Price {
    name: &'static str,
    saved: &'static str,
    near: fn(&CaseSummary) -> Option<f64>,
    far: Option<fn(&CaseSummary) -> Option<f64>>,
    print: fn(f64) -> String,
    /// A count: all of them have one scale.
    count: bool,
}

/// A price of an end whose counters were read.
fn read(cost: &Cost, of: fn(&Cost) -> f64) -> Option<f64> {
    cost.is_whole().then(|| of(cost))
}

const PRICES: [Price; 6] = [
    Price {
        name: "CPU time",
        saved: "cpu_ns",
        near: |case| case.end(NEAR).cost.cpu_ns(),
        far: Some(|case| case.end(FAR).cost.cpu_ns()),
        print: |ns| G.time(ns),
        count: false,
    },
    Price {
        name: "system calls",
        saved: "calls",
        near: |case| case.end(NEAR).cost.system_calls(),
        far: Some(|case| case.end(FAR).cost.system_calls()),
        print: words::per_message,
        count: true,
    },
    Price {
        name: "voluntary switches",
        saved: "voluntary_switches",
        near: |case| read(&case.end(NEAR).cost, |cost| cost.voluntary),
        far: Some(|case| read(&case.end(FAR).cost, |cost| cost.voluntary)),
        print: words::per_message,
        count: true,
    },
    Price {
        name: "forced switches",
        saved: "involuntary_switches",
        near: |case| read(&case.end(NEAR).cost, |cost| cost.involuntary),
        far: Some(|case| read(&case.end(FAR).cost, |cost| cost.involuntary)),
        print: words::per_message,
        count: true,
    },
    Price {
        name: "page faults",
        saved: "page_faults",
        near: |case| read(&case.end(NEAR).cost, |cost| cost.faults),
        far: Some(|case| read(&case.end(FAR).cost, |cost| cost.faults)),
        print: words::per_message,
        count: true,
    },
    Price {
        name: "copied, both ends ●",
        saved: "copied_bytes",
        near: |case| case.copied.bytes,
        far: None,
        print: words::about_size,
        count: false,
    },
];

fn picture(scene: &Scene<'_>) -> Drawn {
    let grid = scene.grid();
    let (Some(shape), Some(threads)) = (grid.shapes.get(grid.shapes.len() / 2), grid.threads.first()) else {
        return Drawn::Nothing;
    };
    let cases: Vec<&CaseSummary> =
        grid.paths.iter().filter_map(|path| grid.case(path, *shape, *threads)).filter(|case| case.rounds > 0).collect();
    if cases.len() < 2 {
        return Drawn::Nothing;
    }
    let mut note =
        format!("Messages of {}, {}.", grid.head(*shape, false), words::counted((*threads).into(), "thread"));
    let mut whys: Vec<String> = Vec::new();
    for case in cases.iter().filter(|case| case.copied.bytes.is_none() && !case.copied.why.is_empty()) {
        view::push_new(&mut whys, format!("{} copied: {}.", case.case.path, case.copied.why));
    }
    // Said where there is no row for them in the table of events.
    let uncounted = |end| cases.iter().find_map(|case| msgpath_analyse::events::no_hardware(case, end));
    if let Some(why) = [NEAR, FAR].into_iter().find_map(uncounted) {
        whys.push(format!("Cache misses: n/a: {why}."));
    }
    for why in whys {
        note.push(' ');
        note.push_str(&why);
    }
    Drawn::Picture(Picture {
        panels: PRICES.chunks(3).map(|prices| draw(prices, &cases, &grid)).collect(),
        data: numbers(scene),
        note,
        ..Picture::default()
    })
}

fn numbers(scene: &Scene<'_>) -> DataTable {
    let mut data = DataTable::new(&[("path", "path"), ("message", "message"), ("threads", "threads")]);
    for price in &PRICES {
        match price.far {
            Some(_) => {
                data.head(format!("{}, near", price.name), format!("near_{}", price.saved));
                data.head(format!("{}, far", price.name), format!("far_{}", price.saved));
            }
            None => data.head(price.name.trim_end_matches(" ●"), price.saved),
        }
    }
    for case in scene.measured() {
        let mut row = vec![
            case.case.path.to_string().into(),
            words::message_at(&case.case).into(),
            Datum::count(case.case.threads.into()),
        ];
        for price in &PRICES {
            for value in [Some(price.near), price.far].into_iter().flatten() {
                row.push(value(case).map_or(Datum::Missing, |value| Datum::Number(value, (price.print)(value))));
            }
        }
        data.row(row);
    }
    data
}

fn draw(prices: &[Price], cases: &[&CaseSummary], grid: &Grid) -> Svg {
    let bottom = TOP + ROW * cases.len() as f64;
    let mut drawing = Drawing::new(LEFT + COLUMN * prices.len() as f64, bottom + 8.0);
    for (at, case) in cases.iter().enumerate() {
        let y = TOP + ROW * (at as f64 + 0.5);
        drawing.text("", (LEFT - 10.0, y + 4.0), Anchor::End, &short(&case.case.path.to_string()));
    }
    for (column, price) in prices.iter().enumerate() {
        let left = LEFT + COLUMN * column as f64 + 6.0;
        let right = left + COLUMN - 70.0;
        let both = |case: &CaseSummary| [(price.near)(case), price.far.and_then(|far| far(case))];
        let same = PRICES.iter().filter(|other| other.name == price.name || (price.count && other.count));
        let of = |price: &Price, case: &CaseSummary| [(price.near)(case), price.far.and_then(|far| far(case))];
        let all = same.flat_map(|price| cases.iter().flat_map(move |case| of(price, case)));
        let most = all.flatten().fold(0.0, f64::max);
        let x = Scale::linear((0.0, if most > 0.0 { most } else { 1.0 }), (left, right));
        drawing.text("b", (left, 14.0), Anchor::Start, price.name);
        drawing.text("m", (left, 30.0), Anchor::Start, "0");
        if most > 0.0 {
            drawing.text("m", (right, 30.0), Anchor::Middle, &(price.print)(most));
        }
        drawing.line("axis", (left, TOP - 6.0), (left, bottom));
        for (at, case) in cases.iter().enumerate() {
            let y = TOP + ROW * (at as f64 + 0.5);
            drawing.line("grid", (left, y), (right, y));
            let [near, far] = both(case);
            // The ends lie a little apart, so that both show where they cost the same.
            for (end, value, class, aside) in [("near", near, "f1", -3.5), ("far", far, "hollow t2", 3.5)] {
                if let Some(value) = value {
                    let end = if price.far.is_some() { format!(", {end}") } else { String::new() };
                    let title = format!(
                        "{}{end}: {} {}",
                        case.case.path,
                        price.name.trim_end_matches(" ●"),
                        (price.print)(value)
                    );
                    drawing.dot(class, (x.at(value), y + aside), if class == "f1" { 4.5 } else { 4.0 }, &title);
                }
            }
            if near.is_none() {
                drawing.text("m", (left + 8.0, y + 4.0), Anchor::Start, "n/a");
            }
        }
    }
    let names: Vec<String> = cases.iter().map(|case| case.case.path.to_string()).collect();
    let size = grid.shapes.get(grid.shapes.len() / 2).map_or_else(String::new, |shape| grid.head(*shape, false));
    let what: Vec<&str> = prices.iter().map(|price| price.name.trim_end_matches(" ●")).collect();
    drawing.finish(&format!("{} of one {size} message: {}", what.join(", "), names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;
    use crate::fixture;

    #[test]
    fn what_was_not_counted_is_not_zero() {
        let (run, summary) = fixture::compare();
        let text = drawn(&FIGURE, &Scene::new(&run, &summary));
        insta::assert_snapshot!("cost", text);
        assert!(text.contains("tcp:zerocopy copied: n/a: the kernel answered for none of the sends"), "{text}");
        assert!(text.contains(">n/a</text>"));
        let (run, summary) = fixture::echo();
        assert_eq!(drawn(&FIGURE, &Scene::new(&run, &summary)), "nothing");
    }
}
