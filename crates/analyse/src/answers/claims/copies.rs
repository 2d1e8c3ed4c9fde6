//! Claims about copies, zero copy and caches.

use msgpath_core::ZeroCopyCounts;
use msgpath_core::plan::{CaseRole, Metric};
use msgpath_core::units::{self, BitUnits, Glyphs, three_digits};
use msgpath_stats::crossover::CrossoverKind;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::verdict::Verdict;

use super::super::ladder::{self, Bench, End, Event, Row, Versus, find};
use super::super::{Answer, Cell, Part, Table};
use super::Claim;
use crate::summary::{CaseSummary, Confidence};

const G: Glyphs = Glyphs::Unicode;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        number: 1,
        claim: "MSG_ZEROCOPY on lo or veth avoids the copy",
        settle: |parts| named(0, avoids_the_copy(parts)),
    },
    Claim { number: 2, claim: "the flag MSG_ZEROCOPY is enough", settle: |parts| named(1, flag_is_enough(parts)) },
    Claim {
        number: 3,
        claim: "one notification for each send; reading them is optional",
        settle: |parts| named(2, one_notification(parts)),
    },
    Claim { number: 4, claim: "zero copy pays from X KB on", settle: |parts| named(3, crossover_at(parts)) },
    Claim {
        number: 5,
        claim: "iovec saves a copy, so A2 is N times faster",
        settle: |parts| named(4, iovec_saves(parts)),
    },
    Claim { number: 6, claim: "two-copy has exactly two copies", settle: |parts| named(5, two_copies(parts)) },
    Claim {
        number: 18,
        claim: "A3 lowers LLC misses (perf on the client)",
        settle: |parts| named(6, lowers_misses(parts)),
    },
    Claim { number: 19, claim: "0 cycles, 0 misses", settle: |parts| named(7, zero_cycles(parts)) },
    Claim { number: 20, claim: "365 Gb/s of network throughput", settle: |parts| named(8, cache_resident(parts)) },
    Claim { number: 21, claim: "zero copy saves 95 % of the cycles", settle: |parts| named(9, saves_cycles(parts)) },
];

/// An answer's question is its claim.
fn named(at: usize, answer: Option<Answer>) -> Option<Answer> {
    answer.map(|answer| Answer { question: CLAIMS[at].claim.into(), ..answer })
}

fn measured<'a>(part: &Part<'a>) -> impl Iterator<Item = &'a CaseSummary> + use<'a> {
    part.summary.cases.iter().filter(|case| case.case.role == CaseRole::Measured && case.rounds > 0)
}

/// Cases that really asked for zero copy, with what the kernel said.
fn zero_copy<'a>(part: &Part<'a>) -> impl Iterator<Item = (&'a CaseSummary, ZeroCopyCounts)> + use<'a> {
    measured(part).filter(|case| case.case.path.method == "zerocopy").filter_map(|case| Some((case, case.zerocopy?)))
}

fn answer(confidence: Confidence, text: String) -> Answer {
    Answer::new("", confidence, text)
}

fn is_local(part: &Part<'_>) -> bool {
    matches!(ladder::way(&part.run.header), Some("lo" | "veth"))
}

fn percent(share: f64) -> String {
    format!("{} %", three_digits(share * 100.0).trim_end_matches(".0"))
}

fn avoids_the_copy(parts: &[Part<'_>]) -> Option<Answer> {
    let mut table = Table::new(
        "claim-1",
        "Zero-copy sends on paths that stay on this machine",
        &["run", "way", "path", "size", "sends", "copied after all"],
    );
    let (mut copied, mut answered) = (0, 0);
    for part in parts.iter().filter(|part| is_local(part)) {
        for (case, counts) in zero_copy(part) {
            let own = counts.copied + counts.zero_copied;
            (copied, answered) = (copied + counts.copied, answered + own);
            let share = (own > 0).then(|| counts.copied as f64 / own as f64);
            table.row([
                Cell::text(part.name),
                Cell::text(ladder::way(&part.run.header).unwrap_or_default()),
                Cell::text(case.case.path.to_string()),
                Cell::size(case.case.size),
                Cell::count(counts.asked),
                Cell::or_missing(share, Cell::Share, "no send was answered"),
            ]);
        }
    }
    if answered == 0 {
        return None;
    }
    let said = format!("{} of {} answered sends", G.thousands(copied), G.thousands(answered));
    let share = percent(copied as f64 / answered as f64);
    let text = match answered - copied {
        0 => format!("No: the kernel copied {said} after all ({share}), at every size; no device is in the path."),
        some => format!(
            "Not in general: the kernel copied {said} after all ({share}); {} were not copied.",
            G.thousands(some)
        ),
    };
    Some(answer(Confidence::Sure, text).with(table))
}

fn flag_is_enough(parts: &[Part<'_>]) -> Option<Answer> {
    let (mut sends, mut completions) = (0, 0);
    for counts in parts
        .iter()
        .flat_map(measured)
        .filter(|case| case.case.path.method == "zerocopy-unset")
        .filter_map(|case| case.zerocopy)
    {
        (sends, completions) = (sends + counts.asked, completions + counts.copied + counts.zero_copied);
    }
    if sends == 0 {
        return None;
    }
    let (sends, is_none) = (G.thousands(sends), completions == 0);
    let text = match is_none {
        true => format!("No: {sends} sends had the flag without SO_ZEROCOPY, and 0 completions came: it is ignored."),
        false => format!("{} completions came for {sends} sends with the flag alone.", G.thousands(completions)),
    };
    Some(answer(Confidence::Sure, text))
}

fn one_notification(parts: &[Part<'_>]) -> Option<Answer> {
    let mut sum = ZeroCopyCounts::default();
    parts.iter().flat_map(zero_copy).for_each(|(_, counts)| sum.add(&counts));
    let answered = sum.copied + sum.zero_copied;
    if sum.notifications == 0 {
        return None;
    }
    let each = answered as f64 / sum.notifications as f64;
    let lead = if each > 1.05 { "No" } else { "Here nearly so" };
    let text = format!(
        "{lead}: {} notifications answered {} sends, {} each; {} sends had no answer when their round ended. Until its \
         answer a buffer is the kernel's: here buffers rotate and none is used before. What happens to bytes that are \
         overwritten early was not tried.",
        G.thousands(sum.notifications),
        G.thousands(answered),
        three_digits(each),
        G.thousands(sum.unanswered)
    );
    Some(answer(Confidence::Sure, text))
}

fn crossover_at(parts: &[Part<'_>]) -> Option<Answer> {
    let mut said = Vec::new();
    let mut crossings = false;
    for part in parts.iter().filter(|part| is_local(part)) {
        let (mut copied, mut not) = (0, 0);
        zero_copy(part).for_each(|(_, counts)| (copied, not) = (copied + counts.copied, not + counts.zero_copied));
        let Some(comparison) = part.summary.comparison.as_ref().filter(|_| copied > 0 && not == 0) else { continue };
        for one in comparison.crossovers.iter().filter(|one| one.path.method == "zerocopy") {
            let bytes = |size: f64| format!("{} B", G.thousands(size.round().max(0.0) as u64));
            let at = one.size.map_or_else(String::new, |size| {
                let within = one.low.zip(one.high).map(|(low, high)| format!(" ({} to {})", bytes(low), bytes(high)));
                format!(" at about {}{}", bytes(size), within.unwrap_or_default())
            });
            let kind = match one.kind {
                CrossoverKind::AlwaysFaster => "is faster at every size".to_owned(),
                CrossoverKind::NeverFaster => "is slower at every size".to_owned(),
                CrossoverKind::Equivalent => "shows no difference at any size".to_owned(),
                CrossoverKind::Undecided => "is not decided".to_owned(),
                CrossoverKind::At => format!("is faster from{}", at.replacen(" at", "", 1)),
                CrossoverKind::FasterBelow => format!("is faster below{}", at.replacen(" at", "", 1)),
                CrossoverKind::Several => format!("crosses more than once, last{at}"),
            };
            crossings |= matches!(one.kind, CrossoverKind::At | CrossoverKind::FasterBelow | CrossoverKind::Several);
            let threads = if one.threads > 1 { format!(", {} threads", one.threads) } else { String::new() };
            let (name, path, baseline) = (part.name, &one.path, &comparison.baseline);
            said.push(format!("{name}{threads}: {path} against {baseline} {kind}"));
        }
    }
    if said.is_empty() {
        return None;
    }
    let lead = if crossings { "A crossing is seen, and it is no copy avoided" } else { "No crossing is shown" };
    let text = format!(
        "Not answerable here, because all was copied after all. {lead}. By the metric of each run: {}.",
        said.join("; ")
    );
    Some(answer(if crossings { Confidence::Sure } else { Confidence::CantTell }, text))
}

/// Ratios of one step with the fewest threads.
fn step(part: Part<'_>, to: &str, from: &str) -> Vec<Versus> {
    let all = Bench::new(part, Metric::Throughput).versus(to, from);
    let fewest = all.iter().map(|one| one.threads).min();
    all.into_iter().filter(|one| Some(one.threads) == fewest).collect()
}

fn iovec_saves(parts: &[Part<'_>]) -> Option<Answer> {
    let of = |part: &&Part<'_>| {
        let methods = ["writes", "flatten", "sendmsg"];
        methods
            .iter()
            .all(|method| measured(part).any(|case| case.case.path.method == *method && case.case.pieces.count > 1))
    };
    // A stream shows it best; an echo waits most of its time.
    let stream = |part: &&Part<'_>| !part.run.header.plan.workload.is_timed();
    let part = parts.iter().filter(of).find(stream).or_else(|| parts.iter().find(of))?;
    let (calls, copy) = (step(*part, "flatten", "writes"), step(*part, "sendmsg", "flatten"));
    let heads = ["size", "8 calls -> 1, with the copy", "the copy away, iovec instead", "both: A2 by 8 calls"];
    let mut table = Table::new("claim-5", "Throughput after each step by throughput before it", &heads);
    let both = step(*part, "sendmsg", "writes");
    let cell = |all: &[Versus], size: u64| {
        Cell::or_missing(all.iter().find(|one| one.size == size).map(Versus::value), Cell::Ratio, "not compared")
    };
    for one in &calls {
        table.row([Cell::size(one.size), cell(&calls, one.size), cell(&copy, one.size), cell(&both, one.size)]);
    }
    let list = |all: &[Versus]| all.iter().map(Versus::words).collect::<Vec<_>>().join(", ");
    let calls_gain = calls.iter().filter(|one| one.verdict == Verdict::Better).count();
    let copy_gain = copy.iter().filter(|one| one.verdict == Verdict::Better).count();
    let (lead, confidence) = match (calls_gain > copy_gain, copy_gain) {
        (true, _) => ("The gain is in the calls", Confidence::Sure),
        (false, 0) => ("Neither step is shown to gain here", Confidence::CantTell),
        (false, _) => ("The copy is worth something here", Confidence::Sure),
    };
    let text = format!(
        "{lead} ({}): one call for eight, copying the fields first, multiplies throughput at {}; leaving the copy out, with \
         an array of 8 instead, at {}.",
        part.name,
        list(&calls),
        list(&copy)
    );
    Some(answer(confidence, text).with(table))
}

fn two_copies(parts: &[Part<'_>]) -> Option<Answer> {
    let mut table = Table::new(
        "claim-6",
        "Copies of each byte that travels, as far as known",
        &["run", "path", "size", "copies", "which"],
    );
    let mut of_flatten = None;
    for part in parts {
        let echo = part.run.header.plan.workload.is_timed();
        for case in measured(part).filter(|case| case.case.pieces.count > 1 && case.case.threads == 1) {
            let travelled = (case.case.size + if echo { case.case.reply } else { 0 }) as f64;
            let Some(copies) = case.copied_bytes.map(|bytes| bytes / travelled) else { continue };
            if case.case.path.method == "flatten" {
                of_flatten.get_or_insert(copies);
            }
            table.row([
                Cell::text(part.name),
                Cell::text(case.case.path.to_string()),
                Cell::size(case.case.size),
                Cell::Number(copies.into()),
                Cell::text(&case.copied_why),
            ]);
        }
    }
    let flatten = of_flatten?;
    let text = format!(
        "Two-copy with fields that are put together first (flatten) copies each byte {} times from end to end: once by the \
         program, once into the kernel, once out of it.",
        three_digits(flatten)
    );
    let text =
        if flatten > 2.5 { format!("No. {text}") } else { format!("{text} The program's own copy was not seen.") };
    Some(answer(Confidence::Sure, text).with(table))
}

fn lowers_misses(parts: &[Part<'_>]) -> Option<Answer> {
    let with_both = |part: &&Part<'_>| {
        let rows = ladder::rows(**part);
        ["A1", "A3"].iter().all(|name| rows.iter().any(|row| row.method.name == *name))
    };
    let part = parts.iter().find(with_both)?;
    let rows = ladder::rows(*part);
    let mut table = Table::new(
        "claim-18",
        "LLC misses per message, both ends",
        &["end", "size", "threads", "A1", "A3", "the same program twice (A/A)"],
    );
    let (mut fewer, mut cells, mut why) = (0, 0, String::new());
    for row in rows.iter().filter(|row| row.method.name == "A3") {
        let case = &row.case.case;
        let Some(one) = find(&rows, "A1", case.size, case.threads) else { continue };
        for end in End::BOTH {
            match (one.event(end, Event::LastLevel), row.event(end, Event::LastLevel)) {
                (Ok(before), Ok(after)) => {
                    cells += 1;
                    fewer += usize::from(after.high.zip(before.low).is_some_and(|(after, before)| after < before));
                    let twin = part.summary.cases.iter().find(|other| {
                        other.case.role == CaseRole::Control
                            && (other.case.size, other.case.threads) == (case.size, case.threads)
                    });
                    let twin =
                        twin.map(|case| Row { case, ..*one }).and_then(|twin| twin.event(end, Event::LastLevel).ok());
                    table.row([
                        Cell::text(end.name()),
                        Cell::size(case.size),
                        Cell::count(u64::from(case.threads)),
                        Cell::Number((&before).into()),
                        Cell::Number((&after).into()),
                        Cell::or_missing(twin.as_ref(), Cell::Number, "no control of this cell"),
                    ]);
                }
                (Err(reason), _) | (_, Err(reason)) => why = reason,
            }
        }
    }
    if cells == 0 {
        return Some(Answer::cannot("", format!("LLC misses are not counted: {why}")));
    }
    let text = format!(
        "In {fewer} of {cells} rows (both ends, sizes, threads) A3 has fewer LLC misses a message than A1 with intervals that \
         do not touch; both ends run the same binary, and the A/A column says how much it differs from itself."
    );
    Some(answer(if fewer == 0 { Confidence::Likely } else { Confidence::Sure }, text).with(table))
}

fn zero_cycles(parts: &[Part<'_>]) -> Option<Answer> {
    let mut refused = Vec::new();
    let (mut counted, mut zero) = (0, 0);
    for part in parts {
        let header = &part.run.header;
        for (end, facts) in [("near", &header.near_events), ("far", &header.far_events)] {
            for (name, reason) in &facts.refused {
                let said = format!("{name} ({end} end): n/a: {}", reason.why);
                if !refused.contains(&said) {
                    refused.push(said);
                }
            }
        }
        for rate in measured(part).flat_map(|case| case.near_events.iter().chain(&case.far_events)) {
            if let Some(each) = &rate.per_message {
                counted += 1;
                zero += u64::from(each.value == 0.0 && rate.name.contains("cycles"));
            }
        }
    }
    if refused.is_empty() && counted == 0 {
        return None;
    }
    let text = match refused.as_slice() {
        [] => format!("Everything that was asked for was counted: {counted} values, {zero} of them 0 cycles."),
        all => format!(
            "Not counted is not 0: {} events have a reason instead of a number ({}); {counted} values were counted, {zero} of \
             them 0 cycles.",
            all.len(),
            all.iter().take(4).cloned().collect::<Vec<_>>().join("; ")
        ),
    };
    Some(answer(Confidence::Sure, text))
}

fn cache_resident(parts: &[Part<'_>]) -> Option<Answer> {
    let local = |part: &&Part<'_>| is_local(part) && !part.run.header.plan.workload.is_timed();
    let best = |part: &Part<'_>, size: Option<u64>| {
        let fits =
            |case: &&CaseSummary| size.is_none_or(|size| case.case.size == size) && case.case.path.method != "zerocopy";
        let cases = measured(part).filter(|case| case.case.path.transport == "tcp").filter(fits);
        cases
            .filter_map(|case| Some((case.throughput.as_ref()?.receiver_bits.clone(), case.case.size)))
            .max_by(|a, b| a.0.value.total_cmp(&b.0.value))
    };
    let resident = |part: &&Part<'_>| part.run.header.plan.working_set == 0;
    let way = |part: &Part<'_>| ladder::way(&part.run.header);
    let warm = || parts.iter().filter(local).filter(resident);
    let most = |a: &(_, (Estimate, u64)), b: &(_, (Estimate, u64))| a.1.0.value.total_cmp(&b.1.0.value);
    // Where both were tried, over the same way and at the same size; else the most of all.
    let beyond = |part: &Part<'_>, size: u64| {
        let other = parts.iter().filter(local).filter(|other| !resident(other) && way(other) == way(part));
        other.clone().find_map(|other| Some((other, best(other, Some(size))?.0)))
    };
    let both = |part: &'_ &'_ Part<'_>| {
        let sizes: std::collections::BTreeSet<u64> = measured(part).map(|case| case.case.size).collect();
        let tried = sizes.into_iter().filter(|size| beyond(part, *size).is_some());
        tried.filter_map(|size| best(part, Some(size))).max_by(|a, b| a.0.value.total_cmp(&b.0.value))
    };
    let (part, (most, size)) = warm()
        .filter_map(|part| Some((part, both(&part)?)))
        .max_by(most)
        .or_else(|| warm().filter_map(|part| Some((part, best(part, None)?))).max_by(most))?;
    let bits = |bits| units::bits_per_second(bits, BitUnits::Si);
    let mut text = format!(
        "The most that went through here without a wire is {} ({}, {}): the same buffer again and again, from cache to cache.",
        bits(most.value),
        part.name,
        units::size(size)
    );
    if let Some(copy) = part.run.header.floors.as_ref().and_then(|floors| floors.copy_bytes_per_s) {
        text += &format!(" One plain copy of such a buffer runs at {} here.", bits(copy * 8.0));
    }
    let Some((other, cold)) = beyond(part, size) else {
        return Some(answer(
            Confidence::CantTell,
            text + " How much of it is the cache was not tried (--working-set).",
        ));
    };
    let set = other.run.header.plan.working_set;
    let cache = other.run.header.floors.as_ref().and_then(|floors| floors.last_level_cache);
    let fits = cache.is_some_and(|bytes| set <= bytes);
    let cache = cache.map_or_else(String::new, |bytes| {
        format!(", last-level cache {}{}", units::size(bytes), if fits { ", which holds them all" } else { "" })
    });
    let apart = cold.high.zip(most.low).is_some_and(|(cold, most)| cold < most);
    text += &format!(
        " With buffers that rotate over {} ({}{cache}) it is {}, {}.",
        units::size(set),
        other.name,
        bits(cold.value),
        if apart { "less, and the intervals do not touch" } else { "and no difference is shown between the two runs" }
    );
    // The two are runs of their own, one after the other.
    Some(answer(if apart && !fits { Confidence::Likely } else { Confidence::CantTell }, text))
}

fn saves_cycles(parts: &[Part<'_>]) -> Option<Answer> {
    let mut rows: Vec<(String, Versus)> = Vec::new();
    let mut throughput: Vec<(String, Versus)> = Vec::new();
    for part in parts {
        let base =
            ["sendmsg", "send"].into_iter().find(|base| measured(part).any(|case| case.case.path.method == *base));
        let Some(base) = base else { continue };
        let name = format!("{} (zerocopy by {base})", part.name);
        rows.extend(Bench::new(*part, Metric::Cpu).versus("zerocopy", base).into_iter().map(|one| (name.clone(), one)));
        let rates = Bench::new(*part, Metric::Throughput).versus("zerocopy", base);
        throughput.extend(rates.into_iter().map(|one| (name.clone(), one)));
    }
    if rows.is_empty() {
        return None;
    }
    let counted =
        parts.iter().flat_map(|part| ladder::rows(*part)).find_map(|row| row.cycles_per_byte(End::Near).err());
    let heads = ["run", "size", "threads", "CPU a byte, ratio", "throughput, ratio"];
    let mut table =
        Table::new("claim-21", "Zero copy by the same send without it: CPU time of both ends a byte", &heads);
    for (name, one) in &rows {
        let rate =
            throughput.iter().find(|(of, rate)| of == name && (rate.size, rate.threads) == (one.size, one.threads));
        table.row([
            Cell::text(name),
            Cell::size(one.size),
            Cell::count(u64::from(one.threads)),
            Cell::Ratio(one.value()),
            Cell::or_missing(rate.map(|(_, rate)| rate.value()), Cell::Ratio, "no rate"),
        ]);
    }
    let of = |verdict| rows.iter().filter(|(_, one)| one.verdict == verdict).collect::<Vec<_>>();
    let (less, more) = (of(Verdict::Better), of(Verdict::Worse));
    let least = less.iter().min_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
    let least = least.map_or_else(String::new, |(name, one)| format!(", at least {} in {name}", one.words()));
    let unit = match counted {
        Some(why) => format!("CPU time stands for cycles, which are not counted ({why})"),
        None => "CPU time; cycles a byte are in the tables".to_owned(),
    };
    let text = format!(
        "Per byte, the only fair measure where throughputs differ, zero copy takes less CPU of both ends in {} of {} rows{}, \
         more in {}, and no difference is shown in the rest. {unit}.",
        less.len(),
        rows.len(),
        least,
        more.len()
    );
    let confidence = if less.is_empty() && more.is_empty() { Confidence::CantTell } else { Confidence::Sure };
    Some(answer(confidence, text).with(table))
}

#[cfg(test)]
mod tests {
    use msgpath_core::Unavailable;
    use msgpath_core::schema::DeviceKind;
    use msgpath_core::units::Pieces;
    use msgpath_record::Run;

    use super::*;
    use crate::testing::{Build, route};
    use crate::{Logs, summarise};

    const PATHS: [&str; 5] = ["tcp:flatten", "tcp:sendmsg", "tcp:zerocopy", "tcp:zerocopy-unset", "tcp:writes"];

    /// A stream on this machine; `writes` is so many times slower, `sendmsg` so many times faster than flatten.
    fn stream(writes: f64, sendmsg: f64, copied: bool) -> Run {
        let rate = move |at: usize, pass: u32| {
            let noise = 1.0 + 0.002 * f64::from((pass * 5 + at as u32) % 7);
            1e9 * noise * [1.0, sendmsg, 0.7, 1.0, 1.0 / writes][at / 2]
        };
        let mut run = Build::stream(&PATHS, &[64, 65_536]).rates(rate).run();
        route(&mut run, DeviceKind::Veth, "veth0", "10.0.0.2");
        run.header.plan.cases.iter_mut().for_each(|case| case.pieces = Pieces { count: 8, size: case.size as u32 / 8 });
        for round in &mut run.rounds {
            let sent = round.near.delivery.sent;
            let case = &run.header.plan.cases[round.case as usize];
            round.near.system_ns = sent * 1_000;
            round.near.zerocopy = match (case.path.method.as_str(), copied) {
                ("zerocopy", true) => {
                    ZeroCopyCounts { asked: sent, copied: sent, notifications: 4, ..Default::default() }
                }
                ("zerocopy", false) => {
                    ZeroCopyCounts { asked: sent, zero_copied: sent, notifications: 4, ..Default::default() }
                }
                ("zerocopy-unset", _) => ZeroCopyCounts { asked: sent, unanswered: sent, ..Default::default() },
                _ => ZeroCopyCounts::default(),
            };
            if case.path.method == "flatten" {
                round.near.calls.copied_bytes = sent * case.size;
            }
        }
        run
    }

    fn said(runs: &[Run]) -> Vec<(u8, Answer)> {
        let summaries: Vec<_> = runs.iter().map(summarise).collect();
        let logs = Logs::default();
        let part = |(run, summary)| Part { name: "stream", run, summary, logs: &logs };
        let parts: Vec<Part<'_>> = runs.iter().zip(&summaries).map(part).collect();
        let settle = |claim: &Claim| Some((claim.number, (claim.settle)(&parts)?));
        CLAIMS.iter().filter_map(settle).collect()
    }

    fn text(said: &[(u8, Answer)], number: u8) -> &str {
        said.iter().find(|(of, _)| *of == number).map_or("", |(_, answer)| answer.text.as_str())
    }

    #[test]
    fn runs_that_touch_nothing_settle_nothing() {
        assert!(said(&[]).is_empty());
        assert!(said(&[Build::echo(&["unix:send", "pipe:write"], &[64]).run()]).is_empty());
    }

    #[test]
    fn copied_zero_copy_is_called_so_and_the_rest_is_not() {
        let copied = said(&[stream(5.0, 1.0, true)]);
        assert!(text(&copied, 1).starts_with("No: the kernel copied"), "{}", text(&copied, 1));
        assert!(
            text(&copied, 2).starts_with("No: 16") && text(&copied, 2).contains("0 completions"),
            "{}",
            text(&copied, 2)
        );
        assert!(text(&copied, 3).starts_with("No: 320 notifications"), "{}", text(&copied, 3));
        assert!(text(&copied, 4).starts_with("Not answerable here"), "{}", text(&copied, 4));
        assert!(text(&copied, 6).starts_with("No.") && text(&copied, 6).contains("3.00 times"), "{}", text(&copied, 6));
        assert!(copied.iter().all(|(_, answer)| !answer.question.is_empty()));
        let avoided = said(&[stream(5.0, 1.0, false)]);
        assert!(text(&avoided, 1).starts_with("Not in general"), "{}", text(&avoided, 1));
        assert_eq!(text(&avoided, 4), "");
    }

    #[test]
    fn the_gain_is_where_it_is() {
        let calls = said(&[stream(5.0, 1.0, true)]);
        assert!(text(&calls, 5).starts_with("The gain is in the calls"), "{}", text(&calls, 5));
        let copy = said(&[stream(1.0, 1.4, true)]);
        assert!(text(&copy, 5).starts_with("The copy is worth something here"), "{}", text(&copy, 5));
        let neither = said(&[stream(1.0, 1.0, true)]);
        assert!(text(&neither, 5).starts_with("Neither step"), "{}", text(&neither, 5));
        // CPU time a byte is the same for all of them.
        let cycles = neither.iter().find(|(number, _)| *number == 21).unwrap();
        assert!(cycles.1.text.contains("less CPU of both ends in 0 of 2 rows"), "{}", cycles.1.text);
    }

    #[test]
    fn what_was_not_counted_has_its_reason() {
        let mut run = stream(5.0, 1.0, true);
        assert_eq!(text(&said(std::slice::from_ref(&run)), 19), "");
        run.header.near_events.refused = vec![("cycles".into(), Unavailable::new("no PMU driver", ""))];
        let said = said(&[run]);
        assert!(text(&said, 19).contains("cycles (near end): n/a: no PMU driver"), "{}", text(&said, 19));
        assert!(text(&said, 18).contains("LLC misses are not counted"), "{}", text(&said, 18));
    }

    #[test]
    fn a_working_set_beyond_the_cache_is_set_beside() {
        let alone = said(&[stream(5.0, 1.0, true)]);
        assert!(text(&alone, 20).contains("was not tried"), "{}", text(&alone, 20));
        let mut cold = stream(5.0, 1.0, true);
        cold.header.plan.working_set = 256 << 20;
        cold.rounds.iter_mut().for_each(|round| round.far.elapsed_ns *= 2);
        let both = said(&[stream(5.0, 1.0, true), cold]);
        assert!(text(&both, 20).contains("256 MiB") && text(&both, 20).contains("do not touch"), "{}", text(&both, 20));
        // Another way is another comparison.
        let mut elsewhere = stream(5.0, 1.0, true);
        elsewhere.header.plan.working_set = 256 << 20;
        let is_veth = ladder::way(&elsewhere.header) == Some("veth");
        let other = if is_veth { DeviceKind::Loopback } else { DeviceKind::Veth };
        crate::testing::route(&mut elsewhere, other, "mp0", "10.0.0.2");
        let both = said(&[stream(5.0, 1.0, true), elsewhere]);
        assert!(text(&both, 20).contains("was not tried"), "{}", text(&both, 20));
        let mut same = stream(5.0, 1.0, true);
        same.header.plan.working_set = 256 << 20;
        let both = said(&[stream(5.0, 1.0, true), same]);
        assert!(text(&both, 20).contains("no difference is shown"), "{}", text(&both, 20));
    }
}
