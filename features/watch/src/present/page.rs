//! The page of watched programs: findings, where a request is at every moment, the slowest requests, how many took how long and
//! when, stages, kinds of requests, connections, and how much was seen.

use msgpath_analyse::stages::Kind;
use msgpath_analyse::summary::Confidence;
use msgpath_core::units::{Glyphs, three_digits};
use msgpath_core::watch::Stage;
use msgpath_present::answers::{Answer, Cell, Missing, Page, Pictured, Table, answered, cell::Value};
use msgpath_present::counted;
use msgpath_present::html::figures::{Bar, Lanes, colour, hatched, tick_name, wide};
use msgpath_present::svg::{Anchor, Drawing, Scale, Svg, round_step, time_ticks};

use crate::analyse::{CAUSE, Heat, SlowRequest, TAIL, USUAL, WatchSummary, WatchedBand, WatchedServer};

const G: Glyphs = Glyphs::Unicode;

/// Servers that have pictures.
const SERVERS: usize = 4;
/// The slowest requests that are drawn.
pub(crate) const SLOWEST: usize = 30;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 150.0;
const ROW: f64 = 18.0;

/// The page as one HTML file that needs no network.
pub(crate) fn watched(summary: &WatchSummary) -> String {
    let target = if summary.target.is_empty() { "a record" } else { &summary.target };
    let mut page = Page {
        title: format!("watch {}: {target}, {} s", summary.name, three_digits(summary.seconds)),
        ..Page::default()
    };
    page.answers = summary.servers.iter().flat_map(answers).collect();
    if let Some(why) = &summary.cut_short {
        page.missing.push(Missing { name: "the end".into(), why: why.clone() });
    }
    if page.answers.is_empty() {
        let nobody =
            "no request was seen: TCP, UDP and Unix sockets are watched, and a request must be answered meanwhile";
        page.answers.push(Answer::new("What was seen?", Confidence::CantTell, nobody).whole());
    }
    let shown: Vec<&WatchedServer> = summary.servers.iter().take(SERVERS).collect();
    let mut pictures = Vec::new();
    for (number, server) in shown.iter().enumerate() {
        pictures.extend(of_server(number, server));
        page.tables.extend(tables(server));
    }
    page.tables.push(servers(summary));
    page.tables.push(seen(summary));
    answered(&page, &pictures)
}

fn answers(server: &WatchedServer) -> Vec<Answer> {
    let name = &server.name;
    let slow = format!("What makes slow requests to {name} slow?");
    let first = server.findings.iter().position(|finding| finding.code == CAUSE);
    let question = |at: usize, code: &str| match code {
        USUAL => format!("What is a usual request to {name} made of?"),
        TAIL => format!("What makes the slowest requests to {name} slow?"),
        _ if first.is_none() || first == Some(at) => slow.clone(),
        _ => format!("What else makes requests to {name} slow?"),
    };
    let answer = |(at, finding): (usize, &msgpath_analyse::summary::Finding)| Answer {
        question: question(at, &finding.code),
        confidence: finding.confidence,
        text: finding.text.clone(),
        evidence: Vec::new(),
        next: finding.next.clone(),
    };
    let mut answers: Vec<Answer> = server.findings.iter().enumerate().map(answer).map(Answer::whole).collect();
    if first.is_none() && server.typical.is_some() {
        let text = "slow requests take about as long as the others, or nothing takes much of the difference";
        answers.push(Answer::new(slow.clone(), Confidence::Sure, text).whole());
    }
    answers
}

fn of_server(number: usize, server: &WatchedServer) -> Vec<Pictured> {
    let mut pictures = Vec::new();
    let mut add = |name: &str, title: String, how: &str, panels: Vec<Svg>| {
        if !panels.is_empty() {
            pictures.push(Pictured { name: format!("{name}-{number}"), title, how: how.into(), panels });
        }
    };
    if let (Some(typical), Some(slow)) = (&server.typical, &server.slow) {
        let mean = |slow: bool| {
            let ns = |stage: &crate::analyse::WatchedStageTimes| if slow { stage.slow_ns } else { stage.typical_ns };
            server.stages.iter().map(|stage| (stage.stage, ns(stage))).collect::<Vec<_>>()
        };
        add(
            "anatomy",
            format!("Where is a request to {} at every moment?", server.name),
            "Time runs to the right, to scale; the request goes down from the client to the server and on to the client again. Bars are \
             means over whole requests, so they add up. Hatched: waiting for a CPU.",
            vec![
                anatomy("usual requests", typical, &mean(false), number == 0),
                anatomy("slow requests", slow, &mean(true), false),
            ],
        );
    }
    if !server.slowest.is_empty() {
        add(
            "slowest",
            format!("What did the slowest requests to {} wait for?", server.name),
            "Each row is one request, its stages in the order of time, in the colours above; on the right its largest stage.",
            vec![slowest(server)],
        );
    }
    if !server.pictures.histogram.is_empty() {
        add(
            "histogram",
            format!("How long do requests to {} take?", server.name),
            "All requests by their time; both scales are logarithmic.",
            vec![histogram(server)],
        );
    }
    if server.pictures.heat.cells.len() > 1 {
        add(
            "heat",
            format!("When was {} slow?", server.name),
            "Requests with a row of their own, and those that they stand for; the stronger the colour, the more of them.",
            vec![heat(server)],
        );
    }
    pictures
}

/// From top to bottom; whether the lane is shaded.
const LANES: [(&str, bool); 7] = [
    ("client", false),
    ("send, stack", true),
    ("server waits", false),
    ("server", true),
    ("reply, stack", false),
    ("client waits", true),
    ("client", false),
];

/// Where a stage happens, and what it is drawn as.
fn drawn(stage: Stage) -> (usize, Kind) {
    match stage {
        Stage::Send | Stage::SendOut => (1, Kind::Transmit),
        Stage::Softirq => (2, Kind::Softirq),
        Stage::Queued => (2, Kind::Waiting),
        Stage::WakeUp => (2, Kind::WakeCall),
        Stage::InFlight => (2, Kind::InFlight),
        Stage::RunQueue => (2, Kind::Delay),
        Stage::OtherThread | Stage::Stopped => (2, Kind::Waiting),
        Stage::Receive => (3, Kind::Return),
        Stage::WorkOnCpu | Stage::WorkElsewhere => (3, Kind::Handler),
        Stage::WorkInterrupts => (3, Kind::Softirq),
        Stage::WorkPageFaults => (3, Kind::Deliver),
        Stage::WorkStolen => (3, Kind::Delay),
        Stage::WorkRunnable => (3, Kind::Delay),
        Stage::WorkWaking => (3, Kind::InFlight),
        Stage::WorkPoll | Stage::WorkSocket | Stage::WorkDisk => (3, Kind::Device),
        Stage::WorkLock | Stage::Held => (3, Kind::HeldBack),
        Stage::WorkSleep | Stage::WorkOther | Stage::WorkStopped => (3, Kind::Waiting),
        Stage::WorkFault => (3, Kind::Device),
        Stage::Away => (3, Kind::Device),
        Stage::Reply | Stage::ReplyOut => (4, Kind::Transmit),
        Stage::ClientSoftirq => (5, Kind::Softirq),
        Stage::ClientQueued => (5, Kind::Waiting),
        Stage::ClientWakeUp => (5, Kind::WakeCall),
        Stage::ClientInFlight => (5, Kind::InFlight),
        Stage::ClientRunQueue => (5, Kind::Delay),
        Stage::ClientOtherThread | Stage::ClientStopped => (5, Kind::Waiting),
        Stage::ClientReceive => (6, Kind::Return),
        Stage::Rest => (6, Kind::Deliver),
    }
}

fn anatomy(what: &str, band: &WatchedBand, stages: &[(Stage, f64)], hatch: bool) -> Svg {
    let bar = |(stage, ns): &(Stage, f64)| {
        let (lane, kind) = drawn(*stage);
        Bar {
            lane: Some(lane),
            name: stage.words().into(),
            title: stage.words().into(),
            ns: *ns,
            colour: colour(kind),
            hatched: hatched(kind),
        }
    };
    let requests = counted(band.rows, "request");
    let head = format!("{what} ({}): {}, mean of {requests}", band.name, G.time(band.mean_ns));
    Lanes {
        label: format!("Where {what} are at every moment, {}", G.time(band.mean_ns)),
        head,
        names: LANES.to_vec(),
        bars: stages.iter().map(bar).collect(),
        total_ns: band.mean_ns.max(1.0),
        begins: ("sends", "the send call of the client"),
        ends: ("has the reply", "its receive call has the reply"),
        hatch,
    }
    .draw()
}

fn slowest(server: &WatchedServer) -> Svg {
    let rows = &server.slowest[..server.slowest.len().min(SLOWEST)];
    let longest = rows.iter().map(|slow| slow.total_ns).max().unwrap_or(1).max(1) as f64;
    let bottom = 24.0 + ROW * rows.len() as f64;
    let mut drawing = Drawing::new(WIDTH, bottom + 22.0);
    let said = |slow: &SlowRequest| format!("{} {}", G.time(slow.total_ns as f64), slow.stage);
    let room = rows.iter().map(|slow| wide(&said(slow)) + 8.0).fold(RIGHT, f64::max);
    let x = Scale::linear((0.0, longest), (LEFT, WIDTH - room));
    let step = round_step(longest / 8.0);
    for tick in (0..=16).map(|tick| f64::from(tick) * step).take_while(|tick| *tick <= longest * 1.0001) {
        drawing.line("grid", (x.at(tick), 16.0), (x.at(tick), bottom));
        drawing.text("m", (x.at(tick), bottom + 16.0), Anchor::Middle, &tick_name(tick));
    }
    for (row, slow) in rows.iter().enumerate() {
        let y = 20.0 + ROW * row as f64;
        let name = if slow.what.is_empty() { format!("at {} s", three_digits(slow.at_s)) } else { slow.what.clone() };
        drawing.text("small", (LEFT - 8.0, y + 12.0), Anchor::End, &name);
        let mut from = 0.0;
        for (stage, ns) in &slow.stages {
            let (_, kind) = drawn(*stage);
            let to = from + *ns as f64;
            let title = format!("{}: {} of {}", stage.words(), G.time(*ns as f64), G.time(slow.total_ns as f64));
            let long = (x.at(to) - x.at(from)).max(0.4);
            drawing.rectangle(&format!("stage st{}", colour(kind)), (x.at(from), y), (long, ROW - 4.0), 1.0, &title);
            if hatched(kind) && long > 2.0 {
                drawing.rectangle("hatched", (x.at(from), y), (long, ROW - 4.0), 1.0, "");
            }
            from = to;
        }
        drawing.text("small", (x.at(from) + 6.0, y + 12.0), Anchor::Start, &said(slow));
    }
    drawing.finish(&format!("The stages of the {} slowest requests to {}", rows.len(), server.name))
}

fn histogram(server: &WatchedServer) -> Svg {
    const HEIGHT: f64 = 260.0;
    const BOTTOM: f64 = 36.0;
    let bins = &server.pictures.histogram;
    let (low, high) = (bins.first().map_or(1.0, |bin| bin.from_ns), bins.last().map_or(2.0, |bin| bin.to_ns));
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(1).max(1) as f64;
    let x = Scale::log((low, high), (LEFT, WIDTH - 24.0));
    // A single request has a bar as well.
    let y = Scale::log((0.5, most), (HEIGHT - BOTTOM, 28.0));
    let mut drawing = Drawing::new(WIDTH, HEIGHT);
    for power in (0..=12).map(|power| 10_f64.powi(power)).take_while(|count| *count <= most) {
        drawing.line("grid", (LEFT, y.at(power)), (WIDTH - 24.0, y.at(power)));
        drawing.text("m", (LEFT - 8.0, y.at(power) + 4.0), Anchor::End, &(power as u64).to_string());
    }
    for bin in bins.iter().filter(|bin| bin.count > 0) {
        let title = format!("{} to {}: {} requests", G.time(bin.from_ns), G.time(bin.to_ns), bin.count);
        let (left, top) = (x.at(bin.from_ns), y.at(bin.count as f64));
        let long = (x.at(bin.to_ns) - left - 1.0).max(0.6);
        drawing.rectangle("f1", (left, top), (long, HEIGHT - BOTTOM - top), 0.75, &title);
    }
    for tick in time_ticks(low, high) {
        drawing.text("m", (x.at(tick), HEIGHT - BOTTOM + 18.0), Anchor::Middle, &tick_name(tick));
    }
    for (name, ns) in [("p50", server.p50_ns), ("p99", server.p99_ns), ("p99.9", server.p999_ns)] {
        if let Some(ns) = ns {
            drawing.line("axis", (x.at(ns), 22.0), (x.at(ns), HEIGHT - BOTTOM));
            drawing.text("small", (x.at(ns), 16.0), Anchor::Middle, &format!("{name} {}", G.time(ns)));
        }
    }
    drawing.finish(&format!("How many requests to {} took how long", server.name))
}

fn heat(server: &WatchedServer) -> Svg {
    const HEIGHT: f64 = 300.0;
    const BOTTOM: f64 = 36.0;
    let Heat { seconds, columns, rows, low_ns, high_ns, cells } = &server.pictures.heat;
    let mut drawing = Drawing::new(WIDTH, HEIGHT);
    let (right, top, bottom) = (WIDTH - 24.0, 12.0, HEIGHT - BOTTOM);
    let size = ((right - LEFT) / *columns as f64, (bottom - top) / *rows as f64);
    let most = cells.iter().map(|(.., count)| *count).max().unwrap_or(1).max(2) as f64;
    let y = Scale::log((*low_ns, *high_ns), (bottom, top));
    for tick in time_ticks(*low_ns, *high_ns) {
        drawing.line("grid", (LEFT, y.at(tick)), (right, y.at(tick)));
        drawing.text("m", (LEFT - 8.0, y.at(tick) + 4.0), Anchor::End, &tick_name(tick));
    }
    for (column, row, count) in cells {
        let from = seconds * *column as f64 / *columns as f64;
        let share = *row as f64 / *rows as f64;
        let title = format!(
            "{} s, from {}: {} requests",
            three_digits(from),
            G.time(low_ns * (high_ns / low_ns).powf(share)),
            count
        );
        let at = (LEFT + size.0 * *column as f64, bottom - size.1 * (*row + 1) as f64);
        let strength = 0.15 + 0.85 * (*count as f64).max(1.0).ln() / most.ln();
        drawing.rectangle("f1", at, size, strength.min(1.0), &title);
    }
    for part in 0..=4 {
        let at = LEFT + (right - LEFT) * f64::from(part) / 4.0;
        let text = format!("{} s", three_digits(seconds * f64::from(part) / 4.0));
        drawing.text("m", (at, bottom + 18.0), Anchor::Middle, &text);
    }
    drawing.finish(&format!("When requests to {} took how long", server.name))
}

fn time(ns: Option<f64>) -> Cell {
    Cell::or_missing(ns, Cell::Time, "too few requests")
}

fn plain(value: f64, kind: fn(Value) -> Cell) -> Cell {
    kind(value.into())
}

fn tables(server: &WatchedServer) -> Vec<Table> {
    let mut tables = Vec::new();
    let of = |what: &str| format!("{what}, {}", server.name);
    if !server.stages.is_empty() {
        let mut table = Table::new("stages", of("Stages"), &["stage", "usual", "slow", "of extra"]);
        for stage in &server.stages {
            table.row([
                Cell::text(&stage.words),
                plain(stage.typical_ns, Cell::Time),
                plain(stage.slow_ns, Cell::Time),
                plain(stage.share, Cell::Share),
            ]);
        }
        tables.push(table.note(
            "Means over whole requests, so they add up. Of extra: the share of the extra time of slow requests.",
        ));
    }
    if !server.slowest.is_empty() {
        let columns =
            ["at, s", "took", "connection", "asked", "client", "bytes there", "back", "most of it", "takes", "behind"];
        let mut table = Table::new("slowest", of("Slowest requests"), &columns);
        for slow in &server.slowest {
            table.row([
                plain(slow.at_s, Cell::Number),
                plain(slow.total_ns as f64, Cell::Time),
                Cell::count(slow.connection),
                Cell::text(&slow.what),
                Cell::text(&slow.client),
                Cell::size(slow.bytes[0].into()),
                Cell::size(slow.bytes[1].into()),
                Cell::text(&slow.stage),
                plain(slow.stage_ns as f64, Cell::Time),
                Cell::text(&slow.culprit),
            ]);
        }
        tables.push(table);
    }
    let columns = ["requests", "p50", "p99", "most of the slowest"];
    let row = |name: Cell, requests: u64, p50_ns: f64, p99_ns: Option<f64>, stage: &str| {
        [name, Cell::count(requests), plain(p50_ns, Cell::Time), time(p99_ns), Cell::text(stage)]
    };
    if !server.by_request.is_empty() {
        let mut table = Table::new("asked", of("What was asked for"), &[&["asked"], &columns[..]].concat());
        for one in &server.by_request {
            table.row(row(Cell::text(&one.what), one.requests, one.p50_ns, one.p99_ns, &one.stage));
        }
        tables.push(table);
    }
    if server.by_connection.len() > 1 {
        let mut table = Table::new("connections", of("Connections"), &[&["connection, client"], &columns[..]].concat());
        for one in &server.by_connection {
            let name = Cell::text(format!("{}, {}", one.connection, one.client));
            table.row(row(name, one.requests, one.p50_ns, one.p99_ns, &one.stage));
        }
        tables.push(table);
    }
    tables
}

fn servers(summary: &WatchSummary) -> Table {
    let columns = ["server", "process", "port", "requests", "rate", "p50", "p90", "p99", "p99.9", "split"];
    let mut table = Table::new("servers", "Servers", &columns);
    for server in &summary.servers {
        table.row([
            Cell::text(&server.name),
            Cell::text(if server.host.is_empty() { server.process.to_string() } else { "another host".into() }),
            Cell::text(match (server.port, server.datagrams) {
                (Some(port), false) => port.to_string(),
                (Some(port), true) => format!("UDP {port}"),
                (None, false) => "Unix sockets".into(),
                (None, true) => "Unix datagram sockets".into(),
            }),
            Cell::count(server.requests),
            Cell::or_missing(server.per_second, Cell::Number, "several requests in flight, not told apart"),
            time(server.p50_ns),
            time(server.p90_ns),
            time(server.p99_ns),
            time(server.p999_ns),
            plain(server.complete, Cell::Share),
        ]);
    }
    table.note("Split: the share of the requests that were seen from beginning to end.")
}

fn seen(summary: &WatchSummary) -> Table {
    let mut table = Table::new("seen", "How much was seen, and what looking cost", &["what", "value"]);
    let sum = |of: fn(&WatchedServer) -> u64| summary.servers.iter().map(of).sum::<u64>();
    for (what, count) in [
        ("connections", summary.connections),
        ("requests", sum(|server| server.requests)),
        ("of them told apart by their protocol", sum(|server| server.framed)),
        ("requests with a row of their own", summary.rows),
        ("not seen from beginning to end", sum(|server| server.incomplete)),
        ("torn", sum(|server| server.torn)),
        ("with several in flight, not paired", sum(|server| server.in_flight)),
        ("unsolicited from servers", sum(|server| server.unasked)),
        ("connections with TLS, requests told apart by size and direction alone", sum(|server| server.tls)),
        ("exchanges of TLS handshakes and ends, no requests", sum(|server| server.handshakes)),
        ("rows lost", summary.lost),
        ("threads or connections without room", summary.no_room),
        ("pairs of addresses in several network namespaces", summary.ambiguous),
        ("rows that do not add up", summary.not_adding_up),
        ("rows beyond the limit", summary.rows_not_kept),
    ] {
        table.row([Cell::text(what), Cell::count(count)]);
    }
    let cost = summary.cost.as_ref();
    let unknown = match cost {
        Some(_) => "no request came while it was counted",
        None => "the kernel counts it only for CAP_SYS_ADMIN",
    };
    for (what, share, unknown) in [
        ("BPF programs while requests came, of one CPU", cost.and_then(|cost| cost.programs), unknown),
        ("reading, of one CPU", cost.map(|cost| cost.reader), unknown),
        ("taken by the hypervisor, of all CPUs", summary.stolen, "the kernel does not tell"),
    ] {
        table.row([Cell::text(what), Cell::or_missing(share, Cell::Share, unknown)]);
    }
    let each = cost.and_then(|cost| cost.ns_per_request);
    table.row([
        Cell::text("BPF programs for a request, at most"),
        Cell::or_missing(each, Cell::Time, "too few requests"),
    ]);
    for name in &summary.missing {
        table.row([Cell::text(format!("tracepoint {name}")), Cell::missing("this kernel lacks it")]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::fixture;

    #[test]
    fn the_page_has_what_was_found_and_its_pictures() {
        let page = watched(&fixture::watched());
        for part in [
            "<h1 class=\"sure\"><span class=\"tag\">sure</span>",
            "woken by lock-holder",
            "Where is a request to redis-server at every moment?",
            "What did the slowest requests to redis-server wait for?",
            "How long do requests to redis-server take?",
            "When was redis-server slow?",
            "Slowest requests, redis-server",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("id=\"hatch\"").count(), 1);
        assert!(
            !page.contains("http://") && !page.contains("https://") || !page.contains("src=\"http"),
            "it needs no network"
        );
    }

    #[test]
    fn what_others_named_stays_text() {
        let mut summary = fixture::watched();
        let hostile = "<script>alert(1)</script>";
        summary.servers[0].name = hostile.into();
        summary.servers[0].slowest[0].what = hostile.into();
        (summary.target, summary.name) = (hostile.into(), hostile.into());
        assert!(!watched(&summary).contains(hostile));
    }

    #[test]
    fn an_empty_record_has_a_page() {
        assert!(watched(&WatchSummary::default()).contains("No request was seen"));
    }

    #[test]
    fn every_stage_has_its_lane_in_the_order_of_time() {
        let lanes: Vec<usize> = Stage::ALL.into_iter().map(|stage| drawn(stage).0).collect();
        assert!(lanes.iter().all(|lane| *lane < LANES.len()) && lanes[0] == 1 && lanes.last() == Some(&6));
    }
}
