//! How a sender wakes a receiver that sleeps beside a ring in shared memory, other than by the ring's own futex.
//!
//! The receiver writes into the ring that it sleeps, looks for a message once more, and sleeps; who puts a message in rings where
//! somebody sleeps. So there is one ring for one sleep. One that comes too late ends the next sleep early: sleepers look into
//! the ring again, whatever has woken them.

mod eventfd;
mod semaphore;
mod signal;
mod uring;

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::ring::{Place, Ring};

/// By what a sender wakes a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A counter of the kernel that is read and written: eventfd(2).
    Eventfd,
    /// A POSIX semaphore in the shared memory: sem_overview(7).
    Posix,
    /// A semaphore of System V: semop(2).
    SystemV,
    /// A real-time signal with rt_tgsigqueueinfo(2), taken by sigtimedwait(2).
    Signal,
    /// The same, read from a signalfd(2).
    Signalfd,
    /// A completion put into the other end's io_uring: IORING_OP_MSG_RING.
    UringMessage,
    /// The ring's futex, slept on and woken through io_uring: IORING_OP_FUTEX_WAIT and IORING_OP_FUTEX_WAKE.
    UringFutex,
}

/// The two bells of one end: the one that it rings, and the one at which it sleeps.
pub enum Bell {
    /// [`Kind::Eventfd`].
    Eventfd(eventfd::Eventfds),
    /// [`Kind::Posix`].
    Posix(semaphore::Posix),
    /// [`Kind::SystemV`].
    SystemV(semaphore::SystemV),
    /// [`Kind::Signal`] and [`Kind::Signalfd`].
    Signal(signal::Signals),
    /// [`Kind::UringMessage`].
    UringMessage(uring::Messages),
    /// [`Kind::UringFutex`].
    UringFutex(uring::Futexes),
}

impl Bell {
    /// Makes the bells of a ring that this process has made, and what the other end gets to attach itself to them. `peer`: the
    /// number of its process.
    ///
    /// # Errors
    /// What this kernel does not have, or no descriptor left.
    pub fn create(kind: Kind, ring: &Ring, peer: Option<i32>) -> io::Result<(Self, Vec<OwnedFd>)> {
        let places = ring.places();
        Ok(match kind {
            Kind::Eventfd => {
                let (bell, fds) = eventfd::Eventfds::create()?;
                (Bell::Eventfd(bell), fds)
            }
            Kind::Posix => (Bell::Posix(semaphore::Posix::create(places)?), Vec::new()),
            Kind::SystemV => (Bell::SystemV(semaphore::SystemV::create(places)?), Vec::new()),
            Kind::Signal | Kind::Signalfd => {
                (Bell::Signal(signal::Signals::new(places, peer, kind == Kind::Signalfd)?), Vec::new())
            }
            Kind::UringMessage => (Bell::UringMessage(uring::Messages::new(places, peer)?), Vec::new()),
            Kind::UringFutex => (Bell::UringFutex(uring::Futexes::new(places)?), Vec::new()),
        })
    }

    /// The other end of bells, with what [`Bell::create`] gave in the other process.
    ///
    /// # Errors
    /// As [`Bell::create`]; other descriptors than it gave.
    pub fn attach(kind: Kind, ring: &Ring, peer: Option<i32>, fds: Vec<OwnedFd>) -> io::Result<Self> {
        let places = ring.places();
        let mut fds = fds.into_iter();
        let mut next = || fds.next().ok_or(io::ErrorKind::InvalidData);
        let mut bell = match kind {
            Kind::Eventfd => Bell::Eventfd(eventfd::Eventfds::attach(next()?, next()?)),
            Kind::Posix => Bell::Posix(semaphore::Posix::attach(places)),
            Kind::SystemV => Bell::SystemV(semaphore::SystemV::attach(places)),
            Kind::Signal | Kind::Signalfd => Bell::Signal(signal::Signals::new(places, peer, kind == Kind::Signalfd)?),
            Kind::UringMessage => Bell::UringMessage(uring::Messages::new(places, peer)?),
            Kind::UringFutex => Bell::UringFutex(uring::Futexes::new(places)?),
        };
        // The end that made the ring has its bell already.
        bell.meet()?;
        Ok(bell)
    }

    /// Takes what can be had of the other end only when both have their bells.
    ///
    /// # Errors
    /// The other end has none, or does not let this one have its io_uring.
    pub fn meet(&mut self) -> io::Result<()> {
        match self {
            Bell::UringMessage(bell) => bell.meet(),
            _ => Ok(()),
        }
    }

    /// The same end once more, for a second thread: one rings, the other sleeps.
    ///
    /// # Errors
    /// No descriptor left; `Unsupported` for an io_uring, which is one thread's.
    pub(crate) fn duplicate(&self) -> io::Result<Self> {
        Ok(match self {
            Bell::Eventfd(bell) => Bell::Eventfd(bell.duplicate()?),
            Bell::Posix(bell) => Bell::Posix(bell.duplicate()),
            Bell::SystemV(bell) => Bell::SystemV(bell.duplicate()),
            Bell::Signal(bell) => Bell::Signal(bell.duplicate()),
            Bell::UringMessage(_) | Bell::UringFutex(_) => {
                let why = "one io_uring is not shared by a sending and a receiving thread";
                return Err(io::Error::new(io::ErrorKind::Unsupported, why));
            }
        })
    }

    /// What must be true before the receiver says that it sleeps.
    pub(crate) fn arm(&mut self) -> io::Result<()> {
        match self {
            Bell::Signal(bell) => bell.arm(),
            _ => Ok(()),
        }
    }

    /// Wakes the other end.
    pub(crate) fn ring(&mut self) -> io::Result<()> {
        match self {
            Bell::Eventfd(bell) => bell.ring(),
            Bell::Posix(bell) => bell.ring(),
            Bell::SystemV(bell) => bell.ring(),
            Bell::Signal(bell) => bell.ring(),
            Bell::UringMessage(bell) => bell.ring(),
            Bell::UringFutex(bell) => bell.ring(),
        }
    }

    /// Sleeps until it is rung for, a signal comes, or the time is over; `None`: no limit. May end early.
    pub(crate) fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Bell::Eventfd(bell) => bell.sleep(timeout),
            Bell::Posix(bell) => bell.sleep(timeout),
            Bell::SystemV(bell) => bell.sleep(timeout),
            Bell::Signal(bell) => bell.sleep(timeout),
            Bell::UringMessage(bell) => bell.sleep(timeout),
            Bell::UringFutex(bell) => bell.sleep(timeout),
        }
    }
}

/// What is shared by the bells of one end: that of the direction in which it sends, and that of the other.
type Places = [Place; 2];

/// A sleep that ended without its bell is over all the same.
fn early(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::ETIMEDOUT | libc::ETIME)) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// A time as the kernel takes it.
fn timespec(time: Duration) -> libc::timespec {
    libc::timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos() as _ }
}

#[cfg(all(test, not(miri)))]
#[allow(clippy::print_stdout)]
mod tests {
    use super::*;
    use std::time::Instant;

    const KINDS: [Kind; 7] =
        [Kind::Eventfd, Kind::Posix, Kind::SystemV, Kind::Signal, Kind::Signalfd, Kind::UringMessage, Kind::UringFutex];

    /// Both ends of a ring with bells; nothing where they cannot be had here.
    fn pair(kind: Kind) -> Option<[Ring; 2]> {
        let own = Some(std::process::id() as i32);
        let (fd, mut near) = Ring::create(64, 4, true).unwrap();
        let mut far = Ring::attach(&fd, true).unwrap();
        let (mut bell, fds) = match Bell::create(kind, &near, own) {
            Ok(made) => made,
            Err(error) => {
                println!("skipped: {kind:?}: {error}");
                return None;
            }
        };
        let other = Bell::attach(kind, &far, own, fds).unwrap();
        bell.meet().unwrap();
        near.hang(bell);
        far.hang(other);
        Some([near, far])
    }

    /// Receives one message, asleep where none is there.
    fn receive(ring: &mut Ring, buffer: &mut [u8]) -> usize {
        let begun = Instant::now();
        loop {
            if let Some(received) = ring.try_recv(buffer).unwrap() {
                return received;
            }
            ring.sleep_at_bell(None).unwrap();
            assert!(begun.elapsed() < Duration::from_secs(60), "never woken");
        }
    }

    #[test]
    fn every_bell_wakes_both_ways() {
        for kind in KINDS {
            let Some([mut near, mut far]) = pair(kind) else { continue };
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let mut buffer = [0; 64];
                    for n in 0..200 {
                        assert_eq!((receive(&mut far, &mut buffer), buffer[0]), (8, n), "{kind:?}");
                        assert!(far.try_send(&buffer[..8]).unwrap());
                    }
                });
                let mut buffer = [0; 64];
                for n in 0..200 {
                    assert!(near.try_send(&[n; 8]).unwrap());
                    assert_eq!((receive(&mut near, &mut buffer), buffer[..8].to_vec()), (8, vec![n; 8]), "{kind:?}");
                }
            });
        }
    }

    #[test]
    fn a_sleep_ends_in_time_and_a_late_bell_does_no_harm() {
        for kind in KINDS {
            let Some([mut near, mut far]) = pair(kind) else { continue };
            // The sleeper gives up and stays marked as asleep: it is rung for, and nobody hears it.
            far.sleep_at_bell(Some(Duration::from_millis(5))).unwrap();
            assert!(near.try_send(&[1]).unwrap());
            let mut buffer = [0; 64];
            assert_eq!(receive(&mut far, &mut buffer), 1);
            let begun = Instant::now();
            for _ in 0..3 {
                far.sleep_at_bell(Some(Duration::from_millis(5))).unwrap();
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{kind:?}");
            assert!(near.try_send(&[2]).unwrap());
            assert_eq!((receive(&mut far, &mut buffer), buffer[0]), (1, 2), "{kind:?}");
        }
    }

    #[test]
    fn semaphores_of_system_v_are_removed_with_either_end() {
        let Some([near, far]) = pair(Kind::SystemV) else { return };
        let id = near.places()[0].word().load(std::sync::atomic::Ordering::Relaxed).to_string();
        let mine = || {
            let listed = std::fs::read_to_string("/proc/sysvipc/sem").unwrap();
            listed.lines().filter(|line| line.split_whitespace().nth(1) == Some(id.as_str())).count()
        };
        assert_eq!(mine(), 1);
        drop(far);
        assert_eq!(mine(), 0);
    }
}
