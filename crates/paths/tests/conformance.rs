//! One suite for every path of the registry, and the proof that a new send method is one file and one line.
#![allow(clippy::print_stderr, clippy::print_stdout)]

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use msgpath_core::units::Pieces;
use msgpath_core::{CallCounts, PathName, Unavailable, ZeroCopyCounts};
use msgpath_paths::transport::Need;
use msgpath_paths::{AnyChannel, Channel, Driver, End, Entry, Family, Layout, Method, Wait, all};
use msgpath_sys::veth;

/// Sends `count` messages, each filled with its number, waits for the last buffers, and closes when the receiver has ended:
/// a receive call of a SOCK_SEQPACKET socket that does not block may find the queue empty, then the other end closed, and
/// so tell of the end before messages that came between the two looks (unix_dgram_recvmsg in net/unix/af_unix.c).
struct Sender {
    count: u32,
    /// Nothing is ever sent here; it breaks when the receiver ends.
    receiver: mpsc::Receiver<()>,
}

impl Driver for Sender {
    type Out = io::Result<(CallCounts, ZeroCopyCounts)>;
    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) -> Self::Out {
        let End { channel, method, .. } = &mut ends[0];
        for at in 0..self.count {
            let slot = method.slot(channel)?;
            for piece in 0..slot.count() {
                slot.piece_mut(piece).fill(at as u8);
            }
            method.send(channel)?;
        }
        method.flush(channel)?;
        // On loopback a buffer is free when the receiver has read it, which takes its time.
        for _ in 0..PATIENCE.as_secs() {
            if method.zerocopy().unanswered > 0 {
                method.drain(channel)?;
            }
        }
        let _ = self.receiver.recv_timeout(PATIENCE);
        Ok((*channel.counts(), method.zerocopy()))
    }
}

/// How long a message may take on a machine that does much else. Where datagrams may be lost, others are sent after it.
const PATIENCE: Duration = Duration::from_secs(60);
const LOST: Duration = Duration::from_secs(5);

/// Receives `count` messages of `size` bytes and checks every byte.
struct Receiver {
    count: u32,
    size: usize,
    patience: Duration,
}

impl Driver for Receiver {
    type Out = io::Result<()>;
    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) -> Self::Out {
        let End { channel, wait, .. } = &mut ends[0];
        let mut buffer = vec![0; self.size];
        for at in 0..self.count {
            let (mut got, since) = (0, Instant::now());
            while got < self.size {
                let received = match wait.recv(channel, &mut buffer[got..]) {
                    Err(error) if nothing_came(&error) && since.elapsed() < self.patience => continue,
                    other => other?,
                };
                assert!(received > 0, "closed after {at} messages");
                assert!(!channel.framed() || received == self.size, "message {at}: {received} bytes");
                got += received;
            }
            assert!(buffer.iter().all(|byte| *byte == at as u8), "message {at} came back different");
        }
        Ok(())
    }
}

/// Whether a wait gave up after its slice.
fn nothing_came(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// Waits once and says what came.
struct ExpectNothing;

impl Driver for ExpectNothing {
    type Out = io::Result<usize>;
    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) -> Self::Out {
        let End { channel, wait, .. } = &mut ends[0];
        wait.recv(channel, &mut [0; 64])
    }
}

type WithEnds<D> = fn(
    &PathName,
    Vec<AnyChannel>,
    Layout,
    &msgpath_core::plan::ChannelOptions,
    D,
) -> Result<<D as Driver>::Out, Unavailable>;

/// A pair of devices, and what fits in one of their frames.
const DEVICES: [&str; 2] = ["mpc0", "mpc1"];
const ROOM: u64 = 1492;

/// Whether each end of a path wants a device for itself.
fn wants_devices(entry: &Entry) -> bool {
    entry.transport.meta().family == Family::Xsk
}

/// Does something where both ends of a path can be.
fn in_place<T: Send>(entry: &Entry, what: impl FnOnce() -> T + Send) -> T {
    if wants_devices(entry) { veth::with_pair(DEVICES, what).unwrap() } else { what() }
}

fn connect(entry: &Entry, need: &Need) -> (AnyChannel, AnyChannel) {
    let on = |device: &str| {
        let mut need = need.clone();
        if wants_devices(entry) {
            need.options.interface = device.into();
        }
        need
    };
    let mut offer = entry.transport.offer(&on(DEVICES[1])).unwrap();
    let (near, local) = entry.transport.connect(&offer.addresses()[0], &on(DEVICES[0])).unwrap();
    let far = offer.accept(&[local], Duration::from_secs(2)).unwrap().pop().unwrap();
    (near, far)
}

fn need(entry: &Entry, size: u64) -> Need {
    let mut need = Need::local(size);
    need.wakes = entry.wakes();
    need.limits.slice = Duration::from_millis(50);
    need.limits.stall = PATIENCE;
    if msgpath_paths::traits(&entry.name).lends {
        // Each message that can be unread has a buffer of its own: fewer of them.
        (need.options.send_buffer, need.options.receive_buffer) = (Some(64 << 10), Some(64 << 10));
    }
    need
}

/// Content, order and completeness of `count` messages; where messages may be lost, of the first of three attempts in
/// which none was.
fn transfer(entry: &Entry, pieces: Pieces, count: u32, send: WithEnds<Sender>, receive: WithEnds<Receiver>) {
    let attempts = if entry.transport.meta().lossy { 3 } else { 1 };
    let lost = (0..attempts).map_while(|_| attempt(entry, pieces, count, send, receive).err());
    assert!(lost.count() < attempts, "{} {pieces}: a message did not arrive", entry.name);
}

/// One attempt.
///
/// # Errors
/// A message did not arrive in time.
fn attempt(
    entry: &Entry,
    pieces: Pieces,
    count: u32,
    send: WithEnds<Sender>,
    receive: WithEnds<Receiver>,
) -> io::Result<()> {
    let patience = if entry.transport.meta().lossy { LOST } else { PATIENCE };
    let need = need(entry, pieces.total());
    let (near, far) = connect(entry, &need);
    let layout = Layout { pieces, inflight: Layout::UNANSWERED, copies: 1, content: &|_| 0 };
    let (path, options) = (entry.name.clone(), need.options.clone());
    let (receives, ended) = mpsc::channel();
    let receiver = std::thread::spawn(move || {
        let _receives = receives;
        receive(&path, vec![far], layout, &options, Receiver { count, size: pieces.total() as usize, patience })
    });
    let sent = send(&entry.name, vec![near], layout, &need.options, Sender { count, receiver: ended });
    let received = receiver.join();
    assert!(received.is_ok(), "{} {pieces}: {sent:?}", entry.name);
    match received.unwrap().unwrap() {
        Err(error) if nothing_came(&error) => return Err(error),
        received => assert!(received.is_ok(), "{} {pieces}: {received:?}, {sent:?}", entry.name),
    }
    let (calls, zerocopy) = sent.unwrap().unwrap();
    if entry.method.name.contains("zerocopy") || entry.method.name == "uring-zc" {
        assert!(zerocopy.asked >= u64::from(count), "{}", entry.name);
        // Without SO_ZEROCOPY nobody answers.
        let answered = if entry.method.name == "zerocopy-unset" { 0 } else { zerocopy.asked };
        assert_eq!(zerocopy.copied + zerocopy.zero_copied, answered, "{}: {zerocopy:?}", entry.name);
        assert_eq!(zerocopy.unanswered, zerocopy.asked - answered, "{}", entry.name);
    }
    match entry.method.name {
        "writes" => assert!(calls.send_calls >= u64::from(count) * u64::from(pieces.count)),
        "flatten" => assert_eq!(calls.copied_bytes, u64::from(count) * pieces.total()),
        _ => {}
    }
    Ok(())
}

fn available() -> Vec<Entry> {
    all()
        .into_iter()
        .filter(|entry| match entry.probe() {
            Ok(()) => true,
            Err(reason) => {
                println!("skipped: {}: {reason}", entry.name);
                false
            }
        })
        .collect()
}

#[test]
fn every_path_carries_every_byte_in_order() {
    for entry in available() {
        // Datagrams over IP are dropped when the receiver's buffer is full, and a zero-copy datagram of 15 pieces
        // fills 15 pages of it: two always fit.
        let counts = if entry.transport.meta().lossy { [10, 2, 2, 1] } else { [300, 100, 100, 20] };
        let uneven = Pieces { rest: 3, ..Pieces::of(8, 125) };
        let sizes = [Pieces::whole(1), Pieces::of(15, 100), uneven, Pieces::of(8, 8192)];
        for (pieces, count) in sizes.into_iter().zip(counts) {
            let limit = entry.transport.max_message().unwrap_or(u64::MAX);
            if pieces.total() <= if wants_devices(&entry) { ROOM } else { limit } {
                in_place(&entry, || {
                    transfer(&entry, pieces, count, msgpath_paths::with_ends, msgpath_paths::with_ends);
                });
            }
        }
    }
}

#[test]
fn every_wait_gives_up_after_its_slice_or_sees_the_end() {
    // Nearly all of it is waiting, so several do at a time.
    let (entries, next) = (available(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
                    in_place(entry, || gives_up(entry));
                }
            });
        }
    });
}

/// A tracer finds the events of a message by the cookie of the socket that becomes readable.
#[test]
fn sockets_that_say_when_they_are_readable_have_cookies() {
    let mut transports: Vec<Entry> = available();
    transports.retain(|entry| entry.transport.meta().stack.has_ready());
    transports.dedup_by_key(|entry| entry.name.transport.clone());
    for entry in &transports {
        in_place(entry, || {
            let (near, far) = connect(entry, &need(entry, 64));
            for end in [near, far] {
                let layout = Layout { pieces: Pieces::whole(64), inflight: 1, copies: 1, content: &|_| 0 };
                let options = Need::local(64).options;
                let cookie = msgpath_paths::with_ends(&entry.name, vec![end], layout, &options, Cookie).unwrap();
                assert!(cookie.is_some(), "{}", entry.name);
            }
        });
    }
}

/// Says how the kernel names the socket.
struct Cookie;

impl Driver for Cookie {
    type Out = Option<u64>;
    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, ends: Vec<End<C, S, W>>) -> Self::Out {
        ends[0].channel.cookie()
    }
}

fn gives_up(entry: &Entry) {
    let (near, far) = connect(entry, &need(entry, 64));
    let layout = Layout { pieces: Pieces::whole(64), inflight: 1, copies: 1, content: &|_| 0 };
    let options = Need::local(64).options;
    // A blocking read of a pipe or a System V queue has no limit in time: it ends when the other end closes.
    let unlimited = [Family::Pipe, Family::SystemV];
    let kept = (!unlimited.contains(&entry.transport.meta().family)).then_some(near);
    let got = msgpath_paths::with_ends(&entry.name, vec![far], layout, &options, ExpectNothing).unwrap();
    match (got, kept) {
        (Err(error), _) => assert!(nothing_came(&error), "{}: {error}", entry.name),
        (Ok(0), None) => {}
        (Ok(bytes), _) => panic!("{}: {bytes} bytes out of nothing", entry.name),
    }
}

#[test]
fn nothing_is_left_in_the_file_system() {
    let mine = format!("msgpath-{}-", std::process::id());
    let entry = all().into_iter().find(|entry| entry.name.to_string() == "fifo:write").unwrap();
    let (_near, _far) = connect(&entry, &need(&entry, 64));
    let left = std::fs::read_dir(std::env::temp_dir()).unwrap();
    // Other tests of this process run at the same time, so look for folders that are not being opened any more.
    std::thread::sleep(Duration::from_millis(10));
    let left: Vec<_> = left
        .filter_map(|file| file.ok())
        .filter(|file| file.file_name().to_string_lossy().starts_with(&mine))
        .collect();
    assert!(left.len() <= 2, "{left:?}");
}

/// A send method that stands in no list of the program: what `ARCHITECTURE.md` says one takes.
mod reversed {
    use super::*;
    use msgpath_core::plan::ChannelOptions;
    use msgpath_paths::{Fds, Meta, NewMethod, Part};
    use msgpath_sys::scatter::Scatter;

    pub(super) struct Reversed(Scatter);

    impl Part for Reversed {
        const META: Meta = Meta {
            name: "reversed",
            summary: "bytes in reverse order, for this test",
            manual: "Exists in a test only.",
        };
    }

    impl<C: Fds> NewMethod<C> for Reversed {
        fn new(_: &mut C, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
            Ok(Self(layout.whole()))
        }
    }

    impl<C: Fds> Method<C> for Reversed {
        fn slot(&mut self, _: &mut C) -> io::Result<&mut Scatter> {
            Ok(&mut self.0)
        }
        fn send(&mut self, channel: &mut C) -> io::Result<()> {
            let bytes: Vec<u8> = self.0.piece(0).iter().rev().copied().collect();
            msgpath_sys::msg::write(channel.write_fd(), &bytes).map(drop)
        }
    }
}

mod one_more {
    use msgpath_paths::methods::write::Write;
    use msgpath_paths::transports::{pipe::Pipes, unix::Unix};
    use msgpath_paths::waits::block::Block;
    use msgpath_paths::{Pipe, Socket};

    msgpath_paths::registry! {
        transports: [Unix, Pipes];
        Socket(Socket): methods [Write, super::reversed::Reversed], waits(table) [Block];
        Pipe(Pipe): methods [Write, super::reversed::Reversed], waits(direct) [Block];
    }
}

#[test]
fn a_new_send_method_is_one_file_and_one_line() {
    assert_eq!((one_more::TRANSPORTS.len(), one_more::FAMILIES[1].methods[1].meta.name), (2, "reversed"));
    for transport in ["unix", "pipe"] {
        let mut entry = Entry::find(&PathName::new(transport, "write", "block")).unwrap();
        entry.name.method = "reversed".into();
        transfer(&entry, Pieces::whole(64), 50, one_more::with_ends, one_more::with_ends);
    }
}
