//! `--clients`: how many near ends a round has, and where each of them is.

use clap::{Arg, ArgMatches, Command};
use msgpath_core::Problem;
use msgpath_core::plan::{Dispatch, EndPlace, Extent, Load, MAX_THREADS};
use msgpath_core::units::size;
use msgpath_verbs::beside::Beside;
use msgpath_verbs::options::Options;
use msgpath_verbs::problems::usage;
use msgpath_verbs::request::Request;
use msgpath_verbs::typed::CountOrNames;

pub(crate) static CLIENTS: Clients = Clients;

const OPTION: &str = "clients";
/// Verbs that have it.
const VERBS: [&str; 2] = ["echo", "stream"];
/// Transports whose servers take connections of several clients, those between hosts first.
static TRANSPORTS: [&str; 3] = ["tcp", "udp", "unix"];
const BETWEEN_HOSTS: usize = 2;
/// Most bytes of messages that all connections hold at once: clients × connections × messages in flight × size.
const MOST_BYTES: u64 = 4 << 30;

/// `--clients`.
pub(crate) struct Clients;

/// Who the clients are: so many here, or in places of these names, with a launcher on hosts.
fn parse(text: &str) -> Result<CountOrNames, Problem> {
    let few = || usage("one client is what a run has without --clients").hint("--clients 8");
    let many = |count: u64| {
        usage(format!("{count} clients are too many: each is a process, and has a thread of the server"))
            .hint(format!("--clients {MAX_THREADS} at most"))
    };
    if let Ok(count) = text.parse::<u64>() {
        return match count {
            0 | 1 => Err(few()),
            count if count > MAX_THREADS.into() => Err(many(count)),
            count => Ok(CountOrNames::Count(count as u32)),
        };
    }
    let named = CountOrNames::named(text);
    match named.count() {
        _ if named.names().iter().any(String::is_empty) => {
            Err(usage(format!("{text:?} names no clients"))
                .hint("--clients 8, or places or hosts: --clients lab.a,lab.b"))
        }
        1 => Err(few().why(format!("{text:?} is the name of one place or host"))),
        count if count > MAX_THREADS => Err(many(count.into())),
        _ => Ok(named),
    }
}

fn places(named: CountOrNames) -> Vec<EndPlace> {
    match named {
        CountOrNames::Count(count) => vec![EndPlace::default(); count as usize],
        CountOrNames::Names(names) => names.into_iter().map(|name| EndPlace { name, ..EndPlace::default() }).collect(),
    }
}

fn typed_in(typed: &ArgMatches) -> Option<&CountOrNames> {
    typed.try_get_one::<CountOrNames>(OPTION).ok().flatten()
}

impl Beside for Clients {
    fn options(&self, verb: Command) -> Command {
        let name = verb.get_name();
        if !VERBS.contains(&name) {
            return verb;
        }
        // The help of echo is full; that of stream says that both have it.
        let hidden = name == VERBS[0];
        verb.arg(
            Arg::new(OPTION)
                .long(OPTION)
                .value_name("CLIENTS")
                .value_parser(parse)
                .hide(hidden)
                .help_heading("Connection and place")
                .help(
                    "Several clients at once, each a process with -P connections of its own: so many here, places on this machine with \
                     --between (lab.a,lab.b), or hosts with --launch (hosta,hostb). echo has it as well",
                ),
        )
    }

    fn is_asked(&self, typed: &ArgMatches) -> bool {
        typed_in(typed).is_some()
    }

    fn fit(&self, typed: &ArgMatches, options: &Options, request: &mut Request) -> Result<(), Problem> {
        let Some(named) = typed_in(typed) else { return Ok(()) };
        let plan = &mut request.plan;
        let [case] = plan.cases.as_mut_slice() else {
            return Err(usage("several clients measure one path at one size").hint("one -x and one -l"));
        };
        let launch = options.connection.launch.launch.as_ref().filter(|_| matches!(named, CountOrNames::Names(_)));
        let transports = if launch.is_some() { &TRANSPORTS[..BETWEEN_HOSTS] } else { &TRANSPORTS[..] };
        if !transports.contains(&case.path.transport.as_str()) || case.path.program.is_some() {
            return Err(usage(format!("{} has no server that several clients connect to", case.path))
                .hint(format!("-x {}", transports.join(", -x "))));
        }
        if let (Some(launch), CountOrNames::Names(names)) = (launch, named) {
            for name in names {
                launch.on(name).map_err(|error| usage(error.to_string()).hint("--clients hosta,hostb"))?;
            }
        }
        if case.load != Load::Closed || case.dispatch != Dispatch::Turns || plan.stages.is_some() {
            return Err(usage("several clients measure in a closed loop, a thread a connection, untraced")
                .hint("without --rate, --event-loop and --stages"));
        }
        if !matches!(plan.extent, Extent::Time(_)) || plan.trim == 0 {
            return Err(
                usage("several clients measure for a time, in which all of them send").hint("-t 10s instead of -c")
            );
        }
        let count = named.count();
        let (connections, threads) = (case.connections.saturating_mul(count), case.threads.saturating_mul(count));
        let held = u64::from(connections) * u64::from(case.inflight) * case.size.max(case.reply);
        if held > MOST_BYTES {
            return Err(usage(format!(
                "{count} clients with {} connections and messages of {} hold {}",
                case.connections,
                size(case.size.max(case.reply)),
                size(held)
            ))
            .hint(format!("fewer clients, a smaller -P or -l: {} at most", size(MOST_BYTES))));
        }
        (case.connections, case.threads) = (connections, threads);
        if matches!(named, CountOrNames::Names(_)) && !options.connection.is_elsewhere() {
            return Err(usage("clients in places or on hosts need a server that they reach")
                .hint("--between PLACE,SERVER with the place of the server, or SERVER --launch ssh"));
        }
        plan.options.clients = places(named.clone());
        (plan.try_causes, plan.refine, plan.events, plan.simulate) = (false, false, false, false);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_a_number_or_places() {
        assert_eq!(parse("8"), Ok(CountOrNames::Count(8)));
        let named = parse("lab.a, lab.b").unwrap();
        assert_eq!((named.count(), places(named)[1].name.as_str()), (2, "lab.b"));
        for (wrong, says) in [
            ("1", "one client"),
            ("0", "one client"),
            ("257", "too many"),
            ("a", "one place or host"),
            ("a,,b", "no clients"),
        ] {
            let problem = parse(wrong).unwrap_err().to_string();
            assert!(problem.contains(says), "{wrong}: {problem}");
        }
    }
}
