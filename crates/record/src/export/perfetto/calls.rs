//! Calls of a key-value server in the trace: a slice each, with its parts and a flow to the server where both clocks are
//! one. On two machines the server's stamps are not placed: that takes an estimate of the clocks, which the record has
//! not.

use msgpath_core::schema::RpcFacts;
use std::io::Write;

use msgpath_core::schema::RpcRow;

use super::{BEGIN, END, INSTANT, LOCK, LOST, Message, REPLY, REQUEST, SERVER, Trace, Track, event, failed, interned};
use crate::{Damage, RecordError};

/// Calls that are brought into the order of time together, at most.
const TOGETHER: usize = 1 << 20;

impl<W: Write> Trace<'_, W> {
    /// Writes the log of calls as far as it is whole: one case and pass after the other.
    pub(super) fn calls(&mut self, rows: impl Iterator<Item = Result<RpcRow, Damage>>) -> Result<(), RecordError> {
        let mut together: Vec<RpcRow> = Vec::new();
        for row in rows.map_while(Result::ok) {
            let other = together.first().is_some_and(|first| (first.case, first.pass) != (row.case, row.pass));
            if other || together.len() == TOGETHER {
                self.some_calls(&mut together)?;
            }
            together.push(row);
        }
        self.some_calls(&mut together)
    }

    fn some_calls(&mut self, rows: &mut Vec<RpcRow>) -> Result<(), RecordError> {
        rows.sort_by_key(|row| row.start_ns);
        for row in rows.drain(..) {
            self.call(&row)?;
        }
        self.write_events()
    }

    fn call(&mut self, row: &RpcRow) -> Result<(), RecordError> {
        let cases = self.run.header.plan.cases.len();
        if row.case as usize >= cases {
            return Err(failed(std::io::Error::other(format!("a call of case {} of {cases}", row.case))));
        }
        let stage = |at: usize| (cases + 1 + at) as u64;
        let event = |kind: u64, track: u64| Message::default().uint(event::TYPE, kind).uint(event::TRACK_UUID, track);
        let named = |kind: u64, track: u64, name: u64| event(kind, track).uint(event::NAME_IID, name);
        let notes = [(1, row.pass), (3, row.rpcid), (4, row.parent), (5, row.status)];
        let about = |slice: Message| {
            notes.into_iter().fold(slice, |slice, (name, value)| {
                let note = Message::default().uint(interned::ANNOTATION_NAME_IID, name);
                slice.message(event::DEBUG_ANNOTATIONS, &note.uint(interned::ANNOTATION_UINT, value.into()))
            })
        };
        let Some(latency) = row.latency_ns else {
            let lost = named(INSTANT, self.track(Track::Lost(row.connection))?, stage(LOST));
            self.events.push((row.start_ns, about(lost)));
            return Ok(());
        };
        let end = row.start_ns.saturating_add(latency);
        let slot = self.calls.entry((row.case, row.connection)).or_default().take(row.start_ns, end);
        let track = self.track(Track::Calls(row.case, row.connection, slot))?;
        self.events.push((row.start_ns, about(named(BEGIN, track, u64::from(row.case) + 1))));
        if let Some((received, replied)) = self.placed(row, latency) {
            let server = self.track(Track::Served(row.case, row.connection, slot))?;
            let flow = self.number();
            let at = |ns: u64| row.start_ns.saturating_add(ns);
            for (part, from, to) in [(REQUEST, 0, received), (REPLY, replied, latency)] {
                let begin = named(BEGIN, track, stage(part));
                let begin = if part == REQUEST { begin.fixed64(event::FLOW_IDS, flow) } else { begin };
                self.events.extend([(at(from), begin), (at(to), event(END, track))]);
            }
            let begin = named(BEGIN, server, stage(SERVER)).fixed64(event::TERMINATING_FLOW_IDS, flow);
            self.events.push((at(received), begin));
            if let Some(lock) = row.lock_ns.filter(|lock| (1..=replied - received).contains(lock)) {
                self.events.push((at(received), named(BEGIN, server, stage(LOCK))));
                self.events.push((at(received + lock), event(END, server)));
            }
            self.events.push((at(replied), event(END, server)));
        }
        self.events.push((end, event(END, track)));
        Ok(())
    }

    /// T2 - T1 and T3 - T1, ns, where one clock made all stamps and they do not contradict each other.
    fn placed(&self, row: &RpcRow, latency: u64) -> Option<(u64, u64)> {
        let pair = self.run.header.parts.get::<RpcFacts>()?.pairs.get(row.pair as usize)?;
        pair.same_machine.as_ref()?;
        let (received, replied) = (u64::try_from(row.received_ns?).ok()?, u64::try_from(row.replied_ns?).ok()?);
        (received <= replied && replied <= latency).then_some((received, replied))
    }
}
