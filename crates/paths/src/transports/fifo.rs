//! Two FIFOs in a folder of their own, removed as soon as both ends have them open.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};

use super::unique_name;
use crate::channel::{AnyChannel, Pipe};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

/// `fifo`.
pub struct Fifo;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "fifo",
        summary: "two named pipes in the file system, one for each direction",
        manual: "In the kernel the same as pipe; only the opening differs. The files stand in a temporary folder that \
                 only this user can enter and are gone as soon as both ends have opened them.",
    },
    family: Family::Pipe,
    framed: false,
    lossy: false,
    inet: false,
    device: false,
    connects: false,
    segments: false,
    stack: Stack::Plain,
    headers: &[],
    copies: Copies::Kernel,
    default_method: "write",
    default_wait: "block",
};

const UP: &str = "up";
const DOWN: &str = "down";

/// Opens to read without waiting for a writer, then makes the descriptor block.
fn open_read(path: &Path) -> io::Result<OwnedFd> {
    let fd = open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    msgpath_sys::set_nonblocking(fd.as_fd(), false)?;
    Ok(fd)
}

/// Opens to write; fails at once where nobody reads.
fn open_write(path: &Path) -> io::Result<OwnedFd> {
    let fd = open(path, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    msgpath_sys::set_nonblocking(fd.as_fd(), false)?;
    Ok(fd)
}

struct Files {
    folder: PathBuf,
    read: Option<OwnedFd>,
}

impl Files {
    fn new() -> io::Result<Self> {
        let folder = std::env::temp_dir().join(unique_name()?);
        DirBuilder::new().mode(0o700).create(&folder)?;
        let mut files = Self { folder, read: None };
        for name in [UP, DOWN] {
            mknodat(CWD, files.folder.join(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        }
        files.read = Some(open_read(&files.folder.join(UP))?);
        Ok(files)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for name in [UP, DOWN] {
            let _ = fs::remove_file(self.folder.join(name));
        }
        let _ = fs::remove_dir(&self.folder);
    }
}

struct Made {
    files: Vec<Files>,
    need: Need,
}

impl Offer for Made {
    fn addresses(&self) -> Vec<String> {
        self.files.iter().map(|files| files.folder.display().to_string()).collect()
    }

    fn accept(&mut self, _: &[String], _: Duration) -> io::Result<Vec<AnyChannel>> {
        std::mem::take(&mut self.files)
            .into_iter()
            .map(|mut files| {
                let read = files.read.take().expect("opened when made");
                let write = open_write(&files.folder.join(DOWN))?;
                Ok(AnyChannel::Pipe(Pipe::new(read, write, self.need.limits.clone())))
            })
            .collect()
    }
}

impl Transport for Fifo {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        let files = (0..need.connections).map(|_| Files::new()).collect::<io::Result<_>>()?;
        Ok(Box::new(Made { files, need: need.clone() }))
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        let folder = Path::new(address);
        let read = open_read(&folder.join(DOWN))?;
        let write = open_write(&folder.join(UP))?;
        Ok((AnyChannel::Pipe(Pipe::new(read, write, need.limits.clone())), String::new()))
    }
}
