//! Is the median round trip that msgpath reports that of a bare loop of the same system calls? Both in turn in one run.
//!
//! `cargo bench --bench fidelity [-- PASSES] [--second-thread] [--only PATH,...]`. The aim is a ratio of at most 1.02. Also prints what measuring costs: a
//! message through the loop over a channel that does nothing.
#![allow(clippy::print_stderr, clippy::print_stdout)]

mod bare;

use msgpath_core::Workload;

const SIZE: u32 = 64;

fn main() {
    if bare::is_far_end() {
        return;
    }
    let passes = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(21);
    nothing::report();
    let kinds = [
        ("tcp:send", "tcp-block", 4_000, 1),
        ("tcp:send/spin", "tcp-spin", 4_000, 1),
        ("unix:send", "unix-block", 4_000, 1),
        ("udp:send", "udp-block", 4_000, 1),
        ("pipe:write", "pipe-block", 4_000, 1),
        ("shm:ring/futex", "shm-futex", 4_000, 1),
        ("shm:ring/spin", "shm-spin", 40_000, 0),
    ];
    let only = std::env::args().skip_while(|word| word != "--only").nth(1);
    let wanted = |path: &str| only.as_ref().is_none_or(|only| only.split(',').any(|own| own == path));
    let kinds: Vec<_> = kinds.into_iter().filter(|(path, ..)| wanted(path)).collect();
    let (mut ours, mut bare) = (vec![Vec::new(); kinds.len()], vec![Vec::new(); kinds.len()]);
    for pass in 0..passes {
        for (at, (path, kind, messages, batch)) in kinds.iter().enumerate() {
            let mut measure_ours = || {
                let run = bare::msgpath(path, Workload::ECHO, SIZE, *messages, 1);
                // Beside it there may be a round that counts events.
                let round = run.rounds.iter().find(|round| round.case == 0).expect("a round");
                ours[at].push(round.latency.quantile(0.5).flatten().expect("messages arrived") as f64);
                round.batch as usize
            };
            // Who goes first changes from pass to pass.
            if pass % 2 == 0 {
                let found = measure_ours();
                let batch = if *batch == 0 { found } else { *batch };
                bare[at].push(bare::echo(kind, SIZE as usize, *messages as usize, 200, batch));
            } else {
                let batch = if *batch == 0 { 20 } else { *batch };
                bare[at].push(bare::echo(kind, SIZE as usize, *messages as usize, 200, batch));
                measure_ours();
            }
        }
    }
    for (at, (path, ..)) in kinds.iter().enumerate() {
        bare::report(path, "ns", &ours[at], &bare[at]);
    }
}

/// A channel, method and wait that do nothing: what is left is the loop.
mod nothing {
    use std::hint::black_box;
    use std::io;

    use msgpath_agent::loops::{Inbox, Messages, Row, Traffic, echo_near};
    use msgpath_agent::payload::{Payload, pattern};
    use msgpath_core::plan::ChannelOptions;
    use msgpath_core::schema::Granted;
    use msgpath_core::units::Pieces;
    use msgpath_core::{CallCounts, Delivery, Unavailable};
    use msgpath_paths::{Channel, End, Layout, Limits, Meta, Method, NewMethod, NewWait, Part, Wait};
    use msgpath_sys::clock;
    use msgpath_sys::scatter::Scatter;

    struct Null {
        counts: CallCounts,
        limits: Limits,
    }

    impl Channel for Null {
        fn counts(&mut self) -> &mut CallCounts {
            &mut self.counts
        }
        fn limits(&self) -> &Limits {
            &self.limits
        }
        fn framed(&self) -> bool {
            true
        }
        fn room(&self) -> Option<u64> {
            None
        }
        fn granted(&self, _: &str, _: &ChannelOptions) -> Vec<Granted> {
            Vec::new()
        }
    }

    const META: Meta = Meta { name: "nothing", summary: "does nothing", manual: "For this benchmark." };

    struct Keep(Scatter);

    impl Part for Keep {
        const META: Meta = META;
    }

    impl NewMethod<Null> for Keep {
        fn new(_: &mut Null, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
            Ok(Self(layout.whole()))
        }
    }

    impl Method<Null> for Keep {
        #[inline(always)]
        fn slot(&mut self, _: &mut Null) -> io::Result<&mut Scatter> {
            Ok(&mut self.0)
        }
        #[inline(always)]
        fn send(&mut self, channel: &mut Null) -> io::Result<()> {
            channel.counts.send_calls += 1;
            black_box(self.0.piece(0));
            Ok(())
        }
    }

    /// Answers with the message that would have come: numbers in order.
    struct Answer(u64);

    impl Part for Answer {
        const META: Meta = META;
    }

    impl NewWait<Null> for Answer {
        fn new(_: &mut Null, _: &ChannelOptions) -> Result<Self, Unavailable> {
            Ok(Self(0))
        }
    }

    impl Wait<Null> for Answer {
        #[inline(always)]
        fn recv(&mut self, channel: &mut Null, buffer: &mut [u8]) -> io::Result<usize> {
            channel.counts.recv_calls += 1;
            if self.0 == 0 {
                buffer.iter_mut().enumerate().for_each(|(at, byte)| *byte = pattern(at));
            }
            buffer[..8].copy_from_slice(&self.0.to_le_bytes());
            self.0 += 1;
            Ok(black_box(buffer).len())
        }
    }

    pub fn report() {
        const COUNT: u64 = 200_000;
        let pieces = Pieces::whole(super::SIZE);
        let payload = Payload::new(pieces);
        let messages = Messages { outgoing: &payload, incoming: &payload, lossy: false };
        let limits = Limits::new(std::time::Duration::from_secs(1), std::time::Duration::from_secs(1));
        let channel = Null { counts: CallCounts::default(), limits };
        let layout = Layout { pieces, inflight: 1, copies: 1, content: &pattern };
        let mut ends = [End::<_, Keep, Answer>::new(channel, layout, &ChannelOptions::default()).expect("nothing")];
        let mut inbox = Inbox::new(payload.len(), payload.len(), true, 1);
        let mut rows = Vec::with_capacity(COUNT as usize);
        rows.resize(COUNT as usize, Row { start: 0, latency: 0 });
        let mut best = f64::INFINITY;
        let mut delivery = Delivery::default();
        for pass in 0..11 {
            rows.clear();
            let start = clock::now();
            let range = (pass * COUNT, COUNT);
            let traffic = Traffic { messages: &messages, delivery: &mut delivery };
            echo_near(&mut ends, traffic, &mut inbox, range, &mut rows, &mut Vec::new()).expect("nothing goes wrong");
            best = best.min((clock::now() - start) as f64 / COUNT as f64);
        }
        let (reading, step) = clock::measure(1_000_000);
        println!(
            "cost of measuring  {best:.1} ns a message (loop, two clock readings, number, store, check of every byte); \
             one reading {reading:.1} ns, step {step} ns"
        );
    }
}
