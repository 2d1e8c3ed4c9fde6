//! What a preset's folder holds beside the page: pictures over all of its runs, and files in formats of their own.

use msgpath_analyse::answers::Part;

use super::vehicles;
use crate::svg::{self, Svg};

/// A picture of the page.
pub struct Pictured {
    /// A name for its file: small letters, digits and dashes.
    pub name: String,
    /// The heading: the question it answers.
    pub title: String,
    /// One line: how to read it.
    pub how: String,
    /// The drawings, side by side.
    pub panels: Vec<Svg>,
}

impl Pictured {
    /// The picture as an SVG file of its own.
    pub fn file(&self) -> String {
        svg::file(&self.title, &self.panels, crate::html::FIGURES)
    }
}

/// A file in a format of its own.
pub struct Extra {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub text: String,
}

/// Draws the pictures of a page.
pub type Draw = fn(&[Part<'_>]) -> Vec<Pictured>;
/// Writes the files of a page.
pub type Write = fn(&[Part<'_>]) -> Vec<Extra>;

/// Pages that have pictures of their own.
pub const PICTURES: &[(&str, Draw)] = &[
    ("copy-ladder", super::pictures::copy_ladder::draw),
    ("nagle-trap", super::writes::timers),
    ("vehicles", vehicles::pictures),
];
/// Pages that have files of their own.
pub const FILES: &[(&str, Write)] = &[
    ("copy-ladder", super::files::copy_ladder::write),
    ("vehicles", vehicles::files),
    ("write-shape", super::writes::course),
];

/// The pictures of a page.
pub fn pictures(page: &str, parts: &[Part<'_>]) -> Vec<Pictured> {
    PICTURES.iter().filter(|(name, _)| *name == page).flat_map(|(_, draw)| draw(parts)).collect()
}

/// The files of a page.
pub fn extras(page: &str, parts: &[Part<'_>]) -> Vec<Extra> {
    FILES.iter().filter(|(name, _)| *name == page).flat_map(|(_, write)| write(parts)).collect()
}
