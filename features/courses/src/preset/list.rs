//! The presets that come with the program.

/// Every preset that comes with the program: its name and its file.
pub const PRESETS: &[(&str, &str)] = &[
    ("aa-control", include_str!("../../../../presets/aa-control.toml")),
    ("bulk-split", include_str!("../../../../presets/bulk-split.toml")),
    ("copy-ladder", include_str!("../../../../presets/copy-ladder.toml")),
    ("echo-sizes", include_str!("../../../../presets/echo-sizes.toml")),
    ("idle-connections", include_str!("../../../../presets/idle-connections.toml")),
    ("ipc-zoo", include_str!("../../../../presets/ipc-zoo.toml")),
    ("languages", include_str!("../../../../presets/languages.toml")),
    ("load-curve", include_str!("../../../../presets/load-curve.toml")),
    ("nagle-trap", include_str!("../../../../presets/nagle-trap.toml")),
    ("notify-modes", include_str!("../../../../presets/notify-modes.toml")),
    ("peers", include_str!("../../../../presets/peers.toml")),
    ("rpc-timeline", include_str!("../../../../presets/rpc-timeline.toml")),
    ("several-at-once", include_str!("../../../../presets/several-at-once.toml")),
    ("threads-and-queues", include_str!("../../../../presets/threads-and-queues.toml")),
    ("vehicles", include_str!("../../../../presets/vehicles.toml")),
    ("write-shape", include_str!("../../../../presets/write-shape.toml")),
    ("zerocopy-truth", include_str!("../../../../presets/zerocopy-truth.toml")),
];

/// Published tables that a machine can attempt: presets of their own, for `--repro`.
pub const PUBLISHED: &[(&str, &str)] = &[
    ("echo-lab", include_str!("../../../../presets/published/echo-lab.toml")),
    ("echo-servers", include_str!("../../../../presets/published/echo-servers.toml")),
    ("ipc-ping-pong", include_str!("../../../../presets/published/ipc-ping-pong.toml")),
    ("nagle", include_str!("../../../../presets/published/nagle.toml")),
    ("primitives-lab", include_str!("../../../../presets/published/primitives-lab.toml")),
    ("send-zc-udp", include_str!("../../../../presets/published/send-zc-udp.toml")),
    ("vehicles", include_str!("../../../../presets/published/vehicles.toml")),
    ("write-shapes", include_str!("../../../../presets/published/write-shapes.toml")),
    ("zerocopy-local", include_str!("../../../../presets/published/zerocopy-local.toml")),
    ("zerocopy-udp", include_str!("../../../../presets/published/zerocopy-udp.toml")),
    ("zerocopy-veth", include_str!("../../../../presets/published/zerocopy-veth.toml")),
];

/// Published tables that are not attempted, and why.
pub const NOT_ATTEMPTED: &[(&str, &str)] = &[
    ("SEND_ZC notification stacking", "its gain is that of a NIC, which takes no part on one machine"),
    ("zero-copy receive at 200 Gbit/s", "needs two machines and a NIC with header split and flow steering"),
    ("host stack at 100 Gbit/s", "needs two machines and such a NIC"),
    ("core-to-core latency", "a cache line that two cores swap; shm:ring/spin is the nearest path and does more"),
    (
        "coordinated omission, a freeze of 1.4 s",
        "a far end that freezes on purpose is not built; preset load-curve shows both latencies",
    ),
    ("duet benchmarking", "CPU benchmarks, no messages"),
    ("RPC lab on 1 Gbit/s Ethernet", "needs two machines; preset rpc-timeline measures the same calls here"),
    (
        "the rule that zero copy pays above 10 KB",
        "a text without figures; preset zerocopy-truth gives the crossover of this path",
    ),
];

#[cfg(test)]
mod tests {
    use super::super::Preset;
    use super::*;

    /// Buffers that stay in the caches hide what a copy costs: without such a run the question is answered for them alone.
    #[test]
    fn zero_copy_is_asked_of_cold_buffers_too() {
        let (_, text) = PRESETS.iter().find(|(name, _)| *name == "zerocopy-truth").unwrap();
        let preset = Preset::parse(text).unwrap();
        let option = |at: usize, name: &str| preset.runs[at].options.iter().find(|one| one.name == name);
        let value = |at, name| option(at, name).and_then(|one| one.value.clone());
        let working_set = |at| {
            let settings = value(at, "set").unwrap_or_default();
            settings.split(',').find_map(|one| one.strip_prefix("working-set=").map(str::to_owned))
        };
        let cold: Vec<usize> = (0..preset.runs.len()).filter(|at| working_set(*at).is_some()).collect();
        assert!(!cold.is_empty(), "no run has a working set");
        for at in cold {
            let bytes = msgpath_core::units::parse_size(&working_set(at).unwrap()).unwrap();
            assert!(bytes >= 128 << 20, "{bytes} bytes lie in the caches of a large CPU");
            let paths = value(at, "path").unwrap();
            assert!(
                paths.split(',').any(|path| path == "tcp:send") && paths.split(',').any(|path| path == "tcp:zerocopy")
            );
        }
    }
}
