//! Network namespaces: what network(2) the calling thread sees. setns(2), unshare(2), user_namespaces(7).

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// Moves the calling thread into the network namespace of `file` (`/run/netns/NAME`, `/proc/PID/ns/net`). Threads that it
/// starts afterwards are there as well; threads that exist already are not.
///
/// # Errors
/// No such file, not a network namespace, or no CAP_SYS_ADMIN in its user namespace.
pub fn enter(file: &Path) -> io::Result<()> {
    let namespace = fs::File::open(file)?;
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Moves the calling thread into a new, empty network namespace. It ends with the last thread, process or file that holds
/// it.
///
/// # Errors
/// No CAP_SYS_ADMIN.
pub fn unshare() -> io::Result<()> {
    // SAFETY: only CLONE_NEWNET; no file descriptor table is unshared behind the back of code that owns descriptors.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Moves the calling process into a new user namespace, in which it is root, and into a new network namespace that belongs
/// to it. Works without privileges where the kernel allows user namespaces, and only while the process has one thread.
///
/// # Errors
/// `EINVAL` with several threads; `EPERM` or `ENOSPC` where user namespaces are not allowed.
pub fn unshare_as_root_of_own() -> io::Result<()> {
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    // SAFETY: as above; CLONE_NEWUSER changes credentials only.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNET) }?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> io::Result<std::path::PathBuf> {
        fs::read_link("/proc/thread-self/ns/net")
    }

    #[test]
    fn a_thread_enters_a_new_namespace_and_comes_back() {
        let result = std::thread::spawn(|| -> io::Result<()> {
            let before = own()?;
            let back = fs::canonicalize("/proc/self/task").map(|tasks| tasks.join("../ns/net"))?;
            unshare()?;
            assert_ne!(own()?, before);
            enter(&back)?;
            assert_eq!(own()?, before);
            Ok(())
        });
        match result.join().unwrap() {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => eprintln!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn what_is_no_namespace_is_refused() {
        assert!(enter(Path::new("/dev/null")).is_err() && enter(Path::new("/nowhere")).is_err());
    }
}
