//! The modules of `msgpath-namespaces` alone, for a fuzz target.

pub mod relay;
#[path = "../../../features/namespaces/src/lab/shape.rs"]
mod shape;

pub use shape::Shape;
