//! What people and programs read of watched programs.

#[cfg(test)]
mod fixture;
mod json;
mod metrics;
mod page;
mod terminal;

pub(crate) use json::{SCHEMA, json};
pub(crate) use metrics::WatchMetrics;
pub(crate) use page::{SLOWEST, watched as page};
pub(crate) use terminal::{watch as text, watching as live};
