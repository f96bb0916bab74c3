//! Section 8 and Appendix C: link transmissions of an all_gather on a full fat tree, with and without multicast.

use super::baseline::diameter;
use super::{Clos, real};

/// Link transmissions a sender by unicast: 2(k/2−1) + 4(k²/4−k/2) + 6(k³/4−k²/4).
#[must_use]
pub const fn unicast(clos: Clos) -> u64 {
    2 * (clos.rack() - 1) + 4 * (clos.pod() - clos.rack()) + 6 * (clos.ranks() - clos.pod())
}

/// By multicast, as printed: k³/4 + k²/2−1 + k−1 + 3, one too many (D21): it counts the sender's own downlink.
#[must_use]
pub const fn multicast_printed(clos: Clos) -> u64 {
    multicast(clos) + 1
}

/// By multicast: three links up, N−1 down to the others, k²/2−1 to the other racks, k−1 to the other pods.
#[must_use]
pub const fn multicast(clos: Clos) -> u64 {
    3 + (clos.ranks() - 1) + (2 * clos.pod() - 1) + (clos.radix() - 1)
}

/// Saved a sender, as printed: (5k³ − 4k² − 8k − 12)/4.
#[must_use]
pub const fn saved_printed(clos: Clos) -> u64 {
    unicast(clos) - multicast_printed(clos)
}

/// Saved a sender: (5k³ − 4k² − 8k − 8)/4.
#[must_use]
pub const fn saved(clos: Clos) -> u64 {
    unicast(clos) - multicast(clos)
}

/// Whether multicast gains nothing for the latency of an all_gather on a torus any more: (k/2)·N^{1/k} < (N−1)/(2k).
#[must_use]
pub fn torus_has_no_gain(n: f64, dimensions: u32) -> bool {
    diameter(n, dimensions) < (n - 1.0) / (2.0 * f64::from(dimensions))
}

/// All senders together.
#[must_use]
pub fn of_all(clos: Clos, each: u64) -> f64 {
    real(clos.ranks()) * real(each)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{compare, golden};
    use super::*;

    #[test]
    fn appendix_c_is_the_golden_one() {
        let golden = golden("a_multicast");
        let mut compared = 0;
        for row in golden["rows"].as_array().unwrap() {
            let clos = Clos::new(row["k_c"].as_u64().unwrap()).unwrap();
            compared += compare(
                row,
                &["k_c"],
                &[
                    ("N", Some(real(clos.ranks()))),
                    ("unicast_per_node", Some(real(unicast(clos)))),
                    ("multicast_per_node_paper", Some(real(multicast_printed(clos)))),
                    ("multicast_per_node_exact", Some(real(multicast(clos)))),
                    ("saved_per_node_paper", Some(real(saved_printed(clos)))),
                    ("saved_per_node_exact", Some(real(saved(clos)))),
                    ("unicast_total", Some(of_all(clos, unicast(clos)))),
                    ("multicast_total_paper", Some(of_all(clos, multicast_printed(clos)))),
                    ("saved_total_paper", Some(of_all(clos, saved_printed(clos)))),
                ],
            );
        }
        assert_eq!(compared, 7 * 9);
        for point in golden["checks"][2]["table"].as_array().unwrap() {
            assert_eq!(point["holds"], torus_has_no_gain(point["N"].as_f64().unwrap(), 3), "{point}");
        }
    }
}
