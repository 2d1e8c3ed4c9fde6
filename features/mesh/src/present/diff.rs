//! `diff` of two meshes: which hosts and links changed.

use crate::analyse::times;
use msgpath_core::schema::Status;
use msgpath_core::units::three_digits;
use msgpath_present::terminal::{Align, Page, Paint, Span, Style, Table};

use super::terminal::findings;
use crate::analyse::{HostChange, MeshCaseChange, MeshDiff};

/// The hosts and links that changed most.
const ROWS: usize = 5;

/// Two meshes: what changed, and the hosts and links that changed most.
pub(crate) fn diff(diff: &MeshDiff, style: Style) -> String {
    let mut page = Page::new(style);
    let head = [Paint::Bold.span("diff of meshes"), "  ".into(), Paint::Blue.span(&diff.a.name), " → ".into()];
    page.line(&head.into_iter().chain([Paint::Blue.span(&diff.b.name)]).collect::<Vec<_>>());
    page.text(2, &format!("{} → {}", diff.a.started, diff.b.started), Paint::Dim);
    for side in [&diff.a, &diff.b].into_iter().filter(|side| side.status != Status::Ok) {
        page.text(2, &format!("{} is not whole: a part of it is compared", side.name), Paint::Yellow);
    }
    page.gap();
    findings(&mut page, &diff.findings);
    for case in &diff.cases {
        page.gap();
        rows(&mut page, case, style);
    }
    for one in &diff.differs {
        page.text(2, &format!("differs: {one}"), Paint::Dim);
    }
    page.finish()
}

fn rows(page: &mut Page, case: &MeshCaseChange, style: Style) {
    let all = match case.all {
        Some([low, value, high]) => {
            format!(", all of them {}", times([low, value, high]))
        }
        None => String::new(),
    };
    page.text(0, &format!("{}: {} pairs in both{all}", case.name, case.pairs), Paint::Bold);
    let mut table = Table::new()
        .column("", Align::Left)
        .column("before", Align::Right)
        .column("after", Align::Right)
        .column("times slower, beyond what they have in common", Align::Left);
    let mut hosts: Vec<&HostChange> = case.hosts.iter().filter(|host| host.factor.is_some()).collect();
    let size = |host: &HostChange| host.factor.map_or(0.0, |[_, factor, _]| factor.ln().abs());
    hosts.sort_by(|a, b| size(b).total_cmp(&size(a)));
    for host in hosts.into_iter().take(ROWS) {
        let Some([low, value, high]) = host.factor else { continue };
        let text = format!("{} ({} to {})", three_digits(value), three_digits(low), three_digits(high));
        table.row([Paint::Blue.span(&host.host), Span::default(), Span::default(), text.as_str().into()]);
    }
    for link in case.links.iter().take(ROWS) {
        let name = format!("{} and {}", link.near, link.far);
        table.row([
            name.as_str().into(),
            style.glyphs.time(link.before_ns).as_str().into(),
            style.glyphs.time(link.after_ns).as_str().into(),
            three_digits(link.factor).as_str().into(),
        ]);
    }
    page.table(table);
}
