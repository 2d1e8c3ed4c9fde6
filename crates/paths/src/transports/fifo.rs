//! Two FIFOs in a folder of their own, removed as soon as both ends have them open. The folders of all connections are in one that
//! the next `msgpath` removes where this process is killed before.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use msgpath_sys::files::{check_owned, open_in};
use msgpath_sys::temporary::{Temporary, is_name};
use rustix::fs::{FileType, Mode, OFlags, mkdirat, mknodat, open};

use crate::channel::{AnyChannel, Pipe};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

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

/// A folder in `above`, one of this user or root.
fn folder_in(above: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let folder = open_in(above, name, OFlags::RDONLY | OFlags::DIRECTORY)?;
    check_owned(folder.as_fd(), FileType::Directory)?;
    Ok(folder)
}

/// The folder of a connection by its address, `FOLDER/NUMBER` in the folder for temporary files: a name that msgpath makes there, and a
/// number in it.
fn offered(address: &str) -> io::Result<OwnedFd> {
    let parts = address.split_once('/').filter(|(home, number)| is_name(home) && number.parse::<u16>().is_ok());
    let Some((home, number)) = parts else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the other end names a folder that msgpath does not make",
        ));
    };
    let home = folder_in(temporary()?.as_fd(), home).map_err(|error| {
        let place = std::env::temp_dir();
        let what = format!("{error}: {address} in {} (TMPDIR must be the same at both ends)", place.display());
        io::Error::new(error.kind(), what)
    })?;
    folder_in(home.as_fd(), number)
}

struct Files {
    folder: OwnedFd,
    read: Option<OwnedFd>,
}

impl Files {
    fn new(home: BorrowedFd<'_>, name: &str) -> io::Result<Self> {
        mkdirat(home, name, Mode::RWXU)?;
        let mut files = Self { folder: folder_in(home, name)?, read: None };
        for name in [UP, DOWN] {
            mknodat(&files.folder, name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        }
        files.read = Some(open_fifo(files.folder.as_fd(), UP, OFlags::RDONLY)?);
        Ok(files)
    }
}

struct Made {
    files: Vec<Files>,
    need: Need,
    home: Temporary,
}

impl Offer for Made {
    fn addresses(&self) -> Vec<String> {
        let home = self.home.path().file_name().unwrap_or_default().display();
        (0..self.files.len()).map(|number| format!("{home}/{number}")).collect()
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
        let home = Temporary::new()?;
        let folder = open(home.path(), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let files = (0..need.connections).map(|number| Files::new(folder.as_fd(), &number.to_string()));
        Ok(Box::new(Made { files: files.collect::<io::Result<_>>()?, need: need.clone(), home }))
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        let folder = offered(address)?;
        let read = open_fifo(folder.as_fd(), DOWN, OFlags::RDONLY)?;
        let write = open_fifo(folder.as_fd(), UP, OFlags::WRONLY)?;
        Ok((AnyChannel::Pipe(Pipe::new(read, write, need.limits.clone())), String::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, chown, symlinkat, unlink};
    use std::path::Path;

    /// How an offer is refused whose folder was changed so.
    fn refused(change: impl FnOnce(&Path)) -> io::Error {
        let home = Temporary::new().unwrap();
        let folder = open(home.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let _files = Files::new(folder.as_fd(), "0").unwrap();
        change(&home.path().join("0"));
        let address = format!("{}/0", home.path().file_name().unwrap().display());
        Fifo.connect(&address, &Need::local(64)).err().expect("it was opened")
    }

    #[test]
    fn what_is_no_fifo_of_this_user_is_not_opened() {
        let link = refused(|folder| {
            unlink(folder.join(UP)).unwrap();
            symlinkat("/dev/null", CWD, folder.join(UP)).unwrap();
        });
        assert_eq!(link.raw_os_error(), Some(rustix::io::Errno::LOOP.raw_os_error()));
        let file = refused(|folder| {
            unlink(folder.join(UP)).unwrap();
            std::fs::write(folder.join(UP), "").unwrap();
        });
        assert!(file.to_string().contains("it is a regular file, not a FIFO"), "{file}");
        for elsewhere in ["/etc", "../0", "msgpath-tmp-0/0", "/tmp/msgpath-tmp-00000000000000000000000000000000/0"] {
            let error = Fifo.connect(elsewhere, &Need::local(64)).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{elsewhere}");
        }
        let nowhere = Fifo.connect(&format!("msgpath-tmp-{:032x}/0", 0), &Need::local(64)).err().unwrap();
        assert!(nowhere.kind() == io::ErrorKind::NotFound && nowhere.to_string().contains("TMPDIR"), "{nowhere}");
    }

    #[test]
    fn a_folder_of_another_user_is_not_entered() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: only root can make a folder for another user");
        }
        let other = refused(|folder| {
            let user = (rustix::fs::Uid::from_raw(65_534), rustix::fs::Gid::from_raw(65_534));
            chown(folder, Some(user.0), Some(user.1)).unwrap();
        });
        assert_eq!(other.to_string(), "it belongs to user 65534, not to this user or root");
    }
}
