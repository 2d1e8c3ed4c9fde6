//! Of W50: the client is saturated.

use super::wording::{measured, percent, prefix, sentence, warning};
use super::{Detector, Input, Sentence, wording};
use crate::summary::CaseSummary;

pub(super) const DETECTOR: Detector = Detector { code: "W50", detect };

/// Above this share of its time the client may be what is measured.
const BUSY: f64 = 0.5;

/// The busiest case, with how many others there are. A client that spins is always busy, and says nothing by it.
fn detect(input: &Input) -> Vec<Sentence> {
    let busy = |case: &CaseSummary| case.open.as_ref()?.client_busy.filter(|busy| *busy > BUSY);
    let mut affected: Vec<(&CaseSummary, f64)> = measured(input)
        .filter(|case| !case.case.traits.never_sleeps())
        .filter_map(|case| Some((case, busy(case)?)))
        .collect();
    affected.sort_by(|a, b| b.1.total_cmp(&a.1));
    let Some((case, busy)) = affected.first().copied() else { return Vec::new() };
    let mut text =
        format!("{}client saturated ({} % CPU): the numbers may be the client's", prefix(input, case), percent(busy));
    text.push_str(&wording::affected(affected.len()));
    let why = "a client that works more than half of its time queues messages itself, and that queue is in the latency";
    let fix = "a lower rate, more threads (-T) on CPUs of their own, or a faster client machine";
    let numbers = [("client_busy", busy), ("cases", affected.len() as f64)];
    vec![warning("W50", sentence(&text), why, fix, numbers)]
}

#[cfg(test)]
mod tests {
    use crate::testing::{declared, sentences};
    use crate::testing_queue::{Queue, run};

    fn texts(path: &str, spun: bool) -> Vec<String> {
        let mut run = run(&[Queue::mm1(0.5, 200, 100, 3)]);
        run.header.plan.cases[0].path = path.parse().unwrap();
        run.header.plan.declare(declared);
        for round in &mut run.rounds {
            // Two threads, 70 % of the time of both together.
            round.near_mut().user_ns = round.near().elapsed_ns;
            round.near_mut().system_ns = round.near().elapsed_ns * 4 / 10;
            if spun {
                round.open.as_mut().unwrap().spun_ns = round.near().elapsed_ns * 9 / 10;
            }
        }
        sentences(&run, &super::DETECTOR)
    }

    #[test]
    fn speaks_of_a_busy_client() {
        assert_eq!(texts("tcp:send/epoll", false), ["Client saturated (70 % CPU): the numbers may be the client's"]);
    }

    #[test]
    fn is_silent_where_the_client_spins_by_choice() {
        assert!(texts("tcp:send/spin", false).is_empty());
        assert!(texts("tcp:send/epoll", true).is_empty(), "waiting for the time to send is not work");
    }
}
