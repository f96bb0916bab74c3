//! Topologies: what they are described by, one generator a family, routing, and what can be said about the result.
//!
//! Every generator gives a [`Fabric`]: the topology, its shape, and a router. Ids are dense and
//! their order is part of each generator's documentation, so builders of algorithms may compute with it.

pub mod circuits;
pub mod clos;
pub mod connectivity;
pub mod describe;
pub mod error;
pub mod grid;
pub mod hosts;
pub mod hypercube;
pub mod mesh;
mod modify;
pub mod optical;
pub mod presets;
pub mod ring;
pub mod route;
pub mod spec;
pub mod switch;
#[cfg(test)]
pub(crate) mod testing;
pub mod torus;

pub use connectivity::{Cut, connectivity};
pub use describe::{TopologyDescription, describe};
pub use error::{BuildError, LINK_LIMIT};

use std::sync::Arc;

use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::topology::{Topology, TopologyBuilder};

use self::spec::{TopologyKind, TopologySpec};
use crate::fabric::{Fabric, Shape};

/// What [`build`] gives.
#[derive(Clone, Debug)]
pub struct Built {
    /// The topology with its shape and routing.
    pub fabric: Fabric,
    /// What files lacked or contradicted.
    pub warnings: Vec<Diagnostic>,
    /// Where rates come from that the job did not give, for reports.
    pub sources: Vec<String>,
}

/// Reads a file that a job names, relative to the job's folder.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> std::io::Result<String>;

/// Builds what a job describes. The library opens no file by itself: `read` does.
///
/// # Errors
/// All that is wrong, as diagnostics with the place in the job file (or in the file that it names).
pub fn build(spec: &TopologySpec, read: ReadFile<'_>) -> Result<Built, Vec<Diagnostic>> {
    let (mut warnings, mut sources) = (Vec::new(), Vec::new());
    let base = match &spec.kind {
        TopologyKind::Ring { nodes, bidirectional, link } => ring::ring(*nodes, *bidirectional, *link),
        TopologyKind::Torus { sides, link } => torus::torus(sides, *link),
        TopologyKind::Grid { sides, link } => grid::grid(sides, *link),
        TopologyKind::Mesh { nodes, link } => mesh::mesh(*nodes, *link),
        TopologyKind::Switch { nodes, link } => switch::switch(*nodes, *link),
        TopologyKind::Hypercube { dimensions, link } => hypercube::hypercube(*dimensions, *link),
        TopologyKind::Clos(clos) => clos::clos(clos),
        TopologyKind::Preset(preset) => {
            sources.push(presets::source(preset.preset).to_owned());
            presets::preset(preset)
        }
        TopologyKind::File(file) => {
            let imported = crate::front::import::import_file(&spec.job_file, file, read)?;
            warnings.extend(imported.warnings);
            sources.extend(imported.sources);
            Ok(imported.fabric)
        }
        TopologyKind::Optical(spec) => optical::optical(spec),
        TopologyKind::Custom => finish(TopologyBuilder::new("custom")).map(|topology| {
            let topology = Arc::new(topology);
            Fabric::new(topology.clone(), Shape::General, Arc::new(route::ShortestPaths::new(topology)))
        }),
    };
    let base = base.map_err(|error| vec![error.diagnostic().at(&spec.job_file, spec.span.range(), "")])?;
    Ok(Built { fabric: modify::modify(spec, base)?, warnings, sources })
}

/// Freezes what a generator made; its first fault, if it has one.
fn finish(builder: TopologyBuilder) -> Result<Topology, BuildError> {
    builder.finish().map_err(|errors| match errors.into_iter().next() {
        Some(error) => BuildError::Topology(error),
        None => BuildError::TooFew { what: "the number of nodes".into(), given: 0, limit: 1 },
    })
}

#[cfg(test)]
mod tests {
    use num_rational::Ratio;
    use rondo_ir::index::NodeId;
    use rondo_ir::topology::NodeKind;
    use rondo_ir::units::Delay;

    use super::spec::*;
    use super::testing::{check_routes, link};
    use super::*;
    use crate::span::{Span, Spanned};

    fn no_files(path: &str) -> std::io::Result<String> {
        Err(std::io::Error::new(std::io::ErrorKind::NotFound, path.to_owned()))
    }

    fn name(text: &str) -> Spanned<String> {
        Spanned::new(text.to_owned(), Span { start: 3, end: 7 })
    }

    fn node(text: &str, kind: NodeKind) -> NodeSpec {
        NodeSpec {
            name: name(text),
            kind,
            forwards: kind == NodeKind::Switch,
            multicasts: false,
            reduces: false,
            injection: None,
            ejection: None,
            throughput: None,
        }
    }

    fn cable(from: &str, to: &str, count: u32) -> LinkSpec {
        LinkSpec { from: name(from), to: name(to), rates: link(10), both: true, count }
    }

    #[test]
    fn every_kind_is_built() {
        let clos = ClosSpec {
            tiers: 2,
            radix: 4,
            nodes: None,
            oversubscription: Ratio::from(1),
            rail_optimized: false,
            per_host: 1,
            link: link(1),
            uplink: link(1),
            host: None,
            bundled: false,
            scale_up: None,
        };
        let preset = PresetSpec {
            preset: Preset::DgxA100,
            hosts: 1,
            bandwidth: None,
            latency: None,
            network: NetworkSpec::default(),
        };
        let link = link(1);
        for (kind, nodes) in [
            (TopologyKind::Ring { nodes: 5, bidirectional: true, link }, 5),
            (TopologyKind::Torus { sides: vec![2, 3], link }, 6),
            (TopologyKind::Grid { sides: vec![2, 3], link }, 6),
            (TopologyKind::Mesh { nodes: 4, link }, 4),
            (TopologyKind::Switch { nodes: 4, link }, 4),
            (TopologyKind::Hypercube { dimensions: 3, link }, 8),
            (TopologyKind::Clos(clos), 8),
            (TopologyKind::Preset(preset), 8),
        ] {
            let built = build(&TopologySpec::new(kind), &no_files).unwrap();
            assert_eq!(built.fabric.topology.compute_nodes().count(), nodes);
            check_routes(&built.fabric);
        }
    }

    #[test]
    fn custom_nodes_links_and_failures() {
        let mut spec = TopologySpec::new(TopologyKind::Custom);
        spec.extra.nodes =
            vec![node("a", NodeKind::Compute), node("b", NodeKind::Compute), node("s", NodeKind::Switch)];
        spec.extra.links = vec![cable("a", "s", 2), cable("s", "b", 1), cable("a", "b", 1)];
        let whole = build(&spec, &no_files).unwrap().fabric;
        assert_eq!(whole.topology.links().len(), 8);
        check_routes(&whole);
        let hops = |fabric: &Fabric| {
            fabric.router.route(NodeId::new(0), NodeId::new(1)).map(|route| route.parts[0].hops.len())
        };
        assert_eq!(hops(&whole), Some(1));
        let failed = |index| FailedLink {
            span: Span::default(),
            from: name("a"),
            to: name("b"),
            both: false,
            index,
            degraded_to: None,
        };
        spec.failures.links = vec![failed(None)];
        let broken = build(&spec, &no_files).unwrap().fabric;
        assert_eq!(hops(&broken), Some(2));
        check_routes(&broken);
        spec.failures.nodes = vec![name("s")];
        assert_eq!(hops(&build(&spec, &no_files).unwrap().fabric), None);
    }

    #[test]
    fn all_faults_of_a_description_are_reported_with_their_place() {
        let mut spec = TopologySpec::new(TopologyKind::Switch { nodes: 4, link: link(1) });
        spec.job_file = "job.toml".into();
        spec.extra.nodes = vec![node("n0", NodeKind::Compute)];
        spec.extra.links = vec![cable("n1", "n1", 1), cable("n1", "n33", 1), cable("n1", "swich", 1)];
        let bad = |from: &str, to: &str, index: Option<u32>, left: Option<u64>| FailedLink {
            span: Span { start: 1, end: 2 },
            from: name(from),
            to: name(to),
            both: false,
            index: index.map(Spanned::nowhere),
            degraded_to: left.map(|left| link(left).bandwidth),
        };
        spec.failures.links =
            vec![bad("n0", "n1", None, None), bad("n0", "switch", Some(1), None), bad("n0", "switch", None, Some(2))];
        let errors = build(&spec, &no_files).unwrap_err();
        let found: Vec<_> = errors.iter().map(|error| (error.code, error.message.as_str())).collect();
        assert_eq!(
            found,
            [
                ("T011", "two nodes are named `n0`"),
                ("T012", "a link joins node `n1` to itself"),
                ("T010", "link n1 -> n33 names node `n33`, which does not exist"),
                ("T010", "link n1 -> swich names node `swich`, which does not exist"),
                ("T015", "there is no link n0 -> n1"),
                ("T015", "link number 1 does not exist; there are 1"),
                ("T016", "a rate of 2 GB/s is left, but the link has 1 GB/s when whole"),
            ]
        );
        assert_eq!(errors[3].help, ["did you mean `switch`?"]);
        assert!(errors.iter().all(|error| error.labels[0].file == "job.toml"));
    }

    #[test]
    fn circuits_are_checked_and_keep_the_shape() {
        let port = |node: &str| PortSpec {
            node: name(node),
            direction: rondo_ir::topology::PortDirection::Duplex,
            rates: link(100),
        };
        let device = |initial: Vec<(u32, u32)>, legal| DeviceSpec {
            name: name("ocs"),
            ports: ["n0", "n1", "n2"].map(port).into(),
            reconfiguration_delay: Delay::from_nanoseconds(10),
            legal,
            initial: Spanned::nowhere(initial),
        };
        let mut spec = TopologySpec::new(TopologyKind::Ring { nodes: 3, bidirectional: true, link: link(1) });
        spec.extra.devices = vec![device(vec![(0, 2), (2, 0)], LegalSpec::AnyMatching)];
        let built = build(&spec, &no_files).unwrap().fabric;
        assert_eq!(built.shape, Shape::Ring { both: true });
        assert_eq!(built.circuits[0].circuits().len(), 2);
        for (initial, legal) in [
            (vec![(0, 9)], LegalSpec::AnyMatching),
            (vec![(0, 1)], LegalSpec::AnyMatching),
            (vec![(0, 1), (1, 0)], LegalSpec::Only(Spanned::nowhere(vec![(0, 2), (2, 0)]))),
            (vec![], LegalSpec::Only(Spanned::nowhere(vec![(0, 7)]))),
            (vec![], LegalSpec::Cycle(vec![Spanned::nowhere(vec![(1, 1)])])),
        ] {
            spec.extra.devices = vec![device(initial, legal)];
            assert_eq!(build(&spec, &no_files).unwrap_err()[0].code, "T013");
        }
    }

    #[test]
    fn an_empty_custom_topology_is_refused() {
        assert_eq!(build(&TopologySpec::new(TopologyKind::Custom), &no_files).unwrap_err()[0].code, "T001");
    }
}
