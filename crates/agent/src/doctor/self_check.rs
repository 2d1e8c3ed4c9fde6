//! This program itself: how it was built, and whether both ends are the same.

use msgpath_core::schema::Environment;

use super::Context;
use super::verdict::Verdict;

/// Check 20.
pub(super) fn build(_: &Context) -> Verdict {
    let allocator = if cfg!(target_env = "musl") { "the allocator of musl" } else { "the allocator of the C library" };
    judge(cfg!(debug_assertions), allocator)
}

fn judge(debug: bool, allocator: &str) -> Verdict {
    if debug {
        Verdict::stop(
            format!("a debug build, {allocator}: its numbers mean nothing"),
            "cargo build --release, or the released program",
        )
    } else {
        Verdict::ok(format!("a release build, {allocator}"))
    }
}

/// Check 20 of both ends.
pub(super) fn together(near: &Environment, far: &Environment) -> Verdict {
    let binary = |environment: &Environment| match environment.facts.get("binary") {
        Some(hash) if !hash.starts_with("n/a") => Ok(hash.clone()),
        Some(reason) => Err(reason.trim_start_matches("n/a: ").to_owned()),
        None => Err("one end does not tell its binary".into()),
    };
    match (binary(near), binary(far)) {
        (Ok(a), Ok(b)) if a == b => Verdict::ok(format!("both ends run the same binary ({a})")),
        (Ok(a), Ok(b)) => Verdict::warn(
            format!("the ends run different binaries ({a}, {b})"),
            "the same build at both ends: their costs may differ",
        ),
        (Err(reason), _) | (_, Err(reason)) => Verdict::none(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::doctor::CheckState;

    #[test]
    fn a_debug_build_stops() {
        assert_eq!(judge(true, "").state, CheckState::Stop);
        assert_eq!(judge(false, "").state, CheckState::Ok);
    }

    #[test]
    fn different_binaries_warn() {
        let environment = |binary: Option<&str>| Environment {
            facts: binary.map(|binary| ("binary".to_owned(), binary.to_owned())).into_iter().collect(),
            ..Environment::default()
        };
        let a = environment(Some("crc32 1"));
        assert_eq!(together(&a, &a).state, CheckState::Ok);
        assert_eq!(together(&a, &environment(Some("crc32 2"))).state, CheckState::Warn);
        assert_eq!(together(&a, &environment(None)).state, CheckState::NotAvailable);
        assert_eq!(together(&environment(Some("n/a: debug")), &a).what, "n/a: debug");
    }
}
