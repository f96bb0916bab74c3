//! Everybody talks to whom it must, without relays.

use rondo_ir::collective::{CollectiveKind, Place};
use rondo_ir::schedule::{Flow, FlowOp, Paths, Schedule};

use crate::build::BuildError;
use crate::build::deliver::{Delivery, custom, deliver};
use crate::build::gather;
use crate::build::site::{Lane, RouteTable, Site};
use crate::build::spread::{Base, Spread};

/// One step: each pair that has something for each other sends it.
///
/// all_reduce is a direct reduce_scatter and a direct all_gather: 2(α_s + h·α_p) + 2(n−1)/n·m·β + (n−1)/n·m·γ on a
/// switch. all_gather and all_to_all of blocks b: α_s + h·α_p + (n−1)·b·β, the Clos column of Table 2 of the topology
/// paper.
pub(crate) fn one_step(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "direct";
    match site.kind() {
        CollectiveKind::AllReduce | CollectiveKind::AllGather | CollectiveKind::ReduceScatter => {
            let spread = [Spread::line((0..site.n).collect(), Base::OneStep)];
            gather::build(site, NAME, &spread, &spread)
        }
        CollectiveKind::Reduce { root } => fan(site, NAME, *root),
        CollectiveKind::Broadcast { root } => fan(site, NAME, *root),
        CollectiveKind::Custom(spec) => custom(site, NAME, spec, false),
        CollectiveKind::AllToAll { .. }
        | CollectiveKind::Gather { .. }
        | CollectiveKind::Scatter { .. }
        | CollectiveKind::SendReceive { .. } => deliver(site, NAME, &demands(site)?, false),
    }
}

pub(crate) fn one_step_flows(site: &Site) -> u64 {
    let n = u64::from(site.n);
    match site.kind() {
        CollectiveKind::AllReduce => 2 * n * n,
        CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllToAll { .. } => n * n,
        CollectiveKind::Broadcast { .. }
        | CollectiveKind::Reduce { .. }
        | CollectiveKind::Gather { .. }
        | CollectiveKind::Scatter { .. }
        | CollectiveKind::SendReceive { .. } => 2 * n,
        CollectiveKind::Custom(spec) => spec.output.iter().flatten().flatten().map(|held| 2 * held.len() as u64).sum(),
    }
}

/// The same in n−1 rounds: round t joins each rank with the one t further, so that each sends and receives one block a
/// step. Dearer by start-ups, kinder to fabrics that congest.
pub(crate) fn rounds(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "direct-rounds";
    if !matches!(site.kind(), CollectiveKind::AllToAll { .. }) {
        let spread = [Spread::line((0..site.n).collect(), Base::Rounds)];
        return gather::build(site, NAME, &spread, &spread);
    }
    let mut schedule = deliver(site, NAME, &demands(site)?, false)?;
    let flows: Vec<Flow> = schedule.all_flows().map(|(_, flow)| flow).collect();
    let mut rounds: Vec<Vec<Flow>> = vec![Vec::new(); site.n as usize];
    for flow in flows {
        let (src, dst) = (site.position_of(flow.src), site.position_of(flow.dst));
        rounds[((dst + site.n - src) % site.n) as usize].push(flow);
    }
    schedule.steps = rounds.into_iter().filter(|flows| !flows.is_empty()).map(rondo_ir::schedule::Step::new).collect();
    Ok(schedule)
}

/// What belongs to one pair, of collectives in which each output block has one origin.
pub(crate) fn demands(site: &Site) -> Result<Vec<Delivery>, BuildError> {
    let k = site.cx.chunks;
    site.layout(k)?;
    let one = |src: u32, from: u32, dst: u32, to: u32| Delivery {
        src: (src, Place::input(from * k)),
        dst: (dst, Place::output(to * k)),
        count: k,
    };
    Ok(match site.kind() {
        CollectiveKind::AllToAll { .. } => (0..site.n)
            .flat_map(|t| (0..site.n).map(move |p| (p, (p + t) % site.n)))
            .map(|(p, q)| one(p, q, q, p))
            .collect(),
        CollectiveKind::Gather { root } => (0..site.n).map(|p| one(p, 0, *root, p)).collect(),
        CollectiveKind::Scatter { root } => (0..site.n).map(|p| one(*root, p, p, 0)).collect(),
        CollectiveKind::SendReceive { targets } => {
            (0..).zip(targets).filter_map(|(p, target)| Some(one(p, 0, (*target)?, 0))).collect()
        }
        _ => Vec::new(),
    })
}

/// Broadcast and reduce in one step: a star.
fn fan(site: &Site, name: &'static str, root: u32) -> Result<Schedule, BuildError> {
    let k = site.cx.chunks;
    site.layout(k)?;
    let reduce = matches!(site.kind(), CollectiveKind::Reduce { .. });
    let others = (0..site.n).filter(|&p| p != root);
    let mut paths = Paths::default();
    let pairs = others.clone().map(|p| if reduce { (p, root, Lane::Any) } else { (root, p, Lane::Any) }).collect();
    let routes = RouteTable::new(site, &mut paths, pairs)?;
    let mut local = Vec::new();
    if !site.collective.in_place() {
        local.push(site.local(root, Place::input(0), Place::output(0), k, FlowOp::Copy));
    }
    let flows = others
        .map(|p| {
            if reduce {
                let path = routes.path(p, root, Lane::Any);
                site.flow((p, Place::input(0)), (root, Place::output(0)), k, FlowOp::Reduce, path)
            } else {
                let path = routes.path(root, p, Lane::Any);
                site.flow((root, Place::output(0)), (p, Place::output(0)), k, FlowOp::Copy, path)
            }
        })
        .collect();
    Ok(site.schedule(name, k, Vec::new(), paths, vec![local, flows]))
}

/// all_reduce in one step of communication: everybody gets every whole vector and adds them itself.
///
/// Out of place the vectors are added where they arrive; in place they pass through scratch, since the own vector must
/// stay until it is sent. Cost: α_s + h·α_p + (n−1)·m·β + (n−1)·m·γ; the least latency there is.
pub(crate) fn all_pairs(site: &Site) -> Result<Schedule, BuildError> {
    const NAME: &str = "all-pairs";
    let (n, k) = (site.n, site.cx.chunks);
    site.layout(k)?;
    let mut paths = Paths::default();
    let pairs = (0..n).flat_map(|p| (0..n).filter(move |&q| q != p).map(move |q| (p, q, Lane::Any))).collect();
    let routes = RouteTable::new(site, &mut paths, pairs)?;
    let in_place = site.collective.in_place();
    let (mut before, mut flows, mut after) = (Vec::new(), Vec::new(), Vec::new());
    let mut scratch = vec![Vec::new(); n as usize];
    for p in 0..n {
        if !in_place {
            before.push(site.local(p, Place::input(0), Place::output(0), k, FlowOp::Copy));
        }
        for t in 1..n {
            let q = (p + t) % n;
            let path = routes.path(p, q, Lane::Any);
            if in_place {
                let slot = Place::scratch((t - 1) * k);
                flows.push(site.flow((p, Place::output(0)), (q, slot), k, FlowOp::Copy, path));
                after.push(site.local(p, slot, Place::output(0), k, FlowOp::Reduce));
                scratch[p as usize].extend((0..k).map(|slot| (p, Place::output(slot))));
            } else {
                flows.push(site.flow((p, Place::input(0)), (q, Place::output(0)), k, FlowOp::Reduce, path));
            }
        }
    }
    Ok(site.schedule(NAME, k, scratch, paths, vec![before, flows, after]))
}

pub(crate) fn all_pairs_flows(site: &Site) -> u64 {
    let n = u64::from(site.n);
    n * n * if site.collective.in_place() { 2 } else { 1 }
}
