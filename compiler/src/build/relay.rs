//! Passing on through other ranks, where not every pair has a route: any connected topology will do.

use std::collections::{BTreeMap, VecDeque};

use rondo_ir::collective::CollectiveKind;
use rondo_ir::schedule::Schedule;

use crate::build::BuildError;
use crate::build::deliver::{custom, deliver};
use crate::build::direct::demands;
use crate::build::gather;
use crate::build::site::{Lane, Site};
use crate::build::spread::{Half, Hand, Pattern};

/// Which ranks are next to each other: joined without passing another rank of the group.
pub(crate) struct Ways {
    /// Position → positions that it can send to.
    pub next: Vec<Vec<u32>>,
    /// Position → positions that can send to it.
    pub before: Vec<Vec<u32>>,
    /// Destination → hops from each position, once asked for.
    distances: Vec<Vec<u32>>,
}

/// Not reachable.
const FAR: u32 = u32::MAX;

impl Ways {
    pub fn new(site: &Site) -> Self {
        let (next, before) = Self::neighbours(site);
        let distances = (0..site.n).map(|to| distances(&before, to)).collect();
        Self { next, before, distances }
    }

    /// Per position: positions that it can send to, and that can send to it.
    fn neighbours(site: &Site) -> (Vec<Vec<u32>>, Vec<Vec<u32>>) {
        let topology = site.topology();
        let mut next = vec![Vec::new(); site.n as usize];
        let mut before = vec![Vec::new(); site.n as usize];
        let mut seen = vec![u32::MAX; topology.nodes().len()];
        for position in 0..site.n {
            let mut queue = VecDeque::from([site.nodes[position as usize]]);
            seen[site.nodes[position as usize].index()] = position;
            while let Some(node) = queue.pop_front() {
                for &link in topology.links_from(node) {
                    let to = topology.link(link).dst;
                    if !topology.link(link).up || seen[to.index()] == position {
                        continue;
                    }
                    seen[to.index()] = position;
                    match site.position_on(to) {
                        Some(other) => next[position as usize].push(other),
                        None if topology.node(to).forwards => queue.push_back(to),
                        None => {}
                    }
                }
            }
            if !topology.devices().is_empty() {
                // Circuits are the router's business.
                let reached = (0..site.n).filter(|&q| q != position && !next[position as usize].contains(&q));
                let more: Vec<u32> = reached.filter(|&q| site.find_route(position, q, Lane::Any).is_some()).collect();
                next[position as usize].extend(more);
            }
            next[position as usize].sort_unstable();
            for &other in &next[position as usize] {
                before[other as usize].push(position);
            }
        }
        (next, before)
    }

    /// A shortest chain of positions; among equally short ones it takes the pairs that were taken least so far.
    pub fn path(
        &self,
        site: &Site,
        src: u32,
        dst: u32,
        taken: &mut BTreeMap<(u32, u32), u32>,
    ) -> Result<Vec<u32>, BuildError> {
        let left = &self.distances[dst as usize];
        if left[src as usize] == FAR {
            return Err(disconnected(site, src, dst));
        }
        let mut chain = vec![src];
        let mut at = src;
        while at != dst {
            let closer = self.next[at as usize].iter().filter(|&&q| left[q as usize] + 1 == left[at as usize]);
            let Some(&to) = closer.min_by_key(|&&q| (taken.get(&(at, q)).copied().unwrap_or(0), q)) else {
                return Err(disconnected(site, src, dst));
            };
            *taken.entry((at, to)).or_default() += 1;
            chain.push(to);
            at = to;
        }
        Ok(chain)
    }
}

fn disconnected(site: &Site, src: u32, dst: u32) -> BuildError {
    BuildError::Disconnected { src: site.node_name(src).to_owned(), dst: site.node_name(dst).to_owned() }
}

/// Hops to `root` when a step goes from a position to one of those that list it.
pub(crate) fn distances(towards: &[Vec<u32>], root: u32) -> Vec<u32> {
    let mut distance = vec![FAR; towards.len()];
    distance[root as usize] = 0;
    let mut queue = VecDeque::from([root]);
    while let Some(at) = queue.pop_front() {
        for &from in &towards[at as usize] {
            if distance[from as usize] == FAR {
                distance[from as usize] = distance[at as usize] + 1;
                queue.push_back(from);
            }
        }
    }
    distance
}

/// Each origin's data floods along a breadth-first tree of its own; a rank that could get it from several takes the
/// pair that is used least in that step.
pub(crate) struct Flood {
    steps: Vec<Vec<Hand>>,
    by_label: Vec<u32>,
}

impl Flood {
    /// The pattern over a neighbour relation: `next[p]` is where p hands to.
    fn new(site: &Site, next: &[Vec<u32>], before: &[Vec<u32>]) -> Result<Self, BuildError> {
        let mut steps: Vec<Vec<Hand>> = Vec::new();
        let mut used: BTreeMap<(u32, u32, u32), u32> = BTreeMap::new();
        for origin in 0..site.n {
            let depth = distances(next, origin);
            for dst in (0..site.n).filter(|&p| p != origin) {
                let at = depth[dst as usize];
                if at == FAR {
                    return Err(disconnected(site, origin, dst));
                }
                let nearer = before[dst as usize].iter().filter(|&&p| depth[p as usize] + 1 == at);
                let Some(&src) = nearer.min_by_key(|&&p| (used.get(&(at, p, dst)).copied().unwrap_or(0), p)) else {
                    return Err(disconnected(site, origin, dst));
                };
                *used.entry((at, src, dst)).or_default() += 1;
                let step = at as usize - 1;
                if steps.len() <= step {
                    steps.resize(step + 1, Vec::new());
                }
                steps[step].push(Hand { src, dst, first: origin, len: 1, half: Half::Whole, lane: Lane::Any });
            }
        }
        Ok(Self { steps, by_label: (0..site.n).collect() })
    }
}

impl Pattern for Flood {
    fn steps(&self) -> u32 {
        u32::try_from(self.steps.len()).unwrap_or(u32::MAX)
    }

    fn visit(&self, step: u32, emit: &mut dyn FnMut(Hand)) {
        self.steps[step as usize].iter().for_each(|&hand| emit(hand));
    }

    fn by_label(&self) -> &[u32] {
        &self.by_label
    }
}

/// Store and forward over shortest chains of ranks.
///
/// As many steps as the farthest pair of ranks is apart (twice for all_reduce). The last resort: works wherever the ranks are
/// connected, optimal nowhere in particular.
pub(crate) fn build(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "relay";
    match site.kind() {
        CollectiveKind::AllReduce | CollectiveKind::AllGather | CollectiveKind::ReduceScatter => {
            let ways = Ways::new(site);
            let spread = Flood::new(site, &ways.next, &ways.before)?;
            let collect = Flood::new(site, &ways.before, &ways.next)?;
            gather::build(site, NAME, &[spread], &[collect])
        }
        CollectiveKind::Custom(spec) => custom(site, NAME, spec, true),
        _ => deliver(site, NAME, &demands(site)?, true),
    }
}

pub(crate) fn flows(site: &Site) -> u64 {
    let n = u64::from(site.n);
    // Distances between all pairs of ranks are found first, which is as much work as writing that many flows down.
    let hops = || {
        let far = distances(&Ways::neighbours(site).0, 0);
        far.into_iter().filter(|&hops| hops != FAR).map(u64::from).sum::<u64>().max(1)
    };
    match site.kind() {
        CollectiveKind::AllReduce => 2 * n * n,
        // Each pair takes a hop or more: above that many, nobody needs to know how many more.
        CollectiveKind::AllToAll { .. } if n < 1 << 14 => n * hops(),
        _ => n * n,
    }
}
