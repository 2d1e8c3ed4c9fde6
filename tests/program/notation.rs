//! One notation for an interval, a factor, a rate and a minus sign ([numbers](../../docs/glossary.md)).

use std::path::{Path, PathBuf};

use crate::borders::files;

/// What no text of the program is made of, and what is written instead.
const FORBIDDEN: [(&str, &str); 14] = [
    ("} – {", "units::range: `23.8 to 24.1 µs`"),
    ("}..{} ", "units::range: `23.8 to 24.1 µs`"),
    ("(95 %: {} to", "words::interval: `95 %: 23.8 to 24.1 µs`"),
    ("95 % over", "words::interval: `95 %: 1.20 to 1.30`"),
    ("times as fast", "`times faster`"),
    ("times as short", "`times faster`"),
    ("times cheaper", "words::compared: `times less`"),
    ("times shorter", "`times faster`"),
    ("(\"×{", "`5.68 times`, or words::change"),
    ("{:+", "units::signed"),
    ("'−' }", "units::signed"),
    ("messages/s", "units::per_second: `40.8 k/s`"),
    ("} msg/s", "units::per_second: `40.8 k/s`"),
    ("} a second ", "units::per_second: `40.8 k/s`"),
];

/// Files with the functions themselves, and those whose text is no text for people.
const OWN: [&str; 4] = [
    "crates/core/src/units.rs",
    "crates/core/src/gate.rs",
    "features/watch/src/run/framing/chosen.rs",
    "crates/agent/benches/trace.rs",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Lines that are no comments, and the number of each.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Whether a line of output has a number, ` – ` and a number, or `×` before a number.
fn has_other_range(line: &str) -> bool {
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let dash = line.match_indices(" – ").any(|(at, dash)| {
        digit(line[at + dash.len()..].chars().next())
            && line[..at].chars().next_back().is_some_and(char::is_alphanumeric)
    });
    // `×8` counts threads, `×1.20` is a factor.
    let is_factor = |text: &str| {
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        rest.len() < text.len() && rest.starts_with('.') && digit(rest[1..].chars().next())
    };
    dash || line.match_indices('×').any(|(at, times)| is_factor(&line[at + times.len()..]))
}

#[test]
fn numbers_have_one_notation_in_the_sources() {
    let mut sources: Vec<PathBuf> = Vec::new();
    ["crates", "features", "src"].iter().for_each(|folder| files(&root().join(folder), ".rs", &mut sources));
    assert!(sources.len() > 100, "{} sources", sources.len());
    let mut found = Vec::new();
    for file in &sources {
        let shown = file.strip_prefix(root()).unwrap().display().to_string();
        if OWN.contains(&shown.as_str()) {
            continue;
        }
        let text = std::fs::read_to_string(file).unwrap();
        for (number, line) in code(&text) {
            let other = FORBIDDEN.iter().filter(|(part, _)| line.contains(part));
            found.extend(other.map(|(part, instead)| format!("{shown}:{}: {part:?}, write {instead}", number + 1)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn numbers_have_one_notation_on_the_screens() {
    assert!(has_other_range("p50 23.8 – 24.1 µs") && has_other_range("×12.3") && !has_other_range("a – b, tcp ×"));
    let mut screens: Vec<PathBuf> = Vec::new();
    ["crates", "features"].iter().for_each(|folder| files(&root().join(folder), ".snap", &mut screens));
    assert!(screens.len() > 20, "{} screens", screens.len());
    for file in &screens {
        let text = std::fs::read_to_string(file).unwrap();
        for (number, line) in text.lines().enumerate() {
            let wrong = has_other_range(line) || line.contains("messages/s") || line.contains("times as fast");
            assert!(!wrong, "{}:{}: {line}", file.display(), number + 1);
        }
    }
}
