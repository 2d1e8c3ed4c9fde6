//! Claims about calls, reads, units and single runs.

use msgpath_analyse::expected::line_rate;
use msgpath_analyse::summary::{CaseSummary, Confidence};
use msgpath_core::Workload;
use msgpath_core::plan::{Load, Metric};
use msgpath_core::target::{BadTarget, parse_port};
use msgpath_core::units::{BitUnits, bits_per_second, size, three_digits};
use msgpath_stats::describe::{median, percentile};
use msgpath_stats::estimate::Estimate;
use msgpath_stats::paired::Series;
use msgpath_stats::verdict::{LEAST_MARGIN, Verdict};

use super::Claim;
use crate::answers::answered::{answer, say, sure, sure_if, sure_or_not};
use crate::answers::columns::{bits_or, count_or, table};
use crate::answers::evidence::{Pair, above, extremes, judged, over_passes, unpaired};
use crate::answers::pages::echo_sizes::{Calls, call_times};
use crate::answers::pages::nagle_trap;
use crate::answers::pages::write_shape::{alike, is, receiving, sending, shared};
use crate::answers::words::{bits, counted, percent, range, time};
use crate::answers::{Answer, Cell, Part};

pub(super) const CLAIMS: &[Claim] = &[
    (8, "The time in send() is the latency", send_call),
    (9, "The time in recv() is the latency", receive_call),
    (11, "Throughput is size / RTT, or 1 / latency", window_of_one),
    (14, "42 ms: copies and system calls are slow", nagle),
    (22, "writev beats write by 3 % on 1 GbE", writev_on_a_wire),
    (23, "#reads says how many packets came", reads),
    (24, "Gb/s is 2^30 bits a second", units),
    (25, "The sender's time gives the throughput", sender_time),
    (26, "The 'round trip' of the whole test is the RTT", whole_test),
    (27, "Port 75118 (or 78400) works", port),
    (28, "Small buffers cause packet loss", loss),
    (39, "A single run shows that it is 0.1 to 3 % better", single_run),
];

/// The first run whose send calls were stamped.
fn stamped(parts: &[Part<'_>]) -> Option<Calls> {
    parts.iter().find_map(call_times)
}

/// Whether the whole interval lies below that of the other.
fn lies_below(one: &Estimate, other: &Estimate) -> bool {
    one.high.zip(other.low).is_some_and(|(high, low)| high < low)
}

fn send_call(parts: &[Part<'_>]) -> Option<Answer> {
    let calls = stamped(parts)?;
    let text = format!(
        "The send call takes {} and the round trip {}: {} of it. The call ends when the kernel has the bytes, not when anybody \
         else has them",
        range(&calls.send, time),
        range(&calls.round_trip, time),
        percent(calls.send.value / calls.round_trip.value)
    );
    Some(say(sure_or_not(lies_below(&calls.send, &calls.round_trip)), text))
}

fn receive_call(parts: &[Part<'_>]) -> Option<Answer> {
    let calls = stamped(parts)?;
    let server = calls.server.as_ref().map_or_else(String::new, |server| {
        let server = range(server, time);
        format!(", in which the far end's program alone takes {server} between its two calls, which are not in that")
    });
    let text = format!(
        "Between the return of the send call and that of the receive call lie {}, {} of the round trip: the reader has nothing \
         else to do, so that is its waiting time{server}. A reader that comes late finds the message there and measures nothing",
        range(&calls.rest, time),
        percent(calls.rest.value / calls.round_trip.value)
    );
    Some(say(sure_if(lies_below(&calls.rest, &calls.round_trip)), text))
}

/// The same message one at a time and in a flow.
fn window_of_one(parts: &[Part<'_>]) -> Option<Answer> {
    let of = |workload: Workload| parts.iter().filter(move |part| part.workload() == workload);
    let mut rows: Vec<(&CaseSummary, &CaseSummary, Series, Estimate)> = Vec::new();
    for (echo, case) in of(Workload::Echo).flat_map(|part| part.measured().map(move |case| (part, case))) {
        let one = &case.case;
        if one.inflight != 1 || one.connections != 1 || one.load != Load::Closed {
            continue;
        }
        let same = |other: &CaseSummary| {
            other.case.path == one.path && other.case.pieces == one.pieces && other.case.connections == 1
        };
        let found = of(Workload::Stream).find_map(|part| Some((part, part.find(same)?)));
        let Some((part, flow)) = found else { continue };
        let window = echo.by_pass(Metric::Mean, one).into_iter();
        let window: Series = window.map(|(pass, ns)| (pass, one.size as f64 * 8e9 / ns)).collect();
        let known = rows.iter().any(|(row, ..)| (&row.case.path, row.case.size) == (&one.path, one.size));
        let ratio = unpaired(&part.by_pass(Metric::Throughput, &flow.case), &window).filter(|_| !known);
        rows.extend(ratio.map(|ratio| (case, flow, window, ratio)));
    }
    let (least, most) = extremes(&rows, |(.., ratio)| ratio.value)?;
    let times = |(case, _, _, ratio): &(&CaseSummary, &CaseSummary, Series, Estimate)| {
        format!("{} times at {}", range(ratio, |ratio| format!("{ratio:.2}")), size(case.case.size))
    };
    let (least, most) = (times(least), times(most));
    let more = rows.iter().all(|(.., ratio)| above(ratio, 1.0 + LEAST_MARGIN));
    let text = match more {
        true => format!(
            "Size / RTT is the rate of one message in flight: in a flow the same path carries {least} to {most} as much"
        ),
        false => {
            format!("A flow carries {least} to {most} of what size / RTT says: not more at every size here")
        }
    };
    let carried = |case: &'_ CaseSummary| case.throughput.as_ref().map(|of| of.receiver_bits.clone());
    let evidence = table("window-of-one", "One message in flight, and as many as the path holds", &rows)
        .col("message", |(case, ..)| format!("{} {}", case.case.path, size(case.case.size)))
        .col("size / RTT", |(_, _, window, _)| bits_or(over_passes(window).as_ref(), "too few rounds"))
        .col("in a flow", |(_, flow, ..)| bits_or(carried(flow).as_ref(), "no round"))
        .col("flow divided by that", |(.., ratio)| Cell::Ratio(ratio.into()));
    Some(say(sure_if(more), text).with(evidence))
}

fn nagle(parts: &[Part<'_>]) -> Option<Answer> {
    let part = parts.iter().find(|part| nagle_trap::trap(part).is_some())?;
    Some(answer("", nagle_trap::forty_ms(Some(part))))
}

/// Streams over TCP whose messages are handed over in pieces.
fn shapes<'a>(parts: &[Part<'a>]) -> Option<(Part<'a>, Vec<&'a CaseSummary>)> {
    parts.iter().filter(|part| part.workload() == Workload::Stream).find_map(|part| {
        let is_shape = |one: &&CaseSummary| {
            one.case.path.transport == "tcp" && one.case.pieces.count > 1 && one.throughput.is_some()
        };
        let rows: Vec<&CaseSummary> = part.measured().filter(is_shape).collect();
        (!rows.is_empty()).then_some((*part, rows))
    })
}

fn writev_on_a_wire(parts: &[Part<'_>]) -> Option<Answer> {
    let (part, rows) = shapes(parts)?;
    let gathered = rows.iter().copied().filter(|case| is(case, 2));
    let pairs: Vec<Pair<'_>> = gathered.filter_map(|case| Some((case, alike(&rows, case, 1)?))).collect();
    let family = judged(&part, Metric::Throughput, &pairs);
    let (low, high) = family.span()?;
    let (faster, all) = (family.count(Verdict::Better), counted(family.all.len(), "row"));
    let here =
        format!("writev carries {low:.2} to {high:.2} times what many writes do and is faster in {faster} of {all}");
    let Some((line, route)) = line_rate(&part.run.header, &part.run.header.plan.cases[0].traits) else {
        let between = part.between();
        let because = match shared(&part, &rows) {
            Some(limit) => format!("{between}, and {limit}. {here}"),
            None => format!("{between}, and no wire limits them: {here}"),
        };
        return Some(Answer::cannot("", because));
    };
    let rate = |case: &&CaseSummary| case.throughput.as_ref().map(|of| of.receiver_bits.value / line);
    let fullest = rows.iter().filter_map(rate).fold(0.0, f64::max);
    let limit = if fullest >= 0.9 { "the wire is the limit of the fastest rows" } else { "the wire is not full" };
    let (has, device, used) = (bits(line), &route.device, percent(fullest));
    Some(say(sure_if(fullest >= 0.9), format!("Of {has} on {device} the fastest row uses {used}: {limit}; {here}")))
}

/// Path and pieces.
fn name(case: &CaseSummary) -> String {
    format!("{} {}", case.case.path, case.case.pieces)
}

fn reads(parts: &[Part<'_>]) -> Option<Answer> {
    let (part, rows) = shapes(parts)?;
    let rows = rows.into_iter().map(|case| {
        let (calls, tcp) = receiving(&part, case);
        (case, calls, tcp.as_ref().map(|tcp| tcp.data_segs_in).filter(|segments| *segments > 0))
    });
    let rows: Vec<_> = rows.collect();
    let each = rows.iter().filter_map(|(_, calls, segments)| Some(calls.recv_calls as f64 / (*segments)? as f64));
    let each: Vec<f64> = each.collect();
    let (low, high) = extremes(&each, |ratio| *ratio)?;
    let apart = each.iter().filter(|ratio| !(0.9..=1.1).contains(*ratio)).count();
    let text = format!(
        "A segment takes {} to {} read calls, depending on the row: in {apart} of {} the two counts are more than 10 % apart. \
         Reads follow the loop that reads and how fast it is",
        three_digits(*low),
        three_digits(*high),
        counted(each.len(), "row")
    );
    let evidence = table("reads-and-packets", "Read calls and segments with data at the receiver", rows)
        .col("row", |(case, ..)| name(case))
        .col("#reads", |(_, calls, _)| Cell::count(calls.recv_calls))
        .col("full", |(_, calls, _)| Cell::count(calls.recv_full))
        .col("short", |(_, calls, _)| Cell::count(calls.recv_short))
        .col("empty", |(_, calls, _)| Cell::count(calls.recv_empty))
        .col("segments received", |(.., segments)| count_or(*segments, "not told"));
    // Counts, not samples: one row is enough.
    Some(say(sure_or_not(apart > 0), text).with(evidence))
}

fn units(parts: &[Part<'_>]) -> Option<Answer> {
    let (_, rows) = shapes(parts)?;
    let rate = |case: &CaseSummary| case.throughput.as_ref().map_or(0.0, |of| of.receiver_bits.value);
    let (_, best) = extremes(&rows, |case| rate(case))?;
    let (si, binary) = (rate(best) / 1e9, rate(best) / 1_073_741_824.0);
    Some(sure(format!(
        "{} carries {}, which is {}: a table that prints {} as Gb/s is {} low. Links are sold in 10^9",
        name(best),
        bits(rate(best)),
        bits_per_second(rate(best), BitUnits::Binary),
        three_digits(binary),
        percent(1.0 - binary / si)
    )))
}

fn sender_time(parts: &[Part<'_>]) -> Option<Answer> {
    let (part, rows) = shapes(parts)?;
    let off = |case: &CaseSummary| {
        case.throughput.as_ref().map_or(0.0, |of| (of.sender_bits.value / of.receiver_bits.value - 1.0).abs())
    };
    let (_, widest) = extremes(&rows, |case| off(case))?;
    let apart = off(widest);
    // What a clock that stops at the last send() leaves out: what the buffer can hold.
    let sends = if part.run.header.plan.reverse { "far" } else { "near" };
    let granted = rows.iter().flat_map(|case| &case.granted);
    let buffer = granted.into_iter().find(|granted| granted.option == "SO_SNDBUF" && granted.end == sends);
    let bytes = widest.case.size as f64 * widest.delivery.sent as f64 / widest.rounds.max(1) as f64;
    let held = buffer.and_then(|granted| granted.granted.parse::<f64>().ok()).filter(|_| bytes > 0.0);
    let left_out = held.map_or_else(String::new, |held| {
        let (buffer, share, whole) = (size(held as u64), percent((held / bytes).min(1.0)), size(bytes as u64));
        format!(
            ". A clock that stops at the last send() would leave out what the socket's buffer holds: {buffer} as read back, up \
             to {share} of the {whole} of a round"
        )
    });
    let text = format!(
        "With its clock running until the acknowledgement the sender is at most {} off the receiver's rate ({}){left_out}",
        percent(apart),
        name(widest)
    );
    let mattered = held.is_some_and(|held| held / bytes > LEAST_MARGIN) || apart > LEAST_MARGIN;
    Some(say(if mattered { Confidence::Likely } else { Confidence::CantTell }, text))
}

fn whole_test(parts: &[Part<'_>]) -> Option<Answer> {
    let (part, rows) = shapes(parts)?;
    let of = |case: &&CaseSummary| {
        let rtt_us = sending(&part, case).1.as_ref()?.rtt_us;
        (rtt_us > 0).then_some((case.throughput.as_ref()?.sender_ns, f64::from(rtt_us) * 1e3))
    };
    let times: Vec<(f64, f64)> = rows.iter().filter_map(of).collect();
    let (least, most) = extremes(&times, |(whole, rtt)| whole / rtt)?;
    let text = format!(
        "A round of the test takes {} to {}, the round trip as TCP itself had it at the end {} and {}: {} to {} times as long. \
         It is the completion time of a transfer",
        time(least.0),
        time(most.0),
        time(least.1),
        time(most.1),
        three_digits(least.0 / least.1),
        three_digits(most.0 / most.1)
    );
    Some(say(sure_or_not(least.0 > 2.0 * least.1), text))
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
    let refusals: Vec<String> = ["75118", "78400"].into_iter().filter_map(refused).collect();
    Some(say(sure_or_not(refusals.len() == 2), format!("msgpath refuses it: {}", refusals.join("; "))))
}

fn loss(parts: &[Part<'_>]) -> Option<Answer> {
    let (part, rows) = shapes(parts)?;
    let of = |case: &&CaseSummary| {
        let (calls, tcp) = sending(&part, case);
        Some((calls.send_calls, tcp.as_ref()?.data_segs_out, tcp.as_ref()?.total_retrans))
    };
    let sum = |many: bool| {
        let own = rows.iter().filter(|case| is(case, 1) == many).filter_map(of);
        own.reduce(|sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2))
    };
    let (writes, segments, again) = sum(true)?;
    let smallest = rows.iter().map(|case| case.case.pieces.size).min()?;
    let one_call = sum(false)
        .map_or_else(String::new, |(_, segments, again)| format!(" (one call a message: {} of {})", again, segments));
    let put = match segments.cmp(&writes) {
        std::cmp::Ordering::Less => "TCP put writes together",
        std::cmp::Ordering::Greater => "TCP split writes",
        std::cmp::Ordering::Equal => "as many, though TCP promises no segment for each write",
    };
    let text = format!(
        "{} writes of {} and more left in {} segments, of which {} were sent again{one_call}: {put}. The size of a buffer is \
         not that of a packet",
        writes,
        size(smallest.into()),
        segments,
        again
    );
    Some(say(sure_if(again == 0), text))
}

/// The same case in neighbouring passes: what a single run of each would have claimed.
fn single_run(parts: &[Part<'_>]) -> Option<Answer> {
    let resolution = |part: &Part<'_>| part.summary.comparison.as_ref()?.resolution;
    let repeated = |part: &&Part<'_>| shapes(std::slice::from_ref(*part)).is_some() || resolution(part).is_some();
    let part = parts.iter().find(repeated)?;
    let metric = Metric::of(part.workload());
    let mut apart = Vec::new();
    for case in part.measured() {
        let values: Vec<f64> = part.by_pass(metric, &case.case).into_values().collect();
        apart.extend(values.windows(2).map(|pair| (pair[1] / pair[0] - 1.0).abs()));
    }
    if apart.len() < 20 {
        return None;
    }
    let (middle, most) = (median(&apart), percentile(&mut apart, 0.95));
    let together = resolution(part).map_or_else(String::new, |resolution| {
        let resolution = percent(resolution);
        format!("; all rounds together, the baseline differs from its hidden repetition by up to {resolution}")
    });
    let so = match most {
        0.03.. if most > 0.03 => "3 % from a single run of each is nothing",
        0.001.. if most > 0.001 => "0.1 % from a single run of each is nothing, 3 % may be something",
        _ => "a single run would do here",
    };
    let text = format!(
        "Two rounds of the same case, one pass after the other, differ by {} in the middle and by {} or more in one of twenty \
         ({} pairs of the run {}){together}: {so}",
        percent(middle),
        percent(most),
        (apart.len() as u64),
        part.name
    );
    Some(say(sure_if(most > 0.03), text))
}

#[cfg(test)]
mod tests {
    use msgpath_core::schema::{RoundRecord, TcpInfo};

    use super::*;
    use crate::answers::claims::settled;
    use crate::answers::testing::{of, shapes};
    use msgpath_analyse::Logs;
    use msgpath_analyse::testing::Build;

    /// What is settled of two shapes by many writes, one writev and one write.
    fn output(number: u8, change: impl Fn(&mut RoundRecord)) -> Option<Answer> {
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
            (round.near_mut().tcp, round.far_mut().tcp) = (Some(tcp), Some(tcp));
            round.near_mut().calls.send_calls = 3_000;
            round.far_mut().calls.recv_calls = 200;
        }
    }

    #[test]
    fn reads_are_packets_only_where_the_counts_say_so() {
        let apart = output(23, segments(40, 0)).unwrap();
        assert_eq!(apart.confidence, Confidence::Sure);
        assert!(apart.text.starts_with("A segment takes 5.00 to 5.00 read calls"), "{}", apart.text);
        assert_eq!(output(23, segments(200, 0)).unwrap().confidence, Confidence::CantTell);
        assert_eq!(output(23, |_| ()), None);
    }

    #[test]
    fn loss_is_what_was_sent_again() {
        let none = output(28, segments(40, 0)).unwrap();
        assert!(
            none.confidence == Confidence::Sure && none.text.contains("of which 0 were sent again"),
            "{}",
            none.text
        );
        // 3000 writes a round: in fewer segments, as many, and more.
        for (each, what) in [(40, "TCP put writes together"), (3_000, "as many, though"), (6_000, "TCP split writes")] {
            let text = output(28, segments(each, 0)).unwrap().text;
            assert!(text.contains(what) && (each == 40) == text.contains("together"), "{each}: {text}");
        }
        let some = output(28, segments(40, 3)).unwrap();
        assert!(
            some.confidence == Confidence::Likely && some.text.contains("of which 240 were sent again"),
            "{}",
            some.text
        );
    }

    #[test]
    fn units_ports_and_times_are_named() {
        let units = output(24, |_| ()).unwrap().text;
        assert!(units.contains("4.00 Gbit/s, which is 3.73 Gibit/s") && units.contains("6.87 % low"), "{units}");
        let port = output(27, |_| ()).unwrap().text;
        assert!(port.contains("12864") && port.contains("9582"), "{port}");
        let whole = output(26, segments(40, 0)).unwrap();
        assert!(whole.text.contains("20.0 µs") && whole.confidence == Confidence::Sure, "{}", whole.text);
        let wire = output(22, |_| ()).unwrap();
        assert!(
            wire.text.starts_with("cannot be answered on this path") && wire.text.contains("40.00 to 40.00"),
            "{}",
            wire.text
        );
        assert_eq!(output(8, |_| ()), None);
    }

    #[test]
    fn a_limit_that_rows_share_is_named() {
        let build = shapes(&["tcp:writes", "tcp:writev", "tcp:send"], &[(15, 100), (60, 25)]).reference(1 << 17);
        let run = build.rates(|_, _| 1.94e8).run();
        let all = of(&[("shapes", run, Logs::default())], settled);
        let output = &all.iter().find(|settled| settled.number == 22).unwrap().answer;
        assert!(
            !output.text.contains("no wire") && output.text.contains("something that all share"),
            "{}",
            output.text
        );
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
        let noisy = output(39, |round| {
            if round.pass % 2 == 1 {
                round.far_mut().elapsed_ns = round.far().elapsed_ns * 11 / 10;
            }
        });
        let noisy = noisy.unwrap();
        assert!(noisy.confidence == Confidence::Sure && noisy.text.contains("3 % from a single run"), "{}", noisy.text);
        assert!(output(39, |_| ()).unwrap().text.ends_with("a single run would do here."));
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
