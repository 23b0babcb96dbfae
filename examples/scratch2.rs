//! x
use moe_model::spec::*;
use moe_model::*;
use std::time::Instant;
fn main() {
    let mut s = Spec::DEFAULT;
    s.architecture = Architecture {
        hidden: 7168,
        vocab: 129280,
        layers: Layers { dense: 3, moe: 58, ffn: 18432 },
        attention: Attention::Mla(Mla { heads: 128, q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 }),
        experts: Experts {
            routed: 256,
            shared: 1,
            active: 8,
            ffn: 2048,
            groups: 8,
            active_groups: 4,
            correction_bias: Switch::On,
        },
        mtp: 1,
    };
    s.layout.mesh = Mesh { dp: 32, tp: 2, pp: 16, ep: 8, sequence_parallel: Switch::On, ..Mesh::DEFAULT };
    s.layout.stages = Stages { first: 4, last: 1 };
    s.layout.zero = Zero { groups: ZeroGroups::MoeBlock, ..Zero::OPTIMIZER };
    s.layout.batch = Batch { sequence: 4096, micro: 1, count: 32, global: 0 };
    s.layout.recompute = Recompute::Full;
    let p = Plan::new(s).unwrap();
    fn t<T>(n: &str, mut f: impl FnMut() -> T) {
        let a = Instant::now();
        for _ in 0..200 {
            std::hint::black_box(f());
        }
        println!("{n} {:?}", a.elapsed() / 200);
    }
    t("judge", || judge(&s).len());
    t("peak", || p.peak());
    t("budget", || p.budget(1));
    t("inventory", || p.inventory(1).len());
    t("sizes", || p.sizes());
    t("plan", || Plan::new(s).is_ok());
}
