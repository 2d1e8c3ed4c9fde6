//! `explain`: where the time of messages goes, who held their CPU, and what the ends did meanwhile.

use crate::analyse::bands::{AtReady, Stage};
use crate::analyse::occupants::Occupant;
use crate::analyse::scheduler::ThreadTimes;
use crate::analyse::stage::{Kind, StageDirection};
use crate::analyse::{CaseStages, attribution};
use msgpath_analyse::Summary;
use msgpath_analyse::one_way::FarClock;
use msgpath_analyse::stages::Band;
use msgpath_analyse::summary::CaseSummary;
use msgpath_analyse::words::factor_in_words;
use msgpath_core::foreign::command_again;
use msgpath_core::plan::Metric;
use msgpath_core::schema::FAR;
use msgpath_core::units::{Glyphs, three_digits};
use msgpath_record::{Messages, Run};

use msgpath_present::terminal::{Align, Page, Paint, Span, Style, Table, bar_of, bursts, stage_bars, width};
use msgpath_present::{view, words};

/// Characters of the longest bar.
const BAR: usize = 8;
/// Narrower than this there is no room for bars.
const WITH_BARS: usize = 80;
/// Stages that have a row of their own without `-v`; one more than that is better than `1 others`.
const STAGES: usize = 5;
/// Where facts below the table start.
const FACT: usize = 20;

/// Everything that a run knows of where its time goes. Without a traced replica: what its stamps tell (`logged`), and how to
/// record more.
pub fn explain(run: &Run, summary: &Summary, logged: &dyn Messages, style: Style) -> String {
    let mut page = Page::new(style);
    page.head(run, summary, &["where the time goes".into(), summary.target.clone()]);
    page.answer(summary);
    each_split(&mut page, summary);
    // Without a split what the stamps of two clocks tell is worth showing.
    let none = attribution(summary).iter().all(|stages| stages.why.is_some());
    if attribution(summary).is_empty() || none && summary.far_clock.is_some() {
        let bars = stage_bars(run, summary, logged, style);
        for line in bars.lines() {
            page.line(&[line.into()]);
        }
        page.gap();
        match &summary.far_clock {
            Some(_) if !attribution(summary).is_empty() => {}
            Some(clock) => beside_two_clocks(&mut page, run, clock),
            None => {
                let again = format!("{} --stages light", command_again(&run.header.command));
                page.text(
                    2,
                    "The kernel was not traced, so nothing is known between the stamps. This run records it:",
                    Paint::Dim,
                );
                page.verbatim(&format!("    {again}"));
            }
        }
    }
    if let Some(clock) = summary.far_clock.as_ref().filter(|_| !attribution(summary).is_empty()) {
        page.text(2, &words::far_clock(clock), Paint::Dim);
    }
    let cases = view::measured(summary);
    page.limits(run, summary, &cases);
    for stages in attribution(summary).iter().filter(|stages| style.verbose || stages.why.is_some()) {
        case_stages(&mut page, run, stages);
    }
    page.in_full(run, summary, &cases);
    page.more(run, summary, &[], &["request and reply apart", "who held the CPU", "system calls"]);
    page.finish()
}

/// The split of each traced case; without `-v` that of the first.
fn each_split(page: &mut Page, summary: &Summary) {
    let all = attribution(summary);
    let shown = if page.style.verbose { all.len() } else { all.len().min(1) };
    for stages in &all[..shown] {
        split(page, summary, stages);
    }
    if all.len() > shown {
        page.text(2, &format!("{}: -v", words::counted((all.len() - shown) as u64, "more traced case")), Paint::Dim);
    }
}

/// The table of stages of each traced case, with what makes it believable: what a measuring verb adds to its result.
/// Empty where nothing was traced.
pub fn stages_of(run: &Run, summary: &Summary, style: Style) -> String {
    let mut page = Page::new(style);
    each_split(&mut page, summary);
    for stages in attribution(summary).iter().filter(|stages| style.verbose || stages.why.is_some()) {
        evidence(&mut page, run, stages);
    }
    page.finish()
}

/// A word or two before a fact.
fn fact(name: &str) -> [Span; 3] {
    ["  ".into(), Paint::Dim.span(name), " ".repeat(FACT.saturating_sub(2 + width(name))).into()]
}

/// The bands that stand beside each other, with their heads: usual, slow, all; the slowest where there is room.
fn columns(stages: &CaseStages) -> Vec<(&Band, String)> {
    let head = |band: &Band| match band.name.as_str() {
        "p45–55" => "at p50".to_owned(),
        "p98.5–99.5" => "at p99".to_owned(),
        "all" => "mean of all".into(),
        name => name.to_owned(),
    };
    let slowest = stages.bands.iter().filter(|band| band.name.starts_with("slowest"));
    ["p45–55", "p98.5–99.5", "all"]
        .iter()
        .filter_map(|name| stages.band(name))
        .chain(slowest)
        .map(|band| (band, head(band)))
        .collect()
}

/// How the stamps of two ends without a common clock come onto one axis, and why nothing is known between them.
fn beside_two_clocks(page: &mut Page, run: &Run, clock: &FarClock) {
    page.text(2, &words::far_clock(clock), Paint::Dim);
    not_used(page, run);
}

/// The back ends that did not trace.
fn not_used(page: &mut Page, run: &Run) {
    let far = run.header.end(FAR).tracing.as_ref();
    let here = if far.is_some() { "near end, " } else { "" };
    let ends = run.header.tracing.iter().map(|tracing| (here, tracing));
    for (end, tracing) in ends.chain(far.map(|far| ("far end, ", far))) {
        for (name, why) in &tracing.refused {
            let hint = if why.hint.is_empty() { String::new() } else { format!("; to have it: {}", why.hint) };
            page.hanging(&fact("not used"), FACT, &format!("{end}{name}: {}{hint}", why.why), Paint::Dim);
        }
    }
}

/// What makes the table believable, and what the ends did meanwhile.
fn case_stages(page: &mut Page, run: &Run, stages: &CaseStages) {
    evidence(page, run, stages);
    if stages.why.is_some() {
        return;
    }
    at_ready(page, stages);
    occupants(page, stages);
    idle(page, stages);
    scheduler(page, stages);
    calls(page, stages);
}

/// Heading and table of stages.
fn split(page: &mut Page, summary: &Summary, stages: &CaseStages) {
    let case = summary.cases.iter().find(|case| case.case.id == stages.case);
    let what = |case: &CaseSummary| format!("{} {}, ", case.case.path, words::message_at(&case.case));
    let messages = words::counted(stages.messages, "traced message");
    page.heading(&format!("where the time goes   {}{messages}", case.map_or_else(String::new, what)));
    if let Some(why) = &stages.why {
        page.hanging(&[Paint::Yellow.span("  n/a: ")], 7, why, Paint::Plain);
    } else if !page.style.verbose {
        largest_stages(page, stages);
    } else {
        stage_table(page, stages);
        let text = "Each column averages whole messages of that slowness (p45 to p55, p98.5 to p99.5), so its stages \
                    add up to its round trip.";
        page.text(2, text, Paint::Dim);
        if let Some(within) = stages.within_ns {
            let bound = format!("{}{}", page.style.glyphs.plus_minus(), page.style.glyphs.time(within));
            page.text(2, &words::between_hosts(&bound), Paint::Dim);
        }
    }
}

fn time(ns: f64, glyphs: Glyphs) -> String {
    let time = glyphs.time(ns);
    format!("{}{time}", " ".repeat(8_usize.saturating_sub(width(&time))))
}

/// Time and bar of a stage in a column whose messages took `mean`.
fn stage_cell(ns: f64, mean: f64, style: Style) -> Span {
    let bars = ns > 0.0 && style.columns() >= WITH_BARS;
    let bar = if bars { bar_of(ns / mean.max(1.0), BAR, style.glyphs) } else { String::new() };
    format!("{} {bar}", time(ns, style.glyphs)).into()
}

/// A table of these columns, which begins with their round trips.
fn of_bands(columns: &[(&Band, String)], style: Style) -> Table {
    let mut table = Table::new().column("", Align::Left);
    for (at, (_, head)) in columns.iter().enumerate() {
        table = match at {
            0 | 1 => table.column(head.as_str(), Align::Left),
            _ => table.optional(head.as_str(), Align::Left, 9 - at as u8),
        };
    }
    let total = columns.iter().map(|(band, _)| {
        let few = if band.claim { String::new() } else { format!(" {} only", bursts(band)) };
        let paint = if band.claim { Paint::Bold } else { Paint::Yellow };
        paint.span(format!("{}{few}", time(band.mean_ns, style.glyphs)))
    });
    table.row(std::iter::once(Paint::Bold.span("round trip")).chain(total));
    table
}

/// The stages that take most, request and reply together, and what all others take.
fn largest_stages(page: &mut Page, stages: &CaseStages) {
    let columns = columns(stages);
    let mut table = of_bands(&columns, page.style);
    let mut names: Vec<&str> = Vec::new();
    stages.stages.iter().for_each(|stage| view::push_new(&mut names, stage.name.as_str()));
    let sum = |band: &Band, is: &dyn Fn(&str) -> bool| -> f64 {
        let parts = stages.stages.iter().zip(&band.parts_ns);
        parts.filter(|(stage, _)| is(&stage.name)).map(|(_, ns)| *ns).sum()
    };
    let most = |name: &str| columns.iter().map(|(band, _)| sum(band, &|own| own == name)).fold(0.0, f64::max);
    let mut largest = names.clone();
    largest.sort_by(|a, b| most(b).total_cmp(&most(a)));
    largest.truncate(if names.len() > STAGES + 1 { STAGES } else { names.len() });
    // In the order in which a message meets them.
    let shown: Vec<&str> = names.iter().copied().filter(|name| largest.contains(name)).collect();
    let mut row = |label: String, is: &dyn Fn(&str) -> bool| {
        let cells = columns.iter().map(|(band, _)| stage_cell(sum(band, is), band.mean_ns, page.style));
        table.row(std::iter::once(Span::from(label)).chain(cells));
    };
    for name in &shown {
        row(format!("  {name}"), &|own| own == *name);
    }
    if names.len() > shown.len() {
        row(format!("  {} others", names.len() - shown.len()), &|own| !shown.contains(&own));
    }
    page.table(table);
    page.text(2, "Request and reply together; each column averages whole messages.", Paint::Dim);
}

fn stage_table(page: &mut Page, stages: &CaseStages) {
    let columns = columns(stages);
    let (style, glyphs) = (page.style, page.style.glyphs);
    let mut table = of_bands(&columns, style);
    let mut group: Option<Option<StageDirection>> = None;
    for (at, stage) in stages.stages.iter().enumerate() {
        if group != Some(stage.direction) {
            group = Some(stage.direction);
            if let Some(direction) = stage.direction {
                let sums =
                    columns.iter().map(|(band, _)| Span::from(time(stages.direction_ns(band, direction), glyphs)));
                let name = match direction {
                    StageDirection::Request => "request: near end to far end",
                    StageDirection::Reply => "reply: far end to near end",
                };
                table.row(std::iter::once(Span::from(name)).chain(sums));
            }
        }
        let cells = columns.iter().map(|(band, _)| stage_cell(band.parts_ns[at], band.mean_ns, style));
        let bound = stages.within_ns.filter(|_| stage.kind == Kind::Device);
        let bound = bound.map_or_else(String::new, |ns| format!(" {}{}", glyphs.plus_minus(), glyphs.time(ns)));
        table.row(std::iter::once(Span::from(label(stage) + &bound)).chain(cells));
    }
    page.table(table);
}

/// Who says so, how much of it is known, and what asking cost.
fn evidence(page: &mut Page, run: &Run, stages: &CaseStages) {
    let glyphs = page.style.glyphs;
    page.gap();
    if let Some(backend) = &stages.known_by {
        let mut text = format!("{backend}, the {} set of events", stages.set.name());
        if !stages.self_test.is_empty() {
            text += &format!("; self-test: {}", stages.self_test);
        }
        if stages.wakeups_joined {
            text += "; wake-up in flight and scheduling delay are one number here, so the delay by itself is n/a";
        }
        page.hanging(&fact("known by"), FACT, &text, Paint::Plain);
    }
    not_used(page, run);
    if stages.messages == 0 {
        return;
    }
    let mut text = format!(
        "{} of {} messages ({}), residual {}, {} events a message, {} lost",
        stages.complete,
        stages.messages,
        words::percent(stages.complete_share()),
        glyphs.time(stages.residual_ns as f64),
        three_digits(stages.events_per_message),
        stages.events_lost,
    );
    for (reason, count) in &stages.not_attributed {
        text += &format!("; {} not attributed: {reason}", count);
    }
    page.hanging(&fact("complete"), FACT, &text, Paint::Plain);
    let text = match &stages.observer {
        Some(observer) => {
            let (factor, interval) = factor_in_words(&observer.ratio, Metric::P50);
            let ratio = observer.ratio.value;
            let interval = interval.as_deref().unwrap_or("no interval");
            let text = format!("tracing makes p50 {factor} ({interval}; paired by pass)");
            // The ratio is paired by pass; where the two medians differ the other way it is chance that they do.
            if (ratio > 1.0) == (observer.traced_ns > observer.untraced_ns) {
                let [traced, untraced] = [observer.traced_ns, observer.untraced_ns].map(|ns| glyphs.time(ns));
                format!("{text}: {traced} instead of {untraced}")
            } else {
                format!("{text}, paired by pass")
            }
        }
        None => "n/a: the case itself was not measured beside its traced rounds".into(),
    };
    page.hanging(&fact("observer effect"), FACT, &text, Paint::Plain);
    let text = match &stages.delay_share {
        _ if stages.why.is_some() => return,
        Some(share) => format!(
            "{} of the mean; per message p10 {}, p50 {}, p90 {}",
            words::percent(share.of_mean),
            words::percent(share.p10),
            words::percent(share.p50),
            words::percent(share.p90),
        ),
        None if !stages.untraced.is_empty() => "n/a: one end was not traced".into(),
        None => "n/a: this back end does not tell it from the wake-up in flight".into(),
    };
    page.hanging(&fact("scheduling delay"), FACT, &text, Paint::Plain);
}

/// In which state the data found the receiver.
fn at_ready(page: &mut Page, stages: &CaseStages) {
    let mut table = Table::new()
        .column("when data arrived", Align::Left)
        .column("running", Align::Right)
        .column("runnable", Align::Right)
        .column("asleep", Align::Right)
        .column("being woken", Align::Right);
    for (direction, states) in StageDirection::ALL.iter().zip(&stages.at_ready) {
        let cell = |count: u64| -> Span {
            match states.total() {
                0 => "n/a".into(),
                total => words::percent(count as f64 / total as f64).into(),
            }
        };
        let AtReady { running, runnable, blocked, waking } = *states;
        table.row([direction.name().into(), cell(running), cell(runnable), cell(blocked), cell(waking)]);
    }
    page.gap();
    page.table(table);
}

/// Who held the CPU while the receiver was runnable.
fn occupants(page: &mut Page, stages: &CaseStages) {
    if stages.occupants.all.is_empty() {
        return;
    }
    let mut table = Table::new()
        .column("who held the CPU of a ready receiver", Align::Left)
        .column("all", Align::Right)
        .column("slow ones", Align::Right);
    for occupant in &stages.occupants.all {
        let slow = stages.occupants.slow.iter().find(|slow| slow.name == occupant.name && slow.own == occupant.own);
        table.row([
            holder(occupant).into(),
            words::percent(occupant.share).into(),
            words::percent(slow.map_or(0.0, |slow| slow.share)).into(),
        ]);
    }
    page.gap();
    page.table(table);
}

fn idle(page: &mut Page, stages: &CaseStages) {
    if stages.idle.is_empty() {
        return;
    }
    let mut table = Table::new()
        .column("idle state left", Align::Left)
        .column("wake-ups", Align::Right)
        .column("in flight", Align::Right)
        .column("of slow", Align::Right)
        .column("of others", Align::Right);
    for exit in &stages.idle {
        table.row([
            exit.state.to_string().into(),
            exit.wakeups.to_string().into(),
            page.style.glyphs.time(exit.in_flight_ns).into(),
            words::percent(exit.share_of_slow).into(),
            words::percent(exit.share_of_others).into(),
        ]);
    }
    page.gap();
    page.table(table);
}

/// What `perf sched timehist` shows, and the waiting after a preemption that its delay misses.
fn scheduler(page: &mut Page, stages: &CaseStages) {
    if stages.threads.is_empty() {
        return;
    }
    let glyphs = page.style.glyphs;
    let mut table = Table::new()
        .column("per message", Align::Left)
        .optional("threads", Align::Right, 1)
        .column("run", Align::Right)
        .optional("asleep", Align::Right, 2)
        .optional("waking", Align::Right, 3)
        .column("delay", Align::Right)
        .column("preempted", Align::Right)
        .column("switches", Align::Right);
    for thread in &stages.threads {
        let ThreadTimes { run_ns, sleep_ns, waking_ns, after_wakeup_ns, preempted_ns, .. } = *thread;
        let time = |ns: u64| -> Span { glyphs.time(thread.each(ns)).into() };
        let joined = || Span::from("n/a");
        table.row([
            thread.who.as_str().into(),
            thread.threads.to_string().into(),
            time(run_ns),
            time(sleep_ns),
            time(waking_ns),
            if stages.wakeups_joined { joined() } else { time(after_wakeup_ns) },
            time(preempted_ns),
            words::per_message(thread.each(thread.switches)).into(),
        ]);
    }
    page.gap();
    page.table(table);
    let text = "'delay': runnable after a wake-up, what perf sched timehist calls so. 'preempted': runnable after a \
                preemption, which it does not count.";
    page.text(2, text, Paint::Dim);
}

fn calls(page: &mut Page, stages: &CaseStages) {
    if stages.calls.is_empty() {
        return;
    }
    let glyphs = page.style.glyphs;
    let mut table = Table::new()
        .column("end", Align::Left)
        .column("system call", Align::Left)
        .column("a message", Align::Right)
        .column("mean time", Align::Right)
        .optional("time a message", Align::Right, 2)
        .optional("calls", Align::Right, 1);
    for call in &stages.calls {
        table.row([
            call.who.as_str().into(),
            call.name.as_str().into(),
            words::per_message(call.per_message).into(),
            glyphs.time(call.mean_ns).into(),
            glyphs.time(call.ns_per_message).into(),
            call.calls.to_string().into(),
        ]);
    }
    page.gap();
    page.table(table);
    page.text(2, "The time of a call is from entry to exit, sleeping included.", Paint::Dim);
}

/// A stage in the table: those on the way are indented below their direction.
fn label(stage: &Stage) -> String {
    match stage.direction {
        Some(_) => format!("  {}", stage.name),
        None => stage.name.clone(),
    }
}

/// `ffmpeg, thread 666`.
pub(super) fn holder(occupant: &Occupant) -> String {
    match (occupant.tid, occupant.own) {
        (0, _) => "nobody: the CPU left idle".into(),
        (-1, _) => "others".into(),
        (tid, true) => format!("an end of this measurement, thread {tid}"),
        (tid, false) => format!("{}, thread {tid}", occupant.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::fixture;
    use msgpath_record::NO_MESSAGES;

    const VERBOSE: Style = Style { width: 100, color: false, glyphs: Glyphs::Unicode, verbose: true, warnings: false };

    #[test]
    fn the_largest_stages_add_up_to_the_round_trip() {
        let (run, summary) = fixture::explained();
        let text = explain(&run, &summary, &NO_MESSAGES, Style { width: 100, ..Style::default() });
        assert!(text.contains("wake-up in flight") && text.contains(" others "), "{text}");
        assert!(!text.contains("self-test") && !text.contains("system call  a message"), "{text}");
    }

    #[test]
    fn everything_fits_and_adds_up() {
        let (run, summary) = fixture::explained();
        for width in [100, 80, 60] {
            let text = explain(&run, &summary, &NO_MESSAGES, Style { width, ..Style::default() });
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            assert!(text.lines().count() <= 30, "{text}");
            insta::assert_snapshot!(format!("explain_{width}"), text);
        }
        for width in [80, 60] {
            let text = explain(&run, &summary, &NO_MESSAGES, Style { width, ..VERBOSE });
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            insta::assert_snapshot!(format!("explain_{width}_verbose"), text);
        }
        let ascii = Style { glyphs: Glyphs::Ascii, ..Style::default() };
        let text = explain(&run, &summary, &NO_MESSAGES, ascii);
        assert!(text.is_ascii() && !text.contains('?'), "{text}");
    }

    #[test]
    fn two_hosts_stand_on_one_axis_with_the_bound_between_them() {
        let (mut run, mut summary) = fixture::explained();
        fixture::change(&mut summary, |stages| {
            stages.known_by = Some("near end: BPF tracepoints".into());
            stages.untraced = vec![("far end".into(), "BPF tracepoints: CAP_BPF is missing".into())];
            (stages.within_ns, stages.delay_share) = (Some(640.0), None);
            stages.at_ready[0] = AtReady::default();
        });
        let reason = msgpath_core::Unavailable::new("CAP_BPF is missing", "a capability");
        let refused = vec![("BPF tracepoints".into(), reason)];
        run.header.ends[FAR].tracing = Some(msgpath_core::schema::Tracing { refused, ..Default::default() });
        summary.far_clock = Some(FarClock { text: "offset +3 ms, within ±640 ns".into(), ..FarClock::default() });
        let text = explain(&run, &summary, &NO_MESSAGES, VERBOSE);
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "device and wire ±640 ns",
            "Both ends on one axis, each by its own clock: the time between the two hosts is ±640 ns (clock bound)",
            "The far end's clock, by the messages themselves: offset +3 ms, within ±640 ns.",
            "far end, BPF tracepoints: CAP_BPF is missing; to have it: a capability",
            "n/a: one end was not traced",
            "request n/a n/a n/a n/a",
        ] {
            assert!(flat.contains(part), "{part:?} is not in:\n{text}");
        }
        let narrow = explain(&run, &summary, &NO_MESSAGES, Style { width: 60, ..VERBOSE });
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    }

    #[test]
    fn what_is_not_known_says_why() {
        let (mut run, mut summary) = fixture::explained();
        fixture::change(&mut summary, |stages| {
            stages.why = Some("the stages of 10 of 2000 messages are known".into());
            stages.complete = 10;
            (stages.stages, stages.bands) = (Vec::new(), Vec::new());
            (stages.wakeups_joined, stages.delay_share, stages.observer) = (true, None, None);
        });
        run.header.tracing = Some(msgpath_core::schema::Tracing {
            refused: vec![(
                "BPF tracepoints".into(),
                msgpath_core::Unavailable::new("CAP_BPF is missing", "sudo setcap cap_bpf,cap_perfmon+ep msgpath"),
            )],
            ..Default::default()
        });
        insta::assert_snapshot!("explain_not_known", explain(&run, &summary, &NO_MESSAGES, Style::default()));
        let (run, summary) = msgpath_present::fixture::echo();
        let text = explain(&run, &summary, &NO_MESSAGES, Style::default());
        assert!(text.contains("    msgpath echo --stages light"), "{text}");
        assert_eq!(stages_of(&run, &summary, Style::default()), "");
    }
}
