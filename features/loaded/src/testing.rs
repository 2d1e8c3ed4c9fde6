//! Runs under load whose truth is known.

use msgpath_analyse::Logs;
use msgpath_analyse::testing::Build;
use msgpath_core::Case;
use msgpath_core::schema::FAR;
use msgpath_record::Run;

use crate::analyse::LoadedSummary;
use crate::record::{At, LoadFacts, LoadedRound, QueueLog};
use crate::section::{Read, SECTION};
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
        round
    }
}
