//! Kernel events (in `events.mpl`), in the order of time.

use msgpath_core::schema::{EventKind, KernelEvent};

use super::{Column, Form, Logged, Stored, stored};

type Event = Column<KernelEvent>;

/// They go into no table that is exported.
pub(crate) static EVENTS: [Event; 9] = [
    Event::stored(
        "kind",
        "",
        "what happened: its number in `EventKind` of `crates/core/src/schema.rs`",
        Stored::Number(
            Form::Itself,
            |event| Some(event.kind as u64),
            |event, cell| {
                event.kind = EventKind::from_number(u8::try_from(cell?).ok()?)?;
                Some(())
            },
        ),
    )
    .required(),
    Event::stored("t_ns", "ns", "time, since the start of the run", stored!(Rising, t_ns)).required(),
    Event::stored("cpu", "", "CPU", stored!(Itself, cpu)).required(),
    Event::stored(
        "tid",
        "",
        "thread that ran there",
        Stored::Number(
            Form::ByKind,
            |event| Some(event.tid as u64),
            |event, cell| {
                event.tid = i32::try_from(cell? as i64).ok()?;
                Some(())
            },
        ),
    )
    .required(),
    Event::stored("a", "", "state of the previous task, address, number or result, by kind", stored!(ByKind, a)),
    Event::stored("b", "", "task concerned, low bits of a socket's cookie, or signal, by kind", stored!(ByKind, b)),
    Event::stored("len", "bytes", "length of a packet, at most 65535", stored!(Itself, len)),
    Event::stored("flags", "", "1: the previous task was preempted", stored!(Itself, flags)),
    Event::stored(
        "end",
        "",
        "the end that traced it, by its own clock",
        Stored::Number(
            Form::Optional,
            |event| (event.end > 0).then_some(event.end.into()),
            |event, cell| {
                event.end = cell.unwrap_or(0).try_into().ok()?;
                Some(())
            },
        ),
    )
    .or_empty("the near end, or both by one clock")
    .rare(),
];

impl Logged for KernelEvent {
    type Row = Self;
    const WHAT: &str = "kernel events";
    const COLUMNS: &[Event] = &EVENTS;

    fn kind(event: &Self) -> usize {
        event.kind as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{MAX_NUMBER, block_of, decode, encode};

    #[test]
    fn the_bytes_of_a_block_of_events_stay_what_they_are() {
        let woken =
            KernelEvent { t_ns: 100, kind: EventKind::SchedWaking, cpu: 1, tid: 20, b: 21, ..Default::default() };
        let on = KernelEvent {
            t_ns: 130,
            kind: EventKind::SchedSwitch,
            tid: -1,
            a: u64::MAX,
            b: 5,
            len: 0,
            flags: 1,
            ..KernelEvent::default()
        };
        let again = KernelEvent { t_ns: 130, tid: 22, ..woken };
        let payload = encode::<KernelEvent>(2, 3, &[woken, on, again]).unwrap();
        let columns: [(&str, u8, &[u8]); 8] = [
            ("kind", 1, &[1, 3, 1]),
            ("t_ns", 3, &[100, 30, 0]),
            ("cpu", 1, &[1, 0, 1]),
            ("tid", 6, &[40, 1, 4]),
            ("a", 6, &[0, 1, 0]),
            ("b", 6, &[42, 10, 0]),
            ("len", 1, &[0, 0, 0]),
            ("flags", 1, &[0, 1, 0]),
        ];
        assert_eq!(payload, block_of([3, 2, 3], &columns));
    }

    #[test]
    fn events_know_which_end_traced_them() {
        let of = |t_ns, end| KernelEvent { t_ns, end, ..KernelEvent::default() };
        let written = [of(1, 0), of(1, 1), of(7, 0), of(9, 1)];
        let mut read: Vec<KernelEvent> = Vec::new();
        decode::<KernelEvent>(&encode::<KernelEvent>(2, 3, &written).unwrap(), &mut read).unwrap();
        assert_eq!(read, written);
    }

    #[test]
    fn a_usual_event_takes_few_bytes() {
        let round: Vec<KernelEvent> = (0..10_000)
            .map(|n| KernelEvent {
                t_ns: 5_000_000_000 + n * 1_300,
                kind: EventKind::ALL[n as usize % 14],
                cpu: n as u16 % 2,
                tid: 120_000 + n as i32 % 2,
                a: 0xffff_9c00_1234_5600 + n % 16 * 256,
                b: 120_000 + n as u32 % 2,
                len: 64,
                ..KernelEvent::default()
            })
            .collect();
        assert!(encode::<KernelEvent>(0, 0, &round).unwrap().len() < 11 * round.len());
    }

    #[test]
    fn events_out_of_order_are_refused() {
        let at = |t_ns| KernelEvent { t_ns, ..KernelEvent::default() };
        assert!(encode::<KernelEvent>(0, 0, &[at(2), at(1)]).unwrap_err().contains("t_ns"));
        assert!(encode::<KernelEvent>(0, 0, &[at(MAX_NUMBER)]).is_err());
        assert!(encode::<KernelEvent>(0, 0, &[]).is_err());
    }
}
