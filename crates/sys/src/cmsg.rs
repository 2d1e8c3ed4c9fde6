//! Control messages: an iterator over the bytes the kernel wrote, without a pointer.
//!
//! Layout of each: `struct cmsghdr { size_t len; int level; int type; }`, then data, aligned to `size_t`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control<'a> {
    /// SOL_SOCKET, SOL_IP ...
    pub level: i32,
    /// SCM_RIGHTS, IP_RECVERR ...
    pub kind: i32,
    /// What follows the header.
    pub data: &'a [u8],
}

const HEADER: usize = size_of::<usize>() + 8;

/// The messages in `bytes`, up to the first that is cut off or whose length makes no sense.
pub fn iter(mut bytes: &[u8]) -> impl Iterator<Item = Control<'_>> {
    std::iter::from_fn(move || {
        let header = bytes.get(..HEADER)?;
        let (length, rest) = header.split_at(size_of::<usize>());
        let length = usize::from_ne_bytes(length.try_into().ok()?);
        let level = i32::from_ne_bytes(rest[..4].try_into().ok()?);
        let kind = i32::from_ne_bytes(rest[4..].try_into().ok()?);
        let data = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.checked_next_multiple_of(size_of::<usize>())?..).unwrap_or(&[]);
        Some(Control { level, kind, data })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(out: &mut Vec<u8>, level: i32, kind: i32, data: &[u8]) {
        out.extend((HEADER + data.len()).to_ne_bytes());
        out.extend(level.to_ne_bytes());
        out.extend(kind.to_ne_bytes());
        out.extend(data);
        out.resize(out.len().next_multiple_of(size_of::<usize>()), 0);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(messages in prop::collection::vec((any::<i32>(), any::<i32>(), prop::collection::vec(any::<u8>(), 0..40)), 0..5)) {
            let mut bytes = Vec::new();
            messages.iter().for_each(|(level, kind, data)| encode(&mut bytes, *level, *kind, data));
            let read: Vec<_> = iter(&bytes).map(|c| (c.level, c.kind, c.data.to_vec())).collect();
            prop_assert_eq!(read, messages);
        }

        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(iter(&bytes).count() <= 100);
        }
    }
}
