//! The little of protobuf that a trace needs: <https://protobuf.dev/programming-guides/encoding/>.

use msgpath_core::foreign::shown;
use msgpath_core::varint;

/// A message being written, field after field.
#[derive(Clone, Debug, Default)]
pub struct Message(Vec<u8>);

/// Wire types.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;

impl Message {
    fn tag(&mut self, field: u64, kind: u64) {
        varint::put(&mut self.0, field << 3 | kind);
    }

    /// `uint64`, `uint32`, `bool`, an enum, or a positive `int64`.
    pub fn uint(mut self, field: u64, value: u64) -> Self {
        self.tag(field, VARINT);
        varint::put(&mut self.0, value);
        self
    }

    pub fn fixed64(mut self, field: u64, value: u64) -> Self {
        self.tag(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.tag(field, LENGTH);
        varint::put(&mut self.0, value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// `string`, harmless where the names are those of others.
    pub fn text(self, field: u64, value: &str) -> Self {
        self.bytes(field, shown(value).as_bytes())
    }

    /// A message within the message.
    pub fn message(self, field: u64, value: &Message) -> Self {
        self.bytes(field, &value.0)
    }

    /// The bytes of the whole.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_documentation() {
        // The examples of the encoding guide: 150 in field 1, "testing" in field 2, the first again in field 3.
        let number = Message::default().uint(1, 150);
        assert_eq!(number.0, [0x08, 0x96, 0x01]);
        assert_eq!(Message::default().text(2, "testing").finish(), b"\x12\x07testing");
        assert_eq!(Message::default().message(3, &number).finish(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(Message::default().fixed64(1, 2).finish(), [0x09, 2, 0, 0, 0, 0, 0, 0, 0]);
    }
}
