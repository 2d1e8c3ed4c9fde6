//! The threads of a run. They keep their connections; the main thread orders rounds and watches.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, Scope};
use std::time::Duration;

use msgpath_core::Problem;
use msgpath_sys::{affinity, clock};

use crate::team::thread_problem;

use super::connection::Watch;
use super::loops::{self, Line, Order, Shared};
use super::part::Part;

/// The main thread looks at the connections this often.
const LOOK: Duration = Duration::from_millis(50);
/// After an interruption a reply in progress is awaited so long, ns.
const GRACE_NS: u64 = 1_000_000_000;

/// The threads, waiting for orders.
pub struct Team {
    orders: Vec<Sender<Order>>,
    parts: Receiver<Part>,
    watches: Vec<Arc<Watch>>,
}

impl Team {
    /// Starts them in `scope`, pinned to `cpus` in turn; they end when the team is dropped.
    ///
    /// # Errors
    /// E00: one of them could not be started.
    pub fn new<'scope>(
        scope: &'scope Scope<'scope, '_>,
        lines: Vec<Line>,
        shared: &'scope Shared<'scope>,
        threads: u32,
        cpus: &[u32],
    ) -> Result<Self, Problem> {
        let watches = lines.iter().map(|line| Arc::clone(&line.connection.watch)).collect();
        let threads = threads.max(1) as usize;
        let mut shares: Vec<Vec<Line>> = (0..threads).map(|_| Vec::new()).collect();
        for (at, line) in lines.into_iter().enumerate() {
            shares[at % threads].push(line);
        }
        let (results, parts) = channel();
        let mut orders = Vec::new();
        for (at, mut lines) in shares.into_iter().enumerate() {
            let (order, ordered) = channel::<Order>();
            orders.push(order);
            let results = results.clone();
            let cpu = cpus.get(at % cpus.len().max(1)).copied();
            let work = move || {
                if let Some(cpu) = cpu {
                    let _ = affinity::pin(&[cpu]);
                }
                for order in ordered {
                    let part = loops::round(&mut lines, &order, shared);
                    if part.broken.is_some() {
                        shared.halt.store(true, Ordering::Relaxed);
                    }
                    if results.send(part).is_err() {
                        break;
                    }
                }
            };
            Builder::new().spawn_scoped(scope, work).map_err(|error| thread_problem(&error))?;
        }
        Ok(Self { orders, parts, watches })
    }

    /// One round of all threads.
    pub fn round(&self, order: &Order, shared: &Shared<'_>, timeout_ns: u64) -> Vec<Part> {
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
                if watch.silent_since().is_some_and(|since| now.saturating_sub(since) > timeout_ns) {
                    watch.cut(true);
                }
            }
            if shared.stop.load(Ordering::Relaxed) || shared.halt.load(Ordering::Relaxed) {
                let since = *over_since.get_or_insert(now);
                if now - since > GRACE_NS {
                    self.watches.iter().for_each(|watch| watch.cut(false));
                }
            }
        }
        parts
    }
}
