//! Two System V message queues. The near end makes them and says their numbers over a Unix socket, which both ends keep: it tells
//! each of them whether the other is still there, and whoever is last removes both queues.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use msgpath_core::plan::ChannelOptions;
use msgpath_core::schema::Granted;
use msgpath_core::{CallCounts, Unavailable};
use msgpath_sys::scatter::Scatter;
use msgpath_sys::sysvmsg::{HEAD, Queue};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags, SocketType};

use super::{Listening, connect_local, hear, proc_number, tell};
use crate::channel::{AnyChannel, Channel, Limits, Receive, grant};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

pub struct SysvMessages;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "sysvmsg",
        summary: "two System V message queues, one for each direction",
        manual: "msgsnd() and msgrcv(): message boundaries are preserved, no descriptor stands for a queue, so there is no poll() and \
                 no time limit. A message has a type before it, so msgpath copies what it receives once more, out of \
                 that buffer. The kernel limits a message (kernel.msgmax, 8192 bytes by default), the bytes of a queue (kernel.msgmnb) \
                 and the queues (kernel.msgmni), and keeps queues until they are removed: the end that ends last removes \
                 both, and only a SIGKILL for both at once leaves them behind (ipcs -q shows them).",
    },
    family: Family::SystemV,
    framed: true,
    lossy: false,
    inet: false,
    device: false,
    connects: false,
    segments: false,
    stack: Stack::Plain,
    headers: &[],
    copies: Copies::Kernel,
    default_method: "send",
    default_wait: "block",
};

/// The queue from which an end receives and that to which it sends, and who removes them.
pub struct SysvQueues {
    read: Queue,
    write: Queue,
    inbox: Vec<u8>,
    owner: Option<Owner>,
    counts: CallCounts,
    limits: Limits,
}

/// What removes the queues: not a second end of the same thread's.
struct Owner {
    /// To the other end, which closes it when it ends, however it ends.
    socket: OwnedFd,
    /// The other end has the numbers: it will remove what is its own.
    taken: bool,
}

impl Owner {
    /// Whether the other end is there, and has what it needs to remove a queue.
    fn has_other(&mut self) -> bool {
        // One byte at most was said: that the numbers were heard.
        for _ in 0..2 {
            match net::recv(&self.socket, &mut [0_u8; 1], RecvFlags::DONTWAIT) {
                Ok((1.., _)) => self.taken = true,
                Err(Errno::AGAIN | Errno::INTR) => return self.taken,
                // Closed, or reset where it was killed before it read what was said.
                Ok((0, _)) | Err(_) => return false,
            }
        }
        self.taken
    }
}

impl SysvQueues {
    fn new([read, write]: [Queue; 2], owner: Option<Owner>, largest: u64, limits: Limits) -> Self {
        let inbox = vec![0; HEAD + largest as usize];
        Self { read, write, inbox, owner, counts: CallCounts::default(), limits }
    }

    pub fn both(&self) -> [Queue; 2] {
        [self.read, self.write]
    }

    /// The same end once more, for a second thread. The first one removes the queues.
    pub fn duplicate(&self) -> Self {
        Self::new(self.both(), None, (self.inbox.len() - HEAD) as u64, self.limits.clone())
    }

    /// Sends a message that has the head of one.
    ///
    /// # Errors
    /// As [`Queue::send`].
    #[inline(always)]
    pub fn send(&self, message: &Scatter) -> io::Result<()> {
        self.write.send(message)
    }

    #[inline(always)]
    fn receive(&mut self, buffer: &mut [u8], wait: bool) -> io::Result<usize> {
        let got = self.read.receive(&mut self.inbox, wait)?;
        let Some(buffer) = buffer.get_mut(..got) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message longer than expected"));
        };
        buffer.copy_from_slice(&self.inbox[HEAD..][..got]);
        Ok(got)
    }
}

impl Drop for SysvQueues {
    fn drop(&mut self) {
        let Some(owner) = &mut self.owner else { return };
        self.read.remove();
        // What was sent may not be received yet: the other end removes that queue.
        match owner.has_other() {
            true => self.write.end(),
            false => self.write.remove(),
        }
    }
}

impl Channel for SysvQueues {
    #[inline(always)]
    fn counts(&mut self) -> &mut CallCounts {
        &mut self.counts
    }
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn framed(&self) -> bool {
        true
    }
    fn room(&self) -> Option<u64> {
        self.write.room().ok()
    }
    fn granted(&self, end: &str, _: &ChannelOptions) -> Vec<Granted> {
        self.room().map(|bytes| grant(end, "msg_qbytes", None, bytes.to_string())).into_iter().collect()
    }
}

impl Receive for SysvQueues {
    fn never_block(&mut self) -> io::Result<()> {
        Ok(()) // IPC_NOWAIT in recv_now; sending keeps blocking
    }
    #[inline(always)]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive(buffer, true)
    }
    #[inline(always)]
    fn recv_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive(buffer, false)
    }
}

/// Numbers of queues mean something in one IPC namespace only: which this is.
fn namespace() -> io::Result<u64> {
    Ok(std::fs::metadata("/proc/self/ns/ipc")?.ino())
}

/// The far end of queues whose numbers come over a Unix socket.
fn far(socket: OwnedFd, need: &Need) -> io::Result<AnyChannel> {
    let [up, down, place] = hear(&socket, &need.limits)?;
    if place != namespace()? {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the other end is in another IPC namespace"));
    }
    let queues = [up, down].map(|number| Queue::of(number as i32));
    net::send(&socket, &[1], SendFlags::NOSIGNAL)?;
    let owner = Some(Owner { socket, taken: true });
    Ok(AnyChannel::SystemV(SysvQueues::new(queues, owner, need.largest, need.limits.clone())))
}

impl Transport for SysvMessages {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn max_message(&self) -> Option<u64> {
        proc_number("/proc/sys/kernel/msgmax")
    }

    fn refused(&self, error: &io::Error) -> Unavailable {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOSYS) => Unavailable::new("this kernel has no System V IPC", "a kernel with CONFIG_SYSVIPC"),
            Some(Errno::NOSPC) => {
                Unavailable::new("no further System V queue may be made here", "ipcs -q, ipcrm, sysctl kernel.msgmni")
            }
            _ => Unavailable::new(format!("System V queues: {error}"), ""),
        }
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        Ok(Box::new(Listening::local(SocketType::STREAM, need, far)?))
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        let socket = connect_local(address, SocketType::STREAM)?;
        let up = Queue::create()?;
        let down = Queue::create().inspect_err(|_| up.remove())?;
        // From here on they are removed whatever happens.
        let owner = Some(Owner { socket, taken: false });
        let queues = SysvQueues::new([down, up], owner, need.largest, need.limits.clone());
        let socket = &queues.owner.as_ref().expect("its owner").socket;
        tell(socket, [up.number() as u64, down.number() as u64, namespace()?])?;
        Ok((AnyChannel::SystemV(queues), String::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// The ends of a connection and whether their queues are there.
    fn pair() -> Option<(AnyChannel, AnyChannel, impl Fn() -> [bool; 2])> {
        if let Err(reason) = SysvMessages.probe() {
            println!("skipped: {reason}");
            return None;
        }
        let [near, far] = SysvMessages.connects_here().unwrap();
        let AnyChannel::SystemV(queues) = &near else { panic!("another channel") };
        let both = queues.both();
        Some((near, far, move || both.map(|queue| queue.room().is_ok())))
    }

    #[test]
    fn each_end_removes_the_queue_that_it_reads_and_the_last_one_both() {
        let Some((near, far, there)) = pair() else { return };
        assert_eq!(there(), [true, true]);
        drop(near);
        assert_eq!(there(), [false, true], "what was sent may be unread");
        drop(far);
        assert_eq!(there(), [false, false]);
        let Some((near, far, there)) = pair() else { return };
        drop(far);
        assert_eq!(there(), [true, false]);
        drop(near);
        assert_eq!(there(), [false, false]);
    }

    #[test]
    fn an_end_that_is_killed_leaves_nothing_when_the_other_ends() {
        let Some((near, far, there)) = pair() else { return };
        // As the kernel does with a process that is killed: its socket is closed, and nothing else.
        let (AnyChannel::SystemV(mut near), AnyChannel::SystemV(mut far)) = (near, far) else {
            panic!("another channel")
        };
        near.owner = None;
        assert_eq!(there(), [true, true]);
        assert_eq!(far.recv_now(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(far);
        assert_eq!(there(), [false, false]);
    }

    #[test]
    fn queues_that_nobody_takes_are_removed() {
        if SysvMessages.probe().is_err() {
            return;
        }
        let need = Need::local(64);
        let offer = SysvMessages.offer(&need).unwrap();
        let (near, _) = SysvMessages.connect(&offer.addresses()[0], &need).unwrap();
        let AnyChannel::SystemV(queues) = &near else { panic!("another channel") };
        let both = queues.both();
        drop(near);
        assert!(both.iter().all(|queue| queue.room().is_err()));
    }

    #[test]
    fn a_breaker_ends_a_wait_without_a_time_limit() {
        let Some((_near, far, _)) = pair() else { return };
        let breaker = far.breaker().unwrap();
        let AnyChannel::SystemV(mut far) = far else { panic!("another channel") };
        let waiting = std::thread::spawn(move || far.recv(&mut [0; 8]));
        std::thread::sleep(Duration::from_millis(5));
        breaker.shut();
        assert_eq!(waiting.join().unwrap().unwrap(), 0);
    }
}
