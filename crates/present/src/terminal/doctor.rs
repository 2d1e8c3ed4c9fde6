//! `doctor`: what is in the way on both ends, and the commands that help.

use msgpath_core::doctor::{Check, CheckState, Doctor};

use super::answer::in_a_line;
use super::page::{Page, Paint, Style, width, wrap};
use super::table::{Align, Table};
use crate::words;

/// Checks of which it is told what was seen and what helps, in a line each.
const CHECKS: usize = 3;
/// Characters of the longest name of a check in these lines.
const NAME: usize = 24;

/// Whether measurements here can be relied on, a line with its cure for each check that is in the way, how many are not;
/// with `-v` each check. `resolution`: what the A/A control could tell apart (0.013 is 1.3 %), where it was measured.
/// `again`: the command that was typed.
pub fn doctor(doctor: &Doctor, resolution: Option<f64>, again: &str, style: Style) -> String {
    let mut page = Page::new(style);
    let worst = worst(doctor);
    let count = |state: CheckState| worst.iter().filter(|line| line.check.state == state).count();
    let mut verdict = words::doctor_verdict(count(CheckState::Stop), count(CheckState::Warn));
    if let Some(resolution) = resolution {
        verdict += &format!("; this machine resolves {} today", words::percent(resolution));
    }
    page.hanging(&[Paint::Bold.span("doctor"), "  ".into()], 8, &format!("{verdict}."), Paint::Plain);
    let more = in_the_way(&mut page, &worst);
    let mut rest: Vec<String> =
        Some(more).filter(|more| *more > 0).map(|more| format!("and {more} more")).into_iter().collect();
    rest.push(format!("{} fine", words::counted(count(CheckState::Ok) as u64, "check")));
    rest.extend(Some(count(CheckState::NotAvailable)).filter(|n| *n > 0).map(|n| format!("{n} n/a")));
    rest.push(format!("took {}", style.glyphs.time(doctor.took_ns as f64)));
    page.text(2, &rest.join(", "), Paint::Dim);
    if doctor.checks.iter().any(|check| !check.commands.is_empty()) {
        page.text(0, &format!("commands that help: {again} --fix"), Paint::Plain);
    }
    if style.verbose {
        each_check(&mut page, doctor);
    } else {
        page.text(0, &format!("more: {again} -v"), Paint::Plain);
    }
    page.finish()
}

/// A check with whether its end must be named.
struct Line<'a> {
    check: &'a Check,
    end: bool,
}

impl Line<'_> {
    fn name(&self) -> String {
        if self.end { format!("{}, {}", self.check.name, self.check.end) } else { self.check.name.clone() }
    }
}

/// Each check once, at the worse of its ends; what stops claims first.
fn worst(doctor: &Doctor) -> Vec<Line<'_>> {
    let mut worst: Vec<Line<'_>> = Vec::new();
    for line in lines(doctor) {
        match worst.iter_mut().find(|known| known.check.number == line.check.number) {
            Some(known) if line.check.state > known.check.state => *known = line,
            // The other end is as bad.
            Some(known) if line.check.state == known.check.state => known.end = false,
            Some(_) => {}
            None => worst.push(line),
        }
    }
    worst.sort_by_key(|line| std::cmp::Reverse(line.check.state));
    worst
}

/// What was seen by the first checks that are in the way and, below, what helps, each as far as a line has room. How many
/// more are in the way.
fn in_the_way(page: &mut Page, worst: &[Line<'_>]) -> usize {
    let bad: Vec<&Line<'_>> = worst.iter().filter(|line| line.check.state >= CheckState::Warn).collect();
    if bad.is_empty() {
        return 0;
    }
    page.gap();
    let shown = &bad[..bad.len().min(CHECKS)];
    let style = page.style;
    let name = |line: &Line<'_>| in_a_line(&style.clean(&line.name()), NAME);
    let widest = shown.iter().map(|line| width(&name(line))).max().unwrap_or(0);
    let room = style.columns().saturating_sub(widest + 10);
    for line in shown {
        let name = name(line);
        let pad = " ".repeat(widest + 2 - width(&name));
        let state = line.check.state;
        let what = in_a_line(&style.clean(&line.check.what), room);
        page.line(&["  ".into(), paint(state).span(state.word()), "  ".into(), name.into(), pad.into(), what.into()]);
        if !line.check.cure.is_empty() {
            // It is another machine's word.
            let whose = if line.check.end == "far" { "far end: " } else { "" };
            let to = style.clean("→ ");
            let cure = in_a_line(&style.clean(&line.check.cure), room - width(whose) - width(&to));
            page.text(widest + 10, &format!("{to}{whose}{cure}"), Paint::Plain);
        }
    }
    bad.len() - shown.len()
}

/// One line per check with its cure; both ends together where they agree.
fn each_check(page: &mut Page, doctor: &Doctor) {
    if !doctor.full {
        page.text(0, "The noise floor was measured for a moment only: msgpath doctor takes longer.", Paint::Dim);
    }
    page.heading("each check");
    let mut table = Table::new()
        .column("", Align::Right)
        .column("", Align::Left)
        .column("", Align::Left)
        .column("", Align::Left)
        .wrap_last();
    for line in lines(doctor) {
        let check = line.check;
        let state = paint(check.state).span(check.state.word());
        table.row([check.number.to_string().into(), state, line.name().into(), check.what.as_str().into()]);
        if check.state >= CheckState::Warn && !check.cure.is_empty() {
            table.row(["".into(), "".into(), "".into(), Paint::Dim.span(format!("fix: {}", check.advice()))]);
        }
    }
    page.table(table);
}

/// The commands that help, each with the one that takes it back, as a shell script: what is not a command is a comment.
/// A command is never broken or cut, so such a line may be wider than the terminal.
pub fn doctor_fix(doctor: &Doctor, style: Style) -> String {
    let mut page = Page::new(style);
    let commands: usize = lines(doctor).iter().map(|line| line.check.commands.len()).sum();
    if commands == 0 {
        comment(&mut page, "doctor --fix: no check has a command. Nothing was changed.");
        return page.finish();
    }
    let count = words::counted(commands as u64, "command");
    comment(&mut page, &format!("doctor --fix: {count} to type as root. Nothing was changed."));
    for Line { check, end } in lines(doctor).into_iter().filter(|line| !line.check.commands.is_empty()) {
        page.gap();
        let at = if end { format!(" on the {} end", check.end) } else { String::new() };
        comment(&mut page, &format!("{} {}{at}", check.number, check.name));
        for fix in &check.commands {
            page.verbatim(&fix.run);
            page.verbatim(&format!("# undo: {}", fix.undo));
        }
    }
    page.finish()
}

/// Text in a shell script: every line begins with `#`.
fn comment(page: &mut Page, text: &str) {
    for line in wrap(&page.style.clean(text), page.style.columns(), 2, 2) {
        page.line(&[Paint::Dim.span(format!("# {line}"))]);
    }
}

/// The checks to print, one for both ends where they agree.
fn lines(doctor: &Doctor) -> Vec<Line<'_>> {
    let alike = |a: &Check, b: &Check| {
        (a.number, a.state, &a.what, &a.cure, &a.commands) == (b.number, b.state, &b.what, &b.cure, &b.commands)
    };
    let two_ends = doctor.checks.iter().any(|check| check.end == "far");
    let mut lines: Vec<Line<'_>> = Vec::new();
    for check in &doctor.checks {
        match lines.iter_mut().find(|known| alike(known.check, check)) {
            Some(known) => known.end = false,
            None => lines.push(Line { check, end: two_ends && check.end != "both" }),
        }
    }
    lines
}

fn paint(state: CheckState) -> Paint {
    match state {
        CheckState::Ok => Paint::Green,
        CheckState::NotAvailable => Paint::Dim,
        CheckState::Warn => Paint::Yellow,
        CheckState::Stop => Paint::Red,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    const AGAIN: &str = "msgpath doctor";

    #[test]
    fn a_check_that_agrees_at_both_ends_is_one_line() {
        let text = doctor(&fixture::doctor(), None, AGAIN, Style { verbose: true, ..Style::default() });
        let each = text.split("each check").nth(1).unwrap();
        assert_eq!(each.matches("clock source").count(), 1, "{text}");
        assert!(!text.contains("clock source, near"));
        assert!(each.contains("load, near") && each.contains("load, far"), "{text}");
    }

    /// Every check is in the way, with the longest of what it may say.
    fn worst_machine() -> Doctor {
        let mut found = fixture::doctor();
        for number in 30..50_u8 {
            let state = if number.is_multiple_of(2) { CheckState::Warn } else { CheckState::Stop };
            let sample = found.checks.iter().find(|check| check.number == 8).unwrap().clone();
            let cure = format!("stop what else runs {}", "and so on ".repeat(30));
            found.checks.push(Check { number, state, name: format!("a check called {number}"), cure, ..sample });
        }
        found
    }

    #[test]
    fn the_doctor_fits_on_twelve_lines() {
        for found in [fixture::doctor(), worst_machine(), Doctor::default()] {
            for width in [60, 80, 100] {
                let text = doctor(&found, Some(0.0133), AGAIN, Style { width, ..Style::default() });
                assert!(text.lines().count() <= 12, "{text}");
                assert!(text.ends_with("more: msgpath doctor -v\n"), "{text}");
            }
        }
    }

    #[test]
    fn what_stops_claims_stands_first_with_what_helps() {
        let style = Style { width: 80, ..Style::default() };
        let text = doctor(&fixture::doctor(), None, AGAIN, style);
        let bad: Vec<&str> = text.lines().filter(|line| line.contains("→ ")).collect();
        let states = text.lines().filter(|line| line.starts_with("  STOP  ") || line.starts_with("  WARN  "));
        let states: Vec<&str> = states.map(|line| &line[2..12]).collect();
        assert!(states[0] == "STOP  load" && states[1..].iter().all(|state| state.starts_with("WARN")), "{text}");
        assert!(bad[0].trim_start().starts_with("→ end the other programs"), "{text}");
        let text = doctor(&worst_machine(), None, AGAIN, style);
        assert!(!text.contains("  WARN  ") && text.contains("  and 20 more, "), "{text}");
    }

    #[test]
    fn commands_can_be_copied_whatever_the_width() {
        let found = fixture::doctor();
        let text = doctor_fix(&found, Style { width: 60, ..Style::default() });
        for fix in found.checks.iter().flat_map(|check| &check.commands) {
            assert!(text.lines().any(|line| line == fix.run), "{text}");
        }
        let plain = |line: &&str| !line.is_empty() && !line.starts_with('#');
        let commands = text.lines().filter(plain).count();
        assert_eq!(commands, lines(&found).iter().map(|line| line.check.commands.len()).sum::<usize>());
        assert!(doctor_fix(&Doctor::default(), Style::default()).contains("Nothing was changed"));
    }
}
