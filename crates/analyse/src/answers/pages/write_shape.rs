//! The page of the preset `write-shape`: 1500 bytes in four shapes by many writes, one writev and one write.

use msgpath_core::plan::{CaseRole, Metric};
use msgpath_core::schema::DeviceKind;
use msgpath_core::units::size;
use msgpath_stats::describe::median;
use msgpath_stats::verdict::{LEAST_MARGIN, Verdict};

use crate::answers::evidence::{
    Judged, between, bits, counted, device, judged_by, measured, range, rounds as rounds_of, share,
};
use crate::answers::{Answer, Cell, Page, Part, Table, part};
use crate::expected::line_rate;
use crate::findings::modes::DELAYED_ACK;
use crate::series::{receiver, sender};
use crate::summary::{CaseSummary, Confidence, Throughput};

/// The number by which the course calls a way of writing: 1 many writes, 2 one gathering write, 3 one write.
pub(crate) fn kind(method: &str) -> Option<u8> {
    match method {
        "writes" => Some(1),
        "writev" => Some(2),
        "send" | "write" => Some(3),
        _ => None,
    }
}

/// A row of the course's table, all rounds together.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassicRow {
    /// Setting of TCP; empty where the plan's was used.
    pub setting: String,
    /// `15x100`.
    pub pieces: String,
    /// 1, 2 or 3.
    pub kind: u8,
    /// On the sender's clock, until the last acknowledgement, ns.
    pub ns: u64,
    /// Read calls of the receiver.
    pub reads: u64,
    /// Payload bits per second over that time.
    pub bits: f64,
}

impl ClassicRow {
    /// As the seed prints it: seconds, and bits by 2^30 under the name of Gbps.
    pub fn seconds(&self) -> String {
        format!(
            "Test ({}): time = {:.6} sec, #reads = {}, throughput {:.6} Gbps",
            self.kind,
            self.ns as f64 / 1e9,
            self.reads,
            self.bits / 1_073_741_824.0
        )
    }

    /// As the newer client prints it: microseconds, and 10^9 bits.
    pub fn microseconds(&self) -> String {
        format!(
            "Test {}: time = {} usec, #reads = {}, throughput {:.3} Gbps",
            self.kind,
            self.ns / 1_000,
            self.reads,
            self.bits / 1e9
        )
    }
}

/// The rows of the course of a run: by setting, then shape, then type.
pub fn classic(part: &Part<'_>) -> Vec<ClassicRow> {
    let plan = &part.run.header.plan;
    let of = |case: &CaseSummary| {
        let own = rounds_of(part, &case.case);
        let (ns, _, bits) = whole(part, case)?;
        Some(ClassicRow {
            setting: setting(case).into(),
            pieces: case.case.pieces.to_string(),
            kind: kind(&case.case.path.method)?,
            ns,
            reads: own.iter().map(|round| receiver(plan, round).calls.recv_calls).sum(),
            bits,
        })
    };
    rows(part).into_iter().filter_map(of).collect()
}

/// A row as one transfer: the sender's time of all rounds, ns, their bytes, and the bits a second of both.
fn whole(part: &Part<'_>, case: &CaseSummary) -> Option<(u64, u64, f64)> {
    let plan = &part.run.header.plan;
    let own = rounds_of(part, &case.case);
    let ns: u64 = own.iter().map(|round| sender(plan, round).elapsed_ns).sum();
    let bytes: u64 = own.iter().map(|round| sender(plan, round).bytes_sent).sum();
    (ns > 0).then(|| (ns, bytes, bytes as f64 * 8e9 / ns as f64))
}

/// Passes whose round ended a delayed acknowledgement later than the usual round of the row: a mode with a cause, which
/// says nothing of the noise between rows.
fn delayed(part: &Part<'_>, case: &CaseSummary) -> Vec<u32> {
    let plan = &part.run.header.plan;
    let times: Vec<(u32, f64)> = rounds_of(part, &case.case)
        .into_iter()
        .map(|round| (round.pass, sender(plan, round).elapsed_ns as f64))
        .collect();
    // Where most rounds waited, the usual one did: the quicker half shows what a round takes without.
    let ns: Vec<f64> = times.iter().map(|(_, ns)| *ns).collect();
    let middle = median(&ns);
    let least = ns.iter().copied().fold(f64::INFINITY, f64::min);
    let usual = if DELAYED_ACK.is_one(middle - least) { least } else { middle };
    times.into_iter().filter(|(_, ns)| DELAYED_ACK.is_one(ns - usual)).map(|(pass, _)| pass).collect()
}

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let Some(part) = part(parts, "shapes") else { return Page::default() };
    let rows = rows(&part);
    let band = Band::of(&part, &rows);
    Page {
        tables: vec![speeds(&part, &rows), reads(&part, &rows), classic_table(&part)],
        answers: vec![
            bandwidth(&part, &rows),
            types(&part, &rows, &band),
            buffers(&part, &rows, &band),
            nagle(&part, &rows, &band),
        ],
        ..Page::default()
    }
}

fn setting(case: &CaseSummary) -> &'static str {
    case.case.path.setting.map_or("", |setting| setting.name())
}

/// By setting, then shape, then type, each in the order of the plan.
fn rows<'a>(part: &Part<'a>) -> Vec<&'a CaseSummary> {
    let mut rows: Vec<&CaseSummary> = measured(part).filter(|case| case.throughput.is_some()).collect();
    let first = |of: &dyn Fn(&CaseSummary) -> bool| measured(part).position(of);
    rows.sort_by_key(|row| {
        (
            first(&|case| case.case.path.setting == row.case.path.setting),
            first(&|case| case.case.pieces == row.case.pieces),
            kind(&row.case.path.method),
        )
    });
    rows
}

fn throughput(case: &CaseSummary) -> &Throughput {
    case.throughput.as_ref().expect("rows have one")
}

/// Path, shape and setting of a row.
fn name(case: &CaseSummary) -> String {
    format!("{} {}", case.case.path, case.case.pieces)
}

fn speeds(part: &Part<'_>, rows: &[&CaseSummary]) -> Table {
    let columns = [
        "pieces",
        "type",
        "path",
        "time",
        "throughput",
        "of reference",
        "all bytes / all the time",
        "rounds 40 ms later",
    ];
    let mut table = Table::new("rows", "The rows: each is one way of handing over 1500 bytes", &columns);
    for case in rows {
        let (throughput, rounds) = (throughput(case), rounds_of(part, &case.case).len());
        table.row([
            Cell::text(case.case.pieces.to_string()),
            kind(&case.case.path.method).map_or_else(|| Cell::text("-"), |kind| Cell::count(kind.into())),
            Cell::text(case.case.path.to_string()),
            Cell::Time((throughput.sender_ns * rounds as f64).into()),
            Cell::Bits((&throughput.receiver_bits).into()),
            Cell::or_missing(throughput.of_yardstick.as_ref().map(|of| of.value), Cell::Share, "no reference"),
            Cell::or_missing(whole(part, case).map(|(_, _, bits)| bits), Cell::Bits, "no time"),
            Cell::text(format!("{} of {rounds}", delayed(part, case).len())),
        ]);
    }
    table.note(
        "Time: the sender's clock until the last acknowledgement, all rounds together. Throughput: the receiver's bytes on \
         its own clock, the geometric mean of the rounds, Gbit/s = 10^9 bit/s. All bytes / all the time: on the sender's \
         clock, as the course's lines have it; a few slow rounds lower it far more. 40 ms later: 32 to 48 ms longer than \
         the row's usual round, as one delayed acknowledgement makes it.",
    )
}

fn reads(part: &Part<'_>, rows: &[&CaseSummary]) -> Table {
    let columns = ["path", "pieces", "sends", "#reads", "full", "short", "empty", "segments", "sent again"];
    let mut table = Table::new("reads", "Calls and segments of the same rows, all rounds together", &columns);
    let reverse = part.run.header.plan.reverse;
    for case in rows {
        let (sends, reads, tcp) = match reverse {
            false => (&case.near_calls, &case.far_calls, &case.near_tcp),
            true => (&case.far_calls, &case.near_calls, &case.far_tcp),
        };
        let of_tcp = |count: Option<u64>| count.map_or_else(|| Cell::missing("only TCP tells"), Cell::count);
        table.row([
            Cell::text(case.case.path.to_string()),
            Cell::text(case.case.pieces.to_string()),
            Cell::count(sends.send_calls),
            Cell::count(reads.recv_calls),
            Cell::count(reads.recv_full),
            Cell::count(reads.recv_short),
            Cell::count(reads.recv_empty),
            of_tcp(tcp.map(|tcp| tcp.data_segs_out)),
            of_tcp(tcp.map(|tcp| tcp.total_retrans)),
        ]);
    }
    table.note("Full reads took all that was missing of a message, short ones less, empty ones nothing.")
}

fn classic_table(part: &Part<'_>) -> Table {
    let mut table = Table::new(
        "classic",
        "The same in the course's format",
        &["setting", "pieces", "as the seed prints it (2^30)", "the same in 10^9"],
    );
    for row in classic(part) {
        let line = Cell::text(row.seconds());
        table.row([Cell::text(&row.setting), Cell::text(&row.pieces), line, Cell::Bits(row.bits.into())]);
    }
    table.note(
        "These lines divide by 2^30 under the name of Gbps, as the seed's nine rows do: 6.9 % less than Gbit/s. classic.txt \
         (with -o) has them in microseconds and Gbit/s as well.",
    )
}

/// What rows that do the same differ by: one write of 1500 bytes, whatever the shape is called. Rounds that waited for a
/// delayed acknowledgement are left out of this: two modes are no noise.
struct Band {
    /// Of each pair of such rows of one setting: the path, the pieces of both, and the relative difference.
    pairs: Vec<(msgpath_core::PathName, [msgpath_core::units::Pieces; 2], Option<f64>)>,
    /// Rows that differ from the first of their setting, beyond the least margin and after Holm.
    apart: usize,
    /// Rounds of all rows that waited.
    delayed: usize,
    table: Table,
}

impl Band {
    fn of(part: &Part<'_>, rows: &[&CaseSummary]) -> Self {
        let same: Vec<&CaseSummary> =
            rows.iter().copied().filter(|case| kind(&case.case.path.method) == Some(3)).collect();
        let mut pairs = Vec::new();
        for case in &same {
            let first = same.iter().find(|first| first.case.path == case.case.path).expect("itself at least");
            if first.case.id != case.case.id {
                pairs.push((*case, *first));
            }
        }
        let late: Vec<(u32, Vec<u32>)> = rows.iter().map(|case| (case.case.id, delayed(part, case))).collect();
        let usual = |case: &CaseSummary, pass: u32| {
            late.iter().all(|(id, passes)| *id != case.case.id || !passes.contains(&pass))
        };
        let found = judged_by(part, Metric::Throughput, &|_| LEAST_MARGIN, &pairs, &usual);
        let columns = ["one write, called", "against", "throughput divided by that", "verdict"];
        let mut table = Table::new("equal-rows", "Rows that do the same thing under different names (A/A)", &columns);
        for ((case, first), judged) in pairs.iter().zip(&found) {
            table.row([
                Cell::text(name(case)),
                Cell::text(first.case.pieces.to_string()),
                Cell::or_missing(judged.as_ref().map(|judged| &judged.ratio), Cell::Ratio, "too few rounds"),
                Cell::text(judged.as_ref().map_or("-", |judged| verdict(judged.verdict))),
            ]);
        }
        let differs = |judged: &&Judged| matches!(judged.verdict, Verdict::Better | Verdict::Worse);
        let difference = |judged: &Option<Judged>| judged.as_ref().map(|judged| (judged.ratio.value - 1.0).abs());
        let of_pair = |((case, first), judged): (&(&CaseSummary, &CaseSummary), &Option<Judged>)| {
            (case.case.path.clone(), [case.case.pieces, first.case.pieces], difference(judged))
        };
        Self {
            apart: found.iter().flatten().filter(differs).count(),
            delayed: late.iter().map(|(_, passes)| passes.len()).sum(),
            pairs: pairs.iter().zip(&found).map(of_pair).collect(),
            table: table.note("Rounds that waited for a delayed acknowledgement are left out here."),
        }
    }

    /// Largest relative difference of two equal rows.
    fn widest(&self) -> Option<f64> {
        self.pairs.iter().filter_map(|(.., difference)| *difference).reduce(f64::max)
    }

    /// The margin of a cell (its shape and setting): 2 %, or what its own row of one write differs by from those that equal
    /// it, in the middle.
    fn margin(&self, case: &CaseSummary) -> f64 {
        let own = self
            .pairs
            .iter()
            .filter(|(path, pieces, _)| path.setting == case.case.path.setting && pieces.contains(&case.case.pieces));
        let own: Vec<f64> = own.filter_map(|(.., difference)| *difference).collect();
        if own.is_empty() { LEAST_MARGIN } else { median(&own).max(LEAST_MARGIN) }
    }

    /// `2 %`, `2 to 30 %`: the margins of these cells.
    fn margins<'a>(&self, cases: impl Iterator<Item = &'a CaseSummary>) -> String {
        let all: Vec<f64> = cases.map(|case| self.margin(case)).collect();
        let (low, high) = all.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), one| (low.min(*one), high.max(*one)));
        if high > low { format!("{} to {}", share(low), share(high)) } else { share(high) }
    }

    /// What waited, where some did.
    fn waits(&self) -> String {
        match self.delayed {
            0 => String::new(),
            rounds => format!(
                "; {} ended 32 to 48 ms later than usual, which fits Nagle's algorithm and a delayed acknowledgement (msgpath \
                 preset nagle-trap) and is not counted as noise",
                counted(rounds, "round")
            ),
        }
    }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "faster",
        Verdict::Worse => "slower",
        Verdict::Equivalent => "within the margin",
        Verdict::Undecided => "not decided",
    }
}

fn bandwidth(part: &Part<'_>, rows: &[&CaseSummary]) -> Answer {
    let question = "How does the throughput compare with the bandwidth, and why is it above 1 Gbit/s?";
    let by_rate = |a: &&&CaseSummary, b: &&&CaseSummary| {
        throughput(a).receiver_bits.value.total_cmp(&throughput(b).receiver_bits.value)
    };
    let (Some(best), Some(worst)) = (rows.iter().max_by(by_rate), rows.iter().min_by(by_rate)) else {
        return Answer::cannot(question, "no row was measured");
    };
    let yardstick = part.summary.cases.iter().find(|case| case.case.role == CaseRole::Yardstick);
    let row = |case: &CaseSummary| {
        let of = throughput(case);
        let share =
            of.of_yardstick.as_ref().map_or_else(String::new, |of| format!(", {} of the reference", range(of, &share)));
        format!("{} with {}{share}", name(case), range(&of.receiver_bits, &bits))
    };
    let mut text = format!("The fastest row is {}; the slowest {}", row(best), row(worst));
    if let Some(bulk) = yardstick.and_then(|case| Some((case, case.throughput.as_ref()?))) {
        let (case, of) = bulk;
        text += &format!(
            ". The reference throughput, bulk transfer by {} in messages of {}, is {}",
            case.case.path,
            size(case.case.size),
            range(&of.receiver_bits, &bits)
        );
    }
    let above = rows.iter().filter(|case| throughput(case).receiver_bits.low.is_some_and(|low| low > 1e9)).count();
    text += &format!(". {} of the {} lie above 1 Gbit/s with their whole interval", counted(above, "row"), rows.len());
    let (what, known) = limit(part, rows);
    text += &what;
    let shares = rows.iter().all(|case| throughput(case).of_yardstick.as_ref().is_some_and(|of| of.low.is_some()));
    let confidence = match known {
        false => Confidence::CantTell,
        true if shares => Confidence::Sure,
        true => Confidence::Likely,
    };
    Answer::new(question, confidence, text + ".")
}

/// A row that carries so much of the link has it full: the rest is headers and acknowledgements.
const FULL: f64 = 0.9;
/// Rows within this of the reference throughput carry as much.
const ALIKE: f64 = 0.05;

/// What limits the rows, as the end of a sentence, and whether it is known.
fn limit(part: &Part<'_>, rows: &[&CaseSummary]) -> (String, bool) {
    let fastest = rows.iter().map(|case| throughput(case).receiver_bits.value).fold(0.0, f64::max);
    if let Some((line, route)) = line_rate(&part.run.header, &part.run.header.plan.cases[0].traits) {
        let full = rows.iter().filter(|case| throughput(case).receiver_bits.value >= FULL * line).count();
        let text = format!(
            "; the link of {} has {}, of which the fastest row uses {}",
            route.device,
            bits(line),
            share(fastest / line)
        );
        let of_all = format!("{full} of {} rows use {} or more of it", rows.len(), share(FULL));
        return match full {
            0 => (text, true),
            some if 2 * some > rows.len() => (format!("{text}: {of_all}, so the link limits them"), true),
            _ => (format!("{text}: {of_all}, so the link limits those"), true),
        };
    }
    match shared(part, rows) {
        Some(text) => (format!("; {}, but {text}", between(part)), false),
        None if matches!(device(part), Some(DeviceKind::Loopback | DeviceKind::Veth)) => {
            let text = "so that no wire and no NIC limits them; memory, system calls and wake-ups do";
            (format!(": {}, {text}", between(part)), true)
        }
        None => (format!("; {}, and the speed of what lies between is not known", between(part)), false),
    }
}

/// Most rows carry what the reference throughput is: one thing limits them all, and it is not how they are written.
pub(crate) fn shared(part: &Part<'_>, rows: &[&CaseSummary]) -> Option<String> {
    let reference = part.summary.cases.iter().find(|case| case.case.role == CaseRole::Yardstick)?;
    let most = reference.throughput.as_ref()?.receiver_bits.value;
    let of = |case: &&&CaseSummary| {
        case.throughput.as_ref().is_some_and(|of| (of.receiver_bits.value / most - 1.0).abs() <= ALIKE)
    };
    let alike = rows.iter().filter(of).count();
    let cable = part.run.header.plan.options.between.as_ref().map(|between| between.cable.as_str()).unwrap_or_default();
    let link = if cable.is_empty() { String::new() } else { format!(" (the link of the lab: {cable})") };
    (2 * alike > rows.len()).then(|| {
        format!(
            "{alike} of {} rows lie within {} of the reference throughput of {}: something that all share limits them, such as \
             a link{link}",
            rows.len(),
            share(ALIKE),
            bits(most)
        )
    })
}

/// Rows of one shape and setting: many writes, one writev, one write.
fn trios<'a>(rows: &[&'a CaseSummary]) -> Vec<[Option<&'a CaseSummary>; 3]> {
    let mut out = Vec::new();
    for case in rows.iter().filter(|case| kind(&case.case.path.method) == Some(3)) {
        let same = |of: u8| {
            let fits = |other: &&&CaseSummary| {
                kind(&other.case.path.method) == Some(of)
                    && other.case.pieces == case.case.pieces
                    && other.case.path.setting == case.case.path.setting
            };
            rows.iter().find(fits).copied()
        };
        out.push([same(1), same(2), Some(*case)]);
    }
    out
}

fn types(part: &Part<'_>, rows: &[&CaseSummary], band: &Band) -> Answer {
    let question = "Many writes, one writev or one write: which carries more, and by how much?";
    let trios = trios(rows);
    let pairs: Vec<(&CaseSummary, &CaseSummary)> = trios
        .iter()
        .flat_map(|[many, gathered, one]| [*many, *gathered].map(|case| case.zip(*one)))
        .flatten()
        .collect();
    if pairs.is_empty() {
        return Answer::cannot(question, "no shape was measured by one write and by another way");
    }
    let found = judged_by(part, Metric::Throughput, &|case| band.margin(case), &pairs, &|_, _| true);
    let columns = ["case", "calls each", "throughput divided by one write's", "verdict"];
    let mut table = Table::new("types", "Against one write of the same shape, paired by pass", &columns);
    let sends = |case: &CaseSummary| {
        if part.run.header.plan.reverse { case.far_calls.send_calls } else { case.near_calls.send_calls }
    };
    for ((case, _), judged) in pairs.iter().zip(&found) {
        table.row([
            Cell::text(name(case)),
            Cell::or_missing(case.per_message(sends(case)), Cell::Number, "no message was sent"),
            Cell::or_missing(judged.as_ref().map(|judged| &judged.ratio), Cell::Ratio, "too few rounds"),
            Cell::text(judged.as_ref().map_or("-", |judged| verdict(judged.verdict))),
        ]);
    }
    let of = |of: u8, what: &str| {
        let own: Vec<&Judged> = pairs
            .iter()
            .zip(&found)
            .filter(|((case, _), _)| kind(&case.case.path.method) == Some(of))
            .filter_map(|(_, judged)| judged.as_ref())
            .collect();
        if own.is_empty() {
            return None;
        }
        let values = || own.iter().map(|judged| judged.ratio.value);
        let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        let number = |verdict: Verdict| own.iter().filter(|judged| judged.verdict == verdict).count();
        let told: Vec<String> = [Verdict::Worse, Verdict::Better, Verdict::Equivalent, Verdict::Undecided]
            .into_iter()
            .filter(|verdict| number(*verdict) > 0)
            .map(|of| format!("{} in {}", verdict(of), number(of)))
            .collect();
        let spread = if own.len() == 1 { own[0].text() } else { format!("{low:.3} to {high:.3}") };
        Some(format!("{what} {spread} of what one write does ({} of {})", told.join(", "), counted(own.len(), "row")))
    };
    let told: Vec<String> = [of(1, "many writes carry"), of(2, "one writev carries")].into_iter().flatten().collect();
    let decided = found.iter().flatten().filter(|judged| judged.verdict != Verdict::Undecided).count();
    let confidence = match decided {
        0 => Confidence::CantTell,
        some if some == found.len() => Confidence::Sure,
        _ => Confidence::Likely,
    };
    let mut text = told.join("; ");
    text = text.replacen(&text[..1], &text[..1].to_uppercase(), 1);
    text += &format!(
        ". A verdict needs {}: the larger of 2 % and of what equal rows of its shape and setting differ by{}",
        band.margins(pairs.iter().map(|(_, one)| *one)),
        band.waits()
    );
    Answer::new(question, confidence, text + ".").with(table)
}

fn buffers(part: &Part<'_>, rows: &[&CaseSummary], band: &Band) -> Answer {
    let question = "Does it matter how many buffers there are, and how large they are?";
    let Some(widest) = band.widest() else {
        return Answer::cannot(
            question,
            "no shape was measured twice by one write in enough rounds, and without it nothing tells noise from a difference",
        );
    };
    let mut text = format!(
        "For one write it cannot: its rows make the same call with the same 1500 bytes, and they differ by up to {} ({} of \
         {} after Holm beyond 2 %), which is the noise of this run{}",
        share(widest),
        counted(band.apart, "pair"),
        band.pairs.len(),
        band.waits()
    );
    let mut pairs = Vec::new();
    for case in rows.iter().filter(|case| matches!(kind(&case.case.path.method), Some(1 | 2))) {
        let same = rows.iter().filter(|other| other.case.path == case.case.path);
        if let Some(fewest) = same.min_by_key(|other| other.case.pieces.count)
            && fewest.case.id != case.case.id
        {
            pairs.push((*case, *fewest));
        }
    }
    let found = judged_by(part, Metric::Throughput, &|case| band.margin(case), &pairs, &|_, _| true);
    let columns = ["case", "against", "throughput divided by that", "verdict"];
    let mut table = Table::new("buffers", "More and smaller buffers, paired by pass", &columns);
    for ((case, fewest), judged) in pairs.iter().zip(&found) {
        table.row([
            Cell::text(name(case)),
            Cell::text(fewest.case.pieces.to_string()),
            Cell::or_missing(judged.as_ref().map(|judged| &judged.ratio), Cell::Ratio, "too few rounds"),
            Cell::text(judged.as_ref().map_or("-", |judged| verdict(judged.verdict))),
        ]);
    }
    // The extreme shape of each path.
    let far = pairs.iter().zip(&found).filter_map(|((case, fewest), judged)| Some((case, fewest, judged.as_ref()?)));
    let mut by_path: Vec<(&CaseSummary, &CaseSummary, &Judged)> = Vec::new();
    for (case, fewest, judged) in far {
        match by_path.iter_mut().find(|(other, ..)| other.case.path == case.case.path) {
            Some(kept) if kept.0.case.pieces.count < case.case.pieces.count => *kept = (case, fewest, judged),
            Some(_) => {}
            None => by_path.push((case, fewest, judged)),
        }
    }
    for (case, fewest, judged) in &by_path {
        text += &format!(
            "; {} carries {} of {}: {}",
            name(case),
            judged.text(),
            fewest.case.pieces,
            verdict(judged.verdict)
        );
    }
    let sure = by_path.iter().all(|(_, _, judged)| judged.confidence() == Confidence::Sure);
    let confidence = if sure && !by_path.is_empty() { Confidence::Sure } else { Confidence::Likely };
    Answer::new(question, confidence, text + ".").with(band.table.clone()).with(table)
}

fn nagle(part: &Part<'_>, rows: &[&CaseSummary], band: &Band) -> Answer {
    let question = "What does Nagle's algorithm change?";
    let mut pairs = Vec::new();
    for case in rows.iter().filter(|case| setting(case) == "nagle") {
        let same = |other: &&&CaseSummary| {
            let (mut a, mut b) = (case.case.path.clone(), other.case.path.clone());
            (a.setting, b.setting) = (None, None);
            setting(other) == "nodelay" && a == b && other.case.pieces == case.case.pieces
        };
        pairs.extend(rows.iter().find(same).map(|other| (*case, *other)));
    }
    if pairs.is_empty() {
        return Answer::cannot(question, "no row was measured with it and without it")
            .next("msgpath stream -x tcp:writes --pieces 15x100 -c 20000 --vary nagle,nodelay");
    }
    let found = judged_by(part, Metric::Throughput, &|case| band.margin(case), &pairs, &|_, _| true);
    let columns = ["with Nagle", "segments each", "without", "throughput divided by that without", "verdict"];
    let mut table = Table::new("nagle", "Nagle against TCP_NODELAY, paired by pass", &columns);
    let segments = |case: &CaseSummary| {
        let tcp = if part.run.header.plan.reverse { case.far_tcp } else { case.near_tcp };
        case.per_message(tcp?.data_segs_out)
    };
    for ((with, without), judged) in pairs.iter().zip(&found) {
        table.row([
            Cell::text(name(with)),
            Cell::or_missing(segments(with), Cell::Number, "only TCP tells"),
            Cell::or_missing(segments(without), Cell::Number, "only TCP tells"),
            Cell::or_missing(judged.as_ref().map(|judged| &judged.ratio), Cell::Ratio, "too few rounds"),
            Cell::text(judged.as_ref().map_or("-", |judged| verdict(judged.verdict))),
        ]);
    }
    let own = |of: Verdict| found.iter().flatten().filter(|judged| judged.verdict == of).count();
    let mut text = format!(
        "Of the {} with it, {} faster than without it, {} slower, {} within the margin and {} not decided",
        counted(pairs.len(), "row"),
        own(Verdict::Better),
        own(Verdict::Worse),
        own(Verdict::Equivalent),
        own(Verdict::Undecided)
    );
    let many = pairs.iter().zip(&found).find(|((with, _), _)| kind(&with.case.path.method) == Some(1));
    if let Some(((with, without), Some(judged))) = many {
        text += &format!("; {} carries {} of the same without it", name(with), judged.text());
        if let (Some(a), Some(b)) = (segments(with), segments(without)) {
            text += &format!(", in {} segments a message instead of {}", three(a), three(b));
        }
    }
    let decided = found.iter().flatten().all(|judged| judged.verdict != Verdict::Undecided);
    Answer::new(question, if decided { Confidence::Sure } else { Confidence::Likely }, text + ".").with(table)
}

fn three(value: f64) -> String {
    msgpath_core::units::three_digits(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Logs;
    use crate::answers::evidence::tests::{answer, of, shapes};

    const PATHS: [&str; 4] = ["tcp:writes+nagle", "tcp:writes+nodelay", "tcp:writev+nagle", "tcp:send+nagle"];

    fn made(rates: impl Fn(usize, u32) -> f64 + 'static) -> Page {
        let build = shapes(&PATHS, &[(15, 100), (60, 25)]).yardstick(1 << 17).rates(rates);
        of(&[("shapes", build.run(), Logs::default())], page)
    }

    #[test]
    fn a_row_of_the_seed_is_printed_as_the_seed_does() {
        let row = ClassicRow {
            setting: "nagle".into(),
            pieces: "15x100".into(),
            kind: 1,
            ns: 312_501_000,
            reads: 22_978,
            bits: 30_000_000.0 * 8.0 / 0.312_501,
        };
        // The seed prints 0.715255: it divides by a time of which it shows six digits.
        assert_eq!(row.seconds(), "Test (1): time = 0.312501 sec, #reads = 22978, throughput 0.715253 Gbps");
        assert_eq!(row.microseconds(), "Test 1: time = 312501 usec, #reads = 22978, throughput 0.768 Gbps");
    }

    #[test]
    fn many_writes_that_carry_less_are_said_to() {
        // Cases 0 to 3 are many writes; the yardstick is case 8.
        let page = made(|case, _| match case {
            0..=3 => 2e8,
            8 => 8e9,
            _ => 4e9,
        });
        let types = answer(&page, "Many writes");
        assert_eq!(types.confidence, Confidence::Sure, "{}", types.text);
        assert!(
            types.text.starts_with("Many writes carry 0.050 to 0.050 of what one write does (slower in 2"),
            "{}",
            types.text
        );
        assert!(
            types.text.contains("one writev carries 1.000 to 1.000") && types.text.contains("within the margin in 2")
        );
        let bandwidth = answer(&page, "How does the throughput");
        assert!(bandwidth.text.contains("50.0 % (50.0 % to 50.0 %) of the reference"), "{}", bandwidth.text);
        assert!(bandwidth.text.contains("4 rows of the 8 lie above 1 Gbit/s") && bandwidth.text.contains("no wire"));
        assert_eq!(page.tables[0].rows.len(), 8);
        assert_eq!(classic_lines(&page).len(), 8);
    }

    fn classic_lines(page: &Page) -> Vec<&Vec<Cell>> {
        page.tables.iter().find(|table| table.name == "classic").unwrap().rows.iter().collect()
    }

    #[test]
    fn rows_that_are_alike_are_not_told_apart() {
        let page = made(|_, pass| 4e9 * (1.0 + f64::from(pass % 5) / 1000.0));
        let types = answer(&page, "Many writes");
        assert!(!types.text.contains("slower in") && !types.text.contains("faster in"), "{}", types.text);
        let nagle = answer(&page, "What does Nagle");
        assert!(
            nagle.text.starts_with("Of the 2 rows with it, 0 faster than without it, 0 slower, 2 within"),
            "{}",
            nagle.text
        );
    }

    #[test]
    fn a_link_that_is_full_limits_the_rows() {
        let build = || {
            // Many writes are slower; all else carries what the link does.
            let rates = |case, _| if case == 0 { 5e7 } else { 1.94e8 };
            shapes(&PATHS, &[(15, 100), (60, 25)]).yardstick(1 << 17).rates(rates)
        };
        let said = |run| {
            let page = of(&[("shapes", run, Logs::default())], page);
            let answer = answer(&page, "How does the throughput");
            assert!(!answer.text.contains("no wire"), "{}", answer.text);
            (answer.confidence, answer.text.clone())
        };
        // A lab that was there: nobody recorded its rate.
        let (confidence, text) = said(build().run());
        assert!(
            confidence == Confidence::CantTell && text.contains("7 of 8 rows lie within 5.00 % of the reference"),
            "{text}"
        );
        let mut run = build().run();
        crate::testing::route(&mut run, DeviceKind::Veth, "mp0", "10.0.0.2");
        let link = Some("rate=200000000,delay=1ms".into());
        run.header.plan.options.between = Some(msgpath_core::plan::Between { link, ..Default::default() });
        let (confidence, text) = said(run);
        assert!(
            confidence != Confidence::CantTell
                && text
                    .contains("the link of mp0 has 200 Mbit/s, of which the fastest row uses 97.0 %: 7 of 8 rows use")
                && text.contains("so the link limits them"),
            "{text}"
        );
    }

    #[test]
    fn rounds_that_wait_for_an_acknowledgement_are_no_noise() {
        let build = shapes(&PATHS, &[(15, 100), (60, 25)]).yardstick(1 << 17).rates(|_, _| 4e9);
        let mut run = build.run();
        // One write of 60x25 (case 7) ends 40 ms later in every third pass.
        for round in run.rounds.iter_mut().filter(|round| round.case == 7 && round.pass % 3 == 0) {
            round.near.elapsed_ns += 40_000_000;
            round.far.elapsed_ns += 40_000_000;
        }
        let page = of(&[("shapes", run, Logs::default())], page);
        let (types, buffers) = (answer(&page, "Many writes"), answer(&page, "Does it matter"));
        assert!(types.text.contains("A verdict needs 2.00 %:"), "{}", types.text);
        assert!(buffers.text.contains("rounds ended 32 to 48 ms later than usual"), "{}", buffers.text);
        assert!(!buffers.text.contains("noise of this machine"), "{}", buffers.text);
        // The rows themselves have all their rounds, and two tables say the same of them.
        let late = page.tables[0].rows.iter().find(|row| row[7] != Cell::text("0 of 40")).unwrap();
        let classic = classic_lines(&page);
        assert!(classic.iter().any(|row| row[3] == late[6]), "{late:?} {classic:?}");
    }

    #[test]
    fn rows_are_those_of_the_rounds_that_make_the_headline() {
        let mut run = shapes(&PATHS, &[(15, 100), (60, 25)]).yardstick(1 << 17).rates(|_, _| 4e9).run();
        run.rounds.iter_mut().for_each(|round| round.steal_ticks = Some(if round.pass < 10 { 20 } else { 0 }));
        let own = run.rounds.iter().filter(|round| round.case == 0 && round.pass >= 10);
        let calm: u64 = own.map(|round| round.near.elapsed_ns).sum();
        let page = of(&[("shapes", run, Logs::default())], page);
        let row = &page.tables[0].rows[0];
        assert_eq!(row[7], Cell::text("0 of 30"), "{row:?}");
        let Cell::Time(time) = &row[3] else { panic!("{row:?}") };
        assert!((time.value / calm as f64 - 1.0).abs() < 1e-6, "{time:?} {calm}");
    }

    #[test]
    fn what_equal_rows_differ_by_is_the_margin() {
        // One write of 60x25 carries 1.3 times what one of 15x100 does, though both are the same: no smaller difference counts.
        let page = made(|case, _| match case {
            7 => 5.2e9,
            4 | 5 => 3.6e9,
            _ => 4e9,
        });
        let buffers = answer(&page, "Does it matter");
        assert!(buffers.text.contains("they differ by up to 30.0 % (1 pair of 1"), "{}", buffers.text);
        let types = answer(&page, "Many writes");
        assert!(types.text.contains("A verdict needs 30.0 %") && !types.text.contains("slower in 2"), "{}", types.text);
        assert!(!types.text.contains("within the margin"), "{}", types.text);
    }
}
