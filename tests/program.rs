//! The program from outside, as a user starts it.
#![allow(clippy::print_stderr, clippy::print_stdout)]
#![forbid(unsafe_code)]

#[path = "program/agent.rs"]
mod agent;
#[cfg(feature = "mesh")]
#[path = "../features/mesh/tests/program/agents.rs"]
mod agents;
#[cfg(feature = "watch")]
#[path = "../features/watch/tests/program/agreement.rs"]
mod agreement;
#[path = "program/book.rs"]
mod book;
#[path = "program/borders.rs"]
mod borders;
#[path = "program/circles.rs"]
mod circles;
#[path = "program/citations.rs"]
mod citations;
#[path = "program/command.rs"]
mod command;
#[path = "program/compare.rs"]
mod compare;
#[cfg(feature = "courses")]
#[path = "../features/courses/tests/program/compat.rs"]
mod compat;
#[cfg(feature = "connect")]
#[path = "../features/connect/tests/program/connect.rs"]
mod connect;
#[path = "program/corrupt.rs"]
mod corrupt;
#[path = "program/device.rs"]
mod device;
#[path = "program/disturbed.rs"]
mod disturbed;
#[path = "program/documents.rs"]
mod documents;
#[path = "program/echo.rs"]
mod echo;
#[path = "program/eth.rs"]
mod eth;
#[path = "program/events.rs"]
mod events;
#[path = "program/exhaustion.rs"]
mod exhaustion;
#[cfg(all(feature = "fan", feature = "namespaces"))]
#[path = "../features/fan/tests/program/fan.rs"]
mod fan;
#[path = "program/far.rs"]
mod far;
#[path = "program/findings.rs"]
mod findings;
#[path = "program/flood.rs"]
mod flood;
#[cfg(feature = "mesh")]
#[path = "../features/mesh/tests/program/gang.rs"]
mod gang;
#[path = "program/gates.rs"]
mod gates;
#[cfg(feature = "calls")]
#[path = "../features/calls/tests/program/https.rs"]
mod https;
#[cfg(feature = "calls")]
#[path = "../features/calls/tests/program/import.rs"]
mod import;
#[path = "program/judge.rs"]
mod judge;
#[cfg(feature = "namespaces")]
#[path = "../features/namespaces/tests/program/lab.rs"]
mod lab;
#[path = "program/ladder.rs"]
mod ladder;
#[path = "program/launch.rs"]
mod launch;
#[path = "../features/layers/tests/program/layers.rs"]
mod layers;
#[path = "program/lies.rs"]
mod lies;
#[path = "program/live.rs"]
mod live;
#[path = "program/load.rs"]
mod load;
#[cfg(feature = "loaded")]
#[path = "../features/loaded/tests/program/loaded.rs"]
mod loaded;
#[cfg(feature = "mesh")]
#[path = "../features/mesh/tests/program/mesh.rs"]
mod mesh;
#[cfg(feature = "loaded")]
#[path = "../features/loaded/tests/program/mix.rs"]
mod mix;
#[path = "program/more_paths.rs"]
mod more_paths;
#[cfg(feature = "periodic")]
#[path = "../features/periodic/tests/program/multicast.rs"]
mod multicast;
#[path = "program/networks.rs"]
mod networks;
#[path = "program/notation.rs"]
mod notation;
#[path = "program/odd_files.rs"]
mod odd_files;
#[path = "program/others.rs"]
mod others;
#[path = "program/own_preset.rs"]
mod own_preset;
#[cfg(feature = "calls")]
#[path = "../features/calls/tests/program/own_server.rs"]
mod own_server;
#[path = "program/passed_on.rs"]
mod passed_on;
#[cfg(feature = "periodic")]
#[path = "../features/periodic/tests/program/periodic.rs"]
mod periodic;
#[cfg(feature = "postgres")]
#[path = "../features/calls/tests/program/postgres.rs"]
mod postgres;
#[cfg(feature = "courses")]
#[path = "../features/courses/tests/program/preset.rs"]
mod preset;
#[path = "program/printed.rs"]
mod printed;
#[path = "program/record.rs"]
mod record;
#[path = "program/report.rs"]
mod report;
#[path = "program/resume.rs"]
mod resume;
#[cfg(feature = "calls")]
#[path = "../features/calls/tests/program/rpc.rs"]
mod rpc;
#[cfg(feature = "calls")]
#[path = "../features/calls/tests/program/rpc_server.rs"]
mod rpc_server;
#[path = "program/schema.rs"]
mod schema;
#[path = "program/serve.rs"]
mod serve;
#[path = "program/sigio.rs"]
mod sigio;
#[path = "program/slurm.rs"]
mod slurm;
#[path = "program/spoken.rs"]
mod spoken;
#[path = "program/sql.rs"]
mod sql;
#[path = "program/standard.rs"]
mod standard;
#[path = "program/strangers.rs"]
mod strangers;
#[path = "program/stream.rs"]
mod stream;
#[path = "program/threads.rs"]
mod threads;
#[path = "program/token.rs"]
mod token;
#[cfg(feature = "tools")]
#[path = "../features/tools/tests/program/tools.rs"]
mod tools;
#[path = "program/usage.rs"]
mod usage;
#[path = "program/verified.rs"]
mod verified;
#[cfg(all(feature = "watch", feature = "mesh", feature = "tracers"))]
#[path = "program/verify.rs"]
mod verify;
#[cfg(feature = "watch")]
#[path = "../features/watch/tests/program/watch.rs"]
mod watch;
#[cfg(feature = "watch")]
#[path = "../features/watch/tests/program/watch_agrees.rs"]
mod watch_agrees;
#[cfg(feature = "watch")]
#[path = "../features/watch/tests/program/watch_datagrams.rs"]
mod watch_datagrams;
#[cfg(feature = "watch")]
#[path = "../features/watch/tests/program/watch_ends.rs"]
mod watch_ends;
#[cfg(feature = "watch")]
#[path = "../features/watch/tests/program/watch_namespaces.rs"]
mod watch_namespaces;
#[cfg(feature = "watch")]
#[path = "../features/watch/tests/program/watch_protocols.rs"]
mod watch_protocols;
#[cfg(feature = "watch")]
#[path = "../features/watch/tests/program/watch_runtimes.rs"]
mod watch_runtimes;
#[cfg(feature = "watch")]
#[path = "../features/watch/tests/program/watch_truth.rs"]
mod watch_truth;
