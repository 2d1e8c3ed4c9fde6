//! TLS between two ends of msgpath, for the features that measure it: the certificate of a far end, and how both ends begin.
#![forbid(unsafe_code)]
#![cfg(feature = "libraries")]

mod identity;

pub use identity::{Identity, LONGEST, NAME, Trust, name};
