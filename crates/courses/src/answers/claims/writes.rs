//! Claims about reads, units and single runs.

use msgpath_analyse::expected::line_rate;
use msgpath_analyse::summary::CaseSummary;
use msgpath_core::Workload;
use msgpath_core::plan::Metric;
use msgpath_core::target::{BadTarget, parse_port};
use msgpath_core::units::{BitUnits, bits_per_second, size, three_digits};
use msgpath_stats::describe::{median, percentile};
use msgpath_stats::verdict::{LEAST_MARGIN, Verdict};

use super::Claim;
use super::ruling::{Ruling, decided, fails, holds, open};
use crate::answers::columns::{count_or, table};
use crate::answers::evidence::{Pair, extremes, judged};
use crate::answers::pages::write_shape::{alike, is, receiving, sending, shared};
use crate::answers::words::{bits, counted, percent, time};
use crate::answers::{Cell, Part};

pub(super) const CLAIMS: &[Claim] = &[
    (22, "writev beats write by 3 % on 1 GbE", writev_on_a_wire),
    (23, "#reads says how many packets came", reads),
    (24, "Gb/s is 2^30 bits a second", units),
    (25, "The sender's time gives the throughput", sender_time),
    (26, "The 'round trip' of the whole test is the RTT", whole_test),
    (27, "Port 75118 (or 78400) works", port),
    (28, "Small buffers cause packet loss", loss),
    (39, "A single run shows that it is 0.1 to 3 % better", single_run),
];

/// A wire that is used to this share limits what goes over it.
const FULL: f64 = 0.9;
/// The differences that claim 39 is about.
const SMALL: std::ops::RangeInclusive<f64> = 0.001..=0.03;
/// Pairs of rounds that claim 39 needs.
const PAIRS: usize = 20;

/// Streams over TCP whose messages are handed over in pieces.
fn shapes<'a>(parts: &[Part<'a>]) -> Option<(Part<'a>, Vec<&'a CaseSummary>)> {
    parts.iter().filter(|part| part.workload() == Workload::Stream).find_map(|part| {
        let is_shape = |one: &&CaseSummary| {
            one.case.path.transport == "tcp" && one.case.pieces.count > 1 && one.throughput.is_some()
        };
        let rows: Vec<&CaseSummary> = part.measured().filter(is_shape).collect();
        (!rows.is_empty()).then_some((*part, rows))
    })
}

fn writev_on_a_wire(parts: &[Part<'_>]) -> Option<Ruling> {
    let (part, rows) = shapes(parts)?;
    let gathered = rows.iter().copied().filter(|case| is(case, 2));
    let pairs: Vec<Pair<'_>> = gathered.filter_map(|case| Some((case, alike(&rows, case, 1)?))).collect();
    let family = judged(&part, Metric::Throughput, &pairs);
    let (low, high) = family.span()?;
    let (faster, all) = (family.count(Verdict::Better), counted(family.all.len(), "row"));
    let here = format!(
        "writev carries {low:.2} to {high:.2} times what many writes do and is shown to be faster in {faster} of {all}"
    );
    let limit = match line_rate(&part.run.header, &part.run.header.plan.cases[0].traits) {
        Some((line, route)) => {
            let rate = |case: &&CaseSummary| case.throughput.as_ref().map(|of| of.receiver_bits.value / line);
            let fullest = rows.iter().filter_map(rate).fold(0.0, f64::max);
            let used = format!("of {} on {} the fastest row uses {}", bits(line), route.device, percent(fullest));
            if fullest >= FULL { Ok(used) } else { Err(format!("{used}, so the wire is not the limit")) }
        }
        None => {
            let between = part.between();
            shared(&part, &rows)
                .map(|limit| format!("{between}, and {limit}"))
                .ok_or_else(|| format!("{between}, and no wire limits them"))
        }
    };
    Some(match limit {
        Err(none) => open(format!("{none}: {here}")),
        Ok(limit) if faster > 0 => holds(format!("{limit}, and yet {here}")),
        Ok(limit) if family.count(Verdict::Undecided) == 0 => fails(format!("{limit}: {here}")),
        Ok(limit) => open(format!("{limit}: {here}; the other rows are not decided")),
    })
}

/// Path and pieces.
fn name(case: &CaseSummary) -> String {
    format!("{} {}", case.case.path, case.case.pieces)
}

fn reads(parts: &[Part<'_>]) -> Option<Ruling> {
    let (part, rows) = shapes(parts)?;
    let rows = rows.into_iter().map(|case| {
        let (calls, tcp) = receiving(&part, case);
        (case, calls, tcp.as_ref().map(|tcp| tcp.data_segs_in).filter(|segments| *segments > 0))
    });
    let rows: Vec<_> = rows.collect();
    let each = rows.iter().filter_map(|(_, calls, segments)| Some(calls.recv_calls as f64 / (*segments)? as f64));
    let each: Vec<f64> = each.collect();
    let Some((low, high)) = extremes(&each, |ratio| *ratio) else {
        return Some(open("the receiver's segments were not counted"));
    };
    let apart = each.iter().filter(|ratio| !(0.9..=1.1).contains(*ratio)).count();
    let text = format!(
        "a segment takes {} to {} read calls, depending on the row: in {apart} of {} the two counts are more than 10 % apart",
        three_digits(*low),
        three_digits(*high),
        counted(each.len(), "row")
    );
    let evidence = table("reads-and-packets", "Read calls and segments with data at the receiver", rows)
        .col("row", |(case, ..)| name(case))
        .col("#reads", |(_, calls, _)| Cell::count(calls.recv_calls))
        .col("full", |(_, calls, _)| Cell::count(calls.recv_full))
        .col("short", |(_, calls, _)| Cell::count(calls.recv_short))
        .col("empty", |(_, calls, _)| Cell::count(calls.recv_empty))
        .col("segments received", |(.., segments)| count_or(*segments, "not told"));
    // Counts, not samples: one row is enough.
    Some(decided(Some(apart == 0), text).with(evidence))
}

fn units(parts: &[Part<'_>]) -> Option<Ruling> {
    let (_, rows) = shapes(parts)?;
    let rate = |case: &CaseSummary| case.throughput.as_ref().map_or(0.0, |of| of.receiver_bits.value);
    let (_, best) = extremes(&rows, |case| rate(case))?;
    let (si, binary) = (rate(best) / 1e9, rate(best) / 1_073_741_824.0);
    Some(fails(format!(
        "{} carries {}, which is {}: a table that prints {} as Gb/s is {} low. Links are sold in 10^9",
        name(best),
        bits(rate(best)),
        bits_per_second(rate(best), BitUnits::Binary),
        three_digits(binary),
        percent(1.0 - binary / si)
    )))
}

fn sender_time(parts: &[Part<'_>]) -> Option<Ruling> {
    let (part, rows) = shapes(parts)?;
    let off = |case: &CaseSummary| {
        case.throughput.as_ref().map_or(0.0, |of| (of.sender_bits.value / of.receiver_bits.value - 1.0).abs())
    };
    let (_, widest) = extremes(&rows, |case| off(case))?;
    let apart = off(widest);
    // What a clock that stops at the last send() leaves out: what the buffer can hold.
    let sends = if part.run.header.plan.reverse { "far" } else { "near" };
    let granted = rows.iter().flat_map(|case| &case.granted);
    let buffer = granted.into_iter().find(|granted| granted.option == "SO_SNDBUF" && granted.end == sends);
    let bytes = widest.case.size as f64 * widest.delivery.sent as f64 / widest.rounds.max(1) as f64;
    let held = buffer.and_then(|granted| granted.granted.parse::<f64>().ok()).filter(|_| bytes > 0.0);
    let left_out = held.map_or_else(String::new, |held| {
        let (buffer, share, whole) = (size(held as u64), percent((held / bytes).min(1.0)), size(bytes as u64));
        format!(
            ". A clock that stops at the last send() would leave out what the socket's buffer holds: {buffer} as read back, up \
             to {share} of the {whole} of a round"
        )
    });
    let text = format!(
        "with its clock running until the acknowledgement the sender is at most {} off the receiver's rate ({}){left_out}",
        percent(apart),
        name(widest)
    );
    let so = match held {
        _ if apart > LEAST_MARGIN => Some(false),
        Some(held) => Some(held / bytes <= LEAST_MARGIN),
        None => None,
    };
    let unread = if held.is_none() { ". How much its buffer holds is not known" } else { "" };
    Some(decided(so, format!("{text}{unread}")).likely())
}

fn whole_test(parts: &[Part<'_>]) -> Option<Ruling> {
    let (part, rows) = shapes(parts)?;
    let of = |case: &&CaseSummary| {
        let rtt_us = sending(&part, case).1.as_ref()?.rtt_us;
        (rtt_us > 0).then_some((case.throughput.as_ref()?.sender_ns, f64::from(rtt_us) * 1e3))
    };
    let times: Vec<(f64, f64)> = rows.iter().filter_map(of).collect();
    let Some((least, most)) = extremes(&times, |(whole, rtt)| whole / rtt) else {
        return Some(open("TCP's own round trip was not read"));
    };
    let text = format!(
        "a round of the test takes {} to {}, the round trip as TCP itself had it at the end {} and {}: {} to {} times as long",
        time(least.0),
        time(most.0),
        time(least.1),
        time(most.1),
        three_digits(least.0 / least.1),
        three_digits(most.0 / most.1)
    );
    // TCP's own time is smoothed: within twice of it they are called the same.
    Some(match (least.0 > 2.0 * least.1, most.0 > 2.0 * most.1) {
        (true, _) => fails(format!("{text}. It is the completion time of a transfer")),
        (_, false) => holds(text),
        _ => open(text),
    })
}

/// A fact of the tool that measured: it refuses such a port.
fn port(parts: &[Part<'_>]) -> Option<Ruling> {
    shapes(parts)?;
    let settle = |text: &str| match parse_port(text) {
        Err(BadTarget::Port { typed, wraps_to }) => {
            Err(format!("{typed} does not exist, and a program that keeps 16 bits of it uses {wraps_to}"))
        }
        _ => Ok(format!("{text} is a port")),
    };
    let settled = ["75118", "78400"].map(settle);
    let refused = settled.iter().filter(|one| one.is_err()).count();
    let text = settled.map(|one| one.unwrap_or_else(|why| why)).join("; ");
    Some(decided(Some(refused == 0), format!("{refused} of the two are refused: {text}")))
}

fn loss(parts: &[Part<'_>]) -> Option<Ruling> {
    let (part, rows) = shapes(parts)?;
    let of = |case: &&CaseSummary| {
        let (calls, tcp) = sending(&part, case);
        Some((calls.send_calls, tcp.as_ref()?.data_segs_out, tcp.as_ref()?.total_retrans))
    };
    let sum = |many: bool| {
        let own = rows.iter().filter(|case| is(case, 1) == many).filter_map(of);
        own.reduce(|sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2))
    };
    let Some((writes, segments, again)) = sum(true).filter(|(_, segments, _)| *segments > 0) else {
        return Some(open("the sender's segments were not counted"));
    };
    let smallest = rows.iter().map(|case| case.case.pieces.size).min()?;
    let one_call = sum(false).filter(|(_, segments, _)| *segments > 0);
    let beside = one_call
        .map_or_else(String::new, |(_, segments, again)| format!(" (one call a message: {} of {})", again, segments));
    let put = match segments.cmp(&writes) {
        std::cmp::Ordering::Less => "TCP put writes together",
        std::cmp::Ordering::Greater => "TCP split writes",
        std::cmp::Ordering::Equal => "as many, though TCP promises no segment for each write",
    };
    let text = format!(
        "{} writes of {} and more left in {} segments, of which {} were retransmitted{beside}: {put}. The size of a buffer is not \
         that of a packet",
        writes,
        size(smallest.into()),
        segments,
        again
    );
    let expected = one_call.map(|(_, of, again)| again as f64 / of as f64 * segments as f64);
    Some(match expected {
        _ if again == 0 => fails(text),
        // More than chance adds to what one call a message has (a Poisson count, three standard deviations).
        Some(expected) if again as f64 > expected + 3.0 * (expected + 1.0).sqrt() => holds(text).likely(),
        Some(_) => fails(format!("{text}. They are not shown to be more than with one call a message")).likely(),
        None => open(format!("{text}. Nothing with one call a message stands beside them")),
    })
}

/// The same case in neighbouring passes: what a single run of each would have claimed.
fn single_run(parts: &[Part<'_>]) -> Option<Ruling> {
    let resolution = |part: &Part<'_>| part.summary.comparison.as_ref()?.resolution;
    let repeated = |part: &&Part<'_>| shapes(std::slice::from_ref(*part)).is_some() || resolution(part).is_some();
    let part = parts.iter().find(repeated)?;
    let metric = Metric::of(part.workload());
    let mut apart = Vec::new();
    for case in part.measured() {
        let values: Vec<f64> = part.by_pass(metric, &case.case).into_values().collect();
        apart.extend(values.windows(2).map(|pair| (pair[1] / pair[0] - 1.0).abs()));
    }
    if apart.len() < PAIRS {
        return Some(open(format!("{} pairs of rounds are too few to say what two of them differ by", apart.len())));
    }
    let (middle, most) = (median(&apart), percentile(&mut apart, 0.95));
    let together = resolution(part).map_or_else(String::new, |resolution| {
        let resolution = percent(resolution);
        format!("; all rounds together, the baseline differs from its hidden repetition by up to {resolution}")
    });
    let text = format!(
        "two rounds of the same case, one pass after the other, differ by {} in the middle and by {} or more in one of twenty \
         ({} pairs of the run {}){together}",
        percent(middle),
        percent(most),
        (apart.len() as u64),
        part.name
    );
    Some(if most > *SMALL.end() {
        fails(format!("{text}: 3 % from a single run of each is nothing"))
    } else if most < *SMALL.start() {
        holds(format!("{text}: a single run of each would do"))
    } else {
        open(format!("{text}: of 0.1 to 3 % a single run of each shows only what is more than that"))
    })
}
