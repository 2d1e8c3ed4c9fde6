//! Help, completions, manual and the list of paths.

use crate::command::{Home, msgpath};

#[test]
fn help_is_one_screen_and_goes_to_standard_output() {
    let short = msgpath(&["-h"]).ends_with(0);
    assert!(
        short.out.lines().count() <= 24 && short.out.lines().all(|line| line.chars().count() <= 80),
        "{}",
        short.out
    );
    assert!(short.out.lines().nth(2).is_some_and(|line| line.starts_with("  msgpath echo ")), "{}", short.out);
    assert!(msgpath(&["--help"]).ends_with(0).out.contains("130  interrupted"));
    assert!(msgpath(&[]).ends_with(2).err.contains("msgpath compare"));
    assert!(msgpath(&["--version"]).ends_with(0).out.starts_with("msgpath "));
    let echo = msgpath(&["echo", "-h"]).ends_with(0);
    assert!(echo.out.contains("--path") && !echo.out.contains("--open-metrics"), "{}", echo.out);
    let echo = msgpath(&["echo", "--help"]).ends_with(0);
    assert!(echo.out.contains("--open-metrics") && echo.out.contains("TARGET"), "{}", echo.out);
}

#[test]
fn the_readme_is_one_page() {
    let readme = std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    assert!(readme.lines().count() <= 90, "{} lines", readme.lines().count());
}

#[test]
fn echo_has_at_most_forty_options() {
    let help = msgpath(&["echo", "--help"]).ends_with(0).out;
    let is_option = |line: &&str| line.starts_with('-') && !line.starts_with("- ");
    let options: Vec<&str> = help.lines().map(str::trim_start).filter(is_option).collect();
    assert!((30..=40).contains(&options.len()), "{}: {options:#?}", options.len());
}

#[test]
fn rare_settings_are_listed_with_their_transports() {
    let text = msgpath(&["paths", "-o"]).ends_with(0).out;
    assert!(text.contains("nodelay=yes|no") && text.contains("seed=N"), "{text}");
    let sndbuf = text.split("sndbuf=SIZE").nth(1).and_then(|rest| rest.split("rcvbuf=SIZE").next()).unwrap_or_default();
    assert!(sndbuf.contains("unix") && sndbuf.contains("pipe") && !sndbuf.contains("shm"), "{sndbuf}");
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = msgpath(&["completions", shell]).ends_with(0).out.replace("\\:", ":"); // zsh escapes colons
        assert!(text.contains("compare") && text.contains("tcp:send"), "{shell}");
        assert!(!text.contains("__agent"), "{shell}: a hidden verb");
    }
    let names = msgpath(&["__complete", "paths"]).ends_with(0).out;
    assert!(names.lines().any(|name| name == "tcp:send") && names.lines().any(|name| name == "all"), "{names}");
    assert_eq!(msgpath(&["__complete", "runs"]).ends_with(0).out, "");
}

/// What bash offers for a line that ends at the cursor; `None`: there is no bash.
fn bash_offers(home: &Home, line: &str) -> Option<Vec<String>> {
    let script = home.path().join("msgpath.bash");
    std::fs::write(&script, home.msgpath(&["completions", "bash"]).out).unwrap();
    let ask = r#"source "$1"; COMP_LINE="$2"; COMP_POINT=${#2}; _msgpath_names "$3"; printf '%s\n' "${COMPREPLY[@]}""#;
    let bash = std::process::Command::new("bash")
        .args(["-c", ask, "bash"])
        .arg(&script)
        .args([line, env!("CARGO_BIN_EXE_msgpath")])
        .env("XDG_DATA_HOME", home.path())
        .output();
    let output = bash.inspect_err(|error| eprintln!("skipped: no bash ({error})")).ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).split_whitespace().map(Into::into).collect())
}

#[test]
fn bash_completes_paths_behind_colons_and_commas() {
    let home = Home::new();
    let Some(offers) = bash_offers(&home, "msgpath echo -x tcp:zeroc") else { return };
    assert!(offers.contains(&"zerocopy".into()), "{offers:?}");
    let offers = bash_offers(&home, "msgpath compare -x tcp:send,unix:sen").unwrap();
    assert!(offers.contains(&"send".into()), "{offers:?}");
    assert_eq!(bash_offers(&home, "msgpath show ").unwrap(), Vec::<String>::new());
}

#[test]
fn the_manual_has_a_page_per_verb_and_one_for_paths() {
    let home = Home::new();
    home.msgpath(&["man", "pages"]).ends_with(0);
    let pages = home.path().join("pages");
    for name in ["msgpath.1", "msgpath-echo.1", "msgpath-compare.1", "msgpath-paths.1", "msgpath-paths.7"] {
        let text = std::fs::read_to_string(pages.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(text.contains(".SH NAME") || text.contains(".SH \"NAME\""), "{name}");
    }
    let paths = std::fs::read_to_string(pages.join("msgpath-paths.7")).unwrap();
    assert!(paths.contains(".B zerocopy") && paths.contains(".B shm") && paths.contains(".B epoll"), "{paths}");
    home.msgpath(&["man"]).ends_with(2).says(&["msgpath man DIR"]);
}

#[test]
fn paths_that_do_not_work_have_a_reason() {
    let value = msgpath(&["paths", "--json"]).ends_with(0).json();
    let paths = value["paths"].as_array().unwrap();
    assert!(paths.iter().any(|path| path["path"] == "tcp:send" && path["available"] == true), "{value}");
    for path in paths.iter().filter(|path| path["available"] == false) {
        assert!(path["why"].as_str().is_some_and(|why| !why.is_empty()), "{path}");
    }
    msgpath(&["paths"]).ends_with(0).shows(&["send methods", "receive modes", "shm"]);
    msgpath(&["paths", "-v"]).ends_with(0).shows(&["tcp:send"]);
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let home = Home::new();
    let mut command = home.command(&["completions", "bash"]);
    // The read end is closed before the program writes.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stdout(writer);
    let status = command.status().unwrap();
    assert_eq!(status.code(), Some(0));
}
