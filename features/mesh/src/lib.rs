//! `msgpath mesh`: many hosts, each measured with the others, and which host or link is slow.
#![forbid(unsafe_code)]

mod again;
pub mod analyse;
mod come;
mod gang;
pub mod hosts;
pub mod hosts_file;
pub mod join;
mod kept;
mod kind;
pub mod present;
pub mod record;
mod request;
pub mod run;
pub mod schema;
#[cfg(feature = "parquet")]
mod tables;
mod verb;

use msgpath_verbs::feature::{Feature, NOTHING};
use msgpath_verbs::verb::AnyVerb;

pub static FEATURE: Feature = Feature {
    verbs: &[AnyVerb::of::<verb::Arguments>(), AnyVerb::of::<come::Arguments>()],
    kinds: &[kind::KIND],
    schema: present::json::SCHEMA,
    ..NOTHING
};
