//! From an analysed run to what people read: terminal tables, JSON, SVG pictures and the HTML report.
//!
//! Nothing here computes a statistic. Every number that is shown stands in the [`Summary`](msgpath_analyse::Summary),
//! in the trial table of [`msgpath_analyse::trials`], or is read off the merged histograms of the rounds.
#![forbid(unsafe_code)]

pub mod answers;
pub mod export;
pub mod html;
pub mod json;
pub mod matplotlib;
pub mod open_metrics;
mod packed;
mod programs;
pub mod svg;
pub mod terminal;
pub mod tracers;
mod view;
mod words;

#[cfg(test)]
mod fixture;

pub use terminal::Style;
pub use words::senders_until;
