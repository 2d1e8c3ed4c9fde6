//! A mesh as OpenMetrics text: effects of hosts and levels, never a series a pair.

use std::fmt::Write;

use msgpath_core::foreign::shown;

use crate::analyse::MeshSummary;

/// A label's value.
fn label(text: &str) -> String {
    shown(text).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

pub(crate) fn openmetrics(summary: &MeshSummary) -> String {
    let mut out = String::new();
    let mut family = |name: &str, unit: &str, help: &str, rows: Vec<(String, f64)>| {
        if rows.is_empty() {
            return;
        }
        let _ = writeln!(out, "# TYPE {name} gauge");
        if !unit.is_empty() {
            let _ = writeln!(out, "# UNIT {name} {unit}");
        }
        let _ = writeln!(out, "# HELP {name} {help}");
        for (labels, value) in rows {
            let _ = writeln!(out, "{name}{{{labels}}} {value}");
        }
    };
    let run = format!("run=\"{}\"", label(&summary.name));
    let (mut effects, mut latencies) = (Vec::new(), Vec::new());
    for case in &summary.cases {
        let case_name = label(&case.name);
        for host in &case.hosts {
            if let Some([_, factor, _]) = host.factor {
                let rack = label(host.rack.as_deref().unwrap_or(""));
                effects.push((
                    format!("{run},case=\"{case_name}\",host=\"{}\",rack=\"{rack}\"", label(&host.host)),
                    factor,
                ));
            }
        }
        for level in &case.levels {
            for (quantile, ns) in [("0.5", level.p50_ns), ("0.99", level.p99_ns)] {
                let labels =
                    format!("{run},case=\"{case_name}\",level=\"{}\",quantile=\"{quantile}\"", label(&level.name));
                latencies.extend(ns.map(|ns| (labels, ns / 1e9)));
            }
        }
    }
    family(
        "msgpath_mesh_host_effect_ratio",
        "ratio",
        "Times slower than the host in the middle, to everyone.",
        effects,
    );
    family(
        "msgpath_mesh_level_latency_seconds",
        "seconds",
        "Median over the pairs of a level of this quantile.",
        latencies,
    );
    family("msgpath_mesh_pairs", "", "Pairs with a result.", vec![(run.clone(), summary.measured as f64)]);
    family("msgpath_mesh_pairs_failed", "", "Pairs without a result.", vec![(run, summary.missing.len() as f64)]);
    out + "# EOF\n"
}
