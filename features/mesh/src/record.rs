//! The record of a mesh: `mesh.json`, written whole, and `pairs.mpl`, to which a block is appended for each pair that was
//! measured and for each try that failed. Pairs are read one by one: memory follows the largest of them.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use msgpath_core::SparseHistogram;
use msgpath_core::schema::RunEnd;
use msgpath_record::block::{self, Blocks, Fault, HISTOGRAM, Head, JSON, Kind, MAX_COUNT};
use msgpath_record::{
    Appender, CHANGED, Damage, FOLDER_MODE, RecordError, WrittenBy, header_bytes, heads, is_torn, make_folder, store,
    summed, write_whole,
};
use msgpath_sys::files::{open_regular, read_regular};
use serde::Deserialize;

use crate::schema::{EndWait, FailedPair, MAX_ROUNDS_OF_A_PAIR, MESH_SCHEMA, MeshHeader, PairRecord, Slot};

/// The header of a mesh, within the folder.
pub const MESH_FILE: &str = "mesh.json";
/// Its pairs, within the folder.
pub const PAIRS_FILE: &str = "pairs.mpl";
const PAIR: Kind = Kind::new(7, "pairs", 16 << 20);
const FAILED_PAIR: Kind = Kind::new(8, "failed pairs", 4 << 20);
const KINDS: [Kind; 2] = [PAIR, FAILED_PAIR];
/// The largest `mesh.json` that is read, bytes.
const MAX_HEADER: u64 = 256 << 20;

/// Meshes, among what is kept.
pub static MESH: store::Kind = store::Kind {
    name: "mesh",
    file: MESH_FILE,
    recorded_by: "msgpath mesh HOSTS",
    listing: |folder| {
        let header = mesh_header(folder)?;
        let (pairs, end) = heads(&folder.join(PAIRS_FILE), &KINDS, PAIR, Kind::END)?;
        Ok(store::Listing {
            started: header.started,
            verb: "mesh".into(),
            target: format!("{} hosts by {}", header.hosts.len(), header.launch.by),
            cases: Some(header.plan.cases.len() as u64),
            rounds: Some(pairs),
            status: end.and_then(|payload| block::decode_end(&payload).ok()).map(|end| end.status),
        })
    },
};

/// A block of `pairs.mpl`.
#[derive(Clone, Debug, PartialEq)]
pub enum PairBlock {
    /// What was measured.
    Pair(Box<PairRecord>),
    /// A try that brought nothing.
    Failed(Box<FailedPair>),
}

impl PairBlock {
    /// Which measurement of which pair it is about.
    pub fn slot(&self) -> &Slot {
        match self {
            PairBlock::Pair(pair) => &pair.slot,
            PairBlock::Failed(failed) => &failed.slot,
        }
    }

    fn framed(&self) -> Result<Vec<u8>, RecordError> {
        let payload = match self {
            PairBlock::Pair(pair) => encode(pair).map(|payload| (PAIR, payload)),
            PairBlock::Failed(failed) => {
                serde_json::to_vec(failed).map(|payload| (FAILED_PAIR, payload)).map_err(|error| error.to_string())
            }
        };
        payload.and_then(|(kind, payload)| block::frame(kind, &payload)).map_err(RecordError::Unrecordable)
    }
}

/// The column of a histogram.
fn column(case: u32, round: usize) -> String {
    format!("latency.{case}.{round}")
}

fn check(pair: &PairRecord) -> Result<(), String> {
    let rounds: usize = pair.cases.iter().map(|case| case.rounds.len()).sum();
    if rounds as u64 > MAX_ROUNDS_OF_A_PAIR {
        return Err(format!("{rounds} rounds of a pair; the limit is {MAX_ROUNDS_OF_A_PAIR}"));
    }
    let rounds = || pair.cases.iter().flat_map(|case| &case.rounds);
    let too_large = |number: &u64| *number > MAX_COUNT;
    let of_end = |end: &EndWait| {
        [end.wait_ns.unwrap_or(0), end.switches, end.preempted, end.stolen_ns, end.throttled_ns].iter().any(too_large)
    };
    if rounds().any(|one| one.ends.len() > 2) {
        return Err("a round of more than two ends".into());
    }
    match rounds().any(|one| {
        [one.sent, one.received, one.lost, one.elapsed_ns, one.latency.total()].iter().any(too_large)
            || one.ends.iter().any(of_end)
    }) {
        true => Err(format!("a number of a pair above {MAX_COUNT}")),
        false => Ok(()),
    }
}

fn encode(pair: &PairRecord) -> Result<Vec<u8>, String> {
    check(pair)?;
    let json = serde_json::to_vec(pair).map_err(|error| error.to_string())?;
    let mut out = Vec::with_capacity(json.len() + 4096);
    block::put_section(&mut out, "pair", JSON, &json);
    for case in &pair.cases {
        for (at, round) in case.rounds.iter().enumerate() {
            block::put_section(&mut out, &column(case.case, at), HISTOGRAM, &round.latency.to_bytes());
        }
    }
    Ok(out)
}

fn decode(payload: &[u8]) -> Result<PairRecord, Fault> {
    let sections = block::sections(payload)?;
    let json = block::column(&sections, "pair", JSON)?.ok_or(Fault::Foreign(WrittenBy::Newer))?;
    let mut pair: PairRecord = serde_json::from_slice(json).map_err(|error| block::json_fault("the pair", &error))?;
    for case in &mut pair.cases {
        for (at, round) in case.rounds.iter_mut().enumerate() {
            let bytes = block::column(&sections, &column(case.case, at), HISTOGRAM)?.ok_or("a histogram is missing")?;
            round.latency = SparseHistogram::from_bytes(bytes).ok_or("a histogram does not add up")?;
        }
    }
    check(&pair)?;
    Ok(pair)
}

fn decode_failed(payload: &[u8]) -> Result<FailedPair, Fault> {
    serde_json::from_slice(payload).map_err(|error| block::json_fault("the failed pair", &error))
}

/// A mesh that is being recorded.
pub struct MeshWriter {
    folder: PathBuf,
    pairs: Appender<File>,
    written: u64,
    /// Checksum of the header as it stands on disk.
    header_crc32: u32,
}

impl MeshWriter {
    /// Creates `folder` (and those above it) and writes the header whole.
    ///
    /// # Errors
    /// A folder that holds something already, one that cannot be written, or a header that could not be read back.
    pub fn create(folder: &Path, header: &MeshHeader) -> Result<Self, RecordError> {
        let cannot = |source| RecordError::Create { file: folder.into(), source };
        make_folder(folder, FOLDER_MODE).map_err(cannot)?;
        if fs::read_dir(folder).map_err(cannot)?.next().is_some() {
            return Err(RecordError::NotEmpty { folder: folder.into() });
        }
        let pairs = Appender::create_locked(&folder.join(PAIRS_FILE))?;
        let mut writer = Self { folder: folder.into(), pairs, written: 0, header_crc32: 0 };
        // Last, and under its name only when whole: a folder with a header is a mesh.
        writer.replace_header(header)?;
        Ok(writer)
    }

    /// Writes the header anew, whole.
    ///
    /// # Errors
    /// A write that failed (the old header stays), or a header that could not be read back.
    pub fn replace_header(&mut self, header: &MeshHeader) -> Result<(), RecordError> {
        let path = self.folder.join(MESH_FILE);
        let json = header_bytes(header).map_err(|error| RecordError::Unrecordable(error.to_string()))?;
        if parse(&path, &json).map_err(|error| RecordError::Unrecordable(error.to_string()))? != *header {
            return Err(RecordError::Unrecordable("the header is not read back as it was written".into()));
        }
        write_whole(&path, &json).map_err(|source| RecordError::Create { file: path, source })?;
        self.header_crc32 = crc32fast::hash(&json);
        Ok(())
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends a pair, or a try that failed.
    ///
    /// # Errors
    /// A write that failed (what was written before stays whole), or a value that could not be read back.
    pub fn append(&mut self, block: &PairBlock) -> Result<(), RecordError> {
        let bytes = block.framed()?;
        self.write(&bytes)?;
        self.written += 1;
        Ok(())
    }

    /// Writes how it ended.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn finish(mut self, end: &RunEnd) -> Result<(), RecordError> {
        let end = RunEnd { header_crc32: Some(self.header_crc32), ..end.clone() };
        let bytes = block::encode_end(&end).and_then(|payload| block::frame(Kind::END, &payload));
        self.write(&bytes.map_err(RecordError::Unrecordable)?)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), RecordError> {
        self.pairs.append(bytes).map_err(|source| RecordError::Write {
            file: self.folder.join(PAIRS_FILE),
            kept: format!("kept: {} pairs in {}", self.written, self.folder.display()),
            source,
        })
    }
}

/// What is known of a mesh beside its pairs.
#[derive(Clone, Debug)]
pub struct Mesh {
    pub folder: PathBuf,
    /// What was planned, and where.
    pub header: MeshHeader,
    /// How it ended; `None`: the program was killed, or is still at it.
    pub end: Option<RunEnd>,
    /// Where the pairs stop being whole, if they do.
    pub damage: Option<Damage>,
    /// Bytes of whole pairs: where the end begins, or what was cut off.
    whole: u64,
}

impl Mesh {
    /// A mesh that is whole, of which no block was read.
    pub fn new(folder: PathBuf, header: MeshHeader, end: Option<RunEnd>) -> Self {
        Self { folder, header, end, damage: None, whole: 0 }
    }
}

/// The header of the mesh in `folder`.
///
/// # Errors
/// No `mesh.json`, one that cannot be read, of another version, or damaged.
pub fn mesh_header(folder: &Path) -> Result<MeshHeader, RecordError> {
    summed_header(folder).map(|(header, _)| header)
}

/// The same, with the checksum of its file.
fn summed_header(folder: &Path) -> Result<(MeshHeader, u32), RecordError> {
    let file = folder.join(MESH_FILE);
    match read_regular(&file, MAX_HEADER) {
        Ok(bytes) => {
            let sum = summed(&file, &bytes)?;
            Ok((parse(&file, &bytes)?, sum))
        }
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
            Err(RecordError::BadHeader { file, why: error.to_string() })
        }
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            Err(RecordError::NotARun { folder: folder.into() })
        }
        Err(source) => Err(RecordError::Read { file, source }),
    }
}

fn parse(file: &Path, bytes: &[u8]) -> Result<MeshHeader, RecordError> {
    #[derive(Deserialize)]
    struct Versioned {
        schema: String,
    }
    let bad = |why: String| RecordError::BadHeader { file: file.into(), why };
    let versioned: Versioned = serde_json::from_slice(bytes).map_err(|error| bad(error.to_string()))?;
    if versioned.schema != MESH_SCHEMA {
        return Err(match versioned.schema.starts_with("msgpath/mesh/") {
            true => RecordError::OtherVersion { file: file.into(), by: WrittenBy::Newer },
            false => bad(format!("its schema is {:?}, not {MESH_SCHEMA:?}", versioned.schema)),
        });
    }
    let header: MeshHeader = serde_json::from_slice(bytes).map_err(|error| bad(error.to_string()))?;
    header.check().map_err(bad)?;
    Ok(header)
}

/// Reads the mesh in `folder`, and gives every pair that is whole to `each`, in the order in which they were recorded.
///
/// # Errors
/// No mesh, or one whose files cannot be read. Damage is a result.
pub fn read_mesh(folder: &Path, mut each: impl FnMut(PairBlock)) -> Result<Mesh, RecordError> {
    let (header, sum) = summed_header(folder)?;
    let mut mesh = Mesh::new(folder.into(), header, None);
    let file = folder.join(PAIRS_FILE);
    let input = open_regular(&file).map_err(|source| RecordError::Read { file: file.clone(), source })?;
    let mut blocks = Blocks::with(BufReader::new(input), &KINDS);
    let hosts = mesh.header.hosts.len() as u32;
    let cases = mesh.header.plan.cases.len() as u32;
    let mut payload = Vec::new();
    loop {
        let offset = blocks.offset;
        let read = blocks.next(&mut payload).and_then(|head| one(head, &payload, hosts, cases));
        match read {
            Ok(Some(_)) if mesh.end.is_some() => {
                mesh.damage = Some(damage(offset, "pairs follow the end".into()));
                break;
            }
            Ok(Some(One::End(end))) => mesh.end = Some(*end),
            Ok(Some(One::Pair(pair))) => {
                each(pair);
                mesh.whole = blocks.offset;
            }
            Ok(None) => break,
            Err(Fault::Foreign(by)) => return Err(RecordError::OtherVersion { file, by }),
            Err(Fault::Damaged(why)) => {
                mesh.damage = Some(damage(offset, why));
                break;
            }
        }
    }
    if mesh.damage.is_none() && mesh.end.as_ref().is_some_and(|end| end.header_crc32 != Some(sum)) {
        mesh.damage = Some(Damage { file: MESH_FILE.into(), offset: 0, why: CHANGED.into() });
    }
    Ok(mesh)
}

fn damage(offset: u64, why: String) -> Damage {
    Damage { file: PAIRS_FILE.into(), offset, why }
}

enum One {
    Pair(PairBlock),
    End(Box<RunEnd>),
}

fn one(head: Option<Head>, payload: &[u8], hosts: u32, cases: u32) -> Result<Option<One>, Fault> {
    let Some(head) = head else { return Ok(None) };
    let pair = match head.kind {
        PAIR => PairBlock::Pair(Box::new(decode(payload)?)),
        FAILED_PAIR => PairBlock::Failed(Box::new(decode_failed(payload)?)),
        Kind::END => return Ok(Some(One::End(Box::new(block::decode_end(payload)?)))),
        kind => return Err(format!("{} stand among pairs", kind.name()).into()),
    };
    let slot = pair.slot();
    let of_cases = |pair: &PairRecord| pair.cases.iter().all(|case| case.case < cases);
    match slot.near < hosts && slot.far < hosts && slot.near != slot.far {
        true if matches!(&pair, PairBlock::Pair(pair) if !of_cases(pair)) => Err("a case that is not planned".into()),
        true => Ok(Some(One::Pair(pair))),
        false => Err("a pair of hosts that are not there".into()),
    }
}

/// A mesh that was cut short, opened to go on: locked against everybody else.
pub struct MeshCutShort {
    /// As far as it is whole.
    pub mesh: Mesh,
    pairs: Appender<File>,
}

impl MeshCutShort {
    /// Opens the mesh in `folder` and gives every pair that is whole to `each`.
    ///
    /// # Errors
    /// As [`read_mesh`]; it goes on at this moment ([`RecordError::Busy`]); a block that was written whole cannot be read.
    pub fn open(folder: &Path, each: impl FnMut(PairBlock)) -> Result<Self, RecordError> {
        mesh_header(folder)?;
        let pairs = Appender::open(folder, PAIRS_FILE)?;
        // Read when nobody else writes.
        let mut mesh = read_mesh(folder, each)?;
        if let Some(found) = mesh.damage.take()
            && (found.file != PAIRS_FILE || !is_torn(folder, PAIRS_FILE, found.offset, &KINDS)?)
        {
            return Err(RecordError::BadHeader { file: folder.join(found.file), why: found.why });
        }
        Ok(Self { mesh, pairs })
    }

    /// Removes a torn tail and the end, writes the header anew, and gives the writer that appends what is missing.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn go_on(self, header: &MeshHeader) -> Result<MeshWriter, RecordError> {
        let Self { mesh, mut pairs } = self;
        let file = mesh.folder.join(PAIRS_FILE);
        pairs.cut_to(mesh.whole).map_err(|source| RecordError::Create { file, source })?;
        let mut writer = MeshWriter { folder: mesh.folder, pairs, written: 0, header_crc32: 0 };
        writer.replace_header(header)?;
        Ok(writer)
    }
}

/// Runs every parser of pairs over arbitrary bytes, for a fuzzer: as a file of blocks, and as the payload of each kind.
///
/// # Panics
/// Where something that was read cannot be written again or is read differently then: a defect.
#[doc(hidden)]
pub fn fuzz_pairs(bytes: &[u8]) {
    let again = |kind: Kind, payload: &[u8]| match kind {
        PAIR => {
            if let Ok(pair) = decode(payload) {
                let encoded = encode(&pair).expect("what was read can be written");
                assert_eq!(decode(&encoded), Ok(pair));
            }
        }
        FAILED_PAIR => drop(decode_failed(payload)),
        _ => {}
    };
    let (mut blocks, mut payload) = (Blocks::with(bytes, &KINDS), Vec::new());
    while let Ok(Some(head)) = blocks.next(&mut payload) {
        again(head.kind, &payload);
    }
    KINDS.into_iter().for_each(|kind| again(kind, bytes));
}

/// Reads arbitrary bytes as `mesh.json`, for a fuzzer.
///
/// # Panics
/// Where something that was read cannot be written again or is read differently then: a defect.
#[doc(hidden)]
pub fn fuzz_header(bytes: &[u8]) {
    let file = Path::new(MESH_FILE);
    if let Ok(header) = parse(file, bytes) {
        let again = header_bytes(&header).expect("what was read can be written");
        assert_eq!(parse(file, &again).expect("what was written can be read"), header);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hosts_file::HostSpec;
    use crate::schema::{Directions, MeshHost, MeshOrder, PairCase, PairPurpose, PairRound, Pairs};
    use msgpath_core::Workload;
    use msgpath_core::program::Source;
    use msgpath_core::units::Pieces;
    use msgpath_core::{Case, Exit, Histogram, Launch, Plan, Problem, Program};

    fn header() -> MeshHeader {
        let plan = Plan {
            rounds: 2,
            ..Plan::new(Workload::ECHO, vec![Case::new("tcp:send".parse().unwrap(), Pieces::whole(64))])
        };
        let host =
            |name: &str| MeshHost { spec: HostSpec { name: name.into(), ..HostSpec::default() }, environment: None };
        MeshHeader {
            schema: MESH_SCHEMA.into(),
            name: "brisk-otter".into(),
            started: "2026-01-01T00:00:00Z".into(),
            command: Vec::new(),
            version: String::new(),
            plan,
            launch: Launch::parse("ssh").unwrap(),
            hosts: ["n1", "n2", "n3"].map(host).into(),
            order: MeshOrder {
                pairs: Pairs::All,
                directions: Directions::One,
                parallel: None,
                limits: Vec::new(),
                retests: 2,
                alone_ppm: 0,
            },
            planned: 3,
            sla: vec!["p99 > 200us".parse().unwrap()],
            resumed: Vec::new(),
        }
    }

    fn pair(near: u32, far: u32) -> PairBlock {
        let round = |ns: u64| {
            let mut latency = Histogram::new();
            (0..10).for_each(|at| latency.record(ns + at * 100));
            let wait = EndWait { wait_ns: Some(3 * ns), switches: 20, preempted: 1, stolen_ns: 0, throttled_ns: 7 };
            let (elapsed_ns, ends) = (10 * ns, vec![wait, EndWait::default()]);
            PairRound { sent: 10, received: 10, lost: 0, elapsed_ns, ends, latency: latency.to_sparse() }
        };
        let cases = vec![PairCase { case: 0, rounds: vec![round(20_000), round(21_000)], unavailable: None }];
        let slot = Slot { near, far, purpose: PairPurpose::Mesh, time: 0, step: near };
        PairBlock::Pair(Box::new(PairRecord { slot, start_ns: 7, tries: 0, cases }))
    }

    fn failed(near: u32, far: u32) -> PairBlock {
        let slot = Slot { near, far, purpose: PairPurpose::Retest, time: 1, step: 9 };
        let problem = Problem::new("E81", Exit::Unfinished, "cut off");
        PairBlock::Failed(Box::new(FailedPair { slot, attempt: 2, start_ns: 8, last: true, problem }))
    }

    fn end() -> RunEnd {
        RunEnd::of(Ok(true), "2026-01-01T00:01:00Z")
    }

    fn all(folder: &Path) -> (Mesh, Vec<PairBlock>) {
        let mut found = Vec::new();
        let mesh = read_mesh(folder, |pair| found.push(pair)).unwrap();
        (mesh, found)
    }

    #[test]
    fn pairs_are_read_back_as_they_were_written() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("mesh");
        let mut writer = MeshWriter::create(&folder, &header()).unwrap();
        let blocks = [pair(0, 1), failed(1, 2), pair(2, 0)];
        blocks.iter().for_each(|block| writer.append(block).unwrap());
        assert!(matches!(MeshWriter::create(&folder, &header()), Err(RecordError::NotEmpty { .. })));
        assert!(matches!(MeshCutShort::open(&folder, |_| ()), Err(RecordError::Busy { .. })), "it is locked");
        writer.finish(&end()).unwrap();
        let (mesh, found) = all(&folder);
        let header_crc32 = Some(crc32fast::hash(&fs::read(folder.join(MESH_FILE)).unwrap()));
        let end = RunEnd { header_crc32, ..end() };
        assert_eq!((mesh.header, found, mesh.end, mesh.damage), (header(), blocks.to_vec(), Some(end), None));
    }

    #[test]
    fn a_mesh_that_was_killed_at_any_byte_goes_on_with_whole_pairs() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("mesh");
        let mut writer = MeshWriter::create(&folder, &header()).unwrap();
        writer.append(&pair(0, 1)).unwrap();
        let first = fs::metadata(folder.join(PAIRS_FILE)).unwrap().len() as usize;
        writer.append(&pair(1, 2)).unwrap();
        let second = fs::metadata(folder.join(PAIRS_FILE)).unwrap().len() as usize;
        writer.finish(&end()).unwrap();
        let whole = fs::read(folder.join(PAIRS_FILE)).unwrap();
        for cut in (0..whole.len()).step_by(13).chain([first, second, whole.len()]) {
            fs::write(folder.join(PAIRS_FILE), &whole[..cut]).unwrap();
            let mut kept = 0;
            let short = MeshCutShort::open(&folder, |_| kept += 1).unwrap();
            assert_eq!(kept, usize::from(cut >= first) + usize::from(cut >= second), "cut at {cut}");
            // It was killed while it wrote the header anew.
            fs::write(folder.join("mesh.json.new"), "{").unwrap();
            let mut writer = short.go_on(&header()).unwrap();
            writer.append(&pair(2, 0)).unwrap();
            writer.finish(&end()).unwrap();
            let (mesh, found) = all(&folder);
            assert_eq!((found.len(), mesh.damage, mesh.end.is_some()), (kept + 1, None, true), "cut at {cut}");
        }
    }

    #[test]
    fn a_header_from_another_mesh_is_damage() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("mesh");
        let mut writer = MeshWriter::create(&folder, &header()).unwrap();
        writer.append(&pair(0, 1)).unwrap();
        writer.finish(&end()).unwrap();
        // It fits its own checksum.
        let foreign = MeshHeader { planned: 7, ..header() };
        fs::write(folder.join(MESH_FILE), header_bytes(&foreign).unwrap()).unwrap();
        let (mesh, _) = all(&folder);
        assert_eq!(mesh.damage.unwrap().to_string(), format!("{MESH_FILE}: {CHANGED}"));
        assert!(matches!(MeshCutShort::open(&folder, |_| ()), Err(RecordError::BadHeader { .. })));
    }

    #[test]
    fn a_header_that_would_start_programs_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let with = |change: &dyn Fn(&mut Plan)| {
            let mut header = header();
            change(&mut header.plan);
            header
        };
        let source = Source::Command(vec!["touch".into(), "victim".into()]);
        let program = Program { name: "own".into(), source, folder: "/tmp".into() };
        let headers = [
            with(&|plan| plan.programs = vec![program.clone()]),
            with(&|plan| plan.options.launch = Some(Launch::parse("ssh").unwrap())),
            with(&|plan| plan.simulate = true),
        ];
        for (at, header) in headers.iter().enumerate() {
            let folder = place.path().join(at.to_string());
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join(MESH_FILE), header_bytes(header).unwrap()).unwrap();
            fs::write(folder.join(PAIRS_FILE), "").unwrap();
            assert!(matches!(read_mesh(&folder, |_| ()), Err(RecordError::BadHeader { .. })), "{at}");
            assert!(matches!(MeshCutShort::open(&folder, |_| ()), Err(RecordError::BadHeader { .. })), "{at}");
        }
    }

    #[test]
    fn what_was_changed_is_damage() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("mesh");
        let mut writer = MeshWriter::create(&folder, &header()).unwrap();
        writer.append(&pair(0, 1)).unwrap();
        drop(writer);
        let path = folder.join(PAIRS_FILE);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let (mesh, found) = all(&folder);
        assert!(found.is_empty() && mesh.damage.is_some());
        assert!(matches!(MeshCutShort::open(&folder, |_| ()), Err(RecordError::BadHeader { .. })));
        let text = fs::read_to_string(folder.join(MESH_FILE)).unwrap();
        fs::write(folder.join(MESH_FILE), text.replace("n2", "n9")).unwrap();
        assert!(matches!(mesh_header(&folder), Err(RecordError::BadHeader { .. })));
        fs::write(folder.join(MESH_FILE), text.split_once('\n').unwrap().1.replacen("  ", "{  ", 1)).unwrap();
        assert!(mesh_header(&folder).unwrap_err().to_string().contains("no checksum"));
        let mut foreign = header();
        foreign.order.pairs = Pairs::Listed { pairs: vec![(0, 7)] };
        assert!(foreign.check().is_err());
    }

    #[test]
    fn pairs_that_are_a_fifo_are_not_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("mesh");
        drop(MeshWriter::create(&folder, &header()).unwrap());
        let file = folder.join(PAIRS_FILE);
        fs::remove_file(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        match read_mesh(&folder, |_| ()) {
            Err(error @ RecordError::Read { .. }) => {
                let text = error.to_string();
                assert!(text.contains(PAIRS_FILE) && text.contains("FIFO"), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            fuzz_pairs(&bytes);
            fuzz_header(&bytes);
            for kind in KINDS {
                fuzz_pairs(&block::frame(kind, &bytes).unwrap());
            }
        }
    }
}
