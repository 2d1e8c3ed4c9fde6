//! Who traces the kernel under a pair of ends, and what both tracers saw of a round, brought into one list.
//!
//! On one clock the coordinator traces both ends. Ends with a clock each have a kernel each, as far as anybody knows: the
//! coordinator traces that of the near end, which is always its own, and the far end traces its own.

use msgpath_agent::observe::{KERNEL, Traced, Tracer};
use msgpath_agent::wire::{FromEnd, ToEnd, TraceOrder};
use msgpath_core::plan::StageSet;
use msgpath_core::schema::{EndTrace, FAR, KernelEvent, RunHeader, Tracing};
use msgpath_core::{Problem, Unavailable};

use crate::link::{Pair, Side};
use crate::round::out_of_turn;

/// The events of a far end are no further apart, ns: 13 days. No round takes longer.
const LONGEST_NS: u64 = 1 << 50;
/// Two clocks of CLOCK_MONOTONIC are less apart, ns: 73 years.
const FURTHEST_NS: u64 = 1 << 61;

/// Opens what traces the ends of this pair, with room for so many events a round, and writes down what it is.
///
/// # Errors
/// The far end has gone, or answers something else.
pub(crate) fn open(
    pair: &mut Pair,
    header: &mut RunHeader,
    set: StageSet,
    room: usize,
) -> Result<Option<Tracer>, Problem> {
    let (tracer, tracing) = Tracer::open(set, room);
    header.tracing = Some(tracing);
    if !pair.one_clock() {
        pair.far.send(&ToEnd::Trace(TraceOrder { set, room }))?;
        header.ends[FAR].tracing = match pair.answer(Side::Far)?.0 {
            FromEnd::Tracing(tracing) => Some(*tracing),
            _ => return Err(out_of_turn()),
        };
    }
    Ok(tracer)
}

/// Why nothing is traced where two ends without a common clock have no packets between them.
pub(crate) fn none_between() -> Tracing {
    let why = "the ends have no common clock, and no message here is a packet on a device, which both could see";
    let refused = vec![(KERNEL.into(), Unavailable::new(why, "a path over IP, or both ends by one clock"))];
    Tracing { refused, ..Tracing::default() }
}

/// Adds what the far end saw of a round to the events of the near end, whose times are ns since the start of the run and in
/// order. `start_ns`: when the round began; `since_start`: what is to be added to a clock to have it since the start of the run,
/// ns. The far end's times keep their differences, and [`EndTrace`] says what its clock had.
pub(crate) fn add(events: &mut Vec<KernelEvent>, far: Traced, start_ns: u64, since_start: i64) -> EndTrace {
    let Traced { events: own, mut lost, tasks, unseen } = far;
    let first = own.first().map_or(0, |first| first.t_ns);
    let origin_ns = (first as i64).wrapping_add(since_start).wrapping_sub(start_ns as i64);
    let all = own.len();
    // What no clock shows is no event.
    let own = own.into_iter().filter(|event| {
        event.t_ns.abs_diff(first) < LONGEST_NS && origin_ns.unsigned_abs() < FURTHEST_NS && start_ns < FURTHEST_NS
    });
    let had = events.len();
    events.extend(own.map(|event| KernelEvent { t_ns: event.t_ns - first + start_ns, end: FAR as u8, ..event }));
    lost = lost.saturating_add((all - (events.len() - had)) as u64);
    events.sort_by_key(|event| event.t_ns);
    EndTrace { end: FAR as u8, origin_ns, lost, unseen, tasks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_another_clock_keep_their_differences() {
        let at = |t_ns| KernelEvent { t_ns, ..KernelEvent::default() };
        // The near end's clock had 1 000 000 when the run began; the far end's is 400 behind, or a day ahead.
        for ahead in [-999_400_i64, 86_400_000_000_000] {
            let clock = |t: i64| (1_000_000 + t + ahead) as u64;
            let traced = Traced { events: vec![at(clock(700)), at(clock(705))], lost: 2, ..Traced::default() };
            let mut events = vec![at(500), at(502), at(506)];
            let trace = add(&mut events, traced, 501, -1_000_000);
            let seen: Vec<(u64, u8)> = events.iter().map(|event| (event.t_ns, event.end)).collect();
            assert_eq!(seen, [(500, 0), (501, 1), (502, 0), (506, 0), (506, 1)]);
            assert_eq!((trace.end, trace.lost), (1, 2));
            // What the clock had since the start of the run.
            assert_eq!(trace.origin_ns + 501, 700 + ahead);
        }
    }

    #[test]
    fn times_that_no_clock_has_are_lost_events() {
        let events = [5, 6, u64::MAX].map(|t_ns| KernelEvent { t_ns, ..KernelEvent::default() }).to_vec();
        let mut all = Vec::new();
        let trace = add(&mut all, Traced { events, ..Traced::default() }, 100, 0);
        assert_eq!((all.len(), trace.lost), (2, 1));
        let mad = KernelEvent { t_ns: u64::MAX / 2, ..KernelEvent::default() };
        let trace = add(&mut all, Traced { events: vec![mad], ..Traced::default() }, 100, 0);
        assert_eq!((all.len(), trace.lost), (2, 1));
        assert_eq!(add(&mut Vec::new(), Traced::default(), 0, 0).lost, 0);
    }
}
