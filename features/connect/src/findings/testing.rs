//! A run of connections whose truth is known: ten rounds of 200 over TCP, of which two have something to say.

use msgpath_analyse::findings::Detector;
use msgpath_analyse::testing::{Build, sentences as said};
use msgpath_core::parts::Parts;
use msgpath_core::schema::FAR;
use msgpath_record::Run;

use crate::record::{Asked, Failed, Made};

/// What happened in each of the two rounds.
#[derive(Default)]
pub struct Round {
    /// Connections that failed: why, how many, what the first met.
    pub failed: &'static [(&'static str, u64, &'static str)],
    /// Connections whose SYN went again, and how often.
    pub retried: (u64, u64),
    /// Overflows of the server's queue.
    pub overflows: u64,
}

pub fn run(of_round: &Round) -> Run {
    let mut build = Build::echo(&["tcp:send/epoll"], &[1]).rounds(10);
    build.plan.workload = &crate::workload::CONNECT;
    build.plan.parts.set(Asked::default());
    let mut run = build.run();
    for (at, round) in run.rounds.iter_mut().enumerate() {
        let mut made = Made { connect: round.latency.clone(), ..Made::default() };
        if at < 2 {
            (made.retried, made.syns) = of_round.retried;
            for (reason, count, example) in of_round.failed {
                made.failed.insert((*reason).into(), Failed { count: *count, example: (*example).into() });
                round.near_mut().delivery.sent += count;
                round.near_mut().delivery.lost += count;
            }
            let kernel = &mut round.end_mut(FAR).kernel.0;
            kernel.insert("TcpExt.ListenOverflows".into(), of_round.overflows);
        }
        round.parts = vec![Parts::default().with(made)];
    }
    run
}

pub fn sentences(of_round: &Round, detector: &'static Detector) -> Vec<String> {
    msgpath_analyse::section::add(&crate::section::SECTION);
    said(&run(of_round), detector)
}
