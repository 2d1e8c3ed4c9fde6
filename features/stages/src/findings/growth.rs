//! Which stage makes slow messages slow, for the detectors of stages: one file each, this is what they share.

use msgpath_core::plan::Change;
use msgpath_core::units::{Glyphs, range};

use crate::analyse::bands::Growth;
use crate::analyse::{CaseStages, attribution};
use msgpath_analyse::findings::Input;
use msgpath_analyse::findings::trying::ablation;
use msgpath_analyse::findings::wording::{again_set, measured, percent, prefix, sentence};
use msgpath_analyse::summary::{CaseSummary, Confidence};
use msgpath_analyse::words::paired_in_words;

/// A stage that holds less of the difference is not the cause.
const SHARE: f64 = 0.3;
/// Messages that take less longer than this share of the usual time are not slow.
const LONGER: f64 = 0.2;

/// A case whose slow messages (p98.5 to p99.5) are slow in one stage more than in any other.
pub(super) struct Slow<'a> {
    pub case: &'a CaseSummary,
    pub stages: &'a CaseStages,
    pub growth: &'a Growth,
    /// How much longer the slow messages take than the usual ones (p45 to p55), ns.
    pub longer_ns: f64,
}

/// The measured cases with their stages.
pub(super) fn traced<'a>(input: &Input<'a>) -> impl Iterator<Item = (&'a CaseSummary, &'a CaseStages)> {
    let of = |stages: &'a CaseStages| {
        let case = measured(input).find(|case| case.case.id == stages.case)?;
        Some((case, stages))
    };
    attribution(input.summary).iter().filter_map(of)
}

/// The cases whose slow messages are slow because of one stage.
pub(super) fn slow<'a>(input: &Input<'a>) -> Vec<Slow<'a>> {
    let of = |(case, stages): (&'a CaseSummary, &'a CaseStages)| {
        let growth = stages.growth.first()?;
        let (usual, slow) = (stages.band("p45–55")?, stages.band("p98.5–99.5")?);
        let longer_ns = slow.mean_ns - usual.mean_ns;
        let enough = longer_ns >= LONGER * usual.mean_ns && growth.ns() >= SHARE * longer_ns && growth.low_ns > 0.0;
        (enough && usual.claim && slow.claim).then_some(Slow { case, stages, growth, longer_ns })
    };
    traced(input).filter_map(of).collect()
}

impl Slow<'_> {
    /// *Sure* where the interval over rounds says that the stage grew by more than what tracing adds, and both halves of
    /// the run agree.
    pub(super) fn confidence(&self) -> Confidence {
        let observer = self.stages.observer.as_ref();
        let beyond = observer.is_some_and(|observer| self.growth.low_ns > observer.added_high_ns.max(0.0));
        if beyond && self.growth.in_both_halves { Confidence::Sure } else { Confidence::Likely }
    }

    /// `Slow messages are slow because BECAUSE: 43.0 µs of the extra 61.0 µs is wake-up in flight`.
    pub(super) fn says(&self, input: &Input, because: &str) -> String {
        let time = |ns| Glyphs::Unicode.time(ns);
        // The unit stands once where it is the same.
        let (part, unit) = Glyphs::Unicode.time_in(self.growth.ns(), self.longer_ns);
        let text = format!(
            "{}slow messages are slow because {because}: {part} {unit} of the extra {} is {} ({} instead of {}; 95 %: {} more)",
            prefix(input, self.case),
            time(self.longer_ns),
            self.growth.name,
            time(self.growth.slow_ns),
            time(self.growth.usual_ns),
            range(time(self.growth.low_ns), time(self.growth.high_ns)),
        );
        sentence(&text)
    }

    /// The numbers of the sentence.
    pub(super) fn numbers(&self) -> [(&'static str, f64); 7] {
        [
            ("slow_ns", self.growth.slow_ns),
            ("usual_ns", self.growth.usual_ns),
            ("grew_low_ns", self.growth.low_ns),
            ("grew_high_ns", self.growth.high_ns),
            ("longer_ns", self.longer_ns),
            ("share_of_longer", self.growth.ns() / self.longer_ns),
            ("observer_ns", self.stages.observer.as_ref().map_or(f64::NAN, |observer| observer.added_ns)),
        ]
    }
}

/// What was tried beside a case against a wait of its receiver: spinning, or both ends on one CPU; else what to try, as a
/// guess. The commands of it.
pub(super) fn against_waiting(input: &Input, case: &CaseSummary, guess: &str) -> (String, Vec<String>) {
    let tried: Vec<String> =
        [Change::Spin, Change::SameCpu].iter().filter_map(|change| tried(input, case, change)).collect();
    let next = if case.case.path.wait == msgpath_core::path::DEFAULT_WAIT {
        vec![again_set(&input.run.header, "wait=spin")]
    } else {
        Vec::new()
    };
    match tried.as_slice() {
        [] => (format!(". To try: {guess}"), next),
        tried => (format!(". Tried here: {}", tried.join("; ")), next),
    }
}

/// `spin: p50 24.0 to 18.0 µs, p99 61.0 to 20.0 µs (paired by pass 1.33 times faster, 95 %: 1.25 to 1.43)`.
fn tried(input: &Input, case: &CaseSummary, change: &Change) -> Option<String> {
    let ablation = ablation(input, case, |own| own == change)?;
    let other = input.summary.cases.iter().find(|other| other.case.id == ablation.case)?;
    let from_to = |p: f64| {
        let of = |case: &CaseSummary| case.latency.quantiles.iter().find(|q| q.p == p && q.is_interval())?.ns;
        Some(format!("{} to {}", Glyphs::Unicode.time(of(case)? as f64), Glyphs::Unicode.time(of(other)? as f64)))
    };
    let mut parts = vec![format!("{change}")];
    parts.extend([(0.5, "p50"), (0.99, "p99")].iter().filter_map(|(p, name)| Some(format!("{name} {}", from_to(*p)?))));
    Some(format!("{} ({})", parts.join(", "), paired_in_words(&ablation.ratio, input.plan.metric())))
}

/// `ffmpeg (thread 666, 93 %)`, for those that held the CPU longest.
pub(super) fn holders(occupants: &[crate::analyse::occupants::Occupant]) -> String {
    let named = occupants.iter().filter(|occupant| occupant.share >= 0.1 && occupant.tid >= 0).take(3);
    let one = |occupant: &crate::analyse::occupants::Occupant| {
        let share = percent(occupant.share);
        match occupant.name.as_str() {
            _ if occupant.tid == 0 => format!("nobody, the CPU left idle ({share} %)"),
            _ if occupant.own => format!("an end of this measurement itself ({share} %)"),
            name => format!("{name} (thread {}, {share} %)", occupant.tid),
        }
    };
    named.map(one).collect::<Vec<_>>().join(", ")
}
