//! Which port a program gets, and when it listens: asked of the kernel, so that no connection is used up to find out.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use msgpath_core::Unavailable;
use msgpath_paths::meta::TransportMeta;
use msgpath_sys::listening::{Kind, Listening, Protocol, listening, listening_at_paths};
use msgpath_sys::{process, random};

/// Ports that are tried at random before one is taken.
const TRIES: usize = 100;
/// Below this they belong to known services, or to users of their own.
const LEAST: u16 = 10_000;
/// How long a connection may take where the kernel does not say who listens.
const CONNECT: Duration = Duration::from_millis(200);

/// What a program takes messages with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Over {
    /// Connections of TCP.
    Tcp,
    /// Datagrams of UDP.
    Udp,
    /// A Unix socket of this kind.
    Unix(Kind),
}

impl Over {
    pub(super) fn of(transport: &TransportMeta) -> Self {
        match (transport.inet, transport.connects, transport.framed) {
            (true, true, _) => Over::Tcp,
            (true, false, _) => Over::Udp,
            (false, true, false) => Over::Unix(Kind::Stream),
            (false, true, true) => Over::Unix(Kind::Packets),
            (false, false, _) => Over::Unix(Kind::Datagram),
        }
    }

    /// The other protocol that has ports, and what both are called with the path that measures it.
    pub(super) fn other(self) -> Option<(Self, &'static str, &'static str)> {
        match self {
            Over::Tcp => Some((Over::Udp, "UDP", "-x udp:send")),
            Over::Udp => Some((Over::Tcp, "TCP", "-x tcp:send")),
            Over::Unix(_) => None,
        }
    }
}

/// Where a program was told to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Nowhere: it chooses.
    Nothing,
    /// At this port.
    Port(u16),
    /// At this path.
    Path(String),
}

/// A port that nobody uses, with TCP or with UDP, outside the range from which the kernel takes local ports: a connection from there could take it
/// before the program does, or meet itself.
///
/// # Errors
/// There is none.
pub fn free_port(host: IpAddr) -> Result<u16, Unavailable> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = range.split_whitespace().filter_map(|end| end.parse::<u16>().ok());
    let local = ends.next().unwrap_or(32_768)..=ends.next().unwrap_or(60_999);
    let free = |port: &u16| TcpListener::bind((host, *port)).is_ok() && UdpSocket::bind((host, *port)).is_ok();
    let mut tried = (0..TRIES).filter_map(|_| {
        let [low, high, ..] = random::bytes::<2>().ok()?;
        let port = u16::from_le_bytes([low, high]);
        (port >= LEAST && !local.contains(&port)).then_some(port)
    });
    let outside = tried.find(free);
    // The range may be everything.
    let any = || Some(TcpListener::bind((host, 0)).ok()?.local_addr().ok()?.port());
    outside.or_else(any).ok_or_else(|| Unavailable::new(format!("there is no free port at {host}"), ""))
}

/// What is known of a program that may listen.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    /// This process of its listens here: an address, or a path.
    Listens(String, Option<u32>),
    NotYet,
    /// Another program listens at its port.
    Taken,
}

/// Whether one of these processes listens: where it was told to, else anywhere. `host` is the address of this end.
pub(super) fn state(own: &[u32], told: &Told, over: Over, host: IpAddr) -> Result<State, Unavailable> {
    let protocol = match over {
        Over::Tcp => Protocol::Tcp,
        Over::Udp => Protocol::Udp,
        Over::Unix(kind) => return Ok(at_path(own, told, kind)),
    };
    let port = if let Told::Port(port) = told { Some(*port) } else { None };
    let Ok(all) = listening(protocol) else { return by_connecting(port.filter(|_| over == Over::Tcp), host) };
    let mut at_port: Vec<Listening> =
        all.into_iter().filter(|one| port.is_none_or(|port| one.address.port() == port)).collect();
    if at_port.is_empty() {
        return Ok(State::NotYet);
    }
    at_port.sort_by_key(|one| (one.address.is_ipv6() == host.is_ipv4(), one.address.port()));
    let held = |one: &Listening| own.iter().find(|pid| process::hold(&[**pid], one.inode)).copied();
    match at_port.iter().find_map(|one| Some((one, held(one)?))) {
        Some((one, pid)) => reached(one, host).map(|address| State::Listens(address.to_string(), Some(pid))),
        None if port.is_some() => Ok(State::Taken),
        None => Ok(State::NotYet),
    }
}

/// The same of a Unix socket.
fn at_path(own: &[u32], told: &Told, kind: Kind) -> State {
    let all = listening_at_paths(kind).unwrap_or_default();
    let mut here = all.into_iter().filter(|(path, _)| !matches!(told, Told::Path(told) if told != path));
    let found = here.find_map(|(path, inode)| Some((path, own.iter().find(|pid| process::hold(&[**pid], inode))?)));
    found.map_or(State::NotYet, |(path, pid)| State::Listens(path, Some(*pid)))
}

/// Where a socket is reached from the near end.
fn reached(socket: &Listening, host: IpAddr) -> Result<SocketAddr, Unavailable> {
    let own = socket.address.ip().to_canonical();
    let ip = match own {
        IpAddr::V6(any) if any.is_unspecified() && socket.v6_only && host.is_ipv4() => Ipv6Addr::LOCALHOST.into(),
        any if any.is_unspecified() && any.is_ipv4() && host.is_ipv6() => Ipv4Addr::LOCALHOST.into(),
        any if any.is_unspecified() => host,
        one => one,
    };
    if ip.is_loopback() && !host.is_loopback() {
        return Err(Unavailable::new(
            format!("the program listens on {ip}, and the near end is in another namespace"),
            "let it listen on {host}: that is replaced by its address",
        ));
    }
    Ok(SocketAddr::new(ip, socket.address.port()))
}

/// Without sock_diag(7): a connection that is made and closed again.
fn by_connecting(port: Option<u16>, host: IpAddr) -> Result<State, Unavailable> {
    let Some(port) = port else {
        return Err(Unavailable::new(
            "the kernel does not say who listens (sock_diag), so the program must be told its port",
            "{port} in its command line",
        ));
    };
    let address = SocketAddr::new(host, port);
    let made = TcpStream::connect_timeout(&address, CONNECT);
    // A socket that met itself is nobody.
    let met = made.is_ok_and(|stream| stream.local_addr().is_ok_and(|local| local != address));
    Ok(if met { State::Listens(address.to_string(), None) } else { State::NotYet })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn socket(address: &str, v6_only: bool) -> Listening {
        Listening { address: address.parse().unwrap(), inode: 1, v6_only }
    }

    #[test]
    fn a_socket_is_reached_at_its_address_or_at_that_of_this_end() {
        let at = |address: &str, v6_only, host: IpAddr| reached(&socket(address, v6_only), host).unwrap().to_string();
        assert_eq!(at("127.0.0.1:7", false, HERE), "127.0.0.1:7");
        assert_eq!(at("0.0.0.0:7", false, HERE), "127.0.0.1:7");
        assert_eq!(at("[::]:7", false, HERE), "127.0.0.1:7");
        assert_eq!(at("[::]:7", true, HERE), "[::1]:7");
        assert_eq!(at("[::ffff:127.0.0.1]:7", false, HERE), "127.0.0.1:7");
        assert_eq!(at("0.0.0.0:7", false, Ipv6Addr::LOCALHOST.into()), "127.0.0.1:7");
        let there: IpAddr = "10.0.0.2".parse().unwrap();
        assert_eq!(at("0.0.0.0:7", false, there), "10.0.0.2:7");
        let refused = reached(&socket("127.0.0.1:7", false), there).unwrap_err();
        assert!(refused.hint.contains("{host}"), "{refused:?}");
    }

    #[test]
    fn a_listener_is_found_by_its_process_and_told_from_a_stranger() {
        let port = free_port(HERE).unwrap();
        let me = std::process::id();
        let state = |own: &[u32], told: &Told| super::state(own, told, Over::Tcp, HERE).unwrap();
        assert_eq!(state(&[me], &Told::Port(port)), State::NotYet);
        let _own = TcpListener::bind((HERE, port)).unwrap();
        let own = SocketAddr::new(HERE, port).to_string();
        if listening(Protocol::Tcp).is_err() {
            return eprintln!("skipped: no sock_diag");
        }
        assert_eq!(state(&[me], &Told::Port(port)), State::Listens(own, Some(me)));
        // Without a port: whatever the process listens at; other tests of this process may listen as well.
        assert!(matches!(state(&[me], &Told::Nothing), State::Listens(..)));
        assert_eq!(state(&[u32::MAX], &Told::Nothing), State::NotYet);
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(state(&[other.id()], &Told::Nothing), State::NotYet);
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn sockets_of_other_kinds_are_found_as_well() {
        let me = std::process::id();
        let folder = std::env::temp_dir().join(format!("msgpath-listens-{me}"));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("socket").display().to_string();
        let over = Over::Unix(Kind::Datagram);
        let at = |path: &str| state(&[me], &Told::Path(path.into()), over, HERE).unwrap();
        assert_eq!(at(&path), State::NotYet);
        let _datagrams = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        assert_eq!(at(&path), State::Listens(path.clone(), Some(me)));
        assert_eq!(at("/elsewhere"), State::NotYet);
        fs::remove_dir_all(&folder).unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(state(&[me], &Told::Port(udp.port()), Over::Udp, HERE).unwrap(), State::NotYet, "it is closed");
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = udp.local_addr().unwrap();
        if listening(Protocol::Udp).is_ok() {
            let state = state(&[me], &Told::Port(address.port()), Over::Udp, HERE).unwrap();
            assert_eq!(state, State::Listens(address.to_string(), Some(me)));
        }
    }
}
