//! What the kernel does around every system call: tracing, filters, auditing, mitigations, debugging.

use std::path::Path;

use msgpath_core::Unavailable;
use msgpath_core::schema::EventFacts;

use super::verdict::Verdict;
use super::{Context, read};
use crate::environment;
use crate::events;

/// Of the thread that examines, as those are that measure: others of a `serve` have a filter of their own.
const STATUS: &str = "/proc/thread-self/status";

/// Check 13.
pub(super) fn kernel(context: &Context) -> Verdict {
    let status = read::text(STATUS);
    let auditd = context.processes.iter().any(|process| process.name == "auditd");
    let lsm = match read::line("/sys/kernel/security/lsm") {
        Ok(names) => Verdict::ok(format!("security modules {names}")),
        Err(reason) => Verdict::none(reason),
    };
    let release = read::line("/proc/sys/kernel/osrelease").unwrap_or_default();
    let locking = Path::new("/proc/lockdep_stats").exists();
    Verdict::all([
        Verdict::read(status.clone(), |status| traced(&status)),
        debug(&release, &read::text("/proc/cmdline").unwrap_or_default(), locking),
        Verdict::read(status, |status| seccomp(&status)),
        Verdict::ok(format!("mitigations {}", environment::mitigations())),
        lsm,
        events(events::set().facts()),
        Verdict::ok(if auditd { "auditd runs: system calls may be audited" } else { "no auditd" }),
    ])
}

/// Which events can be counted while messages are measured. None of them is needed to measure.
fn events(facts: &EventFacts) -> Verdict {
    let mut parts = Vec::new();
    if !facts.counted.is_empty() {
        let mode = if facts.user_only { " in user mode only" } else { "" };
        parts.push(format!("events counted{mode}: {}", facts.counted.join(", ")));
    }
    let mut reasons: Vec<(&Unavailable, Vec<&str>)> = Vec::new();
    for (name, reason) in &facts.refused {
        match reasons.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    for (reason, names) in reasons {
        let hint = if reason.hint.is_empty() { String::new() } else { format!(" ({})", reason.hint) };
        parts.push(format!("not counted: {}: {}{hint}", names.join(", "), reason.why));
    }
    Verdict::ok(parts.join("; ")).with("events_counted", facts.counted.len() as f64)
}

fn traced(status: &str) -> Verdict {
    match read::field(status, "TracerPid").map(str::parse::<u32>) {
        Some(Ok(0)) => Verdict::ok("not traced"),
        Some(Ok(tracer)) => Verdict::stop(
            format!("traced by process {tracer}: every system call stops twice"),
            "run it without strace, ltrace or a debugger",
        ),
        _ => Verdict::none(format!("{STATUS}: no TracerPid")),
    }
}

fn seccomp(status: &str) -> Verdict {
    match read::field(status, "Seccomp") {
        Some("0") => Verdict::ok("no seccomp filter"),
        Some("1" | "2") => {
            let filters = read::field(status, "Seccomp_filters").unwrap_or("?");
            Verdict::ok(format!("seccomp filters {filters}: every system call pays for them"))
        }
        _ => Verdict::none(format!("{STATUS}: no Seccomp")),
    }
}

/// A kernel that checks its own locks or memory is slower by factors.
fn debug(release: &str, cmdline: &str, locking: bool) -> Verdict {
    let option = cmdline.split_whitespace().find(|word| {
        let on = |name: &str| word.strip_prefix(name).is_some_and(|value| !matches!(value, "=" | "=off" | "=0" | "=-"));
        on("slub_debug") || on("slab_debug") || on("page_poison") || on("debug_pagealloc")
    });
    let signs: Vec<String> = [
        (release.contains("debug")).then(|| format!("release {release}")),
        locking.then(|| "lock checking".to_owned()),
        option.map(str::to_owned),
    ]
    .into_iter()
    .flatten()
    .collect();
    if signs.is_empty() {
        Verdict::ok("no debug kernel seen")
    } else {
        Verdict::warn(format!("a debug kernel ({})", signs.join(", ")), "boot the kernel that you want to know about")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::doctor::CheckState;

    #[test]
    fn a_traced_program_makes_no_claims() {
        assert_eq!(traced("Name:\ta\nTracerPid:\t0\n").state, CheckState::Ok);
        assert_eq!(traced("Name:\ta\nTracerPid:\t77\n").state, CheckState::Stop);
        assert_eq!(traced("Name:\ta\n").state, CheckState::NotAvailable);
        assert_eq!(
            seccomp("Seccomp:\t2\nSeccomp_filters:\t1\n").what,
            "seccomp filters 1: every system call pays for them"
        );
        assert_eq!(seccomp("").state, CheckState::NotAvailable);
    }

    #[test]
    fn events_are_named_with_one_reason_for_many() {
        let refused = |name: &str| (name.to_owned(), Unavailable::new("no PMU driver: ENOENT", "a PMU"));
        let facts = EventFacts {
            counted: vec!["page-faults".into()],
            refused: vec![refused("cycles"), refused("instructions")],
            user_only: true,
        };
        let output = events(&facts);
        assert_eq!(output.state, CheckState::Ok, "nothing of this spoils a measurement");
        assert_eq!(
            output.what,
            "events counted in user mode only: page-faults; not counted: cycles, instructions: no PMU driver: ENOENT (a PMU)"
        );
    }

    #[test]
    fn debug_kernels_are_known_by_their_signs() {
        assert_eq!(debug("6.1.0-18-amd64", "quiet slub_debug=- page_poison=0", false).state, CheckState::Ok);
        assert_eq!(debug("6.8.5-301.fc40.x86_64+debug", "", false).state, CheckState::Warn);
        assert_eq!(debug("6.1.0", "", true).state, CheckState::Warn);
        assert_eq!(debug("6.1.0", "slub_debug=FZP", false).what, "a debug kernel (slub_debug=FZP)");
    }
}
