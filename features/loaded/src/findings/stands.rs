//! W165: where the time stands that a load adds
//!
//! The median round trip without load and under it, by direction of the load, and where most of the added time stands:
//! in the queue of the device through which the load leaves, or beyond what this run can read. *Sure*: the interval
//! excludes 0, and bytes by rate of the queue are at least half of it. *Likely*: the time was not seen where it stands,
//! or the queues surely hold more than was added, so that the parts cannot be told apart.
//! On loopback: no link is measured, only CPUs and caches. Beside it the RPM of the IETF draft, its formula for TCP
//! without TLS ([method](docs/method/loaded.md#rpm)).
//!
//! ## What it rests on
//!
//! Loaded less idle median of each pass; bytes in the queueing disciplines every 10 ms by the rate at which they left
//! ([method](docs/method/loaded.md#where-it-stands)).
//!
//! ## What to do
//!
//! `tc qdisc replace dev DEVICE root fq_codel` where the link has its own rate. Where a modem or router behind it is
//! slower: a shaper just below that rate with `cake` or `fq_codel`. Your own load: `--load-rate`. On one machine:
//! `msgpath loaded HOST --launch ssh`, or `--between lab --link rate=10M,queue=100`.

use msgpath_analyse::findings::wording::finding;
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;
use msgpath_core::units::{Glyphs, three_digits};

use super::loaded;
use crate::analyse::{EndQueue, LoadedSummary, UnderLoad};

pub(super) const CODE: &str = "W165";
pub(super) const DETECTOR: Detector = Detector { code: CODE, detect };

fn detect(input: &Input) -> Vec<Sentence> {
    loaded(input).and_then(|found| say(input, found)).into_iter().collect()
}

fn time(ns: f64) -> String {
    Glyphs::Unicode.time(ns)
}

fn say(input: &Input, found: &LoadedSummary) -> Option<Sentence> {
    let median = |id: u32| {
        let case = input.summary.cases.iter().find(|case| case.case.id == id)?;
        case.latency.quantiles.iter().find(|quantile| quantile.p == 0.5)?.ns.map(|ns| ns as f64)
    };
    let idle = median(found.idle?)?;
    let measured: Vec<(&UnderLoad, f64)> =
        found.directions.iter().filter_map(|one| Some((one, median(one.case)?))).collect();
    let (worst, slowest) = measured.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let each: Vec<String> = measured.iter().map(|(one, ns)| format!("{} ({})", time(*ns), one.direction)).collect();
    let (place, confidence) = match found.no_link {
        true => no_link(worst),
        false => place(worst, slowest - idle),
    };
    let rpm = if found.no_link { String::new() } else { rpm(&measured) };
    let text = format!("Idle {}, loaded {}: {place}. p50 of this run.{rpm}", time(idle), each.join(", "));
    let number = |value: Option<f64>| value.unwrap_or(f64::NAN);
    let added = worst.added_ns.as_ref();
    let numbers = [
        ("idle_ns", idle),
        ("added_ns", number(added.map(|added| added.value))),
        ("added_low_ns", number(added.and_then(|added| added.low))),
        ("queue_ns", number(worst.stands().and_then(|queue| queue.queue_ns.as_ref()).map(|ns| ns.value))),
        ("per_minute", number(worst.per_minute.as_ref().map(|rate| rate.value))),
        ("rpm", number(worst.responsiveness.rpm.as_ref().map(|rpm| rpm.value))),
    ];
    Some(finding(CODE, confidence, text, numbers, next(worst, found.no_link)))
}

/// The RPM of each direction that has one, as a sentence.
fn rpm(measured: &[(&UnderLoad, f64)]) -> String {
    let of = |(one, _): &(&UnderLoad, f64)| {
        let rpm = one.responsiveness.rpm.as_ref()?;
        Some(format!("{} ({})", three_digits(rpm.value), one.direction))
    };
    let all: Vec<String> = measured.iter().filter_map(of).collect();
    if all.is_empty() { String::new() } else { format!(" RPM of TCP, without TLS: {}.", all.join(", ")) }
}

/// What both ends of a load on one machine share.
fn no_link(worst: &UnderLoad) -> (String, Confidence) {
    let added = worst.added_ns.as_ref().map_or(0.0, |added| added.value);
    match worst.adds() {
        true => (
            format!("no link is measured; the {} are what both share of CPUs and caches", time(added)),
            Confidence::Sure,
        ),
        false => ("no link is measured, and nothing is surely added by what both share".into(), Confidence::CantTell),
    }
}

/// Where most of what a direction adds stands, as a clause. `more`: of its median, ns.
fn place(worst: &UnderLoad, more: f64) -> (String, Confidence) {
    if !worst.adds() {
        return ("nothing is surely added by the load".into(), Confidence::CantTell);
    }
    let added = format!("{} ({})", time(more), worst.direction);
    if let Some(excess) = &worst.excess_ns {
        let text = format!(
            "{added} are added, and the queues of the ends that send hold {} more than that: what stands where cannot be told apart",
            time(excess.value)
        );
        return (text, Confidence::Likely);
    }
    let device = |queue: &EndQueue| queue.device.clone().unwrap_or_else(|| "its device".into());
    if let Some(queue) = worst.stands() {
        let ns = queue.queue_ns.as_ref().map_or(more, |ns| ns.value.min(more));
        let place = format!("stand in the queue of {} at the {}", device(queue), queue.end);
        return (format!("{} ({}) {place}; fq_codel there would end it", time(ns), worst.direction), Confidence::Sure);
    }
    let fair = worst.queues.iter().find(|queue| queue.fair);
    let text = match (fair, worst.queues.iter().all(|queue| queue.queue_ns.is_some())) {
        (Some(queue), _) => format!(
            "{added} are added; {} of {} at the {} keeps messages from waiting behind the load",
            queue.qdiscs.last().map_or("the queue", String::as_str),
            device(queue),
            queue.end
        ),
        (None, true) => format!("{added} are added, and stand beyond the queues of the ends that send"),
        (None, false) => {
            let ends: Vec<&str> = worst.queues.iter().map(|queue| queue.end.as_str()).collect();
            format!("{added} are added; the queue of the {} was not read", ends.join(" and of the "))
        }
    };
    (text, Confidence::Likely)
}

fn next(worst: &UnderLoad, no_link: bool) -> Vec<String> {
    if no_link {
        return vec!["msgpath loaded --between lab --link rate=10M,queue=100".into()];
    }
    let device = worst.stands().and_then(|queue| queue.device.clone());
    device.map(|device| format!("tc -s qdisc show dev {device}")).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use msgpath_analyse::testing::said_with;

    use crate::testing::{Bed, MS};

    fn said(bed: &Bed) -> Vec<String> {
        let (run, logs) = bed.run();
        said_with(&run, &logs, &super::DETECTOR)
    }

    #[test]
    fn the_queue_that_delays_is_named() {
        let bed = Bed { queue_bytes: 151_400, added_ns: 121.12 * MS, ..Bed::default() };
        let sentences = said(&bed);
        assert_eq!(sentences.len(), 1, "{sentences:?}");
        assert!(sentences[0].starts_with("sure: Idle 99.9 µs, loaded 121 ms (down): 121 ms (down) "), "{sentences:?}");
        let place = "stand in the queue of mp0 at the server; fq_codel there would end it";
        assert!(sentences[0].contains(place) && !sentences[0].contains("RPM"), "{sentences:?}");
        let probed = said(&Bed { probes: Some([121.12 * MS; 2]), ..bed });
        assert!(probed[0].ends_with(" RPM of TCP, without TLS: 495 (down)."), "{probed:?}");
    }

    #[test]
    fn what_was_not_seen_is_not_placed() {
        let added_ns = 300.0 * MS;
        let said = |bed: Bed| said(&bed)[0].clone();
        let elsewhere = said(Bed { added_ns, queue_bytes: 3_000, ..Bed::default() });
        assert!(elsewhere.starts_with("likely") && elsewhere.contains("beyond the queues"), "{elsewhere}");
        let more = said(Bed { added_ns: 100.0 * MS, queue_bytes: 388_750, ..Bed::default() });
        assert!(more.starts_with("likely") && more.contains("hold 211 ms more than that"), "{more}");
        let unread = said(Bed { added_ns, read: false, ..Bed::default() });
        assert!(unread.contains("the queue of the server was not read"), "{unread}");
        let fair = said(Bed { added_ns: 3.0 * MS, queue_bytes: 90_000, kinds: &["fq_codel"], ..Bed::default() });
        assert!(fair.contains("fq_codel of mp0 at the server keeps"), "{fair}");
        let nothing = said(Bed::default());
        assert!(nothing.starts_with("can't tell") && nothing.contains("nothing is surely added"), "{nothing}");
    }

    #[test]
    fn loopback_is_told_from_a_link() {
        let own = said(&Bed { device: "lo", added_ns: 3.0 * MS, queue_bytes: 151_400, ..Bed::default() });
        assert!(own[0].contains("no link is measured; the 2.99 ms are what both share of CPUs and caches"), "{own:?}");
        let idle = said(&Bed { device: "lo", ..Bed::default() });
        assert!(idle[0].starts_with("can't tell") && idle[0].contains("no link is measured"), "{idle:?}");
    }
}
