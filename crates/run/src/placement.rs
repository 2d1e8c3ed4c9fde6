//! Which CPUs the two ends use.

use msgpath_core::plan::Placement;

/// Where the threads of both ends run when the user has not said it: in turn on different cores. `near` and `far` are
/// the CPUs of the ends; on one machine they are the same ones.
pub fn placement(near: &[u32], far: &[u32], one_machine: bool, threads: u32) -> Placement {
    let take = |cpus: &[u32], skip: usize, step: usize| -> Vec<u32> {
        cpus.iter().skip(skip).step_by(step).take(threads.max(1) as usize).copied().collect()
    };
    match (one_machine, near.len()) {
        (true, 0 | 1) => Placement::pair(near, near),
        (true, _) => Placement::pair(take(near, 0, 2), take(near, 1, 2)),
        (false, _) => Placement::pair(take(near, 0, 1), take(far, 0, 1)),
    }
}

/// Whether a kernel counter concerns one of these CPUs, or none in particular.
pub fn concerns(counter: &str, cpus: &[u32]) -> bool {
    let Some(rest) = counter.strip_prefix("stat.cpu").or_else(|| counter.strip_prefix("irq.cpu")) else { return true };
    let number = rest.split('.').next().and_then(|number| number.parse().ok());
    number.is_none_or(|cpu| cpus.contains(&cpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_other_cpus_are_left_out() {
        let kept = ["stat.cpu1.busy", "irq.cpu1", "stat.steal", "irq.LOC", "stat.ctxt"];
        assert!(kept.iter().all(|name| concerns(name, &[1])));
        assert!(!concerns("stat.cpu11.busy", &[1]) && !concerns("irq.cpu0", &[1]) && !concerns("irq.cpu1", &[]));
    }

    #[test]
    fn the_ends_are_on_different_cpus_where_there_are_two() {
        let two = placement(&[0, 1], &[0, 1], true, 1);
        assert_eq!(two, Placement::pair([0], [1]));
        let four = placement(&[0, 1, 2, 3], &[], true, 2);
        assert_eq!(four, Placement::pair([0, 2], [1, 3]));
        let crowded = placement(&[0, 1], &[0, 1], true, 4);
        assert_eq!(crowded, Placement::pair([0], [1]));
        let one = placement(&[5], &[5], true, 1);
        assert_eq!(one, Placement::pair([5], [5]));
        let apart = placement(&[0, 1], &[7, 8], false, 1);
        assert_eq!(apart, Placement::pair([0], [7]));
    }
}
