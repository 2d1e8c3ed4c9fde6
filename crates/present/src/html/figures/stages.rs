//! Stages by how slow the message was: where does the time go, and does the tail go elsewhere?

use msgpath_analyse::one_way::FarClock;
use msgpath_analyse::stages::{Band, Kind, Stage, stages};
use msgpath_analyse::summary::CaseSummary;
use msgpath_core::units::three_digits;

use super::super::G;
use super::{DataTable, Datum, Drawn, Figure, Picture, Scene, chosen};
use crate::section;
use crate::svg::{Anchor, Drawing, Svg};
use crate::words;

pub(super) const FIGURE: Figure = Figure {
    name: "stages",
    heading: "Time in each stage, usual and slow messages",
    how: "Each bar averages whole messages of that slowness, so the parts add up to the mean on the right.",
    draw: picture,
};

/// A drawing by itself, and one of several side by side.
const ALONE: f64 = 860.0;
const WIDTH: f64 = 520.0;
const LEFT: f64 = 118.0;
const RIGHT: f64 = 68.0;
const TOP: f64 = 26.0;
const BAR: f64 = 44.0;
const GAP: f64 = 18.0;
const KEY: f64 = 20.0;
/// Stages whose names stand below each other.
const COLUMN: usize = 6;

pub const HATCH: &str = "<defs><pattern id=\"hatch\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"1.6\" height=\"7\" fill=\"#fff\" opacity=\".38\"/></pattern></defs>";

/// A stage as it is drawn.
pub struct Part {
    /// Its name, with its way.
    pub name: String,
    /// The same without its way, as in the key.
    pub stage: String,
    /// Its column in the CSV.
    pub column: String,
    /// Number of its colour in the style sheet.
    pub colour: usize,
    /// It ends where the clock changes.
    pub crosses: bool,
    /// Stages in which a sleeping program is woken, or waits for its CPU, are hatched: they can be told without colours.
    pub hatched: bool,
}

/// The time of a case in its parts, by how slow the message was.
pub struct Divided {
    /// The parts, in the order of time.
    pub parts: Vec<Part>,
    /// Means of bands from usual to slowest, the parts in the same order.
    pub bands: Vec<Band>,
    /// Messages of which the parts are known.
    pub messages: u64,
    /// What one of them is called: `logged message`.
    pub noun: &'static str,
    /// What two clocks leave open, with its verb: `where the request ends is`.
    pub borders: &'static str,
    /// How far they leave it open, ns; `None`: one clock.
    pub within_ns: Option<f64>,
}

struct Bars<'a> {
    label: &'a str,
    divided: Divided,
    /// By more than stamps.
    finer: bool,
}

impl Bars<'_> {
    /// Whether the time has more than one part in some band.
    fn divides(&self) -> bool {
        self.divided.bands.iter().any(|band| band.parts_ns.iter().filter(|ns| **ns > 0.0).count() > 1)
    }
}

/// What messages are called whose parts are told by stamps.
const LOGGED: &str = "logged message";

/// What stamps tell.
fn stamped(stage: Stage) -> Part {
    let (column, colour) = match stage {
        Stage::Waiting => ("waiting_ns", 0),
        Stage::Request => ("request_ns", 8),
        Stage::Reply => ("reply_ns", 9),
        Stage::FarEnd => ("far_end_ns", 4),
        Stage::Return => ("return_ns", 9),
        Stage::Whole => ("send_to_reply_ns", 10),
    };
    Part {
        name: stage.name().into(),
        stage: stage.name().into(),
        column: column.into(),
        colour,
        crosses: matches!(stage, Stage::Request | Stage::FarEnd),
        hatched: matches!(stage, Stage::Reply | Stage::Return),
    }
}

/// Number of the colour of a stage, the same there and back.
pub fn colour(kind: Kind) -> usize {
    match kind {
        Kind::Waiting | Kind::Again => 0,
        Kind::SendCall | Kind::Deliver => 8,
        Kind::Transmit => 1,
        Kind::HeldBack => 2,
        Kind::Device => 6,
        Kind::Softirq => 10,
        Kind::Signal | Kind::WakeCall => 9,
        Kind::InFlight => 3,
        Kind::Delay => 5,
        Kind::Return => 7,
        Kind::Handler => 4,
    }
}

/// Waiting for a CPU is hatched: it can be told without colours.
pub fn hatched(kind: Kind) -> bool {
    matches!(kind, Kind::WakeCall | Kind::InFlight | Kind::Delay)
}

/// The stages of a case as a feature knows them, else those that its stamps tell.
fn bars<'a>(scene: &Scene<'_>, label: &'a str, case: &CaseSummary) -> Result<Bars<'a>, String> {
    let finer = section::all().find_map(|section| (section.divided)(scene.summary, case.case.id));
    if let Some(divided) = finer {
        return Ok(Bars { label, divided, finer: true });
    }
    let found = stages(scene.run, &case.case, scene.messages.logged)?;
    let divided = Divided {
        parts: found.stages.iter().map(|stage| stamped(*stage)).collect(),
        bands: found.bands,
        messages: found.messages,
        noun: LOGGED,
        borders: "where the request ends and where the reply begins is",
        within_ns: scene.summary.far_clock.as_ref().and_then(FarClock::within_ns),
    };
    Ok(Bars { label, divided, finer: false })
}

fn picture(scene: &Scene<'_>) -> Drawn {
    let cases = scene.measured();
    let (shown, _) = chosen(scene.summary, &cases);
    // The parts of calls have a figure of their own.
    if !scene.run.header.plan.workload.logged || shown.is_empty() {
        return Drawn::Nothing;
    }
    let all: Vec<_> = shown.iter().take(super::SERIES).map(|(label, case)| bars(scene, label, case)).collect();
    // A time in one part is not divided.
    let whole = all.iter().flatten().any(|bars| !bars.divided.bands.is_empty() && !bars.divides());
    let mut why = None;
    let found: Vec<Bars<'_>> = all
        .into_iter()
        .filter_map(|bars| match bars {
            Ok(bars) if bars.divides() => Some(bars),
            Ok(_) => None,
            Err(reason) => {
                why.get_or_insert(reason);
                None
            }
        })
        .collect();
    if found.is_empty() && why.is_none() && whole {
        return Drawn::Nothing;
    }
    if found.is_empty() {
        return Drawn::Unavailable(why.unwrap_or_else(|| "too few messages were logged to average them".into()));
    }
    let logged: u64 = found.iter().map(|bars| bars.divided.messages).sum();
    let noun = if found.iter().all(|bars| bars.finer) { found[0].divided.noun } else { LOGGED };
    let mut note = format!("From {}.", words::counted(logged, noun));
    if scene.messages.not_kept > 0 {
        note += &format!(" The log was full: {} were not kept.", scene.messages.not_kept);
    }
    let open = || found.iter().filter(|bars| bars.divided.within_ns.is_some());
    if let Some(within) = open().filter_map(|bars| bars.divided.within_ns).reduce(f64::max) {
        let borders = open().find(|bars| bars.finer).or(open().next()).map_or("", |bars| bars.divided.borders);
        note += &format!(
            " The ends have no common clock: {borders} known within ±{} (the bars across both borders); they move together, in \
             all messages alike.",
            G.time(within)
        );
    }
    let named = found.len() > 1;
    let mut panels: Vec<Svg> = Vec::new();
    for bars in &found {
        panels.push(draw(bars, named, panels.is_empty(), if named { WIDTH } else { ALONE }));
    }
    Drawn::Picture(Picture { panels, data: numbers(&found), note, ..Picture::default() })
}

fn numbers(found: &[Bars<'_>]) -> DataTable {
    let mut table =
        DataTable::new(&[("case", "case"), ("messages", "band"), ("how many", "messages"), ("in rounds", "rounds")]);
    let mut used: Vec<&Part> = Vec::new();
    for part in found.iter().flat_map(|bars| &bars.divided.parts) {
        if used.iter().all(|known| known.column != part.column) {
            used.push(part);
        }
    }
    used.iter().for_each(|part| table.head(part.name.as_str(), part.column.as_str()));
    table.head("mean", "mean_ns");
    for bars in found {
        for band in &bars.divided.bands {
            let cell = |part: &&Part| {
                let at = bars.divided.parts.iter().position(|own| own.column == part.column);
                at.map_or(Datum::Missing, |at| Datum::ns(band.parts_ns[at]))
            };
            let head =
                [bars.label.into(), band.name.as_str().into(), Datum::count(band.messages), Datum::count(band.bursts)];
            table.row(head.into_iter().chain(used.iter().map(cell)).chain([Datum::ns(band.mean_ns)]));
        }
    }
    table
}

/// The name stands above the bars where there are several drawings; the first of them has the pattern of the hatch.
fn draw(bars: &Bars<'_>, named: bool, first: bool, wide: f64) -> Svg {
    let keys = TOP + bars.divided.bands.len() as f64 * (BAR + GAP) + 4.0;
    // A stage has one name in the key, there and back.
    let mut key: Vec<&Part> = Vec::new();
    let used = |at: usize| bars.divided.bands.iter().any(|band| band.parts_ns[at] > 0.0);
    for (_, part) in bars.divided.parts.iter().enumerate().filter(|(at, _)| used(*at)) {
        if key.iter().all(|known| known.stage != part.stage) {
            key.push(part);
        }
    }
    // Many stages have their names in two columns.
    let rows = if key.len() > COLUMN { key.len().div_ceil(2) } else { key.len() };
    let mut drawing = Drawing::new(wide, keys + KEY * rows as f64);
    if first {
        drawing.raw(HATCH);
    }
    let title = if named { bars.label } else { "share of the time, by how slow the message was" };
    drawing.text("m", (LEFT, 12.0), Anchor::Start, title);
    drawing.text("m", (wide - RIGHT + 8.0, 12.0), Anchor::Start, "mean");
    for (row, band) in bars.divided.bands.iter().enumerate() {
        let y = TOP + row as f64 * (BAR + GAP);
        let middle = y + BAR / 2.0 + 4.0;
        drawing.text("m", (LEFT - 8.0, middle), Anchor::End, &band.name);
        if !band.claim {
            let rounds = words::counted(band.bursts, "round");
            drawing.text("m small", (LEFT - 8.0, middle + 14.0), Anchor::End, &format!("{rounds} only"));
        }
        let mut x = LEFT;
        for (part, ns) in bars.divided.parts.iter().zip(&band.parts_ns) {
            let share = if band.mean_ns > 0.0 { ns / band.mean_ns } else { 0.0 };
            let width = share * (wide - LEFT - RIGHT);
            let percent = format!("{} %", three_digits(100.0 * share));
            let title = format!("{}, {}: {} ({percent})", band.name, part.name, G.time(*ns));
            segment(&mut drawing, part, (x, y), (width, BAR), &title);
            let text = format!("{:.0} %", 100.0 * share);
            if width > 30.0 {
                let class = format!("on on{}", part.colour);
                drawing.text(&class, (x + width / 2.0, middle), Anchor::Middle, &text);
            }
            x += width;
        }
        doubt(&mut drawing, bars, band, (y, wide));
        drawing.text("b", (wide - RIGHT + 8.0, middle), Anchor::Start, &G.time(band.mean_ns));
    }
    for (at, part) in key.iter().enumerate() {
        let (x, row) = if rows < key.len() { ((at / rows) as f64 * wide / 2.0, at % rows) } else { (LEFT, at) };
        let y = keys + KEY * row as f64;
        segment(&mut drawing, part, (x, y), (14.0, 12.0), "");
        drawing.text("m", (x + 20.0, y + 10.0), Anchor::Start, &part.stage);
    }
    drawing.finish(&format!("Share of the time by stage for messages of {}, from usual to slowest", bars.label))
}

/// What the clocks leave open, across the borders between the two ends.
fn doubt(drawing: &mut Drawing, bars: &Bars<'_>, band: &Band, (y, wide): (f64, f64)) {
    let Some(within) = bars.divided.within_ns.filter(|_| band.mean_ns > 0.0) else { return };
    let x = |ns: f64| LEFT + (ns / band.mean_ns).clamp(0.0, 1.0) * (wide - LEFT - RIGHT);
    let mut border = 0.0;
    let mut heights = [0.2, 0.85].into_iter();
    for (part, ns) in bars.divided.parts.iter().zip(&band.parts_ns) {
        border += ns;
        // Each in a height of its own: they may overlap.
        let Some(height) = part.crosses.then(|| heights.next()).flatten() else { continue };
        let middle = y + BAR * height;
        let (low, high) = (x(border - within), x(border + within));
        drawing.line("axis", (low, middle), (high, middle));
        [low, high].into_iter().for_each(|end| drawing.line("axis", (end, middle - 3.5), (end, middle + 3.5)));
    }
}

fn segment(drawing: &mut Drawing, part: &Part, at: (f64, f64), size: (f64, f64), title: &str) {
    if size.0 <= 0.0 {
        return;
    }
    drawing.rectangle(&format!("stage st{}", part.colour), at, size, 1.0, title);
    if part.hatched {
        drawing.rectangle("hatched", at, size, 1.0, "");
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;
    use crate::fixture;
    use crate::html::Messages;
    use msgpath_analyse::clocks::ClockPiece;
    use msgpath_core::schema::MessageRow;

    /// 2000 messages over 8 rounds: one in 50 is slow on its way there.
    fn rows() -> Vec<MessageRow> {
        let row = |at: u64| {
            let far = if at % 50 == 3 { 90_000 } else { 8_000 } + at % 7;
            let pass = (at / 250) as u32;
            let latency = far + 11_000 + at % 13 * 100;
            MessageRow {
                pass,
                start_ns: at * 50_000,
                latency_ns: Some(latency),
                far_ns: Some(far),
                ..MessageRow::default()
            }
        };
        (0..2_000).map(row).collect()
    }

    #[test]
    fn with_stamps_at_both_ends() {
        let (run, summary) = fixture::echo();
        let rows = rows();
        let messages = Messages { logged: &rows, not_kept: 70_000, ..Messages::default() };
        let scene = Scene { messages, ..Scene::new(&run, &summary) };
        insta::assert_snapshot!("stages", drawn(&FIGURE, &scene));
    }

    #[test]
    fn by_two_clocks_the_borders_between_the_ends_have_their_bound() {
        let (run, mut summary) = fixture::echo();
        let mut rows = rows();
        rows.iter_mut().for_each(|row| row.far_sent_ns = row.far_ns.map(|ns| ns + 500));
        let piece = ClockPiece { within_ns: 2_300.0, ..ClockPiece::default() };
        summary.far_clock = Some(FarClock { pieces: vec![piece], ..FarClock::default() });
        let messages = Messages { logged: &rows, ..Messages::default() };
        insta::assert_snapshot!("stages_two_clocks", drawn(&FIGURE, &Scene { messages, ..Scene::new(&run, &summary) }));
    }

    #[test]
    fn without_stamps_it_says_what_to_type() {
        let (mut run, summary) = fixture::echo();
        run.header.plan.message_log = 10;
        let mut rows = rows();
        rows.iter_mut().for_each(|row| row.far_ns = None);
        let messages = Messages { logged: &rows, ..Messages::default() };
        let text = drawn(&FIGURE, &Scene { messages, ..Scene::new(&run, &summary) });
        assert_eq!(text, "n/a: the far end took no stamps; this command records them: msgpath echo -o stamps=both");
        let (stream, summary) = fixture::shapes();
        assert_eq!(drawn(&FIGURE, &Scene::new(&stream, &summary)), "nothing");
    }
}
