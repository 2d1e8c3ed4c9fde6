//! Multicast groups: addresses of IP that stand for many receivers. As typed: `udp://239.1.1.1%eth0:5000`, `ff15::1%eth0`. And the one
//! check that keeps such addresses from whoever needs one peer.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::target::{BadTarget, DEFAULT_PORT, parse_port, split_host};

/// The longest name of a network device (IFNAMSIZ without its zero).
const MOST_DEVICE: usize = 15;

/// A multicast group and where its datagrams go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// 224.0.0.0/4 or ff00::/8.
    pub address: IpAddr,
    /// The device named behind it; `None`: the kernel's route decides.
    pub device: Option<String>,
    /// UDP port.
    pub port: u16,
}

impl FromStr for Group {
    type Err = BadTarget;

    /// `[udp://]ADDRESS[%DEVICE][:PORT]`; an IPv6 address with a port stands in brackets.
    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let bad = || BadTarget::Text(text.into());
        if text.len() > 128 {
            return Err(bad());
        }
        let (host, port) = split_host(text.strip_prefix("udp://").unwrap_or(text)).ok_or_else(bad)?;
        let (address, device) = host.split_once('%').map_or((host, None), |(address, device)| (address, Some(device)));
        let address = address.parse::<IpAddr>().map_err(|_| bad())?.to_canonical();
        let named = |device: &str| {
            (1..=MOST_DEVICE).contains(&device.len())
                && device.chars().all(|c| c.is_ascii_graphic() && !"/:%".contains(c))
        };
        if !address.is_multicast() || !device.is_none_or(named) {
            return Err(bad());
        }
        let port = if port.is_empty() { DEFAULT_PORT } else { parse_port(port)? };
        Ok(Self { address, device: device.map(Into::into), port })
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = self.device.as_ref().map_or_else(String::new, |device| format!("%{device}"));
        match self.address {
            IpAddr::V4(address) => write!(f, "udp://{address}{device}:{}", self.port),
            IpAddr::V6(address) => write!(f, "udp://[{address}{device}]:{}", self.port),
        }
    }
}

impl Group {
    /// What the user must know of this range of addresses, if anything.
    pub fn caution(&self) -> Option<&'static str> {
        match self.address {
            IpAddr::V4(address) => match address.octets() {
                [224, 0, 0, _] => Some(
                    "224.0.0.0/24 is for the protocols of a link (RFC 5771): routers never forward it, and switches \
                     flood it without regard to who has joined; 239.0.0.0/8 is for use within a site",
                ),
                [239, ..] => None,
                [232, ..] => Some(
                    "232.0.0.0/8 is for source-specific multicast (RFC 4607); msgpath joins for any source, and a \
                     network may not forward that",
                ),
                _ => Some(
                    "the address may be assigned to somebody else (RFC 5771); 239.0.0.0/8 is for use within a site",
                ),
            },
            IpAddr::V6(address) => match address.segments()[0] & 0xf {
                1 => Some("the scope of ff01 and ff11 is this machine (RFC 4291): no datagram leaves it"),
                _ if address.segments()[0] & 0x10 == 0 => Some(
                    "the address is of those that are assigned (RFC 4291); ff12 (link) to ff18 (organisation) are for \
                     everybody",
                ),
                _ => None,
            },
        }
    }
}

/// Refuses an address that stands for many where one peer is meant: every target that a user types is checked here. `host`: a name or an
/// address, a device behind it or not.
///
/// # Errors
/// [`BadTarget::Group`].
pub fn check_one_peer(host: &str) -> Result<(), BadTarget> {
    let address = host.split_once('%').map_or(host, |(address, _)| address);
    let address = address.trim_matches(['[', ']']).parse::<IpAddr>().map(|address| address.to_canonical());
    let broadcast = match address {
        Ok(address) if address.is_multicast() => false,
        Ok(IpAddr::V4(address)) if address.is_broadcast() => true,
        _ => return Ok(()),
    };
    Err(BadTarget::Group { host: host.trim_matches(['[', ']']).into(), broadcast })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn groups_are_read_and_printed() {
        for (typed, printed) in [
            ("udp://239.1.1.1", "udp://239.1.1.1:5210"),
            ("239.1.1.1:7", "udp://239.1.1.1:7"),
            ("udp://239.1.1.1%eth0:7", "udp://239.1.1.1%eth0:7"),
            ("ff15::1%v0", "udp://[ff15::1%v0]:5210"),
            ("udp://[ff15::1%v0]:7", "udp://[ff15::1%v0]:7"),
            ("[ff15::1]", "udp://[ff15::1]:5210"),
            ("::ffff:239.1.1.1", "udp://239.1.1.1:5210"),
        ] {
            let group: Group = typed.parse().unwrap();
            assert_eq!(group.to_string(), printed, "{typed}");
        }
        for bad in [
            "",
            "10.0.0.1",
            "udp://10.0.0.1",
            "tcp://239.1.1.1",
            "239.1.1.1%",
            "239.1.1.1%a/b",
            "239.1.1.1%abcdefghijklmnop",
            "239.1.1.1:0",
            "239.1.1.1:70000",
            "255.255.255.255",
            "fe80::1%eth0",
            "239.1.1",
        ] {
            assert!(bad.parse::<Group>().is_err(), "{bad}");
        }
    }

    #[test]
    fn reserved_ranges_are_named() {
        let caution = |text: &str| text.parse::<Group>().unwrap().caution().unwrap_or_default();
        assert_eq!((caution("239.1.1.1"), caution("ff15::1"), caution("ff12::7")), ("", "", ""));
        assert!(caution("224.0.0.1").contains("never forward") && caution("224.1.1.1").contains("assigned"));
        assert!(caution("232.1.1.1").contains("source-specific") && caution("ff02::1").contains("assigned"));
        assert!(caution("ff11::1").contains("no datagram leaves"));
    }

    #[test]
    fn one_peer_is_no_group_and_no_broadcast() {
        for host in ["239.1.1.1", "224.0.0.1%eth0", "ff15::1", "[ff02::1%v0]", "::ffff:239.1.1.1", "255.255.255.255"] {
            assert!(matches!(check_one_peer(host), Err(BadTarget::Group { .. })), "{host}");
        }
        for host in ["10.0.0.1", "fe80::1%eth0", "239", "hostB", "", "ff15", "::1", "0.0.0.0"] {
            assert_eq!(check_one_peer(host), Ok(()), "{host}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = (text.parse::<Group>(), check_one_peer(&text));
        }

        #[test]
        fn what_is_printed_is_read(low in any::<u32>(), six in any::<bool>(), device in proptest::option::of("[a-z0-9.@-]{1,15}"), port in 1_u16..) {
            let address = if six {
                IpAddr::from(((0xff15_u128 << 112) | u128::from(low)).to_be_bytes())
            } else {
                IpAddr::from((0xe000_0000 | low >> 4).to_be_bytes())
            };
            let group = Group { address, device, port };
            prop_assert_eq!(group.to_string().parse::<Group>(), Ok(group));
        }
    }
}
