//! What is typed: `preset` and `compat`, and the options of `serve --compat`.

mod compat;
mod frames;
mod preset;
mod presets;

use msgpath_verbs::feature::{Feature, NOTHING};
use msgpath_verbs::verb::AnyVerb;

/// The whole of it.
pub static FEATURE: Feature = Feature {
    verbs: &[AnyVerb::of::<compat::Arguments>(), AnyVerb::of::<preset::Arguments>()],
    servers: &[&compat::OfCourses],
    ..NOTHING
};

/// What presets name, for tests.
#[cfg(test)]
const ALONE: &[&Feature] = &[
    &FEATURE,
    &msgpath_calls::FEATURE,
    &msgpath_periodic::FEATURE,
    &msgpath_stages::FEATURE,
    &msgpath_namespaces::FEATURE,
    &msgpath_tools::FEATURE,
];
