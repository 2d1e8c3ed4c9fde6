//! The page of the preset `load-curve`: latency at a given rate, and where the knee is.

use msgpath_stats::quantile::name;

use crate::answers::cell::{Cell, Table, Value};
use crate::answers::rows::{above, beyond, claimed, measured, over, percent, quantile, rate, ratio_with, time_with};
use crate::answers::{Answer, Page, Part, part};
use crate::summary::{CaseSummary, Confidence, LoadCurve, OpenLoop};

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let Some(open) = part(parts, "open") else {
        return Page { answers: vec![Answer::cannot(KNEE, "the run open is missing")], ..Page::default() };
    };
    let points = points(&open);
    let tables = vec![curve(&points), definitions(&points)];
    let answers = vec![capacity(&points), knee(&open, &points), hidden(parts, &points)];
    Page { tables, answers, ..Page::default() }
}

const KNEE: &str = "At which rate does it become slow?";

/// The rates of an open loop, rising.
fn points<'a>(open: &Part<'a>) -> Vec<(&'a CaseSummary, &'a OpenLoop)> {
    let mut points: Vec<_> = measured(open.summary).filter_map(|case| Some((case, case.open.as_ref()?))).collect();
    points.sort_by_key(|(case, _)| case.case.load.rate());
    points
}

/// The capacity that the rates are shares of, the lowest trial, and how many there were.
fn found(points: &[(&CaseSummary, &OpenLoop)]) -> Option<(f64, f64, usize)> {
    let of = points.iter().find_map(|(case, _)| case.case.of_capacity.as_ref())?;
    Some((of.capacity()?.value(), of.trials.first()?.value(), of.trials.len()))
}

fn share_of(case: &CaseSummary) -> Cell {
    Cell::or_missing(case.case.of_capacity.as_ref().map(|of| of.share()), Cell::Share, "an absolute rate")
}

/// A quantile of a rate that was not sustained says how long the round was.
fn sustained(open: &OpenLoop, cell: Cell) -> Cell {
    if open.sustained { cell } else { Cell::missing("not sustained") }
}

fn curve(points: &[(&CaseSummary, &OpenLoop)]) -> Table {
    let mut table = Table::new(
        "load-curve",
        "latency from the intended send, by offered rate",
        &["of capacity", "offered/s", "achieved/s", "p50", "p90", "p99", "p99.9", "sustained"],
    );
    for (case, open) in points {
        let q = |p: f64| sustained(open, quantile(&case.quantiles, p));
        table.row([
            share_of(case),
            Cell::Number(open.offered_per_s.into()),
            Cell::Number((&open.achieved_per_s).into()),
            q(0.5),
            q(0.9),
            q(0.99),
            q(0.999),
            Cell::text(if open.sustained { "yes" } else { "no" }),
        ]);
    }
    table
}

fn definitions(points: &[(&CaseSummary, &OpenLoop)]) -> Table {
    let mut table = Table::new(
        "two-definitions",
        "the same messages from the intended and from the actual send",
        &[
            "of capacity",
            "p50 intended",
            "p50 actual",
            "p99 intended",
            "p99 actual",
            "intended to actual, p99",
            "sent late",
        ],
    );
    for (case, open) in points {
        let intended = |p: f64| sustained(open, quantile(&case.quantiles, p));
        let actual = |p: f64| sustained(open, quantile(&open.service, p));
        table.row([
            share_of(case),
            intended(0.5),
            actual(0.5),
            intended(0.99),
            actual(0.99),
            Cell::or_missing(both(case, open).map(|(a, b)| over(a, b)), Cell::Ratio, "no interval"),
            Cell::Share(open.late_share.into()),
        ]);
    }
    table.note(
        "sent late: more than a mean gap after its time. A late message is sent at once and keeps its intended time",
    )
}

/// p99 from the intended and from the actual send, where both are claims.
fn both(case: &CaseSummary, open: &OpenLoop) -> Option<(Value, Value)> {
    claimed(&case.quantiles, 0.99).zip(claimed(&open.service, 0.99)).filter(|_| open.sustained)
}

fn capacity(points: &[(&CaseSummary, &OpenLoop)]) -> Answer {
    let question = "How much does the path take?";
    let last = points.iter().rfind(|(_, open)| open.sustained);
    let over = points.iter().find(|(_, open)| !open.sustained);
    let Some((capacity, lowest, trials)) = found(points) else {
        return Answer::cannot(question, "the rates are absolute ones, no capacity was looked for");
    };
    let mut text = format!(
        "offered more than it takes, the path answered {} (best of {trials} trials, the lowest {})",
        rate(capacity),
        rate(lowest)
    );
    let confidence = match (last, over) {
        (Some((case, below)), Some((_, above))) if below.asked_per_s < above.asked_per_s => {
            let share = case.case.of_capacity.as_ref().map_or(f64::NAN, |of| of.share());
            text.push_str(&format!(
                "; by a schedule {} ({} of it) was sustained and {} was not",
                rate(below.asked_per_s),
                percent(share),
                rate(above.asked_per_s)
            ));
            Confidence::Sure
        }
        (Some((_, below)), Some((_, above))) => {
            text.push_str(&format!(
                "; the rates contradict each other: {} was not sustained and {} was",
                rate(above.asked_per_s),
                rate(below.asked_per_s)
            ));
            Confidence::CantTell
        }
        (Some((_, below)), None) => {
            text.push_str(&format!(
                "; by a schedule even {} was sustained: the upper bound is not known",
                rate(below.asked_per_s)
            ));
            Confidence::Likely
        }
        (None, _) => {
            text.push_str("; by a schedule not even the lowest rate was sustained");
            Confidence::CantTell
        }
    };
    let answer = Answer::new(question, confidence, text + ".");
    if confidence == Confidence::Sure { answer } else { answer.next("msgpath preset load-curve -- -t 20s") }
}

fn knee(open: &Part<'_>, points: &[(&CaseSummary, &OpenLoop)]) -> Answer {
    let Some(curve) = open.summary.load_curves.first() else {
        return Answer::cannot(KNEE, "fewer than two rates were measured");
    };
    let LoadCurve { knee_p, knee_per_s, .. } = curve;
    let p = name(*knee_p);
    let Some(knee) = knee_per_s else {
        let text = match curve.sustained_per_s {
            Some(top) => format!("up to {}, the highest rate that was sustained, {p} did not double.", rate(top)),
            None => return Answer::cannot(KNEE, "no rate was sustained"),
        };
        return Answer::new(KNEE, Confidence::CantTell, text).next("msgpath preset load-curve -- -t 20s");
    };
    let share = found(points)
        .map_or_else(String::new, |(capacity, ..)| format!(", {} of the capacity", percent(knee.value / capacity)));
    let interval = match (knee.low, knee.high) {
        (Some(low), Some(high)) => format!("95 %: {} to {}", rate(low), rate(high)),
        (Some(low), None) => format!("95 %: above {}", rate(low)),
        (None, Some(high)) => format!("95 %: below {}", rate(high)),
        (None, None) => "no interval".into(),
    };
    let confidence = match (knee.low, knee.high) {
        (Some(_), Some(_)) => Confidence::Sure,
        (Some(_), None) | (None, Some(_)) => Confidence::Likely,
        (None, None) => Confidence::CantTell,
    };
    let text = format!("at {} ({interval}){share}: there {p} is twice that of the lowest rate.", rate(knee.value));
    Answer::new(KNEE, confidence, text)
}

/// What the closed loop and the time from the actual send leave out.
fn hidden(parts: &[Part<'_>], points: &[(&CaseSummary, &OpenLoop)]) -> Answer {
    let question = "What would a closed loop have said?";
    let closed = part(parts, "closed").and_then(|part| measured(part.summary).next());
    let Some((case, p99)) = closed.and_then(|case| Some((case, claimed(&case.quantiles, 0.99)?))) else {
        return Answer::cannot(question, "p99 of the closed loop has no interval");
    };
    let widest = points
        .iter()
        .filter_map(|(case, open)| Some((*open, both(case, open)?)))
        .max_by(|a, b| (a.1.0.value / a.1.1.value).total_cmp(&(b.1.0.value / b.1.1.value)));
    let Some((open, (intended, actual))) = widest else {
        return Answer::cannot(question, "no rate that was sustained has a claim at p99 from both sends");
    };
    let to_closed = over(intended, p99);
    let by =
        case.rate_per_s.as_ref().map_or_else(String::new, |by| format!(" at the {} that it makes", rate(by.value)));
    let text = format!(
        "it has p99 {}{by}. At {} by a schedule p99 is {} from the intended send and {} from the actual one: {} times the \
         closed loop's.",
        time_with(&p99),
        rate(open.asked_per_s),
        time_with(&intended),
        time_with(&actual),
        ratio_with(&to_closed)
    );
    let confidence = if above(&over(intended, actual), 1.0) { beyond(&to_closed, 1.0) } else { Confidence::CantTell };
    Answer::new(question, confidence, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::rows::testing::Made;
    use crate::testing::Build;
    use crate::testing_queue::{Queue, late, run};
    use msgpath_core::plan::OfCapacity;
    use msgpath_core::schedule::Rate;

    fn made(utilisations: &[f64], lateness: u64) -> [Made; 2] {
        let queues: Vec<Queue> = utilisations.iter().map(|rho| Queue::mm1(*rho, 600, 100, 9)).collect();
        let mut run = run(&queues);
        let rate = |per_s: f64| Rate::per_second(per_s).unwrap();
        for (case, rho) in run.header.plan.cases.iter_mut().zip(utilisations) {
            let trials = vec![rate(0.9e6), rate(0.95e6), rate(1e6)];
            case.of_capacity = Some(OfCapacity { share_ppm: (rho * 1e6) as u32, trials });
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
        assert!(text.contains("answered 1.00M/s (best of 3 trials, the lowest 900k/s)"), "{text}");
        assert!(text.ends_with("800k/s (80.0 % of it) was sustained and 1.30M/s was not."), "{text}");
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
        let said = hidden(40_000);
        assert!(said.confidence == Confidence::Sure && said.text.contains("from the intended send"), "{said:?}");
        assert_eq!(hidden(0).confidence, Confidence::CantTell);
    }
}
