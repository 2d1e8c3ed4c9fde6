//! An agent that a launcher started, on another host perhaps: what it says first, and where its data connections go.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;

use msgpath_core::{Exit, Problem};
use msgpath_sys::say;

use crate::confine::confine;
use crate::privileges::{Peer, Reach};
use crate::role::{Channel, Found, FoundBy, Network, Surroundings};
use crate::seal::Sealing;
use crate::session::agent_at;
use crate::wire::{self, VERSION};
use crate::{environment, route};

/// What comes before the version. Who started the agent sends nothing before it has read this: until then a login shell or
/// a prompt may be at the other end. A terminal in between would make two bytes of the line feed.
pub const MARK: [u8; 10] = *b"\xf5msgpath\n\0";
/// What a terminal makes of the mark.
pub const MARK_OF_A_TERMINAL: [u8; 11] = *b"\xf5msgpath\r\n\0";

impl Network {
    /// That of this process.
    pub fn own() -> Option<Self> {
        let namespace = std::fs::metadata("/proc/self/ns/net").ok()?.ino();
        let boot_id = environment::boot_id();
        (!boot_id.starts_with("n/a")).then_some(Self { boot_id, namespace })
    }
}

impl Surroundings {
    /// Those of this process.
    pub fn here(address: Option<IpAddr>, named: Vec<IpAddr>) -> Self {
        Self { address, named, near: route::addresses(), network: Network::own() }
    }
}

/// What the agent sees around it.
struct Around<'a> {
    network: Option<Network>,
    /// SSH_CONNECTION: where the client and where the server of the session is.
    ssh: Option<(IpAddr, IpAddr)>,
    /// Whether an address is its own.
    is_own: &'a dyn Fn(IpAddr) -> bool,
    /// The address from which packets to another one leave.
    source: &'a dyn Fn(IpAddr) -> Option<IpAddr>,
}

/// The address for data connections. The first rule that gives one which this host has; what a user says is believed.
fn find(known: &Surroundings, around: &Around<'_>) -> Option<(IpAddr, FoundBy)> {
    let Around { network, ssh, is_own, source } = around;
    let named = || known.named.iter().copied().find(|address| is_own(*address) && !address.is_loopback());
    let typed = || Some((known.address?, FoundBy::Typed));
    let same_network = || {
        let same = network.is_some() && *network == known.network;
        same.then(|| (named().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), FoundBy::SameNetwork))
    };
    let ssh = || ssh.map(|(_, own)| (own, FoundBy::Ssh)).filter(|(own, _)| is_own(*own) && !own.is_loopback());
    let name = || Some((named()?, FoundBy::Name));
    let route = || {
        // An address that both hosts have, such as that of a bridge of containers, leads nowhere but back.
        let near = known.near.iter().copied().filter(|address| !is_own(*address));
        let leaves = near.filter_map(source).find(|own| !own.is_loopback() && is_own(*own));
        Some((leaves?, FoundBy::Route))
    };
    typed().or_else(same_network).or_else(ssh).or_else(name).or_else(route)
}

/// SSH_CONNECTION: client address, client port, server address, server port.
fn ssh_connection(text: &str) -> Option<(IpAddr, IpAddr)> {
    let mut words = text.split(' ');
    let (client, server) = (words.next()?, words.nth(1)?);
    Some((client.parse::<IpAddr>().ok()?.to_canonical(), server.parse::<IpAddr>().ok()?.to_canonical()))
}

fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// Says first what this is. Its role follows ([`crate::role::Role::receive`]).
///
/// # Errors
/// As standard output.
pub fn say_mark() -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(&MARK)?;
    out.write_all(&[VERSION])?;
    out.flush()
}

/// The agent: says where its data connections go, then what every agent does. `address`: as its own command line says; `reach`:
/// what it may be ordered.
pub fn on_host(mut known: Surroundings, address: Option<IpAddr>, reach: Reach, mut channel: Channel) -> ExitCode {
    known.address = known.address.or(address);
    let ssh = std::env::var("SSH_CONNECTION").ok().as_deref().and_then(ssh_connection);
    let network = Network::own();
    let found = find(&known, &Around { network, ssh, is_own: &is_own, source: &route::source });
    let answer = Found { address: found, own: route::addresses() };
    let mut out = Sealing::new(io::stdout().lock(), channel.seals.as_ref().map(|seals| seals.says.clone()));
    let said = wire::write(&mut out, &answer, &[]);
    if let (Some(seals), Some(says)) = (&mut channel.seals, out.into_parts().1) {
        seals.says = says;
    }
    if let Err(error) = said {
        say!("{}", Problem::new("E17", Exit::Unfinished, format!("the agent ended: {error}")));
        return Exit::Unfinished.code().into();
    }
    let Some((address, _)) = found else { return ExitCode::SUCCESS };
    // An address that a translator gives to this host is not one to bind to: all that it has are.
    let host = match address {
        address if is_own(address) => address,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let near = ssh.map(|(client, _)| client).or_else(|| known.near.iter().copied().find(|near| !is_own(*near)));
    confine(&[&std::env::temp_dir()]);
    let at = |ip: IpAddr| SocketAddr::new(ip, 0);
    agent_at(Peer { host: Some(at(host)), address: near.map(at), reach, proven: false }, channel)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn network(namespace: u64) -> Option<Network> {
        Some(Network { boot_id: "b".into(), namespace })
    }

    /// A host with 10.0.0.2 and the bridge that every host has, whose packets leave from 10.0.0.2.
    fn found(known: &Surroundings, ssh: Option<&str>) -> Option<(IpAddr, FoundBy)> {
        let own = |address: IpAddr| [ip("10.0.0.2"), ip("172.17.0.1"), ip("127.0.0.1")].contains(&address);
        let source = |to: IpAddr| Some(if own(to) { to } else { ip("10.0.0.2") });
        let ssh = ssh.and_then(ssh_connection);
        find(known, &Around { network: network(2), ssh, is_own: &own, source: &source })
    }

    #[test]
    fn the_address_is_what_the_first_rule_finds() {
        let nothing = Surroundings { network: network(1), ..Surroundings::default() };
        assert_eq!(found(&nothing, None), None);
        let near = vec![ip("172.17.0.1"), ip("10.0.0.1")];
        let routed = Surroundings { near, ..nothing };
        assert_eq!(found(&routed, None), Some((ip("10.0.0.2"), FoundBy::Route)));
        let only_the_bridge = Surroundings { near: vec![ip("172.17.0.1")], ..routed.clone() };
        assert_eq!(found(&only_the_bridge, None), None, "both hosts have it");
        let named = Surroundings { named: vec![ip("127.0.1.1"), ip("10.0.0.2")], ..routed };
        assert_eq!(found(&named, None), Some((ip("10.0.0.2"), FoundBy::Name)));
        let ssh = "10.0.0.1 40000 10.0.0.2 22";
        assert_eq!(found(&named, Some(ssh)), Some((ip("10.0.0.2"), FoundBy::Ssh)));
        let elsewhere = "192.0.2.1 40000 192.0.2.2 22";
        assert_eq!(found(&named, Some(elsewhere)).unwrap().1, FoundBy::Name, "the session of somebody else");
        let here = Surroundings { network: network(2), ..named.clone() };
        assert_eq!(found(&here, None), Some((ip("10.0.0.2"), FoundBy::SameNetwork)));
        let unnamed = Surroundings { named: Vec::new(), ..here };
        assert_eq!(found(&unnamed, None), Some((ip("127.0.0.1"), FoundBy::SameNetwork)));
        let typed = Surroundings { address: Some(ip("203.0.113.7")), ..named };
        assert_eq!(found(&typed, Some(ssh)), Some((ip("203.0.113.7"), FoundBy::Typed)), "a translator has it");
    }

    #[test]
    fn what_ssh_says_is_read() {
        assert_eq!(ssh_connection("::ffff:10.0.0.1 1 fd00::2 22"), Some((ip("10.0.0.1"), ip("fd00::2"))));
        for bad in ["", "a b c d", "10.0.0.1 1", "10.0.0.1 1 x 22"] {
            assert_eq!(ssh_connection(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_network_is_the_same_for_all_that_are_in_it() {
        assert!(Network::own().is_some() && Network::own() == Network::own());
        assert_ne!(network(1), network(2));
    }
}
