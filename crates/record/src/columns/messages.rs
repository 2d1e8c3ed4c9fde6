//! Messages (in `messages.mpl`, `messages-csv` and `parquet`).

use msgpath_core::schema::MessageRow;

use super::{Column, Logged, stored};

type Message = Column<MessageRow>;

/// Those of their case stand before them.
pub(crate) static MESSAGES: [Column<MessageRow>; 10] = [
    Message::stored("connection", "", "connection, from 0", stored!(Itself, connection)),
    Message::stored(
        "sequence",
        "",
        "number within the connection, trimmed ones included",
        stored!(Difference, sequence),
    )
    .required(),
    Message::stored(
        "start_ns",
        "ns",
        "just before the send call, since the start of the run; open loop: the intended send",
        stored!(Difference, start_ns),
    )
    .required(),
    Message::stored("latency_ns", "ns", "from the start to the reply", stored!(?Optional, latency_ns))
        .or_empty("lost")
        .required(),
    Message::stored("far_ns", "ns", "arrival at the far end, after the start", stored!(?Optional, far_ns))
        .or_empty("no stamp, or no common clock"),
    Message::stored("late_ns", "ns", "actual send, after the start", stored!(?Optional, late_ns))
        .or_empty("closed loop"),
    Message::stored(
        "far_sent_ns",
        "ns",
        "the far end begins its reply, after the start",
        stored!(?Optional, far_sent_ns),
    )
    .or_empty("not traced"),
    Message::stored(
        "sent_ns",
        "ns",
        "return of the near end's send call, after the start",
        stored!(?Optional, sent_ns),
    )
    .or_empty("not traced"),
    Message::stored(
        "received_ns",
        "ns",
        "arrival at the far end by its clock, less the start by the near end's",
        stored!(?OptionalDifference, received_ns),
    )
    .or_empty("no stamp, or one clock")
    .rare(),
    Message::stored(
        "replied_ns",
        "ns",
        "the far end begins its reply, by its clock, less the start by the near end's",
        stored!(?OptionalDifference, replied_ns),
    )
    .or_empty("no stamp, or one clock")
    .rare(),
];

impl Logged for MessageRow {
    type Row = Self;
    const WHAT: &str = "messages";
    const COLUMNS: &[Message] = &MESSAGES;

    fn set_place(row: &mut Self, case: u32, pass: u32) {
        (row.case, row.pass) = (case, pass);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{block_of, decode, encode};

    #[test]
    fn the_bytes_of_a_message_block_stay_what_they_are() {
        let second = MessageRow { sequence: 101, start_ns: 4, ..MessageRow::default() };
        let (latency_ns, sent_ns) = (Some(200), Some(3));
        let first = MessageRow { sequence: 100, start_ns: 5, latency_ns, sent_ns, ..second };
        let payload = encode::<MessageRow>(2, 3, &[first, second]).unwrap();
        let columns: [(&str, u8, &[u8]); 8] = [
            ("connection", 1, &[0, 0]),
            ("sequence", 2, &[0xc8, 1, 2]),
            ("start_ns", 2, &[10, 1]),
            ("latency_ns", 4, &[0xc9, 1, 0]),
            ("far_ns", 4, &[0, 0]),
            ("late_ns", 4, &[0, 0]),
            ("far_sent_ns", 4, &[0, 0]),
            ("sent_ns", 4, &[4, 0]),
        ];
        assert_eq!(payload, block_of([2, 2, 3], &columns));
    }

    #[test]
    fn stamps_of_two_clocks_come_back_whatever_their_sign() {
        let of = |sequence, received_ns, replied_ns| {
            let (case, latency_ns) = (2, Some(200));
            MessageRow { case, pass: 3, sequence, latency_ns, received_ns, replied_ns, ..MessageRow::default() }
        };
        let most = (1 << 61) - 1;
        let written = [of(1, Some(-86_400_000_000_000), Some(-86_399_999_999_000)), of(2, None, Some(most))];
        let mut read = Vec::new();
        let place = decode::<MessageRow>(&encode::<MessageRow>(2, 3, &written).unwrap(), &mut read);
        assert_eq!((place.unwrap(), read.as_slice()), ((2, 3), written.as_slice()));
    }
}
