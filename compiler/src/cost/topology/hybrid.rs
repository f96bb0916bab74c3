//! Table 6 and Appendix D: a fast fabric in each rack (mesh) or pod (torus), and a Clos between.
//!
//! β_u belongs to the fast fabric (scale-up), β_o to the Clos (scale-out). N = k³/4, R = k/2, P = k²/4, D_P = k_t·P^{1/k_t}/2. The
//! printed forms drop the phases of the fast fabric that overlap; the `_max` forms keep the larger (D20).

use super::baseline::{Kind, Parameters, diameter, side};
use super::{Clos, real};

/// A hybrid of a full Clos.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hybrid<'a> {
    /// α, β_o, γ, m.
    pub table: &'a Parameters,
    /// The Clos between racks or pods.
    pub clos: Clos,
    /// β_u: time per byte on a link of the fast fabric.
    pub scale_up: f64,
    /// k_t: dimensions of the torus in a pod.
    pub dimensions: u32,
}

impl Hybrid<'_> {
    fn alpha(&self, hops: f64) -> f64 {
        hops * self.table.hop_delay
    }

    /// β_o·m times so many messages.
    fn out(&self, messages: f64) -> f64 {
        self.table.inverse_bandwidth * self.table.message * messages
    }

    /// β_u·m times so many messages.
    fn up(&self, messages: f64) -> f64 {
        self.scale_up * self.table.message * messages
    }

    fn gamma(&self, vectors: f64) -> f64 {
        self.table.reduce_cost * self.table.message * vectors
    }

    /// Racks: k²/2.
    fn racks(&self) -> f64 {
        2.0 * real(self.clos.pod())
    }

    /// Pods: k.
    fn pods(&self) -> f64 {
        real(self.clos.radix())
    }

    fn n(&self) -> f64 {
        real(self.clos.ranks())
    }

    fn pod_diameter(&self) -> f64 {
        diameter(real(self.clos.pod()), self.dimensions)
    }

    /// Mesh: α + β_u m + γmR + log₂(N/R)·(6α + β_o m + γm) for all_reduce; 6α + β_o m(k²/2−1) + α + β_u m(k²/2−1) for all_gather;
    /// 6α + β_o m(N−R) for all_to_all.
    #[must_use]
    pub fn mesh(&self, kind: Kind) -> f64 {
        let rack = real(self.clos.rack());
        match kind {
            Kind::AllReduce => {
                let rounds = (self.n() / rack).log2();
                let round = self.alpha(6.0) + self.out(1.0) + self.gamma(1.0);
                self.alpha(1.0) + self.up(1.0) + self.gamma(rack) + rounds * round
            }
            Kind::AllGather => {
                let others = self.racks() - 1.0;
                self.alpha(6.0) + self.out(others) + self.alpha(1.0) + self.up(others)
            }
            Kind::AllToAll => self.alpha(6.0) + self.out(self.n() - rack),
        }
    }

    /// all_to_all on the mesh with the larger of both fabrics: a mesh link carries one message.
    #[must_use]
    pub fn mesh_all_to_all_max(&self) -> f64 {
        self.mesh(Kind::AllToAll).max(self.alpha(1.0) + self.up(1.0))
    }

    /// Torus: D_P(α + β_u m + γm) + log₂(N/P)·(6α + β_o m + γm) for all_reduce; 6α + β_o m(k−1) + D_P α + β_u m(k−1)(P−1)/(2k_t) for
    /// all_gather; 6α + β_o m(N−P) for all_to_all.
    #[must_use]
    pub fn torus(&self, kind: Kind) -> f64 {
        match kind {
            Kind::AllReduce => self.torus_all_reduce(self.pod_diameter()),
            Kind::AllGather => self.exchange() + self.second_gather(),
            Kind::AllToAll => self.alpha(6.0) + self.out(self.n() - real(self.clos.pod())),
        }
    }

    /// all_reduce with log₂ P additions in the pod instead of one a hop, as in Table 2 (D20).
    #[must_use]
    pub fn torus_all_reduce_log(&self) -> f64 {
        self.torus_all_reduce(real(self.clos.pod()).log2())
    }

    fn torus_all_reduce(&self, additions: f64) -> f64 {
        let pod = real(self.clos.pod());
        let rounds = (self.n() / pod).log2();
        let round = self.alpha(6.0) + self.out(1.0) + self.gamma(1.0);
        let d = self.pod_diameter();
        self.alpha(d) + self.up(d) + self.gamma(additions) + rounds * round
    }

    /// First phase of the all_gather on tori, on the Clos: 6α + β_o m(k−1).
    #[must_use]
    pub fn exchange(&self) -> f64 {
        self.alpha(6.0) + self.out(self.pods() - 1.0)
    }

    /// The same phase on the torus: D_P α + β_u m(P−1)/(2k_t).
    #[must_use]
    pub fn first_gather(&self) -> f64 {
        self.alpha(self.pod_diameter()) + self.up((real(self.clos.pod()) - 1.0) / (2.0 * f64::from(self.dimensions)))
    }

    fn second_gather(&self) -> f64 {
        let messages = (self.pods() - 1.0) * (real(self.clos.pod()) - 1.0) / (2.0 * f64::from(self.dimensions));
        self.alpha(self.pod_diameter()) + self.up(messages)
    }

    /// all_gather on tori with the larger of both fabrics in the first phase.
    #[must_use]
    pub fn torus_all_gather_max(&self) -> f64 {
        self.exchange().max(self.first_gather()) + self.second_gather()
    }

    /// all_to_all within a pod's torus: D_P α + β_u m(P−1)·P^{1/k_t}/8.
    #[must_use]
    pub fn torus_part(&self) -> f64 {
        let pod = real(self.clos.pod());
        self.alpha(self.pod_diameter()) + self.up((pod - 1.0) * side(pod, self.dimensions) / 8.0)
    }

    /// all_to_all on tori with the larger of both fabrics.
    #[must_use]
    pub fn torus_all_to_all_max(&self) -> f64 {
        self.torus(Kind::AllToAll).max(self.torus_part())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{compare, golden};
    use super::*;

    #[test]
    fn table_6_is_the_golden_one() {
        let golden = golden("a_hybrid");
        let table = Parameters::default();
        let mut compared = 0;
        for row in golden["rows"].as_array().unwrap() {
            let clos = Clos::new(row["k_c"].as_u64().unwrap()).unwrap();
            let dimensions = u32::try_from(row["k_t"].as_u64().unwrap()).unwrap();
            let scale_up = row["beta_u"].as_f64().unwrap();
            let hybrid = Hybrid { table: &table, clos, scale_up, dimensions };
            let fast = Parameters { inverse_bandwidth: scale_up, ..table };
            let n = real(clos.ranks());
            compared += compare(
                row,
                &["k_c", "k_t", "beta_o", "beta_u"],
                &[
                    ("N", Some(n)),
                    ("R", Some(real(clos.rack()))),
                    ("P", Some(real(clos.pod()))),
                    ("mesh_AR", Some(hybrid.mesh(Kind::AllReduce))),
                    ("mesh_AG", Some(hybrid.mesh(Kind::AllGather))),
                    ("mesh_ATA", Some(hybrid.mesh(Kind::AllToAll))),
                    ("mesh_ATA_max", Some(hybrid.mesh_all_to_all_max())),
                    ("torus_AR", Some(hybrid.torus(Kind::AllReduce))),
                    ("torus_AR_gamma_log", Some(hybrid.torus_all_reduce_log())),
                    ("torus_AG", Some(hybrid.torus(Kind::AllGather))),
                    ("torus_AG_phase1_torus", Some(hybrid.first_gather())),
                    ("torus_AG_phase1_clos", Some(hybrid.exchange())),
                    ("torus_AG_with_max", Some(hybrid.torus_all_gather_max())),
                    ("torus_ATA", Some(hybrid.torus(Kind::AllToAll))),
                    ("torus_ATA_torus_part", Some(hybrid.torus_part())),
                    ("torus_ATA_max", Some(hybrid.torus_all_to_all_max())),
                    ("ref_clos_AR", Some(table.clos(Kind::AllReduce, n, 6))),
                    ("ref_clos_AG_ATA", Some(table.clos(Kind::AllGather, n, 6))),
                    ("ref_torus_AR", Some(fast.torus(Kind::AllReduce, n, dimensions))),
                    ("ref_torus_AG", Some(fast.torus(Kind::AllGather, n, dimensions))),
                    ("ref_torus_ATA", Some(fast.torus(Kind::AllToAll, n, dimensions))),
                ],
            );
        }
        assert_eq!(compared, 18 * 21);
        // Appendix D.2.2: 1365 ms against 254 ms with the defaults; at 400 GB/s (D15) 170.6 and 31.8.
        let check = &golden["checks"][0];
        let at = |inverse_bandwidth: f64, scale_up: f64, key: &str| {
            let table = Parameters { inverse_bandwidth, ..table };
            let hybrid = Hybrid { table: &table, clos: Clos::new(128).unwrap(), scale_up, dimensions: 3 };
            let values = [("torus_phase", hybrid.first_gather()), ("clos_phase", hybrid.exchange())];
            assert_eq!(compare(&check[key], &[], &values.map(|(name, value)| (name, Some(value * 1e3)))), 2);
        };
        at(2e-11, 2e-11, "ours_ms");
        at(2.5e-12, 2.5e-12, "ours_ms_at_400GBps");
    }
}
