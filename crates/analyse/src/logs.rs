//! What a run has beside its rounds, as far as somebody read it.

use std::path::{Path, PathBuf};

use msgpath_core::schema::{MessageRow, RpcRow};
use msgpath_record::{Events, ToolRun};

use crate::one_way::OneWay;

/// Rows of the logs of a run. Empty logs cost the sentences and tables that need them, nothing else.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    /// The log of calls.
    pub rpcs: Vec<RpcRow>,
    /// The messages of a periodic run.
    pub periodic: Vec<MessageRow>,
    /// Messages of the cases of an echo with several threads, as many as the log kept of them.
    pub echoes: Vec<MessageRow>,
    /// The messages of a run of few trials that are shown one by one (`--each`).
    pub trials: Vec<MessageRow>,
    /// The messages of traced rounds.
    pub traced: Vec<MessageRow>,
    /// The kernel events of traced rounds.
    pub events: KernelEvents,
    /// The two ways of an echo's messages, where its ends have no common clock.
    pub one_way: Option<OneWay>,
    /// What measuring tools of others said between the rounds.
    pub tools: Vec<ToolRun>,
}

/// Kernel events: there are some ten of them for each message, so those of a record are pulled round by round.
#[derive(Clone, Debug)]
pub enum KernelEvents {
    /// In memory.
    Here(Vec<Events>),
    /// In the record in this folder, from which the function reads those of a case.
    Recorded(PathBuf, ReadEvents),
}

/// Reads the kernel events of a case, as far as they are whole.
pub type ReadEvents = fn(&Path, u32) -> Box<dyn Iterator<Item = Events>>;

impl Default for KernelEvents {
    fn default() -> Self {
        Self::Here(Vec::new())
    }
}

impl KernelEvents {
    /// Gives `each` the events of every round of a case until it says that it has enough.
    pub(crate) fn rounds(&self, case: u32, mut each: impl FnMut(&Events) -> bool) {
        let _ = match self {
            Self::Here(all) => all.iter().filter(|events| events.case == case).any(each),
            Self::Recorded(folder, read) => read(folder, case).any(|events| each(&events)),
        };
    }

    /// Those in memory, to be changed.
    #[cfg(any(test, feature = "testing"))]
    pub fn here(&mut self) -> &mut Vec<Events> {
        match self {
            Self::Here(all) => all,
            Self::Recorded(..) => panic!("they are in a record"),
        }
    }
}
