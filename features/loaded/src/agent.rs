//! A session that reads the queues of its machine: at once when it is told to look, and all the while during a round of its role.

use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use msgpath_agent::roles::{Context, Goes, ListedRole, SessionRole};
use msgpath_agent::route;
use msgpath_agent::wire::{self, Body, FromEnd};
use msgpath_core::foreign::shown_bytes;
use msgpath_sys::clock;
use msgpath_sys::queues::{Device, Held, Sockets};
use serde::{Deserialize, Serialize};

use crate::record::{At, MAX_SAMPLES, QueueLog};

/// As orders name it.
pub const QUEUES: ListedRole = ListedRole { name: "queues", begin: || Box::new(Reader::default()) };
/// Between two samples of a round.
const EVERY: Duration = Duration::from_millis(10);
/// Between two looks at the control channel.
const LOOK: Duration = Duration::from_millis(2);
/// Most sockets that are looked for.
const MAX_COOKIES: usize = 4096;
/// Most queues of a device.
const MAX_RINGS: usize = 256;
/// Most characters of a name that the kernel gives.
const MAX_NAME: usize = 32;

/// What it is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// To read the device that leads to this address, and these sockets (SO_COOKIE). It looks at once.
    Watch {
        /// The other end.
        peer: IpAddr,
        /// The sockets of the load at this end.
        cookies: Vec<u64>,
    },
    /// To look once more.
    Look,
    /// To make a round ready, in which it reads all the while.
    Ready,
}

/// Its device and its sockets, once it was told.
#[derive(Default)]
struct Reader {
    device: Option<(String, Device)>,
    /// Files that tell what stands in the rings of the device.
    rings: Vec<PathBuf>,
    sockets: Option<Sockets>,
    cookies: Vec<u64>,
    ready: bool,
    log: Option<QueueLog>,
}

impl SessionRole for Reader {
    fn order(&mut self, body: &Body, _: &Context<'_>) -> io::Result<FromEnd> {
        match body.read::<Order>()? {
            Order::Watch { peer, mut cookies } => {
                cookies.truncate(MAX_COOKIES);
                self.cookies = cookies;
                self.sockets = Sockets::open().ok();
                self.device = route::to((peer, 0)).ok().and_then(|route| {
                    let device = Device::named(&route.device).ok()?;
                    Some((route.device, device))
                });
                self.rings = self.device.as_ref().map(|(name, _)| rings(name)).unwrap_or_default();
                self.look()
            }
            Order::Look => self.look(),
            Order::Ready => {
                self.ready = true;
                Ok(FromEnd::ready())
            }
        }
    }

    fn go(&mut self, goes: &mut dyn FnMut() -> Goes) -> Option<FromEnd> {
        if !std::mem::take(&mut self.ready) {
            return None;
        }
        let mut log = QueueLog { device: self.device.as_ref().map(|(name, _)| name.clone()), ..QueueLog::default() };
        let mut next = clock::now();
        while goes() == Goes::On {
            let now = clock::now();
            if now >= next && log.samples.len() < MAX_SAMPLES {
                log.samples.push(self.sample(&mut log.kinds));
                // A round that is longer than expected is read less often, and all of it.
                let slower = 1 + log.samples.len() as u32 / (MAX_SAMPLES as u32 / 8);
                next = now + (EVERY * slower.pow(2)).as_nanos() as u64;
            }
            std::thread::sleep(LOOK);
        }
        log.samples.push(self.sample(&mut log.kinds));
        self.log = Some(log);
        Some(FromEnd::Over)
    }

    fn report(&mut self, mut to: &mut dyn Write) -> io::Result<bool> {
        let Some(log) = self.log.take() else { return Ok(false) };
        wire::write(&mut to, &FromEnd::role(&log)?, &[])?;
        Ok(true)
    }
}

impl Reader {
    fn look(&self) -> io::Result<FromEnd> {
        let mut kinds = Vec::new();
        let sample = self.sample(&mut kinds);
        let device = self.device.as_ref().map(|(name, _)| name.clone());
        FromEnd::role(&QueueLog { device, kinds, samples: vec![sample] })
    }

    /// What stands where now. `kinds`: those of the queueing disciplines.
    fn sample(&self, kinds: &mut Vec<String>) -> At {
        let mut at = At { t_ns: clock::now(), ..At::default() };
        if let Some((_, device)) = &self.device {
            if let Ok(passed) = device.passed() {
                (at.received, at.sent) = (Some(passed.received), Some(passed.sent));
            }
            let qdiscs = device.qdiscs().unwrap_or_default();
            if let Some(root) = qdiscs.iter().find(|qdisc| qdisc.is_root) {
                at.backlog_bytes = Some(root.backlog_bytes.into());
                at.backlog_packets = Some(root.backlog_packets.into());
                at.left_bytes = Some(root.sent_bytes);
                at.drops = Some(root.drops.into());
                at.marks = qdiscs.iter().filter_map(|qdisc| qdisc.marks).map(u64::from).reduce(|a, b| a + b);
            }
            let named = qdiscs.iter().map(|qdisc| shown_bytes(qdisc.kind.as_bytes(), MAX_NAME));
            *kinds = named.fold(Vec::new(), |mut kinds, kind| {
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
                kinds
            });
        }
        let held = self.sockets.as_ref().filter(|_| !self.cookies.is_empty());
        let held = held.and_then(|sockets| sockets.held(&self.cookies).ok()).filter(|held| !held.is_empty());
        if let Some(held) = held {
            let sum = |of: fn(&Held) -> u64| held.iter().map(of).sum::<u64>();
            at.unacknowledged_bytes = Some(sum(|held| held.unacknowledged.into()));
            at.unsent_bytes = Some(sum(|held| held.unsent.into()));
            at.rtt_ns = Some(1_000 * sum(|held| held.rtt_us.into()) / held.len() as u64);
            at.socket_acknowledged = Some(sum(|held| held.acknowledged));
            at.socket_received = Some(sum(|held| held.received));
        }
        let ring = |file: &PathBuf| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
        at.device_bytes = self.rings.iter().filter_map(ring).reduce(|a, b| a + b);
        at
    }
}

/// Where a device tells the bytes that it has taken and not sent, by its byte queue limits; none where it has no such limits, or where sysfs
/// shows another network namespace.
fn rings(device: &str) -> Vec<PathBuf> {
    let queues = route::folder(device).and_then(|folder| std::fs::read_dir(format!("{folder}/queues")).ok());
    let files = queues.into_iter().flatten().flatten().map(|queue| queue.path().join("byte_queue_limits/inflight"));
    files.filter(|file| file.exists()).take(MAX_RINGS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_of_the_role_reads_until_it_is_told_to_end() {
        let mut reader = Reader { ready: true, ..Reader::default() };
        reader.device = Device::named("lo").ok().map(|device| ("lo".to_owned(), device));
        let mut looks = 0;
        let over = reader.go(&mut || {
            looks += 1;
            if looks > 20 { Goes::ToItsEnd } else { Goes::On }
        });
        assert!(matches!(over, Some(FromEnd::Over)));
        let log = reader.log.clone().unwrap();
        assert!(log.samples.len() >= 2 && log.samples.len() < 30, "{}", log.samples.len());
        assert!(log.samples.windows(2).all(|pair| pair[0].t_ns < pair[1].t_ns));
        assert!(log.device.is_none() || log.samples.iter().all(|at| at.sent.is_some()), "{log:?}");
        assert!(reader.go(&mut || Goes::On).is_none(), "it was not made ready again");
        let mut said = Vec::new();
        assert!(reader.report(&mut said).unwrap() && !said.is_empty());
        assert!(!reader.report(&mut said).unwrap(), "said once");
    }
}
