//! An agent in a network namespace of this machine: a child of this process that moves there before anything else.

use std::net::IpAddr;

use msgpath_core::Problem;
use msgpath_core::plan::Between;
use msgpath_core::schema::{FAR, NEAR};

use super::{Launcher, Stream, local};

/// The far place of two.
pub struct Namespace<'a>(pub &'a Between);

impl Launcher for Namespace<'_> {
    fn launch(&self) -> Result<Stream, Problem> {
        let [near, far] = [NEAR, FAR].map(|end| self.0.of(end));
        let stream = local::end("far end", Some([far.clone(), near.clone()]))?;
        let peer = far.address.parse::<IpAddr>().ok().map(|address| (address, 0).into());
        Ok(Stream { peer, ..stream })
    }
}
