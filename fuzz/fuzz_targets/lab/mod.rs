//! The modules of `msgpath-run` alone, for a fuzz target.

pub mod relay;
#[path = "../../../crates/run/src/lab/shape.rs"]
mod shape;

pub use shape::Shape;
