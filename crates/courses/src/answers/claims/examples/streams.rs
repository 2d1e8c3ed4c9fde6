//! Claims about zero copy, copies and caches, from streams.

use msgpath_analyse::testing::{Build, route};
use msgpath_core::Unavailable;
use msgpath_core::ZeroCopyCounts;
use msgpath_core::schema::{DeviceKind, NEAR, RoundRecord};
use msgpath_core::units::Pieces;
use msgpath_record::Run;

use super::Example;
use crate::answers::Outcome::{CannotTell, DoesNotHold, Holds};
use crate::answers::testing::Made;

const PATHS: [&str; 5] = ["tcp:flatten", "tcp:sendmsg", "tcp:zerocopy", "tcp:zerocopy-unset", "tcp:writes"];

/// A stream over veth in eight pieces at two sizes: what the methods carry as a share of 1 Gbit/s, by size and pass.
fn carried(share: fn(method: &str, large: bool, pass: u32) -> f64) -> Run {
    let rate = move |at: usize, pass: u32| {
        let noise = 1.0 + 0.002 * f64::from((pass * 5 + at as u32) % 7);
        let method = PATHS[at / 2].rsplit(':').next().unwrap_or_default();
        1e9 * noise * share(method, at % 2 == 1, pass)
    };
    let mut run = Build::stream(&PATHS, &[64, 65_536]).rates(rate).run();
    route(&mut run, DeviceKind::Veth, "veth0", "10.0.0.2");
    run.header.plan.cases.iter_mut().for_each(|case| case.pieces = Pieces::of(8, case.size as u32 / 8));
    for round in &mut run.rounds {
        let case = &run.header.plan.cases[round.case as usize];
        let sent = round.near().delivery.sent;
        round.near_mut().system_ns = sent * 1_000;
        if case.path.method == "flatten" {
            round.near_mut().calls.copied_bytes = sent * case.size;
        }
    }
    run
}

/// The methods alike.
fn alike() -> Run {
    carried(|method, _, _| if method == "zerocopy" { 0.7 } else { 1.0 })
}

/// What the kernel says of the sends of a method in each round.
fn answered(mut run: Run, method: &str, counts: impl Fn(u64) -> ZeroCopyCounts) -> Run {
    for round in &mut run.rounds {
        if run.header.plan.cases[round.case as usize].path.method == method {
            round.near_mut().zerocopy = counts(round.near().delivery.sent);
        }
    }
    run
}

fn copied(sent: u64) -> ZeroCopyCounts {
    ZeroCopyCounts { asked: sent, copied: sent, notifications: 4, ..Default::default() }
}

fn zero_copied(sent: u64) -> ZeroCopyCounts {
    ZeroCopyCounts { asked: sent, zero_copied: sent, notifications: sent, ..Default::default() }
}

fn unanswered(sent: u64) -> ZeroCopyCounts {
    ZeroCopyCounts { asked: sent, unanswered: sent, ..Default::default() }
}

fn half(sent: u64) -> ZeroCopyCounts {
    ZeroCopyCounts { asked: sent, copied: sent / 2, unanswered: sent - sent / 2, ..Default::default() }
}

fn one(run: Run) -> Vec<Made> {
    vec![Made::from("stream", run)]
}

/// CPU time of a zero-copy send, ns, beside 1000 by others.
fn cpu(of: fn(&RoundRecord) -> u64) -> Vec<Made> {
    let mut run = alike();
    for round in run.rounds.iter_mut().filter(|round| [4, 5].contains(&round.case)) {
        round.near_mut().system_ns = round.near().delivery.sent * of(round);
    }
    one(run)
}

/// The same stream once with buffers that stay, once with those of 256 MiB at a share of the rate; the last-level cache.
fn ladder(share: f64, cache: u64) -> Vec<Made> {
    let run = |set: u64, share: f64| {
        let mut run = alike();
        run.header.plan.working_set = set;
        run.rounds
            .iter_mut()
            .for_each(|round| round.far_mut().elapsed_ns = (round.far().elapsed_ns as f64 / share) as u64);
        let floors = run.header.floors.as_mut().expect("a route");
        (floors.caches, floors.copy_bytes_per_s) = (vec![32 << 10, 1 << 20, cache], Some(8e9));
        run
    };
    let (warm, cold) = (run(0, 1.0), run(256 << 20, share));
    vec![Made::from("lo", warm), Made::from("lo-1m", run(1 << 20, 0.95)), Made::from("lo-256m", cold)]
}

fn over_a_nic() -> Vec<Made> {
    let mut run = alike();
    route(&mut run, DeviceKind::Nic, "eth0", "10.0.0.2");
    one(run)
}

fn no_copy_seen() -> Vec<Made> {
    let mut run = alike();
    run.rounds.iter_mut().for_each(|round| round.near_mut().calls.copied_bytes = 0);
    one(run)
}

fn copies_unknown() -> Vec<Made> {
    one(alike())
        .into_iter()
        .map(|made| {
            made.altered(|summary| {
                for case in &mut summary.cases {
                    (case.copied_bytes, case.copied_why) = (None, "the kernel does not say".into());
                }
            })
        })
        .collect()
}

fn refused() -> Vec<Made> {
    let mut run = alike();
    run.header.ends[NEAR].events.refused = vec![("cycles".into(), Unavailable::new("no PMU driver", ""))];
    one(run)
}

/// `counted` values of cycles at the near end of every case, which were asked for.
fn cycles(counted: Option<f64>) -> Vec<Made> {
    let mut run = alike();
    run.header.ends[NEAR].events.counted = vec!["cycles".into()];
    vec![super::events(Made::from("stream", run), "cycles", |_| counted)]
}

/// LLC misses a message of A3, beside 3.0 of A1.
fn misses(of: f64) -> Vec<Made> {
    vec![super::events(Made::from("stream", alike()), "LLC-load-misses", move |method| {
        Some(if method == "zerocopy" { of } else { 3.0 })
    })]
}

pub(super) const EXAMPLES: &[Example] = &[
    (1, Holds, "copied 0 of 16000 answered sends", || one(answered(alike(), "zerocopy", zero_copied))),
    (1, DoesNotHold, "copied 16000 of 16000", || one(answered(alike(), "zerocopy", copied))),
    (1, CannotTell, "of 16000 sends was answered", || one(answered(alike(), "zerocopy", unanswered))),
    (2, Holds, "each was answered", || one(answered(alike(), "zerocopy-unset", zero_copied))),
    (2, DoesNotHold, "no completion came", || one(answered(alike(), "zerocopy-unset", unanswered))),
    (2, CannotTell, "8000 of them were answered", || one(answered(alike(), "zerocopy-unset", half))),
    (3, Holds, "16000 notifications answered 16000 sends, 1.00 each", || {
        one(answered(alike(), "zerocopy", zero_copied))
    }),
    (3, DoesNotHold, "320 notifications answered 16000 sends, 50.0 each", || {
        one(answered(alike(), "zerocopy", copied))
    }),
    (3, CannotTell, "no notification came", || one(answered(alike(), "zerocopy", unanswered))),
    (4, Holds, "is faster from about", || {
        let run = carried(|method, large, _| match (method, large) {
            ("zerocopy", false) => 0.6,
            ("zerocopy", true) => 1.6,
            _ => 1.0,
        });
        one(answered(run, "zerocopy", copied))
    }),
    (4, DoesNotHold, "is slower at every size", || one(answered(alike(), "zerocopy", copied))),
    (4, CannotTell, "is not decided", || {
        let run = carried(|method, _, pass| match method {
            "zerocopy" => [0.6, 1.5, 0.8, 1.9, 0.7][pass as usize % 5],
            _ => 1.0,
        });
        one(answered(run, "zerocopy", copied))
    }),
    (5, Holds, "gain is in the copy", || one(carried(|method, _, _| if method == "sendmsg" { 1.4 } else { 1.0 }))),
    (5, DoesNotHold, "gain is in the calls", || {
        one(carried(|method, _, _| if method == "writes" { 0.2 } else { 1.0 }))
    }),
    (5, CannotTell, "step is shown to gain", || one(alike())),
    (6, Holds, "2.00 times", no_copy_seen),
    (6, DoesNotHold, "3.00 times from end to end: once by the program", || one(alike())),
    (6, CannotTell, "is not known: the kernel does not say", copies_unknown),
    (18, Holds, "fewer LLC misses a message than A1 in 4 and more in 0", || misses(2.0)),
    (18, DoesNotHold, "fewer LLC misses a message than A1 in 0 and more in 4", || misses(4.0)),
    (18, CannotTell, "LLC misses are not counted", || one(alike())),
    (19, Holds, "20 numbers of cycles and misses were counted, 20 of them 0", || cycles(Some(0.0))),
    (19, DoesNotHold, "cycles (near end): n/a: no PMU driver", refused),
    (19, CannotTell, "number of cycles or misses was counted", || cycles(None)),
    (20, Holds, "it left through a NIC", over_a_nic),
    (20, DoesNotHold, "past the 32 MiB of the last level it is less", || ladder(0.4, 32 << 20)),
    (20, CannotTell, "the last level holds all of them", || ladder(0.4, 512 << 20)),
    (21, Holds, "the least is", || cpu(|_| 20)),
    (21, DoesNotHold, "takes less CPU of both ends in 0 of 2 rows", || one(alike())),
    (21, CannotTell, "95 % saved would be a ratio of 0.050", || {
        cpu(|round| [10, 200, 30, 90][round.pass as usize % 4])
    }),
];
