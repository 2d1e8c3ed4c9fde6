//! What was found out about clocks, in sentences.

use msgpath_core::units::{Glyphs, signed, three_digits};

use super::ClockPiece;

/// Steps that are told one by one.
const GIVEN: usize = 3;

fn time(ns: f64) -> String {
    Glyphs::Unicode.time(ns)
}

/// A drift in parts per million, with its sign.
fn ppm(drift: f64) -> String {
    signed(drift, |drift| format!("{} ppm", three_digits(drift * 1e6)))
}

/// So many of a noun.
fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// One machine.
pub fn same(why: &str, disordered: u64) -> String {
    let mut text = format!("same machine ({why}): one clock, nothing to align");
    if disordered > 0 {
        text += &format!(
            "; but in {} the stamps are not in the order of time, so the clock was set meanwhile or they were altered",
            counted(disordered, "call")
        );
    }
    text
}

/// No exchange with stamps of both ends.
pub(super) fn nothing(of: usize, noun: &str, impossible: u64) -> String {
    match impossible {
        0 => format!("clocks not aligned: none of {} has the stamps of both ends", counted(of as u64, noun)),
        _ => format!(
            "clocks not aligned: in {} the far end takes longer than the whole {noun}, or ends before it begins",
            counted(impossible, noun)
        ),
    }
}

/// Too many pieces.
pub(super) fn contradictory() -> String {
    "clocks not aligned: the stamps contradict each other all the time, so no line holds for long".into()
}

/// One line would fit, with a drift that no clock has.
pub(super) fn impossible_drift((least, most): (f64, f64), noun: &str) -> String {
    format!(
        "clocks not aligned: only a drift of {} to {} fits all {noun}s, and two clocks drift apart by less than 200 ppm; \
         one of them was slewed or stepped, or the stamps were altered",
        ppm(least),
        ppm(most)
    )
}

/// Lines were found.
pub(super) fn found(pieces: &[ClockPiece], exchanges: usize, noun: &str, contradicting: u64) -> String {
    let Some(first) = pieces.first() else { return contradictory() };
    // In the unit of the bound, so that the digits show what is known; an offset of seconds in milliseconds.
    let offset = signed(first.offset_ns, |ns| {
        let (number, unit) = Glyphs::Unicode.time_in(ns, first.within_ns.max(ns / 1e3));
        format!("{number} {unit}")
    });
    let mut text = format!("offset {offset}, within ±{}", time(first.within_ns));
    if pieces.len() > 1 {
        text += &format!(" until {}", time(pieces[1].from_ns as f64));
        for pair in pieces.windows(2).take(GIVEN) {
            text += &format!("; {}", border(&pair[0], &pair[1]));
        }
        if pieces.len() > GIVEN + 1 {
            text += &format!("; and {} more such changes", pieces.len() - GIVEN - 1);
        }
    } else if exchanges == 1 {
        text += &format!(": one {noun} gives an interval and no drift");
    } else if first.drift_known {
        let half = (first.drift_most - first.drift_least) / 2.0;
        text += &format!("; drift {}, within ±{} ppm", ppm(first.drift), three_digits(half * 1e6));
    } else {
        text +=
            &format!("; drift not determined ({} to {} are possible)", ppm(first.drift_least), ppm(first.drift_most));
    }
    text += "; what is not known: how much the fastest way there differs from the fastest way back, which moves the offset \
             by at most this bound";
    if contradicting > 0 {
        text += &format!("; the stamps of {} contradict it and were left out", counted(contradicting, noun));
    }
    text
}

/// What happened between two pieces.
fn border(before: &ClockPiece, after: &ClockPiece) -> String {
    let (step, within) = step(before, after);
    let when = if after.from_ns > before.to_ns {
        format!("between {} and {}", time(before.to_ns as f64), time(after.from_ns as f64))
    } else {
        format!("at about {}", time(after.from_ns as f64))
    };
    if step.abs() > within {
        format!("stepped by {} (within ±{}) {when}", signed(step, time), time(within))
    } else {
        format!("the drift changed {when}")
    }
}

/// By how much theta jumps from one piece to the next, ns, and within what; the drift in the gap between them included.
pub fn step(before: &ClockPiece, after: &ClockPiece) -> (f64, f64) {
    let gap = after.from_ns.saturating_sub(before.to_ns) as f64;
    let jump = after.theta(after.from_ns) - before.theta(before.to_ns);
    (jump, before.within_ns + after.within_ns + gap * super::DRIFT_LIMIT)
}
