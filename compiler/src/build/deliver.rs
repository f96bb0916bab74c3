//! Single deliveries from place to place, directly or passed on by ranks in between, and `custom` collectives.

use rondo_ir::collective::{Buffer, CustomCollective, Place};
use rondo_ir::schedule::{Flow, FlowOp, Path, Paths, Schedule};

use crate::build::BuildError;
use crate::build::relay::Ways;
use crate::build::site::{Lane, RouteTable, Site};

/// `count` slots that must get from a place to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub src: (u32, Place),
    pub dst: (u32, Place),
    pub count: u32,
}

/// The schedule of these deliveries: one step directly, or with `relay` as many as the longest way has hops, through
/// scratch of the ranks in between.
pub(crate) fn deliver(
    site: &Site,
    name: &'static str,
    demands: &[Delivery],
    relay: bool,
) -> Result<Schedule, BuildError> {
    let mut scratch = vec![Vec::new(); site.n as usize];
    let (paths, steps) = carry(site, demands, relay, &mut scratch)?;
    Ok(site.schedule(name, site.cx.chunks, scratch, paths, steps))
}

/// Steps of the deliveries; the first one holds local copies. Scratch is added to as needed.
fn carry(
    site: &Site,
    demands: &[Delivery],
    relay: bool,
    scratch: &mut [Vec<(u32, Place)>],
) -> Result<(Paths, Vec<Vec<Flow>>), BuildError> {
    let layout = site.layout(site.cx.chunks)?;
    let ways = if relay { Some(Ways::new(site)) } else { None };
    let mut chains: Vec<Vec<u32>> = Vec::with_capacity(demands.len());
    let mut balance = std::collections::BTreeMap::new();
    for demand in demands {
        chains.push(match &ways {
            Some(ways) if demand.src.0 != demand.dst.0 => ways.path(site, demand.src.0, demand.dst.0, &mut balance)?,
            _ => vec![demand.src.0, demand.dst.0],
        });
    }
    let pairs = chains
        .iter()
        .flat_map(|chain| chain.windows(2))
        .filter(|pair| pair[0] != pair[1])
        .map(|pair| (pair[0], pair[1], Lane::Any))
        .collect();
    let mut paths = Paths::default();
    let routes = RouteTable::new(site, &mut paths, pairs)?;
    let longest = chains.iter().map(Vec::len).max().unwrap_or(0);
    let mut steps = vec![Vec::new(); longest.max(1)];
    for (demand, chain) in demands.iter().zip(&chains) {
        let (src, dst) = (demand.src.0, demand.dst.0);
        if src == dst {
            if layout.canonical(src, demand.src.1) != layout.canonical(dst, demand.dst.1) {
                steps[0].push(site.local(src, demand.src.1, demand.dst.1, demand.count, FlowOp::Copy));
            }
            continue;
        }
        let mut at = demand.src;
        for (hop, pair) in chain.windows(2).enumerate() {
            let to = if hop + 2 == chain.len() {
                demand.dst
            } else {
                let slots = &mut scratch[pair[1] as usize];
                let first = u32::try_from(slots.len()).unwrap_or(u32::MAX);
                slots.extend((0..demand.count).map(|slot| (src, demand.src.1.offset(slot))));
                (pair[1], Place::scratch(first))
            };
            let path = routes.path(pair[0], pair[1], Lane::Any);
            steps[hop + 1].push(site.flow(at, to, demand.count, FlowOp::Copy, path));
            at = to;
        }
    }
    Ok((paths, steps))
}

/// A custom collective: every contribution is fetched from its origin, the first of each sum into the output, the others
/// into scratch, from where they are added.
pub(crate) fn custom(
    site: &Site,
    name: &'static str,
    spec: &CustomCollective,
    relay: bool,
) -> Result<Schedule, BuildError> {
    let k = site.cx.chunks;
    let layout = site.layout(k)?;
    let mut demands = Vec::new();
    let mut scratch = vec![Vec::new(); site.n as usize];
    let mut sums: Vec<Vec<Flow>> = Vec::new();
    for (position, slots) in (0..).zip(&spec.output) {
        for (slot, held) in (0..).zip(slots) {
            let Some(held) = held else { continue };
            let output = Place::output(slot * k);
            // The own contribution first: it needs no fetching.
            let mut parts: Vec<(u32, u32)> = Vec::new();
            for &(contribution, count) in held {
                let count = usize::try_from(count).unwrap_or(usize::MAX).min(1 << 16);
                parts.extend(std::iter::repeat_n((contribution.origin, contribution.slot), count));
            }
            parts.sort_by_key(|&(origin, _)| origin != position);
            if parts.is_empty() {
                let reason =
                    format!("output slot {slot} of rank {position} must hold an empty sum, which nothing makes");
                return Err(BuildError::DoesNotFit { algorithm: name, reason });
            }
            for (index, &(origin, from)) in parts.iter().enumerate() {
                let input = Place::input(from * k);
                for part in 0..k {
                    let sizes =
                        (layout.elements(origin, input.offset(part)), layout.elements(position, output.offset(part)));
                    if sizes.0 != sizes.1 {
                        let reason = format!(
                            "input slot {from} of rank {origin} has {} elements, output slot {slot} of rank {position} has {}; \
                             choose a size that all slots share equally",
                            sizes.0, sizes.1
                        );
                        return Err(BuildError::DoesNotFit { algorithm: name, reason });
                    }
                }
                let mut add = |place| {
                    if sums.len() < index {
                        sums.resize(index, Vec::new());
                    }
                    sums[index - 1].push(site.flow(
                        (position, place),
                        (position, output),
                        k,
                        FlowOp::Reduce,
                        Path::LOCAL,
                    ));
                };
                if index == 0 {
                    demands.push(Delivery { src: (origin, input), dst: (position, output), count: k });
                } else if origin == position {
                    add(input);
                } else {
                    let own: &mut Vec<(u32, Place)> = &mut scratch[position as usize];
                    let place = Place::scratch(u32::try_from(own.len()).unwrap_or(u32::MAX));
                    own.extend((0..k).map(|part| (origin, input.offset(part))));
                    demands.push(Delivery { src: (origin, input), dst: (position, place), count: k });
                    add(place);
                }
            }
        }
    }
    debug_assert!(demands.iter().all(|demand| demand.src.1.buffer() == Buffer::Input));
    let (paths, mut steps) = carry(site, &demands, relay, &mut scratch)?;
    steps.extend(sums);
    Ok(site.schedule(name, k, scratch, paths, steps))
}
