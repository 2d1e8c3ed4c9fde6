//! Memory that may run out: the allocator that says so, and what is left of the address space.

use std::alloc::{GlobalAlloc, Layout, System};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};

/// The exit code of the program where memory has run out: that of a run which did not finish.
const EXIT: libc::c_int = 4;

/// The system's allocator. Where it has nothing, the process ends with an error that says what to do; the standard
/// library would abort it.
#[derive(Debug)]
pub struct Allocator;

// SAFETY: every call goes to `System` as it is. What comes back is its memory; the process ends where that is null.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the contract is the caller's, and the same.
        given(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the contract is the caller's, and the same.
        given(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the contract is the caller's, and the same: `memory` came from `System`.
        given(unsafe { System.realloc(memory, layout, size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the contract is the caller's, and the same: `memory` came from `System`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[inline]
fn given(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        none_left();
    }
    memory
}

/// Nothing here allocates, runs destructors or takes a lock.
#[cold]
fn none_left() -> ! {
    const TEXT: &[u8] = b"error[E58]: there is no memory left\n  \
        try: smaller or fewer messages, or a higher limit (ulimit -v, memory.max of the control group)\n";
    // SAFETY: write(2) reads the bytes of a constant, as many as it has.
    unsafe { libc::write(libc::STDERR_FILENO, TEXT.as_ptr().cast(), TEXT.len()) };
    // SAFETY: _exit(2) takes a number and does not return.
    unsafe { libc::_exit(EXIT) }
}

/// Asks the kernel whether so much memory can be had, and gives it back.
pub fn can_be_had(bytes: usize) -> bool {
    let null = std::ptr::null_mut();
    // SAFETY: the kernel chooses the place of a new private mapping; nothing that is there is touched.
    let mapped = unsafe { mmap_anonymous(null, bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
    match mapped {
        // SAFETY: the mapping was made above, is as long, and nobody else knows of it.
        Ok(place) => unsafe { munmap(place, bytes) }.is_ok(),
        Err(_) => false,
    }
}

/// Bytes that the stack of the first thread may have (RLIMIT_STACK); `None`: there is no limit.
pub fn stack() -> Option<u64> {
    getrlimit(Resource::Stack).current
}

/// Bytes of address space that this process may still map (RLIMIT_AS); `None`: there is no limit.
pub fn address_space() -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    let mapped = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = mapped.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap_or(0);
    Some(limit.saturating_sub(pages.saturating_mul(page_size() as u64)))
}

/// Lets all threads allocate from one heap. Each would reserve 64 MiB of address space for one of its own (mallopt(3)),
/// which is nothing without a limit and everything with one. To be called before there is another thread.
pub fn one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two numbers; no other thread allocates meanwhile.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1)
    };
}

/// Lets the allocator keep little of what was given back to it: a large block goes to the kernel at once, whatever was
/// allocated before (by itself glibc raises that limit to 32 MiB: mallopt(3)), and there are few heaps to keep any. To be called
/// before there is another thread.
pub fn keep_little() {
    #[cfg(target_env = "gnu")]
    for (option, value) in [(libc::M_ARENA_MAX, 2), (libc::M_MMAP_THRESHOLD, KEPT), (libc::M_TRIM_THRESHOLD, KEPT)] {
        // SAFETY: mallopt takes two numbers; no other thread allocates meanwhile.
        unsafe { libc::mallopt(option, value) };
    }
}

/// Bytes from which a block is not kept.
#[cfg(target_env = "gnu")]
const KEPT: libc::c_int = 128 << 10;

/// Gives the kernel the pages that the allocator keeps and nothing uses.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) takes a number; it may be called at any time, by any thread.
    unsafe {
        libc::malloc_trim(0)
    };
}

/// Bytes of this process that are in memory (VmRSS); `None`: the kernel does not say.
pub fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_refused() {
        assert!(can_be_had(1 << 20));
        assert!(!can_be_had(0) && !can_be_had(usize::MAX / 2));
    }

    #[test]
    fn what_is_used_is_resident() {
        let before = resident().unwrap();
        let used = vec![1_u8; 64 << 20];
        // Others allocate and free meanwhile, but not so much.
        assert!(resident().unwrap() > before.saturating_sub(32 << 20) + 32 * used.len() as u64 / 64);
        drop(used);
        give_back();
    }

    #[test]
    fn the_allocator_gives_what_the_system_has() {
        let (layout, larger) = (Layout::new::<[u8; 1000]>(), Layout::new::<[u8; 5000]>());
        // SAFETY: the layout is not empty.
        let memory = unsafe { Allocator.alloc_zeroed(layout) }.cast::<[u8; 1000]>();
        // SAFETY: a block of that layout, all of it written, of which nobody else knows.
        let bytes = unsafe { &mut *memory };
        assert_eq!(*bytes, [0; 1000]);
        bytes.fill(7);
        // SAFETY: the block came from this allocator with that layout; its old place is not used any more.
        let memory = unsafe { Allocator.realloc(memory.cast(), layout, larger.size()) };
        // SAFETY: the first 1000 bytes were moved with it.
        assert_eq!(unsafe { *memory.cast::<[u8; 1000]>() }, [7; 1000]);
        // SAFETY: the block is that of `realloc`, with the layout that it has since.
        unsafe { Allocator.dealloc(memory, larger) };
        // SAFETY: the layout is not empty.
        let memory = unsafe { Allocator.alloc(layout) };
        assert!(!memory.is_null());
        // SAFETY: the block came from this allocator with that layout.
        unsafe { Allocator.dealloc(memory, layout) };
    }
}
