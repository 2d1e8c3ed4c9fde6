//! One quantity has one value: what the screen, the page, the exports and the JSON of a run say of a case is gathered by case and quantity
//! and must be the same text everywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use msgpath_analyse::testing::Build;
use msgpath_analyse::{Summary, summarise};
use msgpath_core::units::{BitUnits, Glyphs, bits_per_second, size};
use msgpath_record::Run;
use serde_json::Value;

use crate::export::EXPORTERS;
use crate::html::{Scene, report};
use crate::json::summary_json;
use crate::terminal::{Style, compare, echo, stream};
use crate::words;

const G: Glyphs = Glyphs::Unicode;

/// Heads of columns and of rows, and the quantity that they name.
const QUANTITIES: &[(&str, &str)] = &[
    ("fastest", "fastest"),
    ("p50", "p50"),
    ("p90", "p90"),
    ("p99", "p99"),
    ("p99.9", "p99.9"),
    ("p99.99", "p99.99"),
    ("slowest", "slowest"),
    ("lost", "lost"),
    ("rate", "rate"),
    ("receiver", "receiver"),
    ("throughput", "receiver"),
    ("sender", "sender"),
    ("message rate", "message rate"),
];

/// By case and quantity: each text, and where it stands.
type Seen = BTreeMap<(u32, &'static str), BTreeMap<String, BTreeSet<String>>>;

struct Walk<'a> {
    summary: &'a Summary,
    seen: Seen,
}

fn quantity(head: &str) -> Option<&'static str> {
    QUANTITIES.iter().find(|(name, _)| *name == head).map(|(_, quantity)| *quantity)
}

/// Whether a cell holds a number with its unit, or a count: no range, no ratio, no word.
fn is_value(cell: &str) -> bool {
    let mut words = cell.split(' ');
    let number = words.next().is_some_and(|word| word.parse::<f64>().is_ok());
    number && words.clone().count() <= 1 && words.all(|unit| unit.chars().all(|c| c.is_alphabetic() || c == '/'))
}

impl Walk<'_> {
    /// The case that a row is of, by the path and the size in its first cells; `None`: of none or of several.
    fn case(&self, row: &str) -> Option<u32> {
        let measured = || crate::view::measured(self.summary).into_iter().map(|own| &own.case);
        let has = |word: &str| row.split([' ', ',', '|']).any(|part| part == word);
        let several = measured().count() > 1;
        let of_row = measured().filter(|case| {
            !several || has(&case.path.to_string()) && (row.contains(&size(case.size)) || has(&case.size.to_string()))
        });
        let ids: Vec<u32> = of_row.map(|case| case.id).collect();
        (ids.len() == 1).then(|| ids[0])
    }

    fn add(&mut self, case: Option<u32>, quantity: Option<&'static str>, text: &str, at: &str) {
        if let (Some(case), Some(quantity), true) = (case, quantity, is_value(text)) {
            let texts = self.seen.entry((case, quantity)).or_default();
            texts.entry(text.to_owned()).or_default().insert(at.to_owned());
        }
    }

    /// A table of a page or of Markdown: heads that name quantities, or rows that do.
    fn table(&mut self, rows: &[Vec<String>], at: &str) {
        let Some((heads, rows)) = rows.split_first() else { return };
        // Quantities of rounds and of spans of time are named alike.
        let is = |at: usize, names: &[&str]| heads.get(at).is_some_and(|head| names.contains(&head.as_str()));
        let of_cases = is(0, &["case", "path"]) && !is(1, &["round", "from"]);
        for row in rows.iter().filter(|_| of_cases) {
            let case = self.case(&row.iter().take(3).cloned().collect::<Vec<_>>().join(", "));
            for (head, cell) in heads.iter().zip(row).skip(1) {
                self.add(case, quantity(head), cell, &format!("{at}, column {head}"));
            }
        }
    }

    fn page(&mut self, html: &str) {
        let plain = |cell: &str| {
            let cell = cell.split_once('>').map_or("", |(_, rest)| rest);
            let own = cell.split("<span class=\"i\">").next().unwrap_or_default();
            own.split('<')
                .map(|part| part.split_once('>').map_or(part, |(_, text)| text))
                .collect::<String>()
                .trim()
                .to_owned()
        };
        for table in html.split("<table").skip(1).filter_map(|rest| rest.split("</table>").next()) {
            let cells = |row: &str| row.replace("<th", "<td").split("<td").skip(1).map(plain).collect::<Vec<_>>();
            let rows: Vec<Vec<String>> = table.split("<tr>").skip(1).map(cells).collect();
            self.table(&rows, "page");
        }
    }

    /// Tables of a terminal: cells lie under their heads, two blanks apart.
    fn screen(&mut self, text: &str) {
        let mut heads: Vec<(usize, String)> = Vec::new();
        for line in text.lines() {
            let cells = cells(line);
            let Some((_, first)) = cells.first() else {
                heads.clear();
                continue;
            };
            if cells.iter().skip(1).any(|(_, cell)| quantity(cell).is_some()) {
                heads = cells;
                continue;
            }
            // The block of a single case: rows are quantities.
            if let (Some(own), Some((_, value))) = (quantity(first), cells.get(1)) {
                let case = self.case("");
                self.add(case, Some(own), value, "screen, row");
            }
            let case = self.case(first);
            for (end, cell) in &cells[1..] {
                let head = heads.iter().find(|(at, _)| at == end).map(|(_, head)| head.clone());
                self.add(case, head.as_deref().and_then(quantity), cell, "screen, column");
            }
        }
    }

    fn json(&mut self, json: &Value) {
        for own in json["cases"].as_array().unwrap() {
            let case = own["case"]["id"].as_u64().map(|id| id as u32).filter(|_| own["case"]["role"] == "measured");
            let mut add = |name: &'static str, text: Option<String>| {
                if let Some(text) = text {
                    self.add(case, quantity(name), &text, "JSON");
                }
            };
            let time = |value: &Value| value.as_f64().map(|ns| G.time(ns));
            add("fastest", time(&own["fastest_ns"]));
            add("slowest", time(&own["slowest_ns"]));
            for (at, name) in ["p50", "p90", "p99", "p99.9", "p99.99"].into_iter().enumerate() {
                let quantile = &own["quantiles"][at];
                add(name, time(&quantile["ns"]).filter(|_| quantile["range"] != "not_yet"));
            }
            add("lost", own["delivery"]["lost"].as_u64().map(|lost| lost.to_string()));
            add("rate", own["rate_per_s"]["value"].as_f64().map(words::per_second));
            let through = &own["throughput"];
            let bits = |value: &Value| value["value"].as_f64().map(|bits| bits_per_second(bits, BitUnits::Si));
            add("receiver", bits(&through["receiver_bits_per_s"]));
            add("sender", bits(&through["sender_bits_per_s"]));
            add("message rate", through["messages_per_s"]["value"].as_f64().map(words::per_second));
        }
    }
}

/// The cells of a line and where they end.
fn cells(line: &str) -> Vec<(usize, String)> {
    let chars: Vec<char> = line.chars().collect();
    let mut cells: Vec<(usize, String)> = Vec::new();
    let mut blanks = 2;
    for (at, c) in chars.iter().enumerate() {
        match c {
            ' ' => blanks += 1,
            _ => {
                match cells.last_mut() {
                    Some((_, cell)) if blanks < 2 => cell.push_str(&format!("{}{c}", " ".repeat(blanks))),
                    _ => cells.push((0, c.to_string())),
                }
                blanks = 0;
            }
        }
        if let Some(last) = cells.last_mut().filter(|_| blanks == 0) {
            last.0 = at;
        }
    }
    cells
}

/// The quantities that were seen in more than one place; every one has one value. `change`: what becomes of the JSON before.
fn walked(run: &Run, change: impl Fn(&mut Value)) -> BTreeSet<&'static str> {
    let summary = summarise(run);
    let mut walk = Walk { summary: &summary, seen: Seen::new() };
    let style = Style { width: 200, verbose: true, ..Style::default() };
    walk.screen(&echo(run, &summary, style));
    walk.screen(&compare(run, &summary, style));
    walk.screen(&stream(run, &summary, style, BitUnits::Si));
    walk.page(&report(&Scene::new(run, &summary)));
    for exporter in EXPORTERS.iter().filter(|exporter| exporter.name == "github-summary") {
        let text = (exporter.text)(run, &summary);
        let row = |line: &str| line.split('|').skip(1).map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
        let rows: Vec<_> =
            text.lines().filter(|line| line.starts_with("| ") && !line.contains("|---")).map(row).collect();
        walk.table(&rows, exporter.name);
    }
    let mut json = serde_json::from_str(&summary_json(run, &summary)).unwrap();
    change(&mut json);
    walk.json(&json);
    for ((case, quantity), texts) in &walk.seen {
        assert_eq!(texts.len(), 1, "case {case} has several values of {quantity}: {texts:#?}");
    }
    let places = |texts: &BTreeMap<String, BTreeSet<String>>| texts.values().map(BTreeSet::len).sum::<usize>();
    walk.seen.iter().filter(|(_, texts)| places(texts) > 1).map(|((_, quantity), _)| *quantity).collect()
}

#[test]
fn a_quantity_has_one_value_on_screen_page_and_in_json() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../record/tests/golden/run-3-block-4");
    walked(&msgpath_record::read(&golden).unwrap(), |_| ());
    let timed = ["p50", "p99", "lost", "rate"];
    let streamed = ["receiver", "sender", "message rate"];
    let runs: [(Run, &[&str]); 5] = [
        (Build::echo(&["tcp:send"], &[64]).messages(2_000).run(), &["p50", "p99", "fastest", "slowest"]),
        (Build::echo(&["tcp:send"], &[64, 4096]).messages(2_000).run(), &timed),
        (Build::echo(&["tcp:send", "unix:send"], &[64]).messages(2_000).run(), &timed),
        (Build::stream(&["tcp:send", "tcp:writev"], &[1000]).run(), &streamed),
        (Build::stream(&["tcp:send"], &[1000, 4096]).reverse().run(), &streamed),
    ];
    for (at, (run, expected)) in runs.iter().enumerate() {
        let found = walked(run, |_| ());
        assert!(expected.iter().all(|quantity| found.contains(quantity)), "run {at}: {expected:?} of {found:?}");
    }
}

#[test]
#[should_panic(expected = "case 0 has several values of p99")]
fn a_second_value_is_found() {
    let run = Build::echo(&["tcp:send"], &[64]).messages(2_000).run();
    walked(&run, |json| json["cases"][0]["quantiles"][2]["ns"] = 1.into());
}
