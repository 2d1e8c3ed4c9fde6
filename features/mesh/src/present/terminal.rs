//! `msgpath mesh`: the answer of a mesh in 25 lines, and what a mesh would do before it is begun.

use msgpath_analyse::summary::{Confidence, Finding};
use msgpath_core::units::{size, three_digits};
use msgpath_present::about_size;
use msgpath_present::terminal::{Align, Page, Paint, Span, Style, Table, wrap};

use crate::analyse::{HostEffect, MeshPower, MeshSummary, PairValues};
use crate::hosts::fold;
use crate::schema::{MeshHeader, PairPurpose};

/// Where the text of a finding starts.
const TEXT: usize = 12;
/// Lines of the sentences.
const SENTENCES: usize = 7;
/// The slowest hosts and pairs that are shown.
const ROWS: usize = 3;
/// The same with `-v`.
const MORE_ROWS: usize = 20;

/// What a mesh would do.
#[derive(Clone, Debug)]
pub(crate) struct Preview {
    /// Steps of all pairs.
    pub(crate) steps: usize,
    /// Steps of pairs that are measured alone as well.
    pub(crate) alone: usize,
    /// The fewest steps that any schedule has.
    pub(crate) fewest: u32,
    /// Pairs of the widest step.
    pub(crate) widest: usize,
    /// How long it takes, ns.
    pub(crate) time_ns: u64,
    /// How long it would take one pair after the other, ns.
    pub(crate) one_by_one_ns: u64,
    /// Bytes between the coordinator and the agents.
    pub(crate) control: u64,
    /// Bytes of the record.
    pub(crate) record: u64,
    /// Memory of the coordinator.
    pub(crate) memory: u64,
    /// What is found at several levels of noise.
    pub(crate) power: Vec<MeshPower>,
    /// The first steps, as pairs of names.
    pub(crate) first: Vec<Vec<(String, String)>>,
}

/// An amount that nobody typed: `18.6 MiB`.
fn amount(bytes: u64) -> String {
    about_size(bytes as f64)
}

/// How long, in words.
fn long(ns: u64) -> String {
    let seconds = ns.div_ceil(1_000_000_000);
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min {} s", seconds / 60, seconds % 60),
        7_200..=172_799 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} days {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// The hosts, how they are reached, and what is measured between them.
fn lead(header: &MeshHeader) -> String {
    let cases = header.plan.cases.iter().map(|case| format!("{} {}", case.path, size(case.size)));
    let names = fold(header.hosts.iter().map(|host| host.spec.name.as_str()));
    let names: String = if names.len() > 40 { names.chars().take(39).chain(['…']).collect() } else { names };
    format!("{} hosts ({names}) by {}, {}", header.hosts.len(), header.launch.by, cases.collect::<Vec<_>>().join(", "))
}

/// What a mesh would do: `--dry-run`.
pub(crate) fn preview(header: &MeshHeader, preview: &Preview, style: Style) -> String {
    let mut page = Page::new(style);
    page.text(0, &format!("mesh of {}", lead(header)), Paint::Bold);
    page.gap();
    let mut row =
        |name: &str, text: String| page.hanging(&[format!("{name:<TEXT$}").into()], TEXT, &text, Paint::Plain);
    row("pairs", header.planned.to_string());
    let least = if preview.steps as u32 > preview.fewest {
        format!(", at least {} by what hosts share", preview.fewest)
    } else {
        String::new()
    };
    row(
        "steps",
        format!(
            "{} of up to {} pairs{least}, in random order (seed {})",
            preview.steps, preview.widest, header.plan.seed
        ),
    );
    if preview.alone > 0 {
        row("alone", format!("{} pairs once more, one a step", preview.alone));
    }
    if header.order.retests > 0 {
        row("retests", format!("pairs that are slower than their hosts explain, {} times each", header.order.retests));
    }
    row("time", format!("{} (one pair after the other: {})", long(preview.time_ns), long(preview.one_by_one_ns)));
    row("bytes", format!("{} of orders and reports, {} of record", amount(preview.control), amount(preview.record)));
    row("memory", format!("{} of this process", amount(preview.memory)));
    for power in &preview.power {
        let text = format!(
            "where pairs scatter by {:.0} %, a host that is {} times slower is found with {:.0} % ({} pairs each)",
            power.spread * 100.0,
            three_digits(power.factor),
            power.share * 100.0,
            power.pairs
        );
        row("finds", text);
    }
    for (number, step) in (1..).zip(&preview.first) {
        let pairs = step.iter().map(|(near, far)| format!("{near}→{far}")).collect::<Vec<_>>().join(" ");
        let text: String = match wrap(&pairs, style.columns(), TEXT, TEXT).as_slice() {
            [one] => one.clone(),
            [first, ..] => format!("{} …", first.chars().take(style.columns() - TEXT - 2).collect::<String>()),
            [] => String::new(),
        };
        row(&format!("step {number}"), text);
    }
    page.finish()
}

/// The answer.
pub(crate) fn mesh(header: &MeshHeader, summary: &MeshSummary, style: Style) -> String {
    let mut page = Page::new(style);
    let time = |ns: f64| style.glyphs.time(ns);
    page.text(0, &format!("mesh {}: {}", summary.name, lead(header)), Paint::Bold);
    let extra = match (summary.retests, summary.alone) {
        (0, 0) => String::new(),
        (retests, 0) => format!(", {retests} retests"),
        (0, alone) => format!(", {alone} alone"),
        (retests, alone) => format!(", {retests} retests, {alone} alone"),
    };
    let progress = format!(
        "{} of {} pairs in {} steps{extra}, {}",
        summary.measured,
        summary.planned,
        summary.steps,
        long(summary.took_ns)
    );
    page.text(0, &progress, Paint::Plain);
    if let Some(damage) = &summary.damage {
        page.text(0, &format!("the record is damaged: {damage}"), Paint::Red);
    }
    page.gap();
    findings(&mut page, &summary.findings);
    for sla in &summary.sla {
        let (lead, paint) = if sla.broken > 0 { ("broken", Paint::Red) } else { ("kept", Paint::Green) };
        let text = format!("{} of {} pairs surely have {}", sla.broken, sla.of, sla.gate);
        page.hanging(&[paint.span(format!("{lead:<TEXT$}"))], TEXT, &text, Paint::Plain);
    }
    let several = summary.cases.len() > 1;
    let rows = match (style.verbose, several) {
        (true, _) => MORE_ROWS,
        (_, true) => 1,
        _ => ROWS,
    };
    for case in summary.cases.iter().take(if style.verbose { usize::MAX } else { 2 }) {
        page.gap();
        if several {
            page.text(0, &case.name, Paint::Bold);
        }
        let mut table = Table::new()
            .column("", Align::Left)
            .column("pairs", Align::Right)
            .column("p50", Align::Right)
            .column("p99", Align::Right)
            .column("times slower", Align::Left);
        let cell = |ns: Option<f64>| Span::from(ns.map_or_else(|| "n/a".into(), time));
        for level in &case.levels {
            table.row([
                level.name.as_str().into(),
                level.pairs.to_string().into(),
                cell(level.p50_ns),
                cell(level.p99_ns),
            ]);
        }
        for host in slowest(&case.hosts).into_iter().take(rows) {
            let factor = host.factor.map_or("n/a".into(), |[low, value, high]| {
                format!("{} ({} to {})", three_digits(value), three_digits(low), three_digits(high))
            });
            let name = format!("host {}", host.host);
            table.row([name.into(), host.pairs.to_string().into(), Span::default(), Span::default(), factor.into()]);
        }
        for pair in worst(&summary.pairs, case.case).into_iter().take(rows) {
            let name = format!("{}→{}", header.host(pair.slot.near), header.host(pair.slot.far));
            let than = pair
                .residual
                .map_or(String::new(), |factor| format!("{} than its hosts explain", three_digits(factor)));
            table.row([
                name.into(),
                Span::default(),
                cell(pair.p50.map(|value| value.ns)),
                cell(pair.p99.map(|value| value.ns)),
                than.into(),
            ]);
        }
        page.table(table);
    }
    page.finish()
}

pub(super) fn findings(page: &mut Page, findings: &[Finding]) {
    let columns = page.style.columns();
    let mut left = SENTENCES;
    for (at, finding) in findings.iter().enumerate() {
        let lines = wrap(&finding.text, columns, TEXT, TEXT).len();
        if lines > left && at > 0 && !page.style.verbose {
            page.text(TEXT, &format!("{} more: -v", findings.len() - at), Paint::Dim);
            return;
        }
        left = left.saturating_sub(lines);
        let (word, paint) = match finding.confidence {
            Confidence::Sure => ("sure", Paint::Green),
            Confidence::Likely => ("likely", Paint::Blue),
            Confidence::CantTell => ("can't tell", Paint::Yellow),
        };
        page.hanging(&[paint.span(format!("{word:<TEXT$}"))], TEXT, &finding.text, Paint::Plain);
    }
}

/// The hosts that are slowest first.
fn slowest(hosts: &[HostEffect]) -> Vec<&HostEffect> {
    let mut sorted: Vec<&HostEffect> = hosts.iter().collect();
    let of = |host: &HostEffect| host.factor.map_or(f64::INFINITY, |[_, factor, _]| factor);
    sorted.sort_by(|a, b| of(b).total_cmp(&of(a)));
    sorted
}

/// The pairs that are slowest beyond what their hosts explain.
fn worst(pairs: &[PairValues], case: u32) -> Vec<&PairValues> {
    let own = pairs
        .iter()
        .filter(|pair| pair.case == case && pair.slot.purpose == PairPurpose::Mesh && pair.residual.is_some());
    let mut sorted: Vec<&PairValues> = own.collect();
    sorted.sort_by(|a, b| b.residual.unwrap_or(0.0).total_cmp(&a.residual.unwrap_or(0.0)));
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_has_three_digits() {
        assert_eq!([19_062 << 10, 260, 10 << 30].map(amount), ["18.6 MiB", "260 B", "10.0 GiB"]);
    }
}
