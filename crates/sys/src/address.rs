//! Addresses with the device that an address of a link belongs to: `fe80::1%eth0`. A [`SocketAddr`] has its number, people its name.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use rustix::net::netdevice::{index_to_name, name_to_index};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// An IPv4 address that is written as an IPv6 one (`::ffff:10.0.0.1`) as it is.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

/// An address as typed: `10.0.0.1`, `::1`, `fe80::1%eth0`, `fe80::1%2`; its port is 0. `None`: it is none, or there is no such device.
pub fn parse(text: &str) -> Option<SocketAddr> {
    let Some((address, device)) = text.split_once('%') else { return Some(SocketAddr::new(text.parse().ok()?, 0)) };
    let scope = match device.parse() {
        Ok(number) => number,
        Err(_) => name_to_index(any_socket()?, device).ok()?,
    };
    Some(SocketAddrV6::new(address.parse().ok()?, 0, 0, scope).into())
}

/// The device of an address of a link as typed (`fe80::1%eth0`) that this network namespace does not have.
pub fn missing_device(text: &str) -> Option<&str> {
    let (address, device) = text.split_once('%')?;
    address.parse::<Ipv6Addr>().ok()?;
    parse(text).is_none().then_some(device)
}

/// The devices of this network namespace, by name.
pub fn devices() -> Vec<String> {
    let names = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<String> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// An address with another port.
pub fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

/// The number of the device that an address of a link belongs to; 0: it belongs to all.
pub fn scope(address: SocketAddr) -> u32 {
    if let SocketAddr::V6(address) = address { address.scope_id() } else { 0 }
}

/// The device that an address of a link belongs to; empty: it belongs to all, or the device is gone.
pub fn device(address: SocketAddr) -> String {
    Some(scope(address)).filter(|scope| *scope > 0).map_or_else(String::new, device_name)
}

/// The name of a device of this network namespace; empty: there is none of this number.
pub fn device_name(index: u32) -> String {
    any_socket().and_then(|socket| index_to_name(socket, index).ok()).unwrap_or_default()
}

/// An address for people, without its port: `fe80::1%eth0`.
pub fn shown(address: SocketAddr) -> String {
    match device(address) {
        device if device.is_empty() => address.ip().to_string(),
        device => format!("{}%{device}", address.ip()),
    }
}

/// What device names are asked of.
fn any_socket() -> Option<std::os::fd::OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_a_name_or_a_number_and_is_shown_by_name() {
        let by_name = parse("fe80::1%lo").unwrap();
        assert_eq!((by_name, shown(by_name).as_str()), (parse("fe80::1%1").unwrap(), "fe80::1%lo"));
        assert_eq!(by_name.to_string(), "[fe80::1%1]:0");
        assert_eq!(
            (shown(parse("::1").unwrap()).as_str(), shown(parse("10.0.0.1").unwrap()).as_str()),
            ("::1", "10.0.0.1")
        );
        for bad in ["fe80::1%nodevice", "10.0.0.1%lo", "fe80::1%", "host", ""] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert_eq!(missing_device("fe80::1%nodevice"), Some("nodevice"));
        assert_eq!([missing_device("fe80::1%lo"), missing_device("host%nodevice"), missing_device("::1")], [None; 3]);
        assert_eq!(canonical("[::ffff:10.0.0.1]:7".parse().unwrap()), "10.0.0.1:7".parse().unwrap());
    }
}
