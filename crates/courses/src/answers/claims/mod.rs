//! Claims that people get wrong, and what settles each. One file per group; `docs/claims.md` lists all forty, with the
//! sentences that they print.

mod calls;
mod copies;
mod counters;
#[cfg(test)]
mod examples;
mod ipc;
mod measured;
mod ruling;
mod tails;
mod threads;
mod vehicles;
mod writes;
mod zero_copy;

use super::{Answer, Part, Settled};
use ruling::Ruling;

/// A claim: its number in the list of forty, its words as they are seen, and what these runs make of it; `None`: they do not
/// touch it.
pub type Claim = (u8, &'static str, fn(&[Part<'_>]) -> Option<Ruling>);

/// Every claim that a preset can settle, by group.
pub const CLAIMS: [&[Claim]; 9] = [
    calls::CLAIMS,
    copies::CLAIMS,
    counters::CLAIMS,
    ipc::CLAIMS,
    tails::CLAIMS,
    threads::CLAIMS,
    vehicles::CLAIMS,
    writes::CLAIMS,
    zero_copy::CLAIMS,
];

/// What these runs settle, by number.
pub fn settled(parts: &[Part<'_>]) -> Vec<Settled> {
    let settle = |(number, claim, settle): &Claim| {
        let Ruling { outcome, answer } = settle(parts)?;
        let answer = Answer { question: (*claim).into(), ..answer.whole() };
        Some(Settled { number: *number, claim: (*claim).into(), outcome, answer })
    };
    let mut settled: Vec<Settled> = CLAIMS.iter().copied().flatten().filter_map(settle).collect();
    settled.sort_by_key(|settled| settled.number);
    settled
}
