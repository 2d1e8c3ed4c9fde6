//! BPF programs of a few instructions and their maps of one entry, given to bpf(2) as they are.
//!
//! Nothing is pinned: maps, programs and links end with their last descriptor, however a process ends.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

// linux/bpf.h
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
/// In a load of an address: the descriptor of a map stands for the map.
pub(crate) const PSEUDO_MAP_FD: u8 = 1;

/// How often a program is loaded that signals interrupt.
const LOADS: usize = 20;

/// The beginnings of `union bpf_attr` for the commands used here; the kernel takes what is left out for 0.
#[repr(C)]
struct NewMap {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

#[repr(C)]
struct Update {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct Load {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
}

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// One instruction; the two registers are half a byte each, in the order of the machine's bits.
pub(crate) fn instruction(code: u8, to: u8, from: u8, immediate: i32) -> Instruction {
    let registers = if cfg!(target_endian = "big") { to << 4 | from } else { from << 4 | to };
    Instruction { code, registers, offset: 0, immediate }
}

impl Instruction {
    /// The same with an offset: of a load, bytes; of a jump, instructions.
    pub(crate) fn at(self, offset: i16) -> Self {
        Self { offset, ..self }
    }

    #[cfg(test)]
    pub(crate) fn code(self) -> u8 {
        self.code
    }

    #[cfg(test)]
    pub(crate) fn offset(self) -> i16 {
        self.offset
    }
}

/// bpf(2).
///
/// # Safety
/// `attributes` is the beginning of `union bpf_attr` for the command, without padding that is not a field, and its addresses are
/// valid for the call.
pub(crate) unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: pointer and length describe `attributes`; the rest is the caller's.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    libc::c_int::try_from(crate::check(result as libc::ssize_t)?)
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// A descriptor that bpf(2) returned.
pub(crate) fn own(fd: libc::c_int) -> OwnedFd {
    // SAFETY: bpf(2) has just returned it, close-on-exec, and nobody else owns it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Which step was refused.
pub(crate) fn refused(step: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{step}: {error}"))
}

/// A map with one entry and keys of four bytes.
pub(crate) fn new_map(map_type: u32, value_size: usize, map_flags: u32) -> io::Result<OwnedFd> {
    let attributes = NewMap { map_type, key_size: 4, value_size: value_size as u32, max_entries: 1, map_flags };
    // SAFETY: the fields of BPF_MAP_CREATE in their order, and no address.
    unsafe { bpf(MAP_CREATE, &attributes) }.map(own)
}

pub(crate) fn load(prog_type: u32, program: &[Instruction]) -> io::Result<OwnedFd> {
    let attributes = Load {
        prog_type,
        insn_cnt: program.len() as u32,
        insns: program.as_ptr().addr() as u64,
        license: c"Dual MIT/GPL".as_ptr().addr() as u64,
    };
    // A signal interrupts the verifier (EAGAIN).
    let mut loaded = Err(io::Error::from_raw_os_error(libc::EAGAIN));
    for _ in 0..LOADS {
        // SAFETY: the fields of BPF_PROG_LOAD in their order; the instructions and the text outlive the call.
        loaded = unsafe { bpf(PROG_LOAD, &attributes) }.map(own);
        if !loaded.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EAGAIN)) {
            break;
        }
    }
    loaded
}

/// Puts a socket at key 0 of a map.
pub(crate) fn put(socket: BorrowedFd<'_>, map: &OwnedFd) -> io::Result<()> {
    let (key, value) = (0_u32, socket.as_raw_fd() as u32);
    let attributes = Update {
        map_fd: map.as_raw_fd() as u32,
        padding: 0,
        key: std::ptr::from_ref(&key).addr() as u64,
        value: std::ptr::from_ref(&value).addr() as u64,
        flags: 0,
    };
    // SAFETY: the fields of BPF_MAP_UPDATE_ELEM in their order; key and value have the sizes of the map and outlive the call.
    unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
}
