//! Of W28: more threads than CPUs.

use super::wording::{list, measured, warning};
use super::{Detector, Input, Sentence};
use crate::threads::Oversubscribed;

pub(super) const DETECTOR: Detector = Detector { code: "W28", detect };

/// One warning for the most crowded case. One thread at each end is the business of W28 and W28.
fn detect(input: &Input) -> Vec<Sentence> {
    let crowded = |case: &&crate::summary::CaseSummary| case.case.threads > 1 && case.rounds > 0;
    let crowd = |case: &crate::summary::CaseSummary| case.threads.as_ref()?.oversubscribed.clone();
    let mut cases: Vec<(u32, Oversubscribed)> =
        measured(input).filter(crowded).filter_map(|case| Some((case.case.threads, crowd(case)?))).collect();
    cases.sort_by_key(|(threads, _)| *threads);
    cases.dedup_by_key(|(threads, _)| *threads);
    let Some((_, Oversubscribed { threads, cpus, end })) = cases.last().cloned() else { return Vec::new() };
    let counts: Vec<String> = cases.iter().map(|(threads, _)| threads.to_string()).collect();
    let which = match counts.as_slice() {
        [_] => String::new(),
        _ => format!("; it is so with {} threads at each end", list(&counts)),
    };
    let cpus_text = if cpus == 1 { "1 CPU".into() } else { format!("{cpus} CPUs") };
    vec![warning(
        "W28",
        format!("{threads} threads on {cpus_text} ({end}): oversubscribed, not scaling{which}"),
        "threads that wait for a CPU tell how the scheduler shares it out; no factor is claimed for these cases",
        "as many threads as there are CPUs for both ends, or a machine with more of them",
        [("threads", threads as f64), ("cpus", cpus as f64), ("cases", cases.len() as f64)],
    )]
}

#[cfg(test)]
mod tests {
    use crate::testing::sentences;
    use crate::threads::testing::closed;

    #[test]
    fn speaks_where_threads_outnumber_cpus() {
        assert_eq!(
            sentences(&closed(&[1, 2, 8], 1.0, 2), &super::DETECTOR),
            [
                "16 threads on 2 CPUs (both ends, which share this machine): oversubscribed, not scaling; it is so with 2 and 8 threads at each end"
            ]
        );
    }

    #[test]
    fn is_silent_where_there_is_room_and_with_one_thread() {
        assert!(sentences(&closed(&[1, 2, 8], 8.0, 16), &super::DETECTOR).is_empty());
        assert!(sentences(&closed(&[1], 1.0, 1), &super::DETECTOR).is_empty());
    }
}
