//! Which of many nodes are slow, from values between pairs of them: y = mu + level + h_a + h_b + e, in logarithms, fitted by
//! medians, so that a few nodes or pairs may be arbitrarily wrong (docs/method/mesh.md).

use msgpath_stats::describe::median;
use msgpath_stats::distributions::{normal_quantile, normal_share, t_quantile};

/// Sweeps at most; they end when nothing moves any more.
const SWEEPS: usize = 40;
/// Nothing moves.
const STILL: f64 = 1e-6;
/// The standard deviation of a normal distribution is so many median deviations.
const NORMAL: f64 = 1.4826;
/// The error of a median is so many times that of a mean.
pub(super) const MEDIAN_ERROR: f64 = 1.2533;
/// A node whose own pairs scatter more than this factor beyond those of all has an error of its own.
const OWN_NOISE: f64 = 1.5;
/// Fewer of them do not tell how they scatter.
const OWN_PAIRS: usize = 8;

/// A value between two nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Between {
    /// One.
    pub a: u32,
    /// The other.
    pub b: u32,
    /// Which kind of pair: the same rack, another rack.
    pub level: u32,
    /// The logarithm of what was measured.
    pub value: f64,
}

/// What a node adds to all of its pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// Logarithm: 0.26 is 1.3 times.
    pub log: f64,
    /// Its standard error.
    pub error: f64,
    /// Pairs that it rests on.
    pub pairs: u32,
    /// Nodes with the same number are compared with each other.
    pub camp: u32,
}

impl Effect {
    /// With this confidence (one-sided) it is at least this, as a logarithm.
    pub fn at_least(&self, confidence: f64) -> f64 {
        self.log - self.quantile(confidence) * self.error
    }

    /// The factor, with its two-sided 95 % interval.
    pub fn factor(&self) -> [f64; 3] {
        let half = self.quantile(0.975) * self.error;
        [self.log - half, self.log, self.log + half].map(f64::exp)
    }

    fn quantile(&self, confidence: f64) -> f64 {
        t_quantile(confidence, f64::from(self.pairs.saturating_sub(1).max(1)))
    }
}

/// The model, fitted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Additive {
    /// Of each node; `None`: no value concerns it.
    pub effects: Vec<Option<Effect>>,
    /// Of each level; `None`: it has no value. The middle one is 0 where there are several.
    pub levels: Vec<Option<f64>>,
    /// What the model does not explain, in the order of the values.
    pub residuals: Vec<f64>,
    /// Their robust standard deviation; infinite where there are no more values than nodes.
    pub spread: f64,
}

/// The median of what is there.
fn middle(values: &mut Vec<f64>) -> f64 {
    let found = if values.is_empty() { 0.0 } else { median(values) };
    values.clear();
    found
}

/// The robust standard deviation of residuals around 0, of which the model has made so many 0: the smallest are theirs. Infinite
/// where no others are left.
fn spread(residuals: impl Iterator<Item = f64>, fitted: usize) -> f64 {
    let mut sizes: Vec<f64> = residuals.map(f64::abs).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    match sizes.get(fitted..) {
        None | Some([]) => f64::INFINITY,
        Some(free) => NORMAL * median(free),
    }
}

/// Fits the model.
///
/// # Panics
/// A value of a node or level that is not there.
pub fn fit(nodes: usize, levels: usize, values: &[Between]) -> Additive {
    let mut of: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for (at, value) in values.iter().enumerate() {
        of[value.a as usize].push(at);
        of[value.b as usize].push(at);
    }
    let (camps, count) = camps(nodes, values, &of);
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); count as usize];
    camps.iter().enumerate().for_each(|(node, camp)| members[*camp as usize].push(node));
    // What all pairs between two camps have in common; both camps of a pair belong to one group.
    let mut common = vec![0.0; count as usize];
    let (mut effect, mut level) = (vec![0.0; nodes], vec![0.0; levels]);
    let mut room = Vec::new();
    // From where each node stands by the middle of its own values: where a slow node is in half of all pairs, the middle of all
    // values lies between the slow and the others.
    for (node, of) in of.iter().enumerate() {
        room.extend(of.iter().map(|at| values[*at].value));
        effect[node] = middle(&mut room);
    }
    for members in &members {
        room.extend(members.iter().map(|node| effect[*node]));
        let centre = middle(&mut room);
        members.iter().for_each(|node| effect[*node] -= centre);
    }
    for (camp, members) in members.iter().enumerate() {
        let rest = |value: &Between| value.value - effect[value.a as usize] - effect[value.b as usize];
        room.extend(members.iter().flat_map(|node| &of[*node]).map(|at| rest(&values[*at])));
        common[camp] = middle(&mut room) / 2.0;
    }
    for _ in 0..SWEEPS {
        let mut moved: f64 = 0.0;
        let shared = |value: &Between, common: &[f64]| {
            common[camps[value.a as usize] as usize] + common[camps[value.b as usize] as usize]
        };
        for node in 0..nodes {
            room.extend(of[node].iter().map(|at| {
                let value = &values[*at];
                let other = if value.a as usize == node { value.b } else { value.a } as usize;
                value.value - shared(value, &common) - level[value.level as usize] - effect[other]
            }));
            let new = if room.is_empty() { 0.0 } else { middle(&mut room) };
            moved = moved.max((new - effect[node]).abs());
            effect[node] = new;
        }
        for (camp, members) in members.iter().enumerate() {
            room.extend(members.iter().map(|node| effect[*node]));
            let centre = middle(&mut room);
            members.iter().for_each(|node| effect[*node] -= centre);
            common[camp] += centre;
        }
        if levels > 1 {
            for (number, own) in level.iter_mut().enumerate() {
                room.extend(values.iter().filter(|value| value.level as usize == number).map(|value| {
                    value.value - shared(value, &common) - effect[value.a as usize] - effect[value.b as usize]
                }));
                let new = if room.is_empty() { 0.0 } else { middle(&mut room) };
                moved = moved.max((new - *own).abs());
                *own = new;
            }
        }
        if moved < STILL {
            break;
        }
    }
    let residual = |value: &Between| {
        let camp = |node: u32| common[camps[node as usize] as usize] + effect[node as usize];
        value.value - camp(value.a) - camp(value.b) - level[value.level as usize]
    };
    let residuals: Vec<f64> = values.iter().map(residual).collect();
    let all = spread(residuals.iter().copied(), of.iter().filter(|of| !of.is_empty()).count());
    let effects = (0..nodes).map(|node| {
        let pairs = of[node].len();
        let own = spread(of[node].iter().map(|at| residuals[*at]), 1);
        let noise = if pairs >= OWN_PAIRS && own > OWN_NOISE * all { own } else { all };
        let error = MEDIAN_ERROR * noise / (pairs as f64).sqrt();
        (pairs > 0).then(|| Effect { log: effect[node], error, pairs: pairs as u32, camp: camps[node] })
    });
    let has = |number: usize| values.iter().any(|value| value.level as usize == number);
    let levels = (0..levels).map(|number| has(number).then(|| level[number])).collect();
    Additive { effects: effects.collect(), levels, spread: all, residuals }
}

/// Nodes that can be compared with each other. Where values connect two camps only, as near and far ends, each camp is
/// compared within itself: what one has more the other may have less.
fn camps(nodes: usize, values: &[Between], of: &[Vec<usize>]) -> (Vec<u32>, u32) {
    let mut side: Vec<Option<(u32, bool)>> = vec![None; nodes];
    let mut odd = Vec::new();
    for start in 0..nodes {
        if side[start].is_some() {
            continue;
        }
        let group = odd.len() as u32;
        odd.push(false);
        side[start] = Some((group, false));
        let mut next = vec![start];
        while let Some(node) = next.pop() {
            let own = side[node].is_some_and(|(_, side)| side);
            for at in &of[node] {
                let other = (values[*at].a ^ values[*at].b ^ node as u32) as usize;
                match side[other] {
                    None => {
                        side[other] = Some((group, !own));
                        next.push(other);
                    }
                    Some((_, its)) => odd[group as usize] |= its == own,
                }
            }
        }
    }
    let camp = |side: &Option<(u32, bool)>| {
        let (group, side) = side.unwrap_or_default();
        2 * group + u32::from(side && !odd[group as usize])
    };
    (side.iter().map(camp).collect(), 2 * odd.len() as u32)
}

/// How likely a node is found that is slower by this factor, with so many pairs that scatter so (standard deviation of the
/// logarithm): its bound of the given confidence lies above `least` times.
pub fn power(factor: f64, least: f64, confidence: f64, pairs: u32, spread: f64) -> f64 {
    let error = MEDIAN_ERROR * spread / f64::from(pairs.max(1)).sqrt();
    let bound = t_quantile(confidence, f64::from(pairs.saturating_sub(1).max(1)));
    if error <= 0.0 {
        return if factor > least { 1.0 } else { 0.0 };
    }
    normal_share((factor.ln() - least.ln()) / error - bound)
}

/// The smallest factor that is found with this power.
pub fn detectable(power: f64, least: f64, confidence: f64, pairs: u32, spread: f64) -> f64 {
    let error = MEDIAN_ERROR * spread / f64::from(pairs.max(1)).sqrt();
    let bound = t_quantile(confidence, f64::from(pairs.saturating_sub(1).max(1)));
    least * ((bound + normal_quantile(power)) * error).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_stats::simulate::normal;

    /// So many nodes in a ring of neighbours up to `reach` away, with noise, and the pairs' values.
    fn ring(nodes: u32, reach: u32, noise: f64, seed: u64, effect: impl Fn(u32) -> f64) -> Vec<Between> {
        let mut random = fastrand::Rng::with_seed(seed);
        let pairs = (0..nodes).flat_map(|a| (1..=reach).map(move |step| (a, (a + step) % nodes)));
        pairs
            .map(|(a, b)| {
                let disturbed = if random.f64() < 0.01 { 1.0 } else { 0.0 };
                let value = 3.0 + effect(a) + effect(b) + noise * normal(&mut random) + disturbed;
                Between { a, b, level: 0, value }
            })
            .collect()
    }

    #[test]
    fn a_model_without_noise_is_found() {
        let effect = |node: u32| if node == 3 { 2.0 } else { 0.01 * f64::from(node % 3) };
        let all: Vec<Between> = (0..8_u32)
            .flat_map(|a| (a + 1..8).map(move |b| (a, b)))
            .map(|(a, b)| {
                let level = u32::from(a / 4 != b / 4);
                Between { a, b, level, value: 1.0 + effect(a) + effect(b) + 0.5 * f64::from(level) }
            })
            .collect();
        let fitted = fit(9, 3, &all);
        assert!(fitted.residuals.iter().all(|residual| residual.abs() < 0.02), "{:?}", fitted.residuals);
        let of = |node: usize| fitted.effects[node].unwrap();
        assert!((of(3).log - of(0).log - 2.0).abs() < 0.03);
        let [same, other, nobody] = fitted.levels[..] else { panic!("three levels") };
        assert!((other.unwrap() - same.unwrap() - 0.5).abs() < 0.03 && nobody.is_none());
        assert!(fitted.effects[8].is_none());
    }

    #[test]
    fn a_slow_node_does_not_make_its_partners_slow() {
        let all: Vec<Between> = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
            .into_iter()
            .enumerate()
            .map(|(at, (a, b))| {
                let slow = if a == 2 || b == 2 { 2.6 } else { 0.0 };
                Between { a, b, level: 0, value: 3.5 + slow + 0.02 * (at % 3) as f64 }
            })
            .collect();
        let fitted = fit(4, 1, &all);
        let log = |node: usize| fitted.effects[node].unwrap().log;
        assert!((log(2) - log(0) - 2.6).abs() < 0.1, "{:?}", fitted.effects);
        let sure: Vec<bool> = fitted.effects.iter().map(|one| one.unwrap().at_least(0.99) > 1.1_f64.ln()).collect();
        assert_eq!(sure, [false, false, true, false], "{:?}", fitted.effects);
    }

    #[test]
    fn two_camps_are_compared_within_themselves() {
        let all: Vec<Between> = (0..5_u32)
            .flat_map(|a| (5..10_u32).map(move |b| (a, b)))
            .map(|(a, b)| Between {
                a,
                b,
                level: 0,
                value: if a == 1 { 1.0 } else { 0.0 } + if b == 7 { 0.4 } else { 0.0 },
            })
            .collect();
        let fitted = fit(10, 1, &all);
        let log = |node: usize| fitted.effects[node].unwrap().log;
        assert!(
            (log(1) - 1.0).abs() < 1e-6 && (log(7) - 0.4).abs() < 1e-6 && log(0).abs() < 1e-6 && log(5).abs() < 1e-6
        );
        assert_ne!(fitted.effects[0].unwrap().camp, fitted.effects[5].unwrap().camp);
    }

    #[test]
    fn twenty_four_partners_find_a_host_that_is_1_3_times_slower() {
        // docs/method/mesh.md#power: 1.3 times with noise of 10 %: 98 % at k = 24 and more; no false one in thousands.
        let slow = |node: u32| if node.is_multiple_of(10) { 1.3_f64.ln() } else { 0.0 };
        let (mut found, mut wrong, mut of) = (0, 0, 0);
        for seed in 0..2 {
            let fitted = fit(300, 1, &ring(300, 12, 0.1, seed, slow));
            assert!((0.09..0.11).contains(&fitted.spread), "{}", fitted.spread);
            for (node, effect) in (0..).zip(&fitted.effects) {
                let sure = effect.unwrap().at_least(0.99) > 1.1_f64.ln();
                of += u32::from(slow(node) > 0.0);
                found += u32::from(sure && slow(node) > 0.0);
                wrong += u32::from(sure && slow(node) == 0.0);
            }
        }
        assert!(found * 100 >= of * 98 && wrong == 0, "{found} of {of}, {wrong} wrong");
    }

    #[test]
    fn the_power_that_is_said_is_the_power_that_there_is() {
        let text = power(1.2, 1.1, 0.99, 24, 0.1);
        let slow = |node: u32| if node.is_multiple_of(50) { 1.2_f64.ln() } else { 0.0 };
        let (mut found, mut of) = (0, 0);
        for seed in 10..30 {
            for (node, effect) in (0..).zip(fit(300, 1, &ring(300, 12, 0.1, seed, slow)).effects) {
                of += u32::from(slow(node) > 0.0);
                found += u32::from(slow(node) > 0.0 && effect.unwrap().at_least(0.99) > 1.1_f64.ln());
            }
        }
        let is = f64::from(found) / f64::from(of);
        assert!((text - is).abs() < 0.12, "said {text}, is {is}");
        let least = detectable(0.98, 1.1, 0.99, 24, 0.1);
        assert!((1.2..1.3).contains(&least) && (power(least, 1.1, 0.99, 24, 0.1) - 0.98).abs() < 0.01, "{least}");
        assert!(power(1.3, 1.1, 0.99, 24, 0.0) == 1.0 && power(1.05, 1.1, 0.99, 24, 0.0) == 0.0);
    }
}
