//! What the processes of client and server spent for a call, how the connection came about, and what went over it.

use crate::analyse::RpcKind;
use crate::record::RpcFacts;
use msgpath_analyse::Summary;
use msgpath_analyse::summary::CaseSummary;
use msgpath_core::foreign::shown;
use msgpath_core::schema::{FAR, NEAR};
use msgpath_core::units::{signed, size};
use msgpath_record::Run;

use msgpath_present::terminal::{Align, Page, Paint, Span, Table};
use msgpath_present::view::measured;
use msgpath_present::words;

/// Two rows for each kind and end: time, system calls, switches and faults a call; disk and memory.
pub(super) fn processes(page: &mut Page, summary: &Summary, facts: Option<&RpcFacts>, kinds: &[RpcKind]) {
    let case = |kind: &RpcKind| summary.cases.iter().find(|case| case.case.id == kind.case);
    let of = |end: usize| move |case: &CaseSummary| case.end(end).process.clone();
    let any = |end: usize| kinds.iter().filter_map(case).any(|case| of(end)(case).is_some());
    if !any(NEAR) && !any(FAR) {
        return;
    }
    let glyphs = page.style.glyphs;
    page.heading("what the two processes spent, a call");
    let rows = || {
        kinds.iter().filter_map(|kind| Some((kind, case(kind)?))).flat_map(|(kind, case)| {
            [("client", NEAR), ("server", FAR)].map(|(name, end)| (kind.method.as_str(), name, of(end)(case)))
        })
    };
    let lead = || Table::new().column("call", Align::Left).column("process", Align::Left);
    let heads =
        |table: Table, heads: &[&str]| heads.iter().fold(table, |table, head| table.column(*head, Align::Right));
    let row = |table: &mut Table, method: &str, name: &str, cells: &[String]| {
        table.row(
            [Span::from(method), name.into()].into_iter().chain(cells.iter().map(|cell| Span::from(cell.as_str()))),
        );
    };
    let known = |text: Option<String>| text.unwrap_or_else(|| "n/a".into());
    let mut time = heads(lead(), &["CPU", "run queue", "system calls", "switches", "forced", "faults"]);
    let mut memory = heads(lead(), &["I/O faults", "disk read", "written", "resident", "data", "peak"]);
    for (method, name, spent) in rows() {
        let Some(spent) = spent else {
            let none: [String; 6] = std::array::from_fn(|_| "n/a".into());
            row(&mut time, method, name, &none);
            row(&mut memory, method, name, &none);
            continue;
        };
        let cells = [
            glyphs.time(spent.cpu_ns),
            known(spent.run_queue_ns.map(|ns| glyphs.time(ns))),
            known(spent.system_calls.map(words::per_message)),
            words::per_message(spent.voluntary),
            words::per_message(spent.involuntary),
            words::per_message(spent.minor_faults),
        ];
        row(&mut time, method, name, &cells);
        let cells = [
            words::per_message(spent.major_faults),
            known(spent.disk_read_bytes.map(size)),
            known(spent.disk_written_bytes.map(size)),
            known(spent.resident_growth_bytes.map(growth)),
            known(spent.data_growth_bytes.map(growth)),
            known(spent.peak_resident_bytes.map(|bytes| words::about_size(bytes as f64))),
        ];
        row(&mut memory, method, name, &cells);
    }
    split(page, time);
    let why = facts.and_then(|facts| facts.system_calls_uncounted.as_deref());
    let counted = match why {
        Some(why) => format!("System calls n/a: {}.", shown(why)),
        None if rows().any(|(.., spent)| spent.is_some_and(|spent| spent.system_calls.is_some())) => {
            "System calls: counted in one round of each kind, and each some 100 ns slower there.".into()
        }
        None => "System calls n/a: not counted.".into(),
    };
    let text = format!(
        "Of the whole processes, from /proc before and after each round. Run queue: ready, without a CPU; n/a where a thread ended. {counted}"
    );
    page.text(2, &text, Paint::Dim);
    split(page, memory);
    let text = "I/O faults a call, else of all calls. Disk: block devices. Resident: growth of the memory in use (VmRSS, within \
                some dozens of pages); data: of what is mapped for heap and the like (VmData); peak: the most ever in use (VmHWM).";
    page.text(2, text, Paint::Dim);
    if !any(FAR) {
        let text = "n/a: the server's process is not on this machine, or belongs to somebody else.";
        page.text(2, text, Paint::Dim);
    }
}

/// `+8.00 KiB`, `−4.00 KiB`, `0 B`.
fn growth(bytes: i64) -> String {
    if bytes == 0 { size(0) } else { signed(bytes as f64, words::about_size) }
}

/// A table in as many parts as the page needs, each with call and process.
fn split(page: &mut Page, table: Table) {
    for part in table.split_whole(2, page.style, page.style.columns() - 2) {
        page.table(part);
    }
}

/// What one copy of the bytes of each kind takes here.
pub(super) fn copies(page: &mut Page, run: &Run, kinds: &[RpcKind]) {
    let glyphs = page.style.glyphs;
    let Some(floors) = run.header.floors.as_ref() else { return };
    let each = kinds.iter().filter_map(|kind| Some((kind, kind.copy_floor_ns(floors)?)));
    let each: Vec<String> = each.map(|(kind, ns)| format!("{} {}", kind.method, glyphs.time(ns))).collect();
    if !each.is_empty() {
        let text = format!("floor: one copy of the bytes of a call takes here: {}", each.join(", "));
        page.text(2, &text, Paint::Dim);
    }
}

/// How long connecting took, when replies began, segments with data, and the packets of the device while the calls were made.
pub(super) fn way(page: &mut Page, run: &Run, summary: &Summary, kinds: &[RpcKind]) {
    let glyphs = page.style.glyphs;
    let cases = measured(summary);
    let sum =
        |of: &dyn Fn(&CaseSummary) -> Option<u64>| cases.iter().copied().filter_map(of).reduce(u64::saturating_add);
    let mut parts = Vec::new();
    if let Some(ns) = run.rounds.iter().filter_map(|round| round.connect_ns).max() {
        parts.push(format!("connecting took {} (the slowest connection)", glyphs.time(ns as f64)));
    }
    let first = kinds.iter().filter_map(|kind| Some((kind, kind.first_byte?)));
    let first = first.map(|(kind, after)| format!("{} {}", kind.method, glyphs.time(after.p50_ns as f64)));
    let first: Vec<String> = first.collect();
    if !first.is_empty() {
        parts.push(format!("the first byte of a reply came after (p50) {}", first.join(", ")));
    }
    let tcp = |of: fn(&msgpath_core::schema::TcpInfo) -> u64| sum(&|case| case.end(NEAR).tcp.as_ref().map(of));
    let segments = tcp(|tcp| tcp.data_segs_out).zip(tcp(|tcp| tcp.data_segs_in)).zip(tcp(|tcp| tcp.total_retrans));
    if let Some(((out, back), again)) = segments.filter(|((out, back), _)| out + back > 0) {
        let [out, back, again] = [out, back, again].map(|count| count.to_string());
        parts.push(format!("{out} segments with data left and {back} came, {again} were retransmitted"));
    }
    let route = run.header.floors.as_ref().and_then(|floors| floors.route.as_ref());
    if let Some(device) = route.map(|route| route.device.as_str()) {
        let names = ["tx", "rx"].map(|way| format!("dev.{device}.{way}_packets"));
        if names.iter().all(|name| run.header.end(NEAR).counters.contains(name)) {
            let count = |name: &str| sum(&|case| Some(case.end(NEAR).kernel.get(name).copied().unwrap_or(0)));
            let [out, back] = names.map(|name| count(&name).unwrap_or(0).to_string());
            parts.push(format!("{device} gave {out} packets and took {back} meanwhile, whoever they were of"));
        }
    }
    if !parts.is_empty() {
        page.gap();
        page.hanging(&["way  ".into()], 5, &parts.join("; "), Paint::Plain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::RpcSummary;
    use crate::present::fixture;
    use msgpath_core::units::Glyphs;
    use msgpath_present::terminal::Style;

    use crate::analyse::RpcTimes;
    use crate::present::terminal::rpc;
    use msgpath_analyse::summary::ProcessCost;

    const VERBOSE: Style = Style { width: 100, color: false, glyphs: Glyphs::Unicode, verbose: true, warnings: false };

    #[test]
    fn both_processes_stand_beside_each_other() {
        let (mut run, mut summary, _) = fixture::rpc();
        assert!(!rpc(&run, &summary, VERBOSE).contains("what the two processes"));
        let cost = ProcessCost { cpu_ns: 8_100.0, voluntary: 2.0, disk_read_bytes: Some(0), ..ProcessCost::default() };
        for case in &mut summary.cases {
            case.end_mut(NEAR).process = Some(cost.clone());
        }
        let older = rpc(&run, &summary, VERBOSE);
        assert!(older.lines().any(|line| line.contains("client") && line.contains("n/a")), "{older}");
        assert!(older.contains("System calls n/a: not counted."), "{older}");
        let cost = ProcessCost {
            run_queue_ns: Some(1_230.0),
            system_calls: Some(4.05),
            resident_growth_bytes: Some(12 << 10),
            data_growth_bytes: Some(-4096),
            peak_resident_bytes: Some(5_460_000),
            ..cost
        };
        for case in &mut summary.cases {
            case.end_mut(NEAR).process = Some(cost.clone());
        }
        let alone = rpc(&run, &summary, VERBOSE);
        for cell in ["1.23 µs", "4.05", "+12.0 KiB", "−4.00 KiB", "5.21 MiB", "counted in one round of each kind"] {
            assert!(alone.contains(cell), "{cell} is not in {alone}");
        }
        run.header.parts.get_mut::<RpcFacts>().unwrap().system_calls_uncounted = Some("no\u{1b}where".into());
        let uncounted = rpc(&run, &summary, VERBOSE);
        assert!(uncounted.contains("System calls n/a: no") && !uncounted.contains('\u{1b}'), "{uncounted}");
        let alone = rpc(&run, &summary, VERBOSE);
        assert!(
            alone.contains("8.10 µs") && alone.contains("0 B") && alone.contains("belongs to somebody else"),
            "{alone}"
        );
        for case in &mut summary.cases {
            case.end_mut(FAR).process = Some(cost.clone());
        }
        let both = rpc(&run, &summary, VERBOSE);
        assert!(both.contains("server") && !both.contains("belongs to somebody else"), "{both}");
        for width in [60, 80, 100] {
            let text = rpc(&run, &summary, Style { width, ..VERBOSE });
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
        }
    }

    #[test]
    fn a_copy_of_the_bytes_is_a_floor() {
        let (mut run, mut summary, _) = fixture::rpc();
        assert!(!rpc(&run, &summary, VERBOSE).contains("floor: one copy"));
        run.header.floors.as_mut().unwrap().copy_bytes_per_s = Some(1e10);
        let kinds = &mut summary.sections.get_mut::<RpcSummary>().unwrap().kinds;
        kinds.truncate(1);
        (kinds[0].request_bytes, kinds[0].reply_bytes) = (Some(1_000_000.0), Some(0.0));
        let text = rpc(&run, &summary, VERBOSE);
        assert!(text.contains("takes here: ping 100 µs"), "{text}");
    }

    #[test]
    fn the_packets_are_those_of_the_device_of_the_route() {
        let (mut run, mut summary, _) = fixture::rpc();
        let before = rpc(&run, &summary, VERBOSE);
        assert!(before.contains("segments with data") && !before.contains("packets"), "{before}");
        run.header.ends[NEAR].counters = vec!["dev.eth0.tx_packets".into(), "dev.eth0.rx_packets".into()];
        run.rounds[0].connect_ns = Some(120_000);
        let times = RpcTimes { p50_ns: 61_000, ..RpcTimes::default() };
        summary.sections.get_mut::<RpcSummary>().unwrap().kinds[0].first_byte = Some(times);
        summary.cases[0].end_mut(NEAR).kernel.insert("dev.eth0.tx_packets".into(), 4_321);
        let text = rpc(&run, &summary, VERBOSE).replace("\n     ", " ");
        assert!(
            text.contains("came after (p50) ping 61.0 µs;")
                && text.contains("connecting took 120 µs")
                && text.contains("eth0 gave 4321 packets and took 0"),
            "{text}"
        );
    }
}
