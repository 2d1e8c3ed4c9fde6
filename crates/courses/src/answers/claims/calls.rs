//! Claims about single calls and what waits between them.

use msgpath_analyse::summary::CaseSummary;
use msgpath_core::Workload;
use msgpath_core::plan::{Load, Metric};
use msgpath_core::units::size;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::paired::Series;

use super::Claim;
use super::ruling::{Ruling, all_of, decided, fails, holds, open, same};
use crate::answers::Part;
use crate::answers::cell::Cell;
use crate::answers::columns::{bits_or, table};
use crate::answers::evidence::{above, extremes, over, over_passes, unpaired};
use crate::answers::pages::echo_sizes::{Calls, call_times};
use crate::answers::pages::nagle_trap;
use crate::answers::words::{percent, range, time};

pub(super) const CLAIMS: &[Claim] = &[
    (8, "The time in send() is the latency", send_call),
    (9, "The time in recv() is the latency", receive_call),
    (11, "Throughput is size / RTT, or 1 / latency", window_of_one),
    (14, "42 ms: copies and system calls are slow", nagle),
];

/// The first run whose send calls were stamped.
fn stamped(parts: &[Part<'_>]) -> Option<Calls> {
    parts.iter().find_map(call_times)
}

/// Whether a part of the round trip is all of it.
fn is_all_of(part: &Estimate, round_trip: &Estimate) -> Option<bool> {
    same(over(part.into(), round_trip.into()))
}

fn send_call(parts: &[Part<'_>]) -> Option<Ruling> {
    let calls = stamped(parts)?;
    let text = format!(
        "the send call takes {} and the round trip {}: {} of it. The call ends when the kernel has the bytes, not when anybody \
         else has them",
        range(&calls.send, time),
        range(&calls.round_trip, time),
        percent(calls.send.value / calls.round_trip.value)
    );
    Some(decided(is_all_of(&calls.send, &calls.round_trip), text))
}

fn receive_call(parts: &[Part<'_>]) -> Option<Ruling> {
    let calls = stamped(parts)?;
    let server = calls.server.as_ref().map_or_else(String::new, |server| {
        let server = range(server, time);
        format!(", in which the far end's program alone takes {server} between its two calls, which are not in that")
    });
    let text = format!(
        "between the return of the send call and that of the receive call lie {}, {} of the round trip: the reader has nothing \
         else to do, so that is its waiting time{server}. A reader that comes late finds the message there and measures nothing",
        range(&calls.rest, time),
        percent(calls.rest.value / calls.round_trip.value)
    );
    Some(decided(is_all_of(&calls.rest, &calls.round_trip), text))
}

/// The same message one at a time and in a flow.
fn window_of_one(parts: &[Part<'_>]) -> Option<Ruling> {
    let of = |workload: Workload| parts.iter().filter(move |part| part.workload() == workload);
    let mut rows: Vec<(&CaseSummary, &CaseSummary, Series, Estimate)> = Vec::new();
    for (echo, case) in of(Workload::Echo).flat_map(|part| part.measured().map(move |case| (part, case))) {
        let one = &case.case;
        if one.inflight != 1 || one.connections != 1 || one.load != Load::Closed {
            continue;
        }
        let alike = |other: &CaseSummary| {
            other.case.path == one.path && other.case.pieces == one.pieces && other.case.connections == 1
        };
        let flows = of(Workload::Stream).filter(|part| part.device() == echo.device());
        let found = flows.filter_map(|part| Some((part, part.find(alike)?))).next();
        let Some((part, flow)) = found else { continue };
        let window = echo.by_pass(Metric::Mean, one).into_iter();
        let window: Series = window.map(|(pass, ns)| (pass, one.size as f64 * 8e9 / ns)).collect();
        let known = rows.iter().any(|(row, ..)| (&row.case.path, row.case.size) == (&one.path, one.size));
        let ratio = unpaired(&part.by_pass(Metric::Throughput, &flow.case), &window).filter(|_| !known);
        rows.extend(ratio.map(|ratio| (case, flow, window, ratio)));
    }
    let (least, most) = extremes(&rows, |(.., ratio)| ratio.value)?;
    let times = |(case, _, _, ratio): &(&CaseSummary, &CaseSummary, Series, Estimate)| {
        format!("{} times at {}", range(ratio, |ratio| format!("{ratio:.2}")), size(case.case.size))
    };
    let (least, most) = (times(least), times(most));
    let more = rows.iter().filter(|(.., ratio)| same(ratio) == Some(false) && above(ratio, 1.0)).count();
    let text = format!(
        "size / RTT is the rate of one message in flight: in a flow the same path carries {least} to {most} as much, surely more \
         in {more} of {} rows",
        rows.len()
    );
    let so = match more {
        0 => all_of(rows.iter().map(|(.., ratio)| same(ratio))),
        _ => Some(false),
    };
    let carried = |case: &'_ CaseSummary| case.throughput.as_ref().map(|of| of.receiver_bits.clone());
    let evidence = table("window-of-one", "One message in flight, and as many as the path holds", &rows)
        .col("message", |(case, ..)| format!("{} {}", case.case.path, size(case.case.size)))
        .col("size / RTT", |(_, _, window, _)| bits_or(over_passes(window).as_ref(), "too few rounds"))
        .col("in a flow", |(_, flow, ..)| bits_or(carried(flow).as_ref(), "no round"))
        .col("flow divided by that", |(.., ratio)| Cell::Ratio(ratio.into()));
    Some(decided(so, text).with(evidence))
}

/// What happens to the waits of 40 ms when one of their conditions is taken away.
fn nagle(parts: &[Part<'_>]) -> Option<Ruling> {
    let forty = parts.iter().find_map(nagle_trap::forty)?;
    Some(match (forty.waits, forty.cured, forty.still) {
        (false, ..) => open(forty.text),
        (true, 0, 0) => open(format!("{}. No condition was taken away", forty.text)),
        (true, 0, _) => holds(forty.text).likely(),
        (true, ..) => fails(forty.text).sure_if(forty.proved),
    })
}
