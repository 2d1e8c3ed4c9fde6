//! `msgpath watch` on programs whose truth is known: a server with a planted cause, a client that keeps its own times.
//!
//! What is planted takes 150 ms: far more than a busy machine adds. Skipped where programs cannot be watched.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::printed::Value;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::command::{Home, LIMIT, Output, Running, free_port, listening, within};
use crate::schema::fits;

/// What is planted.
pub(crate) const PLANTED: Duration = Duration::from_millis(150);
/// From when on a request is slow.
const SLOW: Duration = Duration::from_millis(120);

/// Why programs cannot be watched here.
pub(crate) fn unavailable() -> Option<String> {
    static WHY: OnceLock<Option<String>> = OnceLock::new();
    WHY.get_or_init(|| msgpath_watch::run::available().err().map(|why| why.to_string())).clone()
}

macro_rules! skip_without_bpf {
    () => {
        if let Some(why) = $crate::watch::unavailable() {
            return println!("skipped: {why}");
        }
    };
}

pub(crate) use skip_without_bpf;

pub(crate) fn named<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::Builder::new().name(name.into()).spawn(work).expect("a thread")
}

/// One test at a time uses a CPU as if it were its own.
pub(crate) static CPU: Mutex<()> = Mutex::new(());

/// Gives the calling thread real-time priority, so that what it does not plant itself does not keep it from its CPU.
pub(crate) fn real_time(priority: u32) -> bool {
    let thread = msgpath_sys::affinity::thread_id().to_string();
    let set = Command::new("chrt").args(["-f", "-p", &priority.to_string(), &thread]).status();
    set.is_ok_and(|status| status.success())
}

/// Answers each byte with one, from one thread and one poll, until all have closed. What it does for a `p` is planted.
pub(crate) fn serve(listener: &TcpListener, clients: usize, mut planted: impl FnMut()) {
    let streams = (0..clients).map(|_| listener.accept().expect("a client").0).collect();
    read_all(streams, |stream, byte| {
        if byte == b'p' {
            planted();
        }
        stream.write_all(&[byte]).is_ok()
    });
}

/// Reads single bytes from all of them, by one thread and one poll, until each has closed or `goes_on` says that it is done with.
pub(crate) fn read_all(mut streams: Vec<TcpStream>, mut goes_on: impl FnMut(&mut TcpStream, u8) -> bool) {
    while !streams.is_empty() {
        let mut ready: Vec<PollFd> = streams.iter().map(|stream| PollFd::new(stream, PollFlags::IN)).collect();
        poll(&mut ready, None).expect("poll");
        let ready: Vec<bool> = ready.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ready = ready.into_iter();
        streams.retain_mut(|stream| {
            let mut byte = [0];
            if !ready.next().expect("one for each") {
                return true;
            }
            stream.read(&mut byte).unwrap_or(0) > 0 && goes_on(stream, byte[0])
        });
    }
}

pub(crate) fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    stream.set_nodelay(true).expect("an option of TCP");
    stream
}

pub(crate) fn ask(stream: &mut TcpStream, what: u8) -> Duration {
    let begin = Instant::now();
    stream.write_all(&[what]).expect("the server reads");
    stream.read_exact(&mut [0]).expect("the server answers");
    begin.elapsed()
}

/// 90 requests, every sixth of them planted; how long each took.
pub(crate) fn client(port: u16) -> Vec<Duration> {
    let mut stream = connect(port);
    (0..90)
        .map(|n| {
            thread::sleep(Duration::from_millis(2));
            ask(&mut stream, if n % 6 == 5 { b'p' } else { b'n' })
        })
        .collect()
}

/// The one server of what `watch` printed.
pub(crate) fn server(result: &Value) -> &Value {
    assert_eq!(result["servers"].as_array().map(Vec::len), Some(1), "{result:#}");
    &result["servers"][0]
}

/// Watches a port while `load` is there.
fn watch<T>(port: u16, load: impl FnOnce() -> T) -> (T, Value) {
    watch_with("--slowest 3", port, load)
}

/// The same with further options.
pub(crate) fn watch_with<T>(options: &str, port: u16, load: impl FnOnce() -> T) -> (T, Value) {
    watch_what(&format!("--port {port} {options}"), load)
}

/// Watches what these options say while `load` is there.
pub(crate) fn watch_what<T>(options: &str, load: impl FnOnce() -> T) -> (T, Value) {
    watch_typed(&format!("{options} --slow {}ms", SLOW.as_millis()), load)
}

/// The same, with what is slow as it is typed, or not.
pub(crate) fn watch_typed<T>(options: &str, load: impl FnOnce() -> T) -> (T, Value) {
    let home = Home::new();
    let line = format!("watch {options} -t 60s --name w --json");
    let watching = home.start(&line);
    // It watches when its record has begun: the programs are attached before.
    let file = home.runs().join("w/watch.json");
    assert!(within(Duration::from_secs(60), || file.exists()), "it does not begin");
    thread::sleep(Duration::from_millis(50));
    let message = load();
    watching.signal("INT");
    let result = watching.finish(LIMIT).ends_with(0).json();
    println!("{result:#}");
    (message, result)
}

/// Counts of a server, by their names.
pub(crate) fn counts<const N: usize>(server: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| server[name].as_u64().expect("a count"))
}

/// All requests are split. Where the machine is busy, a copy of the totals of a thread may not fit together: that is counted, and must be
/// rare.
#[track_caller]
pub(crate) fn all_are_there(server: &Value, requests: u64) {
    let [seen, torn, incomplete] = counts(server, ["requests", "torn", "incomplete"]);
    assert_eq!((seen + torn, incomplete), (requests, 0));
    assert!(torn <= 2, "{torn} of {requests} are torn");
}

/// What holds of every load here: nothing lost, stages that add up, nothing incomplete.
pub(crate) fn is_sound(result: &Value, requests: u64) {
    let server = server(result);
    assert_eq!((&result["not_adding_up"], &result["lost"]), (&0.into(), &0.into()));
    all_are_there(server, requests);
    for (band, column) in [("typical", "typical_ns"), ("slow", "slow_ns")] {
        let stages = server["stages"].as_array().expect("stages");
        let sum: f64 = stages.iter().map(|stage| stage[column].as_f64().expect("a time")).sum();
        let mean = server[band]["mean_ns"].as_f64().expect("a mean");
        assert!((sum - mean).abs() < 1.0, "the stages of the {band} band are {sum} ns, and its mean is {mean} ns");
    }
}

/// The first sentence of a code on a server.
#[track_caller]
pub(crate) fn sentence<'a>(server: &'a Value, code: &str) -> &'a Value {
    let findings = server["findings"].as_array().expect("a list");
    findings.iter().find(|finding| finding["code"] == code).unwrap_or_else(|| panic!("no {code}: {findings:#?}"))
}

/// The first sentence on slow requests says what takes most of their extra time.
#[track_caller]
pub(crate) fn is_caused_by(server: &Value, words: &str) {
    let first = sentence(server, "X01");
    assert!(first["text"].as_str().is_some_and(|text| text.contains(words)), "{first:#}");
}

/// The cause is the largest stage and the first sentence, and `words` are in it; the client's own clock agrees.
fn finds(planted: impl FnMut() + Send + 'static, stage: &str, words: &[&str]) {
    finds_with(|| {}, planted, stage, words);
}

/// The same; the client's thread does `before` at first.
fn finds_with(
    before: impl FnOnce() + Send + 'static,
    planted: impl FnMut() + Send + 'static,
    stage: &str,
    words: &[&str],
) {
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let (mut own, result) = watch(port, move || {
        let server = named("planted", move || serve(&listener, 1, planted));
        let client = move || {
            before();
            client(port)
        };
        let times = named("asker", client).join().expect("the client");
        server.join().expect("the server");
        times
    });
    is_sound(&result, 90);
    let server = server(&result);
    let shares = server["stages"].as_array().expect("stages").iter();
    let shares = shares.map(|row| (row["stage"].as_str().expect("a stage"), row["share"].as_f64().expect("a share")));
    let shares: BTreeMap<_, _> = shares.collect();
    let largest = shares.values().copied().fold(0.0, f64::max);
    // Entering the kernel for a page fault is the CPU's and no stage of its own; on a virtual machine it is half of the fault and more.
    assert!(shares[stage] > 0.5 * largest, "{stage} of {shares:?}");
    let first = sentence(server, "X01");
    let text = first["text"].as_str().expect("a sentence");
    assert!(words.iter().all(|word| text.contains(word)) && text.contains("planted"), "{text}");
    assert_eq!((&server["name"], &server["clients"][0]), (&"planted".into(), &"asker".into()));
    // The client's stamps contain its own calls, and what kept it from its CPU after it had the reply.
    own.sort();
    let (own, seen) = (own[own.len() * 9 / 10].as_secs_f64(), server["p90_ns"].as_f64().expect("a quantile") / 1e9);
    assert!((own - seen).abs() < 0.03 * own + 0.005, "the client says {own} s, watch says {seen} s");
}

#[test]
fn a_planted_sleep_is_found() {
    skip_without_bpf!();
    finds(|| thread::sleep(PLANTED), "work_sleep", &["sleeping, in clock_nanosleep"]);
}

#[test]
fn planted_computing_is_found() {
    skip_without_bpf!();
    let _alone = CPU.lock().unwrap_or_else(|failed| failed.into_inner());
    finds(at_once(spin), "work_on_cpu", &["computing"]);
}

/// Does it with real-time priority, if it can be had.
fn at_once(mut planted: impl FnMut() + Send + 'static) -> impl FnMut() + Send + 'static {
    let mut first = true;
    move || {
        if std::mem::take(&mut first) {
            real_time(1);
        }
        planted();
    }
}

/// Uses so much CPU time, however long that takes.
fn spin() {
    let begin = msgpath_sys::clock::thread_cpu();
    while msgpath_sys::clock::thread_cpu() - begin < PLANTED.as_nanos() as u64 {}
}

#[test]
fn a_planted_lock_is_found_with_its_holder() {
    skip_without_bpf!();
    let (lock, barrier) = (Arc::new(Mutex::new(())), Arc::new(Barrier::new(2)));
    let (held, met) = (lock.clone(), barrier.clone());
    let (ask, asked) = channel::<()>();
    let holder = named("lock-holder", move || {
        while asked.recv().is_ok() {
            let _held = held.lock().expect("nobody panics with it");
            met.wait();
            thread::sleep(PLANTED);
        }
    });
    let plant = move || {
        ask.send(()).expect("the holder is there");
        barrier.wait();
        drop(lock.lock().expect("nobody panics with it"));
    };
    finds(plant, "work_lock", &["in futex", "woken by lock-holder"]);
    holder.join().expect("the holder");
}

#[test]
fn a_planted_hog_is_found_by_name() {
    skip_without_bpf!();
    let _alone = CPU.lock().unwrap_or_else(|failed| failed.into_inner());
    let cpu = msgpath_sys::affinity::allowed()[0];
    let (wake, woken) = channel::<Option<Sender<()>>>();
    let (tell, given) = channel();
    let hog = named("cpu-hog", move || {
        msgpath_sys::affinity::pin(&[cpu]).expect("a CPU that is allowed");
        tell.send(real_time(2)).expect("somebody waits");
        while let Ok(Some(done)) = woken.recv() {
            spin();
            drop(done);
        }
    });
    if !given.recv().expect("the hog is there") {
        return println!("skipped: chrt does not give real-time priority");
    }
    let end = wake.clone();
    let mut first = true;
    let plant = move || {
        if std::mem::take(&mut first) {
            msgpath_sys::affinity::pin(&[cpu]).expect("a CPU that is allowed");
            real_time(1);
        }
        let (done, over) = channel();
        // The hog takes the CPU while this runs.
        wake.send(Some(done)).expect("the hog is there");
        while over.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {}
    };
    finds(plant, "work_runnable", &[&format!("on CPU {cpu} behind cpu-hog")]);
    end.send(None).expect("the hog is there");
    hog.join().expect("the hog");
}

/// The reply is there, and the client's CPU is somebody else's: the server is not to blame.
#[test]
fn a_client_without_its_cpu_is_told_from_a_slow_server() {
    skip_without_bpf!();
    let _alone = CPU.lock().unwrap_or_else(|failed| failed.into_inner());
    let [cpu, other, ..] = msgpath_sys::affinity::allowed()[..] else { return println!("skipped: one CPU") };
    let (wake, woken) = channel::<Sender<()>>();
    let (tell, given) = channel();
    let hog = named("cpu-hog", move || {
        msgpath_sys::affinity::pin(&[cpu]).expect("a CPU that is allowed");
        tell.send(real_time(2)).expect("somebody waits");
        while let Ok(has_the_cpu) = woken.recv() {
            drop(has_the_cpu);
            spin();
        }
    });
    if !given.recv().expect("the hog is there") {
        return println!("skipped: chrt does not give real-time priority");
    }
    let take = move |cpu| {
        msgpath_sys::affinity::pin(&[cpu]).expect("a CPU that is allowed");
        real_time(1);
    };
    let mut first = true;
    let plant = move || {
        if std::mem::take(&mut first) {
            take(other);
        }
        let (has_the_cpu, has_it) = channel();
        wake.send(has_the_cpu).expect("the hog is there");
        // It says nothing: it lets go.
        assert!(has_it.recv().is_err());
    };
    finds_with(
        move || take(cpu),
        plant,
        "client_run_queue",
        &["the client being runnable", &format!("on CPU {cpu} behind cpu-hog")],
    );
    hog.join().expect("the hog");
}

#[test]
fn planted_page_faults_are_counted() {
    skip_without_bpf!();
    let _alone = CPU.lock().unwrap_or_else(|failed| failed.into_inner());
    let plant = || {
        // Fresh memory, touched page by page, for so much CPU time.
        let begin = msgpath_sys::clock::thread_cpu();
        while msgpath_sys::clock::thread_cpu() - begin < PLANTED.as_nanos() as u64 {
            let mut memory = vec![0_u8; 64 << 20];
            memory.iter_mut().step_by(4096).take(4096).for_each(|byte| *byte = std::hint::black_box(1));
            std::hint::black_box(&memory);
        }
    };
    finds(at_once(plant), "work_page_faults", &["more page faults"]);
}

/// A timer that expires all the time on the CPU on which the server computes: its interrupts are told from what the server does.
#[test]
fn planted_interrupts_are_told_from_computing() {
    skip_without_bpf!();
    let _alone = CPU.lock().unwrap_or_else(|failed| failed.into_inner());
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let ((), result) = watch(port, move || {
        let server = named("planted", move || {
            let cpu = msgpath_sys::affinity::allowed()[0];
            let (mut first, timer) = (true, timer());
            let plant = move || {
                if std::mem::take(&mut first) {
                    msgpath_sys::affinity::pin(&[cpu]).expect("a CPU that is allowed");
                    real_time(1);
                }
                // It expires on the CPU that has set it.
                let begin = msgpath_sys::clock::thread_cpu();
                while msgpath_sys::clock::thread_cpu() - begin < PLANTED.as_nanos() as u64 {
                    expires_in(&timer, Duration::from_micros(5));
                    let begin = Instant::now();
                    while begin.elapsed() < Duration::from_micros(15) {}
                }
            };
            serve(&listener, 1, plant);
        });
        named("asker", move || client(port)).join().expect("the client");
        server.join().expect("the server");
    });
    is_sound(&result, 90);
    let missing = result["missing"].as_array().expect("a list");
    if missing.iter().any(|name| name == "local_timer_entry") {
        return println!("skipped: this kernel does not tell of the timer's interrupts");
    }
    let stages = server(&result)["stages"].as_array().expect("stages");
    let of = |name: &str| {
        stages
            .iter()
            .find(|stage| stage["stage"] == name)
            .map_or(0.0, |stage| stage["slow_ns"].as_f64().expect("a time"))
    };
    // What the timer takes of 150 ms depends on the machine; without it that is some tenths of a per cent.
    assert!(of("work_interrupts") > 0.02 * of("work_on_cpu"), "{stages:#?}");
}

fn timer() -> OwnedFd {
    timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).expect("a timer")
}

fn expires_in(timer: &OwnedFd, time: Duration) {
    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    let once = Itimerspec { it_interval: never, it_value: Timespec { tv_sec: 0, tv_nsec: time.as_nanos() as i64 } };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &once).expect("a timer that is set");
}

#[test]
fn a_planted_fsync_is_found() {
    skip_without_bpf!();
    let _alone = CPU.lock().unwrap_or_else(|failed| failed.into_inner());
    let home = Home::new();
    let mut file = std::fs::File::create(home.path().join("synced")).expect("a file");
    let begin = Instant::now();
    file.write_all(&[1; 4096]).and_then(|()| file.sync_all()).expect("a disk");
    if begin.elapsed() < Duration::from_micros(50) {
        return println!("skipped: fsync waits for no disk here");
    }
    let plant = move || {
        let mut waited = Duration::ZERO;
        while waited < PLANTED {
            file.write_all(&[1; 4096]).expect("a disk");
            let begin = Instant::now();
            file.sync_all().expect("a disk");
            waited += begin.elapsed();
        }
    };
    finds(at_once(plant), "work_disk", &["in fsync"]);
}

/// Eight clients at once at a server that needs 40 ms for each, and in between one alone.
#[test]
fn a_queue_of_clients_is_found() {
    skip_without_bpf!();
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let ((), result) = watch(port, move || {
        let server = named("planted", move || serve(&listener, 8, || thread::sleep(Duration::from_millis(40))));
        let barrier = Arc::new(Barrier::new(8));
        let clients: Vec<_> = (0..8)
            .map(|number| {
                let barrier = barrier.clone();
                named("asker", move || {
                    let mut stream = connect(port);
                    for _ in 0..6 {
                        if number == 0 {
                            (0..10).for_each(|_| assert!(ask(&mut stream, b'n') > Duration::ZERO));
                        }
                        barrier.wait();
                        ask(&mut stream, b'p');
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().expect("a client"));
        server.join().expect("the server");
    });
    is_sound(&result, 6 * 18);
    is_caused_by(server(&result), "busy with other");
}

/// A server that has read two requests answers the later one first: what it computes for that one is not work on the other.
#[test]
fn a_reply_that_waits_for_other_work_is_held_back() {
    skip_without_bpf!();
    let _alone = CPU.lock().unwrap_or_else(|failed| failed.into_inner());
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let ((), result) = watch(port, move || {
        let clients = [connect(port), connect(port)];
        let server = named("planted", move || {
            real_time(1);
            let [mut early, mut late] = [(); 2].map(|()| listener.accept().expect("a client").0);
            for n in 0..30 {
                let mut byte = [0];
                early.read_exact(&mut byte).expect("a request");
                late.read_exact(&mut byte).expect("another one");
                if n % 6 == 5 {
                    spin();
                }
                late.write_all(&byte).expect("its client reads");
                early.write_all(&byte).expect("its client reads");
            }
        });
        let ask_all = |mut stream: TcpStream| named("asker", move || (0..30).for_each(|_| _ = ask(&mut stream, b'n')));
        clients.map(ask_all).into_iter().for_each(|client| client.join().expect("a client"));
        server.join().expect("the server");
    });
    is_sound(&result, 60);
    // Of both requests of a slow turn the work is that of one, and what the other waits for is the same.
    let server = server(&result);
    // A kernel takes the CPU even from a real-time thread now and then, and says so: all of the work counts.
    for prefix in ["held", "work_"] {
        let stages = server["stages"].as_array().expect("stages");
        let of = stages.iter().filter(|row| row["stage"].as_str().is_some_and(|stage| stage.starts_with(prefix)));
        let share = of.filter_map(|row| row["slow_ns"].as_f64()).sum::<f64>() / PLANTED.as_nanos() as f64;
        assert!((0.4..0.6).contains(&share), "{prefix} {share}");
    }
    let said = server["findings"].to_string();
    assert!(said.contains("the reply being held back") && said.contains("computing"), "{said}");
}

/// A page, limits, metrics, and the verbs that know what is kept.
#[test]
fn a_record_is_held_to_limits_and_kept_beside_runs() {
    skip_without_bpf!();
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let home = Home::new();
    let (page, metrics) = (home.path().join("page.html"), home.path().join("m.prom"));
    let (page_text, metrics_text) = (page.to_str().expect("text"), metrics.to_str().expect("text"));
    let port_text = port.to_string();
    let line = ["watch", "--port", &port_text, "-t", "60s", "--name", "kept", "--report", page_text];
    let limits = ["--fail-if", "mean > 1us", "--fail-if", "rate < 0.001 msg/s", "--open-metrics", metrics_text];
    let mut watching = home.command(&[&line[..], &limits].concat());
    let watching = watching.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let begun = home.runs().join("kept/watch.json");
    assert!(within(Duration::from_secs(60), || begun.exists()), "it does not begin");
    let server = named("planted", move || serve(&listener, 1, || {}));
    let mut stream = connect(port);
    let (begin, mut asked) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_millis(2200) || asked < 200 {
        ask(&mut stream, b'n');
        asked += 1;
        thread::sleep(Duration::from_millis(1));
    }
    drop(stream);
    server.join().expect("the server");
    let process = rustix::process::Pid::from_child(&watching);
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("a child of ours");
    let output = watching.wait_with_output().expect("it ends");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{out}\n{err}");
    assert_eq!(output.status.code(), Some(1));
    assert!(err.contains("error[E25]") && err.contains("mean > 1us for planted:"), "{err}");
    assert!(out.contains("failed (sure)") && out.contains("passed"), "{out}");
    let page = std::fs::read_to_string(page).expect("the page");
    assert!(page.contains("Where is a request to planted at every moment?") && page.contains("</html>"));
    let metrics = std::fs::read_to_string(metrics).expect("the metrics");
    let counted = metrics
        .lines()
        .find_map(|line| line.strip_prefix("msgpath_watched_requests_total{")?.rsplit(' ').next()?.parse::<u64>().ok());
    assert!(counted.is_some_and(|count| count > 100) && metrics.ends_with("# EOF\n"), "{metrics}");
    home.run("runs").ends_with(0).shows(&["kept", "watch", &format!("port {port}")]);
    home.run("show kept").ends_with(0).shows(&["planted", "mean > 1us"]);
    home.run("show @last").ends_with(0).shows(&["planted"]);
    home.run("watch @last").ends_with(1).shows(&["planted"]);
    home.run("report kept").ends_with(0).shows(&["kept/report.html"]);
    let csv = home.run("export kept").ends_with(0).out;
    assert!(csv.starts_with("t0_ns,total_ns,connection,") && csv.lines().count() > 100, "{csv}");
    home.run("export kept --to json").ends_with(0).shows(&["\"schema\":\"msgpath.watch/1\""]);
    home.run("export kept --to openmetrics").ends_with(0).shows(&["msgpath_watched_requests_total{", "# EOF"]);
    home.run("export kept --to perfetto -o kept.pftrace").ends_with(0);
    assert!(home.path().join("kept.pftrace").metadata().is_ok_and(|file| file.len() > 10_000));
    home.run("export kept --to hgrm").ends_with(2).says(&["is not exported as hgrm", "openmetrics"]);
    home.run("verify @last").ends_with(0).shows(&["All agree."]);
}

/// What watching costs is told of the load, also where that has ended long before.
#[test]
fn the_cost_is_that_of_the_load() {
    skip_without_bpf!();
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let ((), result) = watch_with("--all", port, move || {
        let server = named("planted", move || serve(&listener, 1, || {}));
        let mut stream = connect(port);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(900) {
            ask(&mut stream, b'n');
        }
        drop(stream);
        server.join().expect("the server");
        thread::sleep(Duration::from_millis(700));
    });
    let cost = &result["cost"];
    if cost.is_null() {
        return println!("skipped: no right to count what BPF programs cost");
    }
    let (programs, reader) = (cost["programs"].as_f64().expect("a share"), cost["reader"].as_f64().expect("a share"));
    assert!(programs > 0.0 && programs < 2.0 && reader > 0.0, "{cost:#}");
}

/// One thread reads, another works and answers.
#[test]
fn a_request_is_followed_to_another_thread() {
    skip_without_bpf!();
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let (times, result) = watch(port, move || {
        let server = named("reader", move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let (hand, handed) = channel::<u8>();
            let mut answers = stream.try_clone().expect("a descriptor");
            let worker = named("worker", move || {
                while let Ok(what) = handed.recv() {
                    if what == b'p' {
                        thread::sleep(PLANTED);
                    }
                    answers.write_all(&[what]).expect("the client reads");
                }
            });
            let mut byte = [0];
            while stream.read(&mut byte).unwrap_or(0) > 0 {
                hand.send(byte[0]).expect("the worker is there");
            }
            drop(hand);
            worker.join().expect("the worker");
        });
        let times = client(port);
        server.join().expect("the server");
        times
    });
    is_sound(&result, 90);
    let server = server(&result);
    let first = sentence(server, "X01");
    is_caused_by(server, "the server sleeping");
    // The worker is known from its first answer on; before that its work is in one piece.
    assert!(first["evidence"]["share"].as_f64().is_some_and(|share| share > 0.5), "{first:#}");
    assert_eq!(times.len(), 90);
}

/// Four requests at once on one connection: by turns they cannot be paired, and that is what is said.
#[test]
fn several_requests_in_flight_are_not_split() {
    skip_without_bpf!();
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let ((), result) = watch(port, move || {
        let server = named("planted", move || {
            let (mut stream, _) = listener.accept().expect("a client");
            stream.set_nodelay(true).expect("an option of TCP");
            let mut byte = [0];
            while stream.read(&mut byte).unwrap_or(0) > 0 {
                thread::sleep(Duration::from_millis(5));
                // At the end the client goes without its last answers.
                if stream.write_all(&byte).is_err() {
                    return;
                }
            }
        });
        let mut stream = connect(port);
        (0..4).for_each(|_| stream.write_all(b"n").expect("the server reads"));
        for _ in 0..60 {
            stream.read_exact(&mut [0]).expect("the server answers");
            stream.write_all(b"n").expect("the server reads");
        }
        drop(stream);
        server.join().expect("the server");
    });
    let server = server(&result);
    assert!(
        server["not_split"].as_str().is_some_and(|why| why.starts_with("can't tell: several requests in flight")),
        "{server:#}"
    );
    assert_eq!((&server["findings"][0]["code"], &server["stages"]), (&"X14".into(), &Value::Array(Vec::new())));
}

/// Answers each command with one reply, and sleeps for each `SLOW`.
fn serve_commands(listener: &TcpListener, command: usize, is_slow: fn(&[u8]) -> bool, reply: &[u8]) {
    let (mut stream, _) = listener.accept().expect("a client");
    stream.set_nodelay(true).expect("an option of TCP");
    let (mut known, mut room) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut room).unwrap_or(0) {
            0 => return,
            count => known.extend_from_slice(&room[..count]),
        }
        while known.len() >= command {
            let rest = known.split_off(command);
            if is_slow(&known) {
                thread::sleep(PLANTED);
            }
            known = rest;
            if stream.write_all(reply).is_err() {
                return;
            }
        }
    }
}

/// Requests that are in flight together, and all of them.
const IN_FLIGHT: usize = 4;
const COMMANDS: usize = 36;

/// Always has four requests in flight, each in a send call of its own, every sixth of them slow; how long each took.
fn pipelined(port: u16, command: fn(usize) -> &'static [u8], reply: usize) -> Vec<Duration> {
    let mut stream = connect(port);
    let (mut begun, mut took, mut room) = (Vec::new(), Vec::new(), vec![0; reply]);
    while took.len() < COMMANDS {
        while begun.len() < COMMANDS.min(took.len() + IN_FLIGHT) {
            begun.push(Instant::now());
            stream.write_all(command(begun.len() - 1)).expect("the server reads");
        }
        stream.read_exact(&mut room).expect("the server answers");
        took.push(begun[took.len()].elapsed());
    }
    took
}

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const WAIT: &[u8] = b"*1\r\n$4\r\nSLOW\r\n";

fn redis_command(number: usize) -> &'static [u8] {
    if number % 6 == 5 { WAIT } else { PING }
}

/// With `options`, a server that speaks as Redis does and has four requests in flight.
fn commands_in_flight(options: &str) -> (Vec<Duration>, Value) {
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    watch_with(options, port, move || {
        let server = named("planted", move || serve_commands(&listener, PING.len(), |bytes| bytes == WAIT, b"+OK\r\n"));
        let times = named("asker", move || pipelined(port, redis_command, 5)).join().expect("the client");
        server.join().expect("the server");
        times
    })
}

#[test]
fn requests_in_flight_are_paired_by_their_protocol() {
    skip_without_bpf!();
    let (mut own, result) = commands_in_flight(&format!("--slowest {COMMANDS}"));
    if server(&result)["framed"] == 0 && result["missing"].as_array().is_some_and(|missing| !missing.is_empty()) {
        return println!("skipped: this kernel does not give what is sent");
    }
    is_sound(&result, COMMANDS as u64);
    let server = server(&result);
    assert_eq!(
        (&server["framed"], &server["in_flight"], &server["torn"]),
        (&(COMMANDS as u64).into(), &0.into(), &0.into())
    );
    let slowest = server["slowest"].as_array().expect("a list");
    assert_eq!(slowest.len(), COMMANDS);
    for (what, count) in [("SLOW", COMMANDS / 6), ("PING", COMMANDS - COMMANDS / 6)] {
        assert_eq!(slowest.iter().filter(|slow| slow["what"] == what).count(), count);
    }
    // The slow ones slept themselves, no other did, and what came behind them was queued.
    let spent = |slow: &Value, stage: &str| {
        let stages = slow["stages"].as_array().expect("a list").iter();
        stages.filter(|of| of[0] == stage).map(|of| of[1].as_u64().expect("a time")).sum::<u64>()
    };
    let long = SLOW.as_nanos() as u64;
    for slow in slowest {
        assert_eq!(spent(slow, "work_sleep") > long, slow["what"] == "SLOW", "{slow:#}");
    }
    let queued = slowest.iter().filter(|slow| slow["what"] == "PING" && spent(slow, "queued") > long / 2);
    assert!(queued.count() >= COMMANDS / 4);
    // Of the client's time that is not in its calls, watch knows nothing: other work may have its CPU.
    own.sort();
    let (own, seen) = (own[own.len() * 9 / 10].as_secs_f64(), server["p90_ns"].as_f64().expect("a quantile") / 1e9);
    assert!((own - seen).abs() < 0.03 * own + 0.05, "the client says {own} s, watch says {seen} s");
}

#[test]
fn without_payload_requests_in_flight_are_not_paired() {
    skip_without_bpf!();
    let (_, result) = commands_in_flight("--no-payload --slowest 3");
    let server = server(&result);
    assert_eq!((&server["framed"], &server["findings"][0]["code"]), (&0.into(), &"X14".into()));
    let slowest = server["slowest"].as_array().expect("a list");
    assert!(
        slowest.iter().all(|slow| slow["what"] == "") && server["by_request"].as_array().is_some_and(Vec::is_empty)
    );
}

/// A protocol that nobody knows: a length, and so many bytes.
#[test]
fn a_length_in_front_of_each_message_is_enough() {
    skip_without_bpf!();
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let (_, result) = watch_with("--framing 1:u16be --slowest 3", port, move || {
        let server = named("planted", move || serve_commands(&listener, 5, |bytes| bytes == b"!\0\x02no", b"?\0\0"));
        let times = pipelined(port, |number| if number % 6 == 5 { b"!\0\x02no" } else { b"!\0\x02ok" }, 3);
        server.join().expect("the server");
        times
    });
    if server(&result)["framed"] == 0 && result["missing"].as_array().is_some_and(|missing| !missing.is_empty()) {
        return println!("skipped: this kernel does not give what is sent");
    }
    is_sound(&result, COMMANDS as u64);
    assert_eq!(server(&result)["framed"], COMMANDS as u64);
}

/// A program that ends with the test.
pub(crate) struct Program(pub(crate) std::process::Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_slow_command_of_redis_is_found() {
    skip_without_bpf!();
    let _alone = CPU.lock().unwrap_or_else(|failed| failed.into_inner());
    let (home, port) = (Home::new(), free_port());
    let redis = ["-f", "1", "redis-server", "--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""];
    let child = Command::new("chrt").args(redis).current_dir(home.path()).stdout(Stdio::null()).spawn();
    let Ok(redis) = child.map(Program) else { return println!("skipped: no chrt") };
    if !within(Duration::from_secs(60), || TcpStream::connect(("127.0.0.1", port)).is_ok()) {
        return println!("skipped: no redis-server");
    }
    let ((), result) = watch(port, move || {
        let mut stream = connect(port);
        for n in 0..60 {
            // Some 200 ms in one command; the others take microseconds.
            let slow: &[u8] = b"EVAL \"local n=0 for i=1,30000000 do n=n+i end return n\" 0\r\n";
            stream.write_all(if n % 6 == 5 { slow } else { b"PING\r\n" }).expect("redis reads");
            assert!(stream.read(&mut [0; 100]).expect("redis answers") > 0);
        }
    });
    drop(redis);
    is_sound(&result, 60);
    let server = server(&result);
    assert_eq!(server["name"], "redis-server");
    is_caused_by(server, "computing");
    // Commands have names where what is sent can be seen.
    let named: Vec<&Value> =
        server["by_request"].as_array().expect("a list").iter().map(|asked| &asked["what"]).collect();
    assert!(named.is_empty() || named == ["EVAL"], "{named:?}");
}

const UNIX: &str = "
import os, socket, threading, time
here, there = '/proc/self/comm', os.path.join(os.getcwd(), 's')
listener = socket.socket(socket.AF_UNIX); listener.bind(there); listener.listen()
def serve():
    peer, _ = listener.accept()
    while True:
        what = peer.recv(100)
        if not what: return
        if what == b'p': time.sleep(0.15)
        peer.sendall(b'answer')
server = threading.Thread(target=serve); server.start()
time.sleep(0.3)
client = socket.socket(socket.AF_UNIX); client.connect(there)
for n in range(60):
    client.sendall(b'p' if n % 6 == 5 else b'n'); client.recv(100)
client.close(); server.join()
";

#[test]
fn a_command_is_started_and_its_unix_sockets_are_watched() {
    skip_without_bpf!();
    if Command::new("python3").arg("--version").output().is_err() {
        return println!("skipped: no python3");
    }
    let home = Home::new();
    let output = home.msgpath(&["watch", "--json", "--slow", "120ms", "--", "python3", "-c", UNIX]).ends_with(0);
    let result = output.json();
    println!("{result:#}");
    fits(&home.run("schema").ends_with(0).json(), "Watched", &result);
    let server = server(&result);
    // The first request of a connection that nobody knew may be seen in part only.
    assert!(server["requests"].as_u64().is_some_and(|requests| (58..=60).contains(&requests)), "{server:#}");
    assert_eq!(server["port"], Value::Null);
    is_caused_by(server, "the server sleeping");
}

#[test]
fn a_command_runs_as_the_user_who_started_sudo() {
    skip_without_bpf!();
    let nobody = msgpath_sys::user::User::named("nobody").unwrap();
    let Some(nobody) = nobody.filter(|_| msgpath_sys::user::is_root()) else {
        return println!("skipped: needs root and a user nobody");
    };
    let home = Home::new();
    let watched = |sudo: Option<u32>, words: &[&str]| {
        let mut command = home.command(&[&["watch", "--no-save"], words, &["--", "id", "-u"]].concat());
        for name in ["SUDO_USER", "SUDO_UID", "SUDO_GID"] {
            command.env_remove(name);
        }
        if let Some(uid) = sudo {
            command.env("SUDO_USER", "nobody").env("SUDO_UID", uid.to_string());
            command.env("SUDO_GID", nobody.gid.to_string());
        }
        Running::new(command).finish(LIMIT)
    };
    let prints = |output: Output, uid: u32| {
        let output = output.ends_with(4);
        assert!(output.err.lines().any(|line| line == uid.to_string()), "not as {uid}:\n{}", output.err);
        output
    };
    prints(watched(Some(nobody.uid), &[]), nobody.uid).says(&["runs as nobody", "--as-root"]);
    prints(watched(Some(nobody.uid), &["--as-root"]), 0);
    prints(watched(None, &[]), 0);
    prints(watched(None, &["--user", "nobody"]), nobody.uid);
    watched(Some(nobody.uid - 1), &[]).ends_with(2).says(&["SUDO_UID", "--user NAME"]);
    watched(None, &["--user", "no-such-user-here"]).ends_with(2).says(&["there is no user"]);
}

const ONE_EACH: &str = "
import socket, sys
listener = socket.socket(); listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('127.0.0.1', int(sys.argv[1]))); listener.listen(64)
while True:
    peer, _ = listener.accept()
    what = peer.recv(100)
    peer.sendall(b'answer'); peer.close()
    if what == b'end': break
";

/// A connection for each request: the server's process is watched, and the client has sent before the server knows of it.
#[test]
fn requests_with_a_connection_each_are_seen() {
    skip_without_bpf!();
    if Command::new("python3").arg("--version").output().is_err() {
        return println!("skipped: no python3");
    }
    let (home, port) = (Home::new(), free_port());
    let client = named("asker", move || {
        let one = |what: &[u8]| {
            let mut connected = None;
            within(Duration::from_secs(60), || {
                connected = TcpStream::connect(("127.0.0.1", port)).ok();
                connected.is_some()
            });
            let mut stream = connected.expect("the server begins");
            stream.write_all(what).expect("the server reads");
            stream.read_to_end(&mut Vec::new()).expect("the server answers");
        };
        (0..40).for_each(|_| one(b"n"));
        one(b"end");
    });
    let output = home.msgpath(&["watch", "--json", "--", "python3", "-c", ONE_EACH, &port.to_string()]).ends_with(0);
    client.join().expect("the client");
    let result = output.json();
    println!("{result:#}");
    // The last one ends with the server.
    assert!(server(&result)["requests"].as_u64().is_some_and(|requests| requests >= 40), "{result:#}");
}

/// Numbers of the BPF programs that a process holds.
fn programs_of(process: u32) -> Vec<u32> {
    let Ok(folder) = std::fs::read_dir(format!("/proc/{process}/fdinfo")) else { return Vec::new() };
    let texts = folder.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
    texts.filter_map(|text| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())).collect()
}

#[test]
fn nothing_stays_in_the_kernel_after_a_kill() {
    skip_without_bpf!();
    if msgpath_sys::bpf::loaded_programs().is_err() {
        return println!("skipped: no right to list programs");
    }
    let home = Home::new();
    let mut watching = home.command(&["watch", "--port", "1", "-t", "60s", "--name", "w"]).spawn().expect("it starts");
    let file = home.runs().join("w/watch.json");
    let begun = within(Duration::from_secs(60), || file.exists());
    let programs = programs_of(watching.id());
    watching.kill().and_then(|()| watching.wait()).expect("a child of ours");
    assert!(begun && programs.len() >= 10, "{programs:?}");
    let gone = || msgpath_sys::bpf::loaded_programs().is_ok_and(|now| !programs.iter().any(|id| now.contains(id)));
    assert!(within(Duration::from_secs(60), gone), "programs stay loaded");
}

#[test]
fn what_cannot_be_watched_is_said() {
    let home = Home::new();
    home.run("watch").ends_with(2).says(&["nothing to watch", "--port 6379"]);
    home.run("watch --pid 1 -t 0").ends_with(2).says(&["-t must be"]);
    home.run("watch --pid 1 --framing u24be").ends_with(2).says(&["--framing takes auto"]);
    home.run("watch --pid 1 --framing resp --no-payload").ends_with(2);
    home.run("watch --pid 1 --fail-if cpu>1us").ends_with(2).says(&["watched programs have no cpu"]);
    home.run("watch --pid 1 --fail-if p99>+5%").ends_with(2).says(&["a change needs an earlier run"]);
    home.run("watch no-such-record").ends_with(2);
    skip_without_bpf!();
    home.run("watch --pid 4194303").ends_with(3).says(&["error[E61]", "there is no process 4194303"]);
    home.run("watch --cgroup /no/such/group").ends_with(3).says(&["error[E61]", "no cgroup /no/such/group"]);
    home.run("watch --port 1 --without sk_data_ready,tcp_probe")
        .ends_with(3)
        .says(&["since 6.3: sk_data_ready; and tcp_probe"]);
    home.run("watch --comm no-such-name").ends_with(3).says(&["no process is called no-such-name"]);
    home.run("watch -- /no/such/program").ends_with(3).says(&["error[E61]", "cannot be started"]);
    home.run("watch --port 1 -t 300ms --name a").ends_with(4).shows(&["No request was seen"]);
    home.run("watch a").ends_with(4).shows(&["No request was seen"]);
}

#[test]
fn what_a_kernel_or_a_user_lacks_to_watch_is_said_with_its_cure() {
    skip_without_bpf!();
    let home = Home::new();
    let without_types = "mount --bind /dev/null /sys/kernel/btf/vmlinux && exec \"$@\"";
    let lacking: [(&[&str], [&str; 2]); 3] = [
        (
            &["setpriv", "--bounding-set", "-bpf,-sys_admin"],
            ["no right to use BPF", "sudo setcap cap_bpf,cap_perfmon+ep"],
        ),
        (&["setpriv", "--bounding-set", "-perfmon,-sys_admin"], ["CAP_PERFMON", "sudo setcap cap_bpf,cap_perfmon+ep"]),
        (
            &["unshare", "--mount", "sh", "-c", without_types, "sh"],
            ["no type information of the kernel", "CONFIG_DEBUG_INFO_BTF=y"],
        ),
    ];
    for (starter, words) in lacking {
        match home.run_under(starter, "watch --port 1 -t 300ms") {
            None => println!("skipped: {starter:?} cannot be had here"),
            Some(output) => drop(output.ends_with(3).says(&["error[E61]", words[0], words[1]])),
        }
    }
}
