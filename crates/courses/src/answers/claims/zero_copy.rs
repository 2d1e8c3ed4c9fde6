//! Claims about zero copy.

use msgpath_analyse::series::per_second;
use msgpath_core::ZeroCopyCounts;
use msgpath_core::plan::Metric;
use msgpath_core::units::{size, three_digits};
use msgpath_stats::crossover::CrossoverKind;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::verdict::Verdict;

use super::Claim;
use super::measured::{Measured, echoes, switches};
use super::ruling::{Ruling, fails, holds, open};
use crate::answers::cell::Value;
use crate::answers::columns::{number_or, ratio_or, share_or, table};
use crate::answers::evidence::{above, below, extremes, over};
use crate::answers::ladder::{self, Bench, End, Versus};
use crate::answers::pages::zerocopy_truth::zero_copy;
use crate::answers::words::{percent, ratio_with};
use crate::answers::{Cell, Part};

pub(super) const CLAIMS: &[Claim] = &[
    (1, "MSG_ZEROCOPY on lo or veth avoids the copy", avoids_the_copy),
    (2, "The flag MSG_ZEROCOPY is enough", flag_is_enough),
    (3, "One notification for each send, and reading them is optional", one_notification),
    (4, "Zero copy pays from X KB on", crossover_at),
    (15, "Zero copy costs hundreds of times the context switches", costs_switches),
    (21, "Zero copy saves 95 % of the cycles", saves_cycles),
];

/// What claim 15 says at the least.
const HUNDREDS: f64 = 100.0;
/// What claim 21 leaves of the cycles.
const LEFT: f64 = 0.05;

fn is_local(part: &Part<'_>) -> bool {
    matches!(ladder::manner(&part.run.header), Some("lo" | "veth"))
}

/// What the kernel said of all zero-copy sends of these runs.
fn sum<'a>(parts: impl Iterator<Item = &'a Part<'a>>, method: &'static str) -> ZeroCopyCounts {
    let mut sum = ZeroCopyCounts::default();
    parts.flat_map(|part| zero_copy(part, method)).for_each(|(_, counts)| sum.add(&counts));
    sum
}

fn avoids_the_copy(parts: &[Part<'_>]) -> Option<Ruling> {
    let local = || parts.iter().filter(|part| is_local(part));
    let ZeroCopyCounts { asked, copied, zero_copied, .. } = sum(local(), "zerocopy");
    let answered = copied + zero_copied;
    let copies = format!("the kernel copied {} of {} answered sends after all", copied, answered);
    let ruling = match (copied, zero_copied) {
        _ if asked == 0 => return None,
        (0, 0) => open(format!("none of {} sends was answered before its round ended", asked)),
        (_, 0) => fails(format!("{copies} (100 %), at every size; no hardware is in the path")),
        (0, _) => holds(format!("{copies}: all of them were sent from the program's own memory")),
        _ => fails(format!("{copies} ({}); {} were not copied", percent(copied as f64 / answered as f64), zero_copied)),
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
    Some(ruling.with(evidence))
}

fn flag_is_enough(parts: &[Part<'_>]) -> Option<Ruling> {
    let ZeroCopyCounts { asked, copied, zero_copied, .. } = sum(parts.iter(), "zerocopy-unset");
    let completions = copied + zero_copied;
    let sends = format!("{} sends had the flag without SO_ZEROCOPY", asked);
    match completions {
        _ if asked == 0 => None,
        0 => Some(fails(format!("{sends}, and no completion came: the kernel ignored it"))),
        all if all == asked => Some(holds(format!("{sends}, and each was answered by a completion"))),
        some => Some(open(format!("{sends}, and {} of them were answered by a completion", some))),
    }
}

fn one_notification(parts: &[Part<'_>]) -> Option<Ruling> {
    let sum = sum(parts.iter(), "zerocopy");
    if sum.asked == 0 {
        return None;
    }
    if sum.notifications == 0 {
        return Some(open(format!("{} sends asked for zero copy, and no notification came", sum.asked)));
    }
    let answered = sum.copied + sum.zero_copied;
    let each = answered as f64 / sum.notifications as f64;
    let refused = match sum.no_buffers {
        0 => String::new(),
        some => format!("; {} sends were refused until notifications were read (ENOBUFS)", some),
    };
    let text = format!(
        "{} notifications answered {} sends, {} each; {} sends had no answer when their round ended{refused}. Until its answer \
         a buffer is the kernel's: here buffers rotate and none is used before. What happens to bytes that are overwritten \
         early was not tried",
        sum.notifications,
        answered,
        three_digits(each),
        sum.unanswered
    );
    let so = each <= 1.05 && sum.no_buffers == 0;
    Some(if so { holds(text) } else { fails(text) })
}

/// Where zero copy becomes faster than the run's baseline, and whether a copy that was avoided can be why.
fn crossover_at(parts: &[Part<'_>]) -> Option<Ruling> {
    let (mut words, mut kinds, mut all) = (Vec::new(), Vec::new(), ZeroCopyCounts::default());
    for part in parts {
        let Some(comparison) = part.summary.comparison.as_ref() else { continue };
        let own = comparison.crossovers.iter().filter(|one| one.path.method == "zerocopy");
        let before = kinds.len();
        for one in own {
            let (_, what) = ladder::crossing_words(&one.crossing);
            let threads = if one.threads > 1 { format!(", {} threads", one.threads) } else { String::new() };
            words.push(format!("{}{threads}: {} against {} {what}", part.name, one.path, comparison.baseline));
            kinds.push(one.crossing.kind);
        }
        if kinds.len() > before {
            all.add(&sum(std::iter::once(part), "zerocopy"));
        }
    }
    if kinds.is_empty() {
        return None;
    }
    let copied = match (all.copied, all.zero_copied) {
        (0, 0) => "What the kernel did with the sends is not known".to_owned(),
        (some, 0) => {
            format!("All {} answered sends were copied after all, so nothing of this is a copy that was avoided", some)
        }
        (some, not) => format!("{} answered sends were copied after all, {} were not", some, not),
    };
    let text = format!("By the metric of each run: {}. {copied}", words.join("; "));
    let pays = |kind: &CrossoverKind| matches!(kind, CrossoverKind::At | CrossoverKind::AlwaysFaster);
    let open_still = |kind: &CrossoverKind| matches!(kind, CrossoverKind::Undecided | CrossoverKind::Several);
    Some(match (kinds.iter().any(pays), kinds.iter().any(open_still)) {
        (true, _) => holds(text),
        (_, true) => open(text),
        _ => fails(text),
    })
}

/// A sleep loop switches so many times a second, whatever the size; a path switches so many times a message.
fn costs_switches(parts: &[Part<'_>]) -> Option<Ruling> {
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
    let same_path =
        |one: &Measured<'_>, other: &Measured<'_>| same_run(one, other) && one.case().path == other.case().path;
    let pairs =
        of(true).flat_map(|fast| of(true).filter(move |slow| same_path(fast, slow)).map(move |slow| (fast, slow)));
    let pairs = pairs.filter_map(|(fast, slow)| Some((fast, slow, fast.rate()? / slow.rate()?)));
    let pairs: Vec<_> = pairs.filter(|(.., apart)| *apart >= 1.5).collect();
    let (_, (fast, slow, apart)) = extremes(&pairs, |(.., apart)| *apart)?;
    let counted = a_second(fast).zip(a_second(slow)).zip(per_message(fast).zip(per_message(slow)));
    let Some(((fast_s, slow_s), (fast_each, slow_each))) = counted else {
        return Some(open("no context switch was counted in these runs"));
    };
    let evidence = table("switches", "Context switches of both ends", all.iter().filter(|one| same_run(one, fast)))
        .col("case", |one| format!("{}, {}", one.case().path, size(one.case().size)))
        .col("messages a second", |one| number_or(one.summary.rate_per_s.as_ref(), "no rate"))
        .col("switches a second", |one| number_or(a_second(one).as_ref(), "none was counted"))
        .col("switches a message", |one| number_or(per_message(one).as_ref(), "none was counted"));
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
    // Beside the same message by a call that copies.
    let plain = of(false).find(|one| same_run(one, fast) && one.case().size == fast.case().size);
    let plain = plain.and_then(|plain| Some((plain, per_message(plain)?)));
    let ruling = match (like(&fast_s, &slow_s), like(&fast_each, &slow_each), plain) {
        (true, false, _) => fails(format!(
            "{what}. What switches so many times a second, whatever is sent, is a timer or a sleep loop in the program"
        ))
        .likely(),
        (false, true, Some((plain, each))) => {
            let ratio = over((&fast_each).into(), (&each).into());
            let text = format!(
                "the switches come with the messages: {what}. {} with {} switches {} times a message, zero copy {} times as \
                 often",
                plain.case().path,
                size(plain.case().size),
                three_digits(each.value),
                ratio_with(&ratio)
            );
            match (above(ratio, HUNDREDS), below(ratio, HUNDREDS)) {
                (true, _) => holds(text).likely(),
                (_, true) => fails(text),
                _ => open(text),
            }
        }
        (false, true, None) => {
            open(format!("the switches come with the messages, and no send that copies stands beside them: {what}"))
        }
        _ => open(format!(
            "the switches are neither constant a second nor a message: {what}; sizes whose rates lie further apart would settle \
             it"
        )),
    };
    Some(ruling.with(evidence))
}

fn saves_cycles(parts: &[Part<'_>]) -> Option<Ruling> {
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
    let ((_, least, _), _) = extremes(&rows, |(_, one, _)| one.ratio)?;
    let not_counted =
        parts.iter().flat_map(|part| ladder::rows(*part)).find_map(|row| row.cycles_per_byte(End::Near).err());
    let unit = match not_counted {
        Some(why) => format!("CPU time stands for cycles, which are not counted ({why})"),
        None => "CPU time; cycles a byte are in the tables".to_owned(),
    };
    let count = |verdict| rows.iter().filter(|(_, one, _)| one.verdict == verdict).count();
    let text = format!(
        "per byte, the only fair measure where throughputs differ, zero copy takes less CPU of both ends in {} of {} rows and \
         more in {}; 95 % saved would be a ratio of 0.050, and the least is {}. {unit}",
        count(Verdict::Better),
        rows.len(),
        count(Verdict::Worse),
        least.words()
    );
    let title = "Zero copy by the same send without it: CPU time of both ends a byte";
    let evidence = table("claim-21", title, &rows)
        .col("run", |(name, ..)| name)
        .col("size", |(_, one, _)| Cell::size(one.size))
        .col("threads", |(_, one, _)| Cell::count(u64::from(one.threads)))
        .col("CPU a byte, ratio", |(_, one, _)| Cell::Ratio(one.value()))
        .col("throughput, ratio", |(.., rate)| ratio_or(*rate, "no rate"));
    let saved = rows.iter().any(|(_, one, _)| below(one.value(), LEFT));
    let never = rows.iter().all(|(_, one, _)| above(one.value(), LEFT));
    let ruling = if saved {
        holds(text)
    } else if never {
        fails(text)
    } else {
        open(text)
    };
    Some(ruling.with(evidence))
}
