//! `msgpath runs`: the runs that are kept.

use std::time::Duration;

use msgpath_analyse::headline::Headline;
use msgpath_core::schema::Status;
use msgpath_core::units::{BitUnits, Glyphs, size};

use super::page::{Page, Paint, Span, Style};
use super::table::{Align, Table};
use crate::words;

/// A run in the list.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    pub name: String,
    /// When it started, RFC 3339 in UTC.
    pub when: String,
    /// How long ago that was; `None`: it cannot be read.
    pub ago: Option<Duration>,
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
    /// What it found, in one number; `None`: nothing that has one.
    pub headline: Option<Headline>,
}

/// One row per run, in the order given.
pub fn runs(rows: &[RunRow], style: Style) -> String {
    let mut page = Page::new(style);
    if rows.is_empty() {
        page.text(0, "No run is kept yet. Try: msgpath echo", Paint::Plain);
        return page.finish();
    }
    let whole = rows.iter().all(|row| row.status == Status::Ok);
    let mut table = Table::new().column("run", Align::Left).column("", Align::Right).column("verb", Align::Left);
    if !whole {
        table = table.column("", Align::Left);
    }
    let mut table = table
        .column("result", Align::Right)
        .column("", Align::Left)
        .optional("", Align::Left, 2)
        .optional("target", Align::Left, 1)
        .optional("rounds", Align::Right, 0);
    for row in rows {
        let status = match row.status {
            Status::Ok => Span::default(),
            Status::Partial => Paint::Yellow.span("partial"),
            Status::Failed => Paint::Red.span("failed"),
        };
        let [result, of, best] = result(row.headline.as_ref(), style.glyphs);
        let lead =
            [Paint::Blue.span(&row.name), row.ago.map(words::ago).unwrap_or_default().into(), row.verb.as_str().into()];
        let rounds = row.rounds.map_or_else(String::new, |count| count.to_string());
        let rest = [Paint::Bold.span(result), of.into(), best.into(), row.target.as_str().into(), rounds.into()];
        table.row(lead.into_iter().chain((!whole).then_some(status)).chain(rest));
    }
    page.table(table);
    page.finish()
}

/// The number, what has it, and of how many it is the best.
fn result(headline: Option<&Headline>, glyphs: Glyphs) -> [String; 3] {
    let Some(headline) = headline else { return Default::default() };
    let Headline { path, label, bytes, p50_ns, bits_per_s, cases } = headline;
    let value = match (bits_per_s, p50_ns) {
        (Some(bits), _) => words::throughput(*bits, BitUnits::Si),
        (None, ns) => ns.map_or_else(String::new, |ns| format!("p50 {}", glyphs.time(ns as f64))),
    };
    let label = label.as_ref().map_or_else(String::new, |label| format!("{label} "));
    let best = if *cases > 1 { format!("best of {cases}") } else { String::new() };
    [value, format!("{label}{path} {}", size(*bytes)), best]
}
