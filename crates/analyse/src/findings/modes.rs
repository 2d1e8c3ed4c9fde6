//! Messages that wait for a timer of the kernel: a mode of the latency at a known place.

use std::ops::Range;

use msgpath_core::SparseHistogram;
use msgpath_core::plan::{Change, Metric};
use msgpath_core::schema::RoundRecord;
use msgpath_core::units::Glyphs;
use msgpath_stats::pooled::Pooled;
use msgpath_stats::verdict::Verdict;

use super::Input;
use super::trying::{ablation, from_to, halves_agree};
use super::wording::percent;
use crate::summary::CaseSummary;

/// Fewer messages than this in a mode are an accident.
pub(super) const SHARE: f64 = 0.05;

/// With so many passes, all of which agree, the sign test has p = 1/64.
const PASSES: usize = 6;

/// Where a timer puts the latency, ns.
pub struct Mode {
    /// Where the request or the reply waits for it.
    once: Range<u64>,
    /// Where both do.
    twice: Range<u64>,
}

/// The kernel delays an acknowledgement by 40 ms (TCP_DELACK_MIN); with what comes on top, the mode lies here.
pub const DELAYED_ACK: Mode = Mode { once: 32_000_000..48_000_000, twice: 64_000_000..96_000_000 };
/// A corked tail leaves after the least retransmission timeout of 200 ms (tcp(7), TCP_CORK); 208 ms were seen.
pub const CORKED: Mode = Mode { once: 190_000_000..230_000_000, twice: 380_000_000..460_000_000 };

/// The messages of a case that lie in a mode.
pub(super) struct Waiting {
    /// Their number.
    pub(super) messages: u64,
    /// How often they waited: those of the double mode did so twice.
    pub(super) waits: u64,
    /// Their share of all messages, 0 to 1.
    pub(super) share: f64,
    /// Mean of the stronger of the two modes, ns.
    mean_ns: f64,
    /// Most of them waited in both directions.
    both_ways: bool,
}

impl Waiting {
    /// `about 44.0 ms`, with a remark where both directions wait.
    pub(super) fn time(&self) -> String {
        let remark = if self.both_ways { " (once in each direction)" } else { "" };
        format!("about {}{remark}", Glyphs::Unicode.time(self.mean_ns))
    }

    /// Mean of the stronger mode, ns.
    pub(super) fn mean_ns(&self) -> f64 {
        self.mean_ns
    }
}

/// What an ablation says of a mode and its suspected cause.
pub(super) enum Tried {
    Nothing,
    /// The messages wait as before without it: it is not the cause.
    NotTheCause,
    /// They do not wait without it.
    Cured {
        /// What was seen.
        text: String,
        /// Either the median is better beyond the margin and after Holm, and both halves of the run agree; or fewer
        /// messages take that long in every pass (sign test, p below 0.02).
        sure: bool,
    },
}

impl Mode {
    /// Share of the messages that lie in it, 0 to 1; `None` without a message.
    pub fn share(&self, pooled: &Pooled) -> Option<f64> {
        let inside = |mode: &Range<u64>| pooled.count_between(mode.start, mode.end);
        (pooled.total() > 0).then(|| (inside(&self.once) + inside(&self.twice)) as f64 / pooled.total() as f64)
    }

    /// Whether a time is that of one wait.
    pub fn is_one(&self, ns: f64) -> bool {
        self.once.contains(&(ns.max(0.0) as u64))
    }

    /// The shortest wait that counts, ns.
    pub(super) fn start(&self) -> u64 {
        self.once.start
    }

    /// The messages of a case (its id) that lie in it; `None` where no message was timed.
    pub(super) fn of(&self, input: &Input, case: u32) -> Option<Waiting> {
        let rounds: Vec<&SparseHistogram> = input.rounds[case as usize].iter().map(|round| &round.latency).collect();
        let pooled = Pooled::new(&rounds);
        let count = |mode: &Range<u64>| pooled.count_between(mode.start, mode.end);
        let (once, twice) = (count(&self.once), count(&self.twice));
        let both_ways = twice > once;
        let most = if both_ways { &self.twice } else { &self.once };
        let bins = pooled.bins().iter().filter(|bin| most.contains(&bin.value()));
        let time: f64 = bins.map(|bin| bin.value() as f64 * bin.count as f64).sum();
        (pooled.total() > 0).then(|| Waiting {
            messages: once + twice,
            waits: once + 2 * twice,
            share: (once + twice) as f64 / pooled.total() as f64,
            mean_ns: time / once.max(twice) as f64,
            both_ways,
        })
    }

    /// What the ablation of `change` says of the messages of `case` that wait.
    pub(super) fn tried(&self, input: &Input, case: &CaseSummary, waiting: &Waiting, change: &Change) -> Tried {
        let Some(ablation) = ablation(input, case, |tried| tried == change) else { return Tried::Nothing };
        let Some(still) = self.of(input, ablation.case) else { return Tried::Nothing };
        if still.share > waiting.share / 2.0 {
            return Tried::NotTheCause;
        }
        if still.share >= SHARE {
            return Tried::Nothing;
        }
        let latency = matches!(input.plan.metric(), Metric::P50 | Metric::P99 | Metric::Mean);
        if latency && ablation.verdict == Verdict::Better {
            let text = format!("{change} brings {}", from_to(input, ablation));
            return Tried::Cured { text, sure: halves_agree(input, ablation) };
        }
        Tried::Cured {
            text: format!("with {change} {} % of the messages wait so", percent(still.share)),
            sure: self.fewer_in_every_pass(input, case.case.id, ablation.case),
        }
    }

    /// Whether a smaller share of the ablation's messages than of the case's takes that long, in each of at least
    /// [`PASSES`] passes.
    fn fewer_in_every_pass(&self, input: &Input, case: u32, ablation: u32) -> bool {
        let share = |round: &RoundRecord| {
            let pooled = Pooled::new(&[&round.latency]);
            let long = pooled.count_between(self.start(), u64::MAX);
            (pooled.total() > 0).then(|| long as f64 / pooled.total() as f64)
        };
        let tried = |pass: u32| input.rounds[ablation as usize].iter().find(|round| round.pass == pass);
        let pairs: Vec<(f64, f64)> = input.rounds[case as usize]
            .iter()
            .filter_map(|round| share(round).zip(tried(round.pass).and_then(|tried| share(tried))))
            .collect();
        pairs.len() >= PASSES && pairs.iter().all(|(case, ablation)| ablation < case)
    }
}
