//! The page of the preset `zerocopy-truth`: what the kernel says it did with zero-copy sends, per size and path.

use msgpath_core::plan::{CaseRole, Metric};
use msgpath_core::units::{self, Glyphs, three_digits};
use msgpath_stats::verdict::Verdict;

use crate::answers::ladder::{self, Bench, Versus};
use crate::answers::{Answer, Cell, Page, Part, Table};
use crate::summary::{CaseSummary, Confidence, EventRate};

const G: Glyphs = Glyphs::Unicode;

/// Whether a case asked for zero copy with SO_ZEROCOPY, without it, or not at all.
fn asked(case: &CaseSummary) -> &'static str {
    match case.case.path.method.as_str() {
        "zerocopy" => "on",
        "zerocopy-unset" => "flag only",
        _ => "off",
    }
}

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let mut page = Page::default();
    for part in parts {
        let what = what(*part);
        page.tables.push(kernel_said(*part, &what));
        page.answers.push(verdict(*part, &what));
    }
    page.tables.retain(|table| !table.rows.is_empty());
    page.answers.extend([flag_only(parts), cost_of_the_flag(parts)]);
    page
}

/// `lo (veth): one way`.
fn what(part: Part<'_>) -> String {
    let way = ladder::way(&part.run.header).unwrap_or("an unknown path");
    let direction = if part.run.header.plan.workload.is_timed() { "there and back" } else { "one way" };
    match part.run.header.plan.working_set {
        0 => format!("{way}, {direction}"),
        bytes => format!("{way}, {direction}, buffers that rotate over {}", units::size(bytes)),
    }
}

fn measured<'a>(part: Part<'a>) -> impl Iterator<Item = &'a CaseSummary> {
    part.summary.cases.iter().filter(|case| case.case.role == CaseRole::Measured && case.rounds > 0)
}

/// The rows of one run, by size.
fn kernel_said(part: Part<'_>, what: &str) -> Table {
    let heads = [
        "size",
        "path",
        "zero copy",
        "sends",
        "notifications",
        "sends a notification",
        "copied after all",
        "unanswered",
        "refused",
        "throughput",
        "round trip",
        "CPU a byte",
        "cycles a byte",
    ];
    let mut table = Table::new(&format!("zero-copy-{}", part.name), format!("What the kernel said: {what}"), &heads);
    let mut cases: Vec<&CaseSummary> = measured(part).collect();
    cases.sort_by_key(|case| case.case.size);
    for case in cases {
        let counts = case.zerocopy.unwrap_or_default();
        let answered = counts.copied + counts.zero_copied;
        let none = |text: &str| Cell::text(text);
        let asks = counts.asked > 0;
        let size = case.case.size.max(1) as f64;
        let cpu = case.near_cost.user_ns + case.near_cost.system_ns + case.far_cost.user_ns + case.far_cost.system_ns;
        let p50 = case.quantiles.iter().find(|quantile| quantile.p == 0.5);
        table.row([
            Cell::size(case.case.size),
            Cell::text(case.case.path.to_string()),
            Cell::text(asked(case)),
            if asks { Cell::count(counts.asked) } else { none("-") },
            if asks { Cell::count(counts.notifications) } else { none("-") },
            match counts.notifications {
                0 => none("-"),
                many => Cell::Number((answered as f64 / many as f64).into()),
            },
            match answered {
                0 if asks => Cell::missing("the kernel never said"),
                0 => none("-"),
                _ => Cell::Share((counts.copied as f64 / answered as f64).into()),
            },
            if asks { Cell::count(counts.unanswered) } else { none("-") },
            if asks { Cell::count(counts.no_buffers) } else { none("-") },
            match &case.throughput {
                Some(throughput) => Cell::Bits((&throughput.receiver_bits).into()),
                None => none("-"),
            },
            p50.map_or_else(|| none("-"), |p50| Cell::Time(p50.into())),
            Cell::Time((cpu / size).into()),
            cycles_a_byte(part, case),
        ]);
    }
    table.note(
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
        let rates = case.near_events.iter().chain(&case.far_events).find(|rate| rate.name.contains("cycles"));
        let header = &part.run.header;
        let refused = header.near_events.refused.iter().chain(&header.far_events.refused);
        rates
            .and_then(|rate| rate.why.clone())
            .or_else(|| refused.filter(|(name, _)| name.contains("cycles")).map(|(_, why)| why.why.clone()).next())
            .unwrap_or_else(|| "cycles were not counted".into())
    };
    match of(&case.near_events).zip(of(&case.far_events)) {
        Some((near, far)) => Cell::Number(((near + far) / case.case.size.max(1) as f64).into()),
        None => Cell::missing(why()),
    }
}

/// The verdict line of one path.
fn verdict(part: Part<'_>, what: &str) -> Answer {
    let question = format!("Is zero copy really happening: {what}?");
    let cases: Vec<&CaseSummary> =
        measured(part).filter(|case| case.case.path.method == "zerocopy" && case.zerocopy.is_some()).collect();
    let sum = |of: fn(&msgpath_core::ZeroCopyCounts) -> u64| -> u64 {
        cases.iter().filter_map(|case| case.zerocopy.as_ref()).map(of).sum()
    };
    let (copied, zero_copied) = (sum(|counts| counts.copied), sum(|counts| counts.zero_copied));
    let (answered, unanswered, refused) =
        (copied + zero_copied, sum(|counts| counts.unanswered), sum(|counts| counts.no_buffers));
    if answered == 0 {
        return Answer::cannot(question, "no zero-copy send was answered by a completion");
    }
    let sizes = sizes(&cases);
    let rest = match (unanswered, refused) {
        (0, 0) => String::new(),
        _ => format!(
            " {} were not answered before the round ended, {} were refused for lack of room (ENOBUFS) and repeated.",
            G.thousands(unanswered),
            G.thousands(refused)
        ),
    };
    let said = format!("{} of {} answered sends", G.thousands(copied), G.thousands(answered));
    let (confidence, text) = match (copied, zero_copied) {
        (_, 0) => (Confidence::Sure, format!("On this path zero copy is always copied: {said}, {sizes}.{rest}")),
        (0, _) => (Confidence::Sure, format!("Yes: none was copied after all, {said}, {sizes}.{rest}")),
        _ => {
            let share = three_digits(100.0 * copied as f64 / answered as f64);
            (Confidence::Sure, format!("In part: the kernel copied {said} after all ({share} %), {sizes}.{rest}"))
        }
    };
    Answer::new(question, confidence, text)
}

fn sizes(cases: &[&CaseSummary]) -> String {
    let all = || cases.iter().map(|case| case.case.size);
    match (all().min(), all().max()) {
        (Some(least), Some(most)) if least < most => format!("{} to {}", units::size(least), units::size(most)),
        (Some(one), _) => units::size(one),
        _ => String::new(),
    }
}

fn flag_only(parts: &[Part<'_>]) -> Answer {
    const QUESTION: &str = "Is the flag alone enough?";
    let (mut sends, mut completions) = (0, 0);
    let mut same = Vec::new();
    for part in parts {
        let own = measured(*part).filter(|case| case.case.path.method == "zerocopy-unset");
        for counts in own.filter_map(|case| case.zerocopy) {
            sends += counts.asked;
            completions += counts.notifications;
        }
        let bench = Bench::of_run(*part);
        for versus in bench.versus("zerocopy-unset", "send") {
            same.push((what(*part), versus));
        }
    }
    if sends == 0 {
        return Answer::cannot(QUESTION, "no send had the flag without the option");
    }
    if completions > 0 {
        let text = format!(
            "{} completions came for {} sends with the flag alone.",
            G.thousands(completions),
            G.thousands(sends)
        );
        return Answer::new(QUESTION, Confidence::Sure, text);
    }
    let differs = same.iter().filter(|(_, one)| matches!(one.verdict, Verdict::Better | Verdict::Worse)).count();
    let text = format!(
        "No: {} sends had MSG_ZEROCOPY without SO_ZEROCOPY, every one succeeded, and no completion came: the flag is ignored. \
         Against send without the flag a difference is shown in {differs} of {} rows.",
        G.thousands(sends),
        same.len()
    );
    Answer::new(QUESTION, Confidence::Sure, text).with(ratios("flag-only", "The flag alone against send", &same))
}

fn cost_of_the_flag(parts: &[Part<'_>]) -> Answer {
    const QUESTION: &str = "What does zero copy cost where it is copied after all?";
    let (mut rows, mut cpu) = (Vec::new(), Vec::new());
    let mut all_copied = true;
    for part in parts {
        let zero = measured(*part).filter(|case| case.case.path.method == "zerocopy").filter_map(|case| case.zerocopy);
        all_copied &= zero.fold(0, |sum, counts| sum + counts.zero_copied) == 0;
        let rows_of = |bench: Bench<'_>| bench.versus("zerocopy", "send").into_iter().map(|one| (what(*part), one));
        rows.extend(rows_of(Bench::of_run(*part)));
        cpu.extend(rows_of(Bench::new(*part, Metric::Cpu)));
    }
    if rows.is_empty() {
        return Answer::cannot(QUESTION, "zero copy and send were not measured side by side");
    }
    if !all_copied {
        return Answer::cannot(QUESTION, "not every zero-copy send was copied");
    }
    let list = |verdict: Verdict| {
        let own: Vec<String> = rows
            .iter()
            .filter(|(_, one)| one.verdict == verdict)
            .map(|(what, one)| format!("{} ({what})", one.words()))
            .collect();
        (!own.is_empty()).then(|| own.join(", "))
    };
    let (slower, faster) = (list(Verdict::Worse), list(Verdict::Better));
    let more: Vec<&Versus> = cpu.iter().map(|(_, one)| one).filter(|one| one.verdict == Verdict::Worse).collect();
    let most = more.iter().max_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let mut text = match (&slower, &faster) {
        (None, None) => format!("No difference is shown in any of {} rows.", rows.len()),
        (Some(slower), None) => format!("It is slower than send at {slower}; nowhere is it shown to be faster."),
        (None, Some(faster)) => {
            format!("It is faster than send at {faster}, which is no copy avoided; nowhere is it shown to be slower.")
        }
        (Some(slower), Some(faster)) => {
            format!("It is slower than send at {slower}; faster, which is no copy avoided, at {faster}.")
        }
    };
    if let Some(most) = most {
        text += &format!(
            " It takes more CPU time of both ends in {} of {} rows, at most {}.",
            more.len(),
            cpu.len(),
            most.words()
        );
    }
    let confidence = match (slower.is_some() || most.is_some(), faster.is_some()) {
        (true, false) => Confidence::Sure,
        (_, true) => Confidence::Likely,
        (false, false) => Confidence::CantTell,
    };
    let text =
        text + " Ratios with more throughput or a shorter round trip are called faster, whichever the run measures.";
    Answer::new(QUESTION, confidence, text)
        .with(ratios("flag-cost", "zerocopy by send, by the metric of the run", &rows))
        .with(ratios("flag-cpu", "zerocopy by send, CPU time of both ends per message", &cpu))
}

fn ratios(name: &str, title: &str, rows: &[(String, Versus)]) -> Table {
    let mut table = Table::new(name, title, &["path", "size", "ratio", "shown"]);
    for (what, versus) in rows {
        let shown = match versus.verdict {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Equivalent => "the same",
            Verdict::Undecided => "no difference shown",
        };
        table.row([Cell::text(what), Cell::size(versus.size), Cell::Ratio(versus.value()), Cell::text(shown)]);
    }
    table
}

#[cfg(test)]
mod tests {
    use msgpath_core::ZeroCopyCounts;
    use msgpath_record::Run;

    use super::*;
    use crate::testing::Build;
    use crate::{Logs, summarise};

    const PATHS: [&str; 3] = ["tcp:send", "tcp:zerocopy-unset", "tcp:zerocopy"];

    fn run(slower: f64, copied: bool) -> Run {
        // Two sizes a path; zero copy carries less.
        let rate = move |at: usize, pass: u32| {
            let noise = 1.0 + 0.002 * f64::from((pass * 5 + at as u32) % 7);
            if at == 4 || at == 5 { 1e9 * noise / slower } else { 1e9 * noise }
        };
        let mut run = Build::stream(&PATHS, &[64, 65_536]).rates(rate).run();
        crate::testing::route(&mut run, msgpath_core::schema::DeviceKind::Loopback, "lo", "127.0.0.1");
        for round in &mut run.rounds {
            let sent = round.near.delivery.sent;
            round.near.zerocopy = match (round.case / 2, copied) {
                (1, _) => ZeroCopyCounts { asked: sent, unanswered: sent, ..Default::default() },
                (2, true) => ZeroCopyCounts { asked: sent, copied: sent, notifications: 2, ..Default::default() },
                (2, false) => ZeroCopyCounts { asked: sent, zero_copied: sent, notifications: 2, ..Default::default() },
                _ => ZeroCopyCounts::default(),
            };
            round.near.system_ns = sent * 1_000 * if round.case / 2 == 2 { 3 } else { 1 } + u64::from(round.pass % 3);
        }
        run
    }

    fn page_of(run: &Run) -> Page {
        let (summary, logs) = (summarise(run), Logs::default());
        page(&[Part { name: "lo", run, summary: &summary, logs: &logs }])
    }

    #[test]
    fn copies_are_called_copies() {
        let page = page_of(&run(1.5, true));
        assert_eq!(page.tables[0].rows.len(), 6);
        let said: Vec<&str> = page.answers.iter().map(|answer| answer.text.as_str()).collect();
        assert!(
            said[0].starts_with("On this path zero copy is always copied") && said[0].contains("64 B to 64 KiB"),
            "{said:?}"
        );
        assert!(said[1].starts_with("No:") && said[1].contains("no completion came"), "{said:?}");
        assert!(said[2].starts_with("It is slower than send at 64 B 0.66") && said[2].contains("nowhere"), "{said:?}");
        assert!(said[2].contains("more CPU time of both ends in 2 of 2 rows"), "{said:?}");
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
        run.rounds.iter_mut().for_each(|round| round.near.system_ns = 0);
        let cost = page_of(&run).answers.remove(2);
        assert!(
            cost.confidence == Confidence::CantTell && cost.text.starts_with("No difference is shown"),
            "{}",
            cost.text
        );
    }
}
