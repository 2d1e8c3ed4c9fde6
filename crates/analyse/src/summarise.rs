//! A run, analysed.

use std::net::{IpAddr, SocketAddr};

use std::collections::BTreeMap;

use msgpath_core::plan::{Case, Load, Metric, Plan};
use msgpath_core::schema::{EndReport, KernelCounts, NEAR, RoundRecord, RunHeader, Status, TcpInfo};
use msgpath_core::units::Glyphs;
use msgpath_core::{Delivery, SparseHistogram, Target};
use msgpath_record::Run;
use msgpath_stats::estimate::{Estimate, log_estimate_in_time, widen_mean};
use msgpath_stats::paired::Series;
use msgpath_stats::pooled::Pooled;
use msgpath_stats::quantile::{self, Estimated, Quantile};
use msgpath_stats::shape;
use msgpath_stats::steady::within_restarts;

use crate::calm::{Calm, all_rounds};
use crate::causes::causes;
use crate::compare::compare;
use crate::diff::level::arrived;
use crate::expected::expected;
use crate::findings::{self, Input};
use crate::load_curve::load_curves;
use crate::logs::Logs;
use crate::open_loop::{self, open_loop, without_times};
use crate::results::Results;
use crate::series::{per_second, receiver, sender, series};
use crate::summary::{
    CaseSummary, Conditions, Copied, EndSummary, Finding, Latency, QUANTILES, Repeats, Spread, Summary, Throughput,
    Totals, Transit, Warning,
};
use crate::{between, cost, events, first, gates, layers, restarts, section, settled, threads, throughput};

/// A run's numbers without those of its logs: as [`summarise_with`] without any.
pub fn summarise(run: &Run) -> Summary {
    summarise_with(run, &Logs::default())
}

/// A run's numbers. Whatever rounds are there are used; nothing is assumed about those that are not.
pub fn summarise_with(run: &Run, logs: &Logs) -> Summary {
    summarise_by(run, logs, findings::detect)
}

/// The same with what `detect` has to say.
pub(crate) fn summarise_by(
    run: &Run,
    logs: &Logs,
    detect: impl FnOnce(&findings::Input) -> (Vec<Finding>, Vec<Warning>),
) -> Summary {
    let run = &*without_times(run);
    let plan = &run.header.plan;
    let calm = Calm::of(run);
    let all: Vec<Vec<&RoundRecord>> = plan.cases.iter().map(|case| all_rounds(run, case)).collect();
    let rounds: Vec<Vec<&RoundRecord>> = all.iter().map(|all| calm.headline(all)).collect();
    let of = |metric| -> Vec<Series> { rounds.iter().map(|rounds| self::series(plan, metric, rounds)).collect() };
    let (series, rates) = (of(plan.metric()), of(Metric::Throughput));
    let mut cases: Vec<CaseSummary> = plan
        .cases
        .iter()
        .zip(rounds.iter().zip(&all))
        .map(|(case, (rounds, all))| summarise_case(run, case, rounds, all, &rates))
        .collect();
    for (case, all) in cases.iter_mut().zip(&all) {
        case.latency.beside = calm.beside(all);
        case.threads = threads::figures(&run.header, plan, &case.case, &rounds);
    }
    for (case, rounds) in cases.iter_mut().zip(&rounds) {
        case.transit.ways = logs.one_way.as_ref().and_then(|one_way| one_way.ways(&case.case, rounds));
    }
    let status = match (&run.end, &run.damage) {
        (Some(end), None) => end.status,
        (Some(end), Some(_)) if end.status == Status::Failed => Status::Failed,
        _ => Status::Partial,
    };
    let results = Results { plan, cases: &cases, rounds: &rounds, series: &series };
    // Engines of a periodic run are not measured in one another's passes: their rounds are no pairs.
    let comparison = plan.workload.paired.ok().and_then(|()| compare(&results));
    let ablations = causes(&results, comparison.as_ref().and_then(|comparison| comparison.resolution));
    let mut summary = Summary {
        target: measured_target(&run.header),
        totals: totals(run, &cases),
        calm: Some(calm.share(run)),
        load_curves: load_curves(plan, &rounds, &cases),
        expectation: expected(&run.header, &cases),
        layers: layers::layers(&results),
        gates: gates::judge(run, &rounds, &all, &cases),
        far_clock: logs.one_way.as_ref().map(|one_way| one_way.clock.clone()),
        cases,
        ablations,
        comparison,
        unavailable: run.header.unavailable.clone(),
        ..Summary::empty(&run.header.name, &run.header.verb, status)
    };
    for section in section::all() {
        (section.summarise)(run, logs, &mut summary);
    }
    (summary.findings, summary.warnings) =
        detect(&Input { run, logs, plan, summary: &summary, calm: &calm, rounds: &rounds, all: &all, series: &series });
    summary
}

/// From the first round to the end of the last.
fn elapsed_ns(run: &Run) -> u64 {
    let start = run.rounds.iter().map(|round| round.start_ns).min().unwrap_or(0);
    let end = run.rounds.iter().map(|round| round.start_ns + round.near().elapsed_ns.max(round.far().elapsed_ns));
    end.max().unwrap_or(start) - start
}

/// Without the rounds that only count events, but for the time that they took.
fn totals(run: &Run, cases: &[CaseSummary]) -> Totals {
    let sum = |of: fn(&CaseSummary) -> u64| cases.iter().filter(|case| !Plan::counted(&case.case)).map(of).sum();
    Totals {
        rounds: sum(|case| case.rounds),
        messages: cases.iter().all(CaseSummary::counts_messages).then(|| sum(|case| case.messages)),
        lost: sum(|case| case.delivery.lost),
        elapsed_ns: elapsed_ns(run),
        verified: sum(|case| case.delivery.verified),
    }
}

/// What each end spent in `all` rounds.
fn ends(run: &Run, case: &Case, all: &[&RoundRecord]) -> Vec<EndSummary> {
    let in_counted = events::rounds_of(run, case);
    // Only the loop of the near end can be simulated.
    let simulated = |end| run.header.simulated.get(&case.id).filter(|_| end == NEAR);
    let messages: Vec<u64> = all.iter().map(|round| cost::handled(round.near())).collect();
    let near = messages.iter().sum();
    let ends = run.header.ends.iter().zip(run.header.counted(case)).enumerate();
    ends.map(|(at, (end, counted))| {
        let reports: Vec<&EndReport> = all.iter().map(|round| &round.end(at).report).collect();
        let processes: Vec<_> = all.iter().map(|round| round.end(at).process).zip(messages.iter().copied()).collect();
        let counts = in_counted.iter().map(|round| (&round.end(at).report, &round.end(at).events));
        EndSummary {
            name: end.name.clone(),
            receives: (at == NEAR) == run.header.plan.reverse,
            calls: cost::calls(reports.iter().copied()),
            cost: cost::known(counted, &reports, near),
            tcp: tcp(&reports),
            path_mtu_bytes: reports.iter().filter_map(|report| report.path_mtu).min(),
            kernel: kernel(all.iter().map(|round| &round.end(at).kernel)),
            events: events::rates(&end.events, counts, simulated(at)),
            process: cost::process(&processes),
        }
    })
    .collect()
}

/// Levels are those of the rounds that make the headline; what is counted, of `all`.
fn summarise_case(
    run: &Run,
    case: &Case,
    rounds: &[&RoundRecord],
    all: &[&RoundRecord],
    rates: &[Series],
) -> CaseSummary {
    let plan = &run.header.plan;
    let latency: Vec<&SparseHistogram> = rounds.iter().map(|round| &round.latency).collect();
    let pooled = Pooled::new(&latency);
    let open = open_loop(case, rounds);
    let estimate = if open.is_some() { quantile::estimate_queued } else { quantile::estimate };
    let mut estimated: Vec<_> = QUANTILES.iter().filter_map(|p| estimate(&latency, &pooled, *p)).collect();
    say_how_long(&mut estimated, pooled.total(), elapsed_ns(run));
    let extremes = Pooled::new(&all.iter().map(|round| &round.latency).collect::<Vec<_>>());
    let slowest = all.iter().filter(|round| round.latency.max().is_some()).max_by_key(|round| round.latency.max());
    let delivery = delivery(plan, all);
    let timed_each = plan.workload.timed;
    let median = pooled.quantile(0.5).flatten();
    // In an open loop a stall delays the many messages that it should: counting them says it already.
    let closed = median.filter(|_| case.load == Load::Closed);
    let above = |factor: f64| closed.and_then(|median| pooled.above(factor * median as f64)).unzip();
    let (time_share_over_10x, message_share_over_10x) = above(10.0);
    let (time_share_over_100x, message_share_over_100x) = above(100.0);
    let timed = settled::timed(plan, case, rounds);
    let (bytes, why) = cost::copied(plan, case, all);
    let mut summary = CaseSummary {
        rounds: all.len() as u64,
        // A histogram entry of batch mode is the mean of `batch` messages; here messages are counted.
        messages: if open.is_some() {
            delivery.sent
        } else if timed_each {
            all.iter().map(|round| round.latency.total() * u64::from(round.batch.max(1))).sum()
        } else {
            delivery.received
        },
        batch: all.iter().map(|round| round.batch).max().unwrap_or(1).max(1),
        latency: Latency {
            fastest_ns: extremes.min(),
            slowest_ns: extremes.max(),
            slowest_at_ns: slowest.map(|round| round.start_ns),
            mean_ns: quantile::mean_ns(&latency),
            effective_messages: estimated.first().and_then(|median| median.effective),
            quantiles: estimated.into_iter().map(|estimated| estimated.quantile).collect(),
            of_rounds: rounds.len() as u64,
            of_times: pooled.total(),
            round_medians: quantile::medians(&latency),
            beside: None,
        },
        rate_per_s: match &open {
            // The time of one round says nothing of a schedule that goes through all of them.
            Some(open) => Some(open.achieved_per_s.clone()),
            None => timed_each.then(|| rate(rounds)).flatten(),
        },
        throughput: throughput::throughput(plan, case, rounds, rates),
        spread: Spread {
            iqr_ns: quantile::iqr_ns(&latency, &pooled),
            shape: shape::shape(&pooled),
            time_share_over_10x,
            message_share_over_10x,
            time_share_over_100x,
            message_share_over_100x,
        },
        open,
        steadiness: within_restarts(&timed),
        first: first::first_messages(plan, case, rounds),
        repeats: Repeats {
            between: if timed_each { between::restarts(rounds) } else { Vec::new() },
            restarts: msgpath_stats::restarts::restarts(&timed, restarts::cost(&run.rounds)),
        },
        ends: ends(run, case, all),
        delivery,
        copied: Copied { zerocopy: cost::zerocopy(all), bytes, why },
        transit: Transit { connect_ns: connect(rounds), one_way: one_way(rounds), ways: None },
        conditions: Conditions {
            granted: run.end.as_ref().and_then(|end| end.granted.get(&case.id).cloned()).unwrap_or_default(),
            flags: flags(all),
        },
        ..CaseSummary::empty(case.clone())
    };
    let levels = settled::levels(plan, case, rounds, summary.steadiness.as_ref());
    widen(&mut summary, run, &levels, rates);
    open_loop::withhold(&mut summary);
    summary
}

/// Widens the ranges of a case that never settled to those of its levels.
fn widen(summary: &mut CaseSummary, run: &Run, levels: &[Vec<&RoundRecord>], rates: &[Series]) {
    let plan = &run.header.plan;
    let case = &summary.case;
    let of_levels = |of: fn(&RoundRecord) -> &SparseHistogram, places: &[f64]| -> Vec<Vec<Quantile>> {
        let of_level = |level: &Vec<&RoundRecord>| {
            let own: Vec<&SparseHistogram> = level.iter().map(|round| of(round)).collect();
            quantile::curve(&own, &Pooled::new(&own), places, false)
        };
        levels.iter().map(of_level).collect()
    };
    quantile::widen(&mut summary.latency.quantiles, &of_levels(|round| &round.latency, &QUANTILES));
    quantile::nest(&mut summary.latency.quantiles);
    quantile::widen(summary.transit.one_way.as_mut_slice(), &of_levels(|round| &round.one_way, &[0.5]));
    // What a schedule of all rounds was answered at is no mean of rounds.
    if let Some(own) = summary.rate_per_s.as_mut().filter(|_| summary.open.is_none()) {
        widen_mean(own, &levels.iter().filter_map(|level| rate(level)).collect::<Vec<_>>());
    }
    if let Some(own) = &mut summary.throughput {
        let of_levels: Vec<_> =
            levels.iter().filter_map(|level| throughput::throughput(plan, case, level, rates)).collect();
        let means: [fn(&mut Throughput) -> &mut Estimate; 3] =
            [|of| &mut of.receiver_bits, |of| &mut of.sender_bits, |of| &mut of.messages];
        for mean in means {
            let levels: Vec<Estimate> = of_levels.iter().map(|level| mean(&mut level.clone()).clone()).collect();
            widen_mean(mean(own), &levels);
        }
    }
}

/// Turns the messages that a quantile lacks into the time that they take in this run, whose cases take turns.
fn say_how_long(estimated: &mut [Estimated], messages: u64, elapsed_ns: u64) {
    for Estimated { quantile, more, .. } in estimated {
        if let Some(more) = more {
            let ns = *more * elapsed_ns as f64 / messages as f64;
            quantile.why = Some(format!("{} more", Glyphs::Unicode.time(ns)));
        }
    }
}

/// Kernel counters summed over rounds.
fn kernel<'a>(rounds: impl Iterator<Item = &'a KernelCounts>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (name, count) in rounds.flat_map(|counts| &counts.0) {
        *sums.entry(name.clone()).or_default() += count;
    }
    sums
}

fn rate(rounds: &[&RoundRecord]) -> Option<msgpath_stats::estimate::Estimate> {
    log_estimate_in_time(
        &rounds.iter().filter_map(|round| per_second(arrived(round), round.near().elapsed_ns)).collect::<Vec<_>>(),
    )
}

/// Echo: as the near end sees the round trips. Stream: sent by the sender, the rest by the receiver; what the receiver
/// cannot know to be lost (the end of the stream) is the difference.
fn delivery(plan: &Plan, rounds: &[&RoundRecord]) -> Delivery {
    let mut sum = Delivery::default();
    for round in rounds {
        let mut own = if plan.workload.timed {
            round.near().delivery
        } else {
            Delivery { sent: sender(plan, round).delivery.sent, ..receiver(plan, round).delivery }
        };
        own.duplicated = round.near().delivery.duplicated.max(round.far().delivery.duplicated);
        own.reordered = round.near().delivery.reordered.max(round.far().delivery.reordered);
        if !plan.workload.timed {
            own.lost = own.lost.max(own.sent.saturating_sub(own.received));
        }
        sum.add(&own);
    }
    sum
}

/// Segments summed over the rounds, times and window of the last; `None` where no round has TCP_INFO.
fn tcp(ends: &[&EndReport]) -> Option<TcpInfo> {
    ends.iter().filter_map(|end| end.tcp).reduce(TcpInfo::plus)
}

fn connect(rounds: &[&RoundRecord]) -> Option<f64> {
    let mut all: Vec<f64> = rounds.iter().filter_map(|round| round.connect_ns).map(|ns| ns as f64).collect();
    (!all.is_empty()).then(|| msgpath_stats::describe::percentile(&mut all, 0.5))
}

fn one_way(rounds: &[&RoundRecord]) -> Option<Quantile> {
    let all: Vec<&SparseHistogram> = rounds.iter().map(|round| &round.one_way).collect();
    quantile::estimate(&all, &Pooled::new(&all), 0.5).map(|estimated| estimated.quantile)
}

fn flags(rounds: &[&RoundRecord]) -> BTreeMap<String, u64> {
    let mut flags = BTreeMap::new();
    for round in rounds {
        for flag in round.flags.iter().collect::<std::collections::BTreeSet<_>>() {
            *flags.entry(flag.clone()).or_default() += 1;
        }
    }
    flags
}

/// The target as typed; of a name also the address that was measured, and how many others it has.
fn measured_target(header: &RunHeader) -> String {
    let target = &header.target;
    let program = || header.programs.iter().find(|facts| facts.command.is_empty() && !facts.address.is_empty());
    let (address, more) = match (&header.data, target.parse()) {
        (_, Ok(Target::Host { host, .. })) if host.contains(':') || host.parse::<IpAddr>().is_ok() => {
            // An address is itself, with or without the device of its link.
            return target.clone();
        }
        (Some(data), _) => (data.far.clone(), data.more),
        (None, Ok(Target::Program { .. })) => match program() {
            Some(facts) => (facts.address.parse().map_or_else(|_| facts.address.clone(), ip), facts.more),
            None => return target.clone(),
        },
        (None, _) => return target.clone(),
    };
    if target.contains(address.split('%').next().unwrap_or_default()) {
        return target.clone();
    }
    let more = if more > 0 { format!(" (the name has {more} more)") } else { String::new() };
    format!("{target} at {address}{more}")
}

fn ip(address: SocketAddr) -> String {
    address.ip().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;
    use msgpath_core::schema::FAR;
    use msgpath_record::Damage;
    use msgpath_stats::crossover::CrossoverKind;
    use msgpath_stats::verdict::Verdict;

    #[test]
    fn one_case_in_numbers() {
        let summary = summarise(&Build::echo(&["tcp:send"], &[64]).run());
        let case = &summary.cases[0];
        assert_eq!((summary.status, summary.totals.rounds, summary.totals.messages), (Status::Ok, 40, Some(8_000)));
        assert_eq!(
            (case.rounds, case.latency.quantiles.len(), case.latency.round_medians.len(), case.batch),
            (40, 5, 40, 1)
        );
        let p50 = &case.latency.quantiles[0];
        assert!(p50.is_interval() && p50.lo_ns.unwrap() < 20_000 && p50.hi_ns.unwrap() > 20_000, "{p50:?}");
        assert!((p50.beyond as i64 - 4_000).abs() < 20 && p50.bursts == 40);
        assert_eq!(case.spread.shape.iter().map(|row| row.count).sum::<u64>(), 8_000);
        // 200 messages in 40 ms.
        assert!((case.rate_per_s.as_ref().unwrap().value - 5_000.0).abs() < 1e-6);
        assert!(summary.comparison.is_none());
        assert_eq!(summary.totals.elapsed_ns, 39 * 50_000_000 + 40_000_000);
    }

    #[test]
    fn a_comparison_in_numbers() {
        let build = Build::echo(&["tcp:send", "tcp:writev", "tcp:zerocopy"], &[64, 1024, 16_384, 262_144]).control(64);
        let run = build.messages(60).noise(0.02).factor(|case| match case.path.method.as_str() {
            "zerocopy" => (0.1 * (13.0 - (case.size as f64).log2())).exp(),
            "writev" => 0.8,
            _ => 1.0,
        });
        let comparison = summarise(&run.run()).comparison.unwrap();
        assert_eq!((comparison.ratios.len(), comparison.winners.len(), comparison.control_failed), (8, 4, false));
        assert!(comparison.resolution.unwrap() < 0.02 && comparison.margin == 0.02, "{comparison:?}");
        for ratio in &comparison.ratios[..4] {
            assert!(ratio.verdict == Verdict::Better && ratio.holm && (ratio.ratio - 0.8).abs() < 0.03, "{ratio:?}");
        }
        let winner = |at: usize| comparison.winners[at].path.as_ref().map(|path| path.method.as_str());
        assert_eq!(
            [winner(0), winner(1), winner(2), winner(3)],
            [Some("writev"), Some("writev"), Some("writev"), Some("zerocopy")]
        );
        let kinds: Vec<_> = comparison.crossovers.iter().map(|crossover| crossover.crossing.kind).collect();
        assert_eq!(kinds, [CrossoverKind::AlwaysFaster, CrossoverKind::At]);
        let at = &comparison.crossovers[1].crossing;
        assert!(at.low.unwrap() <= 8192.0 && 8192.0 <= at.high.unwrap() && at.high.unwrap() < 16_384.0, "{at:?}");
    }

    #[test]
    fn only_passes_that_both_have_are_paired() {
        let mut run = Build::echo(&["tcp:send", "tcp:writev"], &[64]).run();
        // Interrupted: the second path misses the passes from 30 on, the baseline lost pass 3.
        run.rounds.retain(|round| if round.case == 1 { round.pass < 30 } else { round.pass != 3 });
        run.end = None;
        let summary = summarise(&run);
        assert_eq!((summary.status, summary.cases[0].rounds, summary.cases[1].rounds), (Status::Partial, 39, 30));
        let d = log_ratio_count(&run);
        assert_eq!(d, 29);
        assert_eq!(summary.comparison.unwrap().ratios.len(), 1);
    }

    fn log_ratio_count(run: &Run) -> usize {
        let plan = &run.header.plan;
        let of = |case: usize| series(plan, Metric::P50, &crate::calm::rounds_of(run, &plan.cases[case]));
        msgpath_stats::paired::log_ratios(&of(1), &of(0)).len()
    }

    #[test]
    fn a_path_that_was_never_measured_has_no_ratio() {
        let mut run = Build::echo(&["tcp:send", "tcp:writev"], &[64]).run();
        run.rounds.retain(|round| round.case == 0);
        let comparison = summarise(&run).comparison.unwrap();
        assert!(comparison.ratios.is_empty() && comparison.winners.is_empty() && comparison.crossovers.is_empty());
    }

    #[test]
    fn slow_time_is_a_matter_of_closed_loops() {
        let mut build = Build::echo(&["tcp:send"], &[64]);
        let with_stalls = |build: &Build| {
            let mut run = build.run();
            for round in &mut run.rounds {
                let mut histogram = msgpath_core::Histogram::new();
                histogram.merge_sparse(&round.latency);
                histogram.record(400_000);
                histogram.record(40_000_000);
                round.latency = histogram.to_sparse();
            }
            summarise(&run).cases.remove(0)
        };
        let closed = with_stalls(&build);
        let (tenfold, hundredfold) =
            (closed.spread.time_share_over_10x.unwrap(), closed.spread.time_share_over_100x.unwrap());
        assert!((tenfold - 40.4 / 44.4).abs() < 0.01 && (hundredfold - 40.0 / 44.4).abs() < 0.01);
        let messages = (closed.spread.message_share_over_10x.unwrap(), closed.spread.message_share_over_100x.unwrap());
        assert!((messages.0 - 2.0 / 202.0).abs() < 1e-9 && (messages.1 - 1.0 / 202.0).abs() < 1e-9);
        let rate = msgpath_core::schedule::Rate::per_second(1_000.0).unwrap();
        let arrivals = msgpath_core::schedule::Arrivals::Constant;
        build.plan.cases[0].load = Load::Open { rate, arrivals };
        let open = with_stalls(&build);
        assert_eq!((open.spread.time_share_over_10x, open.spread.message_share_over_100x), (None, None));
    }

    #[test]
    fn kernel_counters_are_summed() {
        let mut run = Build::echo(&["tcp:send"], &[64]).rounds(5).run();
        for round in run.rounds.iter_mut().skip(1) {
            round.end_mut(NEAR).kernel.0.insert("TcpExt.DelayedACKs".into(), 2);
            round.end_mut(FAR).kernel.0.insert("Ip.InReceives".into(), 1);
        }
        let case = summarise(&run).cases.remove(0);
        assert_eq!((case.end(NEAR).kernel["TcpExt.DelayedACKs"], case.end(FAR).kernel["Ip.InReceives"]), (8, 4));
        assert_eq!((case.end(NEAR).kernel.len(), case.end(FAR).kernel.len()), (1, 1));
    }

    #[test]
    fn an_empty_run_is_empty() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        run.rounds.clear();
        let summary = summarise(&run);
        let case = &summary.cases[0];
        assert_eq!((summary.totals, case.messages), (Totals { messages: Some(0), ..Totals::default() }, 0));
        assert!(
            case.latency.quantiles.is_empty()
                && case.spread.shape.is_empty()
                && case.latency.mean_ns.is_none()
                && case.copied.bytes.is_none()
        );
    }

    #[test]
    fn damage_makes_a_run_partial() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        run.damage = Some(Damage { file: "rounds".into(), offset: 1, why: "cut off".into() });
        assert_eq!(summarise(&run).status, Status::Partial);
    }

    #[test]
    fn the_same_run_gives_the_same_numbers() {
        let run = Build::echo(&["tcp:send", "tcp:writev"], &[64, 4096]).noise(0.05).run();
        assert_eq!(summarise(&run), summarise(&run));
    }

    #[test]
    fn echo_counts_round_trips_and_streams_count_at_the_receiver() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        run.rounds[0].near_mut().delivery.received -= 1;
        run.rounds[0].near_mut().delivery.lost = 1;
        run.rounds[0].flags = vec!["steal".into(), "steal".into()];
        let summary = summarise(&run);
        assert_eq!((summary.totals.lost, summary.cases[0].delivery.received), (1, 7_999));
        assert_eq!(summary.cases[0].conditions.flags["steal"], 1);
        let stream = summarise(&Build::stream(&["tcp:send"], &[64]).run());
        assert_eq!((stream.totals.messages, stream.cases[0].latency.quantiles.len()), (Some(8_000), 0));
    }

    #[test]
    fn messages_of_a_stream_are_not_counted_where_their_size_is_not_known() {
        let mut run = Build::stream(&["tcp:send"], &[1]).run();
        run.header.plan.cases[0].path = msgpath_core::PathName::untold("tcp");
        let summary = summarise(&run);
        let json = serde_json::to_value(&summary.cases[0]).unwrap();
        assert!(summary.totals.messages.is_none() && summary.reasons().any(|(field, _)| field == "totals.messages"));
        for field in ["messages", "delivery", "throughput.messages_per_s"] {
            let value = json.pointer(&format!("/{}", field.replace('.', "/"))).unwrap();
            assert!(value.is_null() && json["why"][field].is_string(), "{field}: {json:#}");
        }
        assert!(json["throughput"]["receiver_bits_per_s"]["value"].is_number());
    }
}
