//! The command line of the lab's client: `-k 10 write -key kkkkk + -value vvvvv + 1000000`.
//!
//! Everything may stand in any order; the first bare word is the method. Three things differ from the lab, on purpose:
//! numbers are whole numbers and nothing else, a word that the lab would silently take for the length of a key is
//! refused with the reason, and several commands may follow each other with `--then` between them.

use msgpath_core::path::nearest;
use msgpath_core::units;
use serde::{Deserialize, Serialize};

use crate::MAX_BODY;

/// The most calls of one command.
pub const MAX_CALLS: u64 = 100_000_000;
/// The most commands of one run.
pub const MAX_STEPS: usize = 64;
/// What stands between two commands.
pub const THEN: &str = "--then";

/// The methods of the lab's servers.
pub const METHODS: [&str; 9] = ["ping", "write", "read", "sink", "delete", "chksum", "stats", "reset", "quit"];

/// The lab's options, with one dash as it spells them.
pub const OPTIONS: [&str; 8] = ["-k", "-rep", "-waitms", "-seed1", "-key", "-value", "-verbose", "-expect"];

/// `BASE [+] [PADLEN]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// As typed; it counts up where [`Self::counts`].
    pub base: String,
    /// `+`: the base is incremented after every call.
    pub counts: bool,
    /// Bytes to which the base is padded; 0: it is not.
    pub length: usize,
}

impl Text {
    /// Bytes of every key or value that is made of it.
    pub fn bytes(&self) -> usize {
        self.base.len().max(self.length)
    }
}

/// One command: one kind of call, repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The method as typed; its first 8 bytes go on the wire.
    pub method: String,
    /// `-rep`: how often the row of calls is made.
    pub rep: u64,
    /// `-k`: calls in a row.
    pub k: u64,
    /// `-waitms`: pause after each row.
    pub wait_ms: u64,
    /// `-key`; `None`: not given.
    pub key: Option<Text>,
    /// `-value`; `None`: not given.
    pub value: Option<Text>,
    /// `--expect`: the user's estimate of the median, ns.
    pub expect_ns: Option<u64>,
}

impl Step {
    /// All calls of the command; at least 1, at most [`MAX_CALLS`].
    pub fn calls(&self) -> u64 {
        self.rep * self.k
    }

    /// The key as it is sent: read, delete and the like have one, ping and stats do not.
    pub fn sent_key(&self) -> Option<&Text> {
        self.key.as_ref().filter(|_| !matches!(self.method.as_str(), "ping" | "stats" | "reset" | "quit"))
    }

    pub fn sent_value(&self) -> Option<&Text> {
        let none = matches!(self.method.as_str(), "read" | "delete" | "chksum" | "stats" | "reset" | "quit");
        self.value.as_ref().filter(|_| !none)
    }

    /// Bytes of the request's body.
    pub fn body_bytes(&self) -> usize {
        [self.sent_key(), self.sent_value()].into_iter().flatten().map(|text| 4 + text.bytes()).sum()
    }
}

/// All that was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The commands in their order; at least one.
    pub steps: Vec<Step>,
    /// `-seed1`: the shift register starts at 1, so that every run sends the same bytes.
    pub seed1: bool,
    /// `-verbose`: a line a message.
    pub verbose: bool,
}

/// Why words are not a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No word is left that could be the method.
    #[error("no command: name what is called, such as ping, write or read")]
    NoCommand,
    /// A word stands where the lab's grammar has the length.
    #[error("{word:?} stands where the length of {option} {base} goes, so it is not a command")]
    Eaten {
        /// `-key` or `-value`.
        option: String,
        base: String,
        word: String,
    },
    /// Two methods.
    #[error("two commands: {first:?} and {second:?}")]
    Second { first: String, second: String },
    /// An option that does not exist.
    #[error("{0} is not an option of rpc")]
    Unknown(String),
    /// An option without what belongs to it.
    #[error("{0} needs a value")]
    Operand(String),
    /// Not a whole number.
    #[error("{option} takes a whole number {range}, got {text:?}")]
    Number {
        option: String,
        /// What was typed.
        text: String,
        /// What is taken, in words.
        range: String,
    },
    /// Not a time.
    #[error("--expect takes a time such as 50us, got {0:?}")]
    Time(String),
    /// A method without what it works on.
    #[error("missing {option} for {method}")]
    Missing {
        method: String,
        /// `-key` or `-value`.
        option: &'static str,
    },
    /// A message that nobody takes.
    #[error("a request body of {0} bytes; the lab's servers take 16777215 at most")]
    TooLong(usize),
    /// More calls than anybody waits for.
    #[error("-rep {rep} times -k {k} are more than {MAX_CALLS} calls")]
    TooMany { rep: u64, k: u64 },
    /// More commands than a run has.
    #[error("{0} commands; a run has {MAX_STEPS} at most")]
    TooManySteps(usize),
}

impl CommandError {
    /// Why it is so; may be empty.
    pub fn why(&self) -> String {
        match self {
            Self::Eaten { .. } => {
                "the lab's client takes the word after BASE and + for PADLEN, whatever it is, and then \
                                   says 'No command'"
                    .into()
            }
            Self::Second { second, .. } => {
                format!("the first bare word is the command; several go with {THEN}, for example {THEN} {second}")
            }
            Self::Number { text, .. } if text.starts_with(|c: char| c.is_ascii_digit()) => {
                let read: String = text.chars().take_while(char::is_ascii_digit).collect();
                format!("the lab's client would silently read {read}")
            }
            Self::Number { .. } => "the lab's client would silently read 0".into(),
            _ => String::new(),
        }
    }

    /// What to type instead; may be empty.
    pub fn hint(&self) -> String {
        match self {
            Self::NoCommand => "msgpath rpc HOST:PORT ping".into(),
            Self::Eaten { option, base, word } => format!("{word} {option} {base}   (the command first)"),
            Self::Unknown(option) => {
                match nearest(&format!("-{}", option.trim_start_matches('-')), OPTIONS.into_iter().chain([THEN])) {
                    Some(name) => name.to_owned(),
                    None => "msgpath rpc --help".into(),
                }
            }
            Self::Missing { option: "-key", method } => format!("{method} -key kkkkk"),
            Self::Missing { method, .. } => format!("{method} -key kkkkk -value vvvvv"),
            _ => String::new(),
        }
    }
}

/// The option that a word is, with one dash; `None`: it is none of the lab's. Two dashes are taken as well.
pub fn option(word: &str) -> Option<&'static str> {
    let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    OPTIONS.into_iter().find(|option| &option[1..] == name)
}

/// Words that belong to an option which stands at the front of `words`, itself included: what the lab's grammar takes.
pub fn extent(option: &str, words: &[impl AsRef<str>]) -> usize {
    let word = |at: usize| words.get(at).map(AsRef::as_ref);
    let taken = match option {
        "-seed1" | "-verbose" => 1,
        "-k" | "-rep" | "-waitms" | "-expect" => 2,
        _ => {
            let mut taken = 2;
            taken += usize::from(word(taken).is_some_and(|word| word.starts_with('+')));
            taken + usize::from(word(taken).is_some_and(|word| !word.starts_with('-')))
        }
    };
    taken.min(words.len())
}

fn number(option: &str, text: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64, CommandError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten().filter(|number| range.contains(number)).ok_or_else(|| {
        CommandError::Number {
            option: option.into(),
            text: text.into(),
            range: format!("from {} to {}", range.start(), range.end()),
        }
    })
}

/// `-key` and `-value`: what follows the option itself.
fn text(option: &str, words: &[&str]) -> Result<Text, CommandError> {
    let [base, rest @ ..] = words else { return Err(CommandError::Operand(option.into())) };
    let counts = rest.first().is_some_and(|word| word.starts_with('+'));
    let length = match rest.get(usize::from(counts)) {
        None => 0,
        Some(word) if word.starts_with(|c: char| c.is_ascii_digit()) => number(option, word, 0..=MAX_BODY as u64)?,
        Some(word) => {
            let (option, base, word) = (option.into(), (*base).into(), (*word).into());
            return Err(CommandError::Eaten { option, base, word });
        }
    };
    Ok(Text { base: (*base).into(), counts, length: length as usize })
}

/// One command; what concerns the whole run goes into `script`.
fn step(words: &[&str], script: &mut Script) -> Result<Step, CommandError> {
    let mut method: Option<String> = None;
    let mut step = Step { method: String::new(), rep: 1, k: 1, wait_ms: 0, key: None, value: None, expect_ns: None };
    let mut rest = words;
    while let Some(word) = rest.first() {
        let Some(option) = option(word) else {
            if word.starts_with('-') {
                return Err(CommandError::Unknown((*word).into()));
            }
            if let Some(first) = method {
                return Err(CommandError::Second { first, second: (*word).into() });
            }
            method = Some((*word).into());
            rest = &rest[1..];
            continue;
        };
        let (own, after) = rest.split_at(extent(option, rest));
        rest = after;
        let operand = || own.get(1).copied().ok_or_else(|| CommandError::Operand(option.into()));
        match option {
            "-seed1" => script.seed1 = true,
            "-verbose" => script.verbose = true,
            "-k" => step.k = number(option, operand()?, 1..=MAX_CALLS)?,
            "-rep" => step.rep = number(option, operand()?, 1..=MAX_CALLS)?,
            "-waitms" => step.wait_ms = number(option, operand()?, 0..=3_600_000)?,
            "-key" => step.key = Some(text(option, &own[1..])?),
            "-value" => step.value = Some(text(option, &own[1..])?),
            _ => {
                let text = operand()?;
                let ns = units::parse_time(text).ok().filter(|ns| *ns > 0);
                step.expect_ns = Some(ns.ok_or_else(|| CommandError::Time(text.into()))?);
            }
        }
    }
    step.method = method.filter(|method| !method.is_empty()).ok_or(CommandError::NoCommand)?;
    if step.rep.checked_mul(step.k).is_none_or(|calls| calls > MAX_CALLS) {
        return Err(CommandError::TooMany { rep: step.rep, k: step.k });
    }
    Ok(step)
}

/// Reads the words after the target.
///
/// # Errors
/// [`CommandError`], also for what the lab's client takes in silence.
pub fn parse(words: &[impl AsRef<str>]) -> Result<Script, CommandError> {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let mut script = Script { steps: Vec::new(), seed1: false, verbose: false };
    let mut steps = Vec::new();
    let (mut rest, mut at) = (&words[..], 0);
    // A base may be any word, `--then` as well, so options are passed over whole.
    while at < rest.len() {
        match option(rest[at]) {
            Some(name) => at += extent(name, &rest[at..]),
            None if rest[at] == THEN || rest[at] == "-then" => {
                steps.push(step(&rest[..at], &mut script)?);
                (rest, at) = (&rest[at + 1..], 0);
            }
            None => at += 1,
        }
    }
    steps.push(step(rest, &mut script)?);
    if steps.len() > MAX_STEPS {
        return Err(CommandError::TooManySteps(steps.len()));
    }
    script.steps = steps;
    Ok(script)
}

/// Checks a command for the lab's protocol: read, write, sink and delete need a key, write and sink a value.
///
/// # Errors
/// What is missing, or a body that is too long.
pub fn check(step: &Step) -> Result<(), CommandError> {
    let method = step.method.as_str();
    let there = |text: &Option<Text>| text.as_ref().is_some_and(|text| !text.base.is_empty());
    let missing = |option| Err(CommandError::Missing { method: method.into(), option });
    if matches!(method, "read" | "write" | "sink" | "delete" | "chksum") && !there(&step.key) {
        return missing("-key");
    }
    if matches!(method, "write" | "sink") && !there(&step.value) {
        return missing("-value");
    }
    match step.body_bytes() {
        bytes if bytes > MAX_BODY => Err(CommandError::TooLong(bytes)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn typed(line: &str) -> Result<Script, CommandError> {
        parse(&line.split_whitespace().collect::<Vec<_>>())
    }

    fn one(line: &str) -> Step {
        let mut script = typed(line).unwrap();
        assert_eq!(script.steps.len(), 1, "{line}");
        script.steps.remove(0)
    }

    fn text(base: &str, counts: bool, length: usize) -> Option<Text> {
        Some(Text { base: base.into(), counts, length })
    }

    #[test]
    fn the_command_may_stand_anywhere() {
        let expected = one("-k 10 write -key kkkkk + -value vvvvv + 1000000");
        assert_eq!((expected.method.as_str(), expected.k, expected.rep), ("write", 10, 1));
        assert_eq!(expected.key, text("kkkkk", true, 0));
        assert_eq!(expected.value, text("vvvvv", true, 1_000_000));
        assert_eq!(expected.body_bytes(), 4 + 5 + 4 + 1_000_000);
        for line in [
            "write -k 10 -key kkkkk + -value vvvvv + 1000000",
            "-key kkkkk + -value vvvvv + 1000000 write -k 10",
            "--key kkkkk + --value vvvvv + 1000000 write --k 10",
        ] {
            assert_eq!(one(line), expected, "{line}");
        }
    }

    #[test]
    fn a_command_that_would_be_eaten_is_named() {
        let error = typed("-key kkk write").unwrap_err();
        assert_eq!(error, CommandError::Eaten { option: "-key".into(), base: "kkk".into(), word: "write".into() });
        assert!(error.to_string().contains("\"write\"") && error.why().contains("PADLEN"), "{error}");
        assert!(error.hint().starts_with("write -key kkk"), "{}", error.hint());
        assert!(matches!(typed("-value v + ping"), Err(CommandError::Eaten { .. })));
        assert!(matches!(typed("ping -value v + then"), Err(CommandError::Eaten { .. })));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        assert_eq!(typed(""), Err(CommandError::NoCommand));
        assert_eq!(typed("-k 3"), Err(CommandError::NoCommand));
        assert!(matches!(typed("ping pong"), Err(CommandError::Second { .. })));
        assert!(matches!(typed("ping -k"), Err(CommandError::Operand(option)) if option == "-k"));
        assert!(matches!(typed("ping -value"), Err(CommandError::Operand(_))));
        for line in ["ping -k x", "ping -k 0", "ping -k -1", "ping -k 10x", "ping -rep 1e3", "ping -value v 10x"] {
            assert!(matches!(typed(line), Err(CommandError::Number { .. })), "{line}");
        }
        assert!(typed("ping -k 10x").unwrap_err().why().contains("read 10"));
        assert!(matches!(typed("ping -rep 100000 -k 100000"), Err(CommandError::TooMany { .. })));
        let unknown = typed("ping -kye k").unwrap_err();
        assert_eq!((unknown.clone(), unknown.hint().as_str()), (CommandError::Unknown("-kye".into()), "-key"));
        assert!(matches!(typed("ping --expect soon"), Err(CommandError::Time(_))));
        assert!(matches!(typed(&"ping --then ".repeat(70)), Err(CommandError::NoCommand)));
        assert!(matches!(typed(&("ping --then ".repeat(70) + "ping")), Err(CommandError::TooManySteps(71))));
    }

    #[test]
    fn methods_say_what_they_need() {
        let missing = |line: &str| check(&one(line)).unwrap_err().to_string();
        assert_eq!(missing("read"), "missing -key for read");
        assert_eq!(missing("write -key k"), "missing -value for write");
        assert_eq!(missing("sink -value v"), "missing -key for sink");
        for fine in ["ping", "stats", "methodname -value x", "read -key k", "write -key k -value v"] {
            assert_eq!(check(&one(fine)), Ok(()), "{fine}");
        }
        assert!(matches!(check(&one("write -key k -value v 16777215")), Err(CommandError::TooLong(_))));
        assert_eq!(check(&one("ping -value v 16777211")), Ok(()));
    }

    #[test]
    fn several_commands_make_one_run() {
        let script = typed("-k 3 write -key k + -value v --expect 10ms --then read -key k + -k 5 -seed1").unwrap();
        assert!(script.seed1 && !script.verbose);
        let [write, read] = &script.steps[..] else { panic!("{script:?}") };
        assert_eq!((write.method.as_str(), write.calls(), write.expect_ns), ("write", 3, Some(10_000_000)));
        assert_eq!((read.method.as_str(), read.calls(), read.expect_ns), ("read", 5, None));
        let odd = typed("ping -value --then").unwrap();
        assert_eq!(odd.steps[0].value, text("--then", false, 0), "a base may be any word");
    }

    proptest! {
        /// Whatever is typed, the parser ends, and what it takes keeps its limits.
        #[test]
        fn no_words_panic(words in prop::collection::vec("(-k|-rep|-key|-value|--then|\\+|-seed1|[0-9]{1,4}|[a-z]{1,6}|.{0,5})", 0..12)) {
            if let Ok(script) = parse(&words) {
                prop_assert!(!script.steps.is_empty() && script.steps.len() <= MAX_STEPS);
                for step in &script.steps {
                    prop_assert!(!step.method.is_empty() && (1..=MAX_CALLS).contains(&step.calls()));
                }
            }
        }

        /// The order of the parts does not matter where each is whole.
        #[test]
        fn parts_may_be_shuffled(
            parts in Just(vec!["-k 7", "-rep 2", "-waitms 5", "-key kk + 9", "-value vv 12", "write", "-seed1"]).prop_shuffle()
        ) {
            // A bare word right after a text without a length is its length: the one rule of order.
            let script = typed(&parts.join(" ")).unwrap();
            let step = &script.steps[0];
            prop_assert_eq!((step.k, step.rep, step.wait_ms, script.seed1), (7, 2, 5, true));
            prop_assert_eq!(&step.key, &text("kk", true, 9));
            prop_assert_eq!(&step.value, &text("vv", false, 12));
        }

        /// The extent of an option never goes beyond the words.
        #[test]
        fn extents_are_bounded(words in prop::collection::vec("[-+a-z0-9]{0,4}", 1..6), at in 0_usize..8) {
            let taken = extent(OPTIONS[at], &words);
            prop_assert!((1..=words.len()).contains(&taken));
        }
    }
}
