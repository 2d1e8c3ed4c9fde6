//! Machines that are disturbed while a run goes on, and containers that deny system calls.

use std::process::{Command, Stdio};

use crate::command::{Home, LIMIT, Output, Running};
use crate::networks::{in_namespaces, may_have_namespaces};

#[test]
fn another_clock_source_is_named_with_its_rounds() {
    if !may_have_namespaces() || !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: the file of the clock source cannot be another one here");
    }
    // The file of the kernel is another one in the namespace of the script, and changes once rounds are recorded.
    let text = "
        ip link set lo up
        printf 'tsc\\n' >source
        mount --bind source /sys/devices/system/clocksource/clocksource0/current_clocksource
        (until [ $(stat -c %s data/msgpath/one/rounds.mpl 2>/dev/null || echo 0) -gt 500 ]; do sleep 0.1; done
         printf 'hpet\\n' >source) &
        \"$0\" echo -x tcp:send -t 12s -r 40 -w 0 -o extend=no,what-ifs=no --name one -qq
        \"$0\" show one --json";
    let output = in_namespaces(&Home::new(), text);
    if output.err.contains("mount: ") {
        return eprintln!("skipped: {}", output.err.trim());
    }
    let value = output.ends_with(0).json();
    let warnings = value["warnings"].as_array().unwrap().iter();
    let found: Vec<&str> =
        warnings.filter(|one| one["code"] == "W190").filter_map(|one| one["text"].as_str()).collect();
    assert_eq!(found.len(), 1, "{}", value["warnings"]);
    assert!(found[0].contains("the clock source of this machine changed during the run"), "{found:?}");
}

/// Denies system calls with an error, and becomes the rest of its command line.
const FILTER: &str = r#"
import ctypes, os, struct, sys
calls, error = [int(n) for n in sys.argv[1].split(",")], int(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
code = [struct.pack("=HBBI", 0x20, 0, 0, 0)]
for call in calls:
    code += [struct.pack("=HBBI", 0x15, 0, 1, call), struct.pack("=HBBI", 0x06, 0, 0, 0x00050000 | error)]
code.append(struct.pack("=HBBI", 0x06, 0, 0, 0x7fff0000))
text = ctypes.create_string_buffer(b"".join(code))
program = struct.pack("=HxxxxxxQ", len(code), ctypes.addressof(text))
assert libc.prctl(38, 1, 0, 0, 0) == 0
if libc.prctl(22, 2, ctypes.create_string_buffer(program), 0, 0) != 0: sys.exit(77)
os.execv(sys.argv[3], sys.argv[3:])
"#;
const EPERM: i32 = 1;
const ENOSYS: i32 = 38;
/// perf_event_open, sched_setaffinity, io_uring_setup, bpf on x86-64.
const PERF: &str = "298";
const AFFINITY: &str = "203";
const IO_URING: &str = "425";
const BPF: &str = "321";

/// A run behind a filter of system calls; `None`: there is none here.
fn filtered(home: &Home, calls: &str, error: i32, line: &str) -> Option<Output> {
    if !cfg!(target_arch = "x86_64") {
        eprintln!("skipped: the numbers of system calls are those of x86-64");
        return None;
    }
    let file = home.path().join("filter.py");
    std::fs::write(&file, FILTER).unwrap();
    let own = home.command(&[]);
    let mut command = Command::new("python3");
    command.arg(file).args([calls, &error.to_string(), env!("CARGO_BIN_EXE_msgpath")]).args(line.split(' '));
    command.current_dir(home.path()).stdin(Stdio::null());
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if Command::new("python3").arg("-V").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: no python3");
        return None;
    }
    let output = Running::new(command).finish(LIMIT);
    if output.code == Some(77) {
        eprintln!("skipped: no filters of system calls here");
        return None;
    }
    Some(output)
}

const SHORT: &str = "-c 200 -r 2 -w 0 -o extend=no --no-save";

#[test]
fn a_filter_that_denies_a_call_is_named() {
    let home = Home::new();
    for error in [EPERM, ENOSYS] {
        let line = format!("echo -x tcp:send/uring {SHORT}");
        let Some(output) = filtered(&home, IO_URING, error, &line) else { return };
        output.ends_with(3).says(&["filter of system calls", "io_uring"]);
        let line = format!("echo -x tcp:send -o events=on {SHORT} --json");
        let Some(output) = filtered(&home, PERF, error, &line) else { return };
        assert!(output.ends_with(0).out.contains("(a container's?)"), "error {error}");
        let line = format!("echo -x tcp:send --cpu 0,0 {SHORT}");
        let Some(output) = filtered(&home, AFFINITY, error, &line) else { return };
        output.ends_with(3).says(&["sched_setaffinity is denied by a filter", "--cpu none"]);
    }
}

#[test]
fn a_filter_that_denies_bpf_is_named() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: without root BPF is denied anyway");
    }
    let home = Home::new();
    let line = format!("echo -x tcp:send {SHORT} -o what-ifs=no --stages light");
    let Some(output) = filtered(&home, BPF, EPERM, &line) else { return };
    output.ends_with(0).shows(&["BPF tracepoints: bpf is denied", "by a filter of"]);
}

#[test]
fn a_run_that_may_not_pin_its_threads_goes_on_without_and_says_so() {
    let home = Home::new();
    let line = format!("echo -x tcp:send {SHORT} -v");
    let Some(output) = filtered(&home, AFFINITY, EPERM, &line) else { return };
    output.ends_with(0).shows(&["sched_setaffinity is denied by a filter", "threads are not pinned"]);
}

/// A control group of cpusets of our own, of either version.
struct Cpuset(std::path::PathBuf);

impl Cpuset {
    /// With two CPUs; `None`: this machine lets us have none.
    fn new() -> Option<Self> {
        let two = std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let parent = if two { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/cpuset" };
        let group = Self(format!("{parent}/msgpath-test-{}", std::process::id()).into());
        let made = std::fs::create_dir(&group.0).and_then(|()| group.set("cpuset.cpus", "0-1"));
        match made.and_then(|()| group.set("cpuset.mems", "0")) {
            Ok(()) => Some(group),
            Err(error) => {
                eprintln!("skipped: no cpuset of our own with CPUs 0 and 1: {error}");
                None
            }
        }
    }

    fn set(&self, file: &str, text: &str) -> std::io::Result<()> {
        std::fs::write(self.0.join(file), text)
    }
}

/// A control group that is removed at the end.
struct Folder(std::path::PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_cpu_that_is_taken_away_ends_no_run_and_is_named() {
    let Some(group) = Cpuset::new() else { return };
    let home = Home::new();
    let words = "echo -x tcp:send --cpu 0,1 -t 6s -r 30 -w 0 -o extend=no,what-ifs=no --name narrowed -J";
    let own = home.command(&[]);
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ >\"$0/cgroup.procs\"; exec \"$@\""]).arg(&group.0);
    command.arg(env!("CARGO_BIN_EXE_msgpath")).args(words.split(' ')).current_dir(home.path()).stdin(Stdio::null());
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut running = Running::new(command);
    assert!(running.meets(&home.runs().join("narrowed"), 1), "a round is recorded");
    group.set("cpuset.cpus", "0").unwrap();
    let value = running.finish(LIMIT).ends_with(0).json();
    let warnings = value["warnings"].as_array().unwrap().iter();
    let found: Vec<&str> =
        warnings.filter(|one| one["code"] == "W192").filter_map(|one| one["text"].as_str()).collect();
    assert_eq!(found.len(), 1, "{}", value["warnings"]);
    assert!(found[0].starts_with("CPU 1 could not be used by both ends any more"), "{found:?}");
    assert!(found[0].ends_with("threads that were pinned there ran elsewhere"), "{found:?}");
}

#[test]
fn a_quota_of_a_parent_that_is_set_during_the_run_is_named_with_its_group() {
    let two = std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    let (parent, quota, limit, pass_on) = match two {
        true => ("/sys/fs/cgroup", "cpu.max", "20000 100000", "+cpu"),
        false => ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "20000", ""),
    };
    let outer = std::path::PathBuf::from(format!("{parent}/msgpath-outer-{}", std::process::id()));
    let inner = outer.join("inner");
    let _gone = (Folder(inner.clone()), Folder(outer.clone()));
    let made = std::fs::create_dir(&outer)
        .and_then(|()| if two { std::fs::write(outer.join("cgroup.subtree_control"), pass_on) } else { Ok(()) })
        .and_then(|()| std::fs::create_dir(&inner));
    if made.is_err() || !outer.join(quota).exists() {
        return eprintln!("skipped: no CPU quota of our own in {parent}");
    }
    let home = Home::new();
    let words = "echo -x shm:ring/spin -t 6s -r 20 -w 0 -o extend=no,what-ifs=no --name slowed -J";
    let own = home.command(&[]);
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ >\"$0/cgroup.procs\"; exec \"$@\""]).arg(&inner);
    command.arg(env!("CARGO_BIN_EXE_msgpath")).args(words.split(' ')).current_dir(home.path()).stdin(Stdio::null());
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut running = Running::new(command);
    assert!(running.meets(&home.runs().join("slowed"), 1), "a round is recorded");
    std::fs::write(outer.join(quota), limit).unwrap();
    let value = running.finish(LIMIT).ends_with(0).json();
    let warnings = value["warnings"].as_array().unwrap().iter();
    let found: Vec<&str> = warnings.filter(|one| one["code"] == "W41").filter_map(|one| one["text"].as_str()).collect();
    let group = format!("(the quota of {}: 20.0 ms of CPU time every 100 ms)", outer.display());
    assert!(found.iter().any(|text| text.contains(&group)), "{group}: {found:?}");
}

#[test]
fn a_cpu_that_is_not_there_is_named_with_those_that_are() {
    let home = Home::new();
    for line in ["echo --cpu 0,4000 -c 100 -r 2 -w 0 --no-save", "rpc here --cpu 4000 -k 10 ping --no-save"] {
        home.run(line).ends_with(3).says(&["cpu 4000 is not there", "it may use 0"]);
    }
}

#[test]
fn a_server_that_is_stopped_over_udp_is_named_and_no_nic_is_blamed() {
    for seconds in [4, 7] {
        let home = Home::new();
        let line = "echo -w 0 -o what-ifs=no,extend=no --name stopped -x udp:send -c 30000 -r 4 --json";
        let mut running = home.start(line);
        assert!(running.meets(&home.runs().join("stopped"), 1), "a round is recorded");
        let far = *running.children().first().expect("the far end is a child");
        // It is recorded between two rounds; one lasts for a second at least.
        std::thread::sleep(std::time::Duration::from_millis(300));
        running.send_to("STOP", far);
        std::thread::sleep(std::time::Duration::from_secs(seconds));
        running.send_to("CONT", far);
        let output = running.finish(LIMIT).ends_with(0);
        let value = output.json();
        let warnings = value["warnings"].as_array().unwrap().iter();
        let found: Vec<&str> =
            warnings.filter(|one| one["code"] == "W41").filter_map(|one| one["text"].as_str()).collect();
        assert!(found.iter().any(|text| text.starts_with("the server did not run for ")), "{}", value["warnings"]);
        assert!(!output.out.contains("lost by a NIC"), "{}", output.out);
    }
}
