//! Clocks of two machines, from the calls between them (docs/method/clocks.md#two-machines).
//!
//! Theta(t) is what must be added to the server's clock to have the client's, t by the client's clock. A request cannot
//! arrive before it was sent: theta(T1) >= T1 - T2. A reply cannot either: theta(T4) <= T4 - T3. Nothing is assumed about
//! the path. Between two steps of a clock theta is a line b + m t, and crystals keep |m| below [`DRIFT_LIMIT`]. So the
//! lines that are possible are a convex polygon in (m, b): its edges come from the hulls of the two sets of constraints.

use std::ops::Range;

use msgpath_core::schema::{RpcPair, RpcRow};

use super::{ClockPiece, PairClock, words};

/// Two clocks drift apart by less than this, ns per ns.
pub const DRIFT_LIMIT: f64 = 200e-6;
/// A drift whose range contains 0 counts as determined where the range is narrower than this.
const NARROW: f64 = 10e-6;
/// Stamps further from the start of the run, or from each other, belong to no run: 73 years, ns.
const FAR: i64 = 1 << 61;
/// More pieces than this are no steps of a clock.
const MOST_PIECES: usize = 16;
/// No more calls than this that contradict their neighbours are left out, and no more than a tenth.
const MOST_STRAY: usize = 32;
/// A stray call makes two breaks.
const MOST_BREAKS: usize = MOST_PIECES + 2 * MOST_STRAY;
/// Calls that are tried at once after a break; doubled while they agree.
const FIRST_CHUNK: usize = 64;
/// Calls that have to agree with each other before they are a piece of time, and not strays.
const PIECE: usize = 3;
/// A line with any drift at all, to tell clocks that run apart from clocks that were stepped.
const ANY_DRIFT: f64 = 0.1;

/// What one call says: theta at `sent` is at least `lower`, theta at `back` at most `upper`. ns; times since the first
/// call, thetas less that of the first call.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    sent: i64,
    lower: i64,
    back: i64,
    upper: i64,
}

impl Exchange {
    /// The same with time running backwards.
    fn reversed(self) -> Self {
        Self { sent: -self.sent, back: -self.back, ..self }
    }
}

/// The calls of a pair that say something, in the order of time, and what was subtracted from them.
struct Exchanges {
    all: Vec<Exchange>,
    start: i64,
    theta: i64,
    /// Calls whose server took longer than the whole call: no clock explains them.
    impossible: u64,
}

/// Without stamps of both ends a call says nothing; nothing is filled in. `allow`: what the resolution of the stamps leaves
/// open on each side, ns.
fn exchanges<'a>(rows: impl Iterator<Item = &'a RpcRow>, allow: i64) -> Exchanges {
    let mut impossible = 0;
    let near = |ns: i64| ns.unsigned_abs() < FAR as u64;
    let mut all: Vec<Exchange> = rows
        .filter_map(|row| {
            let (received, replied) = (row.received_ns?, row.replied_ns?);
            let (sent, latency) = (i64::try_from(row.start_ns).ok()?, i64::try_from(row.latency_ns?).ok()?);
            if ![received, replied, sent, latency].into_iter().all(near) {
                return None;
            }
            let one =
                Exchange { sent, lower: -received - allow, back: sent + latency, upper: latency - replied + allow };
            let drifted = (latency as f64 * DRIFT_LIMIT) as i64;
            let possible = one.lower <= one.upper + drifted && replied - received >= -2 * allow;
            impossible += u64::from(!possible);
            possible.then_some(one)
        })
        .collect();
    all.sort_unstable_by_key(|one| (one.sent, one.back));
    let (start, theta) = all.first().map_or((0, 0), |first| (first.sent, first.lower));
    for one in &mut all {
        (one.sent, one.back) = (one.sent - start, one.back - start);
        (one.lower, one.upper) = (one.lower - theta, one.upper - theta);
    }
    Exchanges { all, start, theta, impossible }
}

/// A time and a theta, ns.
type Point = (i64, i64);

/// The lower convex hull of points, in the order of time. A point that lies on or above the line between its neighbours
/// bounds no line that the neighbours do not.
fn lower_hull(points: &mut [Point]) -> Vec<Point> {
    points.sort_unstable();
    let mut hull: Vec<Point> = Vec::new();
    for point in points {
        if hull.last().is_some_and(|last| last.0 == point.0) {
            continue;
        }
        let above = |a: Point, b: Point| {
            let turn = |p: Point| (i128::from(p.0) - i128::from(a.0), i128::from(p.1) - i128::from(a.1));
            let ((bx, by), (px, py)) = (turn(b), turn(*point));
            by * px >= py * bx
        };
        while hull.len() >= 2 && above(hull[hull.len() - 2], hull[hull.len() - 1]) {
            hull.pop();
        }
        hull.push(*point);
    }
    hull
}

/// Slope of the edge that begins at a vertex.
fn slope(edge: &[Point]) -> f64 {
    (edge[1].1 as f64 - edge[0].1 as f64) / (edge[1].0 as f64 - edge[0].0 as f64)
}

/// The smallest y - m x over a lower hull.
fn lowest(hull: &[Point], m: f64) -> f64 {
    let edges = hull.len().saturating_sub(1);
    let (mut from, mut to) = (0, edges);
    while from < to {
        let middle = from.midpoint(to);
        if slope(&hull[middle..]) < m {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    hull.get(from).map_or(f64::INFINITY, |point| point.1 as f64 - m * point.0 as f64)
}

/// The constraints that matter: the hulls of all of them.
#[derive(Clone, Debug, Default)]
struct Hulls {
    /// Of the upper constraints.
    upper: Vec<Point>,
    /// Of the lower constraints, with the sign of theta turned.
    lower: Vec<Point>,
}

impl Hulls {
    /// These constraints and those of more calls.
    fn with(&self, calls: &[Exchange]) -> Self {
        let mut upper: Vec<Point> = self.upper.clone();
        let mut lower: Vec<Point> = self.lower.clone();
        upper.extend(calls.iter().map(|one| (one.back, one.upper)));
        lower.extend(calls.iter().map(|one| (one.sent, -one.lower)));
        Self { upper: lower_hull(&mut upper), lower: lower_hull(&mut lower) }
    }

    /// The lines with a slope within ±`limit` that violate nothing; `None`: there is none.
    fn lines(&self, limit: f64) -> Option<Lines> {
        let edges = |hull: &[Point], sign: f64| hull.windows(2).map(|edge| sign * slope(edge)).collect::<Vec<_>>();
        let mut slopes = edges(&self.upper, 1.0);
        slopes.extend(edges(&self.lower, -1.0));
        slopes.retain(|m| m.abs() < limit);
        slopes.extend([-limit, limit]);
        slopes.sort_unstable_by(f64::total_cmp);
        slopes.dedup();
        let corner = |m: f64| Corner { m, low: -lowest(&self.lower, -m), high: lowest(&self.upper, m) };
        let all: Vec<Corner> = slopes.into_iter().map(corner).collect();
        // Rounding of the arithmetic, far below the resolution of any stamp.
        let possible = |corner: &Corner| corner.high - corner.low >= -1e-3;
        let first = all.iter().position(possible)?;
        let last = all.iter().rposition(possible)?;
        let mut corners = all[first..=last].to_vec();
        if first > 0 {
            corners.insert(0, crossing(&all[first - 1], &all[first]));
        }
        if let Some(beyond) = all.get(last + 1) {
            corners.push(crossing(beyond, &all[last]));
        }
        Some(Lines { corners })
    }
}

/// Where between an impossible slope and a possible one the two bounds meet.
fn crossing(outside: &Corner, inside: &Corner) -> Corner {
    let (gap, lack) = ((inside.high - inside.low).max(0.0), outside.low - outside.high);
    let share = if gap + lack > 0.0 { gap / (gap + lack) } else { 0.0 };
    let between = |a: f64, b: f64| a + share * (b - a);
    Corner {
        m: between(inside.m, outside.m),
        low: between(inside.low, outside.low),
        high: between(inside.high, outside.high),
    }
}

/// The possible b at one slope.
#[derive(Clone, Copy, Debug)]
struct Corner {
    m: f64,
    low: f64,
    high: f64,
}

/// All lines that are possible: a convex polygon, by rising slope.
#[derive(Clone, Debug)]
struct Lines {
    corners: Vec<Corner>,
}

impl Lines {
    /// Smallest and largest slope.
    fn slopes(&self) -> (f64, f64) {
        (self.corners[0].m, self.corners[self.corners.len() - 1].m)
    }

    /// Smallest and largest theta at a time.
    fn bound(&self, t: f64) -> (f64, f64) {
        self.corners.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), corner| {
            (low.min(corner.low + corner.m * t), high.max(corner.high + corner.m * t))
        })
    }

    /// The middle of the possible b at a slope within the range.
    fn middle(&self, m: f64) -> f64 {
        let after = self.corners.partition_point(|corner| corner.m < m).min(self.corners.len() - 1);
        let (a, b) = (&self.corners[after.saturating_sub(1)], &self.corners[after]);
        let share = if b.m > a.m { (m - a.m) / (b.m - a.m) } else { 0.0 };
        let between = |a: f64, b: f64| a + share * (b - a);
        f64::midpoint(between(a.low, b.low), between(a.high, b.high))
    }
}

/// Where a line ends that begins with the first call: the position of each call that contradicts all since the last of
/// these positions. `None`: more than [`MOST_BREAKS`].
///
/// The constraints of the calls that agree are kept as their hulls, so a try costs the calls it adds; a piece of n calls
/// costs O(n log n).
fn breaks(calls: &[Exchange]) -> Option<Vec<usize>> {
    let (mut found, mut hulls) = (Vec::new(), Hulls::default());
    // The calls before `at` agree since the last break; `bad`: those before it do not.
    let (mut at, mut chunk, mut bad) = (0, calls.len(), None::<usize>);
    while at < calls.len() {
        if bad == Some(at + 1) {
            if found.len() >= MOST_BREAKS || found.last() == Some(&at) {
                return None;
            }
            found.push(at);
            (hulls, chunk, bad) = (Hulls::default(), FIRST_CHUNK, None);
        }
        let end = bad.map_or(calls.len().min(at.saturating_add(chunk)), |bad| at.midpoint(bad));
        let longer = hulls.with(&calls[at..end]);
        if longer.lines(DRIFT_LIMIT).is_some() {
            (hulls, at, chunk) = (longer, end, chunk.saturating_mul(2));
        } else {
            bad = Some(end);
        }
    }
    Some(found)
}

/// [`breaks`], after taking out of `calls` the few that alone contradict all the rest; how many they are.
fn split(calls: &mut Vec<Exchange>) -> (Option<Vec<usize>>, u64) {
    let all = calls.len();
    let may_stray = (all / 10).clamp(1, MOST_STRAY);
    let mut strays = 0;
    loop {
        let Some(found) = breaks(calls) else { return (None, strays as u64) };
        let short: Vec<_> = spans(&found, calls.len()).filter(|span| span.len() < PIECE).collect();
        let count: usize = short.iter().map(ExactSizeIterator::len).sum();
        if count == 0 || strays + count > may_stray || all <= PIECE {
            return ((found.len() < MOST_PIECES).then_some(found), strays as u64);
        }
        strays += count;
        for span in short.into_iter().rev() {
            calls.drain(span);
        }
    }
}

/// The pieces between breaks.
fn spans(found: &[usize], len: usize) -> impl Iterator<Item = Range<usize>> {
    let ends = found.iter().copied().chain([len]);
    std::iter::once(0).chain(found.iter().copied()).zip(ends).map(|(start, end)| start..end)
}

/// How the two clocks of a pair stand to each other. `rows`: its calls. `step_ns`: the smallest steps of both clocks added.
pub fn align(position: u32, pair: &RpcPair, rows: &[&RpcRow], step_ns: u64) -> PairClock {
    let allow = i64::try_from(step_ns).unwrap_or(FAR).min(FAR >> 8);
    let disordered = || rows.iter().filter(|row| in_order(row, allow) == Some(false)).count() as u64;
    let clock = PairClock { pair: position, same: pair.same_machine.is_some(), ..PairClock::default() };
    let refused = |text: String| PairClock { text, contradicting: disordered(), ..clock.clone() };
    if let Some(why) = &pair.same_machine {
        return refused(words::same(why, disordered()));
    }
    let Exchanges { all: mut calls, start, theta, impossible } = exchanges(rows.iter().copied(), allow);
    if calls.is_empty() {
        return PairClock { contradicting: impossible, ..refused(words::nothing(rows.len(), impossible)) };
    }
    let (found, strays) = split(&mut calls);
    if found.as_ref().is_none_or(|found| !found.is_empty()) {
        // Clocks that run apart too fast, or a step with too few calls to see that it is one: no line is drawn.
        if let Some(lines) = Hulls::default().with(&calls).lines(ANY_DRIFT) {
            return refused(words::impossible_drift(lines.slopes()));
        }
    }
    let Some(found) = found else { return refused(words::contradictory()) };
    let absolute = |piece: Piece| {
        let offset_ns = piece.line.offset_ns + theta as f64;
        ClockPiece {
            from_ns: (piece.from + start) as u64,
            to_ns: (piece.to + start) as u64,
            offset_ns,
            // A number of 64 bits cannot tell neighbouring nanoseconds of an offset of years apart.
            within_ns: piece.line.within_ns + 2.0 * f64::EPSILON * offset_ns.abs(),
            ..piece.line
        }
    };
    let pieces: Vec<ClockPiece> = pieces(&calls, &found).into_iter().map(absolute).collect();
    let text = words::found(&pieces, calls.len(), impossible + strays);
    PairClock { pieces, contradicting: impossible + strays, text, ..clock }
}

/// Whether the stamps of a call are in the order of time as they were read, up to the resolution; `None`: not all known.
pub(crate) fn in_order(row: &RpcRow, allow: i64) -> Option<bool> {
    let (received, replied, latency) = (row.received_ns?, row.replied_ns?, i64::try_from(row.latency_ns?).ok()?);
    Some(received >= -allow && replied <= latency.saturating_add(allow))
}

/// A piece in the times of [`Exchange`].
struct Piece {
    from: i64,
    to: i64,
    line: ClockPiece,
}

/// The line of each piece. Where a step is smaller than the bounds are wide, the calls around it fit both lines: only those
/// count that no choice of the border would give to the other piece.
fn pieces(calls: &[Exchange], found: &[usize]) -> Vec<Piece> {
    let mut backwards: Vec<Exchange> = calls.iter().map(|one| one.reversed()).collect();
    backwards.reverse();
    let early = breaks(&backwards).filter(|early| early.len() == found.len());
    let early: Option<Vec<usize>> = early.map(|early| early.iter().rev().map(|at| calls.len() - at).collect());
    let mut all = Vec::with_capacity(found.len() + 1);
    for (piece, span) in spans(found, calls.len()).enumerate() {
        let core = early.as_ref().and_then(|early| early.get(piece)).map_or(span.end, |early| *early);
        let certain = if core >= span.start + PIECE { &calls[span.start..core] } else { &calls[span.clone()] };
        let own = &calls[span];
        let (from, to) = (own[0].sent, own.iter().map(|one| one.back).max().unwrap_or(own[0].back));
        if let Some(lines) = Hulls::default().with(certain).lines(DRIFT_LIMIT) {
            all.push(Piece { from, to, line: line(&lines, from, to) });
        }
    }
    all
}

/// The estimate among the possible lines, and how far from it the others are anywhere in the piece. The largest and the
/// smallest possible theta are convex and concave in time, so the ends of the piece bound the distance.
fn line(lines: &Lines, from: i64, to: i64) -> ClockPiece {
    let (least, most) = lines.slopes();
    let drift_known = least > 0.0 || most < 0.0 || most - least <= NARROW;
    let drift = if drift_known { f64::midpoint(least, most) } else { 0.0 };
    let offset = lines.middle(drift);
    let away = |t: i64| {
        let (low, high) = lines.bound(t as f64);
        let here = offset + drift * t as f64;
        (high - here).max(here - low)
    };
    ClockPiece {
        offset_ns: offset + drift * from as f64,
        within_ns: away(from).max(away(to)),
        drift,
        drift_known,
        drift_least: least,
        drift_most: most,
        ..ClockPiece::default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rpc::RpcStage;
    use crate::testing_rpc::{Calls, MS, S, US};

    #[test]
    fn pings_with_a_shifted_clock_that_drifts() {
        // The server is 3 ms behind and drifts.
        let calls = Calls::new(1, 3.0 * MS, -50e-6).pings(120, 2.0 * S);
        let clock = calls.clock();
        calls.assert_covered(&clock);
        let piece = clock.pieces[0];
        let fastest = calls.rows.iter().filter_map(|row| row.latency_ns).min().unwrap() as f64;
        assert!(piece.within_ns < fastest, "{clock:?} {fastest}");
        assert!(piece.drift_least <= -50e-6 && -50e-6 <= piece.drift_most, "{piece:?}");
        assert!(clock.text.starts_with("offset +2948 µs, within ±179 µs; drift"), "{}", clock.text);
        assert!(clock.text.contains("what is not known"), "{}", clock.text);
    }

    #[test]
    fn large_writes_claim_no_drift() {
        // A server that is 3 ms behind and drifts, and one whose clock agrees.
        for (offset, drift) in [(3.0 * MS, -50e-6), (0.0, 0.0)] {
            let calls = Calls::new(2, offset, drift).writes(10);
            let clock = calls.clock();
            calls.assert_covered(&clock);
            let piece = clock.pieces[0];
            assert!(!piece.drift_known && piece.drift == 0.0, "{piece:?}");
            assert!(clock.text.contains("drift not determined"), "{}", clock.text);
            assert!(piece.within_ns > 4.0 * MS && piece.within_ns < 6.0 * MS);
            // Neither leg can be drawn.
            let band = &calls.rpc().kinds[0].bands[0];
            assert!(band.parts.iter().any(|part| part.stage == RpcStage::BothPaths), "{band:?}");
            assert!(!band.parts.iter().any(|part| part.stage == RpcStage::RequestPath), "{band:?}");
        }
    }

    #[test]
    fn one_machine_is_left_alone() {
        // Test 4.
        let calls = Calls::new(3, 0.0, 0.0).same_machine().writes(10);
        let clock = calls.clock();
        assert!(clock.same && clock.pieces.is_empty() && clock.contradicting == 0);
        assert!(clock.text.starts_with("same machine (both addresses are the same): one clock"), "{}", clock.text);
        for row in &calls.rows {
            let read = (row.received_ns.unwrap() as f64, row.replied_ns.unwrap() as f64, 0.0);
            assert_eq!(clock.aligned(row), Some(read));
        }
    }

    #[test]
    fn one_call_gives_an_interval() {
        // Test 5: T1 - T2 and T4 - T3 are 2880 and 3110 µs.
        let mut calls = Calls::new(4, 3.0 * MS, 0.0);
        calls.call(0.0, 120.0 * US, 4.0 * US, 110.0 * US);
        let clock = calls.clock();
        let piece = clock.pieces[0];
        let (low, high) = (piece.offset_ns - piece.within_ns, piece.offset_ns + piece.within_ns);
        assert!((low - 2_878.0 * US).abs() < 0.2 * US && (high - 3_112.0 * US).abs() < 0.2 * US, "{piece:?}");
        assert!(!piece.drift_known && piece.drift == 0.0);
        assert!(clock.text.contains("one call gives an interval and no drift"), "{}", clock.text);
        let (received, replied, _) = clock.aligned(&calls.rows[0]).unwrap();
        assert!((replied - received - 4.0 * US).abs() < 1e-6);
    }

    #[test]
    fn nothing_is_invented_where_stamps_are_missing() {
        // Test 6: records without a reply, or without the server's stamps, say nothing of the clocks.
        let mut calls = Calls::new(5, -MS, 0.0).pings(20, S);
        let before = calls.clock();
        for _ in 0..3 {
            calls.call(MS, 10.0, 10.0, 10.0).latency_ns = None;
            calls.call(MS, 10.0, 10.0, 10.0).received_ns = None;
        }
        assert_eq!(calls.clock(), before);
        calls.rows.drain(..20);
        let clock = calls.clock();
        assert!(clock.pieces.is_empty() && clock.text.contains("none of 6 calls"), "{}", clock.text);
        assert_eq!(clock.aligned(&calls.rows[0]), None);
    }

    #[test]
    fn a_step_is_found() {
        // Test 7: 10 ms half way.
        let calls = Calls::with(6, 1_000, |t| if t < S { 3.0 * MS } else { -7.0 * MS }).pings(120, 2.0 * S);
        let clock = calls.clock();
        calls.assert_covered(&clock);
        assert_eq!((clock.pieces.len(), clock.contradicting), (2, 0), "{clock:?}");
        assert!((clock.pieces[1].from_ns as f64 - S).abs() < 40.0 * MS, "{clock:?}");
        let (step, within) = words::step(&clock.pieces[0], &clock.pieces[1]);
        assert!((step + 10.0 * MS).abs() < within && within < MS, "{step} {within}");
        assert!(clock.text.contains("stepped by −10"), "{}", clock.text);
    }

    #[test]
    fn a_stray_call_is_no_step() {
        let mut calls = Calls::new(7, 3.0 * MS, 20e-6).pings(120, 2.0 * S);
        let row = &mut calls.rows[60];
        row.received_ns = row.received_ns.map(|ns| ns + 40_000_000);
        row.replied_ns = row.replied_ns.map(|ns| ns + 40_000_000);
        let clock = calls.clock();
        calls.assert_covered(&clock);
        assert_eq!((clock.pieces.len(), clock.contradicting), (1, 1), "{clock:?}");
        assert!(clock.text.contains("the stamps of 1 call contradict it"), "{}", clock.text);
    }

    #[test]
    fn impossible_clocks_are_not_aligned() {
        let runs_away = Calls::new(8, 0.0, 2_000e-6).pings(200, 4.0 * S);
        let clock = runs_away.clock();
        assert!(
            clock.pieces.is_empty() && clock.text.contains("only a drift of +1935 ppm to +2064 ppm"),
            "{}",
            clock.text
        );
        // A server that takes longer than the whole call.
        let mut calls = Calls::new(9, 0.0, 0.0);
        calls.call(0.0, 10.0 * US, 10.0 * US, 10.0 * US).replied_ns = Some(90_000_000);
        let clock = calls.clock();
        assert!((clock.contradicting, clock.pieces.is_empty()) == (1, true), "{clock:?}");
        assert!(clock.text.contains("longer than the whole call"), "{}", clock.text);
        // Random stamps.
        let mut calls = Calls::new(10, 0.0, 0.0).pings(500, S);
        for row in &mut calls.rows {
            let noise = fastrand::Rng::with_seed(u64::from(row.rpcid)).i64(-50_000_000..50_000_000);
            row.received_ns = row.received_ns.map(|ns| ns + noise);
            row.replied_ns = row.replied_ns.map(|ns| ns + noise);
        }
        let clock = calls.clock();
        assert!(clock.pieces.is_empty() && clock.text.contains("contradict each other"), "{clock:?}");
    }

    #[test]
    fn hostile_stamps_do_no_harm() {
        let extremes = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
        let mut rows = Vec::new();
        for received in extremes {
            for replied in extremes {
                for (start, latency) in [(0, u64::MAX), (u64::MAX, 1), (1 << 60, 1 << 60), (5, 0)] {
                    rows.push(RpcRow {
                        start_ns: start,
                        latency_ns: Some(latency),
                        received_ns: Some(received),
                        replied_ns: Some(replied),
                        ..RpcRow::default()
                    });
                }
            }
        }
        let rows: Vec<&RpcRow> = rows.iter().collect();
        for step in [0, 1_000, u64::MAX] {
            let clock = align(0, &RpcPair::default(), &rows, step);
            assert!(clock.pieces.iter().all(|piece| piece.within_ns.is_finite() && piece.offset_ns.is_finite()));
        }
    }

    #[test]
    fn a_million_calls_take_no_time() {
        let calls = Calls::with(11, 1, |t| -5.0 * S + 30e-6 * t).pings(1_000_000, 600.0 * S);
        let begin = std::time::Instant::now();
        let clock = calls.clock();
        let took = begin.elapsed();
        calls.assert_covered(&clock);
        assert!(clock.pieces[0].drift_known && (clock.pieces[0].drift - 30e-6).abs() < 1e-6, "{clock:?}");
        // A debug build on a busy machine; the release build is far below a tenth of it.
        assert!(took.as_secs() < 120, "{took:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn the_truth_lies_within_the_bound(
            seed: u64,
            offset in -1e13..1e13f64,
            drift in -199e-6..199e-6f64,
            count in 1..150usize,
            spread in 0.0..1e6f64,
            gap in 0.0..1e8f64,
            step in prop::sample::select(vec![1u64, 1_000, 1_000_000]),
        ) {
            let mut calls = Calls::with(seed, step, move |t| offset + drift * t);
            for _ in 0..count {
                let (there, work, back) = (calls.delay(1e4, spread), calls.delay(0.0, spread), calls.delay(2e4, spread));
                calls.call(gap, there, work, back);
            }
            let clock = calls.clock();
            prop_assert_eq!((clock.pieces.len(), clock.contradicting), (1, 0), "{:?}", clock);
            calls.assert_covered(&clock);
            let piece = clock.pieces[0];
            let slack = 1e-9 + 1e-3 / (piece.to_ns - piece.from_ns).max(1) as f64;
            prop_assert!(piece.drift_least - slack <= drift && drift <= piece.drift_most + slack, "{:?}", piece);
        }

        #[test]
        fn steps_leave_the_truth_within_the_bounds(seed: u64, step in 1e6..1e9f64, down: bool, at in 0.2..0.8f64) {
            let step = if down { -step } else { step };
            let calls = Calls::with(seed, 1_000, move |t| if t < at * 2e9 { 0.0 } else { step }).pings(150, 2.0 * S);
            let clock = calls.clock();
            prop_assert_eq!(clock.pieces.len(), 2, "{:?}", clock);
            let (found, within) = words::step(&clock.pieces[0], &clock.pieces[1]);
            prop_assert!((found - step).abs() <= within, "{} {}", found, within);
        }

        #[test]
        fn a_step_of_any_size_is_not_told_wrongly(seed: u64, step in -1e6..1e6f64) {
            // Small steps may go unseen; what is told of them holds.
            let calls = Calls::with(seed, 1, move |t| if t < S { 0.0 } else { step }).pings(150, 2.0 * S);
            let clock = calls.clock();
            if clock.pieces.len() == 2 {
                let (found, within) = words::step(&clock.pieces[0], &clock.pieces[1]);
                prop_assert!((found - step).abs() <= within, "{} {} {}", found, within, step);
            }
        }

        #[test]
        fn a_drift_beyond_the_limit_is_never_reported(seed: u64, drift in 500e-6..0.05f64, down: bool) {
            let drift = if down { -drift } else { drift };
            let calls = Calls::with(seed, 1_000, move |t| drift * t).pings(400, 8.0 * S);
            let clock = calls.clock();
            prop_assert!(clock.pieces.is_empty(), "{:?}", clock);
        }
    }
}
