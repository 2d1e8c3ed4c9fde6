//! `msgpath watch`: where the time goes in programs that nobody changed.
#![forbid(unsafe_code)]

pub mod analyse;
mod kind;
mod present;
pub mod record;
pub mod run;
mod verb;

use msgpath_verbs::feature::{Feature, NOTHING};
use msgpath_verbs::verb::AnyVerb;

pub static FEATURE: Feature =
    Feature { verbs: &[AnyVerb::of::<verb::Arguments>()], kinds: &[kind::KIND], schema: present::SCHEMA, ..NOTHING };
