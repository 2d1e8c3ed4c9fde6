//! The page of a mesh: findings, matrix, effects of hosts, levels, schedule, pairs without a result.

use std::collections::BTreeMap;

use msgpath_analyse::mesh::{CaseOfMesh, HostEffect, MeshSummary, PairValues};
use msgpath_core::mesh::{Directions, MeshHeader, Purpose};
use msgpath_core::units::{Glyphs, three_digits};

use crate::answers::{Answer, Cell, Page, Pictured, Table, cell::Value, html};
use crate::svg::{Anchor, Drawing, Scale, Svg};

/// Above this many hosts a cell of the matrix is a pair of racks; without racks only the slowest hosts are shown.
const MOST_HOSTS: usize = 500;
/// Hosts whose effects are drawn, the slowest.
const EFFECTS: usize = 60;
/// Pairs in the table, the slowest beyond what their hosts explain.
const PAIRS: usize = 200;
/// The matrix, pixels.
const SIDE: f64 = 900.0;
const MARGIN: f64 = 110.0;
/// The largest cell.
const LARGEST: f64 = 48.0;
/// Cells with a text of their own when pointed at: more of them would make the page too large.
const TITLES: usize = 12_000;
/// A factor that has the strongest colour.
const STRONGEST: f64 = 3.0;

/// The page as one HTML file that needs no network.
pub fn mesh(header: &MeshHeader, summary: &MeshSummary) -> String {
    let mut page = Page {
        title: format!("mesh {}: {} hosts by {}", summary.name, summary.hosts, header.launch.by),
        ..Page::default()
    };
    let found = summary.findings.iter().map(|finding| Answer {
        question: question(&finding.code).into(),
        confidence: finding.confidence,
        text: finding.text.clone(),
        evidence: Vec::new(),
        next: finding.next.clone(),
    });
    page.answers = found.map(Answer::whole).collect();
    let mut pictures = Vec::new();
    for case in &summary.cases {
        pictures.push(Pictured {
            name: format!("matrix-{}", case.case),
            title: format!("Which pairs are slow? {}", case.name),
            how: "Hosts stand by rack, then from the fastest to the slowest; a pair has both of its cells, or with --both rows are \
                  near ends. The stronger the colour, the slower the pair is than the fastest tenth; white was not measured, a \
                  cross has no result."
                .into(),
            panels: vec![matrix(header, summary, case)],
        });
        pictures.push(Pictured {
            name: format!("hosts-{}", case.case),
            title: format!("Which hosts are slow to everyone? {}", case.name),
            how: "Times slower than the host in the middle, with the 95 % interval; the line is 1.1, from which on it is a finding.".into(),
            panels: vec![effects(case)],
        });
        page.tables.push(levels(case));
        page.tables.push(hosts(case));
        page.tables.push(pairs(header, summary, case));
    }
    page.tables.push(schedule(summary));
    if !summary.missing.is_empty() {
        page.tables.push(missing(header, summary));
    }
    html(&page, &pictures)
}

fn question(code: &str) -> &'static str {
    match code {
        "M01" => "Which host is slow?",
        "M02" => "Which rack is slow?",
        "M03" => "Between which racks is it slow?",
        "M04" => "Which link is slow?",
        "M05" => "Do pairs that are measured together disturb each other?",
        "M07" => "What is missing?",
        "M08" => "Which hosts were busy with something else?",
        _ => "What would have been found?",
    }
}

/// Rows and columns of the matrix: names with the hosts that each stands for, and its rack.
struct Axis {
    groups: Vec<(String, String)>,
    of_host: Vec<Option<usize>>,
}

fn axis(case: &CaseOfMesh) -> Axis {
    let rack = |host: &HostEffect| host.rack.clone().unwrap_or_default();
    let factor = |host: &HostEffect| host.factor.map_or(f64::INFINITY, |[_, factor, _]| factor);
    let racks = case.hosts.iter().any(|host| host.rack.is_some());
    if case.hosts.len() > MOST_HOSTS && racks {
        let mut names: Vec<String> = case.hosts.iter().map(rack).collect();
        names.sort_unstable();
        names.dedup();
        let of_host = case.hosts.iter().map(|host| names.binary_search(&rack(host)).ok()).collect();
        return Axis { groups: names.into_iter().map(|name| (name.clone(), name)).collect(), of_host };
    }
    let mut order: Vec<usize> = (0..case.hosts.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&case.hosts[*a], &case.hosts[*b]);
        rack(a).cmp(&rack(b)).then(factor(a).total_cmp(&factor(b)))
    });
    if order.len() > MOST_HOSTS {
        order.drain(..order.len() - MOST_HOSTS);
    }
    let mut of_host = vec![None; case.hosts.len()];
    order.iter().enumerate().for_each(|(at, host)| of_host[*host] = Some(at));
    Axis { groups: order.iter().map(|at| (case.hosts[*at].host.clone(), rack(&case.hosts[*at]))).collect(), of_host }
}

/// The middle of a cell's values.
fn middle(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn matrix(header: &MeshHeader, summary: &MeshSummary, case: &CaseOfMesh) -> Svg {
    let Axis { groups, of_host } = axis(case);
    let size = ((SIDE - MARGIN) / groups.len().max(1) as f64).min(LARGEST);
    let side = MARGIN + size * groups.len() as f64;
    let own = |pair: &&PairValues| pair.case == case.case && pair.slot.purpose == Purpose::Mesh;
    let place = |at: u32| of_host.get(at as usize).copied().flatten();
    let mut cells: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    for pair in summary.pairs.iter().filter(own) {
        if let (Some(near), Some(far), Some(value)) = (place(pair.slot.near), place(pair.slot.far), pair.p50) {
            cells.entry((near, far)).or_default().push(value.ns);
            if header.order.directions == Directions::One {
                cells.entry((far, near)).or_default().push(value.ns);
            }
        }
    }
    let mut all: Vec<f64> = cells.values().flatten().copied().collect();
    all.sort_unstable_by(f64::total_cmp);
    let fast = all.get(all.len() / 10).copied().unwrap_or(1.0).max(1.0);
    let mut drawing = Drawing::new(side.max(SIDE / 2.0) + 8.0, side + 8.0);
    let at = |position: usize| MARGIN + position as f64 * size;
    let titled = cells.len() <= TITLES;
    for ((near, far), values) in &mut cells {
        let ns = middle(values);
        let strength = ((ns / fast).max(1.0).ln() / STRONGEST.ln()).min(1.0);
        let title = match titled {
            true => format!("{} → {}: p50 {}", groups[*near].0, groups[*far].0, Glyphs::Unicode.time(ns)),
            false => String::new(),
        };
        drawing.rectangle("f1", (at(*far), at(*near)), (size, size), 0.12 + 0.88 * strength, &title);
    }
    for slot in summary.missing.iter().map(|missing| missing.slot).filter(|slot| slot.purpose == Purpose::Mesh) {
        if let (Some(near), Some(far)) = (place(slot.near), place(slot.far)) {
            let (x, y) = (at(far), at(near));
            drawing.line("t2", (x, y), (x + size, y + size));
            drawing.line("t2", (x + size, y), (x, y + size));
        }
    }
    let mut before = "";
    for (position, (name, rack)) in groups.iter().enumerate() {
        if position > 0 && rack != before {
            drawing.line("axis", (at(position), MARGIN), (at(position), side));
            drawing.line("axis", (MARGIN, at(position)), (side, at(position)));
        }
        before = rack;
        if size >= 11.0 {
            drawing.text("small", (MARGIN - 6.0, at(position) + size / 2.0 + 4.0), Anchor::End, name);
        }
    }
    let label = format!("p50 of the pairs of {} hosts", header.hosts.len());
    drawing.text(
        "small",
        (MARGIN, MARGIN - 12.0),
        Anchor::Start,
        &format!("{label}; the fastest tenth is below {}", Glyphs::Unicode.time(fast)),
    );
    drawing.finish(&label)
}

fn effects(case: &CaseOfMesh) -> Svg {
    let mut found: Vec<(&str, [f64; 3])> =
        case.hosts.iter().filter_map(|host| Some((host.host.as_str(), host.factor?))).collect();
    found.sort_by(|(_, [_, a, _]), (_, [_, b, _])| b.total_cmp(a));
    found.truncate(EFFECTS);
    const ROW: f64 = 18.0;
    let height = 40.0 + ROW * found.len() as f64;
    let most = found.iter().map(|(_, [.., high])| *high).fold(1.5, f64::max);
    let least = found.iter().map(|(_, [low, ..])| *low).fold(0.8, f64::min).max(1e-3);
    let scale = Scale::log((least, most), (140.0, 880.0));
    let mut drawing = Drawing::new(920.0, height);
    for tick in [0.5, 0.8, 1.0, 1.1, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0]
        .into_iter()
        .filter(|tick| (least..=most).contains(tick))
    {
        drawing.line(if tick == 1.1 { "axis" } else { "grid" }, (scale.at(tick), 24.0), (scale.at(tick), height - 8.0));
        drawing.text("small", (scale.at(tick), 16.0), Anchor::Middle, &three_digits(tick));
    }
    for (row, (name, [low, value, high])) in found.iter().enumerate() {
        let y = 36.0 + ROW * row as f64;
        drawing.text("small", (132.0, y + 4.0), Anchor::End, name);
        drawing.line("t1 whisker", (scale.at(*low), y), (scale.at(*high), y));
        let title =
            format!("{name}: {} times ({} to {})", three_digits(*value), three_digits(*low), three_digits(*high));
        drawing.dot("f1", (scale.at(*value), y), 4.0, &title);
    }
    drawing.finish("effects of the slowest hosts with their intervals")
}

fn time(ns: Option<f64>, why: &str) -> Cell {
    let value = ns.map(|value| Value { value, low: None, high: None });
    Cell::or_missing(value, Cell::Time, why)
}

fn levels(case: &CaseOfMesh) -> Table {
    let mut table = Table::new("levels", format!("Levels, {}", case.name), &["level", "pairs", "p50", "p99"]);
    for level in &case.levels {
        let name = Cell::text(level.name.as_str());
        table.row([
            name,
            Cell::count(level.pairs.into()),
            time(level.p50_ns, "no pair"),
            time(level.p99_ns, "too few messages"),
        ]);
    }
    table.note("Medians over the pairs.")
}

fn hosts(case: &CaseOfMesh) -> Table {
    let mut table = Table::new(
        "hosts",
        format!("Hosts, {}", case.name),
        &["host", "rack", "times slower", "pairs", "without result", "waited for a CPU"],
    );
    let mut sorted: Vec<&HostEffect> = case.hosts.iter().collect();
    let factor = |host: &HostEffect| host.factor.map_or(f64::INFINITY, |[_, factor, _]| factor);
    sorted.sort_by(|a, b| factor(b).total_cmp(&factor(a)));
    for host in sorted {
        let value = host.factor.map(|[low, value, high]| Value { value, low: Some(low), high: Some(high) });
        table.row([
            Cell::text(host.host.as_str()),
            Cell::text(host.rack.as_deref().unwrap_or("")),
            Cell::or_missing(value, Cell::Number, "nothing was measured"),
            Cell::count(host.pairs.into()),
            Cell::count(host.failed.into()),
            Cell::text(host.busy.map_or(String::new(), |share| format!("{:.0} % of the time", share * 100.0))),
        ]);
    }
    table
}

fn pairs(header: &MeshHeader, summary: &MeshSummary, case: &CaseOfMesh) -> Table {
    let columns = ["near", "far", "p50", "p99", "lost", "than its hosts explain", "step"];
    let mut table = Table::new("pairs", format!("Slowest pairs, {}", case.name), &columns);
    let own =
        |pair: &&PairValues| pair.case == case.case && pair.slot.purpose == Purpose::Mesh && pair.residual.is_some();
    let mut sorted: Vec<&PairValues> = summary.pairs.iter().filter(own).collect();
    sorted.sort_by(|a, b| b.residual.unwrap_or(0.0).total_cmp(&a.residual.unwrap_or(0.0)));
    for pair in sorted.into_iter().take(PAIRS) {
        let residual = pair.residual.map(|value| Value { value, low: None, high: None });
        table.row([
            Cell::text(header.host(pair.slot.near)),
            Cell::text(header.host(pair.slot.far)),
            time(pair.p50.map(|value| value.ns), "lost"),
            time(pair.p99.map(|value| value.ns), "too few messages"),
            Cell::count(pair.lost),
            Cell::or_missing(residual, Cell::Ratio, "not in the model"),
            Cell::count(u64::from(pair.slot.step) + 1),
        ]);
    }
    table
}

fn schedule(summary: &MeshSummary) -> Table {
    let mut table = Table::new("schedule", "Schedule", &["what", "count"]);
    for (what, count) in [
        ("pairs asked for", summary.planned),
        ("pairs with a result", summary.measured),
        ("steps", summary.steps.into()),
        ("measurements again", summary.retests.into()),
        ("pairs measured alone as well", summary.alone.into()),
        ("pairs without a result", summary.missing.len() as u64),
    ] {
        table.row([Cell::text(what), Cell::count(count)]);
    }
    table
}

fn missing(header: &MeshHeader, summary: &MeshSummary) -> Table {
    let mut table = Table::new("missing", "Pairs without a result", &["near", "far", "tries", "why"]);
    for missing in &summary.missing {
        let why = format!("{} {}", missing.problem.what, missing.problem.why);
        let (near, far) = (header.host(missing.slot.near), header.host(missing.slot.far));
        table.row([Cell::text(near), Cell::text(far), Cell::count(missing.tries.into()), Cell::text(why.trim())]);
    }
    table
}
