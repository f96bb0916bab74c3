//! The codes of plan files, for `rondo explain`.

use rondo_ir::diagnostic::CodeEntry;

/// Codes B100 … B111.
pub const CODES: &[CodeEntry] = &[
    CodeEntry {
        code: "B100",
        title: "the file is no plan of Rondo",
        explanation: "A plan of Rondo is a JSON object with \"format\": \"rondo.plan\". The file is empty, is no text, or says \
that it is something else. If another tool wrote it, name its format; if it is a job (TOML), compile it first: \
rondo compile JOB.toml -o PLAN.json.",
    },
    CodeEntry {
        code: "B101",
        title: "the plan is no well-formed JSON",
        explanation: "The text breaks a rule of JSON at the place that is shown: a comma too many or too few, a missing quote, \
or a file that was cut off. Nesting is limited to 128 levels. If the file was written by rondo, it was changed or not \
copied completely.",
    },
    CodeEntry {
        code: "B102",
        title: "the plan has another version",
        explanation: "This rondo reads plans of version 1.x. A plan of a higher first number needs a newer rondo.",
    },
    CodeEntry {
        code: "B103",
        title: "unknown key",
        explanation: "A plan has no key of this name at this place. Keys are never ignored: one that is misspelt could \
change what the plan means. docs/plan-format.md lists all of them.",
    },
    CodeEntry {
        code: "B104",
        title: "wrong type, missing key or value out of range",
        explanation: "The value at the place that is shown is not what the format asks for: a string where a number should be, \
a row with too few or too many columns, a key that is missing, a slot of 2^30 or more, a flow of no slots. \
docs/plan-format.md lists the columns of every row.",
    },
    CodeEntry {
        code: "B105",
        title: "unreadable quantity",
        explanation: "Sizes, rates and delays are strings with a unit: \"1 MiB\", \"25 GB/s\", \"500 ns\". Shares of a route \
are fractions: \"1/3\".",
    },
    CodeEntry {
        code: "B106",
        title: "a number names something that does not exist",
        explanation: "Ranks, nodes, links, ports, routes, trees, generators, threadblocks and operations are numbered from 0 in \
the order of their lists. The number that is shown is not below the length of its list.",
    },
    CodeEntry {
        code: "B107",
        title: "a list has the wrong length",
        explanation: "Some lists have one entry for each member of another: chunks and scratch one a group, circuits one a \
device, ranks of a program one a rank of the claim. Some members belong together: a schedule needs a problem, a program \
needs a claim, a step has flows or representatives.",
    },
    CodeEntry {
        code: "B108",
        title: "the topology of the plan is not well formed",
        explanation: "Two nodes have one name, a link joins a node to itself, or a device lists a configuration that it cannot \
take.",
    },
    CodeEntry {
        code: "B109",
        title: "a collective of the plan is not well formed",
        explanation: "The size is no multiple of the element size, the root is no position of the group, a condition has the wrong \
shape, or the kind needs a member that is missing or has no use for one that is there.",
    },
    CodeEntry {
        code: "B110",
        title: "the problem of the plan is not well formed",
        explanation: "Two ranks stand on one node, a rank stands on a switch, a group lists a rank twice, or the initial circuits \
are not legal for their device.",
    },
    CodeEntry {
        code: "B111",
        title: "the plan is beyond a limit of this reader",
        explanation: "Limits keep a broken or hostile file from taking all memory or time. The message gives the number found and \
the limit.",
    },
];
