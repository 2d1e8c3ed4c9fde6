//! Strips under the heat map: what else happened, round by round. Conditions of each round

use msgpath_analyse::heat::{Column, heat};
use msgpath_analyse::strips::{Strip, Strips, strips};

use super::super::G;
use super::heat::{LEFT, RIGHT, WIDTH};
use super::{DataTable, Datum, Drawn, Figure, Picture, Scene, chosen, round_axis};
use crate::svg::{Anchor, Drawing, Svg};
use crate::words;

pub(super) const FIGURE: Figure = Figure {
    name: "conditions",
    heading: "Conditions of each round",
    how: "What else happened during the rounds, on the time axis of the heat map. Marked ● and listed first: what rises with \
          the slow rounds, beyond chance. Height is the largest value of a round in that place.",
    draw: picture,
};

/// Strips in the picture; the table has all.
const MOST: usize = 10;
const STRIP: f64 = 24.0;
const GAP: f64 = 20.0;
const TOP: f64 = 6.0;
const BOTTOM: f64 = 26.0;

fn picture(scene: &Scene<'_>) -> Drawn {
    let cases = scene.measured();
    let (shown, _) = chosen(scene.summary, &cases);
    let Some((label, case)) = shown.first() else { return Drawn::Nothing };
    // The axis of the heat map, from the rounds alone: one column a round.
    let Some(heat) = heat(scene.run, case.case.id, &msgpath_record::NO_MESSAGES, None) else { return Drawn::Nothing };
    let strips = strips(scene.run, case.case.id);
    let mut note = Vec::new();
    if shown.len() > 1 {
        note.push(format!("The rounds of {label}."));
    }
    if strips.varying.is_empty() {
        note.push("Nothing that was counted changed between the rounds.".into());
    } else if !strips.varying.iter().any(|strip| strip.follows) {
        note.push("Nothing that was counted rises with the slow rounds beyond chance.".into());
    }
    if !strips.zero.is_empty() {
        note.push(format!("Never seen: {}.", strips.zero.join(", ")));
    }
    if !strips.unknown.is_empty() {
        note.push(format!("n/a, not readable here: {}.", strips.unknown.join(", ")));
    }
    let panels = if strips.varying.is_empty() { Vec::new() } else { vec![draw(&strips, &heat.columns)] };
    let data = numbers(&strips, &heat.columns);
    Drawn::Picture(Picture { panels, data, note: note.join(" "), ..Picture::default() })
}

/// The kernel's names of what it counts for the whole machine, and what they mean.
const PLAIN: [(&str, &str); 10] = [
    ("pressure.cpu.some_usec", "µs in which some task of the machine waited for a CPU"),
    ("pressure.io.some_usec", "µs in which some task of the machine waited for I/O"),
    ("pressure.memory.some_usec", "µs in which some task of the machine waited for memory"),
    ("stat.intr", "interrupts of the machine"),
    ("stat.ctxt", "context switches of the machine"),
    ("stat.softirq", "softirqs of the machine"),
    ("stat.processes", "processes started on the machine"),
    ("stat.procs_running", "runnable tasks of the machine"),
    ("stat.steal", "CPU time that the hypervisor took"),
    ("irq.cpu", "interrupts on CPU "),
];

/// The name of a strip in words.
fn plain(name: &str) -> String {
    let known = PLAIN.iter().find(|(kernel, _)| name.contains(kernel));
    known.map_or_else(|| name.to_owned(), |(kernel, words)| name.replace(kernel, words))
}

fn value(strip: &Strip, value: f64) -> String {
    if strip.time { G.time(value) } else { words::decimal(value) }
}

fn numbers(strips: &Strips, columns: &[Column]) -> DataTable {
    let mut table = DataTable::default();
    let rounds = strips.varying.first().map_or(0, |strip| strip.values.len());
    // Where rounds share columns, their start is that of the column.
    table.head("round", "round");
    if columns.len() == rounds {
        table.head("from", "from_ns");
    }
    for strip in &strips.varying {
        let unit = if strip.time { " (ns)" } else { "" };
        table.head(strip.name.clone(), format!("{}{unit}", strip.name));
    }
    for round in 0..rounds {
        let mut row = vec![Datum::count(round as u64 + 1)];
        if columns.len() == rounds {
            let from = columns[round].from_ns as f64;
            row.push(Datum::Number(from, format!("{:.3} s", from / 1e9)));
        }
        row.extend(strips.varying.iter().map(|strip| match strip.values[round] {
            None => Datum::Missing,
            Some(number) => Datum::Number(number, value(strip, number)),
        }));
        table.row(row);
    }
    table
}

fn draw(strips: &Strips, columns: &[Column]) -> Svg {
    let shown = &strips.varying[..strips.varying.len().min(MOST)];
    let right = WIDTH - RIGHT;
    let bottom = TOP + shown.len() as f64 * (STRIP + GAP);
    let mut drawing = Drawing::new(WIDTH, bottom + BOTTOM);
    for (at, strip) in shown.iter().enumerate() {
        let base = TOP + at as f64 * (STRIP + GAP) + GAP + STRIP - 4.0;
        let most = strip.values.iter().flatten().copied().fold(0.0, f64::max);
        let rho = match strip.rho {
            Some(rho) if strip.follows => format!(", rises with the slow rounds (rank correlation {rho:.2})"),
            Some(rho) => format!(" (rank correlation {rho:.2})"),
            None => String::new(),
        };
        let mark = if strip.follows { "● " } else { "" };
        let class = if strip.follows { "b" } else { "m" };
        drawing.text(class, (LEFT, base - STRIP - 3.0), Anchor::Start, &format!("{mark}{}{rho}", plain(&strip.name)));
        drawing.text("m", (LEFT - 7.0, base - STRIP + 9.0), Anchor::End, &value(strip, most));
        drawing.text("m", (LEFT - 7.0, base + 1.0), Anchor::End, "0");
        drawing.line("grid", (LEFT, base), (right, base));
        bars(&mut drawing, strip, most, base, right);
    }
    round_axis(&mut drawing, columns, (LEFT, right), bottom - 2.0);
    let names: Vec<&str> = shown.iter().map(|strip| strip.name.as_str()).collect();
    drawing.finish(&format!("What else happened over time: {}", names.join(", ")))
}

/// One bar a pixel at most: the largest value of the rounds in it.
fn bars(drawing: &mut Drawing, strip: &Strip, most: f64, base: f64, right: f64) {
    let rounds = strip.values.len();
    let places = rounds.min((right - LEFT) as usize);
    let width = (right - LEFT) / places as f64;
    let mut path = String::new();
    for place in 0..places {
        let own =
            &strip.values[place * rounds / places..((place + 1) * rounds / places).max(place * rounds / places + 1)];
        let Some(value) = own.iter().flatten().copied().reduce(f64::max) else { continue };
        let height = if most > 0.0 { STRIP * value / most } else { 0.0 };
        if height > 0.0 {
            let x = LEFT + place as f64 * width;
            path += &format!(
                "M{x:.1},{base:.1}v-{height:.1}h{:.2}v{height:.1}Z",
                (width - if width > 3.0 { 0.6 } else { 0.0 })
            );
        }
    }
    drawing.raw(&format!("<path class=\"{}\" d=\"{path}\"/>", if strip.follows { "strip follows" } else { "strip" }));
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;
    use crate::fixture::{self, HOSTILE};
    use msgpath_core::Histogram;
    use msgpath_core::schema::NEAR;

    /// Twenty rounds, every fourth of them slow; a counter with a hostile name and stolen time follow them.
    fn scene_of(run: &mut msgpath_record::Run) {
        let first = run.rounds[0].clone();
        run.rounds = (0..20)
            .map(|at| {
                let slow = at % 4 == 1;
                let mut latency = Histogram::new();
                for message in 0..200 {
                    latency.record(if slow { 90_000 } else { 20_000 } + at * 10 + message);
                }
                let mut round = first.clone();
                (round.pass, round.start_ns, round.latency) = (at as u32, at * 100_000_000, latency.to_sparse());
                round.near_mut().elapsed_ns = 90_000_000;
                round.steal_ticks = Some(if slow { 3 } else { 0 });
                round.near_mut().run_delay_ns = Some(5_000 + at * 37 % 100 * 20);
                round.end_mut(NEAR).kernel.0.insert(HOSTILE.into(), if slow { 500 } else { 3 });
                round
            })
            .collect();
    }

    #[test]
    fn what_follows_the_slow_rounds_is_marked_and_names_stay_text() {
        let (mut run, summary) = fixture::echo();
        scene_of(&mut run);
        let text = drawn(&FIGURE, &Scene::new(&run, &summary));
        assert!(!text.split("</svg>").next().unwrap().contains("<script"), "{text}");
        insta::assert_snapshot!("conditions", text);
    }

    #[test]
    fn calm_rounds_have_no_strips() {
        let (run, summary) = fixture::echo();
        let text = drawn(&FIGURE, &Scene::new(&run, &summary));
        assert!(text.starts_with("Nothing that was counted changed between the rounds. Never seen: lost,"), "{text}");
        assert!(!text.contains("<svg"));
    }
}
