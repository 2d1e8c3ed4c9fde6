//! How often a mesh in which nothing is slow has a sentence that says `sure`.

use super::*;

/// A standard deviation of one, with the tails of Student's t of three degrees of freedom.
fn heavy(random: &mut fastrand::Rng) -> f64 {
    let squares: f64 = (0..3).map(|_| normal(random).powi(2)).sum();
    normal(random) / (squares / 3.0).sqrt() / 3_f64.sqrt()
}

/// A mesh without a plant as meshes are: hosts and links differ by some percent, measurements scatter with heavy tails, something
/// passes now and then, whole steps are slower, round trips stall.
struct Healthy {
    hosts: u32,
    per_rack: u32,
    spread: f64,
    seed: u64,
}

impl Healthy {
    /// A number of this mesh for a host, link or step.
    fn fixed(&self, what: u64) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed.wrapping_mul(0x9e37_79b9) ^ what.wrapping_mul(0x85eb_ca6b_c2b2_ae35))
    }

    fn summary(&self) -> (MeshHeader, MeshSummary) {
        let some = |what: u64| 0.02 * normal(&mut self.fixed(what)).clamp(-2.0, 2.0);
        let host = |at: u32| some(1 + u64::from(at));
        let link = |a: u32, b: u32| some(1_000 + u64::from(a * 100 + b));
        let scatter = |random: &mut fastrand::Rng, slot: &Slot| {
            let step = (slot.near + slot.far) % (self.hosts - 1);
            let step = if slot.purpose == PairPurpose::Mesh { step } else { step + 1_000 * (1 + slot.time) };
            let slow_step = if self.fixed(50_000 + u64::from(step)).f64() < 0.03 { 0.3 } else { 0.0 };
            let passes = random.f64() < 0.02;
            let passing = if passes { 0.2 + random.f64() } else { 0.0 };
            self.spread * heavy(random) + slow_step + passing
        };
        let slower = |random: &mut fastrand::Rng, _: &Slot| {
            let tail = (3e6 * (0.3 * heavy(random)).exp()) as u64;
            let stall = if random.f64() < 0.2 { vec![(random.u64(5_000_000..60_000_000), 1)] } else { Vec::new() };
            [vec![(tail, 40)], stall].concat()
        };
        let truth = Truth {
            hosts: self.hosts,
            per_rack: self.per_rack,
            racks: self.per_rack > 0,
            noise: 0.0,
            host: &host,
            link: &link,
            messages: 2_000,
            scatter: &scatter,
            slower: &slower,
            ..Truth::default()
        };
        (truth.header(), truth.summary(self.seed).0)
    }
}

/// The sentences of this many meshes that say `sure`, of pairs of them in time as well; one line each.
fn sure(meshes: u64, hosts: u32, per_rack: u32, spread: f64) -> Vec<String> {
    let mut said = Vec::new();
    let mut before: Option<(MeshHeader, MeshSummary)> = None;
    for seed in 0..meshes {
        let mesh = Healthy { hosts, per_rack, spread, seed }.summary();
        let mut findings = mesh.1.findings.clone();
        if let Some(before) = &before {
            findings.extend(diff((&before.0, &before.1), (&mesh.0, &mesh.1)).findings);
        }
        let sure: Vec<Finding> = findings.into_iter().filter(|one| one.confidence == Confidence::Sure).collect();
        if !sure.is_empty() {
            said.push(format!("{seed}: {:?}", sure.iter().map(|one| (&one.code, &one.text)).collect::<Vec<_>>()));
        }
        before = Some(mesh);
    }
    said
}

#[test]
fn at_most_one_of_two_hundred_healthy_meshes_has_a_false_sure_sentence() {
    for (per_rack, spread) in [(0, 0.05), (0, 0.2), (2, 0.05), (2, 0.2)] {
        let said = sure(200, 8, per_rack, spread);
        println!("racks of {per_rack}, spread {spread}: {} of 200 meshes", said.len());
        assert!(said.len() <= 1, "racks of {per_rack}, spread {spread}: {:#?}", &said[..said.len().min(9)]);
    }
}

#[test]
fn larger_meshes_have_no_more_of_them() {
    for per_rack in [0, 8] {
        let said = sure(25, 32, per_rack, 0.1);
        assert!(said.is_empty(), "racks of {per_rack}: {:#?}", &said[..said.len().min(4)]);
    }
}
