//! The agents of a mesh that come by themselves (`--listen`), and what starts them all at once: a script for Slurm or mpirun, a
//! manifest for Kubernetes (`--print`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use msgpath_agent::token::Token;
use msgpath_core::foreign::shell_word;
use msgpath_core::target::DEFAULT_PORT;
use msgpath_core::{Exit, Problem, units};
use msgpath_verbs::again::Typed;
use msgpath_verbs::problems::{check_one_peer, usage};
use msgpath_verbs::typed;
use serde_json::{Value, json};

use crate::hosts;
use crate::record::mesh_header;
use crate::request::{listed, mesh as planned};
use crate::run::{Agents, Door, Expected};
use crate::schema::MeshHeader;
use crate::verb::Arguments;

/// How long agents are waited for.
const WAIT: u64 = 60_000_000_000;
/// The user of the container, who is nobody.
const NOBODY: u32 = 65_532;

/// Options of a gang: agents that one command starts, and that come by themselves.
#[derive(Args, Debug)]
pub(crate) struct Gang {
    /// Start no agents: wait for those that come (one srun, mpirun, a Kubernetes Job) at HOST:PORT, with --token-file
    #[arg(long, value_name = "HOST:PORT", requires = "token_file", conflicts_with_all = ["dry_run", "program"])]
    pub(crate) listen: Option<String>,
    /// With --listen: the file with the token that agents must have; created if it does not exist
    #[arg(long, value_name = "FILE", requires = "listen", value_hint = clap::ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
    /// With --listen: agents may come through a translator of addresses (NAT), a forwarded port or a tunnel
    #[arg(long, requires = "listen")]
    pub(crate) behind_nat: bool,
    /// With --listen or --print: the number of agents, whatever their names
    #[arg(long, value_name = "N", value_parser = typed::number, conflicts_with_all = ["hosts", "resume"])]
    pub(crate) expect: Option<u32>,
    /// With --listen: how long they are waited for [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = units::parse_time_or_seconds, requires = "listen")]
    pub(crate) wait: Option<u64>,
    /// Write what starts all agents at once, and the mesh: slurm (for sbatch), mpi (a script with mpirun), k8s (for kubectl apply)
    #[arg(long, value_name = "KIND", value_enum, conflicts_with_all = ["listen", "resume", "dry_run", "launch"])]
    pub(crate) print: Option<Kind>,
}

/// What starts all agents at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A batch script
    Slurm,
    /// A script with mpirun
    Mpi,
    /// A manifest
    K8s,
}

/// Told what happens.
type Say<'a> = &'a mut dyn FnMut(&str);

/// What was typed as a mesh, and where its agents are from: those that come by themselves have come.
///
/// # Errors
/// A bad command line; E01, E73.
pub(super) fn come(
    arguments: &Arguments,
    words: Vec<String>,
    say: Say<'_>,
    stop: &AtomicBool,
) -> Result<(MeshHeader, Agents), Problem> {
    let gang = &arguments.gang;
    match (&gang.listen, gang.expect) {
        (None, Some(_)) => {
            Err(usage("--expect belongs to --listen and --print").hint("the names of the hosts instead"))
        }
        (None, None) => Ok((planned(arguments, words, None)?, Agents::Launched)),
        (Some(place), Some(count)) => {
            // What is wrong with the rest is said before anybody is waited for.
            planned(arguments, words.clone(), Some(names(count)))?;
            let door = opened(gang, place, Expected::Count(count as usize), say, stop)?;
            Ok((planned(arguments, words, Some(door.names()))?, Agents::Come(Arc::new(door))))
        }
        (Some(place), None) => {
            let header = planned(arguments, words, None)?;
            let door = opened(gang, place, Expected::Named(of(&header)), say, stop)?;
            door.names();
            Ok((header, Agents::Come(Arc::new(door))))
        }
    }
}

/// Where the agents of a mesh that goes on are from.
///
/// # Errors
/// As [`come`], and E88: its record may be somebody else's.
pub(super) fn again(arguments: &Arguments, folder: &Path, say: Say<'_>, stop: &AtomicBool) -> Result<Agents, Problem> {
    let (gang, header) = (&arguments.gang, mesh_header(folder)?);
    match &gang.listen {
        Some(place) => {
            let door = opened(gang, place, Expected::Named(of(&header)), say, stop)?;
            door.names();
            Ok(Agents::Come(Arc::new(door)))
        }
        None if header.launch.is_none() => Err(usage("the agents of this mesh come by themselves")
            .hint("--listen HOST:PORT --token-file FILE, with those of before")),
        None => {
            let hosts = arguments.hosts.as_deref().map(listed).transpose()?;
            let launch = arguments.launch.as_deref().map(typed::launch).transpose()?;
            let words = Typed { launch, program: arguments.program.clone(), ..Typed::default() };
            crate::again::mesh(&header, folder, hosts, &words)?;
            Ok(Agents::Launched)
        }
    }
}

fn of(header: &MeshHeader) -> Vec<String> {
    header.hosts.iter().map(|host| host.spec.name.clone()).collect()
}

fn opened(gang: &Gang, place: &str, expected: Expected, say: Say<'_>, stop: &AtomicBool) -> Result<Door, Problem> {
    check_one_peer(place.rsplit_once(':').map_or(place, |(host, _)| host))?;
    let Some(file) = &gang.token_file else { return Err(usage("--listen takes --token-file FILE")) };
    if Token::make(file)? {
        say(&format!("note: made a token: {}", file.display()));
    }
    let (token, open) = Token::read(file)?;
    if let Some(open) = open {
        say(&format!("warning: {open}"));
    }
    let count = match &expected {
        Expected::Named(names) => names.len(),
        Expected::Count(count) => *count,
    };
    let door = Door::open(place, token, expected, gang.behind_nat)?;
    say(&format!(
        "waiting at {0} for {count} agents: MSGPATH_TOKEN_FILE={1} msgpath __join {0}",
        door.address,
        file.display()
    ));
    let came = door.wait(Duration::from_nanos(gang.wait.unwrap_or(WAIT)), stop);
    if stop.load(Ordering::Relaxed) {
        return Err(Problem::new(
            "E15",
            Exit::Interrupted,
            format!("interrupted while {came} of {count} agents had come"),
        ));
    }
    if came < 2 {
        let what = format!("{came} of {count} agents came: a mesh needs two");
        return Err(
            Problem::new("E80", Exit::CannotStart, what).hint("a longer --wait; what the agents say of themselves")
        );
    }
    if came < count {
        say(&format!("note: {came} of {count} agents came"));
    }
    Ok(door)
}

/// Names that stand for agents that are not known yet.
fn names(count: u32) -> Vec<String> {
    (1..=count.min(hosts::MAX_HOSTS as u32)).map(|number| format!("agent{number}")).collect()
}

/// The same for what is only printed; nothing where the hosts are known.
pub(super) fn unnamed(arguments: &Arguments) -> Option<Vec<String>> {
    arguments.gang.expect.map(names)
}

/// What was typed, without what the script says itself: of these options with their values.
fn rest(words: &[String]) -> Vec<String> {
    const OWN: [&str; 4] = ["--print", "--expect", "--program", "--name"];
    let (mut rest, mut words) = (Vec::new(), words.iter().skip(1));
    while let Some(word) = words.next() {
        if OWN.contains(&word.as_str()) {
            words.next();
        } else if !OWN.iter().any(|own| word.strip_prefix(own).is_some_and(|value| value.starts_with('='))) {
            rest.push(word.clone());
        }
    }
    rest
}

/// What starts a mesh and all of its agents.
pub(super) fn text(kind: Kind, arguments: &Arguments, words: &[String], header: &MeshHeader, time_ns: u64) -> String {
    let count = header.hosts.len();
    let program = shell_word(arguments.program.as_deref().unwrap_or("msgpath"));
    let expect = arguments.gang.expect.map(|count| vec!["--expect".to_owned(), count.to_string()]);
    let words: Vec<String> = expect.into_iter().flatten().chain(rest(words)).collect();
    // Twice, and something for the start: a job that is cut off can be resumed, one that is refused is nothing.
    let minutes = 2 * time_ns / 60_000_000_000 + 5;
    match kind {
        Kind::K8s => manifest(count, &words, minutes),
        Kind::Slurm => {
            let named = (arguments.gang.expect.is_none())
                .then(|| format!("#SBATCH --nodelist={}\n", hosts::fold(of(header).iter().map(String::as_str))));
            format!(
                "#!/bin/sh
# {count} agents, one a node, started by one srun; they dial back to the mesh on the first node. Submit: sbatch FILE
#SBATCH --job-name=msgpath-mesh
#SBATCH --nodes={count}
#SBATCH --ntasks-per-node=1
{}#SBATCH --exclusive
#SBATCH --time={minutes}
#SBATCH --signal=B:TERM@30
{}{}",
                named.unwrap_or_default(),
                begin(&program, &words, "${SLURMD_NODENAME:-$(hostname)}", "$SLURM_JOB_ID"),
                end(&format!("srun --ntasks-per-node=1 {program} __join \"$here:$port\""))
            )
        }
        Kind::Mpi => format!(
            "#!/bin/sh
# {count} agents, started by one mpirun; they dial back to the mesh here. Start: sh FILE [OPTIONS OF MPIRUN, --hostfile FILE]
{}case $(mpirun --version 2>&1) in
*Open*) pass='-x MSGPATH_TOKEN_FILE' ;;
*) pass='-genvlist MSGPATH_TOKEN_FILE' ;;
esac
{}",
            begin(&program, &words, "$(hostname)", "$$"),
            end(&format!("mpirun -np {count} $pass \"$@\" {program} __join \"$here:$port\""))
        ),
    }
}

/// The start of a script: the mesh listens, and its token is there.
fn begin(program: &str, words: &[String], here: &str, job: &str) -> String {
    let words = words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ");
    format!(
        "set -eu
umask 077
port=${{MSGPATH_PORT:-{DEFAULT_PORT}}}
here=${{MSGPATH_ADDRESS:-{here}}}
# In a folder that all hosts see, and never on a command line.
MSGPATH_TOKEN_FILE=$PWD/msgpath-mesh-{job}.token
export MSGPATH_TOKEN_FILE
trap 'rm -f \"$MSGPATH_TOKEN_FILE\"' EXIT
{program} mesh --listen \"${{MSGPATH_LISTEN:-0.0.0.0}}:$port\" --token-file \"$MSGPATH_TOKEN_FILE\" {words} &
mesh=$!
trap 'kill -INT \"$mesh\"' TERM INT
until [ -s \"$MSGPATH_TOKEN_FILE\" ]; do kill -0 \"$mesh\"; sleep 0.1; done
"
    )
}

/// The end of a script: the agents, and the exit code of the mesh.
fn end(agents: &str) -> String {
    format!(
        "{agents} &
wait \"$mesh\" && code=0 || code=$?
wait
exit \"$code\"
"
    )
}

/// A Service, a Job with the mesh and an Indexed Job with its agents. JSON is YAML.
fn manifest(count: usize, words: &[String], minutes: u64) -> String {
    const NAME: &str = "msgpath-mesh";
    let image = format!("msgpath:{}", env!("CARGO_PKG_VERSION"));
    let token = "/etc/msgpath/token";
    let container = |name: &str, args: Vec<String>, env: Value| {
        json!({
            "name": name,
            "image": image,
            "args": args,
            "env": env,
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [
                {"name": "token", "mountPath": "/etc/msgpath", "readOnly": true},
                {"name": "tmp", "mountPath": "/tmp"},
            ],
        })
    };
    let pod = |role: &str, container: Value, spread: Value| {
        let labels = json!({"app": NAME, "role": role});
        let mut spec = json!({
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": NOBODY, "fsGroup": NOBODY,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [
                {"name": "token", "secret": {"secretName": NAME, "defaultMode": 0o440}},
                {"name": "tmp", "emptyDir": {}},
            ],
        });
        if !spread.is_null() {
            spec["topologySpreadConstraints"] = spread;
        }
        json!({"metadata": {"labels": labels}, "spec": spec})
    };
    let job = |name: &str, pods: usize, template: Value| {
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "completionMode": "Indexed", "completions": pods, "parallelism": pods, "backoffLimit": 0,
                "activeDeadlineSeconds": 60 * minutes, "ttlSecondsAfterFinished": 3600, "template": template,
            },
        })
    };
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME},
        "spec": {
            // Agents see the address of the pod itself: a translated one is not what the mesh sees, and proofs cover both.
            "clusterIP": "None",
            "selector": {"app": NAME, "role": "mesh"},
            "ports": [{"port": DEFAULT_PORT, "targetPort": DEFAULT_PORT}],
        },
    });
    let mut mesh = vec!["mesh".to_owned(), "--listen".into(), format!("0.0.0.0:{DEFAULT_PORT}")];
    mesh.extend(["--token-file".into(), token.into(), "--wait".into(), "10m".into()]);
    mesh.extend_from_slice(words);
    let data = json!([{"name": "XDG_DATA_HOME", "value": "/tmp"}]);
    let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
    let door = format!("{NAME}:{DEFAULT_PORT}");
    let agent = ["__join", door.as_str(), "--token-file", token, "--host", "$(POD_IP)"];
    let who = json!([
        {"name": "POD_IP", "valueFrom": field("status.podIP")},
        {"name": "MSGPATH_NODE", "valueFrom": field("spec.nodeName")},
    ]);
    let spread = json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": NAME, "role": "agent"}},
    }]);
    let parts = [
        service,
        job(NAME, 1, pod("mesh", container("mesh", mesh, data), Value::Null)),
        job(
            &format!("{NAME}-agents"),
            count,
            pod("agent", container("agent", agent.map(str::to_owned).into(), who), spread),
        ),
    ];
    let parts = parts.map(|part| serde_json::to_string_pretty(&part).unwrap_or_default());
    format!(
        "# {count} agents, about one a node, which dial back to the mesh in a pod of its own. The image has msgpath as its entry point.
# head -c 32 /dev/urandom | base64 | kubectl create secret generic {NAME} --from-file=token=/dev/stdin
# kubectl apply -f FILE; kubectl logs -f job/{NAME}
---
{}
",
        parts.join("\n---\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_passed_on_as_a_shell_reads_them() {
        assert_eq!(
            [shell_word("n1"), shell_word("p99<1ms"), shell_word("it's"), shell_word("")],
            ["n1", "'p99<1ms'", r"'it'\''s'", "''"]
        );
        let words = ["mesh", "--print", "slurm", "-t", "1s", "--expect=4", "--both"].map(str::to_owned);
        assert_eq!(rest(&words), ["-t", "1s", "--both"]);
    }
}
