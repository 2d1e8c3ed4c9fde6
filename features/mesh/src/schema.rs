//! A mesh: many hosts, all pairs that were asked for, and what is recorded of each. The schema of `mesh.json` and
//! `pairs.mpl`.

use std::collections::BTreeSet;

use msgpath_core::calm::{TICK_NS, steal_of};
use msgpath_core::gate::Gate;
use msgpath_core::histogram::SparseHistogram;
use msgpath_core::launch::{BadLaunch, Launch};
use msgpath_core::plan::Plan;
use msgpath_core::problem::{Problem, Unavailable};
use msgpath_core::resume::Resumption;
use msgpath_core::schema::{EndRound, Environment, FAR, KernelCounts, NEAR, QUOTA};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hosts_file::{HostSpec, Limit, MAX_CPUS};

/// The version of the record of a mesh.
pub const MESH_SCHEMA: &str = "msgpath/mesh/1";
/// The most pairs of a mesh.
pub const MAX_PAIRS: usize = 1 << 20;
/// The most rounds of all cases of one pair: each has a column of its own in the record.
pub const MAX_ROUNDS_OF_A_PAIR: u64 = 200;
/// A sample has at least so many partners a host: with three, one host in nine is called slow that is not.
pub const LEAST_PARTNERS: u32 = 4;
/// So many partners find a host that is 1.3 times slower.
pub const PARTNERS: u32 = 24;

/// What `mesh.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeshHeader {
    /// [`MESH_SCHEMA`].
    pub schema: String,
    /// Name of the run.
    pub name: String,
    /// UTC, RFC 3339.
    pub started: String,
    /// The command line.
    pub command: Vec<String>,
    /// Version of msgpath.
    pub version: String,
    /// The cases and rounds of one pair, and the seed.
    pub plan: Plan,
    /// How agents are started on the hosts; the host of it is empty.
    pub launch: Launch,
    /// Where they are.
    pub hosts: Vec<MeshHost>,
    /// Who is measured with whom, and when.
    pub order: MeshOrder,
    /// Pairs that are asked for.
    #[serde(default)]
    pub planned: u64,
    /// What the result is held to: what must not be so.
    #[serde(default)]
    pub sla: Vec<Gate>,
    /// When it went on after it had been cut short.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<Resumption>,
}

impl MeshHeader {
    /// Whether the parts fit together.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<(), String> {
        let names: BTreeSet<&str> = self.hosts.iter().map(|host| host.spec.name.as_str()).collect();
        if names.len() != self.hosts.len() || self.hosts.len() > crate::hosts::MAX_HOSTS {
            return Err("hosts twice, or too many of them".into());
        }
        self.plan.validate().map_err(|problem| problem.what)?;
        let options = &self.plan.options;
        // They would be started on every host.
        if !self.plan.programs.is_empty() || options.launch.is_some() || options.between.is_some() || self.plan.simulate
        {
            return Err("a mesh measures between agents of msgpath, and its plan has others".into());
        }
        for host in &self.hosts {
            self.launch_on(host).map_err(|error| error.to_string())?;
            if host.spec.cpus.iter().any(|cpu| *cpu >= MAX_CPUS) {
                return Err(format!("{} has no such CPUs", host.spec.name));
            }
        }
        if self.plan.cases.iter().enumerate().any(|(at, case)| case.id as usize != at) {
            return Err("a case whose id is not its position".into());
        }
        if self.plan.cases.len() as u64 * u64::from(self.plan.rounds) > MAX_ROUNDS_OF_A_PAIR {
            return Err(format!("more than {MAX_ROUNDS_OF_A_PAIR} rounds of one pair"));
        }
        let hosts = self.hosts.len() as u32;
        let known = |(near, far): &(u32, u32)| near != far && *near < hosts && *far < hosts;
        match &self.order.pairs {
            Pairs::Listed { pairs } if !pairs.iter().all(known) => Err("a pair of a host that is not there".into()),
            _ => Ok(()),
        }
    }

    /// What starts the agent on a host; where agents come by themselves it starts nothing.
    ///
    /// # Errors
    /// It, or the host, is none that can be typed.
    pub fn launch_on(&self, host: &MeshHost) -> Result<Launch, BadLaunch> {
        let launch = self.launch.on(&host.spec.name)?;
        let launch = Launch { address: host.spec.address.or(launch.address), ..launch };
        match launch.is_none() {
            true => Ok(launch),
            false => launch.check().map(|()| launch),
        }
    }

    /// The name of a host; empty where there is none.
    pub fn host(&self, at: u32) -> &str {
        self.hosts.get(at as usize).map_or("", |host| &host.spec.name)
    }
}

/// A host of a mesh, as it was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeshHost {
    /// What was typed.
    #[serde(flatten)]
    pub spec: HostSpec,
    /// The machine; `None`: its agent never answered.
    #[serde(default)]
    pub environment: Option<Environment>,
}

/// Which pairs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pairs {
    /// Each with each.
    All,
    /// Each with so many others, at random.
    Sample {
        /// How many.
        partners: u32,
    },
    /// Within a rack each with each; between racks the first with the first, the second with the second.
    Racks,
    /// These, each the near and the far end: by position.
    Listed {
        /// The pairs.
        pairs: Vec<(u32, u32)>,
    },
}

/// Which of the two is near.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Directions {
    /// One of them: each host in half of its pairs.
    #[default]
    One,
    /// First one, then, in another step, the other.
    Both,
}

/// Who is measured with whom, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeshOrder {
    /// Which pairs.
    pub pairs: Pairs,
    /// Which of the two is near.
    #[serde(default)]
    pub directions: Directions,
    /// Pairs at a time; `None`: as many as fit, and on a machine of several hosts as many as its CPUs bear.
    #[serde(default)]
    pub parallel: Option<u32>,
    /// What hosts share.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// How often a pair is measured again that is slower than its hosts explain.
    pub retests: u32,
    /// Share of the pairs that are measured again alone, millionths.
    #[serde(default)]
    pub alone_ppm: u32,
}

/// Why a pair was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PairPurpose {
    /// It was asked for.
    #[default]
    Mesh,
    /// It was slower than its hosts explain.
    Retest,
    /// Nothing else was measured meanwhile.
    Alone,
}

/// Which measurement of which pair, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Slot {
    /// Position of the near host among the hosts, from 0.
    pub near: u32,
    /// Position of the far host among the hosts, from 0.
    pub far: u32,
    /// Why it was measured.
    #[serde(default)]
    pub purpose: PairPurpose,
    /// Number of this measurement among those for the same purpose, from 0.
    #[serde(default)]
    pub time: u32,
    /// Step in which it was measured: pairs of one step were measured together.
    #[serde(default)]
    pub step: u32,
}

impl Slot {
    /// What is measured once, whatever happens.
    pub fn key(&self) -> (u32, u32, PairPurpose, u32) {
        (self.near, self.far, self.purpose, self.time)
    }

    /// Which end of it a host is; `None`: neither.
    pub(crate) fn end_of(&self, host: u32) -> Option<usize> {
        [(self.near, NEAR), (self.far, FAR)].into_iter().find(|(own, _)| *own == host).map(|(_, end)| end)
    }
}

/// What was measured of a pair: a block of `pairs.mpl`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairRecord {
    /// Which.
    #[serde(flatten)]
    pub slot: Slot,
    /// When it began, ns since the mesh did.
    pub start_ns: u64,
    /// Failed tries before.
    #[serde(default)]
    pub tries: u32,
    /// What was measured.
    pub cases: Vec<PairCase>,
}

/// One case of a pair.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairCase {
    /// The case.
    pub case: u32,
    /// Its rounds; none: it could not be measured.
    pub rounds: Vec<PairRound>,
    /// Why it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<Unavailable>,
}

/// One round of a pair.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairRound {
    /// Messages that the near end sent.
    pub sent: u64,
    /// Replies that came.
    pub received: u64,
    /// Messages that were given up.
    pub lost: u64,
    /// How long it took, ns.
    pub elapsed_ns: u64,
    /// What each end waited for its CPU; empty in a record of before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<EndWait>,
    /// Round trips. A column of its own in the record.
    #[serde(skip)]
    pub latency: SparseHistogram,
}

/// How long the thread of one end waited for a CPU while the messages of a round were measured, and what kept it from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndWait {
    /// Time runnable and not running, ns; `None`: the kernel does not say.
    #[serde(default)]
    pub wait_ns: Option<u64>,
    /// Context switches.
    pub switches: u64,
    /// Those of them that took the CPU away.
    pub preempted: u64,
    /// Time that the hypervisor took of its CPU, ns.
    pub stolen_ns: u64,
    /// Time for which the CPU quota of its control group stopped it, ns.
    pub throttled_ns: u64,
}

impl EndWait {
    /// What an end reports of a round whose messages took `elapsed_ns`: what was counted for longer is scaled down.
    /// `pinned`: the CPUs of its thread; none: any of so many.
    pub fn of(end: &EndRound, elapsed_ns: u64, pinned: &[u32], cpus: usize) -> Self {
        let KernelCounts(kernel) = &end.kernel;
        let grew = |name: &str| kernel.get(name).copied().unwrap_or(0);
        // Each end has one thread.
        let (ticks, of) = match pinned.first() {
            None => (grew("stat.steal"), cpus),
            Some(cpu) => (grew(&steal_of(*cpu)), 1),
        };
        let report = &end.report;
        let watched = end.watched_ns.unwrap_or(elapsed_ns).max(elapsed_ns).max(1);
        let scaled = |ns: u64| (u128::from(ns) * u128::from(elapsed_ns) / u128::from(watched)) as u64;
        Self {
            wait_ns: end.waiting_share().map(|share| (share * elapsed_ns as f64) as u64),
            switches: report.voluntary_switches.saturating_add(report.involuntary_switches),
            preempted: report.involuntary_switches,
            stolen_ns: scaled(ticks.saturating_mul(TICK_NS) / of.max(1) as u64),
            throttled_ns: scaled(grew(QUOTA[1]).saturating_mul(1_000)),
        }
    }
}

/// A try that brought nothing: a block of `pairs.mpl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailedPair {
    /// Which.
    #[serde(flatten)]
    pub slot: Slot,
    /// The how many-th try, from 0.
    pub attempt: u32,
    /// When it began, ns since the mesh did.
    pub start_ns: u64,
    /// Nobody tries it again.
    pub last: bool,
    /// Why.
    pub problem: Problem,
}
