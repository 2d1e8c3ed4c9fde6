//! Small helpers for pictures: escaping, scales with their ticks, a drawing that collects shapes, and the finished
//! picture, in a page or as a file.

mod drawing;
mod file;
mod scale;

pub use drawing::{Anchor, Drawing, escape};
pub use file::{Svg, file, grid};
pub use scale::{Scale, label_positions, round_step, stretch, time_ticks, unstretch};
