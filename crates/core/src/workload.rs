//! Workloads: what messages do, each a value with traits that is declared where the workload lives.
//!
//! A record and an order name a workload; whoever must know something of it asks a trait. Nothing compares names.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::gate::Watched;
use crate::plan::Metric;
use crate::plugged::Plugged;

/// What messages do, and what follows from it for whoever plans, counts, compares or prints them.
#[derive(Debug)]
pub struct Workload {
    /// In records, orders and JSON: `echo`.
    pub name: &'static str,
    /// Runs of it, as the subject of a sentence: `echoes`.
    pub runs: &'static str,
    /// Its messages, as the subject of a sentence: `round trips`.
    pub messages: &'static str,
    /// What messages that were not lost did: `came back`.
    pub arrived: &'static str,
    /// Roles of the two ends, client first; with `-R` they are exchanged.
    pub ends: [&'static str; 2],
    /// What is compared where the user names nothing.
    pub metric: Metric,
    /// Each message has a time of its own; otherwise a round is timed as a whole and has a throughput.
    pub timed: bool,
    /// Names of that time in a closed loop.
    pub duration: Duration,
    /// Names of that time in an open loop, where they are others.
    pub open_duration: Option<Duration>,
    /// Who answers a message.
    pub answer: Answer,
    /// The measuring loops of the base carry it out in rounds.
    pub in_rounds: bool,
    /// The option that says for how long it is measured, its words typed before the time; `None`: its messages are counted.
    pub for_how_long: Option<&'static str>,
    /// A round ends when its time is over, whatever is still under way; otherwise it waits for every message.
    pub punctual: bool,
    /// Rounds of one pass are compared pair by pair; otherwise the reason why not.
    pub paired: Result<(), &'static str>,
    /// A message goes to several receivers.
    pub fans_out: bool,
    /// All messages of a case have the size of the case.
    pub one_size: bool,
    /// How many messages there are in a second is a result, not a setting.
    pub has_rate: bool,
    /// The message log has a row for each message.
    pub logged: bool,
    /// How often the kernel copies a byte is known; otherwise the reason why not.
    pub copies: Result<(), &'static str>,
    /// Messages are split into stages by the stamps of both ends; otherwise the reason why not.
    pub stages: Result<(), &'static str>,
    /// A run that was cut short goes on; otherwise the reason why not.
    pub resumes: Result<(), &'static str>,
    /// What is to be done about lost messages; `None`: its feature has a finding of its own on what became of them.
    pub loss_cure: Option<&'static str>,
}

/// Names of what is measured of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duration {
    /// `round trip`, for axes and column heads.
    pub name: &'static str,
    /// `Round trips`, for headings.
    pub many: &'static str,
    /// From when until when it lasts, a sentence.
    pub what: &'static str,
}

/// Who answers a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An agent, over the same path, with [`crate::Case::reply`] bytes.
    Agent,
    /// A server that reports nothing of itself to msgpath.
    Server,
    /// None: messages go one way.
    None,
}

impl Workload {
    /// There and back.
    pub const ECHO: &'static Workload = &ECHO;
    /// One way, acknowledged at the end.
    pub const STREAM: &'static Workload = &STREAM;

    /// Whether an agent answers each message, so that both ends count the same messages and the reply has a known size.
    pub fn is_echoed(&self) -> bool {
        self.answer == Answer::Agent
    }

    /// Whether a server answers that reports nothing of itself.
    pub fn has_server(&self) -> bool {
        self.answer == Answer::Server
    }

    /// Names of the time of a message; `open`: in an open loop.
    pub fn duration(&self, open: bool) -> Duration {
        self.open_duration.filter(|_| open).unwrap_or(self.duration)
    }

    /// Whether its runs have a number that a gate watches.
    pub fn has(&self, watched: Watched) -> bool {
        match watched {
            Watched::Quantile(_) | Watched::Mean => self.timed,
            Watched::Throughput => !self.timed,
            Watched::Cpu => !self.has_server(),
            Watched::Rate => self.has_rate,
            Watched::Loss => true,
        }
    }

    /// The numbers of its runs that a gate can watch, as they are typed: `p50, p99, mean, cpu, rate or loss`.
    pub fn watched_names(&self) -> String {
        use Watched::{Cpu, Loss, Mean, Quantile, Rate, Throughput};
        let all = [Quantile(0.5), Quantile(0.99), Mean, Throughput, Cpu, Rate];
        let names: Vec<String> = all.into_iter().filter(|watched| self.has(*watched)).map(|w| w.to_string()).collect();
        format!("{} or {Loss}", names.join(", "))
    }
}

/// Names are unique ([`add`]).
impl PartialEq for Workload {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Workload {}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

/// By its name, for `#[serde(deserialize_with)]`.
///
/// # Errors
/// This program has no workload of that name.
pub fn by_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static Workload, D::Error> {
    let name = String::deserialize(deserializer)?;
    find(&name).ok_or_else(|| {
        D::Error::custom(format!("no workload `{}` in this msgpath ({})", crate::foreign::shown(&name), names()))
    })
}

/// The names of all workloads of this program.
pub fn names() -> String {
    all().iter().map(|workload| workload.name).collect::<Vec<_>>().join(", ")
}

static BASE: [&Workload; 2] = [&ECHO, &STREAM];
static ADDED: Plugged<Workload> = Plugged::new();

/// Lists a workload of a feature behind those of the base, before anything asks for one; a second time changes nothing.
///
/// # Panics
/// There is another one of that name.
pub fn add(workload: &'static Workload) {
    let known = find(workload.name);
    assert!(known.is_none_or(|known| std::ptr::eq(known, workload)), "two workloads are called {}", workload.name);
    ADDED.add(workload);
}

/// All workloads of this program.
pub fn all() -> Vec<&'static Workload> {
    BASE.into_iter().chain(ADDED.all()).collect()
}

pub fn find(name: &str) -> Option<&'static Workload> {
    all().into_iter().find(|workload| workload.name == name)
}

const ROUND_TRIP: Duration = Duration {
    name: "round trip",
    many: "Round trips",
    what: "Time is from just before send() to just after recv() returns. One way is not half of this.",
};

static ECHO: Workload = Workload {
    name: "echo",
    runs: "echoes",
    messages: "round trips",
    arrived: "came back",
    ends: ["echo client", "echo server"],
    metric: Metric::P50,
    timed: true,
    duration: ROUND_TRIP,
    open_duration: Some(Duration {
        name: "latency",
        many: "Latencies",
        what: "Latency is from the intended send to just after recv() returned, the round trip from just before the \
               actual send(). One way is not half of either.",
    }),
    answer: Answer::Agent,
    in_rounds: true,
    for_how_long: Some("-t"),
    punctual: false,
    paired: Ok(()),
    fans_out: false,
    one_size: true,
    has_rate: true,
    logged: true,
    copies: Ok(()),
    stages: Ok(()),
    resumes: Ok(()),
    loss_cure: Some("fewer messages in flight or a larger receive buffer"),
};

static STREAM: Workload = Workload {
    name: "stream",
    runs: "streams",
    messages: "messages",
    arrived: "arrived",
    ends: ["sender", "receiver"],
    metric: Metric::Throughput,
    timed: false,
    duration: ROUND_TRIP,
    open_duration: None,
    answer: Answer::None,
    in_rounds: true,
    for_how_long: Some("-t"),
    punctual: false,
    paired: Ok(()),
    fans_out: false,
    one_size: true,
    has_rate: true,
    logged: false,
    copies: Ok(()),
    stages: Err("the messages of a stream are not timed one by one; msgpath echo does"),
    resumes: Ok(()),
    loss_cure: Some("fewer messages in flight or a larger receive buffer"),
};

#[cfg(test)]
mod tests {
    use super::*;

    static PUBSUB: Workload = Workload { name: "pubsub", answer: Answer::Server, has_rate: false, ..ECHO };
    static OTHER: Workload = Workload { name: "pubsub", ..ECHO };

    #[test]
    fn a_workload_of_another_crate_is_found_by_its_name() {
        #[derive(Debug, Deserialize)]
        struct Named {
            #[serde(deserialize_with = "by_name")]
            workload: &'static Workload,
        }
        let read = |text: &str| serde_json::from_str::<Named>(text);
        let unknown = read(r#"{"workload":"pubsub"}"#).unwrap_err().to_string();
        assert!(unknown.starts_with("no workload `pubsub` in this msgpath (echo, stream"), "{unknown}");
        add(&PUBSUB);
        add(&PUBSUB);
        assert!(std::ptr::eq(read(r#"{"workload":"pubsub"}"#).unwrap().workload, &PUBSUB));
        assert_eq!(serde_json::to_string(&PUBSUB).unwrap(), "\"pubsub\"");
        assert!(std::panic::catch_unwind(|| add(&OTHER)).is_err(), "names are unique");
    }

    #[test]
    fn gates_watch_what_a_workload_has() {
        assert_eq!(ECHO.watched_names(), "p50, p99, mean, cpu, rate or loss");
        assert_eq!(STREAM.watched_names(), "throughput, cpu, rate or loss");
        assert_eq!(PUBSUB.watched_names(), "p50, p99, mean or loss", "a server does not report its CPU time");
    }

    #[test]
    fn an_open_loop_has_a_time_of_its_own() {
        assert_eq!(ECHO.duration(false).name, "round trip");
        assert!(ECHO.duration(true).what.contains("intended send"));
        assert_eq!(STREAM.duration(true), STREAM.duration(false));
    }
}
