//! W82: slow messages went through a receive softirq on another core than the one that sent them.

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
