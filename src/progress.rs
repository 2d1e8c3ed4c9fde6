//! What is shown on standard error while a run goes on. It is drawn between rounds only, never inside a measured one.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle as BarStyle};
use msgpath_analyse::round_line::round_line;
use msgpath_core::foreign::shown;
use msgpath_core::schema::{RoundRecord, RunHeader};
use msgpath_core::units::{self, BitUnits, Glyphs};
use msgpath_core::{Case, CaseRole, PathName, Plan, Workload};
use msgpath_present::json;
use msgpath_run::Progress;

use crate::cli::options::{ProgressStyle, ResultOptions};
use crate::looks;
use crate::strip::Strip;

/// The progress that was asked for: a block on a terminal, otherwise nothing, unless `--progress` says more.
pub(crate) fn progress(result: &ResultOptions, glyphs: Glyphs, units: BitUnits) -> Box<dyn Progress> {
    let terminal = std::io::stderr().is_terminal();
    let usual = if terminal && result.quiet < 2 { ProgressStyle::Block } else { ProgressStyle::None };
    let so_far = SoFar { glyphs, units, ..SoFar::default() };
    match result.progress.unwrap_or(usual) {
        ProgressStyle::Block if terminal => Box::new(Block { so_far, bar: ProgressBar::hidden() }),
        ProgressStyle::Line => Box::new(Line { so_far, last: None }),
        ProgressStyle::None | ProgressStyle::Block => Box::new(Silent),
    }
}

/// No progress at all.
pub(crate) fn silent() -> Box<dyn Progress> {
    Box::new(Silent)
}

/// `--jsonl`: every round as a line on standard output, beside what is shown on standard error.
struct Lines {
    shown: Box<dyn Progress>,
    run: String,
    plan: Option<Plan>,
    /// Nobody reads any more.
    gone: bool,
}

/// Adds the lines of `--jsonl` to what is shown.
pub(crate) fn with_lines(shown: Box<dyn Progress>) -> Box<dyn Progress> {
    Box::new(Lines { shown, run: String::new(), plan: None, gone: false })
}

impl Progress for Lines {
    fn started(&mut self, header: &RunHeader) {
        self.run.clone_from(&header.name);
        self.shown.started(header);
    }

    fn planned(&mut self, plan: &Plan) {
        self.plan = Some(plan.clone());
        self.shown.planned(plan);
    }

    fn warming(&mut self, case: &Case, done: usize, of: usize) {
        self.shown.warming(case, done, of);
    }

    fn round(&mut self, round: &RoundRecord, done: u64, of: u64) {
        self.shown.round(round, done, of);
        let line = self.plan.as_ref().and_then(|plan| round_line(&self.run, plan, round, done, of));
        if let (Some(line), false) = (line, self.gone) {
            let mut out = std::io::stdout().lock();
            // A reader that left is no reason to stop measuring.
            self.gone = writeln!(out, "{}", json::round(&line)).and_then(|()| out.flush()).is_err();
        }
    }
}

struct Silent;

impl Progress for Silent {}

/// What is known so far, for both styles. A quick look, not the result: medians of round medians.
#[derive(Default)]
struct SoFar {
    glyphs: Glyphs,
    units: BitUnits,
    header: Option<RunHeader>,
    /// Metric of each round by case and pass: median round trip in ns, or bits per second.
    rounds: Vec<Vec<(u32, f64)>>,
    /// The picture of a single case of `echo`.
    strip: Option<Strip>,
    begun: Option<Instant>,
}

impl SoFar {
    fn start(&mut self, header: &RunHeader) {
        self.rounds = vec![Vec::new(); header.plan.cases.len()];
        let measured = header.plan.cases.iter().filter(|case| case.role == CaseRole::Measured).count();
        self.strip = (header.plan.workload == Workload::Echo && measured == 1).then(Strip::default);
        self.header = Some(header.clone());
    }

    /// The strip, on a terminal of so many columns.
    fn picture(&self, columns: usize) -> String {
        let lines = self.strip.as_ref().map(|strip| strip.lines(columns, self.glyphs)).unwrap_or_default();
        lines.iter().fold(String::new(), |out, line| out + "\n" + line)
    }

    fn head(&self) -> String {
        self.header
            .as_ref()
            .map(|header| shown(&format!("{}   {}   run {}", header.verb, header.target, header.name)).into_owned())
            .unwrap_or_default()
    }

    fn add(&mut self, round: &RoundRecord) {
        let Some(header) = &self.header else { return };
        let role = header.plan.cases.get(round.case as usize).map(|case| case.role);
        if let Some(strip) = self.strip.as_mut().filter(|_| role == Some(CaseRole::Measured)) {
            strip.add(&round.latency, round.near().elapsed_ns);
        }
        let metric = match header.plan.workload {
            Workload::Echo | Workload::Rpc | Workload::Periodic => {
                round.latency.quantile(0.5).flatten().map(|ns| ns as f64)
            }
            Workload::Stream => {
                let receiver = if header.plan.reverse { round.near() } else { round.far() };
                (receiver.elapsed_ns > 0).then(|| receiver.bytes_received as f64 * 8e9 / receiver.elapsed_ns as f64)
            }
        };
        if let (Some(metric), Some(rounds)) = (metric, self.rounds.get_mut(round.case as usize)) {
            rounds.push((round.pass, metric));
        }
    }

    /// `p50 19.8 µs` or `5.47 Gbit/s` of one case.
    fn estimate(&self, case: usize) -> String {
        let mut values: Vec<f64> = self.rounds.get(case).into_iter().flatten().map(|(_, metric)| *metric).collect();
        values.sort_by(f64::total_cmp);
        match (values.get(values.len() / 2), self.header.as_ref().map(|header| header.plan.workload)) {
            (Some(ns), Some(Workload::Echo)) => format!("p50 {}", self.glyphs.time(*ns)),
            (Some(bits), Some(Workload::Stream)) => units::bits_per_second(*bits, self.units),
            _ => String::new(),
        }
    }

    /// `pass 20/40   round 1 843/3 840   tcp:zerocopy  64 KiB  ×4   p50 19.8 µs`.
    fn line(&self, round: &RoundRecord, done: u64, of: u64) -> String {
        let Some(header) = &self.header else { return String::new() };
        let mut out = format!(
            "pass {}/{}   round {}/{}",
            round.pass + 1,
            header.plan.rounds,
            self.glyphs.thousands(done),
            self.glyphs.thousands(of)
        );
        if let Some(case) = header.plan.cases.get(round.case as usize) {
            let _ = write!(out, "   {}   {}", self.describe(case), self.estimate(round.case as usize));
        }
        out
    }

    fn describe(&self, case: &Case) -> String {
        let times = if self.glyphs == Glyphs::Ascii { "x" } else { "×" };
        let threads = if case.threads > 1 { format!("  {times}{}", case.threads) } else { String::new() };
        let message = if case.pieces.count > 1 { case.pieces.to_string() } else { units::size(case.size) };
        format!("{}  {message}{threads}", case.path)
    }

    fn time_left(&self, done: u64, of: u64) -> String {
        match self.begun {
            Some(begun) if done > 0 => {
                let seconds = begun.elapsed().as_secs_f64() * of.saturating_sub(done) as f64 / done as f64;
                format!("{} left", duration(seconds))
            }
            _ => String::new(),
        }
    }

    /// The table of a comparison so far: each path against the baseline by size, for the first thread count.
    fn table(&self) -> String {
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

    fn mark(&self, case: u32, baseline: u32, workload: Workload) -> &'static str {
        let (case, baseline) = (&self.rounds[case as usize], &self.rounds[baseline as usize]);
        let (mut above, mut below) = (0_u32, 0_u32);
        for (pass, metric) in case {
            if let Some((_, other)) = baseline.iter().find(|(other, _)| other == pass) {
                above += u32::from(metric > other);
                below += u32::from(metric < other);
            }
        }
        if above + below == 0 {
            return "";
        }
        let (slower, faster) = if workload == Workload::Echo { (above, below) } else { (below, above) };
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

/// Redrawn in place, at most four times a second.
struct Block {
    so_far: SoFar,
    bar: ProgressBar,
}

impl Progress for Block {
    fn started(&mut self, header: &RunHeader) {
        self.so_far.start(header);
        let bar =
            ProgressBar::with_draw_target(Some(header.plan.total_rounds()), ProgressDrawTarget::stderr_with_hz(4));
        let bars = if self.so_far.glyphs == Glyphs::Ascii { "## " } else { "━━─" };
        if let Ok(style) = BarStyle::with_template("{msg}\n{bar:60} {percent:>3} %  {prefix}") {
            bar.set_style(style.progress_chars(bars));
        }
        self.bar = bar;
    }

    fn warming(&mut self, case: &Case, done: usize, of: usize) {
        self.bar.set_message(format!(
            "{}\n warm-up {}/{of}   {}",
            self.so_far.head(),
            done + 1,
            self.so_far.describe(case)
        ));
    }

    fn round(&mut self, round: &RoundRecord, done: u64, of: u64) {
        self.so_far.begun.get_or_insert_with(Instant::now);
        self.so_far.add(round);
        let picture = self.so_far.picture(looks::stderr_columns());
        self.bar.set_message(format!("{}{picture}\n {}", self.so_far.head(), self.so_far.line(round, done, of)));
        self.bar.set_prefix(self.so_far.time_left(done, of) + &self.so_far.table());
        self.bar.set_length(of); // a run may go on
        self.bar.set_position(done);
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// One line a second, for logs and CI.
struct Line {
    so_far: SoFar,
    last: Option<Instant>,
}

impl Line {
    fn say(&mut self, text: impl FnOnce(&SoFar) -> String) {
        if self.last.is_none_or(|last| last.elapsed() >= Duration::from_secs(1)) {
            self.last = Some(Instant::now());
            eprintln!("{}", text(&self.so_far).trim_end());
        }
    }
}

impl Progress for Line {
    fn started(&mut self, header: &RunHeader) {
        self.so_far.start(header);
        eprintln!("{}", self.so_far.head());
    }

    fn warming(&mut self, case: &Case, done: usize, of: usize) {
        let case = case.clone();
        self.say(|so_far| format!("warm-up {}/{of}   {}", done + 1, so_far.describe(&case)));
    }

    fn round(&mut self, round: &RoundRecord, done: u64, of: u64) {
        self.so_far.begun.get_or_insert_with(Instant::now);
        self.so_far.add(round);
        self.say(|so_far| format!("{}   {}", so_far.line(round, done, of), so_far.time_left(done, of)));
    }
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
        let plan = typed("compare tcp:send,tcp:writev -l 64").unwrap().plan;
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
    fn the_line_says_where_the_run_is() {
        let so_far = compared(6, 9_000);
        let line = so_far.line(&RoundRecord { case: 1, pass: 5, ..RoundRecord::default() }, 12, 120);
        assert_eq!(line, "pass 6/40   round 12/120   tcp:writev  64 B   p50 9.00 µs");
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
