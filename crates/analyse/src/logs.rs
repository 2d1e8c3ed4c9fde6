//! What a run has beside its rounds, as far as somebody read it.

use msgpath_core::schema::{MessageRow, RpcRow};
use msgpath_record::Events;

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
    pub events: Vec<Events>,
}
