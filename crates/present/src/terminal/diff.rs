//! `diff`: did it change, and which gates failed.

use msgpath_analyse::diff::{CommonShift, Diff, DiffRow, Judged};
use msgpath_core::gate::Gate;
use msgpath_core::schema::Status;
use msgpath_core::units::signed;
use msgpath_stats::verdict::{Verdict, may_be_the_same};

use super::page::{Page, Paint, Span, Style};
use super::sections::gate_state;
use super::table::{Align, Table};
use crate::words;

/// Two runs: in what they differ, every metric before and after with the interval of its change, and the gates.
pub fn diff(diff: &Diff, style: Style) -> String {
    let mut page = Page::new(style);
    let head = [Paint::Bold.span("diff"), "  ".into(), Paint::Blue.span(&diff.a.name), " → ".into()];
    page.line(&head.into_iter().chain([Paint::Blue.span(&diff.b.name)]).collect::<Vec<_>>());
    page.text(6, &format!("{} → {}", diff.a.started, diff.b.started), Paint::Dim);
    for run in [&diff.a, &diff.b].into_iter().filter(|run| run.status != Status::Ok) {
        page.text(6, &format!("{} is not whole: a part of it is compared", run.name), Paint::Yellow);
    }
    if let Some(text) = counted(diff) {
        page.gap();
        page.text(2, &text, Paint::Bold);
    }
    for shift in diff.common.iter().filter(|shift| shift.verdict != Verdict::Undecided) {
        page.text(2, &common(shift), Paint::Bold);
    }
    if diff.identity.iter().any(|one| one.refuses) {
        page.text(2, "What differs beside them may be the cause; it stands below (--i-know).", Paint::Yellow);
    }
    if !diff.gates.is_empty() {
        page.heading("gates");
        gates(&mut page, diff);
    }
    if !diff.rows.is_empty() {
        page.gap();
        rows(&mut page, diff);
    }
    for case in &diff.unpaired {
        page.text(2, &format!("not compared: {case}"), Paint::Dim);
    }
    differences(&mut page, diff);
    page.gap();
    page.text(0, &margin(diff), Paint::Dim);
    page.finish()
}

fn differences(page: &mut Page, diff: &Diff) {
    if diff.identity.is_empty() {
        return;
    }
    page.heading("what else differs");
    let mut table =
        Table::new().column("", Align::Left).optional("", Align::Left, 1).column("", Align::Left).wrap_last();
    for one in &diff.identity {
        let paint = if one.refuses { Paint::Yellow } else { Paint::Plain };
        table.row([paint.span(&one.what), one.end.as_str().into(), format!("{} → {}", one.a, one.b).as_str().into()]);
    }
    page.table(table);
}

/// `Of 12 values 2 are worse, 1 is better, 9 are not decided (95 %).`: what the table below says, in a sentence.
fn counted(diff: &Diff) -> Option<String> {
    if diff.rows.is_empty() {
        return None;
    }
    let of = |verdict| diff.rows.iter().filter(|row| row.verdict == verdict).count();
    let verb = |n: usize| if n == 1 { "is" } else { "are" };
    let parts: Vec<String> = [
        (of(Verdict::Worse), "worse"),
        (of(Verdict::Better), "better"),
        (of(Verdict::Equivalent), "the same"),
        (of(Verdict::Undecided), "not decided"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, word)| format!("{n} {} {word}", verb(n)))
    .collect();
    let all = diff.rows.len();
    Some(format!("Of {all} value{} {} (95 %).", if all == 1 { "" } else { "s" }, parts.join(", ")))
}

/// `All cases together: p99 +112.0 % (95 %: +80.1 to +150.3 %), worse; it went up in 30 of 30 cases.`
fn common(shift: &CommonShift) -> String {
    let (change, interval) = change(Some(shift.ratio), Some(shift.low), Some(shift.high));
    let verdict = match shift.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Equivalent => "the same",
        Verdict::Undecided => "not decided",
    };
    let CommonShift { metric, up, cases, .. } = shift;
    format!("All cases together: {metric} {change} (95 %: {interval}), {verdict}; it went up in {up} of {cases} cases.")
}

fn rows(page: &mut Page, diff: &Diff) {
    let style = page.style;
    let mut table = Table::new()
        .column("case", Align::Left)
        .column("", Align::Left)
        .optional("before", Align::Right, 1)
        .optional("after", Align::Right, 2)
        .column("change", Align::Right)
        .column("95 %", Align::Left)
        .column("", Align::Left);
    let mut last = "";
    for row in &diff.rows {
        let name = if row.case == last { "" } else { &row.case };
        last = &row.case;
        let value = |value: Option<f64>| value.map_or_else(|| "n/a".into(), |value| value_in(&row.unit, value, style));
        let (change, interval) = change(row.ratio, row.low, row.high);
        table.row([
            name.into(),
            row.metric.as_str().into(),
            value(row.a).as_str().into(),
            value(row.b).as_str().into(),
            Paint::Bold.span(change),
            interval.as_str().into(),
            verdict(row),
        ]);
    }
    page.table(table);
    let mut reasons: Vec<&str> = Vec::new();
    for row in &diff.rows {
        let Some(why) = row.why.as_deref().filter(|why| !reasons.contains(why)) else { continue };
        reasons.push(why);
        page.text(2, &format!("n/a: {} {}: {why}", row.case, row.metric), Paint::Dim);
    }
}

fn verdict(row: &DiffRow) -> Span {
    match row.verdict {
        Verdict::Better => Paint::Green.span("better"),
        Verdict::Worse => Paint::Red.span("worse"),
        Verdict::Equivalent => Paint::Plain.span("the same"),
        Verdict::Undecided => Paint::Yellow.span("can't tell"),
    }
}

fn gates(page: &mut Page, diff: &Diff) {
    let style = page.style;
    let mut table = Table::new()
        .column("", Align::Left)
        .column("", Align::Left)
        .column("", Align::Left)
        .column("", Align::Left)
        .wrap_last();
    for gate in &diff.gates {
        let value = judged(gate, style);
        let why = gate.why.as_deref().unwrap_or_default();
        let shown = match (value.as_str(), why) {
            ("", why) => why.into(),
            (value, "") => value.into(),
            (value, why) => format!("{value}: {why}"),
        };
        table.row([
            gate_state(gate.state),
            gate.gate.as_str().into(),
            gate.case.as_str().into(),
            shown.as_str().into(),
        ]);
    }
    page.table(table);
}

/// What a gate looked at: `+30 % (+29 to +32)`, or the second run's own value.
fn judged(gate: &Judged, style: Style) -> String {
    let (Some(value), Ok(typed)) = (gate.value, gate.gate.parse::<Gate>()) else { return String::new() };
    if typed.is_relative() {
        let (change, interval) = change(gate.value, gate.low, gate.high);
        return format!("{change} ({interval})");
    }
    let text = |value: f64| value_in(typed.watched.unit(), value, style);
    match (gate.low, gate.high) {
        (Some(low), Some(high)) => format!("{} ({} to {})", text(value), text(low), text(high)),
        _ => text(value),
    }
}

fn value_in(unit: &str, value: f64, style: Style) -> String {
    match unit {
        "a message" => words::per_message(value),
        unit => words::gates::value(value, unit, style.glyphs),
    }
}

/// `+30.1 %` and `+28.8 to +32.1 %`.
fn change(ratio: Option<f64>, low: Option<f64>, high: Option<f64>) -> (String, String) {
    let percent = |ratio: f64| signed(100.0 * (ratio - 1.0), |percent| format!("{percent:.1} %"));
    let change = ratio.map_or_else(|| "n/a".into(), percent);
    (change, low.zip(high).and(words::ends(low, high, percent)).unwrap_or_default())
}

fn margin(diff: &Diff) -> String {
    let margin = format!("{:.1} %", 100.0 * diff.margin);
    let basis = if diff.a.resolution.or(diff.b.resolution).is_some() {
        "what the runs' own A/A resolved, at least 2 %"
    } else {
        "assumed: neither run has an A/A control"
    };
    let unseen = if may_be_the_same(diff.margin) {
        ""
    } else {
        " Smaller differences cannot be seen between these runs, and nothing is called the same."
    };
    format!(
        "Verdicts are about these two runs. The intervals are those of each value by itself; 'better' and 'worse' stand after Holm's \
         correction for all {} values as well. The runs followed each other, so what changed on the machine between them counts as well; \
         intervals contain the drift within each, and with -o restarts=5 what differs from start to start. The margin is {margin} \
         ({basis}).{unseen}",
        diff.rows.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_run_against_itself_is_the_same() {
        let (run, _) = fixture::echo();
        let gates = ["p50 > +5%".parse().unwrap(), "p99.9 > 1s".parse().unwrap()];
        let found = msgpath_analyse::diff::diff(&run, &run, &gates);
        let text = diff(&found, Style::default());
        assert!(text.contains("  the same\n") && text.contains("+0.0 %") && text.contains("passed"), "{text}");
        assert!(text.contains("p99.9") && text.contains("is withheld"), "{text}");
        assert!(!text.contains("what else differs"));
        for width in [60, 80] {
            let text = diff(&found, Style { width, ..Style::default() });
            assert!(text.lines().all(|line| line.chars().count() <= width.into()), "{text}");
            insta::assert_snapshot!(format!("diff_{width}"), text);
        }
    }

    #[test]
    fn what_cases_have_in_common_is_a_sentence() {
        let shift = CommonShift {
            metric: "p99".into(),
            cases: 30,
            up: 29,
            ratio: 2.12,
            low: 1.8,
            high: 2.5,
            holm: true,
            verdict: Verdict::Worse,
        };
        let text = "All cases together: p99 +112.0 % (95 %: +80.0 to +150.0 %), worse; it went up in 29 of 30 cases.";
        assert_eq!(common(&shift), text);
    }

    #[test]
    fn changes_are_signed() {
        assert_eq!(change(Some(1.3), Some(0.99), Some(1.32)), ("+30.0 %".into(), "−1.0 to +32.0 %".into()));
        assert_eq!(change(None, None, None), ("n/a".into(), String::new()));
    }
}
