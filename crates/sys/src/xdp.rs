//! XDP programs on a network device, for as long as somebody holds their link.
//!
//! The programs are given to bpf(2) as they are. A link takes its program off the device when its last descriptor is closed, however
//! the process ends.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::program::{Instruction, PSEUDO_MAP_FD, bpf, instruction, load, new_map, own, put, refused};

// linux/bpf.h, linux/if_link.h
const LINK_CREATE: libc::c_int = 28;
const PROG_TYPE_XDP: u32 = 6;
const MAP_TYPE_XSKMAP: u32 = 17;
const ATTACH_XDP: u32 = 37;
const FUNC_REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;
const SKB_MODE: u32 = 1 << 1;
const DRV_MODE: u32 = 1 << 2;

/// The beginning of `union bpf_attr` for BPF_LINK_CREATE.
#[repr(C)]
struct NewLink {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before the kernel has made anything of a frame.
    Native,
    /// Behind it, on what the stack is about to get: any device has it.
    Generic,
}

/// A program on a device, until this is dropped.
#[derive(Debug)]
pub struct Link {
    _fd: OwnedFd,
    /// Where it runs.
    pub mode: Mode,
}

/// Lets every frame pass.
fn pass() -> [Instruction; 2] {
    [instruction(0xb7, 0, 0, XDP_PASS), instruction(0x95, 0, 0, 0)]
}

/// Hands the frames of an EtherType that begin with a tag to the socket at key 0 of `sockets`, where they came by queue 0; every other
/// frame passes.
fn redirect(ethertype: u16, tag: u32, sockets: BorrowedFd<'_>) -> [Instruction; 17] {
    // As they stand in the frame, read in the order of this machine's bytes.
    let ethertype = i32::from(u16::from_ne_bytes(ethertype.to_be_bytes()));
    let tag = i32::from_ne_bytes(tag.to_be_bytes());
    let to_the_end = |at: i16| 14 - at;
    [
        instruction(0x61, 2, 1, 0),                           // r2 = the frame
        instruction(0x61, 3, 1, 0).at(4),                     // r3 = its end
        instruction(0xbf, 4, 2, 0),                           // r4 = r2
        instruction(0x07, 4, 0, 18),                          // r4 += Ethernet header and tag
        instruction(0x2d, 4, 3, 0).at(to_the_end(4)),         // too short
        instruction(0x69, 5, 2, 0).at(12),                    // r5 = EtherType
        instruction(0x55, 5, 0, ethertype).at(to_the_end(6)), // another
        instruction(0x61, 5, 2, 0).at(14),                    // r5 = tag
        instruction(0x56, 5, 0, tag).at(to_the_end(8)),       // another, compared as 32 bits
        instruction(0x61, 2, 1, 0).at(16),                    // r2 = number of the receive queue
        instruction(0x18, 1, PSEUDO_MAP_FD, sockets.as_raw_fd()),
        instruction(0, 0, 0, 0),
        instruction(0xb7, 3, 0, XDP_PASS), // where the map has no socket for the queue
        instruction(0x85, 0, 0, FUNC_REDIRECT_MAP),
        instruction(0x05, 0, 0, 0).at(1),
        instruction(0xb7, 0, 0, XDP_PASS),
        instruction(0x95, 0, 0, 0),
    ]
}

fn attach(program: &OwnedFd, interface: i32, mode: Mode) -> io::Result<Link> {
    let attributes = NewLink {
        prog_fd: program.as_raw_fd() as u32,
        target_ifindex: interface as u32,
        attach_type: ATTACH_XDP,
        flags: match mode {
            Mode::Native => DRV_MODE,
            Mode::Generic => SKB_MODE,
        },
    };
    // SAFETY: the fields of BPF_LINK_CREATE in their order, and no address.
    unsafe { bpf(LINK_CREATE, &attributes) }.map(|fd| Link { _fd: own(fd), mode })
}

/// A program in the driver of an interface that lets every frame pass: what a virtual device has a queue for. Needs CAP_BPF and
/// CAP_NET_ADMIN, kernel 5.9.
///
/// # Errors
/// `PermissionDenied` without them; EOPNOTSUPP: the driver runs no programs; EBUSY: another one is there.
pub fn pass_all(interface: i32) -> io::Result<Link> {
    let program = load(PROG_TYPE_XDP, &pass()).map_err(|error| refused("an XDP program", &error))?;
    attach(&program, interface, Mode::Native).map_err(|error| refused("attaching it", &error))
}

/// Hands the frames of one EtherType that begin with a tag, and come by queue 0, to a socket of AF_XDP that is bound there: in the
/// driver where it runs programs, else behind it. All others pass. Needs CAP_BPF and CAP_NET_ADMIN, kernel 5.9.
///
/// # Errors
/// As [`pass_all`], with the step that was refused.
pub fn hand_over(interface: i32, ethertype: u16, tag: u32, socket: BorrowedFd<'_>) -> io::Result<Link> {
    let map = new_map(MAP_TYPE_XSKMAP, 4, 0).map_err(|error| refused("a map of sockets", &error))?;
    put(socket, &map).map_err(|error| refused("putting the socket into its map", &error))?;
    let program = redirect(ethertype, tag, map.as_fd());
    let program = load(PROG_TYPE_XDP, &program).map_err(|error| refused("an XDP program", &error))?;
    let attached = attach(&program, interface, Mode::Native).or_else(|error| match error.raw_os_error() {
        // Another program is there, or nobody may: the other mode would be refused as well.
        Some(libc::EBUSY | libc::EEXIST | libc::EPERM | libc::EACCES) => Err(error),
        _ => attach(&program, interface, Mode::Generic),
    });
    attached.map_err(|error| refused("attaching it", &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Interface;
    use crate::veth;

    #[test]
    fn what_is_not_wanted_passes() {
        let program = redirect(0x88b5, 0x8000_0001, io::stdin().as_fd());
        let jumps = program.iter().enumerate().filter(|(_, one)| matches!(one.code(), 0x2d | 0x55 | 0x56));
        let ends: Vec<usize> = jumps.map(|(at, one)| at + 1 + one.offset() as usize).collect();
        assert_eq!((ends, program[15].code(), program[16].code()), (vec![15; 3], 0xb7, 0x95));
    }

    #[test]
    fn a_link_holds_its_program_and_another_is_refused() {
        let tried = veth::with_pair(["mpx0", "mpx1"], || {
            let index = Interface::find("mpx0").unwrap().index;
            let link = pass_all(index)?;
            assert_eq!(link.mode, Mode::Native);
            assert!(pass_all(index).is_err(), "two programs on one device");
            drop(link);
            let again = pass_all(index).expect("the first is gone with its link");
            drop(again);
            assert!(pass_all(1).is_err(), "the loopback device has no driver to run it");
            io::Result::Ok(())
        });
        if let Err(error) = tried.and_then(|tried| tried) {
            println!("skipped: no XDP here ({error})");
        }
    }
}
