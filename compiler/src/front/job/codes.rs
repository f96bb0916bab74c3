//! What `rondo explain` says about the codes of job files.

use rondo_ir::diagnostic::CodeEntry;

macro_rules! codes {
    ($($code:literal $title:literal $explanation:literal)*) => {
        /// The codes of job files: J (the file), C (the collective and who takes part), T050 … T069 (topology parameters).
        pub const CODES: &[CodeEntry] = &[$(CodeEntry { code: $code, title: $title, explanation: $explanation }),*];
    };
}

codes! {
    "J001" "the file is no TOML"
    "The text does not follow the rules of TOML 1.0, so it cannot be read at this place. The usual causes: a text or a \
quantity without quotes, a section header without its closing bracket, or a file that was cut off.

    buffer_size = 1 MiB        # wrong
    buffer_size = \"1 MiB\"      # right

All places with such faults are reported; what stands on those lines is not looked at further."
    "J002" "a key is given twice"
    "A table holds each key once. Rondo will not guess which of two values is meant. To list several nodes or links, write \
one [[topology.link]] in double brackets for each.

    [collective]
    kind = \"all_reduce\"
    kind = \"all_gather\"       # wrong: delete one of the two"
    "J003" "unknown key"
    "The table has no such key. A misspelt key that were silently ignored would change what is computed, so it is an error. \
The message names the nearest key that exists and lists all of them; the reference (docs/job-reference.md) explains each.

    [topology]
    kind = \"ring\"
    node_count = 8             # wrong: the key is `nodes`"
    "J004" "a needed key or section is missing"
    "Some keys have no sensible default: the kind of a topology, the rate of its links, the size of a message. The help line \
shows what could stand there.

    [topology]
    kind = \"ring\"
    nodes = 8                  # wrong: `bandwidth` is missing
    bandwidth = \"25 GB/s\"      # right"
    "J005" "a key that means nothing for this kind"
    "The key exists, but not for the kind that the table describes; for example, a ring has no `sides`, and an all_reduce has no \
`root`. Either the kind or the key is not the one you meant.

    [topology]
    kind = \"ring\"
    sides = [4, 4]             # wrong: belongs to torus or grid"
    "J006" "a value of the wrong type"
    "Each key takes one type of value: a text in quotes, a whole number, true or false, a list in brackets, or a table.

    nodes = \"8\"                # wrong: a text
    nodes = 8                  # right: a whole number"
    "J007" "a section that this version does not read"
    "The name is reserved for something that a later version will do. It is refused rather than ignored, so that nobody believes \
it had an effect.

    [job]                      # wrong in this version"
    "J008" "a value out of range"
    "The value has the right type, but not a value that makes sense; the message says which values do.

    radix = 0                  # wrong: at least 1"
    "J009" "a number without its unit"
    "A bare number could be bytes or elements, bits or bytes, seconds or microseconds: mistakes of that sort are a factor of \
8 or of a million and go unnoticed. So every quantity is a text with its unit.

    bandwidth = 25             # wrong: 25 what?
    bandwidth = \"25 GB/s\"      # right; \"200 Gbps\" is the same in bits
    latency = \"700 ns\"
    buffer_size = \"4 MiB\""
    "J010" "not a quantity"
    "The text is not a number with a unit of the right sort. GB is 10^9 bytes and GiB is 2^30 bytes; a small b means bits. Rates \
are at least 1 B/s: a link that carries nothing is left out, or listed under [failures].

    bandwidth = \"0 GB/s\"       # wrong
    bandwidth = \"25 us\"        # wrong: a time"
    "J011" "a range that ends before it begins"
    "A range of sizes is written from the smaller to the larger end; both belong to it.

    buffer_size = \"4 GiB..1 KiB\"     # wrong
    buffer_size = \"1 KiB..4 GiB\"     # right"
    "J012" "an unknown word"
    "The key takes one of a few words, in quotes and in lower case unless shown otherwise. The message lists all of them and names \
the nearest.

    kind = \"allreduce\"         # wrong
    kind = \"all_reduce\"        # right"
    "J013" "no size, or two"
    "The size of a collective is given exactly once: as `buffer_size`, the larger of a rank's input and output buffers (what \
nccl-tests prints), or as `block_size`, the part that belongs to one peer (buffer_size divided by the number of ranks), or, for \
all_to_all only, as a `matrix` of all blocks. Two of them could contradict each other.

    [collective]
    kind = \"all_gather\"
    buffer_size = \"8 MiB\"
    block_size = \"1 MiB\"       # wrong: delete one of the two"
    "J014" "the file is no text"
    "A job file is TOML, and TOML is UTF-8 text. The file holds a byte sequence that is none: probably it is another file (a \
compressed or compiled one), or it was saved in another encoding."
    "J015" "an empty file"
    "There is nothing in the file but blanks and comments. The smallest job is:

    [topology]
    kind = \"ring\"
    nodes = 8
    bandwidth = \"25 GB/s\"

    [collective]
    kind = \"all_reduce\"
    buffer_size = \"1 MiB\""
    "J016" "a plan file that serves no call"
    "A runtime uses a plan for calls in place, out of place, or both. With both switched off it would never be used.

    [export]
    in_place = false
    out_of_place = false       # wrong: at least one is true"
    "J017" "two exports for one runtime"
    "The options of [[export]] hold for the file that --emit writes for that runtime, so there can be one table a runtime.

    [[export]]
    runtime = \"azure\"
    [[export]]
    runtime = \"azure\"           # wrong: a second one"
    "J099" "too many errors"
    "After fifty errors the rest is only counted. Usually one cause stands behind them, such as a file of another kind."
    "C001" "no rank"
    "A collective needs at least one rank. One is enough: its schedule is empty. Ranks live on compute nodes; `ranks` and \
[placement] choose among these.

    ranks = []                 # wrong
    ranks = [\"n0\", \"n1\"]       # right; or leave the key out: then every compute node takes part"
    "C002" "the root is no rank"
    "`root` is the number of a rank, counted from 0 in the order in which the ranks are listed, or the name of its node.

    ranks = 4
    root = 4                   # wrong: ranks are 0 to 3"
    "C003" "not a whole number of elements"
    "Sizes are multiples of the element (4 bytes for the default float32). They need not be multiples of the number of ranks: then \
some blocks have one element more than others.

    dtype = \"float32\"
    buffer_size = \"1001 B\"     # wrong: write \"1000 B\" or \"1004 B\""
    "C004" "not one entry for each rank"
    "`matrix`, `targets`, `input_slots` and `output` have one entry for each rank that takes part, in rank order; a row of the matrix \
too.

    ranks = 3
    targets = [1, 0]           # wrong: write \"none\" for a rank that sends nothing"
    "C005" "a number without a rank or node"
    "The number is as large as the count or larger; numbers begin at 0. In `ranks` and [placement], a number counts the compute nodes \
in the order of the topology; with a placement, the numbers in `ranks` count its entries.

    ranks = [0, 8]             # wrong on 8 nodes: write 0 to 7"
    "C006" "two senders for one receiver"
    "In a send_receive each rank receives from one rank at most, for it has one output buffer.

    targets = [2, 2, 0]        # wrong: ranks 0 and 1 both send to 2"
    "C007" "a condition on an input slot that does not exist"
    "The conditions of a custom collective speak of the content of input slots: `r1[0]` is slot 0 of rank 1. There must be such a rank, \
and it must have that many slots.

    input_slots = 1
    output = [[\"r1[1]\"], []]   # wrong: rank 1 has slot 0 only"
    "C008" "not a condition"
    "A condition says what an output slot of a custom collective must hold at the end: \"free\" (anything), \"r1[0]\" (the content of \
input slot 0 of rank 1), a sum of such terms with counts, or \"sum[0]\" (input slot 0 of all ranks, each once).

    output = [[\"r1\"], [\"0\"]]             # wrong
    output = [[\"r1[0]\"], [\"r0[0] + 2*r1[0]\"]]  # right"
    "C009" "no in-place form"
    "all_to_all, send_receive and custom have no form in which input and output are one buffer.

    kind = \"all_to_all\"
    in_place = true            # wrong: delete it"
    "C010" "a collective that is too large"
    "Some number exceeds what a schedule can hold. Use fewer ranks or chunks."
    "C011" "ranks that cannot reach each other"
    "Some rank needs data of another, and no path leads from one to the other: over links that are up, through switches and other nodes \
that forward, and through nodes with ranks, which may relay. The notes name the ranks on both sides of the cut and links between them \
that are down.

    [[topology.link]]
    from = \"a\"
    to = \"b\"
    both = false               # wrong, if b has to answer"
    "C013" "more ranks than nodes"
    "A node hosts one rank at most. A number in `ranks` takes the first so many compute nodes, so there must be that many.

    [topology]
    kind = \"ring\"
    nodes = 4
    [collective]
    ranks = 8                  # wrong: at most 4"
    "C014" "a buffer beyond 16 EiB"
    "`block_size` times the number of ranks is the buffer, and that must be a number of 64 bits.

    block_size = \"8192 PiB\"    # wrong for 2 ranks and more"
    "C015" "ranks and topology do not fit"
    "Placement, ranks or initial circuits contradict the topology, in a way that only shows when all is put together. The message names \
what."
    "C016" "a node twice"
    "A node hosts one rank at most, so a list of nodes names each once.

    ranks = [\"n0\", \"n1\", \"n0\"]     # wrong"
    "C017" "unknown node"
    "No node of the topology has that name. Generated topologies call their compute nodes n0, n1 and so on; `rondo topology show` lists \
the names of any job.

    ranks = [\"gpu0\", \"gpx1\"]       # wrong if the node is gpu1"
    "C018" "a rank on a switch"
    "Ranks live on compute nodes. A switch moves data only.

    ranks = [\"gpu0\", \"switch0\"]    # wrong"
    "C019" "a node that takes no part"
    "The node exists, but it is not among those that [placement] or `ranks` choose, so it has no rank.

    ranks = [\"n0\", \"n1\"]
    root = \"n2\"                # wrong: n0 or n1"
    "T050" "a topology that is too large"
    "Rondo holds topologies of about a million nodes and 16 million links. A number beyond it is most often a slip.

    sides = [4000, 4000]       # wrong: 16 million nodes"
    "T051" "tiers of a Clos network"
    "Folded Clos networks have 1 tier (one switch), 2 tiers (leaf and spine) or 3 tiers (edge, aggregation, core).

    tiers = 4                  # wrong"
    "T052" "radix of a Clos network"
    "A switch below the top has half of its ports towards the hosts and half upwards (before oversubscription), so their number is even; \
a single switch has at least two.

    tiers = 2
    radix = 5                  # wrong"
    "T053" "nodes that fill no whole hosts"
    "With `gpus_per_host`, the number of nodes is a multiple of it.

    nodes = 30
    gpus_per_host = 8          # wrong: 24 or 32 nodes"
    "T054" "no sides"
    "A torus or grid has one side length for each dimension, and at least one dimension.

    sides = []                 # wrong
    sides = [4, 4]             # right"
    "T055" "two nodes of one name"
    "Names tell nodes apart in links, placements and reports. `count` makes names too: `name = \"gpu\"` with `count = 2` makes gpu0 and \
gpu1.

    [[topology.node]]
    name = \"gpu\"
    count = 2
    [[topology.node]]
    name = \"gpu1\"              # wrong"
    "T056" "a link, medium or port at an unknown node"
    "The name is none of the nodes of the topology. Nodes with `count` have a number behind their name.

    [[topology.node]]
    name = \"gpu\"
    count = 2
    [[topology.link]]
    from = \"gpu\"               # wrong: gpu0 or gpu1
    to = \"gpu1\""
    "T057" "a link from a node to itself"
    "What a rank moves within its own memory is local work and needs no link. Such a link is nearly always a slip in a name.

    from = \"gpu0\"
    to = \"gpu0\"                # wrong"
    "T058" "a medium over a link that does not exist"
    "A medium is a capacity that several links share. It names them by their ends, one direction each; the links themselves are listed \
under [[topology.link]].

    [[topology.medium]]
    name = \"bus\"
    capacity = \"16 GB/s\"
    links = [[\"a\", \"c\"]]       # wrong, if no link leads from a to c"
    "T059" "a port that the device does not have"
    "Circuits are pairs of ports, from and to, numbered from 0 in the order of `ports`.

    ports = [{ node = \"a\", capacity = \"50 GB/s\" }, { node = \"b\", capacity = \"50 GB/s\" }]
    initial = [[1, 2]]         # wrong: ports are 0 and 1"
    "T060" "an optical switch without a delay"
    "Every change of circuits takes time, and whether one pays depends on it. `technology` brings the delay and the number of ports of \
Table I of \"Shortcut\".

    reconfiguration_delay = \"10 us\"      # or
    technology = \"silicon-photonics\"     # 7 us, 32 ports"
}
