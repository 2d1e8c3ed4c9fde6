//! Calls (in `rpcs.mpl`).
//!
//! | column | form |
//! |---|---|
//! | pair of machines | itself |
//! | connection | itself |
//! | id | itself |
//! | parent | itself |
//! | status | itself |
//! | bytes of the request | difference |
//! | bytes of the reply | difference |
//! | whether the lengths are estimated | itself: 0 or 1 |
//! | key | itself: its bytes without the zeros at the end (0 to 16), and those bytes; 17: as in the row before |
//! | T1, ns since the start of the run | difference |
//! | T4 - T1, ns | optional |
//! | T2 - T1, ns | optional difference |
//! | T3 - T1, ns | optional difference |
//! | return of the send call, ns after T1 | optional |
//! | first bytes of the reply, ns after T1 | optional |
//! | wait at the server, ns | optional |
//! | wait for a lock, ns | optional |
//! | lateness, ns | optional |

use msgpath_core::schema::RpcRow;
use msgpath_core::varint;

use super::{Cells, Columns, MAX_NUMBER};

/// Stands for the key of the row before.
const SAME_KEY: u64 = 17;

/// The payload of `rows`: 1 to [`MAX_ROWS`](crate::block::MAX_ROWS) calls of one case and pass.
pub(crate) fn encode_calls(rows: &[RpcRow]) -> Result<Vec<u8>, String> {
    let fits = |row: &RpcRow| {
        let plain = [row.request_bytes, row.reply_bytes, row.start_ns];
        let optional = [row.latency_ns, row.sent_ns, row.first_ns, row.waited_ns, row.lock_ns, row.late_ns];
        let signed = [row.received_ns, row.replied_ns].map(|value| value.map_or(0, i64::unsigned_abs));
        let optional = optional.map(Option::unwrap_or_default);
        plain.into_iter().chain(optional).chain(signed).all(|number| number < MAX_NUMBER)
    };
    if let Some(row) = rows.iter().find(|row| !fits(row)) {
        return Err(format!("a number of a call is not below {MAX_NUMBER}: {row:?}"));
    }
    let (case, pass) = rows.first().map_or((0, 0), |row| (row.case, row.pass));
    let mut columns = Columns::new(rows, case, pass, 32)?;
    columns.plain(|row| row.pair.into());
    columns.plain(|row| row.connection.into());
    columns.plain(|row| row.rpcid.into());
    columns.plain(|row| row.parent.into());
    columns.plain(|row| row.status.into());
    columns.difference(|row| row.request_bytes);
    columns.difference(|row| row.reply_bytes);
    columns.plain(|row| row.lengths_estimated.into());
    put_keys(&mut columns);
    columns.difference(|row| row.start_ns);
    columns.optional(|row| row.latency_ns);
    columns.optional_difference(|row| row.received_ns);
    columns.optional_difference(|row| row.replied_ns);
    columns.optional(|row| row.sent_ns);
    columns.optional(|row| row.first_ns);
    columns.optional(|row| row.waited_ns);
    columns.optional(|row| row.lock_ns);
    columns.optional(|row| row.late_ns);
    Ok(columns.out)
}

fn put_keys(columns: &mut Columns<'_, RpcRow>) {
    let mut before = [0; 16];
    for row in columns.rows {
        if row.key == before {
            varint::put(&mut columns.out, SAME_KEY);
        } else {
            let length = row.key.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            varint::put(&mut columns.out, length as u64);
            columns.out.extend_from_slice(&row.key[..length]);
            before = row.key;
        }
    }
}

/// Replaces `rows` by those of `payload`.
pub(crate) fn decode_calls(payload: &[u8], rows: &mut Vec<RpcRow>) -> Result<(), String> {
    rows.clear();
    decode(payload, rows).ok_or_else(|| "the columns of the calls do not fill their block".into())
}

fn decode(payload: &[u8], rows: &mut Vec<RpcRow>) -> Option<()> {
    let (mut cells, count, case, pass) = Cells::new(payload)?;
    rows.resize(count, RpcRow { case, pass, ..RpcRow::default() });
    let small: [fn(&mut RpcRow) -> &mut u32; 5] = [
        |row| &mut row.pair,
        |row| &mut row.connection,
        |row| &mut row.rpcid,
        |row| &mut row.parent,
        |row| &mut row.status,
    ];
    for column in small {
        for row in rows.iter_mut() {
            *column(row) = cells.small()?;
        }
    }
    let mut before = 0;
    for row in rows.iter_mut() {
        row.request_bytes = cells.difference(&mut before)?;
    }
    before = 0;
    for row in rows.iter_mut() {
        row.reply_bytes = cells.difference(&mut before)?;
    }
    for row in rows.iter_mut() {
        row.lengths_estimated = [false, true].get(usize::try_from(cells.take()?).ok()?).copied()?;
    }
    let mut key = [0; 16];
    for row in rows.iter_mut() {
        let length = cells.take()?;
        if length != SAME_KEY {
            let (bytes, rest) = cells.bytes.split_at_checked(usize::try_from(length).ok()?)?;
            cells.bytes = rest;
            key = [0; 16];
            key.get_mut(..bytes.len())?.copy_from_slice(bytes);
        }
        row.key = key;
    }
    before = 0;
    for row in rows.iter_mut() {
        row.start_ns = cells.difference(&mut before)?;
    }
    for row in rows.iter_mut() {
        row.latency_ns = cells.optional()?;
    }
    before = 0;
    for row in rows.iter_mut() {
        row.received_ns = cells.optional_difference(&mut before)?;
    }
    before = 0;
    for row in rows.iter_mut() {
        row.replied_ns = cells.optional_difference(&mut before)?;
    }
    let optional: [fn(&mut RpcRow) -> &mut Option<u64>; 5] = [
        |row| &mut row.sent_ns,
        |row| &mut row.first_ns,
        |row| &mut row.waited_ns,
        |row| &mut row.lock_ns,
        |row| &mut row.late_ns,
    ];
    for column in optional {
        for row in rows.iter_mut() {
            *column(row) = cells.optional()?;
        }
    }
    cells.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row() -> impl Strategy<Value = RpcRow> {
        let number = || prop_oneof![0_u64..1000, 0..MAX_NUMBER];
        let signed = || prop::option::of(1 - (MAX_NUMBER as i64)..MAX_NUMBER as i64);
        let key = prop_oneof![Just([0; 16]), Just(*b"kkkkk\0\0\0\0\0\0\0\0\0\0\0"), any::<[u8; 16]>()];
        let small = prop::array::uniform5(any::<u32>());
        let optional = prop::array::uniform6(prop::option::of(number()));
        (small, [number(), number(), number()], any::<bool>(), key, [signed(), signed()], optional).prop_map(
            |(small, plain, lengths_estimated, key, signed, optional)| {
                let [pair, connection, rpcid, parent, status] = small;
                let [request_bytes, reply_bytes, start_ns] = plain;
                let [received_ns, replied_ns] = signed;
                let [latency_ns, sent_ns, first_ns, waited_ns, lock_ns, late_ns] = optional;
                RpcRow {
                    case: 0,
                    pass: 0,
                    pair,
                    connection,
                    rpcid,
                    parent,
                    status,
                    request_bytes,
                    reply_bytes,
                    lengths_estimated,
                    key,
                    start_ns,
                    latency_ns,
                    received_ns,
                    replied_ns,
                    sent_ns,
                    first_ns,
                    waited_ns,
                    lock_ns,
                    late_ns,
                }
            },
        )
    }

    #[test]
    fn the_bytes_of_a_block_of_calls_stay_what_they_are() {
        let mut first = RpcRow { case: 2, pass: 3, rpcid: 7, status: 1, start_ns: 5, ..RpcRow::default() };
        first.key[..2].copy_from_slice(b"kk");
        first.received_ns = Some(-3);
        let second = RpcRow { received_ns: None, latency_ns: Some(9), lock_ns: Some(0), ..first };
        let third = RpcRow { received_ns: Some(-4), ..second };
        let payload = encode_calls(&[first, second, third]).unwrap();
        let (head, small) = ([3, 2, 3], [0, 0, 0, 0, 0, 0, 7, 7, 7, 0, 0, 0, 1, 1, 1]);
        let (lengths, keys, start) = ([0; 9], [2, b'k', b'k', 17, 17], [10, 0, 0]);
        let (latency, received, rest) = ([0, 10, 10], [6, 0, 2], [0; 3]);
        let (sent_first_waited, lock, late) = ([0; 9], [0, 1, 1], [0; 3]);
        let all: Vec<u8> =
            [&head[..], &small, &lengths, &keys, &start, &latency, &received, &rest, &sent_first_waited, &lock, &late]
                .concat();
        assert_eq!(payload, all);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let row = RpcRow { received_ns: Some(i64::MIN), ..RpcRow::default() };
        assert!(encode_calls(&[row]).unwrap_err().contains("not below"));
        let row = RpcRow { late_ns: Some(MAX_NUMBER), ..RpcRow::default() };
        assert!(encode_calls(&[row]).unwrap_err().contains("not below"));
        assert!(encode_calls(&[]).is_err());
        let mut payload = encode_calls(&[RpcRow::default()]).unwrap();
        // The key: 18 bytes are no key.
        payload[11] = 18;
        payload.splice(12..12, [0; 18]);
        assert!(decode_calls(&payload, &mut Vec::new()).is_err());
    }

    proptest! {
        #[test]
        fn calls_come_back_whole(
            case: u32,
            pass: u32,
            mut rows in prop::collection::vec(row(), 1..100),
            cut: prop::sample::Index,
        ) {
            rows.iter_mut().for_each(|row| (row.case, row.pass) = (case, pass));
            let payload = encode_calls(&rows).unwrap();
            let mut back = Vec::new();
            decode_calls(&payload, &mut back).unwrap();
            prop_assert_eq!(&back, &rows);
            prop_assert!(decode_calls(&payload[..cut.index(payload.len())], &mut back).is_err());
        }
    }
}
