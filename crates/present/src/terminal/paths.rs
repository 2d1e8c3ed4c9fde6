//! `msgpath paths`: what works here, and why the rest does not.

use msgpath_core::problem::Unavailable;
use msgpath_core::{PathName, path::DEFAULT_WAIT};

use super::answer::in_a_line;
use super::page::{Page, Paint, Span, Style, width};
use super::table::{Align, Table};
use crate::view::push_new;

/// A path and whether it can be used on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRow {
    /// Full name, `tcp:send/epoll`.
    pub name: String,
    /// What it does, in a few words.
    pub summary: String,
    /// Whether a live probe could use it.
    pub state: Result<(), Unavailable>,
    /// Anything else worth a line; may be empty.
    pub notes: String,
}

/// A rare setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingRow {
    /// As typed, `sndbuf=SIZE`.
    pub name: String,
    /// What it means.
    pub doc: String,
    /// Transports that take it; empty: it is about the run.
    pub transports: Vec<String>,
}

/// The settings of `-o`: those of transports, then those of a run.
pub fn settings(rows: &[SettingRow], style: Style) -> String {
    let mut page = Page::new(style);
    for (heading, of_paths) in [("of sockets and paths", true), ("of a run", false)] {
        page.heading(heading);
        let mut table = Table::new().column("", Align::Left).column("", Align::Left).wrap_last();
        for row in rows.iter().filter(|row| row.transports.is_empty() != of_paths) {
            let takes = if of_paths { format!(" ({})", row.transports.join(" ")) } else { String::new() };
            table.row([Paint::Green.span(&row.name), Span::from(format!("{}{takes}", row.doc))]);
        }
        page.table(table);
    }
    page.finish()
}

/// Between two columns of names.
const GAP: usize = 2;

/// A transport with what works of it, and the first reason why something does not.
#[derive(Default)]
struct Transport<'a> {
    name: String,
    methods: Vec<String>,
    waits: Vec<String>,
    reason: Option<&'a Unavailable>,
}

/// One line per transport: its send methods and receive modes, as many as have room, or why it cannot be had and what
/// helps. `-v` has each path.
pub fn paths(rows: &[PathRow], style: Style) -> String {
    if style.verbose {
        return each_path(rows, style);
    }
    let transports = transports(rows);
    let mut page = Page::new(style);
    head(&mut page, rows);
    let name = transports.iter().map(|transport| width(&transport.name)).max().unwrap_or(0);
    let room = style.columns().saturating_sub(name + 2 * GAP + 2);
    // Send methods have the longer names.
    let (methods, waits) = (room * 11 / 20, room - room * 11 / 20);
    let cell = |text: &str, wide: usize| format!("{text}{}", " ".repeat((wide + GAP).saturating_sub(width(text))));
    let heads = [cell("", name), cell("send methods", methods), "receive modes".into()].concat();
    page.line(&["  ".into(), Paint::Bold.span(heads)]);
    for transport in &transports {
        let lead = ["  ".into(), Paint::Green.span(cell(&transport.name, name))];
        match transport.reason.filter(|_| transport.methods.is_empty()) {
            Some(reason) => page.line(&[lead.as_slice(), &[not_here(reason, room, &page)]].concat()),
            None => {
                let [sends, receives] = [(&transport.methods, methods), (&transport.waits, waits)]
                    .map(|(names, wide)| fitting(names, wide));
                page.line(&[lead.as_slice(), &[cell(&sends, methods).into(), receives.into()]].concat());
            }
        }
    }
    page.gap();
    let reached = transports.iter().find(|transport| !transport.methods.is_empty());
    let example = reached.or(transports.first()).map_or("NAME", |transport| transport.name.as_str());
    let more = format!("more: msgpath paths {example}, each with what it does; -v: all, and why some cannot be had");
    page.text(0, &more, Paint::Plain);
    page.finish()
}

fn head(page: &mut Page, rows: &[PathRow]) {
    let count = |ok: bool| rows.iter().filter(|row| row.state.is_ok() == ok).count();
    page.line(&[Paint::Bold.span("paths"), format!("  {} work here, {} do not", count(true), count(false)).into()]);
    page.gap();
}

fn transports(rows: &[PathRow]) -> Vec<Transport<'_>> {
    let mut transports: Vec<Transport<'_>> = Vec::new();
    for row in rows {
        let Ok(PathName { transport: name, method, wait, .. }) = row.name.parse() else { continue };
        if transports.iter().all(|known| known.name != name) {
            transports.push(Transport { name: name.clone(), ..Transport::default() });
        }
        let Some(transport) = transports.iter_mut().find(|known| known.name == name) else { continue };
        match &row.state {
            Ok(()) => {
                push_new(&mut transport.methods, method);
                push_new(&mut transport.waits, wait);
            }
            Err(reason) => transport.reason = transport.reason.or(Some(reason)),
        }
    }
    transports
}

/// As many of the names as have `room`, and how many there are besides.
fn fitting(names: &[String], room: usize) -> String {
    let all = names.join(" ");
    if width(&all) <= room {
        return all;
    }
    let with = |count: usize| format!("{} +{}", names[..count].join(" "), names.len() - count);
    (1..names.len()).rev().map(with).find(|text| width(text) <= room).unwrap_or_else(|| with(1))
}

/// Why a transport cannot be had, and what helps.
fn not_here(reason: &Unavailable, room: usize, page: &Page) -> Span {
    let hint = page.style.clean(&reason.hint);
    let to = page.style.clean(if hint.is_empty() { "" } else { " → " });
    let room = room.saturating_sub(width("n/a: ") + width(&to));
    let why = page.style.clean(&reason.why);
    let hint = in_a_line(&hint, room.saturating_sub(width(&why).min(room / 2)));
    let why = in_a_line(&why, room.saturating_sub(width(&hint)));
    Paint::Yellow.span(format!("n/a: {why}{to}{hint}"))
}

/// One line per transport with the waits of its first method, and one per send method, which names its waits where they
/// are others; paths that do not work follow with the reason.
pub fn each_path(rows: &[PathRow], style: Style) -> String {
    let mut page = Page::new(style);
    head(&mut page, rows);
    let mut groups: Vec<(String, Vec<(String, &PathRow)>)> = Vec::new();
    for row in rows {
        let (base, wait) = match row.name.parse::<PathName>() {
            Ok(name) => (format!("{}:{}", name.transport, name.method), name.wait),
            Err(_) => (row.name.clone(), DEFAULT_WAIT.to_owned()),
        };
        match groups.iter_mut().find(|(known, _)| *known == base) {
            Some((_, members)) => members.push((wait, row)),
            None => groups.push((base, vec![(wait, row)])),
        }
    }
    let transport = |base: &str| base.split(':').next().unwrap_or_default().to_owned();
    let mut transports = Vec::new();
    for (base, _) in &groups {
        push_new(&mut transports, transport(base));
    }
    let mut table = Table::new().column("", Align::Left).column("", Align::Left).wrap_last();
    let mut broken = Vec::new();
    for name in &transports {
        let mut usual: Option<Vec<&str>> = None;
        for (base, members) in groups.iter().filter(|(base, _)| transport(base) == *name) {
            let works: Vec<&(String, &PathRow)> = members.iter().filter(|(_, row)| row.state.is_ok()).collect();
            if let Some((_, first)) = works.first() {
                let waits: Vec<&str> = works.iter().map(|(wait, _)| wait.as_str()).collect();
                let mut text = first.summary.clone();
                if !first.notes.is_empty() {
                    text = format!("{text}; {}", first.notes);
                }
                match &usual {
                    None => {
                        table.row([Paint::Bold.span(name), Paint::Dim.span(format!("waits: {}", waits.join(" ")))]);
                        usual = Some(waits);
                    }
                    Some(usual) if *usual != waits => text = format!("{text}; waits: {}", waits.join(" ")),
                    Some(_) => {}
                }
                table.row([Paint::Green.span(base), text.into()]);
            }
            // One line per reason, with the waits it holds for.
            let mut reasons: Vec<(&Unavailable, Vec<&str>)> = Vec::new();
            for (wait, row) in members {
                if let Err(reason) = &row.state {
                    match reasons.iter_mut().find(|(known, _)| *known == reason) {
                        Some((_, waits)) => waits.push(wait),
                        None => reasons.push((reason, vec![wait])),
                    }
                }
            }
            for (reason, waits) in reasons {
                let all = waits.len() == members.len();
                broken.push((if all { base.clone() } else { format!("{base}/{}", waits.join(",")) }, reason));
            }
        }
    }
    page.table(table);
    if !broken.is_empty() {
        page.heading("not available");
        let mut table = Table::new().column("", Align::Left).column("", Align::Left).wrap_last();
        for (name, reason) in broken {
            let text =
                if reason.hint.is_empty() { reason.why.clone() } else { format!("{}; {}", reason.why, reason.hint) };
            table.row([Paint::Yellow.span(name), Span::from(text)]);
        }
        page.table(table);
    }
    page.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize, word: &str) -> Vec<String> {
        (0..count).map(|at| format!("{word}-{at}")).collect()
    }

    #[test]
    fn a_transport_is_one_line_whatever_it_has() {
        let why = Unavailable::new("the kernel has no such sockets: ".repeat(9), "modprobe it, ".repeat(20));
        let mut rows = Vec::new();
        for transport in names(20, "transport") {
            for (method, wait) in names(12, "method").into_iter().zip(names(12, "wait")) {
                let state = if transport.ends_with('7') { Err(why.clone()) } else { Ok(()) };
                let name = PathName::new(&transport, &method, &wait).to_string();
                rows.push(PathRow { name, summary: "sends".into(), state, notes: String::new() });
            }
        }
        for width in [60, 80, 100] {
            let text = paths(&rows, Style { width, ..Style::default() });
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            assert!(text.lines().count() <= 30, "{text}");
            assert_eq!(text.matches("  transport-").count(), 20, "{text}");
            let broken = text.lines().find(|line| line.contains("transport-17")).unwrap();
            assert!(broken.contains("n/a: the kernel has no") && broken.contains(" → modprobe it"), "{text}");
        }
    }

    #[test]
    fn names_that_have_no_room_are_counted() {
        let all = names(4, "m");
        assert_eq!(fitting(&all, 15), "m-0 m-1 m-2 m-3");
        assert_eq!(fitting(&all, 14), "m-0 m-1 m-2 +1");
        assert_eq!(fitting(&all, 2), "m-0 +3");
    }
}
