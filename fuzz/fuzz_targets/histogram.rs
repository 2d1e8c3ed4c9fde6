//! A histogram as it lies in the record: what is accepted is consistent and is written again as the same histogram.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msgpath_core::{Histogram, SparseHistogram};

fuzz_target!(|bytes: &[u8]| {
    let Some(sparse) = SparseHistogram::from_bytes(bytes) else { return };
    assert_eq!(SparseHistogram::from_bytes(&sparse.to_bytes()).as_ref(), Some(&sparse));
    for p in [0.0, 0.5, 0.99, 1.0] {
        if let Some(Some(value)) = sparse.quantile(p) {
            assert!(Some(value) >= sparse.min() && Some(value) <= sparse.max());
        }
    }
    let _ = (sparse.mean(), sparse.count_at_most(1_000));
    assert_eq!(
        sparse.ranges().map(|(_, _, count)| count).sum::<u64>(),
        sparse.total() - sparse.lost() - sparse.beyond()
    );
    let mut dense = Histogram::new();
    dense.merge_sparse(&sparse);
    // Not compared as bytes: a number may have been written longer than it needs.
    let again = dense.to_sparse();
    assert!(again.ranges().eq(sparse.ranges()));
    assert_eq!(
        (again.total(), again.lost(), again.beyond(), again.min(), again.max()),
        (sparse.total(), sparse.lost(), sparse.beyond(), sparse.min(), sparse.max())
    );
});
