//! Far ends that are not what they should be: one that changes a byte of a reply, one of another version, one that
//! hangs up. They speak the real protocol over a real socket.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use msgpath_agent::greeting::GREETING;
use msgpath_agent::wire::{self, FromEnd, Opening, RoundOrder, ToEnd};
use msgpath_core::schema::{EndReport, Environment};

use crate::command::{Home, Output};

/// A connection says first which one it is: 16 bytes, offered in hexadecimal.
const KEY_DIGITS: usize = 32;

/// What is wrong with a far end.
#[derive(Clone, Copy)]
enum Fault {
    /// The reply to this message of the second round (the first is the pilot) has this byte inverted.
    Byte { message: u64, at: usize },
    /// The second round repeats an old reply instead of the one to this message.
    Stale { message: u64 },
    /// It says that it is another version.
    Version,
    /// It hangs up when the second round is to begin.
    HangsUp,
    /// It answers with a frame that means something else.
    OutOfTurn,
}

/// Starts a far end for one near end; the port, and its thread.
fn far_end(fault: Fault) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        answer(&mut stream, fault);
    });
    (port, thread)
}

/// The session, until the near end goes away.
fn answer(control: &mut TcpStream, fault: Fault) {
    let say = |control: &mut TcpStream, message: &FromEnd| wire::write(control, message, &[]).is_ok();
    let mut offered = None;
    let mut rounds = 0;
    let mut echo: Option<JoinHandle<EndReport>> = None;
    control.write_all(&GREETING).unwrap();
    wire::write(control, &Opening::Open, &[]).unwrap();
    while let Ok(Some((message, _))) = wire::read::<ToEnd>(control) {
        let answer = match message {
            ToEnd::Examine(_) => FromEnd::Examined { checks: Vec::new() },
            ToEnd::Hello { .. } => {
                let version = if matches!(fault, Fault::Version) { "9.9.9" } else { env!("CARGO_PKG_VERSION") };
                FromEnd::Hello {
                    version: version.into(),
                    environment: Box::<Environment>::default(),
                    cpus: vec![0],
                    counters: Vec::new(),
                    events: Box::default(),
                }
            }
            ToEnd::Round(_) if matches!(fault, Fault::OutOfTurn) => FromEnd::ready(),
            ToEnd::Round(order) => {
                // A probe of four messages asks before the pilot whether messages get through.
                rounds += u32::from(rounds > 0 || order.messages != 4);
                if rounds == 2 && matches!(fault, Fault::HangsUp) {
                    return;
                }
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let addresses = vec![format!("{} {:0KEY_DIGITS$x}", listener.local_addr().unwrap(), 7)];
                offered = Some((listener, order));
                FromEnd::Offered { addresses, program: None }
            }
            ToEnd::Connect { .. } => {
                let (listener, order) = offered.take().expect("a round was ordered");
                let (mut stream, _) = listener.accept().unwrap();
                stream.read_exact(&mut [0; KEY_DIGITS / 2]).unwrap();
                echo = Some(std::thread::spawn(move || echoes(stream, &order, fault, rounds == 2)));
                FromEnd::ready()
            }
            ToEnd::Finish => {
                let report = echo.take().expect("a round was begun").join().unwrap();
                FromEnd::Done {
                    report: Box::new(report),
                    kernel: Default::default(),
                    watched_ns: 1,
                    speed_ns: 1,
                    stamps: Box::default(),
                    events: Default::default(),
                    threads: Vec::new(),
                    times: None,
                }
            }
            ToEnd::Alive => continue,
            ToEnd::Bye => return,
            order => panic!("{order:?} is for a near end"),
        };
        if !say(control, &answer) {
            return;
        }
    }
}

/// Echoes until the near end closes.
fn echoes(mut stream: TcpStream, order: &RoundOrder, fault: Fault, faulty: bool) -> EndReport {
    let mut message = vec![0; order.pieces.total() as usize];
    let mut old = message.clone();
    let mut report = EndReport { elapsed_ns: 1_000, ..EndReport::default() };
    for number in 0..order.trim + order.messages {
        if stream.read_exact(&mut message).is_err() {
            break;
        }
        match fault {
            Fault::Byte { message: wrong, at } if faulty && number == wrong => message[at] ^= 0xff,
            Fault::Stale { message: wrong } if faulty && number == wrong => message.clone_from(&old),
            _ => old.clone_from(&message),
        }
        if stream.write_all(&message).is_err() {
            break;
        }
        if number >= order.trim {
            report.delivery.received += 1;
            report.delivery.sent += 1;
            report.bytes_received += order.pieces.total();
            report.bytes_sent += order.pieces.total();
        }
    }
    report
}

/// Measures with such a far end: 40 messages after the pilot.
fn measured(fault: Fault, options: &str) -> (Home, Output) {
    let home = Home::new();
    let (port, thread) = far_end(fault);
    let output = home.run(&format!("echo 127.0.0.1:{port} -c 40 -r 1 -w 0 --name checked {options}"));
    thread.join().expect("the far end of the test");
    (home, output)
}

#[test]
fn a_reply_that_differs_ends_the_run_with_the_byte_named() {
    for (message, at) in [(5, 17), (0, 63), (39, 8), (11, 3)] {
        let (home, output) = measured(Fault::Byte { message, at }, "");
        let first =
            output.ends_with(4).err.lines().find(|line| line.starts_with("error[")).unwrap_or_default().to_string();
        let named = format!("error[E06]: message {message} came back different: byte {at} sent 0x");
        assert!(first.starts_with(&named), "{first}");
        let bytes: Vec<u8> =
            first.match_indices("0x").map(|(at, _)| u8::from_str_radix(&first[at + 2..at + 4], 16).unwrap()).collect();
        assert!(matches!(bytes[..], [sent, got] if sent == !got), "{first}");
        assert_eq!(home.run("show checked --json").ends_with(0).json()["status"], "failed");
    }
}

#[test]
fn a_difference_is_found_whatever_the_load() {
    for options in
        ["--inflight 4", "-x tcp:writev --pieces 8x8", "-x tcp:send/poll", "-l 1K --reply 1K", "-o stamps=both"]
    {
        let (_, output) = measured(Fault::Byte { message: 20, at: 40 }, options);
        output.ends_with(4).says(&["error[E06]: message 20 came back different: byte 40 sent"]);
    }
}

#[test]
fn a_failure_is_an_object_under_json() {
    let (_, output) = measured(Fault::Byte { message: 1, at: 9 }, "--json");
    let value = output.ends_with(4).json();
    assert_eq!(value["status"], "failed");
    assert_eq!(value["error"]["code"], "E06");
    assert!(value["error"]["message"].as_str().unwrap().contains("byte 9"), "{value}");
}

#[test]
fn the_reply_to_another_message_is_a_wrong_reply() {
    // Byte 0 holds the low bits of the number.
    let (_, output) = measured(Fault::Stale { message: 7 }, "");
    output.ends_with(4).says(&["error[E06]: message 7 came back different: byte 0 sent 0x07, got 0x06"]);
}

#[test]
fn an_honest_far_end_of_the_test_passes() {
    // Proves that the others fail for their fault alone.
    let (_, output) = measured(Fault::Byte { message: u64::MAX, at: 0 }, "--json");
    let value = output.ends_with(0).json();
    assert_eq!(value["cases"][0]["delivery"]["verified"], 40);
}

#[test]
fn far_ends_that_are_something_else() {
    let (_, output) = measured(Fault::Version, "");
    output.ends_with(3).says(&["error[E03]", "9.9.9", "the same version at both ends"]);
    let (_, output) = measured(Fault::OutOfTurn, "");
    output.ends_with(3).says(&["error[E03]", "what was not asked"]);
    let (_, output) = measured(Fault::HangsUp, "");
    output.ends_with(4).says(&["error[E17]", "the far end vanished"]);
}
