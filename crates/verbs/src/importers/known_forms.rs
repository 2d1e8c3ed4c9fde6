//! Formats of other programs that `msgpath import` does not take, so that they are called by their name.

pub(super) struct KnownForm {
    /// What a file of it is.
    pub(super) name: &'static str,
    is: fn(&[u8]) -> bool,
    /// What to do with it.
    pub(super) hint: &'static str,
}

static FORMS: [KnownForm; 11] = [
    KnownForm {
        name: "a recording of perf (perf.data)",
        is: |begin| begin.starts_with(b"PERFILE2"),
        hint: "perf sched timehist -i FILE > sched.txt, and msgpath import sched.txt",
    },
    KnownForm {
        name: "the summary of perf sched timehist (-s) without its lines",
        is: |begin| has(begin, b"Runtime summary") && !has(begin, b"sch delay"),
        hint: "perf sched timehist > sched.txt, or with -S, which prints both",
    },
    KnownForm {
        name: "a table of strace -c -U without its times, or with something behind the call",
        is: is_odd_table,
        hint: "strace -c, or with -U time-total,calls,errors,name",
    },
    KnownForm {
        name: "compressed with zstd",
        is: |begin| begin.starts_with(b"\x28\xb5\x2f\xfd"),
        hint: "zstd -dc FILE | msgpath import /dev/stdin",
    },
    KnownForm {
        name: "compressed with xz",
        is: |begin| begin.starts_with(b"\xfd7zXZ\0"),
        hint: "xz -dc FILE | msgpath import /dev/stdin",
    },
    KnownForm {
        name: "compressed with bzip2",
        is: |begin| begin.starts_with(b"BZh"),
        hint: "bzip2 -dc FILE | msgpath import /dev/stdin",
    },
    KnownForm {
        name: "compressed with lz4",
        is: |begin| begin.starts_with(b"\x04\x22\x4d\x18"),
        hint: "lz4 -dc FILE | msgpath import /dev/stdin",
    },
    KnownForm {
        name: "a zip archive",
        is: |begin| begin.starts_with(b"PK\x03\x04"),
        hint: "unzip -p FILE NAME | msgpath import /dev/stdin",
    },
    KnownForm {
        name: "a tar archive",
        is: |begin| begin.get(257..262) == Some(b"ustar"),
        hint: "tar -xOf FILE NAME | msgpath import /dev/stdin",
    },
    KnownForm { name: "a Parquet file", is: |begin| begin.starts_with(b"PAR1"), hint: "the same as CSV" },
    KnownForm {
        name: "JSON that msgpath wrote",
        is: |begin| is_object(begin) && (has(begin, b"\"msgpath/") || has(begin, b"\"msgpath.")),
        hint: "msgpath show NAME: the run itself is kept, and what was exported is not read back",
    },
];

/// The format of a file that begins so, if it is one of these.
pub(super) fn known(begin: &[u8]) -> Option<&'static KnownForm> {
    FORMS.iter().find(|form| (form.is)(begin))
}

/// A head with the call and how often it was made, but without its time or not at the end, and a rule below it.
fn is_odd_table(begin: &[u8]) -> bool {
    let mut lines = begin.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let (head, rule) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let is_rule = rule.starts_with(b"---") && rule.iter().all(|byte| b"- ".contains(byte));
    is_rule && has(head, b"syscall") && has(head, b"calls") && !(has(head, b"seconds") && head.ends_with(b"syscall"))
}

/// Whether a text begins as a JSON object or list.
pub(super) fn is_json(begin: &[u8]) -> bool {
    is_object(begin) || begin.trim_ascii_start().starts_with(b"[")
}

fn is_object(begin: &[u8]) -> bool {
    begin.trim_ascii_start().starts_with(b"{")
}

fn has(begin: &[u8], text: &[u8]) -> bool {
    begin.windows(text.len()).any(|window| window == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEHIST_SUMMARY: &[u8] = b"\nRuntime summary\n\
        \x20                         comm  parent   sched-in     run-time    min-run     avg-run     max-run  stddev  migrations\n\
        \x20                                          (count)       (msec)     (msec)      (msec)      (msec)       %\n\
        -----------------------------------------------------------------------------------------------------------\n\
        \x20               kworker/0:1[77]       2          3        0.051      0.004       0.017       0.032   29.10       0\n";
    const TIMEHIST_LINES: &[u8] =
        b"           time    cpu  task name                       wait time  sch delay   run time\n\
        \x20  5678.123456 [0000]  cat[7]                              1.000      0.002      0.500\n";

    #[test]
    fn formats_are_known_by_what_they_begin_with() {
        for (begin, name) in [
            (&b"{\n  \"schema\": \"msgpath/run/3\","[..], "msgpath"),
            (b"PERFILE2h\0", "perf.data"),
            (TIMEHIST_SUMMARY, "timehist (-s)"),
            (b"\x28\xb5\x2f\xfd", "zstd"),
            (b"syscall  calls % time\n------- ------ ------\nread 2 1.0\n", "strace -c -U"),
            (b"\xfd7zXZ\0", "xz"),
            (b"BZh91AY", "bzip2"),
            (b"\x04\x22\x4d\x18\x60", "lz4"),
            (b"PK\x03\x04\x14", "zip"),
            (&[&[b'x'; 257][..], b"ustar"].concat(), "tar"),
        ] {
            assert!(known(begin).is_some_and(|form| form.name.contains(name)), "{name}");
        }
        let lines_and_summary = [TIMEHIST_LINES, TIMEHIST_SUMMARY].concat();
        for other in [
            &b"t1,t4\n1,2\n"[..],
            b"% time     seconds  usecs/call     calls    errors syscall\n------ ----------- ----------- --------- --------- -------\n",
            &lines_and_summary,
            b"{ \"title\" : \"x\",\n\"events\" : [\n",
            b"",
            b"\xd4\xc3\xb2\xa1",
        ] {
            assert!(known(other).is_none(), "{}", String::from_utf8_lossy(other));
        }
    }
}
