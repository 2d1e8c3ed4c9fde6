//! Runs under load whose truth is known.

use msgpath_analyse::Logs;
use msgpath_analyse::testing::Build;
use msgpath_core::parts::Parts;
use msgpath_core::schema::FAR;
use msgpath_core::units::Pieces;
use msgpath_core::{Case, Plan, Workload};
use msgpath_record::Run;

use crate::analyse::LoadedSummary;
use crate::mix::record::{MixFacts, MixRound, Other, OtherRound};
use crate::mix::setting::Setting;
use crate::record::{At, LoadFacts, LoadedRound, Probe, QueueLog};
use crate::section::{Mixed, Read, SECTION};
use crate::workload::LOADED;

pub const MS: f64 = 1e6;

/// A run of ten passes: idle round trips of 0.1 ms, and a load down.
#[derive(Clone)]
pub struct Bed {
    pub kinds: &'static [&'static str],
    pub device: &'static str,
    pub queue_bytes: u64,
    pub rate_bits: f64,
    pub added_ns: f64,
    pub read: bool,
    pub steady: bool,
    /// How long new connections take, and their requests, ns.
    pub probes: Option<[f64; 2]>,
}

impl Default for Bed {
    fn default() -> Self {
        Self {
            kinds: &["tbf", "pfifo"],
            device: "mp0",
            queue_bytes: 0,
            rate_bits: 10e6,
            added_ns: 0.0,
            read: true,
            steady: true,
            probes: None,
        }
    }
}

impl Bed {
    pub fn run(&self) -> (Run, Logs) {
        msgpath_analyse::section::add(&SECTION);
        let mut build = Build::echo(&["tcp:send"], &[64]).rounds(10);
        let idle = Case { label: Some("idle".into()), ..build.plan.cases[0].clone() };
        build.plan.cases = vec![idle.clone(), Case { id: 1, label: Some("down".into()), ..idle }];
        build.plan.workload = &LOADED;
        let loaded = 5.0 + self.added_ns / 20_000.0;
        let mut run = build.factor(move |case| if case.id == 0 { 5.0 } else { loaded }).run();
        run.header.verb = crate::verb::NAME.into();
        run.header.parts.set(LoadFacts { transport: "tcp".into(), streams: 4, ..LoadFacts::default() });
        let mut logs = Logs::default();
        if self.read {
            logs.add(Read((0..10).map(|pass| self.round(pass)).collect()));
        }
        (run, logs)
    }

    pub fn summary(&self) -> LoadedSummary {
        let (run, logs) = self.run();
        msgpath_analyse::summarise_with(&run, &logs).sections.get::<LoadedSummary>().unwrap().clone()
    }

    fn round(&self, pass: u32) -> LoadedRound {
        let at = |n: u64| {
            let bytes = (self.rate_bits / 8.0 * 0.01 * n as f64) as u64;
            At {
                t_ns: 1 + n * 10_000_000,
                received: Some(bytes),
                sent: Some(bytes),
                backlog_bytes: Some(self.queue_bytes),
                backlog_packets: Some(self.queue_bytes / 1_514),
                left_bytes: Some(bytes),
                drops: Some(n / 10),
                unsent_bytes: Some(40_000),
                rtt_ns: Some(self.added_ns as u64),
                ..At::default()
            }
        };
        let log = QueueLog {
            device: Some(self.device.into()),
            kinds: self.kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            samples: (0..100).map(at).collect(),
        };
        let mut round = LoadedRound { case: 1, pass, steady: self.steady, ..LoadedRound::default() };
        round.ends = [Some(log.clone()), None];
        round.ends[FAR] = Some(log);
        let probe = |[connect, reply]: [f64; 2]| Probe {
            t_ns: 1,
            connect_ns: Some(connect as u64),
            reply_ns: Some(reply as u64),
        };
        round.probes = self.probes.map(|times| vec![probe(times); 20]);
        round
    }
}

/// Echoes with a stream beside them: by what each is slower.
pub struct MixBed {
    /// The factor of the echo beside the stream.
    pub slower: f64,
    /// The part of the stream that is left beside the echo.
    pub stream_keeps: f64,
    /// A second path: its time by that of the first, and its factor.
    pub second: Option<[f64; 2]>,
    pub noise: f64,
    pub rounds: u32,
}

impl Default for MixBed {
    fn default() -> Self {
        Self { slower: 1.0, stream_keeps: 1.0, second: None, noise: 0.01, rounds: 10 }
    }
}

impl MixBed {
    pub fn run(&self) -> (Run, Logs) {
        msgpath_analyse::section::add(&SECTION);
        let paths: &[&str] = if self.second.is_some() { &["tcp:send", "unix:send"] } else { &["tcp:send"] };
        let mut build = Build::echo(paths, &[64]).rounds(self.rounds).noise(self.noise);
        let cases = std::mem::take(&mut build.plan.cases);
        let settings = |case: Case| {
            Setting::of(1).into_iter().map(move |setting| Case { label: Some(setting.label()), ..case.clone() })
        };
        let cases = cases.into_iter().flat_map(settings).enumerate();
        build.plan.cases = cases.map(|(id, case)| Case { id: id as u32, ..case }).collect();
        build.plan.beside = true;
        let (slower, [begins, second]) = (self.slower, self.second.unwrap_or([1.0, 1.0]));
        let factors = [1.0, slower, begins, begins * second];
        let mut run = build.factor(move |case| factors[case.id as usize]).run();
        let case = Case::new("tcp:send/block".parse().unwrap(), Pieces::whole(16 << 10));
        let plan = Plan::new(Workload::STREAM, vec![case]);
        run.header.parts.set(MixFacts {
            besides: vec![Other { text: "stream -l 16K".into(), name: "stream".into(), plan, parts: Parts::default() }],
        });
        let others = |keeps: f64, pass: u32| {
            let wobble = 1.0 + 0.002 * f64::from(pass % 3);
            let bits = Some(10e6 * keeps * wobble);
            vec![Some(OtherRound { window_ns: 1_000_000_000, bits, ..OtherRound::default() })]
        };
        let round = |case: Option<u32>, keeps: f64, pass: u32| {
            // The wobble of one pass is not that of the same pass without the echo.
            let others = others(keeps, pass + case.unwrap_or(0));
            MixRound { case, pass, steady: true, others }
        };
        let mut logs = Logs::default();
        let passes =
            (0..self.rounds).flat_map(|pass| [round(None, 1.0, pass), round(Some(1), self.stream_keeps, pass)]);
        logs.add(Mixed(passes.collect()));
        (run, logs)
    }
}
