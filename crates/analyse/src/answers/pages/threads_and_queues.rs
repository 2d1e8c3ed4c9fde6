//! The page of the preset `threads-and-queues`: contention or just queueing?
//!
//! Its runs are `threads` (a thread a connection, pinned), `unpinned` (the same without pinning), `depth` (one connection,
//! several messages under way) and `event-loop` (as many connections in one loop, and in a loop each). Within a run cases
//! are compared pass by pass; two runs are not, so what is said of pinning is never more than likely.

use msgpath_core::plan::CaseRole;
use msgpath_core::schema::RoundRecord;
use msgpath_core::units::three_digits;
use msgpath_stats::estimate::Estimate;

use crate::answers::rows::quantile;
use crate::answers::{Answer, Cell, Page, Part, Table, part};
use crate::calm::rounds_of;
use crate::findings::queueing::{Deeper, MAY_HAVE_STAYED, STAYED, deeper, steps, times};
use crate::summary::{CaseSummary, Confidence};
use crate::threads::{arrangement, rates, ratio, time_ratio};

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let answers = [queueing(parts), scaling(parts), little(parts), cores(parts), event_loop(parts), pinning(parts)];
    Page { tables: vec![overview(parts)], answers: answers.into_iter().flatten().collect(), ..Page::default() }
}

fn measured<'a>(part: &Part<'a>) -> impl Iterator<Item = &'a CaseSummary> {
    let asked = |case: &&CaseSummary| case.case.role == CaseRole::Measured && case.rounds > 0;
    part.summary.cases.iter().filter(asked)
}

fn rounds<'a>(part: &Part<'a>) -> Vec<Vec<&'a RoundRecord>> {
    part.run.header.plan.cases.iter().map(|case| rounds_of(part.run, case)).collect()
}

/// Every case: what it got done, how long it took, and whether the two fit.
fn overview(parts: &[Part<'_>]) -> Table {
    let mut table = Table::new(
        "threads-and-queues",
        "Rate, time and depth",
        &[
            "run",
            "case",
            "rate (1/s)",
            "p50",
            "mean",
            "under way",
            "rate x mean",
            "CPUs busy",
            "rate against one thread",
        ],
    );
    for part in parts {
        for case in measured(part) {
            let Some(figures) = &case.threads else { continue };
            table.row([
                Cell::text(part.name),
                Cell::text(arrangement(&case.case)),
                Cell::or_missing(case.rate_per_s.as_ref(), Cell::Number, "no rate"),
                quantile(&case.quantiles, 0.5),
                Cell::or_missing(case.mean_ns, Cell::Time, "no mean"),
                Cell::count(figures.under_way),
                Cell::or_missing(figures.implied.as_ref(), Cell::Number, "no mean"),
                Cell::or_missing(figures.busy_cpus.as_ref(), Cell::Number, "no CPU time"),
                match (&figures.oversubscribed, &figures.scaling) {
                    (Some(crowd), _) => {
                        Cell::text(format!("oversubscribed: {} threads on {} CPUs", crowd.threads, crowd.cpus))
                    }
                    (None, Some(scaling)) => Cell::Ratio((&scaling.factor).into()),
                    (None, None) => Cell::missing("nothing with one thread to compare with"),
                },
            ]);
        }
    }
    table.note("rate x mean is what Little's law says is under way; it must be what was asked for")
}

/// Rate and time of the two cases of a pair.
fn pair_table(name: &str, title: &str, pairs: &[(&str, Deeper<'_>)]) -> Table {
    let mut table = Table::new(name, title, &["run", "from", "to", "in flight", "mean round trip", "rate"]);
    for (run, pair) in pairs {
        table.row([
            Cell::text(*run),
            Cell::text(arrangement(&pair.few.case)),
            Cell::text(arrangement(&pair.many.case)),
            Cell::Ratio(pair.depth().into()),
            Cell::Ratio((&pair.time).into()),
            Cell::Ratio((&pair.rate).into()),
        ]);
    }
    table
}

/// The question of the preset, for every run that changes the depth.
fn queueing(parts: &[Part<'_>]) -> Option<Answer> {
    let question = "Contention or just queueing?";
    let (mut pairs, mut sentences, mut all_steps) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        let (cases, rounds, plan): (Vec<&CaseSummary>, _, _) =
            (measured(part).collect(), rounds(part), &part.run.header.plan);
        for pair in deeper(plan, &cases, &rounds) {
            if pair.few.case.dispatch != pair.many.case.dispatch {
                continue;
            }
            let steps = steps(plan, &cases, &rounds, pair.many);
            sentences.push(of_pair(part.name, &pair, &steps));
            all_steps.extend(steps.into_iter().map(|step| (part.name, step)));
            pairs.push((part.name, pair));
        }
    }
    if pairs.is_empty() {
        return None;
    }
    let rank = |confidence: Confidence| match confidence {
        Confidence::Sure => 0,
        Confidence::Likely => 1,
        Confidence::CantTell => 2,
    };
    // The page is as sure as the least sure of its sentences.
    let confidence = sentences.iter().map(|(confidence, _)| *confidence).max_by_key(|one| rank(*one))?;
    let text: Vec<String> = sentences.into_iter().map(|(_, text)| text).collect();
    let answer = Answer::new(question, confidence, text.join(". "));
    Some(answer.with(pair_table("queueing", "From few in flight to many", &pairs)).with(pair_table(
        "steps",
        "From each depth to the next",
        &all_steps,
    )))
}

/// The pair that is furthest apart, and of the steps between all depths that were measured the one at which the rate
/// changed most: what falls at the first step and stays from there is no mere queue.
fn of_pair(run: &str, pair: &Deeper<'_>, steps: &[Deeper<'_>]) -> (Confidence, String) {
    let mut what = format!(
        "from {} to {} the mean round trip became {} as long and the rate {} as high",
        arrangement(&pair.few.case),
        arrangement(&pair.many.case),
        times(&pair.time),
        times(&pair.rate)
    );
    let most = steps.iter().max_by(|a, b| a.rate.value.ln().abs().total_cmp(&b.rate.value.ln().abs()));
    if let Some(step) = most.filter(|_| steps.len() > 1) {
        what += &format!(
            "; of the {} steps the rate changed most from {} to {}, to {} as high",
            steps.len(),
            arrangement(&step.few.case),
            arrangement(&step.many.case),
            times(&step.rate)
        );
    }
    if most.is_some_and(|step| step.rate.high.is_some_and(|high| high < 1.0 - STAYED)) {
        return (Confidence::Likely, format!("{run}: contention as well, {what}"));
    }
    let grew = pair.time.low.is_some_and(|low| low > 1.0);
    match (pair.rate.low, pair.rate.high) {
        _ if pair.stayed(STAYED) && grew => (Confidence::Sure, format!("{run}: just queueing, {what}")),
        _ if pair.stayed(MAY_HAVE_STAYED) && grew => (Confidence::Likely, format!("{run}: queueing, {what}")),
        (_, Some(high)) if high < 1.0 => (Confidence::Likely, format!("{run}: contention as well, {what}")),
        (Some(low), _) if low > 1.0 => {
            (Confidence::Sure, format!("{run}: the capacity was not reached with the fewer, {what}"))
        }
        _ => (Confidence::CantTell, format!("{run}: not decided, {what}; more rounds would settle it")),
    }
}

/// The factors against one thread, and where none may be claimed.
fn scaling(parts: &[Part<'_>]) -> Option<Answer> {
    let question = "Do more threads bring more?";
    let part = part(parts, "threads")?;
    let mut table = Table::new(
        "scaling",
        "Rate against one thread",
        &["threads", "threads of both ends", "CPUs", "factor", "of the proportion"],
    );
    let (mut claimed, mut crowded): (Vec<(&CaseSummary, &Estimate)>, Vec<u32>) = (Vec::new(), Vec::new());
    for case in measured(&part) {
        let (Some(figures), true) = (&case.threads, case.case.threads > 1) else { continue };
        let Some(scaling) = &figures.scaling else { continue };
        let cpus = figures.oversubscribed.as_ref().map(|crowd| crowd.cpus);
        table.row([
            Cell::count(case.case.threads.into()),
            Cell::count(2 * u64::from(case.case.threads)),
            cpus.map_or_else(|| Cell::text("enough"), Cell::count),
            Cell::Ratio((&scaling.factor).into()),
            match cpus {
                Some(_) => Cell::text("oversubscribed, not scaling"),
                None => Cell::Share((&scaling.efficiency).into()),
            },
        ]);
        match cpus {
            Some(_) => crowded.push(case.case.threads),
            None => claimed.push((case, &scaling.factor)),
        }
    }
    let best = claimed.iter().max_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let crowd = measured(&part).find_map(|case| case.threads.as_ref()?.oversubscribed.clone());
    let also = match (crowded.first(), &crowd) {
        (Some(first), Some(crowd)) => {
            format!(
                "; from {first} threads on both ends have more threads than the {} CPUs, and no factor is claimed",
                crowd.cpus
            )
        }
        _ => String::new(),
    };
    let Some((case, factor)) = best else {
        let Some(crowd) = crowd else { return Some(Answer::cannot(question, "one thread count was measured")) };
        let because = format!(
            "{} threads of both ends share {} CPUs already with {} at each: oversubscribed, not scaling",
            2 * u64::from(*crowded.first()?),
            crowd.cpus,
            crowded.first()?
        );
        return Some(
            Answer::cannot(question, because).with(table).next("a machine with more CPUs, or --between two machines"),
        );
    };
    let what = format!("with {} threads the rate is {} that of one{also}", case.case.threads, times(factor));
    let (confidence, text) = match (factor.low, factor.high) {
        (Some(low), _) if low > 1.0 => (Confidence::Sure, format!("They do: {what}")),
        (_, Some(high)) if high < 1.0 => (Confidence::Sure, format!("They take away: {what}")),
        _ => (Confidence::CantTell, format!("No difference is shown: {what}; more rounds would settle it")),
    };
    Some(Answer::new(question, confidence, text).with(table))
}

/// What is under way by rate and time, beside what was asked for: how far the worst case is off.
fn little(parts: &[Part<'_>]) -> Option<Answer> {
    let question = "Do depth and service time explain the round trips?";
    let all = parts.iter().flat_map(|part| measured(part).map(move |case| (part, case)));
    let off = |case: &CaseSummary| {
        let figures = case.threads.as_ref()?;
        Some(figures.implied.as_ref()?.value / figures.under_way as f64)
    };
    let cases: Vec<_> = all.filter_map(|(part, case)| Some((part, case, off(case)?))).collect();
    let (part, case, worst) = cases.iter().max_by(|a, b| a.2.ln().abs().total_cmp(&b.2.ln().abs()))?;
    let text = format!(
        "rate times mean round trip is what was asked for in {} cases, at worst {} times it ({}, {})",
        cases.len(),
        three_digits(*worst),
        part.name,
        arrangement(&case.case)
    );
    Some(if (0.9..=1.1).contains(worst) {
        Answer::new(question, Confidence::Sure, format!("They do: {text}. A mean tells nothing that the rate does not"))
    } else if *worst < 1.0 {
        let reason = "connections that were done early, or time between replies and the next sends, make it less";
        Answer::new(question, Confidence::Likely, format!("Not all of them: {text}; {reason}"))
    } else {
        Answer::new(
            question,
            Confidence::CantTell,
            format!("Not all of them: {text}, which a closed loop cannot reach; one of the counts is wrong"),
        )
    })
}

/// How busy CPUs were, by the fullest.
fn cores(parts: &[Part<'_>]) -> Option<Answer> {
    let question = "Which CPU is full?";
    let mut table =
        Table::new("cores", "Time that measuring threads ran, by CPU", &["run", "case", "CPU", "threads", "busy"]);
    let mut fullest: Option<(String, u32, Estimate)> = None;
    let mut pinned = false;
    for part in parts {
        for case in measured(part) {
            for core in case.threads.iter().flat_map(|figures| &figures.cores) {
                pinned = true;
                table.row([
                    Cell::text(part.name),
                    Cell::text(arrangement(&case.case)),
                    Cell::text(format!("{}{}{}", core.end, if core.end.is_empty() { "" } else { " " }, core.cpu)),
                    Cell::count(core.threads),
                    Cell::or_missing(core.busy.as_ref(), Cell::Share, "no CPU time"),
                ]);
                if let Some(busy) = &core.busy
                    && fullest.as_ref().is_none_or(|(_, _, most)| busy.value > most.value)
                {
                    fullest = Some((format!("{}, {}", part.name, arrangement(&case.case)), core.cpu, busy.clone()));
                }
            }
        }
    }
    let Some((case, cpu, busy)) = fullest else {
        let why = if pinned {
            "no CPU time was counted"
        } else {
            "no thread was pinned, or threads were not recorded one by one"
        };
        return Some(Answer::cannot(question, why));
    };
    let share = |value: f64| format!("{:.0} %", 100.0 * value.min(1.0));
    let what = format!("CPU {cpu} ran measuring threads {} of the time at most ({case})", share(busy.value));
    let (confidence, text) = match (busy.low, busy.high) {
        (Some(low), _) if low > 0.9 => (Confidence::Sure, format!("CPU {cpu} is: {what}")),
        (_, Some(high)) if high < 0.9 => (
            Confidence::Sure,
            format!("None by the measuring threads alone: {what}; the rest is waiting, interrupts and others"),
        ),
        _ => (Confidence::CantTell, format!("Not decided: {what}")),
    };
    Some(Answer::new(question, confidence, text).with(table))
}

/// The same connections in one loop and in a loop each, paired.
fn event_loop(parts: &[Part<'_>]) -> Option<Answer> {
    let question = "One event loop, or a thread for each connection?";
    let part = part(parts, "event-loop")?;
    let (cases, rounds, plan): (Vec<&CaseSummary>, _, _) =
        (measured(&part).collect(), rounds(&part), &part.run.header.plan);
    let one = cases.iter().find(|case| case.case.threads == 1 && case.case.connections > 1);
    let each = cases.iter().find(|case| case.case.threads == case.case.connections && case.case.threads > 1);
    let (Some(one), Some(each)) = (one, each) else {
        return Some(Answer::cannot(question, "not both of them were measured"));
    };
    let of = |case: &CaseSummary| &rounds[case.case.id as usize];
    let rate = ratio(plan, &one.case, &each.case, &rates(plan, of(one)), &rates(plan, of(each)))?;
    let time = time_ratio(plan, &one.case, &each.case, of(one), of(each))?;
    let mut table = Table::new(
        "event-loop",
        "The same connections, served in two ways",
        &["case", "rate (1/s)", "p50", "p99", "CPU per message", "calls per message", "switches per message"],
    );
    for case in [one, each] {
        let (near, far) = (&case.near_cost, &case.far_cost);
        table.row([
            Cell::text(arrangement(&case.case)),
            Cell::or_missing(case.rate_per_s.as_ref(), Cell::Number, "no rate"),
            quantile(&case.quantiles, 0.5),
            quantile(&case.quantiles, 0.99),
            Cell::Time((near.user_ns + near.system_ns + far.user_ns + far.system_ns).into()),
            Cell::Number((near.calls + far.calls).into()),
            Cell::Number((near.voluntary + near.involuntary + far.voluntary + far.involuntary).into()),
        ]);
    }
    let what = format!(
        "{} did {} as much as {} and took {} as long on average",
        arrangement(&one.case),
        times(&rate),
        arrangement(&each.case),
        times(&time)
    );
    let crowd = each.threads.as_ref().and_then(|figures| figures.oversubscribed.as_ref());
    let note = crowd.map_or_else(String::new, |crowd| {
        format!(
            ". The {} threads of the latter share {} CPUs, so this holds for a machine that is oversubscribed",
            crowd.threads, crowd.cpus
        )
    });
    let (confidence, text) = match (rate.low, rate.high) {
        (Some(low), _) if low > 1.0 => (Confidence::Sure, format!("One event loop: {what}{note}")),
        (_, Some(high)) if high < 1.0 => (Confidence::Sure, format!("A thread for each: {what}{note}")),
        _ => (Confidence::CantTell, format!("No difference is shown: {what}; more rounds would settle it{note}")),
    };
    Some(Answer::new(question, confidence, text).with(table))
}

/// Pinned and unpinned, two runs apart: intervals that do not touch make it likely, nothing makes it sure.
fn pinning(parts: &[Part<'_>]) -> Option<Answer> {
    let question = "Does pinning matter?";
    let (pinned, free) = (part(parts, "threads")?, part(parts, "unpinned")?);
    let mut table =
        Table::new("pinning", "Rate with and without pinned threads", &["threads", "pinned (1/s)", "not pinned (1/s)"]);
    let mut apart: Vec<(u32, f64)> = Vec::new();
    for case in measured(&pinned) {
        let other = measured(&free).find(|other| other.case.threads == case.case.threads);
        let (Some(own), Some(other)) = (&case.rate_per_s, other.and_then(|other| other.rate_per_s.as_ref())) else {
            continue;
        };
        table.row([Cell::count(case.case.threads.into()), Cell::Number(own.into()), Cell::Number(other.into())]);
        let below = |a: &Estimate, b: &Estimate| a.high.zip(b.low).is_some_and(|(high, low)| high < low);
        if below(own, other) || below(other, own) {
            apart.push((case.case.threads, own.value / other.value));
        }
    }
    if table.rows.is_empty() {
        return None;
    }
    let widest = apart.iter().max_by(|a, b| a.1.ln().abs().total_cmp(&b.1.ln().abs()));
    Some(match widest {
        Some((threads, ratio)) => Answer::new(
            question,
            Confidence::Likely,
            format!(
                "It does: pinned threads did {} times as much at {threads} a side, the largest difference; the intervals lie \
                 apart at {} of {} thread counts. The two runs followed each other, so the machine may have changed between them",
                three_digits(*ratio),
                apart.len(),
                table.rows.len()
            ),
        ),
        None => Answer::new(
            question,
            Confidence::CantTell,
            format!("No difference is shown: the intervals overlap at all of {} thread counts", table.rows.len()),
        ),
    }
    .with(table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Logs;
    use crate::threads::testing::{closed, serve};
    use msgpath_core::plan::Dispatch;
    use msgpath_record::Run;

    fn made(runs: &[(&str, Run)]) -> Page {
        let logs = Logs::default();
        let summaries: Vec<_> = runs.iter().map(|(_, run)| crate::summarise(run)).collect();
        let parts: Vec<Part<'_>> = runs
            .iter()
            .zip(&summaries)
            .map(|((name, run), summary)| Part { name, run, summary, logs: &logs })
            .collect();
        page(&parts)
    }

    #[track_caller]
    fn answer(page: &Page, question: &str) -> (Confidence, String) {
        let answer = page.answers.iter().find(|answer| answer.question.starts_with(question));
        let answer = answer.unwrap_or_else(|| panic!("{question}: {:?}", page.answers));
        (answer.confidence, answer.text.clone())
    }

    #[test]
    fn a_machine_with_room_scales_until_its_capacity() {
        let page = made(&[("threads", closed(&[1, 2, 8], 2.0, 32)), ("unpinned", closed(&[1, 2, 8], 1.0, 32))]);
        let (confidence, text) = answer(&page, "Do more threads");
        assert!(
            confidence == Confidence::Sure && text.starts_with("They do: ") && !text.contains("no factor"),
            "{text}"
        );
        let (confidence, text) = answer(&page, "Contention");
        assert!(
            confidence == Confidence::Sure && text.starts_with("threads: just queueing, from 2 connections"),
            "{text}"
        );
        let (confidence, text) = answer(&page, "Do depth");
        assert!(confidence == Confidence::Sure && text.starts_with("They do: "), "{text}");
        let (confidence, text) = answer(&page, "Does pinning");
        assert!(confidence == Confidence::Likely && text.contains("2.0"), "{text}");
        assert_eq!(page.tables[0].rows.len(), 6);
    }

    #[test]
    fn an_oversubscribed_machine_claims_no_factor() {
        let page = made(&[("threads", closed(&[1, 2, 8], 1.0, 2)), ("unpinned", closed(&[1, 2, 8], 1.0, 2))]);
        let (confidence, text) = answer(&page, "Do more threads");
        assert!(
            confidence == Confidence::CantTell && text.contains("4 threads of both ends share 2 CPUs already with 2"),
            "{text}"
        );
        let (confidence, text) = answer(&page, "Does pinning");
        assert!(confidence == Confidence::CantTell && text.starts_with("No difference"), "{text}");
        let (_, text) = answer(&page, "Which CPU");
        assert!(text.starts_with("CPU 0 is: ") || text.starts_with("CPU 1 is: "), "{text}");
    }

    #[test]
    fn contention_and_an_unfinished_story_are_told_apart() {
        let mut run = closed(&[1, 8], 1.0, 32);
        let case = run.header.plan.cases[1].clone();
        run.rounds.iter_mut().filter(|round| round.case == 1).for_each(|round| serve(round, &case, 0.5));
        let (confidence, text) = answer(&made(&[("threads", run)]), "Contention");
        assert!(confidence == Confidence::Likely && text.contains("contention as well"), "{text}");
        let (_, text) = answer(&made(&[("threads", closed(&[1, 8], 8.0, 32))]), "Contention");
        assert!(text.contains("the capacity was not reached"), "{text}");
    }

    #[test]
    fn a_fall_at_the_first_step_is_named() {
        let mut run = closed(&[2, 4, 16], 2.0, 64);
        let cases = run.header.plan.cases.clone();
        // From two to four connections the rate falls to three quarters, and stays there.
        for round in run.rounds.iter_mut().filter(|round| round.case > 0) {
            serve(round, &cases[round.case as usize], 1.5);
        }
        let (confidence, text) = answer(&made(&[("threads", run)]), "Contention");
        assert!(confidence == Confidence::Likely && text.contains("contention as well"), "{text}");
        assert!(
            text.contains("of the 2 steps the rate changed most from 2 connections, a thread each to 4 connections"),
            "{text}"
        );
    }

    #[test]
    fn the_loop_and_the_threads_are_compared_in_their_own_run() {
        let event_loop = |factor: f64| {
            let mut run = closed(&[1, 16], 1.0, 2);
            for case in &mut run.header.plan.cases {
                (case.connections, case.dispatch) = (16, Dispatch::EventLoop);
            }
            let cases = run.header.plan.cases.clone();
            for round in &mut run.rounds {
                serve(round, &cases[round.case as usize], if round.case == 0 { factor } else { 1.0 });
            }
            answer(&made(&[("event-loop", run)]), "One event loop")
        };
        let (confidence, text) = event_loop(1.5);
        assert!(
            confidence == Confidence::Sure
                && text.starts_with("One event loop: 16 connections in one event loop did 1."),
            "{text}"
        );
        assert!(text.contains("oversubscribed"), "{text}");
        assert!(event_loop(0.5).1.starts_with("A thread for each: "));
        assert!(!matches!(event_loop(1.0), (Confidence::Sure, text) if text.starts_with("A thread")));
    }

    #[test]
    fn nothing_is_said_of_runs_that_are_not_there() {
        let page = made(&[]);
        assert!(page.answers.iter().all(|answer| answer.confidence == Confidence::CantTell), "{:?}", page.answers);
        assert!(page.tables[0].rows.is_empty());
    }
}
