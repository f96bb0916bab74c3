//! The codes of topology files.

use rondo_ir::diagnostic::CodeEntry;

/// The codes T100 … T129.
pub const CODES: &[CodeEntry] = &[
    CodeEntry {
        code: "T100",
        title: "a topology file cannot be read",
        explanation: "The file that `[topology]` names does not exist, may not be read, or is no UTF-8 text. A relative \
                      path starts at the folder of the job file.",
    },
    CodeEntry {
        code: "T101",
        title: "a topology file of an unknown kind",
        explanation: "Rondo reads NCCL and RCCL topology XML (its root element is `system`; any machine writes one with \
                      NCCL_TOPO_DUMP_FILE=FILE) and the text of `nvidia-smi topo -m`. hwloc's XML (root `topology`), NCCL \
                      graph files (root `graphs`) and MSCCL programs (root `algo`) are other things.",
    },
    CodeEntry {
        code: "T102",
        title: "a topology file that is too large",
        explanation: "A machine's topology file has some kilobytes. Beyond 8 MiB, 65536 elements, 64 levels or 1024 GPUs \
                      it is no such file.",
    },
    CodeEntry {
        code: "T103",
        title: "a topology file that is no well-formed XML",
        explanation: "The XML is cut off or broken at the place shown. Document type declarations and entities of one's \
                      own are refused: no topology file needs them.",
    },
    CodeEntry {
        code: "T104",
        title: "a topology file without GPUs",
        explanation: "A GPU is a `pci` element with a `gpu` inside, or one without further `pci` inside whose class \
                      begins with 0x03 (display controller) or 0x12 (accelerator).",
    },
    CodeEntry {
        code: "T105",
        title: "a bad number in a topology file",
        explanation: "Counts, speeds and device numbers are whole numbers, decimal or hexadecimal with 0x.",
    },
    CodeEntry {
        code: "T106",
        title: "two devices of one bus id",
        explanation: "Bus ids tell GPUs apart: NVLinks refer to them. Two GPUs with the same one cannot be.",
    },
    CodeEntry {
        code: "T110",
        title: "the file has no NVLinks",
        explanation: "The files of cloud vendors list PCIe only: NCCL asks the driver for NVLinks when it runs. Without \
                      them all traffic goes over PCIe here. Add them in the job: `nvlink = { bandwidth = \"300 GB/s\" }` for \
                      GPUs that share an NVSwitch, or `matrix = FILE` with the text of `nvidia-smi topo -m`.",
    },
    CodeEntry {
        code: "T111",
        title: "a NVLink that leads nowhere",
        explanation: "A GPU's NVLink or xGMI entry names the GPU itself, or a device that the file does not have. Such \
                      entries are dropped. Self-loops come from virtual machines that hide the real bus ids.",
    },
    CodeEntry {
        code: "T112",
        title: "a PCIe link of unknown speed",
        explanation: "`link_speed` or `link_width` is missing, empty or zero. NCCL then takes 16 lanes of PCIe 3.0, 12 \
                      GB/s, and so does the importer unless the job gives `pcie_bandwidth`.",
    },
    CodeEntry {
        code: "T113",
        title: "a PCIe speed that NCCL does not know",
        explanation: "NCCL compares the text of `link_speed` with a table: `16 GT/s` and `16.0 GT/s PCIe` are in it, `16.0 \
                      GT/s` is not and counts as 8 GT/s. The importer takes what is meant; the runtime's own model of the \
                      machine will be slower.",
    },
    CodeEntry {
        code: "T114",
        title: "the version of a topology file",
        explanation: "NCCL reads version 1 and RCCL version 2; each refuses the other's files.",
    },
    CodeEntry {
        code: "T115",
        title: "an assumed rate",
        explanation: "The file does not say of which generation something is, so a rate had to be assumed. The message \
                      names it; give the right one in the job.",
    },
    CodeEntry {
        code: "T116",
        title: "the two ends of a link disagree",
        explanation: "Each NVLink is listed by both of its GPUs. Where the counts differ the larger one is taken.",
    },
    CodeEntry {
        code: "T117",
        title: "something in the file is not understood",
        explanation: "An element or attribute that has no meaning in a topology file, or none here. It is passed over.",
    },
    CodeEntry {
        code: "T120",
        title: "a broken `nvidia-smi topo -m` matrix",
        explanation: "The matrix has a line of column names (GPU0, GPU1, …, then network adapters), and for each GPU a row \
                      with one cell for each column: X, NV and a number, PIX, PXB, PHB, NODE or SYS. Copy the whole output.",
    },
    CodeEntry {
        code: "T121",
        title: "the rate of an NVLink is not known",
        explanation: "`nvidia-smi topo -m` counts NVLinks without their rate. Write the rate of one link and direction in the \
                      job: 25 GB/s for NVLink 2 to 4 (V100, A100, H100), 50 GB/s for NVLink 5 (B200).",
    },
    CodeEntry {
        code: "T122",
        title: "a matrix and a file that do not belong together",
        explanation: "The matrix must have as many GPUs as the topology file.",
    },
    CodeEntry {
        code: "T123",
        title: "the matrix alone says no rate at all",
        explanation: "A matrix without NVLinks says how GPUs are placed on PCIe, but not how fast PCIe is. Give \
                      `pcie_bandwidth`.",
    },
];
