//! The help screen: three examples, then the verbs that work, on one screen.

use std::fmt::Write;

use crate::verb::{self, Group};

/// Operands of a verb take so many characters on the screen.
const OPERANDS: usize = 17;

const TITLE: &str = "msgpath: how long does a message take, and where does the time go?";

const EXAMPLES: [(&str, &str); 3] = [
    ("msgpath echo", "this machine, right now"),
    ("msgpath echo HOST --launch ssh", "to another machine"),
    ("msgpath compare -x tcp,unix,shm", "which path is fastest here"),
];

/// What `--help` adds to `-h`, and the manual to its synopsis.
pub(crate) const MORE: &str = "\
A path says how: transport:send-method, with /wait where it is not the default (tcp:writev/epoll). A bare word may name a \
transport (pipe) or a send method (writev). `msgpath paths` lists all of them and says which work here, and why others do not.

A target says where: HOST[:PORT], tcp://HOST, udp://HOST, unix:/path, unixgram:/path, unixseq:/path, shm:NAME, pipe:NAME, \
fifo:NAME, mq:NAME. Without one, the far end is started on this machine, on another CPU. It can be a program of yours: --server \
'./server {port}', or raw://HOST:PORT for one that runs (echo, compare).

A run is a name (brisk-otter), the folder of a recording, @last (the newest) or @-2 (the one before). Runs are kept under \
$XDG_DATA_HOME/msgpath, by default ~/.local/share/msgpath.

Numbers: K M G are 1024 for sizes and 1000 for counts and rates. Times need a unit, except -t and -w, where a bare number \
means seconds.

Exit codes
  0    measured; the result is valid (warnings allowed)
  1    a check that you asked for failed (--fail-if, verify)
  2    bad command line
  3    could not start: no peer, no permission, not supported here, or runs
       that cannot be compared
  4    started, did not finish: peer vanished, wrong payload, disk full,
       a path that was named was not measured; what exists is kept
  5    --strict, and the result is not what it claims to be
  130  interrupted; what exists is kept

Set up once: `msgpath completions SHELL` prints the completions of a shell, `msgpath man DIR` writes the manual pages, \
`msgpath schema` prints the JSON Schema of what --json prints.

Environment: NO_COLOR, CLICOLOR_FORCE, FORCE_COLOR, TERM (colour), COLUMNS (width), XDG_DATA_HOME, \
MSGPATH_TOKEN_FILE (--token-file of a near end).";

/// `-h` of the verbs with many options shows the few that most need, with examples; `--help` and the manual show all.
pub(crate) fn shorten(mut command: clap::Command) -> clap::Command {
    for (verb, (shown, examples)) in verb::all().filter_map(|verb| Some((verb.name, verb.short?))) {
        command = command.mut_subcommand(verb, |verb| {
            let verb = verb.mut_args(|arg| {
                let long = arg.get_long().map(str::to_owned);
                let short = long.is_none_or(|long| {
                    shown.split(' ').any(|option| option == long) || long == "warnings" || long == "help"
                });
                arg.hide_short_help(!short)
            });
            if examples.is_empty() { verb } else { verb.after_help(examples) }
        });
    }
    command
}

/// The short help of the whole command; purposes and operands come from the verbs themselves.
pub(crate) fn screen(command: &clap::Command) -> String {
    let mut out = format!("{TITLE}\n\n");
    for (example, purpose) in EXAMPLES {
        let _ = writeln!(out, "  {example:<51} {purpose}");
    }
    out.push('\n');
    for group in Group::SHOWN {
        let verbs: Vec<_> = verb::all().filter(|verb| verb.group == group).collect();
        let mut lines: Vec<(String, String)> = Vec::new();
        for verb in verbs {
            let command = command.find_subcommand(verb.name).expect("a verb of the command");
            match (verb.beside, lines.last_mut()) {
                (Some(purpose), Some((before, together))) => {
                    let plain = |usage: &str| {
                        let words: Vec<&str> = usage.split_whitespace().collect();
                        words.join(" ").replace(['[', ']', '.'], "")
                    };
                    (*before, *together) =
                        (format!("{}, {}", plain(before), plain(&usage(command))), purpose.to_owned());
                }
                _ => {
                    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
                    lines.push((usage(command), lower_first(&about)));
                }
            }
        }
        for (at, (usage, purpose)) in lines.iter().enumerate() {
            let head = if at == 0 { group.word() } else { "" };
            let _ = writeln!(out, "{head:<12} {usage:<26} {purpose}");
        }
    }
    out.push_str("\nmsgpath VERB -h explains one verb.   msgpath --help says more.");
    out
}

/// The verb and its operands.
fn usage(verb: &clap::Command) -> String {
    let operands: Vec<String> = verb.get_positionals().map(operand).collect();
    let all = operands.join(" ");
    // What does not fit is said by the verb's own help.
    let fitting = if all.len() > OPERANDS { format!("{} ...", operands[0]) } else { all };
    match operands.is_empty() {
        true => verb.get_name().to_owned(),
        false => format!("{:<8} {fitting}", verb.get_name()),
    }
}

fn lower_first(text: &str) -> String {
    // An abbreviation stays one.
    if text.chars().nth(1).is_some_and(char::is_uppercase) {
        return text.to_owned();
    }
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

fn operand(arg: &clap::Arg) -> String {
    let name = arg
        .get_value_names()
        .and_then(|names| names.first())
        .map_or_else(|| arg.get_id().to_string(), ToString::to_string);
    let dots = if arg.get_num_args().is_some_and(|count| count.max_values() > 1) { "..." } else { "" };
    if arg.is_required_set() { format!("{name}{dots}") } else { format!("[{name}{dots}]") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> clap::Command {
        crate::begin(&[]);
        crate::command::command()
    }

    fn rendered(arguments: &[&str]) -> String {
        command().try_get_matches_from(arguments).unwrap_err().render().to_string()
    }

    #[test]
    fn what_stands_below_the_options_is_broken_by_the_terminal_alone() {
        for verb in command().get_subcommands() {
            let Some(text) = verb.get_after_help().map(ToString::to_string) else { continue };
            let prose = |line: &str| !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
            for pair in text.lines().collect::<Vec<_>>().windows(2) {
                assert!(!(prose(pair[0]) && prose(pair[1])), "{}: broken by hand after: {}", verb.get_name(), pair[0]);
            }
        }
    }

    #[test]
    fn examples_are_lines_of_at_most_80_columns() {
        for verb in command().get_subcommands() {
            let Some(text) = verb.get_after_help().map(ToString::to_string) else { continue };
            for line in
                text.lines().filter(|line| line.trim_start().trim_start_matches("sudo ").starts_with("msgpath "))
            {
                assert!(line.chars().count() <= 80, "{}: {line}", verb.get_name());
            }
        }
    }

    #[test]
    fn every_verb_is_named_once() {
        let command = command();
        let screen = screen(&command);
        for verb in verb::all() {
            let lines = screen.lines().skip(EXAMPLES.len() + 2);
            let words = lines.flat_map(|line| line.split([' ', ',']).map(str::to_owned).collect::<Vec<_>>());
            let named = words.filter(|word| word == verb.name).count();
            let known = command.find_subcommand(verb.name).unwrap();
            match verb.group {
                Group::Hidden => assert!(known.is_hide_set() && named == 0, "{}", verb.name),
                Group::Once => assert!(MORE.contains(verb.name), "{}", verb.name),
                _ => assert!(named >= 1 && known.get_about().is_some(), "{}: {screen}", verb.name),
            }
        }
    }

    #[test]
    fn the_short_help_of_a_verb_is_short() {
        let command = command();
        for (verb, (shown, _)) in verb::all().filter_map(|verb| Some((verb.name, verb.short?))) {
            let known: Vec<&str> =
                command.find_subcommand(verb).unwrap().get_arguments().filter_map(clap::Arg::get_long).collect();
            assert!(
                shown.split(' ').all(|option| known.contains(&option) || option == crate::places::OPTION),
                "{verb}: {shown:?} of {known:?}"
            );
            let (short, long) = (rendered(&["msgpath", verb, "-h"]), rendered(&["msgpath", verb, "--help"]));
            let options = |text: &str| text.lines().filter(|line| line.trim_start().starts_with('-')).count();
            assert!(options(&short) <= 14 && options(&long) > options(&short), "{short}");
            let is_example = |line: &&str| line.trim_start().trim_start_matches("sudo ").starts_with("msgpath ");
            assert!(short.contains("Examples:") && short.lines().filter(is_example).count() >= 3, "{short}");
            assert!(short.contains("--help"), "where the rest is: {short}");
        }
    }

    #[test]
    fn echo_has_at_most_forty_options() {
        let help = rendered(&["msgpath", "echo", "--help"]);
        let options: Vec<&str> =
            help.lines().map(str::trim_start).filter(|line| line.starts_with('-') && !line.starts_with("- ")).collect();
        assert!(options.len() <= 40 && options.len() > 20, "{}: {options:#?}", options.len());
        let takes = |verb: &str, long: &str| {
            let command = command();
            command.find_subcommand(verb).unwrap().get_arguments().any(|arg| arg.get_long() == Some(long))
        };
        for (verb, option) in [("stream", "rate"), ("stream", "reply"), ("echo", "metric"), ("echo", "reverse")] {
            assert!(!takes(verb, option), "{verb} --{option}");
        }
    }

    #[test]
    fn every_option_says_what_it_does() {
        let command = command();
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            for arg in verb.get_arguments() {
                assert!(arg.get_help().is_some() || arg.is_hide_set(), "{} {}", verb.get_name(), arg.get_id());
            }
        }
    }
}
