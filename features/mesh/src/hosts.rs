//! Lists of hosts as Slurm and ClusterShell write them: `n[1-4,7],gpu[001-003]!n3`, and the short form of a list.
//!
//! `,` and blanks add, `!` takes away, `&` keeps what both have, `^` what one of them has, from left to right. Zeros in front
//! of a number are kept. `@file` stands for the lists in a file.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// The most hosts of a list.
pub const MAX_HOSTS: usize = 20_000;
/// The longest name of a host: that of the Domain Name System.
const MAX_NAME: usize = 253;
/// The longest number in a name.
const MAX_DIGITS: usize = 15;
/// The most characters of a list.
const MAX_TEXT: usize = 1 << 20;

/// What stands in a file that a list names.
pub type ReadFile<'a> = &'a mut dyn FnMut(&str) -> Result<String, String>;

/// The hosts of a list, each once, in their natural order: n2 before n10.
///
/// # Errors
/// What is wrong with it, or more than [`MAX_HOSTS`].
pub fn parse(list: &str, read: ReadFile<'_>) -> Result<Vec<String>, String> {
    let hosts = set(list, &mut Some(read))?;
    Ok(hosts.into_iter().map(|name| name.0).collect())
}

/// Puts names into their natural order: n2 before n10.
pub fn sort(names: &mut [String]) {
    names.sort_by_cached_key(|name| Name(name.clone()));
}

/// A name in its natural order.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name(String);

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        let (ours, theirs) = (parts(&self.0), parts(&other.0));
        ours.iter().map(Part::key).cmp(theirs.iter().map(Part::key)).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A piece of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part<'a> {
    Text(&'a str),
    Digits(&'a str),
}

impl<'a> Part<'a> {
    /// Numbers stand before texts, short ones first.
    fn key(&self) -> (&'a str, usize, &'a str, usize) {
        match self {
            Part::Text(text) => (text, 0, "", 0),
            Part::Digits(digits) => {
                let bare = digits.trim_start_matches('0');
                ("", bare.len(), bare, digits.len())
            }
        }
    }
}

fn parts(name: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let digits = first.is_ascii_digit();
        let end = rest.find(|letter: char| letter.is_ascii_digit() != digits).unwrap_or(rest.len());
        let (part, behind) = rest.split_at(end);
        parts.push(if digits { Part::Digits(part) } else { Part::Text(part) });
        rest = behind;
    }
    parts
}

/// The last number in a host's name: 7 of `rack2-n007`.
pub fn number(host: &str) -> Option<u64> {
    let digits = parts(host).into_iter().rev().find_map(|part| match part {
        Part::Digits(digits) => Some(digits),
        Part::Text(_) => None,
    })?;
    digits.parse().ok()
}

/// Files do not name files: `read` is gone while one is parsed.
fn set(list: &str, read: &mut Option<ReadFile<'_>>) -> Result<BTreeSet<Name>, String> {
    if list.len() > MAX_TEXT {
        return Err(format!("a list of hosts has at most {MAX_TEXT} characters"));
    }
    let mut hosts = BTreeSet::new();
    let (mut operator, mut begin, mut depth) = (',', 0, 0_u32);
    let ends = list.char_indices().chain([(list.len(), ',')]);
    for (at, letter) in ends {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.checked_sub(1).ok_or("a ] without its [")?,
            ',' | '!' | '&' | '^' if depth == 0 || at == list.len() => {}
            blank if blank.is_whitespace() && depth == 0 => {}
            _ => continue,
        }
        if depth > 0 && at == list.len() {
            return Err("a [ without its ]".into());
        }
        if matches!(letter, '[' | ']') {
            continue;
        }
        let term = list[begin..at].trim();
        if !term.is_empty() {
            combine(&mut hosts, operator, term, read)?;
            operator = ',';
        } else if operator != ',' && !letter.is_whitespace() {
            return Err(format!("nothing stands behind {operator}"));
        }
        if hosts.len() > MAX_HOSTS {
            return Err(format!("more than {MAX_HOSTS} hosts"));
        }
        begin = at + letter.len_utf8();
        if !letter.is_whitespace() {
            operator = letter;
        }
    }
    Ok(hosts)
}

fn combine(
    hosts: &mut BTreeSet<Name>,
    operator: char,
    term: &str,
    read: &mut Option<ReadFile<'_>>,
) -> Result<(), String> {
    let other = match term.strip_prefix('@') {
        Some(file) => {
            let from = read.take().ok_or("a file of hosts cannot name another file")?;
            let text = from(file)?;
            let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
            let found =
                set(&lines.collect::<Vec<_>>().join("\n"), &mut None).map_err(|why| format!("{file}: {why}"))?;
            *read = Some(from);
            found
        }
        None => expand(term)?,
    };
    match operator {
        '!' => hosts.retain(|host| !other.contains(host)),
        '&' => hosts.retain(|host| other.contains(host)),
        '^' => *hosts = &*hosts ^ &other,
        _ => hosts.extend(other),
    }
    Ok(())
}

/// The names of `n[1-2]-ib[0-1]`.
fn expand(term: &str) -> Result<BTreeSet<Name>, String> {
    let mut names = vec![String::new()];
    let mut rest = term;
    while !rest.is_empty() {
        let at = rest.find('[').unwrap_or(rest.len());
        let (text, behind) = rest.split_at(at);
        names.iter_mut().for_each(|name| name.push_str(text));
        let Some(behind) = behind.strip_prefix('[') else { break };
        let end = behind.find(']').ok_or("a [ without its ]")?;
        let numbers = ranges(&behind[..end])?;
        if names.len() * numbers.len() > MAX_HOSTS {
            return Err(format!("{term}: more than {MAX_HOSTS} hosts"));
        }
        names = names.iter().flat_map(|name| numbers.iter().map(move |number| format!("{name}{number}"))).collect();
        rest = &behind[end + 1..];
        if rest.starts_with('[') {
            return Err(format!("{term}: two pairs of brackets side by side cannot be told apart"));
        }
    }
    let named: BTreeSet<Name> = names.into_iter().map(Name).collect();
    named.iter().try_for_each(|name| check(&name.0))?;
    Ok(named)
}

/// Whether this can be the name of a host, and is nothing else on a command line.
///
/// # Errors
/// Why not.
pub fn check(name: &str) -> Result<(), String> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "._-:%".contains(letter);
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(format!("the name of a host has 1 to {MAX_NAME} characters"));
    }
    if name.starts_with('-') || name.contains("..") || !name.chars().all(fits) {
        return Err(format!("{:?} is not the name of a host", name.chars().take(60).collect::<String>()));
    }
    Ok(())
}

/// `1-4,7,010-020/5`.
fn ranges(text: &str) -> Result<Vec<String>, String> {
    let mut numbers = Vec::new();
    for range in text.split(',') {
        let bad = || format!("[{}] is not a range such as [1-4,7] or [001-128]", shorten(text));
        let (span, step) = range.split_once('/').unwrap_or((range, "1"));
        let (first, last) = span.split_once('-').unwrap_or((span, span));
        let is_number =
            |digits: &str| (1..=MAX_DIGITS).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        if ![first, last, step].into_iter().all(is_number) {
            return Err(bad());
        }
        let padded = |digits: &str| digits.len() > 1 && digits.starts_with('0');
        let width = if padded(first) || padded(last) { first.len() } else { 0 };
        if width > 0 && last.len() != width {
            return Err(format!("[{range}]: both ends must have as many digits, or no zeros in front"));
        }
        let parse = |digits: &str| digits.parse::<u64>().map_err(|_| bad());
        let (first, last, step) = (parse(first)?, parse(last)?, parse(step)?);
        if step == 0 || first > last {
            return Err(bad());
        }
        if (last - first) / step >= (MAX_HOSTS - numbers.len().min(MAX_HOSTS)) as u64 {
            return Err(format!("[{}]: more than {MAX_HOSTS} hosts", shorten(text)));
        }
        numbers.extend((first..=last).step_by(step as usize).map(|number| format!("{number:0width$}")));
    }
    Ok(numbers)
}

fn shorten(text: &str) -> String {
    text.chars().take(60).collect()
}

/// The short form of a list: `n[1-4,7]`.
pub fn fold<'a>(hosts: impl IntoIterator<Item = &'a str>) -> String {
    let mut shapes: BTreeMap<Name, Vec<&str>> = BTreeMap::new();
    let names: BTreeSet<Name> = hosts.into_iter().map(|host| Name(host.into())).collect();
    for name in &names {
        let shape = parts(&name.0).into_iter().map(|part| match part {
            Part::Text(text) => text,
            Part::Digits(_) => "0",
        });
        shapes.entry(Name(shape.collect())).or_default().push(&name.0);
    }
    let folded = shapes.into_values().map(|names| {
        let count = parts(names[0]).iter().filter(|part| matches!(part, Part::Digits(_))).count();
        // The number that tells most of them apart; the last one where several do.
        let tried = (0..count).rev().map(|at| by(&names, at));
        tried.min_by_key(Vec::len).unwrap_or_else(|| names.iter().map(|name| (*name).to_string()).collect()).join(",")
    });
    folded.collect::<Vec<_>>().join(",")
}

/// The names, folded by their number at this place.
fn by(names: &[&str], place: usize) -> Vec<String> {
    let mut groups: BTreeMap<(Name, &str), BTreeSet<(u64, usize)>> = BTreeMap::new();
    let mut long = Vec::new();
    for name in names {
        let digits = parts(name).into_iter().filter_map(|part| match part {
            Part::Digits(digits) => Some(digits),
            Part::Text(_) => None,
        });
        let digits = digits.clone().nth(place).expect("as many numbers as the shape");
        let at = digits.as_ptr() as usize - name.as_ptr() as usize;
        let (before, behind) = (&name[..at], &name[at + digits.len()..]);
        match digits.parse() {
            Ok(value) if digits.len() <= MAX_DIGITS => {
                groups.entry((Name(before.into()), behind)).or_default().insert((value, digits.len()));
            }
            _ => long.push((*name).to_string()),
        }
    }
    let folded = groups.into_iter().map(|((before, behind), numbers)| match numbers.len() {
        1 => numbers.iter().map(|(value, width)| format!("{}{value:0width$}{behind}", before.0)).collect(),
        _ => format!("{}[{}]{behind}", before.0, runs(numbers).join(",")),
    });
    folded.chain(long).collect()
}

/// Numbers with their digits as ranges: first those with zeros in front, each with what follows it in as many digits.
fn runs(mut numbers: BTreeSet<(u64, usize)>) -> Vec<String> {
    let digits = |value: u64| value.checked_ilog10().map_or(1, |log| log as usize + 1);
    let mut runs = Vec::new();
    let padded: Vec<_> = numbers.iter().copied().filter(|(value, width)| digits(*value) < *width).collect();
    for (first, width) in padded {
        if !numbers.contains(&(first, width)) {
            continue;
        }
        let last = (first..).take_while(|value| numbers.remove(&(*value, width))).last().unwrap_or(first);
        runs.push((first, last, width));
    }
    while let Some((first, _)) = numbers.first().copied() {
        let last = (first..).take_while(|value| numbers.remove(&(*value, digits(*value)))).last().unwrap_or(first);
        runs.push((first, last, 0));
    }
    runs.sort_unstable_by_key(|(first, _, width)| (*width, *first));
    let text = |(first, last, width): (u64, u64, usize)| match first == last {
        true => format!("{first:0width$}"),
        false => format!("{first:0width$}-{last:0width$}"),
    };
    runs.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hosts(list: &str) -> Result<Vec<String>, String> {
        parse(list, &mut |file| match file {
            "front" => Ok("n[1-2] # the first\n\nlogin!n2\n".into()),
            "loop" => Ok("@front".into()),
            file => Err(format!("{file} is not there")),
        })
    }

    #[test]
    fn lists_as_slurm_and_clustershell_write_them() {
        for (list, names) in [
            ("n1", "n1"),
            ("n[1-4,7],gpu[001-003]!n3", "gpu001 gpu002 gpu003 n1 n2 n4 n7"),
            ("n[9-11] n[08-10]", "n08 n9 n09 n10 n11"),
            ("n[0-10/5]", "n0 n5 n10"),
            ("n[1-2]-ib[0-1].x", "n1-ib0.x n1-ib1.x n2-ib0.x n2-ib1.x"),
            ("n[1-3]&n[2-5]^n2", "n3"),
            ("@front,n7", "login n1 n7"),
            ("n[1-9]!@front", "n2 n3 n4 n5 n6 n7 n8 n9"),
            ("10.0.0.[1-2]", "10.0.0.1 10.0.0.2"),
            ("", ""),
        ] {
            let names: Vec<_> = names.split_whitespace().map(str::to_owned).collect();
            assert_eq!(hosts(list), Ok(names), "{list}");
        }
    }

    #[test]
    fn what_is_not_a_list_is_refused() {
        for list in [
            "n[1-",
            "n]1",
            "n[]",
            "n[3-1]",
            "n[1-2,]",
            "n[001-1000]",
            "n[1-010]",
            "n[1-2][3-4]",
            "n[1-99999]",
            "n[1-2]!",
            "-oProxyCommand=x",
            "n;ls",
            "n[a]",
            "n[1-5/0]",
            "@nowhere",
            "@loop",
            "n[[1]]",
            "a..b",
            "/etc",
            "n$x",
            "é",
            "n[9999999999999999]",
        ] {
            assert!(hosts(list).is_err(), "{list}: {:?}", hosts(list));
        }
    }

    #[test]
    fn a_list_folds_to_its_short_form() {
        for (list, short) in [
            ("n1,n2,n3,n7", "n[1-3,7]"),
            ("gpu[001-128]", "gpu[001-128]"),
            ("n[08-12],n9", "n[9,08-12]"),
            ("n[1-64].cluster2.example", "n[1-64].cluster2.example"),
            ("b,a,n1", "a,b,n1"),
            ("n[1-2]-ib[0-1]", "n1-ib[0-1],n2-ib[0-1]"),
        ] {
            assert_eq!(fold(hosts(list).unwrap().iter().map(String::as_str)), short);
        }
        assert_eq!((number("rack2-n007"), number("login")), (Some(7), None));
    }

    proptest! {
        #[test]
        fn what_was_folded_is_the_same_list(
            names in prop::collection::btree_set("[a-c]{0,1}[0-9]{1,4}(-[xy][0-9]{0,2})?", 0..60)
        ) {
            let short = fold(names.iter().map(String::as_str));
            let again: BTreeSet<_> = hosts(&short).unwrap().into_iter().collect();
            prop_assert_eq!(again, names, "{}", short);
        }

        #[test]
        fn no_text_makes_it_stumble(text in ".{0,80}") {
            if let Ok(names) = hosts(&text) {
                prop_assert!(names.is_sorted_by_key(|name| Name(name.clone())));
                let short = fold(names.iter().map(String::as_str));
                prop_assert_eq!(hosts(&short), Ok(names));
            }
        }

        #[test]
        fn lists_of_brackets(text in r"[n@!&^,\[\]0-9/ -]{0,24}") {
            if let Ok(names) = hosts(&text) {
                let short = fold(names.iter().map(String::as_str));
                prop_assert_eq!(hosts(&short), Ok(names));
            }
        }
    }
}
