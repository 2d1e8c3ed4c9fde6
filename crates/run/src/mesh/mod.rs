//! Many hosts: which pairs, in which steps, and their measurement.

pub mod schedule;
