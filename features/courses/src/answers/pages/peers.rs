//! The page of the preset `peers`: tools of others with the same work between the rounds of ours, and why their numbers differ.

use msgpath_core::plan::Metric;
use msgpath_stats::estimate::Estimate;
use msgpath_tools::section::said;
use msgpath_tools::table::{Beside, By, beside, tables};
use msgpath_tools::{Over, TOOLS, Work};

use crate::answers::answered::{Answered, OfRuns, answers, say, sure};
use crate::answers::cell::Value;
use crate::answers::evidence::{claim, extremes, judged, over, quantile};
use crate::answers::words::{counted, decided, list, percent, ratio_with, time};
use crate::answers::{Page, Part, part};

const RUNS: [&str; 3] = ["round-trips", "rate", "stream"];
const QUESTIONS: &[(&str, OfRuns)] = &[
    ("Do the tools agree on a round trip?", round_trips),
    ("Which of them print half of it?", halves),
    ("What does spinning change?", spinning),
    ("How much do the runs of one tool differ?", spread),
    ("Do they agree on a stream?", stream),
    ("What does a closed loop hide?", hidden),
];

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let tables = RUNS
        .iter()
        .filter_map(|name| part(parts, name))
        .flat_map(|part| tables(part.name, part.run, part.summary, said(part.logs)))
        .collect();
    Page { tables, answers: answers(parts, QUESTIONS), ..Page::default() }
}

/// The tools that have numbers in the run of this name.
fn of<'a>(parts: &[Part<'a>], name: &str) -> Result<Vec<Beside<'a>>, String> {
    let part = part(parts, name).ok_or_else(|| format!("the run {name} is missing"))?;
    let found: Vec<Beside<'_>> =
        beside(part.run, part.summary, said(part.logs)).into_iter().filter(|one| !one.turns.is_empty()).collect();
    if found.is_empty() {
        let names: Vec<String> = TOOLS.iter().map(|tool| tool.name.to_owned()).collect();
        return Err(format!("none of {} is installed and gave a number", list(&names)));
    }
    Ok(found)
}

/// `sockperf 1.05 (0.98 to 1.12)` of each, by the best that it prints.
fn ratios(all: &[&Beside<'_>]) -> Vec<(String, Estimate)> {
    let one = |one: &&Beside<'_>| {
        let ratio = one.ratio(one.best())?;
        Some((format!("{} {}", one.tool.name, ratio_with(&Value::from(&ratio))), ratio))
    };
    all.iter().filter_map(one).collect()
}

/// How many ratios lie on one side of 1 with their whole interval, and how many have an interval.
fn apart(ratios: &[(String, Estimate)]) -> (usize, usize) {
    let bounded = ratios.iter().filter_map(|(_, ratio)| ratio.low.zip(ratio.high));
    bounded.fold((0, 0), |(apart, all), (low, high)| (apart + usize::from(low > 1.0 || high < 1.0), all + 1))
}

/// What the ratios of one kind of exchange say; `None`: no tool does it.
fn compared(all: &[&Beside<'_>], what: &str) -> Option<(String, usize, usize)> {
    let ratios = ratios(all);
    if ratios.is_empty() {
        return None;
    }
    let (apart, bounded) = apart(&ratios);
    let each: Vec<String> = ratios.iter().map(|(text, _)| text.clone()).collect();
    let told =
        if bounded == 0 { "without intervals".to_owned() } else { format!("{apart} of {bounded} told apart from it") };
    Some((format!("{what}, times msgpath: {} ({told})", list(&each)), bounded, ratios.len()))
}

fn round_trips(parts: &[Part<'_>]) -> Answered {
    let found = of(parts, "round-trips")?;
    let kind = |over: Over| -> Vec<&Beside<'_>> {
        found.iter().filter(|one| one.exchange.over == over && !one.exchange.spin).collect()
    };
    let all: Vec<(String, usize, usize)> = [(Over::Tcp, "TCP"), (Over::Udp, "UDP")]
        .into_iter()
        .filter_map(|(over, what)| compared(&kind(over), what))
        .collect();
    if all.is_empty() {
        return Err("no tool that is installed does blocking round trips".into());
    }
    let (bounded, of) = all.iter().fold((0, 0), |(a, b), (_, bounded, of)| (a + bounded, b + of));
    let texts: Vec<String> = all.into_iter().map(|(text, ..)| text).collect();
    Ok(say(
        decided(bounded, of),
        format!("{}; by the median, where a tool prints one, else by the mean, as whole round trips", texts.join("; ")),
    ))
}

fn halves(parts: &[Part<'_>]) -> Answered {
    let found = of(parts, "round-trips")?;
    let tcp = || found.iter().filter(|one| one.exchange.over == Over::Tcp && !one.exchange.spin);
    let half: Vec<String> = tcp()
        .filter(|one| one.halves())
        .filter_map(|one| {
            let (own, whole) = (one.as_printed()?, one.estimate(one.best())?.value);
            Some(format!("{} prints {} for a round trip of {}", one.tool.name, time(own), time(whole)))
        })
        .collect();
    let whole: Vec<String> = tcp().filter(|one| !one.halves()).map(|one| one.tool.name.to_owned()).collect();
    let others = match &whole[..] {
        [] => String::new(),
        [one] => format!("; {one} prints it whole"),
        several => format!("; {} print it whole", list(several)),
    };
    if half.is_empty() {
        Err(format!("no tool that does is installed{others}").into())
    } else {
        Ok(sure(format!(
            "{}{others}. Half a round trip is the way there only where both ways cost the same",
            list(&half)
        )))
    }
}

fn spinning(parts: &[Part<'_>]) -> Answered {
    let part = part(parts, "round-trips").ok_or("the run round-trips is missing")?;
    let case = |wait: &str| part.find(|one| one.case.path.transport == "tcp" && one.case.path.wait == wait);
    let (block, spin) = case("block").zip(case("spin")).ok_or("one of the two was not measured")?;
    let family = judged(&part, Metric::P50, &[(block, spin)]);
    let (.., ours) = family.found().next().ok_or("too few rounds")?;
    let found = beside(part.run, part.summary, said(part.logs));
    let p50 = |spin: bool, name: &str| {
        let fits =
            |one: &&Beside<'_>| one.exchange.over == Over::Tcp && one.exchange.spin == spin && one.tool.name == name;
        found.iter().find(fits)?.estimate(By::P50).map(|p50| Value::from(&p50))
    };
    let theirs = TOOLS.iter().filter_map(|tool| {
        let ratio = over(p50(false, tool.name)?, p50(true, tool.name)?);
        Some(format!(", with {} {}", tool.name, ratio_with(&ratio)))
    });
    let theirs = theirs.collect::<String>();
    Ok(say(
        ours.confidence(),
        format!(
            "p50 of blocking receivers over TCP is that of spinning ones times {} with msgpath{theirs}: a tool that spins by \
             default is faster by that, whatever else it does",
            ours.text()
        ),
    ))
}

fn spread(parts: &[Part<'_>]) -> Answered {
    let found = of(parts, "round-trips")?;
    let all: Vec<(String, f64)> = found
        .iter()
        .filter_map(|one| {
            let values = one.values(one.best());
            let (least, most) = extremes(&values, |ns| *ns).filter(|_| values.len() > 1)?;
            let path = &one.case.case.path;
            Some((format!("{} {path}", one.tool.name), most / least - 1.0))
        })
        .collect();
    let (_, most) = extremes(&all, |(_, spread)| *spread).ok_or("no tool ran twice")?;
    let between = {
        let blocking: Vec<&Beside<'_>> =
            found.iter().filter(|one| one.exchange.over == Over::Tcp && !one.exchange.spin).collect();
        let ratios = ratios(&blocking);
        extremes(&ratios, |(_, ratio)| ratio.value).filter(|_| ratios.len() > 1).map_or_else(
            String::new,
            |(low, high)| {
                let apart = percent(high.1.value / low.1.value - 1.0);
                format!("; the tools lie {apart} apart over TCP")
            },
        )
    };
    let text = format!(
        "{} differs most of {}: its slowest run took {} longer than its fastest{between}. A single run of a tool cannot tell \
         less than its own runs differ",
        most.0,
        counted(all.len(), "row"),
        percent(most.1)
    );
    Ok(sure(text))
}

fn stream(parts: &[Part<'_>]) -> Answered {
    let found = of(parts, "stream")?;
    let all: Vec<&Beside<'_>> = found.iter().collect();
    let (text, bounded, of) = compared(&all, "throughput").ok_or("no tool printed a throughput")?;
    Ok(say(
        decided(bounded, of),
        format!(
            "{text}. All count payload at the receiver; a tool that counts what was sent would count what still waits"
        ),
    ))
}

fn hidden(parts: &[Part<'_>]) -> Answered {
    let part = part(parts, "rate").ok_or("the run rate is missing")?;
    let ours =
        part.measured().find_map(|case| Some((case, case.open.as_ref()?))).ok_or("the schedule was not measured")?;
    let (case, open) = ours;
    let intended = quantile(case, 0.99).and_then(claim).ok_or("no claim at p99")?;
    let actual = open.service.iter().find(|one| one.p == 0.99).and_then(claim).ok_or("no claim at p99")?;
    let found = beside(part.run, part.summary, said(part.logs));
    let theirs: Vec<String> = found
        .iter()
        .filter(|one| matches!(one.exchange.work, Work::AtRate(_)))
        .filter_map(|one| Some(format!("{} {}", one.tool.name, time(one.estimate(By::P99)?.value))))
        .collect();
    let theirs = if theirs.is_empty() { String::new() } else { format!(", as {} do here at p99", list(&theirs)) };
    let ratio = over(intended, actual);
    let told = usize::from(ratio.low.is_some_and(|low| low > 1.0));
    Ok(say(
        decided(told, 1),
        format!(
            "p99 is {} from the time when a message was due and {} from the time when it was sent, {} times: who times from the \
             actual send{theirs}, or sends the next message only when the reply has come, does not count how long a message \
             waited to be sent. Preset load-curve shows how far apart the two come near the capacity",
            time(intended.value),
            time(actual.value),
            ratio_with(&ratio)
        ),
    ))
}

#[cfg(test)]
mod tests {
    use msgpath_analyse::Logs;
    use msgpath_analyse::summary::Confidence;
    use msgpath_analyse::testing::Build;
    use msgpath_tools::section::Said;

    use super::*;
    use crate::answers::testing::{Made, answer};
    const PATHS: [&str; 3] = ["tcp:send", "tcp:send/spin", "udp:send"];

    /// A run in which tools say that a round trip of a case takes `factor` times 20 µs.
    fn made(name: &'static str, paths: &[&str], tools: &[(&str, u32, f64)]) -> Made {
        let build = Build::echo(paths, &[64]).factor(|case| if case.path.wait == "spin" { 0.4 } else { 1.0 });
        let tools = msgpath_tools::testing::said(build.plan.rounds, tools);
        Made::with(name, build.run(), Logs::default().with(Said(tools)))
    }

    #[test]
    fn agreement_halves_spinning_and_spread_are_told() {
        let tools =
            [("sockperf", 0, 1.3), ("netperf", 0, 1.0), ("qperf", 0, 1.3), ("sockperf", 1, 0.5), ("netperf", 2, 1.0)];
        let made = [made("round-trips", &PATHS, &tools)];
        let page = page(&Made::parts(&made));
        let agree = answer(&page, "agree on a round trip");
        assert!(
            agree.text.starts_with("TCP, times msgpath: sockperf 1.3") && agree.text.contains("UDP, times"),
            "{agree:?}"
        );
        assert!(agree.text.contains("of 3 told apart") && agree.confidence == Confidence::Sure, "{agree:?}");
        let half = answer(&page, "half of it");
        assert!(
            half.text.starts_with("sockperf prints 13.") && half.text.contains("netperf prints it whole"),
            "{half:?}"
        );
        let spin = answer(&page, "spinning change");
        assert!(spin.text.contains("spinning ones times 2.") && spin.text.contains("with sockperf 2.60"), "{spin:?}");
        let spread = answer(&page, "runs of one tool");
        assert!(spread.text.contains("2.00 % longer than its fastest; the tools lie 3"), "{spread:?}");
        for open in ["a stream", "closed loop hide"] {
            assert!(answer(&page, open).text.contains("is missing"), "{open}");
        }
        assert_eq!(page.tables.len(), 2);
    }

    #[test]
    fn without_tools_the_page_says_so_and_still_answers_what_is_ours() {
        let made = [made("round-trips", &PATHS, &[])];
        let page = page(&Made::parts(&made));
        let agree = answer(&page, "agree on a round trip");
        assert!(agree.confidence == Confidence::CantTell && agree.text.contains("is installed and gave"), "{agree:?}");
        let spin = answer(&page, "spinning change");
        assert!(spin.confidence == Confidence::Sure && spin.text.contains("with msgpath: a tool"), "{spin:?}");
    }
}
