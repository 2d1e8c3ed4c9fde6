//! io_uring: one send or receive at a time, and zero-copy sends with their notifications.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};

use crate::schedstat::CpuTime;

/// IORING_SEND_ZC_REPORT_USAGE: the notification says whether the kernel copied.
const REPORT_USAGE: u16 = 1 << 3;
/// IORING_NOTIF_USAGE_ZC_COPIED in the result of a notification.
const COPIED: u32 = 1 << 31;
/// Completions of this operation are answered inside the call that made it.
const SYNCHRONOUS: u64 = u64::MAX;
const CANCEL: u64 = u64::MAX - 1;
/// A polling thread of the kernel without work for so long sleeps until it is woken, ms. It spins until then also where its
/// ring is closed and not yet taken down.
const IDLE_MS: u32 = 20;
/// Looks for the name that such a thread gives itself; one every ms.
const LOOKS: usize = 100;

/// A notification of a zero-copy send: its buffer may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The token of the send.
    pub token: u64,
    /// The kernel copied after all.
    pub copied: bool,
}

/// A ring of the calling thread.
pub struct Uring {
    ring: IoUring,
    enters: u64,
    /// Notifications that arrived while something else was waited for. Preallocated.
    notifications: Vec<Notification>,
    /// What the kernel's polling thread has used, where there is one.
    poller: Option<CpuTime>,
}

impl Uring {
    /// A ring with `entries` entries; with single-issuer and deferred task work where the kernel has them (6.1).
    ///
    /// # Errors
    /// `EPERM` or `ENOSYS`: switched off (`kernel.io_uring_disabled`), a seccomp filter, or an old kernel.
    pub fn new(entries: u32) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(entries)
            .or_else(|_| IoUring::new(entries))?;
        Ok(Self::of(ring, entries, None))
    }

    /// A ring whose submission queue a thread of the kernel polls (IORING_SETUP_SQPOLL).
    ///
    /// # Errors
    /// As [`Uring::new`]; or that thread cannot be found, so that its CPU time would be in nobody's account.
    pub fn polled(entries: u32) -> io::Result<Self> {
        let ring = IoUring::builder().setup_sqpoll(IDLE_MS).build(entries)?;
        let poller = poller(ring.as_raw_fd())?;
        Ok(Self::of(ring, entries, Some(poller)))
    }

    fn of(ring: IoUring, entries: u32, poller: Option<CpuTime>) -> Self {
        Self { ring, enters: 0, notifications: Vec::with_capacity(entries as usize * 2), poller }
    }

    /// CPU time of the kernel's polling thread so far, ns; 0 without one.
    pub fn polled_ns(&self) -> u64 {
        self.poller.as_ref().and_then(|poller| poller.ns().ok()).unwrap_or(0)
    }

    /// Registers a descriptor, once: [`Uring::read_registered`] spares the kernel from looking it up.
    ///
    /// # Errors
    /// As the manual page of io_uring_register.
    pub fn register(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.ring.submitter().register_files(&[fd.as_raw_fd()])
    }

    /// Whether this kernel knows the zero-copy send.
    ///
    /// # Errors
    /// As the manual page of io_uring_register.
    pub fn has_send_zc(&self) -> io::Result<bool> {
        let mut probe = Probe::new();
        self.ring.submitter().register_probe(&mut probe)?;
        Ok(probe.is_supported(opcode::SendZc::CODE))
    }

    /// Calls of io_uring_enter so far.
    pub fn enters(&self) -> u64 {
        self.enters
    }

    /// IORING_OP_SEND, waited for.
    ///
    /// # Errors
    /// As send(2).
    #[inline]
    pub fn send(&mut self, fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        let entry =
            opcode::Send::new(Fd(fd.as_raw_fd()), bytes.as_ptr(), bytes.len() as u32).flags(libc::MSG_NOSIGNAL).build();
        self.call(entry, None)
    }

    /// IORING_OP_WRITE, waited for.
    ///
    /// # Errors
    /// As write(2).
    #[inline]
    pub fn write(&mut self, fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        let entry = opcode::Write::new(Fd(fd.as_raw_fd()), bytes.as_ptr(), bytes.len() as u32).build();
        self.call(entry, None)
    }

    /// IORING_OP_RECV, waited for; `WouldBlock` when `timeout` is over, if there is one.
    ///
    /// # Errors
    /// As recv(2).
    #[inline]
    pub fn recv(&mut self, fd: BorrowedFd<'_>, bytes: &mut [u8], timeout: Option<Duration>) -> io::Result<usize> {
        let entry = opcode::Recv::new(Fd(fd.as_raw_fd()), bytes.as_mut_ptr(), bytes.len() as u32).build();
        self.call(entry, timeout)
    }

    /// IORING_OP_READ, waited for; `WouldBlock` when `timeout` is over, if there is one.
    ///
    /// # Errors
    /// As read(2).
    #[inline]
    pub fn read(&mut self, fd: BorrowedFd<'_>, bytes: &mut [u8], timeout: Option<Duration>) -> io::Result<usize> {
        let entry = opcode::Read::new(Fd(fd.as_raw_fd()), bytes.as_mut_ptr(), bytes.len() as u32).build();
        self.call(entry, timeout)
    }

    /// [`Uring::read`] from the descriptor of [`Uring::register`] (IOSQE_FIXED_FILE).
    ///
    /// # Errors
    /// As read(2); `EBADF` where none is registered.
    #[inline]
    pub fn read_registered(&mut self, bytes: &mut [u8], timeout: Option<Duration>) -> io::Result<usize> {
        let entry = opcode::Read::new(Fixed(0), bytes.as_mut_ptr(), bytes.len() as u32).build();
        self.call(entry, timeout)
    }

    /// IORING_OP_SEND_ZC: returns when the send has its result; the buffer stays the kernel's until the notification
    /// with `token` (at most `u64::MAX - 2`). The second value says whether a notification will come.
    ///
    /// # Errors
    /// As send(2).
    #[inline]
    pub fn send_zc(&mut self, fd: BorrowedFd<'_>, bytes: &[u8], token: u64) -> io::Result<(usize, bool)> {
        let entry = opcode::SendZc::new(Fd(fd.as_raw_fd()), bytes.as_ptr(), bytes.len() as u32)
            .flags(libc::MSG_NOSIGNAL)
            .zc_flags(REPORT_USAGE)
            .build()
            .user_data(token);
        self.push(entry);
        loop {
            self.enter()?;
            while let Some(completion) = self.ring.completion().next() {
                if completion.user_data() == token && !cqueue::notif(completion.flags()) {
                    let more = cqueue::more(completion.flags());
                    return result(completion.result()).map(|sent| (sent, more));
                }
                note(&mut self.notifications, &completion);
            }
        }
    }

    /// Hands every notification that has arrived to `each`; waits for one first when `wait` is given and none is there.
    ///
    /// # Errors
    /// As io_uring_enter(2), without the end of the time.
    pub fn notifications(&mut self, wait: Option<Duration>, mut each: impl FnMut(Notification)) -> io::Result<()> {
        for completion in self.ring.completion() {
            note(&mut self.notifications, &completion);
        }
        // Deferred task work posts completions only inside io_uring_enter.
        if self.notifications.is_empty() {
            self.enter_until(wait.unwrap_or(Duration::ZERO))?;
            for completion in self.ring.completion() {
                note(&mut self.notifications, &completion);
            }
        }
        self.notifications.drain(..).for_each(&mut each);
        Ok(())
    }

    /// Submits what is queued and waits for a completion. A signal (or another ring's task work) may end the wait
    /// early; the operation is still the kernel's then, so the caller must look for its completion and enter again.
    #[inline]
    fn enter(&mut self) -> io::Result<()> {
        self.enters += 1;
        match self.ring.submit_and_wait(1) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    fn enter_until(&mut self, timeout: Duration) -> io::Result<bool> {
        let time = Timespec::from(timeout);
        self.enters += 1;
        match self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time)) {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    #[inline(always)]
    fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: the buffers the entry points to are borrowed by the caller until the operation has completed (all
        // but the zero-copy send, whose pages the kernel pins itself). There is room: every entry is entered at once, and
        // a polling thread has taken the one before, since its completion was waited for (a cancellation comes beside it).
        unsafe { self.ring.submission().push(&entry) }.expect("the submission queue has room");
    }

    /// Submits one operation and waits for its completion, so that no operation outlives its buffer.
    #[inline]
    fn call(&mut self, entry: squeue::Entry, timeout: Option<Duration>) -> io::Result<usize> {
        self.push(entry.user_data(SYNCHRONOUS));
        let mut cancelled = false;
        loop {
            let in_time = match timeout {
                Some(timeout) if !cancelled => self.enter_until(timeout)?,
                _ => {
                    self.enter()?;
                    true
                }
            };
            while let Some(completion) = self.ring.completion().next() {
                match completion.user_data() {
                    SYNCHRONOUS => {
                        return match completion.result() {
                            code if code == -libc::ECANCELED || code == -libc::EINTR => {
                                Err(io::Error::from(io::ErrorKind::WouldBlock))
                            }
                            code => result(code),
                        };
                    }
                    CANCEL => {}
                    _ => note(&mut self.notifications, &completion),
                }
            }
            if !in_time && !cancelled {
                cancelled = true;
                let cancel = opcode::AsyncCancel2::new(CancelBuilder::user_data(SYNCHRONOUS)).build();
                self.push(cancel.user_data(CANCEL));
            }
        }
    }
}

/// The CPU time of the thread that polls for a ring. Its id stands in the ring's fdinfo (io_uring(7)), numbered as outside of all PID
/// namespaces; it has named itself after its ring before it works.
fn poller(ring: i32) -> io::Result<CpuTime> {
    for _ in 0..LOOKS {
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{ring}"))?;
        let id = text.lines().find_map(|line| line.strip_prefix("SqThread:")?.trim().parse::<u32>().ok());
        let name = |id: u32| std::fs::read_to_string(format!("/proc/self/task/{id}/comm")).unwrap_or_default();
        if let Some(id) = id.filter(|id| name(*id).starts_with("iou-sqp-")) {
            return CpuTime::of_thread(id);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(io::Error::other(
        "the kernel's polling thread is not in /proc/self/task: its CPU time would be in nobody's account",
    ))
}

fn result(code: i32) -> io::Result<usize> {
    usize::try_from(code).map_err(|_| io::Error::from_raw_os_error(-code))
}

fn note(notifications: &mut Vec<Notification>, completion: &cqueue::Entry) {
    if cqueue::notif(completion.flags()) && completion.user_data() < CANCEL {
        let copied = completion.result() as u32 & COPIED != 0;
        notifications.push(Notification { token: completion.user_data(), copied });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn bytes_cross_and_an_empty_receive_ends_in_time() {
        let Ok(mut ring) = Uring::new(8) else { return println!("skipped: no io_uring here") };
        let (near, far) = pair();
        let mut buffer = [0; 16];
        let early = ring.recv(far.as_fd(), &mut buffer, Some(Duration::from_millis(20)));
        assert_eq!(early.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(ring.send(near.as_fd(), b"abc").unwrap(), 3);
        assert_eq!(ring.recv(far.as_fd(), &mut buffer, Some(Duration::from_secs(1))).unwrap(), 3);
        assert_eq!(&buffer[..3], b"abc");
    }

    #[test]
    fn a_registered_descriptor_and_a_polled_queue_receive_as_well() {
        let (near, far) = pair();
        let mut buffer = [0; 16];
        let slice = Some(Duration::from_millis(20));
        let Ok(mut ring) = Uring::new(8) else { return println!("skipped: no io_uring here") };
        assert!(ring.read_registered(&mut buffer, slice).is_err());
        ring.register(far.as_fd()).unwrap();
        assert_eq!(ring.read_registered(&mut buffer, slice).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        ring.write(near.as_fd(), b"abc").unwrap();
        assert_eq!((ring.read_registered(&mut buffer, slice).unwrap(), ring.polled_ns()), (3, 0));
        let mut ring = match Uring::polled(8) {
            Ok(ring) => ring,
            Err(error) => return println!("skipped: {error}"),
        };
        for _ in 0..50 {
            assert_eq!(ring.write(near.as_fd(), b"abcd").unwrap(), 4);
            let wait = Some(Duration::from_secs(10));
            assert_eq!(ring.read(far.as_fd(), &mut buffer, wait).unwrap(), 4);
        }
        assert_eq!(ring.read(far.as_fd(), &mut buffer, slice).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(ring.polled_ns() > 0, "the polling thread has used CPU time");
    }

    #[test]
    fn every_zero_copy_send_is_notified() {
        let Ok(mut ring) = Uring::new(16) else { return println!("skipped: no io_uring here") };
        if !ring.has_send_zc().unwrap_or(false) {
            return println!("skipped: no IORING_OP_SEND_ZC here");
        }
        let (near, far) = pair();
        let message = vec![3; 8192];
        let mut open = 0;
        for token in 0..10 {
            let (sent, notified) = ring.send_zc(near.as_fd(), &message, token).unwrap();
            open += u64::from(notified);
            std::io::Read::read_exact(&mut &far, &mut vec![0; sent]).unwrap();
        }
        let mut answered = 0;
        for _ in 0..100 {
            ring.notifications(Some(Duration::from_millis(50)), |_| answered += 1).unwrap();
            if answered == open {
                return;
            }
        }
        panic!("{answered} of {open} notifications");
    }
}
