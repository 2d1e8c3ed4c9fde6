//! `--jsonl`: every round as a line on standard output, beside what is shown on standard error.

use std::io::Write;

use msgpath_analyse::round_line::round_line;
use msgpath_core::schema::{RoundRecord, RunHeader};
use msgpath_core::{Case, Plan};
use msgpath_present::json;
use msgpath_run::Progress;
use msgpath_sys::standard::Output;

pub(super) struct Lines {
    shown: Box<dyn Progress>,
    run: String,
    plan: Option<Plan>,
    /// Nobody reads any more.
    gone: bool,
}

impl Lines {
    pub(super) fn new(shown: Box<dyn Progress>) -> Self {
        Self { shown, run: String::new(), plan: None, gone: false }
    }
}

impl Progress for Lines {
    fn started(&mut self, header: &RunHeader) {
        self.run.clone_from(&header.name);
        self.shown.started(header);
    }

    fn planned(&mut self, plan: &Plan) {
        self.plan = Some(plan.clone());
        self.shown.planned(plan);
    }

    fn warming(&mut self, case: &Case, done: usize, of: usize) {
        self.shown.warming(case, done, of);
    }

    fn round(&mut self, round: &RoundRecord, done: u64, of: u64) {
        self.shown.round(round, done, of);
        let line = self.plan.as_ref().and_then(|plan| round_line(&self.run, plan, round, done, of));
        if let (Some(line), false) = (line, self.gone) {
            let line = format!("{}\n", json::round(&line));
            // A reader that left is not a reason to stop measuring.
            self.gone = Output.write_all(line.as_bytes()).is_err();
        }
    }
}
