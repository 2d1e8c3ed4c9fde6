//! Which groups the kernel says that this network namespace has joined, and how it speaks of them: /proc/net/igmp and /proc/net/igmp6.
//!
//! The lists have no trace of a querier that speaks the version which the kernel begins with: whether there is one cannot be known from
//! them. `V1` and `V2` where nothing forces them (net.ipv4.conf.DEVICE.force_igmp_version) mean that an older one was heard.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// More is not read of such a list.
const MOST: u64 = 1 << 20;

/// What a list says of a group on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The group was joined on the device.
    pub member: bool,
    /// The version of IGMP on the device; `None`: IPv6, or a device that is not listed.
    pub version: Option<String>,
}

/// What the kernel says; `None`: the list cannot be read.
pub fn listed(group: IpAddr, device: &str) -> Option<Listed> {
    let file = if group.is_ipv4() { "igmp" } else { "igmp6" };
    let text = read(&format!("/proc/thread-self/net/{file}"))?;
    Some(match group {
        IpAddr::V4(group) => of_igmp(&text, group, device),
        IpAddr::V6(group) => Listed { member: of_igmp6(&text, group, device), version: None },
    })
}

fn read(path: &str) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(MOST).read_to_string(&mut text).ok()?;
    Some(text)
}

/// A line for each device (`2\teth0      :     1      V3`), below it one for each group: the address as the machine has it in memory.
fn of_igmp(text: &str, group: Ipv4Addr, device: &str) -> Listed {
    let mut found = Listed::default();
    let mut here = false;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        if line.starts_with([' ', '\t']) {
            let address = u32::from_str_radix(first, 16).ok().map(|raw| Ipv4Addr::from(raw.to_ne_bytes()));
            found.member |= here && address == Some(group);
        } else {
            here = words.next() == Some(device);
            if here {
                found.version = line.split_whitespace().last().filter(|word| word.starts_with('V')).map(Into::into);
            }
        }
    }
    found
}

/// A line for each group: number and name of the device, the address, users, flags, timer.
fn of_igmp6(text: &str, group: Ipv6Addr, device: &str) -> bool {
    let address = format!("{:032x}", u128::from(group));
    text.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        words.next() == Some(device) && words.next() == Some(address.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IGMP: &str = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n\
        1\tlo        :     1      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n\
        2\teth0      :     2      V2\n\t\t\t\t010101EF     4 1:0000001A\t\t1\n\t\t\t\t010000E0     1 0:00000000\t\t0\n";

    #[test]
    #[cfg(target_endian = "little")]
    fn a_group_belongs_to_its_device() {
        let listed = |group: [u8; 4], device| of_igmp(IGMP, group.into(), device);
        assert_eq!(listed([239, 1, 1, 1], "eth0"), Listed { member: true, version: Some("V2".into()) });
        assert_eq!(listed([239, 1, 1, 1], "lo"), Listed { member: false, version: Some("V3".into()) });
        assert_eq!(listed([239, 1, 1, 1], "eth1"), Listed::default());
        let six = "2    eth0            ff150000000000000000000000000001     1 00000004 0\n";
        let group = "ff15::1".parse().unwrap();
        assert!(of_igmp6(six, group, "eth0") && !of_igmp6(six, group, "eth1") && !of_igmp6("", group, "eth0"));
    }

    proptest! {
        #[test]
        fn any_list_ends(text in "(?s).{0,200}", lines in "([0-9\t ][0-9a-fA-FV: \t]{0,20}\n){0,8}") {
            for text in [text, lines] {
                let _ = (of_igmp(&text, Ipv4Addr::new(239, 1, 1, 1), "lo"), of_igmp6(&text, Ipv6Addr::LOCALHOST, "lo"));
            }
        }
    }
}
