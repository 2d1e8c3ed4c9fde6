//! Meshes of which the truth is known: what is slow is found, what is not stays unsaid (docs/method/mesh.md#power, docs/method/mesh.md#links).

mod false_sure;
mod racks;
mod stalls;

use msgpath_analyse::summary::Confidence;
use msgpath_core::Workload;
use msgpath_core::units::Pieces;
use msgpath_core::{Case, Exit, Histogram, Launch, Plan};
use msgpath_stats::simulate::normal;

use super::*;
use crate::hosts_file::HostSpec;
use crate::schema::{
    Directions, EndWait, MESH_SCHEMA, MeshHeader, MeshHost, MeshOrder, PairCase, PairPurpose, PairRecord, PairRound,
    Pairs, Slot,
};

/// Messages of a measurement: how long each takes, ns, and how many.
type Further<'a> = dyn Fn(&mut fastrand::Rng, &Slot) -> Vec<(u64, u64)> + 'a;

/// A mesh of so many hosts, and what makes it slow, in logarithms.
struct Truth<'a> {
    hosts: u32,
    noise: f64,
    /// Of a host.
    host: &'a dyn Fn(u32) -> f64,
    /// Of a pair.
    link: &'a dyn Fn(u32, u32) -> f64,
    /// This share of the measurements is disturbed by something that passes.
    disturbed: f64,
    racks: bool,
    /// Hosts in a rack.
    per_rack: u32,
    /// What else a measurement adds, as a logarithm.
    scatter: &'a dyn Fn(&mut fastrand::Rng, &Slot) -> f64,
    /// Messages of a measurement.
    messages: u64,
    /// Further messages of it.
    slower: &'a Further<'a>,
    /// Pairs that are measured.
    measures: &'a dyn Fn(u32, u32) -> bool,
    /// How long an end of a host waits for its CPU in a round that takes so many ns.
    wait: &'a dyn Fn(u32, u64) -> EndWait,
}

/// Waiting for this share of the time, in slices of the scheduler or at wake-ups.
fn waits(elapsed_ns: u64, share: f64, switches: u64) -> EndWait {
    EndWait { wait_ns: Some((elapsed_ns as f64 * share) as u64), switches, ..EndWait::default() }
}

impl Default for Truth<'_> {
    fn default() -> Self {
        Self {
            hosts: 12,
            noise: 0.1,
            host: &|_| 0.0,
            link: &|_, _| 0.0,
            disturbed: 0.0,
            racks: false,
            per_rack: 8,
            scatter: &|_, _| 0.0,
            messages: 5,
            slower: &|_, _| Vec::new(),
            measures: &|_, _| true,
            wait: &|_, ns| waits(ns, 0.05, 1_000),
        }
    }
}

impl Truth<'_> {
    fn header(&self) -> MeshHeader {
        let case = Case::new("tcp:send".parse().unwrap(), Pieces::whole(64));
        let host = |at: u32| {
            let rack = self.racks.then(|| format!("r{}", at / self.per_rack));
            let spec = HostSpec { name: format!("n{at}"), rack, ..HostSpec::default() };
            MeshHost { spec, environment: None }
        };
        MeshHeader {
            schema: MESH_SCHEMA.into(),
            name: "simulated".into(),
            started: String::new(),
            command: Vec::new(),
            version: String::new(),
            plan: Plan { rounds: 1, ..Plan::new(Workload::ECHO, vec![case]) },
            launch: Launch::parse("ssh").unwrap(),
            hosts: (0..self.hosts).map(host).collect(),
            order: MeshOrder {
                pairs: Pairs::All,
                directions: Directions::One,
                parallel: None,
                limits: Vec::new(),
                retests: 2,
                alone_ppm: 0,
            },
            planned: u64::from(self.hosts * (self.hosts - 1) / 2),
            sla: Vec::new(),
            resumed: Vec::new(),
        }
    }

    fn measured(&self, random: &mut fastrand::Rng, slot: Slot) -> PairBlock {
        let (a, b) = (slot.near, slot.far);
        let passing = if random.f64() < self.disturbed { 2.0_f64.ln() } else { 0.0 };
        let log = (self.host)(a) + (self.host)(b) + (self.link)(a, b) + self.noise * normal(random) + passing;
        let mut latency = Histogram::new();
        let ns = (1e6 * (log + (self.scatter)(random, &slot)).exp()) as u64;
        latency.record_n(ns, self.messages);
        let (mut sent, mut elapsed_ns) = (self.messages, self.messages * ns);
        for (ns, messages) in (self.slower)(random, &slot) {
            latency.record_n(ns, messages);
            sent += messages;
            elapsed_ns += messages * ns;
        }
        let ends = [a, b].map(|host| (self.wait)(host, elapsed_ns)).into();
        let round = PairRound { sent, received: sent, lost: 0, elapsed_ns, ends, latency: latency.to_sparse() };
        let cases = vec![PairCase { case: 0, rounds: vec![round], unavailable: None }];
        PairBlock::Pair(Box::new(PairRecord { slot, start_ns: 0, tries: 0, cases }))
    }

    /// Everything is measured, what is suspicious twice more; what is said.
    fn summary(&self, seed: u64) -> (MeshSummary, usize) {
        let header = self.header();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut fold = Fold::new(&header.sla);
        let pairs = (0..self.hosts).flat_map(|a| (a + 1..self.hosts).map(move |b| (a, b)));
        for (near, far) in pairs.filter(|(a, b)| (self.measures)(*a, *b)) {
            fold.take(&self.measured(&mut random, Slot { near, far, ..Slot::default() }));
        }
        let suspects = fold.suspects(&header);
        for (near, far) in &suspects {
            for time in 0..2 {
                let slot = Slot { near: *near, far: *far, purpose: PairPurpose::Retest, time, step: 1 };
                fold.take(&self.measured(&mut random, slot));
            }
        }
        (fold.finish(&header, None, None), suspects.len())
    }
}

fn codes(summary: &MeshSummary) -> Vec<&str> {
    summary.findings.iter().map(|finding| finding.code.as_str()).collect()
}

#[test]
fn a_healthy_mesh_of_twelve_is_silent_twenty_times() {
    for seed in 0..20 {
        let (summary, _) = Truth { noise: 0.05, ..Truth::default() }.summary(seed);
        assert_eq!(codes(&summary), ["M06"], "{seed}: {:?}", summary.findings);
        assert!(summary.findings[0].text.contains("would have been found with 98 %"));
    }
}

#[test]
fn pairs_that_scatter_wildly_show_nothing() {
    let mut seen = 0;
    for seed in 0..5 {
        let (summary, _) = Truth { noise: 4.0, ..Truth::default() }.summary(seed);
        for finding in summary.findings.iter().filter(|finding| finding.code == "M06") {
            seen += 1;
            assert_eq!(finding.confidence, Confidence::CantTell);
            assert!(
                finding.text.contains("differ too much") && finding.text.contains("more than 100 times"),
                "{finding:?}"
            );
        }
    }
    assert!(seen > 0);
}

#[test]
fn a_slow_host_is_a_sentence() {
    let host = |at: u32| if at == 7 { 1.9_f64.ln() } else { 0.0 };
    let mut held = 0;
    for seed in 0..20 {
        let (summary, _) = Truth { host: &host, ..Truth::default() }.summary(seed);
        assert_eq!(codes(&summary), ["M01"], "{seed}: {:?}", summary.findings);
        let found = &summary.findings[0];
        assert!(found.text.starts_with("n7 is ") && found.text.contains("times slower"), "{}", found.text);
        assert_eq!(found.confidence, Confidence::Sure);
        let [low, _, high] = summary.cases[0].hosts[7].factor.unwrap();
        held += u32::from(low < 1.9 && 1.9 < high);
    }
    assert!(held >= 17, "{held} of 20 intervals hold the truth");
}

#[test]
fn links_are_found_after_retests_and_hardly_one_is_found_wrongly() {
    let (mut found, mut of, mut wrong, mut again, runs) = (0, 0, 0, 0, 5);
    for seed in 0..runs {
        let slow = |a: u32, b: u32| a % 16 == 3 && b == a + 5;
        let link = |a: u32, b: u32| if slow(a, b) { 1.5_f64.ln() } else { 0.0 };
        let (summary, suspects) =
            Truth { hosts: 64, link: &link, disturbed: 0.01, ..Truth::default() }.summary(100 + seed);
        again += suspects;
        of += 4;
        for finding in summary.findings.iter().filter(|finding| finding.code == "M04") {
            let names: Vec<u32> =
                finding.text.split_whitespace().filter_map(|word| word.strip_prefix('n')?.parse().ok()).collect();
            if slow(names[0].min(names[1]), names[0].max(names[1])) { found += 1 } else { wrong += 1 }
        }
    }
    println!("1.5 times: {found} of {of} links, {wrong} wrong in {runs} runs, {again} measured again");
    assert!(found * 100 >= of * 75 && wrong <= 3, "{found} of {of}, {wrong} wrong");
    assert!((10..40).contains(&(again / runs as usize)), "{again}");
}

#[test]
fn a_rack_is_named_instead_of_its_hosts_and_a_pair_of_racks_instead_of_its_links() {
    let host = |at: u32| if at / 8 == 2 { 1.6_f64.ln() } else { 0.0 };
    let (summary, _) = Truth { hosts: 48, host: &host, racks: true, ..Truth::default() }.summary(3);
    assert_eq!(codes(&summary), ["M02"], "{:?}", summary.findings);
    assert!(summary.findings[0].text.starts_with("rack r2 is 1."), "{}", summary.findings[0].text);
    let between = |a: u32, b: u32| if (a / 8, b / 8) == (1, 4) { 1.5_f64.ln() } else { 0.0 };
    let (summary, _) = Truth { hosts: 48, link: &between, racks: true, ..Truth::default() }.summary(4);
    assert_eq!(codes(&summary), ["M03"], "{:?}", summary.findings);
    assert!(summary.findings[0].text.starts_with("between racks r1 and r4 it is 1."), "{}", summary.findings[0].text);
    assert_eq!(summary.cases[0].levels.len(), 2);
}

#[test]
fn what_parallel_steps_cost_is_said() {
    let truth = Truth { noise: 0.05, ..Truth::default() };
    let header = truth.header();
    let mut random = fastrand::Rng::with_seed(9);
    let mut fold = Fold::new(&[]);
    for (near, far) in (0..12).flat_map(|a| (a + 1..12).map(move |b| (a, b))) {
        fold.take(&truth.measured(&mut random, Slot { near, far, ..Slot::default() }));
    }
    let alone = Truth { host: &|_| -0.1, ..truth };
    for far in 1..12 {
        let slot = Slot { near: 0, far, purpose: PairPurpose::Alone, ..Slot::default() };
        fold.take(&alone.measured(&mut random, slot));
    }
    let summary = fold.finish(&header, None, None);
    let found = summary.findings.iter().find(|finding| finding.code == "M05").expect("it speaks");
    assert!(found.text.contains("slower") && found.confidence == Confidence::Sure, "{}", found.text);
}

#[test]
fn pairs_without_a_result_are_counted_and_never_zero() {
    let truth = Truth::default();
    let header = truth.header();
    let mut random = fastrand::Rng::with_seed(9);
    let mut fold = Fold::new(&[]);
    let problem = msgpath_core::Problem::new("E19", Exit::CannotStart, "no agent");
    for (near, far) in (0..12).flat_map(|a| (a + 1..12).map(move |b| (a, b))) {
        let slot = Slot { near, far, ..Slot::default() };
        fold.take(&match far {
            11 => PairBlock::Failed(Box::new(crate::schema::FailedPair {
                slot,
                attempt: 2,
                start_ns: 0,
                last: true,
                problem: problem.clone(),
            })),
            _ => truth.measured(&mut random, slot),
        });
    }
    let summary = fold.finish(&header, None, None);
    assert_eq!((summary.measured, summary.planned, summary.missing.len()), (55, 66, 11));
    let found = summary.findings.iter().find(|finding| finding.code == "M07").expect("it speaks");
    assert!(found.text.contains("nothing was measured with n11: no agent"), "{}", found.text);
    let dead = &summary.cases[0].hosts[11];
    assert_eq!((dead.factor, dead.pairs, dead.failed), (None, 0, 11));
}

/// A mesh whose host 7 is so many times slower and waits like this; what is said of hosts.
fn with_a_busy_host(slower: f64, wait: &dyn Fn(u32, u64) -> EndWait) -> MeshSummary {
    let host = |at: u32| if at == 7 { slower.ln() } else { 0.0 };
    Truth { noise: 0.05, host: &host, wait, ..Truth::default() }.summary(11).0
}

#[test]
fn a_host_that_waits_for_its_cpu_is_not_surely_slow() {
    let busy = |at: u32, ns: u64| if at == 7 { waits(ns, 0.4, 4) } else { waits(ns, 0.05, 1_000) };
    let summary = with_a_busy_host(1.5, &busy);
    assert_eq!(codes(&summary), ["M08", "M01"], "{:?}", summary.findings);
    let [about, slow] = &summary.findings[..] else { unreachable!() };
    assert_eq!((about.confidence, slow.confidence), (Confidence::Sure, Confidence::CantTell));
    assert!(about.text.starts_with("the CPUs of n7 (1 of 12 hosts) were busy"), "{}", about.text);
    let waits = "waited 40 % of the time for a CPU (other work had it), which may explain all of it";
    assert!(slow.text.starts_with("n7 is ") && slow.text.contains(waits), "{}", slow.text);
    assert_eq!(summary.cases[0].hosts[7].busy.map(|share| (share * 10.0).round()), Some(4.0));
    assert_eq!(summary.cases[0].hosts[6].busy, None);
}

#[test]
fn what_waits_cannot_explain_stays_sure() {
    // Twice 10 % of the time make a median 1.25 times as long at most.
    let busy = |at: u32, ns: u64| if at == 7 { waits(ns, 0.11, 2) } else { waits(ns, 0.05, 1_000) };
    let summary = with_a_busy_host(4.0, &busy);
    assert_eq!(codes(&summary), ["M01", "M08"], "{:?}", summary.findings);
    assert_eq!(summary.findings[0].confidence, Confidence::Sure);
    assert!(!summary.findings[0].text.contains("explain"), "{}", summary.findings[0].text);
}

#[test]
fn an_idle_host_that_is_slow_is_surely_slow() {
    let summary = with_a_busy_host(1.5, &|_, ns| waits(ns, 0.02, 1_000));
    assert_eq!((codes(&summary), summary.findings[0].confidence), (vec!["M01"], Confidence::Sure));
    // Where every wake-up takes long, it does so everywhere: nobody waits for others.
    let summary = with_a_busy_host(1.5, &|_, ns| waits(ns, 0.4, 1_000_000));
    assert_eq!((codes(&summary), summary.findings[0].confidence), (vec!["M01"], Confidence::Sure));
    // A record of before says nothing of waits.
    let mut random = fastrand::Rng::with_seed(1);
    let truth = Truth::default();
    let PairBlock::Pair(mut pair) = truth.measured(&mut random, Slot { far: 1, ..Slot::default() }) else {
        unreachable!()
    };
    pair.cases[0].rounds[0].ends.clear();
    assert_eq!(super::waits::waited(&pair.cases[0]), None);
}

#[test]
fn who_took_the_cpu_is_named() {
    let stolen = |at: u32, ns: u64| {
        let usual = waits(ns, 0.05, 1_000);
        if at == 7 { EndWait { stolen_ns: ns / 2, ..usual } } else { usual }
    };
    let text = |summary: &MeshSummary| summary.findings.iter().find(|one| one.code == "M01").unwrap().text.clone();
    assert!(text(&with_a_busy_host(1.5, &stolen)).contains("(the hypervisor took it)"));
    let quota = |at: u32, ns: u64| {
        let usual = waits(ns, 0.05, 1_000);
        if at == 7 { EndWait { throttled_ns: ns / 2, ..usual } } else { usual }
    };
    assert!(text(&with_a_busy_host(1.5, &quota)).contains("(its CPU quota stopped it for 50 % of the time)"));
    // Taken off the CPU again and again, with three agents on one machine.
    let preempted = |at: u32, ns: u64| EndWait { preempted: 9, ..waits(ns, if at == 7 { 0.4 } else { 0.01 }, 1_000) };
    let host = |at: u32| if at == 7 { 1.5_f64.ln() } else { 0.0 };
    let truth = Truth { noise: 0.05, host: &host, wait: &preempted, ..Truth::default() };
    let mut header = truth.header();
    let mut random = fastrand::Rng::with_seed(11);
    for at in [3, 4, 7] {
        header.hosts[at].environment =
            Some(msgpath_core::schema::Environment { boot_id: "one".into(), ..Default::default() });
    }
    let mut fold = Fold::new(&[]);
    for (near, far) in (0..12).flat_map(|a| (a + 1..12).map(move |b| (a, b))) {
        fold.take(&truth.measured(&mut random, Slot { near, far, ..Slot::default() }));
    }
    let said = text(&fold.finish(&header, None, None));
    assert!(said.contains("(other work had it, or the agents of n[3-4] on the same machine)"), "{said}");
}

/// Five hosts on one machine with two CPUs: all wait for each other, and a quota stops one besides.
#[test]
fn quota_of_a_host_is_named_and_makes_no_other_host_slow() {
    // What the quota takes falls on two of the pairs, both of host 1.
    let link = |a: u32, b: u32| if [(0, 1), (1, 4)].contains(&(a, b)) { 1.5_f64.ln() } else { 0.0 };
    let host = |at: u32| if at == 1 { 1.2_f64.ln() } else { 0.0 };
    let wait = |at: u32, ns: u64| {
        let contended = waits(ns, 0.2, 1_000);
        if [0, 4].contains(&at) { EndWait { throttled_ns: ns / 10, ..contended } } else { contended }
    };
    let (summary, _) =
        Truth { hosts: 5, noise: 0.02, link: &link, host: &host, wait: &wait, ..Truth::default() }.summary(3);
    let of = |code: &str| -> Vec<_> { summary.findings.iter().filter(|one| one.code == code).collect() };
    let named: Vec<&str> = of("M08").iter().map(|one| one.text.as_str()).collect();
    let expected =
        ["n0", "n4"].map(|name| format!("{name} waited for a CPU: its CPU quota stopped it for 10 % of the time"));
    assert_eq!(named, expected);
    let accused = of("M01");
    assert!(accused.iter().all(|one| one.confidence == Confidence::CantTell), "{accused:?}");
    assert!(accused[0].text.contains("rests on its pairs with n[0,4], which a CPU quota stopped"), "{accused:?}");
}

#[test]
fn a_link_between_busy_hosts_is_not_surely_slow() {
    let link = |a: u32, b: u32| if (a, b) == (3, 7) { 2.0_f64.ln() } else { 0.0 };
    let wait = |at: u32, ns: u64| if [3, 7].contains(&at) { waits(ns, 0.3, 4) } else { waits(ns, 0.05, 1_000) };
    let (busy, _) = Truth { noise: 0.05, link: &link, wait: &wait, ..Truth::default() }.summary(5);
    let of = |summary: &MeshSummary| summary.findings.iter().find(|one| one.code == "M04").cloned().unwrap();
    assert_eq!(of(&busy).confidence, Confidence::CantTell);
    assert!(of(&busy).text.contains("; their threads waited 30 % of the time"), "{}", of(&busy).text);
    let (idle, _) = Truth { noise: 0.05, link: &link, ..Truth::default() }.summary(5);
    assert_eq!(of(&idle).confidence, Confidence::Sure);
    assert!(!of(&idle).text.contains("waited"), "{}", of(&idle).text);
}

/// What changed between two meshes of known truth.
fn changed(before: &Truth<'_>, after: &Truth<'_>) -> MeshDiff {
    let (a, b) = (before.summary(21).0, after.summary(22).0);
    diff((&before.header(), &a), (&after.header(), &b))
}

fn said(found: &MeshDiff) -> Vec<(&str, &str)> {
    found.findings.iter().map(|finding| (finding.code.as_str(), finding.text.as_str())).collect()
}

#[test]
fn what_changed_between_two_meshes_is_said_and_nothing_else() {
    let healthy = || Truth { noise: 0.03, ..Truth::default() };
    let same = changed(&healthy(), &healthy());
    assert_eq!(said(&same).iter().map(|(code, _)| *code).collect::<Vec<_>>(), ["M15"], "{:?}", same.findings);
    let [low, _, high] = same.cases[0].all.unwrap();
    assert!(low < 1.0 && 1.0 < high && same.cases[0].pairs == 66, "{low} {high}");
    let host = |at: u32| if at == 7 { 1.9_f64.ln() } else { 0.0 };
    let slow = Truth { host: &host, ..healthy() };
    let slower = changed(&healthy(), &slow);
    assert!(
        matches!(said(&slower)[..], [("M11", text)] if text.starts_with("n7 is 1.") && text.contains("slower")),
        "{:?}",
        slower.findings
    );
    assert_eq!(slower.findings[0].confidence, Confidence::Sure);
    let faster = changed(&slow, &healthy());
    assert!(
        matches!(said(&faster)[..], [("M11", text)] if text.contains("times faster (95 %: 1.")),
        "{:?}",
        faster.findings
    );
    // It was slow before already.
    assert!(matches!(said(&changed(&slow, &slow))[..], [("M15", _)]));
    let link = |a: u32, b: u32| if (a, b) == (3, 7) { 3.0_f64.ln() } else { 0.0 };
    let one = changed(&healthy(), &Truth { link: &link, ..healthy() });
    assert!(
        matches!(said(&one)[..], [("M12", text)] if text.starts_with("between n3 and n7 it is")),
        "{:?}",
        one.findings
    );
    let all = changed(&healthy(), &Truth { host: &|_| 1.3_f64.ln() / 2.0, ..healthy() });
    assert!(matches!(said(&all)[..], [("M13", text)] if text.starts_with("all pairs are 1.")), "{:?}", all.findings);
}

#[test]
fn a_host_that_was_busy_in_one_of_two_meshes_has_not_surely_changed() {
    let host = |at: u32| if at == 7 { 1.5_f64.ln() } else { 0.0 };
    let busy = |at: u32, ns: u64| if at == 7 { waits(ns, 0.4, 4) } else { waits(ns, 0.05, 1_000) };
    let healthy = || Truth { noise: 0.03, ..Truth::default() };
    let now = Truth { host: &host, wait: &busy, ..healthy() };
    for (found, word) in [(changed(&healthy(), &now), "slower"), (changed(&now, &healthy()), "faster")] {
        assert_eq!(found.findings[0].confidence, Confidence::CantTell, "{:?}", found.findings);
        assert!(
            found.findings[0].text.contains(word) && found.findings[0].text.contains("waited 40 %"),
            "{:?}",
            found.findings
        );
    }
}

#[test]
fn pairs_that_two_meshes_do_not_share_are_counted() {
    let truth = Truth { noise: 0.03, ..Truth::default() };
    let (before, mut after) = (truth.summary(1).0, truth.summary(2).0);
    after.pairs.retain(|pair| pair.slot.far != 11);
    let mut header = truth.header();
    let found = diff((&truth.header(), &before), (&header, &after));
    assert_eq!(said(&found)[0], ("M14", "11 pairs had a result before and have none now: all that n11 has"));
    header.hosts[11].spec.name = "m11".into();
    let found = diff((&truth.header(), &before), (&header, &after));
    assert!(found.differs.contains(&"hosts only before: n11".to_owned()), "{:?}", found.differs);
    assert!(found.findings.iter().all(|finding| finding.code != "M14"), "{:?}", found.findings);
}
