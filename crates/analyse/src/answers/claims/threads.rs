//! Claims about threads, queues and switches.

use msgpath_core::plan::{Case, CaseRole, Load, Plan, Workload};
use msgpath_core::schema::{DeviceKind, RoundRecord};
use msgpath_core::units::{Glyphs, size, three_digits};
use msgpath_stats::estimate::{Estimate, log_estimate};
use msgpath_stats::quantile::Quantile;

use super::Claim;
use crate::answers::{Answer, Cell, Part, Table};
use crate::calm::rounds_of;
use crate::findings::queueing::{MAY_HAVE_STAYED, STAYED, deeper, steps, times};
use crate::series::per_second;
use crate::summary::{CaseSummary, Confidence};
use crate::threads::{arrangement, medians_by_thread, rates, ratio};

const G: Glyphs = Glyphs::Unicode;

pub(super) const CLAIMS: &[Claim] = &[
    Claim { number: 7, claim: "latency = time / count", settle: time_by_count },
    Claim { number: 12, claim: "latency falls with threads", settle: falls_with_threads },
    Claim { number: 13, claim: "latency grows with threads = contention", settle: grows_by_contention },
    Claim { number: 15, claim: "zero-copy costs N times the context switches", settle: periodic_switches },
    Claim { number: 16, claim: "127.0.0.1 bypasses TCP/IP", settle: bypasses },
    Claim { number: 17, claim: "system calls = context switches", settle: calls_are_switches },
];

/// A case of a closed-loop echo with its rounds.
struct Measured<'a> {
    part: Part<'a>,
    summary: &'a CaseSummary,
    rounds: Vec<&'a RoundRecord>,
}

impl Measured<'_> {
    fn case(&self) -> &Case {
        &self.summary.case
    }

    /// `tcp:send, 64 B, 4 connections, a thread each`.
    fn name(&self) -> String {
        format!("{}, {}, {}", self.case().path, size(self.case().size), arrangement(self.case()))
    }
}

fn echoes<'a>(parts: &[Part<'a>]) -> Vec<Measured<'a>> {
    let timed = parts.iter().filter(|part| part.run.header.plan.workload == Workload::Echo);
    timed
        .flat_map(|part| {
            let cases = part.summary.cases.iter().filter(|case| {
                case.case.role == CaseRole::Measured && case.case.load == Load::Closed && case.rounds > 0
            });
            cases.map(|summary| Measured { part: *part, summary, rounds: rounds_of(part.run, &summary.case) })
        })
        .collect()
}

fn p50(case: &CaseSummary) -> Option<&Quantile> {
    case.quantiles.iter().find(|quantile| quantile.p == 0.5)
}

/// Each round's value of `of`.
fn over_rounds(rounds: &[&RoundRecord], of: impl Fn(&RoundRecord) -> Option<f64>) -> Option<Estimate> {
    log_estimate(&rounds.iter().filter_map(|round| of(round)).collect::<Vec<_>>())
}

/// The time by the count is the reciprocal of the rate; a message takes as many of these as are under way.
fn time_by_count(parts: &[Part<'_>]) -> Option<Answer> {
    let question = "latency = time / count";
    let all: Vec<_> = echoes(parts)
        .into_iter()
        .filter(|one| Plan::under_way(one.case()) > 1)
        .filter_map(|one| Some((one.summary.threads.as_ref()?.implied.clone()?, one)))
        .collect();
    let (implied, deepest) = all.iter().max_by(|a, b| a.0.value.total_cmp(&b.0.value))?;
    let rate = deepest.summary.rate_per_s.as_ref()?;
    let mut table = Table::new(
        "time-by-count",
        "Time / count beside the round trip",
        &["case", "time / count", "mean round trip", "the one in the other", "under way"],
    );
    for (implied, one) in &all {
        let (Some(rate), Some(mean)) = (&one.summary.rate_per_s, one.summary.mean_ns) else { continue };
        table.row([
            Cell::text(one.name()),
            Cell::Time((1e9 / rate.value).into()),
            Cell::Time(mean.into()),
            Cell::Number(implied.into()),
            Cell::count(Plan::under_way(one.case())),
        ]);
    }
    let text = format!(
        "{}: time / count is {}, a round trip takes {} on average, {} as long: as long as {} messages under way make it. \
         Time / count is one over the rate; only with one message under way is it the mean round trip",
        deepest.name(),
        G.time(1e9 / rate.value),
        G.time(deepest.summary.mean_ns?),
        times(implied),
        Plan::under_way(deepest.case()),
    );
    Some(match (implied.low, implied.high) {
        (Some(low), _) if low > 1.0 => Answer::new(question, Confidence::Sure, text).with(table),
        (_, Some(high)) if high < 1.0 => Answer::new(
            question,
            Confidence::Likely,
            format!(
                "{}: rate times mean time is {}, below one message under way: the two do not fit",
                deepest.name(),
                times(implied)
            ),
        )
        .with(table),
        _ => Answer::new(
            question,
            Confidence::CantTell,
            format!(
                "{}: rate times mean time is {}, which does not exclude 1; more rounds would settle it (-r 40)",
                deepest.name(),
                times(implied)
            ),
        )
        .with(table),
    })
}

/// The fewest and the most threads of a run that measured several, with nothing else to tell them apart.
fn fewest_and_most<'a>(all: &'a [Measured<'a>]) -> Option<(&'a Measured<'a>, &'a Measured<'a>)> {
    let alike = |a: &Measured, b: &Measured| {
        let (a_case, b_case) = (a.case(), b.case());
        a.part.name == b.part.name
            && (&a_case.path, a_case.size, a_case.pieces) == (&b_case.path, b_case.size, b_case.pieces)
            && (a_case.inflight, a_case.dispatch) == (b_case.inflight, b_case.dispatch)
            && a_case.connections == a_case.threads
            && b_case.connections == b_case.threads
    };
    let most = all.iter().max_by_key(|one| one.case().threads)?;
    let few = all.iter().filter(|one| alike(one, most)).min_by_key(|one| one.case().threads)?;
    (few.case().threads < most.case().threads).then_some((few, most))
}

/// Whether round trips get shorter with threads, beside what time / count does.
fn falls_with_threads(parts: &[Part<'_>]) -> Option<Answer> {
    let question = "latency falls with threads";
    let all = echoes(parts);
    let (few, most) = fewest_and_most(&all)?;
    let plan = &few.part.run.header.plan;
    let medians =
        |one: &Measured| crate::series::series(&one.part.run.header.plan, msgpath_core::plan::Metric::P50, &one.rounds);
    let time = ratio(plan, most.case(), few.case(), &medians(most), &medians(few))?;
    let rate = ratio(plan, most.case(), few.case(), &rates(plan, &most.rounds), &rates(plan, &few.rounds))?;
    let threads = |one: &Measured| match one.case().threads {
        1 => "1 thread".to_owned(),
        threads => format!("{threads} threads"),
    };
    let mut table = Table::new(
        "median-by-threads",
        "The median round trip of each thread",
        &["threads", "all together", "fastest thread", "slowest thread", "time / count"],
    );
    for one in all.iter().filter(|one| one.part.name == few.part.name && one.case().path == few.case().path) {
        let own: Vec<f64> = medians_by_thread(&one.part.logs.echoes, one.case());
        let end = |pick: fn(f64, f64) -> f64| {
            let value = own.iter().copied().reduce(pick);
            Cell::or_missing(value, Cell::Time, "the message log has too few of a thread's messages")
        };
        table.row([
            Cell::count(one.case().threads.into()),
            Cell::or_missing(p50(one.summary), Cell::Time, "no median"),
            end(f64::min),
            end(f64::max),
            Cell::or_missing(one.summary.rate_per_s.as_ref().map(|rate| 1e9 / rate.value), Cell::Time, "no rate"),
        ]);
    }
    let what = format!(
        "from {} to {} the median round trip became {} as long, while time / count became {} as long",
        threads(few),
        threads(most),
        times(&time),
        three_digits(1.0 / rate.value)
    );
    let (confidence, text) = match (time.low, time.high) {
        (Some(low), _) if low > 1.0 => (Confidence::Sure, format!("It does not: {what}")),
        (_, Some(high)) if high < 1.0 => (Confidence::Likely, format!("It does here: {what}")),
        _ => (Confidence::CantTell, format!("No difference is shown: {what}; more rounds would settle it")),
    };
    Some(Answer::new(question, confidence, text).with(table))
}

/// Whether longer round trips with more under way are a queue at a fixed capacity or messages that cost each other work.
fn grows_by_contention(parts: &[Part<'_>]) -> Option<Answer> {
    let question = "latency grows with threads = contention";
    let mut pairs = Vec::new();
    for part in parts {
        let plan = &part.run.header.plan;
        let rounds: Vec<Vec<&RoundRecord>> = plan.cases.iter().map(|case| rounds_of(part.run, case)).collect();
        let cases: Vec<&CaseSummary> =
            part.summary.cases.iter().filter(|case| case.case.role == CaseRole::Measured && case.rounds > 0).collect();
        let longer =
            deeper(plan, &cases, &rounds).into_iter().filter(|pair| pair.time.low.is_some_and(|low| low > 1.0));
        pairs.extend(longer.map(|pair| {
            // A rate that fell at one step and stayed at the others: the pair alone would not show it.
            let steps = steps(plan, &cases, &rounds, pair.many);
            let several = steps.len() > 1;
            let fell = steps
                .into_iter()
                .filter(|_| several)
                .filter(|step| step.rate.high.is_some_and(|high| high < 1.0 - STAYED))
                .min_by(|a, b| a.rate.value.total_cmp(&b.rate.value));
            (pair, fell)
        }));
    }
    let (pair, fell) = pairs.iter().max_by(|a, b| a.0.time.value.total_cmp(&b.0.time.value))?;
    let what = format!(
        "from {} to {} the mean round trip became {} as long and the rate {} as high",
        arrangement(&pair.few.case),
        arrangement(&pair.many.case),
        times(&pair.time),
        times(&pair.rate)
    );
    let queue = format!(
        "A queue, not contention: {what}. {} times as many were under way at the same capacity",
        three_digits(pair.depth())
    );
    let (confidence, text) = match (pair.rate.low, pair.rate.high, fell) {
        (_, _, Some(step)) => (
            Confidence::Likely,
            format!(
                "Partly: {what}. From {} to {} the rate became {} as high, so messages cost each other work there",
                arrangement(&step.few.case),
                arrangement(&step.many.case),
                times(&step.rate)
            ),
        ),
        _ if pair.stayed(STAYED) => (Confidence::Sure, queue),
        _ if pair.stayed(MAY_HAVE_STAYED) => (Confidence::Likely, queue),
        (_, Some(high), _) if high < 1.0 => (
            Confidence::Likely,
            format!("Partly: {what}. The capacity itself fell, so messages cost each other work here"),
        ),
        (Some(low), ..) if low > 1.0 => (
            Confidence::Likely,
            format!(
                "Not as far as this goes: {what}. The capacity was not reached with the fewer, so the time grew less than the number under way ({} times)",
                three_digits(pair.depth())
            ),
        ),
        _ => (Confidence::CantTell, format!("The rate is not known well enough: {what}; more rounds would settle it")),
    };
    let mut table = Table::new(
        "depth-and-rate",
        "Depth, rate and time",
        &["case", "under way", "rate (1/s)", "mean round trip", "implied in flight", "CPUs busy"],
    );
    for case in [pair.few, pair.many] {
        let figures = case.threads.as_ref()?;
        table.row([
            Cell::text(arrangement(&case.case)),
            Cell::count(figures.under_way),
            Cell::or_missing(case.rate_per_s.as_ref(), Cell::Number, "no rate"),
            Cell::or_missing(case.mean_ns, Cell::Time, "no mean"),
            Cell::or_missing(figures.implied.as_ref(), Cell::Number, "no mean"),
            Cell::or_missing(figures.busy_cpus.as_ref(), Cell::Number, "no CPU time"),
        ]);
    }
    Some(Answer::new(question, confidence, text).with(table))
}

/// Switches of both ends.
fn switches(round: &RoundRecord) -> u64 {
    [&round.near, &round.far].iter().map(|end| end.voluntary_switches + end.involuntary_switches).sum()
}

/// A sleep loop switches so many times a second, whatever the size; a path switches so many times a message.
fn periodic_switches(parts: &[Part<'_>]) -> Option<Answer> {
    let question = "zero-copy costs N times the context switches";
    let all = echoes(parts);
    let of = |zero: bool| all.iter().filter(move |one| one.case().path.method.starts_with("zerocopy") == zero);
    let alike = |one: &Measured, other: &Measured| {
        one.part.name == other.part.name
            && one.case().threads == other.case().threads
            && one.case().path.to_string() == other.case().path.to_string()
    };
    let per_message = |one: &Measured| {
        over_rounds(&one.rounds, |round| Some(switches(round) as f64 / round.near.delivery.sent.max(1) as f64))
    };
    let a_second =
        |one: &Measured| over_rounds(&one.rounds, |round| per_second(switches(round) as f64, round.near.elapsed_ns));
    // The two sizes of one zero-copy path whose rates are furthest apart.
    let rate = |one: &Measured| one.summary.rate_per_s.as_ref().map(|rate| rate.value);
    let pairs = of(true).flat_map(|fast| of(true).filter(move |slow| alike(fast, slow)).map(move |slow| (fast, slow)));
    let (fast, slow) = pairs
        .filter(|(fast, slow)| rate(fast).zip(rate(slow)).is_some_and(|(fast, slow)| fast >= 1.5 * slow))
        .max_by(|a, b| {
            let apart =
                |pair: &(&Measured, &Measured)| rate(pair.0).unwrap_or(0.0) / rate(pair.1).unwrap_or(f64::INFINITY);
            apart(a).total_cmp(&apart(b))
        })?;
    let (Some(fast_s), Some(slow_s)) = (a_second(fast), a_second(slow)) else {
        return Some(Answer::cannot(question, "no context switch was counted"));
    };
    let (fast_each, slow_each) = (per_message(fast)?, per_message(slow)?);
    let apart = rate(fast)? / rate(slow)?;
    let mut table = Table::new(
        "switches",
        "Context switches of both ends",
        &["case", "messages a second", "switches a second", "switches a message"],
    );
    for one in all.iter().filter(|one| one.part.name == fast.part.name && one.case().threads == fast.case().threads) {
        table.row([
            Cell::text(format!("{}, {}", one.case().path, size(one.case().size))),
            Cell::or_missing(one.summary.rate_per_s.as_ref(), Cell::Number, "no rate"),
            Cell::or_missing(a_second(one).as_ref(), Cell::Number, "none was counted"),
            Cell::or_missing(per_message(one).as_ref(), Cell::Number, "none was counted"),
        ]);
    }
    let like = |a: &Estimate, b: &Estimate| (a.value / b.value - 1.0).abs() < 0.2;
    let what = format!(
        "at {} and {} the rates are {} times apart; switches a second are {} and {}, switches a message {} and {}",
        size(fast.case().size),
        size(slow.case().size),
        three_digits(apart),
        three_digits(fast_s.value),
        three_digits(slow_s.value),
        three_digits(fast_each.value),
        three_digits(slow_each.value)
    );
    let claims = fast_s.low.is_some() && slow_s.low.is_some();
    let (confidence, text) = match (like(&fast_s, &slow_s), like(&fast_each, &slow_each)) {
        (true, false) => (
            Confidence::Likely,
            format!(
                "Periodic: {what}. What switches so many times a second, whatever is sent, is a timer or a sleep loop in the program"
            ),
        ),
        (false, true) if claims => (Confidence::Sure, format!("They come with the messages, no timer: {what}")),
        (false, true) => (Confidence::Likely, format!("They come with the messages, no timer: {what}")),
        _ => (
            Confidence::CantTell,
            format!(
                "Neither constant a second nor a message: {what}; sizes whose rates lie further apart would settle it"
            ),
        ),
    };
    let answer = Answer::new(question, confidence, text).with(table);
    // Beside the same message by a call that copies.
    let plain = of(false).find(|one| {
        one.part.name == fast.part.name
            && one.case().size == fast.case().size
            && one.case().threads == fast.case().threads
    });
    let Some((plain, each)) = plain.and_then(|plain| Some((plain, per_message(plain)?))) else { return Some(answer) };
    let text = format!(
        "{}. Beside it {} with {} switches {} times a message, zero-copy {} as often",
        answer.text,
        plain.case().path,
        size(plain.case().size),
        three_digits(each.value),
        three_digits(fast_each.value / each.value)
    );
    Some(Answer { text, ..answer })
}

/// Segments of TCP over a loopback address.
fn bypasses(parts: &[Part<'_>]) -> Option<Answer> {
    let question = "127.0.0.1 bypasses TCP/IP";
    let over_loopback = |part: &Part| {
        let route = part.run.header.floors.as_ref().and_then(|floors| floors.route.as_ref());
        route.is_some_and(|route| route.kind == DeviceKind::Loopback)
    };
    let all = echoes(parts);
    let one = all
        .iter()
        .find(|one| over_loopback(&one.part) && one.case().path.transport == "tcp" && one.summary.near_tcp.is_some())?;
    let each = |of: fn(&msgpath_core::schema::TcpInfo) -> u64| {
        over_rounds(&one.rounds, |round| Some(of(&round.near.tcp?) as f64 / round.near.delivery.sent.max(1) as f64))
    };
    let (Some(sent), Some(came)) = (each(|tcp| tcp.data_segs_out), each(|tcp| tcp.data_segs_in)) else {
        return Some(Answer::cannot(question, "the kernel counted no segment of these sockets"));
    };
    let tcp = one.summary.near_tcp?;
    let route = one.part.run.header.floors.as_ref()?.route.as_ref()?;
    let mut table =
        Table::new("segments", "Segments of the near end's sockets (TCP_INFO)", &["a message", "sent", "came"]);
    table.row([Cell::text("with data"), Cell::Number((&sent).into()), Cell::Number((&came).into())]);
    table.row([
        Cell::text("all"),
        Cell::or_missing(each(|tcp| tcp.segs_out).as_ref(), Cell::Number, "none"),
        Cell::or_missing(each(|tcp| tcp.segs_in).as_ref(), Cell::Number, "none"),
    ]);
    let text = format!(
        "It does not: over {} every message of {} left in {} TCP segments and every reply came in {}, of at most {} B, \
         with a window of {} segments and a round trip that TCP itself measured ({}). What is missing is a device",
        route.device,
        size(one.case().size),
        three_digits(sent.value),
        three_digits(came.value),
        tcp.snd_mss,
        tcp.snd_cwnd,
        G.time(f64::from(tcp.rtt_us) * 1e3)
    );
    let whole = sent.low.is_some_and(|low| low > 0.0) && came.low.is_some_and(|low| low > 0.0);
    let confidence = if whole { Confidence::Sure } else { Confidence::Likely };
    Some(Answer::new(question, confidence, text).with(table))
}

/// Calls beside switches: the case in which they are furthest apart.
fn calls_are_switches(parts: &[Part<'_>]) -> Option<Answer> {
    let question = "system calls = context switches";
    let all = echoes(parts);
    let calls = |round: &RoundRecord| (round.near.calls.total_calls() + round.far.calls.total_calls()) as f64;
    let both = |one: &Measured| {
        over_rounds(&one.rounds, |round| Some(calls(round) / (switches(round) as f64)).filter(|x| x.is_finite()))
    };
    let none = |one: &Measured| one.rounds.iter().all(|round| switches(round) == 0 && calls(round) > 0.0);
    let mut table = Table::new(
        "calls-and-switches",
        "Calls and switches of both ends, a message",
        &["case", "system calls", "voluntary switches", "involuntary switches"],
    );
    for one in &all {
        let (near, far) = (&one.summary.near_cost, &one.summary.far_cost);
        table.row([
            Cell::text(one.name()),
            Cell::Number((near.calls + far.calls).into()),
            Cell::Number((near.voluntary + far.voluntary).into()),
            Cell::Number((near.involuntary + far.involuntary).into()),
        ]);
    }
    let counted = |one: &Measured| {
        let (near, far) = (&one.summary.near_cost, &one.summary.far_cost);
        let switched = near.voluntary + far.voluntary + near.involuntary + far.involuntary;
        format!(
            "{}: {} system calls and {} context switches a message, both ends",
            one.name(),
            three_digits(near.calls + far.calls),
            three_digits(switched)
        )
    };
    if let Some(one) = all.iter().find(|one| none(one)) {
        return Some(Answer::new(question, Confidence::Sure, format!("They are not: {}", counted(one))).with(table));
    }
    let (apart, one) = all
        .iter()
        .filter_map(|one| Some((both(one)?, one)))
        .max_by(|a, b| a.0.value.ln().abs().total_cmp(&b.0.value.ln().abs()))?;
    let ratio = format!("{}, {} as many calls as switches", counted(one), times(&apart));
    Some(match (apart.low, apart.high) {
        (Some(low), Some(high)) if low > 1.0 || high < 1.0 => {
            Answer::new(question, Confidence::Sure, format!("They are not: {ratio}")).with(table)
        }
        _ => Answer::new(
            question,
            Confidence::CantTell,
            format!("Their numbers are not shown to differ here: {ratio}; a wait that spins (-x tcp:send/spin) would settle it"),
        )
        .with(table),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Logs;
    use crate::testing::{Build, route};
    use crate::threads::testing::{closed, serve};
    use msgpath_record::Run;

    #[track_caller]
    fn said(run: &Run, number: u8) -> Option<Answer> {
        let (summary, logs) = (crate::summarise(run), Logs::default());
        let parts = [Part { name: "one", run, summary: &summary, logs: &logs }];
        let claim = CLAIMS.iter().find(|claim| claim.number == number).unwrap();
        (claim.settle)(&parts)
    }

    #[test]
    fn time_by_count_needs_several_under_way() {
        let answer = said(&closed(&[1, 8], 2.0, 32), 7).unwrap();
        assert!(answer.confidence == Confidence::Sure && answer.text.contains("8 messages under way"), "{answer:?}");
        assert!(
            answer.text.contains("time / count is 10.") || answer.text.contains("time / count is 9.9"),
            "{answer:?}"
        );
        assert_eq!(said(&closed(&[1], 1.0, 2), 7), None);
        // A clock that runs wrong: rate times time is below what is under way, and below one.
        let mut wrong = closed(&[1, 2], 1.0, 32);
        wrong.rounds.iter_mut().filter(|round| round.case == 1).for_each(|round| round.near.elapsed_ns *= 4);
        let answer = said(&wrong, 7).unwrap();
        assert!(answer.confidence != Confidence::Sure && answer.text.contains("do not fit"), "{answer:?}");
    }

    #[test]
    fn latency_falls_only_where_it_does() {
        let grows = said(&closed(&[1, 8], 2.0, 32), 12).unwrap();
        assert!(
            grows.confidence == Confidence::Sure && grows.text.starts_with("It does not: from 1 thread to 8 threads"),
            "{grows:?}"
        );
        assert!(grows.text.contains("while time / count became 0."), "{grows:?}");
        let mut falls = closed(&[1, 8], 8.0, 32);
        crate::testing::slow_down(&mut falls, 2.0, |at| at % 2 == 0);
        // The first case of every pass has one thread.
        assert_eq!((falls.rounds[0].case, falls.rounds[1].case), (0, 1));
        assert!(said(&falls, 12).unwrap().text.starts_with("It does here"));
        let same = said(&closed(&[1, 8], 8.0, 32), 12).unwrap();
        assert_ne!(same.confidence, Confidence::Sure, "{same:?}");
        assert_eq!(said(&closed(&[1], 1.0, 2), 12), None);
    }

    #[test]
    fn a_queue_is_told_from_contention() {
        let queue = said(&closed(&[1, 8], 1.0, 32), 13).unwrap();
        assert!(queue.confidence == Confidence::Sure && queue.text.starts_with("A queue, not contention"), "{queue:?}");
        // Twice the work for each message where there are eight.
        let mut costs = closed(&[1, 8], 1.0, 32);
        let case = costs.header.plan.cases[1].clone();
        costs.rounds.iter_mut().filter(|round| round.case == 1).for_each(|round| serve(round, &case, 0.5));
        let contention = said(&costs, 13).unwrap();
        assert!(
            contention.text.starts_with("Partly: ") && contention.text.contains("capacity itself fell"),
            "{contention:?}"
        );
        // Four cost each other work that two do not; sixteen cost no more than four.
        let mut first = closed(&[2, 4, 16], 2.0, 64);
        let cases = first.header.plan.cases.clone();
        for round in first.rounds.iter_mut().filter(|round| round.case > 0) {
            serve(round, &cases[round.case as usize], 1.5);
        }
        let first = said(&first, 13).unwrap();
        assert!(
            first.text.starts_with("Partly: ")
                && first.text.contains("From 2 connections, a thread each to 4 connections"),
            "{first:?}"
        );
        // Nothing became slower: nothing to settle.
        assert_eq!(said(&closed(&[1, 8], 8.0, 32), 13), None);
    }

    /// Zero copy at two sizes of which the second takes four times as long; `switches` of a round by its time and messages.
    fn zerocopy(switches: impl Fn(u64, u64) -> u64) -> Run {
        let mut run = Build::echo(&["tcp:zerocopy"], &[64, 65_536]).run();
        for round in &mut run.rounds {
            round.near.elapsed_ns = if round.case == 0 { 10_000_000 } else { 40_000_000 };
            round.near.voluntary_switches = switches(round.near.elapsed_ns, round.near.delivery.sent);
        }
        run
    }

    #[test]
    fn a_sleep_loop_is_told_from_switches_of_messages() {
        let sleeps = said(&zerocopy(|ns, _| ns / 100_000), 15).unwrap();
        assert!(sleeps.text.starts_with("Periodic: ") && sleeps.text.contains("sleep loop"), "{sleeps:?}");
        let messages = said(&zerocopy(|_, messages| 2 * messages), 15).unwrap();
        assert!(
            messages.text.starts_with("They come with the messages") && !messages.text.contains("sleep"),
            "{messages:?}"
        );
        assert_eq!(said(&Build::echo(&["tcp:send"], &[64, 65_536]).run(), 15), None);
    }

    #[test]
    fn segments_show_the_stack() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        assert_eq!(said(&run, 16), None);
        route(&mut run, DeviceKind::Loopback, "lo", "127.0.0.1");
        let tcp = |segments| msgpath_core::schema::TcpInfo {
            data_segs_out: segments,
            data_segs_in: segments,
            segs_out: segments,
            segs_in: segments,
            snd_mss: 32_741,
            ..Default::default()
        };
        run.rounds.iter_mut().for_each(|round| round.near.tcp = Some(tcp(200)));
        let answer = said(&run, 16).unwrap();
        assert!(
            answer.confidence == Confidence::Sure && answer.text.contains("left in 1.00 TCP segments"),
            "{answer:?}"
        );
        run.rounds.iter_mut().for_each(|round| round.near.tcp = Some(tcp(0)));
        assert!(said(&run, 16).unwrap().text.contains("cannot be answered on this path"));
        route(&mut run, DeviceKind::Card, "eth0", "10.0.0.2");
        assert_eq!(said(&run, 16), None);
    }

    #[test]
    fn calls_and_switches_are_counted_apart() {
        let with = |calls: u64, switches: u64| {
            let mut run = Build::echo(&["tcp:send"], &[64]).run();
            for round in &mut run.rounds {
                (round.near.calls.send_calls, round.near.voluntary_switches) = (calls, switches);
            }
            said(&run, 17)
        };
        let differ = with(800, 200).unwrap();
        assert!(differ.confidence == Confidence::Sure && differ.text.contains("4.00 times"), "{differ:?}");
        assert!(with(800, 0).unwrap().text.contains("4.00 system calls and 0"));
        let alike = with(200, 200).unwrap();
        assert!(alike.confidence == Confidence::CantTell && !alike.text.contains("They are not"), "{alike:?}");
        assert_eq!(with(0, 0), None);
    }
}
