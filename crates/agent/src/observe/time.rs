//! The kernel stamps events by the clock of the first time namespace; a process in another one reads that clock moved by what
//! the namespace says (time_namespaces(7)).

use std::io;

use msgpath_core::Unavailable;

/// What CLOCK_MONOTONIC of this process has more than that of the first time namespace, ns.
pub(super) fn ahead_ns() -> Result<i64, Unavailable> {
    let refused =
        |why: String| Unavailable::new(why, "msgpath where the time namespace of a process is that of its children");
    let own = match std::fs::read_link("/proc/self/ns/time") {
        Ok(own) => own,
        // A kernel without them, or no /proc, which others complain about.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(refused(format!("/proc/self/ns/time: {error}"))),
    };
    // The offsets that the kernel tells are those of the children.
    if std::fs::read_link("/proc/self/ns/time_for_children").ok() != Some(own) {
        return Err(refused(
            "this process is in another time namespace than its children, so its clock is not known".into(),
        ));
    }
    let text = std::fs::read_to_string("/proc/self/timens_offsets");
    let text = text.map_err(|error| refused(format!("/proc/self/timens_offsets: {error}")))?;
    monotonic(&text).ok_or_else(|| refused("/proc/self/timens_offsets has no offset of CLOCK_MONOTONIC".into()))
}

/// `monotonic SECONDS NANOSECONDS`, among other lines.
fn monotonic(text: &str) -> Option<i64> {
    let mut words = text.lines().find_map(|line| line.strip_prefix("monotonic "))?.split_ascii_whitespace();
    let mut number = || words.next()?.parse::<i64>().ok();
    number()?.checked_mul(1_000_000_000)?.checked_add(number()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_the_monotonic_clock_is_read() {
        assert_eq!(monotonic("monotonic      86400         0\nboottime 0 0\n"), Some(86_400_000_000_000));
        assert_eq!(monotonic("boottime 7 0\nmonotonic -2 500\n"), Some(-1_999_999_500));
        for bad in ["", "monotonic", "monotonic x 0", "monotonic 1", "monotonic 9223372036854775807 0"] {
            assert_eq!(monotonic(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn tests_run_in_a_known_time_namespace() {
        // Whatever it is: what the kernel stamped and what is read here differ by it.
        assert!(ahead_ns().is_ok(), "{:?}", ahead_ns());
    }
}
