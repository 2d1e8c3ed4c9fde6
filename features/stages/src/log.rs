//! What a traced run has beside its rounds: the messages of its traced replicas, and the kernel's events meanwhile.

use std::path::PathBuf;
use std::sync::LazyLock;

use msgpath_analyse::Logs;
use msgpath_analyse::logs::Pulled;
use msgpath_core::Plan;
use msgpath_core::schema::MessageRow;
use msgpath_record::{Events, MessageLog, RecordError, Run};

/// Rows of the traced rounds of a run.
#[derive(Clone, Debug, Default)]
pub struct TracedLog {
    pub messages: Pulled<MessageRow>,
    /// The kernel's events.
    pub events: KernelEvents,
}

/// That of a run; empty where nobody read one.
pub fn log(logs: &Logs) -> &TracedLog {
    static NONE: LazyLock<TracedLog> = LazyLock::new(TracedLog::default);
    logs.own().unwrap_or(&NONE)
}

/// Opens it, where a run has traced replicas.
///
/// # Errors
/// A log that cannot be read.
pub fn open(run: &Run, logs: &mut Logs) -> Result<(), RecordError> {
    if run.header.plan.cases.iter().any(|case| Plan::traced(case).is_some()) {
        let messages = MessageLog::traced(run)?.into();
        logs.add(TracedLog { messages, events: KernelEvents::Recorded(run.folder.clone()) });
    }
    Ok(())
}

/// Kernel events: there are some ten of them for each message, so those of a record are pulled round by round.
#[derive(Clone, Debug)]
pub enum KernelEvents {
    /// In memory.
    Here(Vec<Events>),
    /// In the record in this folder.
    Recorded(PathBuf),
}

impl Default for KernelEvents {
    fn default() -> Self {
        Self::Here(Vec::new())
    }
}

impl KernelEvents {
    /// Gives `each` the events of every round of a case, as far as they are whole, until it says that it has enough.
    pub fn rounds(&self, case: u32, mut each: impl FnMut(&Events) -> bool) {
        let _ = match self {
            Self::Here(all) => all.iter().filter(|events| events.case == case).any(each),
            Self::Recorded(folder) => msgpath_record::events(folder)
                .is_ok_and(|all| all.of(case).map_while(Result::ok).any(|events| each(&events))),
        };
    }

    /// Those in memory, to be changed.
    #[cfg(test)]
    pub fn here(&mut self) -> &mut Vec<Events> {
        match self {
            Self::Here(all) => all,
            Self::Recorded(_) => panic!("they are in a record"),
        }
    }
}
