//! Claims about mechanisms of one machine, about clocks and tails.

use msgpath_analyse::summary::{CaseSummary, Confidence};
use msgpath_core::plan::{CaseRole, Load, Workload};
use msgpath_core::schema::{EndReport, FAR, Granted, NEAR, RoundRecord};
use msgpath_core::units::{size, three_digits};
use msgpath_stats::pooled::Pooled;
use msgpath_stats::verdict::Verdict;

use super::Claim;
use crate::answers::answered::{say, sure, sure_or_not, unsure};
use crate::answers::cell::{Cell, Value};
use crate::answers::columns::{number_or, ratio_or, table};
use crate::answers::evidence::{
    above, below, beyond, claim, claimed, counted_cpu_ns, distance, extremes, median_of, over,
};
use crate::answers::words::{list, percent, rate, ratio_with, time, time_with, verdict_word, weakest};
use crate::answers::{Answer, Part};

pub(super) const CLAIMS: &[Claim] = &[
    (10, "One way is half of the round trip", one_way),
    (29, "Shared memory is 100 times faster than pipes", shm),
    (30, "Message queues are faster than shared memory at large sizes", mq),
    (31, "A FIFO beats a pipe (or the reverse)", fifo),
    (32, "Outliers are dropped (above 1 s, at most 0, or beyond 1.5 IQR)", outliers),
    (34, "SIGIO delivers one signal per frame", sigio),
    (38, "T2 before T1: the message took negative time", negative),
    (40, "The mean of a closed loop is the latency under load", closed),
];

/// Every measured case of these runs.
fn all<'a>(parts: &[Part<'a>]) -> impl Iterator<Item = (Part<'a>, &'a CaseSummary)> {
    parts.iter().flat_map(|part| part.measured().map(move |case| (*part, case)))
}

/// Echoes in a closed loop. Only they have a way back: the median of a periodic case is itself one way, that of a call has the
/// server in it.
fn closed_echoes<'a>(parts: &[Part<'a>]) -> impl Iterator<Item = (Part<'a>, &'a CaseSummary)> {
    all(parts).filter(|(part, case)| part.workload() == Workload::Echo && case.case.load == Load::Closed)
}

/// The way there as a share of the round trip, from stamps of one clock at both ends.
fn one_way(parts: &[Part<'_>]) -> Option<Answer> {
    let of = |case: &CaseSummary| Some((claim(case.one_way.as_ref()?)?, median_of(case)?));
    let rows: Vec<_> = closed_echoes(parts)
        .filter_map(|(_, case)| of(case).map(|(there, whole)| (case, there, whole, over(there, whole))))
        .collect();
    let (_, (case, .., share)) = extremes(&rows, |(.., share)| (share.value - 0.5).abs())?;
    let unequal = rows.iter().filter(|(.., share)| beyond(share, 0.5) == Confidence::Sure).count();
    let interval = share
        .low
        .zip(share.high)
        .map_or_else(String::new, |(low, high)| format!(" ({} to {})", percent(low), percent(high)));
    let text = format!(
        "only where both ways cost the same: in {unequal} of {} cases the way there is not half at p50. {} with {} there and {} \
         back: it is {}{interval} of the round trip, so half of it is wrong by {} of itself.",
        rows.len(),
        case.case.path,
        size(case.case.size),
        size(case.case.reply),
        percent(share.value),
        percent(((share.value - 0.5) / 0.5).abs())
    );
    let evidence = table("one-way", "the way there, from stamps at both ends on one clock", &rows)
        .col("path", |(case, ..)| case.case.path.to_string())
        .col("message", |(case, ..)| Cell::size(case.case.size))
        .col("reply", |(case, ..)| Cell::size(case.case.reply))
        .col("round trip, p50", |(_, _, whole, _)| Cell::Time(*whole))
        .col("there, p50", |(_, there, ..)| Cell::Time(*there))
        .col("there of the round trip", |(.., share)| Cell::Share(*share));
    let answer = say(sure_or_not(unequal > 0), text).with(evidence);
    Some(if unequal > 0 { answer } else { answer.next("msgpath echo -x tcp:send -l 64K --reply 64 --stamps both") })
}

/// Shared memory against a pipe of one size: with the same waiting, and with the shared memory alone spinning.
fn shm(parts: &[Part<'_>]) -> Option<Answer> {
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
    let against = |ratio: &Value| sure_or_not(below(ratio, 100.0));
    let confidence = weakest([against(&sleeping), against(&both_spin)]);
    let lead = if confidence == Confidence::Sure { "not with the same waiting: " } else { "" };
    let text = format!(
        "{lead}at 64 B shm that spins is {} times as fast as a pipe that sleeps. With the same waiting it is {} times (both \
         asleep) and {} times (both spin): the rest is the waiting.{burned}",
        ratio_with(&unequal),
        ratio_with(&sleeping),
        ratio_with(&both_spin)
    );
    let evidence = table("shm-pipe", "a pipe against shared memory, 64 B", rows)
        .col("comparison", |row| row.0)
        .col("pipe, p50", |row| Cell::Time(row.1))
        .col("shm, p50", |row| Cell::Time(row.2))
        .col("times", |row| Cell::Ratio(row.3))
        .col("pipe CPU ns/msg", |row| number_or(row.4, "not counted"))
        .col("shm CPU ns/msg", |row| number_or(row.5, "not counted"));
    Some(say(confidence, text).with(evidence))
}

/// Queues against shared memory at the largest size that both carry whole.
fn mq(parts: &[Part<'_>]) -> Option<Answer> {
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
    Some(say(beyond(ratio, 1.0), text).with(evidence))
}

/// The same kernel object under two names, in turn and on the same CPUs.
fn fifo(parts: &[Part<'_>]) -> Option<Answer> {
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
    let (faster, slower, same, open) =
        (count(Verdict::Better), count(Verdict::Worse), count(Verdict::Equivalent), count(Verdict::Undecided));
    let (confidence, end) = match (faster + slower, open) {
        (0, 0) => (Confidence::Sure, "Neither beats the other."),
        (0, _) => (Confidence::CantTell, "No difference was shown."),
        _ if faster > 0 && slower > 0 => (
            Confidence::Likely,
            "The sign is not the same everywhere: it is where the ends were woken, not the object.",
        ),
        _ => (
            Confidence::Likely,
            "A difference that is left between equal objects is one of wake-ups or of the buffers they happened to get.",
        ),
    };
    let text = format!(
        "both are one kernel object. Measured in turn on the same CPUs a FIFO is faster in {faster}, slower in {slower}, the \
         same within the margin in {same} and not decided in {open} of {} cases; farthest from 1: {widest}. {end}",
        rows.len()
    );
    let rounds = rows.iter().filter_map(|row| row.4).max().filter(|_| open > 0);
    let evidence = table("fifo-pipe", "FIFO against pipe, measured in turn on the same CPUs", &rows)
        .col("run", |row| row.0)
        .col("message", |row| Cell::size(row.1))
        .col("FIFO to pipe, p50", |row| Cell::Ratio(row.2))
        .col("verdict", |row| verdict_word(row.3, "the same"));
    let answer = say(confidence, text).with(evidence);
    Some(match rounds {
        Some(rounds) => answer.next(format!("msgpath compare -x pipe:write,fifo:write -l 64 -r {}", rounds.min(400))),
        None => answer,
    })
}

type Test = fn(&RoundRecord) -> bool;
/// What may have fallen on a round, and whether it did.
const CAUSES: [(&str, Test); 4] = [
    ("stolen by the hypervisor", |round| round.flags.iter().any(|flag| flag == "steal")),
    ("taken off the CPU", |round| round.near().involuntary_switches + round.far().involuntary_switches > 0),
    ("page faults", |round| round.near().minor_faults + round.far().minor_faults > 0),
    ("ready and not running for a tenth of its time", |round| {
        let waited = |end: &EndReport| end.run_delay_ns.unwrap_or(0) * 10 > end.elapsed_ns;
        waited(round.near()) || waited(round.far())
    }),
];

/// What is slow stays, and what fell on those rounds.
fn outliers(parts: &[Part<'_>]) -> Option<Answer> {
    let share = |case: &CaseSummary| case.time_share_over_10x.unwrap_or(0.0);
    let (part, case) =
        closed_echoes(parts).filter(|(_, case)| case.messages > 0).max_by(|a, b| share(a.1).total_cmp(&share(b.1)))?;
    let rounds = part.rounds(&case.case);
    let pooled = Pooled::new(&rounds.iter().map(|round| &round.latency).collect::<Vec<_>>());
    let quartile = |p: f64| pooled.quantile(p).flatten().map(|ns| ns as f64);
    let (first, median, third) = (quartile(0.25)?, quartile(0.5)?, quartile(0.75)?);
    let fence = third + 1.5 * (third - first);
    let (time_beyond, share_beyond) = pooled.above(fence)?;
    let beyond: u64 = pooled.count_between(fence as u64 + 1, u64::MAX);
    let slow = pooled.count_between((10.0 * median) as u64 + 1, u64::MAX);
    let is_slow = |round: &&&RoundRecord| round.latency.max().is_some_and(|max| max as f64 > 10.0 * median);
    let (with, without): (Vec<&&RoundRecord>, Vec<&&RoundRecord>) = rounds.iter().partition(is_slow);
    let rows = CAUSES.map(|(name, test)| {
        let count = |rounds: &[&&RoundRecord]| rounds.iter().filter(|round| test(round)).count();
        (name, count(&with), count(&without))
    });
    let causes: Vec<String> =
        rows.iter().filter(|row| row.1 > 0).map(|(name, slow, _)| format!("{name} in {slow}")).collect();
    let (path, run) = (&case.case.path, part.name);
    let title =
        format!("rounds of {path} in the run {run}: what else happened in those with a message slower than 10 medians");
    let evidence = table("outliers", title, rows)
        .col("what", |(name, ..)| *name)
        .col("rounds with it", |(_, slow, other)| Cell::count((slow + other) as u64))
        .col("of rounds with slow messages", |(_, slow, _)| format!("{slow} of {}", with.len()))
        .col("rounds without slow ones that have it", |(.., other)| format!("{other} of {}", without.len()));
    let slowest = |ns: Option<u64>| ns.map_or_else(|| "unknown".into(), |ns| time(ns as f64));
    let beside = case.beside.as_ref().map_or_else(String::new, |beside| {
        format!(" {} disturbed rounds stand beside these (slowest {}).", beside.rounds, slowest(beside.slowest_ns))
    });
    let all = pooled.total().to_string();
    if beyond == 0 {
        let text =
            format!("nothing would be dropped here: of {all} messages of {path} none lies beyond 1.5 IQR.{beside}");
        return Some(unsure(text).with(evidence));
    }
    let start = case.first.as_ref().map_or_else(String::new, |first| {
        let (messages, slowest) = (first.messages.to_string(), slowest(first.slowest_ns));
        format!(" The first {messages} messages of the connections are apart (slowest {slowest}).")
    });
    let classified = match (with.len(), causes.is_empty()) {
        (0, _) => String::new(),
        (rounds, true) => format!(" None of the causes looked for was seen in the {rounds} rounds that have them."),
        (rounds, false) => format!(" Of the {rounds} rounds that have them: {}.", list(&causes)),
    };
    let text = format!(
        "that would hide the result. {path} in the run {run}: beyond 1.5 IQR lie {} of {all} messages ({}), {} of all the time; \
         the slowest took {}. They are kept: {} are slower than 10 medians.{classified}{start}{beside} No time is 0 or less: \
         both stamps are of one monotonic clock.",
        beyond,
        percent(share_beyond),
        percent(time_beyond),
        time(pooled.max().unwrap_or(0) as f64),
        slow
    );
    Some(sure(text).with(evidence))
}

/// Messages and signals of every path that took signals.
fn sigio(parts: &[Part<'_>]) -> Option<Answer> {
    let mut seen: Vec<(f64, String)> = Vec::new();
    for (part, case) in all(parts).filter(|(part, _)| !part.run.header.plan.options.queued_signals) {
        let signals = case.end(NEAR).calls.signals + case.end(FAR).calls.signals;
        if case.case.path.wait != "sigio" || signals == 0 {
            continue;
        }
        // An echo is received at both ends; a periodic message once.
        let ends = if part.run.header.periodic.is_some() { 1 } else { 2 };
        let messages = ends * case.delivery.received;
        let each = messages as f64 / signals as f64;
        let text = format!(
            "{} in the run {}: {} messages with {} signals, {} a signal",
            case.case.path,
            part.name,
            messages,
            signals,
            three_digits(each)
        );
        seen.push((each, text));
    }
    seen.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (most, text) = seen.first()?;
    if *most > 1.01 {
        let least = seen.last().filter(|_| seen.len() > 1).map_or_else(String::new, |(_, text)| format!("; {text}"));
        return Some(sure(format!("no, standard signals merge while one is pending. {text}{least}.")));
    }
    let text = format!("not contradicted here, because messages were too far apart to merge: {text}.");
    Some(unsure(text).next("msgpath echo -x udp:send/sigio --inflight 32"))
}

/// Stamps of two clocks as they were read.
fn negative(parts: &[Part<'_>]) -> Option<Answer> {
    let (part, summary) = parts.iter().find_map(|part| Some((part, part.summary.rpc.as_ref()?)))?;
    let stamped: Vec<i64> = part.logs.rpcs.iter().filter_map(|row| row.received_ns).collect();
    if stamped.is_empty() {
        return None;
    }
    let impossible = stamped.iter().filter(|ns| **ns < 0).count();
    let ends = part.logs.rpcs.iter().filter_map(|row| row.replied_ns.zip(row.latency_ns));
    let late = ends.filter(|(replied, latency)| *replied > *latency as i64).count();
    let contradicting: u64 = summary.clocks.iter().map(|clock| clock.contradicting).sum();
    let clocks = summary.clocks.iter().map(|clock| clock.text.clone()).filter(|text| !text.is_empty());
    let clocks = list(&clocks.collect::<Vec<_>>());
    let same = summary.clocks.iter().all(|clock| clock.same);
    let what = format!(
        "of {} calls {} have T2 before T1 and {} T3 after T4, as the two clocks were read",
        (stamped.len() as u64),
        (impossible as u64),
        (late as u64)
    );
    let after = format!("{} calls contradict the bound", contradicting);
    Some(match (same, impossible + late) {
        (true, 0) => sure(format!("{what}: both ends are on one machine and read one clock, so none can.")),
        (true, _) => unsure(format!("{what}, although both ends read one clock: the stamps are wrong or altered.")),
        (false, 0) => unsure(format!("{what}; the clocks: {clocks}; {after}.")),
        (false, _) => sure(format!(
            "no time is negative: it is the offset of the clocks. {what}; the offset that all calls allow: {clocks}; {after}."
        )),
    })
}

/// A closed loop beside an open one on the same path and size.
fn closed(parts: &[Part<'_>]) -> Option<Answer> {
    let mut pairs = Vec::new();
    for (_, closed) in all(parts).filter(|(_, case)| case.case.load == Load::Closed) {
        let Some(closed99) = claimed(&closed.quantiles, 0.99) else { continue };
        let key = |case: &CaseSummary| (case.case.path.clone(), case.case.size, case.case.reply);
        for (_, case) in all(parts).filter(|(_, case)| key(case) == key(closed)) {
            let Some(open) = case.open.as_ref().filter(|open| open.sustained) else { continue };
            let both = claimed(&case.quantiles, 0.99).zip(claimed(&open.service, 0.99));
            pairs.extend(both.map(|(intended, actual)| (closed, case, closed99, intended, actual)));
        }
    }
    // Of equals the first.
    pairs.reverse();
    let (_, (closed, case, closed99, intended, actual)) = extremes(&pairs, |pair| pair.3.value / pair.2.value)?;
    let mean = closed.mean_ns.map_or_else(String::new, |ns| format!("mean {}, ", time(ns)));
    let offered = case.case.load.rate().map_or_else(String::new, |at| rate(at.value()));
    let (to_closed, to_actual) = (over(*intended, *closed99), over(*intended, *actual));
    let omitted = match above(to_actual, 1.0) {
        true => ": the time from the actual send leaves the waiting out (coordinated omission).",
        false => "; that the two sends differ is not shown here.",
    };
    let slower = above(to_closed, 1.0);
    let lead = match (slower, below(to_closed, 1.0)) {
        (true, _) => "no. ",
        (_, true) => "at this rate it is not less than that. ",
        _ => "no difference is shown at the rates that were sustained. ",
    };
    let text = format!(
        "{lead}{}, {}: the closed loop says {mean}p99 {}. At {offered} by a schedule p99 is {} from the intended send, {} times \
         that, and {} from the actual send{omitted}",
        case.case.path,
        size(case.case.size),
        time_with(closed99),
        time_with(intended),
        ratio_with(&to_closed),
        time_with(actual)
    );
    let answer = say(sure_or_not(slower), text);
    Some(if slower { answer } else { answer.next("msgpath preset load-curve -- -t 20s") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::testing::Made;
    use msgpath_analyse::testing::{Build, grant, stalls};
    use msgpath_analyse::testing_queue::{Queue, late, run};
    use msgpath_analyse::testing_rpc::{Calls, MS, S};
    use msgpath_stats::simulate::lognormal_rounds;

    fn settle(number: u8, made: &[Made]) -> Option<Answer> {
        let claim = CLAIMS.iter().find(|claim| claim.0 == number).expect("a claim");
        (claim.2)(&Made::parts(made))
    }

    fn zoo(shm_asleep: f64, pipe_spinning: f64) -> Vec<Made> {
        let block = Build::echo(&["pipe:write", "fifo:write", "shm:ring/futex", "mq:send"], &[64]).factor(
            move |case| match case.path.transport.as_str() {
                "shm" => shm_asleep,
                "mq" => 2.0,
                _ => 1.0,
            },
        );
        let spin = Build::echo(&["pipe:write/spin", "shm:ring/spin"], &[64])
            .factor(move |case| if case.path.transport == "shm" { 0.005 } else { pipe_spinning });
        let mut run = block.run();
        grant(&mut run, 3, "mq_msgsize", "64", "64");
        vec![Made::from("block", run), Made::of("spin", &spin)]
    }

    #[test]
    fn shared_memory_is_compared_with_the_same_waiting() {
        let output = settle(29, &zoo(0.9, 0.1)).unwrap();
        assert!(
            output.confidence == Confidence::Sure && output.text.starts_with("not with the same waiting"),
            "{output:?}"
        );
        let output = settle(29, &zoo(0.9, 4.0)).unwrap();
        assert!(output.confidence == Confidence::CantTell && output.text.starts_with("at 64 B"), "{output:?}");
        assert!(settle(29, &zoo(0.9, 0.1)[..1]).is_none());
    }

    #[test]
    fn queues_and_fifos() {
        let made = zoo(1.0, 0.1);
        let output = settle(30, &made).unwrap();
        assert!(output.confidence == Confidence::Sure && output.text.contains("granted: 64 B"), "{output:?}");
        let output = settle(31, &made).unwrap();
        assert!(output.text.contains("the same within the margin in 1"), "{output:?}");
        assert!(settle(30, &made[1..]).is_none());
        assert!(settle(31, &[Made::of("a", &Build::echo(&["tcp:send"], &[64]))]).is_none());
    }

    #[test]
    fn the_way_there_is_half_only_where_both_ways_are_alike() {
        let of = |workload: Workload, share: f64| {
            let mut run = Build::echo(&["tcp:send"], &[64]).run();
            run.header.plan.workload = workload;
            run.header.plan.stamps = msgpath_core::plan::Stamps::Both;
            for (at, round) in run.rounds.iter_mut().enumerate() {
                round.one_way = lognormal_rounds(at as u64, 1, 200, 20_000.0 * share, 0.1, 0.01).remove(0);
            }
            settle(10, &[Made::from("one-way", run)])
        };
        let one_way = |share| of(Workload::Echo, share);
        // Messages that nobody answers have no round trip.
        assert!(of(Workload::Periodic, 1.0).is_none() && of(Workload::Rpc, 0.8).is_none());
        let output = one_way(0.8).unwrap();
        assert!(output.confidence == Confidence::Sure && output.text.contains("in 1 of 1 cases"), "{output:?}");
        let output = one_way(0.5).unwrap();
        assert!(output.confidence == Confidence::CantTell && output.text.contains("in 0 of 1 cases"), "{output:?}");
        assert!(settle(10, &[Made::of("a", &Build::echo(&["tcp:send"], &[64]))]).is_none());
    }

    #[test]
    fn what_is_slow_is_kept_and_counted() {
        let build = Build::echo(&["tcp:send"], &[64]);
        let mut slow = build.run();
        for round in slow.rounds.iter_mut().take(10) {
            stalls(round, 2, 5_000_000);
            round.near_mut().involuntary_switches = 3;
        }
        let output = settle(32, &[Made::from("closed", slow)]).unwrap();
        assert!(output.confidence == Confidence::Sure, "{output:?}");
        assert!(
            output
                .text
                .contains("20 are slower than 10 medians. Of the 10 rounds that have them: taken off the CPU in 10."),
            "{output:?}"
        );
    }

    #[test]
    fn outliers_are_those_of_the_rounds_that_make_the_headline() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        for (at, round) in run.rounds.iter_mut().enumerate() {
            round.steal_ticks = Some(if at < 10 { 3 } else { 0 });
            stalls(round, 1, if at < 10 { 50_000_000 } else { 5_000_000 });
        }
        let output = settle(32, &[Made::from("closed", run)]).unwrap().text;
        assert!(output.contains("30 are slower than 10 medians") && output.contains("10 disturbed rounds"), "{output}");
        assert!(output.contains("(slowest 50.0"), "{output}");
    }

    #[test]
    fn signals_are_counted_against_messages() {
        let with = |signals| {
            let mut run = Build::echo(&["udp:send/sigio"], &[64]).run();
            run.rounds.iter_mut().for_each(|round| round.far_mut().calls.signals = signals);
            settle(34, &[Made::from("flood", run)])
        };
        let output = with(100).unwrap();
        assert!(output.confidence == Confidence::Sure && output.text.contains("4.00 a signal"), "{output:?}");
        assert_eq!(with(400).unwrap().confidence, Confidence::CantTell);
        assert!(with(0).is_none());
    }

    #[test]
    fn impossible_orders_are_the_offset_of_two_clocks() {
        let (run, logs) = Calls::new(1, -3.0 * MS, 0.0).pings(400, 2.0 * S).run(&["ping"], 10);
        let output = settle(38, &[Made::with("rpc", run, logs)]).unwrap();
        let (run, logs) = Calls::new(2, 0.0, 0.0).same_machine().pings(400, 2.0 * S).run(&["ping"], 10);
        let alike = settle(38, &[Made::with("rpc", run, logs)]).unwrap();
        assert!(output.text.contains("calls") && alike.confidence == Confidence::Sure, "{output:?} {alike:?}");
        assert!(alike.text.contains("one clock, so none can"), "{alike:?}");
        assert!(output.confidence == Confidence::Sure && output.text.starts_with("no time is negative"), "{output:?}");
    }

    #[test]
    fn a_closed_loop_leaves_the_waiting_out() {
        let queue = |lateness| {
            let mut open = run(&[Queue::mm1(0.3, 600, 100, 9)]);
            if lateness > 0 {
                late(&mut open, lateness, 15);
            }
            let closed = Build::echo(&["tcp:send/epoll"], &[64]).messages(400).factor(|_| 0.3);
            settle(40, &[Made::of("closed", &closed), Made::from("open", open)])
        };
        let output = queue(60_000).unwrap();
        assert!(output.confidence == Confidence::Sure && output.text.contains("coordinated omission"), "{output:?}");
        assert_eq!(queue(0).unwrap().confidence, Confidence::CantTell);
    }
}
