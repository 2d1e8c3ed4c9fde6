//! The lines that the difference of two clocks can be (docs/method/clocks.md#two-machines).
//!
//! Theta(t) is what must be added to the far clock to have the near one, t by the near clock. A request cannot arrive before it
//! was sent: theta(T1) >= T1 - T2. A reply cannot either: theta(T4) <= T4 - T3. Nothing is assumed about the path. Between two
//! steps of a clock theta is a line b + m t, and crystals keep |m| below [`DRIFT_LIMIT`]. So the lines that are possible are a
//! convex polygon in (m, b): its edges come from the hulls of the two sets of constraints.

use std::ops::Range;

use super::ClockPiece;

/// Two clocks drift apart by less than this, ns per ns.
pub const DRIFT_LIMIT: f64 = 200e-6;
/// A drift whose range contains 0 counts as determined where the range is narrower than this.
const NARROW: f64 = 10e-6;
/// Stamps further from the start of the run, or from each other, belong to no run: 73 years, ns.
pub(super) const FAR: i64 = 1 << 61;
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
pub(super) const ANY_DRIFT: f64 = 0.1;

/// What one call says: theta at `sent` is at least `lower`, theta at `back` at most `upper`. ns; times since the first
/// call, thetas less that of the first call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub(super) sent: i64,
    pub(super) lower: i64,
    pub(super) back: i64,
    pub(super) upper: i64,
}

impl Exchange {
    /// The same with time running backwards.
    fn reversed(self) -> Self {
        Self { sent: -self.sent, back: -self.back, ..self }
    }
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
pub(super) struct Hulls {
    /// Of the upper constraints.
    upper: Vec<Point>,
    /// Of the lower constraints, with the sign of theta turned.
    lower: Vec<Point>,
}

impl Hulls {
    /// These constraints and those of more calls.
    pub(super) fn with(&self, calls: &[Exchange]) -> Self {
        let mut upper: Vec<Point> = self.upper.clone();
        let mut lower: Vec<Point> = self.lower.clone();
        upper.extend(calls.iter().map(|one| (one.back, one.upper)));
        lower.extend(calls.iter().map(|one| (one.sent, -one.lower)));
        Self { upper: lower_hull(&mut upper), lower: lower_hull(&mut lower) }
    }

    /// Whether the hulls have a corner of this exchange.
    pub(super) fn bound_by(&self, one: &Exchange) -> bool {
        let has = |hull: &[Point], point: Point| hull.binary_search(&point).is_ok();
        has(&self.upper, (one.back, one.upper)) || has(&self.lower, (one.sent, -one.lower))
    }

    /// The lines with a slope within ±`limit` that violate nothing; `None`: there is none.
    pub(super) fn lines(&self, limit: f64) -> Option<Lines> {
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
pub(super) struct Lines {
    corners: Vec<Corner>,
}

impl Lines {
    /// Smallest and largest slope.
    pub(super) fn slopes(&self) -> (f64, f64) {
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
    let mut found = Vec::new();
    let mut hulls = Hulls::default();
    // The calls before `at` agree since the last break; `bad`: those before it do not.
    let mut at = 0;
    let mut chunk = calls.len();
    let mut bad = None::<usize>;
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
pub(super) fn split(calls: &mut Vec<Exchange>) -> (Option<Vec<usize>>, u64) {
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

/// A piece in the times of [`Exchange`].
pub(super) struct Piece {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) line: ClockPiece,
    /// When theta is known best, and how far from the estimate it can be then.
    pub(super) best: (i64, f64),
}

/// The line of each piece. Where a step is smaller than the bounds are wide, the calls around it fit both lines: only those
/// count that no choice of the border would give to the other piece.
pub(super) fn pieces(calls: &[Exchange], found: &[usize]) -> Vec<Piece> {
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
            let (line, best) = line(&lines, from, to);
            all.push(Piece { from, to, line, best });
        }
    }
    all
}

/// The estimate among the possible lines, how far from it the others are anywhere in the piece, and when and how far they are
/// nearest. The largest and the smallest possible theta are convex and concave in time, so the ends of the piece bound the distance.
fn line(lines: &Lines, from: i64, to: i64) -> (ClockPiece, (i64, f64)) {
    let (least, most) = lines.slopes();
    let drift_known = least > 0.0 || most < 0.0 || most - least <= NARROW;
    let drift = if drift_known { f64::midpoint(least, most) } else { 0.0 };
    let offset = lines.middle(drift);
    let away = |t: i64| {
        let (low, high) = lines.bound(t as f64);
        let here = offset + drift * t as f64;
        (high - here).max(here - low)
    };
    let piece = ClockPiece {
        offset_ns: offset + drift * from as f64,
        within_ns: away(from).max(away(to)),
        drift,
        drift_known,
        drift_least: least,
        drift_most: most,
        ..ClockPiece::default()
    };
    // Convex: the lowest place is in one half or the other.
    let (mut left, mut right) = (from, to);
    while left < right {
        let middle = left + (right - left) / 2;
        if away(middle) <= away(middle + 1) {
            right = middle;
        } else {
            left = middle + 1;
        }
    }
    (piece, (left, away(left)))
}
