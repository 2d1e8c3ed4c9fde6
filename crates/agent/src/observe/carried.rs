//! What a tracer saw, as the agent that has it sends it to the coordinator: frames of events, then what is known beside them.

use std::io;

use msgpath_core::schema::{EventKind, KernelEvent};

use super::Traced;
use crate::wire::{self, FromEnd};

/// The most events of a round that an agent sends, and that are taken from one.
pub const MAX_CARRIED: usize = 1 << 22;
/// Events of one frame.
const IN_FRAME: usize = 1 << 16;
/// Bytes of an event: time and `a` (8 each, little-endian as all), `tid` and `b` (4), CPU, length, flags (2), kind, 0.
const BYTES: usize = 32;

impl Traced {
    /// Says it. What is more than [`MAX_CARRIED`] counts as lost.
    ///
    /// # Errors
    /// As the writer.
    pub fn put(mut self, to: &mut impl io::Write) -> io::Result<()> {
        self.lost += self.events.len().saturating_sub(MAX_CARRIED) as u64;
        self.events.truncate(MAX_CARRIED);
        for events in self.events.chunks(IN_FRAME) {
            let bytes: Vec<u8> = events.iter().flat_map(bytes).collect();
            wire::write(to, &FromEnd::Events { count: events.len() as u32 }, &bytes)?;
        }
        let Self { lost, tasks, unseen, .. } = self;
        wire::write(to, &FromEnd::Traced { lost, tasks, unseen }, &[])
    }
}

fn bytes(event: &KernelEvent) -> [u8; BYTES] {
    let KernelEvent { t_ns, kind, cpu, tid, a, b, len, flags, end: _ } = *event;
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&t_ns.to_le_bytes());
    bytes[8..16].copy_from_slice(&a.to_le_bytes());
    bytes[16..20].copy_from_slice(&tid.to_le_bytes());
    bytes[20..24].copy_from_slice(&b.to_le_bytes());
    bytes[24..26].copy_from_slice(&cpu.to_le_bytes());
    bytes[26..28].copy_from_slice(&len.to_le_bytes());
    bytes[28..30].copy_from_slice(&flags.to_le_bytes());
    bytes[30] = kind as u8;
    bytes
}

#[derive(Debug, Default)]
pub struct Incoming(Vec<KernelEvent>);

impl Incoming {
    /// Takes the bytes of a frame that says how many there are; `None`: they are no such events, or too many.
    pub fn take(&mut self, count: u32, bytes: &[u8]) -> Option<()> {
        let count = count as usize;
        if count > IN_FRAME || bytes.len() != count * BYTES || self.0.len() + count > MAX_CARRIED {
            return None;
        }
        self.0.reserve(count);
        bytes.chunks_exact(BYTES).try_for_each(|bytes| {
            let event = KernelEvent {
                t_ns: u64::from_le_bytes(*bytes.first_chunk()?),
                a: u64::from_le_bytes(*bytes[8..].first_chunk()?),
                tid: i32::from_le_bytes(*bytes[16..].first_chunk()?),
                b: u32::from_le_bytes(*bytes[20..].first_chunk()?),
                cpu: u16::from_le_bytes(*bytes[24..].first_chunk()?),
                len: u16::from_le_bytes(*bytes[26..].first_chunk()?),
                flags: u16::from_le_bytes(*bytes[28..].first_chunk()?),
                kind: EventKind::from_number(bytes[30])?,
                end: 0,
            };
            self.0.push(event);
            Some(())
        })
    }

    /// What came, in the order of time.
    pub fn finish(mut self) -> Vec<KernelEvent> {
        self.0.sort_by_key(|event| event.t_ns);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(events: Vec<KernelEvent>) -> Vec<u8> {
        let (mut bytes, tasks) = (Vec::new(), [(7, "a".to_owned())].into());
        Traced { events, lost: 3, tasks, unseen: [(7, 1)].into() }.put(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn events_cross_whole() {
        let event = |n: u64| KernelEvent {
            t_ns: u64::MAX - n,
            kind: EventKind::ALL[n as usize % 18],
            cpu: 65_535,
            tid: -1,
            a: 1 << 63,
            b: u32::MAX,
            len: 7,
            flags: 1,
            end: 0,
        };
        let events: Vec<KernelEvent> = (0..IN_FRAME as u64 + 5).map(event).collect();
        let bytes = sent(events.clone());
        let (mut from, mut incoming, mut frames) = (bytes.as_slice(), Incoming::default(), 0);
        loop {
            match wire::read::<FromEnd>(&mut from).unwrap().unwrap() {
                (FromEnd::Events { count }, bytes) => incoming.take(count, &bytes).unwrap(),
                (FromEnd::Traced { lost: 3, tasks, unseen }, _) if tasks[&7] == "a" && unseen[&7] == 1 => break,
                other => panic!("{other:?}"),
            }
            frames += 1;
        }
        assert_eq!((frames, from.len()), (2, 0));
        assert_eq!(incoming.finish(), events.into_iter().rev().collect::<Vec<_>>());
    }

    #[test]
    fn what_is_no_event_or_too_many_is_refused() {
        let one = bytes(&KernelEvent::default());
        let mut unknown = one;
        unknown[30] = 99;
        for (count, bytes) in [(2, &one[..]), (1, &one[..31]), (0, &one[..]), (1, &unknown[..]), (u32::MAX, &one[..])] {
            assert_eq!(Incoming::default().take(count, bytes), None, "{count}, {} bytes", bytes.len());
        }
        let full = one.repeat(IN_FRAME);
        let mut incoming = Incoming::default();
        for _ in 0..MAX_CARRIED / IN_FRAME {
            incoming.take(IN_FRAME as u32, &full).unwrap();
        }
        assert_eq!(incoming.take(1, &one), None);
    }
}
