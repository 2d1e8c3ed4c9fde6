//! Texts of /proc and /sys: counters, control groups, lists of CPUs. A container may show anything there.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The modules alone, as in `wire`.
#[allow(dead_code)]
mod counters;
#[allow(dead_code)]
mod doctor;

fuzz_target!(|text: &str| {
    counters::all(text);
    let cpus = doctor::read::cpu_list(text);
    assert!(cpus.len() <= 8192 * (text.len() / 2 + 1));
    let _ = (doctor::read::field(text, "TracerPid"), doctor::cgroup::cpu_max(text), doctor::cgroup::throttling(text));
});
