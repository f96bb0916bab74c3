//! Tables 7 and 8, section 9: what training jobs send, and what that takes on four networks.

use super::baseline::{Kind, Parameters};
use super::shapes::Tile;
use super::{FormError, real};

/// A model, as far as its traffic depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Tokens of a sequence (s).
    pub sequence: u64,
    /// Hidden size (h).
    pub hidden: u64,
    /// Sequences of a micro-batch (b).
    pub micro_batch: u64,
    /// Parameters.
    pub parameters: u64,
    /// Bytes of an activation and of a gradient.
    pub bytes: u64,
    /// Bytes of an element that is sent to an expert.
    pub expert_bytes: u64,
}

/// How a job is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parallelism {
    /// Tensor parallelism.
    pub tensor: u64,
    /// Pipeline stages.
    pub pipeline: u64,
    /// Data-parallel replicas.
    pub data: u64,
    /// Expert parallelism.
    pub expert: u64,
}

/// The messages of a job, bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Messages {
    /// all_gather of a tensor-parallel group: bytes·s·h·b·(t−1)/t.
    pub tensor: f64,
    /// From a pipeline stage to the next: bytes·s·h·b/t.
    pub pipeline: f64,
    /// all_reduce of the data-parallel replicas: bytes·parameters/(TP·PP·EP).
    pub data: f64,
    /// all_to_all between experts: expert bytes·s·h·b.
    pub expert: f64,
}

impl Model {
    /// Megatron-LM 462B.
    pub const MEGATRON: Self =
        Self { sequence: 4096, hidden: 18432, micro_batch: 1, parameters: 462_000_000_000, bytes: 2, expert_bytes: 2 };
    /// DeepSeek V3 671B.
    pub const DEEPSEEK: Self =
        Self { sequence: 4096, hidden: 7168, micro_batch: 1, parameters: 671_000_000_000, bytes: 2, expert_bytes: 1 };

    /// What a job of this model sends (section 9).
    ///
    /// # Errors
    /// [`FormError::NotPositive`]: a size or a degree of 0.
    pub fn messages(&self, parallelism: &Parallelism) -> Result<Messages, FormError> {
        let positive = |what: &'static str, value: u64| {
            if value == 0 { Err(FormError::NotPositive { what }) } else { Ok(real(value)) }
        };
        let tokens = positive("the sequence length", self.sequence)?
            * positive("the hidden size", self.hidden)?
            * positive("the micro-batch", self.micro_batch)?;
        let t = positive("tensor parallelism", parallelism.tensor)?;
        let stages = positive("pipeline parallelism", parallelism.pipeline)?;
        let experts = positive("expert parallelism", parallelism.expert)?;
        positive("data parallelism", parallelism.data)?;
        let bytes = positive("the bytes of an element", self.bytes)?;
        let parameters = positive("the number of parameters", self.parameters)?;
        Ok(Messages {
            tensor: bytes * tokens * (t - 1.0) / t,
            pipeline: bytes * tokens / t,
            data: bytes * parameters / (t * stages * experts),
            expert: positive("the bytes sent to an expert", self.expert_bytes)? * tokens,
        })
    }
}

impl Parallelism {
    /// Megatron's: 8 × 16 × 48.
    pub const MEGATRON: Self = Self { tensor: 8, pipeline: 16, data: 48, expert: 1 };
    /// DeepSeek's: 16 × 2 × 64.
    pub const DEEPSEEK: Self = Self { tensor: 1, pipeline: 16, data: 2, expert: 64 };

    /// Ranks of the whole job.
    #[must_use]
    pub const fn ranks(&self) -> u64 {
        self.tensor.saturating_mul(self.pipeline).saturating_mul(self.data).saturating_mul(self.expert)
    }
}

/// A number of Table 7.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// `Megatron` or `DeepSeek`.
    pub model: &'static str,
    /// `m_TP` and so on.
    pub name: &'static str,
    /// As the paper prints it, and as Table 8 uses it.
    pub printed: f64,
    /// As the model's description gives it.
    pub derived: f64,
}

/// The message sizes of Table 7.
///
/// # Panics
/// Never: both models are valid.
#[must_use]
pub fn table_7() -> Vec<Size> {
    let megatron = Model::MEGATRON.messages(&Parallelism::MEGATRON).expect("a valid model");
    let deepseek = Model::DEEPSEEK.messages(&Parallelism::DEEPSEEK).expect("a valid model");
    let size = |model, name, printed, derived| Size { model, name, printed, derived };
    vec![
        size("Megatron", "m_TP", 132e6, megatron.tensor),
        size("Megatron", "m_PP", 18.9e6, megatron.pipeline),
        size("Megatron", "m_DP", 7.2e9, megatron.data),
        size("DeepSeek", "m_PP", 58.7e6, deepseek.pipeline),
        size("DeepSeek", "m_DP", 1.3e9, deepseek.data),
        size("DeepSeek", "m_EP", 28e6, deepseek.expert),
    ]
}

/// A cell of Table 8.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// `Megatron` or `DeepSeek`.
    pub model: &'static str,
    /// `Torus`, `Clos`, `Torus LC` or `Hybrid`.
    pub topology: &'static str,
    /// `AR`, `AG`, `ATA` or `P2P`: the column.
    pub collective: &'static str,
    /// Seconds, as printed.
    pub printed: f64,
    /// What prints like that, by rounding or cutting off.
    pub interval: (f64, f64),
    /// What the paper's formulas give with Table 1 and the sizes of Table 7; `None` where they have no such message.
    pub literal: Option<f64>,
    /// The literal value's formula.
    pub how: &'static str,
    /// What gives the printed number, as far as it can be told.
    pub reconstructed: Option<f64>,
    /// Its formula; empty without one.
    pub why: &'static str,
}

impl Cell {
    /// Whether a value prints as the paper's number.
    #[must_use]
    pub fn prints(&self, value: Option<f64>) -> bool {
        value.is_some_and(|value| self.interval.0 <= value && value < self.interval.1)
    }
}

/// Table 8 with its literal values and reconstructions (D16, D19, D22).
#[must_use]
pub fn table_8(table: &Parameters) -> Vec<Cell> {
    let (alpha, beta) = (table.hop_delay, table.inverse_bandwidth);
    // 1 ps a bit, which the printed all_reduce times need.
    let bits = Parameters { reduce_cost: 8.0 * table.reduce_cost, ..*table };
    let each = beta + bits.reduce_cost;
    let with = |message: f64| table.with_message(message);
    let mut cells = Vec::with_capacity(24);
    let mut cell = |at: (&'static str, &'static str, &'static str),
                    (printed, low, high): (f64, f64, f64),
                    literal,
                    how,
                    reconstructed,
                    why| {
        let (model, topology, collective) = at;
        cells.push(Cell {
            model,
            topology,
            collective,
            printed,
            interval: (low, high),
            literal,
            how,
            reconstructed,
            why,
        });
    };

    let m = 7.2e9;
    let reduce = with(m);
    let wide = bits.with_message(m);
    let sums = 48_f64.log2() * table.reduce_cost * m;
    cell(
        ("Megatron", "Torus", "AR"),
        (4.83, 4.825, 4.84),
        Some(reduce.torus(Kind::AllReduce, 48.0, 1)),
        "ring of 48: 24(α+βm) + log₂48·γm",
        Some(24.0 * (alpha + each * m)),
        "24(α+(β+γ)m) with γ = 8 ps/B, on every hop",
    );
    cell(
        ("Megatron", "Clos", "AR"),
        (1.12, 1.115, 1.13),
        Some(reduce.clos(Kind::AllReduce, 48.0, 2)),
        "log₂48·(2α+(β+γ)m)",
        Some(wide.clos(Kind::AllReduce, 48.0, 2)),
        "the same with γ = 8 ps/B",
    );
    let tile = real(Tile { a: 8, b: 6 }.steps());
    cell(
        ("Megatron", "Torus LC", "AR"),
        (4.03, 4.025, 4.04),
        Some(tile * (alpha + beta * m) + sums),
        "tile of 8×6: 12(α+βm) + log₂48·γm",
        Some(20.0 * (alpha + each * m)),
        "20(α+(β+γ)m) with γ = 8 ps/B; the 20 is unexplained",
    );
    cell(
        ("Megatron", "Hybrid", "AR"),
        (0.001, 0.0005, 0.002),
        Some(reduce.clos(Kind::AllReduce, 48.0, 6)),
        "log₂48·(6α+(β+γ)m)",
        Some(wide.clos(Kind::AllReduce, 48.0, 6)),
        "impossible: one transmission of the message takes 144 ms",
    );
    let gather = with(132e6);
    let ring = gather.torus(Kind::AllGather, 8.0, 1);
    let rest = (None, "");
    for (topology, printed, literal, how) in [
        ("Torus", (0.009, 0.0085, 0.01), ring, "ring of 8: 4α + βm·7/2"),
        ("Clos", (0.018, 0.0175, 0.019), gather.clos(Kind::AllGather, 8.0, 2), "2α + 7βm"),
        ("Torus LC", (0.009, 0.0085, 0.01), ring, "ring of 8: 4α + βm·7/2"),
        ("Hybrid", (0.009, 0.0085, 0.01), ring, "ring of 8: 4α + βm·7/2"),
    ] {
        cell(("Megatron", topology, "AG"), printed, Some(literal), how, rest.0, rest.1);
    }
    let send = |hops: f64, flows: f64, message: f64| hops * alpha + flows * beta * message;
    for (topology, printed, hops, flows, how) in [
        ("Torus", (0.0004, 0.00035, 0.00045), 1.0, 1.0, "α + βm"),
        ("Clos", (0.0004, 0.00035, 0.00045), 6.0, 1.0, "6α + βm"),
        ("Torus LC", (0.003, 0.0025, 0.004), 8.0, 8.0, "8α + 8βm: 8 hops, 8 flows a link"),
        ("Hybrid", (0.0004, 0.00035, 0.00045), 6.0, 1.0, "6α + βm"),
    ] {
        cell(("Megatron", topology, "P2P"), printed, Some(send(hops, flows, 18.9e6)), how, rest.0, rest.1);
    }

    let m = 28e6;
    let all = with(m);
    let square = Tile { a: 8, b: 8 };
    cell(
        ("DeepSeek", "Torus", "ATA"),
        (0.282, 0.2815, 0.283),
        Some(all.torus(Kind::AllToAll, 64.0, 1)),
        "ring of 64: 32α + βm·63·64/8",
        None,
        "",
    );
    cell(
        ("DeepSeek", "Clos", "ATA"),
        (0.035, 0.0345, 0.036),
        Some(all.clos(Kind::AllToAll, 64.0, 2)),
        "2α + 63βm",
        None,
        "",
    );
    cell(
        ("DeepSeek", "Torus LC", "ATA"),
        (0.184, 0.1835, 0.185),
        Some(send(real(square.steps()), square.all_to_all_load(), m)),
        "tile of 8×8: 14α + 128βm",
        Some(send(real(square.steps()), 63.0 * 5.25, m)),
        "63βm times the mean distance 5.25; 0.7 % off",
    );
    cell(
        ("DeepSeek", "Hybrid", "ATA"),
        (0.0176, 0.01755, 0.0177),
        Some(send(6.0, 63.0 * 4.0 / 8.0, m)),
        "one 4×4×4 torus: 6α + βm·63·4/8",
        None,
        "",
    );
    let m = 1.3e9;
    let two = |hops: f64| hops * alpha + each * m;
    for (topology, printed, value, why) in [
        ("Torus", (0.036, 0.0355, 0.037), two(1.0), "all_reduce of 2 replicas: α + (β+γ)m_DP, γ = 8 ps/B"),
        ("Clos", (0.036, 0.0355, 0.037), two(2.0), "all_reduce of 2 replicas: 2α + (β+γ)m_DP, γ = 8 ps/B"),
        ("Torus LC", (0.036, 0.0355, 0.037), two(1.0), "all_reduce of 2 replicas: α + (β+γ)m_DP, γ = 8 ps/B"),
        (
            "Hybrid",
            (0.114, 0.1135, 0.115),
            4.0 * (alpha + beta * m) + bits.reduce_cost * m,
            "all_reduce of 2 replicas 4 hops apart: 4(α+βm_DP) + γm_DP, γ = 8 ps/B",
        ),
    ] {
        cell(("DeepSeek", topology, "AG"), printed, None, "TP = 1: there is no all_gather", Some(value), why);
    }
    for (topology, printed, hops, flows, how, factor, why) in [
        ("Torus", (0.026, 0.0255, 0.027), 1.0, 1.0, "α + βm", 1.0, "β·m_DP: the wrong message"),
        ("Clos", (0.026, 0.0255, 0.027), 6.0, 1.0, "6α + βm", 1.0, "β·m_DP: the wrong message"),
        ("Hybrid", (0.026, 0.0255, 0.027), 6.0, 1.0, "6α + βm", 1.0, "β·m_DP: the wrong message"),
        ("Torus LC", (0.078, 0.0775, 0.079), 8.0, 8.0, "8α + 8βm", 3.0, "3β·m_DP; the 3 is unexplained"),
    ] {
        let literal = Some(send(hops, flows, 58.7e6));
        cell(("DeepSeek", topology, "P2P"), printed, literal, how, Some(factor * (alpha + beta * m)), why);
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::super::testing::golden;
    use super::*;

    fn close(found: Option<f64>, expected: &serde_json::Value, what: &str) {
        match (found, expected.as_f64()) {
            (Some(found), Some(expected)) => {
                assert!((found - expected).abs() <= 1e-12 * expected, "{what}: {found} {expected}");
            }
            (found, expected) => assert_eq!(found, expected, "{what}"),
        }
    }

    #[test]
    fn tables_7_and_8_are_the_golden_ones() {
        let golden = golden("a_case_studies");
        let sizes = table_7();
        assert_eq!(sizes.len(), golden["table7"].as_array().unwrap().len());
        for (found, expected) in sizes.iter().zip(golden["table7"].as_array().unwrap()) {
            let place = ["model", "name"].map(|key| expected[key].as_str().unwrap());
            assert_eq!(place, [found.model, found.name]);
            close(Some(found.derived), &expected["derived_bytes"], found.name);
            close(Some(found.printed), &expected["used_in_table8_bytes"], found.name);
        }
        let cells = table_8(&Parameters::default());
        assert_eq!(cells.len(), golden["cells"].as_array().unwrap().len());
        for (cell, expected) in cells.iter().zip(golden["cells"].as_array().unwrap()) {
            let what = format!("{} {} {}", cell.model, cell.topology, cell.collective);
            let place = ["model", "topology", "collective"].map(|key| expected[key].as_str().unwrap());
            assert_eq!(place, [cell.model, cell.topology, cell.collective]);
            close(Some(cell.printed), &expected["paper_s"], &what);
            close(Some(cell.interval.0), &expected["interval"][0], &what);
            close(Some(cell.interval.1), &expected["interval"][1], &what);
            close(cell.literal, &expected["literal_s"], &what);
            if let Some(agrees) = expected["literal_agrees"].as_bool() {
                assert_eq!(cell.prints(cell.literal), agrees, "{what}");
            }
            close(cell.reconstructed, expected.get("alt_s").unwrap_or(&serde_json::Value::Null), &what);
            if let Some(agrees) = expected.get("alt_agrees").and_then(serde_json::Value::as_bool) {
                assert_eq!(cell.prints(cell.reconstructed), agrees, "{what}");
            }
        }
        // How much more bandwidth the torus needs, per link.
        let claim = |at: usize| golden["claims"][at]["ours"].as_f64().unwrap();
        let table = Parameters::default();
        let ring = table.with_message(28e6);
        let ratio =
            |kind, table: &Parameters, n: f64| super::super::ratio::bandwidth_ratio(table, kind, n, 1, 2).unwrap();
        assert!((ratio(Kind::AllToAll, &ring, 64.0) - claim(0)).abs() <= 1e-12 * claim(0));
        assert!((ratio(Kind::AllReduce, &table.with_message(7.2e9), 48.0) - claim(1)).abs() <= 1e-12 * claim(1));
        assert_eq!((Parallelism::MEGATRON.ranks(), Parallelism::DEEPSEEK.ranks()), (6144, 2048));
    }

    #[test]
    fn a_job_without_something_is_refused() {
        let none = Model { hidden: 0, ..Model::MEGATRON };
        assert!(none.messages(&Parallelism::MEGATRON).is_err());
        let none = Parallelism { expert: 0, ..Parallelism::DEEPSEEK };
        assert!(Model::DEEPSEEK.messages(&none).is_err());
    }
}
