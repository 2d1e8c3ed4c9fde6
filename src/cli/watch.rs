//! `msgpath watch`: where the time goes in programs that nobody changed.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use msgpath_analyse::watch::{Choice, WatchSummary, summarise};
use msgpath_core::{Exit, Problem, units};
use msgpath_present::{Style, terminal};
use msgpath_record::watch::{MOST_ROWS, is_watched, read};
use msgpath_run::watch::{Live, WatchRequest, watch};

use super::options::Look;
use crate::place::Place;
use crate::problems::usage;
use crate::{looks, runs, typed};

/// The longest that programs are watched.
const LONGEST: u64 = 24 * 3600 * 1_000_000_000;

/// Where the time of other programs goes
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  sudo msgpath watch --port 6379               whoever answers on this port
  sudo msgpath watch --comm redis-server       all processes of a name, with their children
  sudo msgpath watch --pid 812 -t 30s --slowest 10
  sudo msgpath watch -- ./server --threads 4   start a program and watch it until it ends
  msgpath watch brisk-otter                    a record of this kind again

Requests and replies on TCP and Unix stream sockets, both ends on this machine, paired by turns: what a client sends before
it is answered is one request. Needs CAP_BPF and CAP_PERFMON, kernel 6.3 with BTF.")]
pub(super) struct Arguments {
    /// A record: a name, or a folder. Left out: programs are watched now
    #[arg(value_name = "RUN", conflicts_with_all = ["pid", "port", "comm", "command"])]
    run: Option<String>,
    /// Processes, with their children; comma separated
    #[arg(short = 'p', long, value_name = "PIDS", value_delimiter = ',', value_parser = clap::value_parser!(i32).range(1..))]
    pid: Vec<i32>,
    /// TCP ports, either end; comma separated
    #[arg(long, value_name = "PORTS", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// Names of processes, as in /proc/PID/comm; comma separated
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    comm: Vec<String>,
    /// A program to start and watch; what it prints goes to standard error
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// How long; a bare number is seconds [default: 10s; with COMMAND: until it ends]
    #[arg(short = 't', long, value_name = "TIME", value_parser = units::parse_time_or_seconds)]
    time: Option<u64>,
    /// Requests from this on are slow [default: those around p99]
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    slow: Option<u64>,
    /// List so many of the slowest requests of each server
    #[arg(long, value_name = "N", value_parser = typed::number)]
    slowest: Option<u32>,
    /// Stop when so many requests have a row
    #[arg(long, value_name = "N", value_parser = units::parse_count, default_value_t = MOST_ROWS)]
    rows: u64,
    /// Name of the record [default: two words]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Keep no record
    #[arg(long, conflicts_with = "name")]
    no_save: bool,
    /// No live view
    #[arg(short = 'q', long)]
    quiet: bool,
    #[command(flatten)]
    look: Look,
}

impl Arguments {
    fn choice(&self) -> Choice {
        Choice { slow_ns: self.slow.unwrap_or(0), slowest: self.slowest.unwrap_or(0) as usize }
    }

    fn request(&self, place: &Place, words: Vec<String>) -> Result<WatchRequest, Problem> {
        if self.pid.is_empty() && self.port.is_empty() && self.comm.is_empty() && self.command.is_empty() {
            return Err(
                usage("nothing to watch").hint("msgpath watch --port 6379, --pid PID, --comm NAME, or -- COMMAND")
            );
        }
        let default = if self.command.is_empty() { 10_000_000_000 } else { LONGEST };
        let time = self.time.unwrap_or(default);
        if time == 0 || time > LONGEST {
            return Err(usage("-t must be more than 0 and at most 24 hours"));
        }
        if self.rows == 0 || self.rows > MOST_ROWS {
            return Err(usage(format!("--rows must be 1 to {MOST_ROWS}")));
        }
        Ok(WatchRequest {
            pids: self.pid.clone(),
            ports: self.port.clone(),
            names: self.comm.clone(),
            command: self.command.clone(),
            time: Duration::from_nanos(time),
            rows: self.rows,
            slow_ns: self.slow.unwrap_or(0),
            name: place.name.clone(),
            folder: place.folder.clone(),
            typed: std::iter::once("msgpath".into()).chain(words).collect(),
        })
    }
}

pub(super) fn run(arguments: &Arguments, words: Vec<String>) -> Result<ExitCode> {
    if let Some(name) = &arguments.run {
        let folder = runs::find(name)?;
        if !is_watched(&folder) {
            return Err(usage(format!("{name} was measured, not watched")).hint(format!("msgpath show {name}")).into());
        }
        return shown(&folder, arguments.choice(), &arguments.look);
    }
    let place = if arguments.no_save { Place::temporary() } else { Place::kept(arguments.name.as_deref())? };
    let request = arguments.request(&place, words)?;
    let stop = msgpath_sys::signal::stop_flag();
    let mut view = LiveView::new(arguments);
    let watched = watch(&request, &mut |live| view.show(live), stop);
    view.clear();
    watched?;
    shown(&place.folder, arguments.choice(), &arguments.look)
}

/// A record once more, for `msgpath show`.
pub(super) fn show(folder: &Path, look: &Look) -> Result<ExitCode> {
    shown(folder, Choice::default(), look)
}

/// Prints what a record says. Where no request was seen, that is a failure.
fn shown(folder: &Path, choice: Choice, look: &Look) -> Result<ExitCode> {
    let summary = summarise(&read(folder).map_err(Problem::from)?, choice);
    print(&summary, look)?;
    Ok(if summary.servers.iter().any(|server| server.requests > 0) {
        ExitCode::SUCCESS
    } else {
        Exit::Unfinished.code().into()
    })
}

fn print(summary: &WatchSummary, look: &Look) -> Result<()> {
    let text = match look.json {
        true => msgpath_present::json::watched(summary) + "\n",
        false => terminal::watch(summary, looks::stdout(look)),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// The view while programs are watched, on standard error: drawn over itself on a terminal.
struct LiveView {
    style: Option<Style>,
    lines: usize,
}

impl LiveView {
    fn new(arguments: &Arguments) -> Self {
        let wanted = std::io::stderr().is_terminal() && !arguments.quiet;
        let style = looks::file(&arguments.look);
        Self { style: wanted.then(|| Style { width: looks::stderr_columns() as u16, ..style }), lines: 0 }
    }

    fn show(&mut self, live: &Live) {
        let Some(style) = self.style else { return };
        self.clear();
        let text = terminal::watching(live.elapsed.as_secs_f64(), live.services, live.rows, style);
        self.lines = text.lines().count();
        eprint!("{text}");
    }

    fn clear(&mut self) {
        for _ in 0..std::mem::take(&mut self.lines) {
            eprint!("\x1b[1A\x1b[2K");
        }
    }
}
