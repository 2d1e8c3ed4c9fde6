//! What a network device's driver says of itself: the reading commands of SIOCETHTOOL, which need no privileges, and those
//! that switch its offloads, which need CAP_NET_ADMIN.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::check_int;

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_GET_TS_INFO: u32 = 0x41;
/// SOF_TIMESTAMPING_{TX,RX}_{HARDWARE,SOFTWARE}, linux/net_tstamp.h.
const TX_HARDWARE: u32 = 1;
const TX_SOFTWARE: u32 = 1 << 1;
const RX_HARDWARE: u32 = 1 << 2;
const RX_SOFTWARE: u32 = 1 << 3;

/// An offload that has a reading command of its own; the number after it is the command that switches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Offload {
    /// ETHTOOL_GRXCSUM.
    ReceiveChecksum = 0x14,
    /// ETHTOOL_GTXCSUM.
    SendChecksum = 0x16,
    /// ETHTOOL_GSG.
    ScatterGather = 0x18,
    /// ETHTOOL_GTSO.
    TcpSegmentation = 0x1e,
    /// ETHTOOL_GGSO.
    Segmentation = 0x23,
    /// ETHTOOL_GGRO.
    Receive = 0x2b,
}

impl Offload {
    /// All, in an order in which they can be switched on: segmentation by the device needs what stands before it.
    pub const ALL: [Self; 6] = [
        Self::ReceiveChecksum,
        Self::SendChecksum,
        Self::ScatterGather,
        Self::TcpSegmentation,
        Self::Segmentation,
        Self::Receive,
    ];

    /// As ethtool(8) names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReceiveChecksum => "rx",
            Self::SendChecksum => "tx",
            Self::ScatterGather => "sg",
            Self::TcpSegmentation => "tso",
            Self::Segmentation => "gso",
            Self::Receive => "gro",
        }
    }
}

/// Who can stamp a device's packets (SO_TIMESTAMPING, the kernel's timestamping.rst).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamping {
    /// The device, with its own clock: packets sent, packets received.
    pub hardware: (bool, bool),
    /// The kernel: packets sent, packets received.
    pub software: (bool, bool),
    /// Number of the device's clock, /dev/ptpN; `None`: it has none.
    pub clock: Option<u32>,
}

impl Stamping {
    /// Of `so_timestamping` and `phc_index` in struct ethtool_ts_info.
    fn of(offered: u32, clock: i32) -> Self {
        let has = |bit| offered & bit != 0;
        Self {
            hardware: (has(TX_HARDWARE), has(RX_HARDWARE)),
            software: (has(TX_SOFTWARE), has(RX_SOFTWARE)),
            clock: u32::try_from(clock).ok(),
        }
    }
}

/// Devices of the network namespace that the calling thread was in when it opened this.
pub struct Ethtool {
    fd: OwnedFd,
}

impl Ethtool {
    /// A socket to ask over.
    ///
    /// # Errors
    /// As socket(2).
    pub fn open() -> io::Result<Self> {
        Ok(Self { fd: socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)? })
    }

    /// Whether an offload is on.
    ///
    /// # Errors
    /// `ENODEV`; `EOPNOTSUPP`: the device does not tell.
    pub fn offload(&self, device: &str, offload: Offload) -> io::Result<bool> {
        Ok(self.ask::<2>(device, offload as u32)?[1] != 0) // struct ethtool_value
    }

    /// Switches an offload, and reads it back: what is returned is how it is now.
    ///
    /// # Errors
    /// `PermissionDenied`; `ENODEV`; `EOPNOTSUPP`: the device cannot switch it.
    pub fn set_offload(&self, device: &str, offload: Offload, on: bool) -> io::Result<bool> {
        self.send::<2>(device, [offload as u32 + 1, u32::from(on)])?;
        self.offload(device, offload)
    }

    /// Microseconds and packets that a receive interrupt waits for.
    ///
    /// # Errors
    /// As [`Ethtool::offload`].
    pub fn receive_coalescing(&self, device: &str) -> io::Result<(u32, u32)> {
        let words = self.ask::<23>(device, ETHTOOL_GCOALESCE)?; // struct ethtool_coalesce
        Ok((words[1], words[2]))
    }

    /// Entries of the receive and of the send ring.
    ///
    /// # Errors
    /// As [`Ethtool::offload`].
    pub fn rings(&self, device: &str) -> io::Result<(u32, u32)> {
        let words = self.ask::<9>(device, ETHTOOL_GRINGPARAM)?; // struct ethtool_ringparam
        Ok((words[5], words[8]))
    }

    /// Who can stamp its packets.
    ///
    /// # Errors
    /// As [`Ethtool::offload`].
    pub fn stamping(&self, device: &str) -> io::Result<Stamping> {
        let words = self.ask::<11>(device, ETHTOOL_GET_TS_INFO)?; // struct ethtool_ts_info
        Ok(Stamping::of(words[1], words[2].cast_signed()))
    }

    /// `N` is the size of the command's structure in words: all of those above consist of words of 32 bits only.
    fn ask<const N: usize>(&self, device: &str, command: u32) -> io::Result<[u32; N]> {
        let mut words = [0_u32; N];
        words[0] = command;
        self.send(device, words)
    }

    /// The command is the first word.
    fn send<const N: usize>(&self, device: &str, mut words: [u32; N]) -> io::Result<[u32; N]> {
        // struct ifreq: the name, then a union of 24 bytes whose first member here is a pointer.
        let mut name = [0_u8; libc::IFNAMSIZ];
        if device.len() >= name.len() || device.contains('\0') {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        name[..device.len()].copy_from_slice(device.as_bytes());
        #[repr(C)]
        struct Request {
            name: [u8; libc::IFNAMSIZ],
            data: *mut u32,
            rest: [u64; 2],
        }
        let mut request = Request { name, data: words.as_mut_ptr(), rest: [0; 2] };
        // SAFETY: `request` is laid out as struct ifreq and as large; `data` points to `words`, which is as large as the
        // structure of the command, so the kernel reads and writes inside it. Both outlive the call.
        check_int(unsafe { libc::ioctl(self.fd.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) })?;
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_switched_is_an_error() {
        let ethtool = Ethtool::open().unwrap();
        let now = ethtool.offload("lo", Offload::TcpSegmentation).unwrap();
        assert!(ethtool.set_offload("no such device", Offload::Receive, false).is_err());
        assert_eq!(ethtool.offload("lo", Offload::TcpSegmentation).unwrap(), now);
    }

    #[test]
    fn the_loopback_device_tells_of_its_offloads() {
        let ethtool = Ethtool::open().unwrap();
        assert_eq!(size_of::<libc::ifreq>(), 40);
        assert!(ethtool.offload("lo", Offload::Segmentation).is_ok());
        assert!(ethtool.receive_coalescing("lo").is_err(), "lo has no interrupts");
        assert!(ethtool.rings("no such device").is_err());
        assert!(ethtool.offload("a name that is far too long", Offload::Receive).is_err());
    }

    #[test]
    fn who_stamps_packets_is_told() {
        let ethtool = Ethtool::open().unwrap();
        let loopback = ethtool.stamping("lo").unwrap();
        assert_eq!((loopback.hardware, loopback.clock), ((false, false), None), "there is no device");
        assert!(loopback.software.1, "the kernel stamps what it receives");
        assert!(ethtool.stamping("no such device").is_err());
        // As a card with a clock has it: all four and SOF_TIMESTAMPING_RAW_HARDWARE.
        let card = Stamping::of(0x5f, 0);
        assert_eq!(card, Stamping { hardware: (true, true), software: (true, true), clock: Some(0) });
        assert_eq!(Stamping::of(RX_SOFTWARE, -1).hardware, (false, false));
    }
}
