//! Numbers and half-sentences that the terminal and the report share.

mod cases;
mod crossing;
pub mod events;
pub mod gates;
mod load;
mod ways;

use std::time::Duration;

use msgpath_analyse::between::{self, Between, Over};
use msgpath_analyse::summary::{CaseSummary, Ratio};
pub use msgpath_analyse::words::{ends, interval, with_interval};
use msgpath_core::Delivery;
use msgpath_core::plan::Case;
use msgpath_core::units::{self, BitUnits, Glyphs, three_digits};
pub use msgpath_core::units::{decimal, per_second, range};
use msgpath_stats::estimate::Estimate;
use msgpath_stats::quantile::{Quantile, Range};
use msgpath_stats::verdict::{Verdict, may_be_the_same};

pub use cases::{expectation, first, floors, restarts, steadiness, tail};
pub use crossing::{Crossing, crossover};
pub use load::{asked, backlog, knee, lateness, load, loads, not_sustained, open_loop, overloaded, sustained};
pub use ways::{between_hosts, far_clock, ways};

/// `p50`, `p99.9`.
pub fn quantile_name(p: f64) -> String {
    let digits = format!("{:.4}", p * 100.0);
    format!("p{}", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// `1 connection`, `4 connections`.
pub fn counted(n: u64, word: &str) -> String {
    format!("{} {word}{}", n, if n == 1 { "" } else { "s" })
}

/// `4 KiB`, or `15x100` where the message is handed over in pieces; `write, 4 KiB` where the case has a label.
pub fn message(case: &Case) -> String {
    if !case.path.is_told() {
        return case.label.clone().unwrap_or_else(|| "size unknown".into());
    }
    let size = if case.pieces.count > 1 { case.pieces.to_string() } else { units::size(case.size) };
    // The engine of a periodic run is called as its transport: the path says it already.
    let label = case.label.as_ref().filter(|label| **label != case.path.transport);
    label.map_or_else(|| size.clone(), |label| format!("{label}, {size}"))
}

/// The message of a case, and the rate where it is sent by a schedule: what tells the cases of one path apart.
pub fn message_at(case: &Case) -> String {
    match case.load.rate() {
        Some(rate) => format!("{}, {rate}", message(case)),
        None => message(case),
    }
}

/// How many messages of a case there were; where not one arrived, of how many.
pub fn arrived(case: &CaseSummary, word: &str) -> String {
    let delivery = &case.delivery;
    if !case.counts_messages() {
        return format!("{word}s n/a: their size is not known");
    }
    match delivery.received {
        0 if delivery.sent > 0 => format!("0 {word}s of {}", delivery.sent),
        received => counted(case.messages.max(received), word),
    }
}

/// What became of the messages: `none lost`, or the counts that are not 0.
pub fn losses(delivery: &Delivery) -> String {
    let mut parts = Vec::new();
    if delivery.lost == 0 {
        parts.push("none lost".to_owned());
    } else {
        let share = 100.0 * delivery.lost as f64 / delivery.sent.max(1) as f64;
        parts.push(format!("{} lost ({} %)", delivery.lost, three_digits(share)));
    }
    for (count, word) in
        [(delivery.duplicated, "duplicated"), (delivery.reordered, "reordered"), (delivery.late, "late")]
    {
        if count > 0 {
            parts.push(format!("{} {word}", count));
        }
    }
    parts.join(", ")
}

/// Until when the sender's clock runs: what may be lost is not acknowledged.
pub fn sender_until(case: &Case) -> &'static str {
    if case.traits.lossy { "until its last send call returned" } else { "until the last acknowledgement" }
}

/// Until when the senders' clocks of several cases run.
pub fn senders_until<'a>(cases: impl IntoIterator<Item = &'a Case>) -> String {
    let mut until: Vec<&str> = Vec::new();
    cases.into_iter().for_each(|case| crate::view::push_new(&mut until, sender_until(case)));
    until.join(", or ")
}

/// How many payloads were compared with what was sent.
pub fn payloads(delivery: &Delivery) -> String {
    match (delivery.verified, delivery.received) {
        (0, _) => "no payload checked".into(),
        (verified, received) if verified >= received => "every payload checked".into(),
        (verified, received) if received >= 2 * verified => {
            format!("1 in {} payloads checked", (received as f64 / verified as f64).round() as u64)
        }
        (verified, received) => format!("{} of the payloads checked", percent(verified as f64 / received as f64)),
    }
}

/// Batch mode in plain words; `None` where every message has its own time.
pub fn batch(case: &CaseSummary) -> Option<String> {
    (case.batch > 1).then(|| {
        format!(
            "Batch mode: each value is the mean of {} messages, so a single slow message does not show and the \
             percentiles are those of means.",
            case.batch
        )
    })
}

/// The interval of an estimate in a table, or `no interval`.
pub fn estimate_interval(estimate: &Estimate, print: impl Fn(f64) -> String) -> String {
    ends(estimate.low, estimate.high, print).unwrap_or_else(|| "no interval".into())
}

/// The range column of a quantile, in the unit of its value: `23.8 to 24.1 µs`, `16.3 to 29.1 µs, three levels`,
/// `≥ 90.0 µs`, or for what was not observed `1.20 s more`; empty where neither end is known.
pub fn quantile_range(quantile: &Quantile, glyphs: Glyphs) -> String {
    let like = quantile.ns.or(quantile.lo_ns).unwrap_or(0) as f64;
    let print = |ns: u64| {
        let (number, unit) = glyphs.time_in(ns as f64, like);
        format!("{number} {unit}")
    };
    let range = match quantile.ends() {
        _ if quantile.range == Range::NotYet => return quantile.why.clone().unwrap_or_default(),
        _ if quantile.range == Range::Withheld => return String::new(),
        (Some(low), Some(high)) => range(print(low), print(high)),
        (Some(low), None) => format!("≥ {}", print(low)),
        (None, Some(high)) => format!("up to {}", print(high)),
        (None, None) => return mark_of(quantile).unwrap_or_default().into(),
    };
    mark_of(quantile).map_or_else(|| range.clone(), |mark| format!("{range}, {mark}"))
}

/// `last 5 runs here`: what a range between runs is made of.
pub fn between_runs(between: &[Between]) -> Option<String> {
    let most = between.iter().max_by_key(|found| found.count)?;
    Some(match most.over {
        Over::Runs => format!("last {} runs here", most.count),
        Over::Restarts => format!("{} restarts", most.count),
    })
}

/// What a range between runs means.
pub fn between_meaning(between: &[Between]) -> Option<&'static str> {
    let any = between.iter().max_by_key(|found| found.count)?;
    Some(match (any.over, any.predicts) {
        (Over::Runs, true) => {
            "Of the last runs here: where 19 of 20 further runs are expected. The other range is that of this run."
        }
        (Over::Runs, false) => "Of the last runs here: what they had; from 5 runs on, where the next is expected.",
        (Over::Restarts, true) => {
            "Of the restarts: where 19 of 20 further ones are expected. The other range is that of this run."
        }
        (Over::Restarts, false) => "Of the restarts: what they had; from 5 on, where the next is expected.",
    })
}

/// The range between runs of one quantile: `17.7 to 23.0 µs`; empty where there is none.
pub fn between_range(case: &CaseSummary, p: f64, glyphs: Glyphs) -> String {
    between::of(&case.repeats.between, p).map_or_else(String::new, |found| {
        let print = |ns: u64| {
            let (number, unit) = glyphs.time_in(ns as f64, found.lo_ns as f64);
            format!("{number} {unit}")
        };
        range(print(found.lo_ns), print(found.hi_ns))
    })
}

/// What made a range wider, in two words.
fn mark_of(quantile: &Quantile) -> Option<&str> {
    match quantile.range {
        Range::Levels | Range::Drift | Range::Few => quantile.why.as_deref(),
        Range::Interval | Range::Bound | Range::NotYet | Range::Withheld => None,
    }
}

/// Why quantiles are bounded from below alone, one sentence for each reason with the quantiles it holds for. `what` they
/// are quantiles of is empty, or ` of the round trip`.
pub fn bounds<'a>(what: &str, quantiles: impl IntoIterator<Item = &'a Quantile>) -> Vec<String> {
    let mut whys: Vec<(&str, Vec<String>)> = Vec::new();
    for quantile in quantiles {
        let Some(why) = quantile.why.as_ref().filter(|_| quantile.range == Range::Bound && quantile.hi_ns.is_none())
        else {
            continue;
        };
        let name = quantile_name(quantile.p);
        match whys.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => crate::view::push_new(names, name),
            None => whys.push((why, vec![name])),
        }
    }
    whys.into_iter().map(|(why, names)| format!("No upper end for {}{what}: {why}.", names.join(", "))).collect()
}

/// The value of a quantile. One that is a lost message, or beyond what was observed, has no number.
pub fn quantile_value(quantile: &Quantile, glyphs: Glyphs) -> String {
    match (quantile.observed(), quantile.ns) {
        _ if quantile.range == Range::Withheld => "n/a".into(),
        (Some(ns), _) => glyphs.time(ns as f64),
        (None, Some(_)) => "not yet".into(),
        (None, None) => "lost".into(),
    }
}

/// How many messages were slower, and in how many rounds where that is not all of them.
pub fn slower(quantile: &Quantile, rounds: u64) -> (String, String) {
    let bursts = if quantile.bursts < rounds && quantile.beyond > 1 {
        format!(", in {} burst{}", quantile.bursts, if quantile.bursts == 1 { "" } else { "s" })
    } else {
        String::new()
    };
    (quantile.beyond.to_string(), bursts)
}

/// What `slower than this` is counted of, where that is not every message of the case; `messages`: what they are called.
pub fn counted_times(case: &CaseSummary, messages: &str) -> Option<String> {
    let latency = &case.latency;
    let those = if latency.of_rounds < case.rounds {
        format!("{} undisturbed rounds of {}", latency.of_rounds, case.rounds)
    } else {
        counted(case.rounds, "round")
    };
    if case.batch > 1 {
        return Some(format!("Counted: {} means of {} {messages}, in {those}.", latency.of_times, case.batch));
    }
    (latency.of_times < case.messages).then(|| format!("Counted: the {} {messages} of {those}.", latency.of_times))
}

pub fn quantile(case: &CaseSummary, p: f64) -> Option<&Quantile> {
    case.latency.quantiles.iter().find(|quantile| (quantile.p - p).abs() < 1e-9)
}

/// A throughput; with [`BitUnits::Binary`] the same in 2^30 units beside it, each named.
pub fn throughput(bits: f64, units: BitUnits) -> String {
    let si = units::bits_per_second(bits, BitUnits::Si);
    match units {
        BitUnits::Si => si,
        BitUnits::Binary => format!("{si} = {}", units::bits_per_second(bits, BitUnits::Binary)),
    }
}

/// A share between 0 and 1 as `81.3 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", three_digits(100.0 * share))
}

/// A stated bound such as `2 %`: a choice, so without digits that would claim precision.
pub fn bound(share: f64) -> String {
    chosen(&format!("{} %", three_digits(100.0 * share)))
}

/// A number with its unit that somebody chose: `50 µs`, not `50.0 µs`.
pub fn chosen(text: &str) -> String {
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text.to_owned(),
    }
}

/// A size that need not be whole: `27.3 KiB`.
pub fn about_size(bytes: f64) -> String {
    let (scale, unit) = match bytes {
        b if b >= 1_073_741_824.0 => (1_073_741_824.0, "GiB"),
        b if b >= 1_048_576.0 => (1_048_576.0, "MiB"),
        b if b >= 1024.0 => (1024.0, "KiB"),
        _ => (1.0, "B"),
    };
    format!("{} {unit}", three_digits(bytes / scale))
}

/// `+38 %`, `−4.8 %`: how far a ratio lies from 1.
pub fn change(ratio: f64) -> String {
    if !ratio.is_finite() {
        return "n/a".into();
    }
    let print = |size: f64| if size < 9.95 { format!("{size:.1} %") } else { format!("{size:.0} %") };
    units::signed((ratio - 1.0) * 100.0, print)
}

/// The mark behind a change. An arrow shows which way the number went, the legend says which way is faster.
pub fn mark(ratio: &Ratio) -> char {
    match ratio.verdict {
        Verdict::Equivalent => '≈',
        Verdict::Undecided => '?',
        Verdict::Better | Verdict::Worse if ratio.ratio > 1.0 => '▲',
        Verdict::Better | Verdict::Worse => '▼',
    }
}

pub fn verdict(verdict: Verdict, metric_is_time: bool) -> &'static str {
    match (verdict, metric_is_time) {
        (Verdict::Better, true) => "faster",
        (Verdict::Better, false) => "more",
        (Verdict::Worse, true) => "slower",
        (Verdict::Worse, false) => "less",
        (Verdict::Equivalent, _) => "the same",
        (Verdict::Undecided, _) => "not decided",
    }
}

/// `3 min ago`, in the largest unit of which there are two, or one of the smallest.
pub fn ago(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [(86_400, "days"), (3_600, "h"), (60, "min")];
    match units.into_iter().find(|(unit, _)| seconds >= 2 * unit) {
        Some((unit, name)) => format!("{} {name} ago", seconds / unit),
        None => format!("{seconds} s ago"),
    }
}

/// What so many checks that stop claims and that warn mean for what is measured.
pub fn doctor_verdict(stops: usize, warns: usize) -> String {
    match (stops, warns) {
        (0, 0) => "nothing is in the way of a measurement".into(),
        (0, _) => format!("{warns} WARN: what is wrong will be seen in the numbers"),
        (_, 0) => format!("{stops} STOP: some claims cannot be made here"),
        _ => format!("{stops} STOP, {warns} WARN: some claims cannot be made here"),
    }
}

/// What the marks mean: `p50` falls when a path is faster, a throughput rises.
pub fn legend(metric: &str, margin: f64) -> String {
    let (faster, slower) = if is_time(metric) { ('▼', '▲') } else { ('▲', '▼') };
    let within = bound(margin);
    if may_be_the_same(margin) {
        format!("{faster} faster   {slower} slower   ≈ the same within {within}   ? not decided (95 %)")
    } else {
        format!("{faster} faster   {slower} slower   ? not decided (95 %); below {within} nothing is called the same")
    }
}

/// Whether smaller is better.
pub fn is_time(metric: &str) -> bool {
    metric != "throughput"
}

/// A count per message: `2.00`, and `0.001` rather than 0 for what was seen now and then.
pub fn per_message(count: f64) -> String {
    if count > 0.0 && count < 0.0005 { "<0.001".into() } else { three_digits(count) }
}

/// Why costs of these cases are n/a, each reason once.
pub fn why_unread<'a>(cases: impl Iterator<Item = &'a CaseSummary>) -> Vec<&'static str> {
    let mut whys = Vec::new();
    for cost in cases.flat_map(|case| &case.ends).map(|end| &end.cost).filter(|cost| cost.system_calls().is_none()) {
        crate::view::push_new(&mut whys, msgpath_analyse::cost::why_unread(cost));
    }
    whys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_in_the_rounds_of_the_percentiles() {
        let mut case = crate::fixture::echo().1.cases.remove(0);
        assert_eq!(counted_times(&case, "round trips"), None);
        (case.rounds, case.messages) = (40, 8_000);
        (case.latency.of_rounds, case.latency.of_times) = (30, 6_000);
        assert_eq!(
            counted_times(&case, "round trips").unwrap(),
            "Counted: the 6000 round trips of 30 undisturbed rounds of 40."
        );
        (case.batch, case.latency.of_rounds, case.latency.of_times) = (100, 40, 80);
        assert_eq!(counted_times(&case, "round trips").unwrap(), "Counted: 80 means of 100 round trips, in 40 rounds.");
    }

    #[test]
    fn what_may_be_lost_is_not_acknowledged() {
        let (_, summary) = crate::fixture::echo();
        let mut case = summary.cases[0].case.clone();
        assert_eq!(sender_until(&case), "until the last acknowledgement");
        case.traits.lossy = true;
        assert_eq!(sender_until(&case), "until its last send call returned");
        let both = "until its last send call returned, or until the last acknowledgement";
        assert_eq!(senders_until([&case, &summary.cases[0].case, &case]), both);
    }

    #[test]
    fn within_a_wide_margin_nothing_is_called_the_same() {
        assert_eq!(legend("p50", 0.02), "▼ faster   ▲ slower   ≈ the same within 2 %   ? not decided (95 %)");
        let wide = legend("p50", 0.352);
        assert_eq!(wide, "▼ faster   ▲ slower   ? not decided (95 %); below 35.2 % nothing is called the same");
        let mut comparison = crate::fixture::compare().1.comparison.unwrap();
        assert!(!crate::terminal::resolution(&comparison).contains("cannot be seen"));
        (comparison.resolution, comparison.margin) = (Some(0.352), 0.352);
        let text = crate::terminal::resolution(&comparison);
        assert!(text.contains("differed by up to 35.2 %") && text.contains("nothing is called the same"), "{text}");
    }

    #[test]
    fn names_and_numbers() {
        assert_eq!(quantile_name(0.5), "p50");
        assert_eq!(quantile_name(0.9999), "p99.99");
        assert_eq!(bound(0.02), "2 %");
        assert_eq!(bound(0.0137), "1.37 %");
        assert_eq!(about_size(28_000.0), "27.3 KiB");
        assert_eq!(change(1.384), "+38 %");
        assert_eq!(change(0.952), "−4.8 %");
        assert_eq!(change(12.34), "+1134 %");
        assert_eq!(per_message(0.0001), "<0.001");
        assert_eq!(per_message(0.0), "0");
    }

    #[test]
    fn what_was_not_checked_is_not_called_checked() {
        let delivery = |verified| Delivery { sent: 160, received: 160, verified, ..Delivery::default() };
        assert_eq!(payloads(&delivery(160)), "every payload checked");
        assert_eq!(payloads(&delivery(10)), "1 in 16 payloads checked");
        assert_eq!(payloads(&delivery(159)), "99.4 % of the payloads checked");
        assert_eq!(payloads(&delivery(0)), "no payload checked");
    }
}
