//! `traits.json` is what every path declares of itself: tests of other crates, which do not see the registry, take it from
//! there. `INSTA_UPDATE=always cargo test -p msgpath-paths --test traits` writes it anew.

use std::fmt::Write;
use std::path::Path;

use msgpath_core::traits::Stack;
use msgpath_paths::registry::traits;

/// One line a path.
fn declared() -> String {
    let mut text = String::from("{\n");
    for entry in msgpath_paths::all() {
        let traits = serde_json::to_string(&traits(&entry.name)).unwrap();
        writeln!(text, "{:?}: {traits},", entry.name.to_string()).unwrap();
    }
    text.truncate(text.len() - 2);
    text + "\n}\n"
}

#[test]
fn what_paths_declare_is_what_is_written_down() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traits.json");
    if std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always") {
        std::fs::write(&file, declared()).unwrap();
    }
    assert!(
        std::fs::read_to_string(&file).unwrap_or_default() == declared(),
        "tests/traits.json is not what paths declare"
    );
}

#[test]
fn parts_declare_what_is_true_of_a_path() {
    let of = |path: &str| traits(&path.parse().unwrap());
    let tcp = of("tcp:writes/sigio");
    assert!(tcp.segments && tcp.connects && tcp.inet && tcp.apart && tcp.signals && !tcp.lossy && !tcp.framed);
    assert_eq!((tcp.joined_method.as_str(), tcp.spinning_wait.as_str()), ("writev", "spin"));
    let eth = of("eth:send/spin");
    assert!(eth.device && eth.lossy && eth.framed && eth.spins && eth.spinning_wait.is_empty());
    assert_eq!(
        (eth.stack, of("shm:ring").stack, of("unixgram:send").stack),
        (Stack::Frames, Stack::Memory, Stack::Local)
    );
    let polls = of("tcp:send/busy-poll");
    assert!(polls.never_sleeps() && !polls.spins && polls.spinning_wait == "spin", "{polls:?}");
    let splice = of("tcp:splice");
    assert!(splice.untouched && !splice.lends && splice.spinning_wait.is_empty(), "{splice:?}");
    assert!(of("tcp:sendfile").lends && of("pipe:vmsplice").lends && of("procvm:fetch").lends);
    assert_eq!((of("procvm:fetch").spinning_wait.as_str(), of("sysvmsg:send").stack), ("spin", Stack::Plain));
    assert_eq!(of("no:such"), msgpath_core::Traits::default());
}
