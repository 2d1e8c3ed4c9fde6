//! What the name of a host means: all its addresses, in the order in which they are tried, and the one that answers.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use msgpath_core::plan::Family;
use msgpath_core::{Exit, Problem};
use msgpath_sys::{address, ports, socket};

/// What a name means here, each address once, in the order in which they are tried: the resolver's (RFC 6724), with the families in
/// turn (RFC 8305).
///
/// # Errors
/// E01: nothing, or nothing of this family.
pub fn addresses(host: &str, port: u16, family: Family) -> Result<Vec<SocketAddr>, Problem> {
    if let Some(device) = address::missing_device(host) {
        let what = format!("{host} names the network device {device}, which this machine does not have");
        return Err(
            Problem::new("E01", Exit::CannotStart, what).hint(format!("one of {}", address::devices().join(", ")))
        );
    }
    let resolved = (host, port).to_socket_addrs().map_err(|error| {
        Problem::new("E01", Exit::CannotStart, format!("{host:?} is not a host that this machine knows"))
            .why(error.to_string())
    })?;
    let found = in_turn(resolved.filter(|address| family.admits(address.ip())));
    if found.is_empty() {
        return Err(Problem::new("E01", Exit::CannotStart, format!("{host} has no address of the family asked for"))
            .hint("without -o ip, or an address instead of the name"));
    }
    Ok(found)
}

/// The addresses of `HOST:PORT` or `[HOST]:PORT`.
///
/// # Errors
/// E01: as [`addresses`]; no port.
pub fn addresses_of(place: &str, family: Family) -> Result<Vec<SocketAddr>, Problem> {
    let split = place.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let Some((host, port)) = split else {
        return Err(Problem::new("E01", Exit::CannotStart, format!("{place} is not HOST:PORT")));
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    addresses(host, port, family)
}

/// Each address once, the families in turn, that of the first one first.
fn in_turn(resolved: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let (mut first, mut other): (VecDeque<SocketAddr>, VecDeque<SocketAddr>) = Default::default();
    for address in resolved {
        let queue = match first.front() {
            Some(one) if one.is_ipv4() != address.is_ipv4() => &mut other,
            _ => &mut first,
        };
        if !queue.contains(&address) {
            queue.push_back(address);
        }
    }
    let mut out = Vec::new();
    while let Some(address) = first.pop_front().or_else(|| other.pop_front()) {
        out.push(address);
        std::mem::swap(&mut first, &mut other);
    }
    out
}

/// The first of these addresses at which something accepts connections of TCP. A single one is not tried: a program may take one
/// connection only.
///
/// # Errors
/// As [`socket::connect_any`].
pub fn answering(addresses: &[SocketAddr], timeout: Duration, stop: &AtomicBool) -> io::Result<SocketAddr> {
    if let [only] = addresses {
        return Ok(*only);
    }
    let answers = TcpStream::from(socket::connect_any(addresses, timeout, stop, |_| Ok(()))?).peer_addr()?;
    // The number of a device is not part of what the kernel says of a peer that is no address of a link.
    let same = |address: &&SocketAddr| (address.ip(), address.port()) == (answers.ip(), answers.port());
    Ok(addresses.iter().find(same).copied().unwrap_or(answers))
}

/// E01 where no connection can be made because this machine has no local port left; nothing of another error.
pub fn no_port(error: &io::Error) -> Option<Problem> {
    let what = ports::used_up(error)?;
    let problem = Problem::new("E01", Exit::CannotStart, what);
    Some(
        problem
            .why("this machine cannot make one more connection, whatever the server does")
            .hint("60 s later, or a larger net.ipv4.ip_local_port_range: ss -s counts, ss -tan state time-wait lists"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn families_take_turns_and_each_address_is_tried_once() {
        let all = ["[::1]:7", "[::2]:7", "[::1]:7", "10.0.0.1:7", "10.0.0.2:7"].map(|text| text.parse().unwrap());
        let found: Vec<String> = in_turn(all.into_iter()).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["[::1]:7", "10.0.0.1:7", "[::2]:7", "10.0.0.2:7"]);
    }

    #[test]
    fn an_address_is_of_the_family_that_was_asked_for() {
        let first = |place: &str, family| addresses_of(place, family).map(|found| found[0].to_string());
        assert_eq!(first("127.0.0.1:7", Family::Any).unwrap(), "127.0.0.1:7");
        assert_eq!(first("[::1]:7", Family::V6).unwrap(), "[::1]:7");
        assert_eq!(first("[fe80::1%lo]:7", Family::Any).unwrap(), "[fe80::1%1]:7");
        assert!(first("127.0.0.1:7", Family::V6).unwrap_err().what.contains("family"));
        assert!(first("no port", Family::Any).is_err() && first("[fe80::1%nodevice]:7", Family::Any).is_err());
    }

    #[test]
    fn the_address_that_answers_is_found_behind_one_that_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let answers = listener.local_addr().unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let find = |all: &[SocketAddr]| answering(all, Duration::from_secs(20), &AtomicBool::new(false));
        assert_eq!(find(&[closed, answers]).unwrap(), answers);
        assert_eq!(find(&[closed]).unwrap(), closed);
        assert_eq!(find(&[closed, closed]).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
