//! What measuring tools of others said between the rounds of a run, beside the case of ours that they do as well. A turn of the
//! tools is paired with the passes around it.

use std::collections::BTreeMap;
use std::rc::Rc;

use msgpath_analyse::Summary;
use msgpath_analyse::series::series;
use msgpath_analyse::summary::CaseSummary;
use msgpath_core::CaseRole;
use msgpath_core::plan::Metric;
use msgpath_core::schema::RoundRecord;
use msgpath_core::units::Glyphs;
use msgpath_present::answers::cell::{Cell, Table, Value};
use msgpath_present::answers::columns::{bits_or, quantile_cell, ratio_or, table, time_or};
use msgpath_record::Run;
use msgpath_stats::describe::mean;
use msgpath_stats::estimate::{Estimate, log_estimate};
use msgpath_stats::paired::Series;

use crate::log::ToolRun;
use crate::{Exchange, Printed, Tool, Work, tool};

/// A tool that did the work of a case.
pub struct Beside<'a> {
    pub tool: &'static Tool,
    pub case: &'a CaseSummary,
    /// What both do.
    pub exchange: Exchange,
    /// What it printed in each turn.
    pub turns: BTreeMap<u32, Printed>,
    /// Why it has no number, where it has none in any turn.
    pub why: String,
    /// The run of ours.
    run: &'a Run,
    /// The passes of ours after which the turns were, those of other tools among them.
    passes: Rc<BTreeMap<u32, u32>>,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Mean,
    P50,
    P99,
    Bits,
}

impl By {
    fn of(self, printed: &Printed) -> Option<f64> {
        match self {
            By::Mean => printed.round_trip(printed.mean),
            By::P50 => printed.round_trip(printed.p50),
            By::P99 => printed.round_trip(printed.p99),
            By::Bits => printed.bits,
        }
    }

    /// The metric of ours; a round has no tail of its own.
    fn metric(self) -> Option<Metric> {
        match self {
            By::Mean => Some(Metric::Mean),
            By::P50 => Some(Metric::P50),
            By::P99 => None,
            By::Bits => Some(Metric::Throughput),
        }
    }
}

impl Beside<'_> {
    /// What it printed in each turn, times as round trips.
    pub fn values(&self, by: By) -> Vec<f64> {
        self.turns.values().filter_map(|printed| by.of(printed)).collect()
    }

    /// Its geometric mean over the turns, with its interval.
    pub fn estimate(&self, by: By) -> Option<Estimate> {
        log_estimate(&self.values(by))
    }

    /// Divided by ours of the passes around each turn.
    pub fn ratio(&self, by: By) -> Option<Estimate> {
        let ours = self.around(by.metric()?);
        let ratios = self.turns.iter().filter_map(|(turn, printed)| Some(by.of(printed)? / ours.get(turn)?));
        log_estimate(&ratios.collect::<Vec<_>>())
    }

    /// Ours around each turn, by what it is compared by.
    pub fn ours(&self) -> Vec<f64> {
        self.best().metric().map(|metric| self.around(metric).into_values().collect()).unwrap_or_default()
    }

    /// A metric of ours by pass, disturbed rounds included: what disturbs them disturbs the tools as well.
    fn in_all_rounds(&self, metric: Metric) -> Series {
        let own = |round: &&RoundRecord| round.case == self.case.case.id;
        let rounds: Vec<&RoundRecord> = self.run.rounds.iter().filter(own).collect();
        series(&self.run.header.plan, metric, &rounds)
    }

    /// Ours around each turn: the mean over the passes that are nearer to it than to any other turn.
    fn around(&self, metric: Metric) -> BTreeMap<u32, f64> {
        let nearest = |pass: u32| self.passes.iter().min_by_key(|(_, at)| at.abs_diff(pass)).map(|(turn, _)| *turn);
        let mut found: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (pass, value) in self.in_all_rounds(metric) {
            if let Some(turn) = nearest(pass) {
                found.entry(turn).or_default().push(value.ln());
            }
        }
        found.into_iter().map(|(turn, logs)| (turn, mean(&logs).exp())).collect()
    }

    /// The median where it prints one, else the mean; of a stream the throughput.
    pub fn best(&self) -> By {
        match self.exchange.work {
            Work::Stream => By::Bits,
            _ if self.turns.values().any(|printed| printed.p50.is_some()) => By::P50,
            _ => By::Mean,
        }
    }

    /// Whether its times are half a round trip.
    pub fn halves(&self) -> bool {
        self.turns.values().any(|printed| printed.half)
    }

    /// What it printed itself, in its own way of counting.
    pub fn as_printed(&self) -> Option<f64> {
        let own = |printed: &Printed| if self.best() == By::P50 { printed.p50 } else { printed.mean };
        Some(log_estimate(&self.turns.values().filter_map(own).collect::<Vec<_>>())?.value)
    }
}

/// The tools of a run, by their cases.
pub fn beside<'a>(run: &'a Run, summary: &'a Summary, said: &[ToolRun]) -> Vec<Beside<'a>> {
    let workload = run.header.plan.workload;
    let passes: Rc<BTreeMap<u32, u32>> = Rc::new(said.iter().map(|one| (one.turn, one.pass)).collect());
    let measured =
        |case: &&CaseSummary| case.case.role == CaseRole::Measured && case.rounds > 0 && !case.case.traits.program;
    let mut all: Vec<Beside<'a>> = Vec::new();
    for told in said {
        let case = summary.cases.iter().filter(measured).find(|one| one.case.id == told.case);
        let Some((case, tool)) = case.zip(tool(&told.tool)) else { continue };
        let Some(exchange) = Exchange::of(&case.case, workload) else { continue };
        let known = all.iter().position(|one| one.case.case.id == told.case && one.tool.name == tool.name);
        let at = known.unwrap_or_else(|| {
            let (turns, passes) = (BTreeMap::new(), Rc::clone(&passes));
            all.push(Beside { tool, case, exchange, turns, why: String::new(), run, passes });
            all.len() - 1
        });
        match read(tool, &exchange, told) {
            Ok(printed) => {
                all[at].turns.insert(told.turn, printed);
            }
            Err(why) => all[at].why = why,
        }
    }
    all.sort_by_key(|one| one.case.case.id);
    all
}

fn read(tool: &Tool, exchange: &Exchange, run: &ToolRun) -> Result<Printed, String> {
    match (run.why.is_empty(), run.hint.is_empty()) {
        (true, _) => (tool.read)(exchange, &run.output),
        (_, true) => Err(run.why.clone()),
        _ => Err(format!("{}: {}", run.why, run.hint)),
    }
}

/// A row: ours, or a tool beside it.
enum Row<'r, 'a> {
    Own(&'a CaseSummary),
    Other(&'r Beside<'a>),
}

/// The tables of the run of this name: times or throughput beside ours, with how each number is to be read, and who did not take part.
pub fn tables(name: &str, run: &Run, summary: &Summary, said: &[ToolRun]) -> Vec<Table> {
    let all = beside(run, summary, said);
    let (took_part, absent): (Vec<&Beside<'_>>, Vec<&Beside<'_>>) = all.iter().partition(|one| !one.turns.is_empty());
    let mut rows: Vec<Row<'_, '_>> = Vec::new();
    for &one in &took_part {
        let headed = |row: &Row<'_, '_>| matches!(row, Row::Own(case) if case.case.id == one.case.case.id);
        if !rows.iter().any(headed) {
            rows.push(Row::Own(one.case));
        }
        rows.push(Row::Other(one));
    }
    let stream = took_part.iter().any(|one| one.exchange.work == Work::Stream);
    let main = if stream { throughput(name, rows) } else { times(name, rows) };
    vec![main, left_out(name, &absent)]
}

fn who(row: &Row<'_, '_>) -> Cell {
    Cell::text(match row {
        Row::Own(_) => "msgpath",
        Row::Other(one) => one.tool.name,
    })
}

fn does(row: &Row<'_, '_>) -> Cell {
    let (Row::Own(case) | Row::Other(Beside { case, .. })) = row;
    Cell::text(case.case.path.to_string())
}

fn turns(row: &Row<'_, '_>) -> Cell {
    match row {
        Row::Own(_) => Cell::text("rounds"),
        Row::Other(one) => Cell::count(one.turns.len() as u64),
    }
}

/// How much its own runs differ.
fn spread(row: &Row<'_, '_>) -> Cell {
    let Row::Other(one) = row else { return Cell::text("-") };
    let values = one.values(one.best());
    let (least, most) = (values.iter().copied().reduce(f64::min), values.iter().copied().reduce(f64::max));
    let ends = least.zip(most).filter(|_| values.len() > 1);
    ratio_or(ends.map(|(least, most)| most / least), "one turn")
}

fn times(name: &str, rows: Vec<Row<'_, '_>>) -> Table {
    const NOT: &str = "not printed";
    let note = read_as(
        "All times are whole round trips; of a tool the geometric mean over its turns (95 %), each a process of its own between \
         rounds of ours on the same CPUs. Ratios are to the passes around each turn",
        &rows,
    );
    let at = |row: &Row<'_, '_>, by: By, p: f64| match row {
        Row::Own(case) => quantile_cell(&case.latency.quantiles, p),
        Row::Other(one) => time_or(one.estimate(by).as_ref(), NOT),
    };
    let mean = |row: &Row<'_, '_>| match row {
        Row::Own(case) => time_or(case.latency.mean_ns, "messages were lost"),
        Row::Other(one) => time_or(one.estimate(By::Mean).as_ref(), NOT),
    };
    let printed = |row: &Row<'_, '_>| match row {
        Row::Own(_) => "round trips".to_owned(),
        Row::Other(one) if one.halves() => {
            format!("half: {}", one.as_printed().map_or_else(String::new, |ns| Glyphs::Unicode.time(ns)))
        }
        Row::Other(_) => "round trips".to_owned(),
    };
    let to_ours = |row: &Row<'_, '_>, by: By| match row {
        Row::Own(_) => Cell::Ratio(Value::from(1.0)),
        // At a rate ours runs from when a message was due, theirs from when it was sent.
        Row::Other(one) if matches!(one.exchange.work, Work::AtRate(_)) => Cell::missing("other start"),
        Row::Other(one) => ratio_or(one.ratio(by).as_ref(), NOT),
    };
    table(format!("tools-{name}"), format!("run {name}: round trips by tools of others and by msgpath"), rows)
        .col("tool", who)
        .col("path", does)
        .col("prints", printed)
        .col("p50", |row| at(row, By::P50, 0.5))
        .col("mean", mean)
        .col("p99", |row| at(row, By::P99, 0.99))
        .col("to msgpath, p50", |row| to_ours(row, By::P50))
        .col("to msgpath, mean", |row| to_ours(row, By::Mean))
        .col("slowest to fastest turn", spread)
        .col("turns", turns)
        .note(note)
}

fn throughput(name: &str, rows: Vec<Row<'_, '_>>) -> Table {
    let note = read_as(
        "Payload at the receiver, one way; each turn is a process of its own between rounds of ours on the same CPUs",
        &rows,
    );
    let bits = |row: &Row<'_, '_>| match row {
        Row::Own(case) => bits_or(case.throughput.as_ref().map(|one| &one.receiver_bits), "not counted"),
        Row::Other(one) => bits_or(one.estimate(By::Bits).as_ref(), "not printed"),
    };
    let to_ours = |row: &Row<'_, '_>| match row {
        Row::Own(_) => Cell::Ratio(Value::from(1.0)),
        Row::Other(one) => ratio_or(one.ratio(By::Bits).as_ref(), "not printed"),
    };
    table(format!("tools-{name}"), format!("run {name}: streams by tools of others and by msgpath"), rows)
        .col("tool", who)
        .col("path", does)
        .col("throughput", bits)
        .col("to msgpath", to_ours)
        .col("slowest to fastest turn", spread)
        .col("turns", turns)
        .note(note)
}

/// How the numbers of each tool are to be read, after a sentence for all.
fn read_as(first: &str, rows: &[Row<'_, '_>]) -> String {
    let mut all = vec![first.to_owned()];
    for row in rows {
        let Row::Other(one) = row else { continue };
        let text = format!("{}: {}", one.tool.name, (one.tool.means)(&one.exchange));
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all.join(". ")
}

fn left_out(name: &str, absent: &[&Beside<'_>]) -> Table {
    table(format!("absent-{name}"), format!("run {name}: tools without a number"), absent)
        .text("tool", |one| one.tool.name)
        .col("path", |one| Cell::text(one.case.case.path.to_string()))
        .col("why", |one| Cell::missing(&*one.why))
        .into()
}

#[cfg(test)]
mod tests {
    use msgpath_analyse::testing::Build;
    use msgpath_analyse::{Logs, summarise_with};

    use super::*;
    use crate::TURNS;
    use crate::testing::said;

    #[test]
    fn tools_stand_beside_the_case_that_they_do_with_whole_round_trips() {
        let build = Build::echo(&["tcp:send", "tcp:send/spin"], &[64]);
        let build = build.factor(|case| if case.path.wait == "spin" { 0.4 } else { 1.0 });
        let (run, tools) = (build.run(), [("sockperf", 0, 1.2), ("qperf", 0, 1.0), ("sockperf", 1, 0.5)]);
        let (summary, said) = (summarise_with(&run, &Logs::default()), said(build.plan.rounds, &tools));
        let all = beside(&run, &summary, &said);
        let of =
            |tool: &str, case: u32| all.iter().find(|one| one.tool.name == tool && one.case.case.id == case).unwrap();
        let sockperf = of("sockperf", 0);
        assert!((sockperf.ratio(By::P50).unwrap().value / 1.2 - 1.0).abs() < 0.05);
        assert!(sockperf.halves() && (sockperf.as_printed().unwrap() / 12_000.0 - 1.0).abs() < 0.02);
        assert_eq!((of("qperf", 0).best(), sockperf.best()), (By::Mean, By::P50));
        assert!((of("sockperf", 1).ratio(By::P50).unwrap().value / 1.25 - 1.0).abs() < 0.05);
        let tables = tables("x", &run, &summary, &said);
        let column = |at: usize, row: usize| tables[at].rows[row][0].clone();
        let names: Vec<Cell> = (0..tables[0].rows.len()).map(|row| column(0, row)).collect();
        assert_eq!(names, ["msgpath", "sockperf", "qperf", "msgpath", "sockperf"].map(Cell::text));
        assert!(
            tables[0].note.as_ref().is_some_and(|note| note.contains("sockperf: prints half")),
            "{:?}",
            tables[0].note
        );
        assert_eq!(tables[1].rows.len(), 1);
        assert_eq!(tables[1].rows[0][2], Cell::missing("not installed: sudo apt install iperf3"));
        assert_eq!(sockperf.ours().len(), TURNS as usize);
    }

    #[test]
    fn a_run_without_tools_has_no_rows() {
        let run = Build::echo(&["tcp:send"], &[64]).run();
        let tables = tables("x", &run, &summarise_with(&run, &Logs::default()), &[]);
        assert!(tables.iter().all(|table| table.rows.is_empty()), "{tables:?}");
    }
}
