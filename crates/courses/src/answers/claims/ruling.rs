//! What runs make of a claim: the outcome, and the sentence that follows from their numbers.

use msgpath_analyse::summary::Confidence;
use msgpath_stats::verdict::LEAST_MARGIN;

use crate::answers::cell::{Table, Value};
use crate::answers::evidence::{above, below};
use crate::answers::{Answer, Outcome};

/// An outcome with its sentence.
#[derive(Debug, PartialEq)]
pub struct Ruling {
    pub(super) outcome: Outcome,
    pub(super) answer: Answer,
}

fn ruling(outcome: Outcome, confidence: Confidence, text: impl Into<String>) -> Ruling {
    Ruling { outcome, answer: Answer::new("", confidence, text) }
}

/// The numbers agree with the claim.
pub(super) fn holds(text: impl Into<String>) -> Ruling {
    ruling(Outcome::Holds, Confidence::Sure, text)
}

/// The numbers contradict the claim.
pub(super) fn fails(text: impl Into<String>) -> Ruling {
    ruling(Outcome::DoesNotHold, Confidence::Sure, text)
}

/// The numbers do neither; the text says why.
pub(super) fn open(text: impl Into<String>) -> Ruling {
    ruling(Outcome::CannotTell, Confidence::CantTell, text)
}

impl Ruling {
    /// One mechanism fits, and others are not excluded. What cannot be told stays so.
    pub(super) fn likely(mut self) -> Self {
        if self.outcome != Outcome::CannotTell {
            self.answer.confidence = Confidence::Likely;
        }
        self
    }

    /// Sure only where this is so.
    pub(super) fn sure_if(self, so: bool) -> Self {
        if so { self } else { self.likely() }
    }

    pub(super) fn with(self, table: impl Into<Table>) -> Self {
        Self { answer: self.answer.with(table), ..self }
    }

    pub(super) fn next(self, command: impl Into<String>) -> Self {
        Self { answer: self.answer.next(command), ..self }
    }

    /// With this command where the numbers did not decide.
    pub(super) fn next_if_open(self, command: impl Into<String>) -> Self {
        if self.outcome == Outcome::CannotTell { self.next(command) } else { self }
    }
}

/// Whether two things are the same by their ratio: its whole interval lies within the least margin of 1, or beyond it;
/// `None`: it does not decide.
pub(super) fn same(ratio: impl Into<Value>) -> Option<bool> {
    let ratio = ratio.into();
    let (least, most) = (1.0 / (1.0 + LEAST_MARGIN), 1.0 + LEAST_MARGIN);
    match (above(ratio, least), below(ratio, most)) {
        (true, true) => Some(true),
        (true, false) if above(ratio, most) => Some(false),
        (false, true) if below(ratio, least) => Some(false),
        _ => None,
    }
}

/// Of several parts of a claim: it fails where one does, holds where all do, and is open else.
pub(super) fn all_of(parts: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    let parts: Vec<Option<bool>> = parts.into_iter().collect();
    match (parts.contains(&Some(false)), parts.contains(&None)) {
        (true, _) => Some(false),
        (_, true) => None,
        _ => Some(true),
    }
}

/// `true`: it holds, `false`: it does not, `None`: open; with this text.
pub(super) fn decided(so: Option<bool>, text: impl Into<String>) -> Ruling {
    match so {
        Some(true) => holds(text),
        Some(false) => fails(text),
        None => open(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_the_same_only_within_the_margin() {
        let of = |low, high| same(Value { value: 1.0, low: Some(low), high: Some(high) });
        assert_eq!(of(0.99, 1.01), Some(true));
        assert_eq!((of(1.03, 1.2), of(0.5, 0.97)), (Some(false), Some(false)));
        assert_eq!((of(0.9, 1.01), of(0.99, 1.1), of(0.5, 2.0)), (None, None, None));
        assert_eq!(same(1.0), None);
    }

    #[test]
    fn one_part_that_fails_is_enough() {
        assert_eq!(all_of([Some(true), None, Some(false)]), Some(false));
        assert_eq!((all_of([Some(true), None]), all_of([Some(true)])), (None, Some(true)));
    }

    #[test]
    fn what_cannot_be_told_does_not_become_likely() {
        assert_eq!(open("").likely().answer.confidence, Confidence::CantTell);
        assert_eq!(holds("").sure_if(false).answer.confidence, Confidence::Likely);
        assert!(open("").next_if_open("x").answer.next == ["x"] && holds("").next_if_open("x").answer.next.is_empty());
    }
}
