//! What was tried to find a cause: a measured case once more with one thing changed, paired by pass.

use msgpath_core::plan::{Ablation, Plan};
use msgpath_stats::estimate::Estimate;
use msgpath_stats::verdict::{LEAST_MARGIN, holm_levels, judge};

use crate::results::Results;
use crate::summary::AblationResult;

/// Every ablation that has passes in common with its case, but those that only count events: they try no cause. `resolution`: what this machine resolves, where it is known.
pub fn causes(results: &Results, resolution: Option<f64>) -> Vec<AblationResult> {
    let plan = results.plan;
    let cases = plan.cases.iter().filter(|case| !Plan::counted(case)).count();
    let ablations: Vec<_> = plan
        .cases
        .iter()
        .filter(|case| !Plan::counted(case))
        .filter_map(|case| {
            let Ablation { of, change } = case.ablation.as_ref()?;
            let of = plan.cases.get(*of as usize)?;
            let evidence = results.evidence(plan.metric(), case, of, cases)?;
            Some((case, of, change, evidence, results.typical(case)?, results.typical(of)?))
        })
        .collect();
    let levels = holm_levels(&ablations.iter().map(|(_, _, _, evidence, ..)| evidence.p()).collect::<Vec<_>>());
    let margin = resolution.unwrap_or(0.0).max(LEAST_MARGIN);
    ablations
        .into_iter()
        .zip(levels)
        .map(|((case, of, change, evidence, value, case_value), level)| {
            let judged = judge(evidence.as_ref(), level, margin, plan.metric().larger_is_better());
            AblationResult {
                case: case.id,
                of: of.id,
                change: change.clone(),
                ratio: Estimate { value: evidence.center().exp(), low: judged.low, high: judged.high },
                p: evidence.p(),
                verdict: judged.verdict,
                unit: if plan.workload.timed { "ns" } else { "bit/s" }.into(),
                value,
                case_value,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use msgpath_core::plan::{CaseRole, Change};
    use msgpath_stats::verdict::Verdict;

    use crate::summarise;
    use crate::testing::Build;

    #[test]
    fn a_ablation_is_judged_against_its_case_and_stays_out_of_the_comparison() {
        let run =
            Build::echo(&["tcp:send", "tcp:writev"], &[64]).ablation(0, Change::Spin).factor(|case| match case.role {
                CaseRole::Ablation => 0.5,
                _ => 1.0,
            });
        let summary = summarise(&run.run());
        let [ablation] = summary.ablations.as_slice() else { panic!("{:?}", summary.ablations) };
        assert_eq!((ablation.of, &ablation.change, ablation.verdict), (0, &Change::Spin, Verdict::Better));
        assert!((ablation.ratio.value - 0.5).abs() < 0.02 && (ablation.value / ablation.case_value - 0.5).abs() < 0.02);
        assert_eq!(summary.comparison.unwrap().ratios.len(), 1);
    }

    #[test]
    fn a_change_without_effect_is_not_called_one() {
        let summary = summarise(&Build::echo(&["tcp:send"], &[64]).ablation(0, Change::SameCpu).run());
        assert_eq!(summary.ablations[0].verdict, Verdict::Equivalent);
    }
}
