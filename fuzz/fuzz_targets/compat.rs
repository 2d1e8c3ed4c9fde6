//! What the programs of courses send and print: lines, numbers of reads, rows, receipts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msgpath_courses::classic::css432::{REPETITIONS_END, Row, plausible};
use msgpath_courses::classic::frames::{Arrival, Layout, Stamp, by_sender};
use msgpath_courses::classic::lines::Lines;
use msgpath_courses::classic::primitives::Totals;
use msgpath_courses::classic::{Receipt, shown};

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    // Lines do not depend on how they arrive, and none is longer than allowed.
    const LONGEST: usize = 256;
    let (mut lines, mut back) = (Lines::default(), Vec::new());
    'all: for part in rest.chunks(usize::from(*first).max(1)) {
        lines.push(part);
        loop {
            match lines.next_line(LONGEST) {
                Ok(Some(line)) => {
                    assert!(line.len() <= LONGEST && line.ends_with(b"\n"));
                    back.extend_from_slice(line);
                }
                Ok(None) => break,
                Err(_) => break 'all,
            }
        }
    }
    assert!(rest.starts_with(&back));
    if let Some((number, _)) = rest.split_first_chunk::<4>()
        && let Some((value, order)) = plausible(*number, REPETITIONS_END)
    {
        assert!((1..REPETITIONS_END).contains(&value) && order.bytes(value) == *number);
    }
    if let Some(receipt) = Receipt::parse(rest) {
        assert_eq!(Receipt::parse(receipt.line().as_bytes()), Some(receipt));
    }
    assert!(!shown(rest).contains(char::is_control));
    for layout in [Layout::Sockets, Layout::Engine] {
        let stamps = rest.chunks(24).filter_map(|payload| Stamp::read(layout, payload));
        let arrivals: Vec<Arrival> =
            stamps.map(|stamp| Arrival { stamp, latency_us: -stamp.sent_us, at_ns: 0, bytes: 60 }).collect();
        let counted: u64 = by_sender(&arrivals).iter().map(|one| one.frames).sum();
        assert!(counted <= arrivals.len() as u64 && (counted > 0) == !arrivals.is_empty());
    }
    for line in String::from_utf8_lossy(rest).lines() {
        if let Some(row) = Row::parse(line) {
            let _ = (row.unit(30_000_000), row.unit(u64::MAX), row.unit(0));
        }
        if let Some(totals) = Totals::parse(line) {
            assert!(Totals::parse(&totals.line()).is_some());
        }
    }
});
