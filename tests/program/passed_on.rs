//! Presets, records and files of hosts that somebody else has written: they start no program, write no file and reach nothing that
//! the user did not name.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::command::{Home, LIMIT, Output, Running};
use crate::resume::{SHORT, cut_short, rewrite};

const PROGRAM: &str = env!("CARGO_BIN_EXE_msgpath");
/// A user who is neither root nor the one of the tests.
const SOMEBODY: u32 = 54_321;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The file that is there once a program of an attacker has run, or a file of his was written.
fn mark(home: &Home) -> PathBuf {
    home.path().join("mark")
}

/// A program of this home that leaves the mark, and then does what `rest` says.
fn program(home: &Home, name: &str, rest: &str) -> PathBuf {
    let folder = home.path().join("bin");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n: > '{}'\n{rest}\n", mark(home).display())).unwrap();
    mode(&path, 0o755);
    path
}

/// Runs it with the programs of the home before all others.
fn msgpath(home: &Home, words: &[&str]) -> Output {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = home.command(words);
    command.env("PATH", format!("{}:{path}", home.path().join("bin").display()));
    Running::new(command).finish(LIMIT)
}

fn preset(home: &Home, verb: &str, rest: &str) -> String {
    let file = home.path().join("own.toml");
    let text = format!("summary = 'a'\nabout = 'b'\n[[run]]\nname = 'a'\nverb = '{verb}'\n{rest}\n");
    fs::write(&file, text.replace("MARK", &mark(home).display().to_string())).unwrap();
    file.display().to_string()
}

#[test]
fn a_preset_file_neither_writes_nor_starts_nor_reaches_anything() {
    const FEW: &str = "count = 20\nrounds = 2\nwarmup = '0'\n";
    const HERE: &str = "words = ['here', '-k', '4', 'ping']\n[run.options]\n";
    for (verb, begin, attack) in [
        ("echo", "words = ['n2']\n[run.options]\ncount = 20\n", "launch = 'leaves-the-mark {host}'"),
        ("echo", "[run.options]\ncount = 20\n", "server = 'leaves-the-mark {port}'"),
        ("compare", "words = ['127.0.0.1', '--server=leaves-the-mark']\n[run.options]\n", FEW),
        ("compare", "[run.options]\npath = 'tcp:send'\nlen = 64\ntime = '1s'\n", "tools = 'sockperf'"),
        ("echo", "[run.options]\ncount = 20\n", "simulate-cache = true"),
        ("echo", "[run.options]\ncount = 20\n", "open-metrics = 'MARK'"),
        ("stream", "[run.options]\ncount = 20\n", "out = 'MARK'"),
        ("echo", "[run.options]\ncount = 20\n", "open-metrics = 'MARK'"),
        ("echo", "[run.options]\ncount = 20\n", "each = '--open-metrics=MARK'"),
        ("echo", "[run.options]\ncount = 20\n", "'open-metrics=MARK' = true"),
        ("echo", "words = ['--open-metrics=MARK']\n[run.options]\n", FEW),
        ("echo", "words = ['--', '--open-metrics=MARK']\n[run.options]\n", FEW),
        ("echo", "[run.options]\ncount = 20\n", "name = '../../mark'"),
        ("echo", "[run.options]\ncount = 20\n", "json = true"),
        ("echo", "words = ['127.0.0.1']\n[run.options]\ncount = 20\n", "token-file = '/etc/hostname'"),
        ("echo", "[run.options]\ncount = 20\n", "between = 'one,other'"),
        ("echo", "words = ['n2']\n[run.options]\n", FEW),
        ("explain", "words = ['@last']\n[run.options]\n", FEW),
        ("periodic", "[run.options]\nprocesses = 2\ncount = 4\n", "interface = 'eth0'"),
        ("rpc", HERE, "lab-log = 'MARK'"),
        ("rpc", HERE, "serve = '--lab-log MARK'"),
        ("rpc", HERE, "serve = '--lab-log=MARK'"),
        ("rpc", "words = ['redis://127.0.0.1', 'ping']\n[run.options]\n", "rounds = 1"),
    ] {
        let home = Home::new();
        for name in ["leaves-the-mark", "sockperf", "valgrind"] {
            program(&home, name, "exit 1");
        }
        let file = preset(&home, verb, &format!("{begin}{attack}"));
        let output = msgpath(&home, &["preset", &file, "-o", "out"]);
        assert!(!mark(&home).exists(), "{attack}: {}", output.err);
        let output = output.ends_with(2).says(&["error[E42]", "own.toml:"]);
        assert!(output.out.is_empty() && !home.runs().join("mark").exists(), "{attack}: {}", output.out);
        assert!(!home.path().join("out").exists(), "{attack}: something was measured");
    }
}

#[test]
fn a_preset_file_starts_programs_when_the_user_lets_it_and_they_are_shown() {
    let home = Home::new();
    program(&home, "leaves-the-mark", "exit 1");
    let rest = "[run.options]\npath = 'tcp:send'\nlen = 64\ncount = 40\nrounds = 2\nwarmup = '0'\nserver = 'leaves-the-mark {port}'";
    let file = preset(&home, "compare", rest);
    msgpath(&home, &["preset", &file]).ends_with(2).says(&["own.toml:12:1", "it starts a program", "--allow-programs"]);
    assert!(!mark(&home).exists());
    msgpath(&home, &["preset", "show", &file]).ends_with(0).shows(&["leaves-the-mark {port}"]);
    assert!(!mark(&home).exists());
    msgpath(&home, &["preset", &file, "--allow-programs"]).says(&["own starts: --server leaves-the-mark {port}"]);
    assert!(mark(&home).exists());
}

/// Who may have written the record `cut` of a home; the folder that it is then.
type Tamper = fn(&Home) -> Option<PathBuf>;

const TAMPERED: [(&str, Tamper); 4] = [
    ("can be written by other users", |home| {
        let folder = home.runs().join("cut");
        mode(&folder, 0o777);
        Some(folder)
    }),
    ("can be written by other users", |home| {
        let folder = home.runs().join("cut");
        for name in ["run.json", "mesh.json"].map(|name| folder.join(name)).iter().filter(|file| file.exists()) {
            mode(name, 0o666);
        }
        Some(folder)
    }),
    ("not among the runs of this user", |home| {
        let to = home.path().join("passed-on");
        fs::create_dir(&to).unwrap();
        for entry in fs::read_dir(home.runs().join("cut")).unwrap().flatten() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
        Some(to)
    }),
    ("is owned by the user 54321", |home| {
        let folder = home.runs().join("cut");
        let given = chown(&folder, Some(SOMEBODY), Some(SOMEBODY));
        if given.is_err() {
            println!("skipped: only root can give a folder to another user");
        }
        given.ok().map(|()| folder)
    }),
];

/// A run that was cut short, whose far end was started by a launcher of the user's, and whose record names another one.
fn launched(home: &Home) -> (String, String) {
    let usual = program(home, "usual", "exec \"$@\"");
    let other = program(home, "other", "exec \"$@\"");
    let template = format!("{} {{program}} --host 127.0.0.1", usual.display());
    let words: Vec<&str> = SHORT.split_whitespace().collect();
    let words = [&["echo", "n2", "--launch", &template, "--program", PROGRAM][..], &words[1..]].concat();
    let tcp: Vec<&str> =
        words.iter().map(|word| if word.contains("unix:send") { "tcp:send,tcp:writev" } else { word }).collect();
    msgpath(home, &tcp).ends_with(0);
    cut_short(home);
    rewrite(home, "cut", "usual", "other");
    let _ = fs::remove_file(mark(home));
    (template, format!("{} {{program}} --host 127.0.0.1", other.display()))
}

#[test]
fn a_record_of_this_user_starts_what_it_says_and_shows_it() {
    let home = Home::new();
    let (usual, other) = launched(&home);
    let refused = msgpath(&home, &["resume", "cut", "--launch", &usual]);
    refused.ends_with(2).says(&["error[E11]", "does not say --launch"]);
    assert!(!mark(&home).exists());
    let start = other.replace("{program}", PROGRAM).replace(" --host", " __agent --launched --host");
    msgpath(&home, &["resume", "cut"]).ends_with(0).says(&[&format!("note: starts: {start}")]);
    assert!(mark(&home).exists());
}

#[test]
fn a_record_that_others_may_have_written_starts_nothing_that_was_not_typed() {
    for (why, tamper) in TAMPERED {
        let home = Home::new();
        let (_, other) = launched(&home);
        let Some(folder) = tamper(&home) else { continue };
        let folder = folder.to_str().unwrap();
        let rounds = fs::read(Path::new(folder).join("rounds.mpl")).unwrap();
        for words in [
            &["resume", folder][..],
            &["explain", folder],
            &["resume", folder, "--launch", &other, "--program", PROGRAM],
        ] {
            msgpath(&home, words).ends_with(3).says(&["error[E88]", why, "--target n2"]);
            assert!(!mark(&home).exists(), "{words:?}");
        }
        assert_eq!(fs::read(Path::new(folder).join("rounds.mpl")).unwrap(), rounds);
        let typed = ["resume", folder, "--launch", &other, "--program", PROGRAM, "--target", "n2"];
        msgpath(&home, &typed).ends_with(0).says(&["note: starts: "]);
        assert!(mark(&home).exists());
    }
}

#[test]
fn a_record_that_others_may_have_written_reaches_nothing_that_was_not_typed() {
    let between = r#""between": { "ends": [
        { "name": "one", "namespace": "/run/netns/one", "address": "10.66.0.1" },
        { "name": "two", "namespace": "/run/netns/two", "address": "10.66.0.2" } ], "link": null, "properties": "" }"#;
    for (from, to, said) in [
        ("\"between\": null", between, "--between one,two"),
        ("\"between\": null", "\"between\": null, \"token_file\": \"/etc/hostname\"", "--token-file /etc/hostname"),
        ("\"target\": \"this machine\"", "\"target\": \"127.0.0.1:9\"", "--target 127.0.0.1:9"),
        ("\"target\": \"this machine\"", "\"target\": \"unix:/run/x\"", "--target unix:/run/x"),
    ] {
        let home = Home::new();
        home.run(SHORT).ends_with(0);
        cut_short(&home);
        rewrite(&home, "cut", from, to);
        mode(&home.runs().join("cut"), 0o777);
        for verb in ["resume", "explain"] {
            home.run(&format!("{verb} cut")).ends_with(3).says(&["error[E88]", said]);
        }
    }
}

#[test]
fn a_program_of_a_record_that_others_may_have_written_is_not_started() {
    let home = Home::new();
    program(&home, "far", "exit 1");
    let far = format!("far={}/bin/far {{port}}", home.path().display());
    let words: Vec<&str> = SHORT.split_whitespace().skip(3).collect();
    let words = [&["compare", "-x", "tcp:send,tcp:writev", "-l", "64", "--server", &far][..], &words].concat();
    msgpath(&home, &words).ends_with(4);
    assert!(mark(&home).exists(), "the far end is started");
    fs::remove_file(mark(&home)).unwrap();
    cut_short(&home);
    mode(&home.runs().join("cut"), 0o777);
    for verb in ["resume", "explain"] {
        msgpath(&home, &[verb, "cut"]).ends_with(3).says(&["error[E88]", "--server"]);
        assert!(!mark(&home).exists(), "{verb}");
    }
}

#[test]
fn a_record_whose_launcher_nobody_can_have_typed_is_refused() {
    let home = Home::new();
    launched(&home);
    for (from, to) in
        [("\"host\": \"n2\"", "\"host\": \"-oProxyCommand=x\""), ("\"by\": \"other\"", "\"by\": \"ssh -x\"")]
    {
        rewrite(&home, "cut", from, to);
        msgpath(&home, &["resume", "cut"]).ends_with(3).says(&["the launcher of the plan cannot be"]);
        assert!(!mark(&home).exists());
        rewrite(&home, "cut", to, from);
    }
}

#[test]
fn a_mesh_that_others_may_have_written_starts_nothing_that_was_not_typed() {
    for (why, tamper) in TAMPERED {
        let home = Home::new();
        let launcher = program(&home, "launcher", "exec \"$@\"");
        let template = format!("{} {{program}} --host 127.0.0.1", launcher.display());
        let typed = ["--launch", &template, "--program", PROGRAM];
        let words = [&["mesh", "a,b", "-t", "60ms", "-r", "3", "--name", "cut"][..], &typed].concat();
        msgpath(&home, &words).ends_with(0);
        fs::remove_file(mark(&home)).unwrap();
        let Some(folder) = tamper(&home) else { continue };
        let again = ["mesh", "--resume", folder.to_str().unwrap()];
        msgpath(&home, &again).ends_with(3).says(&["error[E88]", why, "a,b --launch"]);
        msgpath(&home, &[&again[..], &typed].concat()).ends_with(3).says(&["error[E88]", "not typed here: a,b"]);
        assert!(!mark(&home).exists());
        msgpath(&home, &[&again[..], &["a,b"], &typed].concat()).ends_with(0).says(&["note: starts: "]);
        assert!(mark(&home).exists());
    }
}

#[test]
fn a_file_of_hosts_that_others_may_have_written_names_no_program() {
    let home = Home::new();
    program(&home, "launcher", "exit 1");
    let file = home.path().join("hosts.toml");
    for (line, obeyed) in
        [("launch = 'launcher {host}'", false), ("program = 'launcher'", false), ("launch = 'slurm'", true)]
    {
        fs::write(&file, format!("{line}\n[[host]]\nname = 'a'\n[[host]]\nname = 'b'\n")).unwrap();
        mode(&file, 0o666);
        let output = msgpath(&home, &["mesh", "--hosts", "hosts.toml", "--dry-run"]);
        match obeyed {
            true => drop(output.ends_with(0)),
            false => drop(output.ends_with(3).says(&["error[E88]", "can be written by other users", "chmod go-w"])),
        }
        mode(&file, 0o644);
        msgpath(&home, &["mesh", "--hosts", "hosts.toml", "--dry-run"]).ends_with(0);
    }
    assert!(!mark(&home).exists());
}

/// In the place of a file of the record lies a link to another one.
#[test]
fn what_is_written_into_a_record_is_not_written_through_a_link() {
    let victim = |home: &Home| {
        let victim = home.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        victim
    };
    for (name, verb) in
        [("report.html", "report"), ("report.html", "resume"), ("rounds.mpl", "resume"), ("messages.mpl", "resume")]
    {
        for hard in [false, true] {
            let home = Home::new();
            home.run(&SHORT.replace("echo", "compare")).ends_with(0);
            if verb == "resume" {
                cut_short(&home);
            }
            let (victim, file) = (victim(&home), home.runs().join("cut").join(name));
            let _ = fs::remove_file(&file);
            match hard {
                false => std::os::unix::fs::symlink(&victim, &file).unwrap(),
                true => fs::hard_link(&victim, &file).unwrap(),
            }
            let output = home.run(&format!("{verb} cut"));
            assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{verb} {name}: {}", output.err);
            assert_eq!(output.code, Some(if name == "report.html" { 0 } else { 3 }), "{verb} {name}: {}", output.err);
        }
    }
}

#[test]
fn a_pipe_in_the_place_of_a_file_of_a_record_is_not_waited_for() {
    for name in ["run.json", "rounds.mpl", "messages.mpl"] {
        let home = Home::new();
        home.run(SHORT).ends_with(0);
        let file = home.runs().join("cut").join(name);
        fs::remove_file(&file).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&file).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfifo");
        for verb in ["show", "resume", "explain"] {
            let output = home.run(&format!("{verb} {}", file.parent().unwrap().display()));
            assert!(output.code.is_some_and(|code| [2, 3, 4].contains(&code)), "{verb} {name}: {output:?}");
        }
    }
}
