//! The book: what `docs/SUMMARY.md` lists, and pages that name what the program has.

use std::collections::{BTreeMap, BTreeSet};

use crate::borders::{files, root, without_tests};

const SUMMARY: &str = "SUMMARY.md";

/// The pages that the summary lists, in its order.
fn listed() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("docs").join(SUMMARY)).unwrap();
    let links = text.lines().filter_map(|line| line.split_once("](")).filter_map(|(_, rest)| rest.split(')').next());
    links.map(Into::into).collect()
}

#[test]
fn the_summary_lists_every_page_once() {
    let docs = root().join("docs");
    let mut found = Vec::new();
    files(&docs, ".md", &mut found);
    let shown = |page: &std::path::PathBuf| page.strip_prefix(&docs).unwrap().to_string_lossy().into_owned();
    let pages: BTreeSet<String> = found.iter().map(shown).filter(|page| page != SUMMARY).collect();
    let listed = listed();
    let once: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(pages, once, "left: pages in docs, right: what docs/{SUMMARY} lists");
    assert_eq!(listed.len(), once.len(), "docs/{SUMMARY} lists a page twice");
    assert_eq!(listed[0], "README.md", "the book opens with it");
}

/// The codes of errors in a text: `"E01"` as it is made, `error[E58]` where it is written at once.
fn codes(text: &str) -> BTreeSet<String> {
    let begins = text.match_indices("\"E").map(|(at, _)| at + 1).chain(text.match_indices("[E").map(|(at, _)| at + 1));
    begins
        .filter_map(|at| text[at..].split_once(['"', ']']))
        .map(|(word, _)| word)
        .filter(|word| (3..=4).contains(&word.len()) && word[1..].bytes().all(|digit| digit.is_ascii_digit()))
        .map(Into::into)
        .collect()
}

#[test]
fn every_error_has_its_entry() {
    let made = "Problem::new(\"E07\", x) b\"error[E58]: none\" \"E1\" \"E123\" \"E1234\" [E9] \"EIO\" E42";
    assert_eq!(codes(made), ["E07", "E123", "E58"].map(String::from).into());
    let mut sources = Vec::new();
    ["crates", "features", "src"].iter().for_each(|folder| files(&root().join(folder), ".rs", &mut sources));
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for file in &sources {
        let shown = file.strip_prefix(root()).unwrap().display().to_string();
        if shown.contains("/tests/") || shown.ends_with("tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(file).unwrap();
        for line in without_tests(&text).lines().filter(|line| !line.trim_start().starts_with("//")) {
            found.extend(codes(line).into_iter().map(|code| (code, shown.clone())));
        }
    }
    assert!(found.len() > 40, "only {} codes were found: they are looked for in the wrong way", found.len());
    let page = std::fs::read_to_string(root().join("docs/errors.md")).unwrap();
    let heads = page.lines().filter_map(|line| line.strip_prefix("## ")).filter_map(|head| head.split_once(": "));
    let entries: Vec<&str> = heads.map(|(code, _)| code).collect();
    for (code, file) in &found {
        assert!(entries.contains(&code.as_str()), "docs/errors.md has no entry for {code} of {file}");
    }
    for entry in &entries {
        assert!(found.contains_key(*entry), "docs/errors.md has an entry for {entry}, which no source has");
    }
    let number = |code: &str| code[1..].parse::<u32>().unwrap();
    assert!(
        entries.is_sorted_by(|a, b| number(a) < number(b)),
        "docs/errors.md has its entries in order, each once: {entries:?}"
    );
    for entry in page.split("\n## ").skip(1) {
        let name = entry.lines().next().unwrap_or_default();
        assert!(entry.contains("**Do**:"), "{name}: it does not say what to do");
    }
}

#[test]
fn every_figure_is_explained() {
    let page = std::fs::read_to_string(root().join("docs/figures.md")).unwrap();
    let heads: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let sections = [
        &msgpath_stages::present::SECTION,
        &msgpath_calls::present::SECTION,
        &msgpath_periodic::present::SECTION,
        &msgpath_loaded::present::SECTION,
        &msgpath_fan::present::SECTION,
    ];
    let figures = sections.into_iter().flat_map(|section| section.leading);
    let figures = figures.chain(msgpath_present::html::figures::FIGURES);
    let figures: Vec<_> = figures.chain(sections.into_iter().flat_map(|section| section.figures)).collect();
    let wanted: Vec<String> = figures.iter().map(|figure| format!("`{}`: {}", figure.name, figure.heading)).collect();
    assert_eq!(heads, wanted, "left: headings of docs/figures.md, right: figures in the order of the report");
}
