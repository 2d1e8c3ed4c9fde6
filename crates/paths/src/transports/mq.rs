//! Two POSIX message queues.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use msgpath_core::Unavailable;
use msgpath_sys::files::check_owned;
use msgpath_sys::mqueue::{self, Attributes};
use rustix::fs::FileType;

use super::{check_name, proc_number, unique_name};
use crate::channel::{AnyChannel, Queue};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

pub struct Mq;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "mq",
        summary: "two POSIX message queues, one for each direction",
        manual: "Message boundaries are preserved, and messages have priorities (msgpath uses 0). The kernel limits the size of a \
                 message (fs.mqueue.msgsize_max, 8192 by default), the messages in a queue (fs.mqueue.msg_max, 10) \
                 and the bytes of a user (RLIMIT_MSGQUEUE). A receive call must offer room for the largest message.",
    },
    family: Family::Queue,
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

fn up(base: &str) -> String {
    format!("/{base}-up")
}

fn down(base: &str) -> String {
    format!("/{base}-down")
}

/// A queue of an offer: made by an msgpath of this user or root.
fn open(name: &str) -> io::Result<mqueue::Queue> {
    let queue = mqueue::Queue::open(name)?;
    check_owned(queue.as_fd(), FileType::RegularFile)?;
    Ok(queue)
}

struct Names {
    base: String,
    queues: Option<(mqueue::Queue, mqueue::Queue)>,
}

impl Names {
    fn new(need: &Need) -> io::Result<Self> {
        let mut names = Self { base: unique_name()?, queues: None };
        let max = proc_number("/proc/sys/fs/mqueue/msg_max").unwrap_or(10);
        let attributes = Attributes {
            max_messages: u64::from(need.inflight).clamp(10, max.max(10)) as usize,
            max_size: need.largest as usize,
        };
        let up = mqueue::Queue::create(&names.up(), attributes)?;
        let down = match mqueue::Queue::create(&names.down(), attributes) {
            Ok(down) => down,
            Err(error) => {
                let _ = mqueue::Queue::unlink(&names.up());
                return Err(error);
            }
        };
        names.queues = Some((up, down));
        Ok(names)
    }

    fn up(&self) -> String {
        up(&self.base)
    }

    fn down(&self) -> String {
        down(&self.base)
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        let _ = mqueue::Queue::unlink(&self.up());
        let _ = mqueue::Queue::unlink(&self.down());
    }
}

struct Made {
    names: Vec<Names>,
    need: Need,
}

impl Offer for Made {
    fn addresses(&self) -> Vec<String> {
        self.names.iter().map(|names| names.base.clone()).collect()
    }

    fn accept(&mut self, _: &[String], _: Duration) -> io::Result<Vec<AnyChannel>> {
        Ok(std::mem::take(&mut self.names)
            .into_iter()
            .map(|mut names| {
                let (up, down) = names.queues.take().expect("made with the names");
                AnyChannel::Queue(Queue::new(up, down, self.need.limits.clone()))
            })
            .collect())
    }
}

impl Transport for Mq {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn max_message(&self) -> Option<u64> {
        proc_number("/proc/sys/fs/mqueue/msgsize_max")
    }

    fn probe(&self) -> Result<(), Unavailable> {
        Names::new(&Need::local(64)).map(drop).map_err(|error| match error.raw_os_error() {
            Some(rustix_errno) if rustix_errno == rustix::io::Errno::NOSYS.raw_os_error() => {
                Unavailable::new("this kernel has no POSIX message queues", "a kernel with CONFIG_POSIX_MQUEUE")
            }
            _ => Unavailable::new(format!("message queues: {error}"), "ulimit -q, or fewer queues in use"),
        })
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        let names = (0..need.connections).map(|_| Names::new(need)).collect::<io::Result<_>>()?;
        Ok(Box::new(Made { names, need: need.clone() }))
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        let base = check_name(address)?;
        let (write, read) = (open(&up(base))?, open(&down(base))?);
        Ok((AnyChannel::Queue(Queue::new(read, write, need.limits.clone())), String::new()))
    }
}
