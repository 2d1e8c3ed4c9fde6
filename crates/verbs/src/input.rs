//! Files that the user names: their kind and size are looked at before anything of them is kept.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use msgpath_core::units;

/// All of a regular file or a pipe, where it is at most `limit` bytes; otherwise why not. Reads no further than that.
pub fn read(file: &Path, limit: u64) -> Result<Vec<u8>, String> {
    let too_long = || format!("it has more than {}", units::size(limit));
    let input = File::open(file).map_err(|error| error.to_string())?;
    let facts = input.metadata().map_err(|error| error.to_string())?;
    if !facts.is_file() && !facts.file_type().is_fifo() {
        return Err(format!("it is neither a file nor a pipe; a file of at most {} is read", units::size(limit)));
    }
    if facts.is_file() && facts.len() > limit {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    // What a file says of its length may be wrong, as in /proc.
    input.take(limit + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > limit { Err(too_long()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_and_long_files_are_refused_and_the_limit_is_named() {
        for odd in ["/dev/zero", "/"] {
            let why = read(Path::new(odd), 1 << 20).unwrap_err();
            assert!(why.contains("neither a file nor a pipe") && why.contains("1 MiB"), "{why}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [b'x'; 1025]).unwrap();
        assert!(read(file.path(), 1024).unwrap_err().contains("more than 1 KiB"));
        assert_eq!(read(file.path(), 1025).unwrap().len(), 1025);
        assert!(read(Path::new("/proc/self/maps"), 16).unwrap_err().contains("more than 16 B"));
    }
}
