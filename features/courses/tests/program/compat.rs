//! `msgpath serve --compat` and `msgpath compat`: golden conversations over sockets that are written here, and everything
//! that a peer must not do.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::command::{Home, LIMIT, Output, Running, free_port, msgpath};
use crate::lab::Lab;

/// Runs it in a locale without Unicode.
#[track_caller]
fn in_ascii(home: &Home, line: &str) -> Output {
    let mut command = home.command(&line.split_whitespace().collect::<Vec<_>>());
    command.env("LC_ALL", "C");
    Running::new(command).finish(LIMIT)
}

/// A compatible server in progress. It listens at a port of its own choice, which it says.
struct Server {
    running: Running,
    port: u16,
    _home: Home,
}

impl Server {
    fn start(options: &str) -> Self {
        let home = Home::new();
        let port = free_port();
        let running = home.start(&format!("serve -p {port} -B 127.0.0.1 --compat {options}"));
        running.until_it_says(&format!("at 127.0.0.1:{port}"));
        Self { running, port, _home: home }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        stream.set_write_timeout(Some(Duration::from_secs(20))).expect("a socket");
        stream
    }

    /// A client of ours against it.
    #[track_caller]
    fn client(&self, peer: &str, words: &str) -> Output {
        in_ascii(&Home::new(), &format!("compat {peer} 127.0.0.1 {} {words}", self.port))
    }

    /// Stops it as Ctrl-C does.
    #[track_caller]
    fn stop(self) -> Output {
        self.running.signal("INT");
        self.running.finish(LIMIT).ends_with(0)
    }
}

/// A server that is written here: one connection, one conversation.
fn peer(talk: impl FnOnce(TcpStream) + Send + 'static) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback");
    let port = listener.local_addr().expect("an address").port();
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        talk(stream);
    });
    (port, thread)
}

fn read_exactly(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).expect("so many bytes");
    bytes
}

/// Whatever comes until the other end closes or resets.
fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

#[test]
fn a_client_of_css432_gets_its_number_in_its_own_order() {
    let server = Server::start("css432");
    for network in [false, true] {
        let mut stream = server.connect();
        let head = if network { 20_u32.to_be_bytes() } else { 20_u32.to_le_bytes() };
        stream.write_all(&head).unwrap();
        for _ in 0..20 {
            stream.write_all(&[7; 1500]).unwrap();
        }
        let number: [u8; 4] = read_exactly(&mut stream, 4).try_into().unwrap();
        let reads = if network { u32::from_be_bytes(number) } else { u32::from_le_bytes(number) };
        assert!((20..=30_000).contains(&reads), "{number:?}");
        // Who does not close gets nothing more but an end.
        let rest = until_closed(&mut stream);
        assert!(rest.is_empty(), "{rest:?}");
    }
    for order in ["host", "network"] {
        server.running.until_it_says(&format!("20 iterations ({order} order)"));
    }
    server.stop();
}

#[test]
fn half_a_message_and_a_number_that_is_none_are_said() {
    let server = Server::start("css432 --message-timeout 1500ms --idle-timeout 1500ms");
    let mut half = server.connect();
    half.write_all(&3_u32.to_le_bytes()).unwrap();
    half.write_all(&[0; 2000]).unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    assert_eq!(until_closed(&mut half), b"");
    server.running.until_it_says("closed after 2000 bytes, in iteration 2 of 3");
    let mut wrong = server.connect();
    wrong.write_all(&[0xff; 4]).unwrap();
    assert_eq!(until_closed(&mut wrong), b"");
    server.running.until_it_says("not a number of repetitions");
    // A client that sends a byte now and then, and one that sends nothing.
    let (mut slow, mut silent) = (server.connect(), server.connect());
    let begun = Instant::now();
    slow.write_all(&3_u32.to_le_bytes()).unwrap();
    while slow.write_all(&[0]).is_ok() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "one byte now and then must not hold a connection");
    assert_eq!(until_closed(&mut silent), b"");
    server.stop().says(&["it took too long"]);
}

#[test]
fn our_client_of_css432_speaks_to_servers_that_others_wrote() {
    for (options, order) in [("", "host"), ("--order network --classic usec", "network")] {
        let (port, thread) = peer(move |mut stream| {
            let head: [u8; 4] = read_exactly(&mut stream, 4).try_into().unwrap();
            let repetition = if order == "host" { u32::from_le_bytes(head) } else { u32::from_be_bytes(head) };
            assert_eq!(repetition, 50);
            read_exactly(&mut stream, 50 * 1500);
            let answer = if order == "host" { 61_u32.to_le_bytes() } else { 61_u32.to_be_bytes() };
            stream.write_all(&answer).unwrap();
        });
        let output = msgpath(
            &[
                &["compat", "css432", "127.0.0.1", &port.to_string(), "50", "100", "15", "1"][..],
                &options.split_whitespace().collect::<Vec<_>>()[..],
            ]
            .concat(),
        )
        .ends_with(0);
        thread.join().unwrap();
        let row = output.out.lines().next().unwrap().to_owned();
        let (unit, digits) = if order == "host" { (" sec, ", 6) } else { (" usec, ", 3) };
        assert!(
            row.starts_with("Test (1): time = ") && row.contains(&format!("{unit}#reads = 61, throughput ")),
            "{row}"
        );
        let number = row.split("throughput ").nth(1).unwrap().strip_suffix(" Gbps").unwrap();
        assert_eq!(number.split_once('.').unwrap().1.len(), digits, "{row}");
        output.shows(&[
            "75000 bytes, multiple writes of 100x15",
            "n/a: this server tells no more",
            "11 more than iterations",
        ]);
    }
}

#[test]
fn the_older_form_sends_no_number_and_has_its_own_words() {
    let server = Server::start("css432 --older 40");
    let port = server.port.to_string();
    let output = msgpath(&["compat", "css432", "--older", &port, "40", "30", "50", "127.0.0.1", "2"]).ends_with(0);
    let row = output.out.lines().next().unwrap();
    assert!(row.starts_with("Test 2: data-sending time = ") && row.contains(" usec, round-trip time = "), "{row}");
    assert!(row.contains(", #reads = "), "{row}");
    output.shows(&["60000 bytes, writev of 30x50", "on its own clock"]);
    server.running.until_it_prints(" usec\n");
    let printed = server.stop();
    assert!(printed.out.starts_with("data-receiving time = ") && printed.out.ends_with(" usec\n"), "{}", printed.out);
}

#[test]
fn all_three_types_against_our_server_tell_the_receivers_clock() {
    let server = Server::start("css432");
    for kind in 1..=3 {
        let output = server.client("css432", &format!("200 100 15 {kind} --json")).ends_with(0).json();
        assert!(output["classic"].as_str().unwrap().starts_with(&format!("Test ({kind}): time = ")), "{output}");
        let (measured, receipt) = (&output["measured"], &output["measured"]["receipt"]);
        assert_eq!((measured["bytes"].as_u64(), receipt["bytes"].as_u64()), (Some(300_000), Some(300_000)));
        assert_eq!(measured["reads"], receipt["reads"]);
        assert!(receipt["full"].as_u64() <= receipt["reads"].as_u64() && receipt["ns"].as_u64() > Some(0), "{output}");
    }
    server.stop().says(&["answered 3 connections"]);
}

#[test]
fn sizes_and_ports_are_checked_before_anything_is_sent() {
    let css432 =
        |words: &str| msgpath(&[&["compat", "css432"][..], &words.split(' ').collect::<Vec<_>>()[..]].concat());
    css432("localhost 78400 20000 100 15 3").ends_with(2).says(&["port 78400 does not exist", "12864", "--wrap-port"]);
    css432("localhost 1 20000 100 16 3").ends_with(2).says(&["100 x 16 is 1600, not 1500", "--message 1600"]);
    css432("localhost 1 20000 100 15 4").ends_with(2).says(&["TYPE is a number from 1 to 3"]);
    css432("localhost 1 0 100 15 3").ends_with(2).says(&["REPETITION"]);
    msgpath(&["serve", "-p", "78400", "--compat", "css432"]).ends_with(2).says(&["12864"]);
    msgpath(&["serve", "--compat", "a1"]).ends_with(2).says(&["--size 1024"]);
    msgpath(&["serve", "--compat", "echo", "--older", "3"]).ends_with(2).says(&["--older belongs to --compat css432"]);
    msgpath(&["serve", "--compat", "echo", "--memory", "2M"])
        .ends_with(2)
        .says(&["--memory has no meaning with --compat"]);
    msgpath(&["serve", "--compat", "echo", "--rpc"]).ends_with(2).says(&["--rpc cannot be used with --compat"]);
    // The wrapped port is used when that is asked for; nobody listens there.
    let wrapped = u64::from(free_port()) + 65_536;
    css432(&format!("127.0.0.1 {wrapped} 20 100 15 3 --wrap-port"))
        .ends_with(3)
        .says(&["E49", &format!("note: port {wrapped} does not exist, {} is used", wrapped - 65_536)]);
}

#[test]
fn lines_come_back_unchanged() {
    let server = Server::start("echo --longest-line 2000 --message-timeout 1500ms");
    let mut stream = server.connect();
    for line in [&b"\0\0\0\n"[..], b"\n", b"\xff\x1b[2J\r\n"] {
        stream.write_all(line).unwrap();
        assert_eq!(read_exactly(&mut stream, line.len()), line);
    }
    stream.write_all(b"two\nlines\nat once").unwrap();
    assert_eq!(read_exactly(&mut stream, 10), b"two\nlines\n");
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(until_closed(&mut stream), b"");
    server.running.until_it_says("5 lines with 22 bytes were echoed, and 7 bytes without an end of line");
    // A line that never ends.
    let mut endless = server.connect();
    let _ = endless.write_all(&[b'x'; 5000]);
    until_closed(&mut endless);
    server.running.until_it_says("a line is longer than 2000 bytes");
    // A line of which a byte comes now and then.
    let mut slow = server.connect();
    let begun = Instant::now();
    while slow.write_all(b"y").is_ok() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "a slow line must not hold a connection");
    server.running.until_it_says("it took too long");
    assert!(!server.stop().err.contains('\x1b'), "what a peer sends is not printed");
}

#[test]
fn trials_fill_the_table_of_the_report() {
    let server = Server::start("echo");
    let output = server.client("echo", "10,1000,10000 -n 4").ends_with(0);
    let lines: Vec<&str> = output.out.lines().collect();
    assert_eq!(
        lines[0].split_whitespace().collect::<Vec<_>>(),
        ["ms", "10", "bytes", "1000", "bytes", "10000", "bytes"]
    );
    for (at, line) in lines[1..5].iter().enumerate() {
        assert!(line.starts_with(&format!("Trial #{}", at + 1)) && line.split_whitespace().count() == 5, "{line}");
    }
    assert!(lines[5].starts_with("Average"), "{}", output.out);
    let output = output.shows(&["a new connection for each trial", "connect", "p90", "retransmits"]);
    assert!(!output.out.contains("n/a"), "{}", output.out);
    let json = server.client("echo", "5 -n 3 --one-connection --with-newline --json").ends_with(0).json();
    let trials = json["sizes"][0]["trials"].as_array().unwrap();
    assert_eq!(trials.iter().filter(|trial| trial["connect_ns"].is_null()).count(), 2, "{json}");
    // Until then it does not know that the client has closed.
    server.running.until_it_says("3 lines with 15 bytes");
    let printed = server.stop();
    assert!(
        printed.err.contains("1 lines with 10001 bytes") && printed.err.contains("3 lines with 15 bytes"),
        "{}",
        printed.err
    );
}

#[test]
fn an_echo_that_differs_is_named() {
    let (port, thread) = peer(|mut stream| {
        read_exactly(&mut stream, 9);
        stream.write_all(b"\0\0\0\0\x1b\0\0\0\n").unwrap();
    });
    let port = port.to_string();
    msgpath(&["compat", "echo", "127.0.0.1", &port, "8", "-n", "1"])
        .ends_with(4)
        .says(&["E50", "differs from byte 4 on: \"\\u{1b}"]);
    thread.join().unwrap();
    let (port, thread) = peer(|mut stream| {
        read_exactly(&mut stream, 9);
        until_closed(&mut stream);
    });
    let port = port.to_string();
    msgpath(&["compat", "echo", "127.0.0.1", &port, "8", "--timeout", "300ms"])
        .ends_with(4)
        .says(&["the peer took longer than 0.3 s", "--timeout"]);
    thread.join().unwrap();
    let port = free_port().to_string();
    msgpath(&["compat", "echo", "127.0.0.1", &port, "8"]).ends_with(3).says(&["E49", "serve --compat"]);
}

#[test]
fn bytes_are_counted_on_both_clocks() {
    let server = Server::start("discard");
    let json = server.client("discard", "--bytes 5M --block 10000 --json").ends_with(0).json();
    assert_eq!((json["bytes"].as_u64(), json["receipt"]["bytes"].as_u64()), (Some(5_000_000), Some(5_000_000)));
    assert!(json["closed_ns"].as_u64() >= json["sending_ns"].as_u64(), "{json}");
    let mut plain = server.connect();
    plain.write_all(&[1; 3000]).unwrap();
    plain.shutdown(Shutdown::Write).unwrap();
    let given = String::from_utf8(until_closed(&mut plain)).unwrap();
    assert!(given.starts_with("msgpath received: bytes=3000 ns=") && given.ends_with('\n'), "{given}");
    server.stop().says(&["5000000 bytes in ", "on", "3000 bytes in "]);
    let silent = Server::start("discard --tell-nothing");
    let output = silent.client("discard", "--bytes 100k").ends_with(0);
    output.shows(&["n/a: this server tells nothing", "the sender's clock until the close"]);
    silent.stop();
}

#[test]
fn primitives_answer_with_eight_fields_of_their_own() {
    for name in ["a1", "a2", "a3"] {
        let server = Server::start(&format!("{name} --size 67"));
        let mut stream = server.connect();
        for _ in 0..3 {
            stream.write_all(&[0x5A; 67]).unwrap();
            let reply = read_exactly(&mut stream, 67);
            let expected: Vec<u8> = (0..8).flat_map(|at| vec![0x2A + at; if at < 7 { 8 } else { 11 }]).collect();
            assert_eq!(reply, expected, "{name}");
        }
        stream.write_all(&[0x5A; 30]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(until_closed(&mut stream), b"");
        server.running.until_it_says("closed within a message, after 30 of 67 bytes");
        let output = server.client("primitives", "67 2 0.3").ends_with(0);
        let line = output.out.lines().next().unwrap();
        let names: Vec<&str> = line.split(' ').filter_map(|word| word.split('=').next()).collect();
        assert_eq!(names, ["TOTAL_BYTES", "TOTAL_MESSAGES", "AVG_LATENCY_US", "THROUGHPUT_GBPS"], "{line}");
        output.shows(&["p50", "implied by throughput x mean, 2 connections", "each way"]);
        let printed = server.stop().says(&["3 messages of 67 bytes were answered"]);
        assert_eq!(
            printed.err.contains("3 zero-copy sends") && printed.err.contains("COPIED"),
            name == "a3",
            "{}",
            printed.err
        );
    }
}

#[test]
fn primitives_against_a_server_that_only_echoes_are_refused() {
    let (port, thread) = peer(|mut stream| {
        let message = read_exactly(&mut stream, 64);
        stream.write_all(&message).unwrap();
    });
    let port = port.to_string();
    msgpath(&["compat", "primitives", "127.0.0.1", &port, "64", "1", "1"])
        .ends_with(4)
        .says(&["field 0 of the reply is \"ZZ", "0x2a"]);
    thread.join().unwrap();
}

#[test]
fn an_interrupt_does_not_wait_for_a_silent_server() {
    for signal in ["INT", "TERM"] {
        let (given, asked) = std::sync::mpsc::channel();
        let (port, thread) = peer(move |mut stream| {
            let message = read_exactly(&mut stream, 64);
            let _ = given.send(message.len());
            until_closed(&mut stream);
        });
        let client = Home::new();
        let client = client.start(&format!("compat primitives 127.0.0.1 {port} 64 1 600"));
        assert_eq!(asked.recv_timeout(Duration::from_secs(60)), Ok(64), "SIG{signal}: nothing was asked");
        client.signal(signal);
        client.finish(LIMIT).ends_with(130);
        thread.join().unwrap();
    }
}

#[test]
fn more_connections_than_allowed_are_turned_away() {
    let server = Server::start("echo --connections 1");
    let mut first = server.connect();
    first.write_all(b"a\n").unwrap();
    assert_eq!(read_exactly(&mut first, 2), b"a\n");
    let mut second = server.connect();
    assert_eq!(until_closed(&mut second), b"");
    first.write_all(b"b\n").unwrap();
    assert_eq!(read_exactly(&mut first, 2), b"b\n");
    server.stop().says(&["turned away, 1 connections are open"]);
}

#[test]
fn rows_of_others_are_read_with_their_unit() {
    let home = Home::new();
    let text = "$ ./client csslab5 78400 20000 100 15 1\n\
                Test (1): time = 0.312501 sec, #reads = 22978, throughput 0.715255 Gbps\n\
                Test (3): time = 11.947940 sec, #reads = 39000, throughput 0.020087 Gbps\n\
                Test 1: data-sending time = 34700usec, round-trip time = 74800usec, #reads = 20122";
    std::fs::write(home.path().join("rows.txt"), text).unwrap();
    let output = in_ascii(&home, "compat read rows.txt").ends_with(0);
    let lines: Vec<&str> = output.out.lines().collect();
    assert_eq!(lines.len(), 4, "{}", output.out);
    assert!(lines[1].contains("768 Mbit/s") && lines[1].contains("in 2^30"), "{}", output.out);
    assert!(lines[2].contains("20.1 Mbit/s") && lines[2].contains("in 10^9"), "{}", output.out);
    assert!(lines[3].contains("3.21 Gbit/s") && lines[3].contains("no throughput printed"), "{}", output.out);
    let json = home.run("compat read rows.txt --json").ends_with(0).json();
    assert_eq!((json["rows"][0]["unit"].as_str(), json["rows"][1]["unit"].as_str()), (Some("binary"), Some("si")));
    std::fs::write(home.path().join("none.txt"), "nothing").unwrap();
    home.run("compat read none.txt").ends_with(3).says(&["E50", "no row"]);
}

/// A sender as students write it: frames by a packet socket, numbers from 1; the third is left out, the fifth sent twice.
const VEHICLE: &str = "
import socket, struct, sys, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
head = b'\\xff' * 6 + s.getsockname()[4] + struct.pack('!H', 0x88b5)
for number in [1, 2, 4, 5, 5, 6]:
    for sender in [3, 9]:
        s.send(head + struct.pack('=QIi', time.time_ns() // 1000, sender, number) + bytes(34))
s.send(head + b'short')
s.send(head[:12] + struct.pack('!H', 0x88b6) + bytes(46))
";

/// Frames of somebody else's program over a veth pair, from one namespace to the other.
#[test]
fn frames_of_vehicles_are_received() {
    let home = Home::new();
    let Some(lab) = Lab::up(&home, "v", "") else { return };
    let python = Command::new("python3").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !python.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: no python3");
    }
    let within = |end: &str, program: &Command| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("msgpath-{}-{end}", lab.name())]).arg(program.get_program());
        command.args(program.get_args()).current_dir(home.path()).stdin(Stdio::null());
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    };
    let addresses = within("a", Command::new("ip").args(["-o", "link"])).output().unwrap();
    let device = String::from_utf8_lossy(&addresses.stdout).lines().find_map(|line| {
        let name = line.split(": ").nth(1)?;
        name.contains('@').then(|| name.split('@').next().unwrap_or_default().to_owned())
    });
    let device = device.expect("a lab has a veth pair");
    let receive = |options: &str| {
        let line = format!("compat frames {device} -t 30s {options}");
        let words: Vec<&str> = line.split_whitespace().collect();
        // The kernel says a little later that a new link has a carrier.
        for _ in 0..50 {
            let mut command = within("b", &home.command(&words));
            command.env("LC_ALL", "C");
            let running = Running::new(command);
            match running.says_or_ends("listening on", Duration::from_secs(20)) {
                Ok(running) => return running,
                Err(output) if output.err.contains("no carrier") => std::thread::sleep(Duration::from_millis(100)),
                Err(output) => panic!("{}", output.err),
            }
        }
        panic!("{device} has no carrier");
    };
    let send = || {
        let status = within("a", Command::new("python3").args(["-c", VEHICLE, &device])).status().unwrap();
        assert!(status.success());
    };
    let receiver = receive("-c 12");
    send();
    let output = receiver.finish(LIMIT).ends_with(0);
    let listed = output.out.lines().filter(|line| line.starts_with("From sender ")).count();
    assert_eq!(
        (listed, output.out.lines().next()),
        (12, Some(&*format!("[Receiver] Listening on interface: {device}")))
    );
    let row = |sender: &str| {
        let mut rows = output.out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        rows.find(|row| row.first() == Some(&sender) && row.len() > 5).unwrap()[..6].to_vec()
    };
    // Frames, numbers, missing, twice, late.
    assert_eq!(row("3"), ["3", "6", "1-6", "1", "1", "0"], "{}", output.out);
    assert_eq!(row("9"), ["9", "6", "1-6", "1", "1", "0"]);
    // A signal ends it, and what came is told all the same.
    let receiver = receive("-c 1000 --json");
    send();
    std::thread::sleep(Duration::from_secs(3));
    receiver.signal("INT");
    let heard = receiver.finish(LIMIT).ends_with(130).json();
    assert_eq!(heard["heard"]["arrivals"].as_array().unwrap().len(), 12);
    assert_eq!(
        (heard["heard"]["others"].as_u64(), heard["heard"]["arrivals"][0]["bytes"].as_u64()),
        (Some(1), Some(64))
    );
    // Nothing at all is not success.
    let line = format!("compat frames {device} -t 200ms");
    let words: Vec<&str> = line.split_whitespace().collect();
    let quiet = Running::new(within("b", &home.command(&words))).finish(LIMIT);
    quiet.ends_with(4).says(&["no frame came", "started after this"]);
}

#[test]
fn a_receiver_of_frames_says_what_it_cannot_do() {
    let home = Home::new();
    home.run("compat frames nosuch0").ends_with(3).says(&["no interface nosuch0"]);
    home.run("compat frames lo --ethertype 0x0800").ends_with(3).says(&["IPv4", "0x88b5"]);
    home.run("compat frames lo -c 0").ends_with(2).says(&["1 to 1000000"]);
    home.run("compat frames").ends_with(2);
}
