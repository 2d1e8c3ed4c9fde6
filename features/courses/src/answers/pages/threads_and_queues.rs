//! The page of the preset `threads-and-queues`: contention or just queueing?
//!
//! Its runs are `threads` (a thread a connection, pinned), `unpinned` (the same without pinning), `depth` (one connection,
//! several messages in flight) and `event-loop` (as many connections in one loop, and in a loop each). Within a run cases
//! are compared pass by pass; two runs are not, so what is said of pinning is never more than likely.

use msgpath_analyse::findings::queueing::{Deeper, MAY_HAVE_STAYED, STAYED, deeper, steps, times};
use msgpath_analyse::summary::{CaseSummary, Confidence};
use msgpath_analyse::threads::{CoreUse, arrangement, rates, ratio, time_ratio};
use msgpath_core::schema::{FAR, NEAR, RoundRecord};
use msgpath_core::units::three_digits;
use msgpath_stats::estimate::Estimate;

use crate::answers::answered::{Answered, Cannot, answer, likely, say, sure, unsure};
use crate::answers::columns::{Columns, number_or, quantile_cell, share_or, table, time_or};
use crate::answers::evidence::{above, below, beside_one, cpu_ns, distance, extremes};
use crate::answers::words::weakest;
use crate::answers::{Answer, Cell, Page, Part, Table, part};

type Ask = fn(&[Part<'_>]) -> Option<Answered>;
/// Questions, each of which is left out where no run touches it.
const QUESTIONS: [(&str, Ask); 6] = [
    ("Contention or just queueing?", queueing),
    ("Do more threads bring more?", scaling),
    ("Do depth and rate explain the round trips?", little),
    ("Which CPU is full?", |parts| Some(cores(parts))),
    ("One event loop, or a thread for each connection?", event_loop),
    ("Does pinning matter?", pinning),
];

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let answers = QUESTIONS.iter().filter_map(|(question, ask)| Some(answer(*question, ask(parts)?)));
    Page { tables: vec![overview(parts)], answers: answers.collect(), ..Page::default() }
}

fn all<'a>(parts: &[Part<'a>]) -> Vec<(Part<'a>, &'a CaseSummary)> {
    parts.iter().flat_map(|part| part.measured().map(move |case| (*part, case))).collect()
}

/// The rounds of every case of a run.
fn rounds<'a>(part: &Part<'a>) -> Vec<Vec<&'a RoundRecord>> {
    part.run.header.plan.cases.iter().map(|case| part.rounds(case)).collect()
}

/// Every case: what it got done, how long it took, and whether the two fit.
fn overview(parts: &[Part<'_>]) -> Table {
    let rows = all(parts).into_iter().filter_map(|(part, case)| Some((part, case, case.threads.as_ref()?)));
    table("threads-and-queues", "Rate, time and depth", rows)
        .col("run", |(part, ..)| part.name)
        .col("case", |(_, case, _)| arrangement(&case.case))
        .col("rate (1/s)", |(_, case, _)| number_or(case.rate_per_s.as_ref(), "no rate"))
        .col("p50", |(_, case, _)| quantile_cell(&case.latency.quantiles, 0.5))
        .col("mean", |(_, case, _)| time_or(case.latency.mean_ns, "no mean"))
        .col("in flight", |(.., figures)| Cell::count(figures.in_flight))
        .col("rate x mean", |(.., figures)| number_or(figures.implied.as_ref(), "no mean"))
        .col("CPUs busy", |(.., figures)| number_or(figures.busy_cpus.as_ref(), "no CPU time"))
        .col("rate against one thread", |(.., figures)| match (&figures.oversubscribed, &figures.scaling) {
            (Some(crowd), _) => Cell::text(format!("oversubscribed: {} threads on {} CPUs", crowd.threads, crowd.cpus)),
            (None, Some(scaling)) => Cell::Ratio((&scaling.factor).into()),
            (None, None) => Cell::missing("nothing with one thread to compare with"),
        })
        .note("rate x mean is what Little's law says is in flight; it must be what was asked for")
}

/// Rate and time of the two cases of each pair.
fn pair_table<'a>(name: &str, title: &str, pairs: &'a [(&'a str, Deeper<'a>)]) -> Columns<&'a (&'a str, Deeper<'a>)> {
    table(name, title, pairs)
        .col("run", |(run, _)| *run)
        .col("from", |(_, pair)| arrangement(&pair.few.case))
        .col("to", |(_, pair)| arrangement(&pair.many.case))
        .col("in flight", |(_, pair)| Cell::Ratio(pair.depth().into()))
        .col("mean round trip", |(_, pair)| Cell::Ratio((&pair.time).into()))
        .col("rate", |(_, pair)| Cell::Ratio((&pair.rate).into()))
}

/// The question of the preset, for every run that changes the depth.
fn queueing(parts: &[Part<'_>]) -> Option<Answered> {
    let (mut pairs, mut output, mut all_steps) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        let (cases, rounds, plan): (Vec<_>, _, _) = (part.measured().collect(), rounds(part), &part.run.header.plan);
        for pair in deeper(plan, &cases, &rounds) {
            if pair.few.case.dispatch != pair.many.case.dispatch {
                continue;
            }
            let steps = steps(plan, &cases, &rounds, pair.many);
            output.push(of_pair(part.name, &pair, &steps));
            all_steps.extend(steps.into_iter().map(|step| (part.name, step)));
            pairs.push((part.name, pair));
        }
    }
    let text: Vec<&str> = output.iter().map(|(_, text)| text.as_str()).collect();
    let answer = say(weakest(output.iter().map(|(confidence, _)| *confidence)), text.join(". "));
    let answer = answer.with(pair_table("queueing", "From few in flight to many", &pairs));
    (!pairs.is_empty()).then(|| Ok(answer.with(pair_table("steps", "From each depth to the next", &all_steps))))
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
    let most = extremes(steps, |step| distance(step.rate.value)).map(|(_, most)| most);
    if let Some(step) = most.filter(|_| steps.len() > 1) {
        let (all, from, to) = (steps.len(), arrangement(&step.few.case), arrangement(&step.many.case));
        let high = times(&step.rate);
        what += &format!("; of the {all} steps the rate changed most from {from} to {to}, to {high} as high");
    }
    let grew = above(&pair.time, 1.0);
    let (confidence, lead, end) = match &pair.rate {
        _ if most.is_some_and(|step| below(&step.rate, 1.0 - STAYED)) => (Confidence::Likely, "contention as well", ""),
        _ if pair.stayed(STAYED) && grew => (Confidence::Sure, "just queueing", ""),
        _ if pair.stayed(MAY_HAVE_STAYED) && grew => (Confidence::Likely, "queueing", ""),
        rate if below(rate, 1.0) => (Confidence::Likely, "contention as well", ""),
        rate if above(rate, 1.0) => (Confidence::Sure, "the capacity was not reached with the fewer", ""),
        _ => (Confidence::CantTell, "not decided", "; more rounds would settle it"),
    };
    (confidence, format!("{run}: {lead}, {what}{end}"))
}

/// What is said of a ratio: that it is above 1, below, or not shown to be either.
fn compared(ratio: &Estimate, higher: &str, lower: &str, what: &str, note: &str) -> Answer {
    beside_one(
        ratio,
        sure(format!("{higher}: {what}{note}")),
        sure(format!("{lower}: {what}{note}")),
        unsure(format!("No difference is shown: {what}; more rounds would settle it{note}")),
    )
}

/// The factors against one thread, and where none may be claimed.
fn scaling(parts: &[Part<'_>]) -> Option<Answered> {
    let part = part(parts, "threads")?;
    let of = |case: &'_ CaseSummary| {
        let figures = case.threads.as_ref().filter(|_| case.case.threads > 1)?;
        Some((figures.scaling.clone()?, figures.oversubscribed.as_ref().map(|crowd| crowd.cpus)))
    };
    let rows: Vec<_> =
        part.measured().filter_map(|case| of(case).map(|(scaling, cpus)| (case, scaling, cpus))).collect();
    let evidence = table("scaling", "Rate against one thread", &rows)
        .col("threads", |(case, ..)| Cell::count(case.case.threads.into()))
        .col("threads of both ends", |(case, ..)| Cell::count(2 * u64::from(case.case.threads)))
        .col("CPUs", |(.., cpus)| cpus.map_or_else(|| Cell::text("enough"), Cell::count))
        .col("factor", |(_, scaling, _)| Cell::Ratio((&scaling.factor).into()))
        .col("of the proportion", |(_, scaling, cpus)| match cpus {
            Some(_) => Cell::text("oversubscribed, not scaling"),
            None => Cell::Share((&scaling.efficiency).into()),
        });
    let claimed: Vec<_> = rows.iter().filter(|(.., cpus)| cpus.is_none()).collect();
    let first = rows.iter().find(|(.., cpus)| cpus.is_some()).map(|(case, ..)| case.case.threads);
    let crowd = part.measured().find_map(|case| case.threads.as_ref()?.oversubscribed.clone());
    let Some((_, (case, scaling, _))) = extremes(&claimed, |(_, scaling, _)| scaling.factor.value) else {
        let Some(crowd) = crowd else { return Some(Err("one thread count was measured".into())) };
        let first = first?;
        let because = format!(
            "{} threads of both ends share {} CPUs already with {first} at each: oversubscribed, not scaling",
            2 * u64::from(first),
            crowd.cpus
        );
        let next = "a machine with more CPUs, or --between two machines";
        return Some(Err(Cannot::from(because).with(evidence).next(next)));
    };
    let also = first.zip(crowd).map_or_else(String::new, |(first, crowd)| {
        let cpus = crowd.cpus;
        format!("; from {first} threads on both ends have more threads than the {cpus} CPUs, and no factor is claimed")
    });
    let what = format!("with {} threads the rate is {} that of one{also}", case.case.threads, times(&scaling.factor));
    Some(Ok(compared(&scaling.factor, "They do", "They take away", &what, "").with(evidence)))
}

/// What is in flight by rate and time, beside what was asked for: how far the worst case is off.
fn little(parts: &[Part<'_>]) -> Option<Answered> {
    let off = |case: &CaseSummary| {
        let figures = case.threads.as_ref()?;
        Some(figures.implied.as_ref()?.value / figures.in_flight as f64)
    };
    let cases: Vec<_> = all(parts).into_iter().filter_map(|(part, case)| Some((part, case, off(case)?))).collect();
    let (_, (part, case, worst)) = extremes(&cases, |(.., off)| distance(*off))?;
    let text = format!(
        "rate times mean round trip is what was asked for in {} cases, at worst {} times it ({}, {})",
        cases.len(),
        three_digits(*worst),
        part.name,
        arrangement(&case.case)
    );
    Some(Ok(match *worst {
        0.9..=1.1 => sure(format!("They do: {text}. A mean tells nothing that the rate does not")),
        ..1.0 => likely(format!(
            "Not all of them: {text}; connections that were done early, or time between replies and the next sends, make it \
             less"
        )),
        _ => unsure(format!("Not all of them: {text}, which a closed loop cannot reach; one of the counts is wrong")),
    }))
}

/// How busy CPUs were, by the fullest.
fn cores(parts: &[Part<'_>]) -> Answered {
    let of = |(part, case): (Part<'_>, &'_ CaseSummary)| {
        let case_name = arrangement(&case.case);
        let cores = case.threads.iter().flat_map(|figures| figures.cores.clone());
        let name = part.name.to_owned();
        cores.map(move |core| (name.clone(), case_name.clone(), core)).collect::<Vec<_>>()
    };
    let rows: Vec<_> = all(parts).into_iter().flat_map(of).collect();
    let mut fullest: Option<(&(String, String, _), &Estimate)> = None;
    for row in &rows {
        let core: &CoreUse = &row.2;
        if let Some(busy) = &core.busy
            && fullest.is_none_or(|(_, most)| busy.value > most.value)
        {
            fullest = Some((row, busy));
        }
    }
    let Some(((run, case, core), busy)) = fullest else {
        let pinned = !rows.is_empty();
        let unpinned = "no thread was pinned, or threads were not recorded one by one";
        return Err(if pinned { "no CPU time was counted" } else { unpinned }.into());
    };
    let cpu = core.cpu;
    let share = 100.0 * busy.value.min(1.0);
    let what = format!("CPU {cpu} ran measuring threads {share:.0} % of the time at most ({run}, {case})");
    let output = match busy {
        busy if above(busy, 0.9) => sure(format!("CPU {cpu} is: {what}")),
        busy if below(busy, 0.9) => {
            sure(format!("None by the measuring threads alone: {what}; the rest is waiting, interrupts and others"))
        }
        _ => unsure(format!("Not decided: {what}")),
    };
    let evidence = table("cores", "Time that measuring threads ran, by CPU", &rows)
        .col("run", |(run, ..)| run)
        .col("case", |(_, case, _)| case)
        .col("CPU", |(.., core)| format!("{}{}{}", core.end, if core.end.is_empty() { "" } else { " " }, core.cpu))
        .col("threads", |(.., core)| Cell::count(core.threads))
        .col("busy", |(.., core)| share_or(core.busy.as_ref(), "no CPU time"));
    Ok(output.with(evidence))
}

/// The same connections in one loop and in a loop each, paired.
fn event_loop(parts: &[Part<'_>]) -> Option<Answered> {
    let part = part(parts, "event-loop")?;
    let rounds = rounds(&part);
    let plan = &part.run.header.plan;
    let one = part.find(|case| case.case.threads == 1 && case.case.connections > 1);
    let each = part.find(|case| case.case.threads == case.case.connections && case.case.threads > 1);
    let Some((one, each)) = one.zip(each) else { return Some(Err("not both of them were measured".into())) };
    let of = |case: &CaseSummary| &rounds[case.case.id as usize];
    let rate = ratio(plan, &one.case, &each.case, &rates(plan, of(one)), &rates(plan, of(each)))?;
    let time = time_ratio(plan, &one.case, &each.case, of(one), of(each))?;
    let both = |case: &CaseSummary, of: fn(&msgpath_analyse::summary::Cost) -> f64| {
        Cell::Number((of(&case.end(NEAR).cost) + of(&case.end(FAR).cost)).into())
    };
    let evidence = table("event-loop", "The same connections, served in two ways", [one, each])
        .col("case", |case| arrangement(&case.case))
        .col("rate (1/s)", |case| number_or(case.rate_per_s.as_ref(), "no rate"))
        .col("p50", |case| quantile_cell(&case.latency.quantiles, 0.5))
        .col("p99", |case| quantile_cell(&case.latency.quantiles, 0.99))
        .col("CPU per message", |case| Cell::Time(cpu_ns(case).into()))
        .col("calls per message", |case| both(case, |cost| cost.calls))
        .col("switches per message", |case| both(case, |cost| cost.voluntary + cost.involuntary));
    let what = format!(
        "{} did {} as much as {} and took {} as long on average",
        arrangement(&one.case),
        times(&rate),
        arrangement(&each.case),
        times(&time)
    );
    let crowd = each.threads.as_ref().and_then(|figures| figures.oversubscribed.as_ref());
    let note = crowd.map_or_else(String::new, |crowd| {
        let (threads, cpus) = (crowd.threads, crowd.cpus);
        format!(
            ". The {threads} threads of the latter share {cpus} CPUs, so this holds for a machine that is oversubscribed"
        )
    });
    Some(Ok(compared(&rate, "One event loop", "A thread for each", &what, &note).with(evidence)))
}

/// Pinned and unpinned, two runs apart: intervals that do not touch make it likely, nothing makes it sure.
fn pinning(parts: &[Part<'_>]) -> Option<Answered> {
    let (pinned, free) = (part(parts, "threads")?, part(parts, "unpinned")?);
    let of = |case: &'_ CaseSummary| {
        let other = free.find(|other| other.case.threads == case.case.threads)?;
        Some((case.case.threads, case.rate_per_s.clone()?, other.rate_per_s.clone()?))
    };
    let rows: Vec<(u32, Estimate, Estimate)> = pinned.measured().filter_map(of).collect();
    let under = |a: &Estimate, b: &Estimate| a.high.zip(b.low).is_some_and(|(high, low)| high < low);
    let apart = rows.iter().filter(|(_, own, other)| under(own, other) || under(other, own));
    let apart: Vec<(u32, f64)> = apart.map(|(threads, own, other)| (*threads, own.value / other.value)).collect();
    let all = rows.len();
    let output = match extremes(&apart, |(_, ratio)| distance(*ratio)) {
        Some((_, (threads, ratio))) => likely(format!(
            "It does: pinned threads did {} times as much at {threads} a side, the largest difference; the intervals lie apart \
             at {} of {all} thread counts. The two runs followed each other, so the machine may have changed between them",
            three_digits(*ratio),
            apart.len()
        )),
        None => unsure(format!("No difference is shown: the intervals overlap at all of {all} thread counts")),
    };
    let evidence = table("pinning", "Rate with and without pinned threads", &rows)
        .col("threads", |(threads, ..)| Cell::count((*threads).into()))
        .col("pinned (1/s)", |(_, own, _)| Cell::Number(own.into()))
        .col("not pinned (1/s)", |(.., other)| Cell::Number(other.into()));
    (all > 0).then(|| Ok(output.with(evidence)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_analyse::Logs;
    use msgpath_analyse::threads::testing::{closed, serve};
    use msgpath_core::plan::Dispatch;
    use msgpath_record::Run;

    fn made(runs: &[(&str, Run)]) -> Page {
        let logs = Logs::default();
        let summaries: Vec<_> = runs.iter().map(|(_, run)| msgpath_analyse::summarise(run)).collect();
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
