//! `watch`: programs that nobody changed, where the time of their requests goes, and the live view while they are watched.

use msgpath_core::units::{Glyphs, per_second, three_digits};
use msgpath_core::watch::{RequestRow, ServiceCounts, Stage};
use msgpath_present::terminal::{Align, Page, Paint, Span, Style, Table, bar_of, width};

use crate::analyse::{CAUSE, SlowRequest, WatchSummary, WatchedServer, WatchingWindows, connections};
use crate::record::named;

/// Servers that are shown in full; the others in a line.
const IN_FULL: usize = 2;
/// Characters of the longest bar.
const BAR: usize = 8;
/// Stages of less than this share of both bands share a line.
const LEAST: f64 = 0.01;
/// Kinds of requests that are shown.
const ASKED: usize = 8;
/// Kernels that lack it (before 6.3) tell of TCP alone.
const TELLS_OF_SOCKETS: &str = "sock_recv_length";
/// From this share on what the hypervisor takes is said.
const STOLEN: f64 = 0.01;
/// Servers of the live view, and connections of each.
const LIVE: usize = 6;
const LIVE_CONNECTIONS: usize = 3;

pub(crate) fn watch(summary: &WatchSummary, style: Style) -> String {
    let mut page = Page::new(style);
    let glyphs = style.glyphs;
    let what = if summary.target.is_empty() { "a record".to_owned() } else { summary.target.clone() };
    page.line(&[
        Paint::Bold.span("watch"),
        format!("  {what}, {} s, {} connections", three_digits(summary.seconds), summary.connections).into(),
        Paint::Dim.span(format!("   {}", summary.name)),
    ]);
    if let Some(why) = &summary.cut_short {
        page.hanging(&[Paint::Yellow.span("  incomplete  ")], 14, why, Paint::Plain);
    }
    if summary.servers.is_empty() {
        page.gap();
        page.text(
            2,
            "No request was seen. TCP, UDP and Unix sockets are watched, and a request must be answered meanwhile. Pipes and eventfd \
             are not: the kernel tells of them only at every system call of every program.",
            Paint::Plain,
        );
        page.text(
            2,
            "Is there traffic? A longer time: -t 30s. The right port or process: --port, --pid, --comm, --cgroup.",
            Paint::Dim,
        );
    }
    for server in summary.servers.iter().take(IN_FULL) {
        in_full(&mut page, server);
    }
    for server in summary.servers.iter().skip(IN_FULL) {
        let time = |ns: Option<f64>| ns.map_or_else(|| "n/a".into(), |ns| glyphs.time(ns));
        let text = format!("{}: p50 {}, p99 {}", head(server), time(server.p50_ns), time(server.p99_ns));
        page.text(2, &text, Paint::Plain);
    }
    for server in summary.servers.iter().take(IN_FULL).filter(|server| server.by_request.len() > 1) {
        asked(&mut page, server);
    }
    for server in summary.servers.iter().filter(|server| !server.slowest.is_empty()) {
        slowest(&mut page, server);
    }
    page.gates(&summary.gates);
    evidence(&mut page, summary);
    page.finish()
}

/// `redis-server (process 812), port 6379: 99985 requests, 9998/s, from redis-benchmark`; another host has no process here.
fn head(server: &WatchedServer) -> String {
    let port = match (server.port, server.datagrams) {
        (Some(port), false) => format!("port {port}"),
        (Some(port), true) => format!("UDP port {port}"),
        (None, false) => "Unix sockets".into(),
        (None, true) => "Unix datagram sockets".into(),
    };
    let clients =
        if server.clients.is_empty() { String::new() } else { format!(", from {}", server.clients.join(", ")) };
    let process =
        if server.host.is_empty() { format!("(process {})", server.process) } else { "(another host)".to_owned() };
    let all = server.requests + server.not_followed;
    let requests = if server.per_second.is_none() {
        format!("{} exchanges, not told apart", server.in_flight)
    } else if server.not_followed == 0 {
        format!("{all} requests")
    } else {
        format!(
            "about {} requests, one in {} followed",
            rounded(all),
            three_digits(all as f64 / server.requests.max(1) as f64)
        )
    };
    format!(
        "{} {process}, {port}: {requests}{}{clients}",
        if server.name.is_empty() { "?" } else { &server.name },
        server.per_second.map_or_else(String::new, |rate| format!(", {}", per_second(rate))),
    )
}

/// Three digits of a count that was estimated.
fn rounded(count: u64) -> u64 {
    let unit = 10_u64.pow(count.checked_ilog10().unwrap_or(0).saturating_sub(2));
    count.saturating_add(unit / 2) / unit * unit
}

/// What is known of requests that nobody can read.
fn tls(server: &WatchedServer) -> String {
    let count = |n: u64, one: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") };
    let apart = match server.handshakes {
        0 => String::new(),
        n => format!("; {} of handshakes and ends are no requests", count(n, "exchange")),
    };
    format!("TLS on {}: requests are told apart by size and direction alone{apart}", count(server.tls, "connection"))
}

fn in_full(page: &mut Page, server: &WatchedServer) {
    let glyphs = page.style.glyphs;
    page.gap();
    page.hanging(&[], 2, &head(server), Paint::Bold);
    let time = |ns: Option<f64>| ns.map_or_else(|| "n/a".into(), |ns| glyphs.time(ns));
    page.line(&[format!(
        "  p50 {}   p90 {}   p99 {}   p99.9 {}",
        time(server.p50_ns),
        time(server.p90_ns),
        time(server.p99_ns),
        time(server.p999_ns)
    )
    .into()]);
    if server.tls > 0 {
        page.text(2, &tls(server), Paint::Dim);
    }
    page.gap();
    for finding in &server.findings {
        page.finding(finding);
    }
    if let (Some(typical), Some(slow)) = (&server.typical, &server.slow) {
        if server.findings.iter().all(|finding| finding.code != CAUSE) {
            page.text(
                2,
                "Slow requests take about as long as the others, or nothing takes much of the difference.",
                Paint::Plain,
            );
        }
        page.gap();
        stages(page, server, [typical.mean_ns, slow.mean_ns], [&typical.name, &slow.name]);
    }
}

fn stages(page: &mut Page, server: &WatchedServer, means: [f64; 2], names: [&str; 2]) {
    let glyphs = page.style.glyphs;
    let time = |ns: f64| {
        let time = glyphs.time(ns);
        format!("{}{time}", " ".repeat(8_usize.saturating_sub(width(&time))))
    };
    let mut table = Table::new()
        .column("request to reply", Align::Left)
        .column("   usual", Align::Left)
        .column("    slow", Align::Left)
        .column("of extra", Align::Right);
    let cell = |ns: f64, mean: f64| -> Span {
        format!("{} {}", time(ns), if ns > 0.0 { bar_of(ns / mean.max(1.0), BAR, glyphs) } else { String::new() })
            .into()
    };
    let more = means[1] - means[0];
    // Where slow requests are hardly slower, nothing has a share of it. Adding 0 makes a rounded -0 a 0.
    let share = |share: f64| {
        if more < LEAST * means[0] {
            Span::from("n/a")
        } else {
            Span::from(format!("{:.0} %", (share * 100.0).round() + 0.0))
        }
    };
    let small = |ns: [f64; 2]| ns[0] < LEAST * means[0] && ns[1] < LEAST * means[1];
    let (mut others, mut left_out) = ([0.0; 2], 0);
    for stage in &server.stages {
        if small([stage.typical_ns, stage.slow_ns]) {
            others = [others[0] + stage.typical_ns, others[1] + stage.slow_ns];
            left_out += 1;
            continue;
        }
        table.row([
            Span::from(stage.words.as_str()),
            cell(stage.typical_ns, means[0]),
            cell(stage.slow_ns, means[1]),
            share(stage.share),
        ]);
    }
    if left_out > 0 {
        let name = if left_out == 1 { "1 small one".to_owned() } else { format!("{left_out} small ones") };
        table.row([
            name.into(),
            cell(others[0], means[0]),
            cell(others[1], means[1]),
            share((others[1] - others[0]) / more.max(1.0)),
        ]);
    }
    table.row([
        Paint::Bold.span("sum"),
        Paint::Bold.span(time(means[0])),
        Paint::Bold.span(time(means[1])),
        Span::default(),
    ]);
    page.table(table);
    let text = format!(
        "Each column averages whole requests ({} and {}), so its stages add up. Of extra: its share of the extra time of slow requests.",
        names[0], names[1]
    );
    page.text(2, &text, Paint::Dim);
}

/// Requests by what they ask for.
fn asked(page: &mut Page, server: &WatchedServer) {
    let glyphs = page.style.glyphs;
    page.gap();
    let mut table = Table::new()
        .column("asked", Align::Left)
        .column("requests", Align::Right)
        .column("p50", Align::Right)
        .column("p99", Align::Right)
        .column("most of the slowest", Align::Left)
        .wrap_last();
    for asked in server.by_request.iter().take(ASKED) {
        table.row([
            Span::from(asked.what.as_str()),
            asked.requests.to_string().into(),
            glyphs.time(asked.p50_ns).into(),
            asked.p99_ns.map_or_else(|| "n/a".into(), |ns| glyphs.time(ns)).into(),
            asked.stage.as_str().into(),
        ]);
    }
    page.table(table);
    page.text(2, "Of the requests that have a row: all slow ones, and a sample of the others.", Paint::Dim);
}

fn slowest(page: &mut Page, server: &WatchedServer) {
    let glyphs = page.style.glyphs;
    page.heading(&format!("the slowest of {}", server.name));
    let mut table = Table::new()
        .column("at", Align::Right)
        .column("took", Align::Right)
        .optional("connection", Align::Right, 1)
        .optional("asked", Align::Left, 4)
        .optional("client", Align::Left, 3)
        .optional("bytes", Align::Right, 2)
        .column("most of it", Align::Left)
        .wrap_last();
    for slow in &server.slowest {
        let SlowRequest { at_s, total_ns, connection, what, client, bytes, stage, stage_ns, culprit, .. } = slow;
        let behind = if culprit.is_empty() { String::new() } else { format!(": {culprit}") };
        table.row([
            format!("{at_s:.3} s").into(),
            glyphs.time(*total_ns as f64).into(),
            connection.to_string().into(),
            what.as_str().into(),
            client.as_str().into(),
            format!("{}/{}", bytes[0], bytes[1]).into(),
            Span::from(format!("{} {stage}{behind}", glyphs.time(*stage_ns as f64))),
        ]);
    }
    page.table(table);
}

/// How much was seen, and what looking cost.
fn evidence(page: &mut Page, summary: &WatchSummary) {
    let glyphs = page.style.glyphs;
    page.gap();
    let sum = |of: fn(&WatchedServer) -> u64| summary.servers.iter().map(of).sum::<u64>();
    let requests = sum(|server| server.requests);
    let counted = [
        (sum(|server| server.incomplete), "not seen from beginning to end"),
        (sum(|server| server.torn), "torn"),
        (sum(|server| server.in_flight), "exchanges with several in flight, not told apart"),
        (sum(|server| server.unasked), "unsolicited from servers"),
        (summary.lost, "rows lost"),
        (summary.holes, "events lost, with the requests that they were of"),
        (summary.no_room, "threads or connections without room"),
        (summary.ambiguous, "pairs of addresses in several network namespaces"),
        (summary.not_adding_up, "rows that do not add up"),
        (summary.rows_not_kept, "rows beyond the limit"),
    ];
    if requests > 0 {
        let mut text = format!("{} requests, {} rows", requests, summary.rows);
        let framed = sum(|server| server.framed);
        if framed > 0 {
            text += &format!(", {} paired by their protocol", framed);
        }
        for (count, what) in counted {
            if count > 0 {
                text += &format!(", {} {what}", count);
            }
        }
        if counted.iter().all(|(count, _)| *count == 0) {
            text += ", nothing missing";
        }
        page.text(2, &text, Paint::Dim);
    }
    if !summary.missing.is_empty() {
        let mut text =
            format!("this kernel lacks {}: what it bounds is part of its neighbours", summary.missing.join(", "));
        if summary.missing.iter().any(|name| name == TELLS_OF_SOCKETS) {
            text += "; of sockets it tells of TCP between programs of this machine alone";
        }
        page.text(2, &text, Paint::Dim);
    }
    if let Some(stolen) = summary.stolen.filter(|stolen| *stolen >= STOLEN) {
        let whose = if summary.steal_split {
            "of a server's work it is a stage; of other stages it is a part"
        } else {
            "this kernel does not tell of which request, and it is in what is called on CPU"
        };
        let text =
            format!("the hypervisor took {} % of the CPUs' time meanwhile: {whose}", three_digits(100.0 * stolen));
        page.text(2, &text, Paint::Yellow);
    }
    if let Some(windows) = &summary.windows {
        page.text(2, &in_windows(windows, glyphs), Paint::Dim);
    }
    let text = match &summary.cost {
        Some(cost) if summary.windows.is_some() => {
            format!("reading its logs costs {} % of one CPU", three_digits(cost.reader * 100.0))
        }
        Some(cost) => {
            let each =
                cost.ns_per_request.map_or_else(String::new, |ns| format!(", at most {} a request", glyphs.time(ns)));
            let programs = match cost.programs {
                Some(share) => format!(
                    "its BPF programs {} % of one CPU while requests came{each}, both ends together",
                    three_digits(share * 100.0)
                ),
                None => "its BPF programs n/a, no request came while they were counted".into(),
            };
            format!("watching costs: {programs}; reading {} %", three_digits(cost.reader * 100.0))
        }
        None => "what watching costs: n/a, the kernel counts it only for CAP_SYS_ADMIN".into(),
    };
    page.text(2, &text, Paint::Dim);
}

/// What was followed where not all could be, and what that took.
fn in_windows(windows: &WatchingWindows, glyphs: Glyphs) -> String {
    let percent = |share: f64| three_digits(100.0 * share);
    let lost = match windows.lost_in_all {
        None => "what watching took of the throughput: n/a, too few windows to compare".to_owned(),
        Some([_, low, high]) if low <= 0.0 => {
            let most = percent(high.max(0.0));
            format!("what watching took of the throughput cannot be told from nothing: at most {most} %")
        }
        Some([lost, low, high]) => {
            format!("watching took {} % of the throughput ({} to {} %)", percent(lost), percent(low), percent(high))
        }
    };
    let within = windows.lost.map_or_else(String::new, |[lost, low, high]| {
        let range = format!("{} % ({} to {} %)", percent(lost), percent(low), percent(high));
        format!("; while a window was open {range}, {} windows against the time beside each", windows.pairs)
    });
    format!(
        "More requests than can be followed at a low price: those that began in {} windows of {}, {} % of the time, and were over {} later, \
         stand for all. Slow ones are as seldom followed; --all follows every one. Measured in turn: {lost}{within}",
        windows.count,
        glyphs.time(windows.mean_ns),
        percent(windows.share),
        glyphs.time(windows.followed_ns as f64),
    )
}

/// A line for each server, while programs are watched: what was counted so far, and where the rows of the last second went; and one for its
/// connections with most requests in that second.
pub(crate) fn watching(seconds: f64, services: &[ServiceCounts], rows: &[RequestRow], style: Style) -> String {
    let mut page = Page::new(style);
    let glyphs = style.glyphs;
    if services.is_empty() {
        page.line(&[format!("{seconds:.0} s: no request yet").into()]);
    }
    let mut services: Vec<&ServiceCounts> = services.iter().collect();
    services.sort_by_key(|service| std::cmp::Reverse(service.requests));
    for service in services.into_iter().take(LIVE) {
        let own: Vec<&RequestRow> = rows.iter().filter(|row| row.service == service.service).collect();
        let name = own.last().map_or_else(|| "?".into(), |row| named(service, &row.server_name));
        let port = if service.port > 0 { format!(":{}", service.port) } else { String::new() };
        let time = |p| {
            service
                .times
                .quantile(p)
                .filter(|_| service.is_told_apart())
                .map_or_else(|| "n/a".into(), |ns| glyphs.time(ns))
        };
        let slowest = own.iter().max_by_key(|row| row.total_ns).map(|row| {
            let stage = Stage::ALL.into_iter().max_by_key(|stage| row.stage(*stage)).expect("there are stages");
            format!("   slowest: {}, {}", glyphs.time(row.total_ns as f64), stage.words())
        });
        page.line(&[format!(
            "{seconds:.0} s  {name}{port}  {} requests  p50 {}  p99 {}{}",
            service.requests,
            time(0.5),
            time(0.99),
            slowest.unwrap_or_default()
        )
        .into()]);
        // Those of the last second; one alone is the server's line once more.
        let connections = connections(&own);
        for one in connections.iter().take(LIVE_CONNECTIONS).filter(|_| connections.len() > 1) {
            page.line(&[Paint::Dim.span(format!(
                "     connection {} from {}  {}  p50 {}  p99 {}   slowest: {}",
                one.connection,
                one.client,
                per_second(one.requests as f64),
                glyphs.time(one.p50_ns),
                one.p99_ns.map_or_else(|| "n/a".into(), |ns| glyphs.time(ns)),
                one.stage
            ))]);
        }
    }
    page.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::fixture::watched as summary;
    use msgpath_core::watch::Times;

    #[test]
    fn the_first_screen_answers_at_every_width() {
        for columns in [60, 80, 100] {
            let text = watch(&summary(), Style { width: columns, ..Style::default() });
            assert!(text.lines().all(|line| width(line) <= columns.into()), "{text}");
            let first: Vec<&str> = text.lines().take(25).collect();
            assert!(
                first.iter().any(|line| line.contains("sure")) && first.join(" ").contains("lock-holder"),
                "{text}"
            );
        }
        insta::assert_snapshot!("watch_80", watch(&summary(), Style { width: 80, ..Style::default() }));
        let ascii = watch(&summary(), Style { glyphs: Glyphs::Ascii, ..Style::default() });
        assert!(ascii.is_ascii(), "{ascii}");
    }

    #[test]
    fn nothing_seen_says_what_to_try() {
        let text = watch(&WatchSummary::default(), Style::default());
        assert!(text.contains("No request was seen") && text.contains("-t 30s"), "{text}");
    }

    #[test]
    fn tls_is_said_and_what_is_not_told_apart_has_no_number() {
        let with = |change: fn(&mut crate::analyse::WatchedServer)| {
            let mut summary = summary();
            change(&mut summary.servers[0]);
            let text = watch(&summary, Style { width: 80, ..Style::default() });
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let text = with(|server| (server.tls, server.handshakes) = (12, 36));
        let words = "TLS on 12 connections: requests are told apart by size and direction alone; 36 exchanges of handshakes and ends \
                     are no requests";
        assert!(text.contains(words), "{text}");
        assert!(!with(|_| {}).contains("TLS"));
        let text = with(|server| {
            (server.per_second, server.p50_ns, server.requests, server.in_flight) = (None, None, 6, 900);
        });
        assert!(text.contains("port 6379: 900 exchanges, not told apart, from app p50 n/a"), "{text}");
    }

    #[test]
    fn a_hole_in_the_log_of_events_is_said() {
        let text = |holes| watch(&WatchSummary { lost: 0, holes, ..summary() }, Style::default());
        assert!(text(0).contains("nothing missing"), "{}", text(0));
        let holes = text(16_384);
        assert!(holes.contains("16384 events lost") && !holes.contains("nothing missing"), "{holes}");
    }

    #[test]
    fn the_live_view_is_a_line_for_each_server() {
        let service =
            ServiceCounts { port: 6379, requests: 5, times: Times(vec![(100, 5)]), ..ServiceCounts::default() };
        let mut row = RequestRow { total_ns: 100, port: 6379, ..RequestRow::default() };
        row.stages[Stage::WorkOnCpu as usize] = 100;
        let text = watching(3.0, &[service], &[row.clone()], Style { width: 80, ..Style::default() });
        assert!(text.starts_with("3 s  :6379  5 requests  p50 100 ns") && text.contains("work: on CPU"), "{text}");
        assert!(text.lines().count() == 1 && watching(1.0, &[], &[], Style::default()).contains("no request yet"));
        let service = ServiceCounts { port: 6379, requests: 9, ..ServiceCounts::default() };
        let other =
            RequestRow { connection: 7, client_name: *b"app\0\0\0\0\0\0\0\0\0\0\0\0\0", weight: 8, ..row.clone() };
        let text = watching(3.0, &[service], &[row, other], Style { width: 80, ..Style::default() });
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() == 3 && lines[1].contains("connection 7 from app  8.00 /s  p50 100 ns"), "{text}");
    }
}
