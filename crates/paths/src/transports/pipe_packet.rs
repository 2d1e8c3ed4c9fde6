//! Two anonymous pipes in packet mode (O_DIRECT): each write is a packet.

use std::io;

use rustix::pipe::PipeFlags;

use super::pipe;
use crate::channel::AnyChannel;
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

pub struct PacketPipes;

/// PIPE_BUF: a longer write is cut into packets of so many bytes.
const MAX_MESSAGE: u64 = 4096;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "pipe-packet",
        summary: "two anonymous pipes in packet mode: each write is a packet of at most 4096 bytes",
        manual: "As pipe, made with O_DIRECT (pipe(2)): message boundaries are preserved. The kernel cuts a write of more than \
                 4096 bytes into packets without an error, and a read with less room than the packet throws its rest \
                 away: msgpath refuses longer messages and reads with room for the longest. Each packet takes a page of \
                 the pipe, however small it is. Kernel 3.4.",
    },
    family: Family::Pipe,
    framed: true,
    lossy: false,
    inet: false,
    device: false,
    connects: false,
    segments: false,
    stack: Stack::Plain,
    headers: &[],
    copies: Copies::Kernel,
    default_method: "write",
    default_wait: "block",
};

impl Transport for PacketPipes {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn max_message(&self) -> Option<u64> {
        Some(MAX_MESSAGE)
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        pipe::offer(need, PipeFlags::DIRECT)
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        pipe::connect(address, need, PipeFlags::DIRECT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_sys::msg;
    use rustix::pipe::pipe_with;
    use std::os::fd::AsFd;

    #[test]
    fn the_kernel_cuts_what_is_too_long_and_throws_away_what_has_no_room() {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::DIRECT).unwrap();
        assert_eq!(msg::write(writer.as_fd(), &[1; 10_000]).unwrap(), 10_000);
        let mut buffer = [0; 16_384];
        let packets = [0; 3].map(|_: i32| msg::read(reader.as_fd(), &mut buffer).unwrap());
        assert_eq!(packets, [4096, 4096, 1808]);
        for packet in [[2; 100], [3; 100]] {
            assert_eq!(msg::write(writer.as_fd(), &packet).unwrap(), 100);
        }
        assert_eq!((msg::read(reader.as_fd(), &mut buffer[..10]).unwrap(), buffer[9]), (10, 2));
        assert_eq!(
            (msg::read(reader.as_fd(), &mut buffer).unwrap(), buffer[0]),
            (100, 3),
            "the other 90 bytes are gone"
        );
    }
}
