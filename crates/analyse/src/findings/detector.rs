//! What a detector is asked, and what it answers.

use msgpath_core::Plan;
use msgpath_core::schema::RoundRecord;
use msgpath_record::Run;
use msgpath_stats::paired::Series;

use crate::calm::Calm;
use crate::logs::Logs;
use crate::summary::{Finding, Summary, Warning};

/// What a detector looks at. `summary` has everything but findings and warnings.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    pub run: &'a Run,
    pub logs: &'a Logs,
    pub plan: &'a Plan,
    pub summary: &'a Summary,
    /// What disturbed its rounds.
    pub calm: &'a Calm,
    /// The rounds of each case of the plan that make its headline, by pass: what levels are made of.
    pub rounds: &'a [Vec<&'a RoundRecord>],
    /// All rounds of each case of the plan, by pass: what counts and conditions are made of.
    pub all: &'a [Vec<&'a RoundRecord>],
    /// The metric of each case of the plan, by pass.
    pub series: &'a [Series],
}

pub enum Sentence {
    Finding(Finding),
    Warning(Warning),
}

/// One kind of sentence.
pub struct Detector {
    /// Its stable code: `V..` findings, `W..` things that change what the numbers mean.
    pub code: &'static str,
    /// What it has to say about a run; nothing where it does not apply.
    pub detect: fn(&Input) -> Vec<Sentence>,
}
