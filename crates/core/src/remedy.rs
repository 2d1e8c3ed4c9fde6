//! What `doctor` can change on a machine: the one table of settings, their files, values and commands.
//!
//! An agent names a remedy of this table with parameters that are parsed when they arrive. No text that came over a
//! connection, out of a file or from a shell is ever a command: [`Remedy::action`] and [`Remedy::undo`] make all of them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// CPUs that a kernel can be built for (`NR_CPUS` of x86-64).
const MAX_CPUS: u32 = 8192;

/// A word that is an argument or a value and nothing else: letters, digits, `.`, `_` and `-`, a letter or digit first, at most
/// `MAX` of them. A shell takes it as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Word<const MAX: usize>(String);

/// What a setting holds, as the kernel writes it.
pub type Value = Word<32>;
/// The name of a network device; the kernel's names have 15 bytes at most (`IFNAMSIZ`).
pub type Device = Word<15>;

impl<const MAX: usize> Word<MAX> {
    /// `text` where it is such a word.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let first = text.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
        (first && text.len() <= MAX && text.chars().all(fits)).then(|| Self(text.into()))
    }
}

impl<const MAX: usize> TryFrom<String> for Word<MAX> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("not a word of at most {MAX} letters and digits"))
    }
}

impl<const MAX: usize> From<Word<MAX>> for String {
    fn from(word: Word<MAX>) -> Self {
        word.0
    }
}

impl<const MAX: usize> fmt::Display for Word<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Cpu(u32);

impl TryFrom<u32> for Cpu {
    type Error = String;

    fn try_from(number: u32) -> Result<Self, String> {
        if number < MAX_CPUS { Ok(Self(number)) } else { Err(format!("no kernel has more than {MAX_CPUS} CPUs")) }
    }
}

impl From<Cpu> for u32 {
    fn from(cpu: Cpu) -> Self {
        cpu.0
    }
}

/// A file of the kernel in which one value helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// The clock source `tsc`.
    ClockTsc,
    /// The clock source `arch_sys_counter`.
    ClockArch,
    Governor(Cpu),
    /// Transparent huge pages.
    HugePages,
    /// Merging of equal pages (KSM).
    PageMerging,
    /// Randomised addresses.
    AddressLayout,
    /// TCP slow start after idle.
    SlowStart,
    /// Room for control data of a socket.
    Optmem,
    /// Busy polling in poll(2).
    BusyPoll,
    /// Busy polling in reads.
    BusyRead,
    /// Whether io_uring is forbidden.
    IoUring,
}

impl Setting {
    /// Its check, its file, and the value that helps.
    fn row(self) -> (u8, String, &'static str) {
        let (check, path, value) = match self {
            Setting::ClockTsc => (1, CLOCK_SOURCE, "tsc"),
            Setting::ClockArch => (1, CLOCK_SOURCE, "arch_sys_counter"),
            Setting::Governor(Cpu(cpu)) => {
                return (3, format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"), "performance");
            }
            Setting::HugePages => (12, "/sys/kernel/mm/transparent_hugepage/enabled", "madvise"),
            Setting::PageMerging => (12, "/sys/kernel/mm/ksm/run", "0"),
            Setting::AddressLayout => (12, "/proc/sys/kernel/randomize_va_space", "2"),
            Setting::SlowStart => (16, "/proc/sys/net/ipv4/tcp_slow_start_after_idle", "0"),
            Setting::Optmem => (16, "/proc/sys/net/core/optmem_max", "1048576"),
            Setting::BusyPoll => (16, "/proc/sys/net/core/busy_poll", "0"),
            Setting::BusyRead => (16, "/proc/sys/net/core/busy_read", "0"),
            Setting::IoUring => (17, "/proc/sys/kernel/io_uring_disabled", "0"),
        };
        (check, path.into(), value)
    }

    /// Its file.
    pub fn path(self) -> String {
        self.row().1
    }

    /// The value that helps.
    pub fn value(self) -> &'static str {
        self.row().2
    }

    /// The remedy where it holds `now`; `None`: the kernel's text is no value that could be restored.
    pub fn remedy(self, now: &str) -> Option<Remedy> {
        Some(Remedy::Set { setting: self, was: Value::parse(now)? })
    }
}

const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// A change that helps: a row of the table with what the end found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// The setting gets the value that helps.
    Set {
        setting: Setting,
        /// What it held.
        was: Value,
    },
    /// Nothing is swapped out.
    SwapOff,
    /// Receive interrupts of a network device do not wait.
    Coalescing {
        device: Device,
        /// How long they waited, µs.
        was_us: u32,
    },
}

impl Remedy {
    /// The number of the check that it belongs to.
    pub fn check(&self) -> u8 {
        match self {
            Remedy::Set { setting, .. } => setting.row().0,
            Remedy::SwapOff => 12,
            Remedy::Coalescing { .. } => 14,
        }
    }

    /// What makes the change.
    pub fn action(&self) -> Action {
        match self {
            Remedy::Set { setting, .. } => Action::Write { path: setting.path(), value: setting.value().into() },
            Remedy::SwapOff => Action::Run(["swapoff", "-a"].map(String::from).into()),
            Remedy::Coalescing { device, .. } => coalesce(device, 0),
        }
    }

    /// What takes it back.
    pub fn undo(&self) -> Action {
        match self {
            Remedy::Set { setting, was } => Action::Write { path: setting.path(), value: was.to_string() },
            Remedy::SwapOff => Action::Run(["swapon", "-a"].map(String::from).into()),
            Remedy::Coalescing { device, was_us } => coalesce(device, *was_us),
        }
    }

    /// What exists where the change can be made.
    pub fn place(&self) -> String {
        match self {
            Remedy::Set { setting, .. } => setting.path(),
            Remedy::SwapOff => "/proc/swaps".into(),
            Remedy::Coalescing { device, .. } => format!("/sys/class/net/{device}"),
        }
    }
}

fn coalesce(device: &Device, us: u32) -> Action {
    let device = device.to_string();
    Action::Run(vec!["ethtool".into(), "-C".into(), device, "rx-usecs".into(), us.to_string()])
}

/// What is done on a machine, without a shell. Its text can be typed into one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A value is written into a file of the kernel.
    Write { path: String, value: String },
    /// A program is run: its name and its arguments.
    Run(Vec<String>),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Write { path, value } => write!(f, "echo {value} > {path}"),
            Action::Run(words) => f.write_str(&words.join(" ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: [Setting; 11] = [
        Setting::ClockTsc,
        Setting::ClockArch,
        Setting::Governor(Cpu(3)),
        Setting::HugePages,
        Setting::PageMerging,
        Setting::AddressLayout,
        Setting::SlowStart,
        Setting::Optmem,
        Setting::BusyPoll,
        Setting::BusyRead,
        Setting::IoUring,
    ];

    #[test]
    fn only_plain_words_are_parameters() {
        for good in ["schedutil", "kvm-clock", "eth0.100", "0", "br-lan"] {
            assert!(Device::parse(good).is_some(), "{good}");
        }
        let long = "e".repeat(16);
        for bad in ["", "-K", "..", ".", "a b", "a;b", "a/b", "$(id)", "a\n", "`x`", "é", "a\u{202e}", &long] {
            assert!(Device::parse(bad).is_none(), "{bad:?}");
            let text = serde_json::to_string(bad).unwrap();
            assert!(serde_json::from_str::<Device>(&text).is_err(), "{bad:?}");
        }
        assert!(serde_json::from_str::<Cpu>("8191").is_ok() && serde_json::from_str::<Cpu>("8192").is_err());
    }

    #[test]
    fn no_row_needs_a_shell_to_be_typed_safely() {
        let device = Device::parse("eth0").unwrap();
        let all = SETTINGS.iter().filter_map(|setting| setting.remedy("old-value"));
        for remedy in all.chain([Remedy::SwapOff, Remedy::Coalescing { device, was_us: 50 }]) {
            for action in [remedy.action(), remedy.undo()] {
                let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "/._- ".contains(c));
                let typed = action.to_string();
                match action {
                    Action::Write { path, value } => {
                        assert!(plain(&path) && plain(&value) && !path.contains(".."), "{typed}");
                        assert!(path.starts_with("/proc/sys/") || path.starts_with("/sys/"), "{typed}");
                    }
                    Action::Run(words) => {
                        assert!(words.iter().all(|word| plain(word) && !word.contains(' ')), "{typed}")
                    }
                }
            }
            let text = serde_json::to_string(&remedy).unwrap();
            assert_eq!(serde_json::from_str::<Remedy>(&text).unwrap(), remedy, "{text}");
        }
    }

    #[test]
    fn a_remedy_is_typed_as_a_command_with_its_way_back() {
        let governor = Setting::Governor(Cpu(3)).remedy("schedutil").unwrap();
        assert_eq!(
            governor.action().to_string(),
            "echo performance > /sys/devices/system/cpu/cpu3/cpufreq/scaling_governor"
        );
        assert_eq!(
            governor.undo().to_string(),
            "echo schedutil > /sys/devices/system/cpu/cpu3/cpufreq/scaling_governor"
        );
        let card = Remedy::Coalescing { device: Device::parse("eth0").unwrap(), was_us: 50 };
        assert_eq!(card.action().to_string(), "ethtool -C eth0 rx-usecs 0");
        assert_eq!(card.undo().to_string(), "ethtool -C eth0 rx-usecs 50");
        assert!(Setting::HugePages.remedy("always; id").is_none());
    }
}
