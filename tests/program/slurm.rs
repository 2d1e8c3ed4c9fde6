//! A real Slurm starts the far end: a controller and a node of its own, on this machine.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::command::{Home, Output, Running};

/// Runs a script beside a Slurm with so many nodes. `None`: not here.
pub(crate) fn beside_slurm(home: &Home, nodes: u32, text: &str) -> Option<Output> {
    let installed = ["slurmctld", "slurmd"].iter().all(|name| Path::new("/usr/sbin").join(name).exists());
    let apart = ["-numpf", "--kill-child", "--mount-proc"];
    let possible =
        Command::new("unshare").args(apart).args(["ip", "-V"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !installed || !possible.is_ok_and(|status| status.success()) {
        eprintln!("skipped: a Slurm needs root, namespaces and the package slurm-wlm");
        return None;
    }
    let own = home.command(&[]);
    let mut command = Command::new("unshare");
    let script = format!("{}\n{text}", include_str!("slurm.sh"));
    command.args(apart).args(["bash", "-c", &script, env!("CARGO_BIN_EXE_msgpath")]);
    command.current_dir(home.path()).stdin(Stdio::null());
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("NODES", nodes.to_string());
    let output = Running::new(command).finish(Duration::from_secs(400));
    match output.code {
        Some(77) => {
            eprintln!("skipped: {}", output.err);
            None
        }
        _ => Some(output),
    }
}

#[test]
fn a_real_srun_starts_the_far_end_and_nothing_stays() {
    let text = r#"
        "$0" echo n1 --launch slurm --program "$0" -x tcp:send,udp:send -c 200 -r 5 -w 0 -o what-ifs=no --name two -qq
        echo "code $?"
        "$0" show two --json >two.json
        # Ctrl-C ends the run in order, and kill -9 at once: either way the step goes.
        for signal in INT KILL; do
            "$0" echo n1 --launch slurm --program "$0" -t 600s -w 0 -o what-ifs=no --no-save --progress line 2>errors & run=$!
            until grep -q ' left' errors; do kill -0 $run || exit 1; sleep 0.1; done
            kill -$signal $run
            wait $run
            for i in $(seq 100); do [ -z "$(squeue -h)" ] && break; sleep 0.1; done
            echo "$signal: jobs $(squeue -h | wc -l)"
        done
        exit 0"#;
    let home = Home::new();
    let Some(output) = beside_slurm(&home, 1, text) else { return };
    output.ends_with(0).shows(&["code 0", "INT: jobs 0", "KILL: jobs 0"]);
    let two: crate::printed::Value =
        serde_json::from_slice(&std::fs::read(home.path().join("two.json")).unwrap()).unwrap();
    assert!(two["target"].as_str().unwrap().starts_with("n1 (slurm) at "), "{}", two["target"]);
}
