//! A receiver for raw frames of somebody else's vehicle programs: as their own, it listens on one interface for one EtherType.
//!
//! It waits with poll() and then takes all frames that are there. Nothing is printed before the end.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use msgpath_core::{Exit, Problem};
use msgpath_sys::clock;
use msgpath_sys::packet::{self, Interface};
use msgpath_sys::poll::{Interest, poll};

use crate::classic::frames::{Arrival, ETHERNET, Heard, Layout, Stamp};

/// The most frames that are kept.
pub const MOST_FRAMES: u64 = 1_000_000;
/// The longest that is listened.
pub const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Bytes of a frame that are looked at: its header and its stamp are at its begin.
const LOOKED_AT: usize = 64 << 10;
/// The receiver's buffer, bytes: bursts of 15 senders wait there.
const BUFFER: usize = 8 << 20;
/// How long the kernel is waited for until the flag is looked at.
const SLICE_MS: i32 = 50;

/// What is listened for.
#[derive(Clone, Debug)]
pub struct Asked {
    pub interface: Interface,
    /// Of which EtherType.
    pub ethertype: u16,
    /// What stands in the frames.
    pub layout: Layout,
    /// Until so many came, at most [`MOST_FRAMES`],
    pub count: u64,
    /// or for so long.
    pub time: Duration,
}

/// Listens; `begun` is told when frames that are sent from now on will be heard.
///
/// # Errors
/// E50: the socket cannot be opened, or breaks.
pub fn run(asked: &Asked, stop: &AtomicBool, begun: &mut dyn FnMut()) -> Result<Heard, Problem> {
    let name = &asked.interface.name;
    let failed = |what: &str, error: std::io::Error| {
        let problem = Problem::new("E50", Exit::CannotStart, format!("{what} {name}: {error}"));
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                problem.why("packet sockets need CAP_NET_RAW").hint("sudo, or sudo setcap cap_net_raw+ep on msgpath")
            }
            _ => problem,
        }
    };
    let listener =
        packet::listen(&asked.interface, asked.ethertype, BUFFER).map_err(|error| failed("cannot listen on", error))?;
    let mut heard = Heard { interface: name.clone(), ..Heard::default() };
    let mut buffer = vec![0; LOOKED_AT];
    let count = asked.count.min(MOST_FRAMES) as usize;
    let first = clock::now();
    let until = asked.time.min(LONGEST).as_nanos() as u64;
    begun();
    while heard.arrivals.len() < count && clock::now() - first < until && !stop.load(Ordering::Relaxed) {
        match poll(listener.as_fd(), Interest::Read, SLICE_MS) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed("cannot wait on", error)),
        }
        match packet::hear(listener.as_fd(), &mut buffer) {
            Ok((bytes, outgoing)) => {
                let at_ns = clock::now() - first;
                let now = SystemTime::now();
                let stamp = buffer[..bytes].get(ETHERNET..).and_then(|payload| Stamp::read(asked.layout, payload));
                let Some(stamp) = stamp else {
                    heard.others += 1;
                    continue;
                };
                let now_us = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
                let latency_us = now_us.saturating_sub(stamp.sent_us);
                heard.arrivals.push(Arrival { stamp, latency_us, at_ns, bytes: bytes as u32 });
                heard.outgoing += u64::from(outgoing);
            }
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(failed("cannot receive on", error)),
        }
    }
    heard.dropped = packet::dropped(listener.as_fd()).ok();
    Ok(heard)
}
