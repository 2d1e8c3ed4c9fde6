//! The metric of every path at every size, with the paths marked that no path beats.

use msgpath_analyse::summary::Comparison;
use msgpath_core::units::{self, Glyphs};

use super::{DataTable, Datum, Drawn, Figure, Picture, Scene};
use crate::svg::{Anchor, Drawing, Svg};
use crate::terminal::{absolute, metric_name};
use crate::view::Grid;
use crate::words;

pub(super) const FIGURE: Figure = Figure {
    name: "winners",
    heading: "The best path at each size",
    how: "Blue: no path is shown to be better at this size (95 %). One blue cell in a column is the winner, several tie; none: all tie.",
    draw: picture,
};

const CELL: (f64, f64) = (84.0, 30.0);
const LEFT: f64 = 128.0;
const TOP: f64 = 46.0;

fn picture(scene: &Scene<'_>) -> Drawn {
    let grid = scene.grid();
    let Some(comparison) = scene.summary.comparison.as_ref().filter(|comparison| !comparison.winners.is_empty()) else {
        return Drawn::Nothing;
    };
    let mut data = DataTable::new(&[
        ("size", "size_bytes"),
        ("pieces", "pieces"),
        ("threads", "threads"),
        ("winner at 95 %", "winner"),
        ("nothing beats", "unbeaten"),
        ("best estimate", "best"),
        ("second best / best", "ratio"),
    ]);
    for winner in &comparison.winners {
        data.row([
            Datum::Number(winner.size as f64, units::size(winner.size)),
            winner.pieces.as_str().into(),
            Datum::count(u64::from(winner.threads)),
            winner.path.as_ref().map_or_else(|| "none".into(), ToString::to_string).into(),
            winner.unbeaten.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ").into(),
            winner.best.to_string().into(),
            winner.margin.map_or(Datum::Missing, Datum::number),
        ]);
    }
    let panels = grid.threads.iter().map(|threads| panel(&grid, comparison, *threads)).collect();
    Drawn::Picture(Picture { panels, data, ..Picture::default() })
}

/// One row a path, one column a size.
fn panel(grid: &Grid, comparison: &Comparison, threads: u32) -> Svg {
    let width = LEFT + CELL.0 * grid.shapes.len() as f64 + 1.0;
    let height = TOP + CELL.1 * grid.paths.len() as f64 + 1.0;
    let mut drawing = Drawing::new(width, height);
    let metric = comparison.metric.as_str();
    let heading = format!("{}, {}", metric_name(metric, grid.timed()), words::counted(u64::from(threads), "thread"));
    drawing.text("b", (0.0, 14.0), Anchor::Start, &heading);
    for (column, shape) in grid.shapes.iter().enumerate() {
        let x = LEFT + CELL.0 * column as f64;
        drawing.text("m", (x + CELL.0 / 2.0, TOP - 9.0), Anchor::Middle, &grid.head(*shape, false));
    }
    for (row, path) in grid.paths.iter().enumerate() {
        let y = TOP + CELL.1 * row as f64;
        let middle = y + CELL.1 / 2.0 + 4.0;
        drawing.text("m", (LEFT - 10.0, middle), Anchor::End, &path.to_string());
        for (column, shape) in grid.shapes.iter().enumerate() {
            let x = LEFT + CELL.0 * column as f64;
            let value = match grid.case(path, *shape, threads) {
                Some(case) => absolute(case, metric, Glyphs::Unicode),
                None => "n/a".into(),
            };
            let title = format!("{path}, {}: {value}", grid.head(*shape, false));
            let unbeaten = grid.is_unbeaten(comparison, path, *shape, threads);
            let (class, strength, text) = if unbeaten { ("cell f1", 0.35, "b") } else { ("cell empty", 1.0, "m") };
            drawing.rectangle(class, (x, y), CELL, strength, &title);
            drawing.text(text, (x + CELL.0 / 2.0, middle), Anchor::Middle, &value);
        }
    }
    drawing.finish("The metric of each path at each size; marked where no path beats it")
}
