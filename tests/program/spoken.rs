//! Findings on real traffic: each must speak where its cause is there. Where they must be silent is tested beside them.

use std::process::Command;

use crate::command::{Home, LIMIT, Running};

/// The codes of what a run says, findings and warnings.
#[track_caller]
fn message(line: &str) -> Vec<(String, String)> {
    let output = Home::new().run(&format!("{line} -w 0 --no-save --json")).ends_with(0);
    codes(&output.json())
}

fn codes(value: &crate::printed::Value) -> Vec<(String, String)> {
    ["findings", "warnings"]
        .iter()
        .flat_map(|list| value[list].as_array().unwrap().clone())
        .map(|one| {
            let text =
                |name: &str| one.get(name).and_then(crate::printed::Value::as_str).unwrap_or_default().to_owned();
            (text("code"), format!("{} {}", text("confidence"), text("text")))
        })
        .collect()
}

/// The first that was said under a code.
#[track_caller]
fn under<'a>(message: &'a [(String, String)], code: &str) -> &'a str {
    says(message, code, "")
}

/// What was said under a code with these words.
#[track_caller]
fn says<'a>(message: &'a [(String, String)], code: &str, words: &str) -> &'a str {
    let found = message.iter().find(|(own, text)| own == code && text.contains(words));
    &found.unwrap_or_else(|| panic!("{code} does not say {words:?}: {message:#?}")).1
}

#[test]
fn nagle_is_named_with_its_counters_and_its_cure() {
    let output = Home::new()
        .run("echo -x tcp:writes --pieces 2x32 -o nodelay=no -t 2s -r 10 -w 0 --no-save --json")
        .ends_with(0);
    let json = output.json();
    // One wait of 40 ms or two, as far as this machine lets them be so long.
    let p50 = json["cases"][0]["quantiles"][0]["ns"].as_f64().unwrap();
    if p50 > 90e6 {
        println!("skipped: other programs keep the CPUs for so long that two waits of 40 ms take {:.0} ms", p50 / 1e6);
        return;
    }
    let message = codes(&json);
    let text = under(&message, "W25");
    // Beside other work the cure may help and yet prove nothing; what is sure, and when, is tested where it is judged.
    assert!(text.starts_with("sure") || text.starts_with("likely"), "{text}");
    assert!(text.contains("TCP_NODELAY") && text.contains("DelayedACKs"), "{text}");
}

#[test]
fn a_cork_that_is_never_released_is_named() {
    let message = message("echo -o cork=held -c 30 -r 6");
    says(&message, "W25", "TCP_CORK is set and never released");
}

#[test]
fn zero_copy_that_was_ignored_or_copied_is_named() {
    says(&message("echo -x tcp:zerocopy-unset -l 16K -c 200 -r 5"), "W20", "was ignored in all");
    says(&message("echo -x unix:zerocopy-unset -l 16K -c 200 -r 5"), "W20", "was ignored in all");
    under(&message("echo -x tcp:zerocopy -l 16K -c 200 -r 5"), "W20");
}

#[test]
fn one_core_for_both_ends_is_named() {
    let all = message("echo -x unix:send --cpu 0,0 -c 400 -r 5");
    says(&all, "W28", "both ends");
}

#[test]
fn waking_is_compared_with_not_waking() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        eprintln!("skipped: one CPU: the ends cannot be apart");
        return;
    }
    let home = Home::new();
    let value = home.run("echo -x unix:send -w 0 -t 2s -r 20 --no-save --json").ends_with(0).json();
    let tried: Vec<&str> =
        value["ablations"].as_array().unwrap().iter().filter_map(|ablation| ablation["change"].as_str()).collect();
    assert_eq!(tried, ["same_cpu", "spin"], "{}", value["ablations"]);
    // Whether it speaks depends on the machine; where both ablations are better by half, it must.
    let better = |ablation: &crate::printed::Value| {
        ablation["verdict"] == "better" && ablation["ratio"]["high"].as_f64() < Some(0.5)
    };
    if value["ablations"].as_array().unwrap().iter().all(better) {
        under(&codes(&value), "V13");
    }
}

#[test]
fn a_rate_beyond_the_far_end_is_named() {
    let message = message("echo -x unix:send --rate 2k -o service-time=2ms -t 2s -r 5");
    under(&message, "W52");
}

#[test]
fn other_work_on_the_cpus_is_named() {
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let burners: Vec<_> = (0..2 * std::thread::available_parallelism().map_or(1, usize::from))
        .map(|_| {
            let stop = stop.clone();
            std::thread::spawn(move || while !stop.load(std::sync::atomic::Ordering::Relaxed) {})
        })
        .collect();
    let message = message("echo -x unix:send -o what-ifs=no -t 2s -r 10");
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    burners.into_iter().for_each(|burner| burner.join().unwrap());
    under(&message, "W46");
}

#[test]
fn doctors_stop_is_repeated_with_every_run() {
    if !cfg!(debug_assertions) {
        eprintln!("skipped: a release build has nothing to stop for");
        return;
    }
    let message = message("echo -x unix:send -c 40 -r 5");
    says(&message, "W49", "a debug build");
}

#[test]
fn datagrams_lost_in_a_small_buffer_are_counted_there() {
    let message = message("stream -x udp:send -l 8K -o rcvbuf=8K -t 500ms -r 5");
    says(&message, "W26", "dropped at a full receive buffer");
}

#[test]
fn restarts_are_a_level_of_their_own() {
    let message = message("echo -x unix:send -o what-ifs=no -t 2s -r 20 -o restarts=4");
    under(&message, "V12");
}

#[test]
fn slow_start_after_idle_is_seen_in_the_window() {
    let setting = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_slow_start_after_idle").unwrap_or_default();
    // Root may ask for whatever is there, others for what is allowed.
    let root = std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let known = format!("/proc/sys/net/ipv4/tcp_{}_congestion_control", if root { "available" } else { "allowed" });
    let known = std::fs::read_to_string(known).unwrap_or_default();
    if setting.trim() != "1" || !known.split_whitespace().any(|name| name == "cubic") {
        eprintln!("skipped: slow start after idle is off, or cubic may not be asked for");
        return;
    }
    let home = Home::new();
    let line =
        "echo -x tcp:send -o congestion=cubic --rate 2 -o arrivals=constant -l 1M -t 5s -r 2 -w 0 --name idle --json";
    let output = home.run(line).ends_with(0);
    // On a busy machine the window may never have grown beyond what the kernel falls back to.
    let run = msgpath_record::read(&home.runs().join("idle")).unwrap();
    let mut windows = run.rounds.iter().filter_map(|round| round.open.as_ref()?.idle_cwnd);
    if !windows.any(|(before, after)| after < before) {
        return eprintln!("skipped: the window was no smaller after an idle gap");
    }
    let message = codes(&output.json());
    let text = under(&message, "W32");
    assert!(text.contains("window"), "{text}");
}

/// A shell in network namespaces of its own, or why there is none.
fn in_namespace(script: &str, home: &Home) -> Result<Running, String> {
    let possible = Command::new("unshare").args(["-n", "true"]).status();
    if !possible.is_ok_and(|status| status.success()) {
        return Err("no network namespace without privileges".into());
    }
    if !Command::new("ip").arg("-V").status().is_ok_and(|status| status.success()) {
        return Err("no iproute2".into());
    }
    let mut command = Command::new("unshare");
    command.args(["-n", "sh", "-c", script]).env("MSGPATH", env!("CARGO_BIN_EXE_msgpath"));
    command.env("HOME", home.path()).env("XDG_DATA_HOME", home.path().join("data")).env("TMPDIR", home.temporary());
    command.current_dir(home.path());
    Ok(Running::new(command))
}

#[test]
fn an_address_of_the_network_that_stays_here_is_named() {
    let home = Home::new();
    let script = "ip link set lo up && ip addr add 10.9.8.7/32 dev lo && \
                  { \"$MSGPATH\" serve 10.9.8.7 --insecure 2>serving & pid=$!; \
                    until grep -q 'serving at' serving || ! kill -0 $pid; do sleep 0.1; done; \
                    \"$MSGPATH\" echo 10.9.8.7 -w 0 -c 200 -r 5 --no-save --json; code=$?; kill $pid; wait $pid; exit $code; }";
    let output = match in_namespace(script, &home) {
        Ok(running) => running.finish(LIMIT).ends_with(0),
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let message = codes(&output.json());
    under(&message, "W33");
}

#[test]
fn a_quota_that_stops_the_run_is_named() {
    // A cgroup of our own with a tenth of a CPU, in either version. Its weight sees to it that it gets as much, whoever else wants CPUs:
    // a group that does not use up its quota is never stopped.
    let two = std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    let (parent, quota, limit, weight, heaviest) = match two {
        true => ("/sys/fs/cgroup", "cpu.max", "10000 100000", "cpu.weight", "10000"),
        false => ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "10000", "cpu.shares", "262144"),
    };
    let folder = std::path::PathBuf::from(format!("{parent}/msgpath-test-spoken-{}", std::process::id()));
    if let Err(error) = std::fs::create_dir(&folder) {
        return eprintln!("skipped: no cgroup of our own: {error}");
    }
    // Only a file that the kernel has put there is one: elsewhere this is a plain folder.
    if !folder.join(quota).exists() || std::fs::write(folder.join(quota), limit).is_err() {
        let _ = std::fs::remove_dir(&folder);
        return eprintln!("skipped: no CPU quota in {parent}");
    }
    std::fs::write(folder.join(weight), heaviest).expect("a weight beside a quota");
    let home = Home::new();
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec \"$MSGPATH\" echo -x shm:ring/spin -w 0 -o what-ifs=no -t 2s -r 5 --no-save --json",
        folder.display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).env("MSGPATH", env!("CARGO_BIN_EXE_msgpath")).env("HOME", home.path());
    let output = Running::new(command).finish(LIMIT);
    let _ = std::fs::remove_dir(&folder);
    says(&codes(&output.ends_with(0).json()), "W41", "quota");
}
