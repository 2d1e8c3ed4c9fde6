//! What an event costs on the way of a message: round trips of 64 B over TCP, windows traced and not traced in turn.
//!
//! `cargo bench -p msgpath-agent --bench trace [-- WINDOWS]`. The aim is +8 % at most for the light set. Other CPUs, other
//! kernels, other figures; compare only what one run prints.
#![allow(clippy::print_stderr, clippy::print_stdout)]

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::sync_channel;

use msgpath_agent::observe::Tracer;
use msgpath_core::plan::StageSet;
use msgpath_core::schema::TracedThread;
use msgpath_sys::msg::{SendFlags, recv, send};
use msgpath_sys::{affinity, clock, cookie};

const SIZE: usize = 64;
/// Ethernet excluded: IP and TCP headers with time stamps.
const LEAST: u32 = SIZE as u32 + 52;
/// Round trips of one window, and how many of them only warm up.
const WINDOW: usize = 2000;
const WARM_UP: usize = 200;

fn main() {
    let windows = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(60_usize).max(2);
    for set in [StageSet::Light, StageSet::Full] {
        let (tracer, tracing) = Tracer::open(set, WINDOW * 100);
        match tracer {
            Some(mut tracer) => {
                println!("{}: {}", set.name(), tracing.backend.unwrap_or_default());
                measure(&mut tracer, set, windows);
            }
            None => println!("{}: n/a: {:?}", set.name(), tracing.refused),
        }
    }
}

fn exchange(fd: BorrowedFd<'_>, first: bool) {
    let mut buffer = [1_u8; SIZE];
    if first {
        assert_eq!(send(fd, &buffer, SendFlags::default()).expect("send"), SIZE);
    }
    assert_eq!(recv(fd, &mut buffer).expect("recv"), SIZE);
    if !first {
        assert_eq!(send(fd, &buffer, SendFlags::default()).expect("send"), SIZE);
    }
}

fn thread_of(fd: &OwnedFd) -> TracedThread {
    let cookies = vec![cookie::cookie(fd.as_fd()).expect("a socket has a cookie")];
    TracedThread { tid: affinity::thread_id(), sends: true, receives: true, cookies }
}

fn measure(tracer: &mut Tracer, set: StageSet, windows: usize) {
    let cpus = affinity::allowed();
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback");
    let (far, _) = listener.accept().expect("loopback");
    near.set_nodelay(true).expect("TCP");
    far.set_nodelay(true).expect("TCP");
    let (near, far): (OwnedFd, OwnedFd) = (near.into(), far.into());
    let (tell, heard) = sync_channel(1);
    let far_cpu = *cpus.get(1).unwrap_or(&cpus[0]);
    let far = std::thread::spawn(move || {
        affinity::pin(&[far_cpu]).expect("an allowed CPU");
        tell.send(thread_of(&far)).expect("somebody listens");
        (0..windows * WINDOW).for_each(|_| exchange(far.as_fd(), false));
    });
    let far_thread = heard.recv().expect("the far thread tells who it is");
    affinity::pin(&cpus[..1]).expect("an allowed CPU");
    let near_thread = thread_of(&near);
    let mut medians = [Vec::new(), Vec::new()];
    let (mut events, mut lost) = (0, 0);
    for window in 0..windows {
        // Both orders of neighbours are equally frequent: drift favours neither.
        let traced = matches!(window % 4, 1 | 2);
        if traced {
            tracer.begin(std::slice::from_ref(&near_thread), std::slice::from_ref(&far_thread), LEAST).expect("begin");
        }
        let mut times: Vec<u64> = (0..WINDOW)
            .map(|_| {
                let start = clock::now();
                exchange(near.as_fd(), true);
                clock::now() - start
            })
            .collect();
        if traced {
            let found = tracer.end().expect("end");
            events += found.events.len();
            lost += found.lost;
        }
        let times = &mut times[WARM_UP..];
        medians[usize::from(traced)].push(*times.select_nth_unstable((WINDOW - WARM_UP) / 2).1);
    }
    far.join().expect("the far thread");
    affinity::pin(&cpus).expect("allowed CPUs");
    let [off, on] = medians.map(|mut medians| {
        let middle = medians.len() / 2;
        *medians.select_nth_unstable(middle).1 as f64
    });
    let traced_trips = (0..windows).filter(|window| matches!(window % 4, 1 | 2)).count() * WINDOW;
    let per_trip = events as f64 / traced_trips as f64;
    println!(
        "{}: {windows} windows of {WINDOW} round trips: median {off:.0} ns untraced, {on:.0} ns traced, {:+.1} %; {per_trip:.2} \
         events a round trip, {:.0} ns each; {lost} lost",
        set.name(),
        (on / off - 1.0) * 100.0,
        (on - off) / per_trip,
    );
}
