//! A1, A2 and A3: a server that answers with a message of its own in eight fields, and the client with its threads.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use crate::classic::primitives::{CLIENT_BYTE, FIELDS, Measured, Primitive, Totals, field_byte, fields};
use crate::classic::shown;
use msgpath_core::units::Glyphs;
use msgpath_core::{Exit, Histogram, Problem};
use msgpath_sys::msg::{self, SendFlags};
use msgpath_sys::poll::{Interest, poll};
use msgpath_sys::scatter::Scatter;
use msgpath_sys::socket::{self, IntOption};
use msgpath_sys::{clock, errqueue};

use msgpath_agent::team::thread_problem;

use super::server::{End, Guest};
use super::{GRACE, Target, Watch, receive, receive_all, retried, send_all, unclear, watched};

/// The largest message, bytes.
pub const MOST_SIZE: u64 = 64 << 20;
/// The most threads of the client.
pub const MOST_THREADS: u32 = 256;
/// The fewest messages of which a quantile is told: ten beyond it.
const BEYOND: f64 = 10.0;
/// Completions that are read between two messages at most: the queue is drained, and the next message is not kept.
const MOST_REAPED: usize = 256;

/// What became of the sends with MSG_ZEROCOPY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ZeroCopied {
    /// Sends with the flag that were taken.
    asked: u64,
    /// Notifications; one may answer several sends.
    notifications: u64,
    /// Sends that the kernel copied after all (SO_EE_CODE_ZEROCOPY_COPIED).
    copied: u64,
    /// Sends that it did not copy.
    not_copied: u64,
    /// Sends that were refused with the flag and made without it.
    fell_back: u64,
}

impl ZeroCopied {
    /// Reads the completions that are there.
    fn reap(&mut self, stream: &TcpStream) {
        for _ in 0..MOST_REAPED {
            match errqueue::read(stream.as_fd()) {
                Ok(Some(completion)) => {
                    self.notifications += 1;
                    *(if completion.copied { &mut self.copied } else { &mut self.not_copied }) += completion.count();
                }
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }

    fn open(&self) -> u64 {
        self.asked.saturating_sub(self.copied + self.not_copied)
    }

    fn say(&self) -> String {
        let Self { asked, notifications, copied, not_copied, fell_back } = self;
        let answered = copied + not_copied;
        let share =
            if answered == 0 { "n/a".to_owned() } else { format!("{:.1} %", 100.0 * *copied as f64 / answered as f64) };
        format!(
            "; {asked} zero-copy sends, {notifications} notifications, COPIED {share} ({copied} copied after all, \
             {not_copied} not, {} unanswered), {fell_back} fell back to copying",
            self.open()
        )
    }
}

/// The server's message.
struct Reply {
    primitive: Primitive,
    message: Scatter,
    /// Where A1 puts the fields together.
    flat: Vec<u8>,
    zero: ZeroCopied,
}

impl Reply {
    fn new(primitive: Primitive, size: usize) -> Self {
        let mut message = Scatter::uneven(&fields(size));
        for at in 0..FIELDS {
            message.piece_mut(at).fill(field_byte(at));
        }
        let flat = if primitive == Primitive::A1 { vec![0; size] } else { Vec::new() };
        Self { primitive, message, flat, zero: ZeroCopied::default() }
    }

    /// SO_ZEROCOPY for A3: without it the flag is silently ignored.
    fn prepare(&self, stream: &TcpStream) -> io::Result<()> {
        match self.primitive {
            Primitive::A3 => socket::set(stream.as_fd(), IntOption::Zerocopy, 1),
            _ => Ok(()),
        }
    }

    fn send(&mut self, stream: &TcpStream) -> io::Result<()> {
        match self.primitive {
            Primitive::A1 => {
                let mut at = 0;
                for field in 0..FIELDS {
                    let piece = self.message.piece(field);
                    self.flat[at..at + piece.len()].copy_from_slice(piece);
                    at += piece.len();
                }
                send_all(stream, &self.flat)
            }
            Primitive::A2 => self.send_vectors(stream, false),
            Primitive::A3 => {
                self.send_vectors(stream, true)?;
                self.zero.reap(stream);
                Ok(())
            }
        }
    }

    /// The fields are never written to again, so that a send needs no completion before the next.
    fn send_vectors(&mut self, stream: &TcpStream, mut zerocopy: bool) -> io::Result<()> {
        let Self { message, zero, .. } = self;
        let mut done = 0;
        while done < message.len() {
            let flags = SendFlags { zerocopy, more: false };
            let sent = retried(|| match done {
                0 => msg::sendmsg(stream.as_fd(), message, flags),
                done => msg::sendmsg_rest(stream.as_fd(), message, done, flags),
            });
            match sent {
                Ok(sent) => {
                    done += sent;
                    zero.asked += u64::from(zerocopy);
                }
                // As the course's server: whatever the reason, the message goes once more with a copy.
                Err(_) if zerocopy => {
                    zero.fell_back += 1;
                    zerocopy = false;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits shortly for the completions of what was sent last.
    fn settle(&mut self, stream: &TcpStream) {
        let until = clock::now() + 200_000_000;
        while self.primitive == Primitive::A3 && self.zero.open() > 0 && clock::now() < until {
            let _ = poll(stream.as_fd(), Interest::Error, 10);
            self.zero.reap(stream);
        }
    }
}

/// One connection of the server.
pub(super) fn answer(primitive: Primitive, size: usize, guest: &Guest<'_>) -> End {
    let stream = &guest.stream;
    let mut reply = Reply::new(primitive, size);
    if let Err(error) = reply.prepare(stream) {
        return End::Refused(format!("SO_ZEROCOPY: {error}"));
    }
    if let Err(error) = stream.set_nodelay(true) {
        return End::Broken(error);
    }
    let mut message = vec![0; size];
    let mut count = 0_u64;
    let ended = loop {
        guest.may_idle();
        let mut done = 0;
        let midway = loop {
            match receive(stream, &mut message[done..]) {
                Ok(0) if guest.is_over() => break Some(End::Refused("it was ended from here".into())),
                Ok(0) => break Some(End::Well).filter(|_| done == 0).or(Some(half(done, size))),
                Ok(got) if done + got == size => break None,
                Ok(got) => {
                    if done == 0 {
                        guest.is_within(size);
                    }
                    done += got;
                }
                Err(error) => break Some(End::Broken(error)),
            }
        };
        if let Some(end) = midway {
            break end;
        }
        guest.is_within(size);
        if let Err(error) = reply.send(stream) {
            break End::Broken(error);
        }
        count += 1;
    };
    reply.settle(stream);
    let zero = if primitive == Primitive::A3 { reply.zero.say() } else { String::new() };
    guest.say(&format!("{count} messages of {size} bytes were answered{zero}"));
    // Clients of the course close while a reply is on its way.
    match ended {
        End::Broken(error) if matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
            End::Well
        }
        other => other,
    }
}

fn half(done: usize, size: usize) -> End {
    End::Refused(format!("closed within a message, after {done} of {size} bytes"))
}

/// What the client is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Where the server is.
    pub target: Target,
    /// Bytes of a message.
    pub size: usize,
    /// Threads, each with a connection.
    pub threads: u32,
    /// For how long.
    pub time: Duration,
}

/// What one thread did.
struct Part {
    times: Histogram,
    begun_ns: u64,
    ended_ns: u64,
}

/// Sends and receives until the time is over. Returns the course's line and what was really measured.
///
/// # Errors
/// E49: nobody answers there. E50: the server went away, took too long, or answered something else.
pub fn run(asked: &Asked, stop: &AtomicBool) -> Result<(Totals, Measured), Problem> {
    let streams: Vec<TcpStream> =
        (0..asked.threads).map(|_| asked.target.connect(stop).map(|(stream, _)| stream)).collect::<Result<_, _>>()?;
    let watches: Vec<Watch> = streams.iter().map(|_| Watch::default()).collect();
    watches.iter().for_each(|watch| watch.expect(asked.target.timeout));
    let (all, every): (Vec<_>, Vec<_>) = (streams.iter().collect(), watches.iter().collect());
    // An interrupted run has measured what it has; a message that goes on for long then is not waited for.
    watched(&all, &every, stop, GRACE, || {
        let over = AtomicBool::new(false);
        let parts = std::thread::scope(|scope| {
            let (mut starts, mut threads) = (Vec::new(), Vec::new());
            let (ready, are_ready) = channel();
            for (stream, watch) in streams.iter().zip(&watches) {
                let (ready, over, (start, started)) = (ready.clone(), &over, channel());
                let work = move || {
                    let part = talk(asked, stream, watch, (&ready, &started), [stop, over]);
                    // What the other threads still do is not this one's step; and one failure is enough.
                    watch.expect(Duration::from_secs(3600));
                    over.fetch_or(part.is_err(), Ordering::Relaxed);
                    part
                };
                // Where one has no thread, the others are not started: they wait for a start that is gone.
                threads.push(Builder::new().spawn_scoped(scope, work).map_err(|error| thread_problem(&error))?);
                starts.push(start);
            }
            drop(ready);
            are_ready.iter().take(threads.len()).for_each(drop);
            for start in starts {
                let _ = start.send(());
            }
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|_| Err(unclear("a thread failed".into())))
            };
            Ok::<_, Problem>(threads.into_iter().map(join).collect::<Vec<_>>())
        })?;
        let parts = parts.into_iter().collect::<Result<Vec<Part>, Problem>>()?;
        let mut times = Histogram::new();
        parts.iter().for_each(|part| times.merge(&part.times));
        if times.total() == 0 && stop.load(Ordering::Relaxed) {
            return Err(Problem::new("E50", Exit::Interrupted, "interrupted before the first reply"));
        }
        // The threads' own stamps: this one may wake up when they have long begun.
        let begun = parts.iter().map(|part| part.begun_ns).min().unwrap_or(0);
        let ended = parts.iter().map(|part| part.ended_ns).max().unwrap_or(begun);
        Ok((
            Totals::of(times.total(), asked.size as u64, times.sum(), asked.time.as_secs_f64()),
            Measured {
                size: asked.size as u64,
                threads: asked.threads,
                messages: times.total(),
                elapsed_ns: ended.saturating_sub(begun),
                mean_ns: times.mean().unwrap_or(0.0),
                quantiles: [0.5, 0.9, 0.99, 0.999, 1.0].map(|p| quantile(&times, p)),
                fewest_most: (
                    parts.iter().map(|part| part.times.total()).min().unwrap_or(0),
                    parts.iter().map(|part| part.times.total()).max().unwrap_or(0),
                ),
            },
        ))
    })
}

/// A quantile of which enough is known: ten messages lie beyond it. The largest is always known.
fn quantile(times: &Histogram, p: f64) -> Option<u64> {
    if p == 1.0 {
        return times.max();
    }
    // The share is not an exact number: 1 - 0.9 is a little less than 0.1.
    let enough = (1.0 - p) * times.total() as f64 + 1e-6 >= BEYOND;
    times.quantile(p).flatten().filter(|_| enough)
}

fn talk(
    asked: &Asked,
    stream: &TcpStream,
    watch: &Watch,
    (ready, started): (&Sender<()>, &Receiver<()>),
    stops: [&AtomicBool; 2],
) -> Result<Part, Problem> {
    let message = vec![CLIENT_BYTE; asked.size];
    let mut reply = vec![0; asked.size];
    let mut times = Histogram::new();
    // The others wait for this thread, whatever happens to it.
    let prepared = stream.set_nodelay(true);
    let _ = ready.send(());
    started.recv().map_err(|_| unclear("the threads were not started".into()))?;
    let never = AtomicBool::new(false);
    let broken = |error: io::Error| asked.target.broken("a message", &error, watch, &never);
    prepared.map_err(broken)?;
    let begun_ns = clock::now();
    let mut now = begun_ns;
    let until = now.saturating_add(asked.time.as_nanos() as u64);
    let mut first = true;
    while now < until && !stops.iter().any(|stop| stop.load(Ordering::Relaxed)) {
        watch.expect(asked.target.timeout);
        let begun = now;
        match send_all(stream, &message).and_then(|()| receive_all(stream, &mut reply)) {
            Ok(_) => {}
            Err(_) if stops[0].load(Ordering::Relaxed) => break,
            Err(error) => return Err(broken(error)),
        }
        now = clock::now();
        times.record(now - begun);
        if std::mem::take(&mut first) {
            check(&reply)?;
            now = clock::now();
        }
    }
    Ok(Part { times, begun_ns, ended_ns: now })
}

/// The first reply must be the eight fields, whatever server it is: otherwise something else is measured.
fn check(reply: &[u8]) -> Result<(), Problem> {
    let mut rest = reply;
    for (at, size) in fields(reply.len()).into_iter().enumerate() {
        let (field, behind) = rest.split_at(size);
        if field.iter().any(|byte| *byte != field_byte(at)) {
            return Err(unclear(format!("field {at} of the reply is \"{}\"", shown(&field[..size.min(20)])))
                .why(format!("the servers of the course fill it with {:#04x}", field_byte(at)))
                .hint("msgpath compat echo, if the server sends back what it got"));
        }
        rest = behind;
    }
    Ok(())
}

/// The lines of the client: the course's and msgpath's.
pub fn say(totals: &Totals, measured: &Measured, glyphs: Glyphs) -> String {
    format!("{}\n{}", totals.line(), measured.say(glyphs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_of_something_else_is_refused() {
        let reply = |size| {
            let reply = Reply::new(Primitive::A2, size);
            (0..FIELDS).flat_map(|at| reply.message.piece(at).to_vec()).collect::<Vec<u8>>()
        };
        for size in [1, 7, 8, 67, 4096] {
            assert_eq!(reply(size).len(), size);
            assert!(check(&reply(size)).is_ok(), "{size}");
        }
        assert!(check(&[CLIENT_BYTE; 64]).unwrap_err().what.contains("field 0"));
    }

    #[test]
    fn quantiles_need_enough_messages() {
        let mut times = Histogram::new();
        times.record_n(1000, 99);
        assert_eq!((quantile(&times, 0.9), quantile(&times, 1.0)), (None, Some(1000)));
        times.record(2000);
        assert!(quantile(&times, 0.9).is_some());
    }
}
