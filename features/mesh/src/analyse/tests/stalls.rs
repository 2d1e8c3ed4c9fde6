//! Hosts that stall, and hosts with a long tail.

use super::*;

/// One that is 0 or more, of which the mean is this.
fn poisson(random: &mut fastrand::Rng, mean: f64) -> u64 {
    let (mut count, mut product) = (0, random.f64());
    while product > (-mean).exp() {
        count += 1;
        product *= random.f64();
    }
    count
}

/// Host 7 stands still for 20 ms six times a second; every pair is measured for 2 s.
fn stalls(random: &mut fastrand::Rng, slot: &Slot) -> Vec<(u64, u64)> {
    let stalls = if slot.near == 7 || slot.far == 7 { poisson(random, 12.0) } else { 0 };
    (0..stalls).map(|_| (random.u64(10_000_000..21_000_000), 1)).collect()
}

fn quiet<'a>() -> Truth<'a> {
    Truth { noise: 0.05, messages: 2_000, ..Truth::default() }
}

#[test]
fn host_that_stands_still_now_and_then_is_named_with_numbers() {
    for (hosts, racks, per_rack) in [(8, false, 8), (12, false, 8), (8, true, 2), (48, true, 8)] {
        for seed in 0..10 {
            let (summary, _) = Truth { hosts, racks, per_rack, slower: &stalls, ..quiet() }.summary(seed);
            assert_eq!(codes(&summary), ["M09"], "{hosts} {seed}: {:#?}", summary.findings);
            let found = &summary.findings[0];
            assert_eq!(found.confidence, Confidence::Sure, "{}", found.text);
            assert!(
                found.text.starts_with("n7 stalls ") && found.text.contains(" times a second for 1"),
                "{}",
                found.text
            );
            assert!(found.text.contains(&format!("of the time of its {} pairs", hosts - 1)), "{}", found.text);
            assert!(found.text.ends_with("of other pairs 0 %"), "{}", found.text);
            let [share, per_s] = ["share", "per_s"].map(|name| found.evidence[name]);
            assert!((0.06..0.13).contains(&share) && (4.0..7.0).contains(&per_s), "{}", found.text);
        }
    }
}

#[test]
fn host_with_a_long_tail_is_named() {
    let tail = |random: &mut fastrand::Rng, slot: &Slot| {
        let far = if slot.near == 7 || slot.far == 7 { 4e6 } else { 1.4e6 };
        vec![((far * (0.1 * normal(random)).exp()) as u64, 40)]
    };
    for seed in 0..10 {
        let (summary, _) = Truth { slower: &tail, ..quiet() }.summary(seed);
        assert_eq!(codes(&summary), ["M09"], "{seed}: {:#?}", summary.findings);
        let text = &summary.findings[0].text;
        assert!(
            text.starts_with("n7 has a long tail: p99 of its 11 pairs is ")
                && text.contains(" times p50; of other pairs it is 1."),
            "{text}"
        );
    }
    // What is as much slower in its median has no tail.
    let host = |at: u32| if at == 7 { 3_f64.ln() } else { 0.0 };
    let slow = |_: &mut fastrand::Rng, slot: &Slot| {
        vec![(if slot.near == 7 || slot.far == 7 { 4_200_000 } else { 1_400_000 }, 40)]
    };
    let (summary, _) = Truth { slower: &slow, host: &host, ..quiet() }.summary(1);
    assert_eq!(codes(&summary), ["M01"], "{:#?}", summary.findings);
    // Nor has one whose median is shorter: its tail is that of the others.
    let host = |at: u32| if at == 7 { -(3_f64.ln()) } else { 0.0 };
    let (summary, _) = Truth { slower: &|_, _| vec![(1_400_000, 40)], host: &host, ..quiet() }.summary(1);
    assert_eq!(codes(&summary), ["M06"], "{:#?}", summary.findings);
}

#[test]
fn stalls_of_a_host_that_waits_for_its_cpu_are_not_surely_its_own() {
    let quota = |at: u32, ns: u64| {
        let usual = waits(ns, 0.05, 1_000);
        if at == 7 { EndWait { throttled_ns: ns / 10, ..usual } } else { usual }
    };
    let preempted = |at: u32, ns: u64| EndWait { preempted: if at == 7 { 9_000 } else { 0 }, ..waits(ns, 0.02, 9_000) };
    let (summary, _) = Truth { slower: &stalls, wait: &preempted, ..quiet() }.summary(3);
    assert_eq!(codes(&summary), ["M08", "M09"], "{:#?}", summary.findings);
    assert_eq!(summary.findings[1].confidence, Confidence::Likely);
    assert!(
        summary.findings[1].text.contains("its threads waited 2 % of the time for a CPU"),
        "{:#?}",
        summary.findings
    );
    let (summary, _) = Truth { slower: &stalls, wait: &quota, ..quiet() }.summary(3);
    assert_eq!(codes(&summary), ["M08", "M06"], "what the quota takes is no stall: {:#?}", summary.findings);
    assert!(
        summary.findings[0].text.contains("its CPU quota stopped it for 10 % of the time"),
        "{:#?}",
        summary.findings
    );
}

#[test]
fn stalls_here_and_there_accuse_no_host() {
    // One or two stalls in a third of the pairs, of a sixth of a percent to two of their time each.
    let somewhere = |random: &mut fastrand::Rng, _: &Slot| match random.u32(0..6) {
        0 => vec![(random.u64(5_000_000..40_000_000), 1)],
        1 => vec![(random.u64(5_000_000..40_000_000), 2)],
        _ => Vec::new(),
    };
    for seed in 0..50 {
        let (summary, _) = Truth { hosts: 8, slower: &somewhere, ..quiet() }.summary(seed);
        assert_eq!(codes(&summary), ["M06"], "{seed}: {:#?}", summary.findings);
    }
    // Everybody does: none is slower than the others.
    let all = |random: &mut fastrand::Rng, _: &Slot| vec![(20_000_000, poisson(random, 12.0))];
    for seed in 0..20 {
        let (summary, _) = Truth { hosts: 8, slower: &all, ..quiet() }.summary(seed);
        assert!(codes(&summary).iter().all(|code| *code != "M09"), "{seed}: {:#?}", summary.findings);
    }
}
