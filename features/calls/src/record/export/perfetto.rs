//! `perfetto` of a run of calls: a slice each, with its parts and a flow to the server where both clocks are one. On two machines
//! the server's stamps are not placed: that takes an estimate of the clocks, which the record has not.

use std::collections::HashMap;
use std::io::{BufWriter, Write};

use msgpath_record::export::Exporter;
use msgpath_record::export::perfetto::{
    BEGIN, END, INSTANT, LOST, Lanes, OWN, REPLY, REQUEST, Trace, Track, event, event_on, named, noted,
};
use msgpath_record::{RecordError, Run};

use super::{calls, has_calls};
use crate::record::{RpcFacts, RpcRow};

/// Calls that are brought into the order of time together, at most.
const TOGETHER: usize = 1 << 20;
/// Names of what a server does.
const PARTS: [&str; 2] = ["server", "lock wait"];
const SERVER: usize = OWN;
const LOCK: usize = OWN + 1;
/// Names of what is noted of a call.
const NOTES: [&str; 4] = ["pass", "rpcid", "parent", "status"];

pub(super) struct Perfetto;

impl Exporter for Perfetto {
    fn name(&self) -> &'static str {
        "perfetto"
    }

    fn extension(&self) -> &'static str {
        "pftrace"
    }

    fn summary(&self) -> &'static str {
        "the calls likewise"
    }

    fn is_for(&self, run: &Run) -> bool {
        has_calls(run)
    }

    fn binary(&self) -> bool {
        true
    }

    fn export(&self, run: &Run, out: &mut dyn Write) -> Result<(), RecordError> {
        let (facts, rows) = calls(run)?;
        let trace = Trace::new(run, BufWriter::new(out));
        Drawn { facts, trace, lanes: HashMap::new() }.all(rows)
    }
}

struct Drawn<'a, W: Write> {
    facts: &'a RpcFacts,
    trace: Trace<'a, W>,
    /// The slots of calls, by case and connection.
    lanes: HashMap<(u32, u32), Lanes>,
}

impl<W: Write> Drawn<'_, W> {
    /// Writes the calls: one case and pass after the other.
    fn all(mut self, rows: impl Iterator<Item = RpcRow>) -> Result<(), RecordError> {
        self.trace.head(&PARTS, &NOTES)?;
        self.trace.counters()?;
        let mut together: Vec<RpcRow> = Vec::new();
        for row in rows {
            let other = together.first().is_some_and(|first| (first.case, first.pass) != (row.case, row.pass));
            if other || together.len() == TOGETHER {
                self.some(&mut together)?;
            }
            together.push(row);
        }
        self.some(&mut together)?;
        self.trace.finish()
    }

    fn some(&mut self, rows: &mut Vec<RpcRow>) -> Result<(), RecordError> {
        rows.sort_by_key(|row| row.start_ns);
        for row in rows.drain(..) {
            self.call(&row)?;
        }
        self.trace.write_events()
    }

    fn call(&mut self, row: &RpcRow) -> Result<(), RecordError> {
        let Self { trace, .. } = self;
        let about = |slice| noted(slice, [row.pass, row.rpcid, row.parent, row.status].map(u64::from));
        let Some(latency) = row.latency_ns else {
            let lost = named(INSTANT, trace.track(Track::Lost(row.connection))?, trace.stage_name(LOST));
            trace.events.push((row.start_ns, about(lost)));
            return Ok(());
        };
        let end = row.start_ns.saturating_add(latency);
        let slot = self.lanes.entry((row.case, row.connection)).or_default().take(row.start_ns, end);
        let track = trace.track(Track::Near(row.case, row.connection, slot))?;
        trace.events.push((row.start_ns, about(named(BEGIN, track, trace.case_name(row.case)))));
        if let Some((received, replied)) = placed(self.facts, row, latency) {
            let server = trace.track(Track::Far(row.case, row.connection, slot))?;
            let flow = trace.number();
            let at = |ns: u64| row.start_ns.saturating_add(ns);
            for (part, from, to) in [(REQUEST, 0, received), (REPLY, replied, latency)] {
                let begin = named(BEGIN, track, trace.stage_name(part));
                let begin = if part == REQUEST { begin.fixed64(event::FLOW_IDS, flow) } else { begin };
                trace.events.extend([(at(from), begin), (at(to), event_on(END, track))]);
            }
            let begin = named(BEGIN, server, trace.stage_name(SERVER)).fixed64(event::TERMINATING_FLOW_IDS, flow);
            trace.events.push((at(received), begin));
            if let Some(lock) = row.lock_ns.filter(|lock| (1..=replied - received).contains(lock)) {
                trace.events.push((at(received), named(BEGIN, server, trace.stage_name(LOCK))));
                trace.events.push((at(received + lock), event_on(END, server)));
            }
            trace.events.push((at(replied), event_on(END, server)));
        }
        trace.events.push((end, event_on(END, track)));
        Ok(())
    }
}

/// T2 - T1 and T3 - T1, ns, where one clock made all stamps and they do not contradict each other.
fn placed(facts: &RpcFacts, row: &RpcRow, latency: u64) -> Option<(u64, u64)> {
    facts.pairs.get(row.pair as usize)?.same_machine.as_ref()?;
    let (received, replied) = (u64::try_from(row.received_ns?).ok()?, u64::try_from(row.replied_ns?).ok()?);
    (received <= replied && replied <= latency).then_some((received, replied))
}

#[cfg(test)]
mod tests {
    use msgpath_record::RunWriter;

    use super::*;
    use crate::record::export::test_trace::{Read, Slice, read};
    use crate::record::{RpcPair, test_run};

    /// The trace of these calls of case 1, on one machine or on two.
    fn trace_of_calls(same_machine: bool, rows: &[RpcRow]) -> Read {
        let place = tempfile::tempdir().unwrap();
        let mut header = test_run::header();
        header.plan.cases[1].label = Some("write".into());
        let pair = RpcPair { same_machine: same_machine.then(|| "loopback".into()), ..RpcPair::default() };
        header.parts.set(RpcFacts { pairs: vec![pair], ..RpcFacts::default() });
        RunWriter::create(place.path(), &header).unwrap().rows::<RpcRow>(rows).unwrap();
        let mut out = Vec::new();
        Perfetto.export(&msgpath_record::read(place.path()).unwrap(), &mut out).unwrap();
        read(&out)
    }

    #[test]
    fn calls_have_parts_where_one_clock_made_the_stamps() {
        let row = |n: u64| RpcRow {
            case: 1,
            connection: 3,
            rpcid: n as u32 + 1,
            start_ns: 1_000 * n,
            latency_ns: (n != 2).then_some(1_500),
            received_ns: Some(400),
            replied_ns: Some(900),
            lock_ns: Some(100),
            ..RpcRow::default()
        };
        let read = trace_of_calls(true, &[0, 1, 2].map(row));
        let near: Vec<&Slice> =
            read.slices.iter().filter(|slice| slice.depth == 0 && slice.name.starts_with("write")).collect();
        assert_eq!(near.len(), 2);
        // They overlap, so each has a slot.
        assert_ne!(near[0].track, near[1].track);
        let of = |name: &str| -> Vec<(u64, u64)> {
            read.slices.iter().filter(|slice| slice.name == name).map(|slice| (slice.from, slice.to)).collect()
        };
        assert_eq!((of("request"), of("reply")), (vec![(0, 400), (1_000, 1_400)], vec![(900, 1_500), (1_900, 2_500)]));
        assert_eq!(
            (of("server"), of("lock wait")),
            (vec![(400, 900), (1_400, 1_900)], vec![(400, 500), (1_400, 1_500)])
        );
        assert_eq!((read.flows.len(), read.instants.len(), read.notes), (2, 1, 12));
    }

    #[test]
    fn calls_between_two_machines_are_not_split_by_unaligned_clocks() {
        let rows =
            [RpcRow { case: 1, latency_ns: Some(50), received_ns: Some(7), replied_ns: Some(9), ..RpcRow::default() }];
        let read = trace_of_calls(false, &rows);
        assert_eq!((read.slices.len(), read.flows.len()), (1, 0));
    }
}
