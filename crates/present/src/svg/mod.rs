//! Small helpers for pictures: escaping, scales with their ticks, and a drawing that collects shapes.

mod drawing;
mod scale;

pub use drawing::{Anchor, Drawing, escape};
pub use scale::{Scale, label_positions, stretch, time_ticks, unstretch};
