//! `rpc`: calls of a key-value server: how long, how many a second, and where the time of each kind goes.

use crate::analyse::{RpcBand, RpcConnections, RpcKind, RpcPart, RpcStage, RpcSummary, WireEstimate};
use crate::record::RpcFacts;
use msgpath_analyse::Summary;
use msgpath_core::foreign::shown;
use msgpath_core::units::Glyphs;
use msgpath_record::Run;

use msgpath_present::terminal::{
    Align, Page, Paint, Span, Style, Table, bar_of, first_statements, interval_span, value_span, width,
};

use super::ends;
use crate::workload::CALLS;
use msgpath_present::view::{self, measured};
use msgpath_present::words;

use crate::present::words as own;

/// Characters of the longest bar of a part.
const BAR: usize = 10;
/// Buckets of the log2 histogram that stand beside each other.
const BLOCK: usize = 10;

/// The view of a run of calls.
pub(super) fn view(run: &Run, summary: &Summary, style: Style) -> Option<String> {
    run.header.parts.get::<RpcFacts>().map(|_| rpc(run, summary, style))
}

/// The result of a run of calls: the way they went, one row per kind, the estimates, where the time went, the clocks.
pub(super) fn rpc(run: &Run, summary: &Summary, style: Style) -> String {
    let mut page = Page::new(style);
    let facts = run.header.parts.get::<RpcFacts>();
    let kinds = summary.sections.get::<RpcSummary>().map_or(&[][..], |rpc| &rpc.kinds);
    let mut head = vec![summary.target.clone()];
    if let Some(facts) = facts {
        head.push(format!("protocol {}", facts.protocol));
        head.extend((!facts.server.is_empty()).then(|| format!("server {}", facts.server)));
    }
    let calls = kinds.iter().map(|kind| kind.calls).sum();
    head.push(words::counted(calls, "call"));
    page.head_with(run, summary, &head, &[own::path_of_calls(run)]);
    if !run.header.imported.is_empty() {
        page.hanging(&["from  ".into()], 6, &run.header.imported.join(", "), Paint::Dim);
    }
    let connections = summary.sections.get::<RpcSummary>().and_then(|rpc| rpc.connections.as_ref());
    connections.into_iter().for_each(|connections| said_of(&mut page, connections));
    page.expectation(summary);
    page.answer(summary);
    let cases = measured(summary);
    if let Some(rpc) = summary.sections.get::<RpcSummary>() {
        page.gap();
        latencies(&mut page, summary, facts, kinds);
        page.limits(run, summary, &cases);
        at_the_server(&mut page, run, kinds);
        estimates(&mut page, run, kinds);
        if style.verbose {
            in_detail(&mut page, run, summary, rpc);
        }
        if let Some(not_kept) = facts.map(|facts| facts.not_kept).filter(|calls| *calls > 0) {
            let calls = words::counted(not_kept, "call");
            page.text(2, &format!("The log of calls was full: {calls} are in the percentiles only."), Paint::Yellow);
        }
    } else {
        page.text(2, "n/a: the run has no log of calls, so nothing is known of their parts.", Paint::Yellow);
        page.limits(run, summary, &cases);
    }
    if style.verbose {
        page.ablations(run, summary);
    }
    page.in_full(run, summary, &cases);
    page.more(run, summary, &[], &["where the time of each call goes", "calls a second", "clocks"]);
    page.finish()
}

/// What the connections speak, and how long they took to be made.
fn said_of(page: &mut Page, connections: &RpcConnections) {
    if connections.unchecked {
        let text = "CERTIFICATES WERE NOT CHECKED: whoever stands between could be measured (W184).";
        page.hanging(&["tls   ".into()], 6, text, Paint::Red);
    }
    let line = own::connections(connections, page.style.glyphs);
    page.hanging(&[if connections.tls.is_empty() { "http  " } else { "tls   " }.into()], 6, &line, Paint::Plain);
}

/// Rates, estimates, the parts of each kind of call, what the ends spent, the way, the clocks.
fn in_detail(page: &mut Page, run: &Run, summary: &Summary, rpc: &RpcSummary) {
    let facts = run.header.parts.get::<RpcFacts>();
    let kinds = &rpc.kinds;
    page.gap();
    rates(page, kinds);
    ends::copies(page, run, kinds);
    kinds.iter().for_each(|kind| parts(page, facts, kind));
    ends::processes(page, summary, facts, kinds);
    ends::way(page, run, summary, kinds);
    clocks(page, run, rpc);
}

/// Calls by floor(log2(µs)) as the original lab prints them, but in columns that line up: one row per kind and block of
/// ten buckets. Empty where the run has no log of calls.
pub fn histogram(summary: &Summary, style: Style) -> String {
    let Some(rpc) = summary.sections.get::<RpcSummary>() else { return String::new() };
    let mut page = Page::new(style);
    page.heading("calls by floor(log2(µs))");
    let used = rpc.kinds.iter().filter_map(|kind| kind.log2_us.iter().rposition(|calls| *calls > 0)).max().unwrap_or(0);
    for from in (0..=used).step_by(BLOCK) {
        let until = (from + BLOCK).min(32);
        let mut table = Table::new().gap(1).column("", Align::Left);
        for bucket in from..until {
            table = table.column(bucket_name(bucket, style.glyphs), Align::Right);
        }
        for kind in &rpc.kinds {
            let cells = (from..until).map(|bucket| match kind.log2_us.get(bucket).copied().unwrap_or(0) {
                0 => Paint::Dim.span("0"),
                calls => Span::from(calls.to_string()),
            });
            table.row(std::iter::once(Span::from(kind.method.as_str())).chain(cells));
        }
        for part in table.split(style, style.columns() - 2) {
            page.table(part);
        }
    }
    let text = "Each column counts from its time up to the next, which is twice as long; the first one from 0.";
    page.text(2, text, Paint::Dim);
    page.finish()
}

/// `4us`, `1.02ms`: where a bucket begins, without a space so that ten of them stand beside each other.
fn bucket_name(bucket: usize, glyphs: Glyphs) -> String {
    words::chosen(&glyphs.time(1_000.0 * 2_f64.powi(bucket as i32))).replace(' ', "")
}

/// One row per kind: what became of its calls, and the percentiles with their intervals.
fn latencies(page: &mut Page, summary: &Summary, facts: Option<&RpcFacts>, kinds: &[RpcKind]) {
    let glyphs = page.style.glyphs;
    let unseen = kinds.iter().any(|kind| kind.unseen > 0);
    let open = summary.cases.iter().any(|case| case.open.is_some());
    let mut table = Table::new()
        .column("call", Align::Left)
        .column("calls", Align::Right)
        .column("failed", Align::Right)
        .column("no reply", Align::Right);
    if unseen {
        table = table.column("T4 not known", Align::Right);
    }
    let mut table = table
        .column("p50", Align::Right)
        .optional("range, 95 %", Align::Right, 3)
        .optional("p90", Align::Right, 4)
        .optional("range, 95 %", Align::Right, 1)
        .column("p99", Align::Right)
        .optional("range, 95 %", Align::Right, 2);
    if open {
        table = table.column("T4 - T1, p50", Align::Right).column("p99", Align::Right);
    }
    let mut whys = Vec::new();
    for kind in kinds {
        let case = summary.cases.iter().find(|case| case.case.id == kind.case);
        let cells = [0.5, 0.9, 0.99].map(|p| {
            let quantile = case.and_then(|case| words::quantile(case, p));
            let value = quantile.map_or_else(|| Span::from("n/a"), |quantile| value_span(quantile, glyphs));
            [value, quantile.map_or_else(Span::default, |quantile| interval_span(quantile, glyphs))]
        });
        let shown =
            case.into_iter().flat_map(|case| &case.latency.quantiles).filter(|q| [0.5, 0.9, 0.99].contains(&q.p));
        for why in words::bounds(&format!(" of {}", kind.method), shown) {
            view::push_new(&mut whys, why);
        }
        let count = |calls: u64, paint: Paint| {
            if calls > 0 { paint.span(calls.to_string()) } else { Span::from("0") }
        };
        let lead = [
            Span::from(kind.method.as_str()),
            kind.calls.to_string().into(),
            count(kind.failed, Paint::Red),
            count(kind.unanswered, Paint::Yellow),
        ];
        let not_known = unseen.then(|| Span::from(kind.unseen.to_string()));
        let service = [0.5, 0.99].into_iter().filter(|_| open).map(|p| {
            let service = case.and_then(|case| case.open.as_ref()).map_or(&[][..], |open| &open.service);
            let quantile = service.iter().find(|quantile| quantile.p == p);
            quantile.map_or_else(|| Span::from("n/a"), |quantile| value_span(quantile, glyphs))
        });
        table.row(lead.into_iter().chain(not_known).chain(cells.into_iter().flatten()).chain(service));
    }
    page.table(table);
    whys.iter().for_each(|why| page.text(2, why, Paint::Dim));
    let what = CALLS.duration(open).what;
    let room = page.style.columns() - 2;
    let what = if page.style.verbose { what } else { &format!("{}.", first_statements(what, room)) };
    page.text(2, what, Paint::Dim);
    kinds.iter().for_each(|kind| replies(page, facts, kind));
}

/// What the server answered to calls of a kind that was not what they asked for, and how long those took that failed.
fn replies(page: &mut Page, facts: Option<&RpcFacts>, kind: &RpcKind) {
    let glyphs = page.style.glyphs;
    for remark in facts.iter().flat_map(|facts| &facts.remarks).filter(|remark| remark.case == kind.case) {
        let (what, paint) = if remark.failed { ("failed", Paint::Red) } else { ("answered", Paint::Plain) };
        let text = format!("{} {what}: {}", words::counted(remark.calls, "call"), shown(&remark.text));
        page.hanging(&["  ".into(), Paint::Bold.span(format!("{}  ", kind.method))], 4, &text, paint);
    }
    if let Some(took) = kind.failed_took {
        let [p50, p99] = [took.p50_ns, took.p99_ns].map(|ns| glyphs.time(ns as f64));
        let text = format!(
            "{}: the calls that failed took {p50} (p50), {p99} (p99); they are in no other time here.",
            kind.method
        );
        page.text(2, &text, Paint::Dim);
    }
}

/// One row per kind: first and later calls, calls and bytes a second, each with the clock it is divided by.
fn rates(page: &mut Page, kinds: &[RpcKind]) {
    let glyphs = page.style.glyphs;
    let mut table = Table::new()
        .column("call", Align::Left)
        .column("first call", Align::Right)
        .column("later p50", Align::Right)
        .column("RPC/s, wall", Align::Right)
        .column("RPC/s, response", Align::Right)
        .column("Tx MB/s", Align::Right)
        .column("Rx MB/s", Align::Right)
        .optional("request", Align::Right, 2)
        .optional("reply", Align::Right, 1);
    for kind in kinds {
        let [wall, response, sent, received] = own::rates(kind);
        let time = |ns: Option<u64>| Span::from(ns.map_or_else(|| "n/a".into(), |ns| glyphs.time(ns as f64)));
        let length = |bytes: Option<f64>| Span::from(bytes.map_or_else(|| "n/a".into(), words::about_size));
        table.row([
            kind.method.as_str().into(),
            time(kind.first_ns.first().copied()),
            time(kind.later_p50_ns),
            wall.into(),
            response.into(),
            sent.into(),
            received.into(),
            length(kind.request_bytes),
            length(kind.reply_bytes),
        ]);
    }
    page.table(table);
    let text = "Wall: over the time from the first T1 to the last T4 of each round; so are the MB/s (10^6 bytes, headers \
                included). Response: over the sum of all T4 - T1. First call (of the first connection) and later p50: \
                T4 - T1.";
    page.text(2, text, Paint::Dim);
}

/// What servers' stamps tell of calls whose T4 is not known: their own time, and T2 - T1 with the caveat of two clocks.
fn at_the_server(page: &mut Page, run: &Run, kinds: &[RpcKind]) {
    if kinds.iter().all(|kind| kind.unseen == 0) {
        return;
    }
    let glyphs = page.style.glyphs;
    page.heading("at the server");
    let mut table = Table::new().column("call", Align::Left);
    for head in ["T3 - T2, p50", "p90", "p99", "T2 - T1, p50", "p90", "p99"] {
        table = table.column(head, Align::Right);
    }
    let time = |ns: i64| glyphs.time(ns as f64);
    for kind in kinds {
        let cells = [kind.served, kind.received]
            .into_iter()
            .flat_map(|times| [times.map(|t| t.p50_ns), times.map(|t| t.p90_ns), times.map(|t| t.p99_ns)]);
        let cells = cells.map(|ns| Span::from(ns.map_or_else(|| "n/a".into(), time)));
        table.row(std::iter::once(Span::from(kind.method.as_str())).chain(cells));
    }
    page.table(table);
    page.text(
        2,
        "T3 - T2: from the whole request read to just before the reply is sent, by the server's clock.",
        Paint::Dim,
    );
    let same = run
        .header
        .parts
        .get::<RpcFacts>()
        .is_some_and(|facts| facts.pairs.iter().all(|pair| pair.same_machine.is_some()));
    let clocks = if same {
        "T2 - T1: until the server has read the request; both stamps are of one machine's clock."
    } else {
        "T2 - T1 is the difference of two clocks as they were read: it holds how far the clocks are apart."
    };
    page.text(2, clocks, Paint::Dim);
    page.text(
        2,
        "T4, when the client had the reply, is in the client's log only: msgpath import client.log server.log",
        Paint::Dim,
    );
}

/// Estimate, measured, factor; with `-v` where it went.
fn estimates(page: &mut Page, run: &Run, kinds: &[RpcKind]) {
    let glyphs = page.style.glyphs;
    let facts = run.header.parts.get::<RpcFacts>();
    let open =
        |kind: &RpcKind| run.header.plan.cases.get(kind.case as usize).is_some_and(|case| case.load.rate().is_some());
    let lines: Vec<_> =
        kinds.iter().filter_map(|kind| Some((kind, own::expected_call(kind, facts, open(kind), glyphs)?))).collect();
    if lines.is_empty() {
        return;
    }
    page.gap();
    if page.style.verbose {
        page.heading("estimate first, then look");
    }
    for (kind, text) in lines {
        let text = if page.style.verbose { &text } else { first_statements(&text, 0) };
        let lead = format!("{}  ", kind.method);
        page.hanging(&["  ".into(), Paint::Bold.span(lead)], 4, text, Paint::Plain);
    }
    if !page.style.verbose {
        return;
    }
    let wired = kinds.iter().any(|kind| kind.expected.is_some() && kind.wire_ns.is_some());
    if let Some(wire) = facts.and_then(own::wire_of).filter(|_| wired) {
        let text = format!("Wire times are estimates {wire}, from the bytes; they were not measured.");
        page.text(2, &text, Paint::Dim);
    }
}

/// The parts of usual and of slow calls of a kind, beside each other; each column adds up to its heading.
fn parts(page: &mut Page, facts: Option<&RpcFacts>, kind: &RpcKind) {
    let glyphs = page.style.glyphs;
    let wanted: Vec<&RpcBand> = ["p50", "p99"]
        .iter()
        .filter_map(|name| kind.bands.iter().find(|band| band.name == *name))
        .chain(kind.bands.iter().filter(|band| !["p50", "p99", "all"].contains(&band.name.as_str())))
        .collect();
    let bands = if wanted.is_empty() { kind.bands.iter().collect() } else { wanted };
    if bands.is_empty() {
        return;
    }
    page.heading(&format!("where the time of {} goes", kind.method));
    let mut table = Table::new().column("part", Align::Left);
    for (at, band) in bands.iter().enumerate() {
        let name = format!("{} ({})", band.name, words::counted(band.calls, "call"));
        table = if at == 0 { table.column(name, Align::Left) } else { table.optional(name, Align::Left, 9 - at as u8) };
    }
    let mean = bands.iter().map(|band| Paint::Bold.span(padded(&glyphs.time(band.latency_ns))));
    table.row(std::iter::once(Span::from("mean T4 - T1")).chain(mean));
    let mut stages: Vec<RpcStage> = Vec::new();
    let open = bands.iter().flat_map(|band| &band.parts).map(|part| width(&within(part, glyphs))).max().unwrap_or(0);
    bands.iter().flat_map(|band| &band.parts).for_each(|part| view::push_new(&mut stages, part.stage));
    for stage in stages {
        let cells = bands.iter().map(|band| part_cell(band, stage, open, glyphs));
        table.row(std::iter::once(Span::from(stage.name())).chain(cells));
    }
    page.table(table);
    if let Some(step) = facts.map(|facts| facts.server_step_ns as f64).filter(|step| hides_work(&bands, *step)) {
        let text = format!("The server's clock has steps of {}: less than that can read 0 there.", glyphs.time(step));
        page.text(2, &text, Paint::Dim);
    }
    if let Some(WireEstimate { request, reply }) = kind.wire_ns {
        let text = format!(
            "Of these the wire alone: estimate {} for the request, {} for the reply.",
            glyphs.time(request),
            glyphs.time(reply)
        );
        page.text(2, &text, Paint::Dim);
    }
    if let (Some(absent), Some(wire)) = (kind.absent_wire, facts.and_then(own::wire_of)) {
        let text = format!(
            "A wire {wire} would take {} for the request and {} for the reply: computed from the bytes; there is none here.",
            glyphs.time(absent.request_ns),
            glyphs.time(absent.reply_ns)
        );
        page.text(2, &text, Paint::Dim);
    }
}

/// Whether what the server did took less than a step of its clock, so that its stamps do not tell it from nothing.
fn hides_work(bands: &[&RpcBand], step_ns: f64) -> bool {
    let parts = bands.iter().flat_map(|band| &band.parts);
    parts.filter(|part| part.stage == RpcStage::ServerWork).any(|part| part.ns < step_ns) && step_ns >= 1_000.0
}

fn padded(time: &str) -> String {
    format!("{}{time}", " ".repeat(8_usize.saturating_sub(width(time))))
}

/// What the clocks leave open of a part: ` ±41.0 µs`; empty on one clock.
fn within(part: &RpcPart, glyphs: Glyphs) -> String {
    if part.within_ns > 0.0 {
        format!(" {}{}", glyphs.plus_minus(), glyphs.time(part.within_ns))
    } else {
        String::new()
    }
}

/// Time, uncertainty of the clocks in a column of `open` characters, and bar of a part.
fn part_cell(band: &RpcBand, stage: RpcStage, open: usize, glyphs: Glyphs) -> Span {
    let Some(part) = band.parts.iter().find(|part| part.stage == stage) else { return "".into() };
    let bar = if part.ns > 0.0 { bar_of(part.ns / band.latency_ns.max(1.0), BAR, glyphs) } else { String::new() };
    // What the clocks leave open by more than a quarter of it is not vouched for.
    let paint = if part.within_ns > part.ns.abs() / 4.0 { Paint::Yellow } else { Paint::Plain };
    let within = within(part, glyphs);
    let blank = " ".repeat(open.saturating_sub(width(&within)));
    paint.span(format!("{}{within}{blank} {bar}", padded(&glyphs.time(part.ns))))
}

/// Whose clock is how far off.
fn clocks(page: &mut Page, run: &Run, rpc: &RpcSummary) {
    if rpc.clocks.is_empty() {
        return;
    }
    let glyphs = page.style.glyphs;
    page.heading("clocks");
    for clock in &rpc.clocks {
        page.hanging(&["  ".into()], 4, &own::clock(run.header.parts.get::<RpcFacts>(), clock), Paint::Plain);
    }
    let doubtful = rpc.kinds.iter().flat_map(|kind| &kind.bands).flat_map(|band| &band.parts);
    if doubtful.clone().any(|part| part.within_ns > 0.0) {
        let text = format!(
            "{} is what the two clocks leave open; whether request and reply are equally fast cannot be known.",
            glyphs.plus_minus()
        );
        page.text(2, &text, Paint::Dim);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::AbsentWire;
    use crate::present::fixture;
    use crate::record::Wire;

    const VERBOSE: Style = Style { width: 100, color: false, glyphs: Glyphs::Unicode, verbose: true, warnings: false };

    fn styles() -> [(&'static str, Style); 4] {
        let ascii = Style { glyphs: Glyphs::Ascii, width: 80, color: false, ..Style::default() };
        [
            ("100", Style::default()),
            ("80", Style { width: 80, ..Style::default() }),
            ("60", Style { width: 60, ..Style::default() }),
            ("ascii", ascii),
        ]
    }

    #[test]
    fn calls_over_a_wire() {
        let (run, summary, _) = fixture::rpc();
        for (name, style) in styles() {
            let text = rpc(&run, &summary, style);
            assert!(text.lines().all(|line| line.chars().count() <= style.columns()), "{text}");
            assert!(style.glyphs != Glyphs::Ascii || (text.is_ascii() && !text.contains('?')), "{text}");
            assert!(!text.contains('\x1b') && !text.contains("NaN"), "{text}");
            // Three of them are estimates.
            assert!(text.lines().count() <= if style.columns() < 80 { 33 } else { 28 }, "{text}");
            insta::assert_snapshot!(format!("rpc_{name}"), text);
        }
        for width in [80, 60] {
            let text = rpc(&run, &summary, Style { width, ..VERBOSE });
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            insta::assert_snapshot!(format!("rpc_{width}_verbose"), text);
        }
    }

    #[test]
    fn an_open_loop_says_that_its_times_are_from_the_intended_send() {
        let (run, mut summary, _) = fixture::rpc();
        assert!(!rpc(&run, &summary, VERBOSE).contains("intended send"));
        let open = fixture::open_loop().1.cases[0].open.clone();
        for case in &mut summary.cases {
            case.open = open.clone();
            let service = &mut case.open.as_mut().unwrap().service;
            service.clone_from(&case.latency.quantiles);
            service.iter_mut().for_each(|quantile| quantile.ns = quantile.ns.map(|ns| ns / 2));
        }
        let text = rpc(&run, &summary, Style { width: 120, ..VERBOSE });
        assert!(text.contains("Latency is from the intended send"), "{text}");
        assert!(!text.contains("Time is T4 - T1"), "{text}");
        let [head, ping] =
            ["  call ", "  ping "].map(|begin| text.lines().find(|line| line.starts_with(begin)).unwrap());
        assert!(head.contains("T4 - T1, p50") && ping.contains("234 µs") && ping.contains("117 µs"), "{text}");
    }

    #[test]
    fn work_below_a_step_of_the_servers_clock_is_not_nothing() {
        let (run, mut summary, _) = fixture::rpc();
        let says = "The server's clock has steps of 1.00 µs: less than that can read 0 there.";
        assert!(!rpc(&run, &summary, VERBOSE).contains(says));
        let kinds = &mut summary.sections.get_mut::<RpcSummary>().unwrap().kinds;
        let parts = kinds.iter_mut().flat_map(|kind| &mut kind.bands).flat_map(|band| &mut band.parts);
        parts.filter(|part| part.stage == RpcStage::ServerWork).for_each(|part| part.ns = 0.0);
        assert!(rpc(&run, &summary, VERBOSE).contains(says));
    }

    #[test]
    fn calls_within_one_machine_say_that_there_is_no_wire() {
        let (run, summary, _) = fixture::rpc_here();
        let text = rpc(&run, &summary, VERBOSE);
        assert!(text.replace('\n', " ").contains("no network was") && text.contains("clocks identical"), "{text}");
        assert!(!text.contains("estimate") && !text.contains('±'), "{text}");
        insta::assert_snapshot!("rpc_here", text);
    }

    #[test]
    fn a_wire_that_is_not_there_is_told_from_one_that_is() {
        let (mut run, mut summary, _) = fixture::rpc_here();
        run.header.parts.get_mut::<RpcFacts>().unwrap().wire =
            Some(Wire { bits_per_s: 1_000_000_000, from: "--wire".into() });
        let kind = &mut summary.sections.get_mut::<RpcSummary>().unwrap().kinds[0];
        kind.absent_wire = Some(AbsentWire { request_ns: 8_000_808.0, reply_ns: 704.0 });
        let text = rpc(&run, &summary, VERBOSE).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("A wire at 1 Gbit/s (--wire) would take 8.00 ms for the request"), "{text}");
        assert!(text.contains("there is none here"), "{text}");
    }

    #[test]
    fn the_histogram_lines_up() {
        let (_, summary, _) = fixture::rpc();
        for (name, style) in styles() {
            let text = histogram(&summary, style);
            assert!(text.lines().all(|line| line.chars().count() <= style.columns()), "{text}");
            insta::assert_snapshot!(format!("rpc_histogram_{name}"), text);
        }
        assert_eq!(histogram(&fixture::echo().1, Style::default()), "");
    }

    #[test]
    fn hostile_names_do_not_reach_the_terminal() {
        let (run, mut summary, _) = fixture::rpc();
        if let Some(rpc) = summary.sections.get_mut::<RpcSummary>() {
            rpc.kinds[0].method = "\x1b[2Jx".into();
            rpc.clocks[0].text = "\x1b]0;x\x07".into();
        }
        assert!(!rpc(&run, &summary, VERBOSE).contains('\x1b'));
    }

    #[test]
    fn calls_of_a_servers_log_show_what_the_server_knows() {
        let (run, mut summary, _) = fixture::rpc();
        let times = |ns| crate::analyse::RpcTimes { calls: 40, least_ns: ns, p50_ns: ns, p90_ns: ns, p99_ns: ns };
        if let Some(kind) = summary.sections.get_mut::<RpcSummary>().and_then(|rpc| rpc.kinds.first_mut()) {
            (kind.unseen, kind.served, kind.received) = (40, Some(times(7_000)), Some(times(-2_650_000)));
        }
        let text = rpc(&run, &summary, VERBOSE);
        for part in ["T4 not known", "at the server", "7.00 µs", "−2.65 ms", "how far the clocks are apart"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!rpc(&run, &fixture::rpc().1, VERBOSE).contains("at the server"));
    }

    #[test]
    fn without_a_log_of_calls_it_says_so() {
        let (run, mut summary, _) = fixture::rpc();
        summary.sections.remove::<RpcSummary>();
        assert!(rpc(&run, &summary, VERBOSE).contains("n/a: the run has no log of calls"));
    }
}
