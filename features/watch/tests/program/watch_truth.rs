//! `msgpath watch` on planted causes that were once said wrongly: who is named, and who is not.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::printed::Value;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use crate::command::{Home, free_port, listening, within};
use crate::watch::{
    CPU, PLANTED, Program, ask, client, connect, is_caused_by, named, read_all, sentence, serve, server,
    skip_without_bpf, watch_typed, watch_what,
};

/// An innocent task on every CPU, which the interrupts of timers find there.
struct Hogs {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Hogs {
    fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let hog = |cpu: &u32| {
            let (over, cpu) = (over.clone(), *cpu);
            named("innocent-hog", move || {
                msgpath_sys::affinity::pin(&[cpu]).expect("a CPU that is allowed");
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = msgpath_sys::affinity::allowed().iter().map(hog).collect();
        Self { over, threads }
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}

/// A server in this process that does `planted` for each `p`, watched while a client asks it.
fn watched(planted: impl FnMut() + Send + 'static) -> Value {
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let ((), result) = watch_what(&format!("--port {port}"), move || {
        let server = named("planted", move || serve(&listener, 1, planted));
        named("asker", move || client(port)).join().expect("the client");
        server.join().expect("the server");
    });
    result
}

fn text(finding: &Value) -> &str {
    finding["text"].as_str().expect("a sentence")
}

/// What a timer ends waits for no task, least of all for the one that it interrupted.
#[track_caller]
fn is_over_in_time(result: &Value, call: &str) {
    let server = server(result);
    is_caused_by(server, "the server waiting until its time was over (a timeout)");
    let said = server["findings"].to_string();
    assert!(said.contains(&format!("in {call}")) && !said.contains("woken by"), "{said}");
    assert_eq!(sentence(server, "X01")["confidence"], "sure", "{said}");
}

#[test]
fn a_poll_that_a_timer_ends_names_no_task() {
    skip_without_bpf!();
    let _alone = CPU.lock().unwrap_or_else(|failed| failed.into_inner());
    let _hogs = Hogs::start();
    let (silent, _open) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let result = watched(move || {
        let most = Timespec { tv_sec: 0, tv_nsec: PLANTED.as_nanos() as i64 };
        assert_eq!(poll(&mut [PollFd::new(&silent, PollFlags::IN)], Some(&most)), Ok(0));
    });
    is_over_in_time(&result, "poll");
}

#[test]
fn a_futex_that_a_timer_ends_names_no_task() {
    skip_without_bpf!();
    let _alone = CPU.lock().unwrap_or_else(|failed| failed.into_inner());
    let _hogs = Hogs::start();
    let (lock, never) = (Mutex::new(()), Condvar::new());
    let result = watched(move || {
        let held = lock.lock().expect("nobody panics with it");
        drop(never.wait_timeout_while(held, PLANTED, |()| true));
    });
    is_over_in_time(&result, "futex");
}

/// A server of its own process, in Python: what it does for a `p` is the text in it.
fn python(planted: &str, enter: Option<&Path>, port: u16) -> Option<Program> {
    let script = format!(
        "
import mmap, os, socket, sys, time
listener = socket.socket(); listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('127.0.0.1', {port})); listener.listen(8)
while True:
    peer, _ = listener.accept()
    while what := peer.recv(1):
        if what == b'p':
            {planted}
        peer.sendall(what)
"
    );
    let into = enter.map_or_else(String::new, |folder| format!("echo $$ > {}/cgroup.procs && ", folder.display()));
    let child = Command::new("sh").args(["-c", &format!("{into}exec python3 -c \"$0\""), &script]).spawn().ok()?;
    let server = Program(child);
    within(Duration::from_secs(60), || TcpStream::connect(("127.0.0.1", port)).is_ok()).then_some(server)
}

/// Stopped before it reads a request: who stopped it is named, and no wake-up is to blame.
#[test]
fn a_server_that_is_stopped_is_said_to_be_with_who_did_it() {
    skip_without_bpf!();
    let port = free_port();
    let Some(stopped) = python("pass", None, port) else { return println!("skipped: no python3") };
    let process = Pid::from_child(&stopped.0);
    let state = move || {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it is there");
        stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).map(str::to_owned)
    };
    let stopper = move || {
        let mut stream = connect(port);
        for n in 0..60 {
            if n % 6 != 5 {
                ask(&mut stream, b'n');
                continue;
            }
            kill_process(process, Signal::STOP).expect("a child of ours");
            assert!(within(Duration::from_secs(60), || state().as_deref() == Some("T")), "it is not stopped");
            stream.write_all(b"n").expect("its socket has room");
            thread::sleep(PLANTED);
            kill_process(process, Signal::CONT).expect("a child of ours");
            stream.read_exact(&mut [0]).expect("it goes on");
        }
    };
    let ((), result) = watch_what(&format!("--port {port}"), || named("stopper", stopper).join().expect("the client"));
    let server = server(&result);
    is_caused_by(server, "the server being stopped, by SIGSTOP, sent by stopper");
    assert_eq!(sentence(server, "X01")["confidence"], "sure");
    assert!(server["stages"].as_array().expect("stages").iter().any(|stage| stage["stage"] == "stopped"), "{server:#}");
}

/// A cgroup of a tenth of a CPU, of version 1 or 2; gone when dropped.
struct Quota(PathBuf);

impl Quota {
    /// `None`: none can be made here.
    fn make() -> Option<Self> {
        let name = format!("msgpath-quota-{}", std::process::id());
        let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
        let mut mounts = mounts.lines().filter_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [_, folder, kind, options, ..] = words[..] else { return None };
            (kind == "cgroup2" || kind == "cgroup" && options.split(',').any(|one| one == "cpu"))
                .then(|| folder.to_owned())
        });
        mounts.find_map(|mount| {
            let own = Self(Path::new(&mount).join(&name));
            std::fs::create_dir_all(&own.0).ok()?;
            let set = |file: &str, text: &str| {
                let file = own.0.join(file);
                file.exists() && std::fs::write(file, text).is_ok()
            };
            let limited = set("cpu.max", "10000 100000")
                || set("cpu.cfs_period_us", "100000") && set("cpu.cfs_quota_us", "10000");
            limited.then_some(own)
        })
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        within(Duration::from_secs(60), || std::fs::remove_dir(&self.0).is_ok() || !self.0.exists());
    }
}

#[test]
fn a_quota_is_named_with_its_group() {
    skip_without_bpf!();
    let Some(group) = Quota::make() else { return println!("skipped: no cgroup with a CPU quota can be made here") };
    let port = free_port();
    let computes = "begin = time.process_time()\n            while time.process_time() - begin < 0.04: pass";
    let Some(_server) = python(computes, Some(&group.0), port) else { return println!("skipped: no python3") };
    let ((), result) = watch_what(&format!("--port {port}"), || {
        let mut stream = connect(port);
        (0..48).for_each(|n| _ = ask(&mut stream, if n % 6 == 5 { b'p' } else { b'n' }));
    });
    let server = server(&result);
    let quota = format!("throttled by the CPU quota of {} (10.0 ms in 100 ms)", group.0.display());
    is_caused_by(server, &quota);
    assert_eq!(sentence(server, "X01")["confidence"], "sure");
}

/// The pages of a file that no memory holds.
#[test]
fn a_mapped_file_that_is_read_from_the_disk_is_the_disk() {
    skip_without_bpf!();
    let home = Home::new();
    let file = home.path().join("cold");
    std::fs::write(&file, vec![1; 64 << 20]).and_then(|()| std::fs::File::open(&file)?.sync_all()).expect("a disk");
    let reads = format!(
        "
            fd = os.open('{}', os.O_RDONLY); os.fsync(fd); os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            m = mmap.mmap(fd, 0, prot=mmap.PROT_READ); m.madvise(mmap.MADV_RANDOM); os.close(fd)
            begin = time.monotonic(); at = 0
            while time.monotonic() - begin < 0.15: at = (at + 4096 * 37) % len(m); m[at]
            m.close()",
        file.display()
    );
    let port = free_port();
    let Some(_server) = python(&reads, None, port) else { return println!("skipped: no python3") };
    let ((), result) = watch_what(&format!("--port {port}"), || {
        let mut stream = connect(port);
        (0..36).for_each(|n| _ = ask(&mut stream, if n % 6 == 5 { b'p' } else { b'n' }));
    });
    let server = server(&result);
    let disk = server["stages"].as_array().expect("stages").iter().find(|stage| stage["stage"] == "work_disk");
    let share = disk.map_or(0.0, |stage| stage["share"].as_f64().expect("a share"));
    if share < 0.3 {
        return println!("skipped: reading a page takes no time here ({share} of the request)");
    }
    let said = server["findings"].to_string();
    assert!(said.contains("waiting for the disk, in a page fault (a mapped file, or swap)"), "{said}");
}

/// A thread for each of eight clients; all want the same lock, and hold it for 40 ms.
#[test]
fn a_queue_for_a_lock_is_said_with_its_call_and_its_holders() {
    skip_without_bpf!();
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let ((), result) = watch_what(&format!("--port {port}"), move || {
        let lock = Arc::new(Mutex::new(()));
        let rounds = Arc::new(Barrier::new(8));
        let asker = |number: usize| {
            let rounds = rounds.clone();
            named("asker", move || {
                let mut stream = connect(port);
                for _ in 0..6 {
                    if number == 0 {
                        (0..20).for_each(|_| _ = ask(&mut stream, b'n'));
                    }
                    rounds.wait();
                    ask(&mut stream, b'p');
                }
            })
        };
        let clients: Vec<_> = (0..8).map(asker).collect();
        let worker = |number: usize| {
            let (mut stream, lock) = (listener.accept().expect("a client").0, lock.clone());
            named(&format!("worker-{number}"), move || {
                let mut what = [0];
                while stream.read(&mut what).unwrap_or(0) > 0 {
                    if what == *b"p" {
                        let _held = lock.lock().expect("nobody panics with it");
                        thread::sleep(Duration::from_millis(40));
                    }
                    stream.write_all(&what).expect("the client reads");
                }
            })
        };
        let workers: Vec<_> = (0..8).map(worker).collect();
        clients.into_iter().chain(workers).for_each(|thread| thread.join().expect("a thread"));
    });
    let first = sentence(server(&result), "X01");
    let said = text(first);
    assert!(said.contains("the server waiting for a lock, in futex, woken by "), "{said}");
    assert!(said.contains("of the server") && said.contains("requests waiting for it at once"), "{said}");
    assert_eq!(first["confidence"], "sure", "{said}");
}

/// One thread reads, one works: what lies in the queue between them is not the work.
#[test]
fn the_time_in_a_queue_is_told_from_the_work() {
    skip_without_bpf!();
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let ((), result) = watch_what(&format!("--port {port}"), move || {
        let (begun, works) = channel::<()>();
        let streams = [connect(port), connect(port)];
        let server = named("reader", move || {
            let peers: Vec<TcpStream> = (0..2).map(|_| listener.accept().expect("a client").0).collect();
            let (hand, handed) = channel::<(TcpStream, u8)>();
            let worker = named("worker", move || {
                while let Ok((mut stream, what)) = handed.recv() {
                    if what == b'p' {
                        begun.send(()).expect("a client waits");
                        thread::sleep(PLANTED);
                    }
                    stream.write_all(&[what]).expect("the client reads");
                }
            });
            read_all(peers, |stream, what| {
                hand.send((stream.try_clone().expect("a descriptor"), what)).expect("the worker is there");
                true
            });
            drop(hand);
            worker.join().expect("the worker");
        });
        let [mut slow, mut behind] = streams;
        for _ in 0..12 {
            (0..5).for_each(|_| _ = ask(&mut slow, b'n'));
            slow.write_all(b"p").expect("the server reads");
            works.recv().expect("the worker begins");
            ask(&mut behind, b'n');
            slow.read_exact(&mut [0]).expect("the server answers");
        }
        drop((slow, behind));
        server.join().expect("the server");
    });
    let said = server(&result)["findings"].to_string();
    assert!(said.contains("until another thread of the server took it over"), "{said}");
    assert!(said.contains("the server sleeping, in clock_nanosleep"), "{said}");
}

/// A proxy of one thread that computes for one client while the backend of another one's request is slow: that reply has not come, and
/// cannot be held back.
#[test]
fn a_reply_that_has_not_come_is_not_held_back() {
    skip_without_bpf!();
    let (listener, backend) = (listening(), listening());
    let [port, behind] = [&listener, &backend].map(|listener| listener.local_addr().expect("it is bound").port());
    let ((), result) = watch_what(&format!("--port {port}"), move || {
        let streams = [connect(port), connect(port)];
        let (served, answered) = channel::<()>();
        let slow = named("backend", move || {
            let (mut stream, _) = backend.accept().expect("the proxy");
            let mut what = [0];
            while stream.read(&mut what).unwrap_or(0) > 0 {
                answered.recv().expect("the other client has its reply");
                thread::sleep(PLANTED);
                stream.write_all(&what).expect("the proxy reads");
            }
        });
        let server = named("proxy", move || proxy(&listener, behind));
        let [mut asks, mut computes] = streams;
        for _ in 0..10 {
            (0..5).for_each(|_| _ = ask(&mut asks, b'n'));
            asks.write_all(b"b").expect("the proxy reads");
            ask(&mut computes, b'c');
            served.send(()).expect("the backend waits");
            asks.read_exact(&mut [0]).expect("the proxy answers");
        }
        drop((asks, computes));
        server.join().expect("the proxy");
        slow.join().expect("the backend");
    });
    let server = server(&result);
    is_caused_by(server, "the server waiting for somebody else while it worked, in poll");
    let said = server["findings"].to_string();
    assert!(!said.contains("held back"), "{said}");
}

/// `b` goes to the backend, `c` is computed here, anything else is answered at once.
fn proxy(listener: &TcpListener, behind: u16) {
    let mut backend = connect(behind);
    let mut peers: Vec<TcpStream> = (0..2).map(|_| listener.accept().expect("a client").0).collect();
    let mut waiting: Option<usize> = None;
    while !peers.is_empty() {
        let mut ready: Vec<PollFd> =
            peers.iter().chain([&backend]).map(|peer| PollFd::new(peer, PollFlags::IN)).collect();
        poll(&mut ready, None).expect("poll");
        let ready: Vec<bool> = ready.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut what = [0];
        if ready[peers.len()] {
            backend.read_exact(&mut what).expect("the backend answers");
            peers[waiting.take().expect("who asked")].write_all(&what).expect("the client reads");
        }
        let mut gone = false;
        for at in (0..peers.len()).filter(|at| ready[*at]) {
            if peers[at].read(&mut what).unwrap_or(0) == 0 {
                gone = true;
                continue;
            }
            match what[0] {
                b'b' => {
                    waiting = Some(at);
                    backend.write_all(&what).expect("the backend reads");
                    continue;
                }
                b'c' => {
                    let begin = msgpath_sys::clock::thread_cpu();
                    while msgpath_sys::clock::thread_cpu() - begin < PLANTED.as_nanos() as u64 {}
                }
                _ => {}
            }
            peers[at].write_all(&what).expect("the client reads");
        }
        if gone {
            return;
        }
    }
}

/// A usual request: every one is like this.
fn every(parts: [usize; 2], handled: impl Fn() + Send + 'static) -> Value {
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let ((), result) = watch_typed(&format!("--port {port} --no-payload"), move || {
        let [requests, replies] = parts;
        let server = named("planted", move || {
            let (mut stream, _) = listener.accept().expect("a client");
            while (0..requests).all(|_| stream.read_exact(&mut [0]).is_ok()) {
                handled();
                (0..replies).for_each(|_| stream.write_all(b"n").expect("the client reads"));
            }
        });
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        for _ in 0..50 {
            (0..requests).for_each(|_| stream.write_all(b"n").expect("the server reads"));
            (0..replies).for_each(|_| stream.read_exact(&mut [0]).expect("the server answers"));
        }
        drop(stream);
        server.join().expect("the server");
    });
    result
}

#[test]
fn a_sleep_in_every_request_is_what_a_usual_one_is_made_of() {
    skip_without_bpf!();
    let result = every([1, 1], || thread::sleep(Duration::from_millis(20)));
    let usual = sentence(server(&result), "X40");
    assert!(
        text(usual).contains("is the server sleeping, in clock_nanosleep") && usual["confidence"] == "sure",
        "{usual:#}"
    );
}

/// Two small writes without TCP_NODELAY: the second one waits until the first is acknowledged, which the other end delays.
#[test]
fn small_parts_that_wait_for_an_acknowledgement_are_named_with_their_side() {
    skip_without_bpf!();
    for (parts, words) in [
        ([2, 1], "the client sends a request in several small parts, and Nagle's algorithm"),
        ([1, 2], "the server sends a reply in several small parts, and Nagle's algorithm"),
    ] {
        let result = every(parts, || {});
        let usual = sentence(server(&result), "X40");
        assert!(text(usual).contains(words) && usual["confidence"] == "sure", "{usual:#}");
    }
}

/// 8 of 1200.
#[test]
fn requests_far_beyond_p99_are_said() {
    skip_without_bpf!();
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let ((), result) = watch_typed(&format!("--port {port}"), move || {
        let server = named("planted", move || serve(&listener, 1, || thread::sleep(2 * PLANTED)));
        let mut stream = connect(port);
        (0..1200).for_each(|n| _ = ask(&mut stream, if n % 150 == 149 { b'p' } else { b'n' }));
        drop(stream);
        server.join().expect("the server");
    });
    let tail = sentence(server(&result), "X41");
    assert!(
        text(tail).contains("of their extra time is the server sleeping") && text(tail).contains("--slow "),
        "{tail:#}"
    );
}

#[test]
fn replies_that_are_larger_are_said() {
    skip_without_bpf!();
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let ((), result) = watch_typed(&format!("--port {port}"), move || {
        let large = vec![0; 8 << 20];
        let server = named("planted", move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut what = [0];
            while stream.read(&mut what).unwrap_or(0) > 0 {
                let reply = if what == *b"p" { &large[..] } else { &large[..1] };
                stream.write_all(reply).expect("the client reads");
            }
        });
        let (mut stream, mut room) = (connect(port), vec![0; 8 << 20]);
        for n in 0..60 {
            let large = n % 6 == 5;
            stream.write_all(if large { b"p" } else { b"n" }).expect("the server reads");
            stream.read_exact(if large { &mut room } else { &mut room[..1] }).expect("the server answers");
        }
        drop(stream);
        server.join().expect("the server");
    });
    // How many of the slow ones had the large reply depends on what else ran.
    is_caused_by(server(&result), ", with replies of ");
    is_caused_by(server(&result), " MiB instead of 1 B");
}

/// What a server that only answers does not wait for.
const NOT_PLANTED: [&str; 9] = [
    "a lock",
    "the disk",
    "sleeping",
    "until its time was over",
    "somebody else",
    "stopped",
    "quota",
    "held back",
    "took it over",
];

/// Nothing is planted: how often a cause is named for sure all the same. MSGPATH_RUNS: how many runs.
#[test]
#[ignore = "takes minutes: cargo test --test program -- --ignored nothing_is_surely"]
fn nothing_is_surely_blamed_where_nothing_is_planted() {
    skip_without_bpf!();
    let runs: usize = std::env::var("MSGPATH_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    let mut sure = Vec::new();
    for _ in 0..runs {
        let listener = listening();
        let port = listener.local_addr().expect("it is bound").port();
        let ((), result) = watch_typed(&format!("--port {port}"), move || {
            let server = named("plain", move || serve(&listener, 2, || {}));
            let asker = || {
                named("asker", move || {
                    let mut stream = connect(port);
                    (0..1500).for_each(|_| _ = ask(&mut stream, b'n'));
                })
            };
            [asker(), asker()].into_iter().for_each(|asker| asker.join().expect("a client"));
            server.join().expect("the server");
        });
        let findings = server(&result)["findings"].as_array().expect("a list").clone();
        let slow = findings.iter().filter(|finding| finding["code"] != "X40" && finding["confidence"] == "sure");
        sure.extend(slow.map(|finding| text(finding).to_owned()));
    }
    let wrong: Vec<&String> = sure.iter().filter(|said| NOT_PLANTED.iter().any(|cause| said.contains(cause))).collect();
    eprintln!(
        "{runs} runs without a plant: {} sure sentences on slow requests, {} of them wrong",
        sure.len(),
        wrong.len()
    );
    sure.iter().for_each(|said| eprintln!("  {said}"));
    assert!(wrong.len() * 200 <= runs.max(200), "{wrong:#?}");
}
