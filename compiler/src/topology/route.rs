//! Routing for topologies without a structure to exploit, and around links that are down.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use num_integer::Integer;
use num_rational::Ratio;
use rondo_ir::index::{LinkId, NodeId};
use rondo_ir::schedule::{Route, RoutePart};
use rondo_ir::topology::{Hop, Topology};
use rustc_hash::FxHashMap;

use crate::fabric::Router;

/// Shortest paths over links that are up and nodes that forward: fewest hops, then least latency, then widest.
///
/// Several paths that are equally good are spread over destinations: walking back from the destination, the number of
/// the destination among the compute nodes, digit by digit, chooses among the equal predecessors (in link order). On a
/// fat tree that is destination routing. Parallel links of the same latency share a route in proportion to their
/// rates.
#[derive(Debug)]
pub struct ShortestPaths {
    topology: Arc<Topology>,
    /// Best bundle from each neighbour, by destination, in order of its first link.
    incoming: Vec<Vec<Bundle>>,
    /// (destination, index in `incoming` of the destination), by source.
    outgoing: Vec<Vec<(NodeId, u32)>>,
    /// Number of each node among the compute nodes; the node number for others.
    order: Vec<u32>,
    labels: Vec<OnceLock<Vec<Option<Label>>>>,
}

/// Parallel links of one latency.
#[derive(Clone, Debug)]
struct Bundle {
    src: NodeId,
    latency: u64,
    capacity: u64,
    links: Vec<LinkId>,
}

/// How good the best path to a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Label {
    hops: u32,
    latency: u64,
    width: u64,
}

impl Label {
    fn over(self, bundle: &Bundle) -> Self {
        Self {
            hops: self.hops + 1,
            latency: self.latency.saturating_add(bundle.latency),
            width: self.width.min(bundle.capacity),
        }
    }

    /// Whether it is better than another one of as many hops.
    fn beats(self, other: Self) -> bool {
        (self.latency, other.width) < (other.latency, self.width)
    }
}

impl ShortestPaths {
    /// A router over the topology as it is now.
    #[must_use]
    pub fn new(topology: Arc<Topology>) -> Self {
        let nodes = topology.nodes().len();
        let mut incoming: Vec<Vec<Bundle>> = vec![Vec::new(); nodes];
        let mut place: FxHashMap<(NodeId, NodeId), usize> = FxHashMap::default();
        for (index, link) in topology.links().iter().enumerate().filter(|(_, link)| link.up) {
            let latency = link.latency.femtoseconds();
            let capacity = link.capacity.bytes_per_second();
            let fresh = Bundle { src: link.src, latency, capacity, links: vec![LinkId::new(index)] };
            let bundles = &mut incoming[link.dst.index()];
            let at = *place.entry((link.src, link.dst)).or_insert(bundles.len());
            match bundles.get_mut(at) {
                None => bundles.push(fresh),
                Some(bundle) if latency < bundle.latency => *bundle = fresh,
                Some(bundle) if latency == bundle.latency => {
                    bundle.capacity = bundle.capacity.saturating_add(capacity);
                    bundle.links.push(LinkId::new(index));
                }
                Some(_) => {}
            }
        }
        let mut outgoing = vec![Vec::new(); nodes];
        for (dst, bundles) in incoming.iter().enumerate() {
            for (at, bundle) in bundles.iter().enumerate() {
                outgoing[bundle.src.index()].push((NodeId::new(dst), at as u32));
            }
        }
        let mut order: Vec<u32> = (0..nodes as u32).collect();
        for (number, node) in topology.compute_nodes().enumerate() {
            order[node.index()] = number as u32;
        }
        let labels = (0..nodes).map(|_| OnceLock::new()).collect();
        Self { topology, incoming, outgoing, order, labels }
    }

    /// Whether a path from `src` may go on from `node`.
    fn passes(&self, src: NodeId, node: NodeId) -> bool {
        node == src || self.topology.node(node).forwards
    }

    fn labels(&self, src: NodeId) -> &[Option<Label>] {
        self.labels[src.index()].get_or_init(|| {
            let mut labels: Vec<Option<Label>> = vec![None; self.incoming.len()];
            labels[src.index()] = Some(Label { hops: 0, latency: 0, width: u64::MAX });
            let mut layer = vec![src];
            while !layer.is_empty() {
                let mut next = Vec::new();
                for &node in layer.iter().filter(|&&node| self.passes(src, node)) {
                    let Some(here) = labels[node.index()] else { continue };
                    for &(dst, at) in &self.outgoing[node.index()] {
                        let there = here.over(&self.incoming[dst.index()][at as usize]);
                        let label = &mut labels[dst.index()];
                        match label {
                            None => {
                                *label = Some(there);
                                next.push(dst);
                            }
                            Some(known) if known.hops == there.hops && there.beats(*known) => *label = Some(there),
                            Some(_) => {}
                        }
                    }
                }
                layer = next;
            }
            labels
        })
    }
}

impl Router for ShortestPaths {
    fn route(&self, src: NodeId, dst: NodeId) -> Option<Route> {
        let nodes = self.incoming.len();
        if src == dst || nodes <= src.index().max(dst.index()) {
            return None;
        }
        let labels = self.labels(src);
        labels[dst.index()]?;
        let (mut at, mut digits, mut bundles) = (dst, self.order[dst.index()] as usize, Vec::new());
        while at != src {
            let best = labels[at.index()]?;
            let leads = |bundle: &&Bundle| {
                self.passes(src, bundle.src) && labels[bundle.src.index()].is_some_and(|l| l.over(bundle) == best)
            };
            let count = self.incoming[at.index()].iter().filter(leads).count();
            let bundle = self.incoming[at.index()].iter().filter(leads).nth(digits.checked_rem(count)?)?;
            digits /= count;
            bundles.push(bundle);
            at = bundle.src;
        }
        bundles.reverse();
        Some(spread(&self.topology, &bundles))
    }
}

/// The route over these bundles: each bundle's links share the data in proportion to their rates, in link order.
fn spread(topology: &Topology, bundles: &[&Bundle]) -> Route {
    if bundles.iter().all(|bundle| bundle.links.len() == 1) {
        return Route::single(bundles.iter().map(|bundle| Hop::Link(bundle.links[0])).collect());
    }
    let shares: Vec<Vec<Ratio<u64>>> = bundles.iter().map(|bundle| cumulative(topology, &bundle.links)).collect();
    let cuts: BTreeSet<Ratio<u64>> = shares.iter().flatten().copied().collect();
    let mut from = Ratio::from(0);
    let parts = cuts.into_iter().map(|until| {
        let link = |(bundle, shares): (&&Bundle, &Vec<Ratio<u64>>)| {
            Hop::Link(bundle.links[shares.partition_point(|share| *share < until)])
        };
        let hops = bundles.iter().zip(&shares).map(link).collect();
        RoutePart { weight: until - std::mem::replace(&mut from, until), hops }
    });
    Route { parts: parts.collect() }
}

/// Where each link's share of the data ends, as a part of 1. Rates whose ratios are too fine count as equal.
fn cumulative(topology: &Topology, links: &[LinkId]) -> Vec<Ratio<u64>> {
    const FINEST: u64 = 1 << 12;
    let rates: Vec<u64> = links.iter().map(|&link| topology.link(link).capacity.bytes_per_second()).collect();
    let common = rates.iter().fold(0_u64, |gcd, rate| gcd.gcd(rate)).max(1);
    let total = rates.iter().try_fold(0_u64, |sum, rate| sum.checked_add(rate / common));
    let (shares, total) = match total {
        Some(total) if total <= FINEST => (rates.iter().map(|rate| rate / common).collect(), total),
        _ => (vec![1; links.len()], links.len() as u64),
    };
    let mut sum = 0;
    let ends = shares.into_iter().map(|share| {
        sum += share;
        Ratio::new(sum, total)
    });
    ends.collect()
}

/// Keeps a structured router's routes as long as they can be used, and takes shortest paths elsewhere.
#[derive(Debug)]
pub struct Rerouting {
    inner: Arc<dyn Router>,
    topology: Arc<Topology>,
    detours: ShortestPaths,
}

impl Rerouting {
    /// Wraps a router that was made for the same nodes and links.
    #[must_use]
    pub fn new(inner: Arc<dyn Router>, topology: Arc<Topology>) -> Self {
        Self { inner, detours: ShortestPaths::new(topology.clone()), topology }
    }

    fn usable(&self, hops: &[Hop]) -> bool {
        hops.iter().enumerate().all(|(place, &hop)| match hop {
            Hop::Link(link) => {
                let link = self.topology.link(link);
                link.up && (place == 0 || self.topology.node(link.src).forwards)
            }
            Hop::Circuit(..) => true,
        })
    }
}

impl Router for Rerouting {
    fn route(&self, src: NodeId, dst: NodeId) -> Option<Route> {
        let Some(mut route) = self.inner.route(src, dst) else { return self.detours.route(src, dst) };
        let before = route.parts.len();
        route.parts.retain(|part| self.usable(&part.hops));
        if route.parts.len() == before {
            return Some(route);
        }
        // What is left of a split route carries all, if it still is as short as any.
        if let [part] = &mut route.parts[..] {
            part.weight = Ratio::from(1);
            return Some(route);
        }
        self.detours.route(src, dst)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rondo_ir::topology::{Node, TopologyBuilder};
    use rondo_ir::units::{Delay, Rate};

    use super::*;
    use crate::fabric::{Fabric, Shape};
    use crate::topology::testing::{check_routes, link};
    use crate::topology::torus::torus;

    fn general(builder: TopologyBuilder) -> Fabric {
        let topology = Arc::new(builder.finish().unwrap());
        Fabric::new(topology.clone(), Shape::General, Arc::new(ShortestPaths::new(topology)))
    }

    #[test]
    fn parallel_links_share_by_rate_and_cuts_are_refined() {
        let mut builder = TopologyBuilder::new("test");
        let [a, s, b] = [Node::compute("a"), Node::switch("s"), Node::compute("b")].map(|node| builder.node(node));
        let rate = |n: u64| Rate::new(n * 1_000_000_000).unwrap();
        for n in [25, 50] {
            builder.link(a, s, rate(n), Delay::ZERO);
        }
        for _ in 0..2 {
            builder.link(s, b, rate(10), Delay::ZERO);
        }
        // Wider but later: not taken.
        builder.link(a, s, rate(900), Delay::from_nanoseconds(1));
        let fabric = general(builder);
        let route = fabric.router.route(a, b).unwrap();
        let parts: Vec<_> = route.parts.iter().map(|part| (part.weight, part.hops.clone())).collect();
        let hops = |x: usize, y: usize| [x, y].map(|l| Hop::Link(LinkId::new(l))).to_vec();
        assert_eq!(
            parts,
            [(Ratio::new(1, 3), hops(0, 2)), (Ratio::new(1, 6), hops(1, 2)), (Ratio::new(1, 2), hops(1, 3))]
        );
        check_routes(&fabric);
    }

    #[test]
    fn latency_then_width_decide_between_paths_of_as_many_hops() {
        let mut builder = TopologyBuilder::new("test");
        let [a, b] = ["a", "b"].map(|name| builder.node(Node::compute(name)));
        let rate = |n| Rate::new(n).unwrap();
        for (n, (width, latency)) in [(9, 2), (5, 1), (7, 1)].into_iter().enumerate() {
            let via = builder.node(Node::switch(format!("s{n}")));
            builder.link(a, via, rate(width), Delay::from_nanoseconds(latency));
            builder.link(via, b, rate(100), Delay::ZERO);
        }
        let fabric = general(builder);
        assert_eq!(
            fabric.router.route(a, b).unwrap(),
            Route::single(vec![Hop::Link(LinkId::new(4)), Hop::Link(LinkId::new(5))])
        );
    }

    #[test]
    fn a_failed_link_is_routed_around_and_other_routes_stay() {
        let whole = torus(&[4, 4], link(1)).unwrap();
        let mut builder = whole.topology.to_builder();
        builder.links[0].up = false;
        let topology = Arc::new(builder.finish().unwrap());
        let router = Arc::new(Rerouting::new(whole.router.clone(), topology.clone()));
        let broken = Fabric { topology, router, ..whole.clone() };
        let (n0, n1, n5) = (NodeId::new(0), NodeId::new(1), NodeId::new(5));
        let detour = broken.router.route(n0, n1).unwrap();
        assert_eq!(detour.parts[0].hops.len(), 3);
        assert_eq!(broken.router.route(n1, n5), whole.router.route(n1, n5));
        check_routes(&broken);
    }

    proptest! {
        #[test]
        fn routes_on_any_graph_are_as_short_as_petgraphs(
            nodes in prop::collection::vec((any::<bool>(), any::<bool>()), 2..8),
            links in prop::collection::vec((0..8_usize, 0..8_usize, 1..4_u64, 0..3_u64, prop::bool::weighted(0.9)), 0..40),
        ) {
            let mut builder = TopologyBuilder::new("any");
            for (n, &(compute, forwards)) in nodes.iter().enumerate() {
                let node = if compute { Node::compute(format!("n{n}")) } else { Node::switch(format!("n{n}")) };
                builder.node(node.forwarding(forwards));
            }
            for (a, b, rate, latency, up) in links {
                let (a, b) = (a % nodes.len(), b % nodes.len());
                if a != b {
                    let id = builder.link(
                        NodeId::new(a), NodeId::new(b), Rate::new(rate).unwrap(), Delay::from_nanoseconds(latency));
                    builder.links[id.index()].up = up;
                }
            }
            check_routes(&general(builder));
        }
    }
}
