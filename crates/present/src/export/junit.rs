//! JUnit XML: one test suite a run, one test case for each gate and case, or for each case where no gate was asked for.
//!
//! What surely fails is a failure; what cannot be told, or could not be measured, is skipped with its reason, as it does not
//! fail the run. A run that ended with an error, or in which nothing was measured, has an error.

use std::fmt::Write;

use msgpath_analyse::Summary;
use msgpath_analyse::diff::name;
use msgpath_analyse::gates::{CaseGate, GateState, RunGate};
use msgpath_analyse::summary::CaseSummary;
use msgpath_core::foreign::{command_again, shown};
use msgpath_core::schema::{NEAR, Status};
use msgpath_core::units::Glyphs;
use msgpath_record::Run;

use super::numbers;
use crate::svg::escape;
use crate::{view, words};

const GLYPHS: Glyphs = Glyphs::Unicode;

/// What a test case comes to.
enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
    /// The run is to blame; with the code of the error.
    Error(String, String),
}

struct Test {
    name: String,
    outcome: Outcome,
    /// What was measured, a line each.
    out: Vec<String>,
}

/// Text as it may stand in an attribute or between tags. What XML has no character for is shown as an escape.
fn xml(text: &str) -> String {
    escape(&shown(text)).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

/// The run as a test suite.
pub(super) fn junit(run: &Run, summary: &Summary) -> String {
    let tests = tests(run, summary);
    let count = |which: fn(&Outcome) -> bool| tests.iter().filter(|test| which(&test.outcome)).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"",
        tests.len(),
        count(|outcome| matches!(outcome, Outcome::Failed(_))),
        count(|outcome| matches!(outcome, Outcome::Error(..))),
        count(|outcome| matches!(outcome, Outcome::Skipped(_))),
    );
    let header = &run.header;
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(out, "<testsuites name=\"msgpath\" {counts}>");
    let _ = writeln!(
        out,
        "  <testsuite name=\"{}\" {counts} time=\"{:.3}\" timestamp=\"{}\" hostname=\"{}\">",
        xml(&summary.name),
        summary.totals.elapsed_ns as f64 / 1e9,
        // Of a time zone the readers of this format know nothing: it is UTC.
        xml(header.started.trim_end_matches('Z')),
        xml(&header.host(NEAR).host),
    );
    out += "    <properties>\n";
    for (name, value) in [
        ("verb", summary.verb.as_str()),
        ("target", &summary.target),
        ("command", &command_again(&header.command)),
        ("version", &header.version),
        ("kernel", &header.host(NEAR).kernel),
        ("cpu", &header.host(NEAR).cpu),
        ("seed", &header.plan.seed.to_string()),
    ] {
        let _ = writeln!(out, "      <property name=\"{name}\" value=\"{}\"/>", xml(value));
    }
    out += "    </properties>\n";
    for test in &tests {
        write(&mut out, &summary.verb, test);
    }
    out + "  </testsuite>\n</testsuites>\n"
}

fn write(out: &mut String, verb: &str, test: &Test) {
    let element = match &test.outcome {
        Outcome::Passed => None,
        Outcome::Failed(text) => Some(("failure", "gate", text)),
        Outcome::Skipped(text) => Some(("skipped", "", text)),
        Outcome::Error(code, text) => Some(("error", code.as_str(), text)),
    };
    let _ = write!(out, "    <testcase classname=\"msgpath.{}\" name=\"{}\"", xml(verb), xml(&test.name));
    if element.is_none() && test.out.is_empty() {
        *out += "/>\n";
        return;
    }
    *out += ">\n";
    if let Some((element, kind, text)) = element {
        let kind = if kind.is_empty() { String::new() } else { format!(" type=\"{}\"", xml(kind)) };
        let _ = writeln!(out, "      <{element}{kind} message=\"{}\"/>", xml(text));
    }
    if !test.out.is_empty() {
        let lines: Vec<String> = test.out.iter().map(|line| xml(line)).collect();
        let _ = writeln!(out, "      <system-out>{}</system-out>", lines.join("\n"));
    }
    *out += "    </testcase>\n";
}

fn tests(run: &Run, summary: &Summary) -> Vec<Test> {
    let cases = view::measured(summary);
    let mut tests: Vec<Test> = the_run(run, summary, &cases).into_iter().collect();
    for gate in &summary.gates {
        tests.extend(gate.cases.iter().map(|case| of_gate(gate, case, &cases)));
    }
    if summary.gates.is_empty() {
        tests.extend(cases.iter().map(|case| of_case(case)));
    }
    let gates = summary.gates.iter().map(|gate| Some(gate.gate.as_str()));
    let each: Vec<Option<&str>> = if summary.gates.is_empty() { vec![None] } else { gates.collect() };
    for gate in each {
        for missing in &summary.unavailable {
            let case = name(&missing.case);
            tests.push(Test {
                name: gate.map_or_else(|| case.clone(), |gate| format!("{gate}: {case}")),
                outcome: Outcome::Skipped(format!("not measured: {}", missing.reason.why)),
                out: Vec::new(),
            });
        }
    }
    tests
}

/// What is wrong with the run as a whole; `None`: nothing.
fn the_run(run: &Run, summary: &Summary, cases: &[&CaseSummary]) -> Option<Test> {
    let problem = run.end.as_ref().and_then(|end| end.problem.as_ref());
    let nothing = cases.iter().all(|case| case.rounds == 0);
    let text = view::incomplete(run, summary);
    let outcome = match (text, problem) {
        (Some(text), Some(problem)) => Outcome::Error(problem.code.clone(), text),
        (Some(text), None) if summary.status == Status::Failed || nothing => Outcome::Error("record".into(), text),
        (Some(text), None) => Outcome::Skipped(text),
        (None, _) if nothing => Outcome::Error("E05".into(), "nothing could be measured".into()),
        (None, _) => return None,
    };
    Some(Test { name: "the run".into(), outcome, out: Vec::new() })
}

fn of_gate(gate: &RunGate, case: &CaseGate, cases: &[&CaseSummary]) -> Test {
    let judged = words::gates::judged(case, &gate.unit, GLYPHS);
    let name = format!("{}: {}", gate.gate, case.name);
    let judged = format!("{}: {judged}", gate.gate);
    let out = cases.iter().find(|known| known.case.id == case.case).map(|case| lines(case)).unwrap_or_default();
    match case.state {
        GateState::Passed => Test { name, outcome: Outcome::Passed, out: [vec![judged], out].concat() },
        GateState::Failed => Test { name, outcome: Outcome::Failed(judged), out },
        GateState::Undecided => Test { name, outcome: Outcome::Skipped(format!("can't tell: {judged}")), out },
    }
}

fn of_case(case: &CaseSummary) -> Test {
    let silent = case.delivery.sent > 0 && case.delivery.received == 0;
    let outcome = match case.rounds {
        0 => Outcome::Skipped("no round was measured".into()),
        _ if silent => Outcome::Failed(format!("nothing arrived: {}", words::arrived(case, "message"))),
        _ => Outcome::Passed,
    };
    Test { name: name(&case.case), outcome, out: lines(case) }
}

/// The numbers of a case, and what became of its messages.
fn lines(case: &CaseSummary) -> Vec<String> {
    if case.rounds == 0 {
        return Vec::new();
    }
    let number = |(name, value, range): (&str, String, String)| match range.as_str() {
        "" => format!("{name} {value}"),
        range => format!("{name} {value} ({range})"),
    };
    let messages = words::arrived(case, "message");
    let counted = format!("{messages}, {}", words::losses(&case.delivery));
    numbers(case).into_iter().map(number).chain([counted]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// Whether every element is closed, and every attribute quoted.
    fn is_well_formed(text: &str) -> bool {
        let mut open: Vec<&str> = Vec::new();
        let mut rest = text.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>").unwrap();
        while let Some(at) = rest.find('<') {
            let end = at + rest[at..].find('>').expect("a tag ends");
            let tag = &rest[at + 1..end];
            match (tag.strip_prefix('/'), tag.strip_suffix('/')) {
                (Some(name), _) if open.pop() != Some(name) => return false,
                (Some(_), _) => {}
                (None, Some(alone)) if alone.matches('"').count() % 2 != 0 => return false,
                (None, Some(_)) => {}
                (None, None) => open.push(tag.split(' ').next().unwrap()),
            }
            rest = &rest[end + 1..];
        }
        open.is_empty()
    }

    #[test]
    fn a_test_case_for_each_gate_and_case() {
        let (run, summary) = fixture::gated();
        let text = junit(&run, &summary);
        assert!(is_well_formed(&text), "{text}");
        insta::assert_snapshot!("junit_gates", text);
    }

    #[test]
    fn without_gates_a_test_case_for_each_case() {
        for (name, (run, summary)) in [("echo", fixture::echo_sizes()), ("stream", fixture::stream())] {
            let text = junit(&run, &summary);
            assert!(is_well_formed(&text), "{text}");
            insta::assert_snapshot!(format!("junit_{name}"), text);
        }
    }

    #[test]
    fn what_was_not_measured_is_no_success() {
        let (mut run, mut summary) = fixture::echo();
        summary.cases[0].delivery.received = 0;
        assert!(junit(&run, &summary).contains("<failure type=\"gate\" message=\"nothing arrived"));
        summary.cases[0].rounds = 0;
        let text = junit(&run, &summary);
        assert!(text.contains("tests=\"2\" failures=\"0\" errors=\"1\" skipped=\"1\""), "{text}");
        assert!(text.contains("<error type=\"E05\" message=\"nothing could be measured\"/>"), "{text}");
        run.end = None;
        summary.status = Status::Partial;
        assert!(junit(&run, &summary).contains("<error type=\"record\""));
        let (mut run, mut summary) = fixture::echo();
        (run.end, summary.status) = (None, Status::Partial);
        let text = junit(&run, &summary);
        assert!(
            text.contains("name=\"the run\"") && text.contains("<skipped message=\"The run was cut short"),
            "{text}"
        );
    }

    #[test]
    fn foreign_text_stays_text() {
        let (mut run, mut summary) = fixture::hostile();
        run.header.command.push("a\u{1b}[2J\u{0}\u{ffff}\n]]>".into());
        summary.gates = fixture::gated().1.gates;
        summary.gates[0].cases[0].name = fixture::HOSTILE.into();
        summary.gates[0].cases[0].because = Some(fixture::HOSTILE.into());
        let text = junit(&run, &summary);
        assert!(is_well_formed(&text) && !text.contains("<script") && !text.contains("<img"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{0}', '\u{ffff}']) && !text.contains("]]>"), "{text}");
        assert!(text.contains("\\u{1b}[2J"), "{text}");
    }
}
