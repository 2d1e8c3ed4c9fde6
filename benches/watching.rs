//! How much of a full load's throughput `msgpath watch` takes: redis-server under redis-benchmark, pinned to a CPU each.
//!
//! `cargo bench --bench watching -- [PAIRS [PROGRAM]]`: 14 pairs of windows, and the program just built, unless others are named. One
//! long load, in windows of 150 ms: three off, three on, three off ...; the median of three with watching is divided by the mean of those beside
//! it. Requests are counted by the server itself. Separate runs say nothing here: they differ by more than what is looked for. Prints the median and the
//! quartiles for each load; wants root, redis-server, redis-benchmark and taskset, and says what is missing.
//!
//! At least [`KEPT`] of the throughput is to be kept: else it ends with a failure.
//!
//! `cargo bench --bench watching -- agreement [PROGRAM]`: our own echo keeps its times and is traced (`explain`), and is watched at the same
//! time. Prints what each says of the same messages: their times, and the work of the server.
#![allow(clippy::print_stderr, clippy::print_stdout)]

#[path = "../features/watch/tests/program/agreement.rs"]
mod agreement;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const PAIRS: usize = 14;
/// Of the throughput, the median of the pairs.
const KEPT: f64 = 0.92;
const WINDOW: Duration = Duration::from_millis(150);
/// Windows one after the other, of which the median counts: one may be that of a task of the machine.
const WINDOWS: usize = 3;
/// From the first request on, and after watching has ended.
const SETTLE: Duration = Duration::from_millis(50);
/// After the programs are attached: for the first third of a second the kernel counts what they cost, which costs as well.
const COUNTED: Duration = Duration::from_millis(500);
/// How long a process may take to begin or to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// What is typed after `redis-benchmark`.
const LOADS: [(&str, &[&str]); 4] = [
    ("-c 1", &["-c", "1"]),
    ("-c 8", &["-c", "8"]),
    ("-c 1 -P 16", &["-c", "1", "-P", "16"]),
    ("-c 8 -P 16", &["-c", "8", "-P", "16"]),
];
/// What is typed after `msgpath watch`.
const WAYS: [(&str, &[&str]); 2] = [("watch", &[]), ("watch --no-payload", &["--no-payload"])];

/// Ends with this.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the server of our own echo computes for each message.
const SERVICES: [&str; 3] = ["1us", "100us", "1ms"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if arguments.first().is_some_and(|first| first == "agreement") {
        return agreement(arguments.get(1).map_or(env!("CARGO_BIN_EXE_msgpath"), String::as_str));
    }
    let pairs = arguments.first().map_or(PAIRS, |count| count.parse().expect("a number of pairs"));
    let program = arguments.get(1).map_or(env!("CARGO_BIN_EXE_msgpath"), String::as_str);
    for (tool, argument) in [("redis-server", "--version"), ("redis-benchmark", "--version"), ("taskset", "--version")]
    {
        if Command::new(tool).arg(argument).stdout(Stdio::null()).status().is_err() {
            println!("skipped: no {tool}");
            return ExitCode::SUCCESS;
        }
    }
    if let Err(why) = msgpath_watch::run::available() {
        println!("skipped: {why}");
        return ExitCode::SUCCESS;
    }
    println!("{:<12} {:<20} {:>12} {:>8}  quartiles", "load", "", "requests/s", "ratio");
    let mut kept = true;
    for (load, options) in LOADS {
        for (way, watching) in WAYS {
            let Some((rate, mut ratios)) = measured(program, options, watching, pairs) else {
                println!("{load:<12} {way:<20} failed");
                return ExitCode::FAILURE;
            };
            ratios.sort_by(f64::total_cmp);
            let quantile = |p: f64| ratios[((ratios.len() - 1) as f64 * p).round() as usize];
            kept &= quantile(0.5) >= KEPT;
            println!(
                "{load:<12} {way:<20} {rate:>12.0} {:>8.3}  {:.3} to {:.3}",
                quantile(0.5),
                quantile(0.25),
                quantile(0.75)
            );
        }
    }
    if !kept {
        println!("less than {KEPT} is kept");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn agreement(program: &str) -> ExitCode {
    if let Err(why) = msgpath_watch::run::available() {
        println!("skipped: {why}");
        return ExitCode::SUCCESS;
    }
    println!(
        "{:<8} {:<6} {:>12} {:>12} {:>8}   ratio of each message, median",
        "service", "", "echo", "watch", "ratio"
    );
    for service in SERVICES {
        let Some((traced, messages)) = both(program, service).filter(|(_, messages)| !messages.is_empty()) else {
            println!("{service:<8} failed");
            return ExitCode::FAILURE;
        };
        for (what, of, p) in [
            ("p50", (|times| times.total) as fn(&agreement::Times) -> u64, 0.5),
            ("p99", |times| times.total, 0.99),
            ("work", |times| times.work, 0.5),
        ] {
            let [own, watched] = [0, 1].map(|side| {
                let mut times: Vec<u64> = messages.iter().map(|both| of(&both[side])).collect();
                times.sort_unstable();
                times[((times.len() - 1) as f64 * p).round() as usize]
            });
            let (ratio, each) = (watched as f64 / own as f64, agreement::median(&messages, of));
            println!("{service:<8} {what:<6} {own:>9} ns {watched:>9} ns {ratio:>8.3}   {each:.3}");
        }
        println!("{service:<8} {} of {traced} traced messages", messages.len());
    }
    ExitCode::SUCCESS
}

/// Traced messages, and those of them that both have.
fn both(program: &str, service: &str) -> Option<(usize, Vec<[agreement::Times; 2]>)> {
    let home = tempfile::tempdir().ok()?;
    let mut command = Command::new(program);
    command
        .args(agreement::arguments(program, &format!("service-time={service}"), "1000", "20"))
        .env("XDG_DATA_HOME", home.path());
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    agreement::messages(&home.path().join("msgpath"), 10_000)
}

/// Requests a second without watching, and the ratio of each window with it to those beside it.
fn measured(program: &str, options: &[&str], watching: &[&str], pairs: usize) -> Option<(f64, Vec<f64>)> {
    let home = tempfile::tempdir().ok()?;
    let port = std::net::TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port().to_string();
    let quiet = |command: &mut Command| command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok().map(Process);
    let pinned = |cpu: &str, program: &str| {
        let mut command = Command::new("taskset");
        command.args(["-c", cpu, program]).current_dir(home.path());
        command
    };
    let _server = quiet(pinned("0", "redis-server").args(["--port", &port, "--bind", "127.0.0.1", "--save", ""]))?;
    let mut counter = within(|| Counter::open(&port))?;
    let load = ["-p", &port, "-t", "get", "-n", "2000000000"];
    let _load = quiet(pinned("1", "redis-benchmark").args(load).args(options))?;
    within(|| (counter.requests()? > 10_000).then_some(()))?;
    std::thread::sleep(SETTLE);
    let mut before = counter.windows()?;
    let (mut ratios, mut rates) = (Vec::new(), vec![before]);
    for pair in 0..pairs {
        let name = format!("w{pair}");
        let mut command = Command::new(program);
        command.args(["watch", "--port", &port, "-t", "20s", "-q", "--name", &name]).args(watching);
        command.env("XDG_DATA_HOME", home.path());
        let watch = quiet(&mut command)?;
        let begun: &Path = &home.path().join("msgpath").join(&name).join("watch.json");
        within(|| begun.exists().then_some(()))?;
        std::thread::sleep(COUNTED);
        let on = counter.windows()?;
        drop(watch);
        std::thread::sleep(SETTLE);
        let after = counter.windows()?;
        ratios.push(on / ((before + after) / 2.0));
        rates.push(after);
        before = after;
    }
    rates.sort_by(f64::total_cmp);
    Some((rates[rates.len() / 2], ratios))
}

/// Until it is there.
fn within<T>(mut done: impl FnMut() -> Option<T>) -> Option<T> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if let Some(done) = done() {
            return Some(done);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

/// Asks the server how many commands it has processed.
struct Counter(BufReader<TcpStream>);

impl Counter {
    fn open(port: &str) -> Option<Self> {
        TcpStream::connect(format!("127.0.0.1:{port}")).ok().map(|stream| Self(BufReader::new(stream)))
    }

    fn requests(&mut self) -> Option<u64> {
        self.0.get_mut().write_all(b"INFO stats\r\n").ok()?;
        let (mut line, mut count) = (String::new(), None);
        // A bulk string: its length, its lines, an empty one.
        self.0.read_line(&mut line).ok()?;
        let mut left: usize = line.trim_start_matches('$').trim().parse().ok()?;
        left += 2;
        while left > 0 {
            line.clear();
            left = left.checked_sub(self.0.read_line(&mut line).ok()?)?;
            count = line.strip_prefix("total_commands_processed:").map(|text| text.trim().to_owned()).or(count);
        }
        count?.parse().ok()
    }

    /// Requests a second in the next windows: the median.
    fn windows(&mut self) -> Option<f64> {
        let mut rates = (0..WINDOWS).map(|_| self.window()).collect::<Option<Vec<f64>>>()?;
        rates.sort_by(f64::total_cmp);
        Some(rates[WINDOWS / 2])
    }

    fn window(&mut self) -> Option<f64> {
        let (begin, before) = (Instant::now(), self.requests()?);
        std::thread::sleep(WINDOW);
        let (requests, elapsed) = (self.requests()? - before, begin.elapsed());
        Some(requests as f64 / elapsed.as_secs_f64())
    }
}
