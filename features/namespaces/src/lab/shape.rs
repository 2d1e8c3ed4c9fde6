//! What a lab's links do to what passes, as it is typed, kept and told.

use std::fmt;

use msgpath_core::units::{self, BitUnits, Glyphs};
use serde::{Deserialize, Serialize};

/// What the links do to what passes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Shape {
    /// Largest packet, bytes; `None`: as the kernel has it (1500).
    pub mtu: Option<u32>,
    /// Bits per second in each direction, by a token bucket filter.
    pub rate: Option<u64>,
    /// Most packets that wait for the rate in each direction; `None`: as many as pass in 50 ms.
    pub queue: Option<u32>,
    /// Delay in each direction, ns.
    pub delay_ns: Option<u64>,
    /// Share of packets that are lost in each direction, parts in a million.
    pub loss_ppm: Option<u32>,
    /// Share of packets that come twice, parts in a million.
    pub duplicate_ppm: Option<u32>,
    /// Share of packets that are sent on without the delay and so overtake others, parts in a million.
    pub reorder_ppm: Option<u32>,
    /// Checksums and segmentation by the device; `None`: as the kernel has it (on).
    pub offloads: Option<bool>,
    /// netem where the kernel has it; `Some(false)`: msgpath's relay in any case.
    pub netem: Option<bool>,
    /// A queue behind each place's device, which a socket can poll: an XDP program in its driver lets every frame pass.
    pub napi: Option<bool>,
}

impl Shape {
    /// `rate=1G,queue=100,delay=1ms,loss=0.1%,duplicate=0.1%,reorder=1%,mtu=1400,offloads=off,netem=no,napi=on`, each at most once.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut shape = Self::default();
        for part in text.split(',') {
            let (name, value) = part.trim().split_once('=').ok_or_else(|| {
                format!("{part:?} is not a property of a link, such as rate=1G, delay=1ms, loss=0.1%, mtu=1400")
            })?;
            let words = |error: units::ParseError| error.to_string();
            match name.trim() {
                "mtu" => once(name, &mut shape.mtu, mtu(value)?)?,
                "rate" => once(name, &mut shape.rate, units::parse_count(value).map_err(words)?)?,
                "queue" => once(name, &mut shape.queue, queue(value)?)?,
                "delay" => once(name, &mut shape.delay_ns, units::parse_time(value).map_err(words)?)?,
                "loss" => once(name, &mut shape.loss_ppm, share(value)?)?,
                "duplicate" => once(name, &mut shape.duplicate_ppm, share(value)?)?,
                "reorder" => once(name, &mut shape.reorder_ppm, share(value)?)?,
                "offloads" => once(name, &mut shape.offloads, switch(value)?)?,
                "netem" => once(name, &mut shape.netem, switch(value)?)?,
                "napi" => once(name, &mut shape.napi, switch(value)?)?,
                other => {
                    return Err(format!(
                        "{other:?} is not a property of a link: rate, queue, delay, loss, duplicate, reorder, mtu, offloads, \
                         netem, napi"
                    ));
                }
            }
        }
        Ok(shape)
    }

    /// Whether something is asked that takes netem or the relay.
    pub(super) fn wants_netem(&self) -> bool {
        self.delay_ns.is_some() || self.loss_ppm.is_some() || self.duplicate_ppm.is_some() || self.reorder_ppm.is_some()
    }

    /// What it does, for people; empty: nothing but carry.
    pub(super) fn describe(&self) -> String {
        let share = |word: &str, ppm: Option<u32>| ppm.map(|ppm| format!("{word} {} %", f64::from(ppm) / 1e4));
        let parts = [
            self.mtu.map(|mtu| format!("MTU {mtu}")),
            self.rate.map(|rate| units::bits_per_second(rate as f64, BitUnits::Si)),
            self.queue.map(|packets| format!("a queue of {packets} packets")),
            self.delay_ns.map(|ns| format!("delay {}", Glyphs::Unicode.time(ns as f64))),
            share("loss", self.loss_ppm),
            share("duplicates", self.duplicate_ppm),
            share("reordering", self.reorder_ppm),
            self.offloads.map(|on| if on { "offloads on".into() } else { "offloads off".into() }),
            self.napi.filter(|on| *on).map(|_| "NAPI on".into()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// As [`Shape::parse`] reads it, to the last bit.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |ppm: u32| format!("{}%", f64::from(ppm) / 1e4);
        let word = |on: bool| if on { "on" } else { "off" }.to_owned();
        let parts = [
            ("rate", self.rate.map(|rate| rate.to_string())),
            ("queue", self.queue.map(|packets| packets.to_string())),
            ("delay", self.delay_ns.map(|ns| format!("{ns}ns"))),
            ("loss", self.loss_ppm.map(share)),
            ("duplicate", self.duplicate_ppm.map(share)),
            ("reorder", self.reorder_ppm.map(share)),
            ("mtu", self.mtu.map(|mtu| mtu.to_string())),
            ("offloads", self.offloads.map(word)),
            ("netem", self.netem.map(word)),
            ("napi", self.napi.map(word)),
        ];
        let parts = parts.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?)));
        f.write_str(&parts.collect::<Vec<_>>().join(","))
    }
}

fn once<T>(name: &str, slot: &mut Option<T>, value: T) -> Result<(), String> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("{name} is there twice")),
    }
}

/// An MTU.
///
/// # Errors
/// Not a number of bytes that a virtual link and IPv4 allow.
pub fn mtu(text: &str) -> Result<u32, String> {
    let bytes = text.trim().parse().ok().filter(|bytes| (68..=65_535).contains(bytes));
    bytes.ok_or_else(|| format!("{text:?} is not an MTU: 68 to 65535 bytes"))
}

/// Packets of a queue.
///
/// # Errors
/// Not a number of packets that a queue may hold.
pub fn queue(text: &str) -> Result<u32, String> {
    let packets = text.trim().parse().ok().filter(|packets| (1..=100_000).contains(packets));
    packets.ok_or_else(|| format!("{text:?} is not the length of a queue: 1 to 100000 packets"))
}

/// `0.1%` or `0.001`, in parts of a million.
///
/// # Errors
/// Not a share.
pub fn share(text: &str) -> Result<u32, String> {
    let (number, scale) = text.trim().strip_suffix('%').map_or((text.trim(), 1e6), |number| (number, 1e4));
    let ppm = number.trim().parse().ok().map(|number: f64| (number * scale).round());
    let ppm = ppm.filter(|ppm| (0.0..=1e6).contains(ppm)).map(|ppm| ppm as u32);
    ppm.ok_or_else(|| format!("{text:?} is not a share, such as 0.1% or 0"))
}

/// `on`, `off`, `yes`, `no`.
///
/// # Errors
/// Another word.
pub fn switch(text: &str) -> Result<bool, String> {
    match text.trim() {
        "on" | "yes" => Ok(true),
        "off" | "no" => Ok(false),
        _ => Err(format!("{text:?} is neither on nor off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn properties_are_read_and_told() {
        let text =
            "rate=1G,queue=100, delay=1.5ms,loss=0.1%,duplicate=0,reorder=1%,mtu=1400,offloads=off,netem=no,napi=on";
        let shape = Shape::parse(text).unwrap();
        assert_eq!((shape.rate, shape.delay_ns), (Some(1_000_000_000), Some(1_500_000)));
        assert_eq!((shape.loss_ppm, shape.duplicate_ppm, shape.reorder_ppm), (Some(1000), Some(0), Some(10_000)));
        assert_eq!((shape.mtu, shape.offloads, shape.netem), (Some(1400), Some(false), Some(false)));
        assert_eq!(shape.napi, Some(true));
        assert_eq!(
            shape.describe(),
            "MTU 1400, 1.00 Gbit/s, a queue of 100 packets, delay 1.50 ms, loss 0.1 %, duplicates 0 %, reordering 1 %, offloads off, NAPI on"
        );
        assert!(shape.wants_netem() && !Shape { mtu: Some(1400), ..Shape::default() }.wants_netem());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("", "not a property"),
            ("rate", "not a property"),
            ("speed=1G", "speed"),
            ("rate=fast", "number"),
            ("delay=1", "time"),
            ("loss=2", "not a share"),
            ("loss=-0.1%", "not a share"),
            ("loss=nan", "not a share"),
            ("mtu=67", "not an MTU"),
            ("queue=0", "not the length of a queue"),
            ("mtu=65536", "not an MTU"),
            ("offloads=maybe", "neither"),
            ("rate=1G,rate=2G", "twice"),
        ] {
            let texts = Shape::parse(text).unwrap_err();
            assert!(texts.contains(part), "{text}: {texts}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            rate in proptest::option::of(any::<u64>()),
            queue in proptest::option::of(1_u32..=100_000),
            delay_ns in proptest::option::of(any::<u64>()),
            loss_ppm in proptest::option::of(0_u32..=1_000_000),
            reorder_ppm in proptest::option::of(0_u32..=1_000_000),
            mtu in 68_u32..=65_535,
            offloads in proptest::option::of(any::<bool>()),
            netem in proptest::option::of(any::<bool>()),
            napi in proptest::option::of(any::<bool>()),
        ) {
            let duplicate_ppm = loss_ppm.map(|ppm| 1_000_000 - ppm);
            let mtu = Some(mtu);
            let shape = Shape { mtu, rate, queue, delay_ns, loss_ppm, duplicate_ppm, reorder_ppm, offloads, netem, napi };
            prop_assert_eq!(Shape::parse(&shape.to_string()).unwrap(), shape);
        }
    }
}
