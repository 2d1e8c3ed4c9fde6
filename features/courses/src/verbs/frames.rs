//! `msgpath compat frames`: a receiver of raw Ethernet frames that somebody else's vehicle programs send.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::classic::frames::{Layout, by_sender};
use crate::peers::frames::{self, Asked, MOST_FRAMES};
use anyhow::Result;
use clap::{Args, ValueEnum};
use msgpath_core::plan::{ChannelOptions, ETHERTYPES};
use msgpath_core::{Exit, Problem, Unavailable, units};
use msgpath_paths::transports::eth::{check_ethertype, interface};
use msgpath_sys::say;

use super::compat::{patience, print};
use msgpath_verbs::options::Look;
use msgpath_verbs::problems::bad_value;
use msgpath_verbs::{looks, settings};

/// `--layout`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum LayoutArg {
    /// u64 time in us, u32 sender, i32 number: the test of sockets
    #[default]
    Sockets,
    /// i64 time in us, i32 number, i32 sender: the test of the engine
    Engine,
}

fn ethertype(text: &str) -> Result<u16, String> {
    settings::ethertype(text).ok_or_else(|| format!("a number such as 0x88b5, got {text:?}"))
}

#[derive(Args, Debug)]
pub(super) struct Frames {
    /// The interface on which frames are heard
    #[arg(value_name = "INTERFACE")]
    interface: String,
    /// Their EtherType [default: 0x88b5]
    #[arg(long, value_name = "N", value_parser = ethertype)]
    ethertype: Option<u16>,
    /// What stands behind the Ethernet header, in the byte order of this machine
    #[arg(long, value_enum, value_name = "LAYOUT", default_value_t)]
    layout: LayoutArg,
    /// Frames after which it ends
    #[arg(short = 'c', long, value_name = "N", value_parser = units::parse_count, default_value = "1500")]
    count: u64,
    /// Time after which it ends, however many came
    #[arg(short = 't', long, value_name = "TIME", value_parser = patience, default_value = "60s")]
    time: Duration,
    #[command(flatten)]
    look: Look,
}

fn cannot(why: Unavailable) -> Problem {
    Problem::new("E50", Exit::CannotStart, why.why).hint(why.hint)
}

impl Frames {
    pub(super) fn run(&self, stop: &AtomicBool) -> Result<ExitCode> {
        if !(1..=MOST_FRAMES).contains(&self.count) {
            return Err(bad_value("--count", format!("1 to {MOST_FRAMES}, got {}", self.count)).into());
        }
        let ethertype = self.ethertype.unwrap_or(ETHERTYPES.0);
        check_ethertype(ethertype).map_err(cannot)?;
        let options = ChannelOptions { interface: self.interface.clone(), ..ChannelOptions::default() };
        let layout = match self.layout {
            LayoutArg::Sockets => Layout::Sockets,
            LayoutArg::Engine => Layout::Engine,
        };
        let asked = Asked {
            interface: interface(&options, 0).map_err(cannot)?,
            ethertype,
            layout,
            count: self.count,
            time: self.time,
        };
        let until = format!("until {} came, for at most {} s, or Ctrl-C", self.count, self.time.as_secs_f64());
        let heard = frames::run(&asked, stop, &mut || {
            say!("listening on {} for frames of EtherType {ethertype:#06x}, {until}", asked.interface.name);
        })?;
        let text = heard.classic(layout) + &heard.say(looks::glyphs());
        let senders = by_sender(&heard.arrivals);
        let code = print(&self.look, &text, &serde_json::json!({ "heard": heard, "senders": senders }), stop)?;
        match heard.arrivals.is_empty() {
            true => Err(nothing(heard.others, &asked).into()),
            false => Ok(code),
        }
    }
}

/// Nothing that was listened for came: no success.
fn nothing(others: u64, asked: &Asked) -> Problem {
    let problem = Problem::new("E50", Exit::Unfinished, format!("no frame came on {}", asked.interface.name));
    match others {
        0 => problem.hint("the interface and EtherType of the sender; it is to be started after this"),
        others => {
            problem.why(format!("{others} of the EtherType are too short for the layout")).hint("the other --layout")
        }
    }
}
