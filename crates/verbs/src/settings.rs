//! `-o KEY=VALUE`: rare settings of sockets, paths and rounds. A key is one row of [`KEYS`]: what it is called, what it takes, what
//! it means, for which paths, and what it sets.

use std::path::PathBuf;

use clap::Args;
use msgpath_core::group::check_one_peer;
use msgpath_core::path::nearest;
use msgpath_core::plan::{ChannelOptions, Distribution, Family, ServiceTime, Stamps};
use msgpath_core::program::Framing;
use msgpath_core::schedule::Arrivals;
use msgpath_core::traits::Traits;
use msgpath_core::{Exit, PathName, Problem, units};
use msgpath_paths::meta;

use crate::problems::{bad_value, usage};
use crate::typed::List;

/// What the keys set. The default is a command line without `-o`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of the connection.
    pub channel: ChannelOptions,
    /// The receive mode of paths that name none.
    pub wait: Option<String>,
    /// Speed of the wire, bits per second.
    pub wire: Option<u64>,
    /// Gaps between the messages of a schedule.
    pub arrivals: Option<Arrivals>,
    /// What the server computes for each message.
    pub service_time: Option<ServiceTime>,
    /// Bytes over which buffers rotate; 0: one buffer.
    pub working_set: u64,
    /// What a program of the user's takes for a message.
    pub frame: Option<Framing>,
    /// The bytes of every message to it.
    pub request_file: Option<PathBuf>,
    /// How long such a program may take until it listens, ms.
    pub patience_ms: Option<u32>,
    /// Each single message has a connection of its own.
    pub fresh: bool,
    /// The begin of a round is measured instead of the steady state.
    pub burst: bool,
    /// Fresh processes of the server.
    pub restarts: u32,
    /// Seed of the order of the rounds.
    pub seed: Option<u64>,
    /// Suspected causes are tried.
    pub what_ifs: bool,
    /// A disturbed run goes on.
    pub extend: bool,
    /// Sizes are added near a crossing.
    pub refine: bool,
    /// Where messages are stamped.
    pub stamps: Stamps,
    /// When events are counted.
    pub events: Events,
    /// Cachegrind afterwards.
    pub simulate_cache: bool,
    /// Messages that the log keeps.
    pub message_log: Option<u64>,
    /// Keys that were typed.
    typed: Vec<&'static Key>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            channel: ChannelOptions::default(),
            wait: None,
            wire: None,
            arrivals: None,
            service_time: None,
            working_set: 0,
            frame: None,
            request_file: None,
            patience_ms: None,
            fresh: false,
            burst: false,
            restarts: 1,
            seed: None,
            what_ifs: true,
            extend: true,
            refine: true,
            stamps: Stamps::Near,
            events: Events::Auto,
            simulate_cache: false,
            message_log: None,
            typed: Vec::new(),
        }
    }
}

/// When events of CPU and kernel are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Events {
    /// Where a CPU counts.
    Auto,
    /// Everywhere, even where the kernel alone counts.
    On,
    /// Never.
    Off,
}

/// Whether a key has a meaning for a path.
pub type Fits = fn(&PathName, &Traits) -> bool;

pub struct Key {
    /// As typed.
    pub name: &'static str,
    /// What it takes.
    pub value: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// For which paths; `None`: it is about the run.
    pub paths: Option<Fits>,
    /// Sets it; else what the value must be.
    set: fn(&mut Settings, &str) -> Result<(), String>,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// All of them, those of sockets and paths first.
pub static KEYS: [Key; 34] = [
    Key {
        name: "nodelay",
        value: "yes|no",
        doc: "TCP_NODELAY: small messages go at once; no: the kernel may hold them back (Nagle) [default: yes]",
        paths: Some(segments),
        set: |settings, text| put(&mut settings.channel.nodelay, yes(text)),
    },
    Key {
        name: "cork",
        value: "yes|no|held",
        doc: "TCP_CORK around the pieces of a message; held: a common bug, it is set once and never cleared, so a message waits up \
              to 200 ms [default: no]",
        paths: Some(segments),
        set: |settings, text| {
            let words = [("yes", (true, false)), ("no", (false, false)), ("held", (false, true))];
            (settings.channel.cork, settings.channel.hold_cork) = one_of(text, words)?;
            Ok(())
        },
    },
    Key {
        name: "congestion",
        value: "NAME",
        doc: "Congestion control of TCP: cubic, bbr ... [default: the kernel's]",
        paths: Some(segments),
        set: |settings, text| put(&mut settings.channel.congestion, word(text).map(Some)),
    },
    Key {
        name: "sndbuf",
        value: "SIZE",
        doc: "Send buffer to ask for (SO_SNDBUF; pipes: F_SETPIPE_SZ) [default: the kernel's]",
        paths: Some(|path, traits| in_family(path, &[meta::Family::Pipe]) || has_socket(path, traits)),
        set: |settings, text| put(&mut settings.channel.send_buffer, size(text).map(Some)),
    },
    Key {
        name: "rcvbuf",
        value: "SIZE",
        doc: "Receive buffer to ask for (SO_RCVBUF); for eth-ring the size of the ring [default: the kernel's]",
        paths: Some(has_socket),
        set: |settings, text| put(&mut settings.channel.receive_buffer, size(text).map(Some)),
    },
    Key {
        name: "read-size",
        value: "SIZE",
        doc: "Most bytes that a receive call asks for, so that one call takes several messages: 128K [default: the bytes of a \
              message]",
        paths: Some(|_, traits| !traits.framed),
        set: |settings, text| put(&mut settings.channel.read_size, size(text).map(Some)),
    },
    Key {
        name: "reuseport",
        value: "yes|no",
        doc: "The far end listens on a socket for each connection at one port (SO_REUSEPORT), among which the kernel chooses, \
              instead of on one [default: no]",
        paths: Some(segments),
        set: |settings, text| put(&mut settings.channel.reuse_port, yes(text)),
    },
    Key {
        name: "poll-time",
        value: "TIME",
        doc: "How long a receive call polls the NIC, for the wait busy-poll [default: 50us]",
        paths: Some(|_, traits| traits.polls_device),
        set: |settings, text| {
            let us = time(text)?.div_ceil(1000);
            put(&mut settings.channel.busy_poll_us, u32::try_from(us).map_err(|_| "a time up to 4000s".into()))
        },
    },
    Key {
        name: "queued-signals",
        value: "yes|no",
        doc: "The wait sigio takes a queued real-time signal for every event (F_SETSIG), not SIGIO, of which one stands for many \
              [default: no]",
        paths: Some(|_, traits| traits.signals),
        set: |settings, text| put(&mut settings.channel.queued_signals, yes(text)),
    },
    Key {
        name: "ip",
        value: "4|6",
        doc: "IPv4 only, or IPv6 only [default: whatever the target resolves to]",
        paths: Some(|_, traits| traits.inet),
        set: |settings, text| put(&mut settings.channel.family, one_of(text, [("4", Family::V4), ("6", Family::V6)])),
    },
    Key {
        name: "bind",
        value: "ADDRESS",
        doc: "Local address of the client's sockets",
        paths: Some(|_, traits| traits.inet),
        set: |settings, text| {
            check_one_peer(text).map_err(|error| format!("the address of one device: {error}"))?;
            let address = msgpath_sys::address::parse(text)
                .ok_or("an IP address, with a device of this machine if it is link-local (fe80::1%eth0)")?;
            settings.channel.bind = Some(msgpath_sys::address::shown(address));
            Ok(())
        },
    },
    Key {
        name: "device",
        value: "NAME",
        doc: "Network device of the client that packets and frames go through (packets: SO_BINDTODEVICE) [default: the route's; for frames \
              lo]",
        paths: Some(|_, traits| traits.device || traits.inet),
        set: |settings, text| {
            settings.channel.interface = word(text)?;
            settings.channel.through = Some(settings.channel.interface.clone());
            Ok(())
        },
    },
    Key {
        name: "tos",
        value: "CLASS",
        doc: "Traffic class of the packets of both ends: ef, cs1, af41, or the whole byte 0xb8 (IP_TOS, IPV6_TCLASS) [default: 0]",
        paths: Some(|_, traits| traits.inet),
        set: |settings, text| {
            let bad = || "a class such as ef, cs1, af41 or 0xb8".into();
            put(&mut settings.channel.traffic_class, traffic_class(text).map(Some).ok_or_else(bad))
        },
    },
    Key {
        name: "ethertype",
        value: "NUMBER",
        doc: "EtherType of frames, for both directions [default: 0x88b5 there, 0x88b6 back]",
        paths: Some(|_, traits| traits.device),
        set: |settings, text| {
            put(
                &mut settings.channel.ethertype,
                ethertype(text).map(Some).ok_or_else(|| "a number such as 0x88b5".into()),
            )
        },
    },
    Key {
        name: "mac",
        value: "MAC",
        doc: "MAC address that frames go to: 02:00:00:00:00:01 or broadcast [default: the server's]",
        paths: Some(|_, traits| traits.device),
        set: |settings, text| {
            let known = msgpath_paths::transports::eth::parse_mac(text).is_some();
            let bad = || "six bytes such as 02:00:00:00:00:01, or broadcast".into();
            put(&mut settings.channel.mac_address, known.then(|| Some(text.into())).ok_or_else(bad))
        },
    },
    Key {
        name: "wait",
        value: "WAIT",
        doc: "Receive mode of every path that names none: spin costs a CPU at each end",
        paths: None,
        set: |settings, text| put(&mut settings.wait, word(text).map(Some)),
    },
    Key {
        name: "wire",
        value: "RATE",
        doc: "Speed of the wire between the ends in bits a second, where their devices do not tell it: 54M",
        paths: None,
        set: |settings, text| put(&mut settings.wire, count(text).map(|bits| Some(bits).filter(|bits| *bits > 0))),
    },
    Key {
        name: "arrivals",
        value: "poisson|constant",
        doc: "Gaps between the messages of a schedule (--rate): independent users, or all the same [default: poisson]",
        paths: None,
        set: |settings, text| {
            let words = [("poisson", Some(Arrivals::Poisson)), ("constant", Some(Arrivals::Constant))];
            put(&mut settings.arrivals, one_of(text, words))
        },
    },
    Key {
        name: "service-time",
        value: "TIME",
        doc: "What the server computes for each message before it answers: 5us, or exp:5us (exponential, with this mean) [default: \
              nothing]",
        paths: None,
        set: |settings, text| {
            let bad = || "a time such as 5us or exp:5us".into();
            put(&mut settings.service_time, service_time(text).map(Some).ok_or_else(bad))
        },
    },
    Key {
        name: "working-set",
        value: "SIZE",
        doc: "Bytes over which each end rotates its message buffers, so that they leave the cache [default: one buffer]",
        paths: None,
        set: |settings, text| put(&mut settings.working_set, size(text)),
    },
    Key {
        name: "stamps",
        value: "near|both",
        doc: "Where messages are stamped: at the client (round trips), or at both ends (one way as well; where they share no clock, \
              with a bound) [default: near]",
        paths: None,
        set: |settings, text| put(&mut settings.stamps, one_of(text, [("near", Stamps::Near), ("both", Stamps::Both)])),
    },
    Key {
        name: "message-log",
        value: "N",
        doc: "Messages that the per-message log keeps; histograms count all of them [default: 2M]",
        paths: None,
        set: |settings, text| put(&mut settings.message_log, count(text).map(Some)),
    },
    Key {
        name: "frame",
        value: "bytes|line|length",
        doc: "What a program of yours (--server) takes for a message: as many bytes as -l, text that ends with a newline, or its length \
              in 4 bytes before it, the most significant first [default: bytes]",
        paths: None,
        set: |settings, text| {
            put(&mut settings.frame, Framing::find(text).map(Some).ok_or_else(|| "bytes, line or length".into()))
        },
    },
    Key {
        name: "request-file",
        value: "FILE",
        doc: "Send the bytes of FILE to a program of yours as every message; a reply of another length: --reply",
        paths: None,
        set: |settings, text| put(&mut settings.request_file, word(text).map(|file| Some(file.into()))),
    },
    Key {
        name: "patience",
        value: "TIME",
        doc: "How long a program of yours (--server) may take until it listens [default: 10s]",
        paths: None,
        set: |settings, text| put(&mut settings.patience_ms, patience(text).map(Some)),
    },
    Key {
        name: "fresh",
        value: "yes|no",
        doc: "With --each: a new connection for every message [default: no]",
        paths: None,
        set: |settings, text| put(&mut settings.fresh, yes(text)),
    },
    Key {
        name: "burst",
        value: "yes|no",
        doc: "Measure what a message takes at the begin of a round, on a fresh connection between CPUs that have just worked, instead \
              of the steady state after it [default: no]",
        paths: None,
        set: |settings, text| put(&mut settings.burst, yes(text)),
    },
    Key {
        name: "restarts",
        value: "N",
        doc: "Fresh processes of the server, with the rounds spread over them [default: 1]",
        paths: None,
        set: |settings, text| put(&mut settings.restarts, crate::typed::number(text).map_err(|error| error.what)),
    },
    Key {
        name: "seed",
        value: "N",
        doc: "Reproduces the random order of the rounds [default: random, recorded]",
        paths: None,
        set: |settings, text| put(&mut settings.seed, text.parse().map(Some).map_err(|_| "a whole number".into())),
    },
    Key {
        name: "what-ifs",
        value: "yes|no",
        doc: "Suspected causes are tried in short rounds beside the case [default: yes]",
        paths: None,
        set: |settings, text| put(&mut settings.what_ifs, yes(text)),
    },
    Key {
        name: "extend",
        value: "yes|no",
        doc: "The run goes on where other work or the hypervisor disturbed more than a quarter of its rounds [default: yes]",
        paths: None,
        set: |settings, text| put(&mut settings.extend, yes(text)),
    },
    Key {
        name: "refine",
        value: "yes|no",
        doc: "compare adds sizes near a crossing [default: yes]",
        paths: None,
        set: |settings, text| put(&mut settings.refine, yes(text)),
    },
    Key {
        name: "events",
        value: "auto|on|off",
        doc: "Count events of CPU and kernel in the threads of both ends (cycles, cache misses, switches), in rounds of their own: where \
              a CPU counts, everywhere, or never [default: auto]",
        paths: None,
        set: |settings, text| {
            let words = [("auto", Events::Auto), ("on", Events::On), ("off", Events::Off)];
            put(&mut settings.events, one_of(text, words))
        },
    },
    Key {
        name: "simulate-cache",
        value: "yes|no",
        doc: "Afterwards the client's loop of each case (the first 8) runs once more under valgrind's cachegrind: instructions and \
              cache misses in user mode, simulated, without the kernel's copies [default: no]",
        paths: None,
        set: |settings, text| put(&mut settings.simulate_cache, yes(text)),
    },
];

fn put<T>(field: &mut T, value: Result<T, String>) -> Result<(), String> {
    *field = value?;
    Ok(())
}

fn yes(text: &str) -> Result<bool, String> {
    one_of(text, [("yes", true), ("no", false)])
}

/// What a word stands for; else which words there are: `auto, on or off`.
fn one_of<T: Copy, const N: usize>(text: &str, words: [(&str, T); N]) -> Result<T, String> {
    let known = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    known.ok_or_else(|| {
        let names = words.map(|(word, _)| word);
        let (last, others) = names.split_last().expect("a key that takes words has some");
        format!("{} or {last}", others.join(", "))
    })
}

fn word(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("a name".into()) } else { Ok(text.into()) }
}

fn size(text: &str) -> Result<u64, String> {
    units::parse_size(text).map_err(|error| error.what)
}

fn time(text: &str) -> Result<u64, String> {
    units::parse_time(text).map_err(|error| error.what)
}

fn patience(text: &str) -> Result<u32, String> {
    let ms = time(text)? / 1_000_000;
    u32::try_from(ms).ok().filter(|ms| *ms > 0).ok_or_else(|| "a time such as 30s or 2m".into())
}

fn count(text: &str) -> Result<u64, String> {
    units::parse_count(text).map_err(|error| error.what)
}

/// Hexadecimal with 0x, or decimal.
pub fn ethertype(text: &str) -> Option<u16> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => u16::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None => text.parse().ok(),
    }
}

/// A name of a DSCP (RFC 4594, RFC 8622), or the byte.
fn traffic_class(text: &str) -> Option<u8> {
    let digit = |text: &str, most: u8| text.parse::<u8>().ok().filter(|digit| *digit <= most);
    match text {
        "ef" => Some(46 << 2),
        "le" => Some(1 << 2),
        _ => match (text.strip_prefix("cs"), text.strip_prefix("af"), text.strip_prefix("0x")) {
            (Some(class), ..) => digit(class, 7).map(|class| class << 5),
            (_, Some(both), _) if both.len() == 2 && both.is_ascii() => {
                let (class, drop) = both.split_at(1);
                let (class, drop) = (digit(class, 4)?, digit(drop, 3)?);
                (class > 0 && drop > 0).then_some((8 * class + 2 * drop) << 2)
            }
            (.., Some(digits)) => u8::from_str_radix(digits, 16).ok(),
            _ => None,
        },
    }
}

/// `5us`, or `exp:5us`.
fn service_time(text: &str) -> Option<ServiceTime> {
    let (distribution, time) = match text.split_once(':') {
        Some(("exp", time)) => (Distribution::Exponential, time),
        Some(_) => return None,
        None => (Distribution::Constant, text),
    };
    let mean_ns = units::parse_time(time).ok().filter(|ns| *ns > 0)?;
    Some(ServiceTime { mean_ns, distribution })
}

fn segments(_: &PathName, traits: &Traits) -> bool {
    traits.segments
}

fn in_family(path: &PathName, families: &[meta::Family]) -> bool {
    msgpath_paths::transport(&path.transport).is_some_and(|transport| families.contains(&transport.meta().family))
}

fn has_socket(path: &PathName, _: &Traits) -> bool {
    in_family(path, &[meta::Family::Socket, meta::Family::Packet, meta::Family::PacketRing])
}

impl Key {
    /// By its name.
    ///
    /// # Errors
    /// There is none; the nearest one is named.
    pub fn find(name: &str) -> Result<&'static Key, Problem> {
        KEYS.iter().find(|key| key.name == name).ok_or_else(|| {
            let near = nearest(name, KEYS.iter().map(|key| key.name));
            let near = near.and_then(|near| KEYS.iter().find(|key| key.name == near));
            let hint =
                near.map_or_else(|| LIST.into(), |key| format!("-o {}={}        list: {LIST}", key.name, key.value));
            usage(format!("-o has no key {name:?}")).hint(hint)
        })
    }

    /// The transports with a path that takes it, in the registry's order; empty: it is about the run.
    pub fn transports(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for entry in self.paths.iter().flat_map(|fits| {
            msgpath_paths::all().into_iter().filter(|entry| fits(&entry.name, &msgpath_paths::traits(&entry.name)))
        }) {
            if !names.contains(&entry.name.transport) {
                names.push(entry.name.transport);
            }
        }
        names
    }
}

/// The command that lists the keys.
const LIST: &str = "msgpath paths -o";

/// One `KEY=VALUE`, whose value was found to be one.
#[derive(Clone, Debug)]
pub struct Assignment {
    key: &'static Key,
    value: String,
}

/// `-o`.
#[derive(Args, Clone, Debug, Default)]
pub struct Set {
    /// A rare setting: nodelay=no, sndbuf=64K, stamps=both ...; several with commas or by repeating; msgpath paths -o lists them
    #[arg(short = 'o', long, value_name = "KEY=VALUE", value_parser = assignments)]
    pub set: Vec<List<Assignment>>,
}

/// `KEY=VALUE,KEY=VALUE`.
fn assignments(text: &str) -> Result<List<Assignment>, Problem> {
    text.split(',').map(assignment).collect::<Result<_, _>>().map(List)
}

fn assignment(text: &str) -> Result<Assignment, Problem> {
    let Some((name, value)) = text.split_once('=') else {
        let key = Key::find(text)?;
        return Err(usage(format!("-o takes KEY=VALUE, got {text:?}")).hint(format!("-o {}={}", key.name, key.value)));
    };
    let key = Key::find(name)?;
    (key.set)(&mut Settings::default(), value)
        .map_err(|expected| bad_value(&format!("-o {name}"), format!("{expected}, got {value:?}")))?;
    Ok(Assignment { key, value: value.into() })
}

impl Set {
    /// What is set; of a key that was typed twice the last value holds.
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        for Assignment { key, value } in self.set.iter().flat_map(|List(set)| set) {
            (key.set)(&mut settings, value).expect("the parser has tried it");
            if !settings.is_typed(key.name) {
                settings.typed.push(key);
            }
        }
        settings
    }
}

impl Settings {
    /// Without rounds beside those of the cases, unless they were asked for.
    #[must_use]
    pub fn quick(mut self) -> Self {
        self.what_ifs &= self.is_typed("what-ifs");
        self.extend &= self.is_typed("extend");
        self.refine &= self.is_typed("refine");
        if !self.is_typed("events") {
            self.events = Events::Off;
        }
        self
    }

    /// Whether a key was typed.
    pub fn is_typed(&self, name: &str) -> bool {
        self.typed.iter().any(|key| key.name == name)
    }

    /// Every key that was typed has a meaning for one path at least.
    ///
    /// # Errors
    /// E51: one has none.
    pub fn fit(&self, paths: &[PathName]) -> Result<(), Problem> {
        let takes = |fits: Fits| paths.iter().any(|path| fits(path, &msgpath_paths::traits(path)));
        match self.typed.iter().find(|key| key.paths.is_some_and(|fits| !takes(fits))) {
            None => Ok(()),
            Some(key) => {
                let named: Vec<String> = paths.iter().map(ToString::to_string).collect();
                Err(Problem::new(
                    "E51",
                    Exit::Usage,
                    format!("-o {} has no meaning for {}", key.name, named.join(", ")),
                )
                .why(format!("it is a setting of {}", key.transports().join(", ")))
                .hint(format!("leave it out        list: {LIST}")))
            }
        }
    }

    /// A verb that takes some keys only.
    ///
    /// # Errors
    /// Another one was typed.
    pub fn only(&self, verb: &str, keys: &[&str]) -> Result<(), Problem> {
        match self.typed.iter().find(|key| !keys.contains(&key.name)) {
            None => Ok(()),
            Some(key) => Err(usage(format!("-o {} has no meaning for {verb}", key.name))
                .why(format!("it takes {}", keys.join(", ")))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> Result<Settings, Problem> {
        Ok(Set { set: vec![assignments(text)?] }.settings())
    }

    #[test]
    fn keys_are_named_once_and_say_what_they_mean() {
        for (at, key) in KEYS.iter().enumerate() {
            assert!(KEYS[..at].iter().all(|other| other.name != key.name), "{}", key.name);
            assert!(!key.doc.is_empty() && !key.value.is_empty() && !key.name.contains(['=', ',']), "{}", key.name);
            assert!(key.paths.is_none() || !key.transports().is_empty(), "no path takes {}", key.name);
        }
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        let problem = set("nodealy=no").unwrap_err();
        assert!(problem.hint.contains("nodelay=yes|no"), "{problem}");
        assert!(set("nothing-like-it=1").unwrap_err().hint.contains("paths -o"));
        assert!(set("nodelay").unwrap_err().hint.contains("nodelay=yes|no"));
    }

    #[test]
    fn a_value_is_checked_where_it_is_typed() {
        for (text, expected) in [
            ("nodelay=maybe", "yes or no"),
            ("cork=", "yes, no or held"),
            ("sndbuf=large", "size"),
            ("ip=5", "4 or 6"),
            ("bind=here", "an IP address"),
            ("ethertype=0x10000", "0x88b5"),
            ("tos=af40", "af41"),
            ("tos=cs8", "cs1"),
            ("tos=0x100", "0xb8"),
            ("mac=02:00", "broadcast"),
            ("frame=words", "bytes, line or length"),
            ("restarts=0", "whole number"),
            ("service-time=uniform:5us", "exp:5us"),
            ("service-time=0us", "exp:5us"),
            ("service-time=5", "exp:5us"),
        ] {
            let problem = set(text).unwrap_err();
            assert!(problem.what.contains(expected), "{text}: {problem}");
        }
    }

    #[test]
    fn values_arrive_and_the_last_holds() {
        let all = set("nodelay=no,cork=held,sndbuf=64K,poll-time=7us,nodelay=yes,ethertype=2048,stamps=both").unwrap();
        let channel = &all.channel;
        assert_eq!((channel.nodelay, channel.cork, channel.hold_cork), (true, false, true));
        assert_eq!((channel.send_buffer, channel.busy_poll_us, channel.ethertype), (Some(64 << 10), 7, Some(2048)));
        assert_eq!(all.stamps, Stamps::Both);
        for (text, class) in [("ef", 0xb8), ("cs1", 0x20), ("af41", 0x88), ("le", 4), ("0x2e", 0x2e), ("cs0", 0)] {
            assert_eq!(set(&format!("tos={text}")).unwrap().channel.traffic_class, Some(class), "{text}");
        }
        let exponential = set("service-time=exp:1.5ms").unwrap().service_time;
        let time = ServiceTime { mean_ns: 1_500_000, distribution: Distribution::Exponential };
        assert_eq!(exponential, Some(time));
        assert!(all.is_typed("cork") && !all.is_typed("rcvbuf"));
    }

    #[test]
    fn a_key_must_have_a_meaning_for_a_path() {
        let settings = set("nodelay=no").unwrap();
        let paths = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<PathName>>();
        let problem = settings.fit(&paths(&["unix:send", "pipe:write"])).unwrap_err();
        assert!(problem.code == "E51" && problem.what.contains("-o nodelay has no meaning for unix:send"), "{problem}");
        assert!(problem.why.contains("tcp"), "{problem}");
        assert_eq!(settings.fit(&paths(&["unix:send", "tcp:send"])), Ok(()));
        assert_eq!(set("seed=7").unwrap().fit(&paths(&["unix:send"])), Ok(()));
    }
}
