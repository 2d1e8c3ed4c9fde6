//! `zerocopy-unset`: the flag MSG_ZEROCOPY without the option SO_ZEROCOPY, as many programs have it. The mistake, to be
//! seen.

use std::io;

use msgpath_core::{Unavailable, ZeroCopyCounts, plan::ChannelOptions};
use msgpath_sys::errqueue;
use msgpath_sys::msg::{self, SendFlags};
use msgpath_sys::poll::{Interest, poll};
use msgpath_sys::scatter::Scatter;

use super::hand_over;
use crate::channel::Socket;
use crate::end::{Layout, Method, NewMethod};
use crate::meta::{Meta, Part, TransportMeta};

const FLAGS: SendFlags = SendFlags { zerocopy: true, more: false };

pub struct ZeroCopyUnset {
    message: Scatter,
    counts: ZeroCopyCounts,
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
        if transport.inet || transport.meta.name.starts_with("unix") {
            Ok(())
        } else {
            Err("nobody expects zero copy of MSG_ZEROCOPY here")
        }
    }
}

impl NewMethod<Socket> for ZeroCopyUnset {
    fn new(_: &mut Socket, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self { message: layout.cut(), counts: ZeroCopyCounts::default() })
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
        self.counts.asked += 1;
        hand_over(channel, message.len(), |channel, done| match done {
            0 => msg::sendmsg(channel.fd(), message, FLAGS),
            done => msg::sendmsg_rest(channel.fd(), message, done, FLAGS),
        })
    }

    /// Whether the kernel answered after all. poll(2) is asked first: a Unix socket takes MSG_ERRQUEUE for a plain receive.
    fn drain(&mut self, channel: &mut Socket) -> io::Result<()> {
        let counts = &mut self.counts;
        while counts.copied + counts.zero_copied < counts.asked
            && matches!(poll(channel.fd(), Interest::Error, 0), Ok(true))
        {
            let Ok(Some(completion)) = errqueue::read(channel.fd()) else { break };
            counts.notifications += 1;
            let of = if completion.copied { &mut counts.copied } else { &mut counts.zero_copied };
            *of += completion.count();
        }
        Ok(())
    }

    fn zerocopy(&self) -> ZeroCopyCounts {
        let answered = self.counts.copied + self.counts.zero_copied;
        ZeroCopyCounts { unanswered: self.counts.asked.saturating_sub(answered), ..self.counts }
    }
}
