//! A mesh is carried out: agents are started, pairs measured step by step, and every one recorded when it ends.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use msgpath_core::plan::Extent;
use msgpath_core::resume::Resumption;
use msgpath_core::schema::{FAR, NEAR, RunEnd};
use msgpath_core::{Exit, Plan, Problem};
use msgpath_paths::registry::traits;
use msgpath_run::{Link, Pair};

use super::door::Door;
use super::fleet::Fleet;
use super::pair::{Cpus, interrupted, measure};
use super::schedule::{self, Resources, Sharing, slot};
use crate::record::{MeshCutShort, MeshWriter, PairBlock};
use crate::schema::{FailedPair, MeshHeader, PairPurpose, PairRecord, Slot};

/// A pair that failed is tried so often at most.
const TRIES: u32 = 3;
/// Between two looks at leases and at the user's wish to stop.
const LOOK: Duration = Duration::from_millis(200);
/// A pair is cut off after this factor of its planned time, and so much more.
const PATIENCE: f64 = 1.5;
const MORE_PATIENCE: Duration = Duration::from_secs(5);

/// Told of what happens, between the measurements.
pub trait MeshProgress {
    /// Agents are up: so many of so many.
    fn started(&mut self, _up: usize, _of: usize) {}
    /// A step begins: so many of those that are planned now, and how many pairs it has.
    fn step(&mut self, _step: u32, _of: u32, _pairs: usize) {}
    /// A pair ended.
    fn pair(&mut self, _header: &MeshHeader, _block: &PairBlock) {}
}

/// Asked when all pairs are measured: those that are to be measured again. It gets the folder of the mesh, which is whole.
pub type Suspects<'a> = &'a mut dyn FnMut(&Path) -> Vec<(u32, u32)>;

/// How long a pair is measured, as planned: rounds, pilots and what is said before and after them.
pub fn time_of_a_pair(plan: &Plan) -> Duration {
    const OVERHEAD: Duration = Duration::from_millis(300);
    let each = match plan.extent {
        Extent::Time(ns) => ns + plan.warmup_ns,
        Extent::Count(_) => plan.warmup_ns,
    };
    OVERHEAD + Duration::from_nanos(each) * plan.cases.len() as u32
}

/// Where the agents of a mesh are from.
#[derive(Clone)]
pub enum Agents {
    /// They are launched.
    Launched,
    /// They come by themselves.
    Come(Arc<Door>),
}

/// How a mesh ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Nothing is missing.
    pub complete: bool,
    /// The user stopped it.
    pub stopped: bool,
}

/// Carries out a new mesh and records it in `folder`.
///
/// # Errors
/// Fewer than two agents could be started, or the record could not be written.
pub fn execute(
    mut header: MeshHeader,
    folder: &Path,
    agents: Agents,
    progress: &mut dyn MeshProgress,
    suspects: Suspects<'_>,
    stop: &AtomicBool,
) -> Result<Outcome, Problem> {
    header.plan.declare(traits);
    let fleet = started(&header, agents, progress, stop)?;
    for (host, found) in header.hosts.iter_mut().zip(&fleet.hosts) {
        host.environment.clone_from(&found.environment);
    }
    header.planned = pairs(&header)?.len() as u64;
    let writer = MeshWriter::create(folder, &header)?;
    Mesh { header, fleet, writer, done: HashSet::new(), next_step: 0, begun: Instant::now(), before_ns: 0 }
        .carry_out(progress, suspects, stop)
}

/// Goes on with a mesh that was cut short: pairs that are recorded are not measured again.
///
/// # Errors
/// As [`execute`]; nothing on disk is changed before the agents are up.
pub fn resume(
    folder: &Path,
    agents: Agents,
    progress: &mut dyn MeshProgress,
    suspects: Suspects<'_>,
    stop: &AtomicBool,
) -> Result<(MeshHeader, Outcome), Problem> {
    let (mut done, mut next_step, mut before_ns) = (HashSet::new(), 0, 0);
    let cut = MeshCutShort::open(folder, |block| {
        next_step = next_step.max(block.slot().step + 1);
        if let PairBlock::Pair(pair) = &block {
            done.insert(pair.slot.key());
            before_ns = before_ns.max(pair.start_ns);
        }
    })?;
    let mut header = cut.mesh.header.clone();
    let fleet = started(&header, agents, progress, stop)?;
    let mut differs = Vec::new();
    for (host, found) in header.hosts.iter_mut().zip(&fleet.hosts) {
        let (before, now) = (&mut host.environment, &found.environment);
        if let (Some(before), Some(now)) = (&before, now) {
            for (what, before, now) in
                [("start", &before.boot_id, &now.boot_id), ("kernel", &before.kernel, &now.kernel)]
            {
                if before != now {
                    differs.push(format!("{} has another {what} than before", host.spec.name));
                }
            }
        }
        if now.is_some() {
            before.clone_from(now);
        }
    }
    header.resumed.push(Resumption {
        at: msgpath_record::utc::now(),
        rounds: done.len() as u64,
        start_ns: before_ns,
        ended: cut.mesh.end.as_ref().map(|end| end.status),
        differs,
    });
    let writer = cut.go_on(&header)?;
    let mesh = Mesh { header: header.clone(), fleet, writer, done, next_step, begun: Instant::now(), before_ns };
    Ok((header, mesh.carry_out(progress, suspects, stop)?))
}

/// All agents, started.
fn started(
    header: &MeshHeader,
    agents: Agents,
    progress: &mut dyn MeshProgress,
    stop: &AtomicBool,
) -> Result<Fleet, Problem> {
    let launches = header
        .hosts
        .iter()
        .map(|host| header.launch_on(host).map_err(|error| Problem::new("E11", Exit::Usage, error.to_string())));
    let door = match agents {
        Agents::Launched => None,
        Agents::Come(door) => Some(door),
    };
    let mut fleet = Fleet::new(launches.collect::<Result<_, Problem>>()?, door);
    fleet.start(&(0..header.hosts.len() as u32).collect::<Vec<_>>(), stop);
    if stop.load(Ordering::Relaxed) {
        return Err(interrupted());
    }
    let (up, of) = (fleet.up(), header.hosts.len());
    progress.started(up, of);
    if up < 2 {
        let first = fleet.hosts.iter().find_map(|host| host.why.clone());
        let problem = Problem::new("E80", Exit::CannotStart, format!("{up} of {of} hosts answered: a mesh needs two"));
        return Err(match first {
            Some(first) => problem.why(format!("the first that did not: {}", first.in_a_line())).hint(first.hint),
            None => problem,
        });
    }
    Ok(fleet)
}

struct Mesh {
    header: MeshHeader,
    fleet: Fleet,
    writer: MeshWriter,
    /// What is recorded.
    done: HashSet<(u32, u32, PairPurpose, u32)>,
    /// Number of the next step.
    next_step: u32,
    begun: Instant,
    /// Where the clock of the mesh stood when it was cut short, ns.
    before_ns: u64,
}

/// What comes back from a pair's thread.
struct Ended {
    slot: Slot,
    start_ns: u64,
    /// Agents that can go on; none where something failed.
    links: Option<[Link; 2]>,
    found: Result<PairRecord, Problem>,
}

impl Mesh {
    fn carry_out(
        mut self,
        progress: &mut dyn MeshProgress,
        suspects: Suspects<'_>,
        stop: &AtomicBool,
    ) -> Result<Outcome, Problem> {
        let result = self.all(progress, suspects, stop);
        let complete = result.as_ref().map(|outcome| outcome.complete);
        let end = RunEnd::of(complete, msgpath_record::utc::now());
        let Self { mut fleet, writer, .. } = self;
        let written = writer.finish(&end);
        fleet.end();
        let outcome = result?;
        written?;
        Ok(outcome)
    }

    /// All pairs, then some of them alone, then those that are slower than their hosts explain.
    fn all(
        &mut self,
        progress: &mut dyn MeshProgress,
        suspects: Suspects<'_>,
        stop: &AtomicBool,
    ) -> Result<Outcome, Problem> {
        let seed = self.header.plan.seed;
        let pairs = pairs(&self.header)?;
        let resources = self.resources(self.header.order.parallel);
        let mut complete =
            self.measured(pairs.iter().map(|pair| slot(*pair, PairPurpose::Mesh, 0)), &resources, progress, stop)?;
        let one = self.resources(Some(1));
        let alone = schedule::alone(&pairs, self.header.order.alone_ppm, seed);
        complete &= self.measured(alone, &one, progress, stop)?;
        if self.header.order.retests > 0 && !stop.load(Ordering::Relaxed) {
            let times = 0..self.header.order.retests;
            let again = suspects(self.writer.folder());
            let again = times.flat_map(|time| again.iter().map(move |pair| slot(*pair, PairPurpose::Retest, time)));
            complete &= self.measured(again.collect::<Vec<_>>(), &resources, progress, stop)?;
        }
        let stopped = stop.load(Ordering::Relaxed);
        Ok(Outcome { complete: complete && !stopped, stopped })
    }

    fn resources(&self, parallel: Option<u32>) -> Resources {
        resources(&self.header, parallel)
    }

    /// Measures these, those that fail again later, a few times. Whether all were.
    fn measured(
        &mut self,
        slots: impl IntoIterator<Item = Slot>,
        resources: &Resources,
        progress: &mut dyn MeshProgress,
        stop: &AtomicBool,
    ) -> Result<bool, Problem> {
        let mut left: Vec<Slot> = slots.into_iter().filter(|slot| !self.done.contains(&slot.key())).collect();
        for attempt in 0..TRIES {
            let steps = schedule::steps(&left, resources, self.header.plan.seed, self.next_step);
            let first = self.next_step;
            self.next_step += steps.len() as u32;
            let of = self.next_step;
            left.clear();
            for (number, step) in (first..).zip(steps) {
                if stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                progress.step(number, of, step.len());
                left.extend(self.step(&step, attempt, progress, stop)?);
            }
            if left.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// All pairs of a step at the same time; those that failed.
    fn step(
        &mut self,
        step: &[Slot],
        attempt: u32,
        progress: &mut dyn MeshProgress,
        stop: &AtomicBool,
    ) -> Result<Vec<Slot>, Problem> {
        let hosts: BTreeSet<u32> = step.iter().flat_map(|slot| [slot.near, slot.far]).collect();
        self.fleet.start(&hosts.into_iter().collect::<Vec<_>>(), stop);
        if stop.load(Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        let limit = time_of_a_pair(&self.header.plan).mul_f64(PATIENCE) + MORE_PATIENCE;
        let (begun, before_ns, plan) = (self.begun, self.before_ns, self.header.plan.clone());
        let (sender, ended) = channel::<Ended>();
        let mut failed = Vec::new();
        std::thread::scope(|scope| {
            let mut going = 0;
            for slot in step {
                let start_ns = before_ns + begun.elapsed().as_nanos() as u64;
                let links = self.fleet.take(slot.near, slot.far);
                let [near, far] = match links {
                    Ok(links) => links,
                    Err(problem) => {
                        let _ = sender.send(Ended { slot: *slot, start_ns, links: None, found: Err(problem) });
                        going += 1;
                        continue;
                    }
                };
                let work = Work {
                    slot: *slot,
                    start_ns,
                    tries: attempt,
                    plan: &plan,
                    cpus: cpus(&self.header, slot, step),
                    until: Instant::now() + limit,
                    stop,
                };
                let (failure, sender) = (sender.clone(), sender.clone());
                let thread = std::thread::Builder::new().name("pair".into());
                let spawned = thread.spawn_scoped(scope, move || work.carry_out(near, far, &sender));
                going += 1;
                if let Err(error) = spawned {
                    // Its agents are gone with what it was to do; they are started again.
                    let reason = msgpath_agent::team::no_thread(&error);
                    let problem = Problem::new("E56", Exit::CannotStart, reason.why).hint(reason.hint);
                    let _ = failure.send(Ended { slot: *slot, start_ns, links: None, found: Err(problem) });
                }
            }
            while going > 0 {
                match ended.recv_timeout(LOOK) {
                    Ok(one) => {
                        going -= 1;
                        self.ended(one, attempt, progress, &mut failed)?;
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                self.fleet.keep_alive();
            }
            Ok(failed)
        })
    }

    /// Records what came of a pair.
    fn ended(
        &mut self,
        ended: Ended,
        attempt: u32,
        progress: &mut dyn MeshProgress,
        failed: &mut Vec<Slot>,
    ) -> Result<(), Problem> {
        let Ended { slot, start_ns, links, found } = ended;
        if let Some([near, far]) = links {
            self.fleet.put(slot.near, near);
            self.fleet.put(slot.far, far);
        }
        let block = match found {
            Ok(record) => {
                self.done.insert(slot.key());
                PairBlock::Pair(Box::new(record))
            }
            // Nobody's fault, and nothing that a later look at the record should explain.
            Err(problem) if problem.exit == Exit::Interrupted => return Ok(()),
            Err(problem) => {
                failed.push(slot);
                let last = attempt + 1 == TRIES;
                PairBlock::Failed(Box::new(FailedPair { slot, attempt, start_ns, last, problem }))
            }
        };
        self.writer.append(&block)?;
        progress.pair(&self.header, &block);
        Ok(())
    }
}

/// The pairs of a mesh, near end first.
///
/// # Errors
/// E11: what is asked for does not fit the hosts.
pub fn pairs(header: &MeshHeader) -> Result<Vec<(u32, u32)>, Problem> {
    let racks: Vec<Option<&str>> = header.hosts.iter().map(|host| host.spec.rack.as_deref()).collect();
    schedule::pairs(&header.order, &racks, header.plan.seed).map_err(|what| Problem::new("E11", Exit::Usage, what))
}

/// What the pairs of a mesh share.
pub fn resources(header: &MeshHeader, parallel: Option<u32>) -> Resources {
    // Several agents on one machine share its CPUs: two for each pair, unless the user says how many pairs at a time.
    let mut of_machine: HashMap<&str, u32> = HashMap::new();
    for host in &header.hosts {
        if let Some(environment) = &host.environment {
            *of_machine.entry(&environment.boot_id).or_default() += 1;
        }
    }
    let sharing: Vec<Sharing<'_>> = header
        .hosts
        .iter()
        .map(|host| {
            let shared =
                host.environment.as_ref().filter(|found| of_machine.get(&*found.boot_id).is_some_and(|n| *n > 1));
            let machine = shared.map(|found| (&*found.boot_id, (found.cpus.len() as u32 / 2).max(1)));
            let (rack, nic) = (host.spec.rack.as_deref(), host.spec.nic.as_deref());
            Sharing { rack, nic, machine: machine.filter(|_| header.order.parallel.is_none()) }
        })
        .collect();
    Resources::new(&sharing, &header.order.limits, parallel)
}

/// CPUs of a pair. Where another pair of the step is on one of its machines, the kernel shares them.
fn cpus(header: &MeshHeader, slot: &Slot, step: &[Slot]) -> Cpus {
    let machine = |at: u32| header.hosts[at as usize].environment.as_ref().map(|found| found.boot_id.as_str());
    let own = [machine(slot.near), machine(slot.far)];
    let others = step.iter().filter(|other| other.key() != slot.key()).flat_map(|other| [other.near, other.far]);
    let crowded = others.map(machine).any(|other| other.is_some() && own.contains(&other));
    let mut typed = [Vec::new(), Vec::new()];
    typed[NEAR].clone_from(&header.hosts[slot.near as usize].spec.cpus);
    typed[FAR].clone_from(&header.hosts[slot.far as usize].spec.cpus);
    Cpus { typed, crowded }
}

/// What a pair's thread needs.
struct Work<'a> {
    slot: Slot,
    start_ns: u64,
    tries: u32,
    plan: &'a Plan,
    cpus: Cpus,
    until: Instant,
    stop: &'a AtomicBool,
}

impl Work<'_> {
    fn carry_out(self, mut near: Link, mut far: Link, sender: &Sender<Ended>) {
        let Self { slot, start_ns, tries, plan, cpus, until, stop } = self;
        (near.until, far.until) = (Some(until), Some(until));
        let mut pair = Pair::of(near, far);
        let found = measure(&mut pair, plan, &cpus, stop);
        let links = match &found {
            Ok(_) => {
                (pair.near.until, pair.far.until) = (None, None);
                let Pair { near, far, .. } = pair;
                Some([near, far])
            }
            // Where it stands is not known: both agents end, and others are started where they are needed.
            Err(_) => {
                drop(pair);
                None
            }
        };
        let found = found.map(|cases| PairRecord { slot, start_ns, tries, cases });
        let _ = sender.send(Ended { slot, start_ns, links, found });
    }
}
