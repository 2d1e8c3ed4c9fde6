//! Memory that is shared: with the kernel (maps of BPF programs, rings of perf events), or with other processes (sealed
//! memfds).
//!
//! Others write while this process reads, so words are atomics, and bytes are copied out before they are looked at.

#[cfg(miri)]
mod miri;

use std::io;
#[cfg(not(miri))]
use std::os::fd::AsFd;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

#[cfg(not(miri))]
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
#[cfg(not(miri))]
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A shared mapping, readable and writable.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    length: usize,
    #[cfg(miri)]
    _memory: std::sync::Arc<miri::Memory>,
}

// SAFETY: the mapping belongs to the process, not to a thread; words are accessed as atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

#[cfg(miri)]
impl Mapping {
    pub(crate) fn new(_: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        miri::Memory::new(length).map(Self::of)
    }

    pub(crate) fn new_at(_: BorrowedFd<'_>, length: usize, _: u64) -> io::Result<Self> {
        miri::Memory::new(length).map(Self::of)
    }

    pub(crate) fn create_sealed(_: &str, length: usize) -> io::Result<(OwnedFd, Self)> {
        miri::Memory::create(length).map(|(fd, memory)| (fd, Self::of(memory)))
    }

    pub(crate) fn attach_sealed(fd: &OwnedFd, fits: impl Fn(usize) -> bool) -> io::Result<Option<Self>> {
        Ok(miri::Memory::find(fd).filter(|memory| fits(memory.length())).map(Self::of))
    }

    fn of(memory: std::sync::Arc<miri::Memory>) -> Self {
        Self { base: memory.base, length: memory.length(), _memory: memory }
    }
}

#[cfg(not(miri))]
impl Mapping {
    /// Maps the first `length` bytes of what `fd` stands for. `fd` is one whose memory the kernel keeps as long as it is
    /// mapped: a BPF map or a perf event, not a file that somebody could cut short.
    pub(crate) fn new(fd: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        Self::with(fd, length, MapFlags::SHARED, 0)
    }

    /// The same from an offset on, by which some descriptors tell their rings apart.
    pub(crate) fn new_at(fd: BorrowedFd<'_>, length: usize, offset: u64) -> io::Result<Self> {
        Self::with(fd, length, MapFlags::SHARED | MapFlags::POPULATE, offset)
    }

    /// Makes memory of `length` bytes for several processes, sealed against resizing, so that no access ever raises
    /// SIGBUS; every page is there already.
    pub(crate) fn create_sealed(name: &str, length: usize) -> io::Result<(OwnedFd, Self)> {
        let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, length as u64)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let mapping = Self::with(fd.as_fd(), length, MapFlags::SHARED | MapFlags::POPULATE, 0)?;
        Ok((fd, mapping))
    }

    /// Maps the whole memory that another process made; `fits` says whether its length is one to be expected. `None`: it
    /// is not, or it could be shrunk.
    pub(crate) fn attach_sealed(fd: &OwnedFd, fits: impl Fn(usize) -> bool) -> io::Result<Option<Self>> {
        let length = usize::try_from(fstat(fd)?.st_size).unwrap_or(0);
        if !fits(length) || !fcntl_get_seals(fd.as_fd())?.contains(SealFlags::SHRINK) {
            return Ok(None);
        }
        Self::with(fd.as_fd(), length, MapFlags::SHARED | MapFlags::POPULATE, 0).map(Some)
    }

    fn with(fd: BorrowedFd<'_>, length: usize, flags: MapFlags, offset: u64) -> io::Result<Self> {
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base =
            unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, flags, fd, offset) }?;
        let base = NonNull::new(base.cast()).expect("mmap does not return null");
        Ok(Self { base, length })
    }
}

impl Mapping {
    /// Bytes mapped.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// The first byte. Whoever goes on from here answers for staying inside.
    #[inline(always)]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    #[inline(always)]
    fn at(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.length), "outside the mapping");
        self.base.as_ptr().wrapping_add(offset)
    }

    /// The half word at a byte offset that is a multiple of 2.
    #[inline(always)]
    pub(crate) fn u16_at(&self, offset: usize) -> &AtomicU16 {
        assert!(offset.is_multiple_of(2));
        // SAFETY: as in `u32_at`.
        unsafe { AtomicU16::from_ptr(self.at(offset, 2).cast()) }
    }

    /// The word at a byte offset that is a multiple of 4.
    #[inline(always)]
    pub(crate) fn u32_at(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4));
        // SAFETY: inside the mapping and aligned, as checked; mappings begin on a page; only atomic accesses here.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4).cast()) }
    }

    /// The word at a byte offset that is a multiple of 8.
    #[inline(always)]
    pub(crate) fn u64_at(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8));
        // SAFETY: as in `u32_at`.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8).cast()) }
    }

    /// Copies `bytes` bytes from `offset` to the end of `to`. The caller knows that the kernel writes none of them now.
    pub(crate) fn append_to(&self, to: &mut Vec<u8>, offset: usize, bytes: usize) {
        let from = self.at(offset, bytes);
        to.reserve(bytes);
        let end = to.len();
        // SAFETY: `from` is readable for `bytes` bytes, as checked; `to` has room for them; the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, to.spare_capacity_mut().as_mut_ptr().cast(), bytes) };
        // SAFETY: these bytes were reserved and have just been written.
        unsafe { to.set_len(end + bytes) };
    }

    /// Copies the bytes from `offset` into all of `to`. The caller knows that the kernel writes none of them now.
    #[inline(always)]
    pub(crate) fn copy_to(&self, offset: usize, to: &mut [u8]) {
        let from = self.at(offset, to.len());
        // SAFETY: `from` is readable for that many bytes, as checked; the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
    }

    /// Writes `bytes` at `offset`. The caller knows that the kernel does not use them now, or does not mind.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.at(offset, bytes.len());
        // SAFETY: `to` is writable for that many bytes, as checked; the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Sets `bytes` bytes from `offset` to 0, as [`Mapping::write`].
    pub(crate) fn clear(&self, offset: usize, bytes: usize) {
        let to = self.at(offset, bytes);
        // SAFETY: as in `write`.
        unsafe { std::ptr::write_bytes(to, 0, bytes) };
    }
}

#[cfg(not(miri))]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and length are those of mmap; no reference into the mapping outlives `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    fn memory() -> Mapping {
        Mapping::create_sealed("msgpath-mapping", 4096).unwrap().1
    }

    #[test]
    fn words_and_bytes_are_the_same_memory() {
        let mapping = memory();
        assert_eq!(mapping.len(), 4096);
        mapping.u64_at(8).store(0x1122_3344_5566_7788, Ordering::Relaxed);
        mapping.write(16, &[1, 0, 0, 0]);
        assert_eq!(mapping.u32_at(16).load(Ordering::Relaxed).to_ne_bytes(), [1, 0, 0, 0]);
        let mut bytes = vec![9];
        mapping.append_to(&mut bytes, 8, 8);
        assert_eq!(bytes[0], 9);
        assert_eq!(bytes[1..], 0x1122_3344_5566_7788_u64.to_ne_bytes());
        mapping.clear(8, 8);
        assert_eq!(mapping.u64_at(8).load(Ordering::Relaxed), 0);
    }

    #[test]
    #[should_panic(expected = "outside the mapping")]
    fn nothing_outside_is_touched() {
        memory().write(4095, &[0, 0]);
    }
}
