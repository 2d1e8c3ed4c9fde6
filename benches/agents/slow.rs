//! An agent that is slow to everyone: wherever it offers a place for data, or is told one, a relay stands before it. Its control
//! channel says the same as that of any other agent, but for these places.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread::{Builder, scope, sleep};
use std::time::Duration;

use msgpath_agent::seal::{Seal, Sealing, Seals};
use msgpath_agent::wire::{self, Frame, FromEnd, Incoming, ToEnd};
use msgpath_sys::poll::{Interest, poll};

use super::STACK;
use super::control::Control;

/// A relay to which nobody has come ends after this, ms.
const COMES_MS: i32 = 10_000;

/// Lets `session` have its control channel over a socket of its own: what comes and goes is passed on, with the places changed. It
/// is opened and sealed here, as this is the agent's side of it.
pub(super) fn behind_relays(
    (from, to): (Control, Control),
    seals: Option<Seals>,
    delay: Duration,
    session: impl FnOnce(&mut UnixStream, &mut UnixStream) -> io::Result<()>,
) -> io::Result<()> {
    let (mut own, other) = UnixStream::pair()?;
    let (mut says, hears, control) = (own.try_clone()?, other.try_clone()?, from.stream()?);
    let orders = |order: &mut ToEnd| {
        if let ToEnd::Dial(dial) = order {
            relayed(&mut dial.addresses, delay);
        }
    };
    let Seals { says: seal, hears: opens, mut veil } = seals.ok_or(io::ErrorKind::InvalidInput)?;
    let answers = move |answer: &mut FromEnd| {
        if let FromEnd::Offered { addresses, .. } = answer {
            relayed(addresses, delay);
            *addresses = veil.hide(addresses);
        }
    };
    scope(|scope| {
        let thread = || Builder::new().name("passes".into()).stack_size(STACK);
        let down = thread().spawn_scoped(scope, move || {
            let _ = pass::<ToEnd>(from, Some(opens), &hears, orders);
            let _ = hears.shutdown(Shutdown::Both);
        });
        let up =
            thread().spawn_scoped(scope, move || pass::<FromEnd>(&other, None, Sealing::new(to, Some(seal)), answers));
        let ended = match (down, up) {
            (Ok(_), Ok(_)) => session(&mut own, &mut says),
            (down, up) => Err(down.err().or(up.err()).unwrap_or_else(|| io::ErrorKind::Other.into())),
        };
        // Whoever still passes something on sees that it is over.
        let _ = own.shutdown(Shutdown::Both);
        let _ = control.shutdown(Shutdown::Both);
        ended
    })
}

/// Passes frames on until there are no more.
fn pass<T: Frame>(
    mut from: impl Read,
    opens: Option<Seal>,
    mut to: impl Write,
    mut change: impl FnMut(&mut T),
) -> io::Result<()> {
    let mut incoming = Incoming::new::<T>().sealed(opens);
    while let Some((mut frame, bytes)) = incoming.next::<T>(&mut from)? {
        change(&mut frame);
        wire::write(&mut to, &frame, &bytes)?;
    }
    Ok(())
}

/// Puts a relay before each of these: a place, and a key that a connection brings with it.
fn relayed(addresses: &mut [String], delay: Duration) {
    for address in addresses {
        let relayed = address.split_once(' ').and_then(|(place, key)| {
            let relay = relay(place.parse().ok()?, delay).ok()?;
            Some(format!("{relay} {key}"))
        });
        if let Some(relayed) = relayed {
            *address = relayed;
        }
    }
}

/// Where a connection is passed on to `to`, with everything so much later.
fn relay(to: SocketAddr, delay: Duration) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((to.ip(), 0))?;
    let address = listener.local_addr()?;
    let pass = move || -> io::Result<()> {
        if !poll(listener.as_fd(), Interest::Read, COMES_MS)? {
            return Ok(());
        }
        let (near, far) = (listener.accept()?.0, TcpStream::connect(to)?);
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        scope(|scope| {
            let back = || later(&far, &near, delay);
            let back = Builder::new().name("relay".into()).stack_size(STACK).spawn_scoped(scope, back);
            if back.is_ok() {
                later(&near, &far, delay);
            }
        });
        Ok(())
    };
    Builder::new().name("relay".into()).stack_size(STACK).spawn(pass)?;
    Ok(address)
}

/// One way of a relay, until its sender has ended.
fn later(mut from: &TcpStream, mut to: &TcpStream, delay: Duration) {
    let mut bytes = [0; 4096];
    while let Ok(got @ 1..) = from.read(&mut bytes) {
        sleep(delay);
        if to.write_all(&bytes[..got]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
