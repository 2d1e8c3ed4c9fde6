//! Claims about raw Ethernet, start-up, authentication and what is called a network.

use msgpath_core::Delivery;
use msgpath_core::schema::{DeviceKind, RpcRow};
use msgpath_stats::describe::median;
use msgpath_stats::estimate::log_estimate;

use super::Claim;
use crate::answers::answered::{say, sure};
use crate::answers::columns::{share_or, table, time_or};
use crate::answers::evidence::extremes;
use crate::answers::pages::vehicles::{Driven, cold_over_warm, engines, start_ratios};
use crate::answers::words::{percent, quantile_words, time};
use crate::answers::{Answer, Cell, Part};
use msgpath_analyse::rpc::{RpcKind, RpcStage};
use msgpath_analyse::summary::Confidence;

/// The mean that made raw Ethernet look slow, ns.
const SLOW: f64 = 390_000.0;
/// What the first authentication is said to cost, ns.
const COLD: f64 = 1_000_000.0;
/// What the network is said to take between two ends of one machine, ns.
const NETWORK: f64 = 1_000.0;
/// The speed of wire that the estimate of that claim is made with, bits per second.
const WIRE: f64 = 1e9;

pub(super) const CLAIMS: &[Claim] = &[
    (33, "Raw Ethernet is slow: mean 390 µs", raw_ethernet),
    (35, "lo received every frame twice, so nothing was lost", twice),
    (36, "A message authentication code costs 1 ms", authentication),
    (37, "The network time is 1 µs (both ends on one host)", network),
];

/// The mean of all messages is that of the start and of waiting for a CPU; the engine is what the calm median shows.
fn raw_ethernet(parts: &[Part<'_>]) -> Option<Answer> {
    let all = engines(parts);
    let eth: Vec<&Driven<'_>> = all.iter().filter(|driven| driven.transport() == "eth").collect();
    let mut keeping_up = eth.iter().filter(|driven| !driven.overloaded());
    let staggered = keeping_up.clone().find(|driven| driven.start() == "staggered");
    let calm = staggered.or_else(|| keeping_up.next()).or(eth.first())?;
    let quantile = calm.median()?;
    let mean = |ns: Option<f64>| time_or(ns, "no message arrived");
    let evidence = table("claim-33", "Raw Ethernet by how the components start", &eth)
        .col("run", |driven| driven.part.name)
        .col("start", |driven| driven.start())
        .col("mean", |driven| mean(driven.engine.all.mean_ns))
        .col("first mean", |driven| mean(driven.engine.first.mean_ns))
        .col("steady mean", |driven| mean(driven.engine.steady.mean_ns))
        .col("steady p50", |driven| time_or(driven.median(), "no message arrived"))
        .col("waiting for a CPU", |driven| share_or(driven.waiting_share(), "schedstat cannot be read"));
    let interval = quantile.lo_ns.zip(quantile.hi_ns).filter(|_| quantile.is_interval());
    let (confidence, verdict) = match (interval, quantile.ns) {
        (Some((_, high)), _) if (high as f64) < SLOW => (Confidence::Sure, "the engine is not what takes 390 µs"),
        (Some((low, _)), _) if low as f64 > SLOW => (Confidence::Sure, "here the engine itself takes longer than that"),
        (Some(_), _) => (Confidence::CantTell, "that may be 390 µs or not"),
        (None, Some(ns)) if (ns as f64) < SLOW => (Confidence::Likely, "the engine is not what takes 390 µs"),
        (None, Some(_)) => (Confidence::CantTell, "too few rounds for an interval"),
        (None, None) => {
            (Confidence::CantTell, "this machine did not keep up with the messages, so that a backlog was measured")
        }
    };
    let mut text =
        format!("The steady median in the run {} is {}: {verdict}.", calm.part.name, quantile_words(quantile));
    let means: Vec<f64> = eth.iter().filter_map(|driven| driven.engine.all.mean_ns).collect();
    if let (Some(least), Some(most)) = (means.iter().copied().reduce(f64::min), means.iter().copied().reduce(f64::max))
        && means.len() > 1
    {
        text +=
            &format!(" The mean of all messages lies between {} and {}, by how they start.", time(least), time(most));
    }
    if let Some(ratio) = log_estimate(&start_ratios(parts, "eth")) {
        let interval = ratio.low.zip(ratio.high).map_or_else(
            || ", too few starts for an interval".to_owned(),
            |(low, high)| format!(" (95 % over starts: {low:.2} to {high:.2})"),
        );
        text += &format!(" First messages take {:.2} times the mean of the others{interval}.", ratio.value);
    }
    let waiting = eth.iter().filter_map(|driven| Some((driven.waiting_share()?, driven)));
    if let Some((share, driven)) = waiting.max_by(|a, b| a.0.total_cmp(&b.0)) {
        text +=
            &format!(" In {} receivers wait for a CPU for at least {} of the mean.", driven.part.name, percent(share));
    }
    let answer = say(confidence, text).with(evidence);
    Some(match confidence {
        Confidence::Sure => answer,
        _ => answer.next("msgpath periodic -x eth/sigio --start staggered -c 2000 -r 20"),
    })
}

/// What a second copy of every frame would look like, and what was lost all the same.
fn twice(parts: &[Part<'_>]) -> Option<Answer> {
    let all = engines(parts);
    let on_lo =
        |driven: &&Driven<'_>| driven.transport() == "eth" && driven.part.run.header.plan.options.interface == "lo";
    let eth: Vec<&Driven<'_>> = all.iter().filter(on_lo).collect();
    if eth.is_empty() {
        return None;
    }
    let sum = |of: fn(&Delivery) -> u64| eth.iter().map(|driven| of(&driven.case.delivery)).sum::<u64>();
    let (sent, again, lost) = (sum(|all| all.sent), sum(|all| all.duplicated), sum(|all| all.lost));
    let evidence = table("claim-35", "Frames on lo", &eth)
        .col("run", |driven| driven.part.name)
        .col("sent to receivers", |driven| Cell::count(driven.case.delivery.sent))
        .col("received", |driven| Cell::count(driven.case.delivery.received))
        .col("again", |driven| Cell::count(driven.case.delivery.duplicated))
        .col("lost", |driven| Cell::count(driven.case.delivery.lost));
    let text = match again {
        0 => format!(
            "Of {} deliveries none came twice and {} were lost. A packet socket on lo sees each frame as outgoing and as \
             incoming (PACKET_OUTGOING, PACKET_HOST or PACKET_BROADCAST); these sockets take the incoming one, and loss is \
             counted by the senders' numbers: a second copy says nothing about it.",
            sent, lost
        ),
        _ => format!(
            "Of {} deliveries {} came twice and {} were lost: both are counted by the senders' numbers, and one does not \
             exclude the other.",
            sent, again, lost
        ),
    };
    // Counted.
    Some(sure(text).with(evidence))
}

fn authentication(parts: &[Part<'_>]) -> Option<Answer> {
    let pairs = cold_over_warm(parts);
    if pairs.is_empty() {
        return None;
    }
    let colds: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
    let warm = median(&pairs.iter().map(|pair| pair.1).collect::<Vec<f64>>());
    let slowest = colds.iter().copied().fold(0.0, f64::max);
    let ratio = log_estimate(&pairs.iter().map(|(cold, warm)| cold / warm.max(1.0)).collect::<Vec<f64>>())?;
    let cold = log_estimate(&colds)?;
    let more = match ratio.low.zip(ratio.high) {
        Some((low, _)) if low > 1.0 => format!(
            "Only the first call of a process is slow, {:.1} times a later one: what is done once is not the price of a message",
            ratio.value
        ),
        _ => "The first call is not shown to be slower than the later ones".to_owned(),
    };
    let (confidence, verdict) = match cold.low.zip(cold.high) {
        Some((_, high)) if high < COLD => (Confidence::Sure, "not 1 ms even the first time with this library"),
        Some((low, _)) if low > COLD => (Confidence::Sure, "more than 1 ms, the first time"),
        Some(_) => (Confidence::CantTell, "which may be 1 ms or not, the first time"),
        None => (Confidence::Likely, "too few processes for an interval"),
    };
    let evidence = table("claim-36", "The authentication", [()])
        .col("processes", |()| Cell::count(pairs.len() as u64))
        .col("first call", |()| Cell::Time((&cold).into()))
        .col("slowest first call", |()| Cell::Time(slowest.into()))
        .col("later calls", |()| Cell::Time(warm.into()));
    let text = format!(
        "A first call takes {} (geometric mean of {} processes, the slowest {}), a later one {}: {verdict}. {}.",
        time(cold.value),
        pairs.len(),
        time(slowest),
        time(warm),
        more,
    );
    Some(say(confidence, text).with(evidence))
}

/// Whether there was a network, and how long the ways took.
fn network(parts: &[Part<'_>]) -> Option<Answer> {
    let (mut local, mut remote, mut rows) = (Vec::new(), 0, Vec::new());
    for part in parts {
        let (Some(facts), Some(rpc)) = (&part.run.header.rpc, &part.summary.rpc) else { continue };
        let Some(pair) = facts.pairs.first() else { continue };
        match &pair.same_machine {
            Some(why) if !local.contains(&why) => local.push(why),
            Some(_) => {}
            None => remote += 1,
        }
        rows.extend(rpc.kinds.iter().map(|one| {
            let own = part.logs.rpcs.iter().filter(|row| row.case == one.case);
            let bytes: Vec<f64> = own.map(|row: &RpcRow| (row.request_bytes + row.reply_bytes) as f64).collect();
            let bytes = if bytes.is_empty() { one.request_bytes + one.reply_bytes } else { median(&bytes) };
            (part, pair, one, bytes)
        }));
    }
    let device = |part: &Part<'_>| match part.route() {
        Some(route) => Cell::text(format!("{} ({})", route.device, kind(route.kind))),
        None => Cell::missing("not known"),
    };
    let path = |one: &RpcKind, stage| time_or(stage_ns(one, stage), "the stamps do not tell the two ways apart");
    let paths = rows.iter().filter_map(|(_, _, one, _)| stage_ns(one, RpcStage::RequestPath));
    let paths: Vec<f64> = paths.collect();
    let evidence = table("claim-37", "Where the calls went", &rows)
        .col("run", |(part, ..)| part.name)
        .col("call", |(_, _, one, _)| &one.method)
        .col("device", |(part, ..)| device(part))
        .col("one machine", |(_, pair, ..)| pair.same_machine.as_deref().unwrap_or("no"))
        .col("bytes", |(.., bytes)| Cell::size(*bytes as u64))
        .col("request path", |(_, _, one, _)| path(one, RpcStage::RequestPath))
        .col("reply path", |(_, _, one, _)| path(one, RpcStage::ReplyPath))
        .col("at 1 Gbit/s they would take", |(.., bytes)| Cell::Time((bytes * 8e9 / WIRE).into()));
    if local.is_empty() {
        // A network was there: the claim is not touched.
        return None;
    }
    let ways = match extremes(&paths, |ns| *ns) {
        Some((least, most)) => format!(
            " From the client's send to the server's reading, the kernel of this machine took {} to {} in the mean of a \
             kind, {}.",
            time(*least),
            time(*most),
            if *least > NETWORK { "more than 1 µs, and none of it on a wire" } else { "and none of it on a wire" }
        ),
        None => String::new(),
    };
    let others = if remote > 0 { format!(" {remote} other runs did leave the machine.") } else { String::new() };
    let because: Vec<&str> = local.iter().map(|why| why.as_str()).collect();
    let text = format!(
        "There was no network to take any time: both ends are on one machine ({}). A time computed from lengths and a \
         speed is an estimate of a wire that is not there.{ways}{others}",
        because.join("; ")
    );
    let answer = sure(text).with(evidence);
    Some(answer.next("msgpath serve --rpc on another machine, and msgpath rpc with its address"))
}

fn kind(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Loopback => "loopback",
        DeviceKind::Veth => "veth",
        DeviceKind::Tun => "tun",
        DeviceKind::Virtual => "virtual",
        DeviceKind::Nic => "NIC",
        DeviceKind::Unknown => "unknown",
    }
}

fn stage_ns(kind: &RpcKind, stage: RpcStage) -> Option<f64> {
    let all = kind.bands.iter().find(|band| band.name == "all")?;
    all.parts.iter().find(|part| part.stage == stage).map(|part| part.ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_analyse::periodic::testing::{build, with};
    use msgpath_analyse::testing_rpc::{Calls, S};
    use msgpath_analyse::{Logs, summarise_with};
    use msgpath_core::Histogram;
    use msgpath_record::Run;

    #[track_caller]
    fn settled((run, logs): &(Run, Logs), number: u8) -> Option<Answer> {
        let summary = summarise_with(run, logs);
        let claim = CLAIMS.iter().find(|claim| claim.0 == number).unwrap();
        (claim.2)(&[Part { name: "barrier", run, summary: &summary, logs }])
    }

    #[test]
    fn raw_ethernet_is_judged_by_its_steady_median() {
        let fast = settled(&build(|_| ()), 33).unwrap();
        assert_eq!(fast.confidence, Confidence::Sure, "{}", fast.text);
        assert!(fast.text.contains("not what takes 390 µs") && fast.text.contains("too few starts"), "{}", fast.text);
        let slow = with(
            |_| (),
            |round| {
                let mut latency = Histogram::new();
                // Rounds that differ by chance.
                let level = 800_000 + u64::from(round.pass) * 7_919 % 13 * 300;
                (0..400_u64).for_each(|n| latency.record(level + n * 10));
                round.latency = latency.to_sparse();
            },
        );
        let slow = settled(&slow, 33).unwrap();
        assert!(slow.text.contains("itself takes longer"), "{}", slow.text);
        let other = msgpath_analyse::testing::Build::echo(&["tcp:send"], &[64]).run();
        assert!([33, 35, 36, 37].iter().all(|number| settled(&(other.clone(), Logs::default()), *number).is_none()));
    }

    #[test]
    fn copies_and_losses_are_counted() {
        let clean = build(|_| ());
        assert!(settled(&clean, 35).unwrap().text.contains("none came twice and 0 were lost"));
        let doubled =
            with(|_| (), |round| (round.near_mut().delivery.duplicated, round.near_mut().delivery.lost) = (3, 1));
        assert!(settled(&doubled, 35).unwrap().text.contains("30 came twice and 10 were lost"));
        let mut link = build(|_| ());
        link.0.header.plan.options.interface = "mp0".into();
        assert!(settled(&link, 35).is_none());
    }

    #[test]
    fn the_first_authentication_is_judged_against_a_millisecond() {
        let calls = |first: u64| {
            build(|facts| {
                facts.sessions = (0..3).map(|_| facts.sessions[0].clone()).collect();
                for (at, component) in facts.sessions.iter_mut().flat_map(|s| &mut s.components).enumerate() {
                    component.mac_calls = vec![first + at as u64, 1_000, 1_000];
                }
            })
        };
        let quick = settled(&calls(40_000), 36).unwrap();
        assert_eq!(quick.confidence, Confidence::Sure, "{}", quick.text);
        assert!(quick.text.contains("not 1 ms even") && quick.text.contains("Only the first call"), "{}", quick.text);
        assert!(settled(&calls(2_000_000), 36).unwrap().text.contains("more than 1 ms, the first time"));
        let even = settled(&calls(900), 36).unwrap();
        assert!(even.text.contains("is not shown to be slower"), "{}", even.text);
        assert!(settled(&build(|_| ()), 36).is_none());
    }

    #[test]
    fn one_machine_is_no_network() {
        let calls = Calls::new(1, 0.0, 0.0).same_machine().pings(50, S);
        let text = settled(&calls.run(&["ping"], 10), 37).unwrap().text;
        assert!(text.contains("no network") && text.contains("both addresses are the same"), "{text}");
        let far = Calls::new(1, 0.0, 0.0).pings(50, S);
        assert!(settled(&far.run(&["ping"], 10), 37).is_none());
    }
}
