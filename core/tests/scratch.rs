//! scratch
use moe_model_core::{spec::*, *};
#[test]
fn t() {
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
    s.layout.placement =
        Placement { query_rope: Split::Replicated, shared_experts: Split::Replicated, ..Placement::DEFAULT };
    s.layout.precision = Precision { moments: Dtype::Bf16, ..Precision::DEFAULT };
    s.layout.batch = Batch { sequence: 4096, micro: 1, count: 32, global: 0 };
    s.layout.recompute = Recompute::Full;
    let p = Plan::new(s).map_err(|e| println!("{e}")).unwrap();
    println!(
        "{:?} {:?} {}",
        s.architecture.parameters(),
        s.architecture.parameters().total(),
        s.architecture.mtp_parameters()
    );
    for i in [0, 1, 15] {
        let b = p.budget(i);
        println!(
            "{i} {:?} static {:?} act {:?} x {} recompute {:?} peak {}",
            b.parameters(),
            b.static_bytes(),
            b.per_micro_batch(),
            b.in_flight(),
            b.recomputed_block(),
            b.peak()
        );
    }
    println!("{}", p.peak());
    for e in &p.inventory(1) {
        println!("{e}");
    }
    s.layout.recompute = Recompute::None;
    s.layout.device = Device::H200;
    s.layout.headroom = percent(10);
    println!("{}", Plan::new(s).unwrap_err());
    s.layout.device = Device::None;
    let p = Plan::new(s).unwrap();
    for i in [0, 1, 15] {
        println!("{i} {:?}", p.budget(i).per_micro_batch());
    }
    type E<'a> = (&'a str, fn(&mut Spec));
    let cases: [E; 16] = [
        ("ep 48", |s| s.layout.mesh.ep = 48),
        ("tp 3", |s| s.layout.mesh.tp = 3),
        ("pp 17", |s| s.layout.mesh.pp = 17),
        ("heads 129", |s| s.set(Key::AttentionHeads, 129)),
        ("dp 33", |s| s.layout.mesh.dp = 33),
        ("etp 3", |s| s.layout.mesh.etp = 3),
        ("tp 0", |s| s.layout.mesh.tp = 0),
        ("tp max", |s| s.layout.mesh.tp = u64::MAX),
        ("k", |s| s.architecture.experts.active = 300),
        ("world", |s| s.layout.mesh.world = 1000),
        ("seq", |s| s.layout.batch.sequence = 4095),
        ("sp off", |s| s.layout.mesh.sequence_parallel = Switch::Off),
        ("stages even", |s| s.layout.stages = Stages::EVEN),
        ("tp 1", |s| s.layout.mesh.tp = 1),
        ("all max", |s| {
            for k in Key::ALL {
                if law_least(*k) {
                    s.set(*k, 1 << 32)
                }
            }
        }),
        ("skew", |s| s.set(Key::RoutingSkew, 9000)),
    ];
    fn law_least(k: Key) -> bool {
        Spec::least(k).is_some()
    }
    for (n, f) in cases {
        let mut t = s;
        f(&mut t);
        let at = std::time::Instant::now();
        let v = judge(&t);
        println!("--- {n}  ({:?})\n{v}", at.elapsed());
        for w in v.iter() {
            println!("   at {}", w.at.path())
        }
    }
}
