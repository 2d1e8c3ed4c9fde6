//! Standard output and standard error that are closed, full, or read by nobody: a message never fails, a result that cannot be
//! printed is an error, and what was recorded is whole.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::command::{Home, LIMIT, Output, Running, free_port, within};
use crate::own_preset::TWO;

const PROGRAM: &str = env!("CARGO_BIN_EXE_msgpath");

/// What is wrong with a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Closed,
    Full,
    NoReader,
}

const FAULTS: [Fault; 3] = [Fault::Closed, Fault::Full, Fault::NoReader];

/// Ends it when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program in this home, whose stream number `number` (1 or 2) has the fault; the other one goes to `other`.
fn faulty(home: &Home, words: &[&str], number: u8, fault: Fault, other: Stdio) -> Command {
    let redirection = match fault {
        Fault::Closed => format!(" {number}>&-"),
        Fault::Full => format!(" {number}>/dev/full"),
        Fault::NoReader => String::new(),
    };
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("exec \"$@\"{redirection}")).args(["sh", PROGRAM]).args(words);
    let usual = home.command(&[]);
    command.current_dir(home.path()).stdin(Stdio::null());
    for (name, value) in usual.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    // The reader is dropped here: a pipe without one.
    let broken = match fault {
        Fault::NoReader => Stdio::from(std::io::pipe().expect("a pipe").1),
        Fault::Closed | Fault::Full => Stdio::null(),
    };
    match number {
        1 => command.stdout(broken).stderr(other),
        _ => command.stdout(other).stderr(broken),
    };
    command
}

/// The exit code; `None`: ended by a signal.
#[track_caller]
fn exit_code(mut command: Command) -> Option<i32> {
    let mut child = Ended(command.spawn().expect("sh starts"));
    let mut status = None;
    let ended = within(LIMIT, || {
        status = child.0.try_wait().expect("a child of ours");
        status.is_some()
    });
    assert!(ended, "not over after {LIMIT:?}: {command:?}");
    status.and_then(|status| status.code())
}

/// Runs it with standard output on the fault; what it says on standard error.
#[track_caller]
fn without_output(home: &Home, words: &[&str], fault: Fault, name: &str) -> Output {
    let said = home.path().join(format!("said-{name}"));
    let file = std::fs::File::create(&said).expect("a file in the home");
    let code = exit_code(faulty(home, words, 1, fault, Stdio::from(file)));
    Output { code, out: String::new(), err: std::fs::read_to_string(said).expect("it was written") }
}

/// One short command of each verb that says or prints something. `{name}`: of the run that it keeps, where it keeps one.
const VERBS: [&str; 31] = [
    "echo -c 60 -r 2 -w 0 --progress line --name {name}",
    "echo -c 60 -r 2 -w 0 --progress block --jsonl --name {name}",
    "echo -c 60 -r 2 -w 0 --open-metrics 127.0.0.1:0 --name {name}",
    "echo 127.0.0.1:1 -c 60 -r 2",
    "echo --no-such-option",
    "stream -l 4K -c 60 -r 2 -w 0 --progress line --name {name}",
    "compare -x tcp:send,unix:send -l 64 -c 60 -r 2 -w 0 -o what-ifs=no,refine=no --progress line --name {name}",
    "explain -c 60 -r 2 -w 0 --progress line --name {name}",
    "rpc here -k 20 ping -r 2 --progress line --name {name}",
    "periodic -x udp -n 2 -c 20 --first 5 --period 10ms -r 2 --name {name}",
    "connect -c 60 -r 2 -w 0 --progress line --name {name}",
    "watch --port 1 -t 100ms",
    "doctor --fix",
    "preset list",
    "preset show own.toml",
    "preset own.toml",
    "report kept -o report.html",
    "export kept --to csv",
    "export kept --to json",
    "export kept --figure conditions",
    "show kept",
    "verify kept",
    "diff kept kept",
    "resume kept",
    "runs",
    "paths",
    "schema",
    "completions bash",
    "lab status",
    "echo --help",
    "",
];

/// What every row of the table needs.
fn home_with_a_run() -> Home {
    let home = Home::new();
    std::fs::write(home.path().join("own.toml"), TWO).expect("a file in the home");
    home.run("echo -c 60 -r 2 -w 0 --name kept").ends_with(0);
    home
}

fn words<'a>(line: &'a str, name: &'a str) -> Vec<&'a str> {
    line.split_whitespace().map(|word| if word == "{name}" { name } else { word }).collect()
}

/// Calls `check` for each verb of the table, a few at a time.
fn for_each_verb(check: impl Fn(usize, &str) + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
                    && let Some(line) = VERBS.get(at)
                {
                    check(at, line);
                }
            });
        }
    });
}

/// Whether this home has a run of that name, which must then be whole.
#[track_caller]
fn assert_whole(home: &Home, line: &str, fault: Fault, name: &str) -> bool {
    let is_kept = home.runs().join(name).exists();
    if is_kept {
        let verified = home.run(&format!("verify {name}"));
        assert_eq!(verified.code, Some(0), "{line}, {fault:?}:\n{}{}", verified.out, verified.err);
    }
    is_kept
}

#[test]
fn standard_error_that_cannot_be_written_changes_no_exit_code_and_no_record() {
    let home = home_with_a_run();
    for_each_verb(|at, line| {
        let name = format!("good-{at}");
        let good = home.msgpath(&words(line, &name));
        let was_kept = home.runs().join(&name).exists();
        assert!(good.code.is_some_and(|code| code < 100), "{line}: {good:?}");
        for fault in FAULTS {
            let name = format!("{fault:?}-{at}");
            let code = exit_code(faulty(&home, &words(line, &name), 2, fault, Stdio::null()));
            assert_eq!(code, good.code, "{line}, standard error: {fault:?}; else it says:\n{}", good.err);
            assert_eq!(assert_whole(&home, line, fault, &name), was_kept, "{line}, {fault:?}");
        }
    });
}

#[test]
fn a_result_that_cannot_be_printed_is_an_error_and_the_record_stays_whole() {
    let home = home_with_a_run();
    for_each_verb(|at, line| {
        let name = format!("good-{at}");
        let good = home.msgpath(&words(line, &name));
        let was_kept = home.runs().join(&name).exists();
        for fault in FAULTS {
            let name = format!("{fault:?}-{at}");
            let output = without_output(&home, &words(line, &name), fault, &name);
            let what = format!("{line}, standard output: {fault:?}: {output:?}");
            // A reader that has left had what it wanted.
            let is_lost = fault != Fault::NoReader && good.code == Some(0) && !good.out.is_empty();
            match is_lost {
                true => assert!(output.code == Some(4) && output.err.contains("error[E12]"), "{what}"),
                false => assert_eq!(output.code, good.code, "{what}"),
            }
            assert_eq!(assert_whole(&home, line, fault, &name), was_kept, "{what}");
        }
    });
}

#[test]
fn a_server_that_cannot_write_standard_error_goes_on_serving() {
    let home = Home::new();
    for fault in FAULTS {
        let port = free_port();
        let listen = format!("127.0.0.1:{port}");
        let mut server = faulty(&home, &["serve", &listen], 2, fault, Stdio::null()).spawn().map(Ended).unwrap();
        let listens = || TcpStream::connect(&listen).is_ok();
        assert!(within(LIMIT, listens), "{fault:?}: it does not listen");
        for line in ["echo", "stream", "echo -x udp:send"] {
            home.run(&format!("{line} {listen} -c 60 -r 2 -w 0 --no-save")).ends_with(0);
        }
        assert!(server.0.try_wait().unwrap().is_none(), "{fault:?}: it has ended");
        let stopped = Command::new("kill").args(["-INT", &server.0.id().to_string()]).status().unwrap();
        assert!(stopped.success());
        let mut status = None;
        assert!(within(LIMIT, || {
            status = server.0.try_wait().unwrap();
            status.is_some()
        }));
        assert_eq!(status.unwrap().code(), Some(0), "{fault:?}");
    }
}

#[test]
fn agents_that_cannot_write_standard_error_measure() {
    let home = Home::new();
    for redirection in ["2>&-", "2>/dev/full"] {
        let launcher = format!("sh -c 'exec {PROGRAM} __agent --launched {redirection}'");
        let name = format!("mesh-{}", redirection.len());
        let words = ["mesh", "--launch", &launcher, "n[1-2]", "-t", "60ms", "-r", "3", "--name", &name];
        home.msgpath(&words).ends_with(0).shows(&["n1", "n2"]);
    }
}

#[test]
fn a_gate_that_fails_counts_where_the_reader_of_the_result_has_left() {
    let home = Home::new();
    let words = ["echo", "-c", "300", "-r", "5", "-w", "0", "--no-save", "--fail-if", "p50 > 1ns"];
    home.msgpath(&words).ends_with(1).says(&["p50"]);
    without_output(&home, &words, Fault::NoReader, "gate").ends_with(1).says(&["p50"]);
}

#[test]
fn a_small_stack_is_an_error_that_says_what_to_do() {
    let home = Home::new();
    let by_shell = |kib: u32, line: &str| {
        let mut command = Command::new("sh");
        let script = format!("ulimit -s {kib} || exit 77; exec \"$@\"");
        command.args(["-c", &script, "sh", PROGRAM]).args(line.split(' ')).stdin(Stdio::null());
        command.env("HOME", home.path()).env("XDG_DATA_HOME", home.path().join("data"));
        Running::new(command).finish(LIMIT)
    };
    for line in ["--version", "echo -c 60 -r 2 -w 0 --no-save", "serve 127.0.0.1:0"] {
        for kib in [64, 128, 512] {
            by_shell(kib, line).ends_with(3).says(&["error[E58]", "the limit on the stack is", "ulimit -s"]);
        }
        let mut command = home.command(&line.split(' ').collect::<Vec<_>>());
        command.env("RUST_MIN_STACK", "16384");
        Running::new(command).finish(LIMIT).ends_with(3).says(&["error[E58]", "unset RUST_MIN_STACK"]);
    }
    // The least that is allowed is enough, also for what was asked of threads.
    let verbs = VERBS.iter().filter(|line| !line.contains("{name}") && !line.starts_with("watch"));
    let measured =
        ["echo -c 60 -r 2 -w 0 --no-save", "stream -P 4 -c 60 -r 2 -w 0 --no-save", "rpc here -k 20 ping --no-save"];
    for line in
        verbs.filter(|line| !line.contains("kept") && !line.is_empty() && !line.contains("own.toml")).chain(&measured)
    {
        let expected = home.msgpath(&line.split(' ').collect::<Vec<_>>()).code;
        let output = by_shell(1024, line);
        assert_eq!(output.code, expected, "{line}:\n{}", output.err);
    }
}

#[test]
fn what_a_program_opens_never_gets_the_number_of_a_closed_stream() {
    let home = Home::new();
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 0>&- 1>&- 2>&-", "sh", PROGRAM, "serve", &listen]);
    command.env("HOME", home.path()).env("XDG_DATA_HOME", home.path().join("data"));
    let server = command.spawn().map(Ended).unwrap();
    assert!(within(Duration::from_secs(60), || TcpStream::connect(&listen).is_ok()));
    for number in 0..3 {
        let opened = std::fs::read_link(format!("/proc/{}/fd/{number}", server.0.id())).unwrap();
        assert_eq!(opened.to_str(), Some("/dev/null"), "{number}");
    }
}
