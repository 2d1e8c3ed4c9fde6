//! Two FIFOs in a folder of their own, removed as soon as both ends have them open.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use msgpath_sys::files::{check_owned, open_in};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, mkdirat, mknodat, open, unlinkat};

use super::{check_name, unique_name};
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

/// Opens one end of a FIFO of this user or root, without waiting for the other end: to write fails where nobody reads. Anything
/// else under that name is refused before a byte goes there.
fn open_fifo(folder: BorrowedFd<'_>, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let fd = open_in(folder, name, flags)?;
    check_owned(fd.as_fd(), FileType::Fifo)
        .map_err(|error| io::Error::new(error.kind(), format!("{name:?} of the other end: {error}")))?;
    msgpath_sys::set_nonblocking(fd.as_fd(), false)?;
    Ok(fd)
}

/// The folder for temporary files: both ends must have the same.
fn temporary() -> io::Result<OwnedFd> {
    Ok(open(std::env::temp_dir(), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// The folder of an offer, which `temporary` holds: one of this user or root.
fn offered(temporary: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let folder = open_in(temporary, check_name(name)?, OFlags::RDONLY | OFlags::DIRECTORY).map_err(|error| {
        let place = std::env::temp_dir();
        let what = format!("{error}: {name} in {} (TMPDIR must be the same at both ends)", place.display());
        io::Error::new(error.kind(), what)
    })?;
    check_owned(folder.as_fd(), FileType::Directory)?;
    Ok(folder)
}

struct Files {
    temporary: OwnedFd,
    name: String,
    folder: OwnedFd,
    read: Option<OwnedFd>,
}

impl Files {
    fn new() -> io::Result<Self> {
        let (temporary, name) = (temporary()?, unique_name()?);
        mkdirat(&temporary, &name, Mode::RWXU)?;
        let folder = offered(temporary.as_fd(), &name).inspect_err(|_| {
            let _ = unlinkat(&temporary, &name, AtFlags::REMOVEDIR);
        })?;
        let mut files = Self { temporary, name, folder, read: None };
        for name in [UP, DOWN] {
            mknodat(&files.folder, name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        }
        files.read = Some(open_fifo(files.folder.as_fd(), UP, OFlags::RDONLY)?);
        Ok(files)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for name in [UP, DOWN] {
            let _ = unlinkat(&self.folder, name, AtFlags::empty());
        }
        let _ = unlinkat(&self.temporary, &self.name, AtFlags::REMOVEDIR);
    }
}

struct Made {
    files: Vec<Files>,
    need: Need,
}

impl Offer for Made {
    fn addresses(&self) -> Vec<String> {
        self.files.iter().map(|files| files.name.clone()).collect()
    }

    fn accept(&mut self, _: &[String], _: Duration) -> io::Result<Vec<AnyChannel>> {
        std::mem::take(&mut self.files)
            .into_iter()
            .map(|mut files| {
                let read = files.read.take().expect("opened when made");
                let write = open_fifo(files.folder.as_fd(), DOWN, OFlags::WRONLY)?;
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
        let folder = offered(temporary()?.as_fd(), address)?;
        let read = open_fifo(folder.as_fd(), DOWN, OFlags::RDONLY)?;
        let write = open_fifo(folder.as_fd(), UP, OFlags::WRONLY)?;
        Ok((AnyChannel::Pipe(Pipe::new(read, write, need.limits.clone())), String::new()))
    }
}
