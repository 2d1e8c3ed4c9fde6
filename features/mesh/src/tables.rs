//! The tables of a mesh as Parquet files: hosts, pairs, histograms. A few files, never one a pair.

use std::io::Write;
use std::path::Path;

use msgpath_core::{Histogram, Problem};
use msgpath_record::export::{TableColumn, TableValues, write_table};
use msgpath_verbs::output::OutputFile;
use msgpath_verbs::problems::cannot_write;

use crate::analyse::MeshSummary;
use crate::record::{PairBlock, read_mesh};
use crate::schema::MeshHeader;

/// Bins of the data set are this wide, in the logarithm: 3 %. Those of the record are finer.
const BIN: f64 = 0.03;

/// Writes `hosts.parquet`, `pairs.parquet` and `histograms.parquet` into a folder; their names.
///
/// # Errors
/// A file cannot be written, or the mesh cannot be read.
pub(crate) fn write(
    mesh: &Path,
    header: &MeshHeader,
    summary: &MeshSummary,
    folder: &Path,
) -> Result<Vec<String>, Problem> {
    std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    let tables = [
        ("hosts", hosts(header, summary)),
        ("pairs", pairs(header, summary)),
        ("histograms", histograms(mesh, header)?),
    ];
    let mut written = Vec::new();
    for (name, columns) in tables {
        let file = folder.join(format!("{name}.parquet"));
        let table = |out: &mut dyn Write| write_table(name, &columns, out).map_err(|error| cannot_write(&file, &error));
        OutputFile::Named(file.clone()).fill(table)?;
        written.push(format!("{name}.parquet"));
    }
    Ok(written)
}

fn column(name: &'static str, values: TableValues) -> TableColumn {
    TableColumn { name, values }
}

fn text(values: impl Iterator<Item = Option<String>>) -> TableValues {
    TableValues::Text(values.collect())
}

fn whole<T: TryInto<i64>>(values: impl Iterator<Item = Option<T>>) -> TableValues {
    TableValues::Whole(values.map(|value| value.and_then(|value| value.try_into().ok())).collect())
}

fn real(values: impl Iterator<Item = Option<f64>>) -> TableValues {
    TableValues::Real(values.collect())
}

/// A row a host and case.
fn hosts(header: &MeshHeader, summary: &MeshSummary) -> Vec<TableColumn> {
    let rows = || {
        summary
            .cases
            .iter()
            .flat_map(|case| case.hosts.iter().zip(&header.hosts).map(move |(host, of)| (case, host, of)))
    };
    let machine = |get: fn(&msgpath_core::schema::Environment) -> &String| {
        text(rows().map(move |(_, _, of)| of.environment.as_ref().map(|found| get(found).clone())))
    };
    let factor = |at: usize| real(rows().map(move |(_, host, _)| host.factor.map(|factor| factor[at])));
    vec![
        column("run", text(rows().map(|_| Some(summary.name.clone())))),
        column("host", text(rows().map(|(_, host, _)| Some(host.host.clone())))),
        column("rack", text(rows().map(|(_, host, _)| host.rack.clone()))),
        column("address", text(rows().map(|(_, _, of)| of.spec.address.map(|address| address.to_string())))),
        column("kernel", machine(|found| &found.kernel)),
        column("cpu", machine(|found| &found.cpu)),
        column("boot_id", machine(|found| &found.boot_id)),
        column("case", text(rows().map(|(case, _, _)| Some(case.name.clone())))),
        column("effect_low", factor(0)),
        column("effect", factor(1)),
        column("effect_high", factor(2)),
        column("pairs", whole(rows().map(|(_, host, _)| Some(host.pairs)))),
        column("failed", whole(rows().map(|(_, host, _)| Some(host.failed)))),
        column("busy_share", real(rows().map(|(_, host, _)| host.busy))),
    ]
}

/// A row a measurement of a pair and case, and a row a pair without a result.
fn pairs(header: &MeshHeader, summary: &MeshSummary) -> Vec<TableColumn> {
    let slots = || {
        let found = summary.pairs.iter().map(|pair| (pair.slot, Some(pair), None));
        found.chain(summary.missing.iter().map(|missing| (missing.slot, None, Some(missing))))
    };
    let rack = |at: u32| header.hosts[at as usize].spec.rack.clone();
    let case = |at: u32| &header.plan.cases[at as usize];
    let rounded = |ns: f64| ns.round() as i64;
    vec![
        column("run", text(slots().map(|_| Some(summary.name.clone())))),
        column("near", text(slots().map(|(slot, ..)| Some(header.host(slot.near).to_string())))),
        column("far", text(slots().map(|(slot, ..)| Some(header.host(slot.far).to_string())))),
        column("near_rack", text(slots().map(|(slot, ..)| rack(slot.near)))),
        column("far_rack", text(slots().map(|(slot, ..)| rack(slot.far)))),
        column("path", text(slots().map(|(_, pair, _)| pair.map(|pair| case(pair.case).path.to_string())))),
        column("size", whole(slots().map(|(_, pair, _)| pair.map(|pair| case(pair.case).size)))),
        column("purpose", text(slots().map(|(slot, ..)| Some(format!("{:?}", slot.purpose).to_lowercase())))),
        column("step", whole(slots().map(|(slot, ..)| Some(slot.step)))),
        column(
            "tries",
            whole(slots().map(|(_, pair, missing)| pair.map(|pair| pair.tries).or(missing.map(|one| one.tries)))),
        ),
        column("rounds", whole(slots().map(|(_, pair, _)| pair.map(|pair| pair.rounds)))),
        column("sent", whole(slots().map(|(_, pair, _)| pair.map(|pair| pair.sent)))),
        column("lost", whole(slots().map(|(_, pair, _)| pair.map(|pair| pair.lost)))),
        column("p50_ns", whole(slots().map(|(_, pair, _)| Some(rounded(pair?.p50?.ns))))),
        column("p50_low_ns", whole(slots().map(|(_, pair, _)| Some(rounded(pair?.p50?.lo_ns))))),
        column("p50_high_ns", whole(slots().map(|(_, pair, _)| Some(rounded(pair?.p50?.hi_ns?))))),
        column("p99_ns", whole(slots().map(|(_, pair, _)| Some(rounded(pair?.p99?.ns))))),
        column("min_ns", whole(slots().map(|(_, pair, _)| pair?.min_ns))),
        column("max_ns", whole(slots().map(|(_, pair, _)| pair?.max_ns))),
        column("mean_ns", whole(slots().map(|(_, pair, _)| Some(rounded(pair?.mean_ns?))))),
        column("residual", real(slots().map(|(_, pair, _)| pair?.residual))),
        column(
            "status",
            text(slots().map(|(_, pair, _)| {
                Some(if pair.is_some_and(|one| one.p50.is_some()) { "ok" } else { "failed" }.into())
            })),
        ),
        column(
            "reason",
            text(slots().map(|(_, pair, missing)| {
                let unavailable = pair.and_then(|pair| pair.unavailable.as_ref().map(|reason| reason.why.clone()));
                unavailable.or(missing.map(|one| one.problem.in_a_line()))
            })),
        ),
    ]
}

/// A row a measurement of a pair and case: its histogram in bins of 3 %, each by its lower end.
fn histograms(mesh: &Path, header: &MeshHeader) -> Result<Vec<TableColumn>, Problem> {
    let mut keys: [Vec<Option<String>>; 3] = Default::default();
    let mut numbers: [Vec<Option<i64>>; 2] = Default::default();
    let (mut bins, mut counts) = (Vec::new(), Vec::new());
    read_mesh(mesh, |block| {
        let PairBlock::Pair(pair) = block else { return };
        for case in &pair.cases {
            let mut all = Histogram::new();
            case.rounds.iter().for_each(|round| all.merge_sparse(&round.latency));
            let (mut lower, mut of): (Vec<i64>, Vec<i64>) = Default::default();
            for (low, high, count) in all.bins() {
                let bin = ((low.midpoint(high).max(1) as f64).ln() / BIN).floor();
                let from = (bin * BIN).exp().floor() as i64;
                match (lower.last(), of.last_mut()) {
                    (Some(last), Some(sum)) if *last == from => *sum += count as i64,
                    _ => {
                        lower.push(from);
                        of.push(count as i64);
                    }
                }
            }
            for (key, value) in keys.iter_mut().zip([
                header.host(pair.slot.near).to_string(),
                header.host(pair.slot.far).to_string(),
                format!("{:?}", pair.slot.purpose).to_lowercase(),
            ]) {
                key.push(Some(value));
            }
            numbers[0].push(Some(case.case.into()));
            numbers[1].push(Some(pair.slot.step.into()));
            bins.push(lower);
            counts.push(of);
        }
    })?;
    let ([near, far, purpose], [case, step]) = (keys, numbers);
    Ok(vec![
        column("near", TableValues::Text(near)),
        column("far", TableValues::Text(far)),
        column("purpose", TableValues::Text(purpose)),
        column("case", TableValues::Whole(case)),
        column("step", TableValues::Whole(step)),
        column("bin_ns", TableValues::List(bins)),
        column("count", TableValues::List(counts)),
    ])
}
