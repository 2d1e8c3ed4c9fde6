//! What the preset `vehicles` has beside its page: the engines and the first messages drawn, and the series in the words of
//! the programs that the experiment comes from.

use msgpath_periodic::analyse::PeriodicSummary;
use msgpath_periodic::record::PeriodicFacts;
use std::fmt::Write as _;

use crate::answers::Part;
use crate::classic::frames::{self, LISTED};
use msgpath_core::schema::MessageRow;
use msgpath_core::units::Glyphs;
use msgpath_periodic::analyse::Engine;

use msgpath_present::answers::Pictured;

use super::File;
use msgpath_present::html::figures::tick_name;
use msgpath_present::svg::{Anchor, Drawing, Scale, Svg, time_ticks};

/// Size of a panel, and what is left free around its frame, pixels.
const SIZE: (f64, f64) = (760.0, 360.0);
const LEFT: f64 = 66.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 64.0;

/// One engine of one run with its path.
struct Driven<'a> {
    part: Part<'a>,
    engine: &'a Engine,
    transport: &'a str,
}

fn engines<'a>(parts: &[Part<'a>]) -> Vec<Driven<'a>> {
    let of = |part: &Part<'a>| {
        let (part, cases) = (*part, &part.run.header.plan.cases);
        let engines = part.summary.sections.get::<PeriodicSummary>().into_iter().flat_map(|periodic| &periodic.engines);
        engines.filter(|engine| engine.all.messages > 0).filter_map(move |engine| {
            let transport = cases.get(engine.case as usize)?.path.transport.as_str();
            Some(Driven { part, engine, transport })
        })
    };
    parts.iter().flat_map(of).collect()
}

/// The colour of an engine: the same in every picture.
fn colour(transport: &str) -> usize {
    match transport {
        "eth" => 0,
        "shm" => 1,
        _ => 2,
    }
}

fn time(ns: f64) -> String {
    Glyphs::Unicode.time(ns)
}

/// The messages that component 0 received of one engine, in the order of arrival: sender from 0 and the row.
fn arrivals<'a>(driven: &Driven<'a>) -> Vec<(u32, &'a MessageRow)> {
    let Some(facts) = driven.part.run.header.parts.get::<PeriodicFacts>() else { return Vec::new() };
    let of = (facts.processes * facts.components).max(1);
    let own = msgpath_periodic::log::log(driven.part.logs)
        .sample()
        .iter()
        .filter(|row| row.case == driven.engine.case && row.connection / of == 0 && row.latency_ns.is_some());
    let mut own: Vec<_> = own.map(|row| (row.connection % of, row)).collect();
    own.sort_by_key(|(_, row)| row.start_ns.saturating_add(row.far_ns.or(row.latency_ns).unwrap_or(0)));
    own
}

/// A frame with a logarithmic axis of times, and its scale.
fn frame(range: (f64, f64), name: &str, below: &str) -> (Drawing, Scale) {
    let (width, height) = SIZE;
    let mut drawing = Drawing::new(width, height);
    let range = (range.0 * 0.8, range.1 * 1.25);
    let up = Scale::log(range, (height - BOTTOM, TOP));
    for tick in time_ticks(range.0, range.1) {
        let y = up.at(tick);
        drawing.line("grid", (LEFT, y), (width - RIGHT, y));
        drawing.text("m", (LEFT - 7.0, y + 4.0), Anchor::End, &tick_name(tick));
    }
    drawing.line("axis", (LEFT, height - BOTTOM), (width - RIGHT, height - BOTTOM));
    drawing.text("m", (LEFT, TOP - 14.0), Anchor::Start, name);
    drawing.text("m", ((LEFT + width - RIGHT) / 2.0, height - 6.0), Anchor::Middle, below);
    (drawing, up)
}

/// The names of the colours, right above the frame.
fn legend(drawing: &mut Drawing, transports: &[&str]) {
    let mut x = SIZE.0 - RIGHT;
    for transport in transports.iter().rev() {
        drawing.text(&format!("b f{}", colour(transport)), (x, TOP - 14.0), Anchor::End, transport);
        x -= 14.0 + 9.0 * transport.len() as f64;
    }
}

fn transports<'a>(engines: &[Driven<'a>]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for driven in engines {
        if !names.contains(&driven.transport) {
            names.push(driven.transport);
        }
    }
    names
}

/// Smallest and largest of some times.
fn extent(times: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    times.filter(|ns| *ns > 0.0).fold(None, |range, ns| {
        let (low, high) = range.unwrap_or((ns, ns));
        Some((f64::min(low, ns), f64::max(high, ns)))
    })
}

pub(super) fn pictures(parts: &[Part<'_>]) -> Vec<Pictured> {
    let engines = engines(parts);
    let mut out = Vec::new();
    if let Some(panel) = ranges(&engines) {
        out.push(Pictured {
            name: "engines".into(),
            title: "How long do messages take, from the fastest to the slowest?".into(),
            how: "Each line reaches from the fastest to the slowest message, on a logarithmic scale. Filled dot: mean. Ring: \
                  median. Short bar: 99th percentile."
                .into(),
            panels: vec![panel],
        });
    }
    let panels: Vec<Svg> = parts.iter().filter_map(|part| series(&engines, part.name)).collect();
    if !panels.is_empty() {
        out.push(Pictured {
            name: "first-messages".into(),
            title: "Do delays fall after the start?".into(),
            how: format!(
                "The first {LISTED} messages that component 0 received of each engine, in the order of their arrival, on a \
                 logarithmic scale. A row of falling dots is one late receiver."
            ),
            panels,
        });
    }
    out
}

fn ranges(engines: &[Driven<'_>]) -> Option<Svg> {
    let all = |driven: &Driven<'_>| [driven.engine.all.min_ns, driven.engine.all.max_ns];
    let range = extent(engines.iter().flat_map(all).flatten().map(|ns| ns as f64))?;
    let (mut drawing, up) = frame(range, "one way (log)", "run");
    legend(&mut drawing, &transports(engines));
    let step = (SIZE.0 - LEFT - RIGHT) / engines.len() as f64;
    let mut run = "";
    for (at, driven) in engines.iter().enumerate() {
        let times = &driven.engine.all;
        let (Some(min), Some(max), Some(mean)) = (times.min_ns, times.max_ns, times.mean_ns) else { continue };
        let x = LEFT + step * (at as f64 + 0.5);
        let series = colour(driven.transport);
        let name = format!("{} {}", driven.part.name, driven.transport);
        drawing.line(&format!("ln s{series}"), (x, up.at(min as f64)), (x, up.at(max as f64)));
        for (what, ns) in [("min", min), ("max", max)] {
            drawing.dot(
                &format!("f{series}"),
                (x, up.at(ns as f64)),
                1.6,
                &format!("{name}: {what} {}", time(ns as f64)),
            );
        }
        if let Some(p99) = times.p99_ns.map(|ns| up.at(ns as f64)) {
            drawing.line(&format!("ln s{series}"), (x - 7.0, p99), (x + 7.0, p99));
        }
        if let Some(p50) = times.p50_ns {
            let title = format!("{name}: median {}", time(p50 as f64));
            drawing.dot(&format!("hollow t{series}"), (x, up.at(p50 as f64)), 4.0, &title);
        }
        drawing.dot(&format!("f{series}"), (x, up.at(mean)), 4.0, &format!("{name}: mean {}", time(mean)));
        drawing.text("m", (x, SIZE.1 - BOTTOM + 17.0), Anchor::Middle, driven.transport);
        if driven.part.name != run {
            run = driven.part.name;
            let own = engines.iter().filter(|other| other.part.name == run).count() as f64;
            let middle = LEFT + step * (at as f64 + own / 2.0);
            drawing.text("m", (middle, SIZE.1 - BOTTOM + 34.0), Anchor::Middle, run);
        }
    }
    Some(drawing.finish("Fastest, median, mean, 99th percentile and slowest message of each engine in each run"))
}

/// The first messages to one receiver in one run.
fn series(engines: &[Driven<'_>], run: &str) -> Option<Svg> {
    let own: Vec<_> = engines.iter().filter(|driven| driven.part.name == run).collect();
    let rows: Vec<(&str, Vec<f64>)> = own
        .iter()
        .map(|driven| {
            let times = arrivals(driven).into_iter().take(LISTED);
            (driven.transport, times.filter_map(|(_, row)| row.latency_ns).map(|ns| ns as f64).collect())
        })
        .collect();
    let range = extent(rows.iter().flat_map(|(_, times)| times.iter().copied()))?;
    let (mut drawing, up) = frame(range, &format!("{run}: one way (log)"), "message, in the order of arrival");
    legend(&mut drawing, &rows.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    let across = Scale::linear((0.0, LISTED as f64), (LEFT, SIZE.0 - RIGHT));
    for (transport, times) in &rows {
        for (at, ns) in times.iter().enumerate() {
            let title = format!("{transport}, message {}: {}", at + 1, time(*ns));
            drawing.dot(&format!("f{}", colour(transport)), (across.at(at as f64), up.at(*ns)), 1.7, &title);
        }
    }
    for tick in (0..=LISTED).step_by(50) {
        let text = tick.to_string();
        drawing.text("m", (across.at(tick as f64), SIZE.1 - BOTTOM + 17.0), Anchor::Middle, &text);
    }
    Some(drawing.finish(&format!("The first messages that component 0 received in the run {run}, by engine")))
}

/// What the programs call an engine.
fn name(transport: &str) -> &str {
    match transport {
        "eth" => "Socket",
        "shm" => "SharedMem",
        other => other,
    }
}

/// `vehicles.txt`: the series in the words of the programs, one section for each engine of each run.
pub(super) fn files(parts: &[Part<'_>]) -> Vec<File> {
    let mut text = String::new();
    for driven in engines(parts) {
        section(&mut text, &driven);
    }
    if text.is_empty() { Vec::new() } else { vec![File { name: "vehicles.txt".into(), text }] }
}

/// Writing to a String cannot fail.
fn section(text: &mut String, driven: &Driven<'_>) {
    let header = &driven.part.run.header;
    let _ = writeln!(text, "== {} {}", driven.part.name, driven.transport);
    let sessions = header.parts.get::<PeriodicFacts>().into_iter().flat_map(|facts| &facts.sessions);
    let mut pids: Vec<i32> = Vec::new();
    for session in sessions.filter(|session| session.case == driven.engine.case) {
        let fresh = session.components.iter().map(|component| component.pid);
        for pid in fresh {
            if !pids.contains(&pid) {
                pids.push(pid);
            }
        }
    }
    for pid in pids {
        let _ = writeln!(text, "Veículo criado: PID = {pid}");
    }
    let rows = arrivals(driven);
    let us = |row: &MessageRow| (row.latency_ns.unwrap_or(0) / 1_000) as i64;
    let rows: Vec<(i64, i64)> = rows.iter().map(|(sender, row)| (i64::from(*sender) + 1, us(row))).collect();
    let interface = (driven.transport == "eth").then_some(header.plan.options.interface.as_str());
    text.push_str(&frames::listing(interface, &rows));
    let all = &driven.engine.all;
    let name = name(driven.transport);
    let lines = [("Média", all.mean_ns.map(|ns| ns as u64)), ("Máximo", all.max_ns), ("Mínimo", all.min_ns)];
    for (what, ns) in lines {
        if let Some(ns) = ns {
            let _ = writeln!(text, "{what} de delay de envio {name}: {} microseconds", ns / 1_000);
        }
    }
    text.push('\n');
}
