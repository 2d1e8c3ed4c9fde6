//! What handing a message over is made of, piece by piece: writing the iovecs, entering the kernel, copying, pinning and noting
//! a notification, reading one. Over a connection of this process to itself, before the run.

use std::hint::black_box;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use msgpath_core::schema::SendCosts;
use msgpath_core::units::Pieces;
use msgpath_sys::clock;
use msgpath_sys::errqueue;
use msgpath_sys::msg::{self, SendFlags};
use msgpath_sys::scatter::Scatter;
use msgpath_sys::socket::{self, IntOption};

/// Repetitions of each piece; the median counts.
const REPETITIONS: usize = 40;
/// Time limit of one piece, ns: a busy machine gives fewer repetitions, not a longer wait.
const LIMIT_NS: u64 = 8_000_000;
/// Bytes that are in flight at most: they fit the smallest usual buffers.
const IN_FLIGHT: u64 = 64 << 10;
/// Calls of one repetition at most, and arrays built in one.
const CALLS: u64 = 16;
const ARRAYS: u64 = 1_000;

/// A connection of this process to itself.
struct Both {
    near: TcpStream,
    far: TcpStream,
    inbox: Vec<u8>,
}

impl Both {
    fn open() -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let near = TcpStream::connect(listener.local_addr()?)?;
        let (far, _) = listener.accept()?;
        near.set_nodelay(true)?;
        near.set_nonblocking(true)?;
        Ok(Self { near, far, inbox: vec![0; 1 << 16] })
    }

    /// Takes what was sent off the far end. `None`: it did not come.
    fn drain(&mut self, bytes: u64, deadline: u64) -> Option<()> {
        let mut open = bytes;
        while open > 0 {
            match msg::recv_now(self.far.as_fd(), &mut self.inbox) {
                Ok(0) => return None,
                Ok(came) => open = open.checked_sub(came as u64)?,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && clock::now() < deadline => {}
                Err(_) => return None,
            }
        }
        Some(())
    }
}

/// Of messages in these pieces; `None`: too large, or there is no loopback device in this namespace.
pub(crate) fn measure(pieces: Pieces) -> Option<SendCosts> {
    let sizes: Vec<usize> = pieces.sizes().collect();
    let total = pieces.total();
    if total == 0 || total > IN_FLIGHT {
        return None;
    }
    let mut message = Scatter::uneven(&sizes);
    let empty = Scatter::uneven(&[0]);
    let mut both = Both::open().ok()?;
    let iovec_ns = median(ARRAYS, || {
        (0..ARRAYS).for_each(|_| black_box(&mut message).rebuild());
        Some(())
    })?;
    let empty_ns = median(CALLS, || (0..CALLS).try_for_each(|_| send(&both, &empty, false).map(drop)))?;
    let (copied_ns, _) = handed_over(&mut both, &message, false)?;
    socket::set(both.near.as_fd(), IntOption::Zerocopy, 1).ok()?;
    let (pinned_ns, reaped_ns) = handed_over(&mut both, &message, true)?;
    Some(SendCosts { pieces, iovec_ns, empty_ns, copied_ns, pinned_ns, reaped_ns })
}

fn send(both: &Both, message: &Scatter, zerocopy: bool) -> Option<usize> {
    msg::sendmsg(both.near.as_fd(), message, SendFlags { zerocopy, more: false }).ok()
}

/// The median times of a sendmsg of the message, and of reading a notification where any came. The far end is emptied between
/// repetitions, and no buffer is touched again, so whatever the kernel still reads of it is right.
fn handed_over(both: &mut Both, message: &Scatter, zerocopy: bool) -> Option<(f64, Option<f64>)> {
    let total = message.len() as u64;
    let calls = (IN_FLIGHT / total).clamp(1, CALLS);
    let (mut sends, mut reaps) = (Vec::new(), Vec::new());
    let start = clock::now();
    while sends.len() < REPETITIONS && clock::now() - start < LIMIT_NS {
        let before = clock::now();
        for _ in 0..calls {
            (send(both, message, zerocopy)? as u64 == total).then_some(())?;
        }
        sends.push((clock::now() - before) as f64 / calls as f64);
        both.drain(calls * total, start + 2 * LIMIT_NS)?;
        if zerocopy {
            let before = clock::now();
            if let Ok(Some(_)) = errqueue::read(both.near.as_fd()) {
                reaps.push((clock::now() - before) as f64);
            }
            // The rest, at most one for each call.
            (0..calls).take_while(|_| errqueue::read(both.near.as_fd()).is_ok()).for_each(drop);
        }
    }
    Some((middle(sends)?, middle(reaps)))
}

/// The median time of one of `times` that `work` does in a repetition.
fn median(times: u64, mut work: impl FnMut() -> Option<()>) -> Option<f64> {
    let start = clock::now();
    let mut repetitions = Vec::new();
    while repetitions.len() < REPETITIONS && clock::now() - start < LIMIT_NS {
        let before = clock::now();
        work()?;
        repetitions.push((clock::now() - before) as f64 / times as f64);
    }
    middle(repetitions)
}

fn middle(mut repetitions: Vec<f64>) -> Option<f64> {
    repetitions.sort_by(f64::total_cmp);
    repetitions.get(repetitions.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_has_a_time_of_its_own() {
        let Some(costs) = measure(Pieces::of(8, 128)) else { return eprintln!("skipped: no loopback device here") };
        assert!(costs.iovec_ns > 0.0 && costs.empty_ns > 0.0, "{costs:?}");
        // Both enter the kernel, which a message of no bytes does as well.
        assert!(costs.copied_ns > 0.0 && costs.pinned_ns > 0.0, "{costs:?}");
        assert_eq!(costs.pieces, Pieces::of(8, 128));
        assert_eq!(measure(Pieces::whole(1 << 20)), None, "more than fits the buffers");
    }

    #[test]
    fn the_middle_of_nothing_is_nothing() {
        assert_eq!((middle(vec![3.0, 1.0, 2.0]), middle(Vec::new())), (Some(2.0), None));
        assert_eq!(median(2, || None), None);
    }
}
