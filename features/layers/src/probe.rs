//! The real thing once, on this machine: both ends talk before the first message, so each has a thread.

use std::io;
use std::thread;
use std::time::Duration;

use msgpath_core::Unavailable;
use msgpath_paths::{AnyChannel, Layered, Need, Transport};

const BYTES: usize = 64;

/// One message there and back over a connection of its own.
///
/// # Errors
/// Why it does not work here.
pub(crate) fn round_trip(layer: &dyn Transport) -> Result<(), Unavailable> {
    let name = layer.meta().meta.name;
    let failed = |error: io::Error| Unavailable::new(format!("{name}: {error}"), "");
    let need = Need::local(BYTES as u64);
    let mut offer = layer.offer(&need).map_err(failed)?;
    let (near, local) = layer.connect(&offer.addresses()[0], &need).map_err(failed)?;
    let far = offer.accept(&[local], Duration::from_secs(1)).map_err(failed)?.pop();
    let (AnyChannel::Layer(mut near), Some(AnyChannel::Layer(mut far))) = (near, far) else {
        return Err(Unavailable::new(format!("{name} is not a layer"), ""));
    };
    thread::scope(|scope| {
        let far = scope.spawn(move || answer(&mut far));
        let asked = ask(&mut near);
        drop(near); // the far end waits for it
        let answered = far.join().unwrap_or_else(|_| Err(Unavailable::new("the far end ended early", "")));
        asked.and(answered)
    })
}

fn ask(near: &mut Layered) -> Result<(), Unavailable> {
    let failed = |error: io::Error| Unavailable::new(error.to_string(), "");
    near.begin()?;
    let (sent, mut came) = ([7; BYTES], [0; BYTES]);
    let layer = near.layer().map_err(failed)?;
    layer.send(&sent).map_err(failed)?;
    let got = layer.recv(&mut came).map_err(failed)?;
    match came == sent {
        true => Ok(()),
        false => Err(Unavailable::new(format!("{got} bytes came back, and not those that were sent"), "")),
    }
}

fn answer(far: &mut Layered) -> Result<(), Unavailable> {
    let failed = |error: io::Error| Unavailable::new(error.to_string(), "");
    far.begin()?;
    let mut message = [0; BYTES];
    let layer = far.layer().map_err(failed)?;
    let got = layer.recv(&mut message).map_err(failed)?;
    layer.send(&message[..got]).map_err(failed)?;
    layer.drain();
    Ok(())
}
