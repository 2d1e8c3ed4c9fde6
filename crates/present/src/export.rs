//! Formats that need the analysis: for people and programs that read results, not the record. One file each.

mod github_summary;
mod junit;

use msgpath_analyse::Summary;
use msgpath_analyse::summary::CaseSummary;
use msgpath_core::units::{BitUnits, Glyphs};
use msgpath_record::Run;

use crate::columns::{self, Value};
use crate::matplotlib;

#[derive(Clone, Copy)]
pub struct Exporter {
    /// What is typed: `junit`.
    pub name: &'static str,
    /// What it is for, in a line.
    pub summary: &'static str,
    pub text: fn(&Run, &Summary) -> String,
}

/// All of them.
pub const EXPORTERS: &[Exporter] = &[
    Exporter {
        name: "matplotlib",
        summary: "a Python script with the numbers and their intervals, to draw them again",
        text: matplotlib::script,
    },
    Exporter {
        name: "cases-csv",
        summary: "CSV with a row for each case: its numbers, and the ends of their ranges",
        text: |_, summary| columns::data(summary).csv(),
    },
    Exporter {
        name: "junit",
        summary: "JUnit XML for CI: a test case for each gate of --fail-if and case, or for each case",
        text: junit::junit,
    },
    Exporter {
        name: "github-summary",
        summary: "Markdown for the summary of a GitHub job: gates, sentences, a table",
        text: github_summary::summary,
    },
];

pub fn exporter(name: &str) -> Option<&'static Exporter> {
    EXPORTERS.iter().find(|exporter| exporter.name == name)
}

/// The numbers of a case, each with its name and its range: those that its workload has.
fn numbers(case: &CaseSummary) -> Vec<(&'static str, String, String)> {
    let shown = |column: &&columns::Column<CaseSummary>| column.keep > columns::PAGE && column.range.is_some();
    let number = |column: &columns::Column<CaseSummary>| {
        let value = (column.value)(case);
        (value != Value::Missing)
            .then(|| (column.title, value.text(Glyphs::Unicode, BitUnits::Si), value.range(Glyphs::Unicode)))
    };
    let columns = if case.throughput.is_some() { columns::STREAM } else { columns::ECHO };
    columns.iter().filter(shown).filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn what_a_record_says_gives_a_terminal_no_order_in_any_format() {
        let hostile = |text: &str| text.contains(fixture::HOSTILE);
        let (mut run, mut summary) = fixture::hostile();
        // What a terminal obeys, beside what a browser obeys.
        let with = "\u{1b}[2J\u{202e}\r\n=cmd()";
        run.header.name.push_str(with);
        summary.name.push_str(with);
        summary.target.push_str(with);
        summary.findings.iter_mut().for_each(|finding| finding.text.push_str(with));
        summary.warnings.iter_mut().for_each(|warning| warning.text.push_str(with));
        let texts = EXPORTERS.iter().map(|exporter| (exporter.name, (exporter.text)(&run, &summary)));
        for (name, text) in texts {
            assert!(text.contains("alert(1)"), "{name} says the name: {text}");
            let obeyed = |c: char| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c);
            assert_eq!(text.find(obeyed), None, "{name}: {text}");
            assert!(!text.lines().any(|line| line.starts_with("=cmd()")), "{name}: {text}");
            assert!(!matches!(name, "junit" | "github-summary") || !hostile(&text), "{name}: {text}");
        }
    }
}
