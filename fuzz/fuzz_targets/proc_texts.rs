//! Texts of /proc and /sys: counters, control groups, lists of CPUs, tasks. A container may show anything there.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The modules alone, as in `wire`.
#[allow(dead_code)]
mod counters;
#[allow(dead_code)]
mod doctor;
mod others;

fuzz_target!(|text: &str| {
    counters::all(text);
    let cpus = doctor::read::cpu_list(text);
    assert!(cpus.len() <= 8192 * (text.len() / 2 + 1));
    for key in ["TracerPid", "model name", "flags", "microcode"] {
        let value = doctor::read::field(text, key);
        assert!(value.is_none_or(|value| value.trim() == value && !value.contains('\n')));
    }
    let ticks = doctor::stat::ticks(text);
    assert!(ticks.is_none_or(|ticks| ticks.steal <= ticks.all));
    tasks(text);
    let _ = (msgpath_sys::spent::switches(text), msgpath_sys::spent::io(text));
    let _ = (msgpath_sys::schedstat::waited(text), doctor::cgroup::cpu_max(text), doctor::cgroup::throttling(text));
});

/// Three look at the stat of a task, each for something else: they see the same task.
fn tasks(text: &str) {
    let (process, began) = (doctor::stat::process(text), msgpath_sys::pidfd::began(text));
    let Some(stat) = others::stat::parse(text) else { return };
    assert!(stat.name.chars().all(|one| !one.is_control()), "{:?} cannot be printed", stat.name);
    if let Some(process) = process {
        assert_eq!(stat.parent, process.parent);
    }
    assert!(began.is_none_or(|began| began == stat.started));
}
