//! Connections on a terminal, in the JSON.

use msgpath_analyse::Summary;
use msgpath_core::foreign::shown;
use msgpath_present::section::{NOTHING, Section};
use msgpath_present::terminal::{Align, Page, Paint, Table, interval_span, value_span};
use msgpath_present::words;
use msgpath_record::Run;
use msgpath_stats::quantile::Quantile;

use crate::section::{ConnectSummary, Connections};

pub static SECTION: Section = Section { below, ..NOTHING };

/// What it adds to the schema of `--json`.
pub const SCHEMA: &str = include_str!("schema.json");

/// What times of a connection there are beside the one until its first byte.
fn below(page: &mut Page, run: &Run, summary: &Summary) {
    let Some(connect) = summary.sections.get::<ConnectSummary>() else { return };
    let glyphs = page.style.glyphs;
    let mut table = Table::new()
        .column("connections", Align::Left)
        .optional("a second", Align::Right, 5)
        .column("p50", Align::Right)
        .optional("range, 95 %", Align::Right, 4)
        .column("p99", Align::Right)
        .optional("range, 95 %", Align::Right, 3)
        .optional("failed", Align::Right, 2)
        .optional("SYN again", Align::Right, 1);
    let mut cells = |lead: String, rate: String, times: &[Quantile], own: Option<&Connections>| {
        let at = |p: f64| times.iter().find(|quantile| quantile.p == p);
        let time = |p| at(p).map_or_else(|| "n/a".into(), |quantile| value_span(quantile, glyphs));
        let range = |p| at(p).map_or_else(Default::default, |quantile| interval_span(quantile, glyphs));
        let count = |of: fn(&Connections) -> u64| own.map_or_else(String::new, |own| of(own).to_string()).into();
        table.row([
            lead.into(),
            rate.into(),
            time(0.5),
            range(0.5),
            time(0.99),
            range(0.99),
            count(|own| own.failed),
            count(|own| own.syn_retried),
        ]);
    };
    for own in &connect.cases {
        let Some(case) = summary.cases.iter().find(|case| case.case.id == own.case) else { continue };
        let name = match run.header.plan.cases.len() {
            1 => String::new(),
            _ => format!("{}, {}: ", case.case.path, words::message(&case.case)),
        };
        let rate = case.rate_per_s.as_ref().map_or_else(|| "n/a".into(), |rate| words::per_second(rate.value));
        cells(format!("{name}connect"), rate, &own.connect, Some(own));
        if !own.handshake.is_empty() {
            cells(format!("{name}TLS handshake"), String::new(), &own.handshake, None);
        }
        if !own.kept.is_empty() {
            cells(format!("{name}later requests"), String::new(), &own.kept, None);
        }
    }
    page.gap();
    page.table(table);
    page.text(2, "Connect: from just before socket() until the connection is there.", Paint::Dim);
    if let Some(tls) = connect.cases.iter().find_map(|own| own.tls.as_deref()) {
        let text = format!("TLS handshake: from then until both ends have agreed on {}.", shown(tls));
        page.text(2, &text, Paint::Dim);
    }
}

#[cfg(test)]
mod tests {
    use msgpath_analyse::summarise;
    use msgpath_present::json::{Added, check_part};
    use msgpath_present::terminal::Style;

    use super::*;
    use crate::findings::testing::{Round, run};

    #[test]
    fn the_schema_is_what_the_types_say() {
        let added =
            Added { of_run: &[("connect", |types| types.subschema_for::<ConnectSummary>())], ..Added::default() };
        check_part(&added, (env!("CARGO_PKG_NAME"), env!("CARGO_MANIFEST_DIR")), SCHEMA);
    }

    #[test]
    fn the_times_of_connecting_stand_below_the_view() {
        msgpath_analyse::section::add(&crate::section::SECTION);
        let run = run(&Round { retried: (3, 5), ..Round::default() });
        let mut page = Page::new(Style::default());
        below(&mut page, &run, &summarise(&run));
        let text = page.finish();
        let row = text.lines().find(|line| line.contains("connect ")).unwrap();
        assert!(row.contains("µs") && row.trim_end().ends_with('6'), "{text}");
        let connect = summarise(&run).sections.get::<ConnectSummary>().cloned().unwrap();
        assert_eq!(connect.cases[0].syn_retried, 6);
    }
}
