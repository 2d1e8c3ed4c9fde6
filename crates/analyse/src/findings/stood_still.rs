//! Of W41: an end did not run for a while.

use msgpath_core::schema::RoundRecord;
use msgpath_core::units::Glyphs;

use super::conditions::{End, ends, measured_rounds, of_rounds, one_machine};
use super::wording::warning;
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W41", detect };

/// An end looks after its round four times a second at least. A busy machine delays it by some hundredths of a second.
const STILL_NS: u64 = 1_000_000_000;

/// How long an end did not run in a round, ns; `None`: no pause of it was that long.
fn stood_still(end: &End, round: &RoundRecord) -> Option<u64> {
    end.report(round).unattended_ns.filter(|ns| *ns >= STILL_NS)
}

/// Whether one of the two ends did not run for a part of the round.
pub(super) fn in_round(input: &Input, round: &RoundRecord) -> bool {
    ends(input).iter().any(|end| stood_still(end, round).is_some())
}

fn detect(input: &Input) -> Vec<Sentence> {
    let rounds = measured_rounds(input);
    let still = |end: &End| -> Vec<&RoundRecord> {
        rounds.iter().copied().filter(|round| stood_still(end, round).is_some()).collect()
    };
    let [near, far] = ends(input);
    let (near_rounds, far_rounds) = (still(&near), still(&far));
    // What stops both at once is one event.
    if one_machine(input) && !near_rounds.is_empty() && near_rounds == far_rounds {
        return vec![say(&near, "neither end ran", &near_rounds, rounds.len())];
    }
    let server = (far, "the server did not run", far_rounds);
    let client = (near, "the client did not run", near_rounds);
    let stopped = [server, client].into_iter().filter(|(_, _, rounds)| !rounds.is_empty());
    stopped.map(|(end, what, own)| say(&end, what, &own, rounds.len())).collect()
}

fn say(end: &End, what: &str, own: &[&RoundRecord], all: usize) -> Sentence {
    let pauses = || own.iter().filter_map(|round| stood_still(end, round));
    let longest = pauses().max().unwrap_or(0);
    let time = Glyphs::Unicode.time(longest as f64);
    let lost: u64 = own.iter().map(|round| round.near().delivery.lost).sum();
    let longest_of = if own.len() > 1 { " at the longest" } else { "" };
    let lost_there = match lost {
        0 => String::new(),
        _ => format!("; {lost} messages were lost in {}", if own.len() > 1 { "these rounds" } else { "that round" }),
    };
    warning(
        "W41",
        format!("{what} for {time}{longest_of}, in {}{lost_there}", of_rounds(own.len(), all)),
        "its process was stopped (SIGSTOP, a debugger, a frozen cgroup) or its machine was suspended: no path makes that pause",
        "find out who stopped it, and measure again",
        [
            ("longest_ns", longest as f64),
            ("all_ns", pauses().sum::<u64>() as f64),
            ("still_rounds", own.len() as f64),
            ("rounds", all as f64),
            ("lost", lost as f64),
        ],
    )
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};
    use msgpath_core::schema::{FAR, NEAR};
    use msgpath_record::Run;

    /// The far end, or both, for 7 s of a round.
    fn stopped(path: &str, ends: &[usize]) -> Run {
        let mut run = Build::echo(&[path], &[64]).run();
        for round in &mut run.rounds {
            [NEAR, FAR].into_iter().for_each(|end| round.end_mut(end).report.unattended_ns = Some(251_000_000));
        }
        ends.iter().for_each(|end| run.rounds[12].end_mut(*end).report.unattended_ns = Some(7_000_000_000));
        run
    }

    #[test]
    fn stopped_server_is_named_with_its_pause_and_what_was_lost() {
        let mut run = stopped("udp:send", &[FAR]);
        run.rounds[12].near_mut().delivery.lost = 28;
        let texts = sentences(&run, &super::DETECTOR);
        assert_eq!(
            texts,
            ["the server did not run for 7.00 s, in 1 of 40 rounds; 28 messages were lost in that round"]
        );
        let texts = sentences(&stopped("tcp:send", &[FAR]), &super::DETECTOR);
        assert_eq!(texts, ["the server did not run for 7.00 s, in 1 of 40 rounds"]);
    }

    #[test]
    fn stopped_client_and_a_suspended_machine_are_told_apart() {
        assert!(
            sentences(&stopped("tcp:send", &[NEAR]), &super::DETECTOR)[0]
                .starts_with("the client did not run for 7.00 s")
        );
        let texts = sentences(&stopped("tcp:send", &[NEAR, FAR]), &super::DETECTOR);
        assert_eq!(texts, ["neither end ran for 7.00 s, in 1 of 40 rounds"]);
    }

    #[test]
    fn is_silent_where_both_ends_looked_in_time_or_nobody_looked() {
        assert!(sentences(&stopped("udp:send", &[]), &super::DETECTOR).is_empty());
        assert!(sentences(&Build::echo(&["udp:send"], &[64]).run(), &super::DETECTOR).is_empty());
    }
}
