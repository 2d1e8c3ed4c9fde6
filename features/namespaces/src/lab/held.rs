//! A lab that the processes of a run hold: it has no name and ends with them.

use msgpath_core::schema::{FAR, NEAR};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin};

use msgpath_agent::role::Role;
use msgpath_core::plan::{Between, EndPlace};
use msgpath_core::{Exit, Problem};
use msgpath_sys::child::MakerEnds;
use msgpath_sys::netns;
use msgpath_sys::xdp::Link;

use super::iproute::{Program, batch};
use super::relay::{self, Relay, RelayedPackets};
use super::shape::Shape;
use super::spec::LabSpec;
use msgpath_run::places::within;

use super::{napi, needs_relay, offloads};
use msgpath_run::launch::local;

/// The process that holds the far end's place ([`hold`]).
pub const HOLDER: &str = "lab-holder";

/// The device of each place.
const DEVICE: &str = "mp0";

/// Name of the near end's place in a lab that a run makes for itself.
pub const HELD_NEAR: &str = "lab a";

/// Two places: this process's own namespace, and one that a child of it holds; and a third where a relay is needed.
pub struct HeldLab {
    holder: Child,
    /// Its end is the holder's end.
    _input: ChildStdin,
    relay: Option<Relay>,
    /// The program on the near end's device, where its queue is to be polled; the holder has the other's.
    _program: Option<Link>,
    between: Between,
    notes: Vec<String>,
}

impl HeldLab {
    /// Makes the lab and moves this process to its first place. Called before the process has any other thread.
    ///
    /// # Errors
    /// E40 where neither root nor user namespaces are to be had, or what iproute2 said; E41 for a shape that this kernel
    /// does not have.
    pub fn make(spec: &LabSpec) -> Result<Self, Problem> {
        spec.check()?;
        let not_allowed = |error: io::Error| {
            let reason = netns::refusal(&error, netns::most_of_a_user());
            Problem::new("E40", Exit::CannotStart, "no network namespace can be made here")
                .why(reason.why)
                .hint(reason.hint)
        };
        match netns::unshare() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                netns::unshare_as_root_of_own().map_err(not_allowed)?;
            }
            other => other.map_err(not_allowed)?,
        }
        let (holder, input, lines) = Self::start_holder().map_err(|error| {
            Problem::new("E19", Exit::CannotStart, format!("the far end could not be started: {error}"))
        })?;
        let place = |host: u32, namespace: String| EndPlace {
            name: if host == 0 { HELD_NEAR.into() } else { "lab b".into() },
            namespace,
            address: spec.address(host).to_string(),
            addresses: [Some(spec.address(host)), spec.second_address(host)]
                .into_iter()
                .flatten()
                .map(|own| own.to_string())
                .collect(),
        };
        let own = format!("/proc/{}/ns/net", std::process::id());
        let between = Between {
            ends: vec![place(0, own), place(1, format!("/proc/{}/ns/net", holder.id()))],
            link: (spec.shape != Shape::default()).then(|| spec.shape.to_string()),
            properties: spec.shape.describe(),
        };
        // From here on the holder is ended with this value.
        let mut lab = Self { holder, _input: input, relay: None, _program: None, between, notes: Vec::new() };
        if needs_relay(&spec.shape) {
            lab.relay = Some(Relay::start(None)?);
        }
        let relayed = lab.relay.is_some();
        let far = lab.holder.id();
        let mut make = match lab.relay.as_ref().map(Relay::id) {
            None => vec![format!("link add {DEVICE} type veth peer name {DEVICE} netns {far}")],
            Some(relay) => vec![
                format!("link add {DEVICE} type veth peer name port0 netns {relay}"),
                format!("link add {DEVICE} netns {far} type veth peer name port1 netns {relay}"),
            ],
        };
        make.extend(spec.configure_held(DEVICE, 0));
        batch(Program::Ip, None, &make)?;
        batch(Program::Tc, None, &spec.shape(DEVICE, relayed)).map_err(|problem| spec.explain(problem))?;
        if spec.shape.napi == Some(true) {
            lab._program = Some(napi::attach(DEVICE)?);
        }
        lab.configure_far(spec, relayed, lines).map_err(|problem| spec.explain(problem))?;
        if let Some(on) = spec.offloads(relayed) {
            let near = offloads::switch(DEVICE, on);
            let namespace = PathBuf::from(&lab.between.of(FAR).namespace);
            let far = within(&namespace, move || offloads::switch(DEVICE, on))?;
            let notes = [(lab.between.of(NEAR), near), (lab.between.of(FAR), far)];
            lab.notes.extend(notes.iter().filter_map(|(place, left)| offloads::note(&place.name, on, left)));
        }
        if let Some(relay) = &mut lab.relay {
            relay.open_ports(2, spec.shape.mtu)?;
            let added = relay::added(spec.address(0), spec.address(1));
            relay.shape(&spec.shape, relay::seed())?;
            let (note, words) = relay::words(&spec.shape, added);
            lab.notes.push(note);
            lab.between.properties += &words;
        }
        Ok(lab)
    }

    /// What its user must know, sentence by sentence.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What has become of the frames, where a relay passed them on and still does.
    pub fn counts(&mut self) -> Option<RelayedPackets> {
        self.relay.as_mut()?.counts()
    }

    /// Where the two ends are.
    pub fn between(&self) -> &Between {
        &self.between
    }

    fn start_holder() -> io::Result<(Child, ChildStdin, BufReader<std::process::ChildStdout>)> {
        let (mut holder, input, output) =
            local::start(&mut local::program(), MakerEnds::Kills, &Role::of(HOLDER, &()))?;
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.by_ref().take(256).read_line(&mut line)?;
        if line.trim() != "held" {
            let _ = holder.kill();
            let _ = holder.wait();
            return Err(io::Error::other(format!("it said {:?}", line.trim())));
        }
        Ok((holder, input, output))
    }

    /// The holder makes its own end ready.
    fn configure_far(
        &self,
        spec: &LabSpec,
        relayed: bool,
        mut output: BufReader<std::process::ChildStdout>,
    ) -> Result<(), Problem> {
        let mut text = String::new();
        for line in spec.configure_held(DEVICE, 1) {
            text += &format!("ip {line}\n");
        }
        for line in spec.shape(DEVICE, relayed) {
            text += &format!("tc {line}\n");
        }
        if spec.shape.napi == Some(true) {
            text += &format!("{} {DEVICE}\n", napi::ORDER);
        }
        text += "end\n";
        let broken = |error: io::Error| {
            Problem::new("E40", Exit::CannotStart, format!("the far end's namespace could not be made ready: {error}"))
        };
        (&self._input).write_all(text.as_bytes()).map_err(broken)?;
        let mut answer = String::new();
        output.by_ref().take(4096).read_line(&mut answer).map_err(broken)?;
        match answer.trim() {
            "ready" => Ok(()),
            other => Err(Problem::new("E40", Exit::CannotStart, format!("the lab could not be made: {other}"))),
        }
    }
}

impl Drop for HeldLab {
    fn drop(&mut self) {
        // It is our own child, and does nothing but wait.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The holder: a new namespace, made ready as its standard input says, held until that ends.
///
/// # Errors
/// What kept it from that; the line was printed as well.
pub fn hold() -> io::Result<()> {
    let _ = std::fs::write("/proc/self/comm", "msgpath-holder");
    netns::unshare()?;
    let mut out = io::stdout().lock();
    writeln!(out, "held")?;
    out.flush()?;
    let mut input = io::stdin().lock();
    let (mut ip, mut tc, mut polled) = (Vec::new(), Vec::new(), Vec::new());
    for line in input.by_ref().take(64 << 10).lines() {
        let line = line?;
        match line.split_once(' ') {
            Some(("ip", rest)) => ip.push(rest.to_owned()),
            Some(("tc", rest)) => tc.push(rest.to_owned()),
            Some((napi::ORDER, device)) => polled.push(device.to_owned()),
            _ => break,
        }
    }
    let made = batch(Program::Ip, None, &ip).and_then(|()| batch(Program::Tc, None, &tc));
    let made = made.and_then(|()| polled.iter().map(|device| napi::attach(device)).collect::<Result<Vec<_>, _>>());
    // As long as this process.
    let (answer, _programs) = match made {
        Ok(programs) => ("ready".into(), programs),
        Err(problem) => (problem.what, Vec::new()),
    };
    writeln!(out, "{answer}")?;
    out.flush()?;
    // Until the run ends; a byte would be a breach of the protocol, and ends it as well.
    let _ = input.read(&mut [0]);
    Ok(())
}
