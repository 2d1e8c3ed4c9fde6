//! Claims that people get wrong, and what settles each. One file per group; `docs/claims.md` lists all forty.

mod copies;
mod local;
mod threads;
mod vehicles;
mod writes;

use super::{Answer, Part, Settled};

/// A claim: its number in the list of forty, its words as they are seen, and what these runs say of it; `None`: they do not
/// touch it.
pub type Claim = (u8, &'static str, fn(&[Part<'_>]) -> Option<Answer>);

/// Every claim that a preset can settle, by group.
pub const CLAIMS: [&[Claim]; 5] = [copies::CLAIMS, writes::CLAIMS, local::CLAIMS, threads::CLAIMS, vehicles::CLAIMS];

/// What these runs settle, by number.
pub fn settled(parts: &[Part<'_>]) -> Vec<Settled> {
    let settle = |(number, claim, settle): &Claim| {
        let answer = Answer { question: (*claim).into(), ..settle(parts)?.whole() };
        Some(Settled { number: *number, claim: (*claim).into(), answer })
    };
    let mut settled: Vec<Settled> = CLAIMS.iter().copied().flatten().filter_map(settle).collect();
    settled.sort_by_key(|settled| settled.number);
    settled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_the_forty_has_one_who_settles_it() {
        let mut numbers: Vec<u8> = CLAIMS.iter().flat_map(|group| group.iter()).map(|claim| claim.0).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=40).collect::<Vec<_>>());
    }

    #[test]
    fn without_runs_nothing_is_settled() {
        assert_eq!(settled(&[]), []);
    }
}
