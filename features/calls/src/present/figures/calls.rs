//! The timeline of calls: what happened to each. The figure is a canvas that the script of the page draws; this gives it
//! the calls, and a table of the slowest for everybody. Without a script the figure `rpc-first` shows the notched lines.

use super::calls_of;
use crate::analyse::{RpcSummary, WireEstimate};
use crate::record::RpcFacts;
use msgpath_core::units::{BitUnits, bits_per_second, size};
use serde::Serialize;

use super::first::KINDS;
use super::parts::{STAGES, colour};
use crate::present::embed::kind::PLACED;
use crate::present::embed::{EmbeddedCalls, embed_calls, key_text, split};
use msgpath_present::html::Scene;
use msgpath_present::html::figures::{DataTable, Datum, Drawn, Figure, Picture};
use msgpath_present::html::json_block;
use msgpath_present::svg::escape;
use msgpath_present::words;

use crate::present::words as own;

pub(super) const FIGURE: Figure = Figure {
    name: "rpc-calls",
    heading: "Timeline of calls",
    how: "One row per call: the request from T1 to T2, the notch down from T2 to T3 is the server, up again the reply to T4. \
          By time, the slope of the rows is the rate and a gap between them a pause. From T1 = 0, lengths can be compared. \
          Where rows are thinner than a few pixels, each line is the slowest of its calls, on all the time that they cover.",
    draw: picture,
};

/// Calls in the table.
const SLOWEST: usize = 20;
/// Names of states, by number, as the wire format has them.
const STATUS: [&str; 3] = ["ok", "failed", "busy"];

/// What the script must know to read the calls.
#[derive(Serialize)]
struct Info<'a> {
    kept: usize,
    logged: usize,
    columns: &'a [&'static str],
    constant: &'a std::collections::BTreeMap<&'static str, u64>,
    keys: usize,
    kinds: Vec<KindInfo<'a>>,
    /// Tokens of the colours by which connections, clients and servers are told apart.
    palette: Vec<String>,
    stages: Vec<StageInfo>,
    status: [&'static str; 3],
    pairs: Vec<PairInfo<'a>>,
    /// Speed of the wire as printed: `1 Gbit/s`; `null`: not known.
    wire: Option<String>,
    /// The calls of the table, by their position in the report.
    slowest: Vec<usize>,
}

#[derive(Serialize)]
struct KindInfo<'a> {
    case: u32,
    name: &'a str,
    /// Bytes of its requests and replies, in words.
    bytes: String,
    /// Token of the style sheet.
    colour: String,
    /// Calls that a sampled one stands for.
    weight: f64,
    /// Estimated ns on the wire for each byte of a request and of a reply.
    wire: Option<(f64, f64)>,
}

#[derive(Serialize)]
struct StageInfo {
    name: &'static str,
    colour: String,
}

#[derive(Serialize)]
struct PairInfo<'a> {
    client: &'a str,
    server: &'a str,
}

fn picture(scene: &Scene<'_>) -> Drawn {
    if scene.run.header.parts.get::<RpcFacts>().is_none() {
        return Drawn::Nothing;
    }
    let Some(rpc) = scene.summary.sections.get::<RpcSummary>() else {
        return Drawn::Unavailable("the run has no log of calls".into());
    };
    let cases: Vec<u32> = rpc.kinds.iter().map(|kind| kind.case).collect();
    let limit = if scene.messages.embed == 0 { 0 } else { scene.messages.embed };
    let embedded = embed_calls(calls_of(scene), &cases, &rpc.clocks, limit);
    if embedded.rows.is_empty() {
        return Drawn::Unavailable(match (calls_of(scene).index().is_empty(), limit) {
            (false, 0) => "no calls in this file. Make it without --embed 0".into(),
            _ => "the run's log of calls holds no call".into(),
        });
    }
    let facts = scene.run.header.parts.get::<RpcFacts>();
    let bytes = |mean: Option<f64>| mean.map_or_else(|| "n/a".into(), |mean| size(mean.round() as u64));
    let per_byte = |ns: f64, bytes: Option<f64>| bytes.filter(|bytes| *bytes > 0.0).map_or(0.0, |bytes| ns / bytes);
    let slowest = slowest(&embedded);
    let info = Info {
        kept: embedded.rows.len(),
        logged: embedded.logged,
        columns: &embedded.columns,
        constant: &embedded.constant,
        keys: embedded.keys,
        kinds: (rpc.kinds.iter().zip(&embedded.weights).enumerate())
            .map(|(at, (kind, weight))| KindInfo {
                case: kind.case,
                name: &kind.method,
                bytes: format!("{} there, {} back", bytes(kind.request_bytes), bytes(kind.reply_bytes)),
                colour: format!("--s{}", KINDS[at % KINDS.len()]),
                weight: *weight,
                wire: kind.wire_ns.map(|WireEstimate { request, reply }| {
                    (per_byte(request, kind.request_bytes), per_byte(reply, kind.reply_bytes))
                }),
            })
            .collect(),
        palette: KINDS.iter().map(|colour| format!("--s{colour}")).collect(),
        stages: STAGES
            .into_iter()
            .map(|stage| StageInfo { name: stage.name(), colour: format!("--s{}", colour(stage)) })
            .collect(),
        status: STATUS,
        pairs: facts.map_or_else(Vec::new, |facts| {
            facts.pairs.iter().map(|pair| PairInfo { client: &pair.client, server: &pair.server }).collect()
        }),
        wire: facts
            .and_then(|facts| facts.wire.as_ref())
            .map(|wire| words::chosen(&bits_per_second(wire.bits_per_s as f64, BitUnits::Si))),
        slowest: slowest.clone(),
    };
    let mut after = controls();
    after.push_str(&json_block("data-calls", &info));
    after.push_str(&format!("<script type=\"text/plain\" id=\"calls-log\">{}</script>\n", embedded.text));
    Drawn::Picture(Picture {
        data: table(scene, &embedded, &slowest),
        note: which(scene, &embedded),
        after,
        ..Picture::default()
    })
}

/// Which of the calls are in the file.
fn which(scene: &Scene<'_>, embedded: &EmbeddedCalls) -> String {
    let (kept, logged) = (embedded.rows.len() as u64, embedded.logged as u64);
    let mut text = if kept == logged {
        format!("{} in this file: all that the log has.", words::counted(kept, "call"))
    } else {
        format!(
            "{} of {} logged calls are in this file: of each kind the slowest 1 %, failed ones and those without a reply, \
             those within 1 ms of the 20 slowest, as far as there is room, and an even sample of the rest (--embed N).",
            kept, logged
        )
    };
    let facts = scene.run.header.parts.get::<RpcFacts>();
    if let Some(not_kept) = facts.map(|facts| facts.not_kept).filter(|calls| *calls > 0) {
        text += &format!(" The log was full: {} were measured and not logged.", words::counted(not_kept, "call"));
    }
    let drawn = scene
        .summary
        .sections
        .get::<RpcSummary>()
        .into_iter()
        .flat_map(|rpc| &rpc.kinds)
        .any(|kind| kind.wire_ns.is_some());
    if let Some(wire) = facts.and_then(own::wire_of).filter(|_| drawn) {
        text += &format!(
            " Hollow with a dashed edge: what the wire alone takes, an estimate {wire} from the bytes, not a measurement."
        );
    }
    text
}

/// Positions in the report: the slowest, those without a reply last.
fn slowest(embedded: &EmbeddedCalls) -> Vec<usize> {
    let latency = |at: &usize| embedded.rows[*at].latency_ns;
    let mut all: Vec<usize> = (0..embedded.rows.len()).collect();
    let slower = |at: &usize| (std::cmp::Reverse(latency(at)), *at);
    if all.len() > SLOWEST {
        all.select_nth_unstable_by_key(SLOWEST, slower);
        all.truncate(SLOWEST);
    }
    all.sort_unstable_by_key(slower);
    all
}

fn table(scene: &Scene<'_>, embedded: &EmbeddedCalls, slowest: &[usize]) -> DataTable {
    let mut table = DataTable::new(&[
        ("slowest calls", "method"),
        ("rpcid", "rpcid"),
        ("parent", "parent"),
        ("connection", "connection"),
        ("key", "key"),
        ("status", "status"),
        ("T1 at", "start_ns"),
        ("T4 - T1", "latency_ns"),
        ("T2 - T1", "received_ns"),
        ("±", "received_within_ns"),
        ("T3 - T2", "server_ns"),
        ("lock wait", "lock_ns"),
        ("T2 - T1 as read", "received_raw_ns"),
    ]);
    let Some(rpc) = scene.summary.sections.get::<RpcSummary>() else { return table };
    for at in slowest {
        let row = &embedded.rows[*at];
        let kind = rpc.kinds.iter().find(|kind| kind.case == row.case);
        let (received, server, within, known) = split(row, &rpc.clocks);
        let placed = known & PLACED != 0;
        table.row([
            kind.map_or("", |kind| kind.method.as_str()).into(),
            Datum::Number(row.rpcid.into(), row.rpcid.to_string()),
            if row.parent == 0 { "".into() } else { Datum::Number(row.parent.into(), row.parent.to_string()) },
            Datum::count(row.connection.into()),
            key_text(&row.key).into(),
            Datum::Number(row.status.into(), status(row.status)),
            Datum::Number(row.start_ns as f64, format!("{:.6} s", row.start_ns as f64 / 1e9)),
            row.latency_ns.map_or_else(|| "no reply".into(), |ns| Datum::ns(ns as f64)),
            Datum::maybe_ns(placed.then_some(received as f64)),
            Datum::maybe_ns(placed.then_some(within as f64)),
            Datum::maybe_ns(row.received_ns.and(row.replied_ns).map(|_| server as f64)),
            Datum::maybe_ns(row.lock_ns.map(|ns| ns as f64)),
            Datum::maybe_ns(row.received_ns.map(|ns| ns as f64)),
        ]);
    }
    table
}

fn status(status: u32) -> String {
    STATUS.get(status as usize).map_or_else(|| format!("error {status}"), |name| (*name).into())
}

/// Buttons, search, canvas and the lines below it, which stay hidden until the script is ready. The key of colours is
/// written by the script, because it depends on what is shown.
fn controls() -> String {
    let mut out = String::from(
        "<div id=\"calls\" class=\"timeline\">\n<div class=\"tl-tools\"><span role=\"group\" aria-label=\"Where rows begin\"><button type=\"button\" data-axis=\"wall\" aria-pressed=\"true\">by time</button><button type=\"button\" data-axis=\"aligned\" aria-pressed=\"false\">from T1 = 0</button></span>\n<span role=\"group\" aria-label=\"Order of the rows\"><button type=\"button\" data-order=\"start\" aria-pressed=\"true\">by start</button><button type=\"button\" data-order=\"duration\" aria-pressed=\"false\">by duration</button><button type=\"button\" data-order=\"percentile\" aria-pressed=\"false\">by percentile</button><button type=\"button\" data-order=\"group\" aria-pressed=\"false\">by colour</button></span>\n<span role=\"group\" aria-label=\"What the colours tell apart\"><button type=\"button\" data-hue=\"kind\" aria-pressed=\"true\">kinds</button><button type=\"button\" data-hue=\"connection\" aria-pressed=\"false\">connections</button><button type=\"button\" data-hue=\"client\" aria-pressed=\"false\">clients</button><button type=\"button\" data-hue=\"server\" aria-pressed=\"false\">servers</button></span>\n",
    );
    for (action, text) in [
        ("in", "zoom in"),
        ("out", "zoom out"),
        ("taller", "fewer rows"),
        ("flatter", "more rows"),
        ("all", "everything"),
        ("next", "next slowest"),
    ] {
        out += &format!("<button type=\"button\" data-do=\"{action}\">{text}</button>\n");
    }
    let help = "Search: words must all match; ! in front turns one round. method:write, key:kk, status:failed, conn:3, parent:77, \
                usec 100..2000; anything else is a regular expression on method.rpcid.";
    out += &format!(
        "</div>\n<div class=\"tl-tools\"><label for=\"calls-search\">search</label><input id=\"calls-search\" type=\"search\" spellcheck=\"false\" autocomplete=\"off\" size=\"34\" placeholder=\"write usec 100..2000 !status:ok\" aria-describedby=\"calls-grammar\"><output id=\"calls-found\" aria-live=\"polite\"></output></div>\n<p id=\"calls-grammar\" class=\"mut tl-small\">{}</p>\n",
        escape(help)
    );
    out += "<p class=\"tl-keys\"></p>\n\
        <canvas id=\"calls-strip\" class=\"tl-strip\" aria-hidden=\"true\"></canvas>\n\
        <canvas id=\"calls-main\" class=\"tl-main\" tabindex=\"0\" role=\"application\" aria-label=\"Timeline of the calls. The slowest are in the table below.\" aria-describedby=\"calls-help\"></canvas>\n\
        <p id=\"calls-help\" class=\"mut tl-small\">Keys: ← → move, + − zoom time, ↑ ↓ move rows, Page Up and Page Down fewer and more rows, Home everything, n next slowest, . and , next and previous call, p its parent, / search. Drag moves, Shift-drag measures from edge to edge, the wheel zooms with Ctrl or after a click (rows beside their names).</p>\n\
        <div id=\"calls-detail\" aria-live=\"polite\"></div>\n</div>\n\
        <noscript><p class=\"na\">The timeline needs JavaScript. The first calls of each kind are drawn above; the slowest are in the table below.</p></noscript>\n";
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::fixture;
    use msgpath_present::html::{DEFAULT_EMBED, Messages};

    type Fixture = (msgpath_record::Run, msgpath_analyse::Summary, Vec<crate::record::RpcRow>);

    fn drawn((run, summary, rows): &Fixture, embed: usize) -> Drawn {
        let messages = Messages { embed, ..Messages::default() };
        let logs = fixture::logs(rows);
        picture(&Scene { messages, logs: Some(&logs), ..Scene::new(run, summary) })
    }

    #[track_caller]
    fn shown(drawn: Drawn) -> Picture {
        match drawn {
            Drawn::Picture(picture) => picture,
            Drawn::Unavailable(why) => panic!("n/a: {why}"),
            Drawn::Nothing => panic!("nothing"),
        }
    }

    #[test]
    fn the_script_gets_the_calls_and_everybody_the_slowest() {
        let mut fixture = fixture::rpc();
        fixture.0.header.parts.get_mut::<RpcFacts>().unwrap().not_kept = 7;
        let picture = shown(drawn(&fixture, DEFAULT_EMBED));
        assert!(picture.note.starts_with("360 calls in this file: all"), "{}", picture.note);
        assert!(picture.note.contains("7 calls were measured and not logged"), "{}", picture.note);
        assert!(picture.note.contains("an estimate at 1 Gbit/s (link speed of eth0)"), "{}", picture.note);
        for part in [
            "id=\"data-calls\"",
            "\"kept\":360,\"logged\":360",
            "\"wire\":\"1 Gbit/s\"",
            "\"name\":\"write\"",
            "\"palette\":[\"--s",
            " there, ",
            "data-hue=\"server\"",
        ] {
            assert!(picture.after.contains(part), "{part}");
        }
        assert_eq!(picture.data.rows.len(), SLOWEST);
        let Datum::Number(slowest, _) = picture.data.rows[0][7] else { panic!("no time") };
        assert_eq!(Some(slowest as u64), fixture.2.iter().filter_map(|row| row.latency_ns).max());
        assert!(picture.data.rows.iter().all(|row| row.len() == picture.data.heads.len()));
    }

    #[test]
    fn what_was_left_out_is_said() {
        let note = shown(drawn(&fixture::rpc(), 60)).note;
        assert!(note.starts_with("60 of 360 logged calls"), "{note}");
        let fixture = fixture::rpc();
        assert!(matches!(drawn(&fixture, 0), Drawn::Unavailable(why) if why.contains("--embed 0")));
        let none = (fixture.0, fixture.1, Vec::new());
        assert!(matches!(drawn(&none, 9), Drawn::Unavailable(why) if why.contains("holds no call")));
        let (run, summary) = fixture::echo();
        assert!(matches!(picture(&Scene::new(&run, &summary)), Drawn::Nothing));
    }

    #[test]
    fn a_hostile_name_stays_text() {
        let fixture = fixture::hostile_rpc();
        let messages = Messages { embed: 100, ..Messages::default() };
        let logs = fixture::logs(&fixture.2);
        msgpath_present::section::add(&crate::present::SECTION);
        let html =
            msgpath_present::html::report(&Scene { messages, logs: Some(&logs), ..Scene::new(&fixture.0, &fixture.1) });
        assert!(!html.contains(fixture::HOSTILE) && !html.contains("<img"), "markup got through");
        let blocks = html.matches("<script type=\"application/json\" id=\"data-").count();
        // Numbers of the figures, the log of calls, and the script itself.
        assert_eq!(html.matches("<script").count(), blocks + 2);
        assert_eq!(html.matches("</script").count(), blocks + 2);
        for tag in ["figure", "div", "p", "svg", "text", "rect", "table", "td", "label", "output"] {
            let opened = html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
            let closed = html.matches(&format!("</{tag}>")).count();
            let single = if tag == "rect" { html.matches("<rect").count() - closed } else { 0 };
            assert_eq!(opened, closed + single, "{tag}");
        }
    }
}
