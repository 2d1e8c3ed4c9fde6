//! Kernel events (in `events.mpl`), in the order of time.
//!
//! | column | form |
//! |---|---|
//! | kind | itself: its number |
//! | time, ns since the start of the run | the difference from the row before (from 0 at first); no zigzag, it never falls |
//! | CPU | itself |
//! | thread | zigzag of the difference from the last event of the same kind (from 0 at first) |
//! | `a` | the same; all 64 bits |
//! | `b` | the same |
//! | length | itself |
//! | flags | itself |

use msgpath_core::schema::{EventKind, KernelEvent};
use msgpath_core::varint;

use super::{Cells, Columns, MAX_NUMBER, unzigzag, zigzag};

/// One value for each kind, at its number.
type Before = [u64; EventKind::ALL.len() + 1];

/// The payload of `events`: 1 to [`MAX_ROWS`](crate::block::MAX_ROWS) events of one round.
pub(crate) fn encode_events(case: u32, pass: u32, events: &[KernelEvent]) -> Result<Vec<u8>, String> {
    if !events.is_sorted_by_key(|event| event.t_ns) {
        return Err("kernel events that are not in the order of time".into());
    }
    if let Some(event) = events.last().filter(|event| event.t_ns >= MAX_NUMBER) {
        return Err(format!("the time of a kernel event is not below {MAX_NUMBER}: {event:?}"));
    }
    let mut columns = Columns::new(events, case, pass, 16)?;
    columns.plain(|event| event.kind as u64);
    let mut before = 0;
    for event in events {
        varint::put(&mut columns.out, event.t_ns - before);
        before = event.t_ns;
    }
    columns.plain(|event| event.cpu.into());
    let by_kind: [fn(&KernelEvent) -> u64; 3] = [|event| event.tid as u64, |event| event.a, |event| event.b.into()];
    for column in by_kind {
        let mut before: Before = Default::default();
        for event in events {
            let last = &mut before[event.kind as usize];
            varint::put(&mut columns.out, zigzag(column(event), *last));
            *last = column(event);
        }
    }
    columns.plain(|event| event.len.into());
    columns.plain(|event| event.flags.into());
    Ok(columns.out)
}

/// Appends the events of `payload` to `events`; their case and pass.
pub(crate) fn decode_events(payload: &[u8], events: &mut Vec<KernelEvent>) -> Result<(u32, u32), String> {
    let from = events.len();
    let decoded = decode(payload, events);
    if decoded.is_none() {
        events.truncate(from);
    }
    decoded.ok_or_else(|| "the columns of the kernel events do not fill their block".into())
}

fn decode(payload: &[u8], all: &mut Vec<KernelEvent>) -> Option<(u32, u32)> {
    let (mut cells, count, case, pass) = Cells::new(payload)?;
    let from = all.len();
    all.resize(from + count, KernelEvent::default());
    let events = &mut all[from..];
    for event in events.iter_mut() {
        event.kind = EventKind::from_number(u8::try_from(cells.take()?).ok()?)?;
    }
    let mut t_ns = 0;
    for event in events.iter_mut() {
        t_ns += cells.number()?;
        event.t_ns = Some(t_ns).filter(|t_ns| *t_ns < MAX_NUMBER)?;
    }
    for event in events.iter_mut() {
        event.cpu = cells.take()?.try_into().ok()?;
    }
    let mut by_kind = |set: fn(&mut KernelEvent, u64) -> Option<()>| {
        let mut before: Before = Default::default();
        events.iter_mut().try_for_each(|event| {
            let last = &mut before[event.kind as usize];
            *last = unzigzag(cells.take()?, *last);
            set(event, *last)
        })
    };
    by_kind(|event, value| i32::try_from(value as i64).ok().map(|tid| event.tid = tid))?;
    by_kind(|event, value| {
        event.a = value;
        Some(())
    })?;
    by_kind(|event, value| u32::try_from(value).ok().map(|b| event.b = b))?;
    for event in events.iter_mut() {
        event.len = cells.take()?.try_into().ok()?;
    }
    for event in events.iter_mut() {
        event.flags = cells.take()?.try_into().ok()?;
    }
    cells.end().map(|()| (case, pass))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event() -> impl Strategy<Value = KernelEvent> {
        let time = prop_oneof![0_u64..1000, 0..MAX_NUMBER];
        let kind = prop::sample::select(&EventKind::ALL[..]);
        let others = (any::<u16>(), any::<i32>(), any::<u64>(), any::<u32>(), any::<u16>(), any::<u16>());
        (time, kind, others).prop_map(|(t_ns, kind, (cpu, tid, a, b, len, flags))| KernelEvent {
            t_ns,
            kind,
            cpu,
            tid,
            a,
            b,
            len,
            flags,
        })
    }

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
            cpu: 0,
        };
        let again = KernelEvent { t_ns: 130, tid: 22, ..woken };
        let payload = encode_events(2, 3, &[woken, on, again]).unwrap();
        let columns =
            [[3, 2, 3], [1, 3, 1], [100, 30, 0], [1, 0, 1], [40, 1, 4], [0, 1, 0], [42, 10, 0], [0, 0, 0], [0, 1, 0]];
        assert_eq!(payload, columns.concat());
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
                flags: 0,
            })
            .collect();
        assert!(encode_events(0, 0, &round).unwrap().len() < 11 * round.len());
    }

    #[test]
    fn events_out_of_order_are_refused() {
        let at = |t_ns| KernelEvent { t_ns, ..KernelEvent::default() };
        assert!(encode_events(0, 0, &[at(2), at(1)]).unwrap_err().contains("order"));
        assert!(encode_events(0, 0, &[at(MAX_NUMBER)]).is_err());
        assert!(encode_events(0, 0, &[]).is_err());
    }

    proptest! {
        #[test]
        fn events_come_back_whole(
            case: u32,
            pass: u32,
            mut events in prop::collection::vec(event(), 1..100),
            cut: prop::sample::Index,
        ) {
            events.sort_by_key(|event| event.t_ns);
            let payload = encode_events(case, pass, &events).unwrap();
            let mut back = vec![KernelEvent::default()];
            prop_assert_eq!(decode_events(&payload, &mut back), Ok((case, pass)));
            prop_assert_eq!(&back[1..], &events[..]);
            prop_assert!(decode_events(&payload[..cut.index(payload.len())], &mut back).is_err());
            prop_assert_eq!(back.len(), events.len() + 1);
        }
    }
}
