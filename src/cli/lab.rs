//! `msgpath lab`: network namespaces to measure between.

use std::io::Write;
use std::net::Ipv4Addr;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use msgpath_core::Exit;
use msgpath_core::units;
use msgpath_present::terminal::{Align, Page, Paint, Table};
use msgpath_run::lab::{KeptLab, LabSpec, LabState, Shape};

use super::options::Look;
use crate::{looks, typed};

/// The name of a lab when nobody gives one.
const NAME: &str = "lab";

/// Make and remove network namespaces
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  msgpath lab up --rate 1G               two places, joined by a cable of 1 Gbit/s
  msgpath echo --between lab             measures from the first to the second
  msgpath lab down

Without `lab up`, --between lab makes one for this run alone, which ends with it and needs no root where the
kernel lets users have namespaces.")]
pub(super) struct Arguments {
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

/// What a lab's cables are like.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ShapeOptions {
    /// Network of the addresses, in 10.0.0.0/8 [default: 10.66.0.0/24]
    #[arg(long, value_name = "NET", value_parser = network)]
    net: Option<(Ipv4Addr, u8)>,
    /// Largest packet, bytes
    #[arg(long, value_name = "BYTES", value_parser = typed::number)]
    mtu: Option<u32>,
    /// Bits per second in each direction: 1G
    #[arg(long, value_name = "BITS", value_parser = units::parse_count)]
    rate: Option<u64>,
    /// Delay in each direction: 1ms (a kernel with netem)
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    delay: Option<u64>,
    /// Share of packets lost in each direction: 0.1% (a kernel with netem)
    #[arg(long, value_name = "SHARE", value_parser = share)]
    loss: Option<f64>,
    /// Share of packets that come twice: 0.1% (a kernel with netem)
    #[arg(long, value_name = "SHARE", value_parser = share)]
    duplicate: Option<f64>,
    /// Share of packets that overtake others: 1% (a kernel with netem, and --delay)
    #[arg(long, value_name = "SHARE", value_parser = share)]
    reorder: Option<f64>,
}

impl ShapeOptions {
    /// The lab that was asked for.
    fn spec(&self, hosts: u32) -> LabSpec {
        let ppm = |share: Option<f64>| share.map(|share| (share * 1e6).round() as u32);
        let usual = LabSpec::default();
        LabSpec {
            hosts,
            network: self.net.unwrap_or(usual.network),
            shape: Shape {
                mtu: self.mtu,
                rate: self.rate,
                delay_ns: self.delay,
                loss_ppm: ppm(self.loss),
                duplicate_ppm: ppm(self.duplicate),
                reorder_ppm: ppm(self.reorder),
            },
        }
    }
}

/// `10.66.0.0/24`.
fn network(text: &str) -> Result<(Ipv4Addr, u8), String> {
    let parsed = text.split_once('/').and_then(|(address, prefix)| Some((address.parse().ok()?, prefix.parse().ok()?)));
    parsed.ok_or_else(|| format!("{text:?} is no network, such as 10.66.0.0/24"))
}

/// `0.1%`.
fn share(text: &str) -> Result<f64, String> {
    typed::share(text).map_err(|_| format!("{text:?} is no share, such as 0.1% or 0"))
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match &arguments.what {
        What::Up(up) => {
            let lab = KeptLab::up(&up.name, &up.shape.spec(up.hosts))?;
            for place in &lab.places {
                writeln!(out, "{}  {}", place.name, place.address)?;
            }
            writeln!(out, "next: msgpath echo --between {0}   msgpath lab down {0}", lab.name)?;
        }
        What::Status { look } => out.write_all(status(look).as_bytes())?,
        What::Down { name } => KeptLab::down(name)?,
    }
    Ok(Exit::Ok.code().into())
}

fn status(look: &Look) -> String {
    let labs = KeptLab::list();
    let word = |lab: &KeptLab| match lab.state() {
        LabState::Up => "up",
        LabState::Making => "being made",
        LabState::Broken => "broken",
    };
    if look.json {
        let all: Vec<_> = labs
            .iter()
            .map(|lab| serde_json::json!({"name": lab.name, "state": word(lab), "shape": lab.shape, "places": lab.places}))
            .collect();
        return serde_json::json!({ "labs": all }).to_string() + "\n";
    }
    let mut page = Page::new(looks::stdout(look));
    if labs.is_empty() {
        page.text(0, "no lab is up", Paint::Dim);
        return page.finish();
    }
    let mut table = Table::new()
        .column("lab", Align::Left)
        .column("state", Align::Left)
        .column("place", Align::Left)
        .column("address", Align::Left)
        .optional("cables", Align::Left, 1);
    for lab in &labs {
        for (at, place) in lab.places.iter().enumerate() {
            let first = |text: &str| if at == 0 { text.to_owned() } else { String::new() };
            table.row([
                first(&lab.name).as_str().into(),
                first(word(lab)).as_str().into(),
                place.name.as_str().into(),
                place.address.as_str().into(),
                first(&lab.shape).as_str().into(),
            ]);
        }
    }
    page.table(table);
    page.finish()
}
