//! Claims about mechanisms of one machine, about clocks and tails.

use msgpath_core::plan::{CaseRole, Load, Workload};
use msgpath_core::schema::RoundRecord;
use msgpath_core::units::size;
use msgpath_stats::pooled::Pooled;
use msgpath_stats::verdict::Verdict;

use super::Claim;
use crate::answers::cell::{Cell, Table, Value};
use crate::answers::rows::{
    above, below, beyond, claimed, cpu_ns, find, list, measured, number, over, p50, percent, rate, ratio_with, three,
    time, time_with, weakest,
};
use crate::answers::{Answer, Part};
use crate::summary::{CaseSummary, Confidence};

pub(super) const CLAIMS: &[Claim] = &[
    Claim { number: 10, claim: ONE_WAY, settle: one_way },
    Claim { number: 29, claim: SHM, settle: shm },
    Claim { number: 30, claim: MQ, settle: mq },
    Claim { number: 31, claim: FIFO, settle: fifo },
    Claim { number: 32, claim: OUTLIERS, settle: outliers },
    Claim { number: 34, claim: SIGIO, settle: sigio },
    Claim { number: 38, claim: NEGATIVE, settle: negative },
    Claim { number: 40, claim: CLOSED, settle: closed },
];

const ONE_WAY: &str = "One way is half of the round trip";
const SHM: &str = "Shared memory is 100 times faster than pipes";
const MQ: &str = "Message queues are faster than shared memory at large sizes";
const FIFO: &str = "A FIFO beats a pipe (or the reverse)";
const OUTLIERS: &str = "Outliers are dropped (above 1 s, at most 0, or beyond 1.5 IQR)";
const SIGIO: &str = "SIGIO delivers one signal per frame";
const NEGATIVE: &str = "T2 before T1: the message took negative time";
const CLOSED: &str = "The mean of a closed loop is the latency under load";

/// Every measured case of these runs.
fn all<'a>(parts: &[Part<'a>]) -> impl Iterator<Item = (Part<'a>, &'a CaseSummary)> {
    parts.iter().flat_map(|part| measured(part.summary).map(move |case| (*part, case)))
}

/// The way there as a share of the round trip, from stamps of one clock at both ends.
fn one_way(parts: &[Part<'_>]) -> Option<Answer> {
    let mut table = Table::new(
        "one-way",
        "the way there, from stamps at both ends on one clock",
        &["path", "message", "reply", "round trip, p50", "there, p50", "there of the round trip"],
    );
    let mut shares: Vec<(String, Value)> = Vec::new();
    // Only an echo has a way back: the median of a periodic case is itself one way, that of a call has the server in it.
    let echoes = all(parts).filter(|(part, _)| part.run.header.plan.workload == Workload::Echo);
    for (_, case) in echoes.filter(|(_, case)| case.case.load == Load::Closed) {
        let there =
            case.one_way.as_ref().filter(|one_way| one_way.is_interval() && one_way.ns.is_some()).map(Value::from);
        let Some((there, back_too)) = there.zip(p50(case)) else { continue };
        let share = over(there, back_too);
        table.row([
            Cell::text(case.case.path.to_string()),
            Cell::size(case.case.size),
            Cell::size(case.case.reply),
            Cell::Time(back_too),
            Cell::Time(there),
            Cell::Share(share),
        ]);
        let name = format!("{} with {} there and {} back", case.case.path, size(case.case.size), size(case.case.reply));
        shares.push((name, share));
    }
    let far = |share: &Value| (share.value - 0.5).abs();
    let (name, share) = shares.iter().max_by(|a, b| far(&a.1).total_cmp(&far(&b.1)))?;
    let unequal = shares.iter().filter(|(_, share)| beyond(share, 0.5) == Confidence::Sure).count();
    let interval = share
        .low
        .zip(share.high)
        .map_or_else(String::new, |(low, high)| format!(" ({} to {})", percent(low), percent(high)));
    let wrong = (share.value - 0.5) / 0.5;
    let text = format!(
        "only where both ways cost the same: in {unequal} of {} cases the way there is not half at p50. {name}: it is {}{interval} \
         of the round trip, so half of it is wrong by {} of itself.",
        shares.len(),
        percent(share.value),
        percent(wrong.abs())
    );
    let confidence = if unequal > 0 { Confidence::Sure } else { Confidence::CantTell };
    let answer = Answer::new(ONE_WAY, confidence, text).with(table);
    Some(if unequal > 0 { answer } else { answer.next("msgpath echo -x tcp:send -l 64K --reply 64 --stamps both") })
}

/// Shared memory against a pipe of one size: with the same waiting, and with the shared memory alone spinning.
fn shm(parts: &[Part<'_>]) -> Option<Answer> {
    let case = |transport: &str, wait: &str| parts.iter().find_map(|part| find(part, transport, wait, 64));
    let (pipe, asleep, spinning) = (case("pipe", "block")?, case("shm", "futex")?, case("shm", "spin")?);
    let pipe_spinning = case("pipe", "spin")?;
    let [pipe50, asleep50, spinning50, pipe_spinning50] =
        [p50(pipe)?, p50(asleep)?, p50(spinning)?, p50(pipe_spinning)?];
    let (unequal, sleeping, both_spin) =
        (over(pipe50, spinning50), over(pipe50, asleep50), over(pipe_spinning50, spinning50));
    let mut table = Table::new(
        "shm-pipe",
        "a pipe against shared memory, 64 B",
        &["comparison", "pipe, p50", "shm, p50", "times", "pipe CPU ns/msg", "shm CPU ns/msg"],
    );
    for (name, (pipe, pipe50), (shm, shm50), ratio) in [
        ("as it is claimed: pipe asleep, shm spins", (pipe, pipe50), (spinning, spinning50), unequal),
        ("both asleep", (pipe, pipe50), (asleep, asleep50), sleeping),
        ("both spin", (pipe_spinning, pipe_spinning50), (spinning, spinning50), both_spin),
    ] {
        let cpu = |case| Cell::or_missing(cpu_ns(case), Cell::Number, "not counted");
        table.row([Cell::text(name), Cell::Time(pipe50), Cell::Time(shm50), Cell::Ratio(ratio), cpu(pipe), cpu(shm)]);
    }
    let burned = cpu_ns(asleep).zip(cpu_ns(spinning)).map_or_else(String::new, |(asleep, spinning)| {
        format!(" CPU time of both ends for a message of shm: {} asleep, {} spinning.", time(asleep), time(spinning))
    });
    let text = format!(
        "at 64 B shm that spins is {} times as fast as a pipe that sleeps. With the same waiting it is {} times (both asleep) \
         and {} times (both spin): the rest is the waiting.{burned}",
        ratio_with(&unequal),
        ratio_with(&sleeping),
        ratio_with(&both_spin)
    );
    let against = |ratio: &Value| if below(ratio, 100.0) { Confidence::Sure } else { Confidence::CantTell };
    let text = if below(&sleeping, 100.0) && below(&both_spin, 100.0) {
        format!("not with the same waiting: {text}")
    } else {
        text
    };
    Some(Answer::new(SHM, weakest([against(&sleeping), against(&both_spin)]), text).with(table))
}

/// Queues against shared memory at the largest size that both carry whole.
fn mq(parts: &[Part<'_>]) -> Option<Answer> {
    let mut best: Option<(Part<'_>, &CaseSummary, &CaseSummary)> = None;
    for (part, queue) in all(parts).filter(|(_, case)| case.case.path.transport == "mq") {
        let asleep = if queue.case.path.wait == "spin" { "spin" } else { "futex" };
        let Some(shm) = find(&part, "shm", asleep, queue.case.size) else { continue };
        if best.is_none_or(|(_, other, _)| other.case.size < queue.case.size) {
            best = Some((part, queue, shm));
        }
    }
    let (part, queue, shm) = best?;
    let ratio = over(p50(queue)?, p50(shm)?);
    let granted = queue.granted.iter().find(|entry| entry.option == "mq_msgsize")?;
    let mut table =
        Table::new("mq-shm", "queues against shared memory", &["run", "message", "mq granted", "mq to shm, p50"]);
    for (part, queue) in all(parts).filter(|(_, case)| case.case.path.transport == "mq") {
        let wait = if queue.case.path.wait == "spin" { "spin" } else { "futex" };
        let own = find(&part, "shm", wait, queue.case.size).and_then(|shm| p50(queue).zip(p50(shm)));
        let granted = queue.granted.iter().find(|entry| entry.option == "mq_msgsize");
        table.row([
            Cell::text(part.name),
            Cell::size(queue.case.size),
            Cell::or_missing(granted.and_then(|entry| entry.granted.parse::<f64>().ok()), Cell::Number, "not read"),
            Cell::or_missing(own.map(|(queue, shm)| over(queue, shm)), Cell::Ratio, "no interval"),
        ]);
    }
    let refused: Vec<String> = part
        .summary
        .unavailable
        .iter()
        .filter(|one| one.case.path.transport == "mq" && one.case.role == CaseRole::Measured)
        .map(|one| size(one.case.size))
        .collect();
    let limit = match refused.is_empty() {
        true => String::new(),
        false => format!(
            " {} was refused, not cut to what a queue takes: a program that clamps compares other messages.",
            list(&refused)
        ),
    };
    let text = format!(
        "at {}, the largest message that both carry whole (mq_msgsize granted: {} B), mq:{}/{} takes {} times as long as shm at \
         p50 with the same waiting.{limit}",
        size(queue.case.size),
        granted.granted,
        queue.case.path.method,
        queue.case.path.wait,
        ratio_with(&ratio)
    );
    Some(Answer::new(MQ, beyond(&ratio, 1.0), text).with(table))
}

/// The same kernel object under two names, in turn and on the same CPUs.
fn fifo(parts: &[Part<'_>]) -> Option<Answer> {
    let mut table = Table::new(
        "fifo-pipe",
        "FIFO against pipe, measured in turn on the same CPUs",
        &["run", "message", "FIFO to pipe, p50", "verdict"],
    );
    let (mut verdicts, mut widest, mut rounds) = (Vec::new(), None::<(f64, String)>, None);
    for part in parts {
        let Some(comparison) = part.summary.comparison.as_ref().filter(|all| all.baseline.transport == "pipe") else {
            continue;
        };
        for ratio in &comparison.ratios {
            let Some(case) = measured(part.summary).find(|case| case.case.id == ratio.case) else { continue };
            if case.case.path.transport != "fifo" {
                continue;
            }
            let verdict = match ratio.verdict {
                Verdict::Better => "faster",
                Verdict::Worse => "slower",
                Verdict::Equivalent => "the same",
                Verdict::Undecided => "not decided",
            };
            let value = Value { value: ratio.ratio, low: ratio.low, high: ratio.high };
            table.row([Cell::text(part.name), Cell::size(case.case.size), Cell::Ratio(value), Cell::text(verdict)]);
            verdicts.push(ratio.verdict);
            rounds = rounds.max(ratio.rounds_needed);
            let far = ratio.ratio.ln().abs();
            if widest.as_ref().is_none_or(|(most, _)| far > *most) {
                let what = format!("{} at {} in the run {}", ratio_with(&value), size(case.case.size), part.name);
                widest = Some((far, what));
            }
        }
    }
    let (_, widest) = widest?;
    let count = |verdict: Verdict| verdicts.iter().filter(|one| **one == verdict).count();
    let (faster, slower, same, open) =
        (count(Verdict::Better), count(Verdict::Worse), count(Verdict::Equivalent), count(Verdict::Undecided));
    let all = verdicts.len();
    let text = format!(
        "both are one kernel object. Measured in turn on the same CPUs a FIFO is faster in {faster}, slower in {slower}, the same \
         within the margin in {same} and not decided in {open} of {all} cases; farthest from 1: {widest}."
    );
    let (confidence, end) = match (faster + slower, open) {
        (0, 0) => (Confidence::Sure, " Neither beats the other."),
        (0, _) => (Confidence::CantTell, " No difference was shown."),
        _ if faster > 0 && slower > 0 => (
            Confidence::Likely,
            " The sign is not the same everywhere: it is where the ends were woken, not the object.",
        ),
        _ => (
            Confidence::Likely,
            " A difference that is left between equal objects is one of wake-ups or of the buffers they happened to get.",
        ),
    };
    let answer = Answer::new(FIFO, confidence, text + end).with(table);
    Some(match rounds.filter(|_| open > 0) {
        Some(rounds) => answer.next(format!("msgpath compare -x pipe:write,fifo:write -l 64 -r {}", rounds.min(400))),
        None => answer,
    })
}

/// What is slow stays, and what fell on those rounds.
fn outliers(parts: &[Part<'_>]) -> Option<Answer> {
    let share = |case: &CaseSummary| case.time_share_over_10x.unwrap_or(0.0);
    let (part, case) = all(parts)
        .filter(|(part, case)| {
            part.run.header.plan.workload == Workload::Echo && case.case.load == Load::Closed && case.messages > 0
        })
        .max_by(|a, b| share(a.1).total_cmp(&share(b.1)))?;
    let rounds: Vec<&RoundRecord> = crate::calm::rounds_of(part.run, &case.case);
    let pooled = Pooled::new(&rounds.iter().map(|round| &round.latency).collect::<Vec<_>>());
    let quartile = |p: f64| pooled.quantile(p).flatten().map(|ns| ns as f64);
    let (first, median, third) = (quartile(0.25)?, quartile(0.5)?, quartile(0.75)?);
    let fence = third + 1.5 * (third - first);
    let (time_beyond, share_beyond) = pooled.above(fence)?;
    let beyond: u64 = pooled.count_between(fence as u64 + 1, u64::MAX);
    let slow = pooled.count_between((10.0 * median) as u64 + 1, u64::MAX);
    let mut table = Table::new(
        "outliers",
        format!(
            "rounds of {} in the run {}: what else happened in those with a message slower than 10 medians",
            case.case.path, part.name
        ),
        &["what", "rounds with it", "of rounds with slow messages", "rounds without slow ones that have it"],
    );
    let is_slow = |round: &&&RoundRecord| round.latency.max().is_some_and(|max| max as f64 > 10.0 * median);
    let with: Vec<&&RoundRecord> = rounds.iter().filter(is_slow).collect();
    let without: Vec<&&RoundRecord> = rounds.iter().filter(|round| !is_slow(round)).collect();
    type Test = fn(&RoundRecord) -> bool;
    let tests: [(&str, Test); 4] = [
        ("stolen by the hypervisor", |round| round.flags.iter().any(|flag| flag == "steal")),
        ("taken off the CPU", |round| round.near.involuntary_switches + round.far.involuntary_switches > 0),
        ("page faults", |round| round.near.minor_faults + round.far.minor_faults > 0),
        ("ready and not running for a tenth of its time", |round| {
            let waited = |end: &msgpath_core::schema::EndReport| end.run_delay_ns.unwrap_or(0) * 10 > end.elapsed_ns;
            waited(&round.near) || waited(&round.far)
        }),
    ];
    let mut causes = Vec::new();
    for (name, test) in tests {
        let count = |rounds: &[&&RoundRecord]| rounds.iter().filter(|round| test(round)).count();
        let (slow, other) = (count(&with), count(&without));
        table.row([
            Cell::text(name),
            Cell::count((slow + other) as u64),
            Cell::text(format!("{slow} of {}", with.len())),
            Cell::text(format!("{other} of {}", without.len())),
        ]);
        if slow > 0 {
            causes.push(format!("{name} in {slow}"));
        }
    }
    let start = case.first.as_ref().map_or_else(String::new, |first| {
        format!(
            " The first {} messages of the connections are apart (slowest {}).",
            number(first.messages),
            match first.slowest_ns {
                Some(ns) => time(ns as f64),
                None => "unknown".into(),
            }
        )
    });
    let beside = case.beside.as_ref().map_or_else(String::new, |beside| {
        let slowest = beside.slowest_ns.map_or_else(|| "unknown".into(), |ns| time(ns as f64));
        format!(" {} disturbed rounds stand beside these (slowest {slowest}).", beside.rounds)
    });
    if beyond == 0 {
        let text = format!(
            "nothing would be dropped here: of {} messages of {} none lies beyond 1.5 IQR.{beside}",
            number(pooled.total()),
            case.case.path
        );
        return Some(Answer::new(OUTLIERS, Confidence::CantTell, text).with(table));
    }
    let classified = match (with.len(), causes.is_empty()) {
        (0, _) => String::new(),
        (rounds, true) => format!(" None of the causes looked for was seen in the {rounds} rounds that have them."),
        (rounds, false) => format!(" Of the {rounds} rounds that have them: {}.", list(&causes)),
    };
    let text = format!(
        "that would hide the result. {} in the run {}: beyond 1.5 IQR lie {} of {} messages ({}), {} of all the time; the slowest took \
         {}. They are kept: {} are slower than 10 medians.{classified}{start}{beside} No time is 0 or less: both stamps are of one \
         monotonic clock.",
        case.case.path,
        part.name,
        number(beyond),
        number(pooled.total()),
        percent(share_beyond),
        percent(time_beyond),
        time(pooled.max().unwrap_or(0) as f64),
        number(slow)
    );
    Some(Answer::new(OUTLIERS, Confidence::Sure, text).with(table))
}

/// Messages and signals of every path that took signals.
fn sigio(parts: &[Part<'_>]) -> Option<Answer> {
    let mut seen: Vec<(f64, String)> = Vec::new();
    for (part, case) in all(parts).filter(|(part, _)| !part.run.header.plan.options.queued_signals) {
        let signals = case.near_calls.signals + case.far_calls.signals;
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
            number(messages),
            number(signals),
            three(each)
        );
        seen.push((each, text));
    }
    seen.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (most, text) = seen.first()?;
    Some(if *most > 1.01 {
        let least = seen.last().filter(|_| seen.len() > 1).map_or_else(String::new, |(_, text)| format!("; {text}"));
        Answer::new(SIGIO, Confidence::Sure, format!("no, standard signals merge while one is pending. {text}{least}."))
    } else {
        let text = format!("not contradicted here, because messages were too far apart to merge: {text}.");
        Answer::new(SIGIO, Confidence::CantTell, text).next("msgpath echo -x udp:send/sigio --inflight 32")
    })
}

/// Stamps of two clocks as they were read.
fn negative(parts: &[Part<'_>]) -> Option<Answer> {
    let part = parts.iter().find(|part| part.summary.rpc.is_some())?;
    let summary = part.summary.rpc.as_ref()?;
    let stamped: Vec<i64> = part.logs.rpcs.iter().filter_map(|row| row.received_ns).collect();
    if stamped.is_empty() {
        return None;
    }
    let impossible = stamped.iter().filter(|ns| **ns < 0).count();
    let late =
        part.logs.rpcs.iter().filter(|row| {
            row.replied_ns.zip(row.latency_ns).is_some_and(|(replied, latency)| replied > latency as i64)
        });
    let late = late.count();
    let contradicting: u64 = summary.clocks.iter().map(|clock| clock.contradicting).sum();
    let clocks: Vec<String> =
        summary.clocks.iter().map(|clock| clock.text.clone()).filter(|text| !text.is_empty()).collect();
    let same = summary.clocks.iter().all(|clock| clock.same);
    let what = format!(
        "of {} calls {} have T2 before T1 and {} T3 after T4, as the two clocks were read",
        number(stamped.len() as u64),
        number(impossible as u64),
        number(late as u64)
    );
    let after = format!("{} calls contradict the bound", number(contradicting));
    Some(match (same, impossible + late) {
        (true, 0) => Answer::new(
            NEGATIVE,
            Confidence::Sure,
            format!("{what}: both ends are on one machine and read one clock, so none can."),
        ),
        (true, _) => Answer::new(
            NEGATIVE,
            Confidence::CantTell,
            format!("{what}, although both ends read one clock: the stamps are wrong or altered."),
        ),
        (false, 0) => {
            Answer::new(NEGATIVE, Confidence::CantTell, format!("{what}; the clocks: {}; {after}.", list(&clocks)))
        }
        (false, _) => Answer::new(
            NEGATIVE,
            Confidence::Sure,
            format!(
                "no time is negative: it is the offset of the clocks. {what}; the offset that all calls allow: {}; {after}.",
                list(&clocks)
            ),
        ),
    })
}

/// A closed loop beside an open one on the same path and size.
fn closed(parts: &[Part<'_>]) -> Option<Answer> {
    let mut best: Option<(f64, &CaseSummary, &CaseSummary, Value, Value, Value)> = None;
    for (_, closed) in all(parts).filter(|(_, case)| case.case.load == Load::Closed) {
        let Some(closed99) = claimed(&closed.quantiles, 0.99) else { continue };
        for (_, case) in all(parts).filter(|(_, case)| {
            case.case.path == closed.case.path
                && case.case.size == closed.case.size
                && case.case.reply == closed.case.reply
        }) {
            let Some(open) = case.open.as_ref().filter(|open| open.sustained) else { continue };
            let Some((intended, actual)) = claimed(&case.quantiles, 0.99).zip(claimed(&open.service, 0.99)) else {
                continue;
            };
            let ratio = intended.value / closed99.value;
            if best.as_ref().is_none_or(|(most, ..)| ratio > *most) {
                best = Some((ratio, closed, case, closed99, intended, actual));
            }
        }
    }
    let (_, closed, case, closed99, intended, actual) = best?;
    let mean = closed.mean_ns.map_or_else(String::new, |ns| format!("mean {}, ", time(ns)));
    let offered = case.case.load.rate().map_or_else(String::new, |at| rate(at.value()));
    let (to_closed, to_actual) = (over(intended, closed99), over(intended, actual));
    let text = format!(
        "{}, {}: the closed loop says {mean}p99 {}. At {offered} by a schedule p99 is {} from the intended send, {} times that, \
         and {} from the actual send",
        case.case.path,
        size(case.case.size),
        time_with(&closed99),
        time_with(&intended),
        ratio_with(&to_closed),
        time_with(&actual)
    );
    let omitted = match above(&to_actual, 1.0) {
        true => ": the time from the actual send leaves the waiting out (coordinated omission).",
        false => "; that the two sends differ is not shown here.",
    };
    let slower = above(&to_closed, 1.0);
    let (lead, confidence) = match (slower, below(&to_closed, 1.0)) {
        (true, _) => ("no. ", Confidence::Sure),
        (_, true) => ("at this rate it is not less than that. ", Confidence::CantTell),
        _ => ("no difference is shown at the rates that were sustained. ", Confidence::CantTell),
    };
    let answer = Answer::new(CLOSED, confidence, format!("{lead}{text}{omitted}"));
    Some(if slower { answer } else { answer.next("msgpath preset load-curve -- -t 20s") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::rows::testing::Made;
    use crate::testing::{Build, grant, stalls};
    use crate::testing_queue::{Queue, late, run};
    use crate::testing_rpc::{Calls, MS, S};
    use msgpath_stats::simulate::lognormal_rounds;

    fn settle(number: u8, made: &[Made]) -> Option<Answer> {
        let claim = CLAIMS.iter().find(|claim| claim.number == number).expect("a claim");
        (claim.settle)(&Made::parts(made))
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
        let said = settle(29, &zoo(0.9, 0.1)).unwrap();
        assert!(said.confidence == Confidence::Sure && said.text.starts_with("not with the same waiting"), "{said:?}");
        let said = settle(29, &zoo(0.9, 4.0)).unwrap();
        assert!(said.confidence == Confidence::CantTell && said.text.starts_with("at 64 B"), "{said:?}");
        assert!(settle(29, &zoo(0.9, 0.1)[..1]).is_none());
    }

    #[test]
    fn queues_and_fifos() {
        let made = zoo(1.0, 0.1);
        let said = settle(30, &made).unwrap();
        assert!(said.confidence == Confidence::Sure && said.text.contains("granted: 64 B"), "{said:?}");
        let said = settle(31, &made).unwrap();
        assert!(said.text.contains("the same within the margin in 1"), "{said:?}");
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
        let said = one_way(0.8).unwrap();
        assert!(said.confidence == Confidence::Sure && said.text.contains("in 1 of 1 cases"), "{said:?}");
        let said = one_way(0.5).unwrap();
        assert!(said.confidence == Confidence::CantTell && said.text.contains("in 0 of 1 cases"), "{said:?}");
        assert!(settle(10, &[Made::of("a", &Build::echo(&["tcp:send"], &[64]))]).is_none());
    }

    #[test]
    fn what_is_slow_is_kept_and_counted() {
        let build = Build::echo(&["tcp:send"], &[64]);
        let mut slow = build.run();
        for round in slow.rounds.iter_mut().take(10) {
            stalls(round, 2, 5_000_000);
            round.near.involuntary_switches = 3;
        }
        let said = settle(32, &[Made::from("closed", slow)]).unwrap();
        assert!(said.confidence == Confidence::Sure, "{said:?}");
        assert!(
            said.text
                .contains("20 are slower than 10 medians. Of the 10 rounds that have them: taken off the CPU in 10."),
            "{said:?}"
        );
    }

    #[test]
    fn outliers_are_those_of_the_rounds_that_make_the_headline() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        for (at, round) in run.rounds.iter_mut().enumerate() {
            round.steal_ticks = Some(if at < 10 { 3 } else { 0 });
            stalls(round, 1, if at < 10 { 50_000_000 } else { 5_000_000 });
        }
        let said = settle(32, &[Made::from("closed", run)]).unwrap().text;
        assert!(said.contains("30 are slower than 10 medians") && said.contains("10 disturbed rounds"), "{said}");
        assert!(said.contains("(slowest 50.0"), "{said}");
    }

    #[test]
    fn signals_are_counted_against_messages() {
        let with = |signals| {
            let mut run = Build::echo(&["udp:send/sigio"], &[64]).run();
            run.rounds.iter_mut().for_each(|round| round.far.calls.signals = signals);
            settle(34, &[Made::from("flood", run)])
        };
        let said = with(100).unwrap();
        assert!(said.confidence == Confidence::Sure && said.text.contains("4.00 a signal"), "{said:?}");
        assert_eq!(with(400).unwrap().confidence, Confidence::CantTell);
        assert!(with(0).is_none());
    }

    #[test]
    fn impossible_orders_are_the_offset_of_two_clocks() {
        let (run, logs) = Calls::new(1, -3.0 * MS, 0.0).pings(400, 2.0 * S).run(&["ping"], 10);
        let said = settle(38, &[Made::with("rpc", run, logs)]).unwrap();
        let (run, logs) = Calls::new(2, 0.0, 0.0).same_machine().pings(400, 2.0 * S).run(&["ping"], 10);
        let alike = settle(38, &[Made::with("rpc", run, logs)]).unwrap();
        assert!(said.text.contains("calls") && alike.confidence == Confidence::Sure, "{said:?} {alike:?}");
        assert!(alike.text.contains("one clock, so none can"), "{alike:?}");
        assert!(said.confidence == Confidence::Sure && said.text.starts_with("no time is negative"), "{said:?}");
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
        let said = queue(60_000).unwrap();
        assert!(said.confidence == Confidence::Sure && said.text.contains("coordinated omission"), "{said:?}");
        assert_eq!(queue(0).unwrap().confidence, Confidence::CantTell);
    }
}
