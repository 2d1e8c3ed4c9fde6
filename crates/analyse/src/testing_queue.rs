//! A simulated server behind an open loop, for tests: one queue in the order of arrival and a known distribution of service times, fed
//! by the schedule of the generator and cut into rounds as the generator cuts them: what has become due when a round ends is
//! late when the next one begins. What queueing theory says of it is
//! exact, so what is printed can be held against it.

use msgpath_core::Histogram;
use msgpath_core::Workload;
use msgpath_core::plan::{Case, Distribution, Load, Plan, ServiceTime};
use msgpath_core::schedule::{Arrivals, Rate, Schedule, exponential, seed, seed_of, taken_up};
use msgpath_core::schema::{OpenRound, RoundRecord};
use msgpath_core::shuffle::SplitMix64;
use msgpath_core::units::Pieces;
use msgpath_record::Run;

use crate::testing::Build;

/// A server with a queue, and how it is loaded.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// Messages a second.
    pub rate: f64,
    /// How the gaps between them are distributed.
    pub arrivals: Arrivals,
    pub service_time: ServiceTime,
    /// Rounds; the first begins with an empty queue.
    pub rounds: u32,
    /// Messages of a round that are measured.
    pub messages: u64,
    /// Messages before them, which are dropped.
    pub trim: u64,
    /// Everything random comes from it.
    pub seed: u64,
    /// In this pass the server stands still for so long, from so many ns after the first measured message on.
    pub stall: Option<(u32, u64, u64)>,
}

impl Queue {
    /// Exponential service of 1 µs on average at this utilisation, 40 rounds.
    pub fn mm1(utilisation: f64, messages: u64, trim: u64, seed: u64) -> Self {
        let service_time = ServiceTime { mean_ns: 1_000, distribution: Distribution::Exponential };
        let arrivals = Arrivals::Poisson;
        Self { rate: utilisation * 1e6, arrivals, service_time, rounds: 40, messages, trim, seed, stall: None }
    }

    /// The same with constant service.
    pub fn md1(utilisation: f64, messages: u64, trim: u64, seed: u64) -> Self {
        let service_time = ServiceTime { mean_ns: 1_000, distribution: Distribution::Constant };
        Self { service_time, ..Self::mm1(utilisation, messages, trim, seed) }
    }

    /// The case that is measured.
    pub fn case(&self) -> Case {
        let rate = Rate::per_second(self.rate).expect("a rate");
        let load = Load::Open { rate, arrivals: self.arrivals };
        Case { load, inflight: 4096, ..Case::new("tcp:send/epoll".parse().expect("a path"), Pieces::whole(64)) }
    }

    /// The rounds of case `id`. A message is sent when it is due, or when the round begins where that is later.
    pub fn records(&self, id: u32) -> Vec<RoundRecord> {
        let (mut histograms, mut debt) = ([Histogram::new(), Histogram::new()], (0, u64::MAX));
        (0..self.rounds).map(|pass| self.round((id, pass), &mut debt, &mut histograms)).collect()
    }

    /// One loop, because tests of many runs live on its speed without optimisation. `debt`: by how much the schedule is
    /// behind, and the quickest reply so far, ns.
    fn round(&self, (id, pass): (u32, u32), debt: &mut (u64, u64), histograms: &mut [Histogram; 2]) -> RoundRecord {
        let [latency, service] = histograms;
        latency.clear();
        service.clear();
        let gap_ns = 1e9 / self.rate;
        let mut schedule = Schedule::new(gap_ns, self.arrivals, seed_of(self.arrivals, self.seed, id, pass, 0));
        let mut random = SplitMix64::new(seed(self.seed, id, pass, 1));
        let all = (self.trim + self.messages) as usize;
        let begun = debt.0;
        let trim = if begun as f64 > gap_ns * self.trim as f64 { 0 } else { self.trim as usize };
        let (mut due, mut answered) = (vec![0; all], vec![0; all]);
        // Of the schedule's clock: the round begins when that has run for as long as it is behind.
        let (mut first, mut free, mut done, mut open) = (u64::MAX, begun, 0, OpenRound::default());
        let mut at = 0;
        while at < all {
            let now = schedule.next().unwrap_or(u64::MAX);
            due[at] = now;
            if at == trim {
                first = now;
            }
            let sent = if now > begun { now } else { begun };
            // The server works on one at a time, in the order of their coming.
            let taken = if sent > free { sent } else { free };
            free = taken + self.draw(&mut random);
            if self.stall.is_some() && first < u64::MAX {
                free += self.stalled(pass, first, taken, free);
            }
            answered[at] = free;
            debt.1 = debt.1.min(free - sent);
            if at >= trim {
                latency.record(free - now);
                service.record(free - sent);
                open.lateness_ns += sent - now;
                while done < at && answered[done] <= sent {
                    done += 1;
                }
                let in_flight = (at - done) as u64;
                open.in_flight_sum += in_flight;
                open.in_flight_most = open.in_flight_most.max(in_flight);
            }
            at += 1;
        }
        let last = taken_up(self.arrivals, gap_ns, all as u64, due[all - 1]);
        open.offered = (all - trim) as u64;
        open.sent_ns = due[all - 1].saturating_sub(first.max(begun));
        open.span_ns = due[all - 1] - first + gap_ns as u64;
        let end = (answered[all - 1] - debt.1).max(last).max(begun);
        open.debt_ns = [begun, end - last];
        open.schedule_ns = last;
        open.backlog = (1..=64)
            .map(|sample| {
                let at = begun + (end - begun) * sample / 64;
                let beyond = (at.saturating_sub(last) as f64 / gap_ns) as usize;
                let due = due.partition_point(|due| *due <= at) + beyond;
                (at - begun, (due - answered.partition_point(|end| *end <= at)) as u64)
            })
            .collect();
        debt.0 = end - last;
        let mut round = RoundRecord { case: id, pass, batch: 1, latency: latency.to_sparse(), ..Default::default() };
        round.service = service.to_sparse();
        round.near_mut().elapsed_ns = answered[all - 1] - first.max(begun);
        round.near_mut().delivery.sent = open.offered;
        round.near_mut().delivery.received = open.offered;
        round.open = Some(open);
        round
    }

    fn draw(&self, random: &mut SplitMix64) -> u64 {
        match self.service_time.distribution {
            Distribution::Constant => self.service_time.mean_ns,
            Distribution::Exponential => exponential(random, self.service_time.mean_ns as f64).round() as u64,
        }
    }

    /// For how long the server stands still while it works from `begun` to `done`, ns.
    fn stalled(&self, pass: u32, first: u64, begun: u64, done: u64) -> u64 {
        match self.stall {
            Some((at, from, ns)) if at == pass && begun < first + from + ns && done > first + from => {
                first + from + ns - begun.max(first + from)
            }
            _ => 0,
        }
    }

    /// The same server, and rounds of the same length, in a closed loop: the next message goes when a reply has come.
    pub fn closed(&self) -> Run {
        let mut run = run(&[*self]);
        run.header.plan.cases[0].load = Load::Closed;
        let mut latency = Histogram::new();
        for round in &mut run.rounds {
            let mut random = SplitMix64::new(seed(self.seed, 0, round.pass, 1));
            let length = (1e9 * self.messages as f64 / self.rate) as u64;
            latency.clear();
            let (mut now, mut sent) = (0, 0);
            while now < length {
                let work = self.draw(&mut random);
                let took = work + self.stalled(round.pass, 0, now, now + work);
                latency.record(took);
                (now, sent) = (now + took, sent + 1);
            }
            let latency = latency.to_sparse();
            *round = RoundRecord { case: 0, pass: round.pass, batch: 1, latency, ..Default::default() };
            round.near_mut().elapsed_ns = now;
            (round.near_mut().delivery.sent, round.near_mut().delivery.received) = (sent, sent);
        }
        run
    }
}

/// A run with one case for each queue. Their rounds, trim and seed are those of the first.
pub fn run(queues: &[Queue]) -> Run {
    let first = &queues[0];
    let mut run = Build::echo(&["tcp:send/epoll"], &[64]).run();
    let cases = queues.iter().zip(0..).map(|(queue, id)| Case { id, ..queue.case() }).collect();
    run.header.plan = Plan {
        trim: first.trim,
        service_time: Some(first.service_time),
        rounds: first.rounds,
        seed: first.seed,
        message_log: 0,
        ..Plan::new(Workload::ECHO, cases)
    };
    run.rounds = queues.iter().zip(0..).flat_map(|(queue, id)| queue.records(id)).collect();
    run.rounds.sort_by_key(|round| (round.pass, round.case));
    run
}

/// Makes the sends of some messages of each round late by `ns`, spread over fast and slow ones: the latency grows by it,
/// the time from the actual send does not.
pub fn late(run: &mut Run, ns: u64, messages: u64) {
    for round in &mut run.rounds {
        let (mut latency, mut lateness) = (Histogram::new(), Histogram::new());
        let every = round.latency.total() / messages;
        let mut seen = 0;
        for (from, to, count) in round.latency.ranges() {
            let late = (seen + count) / every - seen / every;
            let value = from + (to - from) / 2;
            latency.record_n(value + ns, late);
            latency.record_n(value, count - late);
            seen += count;
        }
        let open = round.open.as_mut().expect("an open loop");
        let late = seen / every;
        lateness.record_n(ns, late);
        lateness.record_n(0, seen - late);
        let gap = open.span_ns / open.offered;
        open.late = if ns > gap { late } else { 0 };
        open.lateness_ns = ns * late;
        open.own_ns = open.lateness_ns;
        (round.latency, round.lateness) = (latency.to_sparse(), lateness.to_sparse());
    }
}
