//! A lab with names: it stays until it is taken down.
//!
//! What was made is written down before it is made, so that a program that was killed in the middle is found by the next
//! one and cleared away. Nothing is ever removed that is not written down.

use std::fs;
use std::path::{Path, PathBuf};

use msgpath_core::plan::{Between, EndPlace};
use msgpath_core::{Exit, Problem};
use serde::{Deserialize, Serialize};

use super::iproute::{Program, batch};
use super::spec::LabSpec;

/// The device of each place.
const DEVICE: &str = "mp0";

/// A lab that somebody put up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptLab {
    /// Its name.
    pub name: String,
    /// Its places, in order.
    pub places: Vec<EndPlace>,
    /// The namespace of the bridge, where there are more than two places.
    pub switch: Option<String>,
    /// What the cables do, for people.
    pub shape: String,
    /// Process that makes it, and when that was started (clock ticks since boot); `None`: it is made.
    pub making: Option<(u32, u64)>,
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
        clear_unfinished();
        if Self::find(name).is_some() {
            return Err(Problem::new("E40", Exit::CannotStart, format!("there is a lab named {name} already"))
                .hint(format!("msgpath lab down {name}, or another name")));
        }
        let namespace = |end: String| format!("msgpath-{name}-{end}");
        let places = (0..spec.hosts).map(|host| {
            let letter = letter(host);
            EndPlace {
                name: format!("{name}.{letter}"),
                namespace: format!("/run/netns/{}", namespace(letter)),
                address: spec.address(host).to_string(),
            }
        });
        let mut lab = Self {
            name: name.into(),
            places: places.collect(),
            switch: (spec.hosts > 2).then(|| namespace("switch".into())),
            shape: describe(spec),
            making: Some((std::process::id(), started(std::process::id()).unwrap_or(0))),
        };
        if let Some(taken) = lab.namespaces().iter().find(|name| Path::new("/run/netns").join(name).exists()) {
            return Err(Problem::new("E40", Exit::CannotStart, format!("the namespace {taken} is taken"))
                .why("it was not made by msgpath, so it is left alone")
                .hint("another name for the lab"));
        }
        lab.write()?;
        if let Err(problem) = lab.make(spec) {
            lab.clear();
            return Err(problem);
        }
        lab.making = None;
        lab.write()?;
        Ok(lab)
    }

    fn make(&self, spec: &LabSpec) -> Result<(), Problem> {
        batch(
            Program::Ip,
            None,
            &self.namespaces().iter().map(|name| format!("netns add {name}")).collect::<Vec<_>>(),
        )?;
        let host = |at: usize| own_name(&self.places[at].namespace);
        match &self.switch {
            None => {
                let (a, b) = (host(0), host(1));
                let cable = format!("link add {DEVICE} netns {a} type veth peer name {DEVICE} netns {b}");
                batch(Program::Ip, None, &[cable])?;
            }
            Some(switch) => {
                let cables: Vec<String> = (0..self.places.len())
                    .map(|at| {
                        format!("link add {DEVICE} netns {} type veth peer name port{at} netns {switch}", host(at))
                    })
                    .collect();
                batch(Program::Ip, None, &cables)?;
                let mut bridge = vec!["link add br0 type bridge".to_owned(), "link set dev br0 up".into()];
                for at in 0..self.places.len() {
                    if let Some(mtu) = spec.shape.mtu {
                        bridge.push(format!("link set dev port{at} mtu {mtu}"));
                    }
                    bridge.push(format!("link set dev port{at} master br0"));
                    bridge.push(format!("link set dev port{at} up"));
                }
                batch(Program::Ip, Some(switch), &bridge)?;
            }
        }
        for (at, place) in self.places.iter().enumerate() {
            let namespace = own_name(&place.namespace);
            batch(Program::Ip, Some(namespace), &spec.configure(DEVICE, at as u32))?;
            batch(Program::Tc, Some(namespace), &spec.shape(DEVICE))
                .map_err(|problem| spec.explain(problem, Program::Tc))?;
        }
        Ok(())
    }

    /// Takes a lab down.
    ///
    /// # Errors
    /// E40: there is none of that name, or some of it could not be removed.
    pub fn down(name: &str) -> Result<(), Problem> {
        clear_unfinished();
        let lab = Self::find(name).ok_or_else(|| no_such(name))?;
        let left = lab.clear();
        match left.is_empty() {
            true => Ok(()),
            false => Err(Problem::new("E40", Exit::Unfinished, format!("could not be removed: {}", left.join(", ")))
                .hint("as root")),
        }
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
            None if self.namespaces().iter().all(|name| Path::new("/run/netns").join(name).exists()) => LabState::Up,
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
                .hint(format!("msgpath lab down {0}, then msgpath lab up {0}", self.name)));
        }
        let place = |wanted: Option<&str>, usual: usize| match wanted {
            None => Ok(self.places[usual].clone()),
            Some(name) => self.places.iter().find(|place| place.name == name).cloned().ok_or_else(|| no_such(name)),
        };
        Ok(Between { near: place(near, 0)?, far: place(far, 1)? })
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

    fn write(&self) -> Result<(), Problem> {
        let cannot = |error: std::io::Error| {
            Problem::new("E40", Exit::CannotStart, format!("the lab cannot be written down: {error}"))
                .why("what is not written down cannot be removed again, so it is not made")
                .hint("as root, or --between lab, which needs no names")
        };
        fs::create_dir_all(folder()).map_err(cannot)?;
        let json = serde_json::to_vec_pretty(self).expect("plain values");
        fs::write(file_of(&self.name), json).map_err(cannot)
    }

    /// Removes what is written down, then the writing. Returns what is still there.
    fn clear(&self) -> Vec<String> {
        let there = |name: &String| Path::new("/run/netns").join(name).exists();
        let all: Vec<String> = self.namespaces().into_iter().filter(there).collect();
        // One by one: the failure of one must not keep the others.
        for name in &all {
            let _ = batch(Program::Ip, None, &[format!("netns delete {name}")]);
        }
        let left: Vec<String> = all.into_iter().filter(there).collect();
        if left.is_empty() {
            let _ = fs::remove_file(file_of(&self.name));
            // Empty folders go as well; others' stay.
            let _ = fs::remove_dir(folder()).and_then(|()| fs::remove_dir("/run/msgpath"));
        }
        left
    }
}

/// Removes labs whose maker has ended before they were whole.
fn clear_unfinished() {
    for lab in KeptLab::list() {
        if lab.making.is_some() && lab.state() == LabState::Broken {
            lab.clear();
        }
    }
}

fn no_such(name: &str) -> Problem {
    Problem::new("E40", Exit::CannotStart, format!("there is no lab or place named {name}")).hint("msgpath lab status")
}

fn check_name(name: &str) -> Result<(), Problem> {
    let good = (1..=24).contains(&name.len()) && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    match good {
        true => Ok(()),
        false => Err(Problem::new("E11", Exit::Usage, format!("{name:?} is no name for a lab"))
            .hint("1 to 24 small letters and digits")),
    }
}

fn folder() -> PathBuf {
    PathBuf::from("/run/msgpath/labs")
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

/// When a process was started, clock ticks since boot (proc(5), field 22 of stat); `None`: there is none.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn describe(spec: &LabSpec) -> String {
    use msgpath_core::units::{BitUnits, Glyphs, bits_per_second};
    let shape = &spec.shape;
    let share = |word: &str, ppm: Option<u32>| ppm.map(|ppm| format!("{word} {} %", f64::from(ppm) / 1e4));
    let parts = [
        shape.mtu.map(|mtu| format!("MTU {mtu}")),
        shape.rate.map(|rate| bits_per_second(rate as f64, BitUnits::Si)),
        shape.delay_ns.map(|ns| format!("delay {}", Glyphs::Unicode.time(ns as f64))),
        share("loss", shape.loss_ppm),
        share("duplicates", shape.duplicate_ppm),
        share("reordering", shape.reorder_ppm),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab() -> KeptLab {
        let place = |letter: &str| EndPlace {
            name: format!("test.{letter}"),
            namespace: format!("/run/netns/msgpath-test-{letter}"),
            address: "10.66.0.1".into(),
        };
        KeptLab {
            name: "test".into(),
            places: vec![place("a"), place("b")],
            switch: None,
            shape: String::new(),
            making: Some((std::process::id(), started(std::process::id()).unwrap())),
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
    fn names_are_small_and_plain() {
        assert!(check_name("lab").is_ok() && check_name("lab2").is_ok());
        for name in ["", "Lab", "a-b", "a/b", "..", &"x".repeat(25)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
