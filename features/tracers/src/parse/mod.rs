//! What tracers of others printed of threads (`perf sched timehist`, `strace`), line by line.

mod number;
pub(crate) mod strace;
pub(crate) mod timehist;

use msgpath_core::foreign::shown_bytes;

/// Slices or calls that are kept of a text; those beyond are counted.
pub const MAX_ROWS: usize = 4_000_000;
/// Threads, and names of calls or errors, that are told apart in a text.
pub const MAX_NAMES: usize = 1 << 14;
/// Bytes of the begin of a text that tell what it is, where its first line ends there.
const BEGIN: usize = 8192;
/// The most that a first line may take for that, bytes: with `-s` and `-v` a call shows its whole environment.
pub const LONGEST_BEGIN: usize = 1 << 20;
/// Characters of a line that was not understood which are shown.
const SHOWN: usize = 120;

/// Who printed a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracer {
    /// `perf sched timehist`.
    Timehist,
    /// `strace`, its calls or its table.
    Strace,
}

impl Tracer {
    /// As its user calls it.
    pub fn name(self) -> &'static str {
        match self {
            Tracer::Timehist => "perf sched timehist",
            Tracer::Strace => "strace",
        }
    }
}

/// A thread that a text names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its id; `None`: a text of one thread that does not say.
    pub tid: Option<u32>,
    /// Its process, where the text says that it is another number.
    pub pid: Option<u32>,
    /// Its name, where the text has one: the last it had.
    pub name: String,
}

/// A thread's time on a CPU, and off it before: a line of `perf sched timehist`. What goes on at `end_ns` is that it leaves the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Position in [`Text::threads`].
    pub thread: u32,
    pub cpu: u32,
    /// When it left the CPU, ns by the tracer's clock.
    pub end_ns: u64,
    /// Off the CPU before, ns: 'wait time'. The delay is its last part, where the wait is known.
    pub wait_ns: u64,
    /// Runnable after a wake-up, ns: 'sch delay'.
    pub delay_ns: u64,
    /// On the CPU, ns: 'run time'.
    pub run_ns: u64,
}

/// A system call: a line of `strace`, or two where another thread's came between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Position in [`Text::threads`].
    pub thread: u32,
    /// Position in [`Text::names`].
    pub name: u32,
    /// When it began, ns; `None`: without `-t`, `-tt`, `-ttt` or `-r`.
    pub at_ns: Option<u64>,
    /// How long it took, ns; `None`: without `-T`, or it did not return.
    pub took_ns: Option<u64>,
    /// Position of its error in [`Text::names`].
    pub error: Option<u32>,
}

/// A row of the table of `strace -c`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub name: String,
    /// Its time, ns: of the CPU in the kernel, with `-w` from begin to end.
    pub ns: u64,
    /// How many calls.
    pub calls: u64,
    /// How many failed.
    pub errors: u64,
}

/// What became of the lines of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// All that are not empty.
    pub all: u64,
    /// Heads, wake-ups, signals, ends of threads: known, and nothing to be counted.
    pub others: u64,
    /// Not understood.
    pub unknown: u64,
    /// The first of those: its number from 1, and how it begins.
    pub first: Option<(u64, String)>,
    /// Understood, but beyond what is kept: [`MAX_ROWS`], [`MAX_NAMES`].
    pub not_kept: u64,
    /// Second halves of calls whose first half is not in the text.
    pub halves: u64,
    /// Ends of slices whose three times are 0: of a thread's first, and of all with `-I`, nothing was known.
    pub timeless: u64,
}

/// What a text says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Who printed it.
    pub tracer: Tracer,
    /// The file, as it was typed.
    pub file: String,
    /// Threads, in the order in which they come.
    pub threads: Vec<Thread>,
    /// Names of calls and errors.
    pub names: Vec<String>,
    /// Of `perf sched timehist`, in the order of the text.
    pub slices: Vec<Slice>,
    /// Of `strace`, in the order in which they ended.
    pub calls: Vec<Call>,
    /// Of `strace -c`.
    pub counted: Vec<Counted>,
    /// What became of the lines.
    pub lines: Lines,
}

impl Text {
    fn new(tracer: Tracer, file: &str) -> Self {
        Self {
            tracer,
            file: file.into(),
            threads: Vec::new(),
            names: Vec::new(),
            slices: Vec::new(),
            calls: Vec::new(),
            counted: Vec::new(),
            lines: Lines::default(),
        }
    }

    /// Whether there is anything to show.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty() && self.calls.is_empty() && self.counted.is_empty()
    }
}

/// What a line was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// A slice, a call or a row of a table.
    Row,
    /// Known, and nothing of it is kept.
    Other,
    /// The same as a row, but there is no room.
    NoRoom,
    /// The second half of a call without its first.
    Half,
    /// The end of a slice without its times.
    Timeless,
    Unknown,
}

/// Whoever understands the lines of one tracer, in their order.
trait Lexer {
    fn line(&mut self, line: &str, text: &mut Text) -> Line;
    fn end(&mut self, text: &mut Text);
}

/// Position of `name` in `names`; `None`: there is no room.
fn position(names: &mut Vec<String>, of: &mut std::collections::HashMap<String, u32>, name: &str) -> Option<u32> {
    if let Some(at) = of.get(name) {
        return Some(*at);
    }
    if names.len() == MAX_NAMES {
        return None;
    }
    let at = names.len() as u32;
    names.push(name.to_owned());
    of.insert(name.to_owned(), at);
    Some(at)
}

/// Who printed a text that begins so; `None`: none of them. More than half of its first lines must be understood.
pub fn tracer_of(begin: &[u8]) -> Option<Tracer> {
    let first =
        begin.iter().take(LONGEST_BEGIN).position(|byte| *byte == b'\n').map_or(BEGIN, |end| (end + 1).max(BEGIN));
    let begin = &begin[..begin.len().min(first)];
    if begin.contains(&0) {
        return None;
    }
    // The last line may be cut.
    let whole = begin.iter().rposition(|byte| *byte == b'\n').map_or(begin, |end| &begin[..end]);
    [Tracer::Timehist, Tracer::Strace].into_iter().find(|tracer| {
        let text = parse(*tracer, "", whole);
        text.lines.unknown * 2 < text.lines.all && (!text.is_empty() || has_head(*tracer, whole))
    })
}

/// A head alone: the begin of a table or of a text that has no row yet.
fn has_head(tracer: Tracer, text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    text.lines().any(|line| match tracer {
        Tracer::Timehist => timehist::is_head(line),
        Tracer::Strace => strace::is_head(line),
    })
}

/// What a text says; nothing of it can make this fail.
pub fn parse(tracer: Tracer, file: &str, bytes: &[u8]) -> Text {
    let mut text = Text::new(tracer, file);
    let mut lexer: Box<dyn Lexer> = match tracer {
        Tracer::Timehist => Box::new(timehist::Timehist::default()),
        Tracer::Strace => Box::new(strace::Strace::default()),
    };
    for (number, bytes) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = String::from_utf8_lossy(bytes);
        let line = line.trim_end();
        if line.trim_start().is_empty() {
            continue;
        }
        text.lines.all += 1;
        match lexer.line(line, &mut text) {
            Line::Row => {}
            Line::Other => text.lines.others += 1,
            Line::NoRoom => text.lines.not_kept += 1,
            Line::Half => text.lines.halves += 1,
            Line::Timeless => text.lines.timeless += 1,
            Line::Unknown => {
                text.lines.unknown += 1;
                let first = || (number as u64 + 1, shown_bytes(line.as_bytes(), SHOWN));
                text.lines.first.get_or_insert_with(first);
            }
        }
    }
    lexer.end(&mut text);
    text
}

/// What fuzzing asks of any text: what is kept stays within the limits and points at what is there, every line has become
/// something, and whatever is recognised can be read.
///
/// # Panics
/// One of these does not hold.
pub fn fuzz_text(bytes: &[u8]) {
    let _ = tracer_of(bytes);
    for tracer in [Tracer::Timehist, Tracer::Strace] {
        let Text { threads, names, slices, calls, counted, lines, .. } = parse(tracer, "", bytes);
        assert!(threads.len() <= MAX_NAMES && names.len() <= MAX_NAMES && counted.len() <= MAX_NAMES);
        assert!(slices.len() <= MAX_ROWS && calls.len() <= MAX_ROWS);
        assert!(slices.iter().all(|slice| (slice.thread as usize) < threads.len()));
        assert!(slices.iter().all(|slice| slice.run_ns <= number::MOST && slice.end_ns <= number::MOST));
        for call in &calls {
            assert!((call.thread as usize) < threads.len() && (call.name as usize) < names.len());
            assert!(call.error.is_none_or(|error| (error as usize) < names.len()));
            assert!(call.took_ns.is_none_or(|ns| ns <= number::MOST));
        }
        assert!(lines.unknown + lines.others + lines.not_kept + lines.halves + lines.timeless <= lines.all);
        assert_eq!(lines.first.is_some(), lines.unknown > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_of_a_tracer_is_not_taken_for_one() {
        let csv = b"t1,t2,t3,t4\n1,2,3,4\n5,6,7,8\n";
        let binary = [1_u8, 2, 3, 0, 0, 0, 7, 10].repeat(12);
        let json = b"{ \"title\" : \"x\",\n\"events\" : [\n";
        let prose = "a text that has nothing to do with any call\n".repeat(9);
        for other in [csv.as_slice(), &binary, json, prose.as_bytes(), b"", b"\n\n", b"\xff\xfe\n"] {
            assert_eq!(tracer_of(other), None, "{}", String::from_utf8_lossy(other));
        }
        assert_eq!(tracer_of(timehist::tests::TEXT.as_bytes()), Some(Tracer::Timehist));
        assert_eq!(tracer_of(strace::tests::TEXT.as_bytes()), Some(Tracer::Strace));
        assert_eq!(tracer_of(strace::tests::TABLE.as_bytes()), Some(Tracer::Strace));
        // A first line that is longer than what is looked at otherwise.
        let long = format!("execve(\"env\", [\"A={}\"]) = 0\nbrk(NULL) = 0x1\n", "a".repeat(2 * BEGIN));
        assert_eq!(tracer_of(long.as_bytes()), Some(Tracer::Strace));
        assert_eq!(tracer_of(&long.as_bytes()[..BEGIN]), None, "whoever looks must look further");
        // Cut in the midst of a line.
        assert_eq!(tracer_of(&strace::tests::TEXT.as_bytes()[..strace::tests::TEXT.len() / 2]), Some(Tracer::Strace));
    }

    #[test]
    fn any_bytes_do_no_harm() {
        let mut random = msgpath_core::shuffle::SplitMix64::new(7);
        let texts = [timehist::tests::TEXT, strace::tests::TEXT, strace::tests::TABLE];
        for round in 0..600 {
            let mut bytes = texts[round % 3].as_bytes().to_vec();
            for _ in 0..=round % 9 {
                let at = (random.next_u64() % bytes.len() as u64) as usize;
                bytes[at] = b" []<>()=.0-9~\n"[(random.next_u64() % 14) as usize];
            }
            fuzz_text(&bytes);
        }
    }
}
