//! From an analysed run to what people read: terminal tables, JSON, SVG pictures and the HTML report.
//!
//! Nothing here computes a statistic. Every number that is shown stands in the [`Summary`](msgpath_analyse::Summary),
//! in the trial table of [`msgpath_analyse::trials`], or is read off the merged histograms of the rounds.
//!
//! `terminal/`, `json.rs`, `svg/`, `html/`. `json/schema.rs` makes the JSON Schema of the types that `--json` prints (with
//! their comments); a field that it does not name fails the tests. `columns.rs` has the columns of tables of cases, for every place that
//! has such a table. `words.rs` holds the phrases that terminal and report share, `view.rs` the grid;
//! `export/` has one file for each format that needs the analysis.
//!
//! Every result in the terminal has one order, which `terminal/answer.rs` keeps: what was run, the findings that answer, the
//! table, a line for each kind of warnings, the next command. A test asserts that its first number stands in the first 25
//! lines at 80 columns, whatever warnings there are. The rest stands behind `-v`, warnings in full behind `-W`.
//!
//! `html/` writes the report: `front.rs` the first screen (sentence, picture, chips), then figures and tables, folded, with
//! contents. `html/figures/` has one file per figure, listed in `FIGURES` in the order of the page; `ANSWERS` there says which
//! one is large; `scene.rs` is what a figure may look at: the run, its summary, its message log, and
//! the earlier run of a comparison. A figure answers `Nothing` (it does not concern this run), `Unavailable` (with the
//! command that records what is missing) or a `Picture`: drawings, a table that is CSV as well, and JSON blocks for the
//! script. Curves and maps that no table prints are not in `Summary`; `analyse` computes them when they are drawn
//! (`spectrum`, `stages`, `heat`, `strips`, `diff::shift`). `html/style/figures.css` goes into every picture that is saved as
//! a file, so it holds colours as tokens and nothing of the page.
//!
//! `answers/` has the types of a page of questions and answers (typed tables and cells, sentences with their confidence) and
//! writes such a page: text, HTML, JSON, CSV of every table. What is asked is for `courses`.
//!
//! `html/script/readouts.js` reads off every drawing whose shapes have titles, so a figure needs no script of its own for that.
//! `open_metrics.rs` writes a run as OpenMetrics.
//!
//! Invariant: `present` never computes a statistic. Invariant: no meaning rests on colour
//! alone, and no line is wider than the terminal but a command to be copied. Invariant: the report is one
//! file that needs no network.
#![forbid(unsafe_code)]

pub mod answers;
pub mod columns;
pub mod export;
pub mod html;
pub mod json;
pub mod matplotlib;
pub mod open_metrics;
mod packed;
mod programs;
pub mod section;
pub mod svg;
pub mod terminal;
#[cfg(test)]
mod test_one_value;
pub mod view;
pub mod words;

#[cfg(any(test, feature = "testing"))]
pub mod fixture;

pub use terminal::Style;
pub use words::{about_size, counted, percent, senders_until};
