//! `sendfile`: the message lies in a memfd, and its pages go into the socket as they are. As many places in the file in turn as messages
//! can be on their way unread.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::msg;
use msgpath_sys::scatter::Scatter;

use super::hand_over;
use crate::channel::{Channel, Socket};
use crate::end::{Layout, Method, NewMethod};
use crate::meta::{Meta, Part, TransportMeta};

pub struct Sendfile {
    file: OwnedFd,
    message: Scatter,
}

impl Part for Sendfile {
    const META: Meta = Meta {
        name: "sendfile",
        summary: "one sendfile() of a file in memory: its pages go into the socket, the receiver copies them out",
        manual: "The sender copies nothing: the socket holds pages of the file, on this machine until the receiver has copied them. \
                 A file that is changed before that sends what it was changed to, without an error (W21). msgpath writes each \
                 message to another place of a memfd, as many in turn as both socket buffers can hold (-o sndbuf, rcvbuf; else what \
                 tcp_wmem and tcp_rmem let them grow to), where nobody answers; else as many as are in flight.",
    };
    const LENDS: bool = true;

    fn fits(transport: &TransportMeta) -> Result<(), &'static str> {
        if ["tcp", "unix"].contains(&transport.meta.name) {
            Ok(())
        } else {
            Err("sendfile() needs a byte stream over a socket: TCP or Unix")
        }
    }
}

/// Bytes that both sockets may hold beyond their buffers: the packets that fill them.
const BEYOND: u64 = 256 << 10;
/// Bytes of a buffer that a message takes at least: a packet of at most 45 pages has its book-keeping.
const LEAST: u64 = 16;
/// Most places of a file. More are for messages that are small beside what both sockets may hold.
const MOST: u64 = 1 << 17;

/// The largest buffer of a TCP socket: twice what was asked for, which the kernel does not let grow; else the last number of the file.
fn largest(asked: Option<u64>, file: &str) -> Option<u64> {
    let usual = || std::fs::read_to_string(file).ok()?.split_whitespace().last()?.parse().ok();
    asked.map(|bytes| bytes.saturating_mul(2)).or_else(usual)
}

/// Bytes that can be on their way unread over TCP, as far as it is known: what the buffers of both ends hold.
pub fn most_unread(options: &ChannelOptions) -> Option<u64> {
    let sent = largest(options.send_buffer, "/proc/sys/net/ipv4/tcp_wmem")?;
    let received = largest(options.receive_buffer, "/proc/sys/net/ipv4/tcp_rmem")?;
    Some(sent.saturating_add(received).saturating_add(BEYOND))
}

/// The same for this socket: a Unix one queues at its peer what its own buffer accounts for.
fn unread(channel: &Socket, options: &ChannelOptions) -> Option<u64> {
    match channel.tcp_info() {
        Some(_) => most_unread(options),
        None => Some(2 * channel.room()? + BEYOND),
    }
}

impl NewMethod<Socket> for Sendfile {
    fn new(channel: &mut Socket, layout: Layout, options: &ChannelOptions) -> Result<Self, Unavailable> {
        let unknown = || Unavailable::new("how much both sockets hold is not known", "-o sndbuf=256K,rcvbuf=256K");
        let layout = layout.lent(unread(channel, options).ok_or_else(unknown)? / layout.pieces.total().max(LEAST) + 2);
        let smaller = "-o sndbuf=256K,rcvbuf=256K, or larger messages";
        if layout.copies as u64 > MOST {
            let why = format!("{} messages may be on their way unread, each with a place of its own", layout.copies);
            return Err(Unavailable::new(why, smaller));
        }
        let made = layout.in_file().map_err(|error| Unavailable::new(format!("a memfd: {error}"), smaller));
        made.map(|(file, message)| Self { file, message })
    }
}

impl Method<Socket> for Sendfile {
    #[inline(always)]
    fn slot(&mut self, _: &mut Socket) -> io::Result<&mut Scatter> {
        Ok(self.message.turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut Socket) -> io::Result<()> {
        let Self { file, message } = self;
        let (from, total) = (message.offset(), message.len());
        hand_over(channel, total, |channel, done| {
            msg::sendfile(channel.fd(), file.as_fd(), from + done as u64, total - done)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_buffer_is_what_was_asked_for_or_what_the_kernel_lets_it_grow_to() {
        assert_eq!(largest(Some(1000), "/no/such/file"), Some(2000));
        assert_eq!(largest(None, "/no/such/file"), None);
        let usual = largest(None, "/proc/sys/net/ipv4/tcp_rmem").expect("three numbers");
        assert!(usual >= 4096, "{usual}");
    }
}
