//! Claims about copies, zero copy and caches.

use msgpath_core::schema::{FAR, NEAR};
use std::collections::BTreeSet;

use msgpath_analyse::summary::{CaseSummary, Confidence};
use msgpath_core::ZeroCopyCounts;
use msgpath_core::plan::{CaseRole, Metric};
use msgpath_core::units::{size, three_digits};
use msgpath_stats::estimate::Estimate;
use msgpath_stats::verdict::Verdict;

use super::Claim;
use crate::answers::answered::{say, sure, sure_if, sure_or_not, unsure};
use crate::answers::cell::Value;
use crate::answers::columns::{number_or, ratio_or, share_or, table};
use crate::answers::evidence::extremes;
use crate::answers::ladder::{self, Bench, End, Event, Row, Versus, find};
use crate::answers::pages::zerocopy_truth::zero_copy;
use crate::answers::words::bits;
use crate::answers::{Answer, Cell, Part};

pub(super) const CLAIMS: &[Claim] = &[
    (1, "MSG_ZEROCOPY on lo or veth avoids the copy", avoids_the_copy),
    (2, "the flag MSG_ZEROCOPY is enough", flag_is_enough),
    (3, "one notification for each send; reading them is optional", one_notification),
    (4, "zero copy pays from X KB on", crossover_at),
    (5, "iovec saves a copy, so A2 is N times faster", iovec_saves),
    (6, "two-copy has exactly two copies", two_copies),
    (18, "A3 lowers LLC misses (perf on the client)", lowers_misses),
    (19, "0 cycles, 0 misses", zero_cycles),
    (20, "365 Gb/s of network throughput", cache_resident),
    (21, "zero copy saves 95 % of the cycles", saves_cycles),
];

fn is_local(part: &Part<'_>) -> bool {
    matches!(ladder::manner(&part.run.header), Some("lo" | "veth"))
}

/// What the kernel said of all zero-copy sends of these runs.
fn sum<'a>(parts: impl Iterator<Item = &'a Part<'a>>, method: &'static str) -> ZeroCopyCounts {
    let mut sum = ZeroCopyCounts::default();
    parts.flat_map(|part| zero_copy(part, method)).for_each(|(_, counts)| sum.add(&counts));
    sum
}

fn avoids_the_copy(parts: &[Part<'_>]) -> Option<Answer> {
    let local = || parts.iter().filter(|part| is_local(part));
    let ZeroCopyCounts { copied, zero_copied, .. } = sum(local(), "zerocopy");
    let answered = copied + zero_copied;
    if answered == 0 {
        return None;
    }
    let output = format!("{} of {} answered sends", copied, answered);
    let share = three_digits(copied as f64 / answered as f64 * 100.0);
    let share = format!("{} %", share.trim_end_matches(".0"));
    let text = match zero_copied {
        0 => format!("No: the kernel copied {output} after all ({share}), at every size; no device is in the path."),
        some => format!("Not in general: the kernel copied {output} after all ({share}); {} were not copied.", some),
    };
    let rows = local().flat_map(|part| zero_copy(part, "zerocopy").map(move |(case, counts)| (part, case, counts)));
    let share = |counts: &ZeroCopyCounts| {
        let own = counts.copied + counts.zero_copied;
        (own > 0).then(|| counts.copied as f64 / own as f64)
    };
    let evidence = table("claim-1", "Zero-copy sends on paths that stay on this machine", rows)
        .col("run", |(part, ..)| part.name)
        .col("way", |(part, ..)| ladder::manner(&part.run.header).unwrap_or_default())
        .col("path", |(_, case, _)| case.case.path.to_string())
        .col("size", |(_, case, _)| Cell::size(case.case.size))
        .col("sends", |(.., counts)| Cell::count(counts.asked))
        .col("copied after all", |(.., counts)| share_or(share(counts), "no send was answered"));
    Some(sure(text).with(evidence))
}

fn flag_is_enough(parts: &[Part<'_>]) -> Option<Answer> {
    let ZeroCopyCounts { asked, copied, zero_copied, .. } = sum(parts.iter(), "zerocopy-unset");
    let (sends, completions) = (asked.to_string(), copied + zero_copied);
    let text = match completions {
        0 => format!("No: {sends} sends had the flag without SO_ZEROCOPY, and 0 completions came: it is ignored."),
        some => format!("{} completions came for {sends} sends with the flag alone.", some),
    };
    (asked > 0).then(|| sure(text))
}

fn one_notification(parts: &[Part<'_>]) -> Option<Answer> {
    let sum = sum(parts.iter(), "zerocopy");
    let answered = sum.copied + sum.zero_copied;
    let each = answered as f64 / sum.notifications as f64;
    let lead = if each > 1.05 { "No" } else { "Here nearly so" };
    let text = format!(
        "{lead}: {} notifications answered {} sends, {} each; {} sends had no answer when their round ended. Until its answer \
         a buffer is the kernel's: here buffers rotate and none is used before. What happens to bytes that are overwritten \
         early was not tried.",
        sum.notifications,
        answered,
        three_digits(each),
        sum.unanswered
    );
    (sum.notifications > 0).then(|| sure(text))
}

fn crossover_at(parts: &[Part<'_>]) -> Option<Answer> {
    let mut output = Vec::new();
    let mut crossings = false;
    for part in parts.iter().filter(|part| is_local(part)) {
        let sum = sum(std::iter::once(part), "zerocopy");
        let copied = sum.copied > 0 && sum.zero_copied == 0;
        let Some(comparison) = part.summary.comparison.as_ref().filter(|_| copied) else { continue };
        for one in comparison.crossovers.iter().filter(|one| one.path.method == "zerocopy") {
            let (crosses, words) = ladder::crossing_words(&one.crossing);
            crossings |= crosses;
            let threads = if one.threads > 1 { format!(", {} threads", one.threads) } else { String::new() };
            let (name, path, baseline) = (part.name, &one.path, &comparison.baseline);
            output.push(format!("{name}{threads}: {path} against {baseline} {words}"));
        }
    }
    let lead = if crossings { "A crossing is seen, and it is no copy avoided" } else { "No crossing is shown" };
    let text = format!(
        "Not answerable here, because all was copied after all. {lead}. By the metric of each run: {}.",
        output.join("; ")
    );
    (!output.is_empty()).then(|| say(sure_or_not(crossings), text))
}

/// Ratios of one step with the fewest threads.
fn step(part: Part<'_>, to: &str, from: &str) -> Vec<Versus> {
    let all = Bench::new(part, Metric::Throughput).versus(to, from);
    let fewest = all.iter().map(|one| one.threads).min();
    all.into_iter().filter(|one| Some(one.threads) == fewest).collect()
}

fn iovec_saves(parts: &[Part<'_>]) -> Option<Answer> {
    let of = |part: &&Part<'_>| {
        let has = |method: &&str| part.find(|one| one.case.path.method == **method && one.case.pieces.count > 1);
        ["writes", "flatten", "sendmsg"].iter().all(|method| has(method).is_some())
    };
    // A stream shows it best; an echo waits most of its time.
    let stream = |part: &&Part<'_>| !part.workload().is_timed();
    let part = parts.iter().filter(of).find(stream).or_else(|| parts.iter().find(of))?;
    let (calls, copy) = (step(*part, "flatten", "writes"), step(*part, "sendmsg", "flatten"));
    let both = step(*part, "sendmsg", "writes");
    let list = |all: &[Versus]| all.iter().map(Versus::words).collect::<Vec<_>>().join(", ");
    let gain = |all: &[Versus]| all.iter().filter(|one| one.verdict == Verdict::Better).count();
    let (lead, confidence) = match (gain(&calls) > gain(&copy), gain(&copy)) {
        (true, _) => ("The gain is in the calls", Confidence::Sure),
        (false, 0) => ("Neither step is shown to gain here", Confidence::CantTell),
        (false, _) => ("The copy is worth something here", Confidence::Sure),
    };
    let text = format!(
        "{lead} ({}): one call for eight, copying the fields first, multiplies throughput at {}; leaving the copy out, with an \
         array of 8 instead, at {}.",
        part.name,
        list(&calls),
        list(&copy)
    );
    let cell = |all: &[Versus], size: u64| {
        ratio_or(all.iter().find(|one| one.size == size).map(Versus::value), "not compared")
    };
    let evidence = table("claim-5", "Throughput after each step by throughput before it", &calls)
        .col("size", |one| Cell::size(one.size))
        .col("8 calls -> 1, with the copy", |one| cell(&calls, one.size))
        .col("the copy away, iovec instead", |one| cell(&copy, one.size))
        .col("both: A2 by 8 calls", |one| cell(&both, one.size));
    Some(say(confidence, text).with(evidence))
}

fn two_copies(parts: &[Part<'_>]) -> Option<Answer> {
    let in_pieces = |part: &&CaseSummary| part.case.pieces.count > 1 && part.case.threads == 1;
    let cases = parts.iter().flat_map(|part| part.measured().filter(in_pieces).map(move |case| (part, case)));
    let rows: Vec<_> = cases.filter_map(|(part, case)| Some((part.name, case, ladder::copies(part, case)?))).collect();
    let (.., flatten) = rows.iter().find(|(_, case, _)| case.case.path.method == "flatten")?;
    let text = format!(
        "Two-copy with fields that are put together first (flatten) copies each byte {} times from end to end: once by the \
         program, once into the kernel, once out of it.",
        three_digits(*flatten)
    );
    let text =
        if *flatten > 2.5 { format!("No. {text}") } else { format!("{text} The program's own copy was not seen.") };
    let evidence = table("claim-6", "Copies of each byte that travels, as far as known", &rows)
        .col("run", |(run, ..)| *run)
        .col("path", |(_, case, _)| case.case.path.to_string())
        .col("size", |(_, case, _)| Cell::size(case.case.size))
        .col("copies", |(.., copies)| Cell::Number((*copies).into()))
        .col("which", |(_, case, _)| &case.copied_why);
    Some(sure(text).with(evidence))
}

fn lowers_misses(parts: &[Part<'_>]) -> Option<Answer> {
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
        return Some(Answer::cannot("", format!("LLC misses are not counted: {why}")));
    }
    let less =
        |after: &Estimate, before: &Estimate| after.high.zip(before.low).is_some_and(|(after, before)| after < before);
    let fewer = cells.iter().filter(|(_, _, before, after, _)| less(after, before)).count();
    let text = format!(
        "In {fewer} of {} rows (both ends, sizes, threads) A3 has fewer LLC misses a message than A1 with intervals that do \
         not touch; both ends run the same binary, and the A/A column says how much it differs from itself.",
        cells.len()
    );
    let evidence = table("claim-18", "LLC misses per message, both ends", cells)
        .col("end", |(end, ..)| end.name())
        .col("size", |(_, case, ..)| Cell::size(case.size))
        .col("threads", |(_, case, ..)| Cell::count(u64::from(case.threads)))
        .col("A1", |(_, _, before, ..)| Cell::Number(before.into()))
        .col("A3", |(_, _, _, after, _)| Cell::Number(after.into()))
        .col("the same program twice (A/A)", |(.., replica)| number_or(replica.as_ref(), "no control of this cell"));
    Some(say(sure_if(fewer > 0), text).with(evidence))
}

fn zero_cycles(parts: &[Part<'_>]) -> Option<Answer> {
    let mut refused = Vec::new();
    for part in parts {
        let header = &part.run.header;
        for (end, facts) in [("near", &header.end(NEAR).events), ("far", &header.end(FAR).events)] {
            for (name, reason) in &facts.refused {
                let output = format!("{name} ({end} end): n/a: {}", reason.why);
                if !refused.contains(&output) {
                    refused.push(output);
                }
            }
        }
    }
    let cases = parts.iter().flat_map(|part| part.measured());
    let rates = cases.flat_map(|case| case.end(NEAR).events.iter().chain(&case.end(FAR).events));
    let values: Vec<_> = rates.filter_map(|rate| Some((&rate.name, rate.per_message.as_ref()?.value))).collect();
    let counted = values.len();
    let zero = values.iter().filter(|(name, each)| *each == 0.0 && name.contains("cycles")).count();
    if refused.is_empty() && counted == 0 {
        return None;
    }
    Some(sure(match refused.as_slice() {
        [] => format!("Everything that was asked for was counted: {counted} values, {zero} of them 0 cycles."),
        all => format!(
            "Not counted is not 0: {} events have a reason instead of a number ({}); {counted} values were counted, {zero} of \
             them 0 cycles.",
            all.len(),
            all.iter().take(4).cloned().collect::<Vec<_>>().join("; ")
        ),
    }))
}

/// The most that a case of TCP carried, and its size; of all sizes, or of one.
fn most(part: &Part<'_>, bytes: Option<u64>) -> Option<(Estimate, u64)> {
    let fits = |case: &&CaseSummary| {
        let path = &case.case.path;
        path.transport == "tcp" && path.method != "zerocopy" && bytes.is_none_or(|bytes| case.case.size == bytes)
    };
    let rates = part.measured().filter(fits);
    let rates = rates.filter_map(|case| Some((case.throughput.as_ref()?.receiver_bits.clone(), case.case.size)));
    rates.max_by(|a, b| a.0.value.total_cmp(&b.0.value))
}

fn cache_resident(parts: &[Part<'_>]) -> Option<Answer> {
    let resident = |part: &Part<'_>| part.run.header.plan.working_set == 0;
    let manner = |part: &Part<'_>| ladder::manner(&part.run.header);
    let local = || parts.iter().filter(|part| is_local(part) && !part.workload().is_timed());
    let warm = || local().filter(|part| resident(part));
    // Where both were tried, over the same way and at the same size; else the most of all.
    let beyond = |part: &Part<'_>, size: u64| {
        let mut other = local().filter(|other| !resident(other) && manner(other) == manner(part));
        other.find_map(|other| Some((other, most(other, Some(size))?.0)))
    };
    let both = |part: &Part<'_>| {
        let sizes: BTreeSet<u64> = part.measured().map(|case| case.case.size).collect();
        let tried = sizes.into_iter().filter(|size| beyond(part, *size).is_some());
        tried.filter_map(|size| most(part, Some(size))).max_by(|a, b| a.0.value.total_cmp(&b.0.value))
    };
    let order = |a: &(_, (Estimate, u64)), b: &(_, (Estimate, u64))| a.1.0.value.total_cmp(&b.1.0.value);
    let (part, (warmest, bytes)) = warm()
        .filter_map(|part| Some((part, both(part)?)))
        .max_by(order)
        .or_else(|| warm().filter_map(|part| Some((part, most(part, None)?))).max_by(order))?;
    let mut text = format!(
        "The most that went through here without a wire is {} ({}, {}): the same buffer again and again, from cache to cache.",
        bits(warmest.value),
        part.name,
        size(bytes)
    );
    if let Some(copy) = part.run.header.floors.as_ref().and_then(|floors| floors.copy_bytes_per_s) {
        text += &format!(" One plain copy of such a buffer runs at {} here.", bits(copy * 8.0));
    }
    let Some((other, cold)) = beyond(part, bytes) else {
        return Some(unsure(text + " How much of it is the cache was not tried (--working-set)."));
    };
    let set = other.run.header.plan.working_set;
    let cache = other.run.header.floors.as_ref().and_then(|floors| floors.last_level_cache);
    let fits = cache.is_some_and(|bytes| set <= bytes);
    let cache = cache.map_or_else(String::new, |bytes| {
        format!(", last-level cache {}{}", size(bytes), if fits { ", which holds them all" } else { "" })
    });
    let apart = cold.high.zip(warmest.low).is_some_and(|(cold, most)| cold < most);
    text += &format!(
        " With buffers that rotate over {} ({}{cache}) it is {}, {}.",
        size(set),
        other.name,
        bits(cold.value),
        if apart { "less, and the intervals do not touch" } else { "and no difference is shown between the two runs" }
    );
    // The two are runs of their own, one after the other.
    Some(say(if apart && !fits { Confidence::Likely } else { Confidence::CantTell }, text))
}

fn saves_cycles(parts: &[Part<'_>]) -> Option<Answer> {
    let mut rows: Vec<(String, Versus, Option<Value>)> = Vec::new();
    for part in parts {
        let has = |base: &&str| part.find(|case| case.case.path.method == **base).is_some();
        let Some(base) = ["sendmsg", "send"].into_iter().find(has) else { continue };
        let name = format!("{} (zerocopy by {base})", part.name);
        let rates = Bench::new(*part, Metric::Throughput).versus("zerocopy", base);
        for one in Bench::new(*part, Metric::Cpu).versus("zerocopy", base) {
            let rate = rates.iter().find(|rate| (rate.size, rate.threads) == (one.size, one.threads));
            rows.push((name.clone(), one, rate.map(Versus::value)));
        }
    }
    if rows.is_empty() {
        return None;
    }
    let not_counted =
        parts.iter().flat_map(|part| ladder::rows(*part)).find_map(|row| row.cycles_per_byte(End::Near).err());
    let unit = match not_counted {
        Some(why) => format!("CPU time stands for cycles, which are not counted ({why})"),
        None => "CPU time; cycles a byte are in the tables".to_owned(),
    };
    let of = |verdict| rows.iter().filter(|(_, one, _)| one.verdict == verdict).collect::<Vec<_>>();
    let (less, more) = (of(Verdict::Better), of(Verdict::Worse).len());
    let least = extremes(&less, |(_, one, _)| one.ratio);
    let least = least.map_or_else(String::new, |((name, one, _), _)| format!(", at least {} in {name}", one.words()));
    let (some, all) = (less.len(), rows.len());
    let text = format!(
        "Per byte, the only fair measure where throughputs differ, zero copy takes less CPU of both ends in {some} of {all} \
         rows{least}, more in {more}, and no difference is shown in the rest. {unit}."
    );
    let title = "Zero copy by the same send without it: CPU time of both ends a byte";
    let evidence = table("claim-21", title, &rows)
        .col("run", |(name, ..)| name)
        .col("size", |(_, one, _)| Cell::size(one.size))
        .col("threads", |(_, one, _)| Cell::count(u64::from(one.threads)))
        .col("CPU a byte, ratio", |(_, one, _)| Cell::Ratio(one.value()))
        .col("throughput, ratio", |(.., rate)| ratio_or(*rate, "no rate"));
    Some(say(sure_or_not(some + more > 0), text).with(evidence))
}

#[cfg(test)]
mod tests {
    use msgpath_core::Unavailable;
    use msgpath_core::schema::{DeviceKind, NEAR};
    use msgpath_core::units::Pieces;
    use msgpath_record::Run;

    use super::*;
    use msgpath_analyse::testing::{Build, route};
    use msgpath_analyse::{Logs, summarise};

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
            let sent = round.near().delivery.sent;
            let case = &run.header.plan.cases[round.case as usize];
            round.near_mut().system_ns = sent * 1_000;
            round.near_mut().zerocopy = match (case.path.method.as_str(), copied) {
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
                round.near_mut().calls.copied_bytes = sent * case.size;
            }
        }
        run
    }

    fn output(runs: &[Run]) -> Vec<(u8, Answer)> {
        let summaries: Vec<_> = runs.iter().map(summarise).collect();
        let logs = Logs::default();
        let part = |(run, summary)| Part { name: "stream", run, summary, logs: &logs };
        let parts: Vec<Part<'_>> = runs.iter().zip(&summaries).map(part).collect();
        let own = |number: u8| CLAIMS.iter().any(|claim| claim.0 == number);
        let settled = crate::answers::claims::settled(&parts).into_iter();
        settled.filter(|settled| own(settled.number)).map(|settled| (settled.number, settled.answer)).collect()
    }

    fn text(output: &[(u8, Answer)], number: u8) -> &str {
        output.iter().find(|(of, _)| *of == number).map_or("", |(_, answer)| answer.text.as_str())
    }

    #[test]
    fn runs_that_touch_nothing_settle_nothing() {
        assert!(output(&[]).is_empty());
        assert!(output(&[Build::echo(&["unix:send", "pipe:write"], &[64]).run()]).is_empty());
    }

    #[test]
    fn copied_zero_copy_is_called_so_and_the_rest_is_not() {
        let copied = output(&[stream(5.0, 1.0, true)]);
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
        let avoided = output(&[stream(5.0, 1.0, false)]);
        assert!(text(&avoided, 1).starts_with("Not in general"), "{}", text(&avoided, 1));
        assert_eq!(text(&avoided, 4), "");
    }

    #[test]
    fn the_gain_is_where_it_is() {
        let calls = output(&[stream(5.0, 1.0, true)]);
        assert!(text(&calls, 5).starts_with("The gain is in the calls"), "{}", text(&calls, 5));
        let copy = output(&[stream(1.0, 1.4, true)]);
        assert!(text(&copy, 5).starts_with("The copy is worth something here"), "{}", text(&copy, 5));
        let neither = output(&[stream(1.0, 1.0, true)]);
        assert!(text(&neither, 5).starts_with("Neither step"), "{}", text(&neither, 5));
        // CPU time a byte is the same for all of them.
        let cycles = neither.iter().find(|(number, _)| *number == 21).unwrap();
        assert!(cycles.1.text.contains("less CPU of both ends in 0 of 2 rows"), "{}", cycles.1.text);
    }

    #[test]
    fn what_was_not_counted_has_its_reason() {
        let mut run = stream(5.0, 1.0, true);
        assert_eq!(text(&output(std::slice::from_ref(&run)), 19), "");
        run.header.ends[NEAR].events.refused = vec![("cycles".into(), Unavailable::new("no PMU driver", ""))];
        let output = output(&[run]);
        assert!(text(&output, 19).contains("cycles (near end): n/a: no PMU driver"), "{}", text(&output, 19));
        assert!(text(&output, 18).contains("LLC misses are not counted"), "{}", text(&output, 18));
    }

    #[test]
    fn a_working_set_beyond_the_cache_is_set_beside() {
        let alone = output(&[stream(5.0, 1.0, true)]);
        assert!(text(&alone, 20).contains("was not tried"), "{}", text(&alone, 20));
        let mut cold = stream(5.0, 1.0, true);
        cold.header.plan.working_set = 256 << 20;
        cold.rounds.iter_mut().for_each(|round| round.far_mut().elapsed_ns *= 2);
        let both = output(&[stream(5.0, 1.0, true), cold]);
        assert!(text(&both, 20).contains("256 MiB") && text(&both, 20).contains("do not touch"), "{}", text(&both, 20));
        // Another way is another comparison.
        let mut elsewhere = stream(5.0, 1.0, true);
        elsewhere.header.plan.working_set = 256 << 20;
        let is_veth = ladder::manner(&elsewhere.header) == Some("veth");
        let other = if is_veth { DeviceKind::Loopback } else { DeviceKind::Veth };
        msgpath_analyse::testing::route(&mut elsewhere, other, "mp0", "10.0.0.2");
        let both = output(&[stream(5.0, 1.0, true), elsewhere]);
        assert!(text(&both, 20).contains("was not tried"), "{}", text(&both, 20));
        let mut same = stream(5.0, 1.0, true);
        same.header.plan.working_set = 256 << 20;
        let both = output(&[stream(5.0, 1.0, true), same]);
        assert!(text(&both, 20).contains("no difference is shown"), "{}", text(&both, 20));
    }
}
