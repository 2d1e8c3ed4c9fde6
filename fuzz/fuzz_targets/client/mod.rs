//! The modules alone, for a fuzz target.

#[path = "../../../features/calls/src/agent/client/http.rs"]
pub mod http;
#[path = "../../../features/calls/src/agent/client/maker.rs"]
pub mod maker;
#[path = "../../../features/calls/src/agent/client/redis.rs"]
pub mod redis;
#[path = "../../../features/calls/src/agent/client/postgres.rs"]
pub mod postgres;
#[path = "../../../features/calls/src/agent/client/wire.rs"]
pub mod wire;
