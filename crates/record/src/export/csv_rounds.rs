//! `csv`: the long form, one row per case and round.

use std::io::Write;

use msgpath_core::schema::{EndReport, EventCount, EventFacts, RoundRecord, TcpInfo};
use msgpath_core::{Case, ZeroCopyCounts};

use super::{Exporter, case, counted_ends, failed, is_known, receiver_bits_per_s, reply, role_word};
use crate::{RecordError, Run};

pub(super) struct Csv;

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
        let mut csv = csv::Writer::from_writer(out);
        let ends = ["near", "far"];
        let own = ROUND.iter().map(|(name, _)| (*name).to_string());
        let of_ends = ends.iter().flat_map(|end| END.iter().map(move |(name, _)| format!("{end}_{name}")));
        let events = events(run);
        let of_events = events.iter().flat_map(|(end, name)| {
            let name = column(name);
            ["", "_user", "_running_share"].map(|part| format!("{end}_events_{name}{part}"))
        });
        csv.write_record(own.chain(of_ends).chain(of_events)).map_err(failed)?;
        for round in &run.rounds {
            let row = Row { run, case: case(run, round.case), round };
            let own = ROUND.iter().map(|(_, cell)| cell(&row));
            let of_ends = [&round.near, &round.far].into_iter().zip(counted_ends(run)).flat_map(|(end, counted)| {
                END.iter().map(move |(name, cell)| match counted || is_known(name, end) {
                    true => cell(end),
                    false => String::new(),
                })
            });
            let of_events = events.iter().flat_map(|(end, name)| {
                let counts = if *end == "near" { &round.near_events } else { &round.far_events };
                event(counts.get(*name))
            });
            csv.write_record(own.chain(of_ends).chain(of_events)).map_err(failed)?;
        }
        csv.flush().map_err(failed)
    }
}

/// Events that were counted, with the end; those that could not be have no column.
fn events(run: &Run) -> Vec<(&'static str, &str)> {
    fn of<'a>(end: &'static str, facts: &'a EventFacts) -> impl Iterator<Item = (&'static str, &'a str)> {
        facts.counted.iter().map(move |name| (end, name.as_str()))
    }
    of("near", &run.header.near_events).chain(of("far", &run.header.far_events)).collect()
}

/// `cpu_core/cycles/` as a name of a column: `cpu_core_cycles`.
fn column(event: &str) -> String {
    event.trim_matches('/').replace(['/', '-'], "_")
}

/// Count, the part in user mode, and the share of the time in which it was counted; empty where it was not.
fn event(count: Option<&EventCount>) -> [String; 3] {
    let share = count.filter(|count| count.enabled_ns > 0);
    [
        cell(count.map(|count| count.count)),
        cell(count.and_then(|count| count.user)),
        cell(share.map(|count| format!("{:.4}", count.running_ns as f64 / count.enabled_ns as f64))),
    ]
}

struct Row<'a> {
    run: &'a Run,
    case: &'a Case,
    round: &'a RoundRecord,
}

type RoundColumn = (&'static str, for<'a> fn(&Row<'a>) -> String);
type EndColumn = (&'static str, fn(&EndReport) -> String);

fn cell(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// A quantile in ns; `inf` where it is a lost message, empty where there was no message.
fn quantile(row: &Row<'_>, p: f64) -> String {
    cell(row.round.latency.quantile(p).map(cell_or_inf))
}

fn cell_or_inf(ns: Option<u64>) -> String {
    ns.map_or_else(|| "inf".into(), |ns| ns.to_string())
}

const ROUND: &[RoundColumn] = &[
    ("run", |row| row.run.header.name.clone()),
    ("verb", |row| row.run.header.verb.clone()),
    ("case", |row| row.case.id.to_string()),
    ("role", |row| role_word(row.case.role).into()),
    ("path", |row| row.case.path.to_string()),
    ("transport", |row| row.case.path.transport.clone()),
    ("method", |row| row.case.path.method.clone()),
    ("wait", |row| row.case.path.wait.clone()),
    ("size_bytes", |row| row.case.size.to_string()),
    ("reply_bytes", |row| cell(reply(row.run, row.case))),
    ("pieces", |row| row.case.pieces.to_string()),
    ("connections", |row| row.case.connections.to_string()),
    ("threads", |row| row.case.threads.to_string()),
    ("inflight", |row| row.case.inflight.to_string()),
    ("pass", |row| row.round.pass.to_string()),
    ("restart", |row| row.round.restart.to_string()),
    ("position", |row| row.round.position.to_string()),
    ("start_ns", |row| row.round.start_ns.to_string()),
    ("batch", |row| row.round.batch.to_string()),
    ("connect_ns", |row| cell(row.round.connect_ns)),
    ("timed", |row| row.round.latency.total().to_string()),
    ("min_ns", |row| cell(row.round.latency.min())),
    ("p50_ns", |row| quantile(row, 0.5)),
    ("p90_ns", |row| quantile(row, 0.9)),
    ("p99_ns", |row| quantile(row, 0.99)),
    ("max_ns", |row| cell(row.round.latency.max())),
    ("mean_ns", |row| cell(row.round.latency.mean().map(|mean| format!("{mean:.3}")))),
    ("one_way_p50_ns", |row| cell(row.round.one_way.quantile(0.5).map(cell_or_inf))),
    ("receiver_bits_per_s", |row| cell(receiver_bits_per_s(row.run, row.round).map(|bits| format!("{bits:.0}")))),
    ("steal_ticks", |row| cell(row.round.steal_ticks)),
    ("flags", |row| row.round.flags.join(";")),
];

const END: &[EndColumn] = &[
    ("elapsed_ns", |end| end.elapsed_ns.to_string()),
    ("bytes_sent", |end| end.bytes_sent.to_string()),
    ("bytes_received", |end| end.bytes_received.to_string()),
    ("sent", |end| end.delivery.sent.to_string()),
    ("received", |end| end.delivery.received.to_string()),
    ("lost", |end| end.delivery.lost.to_string()),
    ("duplicated", |end| end.delivery.duplicated.to_string()),
    ("reordered", |end| end.delivery.reordered.to_string()),
    ("late", |end| end.delivery.late.to_string()),
    ("verified", |end| end.delivery.verified.to_string()),
    ("send_calls", |end| end.calls.send_calls.to_string()),
    ("recv_calls", |end| end.calls.recv_calls.to_string()),
    ("wait_calls", |end| end.calls.wait_calls.to_string()),
    ("other_calls", |end| end.calls.other_calls.to_string()),
    ("recv_full", |end| end.calls.recv_full.to_string()),
    ("recv_short", |end| end.calls.recv_short.to_string()),
    ("recv_empty", |end| end.calls.recv_empty.to_string()),
    ("send_short", |end| end.calls.send_short.to_string()),
    ("copied_bytes", |end| end.calls.copied_bytes.to_string()),
    ("user_ns", |end| end.user_ns.to_string()),
    ("system_ns", |end| end.system_ns.to_string()),
    ("voluntary_switches", |end| end.voluntary_switches.to_string()),
    ("involuntary_switches", |end| end.involuntary_switches.to_string()),
    ("minor_faults", |end| end.minor_faults.to_string()),
    ("major_faults", |end| end.major_faults.to_string()),
    ("run_delay_ns", |end| cell(end.run_delay_ns)),
    ("zerocopy_asked", |end| zerocopy(end, |counts| counts.asked)),
    ("zerocopy_not_copied", |end| zerocopy(end, |counts| counts.zero_copied)),
    ("zerocopy_copied", |end| zerocopy(end, |counts| counts.copied)),
    ("zerocopy_unanswered", |end| zerocopy(end, |counts| counts.unanswered)),
    ("zerocopy_notifications", |end| zerocopy(end, |counts| counts.notifications)),
    ("zerocopy_no_buffers", |end| zerocopy(end, |counts| counts.no_buffers)),
    ("tcp_segs_out", |end| tcp(end, |info| info.segs_out)),
    ("tcp_segs_in", |end| tcp(end, |info| info.segs_in)),
    ("tcp_data_segs_out", |end| tcp(end, |info| info.data_segs_out)),
    ("tcp_data_segs_in", |end| tcp(end, |info| info.data_segs_in)),
    ("tcp_total_retrans", |end| tcp(end, |info| info.total_retrans)),
    ("tcp_bytes_retrans", |end| tcp(end, |info| info.bytes_retrans)),
    ("tcp_rtt_us", |end| tcp(end, |info| info.rtt_us.into())),
    ("tcp_min_rtt_us", |end| tcp(end, |info| info.min_rtt_us.into())),
    ("tcp_snd_cwnd", |end| tcp(end, |info| info.snd_cwnd.into())),
    ("tcp_snd_mss_bytes", |end| tcp(end, |info| info.snd_mss.into())),
];

/// Empty unless zero copy was asked for: then nothing was counted.
fn zerocopy(end: &EndReport, count: fn(&ZeroCopyCounts) -> u64) -> String {
    cell((end.zerocopy != ZeroCopyCounts::default()).then(|| count(&end.zerocopy)))
}

/// Empty where the transport is not TCP.
fn tcp(end: &EndReport, field: fn(&TcpInfo) -> u64) -> String {
    cell(end.tcp.as_ref().map(field))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use msgpath_core::Workload;
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
            assert_eq!(row.len(), ROUND.len() + 2 * END.len());
            let number = |name: &str| row[name].parse::<u64>().unwrap();
            assert_eq!((number("case"), number("pass")), (round.case.into(), round.pass.into()));
            assert_eq!(Some(Some(number("p50_ns"))), round.latency.quantile(0.5));
            assert_eq!(number("near_lost"), round.near.delivery.lost);
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
    fn a_stream_has_a_throughput_and_no_reply() {
        let mut header = crate::test_run::header(0);
        header.plan.workload = Workload::Stream;
        let rounds = vec![RoundRecord { latency: Default::default(), ..crate::test_run::round(0, 0) }];
        let run = Run { folder: "x".into(), header, rounds, end: None::<RunEnd>, damage: None };
        let mut bytes = Vec::new();
        Csv.export(&run, &mut bytes).unwrap();
        let row = &rows(&bytes)[0];
        // 640 bytes in 100 us
        assert_eq!(row["receiver_bits_per_s"], "51200000");
        assert_eq!((row["reply_bytes"].as_str(), row["p50_ns"].as_str(), row["mean_ns"].as_str()), ("", "", ""));
    }
}
