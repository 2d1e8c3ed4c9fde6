//! Workloads of features whose messages the loops of the base cannot carry out: what a measuring thread does instead. Everything around
//! the thread, from the order to the record, is as for an echo.

use msgpath_core::Workload;
use msgpath_core::plugged::Plugged;
use msgpath_paths::AnyChannel;

use crate::thread::{Job, Outcome, ThreadError};

/// What the threads of a workload do.
pub trait Work: Sync {
    /// The workload, one that is carried out in rounds.
    fn workload(&self) -> &'static Workload;

    /// A thread's part of a round, pinned to its CPU. The connections of the round stand between the two ends as long as each keeps
    /// its own: it tells with [`Job::wait_for_go`] that it is ready.
    ///
    /// # Errors
    /// [`ThreadError`]. What keeps it from being ready it tells as well ([`Job::ready`]).
    fn run(&self, job: Job, channels: Vec<AnyChannel>) -> Result<Outcome, ThreadError>;
}

static ADDED: Plugged<dyn Work> = Plugged::new();

/// Makes the work of a workload known, before there is a round.
pub fn add(works: &[&'static dyn Work]) {
    ADDED.extend(works.iter().copied());
}

/// What the threads of a workload do; `None`: what the base has for an echo or a stream.
pub(crate) fn find(workload: &Workload) -> Option<&'static dyn Work> {
    ADDED.all().find(|work| work.workload() == workload)
}
