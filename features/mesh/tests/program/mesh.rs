//! `msgpath mesh`: hosts that are processes of this machine, or namespaces that the test makes; what is slow, dead or stopped;
//! a coordinator that is killed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use msgpath_core::shuffle::SplitMix64;
use msgpath_mesh::record::PairBlock;
use msgpath_mesh::schema::PairPurpose;

use crate::command::{Home, Output, Running};
use crate::schema::fits;

const PROGRAM: &str = env!("CARGO_BIN_EXE_msgpath");
/// The longest that any mesh of these tests may take.
const LIMIT: Duration = Duration::from_secs(170);
/// A pair as short as it can be.
const SHORT: [&str; 4] = ["-t", "60ms", "-r", "3"];

/// A launcher of hosts that are processes of this machine: each notes its pid in the home. What stands in `before` may keep
/// it from starting.
fn launcher(before: &str) -> String {
    format!("sh -c '{before} echo $$ >> {{host}}.pids; exec {PROGRAM} __agent --launched'")
}

/// A mesh of such hosts.
fn mesh(home: &Home, before: &str, words: &[&str]) -> Command {
    let launcher = launcher(before);
    let mut all = vec!["mesh", "--launch", &launcher];
    all.extend(SHORT.iter().filter(|_| !words.contains(&"-t")));
    all.extend(words);
    home.command(&all)
}

fn finish(command: Command) -> Output {
    Running::new(command).finish(LIMIT)
}

fn folder(home: &Home, name: &str) -> PathBuf {
    home.runs().join(name)
}

/// The blocks of a mesh as they are on disk.
fn blocks(folder: &Path) -> Vec<PairBlock> {
    let mut found = Vec::new();
    msgpath_mesh::record::read_mesh(folder, |block| found.push(block)).expect("it can be read");
    found
}

/// The pairs that have a result, each as often as it has.
fn measured(folder: &Path) -> Vec<(u32, u32, PairPurpose, u32)> {
    let result = |block: PairBlock| matches!(block, PairBlock::Pair(_)).then(|| block.slot().key());
    blocks(folder).into_iter().filter_map(result).collect()
}

/// Waits until no agent that was ever started in this home runs.
#[track_caller]
fn nothing_runs(home: &Home) {
    let mut pids = Vec::new();
    for entry in std::fs::read_dir(home.path()).unwrap().flatten() {
        if entry.path().extension().is_some_and(|kind| kind == "pids") {
            pids.extend(std::fs::read_to_string(entry.path()).unwrap().lines().map(str::to_owned));
        }
    }
    let runs = |pid: &String| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        comm.trim() == "msgpath" && !stat.contains(") Z ")
    };
    let until = Instant::now() + Duration::from_secs(30);
    while pids.iter().any(runs) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let left: Vec<_> = pids.iter().filter(|pid| runs(pid)).collect();
    assert!(left.is_empty(), "agents {left:?} run on");
}

#[test]
fn a_mesh_without_hosts_is_a_bad_command_line() {
    Home::new().run("mesh --pairs k:9").ends_with(2).says(&["error[E11]"]);
}

#[test]
fn every_pair_is_measured_and_shown_in_25_lines() {
    let home = Home::new();
    let output = finish(mesh(&home, "", &["h[1-4]", "--name", "four", "--fail-if", "p99 > 10s", "--parallel", "2"]));
    let output = output.ends_with(0).shows(&["4 hosts (h[1-4])", "6 of 6 pairs in 3 steps", "kept"]);
    assert!(output.out.lines().count() <= 25, "{}", output.out);
    let found = measured(&folder(&home, "four"));
    assert_eq!((found.len(), found.iter().collect::<BTreeSet<_>>().len()), (6, 6));
    let starts =
        |host: u32| std::fs::read_to_string(home.path().join(format!("h{host}.pids"))).unwrap().lines().count();
    assert!((1..=4).all(|host| starts(host) == 1), "an agent starts once and stays");
    nothing_runs(&home);
    let again = home.msgpath(&["show", "four", "--json"]).ends_with(0).json();
    assert_eq!((again["schema"].as_str(), again["measured"].as_u64()), (Some("msgpath/mesh-result/1"), Some(6)));
    assert_eq!(again["cases"][0]["hosts"].as_array().unwrap().len(), 4);
    let schema = home.run("schema").ends_with(0).json();
    fits(&schema, "Mesh", &again);
    home.msgpath(&["mesh", "--resume", "@last"]).ends_with(0).shows(&["6 of 6 pairs"]);
    assert_eq!(measured(&folder(&home, "four")).len(), 6, "nothing was missing");
    let page = home.path().join("page.html");
    home.msgpath(&["report", "four", "-o", page.to_str().unwrap()]).ends_with(0).shows(&["page.html"]);
    let page = std::fs::read_to_string(page).unwrap();
    for part in ["Which pairs are slow?", "Which hosts are slow to everyone?", "Schedule", "h1 → ", "<svg"] {
        assert!(page.contains(part), "{part} is not on the page");
    }
    let metrics = home.msgpath(&["export", "four", "--to", "openmetrics"]).ends_with(0);
    let metrics = metrics.shows(&["msgpath_mesh_host_effect_ratio{run=\"four\"", "host=\"h4\"", "level=\"all pairs\""]);
    assert!(metrics.out.ends_with("# EOF\n") && !metrics.out.contains("near="), "{}", metrics.out);
    let tables = home.msgpath(&["export", "four", "--to", "parquet", "-o", "tables"]).ends_with(0);
    tables.shows(&["hosts.parquet, pairs.parquet, histograms.parquet"]);
    for table in ["hosts", "pairs", "histograms"] {
        let bytes = std::fs::read(home.path().join(format!("tables/{table}.parquet"))).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{table}");
    }
    finish(mesh(&home, "", &["h[1-5]", "--name", "five"])).ends_with(0);
    let list = home.msgpath(&["runs", "--json"]).ends_with(0).json();
    let listed: Vec<_> =
        list["runs"].as_array().unwrap().iter().map(|run| (&run["name"], &run["verb"], &run["cases"])).collect();
    assert_eq!(listed.len(), 2, "{list}");
    assert!(listed.iter().all(|(_, verb, cases)| **verb == "mesh" && **cases == 1), "{list}");
    let changed = home.msgpath(&["diff", "four", "five"]).ends_with(0);
    changed.shows(&["four → five", "tcp:send 64 B: 6 pairs in both", "hosts only after: h5"]);
    let changed = home.msgpath(&["diff", "four", "five", "--json"]).ends_with(0).json();
    assert_eq!(
        (changed["schema"].as_str(), changed["cases"][0]["pairs"].as_u64()),
        (Some("msgpath/mesh-diff/1"), Some(6))
    );
    fits(&schema, "MeshDiff", &changed);
    home.msgpath(&["diff", "four", "five", "--fail-if", "p99 > 1s"]).ends_with(2).says(&["msgpath mesh --fail-if"]);
    home.msgpath(&["export", "four", "--to", "hgrm"]).ends_with(2).says(&["a mesh is not exported as hgrm"]);
    let broken = finish(mesh(&home, "", &["h[1-2]", "--fail-if", "p50 > 1ns"]));
    broken.ends_with(1).shows(&["broken", "1 of 1 pairs surely have p50 > 1ns"]).says(&["E83"]);
}

#[test]
fn what_would_be_done_is_said_before() {
    let home = Home::new();
    for hosts in ["n[1-64]", "n[1-3000]"] {
        let mut command = home.command(&["mesh", hosts, "--dry-run", "--seed", "1"]);
        command.env("COLUMNS", "80");
        let output = finish(command).ends_with(0).shows(&["pairs ", "steps ", "time ", "bytes ", "memory ", "finds "]);
        assert!(output.out.lines().count() <= 25, "{}", output.out);
        assert!(output.out.lines().all(|line| line.chars().count() <= 80), "{}", output.out);
    }
    home.run("mesh n[1-64] --dry-run").ends_with(0).shows(&["63 of up to 32 pairs"]);
    home.run("mesh n[1-1000] --pairs all --both -t 10s").ends_with(2).says(&["more than 2 h", "--dry-run"]);
    let toml = "[[host]]\nname = 'n[1-8]'\nrack = 'r{(i-1)/4+1}'\n[limits]\nuplink = { of = 'rack', pairs = 1 }\n";
    std::fs::write(home.path().join("hosts.toml"), toml).unwrap();
    home.run("mesh --hosts hosts.toml --dry-run").ends_with(0).shows(&["28", "16 of up to"]);
    home.run("mesh --hosts hosts.toml n9 --dry-run").ends_with(2).says(&["n9 is not in the file"]);
    home.run("mesh n[1-4] --pairs racks --dry-run").ends_with(2).says(&["rack of every host"]);
    home.run("mesh n[1-4] -x unix --dry-run").ends_with(2).says(&["does not run over IP"]);
    home.run("mesh -oProxyCommand=x --dry-run").ends_with(2);
    home.run("mesh --resume nothing").ends_with(2).says(&["is not a mesh"]);
}

#[test]
fn a_pair_without_a_result_is_a_row_with_its_reason() {
    let home = Home::new();
    let output = finish(mesh(&home, "[ {host} != h3 ] || exit 9;", &["h[1-3]", "--name", "dead"]));
    output
        .ends_with(4)
        .says(&["2 of 3 hosts answered", "E82", "2 pairs have no result", "msgpath mesh --resume dead"])
        .shows(&["1 of 3 pairs", "nothing was measured with h3", "ended with code 9"]);
    assert_eq!(measured(&folder(&home, "dead")).len(), 1);
    nothing_runs(&home);
    let none = finish(mesh(&home, "exit 9;", &["h[1-3]"]));
    none.ends_with(3).says(&["E80", "0 of 3 hosts answered"]);
}

#[test]
fn a_host_that_stands_still_is_cut_off_and_tried_again() {
    let home = Home::new();
    let running = Running::new(mesh(&home, "", &["h[1-2]", "--name", "stopped", "-t", "3s"]));
    let until = Instant::now() + Duration::from_secs(60);
    let pid = loop {
        let pids = std::fs::read_to_string(home.path().join("h2.pids")).unwrap_or_default();
        // The pair is going on when its record is there.
        if let Some(pid) = pids.lines().next().filter(|_| folder(&home, "stopped").join("mesh.json").exists()) {
            break pid.to_owned();
        }
        assert!(Instant::now() < until, "no agent");
        std::thread::sleep(Duration::from_millis(5));
    };
    std::thread::sleep(Duration::from_millis(300));
    let stopped = Command::new("kill").args(["-STOP", &pid]).stderr(Stdio::null()).status().is_ok_and(|s| s.success());
    assert!(stopped, "it runs");
    let output = running.finish(LIMIT).ends_with(0).shows(&["1 of 1 pairs"]);
    assert!(output.err.contains("it is tried again"), "{}", output.err);
    let tries = blocks(&folder(&home, "stopped"));
    // Beside other work the second try may be cut off as well.
    let [failed @ .., PairBlock::Pair(pair)] = &tries[..] else { panic!("the last try is whole") };
    assert!(!failed.is_empty() && pair.tries as usize == failed.len());
    assert!(failed.iter().all(|block| matches!(block, PairBlock::Failed(failed) if !failed.last)));
    nothing_runs(&home);
}

/// Kills the coordinator so often at random moments, and goes on each time. No pair twice, none lost, no process left.
fn survives(kills: u32, hosts: &str, pairs: usize) {
    let home = Home::new();
    let mut random = SplitMix64::new(50);
    let record = folder(&home, "killed");
    let mut killed = 0;
    for attempt in 0.. {
        assert!(attempt < 3 * kills + 10, "it does not come to an end");
        let mut command = match record.join("mesh.json").exists() {
            true => home.command(&["mesh", "--resume", "killed"]),
            false => mesh(&home, "", &[hosts, "--name", "killed"]),
        };
        // A folder without a header is none.
        if !record.join("mesh.json").exists() {
            let _ = std::fs::remove_dir_all(&record);
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let before = measured_so_far(&record);
        let mut run = command.spawn().unwrap();
        if killed < kills {
            // From the start of the first agent to some pairs later.
            std::thread::sleep(Duration::from_millis(50 + random.below(1500) as u64));
            let _ = run.kill();
            killed += 1;
        }
        let status = run.wait().unwrap();
        nothing_runs(&home);
        let now = measured_so_far(&record);
        assert_eq!(now.len(), now.iter().collect::<BTreeSet<_>>().len(), "a pair twice");
        assert!(before.iter().all(|pair| now.contains(pair)), "a pair is lost");
        if status.success() && killed >= kills {
            break;
        }
    }
    let all = measured_so_far(&record);
    let mesh = all.iter().filter(|(_, _, purpose, _)| *purpose == PairPurpose::Mesh).count();
    assert_eq!(mesh, pairs);
    println!("{killed} kills, {mesh} pairs, none twice, none lost, nothing left running");
}

fn measured_so_far(record: &Path) -> Vec<(u32, u32, PairPurpose, u32)> {
    if record.join("mesh.json").exists() { measured(record) } else { Vec::new() }
}

#[test]
fn a_killed_coordinator_loses_no_pair_and_measures_none_twice() {
    survives(4, "h[1-4]", 6);
}

#[test]
#[ignore = "minutes: docs/mesh.md names the command"]
fn fifty_kills_lose_no_pair_and_leave_nothing() {
    survives(50, "h[1-8]", 28);
}

#[test]
fn two_coordinators_do_not_write_one_record() {
    let home = Home::new();
    let mut first = mesh(&home, "", &["h[1-2]", "--name", "one", "-t", "20s"]);
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !folder(&home, "one").join("mesh.json").exists() {
        assert!(Instant::now() < until, "it does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    home.run("mesh --resume one").ends_with(3).says(&["E59"]);
    let _ = (first.kill(), first.wait());
    nothing_runs(&home);
}

/// Hosts that are namespaces on a bridge, in a network and a mount namespace of their own. It ends with them.
const HOSTS: &str = "
ip link set lo up; mount -t tmpfs t /run; mkdir -p /run/netns
ip link add br0 type bridge; ip addr add 10.88.0.100/24 dev br0; ip link set br0 up
for i in 1 2 3 4 5; do
  ip netns add u$i; ip -n u$i link set lo up
  ip link add p$i type veth peer name eth0 netns u$i; ip link set p$i master br0 up
  ip -n u$i addr add 10.88.0.$i/24 dev eth0; ip -n u$i link set eth0 up
done
";

/// A mesh of these hosts; `beside` is shell that goes on beside it. `None`: they cannot be made here.
fn mesh_of_namespaces(home: &Home, beside: &str, words: &[&str]) -> Option<Output> {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount"]);
    // Without root in a namespace of users, where the kernel lets users have one.
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let script = format!("{HOSTS}{beside}\necho ready\nexec \"$@\"");
    command.args(["sh", "-ec", &script, "sh", PROGRAM, "mesh", "u[1-5]", "--launch", "netns", "--color", "never"]);
    command.args(words);
    command.current_dir(home.path()).stdin(Stdio::null());
    command.env("HOME", home.path()).env("XDG_DATA_HOME", home.path().join("data")).env("COLUMNS", "80");
    let output = Running::new(command).finish(LIMIT);
    if !output.out.starts_with("ready") && !output.err.contains("msgpath") {
        eprintln!("skipped: no namespaces with tc here: {}", output.err.lines().next().unwrap_or_default());
        return None;
    }
    Some(output)
}

#[test]
fn a_slow_namespace_is_found_and_no_other() {
    let home = Home::new();
    let slow = "ip netns exec u3 tc qdisc add dev eth0 root netem delay 30ms 2>/dev/null ||
        ip netns exec u3 tc qdisc add dev eth0 root tbf rate 64kbit burst 1600 latency 500ms";
    let Some(output) = mesh_of_namespaces(&home, slow, &["--name", "slow", "-t", "500ms"]) else { return };
    let output = output.ends_with(0).shows(&["10 of 10 pairs"]);
    // What else this machine does may make another host seem slow, but never for sure.
    let named = |word: &str, host: &str| output.out.contains(&format!("{word:<12}{host} is "));
    let others: Vec<&str> = ["u1", "u2", "u4", "u5"].into_iter().filter(|host| named("sure", host)).collect();
    assert!(others.is_empty(), "{others:?}: {}", output.out);
    assert!(output.out.lines().count() <= 26, "{}", output.out);
    if !["sure", "likely"].iter().any(|word| named(word, "u3")) {
        // As much as the link of `u3` adds may be what its threads waited for a CPU, where other programs want them all.
        assert!(output.out.contains("waited") && output.out.contains("CPU"), "{}", output.out);
        eprintln!("skipped: other programs kept the CPUs, and the run says so");
    }
}

#[test]
fn an_agent_that_is_stopped_now_and_then_is_a_host_that_stalls() {
    let home = Home::new();
    // Only processes in this namespace are stopped; none stays so when the mesh has ended.
    let stops = "while kill -0 $$ 2>/dev/null; do
          pids=$(ip netns pids u3); kill -STOP $pids 2>/dev/null || true; sleep 0.04
          kill -CONT $pids 2>/dev/null || true; sleep 0.06
        done >/dev/null 2>&1 &";
    let Some(output) = mesh_of_namespaces(&home, stops, &["--name", "stalls", "-t", "600ms", "-r", "3", "-v"]) else {
        return;
    };
    let output = output.ends_with(0).shows(&["10 of 10 pairs"]);
    // Where other work has the CPUs, all hosts stall.
    assert!(output.out.contains(" u3 stalls ") || output.out.contains("were busy"), "{}", output.out);
    let others: Vec<&str> = ["u1", "u2", "u4", "u5"]
        .into_iter()
        .filter(|host| output.out.contains(&format!("sure        {host} stalls")))
        .collect();
    assert!(others.is_empty(), "{others:?}: {}", output.out);
}
