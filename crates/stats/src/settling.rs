//! How long a load must run until it is in the state that lasts (docs/method/rounds.md#settling).

use msgpath_core::settling::Settling;

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

/// Stretches that tell when a load settles; one of them may be disturbed.
const STRETCHES: u64 = 3;
/// A stretch takes this share of the time of its case, ...
const SHARE: u64 = 8;
/// ... at least and at most so long, ns.
const SHORT_NS: [u64; 2] = [50_000_000, 300_000_000];
/// Where they do not settle, others are run that are so many times as long, ...
const LONGER: u64 = 4;
/// ... where all of them take at most this share of the time of the case.
const LONG_SHARE: u64 = 2;
/// A stretch that shows a change half a second after the load began, ns, ...
const LATE_NS: u64 = 1_100_000_000;
/// ... with shorter ones beside it, at most, ns, ...
const BESIDE_NS: u64 = 150_000_000;
/// ... where it takes at most this share of the time of all cases.
const LATE_SHARE: u64 = 8;

/// What stretches are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretches {
    /// Length of the first ones, ns.
    short: u64,
    /// That of longer ones, ns.
    long: u64,
    /// Whether longer ones may be run where the short ones do not settle.
    may_repeat: bool,
    /// Whether one of the first is a long one.
    late: bool,
}

impl Stretches {
    /// Those for a case that is measured for `case_ns`, in a run where all cases together are measured for `run_ns`; 0: no look
    /// at what changes late.
    pub fn new(case_ns: u64, run_ns: u64) -> Self {
        let [least, most] = SHORT_NS;
        let short = (case_ns / SHARE).clamp(least, most);
        let late = LATE_NS <= run_ns / LATE_SHARE;
        let (short, long) = if late { (short.min(BESIDE_NS), LATE_NS) } else { (short, LONGER * short) };
        Self { short, long, may_repeat: STRETCHES * long <= case_ns / LONG_SHARE, late }
    }

    /// When the load settles; `stretch` runs it for so long without a pause, or says `None` where the run is to end. `None`: too
    /// few messages to tell.
    ///
    /// # Errors
    /// Those of `stretch`.
    pub fn find<E>(self, mut stretch: impl FnMut(u64) -> Result<Option<Vec<Timed>>, E>) -> Result<Option<Settling>, E> {
        let mut first = measured(&mut stretch, self.short, STRETCHES - u64::from(self.late))?;
        if self.late {
            first.extend(stretch(self.long)?);
        }
        let Some(found) = settled(&first) else { return Ok(None) };
        match (found.at_ns, found.steady_ns) {
            (Some(at_ns), Some(steady_ns)) => {
                let within = Some(Settling::WithinNs(steady_ns as u64));
                // The short stretches have not seen what comes behind a quarter of them with certainty.
                let from = at_ns.max(self.short / LONGER);
                let Some(long) = first.pop().filter(|long| self.late && changes(long, from)) else { return Ok(within) };
                match stretch(self.long)? {
                    Some(again) if changes(&again, from) => Ok(self.of_long(&[long, again])),
                    // What a single stretch shows is a disturbance of it.
                    _ => Ok(within),
                }
            }
            _ if !self.may_repeat => Ok(Some(Settling::NotWithinNs(self.short / 2))),
            _ => {
                let seen = if self.late { first.pop() } else { None };
                let mut long = measured(&mut stretch, self.long, STRETCHES - u64::from(self.late))?;
                long.extend(seen);
                Ok(self.of_long(&long))
            }
        }
    }

    fn of_long(self, stretches: &[Vec<Timed>]) -> Option<Settling> {
        let steady_ns = settled(stretches)?.steady_ns;
        Some(steady_ns.map_or(Settling::NotWithinNs(self.long / 2), |ns| Settling::WithinNs(ns as u64)))
    }
}

/// So many stretches of one length, or those before the run was to end.
fn measured<E>(
    stretch: &mut impl FnMut(u64) -> Result<Option<Vec<Timed>>, E>,
    length: u64,
    count: u64,
) -> Result<Vec<Vec<Timed>>, E> {
    (0..count).filter_map(|_| stretch(length).transpose()).collect()
}

/// Whether a stretch shows a change behind `from`.
fn changes(stretch: &[Timed], from: u64) -> bool {
    let Some((windows, steady)) = windows(&[stretch]) else { return false };
    first_settled(&windows, steady)
        .is_none_or(|at| at > from && windows.iter().any(|(begin, _)| (from..at).contains(begin)))
}

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
    let views: Vec<&[Timed]> = stretches.iter().map(Vec::as_slice).collect();
    let length = shortest(&views)?;
    let (windows, steady) = windows(&views)?;
    let at_ns = first_settled(&windows, steady).filter(|at| *at <= length / 2);
    let steady_ns = at_ns.map(|at| {
        let before: Vec<f64> =
            stretches.iter().map(|stretch| stretch.iter().filter(|(begun, _)| *begun < at).count() as f64).collect();
        median(&before) * steady
    });
    Some(Settled { at_ns, steady_ns, steady })
}

/// The length that all stretches have, ns.
fn shortest(stretches: &[&[Timed]]) -> Option<u64> {
    stretches.iter().filter_map(|stretch| Some(stretch.last()?.0)).min()
}

/// Begin of each window of the stretches and what a message takes in it, and what it takes in their second half.
fn windows(stretches: &[&[Timed]]) -> Option<(Vec<(u64, f64)>, f64)> {
    let length = shortest(stretches)?;
    let all = |from: u64, to: u64| {
        let of = |stretch: &&[Timed]| {
            let values: Vec<f64> =
                stretch.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, ns)| *ns).collect();
            (!values.is_empty()).then(|| median(&values))
        };
        let each: Vec<f64> = stretches.iter().filter_map(of).collect();
        (!each.is_empty()).then(|| median(&each))
    };
    let steady = all(length / 2, length)?;
    let windows = EDGES_MS
        .map(|from| from * 1_000_000)
        .into_iter()
        .filter(|from| *from < length)
        .filter_map(|from| Some((from, all(from, (REACH * from).clamp(SHORTEST_NS, length.max(SHORTEST_NS)))?)))
        .collect();
    Some((windows, steady))
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

    /// What the pilot of a run of one case finds and how long it takes, ms. `disturbed`: stretches that other work makes slower
    /// from the middle on.
    fn piloted(settling: u64, seconds: u64, disturbed: &[usize]) -> (Option<Settling>, u64) {
        let (mut count, mut took) = (0, 0);
        let run_ns = seconds * 1_000_000_000;
        let found: Result<_, ()> = Stretches::new(run_ns, run_ns).find(|length| {
            let mut messages = stretch(count as u64, settling, length / 1_000_000);
            if disturbed.contains(&count) {
                messages.iter_mut().filter(|(at, _)| *at > length / 2).for_each(|(_, ns)| *ns *= 2.0);
            }
            (count, took) = (count + 1, took + length / 1_000_000);
            Ok(Some(messages))
        });
        (found.unwrap(), took)
    }

    #[test]
    fn a_change_after_half_a_second_is_found_where_the_time_allows() {
        // Messages until then are quicker than steady ones, 40 against 60 µs.
        let near = |found, ms: u64| match found {
            Some(Settling::WithinNs(ns)) => (ms * 750_000..=ms * 2_000_000).contains(&ns),
            _ => false,
        };
        for settling in [5, 20, 50, 100, 200, 500] {
            let (found, took) = piloted(settling, 10, &[]);
            assert!(
                near(found, settling) && took <= if settling <= 50 { 1_400 } else { 3_600 },
                "{settling} {found:?} {took}"
            );
        }
        assert_eq!(piloted(0, 10, &[]), (Some(Settling::WithinNs(0)), 1_400));
        // Of 2 s the long stretch would be half.
        assert_eq!(piloted(0, 2, &[]), (Some(Settling::WithinNs(0)), 750));
        assert_eq!(piloted(500, 2, &[]).0, Some(Settling::WithinNs(0)));
    }

    #[test]
    fn a_late_change_of_one_stretch_alone_is_a_disturbance() {
        assert_eq!(piloted(0, 10, &[2]), (Some(Settling::WithinNs(0)), 2_500));
        assert_ne!(piloted(0, 10, &[2, 3]).0, Some(Settling::WithinNs(0)));
        // The long stretch is disturbed beside two that are not.
        assert_eq!(piloted(0, 10, &[0]), (Some(Settling::WithinNs(0)), 1_400));
    }

    #[test]
    fn a_slow_path_has_few_windows() {
        // 40 messages of 5 ms.
        let slow: Vec<Timed> = (0..40).map(|at| (at * 5_000_000, 5e6)).collect();
        assert_eq!(settled(&[slow]).unwrap().at_ns, Some(0));
    }
}
