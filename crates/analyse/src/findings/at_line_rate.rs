//! Of W39: the link is full.

use msgpath_core::units::{BitUnits, bits_per_second};

use super::wording::{measured, percent, prefix, sentence, warning};
use super::{Detector, Input, Sentence, wording};
use crate::expected::line_rate;
use crate::summary::CaseSummary;

pub(super) const DETECTOR: Detector = Detector { code: "W39", detect };

/// From this share of the link's speed on the link is the limit: headers and gaps take 3 to 6 % of large packets.
const FULL: f64 = 0.9;

/// The fullest case, with how many others there are. More than the link carries was not limited by it: then its speed is a
/// mere claim of an emulated NIC.
fn detect(input: &Input) -> Vec<Sentence> {
    if input.plan.workload.timed {
        return Vec::new();
    }
    let mut affected: Vec<(&CaseSummary, f64, f64)> = measured(input)
        .filter_map(|case| {
            let (line, _) = line_rate(&input.run.header, &case.case.traits)?;
            Some((case, case.throughput.as_ref()?.receiver_bits.value, line))
        })
        .filter(|(_, bits, line)| (FULL..=1.0).contains(&(bits / line)))
        .collect();
    affected.sort_by(|a, b| (b.1 / b.2).total_cmp(&(a.1 / a.2)));
    let Some((case, bits, line)) = affected.first().copied() else { return Vec::new() };
    let mut text = format!(
        "{}{} of payload are {} % of the link's {}: the link is what is measured",
        prefix(input, case),
        bits_per_second(bits, BitUnits::Si),
        percent(bits / line),
        bits_per_second(line, BitUnits::Si)
    );
    text.push_str(&wording::affected(affected.len()));
    let why = "where the link is full, paths cannot differ in throughput; they can in CPU time";
    let numbers = [("receiver_bits_per_s", bits), ("link_bits_per_s", line), ("cases", affected.len() as f64)];
    vec![warning("W39", sentence(&text), why, "compare CPU time, or measure over a faster link", numbers)]
}

#[cfg(test)]
mod tests {
    use msgpath_core::schema::{DeviceKind, Floors, Route};

    use crate::testing::{Build, sentences};

    fn texts(bits: f64, kind: DeviceKind) -> Vec<String> {
        let mut run = Build::stream(&["tcp:send"], &[65_536]).rates(move |_, _| bits).run();
        let route = Route { device: "eth0".into(), kind, bits_per_s: Some(10_000_000_000), ..Default::default() };
        run.header.floors = Some(Floors { route: Some(route), ..Default::default() });
        sentences(&run, &super::DETECTOR)
    }

    #[test]
    fn speaks_where_the_link_is_full() {
        assert_eq!(
            texts(9.41e9, DeviceKind::Nic),
            ["9.41 Gbit/s of payload are 94 % of the link's 10.0 Gbit/s: the link is what is measured"]
        );
    }

    #[test]
    fn a_speed_that_was_told_counts_more_than_that_of_the_device() {
        let told = |kind| {
            let mut run = Build::stream(&["tcp:send"], &[65_536]).rates(|_, _| 9.41e8).run();
            let route = Route { device: "x".into(), kind, bits_per_s: Some(10_000_000_000), ..Default::default() };
            run.header.floors = Some(Floors { route: Some(route), ..Default::default() });
            run.header.plan.wire = Some(1_000_000_000);
            sentences(&run, &super::DETECTOR).len()
        };
        assert_eq!([DeviceKind::Nic, DeviceKind::Veth, DeviceKind::Loopback].map(told), [1, 1, 0]);
    }

    #[test]
    fn is_silent_below_and_where_the_speed_is_a_mere_claim() {
        assert!(texts(8.5e9, DeviceKind::Nic).is_empty());
        assert!(texts(20e9, DeviceKind::Nic).is_empty());
        assert!(texts(9.41e9, DeviceKind::Veth).is_empty());
    }
}
