//! Training jobs: what a step of a model sends under a parallel layout, and what that takes on several networks.

use std::path::Path;
use std::sync::Arc;

use rondo_compiler::auto::Watch;
use rondo_compiler::cost::topology::training::{Messages, Model, Parallelism};
use rondo_compiler::cost::topology::{Kind, Parameters};
use rondo_compiler::fabric::Shape;
use rondo_compiler::front::job::build_problem;
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::units::{Bytes, Delay, Time};
use serde::Deserialize;

use crate::pipeline::{Failure, Loaded, Proof, Request, compile_watched, load_job};

/// A training job as its file describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingJob {
    /// The model.
    pub model: ModelTable,
    /// How it is laid out.
    pub parallelism: ParallelismTable,
    /// What a step consists of.
    #[serde(default)]
    pub step: StepTable,
    /// The candidate networks.
    pub network: Vec<NetworkTable>,
}

/// `[model]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelTable {
    /// For reports.
    pub name: String,
    /// Tokens of a sequence.
    pub sequence: u64,
    /// Hidden size.
    pub hidden: u64,
    /// Layers; how often things are sent follows from `[step]`, so this is for reports.
    pub layers: u64,
    /// Sequences of a micro-batch.
    pub micro_batch: u64,
    /// Parameters.
    pub parameters: u64,
    /// Bytes of an activation or gradient.
    #[serde(default = "two")]
    pub element_bytes: u64,
    /// Bytes of an element sent to an expert.
    #[serde(default = "two")]
    pub expert_bytes: u64,
}

const fn two() -> u64 {
    2
}

/// `[parallelism]`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParallelismTable {
    /// Tensor parallelism.
    #[serde(default = "one")]
    pub tensor: u64,
    /// Pipeline stages.
    #[serde(default = "one")]
    pub pipeline: u64,
    /// Replicas.
    #[serde(default = "one")]
    pub data: u64,
    /// Expert parallelism.
    #[serde(default = "one")]
    pub expert: u64,
}

const fn one() -> u64 {
    1
}

/// `[step]`: how often each collective runs in a step, one after the other, and what hides it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StepTable {
    /// all_gathers of a tensor-parallel group.
    pub tensor: u64,
    /// Messages from a stage to the next.
    pub pipeline: u64,
    /// all_reduces of the replicas.
    pub data: u64,
    /// all_to_alls between experts.
    pub expert: u64,
    /// Time of computing.
    pub compute: String,
    /// Share of the computing beside which something can be sent, 0 to 1.
    pub overlap: f64,
}

impl Default for StepTable {
    fn default() -> Self {
        Self { tensor: 1, pipeline: 1, data: 1, expert: 1, compute: "0 s".to_owned(), overlap: 0.0 }
    }
}

/// `[[network]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkTable {
    /// For reports.
    pub name: String,
    /// A file with `[topology]`, and `[cost]` if it is not the default; relative to the job's folder.
    pub file: String,
    /// Which kind of parallelism counts fastest in node numbers, and so on.
    #[serde(default = "natural")]
    pub order: Vec<Axis>,
}

fn natural() -> Vec<Axis> {
    Axis::ALL.to_vec()
}

/// A kind of parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// Tensor.
    Tensor,
    /// Pipeline.
    Pipeline,
    /// Data.
    Data,
    /// Expert.
    Expert,
}

impl Axis {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tensor, Self::Pipeline, Self::Data, Self::Expert];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensor => "tensor",
            Self::Pipeline => "pipeline",
            Self::Data => "data",
            Self::Expert => "expert",
        }
    }

    /// Its collective.
    #[must_use]
    pub const fn collective(self) -> &'static str {
        match self {
            Self::Tensor => "all_gather",
            Self::Pipeline => "send_receive",
            Self::Data => "all_reduce",
            Self::Expert => "all_to_all",
        }
    }
}

/// What one collective takes on a network.
#[derive(Clone, Debug)]
pub struct Part {
    /// Whose.
    pub axis: Axis,
    /// Ranks of a group.
    pub ranks: u64,
    /// Bytes of a rank's larger buffer.
    pub size: Bytes,
    /// How often in a step.
    pub count: u64,
    /// The cheapest algorithm that was found.
    pub algorithm: String,
    /// Time of one, of a verified schedule.
    pub time: Time,
    /// No schedule is faster, step by step.
    pub bound: Time,
    /// Seconds by Table 2 of the topology paper, read as its Table 8 reads it (a total is taken for the message to one peer,
    /// D19); `None` where the group is no row of a torus and no part of a Clos.
    pub printed: Option<f64>,
}

/// A network and what a step takes on it.
#[derive(Clone, Debug)]
pub struct Network {
    /// Its name in the job.
    pub name: String,
    /// The topology's name.
    pub topology: String,
    /// Its collectives; groups of one send nothing and are left out.
    pub parts: Vec<Part>,
}

impl Network {
    /// Σ count · time.
    #[must_use]
    pub fn communication(&self) -> Time {
        let each = self.parts.iter().map(|part| {
            let count = num_rational::BigRational::from_integer(part.count.into());
            Time::from_seconds(part.time.seconds() * count)
        });
        each.sum()
    }

    /// What the computing does not hide: communication − overlap · compute, at least 0, in seconds.
    #[must_use]
    pub fn exposed(&self, step: &Step) -> f64 {
        (self.communication().to_f64() - step.overlap * step.compute.to_f64()).max(0.0)
    }
}

/// A step as it was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Time of computing.
    pub compute: Time,
    /// Share of it beside which something can be sent.
    pub overlap: f64,
}

/// A job that was read and checked.
#[derive(Clone, Debug)]
pub struct Training {
    /// As it stands.
    pub job: TrainingJob,
    /// The layout.
    pub parallelism: Parallelism,
    /// What it sends.
    pub messages: Messages,
    /// Computing and overlap.
    pub step: Step,
}

fn wrong(message: impl Into<String>, help: &str) -> Diagnostic {
    Diagnostic::error("X030", message).help(help)
}

/// Reads a training job.
///
/// # Errors
/// Everything that is wrong with its values; what is no TOML, or has unknown keys, at its place.
pub fn read(name: &str, text: &str) -> Result<Training, Vec<Diagnostic>> {
    let job: TrainingJob = toml::from_str(text).map_err(|error| {
        let finding = Diagnostic::error("X030", error.message().to_owned())
            .help("a training job has [model], [parallelism], [step] and [[network]]; see docs/training.md");
        vec![match error.span() {
            Some(span) => finding.at(name, span, ""),
            None => finding,
        }]
    })?;
    let mut faults = Vec::new();
    let ParallelismTable { tensor, pipeline, data, expert } = job.parallelism;
    let parallelism = Parallelism { tensor, pipeline, data, expert };
    let ModelTable { sequence, hidden, micro_batch, parameters, element_bytes, expert_bytes, layers, .. } = job.model;
    let model = Model { sequence, hidden, micro_batch, parameters, bytes: element_bytes, expert_bytes };
    let messages = model.messages(&parallelism).map_err(|error| {
        faults.push(wrong(error.to_string(), "write a number of at least 1"));
    });
    if layers == 0 {
        faults.push(wrong("a model of 0 layers", "write model.layers = 61, or as many as there are"));
    }
    if !hidden.is_multiple_of(tensor.max(1)) {
        let message = format!("tensor = {tensor} does not divide hidden = {hidden}");
        faults.push(wrong(message, "choose a tensor parallelism that divides the hidden size"));
    }
    if layers < pipeline {
        faults.push(wrong(format!("{layers} layers for {pipeline} pipeline stages"), "choose at most a stage a layer"));
    }
    let compute = job.step.compute.parse::<Delay>().map_err(|error| {
        faults.push(wrong(
            format!("step.compute = \"{}\": {error}", job.step.compute),
            "write for example compute = \"2 s\"",
        ));
    });
    if !(0.0..=1.0).contains(&job.step.overlap) {
        faults.push(wrong(format!("step.overlap = {}", job.step.overlap), "write a share from 0 to 1"));
    }
    if job.network.is_empty() {
        faults.push(wrong("there is no network", "add [[network]] with name and file"));
    }
    for network in &job.network {
        let mut axes = network.order.clone();
        axes.dedup();
        if axes.len() != 4 || Axis::ALL.iter().any(|axis| !axes.contains(axis)) {
            let message =
                format!("the order of network `{}` does not name each kind of parallelism once", network.name);
            faults.push(wrong(
                message,
                "write order = [\"tensor\", \"pipeline\", \"data\", \"expert\"] in the order you want",
            ));
        }
    }
    match (messages, compute) {
        (Ok(messages), Ok(compute)) if faults.is_empty() => {
            let step = Step { compute: compute.time(), overlap: job.step.overlap };
            Ok(Training { job, parallelism, messages, step })
        }
        _ => Err(faults),
    }
}

impl Training {
    /// Ranks of a group.
    #[must_use]
    pub const fn ranks(&self, axis: Axis) -> u64 {
        match axis {
            Axis::Tensor => self.parallelism.tensor,
            Axis::Pipeline => self.parallelism.pipeline,
            Axis::Data => self.parallelism.data,
            Axis::Expert => self.parallelism.expert,
        }
    }

    /// The larger buffer of a rank: what is gathered, sent, reduced, or exchanged with all peers together.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
    pub fn size(&self, axis: Axis) -> Bytes {
        let t = self.parallelism.tensor as f64;
        Bytes(match axis {
            // A rank ends with its own part and what it receives.
            Axis::Tensor => (self.messages.tensor * t / (t - 1.0).max(1.0)) as u64,
            Axis::Pipeline => self.messages.pipeline as u64,
            Axis::Data => self.messages.data as u64,
            Axis::Expert => self.messages.expert as u64,
        })
    }

    const fn count(&self, axis: Axis) -> u64 {
        match axis {
            Axis::Tensor => self.job.step.tensor,
            Axis::Pipeline => self.job.step.pipeline,
            Axis::Data => self.job.step.data,
            Axis::Expert => self.job.step.expert,
        }
    }

    /// Nodes of the first group of a kind: the others' coordinates are 0.
    fn nodes(&self, axis: Axis, order: &[Axis]) -> Vec<u64> {
        let stride = order.iter().take_while(|&&other| other != axis).map(|&other| self.ranks(other)).product::<u64>();
        (0..self.ranks(axis)).map(|at| at * stride).collect()
    }

    /// Table 8's reading of Table 2 for a group.
    #[allow(clippy::cast_precision_loss)]
    fn printed(&self, axis: Axis, loaded: &Loaded, nodes: &[u64]) -> Option<f64> {
        let topology = &loaded.fabric.topology;
        let link = topology.links().first()?;
        let n = nodes.len() as f64;
        let table = Parameters {
            hop_delay: link.latency.time().to_f64(),
            inverse_bandwidth: link.capacity.time_for(1).to_f64(),
            reduce_cost: loaded.job.cost.reduce_cost.time_for(1).to_f64(),
            message: match axis {
                Axis::Tensor => self.messages.tensor,
                Axis::Pipeline => self.messages.pipeline,
                Axis::Data => self.messages.data,
                Axis::Expert => self.messages.expert,
            },
        };
        let kind = match axis {
            Axis::Tensor => Some(Kind::AllGather),
            Axis::Pipeline => None,
            Axis::Data => Some(Kind::AllReduce),
            Axis::Expert => Some(Kind::AllToAll),
        };
        let send = |hops: f64| hops * table.hop_delay + table.inverse_bandwidth * table.message;
        match &loaded.fabric.shape {
            Shape::Torus { sides } => {
                let mut stride = 1_u64;
                let row = sides.iter().any(|&side| {
                    let own = u64::from(side) == nodes.len() as u64 && nodes[1] == stride;
                    stride *= u64::from(side);
                    own
                });
                row.then(|| kind.map_or_else(|| send(1.0), |kind| table.torus(kind, n, 1)))
            }
            Shape::Clos { subtree } => {
                let last = *nodes.last()?;
                let tier = subtree.iter().position(|&below| last < u64::from(below)).unwrap_or(subtree.len() - 1);
                let hops = 2 * (u32::try_from(tier).ok()? + 1);
                Some(kind.map_or_else(|| send(hops.into()), |kind| table.clos(kind, n, hops)))
            }
            _ => None,
        }
    }

    /// Prices all collectives on a network: one group of each kind, alone. `read` opens the network's file.
    ///
    /// # Errors
    /// [`Failure`]: a network that cannot be read or is too small, a collective that cannot be compiled.
    pub fn price(
        &self,
        network: &NetworkTable,
        folder: &Path,
        text: &str,
        watch: &dyn Watch,
    ) -> Result<Network, Failure> {
        let table: toml::Table = toml::from_str(text)
            .map_err(|error| Failure::Input(vec![wrong(error.message().to_owned(), "see docs/job-reference.md")]))?;
        if let Some(key) = table.keys().find(|key| *key != "topology" && *key != "cost" && *key != "failures") {
            let message = format!("{} has [{key}]", network.file);
            let help =
                "a network has [topology], and [cost] and [failures] if need be; the collectives come from the job";
            return Err(Failure::Input(vec![wrong(message, help)]));
        }
        let all = self.parallelism.ranks();
        let (mut parts, mut topology) = (Vec::new(), String::new());
        for axis in Axis::ALL {
            let ranks = self.ranks(axis);
            let nodes = self.nodes(axis, &network.order);
            let list = nodes.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            let size = self.size(axis);
            let mut job = format!(
                "{text}\n[collective]\nkind = \"{}\"\nbuffer_size = \"{} B\"\ndtype = \"uint8\"\nranks = [{list}]\n",
                axis.collective(),
                // Every pair of experts exchanges a block of equal size.
                if axis == Axis::Expert { size.0 / ranks.max(1) * ranks.max(1) } else { size.0 },
            );
            if axis == Axis::Pipeline {
                let targets = (1..ranks).map(|next| next.to_string()).chain(["\"none\"".to_owned()]);
                job.push_str(&format!("targets = [{}]\n", targets.collect::<Vec<_>>().join(", ")));
            }
            let loaded: Loaded = load_job(&network.file, job.as_bytes(), folder).map_err(Failure::Input)?;
            let held = loaded.fabric.topology.compute_nodes().count() as u64;
            if held < all {
                let message = format!("the job has {all} ranks, network `{}` {held} nodes", network.name);
                return Err(Failure::Input(vec![wrong(message, "take a larger network or fewer ranks")]));
            }
            loaded.fabric.topology.name().clone_into(&mut topology);
            if ranks < 2 {
                continue;
            }
            let problem = Arc::new(build_problem(&loaded.job, &loaded.fabric).map_err(Failure::Input)?);
            let proof = Proof { smt: false, ..Proof::default() };
            let compiled = compile_watched(&problem, &loaded.fabric, &Request::auto(), &proof, watch)?;
            parts.push(Part {
                axis,
                ranks,
                size,
                count: self.count(axis),
                algorithm: compiled.plan.value().algorithm.clone(),
                time: compiled.cost.total.clone(),
                bound: compiled.bound.synchronous,
                printed: self.printed(axis, &loaded, &nodes),
            });
        }
        Ok(Network { name: network.name.clone(), topology, parts })
    }
}
