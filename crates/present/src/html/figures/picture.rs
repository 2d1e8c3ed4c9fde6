//! What a figure is, and what it draws with.

use crate::html::scene::Scene;
use crate::svg::Svg;

use super::data::DataTable;

/// A picture of the report.
#[derive(Debug)]
pub struct Figure {
    /// What is typed after `--figure`.
    pub name: &'static str,
    pub heading: &'static str,
    /// One line: how to read it.
    pub how: &'static str,
    pub draw: fn(&Scene<'_>) -> Drawn,
}

/// What became of a figure.
pub enum Drawn {
    /// It does not concern this run; the page does not mention it.
    Nothing,
    /// It would concern the run, but the data is not there: why, and what to type to have it.
    Unavailable(String),
    Picture(Picture),
}

/// A picture with its numbers.
#[derive(Default)]
pub struct Picture {
    /// One or more drawings, side by side where there is room.
    pub panels: Vec<Svg>,
    /// Where the drawings are views of the same thing: the name of each view and how many drawings it has. One view is
    /// shown at a time.
    pub views: Vec<(String, usize)>,
    /// The numbers, shown in a folded table and offered as CSV; no table where there is no head.
    pub data: DataTable,
    /// What this run adds to [`Figure::how`]; may be empty.
    pub note: String,
    /// Markup behind the drawings: a canvas, buttons, JSON blocks. Text of others must have gone through
    /// [`escape`](crate::svg::escape).
    pub after: String,
}

/// Paths or sizes in one drawing.
pub const SERIES: usize = 16;
/// Colours, each with a dash pattern of its own (`s0` ... of the style sheet). Where there are more series than that, the
/// label at the end of a line tells those of one colour apart.
pub(super) const HUES: usize = 8;

/// The colour of the n-th series.
pub fn hue(at: usize) -> usize {
    at % HUES
}

/// What a figure says where it shows some of the cases.
pub fn some_of(shown: usize, all: usize) -> Option<String> {
    (shown < all).then(|| format!("{shown} of {all} cases are shown."))
}
