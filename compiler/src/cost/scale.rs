//! What algorithms cost on large regular networks, without building them: exact for loads that are symmetric.
//!
//! A schedule of a hundred thousand ranks has ten thousand million flows; its price follows from a few numbers. Each price here is that of
//! the schedule that the builder of that name makes, step by step as [`rondo_ir::cost`] defines it; a test compares the two where both can be
//! had. Local copies are not counted.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;
use rondo_ir::cost::CostModel;
use rondo_ir::units::{Bytes, Delay, PerByte, Rate, Time};

use crate::topology::clos::ClosPlan;
use crate::topology::spec::{ClosSpec, LinkRates};

/// A regular network with a rank on every node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// A Clos: nodes, and for each tier from the nodes up.
    Clos {
        /// Ranks.
        nodes: u64,
        /// From the nodes up: ranks below, rate upwards of all of them together, and latency of a link there.
        tiers: Vec<Tier>,
    },
    /// A torus.
    Torus {
        /// Sides.
        sides: Vec<u64>,
        /// Its links.
        link: LinkRates,
    },
}

/// What leads up from a node, rack or pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tier {
    /// Ranks below.
    pub ranks: u64,
    /// Ranks below the last one, where it is not full.
    pub last: Option<u64>,
    /// Rate upwards, bytes per second.
    pub rate: u128,
    /// Latency of one link.
    pub latency: Delay,
}

/// What the collective is; `size` is that of the larger buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Collective {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
}

/// The price of an algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaled {
    /// Its name.
    pub algorithm: &'static str,
    /// Steps in which something moves between ranks.
    pub steps: u64,
    /// Σ of start-ups.
    pub startup: Time,
    /// Σ of latencies.
    pub latency: Time,
    /// Σ of the busiest resources' times.
    pub bandwidth: Time,
    /// Σ of reductions.
    pub reduce: Time,
}

impl Scaled {
    /// The time.
    #[must_use]
    pub fn total(&self) -> Time {
        [&self.startup, &self.latency, &self.bandwidth, &self.reduce].into_iter().cloned().sum()
    }
}

impl Network {
    /// A Clos; `None` with rails, hosts or a second fabric.
    #[must_use]
    pub fn clos(spec: &ClosSpec) -> Option<Self> {
        if spec.rail_optimized || spec.host.is_some() || spec.scale_up.is_some() {
            return None;
        }
        let plan = ClosPlan::new(&ClosSpec { bundled: false, ..spec.clone() }).ok()?;
        let rate = |rate: Rate| u128::from(rate.bytes_per_second());
        let last = |ranks: u64| Some(plan.nodes % ranks).filter(|&rest| rest != 0);
        let mut tiers =
            vec![Tier { ranks: 1, last: None, rate: rate(spec.link.bandwidth), latency: spec.link.latency }];
        if 1 < plan.edges {
            let up = rate(spec.uplink.bandwidth) * u128::from(plan.up);
            tiers.push(Tier { ranks: plan.down, last: last(plan.down), rate: up, latency: spec.uplink.latency });
        }
        if 1 < plan.pods {
            let pod = plan.down * plan.pod_edges;
            let up = rate(spec.uplink.bandwidth) * u128::from(plan.up) * u128::from(plan.core_ports);
            tiers.push(Tier { ranks: pod, last: last(pod), rate: up, latency: spec.uplink.latency });
        }
        Some(Self::Clos { nodes: plan.nodes, tiers })
    }

    /// Ranks.
    #[must_use]
    pub fn ranks(&self) -> u64 {
        match self {
            Self::Clos { nodes, .. } => *nodes,
            Self::Torus { sides, .. } => sides.iter().product(),
        }
    }

    /// The prices of all algorithms that have one here, in no particular order.
    #[must_use]
    pub fn prices(&self, collective: Collective, size: Bytes, cost: &CostModel) -> Vec<Scaled> {
        match self {
            Self::Clos { nodes, tiers } => clos_prices(*nodes, tiers, collective, size, cost),
            Self::Torus { sides, link } => torus_prices(sides, *link, collective, size, cost),
        }
    }
}

fn whole(value: u64) -> BigRational {
    BigRational::from_integer(BigInt::from(value))
}

/// Adds up steps.
struct Sum<'a> {
    cost: &'a CostModel,
    steps: u64,
    latency: BigRational,
    bandwidth: BigRational,
    reduced: BigRational,
}

impl<'a> Sum<'a> {
    fn new(cost: &'a CostModel) -> Self {
        let zero = BigRational::zero;
        Self { cost, steps: 0, latency: zero(), bandwidth: zero(), reduced: zero() }
    }

    /// So many equal steps.
    fn add(&mut self, steps: u64, latency: &BigRational, bandwidth: &BigRational, reduced: &BigRational) {
        let times = whole(steps);
        self.steps += steps;
        self.latency += latency * &times;
        self.bandwidth += bandwidth * &times;
        self.reduced += reduced * &times;
    }

    fn finish(self, algorithm: &'static str) -> Scaled {
        let seconds = Time::from_seconds;
        let per_byte = |cost: PerByte| cost.time_for(1).seconds().clone();
        Scaled {
            algorithm,
            steps: self.steps,
            startup: seconds(self.cost.startup.time().seconds() * whole(self.steps)),
            latency: seconds(self.latency),
            bandwidth: seconds(self.bandwidth),
            reduce: seconds(self.reduced * per_byte(self.cost.reduce_cost)),
        }
    }
}

fn clos_prices(n: u64, tiers: &[Tier], collective: Collective, size: Bytes, cost: &CostModel) -> Vec<Scaled> {
    let m = whole(size.0);
    let block = &m / whole(n);
    // Latency up and down again over the first `crossed` tiers.
    let latency = |crossed: usize| -> BigRational {
        let one: Time = tiers[..crossed].iter().map(|tier| tier.latency.time()).sum();
        one.seconds() * BigInt::from(2)
    };
    // What a step takes in which `flows(ranks below)` flows leave each node, rack and pod, each of so many bytes.
    let bytes_time = |flows: &dyn Fn(u64) -> u64, bytes: &BigRational| -> BigRational {
        let each =
            tiers.iter().map(|tier| whole(flows(tier.ranks)) * bytes / BigRational::from_integer(tier.rate.into()));
        each.max().unwrap_or_else(BigRational::zero)
    };
    // Tiers that are crossed by somebody whose partner is `distance` away.
    let crossed = |distance: u64| 1 + tiers[1..].iter().filter(|tier| tier.ranks <= distance).count();
    let full = tiers.iter().all(|tier| tier.last.is_none());
    let aligned = full && n.is_power_of_two() && tiers.iter().all(|tier| tier.ranks.is_power_of_two());
    let rounds = n.ilog2();
    let zero = BigRational::zero();
    let mut found = Vec::new();
    let gathers = matches!(collective, Collective::AllGather | Collective::AllReduce);
    let scatters = matches!(collective, Collective::ReduceScatter | Collective::AllReduce);
    if n < 2 {
        return found;
    }

    // Everybody to everybody: from below a switch to all others.
    let across = |ranks: u64| ranks * (n - ranks);
    let direct = bytes_time(&across, &block);
    let all = latency(tiers.len());
    let mut sum = Sum::new(cost);
    if scatters {
        sum.add(1, &all, &direct, &(&block * whole(n - 1)));
    }
    if gathers || collective == Collective::AllToAll {
        sum.add(1, &all, &direct, &zero);
    }
    found.push(sum.finish("direct"));
    if collective == Collective::AllToAll {
        return found;
    }

    // Round a ring in the order of nodes: one flow leaves each rack and pod.
    let mut sum = Sum::new(cost);
    let step = bytes_time(&|_| 1, &block);
    if scatters {
        sum.add(n - 1, &all, &step, &block);
    }
    if gathers {
        sum.add(n - 1, &all, &step, &zero);
    }
    found.push(sum.finish("ring"));

    // Shifts by 2^t: of each rack or pod, the last min(2^t, ranks) go out.
    let mut sum = Sum::new(cost);
    for t in 0..n.next_power_of_two().ilog2() {
        let distance = 1_u64 << t;
        let bytes = &block * whole(distance.min(n - distance));
        let time = bytes_time(&|ranks| ranks.min(distance).min(n - distance).min(n - ranks), &bytes);
        // The farthest pair is one that leaves everything: some pair does, unless there is one rack.
        let latency = latency(tiers.len());
        if scatters {
            sum.add(1, &latency, &time, &bytes);
        }
        if gathers {
            sum.add(1, &latency, &time, &zero);
        }
    }
    found.push(sum.finish("bruck"));

    if aligned {
        // Exchanges at distance 2^t: nobody or everybody leaves a rack or pod.
        let leaving = |distance: u64| move |ranks: u64| if ranks <= distance { ranks } else { 0 };
        let mut doubling = Sum::new(cost);
        let mut halving = Sum::new(cost);
        for t in 0..rounds {
            let distance = 1_u64 << t;
            let latency = latency(crossed(distance));
            let near = &m / whole(2 * distance);
            let time = bytes_time(&leaving(distance), &near);
            if scatters {
                halving.add(1, &latency, &time, &near);
            }
            if gathers {
                halving.add(1, &latency, &time, &zero);
            }
            if collective == Collective::AllReduce {
                doubling.add(1, &latency, &bytes_time(&leaving(distance), &m), &m);
            } else {
                let held = &block * whole(distance);
                let reduced = if scatters { held.clone() } else { zero.clone() };
                doubling.add(1, &latency, &bytes_time(&leaving(distance), &held), &reduced);
            }
        }
        found.push(halving.finish("halving-doubling"));
        found.push(doubling.finish("recursive-doubling"));
    }
    found
}

fn torus_prices(sides: &[u64], link: LinkRates, collective: Collective, size: Bytes, cost: &CostModel) -> Vec<Scaled> {
    let n: u64 = sides.iter().product();
    let m = whole(size.0);
    let block = &m / whole(n);
    let rate = whole(link.bandwidth.bytes_per_second());
    let hop = link.latency.time().seconds().clone();
    let used: Vec<usize> = (0..sides.len()).filter(|&d| 1 < sides[d]).collect();
    let zero = BigRational::zero();
    let mut found = Vec::new();
    if used.is_empty() {
        return found;
    }
    let two = whole(2);
    if collective == Collective::AllToAll {
        let load = |side: u64| {
            let s = whole(side);
            let eight = whole(8);
            if side.is_multiple_of(2) { whole(n) * s / eight } else { whole(n) * (&s * &s - whole(1)) / (s * eight) }
        };
        let busiest = sides.iter().map(|&side| load(side)).max().unwrap_or_else(BigRational::zero);
        let hops: u64 = sides.iter().map(|side| side / 2).sum();
        let mut sum = Sum::new(cost);
        sum.add(1, &(&hop * whole(hops)), &(busiest * &block / &rate), &zero);
        found.push(sum.finish("torus-shortest"));
        return found;
    }
    // One part for each dimension that the builder rotates, sides of 1 included: they have no steps.
    let k = sides.len();
    let part = &block / whole(k as u64);
    // Steps of each part: dimension, bytes on a link, bytes that a rank receives.
    let steps_of = |first: usize| {
        let (mut held, mut steps) = (whole(1), Vec::new());
        for phase in 0..k {
            let dimension = (first + phase) % k;
            let side = sides[dimension];
            let bytes = &part * &held;
            for step in 0..side / 2 {
                let last = side.is_multiple_of(2) && step == side / 2 - 1;
                let each = if last { &bytes / &two } else { bytes.clone() };
                steps.push((dimension, each.clone(), &each * &two));
            }
            held *= whole(side);
        }
        steps
    };
    let parts: Vec<_> = (0..k).map(steps_of).collect();
    let longest = parts.iter().map(Vec::len).max().unwrap_or(0);
    let mut gather = Vec::with_capacity(longest);
    for step in 0..longest {
        let mut loads = vec![BigRational::zero(); k];
        let mut received = BigRational::zero();
        for part in &parts {
            if let Some((dimension, bytes, all)) = part.get(step) {
                loads[*dimension] += bytes;
                received += all;
            }
        }
        gather.push((loads.into_iter().max().unwrap_or_else(BigRational::zero), received));
    }
    let mut sum = Sum::new(cost);
    for (bytes, received) in &gather {
        let time = bytes / &rate;
        if matches!(collective, Collective::ReduceScatter | Collective::AllReduce) {
            sum.add(1, &hop, &time, received);
        }
        if matches!(collective, Collective::AllGather | Collective::AllReduce) {
            sum.add(1, &hop, &time, &zero);
        }
    }
    found.push(sum.finish("torus-rotated"));
    if collective == Collective::AllReduce {
        let mut sum = Sum::new(cost);
        for &side in sides {
            sum.add(side / 2, &hop, &(&m / &rate), &zero);
            // Added in a step of their own.
            sum.reduced += &m * whole(side - 1);
        }
        found.push(sum.finish("torus-gather-reduce"));
    }
    found
}
