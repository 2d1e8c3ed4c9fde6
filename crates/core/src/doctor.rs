//! What `doctor` says of the two ends: the checks of docs/method/doctor.md.

use std::collections::BTreeMap;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Its number, 1 to 22: a stable reference.
    pub number: u8,
    /// A few words: `clock source`, `OS jitter`.
    pub name: String,
    /// `near`, `far`, or `both` where it belongs to neither alone.
    pub end: String,
    /// What it comes to.
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

/// A command that changes this machine, and the one that takes it back.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[schemars(rename = "DoctorFix")]
pub struct Fix {
    /// What to type as root.
    pub run: String,
    /// What restores the state as it was found; empty where nothing needs to be restored.
    pub undo: String,
}

/// What one end is to examine. It travels to the far end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examine {
    /// How the checks name this end: `near` or `far`.
    pub end: String,
    /// The measuring CPUs of this end; empty: its first one.
    pub cpus: Vec<u32>,
    /// Whether the noise floor is measured at full length (a second), or for a moment only.
    pub full: bool,
    /// Address of the other end, where the transport has one.
    pub peer: Option<IpAddr>,
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
