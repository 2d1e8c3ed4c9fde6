//! Numbers in the texts of tools.

use super::Printed;

/// Beyond this a number is none that was measured: a day in ns, and a petabit a second.
const MOST: f64 = 1e15;

/// The number behind the first of these words, its thousands apart or not.
pub(super) fn after(text: &str, words: &str) -> Option<f64> {
    leading(text.split_once(words)?.1)
}

/// The value of a line `key=value`.
pub(super) fn keyed(text: &str, key: &str) -> Option<f64> {
    text.lines().find_map(|line| leading(line.trim().strip_prefix(key)?.strip_prefix('=')?))
}

/// The number at the beginning of a text.
pub(super) fn leading(text: &str) -> Option<f64> {
    let text = text.trim_start_matches([' ', '\t']);
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ',')).unwrap_or(text.len());
    measured(text[..end].replace(',', "").trim_end_matches('.').parse().ok()?)
}

/// A number that can have been measured.
pub(super) fn measured(number: f64) -> Option<f64> {
    (number.is_finite() && number > 0.0 && number <= MOST).then_some(number)
}

/// The same in another unit.
pub(super) fn times(number: Option<f64>, factor: f64) -> Option<f64> {
    number.and_then(|number| measured(number * factor))
}

/// What was found, if that is anything; else the last line of what the tool said.
pub(super) fn found(printed: Printed, text: &str) -> Result<Printed, String> {
    let numbers = [printed.mean, printed.p50, printed.p99, printed.bits];
    if numbers.iter().any(Option::is_some) {
        return Ok(printed);
    }
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing");
    let last: String = last.trim().chars().take(160).collect();
    Err(format!("there is no result in what it printed; it ended with: {last}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_where_it_stands() {
        assert_eq!(after("a percentile 50.000 =   12.345; b", "percentile 50.000 ="), Some(12.345));
        assert_eq!(after("latency  =  1,234.5 us", "latency  ="), Some(1234.5));
        assert_eq!(after("it ends with 12.", "with"), Some(12.0));
        assert_eq!((after("none", "percentile"), after("x = y", "x ="), after("x = 0", "x =")), (None, None, None));
        assert_eq!(keyed("A_LATENCY=1\n LATENCY=23.5\r\n", "LATENCY"), Some(23.5));
        assert_eq!(keyed("LATENCY=-1\n", "LATENCY"), None, "netperf says -1 where it has none");
        assert_eq!(leading(&"9".repeat(400)), None);
        assert_eq!((times(Some(2.0), 1e3), times(Some(1e14), 1e3)), (Some(2000.0), None));
        let last = found(Printed::default(), "one\n two: refused \n\n").unwrap_err();
        assert!(last.ends_with("it ended with: two: refused"), "{last}");
    }
}
