//! The parts that every result has: head, warnings, findings, cost, what was granted, where it was saved.

use std::iter::repeat_n;

use msgpath_analyse::Summary;
use msgpath_analyse::gates::{GateState, RunGate};
use msgpath_analyse::summary::{CaseSummary, Cost, Finding, Warning};
use msgpath_core::schema::{FAR, NEAR};
use msgpath_core::units::{self, BitUnits, Glyphs};
use msgpath_record::Run;

use super::answer::{TEXT, kept};
use super::page::{Page, Paint, Span, Style, width};
use super::table::{Align, Table};
use super::{echo, stream};
use crate::words::{self, events};
use crate::{programs, view};

/// The computed sentences, each with its confidence word and the commands to run next. Empty where there is none.
pub fn findings(findings: &[Finding], style: Style) -> String {
    let mut page = Page::new(style);
    page.findings(findings);
    page.finish()
}

/// What changes the meaning of the numbers: text, why it matters, what to do. Empty where there is nothing.
pub fn warnings(warnings: &[Warning], style: Style) -> String {
    let mut page = Page::new(style);
    page.warnings(warnings);
    page.finish()
}

/// `-q`: the sentences that answer and a line for each kind of warning; with `-v` all findings and warnings.
pub fn verdict(run: &Run, summary: &Summary, style: Style, units: BitUnits) -> String {
    let mut page = Page::new(style);
    page.answer(summary);
    let cases = view::measured(summary);
    // More cases than have a sentence each.
    if cases.len() > 1 && summary.comparison.is_none() && !summary.findings.iter().any(|finding| finding.code == "V01")
    {
        page.gap();
        if run.header.plan.workload.timed {
            echo::overview(&mut page, run.header.plan.workload, &cases);
        } else {
            stream::overview(&mut page, summary, units);
        }
    }
    page.warning_lines(&summary.warnings, kept(run, summary));
    if !style.verbose {
        page.missing(summary);
        return page.finish();
    }
    page.findings(&summary.findings);
    if !style.warnings {
        page.warnings(&summary.warnings);
    }
    page.unavailable(summary);
    page.finish()
}

/// What a gate comes to, in its colour.
pub fn gate_state(state: GateState) -> Span {
    let paint = match state {
        GateState::Passed => Paint::Green,
        GateState::Failed => Paint::Red,
        GateState::Undecided => Paint::Yellow,
    };
    paint.span(words::gates::state(state))
}

impl Page {
    /// What the result was to be held to: a line for each gate with its worst case, with `-v` one for each case.
    pub fn gates(&mut self, gates: &[RunGate]) {
        if gates.is_empty() {
            return;
        }
        self.heading("gates");
        let glyphs = self.style.glyphs;
        let mut table =
            Table::new().column("", Align::Left).column("", Align::Left).column("", Align::Left).wrap_last();
        for gate in gates {
            let judged = words::gates::sentence(gate, glyphs);
            table.row([gate_state(gate.state), gate.gate.as_str().into(), judged.into()]);
            for case in gate.cases.iter().filter(|_| self.style.verbose && gate.cases.len() > 1) {
                let judged = format!("{}: {}", case.name, words::gates::judged(case, &gate.unit, glyphs));
                table.row([gate_state(case.state), Span::default(), judged.into()]);
            }
        }
        self.table(table);
    }

    /// The computed sentences, each with its confidence word and the commands to run next.
    pub fn findings(&mut self, findings: &[Finding]) {
        if findings.is_empty() {
            return;
        }
        self.heading("findings");
        for finding in findings {
            self.finding(finding);
            for command in &finding.next {
                self.hanging(&[" ".repeat(TEXT).into(), "next: ".into()], TEXT + 6, command, Paint::Plain);
            }
        }
    }

    /// What changes the meaning of the numbers.
    pub fn warnings(&mut self, warnings: &[Warning]) {
        for warning in warnings {
            self.gap();
            let lead = [Paint::Yellow.span("warning"), format!(" [{}] ", warning.code).into()];
            self.hanging(&lead, TEXT, &warning.text, Paint::Plain);
            if !warning.why.is_empty() {
                self.text(TEXT, &warning.why, Paint::Plain);
            }
            if !warning.fix.is_empty() {
                self.hanging(&[" ".repeat(TEXT).into(), "fix: ".into()], TEXT + 5, &warning.fix, Paint::Plain);
            }
            if warning.strict {
                self.text(TEXT, "with --strict this is an error (exit 5).", Paint::Dim);
            }
        }
    }

    /// Verb, facts and the name of the run; then what is missing.
    pub fn head(&mut self, run: &Run, summary: &Summary, facts: &[String]) {
        self.head_with(run, summary, facts, &[]);
    }

    /// The same with a second line of facts, which takes the name of the run where the first one is full.
    pub fn head_with(&mut self, run: &Run, summary: &Summary, facts: &[String], second: &[String]) {
        let name = format!("run {}", summary.name);
        let facts = facts.join("   ");
        let calls =
            run.header.plan.options.read_size.map(|bytes| format!("receive calls of up to {}", units::size(bytes)));
        let second = second.iter().filter(|fact| !fact.is_empty()).cloned().chain(calls);
        let second = second.collect::<Vec<_>>().join("   ");
        let indent = width(&summary.verb) + 2;
        let used = indent + width(&facts) + 2 + width(&name);
        let lead = [Paint::Bold.span(&summary.verb), "  ".into()];
        let blank: Span = " ".repeat(indent).into();
        if used <= self.style.columns() {
            let space = " ".repeat(self.style.columns() - used + 2);
            let [verb, gap] = lead;
            self.line(&[verb, gap, facts.into(), space.into(), Paint::Blue.span(name)]);
            if !second.is_empty() {
                self.hanging(&[blank], indent, &second, Paint::Dim);
            }
        } else {
            self.hanging(&lead, indent, &facts, Paint::Plain);
            // A name may be longer than a line.
            if second.is_empty() || indent + width(&name) + 3 > self.style.columns() / 2 {
                self.hanging(std::slice::from_ref(&blank), 2, &name, Paint::Blue);
                if !second.is_empty() {
                    self.hanging(&[blank], indent, &second, Paint::Dim);
                }
            } else {
                self.hanging(&[blank, Paint::Blue.span(name), "   ".into()], indent, &second, Paint::Dim);
            }
        }
        if let Some(text) = view::incomplete(run, summary) {
            self.text(0, &text, Paint::Yellow);
        }
    }

    /// Cost of a message at both ends of each case given.
    pub fn costs(&mut self, cases: &[(&str, &CaseSummary)]) {
        let glyphs = self.style.glyphs;
        let mut table = Table::new()
            .column("cost per message", Align::Left)
            .column("cpu user", Align::Right)
            .column("cpu system", Align::Right)
            .column("system calls", Align::Right)
            .optional("voluntary switches", Align::Right, 4)
            .optional("forced", Align::Right, 3)
            .optional("page faults", Align::Right, 1)
            .optional("run-queue delay", Align::Right, 2);
        for (label, case) in cases.iter().filter(|(_, case)| case.rounds > 0) {
            for (end, cost) in [("near end", &case.end(NEAR).cost), ("far end", &case.end(FAR).cost)] {
                let label = if label.is_empty() { end.to_owned() } else { format!("{label}, {end}") };
                table.row(std::iter::once(label.into()).chain(cost_cells(cost, glyphs).map(Into::into)));
            }
        }
        self.gap();
        self.table(table);
        for why in words::why_unread(cases.iter().map(|(_, case)| *case).filter(|case| case.case.traits.program)) {
            self.text(2, &format!("n/a: {why}"), Paint::Dim);
        }
        self.events(cases);
    }

    /// Hardware events of a message at both ends of each case given, and why some are not there. Those of the kernel stand
    /// among the costs already.
    pub fn events(&mut self, cases: &[(&str, &CaseSummary)]) {
        let mut table = Table::new().column("counted per message", Align::Left);
        for (at, head) in events::HEADS.into_iter().enumerate() {
            table = table.optional(head, Align::Right, 8 - at as u8);
        }
        let mut rows = 0;
        for (label, case) in cases.iter().filter(|(_, case)| case.rounds > 0) {
            for by in events::By::ALL {
                let Some(cells) = events::row(case, by) else { continue };
                let label = if label.is_empty() { by.name().to_owned() } else { format!("{label}, {}", by.name()) };
                table.row(std::iter::once(label.into()).chain(cells.map(Into::into)));
                rows += 1;
            }
        }
        if rows > 0 {
            self.gap();
            self.table(table);
        }
        let cases: Vec<&CaseSummary> = cases.iter().map(|(_, case)| *case).collect();
        for reason in events::reasons(&cases) {
            self.hanging(&["  ".into()], 4, &reason, Paint::Dim);
        }
    }

    /// Options that the kernel did not grant as asked, and conditions that were lost.
    pub fn refusals(&mut self, cases: &[&CaseSummary]) {
        let mut lines = Vec::new();
        for case in cases {
            for granted in case.conditions.granted.iter().filter(|granted| !granted.same) {
                let line = format!(
                    "asked and not granted: {} {}: asked {}, granted {}",
                    granted.end, granted.option, granted.asked, granted.granted
                );
                view::push_new(&mut lines, line);
            }
        }
        lines.extend(view::lost_conditions(cases));
        if !lines.is_empty() {
            self.gap();
        }
        for line in lines {
            self.hanging(&["  ".into()], 4, &line, Paint::Yellow);
        }
    }

    /// Cases that could not be measured, each with its reason.
    pub fn unavailable(&mut self, summary: &Summary) {
        let rows = view::unavailable(summary);
        if rows.is_empty() {
            return;
        }
        self.heading("not measured");
        let mut table = Table::new().column("", Align::Left).column("", Align::Left).wrap_last();
        for (path, why, hint) in rows {
            let text = if hint.is_empty() { why } else { format!("{why}; {hint}") };
            table.row([path.into(), text.into()]);
        }
        self.table(table);
    }

    /// Programs of others at the far end, with what a message costs there.
    pub fn programs(&mut self, run: &Run, summary: &Summary) {
        let rows = programs::rows(run, summary, self.style.glyphs);
        if rows.is_empty() {
            return;
        }
        let [name, far, near, ready, which] = programs::HEADS;
        let mut table = Table::new().column(name, Align::Left).column(far, Align::Right).column(near, Align::Right);
        table = table.optional(ready, Align::Right, 1).column(which, Align::Left).wrap_last();
        for row in rows {
            table.row(row.map(Into::into));
        }
        self.gap();
        self.table(table);
    }

    /// Where the run is, and the next command; nothing where the run is not kept.
    pub fn saved(&mut self, run: &Run, summary: &Summary) {
        if run.folder.as_os_str().is_empty() {
            return;
        }
        self.hanging(&["saved  ".into()], 7, &run.folder.display().to_string(), Paint::Plain);
        if self.style.verbose {
            self.hanging(&["again  ".into()], 7, &format!("msgpath show {}", summary.name), Paint::Plain);
        }
    }
}

/// CPU user and system, system calls, voluntary and involuntary switches, faults, run-queue time, per message.
pub fn cost_cells(cost: &Cost, glyphs: Glyphs) -> [String; 7] {
    if cost.unread {
        return std::array::from_fn(|_| "n/a".into());
    }
    if cost.cpu_only {
        let both = format!("{} both", glyphs.time(cost.user_ns));
        return [both].into_iter().chain(repeat_n("n/a".to_owned(), 6)).collect::<Vec<_>>().try_into().expect("seven");
    }
    // The sum is what the scheduler counted; its parts are told apart by ticks. Where none fell into one of them it may
    // still have taken a part of the time.
    let [user, system] = match (cost.user_ns, cost.system_ns) {
        (0.0, both) if both > 0.0 => ["n/a: no tick".into(), format!("{} both", glyphs.time(both))],
        (both, 0.0) if both > 0.0 => [format!("{} both", glyphs.time(both)), "n/a: no tick".into()],
        (user, system) => [glyphs.time(user), glyphs.time(system)],
    };
    [
        user,
        system,
        cost.system_calls().map_or_else(|| "n/a".into(), words::per_message),
        words::per_message(cost.voluntary),
        words::per_message(cost.involuntary),
        words::per_message(cost.faults),
        cost.run_delay_ns.map_or_else(|| "n/a: not counted".into(), |ns| glyphs.time(ns)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_tick_fell_into_is_not_printed_as_nothing() {
        let cells = |user_ns, system_ns| {
            let [user, system, ..] = cost_cells(&Cost { user_ns, system_ns, ..Cost::default() }, Glyphs::Ascii);
            [user, system]
        };
        assert_eq!(cells(0.0, 8_100.0), ["n/a: no tick", "8.10 us both"]);
        assert_eq!(cells(8_100.0, 0.0), ["8.10 us both", "n/a: no tick"]);
        assert_eq!(cells(1_200.0, 6_900.0), ["1.20 us", "6.90 us"]);
        let program = Cost { user_ns: 8_100.0, cpu_only: true, ..Cost::default() };
        assert_eq!(cost_cells(&program, Glyphs::Ascii), ["8.10 us both", "n/a", "n/a", "n/a", "n/a", "n/a", "n/a"]);
    }
}
