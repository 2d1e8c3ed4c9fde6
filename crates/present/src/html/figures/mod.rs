//! The pictures of the report: one file each, and one line in [`FIGURES`].
//!
//! A figure is a heading with its picture. In the page it is `<figure id="fig-NAME">`; numbers for the script stand in
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
pub mod lanes;
mod load;
mod picture;
mod points;
mod ridges;
mod rounds;
mod shift;
mod sizes;
mod spectrum;
mod spread;
pub mod stages;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod threads;
mod throughput;
mod timeline;
mod winners;

use crate::section;
use crate::svg::{Svg, escape};

use super::encode;
use super::page::{Cell, Page};
use super::scene::Scene;
pub use axes::{chosen, every, round_axis, short, tick_name, time_ticks_left};
pub use data::{DataTable, Datum};
pub use lanes::{Bar, Lanes, wide};
use picture::HUES;
pub use picture::{Drawn, Figure, Picture};
pub use picture::{SERIES, hue, some_of};
pub use stages::{Divided, HATCH, Part, colour, hatched};

/// Every figure, in the order of the page.
pub static FIGURES: &[Figure] = &[
    sizes::FIGURE,
    shift::FIGURE,
    crossover::FIGURE,
    winners::FIGURE,
    rounds::FIGURE,
    spectrum::FIGURE,
    stages::FIGURE,
    heat::FIGURE,
    conditions::FIGURE,
    timeline::FIGURE,
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

/// Every figure of this program, in the order of the page.
pub fn all() -> Vec<&'static Figure> {
    leading().chain(FIGURES).chain(section::all().flat_map(|section| section.figures)).collect()
}

/// Those that features have before the others.
fn leading() -> impl Iterator<Item = &'static Figure> {
    section::all().flat_map(|section| section.leading)
}

pub fn figure(name: &str) -> Option<&'static Figure> {
    all().into_iter().find(|figure| figure.name == name)
}

/// A figure and what became of it.
pub type Done = (&'static Figure, Drawn);

/// Every figure that concerns the run, drawn.
pub fn drawn(scene: &Scene<'_>) -> Vec<Done> {
    let drawn = all().into_iter().map(|figure| (figure, (figure.draw)(scene)));
    drawn.filter(|(_, drawn)| !matches!(drawn, Drawn::Nothing)).collect()
}

/// The figures that answer what a verb of the base asks, the best first: the first of them that could be drawn is the picture of
/// the first screen, where no feature has one before them.
const ANSWERS: [&str; 6] = ["load", "sizes", "latency-threads", "bars", "rounds", "spectrum"];

/// Where a figure stands among those that answer: the lower, the sooner.
pub fn rank(figure: &Figure) -> usize {
    let answers = section::all().flat_map(|section| section.answers).copied();
    let mut names = answers.chain(leading().map(|figure| figure.name)).chain(ANSWERS);
    names.position(|name| name == figure.name).unwrap_or(usize::MAX)
}

/// The picture of the first screen; of two runs there are two, what both took and by how much it changed.
pub fn first(scene: &Scene<'_>, drawn: &[Done]) -> Vec<&'static str> {
    let there =
        |name: &&str| drawn.iter().any(|(figure, drawn)| figure.name == *name && matches!(drawn, Drawn::Picture(_)));
    if scene.earlier.is_some() {
        let both: Vec<&'static str> = ["spectrum", "shift"].into_iter().filter(|name| there(name)).collect();
        if !both.is_empty() {
            return both;
        }
    }
    let of_run = || drawn.iter().find(|(_, drawn)| matches!(drawn, Drawn::Picture(_))).map(|(figure, _)| figure.name);
    leading().map(|figure| figure.name).chain(ANSWERS).find(there).or_else(of_run).into_iter().collect()
}

/// Writes the pictures of the first screen.
pub(crate) fn large(page: &mut Page, drawn: &[Done], names: &[&str]) {
    if names.is_empty() {
        return;
    }
    page.raw(&format!("<div class=\"first n{}\">\n", names.len()));
    for name in names {
        let Some((figure, Drawn::Picture(picture))) = drawn.iter().find(|(figure, _)| figure.name == *name) else {
            continue;
        };
        page.listed(&format!("fig-{name}"), figure.heading);
        page.raw(&format!(
            "<figure id=\"fig-{name}\" aria-labelledby=\"head-{name}\">\n<h2 id=\"head-{name}\">{}</h2>\n",
            escape(figure.heading)
        ));
        show(page, figure, picture);
        page.raw("</figure>\n");
    }
    page.raw("</div>\n");
}

/// Writes the other figures, each folded behind its heading, and what could not be drawn behind a single line. `earlier`:
/// the same figures of the run that this one is compared with.
pub(crate) fn folded(page: &mut Page, drawn: &[Done], large: &[&str], earlier: Option<(&str, &str, &[Done])>) {
    let mut missing: Vec<String> = Vec::new();
    for (figure, drawn) in drawn.iter().filter(|(figure, _)| !large.contains(&figure.name)) {
        let name = figure.name;
        match drawn {
            Drawn::Nothing => {}
            Drawn::Unavailable(why) => missing.push(format!("{} n/a: {why}", figure.heading)),
            Drawn::Picture(picture) => {
                page.fold(&format!("fold-{name}"), figure.heading, false);
                page.raw(&format!("<figure id=\"fig-{name}\">\n"));
                match earlier {
                    Some((of_earlier, of_later, all)) if !is_once(name) => {
                        let other = all.iter().find(|(other, _)| other.name == name);
                        page.raw(&format!("<h3>{}, later</h3>\n", escape(of_later)));
                        show(page, figure, picture);
                        page.raw(&format!("<h3>{}, earlier</h3>\n", escape(of_earlier)));
                        match other {
                            // Numbers for the script are those of the later run.
                            Some((_, Drawn::Picture(other))) => drawings(page, other, &format!("{name}-earlier")),
                            Some((_, Drawn::Unavailable(why))) => {
                                page.raw(&format!("<p class=\"na\">n/a: {}</p>\n", escape(why)));
                            }
                            _ => page.raw("<p class=\"na\">n/a: the earlier run has nothing to show here</p>\n"),
                        }
                    }
                    _ => show(page, figure, picture),
                }
                page.raw("</figure>\n");
            }
        }
    }
    page.end_section();
    if !missing.is_empty() {
        let count = missing.len();
        let name = if count == 1 {
            "1 picture could not be drawn".into()
        } else {
            format!("{count} pictures could not be drawn")
        };
        page.raw(&format!("<details class=\"fold\" id=\"not-drawn\">\n<summary><h2>{name}</h2></summary>\n"));
        for why in missing {
            page.raw(&format!("<p class=\"na\">{}</p>\n", escape(&why)));
        }
        page.raw("</details>\n");
    }
}

/// Figures that have both runs in one drawing, or a canvas, of which there is one.
const BOTH: [&str; 9] =
    ["spectrum", "shift", "timeline", "sizes", "load", "rounds", "throughput", "latency-threads", "scaling"];

/// Whether a page of two runs has the figure of this name once.
fn is_once(name: &str) -> bool {
    BOTH.contains(&name) || section::all().any(|section| section.once.contains(&name))
}

fn show(page: &mut Page, figure: &Figure, picture: &Picture) {
    page.raw(&format!("<p class=\"q\">{}", escape(figure.how)));
    if !picture.note.is_empty() {
        page.raw(&format!(" {}", escape(&picture.note)));
    }
    page.raw("</p>\n");
    drawings(page, picture, figure.name);
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

/// The drawings, or their views, of which a reader chooses one without any script. `id` is the name that the choice has in
/// the page.
fn drawings(page: &mut Page, picture: &Picture, id: &str) {
    let all = |panels: &[Svg]| -> String {
        format!("<div class=\"panels\">\n{}</div>\n", panels.iter().map(Svg::markup).collect::<String>())
    };
    if picture.panels.is_empty() {
        return;
    }
    if picture.views.len() < 2 {
        return page.raw(&all(&picture.panels));
    }
    page.raw("<div class=\"views\">\n");
    for (at, (name, _)) in picture.views.iter().enumerate() {
        let checked = if at == 0 { " checked" } else { "" };
        page.raw(&format!(
            "<input type=\"radio\" name=\"view-{id}\" id=\"view-{id}-{at}\"{checked}><label for=\"view-{id}-{at}\">{}</label>\n",
            escape(name)
        ));
    }
    let mut from = 0;
    for (_, count) in &picture.views {
        let to = (from + count).min(picture.panels.len());
        page.raw(&all(&picture.panels[from..to]));
        from = to;
    }
    page.raw("</div>\n");
}
