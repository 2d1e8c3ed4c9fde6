//! The page of the preset `load-curve`: latency at a given rate, and where the knee is.

use msgpath_analyse::summary::{CaseSummary, Confidence, LoadCurve, OpenLoop, yes_or_no};
use msgpath_stats::quantile::{Quantile, name};

use crate::answers::answered::{Answered, answer, answers, say};
use crate::answers::cell::{Cell, Value};
use crate::answers::columns::{quantile_cell, ratio_or, share_or, table};
use crate::answers::evidence::{above, beyond, claimed, extremes, over};
use crate::answers::words::{percent, ratio_with, time_with};
use crate::answers::{Page, Part, Table, part};
use msgpath_analyse::findings::knee::confidence_of;
use msgpath_analyse::words::interval;
use msgpath_core::units::per_second as rate;

const KNEE: &str = "At which rate does it become slow?";
type Ask = fn(&Load<'_>) -> Answered;
const QUESTIONS: &[(&str, Ask)] =
    &[("How much does the path take?", capacity), (KNEE, knee), ("What would a closed loop have said?", hidden)];
const LONGER: &str = "msgpath preset load-curve -- -t 20s";

/// The rates of an open loop, rising, and the closed loop beside them.
struct Load<'a> {
    open: Part<'a>,
    closed: Option<&'a CaseSummary>,
    points: Vec<Point<'a>>,
}

type Point<'a> = (&'a CaseSummary, &'a OpenLoop);

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let Some(open) = part(parts, "open") else {
        return Page { answers: vec![answer(KNEE, Err("the run open is missing".into()))], ..Page::default() };
    };
    let mut points: Vec<Point<'_>> = open.measured().filter_map(|case| Some((case, case.open.as_ref()?))).collect();
    points.sort_by_key(|(case, _)| case.case.load.rate());
    let load = Load { open, closed: part(parts, "closed").and_then(|part| part.measured().next()), points };
    let tables = vec![curve(&load.points), definitions(&load.points)];
    Page { tables, answers: answers(&load, QUESTIONS), ..Page::default() }
}

/// The capacity that the rates are shares of, the lowest attempt, and how many there were.
fn found(points: &[Point<'_>]) -> Option<(f64, f64, usize)> {
    let of = points.iter().find_map(|(case, _)| case.case.of_capacity.as_ref())?;
    Some((of.capacity()?.value(), of.attempts.first()?.value(), of.attempts.len()))
}

fn share_of(case: &CaseSummary) -> Cell {
    share_or(case.case.of_capacity.as_ref().map(|of| of.share()), "an absolute rate")
}

/// A quantile of a rate that was not sustained says how long the round was.
fn sustained(open: &OpenLoop, quantiles: &[Quantile], p: f64) -> Cell {
    if open.overloaded().is_none() { quantile_cell(quantiles, p) } else { Cell::missing("not sustained") }
}

fn curve(points: &[Point<'_>]) -> Table {
    table("load-curve", "latency from the intended send, by offered rate", points)
        .col("of capacity", |(case, _)| share_of(case))
        .col("offered/s", |(_, open)| Cell::Number(open.offered_per_s.into()))
        .col("achieved/s", |(_, open)| Cell::Number((&open.achieved_per_s).into()))
        .cols([0.5, 0.9, 0.99, 0.999], |p| name(*p), |(case, open), p| sustained(open, &case.latency.quantiles, *p))
        .col("sustained", |(_, open)| yes_or_no(open.sustained))
        .into()
}

fn definitions(points: &[Point<'_>]) -> Table {
    let columns = [(0.5, true), (0.5, false), (0.99, true), (0.99, false)];
    table("two-definitions", "the same messages from the intended and from the actual send", points)
        .col("of capacity", |(case, _)| share_of(case))
        .cols(
            columns,
            |(p, intended)| format!("{} {}", name(*p), if *intended { "intended" } else { "actual" }),
            |(case, open), (p, intended)| sustained(open, if *intended { &case.latency.quantiles } else { &open.service }, *p),
        )
        .col("intended to actual, p99", |point| ratio_or(both(point).map(|(a, b)| over(a, b)), "no interval"))
        .col("sent late", |(_, open)| Cell::Share(open.late_share.into()))
        .note("sent late: more than a mean gap after its time. A late message is sent at once and keeps its intended time")
}

/// p99 from the intended and from the actual send, where both are claims.
fn both((case, open): &Point<'_>) -> Option<(Value, Value)> {
    claimed(&case.latency.quantiles, 0.99).zip(claimed(&open.service, 0.99)).filter(|_| open.overloaded().is_none())
}

fn capacity(load: &Load<'_>) -> Answered {
    let (capacity, lowest, attempts) =
        found(&load.points).ok_or("the rates are absolute ones, no capacity was looked for")?;
    let last = load.points.iter().rfind(|(_, open)| open.sustained == Some(true));
    let over = load.points.iter().find(|(_, open)| open.overloaded().is_some()).map(|(_, above)| above.asked_per_s);
    let (confidence, schedule) = match (last.map(|(case, below)| (case, below.asked_per_s)), over) {
        (Some((case, below)), Some(above)) if below < above => {
            let share = percent(case.case.of_capacity.as_ref().map_or(f64::NAN, |of| of.share()));
            let text = format!("{} ({share} of it) was sustained and {} was not", rate(below), rate(above));
            (Confidence::Sure, format!("by a schedule {text}"))
        }
        (Some((_, below)), Some(above)) => {
            let text = format!("{} was not sustained and {} was", rate(above), rate(below));
            (Confidence::CantTell, format!("the rates contradict each other: {text}"))
        }
        (Some((_, below)), None) => {
            let text = format!("by a schedule even {} was sustained: the upper bound is not known", rate(below));
            (Confidence::Likely, text)
        }
        (None, _) => (Confidence::CantTell, "by a schedule not even the lowest rate was sustained".into()),
    };
    let text = format!(
        "offered more than it takes, the path answered {} (best of {attempts} attempts, the lowest {}); {schedule}.",
        rate(capacity),
        rate(lowest)
    );
    let answer = say(confidence, text);
    Ok(if confidence == Confidence::Sure { answer } else { answer.next(LONGER) })
}

fn knee(load: &Load<'_>) -> Answered {
    let curve = load.open.summary.load_curves.first().ok_or("fewer than two rates were measured")?;
    let LoadCurve { knee_p, knee_per_s, .. } = curve;
    let p = name(*knee_p);
    let Some(knee) = knee_per_s else {
        let top = rate(curve.sustained_per_s.ok_or("no rate was sustained")?);
        let text = format!("up to {top}, the highest rate that was sustained, {p} did not double.");
        return Ok(say(Confidence::CantTell, text).next(LONGER));
    };
    let share = found(&load.points)
        .map_or_else(String::new, |(capacity, ..)| format!(", {} of the capacity", percent(knee.value / capacity)));
    let confidence = confidence_of(knee);
    let interval = interval(knee.low, knee.high, rate).unwrap_or_else(|| "no interval".into());
    Ok(say(
        confidence,
        format!("at {} ({interval}){share}: there {p} is twice that of the lowest rate.", rate(knee.value)),
    ))
}

/// What the closed loop and the time from the actual send leave out.
fn hidden(load: &Load<'_>) -> Answered {
    let closed = load.closed.and_then(|case| Some((case, claimed(&case.latency.quantiles, 0.99)?)));
    let (case, p99) = closed.ok_or("p99 of the closed loop has no interval")?;
    let all: Vec<(&OpenLoop, (Value, Value))> =
        load.points.iter().filter_map(|point| Some((point.1, both(point)?))).collect();
    let (_, (open, (intended, actual))) = extremes(&all, |(_, (intended, actual))| intended.value / actual.value)
        .ok_or("no rate that was sustained has a claim at p99 from both sends")?;
    let to_closed = over(*intended, p99);
    let by =
        case.rate_per_s.as_ref().map_or_else(String::new, |by| format!(" at the {} that it makes", rate(by.value)));
    let text = format!(
        "in this run it has p99 {}{by}. At {} by a schedule p99 is {} from the intended send and {} from the actual one: {} times the \
         closed loop's.",
        time_with(&p99),
        rate(open.asked_per_s),
        time_with(intended),
        time_with(actual),
        ratio_with(&to_closed)
    );
    let confidence = if above(over(*intended, *actual), 1.0) { beyond(to_closed, 1.0) } else { Confidence::CantTell };
    Ok(say(confidence, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::testing::Made;
    use msgpath_analyse::testing::Build;
    use msgpath_analyse::testing_queue::{Queue, late, run};
    use msgpath_core::plan::OfCapacity;
    use msgpath_core::schedule::Rate;

    fn made(utilisations: &[f64], lateness: u64) -> [Made; 2] {
        let queues: Vec<Queue> = utilisations.iter().map(|rho| Queue::mm1(*rho, 600, 100, 9)).collect();
        let mut run = run(&queues);
        let rate = |per_s: f64| Rate::per_second(per_s).unwrap();
        for (case, rho) in run.header.plan.cases.iter_mut().zip(utilisations) {
            let attempts = vec![rate(0.9e6), rate(0.95e6), rate(1e6)];
            case.of_capacity = Some(OfCapacity { share_ppm: (rho * 1e6) as u32, attempts });
        }
        if lateness > 0 {
            late(&mut run, lateness, 15);
        }
        let closed = Build::echo(&["tcp:send"], &[64]).factor(|_| 0.1).messages(400);
        [Made::of("closed", &closed), Made::from("open", run)]
    }

    #[test]
    fn capacity_and_knee_are_said_with_their_shares() {
        let made = made(&[0.1, 0.3, 0.5, 0.6, 0.8, 1.3], 0);
        let page = page(&Made::parts(&made));
        let text = &page.answers[0].text;
        assert!(text.contains("answered 1.00 M/s (best of 3 attempts, the lowest 900 k/s)"), "{text}");
        assert!(text.ends_with("800 k/s (80.0 % of it) was sustained and 1.30 M/s was not."), "{text}");
        assert_eq!(page.answers[1].confidence, Confidence::Sure);
        assert!(page.answers[1].text.contains(" % of the capacity: there p99 is twice"), "{}", page.answers[1].text);
        assert_eq!((page.tables[0].rows.len(), page.tables[0].rows[5][3].clone()), (6, Cell::missing("not sustained")));
    }

    #[test]
    fn without_an_overload_the_upper_bound_is_open() {
        let made = made(&[0.1, 0.2, 0.3], 0);
        let page = page(&Made::parts(&made));
        assert_eq!(page.answers[0].confidence, Confidence::Likely);
        assert!(page.answers[0].text.ends_with("the upper bound is not known."), "{}", page.answers[0].text);
        assert_eq!(page.answers[1].confidence, Confidence::CantTell);
    }

    #[test]
    fn waiting_before_the_send_is_what_a_closed_loop_hides() {
        let hidden = |lateness| {
            let made = made(&[0.1, 0.3], lateness);
            page(&Made::parts(&made)).answers.remove(2)
        };
        let output = hidden(40_000);
        assert!(output.confidence == Confidence::Sure && output.text.contains("from the intended send"), "{output:?}");
        assert!(output.text.to_lowercase().starts_with("in this run it has p99 "), "{output:?}");
        assert_eq!(hidden(0).confidence, Confidence::CantTell);
    }
}
