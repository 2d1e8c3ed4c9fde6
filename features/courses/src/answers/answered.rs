//! A question is a row of a table: its words, and what answers it.

use msgpath_analyse::summary::Confidence;

use super::{Answer, Part, Table};

/// What a question is answered, or why it cannot be.
pub(super) type Answered = Result<Answer, Cannot>;

/// What answers a question from `C`.
pub(super) type Ask<C> = fn(&C) -> Answered;

/// What answers a question from the runs of the preset.
pub(super) type OfRuns = fn(&[Part<'_>]) -> Answered;

/// Why a question cannot be answered on this path, with the rows and commands that it leaves.
pub(super) struct Cannot(Answer);

impl<W: std::fmt::Display> From<W> for Cannot {
    fn from(because: W) -> Self {
        Self(Answer::cannot("", because))
    }
}

impl Cannot {
    pub(super) fn with(self, table: impl Into<Table>) -> Self {
        Self(self.0.with(table))
    }

    /// With a command to run next.
    pub(super) fn next(self, command: &str) -> Self {
        Self(self.0.next(command))
    }
}

pub(super) fn answer(question: impl Into<String>, output: Answered) -> Answer {
    Answer { question: question.into(), ..output.unwrap_or_else(|cannot| cannot.0) }
}

/// The answers to all questions of a table.
pub(super) fn answers<C: ?Sized>(context: &C, questions: &[(&str, Ask<C>)]) -> Vec<Answer> {
    questions.iter().map(|(question, ask)| answer(*question, ask(context))).collect()
}

/// An answer; its question stands in the table.
pub(super) fn say(confidence: Confidence, text: impl Into<String>) -> Answer {
    Answer::new("", confidence, text)
}

pub(super) fn sure(text: impl Into<String>) -> Answer {
    say(Confidence::Sure, text)
}

pub(super) fn likely(text: impl Into<String>) -> Answer {
    say(Confidence::Likely, text)
}

/// What was seen, which decides nothing.
pub(super) fn unsure(text: impl Into<String>) -> Answer {
    say(Confidence::CantTell, text)
}

/// `sure` where it is so, else likely.
pub(super) fn sure_if(so: bool) -> Confidence {
    if so { Confidence::Sure } else { Confidence::Likely }
}

/// `sure` where it is so, else it cannot be told.
pub(super) fn sure_or_not(so: bool) -> Confidence {
    if so { Confidence::Sure } else { Confidence::CantTell }
}
