//! Agents of a mesh that come by themselves: processes of this machine, one mpirun, one srun; a coordinator that is killed; strangers;
//! the scripts and the manifest that `--print` writes.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::printed::Value;
use msgpath_agent::greeting::GREETING;
use msgpath_agent::wire::{self, Admits, FromDoor, Nonce, Opening, Proof, Proves};
use msgpath_mesh::record::PairBlock;

use crate::command::{Home, Running, free_port, listening, within};
use crate::serve::{agent_below, is_confined};
use crate::slurm::beside_slurm;

const PROGRAM: &str = env!("CARGO_BIN_EXE_msgpath");
const LIMIT: Duration = Duration::from_secs(170);
/// A pair as short as it can be.
const SHORT: [&str; 4] = ["-t", "60ms", "-r", "3"];

/// A mesh that waits at a port for agents.
fn mesh(home: &Home, place: &str, words: &[&str]) -> Running {
    let mut all = vec!["mesh", "--listen", place, "--token-file", "token"];
    all.extend(words);
    Running::new(home.command(&all))
}

/// An agent of that mesh. The launcher would say who it is.
fn agent(home: &Home, place: &str, name: &str) -> Running {
    let mut command = home.command(&["__join", place, "--name", name]);
    command.env("MSGPATH_TOKEN_FILE", "token").env_remove("SLURM_PROCID");
    Running::new(command)
}

fn all_end(agents: impl IntoIterator<Item = Running>) {
    for agent in agents {
        agent.finish(LIMIT).ends_with(0);
    }
}

fn with_token(home: &Home) {
    std::fs::write(home.path().join("token"), "0123456789abcdef0123456789abcdef").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(home.path().join("token"), mode).unwrap();
}

/// The pairs that have a result.
fn measured(home: &Home, name: &str) -> Vec<(u32, u32)> {
    let mut found = Vec::new();
    let each = |block: PairBlock| {
        if matches!(block, PairBlock::Pair(_)) {
            found.push((block.slot().near, block.slot().far));
        }
    };
    msgpath_mesh::record::read_mesh(&home.runs().join(name), each).map_or_else(|_| Vec::new(), |_| found)
}

/// A mesh of two agents that was measured.
pub(crate) fn measured_mesh(home: &Home, name: &str) {
    with_token(home);
    let place = format!("127.0.0.1:{}", free_port());
    let agents = ["n1", "n2"].map(|name| agent(home, &place, name));
    let run = mesh(home, &place, &[&["--expect", "2", "--name", name][..], &SHORT].concat());
    run.finish(LIMIT).ends_with(0);
    all_end(agents);
}

#[test]
fn an_agent_of_a_mesh_is_confined_in_every_thread() {
    let home = Home::new();
    with_token(&home);
    let place = format!("127.0.0.1:{}", free_port());
    let _run = mesh(&home, &place, &["--expect", "2", "--name", "long", "-t", "20s", "-r", "3"]);
    for agent in [agent(&home, &place, "n1"), agent(&home, &place, "n2")] {
        is_confined(agent_below(agent.id(), "--joined"));
    }
}

#[test]
fn agents_that_come_are_measured_and_end_with_the_mesh() {
    let home = Home::new();
    with_token(&home);
    let place = format!("127.0.0.1:{}", free_port());
    // They may come before there is a coordinator.
    let agents = ["n1", "n2", "n2", "n3"].map(|name| agent(&home, &place, name));
    let run = mesh(&home, &place, &[&["--expect", "4", "--name", "gang"][..], &SHORT].concat());
    let output = run.finish(LIMIT).ends_with(0);
    output.shows(&["4 hosts (n[1,3],n2.[0-1]) by join", "6 of 6 pairs"]).says(&["waiting at 127.0.0.1:", "4 agents"]);
    all_end(agents);
    assert_eq!(measured(&home, "gang").len(), 6);
    home.msgpath(&["mesh", "--resume", "gang"]).ends_with(2).says(&["come by themselves", "--listen"]);
}

#[test]
fn who_has_another_token_or_no_place_is_turned_away() {
    let home = Home::new();
    with_token(&home);
    std::fs::write(home.path().join("other"), "another-token-of-somebody").unwrap();
    let place = format!("127.0.0.1:{}", free_port());
    let run = mesh(&home, &place, &[&["n[1-2]"][..], &SHORT].concat());
    run.until_it_says("waiting at");
    // Somebody who says nothing, and somebody who says something else.
    let mut strangers: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(&place).unwrap()).collect();
    strangers.iter_mut().for_each(|stranger| stranger.write_all(b"GET / HTTP/1.1\r\n\r\n0123456789").unwrap());
    // Whoever refuses it has proven nothing, so it calls again.
    let mut wrong = home.start(&format!("__join {place} --name n1 --token-file other"));
    wrong.until_it_says("has another token; it is called again");
    assert!(wrong.goes_on());
    let unknown = agent(&home, &place, "n7").finish(LIMIT);
    unknown.ends_with(3).says(&["E84", "not among its hosts"]);
    let agents = ["n1", "n2"].map(|name| agent(&home, &place, name));
    run.finish(LIMIT).ends_with(0).shows(&["1 of 1 pairs"]);
    all_end(agents);
    drop(wrong);
    for mut stranger in strangers {
        let mut heard = Vec::new();
        let _ = stranger.read_to_end(&mut heard);
        assert!(heard.len() < 256, "a greeting and a random number, and no more: {}", heard.len());
    }
    home.msgpath(&["__join", &place]).ends_with(2).says(&["needs its token"]);
    let open = home.msgpath(&["mesh", "n[1-2]", "--listen", &place]).ends_with(2);
    open.says(&["--token-file"]);
}

/// Answers one agent at the address of a mesh, and has no token: these words, then the end.
fn answered_by_a_stranger(listener: &TcpListener, words: &[&dyn Fn(&mut TcpStream)]) {
    for say in words {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all(&GREETING).unwrap();
        wire::write(&mut stream, &Opening::Challenge { nonce: Nonce([7; 16]), addresses: true }, &[]).unwrap();
        wire::read::<Proves>(&mut stream).unwrap();
        say(&mut stream);
        // Until the agent hangs up, so that it has read the words.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }
}

#[test]
fn a_stranger_at_the_address_of_a_mesh_keeps_no_agent_from_it() {
    let home = Home::new();
    with_token(&home);
    let listener = listening();
    let place = listener.local_addr().unwrap().to_string();
    let mut first = agent(&home, &place, "n1");
    let verdict = |verdict: FromDoor| move |stream: &mut TcpStream| wire::write(stream, &verdict, &[]).unwrap();
    let no_proof = Proof([0; 32]);
    answered_by_a_stranger(
        &listener,
        &[
            &|stream: &mut TcpStream| wire::write(stream, &Admits::Refused, &[]).unwrap(),
            &verdict(FromDoor::Over),
            &verdict(FromDoor::Welcome),
            &verdict(FromDoor::Unwanted { why: "full".into() }),
            &|stream: &mut TcpStream| {
                wire::write(stream, &Admits::Proven { proof: no_proof }, &[]).unwrap();
                wire::write(stream, &FromDoor::Over, &[]).unwrap();
            },
        ],
    );
    first.until_it_says("cannot prove that it has the token");
    assert!(first.goes_on());
    drop(listener);
    let second = agent(&home, &place, "n2");
    let run = mesh(&home, &place, &[&["n[1-2]"][..], &SHORT].concat());
    run.finish(LIMIT).ends_with(0).shows(&["1 of 1 pairs"]);
    all_end([first, second]);
}

#[test]
fn agents_come_back_to_a_coordinator_that_goes_on() {
    let home = Home::new();
    with_token(&home);
    let place = format!("127.0.0.1:{}", free_port());
    let agents = ["n1", "n2", "n3", "n4"].map(|name| agent(&home, &place, name));
    let run = mesh(&home, &place, &["n[1-4]", "--name", "killed", "-t", "400ms", "--parallel", "1"]);
    assert!(within(LIMIT, || !measured(&home, "killed").is_empty()), "no pair was measured");
    run.signal("KILL");
    let _ = run.finish(LIMIT);
    let before = measured(&home, "killed");
    assert!(before.len() < 6, "it was too fast to be killed");
    let words = ["mesh", "--resume", "killed", "--listen", place.as_str(), "--token-file", "token"];
    home.msgpath(&words).ends_with(0).shows(&["6 of 6 pairs"]);
    let after = measured(&home, "killed");
    assert!(after.starts_with(&before) && after.len() == 6, "{before:?} {after:?}");
    all_end(agents);
}

fn printed(home: &Home, words: &[&str]) -> String {
    home.msgpath(&[&["mesh"], words].concat()).ends_with(0).out
}

#[test]
fn a_script_starts_a_mesh_by_one_mpirun() {
    let home = Home::new();
    let script = printed(
        &home,
        &[&["--print", "mpi", "--expect", "4", "--program", PROGRAM, "--fail-if", "p99 > 10s"][..], &SHORT].concat(),
    );
    assert!(script.contains("--fail-if 'p99 > 10s'") && script.contains("--expect 4"), "{script}");
    assert!(!script.contains("--print"), "{script}");
    let installed = Command::new("mpirun").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !installed.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: no mpirun");
    }
    std::fs::write(home.path().join("mesh.sh"), &script).unwrap();
    let mut command = Command::new("sh");
    command.args(["mesh.sh", "--oversubscribe", "--mca", "plm", "isolated", "--mca", "oob_tcp_if_include", "lo"]);
    let own = home.command(&[]);
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(home.path()).stdin(Stdio::null());
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.env("MSGPATH_LISTEN", "127.0.0.1").env("MSGPATH_ADDRESS", "127.0.0.1");
    command.env("MSGPATH_PORT", free_port().to_string()).env("MSGPATH_NODE", "here");
    let output = Running::new(command).finish(LIMIT).ends_with(0);
    output.shows(&["4 hosts (here.[0-3]) by join", "6 of 6 pairs", "kept"]);
    assert!(!has_a_token(home.path()), "the token goes with the script");
}

fn has_a_token(folder: &Path) -> bool {
    let mut names = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().ends_with(".token"))
}

#[test]
fn one_srun_starts_all_agents_of_a_mesh() {
    let home = Home::new();
    let script = printed(&home, &[&["--print", "slurm", "--expect", "4", "--program", PROGRAM][..], &SHORT].concat());
    for line in ["#SBATCH --nodes=4", "#SBATCH --ntasks-per-node=1", "srun ", "__join"] {
        assert!(script.contains(line), "{line} is not in {script}");
    }
    let named = printed(&home, &["n[1-4]", "--print", "slurm"]);
    assert!(named.contains("#SBATCH --nodelist=n[1-4]") && named.contains("'n[1-4]'"), "{named}");
    std::fs::write(home.path().join("mesh.sbatch"), &script).unwrap();
    // As a batch job, and eight agents of four nodes by one srun.
    let text = r#"
        export MSGPATH_LISTEN=127.0.0.1 MSGPATH_ADDRESS=127.0.0.1
        sbatch --overcommit -o job.out mesh.sbatch >&2
        for i in $(seq 1200); do [ -z "$(squeue -h)" ] && break; sleep 0.1; done
        cat job.out
        export MSGPATH_TOKEN_FILE=$PWD/token
        "$0" mesh --listen 127.0.0.1:5310 --token-file token --expect 8 -t 60ms -r 3 --name eight & run=$!
        until [ -s token ]; do sleep 0.1; done
        srun -N4 -n8 --overcommit "$0" __join 127.0.0.1:5310
        echo "srun $?"
        wait $run
        echo "mesh $?"
        exit 0"#;
    let Some(output) = beside_slurm(&home, 4, text) else { return };
    let output =
        output.ends_with(0).shows(&["4 hosts (n[1-4]) by join", "6 of 6 pairs", "28 of 28 pairs", "srun 0", "mesh 0"]);
    assert!(output.out.contains("8 hosts (n1."), "{}", output.out);
    assert!(measured(&home, "eight").len() >= 28, "{}", output.err);
    assert!(!has_a_token(home.path()), "the token goes with the job");
}

#[test]
fn a_manifest_for_kubernetes_is_one() {
    let home = Home::new();
    let text = printed(&home, &["--print", "k8s", "--expect", "16", "-x", "tcp,udp", "--fail-if", "p99 > 1ms"]);
    let bare: String = text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    let parts: Vec<Value> = bare
        .split("---\n")
        .filter(|part| !part.trim().is_empty())
        .map(|part| serde_json::from_str(part).unwrap_or_else(|error| panic!("{error}: {part}")))
        .collect();
    let [service, mesh, agents] = &parts[..] else { panic!("{} parts", parts.len()) };
    assert_eq!(
        (service["kind"].as_str(), mesh["kind"].as_str(), agents["kind"].as_str()),
        (Some("Service"), Some("Job"), Some("Job"))
    );
    assert_eq!(
        (agents["spec"]["completions"].as_u64(), agents["spec"]["completionMode"].as_str()),
        (Some(16), Some("Indexed"))
    );
    // The service leads to the pod of the mesh, at the port at which it listens.
    let labels = &mesh["spec"]["template"]["metadata"]["labels"];
    let selector = service["spec"]["selector"].as_object().unwrap();
    assert!(selector.iter().all(|(name, value)| labels[name] == *value), "{labels} {selector:?}");
    assert_ne!(agents["spec"]["template"]["metadata"]["labels"], *labels);
    let words = |job: &Value| -> Vec<String> {
        let args = job["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
        args.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let port = service["spec"]["ports"][0]["port"].as_u64().unwrap();
    assert!(words(mesh).contains(&format!("0.0.0.0:{port}")) && words(mesh).contains(&"p99 > 1ms".to_owned()));
    assert!(words(agents).contains(&format!("{}:{port}", service["metadata"]["name"].as_str().unwrap())));
    for job in [mesh, agents] {
        let pod = &job["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"].as_bool(), Some(true));
        assert!(pod["containers"][0]["env"].to_string().find("0123").is_none(), "no token in it");
        assert_eq!(pod["volumes"][0]["secret"]["secretName"], service["metadata"]["name"]);
    }
    std::fs::write(home.path().join("mesh.yaml"), &text).unwrap();
    let check = Command::new("kubernetes-validate").args(["--strict", "mesh.yaml"]).current_dir(home.path()).output();
    match check {
        Err(_) => eprintln!("skipped: no kubernetes-validate"),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
        }
    }
}

#[test]
fn a_mesh_that_was_measured_is_verified() {
    let home = Home::new();
    measured_mesh(&home, "gang");
    home.run("verify gang").ends_with(0).shows(&["1 pair", "All agree."]);
}
