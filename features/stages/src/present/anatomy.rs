//! Anatomy of one message: where it is at every moment, from the near program to the far one and back. A lane for each
//! place, time to scale; the request above, the reply below. Views from the usual message to the slowest.

use crate::analyse::bands::Stage;
use crate::analyse::stage::{Kind, StageDirection};
use crate::analyse::{CaseStages, attribution};
use msgpath_analyse::stages::Band;

use msgpath_core::units::Glyphs;
use msgpath_present::html::Scene;
use msgpath_present::html::figures::{Bar, DataTable, Datum, Drawn, Figure, Lanes, Picture, colour, hatched};
use msgpath_present::svg::Svg;
use msgpath_present::words;

pub(super) const FIGURE: Figure = Figure {
    name: "anatomy",
    heading: "Stages of one message",
    how: "Time runs to the right, to scale; the message goes down from the near program to the far one and on to the near program again. A bar is a stage, a mean over whole messages of that slowness, so the bars add up to the time on top. Hatched: waiting for a CPU.",
    draw: picture,
};

/// Cases at most; the others have their rows in the table of stages.
const CASES: usize = 4;

/// The lanes from top to bottom.
const LANES: [&str; 9] = [
    "near program",
    "near kernel",
    "link",
    "far kernel",
    "far program",
    "far kernel",
    "link",
    "near kernel",
    "near program",
];
const FAR_PROGRAM: usize = 4;

/// Where a stage happens.
fn lane(stage: &Stage) -> usize {
    let request = match stage.kind {
        Kind::Waiting | Kind::SendCall => 0,
        Kind::Transmit | Kind::HeldBack => 1,
        Kind::Device => 2,
        Kind::Softirq | Kind::Signal | Kind::WakeCall | Kind::InFlight | Kind::Delay | Kind::Return => 3,
        Kind::Again | Kind::Deliver | Kind::Handler => FAR_PROGRAM,
    };
    match stage.direction {
        Some(StageDirection::Reply) => request + FAR_PROGRAM,
        _ => request,
    }
}

fn picture(scene: &Scene<'_>) -> Drawn {
    let traced = || {
        attribution(scene.summary)
            .iter()
            .filter(|attributed| attributed.why.is_none() && bands(attributed).next().is_some())
    };
    if traced().next().is_none() {
        return Drawn::Nothing;
    }
    let (mut panels, mut views) = (Vec::new(), Vec::new());
    let mut data = DataTable::new(&[
        ("case", "case"),
        ("messages", "band"),
        ("way", "direction"),
        ("stage", "stage"),
        ("where", "lane"),
        ("mean", "mean_ns"),
        ("share", "share"),
    ]);
    let several = traced().nth(1).is_some();
    for attributed in traced().take(CASES) {
        let case = scene.summary.cases.iter().find(|case| case.case.id == attributed.case);
        let name =
            case.map_or_else(String::new, |case| format!("{}, {}", case.case.path, words::message_at(&case.case)));
        for band in bands(attributed) {
            let title = if several { format!("{name}: {}", band.name) } else { band.name.clone() };
            views.push((title, 1));
            panels.push(draw(attributed, band, panels.is_empty()));
            for (stage, ns) in attributed.stages.iter().zip(&band.parts_ns) {
                let share = if band.mean_ns > 0.0 { ns / band.mean_ns } else { 0.0 };
                data.row([
                    name.as_str().into(),
                    band.name.as_str().into(),
                    stage.direction.map_or("", StageDirection::name).into(),
                    stage.name.as_str().into(),
                    LANES[lane(stage)].into(),
                    Datum::ns(*ns),
                    Datum::Number(share, words::percent(share)),
                ]);
            }
        }
    }
    let known = traced().find_map(|attributed| attributed.known_by.as_deref()).unwrap_or("stamps");
    let mut note = format!("Known by {known}.");
    if traced().count() > CASES {
        note += &format!(" {} more cases are in the tables.", traced().count() - CASES);
    }
    Drawn::Picture(Picture { panels, views, data, note, ..Picture::default() })
}

/// From the usual message to the slowest.
fn bands(attributed: &CaseStages) -> impl Iterator<Item = &Band> {
    attributed.bands.iter().filter(|band| band.name != "all" && band.mean_ns > 0.0)
}

fn draw(attributed: &CaseStages, band: &Band, first: bool) -> Svg {
    // The lanes in which nothing of any message happens are left out: a pipe has no link.
    let happens = |at: &usize| attributed.stages.iter().any(|stage| lane(stage) == *at);
    let used: Vec<usize> = (0..LANES.len()).filter(|at| at % FAR_PROGRAM == 0 || happens(at)).collect();
    let rounds = words::counted(band.bursts, "round");
    let doubt = if band.claim { String::new() } else { format!(", from {rounds} only") };
    let head = format!(
        "{}: {} there and back, mean of {}{doubt}",
        band.name,
        Glyphs::Unicode.time(band.mean_ns),
        words::counted(band.messages, "message")
    );
    let bar = |(stage, ns): (&Stage, &f64)| Bar {
        lane: used.iter().position(|at| *at == lane(stage)),
        name: stage.name.clone(),
        title: stage.direction.map_or_else(String::new, |direction| format!("{}, ", direction.name())) + &stage.name,
        ns: *ns,
        colour: colour(stage.kind),
        hatched: hatched(stage.kind),
    };
    let bars = attributed.stages.iter().zip(&band.parts_ns).map(bar).collect();
    Lanes {
        head,
        names: used.iter().map(|at| (LANES[*at], at % 2 == 1)).collect(),
        bars,
        total_ns: band.mean_ns,
        begins: ("sends", "the send call of the near program"),
        ends: ("has the reply", "its receive call has returned"),
        hatch: first,
        label: format!("Where a message of {} is at every moment, {}", band.name, Glyphs::Unicode.time(band.mean_ns)),
    }
    .draw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::fixture;
    use msgpath_present::html::figures::testing::drawn;

    #[test]
    fn a_view_for_each_slowness_to_scale() {
        let (run, summary) = fixture::explained();
        let Drawn::Picture(picture) = picture(&Scene::new(&run, &summary)) else { panic!("a picture") };
        assert!(picture.views.len() >= 2 && picture.panels.len() == picture.views.len());
        insta::assert_snapshot!("anatomy", picture.panels[0].markup());
        let (run, summary) = msgpath_present::fixture::echo();
        assert_eq!(drawn(&FIGURE, &Scene::new(&run, &summary)), "nothing");
    }

    #[test]
    fn the_way_back_mirrors_the_way_there() {
        let at = |kind, direction| lane(&Stage { kind, direction, name: String::new() });
        assert_eq!(LANES[at(Kind::Transmit, Some(StageDirection::Request))], "near kernel");
        assert_eq!(LANES[at(Kind::Transmit, Some(StageDirection::Reply))], "far kernel");
        assert_eq!(LANES[at(Kind::InFlight, Some(StageDirection::Request))], "far kernel");
        assert_eq!(LANES[at(Kind::InFlight, Some(StageDirection::Reply))], "near kernel");
        assert_eq!((at(Kind::Handler, None), at(Kind::Again, Some(StageDirection::Reply))), (FAR_PROGRAM, 8));
    }
}
