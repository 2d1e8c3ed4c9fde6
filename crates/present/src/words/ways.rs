//! One way between ends without a common clock.

use msgpath_analyse::one_way::{FarClock, Ways};
use msgpath_analyse::words::range_in_words;
use msgpath_core::units::Glyphs;
use msgpath_stats::quantile::Quantile;

use super::{quantile_name, quantile_value};

/// What no stamp tells.
const UNKNOWN: &str =
    "A path that is slower one way cannot be told from an offset of the clocks: the bound covers both.";

/// Both ways, with the bound of the clocks.
pub fn ways(ways: &Ways, glyphs: Glyphs) -> String {
    let time = |quantile: &Quantile| {
        let range = range_in_words(quantile).map_or_else(String::new, |range| format!(" ({range})"));
        format!("{}{range}", quantile_value(quantile, glyphs))
    };
    let bound = format!("{}{}", glyphs.plus_minus(), glyphs.time(ways.within_ns));
    let lines = ways.request.iter().zip(&ways.reply).enumerate().map(|(at, (request, reply))| {
        let each = if at == 0 { format!(", each {bound} (clock bound)") } else { String::new() };
        format!("{}: request {}, reply {}{each}", quantile_name(request.p), time(request), time(reply))
    });
    let lines: Vec<String> = lines.collect();
    let between = match ways.far_end.first() {
        Some(far) => format!(" Between them, by the far end's clock: {} {}.", quantile_name(far.p), time(far)),
        None => String::new(),
    };
    format!("One way, by two clocks, {}.{between} {UNKNOWN}", lines.join("; "))
}

/// What the clocks leave open of stages on two hosts; `bound`: `±1.2 µs`.
pub fn between_hosts(bound: &str) -> String {
    format!(
        "Both ends on one axis, each by its own clock: the time between the two hosts is {bound} (clock bound) there and back; what \
         one of the two gains by it the other loses, in every column alike."
    )
}

/// What is known of the far end's clock.
pub fn far_clock(clock: &FarClock) -> String {
    format!("The far end's clock, by the messages themselves: {}.", clock.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_stand_with_their_bound() {
        let quantile = |p: f64, ns: u64| Quantile {
            p,
            ns: Some(ns),
            lo_ns: Some(ns - 200),
            hi_ns: Some(ns + 200),
            beyond: 100,
            bursts: 40,
            ..Quantile::default()
        };
        let found = Ways {
            messages: 20_000,
            request: vec![quantile(0.5, 12_100), quantile(0.99, 31_000)],
            far_end: vec![quantile(0.5, 600)],
            reply: vec![quantile(0.5, 9_800), quantile(0.99, 18_200)],
            within_ns: 2_300.0,
        };
        let text = ways(&found, Glyphs::Unicode);
        assert_eq!(
            text,
            "One way, by two clocks, p50: request 12.1 µs (95 %: 11.9 to 12.3 µs), reply 9.80 µs (95 %: 9.60 to 10.0 µs), each ±2.30 µs \
             (clock bound); p99: request 31.0 µs (95 %: 30.8 to 31.2 µs), reply 18.2 µs (95 %: 18.0 to 18.4 µs). Between them, by the far \
             end's clock: p50 600 ns (95 %: 400 to 800 ns). A path that is slower one way cannot be told from an offset of the \
             clocks: the bound covers both."
        );
        assert!(ways(&found, Glyphs::Ascii).contains("each +/-2.30 us (clock bound)"));
    }
}
