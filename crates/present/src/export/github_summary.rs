//! Markdown for the summary of a job on GitHub (`>> "$GITHUB_STEP_SUMMARY"`): gates, the sentences that answer, a table.

use std::fmt::Write;

use msgpath_analyse::Summary;
use msgpath_analyse::diff::name;
use msgpath_analyse::gates::GateState;
use msgpath_analyse::summary::CaseSummary;
use msgpath_core::foreign::shown;
use msgpath_core::units::Glyphs;
use msgpath_record::Run;

use super::numbers;
use crate::{terminal, view, words};

const GLYPHS: Glyphs = Glyphs::Unicode;
/// Rows of the table; GitHub takes no summary above 1 MiB.
const ROWS: usize = 200;

/// Text in which nothing is markup, on one line.
fn md(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in shown(text).chars() {
        if "\\`*_[]<>|#~$&".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The run as Markdown.
pub(super) fn summary(run: &Run, summary: &Summary) -> String {
    let cases = view::measured(summary);
    let mut out = format!("### msgpath {}: {}\n\n", md(&summary.verb), md(&summary.name));
    let count = |n: u64, word: &str| words::counted(n, word);
    let facts = [
        summary.target.clone(),
        count(cases.len() as u64, "case"),
        count(summary.totals.rounds, "round"),
        summary.totals.messages.map_or_else(|| "messages n/a".into(), |messages| count(messages, "message")),
        run.header.started.clone(),
    ];
    let _ = writeln!(out, "{}\n", md(&facts.join(", ")));
    for text in view::incomplete(run, summary).iter().chain(&view::calm_rounds(summary)) {
        let _ = writeln!(out, "> {}\n", md(text));
    }
    gates(&mut out, summary);
    let answers = terminal::answers(summary);
    for finding in &answers {
        let _ = writeln!(out, "* **{}** {}", finding.confidence.word(), md(&finding.text));
    }
    if !answers.is_empty() {
        out.push('\n');
    }
    table(&mut out, summary, &cases);
    let warnings = terminal::warning_kinds(&summary.warnings);
    if !warnings.is_empty() {
        let _ = writeln!(out, "<details><summary>{}</summary>\n", count(summary.warnings.len() as u64, "warning"));
        for (first, of) in warnings {
            let more = if of > 1 { format!(" (and {} more)", of - 1) } else { String::new() };
            let _ = writeln!(out, "* {} {}{more}", md(&first.code), md(&first.text));
        }
        out += "\n</details>\n";
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn gates(out: &mut String, summary: &Summary) {
    if summary.gates.is_empty() {
        return;
    }
    *out += "| | gate | |\n|---|---|---|\n";
    for gate in &summary.gates {
        let state = words::gates::state(gate.state);
        // Told by the word; the weight shows where to look.
        let state = if gate.state == GateState::Passed { state.to_owned() } else { format!("**{state}**") };
        let _ = writeln!(out, "| {state} | {} | {} |", md(&gate.gate), md(&words::gates::sentence(gate, GLYPHS)));
    }
    out.push('\n');
}

/// A row for each case, with the ratio to the baseline where there is one.
fn table(out: &mut String, summary: &Summary, cases: &[&CaseSummary]) {
    let shown: Vec<_> = cases.iter().filter(|case| case.rounds > 0).collect();
    let Some(first) = shown.first().map(|case| numbers(case)) else { return };
    let ratios =
        summary.comparison.as_ref().map(|comparison| &comparison.ratios[..]).filter(|ratios| !ratios.is_empty());
    let mut head = String::from("| case |");
    first.iter().for_each(|(name, ..)| head += &format!(" {name} | range |"));
    head += if ratios.is_some() { " to the baseline | messages | lost |" } else { " messages | lost |" };
    let columns = head.matches('|').count() - 2;
    let _ = writeln!(out, "{head}\n|---|{}", "---:|".repeat(columns));
    for case in shown.iter().take(ROWS) {
        let mut cells = vec![name(&case.case)];
        let own = numbers(case);
        for (column, ..) in &first {
            let found = own.iter().find(|(name, ..)| name == column);
            cells.extend(
                found.map_or_else(|| ["n/a".into(), String::new()], |(_, value, range)| [value.clone(), range.clone()]),
            );
        }
        if let Some(ratios) = ratios {
            cells
                .push(view::ratio_in(ratios, case).map_or_else(String::new, |ratio| {
                    format!("{} {}", words::change(ratio.ratio), words::mark(ratio))
                }));
        }
        cells.extend([case.messages.to_string(), case.delivery.lost.to_string()]);
        let cells: Vec<String> = cells.iter().map(|cell| md(cell)).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    if shown.len() > ROWS {
        let _ = writeln!(out, "\n{} more cases.", shown.len() - ROWS);
    }
    out.push('\n');
    if let Some(comparison) = summary.comparison.as_ref().filter(|_| ratios.is_some()) {
        let legend = words::legend(&comparison.metric, comparison.margin);
        let _ = writeln!(out, "{}\n", md(&legend));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn gates_sentences_and_a_table() {
        for (name, (run, of)) in [
            ("gates", fixture::gated()),
            ("echo", fixture::echo_sizes()),
            ("stream", fixture::stream()),
            ("compare", fixture::compare()),
        ] {
            insta::assert_snapshot!(format!("github_{name}"), summary(&run, &of));
        }
    }

    #[test]
    fn every_row_has_as_many_cells_as_its_head() {
        for (run, of) in fixture::all() {
            let text = summary(&run, &of);
            let mut columns = 0;
            for line in text.lines() {
                let cells = line.replace("\\|", "").matches('|').count();
                match (line.starts_with('|'), columns) {
                    (false, _) => columns = 0,
                    (true, 0) => columns = cells,
                    (true, _) => assert_eq!(cells, columns, "{line}\n{text}"),
                }
            }
        }
    }

    #[test]
    fn foreign_text_is_no_markup() {
        let (mut run, mut of) = fixture::hostile();
        run.header.started = "| a\n# b \u{1b}[2J `c` [d](e)".into();
        of.gates = fixture::gated().1.gates;
        of.gates[0].cases[0].because = Some(fixture::HOSTILE.into());
        let text = summary(&run, &of);
        assert!(!text.replace("\\<", "").contains("<script"), "{text}");
        assert!(text.contains("\\| a\\\\n\\# b \\\\u{1b}\\[2J \\`c\\` \\[d\\](e)"), "{text}");
    }
}
