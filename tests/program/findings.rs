//! The pages of findings and warnings, `docs/findings`, are the comments of the modules that compute them, whose first line is the
//! code and what it is about. `INSTA_UPDATE=always cargo test --test program the_pages_are` writes them, their list and that of
//! the book.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::borders::{files, root};

/// How the line of the list begins that has the codes that nothing is given again.
const RETIRED: &str = "Retired codes, which are not used again: ";

/// A kind of sentence: letter and number, by which codes are in order.
type Code = (usize, u32);

/// Where a page comes from and what is on it.
struct Page {
    module: String,
    title: String,
    body: String,
}

/// The code at the beginning of a text, and what is behind it.
fn code_of(text: &str) -> Option<(Code, &str)> {
    let kind = ["V", "W", "X"].iter().position(|kind| text.starts_with(kind))?;
    let end = text[1..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |at| at + 1);
    (end > 2).then(|| text[1..end].parse().ok()).flatten().map(|number| ((kind, number), &text[end..]))
}

fn name((kind, number): Code) -> String {
    format!("{}{number:02}", ["V", "W", "X"][kind])
}

/// The pages that the modules make.
fn pages() -> BTreeMap<Code, Page> {
    let mut sources = Vec::new();
    ["crates", "features"].iter().for_each(|folder| files(&root().join(folder), ".rs", &mut sources));
    let mut pages = BTreeMap::new();
    for source in sources {
        let text = fs::read_to_string(&source).unwrap();
        let Some((code, rest)) = text.strip_prefix("//! ").and_then(code_of) else { continue };
        let Some((title, _)) = rest.strip_prefix(": ").and_then(|rest| rest.split_once('\n')) else { continue };
        let comment = text.lines().skip(1).map_while(|line| line.strip_prefix("//!"));
        let body: Vec<&str> = comment.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        let module = source.strip_prefix(root()).unwrap().display().to_string();
        let page = Page { module, title: title.into(), body: body.join("\n") };
        let other = pages.insert(code, page);
        assert!(other.is_none(), "{} has two pages", name(code));
    }
    pages
}

/// A page as it is in the book: links begin at its folder, and codes are links.
fn written(own: Code, page: &Page, all: &BTreeMap<Code, Page>) -> String {
    let body = page.body.replace("](docs/", "](../");
    let mut text = format!("# {}: {}\n", name(own), page.title);
    let mut before = ' ';
    let mut rest = body.as_str();
    while let Some(c) = rest.chars().next() {
        match code_of(rest).filter(|_| !before.is_alphanumeric()) {
            Some((code, behind)) if code != own && !behind.starts_with(char::is_alphanumeric) => {
                assert!(all.contains_key(&code), "{} speaks of {}, which is no finding", page.module, name(code));
                text += &format!("[{0}]({0}.md)", name(code));
                (before, rest) = ('0', behind);
            }
            _ => {
                text.push(c);
                (before, rest) = (c, &rest[c.len_utf8()..]);
            }
        }
    }
    let file = Path::new(&page.module).file_name().unwrap().to_string_lossy();
    text + &format!("\n\nCode: [`{file}`](../../{}).\n", page.module)
}

/// A list with the lines for which `is_own` holds replaced by these.
fn listed(text: &str, is_own: impl Fn(&str) -> bool, own: &[String]) -> String {
    let first = text.lines().position(&is_own).expect("a list of findings");
    let (head, tail): (Vec<&str>, Vec<&str>) =
        (text.lines().take(first).collect(), text.lines().skip(first).filter(|line| !is_own(line)).collect());
    let lines = head.into_iter().chain(own.iter().map(String::as_str)).chain(tail);
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_pages_are_the_comments_of_modules() {
    let folder = root().join("docs/findings");
    let pages = pages();
    let mut wanted: BTreeMap<_, _> = pages
        .iter()
        .map(|(code, page)| (folder.join(format!("{}.md", name(*code))), written(*code, page, &pages)))
        .collect();
    for (path, text) in &wanted {
        let says = text.lines().nth(2).unwrap_or_default();
        assert!(!says.is_empty() && !says.starts_with('#'), "{} does not begin with what it says", path.display());
        for part in ["## What it rests on", "## What to do"] {
            assert!(text.contains(part), "{} lacks {part:?}", path.display());
        }
    }
    let rows: Vec<String> =
        pages.iter().map(|(code, page)| format!("* [{0}]({0}.md): {1}", name(*code), page.title)).collect();
    let index = folder.join("README.md");
    let text = fs::read_to_string(&index).unwrap();
    wanted.insert(index, listed(&text, |line| line.starts_with("* ["), &rows));
    let rows: Vec<String> =
        pages.iter().map(|(code, page)| format!("  - [{0}: {1}](findings/{0}.md)", name(*code), page.title)).collect();
    let summary = root().join("docs/SUMMARY.md");
    let text = fs::read_to_string(&summary).unwrap();
    wanted.insert(summary.clone(), listed(&text, |line| line.contains("](findings/") && line.starts_with("  "), &rows));
    let mut found = Vec::new();
    files(&folder, ".md", &mut found);
    let write = std::env::var("INSTA_UPDATE").is_ok_and(|how| how == "always");
    if write {
        found.iter().filter(|path| !wanted.contains_key(*path)).for_each(|path| fs::remove_file(path).unwrap());
        wanted.iter().for_each(|(path, text)| fs::write(path, text).unwrap());
        return;
    }
    let known: BTreeSet<_> = wanted.keys().filter(|path| **path != summary).collect();
    assert_eq!(found.iter().collect::<BTreeSet<_>>(), known, "left: pages, right: modules with a code");
    for (path, text) in wanted {
        let there = fs::read_to_string(&path).unwrap();
        assert!(there == text, "{} is not what its module says: INSTA_UPDATE=always writes it", path.display());
    }
}

#[test]
fn every_computed_sentence_has_its_page() {
    let codes: BTreeSet<String> = msgpath_analyse::findings::DETECTORS
        .iter()
        .chain(msgpath_stages::findings::DETECTORS)
        .chain(msgpath_calls::findings::DETECTORS)
        .chain(msgpath_periodic::findings::DETECTORS)
        .chain(msgpath_connect::findings::DETECTORS)
        .chain(msgpath_loaded::findings::DETECTORS)
        .chain(msgpath_fan::findings::DETECTORS)
        .chain(msgpath_tools::findings::DETECTORS)
        .map(|detector| detector.code)
        .chain(msgpath_watch::analyse::CODES)
        .map(String::from)
        .collect();
    assert_eq!(codes, pages().into_keys().map(name).collect(), "left: codes of sentences, right: modules with a page");
    let index = fs::read_to_string(root().join("docs/findings/README.md")).unwrap();
    let retired = index.lines().find_map(|line| line.strip_prefix(RETIRED)).expect("the list of retired codes");
    for code in retired.trim_end_matches('.').split(", ") {
        assert!(code_of(code).is_some() && !codes.contains(code), "{code} was retired, and is not used again");
    }
}
