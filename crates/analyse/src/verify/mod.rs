//! Does the record still say what was printed? Every round against its own counts, histograms and quantiles against the
//! single messages, and every number of the stored summary against one computed again (docs/method/two-runs.md#verify).

mod check;
mod rebuilt;

use std::collections::BTreeSet;

use msgpath_core::plan::Plan;
use msgpath_core::schema::{FAR, NEAR, RoundRecord};
use msgpath_core::units::three_digits;
use msgpath_record::{Messages, Run};

pub use check::{Check, Disagreement, SCHEMA, Verification, Versions};
pub use rebuilt::Rebuilt;
use rebuilt::{Tally, quantiles};

use crate::series::{receiver, sender};
use crate::summary::CaseSummary;
use crate::{Logs, section, summarise_with};

/// Checks a run without logs beside its messages: as [`verify_with`].
pub fn verify(run: &Run, messages: &dyn Messages, stored: Option<&[u8]>, version: &str) -> Verification {
    verify_with(run, messages, &Logs::default(), stored, version)
}

/// Checks a run. `messages` is its per-message log, `stored` the summary kept beside it, `version` that of this program.
pub fn verify_with(
    run: &Run,
    messages: &dyn Messages,
    logs: &Logs,
    stored: Option<&[u8]>,
    version: &str,
) -> Verification {
    let header = &run.header;
    let killed = || run.end.is_none().then(|| "it has no end: the program was killed, or is still at it".into());
    let mut check = Check::default();
    for round in &run.rounds {
        counts(&header.plan, round, &mut check);
    }
    let summary = summarise_with(run, logs);
    let mut rebuilt = Rebuilt::new(run, &summary.cases, &mut check);
    rebuilt.messages(messages);
    for section in section::all() {
        (section.verify)(run, logs, &mut rebuilt);
    }
    let from_messages = rebuilt.whole;
    let damage = run.damage.as_ref().map(ToString::to_string).or_else(killed);
    let mut cases_from_messages = 0;
    for case in &summary.cases {
        if let Some(rounds) = from_messages.get(&case.case.id).filter(|rounds| rounds.len() as u64 == case.rounds) {
            cases_from_messages += 1;
            let headline = crate::calm::rounds_of(run, &case.case).into_iter().map(|round| round.pass).collect();
            against(case, rounds, &headline, &mut check);
        }
    }
    let mut found = check.ended(
        stored,
        &summary,
        summary.status,
        damage,
        Versions { written_by: &header.version, checked_by: version },
    );
    if run.end.as_ref().is_some_and(|end| end.header_crc32.is_none()) {
        found.notes.push("run.json is not protected: the version that wrote it kept no checksum of it".into());
    }
    let rounds = run.rounds.len() as u64;
    let rounds_from_messages = from_messages.values().map(|rounds| rounds.len() as u64).sum();
    if rounds_from_messages < rounds && header.plan.workload.is_echoed() {
        found.notes.push(format!(
            "{} of {rounds} rounds are not whole in the per-message log, so only their counts were checked",
            rounds - rounds_from_messages
        ));
    }
    Verification {
        verb: header.verb.clone(),
        name: header.name.clone(),
        rounds,
        rounds_from_messages,
        cases_from_messages,
        ..found
    }
}

/// Histograms and both ends' counts of one round against each other.
fn counts(plan: &Plan, round: &RoundRecord, check: &mut Check) {
    let named = |what: &'static str| move || format!("case {}, pass {}: {what}", round.case, round.pass);
    let case = &plan.cases[round.case as usize];
    let reliable = !case.traits.lossy;
    if plan.workload.fans_out {
        // One message reaches many: what was handed over is not what was to be delivered.
        let (near, far) = (&round.near().delivery, round.far());
        check.same(named("messages in the histograms"), round.latency.total() + round.first.total(), near.sent);
        check.same(named("lost messages in the histograms"), round.latency.lost() + round.first.lost(), near.lost);
        check.same(named("messages delivered"), near.received, near.sent.saturating_sub(near.lost));
        check.same(named("messages at the receivers"), far.delivery.received, near.received);
        check.same(named("bytes received"), far.bytes_received, near.received * case.size);
        return;
    }
    if !plan.workload.timed {
        let (sender, receiver) = (sender(plan, round), receiver(plan, round));
        check.same(named("bytes sent"), sender.bytes_sent, sender.delivery.sent * case.size);
        let timed = receiver.delivery.received.saturating_sub(receiver.untimed);
        check.same(named("bytes received"), receiver.bytes_received, timed * case.size);
        if reliable {
            check.same(named("messages received"), receiver.delivery.received, sender.delivery.sent);
        }
        return;
    }
    let near = round.near();
    if !plan.workload.one_size {
        // Calls of one kind differ in length, and those that only a server's log has are in no histogram.
        check.same(named("lost calls in the histogram"), round.latency.lost(), near.delivery.lost);
        check.same(named("replies"), near.delivery.received, near.delivery.sent.saturating_sub(near.delivery.lost));
        return;
    }
    let batch = u64::from(round.batch.max(1));
    check.same(named("messages in the histogram"), round.latency.total() * batch, near.delivery.sent);
    check.same(named("lost messages in the histogram"), round.latency.lost() * batch, near.delivery.lost);
    check.same(named("replies"), near.delivery.received, near.delivery.sent.saturating_sub(near.delivery.lost));
    let (there, back) = (round.flow(NEAR, FAR), round.flow(FAR, NEAR));
    let [size, reply] = if case.has_size() { [case.size, case.reply] } else { [0; 2] };
    check.same(named("bytes sent"), there.bytes_sent, there.sent * size);
    check.same(named("bytes received"), back.bytes_received, back.received * reply);
    // A program of others counts for itself.
    if reliable && !case.traits.program {
        check.same(named("messages at the far end"), there.received, there.sent);
        check.same(named("replies of the far end"), back.sent, back.received);
    }
}

/// Fastest and slowest of a case from all its messages, quantiles and mean from those of the rounds that make its
/// headline, every round with the same weight.
fn against(case: &CaseSummary, rounds: &[Tally], headline: &BTreeSet<u32>, check: &mut Check) {
    // A rate that was not sustained has no times; the histograms of its rounds are compared all the same.
    if case.is_overloaded() {
        return;
    }
    let named = |what: &str| format!("case {} against its messages: {what}", case.case.id);
    check.same(
        || named("fastest_ns"),
        case.latency.fastest_ns,
        rounds.iter().filter_map(|round| round.fastest_ns).min(),
    );
    check.same(
        || named("slowest_ns"),
        case.latency.slowest_ns,
        rounds.iter().filter_map(|round| round.slowest_ns).max(),
    );
    let filled: Vec<&Tally> =
        rounds.iter().filter(|round| headline.contains(&round.pass) && round.messages > 0).collect();
    let arrived: u64 = filled.iter().map(|round| round.arrived).sum();
    let mean = filled.iter().map(|round| round.sum_ns).sum::<u128>() as f64 / arrived as f64;
    match case.latency.mean_ns {
        Some(stored) if (stored - mean).abs() > 1e-9 * mean => {
            check.differ(&named("mean_ns"), stored.to_string(), mean.to_string());
        }
        stored => check.same(|| named("whether there is a mean"), stored.is_some(), arrived > 0),
    }
    for (at, (p, stored)) in quantiles(case).into_iter().enumerate().filter(|_| !filled.is_empty()) {
        let shares = filled.iter().map(|round| round.up_to[at].map(|count| count as f64 / round.messages as f64));
        let [near, faster] = shares.fold([0.0, 0.0], |[near, faster], round| [near + round[0], faster + round[1]]);
        let [near, faster] = [near, faster].map(|sum| sum / filled.len() as f64);
        // The rounding of the sums may move the quantile by one message.
        if near >= p - 1e-9 && faster < p + 1e-9 {
            check.agreed += 1;
        } else {
            let share = if near < p { near } else { faster };
            let computed = format!("{} % of the messages are faster", three_digits(100.0 * share));
            check.differ(&named(&format!("{} ns", msgpath_stats::quantile::name(p))), stored.to_string(), computed);
        }
    }
}

#[cfg(test)]
mod tests {
    use msgpath_core::Histogram;
    use msgpath_core::schema::Status;
    use serde_json::Value;

    use super::*;
    use crate::summarise;
    use crate::testing::Build;
    use msgpath_core::schema::MessageRow;
    use msgpath_record::{Damage, NO_MESSAGES};
    use msgpath_stats::simulate::normal;

    /// A run with the messages of every round, one of them lost.
    fn recorded() -> (Run, Vec<MessageRow>) {
        let mut run = Build::echo(&["tcp:send", "tcp:writev"], &[64]).rounds(6).messages(1).run();
        let mut random = fastrand::Rng::with_seed(3);
        let mut messages = Vec::new();
        for round in &mut run.rounds {
            let count = 200 + u64::from(round.pass);
            let rows: Vec<MessageRow> = (0..count)
                .map(|sequence| MessageRow {
                    case: round.case,
                    pass: round.pass,
                    sequence,
                    latency_ns: (sequence != 7).then(|| (20_000.0 * (0.5 * normal(&mut random)).exp()) as u64),
                    ..MessageRow::default()
                })
                .collect();
            let mut histogram = Histogram::new();
            for row in &rows {
                match row.latency_ns {
                    Some(ns) => histogram.record(ns),
                    None => histogram.record_lost(1),
                }
            }
            round.latency = histogram.to_sparse();
            let near = round.near_mut();
            (near.delivery.sent, near.delivery.received, near.delivery.lost) = (count, count - 1, 1);
            (near.bytes_sent, near.bytes_received) = (count * 64, (count - 1) * 64);
            (round.far_mut().delivery.received, round.far_mut().delivery.sent) = (count, count - 1);
            messages.extend(rows);
        }
        (run, messages)
    }

    fn stored(run: &Run) -> Vec<u8> {
        serde_json::to_vec(&summarise(run)).unwrap()
    }

    #[track_caller]
    fn found(check: &Verification, what: &str) {
        assert_eq!(check.status, Status::Failed);
        assert!(check.disagreements.iter().any(|one| one.what == what), "{:#?}", check.disagreements);
    }

    #[test]
    fn a_whole_run_agrees_with_itself() {
        let (run, messages) = recorded();
        let check = verify(&run, &messages, Some(&stored(&run)), "0.1.0");
        assert_eq!((check.status, &check.disagreements[..], &check.notes[..]), (Status::Ok, &[][..], &[][..]));
        assert_eq!((check.rounds, check.rounds_from_messages, check.cases_from_messages), (12, 12, 2));
        assert!(check.numbers > 200, "{}", check.numbers);
    }

    #[test]
    fn a_number_that_was_changed_is_found_with_its_place() {
        let (run, messages) = recorded();
        let mut tree: Value = serde_json::from_slice(&stored(&run)).unwrap();
        tree["cases"][1]["quantiles"][2]["ns"] = 1.into();
        tree["cases"][0]["mean_ns"] = Value::Null;
        tree["totals"]["surprise"] = 3.into();
        tree["findings"] = Value::Array(Vec::new());
        let check = verify(&run, &messages, Some(tree.to_string().as_bytes()), "0.1.0");
        for what in ["cases[1].quantiles[2].ns", "cases[0].mean_ns", "totals.surprise", "findings.length"] {
            found(&check, what);
        }
        assert_eq!(check.disagreements.len(), 4, "{:#?}", check.disagreements);
    }

    #[test]
    fn a_number_may_differ_in_its_last_digit_only() {
        let mut check = Check::default();
        for (stored, computed) in [("0.1", "0.10000000000000002"), ("3", "3.0"), ("0", "0.0")] {
            check.trees("x", &serde_json::from_str(stored).unwrap(), &serde_json::from_str(computed).unwrap());
        }
        assert_eq!((check.agreed, check.disagreements.len()), (3, 0));
        check.trees("x", &serde_json::json!(0.1), &serde_json::json!(0.100_000_001));
        assert_eq!(check.disagreements.len(), 1);
    }

    #[test]
    fn rounds_that_contradict_themselves_are_found() {
        let (run, messages) = recorded();
        let stored = stored(&run);
        let check = |change: &dyn Fn(&mut RoundRecord)| {
            let mut changed = run.clone();
            change(&mut changed.rounds[3]);
            verify(&changed, &messages, Some(&stored), "0.1.0")
        };
        found(&check(&|round| round.near_mut().delivery.sent += 1), "case 1, pass 1: messages in the histogram");
        found(&check(&|round| round.near_mut().delivery.lost = 0), "case 1, pass 1: lost messages in the histogram");
        found(&check(&|round| round.far_mut().delivery.received -= 1), "case 1, pass 1: messages at the far end");
        found(&check(&|round| round.near_mut().bytes_sent += 1), "case 1, pass 1: bytes sent");
        let other = run.rounds[1].latency.clone();
        found(&check(&|round| round.latency = other.clone()), "case 1, pass 1: latencies against the messages");
    }

    #[test]
    fn quantiles_are_those_of_the_messages() {
        let (run, messages) = recorded();
        let mut summary = summarise(&run);
        let compared = |cases: &[CaseSummary]| {
            let mut check = Check::default();
            let mut other = Check::default();
            let mut rebuilt = Rebuilt::new(&run, cases, &mut other);
            rebuilt.messages(&messages);
            against(&cases[0], &rebuilt.whole[&0], &(0..6).collect(), &mut check);
            check
        };
        let check = compared(&summary.cases);
        assert_eq!((check.agreed, check.disagreements.len()), (5, 0), "{:?}", check.disagreements);
        // Every round has its weight: that of the sorted messages, whatever the size of their rounds.
        let own = || messages.iter().filter(|row| row.case == 0);
        let weight = |row: &MessageRow| 1.0 / (6.0 * f64::from(200 + row.pass));
        let mut all: Vec<(u64, f64)> = own().map(|row| (row.latency_ns.unwrap_or(u64::MAX), weight(row))).collect();
        all.sort_unstable_by_key(|(ns, _)| *ns);
        for (at, p) in [(0, 0.5), (2, 0.99)] {
            assert_eq!(summary.cases[0].latency.quantiles[at].p, p);
            let mut sum = 0.0;
            let exact = all.iter().find(|(_, weight)| {
                sum += weight;
                sum >= p
            });
            let exact = exact.unwrap().0;
            // A bin is a thousandth: what is within one agrees, what is within ten does not.
            for (change, agrees) in [(0.0, true), (0.0009, true), (-0.0009, true), (0.01, false), (-0.01, false)] {
                let mut changed = summary.cases.clone();
                changed[0].latency.quantiles[at].ns = Some((exact as f64 * (1.0 + change)) as u64);
                assert_eq!(compared(&changed).disagreements.is_empty(), agrees, "{p} {change}");
            }
        }
        let case = &mut summary.cases[0];
        case.latency.quantiles[2].ns = case.latency.quantiles[2].ns.map(|ns| ns + ns / 100);
        case.latency.mean_ns = case.latency.mean_ns.map(|ns| ns * 1.000_1);
        case.latency.slowest_ns = None;
        let found = compared(&summary.cases).disagreements;
        let what: Vec<_> = found.iter().map(|one| one.what.rsplit(": ").next().unwrap()).collect();
        assert_eq!(what, ["slowest_ns", "mean_ns", "p99 ns"]);
        assert!(found[2].computed.starts_with("99.") && found[2].computed.ends_with("faster"), "{found:?}");
    }

    #[test]
    fn what_is_missing_or_cut_off_is_said() {
        let (mut run, messages) = recorded();
        found(&verify(&run, &messages, None, "0.1.0"), "summary.json");
        found(&verify(&run, &messages, Some(b"{"), "0.1.0"), "summary.json");
        let stored = stored(&run);
        let part = verify(&run, &&messages[..900], Some(&stored), "0.2.0");
        assert_eq!((part.status, part.rounds_from_messages, part.cases_from_messages), (Status::Ok, 4, 0));
        assert!(
            part.notes[0].contains("msgpath 0.1.0 wrote") && part.notes[1].contains("8 of 12 rounds"),
            "{:?}",
            part.notes
        );
        run.end.as_mut().unwrap().header_crc32 = None;
        assert!(verify(&run, &messages, Some(&stored), "0.1.0").notes[0].contains("run.json is not protected"));
        run.damage = Some(Damage { file: "rounds.mpl".into(), offset: 9, why: "cut off".into() });
        let damaged = verify(&run, &messages, Some(&stored), "0.1.0");
        assert_eq!(damaged.status, Status::Partial);
        assert!(damaged.damage.unwrap().contains("byte 9") && damaged.notes[0].contains("not compared"));
        (run.damage, run.end) = (None, None);
        assert!(verify(&run, &messages, Some(&stored), "0.1.0").damage.unwrap().contains("no end"));
    }

    #[test]
    fn streams_are_checked_by_their_counts() {
        let mut run = Build::stream(&["tcp:send"], &[64]).run();
        let stored = stored(&run);
        let check = verify(&run, &NO_MESSAGES, Some(&stored), "0.1.0");
        assert_eq!((check.status, check.rounds), (Status::Ok, 40), "{:?}", check.disagreements);
        run.rounds[0].far_mut().delivery.received -= 1;
        found(&verify(&run, &NO_MESSAGES, Some(&stored), "0.1.0"), "case 0, pass 0: messages received");
    }
}
