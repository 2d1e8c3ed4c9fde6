//! `msgpath lab`: network namespaces to measure between.

use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use msgpath_core::Exit;
use msgpath_core::foreign::shown;
use msgpath_core::units;
use msgpath_present::terminal::{Align, Page, Paint, Table};
use msgpath_sys::say;
use msgpath_verbs::options::Look;
use msgpath_verbs::verb::Group;
use msgpath_verbs::{looks, output, typed};

use crate::lab::{KeptLab, LabSpec, LabState, LostRelay, Shape, shape};
use crate::present;

/// The name of a lab when nobody gives one.
const NAME: &str = "lab";

/// Make and remove network namespaces
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  msgpath lab up --rate 1G               two places, a link of 1 Gbit/s
  msgpath echo --between lab             measures from the first to the second
  msgpath lab down

Without `lab up`, --between lab makes one for this run alone, which ends with it and needs no root where the \
kernel lets users have namespaces.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Makes a lab that stays until it is taken down (root)
    Up(Box<Up>),
    /// Lists labs, their places and addresses
    Status {
        #[command(flatten)]
        look: Look,
    },
    /// Removes a lab (root)
    Down {
        /// Its name
        #[arg(value_name = "NAME", default_value = NAME)]
        name: String,
        /// Even while processes use it; they lose their links
        #[arg(long)]
        force: bool,
    },
}

#[derive(Args, Debug)]
struct Up {
    /// Its name
    #[arg(value_name = "NAME", default_value = NAME)]
    name: String,
    /// Places; more than two are joined by a bridge
    #[arg(long, value_name = "N", value_parser = typed::number, default_value_t = 2)]
    hosts: u32,
    #[command(flatten)]
    shape: ShapeOptions,
}

/// What a lab's links are like.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ShapeOptions {
    /// Network of the addresses, in 10.0.0.0/8, or in fd00::/8 (fd66::/64) for places with IPv6 alone [default: 10.66.0.0/24]
    #[arg(long, value_name = "NET", value_parser = network)]
    net: Option<(IpAddr, u8)>,
    /// Largest packet, bytes
    #[arg(long, value_name = "BYTES", value_parser = shape::mtu)]
    mtu: Option<u32>,
    /// Bits per second in each direction: 1G
    #[arg(long, value_name = "BITS", value_parser = units::parse_count)]
    rate: Option<u64>,
    /// Most packets that wait for the rate in each direction [default: as many as pass in 50 ms]
    #[arg(long, value_name = "PACKETS", value_parser = shape::queue, requires = "rate")]
    queue: Option<u32>,
    /// Delay in each direction: 1ms
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    delay: Option<u64>,
    /// Share of packets lost in each direction: 0.1%
    #[arg(long, value_name = "SHARE", value_parser = shape::share)]
    loss: Option<u32>,
    /// Share of packets that come twice: 0.1%
    #[arg(long, value_name = "SHARE", value_parser = shape::share)]
    duplicate: Option<u32>,
    /// Share of packets that overtake others: 1% (needs --delay)
    #[arg(long, value_name = "SHARE", value_parser = shape::share)]
    reorder: Option<u32>,
    /// Checksums and segmentation by the devices, on or off [default: as the kernel has them]
    #[arg(long, value_name = "SWITCH", value_parser = shape::switch)]
    offloads: Option<bool>,
    /// no: delay, loss, duplicates and reordering by msgpath's own relay even where the kernel has netem
    #[arg(long, value_name = "SWITCH", value_parser = shape::switch)]
    netem: Option<bool>,
}

impl ShapeOptions {
    /// The lab that was asked for.
    fn spec(&self, hosts: u32) -> LabSpec {
        let usual = LabSpec::default();
        LabSpec {
            hosts,
            network: self.net.unwrap_or(usual.network),
            shape: Shape {
                mtu: self.mtu,
                rate: self.rate,
                queue: self.queue,
                delay_ns: self.delay,
                loss_ppm: self.loss,
                duplicate_ppm: self.duplicate,
                reorder_ppm: self.reorder,
                offloads: self.offloads,
                netem: self.netem,
                // A lab that stays has no process that could hold the programs.
                napi: None,
            },
        }
    }
}

/// `10.66.0.0/24`.
fn network(text: &str) -> Result<(IpAddr, u8), String> {
    let parsed = text.split_once('/').and_then(|(address, prefix)| Some((address.parse().ok()?, prefix.parse().ok()?)));
    parsed.ok_or_else(|| format!("{text:?} is not a network, such as 10.66.0.0/24 or fd66::/64"))
}

impl msgpath_verbs::verb::Verb for Arguments {
    const NAME: &str = "lab";
    const GROUP: Group = Group::Prepare;
    const BESIDE: Option<&str> = Some("which paths work here; make namespaces");

    fn run(&self, _: Vec<String>) -> Result<ExitCode> {
        run(self)
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.what {
        What::Up(up) => {
            let lab = KeptLab::up(&up.name, &up.shape.spec(up.hosts))?;
            for place in &lab.places {
                output::print(format!("{}  {}\n", place.name, place.address))?;
            }
            for note in &lab.notes {
                say!("note: {}", shown(note));
            }
            output::print(format!("next: msgpath echo --between {0}   msgpath lab down {0}\n", lab.name))?;
        }
        What::Status { look } => output::print(status(look))?,
        What::Down { name, force } => KeptLab::down(name, *force)?,
    }
    Ok(Exit::Ok.code().into())
}

fn status(look: &Look) -> String {
    let lost = KeptLab::lost_relays();
    let labs = KeptLab::list();
    let word = |lab: &KeptLab| match lab.state() {
        LabState::Up => "up",
        LabState::Making => "being made",
        LabState::Broken => "broken",
    };
    if look.json {
        let with_state = |lab: KeptLab| {
            let state = word(&lab);
            (lab, state)
        };
        let labs: Vec<(KeptLab, &str)> = labs.into_iter().map(with_state).collect();
        return present::labs(&labs, &lost) + "\n";
    }
    let mut page = Page::new(looks::stdout(look));
    if labs.is_empty() {
        page.text(0, "no lab is up", Paint::Dim);
    }
    for lab in &labs {
        page.gap();
        let state = if lab.state() == LabState::Broken { Paint::Red } else { Paint::Plain };
        page.line(&[Paint::Bold.span(lab.name.clone()), "  ".into(), state.span(word(lab))]);
        let mut table =
            Table::new().column("place", Align::Left).column("address", Align::Left).column("namespace", Align::Left);
        for place in &lab.places {
            let namespace = place.namespace.rsplit('/').next().unwrap_or_default();
            table.row([place.name.as_str().into(), place.address.as_str().into(), namespace.into()]);
        }
        page.table(table);
        if !lab.shape.is_empty() {
            page.hanging(&["  links: ".into()], 10, &lab.shape, Paint::Plain);
        }
        if lab.relay.is_some() {
            page.hanging(&["  relay:  ".into()], 10, &passed(lab), Paint::Plain);
        }
        for text in lab.notes.iter().cloned().chain(lab.missing()) {
            page.text(2, &text, Paint::Dim);
        }
    }
    for LostRelay { lab, pid, .. } in &lost {
        let text = format!("the relay of lab {lab} (process {pid}) has lost its lab: msgpath lab down {lab} ends it");
        page.text(0, &text, Paint::Red);
    }
    page.finish()
}

/// What the relay has done so far.
fn passed(lab: &KeptLab) -> String {
    let Some(counts) = lab.counts() else { return "it does not answer".into() };
    let parts = [
        (counts.lost, "lost on purpose"),
        (counts.duplicated, "sent twice"),
        (counts.reordered, "sent on without the delay"),
        (counts.no_room, "lost for want of room"),
        (counts.refused, "that a device did not take"),
    ];
    let mut text = format!("{} packets", counts.arrived);
    for (count, what) in parts.into_iter().filter(|(count, _)| *count > 0) {
        text += &format!(", {count} {what}");
    }
    text
}

#[cfg(test)]
mod tests {
    const ALONE: &[&msgpath_verbs::feature::Feature] = &[&crate::FEATURE];

    #[test]
    fn what_is_not_known_leads_to_the_help_of_its_verb() {
        msgpath_verbs::begin(ALONE);
        let words = ["msgpath", "lab", "up", "--what"];
        let error = msgpath_verbs::command::command().try_get_matches_from(words).unwrap_err();
        assert_eq!(msgpath_verbs::command::from_clap(&error).unwrap().hint, "msgpath lab up -h");
    }
}
