//! What went wrong, in the three parts every message has: what happened, why, what to type.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::foreign::shown;

/// Why something cannot be measured here. Data, shown in tables and reports; it never ends a comparison.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Unavailable {
    /// The reason, lower case, without a full stop.
    pub why: String,
    /// What the user can do about it; empty where nothing helps.
    pub hint: String,
}

impl Unavailable {
    /// A reason and its cure.
    pub fn new(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { why: why.into(), hint: hint.into() }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.why))
    }
}

/// The exit codes of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// 0: measured, the result is valid.
    Ok,
    /// 1: a check that was asked for failed.
    CheckFailed,
    /// 2: bad command line.
    Usage,
    /// 3: could not start: no peer, no permission, not supported here.
    CannotStart,
    /// 4: started, did not finish: peer vanished, payload wrong, disk full.
    Unfinished,
    /// 5: `--strict` and the result is not what it claims to be.
    Strict,
    /// 130: interrupted before the minimum.
    Interrupted,
}

impl Exit {
    /// The number handed to the operating system.
    pub fn code(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::CheckFailed => 1,
            Exit::Usage => 2,
            Exit::CannotStart => 3,
            Exit::Unfinished => 4,
            Exit::Strict => 5,
            Exit::Interrupted => 130,
        }
    }
}

/// An error as the user reads it.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Problem {
    /// Stable code to search for, `E01` and so on.
    pub code: String,
    /// What happened, one line, lower case, no full stop.
    pub what: String,
    /// Why, one line; may be empty.
    pub why: String,
    /// What to type instead; may be empty.
    pub hint: String,
    /// With which exit code the program ends.
    pub exit: Exit,
}

impl Problem {
    /// A problem with its code, exit code and first line.
    pub fn new(code: &str, exit: Exit, what: impl Into<String>) -> Self {
        Self { code: code.into(), what: what.into(), why: String::new(), hint: String::new(), exit }
    }

    /// Adds the reason.
    #[must_use]
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// Adds what to type.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// What happened and why, in one line.
    pub fn in_a_line(&self) -> String {
        let parts = [self.what.trim(), self.why.trim()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Parts of it may be the far end's, a file's or a name's.
        write!(f, "error[{}]: {}", shown(&self.code), shown(&self.what))?;
        if !self.why.is_empty() {
            write!(f, "\n  {}", shown(&self.why))?;
        }
        if !self.hint.is_empty() {
            write!(f, "\n  try: {}", shown(&self.hint))?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_colon_between_what_and_why() {
        let problem = Problem::new("E01", Exit::CannotStart, "nobody answers at n3");
        assert_eq!(problem.in_a_line(), "nobody answers at n3");
        assert_eq!(problem.why("connection refused").in_a_line(), "nobody answers at n3: connection refused");
    }

    #[test]
    fn a_problem_of_a_far_end_cannot_write_lines_of_its_own() {
        let text = "busy\x1b[2J\nerror[E00]: all is well";
        let problem = Problem::new("E\x1b1", Exit::Unfinished, text).why(text).hint(text).to_string();
        assert_eq!(problem.lines().count(), 3);
        assert!(!problem.contains('\x1b') && problem.contains("busy\\u{1b}[2J\\nerror[E00]"), "{problem}");
        assert!(!Unavailable::new(text, "").to_string().contains(['\x1b', '\n']));
    }
}
