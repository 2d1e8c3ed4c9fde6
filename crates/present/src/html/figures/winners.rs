//! Winner map: just tell me what to use. Sizes by threads; a letter for the winner, a dot where there is none.

use msgpath_analyse::summary::{Comparison, Winner};
use msgpath_core::units::three_digits;

use msgpath_core::units;

use super::{DataTable, Datum, Drawn, Figure, Picture, Scene};
use crate::svg::{Anchor, Drawing, Svg};
use crate::terminal::{letter, letters};
use crate::view::Grid;
use crate::words;

pub(super) const FIGURE: Figure = Figure {
    name: "winners",
    question: "Just tell me what to use",
    how: "A letter is a path that nothing beats at 95 %; several letters tie, · means that all do. The number is how many times slower the second best is. Blue: the winner is not the baseline, orange: the baseline wins; stronger: by more.",
    draw: picture,
};

const CELL: (f64, f64) = (68.0, 42.0);
const LEFT: f64 = 84.0;
const TOP: f64 = 26.0;

fn picture(scene: &Scene<'_>) -> Drawn {
    let grid = scene.grid();
    let Some(comparison) = scene.summary.comparison.as_ref().filter(|comparison| !comparison.winners.is_empty()) else {
        return Drawn::Nothing;
    };
    let names: Vec<String> = grid.paths.iter().enumerate().map(|(at, path)| format!("{} {path}", letter(at))).collect();
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
    let panels = vec![draw(&grid, comparison)];
    Drawn::Picture(Picture { panels, data, note: names.join(", "), ..Picture::default() })
}

fn list(winner: &Winner) -> String {
    winner.unbeaten.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn draw(grid: &Grid, comparison: &Comparison) -> Svg {
    let width = LEFT + CELL.0 * grid.shapes.len() as f64 + 1.0;
    let height = TOP + CELL.1 * grid.threads.len() as f64 + 1.0;
    let mut drawing = Drawing::new(width, height);
    for (column, shape) in grid.shapes.iter().enumerate() {
        let x = LEFT + CELL.0 * column as f64;
        drawing.text("m", (x + CELL.0 / 2.0, TOP - 9.0), Anchor::Middle, &grid.head(*shape, false));
        for (row, threads) in grid.threads.iter().enumerate() {
            let y = TOP + CELL.1 * row as f64;
            let centre = (x + CELL.0 / 2.0, y + CELL.1 / 2.0);
            let Some(winner) = grid.winner(comparison, *shape, *threads) else {
                drawing.rectangle("cell empty", (x, y), CELL, 1.0, "not measured");
                drawing.text("m", (centre.0, centre.1 + 4.0), Anchor::Middle, "n/a");
                continue;
            };
            let margin = winner.margin.map_or_else(String::new, |margin| format!("{}×", three_digits(margin)));
            let known =
                winner.path.as_ref().and_then(|path| Some((path, grid.paths.iter().position(|known| *known == path)?)));
            match known {
                Some((path, at)) => {
                    let colour = if *path == comparison.baseline { "f2" } else { "f1" };
                    // Twice as fast or more has the full strength, 0.45, at which the text still reads well.
                    let strength =
                        winner.margin.map_or(0.1, |margin| (0.1 + 0.35 * margin.log2().clamp(0.0, 1.0)).min(0.45));
                    let title = format!("{}, {threads} threads: {path} {margin}", grid.head(*shape, false));
                    drawing.rectangle(&format!("cell {colour}"), (x, y), CELL, strength, &title);
                    drawing.text("b", (centre.0, centre.1 - 2.0), Anchor::Middle, &letter(at));
                    drawing.text("m", (centre.0, centre.1 + 14.0), Anchor::Middle, &margin);
                }
                None => {
                    let title = format!(
                        "{}, {threads} threads: no winner at 95 %; best estimate {}",
                        grid.head(*shape, false),
                        winner.best
                    );
                    let tied = letters(grid, winner);
                    let (title, text) = match tied.as_str() {
                        "" => (title, "·"),
                        tied => (format!("{title}; {} tie", list(winner)), tied),
                    };
                    drawing.rectangle("cell empty", (x, y), CELL, 1.0, &title);
                    drawing.text("m", (centre.0, centre.1 + 4.0), Anchor::Middle, text);
                }
            }
        }
    }
    for (row, threads) in grid.threads.iter().enumerate() {
        let y = TOP + CELL.1 * (row as f64 + 0.5) + 4.0;
        drawing.text("m", (LEFT - 10.0, y), Anchor::End, &words::counted(u64::from(*threads), "thread"));
    }
    drawing.finish("The fastest path for each message size and thread count")
}
