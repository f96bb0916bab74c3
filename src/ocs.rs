//! Planning optical switches: designs and technologies against each other, and the program of a plan's switches.

use std::sync::Arc;

use rayon::prelude::*;
use rondo_compiler::front::job::build_problem;
use rondo_compiler::topology;
use rondo_compiler::topology::optical::{Design, OpticalSpec, Partition, Technology};
use rondo_compiler::topology::spec::TopologyKind;
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::PortId;
use rondo_ir::problem::Problem;
use rondo_ir::schedule::Schedule;
use rondo_ir::topology::{Circuit, Configuration, Device, PortDirection};
use rondo_ir::units::Time;

use crate::pipeline::{Loaded, Proof, Request, compile};

/// Endpoints up to which the collective is compiled for each design and technology.
pub const MOST_COMPILED: u64 = 64;

/// The collective on a design, with a technology's delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Of the cheapest schedule, which was verified.
    pub time: Time,
    /// Its algorithm.
    pub algorithm: String,
    /// Changes of circuits.
    pub changes: usize,
}

/// A design with a technology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The design.
    pub design: Design,
    /// The technology; `None`: the job's own delay.
    pub technology: Option<Technology>,
    /// Its switches, with as many rings to a switch as its ports allow.
    pub switches: Vec<Partition>,
    /// Whether a ring fits its switches at all.
    pub fits: bool,
    /// The collective on it; `None` if it does not fit, cannot be built, or has more than [`MOST_COMPILED`] endpoints.
    pub timed: Option<Timed>,
}

/// All designs that the rings can have, with the job's own delay and with each technology.
///
/// # Errors
/// X025: the topology is no optical ring, torus or rails.
pub fn plan(loaded: &Loaded) -> Result<Vec<Row>, Diagnostic> {
    let TopologyKind::Optical(spec) = &loaded.job.topology.kind else {
        return Err(Diagnostic::error("X025", "the topology has no optical rings")
            .help("take kind = \"optical-ring\", \"optical-torus\" or \"photonic-rails\""));
    };
    let mut cases = Vec::new();
    for design in Design::ALL {
        for technology in std::iter::once(None).chain(Technology::ALL.map(Some)) {
            cases.push((design, technology));
        }
    }
    let row = |&(design, technology): &(Design, Option<Technology>)| {
        let limit = technology.map(Technology::ports).or(spec.most_ports);
        let group = |rings: u64, ports: u64| match technology {
            Some(technology) => (technology.ports() / ports).min(rings),
            None => u64::from(spec.rings_per_switch),
        };
        let switches = spec.rings.partition(design, group);
        let divides = switches.iter().all(|part| part.side % u64::from(design.divisor()) == 0);
        if !divides {
            return None;
        }
        let fits = limit.is_none_or(|limit| switches.iter().all(|part| part.ports <= limit));
        let timed = (fits && spec.rings.nodes() <= MOST_COMPILED).then(|| timed(loaded, spec, design, technology));
        Some(Row { design, technology, switches, fits, timed: timed.flatten() })
    };
    Ok(cases.par_iter().map(row).collect::<Vec<_>>().into_iter().flatten().collect())
}

fn timed(loaded: &Loaded, spec: &OpticalSpec, design: Design, technology: Option<Technology>) -> Option<Timed> {
    let delay = technology.map_or(spec.delay, Technology::delay);
    let mut job = loaded.job.clone();
    job.topology.kind =
        TopologyKind::Optical(OpticalSpec { design, delay, rings_per_switch: 1, most_ports: None, ..spec.clone() });
    let no_files = |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    let fabric = topology::build(&job.topology, &no_files).ok()?.fabric;
    let problem = Arc::new(build_problem(&job, &fabric).ok()?);
    let proof = Proof { smt: false, ..Proof::default() };
    let compiled = compile(&problem, &fabric, &Request::of(&job), &proof).ok()?;
    let schedule = compiled.plan.value();
    let changes = schedule.steps.iter().filter(|step| !step.reconfigure.is_empty()).count();
    Some(Timed { time: compiled.cost.total, algorithm: schedule.algorithm.clone(), changes })
}

/// A change of one switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Before this step, counted over all steps of the schedule.
    pub before: usize,
    /// After the flows of this step, if there are earlier ones.
    pub after: Option<usize>,
    /// Circuits to take down.
    pub disconnect: Vec<Circuit>,
    /// Circuits to set up.
    pub connect: Vec<Circuit>,
}

/// What the controller of one switch does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Index of the device.
    pub device: usize,
    /// Circuits before the first step.
    pub initial: Configuration,
    /// In order.
    pub changes: Vec<Change>,
}

/// The program of every switch of a plan.
#[must_use]
pub fn programs(problem: &Problem, schedule: &Schedule) -> Vec<Program> {
    let devices = problem.circuits().iter().enumerate();
    devices
        .map(|(device, initial)| {
            let mut held = initial;
            let mut changes = Vec::new();
            for (before, step) in schedule.steps.iter().enumerate() {
                let Some((_, next)) = step.reconfigure.iter().find(|(d, _)| d.index() == device) else { continue };
                let missing = |from: &Configuration, to: &Configuration| -> Vec<Circuit> {
                    from.circuits().iter().filter(|&&circuit| !to.contains(circuit)).copied().collect()
                };
                let (disconnect, connect) = (missing(held, next), missing(next, held));
                held = next;
                if !disconnect.is_empty() || !connect.is_empty() {
                    changes.push(Change { before, after: before.checked_sub(1), disconnect, connect });
                }
            }
            Program { device, initial: initial.clone(), changes }
        })
        .collect()
}

/// The pairs that people see: a duplex circuit once.
#[must_use]
pub fn once(device: &Device, circuits: &[Circuit]) -> Vec<Circuit> {
    let duplex = |port: PortId| device.ports.get(port.index()).is_some_and(|p| p.direction == PortDirection::Duplex);
    circuits.iter().filter(|circuit| !duplex(circuit.from) || circuit.from < circuit.to).copied().collect()
}
