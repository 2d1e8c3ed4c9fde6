//! A message in one or several separately allocated buffers, with the `iovec` array built once; on request in several
//! copies that are used in turn, so that no message lies in the cache because the one before it did.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::hint::black_box;
use std::io;
use std::os::fd::OwnedFd;

use crate::mapping::Mapping;

/// Bytes before the first buffer of a message that has a head.
const HEAD_ROOM: usize = 64;

/// One heap block, aligned to a cache line, page-aligned when it is a page or more.
struct Block {
    start: *mut u8,
    layout: Layout,
}

impl Block {
    fn new(size: usize) -> Self {
        let align = if size >= 4096 { 4096 } else { 64 };
        let layout = Layout::from_size_align(size.max(1), align).expect("sizes are at most 1 GiB");
        // SAFETY: the layout has a size of at least 1.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        Self { start, layout }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `start` came from alloc_zeroed with this layout and is freed once.
        unsafe { dealloc(self.start, self.layout) };
    }
}

/// Buffers of a message. The addresses never move, so the `iovec`s stay valid as long as the value lives.
pub struct Scatter {
    /// Own the memory of `vectors`; never read.
    _blocks: Vec<Block>,
    _file: Option<Mapping>,
    /// Bytes from one copy to the next in a file.
    stride: usize,
    /// Copy after copy, buffer after buffer.
    vectors: Vec<libc::iovec>,
    /// The same with the head before the first buffer of each copy; empty without a head.
    framed: Vec<libc::iovec>,
    count: usize,
    total: usize,
    /// Number of the copy in use, and the number of copies less 1 (a power of two less 1).
    copy: usize,
    mask: usize,
    /// Where the vectors of the copy in use begin.
    begin: usize,
}

// SAFETY: the blocks are owned heap memory, a mapping is this process's; nothing else holds their addresses except calls that borrow
// `self`.
unsafe impl Send for Scatter {}

impl Scatter {
    /// `count` buffers of `size` bytes, zeroed and touched.
    pub fn new(count: usize, size: usize) -> Self {
        Self::rotating(count, size, 1)
    }

    /// One copy of buffers of these sizes, zeroed and touched: a message whose parts are not equally long.
    pub fn uneven(sizes: &[usize]) -> Self {
        Self::behind(sizes, 1, &[])
    }

    /// `count` buffers of `size` bytes in at least so many copies, the number rounded up to a power of two.
    pub fn rotating(count: usize, size: usize, copies: usize) -> Self {
        Self::behind(&vec![size; count.max(1)], copies, &[])
    }

    /// Buffers of these sizes in at least so many copies, with `head` (at most 64 bytes) in the memory just before the first
    /// buffer of every copy: what a frame begins with, in one run of bytes with the message.
    pub fn behind(sizes: &[usize], copies: usize, head: &[u8]) -> Self {
        assert!(head.len() <= HEAD_ROOM, "a head of at most {HEAD_ROOM} bytes");
        assert!(!sizes.is_empty(), "a message has at least one buffer");
        let count = sizes.len();
        let copies = copies.max(1).next_power_of_two();
        // The message keeps its alignment: the head stands at the end of a cache line before it.
        let room = if head.is_empty() { 0 } else { HEAD_ROOM };
        let room_of = |at: usize| if at.is_multiple_of(count) { room } else { 0 };
        let blocks: Vec<Block> = (0..count * copies).map(|at| Block::new(sizes[at % count] + room_of(at))).collect();
        let vector = |(at, block): (usize, &Block)| libc::iovec {
            iov_base: block.start.wrapping_add(room_of(at)).cast(),
            iov_len: sizes[at % count],
        };
        let vectors: Vec<libc::iovec> = blocks.iter().enumerate().map(vector).collect();
        let mut framed = if head.is_empty() { Vec::new() } else { vectors.clone() };
        for first in framed.iter_mut().step_by(count) {
            let start = first.iov_base.cast::<u8>().wrapping_sub(head.len());
            *first = libc::iovec { iov_base: start.cast(), iov_len: head.len() + sizes[0] };
            // SAFETY: the block of this buffer has HEAD_ROOM bytes before it, of which these are the last; no reference
            // into it exists.
            unsafe { std::ptr::copy_nonoverlapping(head.as_ptr(), start, head.len()) };
        }
        let total = sizes.iter().sum();
        let mask = copies - 1;
        Self { _blocks: blocks, _file: None, stride: 0, vectors, framed, count, total, copy: 0, mask, begin: 0 }
            .touched()
    }

    /// One buffer of `size` bytes in at least so many copies, all in one memfd, which is returned as well: what sendfile(2) takes them
    /// from, each at its [`Scatter::offset`].
    ///
    /// # Errors
    /// No memfd, or not enough memory.
    pub fn in_file(size: usize, copies: usize) -> io::Result<(OwnedFd, Self)> {
        let copies = copies.max(1).next_power_of_two();
        let stride = size.max(1).next_multiple_of(if size >= 4096 { 4096 } else { 64 });
        let length = stride.checked_mul(copies).ok_or(io::ErrorKind::InvalidInput)?.next_multiple_of(4096);
        let (fd, mapping) = Mapping::create_sealed("msgpath-messages", length)?;
        let base = mapping.base();
        let vector = |at: usize| libc::iovec { iov_base: base.wrapping_add(at * stride).cast(), iov_len: size };
        let vectors = (0..copies).map(vector).collect();
        let framed = Vec::new();
        let mask = copies - 1;
        let _blocks = Vec::new();
        let _file = Some(mapping);
        let scatter = Self { _blocks, _file, stride, vectors, framed, count: 1, total: size, copy: 0, mask, begin: 0 };
        Ok((fd, scatter.touched()))
    }

    /// Every page is there.
    fn touched(mut self) -> Self {
        for _ in 0..self.copies() {
            for piece in 0..self.count {
                self.piece_mut(piece).fill(1); // pre-fault: zeroed pages are not there yet
                self.piece_mut(piece).fill(0);
            }
            self.turn();
        }
        self
    }

    /// Writes the array of iovecs of the copy in use once more, as a program does that builds it for every message.
    pub fn rebuild(&mut self) {
        for vector in &mut self.vectors[self.begin..self.begin + self.count] {
            let (base, length) = (black_box(vector.iov_base), black_box(vector.iov_len));
            *vector = libc::iovec { iov_base: base, iov_len: length };
        }
    }

    /// Goes on to the next copy and returns it.
    #[inline(always)]
    pub fn turn(&mut self) -> &mut Self {
        self.copy = (self.copy + 1) & self.mask;
        self.begin = self.copy * self.count;
        self
    }

    /// Where the copy in use begins in its file.
    #[inline(always)]
    pub fn offset(&self) -> u64 {
        (self.copy * self.stride) as u64
    }

    /// Number of copies.
    pub fn copies(&self) -> usize {
        self.mask + 1
    }

    /// Number of buffers.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes in all buffers.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.total
    }

    /// A buffer.
    #[inline]
    pub fn piece(&self, at: usize) -> &[u8] {
        let vector = &self.vectors[self.begin + at];
        // SAFETY: base and length describe the block of the same index, or a part of the mapping, which `self` owns; of a file other
        // processes have no descriptor.
        unsafe { std::slice::from_raw_parts(vector.iov_base.cast(), vector.iov_len) }
    }

    /// A buffer, to write to.
    #[inline]
    pub fn piece_mut(&mut self, at: usize) -> &mut [u8] {
        let vector = &self.vectors[self.begin + at];
        // SAFETY: as in `piece`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(vector.iov_base.cast(), vector.iov_len) }
    }

    /// The array for `writev` and `sendmsg`.
    #[inline(always)]
    pub(crate) fn vectors(&self) -> &[libc::iovec] {
        &self.vectors[self.begin..][..self.count]
    }

    /// The first buffer with the head before it.
    ///
    /// # Panics
    /// Without a head.
    #[inline(always)]
    pub(crate) fn framed_piece(&self) -> &[u8] {
        let vector = &self.framed[self.begin];
        // SAFETY: base and length describe a part of the block of the same index, which `self` owns.
        unsafe { std::slice::from_raw_parts(vector.iov_base.cast(), vector.iov_len) }
    }

    /// The array with the head before the first buffer.
    #[inline(always)]
    pub(crate) fn framed_vectors(&self) -> &[libc::iovec] {
        &self.framed[self.begin..][..self.count]
    }

    /// The array without its first `skip` bytes, for the rest of a short write.
    pub(crate) fn vectors_after(&self, mut skip: usize) -> Vec<libc::iovec> {
        let mut rest = Vec::with_capacity(self.count);
        for vector in self.vectors() {
            if skip >= vector.iov_len {
                skip -= vector.iov_len;
                continue;
            }
            rest.push(libc::iovec {
                iov_base: vector.iov_base.cast::<u8>().wrapping_add(skip).cast(),
                iov_len: vector.iov_len - skip,
            });
            skip = 0;
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_used_in_turn() {
        let mut scatter = Scatter::rotating(2, 8, 3);
        assert_eq!(scatter.copies(), 4);
        for copy in 0..4 {
            scatter.piece_mut(1).fill(copy);
            scatter.turn();
        }
        for copy in 0..4 {
            assert_eq!((scatter.piece(1)[7], scatter.piece(0)[0]), (copy, 0));
            assert_eq!(scatter.vectors_after(8).len(), 1);
            scatter.turn();
        }
    }

    #[test]
    fn copies_in_a_file_stand_at_their_offsets() {
        for (size, stride) in [(1, 64), (64, 64), (100, 128), (4097, 8192)] {
            let (_file, mut scatter) = Scatter::in_file(size, 3).unwrap();
            assert_eq!((scatter.copies(), scatter.len(), scatter.count()), (4, size, 1));
            let first = scatter.piece(0).as_ptr().addr();
            for copy in 0..4_usize {
                assert_eq!(scatter.offset(), (copy * stride) as u64);
                assert_eq!(scatter.piece(0).as_ptr().addr(), first + copy * stride);
                scatter.turn().piece_mut(0).fill(1);
            }
            assert_eq!(scatter.offset(), 0);
        }
    }

    #[test]
    fn buffers_may_be_of_different_sizes() {
        let mut scatter = Scatter::uneven(&[0, 3, 5]);
        scatter.piece_mut(2).fill(7);
        assert_eq!((scatter.len(), scatter.count(), scatter.piece(0), scatter.piece(1)), (8, 3, &[][..], &[0; 3][..]));
        assert_eq!(scatter.vectors_after(4).iter().map(|vector| vector.iov_len).collect::<Vec<_>>(), [4]);
        scatter.turn();
        assert_eq!(scatter.piece(2), [7; 5]);
    }

    #[test]
    fn a_head_stands_before_the_first_buffer() {
        let mut scatter = Scatter::behind(&[8, 8], 2, &[9, 8, 7]);
        for _ in 0..2 {
            scatter.turn();
            scatter.piece_mut(0).fill(1);
            assert_eq!(scatter.framed_piece(), [9, 8, 7, 1, 1, 1, 1, 1, 1, 1, 1]);
            assert_eq!(scatter.framed_vectors().iter().map(|vector| vector.iov_len).collect::<Vec<_>>(), [11, 8]);
            assert_eq!(scatter.piece(0).as_ptr().addr() % 64, 0);
        }
    }

    #[test]
    fn pieces_are_apart_and_the_rest_is_cut_right() {
        let mut scatter = Scatter::new(3, 10);
        scatter.piece_mut(1).fill(7);
        assert_eq!((scatter.len(), scatter.piece(0)[9], scatter.piece(1)[0], scatter.piece(2)[0]), (30, 0, 7, 0));
        let rest = scatter.vectors_after(15);
        assert_eq!(rest.iter().map(|vector| vector.iov_len).collect::<Vec<_>>(), [5, 10]);
        assert!(scatter.vectors_after(30).is_empty());
    }
}
