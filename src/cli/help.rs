//! The help screen: three examples, then the verbs that work, on one screen.

use std::fmt::Write;

/// Verbs by what people come for, but for those that are needed once. A test keeps this complete.
const GROUPS: [(&str, &[&str]); 4] = [
    ("measure", &["serve", "echo", "rpc", "stream", "compare", "mesh", "periodic", "compat", "preset"]),
    ("understand", &["explain", "watch", "diff", "report"]),
    ("keep", &["runs", "show", "resume", "verify", "export", "import"]),
    ("prepare", &["doctor", "paths", "lab"]),
];
/// Verbs that share a line with the one before them, and what the two are for together.
const PAIRS: [(&str, &str, &str); 6] = [
    ("periodic", "compat", "messages by a clock; programs of courses"),
    ("diff", "report", "did it change; HTML page of runs"),
    ("runs", "show", "list saved runs, print one again"),
    ("resume", "verify", "go on with a run, check its numbers"),
    ("export", "import", "write other formats, read foreign logs"),
    ("paths", "lab", "which paths work here; make namespaces"),
];

/// Operands of a verb take so many characters on the screen.
const OPERANDS: usize = 17;

const TITLE: &str = "msgpath: how long does a message take, and where does the time go?";

const EXAMPLES: [(&str, &str); 3] = [
    ("msgpath echo", "this machine, right now"),
    ("msgpath echo HOST --launch ssh", "to another machine"),
    ("msgpath compare tcp:send,unix:send,shm:ring/spin", "which path is fastest here"),
];

/// What `--help` adds to `-h`, and the manual to its synopsis.
pub(crate) const MORE: &str = "\
A path says how: transport:send-method, with /wait where it is not the default (tcp:writev/epoll). A bare word may name a \
transport (pipe) or a send method (writev). `msgpath paths` lists all of them and says which work here, and why others do not.

A target says where: HOST[:PORT], tcp://HOST, udp://HOST, unix:/path, unixgram:/path, unixseq:/path, shm:NAME, pipe:NAME, \
fifo:NAME, mq:NAME. Without one, the far end is started on this machine, on another CPU. It can be a program of yours: --far \
'./server {port}', or raw://HOST:PORT for one that runs (echo, compare).

A run is a name (brisk-otter), the folder of a recording, @last (the newest) or @-2 (the one before). Runs are kept under \
$XDG_DATA_HOME/msgpath, by default ~/.local/share/msgpath.

Numbers: K M G are 1024 for sizes and 1000 for counts and rates. Times need a unit, except -t and -w, where a bare number \
means seconds.

Exit codes
  0    measured; the result is valid (warnings allowed)
  1    a check that you asked for failed (--max-loss, --fail-if, verify)
  2    bad command line
  3    could not start: no peer, no permission, not supported here, or runs
       that cannot be compared
  4    started, did not finish: peer vanished, wrong payload, disk full;
       what exists is kept
  5    --strict, and the result is not what it claims to be
  130  interrupted before half of the messages could be vouched for

Set up once: `msgpath completions SHELL` prints the completions of a shell, `msgpath man DIR` writes the manual pages, \
`msgpath schema` prints the JSON Schema of what --json prints.

Environment: NO_COLOR, CLICOLOR_FORCE, FORCE_COLOR, TERM (colour), COLUMNS (width), XDG_DATA_HOME, \
MSGPATH_TOKEN_FILE (--token-file of a near end).";

/// Verbs with many options: those that `-h` shows, and examples. `--help` shows all.
const SHORT: [(&str, &str, &str); 8] = [
    (
        "echo",
        "path len time rounds connections rate far each launch cpu json verbose",
        "Examples:
  msgpath echo                               64 bytes over TCP, on this machine
  msgpath echo HOST --launch ssh             to another machine, by ssh
  msgpath echo --rate 1k..64k -t 1s          a load curve with its knee
  msgpath echo --far './server {port}'       your own server as the far end
  msgpath echo --fail-if 'p99 > 1ms'         for CI: exit 1 where that is sure",
    ),
    (
        "stream",
        "path len pieces time rounds connections reverse launch between cpu json verbose",
        "Examples:
  msgpath stream                             128 KiB messages over TCP, here
  msgpath stream HOST -R                     the other machine sends
  msgpath stream --pieces 15x100             15 buffers of 100 bytes a message",
    ),
    (
        "compare",
        "path len time rounds far baseline metric stream launch cpu json verbose",
        "Examples:
  msgpath compare                            the usual paths and sizes, here
  msgpath compare tcp:send,unix:send -l 64   two paths at one size
  msgpath compare --metric p99               by the tail
  msgpath compare --far 'old=./a {port}' --far 'new=./b {port}'  your servers",
    ),
    (
        "rpc",
        "port connections rate verify timeout between serve fail-if rounds legacy json verbose",
        "Examples:
  msgpath rpc here -k 1000 ping              a server of this run
  msgpath rpc HOST:12345 -k 10 write -key k + -value v + 1000000
  msgpath rpc HOST -k 20000 ping -P 8 --rate 10k
  msgpath rpc redis://HOST -k 1000 SET -key k0 + -value v 64
  msgpath rpc http://HOST:8000/file -k 100 GET

The words of a command, and more examples: msgpath rpc --help.",
    ),
    (
        "periodic",
        "path processes period len count first start mac rounds between json verbose",
        "Examples:
  msgpath periodic                           15 processes: eth/sigio and shm
  msgpath periodic -x eth,udp -n 8           two engines, 8 processes
  msgpath periodic --start storm --first 50  the start, and what is steady",
    ),
    ("mesh", "hosts launch listen print pairs sla path len time dry-run resume", ""),
    ("explain", "path len time rounds rate layers service-time stages between cpu json verbose", ""),
    ("watch", "pid port comm cgroup time slow slowest framing no-payload report fail-if json", ""),
];

/// `-h` of the verbs with many options shows the few that most need, with examples; `--help` and the manual show all.
pub(crate) fn shorten(mut command: clap::Command) -> clap::Command {
    for (verb, shown, examples) in SHORT {
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
    // Explaining is splitting into stages: there it is never off.
    command.mut_subcommand("explain", |verb| {
        verb.mut_arg("stages", |arg| {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            arg.hide_default_value(true).help(format!("{help} [default: light]"))
        })
    })
}

/// The short help of the whole command; purposes and operands come from the verbs themselves.
pub(crate) fn screen(command: &clap::Command) -> String {
    let mut out = format!("{TITLE}\n\n");
    for (example, purpose) in EXAMPLES {
        let _ = writeln!(out, "  {example:<51} {purpose}");
    }
    out.push('\n');
    for (group, verbs) in GROUPS {
        let known = verbs.iter().filter_map(|verb| command.find_subcommand(verb));
        let second = |verb: &clap::Command| PAIRS.iter().any(|(_, second, _)| *second == verb.get_name());
        for (at, verb) in known.filter(|verb| !second(verb)).enumerate() {
            let head = if at == 0 { group } else { "" };
            let pair = PAIRS.iter().find(|(first, ..)| *first == verb.get_name());
            let (usage, purpose) = match pair.and_then(|pair| Some((pair, command.find_subcommand(pair.1)?))) {
                Some(((.., purpose), second)) => {
                    let plain = |verb| usage(verb).split_whitespace().collect::<Vec<_>>().join(" ");
                    let both = [verb, second].map(plain).join(", ");
                    (both.replace(['[', ']', '.'], ""), (*purpose).to_owned())
                }
                None => (usage(verb), lower_first(&verb.get_about().map(ToString::to_string).unwrap_or_default())),
            };
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

    /// Verbs that are needed once: named in the long help only.
    const ONCE: [&str; 3] = ["completions", "man", "schema"];

    fn rendered(arguments: &[&str]) -> String {
        crate::cli::command().try_get_matches_from(arguments).unwrap_err().render().to_string()
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
    fn what_stands_below_the_options_is_broken_by_the_terminal_alone() {
        for verb in crate::cli::command().get_subcommands() {
            let Some(text) = verb.get_after_help().map(ToString::to_string) else { continue };
            let prose = |line: &str| !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
            for pair in text.lines().collect::<Vec<_>>().windows(2) {
                assert!(!(prose(pair[0]) && prose(pair[1])), "{}: broken by hand after: {}", verb.get_name(), pair[0]);
            }
        }
    }

    #[test]
    fn examples_are_lines_of_at_most_80_columns() {
        for verb in crate::cli::command().get_subcommands() {
            let Some(text) = verb.get_after_help().map(ToString::to_string) else { continue };
            for line in
                text.lines().filter(|line| line.trim_start().trim_start_matches("sudo ").starts_with("msgpath "))
            {
                assert!(line.chars().count() <= 80, "{}: {line}", verb.get_name());
            }
        }
    }

    #[test]
    fn explain_says_which_stages_it_takes() {
        let text = rendered(&["msgpath", "explain", "-h"]);
        assert!(text.contains("light]") && !text.contains("default: off"), "{text}");
    }

    #[test]
    fn every_verb_is_on_the_screen_once() {
        let command = crate::cli::command();
        let visible: Vec<&str> =
            command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(clap::Command::get_name).collect();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        listed.extend(ONCE);
        assert!(PAIRS.iter().all(|(first, second, _)| listed.contains(first) && listed.contains(second)));
        for verb in &visible {
            assert!(listed.contains(verb), "{verb} is not on the help screen");
            assert!(command.find_subcommand(verb).unwrap().get_about().is_some(), "{verb} has no purpose");
        }
        assert!(ONCE.iter().all(|verb| MORE.contains(verb)));
        listed.sort_unstable();
        let mut sorted = visible.clone();
        sorted.sort_unstable();
        assert_eq!(listed, sorted);
    }

    #[test]
    fn the_short_help_of_a_verb_is_short() {
        for (verb, shown, _) in SHORT {
            let command = crate::cli::command();
            let known: Vec<&str> =
                command.find_subcommand(verb).unwrap().get_arguments().filter_map(clap::Arg::get_long).collect();
            assert!(shown.split(' ').all(|option| known.contains(&option)), "{verb}: {shown:?} of {known:?}");
            let (short, long) = (rendered(&["msgpath", verb, "-h"]), rendered(&["msgpath", verb, "--help"]));
            let options = |text: &str| text.lines().filter(|line| line.trim_start().starts_with('-')).count();
            assert!(options(&short) <= 14 && options(&long) > options(&short), "{short}");
            let is_example = |line: &&str| line.trim_start().trim_start_matches("sudo ").starts_with("msgpath ");
            assert!(short.contains("Examples:") && short.lines().filter(is_example).count() >= 3, "{short}");
            assert!(short.contains("--help"), "where the rest is: {short}");
        }
    }

    #[test]
    fn every_option_says_what_it_does() {
        let command = crate::cli::command();
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            for arg in verb.get_arguments() {
                assert!(arg.get_help().is_some() || arg.is_hide_set(), "{} {}", verb.get_name(), arg.get_id());
            }
        }
    }
}
