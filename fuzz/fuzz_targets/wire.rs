//! Frames of the protocol between the two ends, in both directions, and the first ones: who comes, what an agent is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msgpath_core::Problem;
use msgpath_core::doctor::{Check, parse_report};
use msgpath_core::foreign::shown;
use msgpath_rpc::command::MAX_CALLS;
use role::{Found, Role};
use wire::{FromDoor, FromEnd, Joining, ToEnd, Verdict};

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
#[path = "../../crates/agent/src/wire.rs"]
mod wire;

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

fuzz_target!(|bytes: &[u8]| {
    for bytes in [bytes, &framed(bytes)] {
        if let Some(ToEnd::Round(order)) = frame(bytes)
            && order.check().is_ok()
        {
            assert!(order.largest() > 0 && order.reply_pieces().total() > 0);
        }
        if let Some(ToEnd::Call(order)) = frame(bytes)
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
            _ => {}
        }
        let _ = (frame::<Role>(bytes), frame::<Found>(bytes));
        let _ = (frame::<FromDoor>(bytes), frame::<Joining>(bytes), frame::<Verdict>(bytes));
    }
});
