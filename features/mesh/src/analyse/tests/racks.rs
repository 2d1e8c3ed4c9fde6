//! Racks with a slow uplink, slow hosts or a slow link between them.

use super::*;

/// What is said of a mesh of racks, each time. Nothing else is said, but by chance one link that is likely slow.
#[track_caller]
fn said(truth: &Truth<'_>, seeds: std::ops::Range<u64>, code: &str) -> Vec<Finding> {
    let mut by_chance = 0;
    let one = |seed: u64| {
        let (summary, _) = truth.summary(seed);
        let [first, others @ ..] = &summary.findings[..] else { panic!("{seed}: nothing") };
        let chance = |one: &Finding| one.code == "M04" && one.confidence == Confidence::Likely;
        assert!(first.code == code && others.iter().all(chance), "{seed}: {:#?}", summary.findings);
        by_chance += others.len();
        first.clone()
    };
    let found = seeds.map(one).collect();
    assert!(by_chance <= 1, "{by_chance} links");
    found
}

/// So many racks of so many hosts.
fn racks<'a>(racks: u32, per_rack: u32) -> Truth<'a> {
    Truth { hosts: racks * per_rack, per_rack, racks: true, noise: 0.05, ..Truth::default() }
}

/// `log` for each pair of another rack with rack 2.
fn uplink(per_rack: u32, log: f64) -> impl Fn(u32, u32) -> f64 {
    move |a, b| if (a / per_rack == 2) == (b / per_rack == 2) { 0.0 } else { log }
}

#[test]
fn slow_uplink_of_a_rack_is_told_from_slow_hosts() {
    for (count, per_rack) in [(4, 2), (4, 8), (6, 8), (3, 3), (5, 4)] {
        let (link, host) =
            (uplink(per_rack, 4.7_f64.ln()), move |at: u32| if at / per_rack == 2 { 4.7_f64.ln() } else { 0.0 });
        let outside = per_rack * per_rack * (count - 1);
        for finding in said(&Truth { link: &link, ..racks(count, per_rack) }, 0..10, "M02") {
            let text = &finding.text;
            assert_eq!(finding.confidence, Confidence::Sure, "{text}");
            assert!(text.starts_with("the uplink of rack r2 is "), "{text}");
            assert!(
                text.contains(&format!("its {outside} pairs with other racks are; inside the rack it is normal (")),
                "{text}"
            );
            assert!((4.0..5.5).contains(&finding.evidence["factor"]), "{text}");
        }
        // Two hosts are two sentences, more are their rack.
        let slow = Truth { host: &host, ..racks(count, per_rack) };
        for seed in 0..10 {
            let (summary, _) = slow.summary(seed);
            let expected = if per_rack == 2 { &["M01", "M01"][..] } else { &["M02"] };
            assert_eq!(codes(&summary), expected, "{count} {per_rack} {seed}: {:#?}", summary.findings);
            let text = &summary.findings[0].text;
            let rack = format!(" times slower to everyone: {per_rack} of its {per_rack} hosts are, also inside it (2");
            assert!(per_rack == 2 || text.starts_with("rack r2 is 4.") && text.contains(&rack), "{text}");
            assert!(!text.contains("uplink of"), "{text}");
        }
    }
}

#[test]
fn small_factors_of_an_uplink_are_found_where_noise_allows() {
    let link = uplink(8, 1.4_f64.ln());
    for finding in said(&Truth { link: &link, noise: 0.1, ..racks(6, 8) }, 0..10, "M02") {
        assert!(finding.text.starts_with("the uplink of rack r2 is 1."), "{}", finding.text);
    }
}

#[test]
fn hosts_behind_a_slow_uplink_are_judged_without_it() {
    let link = uplink(8, 4.7_f64.ln());
    let host = |at: u32| if at == 17 { 2_f64.ln() } else { 0.0 };
    let (summary, _) = Truth { link: &link, host: &host, ..racks(6, 8) }.summary(1);
    assert_eq!(codes(&summary), ["M02", "M01"], "{:#?}", summary.findings);
    assert!(summary.findings[1].text.starts_with("n17 is 2.") || summary.findings[1].text.starts_with("n17 is 1.9"));
    let factor = |at: usize| summary.cases[0].hosts[at].factor.unwrap()[1];
    assert!((0.9..1.1).contains(&factor(16)), "the uplink is not in the effect of a host: {}", factor(16));
    // An uplink and all hosts behind it.
    let host = |at: u32| if at / 8 == 2 { 1.5_f64.ln() } else { 0.0 };
    let (summary, _) = Truth { link: &link, host: &host, ..racks(6, 8) }.summary(1);
    assert_eq!(codes(&summary), ["M02", "M02"], "{:#?}", summary.findings);
    let [first, second] = [0, 1].map(|at| summary.findings[at].text.clone());
    assert!(
        first.starts_with("the uplink of rack r2 is 4.")
            && first.contains("it is 2.")
            && first.contains("slower as well"),
        "{first}"
    );
    assert!(second.starts_with("rack r2 is 1."), "{second}");
}

#[test]
fn uplink_of_a_rack_without_pairs_inside_cannot_be_told_from_its_hosts() {
    let link = uplink(2, 3_f64.ln());
    let measures = |a: u32, b: u32| a / 2 != b / 2;
    for finding in said(&Truth { link: &link, measures: &measures, ..racks(4, 2) }, 0..10, "M02") {
        let text = &finding.text;
        assert!(text.starts_with("rack r2 is ") && text.contains("2 of its 2 hosts are"), "{text}");
        assert!(text.ends_with("no pair inside it was measured, so it may be its uplink or its hosts"), "{text}");
    }
    // Inside the others none was measured to compare with.
    let measures = |a: u32, b: u32| a / 2 != b / 2 || a / 2 == 2;
    for finding in said(&Truth { link: &link, measures: &measures, ..racks(4, 2) }, 0..10, "M02") {
        assert!(finding.text.contains("no pair inside a rack that is not slow was measured"), "{}", finding.text);
    }
}

#[test]
fn slow_link_between_two_of_several_racks_is_named() {
    for (count, per_rack) in [(4, 2), (3, 2), (4, 8), (6, 8)] {
        let link = move |a: u32, b: u32| if (a / per_rack, b / per_rack) == (0, 1) { 4.2_f64.ln() } else { 0.0 };
        let pairs = per_rack * per_rack;
        for finding in said(&Truth { link: &link, ..racks(count, per_rack) }, 0..10, "M03") {
            let text = &finding.text;
            assert!(
                text.starts_with("between racks r0 and r1 it is ") && finding.confidence == Confidence::Sure,
                "{text}"
            );
            assert!(
                text.contains("than between other racks") && text.ends_with(&format!("over {pairs} pairs")),
                "{text}"
            );
        }
    }
}

#[test]
fn slow_link_between_the_only_two_racks_is_compared_with_inside() {
    for per_rack in [3, 4, 8] {
        let link = move |a: u32, b: u32| if a / per_rack != b / per_rack { 4.2_f64.ln() } else { 0.0 };
        for finding in said(&Truth { link: &link, ..racks(2, per_rack) }, 0..10, "M03") {
            let text = &finding.text;
            assert!(text.starts_with("between racks r0 and r1 it is ") && text.contains("than inside them"), "{text}");
            assert_eq!(finding.confidence, Confidence::Sure, "{text}");
        }
    }
    // Four hosts have six pairs: it is said where they scatter little.
    let link = |a: u32, b: u32| if a / 2 != b / 2 { 4.2_f64.ln() } else { 0.0 };
    let found = (0..20).filter(|seed| {
        let (summary, _) = Truth { link: &link, ..racks(2, 2) }.summary(*seed);
        assert!(codes(&summary).iter().all(|code| ["M03", "M06"].contains(code)), "{:#?}", summary.findings);
        codes(&summary) == ["M03"]
    });
    assert!(found.count() >= 15);
    // Two racks of different sizes: the smaller one's hosts are not slow.
    let link = |a: u32, b: u32| if (a < 4) != (b < 4) { 4.2_f64.ln() } else { 0.0 };
    let header = |truth: &Truth<'_>| {
        let mut header = truth.header();
        (0..)
            .zip(&mut header.hosts)
            .for_each(|(at, host)| host.spec.rack = Some(if at < 4 { "a" } else { "b" }.into()));
        header
    };
    let truth = Truth { hosts: 12, link: &link, ..racks(3, 4) };
    let header = header(&truth);
    for seed in 0..10 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut fold = Fold::new(&[]);
        for (near, far) in (0..12).flat_map(|a| (a + 1..12).map(move |b| (a, b))) {
            fold.take(&truth.measured(&mut random, Slot { near, far, ..Slot::default() }));
        }
        let summary = fold.finish(&header, None, None);
        assert_eq!(codes(&summary), ["M03"], "{:#?}", summary.findings);
    }
}

#[test]
fn racks_with_usual_links_accuse_none() {
    for (count, per_rack) in [(2, 2), (2, 8), (4, 2), (4, 8), (3, 3)] {
        // One switch more costs something everywhere.
        let link = move |a: u32, b: u32| if a / per_rack != b / per_rack { 1.3_f64.ln() } else { 0.0 };
        for seed in 0..20 {
            let (summary, _) = Truth { link: &link, ..racks(count, per_rack) }.summary(seed);
            assert_eq!(codes(&summary), ["M06"], "{count} of {per_rack}, {seed}: {:#?}", summary.findings);
        }
    }
    // One slow host makes neither its rack nor its uplink slow.
    for (count, per_rack) in [(4, 2), (4, 8), (3, 3)] {
        let host = |at: u32| if at == 5 { 3_f64.ln() } else { 0.0 };
        for finding in said(&Truth { host: &host, ..racks(count, per_rack) }, 0..10, "M01") {
            assert!(finding.text.starts_with("n5 is "), "{}", finding.text);
        }
    }
}
