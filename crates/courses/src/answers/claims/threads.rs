//! Claims about threads, queues and switches.

use msgpath_analyse::findings::queueing::{MAY_HAVE_STAYED, STAYED, deeper, steps, times};
use msgpath_analyse::series::per_second;
use msgpath_analyse::summary::CaseSummary;
use msgpath_analyse::threads::{arrangement, medians_by_thread, rates, ratio};
use msgpath_core::plan::{Case, Load, Metric, Plan, Workload};
use msgpath_core::schema::{DeviceKind, FAR, NEAR, RoundRecord, TcpInfo};
use msgpath_core::units::{size, three_digits};
use msgpath_stats::estimate::{Estimate, log_estimate};

use super::Claim;
use crate::answers::answered::{likely, say, sure, sure_if, unsure};
use crate::answers::columns::{number_or, table, time_or};
use crate::answers::evidence::{above, below, beside_one, distance, extremes, p50};
use crate::answers::words::{counted, time};
use crate::answers::{Answer, Cell, Part};

pub(super) const CLAIMS: &[Claim] = &[
    (7, "latency = time / count", time_by_count),
    (12, "latency falls with threads", falls_with_threads),
    (13, "latency grows with threads = contention", grows_by_contention),
    (15, "zero-copy costs N times the context switches", periodic_switches),
    (16, "127.0.0.1 bypasses TCP/IP", bypasses),
    (17, "system calls = context switches", calls_are_switches),
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

    /// Each round's value of `of`.
    fn over_rounds(&self, of: impl Fn(&RoundRecord) -> Option<f64>) -> Option<Estimate> {
        log_estimate(&self.rounds.iter().filter_map(|round| of(round)).collect::<Vec<_>>())
    }

    fn rate(&self) -> Option<f64> {
        self.summary.rate_per_s.as_ref().map(|rate| rate.value)
    }
}

fn echoes<'a>(parts: &[Part<'a>]) -> Vec<Measured<'a>> {
    let timed = parts.iter().filter(|part| part.workload() == Workload::Echo);
    let cases = timed.flat_map(|part| part.measured().map(|summary| (*part, summary)).collect::<Vec<_>>());
    let closed = cases.filter(|(_, summary)| summary.case.load == Load::Closed);
    closed.map(|(part, summary)| Measured { part, summary, rounds: part.rounds(&summary.case) }).collect()
}

/// The time by the count is the reciprocal of the rate; a message takes as many of these as are in flight.
fn time_by_count(parts: &[Part<'_>]) -> Option<Answer> {
    let several = echoes(parts).into_iter().filter(|one| Plan::in_flight(one.case()) > 1);
    let all: Vec<_> = several.filter_map(|one| Some((one.summary.threads.as_ref()?.implied.clone()?, one))).collect();
    let (_, (implied, deepest)) = extremes(&all, |(implied, _)| implied.value)?;
    let (name, as_long) = (deepest.name(), times(implied));
    let known = all.iter().filter_map(|(implied, one)| Some((implied, one, one.rate()?, one.summary.mean_ns?)));
    let evidence = table("time-by-count", "Time / count beside the round trip", known)
        .col("case", |(_, one, ..)| one.name())
        .col("time / count", |(.., rate, _)| Cell::Time((1e9 / rate).into()))
        .col("mean round trip", |(.., mean)| Cell::Time((*mean).into()))
        .col("the one in the other", |(implied, ..)| Cell::Number((*implied).into()))
        .col("in flight", |(_, one, ..)| Cell::count(Plan::in_flight(one.case())));
    let text = format!(
        "{name}: time / count is {}, a round trip takes {} on average, {as_long} as long: as long as {} messages in flight make \
         it. Time / count is one over the rate; only with one message in flight is it the mean round trip",
        time(1e9 / deepest.rate()?),
        time(deepest.summary.mean_ns?),
        Plan::in_flight(deepest.case()),
    );
    let product = format!("{name}: rate times mean time is {as_long}");
    let output = beside_one(
        implied,
        sure(text),
        likely(format!("{product}, below one message in flight: the two do not fit")),
        unsure(format!("{product}, which does not exclude 1; more rounds would settle it (-r 40)")),
    );
    Some(output.with(evidence))
}

/// The fewest and the most threads of a run that measured several, with nothing else to tell them apart.
fn fewest_and_most<'a>(all: &'a [Measured<'a>]) -> Option<(&'a Measured<'a>, &'a Measured<'a>)> {
    let key = |one: &Measured<'_>| {
        let case = one.case();
        (one.part.name.to_owned(), case.path.clone(), case.size, case.pieces, case.inflight, case.dispatch)
    };
    let a_thread_each = |one: &Measured<'_>| one.case().connections == one.case().threads;
    let most = all.iter().max_by_key(|one| one.case().threads)?;
    let alike = all.iter().filter(|one| key(one) == key(most) && a_thread_each(one) && a_thread_each(most));
    let few = alike.min_by_key(|one| one.case().threads)?;
    (few.case().threads < most.case().threads).then_some((few, most))
}

/// Whether round trips get shorter with threads, beside what time / count does.
fn falls_with_threads(parts: &[Part<'_>]) -> Option<Answer> {
    let all = echoes(parts);
    let (few, most) = fewest_and_most(&all)?;
    let plan = &few.part.run.header.plan;
    let medians = |one: &Measured<'_>| one.part.by_pass(Metric::P50, one.case());
    let longer = ratio(plan, most.case(), few.case(), &medians(most), &medians(few))?;
    let rate = ratio(plan, most.case(), few.case(), &rates(plan, &most.rounds), &rates(plan, &few.rounds))?;
    let what = format!(
        "from {} to {} the median round trip became {} as long, while time / count became {} as long",
        counted(few.case().threads as usize, "thread"),
        counted(most.case().threads as usize, "thread"),
        times(&longer),
        three_digits(1.0 / rate.value)
    );
    let output = beside_one(
        &longer,
        sure(format!("It does not: {what}")),
        likely(format!("It does here: {what}")),
        unsure(format!("No difference is shown: {what}; more rounds would settle it")),
    );
    let rows = all.iter().filter(|one| one.part.name == few.part.name && one.case().path == few.case().path);
    let end = |one: &Measured<'_>, pick: fn(f64, f64) -> f64| {
        let value = medians_by_thread(&one.part.logs.echoes, one.case()).into_iter().reduce(pick);
        time_or(value, "the message log has too few of a thread's messages")
    };
    let evidence = table("median-by-threads", "The median round trip of each thread", rows)
        .col("threads", |one| Cell::count(one.case().threads.into()))
        .col("all together", |one| time_or(p50(one.summary), "no median"))
        .col("fastest thread", |one| end(one, f64::min))
        .col("slowest thread", |one| end(one, f64::max))
        .col("time / count", |one| time_or(one.rate().map(|rate| 1e9 / rate), "no rate"));
    Some(output.with(evidence))
}

/// Whether longer round trips with more in flight are a queue at a fixed capacity or messages that cost each other work.
fn grows_by_contention(parts: &[Part<'_>]) -> Option<Answer> {
    let mut pairs = Vec::new();
    for part in parts {
        let plan = &part.run.header.plan;
        let rounds: Vec<Vec<&RoundRecord>> = plan.cases.iter().map(|case| part.rounds(case)).collect();
        let cases: Vec<&CaseSummary> = part.measured().collect();
        let longer = deeper(plan, &cases, &rounds).into_iter().filter(|pair| above(&pair.time, 1.0));
        pairs.extend(longer.map(|pair| {
            // A rate that fell at one step and stayed at the others: the pair alone would not show it.
            let steps = steps(plan, &cases, &rounds, pair.many);
            let several = steps.len() > 1;
            let fell = steps.into_iter().filter(|step| several && below(&step.rate, 1.0 - STAYED));
            let fell = fell.min_by(|a, b| a.rate.value.total_cmp(&b.rate.value));
            (pair, fell)
        }));
    }
    let (_, (pair, fell)) = extremes(&pairs, |(pair, _)| pair.time.value)?;
    let what = format!(
        "from {} to {} the mean round trip became {} as long and the rate {} as high",
        arrangement(&pair.few.case),
        arrangement(&pair.many.case),
        times(&pair.time),
        times(&pair.rate)
    );
    let depth = three_digits(pair.depth());
    let queue = format!("A queue, not contention: {what}. {depth} times as many were in flight at the same capacity");
    let output = match (&pair.rate, fell) {
        (_, Some(step)) => likely(format!(
            "Partly: {what}. From {} to {} the rate became {} as high, so messages cost each other work there",
            arrangement(&step.few.case),
            arrangement(&step.many.case),
            times(&step.rate)
        )),
        _ if pair.stayed(STAYED) => sure(queue),
        _ if pair.stayed(MAY_HAVE_STAYED) => likely(queue),
        (rate, _) if below(rate, 1.0) => {
            likely(format!("Partly: {what}. The capacity itself fell, so messages cost each other work here"))
        }
        (rate, _) if above(rate, 1.0) => likely(format!(
            "Not as far as this goes: {what}. The capacity was not reached with the fewer, so the time grew less than the \
             number in flight ({depth} times)"
        )),
        _ => unsure(format!("The rate is not known well enough: {what}; more rounds would settle it")),
    };
    let figures = |case: &'_ CaseSummary| case.threads.clone();
    let rows = [(pair.few, figures(pair.few)?), (pair.many, figures(pair.many)?)];
    let evidence = table("depth-and-rate", "Depth, rate and time", rows)
        .col("case", |(case, _)| arrangement(&case.case))
        .col("in flight", |(_, figures)| Cell::count(figures.in_flight))
        .col("rate (1/s)", |(case, _)| number_or(case.rate_per_s.as_ref(), "no rate"))
        .col("mean round trip", |(case, _)| time_or(case.mean_ns, "no mean"))
        .col("implied in flight", |(_, figures)| number_or(figures.implied.as_ref(), "no mean"))
        .col("CPUs busy", |(_, figures)| number_or(figures.busy_cpus.as_ref(), "no CPU time"));
    Some(output.with(evidence))
}

/// Switches of both ends.
fn switches(round: &RoundRecord) -> u64 {
    [round.near(), round.far()].iter().map(|end| end.voluntary_switches + end.involuntary_switches).sum()
}

/// A sleep loop switches so many times a second, whatever the size; a path switches so many times a message.
fn periodic_switches(parts: &[Part<'_>]) -> Option<Answer> {
    let all = echoes(parts);
    let of = |zero: bool| all.iter().filter(move |one| one.case().path.method.starts_with("zerocopy") == zero);
    let same_run = |one: &Measured<'_>, other: &Measured<'_>| {
        one.part.name == other.part.name && one.case().threads == other.case().threads
    };
    let per_message = |one: &Measured<'_>| {
        one.over_rounds(|round| Some(switches(round) as f64 / round.near().delivery.sent.max(1) as f64))
    };
    let a_second =
        |one: &Measured<'_>| one.over_rounds(|round| per_second(switches(round) as f64, round.near().elapsed_ns));
    // The two sizes of one zero-copy path whose rates are furthest apart.
    let same_path = |one: &Measured<'_>, other: &Measured<'_>| {
        same_run(one, other) && one.case().path.to_string() == other.case().path.to_string()
    };
    let pairs =
        of(true).flat_map(|fast| of(true).filter(move |slow| same_path(fast, slow)).map(move |slow| (fast, slow)));
    let pairs = pairs.filter_map(|(fast, slow)| Some((fast, slow, fast.rate()? / slow.rate()?)));
    let pairs: Vec<_> = pairs.filter(|(.., apart)| *apart >= 1.5).collect();
    let (_, (fast, slow, apart)) = extremes(&pairs, |(.., apart)| *apart)?;
    let Some((fast_s, slow_s)) = a_second(fast).zip(a_second(slow)) else {
        return Some(Answer::cannot("", "no context switch was counted"));
    };
    let (fast_each, slow_each) = (per_message(fast)?, per_message(slow)?);
    let like = |a: &Estimate, b: &Estimate| (a.value / b.value - 1.0).abs() < 0.2;
    let what = format!(
        "at {} and {} the rates are {} times apart; switches a second are {} and {}, switches a message {} and {}",
        size(fast.case().size),
        size(slow.case().size),
        three_digits(*apart),
        three_digits(fast_s.value),
        three_digits(slow_s.value),
        three_digits(fast_each.value),
        three_digits(slow_each.value)
    );
    let claims = fast_s.low.is_some() && slow_s.low.is_some();
    let output = match (like(&fast_s, &slow_s), like(&fast_each, &slow_each)) {
        (true, false) => likely(format!(
            "Periodic: {what}. What switches so many times a second, whatever is sent, is a timer or a sleep loop in the \
             program"
        )),
        (false, true) => say(sure_if(claims), format!("They come with the messages, no timer: {what}")),
        _ => unsure(format!(
            "Neither constant a second nor a message: {what}; sizes whose rates lie further apart would settle it"
        )),
    };
    let evidence = table("switches", "Context switches of both ends", all.iter().filter(|one| same_run(one, fast)))
        .col("case", |one| format!("{}, {}", one.case().path, size(one.case().size)))
        .col("messages a second", |one| number_or(one.summary.rate_per_s.as_ref(), "no rate"))
        .col("switches a second", |one| number_or(a_second(one).as_ref(), "none was counted"))
        .col("switches a message", |one| number_or(per_message(one).as_ref(), "none was counted"));
    let answer = output.with(evidence);
    // Beside the same message by a call that copies.
    let plain = of(false).find(|one| same_run(one, fast) && one.case().size == fast.case().size);
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
    let all = echoes(parts);
    let (one, tcp, route) = all.iter().find_map(|one| {
        let route = one.part.route().filter(|route| route.kind == DeviceKind::Loopback)?;
        (one.case().path.transport == "tcp").then_some((one, one.summary.end(NEAR).tcp?, route))
    })?;
    let each = |of: fn(&TcpInfo) -> u64| {
        one.over_rounds(|round| Some(of(&round.near().tcp?) as f64 / round.near().delivery.sent.max(1) as f64))
    };
    let Some((sent, came)) = each(|tcp| tcp.data_segs_out).zip(each(|tcp| tcp.data_segs_in)) else {
        return Some(Answer::cannot("", "the kernel counted no segment of these sockets"));
    };
    let text = format!(
        "It does not: over {} every message of {} left in {} TCP segments and every reply came in {}, of at most {} B, with a \
         window of {} segments and a round trip that TCP itself measured ({}). What is missing is a device",
        route.device,
        size(one.case().size),
        three_digits(sent.value),
        three_digits(came.value),
        tcp.snd_mss,
        tcp.snd_cwnd,
        time(f64::from(tcp.rtt_us) * 1e3)
    );
    let whole = above(&sent, 0.0) && above(&came, 0.0);
    let rows = [("with data", Some(sent), Some(came)), ("all", each(|tcp| tcp.segs_out), each(|tcp| tcp.segs_in))];
    let evidence = table("segments", "Segments of the near end's sockets (TCP_INFO)", rows)
        .col("a message", |(what, ..)| *what)
        .col("sent", |(_, sent, _)| number_or(sent.as_ref(), "none"))
        .col("came", |(.., came)| number_or(came.as_ref(), "none"));
    Some(say(sure_if(whole), text).with(evidence))
}

/// Calls beside switches: the case in which they are furthest apart.
fn calls_are_switches(parts: &[Part<'_>]) -> Option<Answer> {
    let all = echoes(parts);
    let calls = |round: &RoundRecord| (round.near().calls.total_calls() + round.far().calls.total_calls()) as f64;
    let both = |one: &Measured<'_>| {
        one.over_rounds(|round| Some(calls(round) / (switches(round) as f64)).filter(|x| x.is_finite()))
    };
    let none = |one: &&Measured<'_>| one.rounds.iter().all(|round| switches(round) == 0 && calls(round) > 0.0);
    let sum = |one: &Measured<'_>, of: fn(&msgpath_analyse::summary::Cost) -> f64| {
        of(&one.summary.end(NEAR).cost) + of(&one.summary.end(FAR).cost)
    };
    let evidence = table("calls-and-switches", "Calls and switches of both ends, a message", &all)
        .col("case", |one| one.name())
        .col("system calls", |one| Cell::Number(sum(one, |cost| cost.calls).into()))
        .col("voluntary switches", |one| Cell::Number(sum(one, |cost| cost.voluntary).into()))
        .col("involuntary switches", |one| Cell::Number(sum(one, |cost| cost.involuntary).into()));
    let words = |one: &Measured<'_>| {
        format!(
            "{}: {} system calls and {} context switches a message, both ends",
            one.name(),
            three_digits(sum(one, |cost| cost.calls)),
            three_digits(sum(one, |cost| cost.voluntary) + sum(one, |cost| cost.involuntary))
        )
    };
    if let Some(one) = all.iter().find(none) {
        return Some(sure(format!("They are not: {}", words(one))).with(evidence));
    }
    let ratios: Vec<_> = all.iter().filter_map(|one| Some((both(one)?, one))).collect();
    let (_, (apart, one)) = extremes(&ratios, |(apart, _)| distance(apart.value))?;
    let ratio = format!("{}, {} as many calls as switches", words(one), times(apart));
    let differ = || sure(format!("They are not: {ratio}"));
    let open = format!(
        "Their numbers are not shown to differ here: {ratio}; a wait that spins (-x tcp:send/spin) would settle it"
    );
    Some(beside_one(apart, differ(), differ(), unsure(open)).with(evidence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_analyse::Logs;
    use msgpath_analyse::summary::Confidence;
    use msgpath_analyse::testing::{Build, route};
    use msgpath_analyse::threads::testing::{closed, serve};
    use msgpath_record::Run;

    #[track_caller]
    fn output(run: &Run, number: u8) -> Option<Answer> {
        let (summary, logs) = (msgpath_analyse::summarise(run), Logs::default());
        let parts = [Part { name: "one", run, summary: &summary, logs: &logs }];
        let claim = CLAIMS.iter().find(|claim| claim.0 == number).unwrap();
        (claim.2)(&parts)
    }

    #[test]
    fn time_by_count_needs_several_in_flight() {
        let answer = output(&closed(&[1, 8], 2.0, 32), 7).unwrap();
        assert!(answer.confidence == Confidence::Sure && answer.text.contains("8 messages in flight"), "{answer:?}");
        assert!(
            answer.text.contains("time / count is 10.") || answer.text.contains("time / count is 9.9"),
            "{answer:?}"
        );
        assert_eq!(output(&closed(&[1], 1.0, 2), 7), None);
        // A clock that runs wrong: rate times time is below what is in flight, and below one.
        let mut wrong = closed(&[1, 2], 1.0, 32);
        wrong.rounds.iter_mut().filter(|round| round.case == 1).for_each(|round| round.near_mut().elapsed_ns *= 4);
        let answer = output(&wrong, 7).unwrap();
        assert!(answer.confidence != Confidence::Sure && answer.text.contains("do not fit"), "{answer:?}");
    }

    #[test]
    fn latency_falls_only_where_it_does() {
        let grows = output(&closed(&[1, 8], 2.0, 32), 12).unwrap();
        assert!(
            grows.confidence == Confidence::Sure && grows.text.starts_with("It does not: from 1 thread to 8 threads"),
            "{grows:?}"
        );
        assert!(grows.text.contains("while time / count became 0."), "{grows:?}");
        let mut falls = closed(&[1, 8], 8.0, 32);
        msgpath_analyse::testing::slow_down(&mut falls, 2.0, |at| at % 2 == 0);
        // The first case of every pass has one thread.
        assert_eq!((falls.rounds[0].case, falls.rounds[1].case), (0, 1));
        assert!(output(&falls, 12).unwrap().text.starts_with("It does here"));
        let same = output(&closed(&[1, 8], 8.0, 32), 12).unwrap();
        assert_ne!(same.confidence, Confidence::Sure, "{same:?}");
        assert_eq!(output(&closed(&[1], 1.0, 2), 12), None);
    }

    #[test]
    fn a_queue_is_told_from_contention() {
        let queue = output(&closed(&[1, 8], 1.0, 32), 13).unwrap();
        assert!(queue.confidence == Confidence::Sure && queue.text.starts_with("A queue, not contention"), "{queue:?}");
        // Twice the work for each message where there are eight.
        let mut costs = closed(&[1, 8], 1.0, 32);
        let case = costs.header.plan.cases[1].clone();
        costs.rounds.iter_mut().filter(|round| round.case == 1).for_each(|round| serve(round, &case, 0.5));
        let contention = output(&costs, 13).unwrap();
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
        let first = output(&first, 13).unwrap();
        assert!(
            first.text.starts_with("Partly: ")
                && first.text.contains("From 2 connections, a thread each to 4 connections"),
            "{first:?}"
        );
        // Nothing became slower: nothing to settle.
        assert_eq!(output(&closed(&[1, 8], 8.0, 32), 13), None);
    }

    /// Zero copy at two sizes of which the second takes four times as long; `switches` of a round by its time and messages.
    fn zerocopy(switches: impl Fn(u64, u64) -> u64) -> Run {
        let mut run = Build::echo(&["tcp:zerocopy"], &[64, 65_536]).run();
        for round in &mut run.rounds {
            round.near_mut().elapsed_ns = if round.case == 0 { 10_000_000 } else { 40_000_000 };
            round.near_mut().voluntary_switches = switches(round.near().elapsed_ns, round.near().delivery.sent);
        }
        run
    }

    #[test]
    fn a_sleep_loop_is_told_from_switches_of_messages() {
        let sleeps = output(&zerocopy(|ns, _| ns / 100_000), 15).unwrap();
        assert!(sleeps.text.starts_with("Periodic: ") && sleeps.text.contains("sleep loop"), "{sleeps:?}");
        let messages = output(&zerocopy(|_, messages| 2 * messages), 15).unwrap();
        assert!(
            messages.text.starts_with("They come with the messages") && !messages.text.contains("sleep"),
            "{messages:?}"
        );
        assert_eq!(output(&Build::echo(&["tcp:send"], &[64, 65_536]).run(), 15), None);
    }

    #[test]
    fn segments_show_the_stack() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        assert_eq!(output(&run, 16), None);
        route(&mut run, DeviceKind::Loopback, "lo", "127.0.0.1");
        let tcp = |segments| msgpath_core::schema::TcpInfo {
            data_segs_out: segments,
            data_segs_in: segments,
            segs_out: segments,
            segs_in: segments,
            snd_mss: 32_741,
            ..Default::default()
        };
        run.rounds.iter_mut().for_each(|round| round.near_mut().tcp = Some(tcp(200)));
        let answer = output(&run, 16).unwrap();
        assert!(
            answer.confidence == Confidence::Sure && answer.text.contains("left in 1.00 TCP segments"),
            "{answer:?}"
        );
        run.rounds.iter_mut().for_each(|round| round.near_mut().tcp = Some(tcp(0)));
        assert!(output(&run, 16).unwrap().text.contains("cannot be answered on this path"));
        route(&mut run, DeviceKind::Nic, "eth0", "10.0.0.2");
        assert_eq!(output(&run, 16), None);
    }

    #[test]
    fn calls_and_switches_are_counted_apart() {
        let with = |calls: u64, switches: u64| {
            let mut run = Build::echo(&["tcp:send"], &[64]).run();
            for round in &mut run.rounds {
                (round.near_mut().calls.send_calls, round.near_mut().voluntary_switches) = (calls, switches);
            }
            output(&run, 17)
        };
        let differ = with(800, 200).unwrap();
        assert!(differ.confidence == Confidence::Sure && differ.text.contains("4.00 times"), "{differ:?}");
        assert!(with(800, 0).unwrap().text.contains("4.00 system calls and 0"));
        let alike = with(200, 200).unwrap();
        assert!(alike.confidence == Confidence::CantTell && !alike.text.contains("They are not"), "{alike:?}");
        assert_eq!(with(0, 0), None);
    }
}
