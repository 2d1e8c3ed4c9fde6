//! An end that calls a server: it connects once, keeps its threads for the whole run, and brings home what each round measured.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use msgpath_core::Unavailable;
use msgpath_core::plan::MAX_CONNECTIONS;
use msgpath_core::schema::EndRound;
use msgpath_sys::socket;

use msgpath_agent::memory::can_be_had;
use msgpath_agent::roles::{Context, Goes, ListedRole, SessionRole};
use msgpath_agent::wire::{self, Body, FromEnd, put_histograms};
use msgpath_agent::{counters, speed};

use super::cluster::Cluster;
use super::connection::{Connection, Server};
use super::http::Http;
use super::login::{self, Greeting};
use super::loops::{Line, Shared};
use super::maker::Draws;
use super::orders::{Answer, Batch, CallOrder, Called, CallsOrder, Endpoint, Login, Order, ROLE, Speaks};
use super::part::Part;
use super::redis::Redis;
use super::team::Team;
use super::tls::Tls;
use super::wire::Wire;

/// A run of calls, connected.
struct Calling {
    shared: Arc<Shared>,
    team: Team,
    counters: counters::Reader,
    round: Option<Round>,
}

/// The round at hand.
struct Round {
    order: CallsOrder,
    speed_ns: u64,
    before: counters::Sample,
    /// Once it is over.
    part: Option<Part>,
}

/// What is spoken to the server of an order.
fn wire(order: &CallOrder) -> Wire {
    let address = order.address.tcp();
    match &order.speaks {
        Speaks::Lab { pad } => Wire::Lab {
            server_ip: match address.map(|address| address.ip()) {
                Some(IpAddr::V4(ip)) => ip.into(),
                _ => 0,
            },
            server_port: address.map_or(0, |address| address.port()),
            pad: *pad,
        },
        Speaks::Redis(_) => Wire::Redis(Redis::default()),
        Speaks::Http { host, path, fields, body, closes, .. } => {
            let http = Http::new(host.clone(), path.clone()).with(fields).with_body(body.clone());
            Wire::Http(if *closes { http.closing() } else { http })
        }
        #[cfg(feature = "postgres")]
        Speaks::Postgres { .. } => {
            let statements = order.steps.iter().map(|step| step.method.clone()).collect();
            Wire::Postgres(super::postgres::Postgres::new(statements))
        }
    }
}

/// The nodes of a cluster, where one is called, and of each connection those to its other nodes. They are made here, before the first call.
#[allow(clippy::type_complexity, reason = "one pair, taken apart at once")]
fn nodes(
    order: &CallOrder,
    connections: &mut [Connection],
    (server, stop): (&Server, &AtomicBool),
) -> Result<(Option<Cluster>, Vec<Vec<Connection>>), FromEnd> {
    let none = || connections.iter().map(|_| Vec::new()).collect();
    let Speaks::Redis(Login { cluster: true, .. }) = &order.speaks else { return Ok((None, none())) };
    let failed = |problem: msgpath_core::Problem| FromEnd::Failed(problem.into());
    let (Some(seed), Some(first)) = (order.address.tcp(), connections.first()) else {
        return Err(FromEnd::Unavailable(Unavailable::new("a cluster is called over TCP", "redis://HOST --cluster")));
    };
    let cluster = login::cluster(&first.stream, seed, server.timeout).map_err(failed)?;
    if cluster.nodes().len() as u64 * u64::from(order.connections) > u64::from(MAX_CONNECTIONS) {
        let why = format!(
            "{} nodes of the cluster times {} connections are too many",
            cluster.nodes().len(),
            order.connections
        );
        return Err(FromEnd::Unavailable(Unavailable::new(why, "a smaller -P")));
    }
    let open = |index: u32, node: &SocketAddr| {
        Connection::open(index, Server { address: Endpoint::Tcp(*node), ..server.clone() }, stop)
    };
    let of = |connection: &Connection| cluster.nodes()[1..].iter().map(|node| open(connection.index, node)).collect();
    let others: Result<Vec<Vec<Connection>>, _> = connections.iter().map(of).collect();
    Ok((Some(cluster.clone()), others.map_err(failed)?))
}

pub const SESSION: ListedRole = ListedRole { name: ROLE, begin: || Box::new(Caller(None)) };

/// An end that calls, once it was told whom.
struct Caller(Option<Calling>);

impl SessionRole for Caller {
    fn order(&mut self, body: &Body, context: &Context<'_>) -> io::Result<FromEnd> {
        match body.read()? {
            Order::Call(order) => {
                // Whoever reads what the parent prints may keep it waiting.
                context.silence_is_fine();
                match Calling::connect(*order, context.gone) {
                    Ok((connected, answer)) => {
                        self.0 = Some(connected);
                        FromEnd::role(&answer)
                    }
                    Err(refused) => Ok(refused),
                }
            }
            Order::Calls(order) => {
                let prepared = self.0.as_mut().ok_or("a round of nobody who calls");
                let prepared = prepared.and_then(|calling| calling.prepare(order));
                prepared.map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))
            }
        }
    }

    fn go(&mut self, goes: &mut dyn FnMut() -> Goes) -> Option<FromEnd> {
        self.0.as_mut()?.go(goes)
    }

    fn report(&mut self, mut to: &mut dyn Write) -> io::Result<bool> {
        self.0.as_mut().map_or(Ok(false), |calling| calling.report(&mut to))
    }
}

impl Calling {
    /// Connects unless `stop` is set meanwhile, and makes the threads. Returns what is said to that.
    ///
    /// # Errors
    /// What is said to what cannot be had.
    fn connect(order: CallOrder, stop: &AtomicBool) -> Result<(Self, Answer), FromEnd> {
        let refused = |what: &str| FromEnd::Unavailable(Unavailable::new(format!("the near end refused: {what}"), ""));
        order.check().map_err(refused)?;
        can_be_had(order.memory()).map_err(FromEnd::Unavailable)?;
        let timeout = Duration::from_nanos(order.connect_timeout_ns);
        let wire = wire(&order);
        let tls = order.tls.as_ref().map(Tls::client).transpose();
        let tls = tls.map_err(|problem| FromEnd::Failed(problem.into()))?;
        let http2 = match &wire {
            Wire::Http(http) if order.speaks.is_http2() => Some((http.clone(), order.inflight)),
            _ => None,
        };
        let server = Server { address: order.address.clone(), timeout, greeting: Greeting::of(&order), tls, http2 };
        let open = |index| Connection::open(index, server.clone(), stop);
        let connections: Result<Vec<_>, _> = (0..order.connections).map(open).collect();
        let connections = connections.map_err(|problem| FromEnd::Failed(problem.into()))?;
        let mut connections = connections;
        let (cluster, others) = nodes(&order, &mut connections, (&server, stop))?;
        let nodes = cluster.as_ref().map_or_else(Vec::new, |cluster| cluster.nodes().to_vec());
        let first = connections.first();
        let from = first.and_then(|first| first.local);
        let is_unix = matches!(order.address, Endpoint::Unix(_));
        let server = first.filter(|_| is_unix).and_then(|first| socket::peer_process(first.stream.as_fd()));
        let server = server.map(i32::unsigned_abs);
        let draws = Draws::of(order.register, order.connections);
        let shared = Arc::new(Shared::new(order));
        let lines = connections.into_iter().zip(draws).zip(others);
        let line = |((connection, draws), others): ((Connection, Draws), Vec<Connection>)| {
            let mut wire = wire.clone();
            wire.met(connection.met.clone());
            let mut line = Line::new(connection, wire, draws, &shared);
            (line.others, line.cluster) = (others, cluster.clone());
            line
        };
        let lines = lines.map(line).collect();
        let team = Team::new(lines, &shared)?;
        let counters = counters::Reader::new(&shared.order.cpus);
        let answer = Answer::Calling { from, server, counters: counters.names(), nodes };
        Ok((Self { shared, team, counters, round: None }, answer))
    }

    /// Makes a round ready.
    ///
    /// # Errors
    /// It is none of this run.
    fn prepare(&mut self, order: CallsOrder) -> Result<FromEnd, &'static str> {
        order.check(&self.shared.order)?;
        self.round = Some(Round { order, speed_ns: speed::probe(), before: self.counters.read(), part: None });
        Ok(FromEnd::ready())
    }

    /// Measures the round that was made ready; see [`Team::round`].
    fn go(&mut self, goes: &mut dyn FnMut() -> Goes) -> Option<FromEnd> {
        let round = self.round.as_mut().filter(|round| round.part.is_none())?;
        round.part = Some(self.team.round(&round.order, goes));
        Some(FromEnd::Over)
    }

    /// Brings the round home. `false`: there is none.
    ///
    /// # Errors
    /// As the writer.
    fn report(&mut self, to: &mut impl Write) -> io::Result<bool> {
        let kernel = self.counters.read();
        let Some((round, mut part)) =
            self.round.take().and_then(|mut round| round.part.take().map(|part| (round, part)))
        else {
            return Ok(false);
        };
        part.in_order(round.order.keep);
        for (batch, bytes) in Batch::all(&part.rows, &part.records, &part.texts) {
            wire::write(to, &FromEnd::role(&Answer::Calls(batch))?, &bytes)?;
        }
        part.report.elapsed_ns = part.end.saturating_sub(part.begin);
        let mut bytes = Vec::new();
        let histograms = put_histograms([&part.latency, &part.service, &part.lateness], &mut bytes);
        let (kernel, watched_ns) = kernel.since(&round.before);
        let near = EndRound {
            report: part.report,
            kernel,
            watched_ns: Some(watched_ns),
            speed_ns: Some(round.speed_ns),
            ..EndRound::default()
        };
        let called = Called {
            near,
            open: part.open,
            histograms,
            start_ns: part.begin.saturating_sub(self.shared.order.begin).min(1 << 61),
            not_kept: part.not_kept,
            failed: part.failed,
            remarks: part.remarks,
            connect_ns: part.connect_ns,
            handshakes: part.handshakes,
            waits_known: part.waits_known,
            server: part.server,
            reply_bytes: part.reply_bytes,
            last_status: part.last_status,
            broken: part.broken,
        };
        wire::write(to, &FromEnd::role(&Answer::Called(Box::new(called)))?, &bytes)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::thread::JoinHandle;

    use super::*;
    use crate::agent::client::orders::Broken;
    use crate::agent::client::orders::tests::order;
    use msgpath_agent::Reach;
    use msgpath_agent::roles::testing::{self, session};
    use msgpath_agent::wire::ToEnd;

    static ROLES: [ListedRole; 1] = [SESSION];

    type Ended = JoinHandle<io::Result<()>>;

    fn says(control: &mut UnixStream, told: ToEnd) {
        testing::says(control, &told);
    }

    fn hears(control: &mut UnixStream) -> FromEnd {
        testing::hears(control).0
    }

    fn call(order: CallOrder) -> ToEnd {
        ToEnd::role(ROLE, &Order::Call(Box::new(order))).unwrap()
    }

    fn calls(calls: std::ops::Range<u64>) -> ToEnd {
        ToEnd::role(ROLE, &Order::Calls(CallsOrder { step: 0, calls, pass: 0, keep: 9, until_ns: None })).unwrap()
    }

    /// The first round of a run with a server that says nothing, told to go.
    fn going(order: CallOrder) -> (UnixStream, Ended, TcpListener) {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut control, ended) = session(&ROLES, Reach::Own);
        says(&mut control, call(CallOrder { address: Endpoint::Tcp(server.local_addr().unwrap()), ..order }));
        let Ok(Answer::Calling { from, counters, .. }) = hears(&mut control).of_role() else { panic!("not connected") };
        assert!(from.is_some_and(|from| from.ip().is_loopback()) && !counters.is_empty(), "{from:?} {counters:?}");
        says(&mut control, calls(0..3));
        assert!(matches!(hears(&mut control), FromEnd::Ready { .. }));
        says(&mut control, ToEnd::Go);
        (control, ended, server)
    }

    /// What is reported of one call without a reply.
    fn reported(control: &mut UnixStream) -> Called {
        let Ok(Answer::Calls(batch)) = hears(control).of_role() else { panic!("no rows") };
        assert_eq!((batch.rows, batch.records), (1, 0));
        let Ok(Answer::Called(called)) = hears(control).of_role() else { panic!("no report") };
        let sent = called.near.report.delivery;
        assert_eq!((sent.sent, sent.received, sent.lost), (1, 0, 1));
        *called
    }

    #[test]
    fn silence_is_reported_when_it_was_asked_for() {
        let (mut control, ended, _server) = going(CallOrder { timeout_ns: 20_000_000, ..order("-k 3 ping") });
        assert_eq!(hears(&mut control), FromEnd::Over);
        says(&mut control, ToEnd::Finish);
        assert_eq!(reported(&mut control).broken, Some((0, Broken::TimedOut)));
        says(&mut control, ToEnd::Finish);
        assert!(ended.join().unwrap().is_err(), "it was reported");
    }

    #[test]
    fn a_round_ends_when_it_is_told_to_and_with_its_control_channel() {
        let (mut control, ended, _server) = going(order("-k 3 ping"));
        says(&mut control, ToEnd::Alive);
        let (lost, also, _other) = going(order("-k 3 ping"));
        drop(lost);
        says(&mut control, ToEnd::Finish);
        assert_eq!(hears(&mut control), FromEnd::Over);
        assert_eq!(reported(&mut control).broken, Some((0, Broken::Stopped)));
        says(&mut control, ToEnd::Bye);
        assert!(ended.join().unwrap().is_ok() && also.join().unwrap().is_ok());
    }

    #[test]
    fn connecting_ends_with_the_control_channel() {
        let full = TcpListener::bind("127.0.0.1:0").unwrap();
        msgpath_sys::socket::set_backlog(full.as_fd(), 0).unwrap();
        let address = full.local_addr().unwrap();
        let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(100)).ok();
        let kept: Vec<TcpStream> = std::iter::from_fn(connect).take(16).collect();
        assert!(kept.len() < 16, "the queue takes everybody");
        let (mut control, ended) = session(&ROLES, Reach::Own);
        says(
            &mut control,
            call(CallOrder { address: Endpoint::Tcp(address), connect_timeout_ns: 600_000_000_000, ..order("ping") }),
        );
        drop(control);
        assert!(ended.join().unwrap().is_ok(), "nobody waits for it");
    }

    #[test]
    fn a_cpu_that_cannot_be_had_ends_the_run_before_its_first_call() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let allowed = msgpath_sys::affinity::allowed();
        let other = 1 + allowed.last().unwrap();
        let (mut control, _) = session(&ROLES, Reach::Own);
        let order = CallOrder { cpus: vec![allowed[0], other], connections: 2, threads: 2, ..order("ping") };
        says(&mut control, call(CallOrder { address: Endpoint::Tcp(server.local_addr().unwrap()), ..order }));
        let FromEnd::Unavailable(reason) = hears(&mut control) else { panic!("connected") };
        assert!(
            reason.why.contains(&format!("cpu {other} is not there, or this process may not use it")),
            "{reason:?}"
        );
    }

    #[test]
    fn only_a_parent_orders_calls_and_only_in_turn() {
        let (mut control, ended) = session(&ROLES, Reach::Joined);
        says(&mut control, call(order("ping")));
        assert!(ended.join().unwrap().unwrap_err().to_string().contains("only a parent"));
        let (mut control, ended) = session(&ROLES, Reach::Own);
        says(&mut control, calls(0..1));
        assert!(ended.join().unwrap().is_err());
        // Nobody listens there; what cannot be is refused before.
        let (mut control, _) = session(&ROLES, Reach::Own);
        says(&mut control, call(order("ping")));
        assert!(
            matches!(hears(&mut control), FromEnd::Failed(failure) if msgpath_core::Problem::from(failure.clone()).code == "E01")
        );
        says(&mut control, call(CallOrder { connections: 0, ..order("ping") }));
        assert!(matches!(hears(&mut control), FromEnd::Unavailable(reason) if reason.why.contains("refused")));
    }
}
