//! What a process takes from itself for good: landlock(7), PR_SET_NO_NEW_PRIVS in prctl(2), capabilities(7). Of the calling
//! thread and of those that it starts afterwards.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// Executing a file, and whatever changes one or a folder, of linux/landlock.h. Reading stays.
const EXECUTE: u64 = 1;
const WRITE: u64 = 1 << 1;
/// Removing, and making whatever there is.
const CHANGE: u64 = 0b1_1111_1111 << 4;
const TRUNCATE: u64 = 1 << 14;
/// The first version that knows [`TRUNCATE`].
const KNOWS_TRUNCATE: i32 = 3;
const VERSION: libc::c_uint = 1;
const PATH_BENEATH: libc::c_int = 1;

/// `struct landlock_ruleset_attr`, as its first version has it.
#[repr(C)]
struct Ruleset {
    handled: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    parent: i32,
}

/// Gains nothing by executing a file any more.
///
/// # Errors
/// As prctl(2).
pub fn no_new_privileges() -> io::Result<()> {
    Ok(set_no_new_privs(true)?)
}

/// What may be changed beneath the folders alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// All files: nothing is made, removed or written elsewhere.
    Files,
    /// Names of files: nothing is made, removed or cut elsewhere, but what is there can be written to.
    Names,
}

/// The version of Landlock that this kernel has.
///
/// # Errors
/// It has none, or it is switched off.
pub fn landlock_version() -> io::Result<i32> {
    // SAFETY: without attributes and with this flag landlock_create_ruleset(2) answers its version and touches no memory.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<Ruleset>(), 0_usize, VERSION) };
    checked(version)
}

/// Executes no program any more, and changes files beneath these folders only. Descriptors that are open stay as they are.
/// The version of Landlock. Needs [`no_new_privileges`].
///
/// # Errors
/// A kernel without Landlock, or a folder that is not there; then nothing is taken.
pub fn change_only_beneath(folders: &[&Path], kept: Kept) -> io::Result<i32> {
    let version = landlock_version()?;
    let truncate = if version >= KNOWS_TRUNCATE { TRUNCATE } else { 0 };
    let change = CHANGE | truncate | if kept == Kept::Files { WRITE } else { 0 };
    let ruleset = Ruleset { handled: EXECUTE | change };
    // SAFETY: the attributes are of the size that is given, and live during the call.
    let fd = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const ruleset, size_of::<Ruleset>(), 0) };
    // SAFETY: the kernel has just made this descriptor for us.
    let rules = unsafe { OwnedFd::from_raw_fd(checked(fd)?) };
    for folder in folders {
        let parent = rustix::fs::open(
            *folder,
            rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )?;
        let beneath = Beneath { allowed: change, parent: parent.as_raw_fd() };
        // SAFETY: the attributes are what this kind of rule takes, and live during the call.
        let added = unsafe {
            libc::syscall(libc::SYS_landlock_add_rule, rules.as_raw_fd(), PATH_BENEATH, &raw const beneath, 0)
        };
        checked(added)?;
    }
    // SAFETY: landlock_restrict_self(2) takes two numbers.
    checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_fd().as_raw_fd(), 0) })?;
    Ok(version)
}

fn checked(result: libc::c_long) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// Capabilities that no measurement uses: of modules, devices, the clock, owners of files, users and groups.
const UNUSED: CapabilitySet = CapabilitySet::AUDIT_CONTROL
    .union(CapabilitySet::AUDIT_WRITE)
    .union(CapabilitySet::BLOCK_SUSPEND)
    .union(CapabilitySet::CHECKPOINT_RESTORE)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::LEASE)
    .union(CapabilitySet::LINUX_IMMUTABLE)
    .union(CapabilitySet::MAC_ADMIN)
    .union(CapabilitySet::MAC_OVERRIDE)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SYS_BOOT)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::SYS_MODULE)
    .union(CapabilitySet::SYS_PACCT)
    .union(CapabilitySet::SYS_RAWIO)
    .union(CapabilitySet::SYS_TIME)
    .union(CapabilitySet::SYS_TTY_CONFIG)
    .union(CapabilitySet::WAKE_ALARM);

/// The capabilities that [`drop_unused_capabilities`] drops: bit in the masks of /proc/PID/status, and name as in capabilities(7), by name.
pub fn unused_capabilities() -> impl Iterator<Item = (u64, String)> {
    let mut all: Vec<_> = UNUSED.iter_names().map(|(name, flag)| (flag.bits(), format!("CAP_{name}"))).collect();
    all.sort_by(|(_, one), (_, other)| one.cmp(other));
    all.into_iter()
}

/// What [`drop_unused_capabilities`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Unused capabilities that the thread had (permitted or inheritable).
    pub held: u32,
    /// None of the unused capabilities is left in the bounding set. False without CAP_SETPCAP, which may reduce that set.
    pub bounded: bool,
}

/// Drops the capabilities that no measurement uses from the effective, permitted, inheritable, ambient and bounding set of the calling
/// thread, and of the threads that it starts afterwards.
///
/// # Errors
/// As capset(2) and prctl(2).
pub fn drop_unused_capabilities() -> io::Result<Dropped> {
    let before = capabilities(None)?;
    // An unknown capability is an older kernel's: it is in no set. First, because CAP_SETPCAP is one of those that go.
    let in_bounding_set = |capability: &CapabilitySet| capability_is_in_bounding_set(*capability).unwrap_or(false);
    if before.effective.contains(CapabilitySet::SETPCAP) {
        UNUSED.iter().filter(in_bounding_set).try_for_each(remove_capability_from_bounding_set)?;
    }
    clear_ambient_capability_set()?;
    let keep = |set: CapabilitySet| set.difference(UNUSED);
    set_capabilities(
        None,
        CapabilitySets {
            effective: keep(before.effective),
            permitted: keep(before.permitted),
            inheritable: keep(before.inheritable),
        },
    )?;
    let held = before.permitted.union(before.inheritable).intersection(UNUSED).bits().count_ones();
    Ok(Dropped { held, bounded: !UNUSED.iter().any(|capability| in_bounding_set(&capability)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// In a thread of its own: what it takes from itself ends with it.
    #[test]
    fn what_is_not_beneath_a_folder_stays_as_it_is() {
        let folder = std::env::temp_dir().join(format!("msgpath-confined-{}", std::process::id()));
        let [inside, outside] = ["in", "out"].map(|name| folder.join(name));
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        let (own, other) = (inside.clone(), outside.clone());
        let confined = std::thread::spawn(move || {
            no_new_privileges().unwrap();
            if let Err(error) = change_only_beneath(&[&own], Kept::Files) {
                return eprintln!("skipped: no Landlock here: {error}");
            }
            std::fs::write(own.join("file"), "x").unwrap();
            std::fs::remove_file(own.join("file")).unwrap();
            let denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
            assert!(std::fs::write(other.join("file"), "x").is_err_and(denied));
            assert!(std::fs::remove_dir(&other).is_err_and(denied));
            assert!(Command::new("true").spawn().is_err_and(denied), "no program");
            assert!(std::fs::read("/proc/self/stat").is_ok_and(|text| !text.is_empty()), "reading stays");
        });
        confined.join().unwrap();
        assert!(Command::new("true").status().unwrap().success(), "this thread took nothing from itself");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn where_names_are_kept_what_is_there_can_be_written() {
        let folder = std::env::temp_dir().join(format!("msgpath-names-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("there"), "x").unwrap();
        let own = folder.clone();
        let confined = std::thread::spawn(move || {
            no_new_privileges().unwrap();
            if let Err(error) = change_only_beneath(&[], Kept::Names) {
                return eprintln!("skipped: no Landlock here: {error}");
            }
            assert!(std::fs::OpenOptions::new().write(true).open(own.join("there")).is_ok());
            assert!(std::fs::write(own.join("new"), "x").is_err());
            assert!(Command::new("true").spawn().is_err());
        });
        confined.join().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_page_says_how_many_are_dropped() {
        let page = include_str!("../../../docs/serve.md");
        assert!(
            page.contains(&format!("drop the {} capabilities that no measurement uses", unused_capabilities().count()))
        );
    }

    #[test]
    fn dropped_capabilities_are_in_no_set_of_the_thread() {
        std::thread::spawn(|| {
            no_new_privileges().unwrap();
            let may_bound = capabilities(None).unwrap().effective.contains(CapabilitySet::SETPCAP);
            let dropped = drop_unused_capabilities().unwrap();
            let unused = unused_capabilities().fold(0, |mask, (bit, _)| mask | bit);
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let set = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
                u64::from_str_radix(line.trim(), 16).unwrap()
            };
            for name in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
                assert_eq!(set(name) & unused, 0, "{name}");
            }
            assert_eq!(set("CapBnd:") & unused == 0, dropped.bounded);
            assert!(dropped.bounded || !may_bound, "CAP_SETPCAP reduces the bounding set");
            assert_eq!(drop_unused_capabilities().unwrap(), Dropped { held: 0, ..dropped });
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_folder_that_is_not_there_takes_nothing() {
        std::thread::spawn(|| {
            no_new_privileges().unwrap();
            assert!(change_only_beneath(&[Path::new("/nowhere/at/all")], Kept::Files).is_err());
            assert!(Command::new("true").status().unwrap().success());
        })
        .join()
        .unwrap();
    }
}
