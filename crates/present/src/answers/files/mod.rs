//! One file per page that writes files in formats of their own.

pub(super) mod copy_ladder;
