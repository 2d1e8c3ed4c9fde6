//! What is typed: `preset` and `compat`, and the options of `serve --compat`.

mod compat;
mod frames;
mod preset;
mod presets;

use msgpath_run::who::{Measures, Who};
use msgpath_verbs::feature::{Feature, NOTHING};
use msgpath_verbs::verb::AnyVerb;

pub static FEATURE: Feature = Feature {
    verbs: &[AnyVerb::of::<compat::Arguments>(), AnyVerb::of::<preset::Arguments>()],
    servers: &[&compat::OfCourses],
    begin: || msgpath_run::who::add(&MEASURES),
    ..NOTHING
};

static MEASURES: Measures = Measures {
    verb: |who, host, port| (*who == Who::Echo).then(|| format!("compat echo {host} {port} 64,1000")),
    ping: None,
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
    &msgpath_loaded::FEATURE,
    &msgpath_fan::FEATURE,
];
