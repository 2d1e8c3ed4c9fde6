//! Pages of meshes that no test could measure.

use msgpath_core::Workload;
use msgpath_core::schema::Status;
use msgpath_core::units::Pieces;
use msgpath_core::{Case, Launch, Plan};

use super::*;
use crate::analyse::{MESH_RESULT, PairTime, PairValues};
use crate::hosts_file::HostSpec;
use crate::present::page::mesh;
use crate::schema::{MESH_SCHEMA, MeshHost, MeshOrder, Pairs, Slot};

/// The most bytes of a page.
const PAGE: usize = 2_500_000;

fn header(hosts: u32, of_a_rack: Option<u32>, pairs: Pairs) -> MeshHeader {
    let case = Case::new("tcp:send".parse().unwrap(), Pieces::whole(64));
    let host = |at: u32| {
        let rack = of_a_rack.map(|size| format!("r{:03}", at / size));
        MeshHost { spec: HostSpec { name: format!("n{at}"), rack, ..HostSpec::default() }, environment: None }
    };
    MeshHeader {
        schema: MESH_SCHEMA.into(),
        name: "large".into(),
        started: String::new(),
        command: Vec::new(),
        version: String::new(),
        plan: Plan::new(Workload::ECHO, vec![case]),
        launch: Launch::parse("ssh").unwrap(),
        hosts: (0..hosts).map(host).collect(),
        order: MeshOrder {
            pairs,
            directions: Directions::One,
            parallel: None,
            limits: Vec::new(),
            retests: 0,
            alone_ppm: 0,
        },
        planned: 0,
        sla: Vec::new(),
        resumed: Vec::new(),
    }
}

/// Every host with those that stand so many places after it; the later a host, the slower.
fn summary<I: IntoIterator<Item = u32>>(header: &MeshHeader, after: impl Fn(u32) -> I) -> MeshSummary {
    let hosts = header.hosts.len() as u32;
    let factor = |host: u32| 1.0 + 0.9 * f64::from(host) / f64::from(hosts);
    let slots = (0..hosts).flat_map(|near| {
        let far = after(near).into_iter().map(move |step| (near + step) % hosts);
        far.map(move |far| Slot { near, far, ..Slot::default() })
    });
    let value = |slot: Slot| {
        let ns = 50_000.0 * factor(slot.near) * factor(slot.far);
        PairValues {
            slot,
            case: 0,
            rounds: 1,
            sent: 1,
            lost: 0,
            tries: 0,
            p50: Some(PairTime { ns, lo_ns: ns, hi_ns: Some(ns) }),
            p99: None,
            min_ns: None,
            max_ns: None,
            mean_ns: None,
            stalls: None,
            residual: Some(1.0),
            waited: None,
            breaks: Vec::new(),
            unavailable: None,
        }
    };
    let effect = |(at, host): (u32, &MeshHost)| HostEffect {
        host: host.spec.name.clone(),
        rack: host.spec.rack.clone(),
        factor: Some([0.9, 1.0, 1.1].map(|of| of * factor(at))),
        pairs: 24,
        failed: 0,
        busy: None,
    };
    let case = MeshCase {
        case: 0,
        name: "tcp:send 64 B".into(),
        hosts: (0..).zip(&header.hosts).map(effect).collect(),
        levels: Vec::new(),
        spread: Some(0.1),
        power: None,
    };
    MeshSummary {
        schema: MESH_RESULT.into(),
        name: header.name.clone(),
        status: Status::Ok,
        started: String::new(),
        hosts,
        planned: 0,
        measured: 0,
        steps: 1,
        took_ns: 1,
        retests: 0,
        alone: 0,
        findings: Vec::new(),
        cases: vec![case],
        sla: Vec::new(),
        missing: Vec::new(),
        damage: None,
        pairs: slots.map(value).collect(),
    }
}

/// The picture with this name, as it stands in a page.
fn picture<'a>(page: &'a str, id: &str) -> &'a str {
    let from = page.find(&format!(" id=\"{id}\"")).unwrap_or_else(|| panic!("{id} is not there"));
    &page[from..from + page[from..].find("</svg>").unwrap()]
}

#[test]
fn a_click_on_a_cell_of_two_racks_opens_the_hosts_of_its_row() {
    let header = header(640, Some(32), Pairs::Sample { partners: 24 });
    let page = mesh(&header, &summary(&header, |_| [1, 2, 3, 40, 100]));
    assert!(page.len() < PAGE, "{} bytes", page.len());
    let racks = picture(&page, "racks-0");
    for rack in 0..20 {
        assert!(racks.contains(&format!("<a href=\"#hosts-0-{rack}\">\n<rect")), "{rack}");
        let hosts = picture(&page, &format!("hosts-0-{rack}"));
        assert!(hosts.starts_with(&format!(" id=\"hosts-0-{rack}\" data-opened=\"\"")), "{hosts}");
        assert!(hosts.contains(&format!("rack r{rack:03}: its 32 hosts")) && hosts.contains("<a href=\"#racks-0\">"));
        for host in 32 * rack..32 * (rack + 1) {
            assert!(hosts.contains(&format!(">n{host} 1")), "{host}");
        }
        // Three that follow and three before, one of each in the next rack; two racks further away, each way.
        assert!(hosts.matches("<rect").count() > 32, "{rack}");
    }
    assert_eq!(racks.matches("<a href").count(), racks.matches("</a>").count());
    assert!(page.contains("svg[data-opened]:not(:target){display:none}"), "no script opens it");
    assert!(page.contains("a click on it opens the hosts"));
}

#[test]
fn the_page_of_ten_thousand_hosts_is_one_that_opens() {
    let header = header(10_000, Some(40), Pairs::Sample { partners: 24 });
    // Partners all over the mesh, as a sample draws them.
    let after = |near: u32| (1..=12).map(move |step| 1 + (near * 12 + step).wrapping_mul(2_654_435_761) % 9_999);
    let summary = summary(&header, after);
    let page = mesh(&header, &summary);
    println!("{} bytes", page.len());
    assert!(page.len() < PAGE, "{} bytes", page.len());
    let racks = picture(&page, "racks-0");
    for rack in [0, 120, 249] {
        assert!(racks.contains(&format!("<a href=\"#hosts-0-{rack}\">\n<rect")), "{rack}");
        let hosts = picture(&page, &format!("hosts-0-{rack}"));
        assert!(hosts.contains(&format!(">n{} 1", 40 * rack + 39)) && hosts.contains("data:image/png;base64,"));
    }
    assert!(page.contains("1000 of 10000 hosts"), "the table says what it leaves out");
}

#[test]
fn a_full_matrix_of_many_hosts_is_an_image() {
    let header = header(300, None, Pairs::All);
    let mut whole = summary(&header, |_| 1..150);
    let failed = whole.pairs.pop().unwrap().slot;
    let problem = msgpath_core::Problem::new("E17", msgpath_core::Exit::Unfinished, "the agent vanished");
    whole.missing.push(crate::analyse::MissingPair { slot: failed, tries: 3, problem });
    let page = mesh(&header, &whole);
    assert!(page.len() < PAGE, "{} bytes", page.len());
    assert!(page.contains("data:image/png;base64,") && !page.contains("data-opened=\"\""));
    let few = self::header(20, None, Pairs::All);
    let page = mesh(&few, &summary(&few, |_| 1..10));
    assert!(page.contains("n0 → n1: p50 ") && !page.contains("image/png"), "each cell says what it is");
}

#[test]
fn without_racks_only_the_slowest_hosts_are_shown() {
    let header = header(600, None, Pairs::Sample { partners: 24 });
    let page = mesh(&header, &summary(&header, |_| 1..=2));
    assert!(!page.contains("n0 → n1: p50 ") && page.contains("n598 → n599: p50 "));
    assert!(!page.contains("data-opened=\"\""));
}
