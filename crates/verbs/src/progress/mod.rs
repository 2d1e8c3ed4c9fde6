//! What is shown while a run goes on: a block redrawn in place on a terminal, lines elsewhere, a line for every round on
//! standard output (`--jsonl`), metrics (`--open-metrics`).
//!
//! All of it is done by the coordinator between rounds, when no end measures, and none of it in a thread of its own: what
//! is asked for meanwhile waits. Each of them does a bounded amount of work there.

mod cases;
mod lines;
mod screen;
mod so_far;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use msgpath_core::schema::{RoundRecord, RunHeader};
use msgpath_core::units::Glyphs;
use msgpath_core::{Case, Plan, Problem};
use msgpath_run::Progress;
use msgpath_sys::say;

use crate::looks;
use crate::metrics::Metrics;
use crate::options::{ProgressStyle, ResultOptions};
use lines::Lines;
use screen::Screen;
use so_far::SoFar;

/// A block is drawn anew after so long.
const REDRAWN: Duration = Duration::from_millis(250);
/// Where nobody asked for lines, there is one after so long, so that short runs print nothing.
const SELDOM: Duration = Duration::from_secs(10);

/// Opens what `--open-metrics` names.
///
/// # Errors
/// The file cannot be written, or the address cannot be listened at.
pub fn open(result: &ResultOptions) -> Result<Option<Metrics>, Problem> {
    result.open_metrics.as_ref().map(Metrics::open).transpose()
}

/// The progress that was asked for: a block on a terminal, otherwise a line every ten seconds, unless `--progress` says
/// more.
pub fn progress(result: &ResultOptions, metrics: Option<Metrics>) -> Box<dyn Progress> {
    let terminal = std::io::stderr().is_terminal();
    let usual = if terminal { ProgressStyle::Block } else { ProgressStyle::Line };
    let so_far = SoFar::new(looks::glyphs(), result.units.into());
    let block = |so_far| Box::new(Block { so_far, screen: Screen::default(), drawn: None });
    let shown: Box<dyn Progress> = match result.progress.unwrap_or(usual) {
        _ if result.quiet > 1 && result.progress.is_none() => Box::new(Silent),
        ProgressStyle::Block if terminal => block(so_far),
        ProgressStyle::Line if result.progress.is_some() => Box::new(Line::every(so_far, Duration::from_secs(1))),
        ProgressStyle::Line if result.quiet == 0 => Box::new(Line::every(so_far, SELDOM)),
        ProgressStyle::Line | ProgressStyle::None | ProgressStyle::Block => Box::new(Silent),
    };
    with(shown, result, metrics)
}

/// Nothing on standard error: only what other programs read.
pub fn quietly(result: &ResultOptions, metrics: Option<Metrics>) -> Box<dyn Progress> {
    with(Box::new(Silent), result, metrics)
}

fn with(shown: Box<dyn Progress>, result: &ResultOptions, metrics: Option<Metrics>) -> Box<dyn Progress> {
    let shown = if result.jsonl { Box::new(Lines::new(shown)) } else { shown };
    match metrics {
        Some(metrics) => Box::new(metrics.beside(shown)),
        None => shown,
    }
}

/// No progress at all.
pub fn silent() -> Box<dyn Progress> {
    Box::new(Silent)
}

/// What a verb without rounds is at, on a terminal only; nothing of it stays.
#[derive(Default)]
pub struct Doing(Screen);

impl Doing {
    /// Shows it until this is dropped.
    pub fn at(what: &str) -> Self {
        let mut doing = Self::default();
        doing.show(what);
        doing
    }

    /// Shows it in the place of what was shown before.
    pub fn show(&mut self, what: &str) {
        if std::io::stderr().is_terminal() {
            self.0.draw(what, looks::stderr_columns());
        }
    }
}

struct Silent;

impl Progress for Silent {}

/// Redrawn in place, at most four times a second.
struct Block {
    so_far: SoFar,
    screen: Screen,
    drawn: Option<Instant>,
}

impl Block {
    /// `━━━━───────  12 %  18 s left`.
    fn bar(&self, done: u64, of: u64) -> String {
        const WIDE: u64 = 48;
        let (full, empty) = if self.so_far.glyphs == Glyphs::Ascii { ("#", ".") } else { ("━", "─") };
        let of = of.max(1);
        let long = (WIDE * done.min(of) / of) as usize;
        let (full, empty) = (full.repeat(long), empty.repeat(WIDE as usize - long));
        format!("{full}{empty} {:>3} %  {}", 100 * done.min(of) / of, self.so_far.time_left(done, of))
    }
}

impl Progress for Block {
    fn started(&mut self, header: &RunHeader) {
        self.so_far.start(header);
    }

    fn planned(&mut self, plan: &Plan) {
        self.so_far.begin(plan);
    }

    fn warming(&mut self, case: &Case, done: usize, of: usize) {
        let so_far = &self.so_far;
        let text = format!("{}\n warm-up {}/{of}   {}", so_far.head(), done + 1, so_far.describe(case));
        self.screen.draw(&text, looks::stderr_columns());
    }

    fn round(&mut self, round: &RoundRecord, done: u64, of: u64) {
        self.so_far.add(round);
        // What nobody could see is not made: a picture costs more the longer the run.
        if done < of && self.drawn.is_some_and(|drawn| drawn.elapsed() < REDRAWN) {
            return;
        }
        self.drawn = Some(Instant::now());
        let (columns, so_far) = (looks::stderr_columns(), &self.so_far);
        let text = format!(
            "{}{}\n {}\n{}{}",
            so_far.head(),
            so_far.picture(Screen::room(columns)),
            so_far.line(round, done, of),
            self.bar(done, of),
            so_far.table()
        );
        self.screen.draw(&text, columns);
    }
}

/// Plain lines, for logs and CI.
struct Line {
    so_far: SoFar,
    every: Duration,
    last: Instant,
    headed: bool,
}

impl Line {
    fn every(so_far: SoFar, every: Duration) -> Self {
        Self { so_far, every, last: Instant::now(), headed: false }
    }

    fn say(&mut self, text: impl FnOnce(&SoFar) -> String) {
        // The first one at once, where lines were asked for.
        let first = !self.headed && self.every < SELDOM;
        if !first && self.last.elapsed() < self.every {
            return;
        }
        if !std::mem::replace(&mut self.headed, true) {
            say!("{}", self.so_far.head());
        }
        self.last = Instant::now();
        say!("{}", text(&self.so_far).trim_end());
    }
}

impl Progress for Line {
    fn started(&mut self, header: &RunHeader) {
        self.so_far.start(header);
    }

    fn planned(&mut self, plan: &Plan) {
        self.so_far.begin(plan);
    }

    fn warming(&mut self, case: &Case, done: usize, of: usize) {
        self.say(|so_far| format!("warm-up {}/{of}   {}", done + 1, so_far.describe(case)));
    }

    fn round(&mut self, round: &RoundRecord, done: u64, of: u64) {
        self.so_far.add(round);
        self.say(|so_far| format!("{}   {}", so_far.line(round, done, of), so_far.time_left(done, of)));
    }
}
