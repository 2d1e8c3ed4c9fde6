//! Claims about what is counted: segments, switches, cycles, misses.

use msgpath_core::plan::CaseRole;
use msgpath_core::schema::{DeviceKind, FAR, NEAR, RoundRecord, TcpInfo};
use msgpath_core::units::{size, three_digits};
use msgpath_stats::estimate::Estimate;

use super::Claim;
use super::measured::{Measured, echoes, switches};
use super::ruling::{Ruling, decided, fails, holds, open, same};
use crate::answers::columns::{number_or, table};
use crate::answers::evidence::{distance, extremes};
use crate::answers::ladder::{self, End, Event, Row, find};
use crate::answers::words::{ratio_with, time};
use crate::answers::{Cell, Part};
use msgpath_analyse::summary::{CaseSummary, Cost};

pub(super) const CLAIMS: &[Claim] = &[
    (16, "127.0.0.1 bypasses TCP/IP", bypasses),
    (17, "System calls are context switches", calls_are_switches),
    (18, "A3 lowers LLC misses (perf on the client)", lowers_misses),
    (19, "0 cycles, 0 misses", zero_cycles),
];

/// Segments of TCP over a loopback address.
fn bypasses(parts: &[Part<'_>]) -> Option<Ruling> {
    let all = echoes(parts);
    let (one, tcp, route) = all.iter().find_map(|one| {
        let route = one.part.route().filter(|route| route.kind == DeviceKind::Loopback)?;
        (one.case().path.transport == "tcp").then_some((one, one.summary.end(NEAR).tcp?, route))
    })?;
    let each = |of: fn(&TcpInfo) -> u64| {
        one.over_rounds(|round| Some(of(&round.near().tcp?) as f64 / round.near().delivery.sent.max(1) as f64))
    };
    let (data, whole) = (each(|tcp| tcp.data_segs_out).zip(each(|tcp| tcp.data_segs_in)), each(|tcp| tcp.segs_out));
    let (device, bytes) = (&route.device, size(one.case().size));
    let ruling = match (&data, whole) {
        (Some((sent, came)), _) => fails(format!(
            "over {device} every message of {bytes} left in {} TCP segments and every reply came in {}, of at most {} B, with a \
             window of {} segments and a round trip that TCP itself measured ({}). What is missing is a device",
            three_digits(sent.value),
            three_digits(came.value),
            tcp.snd_mss,
            tcp.snd_cwnd,
            time(f64::from(tcp.rtt_us) * 1e3)
        )),
        (None, Some(segments)) => holds(format!(
            "over {device} the sockets counted {} segments a message, and none of them with data: the messages of {bytes} went \
             another way",
            three_digits(segments.value)
        )),
        (None, None) => open(format!("the kernel counted no segment of these sockets over {device}")),
    };
    let (sent, came) = data.unzip();
    let rows = [("with data", sent, came), ("all", each(|tcp| tcp.segs_out), each(|tcp| tcp.segs_in))];
    let evidence = table("segments", "Segments of the near end's sockets (TCP_INFO)", rows)
        .col("a message", |(what, ..)| *what)
        .col("sent", |(_, sent, _)| number_or(sent.as_ref(), "none"))
        .col("came", |(.., came)| number_or(came.as_ref(), "none"));
    Some(ruling.with(evidence))
}

/// Calls beside switches: the case in which they are furthest apart.
fn calls_are_switches(parts: &[Part<'_>]) -> Option<Ruling> {
    let all = echoes(parts);
    let calls = |round: &RoundRecord| (round.near().calls.total_calls() + round.far().calls.total_calls()) as f64;
    let both = |one: &Measured<'_>| {
        one.over_rounds(|round| Some(calls(round) / (switches(round) as f64)).filter(|x| x.is_finite()))
    };
    let none = |one: &&Measured<'_>| one.rounds.iter().all(|round| switches(round) == 0 && calls(round) > 0.0);
    let sum =
        |one: &Measured<'_>, of: fn(&Cost) -> f64| of(&one.summary.end(NEAR).cost) + of(&one.summary.end(FAR).cost);
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
        return Some(fails(words(one)).with(evidence));
    }
    let ratios: Vec<_> = all.iter().filter_map(|one| Some((both(one)?, one))).collect();
    let (_, (apart, one)) = extremes(&ratios, |(apart, _)| distance(apart.value))?;
    let text = format!("{}, {} times as many calls as switches", words(one), ratio_with(&apart.into()));
    let ruling = decided(same(apart), text).with(evidence);
    Some(ruling.next_if_open("msgpath echo -x tcp:send/spin"))
}

/// LLC misses of A3 against A1, at both ends. A cell in which A1 differs from its own repetition says nothing.
fn lowers_misses(parts: &[Part<'_>]) -> Option<Ruling> {
    let has = |rows: &[Row<'_>], name: &str| rows.iter().any(|row| row.method.name == name);
    let grids = parts.iter().map(|part| (part, ladder::rows(*part)));
    let (part, rows) = grids.into_iter().find(|(_, rows)| has(rows, "A1") && has(rows, "A3"))?;
    let (mut cells, mut why) = (Vec::new(), String::new());
    for row in rows.iter().filter(|row| row.method.name == "A3") {
        let case = &row.case.case;
        let Some(one) = find(&rows, "A1", case.size, case.threads) else { continue };
        let is_replica = |other: &&CaseSummary| {
            let other = &other.case;
            other.role == CaseRole::Control && (other.size, other.threads) == (case.size, case.threads)
        };
        let replica = part.summary.cases.iter().find(is_replica).map(|case| Row { case, ..*one });
        for end in End::BOTH {
            match (one.event(end, Event::LastLevel), row.event(end, Event::LastLevel)) {
                (Ok(before), Ok(after)) => {
                    let replica = replica.and_then(|replica| replica.event(end, Event::LastLevel).ok());
                    cells.push((end, case, before, after, replica));
                }
                (Err(reason), _) | (_, Err(reason)) => why = reason,
            }
        }
    }
    if cells.is_empty() {
        return Some(open(format!("LLC misses are not counted: {why}")));
    }
    let less = |one: &Estimate, other: &Estimate| one.high.zip(other.low).is_some_and(|(one, other)| one < other);
    let apart = |one: &Estimate, other: &Estimate| less(one, other) || less(other, one);
    let steady = |(_, _, before, _, replica): &&(_, _, Estimate, Estimate, Option<Estimate>)| {
        replica.as_ref().is_none_or(|replica| !apart(before, replica))
    };
    let fewer = cells.iter().filter(steady).filter(|(_, _, before, after, _)| less(after, before)).count();
    let more = cells.iter().filter(steady).filter(|(_, _, before, after, _)| less(before, after)).count();
    let unsteady = cells.len() - cells.iter().filter(steady).count();
    let text = format!(
        "of {} rows (both ends, sizes, threads) A3 has fewer LLC misses a message than A1 in {fewer} and more in {more}, with \
         intervals that do not touch; {unsteady} rows say nothing, because A1 differs from its own repetition there. Both ends \
         run the same binary",
        cells.len()
    );
    let evidence = table("claim-18", "LLC misses per message, both ends", cells)
        .col("end", |(end, ..)| end.name())
        .col("size", |(_, case, ..)| Cell::size(case.size))
        .col("threads", |(_, case, ..)| Cell::count(u64::from(case.threads)))
        .col("A1", |(_, _, before, ..)| Cell::Number(before.into()))
        .col("A3", |(_, _, _, after, _)| Cell::Number(after.into()))
        .col("the same program twice (A/A)", |(.., replica)| number_or(replica.as_ref(), "no control of this cell"));
    let ruling = match (fewer, more) {
        (0, 0) => open(text),
        (_, 0) => holds(text),
        _ => fails(text),
    };
    Some(ruling.with(evidence))
}

fn zero_cycles(parts: &[Part<'_>]) -> Option<Ruling> {
    let mut refused = Vec::new();
    let mut asked = false;
    for part in parts {
        let header = &part.run.header;
        for (name, facts) in [("near", &header.end(NEAR).events), ("far", &header.end(FAR).events)] {
            asked |= !facts.counted.is_empty();
            for (event, reason) in &facts.refused {
                let output = format!("{event} ({name} end): n/a: {}", reason.why);
                if !refused.contains(&output) {
                    refused.push(output);
                }
            }
        }
    }
    let cases = parts.iter().flat_map(|part| part.measured());
    let rates = cases.flat_map(|case| case.end(NEAR).events.iter().chain(&case.end(FAR).events));
    let is_one = |name: &str| name.contains("cycles") || name.contains("misses");
    let rates = rates.filter(|rate| is_one(&rate.name));
    let values: Vec<f64> = rates.filter_map(|rate| Some(rate.per_message.as_ref()?.value)).collect();
    let zero = values.iter().filter(|each| **each == 0.0).count();
    let counted = format!("{} numbers of cycles and misses were counted, {zero} of them 0", (values.len() as u64));
    Some(match (refused.as_slice(), values.len()) {
        ([], 0) if !asked => return None,
        ([], 0) => open("no number of cycles or misses was counted, and none was refused either"),
        ([], _) if zero > 0 => holds(format!("{counted}, with nothing refused: these are counts")),
        ([], _) => fails(counted),
        (all, _) => fails(format!(
            "not counted is not 0: {} events have a reason instead of a number ({}); {counted}",
            all.len(),
            all.iter().take(4).cloned().collect::<Vec<_>>().join("; ")
        )),
    })
}
