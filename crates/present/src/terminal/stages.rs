//! Stage bars: where the time of messages goes, and whether that of slow ones goes elsewhere.

use msgpath_analyse::Summary;
use msgpath_analyse::one_way::FarClock;
use msgpath_analyse::stages::{Band, stages};
use msgpath_core::Case;
use msgpath_record::{Messages, Run};

use super::page::{Page, Paint, Span, Style, width};
use super::shape::bar_of;
use super::table::{Align, Table};
use crate::words;

/// Characters of the longest bar.
const BAR: usize = 10;
/// Bands of slowness beside each other.
const BANDS: usize = 3;

/// Where the time goes, for the first case that has stages: usual messages, slow ones, the slowest. Empty where no
/// message has a stamp beside its start and its end.
pub fn stage_bars(run: &Run, summary: &Summary, logged: &dyn Messages, style: Style) -> String {
    let plan = &run.header.plan;
    let measured = plan.cases.iter().filter(|case| case.role == msgpath_core::CaseRole::Measured);
    let known = |case: &Case| Some((case.clone(), stages(run, case, logged).ok()?));
    let Some((case, stages)) = measured.filter(|_| plan.workload.stages.is_ok()).find_map(known) else {
        return String::new();
    };
    let mut page = Page::new(style);
    let messages = words::counted(stages.messages, "logged message");
    page.heading(&format!("where the time goes   {} {}, {messages}", case.path, words::message_at(&case)));
    let bands = chosen(&stages.bands);
    let mut table = Table::new().column("stage", Align::Left);
    for (at, band) in bands.iter().enumerate() {
        table = match at {
            0 => table.column(band.name.as_str(), Align::Left),
            // The slowest say more than those before them.
            _ => table.optional(band.name.as_str(), Align::Left, at as u8),
        };
    }
    let mean = bands.iter().map(|band| {
        let paint = if band.claim { Paint::Bold } else { Paint::Yellow };
        let remark = if band.claim { String::new() } else { format!(" {} only", bursts(band)) };
        paint.span(format!("{}{remark}", style.glyphs.time(band.mean_ns)))
    });
    table.row(std::iter::once(Span::from("mean")).chain(mean));
    for (at, stage) in stages.stages.iter().enumerate() {
        let cell = |band: &&Band| -> Span {
            let part = band.parts_ns[at];
            let mean = band.mean_ns.max(1.0);
            let time = style.glyphs.time(part);
            let bar = if part > 0.0 { bar_of(part / mean, BAR, style.glyphs) } else { String::new() };
            format!("{}{time} {bar}", " ".repeat(8_usize.saturating_sub(width(&time)))).into()
        };
        table.row(std::iter::once(Span::from(stage.name())).chain(bands.iter().map(cell)));
    }
    page.table(table);
    let text = "Each column averages whole messages of that slowness, so its rows add up to its mean.";
    page.text(2, text, Paint::Dim);
    if let Some(within) = summary.far_clock.as_ref().and_then(FarClock::within_ns) {
        let bound = format!("{}{}", style.glyphs.plus_minus(), style.glyphs.time(within));
        let text = format!(
            "Both ends on one axis: request and reply are each {bound} (clock bound); what one of them gains by it the other \
             loses, in every column alike."
        );
        page.text(2, &text, Paint::Dim);
    }
    page.finish()
}

/// In how many rounds the messages of a band lie, as printed.
pub fn bursts(band: &Band) -> String {
    format!("{} burst{}", band.bursts, if band.bursts == 1 { "" } else { "s" })
}

/// The usual messages, slow ones, and the slowest.
fn chosen(bands: &[Band]) -> Vec<&Band> {
    let slow = bands.iter().position(|band| band.name.starts_with("p98"));
    let mut places: Vec<usize> = [Some(0), slow, bands.len().checked_sub(1)].into_iter().flatten().collect();
    places.dedup();
    places.into_iter().filter_map(|at| bands.get(at)).take(BANDS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use msgpath_core::schema::MessageRow;
    use msgpath_record::NO_MESSAGES;

    #[test]
    fn the_parts_stand_beside_each_other() {
        let (run, summary) = fixture::echo();
        let row = |n: u64| {
            let slow = n % 50 == 7;
            MessageRow {
                pass: (n / 250) as u32,
                sequence: n,
                start_ns: n * 30_000,
                latency_ns: Some(if slow { 90_000 } else { 20_000 + n % 9 * 100 }),
                far_ns: Some(if slow { 70_000 } else { 8_000 }),
                ..MessageRow::default()
            }
        };
        let rows: Vec<MessageRow> = (0..2_000).map(row).collect();
        for width in [100, 60] {
            let text = stage_bars(&run, &summary, &rows, Style { width, ..Style::default() });
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            insta::assert_snapshot!(format!("stages_{width}"), text);
        }
        let ascii =
            stage_bars(&run, &summary, &rows, Style { glyphs: msgpath_core::units::Glyphs::Ascii, ..Style::default() });
        assert!(ascii.is_ascii() && !ascii.contains('?'), "{ascii}");
    }

    #[test]
    fn without_stamps_there_is_nothing() {
        let (run, summary, rows) = fixture::trials();
        assert_eq!(stage_bars(&run, &summary, &rows, Style::default()), "");
        assert_eq!(stage_bars(&run, &summary, &NO_MESSAGES, Style::default()), "");
    }
}
