//! The log of calls of a run that is analysed.

use msgpath_analyse::Logs;
use msgpath_analyse::logs::Pulled;
use msgpath_core::schema::RpcRow;

/// The log; `None`: nobody read one.
pub fn log(logs: &Logs) -> Option<&Pulled<RpcRow>> {
    logs.own()
}
