//! Several machines: the offsets of all pairs together, and whether they agree around every loop.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PairClock;
use crate::record::RpcPair;
use msgpath_analyse::clocks::DRIFT_LIMIT;

/// More machines are not solved together: the work grows with the cube.
const MOST: usize = 64;

/// How far the clock of one machine is from that of another.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct MachineClock {
    /// IP address of the machine.
    pub address: String,
    /// The machine that it is compared with: the first of those that calls connect it with.
    pub base: String,
    /// What must be added to its clock to have that of the base, ns, in the middle of the run: least squares over all pairs,
    /// each with the weight 1/width².
    pub offset_ns: f64,
    /// How far from it the truth can be, ns.
    pub within_ns: f64,
}

/// A loop of pairs.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ClockLoop {
    /// The machines, in order around it.
    pub machines: Vec<String>,
    /// The offsets added up around it, ns.
    pub error_ns: f64,
    /// The bounds added up, ns.
    pub within_ns: f64,
    /// The error is within the bounds.
    pub closes: bool,
}

/// A pair: theta from the clock of `server` to that of `client`.
struct Edge {
    client: usize,
    server: usize,
    theta: f64,
    within: f64,
}

/// What is known of the way from a machine to the root of its tree.
#[derive(Clone, Copy)]
struct Node {
    parent: usize,
    root: usize,
    depth: usize,
    offset: f64,
    within: f64,
}

/// All machines and loops. `at`: the time at which the offsets are compared, ns since the start.
pub(super) fn solve(pairs: &[RpcPair], clocks: &[PairClock], at: u64) -> (Vec<MachineClock>, Vec<ClockLoop>) {
    let mut names: Vec<&str> = pairs.iter().flat_map(|pair| [pair.client.as_str(), pair.server.as_str()]).collect();
    names.sort_unstable();
    names.dedup();
    if pairs.len() < 2 || names.len() > MOST {
        return (Vec::new(), Vec::new());
    }
    let ids: BTreeMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (*name, at)).collect();
    let mut edges: Vec<Edge> = pairs
        .iter()
        .zip(clocks)
        .filter(|(pair, _)| pair.client != pair.server)
        .filter_map(|(pair, clock)| {
            let (theta, within) = theta(clock, at)?;
            Some(Edge { client: ids[pair.client.as_str()], server: ids[pair.server.as_str()], theta, within })
        })
        .collect();
    // The narrowest first: the tree is made of them.
    edges.sort_by(|a, b| a.within.total_cmp(&b.within));
    let (nodes, rest) = tree(names.len(), &edges);
    let loops = rest.iter().map(|edge| close(&names, &nodes, edge)).collect();
    let offsets = least_squares(&nodes, &edges);
    let machines = nodes
        .iter()
        .zip(offsets)
        .enumerate()
        .filter(|(at, (node, _))| node.root != *at)
        .map(|(at, (node, offset))| MachineClock {
            address: names[at].into(),
            base: names[node.root].into(),
            offset_ns: offset,
            within_ns: node.within + (offset - node.offset).abs(),
        })
        .collect();
    (machines, loops)
}

/// Theta of a pair at a time, with what lies between that time and the nearest piece, and with the drift during the offset
/// itself: the clients count the time each by their own clock.
fn theta(clock: &PairClock, at: u64) -> Option<(f64, f64)> {
    if clock.same {
        return Some((0.0, 0.0));
    }
    let piece = clock.at(at)?;
    let outside = at.saturating_sub(piece.to_ns).max(piece.from_ns.saturating_sub(at)) as f64;
    let theta = piece.theta(at);
    Some((theta, piece.within_ns + DRIFT_LIMIT * (outside + theta.abs())))
}

/// A tree over each group of machines, and the edges that close a loop in it.
fn tree(count: usize, edges: &[Edge]) -> (Vec<Node>, Vec<&Edge>) {
    let mut group: Vec<usize> = (0..count).collect();
    let (mut used, mut rest) = (Vec::new(), Vec::new());
    for edge in edges {
        let (a, b) = (group[edge.client], group[edge.server]);
        if a == b {
            rest.push(edge);
        } else {
            used.push(edge);
            let (low, high) = (a.min(b), a.max(b));
            group.iter_mut().filter(|own| **own == high).for_each(|own| *own = low);
        }
    }
    let mut nodes: Vec<Node> =
        (0..count).map(|at| Node { parent: at, root: at, depth: 0, offset: 0.0, within: 0.0 }).collect();
    let mut reached: Vec<bool> = group.iter().enumerate().map(|(at, group)| at == *group).collect();
    // Each turn reaches at least one machine, so there are at most `count`.
    for _ in 0..count {
        for edge in &used {
            let (from, to, theta) = match (reached[edge.client], reached[edge.server]) {
                (true, false) => (edge.client, edge.server, edge.theta),
                (false, true) => (edge.server, edge.client, -edge.theta),
                _ => continue,
            };
            let near = nodes[from];
            nodes[to] = Node {
                parent: from,
                root: near.root,
                depth: near.depth + 1,
                offset: near.offset + theta,
                within: near.within + edge.within,
            };
            reached[to] = true;
        }
    }
    (nodes, rest)
}

/// The loop that an edge closes: up to where the ways of its two ends meet.
fn close(names: &[&str], nodes: &[Node], edge: &Edge) -> ClockLoop {
    let (mut a, mut b) = (edge.client, edge.server);
    let (mut left, mut right) = (vec![a], vec![b]);
    while a != b {
        if nodes[a].depth >= nodes[b].depth {
            a = nodes[a].parent;
            left.push(a);
        } else {
            b = nodes[b].parent;
            right.push(b);
        }
    }
    right.pop();
    let common = nodes[a];
    let within = nodes[edge.client].within + nodes[edge.server].within - 2.0 * common.within + edge.within;
    let error_ns = nodes[edge.client].offset + edge.theta - nodes[edge.server].offset;
    let machines = left.into_iter().chain(right.into_iter().rev()).map(|at| names[at].to_owned()).collect();
    // A millionth: what adding up rounds away.
    let closes = error_ns.abs() <= within * (1.0 + 1e-6) + 1e-3;
    ClockLoop { machines, error_ns, within_ns: within, closes }
}

/// Offsets that minimise the squares of what the pairs disagree by, each divided by its width; roots stay at 0.
fn least_squares(nodes: &[Node], edges: &[Edge]) -> Vec<f64> {
    let count = nodes.len();
    let mut matrix = vec![vec![0.0; count + 1]; count];
    for edge in edges {
        let weight = edge.within.max(1.0).powi(-2);
        // offset[server] - offset[client] = theta
        for (own, other, theta) in [(edge.server, edge.client, edge.theta), (edge.client, edge.server, -edge.theta)] {
            matrix[own][own] += weight;
            matrix[own][other] -= weight;
            matrix[own][count] += weight * theta;
        }
    }
    for (at, node) in nodes.iter().enumerate().filter(|(at, node)| node.root == *at) {
        matrix[at].fill(0.0);
        matrix[at][node.root] = 1.0;
    }
    eliminate(matrix).unwrap_or_else(|| nodes.iter().map(|node| node.offset).collect())
}

/// Gauss with partial pivoting; the last column is the right side. `None`: singular.
fn eliminate(mut matrix: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let count = matrix.len();
    for column in 0..count {
        let best = (column..count).max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        matrix.swap(column, best);
        let pivot = matrix[column].clone();
        if pivot[column] == 0.0 {
            return None;
        }
        for (_, row) in matrix.iter_mut().enumerate().filter(|(at, _)| *at != column) {
            let factor = row[column] / pivot[column];
            if factor != 0.0 {
                row.iter_mut().zip(&pivot).for_each(|(own, pivot)| *own -= factor * pivot);
            }
        }
    }
    Some((0..count).map(|at| matrix[at][count] / matrix[at][at]).collect())
}
