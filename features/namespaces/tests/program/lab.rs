//! `msgpath lab` and `--between`: namespaces made, measured between, and gone afterwards.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::{Home, LIMIT, Output, Running, within};
use crate::schema::fits;

/// A lab that is taken down whatever the test does.
pub(crate) struct Lab<'a> {
    home: &'a Home,
    name: String,
}

impl<'a> Lab<'a> {
    /// `None` with a reason where no lab can be put up here.
    pub(crate) fn up(home: &'a Home, kind: &str, options: &str) -> Option<Self> {
        Self::with_addresses(home, kind, options, ["10.66.0.1", "10.66.0.2"])
    }

    fn with_addresses(home: &'a Home, kind: &str, options: &str, addresses: [&str; 2]) -> Option<Self> {
        let name = format!("t{kind}{}", std::process::id());
        let output = home.run(&format!("lab up {name} {options}"));
        if output.code == Some(3) && (output.err.contains("ermi") || output.err.contains("iproute2")) {
            eprintln!("skipped: {}", output.err.lines().next().unwrap_or_default());
            return None;
        }
        output.ends_with(0).shows(&addresses);
        Some(Self { home, name })
    }

    /// Its name, which those of its namespaces contain.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn namespace(&self, end: &str) -> std::path::PathBuf {
        Path::new("/run/netns").join(format!("msgpath-{}-{end}", self.name))
    }
}

impl Drop for Lab<'_> {
    fn drop(&mut self) {
        // Nothing that can panic: this may be the end of a test that has failed.
        let _ = self.home.command(&["lab", "down", &self.name, "--force"]).output();
    }
}

#[test]
fn a_lab_is_put_up_measured_in_and_taken_down() {
    let home = Home::new();
    let Some(lab) = Lab::up(&home, "a", "--rate 1G --mtu 1400") else { return };
    let name = lab.name.clone();
    let status = home.run("lab status --json").ends_with(0).json();
    fits(&home.run("schema").ends_with(0).json(), "Labs", &status);
    let own = status["labs"].as_array().unwrap().iter().find(|one| one["name"] == name.as_str()).unwrap();
    assert_eq!((own["state"].as_str(), own["shape"].as_str()), (Some("up"), Some("MTU 1400, 1.00 Gbit/s")));
    home.run(&format!("lab up {name}")).ends_with(3).says(&["there is a lab named"]);
    let value = home
        .run(&format!("echo --between {name} -c 400 -r 5 -w 0 -o what-ifs=no --no-save --json"))
        .ends_with(0)
        .json();
    assert_eq!(value["target"], format!("{name}.a → {name}.b (MTU 1400, 1.00 Gbit/s) at 10.66.0.2"));
    let route = &value["floors"]["route"];
    assert_eq!((route["kind"].as_str(), route["to"].as_str()), (Some("veth"), Some("10.66.0.2")), "{route}");
    let names =
        format!("echo --between {name}.b,{name}.a -x udp:send -c 400 -r 5 -w 0 -o what-ifs=no --no-save --json");
    let value = home.run(&names).ends_with(0).json();
    assert_eq!(value["target"], format!("{name}.b → {name}.a (MTU 1400, 1.00 Gbit/s) at 10.66.0.1"));
    let (a, b) = (lab.namespace("a"), lab.namespace("b"));
    assert!(a.exists() && b.exists());
    home.run(&format!("lab down {name}")).ends_with(0);
    assert!(!a.exists() && !b.exists());
    home.run(&format!("lab down {name}")).ends_with(3).says(&["no lab or place named"]);
}

#[test]
fn places_with_ipv6_alone_are_measured_launched_on_and_meshed() {
    let home = Home::new();
    let addresses = ["fd66::1", "fd66::2"];
    let Some(lab) = Lab::with_addresses(&home, "v", "--net fd66::/64", addresses) else { return };
    let name = &lab.name;
    let short = "-c 200 -r 2 -w 0 -o extend=no --no-save";
    let line = format!("compare -x tcp:send,udp:send --between {name} {short} --json");
    let value = home.run(&line).ends_with(0).json();
    assert_eq!(value["target"], format!("{name}.a → {name}.b at fd66::2"));
    home.run(&format!("stream -x tcp:send --between {name} {short}")).ends_with(0);
    home.run(&format!("echo --between {name} -o ip=4 {short}")).ends_with(2).says(&["another family than fd66::"]);
    // From the first place to the second, and between both, by a launcher into their namespaces.
    let program = env!("CARGO_BIN_EXE_msgpath");
    let into = format!("ip netns exec msgpath-{name}-{{host}}");
    let near = lab.namespace("a");
    let inside = |words: &[&str]| {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", near.display())).arg(program).args(words);
        command.env("HOME", home.path()).env("XDG_DATA_HOME", home.path().join("data"));
        Running::new(command).finish(LIMIT).ends_with(0)
    };
    let mut echo = vec!["echo", "b", "--launch", &into, "--program", program, "-x", "tcp:send", "--json"];
    echo.extend(short.split(' '));
    assert_eq!(inside(&echo).json()["ends"][1]["device"]["name"], "mp0");
    let mesh =
        ["mesh", "a,b", "--launch", &into, "--program", program, "-t", "100ms", "-r", "2", "--both", "--name", "m"];
    inside(&mesh).shows(&["2 of 2 pairs"]);
}

#[test]
fn a_lab_of_a_run_has_both_families() {
    let home = Home::new();
    if !Path::new("/proc/net/if_inet6").exists() {
        return eprintln!("skipped: this kernel has no IPv6");
    }
    for (family, far) in [("4", "10.66.0.2"), ("6", "fd66::2")] {
        let line =
            format!("echo -x tcp:send --between lab -o ip={family} -c 200 -r 2 -w 0 -o extend=no --no-save --json");
        let output = home.run(&line);
        if output.code == Some(3) {
            return eprintln!("skipped: {}", output.err.lines().next().unwrap_or_default());
        }
        assert_eq!(output.ends_with(0).json()["floors"]["route"]["to"], far);
    }
}

#[test]
fn more_than_two_places_meet_at_a_bridge() {
    let home = Home::new();
    let Some(lab) = Lab::up(&home, "b", "--hosts 3") else { return };
    let line = format!("echo --between {0}.a,{0}.c -c 200 -r 5 -w 0 -o what-ifs=no --no-save --json", lab.name);
    home.run(&line).ends_with(0);
}

#[test]
fn a_run_makes_a_lab_of_its_own_and_leaves_nothing() {
    let home = Home::new();
    let output = home.run("echo --between lab -c 400 -r 5 -w 0 -o what-ifs=no --no-save --json");
    if output.code == Some(3) {
        return eprintln!("skipped: {}", output.err.lines().next().unwrap_or_default());
    }
    let value = output.ends_with(0).json();
    assert_eq!(value["floors"]["route"]["kind"], "veth");
    let namespace = |end: usize| {
        let host = value["ends"][end]["host"].as_u64().unwrap() as usize;
        value["hosts"][host]["facts"]["network namespace"].as_str().unwrap().to_owned()
    };
    assert_ne!(namespace(0), namespace(1));
}

#[test]
fn a_killed_run_takes_its_lab_with_it() {
    let home = Home::new();
    let mut command = home.command(&["echo", "--between", "lab", "-t", "30s", "--no-save"]);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut run = command.spawn().unwrap();
    let held = |pid: u32| {
        let tasks = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let name = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let holds = |pid: &&str| name(pid).trim() == "msgpath-holder";
        tasks.split_whitespace().find(holds).map(str::to_owned)
    };
    let until = Instant::now() + Duration::from_secs(60);
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
    command.args("echo --between lab -c 200 -r 5 -w 0 -o what-ifs=no --no-save --json".split(' '));
    command.env("HOME", home.path()).env("TMPDIR", home.temporary());
    let output = Running::new(command).finish(LIMIT).ends_with(0);
    assert_eq!(output.json()["floors"]["route"]["kind"], "veth");
}

#[test]
fn labs_that_cannot_be() {
    let home = Home::new();
    home.run("lab up x --net 192.168.1.0/24").ends_with(2).says(&["10.0.0.0/8"]);
    home.run("lab up x --hosts 99").ends_with(2).says(&["2 to 16"]);
    home.run("lab up UPPER").ends_with(2).says(&["small letters"]);
    home.run("lab up x --loss 2").ends_with(2).says(&["not a share"]);
    home.run("echo --between nowhere").ends_with(3).says(&["no lab named nowhere"]);
    home.run("echo --between a,b").ends_with(3).says(&["no place or namespace"]);
    home.run("echo 127.0.0.1 --between lab").ends_with(2).says(&["both ends"]);
}

/// What a lab's `ip` or `tc` says of its namespace.
fn ip(namespace: &str, words: &str) -> String {
    let output = Command::new("ip").args(["-n", namespace]).args(words.split(' ')).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The fastest message of an echo, there and back, ns.
fn fastest(output: &Output) -> u64 {
    output.json()["cases"][0]["fastest_ns"].as_u64().unwrap()
}

fn own(home: &Home, name: &str) -> crate::printed::Value {
    let status = home.run("lab status --json").ends_with(0).json();
    status["labs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == name)
        .cloned()
        .unwrap_or(crate::printed::Value::Null)
}

#[test]
fn the_relay_delays_what_the_kernel_cannot() {
    let home = Home::new();
    let Some(lab) = Lab::up(&home, "r", "--delay 3ms --netem no") else { return };
    let line = "-c 100 -r 5 -w 0 -o what-ifs=no --no-save --json";
    let output = home.run(&format!("echo --between {} {line}", lab.name)).ends_with(0);
    let (fastest, target) = (fastest(&output), output.json()["target"].as_str().unwrap().to_owned());
    // Never early; how late, depends on what else this machine does.
    assert!(fastest >= 6_000_000, "{fastest} ns there and back");
    assert!(target.contains("delay 3.00 ms, by msgpath's relay"), "{target}");
    let status = home.run("lab status --json").ends_with(0).json();
    fits(&home.run("schema").ends_with(0).json(), "Labs", &status);
    let value = own(&home, &lab.name);
    assert_eq!(value["state"], "up");
    let packets = &value["packets"];
    assert!(packets["arrived"].as_u64().unwrap() > 200 && packets["lost"] == 0 && packets["no_room"] == 0, "{packets}");
    let pid = value["relay"]["pid"].as_u64().unwrap();
    let relay = Path::new("/proc").join(pid.to_string());
    assert!(relay.exists());
    let status = home.run("lab status").ends_with(0);
    assert!(status.out.lines().all(|line| line.chars().count() <= 100), "{}", status.out);
    home.run(&format!("lab down {}", lab.name)).ends_with(0);
    // Whoever took it over may not have reaped it yet.
    let ended = || std::fs::read_to_string(relay.join("stat")).map_or(true, |stat| stat.contains(") Z "));
    assert!(within(Duration::from_secs(60), ended), "the relay lives on");
    assert!(!lab.namespace("switch").exists());
}

/// Whether a relay of this lab runs and is not written down.
fn relay_is_lost(home: &Home, name: &str) -> bool {
    let status = home.run("lab status --json").ends_with(0).json();
    status["lost_relays"].as_array().unwrap().iter().any(|relay| relay["lab"] == name)
}

#[test]
fn a_relay_holds_nothing_of_its_caller_and_is_ended_without_its_record() {
    let home = Home::new();
    let name = format!("th{}", std::process::id());
    let held = home.path().join("held");
    let mut command = Command::new("sh");
    command.args(["-c", "exec 7>\"$0\"; exec \"$@\""]).arg(&held).arg(env!("CARGO_BIN_EXE_msgpath"));
    command.args(["lab", "up", &name, "--loss", "0.1%", "--netem", "no"]).stdin(Stdio::null());
    let output = Running::new(command).finish(LIMIT);
    if output.code == Some(3) {
        return eprintln!("skipped: {}", output.err.lines().next().unwrap_or_default());
    }
    output.ends_with(0);
    let lab = Lab { home: &home, name };
    let pid = own(&home, &lab.name)["relay"]["pid"].as_u64().unwrap();
    let relay = Path::new("/proc").join(pid.to_string());
    let open: Vec<_> = std::fs::read_dir(relay.join("fd")).unwrap().flatten().collect();
    let open: Vec<_> = open.iter().filter_map(|fd| std::fs::read_link(fd.path()).ok()).collect();
    assert!(!open.is_empty() && !open.contains(&held), "{open:?}");
    // Somebody clears /run, or a lab's file is damaged.
    let (file, kept) = (format!("/run/msgpath/labs/{}.json", lab.name), home.path().join("kept"));
    std::fs::copy(&file, &kept).unwrap();
    std::fs::remove_file(&file).unwrap();
    home.run("lab status").ends_with(0).shows(&[&format!("the relay of lab {} (process {pid}) has lost", lab.name)]);
    home.run(&format!("lab down {}", lab.name)).ends_with(0);
    let ended = || std::fs::read_to_string(relay.join("stat")).map_or(true, |stat| stat.contains(") Z "));
    assert!(within(Duration::from_secs(60), ended), "the relay lives on");
    assert!(!relay_is_lost(&home, &lab.name));
    std::fs::create_dir_all("/run/msgpath/labs").unwrap();
    std::fs::copy(&kept, &file).unwrap();
    home.run(&format!("lab down {}", lab.name)).ends_with(0);
    assert!(!lab.namespace("a").exists() && !lab.namespace("switch").exists());
}

#[test]
fn a_relay_that_was_killed_is_missed() {
    let home = Home::new();
    let Some(lab) = Lab::up(&home, "k", "--loss 0.1% --netem no --hosts 3") else { return };
    let pid = own(&home, &lab.name)["relay"]["pid"].to_string();
    Command::new("kill").args(["-KILL", &pid]).status().unwrap();
    assert!(within(Duration::from_secs(60), || own(&home, &lab.name)["state"] == "broken"));
    home.run("lab status").ends_with(0).shows(&["broken", "its relay (process", "has ended"]);
    home.run(&format!("echo --between {}", lab.name)).ends_with(3).says(&["E40", "is not whole", "its relay"]);
    home.run(&format!("lab down {}", lab.name)).ends_with(0);
}

#[test]
fn a_run_says_what_its_own_link_is_like() {
    let home = Home::new();
    let line = "echo -x udp:send --between lab --link rate=1G,delay=2ms,loss=4%,duplicate=1%,mtu=1400,netem=no";
    let output = home.run(&format!("{line} -c 200 -r 5 -w 0 -o what-ifs=no --json"));
    if output.code == Some(3) {
        return eprintln!("skipped: {}", output.err.lines().next().unwrap_or_default());
    }
    let output = output.ends_with(0).says(&["netem: not wanted; by msgpath's relay"]);
    let value = output.json();
    let target = value["target"].as_str().unwrap();
    assert!(
        target.starts_with("lab a → lab b (MTU 1400, 1.00 Gbit/s, delay 2.00 ms, loss 4 %, duplicates 1 %, by"),
        "{target}"
    );
    assert_eq!(value["floors"]["route"]["mtu_bytes"], 1400);
    let delivery = &value["cases"][0]["delivery"];
    // 200 messages, each of which may be lost twice: 16 expected.
    assert!(delivery["lost"].as_u64().unwrap() > 3, "{delivery}");
    assert!(fastest(&output) >= 4_000_000);
    let name = value["name"].as_str().unwrap();
    home.run(&format!("show {name}")).ends_with(0).shows(&["delay 2.00 ms"]);
}

#[test]
fn what_a_link_doubles_is_counted_and_no_message_more() {
    let link = "--between lab --link duplicate=30%,netem=no -w 0 -o what-ifs=no --no-save --json";
    for load in ["stream -x udp:send -l 64 -c 200 -r 3", "echo -x udp:send --rate 500 -t 600ms -r 3"] {
        let output = Home::new().run(&format!("{load} {link}"));
        if output.code == Some(3) {
            return eprintln!("skipped: {}", output.err.lines().next().unwrap_or_default());
        }
        let value = output.ends_with(0).json();
        let count = |name: &str| value["cases"][0]["delivery"][name].as_u64().expect("a count");
        assert!(count("duplicated") > 0, "{load}: {}", value["cases"][0]["delivery"]);
        assert!(count("received") + count("lost") == count("sent"), "{load}: {}", value["cases"][0]["delivery"]);
    }
}

/// A handshake that is lost comes a second later: the connections arrive in another order, and each is the one that it was.
#[test]
fn connections_over_a_link_that_loses_handshakes_are_all_there() {
    let link = "--between lab --link loss=5%,netem=no";
    let line = format!("echo -x tcp:send {link} -P 32 -c 320 -r 3 -w 0 -o what-ifs=no --no-save --json");
    let output = Home::new().run(&line);
    if output.code == Some(3) {
        return eprintln!("skipped: {}", output.err.lines().next().unwrap_or_default());
    }
    let value = output.ends_with(0).json();
    let (case, delivery) = (&value["cases"][0]["case"], &value["cases"][0]["delivery"]);
    assert_eq!((&case["connections"], &delivery["lost"]), (&32.into(), &0.into()));
    assert!(delivery["received"].as_u64() >= Some(320) && delivery["received"] == delivery["sent"], "{delivery}");
}

#[test]
fn a_link_that_loses_everything_has_no_result() {
    let home = Home::new();
    // Each waits for what does not come, so they wait at the same time.
    let link = "--between lab --link loss=100%,netem=no";
    let running = [
        ("echo", "udp:send", "0 round trips of 9"),
        ("stream", "udp:send", "0 messages of 9"),
        ("stream -R", "udp:send", "0 messages of 9"),
        ("compare", "udp:send,udp:sendmsg", "0 round trips of 9, and 1 other case alike"),
    ]
    .map(|(verb, paths, why)| {
        let line = format!("{verb} -x {paths} {link} -l 64 -c 9 -r 3 -w 0 -o what-ifs=no --no-save");
        (verb, why, home.start(&line))
    });
    for (verb, why, running) in running {
        let output = running.finish(LIMIT);
        if output.code == Some(3) && output.err.contains("E40") {
            eprintln!("skipped: no lab here: {}", output.err);
            continue;
        }
        let output = output.ends_with(4).says(&["error[E38]: nothing arrived over udp:send", why]);
        assert!(output.out.contains("100 %") && output.out.contains("lost"), "{verb}: {}", output.out);
    }
}

#[test]
fn offloads_are_switched_on_every_device() {
    let home = Home::new();
    let Some(lab) = Lab::up(&home, "o", "--offloads off --hosts 3") else { return };
    assert_eq!(own(&home, &lab.name)["shape"], "offloads off");
    assert_eq!(own(&home, &lab.name)["notes"], serde_json::json!([]), "all of a veth's offloads can be switched");
    let line = format!("echo --between {} -c 200 -r 5 -w 0 -o what-ifs=no --no-save --json", lab.name);
    let value = home.run(&line).ends_with(0).json();
    assert!(value["target"].as_str().unwrap().contains("(offloads off)"), "{}", value["target"]);
}

#[test]
fn the_same_addresses_may_be_in_two_labs_and_no_link_joins_them() {
    let home = Home::new();
    let Some(one) = Lab::up(&home, "x", "") else { return };
    let Some(other) = Lab::up(&home, "y", "") else { return };
    home.run(&format!("echo --between {}.a,{}.b", one.name, other.name)).ends_with(3).says(&["E48", "two labs"]);
    let line = format!("echo --between {} -c 200 -r 5 -w 0 -o what-ifs=no --no-save", other.name);
    home.run(&line).ends_with(0);
}

#[test]
fn paths_that_no_link_carries_are_left_out() {
    let home = Home::new();
    let line = "compare -x tcp:send,unix:send,pipe:write,mq,shm --between lab -c 200 -r 6 -w 0 --no-save --json";
    let output = home.run(line);
    if output.code == Some(3) {
        return eprintln!("skipped: {}", output.err.lines().next().unwrap_or_default());
    }
    let value = output.json();
    let left: Vec<&str> =
        value["unavailable"].as_array().unwrap().iter().map(|one| one["reason"]["why"].as_str().unwrap()).collect();
    // Some sizes have another reason as well: mq has a largest message.
    for transport in ["unix", "pipe", "shm"] {
        let why = format!("both ends are in namespaces of their own, and {transport} does not cross the link");
        assert!(left.contains(&why.as_str()), "{transport}: {left:?}");
    }
    assert!(value["cases"][0]["rounds"].as_u64().unwrap() > 0, "tcp was measured");
    home.run("echo -x unix:send --between lab").ends_with(3).says(&["unix does not cross the link"]);
}

#[test]
fn a_link_that_is_cut_ends_the_run_and_keeps_what_was_measured() {
    let home = Home::new();
    let Some(lab) = Lab::up(&home, "c", "") else { return };
    let line = format!("echo --between {} -t 200s --name cut", lab.name);
    let running = home.start(&line);
    let begun = within(Duration::from_secs(60), || {
        std::fs::read_dir(home.runs().join("cut")).is_ok_and(|mut files| files.any(|file| file.is_ok()))
    });
    assert!(begun, "no record was begun");
    std::thread::sleep(Duration::from_millis(1500));
    // It is in use: not taken away by accident.
    home.run(&format!("lab down {}", lab.name)).ends_with(3).says(&["E47", "in use", "msgpath"]);
    ip(&format!("msgpath-{}-a", lab.name), "link delete mp0");
    // By itself it would go on for longer than this waits, and end well.
    let output = running.finish(LIMIT).ends_with(4).says(&["E46", "the link between", "is gone"]);
    assert!(output.err.contains("msgpath show cut"), "{}", output.err);
    home.run("show cut").ends_with(0);
    home.run(&format!("lab down {}", lab.name)).ends_with(0);
}

#[test]
fn a_lab_is_taken_down_under_its_users_when_that_is_wanted() {
    let home = Home::new();
    let Some(lab) = Lab::up(&home, "f", "") else { return };
    let mut user = Command::new("ip")
        .args(["netns", "exec", &format!("msgpath-{}-b", lab.name), "sleep", "60"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    // It is a user from when on it is in there.
    let place = |file: &Path| std::fs::metadata(file).map(|data| data.ino()).ok();
    let inside = Path::new("/proc").join(user.id().to_string()).join("ns/net");
    let entered = within(Duration::from_secs(60), || place(&inside) == place(&lab.namespace("b")));
    let down = |how: &str| home.run(&format!("lab down {}{how}", lab.name));
    let (refused, forced) = (down(""), down(" --force"));
    let _ = user.kill();
    let _ = user.wait();
    assert!(entered && refused.ends_with(3).err.contains("E47"));
    forced.ends_with(0);
    assert!(!lab.namespace("b").exists());
}

#[test]
fn a_maker_that_is_killed_leaves_nothing_to_the_next() {
    let home = Home::new();
    let Some(first) = Lab::up(&home, "m", "") else { return };
    let name = first.name.clone();
    drop(first);
    let _last = Lab { home: &home, name: name.clone() };
    for after in [2, 10, 25, 50, 90, 150] {
        let mut command = home.command(&["lab", "up", &name, "--delay", "1ms", "--netem", "no", "--hosts", "4"]);
        let mut maker = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(after));
        maker.kill().unwrap();
        let ended = maker.wait().unwrap();
        if ended.signal().is_none() {
            // It was through before: then there is a lab.
            home.run(&format!("lab down {name}")).ends_with(0);
            continue;
        }
        // Whoever comes next clears up what is there and gets the name.
        // Unless the lab was whole already: then it stays, as a lab does.
        let next = home.run(&format!("lab up {name}"));
        assert!(next.code == Some(0) || next.err.contains("there is a lab named"), "{}", next.err);
        home.run(&format!("lab down {name}")).ends_with(0);
    }
    let prefix = format!("msgpath-{name}-");
    let left = std::fs::read_dir("/run/netns").into_iter().flatten().filter_map(Result::ok);
    let left: Vec<_> = left.filter(|file| file.file_name().to_string_lossy().starts_with(&prefix)).collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(own(&home, &name), crate::printed::Value::Null);
    assert!(!relay_is_lost(&home, &name), "a relay lives on");
}

#[test]
fn labs_are_changed_by_one_program_at_a_time() {
    let home = Home::new();
    let Some(first) = Lab::up(&home, "q", "") else { return };
    let lock = std::fs::File::options().append(true).open("/run/msgpath/lock").unwrap();
    lock.lock().unwrap();
    let second = Lab { home: &home, name: format!("{}b", first.name) };
    let mut maker = home.command(&["lab", "up", &second.name]).stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(own(&home, &second.name), crate::printed::Value::Null, "made while another program was busy with labs");
    lock.unlock().unwrap();
    assert!(maker.wait().unwrap().success());
    assert_eq!(own(&home, &second.name)["state"], "up");
}

/// The processes named like our relay or our holders whose parent is `pid`.
fn helpers(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    tasks.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn whatever_ends_a_run_ends_its_relay() {
    let home = Home::new();
    for (signal, after) in [("KILL", 0), ("KILL", 60), ("KILL", 1500), ("INT", 1500), ("TERM", 1500)] {
        let mut command = home.command(&["echo", "--between", "lab", "--link", "delay=1ms,netem=no", "-t", "30s"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut run = command.spawn().unwrap();
        let begun =
            within(Duration::from_secs(60), || !helpers(run.id()).is_empty() || run.try_wait().unwrap().is_some());
        if !begun || run.try_wait().unwrap().is_some() {
            let _ = (run.kill(), run.wait());
            return eprintln!("skipped: no lab here");
        }
        std::thread::sleep(Duration::from_millis(after));
        let started = helpers(run.id());
        Command::new("kill").args(["-s", signal, &run.id().to_string()]).status().unwrap();
        let over = within(Duration::from_secs(60), || run.try_wait().unwrap().is_some());
        let _ = (run.kill(), run.wait());
        assert!(over, "{signal} after {after} ms: it goes on");
        let gone = |pid: &String| !Path::new("/proc").join(pid).exists();
        assert!(within(Duration::from_secs(60), || started.iter().all(gone)), "{signal}: {started:?} live on");
    }
}

#[test]
fn without_root_there_is_no_lab_with_a_name() {
    let home = Home::new();
    let words =
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"];
    match home.run_under(&words, "lab up nobody1") {
        None => eprintln!("skipped: no root here, or no setpriv"),
        // Where the program's folder is closed to nobody, it cannot even be started.
        Some(output) if output.code.is_none_or(|code| code > 100) => eprintln!("skipped: {}", output.err),
        Some(output) => {
            output.ends_with(3).says(&["E40", "cannot be written down", "as root"]);
        }
    }
}

#[test]
fn without_namespaces_there_is_no_lab_at_all() {
    let home = Home::new();
    // A user namespace in which no more of them, and no network namespaces, are allowed.
    let script =
        "echo 0 >/proc/sys/user/max_net_namespaces && echo 0 >/proc/sys/user/max_user_namespaces && exec \"$@\"";
    match home.run_under(&["unshare", "-r", "sh", "-c", script, "sh"], "echo --between lab --no-save -c 100") {
        None => eprintln!("skipped: no user namespaces here to take others away in"),
        Some(output) => {
            output.ends_with(3).says(&["E40", "no network namespace can be made here"]);
        }
    }
}

#[test]
fn links_that_cannot_be() {
    let home = Home::new();
    home.run("echo --link rate=1G").ends_with(2).says(&["--between"]);
    home.run("echo --between lab --link speed=1").ends_with(2).says(&["not a property of a link"]);
    home.run("echo --between lab --link mtu=9").ends_with(2).says(&["not an MTU"]);
    home.run("echo --between lab --link reorder=1%").ends_with(2).says(&["--delay"]);
    home.run("echo --between lab --link delay=11s").ends_with(2).says(&["at most 10 s"]);
    home.run("lab up x --rate 1").ends_with(2).says(&["8 kbit/s"]);
    home.run("lab up x --netem no --delay 1ms --offloads on").ends_with(2).says(&["whole packets"]);
    let Some(lab) = Lab::up(&home, "l", "") else { return };
    let line = format!("echo --between {} --link rate=1G", lab.name);
    home.run(&line).ends_with(2).says(&["links of its own", "without --link"]);
}
