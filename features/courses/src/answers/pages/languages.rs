//! The page of the preset `languages`: what an echo server costs in each of them, beside the bare loop of msgpath.

use msgpath_analyse::summary::CaseSummary;
use msgpath_core::schema::{FAR, NEAR};
use msgpath_core::units::size;
use msgpath_stats::paired::Series;

use crate::answers::answered::{Answered, OfRuns, answers, say};
use crate::answers::cell::{Cell, Value};
use crate::answers::columns::{ns_or, quantile_cell, ratio_or, table, time_or};
use crate::answers::evidence::{below, extremes, left_out, median_of, over, over_passes};
use crate::answers::words::{decided, list, ratio_with, time, time_with};
use crate::answers::{Page, Part, Table, part};

/// The runs: name, and what they do.
const RUNS: [(&str, &str); 2] = [("small", "64 bytes there and back"), ("large", "64 KiB there and back")];
const QUESTIONS: &[(&str, OfRuns)] = &[
    ("Which server answers fastest?", fastest),
    ("Which server costs the least CPU?", cheapest),
    ("Is it the same with large messages?", large),
];

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let runs = RUNS.iter().filter_map(|(name, about)| Some(servers(&part(parts, name)?, about)));
    let tables = runs.chain([left_out(parts)]).collect();
    Page { tables, answers: answers(parts, QUESTIONS), ..Page::default() }
}

/// What stands behind a path.
fn name(case: &CaseSummary) -> &str {
    case.case.path.program.as_deref().unwrap_or("msgpath")
}

/// The cases of servers, without our own.
fn programs<'a>(part: &Part<'a>) -> impl Iterator<Item = &'a CaseSummary> + use<'a> {
    part.with_programs().filter(|case| case.case.traits.program)
}

/// Our own far end.
fn own<'a>(part: &Part<'a>) -> Option<&'a CaseSummary> {
    part.measured().next()
}

/// CPU time of an end for a message, ns, with its interval over rounds.
fn cpu(part: &Part<'_>, case: &CaseSummary, end: usize) -> Option<Value> {
    let each = part.rounds(&case.case).into_iter().filter_map(|round| {
        let report = &round.end(end).report;
        let spent = report.user_ns + report.system_ns;
        let messages = round.near().delivery.sent;
        (spent > 0 && messages > 0).then(|| (round.pass, spent as f64 / messages as f64))
    });
    over_passes(&each.collect::<Series>()).map(|each| Value::from(&each))
}

fn servers(part: &Part<'_>, about: &str) -> Table {
    let own = own(part).and_then(median_of);
    let facts = |case: &CaseSummary| {
        let program = case.case.path.program.as_ref()?;
        part.run.header.programs.iter().find(|facts| facts.name == *program)
    };
    let to_own = |case: &CaseSummary| median_of(case).zip(own).map(|(one, own)| over(one, own));
    table(format!("languages-{}", part.name), format!("run {}: {about}", part.name), part.with_programs())
        .col("far end", |case| Cell::text(name(case)))
        .col("p50", |case| quantile_cell(&case.latency.quantiles, 0.5))
        .col("p99", |case| quantile_cell(&case.latency.quantiles, 0.99))
        .col("to msgpath, p50", |case| ratio_or(to_own(case), "no claim at p50"))
        .col("CPU far end", |case| time_or(cpu(part, case, FAR), "not counted"))
        .col("CPU near end", |case| time_or(cpu(part, case, NEAR), "not counted"))
        .col("listened after", |case| ns_or(facts(case).and_then(|facts| facts.ready_ns), "started with the run"))
        .note(
            "CPU: a message, all threads and processes of the far end together; of a server in another language also what its \
             runtime does meanwhile",
        )
}

/// The medians of the servers.
fn medians<'a>(part: &Part<'a>) -> Vec<(&'a CaseSummary, Value)> {
    programs(part).filter_map(|case| Some((case, median_of(case)?))).collect()
}

/// `p50 of 6 servers lies between 21 µs (c) and 30 µs (python), 1.4 times`.
fn span(part: &Part<'_>) -> Option<(String, Value)> {
    let all = medians(part);
    let ((fast, least), (slow, most)) = extremes(&all, |(_, median)| median.value).filter(|_| all.len() > 1)?;
    let ratio = over(*most, *least);
    let text = format!(
        "p50 of {} servers lies between {} ({}) and {} ({}), {} times",
        all.len(),
        time_with(least),
        name(fast),
        time_with(most),
        name(slow),
        ratio_with(&ratio)
    );
    Some((text, ratio))
}

fn fastest(parts: &[Part<'_>]) -> Answered {
    let part = part(parts, "small").ok_or("the run small is missing")?;
    let (text, ratio) = span(&part).ok_or("fewer than two servers were measured with a claim at p50")?;
    let own = own(&part).and_then(median_of);
    let own = own.map_or_else(String::new, |own| format!("; the bare loop of msgpath takes {}", time_with(&own)));
    let slower = usize::from(ratio.low.is_some_and(|low| low > 1.0));
    let why = match slower {
        1 => "most of each is two wake-ups and two passes through TCP, which no language shortens",
        _ => "the slowest is not told apart from the fastest",
    };
    Ok(say(decided(slower, 1), format!("{text}{own}; {why}")))
}

fn cheapest(parts: &[Part<'_>]) -> Answered {
    let part = part(parts, "small").ok_or("the run small is missing")?;
    let all: Vec<(&CaseSummary, Value)> =
        programs(&part).filter_map(|case| Some((case, cpu(&part, case, FAR)?))).collect();
    let found = extremes(&all, |(_, cpu)| cpu.value).filter(|_| all.len() > 1);
    let ((cheap, least), (dear, most)) = found.ok_or("fewer than two servers have their CPU time counted")?;
    let ratio = over(*most, *least);
    let beside = span(&part).map_or_else(String::new, |(_, ratio)| {
        format!(", where their p50 differ by {} times", msgpath_core::units::three_digits(ratio.value))
    });
    let slower = usize::from(ratio.low.is_some_and(|low| low > 1.0));
    let each: Vec<String> = all.iter().map(|(case, cpu)| format!("{} {}", name(case), time(cpu.value))).collect();
    Ok(say(
        decided(slower, 1),
        format!(
            "{} with {} a message; {} takes {}, {} times as much{beside} ({})",
            name(cheap),
            time_with(least),
            name(dear),
            time_with(most),
            ratio_with(&ratio),
            list(&each)
        ),
    ))
}

fn large<'a>(parts: &[Part<'a>]) -> Answered {
    let (small, large) = (part(parts, "small"), part(parts, "large"));
    let (small, large) = small.zip(large).ok_or("one of the runs is missing")?;
    let (text, ratio) = span(&large).ok_or("fewer than two servers were measured with a claim at p50")?;
    let in_order = |part: &Part<'a>| {
        let mut all = medians(part);
        all.sort_by(|a, b| a.1.value.total_cmp(&b.1.value));
        all
    };
    let bytes = large.with_programs().next().map_or_else(String::new, |case| size(case.case.size));
    let (before, after) = (in_order(&small), in_order(&large));
    // Two servers change places where both runs tell them apart, in two orders.
    let faster = |all: &[(&CaseSummary, Value)], one: &str, other: &str| {
        let of = |wanted: &str| all.iter().find(|(case, _)| name(case) == wanted).map(|(_, median)| *median);
        of(one).zip(of(other)).is_some_and(|(one, other)| below(over(one, other), 1.0))
    };
    let turned = after.iter().enumerate().find_map(|(at, (quick, _))| {
        let slower = after[at + 1..].iter().map(|(slow, _)| name(slow));
        let turned = |slow: &&str| faster(&after, name(quick), slow) && faster(&before, slow, name(quick));
        slower.into_iter().find(turned).map(|slow| (name(quick), slow))
    });
    let changed = turned.map_or_else(
        || "no two of them surely change places".to_owned(),
        |(quick, slow)| format!("{quick} is faster than {slow}, which is the faster one with small messages"),
    );
    let [before, after] =
        [before, after].map(|all| all.iter().map(|(case, _)| name(case).to_owned()).collect::<Vec<_>>());
    let slower = usize::from(ratio.low.is_some_and(|low| low > 1.0));
    Ok(say(
        decided(slower, 1),
        format!(
            "with {bytes} {text}; {changed}: fastest first {}, with small messages {}",
            list(&after),
            list(&before)
        ),
    ))
}

#[cfg(test)]
mod tests {
    use msgpath_analyse::summary::Confidence;
    use msgpath_analyse::testing::Build;
    use msgpath_core::Program;
    use msgpath_core::program::ProgramFacts;

    use super::*;
    use crate::answers::testing::Made;

    /// Three servers beside our own: `slow` takes twice the time, `dear` thrice the CPU.
    fn made(name: &'static str, size: u64, slow: &'static str) -> Made {
        let paths = ["tcp:send", "tcp:send@c", "tcp:send@go", "tcp:send@node"];
        let program = move |case: &msgpath_core::Case| case.path.program.clone().unwrap_or_default();
        let mut build = Build::echo(&paths, &[size]).factor(move |case| if program(case) == slow { 2.0 } else { 1.0 });
        build.plan.programs =
            ["c", "go", "node"].map(|name| Program::parse(&format!("example:{name}")).unwrap()).into();
        build.plan.cases.iter_mut().for_each(|case| case.traits.program = case.path.program.is_some());
        let mut run = build.run();
        for round in &mut run.rounds {
            let sent = round.near().delivery.sent;
            let each = if round.case == 3 { 30_000 } else { 10_000 + u64::from(round.case) };
            let far = round.far_mut();
            *far = Default::default();
            far.user_ns = sent * each;
        }
        run.header.programs =
            vec![ProgramFacts { name: "go".into(), ready_ns: Some(6_000_000), ..ProgramFacts::default() }];
        Made::from(name, run)
    }

    #[test]
    fn the_fastest_the_cheapest_and_the_order_are_told() {
        let made = [made("small", 64, "go"), made("large", 65_536, "node")];
        let page = page(&Made::parts(&made));
        let [fastest, cheapest, large] = &page.answers[..] else { panic!("{:?}", page.answers) };
        assert!(
            fastest.text.starts_with("p50 of 3 servers lies between ") && fastest.text.contains("(go), "),
            "{fastest:?}"
        );
        assert!(fastest.text.contains("the bare loop of msgpath takes ") && fastest.confidence == Confidence::Sure);
        assert!(cheapest.text.starts_with("c with 10.0 µs (95 %"), "{cheapest:?}");
        assert!(
            cheapest.text.contains("node takes 30.0 µs") && cheapest.confidence == Confidence::Sure,
            "{cheapest:?}"
        );
        assert!(
            large.text.contains("with 64 KiB p50 of 3")
                && large.text.contains("which is the faster one with small messages"),
            "{large:?}"
        );
        let table = &page.tables[0];
        assert_eq!((table.rows.len(), table.columns[6].as_str()), (4, "listened after"));
    }

    #[test]
    fn without_servers_nothing_is_said() {
        let alone = [Made::of("small", &Build::echo(&["tcp:send"], &[64]))];
        let page = page(&Made::parts(&alone));
        assert!(page.answers.iter().all(|answer| answer.confidence == Confidence::CantTell), "{:?}", page.answers);
    }
}
