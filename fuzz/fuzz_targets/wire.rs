//! Frames of the protocol between the two ends, in both directions, and the first ones: who comes, what an agent is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msgpath_core::Problem;
use msgpath_core::doctor::{Check, parse_report};
use msgpath_core::foreign::shown;
use msgpath_rpc::command::MAX_CALLS;
use role::{Found, Role};
use rpc::client::orders::{Answer, Order};
use seal::{Key, Sealing, Seals};
use wire::{Admits, FromDoor, FromEnd, Incoming, Joining, Opening, Proves, ToEnd};

// Features name its modules by the crate that they are of.
extern crate self as msgpath_agent;

// The modules alone: the measured loops beside it, generic over every path, take minutes to compile for a fuzzer.
#[allow(dead_code)]
#[path = "../../crates/agent/src/failure.rs"]
mod failure;
#[allow(dead_code)]
#[path = "../../crates/agent/src/role.rs"]
mod role;
#[allow(dead_code)]
mod rpc;
#[allow(dead_code)]
#[path = "../../crates/agent/src/seal.rs"]
mod seal;
#[allow(dead_code)]
#[path = "../../crates/agent/src/wire.rs"]
mod wire;

// What the rows of calls are.
mod record {
    pub use msgpath_calls::record::{Handshakes, RpcRemark, RpcRow};
}

/// What is accepted is written again as the same message.
fn frame<T: wire::Frame + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> Option<T> {
    let (message, extra) = wire::read::<T>(&mut &bytes[..]).ok()??;
    let mut again = Vec::new();
    wire::write(&mut again, &message, &extra).expect("what was read can be written");
    let read = wire::read::<T>(&mut &again[..]).expect("what was written can be read");
    assert_eq!(read.as_ref(), Some(&(message, extra)));
    read.map(|(message, _)| message)
}

/// The fuzzer does not guess checksums: a frame is also made around the bytes as they are.
fn framed(json: &[u8]) -> Vec<u8> {
    let mut out = b"mp".to_vec();
    out.extend([wire::VERSION, 0]);
    out.extend((json.len() as u32).to_le_bytes());
    out.extend(0_u32.to_le_bytes());
    out.extend(crc32fast::hash(json).to_le_bytes());
    out.extend(json);
    out
}

/// Sealed frames: as they were said they are read, and changed bytes are never taken for what was said.
fn sealed(bytes: &[u8]) {
    let key = Key([7; 32]);
    let [near, far] = [true, false].map(|near| Seals::new(&key, near));
    let hear = |from: &mut &[u8]| Incoming::new::<ToEnd>().sealed(Some(far.hears.clone())).next::<ToEnd>(from);
    assert!(!matches!(hear(&mut &bytes[..]), Ok(Some(_))), "nobody but the other end can seal a frame");
    if let Ok(Some((message, _))) = wire::read::<ToEnd>(&mut &bytes[..]) {
        let mut said = Vec::new();
        wire::write(&mut Sealing::new(&mut said, Some(near.says)), &message, &[])
            .expect("what was read can be written");
        assert_eq!(hear(&mut &said[..]).expect("it was said"), Some((message, Vec::new())));
    }
    // What is enciphered by whom it may be is shown or refused.
    let texts: Vec<String> = String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect();
    let hidden = far.veil.clone().hide(&texts);
    assert_eq!(near.veil.clone().show(&hidden).expect("its own"), texts);
    let _ = near.veil.clone().show(&texts);
}

fuzz_target!(|bytes: &[u8]| {
    for bytes in [bytes, &framed(bytes)] {
        if let Some(ToEnd::Round(order)) = frame(bytes)
            && order.check().is_ok()
        {
            assert!(order.largest() > 0 && order.reply_pieces().total() > 0);
        }
        if let Some(ToEnd::For { body, .. }) = frame(bytes)
            && let Ok(Order::Call(order)) = body.read()
            && order.check().is_ok()
        {
            assert!(order.steps.iter().all(|step| (1..=MAX_CALLS).contains(&step.calls())));
        }
        match frame(bytes) {
            Some(FromEnd::Examined { checks }) => {
                for check in parse_report(checks).unwrap_or_default() {
                    let check = Check::new("far", check);
                    let texts = [&check.what, &check.cure].into_iter();
                    let commands = check.commands.iter().flat_map(|fix| [&fix.run, &fix.undo]);
                    assert!(texts.chain(commands).all(|text| shown(text) == text.as_str()));
                }
            }
            Some(FromEnd::Failed(failure)) => {
                let problem = Problem::from(failure);
                assert!(matches!(problem.exit.code(), 3 | 4) && problem.code.len() == 3);
            }
            Some(FromEnd::For { body }) => {
                if let Ok(said) = body.read::<Answer>() {
                    let again = FromEnd::role(&said).expect("what was read can be said");
                    assert!(again.of_role::<Answer>().is_ok_and(|again| again == said));
                }
            }
            _ => {}
        }
        let _ = (frame::<Role>(bytes), frame::<Found>(bytes));
        let _ = (frame::<FromDoor>(bytes), frame::<Joining>(bytes));
        let _ = (frame::<Opening>(bytes), frame::<Proves>(bytes), frame::<Admits>(bytes));
        sealed(bytes);
    }
});
