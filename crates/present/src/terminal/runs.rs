//! `msgpath runs`: the runs that are kept.

use msgpath_core::schema::Status;

use super::page::{Page, Paint, Span, Style};
use super::table::{Align, Table};

/// A run in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// Its name.
    pub name: String,
    /// When it started, as the reader wants it.
    pub when: String,
    /// `echo`, `stream`, `compare`.
    pub verb: String,
    /// The far end.
    pub target: String,
    /// Cases in the plan; `None`: what was watched has no plan.
    pub cases: Option<u64>,
    /// Rounds recorded; `None`: there are none.
    pub rounds: Option<u64>,
    /// How it ended.
    pub status: Status,
}

/// One row per run, in the order given.
pub fn runs(rows: &[RunRow], style: Style) -> String {
    let mut page = Page::new(style);
    if rows.is_empty() {
        page.text(0, "No run is kept yet. Try: msgpath echo", Paint::Plain);
        return page.finish();
    }
    let mut table = Table::new()
        .column("run", Align::Left)
        .optional("when", Align::Left, 3)
        .column("verb", Align::Left)
        .optional("target", Align::Left, 2)
        .optional("cases", Align::Right, 1)
        .optional("rounds", Align::Right, 0)
        .column("status", Align::Left);
    let count = |count: Option<u64>| Span::from(count.map_or_else(String::new, |count| count.to_string()));
    for row in rows {
        let status = match row.status {
            Status::Ok => Span::from("ok"),
            Status::Partial => Paint::Yellow.span("partial"),
            Status::Failed => Paint::Red.span("failed"),
        };
        table.row([
            Paint::Blue.span(&row.name),
            row.when.as_str().into(),
            row.verb.as_str().into(),
            row.target.as_str().into(),
            count(row.cases),
            count(row.rounds),
            status,
        ]);
    }
    page.table(table);
    page.finish()
}
