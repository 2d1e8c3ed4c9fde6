//! The bare loops that msgpath is compared with: the same system calls between two processes, pinned to the same CPUs,
//! with two clock readings a message and nothing else.
//! The far end is the benchmark's own program, started again. Shared memory is a flag and a copy: msgpath's ring is not in it.
#![allow(clippy::print_stderr, clippy::print_stdout)]
#![allow(dead_code)] // each benchmark uses its part

use std::fs::File;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Once, OnceLock};

use msgpath_core::Workload;
use msgpath_core::plan::{Extent, Placement};
use msgpath_core::units::Pieces;
use msgpath_core::{Case, PathName, Plan, Target};
use msgpath_record::Run;
use msgpath_run::{Progress, Request};
use msgpath_sys::flag::Flagged;
use msgpath_sys::msg::{self, SendFlags};
use msgpath_sys::{affinity, clock};

/// All CPUs of this process before any thread was pinned.
fn all_cpus() -> &'static [u32] {
    static ALL: OnceLock<Vec<u32>> = OnceLock::new();
    ALL.get_or_init(msgpath_agent::environment::cpu_order)
}

/// CPUs of the two ends: the ones msgpath chooses itself.
pub fn cpus() -> (u32, u32) {
    let order = all_cpus();
    (order[0], *order.get(1).unwrap_or(&order[0]))
}

/// Whoever starts threads or processes next must not inherit the CPU of a bare loop.
fn unpin() {
    affinity::pin(all_cpus()).expect("allowed CPUs");
}

/// With `--second-thread` the bare programs get a thread that does nothing, as every program with threads has: the
/// kernel then counts references to the descriptor in each call, which costs a spinning loop a few percent.
fn second_thread() {
    static ONCE: Once = Once::new();
    if std::env::args().any(|word| word == "--second-thread") {
        ONCE.call_once(|| {
            std::thread::spawn(|| {
                loop {
                    std::thread::park();
                }
            });
        });
    }
}

fn pin(cpu: u32) {
    affinity::pin(&[cpu]).expect("an allowed CPU");
}

fn recv_exact(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> bool {
    let mut got = 0;
    while got < buffer.len() {
        match msg::recv(fd, &mut buffer[got..]) {
            Ok(0) | Err(_) => return false,
            Ok(more) => got += more,
        }
    }
    true
}

fn recv_spin(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> bool {
    let mut got = 0;
    while got < buffer.len() {
        match msg::recv_now(fd, &mut buffer[got..]) {
            Ok(0) => return false,
            Ok(more) => got += more,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(_) => return false,
        }
    }
    true
}

fn read_exact(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> bool {
    let mut got = 0;
    while got < buffer.len() {
        match msg::read(fd, &mut buffer[got..]) {
            Ok(0) | Err(_) => return false,
            Ok(more) => got += more,
        }
    }
    true
}

/// The far end: `--bare-far KIND ADDRESS SIZE CPU`. Returns whether this process is one.
pub fn is_far_end() -> bool {
    let words: Vec<String> = std::env::args().collect();
    if words.iter().any(|word| word == "__agent") {
        msgpath_agent::started(); // msgpath starts its far end as the program that it is part of
        return true;
    }
    let Some(at) = words.iter().position(|word| word == "--bare-far") else { return false };
    let [kind, address, size, cpu, parent] = &words[at + 1..at + 6] else { panic!("five words follow --bare-far") };
    // Some of these loops have no end of their own.
    if msgpath_sys::signal::die_with_parent(parent.parse().expect("a process id")).is_err() {
        return true;
    }
    second_thread();
    let mut buffer = vec![0; size.parse().expect("a size")];
    pin(cpu.parse().expect("a CPU"));
    match kind.as_str() {
        "tcp-block" | "tcp-spin" => {
            let stream = TcpStream::connect(address.as_str()).expect("the near end listens");
            stream.set_nodelay(true).expect("TCP_NODELAY");
            let spin = kind == "tcp-spin";
            let receive = |buffer: &mut [u8]| match spin {
                true => recv_spin(stream.as_fd(), buffer),
                false => recv_exact(stream.as_fd(), buffer),
            };
            while receive(&mut buffer) && msg::send(stream.as_fd(), &buffer, SendFlags::default()).is_ok() {}
        }
        "udp-block" => {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
            socket.connect(address.as_str()).expect("the near end is bound");
            socket.send(&buffer).expect("says where it is");
            while msg::recv(socket.as_fd(), &mut buffer).is_ok()
                && msg::send(socket.as_fd(), &buffer, SendFlags::default()).is_ok()
            {}
        }
        "tcp-sink" => {
            let stream = TcpStream::connect(address.as_str()).expect("the near end listens");
            while msg::recv(stream.as_fd(), &mut buffer).is_ok_and(|got| got > 0) {}
        }
        "unix-block" => {
            let stream = UnixStream::connect(address).expect("the near end listens");
            while recv_exact(stream.as_fd(), &mut buffer)
                && msg::send(stream.as_fd(), &buffer, SendFlags::default()).is_ok()
            {}
        }
        "pipe-block" => {
            let (input, output) = (std::io::stdin(), std::io::stdout());
            while read_exact(input.as_fd(), &mut buffer) && msg::write(output.as_fd(), &buffer).is_ok() {}
        }
        "shm-futex" => {
            let mut memory = flagged(address, buffer.len());
            while memory.recv_asleep(&mut buffer).is_ok() {
                memory.send(&buffer);
                memory.wake().expect("futex");
            }
        }
        "shm-spin" => {
            let mut memory = flagged(address, buffer.len());
            let end = clock::now() + 20_000_000_000;
            loop {
                let mut spins = 0_u32;
                while !memory.try_recv(&mut buffer) {
                    std::hint::spin_loop();
                    spins += 1;
                    if spins & 0xfffff == 0 && clock::now() > end {
                        return true;
                    }
                }
                if buffer[0] == 0xff {
                    return true; // the near end says bye
                }
                memory.send(&buffer);
            }
        }
        other => panic!("{other} is not a bare loop"),
    }
    true
}

/// The near end's memory.
fn flagged(address: &str, size: usize) -> Flagged {
    let fd: OwnedFd = File::options().read(true).write(true).open(address).expect("the near end's memfd").into();
    Flagged::attach(&fd, size).expect("the near end's memory")
}

fn spawn_far(kind: &str, address: &str, size: usize, cpu: u32) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("own program"));
    command.args(["--bare-far", kind, address, &size.to_string(), &cpu.to_string(), &std::process::id().to_string()]);
    if std::env::args().any(|word| word == "--second-thread") {
        command.arg("--second-thread");
    }
    if kind == "pipe-block" {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
    }
    command.spawn().expect("the far end starts")
}

/// Where another process finds a descriptor of this one.
fn descriptor(fd: &OwnedFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd())
}

/// Median of a bare round trip, ns: `count` messages after `trim`, one stamp pair around `batch` of them.
pub fn echo(kind: &str, size: usize, count: usize, trim: usize, batch: usize) -> f64 {
    second_thread();
    let (near, far) = cpus();
    let mut buffer = vec![0x5a; size];
    let mut rows = vec![0_u64; count / batch];
    let mut run = |exchange: &mut dyn FnMut(&mut [u8]) -> bool| {
        pin(near);
        for _ in 0..trim {
            assert!(exchange(&mut buffer));
        }
        for row in &mut rows {
            let start = clock::now();
            for _ in 0..batch {
                assert!(exchange(&mut buffer));
            }
            *row = (clock::now() - start) / batch as u64;
        }
    };
    let mut child;
    match kind {
        "tcp-block" | "tcp-spin" => {
            let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
            child = spawn_far(kind, &listener.local_addr().expect("bound").to_string(), size, far);
            let (stream, _) = listener.accept().expect("the far end connects");
            stream.set_nodelay(true).expect("TCP_NODELAY");
            let fd = stream.as_fd();
            // The choice is made outside the loop, as msgpath makes it.
            if kind == "tcp-spin" {
                run(&mut |buffer| msg::send(fd, buffer, SendFlags::default()).is_ok() && recv_spin(fd, buffer));
            } else {
                run(&mut |buffer| msg::send(fd, buffer, SendFlags::default()).is_ok() && recv_exact(fd, buffer));
            }
        }
        "unix-block" => {
            let path = std::env::temp_dir().join(format!("msgpath-bench-{}", std::process::id()));
            let _ = std::fs::remove_file(&path);
            let listener = UnixListener::bind(&path).expect("a socket in the temporary folder");
            child = spawn_far(kind, &path.display().to_string(), size, far);
            let (stream, _) = listener.accept().expect("the far end connects");
            let _ = std::fs::remove_file(&path);
            let fd = stream.as_fd();
            run(&mut |buffer| msg::send(fd, buffer, SendFlags::default()).is_ok() && recv_exact(fd, buffer));
        }
        "pipe-block" => {
            child = spawn_far(kind, "-", size, far);
            let (write, read) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
            run(&mut |buffer| msg::write(write.as_fd(), buffer).is_ok() && read_exact(read.as_fd(), buffer));
        }
        "udp-block" => {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
            child = spawn_far(kind, &socket.local_addr().expect("bound").to_string(), size, far);
            let (_, from) = socket.recv_from(&mut vec![0; size]).expect("the far end says where it is");
            socket.connect(from).expect("loopback");
            let fd = socket.as_fd();
            run(&mut |buffer| msg::send(fd, buffer, SendFlags::default()).is_ok() && msg::recv(fd, buffer).is_ok());
            child.kill().expect("our own child");
        }
        "shm-futex" => {
            let (fd, mut memory) = Flagged::create(size).expect("a memfd");
            child = spawn_far(kind, &descriptor(&fd), size, far);
            run(&mut |buffer| {
                memory.send(buffer);
                memory.wake().is_ok() && memory.recv_asleep(buffer).is_ok()
            });
            child.kill().expect("our own child");
        }
        "shm-spin" => {
            let (fd, mut memory) = Flagged::create(size).expect("a memfd");
            child = spawn_far(kind, &descriptor(&fd), size, far);
            run(&mut |buffer| {
                memory.send(buffer);
                let mut spins = 0_u64;
                while !memory.try_recv(buffer) {
                    std::hint::spin_loop();
                    spins += 1;
                    assert!(spins < 10_000_000_000, "the far end does not answer");
                }
                true
            });
            memory.send(&vec![0xff; size]);
        }
        other => panic!("{other} is not a bare loop"),
    }
    child.wait().expect("the far end ends");
    unpin();
    rows.sort_unstable();
    rows[rows.len() / 2] as f64
}

/// Throughput of a bare send loop, bits per second on the sender's clock, until the receiver has closed, whose receive calls ask
/// for `read` bytes.
pub fn stream(size: usize, read: usize, count: usize) -> f64 {
    let (near, far) = cpus();
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let mut child = spawn_far("tcp-sink", &listener.local_addr().expect("bound").to_string(), read, far);
    let (stream, _) = listener.accept().expect("the far end connects");
    stream.set_nodelay(true).expect("TCP_NODELAY");
    pin(near);
    let buffer = vec![0x5a; size];
    let send_all = || {
        let mut done = 0;
        while done < size {
            done += msg::send(stream.as_fd(), &buffer[done..], SendFlags::default()).expect("the far end reads");
        }
    };
    (0..count / 10).for_each(|_| send_all());
    let start = clock::now();
    (0..count).for_each(|_| send_all());
    stream.shutdown(std::net::Shutdown::Write).expect("open");
    recv_exact(stream.as_fd(), &mut [0]); // the far end closes when it has read everything
    let elapsed = clock::now() - start;
    child.wait().expect("the far end ends");
    unpin();
    (size * count) as f64 * 8.0 / (elapsed as f64 / 1e9)
}

struct Quiet;

impl Progress for Quiet {}

/// What msgpath itself measures: one case, `rounds` rounds of `messages`, through plan, agent and record.
pub fn msgpath(path: &str, workload: &'static Workload, size: u32, messages: u64, rounds: u32) -> Run {
    execute(plan(path, workload, size, messages, rounds))
}

pub fn plan(path: &str, workload: &'static Workload, size: u32, messages: u64, rounds: u32) -> Plan {
    let path: PathName = path.parse().expect("a path");
    let (near, far) = cpus();
    Plan {
        rounds,
        extent: Extent::Count(messages),
        trim: 200,
        placement: Placement::pair([near], [far]),
        message_log: 0,
        ..Plan::new(workload, vec![Case::new(path, Pieces::whole(size))])
    }
}

/// Executes a plan on this machine and reads its record back.
pub fn execute(plan: Plan) -> Run {
    let folder: PathBuf = std::env::temp_dir().join(format!("msgpath-bench-{}-{}", std::process::id(), clock::now()));
    let request = Request {
        plan,
        target: Target::Local,
        verb: "echo".into(),
        command: vec!["bench".into()],
        name: "bench".into(),
        folder: folder.clone(),
        kept: false,
        parts: Default::default(),
    };
    let stop = std::sync::atomic::AtomicBool::new(false);
    msgpath_run::execute(request, &mut Quiet, &mut |_| Vec::new(), &stop).expect("msgpath measures");
    let run = msgpath_record::read(&folder).expect("a record");
    std::fs::remove_dir_all(&folder).expect("our own folder");
    run
}

/// Prints the ratio of pairs that were measured in turn: its median with a 95 % interval (order statistics: of n values the
/// (n -+ 1.96 √n) / 2-th), and the range of the middle half.
pub fn report(name: &str, unit: &str, ours: &[f64], bare: &[f64]) -> f64 {
    let middle = |values: &mut Vec<f64>, share: f64| {
        values.sort_by(f64::total_cmp);
        values[((values.len() - 1) as f64 * share) as usize]
    };
    let mut ratios: Vec<f64> = ours.iter().zip(bare).map(|(ours, bare)| ours / bare).collect();
    let (low, median, high) = (middle(&mut ratios, 0.25), middle(&mut ratios, 0.5), middle(&mut ratios, 0.75));
    let half = 0.98 / (ratios.len() as f64).sqrt();
    let (from, to) = (middle(&mut ratios, (0.5 - half).max(0.0)), middle(&mut ratios, (0.5 + half).min(1.0)));
    println!(
        "{name:18} msgpath {:9.1} {unit}   bare {:9.1} {unit}   ratio {median:.4} ({from:.4} to {to:.4})   middle half {low:.4} to {high:.4}   {} pairs",
        middle(&mut ours.to_vec(), 0.5),
        middle(&mut bare.to_vec(), 0.5),
        ratios.len()
    );
    median
}
