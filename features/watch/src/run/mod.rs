//! Programs that nobody changed, watched: loads the BPF programs, reads their rows, and writes the record.
//!
//! Everything is bounded: the time, the rows that are kept, the rows a second (`sampling`), the processes that are looked for.

mod cgroup;
mod command;
mod cost;
mod framing;
mod pairing;
mod processes;
mod requests;
mod sampling;
mod slices;
mod targets;
mod windows;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use msgpath_agent::doctor::stat::{self, Ticks};
use msgpath_agent::observe::{explain, first_pid_namespace};
use msgpath_core::gate::Gate;
use msgpath_core::watch::{RequestRow, ServiceCounts};
use msgpath_core::{Exit, Problem, Unavailable};
use msgpath_record::utc;
use msgpath_sys::bpf::{Missing, grace};
use msgpath_sys::clock;
use msgpath_sys::user::User;
use msgpath_sys::watch::{Wanted, Watch, calls};

use command::Child;
use cost::Counting;
pub use framing::Framing;
use processes::Processes;
use requests::Requests;
use sampling::Sampling;
use slices::Slices;
use targets::Targets;
use windows::Windows;

use crate::record::{SCHEMA, WatchCost, WatchEnd, WatchHeader, WatchWriter};

/// How often the sampling follows the load and rows are written, and how often one looks for new processes and shows what there is.
const FOLLOW: Duration = Duration::from_millis(100);
/// How soon one looks again where connections come and go: who counts their turns is to be said (`put_begin` of the programs).
const SOON: Duration = Duration::from_millis(20);
const SHOW: Duration = Duration::from_secs(1);
/// The most rows that are taken at once.
const MOST_AT_ONCE: usize = 1 << 16;

/// What is watched, for how long, and where it is recorded.
#[derive(Clone, Debug, Default)]
pub struct WatchRequest {
    pub pids: Vec<i32>,
    pub ports: Vec<u16>,
    pub names: Vec<String>,
    /// Cgroups: folders, or names as in /proc/PID/cgroup.
    pub cgroups: Vec<String>,
    /// The other ends of connections are left alone, as if they were on other hosts.
    pub no_peers: bool,
    /// Tracepoints that are left out, as if this kernel were older.
    pub without: Vec<String>,
    /// A program to start, with its arguments.
    pub command: Vec<OsString>,
    /// The user that it runs as; `None`: that of this process.
    pub user: Option<User>,
    /// How long.
    pub time: Duration,
    /// The most rows that are kept.
    pub rows: u64,
    /// Requests from this on have a row each, ns; 0: the slowest 3 %.
    pub slow_ns: u64,
    /// Every request is followed, whatever that costs.
    pub all: bool,
    /// The slowest requests of each server that are shown.
    pub slowest: u32,
    /// How messages are told apart; `None`: by turns, and nothing of what is sent is read.
    pub framing: Option<Framing>,
    /// What the result is held to.
    pub gates: Vec<Gate>,
    /// Name and folder of the record.
    pub name: String,
    pub folder: PathBuf,
    /// What was typed.
    pub typed: Vec<String>,
}

/// What there is to see while programs are watched.
pub struct Live<'a> {
    /// Since the beginning.
    pub elapsed: Duration,
    /// What was counted so far.
    pub services: &'a [ServiceCounts],
    /// Rows of the last second.
    pub rows: &'a [RequestRow],
}

fn refused(why: Unavailable) -> Problem {
    Problem::new("E61", Exit::CannotStart, "programs cannot be watched here").why(why.why).hint(why.hint)
}

/// Whether programs can be watched here.
///
/// # Errors
/// Why not.
pub fn available() -> Result<(), Unavailable> {
    first_pid_namespace()?;
    Watch::open(Wanted::default()).map(drop).map_err(explain)
}

/// Watches, and writes the record.
///
/// # Errors
/// E61: it is not possible here, or there is nothing to watch. A record that cannot be written.
pub fn watch(request: &WatchRequest, live: &mut dyn FnMut(&Live), stop: &AtomicBool) -> Result<(), Problem> {
    first_pid_namespace().map_err(refused)?;
    let mut targets = Targets::of(request)?;
    let wanted =
        Wanted { payload: request.framing.is_some(), cgroups: !request.cgroups.is_empty(), without: &request.without };
    let (mut watch, mut missing) = Watch::open(wanted).map_err(|refusal| refused(explain(refusal)))?;
    missing.extend(watch.attach());
    if request.no_peers {
        watch.leave_peers_alone();
    }
    if matches!(request.framing, Some(Framing::Auto | Framing::Http2)) {
        watch.recognise();
    }
    missing.extend(targets.apply(&mut watch)?);
    let header = WatchHeader {
        schema: SCHEMA.into(),
        name: request.name.clone(),
        started: utc::now(),
        command: request.typed.clone(),
        target: targets.words(),
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().into(),
        cpus: msgpath_sys::affinity::allowed().len() as u32,
        missing: missing.into_iter().map(|(name, why)| (name.to_owned(), why)).collect(),
        calls: calls().into_iter().map(|(number, name, _)| (number, name.to_owned())).collect(),
        version: env!("CARGO_PKG_VERSION").into(),
        framing: request.framing.filter(|_| watch.copies()).map_or_else(String::new, |framing| framing.to_string()),
        gates: request.gates.clone(),
        slow_ns: request.slow_ns,
        slowest: request.slowest,
    };
    let writer = WatchWriter::create(&request.folder, &header, request.rows)?;
    watch.switch(true);
    let child = Child::start(&request.command, request.user.as_ref())?;
    if let Some(child) = &child {
        watch.watch_process(child.id()).map_err(|error| refused(Unavailable::new(error.to_string(), "")))?;
        targets.started(child.id(), &mut watch);
    }
    let mut watching = Watching { child, writer, targets, watch };
    let end = watching.follow(request, live, stop)?;
    watching.writer.finish(end)?;
    Ok(())
}

/// What is watched, and where it is written.
struct Watching {
    /// The command that was started to be watched. It ends first.
    child: Option<Child>,
    writer: WatchWriter,
    targets: Targets,
    watch: Watch,
}

impl Watching {
    /// Takes rows until the time is over, the record is full, the command has ended, or somebody stops it.
    fn follow(
        &mut self,
        request: &WatchRequest,
        live: &mut dyn FnMut(&Live),
        stop: &AtomicBool,
    ) -> Result<WatchEnd, Problem> {
        let Self { child, writer, targets, watch } = self;
        let (begin, cpu, ticks) = (Instant::now(), clock::thread_cpu(), ticks());
        let mut sampling = Sampling::new(request.slow_ns);
        let mut requests = Requests::new(request.framing.unwrap_or_default());
        let mut cost = Counting::new();
        let mut processes = Processes::default();
        let mut slices = Slices::new(begin);
        let mut windows = Windows::new(request.all, begin);
        let (mut rows, mut recent) = (Vec::new(), Vec::new());
        let (mut followed, mut shown) = (begin, begin);
        let (mut missing, mut next) = (Missing::new(), FOLLOW);
        loop {
            let most = windows.next(Instant::now()).map_or(next, |edge| edge.min(next));
            watch.wait(most).map_err(|error| refused(Unavailable::new(error.to_string(), "")))?;
            let edge = windows.next(Instant::now()).map(|edge| Instant::now() + edge);
            let new = requests.take(watch, &sampling, (MOST_AT_ONCE, edge), &mut rows);
            next = if new { SOON } else { FOLLOW };
            let now = Instant::now();
            missing.extend(windows.step(watch, |watch| requests.services(watch)));
            if now - followed >= FOLLOW {
                followed = now;
                writer.requests(&rows)?;
                processes.look(&rows);
                recent.append(&mut rows);
                let services = requests.services(watch);
                sampling.follow(watch, &services, windows.are_on());
                cost.follow(watch, &services, now - begin, windows.are_on());
                slices.follow(&services, now, windows.are_on());
                windows.follow(watch, &services, now);
                missing.extend(watch.attach_datagrams(false));
            }
            if now - shown >= SHOW {
                shown = now;
                targets.again(watch);
                live(&Live { elapsed: now - begin, services: &requests.services(watch), rows: &recent });
                recent.clear();
            }
            let ended = child.as_mut().is_some_and(Child::has_ended);
            if ended || now - begin >= request.time || writer.is_full() || stop.load(Ordering::Relaxed) {
                break;
            }
        }
        let (over, duration) = (Instant::now(), begin.elapsed());
        watch.switch(false);
        grace();
        requests.take(watch, &sampling, (MOST_AT_ONCE, None), &mut rows);
        requests.end(&sampling, &mut rows);
        writer.requests(&rows)?;
        processes.look(&rows);
        let (totals, services) = (watch.totals(), requests.services(watch));
        let cost = cost.finish(watch, &services).map(|cost| WatchCost { reader_ns: clock::thread_cpu() - cpu, ..cost });
        Ok(WatchEnd {
            duration_ns: duration.as_nanos() as u64,
            connections: totals.connections,
            lost: totals.lost,
            no_room: totals.no_room,
            ambiguous: totals.ambiguous,
            holes: totals.holes,
            rows_kept: 0,
            rows_not_kept: 0,
            header_crc32: 0,
            stolen: stolen(ticks),
            steal_split: watch.tells_steal(),
            slices: slices.finish(&services, over),
            windows: windows.finish(over),
            services,
            processes: processes.known(),
            cost,
            missing: missing.into_iter().map(|(name, why)| (name.to_owned(), why)).collect(),
        })
    }
}

fn ticks() -> Option<Ticks> {
    stat::ticks(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// The share of the CPUs' time that the hypervisor took since then.
fn stolen(before: Option<Ticks>) -> Option<f64> {
    let (before, now) = (before?, ticks()?);
    let (all, stolen) = (now.all.checked_sub(before.all)?, now.steal.checked_sub(before.steal)?);
    (all > 0).then(|| stolen as f64 / all as f64)
}
