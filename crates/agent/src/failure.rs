//! What an end says that failed or cannot be had, parsed into what may become an error of the coordinator.

use msgpath_core::foreign::{advice_of_far_end, shown_bytes};
use msgpath_core::{Exit, Problem, Unavailable};
use serde::{Deserialize, Serialize};

/// Codes with which an end reports a failure.
const CODES: [&str; 13] =
    ["E00", "E01", "E05", "E06", "E17", "E18", "E57", "E60", "E63", "E65", "E137", "E138", "E146"];
/// Most characters of each of its sentences.
const MAX_TEXT: usize = 500;

/// A failure as it travels. It is exit code 3 or 4, whatever was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    code: Code,
    what: String,
    why: String,
    hint: String,
    exit: Ended,
}

/// Position in [`CODES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Code(usize);

impl TryFrom<String> for Code {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        CODES.iter().position(|code| *code == text).map(Self).ok_or_else(|| "a code with which no end fails".into())
    }
}

impl From<Code> for String {
    fn from(code: Code) -> Self {
        CODES[code.0].into()
    }
}

/// How the program can end because of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Exit", into = "Exit")]
enum Ended {
    CannotStart,
    Unfinished,
}

impl From<Exit> for Ended {
    fn from(exit: Exit) -> Self {
        if exit == Exit::CannotStart { Ended::CannotStart } else { Ended::Unfinished }
    }
}

impl From<Ended> for Exit {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::CannotStart => Exit::CannotStart,
            Ended::Unfinished => Exit::Unfinished,
        }
    }
}

impl From<Problem> for Failure {
    fn from(Problem { code, what, why, hint, exit }: Problem) -> Self {
        let known = Code::try_from(code);
        debug_assert!(known.is_ok(), "{what}: its code is not one of {CODES:?}");
        Self { code: known.unwrap_or(Code(0)), what, why, hint, exit: exit.into() }
    }
}

impl From<Failure> for Problem {
    fn from(Failure { code, what, why, hint, exit }: Failure) -> Self {
        Problem { code: code.into(), what: text(&what), why: text(&why), hint: text(&hint), exit: exit.into() }
    }
}

impl Failure {
    /// The failure of an end that this process did not start: what it advises is its word.
    #[must_use]
    pub fn of_far_end(self) -> Self {
        Self { hint: advice_of_far_end(&self.hint), ..self }
    }
}

/// What an end says of what it cannot do, with nothing in it that a terminal obeys, and not longer than a few lines.
pub fn reason(Unavailable { why, hint }: Unavailable) -> Unavailable {
    Unavailable { why: text(&why), hint: text(&hint) }
}

/// The same of an end that this process did not start.
pub fn reason_of_far_end(Unavailable { why, hint }: Unavailable) -> Unavailable {
    reason(Unavailable { why, hint: advice_of_far_end(&hint) })
}

fn text(text: &str) -> String {
    shown_bytes(text.as_bytes(), MAX_TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(code: &str, exit: &str) -> Result<Failure, serde_json::Error> {
        let long = "x".repeat(10_000);
        let hostile = "a\u{1b}[2J\nb";
        serde_json::from_value(
            serde_json::json!({"code": code, "what": hostile, "why": long, "hint": "sudo id", "exit": exit}),
        )
    }

    #[test]
    fn failure_never_ends_with_success() {
        for (sent, code) in [
            ("ok", 4),
            ("check_failed", 4),
            ("usage", 4),
            ("cannot_start", 3),
            ("unfinished", 4),
            ("strict", 4),
            ("interrupted", 4),
        ] {
            let problem = Problem::from(received("E17", sent).unwrap());
            assert_eq!(problem.exit.code(), code, "{sent}");
            assert_eq!(problem.what, "a\\u{1b}[2J\\nb");
            assert!(problem.why.chars().count() <= MAX_TEXT + 1);
        }
        received("E17", "0").unwrap_err();
    }

    #[test]
    fn unknown_codes_are_refused() {
        for code in ["", "E99", "E17\u{1b}[2J", "e17", "W29"] {
            received(code, "unfinished").unwrap_err();
        }
    }

    #[test]
    fn advice_of_a_far_end_is_not_a_command() {
        let problem = Problem::from(received("E17", "unfinished").unwrap().of_far_end());
        assert_eq!(problem.hint, "what the far end advises: sudo id");
        assert_eq!(reason_of_far_end(Unavailable::new("no", "")).hint, "");
        assert_eq!(reason_of_far_end(Unavailable::new("no\n", "sudo id")).hint, "what the far end advises: sudo id");
    }

    #[test]
    fn problems_of_an_agent_arrive_as_they_were() {
        for code in CODES {
            let problem = Problem::new(code, Exit::CannotStart, "what").why("why").hint("hint");
            let text = serde_json::to_string(&Failure::from(problem.clone())).unwrap();
            assert_eq!(Problem::from(serde_json::from_str::<Failure>(&text).unwrap()), problem);
        }
    }
}
