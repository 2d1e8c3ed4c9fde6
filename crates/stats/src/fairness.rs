//! How evenly a whole is shared (docs/method/fan.md#fairness).

/// Jain's index of fairness, (Σx)² / (n Σx²): 1 where all have the same, 1/n where one has everything. `None`: nobody has anything, or a
/// share is negative or not a number.
///
/// R. Jain, D. Chiu, W. Hawe: A Quantitative Measure of Fairness and Discrimination for Resource Allocation in Shared Computer Systems,
/// DEC-TR-301, 1984.
pub fn jain(shares: &[f64]) -> Option<f64> {
    // The index does not depend on the scale, and squares of large shares have no room.
    let most = shares.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 || shares.iter().any(|share| !share.is_finite() || *share < 0.0) {
        return None;
    }
    let (sum, squares) = shares
        .iter()
        .map(|share| share / most)
        .fold((0.0, 0.0), |(sum, squares), share| (sum + share, share.mul_add(share, squares)));
    Some((sum * sum / (shares.len() as f64 * squares)).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_shares_are_fair_and_one_that_has_all_is_not() {
        assert_eq!(jain(&[5.0; 8]), Some(1.0));
        assert_eq!(jain(&[0.0, 3.0, 0.0, 0.0]), Some(0.25));
        // The example of the report: half of the users have the same, the others nothing.
        assert_eq!(jain(&[1.0, 1.0, 0.0, 0.0]), Some(0.5));
        for nothing in [&[][..], &[0.0, 0.0], &[1.0, -1.0], &[1.0, f64::NAN], &[f64::INFINITY, 1.0]] {
            assert_eq!(jain(nothing), None, "{nothing:?}");
        }
    }

    proptest! {
        #[test]
        fn the_index_lies_between_one_nth_and_one(shares in prop::collection::vec(0.0..1e12_f64, 1..200)) {
            if let Some(index) = jain(&shares) {
                prop_assert!(index >= 1.0 / shares.len() as f64 * (1.0 - 1e-9) && index <= 1.0, "{index}");
            }
        }

        #[test]
        fn the_index_does_not_depend_on_scale_or_order(
            shares in prop::collection::vec(0.001..1e6_f64, 1..50),
            scale in 1e-100..1e100_f64,
        ) {
            let mut scaled: Vec<f64> = shares.iter().map(|share| share * scale).collect();
            scaled.reverse();
            let (own, other) = (jain(&shares).unwrap(), jain(&scaled).unwrap());
            prop_assert!((own - other).abs() < 1e-9, "{own} {other}");
        }

        #[test]
        fn taking_from_the_richest_for_the_poorest_is_fairer(shares in prop::collection::vec(1.0..100.0_f64, 2..20)) {
            let mut even = shares.clone();
            even.sort_by(f64::total_cmp);
            let moved = (even[even.len() - 1] - even[0]) / 4.0;
            even[0] += moved;
            *even.last_mut().unwrap() -= moved;
            prop_assert!(jain(&even).unwrap() >= jain(&shares).unwrap() - 1e-12);
        }
    }
}
