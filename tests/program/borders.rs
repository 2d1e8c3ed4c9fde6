//! The borders inside the house: which crate may see which, where `unsafe` may stand, and that every computed sentence
//! has its page.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What each crate may see. The binary may see all of them.
const ALLOWED: [(&str, &[&str]); 12] = [
    ("msgpath-core", &[]),
    ("msgpath-rpc", &["msgpath-core"]),
    ("msgpath-sys", &["msgpath-core"]),
    ("msgpath-paths", &["msgpath-core", "msgpath-sys"]),
    ("msgpath-agent", &["msgpath-core", "msgpath-sys", "msgpath-paths"]),
    (
        "msgpath-run",
        &[
            "msgpath-core",
            "msgpath-rpc",
            "msgpath-sys",
            "msgpath-paths",
            "msgpath-agent",
            "msgpath-record",
            "msgpath-stats",
        ],
    ),
    ("msgpath-record", &["msgpath-core", "msgpath-sys"]),
    ("msgpath-stats", &["msgpath-core"]),
    ("msgpath-tls", &[]),
    ("msgpath-analyse", &["msgpath-core", "msgpath-record", "msgpath-stats"]),
    ("msgpath-present", &["msgpath-core", "msgpath-record", "msgpath-stats", "msgpath-analyse"]),
    (
        "msgpath-verbs",
        &[
            "msgpath-core",
            "msgpath-sys",
            "msgpath-paths",
            "msgpath-agent",
            "msgpath-run",
            "msgpath-record",
            "msgpath-stats",
            "msgpath-analyse",
            "msgpath-present",
        ],
    ),
];

/// Features that see another one, for which they have questions.
const SEE_EACH_OTHER: [(&str, &str); 7] = [
    ("msgpath-courses", "msgpath-calls"),
    ("msgpath-courses", "msgpath-fan"),
    ("msgpath-courses", "msgpath-loaded"),
    ("msgpath-courses", "msgpath-namespaces"),
    ("msgpath-courses", "msgpath-periodic"),
    ("msgpath-courses", "msgpath-stages"),
    ("msgpath-courses", "msgpath-tools"),
];

/// What is on top of the base, each a folder of `features/`: it sees the base, and no other feature but those above.
fn features() -> BTreeSet<String> {
    let folders = std::fs::read_dir(root().join("features")).unwrap();
    folders.map(|folder| format!("msgpath-{}", folder.unwrap().file_name().to_str().unwrap())).collect()
}

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
    let base: BTreeSet<String> = ALLOWED.iter().map(|(name, _)| name.to_string()).collect();
    let known = base.iter().cloned().chain(features()).chain(["msgpath".to_string()]).collect();
    assert_eq!(members, known, "a new crate of the base needs its line in ALLOWED");
    for feature in features() {
        let package = packages.iter().find(|package| name(package) == feature).unwrap();
        for dependency in package["dependencies"].as_array().unwrap().iter().map(name) {
            let fine = !members.contains(&dependency)
                || base.contains(&dependency)
                || SEE_EACH_OTHER.contains(&(&*feature, &*dependency));
            assert!(fine, "{feature} must not see {dependency}");
        }
    }
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

/// Files that name parts of paths, and why they may. Whoever else must know something of a path asks its traits.
const NAMES: [(&str, &str); 25] = [
    ("crates/paths/", "parts name themselves"),
    ("features/layers/", "layers name themselves, and what they stand on"),
    ("crates/rpc/", "methods of the RPC lab"),
    ("crates/run/src/reach.rs", "what doctor tries between two hosts"),
    ("features/calls/", "methods of the RPC lab"),
    ("features/periodic/", "programs of courses"),
    ("features/connect/", "the paths that connect(2) makes"),
    ("features/loaded/", "what its load is made of"),
    ("features/fan/", "transports whose servers take several clients"),
    ("features/tools/", "what tools can do"),
    ("features/courses/", "programs of courses, names of options"),
    ("crates/present/src/terminal/stream.rs", "numbers of a course's write shapes"),
    ("features/stages/src/analyse/calls.rs", "names of system calls"),
    ("crates/sys/src/watch/calls.rs", "names of system calls"),
    ("crates/sys/src/ethtool.rs", "names of offloads"),
    ("crates/agent/src/observe/perf.rs", "names of tracepoints"),
    ("crates/analyse/src/findings/spinning_in_a_crowd.rs", "a verb of its sentence"),
    ("crates/analyse/src/reasons.rs", "a field of the JSON"),
    ("crates/core/src/path.rs", "the wait that is not written"),
    ("crates/core/src/plan.rs", "names of ablations"),
    ("crates/core/src/target.rs", "schemes of targets"),
    ("crates/verbs/src/cli/doctor.rs", "which path is tried first"),
    ("features/mesh/src/request.rs", "the path that is meant where none is named"),
    ("crates/verbs/src/request/mod.rs", "paths that are meant where none is named"),
    ("crates/verbs/src/request/layers.rs", "the layers of --layers"),
];

/// What stands above a module for tests: of its own crate, or of others as well.
const FOR_TESTS: [&str; 2] = ["#[cfg(test)]\n", "#[cfg(any(test, feature = \"testing\"))]\n"];

/// What stands before the first module for tests of a source.
pub(crate) fn without_tests(text: &str) -> &str {
    let tests = FOR_TESTS.iter().flat_map(|mark| text.match_indices(mark)).filter(|(at, mark)| {
        text[at + mark.len()..].lines().next().is_some_and(|line| line.contains("mod ") && line.ends_with('{'))
    });
    tests.map(|(at, _)| at).min().map_or(text, |at| &text[..at])
}

/// Whether a line of code has the name of a part, alone or at the beginning of a path.
fn names_a_part(line: &str, names: &BTreeSet<String>) -> bool {
    let code = if line.trim_start().starts_with("//") { "" } else { line };
    code.split('"').skip(1).step_by(2).any(|text| {
        let first = text.split(':').next().unwrap_or_default();
        let path = first.len() < text.len()
            && text[first.len() + 1..].split('/').next().is_some_and(|rest| names.contains(rest));
        names.contains(text) || (path && names.contains(first))
    })
}

#[test]
fn names_of_parts_stand_in_their_files() {
    let entries = msgpath_paths::all();
    let parts = entries.iter().flat_map(|entry| [&entry.name.transport, &entry.name.method, &entry.name.wait]);
    let names: BTreeSet<String> = parts.cloned().collect();
    assert!(names_a_part("if path.wait == \"spin\" {", &names) && !names_a_part("say(\"spins\")", &names));
    let mut sources = Vec::new();
    ["crates", "features", "src"].iter().for_each(|folder| files(&root().join(folder), ".rs", &mut sources));
    let mut seen = BTreeSet::new();
    for file in &sources {
        let shown = file.strip_prefix(root()).unwrap().display().to_string();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let for_tests = ["/tests/", "/benches/", "/examples/", "/fixture"].iter().any(|part| shown.contains(part))
            || name.starts_with("test")
            || ["fixture.rs", "golden.rs"].contains(&name.as_str());
        if for_tests || shown.contains("/testing") {
            continue;
        }
        let text = std::fs::read_to_string(file).unwrap();
        let Some(line) = without_tests(&text).lines().position(|line| names_a_part(line, &names)) else { continue };
        let allowed = NAMES.iter().find(|(place, _)| shown.starts_with(place));
        assert!(allowed.is_some(), "{shown}, line {}: a part of a path is named; ask its traits", line + 1);
        seen.extend(allowed.copied());
    }
    for (place, why) in NAMES {
        assert!(seen.contains(&(place, why)), "{place} names no part any more ({why}): it needs no line in NAMES");
    }
}

/// Most packages that the program is built from, its own among them, and most instances of the loop in which both sending and
/// waiting are measured. More of either is paid for in every build: it wants a reason, and a new number here. One for each send
/// method of a family, and for each bell of shared memory, where nothing enters the kernel; 153 when every wait had its own. Two are
/// the families that receive from a device out of shared memory, with one method each. The last package that was added reads replies of
/// Redis: protocols are read by the parsers that others use.
const MOST: (usize, usize) = (133, 39);

#[test]
fn what_is_built_is_bounded() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"])
        .args(["--target", "x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let message = String::from_utf8(output.stdout).unwrap();
    // `name v1.2.3`, with the folder of one's own, and (*) where it stood before.
    let packages: BTreeSet<Vec<&str>> = message.lines().map(|line| line.split(' ').take(2).collect()).collect();
    let pairs: usize =
        msgpath_paths::registry::FAMILIES.iter().map(msgpath_paths::registry::FamilyParts::instances).sum();
    println!("{} packages, {pairs} instances", packages.len());
    assert!(packages.len() > 50 && pairs > 20, "they were not found");
    assert!(
        !packages.iter().any(|package| package[0] == "msgpath-layers"),
        "a feature is on that is not for everybody"
    );
    assert!(packages.len() <= MOST.0, "{} packages: {packages:?}", packages.len());
    assert!(pairs <= MOST.1, "{pairs} instances of a loop");
}

/// Ways to make a text harmless of one's own.
const ESCAPES: [&str; 5] = [".escape_ascii(", ".escape_debug(", ".escape_default(", ".escape_unicode(", "is_control("];

/// Files that may have one, and why. Whoever else shows a foreign text has `core::foreign` for it.
const OWN_ESCAPES: [(&str, &str); 6] = [
    ("crates/core/src/foreign.rs", "the one for all"),
    ("crates/core/src/launch.rs", "refuses, and shows nothing"),
    ("crates/core/src/target.rs", "refuses, and shows nothing"),
    ("features/calls/src/run/client/target.rs", "refuses, and shows nothing"),
    ("fuzz/fuzz_targets/proc_texts.rs", "asks whether a name has one"),
    ("tests/program/borders.rs", "this list"),
];

#[test]
fn foreign_texts_are_made_harmless_in_one_place() {
    let mut sources = Vec::new();
    files(root(), ".rs", &mut sources);
    let mut seen = BTreeSet::new();
    for file in &sources {
        let shown = file.strip_prefix(root()).unwrap().display().to_string();
        let text = std::fs::read_to_string(file).unwrap();
        let tests = FOR_TESTS.iter().filter_map(|mark| text.find(&format!("{mark}mod tests {{"))).min();
        let code = &text[..tests.unwrap_or(text.len())];
        let Some(line) = code.lines().position(|line| ESCAPES.iter().any(|escape| line.contains(escape))) else {
            continue;
        };
        let allowed = OWN_ESCAPES.iter().find(|(place, _)| *place == shown);
        assert!(allowed.is_some(), "{shown}, line {}: msgpath_core::foreign escapes foreign texts", line + 1);
        seen.extend(allowed.copied());
    }
    for (place, why) in OWN_ESCAPES {
        assert!(seen.contains(&(place, why)), "{place} has no such function any more ({why}): it needs no line here");
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

/// Words that belong to a feature, and no word of a message besides.
const WORDS: [(&str, &[&str]); 5] = [
    ("calls", &["rpc", "rpcs"]),
    ("periodic", &["periodic"]),
    ("stages", &["attribution"]),
    ("mesh", &["mesh"]),
    ("courses", &["preset", "presets", "compat"]),
];

/// Where the base has such a word all the same. To become fewer.
const STILL_NAMED: [(&str, &str); 1] = [("crates/present/src/json", "pages of presets")];

/// Words of code without comments and without its tests: `RpcRow` is `rpc` and `row`.
fn words_of(code: &str) -> impl Iterator<Item = String> + '_ {
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).flat_map(|line| {
        let mut words = vec![String::new()];
        let mut lower = false;
        for letter in line.chars() {
            if !letter.is_ascii_alphabetic() || (lower && letter.is_ascii_uppercase()) {
                words.push(String::new());
            }
            if letter.is_ascii_alphabetic() {
                words.last_mut().expect("there is one").push(letter.to_ascii_lowercase());
            }
            lower = letter.is_ascii_lowercase();
        }
        words
    })
}

#[test]
fn no_file_of_the_base_names_a_feature() {
    let mut files_of_base = Vec::new();
    files(&root().join("crates"), ".rs", &mut files_of_base);
    let mut used = BTreeSet::new();
    for file in files_of_base {
        let shown = file.strip_prefix(root()).unwrap().display().to_string();
        let is_test =
            ["tests.rs", "testing.rs", "test_run.rs", "golden.rs", "fixture.rs"].iter().any(|end| shown.ends_with(end));
        // The formats of the lab are a small crate below two features; kernel calls have words of their own.
        if is_test
            || ["crates/rpc/", "crates/sys/"].iter().any(|own| shown.starts_with(own))
            || shown.contains("/tests/")
        {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let text = without_tests(&text);
        let words: BTreeSet<String> = words_of(text).collect();
        for (feature, own) in WORDS {
            let Some(word) = own.iter().find(|word| words.contains(**word)) else { continue };
            let still = STILL_NAMED.iter().find(|(place, _)| shown.starts_with(place));
            let (place, _) = still.unwrap_or_else(|| panic!("{shown} names {feature} ({word})"));
            used.insert(*place);
        }
    }
    let all: BTreeSet<&str> = STILL_NAMED.iter().map(|(place, _)| *place).collect();
    assert_eq!(used, all, "left: places that still name a feature, right: those in STILL_NAMED");
}
