//! System calls that a thread refuses itself for good, and every thread that it starts afterwards: seccomp(2). The kernel asks a program
//! of classic BPF before each call; `Documentation/userspace-api/seccomp_filter.rst` has what it sees.
//!
//! A list of what is refused, not of what is allowed: the threads of this process make the calls of every transport, of io_uring, of
//! performance counters and of the C library, and a kernel or a library that is newer makes others. A list of those would end a run
//! that works.

use std::io;

use libc::c_long;

/// What `struct seccomp_data` of linux/seccomp.h has where.
const NUMBER_AT: u32 = 0;
const ARCH_AT: u32 = 4;
/// The lower half of the first argument, on a little-endian CPU.
const FIRST_AT: u32 = 16;

/// Instructions of linux/bpf_common.h: load a word, jump where it is, is at least, or has a bit of a constant, end.
const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const IF_ANY_BIT: u16 = 0x45;
const END: u16 = 0x06;

/// From here on a number is one of the x32 calls, which have the same architecture and other numbers.
const X32: u32 = 0x4000_0000;

/// AUDIT_ARCH of linux/audit.h.
#[cfg(target_arch = "x86_64")]
const ARCH: Option<u32> = Some(0xc000_003e);
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
const ARCH: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
const ARCH: Option<u32> = None;

/// System calls denied after start-up to threads that listen, parse and answer. A measuring thread may make them: `procvm` reads the
/// memory of the other end by process_vm_readv(2).
const REFUSED: &[c_long] = &[
    // Programs.
    libc::SYS_execve,
    libc::SYS_execveat,
    // Memory and registers of other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    // Namespaces, and what is mounted where.
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    // Files past the folders that they are in, and files of others.
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // Keys, and page faults that a program answers.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_userfaultfd,
    // The kernel and the machine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// Namespaces that clone(2) makes.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u16,
    /// Instructions that are left out where the condition holds, and where it does not.
    then: u8,
    otherwise: u8,
    value: u32,
}

/// `struct sock_fprog`.
#[repr(C)]
struct Program {
    length: libc::c_ushort,
    instructions: *const Instruction,
}

/// The program: `EPERM` for these calls, for clone(2) with a new namespace, and for every call of another architecture; `ENOSYS` for
/// clone3(2), whose flags it cannot see, so that the C library takes clone(2).
fn program(arch: u32, refused: &[c_long]) -> Vec<Instruction> {
    let plain = |code, value| Instruction { code, then: 0, otherwise: 0, value };
    let error = |number: i32| plain(END, libc::SECCOMP_RET_ERRNO | number as u32);
    // The tail, and how far its parts are from its beginning.
    let tail = [
        Instruction { otherwise: 2, ..plain(IF_EQUAL, libc::SYS_clone as u32) },
        plain(LOAD, FIRST_AT),
        Instruction { then: 1, ..plain(IF_ANY_BIT, NAMESPACES) },
        plain(END, libc::SECCOMP_RET_ALLOW),
        error(libc::EPERM),
        error(libc::ENOSYS),
    ];
    let (refuse, unknown) = (4, 5);
    let mut head = vec![
        plain(LOAD, ARCH_AT),
        plain(IF_EQUAL, arch),
        plain(LOAD, NUMBER_AT),
        plain(IF_AT_LEAST, X32),
        plain(IF_EQUAL, libc::SYS_clone3 as u32),
    ];
    head.extend(refused.iter().map(|number| plain(IF_EQUAL, *number as u32)));
    let length = head.len();
    // Jumps are counted from the instruction that follows, and have eight bits: far more calls than there are here.
    let to = |from: usize, place: usize| (length - from - 1 + place) as u8;
    for (at, instruction) in head.iter_mut().enumerate() {
        match at {
            0 | 2 => {}
            1 => instruction.otherwise = to(at, refuse),
            4 => instruction.then = to(at, unknown),
            _ => instruction.then = to(at, refuse),
        }
    }
    head.extend(tail);
    head
}

/// Whether this kernel has filters that refuse a call with an error: what it lists itself, not what came of trying.
pub fn kernel_has_filters() -> bool {
    let listed = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    ARCH.is_some() && listed.split_whitespace().any(|action| action == "errno")
}

/// Refuses the calling thread, and all that it will start, the system calls of `REFUSED`; how many those are. Needs [`crate::confine::no_new_privileges`].
///
/// # Errors
/// `Unsupported` on other CPUs than x86-64 and ARM64; as seccomp(2) where the kernel has no filters (`EINVAL`, `ENOSYS`) or may not
/// take one (`EACCES`).
pub fn refuse_unused() -> io::Result<usize> {
    let arch = ARCH.ok_or(io::ErrorKind::Unsupported)?;
    let instructions = program(arch, REFUSED);
    let program = Program { length: instructions.len() as libc::c_ushort, instructions: instructions.as_ptr() };
    // SAFETY: the program and its instructions live during the call, and the kernel takes a copy of them.
    let set = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0_usize, &raw const program) };
    if set == 0 { Ok(REFUSED.len()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const HERE: u32 = 7;

    /// What a program says to a call: classic BPF as far as these programs go.
    fn says(program: &[Instruction], arch: u32, number: u32, first: u32) -> u32 {
        let (mut at, mut word) = (0, 0);
        loop {
            let Instruction { code, then, otherwise, value } = program[at];
            let holds = match code {
                END => return value,
                LOAD => {
                    word = match value {
                        NUMBER_AT => number,
                        ARCH_AT => arch,
                        FIRST_AT => first,
                        other => panic!("loads at {other}"),
                    };
                    false
                }
                IF_EQUAL => word == value,
                IF_AT_LEAST => word >= value,
                IF_ANY_BIT => word & value != 0,
                other => panic!("instruction {other:#x}"),
            };
            at += 1 + usize::from(if holds { then } else { otherwise });
        }
    }

    #[test]
    fn the_architecture_is_asked_first_and_every_instruction_is_known() {
        let short = program(HERE, &[11]);
        let of = |code, then, otherwise, value| Instruction { code, then, otherwise, value };
        let (clone, clone3) = (libc::SYS_clone as u32, libc::SYS_clone3 as u32);
        let whole = [
            of(0x20, 0, 0, 4),
            of(0x15, 0, 8, HERE),
            of(0x20, 0, 0, 0),
            of(0x35, 6, 0, 0x4000_0000),
            of(0x15, 6, 0, clone3),
            of(0x15, 4, 0, 11),
            of(0x15, 0, 2, clone),
            of(0x20, 0, 0, 16),
            of(0x45, 1, 0, 0x7e02_0000),
            of(0x06, 0, 0, 0x7fff_0000),
            of(0x06, 0, 0, 0x0005_0001),
            of(0x06, 0, 0, 0x0005_0026),
        ];
        assert_eq!(short, whole);
    }

    #[test]
    fn what_is_refused_is_refused_and_nothing_else() {
        let (allowed, refused) = (libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
        let unknown = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
        let whole = program(HERE, REFUSED);
        assert!(REFUSED.len() > 40 && whole.len() < 256, "a jump has eight bits");
        let clone = libc::SYS_clone as u32;
        for number in 0..600 {
            let expected = match c_long::from(number) {
                libc::SYS_clone3 => unknown,
                number if REFUSED.contains(&number) => refused,
                _ => allowed,
            };
            assert_eq!(says(&whole, HERE, number as u32, 0), expected, "{number}");
            assert_eq!(says(&whole, HERE + 1, number as u32, 0), refused, "{number} of another architecture");
            assert_eq!(says(&whole, HERE, number as u32 | X32, 0), refused, "{number} of x32");
        }
        let thread = (libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_THREAD) as u32;
        assert_eq!(says(&whole, HERE, clone, thread), allowed);
        for namespace in [libc::CLONE_NEWUSER, libc::CLONE_NEWNET, libc::CLONE_NEWNS, libc::CLONE_NEWPID] {
            assert_eq!(says(&whole, HERE, clone, thread | namespace as u32), refused);
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_documented_number_of_calls_is_that_of_the_list() {
        let on_arm = REFUSED.len() - 4;
        let said = format!("{} system calls ({on_arm} on ARM64)", REFUSED.len());
        assert!(include_str!("../../../docs/serve.md").contains(&said), "{said}");
    }

    /// Leaves and enters nothing: 0 where it may.
    fn unshares_nothing() -> io::Result<()> {
        // SAFETY: unshare(2) takes a number; without flags it does nothing.
        if unsafe { libc::unshare(0) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// In a thread of its own: what it refuses itself ends with it.
    #[test]
    fn a_thread_that_refuses_itself_calls_gets_eperm_and_so_do_those_that_it_starts() {
        if let Err(error) = unshares_nothing() {
            return eprintln!("skipped: unshare(2) is refused here already: {error}");
        }
        let filtered = std::thread::spawn(|| {
            crate::confine::no_new_privileges().unwrap();
            match refuse_unused() {
                Ok(count) => assert_eq!(count, REFUSED.len()),
                Err(error) if !kernel_has_filters() => return eprintln!("skipped: no seccomp here: {error}"),
                Err(error) => panic!("this kernel has filters, and takes none: {error}"),
            }
            let refused = |error: io::Error| error.raw_os_error() == Some(libc::EPERM);
            assert!(unshares_nothing().is_err_and(refused));
            assert!(Command::new("true").spawn().is_err_and(refused), "no program");
            let inside = std::thread::spawn(unshares_nothing).join().unwrap();
            assert!(inside.is_err_and(refused), "a thread that it started, with clone(2)");
            assert!(std::fs::read("/proc/self/stat").is_ok_and(|text| !text.is_empty()), "the rest stays");
        });
        filtered.join().unwrap();
        unshares_nothing().expect("this thread refused itself nothing");
    }
}
