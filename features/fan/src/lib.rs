//! Fan-in and fan-out: several clients and one server at once, `--clients` of `echo` and `stream`. What they have together, how evenly it
//! is shared, which of them is slow, and whether bursts that meet at the server make TCP wait for timeouts (incast).
//!
//! The rounds are those of the base, which knows several near ends (`ChannelOptions::clients`) and records each of them
//! (`RoundRecord::clients`).
//!
//! | module | what |
//! |---|---|
//! | `option` | `--clients`, and what can be measured so |
//! | `analyse`, `findings` | joint rate, fairness, the slowest client, timeouts |
//! | `present` | the view on a terminal, the small multiples of the page, the object in the JSON |
#![forbid(unsafe_code)]

pub mod analyse;
pub mod findings;
mod option;
pub mod present;
pub mod section;
#[cfg(test)]
mod testing;

use msgpath_verbs::feature::{Feature, NOTHING};

pub static FEATURE: Feature = Feature {
    sections: &[&section::SECTION],
    views: &[&present::SECTION],
    besides: &[&option::CLIENTS],
    schema: present::SCHEMA,
    ..NOTHING
};
