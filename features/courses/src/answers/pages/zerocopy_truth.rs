//! The page of the preset `zerocopy-truth`: what the kernel says it did with zero-copy sends, per size and path.

use msgpath_analyse::summary::{CaseSummary, Confidence, EventRate};
use msgpath_core::ZeroCopyCounts;
use msgpath_core::plan::Metric;
use msgpath_core::schema::{FAR, NEAR};
use msgpath_core::units::{size, three_digits};
use msgpath_stats::verdict::Verdict;

use crate::answers::answered::{Answered, OfRuns, answer, answers, say, sure};
use crate::answers::columns::table;
use crate::answers::evidence::{cpu_ns, extremes, p50};
use crate::answers::ladder::{self, Bench, Versus, by_verdict};
use crate::answers::{Cell, Page, Part, Table};

const QUESTIONS: &[(&str, OfRuns)] = &[
    ("Is the flag alone enough?", flag_only),
    ("What does zero copy cost where it is copied after all?", cost_of_the_flag),
];

/// Whether a case asked for zero copy with SO_ZEROCOPY, without it, or not at all.
fn asked(case: &CaseSummary) -> &'static str {
    match case.case.path.method.as_str() {
        "zerocopy" => "on",
        "zerocopy-unset" => "flag only",
        _ => "off",
    }
}

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let tables = parts.iter().map(|part| kernel_said(*part)).filter(|table| !table.rows.is_empty()).collect();
    let really = |part: &Part<'_>| answer(format!("Is zero copy really happening: {}?", what(*part)), verdict(*part));
    let answers = parts.iter().map(really).chain(answers(parts, QUESTIONS)).collect();
    Page { tables, answers, ..Page::default() }
}

/// `lo (veth): one way`.
fn what(part: Part<'_>) -> String {
    let manner = ladder::manner(&part.run.header).unwrap_or("an unknown path");
    let direction = if part.workload().timed { "there and back" } else { "one way" };
    match part.run.header.plan.working_set {
        0 => format!("{manner}, {direction}"),
        bytes => format!("{manner}, {direction}, buffers that rotate over {}", size(bytes)),
    }
}

/// The rows of one run, by size.
fn kernel_said(part: Part<'_>) -> Table {
    let mut cases: Vec<&CaseSummary> = part.measured().collect();
    cases.sort_by_key(|case| case.case.size);
    let rows = cases.into_iter().map(|case| (case, case.copied.zerocopy.unwrap_or_default()));
    let none = || Cell::text("-");
    let answered = |counts: &ZeroCopyCounts| counts.copied + counts.zero_copied;
    let count = |counts: &ZeroCopyCounts, of: u64| if counts.asked > 0 { Cell::count(of) } else { none() };
    let title = format!("What the kernel said: {}", what(part));
    table(format!("zero-copy-{}", part.name), title, rows)
        .col("size", |(case, _)| Cell::size(case.case.size))
        .col("path", |(case, _)| case.case.path.to_string())
        .col("zero copy", |(case, _)| asked(case))
        .col("sends", |(_, counts)| count(counts, counts.asked))
        .col("notifications", |(_, counts)| count(counts, counts.notifications))
        .col("sends a notification", |(_, counts)| match counts.notifications {
            0 => none(),
            many => Cell::Number((answered(counts) as f64 / many as f64).into()),
        })
        .col("copied after all", |(_, counts)| match answered(counts) {
            0 if counts.asked > 0 => Cell::missing("the kernel never said"),
            0 => none(),
            all => Cell::Share((counts.copied as f64 / all as f64).into()),
        })
        .col("unanswered", |(_, counts)| count(counts, counts.unanswered))
        .col("refused", |(_, counts)| count(counts, counts.no_buffers))
        .col("throughput", |(case, _)| {
            case.throughput.as_ref().map_or_else(none, |throughput| Cell::Bits((&throughput.receiver_bits).into()))
        })
        .col("round trip", |(case, _)| p50(case).map_or_else(none, |p50| Cell::Time(p50.into())))
        .col("CPU a byte", |(case, _)| Cell::Time((cpu_ns(case) / case.case.size.max(1) as f64).into()))
        .col("cycles a byte", |(case, _)| cycles_a_byte(part, case))
        .note(
            "Sends and notifications of both ends, measured messages only. Refused: no room for a completion (ENOBUFS), \
             repeated. CPU time of both ends by the payload of one direction. Throughput at the receiver, on its clock.",
        )
}

/// Cycles of both ends by the payload of one direction.
fn cycles_a_byte(part: Part<'_>, case: &CaseSummary) -> Cell {
    let of = |rates: &[EventRate]| {
        let is = |rate: &&EventRate| rate.name == "cycles" || rate.name.split('/').nth(1) == Some("cycles");
        let counted: Vec<f64> =
            rates.iter().filter(is).filter_map(|rate| Some(rate.per_message.as_ref()?.value)).collect();
        (!counted.is_empty()).then(|| counted.iter().sum::<f64>())
    };
    let why = || {
        let rates = case.end(NEAR).events.iter().chain(&case.end(FAR).events).find(|rate| rate.name.contains("cycles"));
        let header = &part.run.header;
        let refused = header.end(NEAR).events.refused.iter().chain(&header.end(FAR).events.refused);
        rates
            .and_then(|rate| rate.why.clone())
            .or_else(|| refused.filter(|(name, _)| name.contains("cycles")).map(|(_, why)| why.why.clone()).next())
            .unwrap_or_else(|| "cycles were not counted".into())
    };
    match of(&case.end(NEAR).events).zip(of(&case.end(FAR).events)) {
        Some((near, far)) => Cell::Number(((near + far) / case.case.size.max(1) as f64).into()),
        None => Cell::missing(why()),
    }
}

/// Cases of a method with what the kernel said of their sends.
fn zero_copy<'a>(
    part: &Part<'a>,
    method: &'static str,
) -> impl Iterator<Item = (&'a CaseSummary, ZeroCopyCounts)> + use<'a> {
    part.measured()
        .filter(move |case| case.case.path.method == method)
        .filter_map(|case| Some((case, case.copied.zerocopy?)))
}

/// The verdict line of one path.
fn verdict(part: Part<'_>) -> Answered {
    let mut sum = ZeroCopyCounts::default();
    zero_copy(&part, "zerocopy").for_each(|(_, counts)| sum.add(&counts));
    let answered = sum.copied + sum.zero_copied;
    if answered == 0 {
        return Err("no zero-copy send was answered by a completion".into());
    }
    let all: Vec<u64> = zero_copy(&part, "zerocopy").map(|(case, _)| case.case.size).collect();
    let sizes = match (all.iter().min(), all.iter().max()) {
        (Some(least), Some(most)) if least < most => format!("{} to {}", size(*least), size(*most)),
        (one, _) => one.map_or_else(String::new, |one| size(*one)),
    };
    let rest = match (sum.unanswered, sum.no_buffers) {
        (0, 0) => String::new(),
        (unanswered, refused) => format!(
            " {} were not answered before the round ended, {} were refused for lack of room (ENOBUFS) and repeated.",
            unanswered, refused
        ),
    };
    let output = format!("{} of {} answered sends", sum.copied, answered);
    Ok(sure(match (sum.copied, sum.zero_copied) {
        (_, 0) => format!("On this path zero copy is always copied: {output}, {sizes}.{rest}"),
        (0, _) => format!("Yes: none was copied after all, {output}, {sizes}.{rest}"),
        (copied, _) => {
            let share = three_digits(100.0 * copied as f64 / answered as f64);
            format!("In part: the kernel copied {output} after all ({share} %), {sizes}.{rest}")
        }
    }))
}

/// A method against `send` in every run.
fn against_send<'a>(parts: &[Part<'a>], method: &str, bench: fn(Part<'a>) -> Bench<'a>) -> Vec<(String, Versus)> {
    let ratios = |part: &Part<'a>| bench(*part).versus(method, "send");
    parts.iter().flat_map(|part| ratios(part).into_iter().map(|one| (what(*part), one))).collect()
}

fn flag_only(parts: &[Part<'_>]) -> Answered {
    let mut sum = ZeroCopyCounts::default();
    parts.iter().flat_map(|part| zero_copy(part, "zerocopy-unset")).for_each(|(_, counts)| sum.add(&counts));
    let sends = sum.asked.to_string();
    let same = against_send(parts, "zerocopy-unset", Bench::of_run);
    match (sum.asked, sum.notifications) {
        (0, _) => Err("no send had the flag without the option".into()),
        (_, 0) => Ok(sure(format!(
            "No: {sends} sends had MSG_ZEROCOPY without SO_ZEROCOPY, every one succeeded, and no completion came: the flag is \
             ignored. Against send without the flag it is {}.",
            by_verdict(same.iter().map(|(_, one)| one))
        ))
        .with(ratios("flag-only", "The flag alone against send", &same))),
        (_, completions) => {
            let completions = completions.to_string();
            Ok(sure(format!("{completions} completions came for {sends} sends with the flag alone.")))
        }
    }
}

fn cost_of_the_flag(parts: &[Part<'_>]) -> Answered {
    let rows = against_send(parts, "zerocopy", Bench::of_run);
    let cpu = against_send(parts, "zerocopy", |part| Bench::new(part, Metric::Cpu));
    if rows.is_empty() {
        return Err("zero copy and send were not measured side by side".into());
    }
    if parts.iter().flat_map(|part| zero_copy(part, "zerocopy")).any(|(_, counts)| counts.zero_copied > 0) {
        return Err("not every zero-copy send was copied".into());
    }
    let list = |verdict: Verdict| {
        let own = rows.iter().filter(|(_, one)| one.verdict == verdict);
        let own: Vec<String> = own.map(|(what, one)| format!("{} ({what})", one.words())).collect();
        (!own.is_empty()).then(|| own.join(", "))
    };
    let (slower, faster) = (list(Verdict::Worse), list(Verdict::Better));
    let mut text = match (&slower, &faster) {
        (None, None) => format!("Against send it is {}.", by_verdict(rows.iter().map(|(_, one)| one))),
        (Some(slower), None) => format!("It is slower than send at {slower}; nowhere is it shown to be faster."),
        (None, Some(faster)) => {
            format!(
                "It is faster than send at {faster}, which does not show that a copy was avoided; nowhere is it shown to be slower."
            )
        }
        (Some(slower), Some(faster)) => {
            format!(
                "It is slower than send at {slower}; faster, which does not show that a copy was avoided, at {faster}."
            )
        }
    };
    let more: Vec<&Versus> = cpu.iter().map(|(_, one)| one).filter(|one| one.verdict == Verdict::Worse).collect();
    if let Some((_, most)) = extremes(&more, |one| one.ratio) {
        let (some, all, most) = (more.len(), cpu.len(), most.words());
        text += &format!(" It takes more CPU time of both ends in {some} of {all} rows, at most {most}.");
    }
    let confidence = match (slower.is_some() || !more.is_empty(), faster.is_some()) {
        (true, false) => Confidence::Sure,
        (_, true) => Confidence::Likely,
        (false, false) => Confidence::CantTell,
    };
    text += " Ratios with more throughput or a shorter round trip are called faster, whichever the run measures.";
    Ok(say(confidence, text)
        .with(ratios("flag-cost", "zerocopy by send, by the metric of the run", &rows))
        .with(ratios("flag-cpu", "zerocopy by send, CPU time of both ends per message", &cpu)))
}

fn ratios(name: &str, title: &str, rows: &[(String, Versus)]) -> Table {
    table(name, title, rows)
        .col("path", |(what, _)| what)
        .col("size", |(_, versus)| Cell::size(versus.size))
        .col("ratio", |(_, versus)| Cell::Ratio(versus.value()))
        .col("shown", |(_, versus)| match versus.verdict {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Equivalent => "the same",
            Verdict::Undecided => "not decided",
        })
        .into()
}

#[cfg(test)]
mod tests {
    use msgpath_core::ZeroCopyCounts;
    use msgpath_record::Run;

    use super::*;
    use msgpath_analyse::testing::Build;
    use msgpath_analyse::{Logs, summarise};

    const PATHS: [&str; 3] = ["tcp:send", "tcp:zerocopy-unset", "tcp:zerocopy"];

    fn run(slower: f64, copied: bool) -> Run {
        // Two sizes a path; zero copy carries less.
        let rate = move |at: usize, pass: u32| {
            let noise = 1.0 + 0.002 * f64::from((pass * 5 + at as u32) % 7);
            if at == 4 || at == 5 { 1e9 * noise / slower } else { 1e9 * noise }
        };
        let mut run = Build::stream(&PATHS, &[64, 65_536]).rates(rate).run();
        msgpath_analyse::testing::route(&mut run, msgpath_core::schema::DeviceKind::Loopback, "lo", "127.0.0.1");
        for round in &mut run.rounds {
            let sent = round.near().delivery.sent;
            round.near_mut().zerocopy = match (round.case / 2, copied) {
                (1, _) => ZeroCopyCounts { asked: sent, unanswered: sent, ..Default::default() },
                (2, true) => ZeroCopyCounts { asked: sent, copied: sent, notifications: 2, ..Default::default() },
                (2, false) => ZeroCopyCounts { asked: sent, zero_copied: sent, notifications: 2, ..Default::default() },
                _ => ZeroCopyCounts::default(),
            };
            round.near_mut().system_ns =
                sent * 1_000 * if round.case / 2 == 2 { 3 } else { 1 } + u64::from(round.pass % 3);
        }
        run
    }

    fn page_of(run: &Run) -> Page {
        let summary = summarise(run);
        let logs = Logs::default();
        page(&[Part { name: "lo", run, summary: &summary, logs: &logs }])
    }

    #[test]
    fn copies_are_called_copies() {
        let page = page_of(&run(1.5, true));
        assert_eq!(page.tables[0].rows.len(), 6);
        let output: Vec<&str> = page.answers.iter().map(|answer| answer.text.as_str()).collect();
        assert!(
            output[0].starts_with("On this path zero copy is always copied") && output[0].contains("64 B to 64 KiB"),
            "{output:?}"
        );
        assert!(output[1].starts_with("No:") && output[1].contains("no completion came"), "{output:?}");
        assert!(
            output[2].starts_with("It is slower than send at 64 B 0.66") && output[2].contains("nowhere"),
            "{output:?}"
        );
        assert!(output[2].contains("more CPU time of both ends in 2 of 2 rows"), "{output:?}");
    }

    #[test]
    fn what_was_not_copied_is_not_called_copied() {
        let page = page_of(&run(1.0, false));
        assert!(page.answers[0].text.starts_with("Yes: none was copied"), "{}", page.answers[0].text);
        let cost = &page.answers[2];
        assert!(
            cost.confidence == Confidence::CantTell && cost.text.starts_with("cannot be answered"),
            "{}",
            cost.text
        );
    }

    #[test]
    fn equal_paths_cost_nothing_that_is_claimed() {
        let mut run = run(1.0, true);
        run.rounds.iter_mut().for_each(|round| round.near_mut().system_ns = 0);
        let cost = page_of(&run).answers.remove(2);
        assert!(
            cost.confidence == Confidence::CantTell
                && cost.text.starts_with("Against send it is the same in 2 of 2 rows."),
            "{}",
            cost.text
        );
    }
}
