//! Estimate first, then look: the user's estimate beside what was measured and what the machine allows at best.

use msgpath_core::Traits;
use msgpath_core::plan::{Between, CaseRole, Expectation, Load};
use msgpath_core::schema::{DeviceKind, FAR, Floors, NEAR, Route, RunHeader};
use msgpath_core::units::{BitUnits, Glyphs, bits_per_second, parse_count, size, three_digits};

use crate::summary::{CaseSummary, Expected, Floor};

/// The estimate of the plan beside the baseline's first case. `None` without an estimate of the kind that was measured, and
/// where nothing was measured, or at a rate that was not sustained.
pub fn expected(header: &RunHeader, cases: &[CaseSummary]) -> Option<Expected> {
    let plan = &header.plan;
    let expected = plan.expect?;
    let case = cases.iter().find(|case| case.case.role == CaseRole::Measured && case.case.path == plan.baseline)?;
    if case.is_overloaded() {
        return None;
    }
    let (estimate, measured) = match (expected, plan.workload.timed) {
        (Expectation::Time(ns), true) => {
            (ns as f64, case.latency.quantiles.iter().find(|quantile| quantile.p == 0.5)?.ns? as f64)
        }
        (Expectation::Bits(bits), false) => (bits as f64, case.throughput.as_ref()?.receiver_bits.value),
        _ => return None,
    };
    (estimate > 0.0).then(|| Expected {
        expected,
        case: case.case.id,
        measured,
        factor: measured / estimate,
        floors: header.floors.as_ref().map_or_else(Vec::new, |floors| floors_of(header, floors, case)),
    })
}

/// Speed of the link that the messages of a path cross, bits per second: as the user told it, else the rate to which the run
/// had the link of its lab limited, else that of a NIC. What a virtual device claims binds nobody.
pub fn line_rate<'a>(header: &'a RunHeader, traits: &Traits) -> Option<(f64, &'a Route)> {
    let route = header.floors.as_ref()?.route.as_ref()?;
    // What is told holds for whatever lies between the ends, where anything does.
    let told = header.plan.wire.filter(|_| route.kind != DeviceKind::Loopback);
    let nic = route.bits_per_s.filter(|_| route.kind == DeviceKind::Nic);
    let bits = told.or_else(|| shaped(header)).or(nic);
    let bits = bits.filter(|bits| traits.inet && *bits > 0)?;
    Some((bits as f64, route))
}

fn shaped(header: &RunHeader) -> Option<u64> {
    rate_of_link(header.plan.options.between.as_ref()?)
}

/// The rate of `--link`, bits per second; `None`: it has none.
pub fn rate_of_link(between: &Between) -> Option<u64> {
    let link = between.link.as_ref()?;
    let rate = link.split(',').find_map(|part| part.trim().strip_prefix("rate="))?;
    parse_count(rate).ok()
}

fn floors_of(header: &RunHeader, floors: &Floors, case: &CaseSummary) -> Vec<Floor> {
    let link = line_rate(header, &case.case.traits);
    if header.plan.workload.timed {
        let link = link.map(|(bits, route)| Floor {
            name: "link".into(),
            value: 8e9 * (case.case.size + case.case.reply) as f64 / bits,
            basis: format!(
                "{} there and {} back at {} of {}",
                size(case.case.size),
                size(case.case.reply),
                bits_per_second(bits, BitUnits::Si),
                route.device
            ),
        });
        [copies(floors, case), wakes(header, floors, case), link].into_iter().flatten().collect()
    } else {
        let link = link.map(|(bits, route)| Floor {
            name: "link".into(),
            value: bits,
            basis: format!("speed of {}, headers included", route.device),
        });
        [copy_rate(floors, case), link].into_iter().flatten().collect()
    }
}

/// Bytes that are copied for one message (echo: both ways) and the speed of a copy.
fn copied(floors: &Floors, case: &CaseSummary) -> Option<(f64, f64)> {
    Some((case.copied.bytes.filter(|bytes| *bytes > 0.0)?, floors.copy_bytes_per_s.filter(|speed| *speed > 0.0)?))
}

/// Copies of a round trip follow each other: their bytes divided by the speed of a copy.
fn copies(floors: &Floors, case: &CaseSummary) -> Option<Floor> {
    let (bytes, speed) = copied(floors, case)?;
    Some(Floor {
        name: "copies".into(),
        value: 1e9 * bytes / speed,
        basis: format!(
            "{} a round trip at {} GB/s ({})",
            size(bytes.round() as u64),
            three_digits(speed / 1e9),
            case.copied.why
        ),
    })
}

/// In a stream the two ends copy side by side: each has half of the copies.
fn copy_rate(floors: &Floors, case: &CaseSummary) -> Option<Floor> {
    let (bytes, speed) = copied(floors, case)?;
    let each = bytes / 2.0 / case.case.size as f64;
    Some(Floor {
        name: "copies".into(),
        value: 8.0 * speed / each,
        basis: format!(
            "each end copies a byte {} times at {} GB/s ({})",
            three_digits(each),
            three_digits(speed / 1e9),
            case.copied.why
        ),
    })
}

/// What it takes to get both ends to look, where both are on this machine and one message is in flight at a time: two
/// wake-ups, or, where they spin, a cache line there and back.
fn wakes(header: &RunHeader, floors: &Floors, case: &CaseSummary) -> Option<Floor> {
    let alone = match case.case.load {
        Load::Closed => case.case.inflight == 1,
        Load::Open { .. } => case.open.as_ref().is_some_and(|open| open.mean_in_flight < 1.0),
    };
    if header.host(NEAR).boot_id.is_empty() || !header.one_machine() || !alone {
        return None;
    }
    let time = |ns: f64| Glyphs::Unicode.time(ns);
    if case.case.traits.never_sleeps() {
        let value = floors.spin_round_trip_ns?;
        let basis = format!("a cache line there and back between the CPUs, both spinning: {}", time(value));
        return Some(Floor { name: "cache line".into(), value, basis });
    }
    let placement = header.plan.placement_of(&case.case);
    let one_cpu = matches!((placement.of(NEAR), placement.of(FAR)), ([near], [far]) if near == far);
    let (value, how) = if one_cpu {
        (floors.switch_round_trip_ns?, "on one CPU")
    } else {
        (floors.wake_round_trip_ns?, "between CPUs")
    };
    let basis = format!("two wake-ups a round trip {how}: {} with a futex and nothing else", time(value));
    Some(Floor { name: "wake-ups".into(), value, basis })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarise;
    use crate::testing::Build;
    use msgpath_record::Run;

    fn floors() -> Floors {
        Floors {
            wake_round_trip_ns: Some(9_000.0),
            switch_round_trip_ns: Some(3_000.0),
            spin_round_trip_ns: Some(200.0),
            copy_bytes_per_s: Some(8e9),
            last_level_cache: None,
            caches: Vec::new(),
            send: None,
            route: Some(Route {
                device: "eth0".into(),
                kind: DeviceKind::Nic,
                bits_per_s: Some(1_000_000_000),
                ..Default::default()
            }),
        }
    }

    fn of(build: &Build, expect: Expectation, change: impl Fn(&mut Run)) -> Option<Expected> {
        let mut run = build.run();
        run.header.plan.expect = Some(expect);
        run.header.floors = Some(floors());
        change(&mut run);
        summarise(&run).expectation
    }

    fn named(expected: &Expected) -> Vec<(&str, f64)> {
        expected.floors.iter().map(|floor| (floor.name.as_str(), floor.value)).collect()
    }

    #[test]
    fn an_echo_is_held_against_copies_wake_ups_and_link() {
        // 4 copies of 1,000 B at 8 GB/s; 2,000 B at 1 Gbit/s.
        let tcp = Build::echo(&["tcp:send"], &[1000]);
        let expected = of(&tcp, Expectation::Time(10_000), |_| ()).unwrap();
        assert!((expected.factor - 2.0).abs() < 0.05 && (expected.measured / 20_000.0 - 1.0).abs() < 0.03);
        assert_eq!(named(&expected), [("copies", 500.0), ("wake-ups", 9_000.0), ("link", 16_000.0)]);
        assert_eq!(
            expected.floors[0].basis,
            "4000 B a round trip at 8.00 GB/s (by the kernel: one copy in and one out, each direction)"
        );
        let one_cpu = of(&tcp, Expectation::Time(10_000), |run| {
            run.header.plan.placement.set(NEAR, vec![1]);
            run.header.plan.placement.set(FAR, vec![1]);
        });
        assert_eq!(named(&one_cpu.unwrap())[1], ("wake-ups", 3_000.0));
        let shm = of(&Build::echo(&["shm:ring/spin"], &[1000]), Expectation::Time(10_000), |_| ()).unwrap();
        assert_eq!(named(&shm), [("copies", 500.0), ("cache line", 200.0)]);
    }

    #[test]
    fn floors_that_are_not_known_are_left_out() {
        let tcp = Build::echo(&["tcp:send"], &[1000]);
        let apart = of(&tcp, Expectation::Time(10_000), |run| run.header.host_mut(FAR).boot_id = "two".into()).unwrap();
        assert_eq!(named(&apart), [("copies", 500.0), ("link", 16_000.0)]);
        let pipelined = of(&tcp, Expectation::Time(10_000), |run| run.header.plan.cases[0].inflight = 8).unwrap();
        assert!(named(&pipelined).iter().all(|(name, _)| *name != "wake-ups"));
        let nothing = of(&tcp, Expectation::Time(10_000), |run| run.header.floors = None).unwrap();
        assert!(nothing.floors.is_empty());
    }

    #[test]
    fn a_stream_is_held_against_copies_and_link() {
        let stream = Build::stream(&["tcp:send"], &[1000]).rates(|_, _| 5e8);
        let expected = of(&stream, Expectation::Bits(1_000_000_000), |_| ()).unwrap();
        assert!((expected.factor - 0.5).abs() < 1e-3);
        assert_eq!(named(&expected), [("copies", 64e9), ("link", 1e9)]);
    }

    #[test]
    fn an_estimate_of_another_kind_is_not_compared() {
        let tcp = Build::echo(&["tcp:send"], &[1000]);
        assert_eq!(of(&tcp, Expectation::Bits(1), |_| ()), None);
        assert_eq!(of(&tcp, Expectation::Time(1), |run| run.header.plan.expect = None), None);
        assert_eq!(of(&tcp, Expectation::Time(1), |run| run.rounds.clear()), None);
    }
}
