//! A1, A2 and A3, the network I/O primitives of a graduate systems course: the server's message of eight fields, and the
//! one line that the client prints.

use std::fmt::Write;

use msgpath_core::units::{BitUnits, Glyphs, bits_per_second};
use serde::Serialize;

/// Fields of a message.
pub const FIELDS: usize = 8;
/// The byte of the client's message.
pub const CLIENT_BYTE: u8 = 0x5A;
/// The byte of the server's first field; each other field has the next one.
pub const FIELD_BYTE: u8 = 0x2A;

/// How the server hands over its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Primitive {
    /// A1: the fields are copied into one buffer, `send`.
    A1,
    /// A2: `sendmsg` with one entry a field.
    A2,
    /// A3: the same with MSG_ZEROCOPY.
    A3,
}

impl Primitive {
    pub fn name(self) -> &'static str {
        match self {
            Primitive::A1 => "A1: eight fields copied into one buffer, send()",
            Primitive::A2 => "A2: sendmsg() of eight fields",
            Primitive::A3 => "A3: sendmsg() of eight fields with MSG_ZEROCOPY",
        }
    }
}

/// Bytes of each field: an eighth, and the remainder in the last.
pub fn fields(size: usize) -> [usize; FIELDS] {
    let mut sizes = [size / FIELDS; FIELDS];
    sizes[FIELDS - 1] += size % FIELDS;
    sizes
}

/// The byte that a field is filled with.
pub fn field_byte(at: usize) -> u8 {
    FIELD_BYTE.wrapping_add(at as u8)
}

/// The client's line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Totals {
    /// Bytes in one direction.
    pub bytes: u64,
    /// Messages that came back.
    pub messages: u64,
    /// Mean of send and receive together, µs.
    pub latency_us: f64,
    /// Bytes * 8 / 10^9 / nominal seconds.
    pub gbps: f64,
}

impl Totals {
    /// Of messages of a size, with the sum of their latencies in ns, in nominal seconds.
    pub fn of(messages: u64, size: u64, latency_ns: u128, seconds: f64) -> Self {
        let bytes = messages.saturating_mul(size);
        let latency_us = if messages == 0 { 0.0 } else { latency_ns as f64 / messages as f64 / 1e3 };
        let gbps = if seconds > 0.0 { bytes as f64 * 8.0 / 1e9 / seconds } else { 0.0 };
        Self { bytes, messages, latency_us, gbps }
    }

    /// The line without its end.
    pub fn line(&self) -> String {
        format!(
            "TOTAL_BYTES={} TOTAL_MESSAGES={} AVG_LATENCY_US={:.3} THROUGHPUT_GBPS={:.6}",
            self.bytes, self.messages, self.latency_us, self.gbps
        )
    }

    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let mut next = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
        let (bytes, messages) = (next("TOTAL_BYTES")?.parse().ok()?, next("TOTAL_MESSAGES")?.parse().ok()?);
        let (latency_us, gbps) = (next("AVG_LATENCY_US")?.parse().ok()?, next("THROUGHPUT_GBPS")?.parse().ok()?);
        let sane = |value: f64| value.is_finite() && value >= 0.0;
        (sane(latency_us) && sane(gbps) && words.next().is_none()).then_some(Self { bytes, messages, latency_us, gbps })
    }
}

/// What the client really measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Bytes of a message.
    pub size: u64,
    /// Connections, each with a thread.
    pub threads: u32,
    /// Messages that came back.
    pub messages: u64,
    /// From the common start to the end of the last thread, ns.
    pub elapsed_ns: u64,
    /// Mean round trip, ns.
    pub mean_ns: f64,
    /// p50, p90, p99, p99.9 and the largest round trip, ns. `None` where too few messages were counted.
    pub quantiles: [Option<u64>; 5],
    /// Messages of the thread with the fewest and of the one with the most.
    pub fewest_most: (u64, u64),
}

impl Measured {
    /// Messages a second times mean latency: how many were in flight on average. Of a loop that waits for every reply it
    /// is the number of threads, so the mean latency says nothing that the throughput did not.
    pub fn in_flight(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| self.messages as f64 * self.mean_ns / self.elapsed_ns as f64)
    }

    /// msgpath's own lines.
    pub fn say(&self, glyphs: Glyphs) -> String {
        let time = |ns: Option<u64>| ns.map_or_else(|| "n/a".to_owned(), |ns| glyphs.time(ns as f64));
        let seconds = self.elapsed_ns as f64 / 1e9;
        let (rate, bits) = if seconds > 0.0 {
            let rate = self.messages as f64 / seconds;
            ((rate.round() as u64).to_string(), bits_per_second(rate * self.size as f64 * 8.0, BitUnits::Si))
        } else {
            ("n/a".to_owned(), "n/a".to_owned())
        };
        let [p50, p90, p99, p999, max] = self.quantiles;
        let mut out = String::new();
        let _ = writeln!(
            out,
            "  round trip  p50 {}   p90 {}   p99 {}   p99.9 {}   max {}   mean {}",
            time(p50),
            time(p90),
            time(p99),
            time(p999),
            time(max),
            glyphs.time(self.mean_ns)
        );
        let _ = writeln!(
            out,
            "  throughput  {bits} each way, {rate} messages a second in {} (the line above divides by nominal seconds)",
            glyphs.time(self.elapsed_ns as f64)
        );
        if let Some(in_flight) = self.in_flight() {
            let _ = writeln!(
                out,
                "  in flight   {in_flight:.2} implied by throughput x mean, {} connections with one message each",
                self.threads
            );
        }
        if self.threads > 1 {
            let (fewest, most) = self.fewest_most;
            let _ = writeln!(out, "  threads     {} to {} messages", fewest, most);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_line_is_the_courses() {
        let totals = Totals::of(1_000_000, 1024, 9_300_000_000, 3.0);
        let line = "TOTAL_BYTES=1024000000 TOTAL_MESSAGES=1000000 AVG_LATENCY_US=9.300 THROUGHPUT_GBPS=2.730667";
        assert_eq!(totals.line(), line);
        assert_eq!(
            Totals::of(0, 64, 0, 0.0).line(),
            "TOTAL_BYTES=0 TOTAL_MESSAGES=0 AVG_LATENCY_US=0.000 THROUGHPUT_GBPS=0.000000"
        );
        for wrong in ["", "TOTAL_BYTES=1", &line.replace("9.300", "nan"), &format!("{line} X=1")] {
            assert_eq!(Totals::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_remainder_is_in_the_last_field() {
        assert_eq!(fields(64), [8; 8]);
        assert_eq!(fields(67), [8, 8, 8, 8, 8, 8, 8, 11]);
        assert_eq!(fields(5), [0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!((field_byte(0), field_byte(7)), (0x2A, 0x31));
    }

    #[test]
    fn a_closed_loop_has_as_many_in_flight_as_threads() {
        let measured = Measured {
            size: 1000,
            threads: 2,
            messages: 2000,
            elapsed_ns: 10_000_000,
            mean_ns: 9_970.0,
            quantiles: [Some(9_000), Some(11_000), Some(20_000), None, Some(50_000)],
            fewest_most: (990, 1010),
        };
        let text = measured.say(Glyphs::Ascii);
        assert!(
            text.contains("1.99 implied") && text.contains("2 connections") && text.contains("p99.9 n/a"),
            "{text}"
        );
        assert!(text.contains("1.60 Gbit/s each way, 200000 messages") && text.contains("990 to 1010"), "{text}");
        let none = Measured { messages: 0, elapsed_ns: 0, ..measured };
        assert_eq!(none.in_flight(), None);
        assert!(none.say(Glyphs::Ascii).contains("n/a each way"));
    }

    proptest! {
        #[test]
        fn fields_add_up(size in 0_usize..10_000_000) {
            prop_assert_eq!(fields(size).iter().sum::<usize>(), size);
        }

        #[test]
        fn what_is_printed_is_read_back(messages in 0_u64..1_000_000_000, size in 1_u64..1_000_000) {
            let totals = Totals::of(messages, size, u128::from(messages) * 12_345, 3.0);
            let again = Totals::parse(&totals.line()).unwrap();
            prop_assert_eq!((again.bytes, again.messages), (totals.bytes, totals.messages));
            prop_assert!((again.gbps - totals.gbps).abs() < 1e-6);
        }

        #[test]
        fn any_line_is_safe(line in ".{0,100}") {
            let _ = Totals::parse(&line);
        }
    }
}
