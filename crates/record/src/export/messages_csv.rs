//! `messages-csv`: one row per logged message.

use std::io::Write;

use super::{Exporter, case, failed, messages};
use crate::{RecordError, Run};

pub(super) struct MessagesCsv;

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
        let rows = messages(run)?;
        let mut csv = csv::Writer::from_writer(out);
        // The names of the cases once, not once a message.
        let names: Vec<[String; 3]> = run
            .header
            .plan
            .cases
            .iter()
            .map(|case| [case.path.to_string(), case.size.to_string(), case.threads.to_string()])
            .collect();
        csv.write_record(COLUMNS).map_err(failed)?;
        for row in rows {
            let [path, size, threads] = &names[case(run, row.case).id as usize];
            let optional = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
            csv.write_record([
                &row.case.to_string(),
                path,
                size,
                threads,
                &row.pass.to_string(),
                &row.connection.to_string(),
                &row.sequence.to_string(),
                &row.start_ns.to_string(),
                &optional(row.latency_ns),
                &optional(row.far_ns),
                &optional(row.late_ns),
                &optional(row.far_sent_ns),
                &optional(row.sent_ns),
            ])
            .map_err(failed)?;
        }
        csv.flush().map_err(failed)
    }
}

const COLUMNS: [&str; 13] = [
    "case",
    "path",
    "size_bytes",
    "threads",
    "pass",
    "connection",
    "sequence",
    "start_ns",
    "latency_ns",
    "far_ns",
    "late_ns",
    "far_sent_ns",
    "sent_ns",
];

#[cfg(test)]
mod tests {
    use msgpath_core::schema::MessageRow;

    use crate::export::tests::exported;

    #[test]
    fn every_message_is_a_row() {
        let (bytes, written) = exported("messages-csv");
        type Case = (u32, String, u64, u32, u32, u32, u64, u64);
        type Row = (Case, (Option<u64>, Option<u64>, Option<u64>, Option<u64>, Option<u64>));
        let rows: Vec<Row> = csv::Reader::from_reader(bytes.as_slice()).deserialize().map(Result::unwrap).collect();
        let back: Vec<MessageRow> = rows
            .iter()
            .map(|((case, _, _, _, pass, connection, sequence, start_ns), optional)| {
                let (latency_ns, far_ns, late_ns, far_sent_ns, sent_ns) = *optional;
                MessageRow {
                    case: *case,
                    pass: *pass,
                    connection: *connection,
                    sequence: *sequence,
                    start_ns: *start_ns,
                    latency_ns,
                    late_ns,
                    far_ns,
                    far_sent_ns,
                    sent_ns,
                }
            })
            .collect();
        assert_eq!(back, written.rows);
        assert_eq!((rows[10].0.1.as_str(), rows[10].0.2), ("tcp:zerocopy", 65_536));
    }
}
