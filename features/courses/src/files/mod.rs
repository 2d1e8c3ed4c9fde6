//! What the folder of a preset has: its page, its tables as CSV, pictures over all of its runs, and files in formats of
//! their own.

mod copy_ladder;
mod copy_ladder_pictures;
mod peers;
mod vehicles;
mod writes;

use msgpath_present::Style;
use msgpath_present::answers::{Pictured, csv, html, text};
use msgpath_present::html::figures::rank;
use msgpath_present::html::{Scene, large};
use msgpath_present::json;

use crate::answers::{Page, Part};

pub struct File {
    pub name: String,
    /// What it holds.
    pub text: String,
}

/// Draws the pictures of a page.
type Draw = fn(&[Part<'_>]) -> Vec<Pictured>;
/// Writes the files of a page.
type Write = fn(&[Part<'_>]) -> Vec<File>;

/// Pages that have pictures of their own.
const PICTURES: &[(&str, Draw)] = &[
    ("copy-ladder", copy_ladder_pictures::draw),
    ("nagle-trap", writes::timers),
    ("peers", peers::draw),
    ("vehicles", vehicles::pictures),
];
/// Pages that have files of their own.
const FILES: &[(&str, Write)] =
    &[("copy-ladder", copy_ladder::write), ("vehicles", vehicles::files), ("write-shape", writes::course)];

/// The picture of the first screen of a run's own report, and where it stands among those of others.
fn of_run(part: &Part<'_>) -> Option<(usize, Pictured)> {
    let scene = Scene { logs: Some(part.logs), ..Scene::new(part.run, part.summary) };
    let (figure, panels) = large(&scene)?;
    let picture = Pictured {
        name: format!("{}-{}", part.name, figure.name),
        title: format!("{}: {}", part.name, figure.heading),
        how: figure.how.into(),
        panels,
    };
    Some((rank(figure), picture))
}

/// Every file of a page; `name`: of a page that has questions of its own.
pub fn of(name: Option<&str>, page: &Page, parts: &[Part<'_>]) -> Vec<File> {
    let file = |name: &str, text: String| File { name: name.into(), text };
    let drawn = PICTURES.iter().filter(|(page, _)| Some(*page) == name);
    let own = drawn.flat_map(|(_, draw)| draw(parts));
    // The picture that says most first: a load curve before a spectrum.
    let mut of_runs: Vec<(usize, Pictured)> = parts.iter().filter_map(of_run).collect();
    of_runs.sort_by_key(|(rank, _)| *rank);
    let pictures: Vec<Pictured> = own.chain(of_runs.into_iter().map(|(_, picture)| picture)).collect();
    let mut files = vec![
        file("answers.html", html(page, &pictures)),
        file("answers.txt", text(page, Style::default())),
        file("answers.json", json::preset(page)),
    ];
    let tables = page.tables.iter().chain(page.answers.iter().flat_map(|answer| &answer.evidence));
    let tables = tables.filter(|table| !table.rows.is_empty());
    files.extend(tables.map(|table| file(&format!("{}.csv", table.name), csv(table))));
    files.extend(pictures.iter().map(|picture| file(&format!("{}.svg", picture.name), picture.file())));
    files.extend(FILES.iter().filter(|(page, _)| Some(*page) == name).flat_map(|(_, write)| write(parts)));
    files
}
