//! From what was typed to what is measured: a validated [`Plan`] and its [`Target`]. Nothing here opens a socket.

mod layers;
mod meaning;
mod programs;
mod schedules;

pub use layers::{ladder, layers};

use std::hash::{BuildHasher, Hasher, RandomState};

use msgpath_core::Workload;
use msgpath_core::parts::Parts;
use msgpath_core::path::PathSpec;
use msgpath_core::plan::{
    ChannelOptions, DEFAULT_MESSAGE_LOG, DEFAULT_ROUNDS, DEFAULT_TRIM, Dispatch, Extent, FEWEST_ROUNDS, Family, Load,
    MAX_ROUNDS, MAX_SIZE, MIN_ROUNDS_FOR_CLAIMS, OPEN_INFLIGHT, OfCapacity, Placement,
};
use msgpath_core::settling::State;
use msgpath_core::target::DEFAULT_PORT;
use msgpath_core::units::Pieces;
use msgpath_core::{Case, CaseRole, Launch, PathName, Plan, Problem, Target};
use msgpath_paths::traits;

use crate::gates;
use crate::options::{LaunchOptions, Options, StagesArg};
use crate::problems::{self, usage};
use crate::settings::{Events, Settings};
use crate::typed::{List, PathArg};

use programs::Programs;

const SECOND: u64 = 1_000_000_000;
/// What `compare` compares when nobody says.
const COMPARED: [&str; 5] = ["tcp:send", "tcp:zerocopy", "unix:send", "pipe:write", "shm:ring/futex"];
/// Sizes of `compare`. With more of them the budget leaves fewer passes, and ten passes can hardly decide two dozen pairs.
const COMPARED_SIZES: [u64; 4] = [64, 1 << 10, 8 << 10, 64 << 10];
/// Those of a quick one.
const QUICK_SIZES: [u64; 2] = [64, 64 << 10];
/// Time of `compare` without arguments, all cases together.
const COMPARE_BUDGET: u64 = 60 * SECOND;
/// The same of `--quick`: with warm-up and pilots the command takes about 3 s.
const QUICK_BUDGET: u64 = 3 * SECOND;
/// Rounds of each case of `--quick`.
const QUICK_ROUNDS: u32 = 8;
/// Size of a stream's message, and of the reference's.
const STREAM_SIZE: u64 = 128 << 10;
/// The same where one message is one packet: IPv4 or IPv6, tunnels and all, carry it whole where the MTU is 1500.
const STREAM_PACKET: u64 = 1400;

/// The measuring verbs, with what only they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `echo`; `each`: single messages from the first one on; `fresh`: each on its own connection.
    Echo {
        each: bool,
        fresh: bool,
    },
    Stream,
    /// `compare`, of round trips or of streams.
    Compare {
        stream: bool,
    },
    /// An echo, traced, by a verb of this name.
    Traced(&'static str),
    /// A workload of a feature whose messages are answered as those of an echo, by a verb of its name; with so many rounds.
    Answered(&'static Workload, u32),
}

impl Verb {
    /// The word that was typed.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Echo { .. } => "echo",
            Verb::Stream => "stream",
            Verb::Compare { .. } => "compare",
            Verb::Traced(name) => name,
            Verb::Answered(workload, _) => workload.name,
        }
    }

    fn workload(self) -> &'static Workload {
        match self {
            Verb::Echo { .. } | Verb::Compare { stream: false } | Verb::Traced(_) => Workload::ECHO,
            Verb::Stream | Verb::Compare { stream: true } => Workload::STREAM,
            Verb::Answered(workload, _) => workload,
        }
    }

    fn is_compare(self) -> bool {
        matches!(self, Verb::Compare { .. })
    }

    fn each(self) -> Option<bool> {
        match self {
            Verb::Echo { each: true, fresh } => Some(fresh),
            _ => None,
        }
    }
}

/// What will be measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The plan; it passed [`Plan::validate`].
    pub plan: Plan,
    /// The far end.
    pub target: Target,
    /// Choices that the user should know of, one line each.
    pub notes: Vec<String>,
    /// What features add to the header of the record.
    pub parts: Parts,
}

/// Makes a plan of what was typed.
///
/// # Errors
/// A usage [`Problem`] (exit 2): values that contradict each other, an unknown path (E09), a message that a transport
/// cannot carry (E07), a path that cannot reach the target (E10).
pub fn request(verb: Verb, options: &Options, target: Option<&Target>) -> Result<Request, Problem> {
    meaning::refuse_what_has_no_meaning(verb, options)?;
    gates::of_one_run(&options.evidence.fail_if, verb.workload())?;
    let (asked, mut target) = (target, target.cloned());
    let programs = Programs::of(verb, options, &mut target)?;
    let target = target.unwrap_or(Target::Local);
    let mut notes = Vec::new();
    let paths = programs.paths(verb, paths(verb, options, &target, &programs)?);
    let settings = &options.settings;
    settings.fit(&paths)?;
    if let (Some(named), Some(program)) = (&programs.transport, asked)
        && let Some(path) = paths.iter().find(|path| path.transport != *named)
    {
        return Err(problems::cannot_reach(path, program));
    }
    if options.server.event_loop {
        meaning::an_event_loop_fits(&paths)?;
    }
    let baseline = baseline(options, &paths, &target)?;
    let all = options.message.paths.as_ref().is_some_and(|List(typed)| typed.contains(&PathArg::All));
    let shapes = programs.shapes(options, shapes(verb, options, &paths, all)?)?;
    let (mut cases, too_large) = cases(options, &paths, &shapes, (all, over_v6(options, &target)), &mut notes)?;
    // Where paths are compared, what one of them cannot carry is listed as not measured, and the others go on.
    if let Some(problem) = too_large.filter(|_| !verb.is_compare() || !cases.iter().any(fits)) {
        return Err(problem);
    }
    if verb.is_compare() {
        add_controls(&mut cases, &baseline);
    }
    if verb == Verb::Stream && options.message.pieces.is_some() {
        add_reference(&mut cases, &baseline, &target)?;
    }
    for (id, case) in cases.iter_mut().enumerate() {
        case.id = u32::try_from(id).map_err(|_| usage("too many cases"))?;
    }
    let mut effort = effort(verb, options, cases.len() as u64)?;
    schedules::fit_schedules(&cases, options, &mut effort, &mut notes)?;
    say_effort(verb, options, &cases, &mut effort, &mut notes);
    let sizes: std::collections::BTreeSet<u64> = shapes.iter().map(|shape| shape.total()).collect();
    let measured = cases.iter().filter(|case| case.role == CaseRole::Measured).count();
    let plan = Plan {
        reverse: options.flow.reverse,
        baseline,
        rounds: effort.rounds,
        fewest_rounds: fewest_rounds(verb, options, &effort),
        state: if settings.burst { State::Burst } else { State::Steady },
        restarts: settings.restarts,
        seed: settings.seed.unwrap_or_else(random_seed),
        extent: effort.extent,
        warmup_ns: effort.warmup_ns,
        trim: if verb.each().is_some() { 0 } else { DEFAULT_TRIM },
        options: reached(&options.connection.launch, &target, for_cases(channel_of(settings)?, &cases))?,
        placement: options.connection.cpu.clone().unwrap_or_default(),
        unpinned: options.connection.cpu == Some(Placement::default()),
        stamps: settings.stamps,
        message_log: settings.message_log.unwrap_or(DEFAULT_MESSAGE_LOG),
        service_time: settings.service_time,
        working_set: settings.working_set,
        wire: settings.wire,
        metric: options.compared.metric,
        expect: options.evidence.expect,
        gates: options.evidence.fail_if.clone(),
        stages: options.timed.stages.into(),
        simulate: settings.simulate_cache,
        // Events are counted in the threads of msgpath.
        events: settings.events != Events::Off && programs.each.is_empty(),
        events_forced: settings.events == Events::On,
        // An ablation is judged by its interval, so it needs a case with one.
        try_causes: settings.what_ifs
            && !verb.is_compare()
            && verb.each().is_none()
            && !options.server.event_loop
            && programs.each.is_empty()
            && measured == 1
            && effort.rounds >= MIN_ROUNDS_FOR_CLAIMS,
        // Who says how long, how many rounds or messages, gets them. The log of traced rounds has no room for more.
        extend: settings.extend
            && (options.evidence.time.is_none() || settings.is_typed("extend"))
            && verb.each().is_none()
            && options.evidence.rounds.is_none()
            && options.timed.stages == StagesArg::default()
            && matches!(effort.extent, Extent::Time(_)),
        refine: settings.refine
            && verb.is_compare()
            && paths.len() > 1
            && sizes.len() > 1
            && matches!(effort.extent, Extent::Time(_)),
        programs: programs.each,
        talk: programs.talk,
        ..Plan::new(verb.workload(), cases)
    };
    plan.validate()?;
    let mut request = Request { plan, target, notes, parts: Parts::default() };
    for (beside, typed) in options.evidence.besides.asked() {
        beside.fit(typed, options, &mut request)?;
        request.plan.validate()?;
    }
    Ok(request)
}

/// How far the pilot may go to make rounds fewer and longer; 0: the user has said how many, or they hold a count.
fn fewest_rounds(verb: Verb, options: &Options, effort: &Effort) -> u32 {
    let may = options.evidence.rounds.is_none()
        && !options.evidence.quick
        && verb.each().is_none()
        && matches!(effort.extent, Extent::Time(_));
    let least = if verb.workload().is_echoed() { FEWEST_ROUNDS } else { MIN_ROUNDS_FOR_CLAIMS };
    if may { least.max(options.settings.restarts).min(effort.rounds) } else { 0 }
}

/// Each path with each shape, rate and number of threads; and, where one carries no such message, why. With `all` it is left out and
/// noted instead.
fn cases(
    options: &Options,
    paths: &[PathName],
    shapes: &[Pieces],
    (all, over_v6): (bool, bool),
    notes: &mut Vec<String>,
) -> Result<(Vec<Case>, Option<Problem>), Problem> {
    let loads = schedules::loads(options)?;
    let offers: Vec<(Load, Option<OfCapacity>, u32)> = loads
        .into_iter()
        .flat_map(|(load, of)| depths(options, load).map(move |depth| (load, of.clone(), depth)))
        .collect();
    let (mut cases, mut too_large) = (Vec::new(), None);
    for (threads, connections) in threads(options)? {
        for path in paths {
            let offered = |pieces| offers.iter().map(move |offer| (pieces, offer));
            for (pieces, (load, of_capacity, inflight)) in shapes.iter().flat_map(offered) {
                let case = Case {
                    reply: options.timed.reply.unwrap_or(pieces.total()),
                    connections,
                    threads,
                    dispatch: if options.server.event_loop { Dispatch::EventLoop } else { Dispatch::Turns },
                    inflight: *inflight,
                    load: *load,
                    of_capacity: of_capacity.clone(),
                    ..Case::new(path.clone(), *pieces)
                };
                let largest = case.size.max(case.reply);
                let limit = if over_v6 { limit(path) } else { limit_v4(path) };
                if let Some(limit) = limit.filter(|limit| largest > *limit) {
                    if all {
                        let size = msgpath_core::units::size(largest);
                        let note = format!("left out: {} with {size} (largest message {limit} bytes)", path.transport);
                        notes.retain(|other| *other != note);
                        notes.push(note);
                        continue;
                    }
                    too_large.get_or_insert_with(|| problems::too_large(largest, path, limit));
                }
                cases.push(case);
            }
        }
    }
    Ok((cases, too_large))
}

/// The path that the others are compared with.
fn baseline(options: &Options, paths: &[PathName], target: &Target) -> Result<PathName, Problem> {
    let Some(List(typed)) = &options.compared.baseline else { return Ok(paths[0].clone()) };
    let [PathArg::Spec(spec)] = &typed[..] else {
        return Err(problems::bad_value("--baseline", "one path".into()));
    };
    let name = resolve(spec, options.settings.wait.as_deref(), target)?;
    // A path may be measured with several settings; the first of them stands for it.
    let first = paths.iter().find(|path| **path == name || (*path).clone().with(None) == name);
    first.cloned().ok_or_else(|| {
        usage(format!("the baseline {name} is not among the paths measured")).hint(format!("add {name} to the paths"))
    })
}

/// What is said of an effort before it begins: too few rounds, or a long time.
fn say_effort(verb: Verb, options: &Options, cases: &[Case], effort: &mut Effort, notes: &mut Vec<String>) {
    if options.evidence.quick {
        notes.push(format!("a rough answer, of {} short rounds; without --quick it is a sure one", effort.rounds));
        return;
    }
    let most = (MAX_ROUNDS / (cases.len() as u64).max(1)) as u32;
    let enough = if let Verb::Answered(_, rounds) = verb { rounds } else { DEFAULT_ROUNDS };
    if effort.rounds > most && most >= MIN_ROUNDS_FOR_CLAIMS && options.evidence.rounds.is_none() {
        effort.rounds = most;
        notes.push(format!("{most} rounds instead of {DEFAULT_ROUNDS}: {} cases share {MAX_ROUNDS}", cases.len()));
    } else if effort.rounds < enough && options.evidence.rounds.is_none() && verb.each().is_none() {
        notes.push(match effort.rounds {
            rounds if rounds < MIN_ROUNDS_FOR_CLAIMS => {
                format!("{rounds} {}: too few for intervals; more messages, or -r 40", plural(rounds, "round"))
            }
            rounds => format!("{rounds} rounds: quick; -r {DEFAULT_ROUNDS} narrows the intervals"),
        });
    }
    let seconds: f64 = cases.iter().map(|case| effort.seconds(case)).sum();
    if seconds >= 60.0 {
        let minutes = (seconds / 60.0) as u64;
        let cases = cases.len() as u32;
        notes.push(format!("{cases} {}, at least {minutes} min", plural(cases, "case")));
    }
}

/// The paths that were asked for, each once, in the order typed.
fn paths(verb: Verb, options: &Options, target: &Target, programs: &Programs) -> Result<Vec<PathName>, Problem> {
    let message = &options.message;
    let spec = |text: &str| PathArg::Spec(text.parse().expect("a well-formed path"));
    let named = target.transport().or(programs.transport.as_deref());
    let typed = match (&message.paths, named) {
        (Some(List(paths)), _) => paths.clone(),
        (_, Some(transport)) => vec![spec(transport)],
        _ if verb.is_compare() && programs.each.is_empty() => COMPARED.map(spec).to_vec(),
        _ => vec![spec("tcp:send")],
    };
    let mut names: Vec<PathName> = Vec::new();
    for path in &typed {
        let found = match path {
            PathArg::Spec(spec) => vec![resolve(spec, options.settings.wait.as_deref(), target)?],
            PathArg::All => {
                msgpath_paths::all().into_iter().map(|entry| entry.name).filter(|name| reaches(name, target)).collect()
            }
        };
        for name in found {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    if names.is_empty() {
        return Err(usage(format!("no path reaches {target}")).hint("msgpath paths"));
    }
    Ok(names)
}

/// The full name of a path as typed, with this receive mode where it names none.
pub fn resolve(spec: &PathSpec, wait: Option<&str>, target: &Target) -> Result<PathName, Problem> {
    let mut spec = spec.clone();
    spec.wait = spec.wait.or_else(|| wait.map(Into::into));
    let name = msgpath_paths::resolve(&spec, target.transport())?.with(spec.setting).to(spec.program.clone());
    if name.setting.is_some() && !traits(&name).segments {
        return Err(problems::no_setting(&name));
    }
    if reaches(&name, target) { Ok(name) } else { Err(problems::cannot_reach(&name, target)) }
}

fn reaches(path: &PathName, target: &Target) -> bool {
    let agrees = target.transport().is_none_or(|named| named == path.transport);
    agrees && (target.is_same_machine() || traits(path).inet)
}

fn limit(path: &PathName) -> Option<u64> {
    msgpath_paths::transport(&path.transport)?.max_message()
}

fn limit_v4(path: &PathName) -> Option<u64> {
    msgpath_paths::transport(&path.transport)?.max_message_v4()
}

/// Whether what is sent surely goes over IPv6: it was asked for, or the target is such an address.
fn over_v6(options: &Options, target: &Target) -> bool {
    let is_v6 = |host: &str| msgpath_sys::address::parse(host).is_some_and(|address| address.is_ipv6());
    options.settings.channel.family == Family::V6 || matches!(target, Target::Host { host, .. } if is_v6(host))
}

/// Whether the transport can carry a case's message and its reply.
pub(crate) fn fits(case: &Case) -> bool {
    limit(&case.path).is_none_or(|limit| case.size.max(case.reply) <= limit)
}

/// The messages: sizes, or pieces. `all` paths are measured at one size unless more are asked for: they are many.
fn shapes(verb: Verb, options: &Options, paths: &[PathName], all: bool) -> Result<Vec<Pieces>, Problem> {
    let mut shapes = match (&options.message.pieces, &options.message.len) {
        (Some(List(pieces)), _) => pieces.clone(),
        (None, Some(List(sizes))) => sizes.iter().map(|size| whole(*size)).collect::<Result<_, _>>()?,
        _ if all => vec![whole(64)?],
        _ if verb.is_compare() && options.evidence.quick => {
            QUICK_SIZES.into_iter().map(whole).collect::<Result<_, _>>()?
        }
        _ if verb.is_compare() => COMPARED_SIZES.into_iter().map(whole).collect::<Result<_, _>>()?,
        _ if verb == Verb::Stream => vec![whole(stream_size(paths))?],
        _ => vec![whole(64)?],
    };
    let mut seen = std::collections::HashSet::new();
    shapes.retain(|shape| seen.insert(*shape));
    Ok(shapes)
}

/// The size of a stream's message that all paths carry.
fn stream_size(paths: &[PathName]) -> u64 {
    let of = |path| match limit(path) {
        Some(_) if traits(path).inet => STREAM_PACKET,
        limit => limit.unwrap_or(STREAM_SIZE).min(STREAM_SIZE),
    };
    paths.iter().map(of).min().unwrap_or(STREAM_SIZE)
}

fn whole(size: u64) -> Result<Pieces, Problem> {
    match u32::try_from(size) {
        Ok(size) if u64::from(size) <= MAX_SIZE => Ok(Pieces::whole(size)),
        _ => Err(usage(format!("a message is at most 1 GiB, got {size} bytes")).hint("-l 1G or less")),
    }
}

/// Messages in flight on a connection, each depth a case of its own.
fn depths(options: &Options, load: Load) -> impl Iterator<Item = u32> + use<> {
    let usual = if load == Load::Closed { 1 } else { OPEN_INFLIGHT };
    options.timed.inflight.as_ref().map_or_else(|| vec![usual], |List(depths)| depths.clone()).into_iter()
}

/// Thread counts with the connections that go with them.
fn threads(options: &Options) -> Result<Vec<(u32, u32)>, Problem> {
    let pairs = match (&options.message.threads, options.message.connections) {
        (None, None) => vec![(1, 1)],
        (None, Some(connections)) if options.server.event_loop => vec![(1, connections)],
        (None, Some(connections)) => vec![(connections, connections)],
        (Some(List(threads)), None) => threads.iter().map(|threads| (*threads, *threads)).collect(),
        (Some(List(threads)), Some(connections)) => threads.iter().map(|threads| (*threads, connections)).collect(),
    };
    match pairs.iter().find(|(threads, connections)| connections % threads != 0) {
        Some((threads, connections)) => {
            Err(usage(format!("{connections} connections cannot be shared evenly by {threads} threads"))
                .hint(format!("-P {}, or another -T", threads * connections.div_ceil(*threads))))
        }
        None => Ok(pairs),
    }
}

/// The baseline once more at the smallest and the largest size: what differs between the two is noise (A/A).
fn add_controls(cases: &mut Vec<Case>, baseline: &PathName) {
    let of_baseline = || cases.iter().filter(|case| case.path == *baseline && fits(case));
    let ends = [of_baseline().min_by_key(|case| case.size), of_baseline().max_by_key(|case| case.size)];
    let mut controls: Vec<Case> = ends.into_iter().flatten().cloned().collect();
    controls.dedup();
    cases.extend(controls.into_iter().map(|case| Case { role: CaseRole::Control, ..case }));
}

/// The link's own bandwidth: large messages over one connection of the same transport.
fn add_reference(cases: &mut Vec<Case>, baseline: &PathName, target: &Target) -> Result<(), Problem> {
    let bulk = PathSpec { transport: Some(baseline.transport.clone()), ..PathSpec::default() };
    let path = resolve(&bulk, None, target)?;
    let size = limit_v4(&path).map_or(STREAM_SIZE, |limit| limit.min(STREAM_SIZE));
    cases.push(Case { role: CaseRole::Reference, ..Case::new(path, whole(size)?) });
    Ok(())
}

struct Effort {
    extent: Extent,
    rounds: u32,
    warmup_ns: u64,
}

impl Effort {
    /// How long a case takes at least.
    fn seconds(&self, case: &Case) -> f64 {
        let measuring = match (self.extent, case.load.rate()) {
            (Extent::Time(ns), _) => ns as f64 / 1e9,
            (Extent::Count(count), Some(rate)) => count as f64 / rate.value(),
            (Extent::Count(_), None) => return 0.0,
        };
        measuring + self.warmup_ns as f64 / 1e9
    }
}

/// How long each case is measured, in how many rounds, after which warm-up.
fn effort(verb: Verb, options: &Options, cases: u64) -> Result<Effort, Problem> {
    let typed = &options.evidence;
    let brief = verb.is_compare() && options.message.paths.is_none() && typed.time.is_none() && typed.count.is_none();
    let usual = match verb {
        Verb::Echo { .. } | Verb::Compare { .. } | Verb::Traced(_) => DEFAULT_ROUNDS,
        Verb::Stream => 10,
        Verb::Answered(_, rounds) => rounds,
    };
    if typed.time == Some(0) || typed.count == Some(0) {
        return Err(usage("-t and -c must be > 0").hint("-t 10s, or -c 1000"));
    }
    let extent = match (typed.count, typed.time) {
        (Some(count), _) => Extent::Count(count),
        (None, Some(time)) => Extent::Time(time),
        (None, None) if typed.quick => Extent::Time(QUICK_BUDGET / cases.max(1)),
        (None, None) if brief => Extent::Time(COMPARE_BUDGET / cases.max(1)),
        (None, None) if verb.is_compare() => Extent::Time(2 * SECOND),
        (None, None) => Extent::Time(10 * SECOND),
    };
    let rounds = match (verb.each(), extent) {
        (Some(false), _) => 1,
        (Some(true), Extent::Count(count)) => {
            u32::try_from(count).map_err(|_| usage(format!("{count} trials are too many")))?
        }
        (_, Extent::Count(count)) => match typed.rounds {
            Some(rounds) if u64::from(rounds) > count => {
                return Err(usage(format!("{count} messages cannot be spread over {rounds} rounds"))
                    .hint("a larger -c or a smaller -r"));
            }
            Some(rounds) => rounds,
            None => count.div_ceil(1000).min(u64::from(usual)) as u32,
        },
        (_, Extent::Time(_)) if typed.quick => QUICK_ROUNDS,
        (_, Extent::Time(_)) => typed.rounds.unwrap_or(usual),
    };
    let warmup_ns = typed.warmup.unwrap_or(match (verb.each(), extent) {
        (Some(_), _) => 0, // the first exchange is one of the trials
        (None, Extent::Time(time)) if typed.quick => time / 8,
        (None, Extent::Time(time)) => (time / 10).min(SECOND),
        (None, _) if verb.is_compare() => SECOND / 5,
        _ => SECOND,
    });
    Ok(Effort { extent, rounds, warmup_ns })
}

/// The options of the connection.
///
/// # Errors
/// Two of them contradict each other.
pub fn channel_of(settings: &Settings) -> Result<ChannelOptions, Problem> {
    let channel = &settings.channel;
    let bind = channel.bind.as_deref().and_then(msgpath_sys::address::parse);
    match bind.filter(|address| !channel.family.admits(address.ip())) {
        Some(address) => Err(usage(format!(
            "-o bind={} is not an address of the family asked for",
            msgpath_sys::address::shown(address)
        ))
        .hint("leave out -o ip")),
        None => Ok(channel.clone()),
    }
}

/// The options without what has no meaning for these cases: where all go as frames, the control channel takes its own way.
fn for_cases(mut options: ChannelOptions, cases: &[Case]) -> ChannelOptions {
    if !cases.iter().any(|case| traits(&case.path).inet) {
        options.through = None;
    }
    options
}

/// The options, with how the far end is reached.
///
/// # Errors
/// As [`launch_of`]; a token for a far end that nobody has to ask.
pub fn reached(typed: &LaunchOptions, target: &Target, options: ChannelOptions) -> Result<ChannelOptions, Problem> {
    if typed.token_file.is_some() && *target == Target::Local {
        return Err(usage("--token-file is for a far end that was started by hand, and none was named")
            .hint("msgpath echo HOST --token-file FILE"));
    }
    // The folder may be another one when the run goes on.
    let token_file = typed.token_file.as_ref().map(|file| std::path::absolute(file).unwrap_or_else(|_| file.clone()));
    let token_file = token_file.map(|file| file.to_string_lossy().into_owned());
    Ok(ChannelOptions { launch: launch_of(typed, target)?, token_file, ..options })
}

/// What starts the far end on its host.
///
/// # Errors
/// The target is not a host, or names a port.
fn launch_of(typed: &LaunchOptions, target: &Target) -> Result<Option<Launch>, Problem> {
    let Some(launch) = &typed.launch else { return Ok(None) };
    let by = &launch.by;
    let Target::Host { host, port, .. } = target else {
        return Err(usage(format!("--launch {by} starts the far end on a host, and none was named"))
            .hint(format!("HOST --launch {by}")));
    };
    if *port != DEFAULT_PORT {
        return Err(usage(format!("{target} names a port, and nothing listens at one"))
            .why(format!("--launch {by} gives a pipe to the far end"))
            .hint(format!("{host}, without a port")));
    }
    typed.address.map_or(Ok(()), |address| problems::check_one_peer(&address.to_string()))?;
    let launch = Launch { program: typed.program.clone(), address: typed.address, ..launch.clone() };
    launch.on(host).map(Some).map_err(|error| usage(error.to_string()))
}

/// A seed from the standard library's random keys; it is recorded.
pub fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn plural(count: u32, word: &str) -> String {
    if count == 1 { word.into() } else { format!("{word}s") }
}

#[cfg(test)]
mod tests;
