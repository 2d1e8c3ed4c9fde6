//! Shared memory under Miri, which has no memfds and no mmap of them: plain memory of this process, found again by the number
//! of the descriptor that stands for it.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, Weak};

static MADE: Mutex<BTreeMap<RawFd, Weak<Memory>>> = Mutex::new(BTreeMap::new());

/// As much memory as a mapping has, on a page.
pub(super) struct Memory {
    pub(super) base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory belongs to no thread.
unsafe impl Send for Memory {}
// SAFETY: only its address is read here.
unsafe impl Sync for Memory {}

impl Memory {
    pub(super) fn new(length: usize) -> io::Result<Arc<Self>> {
        let layout = Layout::from_size_align(length, 4096).map_err(io::Error::other)?;
        // SAFETY: the layout has a size: no mapping is empty.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Arc::new(Self { base, layout }))
    }

    pub(super) fn length(&self) -> usize {
        self.layout.size()
    }

    /// Memory and a descriptor that stands for it.
    pub(super) fn create(length: usize) -> io::Result<(OwnedFd, Arc<Self>)> {
        let fd = OwnedFd::from(File::open("/dev/null")?);
        let memory = Self::new(length)?;
        MADE.lock().expect("no panic").insert(fd.as_raw_fd(), Arc::downgrade(&memory));
        Ok((fd, memory))
    }

    /// The memory that a descriptor stands for.
    pub(super) fn find(fd: &OwnedFd) -> Option<Arc<Self>> {
        MADE.lock().expect("no panic").get(&fd.as_raw_fd())?.upgrade()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and whoever used it has let go.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}
