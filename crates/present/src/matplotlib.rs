//! The run as a Python script with the literal values, for people who must hand one in. It needs matplotlib only.

use std::fmt::Write;

use msgpath_analyse::Summary;
use msgpath_analyse::summary::CaseSummary;
use msgpath_record::Run;

use crate::{view, words};

/// What the script does with its numbers: the same for every run.
const DRAWING: &str = include_str!("matplotlib.py");

/// The script. Every text of others stands in a Python literal of ASCII characters, never in a comment.
pub fn script(run: &Run, summary: &Summary) -> String {
    let mut out = String::from(
        "#!/usr/bin/env python3\n\
         # Numbers of a run of msgpath. Times are ns; ranges are 95 % intervals over rounds, or wider; None: not known, or lost.\n\
         # Needs matplotlib: python3 -m pip install matplotlib\n",
    );
    let put = |out: &mut String, name: &str, value: &str| {
        let _ = writeln!(out, "{name} = {}", literal(value));
    };
    put(&mut out, "RUN", &format!("msgpath {} {}, {}", summary.verb, summary.name, summary.target));
    put(&mut out, "STARTED", &run.header.started);
    put(&mut out, "COMMAND", &run.header.command.join(" "));
    out += "CASES = [\n";
    for case in view::measured(summary) {
        let _ = writeln!(out, "    {{{}, \"messages\": {}, {}}},", identity(case), case.messages, numbers(case));
    }
    out += "]\n";
    let comparison = summary.comparison.as_ref();
    put(&mut out, "BASELINE", &comparison.map_or_else(String::new, |comparison| comparison.baseline.to_string()));
    put(&mut out, "METRIC", comparison.map_or("", |comparison| &comparison.metric));
    out += "RATIOS = [\n";
    for ratio in comparison.iter().flat_map(|comparison| &comparison.ratios) {
        let Some(case) = summary.cases.iter().find(|case| case.case.id == ratio.case) else { continue };
        let values = [Some(ratio.ratio), ratio.low, ratio.high].map(number);
        let _ = writeln!(
            out,
            "    {{{}, \"ratio\": {}, \"low\": {}, \"high\": {}}},",
            identity(case),
            values[0],
            values[1],
            values[2]
        );
    }
    out + "]\n\n" + DRAWING
}

fn identity(summary: &CaseSummary) -> String {
    let case = &summary.case;
    let message = match case.load.rate() {
        Some(rate) => format!("{} at {rate}", words::message(case)),
        None => words::message(case),
    };
    format!(
        "\"path\": {}, \"message\": {}, \"size\": {}, \"threads\": {}",
        literal(&case.path.to_string()),
        literal(&message),
        number(case.has_size().then_some(case.size as f64)),
        case.threads
    )
}

fn numbers(case: &CaseSummary) -> String {
    let integer = |ns: Option<u64>| ns.map_or_else(|| "None".into(), |ns| ns.to_string());
    let quantiles: Vec<String> = case
        .latency
        .quantiles
        .iter()
        .map(|q| {
            let [low, high] = [q.lo_ns, q.hi_ns].map(&integer);
            format!("({}, {}, {low}, {high})", q.p, integer(q.ns))
        })
        .collect();
    let bits = case.throughput.as_ref().map_or_else(
        || "None".into(),
        |throughput| {
            let bits = &throughput.receiver_bits;
            format!("({}, {}, {})", number(Some(bits.value)), number(bits.low), number(bits.high))
        },
    );
    format!("\"quantiles\": [{}], \"bits_per_s\": {bits}", quantiles.join(", "))
}

/// A number; `None` where there is none, or none that can be drawn.
fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or_else(|| "None".into(), |value| value.to_string())
}

/// `text` as a Python literal of printable ASCII characters.
fn literal(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            c => {
                let _ = write!(out, "\\U{:08x}", u32::from(c));
            }
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Command, Output};

    use super::*;
    use crate::fixture;

    /// Runs Python in `place`; `None`, and a line that says so, where there is none.
    fn python(place: &Path, arguments: &[&str]) -> Option<Output> {
        let output = Command::new("python3").current_dir(place).args(arguments).output();
        if output.is_err() {
            eprintln!("skipped: no python3");
        }
        output.ok()
    }

    /// In place of matplotlib: takes every call, and notes the numbers that are drawn and the labels.
    const STAND_IN: &str = r#"
import sys, types
class Anything:
    def __call__(self, *values, **named):
        for value in values + tuple(named.get(name) for name in ("label", "yerr")):
            if isinstance(value, (list, str)):
                print(repr(value))
        return self
    def __getattr__(self, name): return self
    def __getitem__(self, at): return self
    def __iter__(self): return iter((self, self))
for name in ("matplotlib", "matplotlib.pyplot"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__getattr__ = lambda name: Anything()
sys.modules["matplotlib"].pyplot = sys.modules["matplotlib.pyplot"]
sys.argv = ["run.py", "out.pdf"]
exec(compile(open("run.py").read(), "run.py", "exec"))
"#;

    #[test]
    fn the_script_is_python_and_runs() {
        let every = [
            fixture::echo(),
            fixture::echo_sizes(),
            fixture::compare(),
            fixture::shapes(),
            fixture::stream(),
            fixture::hostile(),
        ];
        for (run, summary) in every {
            let place = tempfile::tempdir().unwrap();
            std::fs::write(place.path().join("run.py"), script(&run, &summary)).unwrap();
            std::fs::write(place.path().join("stand_in.py"), STAND_IN).unwrap();
            for arguments in [["-m", "py_compile", "run.py"].as_slice(), &["stand_in.py"]] {
                let Some(output) = python(place.path(), arguments) else { return };
                let errors = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{}: {errors}", summary.verb);
                let drawn = String::from_utf8_lossy(&output.stdout).into_owned();
                if summary.verb == "compare" && arguments == ["stand_in.py"] {
                    assert!(drawn.contains("'tcp:writev x2'") && drawn.contains("[64, 256, 1024"), "{drawn}");
                }
            }
        }
    }

    #[test]
    fn the_values_stand_in_the_script() {
        let (run, summary) = fixture::echo();
        let text = script(&run, &summary);
        let p50 = &summary.cases[0].latency.quantiles[0];
        let [ns, low, high] = [p50.ns, p50.lo_ns, p50.hi_ns].map(Option::unwrap);
        assert!(text.contains(&format!("\"quantiles\": [(0.5, {ns}, {low}, {high}), (0.9, ")), "{text}");
        assert!(text.contains(", None)]"), "an end that is not known is None");
        assert!(text.contains("\"bits_per_s\": None"));
    }

    #[test]
    fn text_of_others_stays_a_literal() {
        assert_eq!(literal("a\"b\\c'\n\u{2028}é$"), r#""a\"b\\c'\U0000000a\U00002028\U000000e9$""#);
        let (mut run, mut summary) = fixture::hostile();
        let hostile = "\"\"\"\\\"\n__import__('os').system('touch hostile') #\r\u{85}${x}";
        (summary.name, summary.target, run.header.started) = (hostile.into(), hostile.into(), hostile.into());
        run.header.command = vec![hostile.into()];
        let text = script(&run, &summary);
        assert!(text.is_ascii() && !text.contains('\r'));
        assert_eq!(text.lines().filter(|line| line.starts_with("__import__")).count(), 0);
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("run.py"), &text).unwrap();
        let read = "import ast, sys\n\
                    tree = ast.parse(open('run.py').read())\n\
                    names = {n.targets[0].id: n.value for n in tree.body if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)}\n\
                    sys.stdout.buffer.write(ast.literal_eval(names['COMMAND']).encode())";
        let Some(output) = python(place.path(), &["-c", read]) else { return };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), hostile);
    }
}
