//! TEST DATA: the page of a mesh of more hosts than a matrix has rows. A click on two racks opens the hosts of one, without a script.

use std::path::PathBuf;

use msgpath_core::Workload;
use msgpath_core::schema::Status;
use msgpath_core::units::Pieces;
use msgpath_core::{Case, Launch, Plan};
use msgpath_mesh::analyse::{HostEffect, MESH_RESULT, MeshCase, MeshSummary, PairTime, PairValues};
use msgpath_mesh::hosts_file::HostSpec;
use msgpath_mesh::schema::{Directions, MESH_SCHEMA, MeshHeader, MeshHost, MeshOrder, Pairs, Slot};

use super::{Browser, chromium, is_quiet};

const HOSTS: u32 = 640;
const RACK: u32 = 32;

/// Each host with the one that stands 33 places after it.
fn page() -> String {
    let case = Case::new("tcp:send".parse().expect("a path"), Pieces::whole(64));
    let spec =
        |at: u32| HostSpec { name: format!("n{at}"), rack: Some(format!("r{}", at / RACK)), ..HostSpec::default() };
    let hosts: Vec<MeshHost> = (0..HOSTS).map(|at| MeshHost { spec: spec(at), environment: None }).collect();
    let effect = |host: &MeshHost| HostEffect {
        host: host.spec.name.clone(),
        rack: host.spec.rack.clone(),
        factor: Some([0.9, 1.0, 1.1]),
        pairs: 2,
        failed: 0,
        busy: None,
    };
    let pair = |near: u32| PairValues {
        slot: Slot { near, far: (near + RACK + 1) % HOSTS, ..Slot::default() },
        case: 0,
        rounds: 1,
        sent: 1,
        lost: 0,
        tries: 0,
        p50: Some(PairTime { ns: 5e4, lo_ns: 5e4, hi_ns: Some(5e4) }),
        p99: None,
        min_ns: None,
        max_ns: None,
        mean_ns: None,
        stalls: None,
        residual: Some(1.0),
        waited: None,
        breaks: Vec::new(),
        unavailable: None,
    };
    let summary = MeshSummary {
        schema: MESH_RESULT.into(),
        name: "test-data".into(),
        status: Status::Ok,
        started: String::new(),
        hosts: HOSTS,
        planned: 0,
        measured: 0,
        steps: 1,
        took_ns: 1,
        retests: 0,
        alone: 0,
        findings: Vec::new(),
        cases: vec![MeshCase {
            case: 0,
            name: "tcp:send 64 B".into(),
            hosts: hosts.iter().map(effect).collect(),
            levels: Vec::new(),
            spread: Some(0.1),
            power: None,
        }],
        sla: Vec::new(),
        missing: Vec::new(),
        damage: None,
        pairs: (0..HOSTS).map(pair).collect(),
    };
    let header = MeshHeader {
        schema: MESH_SCHEMA.into(),
        name: "test-data".into(),
        started: String::new(),
        command: Vec::new(),
        version: String::new(),
        plan: Plan::new(Workload::ECHO, vec![case]),
        launch: Launch::parse("ssh").expect("a launcher"),
        hosts,
        order: MeshOrder {
            pairs: Pairs::Sample { partners: 2 },
            directions: Directions::One,
            parallel: None,
            limits: Vec::new(),
            retests: 0,
            alone_ppm: 0,
        },
        planned: 0,
        sla: Vec::new(),
        resumed: Vec::new(),
    };
    msgpath_mesh::present::page::mesh(&header, &summary)
}

/// The rack whose hosts are shown.
fn shown(browser: &mut Browser) -> Vec<String> {
    let shown = "[...document.querySelectorAll('svg[data-opened]')].filter(one => getComputedStyle(one).display != 'none') \
                 .map(one => one.id)";
    let shown = browser.value(shown);
    shown.as_array().into_iter().flatten().filter_map(|id| id.as_str().map(String::from)).collect()
}

#[test]
fn a_click_on_two_racks_opens_the_hosts_of_one() {
    let Some(program) = chromium::installed() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file: PathBuf = folder.path().join("mesh.html");
    std::fs::write(&file, page()).expect("a folder that can be written");
    let mut browser = Browser::start(&program);
    browser.open(&file);
    assert_eq!(shown(&mut browser), Vec::<String>::new());
    // The row of the fourth rack: the cell of the rack that its hosts have partners in.
    browser.click("#racks-0 a[href='#hosts-0-3'] rect", (0.5, 0.5));
    browser.until("location.hash === '#hosts-0-3'");
    assert_eq!(shown(&mut browser), ["hosts-0-3"]);
    assert_eq!(browser.value("document.querySelectorAll('#hosts-0-3 text').length > 32"), true);
    browser.click("#hosts-0-3 a", (0.1, 0.5));
    browser.until("location.hash === '#racks-0'");
    assert_eq!(shown(&mut browser), Vec::<String>::new());
    is_quiet(&browser, &file);
}
