//! Claims about copies and caches.

use std::collections::BTreeSet;

use msgpath_analyse::summary::CaseSummary;
use msgpath_core::Workload;
use msgpath_core::plan::Metric;
use msgpath_core::schema::DeviceKind;
use msgpath_core::units::{size, three_digits};
use msgpath_stats::estimate::Estimate;
use msgpath_stats::verdict::Verdict;

use super::Claim;
use super::ruling::{Ruling, fails, holds, open};
use crate::answers::columns::{number_or, ratio_or, table};
use crate::answers::ladder::{self, Bench, Versus};
use crate::answers::words::{bits, list};
use crate::answers::{Cell, Part};

pub(super) const CLAIMS: &[Claim] = &[
    (5, "iovec saves a copy, so A2 is N times faster", iovec_saves),
    (6, "Two-copy has exactly two copies", two_copies),
    (20, "365 Gb/s of network throughput", cache_resident),
];

/// Ratios of one step with the fewest threads.
fn step(part: Part<'_>, to: &str, from: &str) -> Vec<Versus> {
    let all = Bench::new(part, Metric::Throughput).versus(to, from);
    let fewest = all.iter().map(|one| one.threads).min();
    all.into_iter().filter(|one| Some(one.threads) == fewest).collect()
}

fn iovec_saves(parts: &[Part<'_>]) -> Option<Ruling> {
    let of = |part: &&Part<'_>| {
        let has = |method: &&str| part.find(|one| one.case.path.method == **method && one.case.pieces.count > 1);
        ["writes", "flatten", "sendmsg"].iter().all(|method| has(method).is_some())
    };
    // A stream shows it best; an echo waits most of its time.
    let stream = |part: &&Part<'_>| !part.workload().is_timed();
    let part = parts.iter().filter(of).find(stream).or_else(|| parts.iter().find(of))?;
    let (calls, copy) = (step(*part, "flatten", "writes"), step(*part, "sendmsg", "flatten"));
    let both = step(*part, "sendmsg", "writes");
    let list = |all: &[Versus]| list(&all.iter().map(Versus::words).collect::<Vec<_>>());
    // What the steps that are shown to gain multiply the throughput by, all sizes together.
    let gain =
        |all: &[Versus]| all.iter().filter(|one| one.verdict == Verdict::Better).map(|one| one.ratio.ln()).sum::<f64>();
    let text = format!(
        "in the run {} one call instead of one a field, copying the fields first, multiplies throughput at {}; leaving the copy \
         out, with an iovec instead, at {}",
        part.name,
        list(&calls),
        list(&copy)
    );
    let (from_calls, from_copy) = (gain(&calls), gain(&copy));
    let ruling = if from_calls > from_copy {
        fails(format!("the gain is in the calls: {text}"))
    } else if from_copy > from_calls {
        holds(format!("the gain is in the copy: {text}"))
    } else {
        open(format!("neither step is shown to gain: {text}"))
    };
    let cell = |all: &[Versus], size: u64| {
        ratio_or(all.iter().find(|one| one.size == size).map(Versus::value), "not compared")
    };
    let evidence = table("claim-5", "Throughput after each step by throughput before it", &calls)
        .col("size", |one| Cell::size(one.size))
        .col("a call a field -> 1, with the copy", |one| cell(&calls, one.size))
        .col("the copy away, iovec instead", |one| cell(&copy, one.size))
        .col("both: A2 by a call a field", |one| cell(&both, one.size));
    Some(ruling.with(evidence))
}

fn two_copies(parts: &[Part<'_>]) -> Option<Ruling> {
    let in_pieces = |part: &&CaseSummary| part.case.pieces.count > 1 && part.case.threads == 1;
    let cases = parts.iter().flat_map(|part| part.measured().filter(in_pieces).map(move |case| (part, case)));
    let rows: Vec<_> = cases.map(|(part, case)| (part.name, case, ladder::copies(part, case))).collect();
    let (_, case, flatten) = rows.iter().find(|(_, case, _)| case.case.path.method == "flatten")?;
    let ruling = match flatten {
        None => open(format!("how often {} copies a byte is not known: {}", case.case.path, case.copied_why)),
        Some(times) => {
            let text = format!(
                "with fields that are put together first ({}) each byte is copied {} times from end to end",
                case.case.path,
                three_digits(*times)
            );
            match times.round() {
                2.0 => holds(format!("{text}; the program's own copy was not seen")),
                3.0 => fails(format!("{text}: once by the program, once into the kernel, once out of it")),
                _ => fails(text),
            }
        }
    };
    let evidence = table("claim-6", "Copies of each byte that travels, as far as known", &rows)
        .col("run", |(run, ..)| *run)
        .col("path", |(_, case, _)| case.case.path.to_string())
        .col("size", |(_, case, _)| Cell::size(case.case.size))
        .col("copies", |(.., copies)| number_or(*copies, "not known"))
        .col("which", |(_, case, _)| &case.copied_why);
    Some(ruling.with(evidence))
}

/// The most that a case of TCP without zero copy carried at a size.
fn most(part: &Part<'_>, bytes: u64) -> Option<Estimate> {
    let fits = |case: &&CaseSummary| {
        let path = &case.case.path;
        path.transport == "tcp" && path.method != "zerocopy" && case.case.size == bytes
    };
    let rates = part.measured().filter(fits).filter_map(|case| Some(case.throughput.as_ref()?.receiver_bits.clone()));
    rates.max_by(|a, b| a.value.total_cmp(&b.value))
}

/// The fastest stream, and the same one with buffers that rotate over more and more memory.
fn cache_resident(parts: &[Part<'_>]) -> Option<Ruling> {
    let streams = || parts.iter().filter(|part| part.workload() == Workload::Stream);
    let sizes = |part: &Part<'_>| part.measured().map(|case| case.case.size).collect::<BTreeSet<_>>();
    let set = |part: &Part<'_>| part.run.header.plan.working_set;
    // Runs over the same way with another working set, from the smallest.
    let rungs = |part: &Part<'_>, size: u64| {
        let others = streams().filter(|other| set(other) > 0 && other.device() == part.device());
        let mut rungs: Vec<_> = others.filter_map(|other| Some((set(other), *other, most(other, size)?))).collect();
        rungs.sort_by_key(|(set, ..)| *set);
        rungs
    };
    let resident = streams().filter(|part| set(part) == 0);
    let warm = resident.flat_map(|part| sizes(part).into_iter().map(move |size| (part, size)));
    let warm = warm.filter_map(|(part, size)| Some((part, size, most(part, size)?, rungs(part, size))));
    // Where a ladder was tried, else the most of all.
    let (part, bytes, warmest, rungs) =
        warm.max_by(|a, b| (!a.3.is_empty()).cmp(&!b.3.is_empty()).then_with(|| a.2.value.total_cmp(&b.2.value)))?;
    let lead = format!("the most that went through is {} ({}, {})", bits(warmest.value), part.name, size(bytes));
    match part.device() {
        Some(DeviceKind::Loopback | DeviceKind::Veth) => {}
        Some(DeviceKind::Nic) => return Some(holds(format!("{lead}, and it left through a NIC"))),
        _ => return Some(open(format!("{lead}, and what it went through is not known"))),
    }
    let mut text = format!("{lead}, without a wire: the same buffer again and again, from cache to cache");
    let floors = part.run.header.floors.as_ref();
    if let Some(copy) = floors.and_then(|floors| floors.copy_bytes_per_s) {
        text += &format!(". One plain copy of such a buffer runs at {} here", bits(copy * 8.0));
    }
    let Some((largest, beyond, cold)) = rungs.last() else {
        return Some(open(text + ". How much of it is the cache was not tried").next("msgpath preset zerocopy-truth"));
    };
    let caches = beyond.run.header.floors.as_ref().map(|floors| floors.caches.as_slice()).unwrap_or_default();
    let within = |set: u64| caches.iter().position(|cache| set <= *cache).map(|at| format!("level {}", at + 1));
    let steps = rungs.iter().map(|(set, _, rate)| {
        let at = within(*set).map_or_else(String::new, |level| format!(" (in the cache of {level})"));
        format!("{}{at} {}", size(*set), bits(rate.value))
    });
    text += &format!(". From buffers that rotate over {}", list(&steps.collect::<Vec<_>>()));
    let evidence =
        table("claim-20", format!("{} a message, by the memory that its buffers rotate over", size(bytes)), &rungs)
            .col("run", |(_, part, _)| part.name)
            .col("working set", |(set, ..)| Cell::size(*set))
            .col("smallest cache that holds it", |(set, ..)| within(*set).unwrap_or_else(|| "none".into()))
            .col("throughput", |(.., rate)| Cell::Bits(rate.into()));
    let apart = cold.high.zip(warmest.low).is_some_and(|(cold, most)| cold < most);
    // The runs are made one after the other, so what changed between them is in the difference.
    let ruling = match (caches.last(), apart) {
        (Some(cache), true) if largest > cache => {
            fails(format!("{text}: past the {} of the last level it is less, so the caches carried it", size(*cache)))
                .likely()
        }
        (Some(cache), _) if largest <= cache => {
            open(format!("{text}: the last level holds all of them ({})", size(*cache)))
        }
        (_, true) => open(format!("{text}: it is less, and how large the caches are is not known")),
        (_, false) => open(format!("{text}: no difference is shown between the runs")),
    };
    Some(ruling.with(evidence))
}
