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
    /// The run.
    pub run: &'a Run,
    /// Its logs.
    pub logs: &'a Logs,
    /// Its plan.
    pub plan: &'a Plan,
    /// Its numbers.
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

/// One computed sentence.
pub enum Sentence {
    /// A finding.
    Finding(Finding),
    /// A warning.
    Warning(Warning),
}

/// One kind of sentence.
pub struct Detector {
    /// Its stable code: `V..` findings, `W..` things that change what the numbers mean.
    pub code: &'static str,
    /// What it has to say about a run; nothing where it does not apply.
    pub detect: fn(&Input) -> Vec<Sentence>,
}
