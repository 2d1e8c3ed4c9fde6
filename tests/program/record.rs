//! What is left of a run, whatever happens to the program that makes it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::command::{Home, LIMIT, Running, within};

/// Process ids of all programs that were started in this home and still run.
fn processes_of(home: &Home) -> Vec<String> {
    let mark = format!("HOME={}\0", home.path().display());
    let entries = std::fs::read_dir("/proc").expect("Linux").flatten();
    let ids =
        entries.filter_map(|entry| entry.file_name().into_string().ok().filter(|name| name.parse::<u32>().is_ok()));
    ids.filter(|id| {
        let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.windows(mark.len()).any(|part| part == mark.as_bytes())
    })
    .collect()
}

/// Names in a folder; none where there is no such folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Message queues that belong to one of these processes.
fn queues_of(processes: &[String]) -> Vec<String> {
    let mut queues = names(Path::new("/dev/mqueue"));
    queues.retain(|queue| processes.iter().any(|id| queue.contains(&format!("msgpath-{id}-"))));
    queues
}

#[test]
fn no_verb_leaves_a_process_or_a_file() {
    let home = Home::new();
    for line in [
        "compare -x fifo:write,mq,shm,unixgram:send,udp:send -l 64 -c 50 -r 6 -w 0 -o what-ifs=no --no-save",
        "stream -x fifo:write -c 50 -r 5 -w 0 -o what-ifs=no --no-save",
        "periodic -x shm -n 2 -c 20 --first 0 --period 5ms -r 5 --no-save",
        "doctor",
    ] {
        home.run(line);
        let ended = || processes_of(&home).is_empty();
        assert!(within(Duration::from_secs(60), ended), "{line}: {:?} live on", processes_of(&home));
        assert_eq!(names(&home.temporary()), [""; 0], "{line}");
        assert_eq!(names(&home.runs()), [""; 0], "{line}");
    }
}

/// Verbs that make a folder which does not last, and whether they run until they are ended.
const UNSAVED: [(&str, bool); 7] = [
    ("echo -t 60s -w 0 -o what-ifs=no --no-save", true),
    ("stream -t 60s -w 0 -o what-ifs=no --no-save", true),
    ("compare -x tcp:send,unix:send,fifo:write -l 64 -t 60s -w 0 -o what-ifs=no --no-save", true),
    ("periodic -x shm -n 2 -c 100000 --first 0 --period 5ms -r 5 --no-save", true),
    ("rpc here -rep 1000 -waitms 50 ping --no-save", true),
    ("doctor", false),
    ("preset own.toml -o out", false),
];

/// Starts such a verb and waits until its folder is there.
fn met_unsaved(home: &Home, line: &str) -> Running {
    crate::own_preset::own(home, crate::own_preset::TWO);
    let mut running = home.start(line);
    let there = || !names(&home.temporary()).is_empty();
    let mut was_there = false;
    let settled = within(LIMIT, || {
        was_there = there();
        was_there || running.has_ended()
    });
    assert!(settled && was_there, "{line}: no folder was seen");
    running
}

#[test]
fn folders_of_a_killed_program_are_removed_at_the_next_start() {
    let next = ["paths", "runs", "echo -c 20 -r 5 -w 0 -o what-ifs=no"];
    for ((line, lasts), next) in UNSAVED.into_iter().zip(next.into_iter().cycle()) {
        let home = Home::new();
        let running = met_unsaved(&home, line);
        running.signal("KILL");
        drop(running);
        assert!(within(LIMIT, || processes_of(&home).is_empty()), "{line}: {:?} live on", processes_of(&home));
        assert!(!lasts || names(&home.temporary()).len() == 1, "{line}: {:?}", names(&home.temporary()));
        home.run(next);
        assert_eq!(names(&home.temporary()), [""; 0], "{line}, then {next}");
    }
}

#[test]
fn folders_of_a_program_that_is_asked_to_end_go_with_it() {
    for ((line, _), signal) in UNSAVED.into_iter().zip(["TERM", "HUP", "INT"].into_iter().cycle()) {
        let home = Home::new();
        let running = met_unsaved(&home, line);
        // A pipe that nobody reads is an error of a write, not the end of the program.
        running.signal("PIPE");
        running.signal(signal);
        let output = running.finish(LIMIT);
        assert!(output.code.is_some(), "{line}: ended by SIG{signal}");
        assert!(within(LIMIT, || processes_of(&home).is_empty()), "{line}: {:?} live on", processes_of(&home));
        assert_eq!(names(&home.temporary()), [""; 0], "{line}, SIG{signal}");
    }
}

#[test]
fn folders_of_programs_that_run_stay() {
    const FOREIGN: &str = "msgpath-1-of-somebody-else";
    let home = Home::new();
    let running = met_unsaved(&home, UNSAVED[0].0);
    let made = names(&home.temporary());
    assert_eq!(made.len(), 1, "{made:?}");
    std::fs::create_dir(home.temporary().join(FOREIGN)).unwrap();
    home.run("echo -c 20 -r 5 -w 0 -o what-ifs=no --no-save").ends_with(0);
    let mut left = names(&home.temporary());
    left.sort();
    assert_eq!(left, [FOREIGN, made[0].as_str()]);
    running.signal("TERM");
    running.finish(LIMIT);
    assert_eq!(names(&home.temporary()), [FOREIGN]);
}

#[test]
fn without_a_home_runs_are_kept_where_nobody_else_writes() {
    let home = Home::new();
    let run = |line: &str| {
        let mut command = home.command(&line.split(' ').collect::<Vec<_>>());
        command.env_remove("HOME").env_remove("XDG_DATA_HOME");
        Running::new(command).finish(LIMIT).ends_with(0)
    };
    // Somebody was here before.
    std::fs::create_dir(home.temporary().join("msgpath")).unwrap();
    let first = run("echo -c 20 -r 5 -w 0 -o what-ifs=no --name first");
    let kept = names(&home.temporary()).into_iter().find(|name| name.starts_with("msgpath-runs-")).unwrap();
    let kept = home.temporary().join(kept);
    first.says(&["neither HOME nor XDG_DATA_HOME", &kept.display().to_string()]);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&kept).unwrap().permissions());
    assert_eq!(
        (mode & 0o777, names(&kept), names(&home.temporary().join("msgpath")).len()),
        (0o700, vec!["first".into()], 0)
    );
    run("runs").shows(&["first"]);
}

/// A long run whose first rounds are on the disk.
fn in_flight(home: &Home, options: &str) -> Running {
    let mut command =
        home.command(&["echo", "-t", "60s", "-r", "200", "-w", "0", "-o", "what-ifs=no", "--name", "long"]);
    command.args(options.split_whitespace());
    started(home, command)
}

/// Starts the run named `long` and waits until it is in the middle of a round, with others on the disk.
fn started(home: &Home, command: Command) -> Running {
    let running = Running::new(command);
    let rounds = home.runs().join("long/rounds.mpl");
    let begun = within(Duration::from_secs(60), || std::fs::metadata(&rounds).is_ok_and(|file| file.len() > 1024));
    assert!(begun, "no round was written");
    std::thread::sleep(Duration::from_millis(50)); // a round takes 300 ms
    running
}

#[test]
fn a_killed_run_can_be_read_and_leaves_nothing_behind() {
    for path in ["tcp:send/spin", "fifo:write", "mq:send", "shm:ring/futex"] {
        let home = Home::new();
        let running = in_flight(&home, &format!("-x {path}"));
        let processes = processes_of(&home);
        assert_eq!(processes.len(), 3, "the coordinator, near and far end of {path}");
        running.signal("KILL");
        assert_eq!(running.finish(LIMIT).code, None);
        let gone = within(Duration::from_secs(60), || processes_of(&home).is_empty());
        assert!(gone, "{path}: still there: {:?}", processes_of(&home));
        assert_eq!(names(&home.temporary()), Vec::<String>::new(), "{path}");
        assert_eq!(queues_of(&processes), Vec::<String>::new(), "{path}");

        home.run("show long").ends_with(0).shows(&["cut short", "round trips"]);
        let value = home.run("show long --json").ends_with(0).json();
        assert_eq!(value["status"], "partial");
        let rounds = value["cases"][0]["rounds"].as_u64().unwrap();
        assert!((1..200).contains(&rounds), "{rounds} rounds");
        let rows = home.run("export long --to csv").ends_with(0).out;
        assert_eq!(rows.lines().count() as u64, rounds + 1);
        assert_eq!(home.run("export long --to json").ends_with(0).json()["status"], "partial");
        home.run("runs").ends_with(0).shows(&["long", "partial"]);
    }
}

#[test]
fn a_file_cut_anywhere_is_read_up_to_its_last_whole_block() {
    let home = Home::new();
    home.run("echo -c 400 -r 8 -w 0 -o what-ifs=no --name cut").ends_with(0);
    let file = home.runs().join("cut/rounds.mpl");
    let whole = std::fs::read(&file).unwrap();
    let mut before = 8;
    for length in [whole.len() - 1, whole.len() / 2, whole.len() / 7, 3, 0] {
        std::fs::write(&file, &whole[..length]).unwrap();
        let value = home.run("export cut --to json").ends_with(0).json();
        let rounds = value["rounds"].as_array().unwrap().len();
        assert!(rounds <= before && (length > 3 || rounds == 0), "{rounds} rounds in {length} bytes");
        assert!(!value["damage"].is_null() || value["status"] == "partial", "{length} bytes: {}", value["damage"]);
        before = rounds;
    }
    std::fs::write(&file, &whole).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 0xff;
    std::fs::write(&file, &damaged).unwrap();
    let value = home.run("export cut --to json").ends_with(0).json();
    assert!(value["rounds"].as_array().unwrap().len() < 8 && !value["damage"].is_null(), "{}", value["damage"]);
}

#[test]
fn an_interrupt_ends_with_a_readable_run() {
    let home = Home::new();
    let running = in_flight(&home, "--json");
    running.signal("INT");
    let output = running.finish(LIMIT).ends_with(130).says(&["error[E15]"]);
    let value = output.json();
    assert_eq!(value["status"], "partial");
    assert_eq!(home.run("show long --json").ends_with(0).json()["cases"][0]["messages"], value["cases"][0]["messages"]);
    assert!(within(Duration::from_secs(60), || processes_of(&home).is_empty()));
    assert_eq!(names(&home.temporary()), Vec::<String>::new());
}

#[test]
fn ctrl_c_and_timeout_reach_the_whole_group() {
    use std::os::unix::process::CommandExt;
    for (signal, both) in [("INT", false), ("TERM", true)] {
        let home = Home::new();
        let mut command = home.command(&["echo", "-t", "60s", "-r", "200", "-w", "0", "--name", "long", "--json"]);
        command.process_group(0);
        let running = started(&home, command);
        if both {
            running.signal(signal); // timeout(1) does it so: to the program, then to its group
        }
        running.signal_group(signal);
        let output = running.finish(LIMIT);
        assert_eq!(output.code, Some(130), "SIG{signal}: {output:?}");
        assert_eq!(output.json()["status"], "partial", "SIG{signal}");
        assert!(within(Duration::from_secs(60), || processes_of(&home).is_empty()), "SIG{signal}");
    }
}

#[test]
fn an_interrupt_before_the_first_round_is_no_result() {
    let home = Home::new();
    let running = home.start("echo -w 30s -t 1s --name early --progress line");
    // The coordinator and both ends.
    assert!(within(Duration::from_secs(60), || processes_of(&home).len() == 3), "an end was not started");
    std::thread::sleep(Duration::from_millis(200)); // into the warm-up; earlier is as good
    running.signal("INT");
    let output = running.finish(LIMIT).ends_with(130).says(&["error[E15]", "before the first round"]);
    assert!(!output.out.contains("cost per message"), "nothing was counted:\n{}", output.out);
    assert!(within(Duration::from_secs(60), || processes_of(&home).is_empty()));
}

#[test]
fn a_run_that_is_not_kept_names_no_way_to_go_on() {
    let home = Home::new();
    let running = home.start("echo -t 60s -r 200 -w 0 -o what-ifs=no --no-save");
    assert!(within(Duration::from_secs(60), || processes_of(&home).len() == 3), "an end was not started");
    std::thread::sleep(Duration::from_secs(2)); // into the rounds; earlier is as good
    let is_end =
        |id: &String| std::fs::read_to_string(format!("/proc/{id}/cmdline")).is_ok_and(|line| line.contains("__agent"));
    let end = processes_of(&home).into_iter().find(is_end).expect("both ends are there");
    assert!(std::process::Command::new("kill").args(["-KILL", &end]).status().unwrap().success());
    let output = running.finish(LIMIT).ends_with(4).says(&["error[E17]"]);
    assert!(!output.err.contains("msgpath resume") && !output.err.contains("msgpath show"), "{}", output.err);
}

#[test]
fn every_exporter_writes_something_readable() {
    let home = Home::new();
    home.run("echo -x tcp:send,unix:send -l 64,1K -c 50 -r 5 -w 0 --name out").ends_with(0);
    let export = |format: &str| home.run(&format!("export out --to {format}")).ends_with(0).out;
    assert_eq!(export("csv").lines().count(), 1 + 4 * 5);
    assert_eq!(export("messages-csv").lines().count(), 1 + 4 * 50);
    assert!(export("hgrm").contains("Percentile") && export("hgrm").contains("unix:send"));
    let log = export("hlog");
    assert!(log.starts_with("#") && log.contains("#[StartTime: "), "{log}");
    assert_eq!(log.lines().filter(|line| line.starts_with("Tag=")).count(), 4 * 5, "{log}");
    let value: crate::printed::Value = serde_json::from_str(&export("json")).unwrap();
    assert_eq!(value["rounds"].as_array().unwrap().len(), 20);
    if home.run("export -h").ends_with(0).out.contains("parquet") {
        home.run("export out --to parquet -o out.parquet").ends_with(0);
        let bytes = std::fs::read(home.path().join("out.parquet")).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1") && bytes.len() > 200);
    }
    home.run("export out --to csv -o no/such/folder").ends_with(4).says(&["error[E12]", "no/such/folder"]);
    home.run("export out --to xml").ends_with(2).says(&["error[E11]", "xml"]);
}

#[test]
fn runs_are_found_by_name_and_by_age() {
    let home = Home::new();
    for name in ["brisk-otter", "calm-heron"] {
        home.run(&format!("echo -c 10 -w 0 --name {name}")).ends_with(0);
        std::thread::sleep(Duration::from_millis(20));
    }
    let list = home.run("runs").ends_with(0).out;
    assert!(list.find("calm-heron") < list.find("brisk-otter"), "the newest first:\n{list}");
    let shown = |run: &str| home.run(&format!("show {run} --json")).ends_with(0).json()["name"].clone();
    assert_eq!(
        (shown("@last"), shown("@-2"), shown("brisk-otter")),
        ("calm-heron".into(), "brisk-otter".into(), "brisk-otter".into())
    );
    home.run("show brisk-oter").ends_with(2).says(&["error[E08]", "\"brisk-oter\"", "brisk-otter"]);
    home.run("show @-3").ends_with(2).says(&["error[E08]"]);
    home.run("export no/such/folder").ends_with(2).says(&["error[E08]"]);
    home.run("echo -c 10 --name brisk-otter").ends_with(2).says(&["there is a run named brisk-otter already"]);
}

#[test]
fn a_full_disk_ends_the_run_and_keeps_what_is_there() {
    // A disk of 256 KiB in a mount namespace of its own: it is gone with the script, whatever ends it.
    let script = r#"
        set -e
        mkdir -p "$XDG_DATA_HOME"
        mount -t tmpfs -o size=256k msgpath-test "$XDG_DATA_HOME"
        echo "mounted"
        code=0
        "$0" echo -x shm:ring/futex -t 30s -r 8000 -w 0 -o what-ifs=no --name full >measured.txt 2>problem.txt || code=$?
        echo "code $code"
        "$0" show full --json >shown.json
        "$0" export full --to csv >rows.csv
        echo "read"
    "#;
    let home = Home::new();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_msgpath")]);
    let own = home.command(&[]);
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(home.path());
    command.stdin(Stdio::null());
    if Command::new("unshare").arg("--version").output().is_err() {
        eprintln!("skipped: no unshare");
        return;
    }
    let output = Running::new(command).finish(LIMIT);
    if !output.out.contains("mounted") {
        eprintln!("skipped: no tmpfs can be mounted here: {}", output.err);
        return;
    }
    let problem = std::fs::read_to_string(home.path().join("problem.txt")).unwrap();
    let output = output.shows(&["code 4", "read"]).ends_with(0);
    assert!(problem.contains("error[E12]") && problem.contains("No space left"), "{problem}\n{}", output.err);
    let shown: crate::printed::Value =
        serde_json::from_slice(&std::fs::read(home.path().join("shown.json")).unwrap()).unwrap();
    assert_ne!(shown["status"], "ok");
    let rounds = shown["cases"][0]["rounds"].as_u64().unwrap();
    let rows = std::fs::read_to_string(home.path().join("rows.csv")).unwrap().lines().count() as u64;
    assert!(rounds > 0 && rows == rounds + 1, "{rounds} rounds, {rows} rows");
}

#[test]
fn traced_messages_say_when_their_send_call_returned() {
    let home = Home::new();
    home.run("echo -x tcp:send -c 400 -r 5 -w 0 -o what-ifs=no --stages light --name traced -qq").ends_with(0);
    home.run("report traced -o traced.html").ends_with(0);
    let page = std::fs::read_to_string(home.path().join("traced.html")).unwrap();
    // Traced rounds have stamps in user space also where the kernel cannot be traced.
    for part in [", traced\"", "far end: arrival to its send", "split by the stamps of both ends"] {
        assert!(page.contains(part), "{part}");
    }
    let csv = home.run("export traced --to messages-csv").ends_with(0);
    let mut rows = csv::Reader::from_reader(csv.out.as_bytes());
    let heads = rows.headers().unwrap().clone();
    let column = |name: &str| heads.iter().position(|head| head == name).unwrap();
    let (latency, sent) = (column("latency_ns"), column("sent_ns"));
    let stamps: Vec<(u64, u64)> = rows
        .records()
        .map(Result::unwrap)
        .filter_map(|row| Some((row[sent].parse().ok()?, row[latency].parse().ok()?)))
        .collect();
    assert!(stamps.len() >= 100, "{} of the traced messages", stamps.len());
    assert!(stamps.iter().all(|(sent, latency)| 0 < *sent && sent < latency), "{stamps:?}");
}
