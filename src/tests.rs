//! The command line with every feature that this program was built with.

use msgpath_verbs::command::command;

use super::FEATURES;

#[cfg(all(feature = "watch", feature = "mesh", feature = "courses"))]
mod commands;

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

/// The README says so of every verb that measures; what a preset prints are results of these.
#[test]
fn every_verb_that_measures_takes_limits() {
    msgpath_verbs::begin(FEATURES);
    let measuring = "echo stream compare explain rpc periodic connect loaded mesh watch";
    let command = command();
    let built = command.get_subcommands().filter(|verb| measuring.split(' ').any(|name| name == verb.get_name()));
    for verb in built {
        let takes = verb.get_arguments().any(|argument| argument.get_long() == Some("fail-if"));
        assert!(takes, "{}", verb.get_name());
    }
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

#[test]
#[cfg(feature = "stages")]
fn explain_says_which_stages_it_takes_and_stands_before_diff() {
    let text = rendered(&["msgpath", "explain", "-h"]);
    assert!(text.contains("light]") && !text.contains("default: off"), "{text}");
    let screen = rendered(&["msgpath", "-h"]);
    let line = |verb: &str| screen.lines().position(|line| line.get(13..).is_some_and(|rest| rest.starts_with(verb)));
    assert!(line("explain ").is_some() && line("explain ") < line("diff "), "{screen}");
}
