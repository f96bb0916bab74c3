//! Copying and adding in the network: multicast and aggregation trees.

use std::collections::{BTreeMap, BTreeSet};

use rondo_ir::collective::{CollectiveKind, Place};
use rondo_ir::index::{LinkId, NodeId};
use rondo_ir::schedule::{Flow, FlowOp, Path, PathKind, Paths, Schedule, Tree};
use rondo_ir::topology::Hop;

use crate::build::BuildError;
use crate::build::site::Site;
use crate::fabric::Shape;

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Copied from the root to all others.
    Out,
    /// Added from all others to the root.
    In,
}

/// Not reached.
const FAR: u32 = u32::MAX;

/// Trees that join a position with all others.
struct Trees<'a> {
    site: &'a Site<'a>,
    algorithm: &'static str,
    /// Node → (link, neighbour) that leave it and that reach it, over links that are up.
    around: [Vec<Vec<(Hop, NodeId)>>; 2],
}

impl<'a> Trees<'a> {
    fn new(site: &'a Site<'a>, algorithm: &'static str, ways: &[Way]) -> Result<Self, BuildError> {
        let topology = site.topology();
        for way in ways {
            let able = topology.nodes().iter().any(|node| match way {
                Way::Out => node.multicasts,
                Way::In => node.reduces,
            });
            if !able {
                let what = if *way == Way::Out { "copies (`multicasts`)" } else { "adds (`reduces`)" };
                return Err(BuildError::DoesNotFit { algorithm, reason: format!("no node of the topology {what}") });
            }
        }
        let mut around = [vec![Vec::new(); topology.nodes().len()], vec![Vec::new(); topology.nodes().len()]];
        for (index, link) in topology.links().iter().enumerate().filter(|(_, link)| link.up) {
            let hop = Hop::Link(LinkId::new(index));
            around[0][link.src.index()].push((hop, link.dst));
            around[1][link.dst.index()].push((hop, link.src));
        }
        Ok(Self { site, algorithm, around })
    }

    fn refuse<T>(&self, reason: String) -> Result<T, BuildError> {
        Err(BuildError::DoesNotFit { algorithm: self.algorithm, reason })
    }

    fn able(&self, node: NodeId, way: Way) -> bool {
        let node = self.site.topology().node(node);
        if way == Way::Out { node.multicasts } else { node.reduces }
    }

    /// A tree of shortest ways between a position and all others that shares links where it can.
    ///
    /// From the farthest nodes inwards, the node one closer that serves most of them is taken; among equally good ones the
    /// root's number decides, digit by digit, so that on a Clos the trees of all roots load links alike.
    fn shortest(&self, root: u32, way: Way) -> Result<Tree, BuildError> {
        let (site, topology) = (self.site, self.site.topology());
        let start = site.nodes[root as usize];
        let (away, back) = match way {
            Way::Out => (&self.around[0], &self.around[1]),
            Way::In => (&self.around[1], &self.around[0]),
        };
        let mut distance = vec![FAR; topology.nodes().len()];
        distance[start.index()] = 0;
        let mut layers: Vec<Vec<NodeId>> = vec![vec![start]];
        while let Some(layer) = layers.last().filter(|layer| !layer.is_empty()) {
            let mut next = Vec::new();
            for &node in layer.iter().filter(|&&node| node == start || topology.node(node).forwards) {
                for &(_, to) in &away[node.index()] {
                    if distance[to.index()] == FAR {
                        distance[to.index()] = distance[node.index()] + 1;
                        next.push(to);
                    }
                }
            }
            layers.push(next);
        }
        let others = (0..site.n).filter(|&p| p != root);
        let mut needed = vec![false; topology.nodes().len()];
        for position in others.clone() {
            let node = site.nodes[position as usize];
            if distance[node.index()] == FAR {
                let (src, dst) = if way == Way::Out { (root, position) } else { (position, root) };
                return Err(site.no_route(src, dst));
            }
            needed[node.index()] = true;
        }
        let mut digits = topology.compute_nodes().position(|node| node == start).unwrap_or(0);
        let mut hops = Vec::new();
        for layer in layers.iter().skip(1).rev() {
            let mut open: Vec<NodeId> = layer.iter().copied().filter(|node| needed[node.index()]).collect();
            open.sort_unstable();
            // Nodes that cannot branch and have been taken.
            let mut spent: BTreeSet<NodeId> = BTreeSet::new();
            let mut width = 1;
            while !open.is_empty() {
                let mut serves: BTreeMap<NodeId, usize> = BTreeMap::new();
                for &node in &open {
                    let near = back[node.index()].iter().map(|&(_, from)| from).filter(|from| {
                        distance[from.index()] != FAR
                            && distance[from.index()] + 1 == distance[node.index()]
                            && (*from == start || topology.node(*from).forwards)
                            && !spent.contains(from)
                    });
                    for from in near.collect::<BTreeSet<_>>() {
                        let sum = serves.entry(from).or_default();
                        *sum = if self.able(from, way) { *sum + 1 } else { 1 };
                    }
                }
                let best = serves.iter().map(|(&node, &sum)| (sum, needed[node.index()], node));
                let Some((most, known, _)) = best.clone().max() else {
                    return self.refuse("too few nodes can branch to reach all ranks by shortest ways".to_owned());
                };
                let best: Vec<NodeId> = best.filter(|best| (best.0, best.1) == (most, known)).map(|b| b.2).collect();
                width = width.max(best.len());
                let parent = best[digits % best.len()];
                needed[parent.index()] = true;
                let mut left = if self.able(parent, way) { usize::MAX } else { 1 };
                open.retain(|node| match back[node.index()].iter().find(|(_, from)| *from == parent) {
                    Some(&(hop, _)) if 0 < left => {
                        left -= 1;
                        hops.push(hop);
                        false
                    }
                    _ => true,
                });
                if left == 0 {
                    spent.insert(parent);
                }
            }
            digits /= width;
        }
        hops.sort_unstable();
        self.checked(Tree { hops, leaves: others.map(|p| site.ranks[p as usize]).collect() }, way)
    }

    /// The tree, if the nodes at which it branches can do that. A rank that keeps what it also passes on branches too.
    fn checked(&self, tree: Tree, way: Way) -> Result<Tree, BuildError> {
        let topology = self.site.topology();
        let mut count: BTreeMap<NodeId, usize> = BTreeMap::new();
        for &hop in &tree.hops {
            let (src, dst) = topology.ends(hop);
            *count.entry(if way == Way::Out { src } else { dst }).or_default() += 1;
        }
        for &leaf in &tree.leaves {
            *count.entry(self.site.nodes[self.site.position_of(leaf) as usize]).or_default() += 1;
        }
        match count.into_iter().find(|&(node, count)| 1 < count && !self.able(node, way)) {
            None => Ok(tree),
            Some((node, _)) => {
                let what = if way == Way::Out { "copy (`multicasts`)" } else { "add (`reduces`)" };
                self.refuse(format!("`{}` would have to {what} and cannot", topology.node(node).name))
            }
        }
    }

    /// Trees of a root, each for an equal part of its data: one, or on a torus one for each order of dimensions and way
    /// round, so that all directions carry alike.
    fn of(&self, root: u32, way: Way) -> Result<Vec<Tree>, BuildError> {
        match self.site.shape() {
            Shape::Torus { sides } => match self.site.full_order() {
                Some(at) => {
                    let used: Vec<usize> = (0..sides.len()).filter(|&d| 1 < sides[d]).collect();
                    let ways: &[bool] = if sides.iter().any(|side| side % 2 == 0) { &[true, false] } else { &[true] };
                    let parts = ways.iter().flat_map(|&up| (0..used.len()).map(move |first| (up, first)));
                    parts
                        .map(|(up, first)| {
                            let order: Vec<usize> = (0..used.len()).map(|i| used[(first + i) % used.len()]).collect();
                            self.checked(self.dimension_wise(root, way, sides, &at, &order, up)?, way)
                        })
                        .collect()
                }
                _ => Ok(vec![self.shortest(root, way)?]),
            },
            _ => Ok(vec![self.shortest(root, way)?]),
        }
    }

    /// From the root along the first dimension both ways, from each node there along the second, and so on; `up` is the
    /// way that reaches antipodes.
    fn dimension_wise(
        &self,
        root: u32,
        way: Way,
        sides: &[u32],
        at: &[u32],
        order: &[usize],
        up: bool,
    ) -> Result<Tree, BuildError> {
        let site = self.site;
        let stride = |d: usize| sides[..d].iter().product::<u32>();
        let start = (0..).zip(at).find(|&(_, &position)| position == root).map_or(0, |(index, _)| index);
        let mut reached = vec![start];
        let mut hops = Vec::new();
        for &d in order {
            let (side, stride) = (sides[d], stride(d));
            let mut more = Vec::new();
            for &from in &reached {
                for plus in [true, false] {
                    let steps = if plus == up { side / 2 } else { (side - 1) / 2 };
                    let mut index = from;
                    for _ in 0..steps {
                        let x = index / stride % side;
                        let to = if plus { (x + 1) % side } else { (x + side - 1) % side };
                        let next = index - x * stride + to * stride;
                        let ends = [index, next].map(|index| site.nodes[at[index as usize] as usize]);
                        let (src, dst) = if way == Way::Out { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
                        let mut links = self.around[0][src.index()].iter().filter(|(_, to)| *to == dst);
                        // Of two parallel links the second one is for the way down.
                        let link = match (links.next(), links.next()) {
                            (Some(_), Some(second)) if side == 2 && !plus => Some(second),
                            (first, _) => first,
                        };
                        let Some(&(hop, _)) = link else {
                            let [src, dst] = [src, dst].map(|node| &site.topology().node(node).name);
                            return self.refuse(format!("the link from `{src}` to `{dst}` is missing or down"));
                        };
                        hops.push(hop);
                        more.push(next);
                        index = next;
                    }
                }
            }
            reached.extend(more);
        }
        hops.sort_unstable();
        let leaves = (0..site.n).filter(|&p| p != root).map(|p| site.ranks[p as usize]).collect();
        Ok(Tree { hops, leaves })
    }
}

/// The flow from the root to all leaves, or from all leaves to the root.
fn flow(site: &Site, root: u32, way: Way, places: (Place, Place), count: u32, op: FlowOp, tree: PathKind) -> Flow {
    let other = u32::from(root == 0);
    let (src, dst) = if way == Way::Out { (root, other) } else { (other, root) };
    site.flow((src, places.0), (dst, places.1), count, op, Path::new(tree))
}

/// Trees of all positions that need one, interned.
fn intern(
    site: &Site,
    algorithm: &'static str,
    way: Way,
    roots: &[u32],
    paths: &mut Paths,
) -> Result<Vec<Vec<PathKind>>, BuildError> {
    use rayon::prelude::*;
    let trees = Trees::new(site, algorithm, &[way])?;
    let found: Result<Vec<Vec<Tree>>, BuildError> = roots.par_iter().map(|&root| trees.of(root, way)).collect();
    let kind = |id| if way == Way::Out { PathKind::Multicast(id) } else { PathKind::Aggregate(id) };
    Ok(found?.into_iter().map(|trees| trees.into_iter().map(|tree| kind(paths.intern_tree(tree))).collect()).collect())
}

/// One step: what a rank has goes to all others along trees at whose branches the network copies it.
///
/// all_gather of blocks b: α_s + h·α_p + (n−1)·b·β on a Clos, as `direct`, but with N + k²/2 + k link transmissions a
/// sender instead of one for each hop of each receiver; on a torus, cut in parts for all 2k directions, D·α_p +
/// (n−1)/(2k)·b·β in one step. broadcast: α_s + h·α_p + m·β.
///
/// # Source
/// Section 8 and Appendix C of the topology paper.
pub(crate) fn multicast(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "multicast";
    let roots: Vec<u32> = match site.kind() {
        CollectiveKind::Broadcast { root } => vec![*root],
        _ => (0..site.n).collect(),
    };
    let mut paths = Paths::default();
    let trees = intern(site, NAME, Way::Out, &roots, &mut paths)?;
    let parts = u32::try_from(trees[0].len()).unwrap_or(u32::MAX);
    let width = site.cx.chunks;
    let k = parts.checked_mul(width).ok_or(BuildError::TooManyChunks { given: width })?;
    site.layout(k)?;
    let gathers = matches!(site.kind(), CollectiveKind::AllGather);
    let base = |root: u32| if gathers { root * k } else { 0 };
    let mut local = Vec::new();
    let mut flows = Vec::new();
    for (&root, trees) in roots.iter().zip(&trees) {
        if !site.collective.in_place() {
            local.push(site.local(root, Place::input(0), Place::output(base(root)), k, FlowOp::Copy));
        }
        for (part, &tree) in (0..).zip(trees) {
            let place = Place::output(base(root) + part * width);
            let from = if site.collective.in_place() { place } else { Place::input(part * width) };
            flows.push(flow(site, root, Way::Out, (from, place), width, FlowOp::Copy, tree));
        }
    }
    // Both read the input only, so the own copy is made while the others travel.
    local.extend(flows);
    Ok(site.schedule(NAME, k, Vec::new(), paths, vec![local]))
}

pub(crate) fn multicast_flows(site: &Site) -> u64 {
    let parts = match site.shape() {
        Shape::Torus { sides } => 2 * sides.len() as u64,
        _ => 1,
    };
    u64::from(site.n) * (parts + 1)
}

/// Sums that the network makes: one step for reduce and reduce_scatter; all_reduce is a pipelined reduce_scatter of
/// aggregations and all_gather of multicasts.
///
/// On a switch: reduce α_s + h·α_p + m·β; reduce_scatter α_s + h·α_p + (n−1)/n·m·β; all_reduce in c chunks
/// (c+1)(α_s + h·α_p) + (c+1)/c·m·β, against 2(n−1)/n·m·β without: half, for many chunks.
///
/// # Source
/// In-network reduction of NVLink switches and of SHARP (Graham et al. 2016).
pub(crate) fn aggregate(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "in-network";
    let n = site.n;
    let in_place = site.collective.in_place();
    let mut paths = Paths::default();
    let roots: Vec<u32> = match site.kind() {
        CollectiveKind::Reduce { root } => vec![*root],
        _ => (0..n).collect(),
    };
    let sums = intern(site, NAME, Way::In, &roots, &mut paths)?;
    let parts = u32::try_from(sums[0].len()).unwrap_or(u32::MAX);
    let chunks = site.cx.chunks;
    let too_many = || BuildError::TooManyChunks { given: chunks };
    let (mut local, mut rows): (Vec<Flow>, Vec<Vec<Flow>>) = (Vec::new(), Vec::new());
    let k;
    match site.kind() {
        CollectiveKind::AllReduce => {
            let copies = intern(site, NAME, Way::Out, &roots, &mut paths)?;
            // Slots: chunk, root, part.
            k = parts.checked_mul(n).and_then(|k| k.checked_mul(chunks)).ok_or_else(too_many)?;
            site.layout(k)?;
            if !in_place {
                local.extend((0..n).map(|p| site.local(p, Place::input(0), Place::output(0), k, FlowOp::Copy)));
            }
            for step in 0..=chunks {
                let mut flows = Vec::new();
                for root in 0..n {
                    let slot = |chunk: u32, part: u32| (chunk * n + root) * parts + part;
                    for part in (0..parts).filter(|_| step < chunks) {
                        let slot = slot(step, part);
                        let from = if in_place { Place::output(slot) } else { Place::input(slot) };
                        let tree = sums[root as usize][part as usize];
                        flows.push(flow(site, root, Way::In, (from, Place::output(slot)), 1, FlowOp::Reduce, tree));
                    }
                    for part in (0..parts).filter(|_| 0 < step) {
                        let place = Place::output(slot(step - 1, part));
                        let tree = copies[root as usize][part as usize];
                        flows.push(flow(site, root, Way::Out, (place, place), 1, FlowOp::Copy, tree));
                    }
                }
                rows.push(flows);
            }
        }
        kind => {
            k = parts.checked_mul(chunks).ok_or_else(too_many)?;
            site.layout(k)?;
            let scatters = matches!(kind, CollectiveKind::ReduceScatter);
            let mut flows = Vec::new();
            for (&root, trees) in roots.iter().zip(&sums) {
                let base = if scatters { root * k } else { 0 };
                let own = if scatters && in_place { Place::input(base) } else { Place::output(0) };
                if !in_place {
                    local.push(site.local(root, Place::input(base), own, k, FlowOp::Copy));
                }
                for (part, &tree) in (0..).zip(trees) {
                    let at = part * chunks;
                    let places = (Place::input(base).offset(at), own.offset(at));
                    flows.push(flow(site, root, Way::In, places, chunks, FlowOp::Reduce, tree));
                }
            }
            rows.push(flows);
        }
    }
    rows.insert(0, local);
    Ok(site.schedule(NAME, k, Vec::new(), paths, rows))
}

pub(crate) fn aggregate_flows(site: &Site) -> u64 {
    let each = multicast_flows(site);
    match site.kind() {
        CollectiveKind::AllReduce => 2 * each * u64::from(site.cx.chunks + 1),
        _ => each,
    }
}
