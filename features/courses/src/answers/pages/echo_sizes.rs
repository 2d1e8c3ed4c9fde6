//! The page of the preset `echo-sizes`: trial tables as courses make them, a steady run beside them, and the line through
//! it.

use msgpath_analyse::summary::{CaseSummary, Confidence};
use msgpath_analyse::trials::{Column, Difference, difference, trials};
use msgpath_core::Case;
use msgpath_core::plan::Metric;
use msgpath_core::schema::{MessageRow, RoundRecord};
use msgpath_core::units::{size, three_digits};
use msgpath_stages::log::log;
use msgpath_stats::dependence::independent;
use msgpath_stats::describe::{median, percentile};
use msgpath_stats::distributions::binomial_inverse;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::paired::Series;
use msgpath_stats::quantile::Quantile;
use msgpath_stats::verdict::Verdict;

use crate::answers::answered::{Answered, Cannot, OfRuns, answer, answers, say, sure_if};
use crate::answers::columns::{Columns, count_or, ns_or, number_or, ratio_or, table, time_or};
use crate::answers::evidence::{
    above, below, extremes, judged, mean_of_passes, mean_of_trials, p50, quantile, unpaired,
};
use crate::answers::words::{counted, percent, range, sentences, time, verdict_word};
use crate::answers::{Cell, Page, Part, Table, part};

/// The parts that have trial tables: their names, and what they are.
const TABLES: [(&str, &str); 4] = [
    ("here-fresh", "this machine, a new connection for every trial"),
    ("there-fresh", "another place, a new connection for every trial"),
    ("here-one", "this machine, one connection"),
    ("there-one", "another place, one connection"),
];
/// A trial that takes so many medians of its column is named.
const FAR_OFF: f64 = 2.0;
/// From this part of its excess on a wait for a CPU is named as a cause.
const PART: f64 = 0.1;
/// Bytes of the headers of IPv4 with TCP (timestamps) and with UDP.
const HEADERS: [(&str, u64); 2] = [("tcp", 52), ("udp", 28)];

const QUESTIONS: &[(&str, OfRuns)] =
    &[("Is a message of 1000 bytes faster than one of 10?", faster), ("How much slower is the other place?", places)];
const AFTER_THE_LINE: &[(&str, OfRuns)] = &[
    ("Is the first exchange slower than the rest?", first),
    ("Which part of a trial are the calls, and is the rest really insignificant?", calls),
];

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let made: Vec<Trials<'_>> = TABLES.iter().filter_map(|(name, what)| Trials::of(parts, name, what)).collect();
    let each = |one: &Trials<'_>| [Some(one.table()), one.fresh.then(|| one.legacy()), one.fresh.then(|| one.by_tcp())];
    let mut tables: Vec<Table> = made.iter().flat_map(each).flatten().collect();
    if !tables.is_empty() {
        tables.push(anomalies(&made));
    }
    let steady = [("this machine", "here-steady"), ("another place", "there-steady")];
    let steady = steady.into_iter().filter_map(|(place, name)| Some((place, part(parts, name)?)));
    let steady: Vec<(&str, Part<'_>)> = steady.collect();
    let lines: Vec<Line> = steady.iter().flat_map(|(place, part)| lines(part, place)).collect();
    tables.extend(steady.iter().map(|(place, part)| steady_table(part, place, &lines)));
    let mut output = answers(parts, QUESTIONS);
    output.push(answer("What does a message cost whatever its size, and what does a byte cost?", fit(&lines)));
    output.extend(answers(parts, AFTER_THE_LINE));
    Page { tables, answers: output, ..Page::default() }
}

/// The trials of one run.
struct Trials<'a> {
    part: Part<'a>,
    name: &'static str,
    what: &'static str,
    /// A new connection for every trial.
    fresh: bool,
    cases: Vec<Case>,
    columns: Vec<Column>,
}

/// A row of a trial table: its name, and what it has of each column.
type Row<'a> = (String, Box<dyn Fn(&Column) -> Cell + 'a>);

impl<'a> Trials<'a> {
    fn of(parts: &[Part<'a>], name: &'static str, what: &'static str) -> Option<Self> {
        let part = part(parts, name)?;
        let cases: Vec<Case> = part.measured().map(|case| case.case.clone()).collect();
        let columns = trials(&cases, &part.logs.trials).columns;
        let fresh = name.ends_with("-fresh");
        (!columns.is_empty()).then_some(Self { part, name, what, fresh, cases, columns })
    }

    /// The trials row by row.
    fn each(&self, cell: fn(u64) -> Cell) -> Vec<Row<'_>> {
        let longest = self.columns.iter().map(|column| column.trials_ns.len()).max().unwrap_or(0);
        let of = |at: usize| -> Row<'_> {
            let one = move |column: &Column| match column.trials_ns.get(at) {
                Some(Some(ns)) => cell(*ns),
                Some(None) => Cell::missing("lost"),
                None => Cell::missing("not made"),
            };
            (format!("Trial #{}", at + 1), Box::new(one))
        };
        (0..longest).map(of).collect()
    }

    fn rows<'r>(&self, name: &str, title: &str, head: &str, rows: Vec<Row<'r>>) -> Columns<Row<'r>> {
        table(format!("{name}-{}", self.name), format!("{title}: {}", self.what), rows).text(head, |row| &row.0).cols(
            &self.columns,
            |column| size(column.size),
            |row, column| row.1(column),
        )
    }

    fn table(&self) -> Table {
        type Pick = fn(&Column) -> Option<f64>;
        let picks: [(&str, Pick); 8] = [
            ("Average", |column| Some(mean_of_trials(&arrived(column))?.value)),
            ("95 % from", |column| mean_of_trials(&arrived(column))?.low),
            ("95 % to", |column| mean_of_trials(&arrived(column))?.high),
            ("Average from trial 2", |column| column.after_first_ns),
            ("Median", |column| Some(column.spread?.median_ns)),
            ("p90", |column| {
                Some(arrived(column)).filter(|own| !own.is_empty()).map(|mut own| percentile(&mut own, 0.9))
            }),
            ("Slowest", |column| Some(column.spread?.max_ns as f64)),
            ("Deviation", |column| column.spread?.deviation_ns),
        ];
        let mut rows = self.each(|ns| Cell::Time((ns as f64).into()));
        rows.extend(
            picks.map(|(name, pick)| -> Row<'_> { (name.into(), Box::new(move |column| time_or(pick(column), "-"))) }),
        );
        self.rows("trials", "Trials", "", rows).note(
            "The interval of an average is the classic one of the t distribution; it takes trials for independent.",
        )
    }

    /// The same as a program with a clock of whole milliseconds prints it.
    fn legacy(&self) -> Table {
        type Of = fn(f64) -> f64;
        let averages: [(&str, Of); 2] =
            [("Average of these", |ns| (ns / 1e6).floor()), ("Average of the ns clock", |ns| ns / 1e6)];
        let mut rows = self.each(|ns| Cell::count(ns / 1_000_000));
        rows.extend(averages.map(|(name, of)| -> Row<'_> {
            let mean = move |column: &Column| {
                let own = arrived(column);
                let sum: f64 = own.iter().map(|ns| of(*ns)).sum();
                number_or((!own.is_empty()).then(|| sum / own.len() as f64), "-")
            };
            (name.into(), Box::new(mean))
        }));
        self.rows("legacy", "In whole milliseconds", "ms", rows)
            .note("What a clock of milliseconds leaves of the trials above: below 1 ms, nothing.")
    }

    /// The messages of a case in the order of its trials.
    fn messages(&self, case: &Case) -> Vec<&'a MessageRow> {
        let mut rows: Vec<&MessageRow> = self.part.logs.trials.iter().filter(|row| row.case == case.id).collect();
        rows.sort_by_key(|row| (row.pass, row.connection, row.sequence));
        rows
    }

    /// What TCP itself says of the connection of each trial.
    fn by_tcp(&self) -> Table {
        let trials: Vec<Vec<&MessageRow>> = self.cases.iter().map(|case| self.messages(case)).collect();
        let count = trials.iter().map(Vec::len).max().unwrap_or(0);
        let of = |at: usize, trial: usize| self.round(trials[at].get(trial)?);
        let again = |round: &RoundRecord| -> Option<u64> {
            Some(round.near().tcp?.total_retrans + round.far().tcp.map_or(0, |tcp| tcp.total_retrans))
        };
        let out_of_order = |round: &RoundRecord| -> Option<u64> {
            Some(round.near().tcp?.out_of_order? + round.far().tcp?.out_of_order?)
        };
        let why = "TCP_INFO was not read";
        table(format!("tcp-{}", self.name), format!("By TCP_INFO of each trial: {}", self.what), 0..count)
            .col("trial", |trial| Cell::count(*trial as u64 + 1))
            .cols(
                0..self.cases.len(),
                |at| format!("{} sent again", size(self.cases[*at].size)),
                |trial, at| count_or(of(*at, *trial).and_then(again), why),
            )
            .cols(
                0..self.cases.len(),
                |at| format!("{} out of order", size(self.cases[*at].size)),
                |trial, at| {
                    count_or(of(*at, *trial).and_then(out_of_order), "TCP_INFO of an end has no such counter (Linux 5.4)")
                },
            )
            .cols(
                0..self.cases.len(),
                |at| format!("{} RTT", size(self.cases[*at].size)),
                |trial, at| {
                    let tcp = of(*at, *trial).and_then(|round| round.near().tcp);
                    time_or(tcp.map(|tcp| f64::from(tcp.rtt_us) * 1e3), why)
                },
            )
            .note("Segments that either end sent again or received out of order, and the smoothed round trip of the near end's TCP after the trial.")
    }

    /// The round of a trial, be it disturbed or not.
    fn round(&self, row: &MessageRow) -> Option<&'a RoundRecord> {
        self.part.run.rounds.iter().find(|round| (round.case, round.pass) == (row.case, row.pass))
    }

    /// What the counters of its round say of a trial that is far off.
    fn causes(&self, at: usize, excess: f64, round: Option<&RoundRecord>) -> String {
        let Some(round) = round else { return "not known: its round was not recorded".into() };
        let ends = [round.near(), round.far()];
        let mut causes = Vec::new();
        let again: u64 = ends.iter().filter_map(|end| Some(end.tcp?.total_retrans)).sum();
        if again > 0 {
            causes.push(format!("{} retransmitted", counted(again as usize, "segment")));
        }
        let waited: Vec<u64> = ends.iter().filter_map(|end| end.run_delay_ns).collect();
        let queued = waited.iter().sum::<u64>() as f64;
        if queued >= PART * excess {
            let whose = if self.fresh { "" } else { " in its round" };
            let of = if queued >= excess / 2.0 { String::new() } else { format!(" of the {} more", time(excess)) };
            causes.push(format!("waited {}{whose}{of} for a CPU", time(queued)));
        }
        if round.steal_ticks.is_some_and(|ticks| ticks > 0) {
            causes.push("the host took the CPU away (steal)".into());
        }
        causes.extend(round.flags.iter().cloned());
        if !self.fresh && at == 0 {
            causes.push("the first message of its connection".into());
        }
        match waited.len() {
            _ if !causes.is_empty() => causes.join("; "),
            2 => "not known: no counter moved".into(),
            _ => "not known: the time that threads waited for a CPU could not be read".into(),
        }
    }
}

fn arrived(column: &Column) -> Vec<f64> {
    column.trials_ns.iter().flatten().map(|ns| *ns as f64).collect()
}

/// Trials far off their column, each with the cause that the counters of its round name.
fn anomalies(made: &[Trials<'_>]) -> Table {
    let mut odd = Vec::new();
    for one in made {
        for (case, column) in one.cases.iter().zip(&one.columns) {
            let Some(spread) = column.spread else { continue };
            for (at, row) in one.messages(case).into_iter().enumerate() {
                let Some(ns) = row.latency_ns.filter(|ns| *ns as f64 >= FAR_OFF * spread.median_ns) else { continue };
                let causes = one.causes(at, ns as f64 - spread.median_ns, one.round(row));
                odd.push((one.name, at, case.size, ns, spread.median_ns, causes));
            }
        }
    }
    table("anomalies", format!("Trials that took {FAR_OFF} medians of their column or more"), odd)
        .col("run", |row| row.0)
        .col("trial", |row| Cell::count(row.1 as u64 + 1))
        .col("size", |row| Cell::size(row.2))
        .col("time", |row| Cell::Time((row.3 as f64).into()))
        .col("median", |row| Cell::Time(row.4.into()))
        .text("cause", |row| &row.5)
        .note("Counters of the round: segments retransmitted, time runnable and not running, steal, lost conditions.")
}

/// Whether a larger message is really faster: by trials, then by rounds.
fn faster(parts: &[Part<'_>]) -> Answered {
    let mut rows = Vec::new();
    for (name, what) in TABLES {
        let Some(Trials { columns, .. }) = Trials::of(parts, name, what) else { continue };
        let at = |bytes: u64| columns.iter().position(|column| column.size == bytes);
        let Some((ten, thousand)) = at(10).zip(at(1000)) else { continue };
        let (Some(a), Some(b)) = (columns[ten].spread, columns[thousand].spread) else { continue };
        let Some(found) = difference(&columns, thousand, ten) else { continue };
        rows.push((name, what, a.mean_ns, b.mean_ns, found));
    }
    let clauses = rows.iter().map(|(_, what, a, b, found)| {
        let Difference { t, p, permutation_p, .. } = found;
        let error = if *t == 0.0 { f64::NAN } else { (b - a) / t };
        let verdict = match (found.differs(), b < a) {
            (false, _) => "no difference shown",
            (true, true) => "1000 bytes are faster",
            (true, false) => "1000 bytes are slower",
        };
        format!(
            "{what}: means {} and {}, difference {} with a standard error of {}, Welch p = {p:.3}, permutation p = \
             {permutation_p:.3}: {verdict}",
            time(*a),
            time(*b),
            time(b - a),
            time(error.abs())
        )
    });
    let mut clauses: Vec<String> = clauses.collect();
    let mut confidence = Confidence::CantTell;
    let steady = part(parts, "here-steady").and_then(|part| {
        let pair = (find(&part, "tcp", 1000)?, find(&part, "tcp", 10)?);
        judged(&part, Metric::P50, &[pair]).all.remove(0).2
    });
    if let Some(judged) = &steady {
        let verdict = match judged.verdict {
            Verdict::Undecided => "not decided by these rounds",
            verdict => verdict_word(verdict, "neither, within 2 %"),
        };
        let ratio = judged.text();
        clauses.push(format!(
            "the steady run decides it for this machine: p50 at 1000 bytes is {ratio} of that at 10 bytes, paired by pass: \
             {verdict}"
        ));
        confidence = judged.confidence();
    }
    if clauses.is_empty() {
        return Err("neither trials nor rounds of 10 and of 1000 bytes were measured".into());
    }
    let title = "10 B against 1000 B: Welch's t test and a permutation test of the trials";
    let evidence = table("ten-and-thousand", title, &rows)
        .col("run", |(name, ..)| *name)
        .col("10 B", |(_, _, a, ..)| Cell::Time((*a).into()))
        .col("1000 B", |(_, _, _, b, _)| Cell::Time((*b).into()))
        .col("difference", |(_, _, a, b, _)| Cell::Time((b - a).into()))
        .col("t", |(.., found)| Cell::Number(found.t.into()))
        .col("p", |(.., found)| Cell::Number(found.p.into()))
        .col("permutation p", |(.., found)| Cell::Number(found.permutation_p.into()))
        .col("verdict", |(.., found)| found.verdict());
    Ok(say(confidence, sentences(&clauses)).with(evidence))
}

fn find<'a>(part: &Part<'a>, transport: &str, bytes: u64) -> Option<&'a CaseSummary> {
    part.find(|case| case.case.path.transport == transport && case.case.size == bytes)
}

/// Here against there, size by size, of the steady runs.
fn places(parts: &[Part<'_>]) -> Answered {
    let both = part(parts, "here-steady").zip(part(parts, "there-steady"));
    let missing = "one of the two steady runs is missing; the trial tables alone have too few trials";
    let (here, there) = both.ok_or_else(|| Cannot::from(missing).next("msgpath lab up"))?;
    let of = |case: &'_ CaseSummary| find(&there, &case.case.path.transport, case.case.size);
    let rows = here.measured().filter_map(|case| Some((case, of(case)?)));
    let rows: Vec<_> = rows
        .map(|(case, other)| {
            let there = there.by_pass(Metric::P50, &other.case);
            (case, other, unpaired(&there, &here.by_pass(Metric::P50, &case.case)))
        })
        .collect();
    let ratios: Vec<(&CaseSummary, &Estimate)> =
        rows.iter().filter_map(|(case, _, ratio)| Some((*case, ratio.as_ref()?))).collect();
    let (least, most) = extremes(&ratios, |(_, ratio)| ratio.value).ok_or("the two places have no size in common")?;
    let print = |(case, ratio): &(&CaseSummary, &Estimate)| {
        let times = range(*ratio, |ratio| format!("{ratio:.2}"));
        format!("{times} ({} at {})", case.case.path, size(case.case.size))
    };
    let slower = ratios.iter().filter(|(_, ratio)| above(*ratio, 1.0)).count();
    let text = format!(
        "There, {}; here, {}. p50 there is {} to {} times that here; it is longer at {slower} of {} sizes with the whole \
         interval. The two runs were made one after the other, so what changed on the machine meanwhile is in it",
        there.between(),
        here.between(),
        print(least),
        print(most),
        ratios.len()
    );
    let evidence = table("places", "p50 of the steady runs", &rows)
        .col("path", |(case, ..)| case.case.path.to_string())
        .col("size", |(case, ..)| Cell::size(case.case.size))
        .col("here", |(case, ..)| time_or(p50(case), "no round trip"))
        .col("there", |(_, other, _)| time_or(p50(other), "no round trip"))
        .col("there divided by here", |(.., ratio)| ratio_or(ratio.as_ref(), "too few rounds"));
    // Two runs, one after the other: nothing makes this sure.
    Ok(say(if slower > 0 { Confidence::Likely } else { Confidence::CantTell }, text).with(evidence))
}

/// A line through the medians of one path: fixed cost and cost of a byte, and what is off it.
struct Line {
    place: String,
    transport: String,
    fixed_ns: Estimate,
    per_byte_ns: Estimate,
    /// Sizes that it was fitted to.
    fitted: usize,
    /// Size of the first message that no longer fits into one packet.
    step: Option<u64>,
    mtu: Option<u64>,
    /// Measured minus fitted for each size, ns.
    off: Vec<(u64, Option<Estimate>)>,
}

/// One line per transport, fitted to the medians of the messages that fit into one packet: least squares of the relative
/// distance (weights 1/y^2), so that large messages do not decide alone. A reader who puts the printed medians and the
/// printed line together finds the printed distance.
fn lines(part: &Part<'_>, place: &str) -> Vec<Line> {
    let mtu = part.route().and_then(|route| route.mtu);
    let line = |(transport, headers): &(&str, u64)| {
        let own: Vec<(u64, f64, Series)> = part
            .measured()
            .filter(|case| case.case.path.transport == *transport)
            .filter_map(|case| Some((case.case.size, p50(case)?.ns? as f64, part.by_pass(Metric::P50, &case.case))))
            .collect();
        let fits = |bytes: u64| mtu.is_none_or(|mtu| bytes + headers <= mtu);
        // What is printed: the line through the medians, and how far each of them is off it.
        let points: Vec<(f64, f64)> =
            own.iter().filter(|(bytes, ..)| fits(*bytes)).map(|(bytes, ns, _)| (*bytes as f64, *ns)).collect();
        let (fixed_ns, per_byte_ns) = weighted_line(&points)?;
        // How sure that is: the same pass by pass.
        let (mut fixed, mut slopes) = (Vec::new(), Vec::new());
        let mut off: Vec<Vec<f64>> = vec![Vec::new(); own.len()];
        for pass in own.first()?.2.keys() {
            let points = own.iter().filter(|(bytes, ..)| fits(*bytes));
            let points: Vec<(f64, f64)> =
                points.filter_map(|(bytes, _, series)| Some((*bytes as f64, *series.get(pass)?))).collect();
            let Some((at_zero, slope)) = weighted_line(&points) else { continue };
            fixed.push(at_zero);
            slopes.push(slope);
            for ((bytes, _, series), off) in own.iter().zip(&mut off) {
                off.extend(series.get(pass).map(|ns| ns - at_zero - slope * *bytes as f64));
            }
        }
        let distance = |bytes: u64, ns: f64| ns - fixed_ns - per_byte_ns * bytes as f64;
        let off = own.iter().zip(&off).map(|((bytes, ns, _), off)| (*bytes, with_passes(distance(*bytes, *ns), off)));
        Some(Line {
            place: place.into(),
            transport: (*transport).into(),
            fixed_ns: with_passes(fixed_ns, &fixed)?,
            per_byte_ns: with_passes(per_byte_ns, &slopes)?,
            fitted: points.len(),
            step: own.iter().map(|(bytes, ..)| *bytes).filter(|bytes| !fits(*bytes)).min(),
            mtu,
            off: off.collect(),
        })
    };
    HEADERS.iter().filter_map(line).collect()
}

impl Line {
    /// How far a size is off.
    fn off(&self, bytes: u64) -> Option<&Estimate> {
        self.off.iter().find(|(own, _)| *own == bytes)?.1.as_ref()
    }

    /// How far the first size beyond one packet is off.
    fn off_beyond(&self) -> Option<(u64, &Estimate)> {
        self.step.and_then(|step| Some((step, self.off(step)?)))
    }

    fn words(&self) -> String {
        let text = format!(
            "{}, {}: {} and {} ns for each byte there and back",
            self.place,
            self.transport,
            range(&self.fixed_ns, time),
            range(&self.per_byte_ns, three_digits)
        );
        let Some((step, off)) = self.off_beyond() else { return text };
        let fitted = self.fixed_ns.value + self.per_byte_ns.value * step as f64;
        let turned = off.value < 0.0;
        let far = Estimate {
            value: off.value.abs(),
            low: off.low.map(|low| if turned { -off.high.unwrap_or(-low) } else { low }),
            high: off.high.map(|high| if turned { -off.low.unwrap_or(-high) } else { high }),
        };
        let how = match off {
            off if above(off, 0.0) => "longer than the line by",
            off if below(off, 0.0) => "shorter than the line by",
            _ => "no different from it, as far as the interval tells; the difference is",
        };
        format!(
            "{text}. At {}, the first size beyond one packet of {} bytes, it is {how} {} ({} of it)",
            size(step),
            self.mtu.map_or_else(|| "?".into(), |mtu| mtu.to_string()),
            range(&far, time),
            percent(off.value.abs() / fitted)
        )
    }
}

/// A value with the 95 % interval of the median of what the passes say (order statistics): a pass that was disturbed
/// makes it wider, it does not move it. Passes that resemble their neighbours are worth less: all of their range. `None`
/// below five passes.
fn with_passes(value: f64, passes: &[f64]) -> Option<Estimate> {
    let n = passes.len();
    if n < 5 {
        return None;
    }
    let mut sorted = passes.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let alike = independent(passes).0.len() < n;
    let rank = if alike { 1 } else { (binomial_inverse(0.025, n as u64, 0.5) as usize).max(1) };
    Some(Estimate { value, low: Some(sorted[rank - 1].min(value)), high: Some(sorted[n - rank].max(value)) })
}

/// Intercept and slope with weights 1/y^2; `None` below three points, or where they have no extent.
fn weighted_line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    if points.len() < 3 {
        return None;
    }
    let weighted = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|(x, y)| of(*x, *y) / (y * y)).sum::<f64>();
    let (w, x, y) = (weighted(&|_, _| 1.0), weighted(&|x, _| x), weighted(&|_, y| y));
    let (xx, xy) = (weighted(&|x, _| x * x), weighted(&|x, y| x * y));
    let extent = w * xx - x * x;
    let slope = (w * xy - x * y) / extent;
    (extent > 0.0 && slope.is_finite()).then(|| ((y - slope * x) / w, slope))
}

fn steady_table(part: &Part<'_>, place: &str, lines: &[Line]) -> Table {
    let name = if place == "this machine" { "steady-here" } else { "steady-there" };
    let mut sizes: Vec<u64> = part.measured().map(|case| case.case.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let columns =
        HEADERS.iter().flat_map(|(transport, _)| ["p50", "p99", "off its line"].map(|what| (*transport, what)));
    let cell = |bytes: u64, transport: &str, what: &str| {
        let case = find(part, transport, bytes);
        let line = lines.iter().find(|line| line.place == place && line.transport == transport);
        match (what, case.and_then(p50)) {
            ("p50", Some(p50)) => ns_or(p50.ns, "lost"),
            ("p50", None) => Cell::missing("not measured"),
            ("p99", _) => {
                let p99 = case.and_then(|case| quantile(case, 0.99)).and_then(Quantile::observed);
                ns_or(p99, "too few messages")
            }
            _ => time_or(line.and_then(|line| line.off(bytes)).map(|off| off.value), "no line"),
        }
    };
    table(name, format!("Round trips by size, {place}: {}", part.between()), sizes)
        .col("size", |bytes| Cell::size(*bytes))
        .cols(
            columns,
            |(transport, what)| format!("{transport} {what}"),
            |bytes, (transport, what)| cell(*bytes, transport, what),
        )
        .note("Off its line: measured minus what the line of the messages within one packet says.")
}

fn fit(lines: &[Line]) -> Answered {
    if lines.is_empty() {
        return Err("no steady run with at least three sizes and five rounds was made".into());
    }
    let evidence = table("line", "The line through the medians; intervals from the passes", lines)
        .col("place", |line| &line.place)
        .col("transport", |line| &line.transport)
        .col("fixed", |line| Cell::Time((&line.fixed_ns).into()))
        .col("a byte, there and back [ns]", |line| Cell::Number((&line.per_byte_ns).into()))
        .col("sizes", |line| Cell::count(line.fitted as u64))
        .col("first beyond a packet", |line| line.step.map_or_else(|| Cell::text("none"), Cell::size))
        .col("off the line there", |line| time_or(line.off_beyond().map(|(_, off)| off), "none beyond"));
    let known = lines.iter().all(|line| above(&line.per_byte_ns, 0.0));
    let clauses: Vec<String> = lines.iter().map(Line::words).collect();
    Ok(say(sure_if(known), sentences(&clauses)).with(evidence))
}

/// The first exchange of a connection against the rest.
fn first(parts: &[Part<'_>]) -> Answered {
    let mut rows = Vec::new();
    let mut trials = 0;
    for one in ["here-one", "there-one"].iter().filter_map(|name| Trials::of(parts, name, "")) {
        for column in &one.columns {
            let own = &column.trials_ns;
            let (Some(Some(first)), Some(rest)) = (own.first(), column.after_first_ns) else { continue };
            let slowest = own[1..].iter().flatten().max().copied().unwrap_or(0);
            trials = trials.max(own.len());
            rows.push((one.name, column.size, *first, rest, slowest));
        }
    }
    let (all, above) = (rows.len(), rows.iter().filter(|(_, _, first, _, slowest)| first > slowest).count());
    if all == 0 {
        return Err("no trials on one connection were made".into());
    }
    let text = format!(
        "In {above} of {all} connections the first of the trials is the slowest; by chance that would be one in {trials}"
    );
    let confidence = match above {
        some if some == all && (trials.max(1) as f64).powi(-(all as i32)) < 0.01 => Confidence::Sure,
        some if 2 * some > all => Confidence::Likely,
        _ => Confidence::CantTell,
    };
    let evidence = table("first", "The first trial of each connection", rows)
        .col("run", |row| row.0)
        .col("size", |row| Cell::size(row.1))
        .col("first", |row| Cell::Time((row.2 as f64).into()))
        .col("mean of the rest", |row| Cell::Time(row.3.into()))
        .col("slowest of the rest", |row| Cell::Time((row.4 as f64).into()));
    Ok(say(confidence, text).with(evidence))
}

/// What of a round trip is in which call, medians by pass, ns.
struct Calls {
    /// The whole round trip.
    round_trip: Estimate,
    /// The send call.
    send: Estimate,
    /// From its return to the end of the receive call.
    rest: Estimate,
    /// At the far end from the return of its receive call to the begin of its send call, where both ends have one clock.
    server: Option<Estimate>,
}

/// What the stamps of traced messages of a run say about its calls; `None` where no send call was stamped.
fn call_times(part: &Part<'_>) -> Option<Calls> {
    let rows: Vec<&MessageRow> = log(part.logs)
        .messages
        .sample()
        .iter()
        .filter(|row| row.sent_ns.is_some() && row.latency_ns.is_some())
        .collect();
    let mut passes: Vec<(u32, u32)> = rows.iter().map(|row| (row.case, row.pass)).collect();
    passes.sort_unstable();
    passes.dedup();
    let one_case = passes.first()?.0;
    let by_pass = |of: &dyn Fn(&MessageRow) -> Option<f64>| {
        let median_of = |pass: &(u32, u32)| {
            let own = rows.iter().filter(|row| (row.case, row.pass) == *pass);
            let own: Vec<f64> = own.filter_map(|row| of(row)).collect();
            (!own.is_empty()).then(|| median(&own))
        };
        mean_of_passes(&passes.iter().filter(|(case, _)| *case == one_case).filter_map(median_of).collect::<Vec<_>>())
    };
    Some(Calls {
        round_trip: by_pass(&|row| Some(row.latency_ns? as f64))?,
        send: by_pass(&|row| Some(row.sent_ns? as f64))?,
        rest: by_pass(&|row| Some((row.latency_ns?.checked_sub(row.sent_ns?)?) as f64))?,
        server: by_pass(&|row| Some(row.far_sent_ns?.checked_sub(row.far_ns?)? as f64)),
    })
}

fn calls(parts: &[Part<'_>]) -> Answered {
    let connect = part(parts, "here-fresh").and_then(|part| {
        let own: Vec<f64> = part.run.rounds.iter().filter_map(|round| round.connect_ns).map(|ns| ns as f64).collect();
        (!own.is_empty()).then(|| median(&own))
    });
    let missing = "no message was stamped at the return of its send call";
    let calls = part(parts, "calls").and_then(|part| call_times(&part));
    let calls = calls.ok_or_else(|| Cannot::from(missing).next("msgpath echo -l 1000 --stages light"))?;
    let rows = [
        ("connect (not in the round trip)", time_or(connect, "no new connection")),
        ("round trip", Cell::Time((&calls.round_trip).into())),
        ("of it the send call", Cell::Time((&calls.send).into())),
        ("of it until the receive call returned", Cell::Time((&calls.rest).into())),
        (
            "of that the far end's program, between its two calls",
            time_or(calls.server.as_ref(), "the ends do not share a clock"),
        ),
    ];
    let evidence = table("calls", "1000 bytes there and back, medians by pass", rows)
        .col("part", |(part, _)| *part)
        .col("time", |(_, time)| time.clone());
    let text = format!(
        "Of {} the send call takes {} ({}), and {} pass until the receive call returns, in which the message travels, is \
         answered and comes back; a connect takes {} more and is in no trial here",
        range(&calls.round_trip, time),
        range(&calls.send, time),
        percent(calls.send.value / calls.round_trip.value),
        range(&calls.rest, time),
        connect.map_or_else(|| "n/a".into(), time)
    );
    let intervals = [&calls.send, &calls.rest].iter().all(|estimate| estimate.low.is_some());
    Ok(say(sure_if(intervals), text).with(evidence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::testing::{answer, of};
    use msgpath_analyse::Logs;
    use msgpath_analyse::testing::Build;

    fn rows(case: u32, values: &[u64]) -> Vec<MessageRow> {
        let row = |(at, us): (usize, &u64)| MessageRow {
            case,
            sequence: at as u64,
            latency_ns: Some(us * 1_000),
            ..MessageRow::default()
        };
        values.iter().enumerate().map(row).collect()
    }

    fn trials_of(ten: &[u64], thousand: &[u64]) -> Page {
        let build = Build::echo(&["tcp:send"], &[10, 1000]).rounds(1).messages(10);
        let trials = [rows(0, ten), rows(1, thousand)].concat();
        of(&[("here-one", build.run(), Logs { trials, ..Logs::default() })], page)
    }

    #[test]
    fn the_table_that_a_class_could_not_explain_shows_no_difference() {
        let page = trials_of(&[5, 5, 6, 5, 5, 6, 12, 4, 5, 8], &[4, 5, 5, 6, 4, 5, 7, 4, 4, 5]);
        let faster = answer(&page, "Is a message of 1000 bytes faster");
        assert_eq!(faster.confidence, Confidence::CantTell);
        assert!(
            faster.text.contains("means 6.10 µs and 4.90 µs") && faster.text.ends_with("no difference shown"),
            "{}",
            faster.text
        );
        let odd = page.tables.iter().find(|table| table.name == "anomalies").unwrap();
        assert_eq!(odd.rows.len(), 1, "{odd:?}");
        assert_eq!(odd.rows[0][1], Cell::count(7));
        let table = &page.tables[0];
        assert_eq!((table.columns.len(), table.rows.len()), (3, 18));
    }

    #[test]
    fn a_difference_that_is_there_is_told() {
        let page = trials_of(&[100, 101, 99, 100, 102], &[50, 51, 49, 52, 48]);
        let faster = answer(&page, "Is a message of 1000 bytes faster");
        assert!(faster.text.ends_with("1000 bytes are faster"), "{}", faster.text);
    }

    #[test]
    fn a_slow_trial_of_a_disturbed_round_has_its_cause() {
        let build = Build::echo(&["tcp:send"], &[10]).rounds(12).messages(1);
        let mut run = build.run();
        for round in &mut run.rounds {
            (round.near_mut().run_delay_ns, round.far_mut().run_delay_ns) = (Some(0), Some(0));
        }
        // The seventh waits for a CPU, the ninth for 1 of its 9 ms, nothing is known of the eleventh: none of them is calm.
        run.rounds[6].far_mut().run_delay_ns = Some(6_200_000);
        run.rounds[8].near_mut().run_delay_ns = Some(1_000_000);
        run.rounds[10].near_mut().run_delay_ns = None;
        let tcp = |out_of_order| msgpath_core::schema::TcpInfo { rtt_us: 48, out_of_order, ..Default::default() };
        run.rounds[2].near_mut().tcp = Some(msgpath_core::schema::TcpInfo { total_retrans: 1, ..tcp(Some(0)) });
        run.rounds[2].far_mut().tcp = Some(tcp(Some(2)));
        (run.rounds[4].near_mut().tcp, run.rounds[4].far_mut().tcp) = (Some(tcp(Some(0))), Some(tcp(None)));
        let times = [10, 10, 10, 10, 10, 10, 6_280, 10, 9_010, 10, 9_010, 10];
        let mut trials = rows(0, &times);
        trials.iter_mut().enumerate().for_each(|(at, row)| (row.pass, row.sequence) = (at as u32, 0));
        let page = of(&[("here-fresh", run, Logs { trials, ..Logs::default() })], page);
        let odd = page.tables.iter().find(|table| table.name == "anomalies").unwrap();
        let causes: Vec<_> = odd.rows.iter().map(|row| row[5].clone()).collect();
        // What TCP said of each trial stands in a table of its own.
        let tcp = page.tables.iter().find(|table| table.name == "tcp-here-fresh").unwrap();
        assert_eq!(
            (tcp.rows.len(), &tcp.rows[2][1..]),
            (12, &[Cell::count(1), Cell::count(2), Cell::Time(48_000.0.into())][..])
        );
        assert!(matches!(&tcp.rows[4][2], Cell::Missing { .. }), "an older kernel: {tcp:?}");
        assert!(matches!(&tcp.rows[3][1], Cell::Missing { .. }), "{tcp:?}");
        let expected = [
            "waited 6.20 ms for a CPU",
            "waited 1.00 ms of the 9.00 ms more for a CPU",
            "not known: the time that threads waited for a CPU could not be read",
        ];
        assert_eq!(causes, expected.map(Cell::text));
    }

    /// Two sizes, five trials each, every trial with a connection of its own: the count of a connection stands in its trial, in the column
    /// of its size, whatever order the log has.
    #[test]
    fn segments_out_of_order_stand_in_the_row_of_their_trial() {
        let mut run = Build::echo(&["tcp:send"], &[10, 1000]).rounds(5).messages(1).run();
        let planted = [[(0, 0), (3, 0), (0, 4), (1, 2), (0, 0)], [(7, 0), (0, 0), (0, 0), (0, 0), (0, 9)]];
        for round in &mut run.rounds {
            let (near, far) = planted[round.case as usize][round.pass as usize];
            let tcp = |count| Some(msgpath_core::schema::TcpInfo { out_of_order: Some(count), ..Default::default() });
            (round.near_mut().tcp, round.far_mut().tcp) = (tcp(near), tcp(far));
        }
        run.rounds.reverse();
        let mut trials = [rows(0, &[10; 5]), rows(1, &[10; 5])].concat();
        trials.iter_mut().for_each(|row| (row.pass, row.sequence) = (row.sequence as u32, 0));
        trials.reverse();
        let page = of(&[("here-fresh", run, Logs { trials, ..Logs::default() })], page);
        let table = page.tables.iter().find(|table| table.name == "tcp-here-fresh").unwrap();
        for (size, counts) in [("10 B", [0, 3, 4, 3, 0]), ("1000 B", [7, 0, 0, 0, 9])] {
            let head = format!("{size} out of order");
            let at = table.columns.iter().position(|column| column.contains(&head)).expect("its column");
            let column: Vec<_> = table.rows.iter().map(|row| row[at].clone()).collect();
            assert_eq!(column, counts.map(Cell::count), "{head}");
        }
    }

    #[test]
    fn the_line_is_found_with_its_step() {
        // 20 µs and 20 ns a byte; 5 µs more above one packet.
        let step = |case: &Case| if case.size > 1_448 { 0.25 } else { 0.0 };
        let build = Build::echo(&["tcp:send"], &[1, 100, 500, 1000, 1400, 1600, 4096])
            .factor(move |case| 1.0 + case.size as f64 / 1_000.0 + step(case));
        let mut run = build.run();
        let route = msgpath_core::schema::Route { mtu: Some(1500), device: "mp0".into(), ..Default::default() };
        run.header.floors = Some(msgpath_core::schema::Floors { route: Some(route), ..Default::default() });
        let found =
            of(&[("here-steady", run, Logs::default())], |parts| (lines(&parts[0], "this machine"), page(parts)));
        let line = &found.0[0];
        assert!((line.fixed_ns.value / 20_000.0 - 1.0).abs() < 0.02, "{:?}", line.fixed_ns);
        assert!((line.per_byte_ns.value / 20.0 - 1.0).abs() < 0.04, "{:?}", line.per_byte_ns);
        assert_eq!((line.fitted, line.step), (5, Some(1_600)));
        let text = &answer(&found.1, "What does a message cost").text;
        assert!(
            text.contains("At 1600 B, the first size beyond one packet of 1500 bytes, it is longer than the line by"),
            "{text}"
        );
    }

    #[test]
    fn a_disturbed_round_does_not_move_the_line() {
        let build = Build::echo(&["tcp:send"], &[1, 100, 500, 1000, 1400, 1600, 4096])
            .factor(|case| 1.0 + case.size as f64 / 1_000.0);
        let mut run = build.run();
        let route = msgpath_core::schema::Route { mtu: Some(1500), device: "mp0".into(), ..Default::default() };
        run.header.floors = Some(msgpath_core::schema::Floors { route: Some(route), ..Default::default() });
        // One round of 1600 B in which every message took 2 ms: the mean of the passes is 50 µs higher by it.
        let slow = run.rounds.iter_mut().find(|round| round.case == 5).unwrap();
        let mut histogram = msgpath_core::Histogram::new();
        histogram.record_n(2_000_000, 200);
        slow.latency = histogram.to_sparse();
        of(&[("here-steady", run, Logs::default())], |parts| {
            let line = lines(&parts[0], "this machine").remove(0);
            let off = line.off.iter().find(|(bytes, _)| *bytes == 1_600).unwrap().1.clone().unwrap();
            assert!(off.value.abs() < 2_000.0, "{off:?}");
            // What a reader computes of the printed numbers.
            let case = find(&parts[0], "tcp", 1_600).unwrap();
            let read = p50(case).unwrap().ns.unwrap() as f64 - line.fixed_ns.value - 1_600.0 * line.per_byte_ns.value;
            assert!((read - off.value).abs() < 1.0, "{read} {off:?}");
        });
    }

    #[test]
    fn without_its_runs_nothing_is_answered() {
        let page = of(&[], page);
        assert!(page.tables.is_empty());
        assert!(page.answers.iter().all(|answer| answer.confidence == Confidence::CantTell), "{:?}", page.answers);
    }

    #[test]
    fn lines_need_three_points() {
        let (at_zero, slope) = weighted_line(&[(0.0, 10.0), (10.0, 20.0), (20.0, 30.0)]).unwrap();
        assert!((at_zero - 10.0).abs() < 1e-9 && (slope - 1.0).abs() < 1e-9);
        assert!(weighted_line(&[(0.0, 1.0), (1.0, 2.0)]).is_none() && weighted_line(&[(1.0, 1.0); 3]).is_none());
    }
}
