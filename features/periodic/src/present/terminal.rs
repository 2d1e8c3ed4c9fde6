//! `periodic`: the times of each engine, first messages apart from steady ones, and what the processes did.

use crate::analyse::PeriodicSummary;
use crate::analyse::{Engine, PeriodicTimes, Stall};
use crate::record::{Component, PeriodicFacts, PeriodicSession};
use msgpath_analyse::Summary;
use msgpath_core::units::Glyphs;
use msgpath_record::Run;
use msgpath_stats::quantile::Quantile;

use msgpath_present::terminal::{Align, Page, Paint, Span, Style, Table};
use msgpath_present::view;
use msgpath_present::words;

/// Processes in the table of processes, unless there are fewer.
const PROCESSES: usize = 16;
/// Hosts that are named above.
const HOSTS: usize = 4;
/// Stalls that are listed of an engine.
const STALLS: usize = 3;

/// The view of a periodic run.
pub(super) fn view(run: &Run, summary: &Summary, style: Style) -> Option<String> {
    run.header.parts.get::<PeriodicFacts>().map(|_| periodic(run, summary, style))
}

/// The result of `periodic`.
fn periodic(run: &Run, summary: &Summary, style: Style) -> String {
    let mut page = Page::new(style);
    let glyphs = style.glyphs;
    let (Some(facts), Some(periodic)) =
        (run.header.parts.get::<PeriodicFacts>(), summary.sections.get::<PeriodicSummary>())
    else {
        page.head(run, summary, &["no facts of a periodic run were recorded".into()]);
        return page.finish();
    };
    page.head_with(run, summary, &head(run, facts, glyphs), &[processes_on_cpus(facts)]);
    page.answer(summary);
    let name = |engine: &Engine| {
        run.header.plan.cases.get(engine.case as usize).map_or_else(String::new, |case| case.path.to_string())
    };
    let engines: Vec<(String, &Engine)> =
        periodic.engines.iter().filter(|engine| engine.all.messages > 0).map(|engine| (name(engine), engine)).collect();
    if !engines.is_empty() {
        page.gap();
        page.table(times(facts, &engines, glyphs));
        receivers(&mut page, &engines);
    }
    page.text(2, run.header.plan.workload.duration(false).what, Paint::Dim);
    let cases = view::measured(summary);
    page.limits(run, summary, &cases);
    page.gap();
    page.table(deadlines(&engines, glyphs));
    page.text(
        2,
        &format!(
            "Made late and delivered late: more than a period ({}) after the message's time.",
            glyphs.time(facts.period_ns as f64)
        ),
        Paint::Dim,
    );
    stages(&mut page, facts, &engines);
    stalls(&mut page, facts, &engines);
    if style.verbose {
        setup(&mut page, &engines);
        processes(&mut page, run, facts);
    }
    page.in_full(run, summary, &cases);
    page.more(run, summary, &[], &["set-up", "processes"]);
    page.finish()
}

fn head(run: &Run, facts: &PeriodicFacts, glyphs: Glyphs) -> Vec<String> {
    let each = match facts.components {
        1 => words::counted(u64::from(facts.processes), "process").replace("processs", "processes"),
        n => format!("{} processes of {n} components", facts.processes),
    };
    let each = match &facts.group {
        Some(group) => {
            format!("{} of {}", words::counted(u64::from(facts.processes.saturating_sub(1)), "receiver"), group.group)
        }
        None => each,
    };
    let size = run.header.plan.cases.first().map_or_else(String::new, words::message);
    let mut head = vec![each, size, format!("every {}", glyphs.time(facts.period_ns as f64)), facts.start.clone()];
    if let Some(group) = &facts.group {
        head.push(format!("TTL {}", group.hops));
        if !group.hosts.is_empty() {
            head.push(match group.hosts.len() {
                0..=HOSTS => group.hosts.join(", "),
                count => words::counted(count as u64, "host"),
            });
        }
    }
    if let Some(between) = &run.header.plan.options.between {
        let names: Vec<&str> = between.ends.iter().map(|place| place.name.as_str()).collect();
        match names.split_last() {
            Some((last, rest)) if !rest.is_empty() => head.push(format!("{} and {last}", rest.join(", "))),
            _ => {}
        }
    }
    if facts.jitter_ns > 0 {
        head.push(format!("jitter {}", glyphs.time(facts.jitter_ns as f64)));
    }
    if facts.mac != "none" {
        head.push(facts.mac.clone());
    }
    head
}

fn processes_on_cpus(facts: &PeriodicFacts) -> String {
    if let Some(group) = &facts.group {
        let threads = words::counted(u64::from(facts.processes), "thread");
        let cpus = words::counted(u64::from(facts.cpus), "CPU");
        if !group.hosts.is_empty() {
            let messages = words::counted(facts.messages, "message");
            return format!("{messages}   the sender here, a receiver on each host, not pinned");
        }
        return format!("{}   {threads} on {cpus}, not pinned", words::counted(facts.messages, "message"));
    }
    let threads = u64::from(facts.processes) * u64::from(facts.components) * 2;
    format!(
        "{} of each component   {} sending and receiving threads on {}, not pinned",
        words::counted(facts.messages, "message"),
        threads,
        words::counted(u64::from(facts.cpus), "CPU"),
    )
}

fn time(ns: Option<u64>, glyphs: Glyphs) -> Span {
    ns.map_or_else(|| "n/a".into(), |ns| glyphs.time(ns as f64).into())
}

fn mean(ns: Option<f64>, glyphs: Glyphs) -> Span {
    ns.map_or_else(|| "n/a".into(), |ns| glyphs.time(ns).into())
}

/// Minimum, mean, percentiles and maximum of all messages, of the first and of the rest.
fn times(facts: &PeriodicFacts, engines: &[(String, &Engine)], glyphs: Glyphs) -> Table {
    let mut table = Table::new()
        .column("engine", Align::Left)
        .column("messages", Align::Left)
        .column("min", Align::Right)
        .column("mean", Align::Right)
        .column("p50", Align::Right)
        .column("p99", Align::Right)
        .column("max", Align::Right)
        .optional("delivered", Align::Right, 2)
        .optional("lost", Align::Right, 3);
    for (name, engine) in engines {
        let first = format!("first {}", facts.first);
        let parts: [(&str, &PeriodicTimes); 3] =
            [("all", &engine.all), (&first, &engine.first), ("steady", &engine.steady)];
        for (at, (part, times)) in parts.into_iter().enumerate().filter(|(_, (_, times))| times.messages > 0) {
            let paint = |span: Span| if at == 0 { Paint::Bold.span(span.text) } else { span };
            table.row([
                if at == 0 { name.as_str().into() } else { Span::default() },
                part.into(),
                paint(time(times.min_ns, glyphs)),
                paint(mean(times.mean_ns, glyphs)),
                paint(time(times.p50_ns, glyphs)),
                paint(time(times.p99_ns, glyphs)),
                paint(time(times.max_ns, glyphs)),
                times.messages.to_string().into(),
                times.lost.to_string().into(),
            ]);
        }
    }
    table
}

/// Each receiver of a multicast group.
fn receivers(page: &mut Page, engines: &[(String, &Engine)]) {
    let glyphs = page.style.glyphs;
    let mut table = Table::new()
        .column("receiver", Align::Left)
        .optional("engine", Align::Left, 1)
        .optional("delivered", Align::Right, 3)
        .column("lost", Align::Right)
        .column("share", Align::Right)
        .column("p50", Align::Right)
        .column("range", Align::Right)
        .optional("p99", Align::Right, 4)
        .optional("reordered", Align::Right, 5)
        .optional("no room", Align::Right, 6)
        .optional("TTL", Align::Right, 2)
        .optional("joined on", Align::Left, 2);
    let mut any = false;
    for (name, engine) in engines {
        for one in &engine.receivers {
            any = true;
            let quantile = |quantile: &Option<Quantile>| {
                quantile.as_ref().map_or_else(|| "n/a".into(), |quantile| words::quantile_value(quantile, glyphs))
            };
            let range = one.p50.as_ref().map_or_else(|| "n/a".into(), |p50| words::quantile_range(p50, glyphs));
            let hops = one.hops.map_or_else(
                || "n/a".into(),
                |(least, most)| if least == most { least.to_string() } else { format!("{least}-{most}") },
            );
            let place = if one.place.is_empty() { String::new() } else { format!(" in {}", one.place) };
            table.row([
                format!("{}{place}", one.receiver).into(),
                name.as_str().into(),
                one.messages.to_string().into(),
                one.lost.to_string().into(),
                words::percent(one.lost as f64 / one.expected().max(1) as f64).into(),
                quantile(&one.p50).into(),
                range.into(),
                quantile(&one.p99).into(),
                one.reordered.to_string().into(),
                one.overflowed.map_or_else(|| "n/a".into(), |drops| drops.to_string()).into(),
                hops.into(),
                one.device.as_str().into(),
            ]);
        }
    }
    if any {
        page.gap();
        page.table(table);
        let text =
            "No room: datagrams that the receiver's socket dropped because its buffer was full. TTL: as it arrived.";
        page.text(2, text, Paint::Dim);
        let all = engines.iter().flat_map(|(_, engine)| &engine.receivers);
        if let Some(within) = all.filter_map(|one| one.clock_within_ns).max() {
            let text = format!(
                "Receivers on other hosts: by two clocks, read over their control channels; what that leaves open, ±{} at most, is in \
                 the ranges. A median below 0 by these clocks counts as 0.",
                glyphs.time(within as f64)
            );
            page.text(2, &text, Paint::Dim);
        }
    }
}

/// Who was late, and what was merged.
fn deadlines(engines: &[(String, &Engine)], glyphs: Glyphs) -> Table {
    let mut table = Table::new()
        .column("engine", Align::Left)
        .column("made late", Align::Right)
        .column("latest", Align::Right)
        .column("delivered late", Align::Right)
        .optional("signals", Align::Right, 3)
        .optional("messages a signal", Align::Right, 2)
        .column("receiver runnable", Align::Right)
        .optional("sender runnable", Align::Right, 1);
    for (name, engine) in engines {
        let signals = match engine.signals {
            0 => "-".to_owned(),
            signals => signals.to_string(),
        };
        let each = match engine.signals {
            0 => "-".to_owned(),
            signals => words::per_message(engine.received as f64 / signals as f64),
        };
        let delay = |ns: Option<f64>| {
            ns.map_or_else(|| "n/a: schedstat".to_owned(), |ns| format!("{} a message", glyphs.time(ns)))
        };
        table.row([
            name.as_str().into(),
            engine.late.to_string().into(),
            time(engine.lateness.max_ns, glyphs),
            engine.missed.to_string().into(),
            signals.into(),
            each.into(),
            delay(engine.receiver_delay_ns).into(),
            delay(engine.sender_delay_ns).into(),
        ]);
    }
    table
}

fn stages(page: &mut Page, facts: &PeriodicFacts, engines: &[(String, &Engine)]) {
    let glyphs = page.style.glyphs;
    let mut table = Table::new()
        .column("stage", Align::Left)
        .column("engine", Align::Left)
        .column("mean", Align::Right)
        .column("p50", Align::Right)
        .column("p99", Align::Right)
        .column("longest", Align::Right);
    let mut any = false;
    for (name, engine) in engines {
        for stage in &engine.stages {
            any = true;
            table.row([
                stage.name.as_str().into(),
                name.as_str().into(),
                glyphs.time(stage.mean_ns).into(),
                glyphs.time(stage.p50_ns).into(),
                glyphs.time(stage.p99_ns).into(),
                glyphs.time(stage.max_ns).into(),
            ]);
        }
        if let Some(ns) = engine.handler_ns {
            any = true;
            table.row(["(handler to received)".into(), name.as_str().into(), glyphs.time(ns).into()]);
        }
    }
    if !any {
        return;
    }
    page.gap();
    page.table(table);
    page.text(2, "What is in brackets is a part of the line above or runs beside it.", Paint::Dim);
    if facts.mac != "none" {
        for (name, engine) in engines {
            if let (Some((cold, most)), Some(warm)) = (engine.cold_mac_ns, engine.warm_mac_ns) {
                let text = format!(
                    "{name}: the first {} of a process took {} (at most {}), the calls after it {}.",
                    facts.mac,
                    glyphs.time(cold),
                    glyphs.time(most),
                    glyphs.time(warm)
                );
                page.hanging(&["  ".into()], 4, &text, Paint::Plain);
            }
        }
    }
}

fn stalls(page: &mut Page, facts: &PeriodicFacts, engines: &[(String, &Engine)]) {
    let glyphs = page.style.glyphs;
    for (name, engine) in engines.iter().filter(|(_, engine)| engine.stalls_found > 0) {
        page.gap();
        let text = format!(
            "{name}: {} of at least 5 messages that waited for one late receiver, {} together",
            words::counted(engine.stalls_found, "stall"),
            words::counted(engine.stalled_messages, "message")
        );
        page.text(2, &text, Paint::Plain);
        for stall in engine.stalls.iter().take(STALLS) {
            page.hanging(&["    ".into()], 6, &one_stall(facts, stall, glyphs), Paint::Dim);
        }
    }
}

fn one_stall(facts: &PeriodicFacts, stall: &Stall, glyphs: Glyphs) -> String {
    format!(
        "at {}: receiver {}, {} in a row, {} falling to {}",
        glyphs.time(stall.at_ns as f64),
        facts.called(stall.receiver),
        words::counted(stall.messages, "message"),
        glyphs.time(stall.longest_ns as f64),
        glyphs.time(stall.shortest_ns as f64)
    )
}

fn setup(page: &mut Page, engines: &[(String, &Engine)]) {
    let glyphs = page.style.glyphs;
    let mut table = Table::new()
        .column("set-up", Align::Left)
        .column("engine", Align::Left)
        .column("median", Align::Right)
        .column("longest", Align::Right);
    for (name, engine) in engines {
        for stage in &engine.setup {
            table.row([
                stage.name.as_str().into(),
                name.as_str().into(),
                glyphs.time(stage.p50_ns).into(),
                glyphs.time(stage.max_ns).into(),
            ]);
        }
        table.row([
            "all are ready".into(),
            name.as_str().into(),
            Span::default(),
            glyphs.time(engine.ready_ns as f64).into(),
        ]);
    }
    page.gap();
    page.table(table);
}

/// The processes of the first session, with their threads.
fn processes(page: &mut Page, run: &Run, facts: &PeriodicFacts) {
    let glyphs = page.style.glyphs;
    let Some(session) = facts.sessions.first() else { return };
    let path = run.header.plan.cases.get(session.case as usize).map_or_else(String::new, |case| case.path.to_string());
    let mut table = Table::new()
        .column("process", Align::Right)
        .column("pid", Align::Right)
        .column("threads", Align::Left)
        .column("started at", Align::Right)
        .column("ready after", Align::Right)
        .optional("sent", Align::Right, 1)
        .column("received", Align::Right)
        .optional("late", Align::Right, 2);
    for component in session.components.iter().take(PROCESSES) {
        table.row(component_cells(component, glyphs));
    }
    page.gap();
    page.text(0, &format!("processes of {path}, first session"), Paint::Bold);
    page.table(table);
    if let Some(more) = session.components.len().checked_sub(PROCESSES).filter(|more| *more > 0) {
        page.text(2, &format!("and {} (run.json has them)", words::counted(more as u64, "component")), Paint::Dim);
    }
    if let Some(text) = before_ready(session) {
        page.text(2, &text, Paint::Dim);
    }
}

fn component_cells(component: &Component, glyphs: Glyphs) -> [Span; 8] {
    [
        (component.process + 1).to_string().into(),
        component.pid.to_string().into(),
        format!("{} {}", component.sender, component.receiver).into(),
        glyphs.time(component.spawned_ns as f64).into(),
        glyphs.time(component.ready_ns.saturating_sub(component.spawned_ns) as f64).into(),
        component.sent.to_string().into(),
        component.received.to_string().into(),
        component.missed.to_string().into(),
    ]
}

fn before_ready(session: &PeriodicSession) -> Option<String> {
    (session.before_ready > 0).then(|| {
        format!(
            "{} sent before their receiver was ready: neither delivered nor lost.",
            words::counted(session.before_ready, "message")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::{Engine, GroupReceiver, PeriodicStage, PeriodicSummary, PeriodicTimes};
    use msgpath_present::fixture;

    #[test]
    fn engines_at_every_width() {
        let (mut run, mut summary) = fixture::echo();
        run.header.plan.workload = &crate::workload::PERIODIC;
        run.header.parts.set(PeriodicFacts {
            processes: 15,
            components: 1,
            period_ns: 10_000_000,
            messages: 1_000,
            first: 50,
            start: "barrier".into(),
            mac: "hmac".into(),
            cpus: 2,
            ..PeriodicFacts::default()
        });
        let times = |messages, p50_ns| PeriodicTimes {
            messages,
            lost: 3,
            min_ns: Some(8_000),
            mean_ns: Some(1.2 * p50_ns as f64),
            p50_ns: Some(p50_ns),
            p99_ns: Some(9 * p50_ns),
            max_ns: Some(40 * p50_ns),
        };
        let (all, first, steady) = (times(210_000, 70_000), times(10_500, 90_000), times(199_500, 69_000));
        let stage = PeriodicStage {
            name: "send call to received".into(),
            mean_ns: 84e3,
            p50_ns: 70e3,
            p99_ns: 630e3,
            max_ns: 2.8e6,
        };
        let lateness = times(15_000, 1_000);
        let engine = Engine { all, first, steady, lateness, stages: vec![stage], logged: 210_000, ..Engine::default() };
        summary.verb = "periodic".into();
        summary.sections.set(PeriodicSummary { engines: vec![engine] });
        for width in [60, 80, 100] {
            let text = periodic(&run, &summary, Style { width, ..Style::default() });
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            insta::assert_snapshot!(format!("periodic_{width}"), text);
        }
        let wide = periodic(&run, &summary, Style { width: 200, ..Style::default() });
        assert_eq!(wide, periodic(&run, &summary, Style::default()), "a wider terminal shows the same");
    }

    #[test]
    fn receivers_of_a_group_are_rows_at_every_width() {
        let (mut run, mut summary) = fixture::echo();
        run.header.plan.workload = &crate::workload::PERIODIC;
        let (facts, _) = crate::analyse::testing::grouped();
        run.header.parts.set(facts);
        let p50 = summary.cases[0].latency.quantiles.iter().find(|quantile| quantile.p == 0.5).cloned();
        let receiver = |receiver: u32| GroupReceiver {
            receiver,
            place: "lab.c".into(),
            device: "v0".into(),
            messages: 900,
            lost: 100,
            p50: p50.clone(),
            overflowed: Some(99),
            hops: Some((1, 1)),
            ..GroupReceiver::default()
        };
        let all = PeriodicTimes { messages: 1_800, lost: 200, p50_ns: Some(20_000), ..PeriodicTimes::default() };
        let case = summary.cases[0].case.id;
        let engine = Engine { case, all, receivers: vec![receiver(1), receiver(2)], ..Engine::default() };
        summary.verb = "periodic".into();
        summary.sections.set(PeriodicSummary { engines: vec![engine] });
        for width in [60, 80, 120] {
            let text = periodic(&run, &summary, Style { width, ..Style::default() });
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            for part in ["udp://239.1.1.1%v0:5210", "TTL 1", "receiver  ", " 100 ", "10.0 %"] {
                assert!(text.contains(part), "{part} at {width}: {text}");
            }
        }
    }
}
