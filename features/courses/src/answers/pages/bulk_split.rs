//! The page of the preset `bulk-split`: how should one mebibyte be cut?

use msgpath_analyse::summary::CaseSummary;
use msgpath_core::plan::Metric;
use msgpath_core::units::size;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::paired::Series;
use msgpath_stats::verdict::{LEAST_MARGIN, Verdict};

use crate::answers::answered::{Answered, answers, say, sure_if};
use crate::answers::columns::{ratio_or, table, time_or};
use crate::answers::evidence::{Verdicts, above, below, extremes, judged, over_passes, unpaired};
use crate::answers::words::{bits, decided, percent, range, time, verdict_word};
use crate::answers::{Cell, Page, Part, Table, part};

/// What is cut, bytes.
const WHOLE: f64 = 1_048_576.0;

type Ask = fn(&Runs<'_>) -> Answered;
const QUESTIONS: &[(&str, Ask)] = &[
    ("How should 1 MB be cut?", cut),
    ("What does an acknowledgement for every piece cost, and does its size matter?", acknowledge),
    ("Do the sender's and the receiver's clock agree?", clocks),
];

/// The runs of the preset, as far as they are there.
struct Runs<'a> {
    flow: Option<Part<'a>>,
    whole: Option<Part<'a>>,
    one: Option<Part<'a>>,
    eight: Option<Part<'a>>,
}

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let runs = Runs {
        flow: part(parts, "flow"),
        whole: part(parts, "whole-8"),
        one: part(parts, "each-1"),
        eight: part(parts, "each-8"),
    };
    let tables = runs.flow.iter().map(|flow| rates(flow, &runs)).collect();
    Page { tables, answers: answers(&runs, QUESTIONS), ..Page::default() }
}

/// `256x4096`.
fn split(bytes: u64) -> String {
    format!("{}x{bytes}", WHOLE as u64 / bytes.max(1))
}

/// Time of one mebibyte by pass where every piece is answered: so many mean round trips, ns.
fn answered(part: &Part<'_>, bytes: u64) -> Option<Series> {
    let case = part.find(|case| case.case.size == bytes)?;
    let pieces = WHOLE / bytes as f64;
    Some(part.by_pass(Metric::Mean, &case.case).into_iter().map(|(pass, ns)| (pass, ns * pieces)).collect())
}

/// Time of one mebibyte by pass in a flow, ns.
fn flowing(part: &Part<'_>, case: &CaseSummary) -> Series {
    part.by_pass(Metric::Throughput, &case.case).into_iter().map(|(pass, bits)| (pass, WHOLE * 8e9 / bits)).collect()
}

fn rates(flow: &Part<'_>, runs: &Runs<'_>) -> Table {
    let mean = |series: Option<Series>| over_passes(&series?).map(|mean| mean.value);
    let whole = |case: &CaseSummary| {
        let part = runs.whole.as_ref()?;
        let whole = part.find(|whole| u64::from(whole.case.pieces.size) == case.case.size)?;
        Some(part.by_pass(Metric::Mean, &whole.case))
    };
    let each = |part: &Option<Part<'_>>, case: &CaseSummary| {
        time_or(mean(part.as_ref().and_then(|part| answered(part, case.case.size))), "not measured")
    };
    let rows = flow.measured().filter_map(|case| Some((case, case.throughput.as_ref()?)));
    table("split", "One mebibyte, cut in different ways", rows)
        .col("1 MiB as", |(case, _)| split(case.case.size))
        .col("flow, receiver", |(_, of)| Cell::Bits(of.receiver_bits.value.into()))
        .col("flow, sender", |(_, of)| Cell::Bits(of.sender_bits.value.into()))
        .col("1 MiB in a flow", |(case, _)| time_or(mean(Some(flowing(flow, case))), "no round"))
        .col("whole, 8 B back", |(case, _)| time_or(mean(whole(case)), "1024 at most"))
        .col("each answered by 1 B", |(case, _)| each(&runs.one, case))
        .col("each answered by 8 B", |(case, _)| each(&runs.eight, case))
        .note(
            "A flow is acknowledged at the end of a round of many pieces; its mebibyte is the time that 1 MiB takes at that \
             rate. 'Whole' is a message of 1 MiB in so many writes, until its 8 bytes of answer are there. The last two \
             columns are so many mean round trips. A message has at most 1024 pieces (IOV_MAX).",
        )
}

fn cut(runs: &Runs<'_>) -> Answered {
    let flow = runs.flow.as_ref().ok_or("the flow was not measured")?;
    let mut cases: Vec<&CaseSummary> = flow.measured().filter(|case| case.throughput.is_some()).collect();
    cases.sort_by_key(|case| std::cmp::Reverse(case.case.size));
    let [largest, rest @ ..] = &cases[..] else { return Err("fewer than two sizes of a piece were measured".into()) };
    if rest.is_empty() {
        return Err("fewer than two sizes of a piece were measured".into());
    }
    let pairs: Vec<_> = rest.iter().map(|case| (*case, *largest)).collect();
    let family = judged(flow, Metric::Throughput, &pairs);
    let evidence = family
        .table("cut", "Against the largest piece, paired by pass")
        .col("1 MiB as", |row| split(row.0.case.size))
        .col("pieces of", |row| Cell::size(row.0.case.size))
        .judged("throughput divided by that of the largest", "the same");
    let (smallest, _, last) = family.found().last().ok_or("the sizes have no pass in common")?;
    let rate = largest.throughput.as_ref().map_or_else(String::new, |of| range(&of.receiver_bits, bits));
    let all = family.found().count();
    let number = |verdict: Verdict| family.count(verdict);
    let (slower, faster) = (number(Verdict::Worse), number(Verdict::Better));
    let advice = if slower == all {
        "Into the largest pieces that were tried"
    } else if faster > 0 {
        "Not into the largest pieces that were tried"
    } else if number(Verdict::Undecided) > 0 {
        "Into large pieces; these rounds do not decide between all of them"
    } else {
        "Into large pieces; the largest ones no longer differ"
    };
    let text = format!(
        "{advice}: pieces of {} carry {rate}; of the {all} smaller sizes {slower} are slower, {faster} faster, {} the same and \
         {} not decided; pieces of {} carry {} of it ({}). Each piece is a system call of its own",
        size(largest.case.size),
        number(Verdict::Equivalent),
        number(Verdict::Undecided),
        size(smallest.case.size),
        last.text(),
        verdict_word(last.verdict, "the same")
    );
    let undecided = family.all.len() - all + number(Verdict::Undecided);
    Ok(say(decided(family.all.len() - undecided, family.all.len()), text).with(evidence))
}

fn acknowledge(runs: &Runs<'_>) -> Answered {
    let both = runs.flow.as_ref().zip(runs.one.as_ref());
    let (flow, one) = both.ok_or("the flow, or the run with an answer to every piece, is missing")?;
    let of = |case: &CaseSummary| {
        let bytes = case.case.size;
        let by_one = answered(one, bytes)?;
        let cost = unpaired(&by_one, &flowing(flow, case));
        let by_eight = runs.eight.as_ref().and_then(|part| unpaired(&answered(part, bytes)?, &by_one));
        Some((bytes, cost, by_eight))
    };
    let rows: Vec<(u64, Option<Estimate>, Option<Estimate>)> = flow.measured().filter_map(of).collect();
    let costs: Vec<(u64, &Estimate)> =
        rows.iter().filter_map(|(bytes, cost, _)| Some((*bytes, cost.as_ref()?))).collect();
    let (least, most) = extremes(&costs, |(_, cost)| cost.value).ok_or("the runs have no piece size in common")?;
    let times = |(bytes, cost): &(u64, &Estimate)| {
        format!("{} times for pieces of {}", range(*cost, |cost| format!("{cost:.1}")), size(*bytes))
    };
    let mut text = format!(
        "An answer to every piece makes the mebibyte take {} to {} as long as in a flow: with one piece in flight at a time \
         each one waits for a whole round trip",
        times(least),
        times(most)
    );
    let sizes: Vec<&Estimate> = rows.iter().filter_map(|(.., size)| size.as_ref()).collect();
    let mut open = 0;
    if !sizes.is_empty() {
        let (most, least) = (1.0 + LEAST_MARGIN, 1.0 / (1.0 + LEAST_MARGIN));
        let apart = sizes.iter().filter(|ratio| above(**ratio, most) || below(**ratio, least)).count();
        let same = sizes.iter().filter(|ratio| above(**ratio, least) && below(**ratio, most)).count();
        open = sizes.len() - apart - same;
        text += &format!(
            ". 8 bytes of answer instead of 1 change it by more than 2 % at {apart} of {} sizes, by less at {same}, and at \
             {open} the intervals do not decide",
            sizes.len()
        );
    }
    let surely = open == 0 && costs.iter().all(|(_, cost)| above(*cost, 1.0));
    let evidence = table("each-answered", "Times of one mebibyte; the runs were made one after the other", &rows)
        .col("1 MiB as", |(bytes, ..)| split(*bytes))
        .col("each answered divided by flow", |(_, cost, _)| ratio_or(cost.as_ref(), "too few rounds"))
        .col("8 B of answer divided by 1 B", |(.., by)| ratio_or(by.as_ref(), "not measured"));
    Ok(say(sure_if(surely), text).with(evidence))
}

fn clocks(runs: &Runs<'_>) -> Answered {
    let flow = runs.flow.as_ref().ok_or("the flow was not measured")?;
    let off = |case: &CaseSummary| {
        let of = case.throughput.as_ref()?;
        Some((case.case.size, of.sender_bits.value / of.receiver_bits.value - 1.0, of.sender_ns - of.receiver_ns))
    };
    let all: Vec<(u64, f64, f64)> = flow.measured().filter_map(off).collect();
    let (_, widest) = extremes(&all, |(_, apart, _)| apart.abs()).ok_or("no flow was counted")?;
    let text = format!(
        "At most {} apart (pieces of {}, {} a round): the sender's clock runs until the acknowledgement at the end, so what \
         still lies in its buffer counts. The receiver's is the one that is printed",
        percent(widest.1.abs()),
        size(widest.0),
        time(widest.2.abs())
    );
    Ok(say(sure_if(widest.1.abs() < 0.01), text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::testing::{answer, of};
    use msgpath_analyse::Logs;
    use msgpath_analyse::summary::Confidence;
    use msgpath_analyse::testing::Build;

    fn made(rate: impl Fn(usize, u32) -> f64 + 'static) -> Page {
        let flow = Build::stream(&["tcp:send"], &[4096, 1024, 128]).rates(rate).run();
        let each = Build::echo(&["tcp:send"], &[4096, 1024, 128]);
        of(
            &[
                ("flow", flow, Logs::default()),
                ("each-1", each.run(), Logs::default()),
                ("each-8", each.factor(|_| 1.5).run(), Logs::default()),
            ],
            page,
        )
    }

    #[test]
    fn small_pieces_that_carry_less_are_advised_against() {
        let page = made(|case, _| [8e9, 2e9, 2.5e8][case]);
        let cut = answer(&page, "How should 1 MB");
        assert!(
            cut.text.starts_with("Into the largest pieces that were tried: pieces of 4 KiB carry 8.00 Gbit/s"),
            "{}",
            cut.text
        );
        assert!(cut.text.contains("pieces of 128 B carry 0.031"), "{}", cut.text);
        // 20 µs a round trip, 256 of them a mebibyte: 5.1 ms against 1.05 ms.
        let answers = answer(&page, "What does an acknowledgement");
        assert!(
            answers.text.contains("8 bytes of answer instead of 1 change it by more than 2 % at 3 of 3 sizes"),
            "{}",
            answers.text
        );
        assert_eq!(answers.confidence, Confidence::Sure);
        assert_eq!(page.tables[0].rows.len(), 3);
    }

    #[test]
    fn what_is_not_shown_is_not_called_none() {
        let flow = Build::stream(&["tcp:send"], &[4096, 1024, 128]).rates(|case, _| [8e9, 2e9, 2.5e8][case]).run();
        let each = Build::echo(&["tcp:send"], &[4096, 1024, 128]);
        let quiet = each.run();
        let page = of(
            &[
                ("flow", flow, Logs::default()),
                ("each-1", quiet.clone(), Logs::default()),
                ("each-8", each.noise(0.3).run(), Logs::default()),
            ],
            page,
        );
        let answers = answer(&page, "What does an acknowledgement");
        assert!(
            answers.text.contains("more than 2 % at 0 of 3 sizes, by less at 0, and at 3 the intervals do not decide"),
            "{}",
            answers.text
        );
        assert_eq!(answers.confidence, Confidence::Likely);
    }

    #[test]
    fn pieces_that_carry_the_same_are_not_ranked() {
        let cut = made(|_, _| 8e9);
        let cut = answer(&cut, "How should 1 MB");
        assert!(cut.text.starts_with("Into large pieces; the largest ones no longer differ"), "{}", cut.text);
        assert!(cut.text.contains("0 are slower, 0 faster, 2 the same"), "{}", cut.text);
    }
}
