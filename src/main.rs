//! `msgpath`: how long a message takes from one program to another, and where that time goes.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use msgpath_sys::memory;
use msgpath_verbs::feature::Feature;

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

/// What this program can beyond echo, stream and compare: a line each.
const FEATURES: &[&Feature] = &[
    #[cfg(feature = "stages")]
    &msgpath_stages::FEATURE,
    #[cfg(feature = "calls")]
    &msgpath_calls::FEATURE,
    #[cfg(feature = "periodic")]
    &msgpath_periodic::FEATURE,
    #[cfg(feature = "connect")]
    &msgpath_connect::FEATURE,
    #[cfg(feature = "namespaces")]
    &msgpath_namespaces::FEATURE,
    #[cfg(feature = "tools")]
    &msgpath_tools::FEATURE,
    #[cfg(feature = "loaded")]
    &msgpath_loaded::FEATURE,
    #[cfg(feature = "fan")]
    &msgpath_fan::FEATURE,
    #[cfg(feature = "courses")]
    &msgpath_courses::FEATURE,
    #[cfg(feature = "watch")]
    &msgpath_watch::FEATURE,
    #[cfg(feature = "mesh")]
    &msgpath_mesh::FEATURE,
    #[cfg(feature = "tracers")]
    &msgpath_tracers::FEATURE,
    #[cfg(feature = "layers")]
    &msgpath_layers::FEATURE,
];

fn main() -> ExitCode {
    msgpath_verbs::main(FEATURES)
}
