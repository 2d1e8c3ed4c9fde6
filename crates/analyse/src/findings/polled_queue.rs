//! Of W21: a thread of the kernel polls for the receiver.

use msgpath_core::units::{Glyphs, three_digits};

use super::wording::{affected, measured, prefix, warning, worst};
use super::{Detector, Input, Sentence};
use crate::summary::CaseSummary;

pub(super) const DETECTOR: Detector = Detector { code: "W21", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let polled = measured(input).filter(|case| case.case.traits.polled);
    let known = polled.filter_map(|case| Some((case.cpu_ns()?, case)));
    let Some((case, cases)) = worst(known) else { return Vec::new() };
    let cpu = case.cpu_ns().unwrap_or_default();
    let mut text = format!(
        "{}a thread of the kernel polls at each end; with it a message takes {} of CPU time",
        prefix(input, case),
        Glyphs::Unicode.time(cpu)
    );
    let beside = beside(input, case);
    if let Some((least, other)) = beside {
        text += &format!(", {} times as much as over {}", three_digits(cpu / least), other.case.path);
    }
    vec![warning(
        "W21",
        text + &affected(cases),
        "these threads keep CPUs for themselves as long as messages come, and getrusage() of the program's threads does not show it; \
         where no CPU is free they take them from both ends",
        "a wait without a polling thread; or CPUs enough for one more thread at each end and connection",
        [("cpu_ns", cpu), ("other_cpu_ns", beside.map_or(f64::NAN, |(least, _)| least))],
    )]
}

/// The case that differs in its wait only and takes the least CPU time, and that time, ns.
fn beside<'a>(input: &Input<'a>, of: &CaseSummary) -> Option<(f64, &'a CaseSummary)> {
    let what = |case: &CaseSummary| {
        let case = &case.case;
        (case.path.transport.clone(), case.path.method.clone(), case.size, case.threads, case.inflight, case.load)
    };
    measured(input)
        .filter(|case| !case.case.traits.polled && what(case) == what(of))
        .filter_map(|case| Some((case.cpu_ns().filter(|ns| *ns > 0.0)?, case)))
        .min_by(|a, b| a.0.total_cmp(&b.0))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};

    /// Paths of this CPU time a message at each end, ns.
    fn texts(paths: &[(&str, u64)]) -> Vec<String> {
        let names: Vec<&str> = paths.iter().map(|(path, _)| *path).collect();
        let mut run = Build::echo(&names, &[64]).run();
        for round in &mut run.rounds {
            let ns = paths[round.case as usize % paths.len()].1;
            for end in round.reports_mut() {
                end.system_ns = ns * end.delivery.sent;
            }
        }
        sentences(&run, &super::DETECTOR)
    }

    #[test]
    fn speaks_of_the_polling_thread_and_what_it_takes() {
        let expected = "a thread of the kernel polls at each end; with it a message takes 60.0 µs of CPU time";
        assert_eq!(texts(&[("tcp:send/uring-sqpoll", 30_000)]), [expected]);
        let expected = format!("tcp:send/uring-sqpoll, 64 B: {expected}, 3.00 times as much as over tcp:send");
        let paths = [("tcp:send", 10_000), ("tcp:send/uring-sqpoll", 30_000), ("pipe:write", 1_000)];
        assert_eq!(texts(&paths), [expected]);
    }

    #[test]
    fn is_silent_without_one() {
        assert!(texts(&[("tcp:send/uring", 30_000), ("tcp:send/spin", 60_000)]).is_empty());
    }
}
