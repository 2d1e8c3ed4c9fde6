//! Which events of the CPU and of the kernel are counted at this end, and counting them in a measuring thread.
//!
//! | event | kind | apart in user mode |
//! |---|---|---|
//! | cycles, instructions | hardware | yes |
//! | L1-dcache-load-misses, LLC-load-misses | hardware | no |
//! | context-switches, cpu-migrations, page-faults | software | no |
//!
//! Six hardware counters, then: more would make them take turns on a usual PMU (four that are free beside the fixed ones).
//! Software events are not split, because a kernel event's clock ignores the flags that would split it, and a switch is
//! always made by the kernel: where only user mode may be counted, counting switches there gives a 0 that means nothing.
//!
//! On a machine with several types of cores each has a PMU of its own, and each hardware event is counted once for each:
//! `cpu_core/cycles/`. A thread is on one type at a time, so their sum is what it did.

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use msgpath_core::Unavailable;
use msgpath_core::schema::{EventCount, EventCounts, EventFacts};
use msgpath_sys::count::{
    self, CACHE, CONTEXT_SWITCHES, CYCLES, Counter, Event, HARDWARE, INSTRUCTIONS, L1D_READ_MISSES, LAST_READ_MISSES,
    MIGRATIONS, PAGE_FAULTS, SOFTWARE, Value,
};

/// Where the kernel lists its PMUs.
const DEVICES: &str = "/sys/bus/event_source/devices";
const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";
/// Most types of cores that are looked at.
const MOST_TYPES: usize = 8;
/// Descriptors that a process may need, counters of all its threads included.
const DESCRIPTORS: u64 = 8192;
/// errno(3) of what perf_event_open(2) answers.
mod errno {
    pub const EPERM: i32 = 1;
    pub const ENOENT: i32 = 2;
    pub const E2BIG: i32 = 7;
    pub const EACCES: i32 = 13;
    pub const EBUSY: i32 = 16;
    pub const ENODEV: i32 = 19;
    pub const EINVAL: i32 = 22;
    pub const EMFILE: i32 = 24;
    pub const ENOSPC: i32 = 28;
    pub const ENOSYS: i32 = 38;
    pub const EOPNOTSUPP: i32 = 95;
}
/// Name, kind, config, and whether user mode is counted apart.
const HARDWARE_EVENTS: [(&str, u32, u64, bool); 4] = [
    ("cycles", HARDWARE, CYCLES, true),
    ("instructions", HARDWARE, INSTRUCTIONS, true),
    ("L1-dcache-load-misses", CACHE, L1D_READ_MISSES, false),
    ("LLC-load-misses", CACHE, LAST_READ_MISSES, false),
];
/// Name, config, and whether it happens in the kernel only.
const SOFTWARE_EVENTS: [(&str, u64, bool); 3] = [
    ("context-switches", CONTEXT_SWITCHES, true),
    ("cpu-migrations", MIGRATIONS, true),
    ("page-faults", PAGE_FAULTS, false),
];

/// The PMU of one type of cores.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cores {
    name: String,
    kind: u32,
}

/// The types of cores, where there are several: PMUs that say which CPUs they belong to. None on other machines.
fn core_types(devices: &Path) -> Vec<Cores> {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let mut found: Vec<Cores> = std::fs::read_dir(devices)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            // Devices outside of cores have a `cpumask`.
            let cpus = read(&entry.path().join("cpus"))?;
            let kind = read(&entry.path().join("type"))?.trim().parse().ok()?;
            (!cpus.trim().is_empty()).then_some(Cores { name: entry.file_name().into_string().ok()?, kind })
        })
        .collect();
    found.sort_by_key(|cores| cores.kind);
    found.truncate(MOST_TYPES);
    if found.len() < 2 { Vec::new() } else { found }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Counted {
    name: String,
    event: Event,
    user: Option<Event>,
    /// Position in the list of events: the same for one event on all types of cores.
    family: usize,
}

/// What can be counted at one end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    facts: EventFacts,
    counted: Vec<Counted>,
}

impl Set {
    /// For the header of the run.
    pub fn facts(&self) -> &EventFacts {
        &self.facts
    }
}

/// What this process may count: tried once, at the first call.
pub fn set() -> &'static Set {
    static SET: OnceLock<Set> = OnceLock::new();
    SET.get_or_init(|| {
        // Each of up to 256 threads has a descriptor for every event. Where the limit is lower, some counts are missing.
        let _ = msgpath_sys::limits::allow_open_files(DESCRIPTORS);
        let paranoid = std::fs::read_to_string(PARANOID).ok().and_then(|text| text.trim().parse().ok());
        probe(&core_types(Path::new(DEVICES)), paranoid, &mut |event| Counter::open(event).map(drop))
    })
}

/// Tries every event with `open`.
fn probe(types: &[Cores], paranoid: Option<i64>, open: &mut dyn FnMut(Event) -> io::Result<()>) -> Set {
    let mut set = Set::default();
    let mut refused: Vec<(String, io::Error, bool)> = Vec::new();
    let mut hardware = false;
    for (family, (name, kind, config, apart)) in HARDWARE_EVENTS.into_iter().enumerate() {
        let one_each: Vec<(String, u64)> = match types {
            [] => vec![(name.to_owned(), config)],
            types => types
                .iter()
                .map(|cores| (format!("{}/{name}/", cores.name), u64::from(cores.kind) << 32 | config))
                .collect(),
        };
        for (name, config) in one_each {
            let whole = Event { kind, config, user_only: false };
            let user = Event { user_only: true, ..whole };
            match open(whole) {
                Ok(()) => {
                    let user = (apart && open(user).is_ok()).then_some(user);
                    set.counted.push(Counted { name, event: whole, user, family });
                    hardware = true;
                }
                Err(error) if is_forbidden(&error) && open(user).is_ok() => {
                    set.counted.push(Counted { name, event: user, user: None, family });
                    (set.facts.user_only, hardware) = (true, true);
                }
                Err(error) => refused.push((name, error, true)),
            }
        }
    }
    for (at, (name, config, in_kernel)) in SOFTWARE_EVENTS.into_iter().enumerate() {
        let whole = Event { kind: SOFTWARE, config, user_only: false };
        let user = Event { user_only: true, ..whole };
        let family = HARDWARE_EVENTS.len() + at;
        match open(whole) {
            Ok(()) => set.counted.push(Counted { name: name.into(), event: whole, user: None, family }),
            Err(error) if !in_kernel && is_forbidden(&error) && open(user).is_ok() => {
                set.counted.push(Counted { name: name.into(), event: user, user: None, family });
                set.facts.user_only = true;
            }
            Err(error) => refused.push((name.into(), error, false)),
        }
    }
    set.facts.counted = set.counted.iter().map(|counted| counted.name.clone()).collect();
    let reason =
        |(name, error, of_pmu): (String, io::Error, bool)| (name, reason(&error, paranoid, of_pmu && !hardware));
    set.facts.refused = refused.into_iter().map(reason).collect();
    set
}

/// Whether an event, named as in [`EventFacts`], is counted by the CPU.
pub fn is_hardware(event: &str) -> bool {
    let bare = event.strip_suffix('/').and_then(|name| name.split_once('/')).map_or(event, |(_, event)| event);
    HARDWARE_EVENTS.iter().any(|(name, ..)| *name == bare)
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(errno::EPERM | errno::EACCES))
}

/// Why an event is not counted. `no_pmu`: no hardware event at all is.
fn reason(error: &io::Error, paranoid: Option<i64>, no_pmu: bool) -> Unavailable {
    let machine = "a machine, or a virtual one whose host passes the PMU through; -o simulate-cache=yes meanwhile";
    match error.raw_os_error() {
        Some(errno::ENOENT) if no_pmu => Unavailable::new("no PMU driver: ENOENT", machine),
        Some(errno::ENODEV) if no_pmu => Unavailable::new("no PMU driver: ENODEV", machine),
        Some(errno::EOPNOTSUPP) if no_pmu => Unavailable::new("no PMU: EOPNOTSUPP", machine),
        Some(errno::ENOENT | errno::ENODEV) => Unavailable::new("this PMU does not have it: ENOENT", ""),
        Some(errno::EOPNOTSUPP) => Unavailable::new("this PMU cannot count it: EOPNOTSUPP", ""),
        Some(errno::EINVAL) => Unavailable::new("this PMU does not take it: EINVAL", ""),
        Some(errno::EPERM | errno::EACCES) => msgpath_sys::perf::forbidden(error, paranoid),
        Some(errno::EMFILE) => Unavailable::new("no descriptor is left: EMFILE", "ulimit -n with a larger number"),
        Some(errno::ENOSPC) => Unavailable::new("the PMU has no counter left: ENOSPC", ""),
        Some(errno::EBUSY) => Unavailable::new("another program holds the PMU alone: EBUSY", ""),
        Some(errno::ENOSYS) => Unavailable::new(
            "this kernel is built without perf events, or a filter of system calls (a container's?) hides them: ENOSYS",
            "",
        ),
        Some(errno::E2BIG) => Unavailable::new("this kernel is too old for the question: E2BIG", ""),
        _ => Unavailable::new(error.to_string(), ""),
    }
}

/// The counters of one measuring thread, made by itself.
#[derive(Debug, Default)]
pub struct Counting {
    counters: Vec<(&'static Counted, Counter, Option<Counter>)>,
}

impl Counting {
    /// Makes them, stopped. An event of which the counter cannot be made now is not counted in this round.
    pub fn open() -> Self {
        let made = set().counted.iter().filter_map(|counted| {
            let user = counted.user.and_then(|event| Counter::open(event).ok());
            Some((counted, Counter::open(counted.event).ok()?, user))
        });
        Self { counters: made.collect() }
    }

    /// Counts on. One system call, none without counters.
    pub fn go(&self) {
        self.switch(true);
    }

    /// Counts no longer.
    pub fn pause(&self) {
        self.switch(false);
    }

    fn switch(&self, on: bool) {
        if !self.counters.is_empty() {
            // A kernel that refuses leaves the time of every counter at 0, and such a one is not reported.
            let _ = count::switch(on);
        }
    }

    /// What was counted.
    pub fn read(&self) -> EventCounts {
        let read = |counter: &Counter| counter.read().ok();
        let values: Vec<(&Counted, Value, Option<Value>)> = self
            .counters
            .iter()
            .filter_map(|(counted, counter, user)| Some((*counted, read(counter)?, user.as_ref().and_then(read))))
            .collect();
        scaled(&values)
    }
}

/// An event with what its counters read: in both modes as far as they may be counted, and in user mode alone.
type Reading<'a> = (&'a Counted, Value, Option<Value>);

/// Counts for the whole time for which an event was to be counted. Where it was not counted at all, it is left out.
///
/// The members of a family, one event on all types of cores, share this time: one that ran for a part of it may have
/// been on the other cores, so only what all of them together missed is added, to each in proportion.
fn scaled(values: &[Reading<'_>]) -> EventCounts {
    let mut counts = EventCounts::new();
    for (counted, value, user) in values {
        let family = || values.iter().filter(|(other, ..)| other.family == counted.family);
        let factor = |of: &dyn Fn(&Reading<'_>) -> Option<Value>| {
            let enabled = family().filter_map(of).map(|value| value.enabled_ns).max()?;
            let running: u64 = family().filter_map(of).map(|value| value.running_ns).sum();
            (running > 0).then(|| (enabled as f64 / running as f64).max(1.0))
        };
        let times = |count: u64, factor: f64| if factor > 1.0 { (count as f64 * factor).round() as u64 } else { count };
        let Some(whole) = factor(&|(_, value, _)| Some(*value)) else { continue };
        let count = times(value.count, whole);
        let user = user.zip(factor(&|(_, _, user)| *user)).map(|(user, factor)| times(user.count, factor).min(count));
        let enabled_ns = times(value.running_ns, whole);
        counts.insert(counted.name.clone(), EventCount { count, user, enabled_ns, running_ns: value.running_ns });
    }
    counts
}

/// What several threads counted together: events that all of them have.
pub fn together<'a>(threads: impl IntoIterator<Item = &'a EventCounts>) -> EventCounts {
    let mut threads = threads.into_iter();
    let Some(mut sum) = threads.next().cloned() else { return EventCounts::new() };
    for counts in threads {
        sum.retain(|name, _| counts.contains_key(name));
        for (name, count) in &mut sum {
            count.add(&counts[name]);
        }
    }
    sum
}

/// What a far end says it counted, as far as it may be true: events that it had named before, and numbers that sums over a
/// run have room for.
pub fn plausible(mut counts: EventCounts, facts: &EventFacts) -> EventCounts {
    let small = |number: u64| number < 1 << 48;
    counts.retain(|name, count| {
        facts.counted.contains(name)
            && [count.count, count.user.unwrap_or(0), count.enabled_ns, count.running_ns].into_iter().all(small)
    });
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusing(errno: i32) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(errno))
    }

    #[test]
    fn types_of_cores_are_the_pmus_with_cpus() {
        let place = std::env::temp_dir().join(format!("msgpath-cores-{}", std::process::id()));
        let add = |name: &str, kind: &str, cpus: Option<&str>| {
            std::fs::create_dir_all(place.join(name)).unwrap();
            std::fs::write(place.join(name).join("type"), kind).unwrap();
            if let Some(cpus) = cpus {
                std::fs::write(place.join(name).join("cpus"), cpus).unwrap();
            }
        };
        add("software", "1\n", None);
        add("cpu_core", "4\n", Some("0-7\n"));
        let one = core_types(&place);
        add("cpu_atom", "10\n", Some("8-15\n"));
        add("cpu_gone", "12\n", Some("\n"));
        add("broken", "ten\n", Some("3\n"));
        let two = core_types(&place);
        std::fs::remove_dir_all(&place).unwrap();
        assert_eq!(one, [], "a PMU alone is the PMU");
        let cores = |name: &str, kind| Cores { name: name.into(), kind };
        assert_eq!(two, [cores("cpu_core", 4), cores("cpu_atom", 10)]);
        assert_eq!(core_types(&place), [], "gone");
    }

    #[test]
    fn each_type_of_cores_has_its_own_event() {
        let types = [("cpu_core", 4), ("cpu_atom", 10)].map(|(name, kind)| Cores { name: name.into(), kind });
        let mut asked = Vec::new();
        let set = probe(&types, Some(0), &mut |event| {
            asked.push(event);
            // Atom cores do not count misses of the first level.
            if event.config == 10 << 32 | L1D_READ_MISSES { refusing(2) } else { Ok(()) }
        });
        assert_eq!(
            set.facts.counted[..4],
            ["cpu_core/cycles/", "cpu_atom/cycles/", "cpu_core/instructions/", "cpu_atom/instructions/"]
        );
        assert!(asked.contains(&Event { kind: HARDWARE, config: 10 << 32, user_only: true }), "{asked:?}");
        let [(name, reason)] = &set.facts.refused[..] else { panic!("{:?}", set.facts.refused) };
        assert_eq!(
            (name.as_str(), reason.why.as_str()),
            ("cpu_atom/L1-dcache-load-misses/", "this PMU does not have it: ENOENT")
        );
        assert!(!set.facts.user_only);
    }

    #[test]
    fn without_a_pmu_the_kernel_still_counts() {
        let set = probe(&[], Some(2), &mut |event| if event.kind == SOFTWARE { Ok(()) } else { refusing(2) });
        assert_eq!(set.facts.counted, ["context-switches", "cpu-migrations", "page-faults"]);
        assert_eq!(set.facts.refused.len(), 4);
        assert!(
            set.facts
                .refused
                .iter()
                .all(|(_, reason)| reason.why == "no PMU driver: ENOENT" && !reason.hint.is_empty())
        );
        assert!(set.counted.iter().all(|counted| counted.user.is_none()), "software events are never split");
    }

    #[test]
    fn where_the_kernel_is_forbidden_user_mode_is_counted_and_switches_are_not() {
        let set = probe(&[], Some(2), &mut |event| if event.user_only { Ok(()) } else { refusing(13) });
        assert!(set.facts.user_only);
        assert_eq!(
            set.facts.counted,
            ["cycles", "instructions", "L1-dcache-load-misses", "LLC-load-misses", "page-faults"]
        );
        assert!(set.counted.iter().all(|counted| counted.event.user_only && counted.user.is_none()));
        let refused: Vec<_> =
            set.facts.refused.iter().map(|(name, reason)| (name.as_str(), reason.why.as_str())).collect();
        let why = "kernel.perf_event_paranoid is 2: EACCES";
        assert_eq!(refused, [("context-switches", why), ("cpu-migrations", why)]);
    }

    #[test]
    fn each_refusal_has_its_reason() {
        let why = |errno, paranoid, no_pmu| reason(&io::Error::from_raw_os_error(errno), paranoid, no_pmu).why;
        for (errno, paranoid, no_pmu, expected) in [
            (1, Some(3), false, "forbidden by a seccomp filter or a security module (a container's?): EPERM"),
            (13, Some(3), false, "kernel.perf_event_paranoid is 3: EACCES"),
            (1, Some(-1), false, "forbidden by a seccomp filter or a security module (a container's?): EPERM"),
            (13, None, false, "forbidden by a seccomp filter or a security module (a container's?): EACCES"),
            (2, Some(2), false, "this PMU does not have it: ENOENT"),
            (95, Some(2), true, "no PMU: EOPNOTSUPP"),
            (95, Some(2), false, "this PMU cannot count it: EOPNOTSUPP"),
            (24, Some(2), true, "no descriptor is left: EMFILE"),
            (
                38,
                None,
                true,
                "this kernel is built without perf events, or a filter of system calls (a container's?) hides them: ENOSYS",
            ),
        ] {
            assert_eq!(why(errno, paranoid, no_pmu), expected);
        }
        assert!(reason(&io::Error::from_raw_os_error(13), Some(2), false).hint.contains("sysctl"));
    }

    fn counted(name: &str, family: usize) -> Counted {
        let event = Event { kind: HARDWARE, config: 0, user_only: false };
        Counted { name: name.into(), event, user: None, family }
    }

    fn value(count: u64, enabled_ns: u64, running_ns: u64) -> Value {
        Value { count, enabled_ns, running_ns }
    }

    #[test]
    fn turns_on_a_counter_are_made_up_for_and_what_never_ran_is_left_out() {
        let (cycles, misses, never) = (counted("cycles", 0), counted("misses", 1), counted("never", 2));
        let counts = scaled(&[
            (&cycles, value(1000, 500, 500), Some(value(300, 500, 250))),
            (&misses, value(10, 500, 100), None),
            (&never, value(0, 500, 0), None),
        ]);
        let expected = |count, user, enabled_ns, running_ns| EventCount { count, user, enabled_ns, running_ns };
        assert_eq!(counts["cycles"], expected(1000, Some(600), 500, 500));
        assert_eq!(counts["misses"], expected(50, None, 500, 100));
        assert!(!counts.contains_key("never"), "never 0");
    }

    #[test]
    fn time_on_the_other_cores_is_not_made_up_for() {
        let (core, atom) = (counted("cpu_core/cycles/", 0), counted("cpu_atom/cycles/", 0));
        let moved = scaled(&[(&core, value(600, 100, 60), None), (&atom, value(200, 100, 40), None)]);
        assert_eq!((moved["cpu_core/cycles/"].count, moved["cpu_atom/cycles/"].count), (600, 200));
        let stayed = scaled(&[(&core, value(600, 100, 100), None), (&atom, value(0, 0, 0), None)]);
        assert_eq!((stayed["cpu_core/cycles/"].count, stayed["cpu_atom/cycles/"]), (600, EventCount::default()));
        let shared = scaled(&[(&core, value(600, 100, 30), None), (&atom, value(200, 100, 20), None)]);
        assert_eq!((shared["cpu_core/cycles/"].count, shared["cpu_atom/cycles/"].count), (1200, 400));
        assert_eq!((shared["cpu_core/cycles/"].enabled_ns, shared["cpu_core/cycles/"].running_ns), (60, 30));
    }

    #[test]
    fn threads_are_summed_where_all_of_them_counted() {
        let one = |names: &[&str]| -> EventCounts {
            names.iter().map(|name| ((*name).into(), EventCount { count: 3, ..EventCount::default() })).collect()
        };
        let sum = together(&[one(&["a", "b"]), one(&["b"]), one(&["b", "c"])]);
        assert_eq!((sum.len(), sum["b"].count), (1, 9));
        assert!(together(&[]).is_empty());
    }

    #[test]
    fn what_nobody_announced_or_can_be_is_dropped() {
        let facts = EventFacts { counted: vec!["a".into(), "b".into()], ..EventFacts::default() };
        let count = |count| EventCount { count, ..EventCount::default() };
        let counts = EventCounts::from([("a".into(), count(1)), ("b".into(), count(1 << 48)), ("x".into(), count(1))]);
        assert_eq!(plausible(counts, &facts), EventCounts::from([("a".into(), count(1))]));
    }

    #[test]
    fn this_machine_counts_or_says_why_not() {
        let facts = set().facts();
        assert!(facts.counted.len() + facts.refused.len() >= HARDWARE_EVENTS.len() + SOFTWARE_EVENTS.len());
        let counts = std::thread::spawn(|| {
            let counting = Counting::open();
            counting.go();
            (0..10).for_each(|_| std::thread::sleep(std::time::Duration::from_millis(2)));
            counting.pause();
            counting.read()
        });
        let counts = counts.join().unwrap();
        match facts.counted.iter().any(|name| name == "context-switches") {
            true => assert!(counts["context-switches"].count >= 5, "{counts:?}"),
            false => println!("skipped: context switches are not counted here"),
        }
        assert!(counts.keys().all(|name| facts.counted.contains(name)));
    }
}
