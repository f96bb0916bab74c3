//! Designs beside each other: what one collective takes on each, what they cost, and where the winner changes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive};
use rondo_compiler::auto::{self, Algorithm, Watch};
use rondo_compiler::build::BuildContext;
use rondo_compiler::cost::Cost;
use rondo_compiler::cost::scale::{self, Network, Scaled};
use rondo_compiler::cost::topology::hybrid::Hybrid;
use rondo_compiler::cost::topology::price::PriceFunction;
use rondo_compiler::cost::topology::shapes::Sides;
use rondo_compiler::cost::topology::{Clos, Kind, Parameters};
use rondo_compiler::fabric::{Fabric, Shape};
use rondo_compiler::front::job::build_problem_for;
use rondo_compiler::sizes::{Line, Piece, lower_envelope};
use rondo_compiler::topology::clos::ClosPlan;
use rondo_compiler::topology::spec::{ClosSpec, ScaleUpKind, TopologyKind, TopologySpec};
use rondo_ir::collective::{Collective, CollectiveKind};
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::problem::Problem;
use rondo_ir::topology::NodeKind;
use rondo_ir::units::{Bytes, Time};

use crate::pipeline::{Compiled, Failure, Loaded, Proof, Request, compile_watched};
use crate::size_set::price_line;

/// A design and what the collective takes on it.
#[derive(Debug)]
pub struct Design {
    /// The job file.
    pub file: String,
    /// The topology's name.
    pub topology: String,
    /// The problem at the size that is compared.
    pub problem: Arc<Problem>,
    /// The cheapest algorithm there.
    pub algorithm: String,
    /// What its time consists of.
    pub terms: Terms,
    /// Its schedule, verified, with price and bound; `None` where the design is too large to build one and prices are those that
    /// the schedule would have.
    pub compiled: Option<Compiled>,
    /// Its time for twice as many ranks over its time, both by the cheapest algorithm that has a price there; tori double their
    /// shortest side. `None` where that is not known.
    pub twice_the_ranks: Option<f64>,
    /// Switches by their ports; a rank that forwards is one.
    pub switches: BTreeMap<u64, u64>,
    /// Two-way cables.
    pub cables: u64,
    /// What the topology paper's formula gives, where it has one for this shape.
    pub printed: Option<Printed>,
    /// All candidates with their exact prices over sizes.
    lines: Vec<(&'static str, Line)>,
}

/// A time by its causes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Terms {
    pub startup: Time,
    pub latency: Time,
    pub bandwidth: Time,
    pub reduce: Time,
    pub copy: Time,
    pub reconfiguration: Time,
}

impl Terms {
    fn of(cost: &Cost) -> Self {
        Self {
            startup: cost.startup(),
            latency: cost.latency(),
            bandwidth: cost.bandwidth(),
            reduce: cost.reduce(),
            copy: cost.copy(),
            reconfiguration: cost.reconfiguration(),
        }
    }

    fn of_scaled(scaled: &Scaled) -> Self {
        Self {
            startup: scaled.startup.clone(),
            latency: scaled.latency.clone(),
            bandwidth: scaled.bandwidth.clone(),
            reduce: scaled.reduce.clone(),
            copy: Time::zero(),
            reconfiguration: Time::zero(),
        }
    }

    /// Their sum.
    #[must_use]
    pub fn total(&self) -> Time {
        let Self { startup, latency, bandwidth, reduce, copy, reconfiguration } = self;
        [startup, latency, bandwidth, reduce, copy, reconfiguration].into_iter().cloned().sum()
    }
}

/// Ranks above which regular designs are priced without building schedules.
pub const MOST_BUILT: u64 = 1024;

/// A closed form of the topology paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Printed {
    /// Seconds.
    pub seconds: f64,
    /// Where it stands.
    pub place: &'static str,
}

/// A range of sizes and what is fastest on all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Smallest size, included.
    pub from: Bytes,
    /// Largest size, included.
    pub to: Bytes,
    /// Index of the design.
    pub design: usize,
    /// The algorithm.
    pub algorithm: &'static str,
}

/// Designs in the order of their times.
#[derive(Debug)]
pub struct Comparison {
    /// From fast to slow.
    pub designs: Vec<Design>,
    /// What is fastest at which size; exact.
    pub segments: Vec<Segment>,
}

impl Comparison {
    /// A short name for each design: its file's, or its folder's where that says nothing, if that tells them apart.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let short = |design: &Design| {
            let path = Path::new(&design.file);
            let own = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let folder = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
            if own == "job" { folder.unwrap_or(own) } else { own }
        };
        let names: Vec<String> = self.designs.iter().map(short).collect();
        let distinct: BTreeSet<&String> = names.iter().collect();
        if distinct.len() == names.len() {
            names
        } else {
            self.designs.iter().map(|design| design.file.clone()).collect()
        }
    }
}

impl Design {
    /// Compiles the job's collective for `size`, and prices every candidate over all sizes up to `high`.
    ///
    /// # Errors
    /// [`Failure`]: a job that cannot be compiled.
    pub fn new(loaded: &Loaded, size: Bytes, high: Bytes, watch: &dyn Watch) -> Result<Self, Failure> {
        let job = &loaded.job;
        let problem = Arc::new(build_problem_for(job, &loaded.fabric, size).map_err(Failure::Input)?);
        if problem.cost().overlap_reconfiguration && !problem.topology().devices().is_empty() {
            let message = "designs cannot be compared over sizes where changes of circuits overlap steps";
            let help = "leave overlap_reconfiguration out of [cost]";
            return Err(Failure::Input(vec![Diagnostic::error("X026", message).help(help)]));
        }
        let request = Request::of(job);
        let (switches, cables) = bill(&job.topology.kind, &loaded.fabric);
        let collective = problem.groups().first().map(rondo_ir::problem::Group::collective);
        let printed =
            collective.and_then(|collective| printed(&problem, &loaded.fabric, collective, &job.topology.kind));
        let file = job.file.clone();
        let topology = loaded.fabric.topology.name().to_owned();
        let scaled = |network: &Network, size: Bytes| {
            let kind = match collective?.kind() {
                CollectiveKind::AllReduce => scale::Collective::AllReduce,
                CollectiveKind::AllGather => scale::Collective::AllGather,
                CollectiveKind::ReduceScatter => scale::Collective::ReduceScatter,
                CollectiveKind::AllToAll { matrix: None } => scale::Collective::AllToAll,
                _ => return None,
            };
            let mut prices = network.prices(kind, size, problem.cost());
            prices.sort_by_key(Scaled::total);
            (!prices.is_empty()).then_some(prices)
        };
        let network = network(&job.topology.kind, 1).filter(|network| {
            // Nothing but what the kind makes.
            let TopologySpec { extra, failures, nodes, .. } = TopologySpec::new(job.topology.kind.clone());
            let bare = (&extra, &failures, &nodes);
            let own = (&job.topology.extra, &job.topology.failures, &job.topology.nodes);
            bare == own && network.ranks() == problem.rank_count() as u64
        });
        let twice_the_ranks = network.as_ref().and_then(|own| {
            let twice = scaled(&self::network(&job.topology.kind, 2)?, size)?;
            twice[0].total().ratio_to(&scaled(own, size)?[0].total())?.to_f64()
        });
        let auto = request.algorithm == "auto" && problem.topology().devices().is_empty();
        if auto
            && let Some(network) = network.filter(|network| MOST_BUILT < network.ranks())
            && let Some(prices) = scaled(&network, size)
        {
            let lines = prices.iter().map(|price| {
                let fixed = price.startup.seconds() + price.latency.seconds();
                let bytes = BigRational::from_integer(BigInt::from(size.0.max(1)));
                let per_byte = (price.bandwidth.seconds() + price.reduce.seconds()) / bytes;
                (price.algorithm, Line { fixed, per_byte })
            });
            let lines = lines.collect();
            let (algorithm, terms) = (prices[0].algorithm.to_owned(), Terms::of_scaled(&prices[0]));
            let compiled = None;
            return Ok(Self {
                file,
                topology,
                problem,
                algorithm,
                terms,
                compiled,
                twice_the_ranks,
                switches,
                cables,
                printed,
                lines,
            });
        }
        let proof = Proof { smt: false, ..Proof::of(job) };
        let compiled = compile_watched(&problem, &loaded.fabric, &request, &proof, watch)?;
        let largest = Arc::new(build_problem_for(job, &loaded.fabric, high).map_err(Failure::Input)?);
        let context = BuildContext { circuits: request.circuits, ..BuildContext::new(&largest, &loaded.fabric) };
        let variants = auto::variants(&context, Algorithm::parse(&request.algorithm), request.chunks, watch)
            .map_err(|error| Failure::Input(vec![error.to_diagnostic()]))?;
        let lines: Result<Vec<_>, Failure> = variants
            .built
            .iter()
            .map(|variant| Ok((variant.name, price_line(job, loaded, &largest, &variant.schedule)?)))
            .collect();
        Ok(Self {
            file,
            topology,
            problem,
            algorithm: compiled.plan.value().algorithm.clone(),
            terms: Terms::of(&compiled.cost),
            compiled: Some(compiled),
            twice_the_ranks,
            switches,
            cables,
            printed,
            lines: lines?,
        })
    }

    /// The time at the size that is compared.
    #[must_use]
    pub fn time(&self) -> Time {
        self.terms.total()
    }

    /// No schedule is faster, step by step; `None` where none was built.
    #[must_use]
    pub fn bound(&self) -> Option<&Time> {
        self.compiled.as_ref().map(|compiled| &compiled.bound.synchronous)
    }

    /// The time at a size, by the cheapest candidate.
    #[must_use]
    pub fn time_at(&self, size: Bytes) -> f64 {
        let least = self.lines.iter().map(|(_, line)| line.at(size.0)).min();
        least.and_then(|least| least.to_f64()).unwrap_or(f64::INFINITY)
    }

    /// Switches times what each costs.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn price(&self, function: &PriceFunction) -> f64 {
        self.switches.iter().map(|(&ports, &count)| count as f64 * function.of(ports)).sum()
    }

    /// By how much all links would have to be faster for this schedule to take `goal`; below 1: so much slower they may be. `None` if
    /// no bandwidth is enough.
    #[must_use]
    pub fn bandwidth_for(&self, goal: &Time) -> Option<f64> {
        let bandwidth = &self.terms.bandwidth;
        let rest = self.time().seconds() - bandwidth.seconds();
        let left = goal.seconds() - rest;
        (left.is_positive()).then(|| (bandwidth.seconds() / left).to_f64()).flatten()
    }
}

/// Compares designs of one collective.
///
/// # Errors
/// X029: no design, or collectives that differ.
pub fn compare(mut designs: Vec<Design>, sizes: (Bytes, Bytes)) -> Result<Comparison, Diagnostic> {
    let what = |design: &Design| {
        let collective = design.problem.groups().first().map(rondo_ir::problem::Group::collective);
        collective.map(|c| (c.kind().name(), c.buffer_size(), c.dtype(), c.operator()))
    };
    let first = designs.first().and_then(what);
    if let Some(other) = designs.iter().find(|design| what(design) != first) {
        let message = format!("{} has another collective than {}", other.file, designs[0].file);
        let help = "compare jobs with the same kind, buffer_size, dtype and operator; only the topology may differ";
        return Err(Diagnostic::error("X029", message).help(help));
    }
    let Some((_, _, dtype, _)) = first else {
        return Err(Diagnostic::error("X029", "there is nothing to compare").help("name two jobs or more"));
    };
    designs.sort_by_key(Design::time);
    let lines: Vec<(usize, &'static str, Line)> = (0..)
        .zip(&designs)
        .flat_map(|(design, of)| of.lines.iter().map(move |(name, line)| (design, *name, line.clone())))
        .collect();
    let bare: Vec<Line> = lines.iter().map(|(_, _, line)| line.clone()).collect();
    let mut segments: Vec<Segment> = Vec::new();
    if !bare.is_empty() {
        for Piece { from, to, line } in lower_envelope(&bare, sizes.0.0, sizes.1.0, dtype.bytes()) {
            let (design, algorithm, _) = lines[line];
            match segments.last_mut() {
                Some(last) if (last.design, last.algorithm) == (design, algorithm) => last.to = Bytes(to),
                _ => segments.push(Segment { from: Bytes(from), to: Bytes(to), design, algorithm }),
            }
        }
    }
    Ok(Comparison { designs, segments })
}

/// A regular network, with so many times the ranks; `None` if it is not regular, or has no room for more.
fn network(kind: &TopologyKind, times: u32) -> Option<Network> {
    match kind {
        TopologyKind::Torus { sides, link } => {
            let mut sides: Vec<u64> = sides.iter().map(|&side| side.into()).collect();
            *sides.iter_mut().min()? *= u64::from(times);
            Some(Network::Torus { sides, link: *link })
        }
        TopologyKind::Clos(spec) if times == 1 => Network::clos(spec),
        TopologyKind::Clos(spec) => {
            let nodes = u32::try_from(Network::clos(spec)?.ranks()).ok()?.checked_mul(times)?;
            Network::clos(&ClosSpec { nodes: Some(nodes), ..spec.clone() })
        }
        _ => None,
    }
}

/// Switches by the ports that they have, used or not, and cables.
fn bill(kind: &TopologyKind, fabric: &Fabric) -> (BTreeMap<u64, u64>, u64) {
    let topology = &fabric.topology;
    let mut switches: BTreeMap<u64, u64> = BTreeMap::new();
    if let TopologyKind::Clos(spec) = kind
        && let Ok(plan) = ClosPlan::new(&ClosSpec { bundled: false, scale_up: None, ..spec.clone() })
    {
        let (pods, core) = (plan.pods, if 1 < plan.pods { plan.up * plan.core_ports } else { 0 });
        let above = if 1 < plan.edges { pods * plan.up } else { 0 };
        *switches.entry(spec.radix.into()).or_default() += plan.edges + above + core;
        let mut cables = plan.links / 2;
        if spec.host.is_some() {
            *switches.entry(spec.per_host.into()).or_default() += plan.nodes / u64::from(spec.per_host);
        }
        if let Some(scale_up) = &spec.scale_up {
            let inside = topology
                .links()
                .iter()
                .filter(|link| [link.src, link.dst].iter().all(|&node| topology.node(node).kind == NodeKind::Compute));
            cables += inside.count() as u64 / 2;
            if let ScaleUpKind::Torus { sides } = &scale_up.kind {
                let ports = 2 * sides.iter().filter(|side| 1 < **side).count() as u64;
                *switches.entry(ports).or_default() += plan.nodes;
            }
        }
        return (switches, cables);
    }
    for (index, node) in topology.nodes().iter().enumerate() {
        let ports = topology.links_from(rondo_ir::index::NodeId::new(index)).len() as u64;
        if node.forwards && 0 < ports {
            *switches.entry(ports).or_default() += 1;
        }
    }
    for device in topology.devices() {
        *switches.entry(device.ports.len() as u64).or_default() += 1;
    }
    (switches, topology.links().len() as u64 / 2)
}

/// The topology paper's time, where every link is alike and the shape is one of its own.
#[allow(clippy::cast_precision_loss)]
fn printed(problem: &Problem, fabric: &Fabric, collective: &Collective, kind: &TopologyKind) -> Option<Printed> {
    let n = u64::from(collective.ranks());
    let (form, message) = match collective.kind() {
        CollectiveKind::AllReduce => (Kind::AllReduce, collective.buffer_size().0 as f64),
        CollectiveKind::AllGather => (Kind::AllGather, collective.buffer_size().0 as f64 / n as f64),
        CollectiveKind::AllToAll { matrix: None } => (Kind::AllToAll, collective.buffer_size().0 as f64 / n as f64),
        _ => return None,
    };
    if problem.topology().compute_nodes().count() as u64 != n {
        return None;
    }
    let seconds = |time: &Time| time.to_f64();
    let of = |link: &rondo_ir::topology::Link| (link.capacity, link.latency);
    let first = fabric.topology.links().first()?;
    let table = Parameters {
        hop_delay: seconds(&first.latency.time()),
        inverse_bandwidth: seconds(&first.capacity.time_for(1)),
        reduce_cost: seconds(&problem.cost().reduce_cost.time_for(1)),
        message,
    };
    let alike = || fabric.topology.links().iter().all(|link| of(link) == of(first));
    let sides = |sides: &[u32]| Sides::new(sides.iter().map(|&side| side.into()).collect()).ok();
    match (&fabric.shape, kind) {
        (Shape::Torus { sides: all }, _) if alike() => {
            Some(Printed { seconds: sides(all)?.printed(&table, form), place: "Table 2, Appendix E" })
        }
        (Shape::Ring { both: true }, _) if alike() => {
            Some(Printed { seconds: sides(&[u32::try_from(n).ok()?])?.printed(&table, form), place: "Table 2" })
        }
        (Shape::Clos { subtree }, TopologyKind::Clos(spec)) if spec.link == spec.uplink => {
            let hops = 2 * u32::try_from(subtree.len()).ok()?;
            Some(Printed { seconds: table.clos(form, n as f64, hops), place: "Table 2" })
        }
        (Shape::Hybrid { .. }, TopologyKind::Clos(spec)) if spec.link == spec.uplink && spec.tiers == 3 => {
            let clos = Clos::new(spec.radix.into()).ok().filter(|clos| clos.ranks() == n)?;
            let scale_up = spec.scale_up.as_ref()?;
            let dimensions = match &scale_up.kind {
                ScaleUpKind::Mesh => 1,
                ScaleUpKind::Torus { sides } => u32::try_from(sides.len()).ok()?,
            };
            let fast = seconds(&scale_up.link.bandwidth.time_for(1));
            let hybrid = Hybrid { table: &table, clos, scale_up: fast, dimensions };
            let seconds = match (&scale_up.kind, form) {
                (ScaleUpKind::Mesh, Kind::AllToAll) => hybrid.mesh_all_to_all_max(),
                (ScaleUpKind::Mesh, _) => hybrid.mesh(form),
                (ScaleUpKind::Torus { .. }, Kind::AllGather) => hybrid.torus_all_gather_max(),
                (ScaleUpKind::Torus { .. }, Kind::AllToAll) => hybrid.torus_all_to_all_max(),
                (ScaleUpKind::Torus { .. }, Kind::AllReduce) => hybrid.torus(form),
            };
            Some(Printed { seconds, place: "Table 6, maxima kept" })
        }
        _ => None,
    }
}

/// The shares of a time: start-up, latency, bandwidth, reduction, copies, reconfiguration. Each is also by how many per cent the time
/// grows if that parameter grows by one per cent; the size's is the sum of bandwidth, reduction and copies.
#[must_use]
pub fn shares(design: &Design) -> [f64; 6] {
    let Terms { startup, latency, bandwidth, reduce, copy, reconfiguration } = &design.terms;
    let all = design.time();
    let all = all.seconds();
    let share = |part: &Time| {
        let zero = BigRational::from_integer(BigInt::from(0));
        if *all == zero { 0.0 } else { (part.seconds() / all).to_f64().unwrap_or(0.0) }
    };
    [startup, latency, bandwidth, reduce, copy, reconfiguration].map(share)
}
