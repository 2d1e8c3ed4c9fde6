//! The borders inside the house: which crate may see which, where `unsafe` may stand, and that every computed sentence
//! has its page.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What each crate may see. The binary may see all of them.
const ALLOWED: [(&str, &[&str]); 8] = [
    ("msgpath-core", &[]),
    ("msgpath-rpc", &["msgpath-core"]),
    ("msgpath-sys", &["msgpath-core"]),
    ("msgpath-paths", &["msgpath-core", "msgpath-sys"]),
    ("msgpath-run", &["msgpath-core", "msgpath-rpc", "msgpath-sys", "msgpath-paths", "msgpath-record"]),
    ("msgpath-record", &["msgpath-core", "msgpath-rpc", "msgpath-sys"]),
    ("msgpath-analyse", &["msgpath-core", "msgpath-rpc", "msgpath-record"]),
    ("msgpath-present", &["msgpath-core", "msgpath-rpc", "msgpath-record", "msgpath-analyse"]),
];

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn crates_see_only_what_they_may() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let name = |value: &serde_json::Value| value["name"].as_str().unwrap().to_string();
    let members: BTreeSet<String> = packages.iter().map(name).collect();
    let known = ALLOWED.iter().map(|(name, _)| name.to_string()).chain(["msgpath".to_string()]).collect();
    assert_eq!(members, known, "a new crate needs its line in ALLOWED");
    for (own, allowed) in ALLOWED {
        let package = packages.iter().find(|package| name(package) == own).unwrap();
        // Dependencies of tests and build scripts count as well.
        for dependency in package["dependencies"].as_array().unwrap().iter().map(name) {
            let fine = !members.contains(&dependency) || allowed.contains(&dependency.as_str());
            assert!(fine, "{own} must not see {dependency}");
        }
    }
}

/// Every file below `folder` with this ending, what was built aside.
pub(crate) fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            files(&path, ending, found);
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
}

/// Whether a line of code opens something that the compiler does not check. Comments, and names that only begin with
/// the word, do not count.
fn is_unchecked(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let mut after = code.match_indices("unsafe").map(|(at, word)| code[at + word.len()..].trim_start());
    after.any(|rest| ["{", "fn ", "impl", "extern", "trait", "("].iter().any(|start| rest.starts_with(start)))
}

#[test]
fn only_sys_is_unchecked() {
    assert!(is_unchecked(&format!("let x = {} {{ f() }};", "unsafe")) && !is_unchecked("#![forbid(unsafe_code)]"));
    let mut sources = Vec::new();
    files(root(), ".rs", &mut sources);
    let sys = root().join("crates/sys/src");
    assert!(sources.iter().any(|file| file.starts_with(&sys)), "no source was found");
    for file in &sources {
        let text = std::fs::read_to_string(file).unwrap();
        let shown = file.strip_prefix(root()).unwrap().display();
        if !file.starts_with(&sys) {
            let line = text.lines().position(is_unchecked).map(|line| line + 1);
            assert_eq!(line, None, "{shown} has unchecked code, which belongs into crates/sys");
        }
        let is_root = ["src/lib.rs", "src/main.rs"].iter().any(|end| file.ends_with(end));
        if is_root && !file.starts_with(&sys) {
            assert!(text.contains("#![forbid(unsafe_code)]"), "{shown} lacks #![forbid(unsafe_code)]");
        }
    }
}

#[test]
fn every_computed_sentence_has_its_page() {
    let folder = root().join("docs/findings");
    let codes: BTreeSet<String> =
        msgpath_analyse::findings::DETECTORS.iter().map(|detector| detector.code.to_string()).collect();
    let mut pages = Vec::new();
    files(&folder, ".md", &mut pages);
    let pages: BTreeSet<String> =
        pages.iter().map(|page| page.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    let mut expected = codes.clone();
    expected.insert("README".into());
    assert_eq!(pages, expected, "left: pages in docs/findings, right: codes of the detectors");
    let index = std::fs::read_to_string(folder.join("README.md")).unwrap();
    for code in &codes {
        let page = std::fs::read_to_string(folder.join(format!("{code}.md"))).unwrap();
        assert!(page.starts_with(&format!("# {code}: ")), "{code}.md has another heading");
        assert!(index.contains(&format!("({code}.md)")), "docs/findings/README.md does not list {code}");
        for part in ["## What it says", "## What it is computed from", "## When it stays silent", "## What to do"] {
            assert!(page.contains(part), "{code}.md lacks {part:?}");
        }
    }
}
