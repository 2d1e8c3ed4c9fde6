//! The tracing programs of `bpf/attr.bpf.c`: loaded, attached, filtered, switched, and their log read.
//!
//! Programs, maps and links live in file descriptors: when the process ends, however it ends, nothing stays attached.
//! `struct control` and `struct record` of the source are repeated here as offsets.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use aya::maps::{HashMap, Map, MapError};
use aya::programs::tp_btf::BtfTracePointLinkId;
use aya::programs::{BtfTracePoint, ProgramError};
use aya::{Btf, Ebpf, EbpfError, EbpfLoader, VerifierLogLevel};
use miniz_oxide::inflate::decompress_to_vec;

use crate::mapping::Mapping;

/// Packed by `build.rs`.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/attr.bpf.o"));

/// CPUs that the programs tell apart; a CPU beyond shares the settings of one below.
pub const CPUS: usize = 1024;
/// Thread ids are smaller (PID_MAX_LIMIT).
pub const THREADS: usize = 1 << 22;
/// Parts of the log.
pub const MAX_SEGMENTS: usize = 16;

const ON: usize = 0;
const LEAST: usize = 4;
const ALL: usize = 64;
const SEGMENT: usize = ALL + CPUS / 8;
const HEAD: usize = SEGMENT + CPUS + 64;
const HEAD_SIZE: usize = 128;
const CONTROL_SIZE: usize = HEAD + MAX_SEGMENTS * HEAD_SIZE;
const RECORD_SIZE: usize = 32;
const SOCKETS: usize = 1 << 16;

/// One event as the programs write it (docs/method/attribution.md#back-ends).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// CLOCK_MONOTONIC, ns.
    pub t: u64,
    pub a: u64,
    pub b: u32,
    pub tid: i32,
    /// Which event.
    pub ev: u16,
    pub cpu: u16,
    pub len: u16,
    pub flags: u16,
}

impl Record {
    fn parse(bytes: &[u8; RECORD_SIZE]) -> Self {
        let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u16_at = |at: usize| u16::from_ne_bytes(bytes[at..at + 2].try_into().expect("two bytes"));
        Self {
            t: u64_at(0),
            a: u64_at(8),
            b: u32_at(16),
            tid: u32_at(20) as i32,
            ev: u16_at(24),
            cpu: u16_at(26),
            len: u16_at(28),
            flags: u16_at(30),
        }
    }
}

/// What the log held.
#[derive(Debug, Default)]
pub struct Log {
    /// Events, segment by segment; not in the order of time.
    pub records: Vec<Record>,
    /// Events that found no room.
    pub lost: u64,
    /// Records that were claimed and never written. They are not among `records`.
    pub unwritten: u64,
}

/// Tracepoints that have no program, with the reason for each.
pub type Missing = Vec<(&'static str, String)>;

/// Programs that are loaded: the tracepoint, and the program's name in the object.
pub(crate) type Loaded = Vec<(&'static str, String)>;

/// Why nothing could be loaded.
#[derive(Debug)]
pub enum Refusal {
    /// The kernel offers no type information (`/sys/kernel/btf/vmlinux`).
    NoBtf(String),
    /// No right to make a map: CAP_BPF is missing.
    Maps(io::Error),
    /// No right to load a program: CAP_PERFMON is missing, or the kernel is locked down.
    Programs(io::Error),
    /// Anything else.
    Other(String),
}

/// Loaded programs and their maps.
pub struct Bpf {
    ebpf: Ebpf,
    loaded: Loaded,
    /// Programs that are attached: their names in the object, and what takes each off again.
    attached: Vec<(String, BtfTracePointLinkId)>,
    control: Mapping,
    records: Mapping,
    threads: Mapping,
    sockets: Mapping,
    segments: usize,
    capacity: usize,
    /// Words of the bitmaps that are not 0.
    set_threads: Vec<usize>,
    set_sockets: Vec<usize>,
}

/// First line of an error and of its causes; the verifier's log is for developers.
pub(crate) fn brief(error: &dyn std::error::Error) -> String {
    let mut text = String::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        let line = error.to_string();
        let line = line.lines().next().unwrap_or_default().split(". Verifier output").next().unwrap_or_default();
        if !text.contains(line) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(line);
        }
        cause = error.source();
    }
    text
}

/// The errno behind an error, where there is one.
fn errno(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(code) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return Some(code);
        }
        cause = error.source();
    }
    None
}

fn is_denied(code: Option<i32>) -> bool {
    matches!(code, Some(libc::EPERM | libc::EACCES))
}

pub(crate) fn other(error: &dyn std::error::Error) -> Refusal {
    Refusal::Other(brief(error))
}

fn map_refusal(error: MapError) -> Refusal {
    match &error {
        MapError::CreateError { io_error, .. } if is_denied(io_error.raw_os_error()) => {
            Refusal::Maps(io::Error::from_raw_os_error(io_error.raw_os_error().unwrap_or(libc::EPERM)))
        }
        _ => other(&error),
    }
}

fn descriptor<'a>(ebpf: &'a Ebpf, name: &str) -> Result<BorrowedFd<'a>, Refusal> {
    match ebpf.map(name) {
        Some(Map::Array(data)) => Ok(data.fd().as_fd()),
        _ => Err(Refusal::Other(format!("the object has no array {name}"))),
    }
}

pub(crate) fn mapped(ebpf: &Ebpf, name: &str, bytes: usize) -> Result<Mapping, Refusal> {
    let bytes = bytes.next_multiple_of(rustix::param::page_size());
    Mapping::new(descriptor(ebpf, name)?, bytes).map_err(|error| other(&error))
}

/// The kernel's types, against which programs are loaded.
pub(crate) fn kernel_types() -> Result<Btf, Refusal> {
    Btf::from_sys_fs().map_err(|error| Refusal::NoBtf(brief(&error)))
}

/// An object's maps; its programs are loaded one by one.
pub(crate) fn object<'a>(loader: &mut EbpfLoader<'a>, btf: &'a Btf, packed: &[u8]) -> Result<Ebpf, Refusal> {
    let bytes = decompress_to_vec(packed).map_err(|error| Refusal::Other(error.to_string()))?;
    loader.btf(Some(btf)).verifier_log_level(VerifierLogLevel::DISABLE).load(&bytes).map_err(|error| match error {
        EbpfError::MapError(error) => map_refusal(error),
        error if is_denied(errno(&error)) => Refusal::Maps(io::Error::from_raw_os_error(libc::EPERM)),
        error => other(&error),
    })
}

/// The programs that copy the first bytes of what is sent have this at the end of their names.
pub(crate) const PAYLOAD_SUFFIX: &str = "_payload";

/// Loads a program for each of these tracepoints: their names in the object, and what has none with the reason. Of those that
/// are among `copying` the second program is tried first. Those that are among `without` are treated as if this kernel had none; of
/// `sched_switch` the form before 5.18 is taken.
pub(crate) fn programs(
    ebpf: &mut Ebpf,
    tracepoints: &[&'static str],
    copying: &[&str],
    without: &[String],
    btf: &Btf,
) -> Result<(Loaded, Missing), Refusal> {
    let (mut loaded, mut missing) = (Vec::new(), Vec::new());
    for tracepoint in tracepoints {
        let left_out = without.iter().any(|name| name == tracepoint);
        if left_out && *tracepoint != SCHED_SWITCH {
            missing.push((*tracepoint, "left out".into()));
            continue;
        }
        let name = format!("on_{tracepoint}{PAYLOAD_SUFFIX}");
        // A kernel that is locked down refuses it (bpf_probe_read_user), and not the other one.
        if copying.contains(tracepoint) && attempt(ebpf, &name, tracepoint, btf).is_ok() {
            loaded.push((*tracepoint, name));
            continue;
        }
        match load(ebpf, tracepoint, left_out, btf) {
            Ok(program) => loaded.push((*tracepoint, program)),
            Err(error) if is_denied(errno(&error)) => {
                return Err(Refusal::Programs(io::Error::from_raw_os_error(libc::EPERM)));
            }
            Err(error) => missing.push((*tracepoint, brief(&error))),
        }
    }
    Ok((loaded, missing))
}

impl Bpf {
    /// Loads a program for each of these tracepoints; none is attached yet. The log has `segments` (1 to
    /// [`MAX_SEGMENTS`]) parts of `capacity` records. Beside it: tracepoints without a program, with the reason.
    ///
    /// # Errors
    /// Nothing could be loaded.
    pub fn open(tracepoints: &[&'static str], segments: usize, capacity: usize) -> Result<(Self, Missing), Refusal> {
        let segments = segments.clamp(1, MAX_SEGMENTS);
        let count = u32::try_from(segments * capacity.max(1))
            .map_err(|_| Refusal::Other("a log of more than 2^32 records".into()))?;
        let per_segment = count / segments as u32;
        let btf = kernel_types()?;
        let mut loader = EbpfLoader::new();
        loader.override_global("capacity", &per_segment, true).map_max_entries("records", count);
        let mut ebpf = object(&mut loader, &btf, OBJECT)?;
        let control = mapped(&ebpf, "control", CONTROL_SIZE)?;
        let records = mapped(&ebpf, "records", count as usize * RECORD_SIZE)?;
        let threads = mapped(&ebpf, "threads", THREADS / 8)?;
        let sockets = mapped(&ebpf, "sockets", SOCKETS / 8)?;
        let (loaded, missing) = programs(&mut ebpf, tracepoints, &[], &[], &btf)?;
        let capacity = per_segment as usize;
        let bpf = Self {
            ebpf,
            loaded,
            attached: Vec::new(),
            control,
            records,
            threads,
            sockets,
            segments,
            capacity,
            set_threads: Vec::new(),
            set_sockets: Vec::new(),
        };
        Ok((bpf, missing))
    }

    /// Attaches every loaded program. Those that the kernel does not attach are returned with the reason.
    pub fn attach(&mut self) -> Missing {
        let mut missing = Vec::new();
        for (tracepoint, name) in &self.loaded {
            if self.attached.iter().any(|(attached, _)| attached == name) {
                continue;
            }
            match program(&mut self.ebpf, name).and_then(BtfTracePoint::attach) {
                Ok(link) => self.attached.push((name.clone(), link)),
                Err(error) => missing.push((*tracepoint, brief(&error))),
            }
        }
        missing
    }

    /// Takes every program off its tracepoint: after this, tracing costs nothing at all.
    pub fn detach(&mut self) {
        for (name, link) in self.attached.drain(..) {
            if let Ok(program) = program(&mut self.ebpf, &name) {
                // It fails only where there is no such link.
                let _ = program.detach(link);
            }
        }
    }

    /// Forgets the program of a tracepoint: it is not attached any more.
    pub fn leave_out(&mut self, tracepoint: &str) {
        self.detach();
        self.loaded.retain(|(name, _)| *name != tracepoint);
    }

    /// Tracepoints whose programs are loaded.
    pub fn tracepoints(&self) -> impl Iterator<Item = &'static str> {
        self.loaded.iter().map(|(name, _)| *name)
    }

    /// Whose events are recorded: threads by their ids in the first pid namespace, sockets by their cookies. Ids that no
    /// thread can have are left out.
    pub fn set_filter(&mut self, threads: &[i32], sockets: &[u64], least: u32) {
        let numbers = threads.iter().filter_map(|tid| usize::try_from(*tid).ok()).filter(|tid| *tid < THREADS);
        set_bits(&self.threads, &mut self.set_threads, numbers);
        set_bits(&self.sockets, &mut self.set_sockets, sockets.iter().map(|cookie| *cookie as usize % SOCKETS));
        self.control.u32_at(LEAST).store(least, Ordering::Relaxed);
    }

    /// CPUs of which every switch, softirq and idle state is recorded, and in which part of the log each CPU writes.
    pub fn set_cpus(&mut self, everything: &[u32], segment: impl Fn(u32) -> usize) {
        let mut words = [0_u64; CPUS / 64];
        for cpu in everything {
            let cpu = *cpu as usize % CPUS;
            words[cpu / 64] |= 1 << (cpu % 64);
        }
        for (at, word) in words.iter().enumerate() {
            self.control.u64_at(ALL + at * 8).store(*word, Ordering::Relaxed);
        }
        let table: Vec<u8> = (0..CPUS as u32).map(|cpu| (segment(cpu) % self.segments) as u8).collect();
        self.control.write(SEGMENT, &table);
    }

    /// Parts of the log.
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// Recording on or off: one word in memory, read by every program.
    pub fn switch(&self, on: bool) {
        self.control.u32_at(ON).store(u32::from(on), Ordering::SeqCst);
    }

    /// Empties the log. Only while recording is off, after [`grace`].
    pub fn clear(&mut self) {
        for segment in 0..self.segments {
            let claimed = self.control.u64_at(HEAD + segment * HEAD_SIZE).swap(0, Ordering::SeqCst);
            let written = usize::try_from(claimed).unwrap_or(usize::MAX).min(self.capacity);
            self.records.clear(segment * self.capacity * RECORD_SIZE, written * RECORD_SIZE);
        }
    }

    /// Names of the tasks that left a CPU in a recorded switch, by thread id, and forgets them. Empty where the map cannot
    /// be read.
    pub fn take_names(&mut self) -> BTreeMap<i32, String> {
        let Some(mut map) = self.ebpf.map_mut("names").and_then(|map| HashMap::<_, i32, [u8; 16]>::try_from(map).ok())
        else {
            return BTreeMap::new();
        };
        let names: BTreeMap<i32, String> =
            map.iter().filter_map(Result::ok).map(|(tid, name)| (tid, text(name))).collect();
        for tid in names.keys() {
            let _ = map.remove(tid);
        }
        names
    }

    /// What the log holds. Only while recording is off, after [`grace`].
    pub fn read(&self) -> Log {
        let mut log = Log::default();
        let mut bytes = Vec::new();
        for segment in 0..self.segments {
            let claimed = self.control.u64_at(HEAD + segment * HEAD_SIZE).load(Ordering::SeqCst);
            let written = usize::try_from(claimed).unwrap_or(usize::MAX).min(self.capacity);
            log.lost += claimed - written as u64;
            bytes.clear();
            self.records.append_to(&mut bytes, segment * self.capacity * RECORD_SIZE, written * RECORD_SIZE);
            let parsed = bytes.as_chunks::<RECORD_SIZE>().0.iter().map(Record::parse).filter(|record| record.t != 0);
            let before = log.records.len();
            log.records.extend(parsed);
            log.unwritten += (written - (log.records.len() - before)) as u64;
        }
        log
    }
}

/// The text of a name as the kernel keeps it: up to the first 0.
fn text(name: [u8; 16]) -> String {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

impl Drop for Bpf {
    fn drop(&mut self) {
        self.switch(false);
    }
}

pub(crate) fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut BtfTracePoint, ProgramError> {
    ebpf.program_mut(name).ok_or(ProgramError::NotLoaded)?.try_into()
}

/// The tracepoint of which there are two forms.
const SCHED_SWITCH: &str = "sched_switch";

/// Loads the program of a tracepoint, of the form of older kernels if wanted, and returns its name in the object.
fn load(ebpf: &mut Ebpf, tracepoint: &str, older: bool, btf: &Btf) -> Result<String, ProgramError> {
    let name = format!("on_{tracepoint}");
    let newest = if older { Err(ProgramError::NotLoaded) } else { attempt(ebpf, &name, tracepoint, btf) };
    match newest {
        // Before kernel 5.18 the verifier refuses to read a fourth argument.
        Err(error) if tracepoint == SCHED_SWITCH && !is_denied(errno(&error)) => {
            let before = format!("{name}_before_5_18");
            attempt(ebpf, &before, tracepoint, btf).map(|()| before).map_err(|_| error)
        }
        result => result.map(|()| name),
    }
}

pub(crate) fn attempt(ebpf: &mut Ebpf, name: &str, tracepoint: &str, btf: &Btf) -> Result<(), ProgramError> {
    program(ebpf, name)?.load(tracepoint, btf)
}

fn set_bits(map: &Mapping, set: &mut Vec<usize>, numbers: impl Iterator<Item = usize>) {
    for word in set.drain(..) {
        map.u64_at(word * 8).store(0, Ordering::Relaxed);
    }
    for number in numbers {
        map.u64_at(number / 64 * 8).fetch_or(1 << (number % 64), Ordering::Relaxed);
        set.push(number / 64);
    }
}

/// Returns when no CPU is inside a program that it entered before: after this a switched-off log does not change.
///
/// A tracepoint calls its programs inside an RCU read-side section, and MEMBARRIER_CMD_GLOBAL waits for the end of all of
/// those. Kernels with `nohz_full` CPUs refuse it; there, a wait of 5 ms stands in for it.
pub fn grace() {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: three integers, no memory.
    if unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) } != 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ids of all BPF programs that the kernel holds.
///
/// # Errors
/// No right to ask (CAP_SYS_ADMIN).
pub fn loaded_programs() -> io::Result<Vec<u32>> {
    // The kernel names one after the other: one that another process lets go of meanwhile is no longer there.
    let gone = |error: &ProgramError| match error {
        ProgramError::SyscallError(error) => error.io_error.kind() == io::ErrorKind::NotFound,
        _ => false,
    };
    aya::programs::loaded_programs()
        .filter(|info| !info.as_ref().is_err_and(gone))
        .map(|info| info.map(|info| info.id()).map_err(|error| io::Error::other(brief(&error))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut bytes = [0; RECORD_SIZE];
        bytes[..8].copy_from_slice(&7_u64.to_ne_bytes());
        bytes[8..16].copy_from_slice(&u64::MAX.to_ne_bytes());
        bytes[16..20].copy_from_slice(&9_u32.to_ne_bytes());
        bytes[20..24].copy_from_slice(&(-1_i32).to_ne_bytes());
        for (at, value) in [(24, 3_u16), (26, 1), (28, 130), (30, 1)] {
            bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        }
        let expected = Record { t: 7, a: u64::MAX, b: 9, tid: -1, ev: 3, cpu: 1, len: 130, flags: 1 };
        assert_eq!(Record::parse(&bytes), expected);
    }

    #[test]
    fn both_variants_of_the_switch_program_load_where_programs_load() {
        let Ok(btf) = Btf::from_sys_fs() else {
            println!("skipped: no BTF here");
            return;
        };
        let loader = &mut EbpfLoader::new();
        let Ok(mut ebpf) = loader.map_max_entries("records", 16).load(&decompress_to_vec(OBJECT).unwrap()) else {
            println!("skipped: no right to load BPF programs");
            return;
        };
        for name in ["on_sched_switch", "on_sched_switch_before_5_18"] {
            match program(&mut ebpf, name).unwrap().load("sched_switch", &btf) {
                Err(error) if is_denied(errno(&error)) => println!("skipped: no right to load BPF programs"),
                result => result.unwrap_or_else(|error| panic!("{name}: {error}")),
            }
        }
    }

    #[test]
    fn a_tracepoint_that_this_kernel_lacks_costs_itself_only() {
        let (bpf, missing) = match Bpf::open(&["sched_waking", "no_such_tracepoint"], 1, 16) {
            Ok(opened) => opened,
            Err(refusal) => {
                println!("skipped: {refusal:?}");
                return;
            }
        };
        assert_eq!(bpf.tracepoints().collect::<Vec<_>>(), ["sched_waking"]);
        assert_eq!(missing.len(), 1);
        assert!(missing[0].0 == "no_such_tracepoint" && !missing[0].1.contains('\n'), "{missing:?}");
    }

    /// A full log keeps what it has, counts the rest, and is empty again when cleared.
    #[test]
    fn a_full_log_counts_what_it_does_not_keep() {
        let (mut bpf, _) = match Bpf::open(&["sys_enter"], 2, 64) {
            Ok(opened) => opened,
            Err(refusal) => {
                println!("skipped: {refusal:?}");
                return;
            }
        };
        assert!(bpf.attach().is_empty());
        bpf.set_filter(&[crate::affinity::thread_id(), -5, i32::MAX], &[], 0);
        bpf.set_cpus(&[], |_| 1);
        bpf.switch(true);
        for _ in 0..500 {
            let _ = rustix::process::getppid();
        }
        bpf.switch(false);
        grace();
        let log = bpf.read();
        assert_eq!((log.records.len(), log.unwritten), (64, 0));
        assert!((436..600).contains(&log.lost), "{}", log.lost);
        assert!(log.records.iter().all(|record| record.ev == 11 && record.tid == crate::affinity::thread_id()));
        assert!(log.records.is_sorted_by_key(|record| record.t));
        bpf.clear();
        let log = bpf.read();
        assert_eq!((log.records.len(), log.lost, log.unwritten), (0, 0, 0));
        // Switched off, nothing is recorded; with other threads in the filter, neither.
        bpf.set_filter(&[1], &[], 0);
        bpf.switch(true);
        let _ = rustix::process::getppid();
        bpf.switch(false);
        grace();
        assert!(bpf.read().records.iter().all(|record| record.tid != crate::affinity::thread_id()));
    }
}
