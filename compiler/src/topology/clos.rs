//! Folded Clos networks (fat trees) of 1 to 3 tiers, with destination routing, alone or beside a second fabric.

use std::sync::Arc;

use num_rational::Ratio;
use rondo_ir::index::{LinkId, NodeId};
use rondo_ir::schedule::Route;
use rondo_ir::topology::{Hop, Node, TopologyBuilder};
use rondo_ir::units::Rate;

use super::error::{BuildError, LINK_LIMIT};
use super::mesh::mesh;
use super::spec::{ClosSpec, ScaleUp, ScaleUpKind};
use super::torus::torus;
use crate::fabric::{Fabric, LinkKind, Router, Shape};

/// How many of what a Clos has.
///
/// An edge switch has `down` ports to compute nodes and `up` uplinks. In two tiers each uplink goes to another spine. In
/// three tiers a pod has `up` aggregation switches, each with a cable to each of `pod_edges` edge switches and `core_ports`
/// uplinks; uplink j of aggregation switch a of every pod goes to core switch (a, j).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosPlan {
    /// Compute nodes.
    pub nodes: u64,
    /// Compute nodes below an edge switch, at most.
    pub down: u64,
    /// Uplinks of an edge switch.
    pub up: u64,
    /// Edge switches of a pod, at most (all there can be in two tiers).
    pub pod_edges: u64,
    /// Uplinks of an aggregation switch; 0 in fewer than three tiers.
    pub core_ports: u64,
    /// Edge switches that are built.
    pub edges: u64,
    /// Pods that are built; 1 in fewer than three tiers.
    pub pods: u64,
    /// Equal links that one link stands for, between edge and the tier above and between aggregation and core: 1 unless
    /// bundled. Bundled, an edge or aggregation switch has one uplink.
    pub widths: (u64, u64),
    /// Directed links, without those of a second fabric.
    pub links: u64,
}

impl ClosPlan {
    /// Counts what the spec describes.
    ///
    /// Ports: with r the oversubscription times uplink rate over link rate, an edge switch of radix k gives ⌊k/(1+r)⌋ ports
    /// to uplinks and ⌊r·up⌋ to compute nodes; an aggregation switch likewise with r the oversubscription. Without
    /// oversubscription that is k/2 and k/2: k²/2 compute nodes in two tiers, k³/4 in three. One tier is one switch of
    /// radix k, or one a rail.
    ///
    /// With rails, compute node i of a host hangs on rail i's edge switch of the host's group (`down` hosts), and the edge
    /// switches of a group are consecutive and in one pod.
    ///
    /// Switches that no compute node needs are left out: edge switches and pods without hosts, everything above a single
    /// edge switch, and the core above a single pod.
    ///
    /// # Errors
    /// As [`clos`].
    pub fn new(spec: &ClosSpec) -> Result<Self, BuildError> {
        let &ClosSpec { tiers, radix, nodes, oversubscription, rail_optimized, per_host, link, uplink, host, .. } =
            spec;
        let too_few = |what: &str, given: u32, limit: u64| {
            Err(BuildError::TooFew { what: what.into(), given: u64::from(given), limit })
        };
        if tiers == 0 {
            return too_few("the number of tiers of the Clos", tiers, 1);
        }
        if 3 < tiers {
            let what = "the number of tiers of the Clos".into();
            return Err(BuildError::TooMany { what, given: u64::from(tiers), limit: 3 });
        }
        if radix < 2 {
            return too_few("the radix of the Clos", radix, 2);
        }
        if per_host == 0 {
            return too_few("the number of compute nodes of a host", per_host, 1);
        }
        if *oversubscription.numer() == 0 {
            return too_few("the oversubscription of the Clos", 0, 1);
        }
        if 1 < tiers && !radix.is_multiple_of(2) {
            return Err(BuildError::OddRadix { given: radix });
        }
        let (k, g) = (u64::from(radix), u64::from(per_host));
        let over = Ratio::new(u128::from(*oversubscription.numer()), u128::from(*oversubscription.denom()));
        let rates = Ratio::new(uplink.bandwidth.bytes_per_second().into(), link.bandwidth.bytes_per_second().into());
        let no_uplink = || BuildError::NoUplink { radix, over: oversubscription.to_string() };
        let (down, up) = if tiers == 1 { (k, 0) } else { ports(k, over * rates).ok_or_else(no_uplink)? };
        let (pod_edges, core_ports, pods) = match tiers {
            1 => (if rail_optimized { g } else { 1 }, 0, 1),
            2 => (k, 0, 1),
            _ => {
                let (edges, core) = ports(k, over).ok_or_else(no_uplink)?;
                (edges, core, k)
            }
        };
        // With rails only whole groups of edge switches count.
        let pod_edges = if rail_optimized { pod_edges / g * g } else { pod_edges };
        if rail_optimized && pod_edges == 0 {
            let what = "the number of rails (compute nodes of a host)".to_owned();
            return Err(BuildError::TooMany { what, given: g, limit: if tiers == 2 { k } else { k / 2 } });
        }
        let limit = down.saturating_mul(pod_edges).saturating_mul(pods);
        let given = nodes.map_or(limit / g * g, u64::from);
        if given == 0 {
            return Err(BuildError::TooFew { what: "the number of nodes of the Clos".into(), given, limit: 1 });
        }
        if limit < given {
            return Err(BuildError::ClosOverfull { tiers, radix, limit, given });
        }
        if !given.is_multiple_of(g) {
            return Err(BuildError::NotMultiple { what: "the number of nodes of the Clos".into(), given, limit: g });
        }
        if LINK_LIMIT < given {
            return Err(BuildError::TooLarge {
                what: format!("a Clos of radix {radix}"),
                given: given.saturating_mul(2),
            });
        }
        let edges = if rail_optimized { (given / g).div_ceil(down) * g } else { given.div_ceil(down) };
        let pods = edges.div_ceil(pod_edges);
        let mut plan = Self { nodes: given, down, up, pod_edges, core_ports, edges, pods, widths: (1, 1), links: 0 };
        if spec.bundled {
            plan.widths = (up.max(1), (up * core_ports).max(1));
            (plan.up, plan.core_ports) = (up.min(1), core_ports.min(1));
        }
        let parts = [
            given,
            if host.is_some() { given } else { 0 },
            if plan.has_second_tier() { edges.saturating_mul(plan.up) } else { 0 },
            if plan.has_core() { pods.saturating_mul(plan.up).saturating_mul(plan.core_ports) } else { 0 },
        ];
        plan.links = parts.into_iter().fold(0_u64, u64::saturating_add).saturating_mul(2);
        if LINK_LIMIT < plan.links {
            return Err(BuildError::TooLarge { what: format!("a Clos of radix {radix}"), given: plan.links });
        }
        Ok(plan)
    }

    fn has_second_tier(&self) -> bool {
        0 < self.up && 1 < self.edges
    }

    fn has_core(&self) -> bool {
        0 < self.core_ports && 1 < self.pods
    }
}

/// Ports down and up of a switch of radix k whose down-to-up ratio is `ratio`.
fn ports(k: u64, ratio: Ratio<u128>) -> Option<(u64, u64)> {
    let up = (Ratio::from(u128::from(k)) / (ratio + 1)).to_integer();
    let down = (ratio * up).to_integer();
    let (down, up) = (u64::try_from(down).ok()?, u64::try_from(up).ok()?);
    (0 < down && 0 < up).then_some((down, up))
}

/// Builds a Clos.
///
/// Nodes: first the compute nodes, `n0`, `n1`, … or, with several a host, `host0/gpu0`, …; then the switches inside hosts
/// (`host0/switch`, if asked for), `edge0` …, `spine0` … in two tiers, or in three `agg0.0` … (pod, index) and `core0.0` …
/// (aggregation index, uplink). Only switches forward. Links are cables (up, then down) in the order: compute node to edge,
/// compute node to its host's switch, edge to the tier above, aggregation to core.
///
/// Routing is by destination: the switch above the edge has the destination's number in its rack as index, the core
/// switch has the destination's rack number in its pod as index. So in a full tree each shift u → u + t and each exchange
/// u → u ⊕ 2^i loads each link at most once.
///
/// Bundled, each pod has one aggregation switch `agg0` … (two tiers: `spine`) and there is one `core`; a link between tiers has the
/// rate of all links that it stands for. Each load that is symmetric in the switches of a tier costs the same as with
/// single links spread ideally, with far fewer of them.
///
/// A second fabric numbers its links after all others, group by group, each as its own generator does. Routes within a
/// group take it, all others the Clos.
///
/// # Errors
/// Tiers not 1 … 3; an odd radix in more than one tier; no port left for uplinks; more compute nodes than fit; a number of
/// them that is no multiple of those a host; more than 2²⁴ links; a second fabric whose groups are not full, whose sides
/// do not multiply to a group, or beside rails or switches in hosts.
pub fn clos(spec: &ClosSpec) -> Result<Fabric, BuildError> {
    let plan = ClosPlan::new(spec)?;
    let groups = spec.scale_up.as_ref().map(|scale_up| Groups::new(spec, &plan, scale_up)).transpose()?;
    let per_host = u64::from(spec.per_host);
    let name = match (spec.tiers, spec.rail_optimized) {
        (1, false) => format!("switch of {}", plan.nodes),
        (tiers, false) => format!("{tiers}-tier Clos of {}", plan.nodes),
        (tiers, true) => format!("rail-optimised {tiers}-tier Clos of {}", plan.nodes),
    };
    let name = groups.as_ref().map_or(name.clone(), |groups| format!("{name}, {}", groups.name()));
    let forwards = groups.as_ref().is_some_and(|groups| groups.fabric.topology.nodes()[0].forwards);
    let mut builder = TopologyBuilder::new(name);
    let (mut edge_of, mut index_of) = (Vec::new(), Vec::new());
    for node in 0..plan.nodes {
        let (host, gpu) = (node / per_host, node % per_host);
        let name = if per_host == 1 { format!("n{node}") } else { format!("host{host}/gpu{gpu}") };
        builder.node(Node::compute(name).forwarding(forwards));
        let (edge, index) = if spec.rail_optimized {
            (host / plan.down * per_host + gpu, host % plan.down)
        } else {
            (node / plan.down, node % plan.down)
        };
        edge_of.push(edge);
        index_of.push(index);
    }
    let mut kinds = Vec::new();
    let hosts = if spec.host.is_some() { plan.nodes / per_host } else { 0 };
    let host_switch = builder.nodes.len();
    for host in 0..hosts {
        let name = if per_host == 1 { format!("n{host}/switch") } else { format!("host{host}/switch") };
        builder.node(Node::switch(name));
    }
    let edges = builder.nodes.len();
    for edge in 0..plan.edges {
        builder.node(Node::switch(format!("edge{edge}")));
    }
    for (node, &edge) in edge_of.iter().enumerate() {
        let edge = NodeId::new(edges + edge as usize);
        builder.cable(NodeId::new(node), edge, spec.link.bandwidth, spec.link.latency);
    }
    kinds.resize(builder.links.len(), LinkKind::Network);
    let host_links = builder.links.len();
    if let Some(rates) = spec.host {
        for node in 0..plan.nodes {
            let switch = NodeId::new(host_switch + (node / per_host) as usize);
            builder.cable(NodeId::new(node as usize), switch, rates.bandwidth, rates.latency);
        }
    }
    kinds.resize(builder.links.len(), LinkKind::Link);
    let (edge_links, mut core_links) = (builder.links.len(), builder.links.len());
    if plan.has_second_tier() {
        let second = builder.nodes.len();
        for pod in 0..plan.pods {
            for a in 0..plan.up {
                builder.node(Node::switch(match (spec.tiers, spec.bundled) {
                    (2, true) => "spine".to_owned(),
                    (2, false) => format!("spine{a}"),
                    (_, true) => format!("agg{pod}"),
                    (_, false) => format!("agg{pod}.{a}"),
                }));
            }
        }
        let widened = |width: u64| {
            let rate = spec.uplink.bandwidth.bytes_per_second();
            let rate = rate.checked_mul(width).and_then(Rate::new);
            rate.ok_or_else(|| BuildError::TooMany {
                what: "the rate of a bundle of links".into(),
                given: u64::MAX,
                limit: u64::MAX - 1,
            })
        };
        let (edge_rate, core_rate) = (widened(plan.widths.0)?, widened(plan.widths.1)?);
        for edge in 0..plan.edges {
            for a in 0..plan.up {
                let above = second + (edge / plan.pod_edges * plan.up + a) as usize;
                builder.cable(NodeId::new(edges + edge as usize), NodeId::new(above), edge_rate, spec.uplink.latency);
            }
        }
        core_links = builder.links.len();
        if plan.has_core() {
            let cores = builder.nodes.len();
            for a in 0..plan.up {
                for j in 0..plan.core_ports {
                    let name = if spec.bundled { "core".to_owned() } else { format!("core{a}.{j}") };
                    builder.node(Node::switch(name));
                }
            }
            for below in 0..plan.pods * plan.up {
                for j in 0..plan.core_ports {
                    let core = cores + (below % plan.up * plan.core_ports + j) as usize;
                    let below = NodeId::new(second + below as usize);
                    builder.cable(below, NodeId::new(core), core_rate, spec.uplink.latency);
                }
            }
        }
    }
    kinds.resize(builder.links.len(), LinkKind::Network);
    let group_links = builder.links.len();
    if let Some(groups) = &groups {
        for first in (0..plan.nodes as u32).step_by(groups.size as usize) {
            for link in groups.fabric.topology.links() {
                let [src, dst] = [link.src, link.dst].map(|node| NodeId::from(first + node.number()));
                builder.link(src, dst, link.capacity, link.latency);
            }
        }
    }
    kinds.resize(builder.links.len(), LinkKind::Link);
    let shape = if let Some(groups) = &groups {
        Shape::Hybrid { group: groups.size, inside: Box::new(groups.fabric.shape.clone()) }
    } else if spec.rail_optimized || spec.host.is_some() {
        Shape::Hosts { per_host: spec.per_host }
    } else {
        let below = [plan.down, plan.down * plan.pod_edges, u64::MAX];
        let tiers = if plan.has_core() { 3 } else { 1 + usize::from(plan.has_second_tier()) };
        let mut subtree: Vec<u32> = below[..tiers].iter().map(|&below| below.min(plan.nodes) as u32).collect();
        if let Some(top) = subtree.last_mut() {
            *top = plan.nodes as u32;
        }
        Shape::Clos { subtree }
    };
    let router = ClosRouter {
        host_links: spec.host.map(|_| (per_host, host_links as u64)),
        edge_links: edge_links as u64,
        core_links: core_links as u64,
        edge_of,
        index_of,
        plan,
    };
    let topology = Arc::new(super::finish(builder)?);
    let router: Arc<dyn Router> = match groups {
        None => Arc::new(router),
        Some(groups) => Arc::new(HybridRouter { between: router, groups, first: group_links }),
    };
    Ok(Fabric { kinds, ..Fabric::new(topology, shape, router) })
}

/// The second fabric of one group; all groups are alike.
#[derive(Debug)]
struct Groups {
    /// Compute nodes of a group.
    size: u32,
    fabric: Fabric,
}

impl Groups {
    fn new(spec: &ClosSpec, plan: &ClosPlan, scale_up: &ScaleUp) -> Result<Self, BuildError> {
        if spec.rail_optimized || spec.host.is_some() {
            let with = if spec.rail_optimized { "rails" } else { "switches in the hosts" };
            return Err(BuildError::NotTogether { one: "a second fabric in each rack or pod", other: with });
        }
        let (size, fabric) = match &scale_up.kind {
            ScaleUpKind::Mesh => {
                let size = plan.down.min(plan.nodes);
                (size, mesh(u32::try_from(size).unwrap_or(u32::MAX), scale_up.link)?)
            }
            ScaleUpKind::Torus { sides } => {
                let size = plan.down.saturating_mul(if spec.tiers == 3 { plan.pod_edges } else { 1 }).min(plan.nodes);
                let given = sides.iter().fold(1_u64, |product, &side| product.saturating_mul(u64::from(side)));
                if given != size {
                    return Err(BuildError::WrongSides { given, size });
                }
                (size, torus(sides, scale_up.link)?)
            }
        };
        if !plan.nodes.is_multiple_of(size) {
            let what = "the number of nodes of a Clos with a second fabric in each rack or pod".to_owned();
            return Err(BuildError::NotMultiple { what, given: plan.nodes, limit: size });
        }
        let links = plan.nodes / size * fabric.topology.links().len() as u64;
        let given = plan.links.saturating_add(links);
        if LINK_LIMIT < given {
            return Err(BuildError::TooLarge {
                what: format!("a Clos of radix {} with a second fabric", spec.radix),
                given,
            });
        }
        Ok(Self { size: u32::try_from(size).unwrap_or(u32::MAX), fabric })
    }

    fn name(&self) -> String {
        format!("each {} a {}", self.size, self.fabric.topology.name())
    }
}

/// The second fabric within a group, the Clos between groups.
#[derive(Debug)]
struct HybridRouter {
    between: ClosRouter,
    groups: Groups,
    /// First link of the second fabric.
    first: usize,
}

impl Router for HybridRouter {
    fn route(&self, src: NodeId, dst: NodeId) -> Option<Route> {
        let Groups { size, fabric } = &self.groups;
        let group = src.number() / size;
        if self.between.plan.nodes <= u64::from(src.number()) || group != dst.number() / size {
            return self.between.route(src, dst);
        }
        let mut route = fabric.router.route(NodeId::from(src.number() % size), NodeId::from(dst.number() % size))?;
        let first = self.first + group as usize * fabric.topology.links().len();
        for hop in route.parts.iter_mut().flat_map(|part| &mut part.hops) {
            if let Hop::Link(link) = hop {
                *link = LinkId::new(first + link.index());
            }
        }
        Some(route)
    }
}

/// Destination routing, computed from numbers.
#[derive(Clone, Debug)]
struct ClosRouter {
    plan: ClosPlan,
    edge_of: Vec<u64>,
    index_of: Vec<u64>,
    /// Compute nodes of a host and the first link to a host's switch.
    host_links: Option<(u64, u64)>,
    edge_links: u64,
    core_links: u64,
}

impl Router for ClosRouter {
    fn route(&self, src: NodeId, dst: NodeId) -> Option<Route> {
        let plan = &self.plan;
        let (s, d) = (src.number().into(), dst.number().into());
        if plan.nodes <= s || plan.nodes <= d || s == d {
            return None;
        }
        let hop = |link: u64| Hop::Link(LinkId::new(link as usize));
        if let Some((per_host, first)) = self.host_links
            && s / per_host == d / per_host
        {
            return Some(Route::single(vec![hop(first + 2 * s), hop(first + 2 * d + 1)]));
        }
        let (from, to) = (self.edge_of[src.index()], self.edge_of[dst.index()]);
        let mut hops = vec![hop(2 * s)];
        if from != to {
            if !plan.has_second_tier() || plan.up == 0 {
                return None;
            }
            let a = self.index_of[dst.index()] % plan.up;
            hops.push(hop(self.edge_links + 2 * (from * plan.up + a)));
            let (from_pod, to_pod) = (from / plan.pod_edges, to / plan.pod_edges);
            if from_pod != to_pod {
                let j = to % plan.pod_edges % plan.core_ports.max(1);
                let core = |pod: u64| self.core_links + 2 * ((pod * plan.up + a) * plan.core_ports + j);
                hops.extend([hop(core(from_pod)), hop(core(to_pod) + 1)]);
            }
            hops.push(hop(self.edge_links + 2 * (to * plan.up + a) + 1));
        }
        hops.push(hop(2 * d + 1));
        Some(Route::single(hops))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::testing::{add_load, all_pairs, check_routes, diameter, link};

    fn spec(tiers: u32, radix: u32, nodes: Option<u32>) -> ClosSpec {
        ClosSpec {
            tiers,
            radix,
            nodes,
            oversubscription: Ratio::from(1),
            rail_optimized: false,
            per_host: 1,
            link: link(50),
            uplink: link(50),
            host: None,
            bundled: false,
            scale_up: None,
        }
    }

    /// models.md section 2: 5k²/4 switches, 3N cables, hops 2, 4, 6, loads N−1, N−R, N−P.
    #[test]
    fn a_full_fat_tree_is_that_of_the_model() {
        for k in [4_u32, 6, 8] {
            let (r, p, n) = (k / 2, k * k / 4, k * k * k / 4);
            let fabric = clos(&spec(3, k, None)).unwrap();
            let topology = &fabric.topology;
            assert_eq!(fabric.shape, Shape::Clos { subtree: vec![r, p, n] });
            assert_eq!(topology.compute_nodes().count(), n as usize);
            assert_eq!(topology.nodes().len(), (n + 5 * k * k / 4) as usize);
            assert_eq!(topology.links().len(), 6 * n as usize);
            let hops =
                |a: u32, b: u32| fabric.router.route(NodeId::from(a), NodeId::from(b)).unwrap().parts[0].hops.len();
            assert_eq!((hops(0, r - 1), hops(0, r), hops(0, p - 1), hops(0, p)), (2, 4, 4, 6));
            for (index, load) in all_pairs(&fabric).into_iter().enumerate() {
                let link = topology.link(LinkId::new(index));
                let names = [link.src, link.dst].map(|node| topology.node(node).name.clone()).join(" ");
                let expected = if names.contains('n') && !names.contains("core") {
                    n - 1
                } else if names.contains("edge") {
                    n - r
                } else {
                    n - p
                };
                assert_eq!(load, Ratio::from(u64::from(expected)), "{names}");
            }
            if k < 8 {
                check_routes(&fabric);
                assert_eq!(diameter(&fabric), 6);
            }
        }
    }

    #[test]
    fn every_shift_and_xor_round_loads_each_link_at_most_once() {
        for k in [4_u32, 6, 8] {
            let fabric = clos(&spec(3, k, None)).unwrap();
            let n = k * k * k / 4;
            let at_most_once = |peer: &dyn Fn(u32) -> u32, round: &str| {
                let mut loads = vec![Ratio::from(0); fabric.topology.links().len()];
                for u in (0..n).filter(|&u| peer(u) != u) {
                    add_load(&fabric, &mut loads, NodeId::from(u), NodeId::from(peer(u)));
                }
                assert!(loads.iter().all(|&load| load <= Ratio::from(1)), "k = {k}, {round}");
            };
            for t in 1..n {
                at_most_once(&|u| (u + t) % n, &format!("shift {t}"));
            }
            if n.is_power_of_two() {
                for bit in 0..n.trailing_zeros() {
                    at_most_once(&|u| u ^ 1 << bit, &format!("xor bit {bit}"));
                }
            }
        }
    }

    #[test]
    fn fewer_tiers_and_hosts_give_smaller_trees() {
        for (tiers, k, nodes, switches, links, subtree) in [
            (1, 8, Some(8), 1, 16, vec![8]),
            (2, 4, None, 4 + 2, 2 * (8 + 8), vec![2, 8]),
            (2, 8, Some(5), 2 + 4, 2 * (5 + 8), vec![4, 5]),
            (2, 8, Some(3), 1, 6, vec![3]),
            (3, 4, Some(3), 2 + 2, 2 * (3 + 4), vec![2, 3]),
            (3, 4, Some(5), 3 + 4 + 4, 2 * (5 + 6 + 8), vec![2, 4, 5]),
            (3, 4, Some(1), 1, 2, vec![1]),
        ] {
            let fabric = clos(&spec(tiers, k, nodes)).unwrap();
            let all = fabric.topology.nodes().len() - fabric.topology.compute_nodes().count();
            assert_eq!((all, fabric.topology.links().len()), (switches, links), "{tiers} {k} {nodes:?}");
            assert_eq!(fabric.shape, Shape::Clos { subtree }, "{tiers} {k} {nodes:?}");
            check_routes(&fabric);
        }
    }

    #[test]
    fn oversubscription_gives_fewer_uplinks() {
        let over = |ratio, uplink| ClosSpec { oversubscription: ratio, uplink, ..spec(2, 8, None) };
        let plan = ClosPlan::new(&over(Ratio::from(3), link(50))).unwrap();
        assert_eq!((plan.down, plan.up, plan.nodes), (6, 2, 48));
        // Uplinks of twice the rate: half as many ports for the same bandwidth.
        let plan = ClosPlan::new(&over(Ratio::new(3, 2), link(100))).unwrap();
        assert_eq!((plan.down, plan.up), (6, 2));
        let fabric = clos(&over(Ratio::from(3), link(50))).unwrap();
        check_routes(&fabric);
        let worst = all_pairs(&fabric).into_iter().max();
        // 6 hosts below 2 uplinks, 42 destinations elsewhere.
        assert_eq!(worst, Some(Ratio::from(6 * 42 / 2)));
        assert_eq!(ClosPlan::new(&over(Ratio::from(8), link(50))).unwrap_err().code(), "T007");
    }

    #[test]
    fn rails_keep_equal_indices_of_hosts_below_one_switch() {
        for (tiers, host) in [(2, None), (2, Some(link(300))), (3, None)] {
            let rail = ClosSpec { rail_optimized: true, per_host: 4, host, ..spec(tiers, 8, Some(24)) };
            let fabric = clos(&rail).unwrap();
            assert_eq!(fabric.shape, Shape::Hosts { per_host: 4 });
            check_routes(&fabric);
            let hops =
                |a: usize, b: usize| fabric.router.route(NodeId::new(a), NodeId::new(b)).unwrap().parts[0].hops.len();
            assert_eq!(hops(1, 5), 2, "same rail, same group");
            assert_eq!(hops(0, 1), if host.is_some() { 2 } else { 4 }, "same host");
            assert_eq!(hops(0, 5), 4, "other rail");
        }
        // One tier of rails: the rails are not joined, so only equal indices have a route.
        let rail = ClosSpec { rail_optimized: true, per_host: 2, ..spec(1, 4, Some(8)) };
        let fabric = clos(&rail).unwrap();
        assert_eq!(fabric.router.route(NodeId::new(0), NodeId::new(1)), None);
        check_routes(&fabric);
    }

    #[test]
    fn impossible_trees_are_refused_with_both_numbers() {
        let error = |spec: ClosSpec| clos(&spec).unwrap_err();
        assert_eq!(error(spec(3, 7, None)).to_string(), "the radix of a Clos must be even, given 7");
        assert_eq!(
            error(spec(3, 4, Some(17))).to_string(),
            "a Clos of 3 tiers with radix 4 holds at most 16 hosts, given 17"
        );
        assert_eq!(error(spec(4, 4, None)).code(), "T002");
        assert_eq!(error(spec(0, 4, None)).code(), "T001");
        assert_eq!(error(spec(2, 0, None)).code(), "T001");
        assert_eq!(error(spec(2, 4, Some(0))).code(), "T001");
        assert_eq!(error(ClosSpec { per_host: 3, ..spec(2, 8, Some(7)) }).code(), "T008");
        assert_eq!(error(spec(3, 1000, None)).code(), "T003");
        assert_eq!(error(spec(3, u32::MAX - 1, None)).code(), "T003");
        assert_eq!(error(ClosSpec { rail_optimized: true, per_host: 9, ..spec(3, 16, None) }).code(), "T002");
        let with = |kind: ScaleUpKind| Some(ScaleUp { kind, link: link(500) });
        let mesh = || with(ScaleUpKind::Mesh);
        let torus = |sides: &[u32]| with(ScaleUpKind::Torus { sides: sides.to_vec() });
        assert_eq!(error(ClosSpec { scale_up: mesh(), rail_optimized: true, ..spec(2, 8, None) }).code(), "T019");
        assert_eq!(error(ClosSpec { scale_up: mesh(), host: Some(link(9)), ..spec(2, 8, None) }).code(), "T019");
        assert_eq!(error(ClosSpec { scale_up: mesh(), ..spec(2, 8, Some(6)) }).code(), "T008");
        assert_eq!(error(ClosSpec { scale_up: torus(&[2, 3]), ..spec(3, 4, None) }).code(), "T020");
        assert_eq!(error(ClosSpec { scale_up: torus(&[]), ..spec(2, 2, None) }).code(), "T004");
        assert_eq!(
            error(ClosSpec { scale_up: torus(&[4, 4, 2]), ..spec(3, 8, None) }).to_string(),
            "the sides of the torus make 32 nodes, but a rack or pod of this Clos has 16"
        );
    }

    #[test]
    fn a_second_fabric_serves_its_group_and_bundles_add_up() {
        for bundled in [false, true] {
            for (kind, group, inside) in [
                (ScaleUpKind::Mesh, 4, 1),
                (ScaleUpKind::Torus { sides: vec![4, 4] }, 16, 4),
                (ScaleUpKind::Torus { sides: vec![2, 8] }, 16, 5),
            ] {
                let scale_up = Some(ScaleUp { kind, link: link(500) });
                let fabric = clos(&ClosSpec { bundled, scale_up, ..spec(3, 8, None) }).unwrap();
                let route = |a: u32, b: u32| fabric.router.route(NodeId::from(a), NodeId::from(b)).unwrap();
                for (a, b) in [(0, 1), (16, 17), (127, 126), (3, 0), (37, 38)] {
                    for part in route(a, b).parts {
                        assert!(part.hops.iter().all(|&hop| {
                            let (src, dst) = fabric.topology.ends(hop);
                            let within = |node: NodeId| node.number() / group == a / group && node.number() < 128;
                            within(src) && within(dst)
                        }));
                    }
                }
                let first = (1..group).map(|b| route(0, b).parts[0].hops.len()).max();
                assert_eq!(first, Some(inside));
                assert_eq!(route(0, 127).parts[0].hops.len(), 6);
                // A long torus is a detour that is taken all the same: its links are faster.
                if inside <= 4 {
                    check_routes(&fabric);
                }
            }
            // Everything that leaves the pods fits through: 16 nodes at 50 GB/s each.
            let fabric = clos(&ClosSpec { bundled, ..spec(3, 8, None) }).unwrap();
            let topology = &fabric.topology;
            let up = topology.links().iter().filter(|link| {
                topology.node(link.src).name.starts_with("agg0") && topology.node(link.dst).name.starts_with("core")
            });
            let total: u64 = up.map(|link| link.capacity.bytes_per_second()).sum();
            assert_eq!(total, 16 * link(50).bandwidth.bytes_per_second());
        }
    }
}
