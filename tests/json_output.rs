//! The output of every command as JSON is what `docs/json-output.md` says: no key more, no key less, each of its type. And
//! everything that the page describes is met: every key, every word of a list of words, every `null`.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{path, rondo_with, with_attribute};
use serde_json::Value;

/// What the page says of a value.
enum Kind {
    Text,
    Integer,
    Number,
    Bool,
    /// One of these texts.
    Words(Vec<String>),
    /// An object with the keys of that table.
    Shape(String),
    List(Box<Kind>),
    OrNull(Box<Kind>),
}

impl Kind {
    fn parse(text: &str) -> Self {
        if let Some(rest) = text.strip_suffix(" or null") {
            return Self::OrNull(Box::new(Self::parse(rest)));
        }
        if let Some(rest) = text.strip_prefix("list of ") {
            return Self::List(Box::new(Self::parse(rest)));
        }
        if let Some(rest) = text.strip_prefix('[') {
            let (name, link) = rest.strip_suffix(')').and_then(|rest| rest.split_once("](#")).expect("a link");
            assert_eq!(name, link, "a type links to its table");
            return Self::Shape(name.to_owned());
        }
        match text {
            "text" => Self::Text,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "true or false" => Self::Bool,
            words => Self::Words(
                words
                    .split(", ")
                    .map(|word| {
                        let word = word.strip_prefix("`\"").and_then(|word| word.strip_suffix("\"`"));
                        word.unwrap_or_else(|| panic!("no type: {text}")).to_owned()
                    })
                    .collect(),
            ),
        }
    }
}

/// The tables of the page: heading → rows.
struct Page {
    shapes: BTreeMap<String, Vec<(String, Kind)>>,
    /// The table of checks.
    checks: BTreeSet<String>,
}

impl Page {
    fn read() -> Self {
        let text = std::fs::read_to_string(path("docs/json-output.md")).unwrap();
        let (mut shapes, mut checks) = (BTreeMap::<String, Vec<(String, Kind)>>::new(), BTreeSet::new());
        let (mut heading, mut table) = ("", "");
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("### ") {
                heading = name;
            }
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            match &cells[..] {
                ["", first @ ("key" | "check" | "status"), _, _, ""] => table = first,
                ["", "---", ..] => {}
                ["", key, kind, _, ""] if table == "key" => {
                    let key = key.trim_matches('`').to_owned();
                    let rows = shapes.entry(heading.to_owned()).or_default();
                    assert!(rows.iter().all(|(other, _)| *other != key), "{heading}: {key} stands there twice");
                    rows.push((key, Kind::parse(kind)));
                }
                ["", names, _, _, ""] if table == "check" => {
                    checks.extend(names.split(", ").map(|name| name.trim_matches('`').to_owned()));
                }
                ["", ..] => {}
                _ => table = "",
            }
        }
        Self { shapes, checks }
    }
}

/// Compares reports with the page, and keeps what was met.
struct Reader<'a> {
    page: &'a Page,
    met: BTreeSet<String>,
}

impl<'a> Reader<'a> {
    fn shape(&mut self, context: &str, shape: &str, value: &Value) {
        let page: &'a Page = self.page;
        let object = value.as_object().unwrap_or_else(|| panic!("{context}: {shape} is no object: {value}"));
        let rows = page.shapes.get(shape).unwrap_or_else(|| panic!("the page has no table `{shape}`"));
        for key in object.keys() {
            assert!(rows.iter().any(|(known, _)| known == key), "{context}: the page leaves out `{key}` of {shape}");
        }
        for (key, kind) in rows {
            let found = object.get(key).unwrap_or_else(|| panic!("{context}: {shape} has no `{key}`: {value}"));
            self.value(context, &format!("{shape}.{key}"), kind, found);
        }
        if shape == "check" {
            let name = object["name"].as_str().unwrap();
            assert!(page.checks.contains(name), "{context}: the page leaves out the check `{name}`");
            self.met.insert(format!("check {name}"));
        }
    }

    fn value(&mut self, context: &str, at: &str, kind: &Kind, value: &Value) {
        let (fits, met) = match kind {
            Kind::Text => (value.is_string(), at.to_owned()),
            Kind::Integer => (value.is_u64(), at.to_owned()),
            Kind::Number => (value.is_number(), at.to_owned()),
            Kind::Bool => (value.is_boolean(), format!("{at} = {value}")),
            Kind::Words(words) => (words.iter().any(|word| value.as_str() == Some(word)), format!("{at} = {value}")),
            Kind::OrNull(_) if value.is_null() => (true, format!("{at} = null")),
            Kind::OrNull(kind) => return self.value(context, at, kind, value),
            Kind::List(kind) => {
                let list = value.as_array().unwrap_or_else(|| panic!("{context}: {at} is no list: {value}"));
                return list.iter().for_each(|value| self.value(context, at, kind, value));
            }
            Kind::Shape(shape) => {
                self.shape(context, shape, value);
                (true, at.to_owned())
            }
        };
        assert!(fits, "{context}: {at} is not what the page says: {value}");
        self.met.insert(met);
    }
}

/// What has to be met for a key, so that nothing on the page is idle.
fn wanted(at: &str, kind: &Kind, into: &mut BTreeSet<String>) {
    match kind {
        Kind::Text | Kind::Integer | Kind::Number | Kind::Shape(_) => drop(into.insert(at.to_owned())),
        Kind::Bool => into.extend(["true", "false"].map(|value| format!("{at} = {value}"))),
        Kind::Words(words) => into.extend(words.iter().map(|word| format!("{at} = \"{word}\""))),
        Kind::List(kind) => wanted(at, kind, into),
        Kind::OrNull(kind) => {
            into.insert(format!("{at} = null"));
            wanted(at, kind, into);
        }
    }
}

/// Runs a command; its output.
#[track_caller]
fn report(arguments: &[&str], stdin: &str, status: i32) -> Value {
    let arguments = [arguments, &["--output-format", "json"]].concat();
    let run = rondo_with(&arguments, stdin.as_bytes()).expect(status);
    assert!(run.stdout.ends_with("}\n") || run.stdout.ends_with("]\n"), "{arguments:?}: {}", run.stdout);
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", run.stdout))
}

/// A job on a switch.
fn switch(nodes: u32, more: &str, collective: &str) -> String {
    format!(
        "[topology]\nkind = \"switch\"\nnodes = {nodes}\nbandwidth = \"25 GB/s\"\nlatency = \"1 us\"\n{more}\n\
         [collective]\n{collective}\n"
    )
}

const RING: &str = "examples/ring8/job.toml";
const CORPUS: &str = "tests/corpus/msccl-xml";
const TWO: &str = "[topology]\nkind = \"custom\"\nnode = [{ name = \"a\" }, { name = \"b\" }]\n";

const UNDECIDED: &str =
    if cfg!(feature = "smt") { "threshold-proof.answer = \"unknown\"" } else { "threshold-proof.answer = \"proved\"" };

/// What no command line of this test leads to, and why.
const OUT_OF_REACH: [(&str, &str); 13] = [
    ("explain.messages", "nothing can go wrong while a code is explained"),
    ("ocs-plan.messages", "only jobs that name a file have warnings, and circuits are in no file"),
    ("ocs-program.messages", "a plan that is right has no warnings, and a wrong one has no program"),
    ("thresholds.messages", "only jobs that name a file have warnings, and circuits are in no file"),
    ("threshold-proof.answer = \"refuted\"", "a rule that is not best would be a fault of Rondo"),
    (UNDECIDED, "the solver decides these questions, and without it nothing is proved"),
    ("reproduce-all.messages", "nothing can go wrong while items are listed"),
    ("compare.messages", "warnings are those of jobs that name a file, which `compile` shows"),
    ("training.messages", "warnings are those of jobs that name a file, which `compile` shows"),
    ("reproduce-sheet.messages", "nothing can go wrong that does not end it"),
    ("reproduce.messages", "nothing can go wrong that does not end it"),
    ("place.column = null", "a file would have to vanish while it is judged"),
    ("place.line = null", "a file would have to vanish while it is judged"),
];

#[test]
fn every_key_is_on_the_page_and_every_key_of_the_page_is_met() {
    let page = Page::read();
    let mut reader = Reader { page: &page, met: BTreeSet::new() };
    let folder = tempfile::tempdir().unwrap();
    let name = |name: &str| folder.path().join(name).display().to_string();
    let write = |file: &str, text: &str| {
        std::fs::write(folder.path().join(file), text).unwrap();
        name(file)
    };
    let (plan, xml, set) = (name("plan.json"), name("plan.xml"), name("set"));
    let mut expect = |shape: &str, arguments: &[&str], stdin: &str, status: i32| {
        let value = report(arguments, stdin, status);
        let context = arguments.join(" ");
        match value.as_array() {
            Some(list) => list.iter().for_each(|entry| reader.shape(&context, shape, entry)),
            None => reader.shape(&context, shape, &value),
        }
    };

    // compile
    let emit = format!("msccl-xml:azure={xml}");
    expect("compile", &["compile", RING, "-o", &plan, "--emit", &emit], "", 0);
    let nothing = switch(1, "", "kind = \"all_reduce\"\nbuffer_size = \"4 KiB\"\nin_place = true");
    expect("compile", &["compile", "-"], &nothing, 0);
    let rest = switch(3, "", "kind = \"all_to_all\"\nbuffer_size = \"44 B\"");
    expect("compile", &["compile", "-"], &rest, 0);
    let rooted = switch(3, "", "kind = \"broadcast\"\nbuffer_size = \"4 KiB\"\nroot = 1");
    expect("compile", &["compile", "-"], &rooted, 0);
    let huge = switch(4, "throughput = \"10 GB/s\"\n", "kind = \"all_to_all\"\nbuffer_size = \"16777212 TiB\"");
    expect("compile", &["compile", "-", "--algorithm", "direct", "--no-smt"], &huge, 0);

    expect("compile", &["compile", "examples/ocs-ring-32.toml"], "", 0);
    expect("compile", &["compile", "examples/ocs-ring-32.toml", "--algorithm", "ring"], "", 0);
    expect("compile", &["compile", "examples/ocs-ring-32.toml", "--algorithm", "swing"], "", 0);

    // thresholds
    for algorithm in ["halving-doubling", "swing"] {
        expect("thresholds", &["thresholds", "examples/ocs-ring-32.toml", "--algorithm", algorithm], "", 0);
    }
    let big = std::fs::read_to_string(path("examples/ocs-ring-32.toml")).unwrap().replace("nodes = 32", "nodes = 256");
    expect("thresholds", &["thresholds", "-"], &big, 0);

    // ocs
    expect("ocs-plan", &["ocs", "plan", "examples/ocs-ring-32.toml"], "", 0);
    let switched = name("switched.json");
    expect("compile", &["compile", "examples/ocs-ring-32.toml", "-o", &switched], "", 0);
    expect("ocs-program", &["ocs", "program", &switched], "", 0);
    // A permutation for which circuits are set at once.
    let jump = "[topology]\nkind = \"optical-ring\"\nnodes = 4\ndesign = \"single-port\"\nbandwidth = \"1 GB/s\"\n\
                technology = \"photonic-mems\"\n\n[collective]\nkind = \"send_receive\"\nbuffer_size = \"4 KiB\"\n\
                targets = [2, 3, 0, 1]\n";
    let jump = report(&["compile", "-", "-o", &switched], jump, 0);
    assert_eq!(jump["circuits"]["changes"], 1);
    expect("ocs-program", &["ocs", "program", &switched], "", 0);

    // compile, a range of sizes
    let emit = format!("msccl-xml:rccl={set}");
    expect("compile-set", &["compile", "examples/size-range/job.toml", "--emit", &emit], "", 0);

    // verify
    let text = std::fs::read_to_string(&plan).unwrap();
    let broken = write("broken.json", &text.replacen("\"copy\"", "\"reduce\"", 1));
    let dearer = write("dearer.json", &text.replacen("\"time\":", "\"time\":\"1/1\",\"was\":", 1));
    expect("verify", &["verify", &plan, &broken, &dearer, "tests/plans", "tests/corpus/mscclpp-json"], "", 1);
    expect("verify", &["verify", &xml, "--against", &plan], "", 0);
    expect("verify", &["verify", &xml, "--runtime", "rccl"], "", 1);
    expect("verify", &["verify", &xml, "--runtime", "unlimited"], "", 1);
    let lines = std::fs::read_to_string(&xml).unwrap();
    let first = lines.lines().next().unwrap();
    let never = write("never.xml", &lines.replacen(first, &with_attribute(first, "maxBytes", "0"), 1));
    // Two threadblocks at one end of a connection.
    let shared = write("shared.xml", &lines.replacen("send=\"1\" recv=\"-1\"", "send=\"1\" recv=\"1\"", 1));
    expect("verify", &["verify", &never, &shared], "", 1);
    let text = std::fs::read_to_string(path(CORPUS).join("rccl-alltoall-8n-0-9kb.xml")).unwrap();
    let in_place = write("in-place.xml", &text.replacen(" inplace=\"0\"", " inplace=\"1\"", 1));
    let text = std::fs::read_to_string(path("tests/corpus/mscclpp-json/allreduce_packet.json")).unwrap();
    let wraps = write("wraps.json", &text.replacen("\"reuse_resources\": false", "\"reuse_resources\": true", 1));
    expect("verify", &["verify", &in_place, &wraps], "", 3);
    let topology = "tests/corpus/nccl-topo-xml/azure-ndv4-topo.xml";
    expect("verify", &["verify", CORPUS, RING, topology, "README.md", "/no/such/file.xml"], "", 2);
    expect("verify", &["verify", &broken, "--certificate", &name("proof.smt2")], "", 1);

    // export
    expect("export", &["export", &plan, "--to", "msccl-xml:azure", "-o", &xml], "", 0);

    // cost
    expect("cost", &["cost", RING], "", 0);
    expect("cost", &["cost", "-"], &nothing, 0);
    expect("cost", &["cost", "examples/size-range/job.toml"], "", 0);
    // The file has no NVLinks, which gives a warning.
    let ring = write(
        "ring.toml",
        &format!(
            "[topology]\nfile = \"{}\"\n\n[collective]\nkind = \"all_reduce\"\nbuffer_size = \"1 MiB\"\n\n\
         [compile]\nalgorithm = \"ring\"\n",
            path(topology).display()
        ),
    );
    let line = |bytes: u64, time: u64| format!("{bytes} {} float sum -1 {time} 1 1 0 {time} 1 1 0\n", bytes / 4);
    let measured = write("measured.txt", &[line(1024, 90), line(1 << 20, 170), line(1 << 24, 1200)].concat());
    expect("calibrate", &["cost", &ring, "--calibrate", &measured], "", 0);
    let plain = write(
        "plain.toml",
        "[topology]\nkind = \"ring\"\nnodes = 8\nbandwidth = \"1 GB/s\"\n\n[collective]\nkind = \"all_reduce\"\nbuffer_size = \"1 MiB\"\n",
    );
    let [first, second] = ["ring", "halving-doubling"].map(|name| format!("{name}={measured}"));
    expect("calibrate", &["cost", &plain, "--calibrate", &first, "--calibrate", &second], "", 0);

    // topology show
    for file in [RING, topology, "tests/corpus/nccl-topo-xml/rccl-topo_8p_940.xml"] {
        expect("topology-show", &["topology", "show", file], "", 0);
    }
    let many = "[topology]\nkind = \"switch\"\nnodes = 1025\nbandwidth = \"25 GB/s\"\n";
    expect("topology-show", &["topology", "show", "-"], many, 0);
    expect("topology-show", &["topology", "show", "-"], TWO, 0);
    let device =
        "[[topology.device]]\nname = \"ocs\"\ndelay = \"10 us\"\nports = [{ node = \"a\", capacity = \"50 GB/s\" }]\n";
    expect("topology-show", &["topology", "show", "-"], &format!("{TWO}{device}"), 0);
    for preset in ["gb200-nvl72", "dgx-a100"] {
        let job = format!("[topology]\npreset = \"{preset}\"\nhosts = 2\n");
        expect("topology-show", &["topology", "show", "-"], &job, 0);
    }

    expect("reproduce-sheet", &["reproduce", "topology-table8"], "", 0);
    expect("reproduce-sheet", &["reproduce", "topology-fig2", "-o", &name("sheets")], "", 0);

    // compare, training
    let designs = ["clos", "torus", "hybrid"].map(|name| path(&format!("examples/clos-or-torus/{name}.toml")));
    let designs = designs.each_ref().map(|design| design.to_str().unwrap());
    for price in ["linear", "quadratic"] {
        expect("compare", &["compare", designs[0], designs[1], designs[2], "--price", price], "", 0);
    }
    let prices = write("prices.csv", "4,100\n8,900\n");
    expect("compare", &["compare", designs[0], "--price", &prices, "-o", &name("compared")], "", 0);
    let full = write(
        "full.toml",
        "[topology]\nkind = \"clos\"\ntiers = 3\nradix = 4\nbandwidth = \"1 GB/s\"\nlatency = \"1 us\"\n\n[collective]\n\
         kind = \"reduce_scatter\"\nbuffer_size = \"64 KiB\"\n",
    );
    expect("compare", &["compare", &full], "", 0);
    let large = write(
        "large.toml",
        "[topology]\nkind = \"torus\"\nsides = [16, 16, 8]\nbandwidth = \"1 GB/s\"\n\n[collective]\n\
         kind = \"all_gather\"\nbuffer_size = \"64 KiB\"\n",
    );
    expect("compare", &["compare", &large], "", 0);
    write("small.toml", "[topology]\nkind = \"torus\"\nsides = [2, 4, 4]\nbandwidth = \"1 GB/s\"\n");
    let training = write(
        "training.toml",
        "[model]\nname = \"m\"\nsequence = 64\nhidden = 64\nlayers = 4\nmicro_batch = 1\nparameters = 100000\n\n\
         [parallelism]\ntensor = 2\npipeline = 2\ndata = 4\nexpert = 2\n\n[[network]]\nname = \"t\"\nfile = \"small.toml\"\n",
    );
    expect("training", &["training", &training], "", 0);

    // sweep
    let sweep = ["sweep", "--nodes", "8", "--size", "1 kB,1 GB", "--reconfiguration", "100 ns,15 ms"];
    for collective in ["reduce_scatter", "all_gather", "all_reduce"] {
        let more = ["--algorithm", "swing,halving-doubling", "--collective", collective, "-o", &name("sweep")];
        expect("sweep", &[&sweep[..], &more].concat(), "", 0);
    }

    let many = ["--size", "1 kB..1 GB/20", "--startup", "0 s..1 us/4", "--hop-delay", "1 us,2 us"];
    expect("sweep", &[&sweep[..3], &many, &sweep[5..], &["-o", &name("points")]].concat(), "", 0);

    // reproduce
    expect("reproduce-all", &["reproduce"], "", 0);
    expect("reproduce", &["reproduce", "shortcut-claims"], "", 0);
    expect("reproduce", &["reproduce", "shortcut-fig6", "-o", &name("figures")], "", 0);

    // explain
    expect("explain", &["explain", "V004"], "", 0);
    expect("explain-all", &["explain"], "", 0);

    // errors
    expect("errors", &["export", &broken, "--to", "json", "-o", "-"], "", 1);
    expect("errors", &["compile", "-"], "[topology]\nkind = \"rign\"\n", 2);
    expect("errors", &["compile", "examples/torus4x4/job.toml", "--require-smt", "--smt-ranks", "2"], "", 3);
    expect("errors", &["compile", RING, "--nonsense"], "", 2);
    expect("errors", &["explain", "Q999"], "", 2);
    expect("errors", &["verify", &plan, "--certificate", "/no/such/folder/proof.smt2"], "", 2);

    let mut missing = BTreeSet::new();
    for (shape, rows) in &page.shapes {
        for (key, kind) in rows {
            wanted(&format!("{shape}.{key}"), kind, &mut missing);
        }
    }
    missing.extend(page.checks.iter().map(|name| format!("check {name}")));
    missing.retain(|wanted| !reader.met.contains(wanted));
    if cfg!(not(feature = "smt")) {
        missing.retain(|wanted| !wanted.starts_with("check smt-"));
    }
    for (wanted, reason) in OUT_OF_REACH {
        assert!(missing.remove(wanted), "{wanted} is met, although {reason}");
    }
    assert!(missing.is_empty(), "on the page, and in no report: {missing:#?}");
}
