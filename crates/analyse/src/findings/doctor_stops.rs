//! W49: what forbids a claim, or limits it
//!
//! * **STOP**: a check of `msgpath doctor` came to STOP: at which end, what it forbids, whether this run does it. Then
//!   an error with `--strict`.
//! * **Several warnings**: more than three checks warn, and which.
//! * **A debug build**: which end.
//! * **Resumed on another machine**: what differed when `resume --force` went on.
//!
//! ## What it rests on
//!
//! The checks before the run at both ends. Clocks that disagree (1, 2) forbid one-way times; more runnable tasks than
//! CPUs (8) forbids spinning waits; a traced program (13) forbids any claim. Builds: what each end reports. Resumed:
//! `resumed` in the record ([resume](docs/resume.md)).
//!
//! ## What to do
//!
//! What the warning names; `msgpath doctor --fix` prints commands. Comparisons within one run stand. A debug build:
//! `cargo build --release`. A resumed run of two machine states: measure again.

use msgpath_core::doctor::{Check, CheckState};
use msgpath_core::plan::Stamps;

use super::conditions::one_machine;
use super::spinning_in_a_crowd::spinning;
use super::wording::evidence;
use super::{Detector, Input, Sentence};
use crate::summary::Warning;

pub(super) const DETECTOR: Detector = Detector { code: "W49", detect };

/// What a STOP forbids, and whether this run does it.
fn forbidden(input: &Input, number: u8) -> (&'static str, bool) {
    match number {
        1 | 2 => ("one-way times", input.plan.stamps == Stamps::Both),
        8 => ("waits that spin", !spinning(input).is_empty()),
        13 => ("any claim: what is traced or watched is not the program", true),
        _ => ("claims about what it names", true),
    }
}

fn detect(input: &Input) -> Vec<Sentence> {
    let Some(doctor) = &input.run.header.doctor else { return Vec::new() };
    if input.run.rounds.is_empty() {
        return Vec::new();
    }
    let mut stops: Vec<(&Check, String)> = Vec::new();
    for check in doctor.checks.iter().filter(|check| check.state == CheckState::Stop) {
        // W49 speaks of a debug build.
        if check.number == 20 {
            continue;
        }
        let end = match check.end.as_str() {
            "near" | "far" => format!("{} end", check.end),
            other => format!("{other} ends"),
        };
        // Both ends of one machine see the same.
        let same = |(other, _): &&mut (&Check, String)| other.number == check.number && other.what == check.what;
        match stops.iter_mut().find(same) {
            Some((_, ends)) if one_machine(input) => *ends = "both ends".into(),
            _ => stops.push((check, end)),
        }
    }
    stops.into_iter().map(|(check, ends)| say(input, check, &ends)).collect()
}

fn say(input: &Input, check: &Check, ends: &str) -> Sentence {
    let (forbids, concerned) = forbidden(input, check.number);
    let mut why = format!("it forbids {forbids}");
    if !concerned {
        why.push_str("; this run has none");
    }
    let mut numbers = evidence([("check", f64::from(check.number))]);
    numbers.extend(
        check.evidence.iter().filter(|(_, value)| value.is_finite()).map(|(name, value)| (name.clone(), *value)),
    );
    Sentence::Warning(Warning {
        code: "W49".into(),
        text: format!("doctor says STOP, check {} ({}, {ends}): {}", check.number, check.name, check.what),
        why,
        fix: if check.cure.is_empty() { "msgpath doctor   says more".into() } else { check.advice().into_owned() },
        evidence: numbers,
        strict: concerned,
    })
}

#[cfg(test)]
mod tests {
    use crate::summarise;
    use crate::testing::{Build, doctor, sentences};
    use msgpath_core::doctor::CheckState;

    #[test]
    fn speaks_once_for_every_stop() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        run.header.doctor = Some(doctor(&[
            (1, "near", CheckState::Stop, "stamps go backwards between CPUs"),
            (7, "near", CheckState::Warn, "quota of 1 CPU"),
            (13, "near", CheckState::Stop, "process 12 is traced by 10"),
            (13, "far", CheckState::Stop, "process 13 is traced by 10"),
            (13, "near", CheckState::Stop, "traced"),
            (13, "far", CheckState::Stop, "traced"),
            (20, "far", CheckState::Stop, "debug build"),
        ]));
        let warnings: Vec<_> = summarise(&run).warnings.into_iter().filter(|warning| warning.code == "W49").collect();
        let texts: Vec<_> = warnings.iter().map(|warning| warning.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "doctor says STOP, check 1 (check 1, near end): stamps go backwards between CPUs",
                "doctor says STOP, check 13 (check 13, near end): process 12 is traced by 10",
                "doctor says STOP, check 13 (check 13, far end): process 13 is traced by 10",
                "doctor says STOP, check 13 (check 13, both ends): traced",
            ]
        );
        assert_eq!(
            (warnings[0].strict, warnings[0].why.as_str()),
            (false, "it forbids one-way times; this run has none")
        );
        assert!(warnings[1].strict && warnings[1].fix == "cure of 13");
    }

    #[test]
    fn is_silent_about_warnings_and_without_doctor() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        assert!(sentences(&run, &super::DETECTOR).is_empty());
        run.header.doctor = Some(doctor(&[(3, "near", CheckState::Warn, "powersave"), (9, "far", CheckState::Ok, "")]));
        assert!(sentences(&run, &super::DETECTOR).is_empty());
    }
}
