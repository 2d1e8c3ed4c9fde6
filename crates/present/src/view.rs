//! The cases of a summary, arranged as tables need them: which sizes, which threads, which path first.

use msgpath_analyse::Summary;
use msgpath_analyse::summary::{CaseSummary, Comparison, Ratio, Winner};
use msgpath_core::Workload;
use msgpath_core::calm::out_of_reach;
use msgpath_core::plan::Load;
use msgpath_core::schema::{FAR, NEAR, Status, UnavailableCase};
use msgpath_core::units::{self, Glyphs, Pieces};
use msgpath_core::workload::Duration;
use msgpath_core::{Case, CaseRole, PathName, Unavailable};
use msgpath_record::Run;

use crate::words;

/// The cases that the user asked for.
pub fn measured(summary: &Summary) -> Vec<&CaseSummary> {
    summary.cases.iter().filter(|case| case.case.role == CaseRole::Measured).collect()
}

/// The column of a comparison: one size, cut in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub size: u64,
    pub pieces: Pieces,
}

/// Rows, columns and tables of a comparison.
pub struct Grid<'a> {
    cases: Vec<&'a CaseSummary>,
    /// In the order of the plan.
    pub shapes: Vec<Shape>,
    /// Rising.
    pub threads: Vec<u32>,
    /// The baseline first.
    pub paths: Vec<&'a PathName>,
}

impl<'a> Grid<'a> {
    /// The cases that were planned from the start.
    pub fn new(summary: &'a Summary) -> Self {
        Self::of(summary, measured(summary).into_iter().filter(|case| case.case.phase == 0).collect())
    }

    /// The cases with this many threads that were added near a crossing, by size.
    pub fn near_crossing(summary: &'a Summary, threads: u32) -> Self {
        let added = |case: &&CaseSummary| case.case.phase > 0 && case.case.threads == threads;
        let mut grid = Self::of(summary, measured(summary).into_iter().filter(added).collect());
        grid.shapes.sort_by_key(|shape| shape.size);
        grid
    }

    /// What the messages of its echoes are timed by.
    pub fn timed(&self) -> Duration {
        Workload::ECHO.duration(self.cases.iter().any(|case| case.open.is_some()))
    }

    fn of(summary: &'a Summary, cases: Vec<&'a CaseSummary>) -> Self {
        let (mut shapes, mut threads, mut paths) = (Vec::new(), Vec::new(), Vec::new());
        paths.extend(summary.comparison.as_ref().map(|comparison| &comparison.baseline));
        for case in &cases {
            push_new(&mut shapes, Shape { size: case.case.size, pieces: case.case.pieces });
            push_new(&mut threads, case.case.threads);
            push_new(&mut paths, &case.case.path);
        }
        threads.sort_unstable();
        Self { cases, shapes, threads, paths }
    }

    /// The smallest and the largest size.
    pub fn sizes(&self) -> (u64, u64) {
        let sizes = || self.shapes.iter().map(|shape| shape.size);
        (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0))
    }

    pub fn case(&self, path: &PathName, shape: Shape, threads: u32) -> Option<&'a CaseSummary> {
        self.cases.iter().copied().find(|case| {
            let case = &case.case;
            case.path == *path && case.size == shape.size && case.pieces == shape.pieces && case.threads == threads
        })
    }

    /// Whether messages are handed over in pieces, so that pieces head the columns.
    pub fn in_pieces(&self) -> bool {
        self.shapes.iter().any(|shape| shape.pieces.count > 1)
    }

    pub fn head(&self, shape: Shape, short: bool) -> String {
        match (self.in_pieces(), short) {
            (true, _) => shape.pieces.to_string(),
            (false, true) => units::size_short(shape.size),
            (false, false) => units::size(shape.size),
        }
    }

    /// The best path of one cell.
    pub fn winner<'c>(&self, comparison: &'c Comparison, shape: Shape, threads: u32) -> Option<&'c Winner> {
        let pieces = shape.pieces.to_string();
        comparison.winners.iter().find(|winner| {
            winner.size == shape.size && winner.threads == threads && (winner.pieces == pieces || !self.in_pieces())
        })
    }

    /// Whether no path beats this one in its cell, where some path is beaten.
    pub fn is_unbeaten(&self, comparison: &Comparison, path: &PathName, shape: Shape, threads: u32) -> bool {
        let winner = self.winner(comparison, shape, threads);
        winner.is_some_and(|winner| self.tells(winner) && winner.unbeaten.contains(path))
    }

    /// Whether any cell has a path that is beaten.
    pub fn has_unbeaten(&self, comparison: &Comparison) -> bool {
        comparison.winners.iter().any(|winner| self.tells(winner))
    }

    fn tells(&self, winner: &Winner) -> bool {
        winner.unbeaten.len() < self.paths.len()
    }
}

/// The ratio of one case to the baseline.
pub fn ratio<'a>(comparison: &'a Comparison, case: &CaseSummary) -> Option<&'a Ratio> {
    ratio_in(&comparison.ratios, case)
}

/// The ratio of one case in a list of them.
pub fn ratio_in<'a>(ratios: &'a [Ratio], case: &CaseSummary) -> Option<&'a Ratio> {
    ratios.iter().find(|ratio| ratio.case == case.case.id)
}

/// Adds what is not there yet.
pub fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

/// Cases that were not measured: path, why, what helps, each said once. Where other sizes of the path were measured the sizes stand
/// behind it.
pub fn unavailable(summary: &Summary) -> Vec<(String, String, String)> {
    let mut rows: Vec<(&Case, Vec<String>, &Unavailable)> = Vec::new();
    for UnavailableCase { case, reason } in &summary.unavailable {
        let mut same_path = summary.cases.iter().filter(|one| one.case.path == case.path && one.rounds > 0).peekable();
        let by_size = same_path.peek().is_some() && same_path.all(|one| one.case.size != case.size);
        let size = by_size.then(|| units::size(case.size));
        match rows.iter_mut().find(|(first, _, known)| first.path == case.path && *known == reason) {
            Some((_, sizes, _)) => size.into_iter().for_each(|size| push_new(sizes, size)),
            None => rows.push((case, Vec::from_iter(size), reason)),
        }
    }
    let label = |case: &Case, sizes: Vec<String>| match sizes.is_empty() {
        true => case.path.to_string(),
        false => format!("{}, {}", case.path, sizes.join(", ")),
    };
    let rows = rows.into_iter();
    rows.map(|(case, sizes, reason)| (label(case, sizes), reason.why.clone(), reason.hint.clone())).collect()
}

/// Conditions that did not hold throughout, with the number of rounds, all cases together.
pub fn lost_conditions(cases: &[&CaseSummary]) -> Vec<String> {
    let all: u64 = cases.iter().map(|case| case.rounds).sum();
    let mut flags: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    for (flag, rounds) in cases.iter().flat_map(|case| &case.conditions.flags) {
        *flags.entry(flag).or_default() += rounds;
    }
    flags.into_iter().map(|(flag, rounds)| format!("{flag}: in {rounds} of {all} rounds")).collect()
}

/// Why a run is not whole; `None`: it is.
pub fn incomplete(run: &Run, summary: &Summary) -> Option<String> {
    let mut parts = Vec::new();
    match summary.status {
        Status::Ok => {}
        Status::Partial if run.end.as_ref().is_some_and(|end| end.status == Status::Ok) => {
            parts.push("The record is not as it was written.".to_owned());
        }
        Status::Partial => parts.push("The run was cut short; what is shown are the rounds that are whole.".to_owned()),
        Status::Failed => parts.push("The run ended with an error; all that was measured is shown.".to_owned()),
    }
    if let Some(problem) = run.end.as_ref().and_then(|end| end.problem.as_ref()) {
        parts.push(format!("{}: {}.", problem.code, problem.what));
    }
    if let Some(damage) = &run.damage {
        parts.push(format!("{damage}."));
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// The command that goes on with a run that was cut short; `None`: nothing is missing, or it is made in one go.
pub fn goes_on(run: &Run, summary: &Summary) -> Option<String> {
    let header = &run.header;
    let cut = summary.status == Status::Partial && run.damage.is_none() && !run.folder.as_os_str().is_empty();
    let kept = header.plan.options.between.is_none() && !header.pilots.is_empty();
    let rounds = header.plan.workload.resumes.is_ok() && !header.plan.beside;
    (cut && kept && rounds).then(|| format!("msgpath resume {}", header.name))
}

/// `12 of 40 rounds were calm; the numbers are theirs.`; `None`: all were, as planned.
pub fn calm_rounds(summary: &Summary) -> Option<String> {
    let calm = summary.calm.filter(|calm| calm.calm < calm.rounds)?;
    let rounds = format!("{} of {} rounds were calm", calm.calm, calm.rounds);
    Some(if calm.used {
        format!("{rounds}; the numbers are theirs.")
    } else {
        format!("{rounds}, {}: the numbers are those of all rounds.", why_all(summary))
    })
}

/// Why the calm rounds alone do not make the numbers.
fn why_all(summary: &Summary) -> &'static str {
    match summary.cases.iter().any(|case| case.case.load != Load::Closed) {
        true => "but a schedule goes through all of them",
        false => "too few",
    }
}

/// How many rounds were calm, what disturbed the others, whose the numbers are, and whether the run went on for more of
/// them; `None`: all were, as planned.
pub fn calm(run: &Run, summary: &Summary) -> Option<String> {
    let calm = summary.calm.filter(|calm| calm.calm < calm.rounds)?;
    let causes = [(calm.stolen, "steal"), (calm.throttled, "throttled"), (calm.shared, "other work on the CPUs")];
    let causes: Vec<String> = causes
        .into_iter()
        .filter(|(rounds, _)| *rounds > 0)
        .map(|(rounds, cause)| format!("{cause}: {rounds}"))
        .collect();
    let mut text = format!("calm rounds: {} of {} ({}); ", calm.calm, calm.rounds, causes.join(", "));
    text += &match calm.used {
        true => "the numbers are those of the calm rounds".to_owned(),
        false => format!("{}, so the numbers are those of all", why_all(summary)),
    };
    let planned = u64::from(run.header.plan.rounds);
    let most = summary.cases.iter().filter(|case| case.case.phase == 0).map(|case| case.rounds).max().unwrap_or(0);
    if run.header.plan.extend && most > planned {
        text += &format!("; the run went on for {} passes more than the {planned} planned", most - planned);
    } else if run.header.plan.extend && most == planned && out_of_reach(calm.calm, calm.rounds, calm.rounds) {
        text += "; the run did not go on: at this share twice its rounds would be too few as well";
    }
    Some(text)
}

/// The disturbed rounds of each case whose numbers are those of its calm ones.
pub fn beside(cases: &[CaseSummary], glyphs: Glyphs) -> Vec<String> {
    let of = |case: &CaseSummary| {
        let beside = case.latency.beside.as_ref()?;
        let quantiles = beside
            .quantiles
            .iter()
            .filter_map(|quantile| Some(format!(", p{} {}", quantile.p * 100.0, glyphs.time(quantile.ns? as f64))));
        let slowest = beside.slowest_ns.map_or_else(String::new, |ns| format!(", slowest {}", glyphs.time(ns as f64)));
        let message = words::message(&case.case);
        let rounds = format!("{} of {} rounds", beside.rounds, case.rounds);
        Some(format!("{} {message}: {rounds}{}{slowest}", case.case.path, quantiles.collect::<String>()))
    };
    cases.iter().filter_map(of).collect()
}

/// Where the threads of both ends ran.
pub fn placement(run: &Run) -> String {
    let end = |name: &str, cpus: &[u32]| match cpus {
        [] => format!("{name} not pinned"),
        [cpu] => format!("{name} cpu {cpu}"),
        many => format!("{name} cpus {}", many.iter().map(u32::to_string).collect::<Vec<_>>().join(",")),
    };
    let placement = &run.header.plan.placement;
    format!("{}, {}", end("near", placement.of(NEAR)), end("far", placement.of(FAR)))
}

/// What the far end does for each message before it answers; `None`: nothing.
pub fn service_time(run: &Run, glyphs: units::Glyphs) -> Option<String> {
    use msgpath_core::plan::Distribution;
    let time = run.header.plan.service_time?;
    let distribution = match time.distribution {
        Distribution::Constant => "always",
        Distribution::Exponential => "on average, exponential",
    };
    Some(format!(
        "service time of the far end: {}, {distribution}",
        crate::words::chosen(&glyphs.time(time.mean_ns as f64))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use msgpath_analyse::summary::{Beside, CalmRounds};
    use msgpath_stats::quantile::Quantile;

    #[test]
    fn a_run_that_did_not_go_on_says_so() {
        let (mut run, mut summary) = fixture::compare();
        let rounds = summary.cases.iter().map(|case| case.rounds).max().unwrap();
        (run.header.plan.rounds, run.header.plan.extend) = (rounds as u32, true);
        let mut sentence = |calm| {
            summary.calm = Some(CalmRounds { rounds: 40, calm, shared: 40 - calm, ..CalmRounds::default() });
            super::calm(&run, &summary).unwrap()
        };
        assert!(sentence(4).ends_with("twice its rounds would be too few as well"), "{}", sentence(4));
        assert!(!sentence(30).contains("go on"), "{}", sentence(30));
    }

    #[test]
    fn a_run_that_went_on_says_for_how_long() {
        let (mut run, mut summary) = fixture::compare();
        let rounds = summary.cases.iter().map(|case| case.rounds).max().unwrap() as u32;
        summary.calm = Some(CalmRounds { rounds: 40, calm: 12, stolen: 28, used: true, ..CalmRounds::default() });
        (run.header.plan.rounds, run.header.plan.extend) = (rounds - 3, true);
        let text = super::calm(&run, &summary).unwrap();
        let longer = format!("; the run went on for 3 passes more than the {} planned", rounds - 3);
        assert_eq!(
            text,
            format!("calm rounds: 12 of 40 (steal: 28); the numbers are those of the calm rounds{longer}")
        );
        // Rounds that nobody allowed it to add are not its going on.
        run.header.plan.extend = false;
        let text = super::calm(&run, &summary).unwrap();
        assert!(text.ends_with("the numbers are those of the calm rounds"), "{text}");
    }

    #[test]
    fn calm_rounds_are_counted_under_the_numbers() {
        let (run, mut summary) = fixture::echo();
        let label = |summary: &Summary| {
            let text =
                crate::terminal::echo(&run, summary, crate::Style { glyphs: Glyphs::Ascii, ..crate::Style::default() });
            text.lines().find(|line| line.contains("rounds were calm")).map(|line| line.trim().to_owned())
        };
        let calm = |calm, used| Some(CalmRounds { rounds: 40, calm, shared: 40 - calm, used, ..CalmRounds::default() });
        summary.calm = calm(40, true);
        assert_eq!(label(&summary), None);
        summary.calm = calm(12, true);
        assert_eq!(label(&summary).unwrap(), "12 of 40 rounds were calm; the numbers are theirs.");
        summary.calm = calm(4, false);
        assert_eq!(label(&summary).unwrap(), "4 of 40 rounds were calm, too few: the numbers are those of all rounds.");
    }

    #[test]
    fn disturbed_rounds_stand_beside_the_calm_ones() {
        let (_, mut summary) = fixture::echo();
        assert!(beside(&summary.cases, Glyphs::Ascii).is_empty(), "all were calm");
        let quantile = |p, ns| Quantile { p, ns, ..Quantile::default() };
        // The p99 of the disturbed rounds is a lost message: it has no time.
        let quantiles = vec![quantile(0.5, Some(52_000)), quantile(0.99, None)];
        summary.cases[0].latency.beside = Some(Beside { rounds: 3, quantiles, slowest_ns: Some(1_500_000) });
        let rounds = summary.cases[0].rounds;
        let expected = format!("tcp:send 64 B: 3 of {rounds} rounds, p50 52.0 us, slowest 1.50 ms");
        assert_eq!(beside(&summary.cases, Glyphs::Ascii), [expected]);
        summary.cases[0].latency.beside = Some(Beside { rounds: 3, quantiles: Vec::new(), slowest_ns: None });
        assert_eq!(beside(&summary.cases, Glyphs::Ascii), [format!("tcp:send 64 B: 3 of {rounds} rounds")]);
    }
}
