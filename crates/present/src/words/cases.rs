//! What is known of a case beside its quantiles, in words: levels, first messages, restarts, the estimate of the user.

use msgpath_analyse::summary::{CaseSummary, Expected, FirstMessages, Floor};
use msgpath_core::plan::Expectation;
use msgpath_core::units::{self, BitUnits, Glyphs, three_digits};
use msgpath_stats::restarts::Restarts;
use msgpath_stats::steady::{Steadiness, SteadyClass};

use super::{chosen, counted, interval, overloaded, percent, range, with_interval};

/// `steadiness`: how the rounds lie in time, in one line.
pub fn steadiness(steadiness: &Steadiness, rounds: u64, glyphs: Glyphs) -> String {
    let levels = steadiness.levels_in_words();
    let (fastest, slowest) = steadiness.range_ns;
    let range = range(glyphs.time(fastest), glyphs.time(slowest)).replace(" to ", " and ");
    let spread = percent(steadiness.spread);
    let text = match (steadiness.class, steadiness.change_points.as_slice()) {
        (SteadyClass::NeverSettled, changes) => {
            let seen = if changes.is_empty() { "rounds".into() } else { levels };
            format!("never settled: {seen} between {range}; the ranges span them")
        }
        (SteadyClass::Flat, _) if steadiness.levels > 1 => {
            format!("no trend, but {levels}: the {rounds} rounds jump between {range}")
        }
        (SteadyClass::Flat, _) => format!("flat: one level over {rounds} rounds"),
        (SteadyClass::WarmUp, [at]) => format!("warm-up: the first {at} rounds were slower, by {spread}"),
        (SteadyClass::SlowDown, [at]) => format!("slow-down: after the first {at} the rounds were slower, by {spread}"),
        (class, _) => format!("{}: {levels}, up to {spread} apart", class.words()),
    };
    if steadiness.drifting && steadiness.class != SteadyClass::NeverSettled {
        return format!("{text}; the rounds drift");
    }
    text
}

/// `first`: the first messages of the connections against the rest.
pub fn first(first: &FirstMessages, glyphs: Glyphs) -> String {
    let each = first.per_connection;
    let whole = (each - each.round()).abs() < 0.05;
    let count =
        if whole { counted(each.round() as u64, "message") } else { format!("{} messages", three_digits(each)) };
    let p50 = first.p50_ns.map_or_else(|| "lost".into(), |ns| glyphs.time(ns as f64));
    let ratio = first.ratio.as_ref().map_or_else(String::new, |ratio| {
        let interval =
            interval(ratio.low, ratio.high, three_digits).map_or_else(String::new, |ends| format!(" ({ends})"));
        format!(", {} times the rest{interval}", three_digits(ratio.value))
    });
    let slowest = first.slowest_ns.map_or_else(String::new, |ns| format!(", slowest {}", glyphs.time(ns as f64)));
    format!("{count} of a connection, in no other number: p50 {p50}{ratio}{slowest}")
}

/// `restarts`: where the variance comes from.
pub fn restarts(restarts: &Restarts, glyphs: Glyphs) -> String {
    let p50 = &restarts.p50_ns;
    let advice = match (restarts.dominate, restarts.best_rounds) {
        (true, _) => "; restarts dominate: more rounds will not help".into(),
        (false, Some(rounds)) => format!("; {rounds} rounds a restart use the time best"),
        (false, None) => String::new(),
    };
    format!(
        "{}: p50 over them {}; deviation {} within a restart, {} between them{advice}",
        restarts.restarts,
        with_interval(p50.value, p50.low, p50.high, |ns| glyphs.time(ns)),
        percent(restarts.within),
        percent(restarts.between)
    )
}

/// `tail`: how much of the time goes into the slowest messages; `None` where none was that slow.
pub fn tail(case: &CaseSummary) -> Option<String> {
    let part = |medians: u32, messages: Option<f64>, time: Option<f64>| {
        let (messages, time) = (messages.filter(|share| *share > 0.0)?, time?);
        Some(format!(
            "slower than {medians} medians: {} of the messages, {} of the time",
            percent(messages),
            percent(time)
        ))
    };
    let parts = [
        part(10, case.spread.message_share_over_10x, case.spread.time_share_over_10x),
        part(100, case.spread.message_share_over_100x, case.spread.time_share_over_100x),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The estimate first, then what was measured: `expected 50 µs   measured 8.10 µs (6.17 times faster)`.
pub fn expectation(expected: &Expected, case: Option<&CaseSummary>, glyphs: Glyphs) -> String {
    let faster = |times: f64, more: &str, less: &str| match times {
        t if t > 1.0 => format!("{} times {more}", three_digits(t)),
        t if t < 1.0 => format!("{} times {less}", three_digits(1.0 / t)),
        _ => "as expected".into(),
    };
    let (estimate, measured, words) = match expected.expected {
        Expectation::Time(ns) => (
            chosen(&glyphs.time(ns as f64)),
            glyphs.time(expected.measured),
            faster(expected.factor, "slower", "faster"),
        ),
        Expectation::Bits(bits) => (
            chosen(&units::bits_per_second(bits as f64, BitUnits::Si)),
            units::bits_per_second(expected.measured, BitUnits::Si),
            faster(expected.factor, "more", "less"),
        ),
    };
    if case.is_some_and(|case| overloaded(case).is_some()) {
        return format!("expected {estimate}   measured: not sustained");
    }
    format!("expected {estimate}   measured {measured} ({words})")
}

/// What the machine allows at best: `floor: copies 10 ns, wake-ups 5.10 µs`; empty where nothing is known.
pub fn floors(expected: &Expected, glyphs: Glyphs) -> String {
    if expected.floors.is_empty() {
        return String::new();
    }
    let time = matches!(expected.expected, Expectation::Time(_));
    let value = |floor: &Floor| {
        if time { glyphs.time(floor.value) } else { units::bits_per_second(floor.value, BitUnits::Si) }
    };
    let parts: Vec<String> = expected.floors.iter().map(|floor| format!("{} {}", floor.name, value(floor))).collect();
    format!("{}: {}", if time { "floor" } else { "at best" }, parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_stats::estimate::Estimate;

    const G: Glyphs = Glyphs::Unicode;

    fn steady(class: SteadyClass, change_points: &[u64]) -> Steadiness {
        Steadiness {
            class,
            change_points: change_points.to_vec(),
            stretches: (0..=change_points.len() as u64).collect(),
            levels: change_points.len() as u64 + 1,
            warm_up_rounds: 0,
            spread: 0.12,
            kpss: None,
            drifting: false,
            range_ns: (4_200.0, 7_100.0),
        }
    }

    #[test]
    fn levels_in_words() {
        let text = |class, changes: &[u64]| steadiness(&steady(class, changes), 40, G);
        assert_eq!(text(SteadyClass::Flat, &[]), "flat: one level over 40 rounds");
        assert_eq!(text(SteadyClass::WarmUp, &[6]), "warm-up: the first 6 rounds were slower, by 12.0 %");
        assert_eq!(text(SteadyClass::SlowDown, &[9, 20]), "slow-down: 3 levels, up to 12.0 % apart");
        assert_eq!(
            text(SteadyClass::NeverSettled, &[1; 11]),
            "never settled: 12 levels between 4.20 and 7.10 µs; the ranges span them"
        );
        assert!(text(SteadyClass::NeverSettled, &[]).starts_with("never settled: rounds between"));
        let two = Steadiness { levels: 2, ..steady(SteadyClass::Flat, &[]) };
        assert_eq!(steadiness(&two, 40, G), "no trend, but 2 levels: the 40 rounds jump between 4.20 and 7.10 µs");
        let back = Steadiness { levels: 2, ..steady(SteadyClass::NeverSettled, &[7, 14, 21]) };
        assert!(steadiness(&back, 40, G).starts_with("never settled: 2 levels in 4 stretches between"));
        let drifting = Steadiness { drifting: true, ..steady(SteadyClass::Flat, &[]) };
        assert!(steadiness(&drifting, 40, G).ends_with("the rounds drift"));
    }

    #[test]
    fn the_first_messages_are_counted() {
        let mut messages = FirstMessages {
            messages: 800,
            per_connection: 100.0,
            p50_ns: Some(31_000),
            slowest_ns: None,
            ratio: Some(Estimate { value: 1.4, low: Some(1.3), high: Some(1.5) }),
        };
        assert_eq!(
            first(&messages, G),
            "100 messages of a connection, in no other number: p50 31.0 µs, 1.40 times the rest (95 %: 1.30 to 1.50)"
        );
        messages.per_connection = 12.5;
        assert!(first(&messages, G).starts_with("12.5 messages"));
        messages.per_connection = 1.0;
        assert!(first(&messages, G).starts_with("1 message of"));
    }

    #[test]
    fn dominating_restarts_make_more_rounds_useless() {
        let mut levels = Restarts {
            restarts: 3,
            within: 0.021,
            between: 0.05,
            p50_ns: Estimate { value: 21_400.0, low: Some(20_900.0), high: Some(21_900.0) },
            dominate: true,
            best_rounds: Some(2),
        };
        assert_eq!(
            restarts(&levels, G),
            "3: p50 over them 21.4 µs (95 %: 20.9 to 21.9 µs); deviation 2.10 % within a restart, 5.00 % between \
             them; restarts dominate: more rounds will not help"
        );
        levels.dominate = false;
        assert!(restarts(&levels, G).ends_with("; 2 rounds a restart use the time best"));
    }

    #[test]
    fn the_estimate_comes_first() {
        let floor = |name: &str, value| Floor { name: name.into(), value, basis: String::new() };
        let mut expected = Expected {
            expected: Expectation::Time(50_000),
            case: 0,
            measured: 8_100.0,
            factor: 0.162,
            floors: vec![floor("copies", 10.0), floor("wake-ups", 5_100.0)],
        };
        assert_eq!(expectation(&expected, None, G), "expected 50 µs   measured 8.10 µs (6.17 times faster)");
        assert_eq!(floors(&expected, G), "floor: copies 10 ns, wake-ups 5.10 µs");
        expected.factor = 1.0;
        assert!(expectation(&expected, None, G).ends_with("(as expected)"));
        let stream = Expected { expected: Expectation::Bits(10_000_000_000), measured: 5e9, factor: 0.5, ..expected };
        let text = expectation(&stream, None, G);
        assert!(text.starts_with("expected 10 Gbit/s   measured 5.00 Gbit/s (2.00 times less)"), "{text}");
    }
}
