//! The state that a round is measured in, and how much of the round that costs (docs/method/rounds.md#settling).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{Case, Extent, Plan};

/// Measured part of a what-if at most, ns: it is there to explain, not to be measured.
const ABLATION_NS: u64 = 40_000_000;
/// That of a replica where events are counted, and what it needs of a count.
pub const COUNTED_NS: u64 = 10_000_000;
/// That of a traced replica: the slow messages are to be explained too, so there must be some.
const TRACED_NS: u64 = 30_000_000;
/// A round whose settling is cut by less than this share counts as settled.
const CUT: f64 = 0.1;

/// Rounds have at least one part in so many of the time of their case, whatever pilots and what is around them take.
pub const LEAST_OF_TIME: u64 = 2;
/// A round is at least so many times as long as its settling, where the rounds may be fewer: so most of it is measured.
const OF_SETTLING: u64 = 4;

/// The state in which a case is measured (docs/method/rounds.md#settling).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// What a program sees that has been talking for a while: what a round shows before is thrown away.
    #[default]
    Steady,
    /// What it sees on a fresh connection, when its CPUs have just worked: the first part of a round alone.
    Burst,
}

impl State {
    /// Whether the steady state is meant.
    pub fn is_steady(&self) -> bool {
        *self == State::Steady
    }
}

/// How long a load runs until it is in the state that lasts (docs/method/rounds.md#settling).
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settling {
    /// After so long it stays near its steady value, ns.
    WithinNs(u64),
    /// So long it was watched, and still changed, ns.
    NotWithinNs(u64),
}

impl Settling {
    /// What has to be thrown away at least, ns.
    pub fn ns(self) -> u64 {
        match self {
            Settling::WithinNs(ns) | Settling::NotWithinNs(ns) => ns,
        }
    }
}

/// How a round that lasts a time is spent, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spans {
    /// Thrown away, until the load is steady.
    pub thrown: u64,
    pub measured: u64,
}

impl Plan {
    /// How long the user waits for the rounds of the plan and all that is around them, ns: the time of each case that was asked for.
    /// An open loop sends for all of it, after its warm-up. `None`: a number of messages takes what it takes, and so does
    /// what goes on beside the rounds.
    pub fn wait_ns(&self) -> Option<u64> {
        let Extent::Time(ns) = self.extent else { return None };
        // Schedules keep their time, and what begins beside their rounds comes on top of it.
        if self.beside && self.has_schedules() {
            return None;
        }
        let asked = self.cases.iter().filter(|case| case.ablation.is_none() && case.phase == 0).count();
        let each = if self.has_schedules() { ns.saturating_add(self.warmup_ns) } else { ns };
        Some(each.saturating_mul(asked as u64))
    }

    /// What all rounds of a case may take together, ns.
    pub fn time_of_rounds(&self) -> Option<u64> {
        let Extent::Time(ns) = self.extent else { return None };
        Some(self.rounds_ns.unwrap_or(ns))
    }

    /// How the rounds of a case are spent; `None`: they hold a count. At least half of a round is measured.
    pub fn spans(&self, case: &Case, settling: Option<Settling>) -> Option<Spans> {
        let round = self.time_of_rounds()? / u64::from(self.rounds.max(1));
        let settling = settling.map_or(0, Settling::ns);
        let (thrown, measured) = match self.state {
            State::Steady => (settling.min(round / 2), round - settling.min(round / 2)),
            State::Burst if settling > 0 => (0, settling.min(round)),
            State::Burst => (0, round),
        };
        let most = match case.ablation {
            None => u64::MAX,
            Some(_) if Self::traced(case).is_some() => TRACED_NS,
            Some(_) if Self::counted(case) => COUNTED_NS,
            Some(_) => ABLATION_NS,
        };
        Some(Spans { thrown, measured: measured.min(most) })
    }

    /// How many rounds the time of a case is cut into where its load settles like this: fewer ones that are mostly measured before
    /// many, as far as the plan lets them be fewer.
    pub fn rounds_for(&self, settling: Settling) -> u32 {
        let Some(ns) = self.time_of_rounds() else { return self.rounds };
        if self.fewest_rounds == 0 || self.state == State::Burst {
            return self.rounds;
        }
        let whole = ns / (OF_SETTLING * settling.ns()).max(1);
        u32::try_from(whole).unwrap_or(u32::MAX).clamp(self.fewest_rounds, self.rounds)
    }

    /// Whether the rounds of a case are too short to become steady.
    pub fn is_cut_short(&self, case: &Case, settling: Settling) -> bool {
        let thrown = self.spans(case, Some(settling)).map_or(0, |spans| spans.thrown);
        let enough = thrown as f64 >= (1.0 - CUT) * settling.ns() as f64;
        self.state == State::Steady && (!enough || matches!(settling, Settling::NotWithinNs(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;
    use crate::plan::{Ablation, CaseRole, Change};
    use crate::units::Pieces;

    const MS: u64 = 1_000_000;

    fn plan(ms: u64, rounds: u32) -> Plan {
        let case = Case::new("tcp:send".parse().unwrap(), Pieces::whole(64));
        Plan { extent: Extent::Time(ms * MS), rounds, fewest_rounds: 10, ..Plan::new(Workload::ECHO, vec![case]) }
    }

    #[test]
    fn a_round_throws_its_settling_away_and_measures_as_long_again() {
        let within = |ms: u64| Settling::WithinNs(ms * MS);
        let spans = |plan: &Plan, settling| plan.spans(&plan.cases[0], Some(settling)).unwrap();
        assert_eq!(spans(&plan(10_000, 40), within(50)), Spans { thrown: 50 * MS, measured: 200 * MS });
        assert_eq!(spans(&plan(2_000, 40), within(50)), Spans { thrown: 25 * MS, measured: 25 * MS });
        assert_eq!(plan(10_000, 40).spans(&plan(1, 1).cases[0], None).unwrap().thrown, 0);
        // Fewer and longer rounds before short ones, and ten at least.
        assert_eq!([5, 25, 200].map(|ms| plan(2_000, 40).rounds_for(within(ms))), [40, 20, 10]);
        assert_eq!(Plan { fewest_rounds: 0, ..plan(2_000, 40) }.rounds_for(within(50)), 40, "as typed");
        let cut = |ms, rounds, settling| plan(ms, rounds).is_cut_short(&plan(1, 1).cases[0], settling);
        assert!(cut(2_000, 40, within(50)) && !cut(2_000, 20, within(50)) && !cut(2_000, 40, within(0)));
        assert!(cut(10_000, 40, Settling::NotWithinNs(50 * MS)), "it was not seen to last");
    }

    #[test]
    fn a_burst_is_the_first_part_alone() {
        let plan = Plan { state: State::Burst, ..plan(10_000, 40) };
        let spans = plan.spans(&plan.cases[0], Some(Settling::WithinNs(20 * MS))).unwrap();
        assert_eq!(spans, Spans { thrown: 0, measured: 20 * MS });
        assert_eq!(plan.rounds_for(Settling::WithinNs(500 * MS)), 40);
    }

    #[test]
    fn a_what_if_is_in_the_state_of_its_case() {
        let plan = plan(10_000, 40);
        let what_if = Case {
            role: CaseRole::Ablation,
            ablation: Some(Ablation { of: 0, change: Change::Spin }),
            ..plan.cases[0].clone()
        };
        let spans = plan.spans(&what_if, Some(Settling::WithinNs(50 * MS))).unwrap();
        assert_eq!(spans, Spans { thrown: 50 * MS, measured: 40 * MS });
    }
}
