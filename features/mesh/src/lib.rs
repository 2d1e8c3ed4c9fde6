//! `msgpath mesh`: many hosts, each measured with the others, and which host or link is slow.
#![forbid(unsafe_code)]

mod gang;
mod kept;
mod kind;
mod present;
mod request;
pub mod run;
#[cfg(feature = "parquet")]
mod tables;
mod verb;

use msgpath_verbs::feature::{Feature, NOTHING};
use msgpath_verbs::verb::AnyVerb;

/// The whole of it.
pub static FEATURE: Feature =
    Feature { name: "mesh", verbs: &[AnyVerb::of::<verb::Arguments>()], kinds: &[kind::KIND], ..NOTHING };
