//! `verify`: does the record still say what was printed?

use msgpath_analyse::verify::Verification;
use msgpath_core::schema::Status;

use super::page::{Page, Paint, Style};
use super::table::{Align, Table};
use crate::words;

/// What was compared, and every number that does not agree.
pub fn verify(check: &Verification, style: Style) -> String {
    let mut page = Page::new(style);
    page.line(&[Paint::Bold.span("verify"), "  ".into(), Paint::Blue.span(&check.name)]);
    page.text(8, &format!("written by msgpath {}", check.written_by), Paint::Dim);
    page.gap();
    let whole = check.damage.as_deref().unwrap_or("whole");
    let mut lines = vec![("record", whole.to_owned())];
    lines.extend(compared(check));
    for (name, text) in lines {
        let paint = if name == "record" && check.damage.is_some() { Paint::Red } else { Paint::Plain };
        page.hanging(&[format!("  {name:<10}").as_str().into()], 12, &text, paint);
    }
    for note in &check.notes {
        page.hanging(&[Paint::Yellow.span("  note      ")], 12, note, Paint::Plain);
    }
    page.gap();
    match check.status {
        Status::Ok => page.text(0, "All agree.", Paint::Green),
        Status::Partial => page.text(0, "What is there agrees; the record is not whole.", Paint::Yellow),
        Status::Failed => {
            let count = check.disagreements.len() as u64;
            let verb = if count == 1 { "does" } else { "do" };
            page.text(0, &format!("{} {verb} not agree:", count), Paint::Red);
            let mut table = Table::new()
                .column("what", Align::Left)
                .column("stored", Align::Left)
                .column("computed", Align::Left)
                .wrap_last();
            for one in &check.disagreements {
                table.row([one.what.as_str().into(), one.stored.as_str().into(), one.computed.as_str().into()]);
            }
            page.table(table);
        }
    }
    page.finish()
}

/// What was compared with what.
fn compared(check: &Verification) -> Vec<(&'static str, String)> {
    let counted = |n: u64, word: &str| words::counted(n, word);
    let mut lines = check.compared.clone();
    if lines.is_empty() {
        let rounds = counted(check.rounds, "round");
        lines.push(("rounds", format!("{rounds}: histogram and counts of both ends against each other")));
        let messages = match check.rounds_from_messages {
            0 => "nothing to compare: the log holds no whole round, or the messages are not timed one by one".into(),
            rounds => format!(
                "{} rebuilt from single messages; quantiles of {} compared with them",
                counted(rounds, "histogram"),
                counted(check.cases_from_messages, "case")
            ),
        };
        lines.push(("messages", messages));
    }
    if check.texts == 0 {
        lines.push(("summary", format!("{} computed again and the same", counted(check.numbers, "number"))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_analyse::verify::Disagreement;

    fn check(status: Status) -> Verification {
        Verification {
            schema: String::new(),
            status,
            verb: "compare".into(),
            name: "brisk-otter".into(),
            written_by: "0.1.0".into(),
            checked_by: "0.1.0".into(),
            damage: None,
            rounds: 40,
            pairs: 0,
            requests: 0,
            texts: 0,
            rounds_from_messages: 0,
            cases_from_messages: 0,
            numbers: 812,
            disagreements: Vec::new(),
            notes: vec!["the log holds no whole round".into()],
            compared: Vec::new(),
        }
    }

    #[test]
    fn agreement_is_one_line_and_each_difference_has_its_own() {
        let text = verify(&check(Status::Ok), Style::default());
        assert!(text.contains("812 numbers computed again") && text.ends_with("All agree.\n"), "{text}");
        let disagreements = vec![Disagreement {
            what: "cases[0].quantiles[2].ns".into(),
            stored: "61234".into(),
            computed: "71234".into(),
        }];
        let text =
            verify(&Verification { disagreements, ..check(Status::Failed) }, Style { width: 60, ..Style::default() });
        assert!(text.contains("1 does not agree") && text.contains("71234"), "{text}");
        let cut = Verification { damage: Some("rounds.mpl is whole up to byte 9".into()), ..check(Status::Partial) };
        assert!(verify(&cut, Style::default()).contains("byte 9"));
    }

    #[test]
    fn another_kind_of_record_names_what_was_compared() {
        let of = |texts: u64| {
            let compared = vec![("pairs", "6 pairs".into())];
            verify(&Verification { compared, texts, ..check(Status::Ok) }, Style { width: 100, ..Style::default() })
        };
        let text = of(0);
        assert!(text.contains("6 pairs") && text.contains("812 numbers") && !text.contains("messages"), "{text}");
        assert!(!of(2).contains("812 numbers"), "texts have no summary");
        let of_run = verify(&check(Status::Ok), Style { width: 100, ..Style::default() });
        assert!(of_run.contains("40 rounds: histogram and counts of both ends"), "{of_run}");
    }
}
