//! What tracers of others print: any text is slices and calls that point at what is there, every line of it has become something,
//! and what is summarised is finite.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msgpath_tracers::analyse::{COLUMNS, summarise};
use msgpath_tracers::parse::{Tracer, fuzz_text, parse};
use msgpath_tracers::record::TracersHeader;

fuzz_target!(|bytes: &[u8]| {
    fuzz_text(bytes);
    let texts = [Tracer::Timehist, Tracer::Strace].map(|tracer| parse(tracer, "x", bytes));
    for text in summarise(&TracersHeader::default(), &texts).texts {
        assert!(text.waits.iter().all(|waits| waits.delays.sum_ns.is_finite() && waits.long_early <= waits.long));
        assert!(text.calls.iter().all(|calls| calls.ns.is_finite() && calls.timed <= calls.count));
        for part in text.strips.iter().flat_map(|strip| &strip.lanes).flat_map(|lane| &lane.parts) {
            assert!(part.from < part.to && part.to <= COLUMNS && part.low < part.high && part.high <= 1.0);
        }
    }
});
