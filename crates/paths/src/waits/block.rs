//! `block`: the receive call itself waits. Copy this file to add a wait.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};

use crate::channel::Receive;
use crate::end::{NewWait, Wait};
use crate::layer::Layered;
use crate::meta::{Meta, Part};

pub struct Block;

impl Part for Block {
    const META: Meta = Meta {
        name: "block",
        summary: "the receive call sleeps until something is there",
        manual: "One call a message. The thread sleeps and is woken: the wake-up is part of the round trip.",
    };
    const IN_CALL: bool = true;
}

impl<C: Receive> NewWait<C> for Block {
    fn new(_: &mut C, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self)
    }
}

impl<C: Receive> Wait<C> for Block {
    #[inline(always)]
    fn recv(&mut self, channel: &mut C, buffer: &mut [u8]) -> io::Result<usize> {
        channel.counts().recv_calls += 1;
        channel.recv(buffer)
    }
}

impl NewWait<Layered> for Block {
    fn new(_: &mut Layered, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self)
    }
}

impl Wait<Layered> for Block {
    #[inline(always)]
    fn recv(&mut self, channel: &mut Layered, buffer: &mut [u8]) -> io::Result<usize> {
        channel.layer()?.recv(buffer)
    }
}
