//! What is known of a run while it goes on, for a block on a terminal and for lines. A quick look, not the result.

use std::fmt::Write as _;
use std::time::Instant;

use msgpath_core::Workload;
use msgpath_core::carried::Carried;
use msgpath_core::foreign::shown;
use msgpath_core::schema::{RoundRecord, RunHeader};
use msgpath_core::units::{self, BitUnits, Glyphs};
use msgpath_core::{Case, CaseRole, PathName, Plan};

use super::cases::CasesSoFar;
use crate::strip::Strip;

/// What is known so far, for both styles. A quick look, not the result: medians of round medians.
#[derive(Default)]
pub(super) struct SoFar {
    pub(super) glyphs: Glyphs,
    units: BitUnits,
    header: Option<RunHeader>,
    /// Metric of each round by case and pass: median round trip in ns, or bits per second.
    rounds: Vec<Vec<(u32, f64)>>,
    /// The picture of a single case of `echo`.
    strip: Option<Strip>,
    /// The rows of a load curve, of sizes, of kinds of calls.
    cases: Option<CasesSoFar>,
    /// When its rounds began.
    begun: Option<Instant>,
}

impl SoFar {
    pub(super) fn new(glyphs: Glyphs, units: BitUnits) -> Self {
        Self { glyphs, units, ..Self::default() }
    }

    pub(super) fn start(&mut self, header: &RunHeader) {
        self.header = Some(header.clone());
        self.planned(&header.plan);
    }

    /// Its rounds begin, by this plan.
    pub(super) fn begin(&mut self, plan: &Plan) {
        self.planned(plan);
        self.begun.get_or_insert_with(Instant::now);
    }

    /// The plan as its rounds begin: the warm-up may have dropped cases and made rounds fewer. Later cases join the others.
    fn planned(&mut self, plan: &Plan) {
        let Some(header) = &mut self.header else { return };
        header.plan = plan.clone();
        self.rounds.resize(plan.cases.len(), Vec::new());
        if self.begun.is_none() {
            let measured = plan.cases.iter().filter(|case| case.role == CaseRole::Measured).count();
            self.strip = (plan.workload.is_echoed() && measured == 1).then(Strip::default);
            self.cases = CasesSoFar::new(plan, &header.verb);
        }
    }

    /// The strip, on a terminal of so many columns.
    pub(super) fn picture(&self, columns: usize) -> String {
        let strip = self.strip.as_ref().map(|strip| strip.lines(columns, self.glyphs));
        let cases = || self.cases.as_ref().map(|cases| cases.lines(columns, self.glyphs, self.units));
        let lines = strip.or_else(cases).unwrap_or_default();
        lines.iter().fold(String::new(), |out, line| out + "\n" + line)
    }

    /// What is measured, and how long that takes: `echo   this machine   run unsaved   takes 10 s`.
    pub(super) fn head(&self) -> String {
        let Some(header) = &self.header else { return String::new() };
        let plan = &header.plan;
        let takes = plan.wait_ns().map_or_else(String::new, |ns| {
            let goes_on = plan.extend && !plan.has_schedules() || plan.refine;
            let longer = if goes_on { ", up to twice that on busy CPUs" } else { "" };
            format!("   takes {}{longer}", duration(ns as f64 / 1e9))
        });
        shown(&format!("{}   {}   run {}{takes}", header.verb, header.target, header.name)).into_owned()
    }

    pub(super) fn add(&mut self, round: &RoundRecord) {
        // Not every run says when its rounds begin.
        self.begun.get_or_insert_with(Instant::now);
        let Some(header) = &self.header else { return };
        let role = header.plan.cases.get(round.case as usize).map(|case| case.role);
        if let Some(strip) = self.strip.as_mut().filter(|_| role == Some(CaseRole::Measured)) {
            strip.add(&round.latency, round.near().elapsed_ns);
        }
        if let Some(cases) = &mut self.cases {
            cases.add(&header.plan, round);
        }
        let metric = if header.plan.workload.timed {
            round.latency.quantile(0.5).flatten().map(|ns| ns as f64)
        } else {
            Carried::of(&header.plan, round).bits_per_s()
        };
        if let (Some(metric), Some(rounds)) = (metric, self.rounds.get_mut(round.case as usize)) {
            rounds.push((round.pass, metric));
        }
    }

    /// `p50 19.8 µs` or `5.47 Gbit/s` of one case.
    fn estimate(&self, case: usize) -> String {
        let mut values: Vec<f64> = self.rounds.get(case).into_iter().flatten().map(|(_, metric)| *metric).collect();
        values.sort_by(f64::total_cmp);
        match (values.get(values.len() / 2), self.header.as_ref().map(|header| header.plan.workload.timed)) {
            (Some(ns), Some(true)) => format!("p50 {}", self.glyphs.time(*ns)),
            (Some(bits), Some(false)) => units::bits_per_second(*bits, self.units),
            _ => String::new(),
        }
    }

    /// `pass 20/40   round 1 843/3 840   tcp:zerocopy  64 KiB  ×4   p50 19.8 µs`.
    pub(super) fn line(&self, round: &RoundRecord, done: u64, of: u64) -> String {
        let Some(header) = &self.header else { return String::new() };
        let mut out = format!("pass {}/{}   round {}/{}", round.pass + 1, header.plan.rounds, done, of);
        if let Some(case) = header.plan.cases.get(round.case as usize) {
            let _ = write!(out, "   {}   {}", self.describe(case), self.estimate(round.case as usize));
        }
        out
    }

    pub(super) fn describe(&self, case: &Case) -> String {
        let times = if self.glyphs == Glyphs::Ascii { "x" } else { "×" };
        let threads = if case.threads > 1 { format!("  {times}{}", case.threads) } else { String::new() };
        let message = if case.pieces.count > 1 { case.pieces.to_string() } else { units::size(case.size) };
        format!("{}  {message}{threads}", case.path)
    }

    pub(super) fn time_left(&self, done: u64, of: u64) -> String {
        match self.begun {
            Some(begun) if done > 0 => {
                let seconds = begun.elapsed().as_secs_f64() * of.saturating_sub(done) as f64 / done as f64;
                format!("{} left", duration(seconds))
            }
            _ => String::new(),
        }
    }

    /// The table of a comparison so far: each path against the baseline by size, for the first thread count.
    pub(super) fn table(&self) -> String {
        let Some(header) = self.header.as_ref().filter(|header| header.verb == "compare") else { return String::new() };
        let plan = &header.plan;
        let Some(threads) = plan.cases.first().map(|case| case.threads) else { return String::new() };
        let cases: Vec<&Case> =
            plan.cases.iter().filter(|case| case.role == CaseRole::Measured && case.threads == threads).collect();
        let mut shapes = Vec::new();
        let mut paths: Vec<&PathName> = Vec::new();
        for case in &cases {
            if !shapes.contains(&case.pieces) && shapes.len() < 10 {
                shapes.push(case.pieces);
            }
            if !paths.contains(&&case.path) && case.path != plan.baseline && paths.len() < 12 {
                paths.push(&case.path);
            }
        }
        if paths.is_empty() {
            return String::new();
        }
        let find = |path: &PathName, pieces| cases.iter().find(|case| case.path == *path && case.pieces == pieces);
        let heads: String = shapes
            .iter()
            .map(|pieces| {
                format!("{:>7}", if pieces.count > 1 { pieces.to_string() } else { units::size_short(pieces.total()) })
            })
            .collect();
        let title = format!("so far against {}", plan.baseline);
        let mut out = format!("\n {title:<30}{heads}\n");
        for path in paths {
            let _ = write!(out, "   {:<28}", path.to_string());
            for pieces in &shapes {
                let mark = match (find(path, *pieces), find(&plan.baseline, *pieces)) {
                    (Some(case), Some(baseline)) => self.mark(case.id, baseline.id, plan.workload),
                    _ => "",
                };
                let _ = write!(out, "{mark:>7}");
            }
            out.push('\n');
        }
        let marks = Mark::ALL.map(|mark| format!("{} {}", mark.sign(self.glyphs), mark.meaning()));
        let _ = write!(out, "   {}", marks.join("  "));
        out
    }

    fn mark(&self, case: u32, baseline: u32, workload: &Workload) -> &'static str {
        let (case, baseline) = (&self.rounds[case as usize], &self.rounds[baseline as usize]);
        let (mut above, mut below) = (0_u32, 0_u32);
        for (pass, metric) in case {
            // Rounds come pass by pass.
            let at = baseline.binary_search_by_key(pass, |(pass, _)| *pass);
            if let Some((_, other)) = at.ok().and_then(|at| baseline.get(at)) {
                above += u32::from(metric > other);
                below += u32::from(metric < other);
            }
        }
        if above + below == 0 {
            return "";
        }
        let larger_is_better = workload.metric.larger_is_better();
        let (slower, faster) = if larger_is_better { (below, above) } else { (above, below) };
        sign_test(slower, faster).sign(self.glyphs)
    }
}

/// What a cell of the table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Faster,
    Slower,
    Open,
}

impl Mark {
    const ALL: [Mark; 3] = [Mark::Faster, Mark::Slower, Mark::Open];

    fn sign(self, glyphs: Glyphs) -> &'static str {
        match (self, glyphs) {
            (Mark::Faster, Glyphs::Unicode) => "▼",
            (Mark::Slower, Glyphs::Unicode) => "▲",
            (Mark::Open, Glyphs::Unicode) => "≈",
            (Mark::Faster, Glyphs::Ascii) => "v",
            (Mark::Slower, Glyphs::Ascii) => "^",
            (Mark::Open, Glyphs::Ascii) => "~",
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Mark::Faster => "faster",
            Mark::Slower => "slower",
            Mark::Open => "no difference shown yet (95 %)",
        }
    }
}

/// The exact two-sided sign test at 5 % over the passes that differ.
fn sign_test(slower: u32, faster: u32) -> Mark {
    let (n, k) = (slower + faster, slower.max(faster));
    // P(at least k of n) under a fair coin, summed from the far end in logarithms of the coefficients.
    let (mut log_coefficient, mut tail) = (0.0_f64, 0.0);
    for i in 0..=n - k {
        if i > 0 {
            log_coefficient += (f64::from(n - i + 1) / f64::from(i)).ln();
        }
        tail += (log_coefficient - f64::from(n) * std::f64::consts::LN_2).exp();
    }
    match 2.0 * tail <= 0.05 {
        false => Mark::Open,
        true if slower > faster => Mark::Slower,
        true => Mark::Faster,
    }
}

fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    if whole >= 60 { format!("{} min {:02} s", whole / 60, whole % 60) } else { format!("{whole} s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::tests::typed;
    use msgpath_core::Histogram;

    #[test]
    fn the_sign_test_is_exact() {
        // 2 / 2^5 = 0.0625, 2 / 2^6 = 0.03125; of 20, 15 is 0.0414 and 14 is 0.115.
        assert_eq!(sign_test(5, 0), Mark::Open);
        assert_eq!(sign_test(6, 0), Mark::Slower);
        assert_eq!(sign_test(0, 6), Mark::Faster);
        assert_eq!(sign_test(15, 5), Mark::Slower);
        assert_eq!(sign_test(6, 14), Mark::Open);
        assert_eq!(sign_test(2000, 2000), Mark::Open);
    }

    /// A comparison of two paths at 64 B after `passes` passes; the second path takes `other` ns, the first 8 µs.
    fn compared(passes: u32, other: u64) -> SoFar {
        let plan = typed("compare -x tcp:send,tcp:writev -l 64").unwrap().plan;
        let header = RunHeader::new("calm-heron", "compare", plan);
        let mut so_far = SoFar::default();
        so_far.start(&header);
        for pass in 0..passes {
            for (case, ns) in [(0, 8_000), (1, other)] {
                let mut histogram = Histogram::new();
                histogram.record_n(ns, 100);
                so_far.add(&RoundRecord { case, pass, latency: histogram.to_sparse(), ..RoundRecord::default() });
            }
        }
        so_far
    }

    #[test]
    fn the_table_so_far_marks_what_is_shown() {
        for (passes, other, mark) in [(3, 9_000, '≈'), (6, 9_000, '▲'), (6, 7_000, '▼')] {
            let table = compared(passes, other).table();
            let row = table.lines().find(|line| line.contains("tcp:writev")).unwrap();
            assert!(row.ends_with(mark), "{passes} passes, {other} ns:\n{table}");
            assert!(table.contains("so far against tcp:send") && table.lines().all(|line| line.chars().count() <= 100));
        }
        assert!(!compared(0, 1).table().contains("tcp:writev   ≈"), "no round, no mark");
    }

    #[test]
    fn how_long_it_takes_is_said_before_it_starts() {
        let head = |line: &str| {
            let mut so_far = SoFar::default();
            so_far.start(&RunHeader::new("test", "echo", typed(line).unwrap().plan));
            so_far.head()
        };
        assert!(head("echo -t 4s").ends_with("   run test   takes 4 s"));
        assert!(head("echo -x tcp:send,unix:send -t 90s").ends_with("takes 3 min 00 s"));
        assert!(head("echo").ends_with("takes 10 s, up to twice that on busy CPUs"));
        assert!(head("echo -c 100").ends_with("   run test"), "a number of messages takes what it takes");
    }

    #[test]
    fn the_line_says_where_the_run_is() {
        let so_far = compared(6, 9_000);
        let line = so_far.line(&RoundRecord { case: 1, pass: 5, ..RoundRecord::default() }, 12, 120);
        assert_eq!(line, "pass 6/40   round 12/120   tcp:writev  64 B   p50 9.00 µs");
    }

    #[test]
    fn what_the_warm_up_changed_is_shown_as_it_is() {
        let plan = typed("compare -x tcp:send,tcp:writev,unix:send -l 64").unwrap().plan;
        let mut so_far = SoFar::default();
        so_far.start(&RunHeader::new("test", "compare", plan.clone()));
        // The first path was dropped, and rounds became longer.
        let mut later = Plan { rounds: 12, ..plan };
        later.cases.retain(|case| case.path.method != "send" || case.path.transport != "tcp");
        later.cases.iter_mut().zip(0..).for_each(|(case, id)| case.id = id);
        so_far.planned(&later);
        let line = so_far.line(&RoundRecord { case: 0, pass: 2, ..RoundRecord::default() }, 5, 24);
        assert_eq!(line.trim_end(), "pass 3/12   round 5/24   tcp:writev  64 B");
    }

    #[test]
    fn a_single_case_has_a_picture() {
        assert_eq!(compared(6, 9_000).picture(100), "", "a comparison has a table");
        let plan = typed("echo -l 64").unwrap().plan;
        let mut so_far = SoFar::default();
        so_far.start(&RunHeader::new("calm-heron", "echo", plan));
        assert_eq!(so_far.picture(100), "");
        let mut histogram = Histogram::new();
        histogram.record_n(8_000, 100);
        so_far.add(&RoundRecord { latency: histogram.to_sparse(), ..RoundRecord::default() });
        assert_eq!(so_far.picture(80).lines().count(), 6);
    }

    #[test]
    fn durations() {
        assert_eq!(duration(4.4), "4 s");
        assert_eq!(duration(250.0), "4 min 10 s");
        assert_eq!(duration(59.7), "1 min 00 s");
    }
}
