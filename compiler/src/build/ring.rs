//! Rings: the order of the ranks, and the algorithms that go round it.

use num_rational::Ratio;
use rondo_ir::schedule::Schedule;

use crate::build::BuildError;
use crate::build::gather;
use crate::build::site::{Lane, Site};
use crate::build::spread::{Base, Spread};
use crate::fabric::Shape;

/// One way round.
///
/// # Source
/// Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009; Eq. 5 of the
/// Shortcut paper: (n−1)(α_s + α_p) + (n−1)/n·m·β a phase, plus (n−1)/n·m·γ where it reduces.
pub(crate) fn one_way(site: &Site) -> Result<Schedule, BuildError> {
    let order = order(site, "ring")?;
    let collect = [Spread::line(order.clone(), Base::RingDown)];
    gather::build(site, "ring", &[Spread::line(order, Base::Ring)], &collect)
}

pub(crate) fn one_way_flows(site: &Site) -> u64 {
    let order = (0..site.n).collect();
    gather::flow_estimate(site, &[Spread::line(order, Base::Ring)])
}

/// Both ways round: each block travels ⌊n/2⌋ hops each way, and for even n the last hop brings half from each side.
///
/// Cost of a phase: ⌊n/2⌋(α_s + α_p) + (n−1)/(2n)·m·β on a two-way ring, which is the bandwidth bound.
pub(crate) fn two_way(site: &Site) -> Result<Schedule, BuildError> {
    let order = order(site, "ring-two-way")?;
    let spread = [Spread::line(order, Base::TwoWay)];
    gather::build(site, "ring-two-way", &spread, &spread)
}

pub(crate) fn two_way_flows(site: &Site) -> u64 {
    let order = (0..site.n).collect();
    gather::flow_estimate(site, &[Spread::line(order, Base::TwoWay)])
}

/// Positions in the order of a good ring: the one of the candidate orders whose hand-over to the next rank loads the
/// busiest resource least, then has the fewest hops; ties go to the earlier candidate.
///
/// Candidates: the order given, the order of nodes, for tori, grids and hypercubes the reflected (Gray) order, where there
/// are circuits the clockwise one, and up
/// to 64 ranks a cycle found by search over the widest routes.
pub(crate) fn order(site: &Site, algorithm: &'static str) -> Result<Vec<u32>, BuildError> {
    let natural: Vec<u32> = (0..site.n).collect();
    let mut by_node = natural.clone();
    by_node.sort_by_key(|&position| site.nodes[position as usize]);
    let mut best = None;
    let mut failed = None;
    let mut consider = |order: Vec<u32>| match price(site, &order) {
        Ok(price) if best.as_ref().is_none_or(|(known, _)| price < *known) => best = Some((price, order)),
        Ok(_) => {}
        Err(error) => {
            failed.get_or_insert(error);
        }
    };
    consider(natural.clone());
    if by_node != natural {
        consider(by_node);
    }
    if let Some(gray) = reflected(site) {
        consider(gray);
    }
    if let Some(orientation) = &site.cx.fabric.orientation {
        let mut clockwise = natural.clone();
        clockwise.sort_by_key(|&position| orientation.position[site.nodes[position as usize].index()]);
        consider(clockwise);
    }
    let ideal = best.as_ref().is_some_and(|((_, hops), _)| *hops == 1);
    if !ideal
        && !matches!(site.shape(), Shape::Switch | Shape::Clos { .. })
        && site.n <= 64
        && let Some(found) = search(site)
    {
        match price(site, &found) {
            Ok(price) if best.as_ref().is_none_or(|(known, _)| price < *known) => best = Some((price, found)),
            _ => {}
        }
    }
    match (best, failed) {
        (Some((_, order)), _) => Ok(order),
        (None, Some(BuildError::NoRoute { src, dst })) => Err(BuildError::DoesNotFit {
            algorithm,
            reason: format!("no cycle of ranks was found; in their order, no route leads from `{src}` to `{dst}`"),
        }),
        (None, Some(error)) => Err(error),
        (None, None) => Err(BuildError::DoesNotFit { algorithm, reason: "there is no rank".to_owned() }),
    }
}

/// Load of the busiest resource when each rank sends one byte to the next, as (bytes · s/B, most hops).
fn price(site: &Site, order: &[u32]) -> Result<(Ratio<u128>, usize), BuildError> {
    let topology = site.topology();
    let mut load: Vec<Ratio<u128>> = vec![Ratio::new_raw(0, 1); topology.resources().len()];
    let mut hops = 0;
    for (index, &src) in order.iter().enumerate() {
        let dst = order[(index + 1) % order.len()];
        let route = site.find_route(src, dst, Lane::Any).ok_or_else(|| site.no_route(src, dst))?;
        for part in &route.parts {
            hops = hops.max(part.hops.len());
            let weight = Ratio::new(u128::from(*part.weight.numer()), u128::from(*part.weight.denom()));
            topology.path_resources(&part.hops, |resource| load[resource] += weight);
        }
    }
    let busiest = topology
        .resources()
        .iter()
        .zip(load)
        .map(|(&resource, load)| load / u128::from(topology.rate(resource).bytes_per_second()));
    Ok((busiest.max().unwrap_or(Ratio::new_raw(0, 1)), hops))
}

/// The reflected order over the sides of a torus, grid or hypercube: neighbours differ by one in one coordinate.
fn reflected(site: &Site) -> Option<Vec<u32>> {
    let sides = match site.shape() {
        Shape::Torus { sides } | Shape::Grid { sides } | Shape::Optical { sides } => sides.clone(),
        Shape::Hypercube { dimensions } => vec![2; *dimensions as usize],
        _ => return None,
    };
    let at = site.full_order()?;
    // An even side last closes the cycle.
    let mut dimensions: Vec<usize> = (0..sides.len()).collect();
    dimensions.sort_by_key(|&d| sides[d] % 2 == 0);
    let n: u32 = sides.iter().product();
    if n as usize != at.len() {
        return None;
    }
    let order = (0..n).map(|step| {
        let mut rest = step;
        let mut index = 0;
        for &d in &dimensions {
            let side = sides[d];
            let (digit, above) = (rest % side, rest / side);
            let stride: u32 = sides[..d].iter().product();
            index += stride * if above % 2 == 0 { digit } else { side - 1 - digit };
            rest = above;
        }
        at[index as usize]
    });
    Some(order.collect())
}

/// A Hamiltonian cycle over the widest routes that allow one, within a fixed number of tries a width.
fn search(site: &Site) -> Option<Vec<u32>> {
    const TRIES: u32 = 50_000;
    let n = site.n as usize;
    let topology = site.topology();
    // Per ordered pair: time per byte of its route alone, and hops.
    let mut ways: Vec<Vec<Option<(Ratio<u128>, usize)>>> = vec![vec![None; n]; n];
    for (i, row) in ways.iter_mut().enumerate() {
        for (j, way) in row.iter_mut().enumerate().filter(|&(j, _)| j != i) {
            let (src, dst) = (u32::try_from(i).ok()?, u32::try_from(j).ok()?);
            *way = site.find_route(src, dst, Lane::Any).map(|route| {
                let mut slowest = Ratio::new_raw(0, 1);
                for part in &route.parts {
                    let weight = Ratio::new(u128::from(*part.weight.numer()), u128::from(*part.weight.denom()));
                    topology.path_resources(&part.hops, |resource| {
                        let rate = topology.rate(topology.resources()[resource]).bytes_per_second();
                        slowest = slowest.max(weight / u128::from(rate));
                    });
                }
                (slowest, route.parts.iter().map(|part| part.hops.len()).max().unwrap_or(0))
            });
        }
    }
    let mut widths: Vec<(usize, Ratio<u128>)> =
        ways.iter().flatten().flatten().map(|&(slow, hops)| (hops, slow)).collect();
    widths.sort_unstable();
    widths.dedup();
    widths.into_iter().find_map(|(hops, slowest)| {
        let next: Vec<Vec<usize>> = (0..n)
            .map(|i| {
                let fits = |j: &usize| ways[i][*j].is_some_and(|(slow, h)| slow <= slowest && h <= hops);
                (0..n).filter(fits).collect()
            })
            .collect();
        let mut tries = TRIES;
        let mut path = vec![0];
        let mut used = vec![false; n];
        used[0] = true;
        extend(&next, &mut path, &mut used, &mut tries)
            .then(|| path.into_iter().filter_map(|i| u32::try_from(i).ok()).collect())
    })
}

/// Depth-first search for a cycle; nodes with few ways on come first.
fn extend(next: &[Vec<usize>], path: &mut Vec<usize>, used: &mut [bool], tries: &mut u32) -> bool {
    let last = path[path.len() - 1];
    if path.len() == next.len() {
        return next[last].contains(&path[0]);
    }
    let mut choices: Vec<(usize, usize)> = next[last]
        .iter()
        .filter(|&&node| !used[node])
        .map(|&node| (next[node].iter().filter(|&&on| !used[on]).count(), node))
        .collect();
    choices.sort_unstable();
    for (_, node) in choices {
        if *tries == 0 {
            return false;
        }
        *tries -= 1;
        used[node] = true;
        path.push(node);
        if extend(next, path, used, tries) {
            return true;
        }
        path.pop();
        used[node] = false;
    }
    false
}
