//! Servers that are not `msgpath serve`: msgpath says who they are, and they live on.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::printed::Value;
use msgpath_rpc::{Header, MARKER_BYTES, Marker, Method, RPC_HEADER_BYTES};

use crate::command::Home;

/// What a server does with a connection; returns what it read.
type Serve = fn(TcpStream) -> Vec<u8>;

/// A server that serves one connection after the other, and is dead where one of them makes it panic.
struct Server {
    address: SocketAddr,
    /// What each connection has sent.
    read: Receiver<Vec<u8>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn new(serve: Serve) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, read) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map(Result::unwrap) {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                let _ = sender.send(serve(stream));
            }
        });
        Self { address, read, stop, thread: Some(thread) }
    }

    /// Ends it; whether it was alive until now.
    fn end(mut self) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        let knocked = TcpStream::connect(self.address).is_ok();
        let ended = self.thread.take().is_some_and(|thread| thread.join().is_ok());
        knocked && ended
    }
}

/// As server4 serves a connection: it ends, here in a panic, at a marker that is none, and closes where the client does.
fn server4(mut stream: TcpStream) -> Vec<u8> {
    let mut read = Vec::new();
    loop {
        let mut message = vec![0; MARKER_BYTES];
        for at in 0..MARKER_BYTES {
            match stream.read(&mut message[at..=at]) {
                Ok(1) => read.push(message[at]),
                Ok(_) => return read,
                Err(error) => panic!("server4 ends of a reset: {error}"),
            }
        }
        let marker = Marker::parse(message.first_chunk().unwrap()).expect("Invalid marker received");
        message.resize(MARKER_BYTES + (marker.header + marker.body) as usize, 0);
        match stream.read_exact(&mut message[MARKER_BYTES..]) {
            Ok(()) => read.extend(&message[MARKER_BYTES..]),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return read,
            Err(error) => panic!("server4 ends of a reset: {error}"),
        }
        stream.write_all(&message).expect("the client waits for its reply");
    }
}

fn echo(mut stream: TcpStream) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), [0; 512]);
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        all.extend(&buffer[..length]);
        if stream.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    all
}

fn closes(stream: TcpStream) -> Vec<u8> {
    drop(stream);
    Vec::new()
}

/// Check 22 as doctor says it of a server.
fn who(home: &Home, address: SocketAddr) -> Value {
    let doctor = home.run(&format!("doctor {address} --json")).ends_with(0).json();
    let check = doctor["checks"].as_array().unwrap().iter().find(|check| check["number"] == 22);
    check.unwrap_or_else(|| panic!("nobody is named: {doctor}")).clone()
}

/// One doctor at a time: a server is given 300 ms for each answer, and each doctor takes a CPU.
static ALONE: Mutex<()> = Mutex::new(());

#[track_caller]
fn is_named(serve: Serve, what: &str, cure: &str) {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (home, server) = (Home::new(), Server::new(serve));
    // A server that gets no CPU for 300 ms says nothing in time: it is asked again.
    let mut text = Value::Null;
    for _ in 0..5 {
        text = who(&home, server.address);
        if !text["what"].as_str().unwrap().contains("says nothing") {
            break;
        }
    }
    let expected = format!("{what}; it is not msgpath serve, so the far end was not examined");
    assert_eq!((text["what"].as_str(), text["state"].as_str()), (Some(expected.as_str()), Some("warn")), "{text}");
    assert_eq!(
        text["cure"],
        cure.replace("ADDR", &server.address.to_string())
            .replace("HOST", &server.address.ip().to_string())
            .replace("PORT", &server.address.port().to_string())
    );
    assert!(server.end(), "doctor has ended it");
}

#[test]
fn doctor_names_a_server_of_the_lab_and_leaves_it_alive() {
    is_named(server4, "an RPC server of the lab: it answered a ping", "to measure it: msgpath rpc ADDR -k 1000 ping");
}

#[test]
fn doctor_names_an_echo_and_leaves_it_alive() {
    is_named(echo, "an echo server", "to measure it: msgpath compat echo HOST PORT 64,1000");
}

#[test]
fn doctor_names_what_closes() {
    is_named(closes, "something that closes the connection", "msgpath serve   on the far machine");
}

#[test]
fn a_run_against_a_server_of_the_lab_says_so_and_sends_it_nothing() {
    let (home, server) = (Home::new(), Server::new(server4));
    let address = server.address;
    for verb in ["echo", "stream", "compare -x tcp:send"] {
        let output = home.run(&format!("{verb} {address} -c 20 -r 3 -w 0 --no-save")).ends_with(3);
        assert_eq!(output.out, "");
        output.says(&[
            &format!("error[E03]: something listens at {address}, but it is not msgpath serve"),
            "it said nothing for 5 s; msgpath sent it nothing",
            &format!("msgpath doctor {address}   says who answers there"),
        ]);
        assert_eq!(server.read.recv_timeout(Duration::from_secs(60)).unwrap(), b"", "{verb}");
    }
    // It answers a ping as before.
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let header = Header { rpcid: 1, method: Method::new("ping"), ..Header::default() };
    let mut ping = Marker { header: RPC_HEADER_BYTES as u32, body: 0 }.to_bytes().to_vec();
    ping.extend(header.to_bytes());
    stream.write_all(&ping).unwrap();
    let mut answer = vec![0; ping.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, ping);
    drop(stream);
    assert!(server.end(), "the run has ended it");
}
