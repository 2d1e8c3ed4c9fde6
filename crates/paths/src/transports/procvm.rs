//! Memory of another process: the receiver reads the message from where the sender has it. Rings in shared memory say where that is;
//! the near end makes them and passes them over a Unix socket.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use msgpath_core::plan::ChannelOptions;
use msgpath_core::schema::Granted;
use msgpath_core::{CallCounts, Unavailable};
use msgpath_sys::others_memory;
use msgpath_sys::ring::Ring;
use msgpath_sys::socket::peer_process;
use rustix::net::SocketType;

use super::{Listening, connect_local, hear, pass, take, tell};
use crate::channel::{AnyChannel, Channel, Limits, Looks, grant};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta, Wakes};
use crate::transport::{Need, Offer, Transport};

pub struct ProcessMemory;

/// Largest message: a sender keeps as many as the ring can announce, and two more.
const MAX_MESSAGE: u64 = 64 << 20;
/// Bytes that a stream may be ahead, as those of a pipe.
const STREAM: u64 = 64 << 10;
/// Bytes by which a message is announced: where it begins and how long it is.
const NOTE: usize = 16;
/// Bytes of a direction of a ring, as few as it can have: slots are made larger where fewer of them are wanted.
const RING: u64 = 8 << 10;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "procvm",
        summary: "the receiver reads the message from the sender's memory (process_vm_readv), told where by a ring in shared memory",
        manual: "One copy, by the kernel, from the memory of one process into that of the other (CMA, as MPI libraries use it for \
                 large messages). The sender's memory is lent until the receiver has read it (W21). Who sleeps is woken by \
                 futex. Needs ptrace access to the other end: the same user; where Yama limits it, msgpath lets the other end \
                 in (PR_SET_PTRACER).",
    },
    family: Family::Process,
    framed: true,
    lossy: false,
    inet: false,
    device: false,
    connects: false,
    segments: false,
    stack: Stack::Memory,
    headers: &[],
    copies: Copies::Once,
    default_method: "fetch",
    default_wait: "futex",
};

/// One end: what says where messages are, and the process in which they are.
pub struct ProcessEnd {
    ring: Ring,
    process: i32,
    counts: CallCounts,
    limits: Limits,
}

impl ProcessEnd {
    /// Of a ring that both ends have, with the process at the other end of this socket.
    fn new(ring: Ring, socket: &OwnedFd, need: &Need) -> io::Result<Self> {
        let unknown = || io::Error::new(io::ErrorKind::Unsupported, "the other end is in another process namespace");
        let process = peer_process(socket.as_fd()).ok_or_else(unknown)?;
        others_memory::let_in(process);
        Ok(Self { ring, process, counts: CallCounts::default(), limits: need.limits.clone() })
    }

    /// The same end once more, for a second thread.
    ///
    /// # Errors
    /// As [`Ring::duplicate`].
    pub fn duplicate(&self) -> io::Result<Self> {
        let (ring, limits) = (self.ring.duplicate()?, self.limits.clone());
        Ok(Self { ring, process: self.process, counts: CallCounts::default(), limits })
    }

    /// What says where messages are.
    #[inline(always)]
    pub fn ring(&mut self) -> &mut Ring {
        &mut self.ring
    }

    /// What announces a message.
    #[inline(always)]
    pub fn note(message: &[u8]) -> [u8; NOTE] {
        let mut note = [0; NOTE];
        let (address, length) = note.split_at_mut(NOTE / 2);
        address.copy_from_slice(&(message.as_ptr().addr() as u64).to_le_bytes());
        length.copy_from_slice(&(message.len() as u64).to_le_bytes());
        note
    }

    /// Reads what a note announces. The other end may write nonsense: it is memory of its own that is read, and no more than there
    /// is room for.
    #[inline(always)]
    fn fetch(&mut self, note: [u8; NOTE], buffer: &mut [u8]) -> io::Result<usize> {
        let number = |at: usize| u64::from_le_bytes(note[8 * at..][..8].try_into().expect("eight bytes"));
        let buffer = usize::try_from(number(1)).ok().and_then(|length| buffer.get_mut(..length));
        let longer = || io::Error::new(io::ErrorKind::InvalidData, "a message longer than expected");
        let buffer = buffer.ok_or_else(longer)?;
        self.counts.recv_calls += 1;
        others_memory::read(self.process, number(0), buffer)?;
        self.ring.note_read();
        Ok(buffer.len())
    }
}

impl Channel for ProcessEnd {
    #[inline(always)]
    fn counts(&mut self) -> &mut CallCounts {
        &mut self.counts
    }
    fn settle_counts(&mut self) {
        (self.counts.send_calls, self.counts.wait_calls) = self.ring.wake_calls();
    }
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn framed(&self) -> bool {
        true
    }
    fn room(&self) -> Option<u64> {
        None
    }
    fn granted(&self, end: &str, _: &ChannelOptions) -> Vec<Granted> {
        vec![grant(end, "messages that may be lent", None, self.ring.slots().to_string())]
    }
}

impl Looks for ProcessEnd {
    fn wakes(&self) -> bool {
        self.ring.notifies()
    }
    #[inline(always)]
    fn look(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut note = [0; NOTE];
        match self.ring.try_recv(&mut note)? {
            None => Ok(None),
            Some(NOTE) => self.fetch(note, buffer).map(Some),
            Some(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "the other end announced no message")),
        }
    }
    fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.ring.sleep_for_message(timeout)
    }
}

/// The far end of a ring that comes over a Unix socket. It tries to read what it knows already, from where the near end has it.
fn far(socket: OwnedFd, need: &Need) -> io::Result<AnyChannel> {
    let [fd] = take::<1>(&socket, &need.limits)?;
    let [address] = hear(&socket, &need.limits)?;
    let end = ProcessEnd::new(Ring::attach(&fd, need.wakes != Wakes::Nobody)?, &socket, need)?;
    others_memory::read(end.process, address, &mut [0; NOTE]).map_err(|error| {
        let what =
            format!("memory of the other end cannot be read: {error} (the same user, CAP_SYS_PTRACE, no Landlock)");
        io::Error::new(error.kind(), what)
    })?;
    Ok(AnyChannel::Process(end))
}

impl Transport for ProcessMemory {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn max_message(&self) -> Option<u64> {
        Some(MAX_MESSAGE)
    }

    fn refused(&self, error: &io::Error) -> Unavailable {
        match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::NOSYS) => {
                Unavailable::new("this kernel has no process_vm_readv()", "a kernel with CONFIG_CROSS_MEMORY_ATTACH")
            }
            _ => Unavailable::new(error.to_string(), ""),
        }
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        Ok(Box::new(Listening::local(SocketType::STREAM, need, far)?))
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        let socket = connect_local(address, SocketType::STREAM)?;
        let least = if need.stream { (STREAM / need.largest.max(128)).max(2) } else { 4 };
        let messages = u64::from(need.inflight).max(least).next_power_of_two();
        let slot = (RING / messages).saturating_sub(8).max(NOTE as u64);
        let (fd, ring) = Ring::create(slot as usize, messages as usize, need.wakes != Wakes::Nobody)?;
        let end = ProcessEnd::new(ring, &socket, need)?;
        pass(&socket, &[fd.as_fd()])?;
        tell(&socket, [end.ring.address()])?;
        Ok((AnyChannel::Process(end), String::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_read_as_it_is_then_and_nonsense_is_refused() {
        if let Err(reason) = ProcessMemory.probe() {
            return println!("skipped: {reason}");
        }
        let [AnyChannel::Process(mut near), AnyChannel::Process(mut far)] = ProcessMemory.connects_here().unwrap()
        else {
            panic!("another channel")
        };
        let mut message = vec![b'A'; 64];
        assert!(near.ring().try_send(&ProcessEnd::note(&message)).unwrap());
        assert_eq!(near.ring().unread(), 1);
        message.fill(b'B');
        let mut buffer = [0; 64];
        assert_eq!(far.look(&mut buffer).unwrap(), Some(64));
        assert_eq!((buffer[63], near.ring().unread()), (b'B', 0));
        assert_eq!(far.look(&mut buffer).unwrap(), None);
        // Longer than there is room, nobody's memory, no note.
        assert!(near.ring().try_send(&ProcessEnd::note(&[0; 65])).unwrap());
        assert_eq!(far.look(&mut buffer).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let mut nowhere = ProcessEnd::note(&message);
        nowhere[..8].copy_from_slice(&8_u64.to_le_bytes());
        assert!(near.ring().try_send(&nowhere).unwrap() && far.look(&mut buffer).is_err());
        assert!(near.ring().try_send(&[1]).unwrap());
        assert_eq!(far.look(&mut buffer).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
