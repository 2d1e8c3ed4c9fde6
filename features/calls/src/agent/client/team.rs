//! The threads of a run. They keep their connections; the main thread orders rounds and watches.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use msgpath_core::Unavailable;
use msgpath_sys::clock;

use msgpath_agent::roles::Goes;
use msgpath_agent::team::thread_problem;
use msgpath_agent::thread::pin;
use msgpath_agent::wire::FromEnd;

use super::connection::Watch;
use super::loops::{self, Line, Shared};
use super::orders::CallsOrder;
use super::part::Part;

/// The main thread looks at the connections this often.
const LOOK: Duration = Duration::from_millis(50);
/// After an interruption a reply in progress is awaited so long, ns.
const GRACE_NS: u64 = 1_000_000_000;

/// The threads, waiting for orders. They end with it.
pub struct Team {
    shared: Arc<Shared>,
    orders: Vec<Sender<CallsOrder>>,
    parts: Receiver<Part>,
    watches: Vec<Arc<Watch>>,
    threads: Vec<JoinHandle<()>>,
}

impl Team {
    /// Starts them, pinned to the CPUs of the order in turn.
    ///
    /// # Errors
    /// What the end says to it: a thread could not be started, or may not run on its CPU.
    pub fn new(lines: Vec<Line>, shared: &Arc<Shared>) -> Result<Self, FromEnd> {
        let all = lines.iter().flat_map(|line| std::iter::once(&line.connection).chain(&line.others));
        let watches = all.map(|connection| Arc::clone(&connection.watch)).collect();
        let threads = shared.order.threads.max(1) as usize;
        let mut shares: Vec<Vec<Line>> = (0..threads).map(|_| Vec::new()).collect();
        for (at, line) in lines.into_iter().enumerate() {
            shares[at % threads].push(line);
        }
        let (results, parts) = channel();
        let (ready, pinned) = channel();
        let mut team = Self { shared: Arc::clone(shared), orders: Vec::new(), parts, watches, threads: Vec::new() };
        let cpus = &shared.order.cpus;
        for (at, mut lines) in shares.into_iter().enumerate() {
            let (order, ordered) = channel::<CallsOrder>();
            let (results, ready, shared) = (results.clone(), ready.clone(), Arc::clone(shared));
            let cpu = cpus.get(at % cpus.len().max(1)).copied();
            let work = move || {
                let result = pin(cpu);
                let stays = result.is_ok();
                let _ = ready.send(result);
                if !stays {
                    return;
                }
                for order in ordered {
                    let part = loops::round(&mut lines, &order, &shared);
                    if part.broken.is_some() {
                        shared.over.store(true, Ordering::Relaxed);
                    }
                    if results.send(part).is_err() {
                        break;
                    }
                }
            };
            team.orders.push(order);
            let started = Builder::new().spawn(work);
            team.threads.push(started.map_err(|error| FromEnd::Failed(thread_problem(&error).into()))?);
        }
        pinned.iter().take(threads).collect::<Result<(), Unavailable>>().map_err(FromEnd::Unavailable)?;
        Ok(team)
    }

    /// One round of all threads. `goes` is asked now and then how it goes on; no other round follows one that ends early.
    pub fn round(&self, order: &CallsOrder, mut goes: impl FnMut() -> Goes) -> Part {
        for thread in &self.orders {
            let _ = thread.send(order.clone());
        }
        let mut parts = Vec::with_capacity(self.orders.len());
        let mut over_since = None;
        while parts.len() < self.orders.len() {
            match self.parts.recv_timeout(LOOK) {
                Ok(part) => parts.push(part),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = clock::now();
            for watch in &self.watches {
                if watch.silent_since().is_some_and(|since| now.saturating_sub(since) > self.shared.order.timeout_ns) {
                    watch.cut(true);
                }
            }
            let next = goes();
            if next != Goes::On {
                self.shared.over.store(true, Ordering::Relaxed);
            }
            if self.shared.over.load(Ordering::Relaxed) {
                let since = *over_since.get_or_insert(now);
                if now - since > GRACE_NS || next == Goes::Nowhere {
                    self.watches.iter().for_each(|watch| watch.cut(false));
                }
            }
        }
        parts.into_iter().reduce(Part::with).unwrap_or_else(|| Part::new(0))
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.watches.iter().for_each(|watch| watch.cut(false));
        self.orders.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
