//! The primitives lab's own CSV, every number in long form, and its plotting script with literal values.

use msgpath_core::foreign::cell;
use msgpath_core::schema::NEAR;
use std::fmt::Write;

use crate::answers::ladder::{self, End, Event, Row};
use crate::answers::{Part, part};
use msgpath_stats::estimate::Estimate;

use super::File;

/// What the script does with its numbers: the same for every run.
const DRAWING: &str = include_str!("copy_ladder.py");

pub(super) fn write(parts: &[Part<'_>]) -> Vec<File> {
    let grid = part(parts, "grid").map(ladder::rows).unwrap_or_default();
    let all: Vec<Row<'_>> = parts.iter().flat_map(|part| ladder::rows(*part)).collect();
    let mut extras = vec![File { name: "msgpath.csv".into(), text: long(&all) }];
    if !grid.is_empty() {
        extras.push(File { name: "course.csv".into(), text: course(&grid) });
        extras.push(File { name: "plots.py".into(), text: script(&grid) });
    }
    extras
}

/// A finite number, or nothing.
fn plain(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or_else(String::new, |value| value.to_string())
}

/// One row a case, in the columns of the lab. Counters are those of the near end, the lab's client, over all measured
/// messages; switches come from getrusage. What was not counted is empty.
fn course(rows: &[Row<'_>]) -> String {
    let mut out = String::from(
        "impl,msg_size,threads,throughput_gbps,avg_latency_us,cycles,l1_misses,llc_misses,context_switches,latency_def,\
         perf_side,zc_copied_pct,runs\n",
    );
    for row in rows {
        let case = row.case;
        let messages = case.messages as f64;
        let all = |event: Event| plain(row.event(End::Near, event).ok().map(|each| (each.value * messages).round()));
        let switches = (case.end(NEAR).cost.voluntary + case.end(NEAR).cost.involuntary) * messages;
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},rtt_mean,near,{},{}",
            row.method.name,
            case.case.size,
            case.case.threads,
            plain(row.bits().map(|bits| bits.value / 1e9)),
            plain(case.latency.mean_ns.map(|ns| ns / 1e3)),
            all(Event::Cycles),
            all(Event::L1),
            all(Event::LastLevel),
            switches.round(),
            plain(row.copied_share().map(|share| share * 100.0)),
            case.rounds
        );
    }
    out
}

/// A field of a CSV file.
fn quoted(text: &str) -> String {
    let text = cell(text);
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into_owned() }
}

/// One row for each case and metric, with its interval, its unit, and why it is missing.
fn long(rows: &[Row<'_>]) -> String {
    let mut out = String::from("run,impl,path,size_bytes,pieces,threads,metric,value,low,high,unit,why_missing\n");
    let one = |value: f64| Estimate { value, low: None, high: None };
    for row in rows {
        let case = row.case;
        let mut metrics: Vec<(String, Result<Estimate, String>, &str)> = vec![
            ("throughput".into(), row.bits().ok_or_else(|| "no rate".into()), "bit/s"),
            (
                "p50".into(),
                row.p50()
                    .map(|p50| Estimate { value: p50.value, low: p50.low, high: p50.high })
                    .ok_or_else(|| "no median".into()),
                "ns",
            ),
            ("mean".into(), case.latency.mean_ns.map(one).ok_or_else(|| "no mean".into()), "ns"),
            ("implied_in_flight".into(), row.in_flight().map(one).ok_or_else(|| "no mean".into()), "messages"),
            ("send_calls".into(), row.send_calls().map(one).ok_or_else(|| "no message".into()), "calls/message"),
            ("copied".into(), case.copied.bytes.map(one).ok_or_else(|| case.copied.why.clone()), "bytes/message"),
            ("cpu_both_ends".into(), Ok(one(row.cpu_ns())), "ns/message"),
            (
                "copied_after_all".into(),
                row.copied_share().map(one).ok_or_else(|| "no zero-copy send was answered".into()),
                "share",
            ),
        ];
        for end in End::BOTH {
            for event in [Event::Cycles, Event::L1, Event::LastLevel, Event::Switches] {
                metrics.push((format!("{} {}", event.name(), end.name()), row.event(end, event), "events/message"));
            }
            metrics.push((format!("cycles_per_byte {}", end.name()), row.cycles_per_byte(end), "cycles/byte"));
        }
        for (metric, value, unit) in metrics {
            let (value, why) = match value {
                Ok(value) => (value, String::new()),
                Err(why) => (Estimate { value: f64::NAN, low: None, high: None }, why),
            };
            let fields = [
                quoted(row.part.name),
                row.method.name.into(),
                quoted(&case.case.path.to_string()),
                case.case.size.to_string(),
                case.case.pieces.to_string(),
                case.case.threads.to_string(),
                metric,
                plain(Some(value.value)),
                plain(value.low),
                plain(value.high),
                unit.into(),
                quoted(&why),
            ];
            out += &(fields.join(",") + "\n");
        }
    }
    out
}

/// `None` where there is no number.
fn literal(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or_else(|| "None".into(), |value| value.to_string())
}

/// `(value, low, high)`.
fn triple(estimate: Option<&Estimate>, unit: f64) -> String {
    let of = |value: Option<f64>| literal(value.map(|value| value / unit));
    match estimate {
        Some(one) => format!("({}, {}, {})", of(Some(one.value)), of(one.low), of(one.high)),
        None => "None".into(),
    }
}

/// The script. Its numbers are literal, its names come from this program.
fn script(rows: &[Row<'_>]) -> String {
    let mut out = String::from(
        "#!/usr/bin/env python3\n\
         # The six plots of the primitives lab, with literal values measured by msgpath. Needs matplotlib only.\n\
         # A value is (value, low, high) with its 95 % interval over rounds; None: not counted, or no interval.\n\
         # Columns: method, bytes, threads, Gbit/s, median round trip in us, L1 misses and LLC misses a message (near end),\n\
         # cycles a byte (near end).\n\
         ROWS = [\n",
    );
    for row in rows {
        let p50 = row.p50().map(|p50| Estimate { value: p50.value, low: p50.low, high: p50.high });
        let event = |event| row.event(End::Near, event).ok();
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "    (\"{}\", {}, {}, {}, {}, {}, {}, {}),",
            row.method.name,
            row.case.case.size,
            row.case.case.threads,
            triple(row.bits().as_ref(), 1e9),
            triple(p50.as_ref(), 1e3),
            triple(event(Event::L1).as_ref(), 1.0),
            triple(event(Event::LastLevel).as_ref(), 1.0),
            triple(row.cycles_per_byte(End::Near).ok().as_ref(), 1.0)
        );
    }
    out + "]\n\n" + DRAWING
}

#[cfg(test)]
pub(super) mod testing {
    use msgpath_analyse::testing::Build;
    use msgpath_analyse::{Logs, summarise};

    use crate::answers::Part;
    use crate::answers::ladder::METHODS;

    /// The grid of the primitives lab in small: two sizes, one and two threads on two CPUs, nothing counted by a PMU.
    pub(crate) fn with_parts(then: impl FnOnce(&[Part<'_>])) {
        let paths = METHODS.map(|method| format!("tcp:{}", method.method));
        let mut build = Build::echo(&paths.each_ref().map(String::as_str), &[64, 64, 4096, 4096]).rounds(20);
        for (at, case) in build.plan.cases.iter_mut().enumerate() {
            case.threads = 1 + at as u32 % 2;
            case.connections = case.threads;
        }
        let ns = |at: usize, size: u64| 8_000.0 + 700.0 * (at / 4) as f64 + size as f64 / 4.0;
        let mut run = build.factor(move |case| ns(case.id as usize, case.size) / 20_000.0).run();
        for end in &mut run.header.hosts {
            end.cpus = vec![0, 1];
        }
        for round in &mut run.rounds {
            let each = ns(round.case as usize, run.header.plan.cases[round.case as usize].size);
            let received = round.far().delivery.received as f64;
            let elapsed_ns = (each * received * (1.0 + 0.01 * f64::from(round.pass % 4))) as u64;
            (round.near_mut().elapsed_ns, round.far_mut().elapsed_ns) = (elapsed_ns, elapsed_ns);
        }
        let summary = summarise(&run);
        let logs = Logs::default();
        then(&[Part { name: "grid", run: &run, summary: &summary, logs: &logs }]);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn files() -> Vec<File> {
        let mut files = Vec::new();
        testing::with_parts(|parts| files = write(parts));
        files
    }

    #[test]
    fn the_lab_gets_its_columns_and_what_was_not_counted_is_empty() {
        let files = files();
        assert_eq!(
            files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(),
            ["msgpath.csv", "course.csv", "plots.py"]
        );
        let course = &files[1].text;
        let head = "impl,msg_size,threads,throughput_gbps,avg_latency_us,cycles,l1_misses,llc_misses,context_switches,";
        assert!(course.starts_with(head), "{course}");
        assert_eq!(course.lines().count(), 21);
        let columns = course.lines().next().unwrap().split(',').count();
        assert!(course.lines().all(|line| line.split(',').count() == columns), "{course}");
        let first: Vec<&str> = course.lines().nth(1).unwrap().split(',').collect();
        assert_eq!((first[0], first[1], first[2], first[5], first[6], first[9]), ("A1", "64", "1", "", "", "rtt_mean"));
        // 64 B in 8.016 us and a little more: 0.0639 Gbit/s.
        assert!((first[3].parse::<f64>().unwrap() - 0.063).abs() < 0.001, "{first:?}");
        let long = &files[0].text;
        assert_eq!(long.lines().count(), 1 + 20 * 18);
        assert!(long.contains("grid,A1,tcp:flatten,64,1x64,1,L1-dcache-load-misses near,,,,events/message,"), "{long}");
        assert!(long.lines().nth(1).unwrap().starts_with("grid,A1,tcp:flatten,64,1x64,1,throughput,6"), "{long}");
        assert!(!long.contains("NaN"));
    }

    #[test]
    fn the_script_is_python_with_literal_values() {
        let script = &files()[2].text;
        assert!(script.contains("(\"A3\", 4096, 2, (") && script.contains("None"), "{script}");
        assert!(!script.contains("open("), "the values are literal");
        let place = std::env::temp_dir().join(format!("msgpath-plots-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("plots.py"), script).unwrap();
        let python = Command::new("python3").current_dir(&place).args(["-m", "py_compile", "plots.py"]).output();
        std::fs::remove_dir_all(&place).unwrap();
        match python {
            Err(_) => eprintln!("skipped: no python3"),
            Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        }
    }
}
