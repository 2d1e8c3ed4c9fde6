//! Tracepoints as tracefs describes them: their ids, and where their fields are in a raw record.
//!
//! A `format` file has a line `ID: number` and one line a field:
//! `field:TYPE NAME[COUNT]; offset:N; size:N; signed:0|1;`. Offsets differ between kernels, so they are read, not known.

use std::io;
use std::path::{Path, PathBuf};

/// Longest raw record whose description is believed, bytes.
const MAX_RECORD: usize = 8192;
/// Most fields of one record.
const MAX_FIELDS: usize = 256;

/// A field of a raw record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    /// First byte.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// A negative value keeps its sign when it is widened.
    pub signed: bool,
}

impl Field {
    /// The field's value, widened to 64 bits. `None`: the record is too short, or the field is not a number of 1, 2, 4 or 8
    /// bytes.
    pub fn read(&self, raw: &[u8]) -> Option<u64> {
        let bytes = raw.get(self.offset..self.offset.checked_add(self.size)?)?;
        Some(match (self.size, self.signed) {
            (1, false) => u64::from(bytes[0]),
            (1, true) => bytes[0] as i8 as u64,
            (2, false) => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            (2, true) => i16::from_ne_bytes(bytes.try_into().ok()?) as u64,
            (4, false) => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            (4, true) => i32::from_ne_bytes(bytes.try_into().ok()?) as u64,
            (8, _) => u64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }
}

/// What a `format` file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The id that `perf_event_open` takes and that each raw record begins with.
    pub id: u16,
    /// The fields, those common to all tracepoints first.
    pub fields: Vec<Field>,
}

impl Format {
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// The value of `key:value` in the piece of a line before a semicolon.
fn value<'a>(piece: Option<&'a str>, key: &str) -> Result<&'a str, String> {
    let piece = piece.map(str::trim).unwrap_or_default();
    piece.strip_prefix(key).map(str::trim).ok_or_else(|| format!("no {key} where it belongs"))
}

fn parse_field(line: &str) -> Result<Field, String> {
    let mut pieces = line.split(';');
    let declaration = value(pieces.next(), "field:")?;
    let number = |text: &str| text.parse::<usize>().map_err(|_| format!("{text:?} is not a number"));
    let offset = number(value(pieces.next(), "offset:")?)?;
    let size = number(value(pieces.next(), "size:")?)?;
    // Kernels before 2.6.32 had no `signed`.
    let signed = match value(pieces.next(), "signed:")? {
        "0" => false,
        "1" => true,
        other => return Err(format!("signed is {other:?}")),
    };
    if pieces.any(|piece| !piece.trim().is_empty()) {
        return Err("something follows `signed`".into());
    }
    // The name is the last word, without the brackets of an array.
    let word = declaration.split_whitespace().next_back().ok_or("a field without a name")?;
    let name = word.split('[').next().unwrap_or_default().trim_start_matches('*');
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(format!("{word:?} is not a name"));
    }
    if offset.checked_add(size).is_none_or(|end| end > MAX_RECORD) {
        return Err(format!("{name} ends beyond {MAX_RECORD} bytes"));
    }
    Ok(Field { name: name.to_owned(), offset, size, signed })
}

/// Parses the text of a `format` file.
///
/// # Errors
/// What is wrong with it: strict, because a field that is read from the wrong place is worse than none.
pub fn parse(text: &str) -> Result<Format, String> {
    let mut id = None;
    let mut fields: Vec<Field> = Vec::new();
    let mut in_fields = false;
    for line in text.lines() {
        let line = line.trim();
        if let Some(number) = line.strip_prefix("ID:") {
            let number = number.trim();
            let parsed = number.parse().map_err(|_| format!("{number:?} is not an id of 16 bits"))?;
            if id.replace(parsed).is_some() {
                return Err("two ids".into());
            }
        } else if line.starts_with("print fmt:") {
            break;
        } else if line == "format:" {
            in_fields = true;
        } else if in_fields && !line.is_empty() {
            let field = parse_field(line)?;
            if fields.iter().any(|other| other.name == field.name) {
                return Err(format!("{} is there twice", field.name));
            }
            fields.push(field);
            if fields.len() > MAX_FIELDS {
                return Err(format!("more than {MAX_FIELDS} fields"));
            }
        }
    }
    Ok(Format { id: id.ok_or("no id")?, fields })
}

/// The folder of the tracepoints, where it is mounted and may be read.
///
/// # Errors
/// `NotFound`: tracefs is not mounted. `PermissionDenied`: it is, and this user may not read it.
pub fn events() -> io::Result<PathBuf> {
    let mut denied = None;
    for folder in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
        let events = Path::new(folder).join("events");
        match std::fs::metadata(events.join("sched/sched_switch/format")) {
            Ok(_) => return Ok(events),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => denied = Some(error),
            Err(_) => {}
        }
    }
    // The folder below debugfs is closed to most users whether or not tracefs is there.
    let mounted = std::fs::read_to_string("/proc/self/mounts")
        .is_ok_and(|mounts| mounts.lines().any(|line| line.split(' ').nth(2) == Some("tracefs")));
    match denied {
        Some(error) if mounted => Err(error),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    }
}

/// Reads and parses the description of a tracepoint.
///
/// # Errors
/// `NotFound`: this kernel lacks it. `InvalidData`: it cannot be understood.
pub fn read(events: &Path, group: &str, name: &str) -> io::Result<Format> {
    let text = std::fs::read_to_string(events.join(group).join(name).join("format"))?;
    parse(&text).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SWITCH: &str = "name: sched_switch\nID: 372\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
        \tfield:const void * skbaddr;\toffset:40;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:48;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"field: %d\", REC->prev_pid\n";

    #[test]
    fn fields_are_found_where_the_kernel_says() {
        let format = parse(SWITCH).unwrap();
        assert_eq!(format.id, 372);
        assert_eq!(format.fields.len(), 7);
        let mut raw = vec![0_u8; 52];
        raw[24..28].copy_from_slice(&(-7_i32).to_ne_bytes());
        raw[32..40].copy_from_slice(&0x100_u64.to_ne_bytes());
        assert_eq!(format.field("prev_pid").unwrap().read(&raw), Some(-7_i64 as u64));
        assert_eq!(format.field("prev_state").unwrap().read(&raw), Some(0x100));
        assert_eq!(format.field("skbaddr").unwrap().read(&raw), Some(0));
        assert_eq!(format.field("skbaddr").unwrap().read(&raw[..47]), None, "a record that was cut off");
        assert_eq!(format.field("prev_comm").unwrap().read(&raw), None, "text is not a number");
        assert!(format.field("name").is_some() && format.field("next_pid").is_none());
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (bad, why) in [
            ("", "no id"),
            ("ID: 70000\nformat:\n", "16 bits"),
            ("ID: 1\nID: 2\n", "two ids"),
            ("ID: 1\nformat:\nfield:int a;\toffset:0;\tsize:4;\n", "signed"),
            ("ID: 1\nformat:\nfield:int a;\tsize:4;\toffset:0;\tsigned:0;\n", "offset"),
            ("ID: 1\nformat:\nfield:int a;\toffset:-4;\tsize:4;\tsigned:0;\n", "number"),
            ("ID: 1\nformat:\nfield:int a;\toffset:8190;\tsize:4;\tsigned:0;\n", "beyond"),
            ("ID: 1\nformat:\nfield:int a;\toffset:0;\tsize:4;\tsigned:2;\n", "signed"),
            ("ID: 1\nformat:\nfield:int a;\toffset:0;\tsize:4;\tsigned:0;\tmore;\n", "follows"),
            ("ID: 1\nformat:\nfield:;\toffset:0;\tsize:4;\tsigned:0;\n", "name"),
            (
                "ID: 1\nformat:\nfield:int a;\toffset:0;\tsize:4;\tsigned:0;\nfield:int a;\toffset:4;\tsize:4;\tsigned:0;\n",
                "twice",
            ),
        ] {
            let error = parse(bad).unwrap_err();
            assert!(error.contains(why), "{bad:?}: {error}");
        }
    }

    #[test]
    fn the_descriptions_of_this_kernel_are_understood() {
        let events = match events() {
            Ok(events) => events,
            Err(error) => {
                println!("skipped: tracefs: {error}");
                return;
            }
        };
        let switch = read(&events, "sched", "sched_switch").unwrap();
        assert!(switch.id > 0 && switch.field("next_pid").is_some_and(|field| field.size == 4 && field.signed));
    }

    proptest! {
        #[test]
        fn any_text_ends(text in "(ID: ?[0-9]{0,6}\n|format:\n|\t?field:[a-z\\[\\]* ]{0,9};\toffset:[0-9]{0,5};\tsize:[0-9]{0,5};\tsigned:[0-2];\n|\\PC{0,9}\n){0,9}") {
            if let Ok(format) = parse(&text) {
                for field in &format.fields {
                    prop_assert!(field.offset + field.size <= MAX_RECORD);
                    let _ = field.read(&[0; 64]);
                }
            }
        }
    }
}
