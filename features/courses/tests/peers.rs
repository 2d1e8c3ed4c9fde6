//! Each compatible client against each compatible server, and both against sockets that are written here.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use msgpath_courses::classic::css432::{Order, Shape};
use msgpath_courses::classic::primitives::Primitive;
use msgpath_courses::peers::{Event, Protocol, Server, ServerOptions, Target, css432, discard, echo, primitives};

/// A server in a thread; it stops when dropped.
struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<String>>>,
}

impl Running {
    fn start(protocol: Protocol) -> Self {
        let patience = Duration::from_millis(400);
        Self::waiting(protocol, patience, patience)
    }

    /// One that waits so long, and so long where others come.
    fn waiting(protocol: Protocol, patience: Duration, sure: Duration) -> Self {
        let server = Server::bind(ServerOptions {
            host: None,
            port: 0,
            connections: 8,
            idle: patience,
            sure,
            message: patience,
            protocol,
        });
        let server = server.unwrap();
        let address = server.address();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut server_reply = Vec::new();
            server.run(&stopped, &mut |event| {
                server_reply.push(match event {
                    Event::Course(line) | Event::Wrong(line) | Event::Classic(line) => line.to_owned(),
                });
            });
            server_reply
        });
        Self { address, stop, thread: Some(thread) }
    }

    fn target(&self) -> Target {
        Target { host: "127.0.0.1".into(), port: self.address.port(), timeout: Duration::from_secs(20) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Stops it; everything that it said.
    fn stop(mut self) -> String {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap().join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn shapes(message: usize, older: Option<u32>) -> Protocol {
    Protocol::Css432(css432::Serving { message, older, counted: css432::Counted::All })
}

fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

static GO_ON: AtomicBool = AtomicBool::new(false);

#[test]
fn shapes_in_both_forms_and_orders() {
    for (older, order) in [(None, Some(Order::Host)), (None, Some(Order::Network)), (Some(60), None)] {
        let server = Running::start(shapes(1500, older));
        for (shape, nbufs, bufsize) in [(Shape::Writes, 100, 15), (Shape::Writev, 30, 50), (Shape::Write, 25, 60)] {
            let asked =
                css432::Asked { target: server.target(), repetition: 60, nbufs, bufsize, shape, order, nodelay: false };
            let sent = css432::run(&asked, &GO_ON).unwrap();
            let receipt = sent.receipt.expect("our server tells it");
            assert_eq!((sent.bytes, receipt.bytes, u64::from(sent.reads)), (90_000, 90_000, receipt.reads));
            assert!(receipt.reads >= 60 && receipt.full <= 60 && sent.sending_ns <= sent.total_ns, "{sent:?}");
        }
        let server_reply = server.stop();
        assert_eq!(
            server_reply.matches("data-receiving time = ").count(),
            if older.is_some() { 3 } else { 0 },
            "{server_reply}"
        );
        assert!(server_reply.ends_with("answered 3 connections"), "{server_reply}");
    }
}

#[test]
fn a_hand_written_client_gets_its_number() {
    let server = Running::start(shapes(10, None));
    let mut stream = server.connect();
    stream.write_all(&2_u32.to_be_bytes()).unwrap();
    stream.write_all(&[1; 20]).unwrap();
    let mut number = [0; 4];
    stream.read_exact(&mut number).unwrap();
    assert!((2..=20).contains(&u32::from_be_bytes(number)), "{number:?}");
    assert_eq!(until_closed(&mut stream), b"");
    let mut half = server.connect();
    half.write_all(&[2, 0, 0, 0, 9, 9, 9]).unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    assert_eq!(until_closed(&mut half), b"");
    let mut wrong = server.connect();
    wrong.write_all(&[0; 4]).unwrap();
    assert_eq!(until_closed(&mut wrong), b"");
    let server_reply = server.stop();
    assert!(
        server_reply.contains("network order") && server_reply.contains("closed after 3 bytes, in iteration 1 of 2"),
        "{server_reply}"
    );
    assert!(server_reply.contains("not a number of repetitions"), "{server_reply}");
}

#[test]
fn peers_that_are_slow_lose_their_connection() {
    for protocol in [shapes(1500, None), Protocol::Echo { longest: 100 }] {
        let server = Running::start(protocol);
        let (mut slow, mut silent) = (server.connect(), server.connect());
        let begun = Instant::now();
        while slow.write_all(&[1]).is_ok() && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(30));
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "a byte now and then holds it");
        assert_eq!(until_closed(&mut silent), b"");
        let server_reply = server.stop();
        assert!(server_reply.contains("it took too long"), "{server_reply}");
    }
}

#[test]
fn idle_connections_keep_nobody_out() {
    let hour = Duration::from_secs(3600);
    let protocols = [
        shapes(1500, None),
        Protocol::Echo { longest: 100 },
        Protocol::Discard { tells: true },
        Protocol::Primitives { primitive: Primitive::A1, size: 5 },
    ];
    for protocol in protocols {
        let server = Running::waiting(protocol.clone(), hour, Duration::ZERO);
        // More than there are places; every other one says the beginning of something.
        let mut silent: Vec<TcpStream> = (0..40).map(|_| server.connect()).collect();
        silent.iter_mut().step_by(2).for_each(|stream| stream.write_all(b"s").unwrap());
        let target = server.target();
        match protocol {
            Protocol::Css432(_) => {
                let (shape, order) = (Shape::Writev, Some(Order::Host));
                let asked =
                    css432::Asked { target, repetition: 10, nbufs: 100, bufsize: 15, shape, order, nodelay: false };
                css432::run(&asked, &GO_ON).map(drop)
            }
            Protocol::Echo { .. } => {
                let (sizes, trials) = (vec![10], 3);
                let asked = echo::Asked { target, sizes, trials, with_newline: false, one_connection: false };
                echo::run(&asked, &GO_ON).map(drop)
            }
            Protocol::Discard { .. } => {
                discard::run(&discard::Asked { target, bytes: 100_000, block: 10_000 }, &GO_ON).map(drop)
            }
            Protocol::Primitives { size, .. } => {
                let (threads, time) = (2, Duration::from_millis(20));
                primitives::run(&primitives::Asked { target, size, threads, time }, &GO_ON).map(drop)
            }
        }
        .unwrap_or_else(|problem| panic!("it is not served: {problem}"));
    }
}

#[test]
fn lines_come_back_and_long_ones_do_not() {
    let server = Running::start(Protocol::Echo { longest: 300_000 });
    let asked = echo::Asked {
        target: server.target(),
        sizes: vec![1, 1000, 250_000],
        trials: 3,
        with_newline: false,
        one_connection: false,
    };
    let columns = echo::run(&asked, &GO_ON).unwrap();
    assert_eq!(columns.iter().map(|column| column.trials.len()).collect::<Vec<_>>(), [3, 3, 3]);
    assert!(columns.iter().flat_map(|column| &column.trials).all(|trial| trial.connect_ns.is_some()));
    let one = echo::run(&echo::Asked { one_connection: true, with_newline: true, ..asked }, &GO_ON).unwrap();
    assert_eq!(one[0].trials.iter().filter(|trial| trial.connect_ns.is_some()).count(), 1);
    let mut endless = server.connect();
    let _ = endless.write_all(&vec![b'x'; 400_000]);
    until_closed(&mut endless);
    let server_reply = server.stop();
    assert!(
        server_reply.contains("a line is longer than 300000 bytes") && server_reply.contains("3 lines with 3 bytes"),
        "{server_reply}"
    );
}

#[test]
fn bytes_are_counted_on_both_sides() {
    for tells in [true, false] {
        let server = Running::start(Protocol::Discard { tells });
        let asked = discard::Asked { target: server.target(), bytes: 3_000_001, block: 10_000 };
        let sent = discard::run(&asked, &GO_ON).unwrap();
        assert_eq!((sent.bytes, sent.receipt.map(|receipt| receipt.bytes)), (3_000_001, tells.then_some(3_000_001)));
        assert!(sent.closed_ns.is_some_and(|closed| closed >= sent.sending_ns), "{sent:?}");
        assert!(server.stop().contains("3000001 bytes in "));
    }
}

#[test]
fn primitives_of_every_kind() {
    for primitive in [Primitive::A1, Primitive::A2, Primitive::A3] {
        for size in [5, 67, 100_000] {
            let server = Running::start(Protocol::Primitives { primitive, size });
            let asked =
                primitives::Asked { target: server.target(), size, threads: 2, time: Duration::from_millis(100) };
            let (totals, measured) = primitives::run(&asked, &GO_ON).unwrap();
            assert!(totals.messages >= 2 && totals.bytes == totals.messages * size as u64, "{totals:?}");
            assert_eq!((measured.messages, measured.threads), (totals.messages, 2));
            // A loop that waits for each reply has at most one message in flight on each connection.
            assert!(measured.in_flight().is_some_and(|in_flight| in_flight > 0.0 && in_flight <= 2.0), "{measured:?}");
            std::thread::sleep(Duration::from_millis(300));
            let server_reply = server.stop();
            assert_eq!(server_reply.contains("COPIED 100.0 %"), primitive == Primitive::A3, "{server_reply}");
        }
    }
}

/// A server that accepts one connection; what it then does with it.
fn lone(serve: impl FnOnce(TcpStream) + Send + 'static) -> (Target, JoinHandle<()>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || serve(listener.accept().unwrap().0));
    (Target { host: "127.0.0.1".into(), port, timeout: Duration::from_secs(600) }, thread)
}

#[test]
fn an_answer_that_cannot_be_is_an_error() {
    let (target, thread) = lone(|mut stream| {
        let _ = stream.read_exact(&mut vec![0; 4 + 150_000]);
        // "1111" is 825 million in either order.
        let _ = stream.write_all(b"1111");
    });
    let shape = Shape::Writev;
    let order = Some(Order::Host);
    let asked = css432::Asked { target, repetition: 100, nbufs: 100, bufsize: 15, shape, order, nodelay: false };
    let problem = css432::run(&asked, &GO_ON).unwrap_err();
    assert!(problem.exit == msgpath_core::Exit::Unfinished && problem.what.contains("825307441 reads"), "{problem}");
    thread.join().unwrap();
    let (target, thread) = lone(|mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
        let _ = stream.write_all(b"msgpath received: bytes=9000000 ns=1 reads=1 full=0\n");
    });
    let problem = discard::run(&discard::Asked { target, bytes: 100_000, block: 10_000 }, &GO_ON).unwrap_err();
    assert!(problem.what.contains("cannot be") && problem.why.contains("9000000 bytes were received"), "{problem}");
    thread.join().unwrap();
}

#[test]
fn an_interrupt_does_not_wait_for_a_silent_server() {
    let stop = AtomicBool::new(false);
    // Without a reply nothing was measured; the patience of ten minutes is not used up.
    let (target, thread) = lone(|mut stream| drop(stream.read_to_end(&mut Vec::new())));
    let asked = primitives::Asked { target, size: 100, threads: 1, time: Duration::from_secs(600) };
    let late = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            stop.store(true, Ordering::Relaxed);
        });
        primitives::run(&asked, &stop)
    });
    assert!(late.is_err_and(|problem| problem.exit == msgpath_core::Exit::Interrupted));
    thread.join().unwrap();
}

#[test]
fn what_does_not_answer_is_a_problem() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let target = Target { host: "127.0.0.1".into(), port, timeout: Duration::from_millis(300) };
    let asked = echo::Asked { target, sizes: vec![5], trials: 1, with_newline: false, one_connection: false };
    // The kernel accepts, nobody answers.
    let silent = echo::run(&asked, &GO_ON).unwrap_err();
    assert!(silent.code == "E50" && silent.what.contains("took longer than 0.3 s"), "{silent}");
    drop(listener);
    let nobody = echo::run(&asked, &GO_ON).unwrap_err();
    assert_eq!(nobody.code, "E49", "{nobody}");
}
