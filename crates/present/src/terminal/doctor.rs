//! `doctor`: what is in the way on both ends, and the commands that help.

use msgpath_core::doctor::{Check, CheckState, Doctor};

use super::page::{Page, Paint, Style, width, wrap};
use super::table::{Align, Table};
use crate::words;

/// One line per check with its cure; both ends together where they agree. `resolution`: what the A/A control could
/// tell apart (0.013 is 1.3 %), where it was measured.
pub fn doctor(doctor: &Doctor, resolution: Option<f64>, style: Style) -> String {
    let mut page = Page::new(style);
    let took = style.glyphs.time(doctor.took_ns as f64);
    page.hanging(
        &[Paint::Bold.span("doctor"), "  ".into()],
        8,
        &format!("{}   took {took}", words::checks(doctor)),
        Paint::Plain,
    );
    if !doctor.full {
        page.text(8, "The noise floor was measured for a moment only: msgpath doctor takes longer.", Paint::Dim);
    }
    page.gap();
    in_short(&mut page, doctor);
    if let Some(resolution) = resolution {
        let text = format!("This machine resolves {} today (A/A, 95 % of pairs).", words::percent(resolution));
        page.text(2, &text, Paint::Plain);
    }
    if doctor.checks.iter().any(|check| !check.commands.is_empty()) {
        page.gap();
        page.hanging(&["commands  ".into()], 10, "msgpath doctor --fix", Paint::Plain);
    }
    page.heading("each check");
    let mut table = Table::new()
        .column("", Align::Right)
        .column("", Align::Left)
        .column("", Align::Left)
        .column("", Align::Left)
        .wrap_last();
    for (check, end) in lines(doctor) {
        let name = if end { format!("{}, {}", check.name, check.end) } else { check.name.clone() };
        let number = check.number.to_string();
        table.row([
            number.into(),
            paint(check.state).span(check.state.word()),
            name.into(),
            check.what.as_str().into(),
        ]);
        if check.state >= CheckState::Warn && !check.cure.is_empty() {
            table.row(["".into(), "".into(), "".into(), Paint::Dim.span(format!("fix: {}", check.advice()))]);
        }
    }
    page.table(table);
    page.finish()
}

/// What each check that is in the way found first, at the worse of its ends, and the names of the others.
fn in_short(page: &mut Page, doctor: &Doctor) {
    let mut worst: Vec<(&Check, bool)> = Vec::new();
    for (check, end) in lines(doctor) {
        match worst.iter_mut().find(|(known, _)| known.number == check.number) {
            Some(known) if check.state > known.0.state => *known = (check, end),
            // The other end is as bad.
            Some(known) if check.state == known.0.state => known.1 = false,
            Some(_) => {}
            None => worst.push((check, end)),
        }
    }
    let name = |(check, end): &(&Check, bool)| {
        if *end { format!("{}, {}", check.name, check.end) } else { check.name.clone() }
    };
    let bad: Vec<&(&Check, bool)> = worst.iter().filter(|(check, _)| check.state >= CheckState::Warn).collect();
    let widest = bad.iter().map(|line| width(&page.style.clean(&name(line)))).max().unwrap_or(0);
    for state in [CheckState::Stop, CheckState::Warn] {
        for line in bad.iter().filter(|(check, _)| check.state == state) {
            let name = page.style.clean(&name(line));
            let pad = " ".repeat(widest + 2 - width(&name));
            let lead = ["  ".into(), paint(state).span(state.word()), "  ".into(), name.into(), pad.into()];
            // The rest stands below.
            let what = line.0.what.split("; ").next().unwrap_or_default();
            page.hanging(&lead, widest + 10, what, Paint::Plain);
        }
    }
    for state in [CheckState::NotAvailable, CheckState::Ok] {
        let names: Vec<&str> =
            worst.iter().filter(|(check, _)| check.state == state).map(|(check, _)| check.name.as_str()).collect();
        if !names.is_empty() {
            let lead = ["  ".into(), paint(state).span(state.word()), " ".repeat(6 - width(state.word())).into()];
            page.hanging(&lead, 8, &names.join(", "), Paint::Plain);
        }
    }
}

/// The commands that help, each with the one that takes it back, as a shell script: what is not a command is a comment.
/// A command is never broken or cut, so such a line may be wider than the terminal.
pub fn doctor_fix(doctor: &Doctor, style: Style) -> String {
    let mut page = Page::new(style);
    let commands: usize = lines(doctor).iter().map(|(check, _)| check.commands.len()).sum();
    if commands == 0 {
        comment(&mut page, "doctor --fix: no check has a command. Nothing was changed.");
        return page.finish();
    }
    let count = words::counted(commands as u64, "command");
    comment(&mut page, &format!("doctor --fix: {count} to type as root. Nothing was changed."));
    for (check, end) in lines(doctor).into_iter().filter(|(check, _)| !check.commands.is_empty()) {
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

/// The checks to print, one for both ends where they agree, each with whether its end must be named.
fn lines(doctor: &Doctor) -> Vec<(&Check, bool)> {
    let alike = |a: &Check, b: &Check| {
        (a.number, a.state, &a.what, &a.cure, &a.commands) == (b.number, b.state, &b.what, &b.cure, &b.commands)
    };
    let two_ends = doctor.checks.iter().any(|check| check.end == "far");
    let mut lines: Vec<(&Check, bool)> = Vec::new();
    for check in &doctor.checks {
        match lines.iter_mut().find(|(known, _)| alike(known, check)) {
            Some((_, name_end)) => *name_end = false,
            None => lines.push((check, two_ends && check.end != "both")),
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

    #[test]
    fn a_check_that_agrees_at_both_ends_is_one_line() {
        let found = fixture::doctor();
        let text = doctor(&found, None, Style::default());
        let each = text.split("each check").nth(1).unwrap();
        assert_eq!(each.matches("clock source").count(), 1, "{text}");
        assert!(!text.contains("clock source, near"));
        assert!(each.contains("load, near") && each.contains("load, far"), "{text}");
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
        assert_eq!(commands, lines(&found).iter().map(|(check, _)| check.commands.len()).sum::<usize>());
        assert!(doctor_fix(&Doctor::default(), Style::default()).contains("Nothing was changed"));
    }
}
