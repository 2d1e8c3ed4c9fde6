//! Claims that people get wrong, and what settles each. One file per group; `docs/claims.md` lists all forty.

mod copies;
mod local;
mod threads;
mod vehicles;
mod writes;

use super::{Answer, Part, Settled};

/// A claim.
pub struct Claim {
    /// Its number in the list of forty.
    pub number: u8,
    /// As it is seen.
    pub claim: &'static str,
    /// What these runs say of it; `None`: they do not touch it. The question of the answer is the claim.
    pub settle: fn(&[Part<'_>]) -> Option<Answer>,
}

/// Every claim that a preset can settle, by group.
pub const CLAIMS: [&[Claim]; 5] = [copies::CLAIMS, writes::CLAIMS, local::CLAIMS, threads::CLAIMS, vehicles::CLAIMS];

/// What these runs settle, by number.
pub fn settled(parts: &[Part<'_>]) -> Vec<Settled> {
    let claims = CLAIMS.iter().flat_map(|group| group.iter());
    let mut settled: Vec<Settled> = claims
        .filter_map(|claim| {
            let answer = (claim.settle)(parts)?.whole();
            Some(Settled { number: claim.number, claim: claim.claim.into(), answer })
        })
        .collect();
    settled.sort_by_key(|settled| settled.number);
    settled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_the_forty_has_one_who_settles_it() {
        let mut numbers: Vec<u8> = CLAIMS.iter().flat_map(|group| group.iter()).map(|claim| claim.number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=40).collect::<Vec<_>>());
    }

    #[test]
    fn without_runs_nothing_is_settled() {
        assert_eq!(settled(&[]), []);
    }
}
