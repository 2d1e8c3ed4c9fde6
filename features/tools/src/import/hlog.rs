//! Logs of HdrHistogram (`.hlog`): a histogram for each interval, tagged.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::Deserializer;
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use msgpath_core::Histogram;

use super::{Case, Form, MOST_CASES, MOST_MESSAGES, OF_WHAT, Round, Told, Unread, has, ns_of, unit};

pub(super) static FORM: Form = Form {
    name: "a log of HdrHistogram (hlog)",
    is: |begin| begin.starts_with(b"#[Histogram log") || has(begin, "\"StartTimestamp\"") || has(begin, ",HISTF"),
    read,
};

/// The first word of a histogram of version 2, and of one that is deflated.
const PLAIN: u32 = 0x1c84_9313;
const DEFLATED: u32 = 0x1c84_9314;
/// Bytes in front of the counts.
const HEAD: usize = 40;
/// The largest histogram that is read, bytes.
const MOST: usize = 16 << 20;

fn read(text: &[u8], typed: Option<f64>) -> Result<Told, Unread> {
    let in_ns = has(&text[..text.len().min(8192)], "values in ns");
    let unit = unit(typed, in_ns.then_some(1.0))?;
    let (mut told, mut began) = (Told { tool: "HdrHistogram".into(), ..Told::default() }, None);
    for (number, line) in String::from_utf8_lossy(text).lines().enumerate() {
        let at = ["#[StartTime: ", "#[BaseTime: "].iter().find_map(|what| line.strip_prefix(what));
        began = began.or_else(|| at?.split(' ').next()?.parse::<f64>().ok());
        if line.trim().is_empty() || line.starts_with(['#', '"']) {
            continue;
        }
        let tagged = line.strip_prefix("Tag=").and_then(|rest| rest.split_once(','));
        let (name, cells) = tagged.unwrap_or(("", line));
        let round = round(cells, unit).map_err(|why| Unread::new(format!("line {}: {why}", number + 1)))?;
        match told.cases.iter().position(|case| case.name == name) {
            Some(at) => told.cases[at].rounds.push(round),
            None if told.cases.len() > MOST_CASES => break,
            None => told.cases.push(Case { name: name.into(), rounds: vec![round], ..Case::default() }),
        }
    }
    told.began = began.map_or(0, |at| at as u64);
    // Stamps count from 1970, or from the begin.
    let first = told.cases.iter().flat_map(|case| &case.rounds).map(|round| round.start_ns).min().unwrap_or(0);
    told.cases.iter_mut().flat_map(|case| &mut case.rounds).for_each(|round| round.start_ns -= first);
    told.lacks = vec![OF_WHAT.into(), "a time is known to the digits of its histogram".into()];
    told.checked()
}

/// An interval: its begin and its length in s, its largest value, its histogram.
fn round(cells: &str, unit: f64) -> Result<Round, String> {
    let cells: Vec<&str> = cells.trim().split(',').collect();
    let [start, length, _, histogram] = cells[..] else {
        return Err("it is no interval: its begin, its length, its maximum and its histogram".into());
    };
    let ns = |cell: &str| cell.parse().ok().and_then(ns_of).ok_or_else(|| format!("{cell:?} is no time in seconds"));
    let bytes = STANDARD.decode(histogram).map_err(|error| error.to_string())?;
    let plain = plain(&bytes)?;
    let hdr: Hdr<u64> = Deserializer::new().deserialize(&mut plain.as_slice()).map_err(|error| format!("{error:?}"))?;
    if hdr.len() > MOST_MESSAGES {
        return Err("more messages than anybody sends".into());
    }
    let mut times = Histogram::new();
    for step in hdr.iter_recorded() {
        let value = hdr.median_equivalent(step.value_iterated_to());
        times.record_n((value as f64 * unit) as u64, step.count_at_value());
    }
    Ok(Round { start_ns: ns(start)?, ns: ns(length)?, times: times.to_sparse(), ..Round::default() })
}

/// The bytes of a histogram of version 2, inflated, with lengths that are true.
fn plain(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let word = |bytes: &[u8], at: usize| {
        let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
        word.ok_or_else(|| "a histogram that is cut".to_owned())
    };
    let inflated = match word(bytes, 0)? {
        PLAIN => bytes.to_vec(),
        DEFLATED => decompress_to_vec_zlib_with_limit(&bytes[8.min(bytes.len())..], MOST)
            .map_err(|error| format!("a histogram that cannot be inflated: {error}"))?,
        other => return Err(format!("a histogram of another version than 2 (it begins with {other:#x})")),
    };
    let whole = word(&inflated, 0)? == PLAIN && inflated.len().checked_sub(HEAD) == Some(word(&inflated, 4)? as usize);
    if whole { Ok(inflated) } else { Err("a histogram whose length is not what it says".into()) }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};

    use super::*;

    fn line(tag: &str, at: f64, values: &[u64], deflated: bool) -> String {
        let mut hdr = Hdr::<u64>::new(3).unwrap();
        values.iter().for_each(|value| hdr.record(*value).unwrap());
        let mut bytes = Vec::new();
        match deflated {
            true => V2DeflateSerializer::new().serialize(&hdr, &mut bytes).map(drop).unwrap(),
            false => V2Serializer::new().serialize(&hdr, &mut bytes).map(drop).unwrap(),
        }
        let tag = if tag.is_empty() { String::new() } else { format!("Tag={tag},") };
        format!("{tag}{at:.3},1.000,{}.0,{}\n", values[0], STANDARD.encode(bytes))
    }

    fn log(lines: &[String]) -> String {
        "#[Histogram log format version 1.3]\n#[StartTime: 1441812279.474 (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
            .to_owned()
            + &lines.concat()
    }

    #[test]
    fn lines_are_rounds_and_tags_are_cases() {
        let text =
            log(&[line("", 0.5, &[1000; 5], true), line("b", 0.5, &[7], false), line("", 1.5, &[2000, 3000], true)]);
        let told = read(text.as_bytes(), Some(1e3)).unwrap();
        assert_eq!((told.began, told.cases.len(), told.cases[1].name.as_str()), (1_441_812_279, 2, "b"));
        let rounds = &told.cases[0].rounds;
        assert_eq!((rounds[0].start_ns, rounds[1].start_ns, rounds[1].ns), (0, 1_000_000_000, 1_000_000_000));
        assert_eq!((rounds[0].times.total(), rounds[1].times.total()), (5, 2));
        let near = |got: Option<u64>, ns: f64| assert!((got.unwrap() as f64 / ns - 1.0).abs() < 0.002, "{got:?}");
        near(rounds[0].times.min(), 1e6);
        near(rounds[1].times.max(), 3e6);
        assert!(read(text.as_bytes(), None).unwrap_err().why.contains("unit"));
    }

    #[test]
    fn histograms_that_lie_are_refused() {
        let why = |bytes: &[u8]| {
            let text = log(&[format!("0.1,1.0,1.0,{}\n", STANDARD.encode(bytes))]);
            read(text.as_bytes(), Some(1.0)).unwrap_err().why
        };
        assert!(why(&[1, 2, 3]).contains("cut"));
        assert!(why(&0x1c84_9303_u32.to_be_bytes()).contains("another version"));
        let mut long = PLAIN.to_be_bytes().to_vec();
        long.extend([0xff; 40]);
        assert!(why(&long).contains("length is not what it says"));
        let mut deflated = DEFLATED.to_be_bytes().to_vec();
        deflated.extend([0; 9]);
        assert!(why(&deflated).contains("inflated"));
    }
}
