//! Files in folders that others may write to: none is opened by a link, and each is looked at by its descriptor.
//!
//! A name can be given another meaning between a look at it and its use, so what is decisive is read from the open file. Programs
//! that write results beside others follow three rules: [`open_regular`] to read what must be a file, [`Output::replacing`] for a name
//! that the program chose, [`Output::typed`] for a path that the user typed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::random;

/// A file without a name, in memory. It is gone when it is closed.
///
/// # Errors
/// There is no memory for it, or no memfd.
pub fn in_memory() -> io::Result<File> {
    Ok(fs::memfd_create("msgpath", fs::MemfdFlags::CLOEXEC)?.into())
}

/// Flags of every open here: no link in the last component, no wait for the other end of a FIFO, no new controlling terminal.
const CAREFUL: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
/// Permissions of a new file, before the umask: nobody else writes it.
const NEW: Mode = Mode::from_raw_mode(0o644);
/// Permissions of a file that only its owner reads.
const PRIVATE: Mode = Mode::from_raw_mode(0o600);

fn refused(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what.into())
}

fn kind_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "of an unknown type",
    }
}

fn not_regular(kind: FileType) -> io::Error {
    refused(format!("it is {}, not a regular file", kind_name(kind)))
}

/// Whether this user or root owns it.
fn is_trusted(stat: &Stat) -> bool {
    is_trusted_user(stat.st_uid)
}

/// Whether a user number is that of this process or of root.
pub fn is_trusted_user(uid: u32) -> bool {
    uid == rustix::process::geteuid().as_raw() || uid == 0
}

/// Opens a regular file with these flags. Anything else is refused at once: a FIFO would wait for its writer, a device does
/// something when it is opened, a link leads elsewhere.
fn open_existing(file: &Path, flags: OFlags) -> io::Result<File> {
    // First by name: a device is not opened even once. Then by descriptor, which is what counts.
    let kind = kind_of(&fs::lstat(file)?);
    if kind != FileType::RegularFile {
        return Err(not_regular(kind));
    }
    let opened = fs::open(file, flags | CAREFUL, Mode::empty())?;
    match kind_of(&fs::fstat(&opened)?) {
        FileType::RegularFile => Ok(opened.into()),
        kind => Err(not_regular(kind)),
    }
}

/// A regular file to read. A FIFO, a device, a socket, a folder and a symbolic link are refused, and none of them is waited for.
///
/// # Errors
/// `NotFound`, `PermissionDenied` and the like; `InvalidInput` names what stands there instead of a file.
pub fn open_regular(file: &Path) -> io::Result<File> {
    open_existing(file, OFlags::RDONLY)
}

/// A regular file that the user typed, by whatever links lead to it.
///
/// # Errors
/// As [`open_regular`].
pub fn open_regular_typed(file: &Path) -> io::Result<File> {
    // An opened FIFO without a writer is no wait, and is refused before anything is read of it.
    let opened = fs::open(file, OFlags::RDONLY | CAREFUL.difference(OFlags::NOFOLLOW), Mode::empty())?;
    match kind_of(&fs::fstat(&opened)?) {
        FileType::RegularFile => Ok(opened.into()),
        kind => Err(not_regular(kind)),
    }
}

/// All of a regular file of at most `limit` bytes.
///
/// # Errors
/// As [`open_regular`]; `FileTooLarge`.
pub fn read_regular(file: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(file)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {limit} bytes"))),
        false => Ok(bytes),
    }
}

/// A regular file to append to, of which no other name exists; made where it is missing and `create` is set.
///
/// # Errors
/// As [`open_regular`]; `InvalidInput` where the file has a second name.
pub fn append_regular(file: &Path, create: bool) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::APPEND;
    let opened = match open_existing(file, flags) {
        Err(error) if create && error.kind() == io::ErrorKind::NotFound => {
            return Ok(fs::open(file, flags | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC, NEW)?.into());
        }
        opened => opened?,
    };
    match fs::fstat(&opened)?.st_nlink {
        0 | 1 => Ok(opened),
        names => Err(refused(format!("the file has {names} names (hard links), and another may be somebody else's"))),
    }
}

/// Opens what stands in `folder` under a name of one component, which neither a link nor `..` leads out of it.
///
/// # Errors
/// `ELOOP` where it is a link; `InvalidInput` where the name has more than one component.
pub fn open_in(folder: BorrowedFd<'_>, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
    if matches!(name, "" | "." | "..") || name.contains('/') {
        return Err(refused(format!("{name:?} is not the name of a file in a folder")));
    }
    let flags = flags | CAREFUL;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match fs::openat2(folder, name, flags, Mode::empty(), resolve) {
        // A kernel before 5.6, or a filter that does not know the call. Of a single component O_NOFOLLOW says the same.
        Err(Errno::NOSYS | Errno::PERM) => Ok(fs::openat(folder, name, flags, Mode::empty())?),
        opened => Ok(opened?),
    }
}

/// Whether an open descriptor is a file of this type that this user or root owns.
///
/// # Errors
/// Says what it is instead, or whose.
pub fn check_owned(fd: BorrowedFd<'_>, wanted: FileType) -> io::Result<()> {
    let stat = fs::fstat(fd)?;
    match kind_of(&stat) {
        kind if kind != wanted => Err(refused(format!("it is {}, not {}", kind_name(kind), kind_name(wanted)))),
        _ if !is_trusted(&stat) => {
            let what = format!("it belongs to user {}, not to this user or root", stat.st_uid);
            Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
        }
        _ => Ok(()),
    }
}

/// A file that is being written. Until [`Output::finish`] what had its name before stays there whole; dropped before that, it leaves
/// nothing behind.
pub struct Output {
    file: File,
    beside: Option<Beside>,
}

/// A file under a name that nobody can guess, and the name that it will have.
struct Beside {
    folder: OwnedFd,
    draft: OsString,
    name: OsString,
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = fs::unlinkat(&self.folder, &self.draft, AtFlags::empty());
    }
}

impl Beside {
    fn put_in_place(self) -> io::Result<()> {
        // The draft has no name any more for Drop to remove.
        Ok(fs::renameat(&self.folder, &self.draft, &self.folder, &self.name)?)
    }
}

impl Output {
    /// A file under a name that the program chose. Whatever stands there is replaced, not opened: neither a link nor a FIFO of somebody
    /// else's in that folder decides where the bytes go.
    ///
    /// # Errors
    /// The folder cannot be written to, the name is that of a folder, or a file there must not be written to.
    pub fn replacing(path: &Path) -> io::Result<Self> {
        Self::replacing_with(path, None)
    }

    /// The same for a file that only its owner reads.
    ///
    /// # Errors
    /// As [`Output::replacing`].
    pub fn private(path: &Path) -> io::Result<Self> {
        Self::replacing_with(path, Some(PRIVATE))
    }

    fn replacing_with(path: &Path, mode: Option<Mode>) -> io::Result<Self> {
        let name = path.file_name().ok_or_else(|| refused("it has no file name"))?;
        let parent = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = fs::open(parent.unwrap_or(Path::new(".")), flags, Mode::empty())?;
        let before = match fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error.into()),
        };
        let before = before.map(|stat| replaceable(&folder, name, &stat)).transpose()?.flatten();
        let draft = OsString::from(format!(".msgpath-{:016x}.new", random::number()?));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(fs::openat(&folder, &draft, flags, mode.unwrap_or(NEW))?);
        let output = Self { file, beside: Some(Beside { folder, draft, name: name.to_owned() }) };
        if let Some(mode) = mode.or(before) {
            fs::fchmod(&output.file, mode)?;
        }
        Ok(output)
    }

    /// A file whose path the user typed. A device, a FIFO of this user or root, and a link in a folder where nobody else can put one
    /// (`/dev/stdout`) are written to as they are; everything else is replaced.
    ///
    /// # Errors
    /// As [`Output::replacing`], or as open(2).
    pub fn typed(path: &Path) -> io::Result<Self> {
        let stat = match fs::lstat(path) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Self::replacing(path),
            Err(error) => return Err(error.into()),
        };
        let plain = match kind_of(&stat) {
            FileType::CharacterDevice => OFlags::NOFOLLOW,
            FileType::Fifo if is_trusted(&stat) => OFlags::NOFOLLOW,
            FileType::Symlink if is_kept_from_others(path)? => OFlags::CREATE | OFlags::TRUNC,
            kind @ (FileType::BlockDevice | FileType::Socket) => return Err(not_regular(kind)),
            _ => return Self::replacing(path),
        };
        let file = fs::open(path, OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC | plain, NEW)?;
        Ok(Self { file: file.into(), beside: None })
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// As renameat(2).
    pub fn finish(self) -> io::Result<()> {
        self.beside.map_or(Ok(()), Beside::put_in_place)
    }

    /// The same once its bytes are on the disk.
    ///
    /// # Errors
    /// As fsync(2) and renameat(2).
    pub fn finish_on_disk(self) -> io::Result<()> {
        self.file.sync_all()?;
        self.finish()
    }

    /// Puts the file in its place now, to be written further: a log that others read while it grows.
    ///
    /// # Errors
    /// As renameat(2).
    pub fn in_place(self) -> io::Result<File> {
        let Self { file, beside } = self;
        beside.map_or(Ok(()), Beside::put_in_place)?;
        Ok(file)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Whether what stands there may be replaced, and the permissions that the new file takes over from a file of this user.
fn replaceable(folder: &OwnedFd, name: &OsStr, stat: &Stat) -> io::Result<Option<Mode>> {
    match kind_of(stat) {
        FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
        FileType::RegularFile => {
            // A rename asks for no permission of the file that goes: a file that its owner closed stays.
            fs::accessat(folder, name, fs::Access::WRITE_OK, AtFlags::empty())?;
            let own = stat.st_uid == rustix::process::geteuid().as_raw();
            Ok(own.then(|| Mode::from_raw_mode(stat.st_mode & 0o777)))
        }
        _ => Ok(None),
    }
}

/// Whether only this user and root can put something into the folder of `path`.
fn is_kept_from_others(path: &Path) -> io::Result<bool> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let stat = fs::statat(CWD, folder, AtFlags::empty())?;
    Ok(is_trusted(&stat) && stat.st_mode & 0o022 == 0)
}

/// Writes a whole file under a name that the program chose: [`Output::replacing`].
///
/// # Errors
/// As there, and as write(2).
pub fn replace(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut output = Output::replacing(path)?;
    output.write_all(bytes.as_ref())?;
    output.finish()
}

/// Writes a whole file whose path the user typed: [`Output::typed`].
///
/// # Errors
/// As there, and as write(2).
pub fn write_typed(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut output = Output::typed(path)?;
    output.write_all(bytes.as_ref())?;
    output.finish()
}

/// Makes a folder under a name that the program chose, where it is not there yet.
///
/// # Errors
/// As mkdir(2); `InvalidInput` where something else has that name: a link would lead elsewhere.
pub fn make_subfolder(path: &Path) -> io::Result<()> {
    match fs::mkdir(path, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
        Err(Errno::EXIST) => match kind_of(&fs::lstat(path)?) {
            FileType::Directory => Ok(()),
            kind => Err(refused(format!("it is {}, not a folder", kind_name(kind)))),
        },
        made => Ok(made?),
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::PathBuf;

    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let place = std::env::temp_dir().join(format!("msgpath-files-{name}-{}", std::process::id()));
            std::fs::create_dir(&place).unwrap();
            Self(place)
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        fn fifo(&self, name: &str) -> PathBuf {
            fs::mknodat(CWD, self.at(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            self.at(name)
        }

        fn names(&self) -> usize {
            std::fs::read_dir(&self.0).unwrap().count()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn only_a_regular_file_is_read_and_nothing_else_is_waited_for() {
        let place = Place::new("read");
        std::fs::write(place.at("file"), "text").unwrap();
        symlink(place.at("file"), place.at("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(place.at("socket")).unwrap();
        assert_eq!(read_regular(&place.at("file"), 4).unwrap(), b"text");
        assert_eq!(read_regular(&place.at("file"), 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_regular(&place.at("none"), 3).unwrap_err().kind(), io::ErrorKind::NotFound);
        let odd = [
            (place.fifo("waits"), "a FIFO"),
            (place.at("link"), "a symbolic link"),
            (place.at("socket"), "a socket"),
            (place.0.clone(), "a folder"),
            ("/dev/zero".into(), "a device"),
        ];
        for (path, kind) in odd {
            for error in [open_regular(&path).unwrap_err(), append_regular(&path, true).unwrap_err()] {
                assert_eq!(error.to_string(), format!("it is {kind}, not a regular file"));
            }
        }
        assert!(open_regular_typed(&place.at("link")).is_ok());
        assert!(open_regular_typed(&place.at("waits")).unwrap_err().to_string().contains("it is a FIFO"));
    }

    #[test]
    fn a_file_with_a_second_name_is_not_appended_to() {
        let place = Place::new("append");
        append_regular(&place.at("log"), true).unwrap().write_all(b"a").unwrap();
        append_regular(&place.at("log"), false).unwrap().write_all(b"b").unwrap();
        assert_eq!(std::fs::read(place.at("log")).unwrap(), b"ab");
        assert!(append_regular(&place.at("other"), false).is_err());
        std::fs::hard_link(place.at("log"), place.at("again")).unwrap();
        assert!(append_regular(&place.at("again"), true).unwrap_err().to_string().contains("2 names"));
    }

    #[test]
    fn what_the_program_names_replaces_a_link_a_fifo_and_a_hard_link_and_their_targets_stay() {
        let place = Place::new("replace");
        std::fs::write(place.at("victim"), "mine").unwrap();
        symlink(place.at("victim"), place.at("link")).unwrap();
        symlink(place.at("nowhere"), place.at("dangling")).unwrap();
        std::fs::hard_link(place.at("victim"), place.at("hard")).unwrap();
        for name in ["link", "dangling", "hard"].map(|name| place.at(name)).into_iter().chain([place.fifo("waits")]) {
            replace(&name, "page").unwrap();
            assert!(std::fs::symlink_metadata(&name).unwrap().is_file());
            assert_eq!(std::fs::read(&name).unwrap(), b"page");
        }
        assert_eq!(std::fs::read(place.at("victim")).unwrap(), b"mine");
        assert!(!place.at("nowhere").exists());
        symlink("/etc", place.at("etc")).unwrap();
        assert!(make_subfolder(&place.at("etc")).unwrap_err().to_string().contains("a symbolic link, not a folder"));
        assert!(make_subfolder(&place.0).is_ok());
        std::fs::remove_file(place.at("etc")).unwrap();
        assert_eq!(replace(&place.0, "page").unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(place.names(), 5, "no draft is left");
    }

    #[test]
    fn the_old_file_stays_until_the_new_one_is_whole_and_lends_its_permissions() {
        let place = Place::new("whole");
        std::fs::write(place.at("file"), "old").unwrap();
        std::fs::set_permissions(place.at("file"), std::fs::Permissions::from_mode(0o600)).unwrap();
        let mut output = Output::replacing(&place.at("file")).unwrap();
        output.write_all(b"half").unwrap();
        drop(output);
        assert_eq!((std::fs::read(place.at("file")).unwrap(), place.names()), (b"old".to_vec(), 1));
        replace(&place.at("file"), "new").unwrap();
        assert_eq!(std::fs::read(place.at("file")).unwrap(), b"new");
        assert_eq!(std::fs::metadata(place.at("file")).unwrap().mode() & 0o777, 0o600);
        let mut log = Output::replacing(&place.at("file")).unwrap().in_place().unwrap();
        log.write_all(b"grows").unwrap();
        assert_eq!((std::fs::read(place.at("file")).unwrap(), place.names()), (b"grows".to_vec(), 1));
    }

    #[test]
    fn what_the_user_types_may_be_a_device_or_a_link_of_their_own_but_not_one_that_others_could_put_there() {
        let place = Place::new("typed");
        write_typed(Path::new("/dev/null"), "text").unwrap();
        std::fs::write(place.at("target"), "old").unwrap();
        symlink(place.at("target"), place.at("link")).unwrap();
        std::fs::set_permissions(&place.0, std::fs::Permissions::from_mode(0o755)).unwrap();
        write_typed(&place.at("link"), "through").unwrap();
        assert_eq!(std::fs::read(place.at("target")).unwrap(), b"through");
        std::fs::set_permissions(&place.0, std::fs::Permissions::from_mode(0o777)).unwrap();
        write_typed(&place.at("link"), "instead").unwrap();
        assert_eq!(std::fs::read(place.at("target")).unwrap(), b"through");
        assert_eq!(std::fs::read(place.at("link")).unwrap(), b"instead");
    }

    #[test]
    fn a_name_does_not_lead_out_of_its_folder() {
        let place = Place::new("in");
        std::fs::write(place.at("file"), "").unwrap();
        symlink("/etc/passwd", place.at("link")).unwrap();
        let folder = fs::open(&place.0, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let fd = open_in(folder.as_fd(), "file", OFlags::RDONLY).unwrap();
        check_owned(fd.as_fd(), FileType::RegularFile).unwrap();
        let other = check_owned(fd.as_fd(), FileType::Fifo).unwrap_err();
        assert_eq!(other.to_string(), "it is a regular file, not a FIFO");
        let looped = open_in(folder.as_fd(), "link", OFlags::RDONLY).unwrap_err();
        assert_eq!(looped.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
        for outside in ["..", ".", "", "/etc/passwd", "../x", "a/b"] {
            assert!(open_in(folder.as_fd(), outside, OFlags::RDONLY).is_err(), "{outside:?}");
        }
    }
}
