//! The columns of what a run's files hold row by row. One line says what a column is called, its type and unit, what it
//! says, when it is empty, and how a block keeps it; codec, CSV, Parquet and the tables of `docs/record.md` are made of it.
//!
//! The payload of a log's block is many rows of one case and pass: the varints number of rows, case, pass, and then column
//! after column, each with its name, its form and its length, one varint a cell, as [`Form`] says. Numbers are below 2^62,
//! signed ones above -2^62, but for those of [`Form::ByKind`]. A column that this version does not know is skipped. One that
//! a block lacks is that of a row by default, 0 or empty, but for those without which a row says nothing
//! ([`Column::required`]).

mod document;
mod events;
pub(crate) mod messages;

pub use document::{documented, table};

use std::borrow::Cow;
use std::fmt::Debug;

use msgpath_core::schema::{MessageRow, RoundRecord};
use msgpath_core::{Case, varint};

use crate::Run;
use crate::block::{self, Fault, MAX_ROWS};
use crate::error::WrittenBy;
use crate::export::{reply, role_word};

/// Numbers are below it.
pub const MAX_NUMBER: u64 = 1 << 62;

/// A column of rows of this type.
pub struct Column<R: 'static> {
    /// Its name wherever it has one.
    pub name: &'static str,
    pub(crate) kind: Kind,
    /// Empty: none.
    pub(crate) unit: &'static str,
    /// What a cell says.
    pub(crate) says: &'static str,
    /// When a cell is empty; empty: never.
    pub(crate) null: &'static str,
    /// `None`: the blocks of the log do not have it.
    stored: Option<Stored<R>>,
    /// A block without it is not read.
    required: bool,
    /// The number that stands for no number.
    nothing: Option<u64>,
    /// A block in which all its cells are empty goes without it.
    rare: bool,
    shown: Shown<R>,
}

/// Whether a column is exported.
enum Shown<R> {
    No,
    AsStored,
    By(Show<R>),
}

/// The cell of a row in an export.
type Show<R> = for<'a> fn(&'a Context<'a>, &'a R) -> Cell<'a>;

/// The type of an exported cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A number with a point, as text.
    Decimal,
}

/// An exported cell.
#[derive(Debug, PartialEq)]
pub enum Cell<'a> {
    Empty,
    Number(i128),
    Text(Cow<'a, str>),
}

/// What cells are made of beside their row.
pub struct Context<'a> {
    pub run: &'a Run,
    /// Path and pieces of every case.
    texts: Vec<[String; 2]>,
}

/// Rows that belong to a case.
pub trait OfCase: 'static {
    /// Case and pass.
    fn place(&self) -> (u32, u32);
}

/// The rows of a log, many of one case and pass in a block. Rows of another crate's type have one of their own for it.
pub trait Logged: 'static {
    type Row: Clone + Debug + Default + 'static;
    /// What they are, in the plural.
    const WHAT: &'static str;
    /// Those that have a form are in the blocks, in this order.
    const COLUMNS: &'static [Column<Self::Row>];
    /// Gives a row its case and pass, where it has them.
    fn set_place(_row: &mut Self::Row, _case: u32, _pass: u32) {}
    /// Below [`KINDS`], where there are several.
    fn kind(_row: &Self::Row) -> usize {
        0
    }
}

/// How a block keeps a column.
pub enum Stored<R> {
    /// A number a row.
    Number(Form, Get<R>, Set<R>),
    /// A field of at most [`MOST_BYTES`] bytes: the number of them without the zeros at the end, and those bytes; one more than the
    /// field has: as in the row before.
    Key(fn(&R) -> &[u8], fn(&mut R) -> &mut [u8]),
}

/// The number of a row, where it has one.
pub type Get<R> = fn(&R) -> Option<u64>;
/// Gives a row its number. `None`: the value is out of the range of its field.
pub type Set<R> = fn(&mut R, Option<u64>) -> Option<()>;

/// The varint of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Itself,
    /// zigzag of the difference from the row before (from 0 at first), modulo 2^64.
    Difference,
    /// The difference from the row before, which is never larger.
    Rising,
    /// The value + 1; 0: there is none.
    Optional,
    /// zigzag of the difference from the last value in the column (from 0 at first) + 1; 0: there is none. Signed.
    OptionalDifference,
    /// zigzag of the difference from the last row of the same kind (from 0 at first); all 64 bits.
    ByKind,
}

/// A column of a log that has its field as it is; `?`: an optional one.
#[macro_export]
macro_rules! stored {
    (? $form:ident, $field:ident) => {
        $crate::columns::Stored::Number(
            $crate::columns::Form::$form,
            |row| row.$field.map(|value| value as u64),
            |row, cell| {
                row.$field = cell.map(|value| value as _);
                Some(())
            },
        )
    };
    ($form:ident, $field:ident) => {
        $crate::columns::Stored::Number(
            $crate::columns::Form::$form,
            |row| Some(row.$field.into()),
            |row, cell| {
                row.$field = cell?.try_into().ok()?;
                Some(())
            },
        )
    };
}
pub use stored;

impl<R> Column<R> {
    /// A column that is exported and not in the blocks of a log.
    pub const fn shown(name: &'static str, kind: Kind, unit: &'static str, says: &'static str, show: Show<R>) -> Self {
        let shown = Shown::By(show);
        Self { name, kind, unit, says, null: "", stored: None, required: false, nothing: None, rare: false, shown }
    }

    /// A column of a log, exported as it is.
    pub const fn stored(name: &'static str, unit: &'static str, says: &'static str, stored: Stored<R>) -> Self {
        let (stored, shown) = (Some(stored), Shown::AsStored);
        Self {
            name,
            kind: Kind::Int64,
            unit,
            says,
            null: "",
            stored,
            required: false,
            nothing: None,
            rare: false,
            shown,
        }
    }

    /// Without it a row says nothing.
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Most blocks have nothing in it, and go without it.
    pub const fn rare(mut self) -> Self {
        self.rare = true;
        self
    }

    /// When its cells are empty.
    pub const fn or_empty(mut self, null: &'static str) -> Self {
        self.null = null;
        self
    }

    /// This number stands for no number.
    pub const fn empty_at(mut self, nothing: u64) -> Self {
        self.nothing = Some(nothing);
        self
    }

    /// Exported otherwise than stored.
    pub const fn shown_by(mut self, kind: Kind, show: Show<R>) -> Self {
        (self.kind, self.shown) = (kind, Shown::By(show));
        self
    }

    /// Not exported.
    pub const fn hidden(mut self) -> Self {
        self.shown = Shown::No;
        self
    }

    /// What a cell says, in which unit, and when it is empty.
    #[cfg_attr(not(feature = "parquet"), allow(dead_code, reason = "other formats have no place for it"))]
    pub(crate) fn explained(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(", {}", self.unit) };
        let null = if self.null.is_empty() { String::new() } else { format!("; null: {}", self.null) };
        format!("{}{unit}{null}", self.says)
    }

    /// Whether a row has something in it.
    fn has(&self, row: &R) -> bool {
        match &self.stored {
            Some(Stored::Number(_, get, _)) => get(row).is_some(),
            Some(Stored::Key(key, _)) => !without_zeros(key(row)).is_empty(),
            None => false,
        }
    }

    /// Whether exports have it.
    pub fn is_exported(&self) -> bool {
        !matches!(self.shown, Shown::No)
    }

    /// What is stored of a row that belongs to no case: numbers as they are, keys as text.
    pub(crate) fn bare<'a>(&self, row: &'a R) -> Cell<'a> {
        match &self.stored {
            Some(Stored::Number(_, get, _)) => get(row).filter(|value| Some(*value) != self.nothing).into(),
            Some(Stored::Key(key, _)) => Cell::Text(String::from_utf8_lossy(without_zeros(key(row)))),
            None => Cell::Empty,
        }
    }

    /// Whether it is stored as a key.
    #[cfg_attr(not(feature = "parquet"), allow(dead_code, reason = "other formats have no types"))]
    pub(crate) fn is_key(&self) -> bool {
        matches!(self.stored, Some(Stored::Key(..)))
    }

    /// The cell of a row in an export.
    pub fn cell<'a>(&self, context: &'a Context<'a>, row: &'a R) -> Cell<'a> {
        match (&self.shown, &self.stored) {
            (Shown::By(show), _) => show(context, row),
            (Shown::AsStored, Some(Stored::Number(form, get, _))) => match (get(row), form) {
                (Some(value), Form::OptionalDifference) => (value as i64).into(),
                (value, _) => value.into(),
            },
            _ => Cell::Empty,
        }
    }
}

macro_rules! cells {
    ($($from:ty => $variant:ident),*) => {$(
        impl<'a> From<$from> for Cell<'a> {
            fn from(value: $from) -> Self {
                Cell::$variant(value.into())
            }
        }
    )*};
}

cells!(i64 => Number, u64 => Number, u32 => Number, String => Text, &'a str => Text);

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Empty, Into::into)
    }
}

impl<'a> Context<'a> {
    /// That of the rows of a run.
    pub fn new(run: &'a Run) -> Self {
        let texts = run.header.plan.cases.iter().map(|case| [case.path.to_string(), case.pieces.to_string()]).collect();
        Self { run, texts }
    }

    /// The case of a row; the reader has checked that it exists.
    pub fn case(&self, row: &impl OfCase) -> &Case {
        &self.run.header.plan.cases[row.place().0 as usize]
    }
}

impl OfCase for MessageRow {
    fn place(&self) -> (u32, u32) {
        (self.case, self.pass)
    }
}

impl OfCase for RoundRecord {
    fn place(&self) -> (u32, u32) {
        (self.case, self.pass)
    }
}

const NOT_TOLD: &str = "an imported file does not tell";

/// The columns of the case, which stand before those of its rounds and messages.
pub(crate) const fn of_case<R: OfCase>() -> [Column<R>; 13] {
    use Kind::{Int32, Int64, Text};
    [
        Column::shown("case_id", Int32, "", "position of the case in the plan", |_, row| row.place().0.into()),
        Column::shown("role", Text, "", "`measured`, `control`, `reference` or `ablation`", |of, row| {
            role_word(of.case(row).role).into()
        }),
        Column::shown("path", Text, "", "transport, send method and wait", |of, row| {
            of.texts[row.place().0 as usize][0].as_str().into()
        }),
        Column::shown("transport", Text, "", "the path's transport", |of, row| {
            of.case(row).path.transport.as_str().into()
        }),
        Column::shown("method", Text, "", "its send method", |of, row| of.case(row).path.method.as_str().into()),
        Column::shown("wait", Text, "", "its wait", |of, row| of.case(row).path.wait.as_str().into()),
        Column::shown("size_bytes", Int64, "bytes", "a message", |of, row| {
            let case = of.case(row);
            case.has_size().then_some(case.size).into()
        })
        .or_empty(NOT_TOLD),
        Column::shown("reply_bytes", Int64, "bytes", "its reply", |of, row| reply(of.run, of.case(row)).into())
            .or_empty("the workload is not echo, or an imported file does not tell"),
        Column::shown("pieces", Text, "", "buffers x bytes of a message", |of, row: &R| {
            let text = of.texts[row.place().0 as usize][1].as_str();
            of.case(row).has_size().then_some(text).into()
        })
        .or_empty(NOT_TOLD),
        Column::shown("connections", Int32, "", "connections", |of, row| of.case(row).connections.into()),
        Column::shown("threads", Int32, "", "measuring threads of an end", |of, row| of.case(row).threads.into()),
        Column::shown("inflight", Int32, "", "messages in flight on a connection", |of, row| {
            of.case(row).inflight.into()
        }),
        Column::shown("pass", Int32, "", "pass, from 0", |_, row| row.place().1.into()),
    ]
}

fn zigzag(value: u64, before: u64) -> u64 {
    let difference = value.wrapping_sub(before) as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

fn unzigzag(coded: u64, before: u64) -> u64 {
    before.wrapping_add((coded >> 1) ^ (coded & 1).wrapping_neg())
}

/// More than there are kinds of rows.
const KINDS: usize = 32;
/// The longest field that is stored as a key.
pub const MOST_BYTES: usize = 24;

/// The payload of 1 to [`MAX_ROWS`] rows of one case and pass.
///
/// # Errors
/// Too many rows or none, or a number that is out of its range.
pub fn encode<L: Logged>(case: u32, pass: u32, rows: &[L::Row]) -> Result<Vec<u8>, String> {
    if rows.is_empty() || rows.len() > MAX_ROWS {
        return Err(format!("{} rows", rows.len()));
    }
    let mut out = Vec::with_capacity(16 + rows.len() * (L::COLUMNS.len() + 4));
    for value in [rows.len() as u64, case.into(), pass.into()] {
        varint::put(&mut out, value);
    }
    let mut cells = Vec::new();
    let there = |column: &&Column<L::Row>| !column.rare || rows.iter().any(|row| column.has(row));
    let columns = L::COLUMNS.iter().filter(there);
    for (name, stored) in columns.filter_map(|column| Some((column.name, column.stored.as_ref()?))) {
        cells.clear();
        match stored {
            Stored::Number(form, get, _) => {
                let mut before = [0; KINDS];
                for row in rows {
                    let value = get(row);
                    let coded = form.code(value, &mut before[form.kind::<L>(row)]);
                    let beyond = || format!("{name} {} of {} is out of its range", value.unwrap_or(0), L::WHAT);
                    varint::put(&mut cells, coded.ok_or_else(beyond)?);
                }
            }
            Stored::Key(key, _) => {
                let mut before = &[0; MOST_BYTES][..key(&rows[0]).len()];
                for row in rows {
                    let key = key(row);
                    if key == before {
                        varint::put(&mut cells, key.len() as u64 + 1);
                    } else {
                        let bytes = without_zeros(key);
                        varint::put(&mut cells, bytes.len() as u64);
                        cells.extend_from_slice(bytes);
                        before = key;
                    }
                }
            }
        }
        block::put_section(&mut out, name, stored.number(), &cells);
    }
    Ok(out)
}

/// A key without the zeros at its end.
pub fn without_zeros(key: &[u8]) -> &[u8] {
    &key[..key.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)]
}

impl Form {
    fn kind<L: Logged>(self, row: &L::Row) -> usize {
        if self == Form::ByKind { L::kind(row) } else { 0 }
    }

    fn fits(self, value: u64) -> bool {
        match self {
            Form::Itself | Form::ByKind => true,
            Form::OptionalDifference => (value as i64).unsigned_abs() < MAX_NUMBER,
            Form::Difference | Form::Rising | Form::Optional => value < MAX_NUMBER,
        }
    }

    /// `None`: the value is out of its range.
    fn code(self, value: Option<u64>, before: &mut u64) -> Option<u64> {
        let Some(value) = value else { return Some(0) };
        let last = std::mem::replace(before, value);
        match self {
            _ if !self.fits(value) => None,
            Form::Itself => Some(value),
            Form::Difference | Form::ByKind => Some(zigzag(value, last)),
            Form::Rising => value.checked_sub(last),
            Form::Optional => Some(value + 1),
            Form::OptionalDifference => Some(zigzag(value, last) + 1),
        }
    }

    /// `None`: no such value can have been written.
    fn decode(self, coded: u64, before: &mut u64) -> Option<Option<u64>> {
        *before = match (self, coded) {
            (Form::Optional | Form::OptionalDifference, 0) => return Some(None),
            (Form::Itself, _) => coded,
            (Form::Difference | Form::ByKind, _) => unzigzag(coded, *before),
            (Form::Rising, _) => before.checked_add(coded)?,
            (Form::Optional, _) => coded - 1,
            (Form::OptionalDifference, _) => unzigzag(coded - 1, *before),
        };
        self.fits(*before).then_some(Some(*before))
    }
}

/// Replaces `rows` by those of a payload; their case and pass.
///
/// # Errors
/// They are damaged, or another version wrote them.
pub fn decode<L: Logged>(mut payload: &[u8], rows: &mut Vec<L::Row>) -> Result<(u32, u32), Fault> {
    rows.clear();
    let damaged = || Fault::Damaged(format!("the columns of the {} do not fill their block", L::WHAT));
    let place = take_place::<L>(&mut payload, rows).ok_or_else(damaged)?;
    let known = L::COLUMNS.iter().filter_map(|column| Some((column, column.stored.as_ref()?)));
    let sections = block::sections(payload)?;
    // In the order of the list, whatever theirs is: a form may need the kinds of the rows.
    let mut columns = Vec::with_capacity(L::COLUMNS.len());
    for (column, stored) in known {
        match block::column(&sections, column.name, stored.number())? {
            // As in a row by default.
            Some(cells) if stored.is_optional() && cells.len() == rows.len() && cells.iter().all(|cell| *cell == 0) => {
            }
            Some(cells) => columns.push(Cells::<L>::new(stored, cells)),
            None if column.required => return Err(Fault::Foreign(WrittenBy::Newer)),
            None => {}
        }
    }
    for rows in rows.chunks_mut(NEAR_ROWS) {
        columns.iter_mut().try_for_each(|column| column.take(rows)).ok_or_else(damaged)?;
    }
    if columns.iter().all(|column| column.left.is_empty()) { Ok(place) } else { Err(damaged()) }
}

/// Number of rows, case and pass, which a payload begins with.
pub(crate) fn take_head(bytes: &mut &[u8]) -> Option<(usize, u32, u32)> {
    let mut take = || varint::take(bytes);
    let count = usize::try_from(take()?).ok().filter(|count| (1..=MAX_ROWS).contains(count))?;
    Some((count, take()?.try_into().ok()?, take()?.try_into().ok()?))
}

/// Makes the rows, each with its case and pass.
fn take_place<L: Logged>(bytes: &mut &[u8], rows: &mut Vec<L::Row>) -> Option<(u32, u32)> {
    let (count, case, pass) = take_head(bytes)?;
    let mut blank = L::Row::default();
    L::set_place(&mut blank, case, pass);
    rows.resize(count, blank);
    Some((case, pass))
}

/// Rows that stay in the cache while one column after the other is filled.
const NEAR_ROWS: usize = 256;

/// A column whose rows are filled one after the other.
struct Cells<'a, L: Logged> {
    stored: &'a Stored<L::Row>,
    left: &'a [u8],
    /// The last value of each kind, and the last key.
    before: [u64; KINDS],
    key: [u8; MOST_BYTES],
}

impl<'a, L: Logged> Cells<'a, L> {
    fn new(stored: &'a Stored<L::Row>, left: &'a [u8]) -> Self {
        Self { stored, left, before: [0; KINDS], key: [0; MOST_BYTES] }
    }

    /// Fills the column in the next rows.
    fn take(&mut self, rows: &mut [L::Row]) -> Option<()> {
        let bytes = &mut self.left;
        match self.stored {
            Stored::Number(form, _, set) => {
                for row in rows {
                    let value = form.decode(varint::take(bytes)?, &mut self.before[form.kind::<L>(row)])?;
                    set(row, value)?;
                }
            }
            Stored::Key(_, field) => {
                for row in rows {
                    let field = field(row);
                    let length = usize::try_from(varint::take(bytes)?).ok()?;
                    if length != field.len() + 1 {
                        let (taken, rest) = bytes.split_at_checked(length)?;
                        (*bytes, self.key) = (rest, [0; MOST_BYTES]);
                        self.key.get_mut(..field.len())?.get_mut(..length)?.copy_from_slice(taken);
                    }
                    field.copy_from_slice(&self.key[..field.len()]);
                }
            }
        }
        Some(())
    }
}

impl<R> Stored<R> {
    /// Whether a cell of 0 is one that is missing.
    fn is_optional(&self) -> bool {
        matches!(self, Stored::Number(Form::Optional | Form::OptionalDifference, ..))
    }

    /// What stands for it in a block.
    fn number(&self) -> u64 {
        match self {
            Stored::Number(Form::Itself, ..) => 1,
            Stored::Number(Form::Difference, ..) => 2,
            Stored::Number(Form::Rising, ..) => 3,
            Stored::Number(Form::Optional, ..) => 4,
            Stored::Number(Form::OptionalDifference, ..) => 5,
            Stored::Number(Form::ByKind, ..) => 6,
            Stored::Key(..) => 7,
        }
    }
}

/// The payload that holds these columns, each with its name, its form and its cells.
#[cfg(test)]
pub(crate) fn block_of(place: [u8; 3], columns: &[(&str, u8, &[u8])]) -> Vec<u8> {
    let mut out = place.to_vec();
    for (name, form, cells) in columns {
        out.push(name.len() as u8);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&[*form, cells.len() as u8]);
        out.extend_from_slice(cells);
    }
    out
}

#[cfg(test)]
mod tests {
    use msgpath_core::schema::KernelEvent;
    use proptest::prelude::*;

    use super::*;
    use crate::test_run::Note;

    /// A payload of one row of which one column is left out, or replaced by another of this name and form.
    fn without<L: Logged>(row: &L::Row, name: &str, instead: Option<(&str, u64)>) -> Vec<u8> {
        let payload = encode::<L>(0, 0, std::slice::from_ref(row)).unwrap();
        let mut out = payload[..3].to_vec();
        for section in block::sections(&payload[3..]).unwrap().into_iter().rev() {
            let own = std::str::from_utf8(section.name).unwrap();
            match instead {
                _ if own != name => block::put_section(&mut out, own, section.kind, section.bytes),
                Some((name, kind)) => block::put_section(&mut out, name, kind, section.bytes),
                None => {}
            }
        }
        out
    }

    #[test]
    fn columns_are_known_by_their_names() {
        let row = MessageRow { connection: 3, sequence: 9, start_ns: 5, latency_ns: Some(7), ..MessageRow::default() };
        let read = |payload: &[u8]| {
            let mut rows = Vec::<MessageRow>::new();
            decode::<MessageRow>(payload, &mut rows).map(|_| rows[0])
        };
        assert_eq!(read(&without::<MessageRow>(&row, "", None)), Ok(row), "in another order");
        assert_eq!(
            read(&without::<MessageRow>(&row, "sent_ns", Some(("noise", 99)))),
            Ok(row),
            "one that nobody knows"
        );
        assert_eq!(read(&without::<MessageRow>(&row, "connection", None)), Ok(MessageRow { connection: 0, ..row }));
        let newer = Err(Fault::Foreign(WrittenBy::Newer));
        assert_eq!(read(&without::<MessageRow>(&row, "start_ns", None)), newer, "one that is needed");
        assert_eq!(read(&without::<MessageRow>(&row, "latency_ns", Some(("latency_ns", 5)))), newer, "in another form");
        let twice = read(&without::<MessageRow>(&row, "sent_ns", Some(("start_ns", 1))));
        assert!(matches!(twice, Err(Fault::Damaged(_))), "{twice:?}");
    }

    #[test]
    fn events_are_read_whatever_the_order_of_their_columns() {
        let kind = msgpath_core::schema::EventKind::SchedSwitch;
        let event = KernelEvent { t_ns: 8, kind, cpu: 1, tid: -4, a: u64::MAX, b: 2, len: 3, flags: 1, end: 0 };
        let mut rows = Vec::<KernelEvent>::new();
        decode::<KernelEvent>(&without::<KernelEvent>(&event, "", None), &mut rows).unwrap();
        assert_eq!(rows, [event]);
    }

    /// A row with one of the values in every column, cut until it fits.
    fn row<L: Logged>(values: &[Option<u64>]) -> L::Row {
        let mut row = L::Row::default();
        for (stored, value) in L::COLUMNS.iter().filter_map(|column| column.stored.as_ref()).zip(values) {
            match stored {
                Stored::Number(form, _, set) => {
                    let cut = |shift| value.map(|value| (value as i64 >> shift) as u64);
                    let whole = |shift| value.map(|value| value >> shift);
                    let signed = [Form::OptionalDifference, Form::ByKind].contains(form);
                    let value = (0..64)
                        .map(|shift| if signed { cut(shift) } else { whole(shift) })
                        .chain([Some(1)])
                        .filter(|value| value.is_none_or(|value| form.fits(value)));
                    value.map(|value| set(&mut row, value)).find(Option::is_some).unwrap();
                }
                Stored::Key(_, field) => field(&mut row)[..8].copy_from_slice(&value.unwrap_or(7).to_le_bytes()),
            }
        }
        row
    }

    fn come_back<L: Logged<Row: PartialEq>>(mut rows: Vec<L::Row>, (case, pass): (u32, u32), cut: prop::sample::Index) {
        rows.iter_mut().for_each(|row| L::set_place(row, case, pass));
        let payload = encode::<L>(case, pass, &rows).unwrap();
        let mut back = vec![L::Row::default()];
        assert_eq!(decode::<L>(&payload, &mut back), Ok((case, pass)));
        assert!(back == rows, "{back:?} and {rows:?}");
        // What is cut off between two columns is whole, and lacks those after it.
        if decode::<L>(&payload[..cut.index(payload.len())], &mut back).is_ok() {
            assert_eq!(back.len(), rows.len());
        }
    }

    fn values() -> impl Strategy<Value = Vec<Vec<Option<u64>>>> {
        let value = prop::option::of(prop_oneof![0_u64..1000, any::<u64>(), Just(u64::MAX)]);
        prop::collection::vec(prop::collection::vec(value, 18), 1..100)
    }

    proptest! {
        #[test]
        fn rows_come_back_whole(values in values(), place: (u32, u32), cut: prop::sample::Index) {
            come_back::<MessageRow>(values.iter().map(|values| row::<MessageRow>(values)).collect(), place, cut);
            come_back::<Note>(values.iter().map(|values| row::<Note>(values)).collect(), place, cut);
            let mut events: Vec<KernelEvent> = values.iter().map(|values| row::<KernelEvent>(values)).collect();
            events.sort_by_key(|event| event.t_ns);
            come_back::<KernelEvent>(events, place, cut);
        }
    }
}
