//! The modules of `msgpath-run` alone, for a fuzz target.

#[path = "../../../crates/run/src/rpc/client/http.rs"]
pub mod http;
#[path = "../../../crates/run/src/rpc/client/maker.rs"]
pub mod maker;
#[path = "../../../crates/run/src/rpc/client/redis.rs"]
pub mod redis;
#[path = "../../../crates/run/src/rpc/client/wire.rs"]
pub mod wire;
