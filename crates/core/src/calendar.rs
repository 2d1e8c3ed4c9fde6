//! The Gregorian calendar: days since 1970-01-01 and their dates.

pub const DAY: i64 = 86_400;

/// From 0000-03-01 to 1970-01-01: counted from a first of March, the leap day ends a year.
const BEFORE: i64 = 719_468;
/// Days of 400 years.
const ERA: i64 = 146_097;

/// Days since 1970-01-01 of a year, a month (1 to 12) and a day of it.
pub fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    era * ERA + of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + day - 1 - BEFORE
}

/// Year, month and day of a number of days since 1970-01-01.
pub fn date(days: i64) -> (i64, i64, i64) {
    let days = days + BEFORE;
    let (era, of_era) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + 400 * era + i64::from(month <= 2), month, day)
}

/// Date, hour, minute and second of seconds since 1970-01-01: `((year, month, day), (hour, minute, second))`.
pub fn date_and_time(seconds: i64) -> ((i64, i64, i64), (i64, i64, i64)) {
    let second = seconds.rem_euclid(DAY);
    (date(seconds.div_euclid(DAY)), (second / 3_600, second / 60 % 60, second % 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(20_778), (2026, 11, 21));
        assert_eq!(date(-1), (1969, 12, 31));
        for day in -60_000..60_000 {
            let (year, month, of_month) = date(day);
            assert_eq!(days(year, month, of_month), day);
        }
        assert_eq!(date_and_time(-1), ((1969, 12, 31), (23, 59, 59)));
    }
}
