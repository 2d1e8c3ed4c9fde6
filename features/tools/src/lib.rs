//! Measuring tools of others that do the same work as a case of ours: how each is started, what it prints, and what its numbers
//! mean. A tool is one file and a line in [`TOOLS`]; only `run` starts anything. `--tools` starts them between the rounds of a run
//! (`beside`), what they said is kept beside the rounds (`log`) and stands beside the result (`table`). Files that tools wrote become
//! runs (`import`).
#![forbid(unsafe_code)]

#[cfg(feature = "programs")]
mod beside;
pub mod findings;
mod fortio;
pub mod import;
mod iperf3;
pub mod log;
mod neper;
mod netperf;
mod qperf;
mod read;
#[cfg(feature = "programs")]
mod run;
pub mod section;
mod sockperf;
pub mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use msgpath_core::Workload;
use msgpath_core::plan::Load;
use msgpath_core::{Case, CaseRole, Plan};

#[cfg(feature = "programs")]
pub use beside::{FEATURE, named, wanted};
#[cfg(feature = "programs")]
pub use run::{Turn, installed};

/// All of them.
pub static TOOLS: [Tool; 6] = [sockperf::TOOL, netperf::TOOL, iperf3::TOOL, qperf::TOOL, neper::TOOL, fortio::TOOL];
/// How often each runs during a run of ours: as often as an interval needs.
pub const TURNS: u32 = msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;
/// Seconds that a tool measures between rounds: the least that all of them take.
pub const SECONDS: u32 = 1;
/// How long one takes in all, with its start and what it does before and after, ns: for estimates.
const TAKES_NS: u64 = 1_700_000_000;
/// Most cases of a run that tools do as well.
pub const MOST_CASES: usize = 8;

pub struct Tool {
    /// As it is called, and as typed.
    pub name: &'static str,
    /// What to type where it is not installed.
    pub install: &'static str,
    /// What starts it for this work, for so many seconds; `None`: it does not do that.
    pub commands: fn(&Exchange, &Ports, u32) -> Option<Commands>,
    /// What it printed.
    pub read: fn(&Exchange, &str) -> Result<Printed, String>,
    /// Why its number is another one than ours, as far as its way of counting goes: for people, without a full stop.
    pub means: fn(&Exchange) -> &'static str,
}

/// What a case of ours does, as far as others can do it too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchange {
    /// What carries it.
    pub over: Over,
    /// What the messages do.
    pub work: Work,
    /// Bytes of a message.
    pub size: u64,
    /// The receivers spin.
    pub spin: bool,
}

/// What carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// TCP without Nagle's algorithm.
    Tcp,
    Udp,
}

/// What messages do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// There and back, one after the other.
    RoundTrips,
    /// There and back, so many a second.
    AtRate(f64),
    /// One way.
    Stream,
}

/// Ports that nobody uses: of the server, and of the data connection where a tool wants to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports(pub [u16; 2]);

/// What is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commands {
    /// The far end.
    pub server: Vec<String>,
    /// The near end, which prints.
    pub client: Vec<String>,
    /// The server is ready when it has the first port of these: TCP, else UDP.
    pub listens: Over,
}

/// What a tool printed, times in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Printed {
    /// Its times are half a round trip.
    pub half: bool,
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Payload bits a second.
    pub bits: Option<f64>,
}

/// The address of both ends.
pub(crate) const HOST: &str = "127.0.0.1";

pub fn tool(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

impl Exchange {
    /// What a case does; `None`: something that no tool does.
    pub fn of(case: &Case, workload: &Workload) -> Option<Self> {
        let over = match &*case.path.transport {
            "tcp" => Over::Tcp,
            "udp" => Over::Udp,
            _ => return None,
        };
        let spin = match &*case.path.wait {
            "block" => false,
            "spin" => true,
            _ => return None,
        };
        let work = match (workload.is_echoed(), case.load) {
            (true, Load::Closed) if case.inflight == 1 => Work::RoundTrips,
            (true, Load::Open { rate, .. }) => Work::AtRate(rate.value()),
            (false, Load::Closed) if workload.in_rounds => Work::Stream,
            _ => return None,
        };
        let plain = case.path.method == "send" && case.path.setting.is_none() && case.path.program.is_none();
        let one = case.connections == 1 && case.threads == 1 && case.pieces.count == 1;
        let alone = case.role == CaseRole::Measured && case.phase == 0 && case.service_time.is_none();
        let same = case.reply == case.size || work == Work::Stream;
        (plain && one && alone && same).then_some(Self { over, work, size: case.size, spin })
    }

    /// The cases of a plan that tools can do, with what they do there; each kind of exchange once.
    pub fn all_of(plan: &Plan) -> Vec<(u32, Self)> {
        let mut found: Vec<(u32, Self)> = Vec::new();
        // A service time of the plan is that of each case.
        let cases = plan.cases.iter().filter(|_| plan.service_time.is_none() && !plan.reverse);
        for (id, exchange) in cases.filter_map(|case| Some((case.id, Self::of(case, plan.workload)?))) {
            if found.len() < MOST_CASES && found.iter().all(|(_, other)| *other != exchange) {
                found.push((id, exchange));
            }
        }
        found
    }

    /// `tcp` or `udp`, as most tools name it.
    pub(crate) fn protocol(&self) -> &'static str {
        match self.over {
            Over::Tcp => "tcp",
            Over::Udp => "udp",
        }
    }
}

impl Tool {
    /// Whether it does this work at all.
    pub fn does(&self, exchange: &Exchange) -> bool {
        (self.commands)(exchange, &Ports([1, 2]), SECONDS).is_some()
    }
}

impl Printed {
    /// A time of it as a round trip, ns.
    pub fn round_trip(&self, time: Option<f64>) -> Option<f64> {
        time.map(|ns| if self.half { 2.0 * ns } else { ns })
    }
}

/// The words of a command line.
pub(crate) fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(Into::into).collect()
}

/// Time that the tools of a plan take, ns: those of `wanted` that do its work and are there.
pub fn planned_ns(plan: &Plan, wanted: &[&Tool], there: impl Fn(&str) -> bool) -> u64 {
    let work = Exchange::all_of(plan);
    let does = |tool: &Tool, exchange| {
        (tool.commands)(exchange, &Ports([1, 2]), SECONDS).is_some_and(|run| there(&run.client[0]))
    };
    let once = work.iter().map(|(_, exchange)| wanted.iter().filter(|tool| does(tool, exchange)).count() as u64);
    once.sum::<u64>() * u64::from(TURNS) * TAKES_NS
}

#[cfg(test)]
mod tests {
    use msgpath_core::PathName;
    use msgpath_core::plan::OPEN_INFLIGHT;
    use msgpath_core::schedule::{Arrivals, Rate};
    use msgpath_core::units::Pieces;
    use proptest::prelude::*;

    use super::*;

    pub(super) const ECHO: Exchange = Exchange { over: Over::Tcp, work: Work::RoundTrips, size: 64, spin: false };

    fn case(path: [&str; 3]) -> Case {
        Case::new(PathName::new(path[0], path[1], path[2]), Pieces::whole(64))
    }

    #[test]
    fn a_case_that_others_can_do_is_told_from_one_that_they_cannot() {
        let of = |case: &Case| Exchange::of(case, Workload::ECHO);
        assert_eq!(of(&case(["tcp", "send", "block"])), Some(ECHO));
        assert_eq!(of(&case(["udp", "send", "spin"])), Some(Exchange { over: Over::Udp, spin: true, ..ECHO }));
        for path in [["unix", "send", "block"], ["tcp", "writev", "block"], ["tcp", "send", "epoll"]] {
            assert_eq!(of(&case(path)), None, "{path:?}");
        }
        let plain = case(["tcp", "send", "block"]);
        let load = Load::Open { rate: Rate::per_second(1e4).unwrap(), arrivals: Arrivals::Poisson };
        let open = Case { load, inflight: OPEN_INFLIGHT, ..plain.clone() };
        assert_eq!(of(&open).unwrap().work, Work::AtRate(1e4));
        assert_eq!(Exchange::of(&plain, Workload::STREAM).unwrap().work, Work::Stream);
        let others = [
            Case { inflight: 2, ..plain.clone() },
            Case { reply: 1, ..plain.clone() },
            Case { connections: 2, ..plain.clone() },
            Case { role: CaseRole::Control, ..plain.clone() },
            Case { path: plain.path.clone().to(Some("mine".into())), ..plain.clone() },
        ];
        assert!(others.iter().all(|case| of(case).is_none()));
        let mut plan = Plan::new(Workload::ECHO, vec![plain.clone(), Case { id: 1, ..plain.clone() }, open]);
        assert_eq!(Exchange::all_of(&plan).len(), 2, "the same exchange once");
        let all: Vec<&Tool> = TOOLS.iter().collect();
        assert_eq!(planned_ns(&plan, &all, |_| false), 0);
        let (one, none) = (planned_ns(&plan, &[tool("qperf").unwrap()], |_| true), u64::from(TURNS) * TAKES_NS);
        assert_eq!(one, none, "qperf does round trips and has no rate");
        plan.reverse = true;
        assert!(Exchange::all_of(&plan).is_empty());
    }

    #[test]
    fn every_tool_is_told_its_ports_the_loopback_address_and_the_size() {
        let mut seen = vec![0; TOOLS.len()];
        for over in [Over::Tcp, Over::Udp] {
            for work in [Work::RoundTrips, Work::AtRate(1e4), Work::Stream] {
                for spin in [false, true] {
                    let exchange = Exchange { over, work, size: 6400, spin };
                    for (at, tool) in TOOLS.iter().enumerate() {
                        let Some(commands) = (tool.commands)(&exchange, &Ports([12_345, 12_346]), SECONDS) else {
                            continue;
                        };
                        seen[at] += 1;
                        let (server, client) = (commands.server.join(" "), commands.client.join(" "));
                        assert!(server.contains("12345") && client.contains("12345"), "{server} {client}");
                        assert!(client.contains(HOST) && client.contains("6400"), "{client}");
                        assert!(!(tool.means)(&exchange).is_empty());
                        assert!(!spin || tool.name == "sockperf", "{} does not spin", tool.name);
                    }
                }
            }
        }
        assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
        let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
        assert!(names.iter().all(|name| tool(name).is_some_and(|tool| tool.name == *name)) && tool("ping").is_none());
    }

    proptest! {
        #[test]
        fn no_output_makes_a_parser_panic_or_a_number_that_is_none(text in "\\PC*", at in 0..TOOLS.len(), work in 0..3) {
            let work = [Work::RoundTrips, Work::AtRate(1e4), Work::Stream][work as usize];
            let exchange = Exchange { work, ..ECHO };
            if let Ok(printed) = (TOOLS[at].read)(&exchange, &text) {
                let numbers = [printed.mean, printed.p50, printed.p99, printed.bits];
                prop_assert!(numbers.iter().flatten().all(|one| one.is_finite() && *one > 0.0));
                prop_assert!(numbers.iter().any(Option::is_some));
            }
        }
    }
}
