//! What `doctor` says of the two ends: the checks of docs/method/doctor.md.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::foreign::{advice_of_far_end, shown_bytes};
use crate::remedy::Remedy;

/// What a check comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// Nothing in the way.
    Ok,
    /// It could not be read; [`Check::what`] says why.
    NotAvailable,
    /// It will be seen in the numbers.
    Warn,
    /// Some claims cannot be made at all; [`Check::what`] says which.
    Stop,
}

impl CheckState {
    /// The word that is printed.
    pub fn word(self) -> &'static str {
        match self {
            CheckState::Ok => "OK",
            CheckState::NotAvailable => "n/a",
            CheckState::Warn => "WARN",
            CheckState::Stop => "STOP",
        }
    }
}

/// One check of one end.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[schemars(rename = "DoctorCheck")]
pub struct Check {
    /// Its number, 1 to 23: a stable reference.
    pub number: u8,
    /// A few words: `clock source`, `OS jitter`.
    pub name: String,
    /// `near`, `far`, or `both` where it belongs to neither alone.
    pub end: String,
    /// Whether it is fine, warns, forbids a claim, or could not be read.
    pub state: CheckState,
    /// What was seen, with its numbers; begins with `n/a: ` where it could not be read.
    pub what: String,
    /// What helps; empty where nothing is wrong.
    pub cure: String,
    /// Commands that do it, as `doctor --fix` prints them, each with what undoes it.
    pub commands: Vec<Fix>,
    /// The numbers, by name with the unit in the name.
    pub evidence: BTreeMap<String, f64>,
}

/// A command that changes a machine, and the one that takes it back: text of the table of changes, which nothing runs.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[schemars(rename = "DoctorFix")]
pub struct Fix {
    /// What to type as root.
    pub run: String,
    /// What restores the state as it was found.
    pub undo: String,
}

impl From<&Remedy> for Fix {
    fn from(remedy: &Remedy) -> Self {
        Self { run: remedy.action().to_string(), undo: remedy.undo().to_string() }
    }
}

/// What an end reports of one check. It says neither which end it is nor what to type: who asked knows both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    pub number: u8,
    /// As in [`Check`].
    pub state: CheckState,
    /// As in [`Check`].
    pub what: String,
    /// As in [`Check`].
    pub cure: String,
    /// What helps.
    pub remedies: Vec<Remedy>,
    /// As in [`Check`].
    pub evidence: BTreeMap<String, f64>,
}

/// Names of the checks by number, from 1.
const NAMES: [&str; 23] = [
    "clock",
    "time namespace",
    "cpu speed",
    "idle states",
    "cpu topology",
    "isolation, interrupts",
    "limits",
    "runnable tasks",
    "hypervisor, steal",
    "OS jitter",
    "timer lateness",
    "memory",
    "kernel",
    "route",
    "packet path",
    "tcp settings",
    "io_uring",
    "power, throttling",
    "other benchmarks",
    "own build",
    "A/A resolution",
    "who answers",
    "data connections",
];

/// Checks that one end makes alone: numbers from 1.
pub const CHECKS_OF_AN_END: u8 = 20;
/// Most characters of a sentence of a check.
const MAX_TEXT: usize = 4096;
/// Most numbers of the evidence of a check, and characters of their names.
const MAX_EVIDENCE: usize = 32;
const MAX_NAME: usize = 40;
/// Most remedies of a check: one for each CPU of a large machine.
const MAX_REMEDIES: usize = 1024;

impl Check {
    /// A check of the end that was asked, from what it reports.
    pub fn new(end: &str, observation: Observation) -> Self {
        let Observation { number, state, what, cure, remedies, evidence } = observation;
        let name = NAMES.get(usize::from(number).wrapping_sub(1)).copied().unwrap_or_default().into();
        let commands = remedies.iter().map(Fix::from).collect();
        Self { number, name, end: end.into(), state, what, cure, commands, evidence }
    }

    /// The cure as it is printed: of the far end it is that end's word.
    pub fn advice(&self) -> Cow<'_, str> {
        if self.end == "far" { advice_of_far_end(&self.cure).into() } else { self.cure.as_str().into() }
    }
}

/// Parses what an end reports: each check at most once, remedies of its own check only, sentences on one line with nothing that
/// a terminal obeys, all of it bounded. `Err`: in what it is no report.
pub fn parse_report(observations: Vec<Observation>) -> Result<Vec<Observation>, String> {
    let mut known = [false; CHECKS_OF_AN_END as usize];
    let parse = |mut observation: Observation| {
        let number = observation.number;
        match known.get_mut(usize::from(number).wrapping_sub(1)) {
            Some(seen @ false) => *seen = true,
            Some(_) => return Err(format!("check {number} twice")),
            None => return Err(format!("no end has a check {number}")),
        }
        let remedies = &observation.remedies;
        if remedies.len() > MAX_REMEDIES || remedies.iter().any(|remedy| remedy.check() != number) {
            return Err(format!("check {number} has remedies that are not its own"));
        }
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let named = |name: &String| name.len() <= MAX_NAME && name.chars().all(word);
        if observation.evidence.len() > MAX_EVIDENCE || !observation.evidence.keys().all(named) {
            return Err(format!("check {number} has evidence that no check has"));
        }
        for text in [&mut observation.what, &mut observation.cure] {
            *text = shown_bytes(text.as_bytes(), MAX_TEXT);
        }
        Ok(observation)
    };
    observations.into_iter().map(parse).collect()
}

/// What one end is to examine. It travels to the far end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examine {
    /// Which end it is: `near` or `far`.
    pub end: String,
    /// The measuring CPUs of this end; empty: its first one.
    pub cpus: Vec<u32>,
    /// Whether the noise floor is measured at full length (a second), or for a moment only.
    pub full: bool,
    /// Address of the other end, where the transport has one.
    pub peer: Option<SocketAddr>,
    /// Whether the plan has spin waits.
    pub spin: bool,
    /// A measuring CPU of the other end, where it is on this machine.
    pub other_cpu: Option<u32>,
}

/// All checks of both ends.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Doctor {
    /// The checks, by number, near end first.
    pub checks: Vec<Check>,
    /// How long it took, ns.
    pub took_ns: u64,
    /// Whether the noise floor was measured at full length; before a run it is measured for a moment only.
    pub full: bool,
}

impl Doctor {
    /// The worst state of any check.
    pub fn worst(&self) -> CheckState {
        self.checks.iter().map(|check| check.state).max().unwrap_or(CheckState::Ok)
    }

    /// The check with this number at this end.
    pub fn check(&self, number: u8, end: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.number == number && check.end == end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remedy::Setting;

    fn observation(number: u8) -> Observation {
        Observation {
            number,
            state: CheckState::Warn,
            what: "huge pages always".into(),
            cure: "madvise".into(),
            remedies: Vec::new(),
            evidence: BTreeMap::new(),
        }
    }

    #[test]
    fn hostile_report_is_refused_or_made_harmless() {
        let with = |change: fn(&mut Observation)| {
            let mut changed = observation(12);
            change(&mut changed);
            parse_report(vec![changed])
        };
        let escaped = with(|one| one.what = "a\x1b[2J\nrm -rf /".into()).unwrap();
        assert_eq!(escaped[0].what, "a\\u{1b}[2J\\nrm -rf /");
        let long = with(|one| one.cure = "x".repeat(1 << 20)).unwrap();
        assert!(long[0].cure.chars().count() <= MAX_TEXT + 1);
        with(|one| one.remedies = vec![Remedy::SwapOff]).unwrap();
        with(|one| one.remedies = vec![Setting::IoUring.remedy("2").unwrap()]).unwrap_err();
        with(|one| one.remedies = vec![Remedy::SwapOff; MAX_REMEDIES + 1]).unwrap_err();
        with(|one| one.evidence.extend([("evil\x1b[2J".to_owned(), 1.0)])).unwrap_err();
        with(|one| one.evidence = (0..=MAX_EVIDENCE).map(|at| (format!("n{at}"), 0.0)).collect()).unwrap_err();
        for number in [0, 21, 22, 255] {
            parse_report(vec![observation(number)]).unwrap_err();
        }
        parse_report(vec![observation(12), observation(12)]).unwrap_err();
    }

    #[test]
    fn check_takes_end_and_name_from_who_asked() {
        let check = Check::new("far", Observation { remedies: vec![Remedy::SwapOff], ..observation(12) });
        assert_eq!((check.end.as_str(), check.name.as_str()), ("far", "memory"));
        assert_eq!(check.advice(), "what the far end advises: madvise");
        assert_eq!(check.commands, [Fix { run: "swapoff -a".into(), undo: "swapon -a".into() }]);
    }
}
