//! `csv`: the long form, one row per case and round.

use std::io::Write;

use msgpath_core::ZeroCopyCounts;
use msgpath_core::schema::{EndReport, EventCount, RoundRecord, TcpInfo};

use super::{Exporter, counted, field, is_known, is_told, nonzero, receiver_bits_per_s, write_csv};
use crate::columns::Kind::{Decimal, Int32, Int64, Text};
use crate::columns::{Cell, Column, Context, of_case};
use crate::{RecordError, Run};

pub struct Csv;

impl Exporter for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn extension(&self) -> &'static str {
        "csv"
    }

    fn summary(&self) -> &'static str {
        "one row per case and round, every count of both ends"
    }

    fn export(&self, run: &Run, out: &mut dyn Write) -> Result<(), RecordError> {
        let of = &Context::new(run);
        let ends = &run.header.ends;
        let own = || RUN.iter().chain(&CASE).chain(&ROUND);
        let of_ends = ends.iter().flat_map(|end| END.iter().map(move |column| format!("{}_{}", end.name, column.name)));
        let events = events(run);
        let of_events = events.iter().flat_map(|(end, name)| {
            let name = event_column(name);
            ["", "_user", "_running_share"].map(|part| format!("{}_events_{name}{part}", ends[*end].name))
        });
        let head = own().map(|column| column.name.to_owned()).chain(of_ends).chain(of_events);
        let rows = run.rounds.iter().map(|round| {
            let own = own().map(|column| field(column.cell(of, round)));
            let reports = (0..ends.len()).map(|end| &round.end(end).report);
            let of_ends = reports.zip(counted(run, round)).flat_map(|(end, counted)| {
                let is_there = move |name| is_known(name, end, counted) && is_told(name, end, run, round);
                END.iter().map(move |column| match is_there(column.name) {
                    true => field(column.cell(of, end)),
                    false => String::new(),
                })
            });
            let of_events = events.iter().flat_map(|(end, name)| event(round.end(*end).events.get(*name)));
            own.chain(of_ends).chain(of_events).collect()
        });
        write_csv(head, rows, out)
    }
}

/// Events that were counted, with the position of the end; those that could not be have no column.
fn events(run: &Run) -> Vec<(usize, &str)> {
    let ends = run.header.ends.iter().enumerate();
    ends.flat_map(|(at, end)| end.events.counted.iter().map(move |name| (at, name.as_str()))).collect()
}

/// `cpu_core/cycles/` as a name of a column: `cpu_core_cycles`.
fn event_column(event: &str) -> String {
    event.trim_matches('/').replace(['/', '-'], "_")
}

/// Count, the part in user mode, and the share of the time in which it was counted; empty where it was not.
fn event(count: Option<&EventCount>) -> [String; 3] {
    let share = count.filter(|count| count.enabled_ns > 0);
    [
        field(count.map(|count| count.count).into()),
        field(count.and_then(|count| count.user).into()),
        field(share.map(|count| format!("{:.4}", count.running_ns as f64 / count.enabled_ns as f64)).into()),
    ]
}

type Round = Column<RoundRecord>;
type End = Column<EndReport>;

pub(crate) static RUN: [Round; 2] = [
    Round::shown("run", Text, "", "name of the run", |of, _| of.run.header.name.as_str().into()),
    Round::shown("verb", Text, "", "the verb that made it", |of, _| of.run.header.verb.as_str().into()),
];

static CASE: [Round; 13] = of_case();

const NOTHING: &str = "nothing was timed";

pub(crate) static ROUND: [Round; 16] = [
    Round::shown("restart", Int32, "", "restart, from 0", |_, round| round.restart.into()),
    Round::shown("position", Int32, "", "position in the pass, from 0", |_, round| round.position.into()),
    Round::shown("start_ns", Int64, "ns", "its start, since that of the run", |_, round| round.start_ns.into()),
    Round::shown("batch", Int32, "", "messages per entry of the histogram", |_, round| round.batch.into()),
    Round::shown("connect_ns", Int64, "ns", "time to connect, the slowest", |_, round| round.connect_ns.into())
        .or_empty("the transport does not connect"),
    Round::shown("timed", Int64, "", "entries of the histogram, lost ones included", |_, round| {
        round.latency.total().into()
    }),
    Round::shown("min_ns", Int64, "ns", "fastest", |_, round| round.latency.min().into()).or_empty(NOTHING),
    Round::shown("p50_ns", Int64, "ns", "median; `inf`: it is lost", |_, round| quantile(round, 0.5)).or_empty(NOTHING),
    Round::shown("p90_ns", Int64, "ns", "p90, likewise", |_, round| quantile(round, 0.9)).or_empty(NOTHING),
    Round::shown("p99_ns", Int64, "ns", "p99, likewise", |_, round| quantile(round, 0.99)).or_empty(NOTHING),
    Round::shown("max_ns", Int64, "ns", "slowest that arrived", |_, round| round.latency.max().into())
        .or_empty(NOTHING),
    Round::shown("mean_ns", Decimal, "ns", "mean of those that arrived", |_, round| {
        round.latency.mean().map(|mean| format!("{mean:.3}")).into()
    })
    .or_empty(NOTHING),
    Round::shown("one_way_p50_ns", Int64, "ns", "median from near to far", |_, round| {
        round.one_way.quantile(0.5).map(cell_or_inf).into()
    })
    .or_empty("no stamps at the far end, or no common clock"),
    Round::shown(
        "receiver_bits_per_s",
        Int64,
        "bit/s",
        "throughput: the receiver's bytes, on its clock where the round is steady, else on the sender's",
        |of, round| receiver_bits_per_s(of.run, round).map(|bits| format!("{bits:.0}")).into(),
    )
    .or_empty("not a stream"),
    Round::shown("steal_ticks", Int64, "clock ticks", "stolen from all CPUs", |_, round| round.steal_ticks.into())
        .or_empty("`/proc/stat` does not tell"),
    Round::shown("flags", Text, "", "conditions that were lost, with `;` between", |_, round| {
        round.flags.join(";").into()
    }),
];

/// A quantile in ns; `inf` where it is a lost message, empty where there was no message.
fn quantile<'a>(round: &RoundRecord, p: f64) -> Cell<'a> {
    round.latency.quantile(p).map(cell_or_inf).into()
}

fn cell_or_inf<'a>(ns: Option<u64>) -> Cell<'a> {
    ns.map_or(Cell::Text("inf".into()), Cell::from)
}

pub(crate) static END: [End; 49] = [
    End::shown("elapsed_ns", Int64, "ns", "first to last message, by its clock", |_, end| end.elapsed_ns.into()),
    End::shown("bytes_sent", Int64, "bytes", "payload sent", |_, end| end.bytes_sent.into()),
    End::shown("bytes_received", Int64, "bytes", "payload received in that time", |_, end| end.bytes_received.into()),
    End::shown("untimed", Int64, "", "messages that started its clock, whose bytes do not count", |_, end| {
        end.untimed.into()
    }),
    End::shown("sent", Int64, "", "messages sent", |_, end| end.delivery.sent.into()),
    End::shown("received", Int64, "", "messages that arrived in time", |_, end| end.delivery.received.into()),
    End::shown("lost", Int64, "", "messages that did not", |_, end| end.delivery.lost.into()),
    End::shown("duplicated", Int64, "", "arrived twice", |_, end| end.delivery.duplicated.into()),
    End::shown("reordered", Int64, "", "arrived after a later one", |_, end| end.delivery.reordered.into()),
    End::shown("late", Int64, "", "arrived after they counted as lost", |_, end| end.delivery.late.into()),
    End::shown("verified", Int64, "", "compared byte by byte", |_, end| end.delivery.verified.into()),
    End::shown("send_calls", Int64, "", "calls that send", |_, end| end.calls.send_calls.into()),
    End::shown("recv_calls", Int64, "", "calls that receive", |_, end| end.calls.recv_calls.into()),
    End::shown("wait_calls", Int64, "", "calls that only wait", |_, end| end.calls.wait_calls.into()),
    End::shown("other_calls", Int64, "", "calls for bookkeeping", |_, end| end.calls.other_calls.into()),
    End::shown("recv_full", Int64, "", "receive calls that got all", |_, end| end.calls.recv_full.into()),
    End::shown("recv_short", Int64, "", "receive calls that got a part", |_, end| end.calls.recv_short.into()),
    End::shown("recv_empty", Int64, "", "receive calls that got nothing", |_, end| end.calls.recv_empty.into()),
    End::shown("send_short", Int64, "", "send calls that took a part", |_, end| end.calls.send_short.into()),
    End::shown("copied_bytes", Int64, "bytes", "copied by the program itself", |_, end| end.calls.copied_bytes.into()),
    End::shown("signals", Int64, "", "signals that the handler took", |_, end| end.calls.signals.into()),
    End::shown("dropped", Int64, "", "frames dropped by a full buffer", |_, end| end.calls.dropped.into()),
    End::shown("redirected", Int64, "", "messages that BPF handed over", |_, end| end.calls.redirected.into()),
    End::shown("mapped_bytes", Int64, "bytes", "mapped, not copied by the kernel", |_, end| {
        end.calls.mapped_bytes.into()
    }),
    End::shown("user_ns", Int64, "ns", "CPU time in user mode", |_, end| nonzero(end.user_ns).into()).or_empty(NO_TICK),
    End::shown("system_ns", Int64, "ns", "CPU time in the kernel", |_, end| nonzero(end.system_ns).into())
        .or_empty(NO_TICK),
    End::shown("voluntary_switches", Int64, "", "context switches to wait", |_, end| end.voluntary_switches.into()),
    End::shown("involuntary_switches", Int64, "", "preemptions", |_, end| end.involuntary_switches.into()),
    End::shown("minor_faults", Int64, "", "page faults without I/O", |_, end| end.minor_faults.into()),
    End::shown("major_faults", Int64, "", "page faults with I/O", |_, end| end.major_faults.into()),
    End::shown("run_delay_ns", Int64, "ns", "runnable and not running", |_, end| end.run_delay_ns.into())
        .or_empty("schedstat cannot be read"),
    End::shown(
        "metered_ns",
        Int64,
        "ns",
        "its threads' time in which CPU time, switches, faults and run delay were counted",
        |_, end| end.metered_ns.into(),
    )
    .or_empty("they were not counted"),
    zerocopy("zerocopy_asked", "sends that asked for it", |_, end| asked(end, |counts| counts.asked)),
    zerocopy("zerocopy_not_copied", "answered: not copied", |_, end| asked(end, |counts| counts.zero_copied)),
    zerocopy("zerocopy_copied", "answered: copied after all", |_, end| asked(end, |counts| counts.copied)),
    zerocopy("zerocopy_unanswered", "not answered", |_, end| asked(end, |counts| counts.unanswered)),
    zerocopy("zerocopy_notifications", "notifications read", |_, end| asked(end, |counts| counts.notifications)),
    zerocopy("zerocopy_no_buffers", "refused with ENOBUFS", |_, end| asked(end, |counts| counts.no_buffers)),
    tcp("tcp_segs_out", "", "segments sent", |_, end| info(end, |info| info.segs_out)),
    tcp("tcp_segs_in", "", "segments received", |_, end| info(end, |info| info.segs_in)),
    tcp("tcp_data_segs_out", "", "those with data, sent", |_, end| info(end, |info| info.data_segs_out)),
    tcp("tcp_data_segs_in", "", "those with data, received", |_, end| info(end, |info| info.data_segs_in)),
    tcp("tcp_total_retrans", "", "segments retransmitted", |_, end| info(end, |info| info.total_retrans)),
    tcp("tcp_bytes_retrans", "bytes", "retransmitted", |_, end| info(end, |info| info.bytes_retrans)),
    tcp("tcp_out_of_order", "", "segments received out of order", |_, end| {
        end.tcp.as_ref().and_then(|info| info.out_of_order).into()
    })
    .or_empty("the transport is not TCP, or the kernel does not count them"),
    tcp("tcp_rtt_us", "µs", "smoothed round trip", |_, end| info(end, |info| info.rtt_us.into())),
    tcp("tcp_min_rtt_us", "µs", "smallest round trip", |_, end| info(end, |info| info.min_rtt_us.into())),
    tcp("tcp_snd_cwnd", "segments", "congestion window", |_, end| info(end, |info| info.snd_cwnd.into())),
    tcp("tcp_snd_mss_bytes", "bytes", "largest segment", |_, end| info(end, |info| info.snd_mss.into())),
];

const NO_TICK: &str = "no tick of the kernel fell into it; what was used stands in the other part";

type Show = for<'a> fn(&'a Context<'a>, &'a EndReport) -> Cell<'a>;

const fn zerocopy(name: &'static str, says: &'static str, show: Show) -> End {
    End::shown(name, Int64, "", says, show).or_empty("nothing asked for zero copy")
}

const fn tcp(name: &'static str, unit: &'static str, says: &'static str, show: Show) -> End {
    End::shown(name, Int64, unit, says, show).or_empty("the transport is not TCP")
}

/// Empty unless zero copy was asked for: then nothing was counted.
fn asked<'a>(end: &EndReport, count: fn(&ZeroCopyCounts) -> u64) -> Cell<'a> {
    (end.zerocopy != ZeroCopyCounts::default()).then(|| count(&end.zerocopy)).into()
}

fn info<'a>(end: &EndReport, value: fn(&TcpInfo) -> u64) -> Cell<'a> {
    end.tcp.as_ref().map(value).into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use msgpath_core::Workload;
    use msgpath_core::carried::Carried;
    use msgpath_core::schema::RunEnd;

    use super::*;
    use crate::export::tests::exported;

    fn rows(bytes: &[u8]) -> Vec<HashMap<String, String>> {
        csv::Reader::from_reader(bytes).deserialize().map(Result::unwrap).collect()
    }

    #[test]
    fn every_round_is_a_row() {
        let (bytes, written) = exported("csv");
        let rows = rows(&bytes);
        assert_eq!(rows.len(), written.rounds.len());
        for (row, round) in rows.iter().zip(&written.rounds) {
            assert_eq!(row.len(), RUN.len() + CASE.len() + ROUND.len() + 2 * END.len());
            let number = |name: &str| row[name].parse::<u64>().unwrap();
            assert_eq!((number("case_id"), number("pass")), (round.case.into(), round.pass.into()));
            assert_eq!(Some(Some(number("p50_ns"))), round.latency.quantile(0.5));
            assert_eq!(number("near_lost"), round.near().delivery.lost);
            assert_eq!(number("far_recv_calls"), 11);
            assert_eq!(number("near_tcp_snd_mss_bytes"), 65_483);
        }
        let (first, second) = (&rows[0], &rows[1]);
        assert_eq!((first["path"].as_str(), first["pieces"].as_str()), ("tcp:send", "1x64"));
        assert_eq!((second["p99_ns"].as_str(), first["one_way_p50_ns"].as_str()), ("inf", ""));
        assert_eq!((first["near_zerocopy_asked"].as_str(), second["near_zerocopy_copied"].as_str()), ("", "9"));
        assert_eq!((first["near_run_delay_ns"].as_str(), first["far_run_delay_ns"].as_str()), ("", "77"));
        assert_eq!(rows[5]["flags"], "migrated;throttled");
        assert_eq!(first["receiver_bits_per_s"], "");
    }

    #[test]
    fn an_end_whose_counters_nobody_read_has_empty_cells() {
        let row = |imported: &[&str], far: EndReport| {
            let mut round = crate::test_run::round(0, 0);
            *round.far_mut() = far;
            let mut header = crate::test_run::header(0);
            header.plan.workload = &crate::test_run::ASKED;
            header.imported = imported.iter().map(|name| (*name).to_owned()).collect();
            let run = Run { folder: "x".into(), header, rounds: vec![round], end: None::<RunEnd>, damage: None };
            let mut bytes = Vec::new();
            Csv.export(&run, &mut bytes).unwrap();
            rows(&bytes).remove(0)
        };
        let known = *crate::test_run::round(0, 0).far();
        // A server that is called: the client's counters were read, and nothing is known of the server.
        let called = row(&[], EndReport::default());
        let of_far: Vec<_> = called.iter().filter(|(name, _)| name.starts_with("far_")).collect();
        assert_eq!(of_far.len(), END.len());
        assert!(of_far.iter().all(|(_, cell)| cell.is_empty()), "{of_far:?}");
        assert_eq!((called["near_system_ns"].as_str(), called["near_recv_empty"].as_str()), ("90000", "0"));
        // An imported log tells messages, bytes and times of both ends, and no calls or CPU time of either.
        let imported = row(&["client.log"], known);
        for end in ["near", "far"] {
            let cell = |name: &str| imported[&format!("{end}_{name}")].as_str();
            for name in ["system_ns", "recv_calls", "recv_empty", "voluntary_switches"] {
                assert_eq!(cell(name), "", "{end}_{name}");
            }
            for name in ["elapsed_ns", "bytes_sent", "sent", "received", "lost"] {
                assert!(cell(name).parse::<u64>().is_ok(), "{end}_{name}: {}", cell(name));
            }
        }
    }

    #[test]
    fn a_part_of_the_time_without_a_tick_is_empty() {
        let round = crate::test_run::round(0, 0);
        let near = EndReport { user_ns: 0, ..*round.near() };
        let far = EndReport { user_ns: 0, system_ns: 0, ..*round.far() };
        let rounds = vec![RoundRecord { ends: vec![near.into(), far.into()], ..round }];
        let header = crate::test_run::header(0);
        let run = Run { folder: "x".into(), header, rounds, end: None::<RunEnd>, damage: None };
        let mut bytes = Vec::new();
        Csv.export(&run, &mut bytes).unwrap();
        let row = &rows(&bytes)[0];
        let cells = ["near_user_ns", "near_system_ns", "far_user_ns", "far_system_ns"].map(|name| row[name].as_str());
        assert_eq!(cells, ["", "90000", "", ""]);
        // What was counted and did not happen stays a number.
        assert_eq!(row["near_major_faults"], "0");
    }

    #[test]
    fn a_stream_has_a_throughput_and_no_reply() {
        let mut header = crate::test_run::header(0);
        header.plan.workload = Workload::STREAM;
        let rounds = vec![RoundRecord { latency: Default::default(), ..crate::test_run::round(0, 0) }];
        let run = Run { folder: "x".into(), header, rounds, end: None::<RunEnd>, damage: None };
        let mut bytes = Vec::new();
        Csv.export(&run, &mut bytes).unwrap();
        let row = &rows(&bytes)[0];
        // 640 bytes in 100 us
        assert_eq!(row["receiver_bits_per_s"], "51200000");
        // What lay in the buffers when the receiver began was not received in no time.
        let mut swallowed = run;
        swallowed.rounds[0].near_mut().elapsed_ns *= 16;
        let mut bytes = Vec::new();
        Csv.export(&swallowed, &mut bytes).unwrap();
        let rate: f64 = rows(&bytes)[0]["receiver_bits_per_s"].parse().unwrap();
        let said = Carried::of(&swallowed.header.plan, &swallowed.rounds[0]).bits_per_s().unwrap();
        assert!((rate - said).abs() <= 1.0 && said < 51_200_000.0, "{rate} and {said}");
        assert_eq!((row["reply_bytes"].as_str(), row["p50_ns"].as_str(), row["mean_ns"].as_str()), ("", "", ""));
    }
}
