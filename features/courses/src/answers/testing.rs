//! Runs of presets, analysed, for tests.

use msgpath_analyse::testing::Build;
use msgpath_analyse::{Logs, Summary};
use msgpath_core::units::Pieces;
use msgpath_record::Run;

use super::{Answer, Page, Part};

/// A run of a preset, analysed.
pub(super) struct Made {
    name: &'static str,
    run: Run,
    summary: Summary,
    logs: Logs,
}

impl Made {
    /// As it was built.
    pub(super) fn of(name: &'static str, build: &Build) -> Self {
        Self::from(name, build.run())
    }

    /// Of rounds that were altered.
    pub(super) fn from(name: &'static str, run: Run) -> Self {
        Self::with(name, run, Logs::default())
    }

    pub(super) fn with(name: &'static str, run: Run, logs: Logs) -> Self {
        let summary = msgpath_analyse::summarise_with(&run, &logs);
        Self { name, run, summary, logs }
    }

    /// As pages look at them.
    pub(super) fn parts(made: &[Self]) -> Vec<Part<'_>> {
        made.iter().map(|one| Part { name: one.name, run: &one.run, summary: &one.summary, logs: &one.logs }).collect()
    }
}

/// What `make` says of these runs, each with its name and its logs.
pub(super) fn of<T>(runs: &[(&'static str, Run, Logs)], make: impl Fn(&[Part<'_>]) -> T) -> T {
    let made: Vec<Made> = runs.iter().map(|(name, run, logs)| Made::with(name, run.clone(), logs.clone())).collect();
    make(&Made::parts(&made))
}

/// The answer to the question that has these words.
#[track_caller]
pub(super) fn answer<'a>(page: &'a Page, question: &str) -> &'a Answer {
    page.answers.iter().find(|answer| answer.question.contains(question)).expect(question)
}

/// Each path in each of these pieces, as a stream.
pub(super) fn shapes(paths: &[&str], pieces: &[(u32, u32)]) -> Build {
    in_pieces(Build::stream(paths, &vec![1500; pieces.len()]), pieces)
}

/// Gives the cases of each path these pieces.
pub(super) fn in_pieces(mut build: Build, pieces: &[(u32, u32)]) -> Build {
    for (case, (count, size)) in build.plan.cases.iter_mut().zip(pieces.iter().cycle()) {
        case.pieces = Pieces::of(*count, *size);
        case.size = case.pieces.total();
    }
    build
}
