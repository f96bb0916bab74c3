//! Machines with published link rates.
//!
//! Rates are those that the makers publish, per direction; a runtime reaches less. Latencies are not published as a set:
//! 700 ns between accelerators over NVLink or xGMI (350 ns each way through an NVSwitch), 500 ns over a PCIe link or between
//! processors and 850 ns for a network cable are *assumptions* of this module, and a job file may give others.
//!
//! | preset | inside | network | source |
//! | --- | --- | --- | --- |
//! | `dgx1v` | 8 V100, hybrid cube-mesh of NVLink 2 at 25 GB/s a link (6 links each, one or two a pair), 4 PCIe 3.0 switches with two GPUs and an adapter each, two processors | 4 × 100 Gb/s | NVIDIA DGX-1 with Tesla V100 white paper |
//! | `dgx-a100` | 8 A100, each 12 NVLink 3 to NVSwitches: 600 GB/s in sum, 300 GB/s each way; 4 PCIe 4.0 switches with two GPUs and two adapters each | 8 × 200 Gb/s | NVIDIA DGX A100 system architecture |
//! | `dgx-h100` | 8 H100, each 18 NVLink 4: 900 GB/s in sum, 450 GB/s each way; 8 PCIe 5.0 switches with one GPU and one adapter each | 8 × 400 Gb/s | NVIDIA DGX H100 user guide |
//! | `gb200-nvl72` | 72 Blackwell, each 18 NVLink 5: 1.8 TB/s in sum, 900 GB/s each way; 36 Grace, each joined to two GPUs by NVLink-C2C of 900 GB/s in sum (225 GB/s a GPU and way) | 72 × 400 Gb/s | NVIDIA GB200 NVL72 data sheet |
//! | `mi250x` | 4 MI250X of 2 dies: xGMI at 50 GB/s a link: 4 within a package, 2 or 1 between packages; 36 GB/s to the one processor | 4 × 200 Gb/s, one a package | OLCF Frontier user guide |
//! | `mi300x` | 8 MI300X, an xGMI link of 64 GB/s between every pair (7 a GPU); 8 PCIe 5.0 switches with one GPU and one adapter each, two processors | 8 × 400 Gb/s | AMD Instinct MI300X platform data sheet |
//!
//! PCIe of 16 lanes counts as NCCL counts it: 12, 24 and 48 GB/s for 3.0, 4.0 and 5.0. Between processors: 6 GB/s (dgx1v)
//! and 16 GB/s (others), as NCCL assumes. GPUs do not forward; what has no link between accelerators goes by PCIe and
//! processors. NVSwitches of `dgx-h100` and `gb200-nvl72` can copy and add; a job that wants to use that says so
//! (`multicasts`, `reduces`), for no runtime format of this project loads such plans yet.

use rondo_ir::topology::Node;
use rondo_ir::units::{Delay, Rate};

use super::error::BuildError;
use super::hosts::{Host, NIC_LATENCY, Nic, assemble};
use super::spec::{LinkRates, Preset, PresetSpec};
use crate::fabric::{Fabric, LinkKind};

const PCIE_LATENCY: Delay = Delay::from_nanoseconds(500);
const DIRECT_LATENCY: Delay = Delay::from_nanoseconds(700);
const SWITCHED_LATENCY: Delay = Delay::from_nanoseconds(350);

/// GB/s, at least 1.
const fn gigabytes(rate: u64) -> Rate {
    match Rate::new(rate * 1_000_000_000) {
        Some(rate) => rate,
        None => panic!("a preset's rate is positive"),
    }
}

/// NVLinks of a DGX-1V between each pair, lower GPU first.
const CUBE_MESH: [(usize, usize, u64); 16] = [
    (0, 1, 1),
    (0, 2, 1),
    (0, 3, 2),
    (0, 4, 2),
    (1, 2, 2),
    (1, 3, 1),
    (1, 5, 2),
    (2, 3, 2),
    (2, 6, 1),
    (3, 7, 1),
    (4, 5, 1),
    (4, 6, 1),
    (4, 7, 2),
    (5, 6, 2),
    (5, 7, 1),
    (6, 7, 2),
];

/// xGMI links of a node of four MI250X between each pair of dies.
const MI250X_LINKS: [(usize, usize, u64); 12] = [
    (0, 1, 4),
    (2, 3, 4),
    (4, 5, 4),
    (6, 7, 4),
    (0, 6, 2),
    (2, 4, 2),
    (0, 2, 1),
    (1, 3, 1),
    (1, 5, 1),
    (3, 7, 1),
    (4, 6, 1),
    (5, 7, 1),
];

/// Rate of one link inside the machine unless the job gives another: one NVLink (`dgx1v`), all NVLinks of a GPU to its
/// NVSwitches, or one xGMI link.
#[must_use]
pub const fn link_rate(preset: Preset) -> Rate {
    gigabytes(match preset {
        Preset::Dgx1v => 25,
        Preset::DgxA100 => 300,
        Preset::DgxH100 => 450,
        Preset::Gb200Nvl72 => 900,
        Preset::Mi250x => 50,
        Preset::Mi300x => 64,
    })
}

/// Where a preset's rates come from, for reports.
#[must_use]
pub const fn source(preset: Preset) -> &'static str {
    match preset {
        Preset::Dgx1v => "NVIDIA DGX-1 with Tesla V100 white paper: NVLink 25 GB/s a link and direction",
        Preset::DgxA100 => "NVIDIA DGX A100 system architecture: NVLink 300 GB/s a GPU and direction, 8 x 200 Gb/s",
        Preset::DgxH100 => "NVIDIA DGX H100 user guide: NVLink 450 GB/s a GPU and direction, 8 x 400 Gb/s",
        Preset::Gb200Nvl72 => "NVIDIA GB200 NVL72 data sheet: NVLink 900 GB/s a GPU and direction, 72 x 400 Gb/s",
        Preset::Mi250x => "OLCF Frontier user guide: xGMI 50 GB/s a link and direction, 4 x 200 Gb/s",
        Preset::Mi300x => "AMD Instinct MI300X platform data sheet: xGMI 64 GB/s a link and direction, 8 x 400 Gb/s",
    }
}

/// One machine, with these rates and this latency for links between accelerators (or to their switch).
#[must_use]
pub fn machine(preset: Preset, bandwidth: Option<Rate>, latency: Option<Delay>) -> Host {
    let rate = bandwidth.unwrap_or(link_rate(preset));
    let direct = |count: u64| LinkRates {
        bandwidth: Rate::new(rate.bytes_per_second().saturating_mul(count)).unwrap_or(rate),
        latency: latency.unwrap_or(DIRECT_LATENCY),
    };
    let switched = LinkRates { bandwidth: rate, latency: latency.unwrap_or(SWITCHED_LATENCY) };
    let mut host = Host::default();
    let gpus = if preset == Preset::Gb200Nvl72 { 72 } else { 8 };
    for gpu in 0..gpus {
        host.node(Node::compute(format!("gpu{gpu}")));
    }
    let mut pairs = |links: &[(usize, usize, u64)], kind: LinkKind| {
        for &(a, b, count) in links {
            host.cable(a, b, direct(count), kind);
        }
    };
    match preset {
        Preset::Dgx1v => {
            pairs(&CUBE_MESH, LinkKind::NvLink);
            pcie(&mut host, 4, 1, gigabytes(12), gigabytes(6), Rate::new(12_500_000_000));
        }
        Preset::DgxA100 => {
            nvswitch(&mut host, switched);
            pcie(&mut host, 4, 2, gigabytes(24), gigabytes(16), Some(gigabytes(25)));
        }
        Preset::DgxH100 => {
            nvswitch(&mut host, switched);
            pcie(&mut host, 8, 1, gigabytes(48), gigabytes(16), Some(gigabytes(50)));
        }
        Preset::Mi300x => {
            let all: Vec<_> = (0..8).flat_map(|a| (a + 1..8).map(move |b| (a, b, 1))).collect();
            pairs(&all, LinkKind::Xgmi);
            pcie(&mut host, 8, 1, gigabytes(48), gigabytes(16), Some(gigabytes(50)));
        }
        Preset::Gb200Nvl72 => {
            nvswitch(&mut host, switched);
            let c2c = LinkRates { bandwidth: gigabytes(225), latency: PCIE_LATENCY };
            let adapter = LinkRates { bandwidth: gigabytes(48), latency: PCIE_LATENCY };
            for c in 0..36 {
                let cpu = host.node(Node::switch(format!("cpu{c}")));
                for gpu in [2 * c, 2 * c + 1] {
                    host.cable(gpu, cpu, c2c, LinkKind::C2c);
                    let attached = vec![(cpu, adapter)];
                    host.nics.push(Nic { attached, rate: Some(gigabytes(50)), latency: NIC_LATENCY });
                }
            }
        }
        Preset::Mi250x => {
            pairs(&MI250X_LINKS, LinkKind::Xgmi);
            let cpu = host.node(Node::switch("cpu0"));
            for gpu in 0..8 {
                let rates = LinkRates { bandwidth: gigabytes(36), latency: PCIE_LATENCY };
                host.cable(gpu, cpu, rates, LinkKind::Xgmi);
            }
            // The adapter hangs on the odd die; the even one reaches it through the package, which never binds.
            let adapter = LinkRates { bandwidth: gigabytes(50), latency: PCIE_LATENCY };
            for package in 0..4 {
                let attached = vec![(2 * package, adapter), (2 * package + 1, adapter)];
                host.nics.push(Nic { attached, rate: Some(gigabytes(25)), latency: NIC_LATENCY });
            }
        }
    }
    host
}

/// All accelerators on one NVSwitch node.
fn nvswitch(host: &mut Host, rates: LinkRates) {
    let gpus = host.accelerators();
    let hub = host.node(Node::switch("nvswitch"));
    for gpu in 0..gpus {
        host.cable(gpu, hub, rates, LinkKind::NvLink);
    }
}

/// PCIe switches, each with an equal share of the accelerators and `nics` adapters, the first half below one processor
/// and the other half below another.
fn pcie(host: &mut Host, switches: usize, nics: usize, rate: Rate, between: Rate, network: Option<Rate>) {
    let gpus = host.accelerators();
    let rates = LinkRates { bandwidth: rate, latency: PCIE_LATENCY };
    let cpus = [0, 1].map(|c| host.node(Node::switch(format!("cpu{c}"))));
    host.cable(cpus[0], cpus[1], LinkRates { bandwidth: between, ..rates }, LinkKind::Socket);
    for s in 0..switches {
        let switch = host.node(Node::switch(format!("pcie{s}")));
        host.cable(switch, cpus[2 * s / switches], rates, LinkKind::Pcie);
        for gpu in s * gpus / switches..(s + 1) * gpus / switches {
            host.cable(gpu, switch, rates, LinkKind::Pcie);
        }
        for _ in 0..nics {
            host.nics.push(Nic { attached: vec![(switch, rates)], rate: network, latency: NIC_LATENCY });
        }
    }
}

/// Builds a preset; several machines are joined as [`assemble`] describes.
///
/// # Errors
/// As [`assemble`].
pub fn preset(spec: &PresetSpec) -> Result<Fabric, BuildError> {
    let PresetSpec { preset, hosts, bandwidth, latency, network } = spec;
    let name = if *hosts == 1 { preset.name().to_owned() } else { format!("{hosts} x {}", preset.name()) };
    assemble(name, &machine(*preset, *bandwidth, *latency), *hosts, network)
}

#[cfg(test)]
mod tests {
    use rondo_ir::index::NodeId;
    use rondo_ir::topology::Hop;

    use super::*;
    use crate::topology::connectivity::connectivity;
    use crate::topology::spec::NetworkSpec;
    use crate::topology::testing::check_routes;

    fn build(preset: Preset, hosts: u32, network: NetworkSpec) -> Fabric {
        super::preset(&PresetSpec { preset, hosts, bandwidth: None, latency: None, network }).unwrap()
    }

    fn sum_out(fabric: &Fabric, node: usize, kind: LinkKind) -> u64 {
        let links = fabric.topology.links_from(NodeId::new(node)).iter().filter(|&&link| fabric.kind(link) == kind);
        links.map(|&link| fabric.topology.link(link).capacity.bytes_per_second()).sum::<u64>() / 1_000_000_000
    }

    /// Published totals per direction of one accelerator (V100: 6 links of 25; MI250X die: 4 + 2 or 1 + 1 of 50).
    #[test]
    fn every_accelerator_has_its_published_total() {
        for (preset, gpus, kind, totals) in [
            (Preset::Dgx1v, 8, LinkKind::NvLink, [150; 8]),
            (Preset::DgxA100, 8, LinkKind::NvLink, [300; 8]),
            (Preset::DgxH100, 8, LinkKind::NvLink, [450; 8]),
            (Preset::Gb200Nvl72, 72, LinkKind::NvLink, [900; 8]),
            (Preset::Mi300x, 8, LinkKind::Xgmi, [448; 8]),
            (Preset::Mi250x, 8, LinkKind::Xgmi, [386, 336, 386, 336, 386, 336, 386, 336]),
        ] {
            let fabric = build(preset, 1, NetworkSpec::default());
            assert_eq!(fabric.topology.compute_nodes().count(), gpus);
            for gpu in 0..gpus {
                assert_eq!(sum_out(&fabric, gpu, kind), totals[gpu % 8], "{preset:?} gpu{gpu}");
            }
            check_routes(&fabric);
        }
    }

    #[test]
    fn pairs_without_nvlink_of_a_dgx1v_go_by_pcie() {
        let fabric = build(Preset::Dgx1v, 1, NetworkSpec::default());
        let kinds = |a: usize, b: usize| -> Vec<LinkKind> {
            let route = fabric.router.route(NodeId::new(a), NodeId::new(b)).unwrap();
            let kind = |hop: &Hop| match hop {
                Hop::Link(link) => fabric.kind(*link),
                Hop::Circuit(..) => LinkKind::Link,
            };
            route.parts[0].hops.iter().map(kind).collect()
        };
        assert_eq!(kinds(0, 4), [LinkKind::NvLink]);
        use LinkKind::{Pcie, Socket};
        assert_eq!(kinds(0, 5), [Pcie, Pcie, Socket, Pcie, Pcie]);
    }

    #[test]
    fn machines_are_joined_by_their_adapters() {
        for preset in Preset::ALL {
            for rail_optimized in [false, true] {
                let fabric = build(preset, 2, NetworkSpec { rail_optimized, ..NetworkSpec::default() });
                let ranks: Vec<_> = fabric.topology.compute_nodes().collect();
                assert_eq!(connectivity(&fabric.topology, &ranks), None, "{preset:?}");
                assert_eq!(fabric.topology.node(ranks[ranks.len() / 2]).name, "host1/gpu0");
                let route = fabric.router.route(ranks[0], ranks[ranks.len() / 2]).unwrap();
                let through = |hop: &Hop| matches!(hop, Hop::Link(link) if fabric.kind(*link) == LinkKind::Network);
                assert_eq!(route.parts[0].hops.iter().filter(|hop| through(hop)).count(), 2, "{preset:?}");
                if preset != Preset::Gb200Nvl72 {
                    check_routes(&fabric);
                }
            }
        }
        let network = NetworkSpec { nics: Some(2), nic_bandwidth: Some(gigabytes(1)), ..NetworkSpec::default() };
        let fabric = build(Preset::DgxH100, 3, network);
        let nics = fabric.topology.nodes().iter().filter(|node| node.name.contains("/nic")).count();
        assert_eq!(nics, 6);
        check_routes(&fabric);
    }
}
