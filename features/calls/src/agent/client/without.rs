//! In the place of TLS and HTTP/2, in a build that has neither.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use msgpath_core::Problem;

use super::http::Http;
use super::lacking;
use super::loops::{Line, Shared};
use super::orders::{CallsOrder, TlsOrder};
use super::part::{Part, Place};
use super::stream::Stream;
use crate::record::Shaken;

/// How TLS begins: never.
#[derive(Clone)]
pub enum Tls {}

impl Tls {
    pub fn client(_: &TlsOrder) -> Result<Tls, Problem> {
        Err(lacking("the target"))
    }

    pub fn shake(&self, _: BorrowedFd<'_>, _: Duration, _: &AtomicBool) -> Result<(Tls, Shaken), Problem> {
        match *self {}
    }

    pub fn seal(&self, _: &[u8], _: impl FnOnce(&[u8]) -> io::Result<()>) -> io::Result<()> {
        match *self {}
    }

    pub fn open(&self, _: &mut [u8], _: impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        match *self {}
    }
}

/// How TLS begins.
pub type Client = Tls;

/// A connection of HTTP/2: none.
pub enum Http2 {}

impl Http2 {
    pub fn begin(_: &Http, _: bool, _: &Stream, _: (u64, Duration), _: &AtomicBool) -> Result<Http2, Problem> {
        Err(lacking("--http2"))
    }

    pub fn streams(&self) -> u64 {
        match *self {}
    }
}

pub fn round(_: &mut Line, _: &CallsOrder, _: &Shared, _: &Place, _: &mut Part) {}
