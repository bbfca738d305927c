//! What runs: the program's version, and what it uses.

use pascaline_buffer::combine::Kernels;
use pascaline_telemetry::{Distribution, Exemplar, Gauge, Gauges};

/// A process's metrics, and those of its build.
#[derive(Debug)]
pub(crate) struct WithBuild<G>(pub(crate) G);

impl<G: Gauges> Gauges for WithBuild<G> {
    fn gauges(&self) -> Vec<Gauge> {
        let mut all = vec![info()];
        all.extend(self.0.gauges());
        all
    }

    fn exemplars(&self) -> Vec<Exemplar> {
        self.0.exemplars()
    }

    fn distributions(&self) -> Vec<Distribution> {
        self.0.distributions()
    }
}

fn info() -> Gauge {
    let labels = vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("dpdk", pascaline_dpdk::version()),
        ("simd", Kernels::detect().isa.to_owned()),
        ("protocol", pascaline_wire::VERSION.to_string()),
    ];
    Gauge {
        name: "build_info",
        help: "Versions of the program, of DPDK and of the protocol, and the instruction set; always 1.",
        counter: false,
        samples: vec![(labels, 1.0)],
    }
}
