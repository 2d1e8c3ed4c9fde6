//! W127: AF_XDP copies each frame
//!
//! ## What it says
//!
//! The sockets of the transport `xdp` have no zero copy: the kernel copies each frame into and out of the memory that it shares with the
//! program. Where the XDP program does not run in the driver (generic mode), it says at which end.
//!
//! ## What it is computed from
//!
//! XDP_OPTIONS of each socket, read after bind(2), and how the program could be attached to the device. Both stand among what was
//! granted.
//!
//! ## When it stays silent
//!
//! For every other path, and where both ends have zero copy.
//!
//! ## What to do
//!
//! Nothing, if AF_XDP on such a device is what you want to know. A virtual link (veth) never has zero copy, so its rows say what it costs
//! to bypass the stack, not what a NIC can do: for that, two machines with NICs whose drivers have it. In generic mode the kernel has made
//! a packet of each frame before the program sees it; what AF_XDP is meant to save is then spent already.

use std::collections::BTreeSet;

use super::wording::{list, measured, warning};
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W127", detect };

/// The option of the granted ones that says where the XDP program runs.
pub(super) const MODE: &str = "XDP mode";
/// That which says whether the kernel copies frames.
const COPIES: &str = "XDP_OPTIONS";

fn detect(input: &Input) -> Vec<Sentence> {
    let (mut paths, mut generic) = (BTreeSet::new(), BTreeSet::new());
    for case in measured(input) {
        for entry in &case.conditions.granted {
            match (entry.option.as_str(), entry.granted.as_str()) {
                (COPIES, "copy") => _ = paths.insert(case.case.path.to_string()),
                (MODE, "generic") => _ = generic.insert(format!("the {} end", entry.end)),
                _ => {}
            }
        }
    }
    if paths.is_empty() {
        return Vec::new();
    }
    let mut text = format!("AF_XDP copies each frame ({})", list(&Vec::from_iter(paths.iter().cloned())));
    let mut why = "bind() asks for zero copy and silently does without where the driver has none, such as a virtual link: the frames \
                   bypass the stack and are copied at each end"
        .to_owned();
    if !generic.is_empty() {
        text +=
            &format!(", and its program runs in generic mode at {}", list(&Vec::from_iter(generic.iter().cloned())));
        why += "; in generic mode the kernel has made a packet of each before the program sees it";
    }
    vec![warning(
        "W127",
        text,
        &why,
        "a NIC whose driver has AF_XDP with zero copy; what is measured here is AF_XDP on a device without",
        [("paths", paths.len() as f64), ("generic_ends", generic.len() as f64)],
    )]
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, grant, sentences};

    fn texts(mode: &str, options: &str) -> Vec<String> {
        let mut run = Build::echo(&["eth:send", "xdp:send/poll"], &[64]).run();
        grant(&mut run, 1, "XDP mode", "native", mode);
        grant(&mut run, 1, "XDP_OPTIONS", "-", options);
        assert!(sentences(&run, "W22").is_empty(), "two sentences about one thing");
        sentences(&run, "W127")
    }

    #[test]
    fn speaks_where_frames_are_copied() {
        assert_eq!(texts("native", "copy"), ["AF_XDP copies each frame (xdp:send/poll)"]);
        let expected = "AF_XDP copies each frame (xdp:send/poll), and its program runs in generic mode at the near end";
        assert_eq!(texts("generic", "copy"), [expected]);
    }

    #[test]
    fn is_silent_where_they_are_not_or_nobody_asked() {
        assert!(texts("native", "zero copy").is_empty());
        assert!(sentences(&Build::echo(&["eth:send"], &[64]).run(), "W127").is_empty());
    }
}
