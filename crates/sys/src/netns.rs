//! Network namespaces: what network(2) the calling thread sees. setns(2), unshare(2), user_namespaces(7).

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use msgpath_core::Unavailable;
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

/// Why a namespace was refused to this user, and what to do. `most`: user.max_user_namespaces.
pub fn refusal(error: &io::Error, most: Option<u64>) -> Unavailable {
    match error.raw_os_error() {
        Some(libc::ENOSPC) => {
            let most = most.map_or_else(String::new, |most| format!(", which is {most}"));
            Unavailable::new(
                format!("this user may have no further namespace (user.max_user_namespaces{most}): {error}"),
                "sudo sysctl user.max_user_namespaces=15000, or root",
            )
        }
        Some(libc::EPERM | libc::EACCES) => Unavailable::new(
            format!("it takes root, or a kernel that lets users have namespaces of their own: {error}"),
            "sudo msgpath ..., or sysctl kernel.unprivileged_userns_clone=1 where your kernel has it",
        ),
        _ => Unavailable::new(format!("no network namespace is to be had here: {error}"), ""),
    }
}

/// The number of user namespaces that a user may have.
pub fn most_of_a_user() -> Option<u64> {
    fs::read_to_string("/proc/sys/user/max_user_namespaces").ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_namespace_says_which_limit_it_was() {
        let full = refusal(&io::Error::from_raw_os_error(libc::ENOSPC), Some(0));
        assert!(full.why.contains("user.max_user_namespaces, which is 0): No space left"), "{full:?}");
        assert!(full.hint.contains("sysctl user.max_user_namespaces"));
        assert!(refusal(&io::Error::from_raw_os_error(libc::EPERM), Some(9)).why.contains("it takes root"));
    }

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
