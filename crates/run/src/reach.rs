//! Whether the data connections of two hosts come about, found out before anything else is measured; and where they go.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use msgpath_agent::team::UNANSWERED;
use msgpath_core::doctor::{CheckState, Observation};
use msgpath_core::plan::{ChannelOptions, Plan};
use msgpath_core::schema::{DataRoute, FAR, NEAR};
use msgpath_core::units::Pieces;
use msgpath_core::{Case, Exit, PathName, Problem, Target, Unavailable, Workload};
use msgpath_paths::registry::traits;
use msgpath_paths::transports::tcp::NO_CONNECTION;
use msgpath_paths::{meta, transport};
use msgpath_sys::address::{canonical, shown};

use crate::link::{Link, Pair};
use crate::orders::Orders;
use crate::round::{ANSWERS_ORDERS, RoundError, STALLED};

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

/// The check of `doctor` that tries them.
const DATA_CONNECTIONS: u8 = 23;

/// Cases that the network between the two ends does not let through.
pub(crate) struct Blocked {
    transport: String,
    /// Bytes of the largest message that passes.
    passes: u64,
    reason: Unavailable,
}

impl Blocked {
    /// What the network does to it.
    pub(crate) fn why(&self) -> &Unavailable {
        &self.reason
    }

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
    let blocked = dropped(pair, target, plan, stop)?;
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

/// Which cases of a plan the network does not let through.
///
/// # Errors
/// As the ends.
fn dropped(pair: &mut Pair, target: &Target, plan: &Plan, stop: &AtomicBool) -> Result<Vec<Blocked>, Problem> {
    let probe = Probe { target, plan, stop };
    let mut blocked: Vec<Blocked> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for case in plan.cases.iter().filter(|case| traits(&case.path).inet) {
        if !names.contains(&case.path.transport.as_str()) {
            names.push(&case.path.transport);
        }
    }
    for name in names {
        let Some((path, lossy)) = usual_path(name) else { continue };
        let found = match probe.send(pair, &path, [SMALL; 2])? {
            Some(reason) => Some((0, reason)),
            None => probe.too_large(pair, &path, lossy)?,
        };
        blocked.extend(found.map(|(passes, reason)| Blocked { transport: name.into(), passes, reason }));
    }
    Ok(blocked)
}

/// Check 23: whether messages reach the far end of a host over TCP and UDP, small ones and such as need several packets. Nothing where
/// there is no host.
///
/// # Errors
/// As the ends.
pub(crate) fn check(
    pair: &mut Pair,
    target: &Target,
    options: &ChannelOptions,
    stop: &AtomicBool,
) -> Result<Option<Observation>, Problem> {
    if pair.far.peer.is_none() {
        return Ok(None);
    }
    let observed = |state, what, cure| Observation {
        number: DATA_CONNECTIONS,
        state,
        what,
        cure,
        remedies: Vec::new(),
        evidence: Default::default(),
    };
    let cases = ["tcp", "udp"].into_iter().filter_map(usual_path).map(|(path, _)| {
        let case = Case::new(path, Pieces::whole(LARGE as u32));
        Case { traits: traits(&case.path), ..case }
    });
    let plan = Plan { options: options.clone(), ..Plan::new(Workload::ECHO, cases.collect()) };
    let blocked = match dropped(pair, target, &plan, stop) {
        Ok(blocked) => blocked,
        Err(problem) if problem.exit == Exit::Interrupted => return Err(problem),
        Err(problem) => {
            let what = format!("n/a: {}", problem.what);
            return Ok(Some(observed(CheckState::NotAvailable, what, String::new())));
        }
    };
    let (state, what) = match blocked.iter().map(|one| one.passes).min() {
        None => (CheckState::Ok, format!("messages of {LARGE} bytes go there and back over tcp and udp")),
        Some(passes) => {
            let state = if passes == 0 { CheckState::Stop } else { CheckState::Warn };
            (state, blocked.iter().map(|one| one.reason.why.clone()).collect::<Vec<_>>().join(". "))
        }
    };
    let cure = blocked.first().map(|one| one.reason.hint.clone()).unwrap_or_default();
    Ok(Some(observed(state, what, cure)))
}

/// The path of a transport that is probed, and whether it may lose messages; nothing where it has no sockets.
fn usual_path(name: &str) -> Option<(PathName, bool)> {
    let meta = transport(name)?.meta();
    let path = PathName::new(name, meta.default_method, meta.default_wait);
    (meta.family == meta::Family::Socket).then_some((path, meta.lossy))
}

/// What the network drops of a case that could be measured before, whose end has `seen` something; nothing: it is not the size of its
/// messages.
///
/// # Errors
/// As the ends.
pub(crate) fn fell(
    pair: &mut Pair,
    target: &Target,
    plan: &Plan,
    (case, seen): (&Case, &Unavailable),
    stop: &AtomicBool,
) -> Result<Option<Blocked>, Problem> {
    let over_network = pair.far.peer.is_some() && seen.why.starts_with(UNANSWERED);
    let Some((path, lossy)) = usual_path(&case.path.transport).filter(|_| over_network) else { return Ok(None) };
    let probe = Probe { target, plan, stop };
    if probe.send(pair, &path, [SMALL; 2])?.is_some() {
        return Ok(None);
    }
    let found = probe.too_large(pair, &path, lossy)?;
    // Several messages may share a packet: of smaller ones more.
    let smaller = case.size.max(case.reply).saturating_sub(1);
    let transport = case.path.transport.clone();
    Ok(found.map(|(passes, reason)| Blocked { transport, passes: passes.min(smaller), reason }))
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
    /// What keeps messages and replies of these sizes from coming back; nothing: they do.
    fn send(&self, pair: &mut Pair, path: &PathName, sizes: [u32; 2]) -> Result<Option<Unavailable>, Problem> {
        let traits = traits(path);
        let [size, reply] = sizes;
        let case = Case::new(path.clone(), Pieces::whole(size));
        let case = Case { traits, inflight: MESSAGES as u32, reply: reply.into(), ..case };
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
            Err(RoundError::Problem(problem)) if problem.code == STALLED && problem.why == ANSWERS_ORDERS => {
                let seconds = HANDSHAKE.as_secs_f64();
                format!("over {} to {}: nothing came back within {seconds} s", path.transport, self.host(pair))
            }
            Err(RoundError::Problem(problem)) => return Err(problem),
            Err(RoundError::Stopped) => {
                return Err(Problem::new("E15", Exit::Interrupted, "interrupted while the network was tried"));
            }
        };
        Ok(Some(Unavailable { why: self.with_what_passes(&why), hint: self.hint() }))
    }

    /// The largest messages and replies of the plan's cases of a transport, bytes. A stream of TCP fills its segments whatever its
    /// messages are.
    fn largest(&self, transport: &str, lossy: bool) -> [u32; 2] {
        let cases = self.plan.cases.iter().filter(|case| case.path.transport == transport);
        let most = |size: fn(&Case) -> u64| cases.clone().map(size).max().unwrap_or_default().min(LARGE) as u32;
        let size = if lossy { most(|case| case.size) } else { LARGE as u32 };
        match (self.plan.workload.is_echoed(), self.plan.reverse) {
            (true, _) => [most(|case| case.size), most(|case| case.reply)],
            (false, false) => [size, SMALL],
            (false, true) => [SMALL, size],
        }
    }

    /// The largest size that passes, and why no larger one does; nothing: the largest of the plan passes. What may be lost is tried
    /// twice.
    fn too_large(&self, pair: &mut Pair, path: &PathName, lossy: bool) -> Result<Option<(u64, Unavailable)>, Problem> {
        let largest = self.largest(&path.transport, lossy);
        if largest.iter().all(|size| *size <= SMALL) {
            return Ok(None);
        }
        let mut seen = self.send(pair, path, largest)?;
        if lossy && seen.is_some() {
            seen = self.send(pair, path, largest)?;
        }
        let Some(seen) = seen else { return Ok(None) };
        let mut passes = SMALL;
        for size in PASSING {
            if self.send(pair, path, largest.map(|most| most.min(size)))?.is_none() {
                passes = size;
                break;
            }
        }
        let mtu = |end: usize| pair.devices[end].as_ref().and_then(|device| device.mtu_bytes);
        let mtus = match (mtu(NEAR), mtu(FAR)) {
            (Some(here), Some(there)) => format!(", MTU here {here}, there {there}"),
            (Some(here), None) => format!(", MTU here {here}"),
            _ => String::new(),
        };
        let (transport, host) = (&path.transport, self.host(pair));
        let why = format!(
            "{transport} to {host}: too large: messages of {passes} bytes pass, larger packets are dropped and nothing says so (path \
             MTU black hole{mtus}); {}",
            seen.why
        );
        let stream = !self.plan.workload.is_echoed() && !lossy;
        let smaller = if stream { String::new() } else { format!("-l {passes}, or ") };
        let hint = format!("{smaller}mend the MTU on the way: ping -M do -s SIZE HOST");
        Ok(Some((if stream { 0 } else { passes.into() }, Unavailable { why, hint })))
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
