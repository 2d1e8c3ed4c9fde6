//! Presets: ready-made experiments as TOML data. A preset is a list of runs, each a verb with its options, and the name
//! of the page that answers questions from them. `docs/presets.md` describes the format for people who write their own.

pub mod estimate;
mod list;

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

pub use list::{NOT_ATTEMPTED, PRESETS, PUBLISHED};

/// Most runs of a preset.
pub const MOST_RUNS: usize = 16;
/// The longest preset file, bytes.
pub const LONGEST: usize = 64 << 10;
/// Verbs that a preset may name.
pub const VERBS: [&str; 6] = ["echo", "stream", "compare", "explain", "periodic", "rpc"];

/// A ready-made experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Preset {
    /// One line, lower case.
    pub summary: String,
    /// A paragraph.
    pub about: String,
    /// The page that answers its questions; `None`: the findings of its runs.
    pub page: Option<(String, Spot)>,
    /// Its runs, in the order in which they are carried out.
    pub runs: Vec<PresetRun>,
    /// Where the published numbers are from and on what they were measured; empty without any.
    pub source: String,
    /// Numbers that others have published, to stand beside those of the runs.
    pub published: Vec<Published>,
}

/// A number that others have published, and which number of which case stands beside it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What it is called there.
    pub label: String,
    /// The number: µs, bits per second, messages per second, or plain, as `quantity` says.
    pub value: f64,
    /// What is compared.
    pub quantity: Quantity,
    pub run: String,
    /// The path, as typed (`tcp:send`).
    pub path: String,
    /// Bytes of the message.
    pub size: u64,
    /// Measuring threads at each end, where cases differ in them.
    #[serde(default)]
    pub threads: Option<u32>,
    /// Connections, where cases differ in them.
    #[serde(default)]
    pub connections: Option<u32>,
    /// Pieces of the message (`15x100`), where cases differ in them.
    #[serde(default)]
    pub pieces: Option<String>,
    /// [`Quantity::Ratio`]: the path that it is divided by.
    #[serde(default)]
    pub by: Option<String>,
    /// [`Quantity::Duration`]: payload bytes that took the time.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Why ours differs, where that is known; what was computed from the run is added.
    #[serde(default)]
    pub because: String,
}

/// What a published number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Median round trip, µs.
    P50,
    /// Mean round trip, µs.
    Mean,
    /// Fastest, µs.
    Fastest,
    /// Slowest, µs.
    Slowest,
    /// Messages per second: round trips of an echo, messages of a stream.
    Rate,
    /// Bits per second.
    Throughput,
    /// Time that so many payload bytes took, µs.
    Duration,
    /// Throughput, or messages per second of an echo, divided by that of the path `by`.
    Ratio,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetRun {
    /// By what the page finds it; unique in the preset.
    pub name: String,
    /// What it is for, for people.
    pub about: String,
    pub verb: String,
    /// Where the verb stands.
    pub verb_at: Spot,
    /// Words that are no options: a target, the commands of `rpc`.
    pub words: Vec<String>,
    /// Where they stand; where the verb does if there are none.
    pub words_at: Spot,
    /// Long options of the verb, without their dashes, in the order of their names; one that is repeated, once for each value.
    pub options: Vec<PresetOption>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetOption {
    /// Its name without dashes.
    pub name: String,
    /// Its value; `None`: it takes none.
    pub value: Option<String>,
    /// Where it stands.
    pub at: Spot,
}

/// A place in a file, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    pub line: usize,
    pub column: usize,
}

/// What is wrong with a preset, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {}, column {}: {what}", .at.line, .at.column)]
pub struct Mistake {
    pub at: Spot,
    /// What.
    pub what: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    summary: Spanned<String>,
    about: String,
    #[serde(default)]
    page: Option<Spanned<String>>,
    run: Vec<FileRun>,
    #[serde(default)]
    source: String,
    #[serde(default)]
    published: Vec<Spanned<Published>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRun {
    name: Spanned<String>,
    #[serde(default)]
    about: String,
    verb: Spanned<String>,
    #[serde(default)]
    words: Option<Spanned<Vec<String>>>,
    #[serde(default)]
    options: BTreeMap<Spanned<String>, Spanned<Value>>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a text, a whole number, true for an option that takes no value, or texts for one that is repeated"
)]
enum Value {
    Given(bool),
    Number(i64),
    Text(String),
    Several(Vec<String>),
}

impl Spot {
    /// The place of a byte of `text`.
    pub fn of(text: &str, byte: usize) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { line, column }
    }
}

impl Preset {
    /// Reads a preset.
    ///
    /// # Errors
    /// The first [`Mistake`]. Whether a verb has such an option is not known here.
    pub fn parse(text: &str) -> Result<Self, Mistake> {
        let mistake = |byte: usize, what: String| Err(Mistake { at: Spot::of(text, byte), what });
        if text.len() > LONGEST {
            return mistake(0, format!("the file has {} bytes; a preset has at most {LONGEST}", text.len()));
        }
        let file: File = match toml::from_str(text) {
            Ok(file) => file,
            Err(error) => return mistake(error.span().map_or(0, |span| span.start), error.message().trim().into()),
        };
        if file.summary.get_ref().contains('\n') {
            return mistake(file.summary.span().start, "the summary is one line".into());
        }
        if file.run.is_empty() || file.run.len() > MOST_RUNS {
            return mistake(0, format!("{} runs; a preset has 1 to {MOST_RUNS}", file.run.len()));
        }
        let mut runs: Vec<PresetRun> = Vec::new();
        for run in file.run {
            let at = run.name.span().start;
            let name = run.name.into_inner();
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if name.is_empty() || name.len() > 24 || !name.chars().all(plain) {
                return mistake(
                    at,
                    format!("{name:?} is not a name for a run: 1 to 24 small letters, digits and dashes"),
                );
            }
            if runs.iter().any(|other| other.name == name) {
                return mistake(at, format!("two runs are called {name}"));
            }
            let verb_at = run.verb.span().start;
            let verb = run.verb.into_inner();
            if !VERBS.contains(&verb.as_str()) {
                return mistake(verb_at, format!("{verb:?} is not a verb that measures ({})", VERBS.join(", ")));
            }
            let mut options = Vec::new();
            for (option, value) in run.options {
                let at = Spot::of(text, option.span().start);
                let name = option.into_inner();
                if name.starts_with('-') || name.is_empty() {
                    return Err(Mistake { at, what: format!("{name:?}: an option is written without its dashes") });
                }
                // One that had a sign in it would become another option with a value.
                if !name.chars().all(plain) {
                    return Err(Mistake { at, what: format!("{name:?} is not the name of an option") });
                }
                let values = match value.into_inner() {
                    Value::Given(false) => continue,
                    Value::Given(true) => vec![None],
                    Value::Number(number) => vec![Some(number.to_string())],
                    Value::Text(text) => vec![Some(text)],
                    Value::Several(texts) => texts.into_iter().map(Some).collect(),
                };
                options.extend(values.into_iter().map(|value| PresetOption { name: name.clone(), value, at }));
            }
            let verb_at = Spot::of(text, verb_at);
            let words_at = run.words.as_ref().map_or(verb_at, |words| Spot::of(text, words.span().start));
            let words = run.words.map(Spanned::into_inner).unwrap_or_default();
            runs.push(PresetRun { name, about: run.about, verb, verb_at, words, words_at, options });
        }
        for row in &file.published {
            let at = row.span().start;
            let row = row.get_ref();
            if !runs.iter().any(|run| run.name == row.run) {
                return mistake(at, format!("no run is called {}", row.run));
            }
            if !(row.value.is_finite() && row.value > 0.0) {
                return mistake(at, format!("{} is not a number that was measured", row.value));
            }
            if (row.quantity == Quantity::Ratio) != row.by.is_some() {
                return mistake(at, "a ratio, and nothing else, has a path that it is divided by".into());
            }
            if (row.quantity == Quantity::Duration) != row.bytes.is_some() {
                return mistake(at, "a duration, and nothing else, has the bytes that took it".into());
            }
        }
        let page = file.page.map(|page| {
            let at = Spot::of(text, page.span().start);
            (page.into_inner(), at)
        });
        let published = file.published.into_iter().map(Spanned::into_inner).collect();
        let summary = file.summary.into_inner();
        Ok(Self { summary, about: file.about, page, runs, source: file.source, published })
    }
}

/// The option of rare settings, of which there may be several.
const SET: &str = "set";

impl PresetRun {
    /// The words after `msgpath`. Options that were `typed` (words with their dashes) replace those of the preset, but rare
    /// settings are added to its own; so is left out what they cannot stand beside.
    pub fn command(&self, typed: &[String], left_out: &dyn Fn(&str) -> bool) -> Vec<String> {
        let mut words = vec![self.verb.clone()];
        for option in &self.options {
            let long = format!("--{}", option.name);
            let typed_too = || typed.iter().any(|word| *word == long || word.starts_with(&format!("{long}=")));
            if left_out(&option.name) || (option.name != SET && typed_too()) {
                continue;
            }
            words.push(long);
            words.extend(option.value.clone());
        }
        words.extend(typed.iter().cloned());
        words.extend(self.words.iter().cloned());
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "summary = 'a'\nabout = 'b'\npage = 'write-shape'\n[[run]]\nname = 'one'\nverb = 'echo'\n\
                        [run.options]\nlen = 64\npath = 'tcp'\nset = 'wait=spin'\nverbose = false\n";

    #[test]
    fn options_that_were_typed_replace_those_of_the_preset() {
        let preset = Preset::parse(GOOD).unwrap();
        assert_eq!(preset.runs[0].command(&[], &|_| false).join(" "), "echo --len 64 --path tcp --set wait=spin");
        let typed = ["--len".to_string(), "1K".into(), "--path=udp".into()];
        assert_eq!(preset.runs[0].command(&typed, &|_| false).join(" "), "echo --set wait=spin --len 1K --path=udp");
        assert_eq!(preset.runs[0].options[0].at, Spot { line: 8, column: 1 });
        assert_eq!(preset.page.unwrap().1, Spot { line: 3, column: 8 });
    }

    #[track_caller]
    fn refused(text: &str, at: (usize, usize), what: &str) {
        let mistake = Preset::parse(text).unwrap_err();
        assert_eq!((mistake.at.line, mistake.at.column), at, "{mistake}");
        assert!(mistake.what.contains(what), "{mistake}");
    }

    #[test]
    fn a_mistake_has_its_line_and_column() {
        refused("summary = 'a'\nabout = ", (2, 9), "");
        refused(&GOOD.replace("verb = 'echo'", "verb = 'serve'"), (6, 8), "not a verb that measures");
        refused(&GOOD.replace("'one'", "'One'"), (5, 8), "not a name for a run");
        refused(&GOOD.replace("len = 64", "len = 6.4"), (8, 7), "whole number");
        refused(&GOOD.replace("len = 64", "'--len' = 64"), (8, 1), "without its dashes");
        refused(&GOOD.replace("len = 64", "'len=64' = true"), (8, 1), "not the name of an option");
        refused(&GOOD.replace("about = 'b'", "about = 'b'\nextra = 1"), (3, 1), "unknown field");
        refused(&format!("{GOOD}\n[[run]]\nname='one'\nverb='echo'"), (14, 6), "two runs");
        refused("summary = 'a'\nabout = 'b'\nrun = []", (1, 1), "0 runs");
        let row = "[[published]]\nlabel='x'\nvalue=2\nrun='one'\npath='tcp'\nsize=64\n";
        assert_eq!(Preset::parse(&format!("{GOOD}{row}quantity='p50'")).unwrap().published[0].threads, None);
        refused(&format!("{GOOD}{row}quantity='p51'"), (18, 10), "unknown variant");
        refused(&format!("{GOOD}{row}quantity='ratio'"), (12, 1), "divided by");
        refused(&format!("{GOOD}{}quantity='p50'", row.replace("'one'", "'two'")), (12, 1), "no run is called");
        refused(&"#".repeat(LONGEST + 1), (1, 1), "bytes");
    }
}
