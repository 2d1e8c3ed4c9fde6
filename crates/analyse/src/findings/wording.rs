//! How findings write numbers, cases and commands.

use std::collections::BTreeMap;

use msgpath_core::foreign::shell_word;
use msgpath_core::plan::{CaseRole, Extent};
use msgpath_core::schema::RunHeader;
use msgpath_core::units::{size, three_digits};
use msgpath_core::{Case, PathName};

use super::{Input, Sentence};
use crate::summary::{CaseSummary, Confidence, Finding, Warning};
pub use crate::words::{interval, range};

/// Numbers by name; what is not finite is left out.
pub fn evidence<const N: usize>(numbers: [(&str, f64); N]) -> BTreeMap<String, f64> {
    numbers.into_iter().filter(|(_, value)| value.is_finite()).map(|(name, value)| (name.into(), value)).collect()
}

pub fn finding<const N: usize>(
    code: &str,
    confidence: Confidence,
    text: String,
    numbers: [(&str, f64); N],
    next: Vec<String>,
) -> Sentence {
    Sentence::Finding(Finding { code: code.into(), confidence, text, evidence: evidence(numbers), next })
}

/// A warning that `--strict` does not turn into an error.
pub fn warning<const N: usize>(code: &str, text: String, why: &str, fix: &str, numbers: [(&str, f64); N]) -> Sentence {
    Sentence::Warning(Warning {
        code: code.into(),
        text,
        why: why.into(),
        fix: fix.into(),
        evidence: evidence(numbers),
        strict: false,
    })
}

/// A share as a percentage with the digits it deserves: `0.38`, `2.4`, `31` (without the sign).
pub fn percent(share: f64) -> String {
    digits(share * 100.0, f64::round)
}

/// [`percent`], rounded away from 0, for "less than".
pub fn percent_at_most(share: f64) -> String {
    digits(share * 100.0, f64::ceil)
}

fn digits(value: f64, round: impl Fn(f64) -> f64) -> String {
    let scale = match value.abs() {
        0.0 => return "0".into(),
        size if size >= 10.0 => 1.0,
        size if size >= 1.0 => 10.0,
        size => 10_f64.powi(1 - size.log10().floor() as i32),
    };
    // The tiny step back keeps 2.0000000001 from becoming 2.1.
    let rounded = round(value * scale * (1.0 - 1e-9)) / scale;
    let text = format!("{rounded:.*}", scale.log10().round() as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// A size between the sizes measured: three digits, `26.9 KiB`.
pub fn about_size(bytes: f64) -> String {
    match bytes {
        _ if bytes < 1024.0 => format!("{bytes:.0} B"),
        _ if bytes < 1024.0 * 1024.0 => format!("{} KiB", three_digits(bytes / 1024.0)),
        _ => format!("{} MiB", three_digits(bytes / 1024.0 / 1024.0)),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// The message of a case: `64 B`, or `15x100` where it is cut into pieces.
pub fn message(case: &Case) -> String {
    if !case.path.is_told() {
        return "size unknown".into();
    }
    if case.pieces.count > 1 { case.pieces.to_string() } else { size(case.size) }
}

/// `1 thread`, `4 threads`.
pub fn threads(count: u32) -> String {
    if count == 1 { "1 thread".into() } else { format!("{count} threads") }
}

/// The cases that the user asked for.
pub fn measured<'a>(input: &Input<'a>) -> impl Iterator<Item = &'a CaseSummary> {
    input.summary.cases.iter().filter(|case| case.case.role == CaseRole::Measured)
}

/// `tcp:send, 64 B: ` where several cases were asked for, else nothing.
pub fn prefix(input: &Input, case: &CaseSummary) -> String {
    if measured(input).count() == 1 && input.summary.unavailable.is_empty() {
        return String::new();
    }
    let missing = input.summary.unavailable.iter().map(|missing| &missing.case.path);
    let several_paths =
        measured(input).map(|other| &other.case.path).chain(missing).any(|path| *path != case.case.path);
    let path = (case.case.label.is_none() || several_paths).then(|| case.case.path.to_string());
    let label = case.case.label.iter().filter(|label| path.is_none() || **label != case.case.path.transport).cloned();
    let mut parts: Vec<String> = label.chain(path.clone()).collect();
    // The size of a call is that of its value, and differs from call to call.
    if input.plan.workload.one_size {
        parts.push(message(&case.case));
    }
    if measured(input).any(|other| other.case.threads != case.case.threads) {
        parts.push(threads(case.case.threads));
    }
    if measured(input).any(|other| other.case.inflight != case.case.inflight) {
        parts.push(format!("{} in flight", case.case.inflight));
    }
    if let Some(rate) = case.case.load.rate() {
        parts.push(rate.to_string());
    }
    format!("{}: ", parts.join(", "))
}

/// The case with the largest number, and how many have one.
pub fn worst<'a>(cases: impl Iterator<Item = (f64, &'a CaseSummary)>) -> Option<(&'a CaseSummary, usize)> {
    let cases: Vec<_> = cases.collect();
    let (_, worst) = cases.iter().rev().max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((worst, cases.len()))
}

/// A finding on a whole run: sure where both halves of the run say the same, else it can't tell, and more rounds would.
pub fn of_both_halves<const N: usize>(
    input: &Input,
    code: &str,
    agree: bool,
    text: String,
    numbers: [(&str, f64); N],
) -> Sentence {
    if agree {
        return finding(code, Confidence::Sure, text + ".", numbers, vec![]);
    }
    let text = text + " over the whole run, but its two halves disagree.";
    let next = vec![again_with_rounds(&input.run.header, 2 * u64::from(input.plan.rounds))];
    finding(code, Confidence::CantTell, text, numbers, next)
}

/// `; so it is in 2 other cases`: what is added to the sentence on the worst of so many cases.
pub fn so_in_others(cases: usize) -> String {
    match cases {
        0 | 1 => String::new(),
        2 => "; so it is in another case".into(),
        more => format!("; so it is in {} other cases", more - 1),
    }
}

/// What is added to the sentence on the worst case where there are others.
pub fn affected(cases: usize) -> String {
    if cases > 1 { format!("; {cases} cases are affected") } else { String::new() }
}

/// Seconds for which a case was measured: as planned, or (a number of messages) as it took.
pub fn seconds_measured(input: &Input, case: &CaseSummary) -> f64 {
    match input.plan.time_of_rounds() {
        Some(ns) => ns as f64 * case.rounds as f64 / f64::from(input.plan.rounds.max(1)) / 1e9,
        None => input.all[case.case.id as usize].iter().map(|round| round.near().elapsed_ns as f64).sum::<f64>() / 1e9,
    }
}

/// The first letter as a capital, unless the first word is the name of a path.
pub fn sentence(text: &str) -> String {
    if text.split(' ').next().is_some_and(|word| word.contains(':')) {
        return text.into();
    }
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Options that say how long to measure; a new one replaces the old.
const EXTENT: [&str; 4] = ["-t", "--time", "-c", "--count"];
/// How many times as many messages are proposed where no time can be.
const MORE: u64 = 4;
/// Options that name the path.
const PATH: [&str; 2] = ["-x", "--path"];
/// Options that say in how many rounds.
const ROUNDS: [&str; 2] = ["-r", "--rounds"];
/// The option that sets a rare setting.
const SET: [&str; 2] = ["-o", "--set"];
/// The option that names the run: a name is taken once.
const NAME: &str = "--name";

/// The command of the run once more, measuring each case for `seconds`, or with more messages where these are counted: what is around
/// its rounds comes on top, as in this run.
pub fn again_for(header: &RunHeader, seconds: f64) -> String {
    let whole = match (header.plan.extent, header.plan.rounds_ns) {
        (Extent::Time(ns), Some(rounds_ns)) => ns as f64 / rounds_ns.max(1) as f64,
        _ => 1.0,
    };
    let seconds = (whole * seconds).ceil().max(1.0) as u64;
    let time = match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds.div_ceil(60)),
        _ => format!("{}h", seconds.div_ceil(3600)),
    };
    let option = header.plan.workload.for_how_long;
    let longer = match (option, header.plan.extent) {
        (Some(option), _) => format!("{option} {time}"),
        (None, Extent::Count(messages)) => format!("-c {}", messages.saturating_mul(MORE)),
        (None, Extent::Time(_)) => String::new(),
    };
    let replaced: Vec<&str> = EXTENT.into_iter().chain(option).collect();
    again(header, &replaced, &longer)
}

/// The command of the run once more with so many rounds. Where the pilot chooses how many, as long as they have to be, they are more
/// in more time.
pub fn again_with_rounds(header: &RunHeader, rounds: u64) -> String {
    let plan = &header.plan;
    if let (Some(ns), 1..) = (plan.time_of_rounds(), plan.fewest_rounds) {
        return again_for(header, ns as f64 / 1e9 * rounds as f64 / f64::from(plan.rounds));
    }
    again(header, &ROUNDS, &format!("-r {rounds}"))
}

/// The command of the run once more over another path; `None` where paths are compared.
pub fn again_over(header: &RunHeader, path: &str) -> Option<String> {
    (header.verb != "compare").then(|| again(header, &PATH, &format!("-x {path}")))
}

/// The command of the run once more with the send method that hands all pieces over in one call, where there is one.
pub fn again_joined(header: &RunHeader, case: &Case) -> Option<String> {
    let method = case.traits.joined_method.clone();
    (!method.is_empty()).then(|| again_over(header, &PathName { method, ..case.path.clone() }.to_string())).flatten()
}

/// The command of the run once more with this setting, `KEY=VALUE`, in place of what it says of the key.
pub fn again_set(header: &RunHeader, setting: &str) -> String {
    again(&without_key(header, setting.split('=').next().unwrap_or_default()), &[], &format!("-o {setting}"))
}

/// The command of the run once more without what it says of a key of `-o`.
pub fn again_without(header: &RunHeader, key: &str) -> String {
    again(&without_key(header, key), &[], "")
}

/// The header with a command that does not set a key.
pub fn without_key(header: &RunHeader, key: &str) -> RunHeader {
    let mut header = header.clone();
    let mut words = Vec::new();
    let mut typed = header.command.into_iter();
    while let Some(word) = typed.next() {
        if !SET.contains(&word.as_str()) {
            words.push(word);
            continue;
        }
        let settings = typed.next().unwrap_or_default();
        let kept: Vec<&str> = settings.split(',').filter(|one| one.split('=').next() != Some(key)).collect();
        if !kept.is_empty() {
            words.extend([word, kept.join(",")]);
        }
    }
    header.command = words;
    header
}

/// The command of the run once more with `option` in place of the options `replaced`.
pub fn again(header: &RunHeader, replaced: &[&str], option: &str) -> String {
    let replaced: Vec<&str> = replaced.iter().copied().chain([NAME]).collect();
    let mut words = vec!["msgpath".to_string()];
    let typed: Vec<String> =
        if header.command.len() > 1 { header.command[1..].to_vec() } else { vec![header.verb.clone()] };
    let mut typed = typed.into_iter();
    while let Some(word) = typed.next() {
        if replaced.contains(&word.as_str()) {
            typed.next();
            continue;
        }
        let glued = |name: &&str| match name.strip_prefix("--") {
            Some(_) => word.starts_with(&format!("{name}=")),
            None => word.starts_with(*name) && word.len() > name.len() && !word.starts_with("--"),
        };
        if !replaced.iter().any(glued) {
            words.push(shell_word(&word));
        }
    }
    if !option.is_empty() {
        words.push(option.into());
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;
    use msgpath_core::Workload;

    #[test]
    fn percentages_carry_two_digits_and_round_up_where_asked() {
        for (share, text, at_most) in [
            (0.0038, "0.38", "0.38"),
            (0.00381, "0.38", "0.39"),
            (0.02, "2", "2"),
            (0.0234, "2.3", "2.4"),
            (0.314, "31", "32"),
            (1.0, "100", "100"),
        ] {
            assert_eq!((percent(share).as_str(), percent_at_most(share).as_str()), (text, at_most));
        }
    }

    #[test]
    fn commands_are_repeated_with_one_change() {
        let mut header = Build::echo(&["tcp:send"], &[64]).run().header;
        assert_eq!(again_for(&header, 170.2), "msgpath echo -t 3m");
        header.command =
            ["msgpath", "compare", "a b", "-r10", "--rounds=3", "-l", "64", "--json"].map(String::from).to_vec();
        assert_eq!(again_with_rounds(&header, 80), "msgpath compare 'a b' -l 64 --json -r 80");
        // More rounds of a length that the pilot chose take more time.
        (header.plan.fewest_rounds, header.plan.rounds) = (10, 20);
        header.plan.extent = Extent::Time(2_000_000_000);
        header.command = ["msgpath", "compare", "-t", "2s"].map(String::from).to_vec();
        assert_eq!(again_with_rounds(&header, 80), "msgpath compare -t 8s");
        header.command = ["msgpath", "stream", "-c", "9", "--name", "otter", "-R"].map(String::from).to_vec();
        assert_eq!(again_for(&header, 2.0), "msgpath stream -R -t 2s");
        // A workload whose messages are counted has no option for the time.
        static COUNTED: Workload = Workload { name: "counted", for_how_long: None, ..*Workload::ECHO };
        let mut counted = header.clone();
        (counted.plan.workload, counted.plan.extent) = (&COUNTED, Extent::Count(9));
        assert_eq!(again_for(&counted, 2.0), "msgpath stream -R -c 36");
        assert_eq!(again_set(&header, "congestion=cubic"), "msgpath stream -c 9 -R -o congestion=cubic");
        header.command = ["msgpath", "echo", "-o", "cork=yes,seed=7", "--set", "cork=held"].map(String::from).to_vec();
        assert_eq!(again_without(&header, "cork"), "msgpath echo -o seed=7");
        assert_eq!(again_set(&header, "cork=no"), "msgpath echo -o seed=7 -o cork=no");
        header.command.clear();
        assert_eq!(again_over(&header, "tcp:writev").unwrap(), "msgpath echo -x tcp:writev");
    }

    #[test]
    fn words() {
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
        assert_eq!((about_size(27_532.0), about_size(700.2)), ("26.9 KiB".into(), "700 B".into()));
        assert_eq!((sentence("up to"), sentence("tcp:send is")), ("Up to".into(), "tcp:send is".into()));
    }
}
