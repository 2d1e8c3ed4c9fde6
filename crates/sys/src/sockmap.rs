//! Two TCP sockets of this machine that BPF joins: what one of them sends is put into the other's receive queue, past TCP.
//!
//! Each socket is alone in a map (BPF_MAP_TYPE_SOCKMAP). The program that is attached to its map (BPF_SK_MSG_VERDICT) runs in
//! its send calls, counts, and names the other's map. Maps and programs end with their last descriptor and the sockets.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use crate::mapping::Mapping;
use crate::program::{Instruction, PSEUDO_MAP_FD, bpf, instruction, load, new_map, put, refused};

// linux/bpf.h
const PROG_ATTACH: libc::c_int = 8;
const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_SOCKMAP: u32 = 15;
const F_MMAPABLE: u32 = 1 << 10;
const PROG_TYPE_SK_MSG: u32 = 16;
const SK_MSG_VERDICT: u32 = 7;
const FUNC_MSG_REDIRECT_MAP: i32 = 60;
const F_INGRESS: i32 = 1;
const PSEUDO_MAP_VALUE: u8 = 2;

/// Bytes of one counter.
const COUNT: usize = 8;

/// The beginning of `union bpf_attr` for BPF_PROG_ATTACH.
#[repr(C)]
struct Attach {
    target_fd: u32,
    attach_bpf_fd: u32,
    attach_type: u32,
    attach_flags: u32,
}

/// Adds 1 to the counter at `offset`, then hands the message to the socket at key 0 of `peer`, to be received there.
fn verdict(peer: BorrowedFd<'_>, counts: BorrowedFd<'_>, offset: i32) -> [Instruction; 12] {
    [
        instruction(0xbf, 6, 1, 0), // r6 = the message
        instruction(0x18, 1, PSEUDO_MAP_VALUE, counts.as_raw_fd()),
        instruction(0, 0, 0, offset),
        instruction(0xb7, 2, 0, 1),
        instruction(0xdb, 1, 2, 0), // atomic: *r1 += r2
        instruction(0xbf, 1, 6, 0),
        instruction(0x18, 2, PSEUDO_MAP_FD, peer.as_raw_fd()),
        instruction(0, 0, 0, 0),
        instruction(0xb7, 3, 0, 0),
        instruction(0xb7, 4, 0, F_INGRESS),
        instruction(0x85, 0, 0, FUNC_MSG_REDIRECT_MAP),
        instruction(0x95, 0, 0, 0), // return the verdict
    ]
}

fn attach(program: &OwnedFd, map: &OwnedFd) -> io::Result<()> {
    let attributes = Attach {
        target_fd: map.as_raw_fd() as u32,
        attach_bpf_fd: program.as_raw_fd() as u32,
        attach_type: SK_MSG_VERDICT,
        attach_flags: 0,
    };
    // SAFETY: the fields of BPF_PROG_ATTACH in their order, and no address.
    unsafe { bpf(PROG_ATTACH, &attributes) }.map(drop)
}

/// What joins two sockets, or one end of it.
pub struct Sockmap {
    /// That of each socket that is joined from here; who has the map of a socket keeps it joined.
    maps: Vec<OwnedFd>,
    counts: Option<Mapping>,
}

impl Sockmap {
    /// Joins two TCP sockets that are connected with one another and over which nothing is on its way.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_BPF and CAP_NET_ADMIN; else which step a kernel without BPF, without maps of sockets
    /// (CONFIG_NET_SOCK_MSG) or before 5.5 refused.
    pub fn join(sockets: [BorrowedFd<'_>; 2]) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let counts = new_map(MAP_TYPE_ARRAY, page, F_MMAPABLE).map_err(|error| refused("a map of counters", &error))?;
        let map = || new_map(MAP_TYPE_SOCKMAP, 4, 0).map_err(|error| refused("a map of sockets", &error));
        let maps = [map()?, map()?];
        for (at, map) in maps.iter().enumerate() {
            let program = load(PROG_TYPE_SK_MSG, &verdict(maps[1 - at].as_fd(), counts.as_fd(), (at * COUNT) as i32))
                .map_err(|error| refused("a verdict program", &error))?;
            attach(&program, map).map_err(|error| refused("attaching the program", &error))?;
        }
        // After the programs: a socket takes those that its map has when it comes.
        for (socket, map) in sockets.into_iter().zip(&maps) {
            put(socket, map).map_err(|error| refused("putting the socket into its map", &error))?;
        }
        let counts = Mapping::new(counts.as_fd(), page).map_err(|error| refused("reading the counters", &error))?;
        Ok(Self { maps: maps.into(), counts: Some(counts) })
    }

    /// The other process's end, made of the map of its socket: it keeps the socket joined and counts nothing.
    pub fn kept(map: OwnedFd) -> Self {
        Self { maps: vec![map], counts: None }
    }

    /// The map of one of the sockets, in the order of [`Sockmap::join`].
    ///
    /// # Panics
    /// Where they were not joined from here.
    pub fn map(&self, socket: usize) -> BorrowedFd<'_> {
        self.maps[socket].as_fd()
    }

    /// How often each socket's program has run: once for every message that was handed over, more often for long ones. `None`
    /// where they were not joined from here.
    pub fn runs(&self) -> Option<[u64; 2]> {
        let counts = self.counts.as_ref()?;
        Some([0, 1].map(|socket| counts.u64_at(socket * COUNT).load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::tcp_info;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn messages_pass_tcp_by_and_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let joined = match Sockmap::join([near.as_fd(), far.as_fd()]) {
            Ok(joined) => joined,
            Err(error) => return println!("skipped: no maps of sockets here ({error})"),
        };
        let before = tcp_info(near.as_fd()).unwrap();
        let mut buffer = [0; 100];
        for n in 0..50 {
            near.write_all(&[n; 100]).unwrap();
            far.read_exact(&mut buffer).unwrap();
            assert_eq!(buffer, [n; 100]);
            far.write_all(&[100 + n; 10]).unwrap();
            near.read_exact(&mut buffer[..10]).unwrap();
            assert_eq!(buffer[..10], [100 + n; 10]);
        }
        assert_eq!(joined.runs(), Some([50, 50]));
        let after = tcp_info(near.as_fd()).unwrap();
        assert_eq!((after.segs_out, after.data_segs_out), (before.segs_out, 0), "TCP carried something");
        // The other process's end keeps its socket joined when this one is gone.
        let kept = Sockmap::kept(joined.map(1).try_clone_to_owned().unwrap());
        assert_eq!(kept.runs(), None);
        near.write_all(&[7]).unwrap();
        drop((near, joined));
        assert_eq!((far.read(&mut buffer).unwrap(), buffer[0]), (1, 7), "what was sent is lost with its sender");
    }

    #[test]
    fn what_is_no_tcp_socket_is_refused() {
        let (pipe, writer) = std::io::pipe().unwrap();
        let error = Sockmap::join([pipe.as_fd(), writer.as_fd()]).map(drop).unwrap_err();
        let steps = ["a map of", "putting the socket"];
        assert!(steps.iter().any(|step| error.to_string().starts_with(step)), "{error}");
    }
}
