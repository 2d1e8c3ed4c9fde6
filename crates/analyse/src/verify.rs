//! Does the record still say what was printed? Every round against its own counts, histograms and quantiles against the
//! single messages, and every number of the stored summary against one computed again (docs/method/two-runs.md#verify).

use std::collections::{BTreeMap, BTreeSet};

use msgpath_core::plan::Plan;
use msgpath_core::schema::{FAR, NEAR, RoundRecord, Status};
use msgpath_core::units::three_digits;
use msgpath_core::{Histogram, SparseHistogram};
use msgpath_record::{Messages, Run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::series::{receiver, sender};
use crate::summary::CaseSummary;
use crate::{Logs, section, summarise_with};

/// The version of [`Verification`] as JSON.
pub const SCHEMA: &str = "msgpath/verify/1";
/// Two floating-point numbers are the same up to this share: a text of JSON keeps 15 digits at least.
const ROUNDING: f64 = 1e-12;
/// Width of a bin of the histogram, as a share of its value: the middle of the bin stands for all of it.
const BIN: f64 = 1.0 / 1024.0;

/// What was compared, and what did not agree.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Verification {
    /// [`SCHEMA`].
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// `ok` where all agrees, `failed` where something does not, `partial` where the record is not whole.
    pub status: Status,
    /// Verb that wrote the record.
    pub verb: String,
    /// Name of the run.
    pub name: String,
    /// Version of msgpath that wrote it.
    pub written_by: String,
    /// Version that checked it.
    pub checked_by: String,
    /// Where the record is not whole.
    pub damage: Option<String>,
    /// Rounds whose counts were compared, of a mesh those of all pairs.
    pub rounds: u64,
    /// Of a mesh: pairs whose measurement was read.
    pub pairs: u64,
    /// Of a watch: requests whose stages were added up.
    pub requests: u64,
    /// Of an import that stays text: texts whose checksum was compared.
    pub texts: u64,
    /// Rounds whose histogram was built again from single messages.
    pub rounds_from_messages: u64,
    /// Cases whose quantiles were compared with all their messages.
    pub cases_from_messages: u64,
    /// Numbers of the stored summary that agree.
    pub numbers: u64,
    /// What does not agree.
    pub disagreements: Vec<Disagreement>,
    /// What could not be compared, and why.
    pub notes: Vec<String>,
}

/// A number, or a text, that does not agree.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Disagreement {
    /// Which: `cases[0].quantiles[2].ns`, `case 0, pass 17: messages sent`.
    pub what: String,
    /// As it is stored.
    pub stored: String,
    /// As it is computed from the rest of the record.
    pub computed: String,
}

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

/// Versions of msgpath.
#[derive(Clone, Copy)]
pub struct Versions<'a> {
    /// The one that wrote the record.
    pub written_by: &'a str,
    /// The one that checks it.
    pub checked_by: &'a str,
}

/// What is compared so far.
#[derive(Default)]
pub struct Check {
    agreed: u64,
    disagreements: Vec<Disagreement>,
}

impl Check {
    /// Something does not agree.
    pub fn differ(&mut self, what: &str, stored: String, computed: String) {
        self.disagreements.push(Disagreement { what: what.into(), stored, computed });
    }

    /// Both must be equal.
    pub fn same<T: PartialEq + std::fmt::Debug>(&mut self, what: impl Fn() -> String, stored: T, computed: T) {
        if stored == computed {
            self.agreed += 1;
        } else {
            self.differ(&what(), format!("{stored:?}"), format!("{computed:?}"));
        }
    }

    /// Compares the stored summary with one computed again; what is known of any record.
    pub fn ended(
        mut self,
        stored: Option<&[u8]>,
        summary: &impl Serialize,
        status: Status,
        damage: Option<String>,
        versions: Versions<'_>,
    ) -> Verification {
        let Versions { written_by, checked_by } = versions;
        let (before, mut notes) = (self.agreed, Vec::new());
        match stored.map(serde_json::from_slice::<Value>) {
            _ if damage.is_some() => notes.push("the stored summary was not compared: the record is not whole".into()),
            Some(Ok(stored)) => self.trees("", &stored, &serde_json::to_value(summary).unwrap_or_default()),
            Some(Err(error)) => self.differ("summary.json", format!("no JSON ({error})"), "a summary".into()),
            None if status == Status::Failed => {
                notes.push("no summary is stored: the run failed before one was printed".into());
            }
            None => self.differ("summary.json", "missing".into(), "a summary".into()),
        }
        if written_by != checked_by {
            notes.push(format!(
                "msgpath {written_by} wrote the summary, this is {checked_by}: what the versions compute differently is \
                 listed too"
            ));
        }
        let numbers = self.agreed - before;
        Verification { numbers, notes, ..self.verified(damage, versions) }
    }

    /// What was found, where no summary is stored.
    pub fn verified(self, damage: Option<String>, versions: Versions<'_>) -> Verification {
        Verification {
            schema: SCHEMA.into(),
            status: match (&damage, self.disagreements.is_empty()) {
                (_, false) => Status::Failed,
                (Some(_), true) => Status::Partial,
                (None, true) => Status::Ok,
            },
            verb: String::new(),
            name: String::new(),
            written_by: versions.written_by.into(),
            checked_by: versions.checked_by.into(),
            damage,
            rounds: 0,
            pairs: 0,
            requests: 0,
            texts: 0,
            rounds_from_messages: 0,
            cases_from_messages: 0,
            numbers: 0,
            disagreements: self.disagreements,
            notes: Vec::new(),
        }
    }

    /// Two trees of JSON, number by number.
    fn trees(&mut self, path: &str, stored: &Value, computed: &Value) {
        match (stored, computed) {
            (Value::Number(one), Value::Number(two)) => {
                let close = |a: f64, b: f64| (a - b).abs() <= ROUNDING * a.abs().max(b.abs());
                if one == two || one.as_f64().zip(two.as_f64()).is_some_and(|(a, b)| close(a, b)) {
                    self.agreed += 1;
                } else {
                    self.differ(path, one.to_string(), two.to_string());
                }
            }
            (Value::Object(one), Value::Object(two)) => {
                let inner = |name: &str| if path.is_empty() { name.into() } else { format!("{path}.{name}") };
                for (name, value) in one {
                    self.trees(&inner(name), value, two.get(name).unwrap_or(&Value::Null));
                }
                for (name, value) in two.iter().filter(|(name, value)| !one.contains_key(*name) && !value.is_null()) {
                    self.differ(&inner(name), "nothing".into(), short(value));
                }
            }
            (Value::Array(one), Value::Array(two)) => {
                if one.len() != two.len() {
                    self.differ(&format!("{path}.length"), one.len().to_string(), two.len().to_string());
                }
                for (at, (one, two)) in one.iter().zip(two).enumerate() {
                    self.trees(&format!("{path}[{at}]"), one, two);
                }
            }
            _ if stored == computed => {}
            _ => self.differ(path, short(stored), short(computed)),
        }
    }
}

/// A value of JSON on one line that is not too long.
fn short(value: &Value) -> String {
    const LONGEST: usize = 80;
    let text = if value.is_null() { "nothing".into() } else { value.to_string() };
    if text.chars().count() <= LONGEST { text } else { text.chars().take(LONGEST).chain(['…']).collect() }
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
    check.same(named("bytes sent"), there.bytes_sent, there.sent * case.size);
    check.same(named("bytes received"), back.bytes_received, back.received * case.reply);
    // A program of others counts for itself.
    if reliable && !case.traits.program {
        check.same(named("messages at the far end"), there.received, there.sent);
        check.same(named("replies of the far end"), back.sent, back.received);
    }
}

/// What a round's messages say of the numbers of its case.
struct Tally {
    pass: u32,
    messages: u64,
    arrived: u64,
    sum_ns: u128,
    fastest_ns: Option<u64>,
    slowest_ns: Option<u64>,
    /// For each of [`quantiles`]: the messages that are as fast, or nearly; and those that are clearly faster.
    up_to: Vec<[u64; 2]>,
}

/// The quantiles of a case that are compared with its messages: share, and value; a lost message is infinite.
fn quantiles(case: &CaseSummary) -> Vec<(f64, u64)> {
    let compared = case.latency.quantiles.iter().filter(|quantile| [0.5, 0.99].contains(&quantile.p));
    compared.map(|quantile| (quantile.p, quantile.ns.unwrap_or(u64::MAX))).collect()
}

/// Rounds that are built again from single messages, and compared with what is stored of them.
pub struct Rebuilt<'r, 'c> {
    run: &'r Run,
    check: &'c mut Check,
    /// Quantiles of the summary, by case.
    cases: BTreeMap<u32, Vec<(f64, u64)>>,
    rounds: BTreeMap<(u32, u32), &'r RoundRecord>,
    /// Rounds that a log holds whole, by case.
    whole: BTreeMap<u32, Vec<Tally>>,
    histogram: Histogram,
}

impl<'r, 'c> Rebuilt<'r, 'c> {
    fn new(run: &'r Run, cases: &[CaseSummary], check: &'c mut Check) -> Self {
        Self {
            run,
            check,
            cases: cases.iter().map(|case| (case.case.id, quantiles(case))).collect(),
            rounds: run.rounds.iter().map(|round| ((round.case, round.pass), round)).collect(),
            whole: BTreeMap::new(),
            histogram: Histogram::new(),
        }
    }

    /// A round of the record.
    pub fn round(&self, case: u32, pass: u32) -> Option<&'r RoundRecord> {
        self.rounds.get(&(case, pass)).copied()
    }

    /// A number of a round must be what the log says.
    pub fn same<T: PartialEq + std::fmt::Debug>(&mut self, round: &RoundRecord, what: &str, stored: T, computed: T) {
        self.check.same(|| format!("case {}, pass {}: {what}", round.case, round.pass), stored, computed);
    }

    /// Two histograms of a round must be equal.
    fn same_histogram(&mut self, round: &RoundRecord, what: &str, stored: &SparseHistogram, built: &SparseHistogram) {
        self.same(round, what, outline(stored), outline(built));
    }

    /// The histogram of these latencies; `None`: lost.
    fn built(&mut self, latencies: impl Iterator<Item = Option<u64>>) -> SparseHistogram {
        self.histogram.clear();
        latencies.for_each(|latency| match latency {
            Some(ns) => self.histogram.record(ns),
            None => self.histogram.record_lost(1),
        });
        self.histogram.to_sparse()
    }

    /// A log holds all messages of a round: these are their latencies, ns; `None`: lost. `what` says so: `latencies against the
    /// messages`.
    pub fn latencies(&mut self, round: &RoundRecord, what: &str, latencies: impl Iterator<Item = Option<u64>> + Clone) {
        let built = self.built(latencies.clone());
        let slack = |ns: u64| if ns == u64::MAX { 0 } else { (ns as f64 * BIN) as u64 + 1 };
        let mut up_to = Vec::new();
        for (_, stored) in self.cases.get(&round.case).into_iter().flatten() {
            let counts = latencies.clone().fold([0, 0], |[near, faster], latency| {
                let ns = latency.unwrap_or(u64::MAX);
                let (low, high) = (ns.saturating_sub(slack(ns)), ns.saturating_add(slack(ns)));
                [near + u64::from(low <= *stored), faster + u64::from(high < *stored)]
            });
            up_to.push(counts);
        }
        self.whole.entry(round.case).or_default().push(Tally {
            pass: round.pass,
            messages: built.total(),
            arrived: built.total() - built.lost(),
            sum_ns: latencies.flatten().map(u128::from).sum(),
            fastest_ns: built.min(),
            slowest_ns: built.max(),
            up_to,
        });
        self.same_histogram(round, what, &round.latency, &built);
    }

    /// What the messages say of the rounds that their log holds whole.
    fn messages(&mut self, messages: &dyn Messages) {
        // The first messages of what fans out are in the log, and in a histogram of their own.
        let plan = &self.run.header.plan;
        let first = if plan.workload.fans_out { plan.trim } else { 0 };
        messages.rounds(&|_, _| true, &mut |rows| {
            let Some(round) = self.round(rows[0].case, rows[0].pass) else { return };
            let rows = || rows.iter().filter(|row| row.sequence >= first);
            if (rows().count() as u64) < round.latency.total() {
                return;
            }
            self.latencies(round, "latencies against the messages", rows().map(|row| row.latency_ns));
            if round.one_way.total() > 0 {
                let built = self.built(rows().filter_map(|row| row.far_ns).map(Some));
                self.same_histogram(round, "one-way times against the messages", &round.one_way, &built);
            }
        });
    }
}

/// What two equal histograms share, short enough to be printed where they differ.
fn outline(histogram: &SparseHistogram) -> (u64, u64, Option<u64>, Option<u64>, u32) {
    let bins: Vec<u8> =
        histogram.ranges().flat_map(|(from, _, count)| [from, count]).flat_map(u64::to_le_bytes).collect();
    // FNV-1a of all bins.
    let hash = bins.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    (histogram.total(), histogram.lost(), histogram.min(), histogram.max(), hash)
}

/// Fastest and slowest of a case from all its messages, quantiles and mean from those of the rounds that make its
/// headline, every round with the same weight.
fn against(case: &CaseSummary, rounds: &[Tally], headline: &BTreeSet<u32>, check: &mut Check) {
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
