//! One file per page that has pictures of its own.

pub(super) mod copy_ladder;
