//! What two runs must have in common before their numbers may be compared (docs/method/two-runs.md#what-must-be-equal).

use std::collections::BTreeSet;
use std::time::Duration;

use msgpath_core::program::{ProgramFacts, Talk};
use msgpath_core::schema::{Environment, FAR, LIMITED_GROUP, NEAR, RunHeader};
use msgpath_record::{Run, utc};

use super::difference::Difference;
use crate::section;

/// The fact of a machine that may differ: the program is what a gate compares.
const FREE: &str = "binary";
/// Facts that describe a moment, or that the kernel numbers anew each time.
const MOMENTARY: [&str; 4] = ["loadavg", "time namespace", "network namespace", LIMITED_GROUP];
/// That the first run is the later one.
pub const ORDER: &str = "the order in time";
/// Runs further apart than this are from different days.
const A_DAY: Duration = Duration::from_secs(24 * 3600);

/// Everything in which the runs differ, what refuses first.
pub fn identity(a: &Run, b: &Run) -> Vec<Difference> {
    let (a, b) = (&a.header, &b.header);
    let mut out = Vec::new();
    let mut note = |what: &str, end: &str, a: String, b: String, refuses: bool| {
        if a != b {
            out.push(Difference { what: what.into(), end: end.into(), a, b, refuses });
        }
    };
    note("schema", "", a.schema.clone(), b.schema.clone(), true);
    note("version", "", a.version.clone(), b.version.clone(), false);
    for (name, a, b) in planned(a).into_iter().zip(planned(b)).map(|((name, a), (_, b))| (name, a, b)) {
        note(name, "", a, b, true);
    }
    let options = |header: &RunHeader| serde_json::to_value(&header.plan.options).unwrap_or_default();
    let (own, other) = (options(a), options(b));
    for (name, value) in own.as_object().into_iter().flatten() {
        let refuses = !name.ends_with("timeout_ns");
        note(&format!("options.{name}"), "", value.to_string(), other[name].to_string(), refuses);
    }
    for one in section::all().flat_map(|section| (section.identity)(a, b)) {
        note(&one.what, &one.end, one.a, one.b, one.refuses);
    }
    note("target", "", a.target.clone(), b.target.clone(), false);
    let route = |header: &RunHeader| {
        let route = header.floors.as_ref().and_then(|floors| floors.route.as_ref());
        route.map(|route| format!("{} ({:?})", route.device, route.kind).to_lowercase())
    };
    if let (Some(a), Some(b)) = (route(a), route(b)) {
        note("route", "", a, b, true);
    }
    if let (Some(one), Some(two)) = (utc::parse(&a.started), utc::parse(&b.started)) {
        let apart = two.duration_since(one).or_else(|_| one.duration_since(two)).unwrap_or_default();
        if two < one {
            note(ORDER, "", a.started.clone(), b.started.clone(), true);
        }
        if apart > A_DAY {
            note("day", "", a.started.clone(), b.started.clone(), true);
        }
    }
    let near = machine(a.host(NEAR), b.host(NEAR));
    let far = machine(a.host(FAR), b.host(FAR));
    for (what, a, b, refuses) in near.iter().filter(|difference| far.contains(difference)) {
        note(what, "both", a.clone(), b.clone(), *refuses);
    }
    for (end, own, other) in [("near", &near, &far), ("far", &far, &near)] {
        for (what, a, b, refuses) in own.iter().filter(|difference| !other.contains(difference)) {
            note(what, end, a.clone(), b.clone(), *refuses);
        }
    }
    for (what, one, two) in programs(a, b) {
        note(&what, "far", one, two, false);
    }
    out.sort_by_key(|difference| !difference.refuses);
    out
}

/// What decides the numbers in a plan, beyond the cases and the connection options.
fn planned(header: &RunHeader) -> Vec<(&'static str, String)> {
    let plan = &header.plan;
    let service = plan
        .service_time
        .map_or("none".into(), |time| format!("{} ns, {:?}", time.mean_ns, time.distribution).to_lowercase());
    let cpus = |list: &[u32]| list.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    vec![
        ("workload", format!("{:?}{}", plan.workload, if plan.reverse { ", reversed" } else { "" }).to_lowercase()),
        ("service time", service),
        ("working set", format!("{} bytes", plan.working_set)),
        ("trimmed messages", plan.trim.to_string()),
        ("stamps", format!("{:?}", plan.stamps).to_lowercase()),
        ("event loop", plan.cases.iter().any(|case| !case.dispatch.is_turns()).to_string()),
        ("messages to programs", talk(&plan.talk)),
        ("CPUs used", format!("{} and {}", cpus(plan.placement.of(NEAR)), cpus(plan.placement.of(FAR)))),
    ]
}

/// What goes to programs of others, in words.
fn talk(talk: &Talk) -> String {
    let request = if talk.request.is_empty() { "" } else { ", a request of the user's" };
    let reply = if talk.any_reply { ", replies not compared" } else { "" };
    format!("{}{request}{reply}", talk.framing.name())
}

/// Each program of others that both runs had, as far as its files differ: that is what may have made it slower.
fn programs(a: &RunHeader, b: &RunHeader) -> Vec<(String, String, String)> {
    let mut out = Vec::new();
    for (one, two) in
        a.programs.iter().filter_map(|one| Some((one, b.programs.iter().find(|two| two.name == one.name)?)))
    {
        let short = |sum: &str| sum.chars().take(12).collect::<String>();
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let text = |files: Vec<&(String, String)>| {
            let files = files.iter().map(|(path, sum)| format!("{} {}", name(path), short(sum)));
            files.collect::<Vec<_>>().join(", ")
        };
        let only = |own: &'_ ProgramFacts, other: &ProgramFacts| {
            text(own.files.iter().filter(|(_, sum)| other.files.iter().all(|(_, same)| same != sum)).collect())
        };
        let (before, after) = (only(one, two), only(two, one));
        if before != after {
            out.push((format!("program {}", one.name), before, after));
        }
    }
    out
}

/// In what two machines differ: name, both values, whether it refuses. A container may change its name and a machine
/// may start again; only where both are new is it another machine.
fn machine(a: &Environment, b: &Environment) -> Vec<(String, String, String, bool)> {
    let moved = a.boot_id != b.boot_id;
    let mut out = vec![
        ("host".into(), a.host.clone(), b.host.clone(), moved),
        ("kernel".into(), a.kernel.clone(), b.kernel.clone(), true),
        ("cpu".into(), a.cpu.clone(), b.cpu.clone(), true),
        ("number of CPUs".into(), a.cpus.len().to_string(), b.cpus.len().to_string(), true),
    ];
    let names: BTreeSet<&String> = a.facts.keys().chain(b.facts.keys()).collect();
    for name in names.into_iter().filter(|name| !MOMENTARY.contains(&name.as_str())) {
        let of = |machine: &Environment| machine.facts.get(name).cloned();
        // A fact that one of the versions did not read says nothing.
        if let (Some(a), Some(b)) = (of(a), of(b)) {
            out.push((name.clone(), a, b, name != FREE));
        }
    }
    out.retain(|(_, a, b, _)| a != b);
    out
}
