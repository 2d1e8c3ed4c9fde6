//! How two clocks stand to each other, from exchanges with four stamps between them: calls of a server, or messages of an
//! echo (docs/method/clocks.md#two-machines).

mod lines;
pub mod words;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use lines::DRIFT_LIMIT;
use lines::{ANY_DRIFT, Exchange, FAR, Hulls, Piece, pieces, split};
pub use words::step as clock_step;

/// A span of time in which one line holds: theta(t) is what must be added to the far clock to have the near one, t by the near
/// clock since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ClockPiece {
    /// From here, ns since the start of the run by the client's clock.
    pub from_ns: u64,
    /// To here.
    pub to_ns: u64,
    /// The estimate of theta at `from_ns`, ns: the middle of what is possible.
    pub offset_ns: f64,
    /// How far from the estimate theta can be, ns, anywhere in the piece.
    pub within_ns: f64,
    /// Drift, ns per ns; 0 where it could not be determined.
    #[serde(rename = "drift_ns_per_ns")]
    pub drift: f64,
    /// Whether the data determine the drift.
    pub drift_known: bool,
    /// Smallest and largest drift that the calls leave possible, ns per ns.
    pub drift_least: f64,
    /// See `drift_least`.
    pub drift_most: f64,
    /// Where in the piece theta is known best, ns since the start of the run, and how far from the estimate it can be there, ns.
    #[serde(skip)]
    pub narrowest: Option<(u64, f64)>,
}

impl ClockPiece {
    /// Theta at `t_ns` since the start of the run, ns.
    pub fn theta(&self, t_ns: u64) -> f64 {
        self.offset_ns + self.drift * (t_ns as f64 - self.from_ns as f64)
    }

    /// How far from the estimate theta can be at `t_ns`, ns. The distance is convex in time: where it is known at both ends and
    /// at its narrowest, it lies below the lines between these.
    pub fn within(&self, t_ns: u64) -> f64 {
        let Some((best, narrowest)) = self.narrowest else { return self.within_ns };
        let end = if t_ns < best { self.from_ns } else { self.to_ns };
        let (here, all) = (t_ns.abs_diff(best) as f64, end.abs_diff(best) as f64);
        if here >= all {
            return if t_ns == best { narrowest } else { self.within_ns };
        }
        narrowest + (self.within_ns - narrowest) * here / all
    }
}

/// The piece that holds at `t_ns`; `None`: nothing is known of the clocks.
pub fn at(pieces: &[ClockPiece], t_ns: u64) -> Option<&ClockPiece> {
    pieces.iter().rev().find(|piece| piece.from_ns <= t_ns).or(pieces.first())
}

/// The four stamps of an exchange: T1 and T4 by the near clock, T2 and T3 by the far one.
#[derive(Clone, Copy, Debug)]
pub struct Stamps {
    /// T1, ns since the start of the run.
    pub start_ns: u64,
    /// T4 - T1, ns.
    pub latency_ns: u64,
    /// T2 - T1 as read from the two clocks, ns.
    pub received_ns: i64,
    /// T3 - T1 as read from the two clocks, ns.
    pub replied_ns: i64,
}

impl Stamps {
    /// What it says of the clocks; `None`: no clock explains it. `allow`: what the resolution of the stamps leaves open on
    /// each side, ns.
    fn exchange(&self, allow: i64) -> Option<Option<Exchange>> {
        let Self { received_ns: received, replied_ns: replied, .. } = *self;
        let (sent, latency) = (i64::try_from(self.start_ns).ok()?, i64::try_from(self.latency_ns).ok()?);
        if ![received, replied, sent, latency].into_iter().all(|ns| ns.unsigned_abs() < FAR as u64) {
            return None;
        }
        let one = Exchange { sent, lower: -received - allow, back: sent + latency, upper: latency - replied + allow };
        let drifted = (latency as f64 * DRIFT_LIMIT) as i64;
        Some((one.lower <= one.upper + drifted && replied - received >= -2 * allow).then_some(one))
    }
}

/// Exchanges that are kept at most, unless somebody wants fewer.
pub const KEPT: usize = 1 << 16;
/// Exchanges, one after the other in time, of which those that bound the clocks are looked for first.
const NEAR: usize = 256;

/// Exchanges one after the other. Of many only those are kept that bound the clocks, first within short times, so that a step
/// of a clock keeps its place.
pub struct Envelope {
    allow: i64,
    most: usize,
    kept: Vec<Stamps>,
    all: usize,
    impossible: u64,
}

impl Envelope {
    /// None yet. `allow`: [`allowance`]; `most`: how many are kept.
    pub fn new(allow: i64, most: usize) -> Self {
        Self { allow, most, kept: Vec::new(), all: 0, impossible: 0 }
    }

    /// Takes one; `None`: without the stamps of both ends.
    pub fn add(&mut self, stamps: Option<Stamps>) {
        self.all += 1;
        match stamps.and_then(|stamps| Some((stamps, stamps.exchange(self.allow)?))) {
            Some((stamps, Some(_))) => self.kept.push(stamps),
            // No clock explains it.
            Some((_, None)) => self.impossible += 1,
            None => {}
        }
        if self.kept.len() >= self.most {
            self.thin();
        }
    }

    /// Leaves half at most. Where more of them bound the clocks than that, every other goes: the bounds become wider, not wrong.
    fn thin(&mut self) {
        self.kept.sort_by_key(|one| (one.start_ns, one.latency_ns));
        let mut near = NEAR;
        while self.kept.len() > self.most / 2 && near < 2 * self.kept.len() {
            self.kept = self.kept.chunks(near).flat_map(|chunk| decisive(chunk, self.allow)).collect();
            near *= 4;
        }
        while self.kept.len() > self.most / 2 {
            let mut at = 0;
            self.kept.retain(|_| {
                at += 1;
                at % 2 == 1
            });
        }
    }

    /// How the two clocks stand to each other. Each exchange is called a `noun`.
    pub fn align(&self, noun: &str) -> Found {
        align(&self.kept, self.impossible, self.all, noun, self.allow)
    }
}

/// Those exchanges that alone bound the clocks: the others say nothing that these do not.
fn decisive(all: &[Stamps], allow: i64) -> impl Iterator<Item = Stamps> {
    let known = move |one: &Stamps| one.exchange(allow).flatten();
    let exchanges: Vec<Exchange> = all.iter().filter_map(known).collect();
    let hulls = Hulls::default().with(&exchanges);
    all.iter().copied().filter(move |one| known(one).is_some_and(|one| hulls.bound_by(&one)))
}

/// What exchanges say of two clocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Pieces of time, each with its own line; more than one where a clock was stepped.
    pub pieces: Vec<ClockPiece>,
    /// In a sentence: `offset +2978 µs, within ±41 µs`.
    pub text: String,
    /// Exchanges whose stamps contradict the bounds; `None`: no line was drawn.
    pub contradicting: Option<u64>,
}

/// What the resolution of stamps leaves open on each side, ns. `step_ns`: the smallest steps of both clocks added.
pub fn allowance(step_ns: u64) -> i64 {
    i64::try_from(step_ns).unwrap_or(FAR).min(FAR >> 8)
}

/// How two clocks stand to each other. `impossible`: exchanges that no clock explains, which are not among `stamps`; `of`: those
/// there were, stamped or not, each called a `noun`.
fn align(stamps: &[Stamps], impossible: u64, of: usize, noun: &str, allow: i64) -> Found {
    let refused = |text: String| Found { text, ..Found::default() };
    let mut all: Vec<Exchange> = stamps.iter().filter_map(|one| one.exchange(allow).flatten()).collect();
    all.sort_unstable_by_key(|one| (one.sent, one.back));
    let Some((start, theta)) = all.first().map(|first| (first.sent, first.lower)) else {
        return Found { contradicting: Some(impossible), ..refused(words::nothing(of, noun, impossible)) };
    };
    for one in &mut all {
        (one.sent, one.back) = (one.sent - start, one.back - start);
        (one.lower, one.upper) = (one.lower - theta, one.upper - theta);
    }
    let (found, strays) = split(&mut all);
    if found.as_ref().is_none_or(|found| !found.is_empty()) {
        // Clocks that run apart too fast, or a step with too few exchanges to see that it is one: no line is drawn.
        if let Some(lines) = Hulls::default().with(&all).lines(ANY_DRIFT) {
            return refused(words::impossible_drift(lines.slopes(), noun));
        }
    }
    let Some(found) = found else { return refused(words::contradictory()) };
    let absolute = |piece: Piece| {
        let offset_ns = piece.line.offset_ns + theta as f64;
        // A number of 64 bits cannot tell neighbouring nanoseconds of an offset of years apart.
        let rounding = 2.0 * f64::EPSILON * offset_ns.abs();
        ClockPiece {
            from_ns: (piece.from + start) as u64,
            to_ns: (piece.to + start) as u64,
            offset_ns,
            within_ns: piece.line.within_ns + rounding,
            narrowest: Some(((piece.best.0 + start) as u64, piece.best.1 + rounding)),
            ..piece.line
        }
    };
    let pieces: Vec<ClockPiece> = pieces(&all, &found).into_iter().map(absolute).collect();
    let text = words::found(&pieces, all.len(), noun, impossible + strays);
    Found { pieces, text, contradicting: Some(impossible + strays) }
}
