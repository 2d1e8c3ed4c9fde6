//! What a figure may look at.

use msgpath_analyse::diff::Diff;
use msgpath_analyse::summary::CaseSummary;
use msgpath_analyse::{Logs, Summary};
use msgpath_record::{NO_MESSAGES, Run};

use super::figures::chosen;
use crate::view::{self, Grid};
use msgpath_core::workload::Duration;

/// Everything that a report shows: a run, its numbers, its messages, and the earlier run of a comparison.
pub struct Scene<'a> {
    pub run: &'a Run,
    pub summary: &'a Summary,
    /// Its messages, as far as they were logged.
    pub messages: Messages<'a>,
    /// Its logs, where somebody read them; as many of their rows go into the file as of messages.
    pub logs: Option<&'a Logs>,
    /// What the run is compared with (`report A B`: this is A).
    pub earlier: Option<Earlier<'a>>,
}

/// The per-message log.
#[derive(Clone)]
pub struct Messages<'a> {
    /// Every message that the log kept, round by round. Pictures go through it as often as they need.
    pub logged: &'a dyn msgpath_record::Messages,
    /// How many of them may go into the file, chosen by the timeline; 0: none.
    pub embed: usize,
    /// Messages that the log did not keep because its limit was reached.
    pub not_kept: u64,
}

impl Default for Messages<'_> {
    fn default() -> Self {
        Self { logged: &NO_MESSAGES, embed: 0, not_kept: 0 }
    }
}

/// The first run of two.
pub struct Earlier<'a> {
    pub run: &'a Run,
    pub summary: &'a Summary,
    /// Its messages, as far as they were logged.
    pub messages: Messages<'a>,
    /// What became of it.
    pub diff: &'a Diff,
}

impl<'a> Scene<'a> {
    /// A run without its messages.
    pub fn new(run: &'a Run, summary: &'a Summary) -> Self {
        Self { run, summary, messages: Messages::default(), logs: None, earlier: None }
    }

    /// What the times of messages are.
    pub fn timed(&self) -> Duration {
        let open = self.measured().first().is_some_and(|case| case.open.is_some());
        self.run.header.plan.workload.duration(open)
    }

    /// The cases that the user asked for.
    pub fn measured(&self) -> Vec<&'a CaseSummary> {
        view::measured(self.summary)
    }

    /// The same as rows and columns.
    pub fn grid(&self) -> Grid<'a> {
        Grid::new(self.summary)
    }

    /// The cases of a picture that cannot hold all of them: all of a single path, or all paths at the size in the
    /// middle with the fewest threads.
    pub fn chosen(&self) -> Vec<&'a CaseSummary> {
        chosen(self.summary, &self.measured()).0.into_iter().map(|(_, case)| case).collect()
    }
}
