//! The relay itself: one thread, one wait for everything, no spinning.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use msgpath_sys::frames::{Port, wait};
use msgpath_sys::{child, clock, netns, pidfd, signal, timer};

use super::order::{Order, Orders};
use super::queue::Queue;
use super::{NAME, RelayedPackets};
use crate::lab::iproute::{Program, batch};
use crate::lab::{Shape, offloads};

/// A whole frame: the largest MTU, the Ethernet header, and two tags.
const LARGEST: usize = 65_535 + 14 + 8;
/// Frames that are read from one port before the others and the clock have their turn.
const BATCH: usize = 64;
/// MAC addresses that are remembered; then all are forgotten and learned again.
const ADDRESSES: usize = 4096;

/// Carries out orders of the standard input and passes frames on, until that input ends; see `Order::Stay`.
///
/// # Errors
/// What cannot be gone on with: every single frame may fail.
pub fn serve() -> io::Result<()> {
    let _ = fs::write("/proc/self/comm", NAME);
    // Frames are sent when they are due, not when the kernel would like to wake somebody.
    timer::set_timer_slack(1)?;
    let mut orders = Some(fs::File::from(io::stdin().as_fd().try_clone_to_owned()?));
    let mut text = Orders::default();
    let mut relay = Switch::default();
    let mut ready = Vec::new();
    let mut buffer = vec![0; LARGEST];
    loop {
        relay.send_due();
        let mut watched: Vec<BorrowedFd<'_>> = relay.ports.iter().map(AsFd::as_fd).collect();
        let ports = watched.len();
        watched.extend(relay.asked.as_ref().map(AsFd::as_fd));
        watched.extend(orders.as_ref().map(AsFd::as_fd));
        let until = relay.queue.next().map(|due| due.saturating_sub(clock::now()));
        wait(&watched, until, &mut ready)?;
        let (has_asked, has_orders) = (relay.asked.is_some(), orders.is_some());
        let now = clock::now();
        for at in (0..ports).filter(|at| ready[*at]) {
            relay.take(at, now, &mut buffer);
        }
        if has_asked && ready[ports] {
            relay.answer();
        }
        if has_orders
            && ready[ports + usize::from(has_asked)]
            && let Some(input) = &mut orders
        {
            let mut part = [0; 4096];
            let length = input.read(&mut part)?;
            if !text.push(&part[..length]) || length == 0 {
                if !relay.stays {
                    return Ok(());
                }
                orders = None;
            }
            while let Some(order) = text.next() {
                let answer = order.and_then(|order| relay.carry_out(order));
                let answer = answer.map_or_else(|why| format!("no {why}\n"), |done| format!("ok {done}\n"));
                let mut out = io::stdout().lock();
                out.write_all(answer.as_bytes())?;
                out.flush()?;
            }
        }
    }
}

/// Ports, what waits, and who is where.
struct Switch {
    ports: Vec<Port>,
    queue: Queue,
    addresses: HashMap<[u8; 6], usize>,
    /// Where people ask for the counts.
    asked: Option<UnixListener>,
    stays: bool,
    held: bool,
}

impl Default for Switch {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            queue: Queue::new(Shape::default(), 0, 0),
            addresses: HashMap::new(),
            asked: None,
            stays: false,
            held: false,
        }
    }
}

impl Switch {
    fn carry_out(&mut self, order: Order) -> Result<String, String> {
        let words = |error: io::Error| error.to_string();
        match order {
            Order::Enter { namespace, parent } => {
                match namespace {
                    Some(file) => netns::enter(&file).map_err(words)?,
                    None => netns::unshare().map_err(words)?,
                }
                match parent {
                    Some(parent) => {
                        signal::die_with_parent(parent as i32).map_err(words)?;
                        // Ctrl-C is for the run, which ends this when it is through.
                        signal::ignore_interrupt();
                        self.held = true;
                    }
                    None => pidfd::leave_terminal().map_err(words)?,
                }
                Ok(String::new())
            }
            Order::Ports { count, mtu } => self.open(count, mtu),
            Order::Shape { shape, seed } => {
                self.queue = Queue::new(shape, seed, self.ports.len());
                for port in &self.ports {
                    let _ = port.dropped(); // counted from now on
                }
                Ok(String::new())
            }
            Order::Count => Ok(self.counts()),
            Order::Stay { .. } if self.held => Err("it ends with the run".into()),
            Order::Stay { socket } => {
                self.asked = Some(listen(&socket).map_err(words)?);
                child::live_on().map_err(words)?;
                self.stays = true;
                Ok(String::new())
            }
        }
    }

    fn open(&mut self, count: u32, mtu: Option<u32>) -> Result<String, String> {
        let mut lines = vec!["link set dev lo up".to_owned()];
        for at in 0..count {
            // Nobody lives here: no addresses of its own, so no packets of its own.
            lines.push(format!("link set dev port{at} addrgenmode none arp off"));
            lines.extend(mtu.map(|mtu| format!("link set dev port{at} mtu {mtu}")));
            lines.push(format!("link set dev port{at} up"));
        }
        batch(Program::Ip, None, &lines).map_err(|problem| problem.what)?;
        for at in 0..count {
            offloads::switch(&format!("port{at}"), false);
        }
        let open = |at| Port::open(&format!("port{at}")).map_err(|error| format!("port{at}: {error}"));
        self.ports = (0..count).map(open).collect::<Result<_, _>>()?;
        self.queue = Queue::new(Shape::default(), 0, self.ports.len());
        Ok(String::new())
    }

    /// Reads what has arrived at a port.
    fn take(&mut self, at: usize, now: u64, buffer: &mut [u8]) {
        for _ in 0..BATCH {
            // No frame, or a device that went down: its link's other end was taken away.
            let Ok(length) = self.ports[at].receive(buffer) else { return };
            match buffer.get(..length) {
                Some(frame) if length >= 14 => self.queue.arrive(now, at, frame),
                _ => self.queue.counts.refused += 1,
            }
        }
    }

    /// Sends what is due.
    fn send_due(&mut self) {
        let now = clock::now();
        while let Some(frame) = self.queue.due(now) {
            let bytes = &frame.bytes;
            let address = |at: usize| <[u8; 6]>::try_from(&bytes[at..at + 6]).expect("six bytes");
            let (to, from) = (address(0), address(6));
            if self.addresses.len() >= ADDRESSES {
                self.addresses.clear();
            }
            self.addresses.insert(from, frame.from);
            // A group's frames go to all; so do those for an address that never sent.
            let known = (to[0] & 1 == 0).then(|| self.addresses.get(&to).copied()).flatten();
            for (at, port) in self.ports.iter().enumerate() {
                if at != frame.from && known.is_none_or(|known| known == at) && port.send(bytes).is_err() {
                    self.queue.counts.refused += 1;
                }
            }
            self.queue.recycle(frame.bytes);
        }
    }

    fn counts(&mut self) -> String {
        let unread: u64 = self.ports.iter().filter_map(|port| port.dropped().ok()).sum();
        self.queue.counts.no_room += unread;
        let counts: RelayedPackets = self.queue.counts;
        serde_json::to_string(&counts).expect("plain numbers")
    }

    /// Tells somebody the counts.
    fn answer(&mut self) {
        let text = self.counts();
        if let Some(Ok((mut stream, _))) = self.asked.as_ref().map(UnixListener::accept) {
            // It fits in the buffer of any socket; who asks and does not read gets nothing.
            let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(text.as_bytes()));
        }
    }
}

fn listen(socket: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(socket)?;
    listener.set_nonblocking(true)?;
    // Anybody may ask; nobody can tell it anything.
    fs::set_permissions(socket, fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}
