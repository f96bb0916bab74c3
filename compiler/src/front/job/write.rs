//! Writes a topology as the `[topology]` section of a job file.

use std::fmt::Write as _;

use rondo_ir::index::LinkId;
use rondo_ir::topology::{Node, NodeKind, Topology};

/// The topology as a `custom` section: reading it back gives the same nodes, links and media in the same order.
///
/// Devices and links that are down are not written; imported machines have none.
#[must_use]
pub fn write_topology(topology: &Topology) -> String {
    let text = |name: &str| toml::Value::from(name).to_string();
    let mut out = String::new();
    let _ = writeln!(out, "[topology]\nkind = \"custom\"\nname = {}", text(topology.name()));
    for node in topology.nodes() {
        let Node { name, kind, forwards, multicasts, reduces, injection, ejection, throughput } = node;
        let _ = writeln!(out, "\n[[topology.node]]\nname = {}", text(name));
        let switch = *kind == NodeKind::Switch;
        if switch {
            out.push_str("kind = \"switch\"\n");
        }
        if *forwards != switch {
            let _ = writeln!(out, "forwards = {forwards}");
        }
        for (key, value) in [("multicasts", multicasts), ("reduces", reduces)] {
            if *value {
                let _ = writeln!(out, "{key} = true");
            }
        }
        for (key, rate) in [("injection", injection), ("ejection", ejection), ("throughput", throughput)] {
            if let Some(rate) = rate {
                let _ = writeln!(out, "{key} = \"{rate}\"");
            }
        }
    }
    let name = |node| text(&topology.node(node).name);
    for link in topology.links().iter().filter(|link| link.up) {
        let _ = writeln!(
            out,
            "\n[[topology.link]]\nfrom = {}\nto = {}\ncapacity = \"{}\"\nlatency = \"{}\"\nboth = false",
            name(link.src),
            name(link.dst),
            link.capacity,
            link.latency
        );
    }
    for medium in topology.media() {
        let pairs: Vec<_> = medium
            .links
            .iter()
            .map(|&link: &LinkId| format!("[{}, {}]", name(topology.link(link).src), name(topology.link(link).dst)))
            .collect();
        let _ = writeln!(
            out,
            "\n[[topology.medium]]\nname = {}\ncapacity = \"{}\"\nlinks = [{}]",
            text(&medium.name),
            medium.capacity,
            pairs.join(", ")
        );
    }
    out
}
