//! Lists of hosts against ClusterShell's NodeSet (Debian: python3-clustershell, PyPI: ClusterShell), where it is installed.
#![allow(clippy::print_stderr, clippy::print_stdout)]

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use msgpath_core::shuffle::SplitMix64;
use msgpath_mesh::hosts::{fold, parse};

/// One line of names for each list, `error` for what it refuses.
const ORACLE: &str = "
import sys
from ClusterShell.NodeSet import NodeSet
for line in sys.stdin:
    try: print(' '.join(sorted(NodeSet(line.rstrip('\\n')))))
    except Exception: print('error')
";

/// What NodeSet says of each list; `None`: it is not installed.
fn oracle(lists: &[String]) -> Option<Vec<String>> {
    let mut python = Command::new("python3")
        .args(["-c", ORACLE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut input = python.stdin.take().expect("piped");
    let text = lists.join("\n") + "\n";
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()).is_ok());
    let output = python.wait_with_output().ok()?;
    (writer.join().ok()? && output.status.success())
        .then(|| String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

fn ours(list: &str) -> String {
    match parse(list, &mut |_| Err("no files".into())) {
        Ok(names) => names.into_iter().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" "),
        Err(_) => "error".into(),
    }
}

#[test]
fn lists_mean_what_they_mean_to_clustershell() {
    let mut lists: Vec<String> = [
        "n[1-4,7],gpu[001-003]!n3",
        "n[01-10]",
        "n[1-010]",
        "n[0-10/3]",
        "n[1-2]-ib[0-1]",
        "a,b,n1,n01,n001",
        "n[9-11]",
        "n[1-3]&n[2-5]^n2",
        "n[3-1]",
        "n[]",
        "n[1-2,]",
        "n[1-2][3-4]",
        "n[001-1000]",
        "n[08-12]",
        "n[1-2]x",
        "[1-3]",
        "n[1-8]!n[2-3],n2",
        "n[1-3]^n[3-5]",
    ]
    .map(str::to_owned)
    .to_vec();
    let mut random = SplitMix64::new(15);
    let ranges = ["1-4", "7", "2-9", "08-12", "001-003", "0-20/5", "1,3,5-6", "10-12"];
    for _ in 0..200 {
        let mut list = String::new();
        for at in 0..1 + random.below(4) {
            let operator = [",", ",", "!", "&", "^"][random.below(5)];
            let name = ["n", "gpu", "r1-n"][random.below(3)];
            let range = ranges[random.below(ranges.len())];
            list += &format!("{}{name}[{range}]", if at == 0 { "" } else { operator });
        }
        lists.push(list);
    }
    let short: Vec<String> =
        lists.iter().map(|list| fold(ours(list).split(' ').filter(|name| *name != "error"))).collect();
    let (Some(theirs), Some(folded)) = (oracle(&lists), oracle(&short)) else {
        return eprintln!("skipped: no python3 with ClusterShell");
    };
    assert_eq!(theirs.len(), lists.len());
    for (at, (list, theirs)) in lists.iter().zip(&theirs).enumerate() {
        assert_eq!(&ours(list), theirs, "{list}");
        if theirs != "error" {
            assert_eq!(&folded[at], theirs, "{list} is not {}", short[at]);
        }
    }
}
