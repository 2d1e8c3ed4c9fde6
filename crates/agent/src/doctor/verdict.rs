//! What a check comes to, before it has a number; several parts become one.

use std::collections::BTreeMap;

use msgpath_core::doctor::{CheckState, Observation};
use msgpath_core::remedy::Remedy;

/// State, sentence and cure of a check or of a part of one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub state: CheckState,
    pub what: String,
    pub cure: String,
    pub remedies: Vec<Remedy>,
    pub evidence: BTreeMap<String, f64>,
}

impl Verdict {
    fn new(state: CheckState, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { state, what: what.into(), cure: cure.into(), remedies: Vec::new(), evidence: BTreeMap::new() }
    }

    pub fn ok(what: impl Into<String>) -> Self {
        Self::new(CheckState::Ok, what, "")
    }

    pub fn warn(what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self::new(CheckState::Warn, what, cure)
    }

    pub fn stop(what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self::new(CheckState::Stop, what, cure)
    }

    /// It could not be read.
    pub fn none(reason: impl AsRef<str>) -> Self {
        Self::new(CheckState::NotAvailable, format!("n/a: {}", reason.as_ref()), "")
    }

    /// Warns if `bad`, else is content with the same sentence.
    pub fn warn_if(bad: bool, what: impl Into<String>, cure: impl Into<String>) -> Self {
        if bad { Self::warn(what, cure) } else { Self::ok(what) }
    }

    /// The same, for what could be read only.
    pub fn read<T>(read: Result<T, String>, judge: impl FnOnce(T) -> Self) -> Self {
        read.map_or_else(Self::none, judge)
    }

    /// A number of the evidence; one that is not finite is left out.
    pub fn with(mut self, name: &str, value: f64) -> Self {
        if value.is_finite() {
            self.evidence.insert(name.into(), value);
        }
        self
    }

    /// Adds what helps, where something is wrong and the table has a remedy.
    pub fn fix(mut self, remedy: Option<Remedy>) -> Self {
        if self.state >= CheckState::Warn {
            self.remedies.extend(remedy);
        }
        self
    }

    /// The worst of several parts, with the sentences of all; it is not available only where no part is.
    pub fn all(parts: impl IntoIterator<Item = Verdict>) -> Self {
        let (mut read, mut missing): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|part| part.state != CheckState::NotAvailable);
        read.sort_by_key(|part| std::cmp::Reverse(part.state)); // stable: what is wrong first, else as given
        let state = read.first().map_or(CheckState::NotAvailable, |worst| worst.state);
        if read.is_empty() && missing.len() > 1 {
            let reasons: Vec<_> = missing.iter().map(|part| part.what.trim_start_matches("n/a: ")).collect();
            return Self::none(reasons.join("; "));
        }
        read.append(&mut missing);
        let mut whole = Self::new(state, "", "");
        for part in read {
            let add = |all: &mut String, one: &str| {
                if !all.is_empty() && !one.is_empty() {
                    all.push_str("; ");
                }
                all.push_str(one);
            };
            add(&mut whole.what, &part.what);
            add(&mut whole.cure, &part.cure);
            whole.remedies.extend(part.remedies);
            whole.evidence.extend(part.evidence);
        }
        whole
    }

    pub fn observed(self, number: u8) -> Observation {
        let Verdict { state, what, cure, remedies, evidence } = self;
        Observation { number, state, what, cure, remedies, evidence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_one_with_the_worst_state() {
        let all = Verdict::all([
            Verdict::ok("a is fine").with("a", 1.0),
            Verdict::none("b: needs root"),
            Verdict::warn("c is not", "mend c").fix(Some(Remedy::SwapOff)),
        ]);
        assert_eq!(all.state, CheckState::Warn);
        assert_eq!(all.what, "c is not; a is fine; n/a: b: needs root");
        assert_eq!((all.cure.as_str(), all.remedies.len(), all.evidence["a"]), ("mend c", 1, 1.0));
        let none = Verdict::all([Verdict::none("b"), Verdict::none("c")]);
        assert_eq!((none.state, none.what.as_str()), (CheckState::NotAvailable, "n/a: b; c"));
        assert_eq!(Verdict::all([Verdict::ok("a"), Verdict::none("b")]).state, CheckState::Ok);
        assert_eq!(Verdict::all([]).state, CheckState::NotAvailable);
    }

    #[test]
    fn only_what_is_wrong_has_remedies() {
        assert!(Verdict::ok("fine").fix(Some(Remedy::SwapOff)).remedies.is_empty());
        assert!(Verdict::ok("fine").with("ratio", f64::NAN).evidence.is_empty());
    }
}
