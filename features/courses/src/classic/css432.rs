//! Write shapes (CSS 432 and CSS 503 of UW Bothell): a number of iterations, their data, and the number of reads back.
//!
//! Newer form: the client sends an `int`, the repetitions; then the data; the server answers with an `int`, its calls of
//! `read`. Some programs send host order, some network order. Older form: no repetitions are sent, both sides know them.

use std::fmt::Write;

use msgpath_core::units::Glyphs;
use serde::Serialize;

use super::{Receipt, rate_text};

/// Bytes of one iteration, as the course has them: nbufs * bufsize.
pub const MESSAGE: usize = 1500;
/// The first number of repetitions that is too many to be meant. Of the two readings of four bytes the one below it is
/// taken: with 2^24 they are both below only where the first and the last byte are 0.
pub const REPETITIONS_END: u32 = 1 << 24;

/// How data are handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Type 1: one `write` for each buffer.
    Writes,
    /// Type 2: one `writev`.
    Writev,
    /// Type 3: one `write` of everything.
    Write,
}

impl Shape {
    /// The shape of a type; `None`: there is no such type.
    pub fn of(kind: u32) -> Option<Self> {
        [Shape::Writes, Shape::Writev, Shape::Write].into_iter().find(|shape| shape.number() == kind)
    }

    /// 1, 2 or 3.
    pub fn number(self) -> u32 {
        match self {
            Shape::Writes => 1,
            Shape::Writev => 2,
            Shape::Write => 3,
        }
    }

    /// The calls of one iteration.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Writes => "multiple writes",
            Shape::Writev => "writev",
            Shape::Write => "single write",
        }
    }
}

/// In which order the bytes of an `int` are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Little endian: the host order of every machine that a course uses.
    #[default]
    Host,
    /// Big endian: htonl().
    Network,
}

impl Order {
    /// The four bytes of a number.
    pub fn bytes(self, number: u32) -> [u8; 4] {
        match self {
            Order::Host => number.to_le_bytes(),
            Order::Network => number.to_be_bytes(),
        }
    }

    /// "host order".
    pub fn name(self) -> &'static str {
        match self {
            Order::Host => "host order",
            Order::Network => "network order",
        }
    }
}

/// Reads a number that is sent in an order nobody knows: the reading that lies in `1..end`. Where both do, host order is
/// taken, because most programs send it. `None`: neither does.
pub fn plausible(bytes: [u8; 4], end: u32) -> Option<(u32, Order)> {
    [(u32::from_le_bytes(bytes), Order::Host), (u32::from_be_bytes(bytes), Order::Network)]
        .into_iter()
        .find(|(number, _)| (1..end).contains(number))
}

/// The unit that a classic row calls Gbps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// 10^9 bits per second.
    Si,
    /// 2^30 bits per second.
    Binary,
    /// Too few digits to tell.
    Either,
    /// The figure does not follow from bytes and time in either.
    Neither,
}

impl Unit {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Si => "10^9",
            Unit::Binary => "2^30",
            Unit::Either => "10^9 or 2^30 (too few digits to tell)",
            Unit::Neither => "neither 10^9 nor 2^30",
        }
    }
}

/// How the newer client prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Classic {
    /// Seconds, and throughput in 2^30 bits.
    #[default]
    Seconds,
    /// Microseconds, and throughput in 10^9 bits.
    Usec,
}

/// What a client measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sent {
    /// How data were handed over.
    pub shape: Shape,
    /// Buffers of one iteration.
    pub nbufs: u32,
    /// Bytes of a buffer.
    pub bufsize: u32,
    /// Iterations.
    pub repetition: u32,
    /// Bytes that were sent.
    pub bytes: u64,
    /// connect() until it returned, ns.
    pub connect_ns: u64,
    /// From before the first write of data until the last one returned, ns.
    pub sending_ns: u64,
    /// From before the first write of data until the answer was read, ns.
    pub total_ns: u64,
    /// The number that the server answered.
    pub reads: u32,
    /// What the server measured, where it is ours.
    pub receipt: Option<Receipt>,
}

impl Sent {
    /// The newer client's row.
    pub fn newer(&self, classic: Classic) -> String {
        let kind = self.shape.number();
        let reads = self.reads;
        let bits = self.bytes as f64 * 8.0;
        let seconds = self.total_ns as f64 / 1e9;
        match classic {
            Classic::Seconds => format!(
                "Test ({kind}): time = {seconds:.6} sec, #reads = {reads}, throughput {:.6} Gbps",
                bits / seconds / (1_u64 << 30) as f64
            ),
            Classic::Usec => format!(
                "Test ({kind}): time = {} usec, #reads = {reads}, throughput {:.3} Gbps",
                self.total_ns / 1000,
                bits / seconds / 1e9
            ),
        }
    }

    /// The older client's row.
    pub fn older(&self) -> String {
        format!(
            "Test {}: data-sending time = {} usec, round-trip time = {} usec, #reads = {}",
            self.shape.number(),
            self.sending_ns / 1000,
            self.total_ns / 1000,
            self.reads
        )
    }

    /// Bits per second until the answer, on the sender's clock.
    pub fn rate(&self) -> Option<f64> {
        (self.total_ns > 0).then(|| self.bytes as f64 * 8e9 / self.total_ns as f64)
    }

    /// msgpath's own lines beside a row: the unit, what the row leaves out, and the receiver's clock. `classic` is `None`
    /// beside the older client's row.
    pub fn say(&self, classic: Option<Classic>, glyphs: Glyphs) -> String {
        let time = |ns: u64| glyphs.time(ns as f64);
        let mut out = format!(
            "{} bytes, {} of {}x{}, {} times\n",
            self.bytes,
            self.shape.name(),
            self.nbufs,
            self.bufsize,
            self.repetition
        );
        let row = match classic {
            Some(Classic::Seconds) => {
                "the row divides by 2^30 bits and says Gbps: 6.9 % less than 10^9 bits per second"
            }
            Some(Classic::Usec) => "the row divides by 10^9 bits, as msgpath does",
            None => "the row has no throughput, and calls the time of all data a round trip",
        };
        let _ =
            writeln!(out, "  sender    {} until the answer: {}; {row}", time(self.total_ns), rate_text(self.rate()));
        let _ = writeln!(
            out,
            "            the last write returned after {}; connecting took {} and is not counted",
            time(self.sending_ns),
            time(self.connect_ns)
        );
        let least = u64::from(self.reads).saturating_sub(self.repetition.into());
        match &self.receipt {
            Some(receipt) => {
                let _ = writeln!(out, "  receiver  {}, on its own clock", receipt.say(glyphs));
            }
            None => {
                out.push_str("  receiver  n/a: this server tells no more than a number of reads\n");
            }
        }
        let meaning = match (self.reads, self.repetition) {
            (reads, repetition) if reads < repetition => {
                "fewer than iterations: the server does not count every read (perhaps only the short ones)".to_owned()
            }
            (reads, repetition) if reads == repetition => "one for each iteration: every read was full".to_owned(),
            _ => format!("{} more than iterations: so many reads were needed for what was not there at once", least),
        };
        let _ = writeln!(out, "  #reads    {meaning}");
        out
    }
}

/// The older server's line.
pub fn received_line(ns: u64) -> String {
    format!("data-receiving time = {} usec", ns / 1000)
}

/// A row that somebody's client printed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Type of the test.
    pub test: u32,
    /// The whole time, ns.
    pub time_ns: u64,
    /// Time in the writes, ns; the older client prints it.
    pub sending_ns: Option<u64>,
    /// The number of reads.
    pub reads: Option<u64>,
    /// Throughput as printed, and its digits behind the point.
    pub throughput: Option<(f64, u32)>,
}

/// The longest line that may be a row, bytes.
const LONGEST_ROW: usize = 1000;

impl Row {
    /// Reads a row in any of the forms that are in use; `None`: the line is something else.
    pub fn parse(line: &str) -> Option<Self> {
        if line.len() > LONGEST_ROW {
            return None;
        }
        let line = line.to_ascii_lowercase();
        let rest = line.trim_start().strip_prefix("test")?.trim_start_matches([' ', '(', '#', '=']);
        let (test, _, rest) = number(rest)?;
        let test = Some(test).filter(|test| (1.0..=99.0).contains(test) && test.fract() == 0.0)? as u32;
        let sending_ns = after(rest, "sending time").and_then(time_ns);
        let time_ns = ["round-trip time", "round trip time", "rtt"]
            .into_iter()
            .find_map(|name| after(rest, name))
            .or_else(|| sending_ns.is_none().then(|| after(rest, "time")).flatten())
            .and_then(time_ns)?;
        let reads = ["#reads", "number of reads", "# of reads", "reads"].into_iter().find_map(|name| after(rest, name));
        let reads =
            reads.and_then(number).map(|(reads, ..)| reads).filter(|reads| *reads < 1e15 && reads.fract() == 0.0);
        let throughput = after(rest, "throughput").and_then(number).map(|(value, digits, _)| (value, digits));
        Some(Self { test, time_ns, sending_ns, reads: reads.map(|reads| reads as u64), throughput })
    }

    /// Bits per second for so many bytes; `None` where no time passed.
    pub fn rate(&self, bytes: u64) -> Option<f64> {
        (self.time_ns > 0).then(|| bytes as f64 * 8e9 / self.time_ns as f64)
    }

    /// The unit of the printed throughput, if `bytes` went over in the printed time. Found by computing it in both.
    pub fn unit(&self, bytes: u64) -> Option<Unit> {
        let (printed, digits) = self.throughput?;
        let bits = self.rate(bytes)?;
        let step = 0.1_f64.powi(digits as i32);
        // The two units lie 7.4 % apart; 1 % covers the digits of the time, the step those of the throughput.
        let fits = |value: f64| (printed - value).abs() <= 0.01 * value + step;
        Some(match (fits(bits / 1e9), fits(bits / (1_u64 << 30) as f64)) {
            (true, false) => Unit::Si,
            (false, true) => Unit::Binary,
            (true, true) => Unit::Either,
            (false, false) => Unit::Neither,
        })
    }
}

/// What follows a name and the signs behind it.
fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let at = text.find(name)?;
    Some(text[at + name.len()..].trim_start_matches([' ', ':', '=', '\t']))
}

/// A plain decimal number at the beginning: its value, the digits behind the point, and what follows.
fn number(text: &str) -> Option<(f64, u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    // A full stop at the end of a sentence is none of a number.
    let plain = digits.trim_end_matches('.');
    let value: f64 = plain.parse().ok()?;
    let behind = plain.split_once('.').map_or(0, |(_, behind)| behind.len());
    (plain.len() <= 20 && plain.starts_with(|c: char| c.is_ascii_digit())).then_some((value, behind as u32, rest))
}

/// A number with its unit of time, ns.
fn time_ns(text: &str) -> Option<u64> {
    let (value, _, rest) = number(text)?;
    let unit = rest.trim_start();
    let scale = [
        ("usec", 1e3),
        ("us", 1e3),
        ("µs", 1e3),
        ("micro", 1e3),
        ("msec", 1e6),
        ("ms", 1e6),
        ("milli", 1e6),
        ("sec", 1e9),
        ("s", 1e9),
    ]
    .into_iter()
    .find_map(|(name, scale)| unit.starts_with(name).then_some(scale))?;
    Some(value * scale).filter(|ns| *ns <= 1e15).map(|ns| ns.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_orders_are_told_apart() {
        assert_eq!(plausible(20_000_u32.to_le_bytes(), REPETITIONS_END), Some((20_000, Order::Host)));
        assert_eq!(plausible(20_000_u32.to_be_bytes(), REPETITIONS_END), Some((20_000, Order::Network)));
        assert_eq!(plausible([0, 0, 0, 0], REPETITIONS_END), None);
        assert_eq!(plausible([0xff; 4], REPETITIONS_END), None);
        assert_eq!(plausible([1, 2, 3, 4], REPETITIONS_END), None);
        assert_eq!(plausible([0, 1, 0, 0], REPETITIONS_END), Some((256, Order::Host)), "both fit: host order");
    }

    fn sent() -> Sent {
        Sent {
            shape: Shape::Writes,
            nbufs: 100,
            bufsize: 15,
            repetition: 20_000,
            bytes: 30_000_000,
            connect_ns: 85_000,
            sending_ns: 34_700_000,
            total_ns: 312_500_000,
            reads: 22_978,
            receipt: None,
        }
    }

    #[test]
    fn rows_have_the_exact_text() {
        let sent = sent();
        assert_eq!(
            sent.newer(Classic::Seconds),
            "Test (1): time = 0.312500 sec, #reads = 22978, throughput 0.715256 Gbps"
        );
        assert_eq!(sent.newer(Classic::Usec), "Test (1): time = 312500 usec, #reads = 22978, throughput 0.768 Gbps");
        assert_eq!(
            sent.older(),
            "Test 1: data-sending time = 34700 usec, round-trip time = 312500 usec, #reads = 22978"
        );
        assert_eq!(received_line(74_100_999), "data-receiving time = 74100 usec");
    }

    #[test]
    fn the_lines_beside_a_row_follow_from_the_figures() {
        let text = sent().say(Some(Classic::Seconds), Glyphs::Ascii);
        assert!(text.contains("768 Mbit/s") && text.contains("2^30") && text.contains("2978 more"), "{text}");
        assert!(text.contains("n/a: this server tells no more"), "{text}");
        let full = Sent { reads: 20_000, ..sent() };
        assert!(full.say(Some(Classic::Usec), Glyphs::Ascii).contains("every read was full"));
        let short = Sent { reads: 44, ..sent() };
        assert!(short.say(None, Glyphs::Ascii).contains("does not count every read"));
        let receipt = Receipt { bytes: 30_000_000, ns: 300_000_000, reads: 22_978, full: 19_000 };
        let given = Sent { receipt: Some(receipt), ..sent() }.say(None, Glyphs::Ascii);
        assert!(given.contains("800 Mbit/s; 22978 reads, 19000 full, 3978 short"), "{given}");
    }

    #[test]
    fn rows_are_read_in_every_form() {
        let seed = Row::parse("Test (1): time = 0.312501 sec, #reads = 22978, throughput 0.715255 Gbps").unwrap();
        assert_eq!((seed.test, seed.time_ns, seed.reads), (1, 312_501_000, Some(22_978)));
        assert_eq!(seed.unit(30_000_000), Some(Unit::Binary));
        let newer = Row::parse("Test (1): time = 312501 usec, #reads = 22978, throughput 0.768 Gbps").unwrap();
        assert_eq!((newer.time_ns, newer.unit(30_000_000)), (312_501_000, Some(Unit::Si)));
        let wifi = Row::parse("Test (3): time = 11.947940 sec, #reads = 39000, throughput 0.020087 Gbps").unwrap();
        assert_eq!(wifi.unit(30_000_000), Some(Unit::Si));
        let older =
            Row::parse("Test 1: data-sending time = 34700 usec, round-trip time = 74800 usec, #reads = 20122").unwrap();
        assert_eq!((older.time_ns, older.sending_ns, older.unit(30_000_000)), (74_800_000, Some(34_700_000), None));
        let variant = Row::parse(
            "  test 2: data-sending time = 34700usec, round-trip time = 74800usec, Number of reads =  7 times.",
        );
        assert_eq!(variant.map(|row| (row.test, row.reads)), Some((2, Some(7))));
        let coarse = Row { throughput: Some((0.0, 1)), ..wifi };
        assert_eq!(coarse.unit(30_000_000), Some(Unit::Either));
        assert_eq!(Row { throughput: Some((768.0, 0)), ..newer }.unit(30_000_000), Some(Unit::Neither));
        for other in [
            "",
            "Test",
            "Testing",
            "Test x: time = 3 sec",
            "Test 1: reads = 3",
            "Test 1: time = 3 apples",
            "#reads = 3",
        ] {
            assert_eq!(Row::parse(other), None, "{other}");
        }
    }

    #[test]
    fn types_are_one_to_three() {
        assert_eq!(
            [0, 1, 2, 3, 4].map(|kind| Shape::of(kind).map(Shape::number)),
            [None, Some(1), Some(2), Some(3), None]
        );
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(total_us in 1000_u64..100_000_000, reads in 0_u32..1_000_000) {
            let sent = Sent { total_ns: total_us * 1000, reads, ..sent() };
            for (classic, unit) in [(Classic::Seconds, Unit::Binary), (Classic::Usec, Unit::Si)] {
                let row = Row::parse(&sent.newer(classic)).unwrap();
                prop_assert_eq!((row.time_ns, row.reads), (sent.total_ns, Some(reads.into())));
                let found = row.unit(sent.bytes);
                prop_assert!(found == Some(unit) || found == Some(Unit::Either), "{:?}", found);
            }
            prop_assert_eq!(Row::parse(&sent.older()).map(|row| row.time_ns), Some(sent.total_ns));
        }

        #[test]
        fn any_line_is_safe(line in ".{0,80}", middle in "[0-9.=# a-z]{0,60}") {
            for text in [line, format!("Test (1): time = {middle}")] {
                if let Some(row) = Row::parse(&text) {
                    let _ = row.unit(30_000_000);
                }
            }
        }
    }
}
