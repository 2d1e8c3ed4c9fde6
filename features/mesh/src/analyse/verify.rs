//! `verify` of a mesh: every round against its own counts, and every stored number once more from the pairs.

use std::collections::HashSet;

use msgpath_analyse::verify::{Check, Verification, Versions};
use msgpath_present::words::counted;
use serde::Serialize;

use super::MeshSummary;
use crate::record::{Mesh, PairBlock};
use crate::schema::{MeshHeader, PairPurpose, PairRecord, PairRound};

/// Takes in a mesh, block by block.
#[derive(Default)]
pub struct MeshCheck {
    check: Check,
    seen: HashSet<(u32, u32, PairPurpose, u32)>,
    totals: Totals,
}

/// Sums over all rounds. Medians over pairs hide a pair that was changed; these do not.
#[derive(Default, Serialize)]
struct Totals {
    pairs: u64,
    rounds: u64,
    messages: u64,
    lost: u64,
    elapsed_ns: u64,
    /// Of all times in the histograms, modulo 2^64.
    sum_ns: u64,
}

/// What is stored of a mesh: what was printed, and the sums.
#[derive(Serialize)]
struct Stored<'a> {
    #[serde(flatten)]
    summary: &'a MeshSummary,
    totals: &'a Totals,
}

impl MeshCheck {
    /// Takes in a block.
    pub fn take(&mut self, header: &MeshHeader, block: &PairBlock) {
        let PairBlock::Pair(pair) = block else { return };
        self.totals.pairs += 1;
        let named = |what: &str| {
            let (near, far) = (header.host(pair.slot.near), header.host(pair.slot.far));
            format!("{near} to {far}, {:?} {}: {what}", pair.slot.purpose, pair.slot.time)
        };
        if !self.seen.insert(pair.slot.key()) {
            self.check.differ(&named("measurements"), "2".into(), "1".into());
        }
        self.counts(pair, &named);
    }

    fn counts(&mut self, pair: &PairRecord, named: &dyn Fn(&str) -> String) {
        for case in &pair.cases {
            for (at, round) in case.rounds.iter().enumerate() {
                let what = |what: &str| named(&format!("case {}, round {at}: {what}", case.case));
                let (check, totals) = (&mut self.check, &mut self.totals);
                totals.rounds += 1;
                totals.messages = totals.messages.wrapping_add(round.sent);
                totals.lost = totals.lost.wrapping_add(round.lost);
                totals.elapsed_ns = totals.elapsed_ns.wrapping_add(round.elapsed_ns);
                totals.sum_ns = totals.sum_ns.wrapping_add(round.latency.sum() as u64);
                let batch = batch(round);
                let (total, lost) = (round.latency.total() * batch, round.latency.lost() * batch);
                check.same(|| what("messages in the histogram"), total, round.sent);
                check.same(|| what("lost messages in the histogram"), lost, round.lost);
                check.same(|| what("replies"), round.received, round.sent.saturating_sub(round.lost));
            }
        }
    }

    /// What is stored of a mesh whose blocks were taken in, with the summary of them.
    pub fn stored<'a>(&'a self, summary: &'a MeshSummary) -> impl Serialize + 'a {
        Stored { summary, totals: &self.totals }
    }

    /// Compares the stored summary with one that was computed from the same blocks.
    pub fn finish(self, mesh: &Mesh, summary: &MeshSummary, stored: Option<&[u8]>, version: &str) -> Verification {
        let header = &mesh.header;
        let cut_short =
            || mesh.end.is_none().then(|| "it has no end: the program was killed, or is still at it".into());
        let damage = mesh.damage.as_ref().map(ToString::to_string).or_else(cut_short);
        let status = mesh.end.as_ref().map_or(summary.status, |end| end.status);
        let computed = Stored { summary, totals: &self.totals };
        let versions = Versions { written_by: &header.version, checked_by: version };
        let found = self.check.ended(stored, &computed, status, damage, versions);
        let Totals { pairs, rounds, .. } = self.totals;
        let text = format!("{}: histogram and counts against each other", counted(rounds, "round"));
        let compared = vec![("pairs", counted(pairs, "pair")), ("rounds", text)];
        Verification { verb: "mesh".into(), name: header.name.clone(), pairs, rounds, compared, ..found }
    }
}

/// Messages of an entry in the histogram: as many as fit, since a pair does not record it.
fn batch(round: &PairRound) -> u64 {
    (round.sent / round.latency.total().max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use crate::schema::{PairCase, Slot};
    use msgpath_core::schema::{RunEnd, Status};
    use msgpath_core::units::Pieces;
    use msgpath_core::{Case, Histogram, Plan, Workload};

    use msgpath_analyse::verify::Disagreement;

    use super::*;
    use crate::analyse::Fold;

    fn round(ns: u64) -> PairRound {
        let mut latency = Histogram::new();
        (0..10).for_each(|at| latency.record(ns + at * 100));
        latency.record_lost(1);
        let latency = latency.to_sparse();
        PairRound { sent: 22, received: 20, lost: 2, elapsed_ns: 10 * ns, ends: Vec::new(), latency }
    }

    fn mesh() -> (Mesh, Vec<PairBlock>) {
        let header: MeshHeader = serde_json::from_value(serde_json::json!({
            "schema": crate::schema::MESH_SCHEMA, "name": "brisk-otter", "started": "", "command": [],
            "version": "0.1.0", "planned": 3,
            "plan": Plan { rounds: 2, ..Plan::new(Workload::ECHO, vec![Case::new("tcp:send".parse().unwrap(), Pieces::whole(64))]) },
            "launch": msgpath_core::Launch::parse("ssh").unwrap(),
            "hosts": [{ "name": "n1" }, { "name": "n2" }, { "name": "n3" }],
            "order": { "pairs": "all", "retests": 0 },
        }))
        .unwrap();
        let end = RunEnd { header_crc32: Some(1), ..RunEnd::of(Ok(true), "") };
        let pair = |(near, far): (u32, u32)| {
            let rounds = vec![round(20_000 + u64::from(near)), round(21_000)];
            let slot = Slot { near, far, step: near, ..Slot::default() };
            let cases = vec![PairCase { case: 0, rounds, unavailable: None }];
            PairBlock::Pair(Box::new(PairRecord { slot, start_ns: 7, tries: 0, cases }))
        };
        let mesh = Mesh::new("x".into(), header, Some(end));
        (mesh, [(0, 1), (1, 2), (2, 0)].map(pair).into())
    }

    fn stored(mesh: &Mesh, blocks: &[PairBlock]) -> Vec<u8> {
        let mut check = MeshCheck::default();
        blocks.iter().for_each(|block| check.take(&mesh.header, block));
        serde_json::to_vec(&check.stored(&summary(mesh, blocks))).unwrap()
    }

    fn summary(mesh: &Mesh, blocks: &[PairBlock]) -> MeshSummary {
        let mut fold = Fold::new(&[]);
        blocks.iter().for_each(|block| fold.take(block));
        fold.finish(&mesh.header, mesh.end.as_ref(), mesh.damage.as_ref())
    }

    fn verified(mesh: &Mesh, blocks: &[PairBlock], stored: Option<&[u8]>) -> Verification {
        let mut check = MeshCheck::default();
        blocks.iter().for_each(|block| check.take(&mesh.header, block));
        check.finish(mesh, &summary(mesh, blocks), stored, "0.1.0")
    }

    #[track_caller]
    fn found(check: &Verification, what: &str) {
        assert_eq!(check.status, Status::Failed);
        let named = |one: &Disagreement| one.what.contains(what);
        assert!(check.disagreements.iter().any(named), "{what}: {:#?}", check.disagreements);
    }

    #[test]
    fn a_whole_mesh_agrees_with_itself() {
        let (mesh, blocks) = mesh();
        let stored = stored(&mesh, &blocks);
        let check = verified(&mesh, &blocks, Some(&stored));
        assert_eq!((check.status, &check.disagreements[..]), (Status::Ok, &[][..]));
        assert_eq!((check.pairs, check.rounds, check.verb.as_str()), (3, 6, "mesh"));
        assert!(check.numbers > 10, "{}", check.numbers);
    }

    #[test]
    fn a_pair_that_is_missing_doubled_or_changed_is_found() {
        let (mesh, blocks) = mesh();
        let stored = stored(&mesh, &blocks);
        found(&verified(&mesh, &blocks[..2], Some(&stored)), "measured");
        let twice = [&blocks[..], &blocks[..1]].concat();
        found(&verified(&mesh, &twice, Some(&stored)), "n1 to n2, Mesh 0: measurements");
        let changed = |change: &dyn Fn(&mut PairRound)| {
            let mut blocks = blocks.clone();
            let PairBlock::Pair(pair) = &mut blocks[1] else { panic!("a pair") };
            change(&mut pair.cases[0].rounds[1]);
            verified(&mesh, &blocks, Some(&stored))
        };
        found(&changed(&|round| round.sent += 1), "case 0, round 1: messages in the histogram");
        found(&changed(&|round| round.lost = 0), "case 0, round 1: lost messages in the histogram");
        found(&changed(&|round| round.received += 1), "case 0, round 1: replies");
        found(&changed(&|one| one.latency = round(90_000).latency), "totals.sum_ns");
        found(&changed(&|round| round.elapsed_ns += 1), "totals.elapsed_ns");
        found(&verified(&mesh, &blocks, None), "summary.json");
        found(&verified(&mesh, &blocks, Some(b"{")), "summary.json");
    }

    #[test]
    fn a_mesh_without_an_end_is_not_whole() {
        let (mut mesh, blocks) = mesh();
        mesh.end = None;
        let check = verified(&mesh, &blocks, None);
        assert_eq!(check.status, Status::Partial);
        assert!(check.damage.unwrap().contains("no end"));
    }
}
