//! Formats that need the analysis: for people and programs that read results, not the record. One file each.

mod github_summary;
mod junit;
mod openmetrics;

use msgpath_analyse::Summary;
use msgpath_analyse::summary::CaseSummary;
use msgpath_core::units::{BitUnits, Glyphs};
use msgpath_record::Run;

use crate::{matplotlib, words};

pub use openmetrics::openmetrics;

/// A format.
#[derive(Clone, Copy)]
pub struct Exporter {
    /// What is typed: `junit`.
    pub name: &'static str,
    /// What it is for, in a line.
    pub summary: &'static str,
    /// The text.
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

/// The exporter of this name.
pub fn exporter(name: &str) -> Option<&'static Exporter> {
    EXPORTERS.iter().find(|exporter| exporter.name == name)
}

/// The numbers of a case, each with its name and its range: those that its workload has.
fn numbers(case: &CaseSummary) -> Vec<(&'static str, String, String)> {
    const GLYPHS: Glyphs = Glyphs::Unicode;
    if let Some(throughput) = &case.throughput {
        let bits = |bits| words::throughput(bits, BitUnits::Si);
        let own = &throughput.receiver_bits;
        let messages = &throughput.messages;
        return vec![
            ("throughput", bits(own.value), words::estimate_interval(own, bits)),
            ("messages", words::per_second(messages.value), words::estimate_interval(messages, words::per_second)),
        ];
    }
    let of = |name, p| {
        let quantile = words::quantile(case, p)?;
        Some((name, words::quantile_value(quantile, GLYPHS), words::quantile_range(quantile, GLYPHS)))
    };
    [of("p50", 0.5), of("p99", 0.99)].into_iter().flatten().collect()
}
