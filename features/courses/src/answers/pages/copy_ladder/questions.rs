//! The six questions of the lab, each answered from its rows, or not at all.

use msgpath_core::ZeroCopyCounts;
use msgpath_core::schema::{FAR, NEAR};
use msgpath_core::units::{self, Glyphs, three_digits};
use msgpath_stats::control::Control;
use msgpath_stats::crossover::CrossoverKind;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::verdict::Verdict;

use super::Ladder;
use super::tables::shown;
use crate::answers::ladder::{self, Bench, End, Event, METHODS, Row, Versus, find, sizes, threads};
use crate::answers::words::{capital, counted, weakest};
use crate::answers::{Answer, Cell, Part, Table};
use msgpath_analyse::summary::Confidence;

const G: Glyphs = Glyphs::Unicode;
const NOT_THERE: &str = "neither the grid nor a stream of it was measured";
/// Where zero copy can be seen: two machines with a NIC between them.
const REMOTE: &str = "msgpath compare -x tcp:flatten,tcp:sendmsg,tcp:zerocopy HOST --stream --pieces 8x128,8x8K,8x128K";

pub(super) fn all(ladder: &Ladder<'_>) -> Vec<Answer> {
    vec![
        why_not_always(ladder),
        which_cache(ladder),
        threads_and_caches(ladder),
        from_which_size(ladder, "At what size does one-copy (A2) beat two-copy (A1)?", "A2"),
        zero_copy_from(ladder),
        unexpected(ladder),
    ]
}

/// What the kernel said of the zero-copy sends of a run, all rows together.
pub(super) fn zero_copy(rows: &[Row<'_>]) -> Option<ZeroCopyCounts> {
    let mut sum = ZeroCopyCounts::default();
    let own = rows.iter().filter(|row| row.method.method == "zerocopy");
    own.filter_map(|row| row.case.copied.zerocopy).for_each(|counts| sum.add(&counts));
    (sum.copied + sum.zero_copied > 0).then_some(sum)
}

/// `100 %`.
fn share(counts: &ZeroCopyCounts) -> String {
    let answered = counts.copied + counts.zero_copied;
    let percent = counts.copied as f64 * 100.0 / answered as f64;
    // 99.99 % is not all.
    let text = if counts.copied < answered && percent > 99.9 { "more than 99.9".into() } else { three_digits(percent) };
    format!("{} %", text.trim_end_matches(".0"))
}

/// Ratios by what they mean, those with one thread.
struct Sorted {
    faster: Vec<Versus>,
    slower: Vec<Versus>,
    same: Vec<Versus>,
    open: Vec<Versus>,
    metric: &'static str,
    control: Control,
}

impl Sorted {
    fn of(part: Part<'_>, method: &str, base: &str) -> Self {
        let bench = Bench::of_run(part);
        let mut sorted = Self {
            faster: Vec::new(),
            slower: Vec::new(),
            same: Vec::new(),
            open: Vec::new(),
            metric: bench.metric_name(),
            control: bench.control,
        };
        let all = bench.versus(method, base);
        let fewest = all.iter().map(|versus| versus.threads).min();
        for versus in all.into_iter().filter(|versus| Some(versus.threads) == fewest) {
            match versus.verdict {
                Verdict::Better => sorted.faster.push(versus),
                Verdict::Worse => sorted.slower.push(versus),
                Verdict::Equivalent => sorted.same.push(versus),
                Verdict::Undecided => sorted.open.push(versus),
            }
        }
        sorted
    }

    fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    fn all(&self) -> impl Iterator<Item = &Versus> {
        [&self.faster, &self.slower, &self.same, &self.open].into_iter().flatten()
    }

    /// `faster at 4 KiB 0.900 (0.880 to 0.921); the same within 2 % at 64 B ...; not decided at ...`.
    fn words(&self) -> String {
        let same = format!("the same within {} % at", three_digits(self.control.margin() * 100.0));
        let groups = [
            ("faster at", &self.faster),
            ("slower at", &self.slower),
            (&*same, &self.same),
            ("not decided at", &self.open),
        ];
        let list = |all: &[Versus]| all.iter().map(Versus::words).collect::<Vec<_>>().join(", ");
        let groups = groups.into_iter().filter(|(_, all)| !all.is_empty());
        let text = groups.map(|(what, all)| format!("{what} {}", list(all))).collect::<Vec<_>>().join("; ");
        if self.control.failed { format!("{text}; {}", ladder::failed_control(&self.control)) } else { text }
    }

    /// How sure a sentence is that claims what was found.
    fn confidence(&self) -> Confidence {
        if self.control.failed { Confidence::Likely } else { Confidence::Sure }
    }

    /// Every size is shown not to be faster.
    fn excluded(&self) -> bool {
        self.faster.is_empty() && self.open.is_empty() && !self.is_empty()
    }
}

fn why_not_always(ladder: &Ladder<'_>) -> Answer {
    const QUESTION: &str = "Why is zero copy not always best?";
    let mut texts = Vec::new();
    let mut table = zero_copy_table();
    let (mut sure, mut against, mut decided) = (false, false, false);
    for (part, what) in ladder.parts() {
        let rows = ladder::rows(part);
        let Some(counts) = zero_copy(&rows) else { continue };
        let answered = counts.copied + counts.zero_copied;
        let sorted = Sorted::of(part, "zerocopy", "sendmsg");
        if sorted.is_empty() {
            continue;
        }
        let each = answered as f64 / counts.notifications.max(1) as f64;
        let avoided = match (counts.zero_copied, counts.copied) {
            (0, _) => "so that no copy was avoided and pinning pages and reading completions came on top",
            (_, 0) => {
                "so that the copy at the sender was avoided, for the price of pinning pages and reading completions"
            }
            _ => "so that a part of the copies was avoided, for the price of pinning pages and reading completions",
        };
        texts.push(capital(&format!(
            "{what} the kernel copied {} of {} answered zero-copy sends after all ({}), {avoided}: one completion for {} \
             sends. Against the same call without the flag (A2), by {}, A3: {}.",
            counts.copied,
            answered,
            share(&counts),
            three_digits(each),
            sorted.metric,
            sorted.words()
        )));
        sure |= !sorted.slower.is_empty() && !sorted.control.failed;
        against |= counts.zero_copied == 0 && !sorted.faster.is_empty();
        decided |= !sorted.slower.is_empty() || !sorted.faster.is_empty();
        zero_copy_rows(&mut table, &rows, &what);
    }
    if texts.is_empty() {
        return Answer::cannot(QUESTION, "no zero-copy send was answered and compared with the same send without it");
    }
    let confidence = match (sure, against, decided) {
        (true, false, _) => Confidence::Sure,
        (_, _, true) => Confidence::Likely,
        _ => Confidence::CantTell,
    };
    Answer::new(QUESTION, confidence, texts.join(" ")).with(table).next(REMOTE)
}

fn zero_copy_table() -> Table {
    let heads = [
        "run",
        "size",
        "threads",
        "sends",
        "notifications",
        "copied after all",
        "refused",
        "further calls a message",
        "CPU A2",
        "CPU A3",
    ];
    Table::new("zero-copy-cost", "What zero copy did and cost, per message of both ends", &heads)
        .note("Refused: sends without room for a completion (ENOBUFS), repeated. Further calls: reading completions.")
}

fn zero_copy_rows(table: &mut Table, rows: &[Row<'_>], what: &str) {
    for row in rows.iter().filter(|row| row.method.name == "A3") {
        let Some(counts) = row.case.copied.zerocopy else { continue };
        let (size, threads) = (row.case.case.size, row.case.case.threads);
        let further = row.case.end(NEAR).calls.other_calls + row.case.end(FAR).calls.other_calls;
        let plain = find(rows, "A2", size, threads);
        table.row([
            Cell::text(what),
            Cell::size(size),
            Cell::count(u64::from(threads)),
            Cell::count(counts.asked),
            Cell::count(counts.notifications),
            Cell::or_missing(row.copied_share(), Cell::Share, "no send was answered"),
            Cell::count(counts.no_buffers),
            Cell::or_missing(row.case.per_message(further), Cell::Number, "no message"),
            Cell::or_missing(plain.map(Row::cpu_ns), Cell::Time, "not measured"),
            Cell::Time(row.cpu_ns().into()),
        ]);
    }
}

/// Two methods at one size and end, by an event per message.
struct Reduced {
    name: &'static str,
    size: u64,
    end: End,
    from: Estimate,
    to: Estimate,
}

impl Reduced {
    fn change(&self) -> f64 {
        self.to.value / self.from.value - 1.0
    }

    /// The intervals do not touch.
    fn shown(&self) -> bool {
        self.to.high.zip(self.from.low).is_some_and(|(to, from)| to < from)
    }

    fn words(&self) -> String {
        format!(
            "{} at {} on the {} end, {} instead of {} a message ({})",
            self.name,
            units::size(self.size),
            self.end.name(),
            three_digits(self.to.value),
            three_digits(self.from.value),
            units::signed(100.0 * self.change(), |percent| format!("{percent:.0} %"))
        )
    }
}

/// A2 and A3 against A1 with the fewest threads.
fn reductions(rows: &[Row<'_>], event: Event) -> Vec<Reduced> {
    let Some(fewest) = threads(rows).first().copied() else { return Vec::new() };
    let mut all = Vec::new();
    for size in sizes(rows) {
        for end in End::BOTH {
            for name in ["A2", "A3"] {
                let of = |name| find(rows, name, size, fewest).and_then(|row| row.event(end, event).ok());
                if let (Some(from), Some(to)) = (of("A1"), of(name)) {
                    all.push(Reduced { name, size, end, from, to });
                }
            }
        }
    }
    all.retain(|one| one.from.value > 0.0);
    all
}

fn which_cache(ladder: &Ladder<'_>) -> Answer {
    const QUESTION: &str = "Which cache level shows the largest reduction?";
    let levels = [Event::L1, Event::LastLevel].map(|event| (event, reductions(&ladder.rows, event)));
    if levels.iter().all(|(_, all)| all.is_empty()) {
        return Answer::cannot(QUESTION, not_counted(&ladder.rows, Event::L1));
    }
    let heads = ["level", "end", "size", "method", "A1, a message", "the method, a message", "change", "shown"];
    let mut table = Table::new("cache-levels", "Misses per message against A1, fewest threads", &heads)
        .note("Shown: the intervals do not touch.");
    let (mut texts, mut best): (Vec<String>, Vec<f64>) = (Vec::new(), Vec::new());
    for (event, all) in &levels {
        for one in all {
            table.row([
                Cell::text(event.words()),
                Cell::text(one.end.name()),
                Cell::size(one.size),
                Cell::text(one.name),
                Cell::Number((&one.from).into()),
                Cell::Number((&one.to).into()),
                Cell::Share(one.change().into()),
                Cell::text(if one.shown() { "yes" } else { "no" }),
            ]);
        }
        let shown = all.iter().filter(|one| one.shown()).min_by(|a, b| a.change().total_cmp(&b.change()));
        texts.push(match shown {
            Some(one) => format!("{}: the largest reduction that is shown is that of {}", event.words(), one.words()),
            None if all.is_empty() => format!("{}: not counted", event.words()),
            None => format!("{}: no reduction is shown, every interval touches that of A1", event.words()),
        });
        best.extend(shown.map(Reduced::change));
    }
    let confidence = match best.len() {
        0 => Confidence::CantTell,
        1 => Confidence::Sure,
        _ => Confidence::Likely,
    };
    Answer::new(QUESTION, confidence, format!("{}.", texts.join("; "))).with(table)
}

fn not_counted(rows: &[Row<'_>], event: Event) -> String {
    let Some(row) = rows.first() else { return NOT_THERE.into() };
    let why = |end: End| row.event(end, event).err().unwrap_or_else(|| "counted".into());
    let (near, far) = (why(End::Near), why(End::Far));
    if near == far {
        format!("{} are not counted here: {near}", event.words())
    } else {
        format!("{} are not counted here: near end {near}; far end {far}", event.words())
    }
}

fn threads_and_caches(ladder: &Ladder<'_>) -> Answer {
    const QUESTION: &str = "How do threads interact with cache contention?";
    let rows = &ladder.rows;
    let all = threads(rows);
    let (Some(&few), Some(&most)) = (all.first(), all.last().filter(|_| all.len() > 1)) else {
        return Answer::cannot(QUESTION, "no two thread counts were measured");
    };
    let mut table = Table::new(
        "misses-by-threads",
        format!("Misses per message with {few} and with {most} threads"),
        &["event", "end", "size", "method", "fewest", "most", "change", "shown"],
    );
    let (mut more, mut fewer, mut unshown) = (Vec::new(), Vec::new(), 0);
    for event in [Event::L1, Event::LastLevel] {
        for size in sizes(rows) {
            for end in End::BOTH {
                for method in METHODS.iter().take(3) {
                    let of =
                        |threads| find(rows, method.name, size, threads).and_then(|row| row.event(end, event).ok());
                    let (Some(from), Some(to)) = (of(few), of(most)) else { continue };
                    let rises = to.low.zip(from.high).is_some_and(|(to, from)| to > from);
                    let falls = to.high.zip(from.low).is_some_and(|(to, from)| to < from);
                    let one = Reduced { name: method.name, size, end, from, to };
                    table.row([
                        Cell::text(event.words()),
                        Cell::text(end.name()),
                        Cell::size(size),
                        Cell::text(method.name),
                        Cell::Number((&one.from).into()),
                        Cell::Number((&one.to).into()),
                        Cell::Share(one.change().into()),
                        Cell::text(if rises || falls { "yes" } else { "no" }),
                    ]);
                    match (rises, falls) {
                        (true, _) => more.push((event, one)),
                        (_, true) => fewer.push((event, one)),
                        _ => unshown += 1,
                    }
                }
            }
        }
    }
    let crowded = rows.iter().find(|row| row.case.case.threads == most).and_then(Row::oversubscribed);
    let crowded = crowded.map_or_else(String::new, |why| {
        format!(" With {most} threads the run is {why}, so these misses are also those of switching between threads.")
    });
    if table.rows.is_empty() {
        let answer = Answer::cannot(QUESTION, not_counted(rows, Event::L1));
        return Answer { text: format!("{}.{crowded}", answer.text), ..answer };
    }
    let largest = |all: &[(Event, Reduced)]| {
        let most = all.iter().max_by(|a, b| a.1.change().abs().total_cmp(&b.1.change().abs()))?;
        Some(format!(", most for {}, {}", most.0.words(), most.1.words()))
    };
    let text = format!(
        "From {few} to {most} threads misses per message rise in {} rows{}, fall in {}{}, and in {unshown} no change is \
         shown.{crowded}",
        more.len(),
        largest(&more).unwrap_or_default(),
        fewer.len(),
        largest(&fewer).unwrap_or_default()
    );
    let confidence = match (more.is_empty() && fewer.is_empty(), crowded.is_empty()) {
        (true, _) => Confidence::CantTell,
        (false, true) => Confidence::Sure,
        (false, false) => Confidence::Likely,
    };
    Answer::new(QUESTION, confidence, text).with(table)
}

fn from_which_size(ladder: &Ladder<'_>, question: &str, name: &str) -> Answer {
    let method = METHODS.iter().find(|method| method.name == name).expect("a method of the lab").method;
    let (mut texts, mut excluded, mut shown_any, mut least) = (Vec::new(), true, false, Confidence::Sure);
    let mut table = Table::new(
        &format!("{}-against-a1-sizes", name.to_lowercase()),
        format!("{name} against A1, fewest threads"),
        &["run", "size", "ratio", "by", "against A1 it is"],
    );
    for (part, what) in ladder.parts() {
        let sorted = Sorted::of(part, method, "flatten");
        if sorted.is_empty() {
            continue;
        }
        excluded &= sorted.excluded();
        shown_any |= !sorted.faster.is_empty();
        least = weakest([least, sorted.confidence()]);
        let lead = if sorted.excluded() {
            format!("{name} is faster than A1 at no size measured")
        } else if sorted.faster.is_empty() {
            format!("{name} is shown to be faster than A1 at no size measured")
        } else {
            format!("{name} is compared with A1")
        };
        let output = format!("{what}, by {}, {lead}: {}{}.", sorted.metric, sorted.words(), crossing(part, method));
        texts.push(capital(&output));
        for versus in sorted.all() {
            table.row([
                Cell::text(&what),
                Cell::size(versus.size),
                Cell::Ratio(versus.value()),
                Cell::text(sorted.metric),
                Cell::text(shown(versus.verdict)),
            ]);
        }
    }
    if texts.is_empty() {
        return Answer::cannot(question, NOT_THERE);
    }
    let confidence = if shown_any || excluded { least } else { Confidence::CantTell };
    let answer = Answer::new(question, confidence, texts.join(" ")).with(table);
    match confidence {
        Confidence::CantTell => answer.next("msgpath preset copy-ladder -- --rounds 40 --threads 1"),
        _ => answer,
    }
}

/// Where the line of sizes crosses, with one thread.
fn crossing(part: Part<'_>, method: &str) -> String {
    let Some(comparison) = part.summary.comparison.as_ref().filter(|one| one.baseline.method == "flatten") else {
        return String::new();
    };
    let own = comparison.crossovers.iter().find(|one| one.path.method == method && one.threads == 1);
    let own = own.map(|one| &one.crossing);
    let turn = match own.map(|one| one.kind) {
        Some(CrossoverKind::At | CrossoverKind::Several) => "faster from",
        Some(CrossoverKind::FasterBelow) => "slower from",
        _ => return String::new(),
    };
    let at = own.and_then(ladder::crossing_at);
    at.map_or_else(String::new, |at| format!("; the line of all sizes is {turn} about {at}"))
}

fn zero_copy_from(ladder: &Ladder<'_>) -> Answer {
    const QUESTION: &str = "At what size does zero-copy (A3) beat two-copy (A1)?";
    let seen = from_which_size(ladder, QUESTION, "A3");
    let mut sum = ZeroCopyCounts::default();
    ladder.parts().filter_map(|(part, _)| zero_copy(&ladder::rows(part))).for_each(|counts| sum.add(&counts));
    let answered = sum.copied + sum.zero_copied;
    match (answered, sum.zero_copied) {
        (0, _) => Answer::cannot(QUESTION, "no zero-copy send was answered"),
        (_, 0) => {
            let because = format!(
                "the kernel copied all {} answered zero-copy sends after all (100 %): whatever is faster or slower here, it \
                 does not show that a copy was avoided. What was seen: {}",
                answered, seen.text
            );
            Answer { evidence: seen.evidence, ..Answer::cannot(QUESTION, because) }.next(REMOTE)
        }
        _ => seen,
    }
}

/// What is expected of rows, and those that are not so.
#[derive(Default)]
struct Checked {
    checks: u64,
    found: Vec<String>,
    rows: Vec<Vec<Cell>>,
    /// Rows that were not measured as they were meant to be: the measurement is odd, not the path.
    own: Vec<String>,
}

impl Checked {
    /// A check of the measurement itself.
    fn measured(&mut self, row: &Row<'_>, expected: &str, seen: Option<String>) {
        self.own.extend(seen.map(|seen| sentence(row, expected, &seen)));
    }

    /// A check of what the paths do.
    fn check(&mut self, row: &Row<'_>, expected: &str, seen: impl FnOnce() -> Option<String>) {
        self.checks += 1;
        let Some(seen) = seen() else { return };
        let case = &row.case.case;
        self.found.push(sentence(row, expected, &seen));
        let switches = row.case.end(NEAR).cost.voluntary + row.case.end(NEAR).cost.involuntary;
        let cycles =
            |end| row.event(end, Event::Cycles).map_or_else(Cell::missing, |each| Cell::Number((&each).into()));
        self.rows.push(vec![
            Cell::text(row.part.name),
            Cell::size(case.size),
            Cell::count(u64::from(case.threads)),
            Cell::text(row.method.name),
            Cell::text(expected),
            Cell::text(seen),
            Cell::or_missing(row.send_calls(), Cell::Number, "no message"),
            Cell::Time(row.cpu_ns().into()),
            Cell::Number(switches.into()),
            cycles(End::Near),
            row.case.end(NEAR).tcp.map_or_else(|| Cell::missing("no TCP_INFO"), |tcp| Cell::count(tcp.total_retrans)),
        ]);
    }
}

fn sentence(row: &Row<'_>, expected: &str, seen: &str) -> String {
    let case = &row.case.case;
    let manner = ladder::manner(&row.part.run.header).unwrap_or("an unknown path");
    let (name, bytes) = (row.method.name, units::size(case.size));
    let threads = counted(case.threads as usize, "thread");
    format!("{name} at {bytes}, {threads} ({} over {manner}): expected {expected}, seen {seen}", row.part.name)
}

fn unexpected(ladder: &Ladder<'_>) -> Answer {
    const QUESTION: &str = "One unexpected result?";
    let mut checked = Checked::default();
    let mut measured = 0;
    for (part, _) in ladder.parts() {
        let rows = ladder::rows(part);
        measured += rows.len();
        bands(&mut checked, &rows);
        orders(&mut checked, part, &rows);
    }
    if measured == 0 {
        return Answer::cannot(QUESTION, NOT_THERE);
    }
    let Checked { checks, found, rows, own } = checked;
    let of = format!("{} checks of {measured} rows", checks);
    let own = match &own[..] {
        [] => String::new(),
        [first, ..] => format!(
            " Not counted {} {} in which the measurement is not what it was meant to be: {first}.",
            if own.len() == 1 { "is" } else { "are" },
            counted(own.len(), "check")
        ),
    };
    if found.is_empty() {
        let text = format!(
            "There is none: no row lies outside of what is expected of it ({of}: more bytes take longer and carry more, eight \
             calls are not faster than one, a copy more is not faster, zero copy that was copied is not faster than the same \
             call without it).{own}"
        );
        return Answer::new(QUESTION, Confidence::Likely, text);
    }
    let heads = [
        "run",
        "size",
        "threads",
        "method",
        "expected",
        "seen",
        "send calls",
        "CPU of both ends",
        "switches, near",
        "cycles, near",
        "retransmitted",
    ];
    let mut table =
        Table::new("unexpected", "Rows outside of what is expected of them, with counters per message", &heads);
    rows.into_iter().for_each(|row| table.row(row));
    let more = match found.len() - 1 {
        0 => String::new(),
        more => format!(" {more} more in the table."),
    };
    let text = format!("{} of {of} came out otherwise. {}.{more}{own}", found.len(), capital(&found[0]));
    Answer::new(QUESTION, Confidence::Sure, text).with(table)
}

/// What a single row must be.
fn bands(checked: &mut Checked, rows: &[Row<'_>]) {
    for row in rows {
        let kept = row.kept_in_flight();
        if let Some(implied) = row.in_flight() {
            let expected = format!("{} in flight", three_digits(kept));
            let off = (implied / kept - 1.0).abs() > 0.15;
            checked.measured(row, &expected, off.then(|| format!("{} implied", three_digits(implied))));
        }
        if let Some(calls) = row.send_calls() {
            let pieces = f64::from(row.case.case.pieces.count);
            let expected = if row.method.method == "writes" { pieces } else { 1.0 };
            let text = format!("{} send calls a message", three_digits(expected));
            let off = (calls / expected - 1.0).abs() > 0.02;
            checked.measured(row, &text, off.then(|| format!("{} send calls", three_digits(calls))));
        }
    }
    // More bytes take longer and carry more, size by size of one method and thread count.
    for row in rows {
        let larger = |other: &&Row<'_>| {
            other.method == row.method
                && other.case.case.threads == row.case.case.threads
                && other.case.case.size > row.case.case.size
        };
        let Some(next) = rows.iter().filter(larger).min_by_key(|other| other.case.case.size) else { continue };
        let than = units::size(row.case.case.size);
        if let (Some(small), Some(large)) = (row.p50(), next.p50()) {
            checked.check(next, &format!("a longer round trip than at {than}"), || {
                let (low, high) = (small.low?, large.high?);
                (high < low).then(|| format!("{} against {}", G.time(large.value), G.time(small.value)))
            });
        }
        if let (Some(small), Some(large)) = (row.bits(), next.bits()) {
            checked.check(next, &format!("more throughput than at {than}"), || {
                let (low, high) = (small.low?, large.high?);
                let bits = |bits| units::bits_per_second(bits, units::BitUnits::Si);
                (high < low).then(|| format!("{} against {}", bits(large.value), bits(small.value)))
            });
        }
    }
}

/// What one method must be against another.
fn orders(checked: &mut Checked, part: Part<'_>, rows: &[Row<'_>]) {
    let bench = Bench::of_run(part);
    let all_copied = zero_copy(rows).is_some_and(|counts| counts.zero_copied == 0);
    let mut orders = vec![
        ("contiguous", "send", "flatten", Verdict::Worse, "not slower than with a copy more (A1)"),
        ("A1", "flatten", "writes", Verdict::Worse, "not slower than eight calls"),
    ];
    if all_copied {
        orders.push((
            "A3",
            "zerocopy",
            "sendmsg",
            Verdict::Better,
            "not faster than A2, since all was copied after all",
        ));
    }
    for (name, method, base, against, expected) in orders {
        for versus in bench.versus(method, base) {
            let Some(row) = find(rows, name, versus.size, versus.threads) else { continue };
            checked.check(row, expected, || {
                (versus.verdict == against).then(|| format!("{} of it by {}", versus.words(), bench.metric_name()))
            });
        }
    }
}
