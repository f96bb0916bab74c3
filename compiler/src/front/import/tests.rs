use rondo_ir::index::{LinkId, NodeId};
use rondo_ir::topology::Hop;

use super::*;
use crate::fabric::Shape;
use crate::topology::testing::check_routes;

fn corpus(name: &str) -> String {
    let path = format!("{}/../tests/corpus/nccl-topo-xml/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

const FILES: [&str; 4] =
    ["azure-ndv4-topo.xml", "azure-ncv4-topo.xml", "aws-p4d-24xl-topo.xml", "rccl-topo_8p_940.xml"];

/// Directed links of each (kind, bytes per second).
fn links(fabric: &Fabric) -> Vec<(LinkKind, u64, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for (index, link) in fabric.topology.links().iter().enumerate() {
        let key = (fabric.kind(LinkId::new(index)), link.capacity.bytes_per_second() / 100_000_000);
        *counts.entry(key).or_insert(0) += 1;
    }
    counts.into_iter().map(|((kind, rate), count)| (kind, rate, count)).collect()
}

fn codes(warnings: &[Diagnostic]) -> Vec<&str> {
    warnings.iter().map(|warning| warning.code).collect()
}

fn gbps(rate: u64) -> Option<Rate> {
    Rate::new(rate * 1_000_000_000)
}

/// Counted in the files by hand: GPUs, bridges, processors; rates by NCCL's formula (lanes · s / 80).
#[test]
fn the_four_real_files_give_what_stands_in_them() {
    use LinkKind::{Pcie, Socket, Xgmi};
    for (name, gpus, others, expected, warned) in [
        // 8 GPUs and 4 bridges at 16 GT/s x16; 4 AMD processors.
        (FILES[0], 8, 4 + 4, vec![(Pcie, 240, 2 * 12), (Socket, 160, 12)], vec!["T110"]),
        // 4 GPUs on 4 AMD processors, speeds empty, every NVLink a self-loop.
        (
            FILES[1],
            4,
            4,
            vec![(Pcie, 120, 2 * 4), (Socket, 160, 12)],
            vec!["T112", "T112", "T112", "T112", "T111", "T110"],
        ),
        // 8 GPUs and 4 bridges at 8 GT/s x16; 2 Skylake processors.
        (FILES[2], 8, 4 + 2, vec![(Pcie, 120, 2 * 12), (Socket, 100, 2)], vec!["T110"]),
        // 8 GPUs, each below 3 bridges at 32 GT/s x16 and with 7 xGMI links; 2 Sapphire Rapids.
        (FILES[3], 8, 24 + 2, vec![(Xgmi, 480, 56), (Pcie, 480, 2 * 32), (Socket, 220, 2)], vec![]),
    ] {
        let imported = import_nccl_xml(name, &corpus(name), &ImportOptions::default()).unwrap();
        let topology = &imported.fabric.topology;
        assert_eq!(topology.compute_nodes().count(), gpus, "{name}");
        assert_eq!(topology.nodes().len(), gpus + others, "{name}");
        assert_eq!(links(&imported.fabric), expected, "{name}");
        assert_eq!(codes(&imported.warnings), warned, "{name}");
        assert_eq!(imported.fabric.shape, Shape::Hosts { per_host: gpus as u32 });
        assert!(imported.warnings.iter().all(|w| w.labels.iter().all(|l| l.file == name)));
        check_routes(&imported.fabric);
        let ranks: Vec<NodeId> = topology.compute_nodes().collect();
        assert_eq!(crate::topology::connectivity(topology, &ranks), None, "{name}");
    }
}

#[test]
fn a_job_adds_the_nvlinks_that_a_file_lacks() {
    for (wiring, count, hops) in [(NvlinkWiring::Switch, 16, 2), (NvlinkWiring::Mesh, 56, 1)] {
        let bandwidth = gbps(300).unwrap();
        let options = ImportOptions { nvlink: Some(NvlinkSpec { wiring, bandwidth }), ..ImportOptions::default() };
        let imported = import_nccl_xml(FILES[0], &corpus(FILES[0]), &options).unwrap();
        assert_eq!(links(&imported.fabric)[0], (LinkKind::NvLink, 3000, count));
        assert!(imported.warnings.is_empty());
        let route = imported.fabric.router.route(NodeId::new(0), NodeId::new(1)).unwrap();
        let nvlink = |hop: &Hop| matches!(hop, Hop::Link(link) if imported.fabric.kind(*link) == LinkKind::NvLink);
        assert_eq!(route.parts[0].hops.len(), hops);
        assert!(route.parts[0].hops.iter().all(nvlink));
    }
}

#[test]
fn several_machines_are_joined_by_the_adapters_of_the_file() {
    let two = ImportOptions { hosts: 2, ..ImportOptions::default() };
    let imported = import_nccl_xml(FILES[3], &corpus(FILES[3]), &two).unwrap();
    assert!(links(&imported.fabric).contains(&(LinkKind::Network, 500, 32)), "16 adapters of 400 Gb/s, both ways");
    check_routes(&imported.fabric);
    // Azure's file names adapters without their speed.
    let errors = import_nccl_xml(FILES[0], &corpus(FILES[0]), &two).unwrap_err();
    assert_eq!(errors[0].code, "T018");
    let network = NetworkSpec { nic_bandwidth: gbps(25), ..NetworkSpec::default() };
    let imported = import_nccl_xml(FILES[0], &corpus(FILES[0]), &ImportOptions { network, ..two }).unwrap();
    assert!(links(&imported.fabric).contains(&(LinkKind::Network, 250, 32)), "16 adapters, both ways");
    check_routes(&imported.fabric);
}

const XML: &str = r#"<?xml version="1.0"?><!-- any -->
<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="0x4f">
    <pci busid="0" class="0x060400" link_speed="SPEED" link_width="16">
      <pci busid="a" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="8">
        <gpu dev="1" sm="90" rank="1"><nvlink target="b" count="4" tclass="0x030200"/><nvlink target="s1" count="2" tclass="0x068000"/><nvlink target="s2" count="2" tclass="0x068000"/></gpu>
      </pci>
      <pci busid="b" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="8">
        <gpu dev="0" sm="90" rank="0"><nvlink target="a" count="4" tclass="0x030200"/><c2c count="1" bw="40000"/></gpu>
      </pci>
      <pci busid="s1" class="0x068000" link_speed="2.5 GT/s" link_width="1"/>
      <pci busid="e" class="0x060400" link_speed="8 GT/s" link_width="16"/>
    </pci>
  </cpu>
</system>"#;

#[test]
fn nvlinks_count_once_a_direction_and_switches_become_one() {
    let text = format!("\u{feff}{}", XML.replace("SPEED", "8 GT/s"));
    let imported = import_nccl_xml("x.xml", &text, &ImportOptions::default()).unwrap();
    assert_eq!(codes(&imported.warnings), Vec::<&str>::new());
    assert_eq!(
        links(&imported.fabric),
        [
            (LinkKind::NvLink, 824, 4), // 4 x 20.6 each way, and 2 + 2 to the one NVSwitch each way
            (LinkKind::C2c, 400, 2),
            (LinkKind::Pcie, 120, 6), // 8 lanes at 16 GT/s, 16 at 8 GT/s; the empty bridge is trimmed
        ]
    );
    // By rank, not in document order: gpu0 is `b`, which has the C2C link to the processor.
    let topology = &imported.fabric.topology;
    let from0 = topology.links_from(NodeId::new(0)).iter().map(|&link| imported.fabric.kind(link));
    assert!(from0.into_iter().any(|kind| kind == LinkKind::C2c));
}

#[test]
fn speeds_that_nccl_misreads_are_named_and_taken_as_meant() {
    for (speed, rate, code) in [
        ("16 GT/s", 240, None),
        ("16.0 GT/s PCIe", 240, None),
        ("16.0 GT/s", 240, Some("T113")),
        ("2.5 GT/s", 30, None),
        ("64.0 GT/s PCIe", 960, None),
        ("warp 9", 120, Some("T112")),
        ("", 120, Some("T112")),
    ] {
        let text = XML.replace("SPEED", speed);
        let imported = import_nccl_xml("x.xml", &text, &ImportOptions::default()).unwrap();
        assert!(links(&imported.fabric).iter().any(|link| (link.0, link.1) == (LinkKind::Pcie, rate)), "{speed}");
        assert_eq!(codes(&imported.warnings), code.into_iter().collect::<Vec<_>>(), "{speed}");
    }
}

#[test]
fn foreign_and_broken_files_are_refused_by_name() {
    let error = |text: &str| import_text("f", text, FileFormat::Auto, &ImportOptions::default()).unwrap_err().remove(0);
    let message = |text: &str| {
        let error = error(text);
        (error.code, error.message)
    };
    assert!(message("<topology version=\"2.0\"/>").1.contains("hwloc"));
    let hwloc = "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\"/>\n";
    assert!(message(hwloc).1.contains("hwloc"), "as hwloc writes it");
    assert!(message("<graphs version=\"1\"/>").1.contains("graph file"));
    assert!(message("<algo name=\"x\"/>").1.contains("MSCCL"));
    assert_eq!(message("<systen/>").0, "T101");
    assert_eq!(message("").1, "the file is empty");
    assert_eq!(message("hello").0, "T101");
    assert_eq!(message("<system version=\"1\"><cpu/></system>").0, "T104");
    assert_eq!(message("<system version=\"1\">").0, "T103");
    assert!(message("<!DOCTYPE a [<!ENTITY b \"c\">]><system>&b;</system>").1.contains("document type"));
    assert_eq!(message(&"<pci>".repeat(100_000)).0, "T102");
    assert_eq!(message(&format!("<system>{}</system>", "<cpu/>".repeat(300_000))).0, "T102");
    assert_eq!(message(&" ".repeat(SIZE_LIMIT + 1)).0, "T101");
    assert_eq!(message(&format!("<{}", " ".repeat(SIZE_LIMIT + 1))).0, "T102");
    let twice = XML.replace("busid=\"b\"", "busid=\"a\"");
    assert_eq!(message(&twice).0, "T106");
    let number = error(&XML.replace("dev=\"1\"", "dev=\"one\""));
    assert_eq!((number.code, number.message.as_str()), ("T105", "`dev` is `one`, which is no whole number"));
    assert_eq!(&XML.replace("dev=\"1\"", "dev=\"one\"")[number.labels[0].start..number.labels[0].end], "one");
}

/// As a terminal prints it: tabs, colour codes, adapters, affinities, legend.
fn dgx(nvlinks: u32) -> String {
    let mut text = String::from(
        "$ nvidia-smi topo -m\n\t\u{1b}[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m\n",
    );
    for gpu in 0..4 {
        text += &format!("GPU{gpu}");
        for other in 0..4 {
            text += &if gpu == other { "\t X ".to_owned() } else { format!("\tNV{nvlinks}") };
        }
        text += if gpu < 2 { "\tPXB\tSYS\t0-23,96-119\t0\t\tN/A\n" } else { "\tSYS\tPIX\t24-47,120-143\t1\t\tN/A\n" };
    }
    text + "NIC0\tPXB\tPXB\tSYS\tSYS\t X \tSYS\nNIC1\tSYS\tSYS\tPIX\tPIX\tSYS\t X \n\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
}

#[test]
fn a_matrix_alone_gives_nvlinks_and_with_a_rate_pcie() {
    let options = ImportOptions { nvlink_bandwidth: gbps(25), ..ImportOptions::default() };
    // 3 x 4 = 12 links a GPU: direct.
    let direct = import_text("m", &dgx(4), FileFormat::Auto, &options).unwrap();
    assert_eq!(links(&direct.fabric), [(LinkKind::NvLink, 1000, 12)]);
    check_routes(&direct.fabric);
    // 3 x 12 = 36 links: more than a GPU has, so each has 12 to the switches.
    let switched = import_nvidia_smi("m", &dgx(12), &options).unwrap();
    assert_eq!(links(&switched.fabric), [(LinkKind::NvLink, 3000, 8)]);
    assert_eq!(codes(&switched.warnings), ["T112"]);
    check_routes(&switched.fabric);
    let options = ImportOptions { pcie_bandwidth: gbps(24), ..options };
    let whole = import_nvidia_smi("m", &dgx(12), &options).unwrap();
    let names: Vec<&str> = whole.fabric.topology.nodes().iter().map(|node| node.name.as_str()).collect();
    assert!(names.contains(&"cpu0") && names.contains(&"cpu1") && names.contains(&"pcie0"), "{names:?}");
    check_routes(&whole.fabric);
    let network = NetworkSpec { nic_bandwidth: gbps(25), ..NetworkSpec::default() };
    let two = import_nvidia_smi("m", &dgx(12), &ImportOptions { hosts: 2, network, ..options }).unwrap();
    assert!(links(&two.fabric).contains(&(LinkKind::Network, 250, 8)));
    check_routes(&two.fabric);
}

#[test]
fn a_matrix_without_rates_says_what_to_type() {
    let error = |text: &str| import_nvidia_smi("m", text, &ImportOptions::default()).unwrap_err().remove(0);
    assert_eq!(error(&dgx(12)).code, "T121");
    assert_eq!(error(&dgx(12)).help, ["write for example `nvlink_bandwidth = \"25 GB/s\"`"]);
    let pcie = dgx(12).replace("NV12", "SYS");
    assert_eq!(error(&pcie).code, "T123");
    let bad = error(&dgx(12).replace("PXB", "PXX"));
    assert_eq!((bad.code, bad.message.as_str()), ("T120", "`PXX` is no cell of a matrix"));
    let short = dgx(12).replacen("\tPIX\t24-47,120-143\t1\t\tN/A", "", 1);
    assert!(error(&short).message.contains("has 5 cells, but there are 6 columns"), "{}", error(&short).message);
    let missing = dgx(12).replace("GPU3\tNV", "GPUX\tNV");
    assert_eq!(error(&missing).message, "the matrix has no row for GPU3");
    assert_eq!(error("nothing").code, "T120");
}

#[test]
fn a_matrix_is_added_to_a_file() {
    let mut matrix = String::from("\tGPU0\tGPU1\tGPU2\tGPU3\n");
    // Pairs 0-1 and 2-3, as NVLink bridges join them.
    for gpu in 0..4_usize {
        let cell = |other: usize| {
            if gpu == other {
                "X"
            } else if gpu ^ 1 == other {
                "NV12"
            } else {
                "SYS"
            }
        };
        matrix += &format!("GPU{gpu}\t{}\n", (0..4).map(cell).collect::<Vec<_>>().join("\t"));
    }
    let xml = corpus(FILES[1]);
    let imported = combine((FILES[1], &xml), ("m", &matrix), &ImportOptions::default()).unwrap();
    // sm 80: 20 GB/s a link.
    assert_eq!(links(&imported.fabric)[0], (LinkKind::NvLink, 2400, 4));
    let hops =
        |a: usize, b: usize| imported.fabric.router.route(NodeId::new(a), NodeId::new(b)).unwrap().parts[0].hops.len();
    assert_eq!((hops(0, 1), hops(0, 2)), (1, 3));
    let errors = combine((FILES[0], &corpus(FILES[0])), ("m", &matrix), &ImportOptions::default()).unwrap_err();
    assert_eq!(errors[0].message, "the matrix has 4 GPUs, but `azure-ndv4-topo.xml` has 8");
}

/// Where a file has no device numbers, row i is the GPU with the i-th bus id: Azure's document order is another one.
#[test]
fn rows_of_a_matrix_are_in_bus_order() {
    let mut matrix = (0..8).map(|gpu| format!("GPU{gpu} ")).collect::<String>() + "\n";
    for gpu in 0..8_usize {
        let cell = |other: usize| {
            if gpu == other {
                "X"
            } else if gpu ^ 1 == other {
                "NV4"
            } else {
                "SYS"
            }
        };
        matrix += &format!("GPU{gpu} {}\n", (0..8).map(cell).collect::<Vec<_>>().join(" "));
    }
    let options = ImportOptions { nvlink_bandwidth: gbps(25), ..ImportOptions::default() };
    let imported = combine((FILES[0], &corpus(FILES[0])), ("m", &matrix), &options).unwrap();
    let topology = &imported.fabric.topology;
    let joined =
        topology.links().iter().enumerate().filter(|(l, _)| imported.fabric.kind(LinkId::new(*l)) == LinkKind::NvLink);
    let pairs: Vec<_> = joined.map(|(_, link)| (link.src.index(), link.dst.index())).collect();
    // Document: 0003 0004 0001 0002 000d 000e 000b 000c; bus order: gpu2 gpu3 gpu0 gpu1 gpu6 gpu7 gpu4 gpu5.
    assert_eq!(pairs, [(0, 1), (1, 0), (2, 3), (3, 2), (4, 5), (5, 4), (6, 7), (7, 6)]);
}

#[test]
fn a_file_named_in_a_job_is_read_by_the_caller() {
    let read = |path: &str| {
        if path == "ndv4.xml" { Ok(corpus(FILES[0])) } else { Err(std::io::Error::from(std::io::ErrorKind::NotFound)) }
    };
    let spec = |path: &str| FileSpec {
        path: crate::span::Spanned::new(path.to_owned(), crate::span::Span { start: 5, end: 9 }),
        format: FileFormat::Auto,
        matrix: None,
        nvlink_bandwidth: None,
        pcie_bandwidth: None,
        latency: None,
        nvlink: None,
        hosts: 1,
        network: NetworkSpec::default(),
    };
    assert_eq!(import_file("job.toml", &spec("ndv4.xml"), &read).unwrap().fabric.topology.compute_nodes().count(), 8);
    let errors = import_file("job.toml", &spec("none.xml"), &read).unwrap_err();
    assert_eq!((errors[0].code, errors[0].labels[0].file.as_str(), errors[0].labels[0].start), ("T100", "job.toml", 5));
}

/// Cuts, flips, repeats and drops bytes: any answer will do but a panic.
#[test]
fn mutated_files_never_panic() {
    let options = ImportOptions { nvlink_bandwidth: gbps(25), pcie_bandwidth: gbps(24), ..ImportOptions::default() };
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    let mut sources: Vec<String> = FILES.iter().map(|name| corpus(name)).collect();
    sources.extend([dgx(4), dgx(12)]);
    for source in &sources {
        for _ in 0..300 {
            let mut bytes = source.clone().into_bytes();
            for _ in 0..=random(4) {
                let (at, length) = (random(bytes.len()), random(40));
                let end = (at + length).min(bytes.len());
                match random(5) {
                    0 => bytes.truncate(at),
                    1 => drop(bytes.drain(at..end)),
                    2 => bytes[at] = b"<>/\"=0 X\t\n\x1b\xff9"[random(13)],
                    3 => {
                        let piece = bytes[at..end].to_vec();
                        let to = random(bytes.len());
                        bytes.splice(to..to, piece);
                    }
                    _ => bytes[at] ^= 1 << random(8),
                }
                if bytes.is_empty() {
                    break;
                }
            }
            let text = String::from_utf8_lossy(&bytes);
            for format in FileFormat::ALL {
                if let Err(errors) = import_text("f", &text, format, &options) {
                    assert!(!errors.is_empty());
                    for label in errors.iter().flat_map(|error| &error.labels) {
                        assert!(text.get(label.start..label.end).is_some(), "{label:?}");
                    }
                }
            }
        }
    }
}
