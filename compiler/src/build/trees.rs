//! Trees: chain, binomial tree, double binary tree and breadth-first tree, pipelined over chunks.
//!
//! Every edge of a tree has a time: chunk i crosses it in step i + time. A broadcast goes down, a reduce is a broadcast run
//! backwards, an all_reduce goes up and then, chunk by chunk as the root has them, down.

use rondo_ir::collective::CollectiveKind;
use rondo_ir::schedule::{Flow, FlowOp, Paths, Schedule};

use crate::build::BuildError;
use crate::build::relay::{Ways, distances};
use crate::build::ring;
use crate::build::site::{Lane, RouteTable, Site, Touched, Vector};

/// An edge down a tree and the step in which the first chunk crosses it.
#[derive(Clone, Copy, Debug)]
struct Edge {
    parent: u32,
    child: u32,
    time: u32,
}

/// Edges in any order; a child's edges have later times than the one that leads to it.
type Tree = Vec<Edge>;

/// The root that the collective names.
fn root(site: &Site) -> Option<u32> {
    site.kind().root()
}

/// Builds from trees, each of which carries an equal part of the vector. `up` serves the way to the root, `down` that
/// from it.
fn build(site: &Site, name: &'static str, up: &[Tree], down: &[Tree]) -> Result<Schedule, BuildError> {
    let each = site.cx.chunks;
    let count = u32::try_from(up.len().max(down.len())).unwrap_or(u32::MAX);
    let chunks = each.checked_mul(count).ok_or(BuildError::TooManyChunks { given: each })?;
    site.layout(chunks)?;
    let goes_up = matches!(site.kind(), CollectiveKind::AllReduce | CollectiveKind::Reduce { .. });
    let goes_down = matches!(site.kind(), CollectiveKind::AllReduce | CollectiveKind::Broadcast { .. });
    let (up, down) = (if goes_up { up } else { &[] }, if goes_down { down } else { &[] });
    let mut paths = Paths::default();
    let pairs = up.iter().flatten().map(|edge| (edge.child, edge.parent, Lane::Any));
    let pairs = pairs.chain(down.iter().flatten().map(|edge| (edge.parent, edge.child, Lane::Any))).collect();
    let routes = RouteTable::new(site, &mut paths, pairs)?;
    let touched = (goes_up && !site.collective.in_place()).then(|| {
        let mut touched = Touched::new(site.n, chunks);
        for (tree, edges) in (0..).zip(up) {
            edges.iter().for_each(|edge| touched.set(edge.parent, tree * each, each));
        }
        touched
    });
    let vector = Vector::new(site, chunks, touched);
    let (setup, scratch) = vector.setup(site);
    let length = |trees: &[Tree]| trees.iter().flatten().map(|edge| edge.time + 1).max().unwrap_or(0);
    let (high, low) = (length(up), length(down));
    let steps = if each == 0 { 0 } else { high + low + each - 1 };
    let mut rows: Vec<Vec<Flow>> = vec![Vec::new(); steps as usize];
    for (tree, edges) in (0..).zip(up) {
        for edge in edges {
            let path = routes.path(edge.child, edge.parent, Lane::Any);
            for chunk in 0..each {
                let row = &mut rows[(chunk + high - 1 - edge.time) as usize];
                vector.transfer(site, edge.child, edge.parent, (tree * each + chunk, 1), FlowOp::Reduce, path, row);
            }
        }
    }
    for (tree, edges) in (0..).zip(down) {
        for edge in edges {
            let path = routes.path(edge.parent, edge.child, Lane::Any);
            for chunk in 0..each {
                let row = &mut rows[(high + chunk + edge.time) as usize];
                vector.transfer(site, edge.parent, edge.child, (tree * each + chunk, 1), FlowOp::Copy, path, row);
            }
        }
    }
    rows.insert(0, setup);
    Ok(site.schedule(name, chunks, scratch, paths, rows))
}

pub(crate) fn flows(site: &Site) -> u64 {
    let ways = if matches!(site.kind(), CollectiveKind::AllReduce) { 2 } else { 1 };
    u64::from(site.n) * u64::from(site.cx.chunks) * ways
}

/// Who is next to whom, and how far all are from each other, is found first: work and memory of about n²/4 flows.
pub(crate) fn breadth_first_flows(site: &Site) -> u64 {
    let n = u64::from(site.n);
    flows(site).max(n * n / 4)
}

pub(crate) fn double_flows(site: &Site) -> u64 {
    2 * flows(site)
}

/// A pipelined chain along a good ring order.
///
/// Broadcast and reduce with k chunks: (n−2+k)·(α_s + h·α_p + m/k·β). all_reduce goes round twice:
/// (2n−3+k) steps.
pub(crate) fn chain(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "chain";
    let order = ring::order(site, NAME)?;
    let n = order.len();
    let start = match root(site) {
        Some(root) => order.iter().position(|&p| p == root).unwrap_or(0),
        None => n - 1,
    };
    // Both ways run along the order, so that a one-way ring will do.
    let edges = |node: &dyn Fn(usize) -> u32| -> Tree {
        (1..n).zip(0..).map(|(index, time)| Edge { parent: node(index - 1), child: node(index), time }).collect()
    };
    let down = edges(&|index| order[(start + index) % n]);
    let up = edges(&|index| order[(start + n - index) % n]);
    build(site, NAME, &[up], &[down])
}

/// A binomial tree: in round r every holder sends to the rank 2^{L−1−r} further, farthest first.
///
/// Without pipelining ⌈log₂ n⌉·(α_s + h·α_p + m·β). With k chunks round r of chunk i is step i + r, which pays where the
/// rounds use different links (hypercube).
pub(crate) fn binomial(site: &Site) -> Result<Schedule, BuildError> {
    let n = site.n;
    let root = root(site).unwrap_or(0);
    let rounds = n.next_power_of_two().trailing_zeros();
    // Relative numbers; a power of two is turned by ⊕, which keeps pairs on the links of a hypercube.
    let rank = |v: u32| if n.is_power_of_two() { v ^ root } else { (v + root) % n };
    let edges =
        (1..n).map(|v| Edge { parent: rank(v & (v - 1)), child: rank(v), time: rounds - 1 - v.trailing_zeros() });
    let tree: Tree = edges.collect();
    build(site, "binomial-tree", std::slice::from_ref(&tree), std::slice::from_ref(&tree))
}

/// Two binary trees, each for half of the data; whoever is inside one tree is a leaf of the other, so no rank sends much more than
/// the whole vector.
///
/// With k chunks a tree, broadcast takes about (k + log₂ n)·(α_s + h·α_p + m/k·β).
///
/// # Source
/// Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009.
pub(crate) fn double(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "double-binary-tree";
    let (members, top) = match root(site) {
        // The root stands above both trees of the others.
        Some(root) => ((1..site.n).map(|v| (v + root) % site.n).collect::<Vec<u32>>(), Some(root)),
        None => ((0..site.n).collect(), None),
    };
    let count = members.len();
    let trees: Vec<Tree> = [0, 1]
        .into_iter()
        .map(|shift| {
            let member = |v: usize| members[(v + shift) % count];
            let mut edges = Vec::with_capacity(count);
            let above = top.map(|root| (root, 0));
            in_order(0, count, above, &member, &mut edges);
            edges
        })
        .collect();
    build(site, NAME, &trees, &trees)
}

/// The in-order binary tree over members first … first + count: leaves at even offsets. `above` is the parent of its root
/// and the time of the edge to it.
fn in_order(first: usize, count: usize, above: Option<(u32, u32)>, member: &dyn Fn(usize) -> u32, edges: &mut Tree) {
    if count == 0 {
        return;
    }
    let left = (1 << count.ilog2()) - 1;
    let node = member(first + left);
    let time = above.map_or(0, |(_, time)| time + 1);
    if let Some((parent, time)) = above {
        edges.push(Edge { parent, child: node, time });
    }
    in_order(first, left, Some((node, time)), member, edges);
    in_order(first + left + 1, count - left - 1, Some((node, time)), member, edges);
}

/// A breadth-first tree over neighbouring ranks: as few steps as the topology allows without relaying nodes.
///
/// all_reduce roots it at the rank whose farthest rank is nearest.
pub(crate) fn breadth_first(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "bfs-tree";
    let ways = Ways::new(site);
    let root = match root(site) {
        Some(root) => root,
        None => {
            let height = |p: &u32| distances(&ways.next, *p).into_iter().max();
            (0..site.n).min_by_key(height).unwrap_or(0)
        }
    };
    let tree = |next: &[Vec<u32>], before: &[Vec<u32>]| -> Result<Tree, BuildError> {
        let depth = distances(next, root);
        let mut children = vec![0_u32; site.n as usize];
        let mut edges = Tree::new();
        for child in (0..site.n).filter(|&p| p != root) {
            let nearer = before[child as usize]
                .iter()
                .filter(|&&p| depth[p as usize].checked_add(1) == Some(depth[child as usize]));
            let Some(&parent) = nearer.min_by_key(|&&p| (children[p as usize], p)) else {
                return Err(BuildError::Disconnected {
                    src: site.node_name(root).to_owned(),
                    dst: site.node_name(child).to_owned(),
                });
            };
            children[parent as usize] += 1;
            edges.push(Edge { parent, child, time: depth[child as usize] - 1 });
        }
        Ok(edges)
    };
    let down = tree(&ways.next, &ways.before)?;
    let up = tree(&ways.before, &ways.next)?;
    build(site, NAME, &[up], &[down])
}
