//! Programs of others as far ends: what stands beside the times of their cases.

use msgpath_analyse::Summary;
use msgpath_analyse::summary::{CaseSummary, Cost};
use msgpath_core::schema::{FAR, NEAR};
use msgpath_core::units::Glyphs;
use msgpath_record::Run;

use crate::view;

/// Heads of [`rows`].
pub(crate) const HEADS: [&str; 5] = ["far end", "cpu far", "cpu near", "listened after", "which is"];

/// A row for each far end: its path, CPU time of a message at both ends, how long it took to listen, what it is. Nothing where
/// every far end is msgpath.
pub(crate) fn rows(run: &Run, summary: &Summary, glyphs: Glyphs) -> Vec<[String; 5]> {
    if run.header.plan.programs.is_empty() {
        return Vec::new();
    }
    let cases = view::measured(summary);
    let first =
        |case: &&CaseSummary| cases.iter().find(|other| other.case.path == case.case.path).map(|one| one.case.id);
    let each = cases.iter().filter(|case| case.rounds > 0 && first(case) == Some(case.case.id));
    let time = |cost: &Cost| cost.cpu_ns().filter(|ns| *ns > 0.0).map_or_else(|| "n/a".into(), |ns| glyphs.time(ns));
    let row = |case: &&CaseSummary| {
        let facts = run.header.programs.iter().find(|facts| Some(&facts.name) == case.case.path.program.as_ref());
        let ready = facts.and_then(|facts| facts.ready_ns);
        let which = match (facts, run.header.plan.program_of(&case.case)) {
            (Some(facts), program) if !facts.command.is_empty() => {
                let is_told = |source: String| ["{port}", "{socket}"].iter().any(|place| source.contains(place));
                let told = program.is_none_or(|program| is_told(program.source.to_string()));
                let what = if facts.address.starts_with('/') { "socket" } else { "port" };
                let chosen = format!(", at {}: the {what} that it opened first", facts.address);
                facts.command.join(" ") + if told { "" } else { &chosen }
            }
            (_, Some(program)) => program.source.to_string(),
            _ => "msgpath".into(),
        };
        [
            case.case.path.to_string(),
            time(&case.end(FAR).cost),
            time(&case.end(NEAR).cost),
            ready.map_or_else(String::new, |ns| glyphs.time(ns as f64)),
            which,
        ]
    };
    each.map(row).collect()
}
