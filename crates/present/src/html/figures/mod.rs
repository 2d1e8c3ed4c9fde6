//! The pictures of the report: one file each, and one line in [`FIGURES`].
//!
//! A figure is a question with its picture. In the page it is `<figure id="fig-NAME">`; numbers for the script stand in
//! a JSON block `data-NAME` (`encode::json_block`, in [`Picture::after`]), positions in the attribute
//! `data-geo` of its SVG ([`crate::svg::Drawing::attribute`]). No figure computes a statistic.

mod axes;
mod bars;
pub mod chart;
mod conditions;
mod cost;
mod counters;
mod crossover;
mod data;
mod heat;
mod load;
mod points;
mod ridges;
mod rpc_calls;
mod rpc_clock;
mod rpc_first;
mod rpc_parts;
mod shift;
mod spectrum;
mod spread;
mod stages;
#[cfg(test)]
mod testing;
mod threads;
mod throughput;
mod timeline;
mod winners;

use crate::svg::{Svg, escape};

use super::encode;
use super::page::{Cell, Page};
use super::scene::Scene;
pub use axes::tick_name;
pub(crate) use axes::{chosen, short, time_axis, time_ticks_left};
pub use data::{DataTable, Datum};

/// A picture of the report.
#[derive(Debug)]
pub struct Figure {
    /// What is typed after `--figure`.
    pub name: &'static str,
    /// The heading.
    pub question: &'static str,
    /// One line: how to read it.
    pub how: &'static str,
    /// Draws it.
    pub draw: fn(&Scene<'_>) -> Drawn,
}

/// What became of a figure.
pub enum Drawn {
    /// It does not concern this run; the page does not mention it.
    Nothing,
    /// It would concern the run, but the data is not there: why, and what to type to have it.
    Unavailable(String),
    /// Here it is.
    Picture(Picture),
}

/// A picture with its numbers.
#[derive(Default)]
pub struct Picture {
    /// One or more drawings, side by side where there is room.
    pub panels: Vec<Svg>,
    /// The numbers, shown in a folded table and offered as CSV; no table where there is no head.
    pub data: DataTable,
    /// What this run adds to [`Figure::how`]; may be empty.
    pub note: String,
    /// Markup behind the drawings: a canvas, buttons, JSON blocks. Text of others must have gone through
    /// [`escape`].
    pub after: String,
}

/// Every figure, in the order of the page.
pub static FIGURES: &[Figure] = &[
    shift::FIGURE,
    crossover::FIGURE,
    winners::FIGURE,
    spectrum::FIGURE,
    rpc_parts::FIGURE,
    rpc_first::FIGURE,
    stages::FIGURE,
    heat::FIGURE,
    conditions::FIGURE,
    timeline::FIGURE,
    rpc_calls::FIGURE,
    rpc_clock::FIGURE,
    points::FIGURE,
    load::FIGURE,
    throughput::FIGURE,
    bars::FIGURE,
    threads::LATENCY,
    threads::SCALING,
    cost::FIGURE,
    ridges::FIGURE,
    spread::FIGURE,
    counters::KERNEL,
    counters::CYCLES,
];

/// The figure of this name.
pub fn figure(name: &str) -> Option<&'static Figure> {
    FIGURES.iter().find(|figure| figure.name == name)
}

/// Paths or sizes in one drawing: as many as there are colours with a dash pattern (`s0` ... of the style sheet).
pub(crate) const SERIES: usize = 4;

/// What a figure says where it shows some of the cases.
pub(crate) fn some_of(shown: usize, all: usize) -> Option<String> {
    (shown < all).then(|| format!("{shown} of {all} cases are shown."))
}

/// Writes every figure that concerns the run.
pub(crate) fn all(page: &mut Page, scene: &Scene<'_>) {
    page.raw("<div class=\"figures\">\n");
    let drawn = FIGURES.iter().map(|figure| (figure, (figure.draw)(scene)));
    for (number, (figure, drawn)) in (1..).zip(drawn.filter(|(_, drawn)| !matches!(drawn, Drawn::Nothing))) {
        page.raw(&format!(
            "<figure id=\"fig-{name}\" aria-labelledby=\"head-{name}\">\n<h2 id=\"head-{name}\">{number} · {}</h2>\n",
            escape(figure.question),
            name = figure.name
        ));
        match drawn {
            Drawn::Nothing => {}
            Drawn::Unavailable(why) => page.raw(&format!("<p class=\"na\">n/a: {}</p>\n", escape(&why))),
            Drawn::Picture(picture) => show(page, figure, &picture),
        }
        page.raw("</figure>\n");
    }
    page.raw("</div>\n");
}

fn show(page: &mut Page, figure: &Figure, picture: &Picture) {
    page.raw(&format!("<p class=\"q\">{}", escape(figure.how)));
    if !picture.note.is_empty() {
        page.raw(&format!("<br>{}", escape(&picture.note)));
    }
    page.raw("</p>\n");
    if !picture.panels.is_empty() {
        let panels: String = picture.panels.iter().map(Svg::markup).collect();
        page.raw(&format!("<div class=\"panels\">\n{panels}</div>\n"));
    }
    page.raw(&picture.after);
    if picture.data.heads.is_empty() {
        return;
    }
    page.raw(&format!(
        "<details><summary>Numbers</summary>\n<a class=\"csv\" download=\"{}.csv\" href=\"data:text/csv;charset=utf-8,{}\">copy as CSV</a>\n",
        figure.name,
        encode::percent(&picture.data.csv())
    ));
    let heads: Vec<String> = picture.data.heads.iter().map(|(shown, _)| shown.clone()).collect();
    let cell = |datum: &Datum| match datum {
        Datum::Text(text) => Cell::of("l", text.as_str()),
        other => other.shown().into(),
    };
    let rows: Vec<Vec<Cell>> = picture.data.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    page.table(&heads, &rows);
    page.raw("</details>\n");
}
