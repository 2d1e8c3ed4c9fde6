//! A tap between two ends on loopback: it counts connections, keeps what passes, and can spoil or stop it.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What happens to what comes from the far end.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Passing {
    /// It passes.
    Whole,
    /// Other bytes pass in its place.
    Spoilt,
    Nothing,
    /// Both connections are closed.
    Cut,
    /// The test is over.
    Over,
}

/// What the tap has seen, and what it does.
pub struct Seen {
    /// Connections that the near end made.
    pub connections: AtomicU32,
    /// Bytes from the near end, the key of its offer first where it has one.
    pub sent: Mutex<Vec<u8>>,
    /// Bytes from the far end.
    pub answered: Mutex<Vec<u8>>,
    passing: AtomicU8,
}

impl Seen {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            connections: AtomicU32::new(0),
            sent: Mutex::default(),
            answered: Mutex::default(),
            passing: AtomicU8::new(Passing::Whole as u8),
        })
    }

    /// From now on.
    pub fn let_pass(&self, passing: Passing) {
        self.passing.store(passing as u8, Ordering::SeqCst);
    }

    fn is(&self, passing: Passing) -> bool {
        self.passing.load(Ordering::SeqCst) == passing as u8
    }

    /// Whether these bytes passed, in whatever direction.
    pub fn has(&self, bytes: &[u8]) -> bool {
        let within = |all: &Mutex<Vec<u8>>| all.lock().unwrap().windows(bytes.len()).any(|part| part == bytes);
        within(&self.sent) || within(&self.answered)
    }
}

/// Every wait of the tap: it looks whether it is over.
const LOOK: Duration = Duration::from_millis(5);

/// A tap before a TCP listener; where to connect instead.
pub fn tcp(far: SocketAddr) -> (SocketAddr, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (place, seen) = (listener.local_addr().unwrap(), Seen::new());
    listener.set_nonblocking(true).unwrap();
    let watched = Arc::clone(&seen);
    thread::spawn(move || {
        while !watched.is(Passing::Over) {
            let Ok((near, _)) = listener.accept() else {
                thread::sleep(LOOK);
                continue;
            };
            watched.connections.fetch_add(1, Ordering::SeqCst);
            let far = TcpStream::connect(far).unwrap();
            for socket in [&near, &far] {
                socket.set_nonblocking(false).unwrap();
                socket.set_nodelay(true).unwrap();
                socket.set_read_timeout(Some(LOOK)).unwrap();
            }
            for (from, to, answers) in [
                (near.try_clone().unwrap(), far.try_clone().unwrap(), false),
                (far.try_clone().unwrap(), near.try_clone().unwrap(), true),
            ] {
                let seen = Arc::clone(&watched);
                thread::spawn(move || pass(from, to, &seen, answers));
            }
        }
    });
    (place, seen)
}

fn pass(mut from: TcpStream, mut to: TcpStream, seen: &Seen, answers: bool) {
    let mut buffer = vec![0; 1 << 16];
    while !seen.is(Passing::Over) && !seen.is(Passing::Cut) {
        let got = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(got) => got,
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                continue;
            }
            Err(_) => break,
        };
        // It may have been cut while this thread waited: nothing passes after that.
        if seen.is(Passing::Cut) {
            break;
        }
        let part = &mut buffer[..got];
        let kept = if answers { &seen.answered } else { &seen.sent };
        kept.lock().unwrap().extend_from_slice(part);
        if seen.is(Passing::Nothing) {
            continue;
        }
        if answers && seen.is(Passing::Spoilt) {
            part.iter_mut().for_each(|byte| *byte ^= 0x5a);
        }
        if to.write_all(part).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// A tap before a UDP socket: where to send instead, and from where it sends to the far end.
pub fn udp(far: SocketAddr) -> (SocketAddr, SocketAddr, Arc<Seen>) {
    let socket = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(LOOK)).unwrap();
        Arc::new(socket)
    };
    let (door, to_far) = (socket(), socket());
    to_far.connect(far).unwrap();
    let places = (door.local_addr().unwrap(), to_far.local_addr().unwrap());
    let seen = Seen::new();
    let near: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
    for answers in [false, true] {
        let (door, to_far, seen, near) = (Arc::clone(&door), Arc::clone(&to_far), Arc::clone(&seen), Arc::clone(&near));
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while !seen.is(Passing::Over) && !seen.is(Passing::Cut) {
                let came = if answers {
                    to_far.recv(&mut buffer).map(|got| (got, None))
                } else {
                    door.recv_from(&mut buffer).map(|(got, from)| (got, Some(from)))
                };
                let Ok((got, from)) = came else { continue };
                // As above.
                if seen.is(Passing::Cut) {
                    break;
                }
                if let Some(from) = from
                    && near.lock().unwrap().replace(from) != Some(from)
                {
                    seen.connections.fetch_add(1, Ordering::SeqCst);
                }
                let part = &mut buffer[..got];
                let kept = if answers { &seen.answered } else { &seen.sent };
                kept.lock().unwrap().extend_from_slice(part);
                if seen.is(Passing::Nothing) {
                    continue;
                }
                if answers && seen.is(Passing::Spoilt) {
                    part.iter_mut().for_each(|byte| *byte ^= 0x5a);
                }
                let _ = match (answers, *near.lock().unwrap()) {
                    (false, _) => to_far.send(part),
                    (true, Some(near)) => door.send_to(part, near),
                    (true, None) => continue,
                };
            }
        });
    }
    (places.0, places.1, seen)
}
