//! A pair of virtual Ethernet devices (veth(4)), and a network namespace for as long as something is tried in it.

use std::io;

use crate::netlink::{Family, Netlink, push_attribute};
use crate::netns;

// linux/rtnetlink.h, linux/if_link.h, linux/veth.h
const RTM_NEWLINK: u16 = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;

/// `struct ifinfomsg` of a device that is to be up or not.
fn device(up: bool) -> Vec<u8> {
    let mut body = vec![0; 8];
    body.extend((if up { libc::IFF_UP as u32 } else { 0 }).to_ne_bytes());
    body.extend((libc::IFF_UP as u32).to_ne_bytes()); // the flags that are said
    body
}

fn name(body: &mut Vec<u8>, name: &str) {
    push_attribute(body, IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
}

/// Makes a pair in the calling thread's network namespace: names of at most 15 bytes, and whether each is up. Needs CAP_NET_ADMIN
/// there. It is gone with the namespace.
///
/// # Errors
/// What the kernel answers: `PermissionDenied`, `EEXIST`, `EOPNOTSUPP` without veth.
pub fn pair(near: (&str, bool), far: (&str, bool)) -> io::Result<()> {
    // Both are made first: a device that is switched on while its peer is not there yet may be refused (ENOTCONN).
    let mut peer = device(false);
    name(&mut peer, far.0);
    let (mut data, mut info) = (Vec::new(), Vec::new());
    push_attribute(&mut data, VETH_INFO_PEER, &peer);
    push_attribute(&mut info, IFLA_INFO_KIND, b"veth");
    push_attribute(&mut info, IFLA_INFO_DATA, &data);
    let mut body = device(false);
    name(&mut body, near.0);
    push_attribute(&mut body, IFLA_LINKINFO, &info);
    Netlink::open(Family::Route)?.create(RTM_NEWLINK, &body)?;
    [near, far].into_iter().filter(|(_, up)| *up).try_for_each(|(name, _)| switch_on(name))
}

/// Switches a device of the calling thread's network namespace on.
///
/// # Errors
/// As [`pair`]; `ENODEV`.
pub fn switch_on(device_name: &str) -> io::Result<()> {
    let mut body = device(true);
    name(&mut body, device_name);
    Netlink::open(Family::Route)?.get(RTM_NEWLINK, &body).map(drop)
}

/// Does something on a thread in a new network namespace with a pair of devices of these names, both up. All of it is gone
/// afterwards.
///
/// # Errors
/// `PermissionDenied` without CAP_SYS_ADMIN; as [`pair`]; no further thread.
pub fn with_pair<T: Send>(names: [&str; 2], what: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let work = || {
            netns::unshare()?;
            pair((names[0], true), (names[1], true))?;
            Ok(what())
        };
        let thread = std::thread::Builder::new().spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Interface;

    #[test]
    fn a_pair_is_there_for_as_long_as_its_namespace() {
        let found = with_pair(["mpt0", "mpt1"], || {
            assert_eq!(pair(("mpt0", true), ("mpt2", true)).unwrap_err().raw_os_error(), Some(libc::EEXIST));
            pair(("mpt2", true), ("mpt3", false)).unwrap();
            let before = Interface::find("mpt3").unwrap();
            switch_on("mpt3").unwrap();
            (
                Interface::find("mpt0").unwrap(),
                Interface::find("mpt1").unwrap(),
                before,
                Interface::find("mpt3").unwrap(),
            )
        });
        let (near, far, before, after) = match found {
            Ok(found) => found,
            Err(error) => return println!("skipped: no pair of devices here ({error})"),
        };
        assert!(near.ethernet && near.up && far.up && near.mac != far.mac && near.mtu == 1500, "{near:?} {far:?}");
        assert!(!before.up && after.up, "{before:?} {after:?}");
        assert!(Interface::find("mpt0").is_err(), "it is still there");
        assert!(switch_on("mpt0").is_err());
    }
}
