//! Who else used the CPUs during a run, whatever it measured.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::printed::Value;

use crate::command::{Home, within};

/// A shell that spins until it is killed, or has used 60 s of CPU time.
struct Busy(Child);

impl Busy {
    fn new() -> Self {
        let spin = ["-c", "ulimit -t 60; while :; do :; done"];
        let child = Command::new("sh").args(spin).stdin(Stdio::null()).spawn().expect("sh starts");
        let busy = Self(child);
        // It must have begun to use its CPU.
        let stat = format!("/proc/{}/stat", busy.0.id());
        let ticks = || {
            let text = std::fs::read_to_string(&stat).unwrap_or_default();
            let word = text.rsplit(')').next().unwrap_or_default().split_whitespace().nth(11).map(str::to_owned);
            word.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0)
        };
        assert!(within(Duration::from_secs(60), || ticks() > 5), "it does not spin");
        busy
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_kind_of_run_keeps_who_else_used_the_cpus() {
    let home = Home::new();
    let _busy = Busy::new();
    for (name, line) in [
        // One round: what was used in it is known only if somebody looked before it.
        ("echo", "echo -x pipe:write -l 64 -t 2s -r 1 -w 0 -o what-ifs=no"),
        ("rpc", "rpc here -k 100 --rate 50 ping"),
        ("periodic", "periodic -x udp -n 2 -c 100 --first 0 --period 20ms"),
    ] {
        home.run(&format!("{line} --name {name} -qq")).ends_with(0);
        let header = std::fs::read_to_string(home.runs().join(name).join("run.json")).unwrap();
        let header: Value = serde_json::from_str(&header).unwrap();
        if let Some(why) = header.get("others_unseen").and_then(crate::printed::Value::as_str) {
            eprintln!("skipped: {why}");
            continue;
        }
        let others = header["others"].as_array().unwrap_or_else(|| panic!("{name}: nobody is named"));
        assert!(others.iter().all(|task| task["cpu_ns"].as_u64().is_some_and(|ns| ns > 0)), "{name}: {others:?}");
        let ours = |task: &Value| task["name"].as_str().is_some_and(|name| name.starts_with("msgpath"));
        // Other tests run a msgpath of their own at the same time: that is who has the program's name.
        assert!(!others.is_empty() && !others.iter().all(ours), "{name}: {others:?}");
    }
}
