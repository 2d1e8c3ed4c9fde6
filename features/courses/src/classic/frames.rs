//! Raw frames of vehicle programs: what a sender stamps into them, what a receiver makes of them, and the lists that those
//! programs print.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

use msgpath_core::units::{Glyphs, three_digits};
use serde::Serialize;

use super::Spread;

/// Bytes of the Ethernet header.
pub const ETHERNET: usize = 14;
/// Messages that are listed line by line.
pub const LISTED: usize = 300;
/// Values of the list of delays: 15 senders of 100 messages.
pub const DELAYS: usize = 1_500;
/// Senders that are told apart.
pub const MOST_SENDERS: usize = 1024;
/// Bytes that are a stamp.
const STAMP: usize = 16;

/// What stands behind the Ethernet header, in the order of the sender's machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Of the test of sockets: time in µs (8 bytes), sender (4), number from 1 (4).
    #[default]
    Sockets,
    /// Of the test of the engine: time in µs (8 bytes), number (4), sender (4).
    Engine,
}

/// What a sender has written into a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stamp {
    /// When it was sent, µs since 1970 by the sender's clock.
    pub sent_us: i64,
    /// Who sent it.
    pub sender: i64,
    /// The how many-th of that sender.
    pub number: i64,
}

impl Stamp {
    /// Out of what follows the Ethernet header; `None`: it is too short, or its time is none.
    pub fn read(layout: Layout, payload: &[u8]) -> Option<Self> {
        let (time, rest) = payload.get(..STAMP)?.split_at(8);
        let (first, second) = rest.split_at(4);
        let sent_us = i64::from_ne_bytes(time.try_into().ok()?);
        let number = |bytes: &[u8]| Some(i64::from(i32::from_ne_bytes(bytes.try_into().ok()?)));
        let (sender, number) = match layout {
            Layout::Sockets => (i64::from(u32::from_ne_bytes(first.try_into().ok()?)), number(second)?),
            Layout::Engine => (number(second)?, number(first)?),
        };
        (sent_us >= 0).then_some(Self { sent_us, sender, number })
    }
}

/// A frame that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Arrival {
    /// What the sender says.
    pub stamp: Stamp,
    /// When the receiver had it, µs after the sender's stamp by this machine's clock of the day.
    pub latency_us: i64,
    /// The same by a clock that is never set, ns since the receiver began.
    pub at_ns: u64,
    /// Bytes of the frame, the Ethernet header included.
    pub bytes: u32,
}

/// All that a receiver heard.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Heard {
    pub interface: String,
    /// In the order in which they came.
    pub arrivals: Vec<Arrival>,
    /// Frames of the EtherType that are not messages of the layout.
    pub others: u64,
    /// Of the arrivals those that a program of this machine sent out.
    pub outgoing: u64,
    /// Frames that found no room in the receiver's buffer; `None`: the kernel does not tell.
    pub dropped: Option<u64>,
}

/// Times of one way, µs; below 0 where the sender's clock is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OneWay {
    /// Smallest.
    pub min_us: i64,
    /// Arithmetic mean.
    pub mean_us: f64,
    /// The middle one.
    pub median_us: f64,
    /// Largest.
    pub max_us: i64,
}

impl OneWay {
    fn of(times: &[i64]) -> Option<Self> {
        let min_us = *times.iter().min()?;
        // A spread is of numbers from 0 on.
        let above: Vec<u64> = times.iter().map(|us| us.abs_diff(min_us)).collect();
        let spread = Spread::of(&above)?;
        let least = min_us as f64;
        let max_us = *times.iter().max()?;
        Some(Self { min_us, mean_us: least + spread.mean, median_us: least + spread.median, max_us })
    }
}

/// Frames of one sender.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfSender {
    pub sender: i64,
    /// Frames, those that came twice included.
    pub frames: u64,
    /// The smallest and the largest number.
    pub numbers: (i64, i64),
    /// Numbers between these that did not come.
    pub missing: u64,
    /// Frames whose number had come before.
    pub twice: u64,
    /// Frames whose number is smaller than one that had come before, and had not come itself.
    pub late: u64,
    /// One way, by two clocks of the day.
    pub one_way: OneWay,
    /// From one frame to the next, ns; `None`: there is one only.
    pub between_ns: Option<Spread>,
}

/// By sender, in the order of their numbers; those beyond [`MOST_SENDERS`] are left out.
pub fn by_sender(arrivals: &[Arrival]) -> Vec<OfSender> {
    let mut senders: BTreeMap<i64, Vec<&Arrival>> = BTreeMap::new();
    for arrival in arrivals {
        let room = senders.len() < MOST_SENDERS || senders.contains_key(&arrival.stamp.sender);
        if room {
            senders.entry(arrival.stamp.sender).or_default().push(arrival);
        }
    }
    senders.into_iter().filter_map(|(sender, frames)| of_sender(sender, &frames)).collect()
}

fn of_sender(sender: i64, frames: &[&Arrival]) -> Option<OfSender> {
    let mut seen = HashSet::new();
    let mut twice = 0;
    let mut late = 0;
    let (mut least, mut most) = (i64::MAX, i64::MIN);
    for number in frames.iter().map(|frame| frame.stamp.number) {
        if !seen.insert(number) {
            twice += 1;
        } else if number < most {
            late += 1;
        }
        (least, most) = (least.min(number), most.max(number));
    }
    let one_way: Vec<i64> = frames.iter().map(|frame| frame.latency_us).collect();
    let between: Vec<u64> = frames.windows(2).map(|two| two[1].at_ns.saturating_sub(two[0].at_ns)).collect();
    Some(OfSender {
        sender,
        frames: frames.len() as u64,
        numbers: (least, most),
        // Numbers have 32 bits.
        missing: (most.abs_diff(least) + 1).saturating_sub(seen.len() as u64),
        twice,
        late,
        one_way: OneWay::of(&one_way)?,
        between_ns: Spread::of(&between),
    })
}

/// What the receivers of those programs print: with an interface a line for each message of a sender, else for each message; then
/// the list of delays. Rows are senders and times in µs.
pub fn listing(interface: Option<&str>, rows: &[(i64, i64)]) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if let Some(interface) = interface {
        let _ = writeln!(text, "[Receiver] Listening on interface: {interface}");
    }
    for (sender, us) in rows.iter().take(LISTED) {
        let _ = match interface {
            Some(_) => writeln!(text, "From sender {sender} | Latência: {us} us"),
            None => writeln!(text, "Tempo de ida: {us} us"),
        };
    }
    if !rows.is_empty() {
        let list: Vec<String> = rows.iter().take(DELAYS).map(|(_, us)| us.to_string()).collect();
        let _ = writeln!(text, "Tempos de delay entre envio e recebimento:\n{}", list.join(", "));
    }
    text
}

impl Heard {
    /// As the course's receivers print it.
    pub fn classic(&self, layout: Layout) -> String {
        let interface = (layout == Layout::Sockets).then_some(self.interface.as_str());
        let rows: Vec<(i64, i64)> = self.arrivals.iter().map(|one| (one.stamp.sender, one.latency_us)).collect();
        listing(interface, &rows)
    }

    /// For people.
    pub fn say(&self, glyphs: Glyphs) -> String {
        let senders = by_sender(&self.arrivals);
        let sizes = self.arrivals.iter().map(|one| one.bytes);
        let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
        let mut text = format!(
            "\n{} frames of {} senders on {}, {least} to {most} bytes with their header",
            self.arrivals.len(),
            senders.len(),
            self.interface
        );
        let dropped = self.dropped.map_or_else(|| "n/a".to_owned(), |dropped| dropped.to_string());
        let _ = writeln!(text, "; {dropped} dropped for lack of room, {} of another layout", self.others);
        if self.outgoing > 0 {
            let _ = writeln!(text, "{} of them were sent by programs of this machine", self.outgoing);
        }
        let _ = writeln!(
            text,
            "{:>8}{:>8}{:>16}{:>9}{:>7}{:>6}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "sender", "frames", "numbers", "missing", "twice", "late", "min us", "median", "mean", "max", "between"
        );
        for one in &senders {
            let between = one.between_ns.map_or_else(|| "n/a".to_owned(), |spread| glyphs.time(spread.median));
            let OneWay { min_us, mean_us, median_us, max_us } = one.one_way;
            let _ = writeln!(
                text,
                "{:>8}{:>8}{:>16}{:>9}{:>7}{:>6}{min_us:>10}{:>10}{:>10}{max_us:>10}{between:>10}",
                one.sender,
                one.frames,
                format!("{}-{}", one.numbers.0, one.numbers.1),
                one.missing,
                one.twice,
                one.late,
                three_digits(median_us),
                three_digits(mean_us)
            );
        }
        if self.arrivals.iter().any(|one| one.latency_us < 0) {
            text += "one way below 0: the sender's clock of the day is ahead of this machine's\n";
        }
        text += "one way is by the clock of the day at both ends, in whole us as the sender stamps it; between: median from one frame to the next\n";
        if self.arrivals.len() > DELAYS {
            let _ = writeln!(text, "of {} frames the first {DELAYS} are listed; --json has all", self.arrivals.len());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn payload(time: i64, first: i32, second: i32) -> Vec<u8> {
        [time.to_ne_bytes().as_slice(), &first.to_ne_bytes(), &second.to_ne_bytes(), &[0; 30]].concat()
    }

    fn arrival(sender: i64, number: i64, latency_us: i64, at_ns: u64) -> Arrival {
        Arrival { stamp: Stamp { sent_us: 1, sender, number }, latency_us, at_ns, bytes: 60 }
    }

    #[test]
    fn both_layouts_are_read() {
        let stamp = Stamp { sent_us: 1_700_000_000_000_000, sender: 7, number: 3 };
        assert_eq!(Stamp::read(Layout::Sockets, &payload(stamp.sent_us, 7, 3)), Some(stamp));
        assert_eq!(Stamp::read(Layout::Engine, &payload(stamp.sent_us, 3, 7)), Some(stamp));
        assert_eq!(Stamp::read(Layout::Sockets, &payload(1, 7, 3)[..15]), None);
        assert_eq!(Stamp::read(Layout::Sockets, &payload(-1, 7, 3)), None);
        // A sender is a number without a sign there.
        assert_eq!(Stamp::read(Layout::Sockets, &payload(1, -1, 3)).map(|stamp| stamp.sender), Some(u32::MAX.into()));
    }

    #[test]
    fn gaps_duplicates_and_late_frames_are_counted() {
        let numbers = [1, 2, 5, 3, 5, 8];
        let frames = numbers.iter().enumerate().map(|(at, n)| arrival(7, *n, 20 - at as i64, 1_000 * at as u64));
        let frames: Vec<Arrival> = frames.chain([arrival(2, -4, -3, 9)]).collect();
        let senders = by_sender(&frames);
        assert_eq!((senders.len(), senders[0].sender, senders[0].one_way.min_us), (2, 2, -3));
        let seven = &senders[1];
        assert_eq!((seven.frames, seven.numbers, seven.missing, seven.twice, seven.late), (6, (1, 8), 3, 1, 1));
        let one_way = OneWay { min_us: 15, mean_us: 17.5, median_us: 17.5, max_us: 20 };
        assert_eq!((seven.one_way, seven.between_ns.unwrap().median), (one_way, 1_000.0));
    }

    #[test]
    fn the_listing_is_that_of_the_course() {
        let heard = Heard { interface: "v0".into(), arrivals: vec![arrival(7, 1, 3, 0)], ..Heard::default() };
        let classic = "[Receiver] Listening on interface: v0\nFrom sender 7 | Latência: 3 us\n\
                       Tempos de delay entre envio e recebimento:\n3\n";
        assert_eq!(heard.classic(Layout::Sockets), classic);
        assert!(heard.classic(Layout::Engine).starts_with("Tempo de ida: 3 us\nTempos de"));
        let said = heard.say(Glyphs::Ascii);
        assert!(said.contains("1 frames of 1 senders on v0, 60 to 60 bytes") && said.contains("n/a dropped"), "{said}");
    }

    proptest! {
        #[test]
        fn any_frame_is_counted(frames in prop::collection::vec((any::<u32>(), any::<i32>(), any::<i64>()), 0..60)) {
            let frames: Vec<Arrival> = frames
                .into_iter()
                .map(|(sender, number, us)| arrival(i64::from(sender % 5), number.into(), us, 0))
                .collect();
            let senders = by_sender(&frames);
            prop_assert_eq!(senders.iter().map(|one| one.frames).sum::<u64>(), frames.len() as u64);
            for one in senders {
                let span = one.numbers.1.abs_diff(one.numbers.0) + 1;
                prop_assert_eq!(one.missing + one.frames - one.twice, span);
            }
        }
    }
}
