//! The command line with every feature that this program was built with.

use msgpath_verbs::command::{command, planned};

use super::FEATURES;

fn rendered(arguments: &[&str]) -> String {
    msgpath_verbs::begin(FEATURES);
    command().try_get_matches_from(arguments).unwrap_err().render().to_string()
}

#[test]
fn the_command_is_consistent() {
    msgpath_verbs::begin(FEATURES);
    command().debug_assert();
}

#[test]
fn short_help_fits_one_screen_and_starts_with_examples() {
    let text = rendered(&["msgpath", "-h"]);
    assert!(text.lines().count() <= 24, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let third = text.lines().nth(2).unwrap();
    assert!(third.starts_with("  msgpath echo"), "{text}");
    assert!(rendered(&["msgpath", "--help"]).contains("Exit codes"));
}

#[test]
fn processes_have_names_of_their_own() {
    unique(FEATURES.iter().flat_map(|feature| feature.processes).map(|one| one.name).collect());
}

#[test]
fn roles_of_sessions_have_names_of_their_own() {
    unique(FEATURES.iter().flat_map(|feature| feature.roles).map(|one| one.name).collect());
}

fn unique(mut names: Vec<&str>) {
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "{names:?}");
}

/// The words behind `msgpath` in a line of a shell; `None`: it starts another program.
fn in_a_shell(line: &str) -> Option<Vec<String>> {
    let line = line.trim_start().trim_start_matches("$ ");
    let behind = ["docker ", "sudo ", "XDG_"].iter().any(|other| line.starts_with(other));
    let rest = match line.strip_prefix("msgpath ") {
        Some(rest) => rest,
        None => line.split_once(" msgpath ").filter(|_| behind)?.1,
    };
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for letter in rest.chars().chain([' ']) {
        match letter {
            '\'' => quoted = !quoted,
            '#' | '>' | '|' | '&' | ';' if !quoted && word.is_empty() => break,
            ' ' if !quoted && word.is_empty() => {}
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            letter => word.push(letter),
        }
    }
    Some(words)
}

#[test]
#[cfg(all(feature = "watch", feature = "mesh"))]
fn every_command_that_the_book_tells_to_type_parses() {
    msgpath_verbs::begin(FEATURES);
    assert_eq!(in_a_shell("$ msgpath diff a b --fail-if 'p99 > +5%'  # c").unwrap().len(), 5);
    assert!(in_a_shell("cargo run -- msgpath echo").is_none() && in_a_shell("sudo msgpath echo").is_some());
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for page in ["README.md", "docs/tutorial.md", "docs/how-to/two-machines.md", "docs/how-to/ci.md"]
        .into_iter()
        .chain(["docs/how-to/containers.md", "docs/how-to/other-hosts.md", "docs/parquet.md"])
    {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        let mut fenced = false;
        for (at, line) in text.lines().enumerate() {
            fenced ^= line.starts_with("```");
            let Some(words) = in_a_shell(line).filter(|_| fenced || line.starts_with("    ")) else { continue };
            if words == ["--version"] {
                continue;
            }
            count += 1;
            if let Err(problem) = planned(&words) {
                panic!("{page}:{}: {words:?}: {problem}", at + 1);
            }
        }
    }
    assert!(count > 30, "only {count} commands were found: they are looked for in the wrong way");
}

#[test]
#[cfg(feature = "stages")]
fn explain_says_which_stages_it_takes_and_stands_before_diff() {
    let text = rendered(&["msgpath", "explain", "-h"]);
    assert!(text.contains("light]") && !text.contains("default: off"), "{text}");
    let screen = rendered(&["msgpath", "-h"]);
    let line = |verb: &str| screen.lines().position(|line| line.get(13..).is_some_and(|rest| rest.starts_with(verb)));
    assert!(line("explain ").is_some() && line("explain ") < line("diff "), "{screen}");
}
