//! The UTC times of the record (`2026-11-21T10:04:05Z`), written and read.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use msgpath_core::calendar;

/// An RFC 3339 time in UTC, from 1970 to 9999; a fraction of a second is kept to the ns. `None`: it is something else.
pub fn parse(text: &str) -> Option<SystemTime> {
    let text = text.strip_suffix('Z')?;
    let (date, time) = text.split_once('T')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let numbers = |text: &str, by: char| -> Option<[u64; 3]> {
        let numbers: Option<Vec<u64>> = text.split(by).map(digits).collect();
        numbers?.try_into().ok()
    };
    let ([year, month, day], [hour, minute, second]) = (numbers(date, '-')?, numbers(time, ':')?);
    let fits = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !fits || hour > 23 || minute > 59 || second > 60 || fraction.len() > 9 {
        return None;
    }
    let ns = digits(fraction)? * 10_u64.pow(9 - fraction.len() as u32);
    let days = calendar::days(year as i64, month as i64, day as i64) as u64;
    let seconds = days * calendar::DAY as u64 + hour * 3600 + minute * 60 + second;
    Some(UNIX_EPOCH + Duration::new(seconds, ns as u32))
}

/// The last second of 9999.
const MOST: u64 = 253_402_300_799;

fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

/// The time now, RFC 3339, whole seconds.
pub fn now() -> String {
    text(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

/// A time in s since 1970, in the same form.
pub fn text(seconds: u64) -> String {
    let ((year, month, day), (hour, minute, second)) = calendar::date_and_time(seconds.min(MOST) as i64);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let check = |text, expected: Option<f64>| {
            let seconds = parse(text).map(|time| time.duration_since(UNIX_EPOCH).unwrap().as_secs_f64());
            assert_eq!(seconds, expected, "{text}");
        };
        check("1970-01-01T00:00:00Z", Some(0.0));
        check("2000-03-01T00:00:00Z", Some(951_868_800.0));
        check("2024-02-29T12:30:15.25Z", Some(1_709_209_815.25));
        check("2100-03-01T00:00:00Z", Some(4_107_542_400.0));
        for bad in ["", "Z", "T:Z", "2026-13-01T00:00:00Z", "2026-11-21T10:04:05", "2026-11-21T+1:04:05Z", "2026-1T1Z"]
        {
            check(bad, None);
        }
    }

    #[test]
    fn the_time_now_can_be_read() {
        let read = parse(&now()).unwrap();
        assert!(read <= SystemTime::now() && read.elapsed().unwrap() < Duration::from_secs(60));
    }
}
