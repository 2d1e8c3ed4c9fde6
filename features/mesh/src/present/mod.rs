//! A mesh for those who read it: on a terminal, as a page, as OpenMetrics.

pub(crate) mod diff;
pub(crate) mod json;
mod matrix;
pub(crate) mod openmetrics;
pub mod page;
pub(crate) mod terminal;
