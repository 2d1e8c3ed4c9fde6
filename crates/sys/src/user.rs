//! Users: who they are (getpwnam(3), getgrouplist(3)), and starting a program as one of them.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::ptr;

/// The longest entry of the list of users that is read, bytes.
const LONGEST: usize = 1 << 20;
/// The kernel's limit on the groups of a process (NGROUPS_MAX).
const MOST_GROUPS: usize = 65_536;

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The login name.
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    pub home: PathBuf,
    pub groups: Vec<libc::gid_t>,
}

impl User {
    /// The user of this name; `None`: there is none.
    ///
    /// # Errors
    /// As getpwnam_r(3).
    pub fn named(name: &str) -> io::Result<Option<Self>> {
        let Ok(name) = CString::new(name) else { return Ok(None) };
        let mut buffer: Vec<libc::c_char> = vec![0; 1024];
        loop {
            let (mut entry, mut found) = (MaybeUninit::<libc::passwd>::uninit(), ptr::null_mut());
            // SAFETY: the name ends with NUL; the entry, the buffer of this length and the pointer are valid to write to.
            let error = unsafe {
                libc::getpwnam_r(name.as_ptr(), entry.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut found)
            };
            match error {
                0 if found.is_null() => return Ok(None),
                // SAFETY: getpwnam_r(3) has filled the entry where it names it.
                0 => return Self::of(&unsafe { entry.assume_init() }).map(Some),
                libc::ERANGE if buffer.len() < LONGEST => buffer.resize(2 * buffer.len(), 0),
                libc::ENOENT | libc::ESRCH => return Ok(None),
                error => return Err(io::Error::from_raw_os_error(error)),
            }
        }
    }

    /// Copies an entry whose texts live.
    fn of(entry: &libc::passwd) -> io::Result<Self> {
        // SAFETY: the texts of an entry end with NUL, and live as long as the buffer of who calls.
        let name = unsafe { CStr::from_ptr(entry.pw_name) };
        // SAFETY: as above.
        let home = unsafe { CStr::from_ptr(entry.pw_dir) };
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            uid: entry.pw_uid,
            gid: entry.pw_gid,
            home: OsStr::from_bytes(home.to_bytes()).into(),
            groups: groups(name, entry.pw_gid)?,
        })
    }

    /// The same command, run as this user with all its groups and without the privileges of this process.
    pub fn starts<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("HOME", &self.home).env("USER", &self.name).env("LOGNAME", &self.name);
        for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER", "SUDO_COMMAND"] {
            command.env_remove(name);
        }
        let (uid, gid, groups) = (self.uid, self.gid, self.groups.clone());
        let become_user = move || {
            // SAFETY: the list has this length and lives during the call.
            done(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
            // SAFETY: setresgid(2) takes three numbers.
            done(unsafe { libc::setresgid(gid, gid, gid) })?;
            // Last: with it the capabilities go that the others need.
            // SAFETY: setresuid(2) takes three numbers.
            done(unsafe { libc::setresuid(uid, uid, uid) })
        };
        // SAFETY: between fork and exec the closure only makes system calls; it neither allocates nor locks.
        unsafe { command.pre_exec(become_user) }
    }
}

/// Whether this process is root's.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// All groups of a user.
fn groups(name: &CStr, gid: libc::gid_t) -> io::Result<Vec<libc::gid_t>> {
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut count = groups.len() as libc::c_int;
        // SAFETY: the name ends with NUL; the list has room for `count` numbers, and `count` is valid to write to.
        let found = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
        if found >= 0 {
            groups.truncate(count.max(0) as usize);
            return Ok(groups);
        }
        if groups.len() >= MOST_GROUPS {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        groups.resize(2 * groups.len(), 0);
    }
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn users_are_found_by_name() {
        let root = User::named("root").unwrap().expect("every system has one");
        assert_eq!((root.name.as_str(), root.uid, root.gid), ("root", 0, 0));
        assert!(root.groups.contains(&0) && root.home.is_absolute());
        assert_eq!(User::named("no-such-user-here").unwrap(), None);
        assert_eq!(User::named("a\0b").unwrap(), None);
    }

    #[test]
    fn a_program_started_as_a_user_has_its_numbers_and_no_capability() {
        if !is_root() {
            return println!("skipped: needs root");
        }
        let Some(nobody) = User::named("nobody").unwrap() else { return println!("skipped: no user nobody") };
        let mut command = Command::new("cat");
        let output = nobody.starts(command.arg("/proc/self/status").env("SUDO_UID", "1").stdin(Stdio::null())).output();
        let status = String::from_utf8(output.expect("cat starts").stdout).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(field("Uid:"), vec![nobody.uid.to_string(); 4]);
        assert_eq!(field("Gid:"), vec![nobody.gid.to_string(); 4]);
        let groups: Vec<String> = nobody.groups.iter().map(u32::to_string).collect();
        assert_eq!(field("Groups:"), groups);
        for set in ["CapEff:", "CapPrm:", "CapAmb:"] {
            assert_eq!(field(set), ["0000000000000000"], "{set}");
        }
        let mut command = Command::new("env");
        let output = nobody.starts(command.env("SUDO_UID", "1")).output().expect("env starts").stdout;
        let environment = String::from_utf8(output).unwrap();
        assert!(environment.lines().any(|line| line == "USER=nobody") && !environment.contains("SUDO_UID"));
    }
}
