//! Pictures of calls, one file each.

use crate::record::{Calls, NO_CALLS};
use msgpath_present::html::Scene;
use msgpath_present::html::figures::Figure;

use crate::log;

mod calls;
mod clock;
mod first;
mod parts;
mod waterfall;

/// All of them, in the order of the page.
pub static FIGURES: &[Figure] = &[waterfall::FIGURE, parts::FIGURE, first::FIGURE, calls::FIGURE, clock::FIGURE];

/// The log of calls of a scene; empty where nobody read one.
fn calls_of<'a>(scene: &Scene<'a>) -> &'a dyn Calls {
    scene.logs.map_or(&NO_CALLS, |logs| log::log(logs))
}
