//! Whether the data connections of two hosts come about, found out before anything else is measured; and where they go.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use msgpath_agent::team::UNANSWERED;
use msgpath_core::plan::{ChannelOptions, Plan};
use msgpath_core::schema::DataRoute;
use msgpath_core::units::Pieces;
use msgpath_core::{Case, Exit, PathName, Problem, Target, Unavailable, Workload};
use msgpath_paths::registry::traits;
use msgpath_paths::transports::tcp::NO_CONNECTION;
use msgpath_paths::{meta, transport};
use msgpath_sys::address::{canonical, shown};

use crate::link::{Link, Pair};
use crate::orders::Orders;
use crate::round::RoundError;

/// Messages of a probe: all of them are in flight, and where some may be lost one of them comes back.
const MESSAGES: u64 = 4;
/// How long a handshake and the replies of a probe may take.
const HANDSHAKE: Duration = Duration::from_millis(2500);
/// How long a datagram may take there and back.
const DATAGRAM: Duration = Duration::from_millis(1400);
/// Bytes of a message that every network carries in one packet.
const SMALL: u32 = 64;
/// Bytes of a probe for larger messages: more than one packet, but for the largest MTU.
const LARGE: u64 = 9000;
/// Sizes that may pass where larger ones are dropped: the payload of TCP at MTUs of 1400, 1280 and 576.
const PASSING: [u32; 3] = [1328, 1208, 504];

/// Cases that the network between the two ends does not let through.
pub(crate) struct Blocked {
    transport: String,
    /// Bytes of the largest message that passes.
    passes: u64,
    reason: Unavailable,
}

impl Blocked {
    /// Why a case cannot be measured, if it is one of these.
    pub(crate) fn reason(&self, case: &Case) -> Option<Unavailable> {
        let blocked = case.path.transport == self.transport && case.size.max(case.reply) > self.passes;
        blocked.then(|| self.reason.clone())
    }
}

/// Where data connections go, as the first one shows: `local` is the near end's address as it knows it itself.
pub(crate) fn data(pair: &Pair, local: &str, seen: Option<std::net::IpAddr>) -> Option<DataRoute> {
    let near: SocketAddr = local.parse().ok()?;
    Some(DataRoute {
        far: shown(pair.far.peer?),
        found: pair.far.found.map(|found| found.to_string()),
        near: shown(canonical(near)),
        near_device: msgpath_agent::route::device_of(near.ip().to_canonical()),
        near_seen: seen
            .map(|seen| if seen == near.ip().to_canonical() { shown(canonical(near)) } else { seen.to_string() })?,
        more: pair.far.more,
    })
}

/// Sends a few messages by each transport over IP of a plan to a far end that this run did not put on its own link, small ones first:
/// nobody has tried yet what the network lets through beside the control channel.
///
/// # Errors
/// E72: nothing of the plan passes. As the ends otherwise.
pub(crate) fn probe(pair: &mut Pair, target: &Target, plan: &Plan, stop: &AtomicBool) -> Result<Vec<Blocked>, Problem> {
    if pair.far.peer.is_none() || !plan.programs.is_empty() || plan.options.between.is_some() {
        return Ok(Vec::new());
    }
    if let Some(launch) = &plan.options.launch {
        right_family(pair, &launch.host, plan)?;
    }
    let probe = Probe { target, plan, stop };
    let mut blocked: Vec<Blocked> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for case in plan.cases.iter().filter(|case| traits(&case.path).inet) {
        if !names.contains(&case.path.transport.as_str()) {
            names.push(&case.path.transport);
        }
    }
    let found = names.into_iter().filter_map(transport).map(|transport| transport.meta());
    for meta in found.filter(|meta| meta.family == meta::Family::Socket) {
        let name = meta.meta.name;
        let path = PathName::new(name, meta.default_method, meta.default_wait);
        let sizes = plan.cases.iter().filter(|case| case.path.transport == name).map(|case| case.size.max(case.reply));
        let largest = sizes.max().unwrap_or_default();
        let (passes, reason) = match probe.send(pair, &path, SMALL)? {
            Some(reason) => (0, reason),
            None if meta.lossy || largest <= SMALL.into() => continue,
            None => match probe.send(pair, &path, largest.min(LARGE) as u32)? {
                Some(reason) => probe.black_hole(pair, &path, reason)?,
                None => continue,
            },
        };
        blocked.push(Blocked { transport: name.into(), passes, reason });
    }
    let all = plan.cases.iter().all(|case| blocked.iter().any(|one| one.reason(case).is_some()));
    match blocked.first().filter(|_| all) {
        None => Ok(blocked),
        Some(first) => {
            let mut problem = tunnel(pair)
                .unwrap_or_else(|| Problem::new("E72", Exit::CannotStart, &first.reason.why).hint(&first.reason.hint));
            if problem.why.is_empty() {
                problem.why = between(pair);
            }
            Err(problem)
        }
    }
}

/// E72: a launcher found an address of another family than the one asked for.
fn right_family(pair: &Pair, host: &str, plan: &Plan) -> Result<(), Problem> {
    let wrong = pair.far.peer.filter(|far| !plan.options.family.admits(far.ip()));
    let Some(far) = wrong else { return Ok(()) };
    let what = format!("{host} was found at {}, which is not an address of the family asked for", shown(far));
    Err(Problem::new("E72", Exit::CannotStart, what).hint("--address ADDR, or without -o ip"))
}

/// From where to where data connections would go.
fn between(pair: &Pair) -> String {
    let Some(far) = pair.far.peer else { return String::new() };
    let near = msgpath_agent::route::source(far.ip()).map_or("an unknown address".into(), |near| near.to_string());
    let found = pair.far.found.map(|found| format!(" ({found})")).unwrap_or_default();
    format!("from {near} here to {}{found}", shown(far))
}

struct Probe<'a> {
    target: &'a Target,
    plan: &'a Plan,
    stop: &'a AtomicBool,
}

impl Probe<'_> {
    /// What keeps messages of this size from coming back; nothing: they do.
    fn send(&self, pair: &mut Pair, path: &PathName, size: u32) -> Result<Option<Unavailable>, Problem> {
        let traits = traits(path);
        let case = Case { traits, inflight: MESSAGES as u32, ..Case::new(path.clone(), Pieces::whole(size)) };
        let options = ChannelOptions {
            family: self.plan.options.family,
            bind: self.plan.options.bind.clone(),
            through: self.plan.options.through.clone(),
            stall_timeout_ns: HANDSHAKE.as_nanos() as u64,
            loss_timeout_ns: DATAGRAM.as_nanos() as u64,
            ..Default::default()
        };
        let small = Plan { options, ..Plan::new(Workload::ECHO, vec![case.clone()]) };
        let orders = Orders { plan: &small, one_clock: false, spare: &[], stop: self.stop, usual_ns: None };
        let order = orders.round(&case, MESSAGES, 0);
        let why = match orders.measure(pair, &order, &orders.own(&case, 1, 0, 0), None) {
            Ok(round) if round.near().delivery.received > 0 => return Ok(None),
            Ok(_) => format!("over {} to {}: dropped, nothing came back", path.transport, self.host(pair)),
            Err(RoundError::Unavailable(reason)) => {
                let prefix = format!("{path}: ");
                let why = reason.why.strip_prefix(&prefix).unwrap_or(&reason.why);
                // What this machine itself refuses is said when the case is tried.
                if !why.starts_with(NO_CONNECTION) && !why.starts_with(UNANSWERED) {
                    return Ok(None);
                }
                why.to_owned()
            }
            Err(RoundError::Problem(problem)) => return Err(problem),
            Err(RoundError::Stopped) => {
                return Err(Problem::new("E15", Exit::Interrupted, "interrupted before the first round"));
            }
        };
        Ok(Some(Unavailable { why: self.with_what_passes(&why), hint: self.hint() }))
    }

    /// The largest size that passes, and why no larger one does.
    fn black_hole(&self, pair: &mut Pair, path: &PathName, seen: Unavailable) -> Result<(u64, Unavailable), Problem> {
        let mut passes = SMALL;
        for size in PASSING {
            if self.send(pair, path, size)?.is_none() {
                passes = size;
                break;
            }
        }
        let why = format!(
            "{} to {}: too large: messages of {passes} bytes pass; {}: a link on the way has a smaller MTU and nothing says so \
             (path MTU black hole)",
            path.transport,
            self.host(pair),
            seen.why
        );
        Ok((
            passes.into(),
            Unavailable { why, hint: format!("-l {passes}, or mend the MTU on the way: ping -M do -s SIZE HOST") },
        ))
    }

    fn host(&self, pair: &Pair) -> String {
        pair.far.peer.map_or_else(|| self.target.to_string(), shown)
    }

    /// With the port of the control channel, which is not kept away.
    fn with_what_passes(&self, what: &str) -> String {
        match (self.target, &self.plan.options.launch) {
            _ if what.starts_with(UNANSWERED) => what.to_owned(),
            (Target::Host { port, .. }, None) => format!("data {what} ({port} passes)"),
            _ => format!("data {what}"),
        }
    }

    fn hint(&self) -> String {
        match self.plan.options.launch {
            Some(_) => {
                "--address ADDR   another address of that host; -o bind=ADDRESS   another one of this end".into()
            }
            None => "there msgpath serve --data-ports 5211-5219, and let this machine in at these ports".into(),
        }
    }
}

/// E72: the control stream goes through a tunnel to another network (ssh -L, a published port of a container): it seems to lead to
/// this machine, and data connections do.
fn tunnel(pair: &Pair) -> Option<Problem> {
    let network = |link: &Link| {
        let text = link.environment.facts.get("network namespace")?;
        let number: u64 = text.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()?;
        Some((link.environment.boot_id.clone(), number))
    };
    let peer = pair.far.peer.map(|peer| peer.ip()).filter(std::net::IpAddr::is_loopback)?;
    if pair.far.found.is_some() || network(&pair.near)? == network(&pair.far)? {
        return None;
    }
    let what =
        format!("{peer} leads to {} through a tunnel, which data connections do not take", pair.far.environment.host);
    Some(
        Problem::new("E72", Exit::CannotStart, what)
            .why(format!("from {peer} here nothing goes to {peer} there, which is another network"))
            .hint(
                "msgpath echo HOST --launch ssh; or forward the ports of msgpath serve --data-ports as well, each to the same number",
            ),
    )
}
