//! The page of the preset `echo-sizes`: trial tables as courses make them, a steady run beside them, and the line through
//! it.

use msgpath_core::Case;
use msgpath_core::plan::Metric;
use msgpath_core::schema::{EndReport, MessageRow};
use msgpath_core::units::{size, three_digits};
use msgpath_stats::dependence::independent;
use msgpath_stats::describe::{median, percentile};
use msgpath_stats::distributions::binomial_inverse;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::paired::Series;
use msgpath_stats::quantile::Quantile;
use msgpath_stats::verdict::{LEAST_MARGIN, Verdict};

use crate::answers::evidence::{
    between, by_pass, count, judged, mean_of_passes, mean_of_trials, measured, p50, quantile, range, rounds, route,
    share, time, unpaired,
};
use crate::answers::{Answer, Cell, Page, Part, Table, part};
use crate::summary::{CaseSummary, Confidence};
use crate::trials::{Column, Difference, difference, trials};

/// The parts that have trial tables: their names, and what they are.
const TABLES: [(&str, &str); 4] = [
    ("here-fresh", "this machine, a new connection for every trial"),
    ("there-fresh", "another place, a new connection for every trial"),
    ("here-one", "this machine, one connection"),
    ("there-one", "another place, one connection"),
];
/// A trial that takes so many medians of its column is named.
const FAR_OFF: f64 = 2.0;
/// Bytes of the headers of IPv4 with TCP (timestamps) and with UDP.
const HEADERS: [(&str, u64); 2] = [("tcp", 52), ("udp", 28)];

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let mut tables = Vec::new();
    let mut odd = Vec::new();
    for (name, what) in TABLES {
        let Some(part) = part(parts, name) else { continue };
        let (cases, columns) = columns(&part);
        if columns.is_empty() {
            continue;
        }
        tables.push(trial_table(name, what, &columns));
        if name.ends_with("-fresh") {
            tables.push(legacy(name, what, &columns));
        }
        odd.extend(anomalies(&part, name, &cases, &columns));
    }
    let mut named = Table::new(
        "anomalies",
        format!("Trials that took {FAR_OFF} medians of their column or more"),
        &["run", "trial", "size", "time", "median", "cause"],
    );
    odd.into_iter().for_each(|row| named.row(row));
    if !tables.is_empty() {
        tables.push(named.note(
            "Counters of the round: segments sent again, time runnable and not running, steal, lost conditions.",
        ));
    }
    let steady: Vec<(&str, Part<'_>)> = [("this machine", "here-steady"), ("another place", "there-steady")]
        .into_iter()
        .filter_map(|(place, name)| Some((place, part(parts, name)?)))
        .collect();
    let lines: Vec<Line> = steady.iter().flat_map(|(place, part)| lines(part, place)).collect();
    tables.extend(steady.iter().map(|(place, part)| steady_table(part, place, &lines)));
    Page {
        tables,
        answers: vec![faster(parts), places(parts), fit(&lines), first(parts), calls(parts)],
        ..Page::default()
    }
}

fn columns(part: &Part<'_>) -> (Vec<Case>, Vec<Column>) {
    let cases: Vec<Case> = measured(part).map(|case| case.case.clone()).collect();
    let columns = trials(&cases, &part.logs.trials).columns;
    (cases, columns)
}

fn arrived(column: &Column) -> Vec<f64> {
    column.trials_ns.iter().flatten().map(|ns| *ns as f64).collect()
}

fn trial_table(name: &str, what: &str, columns: &[Column]) -> Table {
    let mut heads = vec![String::new()];
    heads.extend(columns.iter().map(|column| size(column.size)));
    let mut table = Table { columns: heads, ..Table::new(&format!("trials-{name}"), format!("Trials: {what}"), &[]) };
    let longest = columns.iter().map(|column| column.trials_ns.len()).max().unwrap_or(0);
    let time_of = |ns: Option<f64>| Cell::or_missing(ns, Cell::Time, "-");
    for at in 0..longest {
        let cells = columns.iter().map(|column| match column.trials_ns.get(at) {
            Some(Some(ns)) => Cell::Time((*ns as f64).into()),
            Some(None) => Cell::missing("lost"),
            None => Cell::missing("not made"),
        });
        table.row(std::iter::once(Cell::text(format!("Trial #{}", at + 1))).chain(cells));
    }
    type Pick = fn(&Column) -> Option<f64>;
    let mean = |column: &Column| mean_of_trials(&arrived(column));
    type End = fn(Estimate) -> Option<f64>;
    let ends: [(&str, End); 3] =
        [("Average", |mean| Some(mean.value)), ("95 % from", |mean| mean.low), ("95 % to", |mean| mean.high)];
    for (name, end) in ends {
        let cells = columns.iter().map(|column| time_of(mean(column).and_then(end)));
        table.row(std::iter::once(Cell::text(name)).chain(cells));
    }
    let picks: [(&str, Pick); 5] = [
        ("Average from trial 2", |column| column.after_first_ns),
        ("Median", |column| Some(column.spread?.median_ns)),
        ("p90", |column| {
            let mut own = arrived(column);
            (!own.is_empty()).then(|| percentile(&mut own, 0.9))
        }),
        ("Slowest", |column| Some(column.spread?.max_ns as f64)),
        ("Deviation", |column| column.spread?.deviation_ns),
    ];
    for (name, pick) in picks {
        table.row(std::iter::once(Cell::text(name)).chain(columns.iter().map(|column| time_of(pick(column)))));
    }
    table.note("The interval of an average is the classic one of the t distribution; it takes trials for independent.")
}

/// The same as a program with a clock of whole milliseconds prints it.
fn legacy(name: &str, what: &str, columns: &[Column]) -> Table {
    let mut heads = vec!["ms".to_owned()];
    heads.extend(columns.iter().map(|column| size(column.size)));
    let mut table = Table {
        columns: heads,
        ..Table::new(&format!("legacy-{name}"), format!("In whole milliseconds: {what}"), &[])
    };
    let longest = columns.iter().map(|column| column.trials_ns.len()).max().unwrap_or(0);
    let ms = |ns: u64| ns / 1_000_000;
    for at in 0..longest {
        let cells = columns.iter().map(|column| match column.trials_ns.get(at) {
            Some(Some(ns)) => Cell::count(ms(*ns)),
            Some(None) => Cell::missing("lost"),
            None => Cell::missing("not made"),
        });
        table.row(std::iter::once(Cell::text(format!("Trial #{}", at + 1))).chain(cells));
    }
    let mean = |of: &dyn Fn(f64) -> f64, column: &Column| {
        let own = arrived(column);
        (!own.is_empty()).then(|| own.iter().map(|ns| of(*ns)).sum::<f64>() / own.len() as f64)
    };
    type Of = fn(f64) -> f64;
    let averages: [(&str, Of); 2] =
        [("Average of these", |ns| (ns / 1e6).floor()), ("Average of the ns clock", |ns| ns / 1e6)];
    for (name, of) in averages {
        let cells = columns.iter().map(|column| Cell::or_missing(mean(&of, column), Cell::Number, "-"));
        table.row(std::iter::once(Cell::text(name)).chain(cells));
    }
    table.note("What a clock of milliseconds leaves of the trials above: below 1 ms, nothing.")
}

/// Trials far off their column, each with the cause that the counters of its round name.
fn anomalies(part: &Part<'_>, name: &str, cases: &[Case], columns: &[Column]) -> Vec<Vec<Cell>> {
    let fresh = name.ends_with("-fresh");
    let mut out = Vec::new();
    for (case, column) in cases.iter().zip(columns) {
        let Some(spread) = column.spread else { continue };
        let mut rows: Vec<&MessageRow> = part.logs.trials.iter().filter(|row| row.case == case.id).collect();
        rows.sort_by_key(|row| (row.pass, row.connection, row.sequence));
        let rounds = rounds(part, case);
        for (at, row) in rows.into_iter().enumerate() {
            let Some(ns) = row.latency_ns.filter(|ns| *ns as f64 >= FAR_OFF * spread.median_ns) else { continue };
            let round = rounds.iter().find(|round| round.pass == row.pass);
            let mut causes = Vec::new();
            if let Some(round) = round {
                let ends = [&round.near, &round.far];
                let again: u64 = ends.iter().filter_map(|end| Some(end.tcp?.total_retrans)).sum();
                if again > 0 {
                    causes.push(format!("{again} segments sent again"));
                }
                let excess = ns as f64 - spread.median_ns;
                let waited = |end: &EndReport| end.run_delay_ns.unwrap_or(0);
                let queued: u64 = ends.iter().map(|end| waited(end)).sum();
                if queued as f64 >= excess / 2.0 {
                    let whose = if fresh { "" } else { " in its round" };
                    causes.push(format!("waited {}{whose} for a CPU", time(queued as f64)));
                }
                if round.steal_ticks.is_some_and(|ticks| ticks > 0) {
                    causes.push("the host took the CPU away (steal)".into());
                }
                causes.extend(round.flags.iter().cloned());
            }
            if !fresh && at == 0 {
                causes.push("the first message of its connection".into());
            }
            if causes.is_empty() {
                causes.push("not known: no counter moved".into());
            }
            out.push(vec![
                Cell::text(name),
                Cell::count(at as u64 + 1),
                Cell::size(case.size),
                Cell::Time((ns as f64).into()),
                Cell::Time(spread.median_ns.into()),
                Cell::text(causes.join("; ")),
            ]);
        }
    }
    out
}

/// Whether a larger message is really faster: by trials, then by rounds.
fn faster(parts: &[Part<'_>]) -> Answer {
    let question = "Is a message of 1000 bytes faster than one of 10?";
    let mut table = Table::new(
        "ten-and-thousand",
        "10 B against 1000 B: Welch's t test and a permutation test of the trials",
        &["run", "10 B", "1000 B", "difference", "t", "p", "permutation p", "verdict"],
    );
    let mut told = Vec::new();
    for (name, what) in TABLES {
        let Some(part) = part(parts, name) else { continue };
        let (_, columns) = columns(&part);
        let at = |bytes: u64| columns.iter().position(|column| column.size == bytes);
        let Some((ten, thousand)) = at(10).zip(at(1000)) else { continue };
        let (Some(a), Some(b)) = (columns[ten].spread, columns[thousand].spread) else { continue };
        let Some(found) = difference(&columns, thousand, ten) else { continue };
        let Difference { t, p, permutation_p, .. } = found;
        let apart = b.mean_ns - a.mean_ns;
        let error = if t == 0.0 { f64::NAN } else { apart / t };
        table.row([
            Cell::text(name),
            Cell::Time(a.mean_ns.into()),
            Cell::Time(b.mean_ns.into()),
            Cell::Time(apart.into()),
            Cell::Number(t.into()),
            Cell::Number(p.into()),
            Cell::Number(permutation_p.into()),
            Cell::text(found.verdict()),
        ]);
        let verdict = match (found.differs(), apart < 0.0) {
            (false, _) => "no difference shown".to_owned(),
            (true, true) => "1000 bytes are faster".into(),
            (true, false) => "1000 bytes are slower".into(),
        };
        told.push(format!(
            "{what}: means {} and {}, difference {} with a standard error of {}, Welch p = {p:.3}, permutation p = \
             {permutation_p:.3}: {verdict}",
            time(a.mean_ns),
            time(b.mean_ns),
            time(apart),
            time(error.abs())
        ));
    }
    let steady = part(parts, "here-steady").and_then(|part| {
        let of = |bytes: u64| measured(&part).find(|case| case.case.size == bytes && case.case.path.transport == "tcp");
        let (ten, thousand) = (of(10)?, of(1000)?);
        judged(&part, Metric::P50, LEAST_MARGIN, &[(thousand, ten)]).remove(0)
    });
    let mut confidence = Confidence::CantTell;
    if let Some(judged) = &steady {
        let verdict = match judged.verdict {
            Verdict::Better => "faster",
            Verdict::Worse => "slower",
            Verdict::Equivalent => "neither, within 2 %",
            Verdict::Undecided => "not decided by these rounds",
        };
        told.push(format!(
            "the steady run decides it for this machine: p50 at 1000 bytes is {} of that at 10 bytes, paired by pass: {verdict}",
            judged.text()
        ));
        confidence = judged.confidence();
    }
    if told.is_empty() {
        return Answer::cannot(question, "neither trials nor rounds of 10 and of 1000 bytes were measured");
    }
    let mut text = told.join(". ");
    text = text
        .replacen(&text[..1], &text[..1].to_uppercase(), 1)
        .replace(". the steady", ". The steady")
        .replace(". this m", ". This m")
        .replace(". another", ". Another");
    Answer::new(question, confidence, text + ".").with(table)
}

fn find<'a>(part: &Part<'a>, transport: &str, bytes: u64) -> Option<&'a CaseSummary> {
    measured(part).find(|case| case.case.path.transport == transport && case.case.size == bytes)
}

/// Here against there, size by size, of the steady runs.
fn places(parts: &[Part<'_>]) -> Answer {
    let question = "How much slower is the other place?";
    let (Some(here), Some(there)) = (part(parts, "here-steady"), part(parts, "there-steady")) else {
        return Answer::cannot(
            question,
            "one of the two steady runs is missing; the trial tables alone have too few trials",
        )
        .next("msgpath lab up");
    };
    let columns = ["path", "size", "here", "there", "there divided by here"];
    let mut table = Table::new("places", "p50 of the steady runs", &columns);
    let mut ratios: Vec<(String, Estimate)> = Vec::new();
    for case in measured(&here) {
        let Some(other) = find(&there, &case.case.path.transport, case.case.size) else { continue };
        let ratio = unpaired(&by_pass(&there, Metric::P50, &other.case), &by_pass(&here, Metric::P50, &case.case));
        table.row([
            Cell::text(case.case.path.to_string()),
            Cell::size(case.case.size),
            Cell::or_missing(p50(case), Cell::Time, "no round trip"),
            Cell::or_missing(p50(other), Cell::Time, "no round trip"),
            Cell::or_missing(ratio.as_ref(), Cell::Ratio, "too few rounds"),
        ]);
        ratios.extend(ratio.map(|ratio| (format!("{} at {}", case.case.path, size(case.case.size)), ratio)));
    }
    let by = |a: &&(String, Estimate), b: &&(String, Estimate)| a.1.value.total_cmp(&b.1.value);
    let (Some(least), Some(most)) = (ratios.iter().min_by(by), ratios.iter().max_by(by)) else {
        return Answer::cannot(question, "the two places have no size in common");
    };
    let print =
        |(name, ratio): &(String, Estimate)| format!("{} ({name})", range(ratio, &|ratio| format!("{ratio:.2}")));
    let slower = ratios.iter().filter(|(_, ratio)| ratio.low.is_some_and(|low| low > 1.0)).count();
    let text = format!(
        "There, {}; here, {}. p50 there is {} to {} times that here; it is longer at {slower} of {} sizes with the whole \
         interval. The two runs were made one after the other, so what changed on the machine meanwhile is in it",
        between(&there),
        between(&here),
        print(least),
        print(most),
        ratios.len()
    );
    // Two runs, one after the other: nothing makes this sure.
    let confidence = if slower > 0 { Confidence::Likely } else { Confidence::CantTell };
    Answer::new(question, confidence, text + ".").with(table)
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
    let mtu = route(part).and_then(|route| route.mtu);
    let line = |(transport, headers): &(&str, u64)| {
        let own: Vec<(u64, f64, Series)> = measured(part)
            .filter(|case| case.case.path.transport == *transport)
            .filter_map(|case| Some((case.case.size, p50(case)?.ns? as f64, by_pass(part, Metric::P50, &case.case))))
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
        Some(Line {
            place: place.into(),
            transport: (*transport).into(),
            fixed_ns: with_passes(fixed_ns, &fixed)?,
            per_byte_ns: with_passes(per_byte_ns, &slopes)?,
            fitted: points.len(),
            step: own.iter().map(|(bytes, ..)| *bytes).filter(|bytes| !fits(*bytes)).min(),
            mtu,
            off: own
                .iter()
                .zip(&off)
                .map(|((bytes, ns, _), off)| (*bytes, with_passes(ns - fixed_ns - per_byte_ns * *bytes as f64, off)))
                .collect(),
        })
    };
    HEADERS.iter().filter_map(line).collect()
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
    let mut heads = vec!["size".to_owned()];
    for (transport, _) in HEADERS {
        heads.extend([format!("{transport} p50"), format!("{transport} p99"), format!("{transport} off its line")]);
    }
    let mut table =
        Table { columns: heads, ..Table::new(name, format!("Round trips by size, {place}: {}", between(part)), &[]) };
    let mut sizes: Vec<u64> = measured(part).map(|case| case.case.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for bytes in sizes {
        let mut row = vec![Cell::size(bytes)];
        for (transport, _) in HEADERS {
            let case = find(part, transport, bytes);
            let line = lines.iter().find(|line| line.place == place && line.transport == transport);
            let off = line.and_then(|line| line.off.iter().find(|(own, _)| *own == bytes)?.1.as_ref());
            let p99 = case.and_then(|case| quantile(case, 0.99)).and_then(Quantile::observed);
            row.extend([
                match case.and_then(p50) {
                    Some(p50) => Cell::or_missing(p50.ns.map(|ns| ns as f64), Cell::Time, "lost"),
                    None => Cell::missing("not measured"),
                },
                Cell::or_missing(p99.map(|ns| ns as f64), Cell::Time, "too few messages"),
                Cell::or_missing(off.map(|off| off.value), Cell::Time, "no line"),
            ]);
        }
        table.row(row);
    }
    table.note("Off its line: measured minus what the line of the messages within one packet says.")
}

fn fit(lines: &[Line]) -> Answer {
    let question = "What does a message cost whatever its size, and what does a byte cost?";
    if lines.is_empty() {
        return Answer::cannot(question, "no steady run with at least three sizes and five rounds was made");
    }
    let columns = [
        "place",
        "transport",
        "fixed",
        "a byte, there and back [ns]",
        "sizes",
        "first beyond a packet",
        "off the line there",
    ];
    let mut table = Table::new("line", "The line through the medians; intervals from the passes", &columns);
    let mut told = Vec::new();
    let per_byte = |line: &Line| range(&line.per_byte_ns, &three_digits);
    for line in lines {
        let step = line.step.and_then(|step| Some((step, line.off.iter().find(|(own, _)| *own == step)?.1.as_ref()?)));
        table.row([
            Cell::text(&line.place),
            Cell::text(&line.transport),
            Cell::Time((&line.fixed_ns).into()),
            Cell::Number((&line.per_byte_ns).into()),
            Cell::count(line.fitted as u64),
            line.step.map_or_else(|| Cell::text("none"), Cell::size),
            Cell::or_missing(step.map(|(_, off)| off), Cell::Time, "none beyond"),
        ]);
        let mut text = format!(
            "{}, {}: {} and {} ns for each byte there and back",
            line.place,
            line.transport,
            range(&line.fixed_ns, &time),
            per_byte(line)
        );
        if let Some((step, off)) = step {
            let fitted = line.fixed_ns.value + line.per_byte_ns.value * step as f64;
            let far = Estimate {
                value: off.value.abs(),
                low: off.low.map(|low| if off.value < 0.0 { -off.high.unwrap_or(-low) } else { low }),
                high: off.high.map(|high| if off.value < 0.0 { -off.low.unwrap_or(-high) } else { high }),
            };
            let told = match (off.low, off.high) {
                (Some(low), _) if low > 0.0 => "longer",
                (_, Some(high)) if high < 0.0 => "shorter",
                _ => "no different from it, as far as the interval tells; the difference is",
            };
            text += &format!(
                ". At {}, the first size beyond one packet of {} bytes, it is {told} than the line by {} ({} of it)",
                size(step),
                line.mtu.map_or_else(|| "?".into(), count),
                range(&far, &time),
                share(off.value.abs() / fitted)
            );
            text = text.replace("the difference is than the line by", "the difference is");
        }
        told.push(text);
    }
    let known = lines.iter().all(|line| line.per_byte_ns.low.is_some_and(|low| low > 0.0));
    let mut text = told.join(". ");
    text = text
        .replacen(&text[..1], &text[..1].to_uppercase(), 1)
        .replace(". another", ". Another")
        .replace(". this", ". This");
    Answer::new(question, if known { Confidence::Sure } else { Confidence::Likely }, text + ".").with(table)
}

/// The first exchange of a connection against the rest.
fn first(parts: &[Part<'_>]) -> Answer {
    let question = "Is the first exchange slower than the rest?";
    let mut table = Table::new(
        "first",
        "The first trial of each connection",
        &["run", "size", "first", "mean of the rest", "slowest of the rest"],
    );
    let (mut above, mut all, mut trials) = (0, 0, 0);
    for name in ["here-one", "there-one"] {
        let Some(part) = part(parts, name) else { continue };
        for column in columns(&part).1 {
            let own = &column.trials_ns;
            let (Some(Some(first)), Some(rest)) = (own.first(), column.after_first_ns) else { continue };
            let slowest = own[1..].iter().flatten().max().copied().unwrap_or(0);
            trials = trials.max(own.len());
            all += 1;
            above += u64::from(*first > slowest);
            table.row([
                Cell::text(name),
                Cell::size(column.size),
                Cell::Time((*first as f64).into()),
                Cell::Time(rest.into()),
                Cell::Time((slowest as f64).into()),
            ]);
        }
    }
    if all == 0 {
        return Answer::cannot(question, "no trials on one connection were made");
    }
    let text = format!(
        "In {above} of {all} connections the first of the trials is the slowest; by chance that would be one in {trials}"
    );
    let confidence = match above {
        some if some == all && (trials.max(1) as f64).powi(-(all as i32)) < 0.01 => Confidence::Sure,
        some if 2 * some > all => Confidence::Likely,
        _ => Confidence::CantTell,
    };
    Answer::new(question, confidence, text + ".").with(table)
}

/// What of a round trip is in which call, medians by pass, ns.
pub(crate) struct Calls {
    /// The whole round trip.
    pub(crate) round_trip: Estimate,
    /// The send call.
    pub(crate) send: Estimate,
    /// From its return to the end of the receive call.
    pub(crate) rest: Estimate,
    /// At the far end from the return of its receive call to the begin of its send call, where both ends have one clock.
    pub(crate) server: Option<Estimate>,
}

/// What the stamps of traced messages of a run say about its calls; `None` where no send call was stamped.
pub(crate) fn call_times(part: &Part<'_>) -> Option<Calls> {
    let rows: Vec<&MessageRow> =
        part.logs.traced.iter().filter(|row| row.sent_ns.is_some() && row.latency_ns.is_some()).collect();
    let mut passes: Vec<(u32, u32)> = rows.iter().map(|row| (row.case, row.pass)).collect();
    passes.sort_unstable();
    passes.dedup();
    let one_case = passes.first()?.0;
    let by_pass = |of: &dyn Fn(&MessageRow) -> Option<f64>| {
        let medians: Vec<f64> = passes
            .iter()
            .filter(|(case, _)| *case == one_case)
            .filter_map(|(case, pass)| {
                let own = rows.iter().filter(|row| (row.case, row.pass) == (*case, *pass));
                let own: Vec<f64> = own.filter_map(|row| of(row)).collect();
                (!own.is_empty()).then(|| median(&own))
            })
            .collect();
        mean_of_passes(&medians)
    };
    Some(Calls {
        round_trip: by_pass(&|row| Some(row.latency_ns? as f64))?,
        send: by_pass(&|row| Some(row.sent_ns? as f64))?,
        rest: by_pass(&|row| Some((row.latency_ns?.checked_sub(row.sent_ns?)?) as f64))?,
        server: by_pass(&|row| Some(row.far_sent_ns?.checked_sub(row.far_ns?)? as f64)),
    })
}

fn calls(parts: &[Part<'_>]) -> Answer {
    let question = "Which part of a trial are the calls, and is the rest really insignificant?";
    let connect = part(parts, "here-fresh").and_then(|part| {
        let own: Vec<f64> = part.run.rounds.iter().filter_map(|round| round.connect_ns).map(|ns| ns as f64).collect();
        (!own.is_empty()).then(|| median(&own))
    });
    let Some(calls) = part(parts, "calls").and_then(|part| call_times(&part)) else {
        return Answer::cannot(question, "no message was stamped at the return of its send call")
            .next("msgpath echo -l 1000 --stages light");
    };
    let mut table = Table::new("calls", "1000 bytes there and back, medians by pass", &["part", "time"]);
    table.row([
        Cell::text("connect (not in the round trip)"),
        Cell::or_missing(connect, Cell::Time, "no new connection"),
    ]);
    table.row([Cell::text("round trip"), Cell::Time((&calls.round_trip).into())]);
    table.row([Cell::text("of it the send call"), Cell::Time((&calls.send).into())]);
    table.row([Cell::text("of it until the receive call returned"), Cell::Time((&calls.rest).into())]);
    table.row([
        Cell::text("of that the far end's program, between its two calls"),
        Cell::or_missing(calls.server.as_ref(), Cell::Time, "the ends do not share a clock"),
    ]);
    let text = format!(
        "Of {} the send call takes {} ({}), and {} pass until the receive call returns, in which the message travels, is \
         answered and comes back; a connect takes {} more and is in no trial here",
        range(&calls.round_trip, &time),
        range(&calls.send, &time),
        share(calls.send.value / calls.round_trip.value),
        range(&calls.rest, &time),
        connect.map_or_else(|| "n/a".into(), time)
    );
    let intervals = [&calls.send, &calls.rest].iter().all(|estimate| estimate.low.is_some());
    Answer::new(question, if intervals { Confidence::Sure } else { Confidence::Likely }, text + ".").with(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Logs;
    use crate::answers::evidence::tests::{answer, of};
    use crate::testing::Build;

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
            faster.text.contains("means 6.10 µs and 4.90 µs") && faster.text.ends_with("no difference shown."),
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
        assert!(faster.text.ends_with("1000 bytes are faster."), "{}", faster.text);
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
            text.contains(
                "At 1600 B, the first size beyond one packet of 1\u{2009}500 bytes, it is longer than the line by"
            ),
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
