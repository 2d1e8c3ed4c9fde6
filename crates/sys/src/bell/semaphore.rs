//! Bells of semaphores: of POSIX, which lie in the shared memory, and of System V, which lie in the kernel.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Places, early, timespec};
use crate::ring::{PLACE, Place};
use crate::{check, check_int};

/// The POSIX semaphore that an end posts and the one that it waits for.
pub struct Posix {
    rung: Place,
    slept_at: Place,
}

const _: () = assert!(size_of::<libc::sem_t>() <= PLACE && align_of::<libc::sem_t>() <= PLACE);

impl Posix {
    pub(super) fn create(places: Places) -> io::Result<Self> {
        let [rung, slept_at] = places;
        for place in [&rung, &slept_at] {
            // SAFETY: the place has room for a sem_t and is aligned for it; nobody uses it yet.
            check_int(unsafe { libc::sem_init(place.room().cast(), 1, 0) })?;
        }
        Ok(Self { rung, slept_at })
    }

    pub(super) fn attach(places: Places) -> Self {
        let [rung, slept_at] = places;
        Self { rung, slept_at }
    }

    pub(super) fn duplicate(&self) -> Self {
        Self { rung: self.rung.clone(), slept_at: self.slept_at.clone() }
    }

    pub(super) fn ring(&self) -> io::Result<()> {
        // SAFETY: a semaphore for several processes, initialised by the end that made the ring; its memory is kept by the place.
        // A hostile peer may write there: then the count is wrong, and nothing else.
        check_int(unsafe { libc::sem_post(self.rung.room().cast()) }).map(drop)
    }

    pub(super) fn sleep(&self, timeout: Option<Duration>) -> io::Result<()> {
        let semaphore = self.slept_at.room().cast();
        let Some(timeout) = timeout else {
            // SAFETY: as in `ring`.
            return early(check_int(unsafe { libc::sem_wait(semaphore) }).map(drop));
        };
        let mut now = timespec(Duration::ZERO);
        // SAFETY: `now` is valid to write to.
        check_int(unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut now) })?;
        let until = timespec(Duration::new(now.tv_sec as u64, now.tv_nsec as u32) + timeout);
        // SAFETY: as in `ring`; `until` is a valid time.
        early(check_int(unsafe { libc::sem_timedwait(semaphore, &until) }).map(drop))
    }
}

/// A set of two System V semaphores: the one that an end raises and the one that it lowers. The kernel keeps the set until it is
/// removed: either end does when it ends.
pub struct SystemV {
    id: libc::c_int,
    rung: u16,
    slept_at: u16,
    removes: bool,
}

impl SystemV {
    pub(super) fn create([rung, slept_at]: Places) -> io::Result<Self> {
        // SAFETY: no pointers.
        let id = check_int(unsafe { libc::semget(libc::IPC_PRIVATE, 2, libc::IPC_CREAT | 0o600) })?;
        let bell = Self { id, rung: rung.direction(), slept_at: slept_at.direction(), removes: true };
        [rung, slept_at].iter().for_each(|place| place.word().store(id as u32, Ordering::Release));
        Ok(bell)
    }

    /// The set whose number the other end has written: one of the same user, who could use it without this as well.
    pub(super) fn attach([rung, slept_at]: Places) -> Self {
        let id = rung.word().load(Ordering::Acquire) as libc::c_int;
        Self { id, rung: rung.direction(), slept_at: slept_at.direction(), removes: true }
    }

    pub(super) fn duplicate(&self) -> Self {
        let Self { id, rung, slept_at, .. } = *self;
        Self { id, rung, slept_at, removes: false }
    }

    pub(super) fn ring(&self) -> io::Result<()> {
        self.operate(self.rung, 1, None)
    }

    pub(super) fn sleep(&self, timeout: Option<Duration>) -> io::Result<()> {
        early(self.operate(self.slept_at, -1, timeout))
    }

    fn operate(&self, number: u16, change: i16, timeout: Option<Duration>) -> io::Result<()> {
        let mut operation = libc::sembuf { sem_num: number, sem_op: change, sem_flg: 0 };
        let result = match timeout.map(timespec) {
            // SAFETY: one operation, valid for the call.
            None => check_int(unsafe { libc::semop(self.id, &mut operation, 1) }).map(drop),
            Some(time) => {
                let (operation, one) = (&raw mut operation, 1_usize);
                // SAFETY: one operation and a time, both valid for the call.
                let result = unsafe { libc::syscall(libc::SYS_semtimedop, self.id, operation, one, &raw const time) };
                check(result as libc::ssize_t).map(drop)
            }
        };
        result.map_err(|error| match error.raw_os_error() {
            Some(libc::EIDRM | libc::EINVAL) => io::Error::new(io::ErrorKind::BrokenPipe, "the other end has ended"),
            _ => error,
        })
    }
}

impl Drop for SystemV {
    fn drop(&mut self) {
        if self.removes {
            // SAFETY: no pointers. The other end may have been first; numbers are not used again soon (semget(2)).
            unsafe { libc::semctl(self.id, 0, libc::IPC_RMID) };
        }
    }
}
