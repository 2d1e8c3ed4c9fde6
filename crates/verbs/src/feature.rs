//! What a feature adds to the program. The base names none of them: the binary lists those that it was built with.

use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::Result;
use msgpath_agent::roles::{self, ListedRole};
use msgpath_agent::works::{self, Work};
use msgpath_analyse::section as analyse;
use msgpath_core::workload::{self, Workload};
use msgpath_core::{Exit, Problem};
use msgpath_present::section as present;
use msgpath_record::AnyLog;
use msgpath_record::export::{self, Exporter};
use msgpath_record::log::LOGS;
use msgpath_run::traffic::{self, TrafficKind};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::beside::{self, Beside};
use crate::importers::{self, Importer};
use crate::kind::{self, Kind};
use crate::places::{self, Maker};
use crate::servers::{self, Server};
use crate::verb::AnyVerb;

/// A capability beyond echo, stream and compare, whole in a crate of its own.
pub struct Feature {
    pub verbs: &'static [AnyVerb],
    /// What it keeps on disk.
    pub kinds: &'static [Kind],
    /// What it adds to the analysis of a run.
    pub sections: &'static [&'static analyse::Section],
    /// What it adds to what is printed of a run.
    pub views: &'static [&'static present::Section],
    /// What messages do in its runs.
    pub workloads: &'static [&'static Workload],
    /// Logs of rows that it keeps beside the rounds of a run.
    pub logs: &'static [AnyLog],
    /// What it takes from other programs.
    pub importers: &'static [Importer],
    /// Formats that a run with rows of its own is exported to.
    pub exporters: &'static [&'static dyn Exporter],
    /// Its part of `msgpath schema` ([`msgpath_present::json::schema_part`]); empty: it prints no object of its own.
    pub schema: &'static str,
    /// What `msgpath serve` can be instead.
    pub servers: &'static [&'static dyn Server],
    /// What measuring threads do for its workloads, where the loops of the base cannot carry them out.
    pub works: &'static [&'static dyn Work],
    /// What goes on beside the rounds of a run for its workloads, where a round of a pair of ends is not that.
    pub traffic: &'static [&'static dyn TrafficKind],
    /// What sessions of this program can be for it.
    pub roles: &'static [ListedRole],
    /// What it measures beside a run.
    pub besides: &'static [&'static dyn Beside],
    /// What makes places for the two ends of a run; of one feature at most.
    pub places: Option<&'static dyn Maker>,
    /// Processes that it starts of this program.
    pub processes: &'static [Process],
    /// What it makes known elsewhere before anything else is done, such as paths.
    pub begin: fn(),
}

/// A process of a feature: this program again, which [`Role::Of`](msgpath_agent::role::Role::Of) told over its standard input that it is one.
pub struct Process {
    /// As its role has it; no two processes have the same.
    pub name: &'static str,
    /// Runs until it ends. Behind the role, standard input and output are its own.
    ///
    /// # Errors
    /// What it ended with.
    pub run: fn(Told) -> Result<ExitCode>,
}

/// What a process of a feature begins with.
pub struct Told {
    /// From its role.
    pub body: Value,
}

impl Told {
    /// The body.
    ///
    /// # Errors
    /// E17: it is something else.
    pub fn read<T: DeserializeOwned>(self) -> Result<T, Problem> {
        serde_json::from_value(self.body)
            .map_err(|error| Problem::new("E17", Exit::Unfinished, format!("the agent ended: {error}")))
    }
}

/// Of a feature that has nothing of it.
pub const NOTHING: Feature = Feature {
    verbs: &[],
    kinds: &[],
    sections: &[],
    views: &[],
    workloads: &[],
    logs: &[],
    importers: &[],
    exporters: &[],
    schema: "",
    servers: &[],
    works: &[],
    traffic: &[],
    roles: &[],
    besides: &[],
    places: None,
    processes: &[],
    begin: || (),
};

static ALL: OnceLock<&[&Feature]> = OnceLock::new();

/// Tells the base which features there are, and each plug point what stands at it; once, before anything else.
pub(crate) fn set(features: &'static [&'static Feature]) {
    let all = || features.iter();
    kind::ALL.extend(all().flat_map(|feature| feature.kinds));
    LOGS.extend(all().flat_map(|feature| feature.logs));
    importers::ALL.extend(all().flat_map(|feature| feature.importers));
    export::ADDED.extend(all().flat_map(|feature| feature.exporters.iter().copied()));
    servers::ALL.extend(all().flat_map(|feature| feature.servers.iter().copied()));
    beside::ALL.extend(all().flat_map(|feature| feature.besides.iter().copied()));
    places::ALL.extend(all().filter_map(|feature| feature.places));
    if ALL.set(features).is_ok() {
        for feature in features {
            feature.workloads.iter().for_each(|workload| workload::add(workload));
            works::add(feature.works);
            traffic::add(feature.traffic);
            roles::add(feature.roles);
            feature.sections.iter().for_each(|section| analyse::add(section));
            feature.views.iter().for_each(|section| present::add(section));
            (feature.begin)();
        }
    }
}

/// The features of this program.
pub fn all() -> &'static [&'static Feature] {
    ALL.get().copied().unwrap_or_default()
}
