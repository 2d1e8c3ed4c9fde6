//! `zerocopy-unset`: the flag MSG_ZEROCOPY without the option SO_ZEROCOPY, as many programs have it. The mistake, to be
//! seen.

use std::io;

use msgpath_core::{Unavailable, ZeroCopyCounts, plan::ChannelOptions};
use msgpath_sys::msg::{self, SendFlags};
use msgpath_sys::scatter::Scatter;

use super::hand_over;
use crate::channel::Socket;
use crate::end::{Layout, Method, NewMethod};
use crate::meta::{Meta, Part, TransportMeta};

const FLAGS: SendFlags = SendFlags { zerocopy: true, more: false };

/// `zerocopy-unset`.
pub struct ZeroCopyUnset {
    message: Scatter,
    asked: u64,
}

impl Part for ZeroCopyUnset {
    const META: Meta = Meta {
        name: "zerocopy-unset",
        summary: "MSG_ZEROCOPY without SO_ZEROCOPY: a mistake that the kernel ignores",
        manual: "The flag succeeds and does nothing: the bytes are copied, and no completion ever comes. Programs that \
                 forget the option, or use it on Unix sockets, measure this. It is here so that it can be recognised.",
    };
    const ASKS_IN_VAIN: bool = true;

    fn fits(transport: &TransportMeta) -> Result<(), &'static str> {
        match transport.inet || transport.meta.name.starts_with("unix") {
            true => Ok(()),
            false => Err("nobody expects zero copy of MSG_ZEROCOPY here"),
        }
    }
}

impl NewMethod<Socket> for ZeroCopyUnset {
    fn new(_: &mut Socket, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self { message: layout.cut(), asked: 0 })
    }
}

impl Method<Socket> for ZeroCopyUnset {
    #[inline(always)]
    fn slot(&mut self, _: &mut Socket) -> io::Result<&mut Scatter> {
        Ok(self.message.turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut Socket) -> io::Result<()> {
        let message = &self.message;
        self.asked += 1;
        hand_over(channel, message.len(), |channel, done| match done {
            0 => msg::sendmsg(channel.fd(), message, FLAGS),
            done => msg::sendmsg_rest(channel.fd(), message, done, FLAGS),
        })
    }

    fn zerocopy(&self) -> ZeroCopyCounts {
        ZeroCopyCounts { asked: self.asked, unanswered: self.asked, ..ZeroCopyCounts::default() }
    }
}
