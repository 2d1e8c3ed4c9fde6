//! `msgpath lab` and `--between`: namespaces made, measured between, and gone afterwards.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::command::{Home, Running};

/// A lab that is taken down whatever the test does.
struct Lab<'a> {
    home: &'a Home,
    name: String,
}

impl<'a> Lab<'a> {
    /// `None` with a reason where no lab can be put up here.
    fn up(home: &'a Home, kind: &str, options: &str) -> Option<Self> {
        let name = format!("t{kind}{}", std::process::id());
        let output = home.run(&format!("lab up {name} {options}"));
        if output.code == Some(3) && (output.err.contains("ermi") || output.err.contains("iproute2")) {
            eprintln!("skipped: {}", output.err.lines().next().unwrap_or_default());
            return None;
        }
        output.ends_with(0).shows(&["10.66.0.1", "10.66.0.2"]);
        Some(Self { home, name })
    }

    fn namespace(&self, end: &str) -> std::path::PathBuf {
        Path::new("/run/netns").join(format!("msgpath-{}-{end}", self.name))
    }
}

impl Drop for Lab<'_> {
    fn drop(&mut self) {
        self.home.run(&format!("lab down {}", self.name));
    }
}

#[test]
fn a_lab_is_put_up_measured_in_and_taken_down() {
    let home = Home::new();
    let Some(lab) = Lab::up(&home, "a", "--rate 1G --mtu 1400") else { return };
    let name = lab.name.clone();
    let status = home.run("lab status --json").ends_with(0).json();
    let own = status["labs"].as_array().unwrap().iter().find(|one| one["name"] == name.as_str()).unwrap();
    assert_eq!((own["state"].as_str(), own["shape"].as_str()), (Some("up"), Some("MTU 1400, 1.00 Gbit/s")));
    home.run(&format!("lab up {name}")).ends_with(3).says(&["there is a lab named"]);
    let value =
        home.run(&format!("echo --between {name} -c 400 -r 5 -w 0 --no-trials --no-save --json")).ends_with(0).json();
    assert_eq!(value["target"], format!("{name}.a → {name}.b"));
    let route = &value["floors"]["route"];
    assert_eq!((route["kind"].as_str(), route["to"].as_str()), (Some("veth"), Some("10.66.0.2")), "{route}");
    let names = format!("echo --between {name}.b,{name}.a -x udp:send -c 400 -r 5 -w 0 --no-trials --no-save --json");
    assert_eq!(home.run(&names).ends_with(0).json()["target"], format!("{name}.b → {name}.a"));
    let (a, b) = (lab.namespace("a"), lab.namespace("b"));
    assert!(a.exists() && b.exists());
    home.run(&format!("lab down {name}")).ends_with(0);
    assert!(!a.exists() && !b.exists());
    home.run(&format!("lab down {name}")).ends_with(3).says(&["no lab or place named"]);
}

#[test]
fn more_than_two_places_meet_at_a_bridge() {
    let home = Home::new();
    let Some(lab) = Lab::up(&home, "b", "--hosts 3") else { return };
    let line = format!("echo --between {0}.a,{0}.c -c 200 -r 5 -w 0 --no-trials --no-save --json", lab.name);
    home.run(&line).ends_with(0);
}

#[test]
fn a_run_makes_a_lab_of_its_own_and_leaves_nothing() {
    let home = Home::new();
    let output = home.run("echo --between lab -c 400 -r 5 -w 0 --no-trials --no-save --json");
    if output.code == Some(3) {
        return eprintln!("skipped: {}", output.err.lines().next().unwrap_or_default());
    }
    let value = output.ends_with(0).json();
    assert_eq!(value["floors"]["route"]["kind"], "veth");
    assert_ne!(value["near"]["facts"]["network namespace"], value["far"]["facts"]["network namespace"]);
}

#[test]
fn a_killed_run_takes_its_lab_with_it() {
    let home = Home::new();
    let mut command = home.command(&["echo", "--between", "lab", "-t", "30s", "--no-save"]);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut run = command.spawn().unwrap();
    let held = |pid: u32| {
        let tasks = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let of = |pid: &str| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let holds = |pid: &&str| String::from_utf8_lossy(&of(pid)).contains("__hold");
        tasks.split_whitespace().find(holds).map(str::to_owned)
    };
    let until = Instant::now() + Duration::from_secs(20);
    let holder = loop {
        if let Some(holder) = held(run.id()) {
            break holder;
        }
        if run.try_wait().unwrap().is_some() || Instant::now() > until {
            let _ = (run.kill(), run.wait());
            return eprintln!("skipped: no lab here");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    run.kill().unwrap();
    run.wait().unwrap();
    let gone = Path::new("/proc").join(&holder);
    while gone.exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!gone.exists(), "the holder lives on");
}

#[test]
fn no_root_is_needed_where_users_may_have_namespaces() {
    let allowed = Command::new("unshare").args(["-rn", "true"]).status();
    let ip = Command::new("ip").arg("-V").status();
    if !allowed.is_ok_and(|status| status.success()) || !ip.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: no user namespaces, or no iproute2");
    }
    let home = Home::new();
    // Root of a user namespace that may not make named ones: the same as an ordinary user.
    let mut command = Command::new("unshare");
    command.args(["-rn", env!("CARGO_BIN_EXE_msgpath")]);
    command.args("echo --between lab -c 200 -r 5 -w 0 --no-trials --no-save --json".split(' '));
    command.env("HOME", home.path()).env("TMPDIR", home.temporary());
    let output = Running::new(command).finish(Duration::from_secs(60)).ends_with(0);
    assert_eq!(output.json()["floors"]["route"]["kind"], "veth");
}

#[test]
fn labs_that_cannot_be() {
    let home = Home::new();
    home.run("lab up x --net 192.168.1.0/24").ends_with(2).says(&["10.0.0.0/8"]);
    home.run("lab up x --hosts 99").ends_with(2).says(&["2 to 16"]);
    home.run("lab up UPPER").ends_with(2).says(&["small letters"]);
    home.run("lab up x --loss 2").ends_with(2).says(&["no share"]);
    home.run("echo --between nowhere").ends_with(3).says(&["no lab named nowhere"]);
    home.run("echo --between a,b").ends_with(3).says(&["no place or namespace"]);
    home.run("echo 127.0.0.1 --between lab").ends_with(2).says(&["both ends"]);
}
