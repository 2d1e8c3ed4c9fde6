//! `msgpath loaded`: latency while other traffic loads the same link.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use msgpath_core::parts::Parts;
use msgpath_core::plan::Extent;
use msgpath_core::{Case, Problem, Target, units};
use msgpath_run::Progress;
use msgpath_verbs::measure::{self, MeasuredBy};
use msgpath_verbs::options::{Common, Options, TimedOptions};
use msgpath_verbs::problems::usage;
use msgpath_verbs::request::{self, Request, request};
use msgpath_verbs::typed::{self, List, Offered};
use msgpath_verbs::verb::{Asked, Group};

use crate::record::{Direction, LoadFacts};
use crate::run::{Loading, MOST_ROUND, Setup, check_rate};
use crate::workload::LOADED;

/// What is typed, and the verb of the record.
pub const NAME: &str = "loaded";
/// The time that is waited for each case when nothing is asked, with what the load takes to be ready, ns.
const TIME: u64 = 20_000_000_000;
/// Rounds of each case when nothing is asked: the load begins anew in each.
const ROUNDS: u32 = 10;
/// Warm-up of each case when nothing is asked, ns.
const WARMUP: u64 = 500_000_000;
/// What a run ends with whose connections or messages do not come through.
const STARVED: [&str; 3] = ["E05", "E17", "E18"];
/// Most streams in each direction.
const MOST_STREAMS: u32 = 256;

/// Latency under load, and where it stands
///
/// An echo in idle rounds and in rounds beside which streams load the same link, in turn. A load is measured once it is steady.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Where the far end is [default: started here, on another CPU, where there is no link]
    #[arg(value_name = "TARGET", value_parser = typed::target)]
    target: Option<Target>,
    /// What the streams are
    #[arg(long, value_enum, value_name = "TRANSPORT", default_value_t, help_heading = "Load")]
    load: LoadArg,
    /// Streams in each direction
    #[arg(long, value_name = "N", value_parser = typed::number, default_value_t = 4, help_heading = "Load")]
    streams: u32,
    /// Directions, each in rounds of its own: down (the server sends), up (the client sends), both (at once)
    #[arg(
        long,
        value_enum,
        value_name = "WAYS",
        value_delimiter = ',',
        default_values_t = [DirectionArg::Down, DirectionArg::Up],
        help_heading = "Load"
    )]
    direction: Vec<DirectionArg>,
    /// Payload bits a second of all streams of a direction: 5M [default: as much as passes]
    #[arg(long, value_name = "BITS", value_parser = units::parse_count, help_heading = "Load")]
    load_rate: Option<u64>,
    /// Messages of the echo a second, by a schedule and timed from the intended send: what a message meets that comes at any
    /// moment [default: each when the last has come back, so that many meet a short queue and few a long one]
    #[arg(long, value_name = "RATE", value_parser = typed::rates, help_heading = "Message and path")]
    rate: Option<List<Offered>>,
    #[command(flatten)]
    common: Common,
}

/// `--load`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum LoadArg {
    /// TCP, which slows down where packets are dropped
    #[default]
    Tcp,
    /// UDP, which does not
    Udp,
}

/// `--direction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DirectionArg {
    /// The server sends
    Down,
    /// The client sends
    Up,
    /// Both send at once
    Both,
}

impl From<DirectionArg> for Direction {
    fn from(direction: DirectionArg) -> Self {
        match direction {
            DirectionArg::Down => Direction::Down,
            DirectionArg::Up => Direction::Up,
            DirectionArg::Both => Direction::Both,
        }
    }
}

impl Arguments {
    fn facts(&self) -> Result<LoadFacts, Problem> {
        if self.streams > MOST_STREAMS {
            return Err(
                usage(format!("{} streams are too many", self.streams)).hint(format!("--streams {MOST_STREAMS}"))
            );
        }
        let rate_bits = self.load_rate.map(|bits| check_rate(bits as f64)).transpose()?;
        Ok(LoadFacts {
            transport: match self.load {
                LoadArg::Tcp => "tcp".into(),
                LoadArg::Udp => "udp".into(),
            },
            streams: self.streams,
            rate_bits,
            shared_machine: self.target.as_ref().is_none_or(|target| *target == Target::Local)
                && !self.common.options().connection.places.is_asked(),
        })
    }

    fn request(&self) -> Result<Request, Problem> {
        let options = self.options();
        let echo = request::Verb::Echo { each: false, fresh: false };
        let mut request = request(echo, &options, self.target.as_ref())?;
        self.facts()?;
        let plan = &mut request.plan;
        let [probe] = plan.cases.as_slice() else {
            return Err(usage("one path, one size and one rate are measured under load").hint("-x tcp:send -l 64"));
        };
        if probe.of_capacity.is_some() {
            return Err(usage("what a path takes under load is not looked for").hint("--rate 200"));
        }
        let labelled = |(id, label): (usize, &str)| Case { id: id as u32, label: Some(label.into()), ..probe.clone() };
        let mut directions: Vec<Direction> = Vec::new();
        for direction in self.direction.iter().map(|direction| Direction::from(*direction)) {
            if !directions.contains(&direction) {
                directions.push(direction);
            }
        }
        let labels = std::iter::once("idle").chain(directions.iter().map(|direction| direction.name()));
        plan.cases = labels.enumerate().map(labelled).collect();
        let evidence = &options.evidence;
        if !evidence.quick {
            if matches!(plan.extent, Extent::Time(_)) && evidence.time.is_none() {
                plan.extent = Extent::Time(TIME);
            }
            if evidence.warmup.is_none() {
                plan.warmup_ns = WARMUP;
            }
            if evidence.rounds.is_none() {
                plan.rounds = ROUNDS;
            }
        }
        match plan.extent {
            Extent::Count(_) => {
                return Err(
                    usage("a load goes on for a time, and so do the rounds beside it").hint("-t 5s instead of -c")
                );
            }
            Extent::Time(ns) if ns / u64::from(plan.rounds) > MOST_ROUND => {
                let rounds = ns.div_ceil(MOST_ROUND);
                return Err(usage("a round under load takes 5 s at most").hint(format!("-r {rounds}, or a shorter -t")));
            }
            Extent::Time(_) => {}
        }
        plan.workload = &LOADED;
        plan.beside = true;
        // The load begins anew in each round: neither more rounds nor cases that explain others are worth it.
        (plan.fewest_rounds, plan.extend, plan.try_causes, plan.events) = (0, false, false, false);
        plan.validate()?;
        request.notes.clear();
        Ok(request)
    }

    fn options(&self) -> Options {
        let timed = TimedOptions { rate: self.rate.clone(), ..TimedOptions::default() };
        Options { timed, ..self.common.options() }
    }

    /// A load over UDP without a rate takes all that passes.
    fn starved(&self, error: anyhow::Error) -> anyhow::Error {
        let unpaced = self.load == LoadArg::Udp && self.load_rate.is_none();
        match error.downcast::<Problem>() {
            Ok(problem) if unpaced && STARVED.contains(&problem.code.as_str()) => {
                let why = "a load over UDP without a rate leaves the echo nothing of the link";
                problem
                    .why(why)
                    .hint("--load-rate, a little below what the link takes: --load-rate 9M for 10 Mbit/s")
                    .into()
            }
            Ok(problem) => problem.into(),
            Err(error) => error,
        }
    }
}

impl msgpath_verbs::verb::Verb for Arguments {
    const NAME: &str = NAME;
    const GROUP: Group = Group::Measure;
    const BEFORE: Option<&'static str> = Some("stream");
    const BESIDE: Option<&'static str> = Some("there and back, idle and under load");
    const SHORT: Option<(&str, &str)> = Some((
        "load streams direction load-rate rate path len time rounds launch between json verbose",
        "Examples:
  msgpath loaded HOST --launch ssh           idle, then down and up under load
  msgpath loaded HOST --load-rate 20M        at a load that leaves room
  msgpath loaded HOST --rate 200             what a message meets at any moment
  msgpath loaded --between lab --link rate=10M,queue=100  a link with a known queue",
    ));

    fn run(&self, words: Vec<String>) -> Result<ExitCode> {
        let (request, facts) = (Arguments::request(self)?, self.facts()?);
        let target = request.target.clone();
        let beside = |shown: Box<dyn Progress>, folder: &Path| -> Box<dyn Progress> {
            let setup = Setup { target: target.clone(), facts: facts.clone(), folder: folder.to_owned() };
            Box::new(Loading::new(shown, setup))
        };
        let own = MeasuredBy { verb: NAME, each: false, parts: Parts::default().with(facts.clone()), beside: &beside };
        measure::measure_with(own, request, &self.options(), words).map_err(|error| self.starved(error))
    }

    fn request(&self) -> Option<Result<Request, Problem>> {
        Some(Arguments::request(self))
    }

    fn asked(&self) -> Asked {
        Asked::of(false, &self.options())
    }
}
