//! The modules of `msgpath-agent` alone, for a fuzz target.

#[path = "../../../crates/agent/src/rpc/client/http.rs"]
pub mod http;
#[path = "../../../crates/agent/src/rpc/client/maker.rs"]
pub mod maker;
#[path = "../../../crates/agent/src/rpc/client/redis.rs"]
pub mod redis;
#[path = "../../../crates/agent/src/rpc/client/wire.rs"]
pub mod wire;
