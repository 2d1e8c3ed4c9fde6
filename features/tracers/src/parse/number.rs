//! Times as tracers print them, in whole nanoseconds: a binary fraction would round them.

/// The largest time that is taken, ns: 73 years, so that sums of two fit anywhere.
pub(super) const MOST: u64 = 1 << 61;

/// `12.034567` seconds; at most nine decimals, and a point must be there, or the comma of other languages.
pub(super) fn seconds(text: &str) -> Option<u64> {
    decimal(text, 1_000_000_000, 9)
}

/// `1795705730` seconds.
pub(super) fn whole_seconds(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse::<u64>().ok().filter(|_| digits)?.checked_mul(1_000_000_000).filter(|ns| *ns <= MOST)
}

/// `0.014` milliseconds.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    decimal(text, 1_000_000, 6)
}

fn decimal(text: &str, unit: u64, most_digits: u32) -> Option<u64> {
    let (whole, fraction) = text.split_once(['.', ','])?;
    let digits = |text: &str, most: usize| {
        (!text.is_empty() && text.len() <= most && text.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| text.parse::<u64>().ok())?
    };
    let part = digits(fraction, most_digits as usize)? * 10_u64.pow(most_digits - fraction.len() as u32);
    digits(whole, 18)?.checked_mul(unit)?.checked_add(part).filter(|ns| *ns <= MOST)
}

/// `12:34:56` or `12:34:56.123456`, ns since midnight.
pub(super) fn time_of_day(text: &str) -> Option<u64> {
    let (clock, fraction) = text.split_once(['.', ',']).unwrap_or((text, "0"));
    let mut parts = clock.split(':');
    let mut part = |most: u64| {
        let text = parts.next().filter(|text| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit()))?;
        text.parse::<u64>().ok().filter(|part| *part <= most)
    };
    let (hour, minute, second) = (part(23)?, part(59)?, part(60)?);
    if parts.next().is_some() {
        return None;
    }
    Some((hour * 3600 + minute * 60 + second) * 1_000_000_000 + seconds(&format!("0.{fraction}"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_to_the_nanosecond() {
        assert_eq!(seconds("79371.874569"), Some(79_371_874_569_000));
        assert_eq!(seconds("0.000000001"), Some(1));
        assert_eq!((seconds("79371,5"), whole_seconds("12")), (Some(79_371_500_000_000), Some(12_000_000_000)));
        assert_eq!([whole_seconds("+1"), whole_seconds(""), whole_seconds("99999999999999")], [None; 3]);
        assert_eq!(milliseconds("11.002"), Some(11_002_000));
        assert_eq!(milliseconds("0.0000001"), None, "too many decimals");
        assert_eq!(time_of_day("00:01:02.5"), Some(62_500_000_000));
        assert_eq!(time_of_day("23:59:59"), Some(86_399_000_000_000));
        for bad in
            ["", ".", "1", "1.", ".5", "-1.0", "+1.0", "1e3.0", "1.2.3", "99999999999.0", "18446744073709551616.0"]
        {
            assert_eq!(seconds(bad), None, "{bad}");
        }
        for bad in ["1:2:3", "24:00:00", "00:60:00", "00:00:00:00", "00:00", "00:00:00.x"] {
            assert_eq!(time_of_day(bad), None, "{bad}");
        }
    }
}
