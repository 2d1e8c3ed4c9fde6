//! Who is measured with whom, and when: pairs, each with a near and a far end, in steps in which nothing is used beyond what
//! it takes.
//!
//! The full mesh is the circle method: with m hosts (one of them nobody where their number is odd) pair (a, b) belongs to
//! round a + b mod m - 1, and the pairs of a round have no host in common. Any set of pairs is put into steps in the order
//! of these rounds, each into the first step that has room: the full mesh without limits takes just its rounds so, and what
//! limits, racks, files or a resumption leave takes little more than it must (`tests` compare with the lower bound).

use std::collections::{BTreeMap, BTreeSet};

use msgpath_core::shuffle::{SplitMix64, order};

use crate::hosts_file::{Limit, Of};
use crate::schema::{Directions, LEAST_PARTNERS, MAX_PAIRS, MeshOrder, PairPurpose, Pairs, Slot};

/// Draws of a sample before it is given up to connect all hosts.
const DRAWS: u32 = 32;

/// The number of rounds of a full mesh: even hosts n - 1, odd ones n.
pub fn rounds(hosts: u32) -> u32 {
    hosts.next_multiple_of(2).saturating_sub(1)
}

/// The round of a pair.
fn round_of(a: u32, b: u32, rounds: u32) -> u32 {
    let (low, high) = (u64::from(a.min(b)), u64::from(a.max(b)));
    let sum = if high == u64::from(rounds) { 2 * low } else { low + high };
    (sum % u64::from(rounds.max(1))) as u32
}

fn pairs_of(round: u32, hosts: u32) -> impl Iterator<Item = (u32, u32)> {
    let rounds = rounds(hosts);
    // Who would meet itself meets the host that the circle goes around, if there is one.
    let partner = move |a: u32| match (u64::from(round) + u64::from(rounds) - u64::from(a)) % u64::from(rounds) {
        itself if itself == u64::from(a) => rounds,
        other => other as u32,
    };
    let circle = 0..rounds.min(hosts);
    circle.map(move |a| (a, partner(a))).filter(move |(a, b)| a < b && *b < hosts)
}

/// The pairs that are asked for, near end first, in the order of the circle's rounds.
///
/// # Errors
/// What does not fit the hosts.
pub fn pairs(wanted: &MeshOrder, racks: &[Option<&str>], seed: u64) -> Result<Vec<(u32, u32)>, String> {
    let hosts = racks.len() as u32;
    if hosts < 2 {
        return Err("a mesh has two hosts or more".into());
    }
    // Neighbours in the list are not neighbours on the circle.
    let label: Vec<u32> = order(seed, 0, racks.len()).into_iter().map(|at| at as u32).collect();
    let all = u64::from(hosts) * u64::from(hosts - 1) / 2;
    let most = |count: u64| match count > MAX_PAIRS as u64 {
        true => Err(format!("{count} pairs; the limit is {MAX_PAIRS}: --pairs k:24 is enough to find slow hosts")),
        false => Ok(()),
    };
    let named = |(a, b): (u32, u32)| (label[a as usize], label[b as usize]);
    let mut found: Vec<(u32, u32)> = match &wanted.pairs {
        Pairs::All => {
            most(all)?;
            (0..rounds(hosts)).flat_map(|round| pairs_of(round, hosts)).map(named).collect()
        }
        Pairs::Sample { partners } => {
            if *partners < LEAST_PARTNERS {
                return Err(format!("k:{partners}: with fewer than {LEAST_PARTNERS} partners a host cannot be judged"));
            }
            most(u64::from(hosts) * u64::from(*partners) / 2)?;
            let mut drawn = (0..DRAWS).map(|draw| sample(hosts, *partners, seed, draw));
            let whole = drawn.find(|pairs| joins_all(hosts, pairs));
            whole.ok_or("no sample of so few partners connects all hosts")?.into_iter().map(named).collect()
        }
        Pairs::Racks => of_racks(racks)?,
        Pairs::Listed { pairs } => pairs.clone(),
    };
    most(found.len() as u64)?;
    if !matches!(wanted.pairs, Pairs::Listed { .. }) {
        face(&mut found, hosts);
    }
    if wanted.directions == Directions::Both {
        let there: BTreeSet<(u32, u32)> = found.iter().copied().collect();
        let back = found.iter().map(|(near, far)| (*far, *near)).filter(|pair| !there.contains(pair));
        let back: Vec<_> = back.collect();
        found.extend(back);
        most(found.len() as u64)?;
    }
    let mut place = vec![0; racks.len()];
    label.iter().enumerate().for_each(|(at, host)| place[*host as usize] = at as u32);
    let rounds = rounds(hosts);
    found.sort_by_cached_key(|(a, b)| round_of(place[*a as usize], place[*b as usize], rounds));
    Ok(found)
}

/// So many rounds of the circle, drawn at random.
fn sample(hosts: u32, partners: u32, seed: u64, draw: u32) -> Vec<(u32, u32)> {
    let drawn = order(seed, draw + 1, rounds(hosts) as usize);
    drawn.into_iter().take(partners as usize).flat_map(|round| pairs_of(round as u32, hosts)).collect()
}

/// Whether every host can be compared with every other: there is a way from each to each, of an even and of an odd number
/// of pairs. Without the latter hosts fall into two camps that are only compared among themselves.
fn joins_all(hosts: u32, pairs: &[(u32, u32)]) -> bool {
    let mut others = vec![Vec::new(); hosts as usize];
    for (a, b) in pairs {
        others[*a as usize].push(*b);
        others[*b as usize].push(*a);
    }
    let mut camp: Vec<Option<bool>> = vec![None; hosts as usize];
    let (mut next, mut seen, mut odd) = (vec![0_u32], 1, false);
    camp[0] = Some(false);
    while let Some(host) = next.pop() {
        for other in &others[host as usize] {
            match camp[*other as usize] {
                None => {
                    camp[*other as usize] = camp[host as usize].map(|camp| !camp);
                    seen += 1;
                    next.push(*other);
                }
                same => odd |= same == camp[host as usize],
            }
        }
    }
    seen == hosts && (odd || hosts == 2)
}

/// In a rack each with each; between racks the first with the first, the second with the second.
fn of_racks(racks: &[Option<&str>]) -> Result<Vec<(u32, u32)>, String> {
    let mut by_rack: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (host, rack) in (0..).zip(racks) {
        by_rack.entry(rack.ok_or("--pairs racks needs the rack of every host")?).or_default().push(host);
    }
    let racks: Vec<_> = by_rack.into_values().collect();
    let mut pairs = Vec::new();
    for (at, rack) in racks.iter().enumerate() {
        for (first, a) in rack.iter().enumerate() {
            pairs.extend(rack[first + 1..].iter().map(|b| (*a, *b)));
        }
        for other in &racks[at + 1..] {
            pairs.extend(rack.iter().copied().zip(other.iter().copied()));
        }
        if pairs.len() > MAX_PAIRS {
            return Err(format!("more than {MAX_PAIRS} pairs"));
        }
    }
    Ok(pairs)
}

/// Says who is near, so that each host is near in half of its pairs, or in one more or less: along closed walks over all
/// pairs, in which who has an odd number of them meets nobody once.
fn face(pairs: &mut [(u32, u32)], hosts: u32) {
    let mut edges: Vec<(u32, u32)> = pairs.to_vec();
    let mut others: Vec<Vec<usize>> = vec![Vec::new(); hosts as usize + 1];
    for (at, (a, b)) in edges.iter().enumerate() {
        others[*a as usize].push(at);
        others[*b as usize].push(at);
    }
    for host in 0..hosts {
        if others[host as usize].len() % 2 == 1 {
            others[host as usize].push(edges.len());
            others[hosts as usize].push(edges.len());
            edges.push((host, hosts));
        }
    }
    let mut walked = vec![false; edges.len()];
    for start in 0..=hosts {
        let mut at = start;
        while let Some(edge) = others[at as usize].pop() {
            if std::mem::replace(&mut walked[edge], true) {
                continue;
            }
            let (a, b) = edges[edge];
            let to = if at == a { b } else { a };
            if let Some(pair) = pairs.get_mut(edge) {
                *pair = (at, to);
            }
            at = to;
        }
    }
}

/// What the pairs of a step share, and how many of them at a time each thing takes.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    capacity: Vec<u32>,
    /// What each host needs in every pair.
    of_host: Vec<Vec<u32>>,
    /// What it needs beside that in pairs with another rack.
    leaving: Vec<Vec<u32>>,
    /// What every pair needs.
    of_all: Vec<u32>,
    rack: Vec<Option<u32>>,
}

/// A host as far as the schedule goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sharing<'a> {
    pub rack: Option<&'a str>,
    /// A network device that it shares.
    pub nic: Option<&'a str>,
    /// Its machine, and how many pairs at a time that bears; `None`: one to itself.
    pub machine: Option<(&'a str, u32)>,
}

impl Resources {
    /// Those of these hosts.
    pub fn new(hosts: &[Sharing<'_>], limits: &[Limit], parallel: Option<u32>) -> Self {
        let mut own = Self::default();
        let mut shared: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        let mut racks: BTreeMap<&str, u32> = BTreeMap::new();
        for host in hosts {
            let mut needs = vec![own.thing(1)];
            let nic = host.nic.map(|nic| ("nic", nic, 1));
            for (kind, name, pairs) in nic.into_iter().chain(host.machine.map(|(name, pairs)| ("machine", name, pairs)))
            {
                needs.push(*shared.entry((kind, name)).or_insert_with(|| own.thing(pairs)));
            }
            own.of_host.push(needs);
            let known = racks.len() as u32;
            own.rack.push(host.rack.map(|rack| *racks.entry(rack).or_insert(known)));
        }
        own.leaving = vec![Vec::new(); hosts.len()];
        for limit in limits {
            match limit.of {
                Of::Mesh => {
                    let thing = own.thing(limit.pairs);
                    own.of_all.push(thing);
                }
                Of::Rack => {
                    let first = own.capacity.len() as u32;
                    for _ in &racks {
                        own.thing(limit.pairs);
                    }
                    let rack = own.rack.clone();
                    let leaving = own.leaving.iter_mut().zip(rack);
                    leaving.for_each(|(leaving, rack)| leaving.extend(rack.map(|rack| first + rack)));
                }
            }
        }
        if let Some(pairs) = parallel {
            let thing = own.thing(pairs);
            own.of_all.push(thing);
        }
        own
    }

    fn thing(&mut self, pairs: u32) -> u32 {
        self.capacity.push(pairs.max(1));
        self.capacity.len() as u32 - 1
    }

    /// What a pair needs: each thing once, and a rack's uplink of both racks.
    fn needs(&self, slot: &Slot) -> Vec<u32> {
        let (near, far) = (slot.near as usize, slot.far as usize);
        let mut needs = self.of_all.clone();
        needs.extend(self.of_host[near].iter().chain(&self.of_host[far]));
        if self.rack[near] != self.rack[far] {
            needs.extend(self.leaving[near].iter().chain(&self.leaving[far]));
        }
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    /// The fewest steps that any schedule of these takes.
    pub fn fewest(&self, slots: &[Slot]) -> u32 {
        let mut used = vec![0_u32; self.capacity.len()];
        slots.iter().flat_map(|slot| self.needs(slot)).for_each(|thing| used[thing as usize] += 1);
        used.iter().zip(&self.capacity).map(|(used, pairs)| used.div_ceil(*pairs)).max().unwrap_or(0)
    }
}

/// One thing: in which steps it is full.
#[derive(Default)]
struct Thing {
    /// A bit a step.
    full: Vec<u64>,
    used: Vec<u32>,
    /// Before this word all steps are full.
    begin: usize,
}

impl Thing {
    fn take(&mut self, step: usize, capacity: u32) {
        if capacity > 1 {
            self.used.resize(self.used.len().max(step + 1), 0);
            self.used[step] += 1;
        }
        if capacity == 1 || self.used[step] == capacity {
            self.full.resize(self.full.len().max(step / 64 + 1), 0);
            self.full[step / 64] |= 1 << (step % 64);
            while self.full.get(self.begin) == Some(&u64::MAX) {
                self.begin += 1;
            }
        }
    }
}

/// Puts these into steps, in their order: each into the first that has room. A slot comes out with the number of its step,
/// counted from `first`.
fn pack(slots: &[Slot], resources: &Resources) -> Vec<Vec<Slot>> {
    let mut things: Vec<Thing> = resources.capacity.iter().map(|_| Thing::default()).collect();
    let mut steps: Vec<Vec<Slot>> = Vec::new();
    for slot in slots {
        let needs = resources.needs(slot);
        let mut word = needs.iter().map(|thing| things[*thing as usize].begin).max().unwrap_or(0);
        let step = loop {
            let full = |thing: &u32| things[*thing as usize].full.get(word).copied().unwrap_or(0);
            match needs.iter().map(full).fold(0, |all, one| all | one) {
                u64::MAX => word += 1,
                taken => break word * 64 + taken.trailing_ones() as usize,
            }
        };
        for thing in &needs {
            things[*thing as usize].take(step, resources.capacity[*thing as usize]);
        }
        if steps.len() <= step {
            steps.resize_with(step + 1, Vec::new);
        }
        steps[step].push(*slot);
    }
    steps
}

/// Puts these into steps, in which nothing is used beyond what it takes. The steps are in random order, so that the time of
/// day does not look like a host; they are numbered from `first`.
pub fn steps(slots: &[Slot], resources: &Resources, seed: u64, first: u32) -> Vec<Vec<Slot>> {
    let fewest = resources.fewest(slots) as usize;
    let mut best = pack(slots, resources);
    if best.len() > fewest {
        // What needs most of what is scarce goes first.
        let mut used = vec![0_f64; resources.capacity.len()];
        for slot in slots {
            resources.needs(slot).into_iter().for_each(|thing| used[thing as usize] += 1.0);
        }
        let load = |thing: u32| used[thing as usize] / f64::from(resources.capacity[thing as usize]);
        let scarce = |slot: &Slot| resources.needs(slot).into_iter().map(load).fold(0.0, f64::max);
        let mut sorted: Vec<(f64, Slot)> = slots.iter().map(|slot| (scarce(slot), *slot)).collect();
        sorted.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let sorted: Vec<Slot> = sorted.into_iter().map(|(_, slot)| slot).collect();
        let other = pack(&sorted, resources);
        if other.len() < best.len() {
            best = other;
        }
    }
    let mut random = SplitMix64::new(seed ^ 0x6d65_7368);
    for at in (1..best.len()).rev() {
        best.swap(at, random.below(at + 1));
    }
    for (step, slots) in (first..).zip(&mut best) {
        slots.iter_mut().for_each(|slot| slot.step = step);
    }
    best
}

/// The share of the pairs that is measured once more alone, one a step, drawn at random.
pub fn alone(pairs: &[(u32, u32)], ppm: u32, seed: u64) -> Vec<Slot> {
    let count = (pairs.len() as u64 * u64::from(ppm)).div_ceil(1_000_000) as usize;
    let drawn = order(seed, u32::MAX, pairs.len()).into_iter().take(count);
    drawn.map(|at| slot(pairs[at], PairPurpose::Alone, 0)).collect()
}

/// A slot that has no step yet.
pub fn slot((near, far): (u32, u32), purpose: PairPurpose, time: u32) -> Slot {
    Slot { near, far, purpose, time, step: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wanted(pairs: Pairs) -> MeshOrder {
        MeshOrder { pairs, directions: Directions::One, parallel: None, limits: Vec::new(), retests: 2, alone_ppm: 0 }
    }

    fn slots(pairs: &[(u32, u32)]) -> Vec<Slot> {
        pairs.iter().map(|pair| slot(*pair, PairPurpose::Mesh, 0)).collect()
    }

    fn plain(hosts: u32) -> Vec<Sharing<'static>> {
        vec![Sharing::default(); hosts as usize]
    }

    /// No thing is used beyond its capacity, nothing is lost, and the steps are numbered.
    fn is_sound(steps: &[Vec<Slot>], slots: &[Slot], resources: &Resources, first: u32) {
        let mut found: Vec<_> = Vec::new();
        for (number, step) in (first..).zip(steps) {
            let mut used = vec![0; resources.capacity.len()];
            assert!(!step.is_empty());
            for slot in step {
                assert_eq!(slot.step, number);
                resources.needs(slot).into_iter().for_each(|thing| used[thing as usize] += 1);
                found.push(slot.key());
            }
            assert!(used.iter().zip(&resources.capacity).all(|(used, most)| used <= most), "{step:?}");
        }
        let mut asked: Vec<_> = slots.iter().map(Slot::key).collect();
        found.sort_unstable();
        asked.sort_unstable();
        assert_eq!(found, asked);
    }

    fn degrees(pairs: &[(u32, u32)], hosts: u32) -> Vec<(u32, u32)> {
        let mut all = vec![(0, 0); hosts as usize];
        for (near, far) in pairs {
            all[*near as usize].0 += 1;
            all[*far as usize].1 += 1;
        }
        all
    }

    #[test]
    fn a_full_mesh_takes_the_rounds_of_the_circle() {
        for (hosts, fewest) in [(2, 1), (3, 3), (4, 3), (5, 5), (8, 7), (33, 33), (200, 199)] {
            let found = pairs(&wanted(Pairs::All), &vec![None; hosts as usize], 7).unwrap();
            let each: BTreeSet<_> = found.iter().map(|(a, b)| (a.min(b), a.max(b))).collect();
            assert_eq!((found.len(), each.len() as u32), (each.len(), hosts * (hosts - 1) / 2), "{hosts}");
            let resources = Resources::new(&plain(hosts), &[], None);
            let steps = steps(&slots(&found), &resources, 7, 0);
            is_sound(&steps, &slots(&found), &resources, 0);
            assert_eq!(steps.len(), fewest, "{hosts}");
            assert!(degrees(&found, hosts).iter().all(|(near, far)| near.abs_diff(*far) <= 1), "{hosts}");
        }
    }

    #[test]
    fn narrow_uplinks_take_little_more_steps_than_they_must() {
        let names: Vec<String> = (0..8).map(|rack| format!("r{rack}")).collect();
        let racks: Vec<Option<&str>> = (0..64).map(|host| Some(names[host / 8].as_str())).collect();
        let hosts: Vec<_> = racks.iter().map(|rack| Sharing { rack: *rack, ..Sharing::default() }).collect();
        let found = slots(&pairs(&wanted(Pairs::All), &racks, 3).unwrap());
        for (uplink, fewest) in [(8, 63), (4, 112), (2, 224), (1, 448)] {
            let limit = Limit { name: "uplink".into(), of: Of::Rack, pairs: uplink };
            let resources = Resources::new(&hosts, &[limit], None);
            let steps = steps(&found, &resources, 3, 10);
            is_sound(&steps, &found, &resources, 10);
            println!("uplink {uplink}: {} steps of at least {}", steps.len(), resources.fewest(&found));
            assert_eq!(resources.fewest(&found), fewest);
            assert!(steps.len() as u32 <= fewest + fewest * 8 / 100, "uplink {uplink}: {} steps", steps.len());
        }
    }

    #[test]
    fn a_sample_gives_every_host_its_partners_and_connects_all() {
        for (hosts, partners) in [(1_000, 24), (101, 8), (10, 4), (12, 99), (15, 14)] {
            let found = pairs(&wanted(Pairs::Sample { partners }), &vec![None; hosts as usize], 1).unwrap();
            let each: BTreeSet<_> = found.iter().map(|(a, b)| (a.min(b), a.max(b))).collect();
            assert_eq!(each.len(), found.len());
            let least = partners.min(hosts - 1) - hosts % 2;
            let degrees = degrees(&found, hosts);
            assert!(
                degrees.iter().all(|(near, far)| (least..=partners).contains(&(near + far))),
                "{hosts} {degrees:?}"
            );
            assert!(degrees.iter().all(|(near, far)| near.abs_diff(*far) <= 1));
            assert!(joins_all(hosts, &found));
            let resources = Resources::new(&plain(hosts), &[], None);
            assert!(steps(&slots(&found), &resources, 1, 0).len() as u32 <= partners.min(rounds(hosts)));
        }
        assert!(pairs(&wanted(Pairs::Sample { partners: 3 }), &[None; 20], 1).is_err());
        assert!(!joins_all(4, &[(0, 1), (2, 3)]) && !joins_all(4, &[(0, 1), (1, 2), (2, 3), (3, 0)]));
    }

    #[test]
    fn racks_meet_host_by_host() {
        let racks = [Some("a"), Some("a"), Some("b"), Some("b"), Some("b")];
        let found = pairs(&wanted(Pairs::Racks), &racks, 1).unwrap();
        let each: BTreeSet<_> = found.iter().map(|(a, b)| (*a.min(b), *a.max(b))).collect();
        assert_eq!(each, BTreeSet::from([(0, 1), (2, 3), (2, 4), (3, 4), (0, 2), (1, 3)]));
        assert!(pairs(&wanted(Pairs::Racks), &[Some("a"), None], 1).is_err());
    }

    #[test]
    fn both_directions_are_two_slots_in_two_steps() {
        let both = MeshOrder { directions: Directions::Both, ..wanted(Pairs::All) };
        let found = pairs(&both, &[None; 5], 1).unwrap();
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), 20);
        let resources = Resources::new(&plain(5), &[], None);
        is_sound(&steps(&slots(&found), &resources, 1, 0), &slots(&found), &resources, 0);
    }

    #[test]
    fn a_seed_reproduces_the_schedule_and_another_one_does_not() {
        let made = |seed| {
            let found = pairs(&wanted(Pairs::All), &[None; 12], seed).unwrap();
            steps(&slots(&found), &Resources::new(&plain(12), &[], None), seed, 0)
        };
        assert_eq!(made(4), made(4));
        assert_ne!(made(4), made(5));
    }

    #[test]
    fn a_share_is_measured_alone() {
        let found = pairs(&wanted(Pairs::All), &[None; 20], 1).unwrap();
        let drawn = alone(&found, 50_000, 1);
        let each: BTreeSet<_> = drawn.iter().map(Slot::key).collect();
        assert_eq!((drawn.len(), each.len()), (10, 10));
        let one = Resources::new(&plain(20), &[], Some(1));
        assert_eq!(steps(&drawn, &one, 1, 0).len(), 10);
    }

    proptest! {
        #[test]
        fn nothing_is_used_beyond_what_it_takes(
            hosts in 2_u32..40, seed: u64, parallel in prop::option::of(1_u32..6), uplink in 1_u32..4,
            racks in 1_u32..5, nics in 1_u32..20, of_machine in 1_u32..4, both: bool, keep in 0.0_f64..1.0,
        ) {
            let names: Vec<[String; 3]> =
                (0..hosts).map(|at| [format!("r{}", at % racks), format!("{}", at % nics), format!("m{}", at / 3)]).collect();
            let shared: Vec<_> = names.iter().map(|[rack, nic, machine]| Sharing {
                rack: Some(rack), nic: Some(nic), machine: Some((machine, of_machine)),
            }).collect();
            let racks: Vec<_> = shared.iter().map(|host| host.rack).collect();
            let directions = if both { Directions::Both } else { Directions::One };
            let asked = MeshOrder { directions, ..wanted(Pairs::All) };
            let mut random = SplitMix64::new(seed);
            // Some of them: as a resumption leaves them.
            let left: Vec<_> = pairs(&asked, &racks, seed).unwrap().into_iter()
                .filter(|_| (random.below(1_000) as f64) < keep * 1_000.0).collect();
            let limit = Limit { name: "uplink".into(), of: Of::Rack, pairs: uplink };
            let resources = Resources::new(&shared, &[limit], parallel);
            let slots = slots(&left);
            let steps = steps(&slots, &resources, seed, 3);
            is_sound(&steps, &slots, &resources, 3);
            prop_assert!(steps.len() as u32 >= resources.fewest(&slots));
        }
    }
}
