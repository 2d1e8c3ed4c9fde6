//! Which logs the numbers of a run need.

use msgpath_core::plan::{CaseRole, Extent};
use msgpath_record::{MessageLog, RecordError, Run};

use crate::logs::Logs;
use crate::one_way::OneWay;
use crate::section;

/// Trials of a round that are looked at one by one; more of them are a distribution.
const MOST_TRIALS: u64 = 1_000;
/// And of all rounds together.
const MOST_OF_ALL: usize = 500_000;

impl Logs {
    /// The logs that the numbers of a run need; of one that is in no folder those that are empty.
    ///
    /// # Errors
    /// A log that cannot be read. Damage is in [`Run::damage`] already; what is before it is used.
    pub fn of(run: &Run) -> Result<Self, RecordError> {
        let plan = &run.header.plan;
        let kept = !run.folder.as_os_str().is_empty();
        let mut logs = Self::default();
        let echo = plan.workload.is_echoed();
        if echo && plan.cases.iter().any(|case| case.threads > 1 && case.role == CaseRole::Measured) {
            logs.echoes = MessageLog::open(run)?.into();
        }
        let few = matches!(plan.extent, Extent::Count(count) if count <= MOST_TRIALS);
        if echo && few && plan.trim == 0 && kept {
            logs.trials = msgpath_record::messages(&run.folder)?.map_while(Result::ok).take(MOST_OF_ALL).collect();
        }
        for section in section::all() {
            (section.logs)(run, &mut logs)?;
        }
        if OneWay::is_in(run) {
            logs.one_way = OneWay::of(run, &MessageLog::open(run)?, &logs);
        }
        Ok(logs)
    }
}
