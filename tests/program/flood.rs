//! Ten thousand connections that do not greet, and a near end that wants to be served all the same.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use msgpath_agent::greeting::GREETING;
use msgpath_agent::wire::{self, FromEnd, Opening, ToEnd};
use msgpath_sys::limits::allow_open_files;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use crate::command::{Home, free_port};

const STRANGERS: usize = 10_000;
/// Addresses they come from: 127.0.0.1, which is that of the near end as well, and those after it.
const SOURCES: usize = 40;
const SESSIONS: usize = 20;
const LIMIT: Duration = Duration::from_secs(1);

fn half_a_greeting() -> Vec<u8> {
    let mut frame = Vec::new();
    wire::write(&mut frame, &hello(), &[]).unwrap();
    frame.truncate(frame.len() / 2);
    frame
}

fn hello() -> ToEnd {
    ToEnd::Hello { version: env!("CARGO_PKG_VERSION").into(), lease_ms: 10_000 }
}

/// Connects from an address of its own; every second one begins to greet.
fn stranger(at: usize, to: SocketAddr, half: &[u8]) -> std::io::Result<TcpStream> {
    let source = Ipv4Addr::new(127, 0, 0, 1 + (at % SOURCES) as u8);
    let fd = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&fd, &SocketAddrV4::new(source, 0))?;
    connect(&fd, &to)?;
    let mut stream = TcpStream::from(fd);
    stream.set_nonblocking(true)?;
    if at.is_multiple_of(2) {
        stream.write_all(half)?;
    }
    Ok(stream)
}

/// Whether the server has ended it; the greeting of `serve` is thrown away.
fn has_ended(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 64];
    match stream.read(&mut bytes) {
        Ok(got) => got == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// One near end, from its first packet to the answer that only a session gives; how long it took.
fn session(to: SocketAddr) -> Duration {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(to).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut greeting = [0; GREETING.len()];
    stream.read_exact(&mut greeting).expect("a greeting");
    wire::read::<Opening>(&mut stream).expect("a whole frame").expect("no end");
    wire::write(&mut stream, &hello(), &[]).expect("it listens");
    let answer = wire::read::<FromEnd>(&mut stream).expect("a whole answer").expect("an answer").0;
    let took = begun.elapsed();
    assert!(matches!(answer, FromEnd::Hello { .. }), "{answer:?}");
    wire::write(&mut stream, &ToEnd::Bye, &[]).expect("it listens");
    took
}

/// The longest of the good sessions, one after the other.
fn sessions(what: &str, to: SocketAddr) -> Duration {
    let mut took: Vec<Duration> = (0..SESSIONS).map(|_| session(to)).collect();
    took.sort();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{what}: {SESSIONS} sessions, median {:.1} ms, longest {:.1} ms",
        ms(took[SESSIONS / 2]),
        ms(took[SESSIONS - 1])
    );
    took[SESSIONS - 1]
}

#[test]
#[ignore = "a time limit, for a quiet machine: docs/serve.md names the command"]
fn ten_thousand_who_do_not_greet_keep_nobody_waiting() {
    let wanted = STRANGERS as u64 + 1_000;
    match allow_open_files(wanted) {
        Ok(allowed) if allowed >= wanted => {}
        allowed => return println!("skipped: {wanted} open files are needed, {allowed:?} are allowed"),
    }
    let home = Home::new();
    let to = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let running = home.start(&format!("serve {to}"));
    running.until_it_says("serving at");
    let before = sessions("nobody else", to);

    let (half, begun) = (half_a_greeting(), Instant::now());
    let mut strangers: Vec<TcpStream> =
        (0..STRANGERS).map(|at| stranger(at, to, &half).expect("a stranger connects")).collect();
    println!("{STRANGERS} strangers from {SOURCES} addresses came within {:.1} s", begun.elapsed().as_secs_f64());
    let silent = sessions("they are silent", to);

    // Whoever is turned away comes again, for as long as the good sessions take.
    let (over, again) = (AtomicBool::new(false), AtomicUsize::new(0));
    let stubborn = std::thread::scope(|scope| {
        scope.spawn(|| {
            let begun = Instant::now();
            while !over.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(60) {
                for (at, one) in strangers.iter_mut().enumerate() {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    if has_ended(one)
                        && let Ok(next) = stranger(at, to, &half)
                    {
                        *one = next;
                        again.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        std::thread::sleep(Duration::from_millis(200));
        let longest = sessions("they come again and again", to);
        over.store(true, Ordering::Relaxed);
        longest
    });
    println!("{} came again meanwhile", again.load(Ordering::Relaxed));
    assert!(again.load(Ordering::Relaxed) > 0, "nobody came again: this proves nothing");
    home.run(&format!("echo {to} -c 60 -r 3 -w 0 --no-save")).ends_with(0);
    drop(strangers);
    running.signal("INT");
    running.finish(Duration::from_secs(180)).ends_with(0);
    assert!(before.max(silent).max(stubborn) < LIMIT, "{before:?}, {silent:?}, {stubborn:?}");
}
