//! Turns our histograms into those of HdrHistogram, for `hgrm` and `hlog`.

use hdrhistogram::Histogram as Hdr;
use msgpath_core::foreign::shown;
use msgpath_core::{Case, Histogram};

use super::role_word;

/// The values of the messages that arrived, in ns, with three digits. Each bin stands for its middle, but the smallest
/// and the largest value stay exact. Lost messages and those of 2^40 ns and more have no place in it.
pub(super) fn to_hdr(histogram: &Histogram) -> Hdr<u64> {
    // 2^40 ns, three digits: within the bounds of the library.
    let mut out = Hdr::new_with_bounds(1, 1 << 40, 3).expect("constant bounds are valid");
    let (min, max) = (histogram.min(), histogram.max().filter(|_| histogram.beyond() == 0));
    for (from, to, count) in histogram.bins() {
        let ends = [min, max.filter(|_| count > 1 || min != max)].into_iter().flatten();
        let mut rest = count;
        for end in ends.filter(|end| (from..to).contains(end)).take(count as usize) {
            out.saturating_record_n(end, 1);
            rest -= 1;
        }
        let middle = from + (to - from) / 2;
        out.saturating_record_n(middle.clamp(min.unwrap_or(0), max.unwrap_or(u64::MAX)), rest);
    }
    out
}

/// What a case is called where no comma and no space may stand: `tcp:send/epoll_64B`, with what else tells it apart.
pub(super) fn tag(case: &Case) -> String {
    let mut tag = if case.has_size() { format!("{}_{}B", case.path, case.size) } else { case.path.to_string() };
    if case.pieces.count > 1 {
        tag += &format!("_{}", case.pieces);
    }
    for (number, word) in [(case.connections, "connections"), (case.threads, "threads"), (case.inflight, "inflight")] {
        if number > 1 {
            tag += &format!("_{number}{word}");
        }
    }
    if case.role != msgpath_core::CaseRole::Measured {
        tag += &format!("_{}", role_word(case.role));
    }
    shown(&tag).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_is_added_and_the_ends_are_exact(values in prop::collection::vec(0_u64..1 << 40, 1..200)) {
            let mut ours = Histogram::new();
            values.iter().for_each(|value| ours.record(*value));
            ours.record_lost(3);
            let hdr = to_hdr(&ours);
            prop_assert_eq!(hdr.len(), values.len() as u64);
            let (min, max) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
            prop_assert!(hdr.equivalent(hdr.max(), max));
            prop_assert!(hdr.equivalent(hdr.min(), min));
        }
    }
}
