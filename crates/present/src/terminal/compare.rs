//! `compare`: which path, from which size.

use msgpath_analyse::Summary;
use msgpath_analyse::summary::{CaseSummary, Comparison, Cost, Ratio};
use msgpath_core::PathName;
use msgpath_core::plan::Load;
use msgpath_core::schema::{FAR, NEAR};
use msgpath_core::units::{BitUnits, Glyphs, bits_per_second};
use msgpath_record::Run;
use msgpath_stats::verdict::{Verdict, may_be_the_same};

use super::page::{Page, Paint, Span, Style};
use super::table::{Align, Table};
use crate::view::{self, Grid, Shape};
use crate::words;
use msgpath_core::workload::Duration;

/// The result of `compare`: the sentences that answer, medians (or throughputs) against the baseline, and what
/// limits them; with `-v` the tails, crossovers, costs and every finding as well.
pub fn compare(run: &Run, summary: &Summary, style: Style) -> String {
    let mut page = Page::new(style);
    let grid = Grid::new(summary);
    let cases = view::measured(summary);
    let losses = cases.iter().fold(msgpath_core::Delivery::default(), |mut all, case| {
        all.add(&case.delivery);
        all
    });
    let work = format!(
        "{} × {} rounds, {}, {}",
        words::counted(cases.len() as u64, "case"),
        run.header.plan.rounds,
        summary.totals.messages.map_or_else(|| "messages n/a".into(), |count| words::counted(count, "message")),
        words::losses(&losses)
    );
    let load = cases.iter().find(|case| case.case.load != Load::Closed).map(|case| words::load(&case.case));
    let second = [view::placement(run), words::payloads(&losses), load.unwrap_or_default()];
    page.head_with(run, summary, &[summary.target.clone(), work], &second);
    page.expectation(summary);
    let failed = summary.comparison.as_ref().is_some_and(|comparison| comparison.control_failed);
    if failed {
        page.gap();
        let text = "The baseline differed from its own hidden repetition, so the comparison below is void.";
        page.text(0, text, Paint::Yellow);
        // A limit is for each case alone: that the comparison is void takes nothing from it.
        page.gates(&summary.gates);
    } else {
        page.answer(summary);
    }
    match &summary.comparison {
        Some(comparison) => {
            let main = Block::main(comparison);
            for threads in &grid.threads {
                main.print(&mut page, &grid, &grid.shapes, &metric_name(&comparison.metric, grid.timed()), *threads);
            }
            page.text(2, &words::legend(&comparison.metric, comparison.margin), Paint::Dim);
            lost_baseline(&mut page, &cases, &comparison.baseline, run.header.plan.workload.messages);
            if grid.has_unbeaten(comparison) {
                page.text(2, "★ no path beats it at this size; several: they tie", Paint::Dim);
            }
            if let Some(resolution) = comparison.resolution {
                let resolution = words::percent(resolution);
                let text = format!("This machine resolves {resolution} today (A/A, 95 % of pairs).");
                page.text(2, &text, Paint::Dim);
            }
            ranges(&mut page, &cases, &comparison.baseline, &comparison.metric);
        }
        None => {
            page.gap();
            page.text(0, "There is no second path to compare with.", Paint::Yellow);
        }
    }
    page.threads(&cases);
    page.programs(run, summary);
    page.limits(run, summary, &cases);
    if style.verbose {
        if let Some(comparison) = &summary.comparison {
            behind(&mut page, summary, &grid, comparison);
        }
        page.ablations(run, summary);
        costs(&mut page, &grid);
    }
    page.in_full(run, summary, &cases);
    page.more(run, summary, &[], &["p99", "crossovers", "cost"]);
    page.finish()
}

/// The tails, from which size a path pays, the sizes that were added near a crossing, and what the verdicts rest on.
fn behind(page: &mut Page, summary: &Summary, grid: &Grid, comparison: &Comparison) {
    let main = Block::main(comparison);
    let tails = Block { metric: "p99", ratios: &comparison.tails, stars: None, ..main };
    for threads in &grid.threads {
        let shapes = tails.shapes(grid, *threads);
        if !shapes.is_empty() {
            let what = format!("p99 against {}", comparison.baseline);
            tails.print(page, grid, &shapes, &what, *threads);
            page.text(2, "Only sizes at which both p99 have an interval.", Paint::Dim);
        }
    }
    crossovers(page, grid, comparison);
    for threads in &grid.threads {
        let near = Grid::near_crossing(summary, *threads);
        if !near.shapes.is_empty() {
            let what = format!("near the crossing, {}", metric_name(&comparison.metric, grid.timed()));
            main.print(page, &near, &near.shapes, &what, *threads);
        }
    }
    page.gap();
    page.text(0, &resolution(comparison), Paint::Dim);
}

/// What differences this machine can show today.
pub(crate) fn resolution(comparison: &Comparison) -> String {
    let margin = words::bound(comparison.margin);
    match comparison.resolution {
        Some(resolution) if !may_be_the_same(comparison.margin) => format!(
            "The baseline against itself differed by up to {} (A/A, 95 % of pairs): smaller differences cannot be seen in this \
             run, and nothing is called the same.",
            words::percent(resolution)
        ),
        Some(resolution) => format!(
            "The baseline against itself differed by up to {} (A/A, 95 % of pairs); verdicts use a margin of {margin}.",
            words::percent(resolution)
        ),
        None => format!("No A/A control was measured: the margin of {margin} is assumed, not checked here."),
    }
}

/// The metric of one case as it is printed in the baseline's row.
pub(crate) fn absolute(case: &CaseSummary, metric: &str, glyphs: Glyphs) -> String {
    let value = match metric {
        _ if words::overloaded(case).is_some() => Some("overload".into()),
        "p50" => words::quantile(case, 0.5).map(|quantile| words::quantile_value(quantile, glyphs)),
        "p99" => words::quantile(case, 0.99).map(|quantile| words::quantile_value(quantile, glyphs)),
        "mean" => case.latency.mean_ns.map(|ns| glyphs.time(ns)),
        "cpu" => case.cpu_ns().map(|ns| glyphs.time(ns)),
        _ => case
            .throughput
            .as_ref()
            .map(|throughput| bits_per_second(throughput.receiver_bits.value, BitUnits::Si).replace("bit/s", "")),
    };
    value.unwrap_or_else(|| "n/a".into())
}

/// The heading over the metric.
pub(crate) fn metric_name(metric: &str, timed: Duration) -> String {
    match metric {
        "p50" => format!("median {}", timed.name),
        "p99" => format!("p99 of the {}", timed.name),
        "mean" => format!("mean {}", timed.name),
        "cpu" => "CPU time of both ends per message".into(),
        _ => "throughput in bit/s".into(),
    }
}

/// Whether nothing of a case arrived.
fn is_lost(case: &CaseSummary) -> bool {
    case.delivery.sent > 0 && case.delivery.received == 0
}

/// Why the row of a baseline of which nothing arrived has no value, and the others no ratio.
fn lost_baseline(page: &mut Page, cases: &[&CaseSummary], baseline: &PathName, noun: &str) {
    let lost: Vec<&CaseSummary> =
        cases.iter().copied().filter(|case| case.case.path == *baseline && is_lost(case)).collect();
    if lost.is_empty() {
        return;
    }
    let sent: u64 = lost.iter().map(|case| case.delivery.sent).sum();
    let sizes: Vec<String> = lost.iter().map(|case| words::message(&case.case)).collect();
    let text = format!(
        "n/a: the baseline {baseline} lost all of its {sent} {noun} at {}, so nothing can be compared with it there; the other \
         paths have their own values. --baseline names another.",
        sizes.join(", ")
    );
    page.text(2, &text, Paint::Yellow);
}

/// The ranges of values of the baseline that are wider than an interval.
fn ranges(page: &mut Page, cases: &[&CaseSummary], baseline: &PathName, metric: &str) {
    let p = match metric {
        "p50" => 0.5,
        "p99" => 0.99,
        _ => return,
    };
    let glyphs = page.style.glyphs;
    let own = cases.iter().filter(|case| case.case.path == *baseline && words::overloaded(case).is_none());
    let range = |case: &&CaseSummary| {
        let quantile = words::quantile(case, p).filter(|quantile| !quantile.is_interval())?;
        let range = words::quantile_range(quantile, glyphs);
        (!range.is_empty()).then(|| format!("{} {range}", words::message(&case.case)))
    };
    let ranges: Vec<String> = own.filter_map(range).collect();
    if !ranges.is_empty() {
        page.text(2, &format!("Range of {}: {}.", words::quantile_name(p), ranges.join("; ")), Paint::Dim);
    }
}

fn threads_name(threads: u32) -> String {
    words::counted(u64::from(threads), "thread")
}

/// One metric against the baseline: what the tables of a comparison differ in.
#[derive(Clone, Copy)]
struct Block<'a> {
    metric: &'a str,
    ratios: &'a [Ratio],
    baseline: &'a PathName,
    /// Whose unbeaten paths have a star.
    stars: Option<&'a Comparison>,
}

impl<'a> Block<'a> {
    fn main(comparison: &'a Comparison) -> Self {
        let Comparison { metric, ratios, baseline, .. } = comparison;
        Self { metric, ratios, baseline, stars: Some(comparison) }
    }

    /// The columns that hold a ratio.
    fn shapes(&self, grid: &Grid, threads: u32) -> Vec<Shape> {
        let holds = |shape: &Shape| {
            let mut cases = grid.paths.iter().filter_map(|path| grid.case(path, *shape, threads));
            cases.any(|case| view::ratio_in(self.ratios, case).is_some())
        };
        grid.shapes.iter().copied().filter(holds).collect()
    }

    /// One row per path, one column per size, in as many tables as the width needs.
    fn print(&self, page: &mut Page, grid: &Grid, shapes: &[Shape], what: &str, threads: u32) {
        let glyphs = page.style.glyphs;
        let mut table = Table::new().column("", Align::Left);
        for shape in shapes {
            table = table.column(grid.head(*shape, false), Align::Right);
        }
        for path in &grid.paths {
            let cells = shapes.iter().map(|shape| {
                let base = grid.case(self.baseline, *shape, threads);
                let mut cell = self.cell(grid.case(path, *shape, threads), path, base, glyphs);
                if self.stars.is_some_and(|comparison| grid.is_unbeaten(comparison, path, *shape, threads)) {
                    cell.text.insert(0, '★');
                }
                cell
            });
            table.row(std::iter::once(Span::from(path.to_string())).chain(cells));
        }
        page.heading(&format!("{what}, {}", threads_name(threads)));
        for (at, part) in table.split(page.style, page.style.columns() - 2).into_iter().enumerate() {
            if at > 0 {
                page.gap();
            }
            page.table(part);
        }
    }

    /// `base`: the baseline's case of the same shape. Where nothing of it arrived, other paths have their own values.
    fn cell(&self, case: Option<&CaseSummary>, path: &PathName, base: Option<&CaseSummary>, glyphs: Glyphs) -> Span {
        let Some(case) = case else { return "n/a".into() };
        if base.is_some_and(is_lost) && !is_lost(case) {
            return absolute(case, self.metric, glyphs).into();
        }
        if *path == *self.baseline || words::overloaded(case).is_some() {
            return absolute(case, self.metric, glyphs).into();
        }
        let Some(ratio) = view::ratio_in(self.ratios, case) else { return "n/a".into() };
        let paint = match ratio.verdict {
            Verdict::Better => Paint::Green,
            Verdict::Worse => Paint::Red,
            Verdict::Equivalent => Paint::Plain,
            Verdict::Undecided => Paint::Yellow,
        };
        paint.span(format!("{} {}", words::change(ratio.ratio), words::mark(ratio)))
    }
}

fn crossovers(page: &mut Page, grid: &Grid, comparison: &Comparison) {
    if comparison.crossovers.is_empty() || grid.in_pieces() || grid.shapes.len() < 2 {
        return;
    }
    page.heading(&format!("against {}, from which size", comparison.baseline));
    let mut table = Table::new().column("", Align::Left).column("", Align::Left).column("", Align::Left).wrap_last();
    for crossover in &comparison.crossovers {
        let crossing = words::crossover(&crossover.crossing, grid.sizes());
        let details = crossing.details();
        let threads = threads_name(crossover.threads);
        let text = if details.is_empty() { crossing.text } else { format!("{}   {details}", crossing.text) };
        table.row([crossover.path.to_string().into(), threads.into(), text.into()]);
    }
    page.table(table);
}

/// The cost of one message at one size: the one in the middle, with the fewest threads.
fn costs(page: &mut Page, grid: &Grid) {
    let glyphs = page.style.glyphs;
    let (Some(shape), Some(threads)) = (grid.shapes.get(grid.shapes.len() / 2), grid.threads.first()) else { return };
    page.heading(&format!("cost per {} message, {}", grid.head(*shape, false), threads_name(*threads)));
    let mut table = Table::new()
        .column("", Align::Left)
        .column("cpu near", Align::Right)
        .column("cpu far", Align::Right)
        .column("calls near", Align::Right)
        .column("calls far", Align::Right)
        .optional("switches near", Align::Right, 2)
        .optional("switches far", Align::Right, 1)
        .optional("copied", Align::Right, 3);
    let mut whys = Vec::new();
    let time = |cost: &Cost| cost.cpu_ns().map_or_else(|| "n/a".into(), |ns| glyphs.time(ns)).into();
    let count = |cost: &Cost, count| if cost.is_whole() { words::per_message(count) } else { "n/a".into() }.into();
    let calls = |cost: &Cost| cost.system_calls().map_or_else(|| "n/a".into(), words::per_message).into();
    for case in grid.paths.iter().filter_map(|path| grid.case(path, *shape, *threads)) {
        let (near, far) = (&case.end(NEAR).cost, &case.end(FAR).cost);
        let copied = case.copied.bytes.map_or_else(|| "n/a".into(), words::about_size);
        if !case.copied.why.is_empty() {
            view::push_new(&mut whys, case.copied.why.clone());
        }
        table.row([
            case.case.path.to_string().into(),
            time(near),
            time(far),
            calls(near),
            calls(far),
            count(near, near.voluntary),
            count(far, far.voluntary),
            copied.into(),
        ]);
    }
    page.table(table);
    for why in words::why_unread(grid.paths.iter().filter_map(|path| grid.case(path, *shape, *threads))) {
        page.hanging(&["  ".into()], 4, &format!("n/a: {why}"), Paint::Dim);
    }
    for why in whys {
        page.hanging(&["  ".into()], 4, &format!("copied: {why}"), Paint::Dim);
    }
    let cases: Vec<_> = grid.paths.iter().filter_map(|path| grid.case(path, *shape, *threads)).collect();
    let labels: Vec<String> = cases.iter().map(|case| case.case.path.to_string()).collect();
    page.events(&labels.iter().map(String::as_str).zip(cases).collect::<Vec<_>>());
}
