//! Calls (in `rpcs.mpl` and `rpc-csv`).

use msgpath_record::columns::{Cell, Column, Context, Form, Kind, Logged, Stored, stored, without_zeros};

use super::{RpcFacts, RpcPair, RpcRow, stamps};

type Call = Column<RpcRow>;

const UNKNOWN: &str = "not known";

/// All of them; what is exported otherwise than stored has both.
pub(super) static CALLS: [Column<RpcRow>; 30] = [
    Call::shown("case_id", Kind::Int32, "", "position of the case in the plan", |_, row| row.case.into()),
    Call::shown("method", Kind::Text, "", "the kind of call", |of, row| {
        of.run.header.plan.cases[row.case as usize].label.as_deref().into()
    })
    .or_empty("it has no name"),
    Call::shown("pass", Kind::Int32, "", "pass, from 0", |_, row| row.pass.into()),
    Call::stored("pair", "", "pair of machines: position in `rpc.pairs` of the header", stored!(Itself, pair)).hidden(),
    Call::stored("connection", "", "connection, from 0 within the run", stored!(Itself, connection)),
    Call::shown("client", Kind::Text, "", "address of the client", |of, row| {
        pair(of, row).map(|pair| pair.client.as_str()).into()
    }),
    Call::shown("server", Kind::Text, "", "address of the server", |of, row| {
        pair(of, row).map(|pair| pair.server.as_str()).into()
    }),
    Call::stored("rpcid", "", "id of the call", stored!(Itself, rpcid)).required(),
    Call::stored("parent", "", "id of the call that made it; 0: none", stored!(Itself, parent)),
    Call::stored("status", "", "status of the reply; 0: success", stored!(Itself, status)),
    Call::stored("request_bytes", "bytes", "the request with all headers", stored!(Difference, request_bytes))
        .shown_by(Kind::Int64, |_, row| Some(row.request_bytes).filter(|bytes| *bytes > 0).into())
        .or_empty("not known; 0 in the block")
        .required(),
    // A reply has a header at least.
    Call::stored("reply_bytes", "bytes", "the reply with all headers", stored!(Difference, reply_bytes))
        .shown_by(Kind::Int64, |_, row| Some(row.reply_bytes).filter(|bytes| *bytes > 0).into())
        .or_empty("no reply; 0 in the block")
        .required(),
    Call::stored(
        "lengths_estimated",
        "",
        "1: the lengths come from the one-byte logarithm of a log (within 4.5 %)",
        Stored::Number(
            Form::Itself,
            |row| Some(row.lengths_estimated.into()),
            |row, cell| {
                row.lengths_estimated = *[false, true].get(usize::try_from(cell?).ok()?)?;
                Some(())
            },
        ),
    ),
    Call::stored("key", "", "first bytes of the key", Stored::Key(|row| &row.key, |row| &mut row.key))
        .shown_by(Kind::Text, |_, row| Cell::Text(String::from_utf8_lossy(without_zeros(&row.key)))),
    Call::shown("t1_ns", Kind::Int64, "ns", "T1, since 1970", |of, row| stamp(of, row, 0)),
    Call::shown("t2_ns", Kind::Int64, "ns", "T2, by the server's clock", |of, row| stamp(of, row, 1)).or_empty(UNKNOWN),
    Call::shown("t3_ns", Kind::Int64, "ns", "T3, by the server's clock", |of, row| stamp(of, row, 2)).or_empty(UNKNOWN),
    Call::shown("t4_ns", Kind::Int64, "ns", "T4", |of, row| stamp(of, row, 3)).or_empty("no reply"),
    Call::stored("start_ns", "ns", "T1, since the start of the run", stored!(Difference, start_ns)).required().hidden(),
    Call::stored("latency_ns", "ns", "T4 − T1", stored!(?Optional, latency_ns))
        .or_empty("no reply")
        .required()
        .hidden(),
    Call::stored("received_ns", "ns", "T2 − T1, two clocks", stored!(?OptionalDifference, received_ns))
        .or_empty(UNKNOWN)
        .hidden(),
    Call::stored("replied_ns", "ns", "T3 − T1, two clocks", stored!(?OptionalDifference, replied_ns))
        .or_empty(UNKNOWN)
        .hidden(),
    Call::stored("sent_ns", "ns", "return of the send call, after T1", stored!(?Optional, sent_ns)).or_empty(UNKNOWN),
    Call::stored("first_ns", "ns", "first bytes of the reply, after T1", stored!(?Optional, first_ns))
        .or_empty(UNKNOWN),
    Call::stored("waited_ns", "ns", "wait at the server before it read", stored!(?Optional, waited_ns))
        .or_empty(UNKNOWN),
    Call::stored("lock_ns", "ns", "part of T3 − T2 in which it waited for a lock", stored!(?Optional, lock_ns))
        .or_empty(UNKNOWN),
    Call::stored("late_ns", "ns", "from the intended send to T1", stored!(?Optional, late_ns)).or_empty("closed loop"),
    Call::stored("client_port", "", "port of the client", stored!(?Optional, client_port)).rare().or_empty(UNKNOWN),
    Call::stored(
        "request_begin",
        "",
        "first bytes of the request's body",
        Stored::Key(|row| &row.request_begin, |row| &mut row.request_begin),
    )
    .rare()
    .hidden(),
    Call::stored(
        "reply_begin",
        "",
        "first bytes of the reply's body",
        Stored::Key(|row| &row.reply_begin, |row| &mut row.reply_begin),
    )
    .rare()
    .hidden(),
];

fn pair<'a>(of: &Context<'a>, row: &RpcRow) -> Option<&'a RpcPair> {
    of.run.header.parts.get::<RpcFacts>()?.pairs.get(row.pair as usize)
}

fn stamp<'a>(of: &Context<'_>, row: &RpcRow, at: usize) -> Cell<'a> {
    of.run.header.parts.get::<RpcFacts>().and_then(|facts| stamps(facts, row)[at]).into()
}

impl Logged for RpcRow {
    type Row = Self;
    const WHAT: &str = "calls";
    const COLUMNS: &[Call] = &CALLS;

    fn set_place(row: &mut Self, case: u32, pass: u32) {
        (row.case, row.pass) = (case, pass);
    }
}

#[cfg(test)]
mod tests {
    use msgpath_record::block::put_section;
    use msgpath_record::columns::{MAX_NUMBER, decode, documented, encode, table};

    use super::*;

    #[test]
    fn the_document_has_these_columns() {
        documented(&[("calls", table(&CALLS))]);
    }

    /// Number of rows, case and pass, and these columns.
    fn block_of(place: [u8; 3], columns: &[(&str, u64, &[u8])]) -> Vec<u8> {
        let mut out = place.to_vec();
        columns.iter().for_each(|(name, form, cells)| put_section(&mut out, name, *form, cells));
        out
    }

    #[test]
    fn the_bytes_of_a_block_of_calls_stay_what_they_are() {
        let mut first = RpcRow { rpcid: 7, status: 1, start_ns: 5, ..RpcRow::default() };
        first.key[..2].copy_from_slice(b"kk");
        first.received_ns = Some(-3);
        let second = RpcRow { received_ns: None, latency_ns: Some(9), lock_ns: Some(0), ..first };
        let third = RpcRow { received_ns: Some(-4), ..second };
        let payload = encode::<RpcRow>(2, 3, &[first, second, third]).unwrap();
        let none: &[u8] = &[0, 0, 0];
        let columns: [(&str, u64, &[u8]); 18] = [
            ("pair", 1, none),
            ("connection", 1, none),
            ("rpcid", 1, &[7, 7, 7]),
            ("parent", 1, none),
            ("status", 1, &[1, 1, 1]),
            ("request_bytes", 2, none),
            ("reply_bytes", 2, none),
            ("lengths_estimated", 1, none),
            ("key", 7, &[2, b'k', b'k', 17, 17]),
            ("start_ns", 2, &[10, 0, 0]),
            ("latency_ns", 4, &[0, 10, 10]),
            ("received_ns", 5, &[6, 0, 2]),
            ("replied_ns", 5, none),
            ("sent_ns", 4, none),
            ("first_ns", 4, none),
            ("waited_ns", 4, none),
            ("lock_ns", 4, &[0, 1, 1]),
            ("late_ns", 4, none),
        ];
        assert_eq!(payload, block_of([3, 2, 3], &columns));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let row = RpcRow { received_ns: Some(i64::MIN), ..RpcRow::default() };
        assert!(encode::<RpcRow>(0, 0, &[row]).unwrap_err().contains("out of its range"));
        let row = RpcRow { late_ns: Some(MAX_NUMBER), ..RpcRow::default() };
        assert!(encode::<RpcRow>(0, 0, &[row]).unwrap_err().contains("out of its range"));
        assert!(encode::<RpcRow>(0, 0, &[]).is_err());
        // 18 bytes are not a key.
        let key = [vec![18], vec![0; 18]].concat();
        let payload = block_of([1, 0, 0], &[("key", 7, &key)]);
        assert!(decode::<RpcRow>(&payload, &mut Vec::new()).is_err());
    }
}
