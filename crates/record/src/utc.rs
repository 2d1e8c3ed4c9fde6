//! The UTC times of the record (`2026-11-21T10:04:05Z`), written and read.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The seconds of a day.
pub(crate) const DAY: u64 = 86_400;

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
    let seconds = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second;
    Some(UNIX_EPOCH + Duration::new(seconds, ns as u32))
}

fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

/// Days since 1970-01-01 in the Gregorian calendar.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let lengths = [31, 28 + u64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before: u64 = lengths[..month as usize - 1].iter().sum();
    (year - 1970) * 365 + leaps(year - 1) - leaps(1969) + before + day - 1
}

/// The time now, RFC 3339, whole seconds.
pub fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let ((year, month, day), rest) = (civil(since / DAY), since % DAY);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Year, month and day of a day since 1970-01-01: the last ones that [`days`] puts no later than it.
fn civil(day: u64) -> (u64, u64, u64) {
    let year = (1970..).take_while(|year| days(*year, 1, 1) <= day).last().unwrap_or(1970);
    let month = (1..=12).take_while(|month| days(year, *month, 1) <= day).last().unwrap_or(1);
    (year, month, day - days(year, month, 1) + 1)
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
    fn dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_778), (2026, 11, 21));
        for day in 0..60_000 {
            let (year, month, date) = civil(day);
            assert_eq!(days(year, month, date), day);
        }
    }

    #[test]
    fn the_time_now_can_be_read() {
        let read = parse(&now()).unwrap();
        assert!(read <= SystemTime::now() && read.elapsed().unwrap() < Duration::from_secs(60));
    }
}
