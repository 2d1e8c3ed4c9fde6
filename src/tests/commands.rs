//! Every command that the book, the sources and findings tell to type is parsed by the program's own parser.

use msgpath_verbs::command::{command, planned};

use crate::FEATURES;

/// The words behind `msgpath` in a line of a shell; `None`: it starts another program.
fn in_a_shell(line: &str) -> Option<Vec<String>> {
    let line = line.trim_start().trim_start_matches("$ ");
    let behind = ["docker ", "sudo ", "XDG_"].iter().any(|other| line.starts_with(other));
    let rest = match line.strip_prefix("msgpath ") {
        Some(rest) => rest,
        None => line.split_once(" msgpath ").filter(|_| behind)?.1,
    };
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for letter in rest.chars().chain([' ']) {
        match letter {
            '\'' => quoted = !quoted,
            '#' | '>' | '|' | '&' | ';' if !quoted && word.is_empty() => break,
            ' ' if !quoted && word.is_empty() => {}
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            letter => word.push(letter),
        }
    }
    Some(words)
}

/// All files below a folder of the project with this ending, but those of tests.
fn files(folder: &str, ending: &str) -> Vec<std::path::PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)]);
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && !["tests", "snapshots", "examples"].contains(&name) {
                folders.push(path);
            } else if name.ends_with(ending) && !name.contains("test") {
                found.push(path);
            }
        }
    }
    found
}

/// What is wrong with the commands of these lines, each with where it stands; how many there are.
fn faults(lines: impl Iterator<Item = (String, String)>) -> (Vec<String>, usize) {
    let (mut faults, mut count) = (Vec::new(), 0);
    for (place, line) in lines {
        // What is behind two blanks explains the command.
        let Some(words) = in_a_shell(line.trim_start().split("  ").next().unwrap_or_default()) else { continue };
        // What stands for something, a list of alternatives, and what prints a text are no plans.
        let text = ["--version", "--help", "-h"].iter().any(|word| words.iter().any(|own| own == word));
        if words.is_empty()
            || text
            || line.contains("...")
            || line.contains('[')
            || line.contains('\\')
            || line.contains("-file")
        {
            continue;
        }
        if !cfg!(feature = "layers") && line.contains("--layers ")
            || !cfg!(feature = "postgres") && line.contains("postgres://")
        {
            continue;
        }
        count += 1;
        if let Err(problem) = planned(&words) {
            faults.push(format!("{place}: {line}: {problem}"));
        }
    }
    (faults, count)
}

#[test]
fn every_command_that_the_book_tells_to_type_parses() {
    msgpath_verbs::begin(FEATURES);
    assert_eq!(in_a_shell("$ msgpath diff a b --fail-if 'p99 > +5%'  # c").unwrap().len(), 5);
    assert!(in_a_shell("cargo run -- msgpath echo").is_none() && in_a_shell("sudo msgpath echo").is_some());
    let mut lines = Vec::new();
    for page in
        files("docs", ".md").into_iter().chain([std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")])
    {
        let (text, mut fenced) = (std::fs::read_to_string(&page).unwrap(), false);
        for (at, line) in text.lines().enumerate() {
            fenced ^= line.starts_with("```");
            if fenced || line.starts_with("    ") {
                lines.push((format!("{}:{}", page.display(), at + 1), line.to_owned()));
            }
        }
    }
    let (faults, count) = faults(lines.into_iter());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(count > 60, "only {count} commands were found: they are looked for in the wrong way");
}

/// Examples of every help page, and the next steps of sentences and answers that are written out.
#[test]
fn every_command_that_the_program_proposes_parses() {
    msgpath_verbs::begin(FEATURES);
    let mut lines = Vec::new();
    for verb in command().get_subcommands_mut() {
        let (name, text) = (verb.get_name().to_owned(), verb.render_long_help().to_string());
        lines.extend(
            text.lines().filter(|line| line.starts_with("  ")).map(|line| (format!("{name} --help"), line.to_owned())),
        );
    }
    let sources = files("crates/analyse/src/findings", ".rs").into_iter().chain(files("features/courses/src", ".rs"));
    for file in sources {
        let text = std::fs::read_to_string(&file).unwrap();
        let own = text.split("#[cfg(test)]").next().unwrap_or_default();
        // The next step of a sentence or of an answer, where it stands or as a constant: a text that is a command and nothing else.
        let next = own.split('"').zip(own.split('"').skip(1));
        let is_next = |before: &str| {
            before.ends_with("vec![") || before.ends_with(".next(") || before.trim_end().ends_with(": &str =")
        };
        for (_, quoted) in next.filter(|(before, quoted)| is_next(before) && !quoted.starts_with("msgpath received")) {
            if quoted.contains("msgpath ") && !quoted.contains('{') {
                lines.push((file.display().to_string(), quoted.to_owned()));
            }
        }
    }
    let (faults, count) = faults(lines.into_iter());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(count > 60, "only {count} commands were found: they are looked for in the wrong way");
}

/// The texts in quotes of a source, escapes resolved as far as they matter here.
fn quoted(source: &str) -> Vec<String> {
    let (mut texts, mut text, mut letters) = (Vec::new(), None::<String>, source.chars().peekable());
    while let Some(letter) = letters.next() {
        match (&mut text, letter) {
            (None, '\'') if letters.peek() == Some(&'"') => drop(letters.next()),
            (None, '"') => text = Some(String::new()),
            (None, '/') if letters.peek() == Some(&'/') => drop(letters.by_ref().find(|letter| *letter == '\n')),
            (None, _) => {}
            (Some(_), '"') => texts.extend(text.take()),
            (Some(own), '\\') => match letters.next() {
                Some('n') => own.push('\n'),
                Some('\n') => while letters.next_if(|letter| letter.is_whitespace()).is_some() {},
                Some(other) => own.push(other),
                None => {}
            },
            (Some(own), letter) => own.push(letter),
        }
    }
    texts
}

/// The command that a text consists of, up to where its explanation begins; `None`: it is none.
fn whole_command(text: &str) -> Option<String> {
    let rest = text.trim_start().strip_prefix("sudo ").unwrap_or(text.trim_start());
    let verb = rest.strip_prefix("msgpath ")?.split(' ').next()?;
    command().get_subcommands().find(|known| known.get_name() == verb)?;
    let ends = ["  ", ", ", "; ", ": ", " or ", "\n"];
    let end = ends.iter().filter_map(|end| rest.find(end)).min().unwrap_or(rest.len());
    Some(rest[..end].to_owned())
}

/// The commands of a text: the one that it consists of, and those that stand in it behind a colon or in brackets.
fn commands_of(text: &str) -> Vec<String> {
    let inside = [": msgpath ", "(msgpath ", ": sudo msgpath "].into_iter().flat_map(|begin| {
        text.match_indices(begin).filter_map(|(at, begin)| {
            let text = &text[at + begin.len() - "msgpath ".len()..];
            let ends = [")", " for ", " takes ", " reads ", " does", " says ", ". ", "`"];
            let end = ends.iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len());
            whole_command(text[..end].trim_end_matches('.'))
        })
    });
    whole_command(text).into_iter().chain(inside).collect()
}

/// The text with something in each of its holes, in several ways.
fn filled(text: &str) -> Vec<String> {
    let fill = |value: &str| {
        let (mut out, mut inside) = (String::new(), false);
        for letter in text.replace("{{", "\u{1}").replace("}}", "\u{2}").chars() {
            match letter {
                '{' => {
                    inside = true;
                    out.push_str(value);
                }
                '}' => inside = false,
                letter if !inside => out.push(letter),
                _ => {}
            }
        }
        out.replace('\u{1}', "{").replace('\u{2}', "}")
    };
    let named = |line: String| {
        line.replace("--memory SIZE", "--memory 4M")
            .replace("HOST:PORT", "10.0.0.2:5210")
            .replace("HOST", "10.0.0.2")
            .replace("SIZE", "4K")
            .replace("PORT", "5210")
    };
    ["brisk-otter", "10.0.0.2:5210", "5", "tcp:send", "p99 > 1ms", "csv"].map(fill).map(named).into()
}

#[test]
fn commands_in_a_sentence_are_found() {
    msgpath_verbs::begin(FEATURES);
    let of = |text: &str| commands_of(text).join("|");
    assert_eq!(of("on one machine: msgpath echo -x {name}"), "msgpath echo -x {name}");
    assert_eq!(of("as it was (msgpath lab status): all of it"), "msgpath lab status");
    assert_eq!(of("msgpath show {name} -W"), "msgpath show {name} -W");
    assert_eq!(
        of("more: msgpath paths {one}, each with what it does; msgpath received nothing"),
        "msgpath paths {one}"
    );
}

/// Every command in a text of the sources, with something in the place of what is not known before.
#[test]
fn every_command_in_a_text_of_the_program_parses() {
    msgpath_verbs::begin(FEATURES);
    let (mut wrong, mut count) = (Vec::new(), 0);
    let sources = files("crates", ".rs").into_iter().chain(files("features", ".rs"));
    // Those of courses are planned in its own tests, with the words that a preset adds.
    let of_courses = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("features/courses");
    for file in sources.filter(|file| !file.ends_with("fixture.rs") && !file.starts_with(&of_courses)) {
        let source = std::fs::read_to_string(&file).unwrap();
        let own = source.split("#[cfg(test)]").next().unwrap_or_default();
        for command in quoted(own).iter().flat_map(|text| commands_of(text)) {
            let ways: Vec<_> = filled(&command)
                .into_iter()
                .map(|line| faults(std::iter::once((file.display().to_string(), line))))
                .collect();
            count += ways[0].1;
            if ways.iter().all(|(faults, _)| !faults.is_empty()) {
                wrong.push(ways[0].0.join("\n"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 40, "only {count} commands were found: they are looked for in the wrong way");
}

#[test]
#[cfg(all(feature = "calls", feature = "courses"))]
fn what_measures_who_answers_parses() {
    use msgpath_run::who::Who;
    msgpath_verbs::begin(FEATURES);
    for who in [Who::Msgpath, Who::Pinged("an RPC server of the lab"), Who::Http, Who::Redis, Who::Echo] {
        let (faults, count) = faults(std::iter::once((who.to_string(), who.verb("localhost", 7000))));
        assert!(faults.is_empty() && count == 1, "{faults:?}");
    }
}
