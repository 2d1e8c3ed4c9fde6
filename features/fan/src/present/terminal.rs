//! The answer, and the clients: all of them where they are few, else the slowest and how far they lie apart.

use msgpath_analyse::Summary;
use msgpath_core::units::{BitUnits, Glyphs, bits_per_second, per_second, three_digits};
use msgpath_present::terminal::{Align, Page, Paint, Span, Style, Table};
use msgpath_present::{view, words};
use msgpath_record::Run;
use msgpath_stats::estimate::Estimate;

use crate::analyse::{ClientSummary, FanDirection, FanSummary};
use crate::findings::ANSWERS;

/// So many clients have a row each.
const ROWS: usize = 8;
/// Rows of the slowest, where there are more.
const SLOWEST: usize = 3;

/// The view of such a run.
pub(super) fn view(run: &Run, summary: &Summary, style: Style) -> Option<String> {
    let fan = summary.sections.get::<FanSummary>()?;
    let mut page = Page::new(style);
    let cases = view::measured(summary);
    let first = cases.first().map_or_else(String::new, |case| case.case.path.to_string());
    let facts = [first, summary.target.clone(), format!("{} clients", fan.each.len())];
    page.head_with(run, summary, &facts, &[view::placement(run)]);
    page.gap();
    for code in ANSWERS {
        for finding in summary.findings.iter().filter(|finding| finding.code == *code) {
            page.finding(finding);
        }
    }
    page.gates(&summary.gates);
    page.gap();
    page.table(clients(fan, style));
    page.text(2, &method(fan), Paint::Dim);
    page.limits(run, summary, &cases);
    page.in_full(run, summary, &cases);
    page.more(run, summary, &cases, &[]);
    Some(page.finish())
}

/// How it was counted, in a sentence or two.
fn method(fan: &FanSummary) -> String {
    let joint = fan.joint_s.map_or_else(|| "n/a".into(), |seconds| Glyphs::Unicode.time(seconds * 1e9));
    let listener = if fan.reuse_port { "a listening socket for each (SO_REUSEPORT)" } else { "one listening socket" };
    format!("Counted by the receivers, in the {joint} of each of {} rounds in which all send; {listener}.", fan.rounds)
}

/// The clients to show, the slowest first where not all are.
fn shown(fan: &FanSummary, verbose: bool) -> Vec<&ClientSummary> {
    let mut all: Vec<&ClientSummary> = fan.each.iter().collect();
    if verbose || all.len() <= ROWS {
        return all;
    }
    all.sort_by(|a, b| speed(fan, a).total_cmp(&speed(fan, b)));
    all.truncate(SLOWEST);
    all
}

/// More is quicker.
fn speed(fan: &FanSummary, client: &ClientSummary) -> f64 {
    match fan.direction {
        FanDirection::Both => client.times_p50.as_ref().map_or(f64::NEG_INFINITY, |times| -times.value),
        _ => client.share.as_ref().map_or(f64::NEG_INFINITY, |share| share.value),
    }
}

fn clients(fan: &FanSummary, style: Style) -> Table {
    let echo = fan.direction == FanDirection::Both;
    let time = |ns: f64| style.glyphs.time(ns);
    let bits = |bits: f64| bits_per_second(bits, BitUnits::Si);
    let mut table = Table::new().column("client", Align::Left);
    if echo {
        table = table
            .column("p50", Align::Right)
            .optional("range, 95 %", Align::Right, 6)
            .column("by median", Align::Right)
            .optional("p99", Align::Right, 5)
            .optional("rate", Align::Right, 4);
    } else {
        table = table
            .column("goodput", Align::Right)
            .optional("range, 95 %", Align::Right, 6)
            .column("share", Align::Right)
            .optional("range, 95 %", Align::Right, 4);
    }
    table = table.optional("connect", Align::Right, 1).optional("resent", Align::Right, 2).optional(
        "timeouts",
        Align::Right,
        3,
    );
    let value = |estimate: Option<&Estimate>, print: &dyn Fn(f64) -> String| -> Span {
        Paint::Bold.span(estimate.map_or_else(|| "n/a".into(), |estimate| print(estimate.value)))
    };
    let range = |estimate: Option<&Estimate>, print: &dyn Fn(f64) -> String| -> Span {
        estimate.map_or_else(Span::default, |estimate| words::estimate_interval(estimate, print).into())
    };
    let count = |count: Option<u64>| -> Span { count.map_or_else(|| "n/a".into(), |count| count.to_string()).into() };
    let share = |share: f64| format!("{share:.2}");
    for client in shown(fan, style.verbose) {
        let name = if client.place.is_empty() {
            client.client.to_string()
        } else {
            format!("{} {}", client.client, client.place)
        };
        let mut row: Vec<Span> = vec![name.into()];
        if echo {
            let p99 = client.p99_ns.map_or_else(|| "n/a".into(), time);
            row.extend([
                value(client.p50_ns.as_ref(), &time),
                range(client.p50_ns.as_ref(), &time),
                value(client.times_p50.as_ref(), &|times| format!("{} ×", three_digits(times))),
                p99.into(),
                value(client.messages_per_s.as_ref(), &per_second),
            ]);
        } else {
            row.extend([
                value(client.bits_per_s.as_ref(), &bits),
                range(client.bits_per_s.as_ref(), &bits),
                value(client.share.as_ref(), &share),
                range(client.share.as_ref(), &share),
            ]);
        }
        row.extend([
            client.connect_ns.map_or_else(|| "n/a".into(), time).into(),
            count(client.retransmitted),
            count(client.timeouts),
        ]);
        table.row(row);
    }
    if fan.each.len() > ROWS && !style.verbose {
        table.row([format!("all {}", fan.each.len()).into(), spread(fan, style.glyphs).into()]);
    }
    table
}

/// From the slowest to the quickest of all.
fn spread(fan: &FanSummary, glyphs: Glyphs) -> String {
    let echo = fan.direction == FanDirection::Both;
    let values =
        fan.each.iter().filter_map(|client| if echo { client.p50_ns.as_ref() } else { client.bits_per_s.as_ref() });
    let values: Vec<f64> = values.map(|estimate| estimate.value).collect();
    let (low, high) =
        values.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(*value), high.max(*value)));
    if values.is_empty() {
        return "n/a".into();
    }
    match echo {
        true => format!("{} to {}", glyphs.time(low), glyphs.time(high)),
        false => format!("{} to {}", bits_per_second(low, BitUnits::Si), bits_per_second(high, BitUnits::Si)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bed;

    fn shown(bed: &Bed) -> String {
        let run = bed.run();
        let summary = msgpath_analyse::summarise(&run);
        view(&run, &summary, Style { width: 80, ..Style::default() }).unwrap()
    }

    #[test]
    fn few_clients_have_a_row_each_and_many_do_not() {
        let text = shown(&Bed::stream(&[125e6, 125e6, 12.5e6]));
        assert!(text.contains("client") && text.contains("0.14") && text.contains("100 Mbit/s"), "{text}");
        let mut rates = vec![1e6; 40];
        rates[6] = 1e5;
        let text = shown(&Bed::stream(&rates));
        assert!(text.contains("all 40") && text.contains("800 kbit/s to 8"), "{text}");
        let answer = text.lines().position(|line| line.contains("Together")).unwrap();
        assert!(answer < 10 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let echo = shown(&Bed::echo(&[50_000, 50_000, 105_000]));
        assert!(echo.contains("2.10 ×") && echo.contains("p50 of 3 clients"), "{echo}");
    }
}
