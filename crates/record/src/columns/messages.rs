//! Messages (in `messages.mpl`).
//!
//! | column | form |
//! |---|---|
//! | connection | itself |
//! | sequence | difference |
//! | start, ns since the start of the run | difference |
//! | latency, ns | optional; none: lost |
//! | arrival at the far end, ns after the start | optional; none: no stamp |
//! | actual send, ns after the start (open loop: the start is the intended send) | optional; none: closed loop |
//! | the far end begins its reply, ns after the start | optional; none: not traced |
//! | return of the near end's send call, ns after the start | optional; none: not traced |

use msgpath_core::schema::MessageRow;

use super::{Cells, Columns, MAX_NUMBER};

/// The payload of `rows`: 1 to [`MAX_ROWS`](crate::block::MAX_ROWS) messages of one case and pass.
pub(crate) fn encode_messages(rows: &[MessageRow]) -> Result<Vec<u8>, String> {
    let numbers = |row: &MessageRow| {
        let optional = [row.latency_ns, row.far_ns, row.late_ns, row.far_sent_ns, row.sent_ns];
        [row.sequence, row.start_ns].into_iter().chain(optional.map(Option::unwrap_or_default))
    };
    if let Some(row) = rows.iter().find(|row| numbers(row).any(|number| number >= MAX_NUMBER)) {
        return Err(format!("a number of a message is not below {MAX_NUMBER}: {row:?}"));
    }
    let (case, pass) = rows.first().map_or((0, 0), |row| (row.case, row.pass));
    let mut columns = Columns::new(rows, case, pass, 10)?;
    columns.plain(|row| row.connection.into());
    columns.difference(|row| row.sequence);
    columns.difference(|row| row.start_ns);
    columns.optional(|row| row.latency_ns);
    columns.optional(|row| row.far_ns);
    columns.optional(|row| row.late_ns);
    columns.optional(|row| row.far_sent_ns);
    columns.optional(|row| row.sent_ns);
    Ok(columns.out)
}

/// Replaces `rows` by those of `payload`.
pub(crate) fn decode_messages(payload: &[u8], rows: &mut Vec<MessageRow>) -> Result<(), String> {
    rows.clear();
    decode(payload, rows).ok_or_else(|| "the columns of the messages do not fill their block".into())
}

fn decode(payload: &[u8], rows: &mut Vec<MessageRow>) -> Option<()> {
    let (mut cells, count, case, pass) = Cells::new(payload)?;
    rows.resize(count, MessageRow { case, pass, ..MessageRow::default() });
    for row in rows.iter_mut() {
        row.connection = cells.small()?;
    }
    let mut before = 0;
    for row in rows.iter_mut() {
        row.sequence = cells.difference(&mut before)?;
    }
    before = 0;
    for row in rows.iter_mut() {
        row.start_ns = cells.difference(&mut before)?;
    }
    for row in rows.iter_mut() {
        row.latency_ns = cells.optional()?;
    }
    for row in rows.iter_mut() {
        row.far_ns = cells.optional()?;
    }
    for row in rows.iter_mut() {
        row.late_ns = cells.optional()?;
    }
    for row in rows.iter_mut() {
        row.far_sent_ns = cells.optional()?;
    }
    for row in rows.iter_mut() {
        row.sent_ns = cells.optional()?;
    }
    cells.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Parts = ((u32, u64, u64), [Option<u64>; 5]);

    fn parts() -> impl Strategy<Value = Parts> {
        let number = || prop_oneof![0_u64..1000, 0..MAX_NUMBER];
        ((any::<u32>(), number(), number()), prop::array::uniform5(prop::option::of(number())))
    }

    fn row(case: u32, pass: u32, ((connection, sequence, start_ns), optional): Parts) -> MessageRow {
        let [latency_ns, late_ns, far_ns, far_sent_ns, sent_ns] = optional;
        MessageRow { case, pass, connection, sequence, start_ns, latency_ns, late_ns, far_ns, far_sent_ns, sent_ns }
    }

    #[test]
    fn the_bytes_of_a_message_block_stay_what_they_are() {
        let first = row(2, 3, ((0, 100, 5), [Some(200), None, None, None, Some(3)]));
        let second = row(2, 3, ((0, 101, 4), [None; 5]));
        let payload = encode_messages(&[first, second]).unwrap();
        assert_eq!(payload, [2, 2, 3, 0, 0, 0xc8, 1, 2, 10, 1, 0xc9, 1, 0, 0, 0, 0, 0, 0, 0, 4, 0]);
    }

    proptest! {
        #[test]
        fn messages_come_back_whole(
            case: u32,
            pass: u32,
            parts in prop::collection::vec(parts(), 1..200),
            cut: prop::sample::Index,
        ) {
            let rows: Vec<MessageRow> = parts.into_iter().map(|parts| row(case, pass, parts)).collect();
            let payload = encode_messages(&rows).unwrap();
            let mut back = Vec::new();
            decode_messages(&payload, &mut back).unwrap();
            prop_assert_eq!(&back, &rows);
            prop_assert!(decode_messages(&payload[..cut.index(payload.len())], &mut back).is_err());
        }
    }
}
