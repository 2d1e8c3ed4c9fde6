//! The page of a mesh: findings, matrix, effects of hosts, levels, schedule, pairs without a result.

use msgpath_core::units::{range, three_digits};
use msgpath_present::answers::{Answer, Cell, Page, Pictured, Table, answered, cell::Value};
use msgpath_present::svg::{Anchor, Drawing, Scale, Svg};

use crate::analyse::{HostEffect, MeshCase, MeshSummary, PairValues};
use crate::schema::{MeshHeader, PairPurpose};

/// Hosts whose effects are drawn, the slowest.
const EFFECTS: usize = 60;
/// Pairs in the table, the slowest beyond what their hosts explain.
const PAIRS: usize = 200;
/// Rows of any other table: a page of a mesh of ten thousand hosts is one that a browser opens.
const ROWS: usize = 1_000;

/// How hosts stand in the matrix, few and many of them.
const FEW: &str = "Hosts stand by rack, then from the fastest to the slowest";
const MANY: &str =
    "A cell is two racks, and a click on it opens the hosts of its row; without racks these are the slowest hosts";

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
            how: format!(
                "{}; a pair has both of its cells, or with --both rows are near ends. The stronger the colour, the slower the pair is \
                 than the fastest tenth; what has no colour was not measured, a cross, or red, has no result.",
                if case.hosts.len() > super::matrix::MOST_HOSTS { MANY } else { FEW }
            ),
            panels: super::matrix::panels(header, summary, case),
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
    answered(&page, &pictures)
}

fn question(code: &str) -> &'static str {
    match code {
        "M01" => "Which host is slow?",
        "M02" => "Which rack, or its uplink, is slow?",
        "M03" => "Between which racks is it slow?",
        "M04" => "Which link is slow?",
        "M05" => "Do pairs that are measured together disturb each other?",
        "M07" => "What is missing?",
        "M08" => "Which hosts were busy with something else?",
        "M09" => "Which host stalls, or has a long tail?",
        _ => "What would have been found?",
    }
}

fn effects(case: &MeshCase) -> Svg {
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
        let title = format!(
            "{name}: {} times slower (95 %: {})",
            three_digits(*value),
            range(three_digits(*low), three_digits(*high))
        );
        drawing.dot("f1", (scale.at(*value), y), 4.0, &title);
    }
    drawing.finish("effects of the slowest hosts with their intervals")
}

fn time(ns: Option<f64>, why: &str) -> Cell {
    let value = ns.map(|value| Value { value, low: None, high: None });
    Cell::or_missing(value, Cell::Time, why)
}

fn levels(case: &MeshCase) -> Table {
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

/// Why it is not known how slow a host is.
fn no_factor(host: &HostEffect) -> &'static str {
    match host.pairs {
        0 => "nothing was measured",
        _ => "too few pairs to tell: a mesh of four hosts or more does",
    }
}

fn hosts(case: &MeshCase) -> Table {
    let mut table = Table::new(
        "hosts",
        format!("Hosts, {}", case.name),
        &["host", "rack", "times slower", "pairs", "without result", "waited for a CPU"],
    );
    let mut sorted: Vec<&HostEffect> = case.hosts.iter().collect();
    let factor = |host: &HostEffect| host.factor.map_or(f64::INFINITY, |[_, factor, _]| factor);
    sorted.sort_by(|a, b| factor(b).total_cmp(&factor(a)));
    for host in sorted.iter().take(ROWS) {
        let value = host.factor.map(|[low, value, high]| Value { value, low: Some(low), high: Some(high) });
        table.row([
            Cell::text(host.host.as_str()),
            Cell::text(host.rack.as_deref().unwrap_or("")),
            Cell::or_missing(value, Cell::Number, no_factor(host)),
            Cell::count(host.pairs.into()),
            Cell::count(host.failed.into()),
            Cell::text(host.busy.map_or(String::new(), |share| format!("{:.0} % of the time", share * 100.0))),
        ]);
    }
    noted(table, sorted.len(), "hosts, the slowest first")
}

/// Says what a table leaves out.
fn noted(table: Table, of: usize, what: &str) -> Table {
    if of <= ROWS { table } else { table.note(format!("{ROWS} of {of} {what}; msgpath export has all of them.")) }
}

fn pairs(header: &MeshHeader, summary: &MeshSummary, case: &MeshCase) -> Table {
    let columns = ["near", "far", "p50", "p99", "lost", "than its hosts explain", "step"];
    let mut table = Table::new("pairs", format!("Slowest pairs, {}", case.name), &columns);
    let own = |pair: &&PairValues| {
        pair.case == case.case && pair.slot.purpose == PairPurpose::Mesh && pair.residual.is_some()
    };
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
    for missing in summary.missing.iter().take(ROWS) {
        let why = missing.problem.in_a_line();
        let (near, far) = (header.host(missing.slot.near), header.host(missing.slot.far));
        table.row([Cell::text(near), Cell::text(far), Cell::count(missing.tries.into()), Cell::text(why.trim())]);
    }
    noted(table, summary.missing.len(), "pairs without a result")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_of_too_few_pairs_is_not_one_of_which_nothing_was_measured() {
        let host = |pairs| HostEffect { host: "n1".into(), rack: None, factor: None, pairs, failed: 0, busy: None };
        assert!(no_factor(&host(2)).contains("too few pairs"));
        assert_eq!(no_factor(&host(0)), "nothing was measured");
    }
}
