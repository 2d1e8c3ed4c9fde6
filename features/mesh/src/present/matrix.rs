//! The matrix of a mesh. Above 500 hosts a cell is two racks, and a click on it opens the hosts of the rack whose row it is: a picture of
//! its own, which the page shows where its address ends with that picture's name. No script is needed for that.

use std::collections::{BTreeMap, BTreeSet};

use msgpath_core::units::{Glyphs, three_digits};
use msgpath_present::html::figures::wide;
use msgpath_present::html::{base64, png};
use msgpath_present::svg::{Anchor, Drawing, Svg, escape};

use crate::analyse::{HostEffect, MeshCase, MeshSummary};
use crate::schema::{Directions, MeshHeader, PairPurpose};

/// Above this many hosts a cell of the matrix is a pair of racks; without racks only the slowest hosts are shown.
pub(super) const MOST_HOSTS: usize = 500;
/// The matrix, pixels.
const SIDE: f64 = 900.0;
const MARGIN: f64 = 110.0;
/// The largest cell.
const LARGEST: f64 = 48.0;
/// From one colour of the key to the next.
const KEY: f64 = 56.0;
/// Characters of a column's name.
const NAME: usize = 11;
/// A row of the hosts of a rack.
const ROW: f64 = 15.0;
/// Cells of all cases with a shape and a text of their own when pointed at: more of them are drawn as images, or the page would be too
/// large.
const TITLES: usize = 12_000;
/// A factor that has the strongest colour.
const STRONGEST: f64 = 3.0;
/// Colours of an image, from the fastest to the slowest; then that of a cell without a result.
const SHADES: u8 = 32;
/// Seen well on a light and on a dark page.
const COLOUR: [u8; 3] = [0x1f, 0x86, 0xc8];
const NO_RESULT: [u8; 4] = [0xd5, 0x5e, 0x00, 0xff];

/// The matrix of a case, and where its cells are racks the hosts of each.
pub(super) fn panels(header: &MeshHeader, summary: &MeshSummary, case: &MeshCase) -> Vec<Svg> {
    let axis = axis(case);
    let measured = Measured::of(header, summary, case);
    let mut grid = measured.grid(&axis);
    let mut all: Vec<f64> = grid.cells.values().flatten().copied().collect();
    all.sort_unstable_by(f64::total_cmp);
    let fast = all.get(all.len() / 10).copied().unwrap_or(1.0).max(1.0);
    let size = ((SIDE - MARGIN) / axis.groups.len().max(1) as f64).min(LARGEST);
    let towards = if axis.racks { measured.towards_racks(&axis) } else { Grid::default() };
    let look = Look { size, fast, titled: (grid.cells.len() + towards.cells.len()) * summary.cases.len() <= TITLES };
    let mut panels = vec![matrix(&mut grid, &axis, case, look)];
    if axis.racks {
        panels.extend((0..axis.groups.len()).map(|rack| hosts(&towards, &axis, case, rack, look)));
    }
    panels
}

/// How cells look.
#[derive(Clone, Copy)]
struct Look {
    /// The side of a cell of the matrix.
    size: f64,
    /// The p50 from which on a cell has a stronger colour.
    fast: f64,
    /// Each is a shape with a text of its own.
    titled: bool,
}

/// Rows and columns of the matrix: names with the hosts that each stands for, and its rack.
struct Axis {
    /// A cell is two racks.
    racks: bool,
    groups: Vec<(String, String)>,
    of_host: Vec<Option<usize>>,
}

impl Axis {
    fn place(&self, host: u32) -> Option<usize> {
        self.of_host.get(host as usize).copied().flatten()
    }

    fn names(&self) -> Vec<String> {
        self.groups.iter().map(|(name, _)| name.clone()).collect()
    }
}

fn factor(host: &HostEffect) -> f64 {
    host.factor.map_or(f64::INFINITY, |[_, factor, _]| factor)
}

fn axis(case: &MeshCase) -> Axis {
    let rack = |host: &HostEffect| host.rack.clone().unwrap_or_default();
    let racks = case.hosts.len() > MOST_HOSTS && case.hosts.iter().any(|host| host.rack.is_some());
    if racks {
        let mut names: Vec<String> = case.hosts.iter().map(rack).collect();
        names.sort_unstable();
        names.dedup();
        let of_host = case.hosts.iter().map(|host| names.binary_search(&rack(host)).ok()).collect();
        return Axis { racks, groups: names.into_iter().map(|name| (name.clone(), name)).collect(), of_host };
    }
    let mut order: Vec<usize> = (0..case.hosts.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&case.hosts[*a], &case.hosts[*b]);
        rack(a).cmp(&rack(b)).then(factor(a).total_cmp(&factor(b)))
    });
    if order.len() > MOST_HOSTS {
        order.drain(..order.len() - MOST_HOSTS);
    }
    let mut of_host = vec![None; case.hosts.len()];
    order.iter().enumerate().for_each(|(at, host)| of_host[*host] = Some(at));
    let groups = order.iter().map(|at| (case.hosts[*at].host.clone(), rack(&case.hosts[*at]))).collect();
    Axis { racks, groups, of_host }
}

/// What was measured of a case.
struct Measured {
    /// Near end, far end, p50.
    pairs: Vec<(u32, u32, f64)>,
    missing: Vec<(u32, u32)>,
    both: bool,
}

impl Measured {
    fn of(header: &MeshHeader, summary: &MeshSummary, case: &MeshCase) -> Self {
        let own = summary.pairs.iter().filter(|pair| pair.case == case.case && pair.slot.purpose == PairPurpose::Mesh);
        let missing = summary.missing.iter().map(|missing| missing.slot);
        Self {
            pairs: own.filter_map(|pair| Some((pair.slot.near, pair.slot.far, pair.p50?.ns))).collect(),
            missing: missing
                .filter(|slot| slot.purpose == PairPurpose::Mesh)
                .map(|slot| (slot.near, slot.far))
                .collect(),
            both: header.order.directions == Directions::Both,
        }
    }

    /// By rows and columns of the matrix.
    fn grid(&self, axis: &Axis) -> Grid {
        let mut grid = Grid { rows: axis.names(), columns: axis.names(), ..Grid::default() };
        for (near, far, ns) in &self.pairs {
            if let (Some(near), Some(far)) = (axis.place(*near), axis.place(*far)) {
                grid.cells.entry((near, far)).or_default().push(*ns);
                if !self.both {
                    grid.cells.entry((far, near)).or_default().push(*ns);
                }
            }
        }
        let place = |(near, far): &(u32, u32)| axis.place(*near).zip(axis.place(*far));
        grid.missing = self.missing.iter().filter_map(place).collect();
        grid
    }

    /// Of each host towards each rack, whichever of the two was near. Rows are hosts by position, and have no names yet.
    fn towards_racks(&self, axis: &Axis) -> Grid {
        let mut grid = Grid { columns: axis.names(), ..Grid::default() };
        for (near, far, ns) in &self.pairs {
            for (own, other) in [(near, far), (far, near)] {
                if let Some(rack) = axis.place(*other) {
                    grid.cells.entry((*own as usize, rack)).or_default().push(*ns);
                }
            }
        }
        let ends = self.missing.iter().flat_map(|(near, far)| [(*near, *far), (*far, *near)]);
        grid.missing = ends.filter_map(|(own, other)| Some((own as usize, axis.place(other)?))).collect();
        grid
    }
}

/// Cells by row and column.
#[derive(Default)]
struct Grid {
    rows: Vec<String>,
    columns: Vec<String>,
    cells: BTreeMap<(usize, usize), Vec<f64>>,
    missing: BTreeSet<(usize, usize)>,
}

/// How strong the colour of a p50 is that is so many times that of the fastest tenth, 0 to 1.
fn strength(times: f64) -> f64 {
    (times.max(1.0).ln() / STRONGEST.ln()).min(1.0)
}

fn opacity(times: f64) -> f64 {
    0.12 + 0.88 * strength(times)
}

/// The name of a column, leaning over it.
fn column(drawing: &mut Drawing, (x, y): (f64, f64), name: &str) {
    let short = match name.char_indices().nth(NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.into(),
    };
    drawing.raw(&format!(
        "<text class=\"small\" transform=\"translate({x:.1} {y:.1}) rotate(-60)\">{}</text>",
        escape(&short)
    ));
}

/// The middle of a cell's values.
fn middle(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

impl Grid {
    /// Draws the cells, so high each, from `top` on. `link`: where a click on a row leads.
    fn draw(
        &mut self,
        drawing: &mut Drawing,
        Look { size, fast, titled }: Look,
        (top, height): (f64, f64),
        link: Option<&dyn Fn(usize) -> String>,
    ) {
        let cell = (size, height);
        let at = |row: usize, column: usize| (MARGIN + column as f64 * cell.0, top + row as f64 * cell.1);
        let mut pixels = if titled { Vec::new() } else { vec![0; self.rows.len() * self.columns.len()] };
        let mut linked = None;
        for ((row, column), values) in &mut self.cells {
            let ns = middle(values);
            if !titled {
                pixels[row * self.columns.len() + column] =
                    1 + (strength(ns / fast) * f64::from(SHADES - 1)).round() as u8;
                continue;
            }
            if let (Some(link), true) = (link, linked != Some(*row)) {
                open(drawing, linked.is_some(), &link(*row));
                linked = Some(*row);
            }
            let title = format!("{} → {}: p50 {}", self.rows[*row], self.columns[*column], Glyphs::Unicode.time(ns));
            drawing.rectangle("f1", at(*row, *column), cell, opacity(ns / fast), &title);
        }
        if linked.is_some() {
            drawing.raw("</a>");
        }
        for (row, column) in &self.missing {
            if titled {
                let ((x, y), (width, height)) = (at(*row, *column), cell);
                drawing.line("t2", (x, y), (x + width, y + height));
                drawing.line("t2", (x + width, y), (x, y + height));
            } else {
                let pixel = &mut pixels[row * self.columns.len() + column];
                *pixel = if *pixel == 0 { SHADES + 1 } else { *pixel };
            }
        }
        if titled {
            return;
        }
        let whole = (cell.0 * self.columns.len() as f64, cell.1 * self.rows.len() as f64);
        image(drawing, (MARGIN, top), whole, self.columns.len(), &pixels);
        if let Some(link) = link {
            for (row, name) in self.rows.iter().enumerate() {
                open(drawing, row > 0, &link(row));
                drawing.rectangle("f1", at(row, 0), (whole.0, cell.1), 0.0, name);
            }
            drawing.raw("</a>");
        }
    }
}

/// Begins a link within the page, after the one before.
fn open(drawing: &mut Drawing, close: bool, id: &str) {
    drawing.raw(&format!("{}<a href=\"#{id}\">", if close { "</a>" } else { "" }));
}

/// Cells as one image, a pixel each.
fn image(drawing: &mut Drawing, (x, y): (f64, f64), (width, height): (f64, f64), columns: usize, pixels: &[u8]) {
    let shade = |at: u8| {
        let opacity = 0.12 + 0.88 * f64::from(at) / f64::from(SHADES - 1);
        [COLOUR[0], COLOUR[1], COLOUR[2], (opacity * 255.0).round() as u8]
    };
    let palette: Vec<[u8; 4]> = std::iter::once([0; 4]).chain((0..SHADES).map(shade)).chain([NO_RESULT]).collect();
    drawing.raw(&format!(
        "<image x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{}\"/>",
        base64(&png::indexed(columns, pixels, &palette))
    ));
}

/// The name of a case's matrix in the page, and of the hosts of a rack.
fn id(case: &MeshCase, rack: Option<usize>) -> String {
    match rack {
        None => format!("racks-{}", case.case),
        Some(rack) => format!("hosts-{}-{rack}", case.case),
    }
}

fn matrix(grid: &mut Grid, axis: &Axis, case: &MeshCase, look: Look) -> Svg {
    let Look { size, fast, .. } = look;
    let side = MARGIN + size * axis.groups.len() as f64;
    let racks = if axis.racks { 0.0 } else { axis.groups.iter().map(|(_, rack)| wide(rack)).fold(0.0, f64::max) };
    let mut drawing = Drawing::new(side.max(SIDE / 2.0) + 8.0 + racks, side + 8.0);
    let to_hosts = |rack: usize| id(case, Some(rack));
    if axis.racks {
        drawing.attribute("id", &id(case, None));
        grid.draw(&mut drawing, look, (MARGIN, size), Some(&to_hosts));
    } else {
        grid.draw(&mut drawing, look, (MARGIN, size), None);
    }
    let at = |position: usize| MARGIN + position as f64 * size;
    let mut before = "";
    for (position, (name, rack)) in axis.groups.iter().enumerate() {
        if rack != before && !axis.racks {
            if position > 0 {
                drawing.line("axis", (at(position), MARGIN), (at(position), side));
                drawing.line("axis", (MARGIN, at(position)), (side, at(position)));
            }
            drawing.text("m", (side + 6.0, at(position) + 13.0), Anchor::Start, rack);
        }
        before = rack;
        if size >= 11.0 {
            let middle = at(position) + size / 2.0 + 4.0;
            drawing.text("small", (MARGIN - 6.0, middle), Anchor::End, name);
            column(&mut drawing, (middle, MARGIN - 6.0), name);
        }
    }
    let label = format!("p50 of the pairs of {} hosts", case.hosts.len());
    drawing.text(
        "small",
        (MARGIN, 12.0),
        Anchor::Start,
        &format!("{label}. Times slower than {}:", Glyphs::Unicode.time(fast)),
    );
    for (place, times) in [1.0, 1.2, 1.5, 2.0, STRONGEST].into_iter().enumerate() {
        let x = MARGIN + place as f64 * KEY;
        drawing.rectangle("f1", (x, 20.0), (14.0, 12.0), opacity(times), "");
        let more = if times == STRONGEST { " and more" } else { "" };
        drawing.text("small", (x + 18.0, 30.0), Anchor::Start, &format!("{}{more}", three_digits(times)));
    }
    drawing.finish(&label)
}

/// The hosts of a rack, each towards every rack; the columns stand as in the matrix.
fn hosts(towards: &Grid, axis: &Axis, case: &MeshCase, rack: usize, look: Look) -> Svg {
    let mut own: Vec<usize> = (0..case.hosts.len()).filter(|host| axis.of_host[*host] == Some(rack)).collect();
    own.sort_by(|a, b| factor(&case.hosts[*a]).total_cmp(&factor(&case.hosts[*b])));
    let named = |host: &usize| {
        let HostEffect { host, factor, .. } = &case.hosts[*host];
        let times = factor.map_or("no result".into(), |[_, times, _]| format!("{}×", three_digits(times)));
        format!("{host} {times}")
    };
    let mut grid = Grid { rows: own.iter().map(named).collect(), columns: axis.names(), ..Grid::default() };
    for (row, host) in own.iter().enumerate() {
        let of_host = (*host, 0)..(host + 1, 0);
        let cells = towards.cells.range(of_host.clone());
        grid.cells.extend(cells.map(|((_, column), values)| ((row, *column), values.clone())));
        grid.missing.extend(towards.missing.range(of_host).map(|(_, column)| (row, *column)));
    }
    let top = 44.0;
    let (width, bottom) = (MARGIN + look.size * axis.groups.len() as f64, top + ROW * own.len() as f64);
    let mut drawing = Drawing::new(width.max(SIDE / 2.0) + 8.0, bottom + 8.0);
    drawing.attribute("id", &id(case, Some(rack)));
    drawing.attribute("data-opened", "");
    grid.draw(&mut drawing, look, (top, ROW), None);
    for column in [rack, rack + 1] {
        let x = MARGIN + column as f64 * look.size;
        drawing.line("axis", (x, top), (x, bottom));
    }
    for (row, name) in grid.rows.iter().enumerate() {
        drawing.text("small", (MARGIN - 6.0, top + (row as f64 + 0.5) * ROW + 4.0), Anchor::End, name);
    }
    let name = &axis.groups[rack].0;
    let label = format!("rack {name}: its {} hosts towards every rack, the fastest first", own.len());
    let how = "close · × is times slower than the host in the middle; the rack's own column is between the lines";
    drawing.text("b", (MARGIN, 16.0), Anchor::Start, &label);
    drawing.raw(&format!("<a href=\"#{}\">", id(case, None)));
    drawing.text("m", (MARGIN, 34.0), Anchor::Start, how);
    drawing.raw("</a>");
    drawing.finish(&label)
}

#[cfg(test)]
mod tests;
