//! What is collected from the near end after a round of calls.

use crate::agent::client::orders::{Answer, Called, Record};
use crate::record::RpcRow;
use msgpath_agent::wire::read_histograms;
use msgpath_core::{Histogram, Problem};

use msgpath_run::Link;
use msgpath_run::out_of_turn;

/// All of it.
pub(super) struct Collected {
    pub(super) called: Called,
    /// See [`Called::histograms`].
    pub(super) histograms: [Histogram; 3],
    pub(super) rows: Vec<RpcRow>,
    pub(super) records: Vec<Record>,
    /// What the server said.
    pub(super) texts: Vec<String>,
}

impl Collected {
    /// Takes it from an end that reports.
    ///
    /// # Errors
    /// E17 where it is gone, E03 for what is not a report.
    pub(super) fn fetch(near: &mut Link) -> Result<Self, Problem> {
        let (mut rows, mut records, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let (said, bytes) = near.answer()?;
            match said.of_role() {
                Ok(Answer::Calls(batch)) => {
                    let (more, also) = batch.read(&bytes).ok_or_else(out_of_turn)?;
                    rows.extend(more);
                    records.extend(also);
                    texts.extend(batch.texts);
                }
                Ok(Answer::Called(called)) => {
                    let histograms = read_histograms(called.histograms, &bytes).ok_or_else(out_of_turn)?;
                    return Ok(Self { called: *called, histograms, rows, records, texts });
                }
                Ok(Answer::Calling { .. }) => return Err(out_of_turn()),
                Err(other) => return Err(super::had(other).err().unwrap_or_else(out_of_turn)),
            }
        }
    }
}
