//! Checksums and segmentation by the devices of a lab, on or off.

use msgpath_sys::ethtool::{Ethtool, Offload};

/// Switches every offload of a device of the calling thread's namespace, reads each back, and returns the names of those
/// that are not as asked.
pub(super) fn switch(device: &str, on: bool) -> Vec<&'static str> {
    let Ok(ethtool) = Ethtool::open() else { return Offload::ALL.map(Offload::name).to_vec() };
    // What is built on another is switched on after it, and off before it.
    let mut order = Offload::ALL;
    if !on {
        order.reverse();
    }
    let is_not = |offload: &Offload| ethtool.set_offload(device, *offload, on).ok() != Some(on);
    order.into_iter().filter(is_not).map(Offload::name).collect()
}

/// What could not be switched, for people; `None`: all is as asked.
pub(super) fn note(place: &str, on: bool, left: &[&str]) -> Option<String> {
    let word = if on { "on" } else { "off" };
    (!left.is_empty()).then(|| format!("{place}: these offloads cannot be switched {word}: {}", left.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_switched_is_named() {
        assert_eq!(switch("nosuch0", false).len(), Offload::ALL.len());
        assert_eq!(note("lab.a", false, &[]), None);
        assert_eq!(
            note("lab.a", false, &["rx", "gro"]).as_deref(),
            Some("lab.a: these offloads cannot be switched off: rx, gro")
        );
    }
}
