//! What a case of two runs is called, and what its random numbers begin with.

use msgpath_core::Case;
use msgpath_record::Run;

/// `tcp:send 4 KiB, 2 threads, 10k/s`.
pub fn name(case: &Case) -> String {
    let message = crate::findings::wording::message(case);
    let mut out = match &case.label {
        Some(label) => format!("{label} {message} ({})", case.path),
        None => format!("{} {message}", case.path),
    };
    for (count, word) in [(case.threads, "threads"), (case.connections, "connections")] {
        if count > 1 {
            out += &format!(", {count} {word}");
        }
    }
    match case.load.rate() {
        Some(rate) => out += &format!(", {rate}"),
        None if case.inflight > 1 => out += &format!(", {} in flight", case.inflight),
        None => {}
    }
    out
}

/// Seed of what is drawn again for a case.
pub(crate) fn seed(run: &Run, case: &Case) -> u64 {
    run.header.plan.seed ^ u64::from(case.id).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
