//! The page of the preset `bulk-split`: how should one mebibyte be cut?

use msgpath_core::plan::Metric;
use msgpath_core::units::size;
use msgpath_stats::estimate::{Estimate, log_estimate};
use msgpath_stats::paired::Series;
use msgpath_stats::verdict::{LEAST_MARGIN, Verdict};

use crate::answers::evidence::{Judged, bits, by_pass, judged, measured, range, share, time, unpaired};
use crate::answers::{Answer, Cell, Page, Part, Table, part};
use crate::summary::{CaseSummary, Confidence};

/// What is cut, bytes.
const WHOLE: f64 = 1_048_576.0;

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let of = |name: &str| part(parts, name);
    let (flow, whole) = (of("flow"), of("whole-8"));
    let (one, eight) = (of("each-1"), of("each-8"));
    let tables = flow.iter().map(|flow| rates(flow, whole.as_ref(), one.as_ref(), eight.as_ref())).collect();
    let answers =
        vec![cut(flow.as_ref()), acknowledge(flow.as_ref(), one.as_ref(), eight.as_ref()), clocks(flow.as_ref())];
    Page { tables, answers, ..Page::default() }
}

/// `256x4096`.
fn split(bytes: u64) -> String {
    format!("{}x{bytes}", WHOLE as u64 / bytes.max(1))
}

/// Time of one mebibyte by pass where every piece is answered: so many mean round trips, ns.
fn answered(part: &Part<'_>, case: &CaseSummary) -> Series {
    let pieces = WHOLE / case.case.size as f64;
    by_pass(part, Metric::Mean, &case.case).into_iter().map(|(pass, ns)| (pass, ns * pieces)).collect()
}

/// Time of one mebibyte by pass in a flow, ns.
fn flowing(part: &Part<'_>, case: &CaseSummary) -> Series {
    by_pass(part, Metric::Throughput, &case.case).into_iter().map(|(pass, bits)| (pass, WHOLE * 8e9 / bits)).collect()
}

fn estimate(series: &Series) -> Option<Estimate> {
    log_estimate(&series.values().copied().collect::<Vec<_>>())
}

fn sized<'a>(part: &Part<'a>, bytes: u64) -> Option<&'a CaseSummary> {
    measured(part).find(|case| case.case.size == bytes)
}

fn rates(flow: &Part<'_>, whole: Option<&Part<'_>>, one: Option<&Part<'_>>, eight: Option<&Part<'_>>) -> Table {
    let columns = [
        "1 MiB as",
        "flow, receiver",
        "flow, sender",
        "1 MiB in a flow",
        "whole, 8 B back",
        "each answered by 1 B",
        "each answered by 8 B",
    ];
    let mut table = Table::new("split", "One mebibyte, cut in different ways", &columns);
    for case in measured(flow) {
        let Some(of) = &case.throughput else { continue };
        let bytes = case.case.size;
        let whole = whole.and_then(|part| {
            let case = measured(part).find(|case| u64::from(case.case.pieces.size) == bytes)?;
            estimate(&by_pass(part, Metric::Mean, &case.case))
        });
        let each = |part: Option<&Part<'_>>| part.and_then(|part| estimate(&answered(part, sized(part, bytes)?)));
        table.row([
            Cell::text(split(bytes)),
            Cell::Bits(of.receiver_bits.value.into()),
            Cell::Bits(of.sender_bits.value.into()),
            Cell::or_missing(estimate(&flowing(flow, case)).map(|flow| flow.value), Cell::Time, "no round"),
            Cell::or_missing(whole.map(|whole| whole.value), Cell::Time, "1024 at most"),
            Cell::or_missing(each(one).map(|each| each.value), Cell::Time, "not measured"),
            Cell::or_missing(each(eight).map(|each| each.value), Cell::Time, "not measured"),
        ]);
    }
    table.note(
        "A flow is acknowledged at the end of a round of many pieces; its mebibyte is the time that 1 MiB takes at that rate. \
         'Whole' is a message of 1 MiB in so many writes, until its 8 bytes of answer are there. The last two columns are so \
         many mean round trips. A message has at most 1024 pieces (IOV_MAX).",
    )
}

fn cut(flow: Option<&Part<'_>>) -> Answer {
    let question = "How should 1 MB be cut?";
    let Some(flow) = flow else { return Answer::cannot(question, "the flow was not measured") };
    let mut cases: Vec<&CaseSummary> = measured(flow).filter(|case| case.throughput.is_some()).collect();
    cases.sort_by_key(|case| std::cmp::Reverse(case.case.size));
    let Some((largest, rest)) = cases.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        return Answer::cannot(question, "fewer than two sizes of a piece were measured");
    };
    let pairs: Vec<(&CaseSummary, &CaseSummary)> = rest.iter().map(|case| (*case, *largest)).collect();
    let found = judged(flow, Metric::Throughput, LEAST_MARGIN, &pairs);
    let columns = ["1 MiB as", "pieces of", "throughput divided by that of the largest", "verdict"];
    let mut table = Table::new("cut", "Against the largest piece, paired by pass", &columns);
    let word = |verdict: Verdict| match verdict {
        Verdict::Better => "faster",
        Verdict::Worse => "slower",
        Verdict::Equivalent => "the same",
        Verdict::Undecided => "not decided",
    };
    for ((case, _), judged) in pairs.iter().zip(&found) {
        table.row([
            Cell::text(split(case.case.size)),
            Cell::size(case.case.size),
            Cell::or_missing(judged.as_ref().map(|judged| &judged.ratio), Cell::Ratio, "too few rounds"),
            Cell::text(judged.as_ref().map_or("-", |judged| word(judged.verdict))),
        ]);
    }
    let told: Vec<(&CaseSummary, &Judged)> =
        rest.iter().copied().zip(&found).filter_map(|(case, judged)| Some((case, judged.as_ref()?))).collect();
    let number = |verdict: Verdict| told.iter().filter(|(_, judged)| judged.verdict == verdict).count();
    let Some((smallest, last)) = told.last() else {
        return Answer::cannot(question, "the sizes have no pass in common");
    };
    let rate = largest.throughput.as_ref().map_or_else(String::new, |of| range(&of.receiver_bits, &bits));
    let (slower, faster) = (number(Verdict::Worse), number(Verdict::Better));
    let advice = if slower == told.len() {
        "Into the largest pieces that were tried"
    } else if faster > 0 {
        "Not into the largest pieces that were tried"
    } else if number(Verdict::Undecided) > 0 {
        "Into large pieces; these rounds do not decide between all of them"
    } else {
        "Into large pieces; the largest ones no longer differ"
    };
    let text = format!(
        "{advice}: pieces of {} carry {rate}; of the {} smaller sizes {slower} are slower, {faster} faster, {} the same and {} \
         not decided; pieces of {} carry {} of it ({}). Each piece is a system call of its own",
        size(largest.case.size),
        told.len(),
        number(Verdict::Equivalent),
        number(Verdict::Undecided),
        size(smallest.case.size),
        last.text(),
        word(last.verdict)
    );
    let confidence = if last.verdict == Verdict::Undecided { Confidence::CantTell } else { Confidence::Sure };
    Answer::new(question, confidence, text + ".").with(table)
}

fn acknowledge(flow: Option<&Part<'_>>, one: Option<&Part<'_>>, eight: Option<&Part<'_>>) -> Answer {
    let question = "What does an acknowledgement for every piece cost, and does its size matter?";
    let (Some(flow), Some(one)) = (flow, one) else {
        return Answer::cannot(question, "the flow, or the run with an answer to every piece, is missing");
    };
    let columns = ["1 MiB as", "each answered divided by flow", "8 B of answer divided by 1 B"];
    let mut table =
        Table::new("each-answered", "Times of one mebibyte; the runs were made one after the other", &columns);
    let (mut costs, mut sizes) = (Vec::new(), Vec::new());
    for case in measured(flow) {
        let bytes = case.case.size;
        let Some(answered_case) = sized(one, bytes) else { continue };
        let by_one = answered(one, answered_case);
        let cost = unpaired(&by_one, &flowing(flow, case));
        let by_eight = eight.and_then(|part| unpaired(&answered(part, sized(part, bytes)?), &by_one));
        table.row([
            Cell::text(split(bytes)),
            Cell::or_missing(cost.as_ref(), Cell::Ratio, "too few rounds"),
            Cell::or_missing(by_eight.as_ref(), Cell::Ratio, "not measured"),
        ]);
        costs.extend(cost.map(|cost| (bytes, cost)));
        sizes.extend(by_eight);
    }
    let by = |a: &&(u64, Estimate), b: &&(u64, Estimate)| a.1.value.total_cmp(&b.1.value);
    let (Some(least), Some(most)) = (costs.iter().min_by(by), costs.iter().max_by(by)) else {
        return Answer::cannot(question, "the runs have no piece size in common");
    };
    let times = |(bytes, cost): &(u64, Estimate)| {
        format!("{} times for pieces of {}", range(cost, &|cost| format!("{cost:.1}")), size(*bytes))
    };
    let apart = sizes.iter().filter(|ratio| {
        ratio.low.is_some_and(|low| low > 1.0 + LEAST_MARGIN)
            || ratio.high.is_some_and(|high| high < 1.0 - LEAST_MARGIN)
    });
    let mut text = format!(
        "An answer to every piece makes the mebibyte take {} to {} as long as in a flow: with one piece under way at a time \
         each one waits for a whole round trip",
        times(least),
        times(most)
    );
    if !sizes.is_empty() {
        text += &format!(
            ". 8 bytes of answer instead of 1 change it by more than 2 % at {} of {} sizes",
            apart.count(),
            sizes.len()
        );
    }
    let surely = costs.iter().all(|(_, cost)| cost.low.is_some_and(|low| low > 1.0));
    Answer::new(question, if surely { Confidence::Sure } else { Confidence::Likely }, text + ".").with(table)
}

fn clocks(flow: Option<&Part<'_>>) -> Answer {
    let question = "Do the sender's and the receiver's clock agree?";
    let Some(flow) = flow else { return Answer::cannot(question, "the flow was not measured") };
    let off = |case: &&CaseSummary| {
        let of = case.throughput.as_ref()?;
        Some((case.case.size, of.sender_bits.value / of.receiver_bits.value - 1.0, of.sender_ns - of.receiver_ns))
    };
    let all: Vec<(u64, f64, f64)> = measured(flow).filter_map(|case| off(&case)).collect();
    let Some(widest) = all.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())) else {
        return Answer::cannot(question, "no flow was counted");
    };
    let text = format!(
        "At most {} apart (pieces of {}, {} a round): the sender's clock runs until the acknowledgement at the end, so what \
         still lies in its buffer counts. The receiver's is the one that is printed",
        share(widest.1.abs()),
        size(widest.0),
        time(widest.2.abs())
    );
    let confidence = if widest.1.abs() < 0.01 { Confidence::Sure } else { Confidence::Likely };
    Answer::new(question, confidence, text + ".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Logs;
    use crate::answers::evidence::tests::{answer, of};
    use crate::testing::Build;

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
            answers.text.contains("8 bytes of answer instead of 1 change it by more than 2 % at 3 of 3"),
            "{}",
            answers.text
        );
        assert_eq!(answers.confidence, Confidence::Sure);
        assert_eq!(page.tables[0].rows.len(), 3);
    }

    #[test]
    fn pieces_that_carry_the_same_are_not_ranked() {
        let cut = made(|_, _| 8e9);
        let cut = answer(&cut, "How should 1 MB");
        assert!(cut.text.starts_with("Into large pieces; the largest ones no longer differ"), "{}", cut.text);
        assert!(cut.text.contains("0 are slower, 0 faster, 2 the same"), "{}", cut.text);
    }
}
