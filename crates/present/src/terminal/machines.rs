//! `-v`: the disturbed rounds, both machines, and the options as the kernel granted them.

use msgpath_analyse::Summary;
use msgpath_core::foreign::shown;
use msgpath_core::schema::{DataRoute, EndDevice, FAR, Granted, NEAR};
use msgpath_record::Run;

use super::page::{Page, Paint, Style};
use crate::{view, words};

/// What else a run tells of its rounds and of where it was made. A far end, or a record, can say anything of a machine.
pub fn machines(run: &Run, summary: &Summary, style: Style) -> String {
    let mut page = Page::new(style);
    let header = &run.header;
    let clock = &run.header.end(NEAR).clock;
    let seed = header.plan.seed;
    line(&mut page, 0, &format!("seed {seed}   clock {:.0} ns a reading, step {} ns", clock.cost_ns, clock.step_ns));
    let beside = view::beside(&summary.cases, style.glyphs);
    if !beside.is_empty() {
        line(&mut page, 0, "disturbed rounds, which the numbers above leave out:");
        beside.iter().for_each(|text| line(&mut page, 2, text));
    }
    for resumed in &header.resumed {
        let differs = if resumed.differs.is_empty() { "" } else { ", although " };
        let differs = format!("{differs}{}", resumed.differs.join("; "));
        line(&mut page, 0, &format!("resumed {} after {} rounds{differs}", resumed.at, resumed.rounds));
    }
    if let Some(DataRoute { far, found, near, near_seen, .. }) = &header.data {
        let found = found.as_ref().map(|found| format!(" ({found})")).unwrap_or_default();
        let seen = if near == near_seen {
            String::new()
        } else {
            format!(", seen there as {near_seen}: something in between translates addresses")
        };
        line(&mut page, 0, &format!("data  from {near} to {far}{found}{seen}"));
    }
    for (at, end) in header.ends.iter().enumerate() {
        if let Some(found) = &end.device {
            let path_mtu = summary.cases.iter().filter_map(|case| case.ends.get(at)?.path_mtu_bytes).min();
            line(&mut page, 0, &format!("{:<5} {}", end.name, device(found, path_mtu)));
        }
    }
    let checks = header.doctor.iter().flat_map(|doctor| &doctor.checks);
    for check in checks.filter(|check| check.name == "route" && !check.what.is_empty()) {
        line(&mut page, 0, &format!("route of the {} end: {}", check.end, check.what));
    }
    if let Some(clock) = &summary.far_clock {
        line(&mut page, 0, &words::far_clock(clock));
    }
    for (end, machine) in [("near", header.host(NEAR)), ("far", header.host(FAR))] {
        line(&mut page, 0, &format!("{end:<5} {}   {}   {}", machine.host, machine.kernel, machine.cpu));
        machine.facts.iter().for_each(|(name, value)| line(&mut page, 6, &format!("{name}: {value}")));
    }
    for case in &summary.cases {
        for Granted { end, option, asked, granted, .. } in &case.conditions.granted {
            let text = format!("case {:<4} {end:<5} {option}: asked {asked}, granted {granted}", case.case.id);
            line(&mut page, 0, &text);
        }
    }
    page.finish()
}

/// The device by which an end sends, and the sizes of its packets.
fn device(device: &EndDevice, path_mtu: Option<u32>) -> String {
    let state =
        |name: &str, on: Option<bool>| format!("{name} {}", on.map_or("n/a", |on| if on { "on" } else { "off" }));
    let mut parts = vec![format!("sends by {}", device.name)];
    parts.extend(device.mtu_bytes.map(|bytes| format!("MTU {bytes}")));
    parts.extend(path_mtu.map(|bytes| format!("path MTU {bytes}")));
    let mut gso = state("GSO", device.gso);
    if let (Some(bytes), Some(segments)) = (device.gso_max_bytes, device.gso_max_segments) {
        gso.push_str(&format!(" (at most {bytes} B, {segments} segments)"));
    }
    parts.extend([gso, state("TSO", device.tso)]);
    parts.join(", ")
}

fn line(page: &mut Page, indent: usize, text: &str) {
    page.hanging(&[" ".repeat(indent).into()], indent + 4, &shown(text), Paint::Plain);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_line_has_the_sizes_of_packets() {
        let whole = EndDevice {
            name: "v0".into(),
            mtu_bytes: Some(9000),
            gso_max_bytes: Some(65_536),
            gso_max_segments: Some(65_535),
            gso: Some(true),
            tso: Some(false),
        };
        assert_eq!(
            device(&whole, Some(1300)),
            "sends by v0, MTU 9000, path MTU 1300, GSO on (at most 65536 B, 65535 segments), TSO off"
        );
        let bare = EndDevice { name: "v0".into(), ..EndDevice::default() };
        assert_eq!(device(&bare, None), "sends by v0, GSO n/a, TSO n/a");
    }
}
