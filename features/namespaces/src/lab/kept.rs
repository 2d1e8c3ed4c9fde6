//! A lab with names: it stays until it is taken down.
//!
//! What was made is written down before it is made, so that a program that was killed in the middle is found by the next
//! one and cleared away. Nothing is ever removed that is not written down.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use msgpath_core::plan::{Between, EndPlace};
use msgpath_core::{Exit, Problem};
use msgpath_sys::pidfd::{self, started};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::iproute::{Program, batch};
use super::relay::{self, Relay, RelayedPackets};
use super::spec::LabSpec;
use msgpath_run::places::within;

use super::{needs_relay, offloads};

/// The device of each place.
const DEVICE: &str = "mp0";
/// How long a relay may take to end, ns.
const RELAY_ENDS_NS: u64 = 2_000_000_000;
/// How long another msgpath may be busy with labs before one gives up.
const BUSY: Duration = Duration::from_secs(20);
/// Everything that is written down of labs.
const HOME: &str = "/run/msgpath";
/// Ending of a file that is being written.
const DRAFT: &str = "draft";

/// A lab that somebody put up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptLab {
    pub name: String,
    /// In the order of their addresses.
    pub places: Vec<EndPlace>,
    /// The namespace of the bridge or of the relay, where there is one.
    pub switch: Option<String>,
    /// What the links do, for people.
    pub shape: String,
    /// Process that makes it, and when that was started (clock ticks since boot); `None`: it is made.
    pub making: Option<(u32, u64)>,
    /// What its users must know, sentence by sentence.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The relay, where there is one instead of the bridge.
    #[serde(default)]
    pub relay: Option<LabRelay>,
}

/// The relay of a lab: a process that passes on all frames.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct LabRelay {
    /// Process id.
    pub pid: u32,
    /// When the process was started, clock ticks since boot.
    pub started: u64,
    /// Seed of all that is random in it: which frames are lost, sent twice or overtake others.
    pub seed: u64,
    /// Delay that the relay adds by itself in each direction, ns; `None`: not known.
    pub added_ns: Option<u64>,
}

impl LabRelay {
    fn process(&self) -> Option<pidfd::Process> {
        pidfd::Process::find(self.pid, self.started, relay::NAME).ok()
    }
}

/// A relay of which no lab is known: its maker was killed, or the file of its lab was removed.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct LostRelay {
    /// Name of the lab for which it was started.
    pub lab: String,
    /// Process id.
    pub pid: u32,
    #[serde(skip)]
    started: u64,
}

/// A lab as it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabState {
    /// All of its namespaces are there.
    Up,
    /// Somebody is making it now.
    Making,
    /// Some of it is missing, or it was never finished.
    Broken,
}

impl KeptLab {
    /// Makes a lab. Called as root.
    ///
    /// # Errors
    /// E40: no root, a name that is taken, or what iproute2 said; E41. Nothing is left of a lab that could not be made.
    pub fn up(name: &str, spec: &LabSpec) -> Result<Self, Problem> {
        spec.check()?;
        check_name(name)?;
        let busy = Busy::begin().map_err(cannot_write)?;
        clear_unfinished();
        if Self::find(name).is_some() {
            return Err(there_is(name));
        }
        let namespace = |end: String| format!("msgpath-{name}-{end}");
        let places = (0..spec.hosts).map(|host| {
            let letter = letter(host);
            EndPlace {
                name: format!("{name}.{letter}"),
                namespace: format!("/run/netns/{}", namespace(letter)),
                address: spec.address(host).to_string(),
                ..EndPlace::default()
            }
        });
        let relayed = needs_relay(&spec.shape);
        let mut lab = Self {
            name: name.into(),
            places: places.collect(),
            switch: (spec.hosts > 2 || relayed).then(|| namespace("switch".into())),
            shape: spec.shape.describe(),
            making: Some((std::process::id(), started(std::process::id()).unwrap_or(0))),
            notes: Vec::new(),
            relay: None,
        };
        if let Some(taken) = lab.namespaces().iter().find(|name| Path::new("/run/netns").join(name).exists()) {
            return Err(Problem::new("E40", Exit::CannotStart, format!("the namespace {taken} is taken"))
                .why("it was not made by msgpath, so it is left alone")
                .hint("another name for the lab"));
        }
        // Only one of two that are started at once gets the name.
        lab.write(true)?;
        drop(busy);
        let made = lab.make(spec, relayed).and_then(|()| {
            lab.making = None;
            lab.write(false)
        });
        match made {
            Ok(()) => Ok(lab),
            Err(problem) => {
                // Nobody else clears it while this process lives; what is held here are the folders that may go with it.
                let _busy = Busy::begin();
                lab.clear();
                Err(problem)
            }
        }
    }

    fn make(&mut self, spec: &LabSpec, relayed: bool) -> Result<(), Problem> {
        batch(
            Program::Ip,
            None,
            &self.namespaces().iter().map(|name| format!("netns add {name}")).collect::<Vec<_>>(),
        )?;
        let names = self.namespaces();
        let host = |at: usize| names[at].as_str();
        match &self.switch {
            None => {
                let (a, b) = (host(0), host(1));
                let link = format!("link add {DEVICE} netns {a} type veth peer name {DEVICE} netns {b}");
                batch(Program::Ip, None, &[link])?;
            }
            Some(switch) => {
                let links: Vec<String> = (0..self.places.len())
                    .map(|at| {
                        format!("link add {DEVICE} netns {} type veth peer name port{at} netns {switch}", host(at))
                    })
                    .collect();
                batch(Program::Ip, None, &links)?;
                // The relay makes its ports ready itself.
                if !relayed {
                    batch(Program::Ip, Some(switch), &bridge(self.places.len(), spec.shape.mtu))?;
                }
            }
        }
        for (at, place) in self.places.iter().enumerate() {
            let namespace = own_name(&place.namespace);
            batch(Program::Ip, Some(namespace), &spec.configure(DEVICE, at as u32))?;
            batch(Program::Tc, Some(namespace), &spec.shape(DEVICE, relayed))
                .map_err(|problem| spec.explain(problem))?;
        }
        if let Some(on) = spec.offloads(relayed) {
            self.switch_offloads(on, relayed)?;
        }
        if relayed { self.start_relay(spec) } else { Ok(()) }
    }

    /// Offloads of every device of the lab; those of the relay's ports are the relay's business.
    fn switch_offloads(&mut self, on: bool, relayed: bool) -> Result<(), Problem> {
        let place = |place: &EndPlace| (place.name.clone(), place.namespace.clone(), DEVICE.to_owned());
        let mut devices: Vec<_> = self.places.iter().map(place).collect();
        if let Some(switch) = self.switch.as_ref().filter(|_| !relayed) {
            let file = format!("/run/netns/{switch}");
            devices.extend((0..self.places.len()).map(|at| (format!("port{at}"), file.clone(), format!("port{at}"))));
        }
        for (name, namespace, device) in devices {
            let left = within(Path::new(&namespace), move || offloads::switch(&device, on))?;
            self.notes.extend(offloads::note(&name, on, &left));
        }
        Ok(())
    }

    /// Starts the relay, measures what it adds, and tells it what to do. It is written down before it may outlive us.
    fn start_relay(&mut self, spec: &LabSpec) -> Result<(), Problem> {
        let switch = self.switch.as_deref().unwrap_or_default();
        let mut relay = Relay::start(Some((&self.name, &Path::new("/run/netns").join(switch))))?;
        let seed = relay::seed();
        let kept = LabRelay { pid: relay.id(), started: started(relay.id()).unwrap_or(0), seed, added_ns: None };
        self.relay = Some(kept.clone());
        self.write(false)?;
        relay.open_ports(spec.hosts, spec.shape.mtu)?;
        let (own, far) = (spec.address(0), spec.address(1));
        let added_ns = within(Path::new(&self.places[0].namespace), move || relay::added(own, far))?;
        relay.shape(&spec.shape, seed)?;
        let (note, words) = relay::words(&spec.shape, added_ns);
        self.notes.push(note);
        self.shape += &words;
        self.relay = Some(LabRelay { added_ns, ..kept });
        relay.stay(self.socket())
    }

    /// What the relay has done with the frames since the lab was made; `None`: there is none, or it does not say.
    pub fn counts(&self) -> Option<RelayedPackets> {
        self.relay.as_ref().and_then(|_| relay::ask(&self.socket()))
    }

    /// What is wrong with it, for people; `None`: nothing.
    pub fn missing(&self) -> Option<String> {
        let gone: Vec<String> =
            self.namespaces().into_iter().filter(|name| !Path::new("/run/netns").join(name).exists()).collect();
        match (&self.relay, gone.is_empty()) {
            (_, false) => Some(format!("gone: {}", gone.join(", "))),
            (Some(relay), true) if relay.process().is_none() => {
                Some(format!("its relay (process {}) has ended", relay.pid))
            }
            _ if self.making.is_some() && self.state() == LabState::Broken => Some("its maker was ended".into()),
            _ => None,
        }
    }

    fn socket(&self) -> PathBuf {
        folder().join(format!("{}.sock", self.name))
    }

    /// Processes that are in one of its places, the relay aside.
    fn users(&self) -> Vec<String> {
        let id = |file: &Path| fs::metadata(file).ok().map(|data| (data.dev(), data.ino()));
        let places: Vec<_> =
            self.places.iter().filter_map(|place| Some((place, id(Path::new(&place.namespace))?))).collect();
        let mut users = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok) {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            let Some(found) = id(&entry.path().join("ns/net")) else { continue };
            if let Some((place, _)) = places.iter().find(|(_, place)| *place == found) {
                let name = pidfd::name(pid).unwrap_or_default();
                users.push(format!("{name} (process {pid}) in {}", place.name));
            }
        }
        users
    }

    /// Takes a lab down. `force`: also where somebody is in it.
    ///
    /// # Errors
    /// E40: there is none of that name, or some of it could not be removed. E47: somebody is in it.
    pub fn down(name: &str, force: bool) -> Result<(), Problem> {
        let _busy = Busy::begin().map_err(|error| match Self::find(name) {
            Some(_) => not_removed(&[format!("the lab {name} ({error})")]),
            None => no_such(name),
        })?;
        let unfinished = clear_unfinished();
        let lost: Vec<LostRelay> = Self::lost_relays().into_iter().filter(|relay| relay.lab == name).collect();
        for LostRelay { pid, started, .. } in &lost {
            let ended = pidfd::Process::find(*pid, *started, relay::NAME).and_then(|relay| relay.end(RELAY_ENDS_NS));
            if !matches!(ended, Ok(true)) && pidfd::started(*pid) == Some(*started) {
                return Err(not_removed(&[format!("the relay, process {pid}")]));
            }
        }
        let Some(lab) = Self::find(name) else {
            // What was to go is gone.
            let there_was = !lost.is_empty() || unfinished.iter().any(|lab| lab == name);
            return if there_was { Ok(()) } else { Err(no_such(name)) };
        };
        let users = lab.users();
        if !users.is_empty() && !force {
            return Err(Problem::new("E47", Exit::CannotStart, format!("the lab {name} is in use"))
                .why(users.join(", "))
                .hint(format!(
                    "when they are through, or msgpath lab down {name} --force, which takes their links away"
                )));
        }
        let left = lab.clear();
        match left.is_empty() {
            true => Ok(()),
            false => Err(not_removed(&left)),
        }
    }

    /// Relays whose labs are not there any more, or have another one.
    pub fn lost_relays() -> Vec<LostRelay> {
        // In this order: what was written down before a relay was seen is there when the labs are read.
        let running = relay::running();
        let labs = Self::list();
        let known = |name: &str, pid: u32| {
            labs.iter().any(|lab| {
                // While it is made, its relay may run before that is written down.
                lab.name == name
                    && (lab.state() == LabState::Making || lab.relay.as_ref().is_some_and(|relay| relay.pid == pid))
            })
        };
        // One whose lab was taken down meanwhile has ended before that was.
        let lost = running.into_iter().filter(|(name, pid, since)| !known(name, *pid) && started(*pid) == Some(*since));
        lost.map(|(lab, pid, started)| LostRelay { lab, pid, started }).collect()
    }

    /// All labs that are written down, by name.
    pub fn list() -> Vec<Self> {
        let files = fs::read_dir(folder()).into_iter().flatten().filter_map(Result::ok);
        let mut labs: Vec<Self> = files
            .filter(|file| file.path().extension().is_some_and(|extension| extension == "json"))
            .filter_map(|file| serde_json::from_slice(&fs::read(file.path()).ok()?).ok())
            .filter(|lab: &Self| lab.is_plausible())
            .collect();
        labs.sort_by(|a, b| a.name.cmp(&b.name));
        labs
    }

    /// By its name.
    pub fn find(name: &str) -> Option<Self> {
        Self::list().into_iter().find(|lab| lab.name == name)
    }

    /// What there is of it.
    pub fn state(&self) -> LabState {
        match self.making {
            Some((pid, start)) if started(pid) == Some(start) => LabState::Making,
            Some(_) => LabState::Broken,
            None if self.missing().is_none() => LabState::Up,
            None => LabState::Broken,
        }
    }

    /// Two of its places: the first two, unless they are named.
    ///
    /// # Errors
    /// E40: the lab is not up, or has no such place.
    pub fn between(&self, near: Option<&str>, far: Option<&str>) -> Result<Between, Problem> {
        if self.state() != LabState::Up {
            return Err(Problem::new("E40", Exit::CannotStart, format!("the lab {} is not whole", self.name))
                .why(self.missing().unwrap_or_else(|| "it is being made".into()))
                .hint(format!("msgpath lab down {0}, then msgpath lab up {0}", self.name)));
        }
        let place = |wanted: Option<&str>, usual: usize| match wanted {
            None => Ok(self.places[usual].clone()),
            Some(name) => self.places.iter().find(|place| place.name == name).cloned().ok_or_else(|| no_such(name)),
        };
        Ok(Between { ends: vec![place(near, 0)?, place(far, 1)?], link: None, properties: self.shape.clone() })
    }

    fn namespaces(&self) -> Vec<String> {
        self.places.iter().map(|place| own_name(&place.namespace).to_owned()).chain(self.switch.clone()).collect()
    }

    /// Written by us: every name in it has our form. A file that says otherwise removes nothing.
    fn is_plausible(&self) -> bool {
        let prefix = format!("msgpath-{}-", self.name);
        let ours =
            |name: &String| name.strip_prefix(&prefix).is_some_and(|rest| rest.chars().all(|c| c.is_ascii_lowercase()));
        check_name(&self.name).is_ok() && self.places.len() >= 2 && self.namespaces().iter().all(ours)
    }

    /// Writes it down, whole or not at all. `first`: the name must be free.
    fn write(&self, first: bool) -> Result<(), Problem> {
        fs::create_dir_all(folder()).map_err(cannot_write)?;
        let json = serde_json::to_vec_pretty(self).expect("plain values");
        let (draft, file) =
            (folder().join(format!("{}.{}.{DRAFT}", self.name, std::process::id())), file_of(&self.name));
        fs::write(&draft, json).map_err(cannot_write)?;
        if !first {
            return fs::rename(&draft, file).map_err(cannot_write);
        }
        let linked = fs::hard_link(&draft, file);
        let _ = fs::remove_file(&draft);
        linked.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => there_is(&self.name),
            _ => cannot_write(error),
        })
    }

    /// Removes what is written down, then the writing. Returns what is still there.
    fn clear(&self) -> Vec<String> {
        let relay = self.relay.as_ref().and_then(LabRelay::process);
        if relay.is_some_and(|relay| !matches!(relay.end(RELAY_ENDS_NS), Ok(true))) {
            return vec![format!("the relay, process {}", self.relay.as_ref().map_or(0, |relay| relay.pid))];
        }
        let _ = fs::remove_file(self.socket());
        let there = |name: &String| Path::new("/run/netns").join(name).exists();
        let all: Vec<String> = self.namespaces().into_iter().filter(there).collect();
        // One by one: the failure of one must not keep the others.
        for name in &all {
            // A namespace with somebody in it lives on without its name; its link does not.
            let _ = batch(Program::Ip, Some(name), &[format!("link delete {DEVICE}")]);
            let _ = batch(Program::Ip, None, &[format!("netns delete {name}")]);
        }
        let left: Vec<String> = all.into_iter().filter(there).collect();
        if left.is_empty() {
            let _ = fs::remove_file(file_of(&self.name));
        }
        left
    }
}

/// Held while labs get their names or are cleared away: one program does that at a time, or two would clear the same lab,
/// the second one when it has been made anew.
struct Busy {
    lock: File,
}

impl Busy {
    /// Waits until nobody else is.
    fn begin() -> io::Result<Self> {
        let (since, path) = (Instant::now(), lock_file());
        loop {
            fs::create_dir_all(HOME)?;
            // For root alone: whoever could open it could keep everybody out.
            let lock = match File::options().create(true).append(true).mode(0o600).open(&path) {
                // Whoever held it has removed the folder meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound && since.elapsed() < BUSY => continue,
                opened => opened?,
            };
            loop {
                match lock.try_lock() {
                    Ok(()) => break,
                    Err(TryLockError::Error(error)) => return Err(error),
                    Err(TryLockError::WouldBlock) if since.elapsed() < BUSY => sleep(Duration::from_millis(10)),
                    Err(TryLockError::WouldBlock) => {
                        let words = format!("another msgpath has been busy with labs for {} s", BUSY.as_secs());
                        return Err(io::Error::new(io::ErrorKind::TimedOut, words));
                    }
                }
            }
            // Its last holder may have removed it, and another one stands there now.
            let inode = lock.metadata()?.ino();
            if fs::metadata(&path).is_ok_and(|there| there.ino() == inode) {
                return Ok(Self { lock });
            }
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // With the last lab everything goes; what is somebody else's stays.
        if fs::remove_dir(folder()).is_ok() || !folder().exists() {
            let _ = fs::remove_file(lock_file()).and_then(|()| fs::remove_dir(HOME));
        }
        let _ = self.lock.unlock();
    }
}

/// Removes labs whose maker has ended before they were whole; their names.
fn clear_unfinished() -> Vec<String> {
    let mut cleared = Vec::new();
    for lab in KeptLab::list() {
        if lab.making.is_some() && lab.state() == LabState::Broken && lab.clear().is_empty() {
            cleared.push(lab.name);
        }
    }
    // Drafts of those who were killed before they had a lab.
    for entry in fs::read_dir(folder()).into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let maker =
            name.strip_suffix(DRAFT).and_then(|rest| rest.trim_end_matches('.').rsplit_once('.')?.1.parse().ok());
        if maker.is_some_and(|pid| started(pid).is_none()) {
            let _ = fs::remove_file(entry.path());
        }
    }
    cleared
}

/// The commands that make the bridge between more than two places.
fn bridge(ports: usize, mtu: Option<u32>) -> Vec<String> {
    let mut lines = vec!["link add br0 type bridge".to_owned(), "link set dev br0 up".into()];
    for at in 0..ports {
        lines.extend(mtu.map(|mtu| format!("link set dev port{at} mtu {mtu}")));
        lines.push(format!("link set dev port{at} master br0"));
        lines.push(format!("link set dev port{at} up"));
    }
    lines
}

fn cannot_write(error: io::Error) -> Problem {
    Problem::new("E40", Exit::CannotStart, format!("the lab cannot be written down: {error}"))
        .why("what is not written down cannot be removed again, so it is not made")
        .hint("as root, or --between lab, which needs no names")
}

fn there_is(name: &str) -> Problem {
    Problem::new("E40", Exit::CannotStart, format!("there is a lab named {name} already"))
        .hint(format!("msgpath lab down {name}, or another name"))
}

fn no_such(name: &str) -> Problem {
    Problem::new("E40", Exit::CannotStart, format!("there is no lab or place named {name}")).hint("msgpath lab status")
}

fn not_removed(left: &[String]) -> Problem {
    Problem::new("E40", Exit::Unfinished, format!("could not be removed: {}", left.join(", "))).hint("as root")
}

fn check_name(name: &str) -> Result<(), Problem> {
    let good = (1..=24).contains(&name.len()) && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    match good {
        true => Ok(()),
        false => Err(Problem::new("E11", Exit::Usage, format!("{name:?} is not a name for a lab"))
            .hint("1 to 24 small letters and digits")),
    }
}

fn folder() -> PathBuf {
    Path::new(HOME).join("labs")
}

fn lock_file() -> PathBuf {
    Path::new(HOME).join("lock")
}

fn file_of(name: &str) -> PathBuf {
    folder().join(format!("{name}.json"))
}

/// `msgpath-lab-a` of `/run/netns/msgpath-lab-a`.
fn own_name(namespace: &str) -> &str {
    namespace.rsplit('/').next().unwrap_or(namespace)
}

fn letter(host: u32) -> String {
    char::from(b'a' + (host % 26) as u8).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab() -> KeptLab {
        let place = |letter: &str| EndPlace {
            name: format!("test.{letter}"),
            namespace: format!("/run/netns/msgpath-test-{letter}"),
            address: "10.66.0.1".into(),
            ..EndPlace::default()
        };
        KeptLab {
            name: "test".into(),
            places: vec![place("a"), place("b")],
            switch: None,
            shape: String::new(),
            making: Some((std::process::id(), started(std::process::id()).unwrap())),
            notes: Vec::new(),
            relay: None,
        }
    }

    #[test]
    fn only_names_of_our_form_are_ever_removed() {
        assert!(lab().is_plausible());
        let mut foreign = lab();
        foreign.places[1].namespace = "/run/netns/production".into();
        assert!(!foreign.is_plausible());
        let mut upward = lab();
        upward.switch = Some("msgpath-test-../x".into());
        assert!(!upward.is_plausible());
    }

    #[test]
    fn a_maker_that_has_ended_leaves_a_broken_lab() {
        assert_eq!(lab().state(), LabState::Making);
        let other = KeptLab { making: Some((std::process::id(), 1)), ..lab() };
        assert_eq!(other.state(), LabState::Broken, "the number was given to another process");
        let made = KeptLab { making: None, ..lab() };
        assert_eq!(made.state(), LabState::Broken, "its namespaces are not there");
        assert!(made.between(None, None).is_err());
    }

    #[test]
    fn a_foreign_process_is_not_our_relay() {
        let own = std::process::id();
        let relay = LabRelay { pid: own, started: started(own).unwrap(), seed: 0, added_ns: None };
        assert!(relay.process().is_none(), "this test has another name");
        let lab = KeptLab { relay: Some(relay), ..lab() };
        assert_eq!(lab.clear(), Vec::<String>::new(), "and is still here");
    }

    #[test]
    fn names_are_small_and_plain() {
        assert!(check_name("lab").is_ok() && check_name("lab2").is_ok());
        for name in ["", "Lab", "a-b", "a/b", "..", &"x".repeat(25)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
