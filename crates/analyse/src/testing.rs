//! Runs with a known truth, for tests: seeded, synthetic, never part of the program.

#[path = "../../paths/tests/traits/declared.rs"]
mod declared;

use std::path::{Path, PathBuf};

use msgpath_core::Workload;
use msgpath_core::doctor::{Check, CheckState, Doctor};
use msgpath_core::plan::{Ablation, Case, CaseRole, Change, Plan};
use msgpath_core::schema::{
    ClockFacts, DeviceKind, Environment, FAR, Floors, Granted, NEAR, RoundRecord, Route, RunEnd, RunHeader,
};
use msgpath_core::units::Pieces;
use msgpath_core::{Histogram, PathName, SparseHistogram};
use msgpath_record::{Run, RunWriter};
use msgpath_stats::simulate::lognormal_rounds;

use crate::Logs;
use crate::findings::{DETECTORS, Detector, Input, sorted};
use crate::summarise::summarise_by;

pub use declared::declared;

/// Ends a run that was written, and reads it.
///
/// # Panics
/// It cannot be written or read.
pub fn finished(mut writer: RunWriter, folder: &Path) -> Run {
    writer.finish(RunEnd::of(Ok(true), "")).expect("a folder that can be written");
    msgpath_record::read(folder).expect("what was written")
}

/// A level that doubles over 40 passes.
pub fn ramp(pass: u32) -> f64 {
    1.0 + f64::from(pass) / 40.0
}

/// The rounds of case 0 once more: 400 messages each around `level` of their pass, ns.
pub fn relevel(run: &mut Run, level: impl Fn(u32) -> f64) {
    for round in run.rounds.iter_mut().filter(|round| round.case == 0) {
        let center = level(round.pass);
        round.latency = lognormal_rounds(u64::from(round.pass), 1, 400, center, 0.1, 0.01).remove(0);
    }
}

/// Who is asked about a run: all detectors that have a code, or one of them.
pub enum Asked<'a> {
    /// All with this code.
    Code(&'a str),
    One(&'a Detector),
}

impl<'a> From<&'a str> for Asked<'a> {
    fn from(code: &'a str) -> Self {
        Self::Code(code)
    }
}

impl<'a> From<&'a Detector> for Asked<'a> {
    fn from(detector: &'a Detector) -> Self {
        Self::One(detector)
    }
}

/// What they found out about the run: the texts of findings and warnings.
pub fn sentences<'a>(run: &Run, asked: impl Into<Asked<'a>>) -> Vec<String> {
    said_with(run, &Logs::default(), asked)
}

/// Everything that the base says of a run, each text behind its code.
pub fn texts(run: &Run, logs: &Logs) -> Vec<String> {
    let summary = crate::summarise_with(run, logs);
    let findings = summary.findings.into_iter().map(|one| (one.code, format!("{} {:?}", one.text, one.next)));
    let warnings = summary.warnings.into_iter().map(|one| (one.code, one.text + &one.why + &one.fix));
    let all = findings.chain(warnings).filter(|(code, _)| DETECTORS.iter().any(|detector| detector.code == code));
    all.map(|(code, text)| format!("{code} {text}")).collect()
}

/// What they found out about the run and its logs.
pub fn said_with<'a>(run: &Run, logs: &Logs, asked: impl Into<Asked<'a>>) -> Vec<String> {
    let (code, summary) = match asked.into() {
        Asked::Code(code) => (code, crate::summarise_with(run, logs)),
        Asked::One(one) => {
            let detect = |input: &Input| sorted((one.detect)(input).into_iter());
            (one.code, summarise_by(run, logs, detect))
        }
    };
    let findings = summary.findings.iter().filter(|finding| finding.code == code);
    let findings = findings.map(|finding| format!("{}: {}", finding.confidence.word(), finding.text));
    let warnings = summary.warnings.iter().filter(|warning| warning.code == code);
    findings.chain(warnings.map(|warning| warning.text.clone())).collect()
}

/// Lets both ends read the kernel counter `name`, as two ends of one namespace do, and has it rise by `each` in every
/// round of a case.
pub fn count(run: &mut Run, case: u32, name: &str, each: u64) {
    for known in run.header.ends.iter_mut().map(|end| &mut end.counters) {
        if !known.iter().any(|known| known == name) {
            known.push(name.into());
        }
    }
    for round in run.rounds.iter_mut().filter(|round| round.case == case) {
        for end in [NEAR, FAR] {
            round.end_mut(end).kernel.0.insert(name.into(), each);
        }
    }
}

/// Adds an option as the near end asked for it and as it was granted; `-`: nobody asked.
pub fn grant(run: &mut Run, case: u32, option: &str, asked: &str, granted: &str) {
    let same = asked == "-" || asked == granted;
    let (option, asked, granted) = (option.into(), asked.into(), granted.into());
    let all = &mut run.end.as_mut().expect("a run that ended").granted;
    all.entry(case).or_default().push(Granted { end: "near".into(), option, asked, granted, same });
}

/// Gives the run a way to its far end.
pub fn route(run: &mut Run, kind: DeviceKind, device: &str, to: &str) {
    let route = Route { to: to.into(), device: device.into(), kind, ..Route::default() };
    run.header.floors = Some(Floors { route: Some(route), ..Floors::default() });
}

/// Metric of a case (its position) in a pass.
type Level = Box<dyn Fn(usize, u32) -> f64>;

pub struct Build {
    /// What is planned; tests change it.
    pub plan: Plan,
    verb: &'static str,
    messages: u64,
    spread: f64,
    noise: f64,
    factor: Box<dyn Fn(&Case) -> f64>,
    rates: Level,
}

impl Build {
    fn new(workload: &'static Workload, paths: &[&str], sizes: &[u64]) -> Self {
        let mut cases = Vec::new();
        for path in paths {
            for size in sizes {
                cases.push(case(cases.len(), CaseRole::Measured, path, *size));
            }
        }
        let verb = if paths.len() > 1 { "compare" } else { workload.name };
        let plan = Plan { seed: 7, message_log: 0, ..Plan::new(workload, cases) };
        let factor = Box::new(|_: &Case| 1.0);
        let rates = Box::new(|_, _| 1e9);
        Self { plan, verb, messages: 200, spread: 0.1, noise: 0.01, factor, rates }
    }

    /// Every path at every size, path by path; 40 rounds of 200 round trips of about 20 µs.
    pub fn echo(paths: &[&str], sizes: &[u64]) -> Self {
        Self::new(Workload::ECHO, paths, sizes)
    }

    /// The same as a stream of 1 Gbit/s.
    pub fn stream(paths: &[&str], sizes: &[u64]) -> Self {
        Self::new(Workload::STREAM, paths, sizes)
    }

    fn and(mut self, role: CaseRole, size: u64) -> Self {
        let path = self.plan.baseline.to_string();
        self.plan.cases.push(case(self.plan.cases.len(), role, &path, size));
        self
    }

    /// The case `of` once more with one thing changed.
    pub fn ablation(mut self, of: u32, change: Change) -> Self {
        let id = self.plan.cases.len() as u32;
        let case = self.plan.cases[of as usize].clone();
        self.plan.cases.push(Case { id, role: CaseRole::Ablation, ablation: Some(Ablation { of, change }), ..case });
        self
    }

    /// The baseline once more.
    pub fn control(self, size: u64) -> Self {
        self.and(CaseRole::Control, size)
    }

    /// A bulk transfer on the baseline's path.
    pub fn reference(self, size: u64) -> Self {
        self.and(CaseRole::Reference, size)
    }

    /// The far end sends.
    pub fn reverse(mut self) -> Self {
        self.plan.reverse = true;
        self
    }

    /// Rounds of each case.
    pub fn rounds(mut self, rounds: u32) -> Self {
        self.plan.rounds = rounds;
        self
    }

    /// Restarts, over which the rounds are spread evenly.
    pub fn restarts(mut self, restarts: u32) -> Self {
        self.plan.restarts = restarts;
        self
    }

    /// Messages of a round.
    pub fn messages(mut self, messages: u64) -> Self {
        self.messages = messages;
        self
    }

    /// Standard deviation of a case's level between rounds, on the log.
    pub fn noise(mut self, noise: f64) -> Self {
        self.noise = noise;
        self
    }

    /// Standard deviation between the messages of a round, on the log.
    pub fn spread(mut self, spread: f64) -> Self {
        self.spread = spread;
        self
    }

    /// Median of a case divided by 20 µs.
    pub fn factor(mut self, factor: impl Fn(&Case) -> f64 + 'static) -> Self {
        self.factor = Box::new(factor);
        self
    }

    /// Bits per second of a case (by position) in a pass, at the receiver. The sender counts 10 % more.
    pub fn rates(mut self, rates: impl Fn(usize, u32) -> f64 + 'static) -> Self {
        self.rates = Box::new(rates);
        self
    }

    pub fn run(&self) -> Run {
        let mut rounds = Vec::new();
        for case in &self.plan.cases {
            let latency = if self.plan.workload.timed {
                let seed = self.plan.seed * 1_000 + u64::from(case.id);
                let (count, messages) = (self.plan.rounds as usize, self.messages as usize);
                lognormal_rounds(seed, count, messages, 20_000.0 * (self.factor)(case), self.spread, self.noise)
            } else {
                vec![SparseHistogram::default(); self.plan.rounds as usize]
            };
            for (pass, latency) in latency.into_iter().enumerate() {
                rounds.push(self.round(case, pass as u32, latency));
            }
        }
        rounds.sort_by_key(|round| (round.pass, round.case));
        for (at, round) in rounds.iter_mut().enumerate() {
            round.start_ns = at as u64 * 50_000_000;
        }
        let environment = Environment { cpus: vec![0, 1, 2, 3], boot_id: "one".into(), ..Default::default() };
        let mut header = RunHeader::new("brisk-otter", self.verb, self.plan.clone());
        header.set_hosts([environment.clone(), environment]);
        header.ends[0].clock = ClockFacts { cost_ns: 25.0, step_ns: 1 };
        Run {
            folder: PathBuf::new(),
            header: RunHeader {
                started: "2026-11-21T10:00:00Z".into(),
                command: vec!["/usr/bin/msgpath".into(), self.verb.into(), "-t".into(), "10s".into()],
                version: "0.1.0".into(),
                target: "this machine".into(),
                ..header
            },
            rounds,
            end: Some(RunEnd { header_crc32: Some(0), ..RunEnd::of(Ok(true), "2026-11-21T10:00:10Z") }),
            damage: None,
        }
    }

    fn round(&self, case: &Case, pass: u32, latency: SparseHistogram) -> RoundRecord {
        let restart = pass * self.plan.restarts / self.plan.rounds;
        let mut round = RoundRecord { case: case.id, pass, restart, batch: 1, latency, ..Default::default() };
        for end in round.reports_mut() {
            end.delivery.sent = self.messages;
            end.delivery.received = self.messages;
            end.delivery.verified = self.messages;
            end.bytes_sent = self.messages * case.size;
            end.bytes_received = self.messages * case.size;
            end.elapsed_ns = 40_000_000;
            end.metered_ns = Some(u64::from(case.threads) * end.elapsed_ns);
        }
        [NEAR, FAR].into_iter().for_each(|end| round.end_mut(end).watched_ns = Some(40_000_000));
        if !self.plan.workload.timed {
            let elapsed = (self.messages * case.size * 8) as f64 * 1e9 / (self.rates)(case.id as usize, pass);
            let [near, far] = round.reports_mut();
            let (receiver, sender) = if self.plan.reverse { (near, far) } else { (far, near) };
            receiver.elapsed_ns = elapsed as u64;
            sender.elapsed_ns = (elapsed / 1.1) as u64;
        }
        round
    }
}

fn case(id: usize, role: CaseRole, path: &str, size: u64) -> Case {
    let path: PathName = path.parse().expect("a path");
    Case { id: id as u32, role, traits: declared(&path), ..Case::new(path, Pieces::whole(size as u32)) }
}

/// Makes the rounds at these positions of the run slower by a factor; what else is in them stays.
pub fn slow_down(run: &mut Run, factor: f64, which: impl Fn(usize) -> bool) {
    for (_, round) in run.rounds.iter_mut().enumerate().filter(|(at, _)| which(*at)) {
        let mut histogram = Histogram::new();
        for (from, to, count) in round.latency.ranges() {
            histogram.record_n(((from + to) as f64 / 2.0 * factor) as u64, count);
        }
        round.latency = histogram.to_sparse();
    }
}

/// Adds `n` messages of `ns` to a round.
pub fn stalls(round: &mut RoundRecord, n: u64, ns: u64) {
    let mut histogram = Histogram::new();
    histogram.merge_sparse(&round.latency);
    histogram.record_n(ns, n);
    round.latency = histogram.to_sparse();
}

/// What `doctor` says: number, end, state and text of each check.
pub fn doctor(checks: &[(u8, &str, CheckState, &str)]) -> Doctor {
    let check = |(number, end, state, what): &(u8, &str, CheckState, &str)| Check {
        number: *number,
        name: format!("check {number}"),
        end: (*end).into(),
        state: *state,
        what: (*what).into(),
        cure: format!("cure of {number}"),
        commands: Vec::new(),
        evidence: Default::default(),
    };
    Doctor { checks: checks.iter().map(check).collect(), ..Doctor::default() }
}

/// Whether one of its sentences gives a quantile as a time and does not say that it is this run's, or was tried here.
/// Every test of this crate that analyses a run asks this of all that is said.
pub fn claims_beyond_this_run(text: &str) -> bool {
    const NEAR: usize = 6;
    let claims = |sentence: &str| {
        let words: Vec<&str> = sentence.split([' ', '\u{a0}', '(']).filter(|word| !word.is_empty()).collect();
        let bare = |word: &str| word.trim_matches([',', ';', ':', '.', ')']).to_owned();
        let quantile = words.iter().position(|word| ["p50", "p90", "p99"].contains(&bare(word).as_str()));
        let time = |pair: &[&str]| {
            pair[0].starts_with(|c: char| c.is_ascii_digit())
                && ["ns", "µs", "ms", "s"].contains(&bare(pair[1]).as_str())
        };
        let Some(at) = quantile else { return false };
        // The time stands near it, and in the same part of the sentence.
        let near = words[at..].split_inclusive(|word| word.ends_with(';')).next().unwrap_or_default();
        near[..near.len().min(NEAR)].windows(2).any(time)
    };
    let limited = |sentence: &str| {
        let sentence = sentence.to_lowercase();
        sentence.contains("this run") || sentence.contains("tried here")
    };
    text.split(". ").any(|sentence| claims(sentence) && !limited(sentence))
}
