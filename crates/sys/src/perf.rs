//! Tracepoints and context switches by perf_event_open(2): one ring for each CPU, into which every event of that CPU goes.
//!
//! Events and rings live in file descriptors: when the process ends, however it ends, nothing stays attached. Records are in
//! `linux/perf_event.h`; which fields they have follows from the attributes set here (`TID | TIME | CPU`, and `RAW` for
//! samples).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use msgpath_core::Unavailable;
use perf_event_open_sys::bindings as perf;
use perf_event_open_sys::{ioctls, perf_event_open};

use crate::check_int;
use crate::mapping::Mapping;

/// Smallest and largest ring of one CPU, bytes.
const RING: std::ops::RangeInclusive<usize> = 64 * 1024..=64 * 1024 * 1024;

/// One record of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A tracepoint was passed.
    Sample {
        /// CLOCK_MONOTONIC, ns.
        t: u64,
        cpu: u32,
        /// Which thread ran there.
        tid: i32,
        /// The record as `format` describes it; begins with the tracepoint's id.
        raw: &'a [u8],
    },
    /// A CPU went from one task to another.
    Switch {
        /// CLOCK_MONOTONIC, ns.
        t: u64,
        cpu: u32,
        /// The task before.
        prev: i32,
        /// The task after.
        next: i32,
        /// Written by the task that leaves; otherwise by the one that comes.
        out: bool,
        /// The task that leaves could have gone on. Known where `out`.
        preempted: bool,
    },
    /// A task was given a name: its program began, or it named itself.
    Named {
        /// Which task.
        tid: i32,
        /// Up to its first 0.
        name: &'a [u8],
    },
    /// A task began, with the name of the one that made it.
    Forked {
        /// Which task.
        tid: i32,
        /// The task that made it.
        by: i32,
    },
    /// Records that found no room.
    Lost(u64),
    /// Anything else.
    Other,
}

/// The records in `bytes`, up to the first that is cut off or whose length makes no sense.
pub fn records(mut bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        let header = bytes.get(..8)?;
        let kind = u32::from_ne_bytes(header[..4].try_into().ok()?);
        let misc = u16::from_ne_bytes(header[4..6].try_into().ok()?);
        let size = usize::from(u16::from_ne_bytes(header[6..8].try_into().ok()?));
        let record = bytes.get(8..size)?;
        bytes = &bytes[size..];
        Some(parse(kind, misc, record).unwrap_or(Record::Other))
    })
}

/// `body`: what follows the header of 8 bytes.
fn parse(kind: u32, misc: u16, body: &[u8]) -> Option<Record<'_>> {
    let u32_at = |at: usize| Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_ne_bytes(body.get(at..at + 8)?.try_into().ok()?));
    match kind {
        perf::PERF_RECORD_SAMPLE => {
            // pid, tid, time, cpu, reserved, size, raw
            let size = u32_at(24)? as usize;
            let raw = body.get(28..28_usize.checked_add(size)?)?;
            Some(Record::Sample { t: u64_at(8)?, cpu: u32_at(16)?, tid: u32_at(4)? as i32, raw })
        }
        perf::PERF_RECORD_SWITCH_CPU_WIDE => {
            // the other pid and tid, own pid and tid, time, cpu, reserved
            let (other, own) = (u32_at(4)? as i32, u32_at(12)? as i32);
            let out = u32::from(misc) & perf::PERF_RECORD_MISC_SWITCH_OUT != 0;
            let preempted = u32::from(misc) & perf::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT != 0;
            let (prev, next) = if out { (own, other) } else { (other, own) };
            Some(Record::Switch { t: u64_at(16)?, cpu: u32_at(24)?, prev, next, out, preempted })
        }
        perf::PERF_RECORD_COMM => {
            // pid, tid, the name
            let name = body.get(8..)?;
            let end = name.iter().position(|byte| *byte == 0)?;
            Some(Record::Named { tid: u32_at(4)? as i32, name: &name[..end] })
        }
        // pid, that of the parent, tid, that of the parent
        perf::PERF_RECORD_FORK => Some(Record::Forked { tid: u32_at(8)? as i32, by: u32_at(12)? as i32 }),
        perf::PERF_RECORD_LOST => Some(Record::Lost(u64_at(8)?)),
        _ => None,
    }
}

struct Cpu {
    number: u32,
    /// Records of the switches' event that found no room, as last asked.
    lost_before: u64,
    /// The switch records' event, which owns the ring.
    switches: OwnedFd,
    tracepoints: Vec<OwnedFd>,
    ring: Mapping,
}

/// Rings with the switch records of their CPUs and the names of tasks that began there, and the tracepoints that are attached; disabled when opened.
pub struct Perf {
    cpus: Vec<Cpu>,
}

fn attributes() -> perf::perf_event_attr {
    let mut attributes = perf::perf_event_attr::default();
    attributes.size = size_of::<perf::perf_event_attr>() as u32;
    attributes.sample_type = (perf::PERF_SAMPLE_TID | perf::PERF_SAMPLE_TIME | perf::PERF_SAMPLE_CPU).into();
    attributes.clockid = libc::CLOCK_MONOTONIC;
    attributes.set_disabled(1);
    attributes.set_use_clockid(1);
    // Nobody is woken while it records: what there is, is read afterwards.
    attributes.set_watermark(1);
    attributes.__bindgen_anon_2.wakeup_watermark = 1 << 30;
    attributes
}

fn open(mut attributes: perf::perf_event_attr, cpu: u32) -> io::Result<OwnedFd> {
    let cpu = i32::try_from(cpu).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut attempt = |format: u32| {
        attributes.read_format = format.into();
        // SAFETY: `attributes` is a whole attribute block whose size field is its size; the kernel writes only into it.
        check_int(unsafe { perf_event_open(&raw mut attributes, -1, cpu, -1, perf::PERF_FLAG_FD_CLOEXEC.into()) })
    };
    let fd = match attempt(perf::PERF_FORMAT_LOST) {
        // Before kernel 6.0.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => attempt(0)?,
        fd => fd?,
    };
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn open_switches(cpu: u32) -> io::Result<OwnedFd> {
    let mut attributes = attributes();
    attributes.type_ = perf::PERF_TYPE_SOFTWARE;
    attributes.config = perf::PERF_COUNT_SW_DUMMY.into();
    attributes.set_context_switch(1);
    attributes.set_comm(1);
    attributes.set_task(1);
    attributes.set_sample_id_all(1);
    open(attributes, cpu)
}

fn open_tracepoint(id: u16, cpu: u32, ring: &OwnedFd) -> io::Result<OwnedFd> {
    let mut attributes = attributes();
    attributes.type_ = perf::PERF_TYPE_TRACEPOINT;
    attributes.config = id.into();
    attributes.__bindgen_anon_1.sample_period = 1;
    attributes.sample_type |= u64::from(perf::PERF_SAMPLE_RAW);
    let fd = open(attributes, cpu)?;
    // SAFETY: two open descriptors of perf events, no memory.
    check_int(unsafe { ioctls::SET_OUTPUT(fd.as_raw_fd(), ring.as_raw_fd()) })?;
    Ok(fd)
}

/// How many records of an event found no room; `None`: this kernel does not count them.
fn lost(fd: &OwnedFd) -> Option<u64> {
    let mut words = [0_u8; 16];
    let read = rustix::io::read(fd, &mut words).ok()?;
    (read == words.len()).then(|| u64::from_ne_bytes(words[8..].try_into().expect("eight bytes")))
}

/// Maps a ring of at least `bytes`, or of as much as this user may have.
fn map_ring(fd: &OwnedFd, bytes: usize) -> io::Result<Mapping> {
    let page = rustix::param::page_size();
    let mut bytes = bytes.clamp(*RING.start(), *RING.end()).next_power_of_two().max(page);
    loop {
        match Mapping::new(fd.as_fd(), page + bytes) {
            // Without CAP_IPC_LOCK the kernel limits what rings may take (kernel.perf_event_mlock_kb).
            Err(error) if error.raw_os_error() == Some(libc::EPERM) && bytes > *RING.start() => bytes /= 2,
            result => return result,
        }
    }
}

impl Perf {
    /// Opens switch records on every CPU of `cpus`, `bytes` of ring each.
    ///
    /// # Errors
    /// `PermissionDenied`: no CAP_PERFMON. Others as perf_event_open(2). A CPU that is not online is left out; it is an error
    /// if none is left.
    pub fn open(cpus: &[u32], bytes: usize) -> io::Result<Self> {
        let mut opened = Vec::new();
        let mut absent = io::Error::from(io::ErrorKind::NotFound);
        for &number in cpus {
            let switches = match open_switches(number) {
                Ok(switches) => switches,
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
                    absent = error;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let ring = map_ring(&switches, bytes)?;
            opened.push(Cpu { number, lost_before: 0, switches, tracepoints: Vec::new(), ring });
        }
        if opened.is_empty() { Err(absent) } else { Ok(Self { cpus: opened }) }
    }

    /// Opens a tracepoint on every CPU. `filter`: which records the kernel keeps, as tracefs filters are written
    /// (`pid==7||pid==8`); it cannot be changed while the tracepoint is open. A CPU that has gone away meanwhile is passed
    /// over.
    ///
    /// # Errors
    /// As perf_event_open(2); the kernel does not understand the filter, or it is too long.
    pub fn attach(&mut self, id: u16, filter: Option<&str>) -> io::Result<()> {
        let filter = filter.map(CString::new).transpose()?;
        for cpu in &mut self.cpus {
            let fd = match open_tracepoint(id, cpu.number, &cpu.switches) {
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
                fd => fd?,
            };
            if let Some(text) = &filter {
                // SAFETY: the pointer is to a text that ends with 0 and lives until the call returns; the kernel copies it.
                check_int(unsafe { ioctls::SET_FILTER(fd.as_raw_fd(), text.as_ptr().cast_mut()) })?;
            }
            cpu.tracepoints.push(fd);
        }
        Ok(())
    }

    /// Closes the tracepoints: after this they cost nothing. Rings and switch records stay.
    pub fn detach(&mut self) {
        self.cpus.iter_mut().for_each(|cpu| cpu.tracepoints.clear());
    }

    /// The CPUs that are watched.
    pub fn cpus(&self) -> Vec<u32> {
        self.cpus.iter().map(|cpu| cpu.number).collect()
    }

    /// Bytes of the smallest ring.
    pub fn ring_bytes(&self) -> usize {
        self.cpus.iter().map(|cpu| cpu.ring.len() - rustix::param::page_size()).min().unwrap_or(0)
    }

    /// Recording on or off, everywhere.
    ///
    /// # Errors
    /// As ioctl(2).
    pub fn switch(&self, on: bool) -> io::Result<()> {
        for fd in self.cpus.iter().flat_map(|cpu| cpu.tracepoints.iter().chain([&cpu.switches])) {
            if on {
                // SAFETY: an open descriptor of a perf event, no memory.
                check_int(unsafe { ioctls::ENABLE(fd.as_raw_fd(), 0) })?;
            } else {
                // SAFETY: as above.
                check_int(unsafe { ioctls::DISABLE(fd.as_raw_fd(), 0) })?;
            }
        }
        Ok(())
    }

    /// How many records found no room in this round. To be asked after [`Perf::switch`] has switched off, before
    /// [`Perf::detach`] and [`Perf::take`]. A [`Record::Lost`] tells less: it is written only when there is room again. Where
    /// the kernel does not count, one for each ring that is full.
    pub fn lost(&mut self) -> u64 {
        let page = rustix::param::page_size();
        let mut sum = 0;
        for cpu in &mut self.cpus {
            match lost(&cpu.switches) {
                Some(count) => {
                    sum += count - std::mem::replace(&mut cpu.lost_before, count);
                    sum += cpu.tracepoints.iter().filter_map(lost).sum::<u64>();
                }
                None => sum += u64::from(held(&cpu.ring) + page > cpu.ring.len() - page),
            }
        }
        sum
    }

    /// Takes what the rings hold, CPU by CPU, and empties them. For [`records`].
    pub fn take(&mut self) -> Vec<(u32, Vec<u8>)> {
        self.cpus.iter_mut().map(|cpu| (cpu.number, take(&cpu.ring))).collect()
    }
}

fn head(ring: &Mapping) -> &AtomicU64 {
    ring.u64_at(std::mem::offset_of!(perf::perf_event_mmap_page, data_head))
}

fn tail(ring: &Mapping) -> &AtomicU64 {
    ring.u64_at(std::mem::offset_of!(perf::perf_event_mmap_page, data_tail))
}

/// Bytes in a ring.
fn held(ring: &Mapping) -> usize {
    let size = ring.len() - rustix::param::page_size();
    // Bytes before `data_head` were written before it was.
    let held = head(ring).load(Ordering::Acquire).wrapping_sub(tail(ring).load(Ordering::Relaxed));
    usize::try_from(held).unwrap_or(size).min(size)
}

fn take(ring: &Mapping) -> Vec<u8> {
    let page = rustix::param::page_size();
    let size = ring.len() - page;
    let held = held(ring);
    let start = tail(ring).load(Ordering::Relaxed);
    let from = (start % size as u64) as usize;
    let first = held.min(size - from);
    let mut bytes = Vec::with_capacity(held);
    ring.append_to(&mut bytes, page + from, first);
    ring.append_to(&mut bytes, page, held - first);
    tail(ring).store(start + held as u64, Ordering::Release);
    bytes
}

/// Why perf_event_open(2) was forbidden. Where `kernel.perf_event_paranoid` is too high the kernel answers EACCES; EPERM is the answer
/// of a filter of system calls.
pub fn forbidden(error: &io::Error, paranoid: Option<i64>) -> Unavailable {
    let name = if error.raw_os_error() == Some(libc::EPERM) { "EPERM" } else { "EACCES" };
    match paranoid {
        Some(level) if level > 1 && name == "EACCES" => Unavailable::new(
            format!("kernel.perf_event_paranoid is {level}: {name}"),
            "sudo sysctl kernel.perf_event_paranoid=1, or CAP_PERFMON",
        ),
        _ => Unavailable::new(
            format!("forbidden by a seccomp filter or a security module (a container's?): {name}"),
            "CAP_PERFMON, and a filter that lets perf_event_open pass",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(kind: u32, misc: u32, body: &[&[u8]]) -> Vec<u8> {
        let body = body.concat();
        let mut out = kind.to_ne_bytes().to_vec();
        out.extend((misc as u16).to_ne_bytes());
        out.extend(((body.len() + 8) as u16).to_ne_bytes());
        out.extend(body);
        out
    }

    #[test]
    fn records_are_read_as_documented() {
        let sample = record(
            perf::PERF_RECORD_SAMPLE,
            0,
            &[
                &10_u32.to_ne_bytes(),
                &11_u32.to_ne_bytes(),
                &77_u64.to_ne_bytes(),
                &1_u32.to_ne_bytes(),
                &[0; 4],
                &4_u32.to_ne_bytes(),
                &[1, 2, 3, 4],
            ],
        );
        let switch = |misc| {
            record(
                perf::PERF_RECORD_SWITCH_CPU_WIDE,
                misc,
                &[
                    &20_u32.to_ne_bytes(),
                    &21_u32.to_ne_bytes(),
                    &30_u32.to_ne_bytes(),
                    &31_u32.to_ne_bytes(),
                    &78_u64.to_ne_bytes(),
                    &[0; 8],
                ],
            )
        };
        let out = perf::PERF_RECORD_MISC_SWITCH_OUT;
        let mut bytes = sample;
        bytes.extend(switch(0));
        bytes.extend(switch(out));
        bytes.extend(switch(out | perf::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT));
        bytes.extend(record(perf::PERF_RECORD_LOST, 0, &[&5_u64.to_ne_bytes(), &6_u64.to_ne_bytes()]));
        let tasks = [90_u32, 91, 92, 93].map(u32::to_ne_bytes).concat();
        bytes.extend(record(perf::PERF_RECORD_COMM, 0, &[&tasks[..8], b"true\0\0\0\0", &[0; 24]]));
        bytes.extend(record(perf::PERF_RECORD_FORK, 0, &[&tasks, &[0; 32]]));
        bytes.extend(record(999, 0, &[]));
        let whole = bytes.len();
        bytes.extend([1, 0, 0, 0, 0, 0, 4, 0]);
        let switched = |prev, next, out, preempted| Record::Switch { t: 78, cpu: 0, prev, next, out, preempted };
        let expected = [
            Record::Sample { t: 77, cpu: 1, tid: 11, raw: &[1, 2, 3, 4] },
            switched(21, 31, false, false),
            switched(31, 21, true, false),
            switched(31, 21, true, true),
            Record::Lost(6),
            Record::Named { tid: 91, name: b"true" },
            Record::Forked { tid: 92, by: 93 },
            Record::Other,
        ];
        assert_eq!(records(&bytes).collect::<Vec<_>>(), expected, "the last header claims to be shorter than itself");
        assert_eq!(records(&bytes[..whole - 9]).count(), 6, "cut off");
    }

    #[test]
    fn switches_of_this_thread_are_seen() {
        let mut perf = match Perf::open(&crate::affinity::allowed(), 1 << 16) {
            Ok(perf) => perf,
            Err(error) => {
                println!("skipped: perf_event_open: {error}");
                return;
            }
        };
        assert!(perf.ring_bytes() >= 1 << 16 && !perf.cpus().is_empty());
        perf.switch(true).unwrap();
        let own = crate::affinity::thread_id();
        let (mut left, mut sleeps) = (0, 0);
        // Taken after every sleep: a ring holds 1300 switches, and the tests beside this one can make more in 40 ms. A late thread's
        // timer may ring before it has gone to sleep, and then it does not leave its CPU.
        while left < 10 && sleeps < 500 {
            std::thread::sleep(std::time::Duration::from_millis(2));
            sleeps += 1;
            let taken = perf.take();
            let leaves = |record: &Record<'_>| matches!(record, Record::Switch { prev, out: true, .. } if *prev == own);
            left += taken.iter().flat_map(|(_, bytes)| records(bytes)).filter(leaves).count();
        }
        perf.switch(false).unwrap();
        assert!(left >= 10, "{left} of {sleeps} sleeps");
        perf.take();
        assert!(perf.take().iter().all(|(_, bytes)| bytes.is_empty()), "taken twice");
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(records(&bytes).count() <= 25);
        }
    }
}
