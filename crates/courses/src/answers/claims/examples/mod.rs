//! Every outcome of every claim, from runs whose truth is known. What the sentences then say is written into
//! `docs/claims.md`: `INSTA_UPDATE=always cargo test -p msgpath-courses the_page_of_claims`.

mod echoes;
mod local;
mod periodic;
mod streams;
mod writes;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::OnceLock;
use std::{fs, path::Path, thread};

use msgpath_analyse::testing::Build;

use super::{CLAIMS, Claim, settled};
use crate::answers::testing::Made;
use crate::answers::{Answer, Outcome};

/// A claim's number, what runs make of it, words of the sentence, and the runs.
type Example = (u8, Outcome, &'static str, fn() -> Vec<Made>);

/// Outcomes that no run can have, and why.
const NEVER: [(u8, Outcome, &str); 5] = [
    (24, Outcome::Holds, "a unit is what it is defined to be"),
    (24, Outcome::CannotTell, "a unit is what it is defined to be"),
    (27, Outcome::Holds, "ports have 16 bits"),
    (27, Outcome::CannotTell, "ports have 16 bits"),
    (38, Outcome::Holds, "a time is never negative"),
];

const OUTCOMES: [Outcome; 3] = [Outcome::Holds, Outcome::DoesNotHold, Outcome::CannotTell];

fn groups() -> [&'static [Example]; 5] {
    [streams::EXAMPLES, writes::EXAMPLES, echoes::EXAMPLES, local::EXAMPLES, periodic::EXAMPLES]
}

fn claim(number: u8) -> &'static Claim {
    CLAIMS.iter().copied().flatten().find(|claim| claim.0 == number).expect("a claim of this number")
}

/// What is said of each claim in each outcome; made once, a thread for each group.
fn said() -> &'static BTreeMap<(u8, Outcome), Answer> {
    static SAID: OnceLock<BTreeMap<(u8, Outcome), Answer>> = OnceLock::new();
    SAID.get_or_init(|| {
        let of = |(number, outcome, words, runs): &Example| {
            let made = runs();
            let ruling = (claim(*number).2)(&Made::parts(&made));
            let ruling = ruling.unwrap_or_else(|| panic!("claim {number}, {outcome:?}: the runs do not touch it"));
            let answer = ruling.answer.whole();
            assert_eq!(ruling.outcome, *outcome, "claim {number}: {}", answer.text);
            assert!(answer.text.contains(words), "claim {number}, {outcome:?}: {words}: {}", answer.text);
            ((*number, *outcome), answer)
        };
        thread::scope(|scope| {
            let threads = groups().map(|group| scope.spawn(move || group.iter().map(of).collect::<Vec<_>>()));
            threads.into_iter().flat_map(|thread| thread.join().expect("its examples")).collect()
        })
    })
}

#[test]
fn each_of_the_forty_has_one_who_settles_it() {
    let mut numbers: Vec<u8> = CLAIMS.iter().flat_map(|group| group.iter()).map(|claim| claim.0).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=40).collect::<Vec<_>>());
}

#[test]
fn without_runs_nothing_is_settled() {
    assert_eq!(settled(&[]), []);
}

#[test]
fn what_runs_do_not_touch_is_not_settled() {
    let numbers = |made: Made| settled(&Made::parts(&[made])).iter().map(|one| one.number).collect::<Vec<_>>();
    // Any echo has slow messages.
    assert_eq!(numbers(Made::of("a", &Build::echo(&["unix:send", "pipe:write"], &[64]))), [32]);
    // Messages that nobody answers have no way back.
    let (run, logs) = msgpath_analyse::periodic::testing::build(|_| ());
    assert_eq!(numbers(Made::with("a", run, logs)), [33, 35]);
    assert_eq!(numbers(Made::of("a", &Build::stream(&["tcp:send"], &[64]))), [20]);
}

#[test]
fn every_outcome_of_every_claim_is_said() {
    for number in 1..=40 {
        for outcome in OUTCOMES {
            let never = NEVER.iter().any(|(of, no, _)| (*of, *no) == (number, outcome));
            let answer = said().get(&(number, outcome));
            assert_eq!(answer.is_none(), never, "claim {number}, {outcome:?}");
            let open = outcome == Outcome::CannotTell;
            let cannot = answer.map(|answer| answer.confidence == msgpath_analyse::summary::Confidence::CantTell);
            assert!(cannot.is_none_or(|cannot| cannot == open), "claim {number}, {outcome:?}");
        }
    }
}

/// The part of the page that the sentences make.
fn sentences() -> String {
    let mut text = String::new();
    for number in 1..=40 {
        let (_, words, _) = claim(number);
        let _ = writeln!(text, "\n### {number}. {words}\n");
        for outcome in OUTCOMES {
            let _ = match said().get(&(number, outcome)) {
                Some(answer) => {
                    writeln!(text, "* *{}*, {}: {}", outcome.words(), answer.confidence.word(), answer.text)
                }
                None => {
                    let why =
                        NEVER.iter().find(|(of, no, _)| (*of, *no) == (number, outcome)).map_or("", |never| never.2);
                    writeln!(text, "* *{}*: never, {why}.", outcome.words())
                }
            };
        }
    }
    text
}

#[test]
fn the_page_of_claims_has_every_sentence() {
    const MARK: &str = "\n## What is said\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("docs/claims.md");
    let page = fs::read_to_string(&file).unwrap();
    let (head, rest) = page.split_once(MARK).expect("the heading of the sentences");
    let (lead, _) = rest.split_once("\n###").unwrap_or((rest, ""));
    let wanted = format!("{head}{MARK}{}\n{}", lead.trim_end(), sentences());
    if std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always") {
        fs::write(&file, wanted).unwrap();
    } else {
        assert!(page == wanted, "docs/claims.md: INSTA_UPDATE=always cargo test -p msgpath-courses the_page_of_claims");
    }
    // One row of the table a claim, with a preset that exists.
    for number in 1..=40 {
        let row =
            head.lines().find(|line| line.starts_with(&format!("| {number} |"))).unwrap_or_else(|| panic!("{number}"));
        let preset = row.rsplit('`').nth(1).unwrap_or_default();
        assert!(crate::preset::PRESETS.iter().any(|(name, _)| *name == preset), "{row}");
    }
}

/// An event a message at the near end of every case, by its send method, with an interval of 1 % around it.
fn events(made: Made, name: &'static str, each: impl Fn(&str) -> Option<f64>) -> Made {
    use msgpath_analyse::summary::EventRate;
    use msgpath_core::schema::{FAR, NEAR};
    use msgpath_stats::estimate::Estimate;
    made.altered(|summary| {
        for case in &mut summary.cases {
            let value = each(&case.case.path.method);
            let estimate = |value: f64| Estimate { value, low: Some(value * 0.99), high: Some(value * 1.01) };
            let rate = EventRate { name: name.into(), per_message: value.map(estimate), ..EventRate::default() };
            for end in [NEAR, FAR] {
                case.end_mut(end).events = vec![rate.clone()];
            }
        }
    })
}
