//! `echo`: how long one message takes there and back.

use msgpath_analyse::Summary;
use msgpath_analyse::summary::{CaseSummary, EndSummary};
use msgpath_core::Workload;
use msgpath_core::schema::NEAR;
use msgpath_core::units::{BitUnits, Glyphs};
use msgpath_record::Run;
use msgpath_stats::quantile::Quantile;

use super::known::known;
use super::page::{Page, Paint, Span, Style, width};
use super::shape::shape;
use super::table::{Align, Table};
use crate::columns::{self, ECHO};
use crate::section;
use crate::view::{self, measured};
use crate::words;

/// The result of `echo`: one block for a single case; for several a table of all of them and the block of the first.
pub fn echo(run: &Run, summary: &Summary, style: Style) -> String {
    let mut page = Page::new(style);
    let (cases, workload) = (measured(summary), run.header.plan.workload);
    let wait = cases.first().map_or_else(String::new, |case| format!("wait {}", case.case.path.wait));
    let mut under = vec![wait, view::placement(run)];
    under.extend(
        style.verbose.then(|| format!("clock {} a reading", style.glyphs.time(run.header.end(NEAR).clock.cost_ns))),
    );
    under.extend(view::service_time(run, style.glyphs));
    page.head_with(run, summary, &facts(summary, &cases), &under);
    page.expectation(summary);
    page.answer(summary);
    for curve in &summary.load_curves {
        page.load_curve(summary, curve);
    }
    let on_curve = |id| summary.load_curves.iter().any(|curve| curve.points.iter().any(|point| point.case == id));
    let rest: Vec<_> = cases.iter().copied().filter(|case| !on_curve(case.case.id)).collect();
    if cases.len() > 1 && !rest.is_empty() {
        page.gap();
        overview(&mut page, workload, &rest);
    }
    if let [case] = cases.as_slice() {
        page.gap();
        details(&mut page, workload, summary, case);
    }
    section::all().for_each(|section| (section.below)(&mut page, run, summary));
    page.threads(&cases);
    page.programs(run, summary);
    page.limits(run, summary, &cases);
    if style.verbose {
        if let Some(case) = cases.first() {
            page.gap();
            if cases.len() > 1 {
                let rate = case.case.load.rate().map_or_else(String::new, |rate| format!(", {rate}"));
                let text = format!("in detail: {} {}{rate}", case.case.path, words::message(&case.case));
                page.text(0, &text, Paint::Bold);
                details(&mut page, workload, summary, case);
            }
            page.gap();
            background(&mut page, workload, case);
        }
        page.ablations(run, summary);
    }
    page.in_full(run, summary, &cases);
    let open = cases.iter().any(|case| case.open.is_some());
    page.more(run, summary, &cases, if open { &["how the sends kept their times", "cost"] } else { &["cost"] });
    page.finish()
}

fn facts(summary: &Summary, cases: &[&CaseSummary]) -> Vec<String> {
    let Some(first) = cases.first() else { return vec![summary.target.clone()] };
    let size = if cases.len() == 1 { words::message(&first.case) } else { format!("{} cases", cases.len()) };
    vec![first.case.path.to_string(), summary.target.clone(), size, words::loads(cases)]
}

/// One row per case.
pub fn overview(page: &mut Page, workload: &Workload, cases: &[&CaseSummary]) {
    let glyphs = page.style.glyphs;
    let timed = workload.duration(cases.iter().any(|case| case.open.is_some())).name;
    let mut table = columns::heads(ECHO, Table::new().column(timed, Align::Left));
    let many_paths = cases.iter().any(|case| case.case.path != cases[0].case.path);
    let many_threads = cases.iter().any(|case| case.case.threads != cases[0].case.threads);
    let many_depths = cases.iter().any(|case| case.case.inflight != cases[0].case.inflight);
    for case in cases {
        let mut label = words::message(&case.case);
        if many_paths {
            label = format!("{} {label}", case.case.path);
        }
        if many_threads {
            label = format!("{label}, {}", words::counted(u64::from(case.case.threads), "thread"));
        }
        if many_depths {
            label = format!("{label}, {} in flight", case.case.inflight);
        }
        if let Some(open) = words::overloaded(case) {
            table.row_with_note([label.into(), Paint::Yellow.span(words::not_sustained(open))]);
            continue;
        }
        table.row([label.into()].into_iter().chain(columns::spans(ECHO, case, glyphs, BitUnits::Si)));
    }
    page.table(table);
    let mut whys: Vec<String> = Vec::new();
    for text in cases.iter().flat_map(|case| words::bounds("", shown(case))) {
        view::push_new(&mut whys, text);
    }
    for why in whys {
        page.text(2, &why, Paint::Dim);
    }
}

/// The quantiles of a case that the overview shows.
fn shown(case: &CaseSummary) -> impl Iterator<Item = &Quantile> {
    let latency = words::overloaded(case).is_none();
    case.latency.quantiles.iter().filter(move |quantile| latency && (quantile.p == 0.5 || quantile.p == 0.99))
}

/// The value of a quantile; bold, unless its range is wider than an interval.
pub fn value_span(quantile: &Quantile, glyphs: Glyphs) -> Span {
    let paint = if quantile.is_interval() { Paint::Bold } else { Paint::Yellow };
    paint.span(words::quantile_value(quantile, glyphs))
}

pub fn interval_span(quantile: &Quantile, glyphs: Glyphs) -> Span {
    let paint = if quantile.is_interval() { Paint::Plain } else { Paint::Yellow };
    paint.span(words::quantile_range(quantile, glyphs))
}

fn details(page: &mut Page, workload: &Workload, summary: &Summary, case: &CaseSummary) {
    let glyphs = page.style.glyphs;
    // The time that the rate is over: that of the rounds. How long the run took with all between them is another time.
    let rate = case.rate_per_s.as_ref().map_or_else(String::new, |rate| {
        let ns = case.messages.max(case.delivery.received) as f64 / rate.value * 1e9;
        format!(" in {} ({})", glyphs.time(ns), words::per_second(rate.value))
    });
    let opening = format!(
        "{}{rate}, {}, {}, {}",
        words::arrived(case, workload.messages.trim_end_matches('s')),
        words::counted(case.rounds, "round"),
        words::losses(&case.delivery),
        words::payloads(&case.delivery)
    );
    page.text(0, &opening, Paint::Plain);
    if let Some(text) = words::batch(case) {
        page.text(0, &text, Paint::Yellow);
    }
    page.gap();
    if let Some(open) = words::overloaded(case) {
        page.text(2, &format!("{}.", words::not_sustained(open)), Paint::Yellow);
        if let Some(why) = &open.why {
            page.text(2, &format!("No latency is shown: {why}."), Paint::Dim);
        }
    } else {
        latencies(page, workload, case);
    }
    let facts = case.open.as_ref().map_or_else(Vec::new, |open| words::open_loop(open, glyphs));
    // `offered` is the answer where a rate was not sustained; how the generator kept its times is not.
    let shown = if page.style.verbose { facts.len() } else { facts.len().min(1) };
    page.facts(&facts[..shown]);
    let unknown = summary.far_clock.as_ref().filter(|clock| clock.pieces.is_empty()).map(words::far_clock);
    for note in notes(case, glyphs).into_iter().chain(unknown) {
        page.hanging(&["  ".into()], 4, &note, Paint::Dim);
    }
}

/// What else is known of a case: how steady it was, its first and its slow messages, what a message cost.
fn background(page: &mut Page, workload: &Workload, case: &CaseSummary) {
    let glyphs = page.style.glyphs;
    let open = case.open.is_some();
    page.text(2, workload.duration(open).what, Paint::Dim);
    page.gap();
    page.facts(&known(case, glyphs));
    let mut notes = Vec::new();
    if let Some(effective) = case.latency.effective_messages.filter(|_| words::overloaded(case).is_none()) {
        let worth = (effective.round() as u64).to_string();
        notes.push(format!("Effective sample size at the median: {worth} messages."));
    }
    if let Some(ns) = case.transit.connect_ns {
        notes.push(format!("Connecting took {} (median over rounds).", glyphs.time(ns)));
    }
    for note in notes {
        page.hanging(&["  ".into()], 4, &note, Paint::Dim);
    }
    page.costs(&[("", case)]);
}

/// The percentiles, and why some have no upper end.
fn latencies(page: &mut Page, workload: &Workload, case: &CaseSummary) {
    quantiles(page, workload, case);
    let mut whys = words::bounds("", &case.latency.quantiles);
    if let Some(open) = &case.open {
        whys.extend(words::bounds(&format!(" of the {}", workload.duration(false).name), &open.service));
        whys.extend(words::bounds(" of the lateness", words::lateness(open)));
    }
    whys.extend(words::counted_times(case, workload.messages));
    for why in whys.iter().map(String::as_str).chain(words::between_meaning(&case.repeats.between)) {
        page.text(2, why, Paint::Dim);
    }
}

/// Fastest, the percentiles, slowest, with the shape beside them where there is room.
fn quantiles(page: &mut Page, workload: &Workload, case: &CaseSummary) {
    let glyphs = page.style.glyphs;
    let time = |ns: Option<u64>| ns.map_or_else(|| "n/a: none arrived".into(), |ns| glyphs.time(ns as f64));
    let service = case.open.as_ref().map(|open| &open.service);
    let mut table = Table::new()
        .column("", Align::Left)
        .column(workload.duration(service.is_some()).name, Align::Right)
        .column("range, 95 %", Align::Right);
    if service.is_some() {
        table = table.column(workload.duration(false).name, Align::Right).optional("range, 95 %", Align::Right, 2);
    }
    let runs = words::between_runs(&case.repeats.between);
    if let Some(runs) = &runs {
        table = table.optional(runs.clone(), Align::Right, 3);
    }
    let between = |p: f64| runs.as_ref().map(|_| Span::from(words::between_range(case, p, glyphs)));
    let beside = |cells: [Span; 2]| service.map_or_else(Vec::new, |_| cells.to_vec());
    table = table.optional("slower than this", Align::Left, 1);
    let most = case.latency.quantiles.iter().map(|quantile| width(&quantile.beyond.to_string())).max().unwrap_or(0);
    table.row(["fastest".into(), time(case.latency.fastest_ns).into()]);
    for quantile in &case.latency.quantiles {
        let looked_for = quantile.p == 0.5 || quantile.p == 0.99;
        let value = |quantile: &Quantile| match value_span(quantile, glyphs) {
            span if looked_for || !quantile.is_interval() => span,
            span => span.text.into(),
        };
        let same = service.and_then(|service| service.iter().find(|other| (other.p - quantile.p).abs() < 1e-9));
        let same = same.map_or_else(Default::default, |other| [value(other), interval_span(other, glyphs)]);
        let (beyond, bursts) = words::slower(quantile, case.latency.of_rounds);
        let lead = [words::quantile_name(quantile.p).into(), value(quantile), interval_span(quantile, glyphs)];
        let last = format!("{beyond:>most$}{bursts}").into();
        table.row(lead.into_iter().chain(beside(same)).chain(between(quantile.p)).chain([last]));
    }
    let at = case.latency.slowest_at_ns.map_or_else(String::new, |ns| format!("round at {}", glyphs.time(ns as f64)));
    table.row(["slowest".into(), time(case.latency.slowest_ns).into(), at.into()]);

    let room = page.style.columns() - 2;
    let mut lines = table.lines(page.style, room);
    let left = lines.iter().map(|line| line.iter().map(|span| width(&span.text)).sum::<usize>()).max().unwrap_or(0);
    let mut bars = shape(&case.spread.shape, page.style);
    let widest = bars.iter().map(|bar| bar.iter().map(|span| width(&span.text)).sum::<usize>()).max().unwrap_or(0);
    if !bars.is_empty() && page.style.columns() == 100 && left + 3 + widest <= room {
        bars.insert(0, vec![Paint::Dim.span("  shape, log scale")]);
        lines.resize(lines.len().max(bars.len()), Vec::new());
        for (line, bar) in lines.iter_mut().zip(bars) {
            let used: usize = line.iter().map(|span| width(&span.text)).sum();
            line.push(" ".repeat(left + 3 - used).into());
            line.extend(bar);
        }
    }
    for line in lines {
        let mut spans = vec![Span::from("  ")];
        spans.extend(line);
        page.line(&spans);
    }
}

/// What else is known about the messages of a case, one sentence each.
fn notes(case: &CaseSummary, glyphs: Glyphs) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(one_way) = case.transit.one_way.as_ref().filter(|_| words::overloaded(case).is_none()) {
        let value = words::quantile_value(one_way, glyphs);
        notes.push(format!(
            "One way, near to far, on one clock: {} {value}{}.",
            words::quantile_name(one_way.p),
            match words::quantile_range(one_way, glyphs) {
                range if range.is_empty() => String::new(),
                range => format!(" ({range})"),
            }
        ));
    }
    notes.extend(
        case.transit.ways.as_ref().filter(|_| words::overloaded(case).is_none()).map(|ways| words::ways(ways, glyphs)),
    );
    notes.extend(zero_copy(case));
    notes.extend(signals(case));
    for end in &case.ends {
        if let Some(tcp) = end.tcp.filter(|tcp| tcp.total_retrans > 0) {
            let again = words::counted(tcp.total_retrans, "segment");
            notes.push(format!("The {} end retransmitted {again}.", end.name));
        }
    }
    notes
}

/// How many messages a signal stood for, and what found no room; nothing where neither was counted.
pub(crate) fn signals(case: &CaseSummary) -> Vec<String> {
    let mut notes = Vec::new();
    for EndSummary { name: end, calls, .. } in &case.ends {
        if calls.signals > 0 {
            let (signals, messages) = (calls.signals.to_string(), calls.recv_full.to_string());
            let merged = match calls.recv_full.saturating_sub(calls.signals) {
                0 => "none merged".to_owned(),
                merged => format!("{} had no signal of their own", merged),
            };
            notes.push(format!("The {end} end took {signals} signals for {messages} messages: {merged}."));
        }
        if calls.dropped > 0 {
            let dropped = words::counted(calls.dropped, "frame");
            notes.push(format!("The {end} end's socket had no room for {dropped}."));
        }
    }
    notes
}

/// What the kernel did with the sends that asked for zero copy.
pub(crate) fn zero_copy(case: &CaseSummary) -> Option<String> {
    let counts = case.copied.zerocopy?;
    Some(format!(
        "Zero copy: {} sends asked, {} not copied, {} copied after all, {} unanswered, {} refused for lack of buffers.",
        counts.asked, counts.zero_copied, counts.copied, counts.unanswered, counts.no_buffers
    ))
}
