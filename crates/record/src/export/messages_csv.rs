//! `messages-csv`: one row per logged message.

use std::io::Write;

use msgpath_core::schema::MessageRow;

use super::{Exporter, messages, write_columns};
use crate::columns::messages::MESSAGES;
use crate::columns::{Column, of_case};
use crate::{RecordError, Run};

pub(super) struct MessagesCsv;

static CASE: [Column<MessageRow>; 13] = of_case();

/// What every export of messages has, in this order.
pub(super) fn columns() -> Vec<&'static Column<MessageRow>> {
    CASE.iter().chain(&MESSAGES).collect()
}

impl Exporter for MessagesCsv {
    fn name(&self) -> &'static str {
        "messages-csv"
    }

    fn extension(&self) -> &'static str {
        "csv"
    }

    fn summary(&self) -> &'static str {
        "one row per logged message; an empty latency is a lost message"
    }

    fn export(&self, run: &Run, out: &mut dyn Write) -> Result<(), RecordError> {
        write_columns(run, &columns(), messages(run)?, out)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use crate::export::tests::{exported, message};

    #[test]
    fn every_message_is_a_row() {
        let (bytes, written) = exported("messages-csv");
        let rows: Vec<HashMap<String, String>> =
            csv::Reader::from_reader(bytes.as_slice()).deserialize().map(Result::unwrap).collect();
        let back = rows.iter().map(|row| message(|name| row[name].parse().ok()));
        assert_eq!(back.collect::<Vec<_>>(), written.rows);
        assert_eq!((rows[10]["path"].as_str(), rows[10]["size_bytes"].as_str()), ("tcp:zerocopy", "65536"));
    }
}
