//! Several cases while they are measured, a row each with a bar that grows: a load curve, sizes, kinds of calls.

use msgpath_core::Workload;
use msgpath_core::carried::Carried;
use msgpath_core::plan::Load;
use msgpath_core::schema::RoundRecord;
use msgpath_core::units::{self, BitUnits, Glyphs};
use msgpath_core::{CaseRole, Histogram, Plan};

/// Rows at most; a comparison of more cases has its table.
const MOST: usize = 16;
/// Characters of a name and of a number.
const NAME: usize = 26;
const NUMBER: usize = 10;
/// Fewer slower messages than this, and a quantile is not shown even as a first look.
const FEWEST_BEYOND: f64 = 10.0;

struct Row {
    case: u32,
    name: String,
    latency: Histogram,
    /// Bits taken in, and in what time by the receiver's clock, ns; streams.
    bits: f64,
    elapsed_ns: f64,
}

/// The cases of a run that are shown in rows.
pub(super) struct CasesSoFar {
    workload: &'static Workload,
    rows: Vec<Row>,
}

impl CasesSoFar {
    /// `None`: the run has one case, too many, or a table of its own.
    pub(super) fn new(plan: &Plan, verb: &str) -> Option<Self> {
        let measured = || plan.cases.iter().filter(|case| case.role == CaseRole::Measured);
        let count = measured().count();
        if verb == "compare" || !(2..=MOST).contains(&count) {
            return None;
        }
        // What differs from case to case names them.
        let differs = |of: &dyn Fn(&msgpath_core::Case) -> String| {
            let mut all = measured().map(of);
            let first = all.next();
            all.any(|other| Some(other) != first)
        };
        let path = |case: &msgpath_core::Case| case.path.to_string();
        let size = |case: &msgpath_core::Case| units::size(case.size);
        let threads = |case: &msgpath_core::Case| case.threads.to_string();
        let load = |case: &msgpath_core::Case| match case.load {
            Load::Open { rate, .. } => rate.to_string(),
            Load::Closed => String::new(),
        };
        let parts: Vec<&dyn Fn(&msgpath_core::Case) -> String> =
            [&path as &dyn Fn(&msgpath_core::Case) -> String, &size, &load]
                .into_iter()
                .filter(|of| differs(*of))
                .collect();
        let name = |case: &msgpath_core::Case| {
            if let Some(label) = &case.label {
                return label.clone();
            }
            let mut name: Vec<String> = parts.iter().map(|of| of(case)).collect();
            if differs(&threads) {
                name.push(format!("x{}", threads(case)));
            }
            if name.is_empty() { path(case) } else { name.join("  ") }
        };
        let row = |case: &msgpath_core::Case| Row {
            case: case.id,
            name: name(case).chars().take(NAME).collect(),
            latency: Histogram::new(),
            bits: 0.0,
            elapsed_ns: 0.0,
        };
        Some(Self { workload: plan.workload, rows: measured().map(row).collect() })
    }

    pub(super) fn add(&mut self, plan: &Plan, round: &RoundRecord) {
        let Some(row) = self.rows.iter_mut().find(|row| row.case == round.case) else { return };
        row.latency.merge_sparse(&round.latency);
        let carried = Carried::of(plan, round);
        row.bits += carried.bytes as f64 * 8.0;
        row.elapsed_ns += carried.ns as f64;
    }

    /// A head and a row for each case, at most `width` characters wide. A bar goes to the median, its pale part to p99, on
    /// a log scale from half of the fastest median.
    pub(super) fn lines(&self, width: usize, glyphs: Glyphs, units: BitUnits) -> Vec<String> {
        let stream = !self.workload.timed;
        let columns = if stream { 1 } else { 2 };
        let room = width.min(100).saturating_sub(2 + NAME + columns * (NUMBER + 2) + 2);
        let name = |text: &str| format!("  {text:<NAME$}");
        let head = if stream { "throughput so far" } else { "p50 so far" };
        let mut lines = vec![match stream {
            true => format!("{}{head:>width$}", name(""), width = NUMBER + 10),
            false => format!("{}{head:>NUMBER$}  {:>NUMBER$}", name(""), "p99"),
        }];
        let rate = |row: &Row| if row.elapsed_ns > 0.0 { row.bits * 1e9 / row.elapsed_ns } else { 0.0 };
        let quantile = |row: &Row, p: f64| {
            let enough = row.latency.total() as f64 * (1.0 - p) >= FEWEST_BEYOND;
            row.latency.quantile(p).filter(|_| enough)
        };
        let time = |row: &Row, p: f64| quantile(row, p).flatten().map(|ns| ns.max(1) as f64);
        let most_rate = self.rows.iter().map(rate).fold(0.0, f64::max);
        let all = || self.rows.iter().flat_map(|row| [time(row, 0.5), time(row, 0.99)]).flatten();
        let (least, most) = all().fold((f64::MAX, 0.0_f64), |(least, most), ns| (least.min(ns), most.max(ns)));
        let (full, pale) = if glyphs == Glyphs::Ascii { ('#', '.') } else { ('█', '░') };
        for row in &self.rows {
            let line = if stream {
                let bits = rate(row);
                let long = if most_rate > 0.0 { (room as f64 * bits / most_rate) as usize } else { 0 };
                let text = if bits > 0.0 { units::bits_per_second(bits, units) } else { String::new() };
                format!("{}{text:>width$}  {}", name(&row.name), full.to_string().repeat(long), width = NUMBER + 10)
            } else {
                let long = |ns: Option<f64>| match ns {
                    Some(ns) if most > least => {
                        (room as f64 * (2.0 * ns / least).ln() / (2.0 * most / least).ln()) as usize
                    }
                    Some(_) => room / 2,
                    None => 0,
                };
                let text = |p: f64| match quantile(row, p) {
                    Some(Some(ns)) => glyphs.time(ns as f64),
                    Some(None) => "lost".into(),
                    None => String::new(),
                };
                let (p50, p99) = (long(time(row, 0.5)), long(time(row, 0.99)));
                let bar = full.to_string().repeat(p50) + &pale.to_string().repeat(p99.saturating_sub(p50));
                format!("{}{:>NUMBER$}  {:>NUMBER$}  {bar}", name(&row.name), text(0.5), text(0.99))
            };
            lines.push(line.trim_end().to_owned());
        }
        // Too narrow for bars: the numbers alone.
        lines.into_iter().map(|line| line.chars().take(width).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::tests::typed;

    #[test]
    fn a_load_curve_grows_rate_by_rate() {
        let plan = typed("echo --rate 1k,4k,16k").unwrap().plan;
        let mut so_far = CasesSoFar::new(&plan, "echo").expect("three rates");
        for (case, ns) in [(0, 10_000), (1, 40_000)] {
            let mut latency = Histogram::new();
            latency.record_n(ns, 2_000);
            so_far.add(&plan, &RoundRecord { case, latency: latency.to_sparse(), ..RoundRecord::default() });
        }
        let lines = so_far.lines(80, Glyphs::Ascii, BitUnits::Si);
        assert_eq!(lines.len(), 4);
        assert!(lines[1].starts_with("  1k/s") && lines[1].contains("10.0 us"), "{lines:#?}");
        let bar = |line: &String| line.matches('#').count();
        assert!(0 < bar(&lines[1]) && bar(&lines[1]) < bar(&lines[2]) && bar(&lines[3]) == 0, "{lines:#?}");
        for width in [40, 60, 80, 200] {
            assert!(
                so_far
                    .lines(width, Glyphs::Unicode, BitUnits::Si)
                    .iter()
                    .all(|line| line.chars().count() <= width.min(100))
            );
        }
    }

    #[test]
    fn streams_have_their_throughput() {
        let plan = typed("stream -x tcp:send,tcp:writev").unwrap().plan;
        let so_far = CasesSoFar::new(&plan, "stream").expect("two paths");
        assert!(so_far.lines(80, Glyphs::Unicode, BitUnits::Si)[1].contains("tcp:send"));
        assert!(CasesSoFar::new(&typed("echo").unwrap().plan, "echo").is_none(), "one case has a strip");
    }
}
