//! Bytes one way, read and thrown away: what `nc -l > /dev/null` and `dd | nc` are used for.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::classic::{Receipt, rate_text};
use msgpath_core::Problem;
use msgpath_core::units::{Glyphs, bits_per_second, size};
use msgpath_sys::{clock, msg};
use serde::Serialize;

use super::server::{End, Guest};
use super::{BLOCK, GRACE, Target, Watch, farewell, possible, readable, receive, retried, tell, watched};

/// The longest block of the client, bytes.
pub const MOST_BLOCK: u64 = 64 << 20;

/// One connection of the server.
pub(super) fn answer(tells: bool, guest: &Guest<'_>) -> End {
    let mut block = vec![0; BLOCK];
    let mut receipt = Receipt::default();
    let mut drain = || {
        readable(&guest.stream)?;
        let begun = clock::now();
        loop {
            guest.may_idle();
            match receive(&guest.stream, &mut block)? {
                0 => return Ok(()),
                got => {
                    receipt.bytes += got as u64;
                    receipt.reads += 1;
                    receipt.full += u64::from(got == block.len());
                    receipt.ns = clock::now() - begun;
                }
            }
        }
    };
    let ended = drain();
    // What came before a connection broke was received all the same.
    guest.say(&receipt.say(Glyphs::default()));
    match ended {
        Ok(()) if !guest.is_over() => {
            if tells {
                guest.takes(super::FAREWELL);
                tell(&guest.stream, &receipt);
            }
            End::Well
        }
        Ok(()) => End::Refused("the stream had not ended".into()),
        Err(error) => End::Broken(error),
    }
}

/// What the client is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Where the server is.
    pub target: Target,
    /// How many bytes are sent.
    pub bytes: u64,
    /// How many in one call.
    pub block: u64,
}

/// What the client measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sent {
    /// Bytes that were handed over.
    pub bytes: u64,
    /// Bytes of one call.
    pub block: u64,
    /// connect() until it returned, ns.
    pub connect_ns: u64,
    /// From before the first call until the last returned, ns.
    pub sending_ns: u64,
    /// From before the first call until the server had closed as well, ns: then it has read everything. `None`: it did
    /// not close in time.
    pub closed_ns: Option<u64>,
    /// What the server measured, where it is ours.
    pub receipt: Option<Receipt>,
    /// It was interrupted before all was sent.
    pub interrupted: bool,
}

impl Sent {
    /// For people.
    pub fn say(&self, glyphs: Glyphs) -> String {
        let time = |ns: u64| glyphs.time(ns as f64);
        let rate = |ns: u64| (ns > 0).then(|| self.bytes as f64 * 8e9 / ns as f64);
        let mut out = format!(
            "{} bytes in blocks of {}{}\n",
            self.bytes,
            size(self.block),
            if self.interrupted { ", then interrupted" } else { "" }
        );
        out += &format!("  sender    {}: {}\n", time(self.sending_ns), rate_text(rate(self.sending_ns)));
        out += &match self.closed_ns {
            Some(ns) => format!(
                "            until the last call returned; the rest of the buffers and the server's close took another {}\n",
                time(ns.saturating_sub(self.sending_ns))
            ),
            None => "            until the last call returned\n".to_owned(),
        };
        out += &match self.closed_ns {
            Some(ns) => {
                format!("  closed    {}: {}, until the server had closed as well\n", time(ns), rate_text(rate(ns)))
            }
            None => "  closed    n/a: the server did not close in time\n".to_owned(),
        };
        out += &match &self.receipt {
            Some(receipt) => format!("  receiver  {}, on its own clock\n", receipt.say(glyphs)),
            None => "  receiver  n/a: this server tells nothing\n".to_owned(),
        };
        let bits = self.receipt.and_then(|receipt| receipt.rate()).or(self.closed_ns.and_then(rate));
        if let Some(bits) = bits {
            let whose =
                if self.receipt.is_some() { "the receiver's clock" } else { "the sender's clock until the close" };
            out += &format!("reference {} on {whose}\n", bits_per_second(bits, msgpath_core::units::BitUnits::Si));
        }
        out
    }
}

/// Sends all bytes.
///
/// # Errors
/// E49: nobody answers there. E50: the server went away, took nothing for too long, or told what cannot be.
pub fn run(asked: &Asked, stop: &AtomicBool) -> Result<Sent, Problem> {
    let (stream, connect_ns) = asked.target.connect(stop)?;
    let watch = Watch::default();
    watch.expect(asked.target.timeout);
    // A stream that is interrupted is shorter, not broken, and its end is told where that does not take long.
    watched(&[&stream], &[&watch], stop, GRACE, || {
        let block = vec![0_u8; asked.block.clamp(1, MOST_BLOCK) as usize];
        let begun = clock::now();
        let mut bytes = 0;
        while bytes < asked.bytes && !stop.load(Ordering::Relaxed) {
            watch.expect(asked.target.timeout);
            let next = (asked.bytes - bytes).min(block.len() as u64) as usize;
            let sent = retried(|| msg::send(stream.as_fd(), &block[..next], msg::SendFlags::default()));
            match sent {
                Ok(sent) => bytes += sent as u64,
                Err(_) if stop.load(Ordering::Relaxed) => break,
                Err(error) => return Err(asked.target.broken("sending", &error, &watch, stop)),
            }
        }
        let sending_ns = clock::now() - begun;
        let receipt = farewell(&stream, &watch, asked.target.timeout);
        let since = clock::now() - begun;
        let cut = stop.load(Ordering::Relaxed) && receipt.is_none();
        let closed_ns = (!watch.late.load(Ordering::Relaxed) && !cut).then_some(since);
        receipt.map_or(Ok(()), |receipt| possible(&receipt, bytes, since))?;
        let block = block.len() as u64;
        Ok(Sent { bytes, block, connect_ns, sending_ns, closed_ns, receipt, interrupted: bytes < asked.bytes })
    })
}
