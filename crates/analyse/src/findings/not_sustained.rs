//! W52: a rate was not sustained
//!
//! How many messages a second were answered of those offered, and how fast the backlog grew or how many were lost: for
//! each path and message the lowest rate that was too much.
//!
//! ## What it rests on
//!
//! The interval of the backlog's growth lies above 0, or that of the lost share above 0.5 % ([sustained
//! rates](docs/method/open-loop.md#sustained-rates)). A stall that was worked off does not count.
//!
//! ## What to do
//!
//! Ask for less. No times are printed for such a rate: they would show how long the run was. Where it cannot be told,
//! run longer.

use super::wording::{measured, prefix, sentence, warning};
use super::{Detector, Input, Sentence};
use crate::load_curve::same_line;
use crate::summary::{CaseSummary, OpenLoop};

pub(super) const DETECTOR: Detector = Detector { code: "W52", detect };

/// One warning per path and message: its lowest rate that was not sustained, and how many higher ones were not either.
fn detect(input: &Input) -> Vec<Sentence> {
    let mut lines: Vec<Vec<(&CaseSummary, &OpenLoop)>> = Vec::new();
    for case in measured(input) {
        let Some(open) = case.open.as_ref().filter(|open| open.overloaded().is_some()) else { continue };
        match lines.iter_mut().find(|line| same_line(&line[0].0.case, &case.case)) {
            Some(line) => line.push((case, open)),
            None => lines.push(vec![(case, open)]),
        }
    }
    lines.iter_mut().filter_map(|line| say(input, line)).collect()
}

fn say(input: &Input, line: &mut [(&CaseSummary, &OpenLoop)]) -> Option<Sentence> {
    line.sort_by(|a, b| a.1.asked_per_s.total_cmp(&b.1.asked_per_s));
    let (case, open) = line.first()?;
    let mut text = format!("{}{}", prefix(input, case), open.why.as_ref()?);
    match line.len() - 1 {
        0 => {}
        1 => text.push_str("; nor was one higher rate"),
        more => text.push_str(&format!("; nor were {more} higher rates")),
    }
    let end = |of: fn(&msgpath_stats::estimate::Estimate) -> Option<f64>| {
        open.backlog_per_s.as_ref().and_then(of).unwrap_or(f64::NAN)
    };
    let numbers = [
        ("offered_per_s", open.offered_per_s),
        ("achieved_per_s", open.achieved_per_s.value),
        ("backlog_per_s", end(|estimate| Some(estimate.value))),
        ("backlog_lo_per_s", end(|estimate| estimate.low)),
        ("backlog_hi_per_s", end(|estimate| estimate.high)),
        ("cases", line.len() as f64),
    ];
    let why = "its latencies say how long the rounds were, so no quantile is claimed";
    Some(warning("W52", sentence(&text), why, "a lower rate; several rates at once show the knee (--rate)", numbers))
}

#[cfg(test)]
mod tests {
    use crate::testing::sentences;
    use crate::testing_queue::{Queue, run};

    #[test]
    fn speaks_of_the_lowest_rate_that_was_too_much() {
        let texts = sentences(
            &run(&[Queue::mm1(0.5, 400, 100, 1), Queue::mm1(1.5, 400, 100, 1), Queue::mm1(2.0, 400, 100, 1)]),
            "W52",
        );
        assert_eq!(texts.len(), 1, "{texts:?}");
        let start = "tcp:send/epoll, 64 B, 1.5M/s: not sustained (";
        assert!(texts[0].starts_with(start) && texts[0].contains(" M/s): the backlog grows by "), "{texts:?}");
        assert!(texts[0].ends_with("/s; nor was one higher rate"), "{texts:?}");
    }

    #[test]
    fn is_silent_where_the_far_end_keeps_up() {
        assert!(sentences(&run(&[Queue::mm1(0.8, 400, 100, 1)]), "W52").is_empty());
    }
}
