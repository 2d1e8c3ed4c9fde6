//! `--launch`: the far end is started on another host by a program that gives a pipe to it.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use msgpath_agent::launched::MARK;

use crate::command::{Home, Running, within};
use crate::serve::{agent_below, is_confined};

const SOON: Duration = Duration::from_secs(180);
const SHORT: &str = "-c 200 -r 5 -w 0 -o what-ifs=no --no-save --json";
const PROGRAM: &str = env!("CARGO_BIN_EXE_msgpath");

/// A program of this home.
fn script(home: &Home, name: &str, text: &str) -> PathBuf {
    let folder = home.path().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(format!("#!/bin/sh\n{text}\n").as_bytes()).unwrap();
    file.set_permissions(std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// The program in this home, with the scripts of the home before all others.
fn command(home: &Home, words: &[&str]) -> Command {
    let mut command = home.command(words);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", home.path().join("bin").display()));
    command
}

/// Runs `echo HOST --launch BY` and more words of one line.
fn echo(home: &Home, host: &str, by: &str, line: &str) -> crate::command::Output {
    let words = ["echo", host, "--launch", by];
    let words: Vec<&str> = words.into_iter().chain(line.split_whitespace()).collect();
    Running::new(command(home, &words)).finish(SOON)
}

/// Processes whose command line has this word.
fn processes_with(word: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let line = |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    all.filter(|pid| String::from_utf8_lossy(&line(pid)).split('\0').any(|own| own == word)).collect()
}

#[test]
fn every_launcher_gets_a_pipe_to_an_agent_that_finds_its_address() {
    // In the place of each: a program that checks its words, says what a login shell says, and becomes the agent.
    let programs = [
        (
            "ssh",
            "ssh",
            "[ \"$1 $2\" = \"-T -o\" ] || exit 9; while [ \"$1\" != -- ]; do shift; done; shift; h=$1; shift; exec sh -c \"$*\"",
        ),
        ("slurm", "srun", "[ \"$1 $2 $3 $4 $5\" = \"-u --overlap -N1 -n1 -w\" ] || exit 9; shift 6; exec \"$@\""),
        ("docker", "docker", "[ \"$1 $2\" = \"exec -i\" ] || exit 9; shift 3; exec \"$@\""),
        ("podman", "podman", "[ \"$1 $2\" = \"exec -i\" ] || exit 9; shift 3; exec \"$@\""),
        ("kubectl", "kubectl", "[ \"$1 $2 $4\" = \"exec -i --\" ] || exit 9; shift 4; exec \"$@\""),
        ("mpi", "mpirun", "[ \"$1 $2 $3\" = \"-np 1 --host\" ] || exit 9; shift 4; exec \"$@\""),
    ];
    for (launcher, name, text) in programs {
        let home = Home::new();
        script(&home, name, &format!("echo 'Welcome to this host'; echo 'no news' >&2\n{text}"));
        let output = echo(&home, "some-host", launcher, &format!("{SHORT} --program {PROGRAM}")).ends_with(0);
        assert_eq!(output.json()["target"], format!("some-host ({launcher}) at 127.0.0.1"));
    }
}

#[test]
fn a_template_is_started_without_a_shell_and_may_say_the_address() {
    let home = Home::new();
    let enter = script(&home, "enter", "[ \"$1\" = 'a b; c' ] || exit 9; shift; exec \"$@\"");
    let template = format!("{} 'a b; c' {{program}} --host 127.0.0.2", enter.display());
    let line = format!("{SHORT} --program {PROGRAM}");
    let output = echo(&home, "n2", &template, &line).ends_with(0);
    assert_eq!(output.json()["target"], "n2 (enter) at 127.0.0.2");
    echo(&home, "n2", &template, &format!("{line} -o ip=6"))
        .ends_with(3)
        .says(&["error[E72]", "not an address of the family"]);
    // What is typed here is believed rather than what is typed there.
    let output = echo(&home, "n2", &template, &format!("{line} --address 127.0.0.3 -x udp:send")).ends_with(0);
    assert_eq!(output.json()["target"], "n2 (enter) at 127.0.0.3");
}

#[test]
fn a_launched_agent_is_confined_in_every_thread() {
    let home = Home::new();
    let template = format!("{} {{program}}", script(&home, "enter", "exec \"$@\"").display());
    let words = ["echo", "n2", "--launch", &template, "--program", PROGRAM];
    let run = Running::new(command(&home, &[&words[..], &["-t", "60s", "-r", "20", "-w", "0", "--no-save"]].concat()));
    is_confined(agent_below(run.id(), "--launched"));
}

#[test]
fn a_launcher_that_gives_no_agent_says_why() {
    let home = Home::new();
    let (line, host) = ("--no-save -c 10", format!("none-{}", std::process::id()));
    let fails =
        |name: &str, text: &str| echo(&home, &host, &format!("{} {{host}}", script(&home, name, text).display()), line);
    fails("refuses", "echo 'Permission denied (publickey).' >&2; exit 255").ends_with(3).says(&[
        &format!("error[E19]: no agent could be started on {host} by refuses: it ended with code 255"),
        "Permission denied (publickey).",
        &format!("refuses {host} msgpath --version"),
    ]);
    fails("lacks", "echo 'msgpath: not found' >&2; exit 127").ends_with(3).says(&["msgpath is not there", "--program"]);
    fails("chats", "echo 'This account is not available.'").ends_with(3).says(&["began with \"This account"]);
    let mark = String::from_utf8_lossy(&MARK[1..8]).into_owned();
    let text = format!("printf '\\365{mark}\\r\\n\\000'; exec sleep 60");
    fails("tty", &text).ends_with(3).says(&["a terminal is in between", "-t"]);
    let text = format!("printf '\\365{mark}\\n\\000\\001'; exec sleep 60");
    fails("older", &text).ends_with(3).says(&["error[E03]", "speaks version 1 of the protocol"]);
    fails("floods", "exec yes").ends_with(3).says(&["no msgpath spoke", "y\\ny"]);
    echo(&home, &host, "/nowhere/at/all {host}", line).ends_with(3).says(&["/nowhere/at/all is not installed here"]);
    assert!(processes_with(&host).is_empty(), "a launcher was left behind");
}

#[test]
fn a_data_address_that_leads_nowhere_is_named() {
    let home = Home::new();
    let enter = format!("{} {{program}}", script(&home, "enter", "exec \"$@\"").display());
    // No connection goes to a broadcast address of loopback, and the kernel says so without a packet.
    let line = format!("--no-save -c 10 --program {PROGRAM} --address 127.255.255.255");
    let output = echo(&home, "n2", &enter, &line);
    output.ends_with(3).says(&[
        "error[E72]: data connection to 127.255.255.255, port ",
        "to 127.255.255.255 (as typed)",
        "--address ADDR",
    ]);
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    let home = Home::new();
    for (line, says) in [
        ("echo n2 --launch shh", "\"shh\" is not a launcher"),
        ("echo --launch ssh", "no host"),
        ("echo n2:99 --launch ssh", "names a port"),
        ("echo unix:/x --launch ssh", "starts the far end on a host"),
        ("echo n2 --program x", "--launch"),
        ("echo n2 --launch ssh -x unix:send", "unix"),
        ("echo n2 --launch ssh --between lab", "--between"),
    ] {
        let output = home.run(line).ends_with(2);
        assert!(
            output.err.contains(says) || says == "no host" && output.err.contains("none was named"),
            "{line}: {}",
            output.err
        );
    }
}

/// Starts an echo that lasts, by a launcher that stays and whose agent is a child of it; `name` is on both command lines.
fn lasting(home: &Home, name: &str) -> Running {
    let stays = script(home, "stays", "shift; \"$@\"; echo ended >&2");
    let template = format!("{} {name} {{program}} --host 127.0.0.1", stays.display());
    let words =
        ["echo", name, "--launch", &template, "--program", PROGRAM, "-t", "20s", "-w", "0", "-o", "what-ifs=no"];
    let mut command = command(home, &words);
    command.args(["--name", "long", "--progress", "line"]).process_group(0);
    let running = Running::new(command);
    running.until_it_says(" left");
    running
}

#[test]
fn nothing_is_left_running_whatever_ends_the_run() {
    for (signal, code) in [("INT", 130), ("KILL", -1)] {
        let home = Home::new();
        let name = format!("host-{signal}-{}", std::process::id());
        let running = lasting(&home, &name);
        assert!(processes_with(&name).len() >= 2, "the coordinator and its launcher");
        // As a terminal does it: the launcher is in another group, so that the run ends in order.
        running.signal_group(signal);
        let ended = running.finish(SOON);
        if code == 130 {
            assert_eq!(ended.code, Some(130), "{}", ended.err);
            assert!(!ended.err.contains("E17"), "{}", ended.err);
        }
        assert!(within(SOON, || processes_with(&name).is_empty()), "SIG{signal}: {:?}", processes_with(&name));
        if code == -1 {
            home.run("resume long -qq").ends_with(0);
        }
    }
}

/// What the clock of a far end in a time namespace of its own is ahead by, s (time_namespaces(7)).
const AHEAD_S: u32 = 86_400;

#[test]
fn one_way_between_two_clocks_has_a_bound_and_the_truth_lies_within() {
    let moved = ["-r", "-T", "--monotonic", &AHEAD_S.to_string(), "-f", "--kill-child"].join(" ");
    let may = Command::new("unshare").args(moved.split(' ')).arg("true").output();
    if !may.is_ok_and(|output| output.status.success()) {
        return println!("skipped: no time namespace can be made here");
    }
    let home = Home::new();
    let enter = script(&home, "enter", &format!("exec unshare {moved} \"$@\""));
    let by = format!("{} {{program}}", enter.display());
    let line = format!("-c 2000 -r 10 -w 0 -o what-ifs=no,stamps=both --json --program {PROGRAM}");
    let json = echo(&home, "n2", &by, &line).ends_with(0).json();
    let pieces = json["far_clock"]["pieces"].as_array().unwrap();
    assert_eq!(pieces.len(), 1, "{}", json["far_clock"]);
    let number = |of: &crate::printed::Value, name: &str| of[name].as_f64().unwrap();
    // The machine has one crystal, so the truth is known.
    let (offset, within) = (number(&pieces[0], "offset_ns"), number(&pieces[0], "within_ns"));
    assert!(within > 0.0 && (offset + f64::from(AHEAD_S) * 1e9).abs() <= within, "{offset} ±{within}");
    let (case, drift) = (&json["cases"][0], number(&pieces[0], "drift_least")..=number(&pieces[0], "drift_most"));
    assert!(drift.contains(&0.0) && within < number(case, "slowest_ns"), "{}", pieces[0]);
    assert!(case["one_way"].is_null() && case["ways"]["messages"].as_u64() >= Some(1_000), "{}", case["ways"]);
    assert_eq!(case["ways"]["within_ns"], pieces[0]["within_ns"]);
    for way in ["request", "far_end", "reply"] {
        assert!(case["ways"][way][0]["ns"].as_u64() < case["slowest_ns"].as_u64(), "{way}: {}", case["ways"]);
    }
    // Stages that were asked for are those of the stamps, on one axis.
    let line = format!("-c 2000 -r 10 -w 0 -o what-ifs=no --stages light --name apart --program {PROGRAM}");
    let shows = |output: crate::command::Output, parts: &[&str]| {
        let text = output.ends_with(0).out.split_whitespace().collect::<Vec<_>>().join(" ");
        parts.iter().for_each(|part| assert!(text.contains(part), "{part:?} is not in:\n{text}"));
    };
    shows(
        echo(&home, "n2", &by, &line),
        &["One way, by two clocks, p50: request ", "(clock bound)", "far end: arrival to its send", "W92"],
    );
    // Root of a user namespace may not trace the kernel beneath it; whether the near end may depends on who tests.
    let json = home.run("show apart --json").ends_with(0).json();
    let (says, text) = match json["attribution"][0].get("not_shown_because").and_then(crate::printed::Value::as_str) {
        Some(why) => (format!("The stages are not shown: {why}"), why.to_owned()),
        None => ("The kernel was traced at one end, not at the far end".into(), json["attribution"].to_string()),
    };
    assert!(text.contains("far end") && text.contains("no right"), "{text}");
    shows(home.run("show apart -W"), &[&says]);
    shows(home.run("explain apart -v"), &["Both ends on one axis", "The far end's clock, by the messages themselves"]);
    home.run("verify apart").ends_with(0);
    let page = home.path().join("apart.html");
    home.run(&format!("report apart -o {}", page.display())).ends_with(0);
    assert!(std::fs::read_to_string(&page).unwrap().contains("The ends have no common clock"));
}

#[test]
fn the_stages_of_both_ends_come_from_the_kernel_of_each() {
    let moved = ["-T", "--monotonic", &AHEAD_S.to_string(), "-f", "--kill-child"].join(" ");
    let may = Command::new("unshare").args(moved.split(' ')).arg("true").output();
    if !may.is_ok_and(|output| output.status.success()) {
        return println!("skipped: no time namespace can be made by a user who may trace");
    }
    let home = Home::new();
    let enter = script(&home, "enter", &format!("exec unshare {moved} \"$@\""));
    let by = format!("{} {{program}}", enter.display());
    let line = format!("-c 2000 -r 10 -w 0 -o what-ifs=no --stages light --name both --program {PROGRAM} -qq");
    echo(&home, "n2", &by, &line).ends_with(0);
    let json = home.run("show both --json").ends_with(0).json();
    let stages = &json["attribution"][0];
    if stages["untraced"].as_array().is_none_or(|ends| !ends.is_empty()) || stages["known_by"].is_null() {
        return println!("skipped: {}; {}", stages["untraced"], stages["not_shown_because"]);
    }
    assert!(stages.get("not_shown_because").is_none(), "{stages}");
    let known_by = stages["known_by"].as_str().unwrap();
    assert!(known_by.starts_with("near end: ") && known_by.contains("; far end: "), "{known_by}");
    let band = stages["bands"].as_array().unwrap().iter().find(|band| band["name"] == "all").unwrap();
    let parts: Vec<f64> = band["parts_ns"].as_array().unwrap().iter().map(|ns| ns.as_f64().unwrap()).collect();
    let mean = |direction: &str, kind: &str| {
        let all = stages["stages"].as_array().unwrap().iter().zip(&parts);
        let mut own = all
            .filter(|(stage, _)| stage.get("direction").is_some_and(|own| *own == direction) && stage["kind"] == kind);
        *own.next().unwrap_or_else(|| panic!("no {kind} of the {direction}: {stages}")).1
    };
    // The far end receives requests and sends replies: what its kernel did is there, by name.
    for (direction, kind) in [
        ("request", "transmit"),
        ("request", "device"),
        ("request", "softirq"),
        ("request", "in_flight"),
        ("request", "return"),
        ("reply", "transmit"),
        ("reply", "device"),
        ("reply", "softirq"),
        ("reply", "in_flight"),
        ("reply", "return"),
    ] {
        assert!(mean(direction, kind) > 0.0, "{direction} {kind}");
    }
    assert!((parts.iter().sum::<f64>() / band["mean_ns"].as_f64().unwrap() - 1.0).abs() < 1e-6, "{band}");
    assert_eq!(stages["residual_ns"], 0);
    let who: Vec<&str> = stages["threads"].as_array().unwrap().iter().filter_map(|one| one["who"].as_str()).collect();
    assert_eq!(who, ["near end", "far end"]);
    // One crystal: the truth is known, and the bound that the kernel's stamps leave holds it.
    let piece = &json["far_clock"]["pieces"][0];
    let number = |name: &str| piece[name].as_f64().unwrap();
    let within = stages["within_ns"].as_f64().unwrap();
    assert!(within > 0.0 && within >= number("within_ns"), "{piece}");
    assert!((number("offset_ns") + f64::from(AHEAD_S) * 1e9).abs() <= number("within_ns"), "{piece}");
    let both = mean("request", "device") + mean("reply", "device");
    assert!(within < both, "{within} is not what the fastest ways between the hosts leave ({both})");
    let text = home.run("explain both -v").ends_with(0).out.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["Both ends on one axis, each by its own clock", "device and wire ±", "The far end's clock"] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    home.run("verify both").ends_with(0);
    let page = home.path().join("both.html");
    home.run(&format!("report both -o {}", page.display())).ends_with(0);
    assert!(std::fs::read_to_string(&page).unwrap().contains("when the reply left it is known within"));
}

/// Whether this user may have namespaces.
fn may_have_namespaces() -> bool {
    let made =
        Command::new("unshare").args(["-rnm", "ip", "link"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    made.is_ok_and(|status| status.success())
}

/// Runs a script as root of a user namespace of its own, in which it may make hosts.
fn in_namespaces(home: &Home, text: &str) -> crate::command::Output {
    let own = home.command(&[]);
    let mut command = Command::new("unshare");
    command.args(["-rnm", "sh", "-ec", text, PROGRAM]).current_dir(home.path()).stdin(Stdio::null());
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Running::new(command).finish(SOON)
}

/// Two hosts on a link, of which the first is where the script is.
const TWO_HOSTS: &str = "
    ip link set lo up; mount -t tmpfs t /run; mkdir -p /run/netns
    ip netns add n2; ip -n n2 link set lo up
    ip link add near type veth peer name eth0 netns n2
    ip addr add 10.88.0.1/24 dev near; ip link set near up
    ip -n n2 addr add 10.88.0.2/24 dev eth0; ip -n n2 link set eth0 up
";

#[test]
fn a_namespace_is_a_host_and_no_root_is_needed() {
    if !may_have_namespaces() {
        return eprintln!("skipped: no user namespaces, or no iproute2");
    }
    let home = Home::new();
    let measure =
        "\"$0\" echo n2 --launch netns -x tcp:send,udp:send -c 200 -r 5 -w 0 --name two -qq\n\"$0\" show two --json";
    let value = in_namespaces(&home, &format!("{TWO_HOSTS}{measure}")).ends_with(0).json();
    assert_eq!(value["target"], "n2 (netns) at 10.88.0.2", "its route back leaves from there");
    assert_eq!(value["floors"]["route"]["kind"], "veth");
    // An address that nobody has: both are named, and what to type.
    let wrong = "\"$0\" echo n2 --launch netns --address 10.88.0.77 -c 10 --no-save";
    in_namespaces(&home, &format!("{TWO_HOSTS}{wrong}")).ends_with(3).says(&[
        "error[E72]: data connection to 10.88.0.77, port ",
        "from 10.88.0.1 here to 10.88.0.77 (as typed)",
        "--address ADDR",
    ]);
    let unreachable = "ip -n n2 addr flush dev eth0\n\"$0\" echo n2 --launch netns -c 10 --no-save";
    in_namespaces(&home, &format!("{TWO_HOSTS}{unreachable}"))
        .ends_with(3)
        .says(&["error[E71]", "it has none but loopback"]);
}

/// A folder with what an sshd and its client need, and the sshd in a namespace.
const SSHD: &str = r#"
    mkdir -p ssh /run/sshd; chmod 700 ssh
    ssh-keygen -q -t ed25519 -N '' -f ssh/key; ssh-keygen -q -t ed25519 -N '' -f ssh/hostkey
    cp ssh/key.pub ssh/authorized
    cat > ssh/sshd_config <<E
HostKey $PWD/ssh/hostkey
AuthorizedKeysFile $PWD/ssh/authorized
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
PidFile none
UseDNS no
ListenAddress 10.88.0.2
E
    cat > ssh/config <<E
Host n2
  HostName 10.88.0.2
  User root
  IdentityFile $PWD/ssh/key
  IdentitiesOnly yes
  StrictHostKeyChecking accept-new
  UserKnownHostsFile $PWD/ssh/known_hosts
  LogLevel ERROR
E
    ip netns exec n2 "$(command -v sshd || echo /usr/sbin/sshd)" -D -e -f ssh/sshd_config 2>ssh/log & sshd=$!
    trap 'kill $sshd' EXIT
    for i in $(seq 300); do ip netns exec n2 ss -Hltn sport = 22 | grep -q . && break; sleep 0.2; done
"#;

/// Runs a script on the first of two hosts; on the second one is an sshd. `None`: not here.
fn beside_sshd(home: &Home, text: &str) -> Option<crate::command::Output> {
    let root = rustix::process::geteuid().is_root();
    let tool = |name: &str| {
        ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].iter().any(|folder| Path::new(folder).join(name).exists())
    };
    if !root || !tool("sshd") || !tool("ssh") || !may_have_namespaces() {
        eprintln!("skipped: an sshd in a namespace needs root, openssh-server and namespaces");
        return None;
    }
    // ssh takes its settings from the home folder in the list of users, which is not this test's.
    script(home, "ssh", &format!("exec /usr/bin/ssh -F {}/ssh/config \"$@\"", home.path().display()));
    let own = command(home, &[]);
    let mut command = Command::new("unshare");
    let text = format!("{TWO_HOSTS}{SSHD}{text}");
    command.args(["-nmpf", "--kill-child", "--mount-proc", "sh", "-ec", &text, PROGRAM]);
    command.current_dir(home.path()).stdin(Stdio::null());
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Some(Running::new(command).finish(SOON))
}

#[test]
fn a_real_ssh_starts_the_far_end() {
    let home = Home::new();
    let text = "\"$0\" echo n2 --launch ssh --program \"$0\" -x tcp:send,udp:send -c 200 -r 5 -w 0 --name two -qq
        \"$0\" show two --json";
    let Some(output) = beside_sshd(&home, text) else { return };
    let value = output.ends_with(0).json();
    assert_eq!(value["target"], "n2 (ssh) at 10.88.0.2", "where its session came in");
    let data: crate::printed::Value =
        serde_json::from_slice(&std::fs::read(home.runs().join("two/run.json")).unwrap()).unwrap();
    assert_eq!(data["data"]["found"], "where its ssh session came in");
    assert_eq!(
        (data["data"]["near"].as_str(), data["data"]["near_seen"].as_str()),
        (Some("10.88.0.1"), Some("10.88.0.1"))
    );
}

#[test]
fn what_ssh_says_is_what_the_user_reads() {
    let tried = |text: &str| beside_sshd(&Home::new(), text);
    let Some(output) = tried(": > ssh/authorized; \"$0\" echo n2 --launch ssh -c 10 --no-save") else { return };
    output.ends_with(3).says(&["error[E19]: no agent could be started on n2 by ssh", "Permission denied"]);
    let Some(output) = tried("\"$0\" echo n2 --launch ssh -c 10 --no-save --program /no/msgpath") else { return };
    output.ends_with(3).says(&["/no/msgpath is not there", "--program"]);
}

#[test]
fn an_ssh_that_dies_ends_the_run_and_the_agent() {
    let text = "
        \"$0\" echo n2 --launch ssh --program \"$0\" -t 600s -w 0 -o what-ifs=no --no-save --progress line 2>errors & run=$!
        until grep -q ' left' errors; do kill -0 $run; sleep 0.1; done
        grep -lze '-launche[d]' /proc/[0-9]*/cmdline >&2
        for ssh in $(cat /proc/$run/task/$run/children); do
            if grep -qx ssh /proc/$ssh/comm; then kill -9 $ssh; fi
        done
        wait $run || echo code $?
        cat errors
        for i in $(seq 600); do grep -qlze '-launche[d]' /proc/[0-9]*/cmdline || exit 0; sleep 0.1; done
        echo the agent lives on";
    let Some(output) = beside_sshd(&Home::new(), text) else { return };
    let output = output.ends_with(0).shows(&["code 4", "error[E17]: the far end vanished"]);
    assert!(output.err.contains("/cmdline") && !output.out.contains("lives on"), "{output:?}");
}

#[test]
fn a_tunnel_carries_no_data_and_the_error_says_what_does() {
    let text = "
        ip netns exec n2 \"$0\" serve & serve=$!
        ssh -N -L 5210:127.0.0.1:5210 n2 & tunnel=$!
        for i in $(seq 300); do ss -Hltn sport = 5210 | grep -q . && break; sleep 0.1; done
        for i in $(seq 300); do ip netns exec n2 ss -Hltn sport = 5210 | grep -q . && break; sleep 0.1; done
        code=0; \"$0\" echo localhost -o ip=4 -c 10 --no-save || code=$?
        kill $serve $tunnel; exit $code";
    let Some(output) = beside_sshd(&Home::new(), text) else { return };
    output.ends_with(3).says(&["error[E72]: 127.0.0.1 leads to", "through a tunnel", "--launch ssh"]);
}

#[test]
fn a_near_end_behind_a_translator_is_measured_and_the_record_says_so() {
    if !Path::new("/usr/sbin/nft").exists() && !Path::new("/sbin/nft").exists() {
        return eprintln!("skipped: no nft");
    }
    let home = Home::new();
    // Connections from this host leave as if they came from 10.88.0.201.
    let text = "
        ip addr add 10.88.0.201/24 dev near; PATH=$PATH:/usr/sbin
        nft add table ip nat; nft 'add chain ip nat post { type nat hook postrouting priority 100 ; }' || { echo no NAT >&2; exit 77; }
        nft add rule ip nat post oifname near ip saddr 10.88.0.1 snat to 10.88.0.201
        \"$0\" echo n2 --launch ssh --program \"$0\" -x tcp:send,udp:send -c 200 -r 5 -w 0 --name two -v >shown
        cat shown >&2; \"$0\" show two --json";
    let Some(output) = beside_sshd(&home, text) else { return };
    if output.code == Some(77) {
        return eprintln!("skipped: this kernel translates no addresses");
    }
    let output = output.ends_with(0).says(&["10.88.0.201"]);
    assert_eq!(output.json()["cases"].as_array().unwrap().len(), 2, "tcp and udp");
    let run: crate::printed::Value =
        serde_json::from_slice(&std::fs::read(home.runs().join("two/run.json")).unwrap()).unwrap();
    assert_eq!(run["data"]["near"], "10.88.0.1");
    assert_eq!(run["data"]["near_seen"], "10.88.0.201");
}
