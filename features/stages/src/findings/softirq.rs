//! W82: the receive softirq ran on another core
//!
//! ## What it says
//!
//! Slow messages are slow in the device or the receive softirq, and at least half of them were received by a softirq on
//! another CPU than the one that sent them.
//!
//! *Sure*: the interval of the difference, over rounds drawn again, lies above what tracing itself adds to a round trip
//! at most, and the same stage grew most in both halves of the run. Else *likely*.
//!
//! ## What it is computed from
//!
//! Messages of the traced replica of a case, whose rounds are interleaved with those of the case itself. Each message is
//! joined with the kernel's events of its round, and every nanosecond of it is charged to a stage; the stages of a
//! message add up to its round trip. Slow messages are those from p98.5 to p99.5, usual ones those from p45 to p55; whole
//! messages are averaged in both bands, and the stage whose mean differs most is the cause. The CPUs of
//! `net_dev_start_xmit` and `netif_receive_skb` of the same packet are compared.
//!
//! ## When it stays silent
//!
//! Without a traced replica (`--stages light` or `full`); where fewer than 95 % of the messages are attributed; where slow
//! messages take less than 20 % longer than usual ones; where the stage holds less than 30 % of the difference, or
//! another grew more. Where the softirq ran on the CPU that sent.
//!
//! ## What to do
//!
//! Steer the receive queue to the CPU of the receiver, or switch steering off: `rps_cpus` of the device, `smp_affinity`
//! of its interrupt.

use super::growth::slow;
use crate::analyse::stage::Kind;
use msgpath_analyse::findings::wording::{finding, percent};
use msgpath_analyse::findings::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W82", detect };

/// Fewer slow messages than this share are not the rule.
const SHARE: f64 = 0.5;

fn detect(input: &Input) -> Vec<Sentence> {
    slow(input, &[Kind::Device, Kind::Softirq]).iter().filter(|slow| slow.stages.softirq_elsewhere_slow >= SHARE).map(|slow| {
        let share = slow.stages.softirq_elsewhere_slow;
        let text = format!(
            "{}. In {} % of them the receive softirq ran on another CPU than the one that sent. To try: the receive \
             queue and its interrupt on the receiver's CPU (rps_cpus, smp_affinity), or steering off",
            slow.says(input, "the receive softirq ran on another core"),
            percent(share)
        );
        let [a, b, c, d, e, f, g] = slow.numbers();
        finding("W82", slow.confidence(), text + ".", [a, b, c, d, e, f, g, ("elsewhere_share", share)], Vec::new())
    }).collect()
}

#[cfg(test)]
mod tests {
    use crate::analyse::stage::Kind;
    use crate::testing::{Setup, sentences, traced};
    use msgpath_core::schema::EventKind;

    #[test]
    fn speaks_of_another_core() {
        let mut traced = traced(&Setup { slow: Some(Kind::Device), ..Setup::over("udp:send") }, 50);
        assert!(sentences(&traced, "W82").is_empty(), "the same core");
        let softirq = [EventKind::NetifReceiveSkb, EventKind::SkDataReady];
        for event in traced.log().events.here().iter_mut().flat_map(|events| &mut events.events) {
            event.cpu = if softirq.contains(&event.kind) { 3 } else { event.cpu };
        }
        let texts = sentences(&traced, "W82");
        assert!(texts[0].contains("the receive softirq ran on another core: "), "{texts:?}");
        assert!(texts[0].contains("In 100 % of them"), "{texts:?}");
    }

    #[test]
    fn is_silent_where_the_way_is_not_slow() {
        assert!(
            sentences(&traced(&Setup { slow: Some(Kind::InFlight), ..Setup::over("udp:send") }, 50), "W82").is_empty()
        );
    }
}
