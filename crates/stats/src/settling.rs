//! How long a load must run until it is in the state that lasts (docs/method/rounds.md#settling).

use crate::describe::median;

/// Where the windows begin, ms since the load began: what changes soon is seen in short ones.
pub const EDGES_MS: [u64; 13] = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];
/// A window reaches from its begin to so many times that: what is measured behind the settling time is longer than it, so what is
/// over soon does not matter.
const REACH: u64 = 4;
/// The first windows are at least so long, ns.
const SHORTEST_NS: u64 = 5_000_000;
/// Windows from which all later ones stay so near to the steady value are settled.
const MARGIN: f64 = 0.1;

/// What stretches of one load showed, each from its begin and without a pause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settled {
    /// From this time on all windows are near the steady value, ns since the load began; `None`: not in the first half of
    /// the stretches, so that nothing shows that it lasts.
    pub at_ns: Option<u64>,
    /// The same as steady messages: what a message takes in the end times the messages until then, ns.
    pub steady_ns: Option<f64>,
    /// What a message takes in the second half of the stretches.
    pub steady: f64,
}

/// One message: when it began, ns since the load began, and how long it took, ns.
pub type Timed = (u64, f64);

/// When a load settles, from the messages of several stretches, each in the order of time; `None`: too few messages.
pub fn settled(stretches: &[Vec<Timed>]) -> Option<Settled> {
    let length = stretches.iter().filter_map(|stretch| Some(stretch.last()?.0)).min()?;
    let all = |from: u64, to: u64| {
        let of = |stretch: &Vec<Timed>| {
            let values: Vec<f64> =
                stretch.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, ns)| *ns).collect();
            (!values.is_empty()).then(|| median(&values))
        };
        let each: Vec<f64> = stretches.iter().filter_map(of).collect();
        (!each.is_empty()).then(|| median(&each))
    };
    let steady = all(length / 2, length)?;
    let windows: Vec<(u64, f64)> = EDGES_MS
        .map(|from| from * 1_000_000)
        .into_iter()
        .filter(|from| *from < length)
        .filter_map(|from| Some((from, all(from, (REACH * from).clamp(SHORTEST_NS, length.max(SHORTEST_NS)))?)))
        .collect();
    let at_ns = first_settled(&windows, steady).filter(|at| *at <= length / 2);
    let steady_ns = at_ns.map(|at| {
        let before: Vec<f64> =
            stretches.iter().map(|stretch| stretch.iter().filter(|(begun, _)| *begun < at).count() as f64).collect();
        median(&before) * steady
    });
    Some(Settled { at_ns, steady_ns, steady })
}

/// Where the first of the windows begins from which on all are near `steady`; windows are begin and value, in order.
pub fn first_settled(windows: &[(u64, f64)], steady: f64) -> Option<u64> {
    let near = |(_, value): &&(u64, f64)| (value / steady).ln().abs() <= MARGIN.ln_1p();
    windows.iter().rev().take_while(near).last().map(|(from, _)| *from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::normal;

    /// Messages of 40 µs until `settling` ms, then of 60 µs, for `length` ms; one in 50 is disturbed.
    fn stretch(seed: u64, settling: u64, length: u64) -> Vec<Timed> {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut at, mut messages) = (0, Vec::new());
        while at < length * 1_000_000 {
            let level = if at < settling * 1_000_000 { 40_000.0 } else { 60_000.0 };
            let ns = level * (0.15 * normal(&mut random)).exp() * if random.u32(..50) == 0 { 20.0 } else { 1.0 };
            messages.push((at, ns));
            at += ns as u64;
        }
        messages
    }

    fn found(settling: u64, length: u64) -> Settled {
        settled(&[1, 2, 3].map(|seed| stretch(seed, settling, length))).unwrap()
    }

    #[test]
    fn the_time_is_found_within_a_factor_of_two() {
        assert_eq!(found(0, 300).at_ns, Some(0));
        for (settling, length) in [(5, 300), (50, 300), (500, 1_500)] {
            let found = found(settling, length);
            let at_ms = found.at_ns.unwrap() as f64 / 1e6;
            assert!((0.5..=2.0).contains(&(at_ms / settling as f64)), "{settling} ms: {at_ms}");
            assert!((found.steady / 60_000.0 - 1.0).abs() < 0.05, "{found:?}");
            // In half as much again there are as many messages as until then.
            assert!(found.steady_ns.unwrap() > settling as f64 * 1e6, "{found:?}");
        }
    }

    #[test]
    fn what_does_not_last_for_half_of_the_stretch_is_not_settled() {
        assert_eq!(found(200, 300).at_ns, None);
        assert_eq!(settled(&[]), None);
        assert_eq!(settled(&[vec![]]), None);
    }

    #[test]
    fn one_disturbed_stretch_of_three_moves_nothing() {
        let mut stretches = [1, 2, 3].map(|seed| stretch(seed, 20, 300)).to_vec();
        stretches[1].iter_mut().for_each(|(_, ns)| *ns *= 3.0);
        let found = settled(&stretches).unwrap();
        assert!(found.at_ns == Some(20_000_000) && (found.steady / 60_000.0 - 1.0).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn a_slow_path_has_few_windows() {
        // 40 messages of 5 ms.
        let slow: Vec<Timed> = (0..40).map(|at| (at * 5_000_000, 5e6)).collect();
        assert_eq!(settled(&[slow]).unwrap().at_ns, Some(0));
    }
}
