//! From what was typed to what is measured: a validated [`Plan`] and its [`Target`]. Nothing here opens a socket.

use std::hash::{BuildHasher, Hasher, RandomState};

use msgpath_core::path::PathSpec;
use msgpath_core::plan::{
    ChannelOptions, DEFAULT_MESSAGE_LOG, DEFAULT_ROUNDS, DEFAULT_TRIM, Extent, Family, MAX_SIZE, MIN_ROUNDS_FOR_CLAIMS,
};
use msgpath_core::target::DEFAULT_PORT;
use msgpath_core::units::Pieces;
use msgpath_core::{Case, CaseRole, PathName, Plan, Problem, Target, Workload};

use crate::cli::options::Options;
use crate::problems::{self, usage};
use crate::typed::{List, PathArg};

const SECOND: u64 = 1_000_000_000;
/// What `compare` compares when nobody says.
const COMPARED: [&str; 5] = ["tcp:send", "tcp:zerocopy", "unix:send", "pipe:write", "shm:ring/futex"];
/// Sizes of `compare`: 64 B to 64 KiB in steps of ×4.
const COMPARED_SIZES: [u64; 6] = [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10];
/// Measuring time of `compare` without arguments, all cases together: the command stays under a minute.
const COMPARE_BUDGET: u64 = 38 * SECOND;
/// Size of a stream's message, and of the yardstick's.
const STREAM_SIZE: u64 = 128 << 10;

/// The measuring verbs, with what only they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// `echo`; `each`: single messages from the first one on; `fresh`: each on its own connection.
    Echo { each: bool, fresh: bool },
    /// `stream`.
    Stream,
    /// `compare`, of round trips or of streams.
    Compare { stream: bool },
}

impl Verb {
    /// The word that was typed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verb::Echo { .. } => "echo",
            Verb::Stream => "stream",
            Verb::Compare { .. } => "compare",
        }
    }

    fn workload(self) -> Workload {
        match self {
            Verb::Echo { .. } | Verb::Compare { stream: false } => Workload::Echo,
            Verb::Stream | Verb::Compare { stream: true } => Workload::Stream,
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
pub(crate) struct Request {
    /// The plan; it passed [`Plan::validate`].
    pub(crate) plan: Plan,
    /// The far end.
    pub(crate) target: Target,
    /// Choices that the user should know of, one line each.
    pub(crate) notes: Vec<String>,
}

/// Makes a plan of what was typed.
///
/// # Errors
/// A usage [`Problem`] (exit 2): values that contradict each other, an unknown path (E09), a message that a transport
/// cannot carry (E07), a path that cannot reach the target (E10).
pub(crate) fn request(verb: Verb, options: &Options, target: Option<&Target>) -> Result<Request, Problem> {
    refuse_what_has_no_meaning(verb, options)?;
    let target = with_port(target, options.connection.port)?;
    let mut notes = Vec::new();
    let paths = paths(verb, options, &target)?;
    let baseline = match &options.evidence.baseline {
        None => paths[0].clone(),
        Some(List(typed)) => {
            let [PathArg::Spec(spec)] = &typed[..] else {
                return Err(problems::bad_value("--baseline", "one path".into()));
            };
            let name = resolve(spec, options.message.poll, &target)?;
            if !paths.contains(&name) {
                return Err(usage(format!("the baseline {name} is not among the paths measured"))
                    .hint(format!("add {name} to the paths")));
            }
            name
        }
    };
    let all = options.message.paths.as_ref().is_some_and(|List(typed)| typed.contains(&PathArg::All));
    let shapes = shapes(verb, options, all)?;
    let (mut cases, mut too_large) = (Vec::new(), None);
    for (threads, connections) in threads(options)? {
        for path in &paths {
            for pieces in &shapes {
                let case = Case {
                    id: 0,
                    role: CaseRole::Measured,
                    path: path.clone(),
                    size: pieces.total(),
                    reply: options.message.reply.unwrap_or(pieces.total()),
                    pieces: *pieces,
                    connections,
                    threads,
                    inflight: options.message.inflight,
                };
                if let Some(limit) = limit(path).filter(|_| !fits(&case)) {
                    let largest = case.size.max(case.reply);
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
    // Where paths are compared, what one of them cannot carry is listed as not measured, and the others go on.
    if let Some(problem) = too_large.filter(|_| !verb.is_compare() || !cases.iter().any(fits)) {
        return Err(problem);
    }
    if verb.is_compare() {
        add_controls(&mut cases, &baseline);
    }
    if verb == Verb::Stream && options.message.pieces.is_some() {
        add_yardstick(&mut cases, &baseline, &target)?;
    }
    for (id, case) in cases.iter_mut().enumerate() {
        case.id = u32::try_from(id).map_err(|_| usage("too many cases"))?;
    }
    let effort = effort(verb, options, cases.len() as u64)?;
    if effort.rounds < DEFAULT_ROUNDS && options.evidence.rounds.is_none() && verb.each().is_none() {
        notes.push(match effort.rounds {
            rounds if rounds < MIN_ROUNDS_FOR_CLAIMS => {
                format!("{rounds} {}: too few for intervals; more messages, or -r 40", plural(rounds, "round"))
            }
            rounds => format!("{rounds} rounds: quick; -r {DEFAULT_ROUNDS} narrows the intervals"),
        });
    }
    if let Extent::Time(time) = effort.extent {
        let minutes = time.saturating_add(effort.warmup_ns).saturating_mul(cases.len() as u64) / (60 * SECOND);
        if minutes > 0 {
            let cases = cases.len() as u32;
            notes.push(format!("{cases} {}, at least {minutes} min", plural(cases, "case")));
        }
    }
    let plan = Plan {
        workload: verb.workload(),
        reverse: options.message.reverse,
        cases,
        baseline,
        rounds: effort.rounds,
        restarts: options.evidence.restarts.max(1),
        seed: options.evidence.seed.unwrap_or_else(random_seed),
        extent: effort.extent,
        warmup_ns: effort.warmup_ns,
        trim: if verb.each().is_some() { 0 } else { DEFAULT_TRIM },
        options: channel(options)?,
        placement: options.connection.cpu.clone().unwrap_or_default(),
        stamps: options.evidence.stamps.into(),
        message_log: options.evidence.message_log.unwrap_or(DEFAULT_MESSAGE_LOG),
    };
    plan.validate()?;
    Ok(Request { plan, target, notes })
}

/// An option that a verb would silently ignore is an error.
fn refuse_what_has_no_meaning(verb: Verb, options: &Options) -> Result<(), Problem> {
    let message = &options.message;
    if message.reverse && verb.workload() == Workload::Echo {
        return Err(usage("-R has no meaning here: an echo goes both ways").hint("msgpath stream -R"));
    }
    if verb.workload() == Workload::Stream {
        if message.reply.is_some() {
            return Err(usage("--reply has no meaning here: a stream is answered once, at its end")
                .hint("msgpath echo --reply SIZE"));
        }
        if message.inflight > 1 {
            return Err(usage("--inflight has no meaning here: a stream has as much under way as the path holds")
                .hint("leave it out"));
        }
    }
    if !verb.is_compare() && options.evidence.metric.is_some() {
        return Err(usage("--metric belongs to compare").hint("msgpath compare --metric p50"));
    }
    if verb.each().is_some() {
        if options.evidence.count.is_none() {
            return Err(usage("--each prints every trial, so it needs their number").hint("msgpath echo -c 10 --each"));
        }
        if options.evidence.rounds.is_some() || options.evidence.restarts > 1 {
            return Err(usage("--each has one round (with --fresh, one a trial)").hint("leave out -r and --restarts"));
        }
        if options.evidence.message_log == Some(0) {
            return Err(usage("--each prints the per-message log, and --message-log 0 keeps none")
                .hint("leave out --message-log"));
        }
    }
    Ok(())
}

/// The target with `-p` put in.
fn with_port(target: Option<&Target>, port: Option<u16>) -> Result<Target, Problem> {
    match (target.cloned().unwrap_or(Target::Local), port) {
        (target, None) => Ok(target),
        (Target::Host { host, port: typed, transport }, Some(port)) if typed == DEFAULT_PORT || typed == port => {
            Ok(Target::Host { host, port, transport })
        }
        (Target::Host { port: typed, .. }, Some(port)) => {
            Err(usage(format!("the target names port {typed}, -p names {port}")).hint("name the port once"))
        }
        (Target::Local, Some(port)) => Err(usage(format!("-p {port} names the port of a far end, and none was named"))
            .why("without a target the far end is started here, on ports of its own")
            .hint(format!("msgpath echo localhost -p {port}"))),
        (target, Some(_)) => Err(usage(format!("{target} has no port")).hint("leave out -p")),
    }
}

/// The paths that were asked for, each once, in the order typed.
fn paths(verb: Verb, options: &Options, target: &Target) -> Result<Vec<PathName>, Problem> {
    let message = &options.message;
    let spec = |text: &str| PathArg::Spec(text.parse().expect("a well-formed path"));
    let typed = match (&message.paths, target.transport()) {
        (Some(List(paths)), _) => paths.clone(),
        _ if message.udp => vec![spec("udp:send")],
        _ if message.zerocopy => vec![spec("tcp:zerocopy")],
        (_, Some(transport)) => vec![spec(transport)],
        _ if verb.is_compare() => COMPARED.map(spec).to_vec(),
        _ => vec![spec("tcp:send")],
    };
    let mut names: Vec<PathName> = Vec::new();
    for path in &typed {
        let found = match path {
            PathArg::Spec(spec) => vec![resolve(spec, message.poll, target)?],
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

/// The full name of a path as typed; `--poll` makes it spin where it names no wait.
fn resolve(spec: &PathSpec, poll: bool, target: &Target) -> Result<PathName, Problem> {
    let mut spec = spec.clone();
    if poll && spec.wait.is_none() {
        spec.wait = Some("spin".into());
    }
    let name = msgpath_paths::resolve(&spec, target.transport())?;
    if reaches(&name, target) { Ok(name) } else { Err(problems::cannot_reach(&name, target)) }
}

fn reaches(path: &PathName, target: &Target) -> bool {
    let agrees = target.transport().is_none_or(|named| named == path.transport);
    agrees
        && (target.is_same_machine()
            || msgpath_paths::transport(&path.transport).is_some_and(|transport| transport.meta().inet))
}

fn limit(path: &PathName) -> Option<u64> {
    msgpath_paths::transport(&path.transport)?.max_message()
}

/// Whether the transport can carry a case's message and its reply.
fn fits(case: &Case) -> bool {
    limit(&case.path).is_none_or(|limit| case.size.max(case.reply) <= limit)
}

/// The messages: sizes, or pieces. `all` paths are measured at one size unless more are asked for: they are many.
fn shapes(verb: Verb, options: &Options, all: bool) -> Result<Vec<Pieces>, Problem> {
    let mut shapes = match (&options.message.pieces, &options.message.len) {
        (Some(List(pieces)), _) => pieces.clone(),
        (None, Some(List(sizes))) => sizes.iter().map(|size| whole(*size)).collect::<Result<_, _>>()?,
        _ if all => vec![whole(64)?],
        _ if verb.is_compare() => COMPARED_SIZES.into_iter().map(whole).collect::<Result<_, _>>()?,
        _ if verb == Verb::Stream => vec![whole(STREAM_SIZE)?],
        _ => vec![whole(64)?],
    };
    let mut seen = std::collections::HashSet::new();
    shapes.retain(|shape| seen.insert(*shape));
    Ok(shapes)
}

fn whole(size: u64) -> Result<Pieces, Problem> {
    match u32::try_from(size) {
        Ok(size) if u64::from(size) <= MAX_SIZE => Ok(Pieces::whole(size)),
        _ => Err(usage(format!("a message is at most 1 GiB, got {size} bytes")).hint("-l 1G or less")),
    }
}

/// Thread counts with the connections that go with them.
fn threads(options: &Options) -> Result<Vec<(u32, u32)>, Problem> {
    let pairs = match (&options.message.threads, options.message.connections) {
        (None, None) => vec![(1, 1)],
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
fn add_yardstick(cases: &mut Vec<Case>, baseline: &PathName, target: &Target) -> Result<(), Problem> {
    let bulk = PathSpec { transport: Some(baseline.transport.clone()), method: None, wait: None };
    let path = resolve(&bulk, false, target)?;
    let size = limit(&path).map_or(STREAM_SIZE, |limit| limit.min(STREAM_SIZE));
    cases.push(Case {
        id: 0,
        role: CaseRole::Yardstick,
        path,
        size,
        reply: size,
        pieces: whole(size)?,
        connections: 1,
        threads: 1,
        inflight: 1,
    });
    Ok(())
}

struct Effort {
    extent: Extent,
    rounds: u32,
    warmup_ns: u64,
}

/// How long each case is measured, in how many rounds, after which warm-up.
fn effort(verb: Verb, options: &Options, cases: u64) -> Result<Effort, Problem> {
    let typed = &options.evidence;
    let quick = verb.is_compare() && options.message.paths.is_none() && typed.time.is_none() && typed.count.is_none();
    let usual = match verb {
        Verb::Echo { .. } | Verb::Compare { .. } => DEFAULT_ROUNDS,
        Verb::Stream => 10,
    };
    if typed.time == Some(0) || typed.count == Some(0) {
        return Err(usage("a run of no length measures nothing").hint("-t 10s, or -c 1000"));
    }
    let extent = match (typed.count, typed.time) {
        (Some(count), _) => Extent::Count(count),
        (None, Some(time)) => Extent::Time(time),
        (None, None) if quick => Extent::Time(COMPARE_BUDGET / cases.max(1)),
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
        (_, Extent::Time(_)) => typed.rounds.unwrap_or(usual),
    };
    let warmup_ns = typed.warmup.unwrap_or(match (verb.each(), extent) {
        (Some(_), _) => 0, // the first exchange is one of the trials
        (None, Extent::Time(time)) if verb.is_compare() => (time / 10).min(SECOND),
        (None, _) if verb.is_compare() => SECOND / 5,
        _ => SECOND,
    });
    Ok(Effort { extent, rounds, warmup_ns })
}

fn channel(options: &Options) -> Result<ChannelOptions, Problem> {
    let typed = &options.connection;
    let family = match (typed.ipv4, typed.ipv6) {
        (true, _) => Family::V4,
        (_, true) => Family::V6,
        _ => Family::Any,
    };
    if let Some(bind) = typed.bind
        && (family == Family::V4 && bind.is_ipv6() || family == Family::V6 && bind.is_ipv4())
    {
        return Err(usage(format!("-B {bind} is not an address of the family asked for")).hint("leave out -4 and -6"));
    }
    Ok(ChannelOptions {
        nodelay: !typed.no_nodelay,
        cork: typed.cork,
        send_buffer: typed.sndbuf,
        receive_buffer: typed.rcvbuf,
        busy_poll_us: typed.busy_poll_us,
        congestion: typed.congestion.clone(),
        family,
        bind: typed.bind.map(|address| address.to_string()),
        ..ChannelOptions::default()
    })
}

/// A seed from the standard library's random keys; it is recorded.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn plural(count: u32, word: &str) -> String {
    if count == 1 { word.into() } else { format!("{word}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::tests::typed;
    use msgpath_core::Exit;

    /// Path, size, connections and threads of every measured case.
    fn cases(words: &str) -> Vec<(String, u64, u32, u32)> {
        let plan = typed(words).unwrap_or_else(|problem| panic!("{words}: {problem}")).plan;
        let measured = plan.cases.iter().filter(|case| case.role == CaseRole::Measured);
        measured.map(|case| (case.path.to_string(), case.size, case.connections, case.threads)).collect()
    }

    fn plan(words: &str) -> Plan {
        typed(words).unwrap_or_else(|problem| panic!("{words}: {problem}")).plan
    }

    #[track_caller]
    fn refused(words: &str, code: &str, part: &str) {
        let problem = typed(words).expect_err(words);
        assert_eq!((problem.code.as_str(), problem.exit), (code, Exit::Usage), "{words}: {problem}");
        assert!(problem.to_string().contains(part), "{words}: {problem}");
    }

    #[test]
    fn echo_without_a_word_measures_this_machine() {
        let request = typed("echo").unwrap();
        assert_eq!(request.target, Target::Local);
        let plan = request.plan;
        assert_eq!(cases("echo"), [("tcp:send".into(), 64, 1, 1)]);
        assert_eq!((plan.rounds, plan.extent, plan.warmup_ns), (40, Extent::Time(10 * SECOND), SECOND));
        assert_eq!((plan.trim, plan.message_log, plan.cases[0].reply), (DEFAULT_TRIM, DEFAULT_MESSAGE_LOG, 64));
        assert!(request.notes.is_empty() && plan.placement.near.is_empty());
    }

    #[test]
    fn a_count_decides_the_rounds() {
        for (words, rounds) in [
            ("echo -c 1", 1),
            ("echo -c 1000", 1),
            ("echo -c 1001", 2),
            ("echo -c 1M", 40),
            ("echo -c 1000 -r 20", 20),
            ("stream --repeat 20000", 10),
            ("echo -r 7 -t 1", 7),
        ] {
            assert_eq!(plan(words).rounds, rounds, "{words}");
        }
        assert_eq!(plan("echo -c 10k").extent, Extent::Count(10_000));
        assert_eq!(plan("echo -t 250ms").extent, Extent::Time(SECOND / 4));
        refused("echo -c 10 -r 20", "E11", "cannot be spread");
        refused("echo -c 0", "E11", "no length");
        refused("echo -t 0", "E11", "no length");
        refused("echo -t 1 -c 5", "E11", "cannot be used with");
    }

    #[test]
    fn threads_and_connections() {
        assert_eq!(cases("echo -P 4"), [("tcp:send".into(), 64, 4, 4)]);
        assert_eq!(cases("echo -T 2"), [("tcp:send".into(), 64, 2, 2)]);
        assert_eq!(cases("echo -P 8 -T 2"), [("tcp:send".into(), 64, 8, 2)]);
        assert_eq!(cases("echo -T 1,2").len(), 2);
        refused("echo -P 3 -T 2", "E11", "cannot be shared evenly");
        refused("echo -T 1,2,3 -P 4", "E11", "3 threads");
        refused("echo -P 0", "E11", "--connections");
        refused("echo -P 257", "E11", "limit is 256");
        refused("echo --inflight 5000", "E11", "limit is 4096");
    }

    #[test]
    fn sizes_and_pieces() {
        assert_eq!(cases("echo -l 64..1K").iter().map(|case| case.1).collect::<Vec<_>>(), [64, 256, 1024]);
        assert_eq!(cases("echo --pieces 15x100,30x50").iter().map(|case| case.1).collect::<Vec<_>>(), [1500, 1500]);
        assert_eq!(cases("stream")[0].1, 128 << 10);
        assert_eq!(plan("echo -l 64 --reply 1K").cases[0].reply, 1024);
        refused("echo -l 0", "E11", "0 bytes");
        refused("echo --reply 0", "E11", "0 bytes");
        refused("echo -l 2G", "E11", "1 GiB");
        refused("echo -l 99999999999G", "E11", "64 bits");
        refused("echo --pieces 1000x4G", "E11", "1 GiB");
        refused("echo -l 1M -c 99999999999999", "E11", "no run");
        refused("echo -l 64 --pieces 2x32", "E11", "cannot be used with");
        refused("echo --pieces 15", "E11", "15x100");
        refused("echo -u -l 1M", "E07", "65507");
        refused("echo -u -l 64 --reply 1M", "E07", "65507");
    }

    #[test]
    fn paths_come_from_options_and_targets() {
        for (words, path) in [
            ("echo -u", "udp:send"),
            ("echo -Z", "tcp:zerocopy"),
            ("echo --poll", "tcp:send/spin"),
            ("echo udp://hostB", "udp:send"),
            ("echo shm:demo", "shm:ring/futex"),
            ("echo -x writev", "tcp:writev"),
            ("echo -x pipe", "pipe:write"),
            ("echo -x unix:send unix:/tmp/x", "unix:send"),
            ("echo -x shm:ring/futex --poll", "shm:ring/futex"),
        ] {
            assert_eq!(cases(words)[0].0, path, "{words}");
        }
        assert_eq!(cases("echo -x tcp:send,unix:send,tcp:send").len(), 2);
        refused("echo -x tcp:sned", "E09", "tcp:sned");
        refused("echo -x TCP:SEND", "E09", "tcp:send");
        refused("echo -x unix:send 10.0.0.2", "E10", "stays on one machine");
        refused("echo -x tcp:send udp://10.0.0.2", "E10", "udp");
        refused("echo -u tcp://10.0.0.2", "E10", "tcp");
        refused("echo -u -Z", "E11", "cannot be used with");
        refused("echo -u -x tcp:send", "E11", "cannot be used with");
        refused("echo --baseline unix:send", "E11", "not among");
        refused("echo --baseline all", "E11", "one path");
    }

    #[test]
    fn all_paths_are_those_that_reach_the_target() {
        let here = cases("compare all -l 64 -r 5");
        let there = cases("compare all hostB -l 64 -r 5");
        assert!(
            here.len() > there.len()
                && there.iter().all(|case| case.0.starts_with("tcp:") || case.0.starts_with("udp:"))
        );
        assert!(cases("compare all").iter().all(|case| case.1 == 64));
        let large = typed("compare all -l 64,1M -r 5").unwrap();
        assert!(large.notes.iter().any(|note| note.contains("left out: udp with 1 MiB")), "{:?}", large.notes);
    }

    #[test]
    fn targets_and_ports() {
        assert_eq!(typed("echo hostB -p 99").unwrap().target.to_string(), "hostB:99");
        assert_eq!(typed("echo hostB:99 -p 99").unwrap().target.to_string(), "hostB:99");
        refused("echo hostB:98 -p 99", "E11", "98");
        refused("echo -p 99", "E11", "none was named");
        refused("echo unix:/tmp/x -p 99", "E11", "has no port");
        refused("echo hostB -p 78400", "E11", "12864");
        refused("echo hostB:78400", "E11", "12864");
        refused("echo http://hostB", "E11", "not a target");
        refused("stream -c hostB", "E02", "msgpath stream hostB");
        refused("echo -B 127.0.0.1 -6", "E11", "family");
        refused("echo -4 -6", "E11", "cannot be used with");
    }

    #[test]
    fn compare_without_a_word_fits_into_a_minute() {
        let plan = plan("compare");
        let measured: Vec<&Case> = plan.cases.iter().filter(|case| case.role == CaseRole::Measured).collect();
        assert_eq!(measured.len(), COMPARED.len() * COMPARED_SIZES.len());
        let controls: Vec<u64> =
            plan.cases.iter().filter(|case| case.role == CaseRole::Control).map(|case| case.size).collect();
        assert_eq!(controls, [64, 64 << 10]);
        assert_eq!(plan.rounds, 40);
        let Extent::Time(each) = plan.extent else { panic!("{:?}", plan.extent) };
        let total = (each + plan.warmup_ns) * plan.cases.len() as u64;
        assert!((40 * SECOND..50 * SECOND).contains(&total), "{total}");
        assert!(plan.cases.iter().enumerate().all(|(id, case)| case.id == id as u32));
        assert_eq!(plan.baseline.to_string(), "tcp:send");
    }

    #[test]
    fn compare_with_words_takes_them() {
        let one = plan("compare tcp:send,tcp:writev -l 64");
        assert_eq!((one.rounds, one.extent, one.cases.len()), (40, Extent::Time(2 * SECOND), 3));
        assert_eq!(one.cases[2].role, CaseRole::Control);
        assert_eq!(plan("compare tcp:send,unix:send --baseline unix:send").baseline.to_string(), "unix:send");
        assert_eq!(plan("compare -x tcp:send,unix:send").workload, Workload::Echo);
        assert_eq!(plan("compare --stream").workload, Workload::Stream);
        assert_eq!(plan("compare tcp:send,tcp:writev hostB -l 64").cases.len(), 3);
        assert_eq!(typed("compare tcp:send hostB").unwrap().target.to_string(), "hostB:5210");
        assert_eq!(typed("compare --metric p50").unwrap().plan.rounds, 40);
        let mixed = plan("compare tcp:send,udp:send -l 64,64K");
        assert_eq!(mixed.cases.iter().filter(|case| case.role == CaseRole::Measured).count(), 4);
        let controls = |words: &str| {
            let cases = plan(words).cases;
            cases.iter().filter(|case| case.role == CaseRole::Control).map(|case| case.size).collect::<Vec<_>>()
        };
        assert_eq!(controls("compare udp:send,tcp:send -l 64,64K"), [64], "a control is a case that can be measured");
        refused("compare udp:send -l 64K,1M", "E07", "65507");
        refused("echo -x tcp:send,udp:send -l 64K", "E07", "65507");
        refused("compare --metric p99", "E11", "p99");
        refused("compare --metric mean", "E11", "p50");
        refused("echo --metric p50", "E11", "belongs to compare");
        refused("compare tcp:send -x tcp:send", "E11", "cannot be used with");
        refused("compare --stream --reply 64", "E11", "no meaning");
    }

    #[test]
    fn the_write_shape_lab_gets_a_yardstick() {
        let plan = plan("stream --pieces 100x15 --repeat 20000 -x tcp:writes,tcp:writev,tcp:send");
        assert_eq!(plan.cases.len(), 4);
        let yardstick = &plan.cases[3];
        assert_eq!(
            (yardstick.role, yardstick.path.to_string().as_str(), yardstick.size),
            (CaseRole::Yardstick, "tcp:send", 128 << 10)
        );
        assert!(typed("stream").unwrap().notes[0].contains("10 rounds: quick"));
    }

    #[test]
    fn each_prints_cold_trials() {
        let one = plan("echo -l 10,1000,10000 -c 10 --each");
        assert_eq!((one.rounds, one.trim, one.warmup_ns, one.extent), (1, 0, 0, Extent::Count(10)));
        assert!(one.message_log > 0);
        assert_eq!(plan("echo -c 10 --each --fresh").rounds, 10);
        refused("echo --each", "E11", "-c 10");
        refused("echo -c 5 --fresh", "E11", "--each");
        refused("echo -c 5 --each -r 3", "E11", "one round");
        refused("echo -c 5 --each --message-log 0", "E11", "keeps none");
    }

    #[test]
    fn options_of_the_connection_arrive() {
        let plan = plan(
            "echo --no-nodelay --cork --sndbuf 64K --rcvbuf 1M --congestion bbr --busy-poll-us 7 -6 --cpu 0,1 --stamps both --seed 9",
        );
        let options = &plan.options;
        assert_eq!((options.nodelay, options.cork, options.family), (false, true, Family::V6));
        assert_eq!(
            (options.send_buffer, options.receive_buffer, options.busy_poll_us),
            (Some(64 << 10), Some(1 << 20), 7)
        );
        assert_eq!((options.congestion.as_deref(), plan.seed), (Some("bbr"), 9));
        assert_eq!((plan.placement.near.as_slice(), plan.placement.far.as_slice()), (&[0][..], &[1][..]));
        assert_eq!(plan.stamps, msgpath_core::plan::Stamps::Both);
        assert!(self::plan("echo --no-nodelay --nodelay").options.nodelay);
        assert!(self::plan("stream -R").reverse);
        refused("echo -R", "E11", "goes both ways");
        refused("stream --inflight 2", "E11", "no meaning");
    }

    #[test]
    fn letters_with_two_meanings_get_a_hint() {
        for letter in ["-i 1", "-s", "-n 5", "-b 1M"] {
            refused(&format!("echo {letter}"), "E11", "is not used here");
        }
        refused("eco", "E11", "echo");
        refused("echo --pth tcp:send", "E11", "--path");
        refused("echo a b", "E11", "'b'");
    }
}
