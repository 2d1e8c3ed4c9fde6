//! Texts that `build.rs` has packed.

/// One of them, as it was.
pub(crate) fn text(packed: &[u8]) -> String {
    let text = miniz_oxide::inflate::decompress_to_vec(packed).expect("what build.rs has packed");
    String::from_utf8(text).expect("what build.rs has packed")
}
