//! The page of the preset `write-shape`: 1500 bytes in four shapes by many writes, one writev and one write.

use msgpath_analyse::expected::line_rate;
use msgpath_analyse::findings::modes::DELAYED_ACK;
use msgpath_analyse::series::{receiver, sender};
use msgpath_analyse::summary::{CaseSummary, Confidence, Throughput};
use msgpath_core::plan::{CaseRole, Metric};
use msgpath_core::schema::{DeviceKind, FAR, NEAR, TcpInfo};
use msgpath_core::units::{Pieces, size, three_digits};
use msgpath_core::{CallCounts, PathName};
use msgpath_stats::describe::median;
use msgpath_stats::distributions::binomial_inverse;
use msgpath_stats::verdict::{LEAST_MARGIN, Verdict};

use crate::answers::answered::{Answered, answers, say, sure_if};
use crate::answers::columns::{bits_or, count_or, number_or, share_or, table};
use crate::answers::evidence::{Family, Pair, Verdicts, above, extremes, judged_by};
use crate::answers::words::{bits, capital, counted, decided, percent, range, verdict_word};
use crate::answers::{Cell, Page, Part, Table, part};

/// What a difference within the margin is called.
const SAME: &str = "within the margin";

type Ask = fn(&Shapes<'_>) -> Answered;
const QUESTIONS: &[(&str, Ask)] = &[
    ("How does the throughput compare with the bandwidth, and why is it above 1 Gbit/s?", bandwidth),
    ("Many writes, one writev or one write: which carries more, and by how much?", types),
    ("Does it matter how many buffers there are, and how large they are?", buffers),
    ("What does Nagle's algorithm change?", nagle),
];

/// The number by which the course calls a way of writing: 1 many writes, 2 one gathering write, 3 one write.
fn kind(method: &str) -> Option<u8> {
    match method {
        "writes" => Some(1),
        "writev" => Some(2),
        "send" | "write" => Some(3),
        _ => None,
    }
}

/// The same of a case.
fn is(case: &CaseSummary, number: u8) -> bool {
    kind(&case.case.path.method) == Some(number)
}

/// Calls and sockets of the end that sends.
pub(crate) fn sending<'a>(part: &Part<'_>, case: &'a CaseSummary) -> (&'a CallCounts, &'a Option<TcpInfo>) {
    let near = (&case.end(NEAR).calls, &case.end(NEAR).tcp);
    if part.run.header.plan.reverse { (&case.end(FAR).calls, &case.end(FAR).tcp) } else { near }
}

/// Of the end that receives.
pub(crate) fn receiving<'a>(part: &Part<'_>, case: &'a CaseSummary) -> (&'a CallCounts, &'a Option<TcpInfo>) {
    let far = (&case.end(FAR).calls, &case.end(FAR).tcp);
    if part.run.header.plan.reverse { (&case.end(NEAR).calls, &case.end(NEAR).tcp) } else { far }
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
    /// On the sender's clock, until the last acknowledgement, or where messages may be lost until the last send call returned, ns.
    pub ns: u64,
    /// Read calls of the receiver.
    pub reads: u64,
    /// Payload bits per second over that time.
    pub bits: f64,
}

impl ClassicRow {
    /// As the seed prints it: seconds, and bits by 2^30 under the name of Gbps.
    pub fn seconds(&self) -> String {
        let Self { kind, ns, reads, bits, .. } = self;
        let (seconds, gbps) = (*ns as f64 / 1e9, bits / 1_073_741_824.0);
        format!("Test ({kind}): time = {seconds:.6} sec, #reads = {reads}, throughput {gbps:.6} Gbps")
    }

    /// As the newer client prints it: microseconds, and 10^9 bits.
    pub fn microseconds(&self) -> String {
        let Self { kind, ns, reads, bits, .. } = self;
        format!("Test {kind}: time = {} usec, #reads = {reads}, throughput {:.3} Gbps", ns / 1_000, bits / 1e9)
    }
}

/// The rows of the course of a run: by setting, then shape, then type.
pub fn classic(part: &Part<'_>) -> Vec<ClassicRow> {
    let plan = &part.run.header.plan;
    let of = |case: &CaseSummary| {
        let (ns, bits) = whole(part, case)?;
        Some(ClassicRow {
            setting: setting(case).into(),
            pieces: case.case.pieces.to_string(),
            kind: kind(&case.case.path.method)?,
            ns,
            reads: part.rounds(&case.case).iter().map(|round| receiver(plan, round).calls.recv_calls).sum(),
            bits,
        })
    };
    rows(part).into_iter().filter_map(of).collect()
}

/// A row as one transfer: the sender's time of all rounds, ns, and the bits a second of all their bytes.
fn whole(part: &Part<'_>, case: &CaseSummary) -> Option<(u64, f64)> {
    let rounds = part.rounds(&case.case);
    let sent = || rounds.iter().map(|round| sender(&part.run.header.plan, round));
    let (ns, bytes): (u64, u64) = (sent().map(|end| end.elapsed_ns).sum(), sent().map(|end| end.bytes_sent).sum());
    (ns > 0).then(|| (ns, bytes as f64 * 8e9 / ns as f64))
}

/// Passes whose round ended a delayed acknowledgement later than the usual round of the row: a mode with a cause, which
/// says nothing of the noise between rows.
fn delayed(part: &Part<'_>, case: &CaseSummary) -> Vec<u32> {
    let plan = &part.run.header.plan;
    let rounds = part.rounds(&case.case).into_iter();
    let times: Vec<(u32, f64)> = rounds.map(|round| (round.pass, sender(plan, round).elapsed_ns as f64)).collect();
    // Where most rounds waited, the usual one did: the quicker half shows what a round takes without.
    let ns: Vec<f64> = times.iter().map(|(_, ns)| *ns).collect();
    let middle = median(&ns);
    let least = ns.iter().copied().fold(f64::INFINITY, f64::min);
    let usual = if DELAYED_ACK.is_one(middle - least) { least } else { middle };
    times.into_iter().filter(|(_, ns)| DELAYED_ACK.is_one(ns - usual)).map(|(pass, _)| pass).collect()
}

/// Rounds that ended a delayed acknowledgement later than usual, of so many, by whether Nagle's algorithm is on.
#[derive(Clone, Copy, Debug, Default)]
struct Late {
    nagle: [usize; 2],
    nodelay: [usize; 2],
}

impl Late {
    fn of(part: &Part<'_>, rows: &[&CaseSummary]) -> Self {
        let mut late = Self::default();
        for case in rows {
            let own = if waits(part, case) { &mut late.nagle } else { &mut late.nodelay };
            own[0] += delayed(part, case).len();
            own[1] += part.rounds(&case.case).len();
        }
        late
    }

    /// Whether they are those of Nagle's algorithm: without it no round ends so late, or chance alone would seldom give it so many.
    fn fits_nagle(&self) -> bool {
        let (all, rounds) = (self.nagle[0] + self.nodelay[0], self.nagle[1] + self.nodelay[1]);
        let share = self.nagle[1] as f64 / rounds.max(1) as f64;
        self.nagle[0] > 0 && (self.nodelay[0] == 0 || self.nagle[0] as u64 > binomial_inverse(0.975, all as u64, share))
    }

    /// What is said of them, as the end of a sentence.
    fn words(&self) -> String {
        let of = |[late, all]: [usize; 2]| format!("{late} of {all} rounds");
        let (with, without) = (of(self.nagle), of(self.nodelay));
        match self.nagle[0] + self.nodelay[0] {
            0 => String::new(),
            _ if self.fits_nagle() => format!(
                "; {with} with Nagle's algorithm and {without} with TCP_NODELAY ended 32 to 48 ms later than usual, which fits \
                 Nagle's algorithm and a delayed acknowledgement (msgpath preset nagle-trap); those with it are not counted \
                 as noise"
            ),
            _ => format!(
                "; {with} with Nagle's algorithm and {without} with TCP_NODELAY ended 32 to 48 ms later than usual, which is \
                 not shown to come from Nagle's algorithm and is counted as noise"
            ),
        }
    }
}

/// Whether a small packet of a row waits for an acknowledgement (Nagle's algorithm).
fn waits(part: &Part<'_>, case: &CaseSummary) -> bool {
    let options = part.run.header.plan.options_of(&case.case);
    case.case.path.transport == "tcp" && !options.nodelay
}

/// The run, its rows, and what equal rows differ by.
struct Shapes<'a> {
    part: Part<'a>,
    rows: Vec<&'a CaseSummary>,
    band: Band,
}

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let Some(part) = part(parts, "shapes") else { return Page::default() };
    let rows = rows(&part);
    let band = Band::of(&part, &rows);
    let tables = vec![speeds(&part, &rows), reads(&part, &rows), classic_table(&part)];
    Page { tables, answers: answers(&Shapes { part, rows, band }, QUESTIONS), ..Page::default() }
}

fn setting(case: &CaseSummary) -> &'static str {
    case.case.path.setting.map_or("", |setting| setting.name())
}

/// By setting, then shape, then type, each in the order of the plan.
fn rows<'a>(part: &Part<'a>) -> Vec<&'a CaseSummary> {
    let mut rows: Vec<&CaseSummary> = part.measured().filter(|case| case.throughput.is_some()).collect();
    let first = |of: &dyn Fn(&CaseSummary) -> bool| part.measured().position(of);
    rows.sort_by_key(|row| {
        let setting = first(&|case| case.case.path.setting == row.case.path.setting);
        (setting, first(&|case| case.case.pieces == row.case.pieces), kind(&row.case.path.method))
    });
    rows
}

fn throughput(case: &CaseSummary) -> &Throughput {
    case.throughput.as_ref().expect("rows have one")
}

fn bits_of(case: &CaseSummary) -> f64 {
    throughput(case).receiver_bits.value
}

/// Path, shape and setting of a row.
fn name(case: &CaseSummary) -> String {
    format!("{} {}", case.case.path, case.case.pieces)
}

fn speeds(part: &Part<'_>, rows: &[&CaseSummary]) -> Table {
    let rounds = |case: &CaseSummary| part.rounds(&case.case).len();
    let share = |case: &CaseSummary| throughput(case).of_reference.as_ref().map(|of| of.value);
    table("rows", "The rows: each is one way of handing over 1500 bytes", rows)
        .col("pieces", |case| case.case.pieces.to_string())
        .col("type", |case| kind(&case.case.path.method).map_or(Cell::text("-"), |kind| Cell::count(kind.into())))
        .col("path", |case| case.case.path.to_string())
        .col("time", |case| Cell::Time((throughput(case).sender_ns * rounds(case) as f64).into()))
        .col("throughput", |case| Cell::Bits((&throughput(case).receiver_bits).into()))
        .col("of reference", |case| share_or(share(case), "no reference"))
        .col("all bytes / all the time", |case| bits_or(whole(part, case).map(|(_, bits)| bits), "no time"))
        .col("rounds 40 ms later", |case| format!("{} of {}", delayed(part, case).len(), rounds(case)))
        .note(format!(
            "Time: the sender's clock {}, all rounds together. Throughput: the receiver's bytes on its own clock, the geometric \
             mean of the rounds, Gbit/s = 10^9 bit/s. All bytes / all the time: on the sender's clock, as the course's lines \
             have it; a few slow rounds lower it far more. 40 ms later: 32 to 48 ms longer than the row's usual round, as one \
             delayed acknowledgement makes it.",
            msgpath_present::senders_until(rows.iter().map(|row| &row.case))
        ))
}

fn reads(part: &Part<'_>, rows: &[&CaseSummary]) -> Table {
    let count = |case: &CaseSummary, of: fn(&CallCounts) -> u64| Cell::count(of(receiving(part, case).0));
    let of_tcp = |case: &CaseSummary, of: fn(&TcpInfo) -> u64| {
        count_or(sending(part, case).1.as_ref().map(of), "only TCP tells")
    };
    table("reads", "Calls and segments of the same rows, all rounds together", rows)
        .col("path", |case| case.case.path.to_string())
        .col("pieces", |case| case.case.pieces.to_string())
        .col("sends", |case| Cell::count(sending(part, case).0.send_calls))
        .col("#reads", |case| count(case, |calls| calls.recv_calls))
        .col("full", |case| count(case, |calls| calls.recv_full))
        .col("short", |case| count(case, |calls| calls.recv_short))
        .col("empty", |case| count(case, |calls| calls.recv_empty))
        .col("segments", |case| of_tcp(case, |tcp| tcp.data_segs_out))
        .col("retransmitted", |case| of_tcp(case, |tcp| tcp.total_retrans))
        .note("Full reads took all that was missing of a message, short ones less, empty ones nothing.")
}

fn classic_table(part: &Part<'_>) -> Table {
    table("classic", "The same in the course's format", classic(part))
        .text("setting", |row| &row.setting)
        .text("pieces", |row| &row.pieces)
        .col("as the seed prints it (2^30)", ClassicRow::seconds)
        .col("the same in 10^9", |row| Cell::Bits(row.bits.into()))
        .note(
            "These lines divide by 2^30 under the name of Gbps, as the seed's nine rows do: 6.9 % less than Gbit/s. \
             classic.txt (with -o) has them in microseconds and Gbit/s as well.",
        )
}

/// What rows that do the same differ by: one write of 1500 bytes, whatever the shape is called. Rounds that waited for a
/// delayed acknowledgement are left out of this: two modes are not noise.
struct Band {
    /// Of each pair of such rows of one setting: the path, the pieces of both, and the relative difference.
    pairs: Vec<(PathName, [Pieces; 2], Option<f64>)>,
    /// Rows that differ from the first of their setting, beyond the least margin and after Holm.
    apart: usize,
    /// Rounds that may have waited.
    late: Late,
    table: Table,
}

impl Band {
    fn of(part: &Part<'_>, rows: &[&CaseSummary]) -> Self {
        let same = || rows.iter().copied().filter(|case| is(case, 3));
        let first = |case: &CaseSummary| same().find(|first| first.case.path == case.case.path);
        let pairs = same().filter_map(|case| Some((case, first(case)?)));
        let pairs: Vec<Pair<'_>> = pairs.filter(|(case, first)| case.case.id != first.case.id).collect();
        let counts = Late::of(part, rows);
        let waited = rows.iter().filter(|case| counts.fits_nagle() && waits(part, case));
        let late: Vec<(u32, Vec<u32>)> = waited.map(|case| (case.case.id, delayed(part, case))).collect();
        let usual = |case: &CaseSummary, pass: u32| {
            late.iter().all(|(id, passes)| *id != case.case.id || !passes.contains(&pass))
        };
        let family = judged_by(part, Metric::Throughput, &|_| LEAST_MARGIN, &pairs, &usual);
        let table = family
            .table("equal-rows", "Rows that do the same thing under different names (A/A)")
            .col("one write, called", |row| name(row.0))
            .col("against", |row| row.1.case.pieces.to_string())
            .judged("throughput divided by that", SAME)
            .note("Rounds that waited for a delayed acknowledgement, where Nagle's algorithm explains them, are left out here.");
        let of_pair = |(case, first, judged): &(&CaseSummary, &CaseSummary, Option<_>)| {
            let judged: &Option<crate::answers::evidence::Judged> = judged;
            let difference = judged.as_ref().map(|judged| (judged.ratio.value - 1.0).abs());
            (case.case.path.clone(), [case.case.pieces, first.case.pieces], difference)
        };
        Self {
            pairs: family.all.iter().map(of_pair).collect(),
            apart: family.count(Verdict::Better) + family.count(Verdict::Worse),
            late: counts,
            table,
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
        let (low, high) = extremes(&all, |margin| *margin).unwrap_or((&0.0, &0.0));
        if high > low { format!("{} to {}", percent(*low), percent(*high)) } else { percent(*high) }
    }
}

fn bandwidth(Shapes { part, rows, .. }: &Shapes<'_>) -> Answered {
    let (worst, best) = extremes(rows, |case| bits_of(case)).ok_or("no row was measured")?;
    let row = |case: &CaseSummary| {
        let of = throughput(case);
        let share = of.of_reference.as_ref();
        let share = share.map_or_else(String::new, |of| format!(", {} of the reference", range(of, percent)));
        format!("{} with {}{share}", name(case), range(&of.receiver_bits, bits))
    };
    let reference = part.summary.cases.iter().find(|case| case.case.role == CaseRole::Reference);
    let bulk = reference.and_then(|case| Some((case, case.throughput.as_ref()?)));
    let bulk = bulk.map_or_else(String::new, |(case, of)| {
        let path = &case.case.path;
        let bytes = size(case.case.size);
        let carried = range(&of.receiver_bits, bits);
        format!(". The reference throughput, bulk transfer by {path} in messages of {bytes}, is {carried}")
    });
    let over = rows.iter().filter(|case| above(&throughput(case).receiver_bits, 1e9)).count();
    let (limit, known) = limit(part, rows);
    let text = format!(
        "The fastest row is {}; the slowest {}{bulk}. {} of the {} lie above 1 Gbit/s with their whole interval{limit}",
        row(best),
        row(worst),
        counted(over, "row"),
        rows.len()
    );
    let shares = rows.iter().all(|case| throughput(case).of_reference.as_ref().is_some_and(|of| of.low.is_some()));
    Ok(say(if known { sure_if(shares) } else { Confidence::CantTell }, text))
}

/// A row that carries so much of the link has it full: the rest is headers and acknowledgements.
const FULL: f64 = 0.9;
/// Rows within this of the reference throughput carry as much.
const ALIKE: f64 = 0.05;

/// What limits the rows, as the end of a sentence, and whether it is known.
fn limit(part: &Part<'_>, rows: &[&CaseSummary]) -> (String, bool) {
    if let Some((line, route)) = line_rate(&part.run.header, &part.run.header.plan.cases[0].traits) {
        let (_, fastest) = extremes(rows, |case| bits_of(case)).expect("there are rows");
        let fastest = bits_of(fastest);
        let full = rows.iter().filter(|case| bits_of(case) >= FULL * line).count();
        let limits = match full {
            0 => "",
            some if 2 * some > rows.len() => ", so the link limits them",
            _ => ", so the link limits those",
        };
        let of_all = match full {
            0 => String::new(),
            _ => format!(": {full} of {} rows use {} or more of it{limits}", rows.len(), percent(FULL)),
        };
        let device = &route.device;
        let share = percent(fastest / line);
        let has = bits(line);
        let reference = part.summary.cases.iter().find(|case| case.case.role == CaseRole::Reference);
        let reference = reference.map_or_else(String::new, |case| {
            format!(" and the reference throughput {}", percent(bits_of(case) / line))
        });
        let told = if part.run.header.plan.wire.is_some() { ", as it was told" } else { "" };
        if fastest > line {
            let text = format!(
                "; the link of {device} has {has}{told}, and the fastest row carries {share} of that, which no link does: \
                 buffers before it took the rest, and these rounds are too short to tell what limits the rows"
            );
            return (text, false);
        }
        let text =
            format!("; the link of {device} has {has}{told}, of which the fastest row uses {share}{reference}{of_all}");
        return (text, true);
    }
    let between = part.between();
    match shared(part, rows) {
        Some(text) => (format!("; {between}, but {text}"), false),
        None if matches!(part.device(), Some(DeviceKind::Loopback | DeviceKind::Veth)) => {
            let text = "so that no wire and no NIC limits them; memory, system calls and wake-ups do";
            (format!(": {between}, {text}"), true)
        }
        None => (format!("; {between}, and the speed of what lies between is not known"), false),
    }
}

/// Most rows carry what the reference throughput is: one thing limits them all, and it is not how they are written.
fn shared(part: &Part<'_>, rows: &[&CaseSummary]) -> Option<String> {
    let reference = part.summary.cases.iter().find(|case| case.case.role == CaseRole::Reference)?;
    let most = reference.throughput.as_ref()?.receiver_bits.value;
    let of = |case: &&&CaseSummary| {
        case.throughput.as_ref().is_some_and(|of| (of.receiver_bits.value / most - 1.0).abs() <= ALIKE)
    };
    let alike = rows.iter().filter(of).count();
    let link =
        part.run.header.plan.options.between.as_ref().map(|between| between.properties.as_str()).unwrap_or_default();
    let link = if link.is_empty() { String::new() } else { format!(" (the link of the lab: {link})") };
    let all = rows.len();
    let within = percent(ALIKE);
    let most = bits(most);
    (2 * alike > all).then(|| {
        format!(
            "{alike} of {all} rows lie within {within} of the reference throughput of {most}: something that all share limits \
             them, such as a link{link}"
        )
    })
}

/// The row of another way of writing, with the shape and setting of this one.
pub(crate) fn alike<'a>(rows: &[&'a CaseSummary], case: &CaseSummary, kind: u8) -> Option<&'a CaseSummary> {
    let setting = |case: &CaseSummary| case.case.path.setting;
    let fits = |other: &&CaseSummary| {
        is(other, kind) && other.case.pieces == case.case.pieces && setting(other) == setting(case)
    };
    rows.iter().copied().find(fits)
}

impl<'a> Shapes<'a> {
    /// Judged with the margin of each cell.
    fn judged(&self, pairs: &[Pair<'a>]) -> Family<'a> {
        judged_by(&self.part, Metric::Throughput, &|case| self.band.margin(case), pairs, &|_, _| true)
    }
}

/// `many writes carry 0.500 to 0.720 of what one write does (slower in 4 of 4 rows)`.
fn carried(family: &Family<'_>, number: u8, what: &str) -> Option<String> {
    let own: Vec<_> = family.found().filter(|(case, ..)| is(case, number)).map(|(.., judged)| judged).collect();
    let (least, most) = extremes(&own, |judged| judged.ratio.value)?;
    let clauses: Vec<String> = [Verdict::Worse, Verdict::Better, Verdict::Equivalent, Verdict::Undecided]
        .into_iter()
        .map(|of| (of, own.iter().filter(|judged| judged.verdict == of).count()))
        .filter(|(_, count)| *count > 0)
        .map(|(of, count)| format!("{} in {count}", verdict_word(of, SAME)))
        .collect();
    let clauses = clauses.join(", ");
    let all = counted(own.len(), "row");
    let spread = match own.len() {
        1 => own[0].text(),
        _ => format!("{:.3} to {:.3}", least.ratio.value, most.ratio.value),
    };
    Some(format!("{what} {spread} of what one write does ({clauses} of {all})"))
}

fn types(shapes: &Shapes<'_>) -> Answered {
    let Shapes { part, rows, band } = shapes;
    let one = rows.iter().copied().filter(|case| is(case, 3));
    let pairs = one.flat_map(|one| [1, 2].map(|of| Some((alike(rows, one, of)?, one))));
    let pairs: Vec<Pair<'_>> = pairs.flatten().collect();
    if pairs.is_empty() {
        return Err("no shape was measured by one write and by another way".into());
    }
    let family = shapes.judged(&pairs);
    let evidence = family
        .table("types", "Against one write of the same shape, paired by pass")
        .col("case", |row| name(row.0))
        .col("calls each", |row| number_or(row.0.per_message(sending(part, row.0).0.send_calls), "no message was sent"))
        .judged("throughput divided by one write's", SAME);
    let clauses = [carried(&family, 1, "many writes carry"), carried(&family, 2, "one writev carries")];
    let clauses: Vec<String> = clauses.into_iter().flatten().collect();
    let text = format!(
        "{}. A verdict needs {}: the larger of 2 % and of what equal rows of its shape and setting differ by{}",
        capital(&clauses.join("; ")),
        band.margins(pairs.iter().map(|(_, one)| *one)),
        band.late.words()
    );
    let done = family.found().count() - family.count(Verdict::Undecided);
    Ok(say(decided(done, pairs.len()), text).with(evidence))
}

fn buffers(shapes: &Shapes<'_>) -> Answered {
    let Shapes { rows, band, .. } = shapes;
    let widest = band.widest().ok_or(
        "no shape was measured twice by one write in enough rounds, and without it nothing tells noise from a difference",
    )?;
    let mut text = format!(
        "For one write it cannot: its rows make the same call with the same 1500 bytes, and they differ by up to {} ({} of \
         {} after Holm beyond 2 %), which is the noise of this run{}",
        percent(widest),
        counted(band.apart, "pair"),
        band.pairs.len(),
        band.late.words()
    );
    let fewest = |case: &CaseSummary| {
        let same = rows.iter().copied().filter(|other| other.case.path == case.case.path);
        same.min_by_key(|other| other.case.pieces.count)
    };
    let several = rows.iter().copied().filter(|case| is(case, 1) || is(case, 2));
    let pairs = several.filter_map(|case| Some((case, fewest(case)?)));
    let pairs: Vec<Pair<'_>> = pairs.filter(|(case, fewest)| case.case.id != fewest.case.id).collect();
    let family = shapes.judged(&pairs);
    let evidence = family
        .table("buffers", "More and smaller buffers, paired by pass")
        .col("case", |row| name(row.0))
        .col("against", |row| row.1.case.pieces.to_string())
        .judged("throughput divided by that", SAME);
    // The extreme shape of each path.
    let mut by_path: Vec<(&CaseSummary, &CaseSummary, &crate::answers::evidence::Judged)> = Vec::new();
    for one in family.found() {
        match by_path.iter_mut().find(|(other, ..)| other.case.path == one.0.case.path) {
            Some(kept) if kept.0.case.pieces.count < one.0.case.pieces.count => *kept = one,
            Some(_) => {}
            None => by_path.push(one),
        }
    }
    for (case, fewest, judged) in &by_path {
        let name = name(case);
        let pieces = fewest.case.pieces;
        let verdict = verdict_word(judged.verdict, SAME);
        text += &format!("; {name} carries {} of {pieces}: {verdict}", judged.text());
    }
    let sure = by_path.iter().all(|(.., judged)| judged.confidence() == Confidence::Sure);
    Ok(say(sure_if(sure && !by_path.is_empty()), text).with(band.table.clone()).with(evidence))
}

fn nagle(shapes: &Shapes<'_>) -> Answered {
    let Shapes { part, rows, .. } = shapes;
    let without = |case: &CaseSummary| {
        let plain = |path: &PathName| path.clone().with(None);
        rows.iter().copied().find(|other| {
            setting(other) == "nodelay"
                && plain(&case.case.path) == plain(&other.case.path)
                && other.case.pieces == case.case.pieces
        })
    };
    let with = rows.iter().copied().filter(|case| setting(case) == "nagle");
    let pairs: Vec<Pair<'_>> = with.filter_map(|case| Some((case, without(case)?))).collect();
    if pairs.is_empty() {
        let cannot = crate::answers::answered::Cannot::from("no row was measured with it and without it");
        return Err(cannot.next("msgpath stream -x tcp:writes+nagle,tcp:writes+nodelay --pieces 15x100 -c 20000"));
    }
    let family = shapes.judged(&pairs);
    let segments = |case: &CaseSummary| case.per_message(sending(part, case).1.as_ref()?.data_segs_out);
    let evidence = family
        .table("nagle", "Nagle against TCP_NODELAY, paired by pass")
        .col("with Nagle", |row| name(row.0))
        .col("segments each", |row| number_or(segments(row.0), "only TCP tells"))
        .col("without", |row| number_or(segments(row.1), "only TCP tells"))
        .judged("throughput divided by that without", SAME);
    let mut text = format!(
        "Of the {} with it, {} faster than without it, {} slower, {} within the margin and {} not decided",
        counted(pairs.len(), "row"),
        family.count(Verdict::Better),
        family.count(Verdict::Worse),
        family.count(Verdict::Equivalent),
        family.count(Verdict::Undecided)
    );
    let many = family.all.iter().find(|(with, ..)| is(with, 1));
    if let Some((with, without, Some(judged))) = many {
        text += &format!("; {} carries {} of the same without it", name(with), judged.text());
        if let (Some(a), Some(b)) = (segments(with), segments(without)) {
            text += &format!(", in {} segments a message instead of {}", three_digits(a), three_digits(b));
        }
    }
    Ok(say(sure_if(family.count(Verdict::Undecided) == 0), text).with(evidence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::testing::{answer, of, shapes};
    use msgpath_analyse::Logs;

    const PATHS: [&str; 4] = ["tcp:writes+nagle", "tcp:writes+nodelay", "tcp:writev+nagle", "tcp:send+nagle"];

    fn made(rates: impl Fn(usize, u32) -> f64 + 'static) -> Page {
        let build = shapes(&PATHS, &[(15, 100), (60, 25)]).reference(1 << 17).rates(rates);
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
    fn the_time_of_a_lossy_path_ends_with_its_last_send_call() {
        let note = |paths: &[&str]| {
            let build = shapes(paths, &[(15, 100)]).reference(1 << 17);
            let page = of(&[("shapes", build.run(), Logs::default())], page);
            page.tables.iter().find(|table| table.name == "rows").unwrap().note.clone().unwrap()
        };
        assert!(note(&PATHS).starts_with("Time: the sender's clock until the last acknowledgement, all rounds"));
        let lossy = note(&["udp:writev", "udp:send"]);
        assert!(lossy.starts_with("Time: the sender's clock until its last send call returned, all rounds"), "{lossy}");
    }

    #[test]
    fn many_writes_that_carry_less_are_said_to() {
        // Cases 0 to 3 are many writes; the reference is case 8.
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
        assert!(bandwidth.text.contains("50.0 % (95 %: 50.0 %) of the reference"), "{}", bandwidth.text);
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
            shapes(&PATHS, &[(15, 100), (60, 25)]).reference(1 << 17).rates(rates)
        };
        let output = |run| {
            let page = of(&[("shapes", run, Logs::default())], page);
            let answer = answer(&page, "How does the throughput");
            assert!(!answer.text.contains("no wire"), "{}", answer.text);
            (answer.confidence, answer.text.clone())
        };
        // A lab that was there: nobody recorded its rate.
        let (confidence, text) = output(build().run());
        assert!(
            confidence == Confidence::CantTell && text.contains("7 of 8 rows lie within 5.00 % of the reference"),
            "{text}"
        );
        let mut run = build().run();
        msgpath_analyse::testing::route(&mut run, DeviceKind::Veth, "mp0", "10.0.0.2");
        let link = Some("rate=200000000,delay=1ms".into());
        run.header.plan.options.between = Some(msgpath_core::plan::Between { link, ..Default::default() });
        let (confidence, text) = output(run);
        assert!(
            confidence != Confidence::CantTell
                && text.contains(
                    "the link of mp0 has 200 Mbit/s, of which the fastest row uses 97.0 % and the reference \
                     throughput 97.0 %: 7 of 8 rows use"
                )
                && text.contains("so the link limits them"),
            "{text}"
        );
    }

    #[test]
    fn rounds_that_wait_for_an_acknowledgement_are_no_noise() {
        let build = shapes(&PATHS, &[(15, 100), (60, 25)]).reference(1 << 17).rates(|_, _| 4e9);
        let mut run = build.run();
        // One write of 60x25 (case 7) ends 40 ms later in every third pass.
        for round in run.rounds.iter_mut().filter(|round| round.case == 7 && round.pass % 3 == 0) {
            round.near_mut().elapsed_ns += 40_000_000;
            round.far_mut().elapsed_ns += 40_000_000;
        }
        let page = of(&[("shapes", run, Logs::default())], page);
        let (types, buffers) = (answer(&page, "Many writes"), answer(&page, "Does it matter"));
        assert!(types.text.contains("A verdict needs 2.00 %:"), "{}", types.text);
        assert!(buffers.text.contains("ended 32 to 48 ms later than usual, which fits Nagle"), "{}", buffers.text);
        assert!(!buffers.text.contains("noise of this machine"), "{}", buffers.text);
        // The rows themselves have all their rounds, and two tables say the same of them.
        let late = page.tables[0].rows.iter().find(|row| row[7] != Cell::text("0 of 40")).unwrap();
        let classic = classic_lines(&page);
        assert!(classic.iter().any(|row| row[3] == late[6]), "{late:?} {classic:?}");
    }

    #[test]
    fn rounds_that_are_late_without_nagle_as_well_are_noise() {
        let build = shapes(&PATHS, &[(15, 100), (60, 25)]).reference(1 << 17).rates(|_, _| 4e9);
        let mut run = build.run();
        // Cases 2 and 3 have TCP_NODELAY, 7 has not.
        let late = |round: &msgpath_core::schema::RoundRecord| match round.case {
            2 => round.pass < 7,
            7 => round.pass < 5,
            _ => false,
        };
        for round in run.rounds.iter_mut().filter(|round| late(round)) {
            round.near_mut().elapsed_ns += 40_000_000;
            round.far_mut().elapsed_ns += 40_000_000;
        }
        let page = of(&[("shapes", run, Logs::default())], page);
        let buffers = answer(&page, "Does it matter");
        assert!(
            buffers.text.contains(
                "5 of 240 rounds with Nagle's algorithm and 7 of 80 rounds with TCP_NODELAY ended 32 to 48 ms later than usual, \
                 which is not shown to come from Nagle's algorithm and is counted as noise"
            ),
            "{}",
            buffers.text
        );
        assert!(!buffers.text.contains("fits Nagle"), "{}", buffers.text);
    }

    #[test]
    fn no_row_uses_more_than_its_link() {
        let build = shapes(&PATHS, &[(15, 100), (60, 25)]).reference(1 << 17).rates(|_, _| 2.34e8);
        let mut run = build.run();
        msgpath_analyse::testing::route(&mut run, DeviceKind::Veth, "mp0", "10.0.0.2");
        let link = Some("rate=200M".into());
        run.header.plan.options.between = Some(msgpath_core::plan::Between { link, ..Default::default() });
        let page = of(&[("shapes", run, Logs::default())], page);
        let bandwidth = answer(&page, "How does the throughput");
        assert_eq!(bandwidth.confidence, Confidence::CantTell, "{}", bandwidth.text);
        assert!(
            bandwidth.text.contains("carries 117 % of that, which no link does")
                && !bandwidth.text.contains("limits them"),
            "{}",
            bandwidth.text
        );
    }

    #[test]
    fn rows_are_those_of_the_rounds_that_make_the_headline() {
        let mut run = shapes(&PATHS, &[(15, 100), (60, 25)]).reference(1 << 17).rates(|_, _| 4e9).run();
        run.rounds.iter_mut().for_each(|round| round.steal_ticks = Some(if round.pass < 10 { 20 } else { 0 }));
        let own = run.rounds.iter().filter(|round| round.case == 0 && round.pass >= 10);
        let calm: u64 = own.map(|round| round.near().elapsed_ns).sum();
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
