//! What measuring tools of others print: any text is numbers that can have been measured, or a reason.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msgpath_tools::{Exchange, Over, TOOLS, Work};

fuzz_target!(|text: &str| {
    for (at, tool) in TOOLS.iter().enumerate() {
        for work in [Work::RoundTrips, Work::AtRate(1e4), Work::Stream] {
            let over = if at % 2 == 0 { Over::Tcp } else { Over::Udp };
            match (tool.read)(&Exchange { over, work, size: 64, spin: false }, text) {
                Ok(printed) => {
                    let numbers = [printed.mean, printed.p50, printed.p99, printed.bits];
                    assert!(numbers.iter().any(Option::is_some));
                    assert!(numbers.iter().flatten().all(|one| one.is_finite() && *one > 0.0 && *one <= 1e15));
                    assert!(printed.round_trip(printed.p50).is_none_or(|ns| Some(ns) >= printed.p50));
                }
                Err(why) => assert!(why.chars().count() <= 400, "{why}"),
            }
        }
    }
});
