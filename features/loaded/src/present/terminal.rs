//! `loaded`: the answer, the times of idle and loaded rounds, where what is added stands.

use msgpath_analyse::Summary;
use msgpath_core::units::{BitUnits, Glyphs, bits_per_second, size, three_digits};
use msgpath_present::terminal::{Align, Page, Paint, Span, Style, Table};
use msgpath_present::{view, words};
use msgpath_record::Run;
use msgpath_stats::estimate::Estimate;

use crate::analyse::{EndQueue, LoadedSummary, UnderLoad};
use crate::findings::ANSWER;

/// What the draft of the IETF makes its figure of, and what of it is measured here.
const RPM: &str = "RPM: round trips a minute by draft-ietf-ippm-responsiveness, its formula for TCP. TLS is no part of it; the kernel's \
    round trip of the load stands for requests on its connections.";
/// The same in full.
const RPM_IN_FULL: &str = "RPM is the mean of two rates: 60 s by the mean of connecting and of a request, both on new connections beside \
    the load, and 60 s by the round trip of the load. Each time is the mean of the fastest 95 % of all rounds. The draft sends its requests \
    over HTTP/2; where that cannot be, it takes the round trip that TCP estimates, as here. 'A minute' is of the echo alone, on a \
    connection of its own.";

/// The view of such a run.
pub(super) fn view(run: &Run, summary: &Summary, style: Style) -> Option<String> {
    let loaded = summary.sections.get::<LoadedSummary>()?;
    let mut page = Page::new(style);
    let cases = view::measured(summary);
    let first = cases.first().map_or_else(String::new, |case| case.case.path.to_string());
    let facts = [first, summary.target.clone(), load(loaded)];
    page.head_with(run, summary, &facts, &[view::placement(run)]);
    page.gap();
    for finding in summary.findings.iter().filter(|finding| finding.code == ANSWER) {
        page.finding(finding);
    }
    page.gates(&summary.gates);
    page.gap();
    page.table(times(summary, loaded, style.glyphs));
    page.gap();
    if !loaded.no_link {
        page.table(responsiveness(loaded, style.glyphs));
        page.text(2, RPM, Paint::Dim);
        if style.verbose {
            page.text(2, RPM_IN_FULL, Paint::Dim);
        }
        page.gap();
    }
    page.table(places(loaded, style.glyphs));
    excess(&mut page, loaded, style.glyphs);
    sockets(&mut page, loaded, style.glyphs);
    page.limits(run, summary, &cases);
    page.in_full(run, summary, &cases);
    page.more(run, summary, &cases, &[]);
    Some(page.finish())
}

fn load(loaded: &LoadedSummary) -> String {
    let load = &loaded.load;
    let streams = words::counted(load.streams.into(), &format!("{} stream", load.transport));
    match load.rate_bits {
        Some(bits) => format!("{streams}, {}", bits_per_second(bits, BitUnits::Si)),
        None => streams,
    }
}

/// A value with its interval, or why there is none.
fn estimate(estimate: Option<&Estimate>, print: impl Fn(f64) -> String) -> String {
    estimate.map_or_else(|| "n/a".into(), |estimate| print(estimate.value))
}

fn interval(estimate: Option<&Estimate>, print: impl Fn(f64) -> String) -> Span {
    estimate.map_or_else(Span::default, |estimate| words::estimate_interval(estimate, print).into())
}

/// A row for the idle rounds, and one for each direction of the load.
fn times(summary: &Summary, loaded: &LoadedSummary, glyphs: Glyphs) -> Table {
    let mut table = Table::new()
        .column("load", Align::Left)
        .column("p50", Align::Right)
        .optional("range, 95 %", Align::Right, 6)
        .optional("p99", Align::Right, 5)
        .column("added", Align::Right)
        .optional("range, 95 %", Align::Right, 4)
        .column("a minute", Align::Right)
        .optional("connect", Align::Right, 1)
        .optional("load, wire", Align::Right, 3);
    let case = |id: u32| summary.cases.iter().find(|case| case.case.id == id);
    let time = |ns: f64| glyphs.time(ns);
    let mut row = |name: &str, id: u32, under: Option<&UnderLoad>, per_minute: Option<&Estimate>| {
        let quantile = |p: f64| case(id).and_then(|case| words::quantile(case, p));
        let value = |p| quantile(p).map_or_else(|| "n/a".into(), |quantile| words::quantile_value(quantile, glyphs));
        let added = under.and_then(|under| under.added_ns.as_ref());
        table.row([
            name.into(),
            Paint::Bold.span(value(0.5)),
            quantile(0.5).map_or_else(String::new, |quantile| words::quantile_range(quantile, glyphs)).into(),
            value(0.99).into(),
            under.map_or_else(String::new, |_| estimate(added, time)).into(),
            interval(added, time),
            estimate(per_minute, three_digits).into(),
            case(id).and_then(|case| case.transit.connect_ns).map_or_else(String::new, time).into(),
            under
                .and_then(|under| under.load_bits.as_ref())
                .map_or_else(String::new, |bits| bit_rate(bits.value))
                .into(),
        ]);
    };
    if let Some(idle) = loaded.idle {
        row("idle", idle, None, loaded.idle_per_minute.as_ref());
    }
    for under in &loaded.directions {
        row(under.direction.name(), under.case, Some(under), under.per_minute.as_ref());
    }
    table
}

/// RPM of each direction, and what it is made of.
fn responsiveness(loaded: &LoadedSummary, glyphs: Glyphs) -> Table {
    let mut table = Table::new()
        .column("load", Align::Left)
        .column("RPM, TCP only", Align::Right)
        .optional("range, 95 %", Align::Right, 5)
        .column("connecting", Align::Right)
        .column("request", Align::Right)
        .column("load's round trip", Align::Right)
        .optional("new connections", Align::Right, 3);
    let time = |ns: f64| glyphs.time(ns);
    for under in &loaded.directions {
        let own = &under.responsiveness;
        table.row([
            under.direction.name().into(),
            Paint::Bold.span(estimate(own.rpm.as_ref(), three_digits)),
            interval(own.rpm.as_ref(), three_digits),
            estimate(own.connect_ns.as_ref(), time).into(),
            estimate(own.request_ns.as_ref(), time).into(),
            estimate(own.round_trip_ns.as_ref(), time).into(),
            match own.unanswered {
                0 => own.probes.to_string().into(),
                some => format!("{}, {some} unanswered", own.probes).into(),
            },
        ]);
    }
    table
}

fn bit_rate(bits: f64) -> String {
    bits_per_second(bits, BitUnits::Si)
}

/// What stands in the queues of the ends that send.
fn places(loaded: &LoadedSummary, glyphs: Glyphs) -> Table {
    let mut table = Table::new()
        .column("load", Align::Left)
        .column("stands in", Align::Left)
        .column("time", Align::Right)
        .optional("range, 95 %", Align::Right, 4)
        .column("share", Align::Right)
        .column("bytes", Align::Right)
        .optional("packets", Align::Right, 3)
        .optional("leaves at", Align::Right, 2)
        .optional("dropped", Align::Right, 3)
        .optional("marked", Align::Right, 1);
    let time = |ns: f64| glyphs.time(ns);
    for under in &loaded.directions {
        for queue in &under.queues {
            let count = |count: Option<u64>| count.map_or_else(|| "n/a".into(), |count| count.to_string());
            table.row([
                under.direction.name().into(),
                place(queue).into(),
                estimate(queue.queue_ns.as_ref(), time).into(),
                interval(queue.queue_ns.as_ref(), time),
                share(under, "queue", &queue.end).into(),
                estimate(queue.queued_bytes.as_ref(), |bytes| size(bytes as u64)).into(),
                estimate(queue.queued_packets.as_ref(), three_digits).into(),
                estimate(queue.left_bits.as_ref(), bit_rate).into(),
                count(queue.drops).into(),
                count(queue.marks).into(),
            ]);
            if let Some(bytes) = queue.device_bytes.as_ref() {
                table.row([
                    Span::default(),
                    "its rings (BQL)".into(),
                    Span::default(),
                    Span::default(),
                    Span::default(),
                    size(bytes.value as u64).into(),
                ]);
            }
        }
        let beyond = under.beyond_ns.as_ref();
        table.row([
            under.direction.name().into(),
            "beyond".into(),
            estimate(beyond, time).into(),
            interval(beyond, time),
            share(under, "beyond", "").into(),
        ]);
    }
    table
}

/// The part of what is added that stands there.
fn share(under: &UnderLoad, place: &str, end: &str) -> String {
    let own = under.shares.iter().flatten().find(|share| share.place == place && share.end == end);
    own.map_or_else(|| "n/a".into(), |share| format!("{:.0} %", 100.0 * share.share))
}

/// Why the parts of what is added are not told.
fn excess(page: &mut Page, loaded: &LoadedSummary, glyphs: Glyphs) {
    for under in &loaded.directions {
        let Some(excess) = &under.excess_ns else { continue };
        let text = format!(
            "Load {}: the queues hold {} more than is added, surely more than 0, so the shares cannot be told apart.",
            under.direction,
            glyphs.time(excess.value)
        );
        page.text(2, &text, Paint::Dim);
    }
}

fn place(queue: &EndQueue) -> String {
    match &queue.device {
        Some(device) if queue.qdiscs.is_empty() => format!("{device}, {}", queue.end),
        Some(device) => format!("{device}, {} ({})", queue.end, queue.qdiscs.join(", ")),
        None => format!("the {}: not read", queue.end),
    }
}

/// What the sockets of the load hold: it delays the load, not the messages.
fn sockets(page: &mut Page, loaded: &LoadedSummary, glyphs: Glyphs) {
    for under in &loaded.directions {
        for queue in &under.queues {
            let (Some(unsent), Some(rtt)) = (&queue.unsent_bytes, &queue.rtt_ns) else { continue };
            let held = queue.unacknowledged_bytes.as_ref().map_or(0.0, |bytes| bytes.value);
            let text = format!(
                "Load {}: its sockets at the {} hold {} unacknowledged, {} of it unsent; that delays the load, not the messages. \
                 Its own round trip is {}.",
                under.direction,
                queue.end,
                size(held as u64),
                size(unsent.value as u64),
                glyphs.time(rtt.value)
            );
            page.text(2, &text, Paint::Dim);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bed, MS};

    fn shown(bed: &Bed, width: u16) -> String {
        let (run, logs) = bed.run();
        let summary = msgpath_analyse::summarise_with(&run, &logs);
        view(&run, &summary, Style { width, ..Style::default() }).unwrap()
    }

    #[test]
    fn the_answer_stands_first_and_the_queue_below() {
        let bed = Bed { queue_bytes: 151_400, added_ns: 121.12 * MS, ..Bed::default() };
        for width in [60, 80, 100] {
            let text = shown(&bed, width);
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            let first: Vec<&str> = text.lines().take(8).collect();
            let first = first.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
            for part in
                ["Idle 99.9 µs, loaded 121 ms (down)", "stand in the queue of mp0 at the server", "fq_codel there"]
            {
                assert!(first.contains(part), "{part} is not in {first}");
            }
        }
        let text = shown(&bed, 100);
        for part in ["mp0, server (tbf, pfifo)", "121 ms", "148 KiB", "beyond", "RPM, TCP only", "100 %", "0 %"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn the_rpm_says_what_it_is_made_of() {
        let bed = Bed { added_ns: 150.0 * MS, probes: Some([100.0 * MS, 140.0 * MS]), ..Bed::default() };
        let text = shown(&bed, 80);
        for part in ["450", "100 ms", "140 ms", "150 ms", "draft-ietf-ippm-responsiveness", "TLS is no part of it"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let unprobed = shown(&Bed { probes: None, ..bed }, 80);
        assert!(unprobed.lines().any(|line| line.contains("down") && line.contains("n/a")), "{unprobed}");
    }

    #[test]
    fn shares_that_cannot_be_told_apart_are_not_told() {
        let text = shown(&Bed { added_ns: 100.0 * MS, queue_bytes: 388_750, ..Bed::default() }, 80);
        assert!(text.contains("the shares cannot be told apart") && !text.contains('−'), "{text}");
        assert!(text.lines().any(|line| line.contains("beyond") && line.contains("n/a")), "{text}");
    }

    #[test]
    fn an_end_that_was_not_read_says_so() {
        let text = shown(&Bed { added_ns: 300.0 * MS, read: false, ..Bed::default() }, 100);
        assert!(text.contains("the server: not read") && text.contains("n/a"), "{text}");
    }

    #[test]
    fn other_runs_are_not_its_own() {
        let run = msgpath_analyse::testing::Build::echo(&["tcp:send"], &[64]).run();
        let summary = msgpath_analyse::summarise_with(&run, &msgpath_analyse::Logs::default());
        assert!(view(&run, &summary, Style::default()).is_none());
    }
}
