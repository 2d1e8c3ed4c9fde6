//! Sizes, times and rates: how they are typed and how they are printed. One formatter for the whole program.
//!
//! Sizes: `K M G` are 1024 (`64K` = 65 536 bytes). Rates: `k M G` are 1000. Times need a unit.

use std::fmt;

use crate::schedule::Rate;

/// A text that is not the number it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}, got {input:?}")]
pub struct ParseError {
    /// What was expected.
    pub what: String,
    /// What was typed.
    pub input: String,
}

fn wrong(what: &str, input: &str) -> ParseError {
    ParseError { what: what.into(), input: input.into() }
}

fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    text.split_at(end)
}

fn scaled(text: &str, what: &str, factor: impl Fn(&str) -> Option<u64>) -> Result<u64, ParseError> {
    let (digits, suffix) = split_number(text.trim());
    let digits = digits.replace('_', "");
    let factor = factor(suffix.trim()).ok_or_else(|| wrong(what, text))?;
    if let Some((whole, part)) = digits.split_once('.') {
        if whole.is_empty() || part.is_empty() || part.len() > 9 || part.contains('.') {
            return Err(wrong(what, text));
        }
        let whole: u64 = whole.parse().map_err(|_| wrong(what, text))?;
        let scale = 10_u128.pow(part.len() as u32);
        let part: u64 = part.parse().map_err(|_| wrong(what, text))?;
        let value = (u128::from(whole) * scale + u128::from(part)).checked_mul(u128::from(factor));
        let value = value.and_then(|value| u64::try_from(value / scale).ok());
        return value.ok_or_else(|| wrong(&format!("{what} that fits in 64 bits"), text));
    }
    let number: u64 = digits.parse().map_err(|_| wrong(what, text))?;
    number.checked_mul(factor).ok_or_else(|| wrong(&format!("{what} that fits in 64 bits"), text))
}

/// A size in bytes: `64`, `4K`, `1M`, `1MiB`, `1.5K`. `K M G` are powers of 1024.
///
/// # Errors
/// Not a number, an unknown suffix, or more than 64 bits.
pub fn parse_size(text: &str) -> Result<u64, ParseError> {
    scaled(text, "a size such as 64, 4K or 1M", |suffix| {
        Some(match suffix {
            "" | "B" => 1,
            "K" | "k" | "KiB" => 1 << 10,
            "M" | "MiB" => 1 << 20,
            "G" | "GiB" => 1 << 30,
            _ => return None,
        })
    })
}

/// A count or a rate: `1000`, `10k`, `2M`. `k M G` are powers of 1000.
///
/// # Errors
/// Not a number, an unknown suffix, or more than 64 bits.
pub fn parse_count(text: &str) -> Result<u64, ParseError> {
    scaled(text, "a number such as 1000, 10k or 2M", |suffix| {
        Some(match suffix {
            "" => 1,
            "k" | "K" => 1_000,
            "M" => 1_000_000,
            "G" => 1_000_000_000,
            _ => return None,
        })
    })
}

/// A time in nanoseconds. The unit is required: `10s`, `5us`, `1.5ms`, `3m`, `1m30s`.
///
/// # Errors
/// Not a number, no or an unknown unit, or more than 64 bits.
pub fn parse_time(text: &str) -> Result<u64, ParseError> {
    // `1m30s`: parts from the larger unit to the smaller.
    let text = text.trim();
    let starts = |at: &usize| {
        let bytes = text.as_bytes();
        *at > 0 && bytes[*at].is_ascii_digit() && !(bytes[at - 1].is_ascii_digit() || b"._".contains(&bytes[at - 1]))
    };
    let Some(at) = (0..text.len().min(64)).rfind(starts) else { return one_time(text) };
    let whole = |part: &str| one_time(part).map_err(|_| wrong(TIME, text));
    let (first, last) = (parse_time(&text[..at]).map_err(|_| wrong(TIME, text))?, whole(&text[at..])?);
    first.checked_add(last).filter(|_| first > last).ok_or_else(|| wrong(TIME, text))
}

const TIME: &str = "a time such as 10s, 5ms, 50us or 1m30s";

/// A number and its unit.
fn one_time(text: &str) -> Result<u64, ParseError> {
    scaled(text, TIME, |unit| {
        Some(match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        })
    })
}

/// Like [`parse_time`], but a bare number means seconds (the habit of `-t 10`).
///
/// # Errors
/// As [`parse_time`].
pub fn parse_time_or_seconds(text: &str) -> Result<u64, ParseError> {
    if text.trim().ends_with(|c: char| c.is_ascii_digit()) {
        parse_time(&format!("{}s", text.trim()))
    } else {
        parse_time(text)
    }
}

/// The most sizes that one list may hold.
pub const MAX_LIST: usize = 64;

/// A list of sizes: `64,4K`, or a range `64..1M` that steps by ×4 and always contains its end.
///
/// # Errors
/// A part that is not a size, a range that runs backwards or starts at 0, or more than [`MAX_LIST`] sizes.
pub fn parse_sizes(text: &str) -> Result<Vec<u64>, ParseError> {
    let mut sizes = Vec::new();
    for part in text.split(',') {
        if let Some((low, high)) = part.split_once("..") {
            let (low, high) = (parse_size(low)?, parse_size(high)?);
            if low == 0 || low > high {
                return Err(wrong("a range of sizes from small to large, such as 64..1M", part));
            }
            let mut size = low;
            while size < high {
                sizes.push(size);
                size = size.saturating_mul(4);
            }
            sizes.push(high);
        } else {
            sizes.push(parse_size(part)?);
        }
    }
    let mut seen = std::collections::HashSet::new();
    sizes.retain(|size| seen.insert(*size));
    if sizes.len() > MAX_LIST {
        return Err(wrong(&format!("at most {MAX_LIST} sizes"), text));
    }
    Ok(sizes)
}

/// A rate in messages a second: `10k`, `0.5`, `20k/s`. `k M G` are powers of 1000.
///
/// # Errors
/// Not a number, an unknown suffix, or not from 0.001 to 100 million.
pub fn parse_rate(text: &str) -> Result<Rate, ParseError> {
    const WHAT: &str = "a rate in messages a second such as 500, 10k or 1k..200k";
    let text = text.trim();
    // In thousandths, as a rate is kept.
    let milli = scaled(text.strip_suffix("/s").unwrap_or(text), WHAT, |suffix| {
        Some(match suffix {
            "" => 1_000,
            "k" | "K" => 1_000_000,
            "M" => 1_000_000_000,
            "G" => 1_000_000_000_000,
            _ => return None,
        })
    })
    .map_err(|_| wrong(WHAT, text))?;
    Rate::per_second(milli as f64 / 1e3).ok_or_else(|| wrong("a rate from 0.001 to 100M messages a second", text))
}

/// A list of rates: `10k`, `1k,5k`, or a range `1k..200k` that steps by ×2 and always contains its end.
///
/// # Errors
/// A part that is not a rate, a range that runs backwards, or more than [`MAX_LIST`] rates.
pub fn parse_rates(text: &str) -> Result<Vec<Rate>, ParseError> {
    let mut rates = Vec::new();
    for part in text.split(',') {
        let Some((low, high)) = part.split_once("..") else {
            rates.push(parse_rate(part)?);
            continue;
        };
        let (low, high) = (parse_rate(low)?, parse_rate(high)?);
        if low > high {
            return Err(wrong("a range of rates from low to high, such as 1k..200k", part));
        }
        let doubled = |rate: &Rate| Rate::per_second(2.0 * rate.value());
        rates.extend(std::iter::successors(Some(low), doubled).take_while(|rate| *rate < high));
        rates.push(high);
    }
    let mut seen = std::collections::HashSet::new();
    rates.retain(|rate| seen.insert(*rate));
    if rates.len() > MAX_LIST {
        return Err(wrong(&format!("at most {MAX_LIST} rates"), text));
    }
    Ok(rates)
}

/// Shares of a capacity, in millionths: `50%`, `10%,50%,90%`, or so many even steps `10%..110%/12`.
///
/// # Errors
/// A part that is not a share from 0.1 % to 400 %, a range that runs backwards or has fewer than 2 steps, or more than
/// [`MAX_LIST`] shares.
pub fn parse_shares(text: &str) -> Result<Vec<u32>, ParseError> {
    const WHAT: &str = "shares of the capacity such as 50%, 10%,50%,90% or 10%..110%/12 (12 even steps)";
    let one = |part: &str| {
        let percent = part.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        percent
            .filter(|percent| (0.1..=400.0).contains(percent))
            .map(|percent| (percent * 1e4).round() as u32)
            .ok_or_else(|| wrong(WHAT, text))
    };
    let mut shares = Vec::new();
    for part in text.split(',') {
        let Some((low, high)) = part.split_once("..") else {
            shares.push(one(part)?);
            continue;
        };
        let (high, steps) = high.split_once('/').ok_or_else(|| wrong(WHAT, text))?;
        let (low, high) = (one(low)?, one(high)?);
        let steps: u32 = steps.trim().parse().map_err(|_| wrong(WHAT, text))?;
        if low >= high || steps < 2 || steps as usize > MAX_LIST {
            return Err(wrong(WHAT, text));
        }
        let gap = f64::from(high - low) / f64::from(steps - 1);
        shares.extend((0..steps).map(|step| low + (f64::from(step) * gap).round() as u32));
    }
    let mut seen = std::collections::HashSet::new();
    shares.retain(|share| seen.insert(*share));
    if shares.len() > MAX_LIST {
        return Err(wrong(&format!("at most {MAX_LIST} shares"), text));
    }
    Ok(shares)
}

/// A list of small whole numbers such as `1,2,4,8`.
///
/// # Errors
/// A part that is not a whole number of at least 1.
pub fn parse_numbers(text: &str) -> Result<Vec<u32>, ParseError> {
    text.split(',')
        .map(|part| match part.trim().parse::<u32>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(wrong("whole numbers from 1, such as 1,2,4", text)),
        })
        .collect()
}

/// How numbers are written: Unicode (`µs`, `±`) or plain ASCII.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Glyphs {
    /// `µs`.
    #[default]
    Unicode,
    /// `us`.
    Ascii,
}

/// Three significant digits, no exponent: `8.10`, `23.9`, `184`.
pub fn three_digits(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "n/a".into();
    }
    // Thresholds sit where rounding reaches the next power of ten.
    let decimals = if size == 0.0 || size >= 99.95 {
        0
    } else if size >= 9.995 {
        1
    } else if size >= 0.9995 {
        2
    } else {
        3
    };
    minus(&format!("{value:.decimals$}"))
}

/// A negative number with the minus sign of texts, U+2212; files for programs have `-`.
fn minus(number: &str) -> String {
    number.strip_prefix('-').map_or_else(|| number.to_owned(), |size| format!("−{size}"))
}

/// A value behind its sign: `+3.20 ms`, `−4.8 %`.
pub fn signed(value: f64, print: impl Fn(f64) -> String) -> String {
    format!("{}{}", if value < 0.0 { '−' } else { '+' }, print(value.abs()))
}

/// From one number to another: `23.8 to 24.1 µs`, `980 ns to 1.02 µs`; one of them where both are written alike. The unit
/// is what follows the last space.
pub fn range(low: impl AsRef<str>, high: impl AsRef<str>) -> String {
    let (low, high) = (low.as_ref(), high.as_ref());
    match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        _ if low == high => low.to_owned(),
        (Some((number, unit)), Some((_, other))) if unit == other => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// Three digits and a decimal prefix: `40.8 k`.
pub fn decimal(number: f64) -> String {
    let (scale, prefix) = match number.abs() {
        r if r >= 999.5e6 => (1e9, " G"),
        r if r >= 999.5e3 => (1e6, " M"),
        r if r >= 999.5 => (1e3, " k"),
        _ => (1.0, ""),
    };
    format!("{}{prefix}", three_digits(number / scale))
}

/// How many of anything but bits in a second: `40.8 k/s`, `12.0 /s`.
pub fn per_second(rate: f64) -> String {
    let number = decimal(rate);
    let blank = if number.contains(' ') { "" } else { " " };
    format!("{number}{blank}/s")
}

impl Glyphs {
    /// A time in nanoseconds with three significant digits and one unit: `850 ns`, `23.9 µs`, `4.12 ms`, `1.50 s`.
    pub fn time(self, ns: f64) -> String {
        let (value, unit) = self.time_in(ns, ns);
        format!("{value} {unit}")
    }

    /// The number and the unit of `ns`, in the unit that suits `like` (one unit a row).
    pub fn time_in(self, ns: f64, like: f64) -> (String, &'static str) {
        let size = like.abs();
        let (scale, unit) = if size < 999.5 {
            (1.0, "ns")
        } else if size < 999.5e3 {
            (1e3, if self == Glyphs::Ascii { "us" } else { "µs" })
        } else if size < 999.5e6 {
            (1e6, "ms")
        } else {
            (1e9, "s")
        };
        let whole = unit == "ns" && ns.abs() >= 9.995;
        let value = if whole { minus(&format!("{ns:.0}")) } else { three_digits(ns / scale) };
        (if self == Glyphs::Ascii { value.replace('−', "-") } else { value }, unit)
    }

    /// `±` or `+/-`.
    pub fn plus_minus(self) -> &'static str {
        if self == Glyphs::Ascii { "+/-" } else { "±" }
    }
}

/// A size the way it is typed: `64 B`, `4 KiB`, `1 MiB`; anything uneven stays in bytes.
pub fn size(bytes: u64) -> String {
    for (scale, unit) in [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= scale && bytes.is_multiple_of(scale) {
            return format!("{} {unit}", bytes / scale);
        }
    }
    if bytes >= 100_000 {
        let (scale, unit) = if bytes >= 1 << 30 {
            (1_u64 << 30, "GiB")
        } else if bytes >= 1 << 20 {
            (1 << 20, "MiB")
        } else {
            (1 << 10, "KiB")
        };
        return format!("{} {unit}", three_digits(bytes as f64 / scale as f64));
    }
    format!("{bytes} B")
}

/// A size without space or unit letter `B`, for narrow table heads: `64`, `4K`, `1M`.
pub fn size_short(bytes: u64) -> String {
    size(bytes).replace(" B", "").replace(" KiB", "K").replace(" MiB", "M").replace(" GiB", "G")
}

/// Which power a throughput is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BitUnits {
    /// Gbit/s = 10^9 bit/s.
    #[default]
    Si,
    /// Gibit/s = 2^30 bit/s, only when asked for by name.
    Binary,
}

/// A throughput in bits per second: `5.47 Gbit/s`; with [`BitUnits::Binary`] `5.09 Gibit/s`.
pub fn bits_per_second(bits: f64, units: BitUnits) -> String {
    let (step, prefix): (f64, [&str; 4]) = match units {
        BitUnits::Si => (1e3, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]),
        BitUnits::Binary => (1024.0, ["bit/s", "Kibit/s", "Mibit/s", "Gibit/s"]),
    };
    let mut value = bits;
    let mut at = 0;
    while at < 3 && value.abs() >= step * 0.9995 {
        value /= step;
        at += 1;
    }
    format!("{} {}", three_digits(value), prefix[at])
}

/// One message handed over as `count` buffers of `size` bytes, written `15x100`; where the last one is longer, `8x125+3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, schemars::JsonSchema, serde::Serialize, serde::Deserialize)]
pub struct Pieces {
    /// How many buffers.
    pub count: u32,
    /// Bytes in each.
    #[serde(rename = "size_bytes", alias = "size")]
    pub size: u32,
    /// Bytes that the last one has more.
    #[serde(rename = "rest_bytes", alias = "rest", default, skip_serializing_if = "nothing")]
    pub rest: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn nothing(rest: &u32) -> bool {
    *rest == 0
}

impl Pieces {
    /// The whole message in one buffer.
    pub fn whole(size: u32) -> Self {
        Self::of(1, size)
    }

    /// Buffers of one size.
    pub fn of(count: u32, size: u32) -> Self {
        Self { count, size, rest: 0 }
    }

    /// Bytes in the message.
    pub fn total(self) -> u64 {
        u64::from(self.count) * u64::from(self.size) + u64::from(self.rest)
    }

    /// Bytes of each buffer, in order.
    pub fn sizes(self) -> impl Iterator<Item = usize> {
        let last = self.count.saturating_sub(1);
        (0..self.count).map(move |at| self.size as usize + if at == last { self.rest as usize } else { 0 })
    }
}

impl fmt::Display for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.count, self.size)?;
        if self.rest > 0 { write!(f, "+{}", self.rest) } else { Ok(()) }
    }
}

/// The most buffers one `writev` takes (`IOV_MAX`).
pub const MAX_PIECES: u32 = 1024;

/// A list of `COUNTxSIZE` such as `15x100,30x50`, of `COUNTxSIZE+REST`, or of `COUNT/BYTES`: so many pieces of a message of so
/// many bytes, what does not divide in the last.
///
/// # Errors
/// A part that is none of these, a 0, more than [`MAX_PIECES`] pieces, or a product over 1 GiB.
pub fn parse_pieces(text: &str) -> Result<Vec<Pieces>, ParseError> {
    text.split(',')
        .map(|part| {
            let unlike = || wrong("pieces such as 15x100 or 8/1003", part);
            let (count, size) = part.split_once(['x', '×', '/']).ok_or_else(unlike)?;
            let count: u64 = count.trim().parse().map_err(|_| unlike())?;
            let (size, rest) = match size.split_once('+') {
                _ if part.contains('/') => {
                    let total = parse_size(size)?;
                    (total / count.max(1), total % count.max(1))
                }
                Some((size, rest)) => (parse_size(size)?, parse_size(rest)?),
                None => (parse_size(size)?, 0),
            };
            let total = count.checked_mul(size).and_then(|total| total.checked_add(rest));
            let total = total.filter(|total| *total <= crate::plan::MAX_SIZE);
            if count == 0 || size == 0 {
                return Err(wrong("pieces of at least one byte, such as 15x100", part));
            }
            if count > u64::from(MAX_PIECES) {
                return Err(wrong(&format!("at most {MAX_PIECES} pieces (IOV_MAX)"), part));
            }
            if total.is_none() {
                return Err(wrong("pieces that make a message of at most 1 GiB", part));
            }
            // One buffer alone is the last one.
            let (size, rest) = if count == 1 { (size + rest, 0) } else { (size, rest) };
            Ok(Pieces { count: count as u32, size: size as u32, rest: rest as u32 })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check_size(text: &str, expected: Result<u64, &str>) {
        match expected {
            Ok(value) => assert_eq!(parse_size(text).unwrap(), value),
            Err(part) => assert!(parse_size(text).unwrap_err().to_string().contains(part)),
        }
    }

    #[test]
    fn sizes() {
        check_size("64", Ok(64));
        check_size("4K", Ok(4096));
        check_size("1MiB", Ok(1 << 20));
        check_size("1.5K", Ok(1536));
        check_size("", Err("a size"));
        check_size("K", Err("a size"));
        check_size("4X", Err("a size"));
        check_size("-1", Err("a size"));
        check_size("99999999999G", Err("64 bits"));
        check_size("99999999999999999999", Err("a size"));
    }

    #[test]
    fn lists_and_ranges() {
        assert_eq!(parse_sizes("64,4K").unwrap(), [64, 4096]);
        assert_eq!(parse_sizes("64..1K").unwrap(), [64, 256, 1024]);
        assert_eq!(parse_sizes("10..100").unwrap(), [10, 40, 100]);
        assert_eq!(parse_sizes("64,64").unwrap(), [64]);
        assert!(parse_sizes("1M..64").is_err());
        assert!(parse_sizes("0..64").is_err());
        assert!(parse_sizes("64,").is_err());
    }

    #[test]
    fn times() {
        assert_eq!(parse_time("10s").unwrap(), 10_000_000_000);
        assert_eq!(parse_time("1.5ms").unwrap(), 1_500_000);
        assert_eq!(parse_time("5us").unwrap(), 5_000);
        assert_eq!(parse_time("1m30s").unwrap(), 90_000_000_000);
        assert_eq!(parse_time("1h2m3.5s").unwrap(), 3_723_500_000_000);
        assert_eq!(parse_time_or_seconds("1m30").unwrap(), 90_000_000_000);
        for wrong in ["30s1m", "1m30", "1m-3s", "1m1m", "m30s"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
        assert!(parse_time("10").is_err());
        assert_eq!(parse_time_or_seconds("10").unwrap(), 10_000_000_000);
        assert!(parse_time_or_seconds("soon").is_err());
        assert!(parse_time("18446744073709551615.000000001h").unwrap_err().to_string().contains("64 bits"));
    }

    #[test]
    fn rates() {
        let typed = |text: &str| parse_rates(text).map(|rates| rates.iter().map(Rate::to_string).collect::<Vec<_>>());
        assert_eq!(typed("10k,0.5,20k/s,10000").unwrap(), ["10k/s", "0.5/s", "20k/s"]);
        assert_eq!(typed("1k..5k").unwrap(), ["1k/s", "2k/s", "4k/s", "5k/s"]);
        assert_eq!(typed("1k..1k").unwrap(), ["1k/s"]);
        assert_eq!(typed("1k..200k").unwrap().len(), 9);
        for text in
            ["", "0", "k", "-1", "10m", "5k..1k", "1k..", "1k,", "101M", "10k/m", "1e5", "0.001..100M,7..9k,3.1..99M"]
        {
            assert!(typed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_of_a_capacity_step_evenly() {
        assert_eq!(parse_shares("50%, 10%,50%").unwrap(), [500_000, 100_000]);
        let steps = parse_shares("10%..110%/12").unwrap();
        assert_eq!((steps.len(), steps[0], steps[1], steps[11]), (12, 100_000, 190_909, 1_100_000));
        for text in [
            "",
            "%",
            "50",
            "0%",
            "401%",
            "-5%",
            "nan%",
            "inf%",
            "10%..50%",
            "50%..10%/3",
            "10%..50%/1",
            "1%..2%/0",
            "1%..2%/9999999999",
            "10..50%/3",
        ] {
            assert!(parse_shares(text).is_err(), "{text}");
        }
    }

    #[test]
    fn pieces_are_bounded() {
        assert_eq!(parse_pieces("15x100,30x50").unwrap()[1], Pieces::of(30, 50));
        let uneven = parse_pieces("8/1003,8x125+3,1x5+2,2/1K").unwrap();
        assert_eq!(uneven[0], Pieces { count: 8, size: 125, rest: 3 });
        assert_eq!((uneven[1], uneven[2], uneven[3]), (uneven[0], Pieces::whole(7), Pieces::of(2, 512)));
        assert_eq!((uneven[0].total(), uneven[0].to_string().as_str()), (1003, "8x125+3"));
        assert_eq!(uneven[0].sizes().collect::<Vec<_>>(), [125, 125, 125, 125, 125, 125, 125, 128]);
        for wrong in ["8/7", "0/8", "8x0+3", "8/", "8/9+1", "2x4+4G", "/8"] {
            assert!(parse_pieces(wrong).is_err(), "{wrong}");
        }
        for text in ["0x10", "10x0", "x", "15", "1025x1", "1000x4G", "18446744073709551615x18446744073709551615"] {
            assert!(parse_pieces(text).is_err(), "{text}");
        }
    }

    #[test]
    fn printing() {
        let u = Glyphs::Unicode;
        assert_eq!(u.time(850.4), "850 ns");
        assert_eq!(u.time(23_940.0), "23.9 µs");
        assert_eq!(u.time(999_600.0), "1.00 ms");
        assert_eq!(u.time(4_120_000.0), "4.12 ms");
        assert_eq!(Glyphs::Ascii.time(8_100.0), "8.10 us");
        assert_eq!((u.time(-2.15e6).as_str(), Glyphs::Ascii.time(-850.4).as_str()), ("−2.15 ms", "-850 ns"));
        assert_eq!(size(65_536), "64 KiB");
        assert_eq!(size(1_500), "1500 B");
        assert_eq!(size_short(1 << 20), "1M");
        assert_eq!(bits_per_second(5.47e9, BitUnits::Si), "5.47 Gbit/s");
        assert_eq!(bits_per_second(1024.0 * 1024.0 * 1024.0, BitUnits::Binary), "1.00 Gibit/s");
    }

    #[test]
    fn a_range_names_the_unit_once_where_it_is_one() {
        assert_eq!(range("23.8 µs", "24.1 µs"), "23.8 to 24.1 µs");
        assert_eq!(range("980 ns", "1.02 µs"), "980 ns to 1.02 µs");
        assert_eq!((range("1.2", "1.3").as_str(), range("2 %", "2 %").as_str()), ("1.2 to 1.3", "2 %"));
        assert_eq!(range("16.1 k/s", "20.0 k/s"), "16.1 to 20.0 k/s");
    }

    #[test]
    fn signs_and_rates() {
        let percent = |value: f64| format!("{value:.1} %");
        assert_eq!((signed(-4.8, percent).as_str(), signed(0.0, percent).as_str()), ("−4.8 %", "+0.0 %"));
        assert_eq!(three_digits(-1.5), "−1.50");
        assert_eq!([40_823.0, 999.6, 1.17].map(per_second), ["40.8 k/s", "1.00 k/s", "1.17 /s"]);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,24}") {
            let _ = (parse_size(&text), parse_time(&text), parse_sizes(&text), parse_pieces(&text), parse_count(&text));
            let _ = parse_rates(&text);
        }

        #[test]
        fn whole_sizes_round_trip(value in 1_u64..1 << 40) {
            prop_assert_eq!(parse_size(&value.to_string()).unwrap(), value);
        }
    }
}
