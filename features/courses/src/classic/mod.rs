//! The small programs of courses as values: what they send, what they print, and what msgpath says beside it.
//!
//! | module | program |
//! |---|---|
//! | `css432` | write shapes: many writes, one writev, one write |
//! | `lines` | lines that come back unchanged, and the table of trials |
//! | `primitives` | A1, A2, A3: messages of eight fields |
//! | `frames` | raw Ethernet frames of vehicle programs |
//!
//! Everything that a peer sends is hostile until it is parsed here; every buffer has a limit.

pub mod css432;
pub mod frames;
pub mod lines;
pub mod primitives;

use msgpath_core::foreign::shown_bytes;
use msgpath_core::units::{BitUnits, Glyphs, bits_per_second};
use serde::Serialize;

/// What our own servers tell after the end of a stream, in one line: the figures on the receiver's clock. Programs of
/// courses have closed by then, and never see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Receipt {
    /// Bytes that were received.
    pub bytes: u64,
    /// From the moment when the first byte could be read to the return of the last read, ns.
    pub ns: u64,
    /// Calls of `read` that returned something.
    pub reads: u64,
    /// Those that returned all that was asked for; the others were short.
    pub full: u64,
}

/// How the line begins.
const RECEIPT: &str = "msgpath received";
/// The longest line that is one, bytes.
pub const RECEIPT_BYTES: usize = 200;

impl Receipt {
    /// Calls of `read` that returned less than was asked for.
    pub fn short(&self) -> u64 {
        self.reads.saturating_sub(self.full)
    }

    /// Bits per second on the receiver's clock; `None` where no time passed.
    pub fn rate(&self) -> Option<f64> {
        (self.ns > 0).then(|| self.bytes as f64 * 8e9 / self.ns as f64)
    }

    /// The line, with its end.
    pub fn line(&self) -> String {
        format!("{RECEIPT}: bytes={} ns={} reads={} full={}\n", self.bytes, self.ns, self.reads, self.full)
    }

    /// Reads the line; `None`: it is something else.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text.get(..RECEIPT_BYTES).unwrap_or(text)).ok()?;
        let fields = text.strip_prefix(RECEIPT)?.strip_prefix(": ")?.strip_suffix('\n')?;
        let mut fields = fields.split(' ');
        let mut field = |name: &str| fields.next()?.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
        let receipt = Self { bytes: field("bytes")?, ns: field("ns")?, reads: field("reads")?, full: field("full")? };
        (fields.next().is_none() && receipt.full <= receipt.reads).then_some(receipt)
    }

    /// The figures for people: reads, time and rate.
    pub fn say(&self, glyphs: Glyphs) -> String {
        format!(
            "{} bytes in {}: {}; {} reads, {} full, {} short",
            self.bytes,
            glyphs.time(self.ns as f64),
            rate_text(self.rate()),
            self.reads,
            self.full,
            self.short()
        )
    }
}

/// A rate in powers of 10^3, or that there is none.
pub fn rate_text(bits: Option<f64>) -> String {
    bits.map_or_else(|| "n/a: no time passed".to_owned(), |bits| bits_per_second(bits, BitUnits::Si))
}

/// How values of a few trials are spread. All in the unit of the values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// How many there are.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of a sample (n - 1); 0 of one value.
    pub deviation: f64,
    /// Smallest.
    pub min: u64,
    /// Median; of an even number the mean of the two in the middle.
    pub median: f64,
    /// The smallest value that at least nine tenths do not exceed.
    pub p90: u64,
    /// Largest.
    pub max: u64,
}

impl Spread {
    /// Of these values; `None`: there are none.
    pub fn of(values: &[u64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let (count, (&min, &max)) = (sorted.len(), (sorted.first()?, sorted.last()?));
        let mean = sorted.iter().map(|value| *value as f64).sum::<f64>() / count as f64;
        let squares: f64 = sorted.iter().map(|value| (*value as f64 - mean).powi(2)).sum();
        let deviation = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        let median = (sorted[(count - 1) / 2] as f64 + sorted[count / 2] as f64) / 2.0;
        let p90 = sorted[(count * 9).div_ceil(10).clamp(1, count) - 1];
        Some(Self { count, mean, deviation, min, median, p90, max })
    }
}

/// Text of a peer as [`shown_bytes`] makes it harmless, not too much of it.
pub fn shown(bytes: &[u8]) -> String {
    const LONGEST: usize = 120;
    shown_bytes(bytes, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_receipt_is_read_back_and_nothing_else_is_one() {
        let receipt = Receipt { bytes: 30_000_000, ns: 311_000_000, reads: 22_978, full: 17_022 };
        assert_eq!(Receipt::parse(receipt.line().as_bytes()), Some(receipt));
        assert_eq!((receipt.short(), receipt.rate().unwrap().round()), (5956, 771_704_180.0));
        assert_eq!(
            receipt.say(Glyphs::Ascii),
            "30000000 bytes in 311 ms: 772 Mbit/s; 22978 reads, 17022 full, 5956 short"
        );
        for wrong in [
            "",
            "msgpath received: bytes=1 ns=1 reads=1\n",
            "msgpath received: bytes=1 ns=1 reads=1 full=2\n",
            "msgpath received: bytes=1 ns=1 reads=1 full=1",
            "msgpath received: bytes=1 ns=1 reads=1 full=1 more=1\n",
            "msgpath received: bytes=-1 ns=1 reads=1 full=1\n",
        ] {
            assert_eq!(Receipt::parse(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(rate_text(Receipt::default().rate()), "n/a: no time passed");
    }

    #[test]
    fn the_spread_of_ten_trials() {
        // Ten trials as a timer of whole milliseconds has them.
        let spread = Spread::of(&[5, 5, 5, 5, 12, 5, 4, 10, 5, 5]).unwrap();
        assert_eq!((spread.mean, spread.median, spread.p90, spread.min, spread.max), (6.1, 5.0, 10, 4, 12));
        assert!((spread.deviation - 2.644).abs() < 0.001, "{spread:?}");
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[7]).map(|one| (one.deviation, one.p90)), Some((0.0, 7)));
        assert_eq!(Spread::of(&[1, 2]).map(|two| two.median), Some(1.5));
    }

    #[test]
    fn what_a_peer_says_cannot_move_the_cursor() {
        assert_eq!(shown(b"a\x1b[2J\n\xff"), "a\\u{1b}[2J\\n\u{fffd}");
        assert_eq!(shown(&[b'x'; 500]).chars().count(), 121);
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Receipt::parse(&bytes);
            prop_assert!(!shown(&bytes).contains(char::is_control));
        }
    }
}
