//! `msgpath watch` against what others say of the same: the client's own clock, and what the kernel says of stolen time.

use std::thread;
use std::time::Duration;

use crate::agreement;
use crate::command::{Home, listening};
use crate::watch::{
    PLANTED, ask, connect, is_sound, named, real_time, serve, server, skip_without_bpf, watch_what, watch_with,
};

/// Of 100 requests each tenth is slow, by 100, 110 ... 190 ms: a rank that is off by one is off by 5 % and more.
#[test]
fn the_p99_of_the_client_is_that_of_watch() {
    skip_without_bpf!();
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let (mut own, result) = watch_with("--slowest 10", port, move || {
        let mut slow = 0;
        let plant = move || {
            thread::sleep(Duration::from_millis(100 + 10 * slow));
            slow += 1;
        };
        let server = named("planted", move || serve(&listener, 1, plant));
        let client = move || {
            // Between its stamps and its calls nothing keeps it from its CPU.
            real_time(1);
            let mut stream = connect(port);
            (0..100).map(|n| ask(&mut stream, if n % 10 == 9 { b'p' } else { b'n' })).collect::<Vec<_>>()
        };
        let times = named("asker", client).join().expect("the client");
        server.join().expect("the server");
        times
    });
    is_sound(&result, 100);
    let server = server(&result);
    own.sort();
    let (own_p99, p99) = (own[98].as_secs_f64(), server["p99_ns"].as_f64().expect("a quantile") / 1e9);
    println!("the client's own p99: {own_p99} s, that of watch: {p99} s");
    // Both see the same requests; a bucket is 0.8 % wide, and its middle is said.
    assert!((p99 / own_p99 - 1.0).abs() < 0.01, "the client says {own_p99} s, watch says {p99} s");
    // What the client measures contains what is watched.
    let slowest = server["slowest"].as_array().expect("a list");
    assert_eq!(slowest.len(), 10);
    for (own, seen) in own.iter().rev().zip(slowest) {
        let seen = Duration::from_nanos(seen["total_ns"].as_u64().expect("a time"));
        assert!(*own >= seen && *own < seen.mul_f64(1.01), "the client says {own:?}, watch says {seen:?}");
    }
}

/// Our own echo says of each message what watch says of it: how long it took, and how long the server worked.
#[test]
fn our_own_echo_and_watch_agree() {
    skip_without_bpf!();
    let home = Home::new();
    let output =
        home.msgpath(&agreement::arguments(env!("CARGO_BIN_EXE_msgpath"), "service-time=2ms", "30", "4")).ends_with(0);
    let Some((traced, both)) = agreement::messages(&home.runs(), 200_000) else {
        panic!("records that cannot be read: {} {}", output.out, output.err)
    };
    if traced == 0 {
        return println!("skipped: explain traces nothing here: {}", output.err);
    }
    // Where a task of the machine comes between the client's stamp and its call it cannot be told which message it is. On busy CPUs
    // the call itself may come tens of microseconds after the stamp; a message takes more than 2 ms.
    assert!(both.len() * 10 >= traced * 8, "{} of {traced}", both.len());
    let ratios = [agreement::median(&both, |times| times.total), agreement::median(&both, |times| times.work)];
    println!("{} of {traced} messages, watch's time over the echo's: {ratios:?}", both.len());
    assert!(ratios.iter().all(|ratio| (ratio - 1.0).abs() < 0.05), "{ratios:?}");
}

/// A server that reads and writes through io_uring makes no calls for it: the sockets tell.
#[test]
fn a_server_on_io_uring_is_split() {
    skip_without_bpf!();
    let program = env!("CARGO_BIN_EXE_msgpath");
    let echo = ["-x", "tcp:uring/uring", "-o", "service-time=1ms", "-c", "40", "-r", "3", "-w", "0", "-q"];
    let plain = Home::new().msgpath(&echo);
    if plain.code != Some(0) {
        return println!("skipped: {}", plain.err);
    }
    let result =
        Home::new().msgpath(&[&["watch", "--json", "-q", "--", program][..], &echo].concat()).ends_with(0).json();
    let servers = result["servers"].as_array().expect("servers").iter().filter(|server| !server["port"].is_null());
    let [requests, incomplete, torn] = ["requests", "incomplete", "torn"]
        .map(|name| servers.clone().map(|server| server[name].as_u64().expect("a count")).sum::<u64>());
    println!("{requests} requests, {incomplete} incomplete, {torn} torn");
    assert!(requests >= 3 * 40 && (incomplete + torn) * 20 <= requests, "{result:#}");
    // The server computes for a millisecond.
    let work = servers.filter_map(|server| {
        server["stages"].as_array()?.iter().find(|stage| stage["stage"] == "work_on_cpu")?["typical_ns"].as_f64()
    });
    assert!(work.fold(0.0, f64::max) > 900_000.0, "{result:#}");
}

/// Ticks that the hypervisor has taken of all CPUs, of 10 ms each; `None`: the kernel does not tell.
fn stolen() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    text.lines().next()?.split_ascii_whitespace().nth(8)?.parse().ok()
}

/// What was taken of a server that computes all the time is not more than what was taken of all CPUs, and is not on CPU as well.
#[test]
fn stolen_time_is_not_more_than_the_kernel_says() {
    skip_without_bpf!();
    let Some(before) = stolen() else { return println!("skipped: /proc/stat does not tell what is stolen") };
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let ((), result) = watch_what(&format!("--port {port} --slowest 20"), move || {
        let compute = || {
            let begin = msgpath_sys::clock::thread_cpu();
            while msgpath_sys::clock::thread_cpu() - begin < PLANTED.as_nanos() as u64 {}
        };
        let server = named("planted", move || serve(&listener, 1, compute));
        let client = move || {
            let mut stream = connect(port);
            (0..20).for_each(|_| assert!(ask(&mut stream, b'p') > Duration::ZERO));
        };
        named("asker", client).join().expect("the client");
        server.join().expect("the server");
    });
    let after = stolen().expect("it told before");
    is_sound(&result, 20);
    let slowest = server(&result)["slowest"].as_array().expect("a list");
    let sum = |name: &str| -> u64 {
        let stages = slowest.iter().flat_map(|slow| slow["stages"].as_array().expect("stages"));
        stages.filter(|stage| stage[0] == name).filter_map(|stage| stage[1].as_u64()).sum()
    };
    let (taken, on_cpu, cpus) = (sum("work_stolen"), sum("work_on_cpu"), msgpath_sys::affinity::allowed().len() as u64);
    println!("stolen: {taken} ns of the requests, {} ticks of all CPUs; on CPU: {on_cpu} ns", after - before);
    // Each CPU's counter may be behind by a tick of the kernel, which is not longer than one of /proc/stat, and by its rounding.
    assert!(taken <= (after - before + 2 * cpus) * 10_000_000, "{taken} ns of {} ticks", after - before);
    assert!(on_cpu > taken && on_cpu > 0, "{slowest:#?}");
    if !result["steal_split"].as_bool().expect("a truth value") {
        assert_eq!(taken, 0);
    }
}
