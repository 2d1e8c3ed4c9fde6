//! From what was typed to a mesh: its hosts, pairs and plan. Nothing here starts an agent.

use std::path::Path;

use msgpath_core::Workload;
use msgpath_core::gate::{Gate, Limit as GateLimit, Side, Watched};
use msgpath_core::plan::Extent;
use msgpath_core::units::Pieces;
use msgpath_core::{Case, Exit, Launch, Plan, Problem};
use msgpath_paths::traits;
use msgpath_verbs::input;
use msgpath_verbs::problems::{bad_value, check_one_peer, usage};
use msgpath_verbs::request::random_seed;
use msgpath_verbs::typed::{self, List, PathArg, launch};

use crate::hosts;
use crate::hosts_file::{self, HostSpec, HostsFile};
use crate::schema::{Directions, MAX_ROUNDS_OF_A_PAIR, MESH_SCHEMA, MeshHeader, MeshHost, MeshOrder, PARTNERS, Pairs};
use crate::verb::Arguments;

/// The path that is measured where none is named.
const PATH: &str = "tcp:send";
/// The largest file of hosts or pairs that is read.
const MAX_FILE: u64 = 16 << 20;
/// Above this many hosts every host with every other is not what anybody wants to wait for.
const ALL: usize = 200;
/// How long a pair is measured, and in how many rounds.
const TIME: u64 = 2_000_000_000;
const ROUNDS: u32 = 10;
/// Where Slurm says which hosts are allocated.
const ALLOCATED: &str = "SLURM_JOB_NODELIST";

/// Makes a mesh of what was typed; its name is left out. `came`: the agents that have come by themselves, where the user does not
/// say which hosts.
///
/// # Errors
/// E11 and others of a bad command line.
pub(crate) fn mesh(
    arguments: &Arguments,
    words: Vec<String>,
    came: Option<Vec<String>>,
) -> Result<MeshHeader, Problem> {
    let file = arguments.hosts_file.as_deref().map(read_hosts).transpose()?.unwrap_or_default();
    let allocated = std::env::var(ALLOCATED).ok().filter(|list| !list.is_empty());
    let known = |name: String| {
        let of_file = file.hosts.iter().find(|host| host.name == name).cloned();
        of_file.unwrap_or_else(|| HostSpec { name, ..HostSpec::default() })
    };
    let hosts = match came {
        Some(came) => came.into_iter().map(known).collect(),
        None => chosen(arguments, &file, allocated.as_deref())?,
    };
    check_hosts(&hosts)?;
    if let Some(from) = &arguments.hosts_file {
        obeyed(arguments, &file, from)?;
    }
    let by = arguments.launch.clone().or(file.launch).unwrap_or_else(|| {
        if allocated.is_some() && arguments.hosts.is_none() { "slurm".into() } else { "ssh".into() }
    });
    let launch = match arguments.gang.listen {
        Some(_) => Launch::none(),
        None => Launch { program: arguments.program.clone().or(file.program), ..launch(&by)? },
    };
    let plan = plan(arguments)?;
    let pairs = match &arguments.pairs {
        Some(text) => pairs(text, &hosts)?,
        None if hosts.len() > ALL => Pairs::Sample { partners: PARTNERS },
        None => Pairs::All,
    };
    let share = arguments.check_interference.unwrap_or(0.0);
    let order = MeshOrder {
        pairs,
        directions: if arguments.both { Directions::Both } else { Directions::One },
        parallel: arguments.parallel,
        limits: file.limits,
        retests: arguments.retest,
        alone_ppm: (share * 1e6).round() as u32,
    };
    let mut header = MeshHeader {
        schema: MESH_SCHEMA.into(),
        name: String::new(),
        started: msgpath_record::utc::now(),
        command: std::iter::once("msgpath".into()).chain(words).collect(),
        version: env!("CARGO_PKG_VERSION").into(),
        plan,
        launch,
        hosts: hosts.into_iter().map(|spec| MeshHost { spec, environment: None }).collect(),
        order,
        planned: 0,
        sla: arguments.fail_if.clone(),
        resumed: Vec::new(),
    };
    header.check().map_err(usage)?;
    header.planned = crate::run::pairs(&header)?.len() as u64;
    Ok(header)
}

fn read(file: &Path) -> Result<String, Problem> {
    let cannot = |why: String| usage(format!("{} cannot be read: {why}", file.display()));
    let bytes = input::read(file, MAX_FILE).map_err(cannot)?;
    String::from_utf8(bytes).map_err(|_| cannot("it is not text".into()))
}

/// Whether a file of hosts may say which program is started: a template and the name of a program are command lines, and files are
/// passed on.
fn obeyed(arguments: &Arguments, file: &HostsFile, from: &Path) -> Result<(), Problem> {
    let template = file.launch.as_ref().filter(|by| !Launch::names().any(|name| name == by.as_str()));
    let template = template.filter(|_| arguments.launch.is_none()).map(|by| ("launch", by));
    let program = file.program.as_ref().filter(|_| arguments.program.is_none()).map(|program| ("program", program));
    let (Some((key, value)), Some(why)) = (template.or(program), msgpath_record::owner::others_file(from)) else {
        return Ok(());
    };
    let what = format!("{} says what is started, {key} = {value:?}, and others may have written it", from.display());
    Err(Problem::new("E88", Exit::CannotStart, what)
        .why(why)
        .hint(format!("--{key}, with what is to be started, or the file with you as its owner and chmod go-w")))
}

fn read_hosts(file: &Path) -> Result<HostsFile, Problem> {
    let text = read(file)?;
    hosts_file::parse(&text)
        .map_err(|why| usage(format!("{}: {why}", file.display())).hint("docs/mesh.md shows such a file"))
}

/// The names in a list.
///
/// # Errors
/// It is none.
pub(crate) fn listed(list: &str) -> Result<Vec<String>, Problem> {
    let mut from_file = |file: &str| read(Path::new(file)).map_err(|problem| problem.what);
    hosts::parse(list, &mut from_file)
        .map_err(|why| bad_value("HOSTS", why).hint("n[1-64], n[1-4,7],gpu[001-008]!n3, or @FILE"))
}

/// The hosts that are named, with what the file says of them; without a list those of the file, or of the allocation.
fn chosen(arguments: &Arguments, file: &HostsFile, allocated: Option<&str>) -> Result<Vec<HostSpec>, Problem> {
    let list = arguments.hosts.as_deref().or(allocated.filter(|_| file.hosts.is_empty()));
    let Some(list) = list else {
        return match file.hosts.is_empty() {
            true => Err(usage("a mesh needs hosts").hint("msgpath mesh n[1-4], or --hosts FILE")),
            false => Ok(file.hosts.clone()),
        };
    };
    let names = listed(list)?;
    let of = |name: String| match file.hosts.iter().find(|host| host.name == name) {
        Some(host) => Ok(host.clone()),
        None if file.hosts.is_empty() => Ok(HostSpec { name, ..HostSpec::default() }),
        None => Err(usage(format!("{name} is not in the file of hosts"))),
    };
    names.into_iter().map(of).collect()
}

/// A host is one peer, by its name and by its address.
fn check_hosts(hosts: &[HostSpec]) -> Result<(), Problem> {
    hosts.iter().try_for_each(|host| {
        check_one_peer(&host.name)?;
        host.address.map_or(Ok(()), |address| check_one_peer(&address.to_string()))
    })
}

fn plan(arguments: &Arguments) -> Result<Plan, Problem> {
    let default = [PathArg::Spec(PATH.parse().expect("a path"))];
    let typed = arguments.paths.as_ref().map_or(&default[..], |List(paths)| paths);
    let sizes = arguments.len.as_ref().map_or(&[64][..], |List(sizes)| sizes);
    let mut cases = Vec::new();
    for path in typed {
        let PathArg::Spec(spec) = path else {
            return Err(bad_value("-x", "paths by name: a mesh does not measure all of them".into()));
        };
        let path = msgpath_paths::resolve(spec, None)?;
        if !traits(&path).inet {
            return Err(usage(format!("{path} does not run over IP, and hosts are connected by nothing else"))
                .hint("-x tcp,udp"));
        }
        for size in sizes {
            let pieces = Pieces::whole(u32::try_from(*size).map_err(|_| bad_value("-l", "a smaller size".into()))?);
            cases.push(Case { id: cases.len() as u32, traits: traits(&path), ..Case::new(path.clone(), pieces) });
        }
    }
    let rounds = arguments.rounds.unwrap_or(ROUNDS);
    if cases.len() as u64 * u64::from(rounds) > MAX_ROUNDS_OF_A_PAIR {
        return Err(usage(format!(
            "{} cases of {rounds} rounds: a pair has at most {MAX_ROUNDS_OF_A_PAIR}",
            cases.len()
        ))
        .hint("fewer sizes or paths, or a smaller -r"));
    }
    let time = arguments.time.unwrap_or(TIME);
    Ok(Plan {
        rounds,
        seed: arguments.seed.unwrap_or_else(random_seed),
        extent: arguments.count.map_or(Extent::Time(time / cases.len() as u64), Extent::Count),
        warmup_ns: (time / 20).min(100_000_000),
        message_log: 0,
        events: false,
        ..Plan::new(Workload::ECHO, cases)
    })
}

/// `--pairs`.
fn pairs(text: &str, specs: &[HostSpec]) -> Result<Pairs, Problem> {
    let position = |name: &str| specs.iter().position(|host| host.name == name).map(|at| at as u32);
    let unknown = |name: &str| usage(format!("--pairs names {name}, which is none of the hosts"));
    if let Some(partners) = text.strip_prefix("k:") {
        let partners =
            partners.parse().map_err(|_| bad_value("--pairs", "a number of partners such as k:24".into()))?;
        return Ok(Pairs::Sample { partners });
    }
    if let Some(file) = text.strip_prefix('@') {
        let mut found = Vec::new();
        for (number, line) in (1..).zip(read(Path::new(file))?.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                [] => {}
                [near, far] => {
                    let at = |name: &str| position(name).ok_or_else(|| unknown(name));
                    found.push((at(near)?, at(far)?));
                }
                _ => return Err(usage(format!("{file}:{number}: two hosts, near and far, stand in a line"))),
            }
        }
        found.sort_unstable();
        found.dedup();
        return listed_pairs(found);
    }
    match text {
        "all" => return Ok(Pairs::All),
        "racks" => return Ok(Pairs::Racks),
        _ => {}
    }
    let Some([a, b]) = sides(text) else {
        return Err(bad_value("--pairs", format!("all, k:24, racks, A,B or @FILE, got {text:?}")));
    };
    let side = |list: &str| -> Result<Vec<u32>, Problem> {
        if list.contains('*') {
            let own = (0..).zip(specs).filter(|(_, host)| glob(list, &host.name)).map(|(at, _)| at);
            return Ok(own.collect());
        }
        listed(list)?.iter().map(|name| position(name).ok_or_else(|| unknown(name))).collect()
    };
    let (a, b) = (side(a)?, side(b)?);
    let mut found = Vec::new();
    for near in &a {
        let news = b.iter().filter(|far| *far != near && !(a.contains(far) && b.contains(near) && *far < near));
        found.extend(news.map(|far| (*near, *far)));
    }
    listed_pairs(found)
}

fn listed_pairs(pairs: Vec<(u32, u32)>) -> Result<Pairs, Problem> {
    if pairs.is_empty() || pairs.iter().any(|(near, far)| near == far) {
        return Err(usage("--pairs leaves no pair, or a host with itself"));
    }
    Ok(Pairs::Listed { pairs })
}

/// The two sides of `A,B`, whose brackets may have commas of their own.
fn sides(text: &str) -> Option<[&str; 2]> {
    let mut depth = 0_i32;
    let mut commas = text.char_indices().filter(|(_, letter)| {
        depth += i32::from(*letter == '[') - i32::from(*letter == ']');
        *letter == ',' && depth == 0
    });
    let (at, None) = (commas.next()?.0, commas.next()) else { return None };
    Some([&text[..at], &text[at + 1..]])
}

/// Whether a name fits a pattern in which `*` stands for anything.
fn glob(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// `--fail-if` of a mesh: `p99 > 200us`.
///
/// # Errors
/// It is none, or no limit from above of a number that pairs have.
pub(crate) fn gate(text: &str) -> Result<Gate, Problem> {
    let gate = typed::gate(text)?;
    match (gate.watched, gate.side, gate.limit) {
        (Watched::Quantile(_) | Watched::Mean | Watched::Loss, Side::Above, GateLimit::Value(_)) => Ok(gate),
        _ => Err(bad_value("--fail-if", format!("a limit of p50, p99, mean or loss of a pair, got {text:?}"))
            .hint("--fail-if 'p99 > 200us' or --fail-if 'loss > 0.01%'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs() -> Vec<HostSpec> {
        let names = listed("n[1-4],gpu[1-2]").unwrap();
        names.into_iter().map(|name| HostSpec { name, ..HostSpec::default() }).collect()
    }

    #[test]
    fn pairs_as_people_type_them() {
        let specs = specs(); // gpu1 gpu2 n1 n2 n3 n4
        assert_eq!(pairs("all", &specs), Ok(Pairs::All));
        assert_eq!(pairs("k:24", &specs), Ok(Pairs::Sample { partners: 24 }));
        let listed = |text: &str| match pairs(text, &specs) {
            Ok(Pairs::Listed { pairs }) => pairs,
            other => panic!("{other:?}"),
        };
        assert_eq!(listed("n[1,2],gpu*"), [(2, 0), (2, 1), (3, 0), (3, 1)]);
        assert_eq!(listed("n*,n*").len(), 6, "each pair once");
        for wrong in ["k:x", "n1", "n1,n2,n3", "n1,n9", "n1,n1", "", "@/nowhere"] {
            assert!(pairs(wrong, &specs).is_err(), "{wrong}");
        }
    }

    #[test]
    fn globs() {
        for (pattern, name, fits) in [
            ("gpu*", "gpu1", true),
            ("*1", "gpu1", true),
            ("g*u*2", "gpu2", true),
            ("g*1", "gpu2", false),
            ("*", "", true),
        ] {
            assert_eq!(glob(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn a_gate_of_a_mesh_limits_what_pairs_have() {
        assert_eq!(gate("p99 > 200us").unwrap().to_string(), "p99 > 200us");
        assert_eq!(gate("loss>0.01%").unwrap().to_string(), "loss > 0.01%");
        for wrong in ["p99 < 200us", "p99 > +5%", "throughput < 1 Gbit/s", "fast"] {
            assert!(gate(wrong).is_err(), "{wrong}");
        }
    }
}
