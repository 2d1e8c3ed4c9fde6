//! The program from outside, as a user starts it.
#![allow(clippy::print_stderr, clippy::print_stdout)]
#![forbid(unsafe_code)]

#[path = "program/agent.rs"]
mod agent;
#[path = "program/agents.rs"]
mod agents;
#[path = "program/agreement.rs"]
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
#[path = "program/compat.rs"]
mod compat;
#[path = "program/corrupt.rs"]
mod corrupt;
#[path = "program/device.rs"]
mod device;
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
#[path = "program/far.rs"]
mod far;
#[path = "program/flood.rs"]
mod flood;
#[path = "program/gang.rs"]
mod gang;
#[path = "program/gates.rs"]
mod gates;
#[path = "program/import.rs"]
mod import;
#[path = "program/json_page.rs"]
mod json_page;
#[path = "program/judge.rs"]
mod judge;
#[path = "program/lab.rs"]
mod lab;
#[path = "program/ladder.rs"]
mod ladder;
#[path = "program/launch.rs"]
mod launch;
#[path = "program/layers.rs"]
mod layers;
#[path = "program/lies.rs"]
mod lies;
#[path = "program/live.rs"]
mod live;
#[path = "program/load.rs"]
mod load;
#[path = "program/mesh.rs"]
mod mesh;
#[path = "program/more_paths.rs"]
mod more_paths;
#[path = "program/odd_files.rs"]
mod odd_files;
#[path = "program/others.rs"]
mod others;
#[path = "program/own_server.rs"]
mod own_server;
#[path = "program/passed_on.rs"]
mod passed_on;
#[path = "program/periodic.rs"]
mod periodic;
#[path = "program/preset.rs"]
mod preset;
#[path = "program/record.rs"]
mod record;
#[path = "program/report.rs"]
mod report;
#[path = "program/resume.rs"]
mod resume;
#[path = "program/rpc.rs"]
mod rpc;
#[path = "program/rpc_server.rs"]
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
#[path = "program/tools.rs"]
mod tools;
#[path = "program/usage.rs"]
mod usage;
#[path = "program/verified.rs"]
mod verified;
#[path = "program/verify.rs"]
mod verify;
#[path = "program/watch.rs"]
mod watch;
#[path = "program/watch_agrees.rs"]
mod watch_agrees;
#[path = "program/watch_datagrams.rs"]
mod watch_datagrams;
#[path = "program/watch_ends.rs"]
mod watch_ends;
#[path = "program/watch_namespaces.rs"]
mod watch_namespaces;
