//! What goes into the page comes out again, and is small.

use super::pack::{LOST, SAMPLED};
use super::testing::unbase64;
use super::*;
use miniz_oxide::inflate::decompress_to_vec;
use msgpath_core::schema::MessageRow;
use msgpath_core::varint;
use proptest::prelude::*;

/// Start, connection, kind and stages of a message.
type Unpacked = (u64, u64, u64, Vec<u64>);

/// The messages of each case: an independent reading of the format.
fn unpack(embedded: &Embedded) -> Vec<Vec<Unpacked>> {
    let raw = decompress_to_vec(&unbase64(&embedded.text)).expect("raw deflate");
    assert_eq!((raw.len(), embedded.packed_bytes), (embedded.raw_bytes, unbase64(&embedded.text).len()));
    let mut bytes = raw.as_slice();
    let mut column =
        || -> Vec<u64> { (0..embedded.kept()).map(|_| varint::take(&mut bytes).expect("a whole column")).collect() };
    let (deltas, connections, kinds) = (column(), column(), column());
    let stages: Vec<Vec<u64>> = embedded.stages.iter().map(|_| column()).collect();
    assert!(bytes.is_empty(), "{} bytes too many", bytes.len());
    let mut at = 0;
    let mut cases = Vec::new();
    for case in &embedded.cases {
        let mut start = 0;
        let messages = (at..at + case.kept).map(|at| {
            start += deltas[at];
            (start, connections[at], kinds[at], stages.iter().map(|stage| stage[at]).collect())
        });
        cases.push(messages.collect());
        at += case.kept;
    }
    cases
}

/// TEST DATA. An open loop with stamps at both ends on eight connections, 10 us apart on average.
fn open_loop(count: u64) -> Vec<MessageRow> {
    let mut random = fastrand::Rng::with_seed(4);
    let mut start_ns = 1_000_000;
    let mut row = |n: u64| {
        start_ns += (-random.f64().max(1e-9).ln() * 10_000.0) as u64;
        let late = random.u64(100..3_000);
        let far = late + random.u64(4_000..16_000);
        let slow = if random.u32(..200) == 0 { random.u64(..4_000_000) } else { 0 };
        MessageRow {
            connection: random.u32(..8),
            sequence: n,
            start_ns,
            latency_ns: (n % 5_000 != 77).then_some(far + random.u64(4_000..20_000) + slow),
            late_ns: Some(late),
            far_ns: Some(far),
            ..MessageRow::default()
        }
    };
    (0..count).map(&mut row).collect()
}

#[test]
fn a_hundred_thousand_messages_are_small() {
    let embedded = embed(&open_loop(100_000), &[0], DEFAULT_EMBED);
    let per_message = embedded.packed_bytes as f64 / embedded.kept() as f64;
    assert_eq!((embedded.kept(), embedded.stages.len()), (100_000, 3));
    assert!(per_message <= 14.5, "{per_message} B a message");
    assert!(embedded.text.len() < 2_000_000, "{} bytes in the page", embedded.text.len());
}

#[test]
fn what_is_left_out_is_stood_for() {
    let rows = open_loop(30_000);
    let embedded = embed(&rows, &[0], 3_000);
    let case = &embedded.cases[0];
    assert_eq!((case.kept, case.logged, case.connections), (3_000, 30_000, 8));
    let messages = &unpack(&embedded)[0];
    let sampled = messages.iter().filter(|(_, _, kind, _)| kind & SAMPLED > 0).count();
    assert!((case.weight * sampled as f64 + (3_000 - sampled) as f64 - 30_000.0).abs() < 1e-6);
    let lost = messages.iter().filter(|(_, _, kind, _)| kind & LOST > 0).count();
    assert_eq!(lost, rows.iter().filter(|row| row.latency_ns.is_none()).count());
}

#[test]
fn an_empty_log_has_an_empty_page() {
    let embedded = embed(&msgpath_record::NO_MESSAGES, &[0], DEFAULT_EMBED);
    assert_eq!((embedded.kept(), embedded.raw_bytes), (0, 0));
    assert!(unpack(&embedded).is_empty() && embedded.stages.is_empty());
    assert_eq!(embed(&open_loop(10), &[0], 0).kept(), 0);
}

#[test]
fn every_case_has_its_own_messages() {
    let mut rows = open_loop(600);
    for (at, row) in rows.iter_mut().enumerate() {
        row.case = [2, 5, 2, 9][at % 4]; // 9 is nobody's
    }
    let embedded = embed(&rows, &[2, 5, 7], 200);
    let found: Vec<_> = embedded.cases.iter().map(|case| (case.case, case.kept, case.logged)).collect();
    assert_eq!(found, [(2, 100, 300), (5, 100, 150)]);
    for (case, messages) in embedded.cases.iter().zip(unpack(&embedded)) {
        assert!(case.rows.iter().all(|(row, _)| row.case == case.case));
        assert!(messages.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }
}

fn any_row() -> impl Strategy<Value = MessageRow> {
    let time = || prop::option::of(0_u64..1 << 40);
    let times = (0_u64..1 << 45, time(), prop::option::of(0_u64..1_000), time());
    (0_u32..3, any::<u32>(), times).prop_map(|(case, connection, (start_ns, latency_ns, late_ns, far_ns))| {
        // As the run records them: nothing arrives before it is sent or after its answer.
        let late_ns = late_ns.map(|late| late.min(latency_ns.unwrap_or(u64::MAX)));
        let far_ns = far_ns.map(|far| far.clamp(late_ns.unwrap_or(0), latency_ns.unwrap_or(u64::MAX)));
        let connection = connection.min(u32::MAX - 1);
        MessageRow { case, connection, start_ns, latency_ns, late_ns, far_ns, ..MessageRow::default() }
    })
}

proptest! {
    #[test]
    fn everything_comes_out_again(rows in prop::collection::vec(any_row(), 0..80), limit in 0_usize..100) {
        let embedded = embed(&rows, &[0, 1, 2], limit);
        prop_assert_eq!(embedded.kept(), limit.min(rows.len()));
        for (case, messages) in embedded.cases.iter().zip(unpack(&embedded)) {
            for ((row, _), (start, connection, kind, stages)) in case.rows.iter().zip(messages) {
                prop_assert_eq!((start, connection), (row.start_ns, u64::from(row.connection)));
                prop_assert_eq!(kind & LOST > 0, row.latency_ns.is_none());
                let sum: u64 = stages.iter().sum();
                match row.latency_ns {
                    Some(latency) => prop_assert_eq!(sum, latency),
                    None => prop_assert_eq!(sum, row.far_ns.or(row.late_ns).unwrap_or(0)),
                }
            }
        }
    }
}
