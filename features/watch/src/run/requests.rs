//! Requests from both sources, the kernel's turns and the messages that are paired here: named, counted, and sampled alike.

use std::collections::BTreeMap;
use std::time::Instant;

use msgpath_core::watch::{RequestRow, ServiceCounts, Times};
use msgpath_sys::watch::{Event, HEAD, Headed, Watch};

use super::framing::{Framing, Protocol};
use super::pairing::{Found, Pairing};
use super::sampling::Sampling;
use crate::record::flag;

/// So many events are paired at once: what is made of them, hundreds of bytes a message, stays in the cache.
const FEW: usize = 64;

/// What was counted here of one server.
#[derive(Debug, Default)]
struct Counted {
    requests: u64,
    torn: u64,
    incomplete: u64,
    in_flight: u64,
    times: BTreeMap<u16, u64>,
}

pub(super) struct Requests {
    framing: Framing,
    pairing: Pairing,
    counted: BTreeMap<u32, Counted>,
    headed: Vec<Headed>,
    events: Vec<Event>,
}

impl Requests {
    pub(super) fn new(framing: Framing) -> Self {
        let (headed, events) = (Vec::new(), Vec::new());
        Self { framing, pairing: Pairing::new(framing), counted: BTreeMap::new(), headed, events }
    }

    /// Takes what has happened since the last time, at most `most` rows and events, and until `deadline`. Whether there was a new connection.
    pub(super) fn take(
        &mut self,
        watch: &mut Watch,
        sampling: &Sampling,
        (most, deadline): (usize, Option<Instant>),
        rows: &mut Vec<RequestRow>,
    ) -> bool {
        watch.drain(most, &mut self.headed);
        let framing = self.framing;
        rows.extend(self.headed.drain(..).map(|(row, head)| named(row, &head, framing)));
        let mut new = false;
        for _ in 0..most / FEW {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
            watch.events(FEW, &mut self.events);
            if self.events.is_empty() {
                break;
            }
            let found = self.pairing.take(self.events.drain(..));
            found.verdicts.iter().for_each(|(connection, verdict)| watch.judge(*connection, *verdict));
            new |= found.new;
            self.count(found, sampling, rows);
        }
        new
    }

    /// Counts what was not paired at the end: nothing comes any more.
    pub(super) fn end(&mut self, sampling: &Sampling, rows: &mut Vec<RequestRow>) {
        let found = self.pairing.end();
        self.count(found, sampling, rows);
    }

    fn count(&mut self, found: Found, sampling: &Sampling, rows: &mut Vec<RequestRow>) {
        for (of, field) in [
            (found.torn, (|counted| &mut counted.torn) as fn(&mut Counted) -> &mut u64),
            (found.incomplete, |counted| &mut counted.incomplete),
            (found.in_flight, |counted| &mut counted.in_flight),
        ] {
            of.into_iter().for_each(|(service, count)| *field(self.counted.entry(service).or_default()) += count);
        }
        for mut row in found.rows {
            let counted = self.counted.entry(row.service).or_default();
            *counted.times.entry(Times::bucket(row.total_ns)).or_default() += 1;
            let (slow, every) = sampling.of(row.service);
            row.flags &= !flag::SAMPLED;
            if row.total_ns >= slow {
                row.flags |= flag::SLOW;
            }
            if counted.requests.is_multiple_of(every) {
                row.flags |= flag::SAMPLED;
            }
            counted.requests += 1;
            row.weight = every as u32;
            if row.flags & (flag::SLOW | flag::SAMPLED) != 0 {
                rows.push(row);
            }
        }
    }

    /// All that was counted, by server.
    pub(super) fn services(&self, watch: &Watch) -> Vec<ServiceCounts> {
        let mut services = watch.services();
        for service in &mut services {
            let Some(counted) = self.counted.get(&service.service) else { continue };
            service.requests += counted.requests;
            service.framed += counted.requests;
            service.torn += counted.torn;
            service.incomplete += counted.incomplete;
            service.in_flight += counted.in_flight;
            service.times.add(&Times(counted.times.iter().map(|(bucket, count)| (*bucket, *count)).collect()));
        }
        services
    }
}

/// With the name of what was asked for, where its first bytes tell.
fn named(row: RequestRow, head: &[u8; HEAD], framing: Framing) -> RequestRow {
    let known = &head[..HEAD.min(row.bytes_there as usize)];
    let protocol = Protocol::of(framing).or_else(|| Protocol::recognise(known, false));
    RequestRow { what: protocol.map_or([0; 16], |protocol| protocol.name(known)), ..row }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_name_of_what_was_asked_for() {
        let mut head = [0; HEAD];
        head[..14].copy_from_slice(b"GET / HTTP/1.1");
        let what = |bytes_there, framing: &str| {
            named(RequestRow { bytes_there, ..RequestRow::default() }, &head, framing.parse().unwrap()).what
        };
        assert_eq!(&what(500, "auto")[..6], b"GET /\0");
        assert_eq!((what(3, "auto"), what(500, "u32be")), ([0; 16], [0; 16]));
        assert_eq!(&what(9, "line")[..10], b"GET / HTT\0");
    }

    #[test]
    fn messages_that_are_paired_here_are_counted_and_sampled_like_turns() {
        let mut requests = Requests::new(Framing::Auto);
        let row = |total_ns| RequestRow { service: 2, total_ns, ..RequestRow::default() };
        let found = Found {
            rows: (0..8).map(|n| row(if n == 3 { 900 } else { 100 })).collect(),
            torn: BTreeMap::from([(2, 1)]),
            in_flight: BTreeMap::from([(2, 5)]),
            ..Found::default()
        };
        let mut sampling = Sampling::new(500);
        sampling.set(2, 500, 4);
        let mut rows = Vec::new();
        requests.count(found, &sampling, &mut rows);
        let seen: Vec<(u64, u32, u32)> = rows.iter().map(|row| (row.total_ns, row.flags, row.weight)).collect();
        assert_eq!(seen, [(100, flag::SAMPLED, 4), (900, flag::SLOW, 4), (100, flag::SAMPLED, 4)]);
        let counted = &requests.counted[&2];
        assert_eq!((counted.requests, counted.torn, counted.in_flight, counted.times.len()), (8, 1, 5, 2));
    }
}
