//! One thread and its connections: waits until the kernel reports something, gives each connection its turn, and looks
//! a few times a second who has been waiting for too long.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use msgpath_sys::clock;
use msgpath_sys::duplex::stamp_received;
use msgpath_sys::ready::{Event, Events, ReadySet, Waker};

use super::connection::{Connection, Desk, End, Patience, Turn};
use super::fault::{Fault, Journal};
use super::log::{Log, LogFile};
use super::seat::Seat;
use super::service::Service;

/// Token of the waker; connections have smaller ones.
const WAKER: u64 = u64::MAX;
/// Between two looks at who is overdue.
const SWEEP: Duration = Duration::from_millis(250);
/// How long replies may take to go when the server stops.
const LAST_REPLIES: Duration = Duration::from_millis(250);

/// What all threads share.
pub struct Shared {
    /// The methods and what they keep.
    pub service: Service,
    /// What went wrong.
    pub journal: Journal,
    /// The lab's log.
    pub log: Option<LogFile>,
    /// How long to wait for a peer.
    pub patience: Patience,
    /// Whether the kernel's receive stamps are read.
    pub stamped: bool,
    /// Calls that were answered by threads that have ended.
    pub calls: AtomicU64,
    /// Everybody is to end.
    pub over: AtomicBool,
    /// A client asked for it.
    pub quit: AtomicBool,
}

/// A connection on its way to a thread.
pub struct Accepted {
    pub stream: TcpStream,
    /// The other end.
    pub peer: SocketAddr,
    /// There are too many: its first call is answered TooBusy.
    pub turned_away: bool,
    pub seat: Arc<Seat>,
}

/// How a thread is reached.
pub struct Post {
    set: ReadySet,
    waker: Waker,
    inbox: Mutex<Vec<Accepted>>,
    /// Connections that are to end, for others.
    outbox: Mutex<Vec<Arc<Seat>>>,
    /// Connections that it has, or is about to have.
    pub held: AtomicUsize,
}

impl Post {
    /// For a thread that is not there yet.
    ///
    /// # Errors
    /// No descriptor left.
    pub fn new() -> std::io::Result<Self> {
        let (set, waker) = (ReadySet::new()?, Waker::new()?);
        waker.watch(&set, WAKER)?;
        Ok(Self { set, waker, inbox: Mutex::default(), outbox: Mutex::default(), held: AtomicUsize::new(0) })
    }

    /// Hands a connection over.
    pub fn hand(&self, accepted: Accepted) {
        self.held.fetch_add(1, Ordering::Relaxed);
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).push(accepted);
        self.waker.ring();
    }

    /// Ends a connection to make room.
    pub fn end(&self, seat: Arc<Seat>) {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner).push(seat);
        self.waker.ring();
    }

    /// Makes the thread look around.
    pub fn ring(&self) {
        self.waker.ring();
    }
}

struct Slot {
    connection: Option<Box<Connection>>,
    /// How many connections have been here: what the kernel still says of one that is gone concerns nobody.
    generation: u32,
    /// It is in the list of those that have more to do.
    queued: bool,
}

struct Worker<'a> {
    shared: &'a Shared,
    post: &'a Post,
    desk: Desk<'a>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    again: Vec<u64>,
}

/// The thread's life: until [`Shared::over`].
pub fn work(shared: &Shared, post: &Post) {
    let log = shared.log.as_ref().map(Log::new);
    let desk = Desk::new(&shared.service, &shared.journal, log, shared.stamped);
    let mut worker = Worker { shared, post, desk, slots: Vec::new(), free: Vec::new(), again: Vec::new() };
    worker.run();
    shared.calls.fetch_add(worker.desk.calls, Ordering::Relaxed);
    let open: Vec<usize> = (0..worker.slots.len()).filter(|at| worker.slots[*at].connection.is_some()).collect();
    open.into_iter().for_each(|at| worker.close(at, &End(None)));
}

/// Why a connection ends whose place another one gets.
fn others_came() -> (Fault, String) {
    (Fault::Idle, "closed: it asked nothing, and others came".into())
}

impl Worker<'_> {
    fn run(&mut self) {
        let mut events = Events::new(256);
        let sweep = SWEEP.as_nanos() as u64;
        let mut next_sweep = clock::now() + sweep;
        let mut stops_at = None;
        let mut again = Vec::new();
        loop {
            let timeout = match (self.again.is_empty(), stops_at, self.slots.len() > self.free.len()) {
                (false, ..) => 0,
                (true, Some(_), _) => 20,
                (true, None, true) => SWEEP.as_millis() as i32,
                (true, None, false) => -1, // nobody is here: only the waker can bring anything
            };
            if self.post.set.wait(&mut events, timeout).is_err() {
                std::thread::sleep(Duration::from_millis(10)); // cannot happen; if it does, it must not spin
            }
            let now = clock::now();
            std::mem::swap(&mut again, &mut self.again);
            for token in again.drain(..) {
                self.attend(token, None, now, clock::now());
            }
            let mut rung = false;
            let mut at_once = Some(now); // the first is looked at right now, the others when it is their turn
            for event in events.iter() {
                if event.token == WAKER {
                    rung = true;
                } else {
                    let turn_ns = at_once.take().unwrap_or_else(clock::now);
                    self.attend(event.token, Some(event), now, turn_ns);
                }
            }
            if rung {
                self.post.waker.quiet();
                self.make_room();
                self.take_accepted();
            }
            if self.desk.quit {
                self.shared.quit.store(true, Ordering::Relaxed);
            }
            if now >= next_sweep {
                next_sweep = now + sweep;
                self.sweep(now);
            }
            if self.shared.over.load(Ordering::Relaxed) {
                // What has arrived by now was answered above; replies in progress get a moment to leave.
                let until = *stops_at.get_or_insert(now + LAST_REPLIES.as_nanos() as u64);
                let owing = self.slots.iter().flat_map(|slot| &slot.connection).any(|connection| connection.owes());
                if !owing && self.again.is_empty() || now >= until {
                    return;
                }
            }
        }
    }

    /// Ends those whose places others get.
    fn make_room(&mut self) {
        let ended = std::mem::take(&mut *self.post.outbox.lock().unwrap_or_else(PoisonError::into_inner));
        for seat in ended {
            let token = seat.token.load(Ordering::Relaxed);
            let at = (token & 0xffff_ffff) as usize;
            // It may have ended by itself, and its slot be another's; or it was not taken yet, and ends when it is.
            if self.slots.get(at).is_some_and(|slot| u64::from(slot.generation) == token >> 32) {
                self.close(at, &End(Some(others_came())));
            }
        }
    }

    fn take_accepted(&mut self) {
        let accepted = std::mem::take(&mut *self.post.inbox.lock().unwrap_or_else(PoisonError::into_inner));
        for accepted in accepted {
            let peer = accepted.peer;
            let at = self.free.pop().unwrap_or_else(|| {
                self.slots.push(Slot { connection: None, generation: 0, queued: false });
                self.slots.len() - 1
            });
            let token = u64::from(self.slots[at].generation) << 32 | at as u64;
            accepted.seat.token.store(token, Ordering::Relaxed);
            let seat = Arc::clone(&accepted.seat);
            let connection = Connection::new(accepted, clock::now());
            if self.shared.stamped {
                // Where the kernel refuses, calls are told that the wait is not known.
                let _ = stamp_received(connection.stream().as_fd());
            }
            let watched = self.post.set.add(connection.stream().as_fd(), token);
            self.slots[at].connection = Some(Box::new(connection));
            self.desk.journal.connection(peer, &"connected");
            if let Err(error) = watched {
                self.close(at, &End(Some((Fault::NoDescriptor, format!("closed: cannot be watched ({error})")))));
            }
            if seat.is_ended() {
                self.close(at, &End(Some(others_came())));
            }
        }
    }

    /// Gives one connection its turn. `ready_ns`: when the kernel reported the event.
    fn attend(&mut self, token: u64, event: Option<Event>, ready_ns: u64, now_ns: u64) {
        let at = (token & 0xffff_ffff) as usize;
        let Some(slot) = self.slots.get_mut(at).filter(|slot| u64::from(slot.generation) == token >> 32) else {
            return;
        };
        let Some(connection) = &mut slot.connection else { return };
        match event {
            Some(event) => connection.note(event, ready_ns),
            None => slot.queued = false,
        }
        match connection.turn(&mut self.desk, now_ns) {
            Ok(Turn::Again) if !slot.queued => {
                slot.queued = true;
                self.again.push(token);
            }
            Ok(_) => {}
            Err(end) => self.close(at, &end),
        }
    }

    fn sweep(&mut self, now: u64) {
        for at in 0..self.slots.len() {
            let late = self.slots[at].connection.as_ref().and_then(|c| c.overdue(self.shared.patience, now));
            if let Some(end) = late {
                self.close(at, &end);
            }
        }
        if let Some(log) = &mut self.desk.log {
            log.flush();
        }
    }

    fn close(&mut self, at: usize, end: &End) {
        let slot = &mut self.slots[at];
        let Some(connection) = slot.connection.take() else { return };
        slot.generation = slot.generation.wrapping_add(1) & 0x7fff_ffff; // never the waker's token
        slot.queued = false;
        let peer = connection.peer();
        drop(connection); // closed before anybody is told that there is room
        self.free.push(at);
        self.post.held.fetch_sub(1, Ordering::Relaxed);
        match &end.0 {
            Some((fault, what)) => self.shared.journal.fault(*fault, peer, what),
            None => self.shared.journal.connection(peer, &"gone"),
        }
        if let Some(log) = self.desk.log.as_mut().filter(|_| self.slots.len() == self.free.len()) {
            log.flush(); // the last one is gone: nothing wakes this thread for a while
        }
    }
}
