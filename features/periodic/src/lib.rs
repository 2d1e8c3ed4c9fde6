//! Messages by a clock, one to many: components in processes of their own that send to all others each period.
#![forbid(unsafe_code)]

pub mod analyse;
pub mod findings;
pub mod present;
pub mod section;
#[cfg(test)]
mod tests;
