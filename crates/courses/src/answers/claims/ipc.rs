//! Claims about mechanisms of one machine.

use msgpath_analyse::summary::CaseSummary;
use msgpath_core::plan::CaseRole;
use msgpath_core::schema::Granted;
use msgpath_core::units::size;
use msgpath_stats::verdict::Verdict;

use super::Claim;
use super::measured::all;
use super::ruling::{Ruling, fails, holds, open};
use crate::answers::Part;
use crate::answers::cell::{Cell, Value};
use crate::answers::columns::{number_or, ratio_or, table};
use crate::answers::evidence::{above, below, beside_one, counted_cpu_ns, distance, extremes, median_of, over};
use crate::answers::words::{list, ratio_with, time, verdict_word};

pub(super) const CLAIMS: &[Claim] = &[
    (29, "Shared memory is 100 times faster than pipes", shm),
    (30, "Message queues are faster than shared memory at large sizes", mq),
    (31, "A FIFO beats a pipe (or the reverse)", fifo),
];

/// What claim 29 says.
const TIMES: f64 = 100.0;

/// Shared memory against a pipe of one size: with the same waiting, and with the shared memory alone spinning.
fn shm(parts: &[Part<'_>]) -> Option<Ruling> {
    let case = |transport: &str, wait: &str| {
        let case = parts.iter().find_map(|part| part.case(transport, wait, 64))?;
        Some((case, median_of(case)))
    };
    let (pipe, asleep, spinning) = (case("pipe", "block")?, case("shm", "futex")?, case("shm", "spin")?);
    let pipe_spinning = case("pipe", "spin")?;
    let pair = |name: &'static str, pipe: (&'_ CaseSummary, Option<Value>), shm: (&'_ CaseSummary, Option<Value>)| {
        let (slow, fast) = (pipe.1?, shm.1?);
        Some((name, slow, fast, over(slow, fast), counted_cpu_ns(pipe.0), counted_cpu_ns(shm.0)))
    };
    let rows = [
        pair("as it is claimed: pipe asleep, shm spins", pipe, spinning)?,
        pair("both asleep", pipe, asleep)?,
        pair("both spin", pipe_spinning, spinning)?,
    ];
    let [unequal, sleeping, both_spin] = rows.each_ref().map(|(_, _, _, ratio, ..)| *ratio);
    let burned = counted_cpu_ns(asleep.0).zip(counted_cpu_ns(spinning.0));
    let burned = burned.map_or_else(String::new, |(asleep, spinning)| {
        format!(" CPU time of both ends for a message of shm: {} asleep, {} spinning.", time(asleep), time(spinning))
    });
    let text = format!(
        "at 64 B shm that spins is {} times as fast as a pipe that sleeps. With the same waiting it is {} times (both asleep) \
         and {} times (both spin)",
        ratio_with(&unequal),
        ratio_with(&sleeping),
        ratio_with(&both_spin)
    );
    let ruling = if below(sleeping, TIMES) && below(both_spin, TIMES) {
        fails(format!("{text}: the rest is the waiting.{burned}"))
    } else if above(sleeping, TIMES) && above(both_spin, TIMES) {
        holds(format!("{text}.{burned}"))
    } else {
        open(format!("{text}.{burned}"))
    };
    let evidence = table("shm-pipe", "a pipe against shared memory, 64 B", rows)
        .col("comparison", |row| row.0)
        .col("pipe, p50", |row| Cell::Time(row.1))
        .col("shm, p50", |row| Cell::Time(row.2))
        .col("times", |row| Cell::Ratio(row.3))
        .col("pipe CPU ns/msg", |row| number_or(row.4, "not counted"))
        .col("shm CPU ns/msg", |row| number_or(row.5, "not counted"));
    Some(ruling.with(evidence))
}

/// Queues against shared memory at the largest size that both carry whole.
fn mq(parts: &[Part<'_>]) -> Option<Ruling> {
    let queues = || all(parts).filter(|(_, case)| case.case.path.transport == "mq");
    let shm = |part: &Part<'_>, queue: &CaseSummary| {
        part.case("shm", if queue.case.path.wait == "spin" { "spin" } else { "futex" }, queue.case.size).map(median_of)
    };
    let granted = |queue: &'_ CaseSummary| -> Option<Granted> {
        queue.granted.iter().find(|entry| entry.option == "mq_msgsize").cloned()
    };
    let mut best: Option<(Part<'_>, &CaseSummary, Option<Value>)> = None;
    for (part, queue) in queues() {
        let Some(shm) = shm(&part, queue) else { continue };
        if best.is_none_or(|(_, other, _)| other.case.size < queue.case.size) {
            best = Some((part, queue, shm));
        }
    }
    let (part, queue, beside) = best?;
    let ratio = over(median_of(queue)?, beside?);
    let refused = part.summary.unavailable.iter().map(|one| &one.case);
    let refused = refused.filter(|case| case.path.transport == "mq" && case.role == CaseRole::Measured);
    let refused: Vec<String> = refused.map(|case| size(case.size)).collect();
    let limit = match refused.is_empty() {
        true => String::new(),
        false => format!(
            " {} was refused, not cut to what a queue takes: a program that clamps compares other messages.",
            list(&refused)
        ),
    };
    let text = format!(
        "at {}, the largest message that both carry whole (mq_msgsize granted: {} B), mq:{}/{} takes {} times as long as shm \
         at p50 with the same waiting.{limit}",
        size(queue.case.size),
        granted(queue)?.granted,
        queue.case.path.method,
        queue.case.path.wait,
        ratio_with(&ratio)
    );
    let bytes = |queue| granted(queue).and_then(|entry| entry.granted.parse::<f64>().ok());
    let to_shm = |part: &Part<'_>, queue| Some(over(median_of(queue)?, shm(part, queue)??));
    let evidence = table("mq-shm", "queues against shared memory", queues())
        .col("run", |(part, _)| part.name)
        .col("message", |(_, queue)| Cell::size(queue.case.size))
        .col("mq granted", |(_, queue)| number_or(bytes(queue), "not read"))
        .col("mq to shm, p50", |(part, queue)| ratio_or(to_shm(part, queue), "no interval"));
    let ruling = beside_one(ratio, fails(&text), holds(&text), open(&text));
    Some(ruling.with(evidence))
}

/// The same kernel object under two names, in turn and on the same CPUs.
fn fifo(parts: &[Part<'_>]) -> Option<Ruling> {
    let mut rows = Vec::new();
    for part in parts {
        let comparison = part.summary.comparison.as_ref().filter(|all| all.baseline.transport == "pipe");
        for ratio in comparison.iter().flat_map(|comparison| &comparison.ratios) {
            let case = part.find(|case| case.case.id == ratio.case && case.case.path.transport == "fifo");
            let value = Value { value: ratio.ratio, low: ratio.low, high: ratio.high };
            rows.extend(case.map(|case| (part.name, case.case.size, value, ratio.verdict, ratio.rounds_needed)));
        }
    }
    let (_, (run, bytes, value, ..)) = extremes(&rows, |row| distance(row.2.value))?;
    let widest = format!("{} at {} in the run {run}", ratio_with(value), size(*bytes));
    let count = |verdict: Verdict| rows.iter().filter(|row| row.3 == verdict).count();
    let (faster, slower, alike, undecided) =
        (count(Verdict::Better), count(Verdict::Worse), count(Verdict::Equivalent), count(Verdict::Undecided));
    let text = format!(
        "both are one kernel object. Measured in turn on the same CPUs a FIFO is faster in {faster}, slower in {slower}, the \
         same within the margin in {alike} and not decided in {undecided} of {} cases; farthest from 1: {widest}",
        rows.len()
    );
    let ruling = match (faster, slower, undecided) {
        (0, 0, 0) => fails(format!("{text}. Neither beats the other")),
        (0, 0, _) => open(format!("{text}. No difference is shown")),
        (1.., 1.., _) => {
            fails(format!("{text}. The sign is not the same everywhere, so it is not the object that decides")).likely()
        }
        _ => holds(format!(
            "{text}. A difference between equal objects is one of wake-ups or of the buffers that they happened to get"
        ))
        .likely(),
    };
    let rounds = rows.iter().filter_map(|row| row.4).max().filter(|_| undecided > 0);
    let evidence = table("fifo-pipe", "FIFO against pipe, measured in turn on the same CPUs", &rows)
        .col("run", |row| row.0)
        .col("message", |row| Cell::size(row.1))
        .col("FIFO to pipe, p50", |row| Cell::Ratio(row.2))
        .col("verdict", |row| verdict_word(row.3, "the same"));
    let ruling = ruling.with(evidence);
    Some(match rounds {
        Some(rounds) => ruling.next(format!("msgpath compare -x pipe:write,fifo:write -l 64 -r {}", rounds.min(400))),
        None => ruling,
    })
}
