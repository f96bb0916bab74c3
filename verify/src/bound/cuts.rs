//! Cuts: which ones are tried, and what they say.

use rondo_ir::index::RankId;
use rondo_ir::problem::Problem;
use rondo_ir::topology::NodeKind;
use rustc_hash::FxHashSet;

use super::demand::Demand;
use super::graph::Graph;
use super::{BandwidthBound, BoundError, flow, names, quotient};

/// Visits of arcs and nodes that cuts by distance may take together.
const WORK: usize = 40_000_000;
/// (terminals · arcs · vertices) up to which bottleneck cuts are found by maximal flow.
const FLOW_WORK: usize = 2_000_000;
/// Nodes up to which all cuts are tried.
pub(super) const ALL_CUTS: usize = 14;

/// What is known to bind so far.
struct Best {
    bytes: u128,
    capacity: u128,
    cut: String,
}

/// Which way a cut is crossed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Out,
    In,
    /// Both ways together: only shared media make this tighter.
    Both,
}

struct Search<'a> {
    problem: &'a Problem,
    graph: &'a Graph,
    demands: &'a [Demand],
    best: Best,
    seen: FxHashSet<Vec<u64>>,
    work: usize,
    all_cuts: usize,
    /// Rate at which each node injects and ejects, if it is limited.
    injection: Vec<Option<u128>>,
    ejection: Vec<Option<u128>>,
}

/// The tightest of all cuts tried; below `all_cuts` + 1 nodes these are all there are.
pub(super) fn tightest(
    problem: &Problem,
    graph: &Graph,
    demands: &[Demand],
    all_cuts: usize,
) -> Result<BandwidthBound, BoundError> {
    let nodes = problem.topology().nodes();
    let rate = |limit: Option<rondo_ir::units::Rate>| limit.map(|rate| u128::from(rate.bytes_per_second()));
    let mut search = Search {
        problem,
        graph,
        demands,
        best: Best { bytes: 0, capacity: 1, cut: "nothing has to move".to_owned() },
        seen: FxHashSet::default(),
        work: 0,
        all_cuts,
        injection: nodes.iter().map(|node| rate(node.injection)).collect(),
        ejection: nodes.iter().map(|node| rate(node.ejection)).collect(),
    };
    search.run()?;
    let Best { bytes, capacity, cut } = search.best;
    Ok(BandwidthBound { time: quotient(bytes, capacity), cut, bytes, capacity })
}

impl Search<'_> {
    /// Natural cuts come first, so that they give their name to a bound that several cuts share.
    fn run(&mut self) -> Result<(), BoundError> {
        let hosts: Vec<usize> = (0..self.graph.nodes).filter(|&node| self.graph.hosts[node]).collect();
        for &host in &hosts {
            self.try_set(&[host], "")?;
        }
        let singles: Vec<Option<u32>> = {
            let mut part = vec![None; self.graph.vertices];
            for (index, &host) in (0_u32..).zip(&hosts) {
                part[host] = Some(index);
            }
            part
        };
        self.try_parts(&singles, "of the ranks")?;
        self.levels()?;
        self.capacities()?;
        self.throughputs()?;
        self.distances()?;
        self.bottlenecks()?;
        self.all()
    }

    /// Subtrees of switches: what hangs together up to each distance from the nearest rank.
    fn levels(&mut self) -> Result<(), BoundError> {
        let mut level: Vec<Option<u32>> = vec![None; self.graph.vertices];
        let mut queue: Vec<usize> = (0..self.graph.nodes).filter(|&node| self.graph.hosts[node]).collect();
        for &host in &queue {
            level[host] = Some(0);
        }
        let mut next = 0;
        while let Some(&at) = queue.get(next) {
            next += 1;
            let above = level[at].map(|l| l + 1);
            for &number in self.graph.out[at].iter().chain(&self.graph.into[at]) {
                let arc = &self.graph.arcs[number as usize];
                let to = if arc.src == at { arc.dst } else { arc.src };
                if level[to].is_none() {
                    level[to] = above;
                    queue.push(to);
                }
            }
        }
        let highest = level.iter().flatten().copied().max().unwrap_or(0);
        for limit in 1..=highest {
            let below = |vertex: usize| level[vertex].is_some_and(|l| l <= limit);
            let (part, count) = self.graph.components(below, |_| true);
            if count < 2 {
                break;
            }
            let parts = self.collect(&part, count);
            for members in &parts {
                let tops: Vec<usize> = members.iter().copied().filter(|&node| level[node] == Some(limit)).collect();
                let label = match tops.as_slice() {
                    [top] if self.problem.topology().nodes()[*top].kind == NodeKind::Switch => {
                        format!("links of {}", self.problem.topology().nodes()[*top].name)
                    }
                    _ => String::new(),
                };
                self.try_set(members, &label)?;
            }
            self.try_parts(&part, "of the subtrees")?;
        }
        Ok(())
    }

    /// What hangs together by links that are faster than each capacity (machines joined by slower links).
    fn capacities(&mut self) -> Result<(), BoundError> {
        let mut capacities: Vec<u128> = self.graph.arcs.iter().map(|arc| arc.capacity).collect();
        capacities.sort_unstable();
        capacities.dedup();
        capacities.pop();
        // Many different rates are no classes; take evenly spaced ones.
        let classes = capacities.len().min(16);
        for index in 0..classes {
            let limit = capacities[index * capacities.len() / classes];
            let (part, count) = self.graph.components(|_| true, |arc| limit < arc.capacity);
            let parts = self.collect(&part, count);
            if parts.len() < 2 {
                continue;
            }
            for members in &parts {
                self.try_set(members, "")?;
            }
            self.try_parts(&part, "of the parts with fast links inside")?;
        }
        Ok(())
    }

    /// Switches that limit what passes through them.
    fn throughputs(&mut self) -> Result<(), BoundError> {
        for node in 0..self.graph.nodes {
            let Some(rate) = self.problem.topology().nodes()[node].throughput else { continue };
            // What a rank on the node relays does not pass through it.
            if self.graph.hosts[node] {
                continue;
            }
            let (part, count) = self.graph.components(|vertex| vertex != node, |_| true);
            let (sum_in, sum_out, gossip) = self.part_demands(&part, count);
            let bytes = if self.graph.plain { sum_in.0.max(sum_out.0).max(gossip) } else { sum_in.1.max(sum_out.1) };
            let capacity = u128::from(rate.bytes_per_second());
            let name = format!("through {}", self.problem.topology().nodes()[node].name);
            self.offer(bytes, capacity, || name)?;
        }
        Ok(())
    }

    /// For each arc what is nearer to its start than to its end, and for each node what is within each distance of it.
    fn distances(&mut self) -> Result<(), BoundError> {
        let graph = self.graph;
        let one_search = graph.arcs.len() + graph.vertices;
        // The natural cuts before are never left out, and do not use up this budget.
        self.work = 0;
        // Start at node 0, then half-way, quarters, …: on a symmetric topology the first ones say all.
        for &vertex in &spread_order(graph.nodes) {
            if WORK / 2 < self.work {
                break;
            }
            self.work += one_search;
            let to_here = graph.distances_to(vertex);
            let mut ends: Vec<usize> = graph.out[vertex].iter().map(|&arc| graph.arcs[arc as usize].dst).collect();
            ends.sort_unstable();
            ends.dedup();
            for end in ends {
                self.work += one_search;
                let to_end = graph.distances_to(end);
                for equal in [false, true] {
                    let nearer = |node: &usize| match (to_here[*node], to_end[*node]) {
                        (Some(here), Some(there)) => here < there || (equal && here == there),
                        (here, _) => here.is_some(),
                    };
                    let members: Vec<usize> = (0..graph.nodes).filter(nearer).collect();
                    self.try_set(&members, "")?;
                }
            }
        }
        for &vertex in &spread_order(graph.nodes) {
            if WORK < self.work {
                break;
            }
            self.work += one_search;
            let distance = graph.distances_from(vertex);
            let farthest = distance.iter().flatten().copied().max().unwrap_or(0);
            for limit in 0..farthest {
                if WORK < self.work {
                    break;
                }
                let members: Vec<usize> =
                    (0..graph.nodes).filter(|&node| distance[node].is_some_and(|d| d <= limit)).collect();
                self.try_set(&members, "")?;
            }
        }
        Ok(())
    }

    /// Bottleneck cuts: as long as some cut cannot carry a group's demand in the time known, that cut is tighter.
    fn bottlenecks(&mut self) -> Result<(), BoundError> {
        for demand in self.demands {
            let commodities = demand.commodities();
            if FLOW_WORK < commodities.len().saturating_mul(self.graph.arcs.len()).saturating_mul(self.graph.vertices) {
                continue;
            }
            for commodity in commodities {
                while self.best.bytes != 0
                    && let Some(inside) = flow::violated(self.graph, &commodity, self.best.bytes, self.best.capacity)
                {
                    let members: Vec<usize> = (0..self.graph.nodes).filter(|&node| inside[node]).collect();
                    let before = (self.best.bytes, self.best.capacity);
                    self.try_set(&members, "")?;
                    if before == (self.best.bytes, self.best.capacity) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Every cut of a very small topology.
    fn all(&mut self) -> Result<(), BoundError> {
        if self.all_cuts < self.graph.nodes {
            return Ok(());
        }
        for mask in 1_u64..(1 << self.graph.nodes.saturating_sub(1)) {
            let members: Vec<usize> = (0..self.graph.nodes).filter(|&node| mask >> node & 1 == 1).collect();
            self.try_set(&members, "")?;
        }
        Ok(())
    }

    fn demand_work(&self) -> usize {
        self.demands.iter().map(Demand::work).sum()
    }

    /// Members of each part that hosts a rank but not all of them.
    fn collect(&self, part: &[Option<u32>], count: u32) -> Vec<Vec<usize>> {
        let mut parts = vec![Vec::new(); count as usize];
        for (node, index) in part.iter().enumerate().take(self.graph.nodes) {
            if let Some(index) = index {
                parts[*index as usize].push(node);
            }
        }
        let hosts = |members: &Vec<usize>| members.iter().filter(|&&node| self.graph.hosts[node]).count();
        let all = self.graph.hosts.iter().filter(|&&host| host).count();
        parts.retain(|members| 0 < hosts(members) && hosts(members) < all);
        parts
    }

    /// Offers both directions across the set and, where media are shared, both together.
    fn try_set(&mut self, members: &[usize], label: &str) -> Result<(), BoundError> {
        let nodes = self.graph.nodes;
        if members.is_empty() || members.len() == nodes {
            return Ok(());
        }
        let mut inside = vec![false; self.graph.vertices];
        let mut key = vec![0_u64; nodes.div_ceil(64)];
        for &node in members {
            inside[node] = true;
        }
        // A set and its complement are one cut: the side without node 0 is remembered.
        let flip = inside[0];
        for node in 0..nodes {
            if inside[node] != flip {
                key[node / 64] |= 1 << (node % 64);
            }
        }
        self.work += nodes;
        if !self.seen.insert(key) {
            return Ok(());
        }
        let rest: Vec<usize>;
        let smaller = if 2 * members.len() <= nodes {
            members
        } else {
            rest = (0..nodes).filter(|&node| !inside[node]).collect();
            &rest
        };
        let degree = self.graph.arcs.len() / nodes + 1;
        self.work += 2 * degree * smaller.len() + nodes + 2 * self.demand_work();
        let out: u128 = self.demands.iter().map(|demand| demand.across(|node| inside[node])).sum();
        let back: u128 = self.demands.iter().map(|demand| demand.across(|node| !inside[node])).sum();
        for (direction, bytes) in [(Direction::Out, out), (Direction::In, back), (Direction::Both, out + back)] {
            if bytes == 0 || (direction == Direction::Both && self.graph.media.is_empty()) {
                continue;
            }
            let capacity = self.capacity(&inside, smaller, direction);
            let description = || self.describe(&inside, direction, label);
            if better(&self.best, bytes, capacity) {
                let cut = description();
                if capacity == 0 {
                    return Err(BoundError::Disconnected { cut, bytes });
                }
                self.best = Best { bytes, capacity, cut };
            }
        }
        Ok(())
    }

    fn offer(&mut self, bytes: u128, capacity: u128, cut: impl FnOnce() -> String) -> Result<(), BoundError> {
        if bytes == 0 || !better(&self.best, bytes, capacity) {
            return Ok(());
        }
        let cut = cut();
        if capacity == 0 {
            return Err(BoundError::Disconnected { cut, bytes });
        }
        self.best = Best { bytes, capacity, cut };
        Ok(())
    }

    /// Bytes per second that can cross.
    fn capacity(&self, inside: &[bool], smaller: &[usize], direction: Direction) -> u128 {
        let graph = self.graph;
        let (from, to) = (direction != Direction::In, direction != Direction::Out);
        // Out: inside → outside; In: outside → inside.
        let crosses =
            |src: usize, dst: usize| inside[src] != inside[dst] && ((from && inside[src]) || (to && inside[dst]));
        let mut media = vec![0_u128; graph.media.len()];
        let mut sum = 0;
        // What crosses leaves or enters each side, so the arcs of the smaller one are enough.
        for &node in smaller {
            for &number in graph.out[node].iter().chain(&graph.into[node]) {
                let arc = &graph.arcs[number as usize];
                if arc.link && crosses(arc.src, arc.dst) {
                    match arc.medium {
                        None => sum += arc.capacity,
                        Some(medium) => media[medium] += arc.capacity,
                    }
                }
            }
        }
        sum += media.iter().zip(&graph.media).map(|(&used, &limit)| used.min(limit)).sum::<u128>();
        for (senders, receivers) in &graph.devices {
            for (wanted, side) in [(from, true), (to, false)] {
                if wanted {
                    let total = |ports: &[(usize, u128)], side: bool| {
                        ports.iter().filter(|&&(node, _)| inside[node] == side).map(|port| port.1).sum::<u128>()
                    };
                    sum += total(senders, side).min(total(receivers, !side));
                }
            }
        }
        // What crosses was injected by ranks on one side and is ejected by ranks on the other.
        let ends = |limits: &[Option<u128>], side: bool| {
            (0..graph.nodes).filter(|&node| graph.hosts[node] && inside[node] == side).map(|node| limits[node]).sum()
        };
        let limit = |total: Option<u128>| total.unwrap_or(u128::MAX);
        match direction {
            Direction::Out => sum.min(limit(ends(&self.injection, true))).min(limit(ends(&self.ejection, false))),
            Direction::In => sum.min(limit(ends(&self.injection, false))).min(limit(ends(&self.ejection, true))),
            Direction::Both => sum,
        }
    }

    /// What all parts together receive, send, and (for all_reduce) pass on; each with the largest single one.
    fn part_demands(&self, part: &[Option<u32>], count: u32) -> ((u128, u128), (u128, u128), u128) {
        let (mut sum_in, mut sum_out) = ((0_u128, 0_u128), (0_u128, 0_u128));
        for index in 0..count {
            let is = |node: usize| part[node] == Some(index);
            let into: u128 = self.demands.iter().map(|demand| demand.across(|node| !is(node))).sum();
            let out: u128 = self.demands.iter().map(|demand| demand.across(is)).sum();
            sum_in = (sum_in.0 + into, sum_in.1.max(into));
            sum_out = (sum_out.0 + out, sum_out.1.max(out));
        }
        let gossip = self.demands.iter().map(|demand| {
            let mut parts: Vec<_> = demand.nodes.iter().map(|&node| part[node]).collect();
            parts.sort_unstable();
            parts.dedup();
            demand.gossip(parts.len())
        });
        (sum_in, sum_out, gossip.sum())
    }

    /// Bounds by the sum of what leaves, and of what enters, all parts; `part` covers every rank.
    fn try_parts(&mut self, part: &[Option<u32>], of: &str) -> Result<(), BoundError> {
        let graph = self.graph;
        let covered = (0..graph.nodes).all(|node| !graph.hosts[node] || part[node].is_some());
        let count = part.iter().flatten().copied().max().map_or(0, |last| last + 1);
        // Each part asks for the demand of all positions.
        let cost = (count as usize).saturating_mul(self.demand_work());
        if !graph.plain || !covered || count < 2 || WORK < cost {
            return Ok(());
        }
        let (sum_in, sum_out, gossip) = self.part_demands(part, count);
        let bytes = sum_in.0.max(sum_out.0).max(gossip);
        let mut hosts = vec![false; count as usize];
        for node in (0..graph.nodes).filter(|&node| graph.hosts[node]) {
            if let Some(index) = part[node] {
                hosts[index as usize] = true;
            }
        }
        let hosting_part = |vertex: usize| part[vertex].filter(|&index| hosts[index as usize]);
        for egress in [true, false] {
            let mut links = vec![0_u128; count as usize];
            let mut media = vec![0_u128; graph.media.len()];
            let mut total = 0_u128;
            for arc in &graph.arcs {
                let (own, other) = if egress { (arc.src, arc.dst) } else { (arc.dst, arc.src) };
                let Some(index) = hosting_part(own) else { continue };
                // A device's vertex may belong to a part; its ports still count as ways out.
                if part[other] == Some(index) && arc.link {
                    continue;
                }
                links[index as usize] += arc.capacity;
                match arc.medium {
                    None => total += arc.capacity,
                    Some(medium) => media[medium] += arc.capacity,
                }
            }
            total += media.iter().zip(&graph.media).map(|(&used, &limit)| used.min(limit)).sum::<u128>();
            let limits = if egress { &self.injection } else { &self.ejection };
            let mut ends: Vec<Option<u128>> = vec![Some(0); count as usize];
            for node in (0..graph.nodes).filter(|&node| graph.hosts[node]) {
                if let Some(index) = part[node] {
                    let sum = &mut ends[index as usize];
                    *sum = sum.zip(limits[node]).map(|(sum, rate)| sum + rate);
                }
            }
            let by_part = (0..count as usize)
                .filter(|&index| hosts[index])
                .map(|index| links[index].min(ends[index].unwrap_or(u128::MAX)))
                .fold(0_u128, u128::saturating_add);
            let way = if egress { "egress" } else { "ingress" };
            let capacity = total.min(by_part);
            self.offer(bytes, capacity, || format!("total {way} {of}"))?;
        }
        Ok(())
    }

    fn describe(&self, inside: &[bool], direction: Direction, label: &str) -> String {
        let side = |wanted: bool| -> Vec<RankId> {
            (0..self.problem.rank_count())
                .map(RankId::new)
                .filter(|&rank| inside[self.problem.node_of(rank).index()] == wanted)
                .collect()
        };
        let (own, other) = (side(true), side(false));
        // The smaller side is easier to read; a label belongs to the inside.
        let keep = !label.is_empty() || own.len() <= other.len();
        let (shown, hidden) = if keep { (own, other) } else { (other, own) };
        let shown_names = names(self.problem, &shown);
        let text = match direction {
            Direction::Both => format!("between {shown_names} and {}, both ways", names(self.problem, &hidden)),
            Direction::Out if keep => format!("out of {shown_names}"),
            Direction::In if !keep => format!("out of {shown_names}"),
            Direction::Out | Direction::In => format!("into {shown_names}"),
        };
        if label.is_empty() { text } else { format!("{text}: {label}") }
    }
}

/// Whether bytes/capacity is more than what is known; a cut without capacity is the worst.
fn better(best: &Best, bytes: u128, capacity: u128) -> bool {
    match (bytes.checked_mul(best.capacity), best.bytes.checked_mul(capacity)) {
        (Some(new), Some(old)) => old < new,
        _ => {
            let big = num_bigint::BigUint::from;
            big(best.bytes) * big(capacity) < big(bytes) * big(best.capacity)
        }
    }
}

/// 0, then half-way, then the quarters, …: all numbers below `n`, each once.
fn spread_order(n: usize) -> Vec<usize> {
    let mut order = Vec::with_capacity(n);
    let mut taken = vec![false; n];
    let mut parts = 1;
    while order.len() < n {
        for index in 0..parts {
            let at = index * n / parts;
            if !std::mem::replace(&mut taken[at], true) {
                order.push(at);
            }
        }
        parts = (2 * parts).min(n);
    }
    order
}
