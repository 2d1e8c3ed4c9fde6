//! Who makes room where more come than there are places: whoever has waited longest, and nobody's address has more than its
//! share. So nobody who says something is kept out by those who say nothing.

/// The position of the one that goes before a newcomer from `source` gets a place; `None`: there is one. `waiting`: the sources
/// of those that have a place and have not earned it, the longest wait first.
pub fn first_to_go<'a, S: PartialEq + 'a>(
    waiting: impl Iterator<Item = &'a S>,
    source: &S,
    most: usize,
    most_of_one: usize,
) -> Option<usize> {
    let (mut all, mut own, mut oldest_own) = (0, 0, None);
    for (at, other) in waiting.enumerate() {
        all += 1;
        if other == source {
            own += 1;
            oldest_own = oldest_own.or(Some(at));
        }
    }
    match () {
        () if own >= most_of_one => oldest_own,
        () if all >= most => Some(0),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_wait_goes_first_and_no_source_has_more_than_its_share() {
        let goes = |waiting: &[u8], source: u8| first_to_go(waiting.iter(), &source, 4, 2);
        assert_eq!(goes(&[], 1), None);
        assert_eq!(goes(&[1, 2, 3], 1), None);
        assert_eq!(goes(&[1, 2, 3, 4], 5), Some(0));
        assert_eq!(goes(&[3, 1, 1], 1), Some(1), "its own oldest");
        assert_eq!(goes(&[3, 1, 1, 2], 2), Some(0));
    }
}
