//! A far end that lies: its impossible figures end the run, and nothing of them is printed as a result.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use msgpath_agent::greeting::GREETING;
use msgpath_agent::wire::{self, FromEnd};
use msgpath_core::schema::{EndReport, Granted, KernelCounts, ThreadRecord};

use crate::command::{Home, Running, free_port, harmless};

type Lie = fn(&mut EndReport, &mut [ThreadRecord]);

/// Stands between a near end and a real `serve`, and changes what `serve` says.
struct Liar {
    address: SocketAddr,
    talk: JoinHandle<()>,
}

impl Liar {
    fn new(serve: SocketAddr, lie: impl Fn(&mut FromEnd) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let talk = std::thread::spawn(move || {
            let (near, _) = listener.accept().unwrap();
            let far = TcpStream::connect(serve).unwrap();
            for stream in [&near, &far] {
                stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                stream.set_nodelay(true).unwrap();
            }
            let (mut from_near, mut to_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            let orders = std::thread::spawn(move || {
                let _ = std::io::copy(&mut from_near, &mut to_far);
                let _ = to_far.shutdown(std::net::Shutdown::Write);
            });
            answers(near, far, lie);
            orders.join().unwrap();
        });
        Self { address, talk }
    }
}

/// What the far end says, until one of the two has gone.
fn answers(mut near: TcpStream, mut far: TcpStream, lie: impl Fn(&mut FromEnd)) {
    let mut greeting = [0; GREETING.len()];
    far.read_exact(&mut greeting).unwrap();
    near.write_all(&greeting).unwrap();
    while let Ok(Some((mut message, bytes))) = wire::read::<FromEnd>(&mut far) {
        lie(&mut message);
        if wire::write(&mut near, &message, &bytes).is_err() {
            break;
        }
    }
    let _ = near.shutdown(std::net::Shutdown::Both);
}

fn serve(home: &Home) -> (Running, SocketAddr) {
    let free = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let running = home.start(&format!("serve {free}"));
    running.until_it_says("serving at");
    (running, free)
}

/// The lie about a round.
fn of_a_round(lie: Lie) -> impl Fn(&mut FromEnd) {
    move |message| {
        if let FromEnd::Done { report, threads, .. } = message {
            lie(report, threads);
        }
    }
}

#[test]
fn a_far_end_that_lies_ends_the_run_and_is_no_result() {
    let lies: [(&str, Lie); 9] = [
        ("nothing but the truth", |_, _| ()),
        ("messages received", |far, _| far.delivery.received = 699_050_492_000),
        ("1 messages received, and at least", |far, _| {
            (far.delivery.received, far.bytes_received) = (1, 4096);
        }),
        ("bytes received", |far, _| far.bytes_received = u64::MAX),
        ("ms within", |far, _| far.elapsed_ns = u64::MAX),
        ("faster than memory", |far, _| far.elapsed_ns = 1),
        ("of CPU time", |far, _| (far.user_ns, far.system_ns) = (u64::MAX, u64::MAX)),
        ("of waiting for a CPU", |far, _| far.run_delay_ns = Some(2_206_333_548_000_000_000)),
        ("threads listed of 1", |_, _| ()),
    ];
    let home = Home::new();
    let (_running, address) = serve(&home);
    for verb in ["echo", "stream"] {
        for (says, lie) in lies {
            let one_more = says.starts_with("threads listed");
            let liar = Liar::new(address, move |message| match message {
                FromEnd::Done { threads, .. } if one_more => threads.push(ThreadRecord::default()),
                message => of_a_round(lie)(message),
            });
            let output = home.run(&format!("{verb} {} -x tcp:send -l 4K -c 200 -r 3 -w 0 --no-save", liar.address));
            liar.talk.join().unwrap();
            if says == lies[0].0 {
                output.ends_with(0);
                continue;
            }
            let output = output.ends_with(4).says(&["error[E57]", "the far end reports what cannot be", says]);
            assert_eq!(output.out, "", "{verb}, {says}: no result");
        }
    }
}

#[test]
fn a_far_end_cannot_lie_about_one_of_its_threads() {
    let lies: [(&str, Lie); 4] = [
        ("nothing but the truth", |_, _| ()),
        ("1 messages sent, of which", |far, threads| {
            (far.delivery.sent, far.bytes_sent) = (1, 4096);
            threads.iter_mut().for_each(|thread| thread.report.delivery.sent = 0);
        }),
        ("messages received in all", |_, threads| threads[0].report.delivery.received = 0),
        ("involuntary switches in all", |_, threads| threads[1].report.involuntary_switches = 1 << 40),
    ];
    let home = Home::new();
    let (_running, address) = serve(&home);
    for (says, lie) in lies {
        let liar = Liar::new(address, of_a_round(lie));
        let line = format!("echo {} -x tcp:send -l 4K -P 2 -T 2 -c 100 -r 3 -w 0 --no-save", liar.address);
        let output = home.run(&line);
        liar.talk.join().unwrap();
        match says == lies[0].0 {
            true => drop(output.ends_with(0)),
            false => assert_eq!(output.ends_with(4).says(&["error[E57]", says]).out, "", "{says}: no result"),
        }
    }
}

/// A text that would clear the screen, name the window and turn the direction of writing.
const HOSTILE: &str = "evil\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\nerror[E00]: forged";

#[test]
fn what_a_far_end_calls_itself_moves_no_cursor() {
    let home = Home::new();
    let (_running, address) = serve(&home);
    for (verb, paths) in [("echo", ""), ("stream", ""), ("compare", "tcp:send,tcp:write")] {
        let liar = Liar::new(address, |message| match message {
            FromEnd::Hello { environment, .. } => {
                let hostile = || HOSTILE.to_owned();
                (environment.host, environment.kernel, environment.cpu) = (hostile(), hostile(), hostile());
                environment.facts.values_mut().for_each(|value| *value = hostile());
                environment.facts.insert(hostile(), hostile());
            }
            FromEnd::Ready { granted, .. } => {
                let text = || HOSTILE.to_owned();
                granted.push(Granted { end: text(), option: text(), asked: text(), granted: text(), same: false });
            }
            _ => (),
        });
        let name = format!("hostile-{verb}");
        let to = liar.address;
        let measured = home.run(&format!("{verb} {paths} {to} -l 64 -c 200 -r 3 -w 0 -v --name {name}")).ends_with(0);
        liar.talk.join().unwrap();
        let shown = home.run(&format!("show {name} -v")).ends_with(0);
        for output in [measured, shown] {
            let escaped = "evil\\u{1b}[2J\\u{1b}]0;title\\u{7}\\u{9b}31m\\u{202e}\\nerror[E00]: forged";
            assert!(output.out.contains(escaped), "{verb}: the machines are listed:\n{}", output.out);
            assert!(harmless(&output.out) && harmless(&output.err), "{verb}:\n{:?}\n{:?}", output.out, output.err);
        }
    }
}

/// Two of five rounds are said to be disturbed. Its threads are more than the CPUs, so that nothing is judged by how long they waited,
/// whatever else runs here.
#[test]
fn a_run_goes_on_where_too_few_of_its_rounds_are_calm() {
    let home = Home::new();
    let (_running, address) = serve(&home);
    let rounds = |options: &str| {
        let seen = AtomicU32::new(0);
        let liar = Liar::new(address, move |message| {
            let FromEnd::Done { kernel: KernelCounts(counts), .. } = message else { return };
            if seen.fetch_add(1, Ordering::Relaxed) % 5 < 2 {
                counts.insert("cgroup.nr_throttled".into(), 1);
                counts.insert("cgroup.throttled_usec".into(), 1_000_000);
            }
        });
        let many = "-l 64 -P 32 -T 32 --cpu none -t 0.1s -w 0 --no-ablations --no-save -v";
        let output = home.run(&format!("echo {} -x tcp:send {many} {options}", liar.address)).ends_with(0);
        liar.talk.join().unwrap();
        // Where its lines break depends on what else disturbed it.
        output.out.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let on = rounds("");
    assert!(on.contains("; the run went on for"), "{on}");
    let planned = rounds("--no-extend");
    assert!(planned.contains("calm rounds:") && !planned.contains("went on for"), "{planned}");
}
