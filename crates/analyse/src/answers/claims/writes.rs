//! Claims about calls, reads, units and single runs.

use msgpath_core::Workload;
use msgpath_core::plan::{Load, Metric};
use msgpath_core::target::{BadTarget, parse_port};
use msgpath_core::units::{BitUnits, bits_per_second, size, three_digits};
use msgpath_stats::describe::{median, percentile};
use msgpath_stats::verdict::{LEAST_MARGIN, Verdict};

use super::Claim;
use crate::answers::evidence::{
    between, bits, by_pass, count, counted, judged, measured, range, share, time, unpaired,
};
use crate::answers::pages::echo_sizes::{Calls, call_times};
use crate::answers::pages::{nagle_trap, write_shape};
use crate::answers::{Answer, Cell, Part, Table};
use crate::expected::line_rate;
use crate::summary::{CaseSummary, Confidence};

pub(super) const CLAIMS: &[Claim] = &[
    Claim { number: 8, claim: "The time in send() is the latency", settle: send_call },
    Claim { number: 9, claim: "The time in recv() is the latency", settle: receive_call },
    Claim { number: 11, claim: "Throughput is size / RTT, or 1 / latency", settle: window_of_one },
    Claim { number: 14, claim: "42 ms: copies and system calls are slow", settle: nagle },
    Claim { number: 22, claim: "writev beats write by 3 % on 1 GbE", settle: writev_on_a_wire },
    Claim { number: 23, claim: "#reads says how many packets came", settle: reads },
    Claim { number: 24, claim: "Gb/s is 2^30 bits a second", settle: units },
    Claim { number: 25, claim: "The sender's time gives the throughput", settle: sender_time },
    Claim { number: 26, claim: "The 'round trip' of the whole test is the RTT", settle: whole_test },
    Claim { number: 27, claim: "Port 75118 (or 78400) works", settle: port },
    Claim { number: 28, claim: "Small buffers cause packet loss", settle: loss },
    Claim { number: 39, claim: "A single run shows that it is 0.1 to 3 % better", settle: single_run },
];

/// The first run whose send calls were stamped.
fn stamped(parts: &[Part<'_>]) -> Option<Calls> {
    parts.iter().find_map(call_times)
}

fn send_call(parts: &[Part<'_>]) -> Option<Answer> {
    let calls = stamped(parts)?;
    let text = format!(
        "The send call takes {} and the round trip {}: {} of it. The call ends when the kernel has the bytes, not when \
         anybody else has them",
        range(&calls.send, &time),
        range(&calls.round_trip, &time),
        share(calls.send.value / calls.round_trip.value)
    );
    let apart = calls.send.high.zip(calls.round_trip.low).is_some_and(|(send, whole)| send < whole);
    let confidence = if apart { Confidence::Sure } else { Confidence::CantTell };
    Some(Answer::new("", confidence, text + "."))
}

fn receive_call(parts: &[Part<'_>]) -> Option<Answer> {
    let calls = stamped(parts)?;
    let mut text = format!(
        "Between the return of the send call and that of the receive call lie {}, {} of the round trip: the reader has nothing \
         else to do, so that is its waiting time",
        range(&calls.rest, &time),
        share(calls.rest.value / calls.round_trip.value)
    );
    if let Some(server) = &calls.server {
        text += &format!(
            ", in which the far end's program alone takes {} between its two calls, which are not in that",
            range(server, &time)
        );
    }
    text += ". A reader that comes late finds the message there and measures nothing";
    let apart = calls.rest.high.zip(calls.round_trip.low).is_some_and(|(rest, whole)| rest < whole);
    let confidence = if apart { Confidence::Sure } else { Confidence::Likely };
    Some(Answer::new("", confidence, text + "."))
}

/// The same message one at a time and in a flow.
fn window_of_one(parts: &[Part<'_>]) -> Option<Answer> {
    let of = |workload: Workload| parts.iter().filter(move |part| part.run.header.plan.workload == workload);
    let columns = ["message", "size / RTT", "in a flow", "flow divided by that"];
    let mut table = Table::new("window-of-one", "One message under way, and as many as the path holds", &columns);
    let mut ratios = Vec::new();
    for echo in of(Workload::Echo) {
        for case in measured(echo) {
            let one = &case.case;
            if one.inflight != 1 || one.connections != 1 || one.load != Load::Closed {
                continue;
            }
            let found = of(Workload::Stream).find_map(|part| {
                let same = |other: &CaseSummary| other.case.path == one.path && other.case.pieces == one.pieces;
                Some((part, measured(part).find(|other| same(other) && other.case.connections == 1)?))
            });
            let Some((part, flow)) = found else { continue };
            let window: msgpath_stats::paired::Series = by_pass(echo, Metric::Mean, one)
                .into_iter()
                .map(|(pass, ns)| (pass, one.size as f64 * 8e9 / ns))
                .collect();
            let Some(ratio) = unpaired(&by_pass(part, Metric::Throughput, &flow.case), &window) else { continue };
            if ratios.iter().any(|(path, bytes, _)| (path, *bytes) == (&one.path, one.size)) {
                continue;
            }
            let of_window = msgpath_stats::estimate::log_estimate(&window.values().copied().collect::<Vec<_>>());
            table.row([
                Cell::text(format!("{} {}", one.path, size(one.size))),
                Cell::or_missing(of_window.as_ref(), Cell::Bits, "too few rounds"),
                Cell::or_missing(flow.throughput.as_ref().map(|of| &of.receiver_bits), Cell::Bits, "no round"),
                Cell::Ratio((&ratio).into()),
            ]);
            ratios.push((one.path.clone(), one.size, ratio));
        }
    }
    let by = |a: &&(_, _, msgpath_stats::estimate::Estimate), b: &&(_, _, msgpath_stats::estimate::Estimate)| {
        a.2.value.total_cmp(&b.2.value)
    };
    let (least, most) = (ratios.iter().min_by(by)?, ratios.iter().max_by(by)?);
    let times = |(_, bytes, ratio): &(_, u64, msgpath_stats::estimate::Estimate)| {
        format!("{} times at {}", range(ratio, &|ratio| format!("{ratio:.2}")), size(*bytes))
    };
    let more = ratios.iter().all(|(_, _, ratio)| ratio.low.is_some_and(|low| low > 1.0 + LEAST_MARGIN));
    let text = if more {
        format!(
            "Size / RTT is the rate of one message under way: in a flow the same path carries {} to {} as much",
            times(least),
            times(most)
        )
    } else {
        format!(
            "A flow carries {} to {} of what size / RTT says: not more at every size here",
            times(least),
            times(most)
        )
    };
    Some(Answer::new("", if more { Confidence::Sure } else { Confidence::Likely }, text + ".").with(table))
}

fn nagle(parts: &[Part<'_>]) -> Option<Answer> {
    let part = parts.iter().find(|part| nagle_trap::trap(part).is_some())?;
    Some(nagle_trap::forty_ms(Some(part), ""))
}

/// Streams over TCP whose messages are handed over in pieces.
fn shapes<'a>(parts: &'a [Part<'a>]) -> Option<(&'a Part<'a>, Vec<&'a CaseSummary>)> {
    parts.iter().find_map(|part| {
        let is_shape = |case: &&CaseSummary| {
            case.case.path.transport == "tcp" && case.case.pieces.count > 1 && case.throughput.is_some()
        };
        let rows: Vec<&CaseSummary> = measured(part).filter(is_shape).collect();
        (part.run.header.plan.workload == Workload::Stream && !rows.is_empty()).then_some((part, rows))
    })
}

fn writev_on_a_wire(parts: &[Part<'_>]) -> Option<Answer> {
    let (part, rows) = shapes(parts)?;
    let of = |case: &CaseSummary, kind: u8| write_shape::kind(&case.case.path.method) == Some(kind);
    let mut pairs = Vec::new();
    for case in rows.iter().filter(|case| of(case, 2)) {
        let same = |other: &&&CaseSummary| {
            of(other, 1) && other.case.pieces == case.case.pieces && other.case.path.setting == case.case.path.setting
        };
        pairs.extend(rows.iter().find(same).map(|other| (*case, *other)));
    }
    let found = judged(part, Metric::Throughput, LEAST_MARGIN, &pairs);
    let ratios: Vec<f64> = found.iter().flatten().map(|judged| judged.ratio.value).collect();
    let (low, high) = (ratios.iter().copied().reduce(f64::min)?, ratios.iter().copied().reduce(f64::max)?);
    let faster = found.iter().flatten().filter(|judged| judged.verdict == Verdict::Better).count();
    let here = format!(
        "writev carries {low:.2} to {high:.2} times what many writes do and is faster in {faster} of {}",
        counted(found.len(), "row")
    );
    let Some((line, route)) = line_rate(&part.run.header, &part.run.header.plan.cases[0].traits) else {
        let because = match write_shape::shared(part, &rows) {
            Some(limit) => format!("{}, and {limit}. {here}", between(part)),
            None => format!("{}, and no wire limits them: {here}", between(part)),
        };
        return Some(Answer::cannot("", because + "."));
    };
    let rate = |case: &&CaseSummary| case.throughput.as_ref().map(|of| of.receiver_bits.value / line);
    let fullest = rows.iter().filter_map(rate).fold(0.0, f64::max);
    let limit = if fullest >= 0.9 { "the wire is the limit of the fastest rows" } else { "the wire is not full" };
    let text =
        format!("Of {} on {} the fastest row uses {}: {limit}; {here}", bits(line), route.device, share(fullest));
    Some(Answer::new("", if fullest >= 0.9 { Confidence::Sure } else { Confidence::Likely }, text + "."))
}

fn reads(parts: &[Part<'_>]) -> Option<Answer> {
    let (part, rows) = shapes(parts)?;
    let reverse = part.run.header.plan.reverse;
    let columns = ["row", "#reads", "full", "short", "empty", "segments received"];
    let mut table = Table::new("reads-and-packets", "Read calls and segments with data at the receiver", &columns);
    let mut each = Vec::new();
    for case in &rows {
        let (calls, tcp) = if reverse { (&case.near_calls, case.near_tcp) } else { (&case.far_calls, case.far_tcp) };
        let segments = tcp.map(|tcp| tcp.data_segs_in).filter(|segments| *segments > 0);
        table.row([
            Cell::text(format!("{} {}", case.case.path, case.case.pieces)),
            Cell::count(calls.recv_calls),
            Cell::count(calls.recv_full),
            Cell::count(calls.recv_short),
            Cell::count(calls.recv_empty),
            segments.map_or_else(|| Cell::missing("not told"), Cell::count),
        ]);
        each.extend(segments.map(|segments| calls.recv_calls as f64 / segments as f64));
    }
    let (low, high) = (each.iter().copied().reduce(f64::min)?, each.iter().copied().reduce(f64::max)?);
    let apart = each.iter().filter(|ratio| !(0.9..=1.1).contains(*ratio)).count();
    let text = format!(
        "A segment takes {} to {} read calls, depending on the row: in {apart} of {} the two counts are more than 10 % apart. \
         Reads follow the loop that reads and how fast it is",
        three_digits(low),
        three_digits(high),
        counted(each.len(), "row")
    );
    // Counts, not samples: one row is enough.
    let confidence = if apart > 0 { Confidence::Sure } else { Confidence::CantTell };
    Some(Answer::new("", confidence, text + ".").with(table))
}

fn units(parts: &[Part<'_>]) -> Option<Answer> {
    let (_, rows) = shapes(parts)?;
    let rate = |case: &CaseSummary| case.throughput.as_ref().map_or(0.0, |of| of.receiver_bits.value);
    let best = rows.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let (si, binary) = (rate(best) / 1e9, rate(best) / 1_073_741_824.0);
    let text = format!(
        "{} {} carries {}, which is {}: a table that prints {} as Gb/s is {} low. Links are sold in 10^9",
        best.case.path,
        best.case.pieces,
        bits_per_second(rate(best), BitUnits::Si),
        bits_per_second(rate(best), BitUnits::Binary),
        three_digits(binary),
        share(1.0 - binary / si)
    );
    Some(Answer::new("", Confidence::Sure, text + "."))
}

fn sender_time(parts: &[Part<'_>]) -> Option<Answer> {
    let (part, rows) = shapes(parts)?;
    let off = |case: &CaseSummary| {
        let of = case.throughput.as_ref()?;
        Some((of.sender_bits.value / of.receiver_bits.value - 1.0, of.sender_ns))
    };
    let far = |a: &&&CaseSummary, b: &&&CaseSummary| {
        let of = |case: &CaseSummary| off(case).map_or(0.0, |off| off.0.abs());
        of(a).total_cmp(&of(b))
    };
    let widest = rows.iter().max_by(far)?;
    let (apart, _) = off(widest)?;
    let mut text = format!(
        "With its clock running until the acknowledgement the sender is at most {} off the receiver's rate ({} {})",
        share(apart.abs()),
        widest.case.path,
        widest.case.pieces
    );
    // What a clock that stops at the last send() leaves out: what the buffer can hold.
    let buffer = rows
        .iter()
        .flat_map(|case| &case.granted)
        .find(|granted| granted.option == "SO_SNDBUF" && (granted.end == "near") != part.run.header.plan.reverse);
    let bytes = widest.case.size as f64 * widest.delivery.sent as f64 / widest.rounds.max(1) as f64;
    let held = buffer.and_then(|granted| granted.granted.parse::<f64>().ok()).filter(|_| bytes > 0.0);
    if let Some(held) = held {
        text += &format!(
            ". A clock that stops at the last send() would leave out what the socket's buffer holds: {} as read back, \
             up to {} of the {} of a round",
            size(held as u64),
            share((held / bytes).min(1.0)),
            size(bytes as u64)
        );
    }
    let mattered = held.is_some_and(|held| held / bytes > LEAST_MARGIN) || apart.abs() > LEAST_MARGIN;
    Some(Answer::new("", if mattered { Confidence::Likely } else { Confidence::CantTell }, text + "."))
}

fn whole_test(parts: &[Part<'_>]) -> Option<Answer> {
    let (part, rows) = shapes(parts)?;
    let of = |case: &CaseSummary| {
        let tcp = if part.run.header.plan.reverse { case.far_tcp } else { case.near_tcp }?;
        let whole = case.throughput.as_ref()?.sender_ns;
        (tcp.rtt_us > 0).then(|| (whole, f64::from(tcp.rtt_us) * 1e3))
    };
    let times: Vec<(f64, f64)> = rows.iter().filter_map(|case| of(case)).collect();
    let by = |a: &&(f64, f64), b: &&(f64, f64)| (a.0 / a.1).total_cmp(&(b.0 / b.1));
    let (least, most) = (times.iter().min_by(by)?, times.iter().max_by(by)?);
    let text = format!(
        "A round of the test takes {} to {}, the round trip as TCP itself had it at the end {} and {}: {} to {} times as \
         long. It is the completion time of a transfer",
        time(least.0),
        time(most.0),
        time(least.1),
        time(most.1),
        three_digits(least.0 / least.1),
        three_digits(most.0 / most.1)
    );
    let confidence = if least.0 > 2.0 * least.1 { Confidence::Sure } else { Confidence::CantTell };
    Some(Answer::new("", confidence, text + "."))
}

/// A fact of the tool that measured: it refuses such a port.
fn port(parts: &[Part<'_>]) -> Option<Answer> {
    shapes(parts)?;
    let refused = |text: &str| match parse_port(text) {
        Err(BadTarget::Port { typed, wraps_to }) => {
            Some(format!("{typed} does not exist, and a program that keeps 16 bits of it uses {wraps_to}"))
        }
        _ => None,
    };
    let told: Vec<String> = ["75118", "78400"].into_iter().filter_map(refused).collect();
    let confidence = if told.len() == 2 { Confidence::Sure } else { Confidence::CantTell };
    Some(Answer::new("", confidence, format!("msgpath refuses it: {}.", told.join("; "))))
}

fn loss(parts: &[Part<'_>]) -> Option<Answer> {
    let (part, rows) = shapes(parts)?;
    let reverse = part.run.header.plan.reverse;
    let of = |case: &CaseSummary| {
        let (calls, tcp) = if reverse { (case.far_calls, case.far_tcp) } else { (case.near_calls, case.near_tcp) };
        Some((calls.send_calls, tcp?.data_segs_out, tcp?.total_retrans))
    };
    let sum = |many: bool| {
        let own = rows.iter().filter(|case| (write_shape::kind(&case.case.path.method) == Some(1)) == many);
        let own: Vec<(u64, u64, u64)> = own.filter_map(|case| of(case)).collect();
        let all = own.iter().fold((0, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2));
        (!own.is_empty()).then_some(all)
    };
    let (writes, segments, again) = sum(true)?;
    let smallest = rows.iter().map(|case| case.case.pieces.size).min()?;
    let mut text = format!(
        "{} writes of {} and more left in {} segments, of which {} were sent again",
        count(writes),
        size(smallest.into()),
        count(segments),
        count(again)
    );
    if let Some((_, segments, again)) = sum(false) {
        text += &format!(" (one call a message: {} of {})", count(again), count(segments));
    }
    text += match () {
        () if segments < writes => ": TCP put writes together",
        () if segments > writes => ": TCP split writes",
        () => ": as many, though TCP promises no segment for each write",
    };
    text += ". The size of a buffer is not that of a packet";
    let confidence = if again == 0 { Confidence::Sure } else { Confidence::Likely };
    Some(Answer::new("", confidence, text + "."))
}

/// The same case in neighbouring passes: what a single run of each would have claimed.
fn single_run(parts: &[Part<'_>]) -> Option<Answer> {
    let repeated = |part: &&Part<'_>| {
        shapes(std::slice::from_ref(*part)).is_some()
            || part.summary.comparison.as_ref().is_some_and(|comparison| comparison.resolution.is_some())
    };
    let part = parts.iter().find(repeated)?;
    let metric = Metric::of(part.run.header.plan.workload);
    let mut apart = Vec::new();
    for case in measured(part) {
        let values: Vec<f64> = by_pass(part, metric, &case.case).into_values().collect();
        apart.extend(values.windows(2).map(|pair| (pair[1] / pair[0] - 1.0).abs()));
    }
    if apart.len() < 20 {
        return None;
    }
    let (middle, most) = (median(&apart), percentile(&mut apart, 0.95));
    let mut text = format!(
        "Two rounds of the same case, one pass after the other, differ by {} in the middle and by {} or more in one of twenty \
         ({} pairs of the run {})",
        share(middle),
        share(most),
        count(apart.len() as u64),
        part.name
    );
    if let Some(resolution) = part.summary.comparison.as_ref().and_then(|comparison| comparison.resolution) {
        text += &format!(
            "; all rounds together, the baseline differs from its hidden repetition by up to {}",
            share(resolution)
        );
    }
    text += if most > 0.03 {
        ": 3 % from a single run of each is nothing"
    } else if most > 0.001 {
        ": 0.1 % from a single run of each is nothing, 3 % may be something"
    } else {
        ": a single run would do here"
    };
    Some(Answer::new("", if most > 0.03 { Confidence::Sure } else { Confidence::Likely }, text + "."))
}

#[cfg(test)]
mod tests {
    use msgpath_core::schema::{RoundRecord, TcpInfo};

    use super::*;
    use crate::Logs;
    use crate::answers::claims::settled;
    use crate::answers::evidence::tests::{of, shapes};
    use crate::testing::Build;

    /// What is settled of two shapes by many writes, one writev and one write.
    fn said(number: u8, change: impl Fn(&mut RoundRecord)) -> Option<Answer> {
        let build = shapes(&["tcp:writes", "tcp:writev", "tcp:send"], &[(15, 100), (60, 25)]);
        let mut run = build.rates(|case, _| if case < 2 { 1e8 } else { 4e9 }).run();
        run.rounds.iter_mut().for_each(change);
        let all = of(&[("shapes", run, Logs::default())], settled);
        all.into_iter().find(|settled| settled.number == number).map(|settled| settled.answer)
    }

    fn segments(each: u64, again: u64) -> impl Fn(&mut RoundRecord) {
        move |round| {
            let tcp = TcpInfo {
                data_segs_in: each,
                data_segs_out: each,
                total_retrans: again,
                rtt_us: 20,
                ..TcpInfo::default()
            };
            (round.near.tcp, round.far.tcp) = (Some(tcp), Some(tcp));
            round.near.calls.send_calls = 3_000;
            round.far.calls.recv_calls = 200;
        }
    }

    #[test]
    fn reads_are_packets_only_where_the_counts_say_so() {
        let apart = said(23, segments(40, 0)).unwrap();
        assert_eq!(apart.confidence, Confidence::Sure);
        assert!(apart.text.starts_with("A segment takes 5.00 to 5.00 read calls"), "{}", apart.text);
        assert_eq!(said(23, segments(200, 0)).unwrap().confidence, Confidence::CantTell);
        assert_eq!(said(23, |_| ()), None);
    }

    #[test]
    fn loss_is_what_was_sent_again() {
        let none = said(28, segments(40, 0)).unwrap();
        assert!(
            none.confidence == Confidence::Sure && none.text.contains("of which 0 were sent again"),
            "{}",
            none.text
        );
        // 3000 writes a round: in fewer segments, as many, and more.
        for (each, what) in [(40, "TCP put writes together"), (3_000, "as many, though"), (6_000, "TCP split writes")] {
            let text = said(28, segments(each, 0)).unwrap().text;
            assert!(text.contains(what) && (each == 40) == text.contains("together"), "{each}: {text}");
        }
        let some = said(28, segments(40, 3)).unwrap();
        assert!(
            some.confidence == Confidence::Likely && some.text.contains("of which 240 were sent again"),
            "{}",
            some.text
        );
    }

    #[test]
    fn units_ports_and_times_are_named() {
        let units = said(24, |_| ()).unwrap().text;
        assert!(units.contains("4.00 Gbit/s, which is 3.73 Gibit/s") && units.contains("6.87 % low"), "{units}");
        let port = said(27, |_| ()).unwrap().text;
        assert!(port.contains("12864") && port.contains("9582"), "{port}");
        let whole = said(26, segments(40, 0)).unwrap();
        assert!(whole.text.contains("20.0 µs") && whole.confidence == Confidence::Sure, "{}", whole.text);
        let wire = said(22, |_| ()).unwrap();
        assert!(
            wire.text.starts_with("cannot be answered on this path") && wire.text.contains("40.00 to 40.00"),
            "{}",
            wire.text
        );
        assert_eq!(said(8, |_| ()), None);
    }

    #[test]
    fn a_limit_that_rows_share_is_named() {
        let build = shapes(&["tcp:writes", "tcp:writev", "tcp:send"], &[(15, 100), (60, 25)]).yardstick(1 << 17);
        let run = build.rates(|_, _| 1.94e8).run();
        let all = of(&[("shapes", run, Logs::default())], settled);
        let said = &all.iter().find(|settled| settled.number == 22).unwrap().answer;
        assert!(!said.text.contains("no wire") && said.text.contains("something that all share"), "{}", said.text);
    }

    #[test]
    fn a_window_of_one_is_compared_where_both_were_measured() {
        let echo = Build::echo(&["tcp:send"], &[4096]);
        let settle = |rate: f64| {
            let flow = Build::stream(&["tcp:send"], &[4096]).rates(move |_, _| rate).run();
            let runs = [("flow", flow, Logs::default()), ("each-1", echo.run(), Logs::default())];
            of(&runs, settled).into_iter().find(|settled| settled.number == 11).unwrap().answer
        };
        // 4 KiB in 20 µs are 1.64 Gbit/s.
        let more = settle(16.4e9);
        assert!(more.confidence == Confidence::Sure && more.text.contains("carries 10."), "{}", more.text);
        assert_eq!(settle(1.6e9).confidence, Confidence::Likely);
    }

    #[test]
    fn a_single_run_is_judged_by_neighbouring_rounds() {
        let noisy = said(39, |round| {
            if round.pass % 2 == 1 {
                round.far.elapsed_ns = round.far.elapsed_ns * 11 / 10;
            }
        });
        let noisy = noisy.unwrap();
        assert!(noisy.confidence == Confidence::Sure && noisy.text.contains("3 % from a single run"), "{}", noisy.text);
        assert!(said(39, |_| ()).unwrap().text.ends_with("a single run would do here."));
    }

    #[test]
    fn calls_are_told_from_their_stamps() {
        let build = Build::echo(&["tcp:send"], &[1000]);
        let row = |at: u64| msgpath_core::schema::MessageRow {
            pass: (at / 10) as u32,
            sequence: at,
            latency_ns: Some(20_000 + at % 7),
            sent_ns: Some(5_000 + at % 3),
            ..Default::default()
        };
        let logs = Logs { traced: (0..100).map(row).collect(), ..Logs::default() };
        let all = of(&[("calls", build.run(), logs)], settled);
        let send = &all.iter().find(|settled| settled.number == 8).unwrap().answer;
        assert!(send.confidence == Confidence::Sure && send.text.contains("25.0 % of it"), "{}", send.text);
        let receive = &all.iter().find(|settled| settled.number == 9).unwrap().answer;
        assert!(receive.text.contains("15.0 µs"), "{}", receive.text);
    }
}
