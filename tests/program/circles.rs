//! Modules that import each other in a circle cannot be read one by one: how large the largest circle of a crate is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::borders::{files, root, without_tests};

/// Modules in the largest circle of a crate, at most.
const MOST: usize = 15;

/// A name of an item by the modules that it stands in, from the root of the crate.
type Name = Vec<String>;

/// What a module has of other modules.
#[derive(Default)]
struct Module {
    /// What its code names, as it is written.
    named: Vec<Name>,
    /// What it imports, by the name that it has here: others may import it from here.
    imported: BTreeMap<String, Name>,
}

/// The modules of a crate, those for tests left out, by their path.
struct Crate(BTreeMap<Name, Module>);

fn name_of(text: &str) -> Name {
    text.split("::").map(str::trim).filter(|part| !part.is_empty()).map(String::from).collect()
}

/// The paths of a tree of imports, each with the name that it gets.
fn spread(before: &[String], tree: &str, found: &mut Vec<(Name, String)>) {
    let Some((path, rest)) = tree.split_once('{') else {
        let (path, own) = tree.split_once(" as ").unwrap_or((tree, ""));
        let mut path = [before, &name_of(path)].concat();
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        if let Some(last) = path.last().cloned() {
            found.push((path, if own.is_empty() { last } else { own.trim().into() }));
        }
        return;
    };
    let (path, inner) = ([before, &name_of(path)].concat(), rest.rsplit_once('}').map_or(rest, |(inner, _)| inner));
    let (mut depth, mut begin) = (0, 0);
    for (at, letter) in inner.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                spread(&path, inner[begin..at].trim(), found);
                begin = at + 1;
            }
            _ => {}
        }
    }
    spread(&path, inner[begin..].trim(), found);
}

/// Paths in code that is no import: `crate::units::Bits`, `parts::value`.
fn paths(code: &str) -> impl Iterator<Item = Name> {
    let words = code.split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != ':');
    words.filter(|word| word.contains("::") && !word.starts_with(':')).map(name_of)
}

impl Module {
    fn read(text: &str) -> Self {
        let lines = without_tests(text).lines().map(|line| line.split("//").next().unwrap_or_default());
        let code = lines.collect::<Vec<_>>().join("\n");
        let mut module = Self::default();
        let mut rest = code.as_str();
        while let Some(at) = rest.find("use ").filter(|_| rest.contains(';')) {
            let (before, after) = rest.split_at(at);
            let line = before.rsplit('\n').next().unwrap_or_default().trim();
            module.named.extend(paths(before));
            let passed_on = line == "pub" || (line.starts_with("pub(") && line.ends_with(')'));
            // A word of a text, or the end of another one.
            if !line.is_empty() && !passed_on {
                rest = &after["use ".len()..];
                continue;
            }
            let (tree, after) = after["use ".len()..].split_once(';').unwrap_or_default();
            rest = after;
            let mut found = Vec::new();
            spread(&[], tree, &mut found);
            for (path, own) in found {
                let all = own == "*";
                // What is only passed on is imported by whoever takes it.
                if all || !passed_on {
                    module.named.push(path.clone());
                }
                if !all {
                    module.imported.insert(own, path);
                }
            }
        }
        module.named.extend(paths(rest));
        module
    }
}

impl Crate {
    fn read(folder: &Path) -> Self {
        let mut sources = Vec::new();
        files(folder, ".rs", &mut sources);
        let mut texts = BTreeMap::new();
        for source in sources {
            let text = std::fs::read_to_string(&source).unwrap();
            let path = source.strip_prefix(folder).unwrap().with_extension("");
            let mut name = name_of(&path.to_string_lossy().replace('/', "::"));
            if name.last().is_some_and(|last| ["lib", "main", "mod"].contains(&last.as_str())) {
                name.pop();
            }
            texts.insert(name, text);
        }
        let for_tests: Vec<Name> = texts.iter().flat_map(|(name, text)| declared_for_tests(name, text)).collect();
        texts.retain(|name, _| !for_tests.iter().any(|own| name.starts_with(own)));
        Self(texts.into_iter().map(|(name, text)| (name, Module::read(&text))).collect())
    }

    /// The path from the root of what is written so in this module; `None`: it stands in another crate.
    fn absolute(&self, module: &[String], written: &[String]) -> Option<Name> {
        let (first, rest) = written.split_first()?;
        let mut from = module.to_vec();
        match first.as_str() {
            "crate" => from.clear(),
            "self" => {}
            "super" => drop(from.pop()),
            child => {
                from.push(child.to_owned());
                if !self.0.contains_key(&from) {
                    return None;
                }
            }
        }
        let above = rest.iter().take_while(|part| *part == "super").count();
        from.truncate(from.len().saturating_sub(above));
        Some([&from, &rest[above..]].concat())
    }

    /// The module in which an item is defined, through those that pass it on; `None`: in another crate.
    fn home(&self, mut item: Name) -> Option<Name> {
        // More steps than any name takes: an import may name itself in a circle.
        for _ in 0..16 {
            let depth = (0..=item.len()).rev().find(|depth| self.0.contains_key(&item[..*depth])).unwrap_or(0);
            let (module, rest) = item.split_at(depth);
            let imported = |first: &String| self.0.get(module)?.imported.get(first);
            let Some(written) = rest.first().and_then(imported) else {
                return Some(module.to_vec());
            };
            item = [&self.absolute(module, written)?, &rest[1..]].concat();
        }
        None
    }

    /// The modules that each module needs.
    fn graph(&self) -> BTreeMap<&Name, BTreeSet<Name>> {
        let needs = |(name, module): (&'_ Name, &Module)| {
            let homes = module.named.iter().filter_map(|written| self.home(self.absolute(name, written)?));
            homes.filter(|home| home != name && self.0.contains_key(home)).collect::<BTreeSet<_>>()
        };
        self.0.iter().map(|(name, module)| (name, needs((name, module)))).collect()
    }

    /// The largest set of modules each of which needs all others, by way of some or directly.
    fn largest_circle(&self) -> Vec<String> {
        let graph = self.graph();
        let reached = |from: &Name| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
            while let Some(next) = open.pop() {
                open.extend(graph[&next].iter().filter(|one| seen.insert((*one).clone())).cloned());
            }
            seen
        };
        let all: BTreeMap<&Name, BTreeSet<Name>> = self.0.keys().map(|name| (name, reached(name))).collect();
        let circle = |name: &&Name| all[*name].iter().filter(|one| all[*one].contains(*name)).cloned().collect();
        let circles = self.0.keys().map(|name| circle(&name));
        let largest: Vec<Name> = circles.max_by_key(Vec::len).unwrap_or_default();
        largest.iter().map(|name| name.join("::")).collect()
    }
}

/// Modules that are compiled for tests alone.
fn declared_for_tests(module: &[String], text: &str) -> Vec<Name> {
    let mut found = Vec::new();
    let mut for_tests = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[") {
            for_tests |= line == "#[cfg(test)]" || line.starts_with("#[cfg(any(test,");
            continue;
        }
        let name = line.strip_suffix(';').and_then(|line| line.rsplit_once("mod ")).map(|(_, name)| name);
        if let (true, Some(name)) = (for_tests, name) {
            found.push([module, &[name.to_owned()]].concat());
        }
        for_tests = false;
    }
    found
}

#[test]
fn circles_of_modules_are_small() {
    for folder in ["crates", "features"] {
        let mut crates: Vec<_> = std::fs::read_dir(root().join(folder)).unwrap().map(|one| one.unwrap()).collect();
        crates.sort_by_key(std::fs::DirEntry::file_name);
        for one in crates.into_iter().filter(|one| one.path().join("src/lib.rs").exists()) {
            let name = format!("{folder}/{}", one.file_name().to_string_lossy());
            let modules = Crate::read(&one.path().join("src"));
            let circle = modules.largest_circle();
            println!("{name}: {} modules, {} in the largest circle", modules.0.len(), circle.len());
            assert!(circle.len() <= MOST, "{name}: more than {MOST} modules need each other: {circle:#?}");
        }
    }
}

#[test]
fn an_import_is_followed_to_where_it_stands() {
    let module = |text: &str| Module::read(text);
    let name = |text: &str| name_of(text);
    let list = module("mod shape;\nmod square;\npub use shape::Shape;\nstatic ALL: &[&Shape] = &[&square::SQUARE];\n");
    let square = module("use super::Shape;\n// use crate::other;\npub const SQUARE: Shape = Shape;\n");
    let modules = [(name(""), list), (name("shape"), module("pub struct Shape;\n")), (name("square"), square)];
    let small = Crate(modules.into_iter().collect());
    assert_eq!(small.graph()[&name("square")], BTreeSet::from([name("shape")]));
    assert_eq!(small.graph()[&name("")], BTreeSet::from([name("square")]));
    assert!(small.largest_circle().is_empty());
    let round = [(name("a"), module("use crate::b::{self, B};\n")), (name("b"), module("type A = crate::a::A;\n"))];
    assert_eq!(Crate(round.into_iter().collect()).largest_circle(), ["a", "b"]);
    assert_eq!(declared_for_tests(&[], "#[cfg(test)]\nmod tests;\nmod other;\n"), [name("tests")]);
}
