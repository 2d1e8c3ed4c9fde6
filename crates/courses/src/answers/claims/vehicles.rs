//! Claims about raw Ethernet, start-up, authentication and what is called a network.

use msgpath_core::Delivery;
use msgpath_core::schema::{DeviceKind, RpcRow};
use msgpath_stats::describe::median;
use msgpath_stats::estimate::log_estimate;

use super::Claim;
use super::ruling::{Ruling, decided, fails, holds, open};
use crate::answers::columns::{share_or, table, time_or};
use crate::answers::evidence::{above, below, extremes};
use crate::answers::pages::vehicles::{Driven, cold_over_warm, engines, start_ratios};
use crate::answers::words::{percent, quantile_words, range, time};
use crate::answers::{Cell, Part};
use msgpath_analyse::rpc::{RpcKind, RpcStage};

/// The mean that made raw Ethernet look slow, ns.
const SLOW: f64 = 390_000.0;
/// What an authentication is said to cost, ns.
const MILLISECOND: f64 = 1_000_000.0;
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
fn raw_ethernet(parts: &[Part<'_>]) -> Option<Ruling> {
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
    let mut text = format!("the steady median in the run {} is {}.", calm.part.name, quantile_words(quantile));
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
    let ruling = match (interval, quantile.ns) {
        (Some((_, high)), _) if (high as f64) < SLOW => fails(format!("{text} The engine is not what takes 390 µs")),
        (Some((low, _)), _) if low as f64 > SLOW => {
            holds(format!("{text} Here the engine itself takes longer than that"))
        }
        (Some(_), _) => open(format!("{text} That may be 390 µs or not")),
        (None, Some(_)) => open(format!("{text} There were too few rounds for an interval")),
        (None, None) => {
            open(format!("{text} This machine did not keep up with the messages, so that a backlog was measured"))
        }
    };
    Some(ruling.with(evidence).next_if_open("msgpath periodic -x eth/sigio --start staggered -c 2000 -r 20"))
}

/// What a second copy of every frame would look like, and what was lost all the same.
fn twice(parts: &[Part<'_>]) -> Option<Ruling> {
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
    let (again_words, lost_words) = (again.to_string(), lost.to_string());
    let sent_words = sent.to_string();
    Some(
        match (again, lost) {
            _ if sent == 0 => open("no frame was sent on lo".to_owned()),
            (0, _) => fails(format!(
                "of {sent_words} deliveries none came twice and {lost_words} were lost. A packet socket on lo sees each frame as \
                 outgoing and as incoming (PACKET_OUTGOING, PACKET_HOST or PACKET_BROADCAST); these sockets take the incoming \
                 one, and loss is counted by the senders' numbers"
            )),
            (_, 0) => holds(format!(
                "of {sent_words} deliveries {again_words} came twice and none was lost; both are counted by the senders' numbers, \
                 and one does not follow from the other"
            )),
            _ => fails(format!(
                "of {sent_words} deliveries {again_words} came twice and {lost_words} were lost: both are counted by the senders' \
                 numbers, and one does not exclude the other"
            )),
        }
        .with(evidence),
    )
}

/// The price of a message is that of the later calls; the first one has what is done once.
fn authentication(parts: &[Part<'_>]) -> Option<Ruling> {
    let pairs = cold_over_warm(parts);
    if pairs.is_empty() {
        return None;
    }
    let of = |ns: fn(&(f64, f64)) -> f64| pairs.iter().map(ns).collect::<Vec<f64>>();
    let colds = of(|pair| pair.0);
    let (cold, warm) = (log_estimate(&colds)?, log_estimate(&of(|pair| pair.1.max(1.0)))?);
    let slowest = colds.iter().copied().fold(0.0, f64::max);
    let ratio = log_estimate(&of(|(cold, warm)| cold / warm.max(1.0)))?;
    let more = match above(&ratio, 1.0) {
        true => format!(
            "The first call of a process is {:.1} times as slow as a later one: what is done once is not the price of a message",
            ratio.value
        ),
        false => "The first call is not shown to be slower than the later ones".to_owned(),
    };
    let evidence = table("claim-36", "The authentication", [()])
        .col("processes", |()| Cell::count(pairs.len() as u64))
        .col("first call", |()| Cell::Time((&cold).into()))
        .col("slowest first call", |()| Cell::Time(slowest.into()))
        .col("later calls", |()| Cell::Time((&warm).into()));
    let text = format!(
        "a message's authentication takes {} (geometric mean of the later calls of {} processes), the first one {} (the slowest \
         {}). {more}",
        range(&warm, time),
        pairs.len(),
        range(&cold, time),
        time(slowest)
    );
    let ruling = if below(&warm, MILLISECOND) {
        fails(text)
    } else if above(&warm, MILLISECOND) {
        holds(text)
    } else {
        open(format!("{text}. There are too few processes to say whether that is 1 ms"))
    };
    Some(ruling.with(evidence))
}

/// Whether there was a network, and how long the ways took.
fn network(parts: &[Part<'_>]) -> Option<Ruling> {
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
            let own = part.logs.rpcs.sample().iter().filter(|row| row.case == one.case);
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
    if rows.is_empty() {
        return None;
    }
    let span = |ns: &[f64]| extremes(ns, |ns| *ns).map(|(least, most)| (*least, *most));
    let between = |(least, most): (f64, f64)| format!("{} to {} in the mean of a kind", time(least), time(most));
    let ways = span(&paths);
    if local.is_empty() {
        // Two machines: the way includes both kernels, so below 1 µs the wire is as well.
        let both: Vec<f64> = rows.iter().filter_map(|(_, _, one, _)| stage_ns(one, RpcStage::BothPaths)).collect();
        let ruling = match (ways, span(&both)) {
            (Some(ways), _) => {
                let text = format!("from the client's send to the server's reading it took {}", between(ways));
                decided(beside(ways, NETWORK), text)
            }
            (None, Some(both)) => {
                let text = format!("both ways together took {}; the clocks do not tell them apart", between(both));
                match (both.1 <= NETWORK, both.0 > 2.0 * NETWORK) {
                    (true, _) => holds(text),
                    (_, true) => fails(format!("{text}, and one of them is longer than that")),
                    _ => open(text),
                }
            }
            (None, None) => open("the stamps of the two machines say nothing of the ways"),
        };
        return Some(ruling.likely().with(evidence));
    }
    let took = ways.map(between);
    let took = took.map_or_else(String::new, |took| {
        format!(". From the client's send to the server's reading the kernel of this machine took {took}, none of it on a wire")
    });
    let others = if remote > 0 { format!(". {remote} other runs did leave the machine") } else { String::new() };
    let because: Vec<&str> = local.iter().map(|why| why.as_str()).collect();
    let text = format!(
        "there was no network to take any time: both ends are on one machine ({}). A time computed from lengths and a speed is \
         an estimate of a wire that is not there{took}{others}",
        because.join("; ")
    );
    Some(fails(text).with(evidence).next("msgpath serve --rpc on another machine, and msgpath rpc with its address"))
}

/// Whether all that was seen is at most this, or all of it more.
fn beside((least, most): (f64, f64), bound: f64) -> Option<bool> {
    if most <= bound {
        Some(true)
    } else if least > bound {
        Some(false)
    } else {
        None
    }
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
