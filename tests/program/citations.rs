//! Documents and comments cite what a reader has: every page that they name is in the repository, and every link of a
//! document leads to a file and to a heading.

use std::path::{Path, PathBuf};

use crate::borders::{files, root};

/// What can cite a page.
const ENDINGS: [&str; 10] = [".rs", ".md", ".toml", ".sh", ".c", ".py", ".js", ".css", ".html", ".yml"];
/// The pages of the book, as they are named from the root.
const BOOK: &str = "docs/";

/// Every file of the repository that is written by hand, with its text.
fn texts() -> Vec<(PathBuf, String)> {
    let mut paths = Vec::new();
    ENDINGS.iter().for_each(|ending| files(root(), ending, &mut paths));
    files(&root().join(".ci"), "", &mut paths);
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The pages that a line names, each with the heading behind `#`: names that end as pages do, and paths into the book.
fn cited(line: &str) -> Vec<(&str, &str)> {
    let is_part = |c: char| c.is_alphanumeric() || "_./-#".contains(c);
    let names = line.split(|c| !is_part(c)).map(|word| word.trim_end_matches(['.', '/']));
    let pages = names.map(|name| name.split_once('#').unwrap_or((name, "")));
    pages
        .filter(|(name, _)| {
            let is_page = name.strip_suffix(".md").is_some_and(|stem| !stem.is_empty() && !stem.ends_with('/'));
            // What begins so is the address of another site.
            (is_page || name.starts_with(BOOK)) && !name.starts_with("//")
        })
        .collect()
}

/// The links of a document that lead to files: path and heading. Code is left out.
fn links(text: &str) -> Vec<(usize, &str, &str)> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        // Every second piece between backticks is code; a link's text may be code as well, its target is not.
        let outside = line.split('`').step_by(2).filter(|_| !fenced);
        let targets = outside.flat_map(|piece| piece.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
        let own = targets.filter(|target| !target.contains("://"));
        found.extend(own.map(|target| target.split_once('#').unwrap_or((target, ""))).map(|(path, to)| (at, path, to)));
    }
    found
}

/// The headings of a document, as links name them.
fn headings(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        if !fenced && line.starts_with('#') {
            let words = line.trim_start_matches('#').trim().to_lowercase();
            let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            found.push(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
        }
    }
    found
}

/// Why a page that `from` names is not there; `None`: it is.
fn missing(from: &Path, name: &str, heading: &str) -> Option<String> {
    // By its path, beside the file, or by the name that it has in the book.
    let from = from.parent().unwrap_or(root());
    let places = [root().join(name), from.join(name), root().join(BOOK).join(name)];
    let Some(page) = places.into_iter().find(|page| page.exists()) else {
        return Some(format!("{name} is not in the repository"));
    };
    if heading.is_empty() {
        return None;
    }
    let text = std::fs::read_to_string(&page).unwrap_or_default();
    (!headings(&text).iter().any(|own| own == heading)).then(|| format!("{name} has no heading #{heading}"))
}

#[track_caller]
fn none(lacking: &[String]) {
    assert!(lacking.is_empty(), "{} cite what is not there:\n{}", lacking.len(), lacking.join("\n"));
}

#[test]
fn every_page_that_is_cited_is_there() {
    let page = |stem: &str| format!("{stem}.{}", "md");
    let line = format!("// see ({}#two-words), `{}`. https://x.org/{}", page("README"), page("no/page"), page("y"));
    assert_eq!(cited(&line), [("README.md", "two-words"), (page("no/page").as_str(), "")]);
    let (mut count, mut lacking) = (0, Vec::new());
    for (path, text) in texts() {
        for (at, line) in text.lines().enumerate() {
            for (name, heading) in cited(line) {
                count += 1;
                let place = path.strip_prefix(root()).unwrap().display();
                lacking.extend(missing(&path, name, heading).map(|why| format!("{place}:{}: {why}", at + 1)));
            }
        }
    }
    assert!(count > 300, "only {count} citations were found: they are looked for in the wrong way");
    none(&lacking);
}

#[test]
fn every_link_of_a_document_leads_somewhere() {
    let text = "[a](b/c) `[no](link)` [`d`](#e-f)\n```\n[g](h)\n```\n[i](https://x.org)";
    assert_eq!(links(text), [(0, "b/c", ""), (0, "", "e-f")]);
    assert_eq!(headings("# A\n## 5. A `b`, _c_\n```\n# no\n```"), ["a", "5-a-b-_c_"]);
    let (mut count, mut lacking) = (0, Vec::new());
    for (path, text) in texts().into_iter().filter(|(path, _)| path.extension().is_some_and(|end| end == "md")) {
        let own = path.file_name().unwrap().to_string_lossy();
        for (at, name, heading) in links(&text) {
            count += 1;
            let name = if name.is_empty() { &own } else { name };
            let place = path.strip_prefix(root()).unwrap().display();
            let why = match path.parent().unwrap().join(name).exists() {
                true => missing(&path, name, heading),
                false => Some(format!("{name} is not beside it")),
            };
            lacking.extend(why.map(|why| format!("{place}:{}: {why}", at + 1)));
        }
    }
    assert!(count > 300, "only {count} links were found: they are looked for in the wrong way");
    none(&lacking);
}
