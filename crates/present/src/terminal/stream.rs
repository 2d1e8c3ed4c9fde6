//! `stream`: how much goes through, counted by the receiver on its clock; and the write-shape table.

use msgpath_analyse::Summary;
use msgpath_analyse::summary::{CaseSummary, Throughput};
use msgpath_core::units::{self, BitUnits};
use msgpath_core::{CallCounts, CaseRole};
use msgpath_record::Run;

use super::echo::zero_copy;
use super::known::known;
use super::page::{Page, Paint, Span, Style};
use super::table::{Align, Table};
use crate::columns::{self, CALLS, STREAM};
use crate::view::{self, measured};
use crate::words;

/// The result of `stream`: a block for a single case, tables with a row per case where there are several. With [`BitUnits::Binary`] every
/// throughput is printed in both units.
pub fn stream(run: &Run, summary: &Summary, style: Style, units: BitUnits) -> String {
    let mut page = Page::new(style);
    let cases = measured(summary);
    opening(&mut page, run, summary, &cases);
    page.expectation(summary);
    page.answer(summary);
    page.gap();
    match cases.as_slice() {
        [case] => details(&mut page, case, units),
        _ => overview(&mut page, summary, units),
    }
    page.limits(run, summary, &cases);
    if style.verbose {
        match cases.as_slice() {
            [case] => background(&mut page, case),
            many => {
                calls(&mut page, many);
                let labels: Vec<String> = many.iter().map(|case| label(case)).collect();
                let costs: Vec<_> = labels.iter().map(String::as_str).zip(many.iter().copied()).collect();
                page.costs(&costs);
            }
        }
        page.ablations(run, summary);
    }
    page.in_full(run, summary, &cases);
    page.more(run, summary, &cases, &["calls and segments", "cost"]);
    page.finish()
}

fn opening(page: &mut Page, run: &Run, summary: &Summary, cases: &[&CaseSummary]) {
    let mut facts = Vec::new();
    if let Some(first) = cases.first() {
        facts.push(if cases.len() == 1 { first.case.path.to_string() } else { format!("{} cases", cases.len()) });
        facts.push(summary.target.clone());
        facts.extend((cases.len() == 1).then(|| words::message(&first.case)));
        facts.push(words::load(&first.case));
    } else {
        facts.push(summary.target.clone());
    }
    let direction = if run.header.plan.reverse { "the far end sends" } else { "the near end sends" };
    page.head_with(run, summary, &facts, &[direction.into(), view::placement(run)]);
}

pub fn overview(page: &mut Page, summary: &Summary, units: BitUnits) {
    let mut table = columns::heads(STREAM, Table::new().column("throughput", Align::Left));
    let glyphs = page.style.glyphs;
    let shown = |case: &&CaseSummary| matches!(case.case.role, CaseRole::Measured | CaseRole::Reference);
    for case in summary.cases.iter().filter(shown) {
        let label = match case.case.role {
            CaseRole::Reference => format!("reference: {}", label(case)),
            _ => label(case),
        };
        table.row([label.into()].into_iter().chain(columns::spans(STREAM, case, glyphs, units)));
    }
    page.table(table);
}

fn label(case: &CaseSummary) -> String {
    format!("{} {}", case.case.path, words::message(&case.case))
}

/// What became of the messages and which calls it took, one row per case.
fn calls(page: &mut Page, cases: &[&CaseSummary]) {
    let mut table = columns::heads(CALLS, Table::new().column("messages and calls", Align::Left));
    let glyphs = page.style.glyphs;
    for case in cases {
        let cells = columns::spans(CALLS, case, glyphs, BitUnits::Si);
        table.row([label(case).into()].into_iter().chain(cells));
    }
    page.gap();
    page.table(table);
    let mut silent = Vec::new();
    for case in cases.iter().filter(|case| case.sender().tcp.is_none()) {
        view::push_new(&mut silent, case.case.path.transport.as_str());
    }
    if !silent.is_empty() {
        let verb = if silent.len() == 1 { "does" } else { "do" };
        page.text(2, &format!("Segments n/a: {} {verb} not report any.", silent.join(", ")), Paint::Dim);
    }
    let checked: Vec<String> = cases.iter().fold(Vec::new(), |mut all, case| {
        view::push_new(&mut all, words::payloads(&case.delivery));
        all
    });
    page.text(2, &format!("Payloads: {}.", checked.join(", ")), Paint::Dim);
}

fn si(bits: f64) -> String {
    units::bits_per_second(bits, BitUnits::Si)
}

fn details(page: &mut Page, case: &CaseSummary, units: BitUnits) {
    let mut opening = vec![words::arrived(case, "message"), words::counted(case.rounds, "round")];
    if case.counts_messages() {
        opening.push(words::losses(&case.delivery));
    }
    opening.push(words::payloads(&case.delivery));
    page.text(0, &opening.join(", "), Paint::Plain);
    page.gap();
    match &case.throughput {
        Some(throughput) => page.table(rates(case, throughput, units)),
        None => page.text(2, "throughput n/a: no round of this case was a stream", Paint::Yellow),
    }
}

/// Which calls it took, how steady it was, and what a message cost.
fn background(page: &mut Page, case: &CaseSummary) {
    let glyphs = page.style.glyphs;
    page.gap();
    let (sender, receiver) = (case.sender(), &case.receiver().calls);
    let mut notes = vec![
        format!("Send calls {}, of which {} took only a part.", sender.calls.send_calls, sender.calls.send_short),
        format!("Reads {}: {}.", receiver.recv_calls, reads(receiver)),
    ];
    notes.push(match &sender.tcp {
        Some(tcp) => format!(
            "Segments sent with data {}, retransmitted {} (largest {} bytes).",
            tcp.data_segs_out, tcp.total_retrans, tcp.snd_mss
        ),
        None => format!("Segments n/a: {} does not report any.", case.case.path.transport),
    });
    notes.extend(zero_copy(case));
    for note in notes {
        page.hanging(&["  ".into()], 4, &note, Paint::Plain);
    }
    page.facts(&known(case, glyphs));
    page.costs(&[("", case)]);
}

fn reads(calls: &CallCounts) -> String {
    format!("{} full, {} short, {} empty", calls.recv_full, calls.recv_short, calls.recv_empty)
}

fn rates(case: &CaseSummary, throughput: &Throughput, units: BitUnits) -> Table {
    let mut table = Table::new()
        .column("throughput", Align::Left)
        .column("", Align::Right)
        .column("95 % interval", Align::Right)
        .optional("", Align::Left, 1);
    let mut row = |name: &str, value: Span, range: String, note: &str| {
        table.row([name.into(), value, range.into(), Paint::Dim.span(note)]);
    };
    let receiver = &throughput.receiver_bits;
    let sender = &throughput.sender_bits;
    row(
        "receiver",
        Paint::Bold.span(si(receiver.value)),
        words::estimate_interval(receiver, si),
        "its bytes, its clock",
    );
    if units == BitUnits::Binary {
        let binary = |bits| units::bits_per_second(bits, BitUnits::Binary);
        let value = Paint::Bold.span(binary(receiver.value));
        row("", value, words::estimate_interval(receiver, binary), "the same in powers of 1024");
    }
    row("sender", si(sender.value).into(), words::estimate_interval(sender, si), words::sender_until(&case.case));
    let messages = &throughput.messages;
    match case.counts_messages() {
        true => row(
            "messages",
            words::per_second(messages.value).into(),
            words::estimate_interval(messages, words::per_second),
            "receiver's clock",
        ),
        false => row("messages", "n/a".into(), String::new(), "their size is not known"),
    }
    if let Some(share) = &throughput.of_reference {
        let value = words::percent(share.value);
        row("of reference", value.into(), words::estimate_interval(share, words::percent), "bulk transfer, same path");
    }
    table
}

/// The number by which courses call a way of writing: 1 many writes, 2 one gathering write, 3 one write.
fn write_type(method: &str) -> &'static str {
    match method {
        "writes" => "1",
        "writev" => "2",
        "send" | "write" => "3",
        _ => "-",
    }
}

/// The write-shape table: one row per way of cutting a message and per path. Times, reads and segments are those of all
/// rounds together; times are on the sender's clock, from the first message until [`words::senders_until`].
pub fn write_shape(run: &Run, summary: &Summary, style: Style, units: BitUnits) -> String {
    let mut page = Page::new(style);
    let glyphs = style.glyphs;
    let cases = measured(summary);
    opening(&mut page, run, summary, &cases);
    page.expectation(summary);
    page.answer(summary);
    page.gap();
    let mut heads = vec!["Gbit/s"];
    if units == BitUnits::Binary {
        heads.push("Gibit/s");
    }
    let mut table = Table::new()
        .gap(if units == BitUnits::Binary { 1 } else { 2 })
        .column("pieces", Align::Left)
        .column("type", Align::Right)
        .column("path", Align::Left)
        .column("time", Align::Right)
        .column("#reads", Align::Right)
        .optional("full", Align::Right, 3)
        .optional("short", Align::Right, 4)
        .optional("empty", Align::Right, 2)
        .optional("segments", Align::Right, 5);
    for head in &heads {
        table = table.column(*head, Align::Right);
    }
    for head in &heads {
        let unit = if *head == "Gbit/s" { "" } else { " Gi" };
        table = table.optional(format!("sender{unit}"), Align::Right, 4);
    }
    table = table.optional("share", Align::Right, 6);
    for case in &cases {
        let calls = &case.receiver().calls;
        let segments = case.sender().tcp.as_ref().map_or_else(|| "n/a".into(), |tcp| tcp.data_segs_out.to_string());
        let mut row: Vec<Span> = vec![
            case.case.pieces.to_string().into(),
            write_type(&case.case.path.method).into(),
            case.case.path.to_string().into(),
        ];
        let giga = |bits: f64| {
            let binary = (units == BitUnits::Binary).then(|| units::three_digits(bits / 1_073_741_824.0));
            std::iter::once(units::three_digits(bits / 1e9)).chain(binary).map(Span::from)
        };
        match &case.throughput {
            Some(throughput) => {
                row.push(glyphs.time(throughput.sender_ns * case.rounds as f64).into());
                row.extend(
                    [calls.recv_calls, calls.recv_full, calls.recv_short, calls.recv_empty]
                        .map(|n| n.to_string().into()),
                );
                row.push(segments.into());
                row.extend(giga(throughput.receiver_bits.value));
                row.extend(giga(throughput.sender_bits.value));
                row.push(
                    throughput
                        .of_reference
                        .as_ref()
                        .map_or_else(|| "n/a".into(), |share| words::percent(share.value))
                        .into(),
                );
            }
            None => row.push("n/a: not a stream".into()),
        }
        table.row(row);
    }
    page.table(table);
    page.limits(run, summary, &cases);
    page.gap();
    let until = words::senders_until(cases.iter().map(|case| &case.case));
    page.text(2, &format!("Type 1 is many writes, 2 one writev, 3 one write. Time is the sender's, {until}, all rounds together; so are reads and segments. Gbit/s is on the receiver's clock, 'sender' the same on the sender's; 'share' is of the reference throughput."), Paint::Dim);
    page.text(2, "#reads counts every read call: full ones took all that was missing of the message, short ones less, empty ones nothing.", Paint::Dim);
    for case in summary.cases.iter().filter(|case| case.case.role == CaseRole::Reference) {
        if let Some(throughput) = &case.throughput {
            let text = format!(
                "reference throughput: bulk transfer by {} in {} messages: {} ({})",
                case.case.path,
                units::size(case.case.size),
                words::throughput(throughput.receiver_bits.value, units),
                words::estimate_interval(&throughput.receiver_bits, si)
            );
            page.text(2, &text, Paint::Plain);
        }
    }
    if style.verbose {
        page.ablations(run, summary);
    }
    page.in_full(run, summary, &cases);
    page.more(run, summary, &[], &[]);
    page.finish()
}
