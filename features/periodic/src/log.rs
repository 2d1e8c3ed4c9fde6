//! The messages of a periodic run, as its analysis reads them.

use msgpath_analyse::Logs;
use msgpath_analyse::logs::Pulled;
use msgpath_core::schema::MessageRow;

/// The messages of a periodic run.
#[derive(Default)]
pub struct Sent(pub Pulled<MessageRow>);

/// The messages of a periodic run; empty where nobody read them.
pub fn log(logs: &Logs) -> &Pulled<MessageRow> {
    static NONE: Pulled<MessageRow> = Pulled::Here(Vec::new());
    logs.own::<Sent>().map_or(&NONE, |sent| &sent.0)
}
