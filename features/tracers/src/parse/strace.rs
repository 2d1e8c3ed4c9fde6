//! Lines of `strace`, with any of its options, and the table of `-c` (strace(1)).

use std::collections::HashMap;

use super::{Call, Counted, Lexer, Line, MAX_NAMES, MAX_ROWS, Text, Thread, number, position};

/// A day, ns: times of the day begin again.
const DAY_NS: u64 = 86_400_000_000_000;
/// Above so many seconds a time counts from 1970, below it is since the line before (`-r`).
const SINCE_1970_NS: u64 = 100_000_000 * 1_000_000_000;
/// No process has a higher number (PID_MAX_LIMIT of Linux).
const HIGHEST_PID: u32 = 1 << 22;
/// The longest name of a call.
const MAX_NAME: usize = 64;

/// Positions of the columns of `strace -c` that are used.
struct Columns {
    count: usize,
    seconds: usize,
    calls: usize,
    errors: Option<usize>,
}

#[derive(Default)]
pub(super) struct Strace {
    threads: HashMap<Option<u32>, u32>,
    names: HashMap<String, u32>,
    /// The call that a thread has begun, by thread.
    begun: HashMap<u32, Call>,
    /// The thread whose call the line before began.
    begun_last: Option<u32>,
    /// The sum of what `-r` gave.
    since_ns: u64,
    /// The last time of the day, and days that have passed.
    day: (u64, u64),
    table: Option<Columns>,
    /// Position in the table, by name.
    counted: HashMap<String, usize>,
}

/// Heads of the table's columns, of which `-U` chooses some.
const HEADS: [&str; 9] =
    ["%time", "seconds", "usecs/call", "shortest", "longest", "calls", "errors", "syscall", "name"];

/// The head of the table.
pub(super) fn is_head(line: &str) -> bool {
    let line = line.replacen("% time", "%time", 1);
    line.contains(' ') && line.contains("calls") && line.split_whitespace().all(|word| HEADS.contains(&word))
}

impl Lexer for Strace {
    fn line(&mut self, line: &str, text: &mut Text) -> Line {
        if is_head(line) {
            self.table = columns(line);
            return if self.table.is_some() { Line::Other } else { Line::Unknown };
        }
        if let Some(columns) = &self.table {
            if line.bytes().all(|byte| byte == b'-' || byte == b' ') {
                return Line::Other;
            }
            match row(columns, line) {
                Some(("total", _)) => {
                    self.table = None;
                    return Line::Other;
                }
                Some((name, row)) => return self.count(name, row, text),
                None => self.table = None,
            }
        }
        self.event(line, text)
    }

    fn end(&mut self, text: &mut Text) {
        // Calls that the text ends before: they were made, and nobody knows how long they took.
        let mut rest: Vec<Call> = self.begun.drain().map(|(_, call)| call).collect();
        rest.sort_unstable_by_key(|call| (call.at_ns, call.thread));
        for call in rest {
            keep(call, text);
        }
    }
}

impl Strace {
    fn count(&mut self, name: &str, row: Counted, text: &mut Text) -> Line {
        if let Some(at) = self.counted.get(name) {
            let one = &mut text.counted[*at];
            (one.ns, one.calls) = (one.ns.saturating_add(row.ns), one.calls.saturating_add(row.calls));
            one.errors = one.errors.saturating_add(row.errors);
            return Line::Row;
        }
        if text.counted.len() == MAX_NAMES {
            return Line::NoRoom;
        }
        self.counted.insert(name.to_owned(), text.counted.len());
        text.counted.push(Counted { name: name.to_owned(), ..row });
        Line::Row
    }

    /// A call, the begin or the end of one, a signal, the end of a thread.
    fn event(&mut self, line: &str, text: &mut Text) -> Line {
        // What it says itself; callers (`-k`); bytes that were read or written (`-e read`, `-e write`).
        if ["strace: ", " > ", " | ", "[ Process PID="].iter().any(|mark| line.starts_with(mark)) {
            return Line::Other;
        }
        let begun_before = self.begun_last.take();
        let (who, rest) = who(line);
        let (time, body) = self.time(rest);
        let body = behind_brackets(body);
        if ["--- ", "+++ "].iter().any(|mark| body.starts_with(mark)) {
            return Line::Other;
        }
        let Some(event) = event(body) else { return self.rest_of(begun_before, line, text) };
        let Some(thread) = self.thread(who, text) else { return Line::NoRoom };
        if let What::Resumed = event.what {
            // Without its first half nobody knows when it began, nor always what it was.
            let Some(call) = self.begun.remove(&thread) else { return Line::Half };
            if text.names[call.name as usize] != event.name {
                return Line::Half;
            }
            let Ok(error) = self.error(event.error, text) else { return Line::NoRoom };
            return keep(Call { took_ns: event.took_ns, error, ..call }, text);
        }
        let Some(name) = position(&mut text.names, &mut self.names, event.name) else { return Line::NoRoom };
        let call = Call { thread, name, at_ns: time, took_ns: event.took_ns, error: None };
        if let What::Unfinished = event.what {
            self.begun_last = Some(thread);
            // A second begin without an end: the first one was never told to the end.
            return self.begun.insert(thread, call).map_or(Line::Row, |lost| keep(lost, text));
        }
        let Ok(error) = self.error(event.error, text) else { return Line::NoRoom };
        keep(Call { error, ..call }, text)
    }

    /// With `-z` and `-Z` the rest of a call stands in the line behind its unfinished begin, without a word of whose it is.
    fn rest_of(&mut self, begun: Option<u32>, line: &str, text: &mut Text) -> Line {
        let begun = begun.filter(|_| result(line).is_some());
        let Some(call) = begun.and_then(|thread| self.begun.remove(&thread)) else { return Line::Unknown };
        let (took_ns, error) = ending(line);
        let Ok(error) = self.error(error, text) else { return Line::NoRoom };
        keep(Call { took_ns, error, ..call }, text)
    }

    /// Position of an error; `Err`: there is no room for one more.
    fn error(&mut self, error: Option<&str>, text: &mut Text) -> Result<Option<u32>, ()> {
        error.map(|name| position(&mut text.names, &mut self.names, name).ok_or(())).transpose()
    }

    fn thread(&mut self, tid: Option<u32>, text: &mut Text) -> Option<u32> {
        if let Some(at) = self.threads.get(&tid) {
            return Some(*at);
        }
        if text.threads.len() == MAX_NAMES {
            return None;
        }
        let at = text.threads.len() as u32;
        text.threads.push(Thread { tid, ..Thread::default() });
        self.threads.insert(tid, at);
        Some(at)
    }

    /// When a line was written, and what follows.
    fn time<'a>(&mut self, rest: &'a str) -> (Option<u64>, &'a str) {
        let rest = rest.trim_start();
        let Some((first, behind)) = rest.split_once(' ') else { return (None, rest) };
        let behind = behind.trim_start();
        // With `-r` beside another time: that since the line before.
        let behind = match behind.strip_prefix("(+").and_then(|since| since.split_once(')')) {
            Some((_, behind)) => behind.trim_start(),
            None => behind,
        };
        if let Some(ns) = number::time_of_day(first) {
            // Lines of several threads may come out of order, but not by half a day.
            let (last, days) = self.day;
            let days = days + u64::from(ns + DAY_NS / 2 < last);
            self.day = (ns, days);
            return (days.checked_mul(DAY_NS).and_then(|begin| begin.checked_add(ns)), behind);
        }
        match number::seconds(first).or_else(|| number::whole_seconds(first)) {
            Some(ns) if ns > SINCE_1970_NS => (Some(ns), behind),
            Some(ns) => {
                self.since_ns = self.since_ns.saturating_add(ns).min(number::MOST);
                (Some(self.since_ns), behind)
            }
            None => (None, rest),
        }
    }
}

fn keep(call: Call, text: &mut Text) -> Line {
    if text.calls.len() == MAX_ROWS {
        return Line::NoRoom;
    }
    text.calls.push(call);
    Line::Row
}

/// `[pid 12] ` as on a terminal, `12 ` at the begin of the line as in a file; both may have the thread's name in `<>` (`-Y`).
fn who(line: &str) -> (Option<u32>, &str) {
    let number = |digits: &str| digits.parse::<u32>().ok().filter(|pid| (1..=HIGHEST_PID).contains(pid));
    if let Some((id, rest)) = line.strip_prefix("[pid ").and_then(|rest| rest.split_once("] ")) {
        return (number(id.split('<').next().unwrap_or_default().trim()), rest);
    }
    let digits = line.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(0);
    let (id, rest) = line.split_at(digits);
    // A name may have blanks.
    let rest = match rest.strip_prefix('<') {
        Some(named) => named.split_once("> ").map(|(_, rest)| rest),
        None => rest.strip_prefix(' '),
    };
    match (number(id), rest) {
        (Some(pid), Some(rest)) => (Some(pid), rest.trim_start()),
        _ => (None, line),
    }
}

/// What follows the number of the call (`-n`) and the instruction pointer (`-i`): `[   3] [00007ff970c38a07] close(3)`.
fn behind_brackets(mut body: &str) -> &str {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit() || b" ?".contains(&byte));
    while let Some((_, rest)) =
        body.strip_prefix('[').and_then(|body| body.split_once(']')).filter(|(text, _)| is_number(text))
    {
        body = rest.trim_start();
    }
    body
}

enum What {
    Whole,
    Unfinished,
    Resumed,
}

struct Event<'a> {
    what: What,
    name: &'a str,
    took_ns: Option<u64>,
    error: Option<&'a str>,
}

fn event(body: &str) -> Option<Event<'_>> {
    if let Some(rest) = body.strip_prefix("<... ") {
        let (name, rest) = rest.split_once(" resumed")?;
        let rest = rest.split_once('>').filter(|(mark, _)| is_mark(mark))?.1;
        let (took_ns, error) = ending(rest);
        return is_name(name).then_some(Event { what: What::Resumed, name, took_ns, error });
    }
    let (name, rest) = body.split_once('(')?;
    if !is_name(name) {
        return None;
    }
    let cut = rest.strip_suffix(" ...>").and_then(|rest| rest.rsplit_once('<'));
    let cut = cut.and_then(|(_, what)| ["unfinished", "detached"].iter().find_map(|known| what.strip_prefix(known)));
    if cut.is_some_and(is_mark) {
        return Some(Event { what: What::Unfinished, name, took_ns: None, error: None });
    }
    // What has no result is not a call: prose with a bracket, or a line that was cut.
    result(rest)?;
    let (took_ns, error) = ending(rest);
    Some(Event { what: What::Whole, name, took_ns, error })
}

/// Nothing, or a number that tells halves of calls apart: ` #3`.
fn is_mark(mark: &str) -> bool {
    mark.is_empty() || mark.strip_prefix(" #").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// What stands behind the `= ` of the last `) = ` outside of strings: inside they may hold anything. Names of files in `<>` (`-y`) may
/// have a quote: without a result outside of what then looks like a string, it is the last one anywhere.
fn result(rest: &str) -> Option<&str> {
    let (mut outside, mut anywhere, mut in_string, mut escaped) = (None, None, false, false);
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b')' => {
                let found = rest[at + 1..].trim_start_matches(' ').strip_prefix("= ");
                anywhere = found.or(anywhere);
                outside = found.filter(|_| !in_string).or(outside);
            }
            _ => {}
        }
    }
    outside.or(anywhere)
}

fn is_name(name: &str) -> bool {
    let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(letters) && !name.as_bytes()[0].is_ascii_digit()
}

/// The time and the error at the end of `...) = -1 ENOENT (No such file or directory) <0.000012>`.
fn ending(rest: &str) -> (Option<u64>, Option<&str>) {
    let time = rest.strip_suffix('>').and_then(|rest| rest.rsplit_once(" <"));
    let (result, took_ns) = match time
        .and_then(|(result, time)| Some((result, number::seconds(time).or_else(|| number::whole_seconds(time))?)))
    {
        Some((result, took)) => (result, Some(took)),
        None => (rest, None),
    };
    let error = self::result(result).and_then(|result| result.strip_prefix("-1 "));
    let error = error.and_then(|error| error.split(' ').next()).filter(|error| error.starts_with('E'));
    let name =
        |error: &&str| error.len() <= MAX_NAME && error.bytes().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
    (took_ns, error.filter(name))
}

/// The columns of the head of `strace -c`, which `-U` chooses.
fn columns(head: &str) -> Option<Columns> {
    // The one name with a space in it.
    let head = head.replacen("% time", "%time", 1);
    let names: Vec<&str> = head.split_whitespace().collect();
    let of = |name: &str| names.iter().position(|one| *one == name);
    // The call stands last; what stands behind errors would move where there are none.
    let last = names.last().is_some_and(|name| ["syscall", "name"].contains(name));
    let errors = of("errors");
    let fits = last && errors.is_none_or(|at| at + 2 == names.len());
    fits.then_some(Columns { count: names.len(), seconds: of("seconds")?, calls: of("calls")?, errors })
}

/// A row of the table: an empty cell of errors is none at all.
fn row<'a>(columns: &Columns, line: &'a str) -> Option<(&'a str, Counted)> {
    let cells: Vec<&str> = line.split_whitespace().take(columns.count + 1).collect();
    let has_errors = cells.len() == columns.count;
    if !has_errors && (columns.errors.is_none() || cells.len() + 1 != columns.count) {
        return None;
    }
    let count = |at: usize| cells.get(at)?.parse::<u64>().ok();
    let errors = match columns.errors.filter(|_| has_errors) {
        Some(at) => count(at)?,
        None => 0,
    };
    let name = cells.last().filter(|name| is_name(name))?;
    let ns = number::seconds(cells.get(columns.seconds)?)?;
    Some((name, Counted { name: String::new(), ns, calls: count(columns.calls)?, errors }))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::{Tracer, parse};
    use super::*;

    /// As `strace -f -ttt -T -o FILE` writes it.
    pub(crate) const TEXT: &str = "\
812   1700000000.000100 execve(\"./test\", [\"./test\", \"a = b\"], 0x7ffd /* 20 vars */) = 0 <0.000400>
812   1700000000.001000 openat(AT_FDCWD, \"/etc/x) = 3\", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000012>
812   1700000000.002000 clone(child_stack=NULL, flags=SIGCHLD) = 813 <0.000100>
813   1700000000.002100 recvfrom(3,  <unfinished ...>
812   1700000000.002200 clock_nanosleep(CLOCK_REALTIME, 0, {tv_sec=0, tv_nsec=1000000}, NULL) = 0 <0.001060>
813   1700000000.002612 <... recvfrom resumed>\"ab\", 64, 0, NULL, NULL) = 2 <0.000512>
813   1700000000.003000 --- SIGIO {si_signo=SIGIO, si_code=SI_KERNEL} ---
813   1700000000.003100 recvfrom(3, 0x7ffd, 64, 0, NULL, NULL) = -1 EAGAIN (Resource temporarily unavailable) <0.000004>
813   1700000000.003200 exit_group(0) = ?
813   1700000000.003300 +++ exited with 0 +++
812   1700000000.003400 pause( <unfinished ...>
";

    /// As `strace -c` prints it.
    pub(crate) const TABLE: &str = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 61.20    0.001530           5       306           read
 38.80    0.000970          97        10         4 openat
------ ----------- ----------- --------- --------- ----------------
100.00    0.002500           7       316         4 total
";

    fn read(text: &str) -> Text {
        parse(Tracer::Strace, "x", text.as_bytes())
    }

    /// Thread, name, begin after the first call, duration, error.
    type Told<'a> = (Option<u32>, &'a str, Option<u64>, Option<u64>, Option<&'a str>);

    fn told(text: &Text) -> Vec<Told<'_>> {
        let begin = text.calls.iter().filter_map(|call| call.at_ns).min();
        let name = |at: u32| text.names[at as usize].as_str();
        let one = |call: &Call| {
            let at = call.at_ns.zip(begin).map(|(at, begin)| (at - begin) / 1_000);
            let took = call.took_ns.map(|ns| ns / 1_000);
            (text.threads[call.thread as usize].tid, name(call.name), at, took, call.error.map(name))
        };
        text.calls.iter().map(one).collect()
    }

    #[test]
    fn calls_of_threads_are_read() {
        let text = read(TEXT);
        assert_eq!(
            told(&text),
            [
                (Some(812), "execve", Some(0), Some(400), None),
                (Some(812), "openat", Some(900), Some(12), Some("ENOENT")),
                (Some(812), "clone", Some(1900), Some(100), None),
                (Some(812), "clock_nanosleep", Some(2100), Some(1060), None),
                (Some(813), "recvfrom", Some(2000), Some(512), None),
                (Some(813), "recvfrom", Some(3000), Some(4), Some("EAGAIN")),
                (Some(813), "exit_group", Some(3100), None, None),
                (Some(812), "pause", Some(3300), None, None),
            ]
        );
        assert_eq!((text.lines.all, text.lines.others, text.lines.unknown, text.lines.halves), (11, 2, 0, 0));
    }

    #[test]
    fn every_form_of_a_line_is_read() {
        let of = |line: &str| {
            let text = read(line);
            assert_eq!((text.calls.len(), text.lines.unknown), (1, 0), "{line}");
            let call = text.calls[0];
            (text.threads[0].tid, call.at_ns, call.took_ns)
        };
        let read_call = "read(3, \"\", 4096) = 0";
        assert_eq!(of(read_call), (None, None, None));
        assert_eq!(of(&format!("{read_call} <0.000007>")), (None, None, Some(7_000)));
        assert_eq!(of(&format!("[pid   812] {read_call}")), (Some(812), None, None));
        assert_eq!(of(&format!("[pid 812<test>] 00:00:01 {read_call}")), (Some(812), Some(1_000_000_000), None));
        assert_eq!(of(&format!("812<test> {read_call}")), (Some(812), None, None));
        assert_eq!(of(&format!("00:00:01.500000 {read_call}")), (None, Some(1_500_000_000), None));
        assert_eq!(of(&format!("     0.000123 {read_call}")), (None, Some(123_000), None));
        assert_eq!(of("socket(AF_INET, SOCK_STREAM, 0) = 3<TCP:[812->9]> <0.000009>"), (None, None, Some(9_000)));
        // With -y a descriptor ends as a time does, and is none.
        assert_eq!(of("dup(3) = 4<TCP:[812]>"), (None, None, None));
        assert_eq!(of("restart_syscall(<... resuming interrupted read ...>) = 0 <1.000000>").2, Some(1_000_000_000));
    }

    #[test]
    fn what_a_string_holds_is_no_result() {
        let of = |line: &str| told(&read(line))[0].4.map(str::to_owned);
        assert_eq!(of(r#"write(1, "open() = -1 ENOENT (No", 22) = 22"#), None);
        assert_eq!(of(r#"write(1, "a\"b) = -1 EIO (x", 22) = 22 <0.000001>"#), None);
        assert_eq!(of(r#"write(1, "x) = 3", 6) = -1 EPIPE (Broken pipe)"#).as_deref(), Some("EPIPE"));
        assert_eq!(of(r#"read(3</tmp/a"b>, "", 1) = -1 EIO (Input/output error)"#).as_deref(), Some("EIO"));
        assert_eq!(of("close(3)                                = 0 (DELAYED)"), None);
    }

    #[test]
    fn forms_of_rarer_options_are_read() {
        let of = |line: &str| {
            let text = read(line);
            assert_eq!((text.calls.len(), text.lines.unknown), (1, 0), "{line}");
            (text.threads[0].tid, text.calls[0].at_ns, text.names[text.calls[0].name as usize].clone())
        };
        let close = |tid, at| (tid, at, "close".to_owned());
        // -n, -i, both with a time.
        assert_eq!(of("[  3] close(3) = 0"), close(None, None));
        assert_eq!(of("[00007f13e2e43ad7] close(3) = 0"), close(None, None));
        assert_eq!(
            of("1700000000.5 [   3] [????????????????] close(3) = 0"),
            close(None, Some(1_700_000_000_500_000_000))
        );
        // -r beside another time; a decimal comma; whole seconds since 1970, and since the line before.
        assert_eq!(of("1700000000.5 (+     0.000335) close(3) = 0"), close(None, Some(1_700_000_000_500_000_000)));
        assert_eq!(of("09:08:14,5 (+     0,000335) close(3) = 0"), close(None, Some(32_894_500_000_000)));
        assert_eq!(of("1795705730 close(3) = 0 <0.000216>"), close(None, Some(1_795_705_730_000_000_000)));
        assert_eq!(of("812 1795705730 close(3) = 0"), close(Some(812), Some(1_795_705_730_000_000_000)));
        assert_eq!(of("     3 close(3) = 0"), close(None, Some(3_000_000_000)));
        // Names of programs with blanks.
        assert_eq!(of("20908<my prog> close(3) = 0"), close(Some(20908), None));
        assert_eq!(of("[pid 20908<my prog>] close(3) = 0"), close(Some(20908), None));
        // Halves with a number.
        let text = read("7 read(3, <unfinished #3 ...>\n7 <... read resumed #3>\"\", 1) = 0 <0.000002>\n");
        assert_eq!(told(&text), [(Some(7), "read", None, Some(2), None)]);
        // With -z.
        let text = read("7 close(0 <unfinished ...>\n)                                       = 0 <0.000055>\n");
        assert_eq!(told(&text), [(Some(7), "close", None, Some(55), None)]);
        let text = read(
            "7 wait4(-1,  <unfinished ...>\n[{WIFEXITED(s)}], WNOHANG, NULL) = -1 ECHILD (No child processes) <0.000047>\n",
        );
        assert_eq!(told(&text), [(Some(7), "wait4", None, Some(47), Some("ECHILD"))]);
        // What was read, byte by byte; both halves of a call around it.
        let dump = " | 00000  7f 45 4c 46 02 01 01 03  00 00 00 00 00 00 00 00  .ELF............ |\n";
        let text =
            read(&format!("7 read(3, \"\\177ELF\"..., 832) = 832 <0.000002>\n{}7 close(3) = 0\n", dump.repeat(52)));
        assert_eq!((text.calls.len(), text.lines.others, text.lines.unknown), (2, 52, 0));
        // Callers, a change of the mode.
        let text = read(
            "close(3) = 0\n > /usr/lib/ld.so(_dl_catch_error+0x8587) [0x20a07]\n[ Process PID=8 runs in 32 bit mode. ]\n",
        );
        assert_eq!((text.calls.len(), text.lines.others, text.lines.unknown), (1, 2, 0));
    }

    #[test]
    fn times_go_on_after_midnight_and_with_r() {
        let text = read("23:59:59.900000 read(3) = 0\n00:00:00.100000 read(3) = 0\n");
        assert_eq!(text.calls[1].at_ns.unwrap() - text.calls[0].at_ns.unwrap(), 200_000_000);
        let text = read("     0.000000 read(3) = 0\n     0.000500 read(3) = 0\n     0.000250 read(3) = 0\n");
        assert_eq!(text.calls[2].at_ns, Some(750_000));
    }

    #[test]
    fn the_table_is_read() {
        let text = read(TABLE);
        let row = |name: &str, ns, calls, errors| Counted { name: name.into(), ns, calls, errors };
        assert_eq!(text.counted, [row("read", 1_530_000, 306, 0), row("openat", 970_000, 10, 4)]);
        assert_eq!((text.lines.all, text.lines.others, text.lines.unknown), (6, 4, 0));
        // Behind calls, as -C prints it.
        let both = read(&format!("{TEXT}{TABLE}"));
        assert_eq!((both.calls.len(), both.counted.len(), both.lines.unknown), (8, 2, 0));
        // Columns that were chosen.
        let chosen = "  calls     seconds syscall\n";
        assert_eq!(read(&format!("% time {chosen} 99.00 4 0.000100 read\n")).counted, [row("read", 100_000, 4, 0)]);
    }

    #[test]
    fn what_is_not_understood_is_counted() {
        let text = read("<... read resumed> \"\", 1) = 0 <0.000001>\nhello (world) and more\nRead(3) = 0\n");
        assert_eq!((text.calls.len(), text.lines.halves, text.lines.unknown), (0, 1, 2));
        assert_eq!(text.lines.first, Some((2, "hello (world) and more".into())));
        // A begin that another one follows keeps its place without a time.
        let text =
            read("7 read(3, <unfinished ...>\n7 read(3, <unfinished ...>\n7 <... read resumed>) = 0 <0.000002>\n");
        assert_eq!(told(&text), [(Some(7), "read", None, None, None), (Some(7), "read", None, Some(2), None)]);
    }
}
