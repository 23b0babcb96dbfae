//! What options of attention hold on a rank, counted by hand: the difference to the same model without them; and what takes
//! the place of attention, and options of experts, that no published table counts.

use moe_model::inventory::Module;
use moe_model::spec::{
    Accounting, Architecture, Attention, Batch, Compressed, Experts, GatedDeltaNet, Gqa, Kda, Kernel, LayerList,
    Layers, Lightning, LocalGqa, Mamba1, Mamba2, Mesh, Mixer, Mla, Paper, QkNorm, Spec, Switch, WorkedExample,
};
use moe_model::{Plan, Role};

const LATENT: Mla = Mla { heads: 4, q_rank: 8, kv_rank: 4, nope: 2, rope: 2, value: 2, ..Mla::DEFAULT };
const GROUPED: Gqa = Gqa { heads: 4, kv_heads: 2, head_dim: 8, ..Gqa::DEFAULT };

/// Sequences of a micro-batch times tokens of each.
const TOKENS: u64 = 2 * 6;

/// Parameters and bytes of activations on a rank of two that split tensors.
fn held(attention: Attention, accounting: Accounting) -> (u64, u64) {
    let mut spec = Spec::DEFAULT;
    spec.architecture = Architecture {
        hidden: 16,
        vocab: 32,
        layers: Layers { dense: 1, moe: 0, ffn: 8, ..Layers::DEFAULT },
        attention,
        ..Architecture::DEFAULT
    };
    spec.layout.mesh = Mesh { tp: 2, ..Mesh::DEFAULT };
    spec.layout.batch = Batch { sequence: 6, micro: 2, ..Batch::DEFAULT };
    spec.layout.accounting = accounting;
    let plan = Plan::new(spec).expect("it is legal");
    let budget = plan.budget(0);
    (budget.parameters().total(), budget.stored_activations().bytes())
}

/// What the second of two has more than the first, by whose rules ever activations are counted.
fn more(plain: Attention, with: Attention) -> (u64, u64) {
    let paper = Accounting::Paper(Paper { kernel: Kernel::Flash, ..Paper::DEFAULT });
    let [by_paper, by_example] = [paper, Accounting::WorkedExample(WorkedExample::DEFAULT)].map(|accounting| {
        let ((parameters, bytes), (other_parameters, other_bytes)) = (held(with, accounting), held(plain, accounting));
        (parameters - other_parameters, bytes - other_bytes)
    });
    assert_eq!(by_paper, by_example);
    by_paper
}

/// Each of two ranks holds all of it.
#[test]
fn an_indexer() {
    let with = Mla { indexer_heads: 3, indexer_dim: 5, ..LATENT };
    let parameters = 8 * 3 * 5 + 16 * 5 + 2 * 5 + 16 * 3;
    let bytes = 2 * TOKENS * (3 * 5 + 5 + 5 + 3);
    assert_eq!(more(Attention::Mla(LATENT), Attention::Mla(with)), (parameters, bytes));
}

/// One weight for all heads; what goes into the norms is kept, of the two query heads and the key head of a rank.
#[test]
fn norms_of_heads() {
    let with = Gqa { qk_norm: QkNorm::Head, ..GROUPED };
    assert_eq!(more(Attention::Gqa(GROUPED), Attention::Gqa(with)), (2 * 8, 2 * TOKENS * (2 + 1) * 8));
}

/// A query projection twice as wide; the gate and what it gated are kept, of the two heads of a rank.
#[test]
fn an_output_gate() {
    let with = Gqa { output_gate: Switch::On, ..GROUPED };
    assert_eq!(more(Attention::Gqa(GROUPED), Attention::Gqa(with)), (2 * 8 * 16, 2 * TOKENS * 2 * 2 * 8));
}

/// Elements of activations, within blocks of attention or what takes its place, on a rank of two that split tensors; without
/// what all such blocks save: their input and that of their norm.
fn kept(architecture: Architecture) -> u64 {
    let mut spec = Spec::DEFAULT;
    spec.architecture = architecture;
    spec.layout.mesh = Mesh { tp: 2, ..Mesh::DEFAULT };
    spec.layout.batch = Batch { sequence: 6, micro: 2, ..Batch::DEFAULT };
    spec.layout.accounting = Accounting::Paper(Paper { kernel: Kernel::Flash, dropout: Switch::Off, ..Paper::DEFAULT });
    let plan = Plan::new(spec).expect("it is legal");
    let of_all = ["attention block input", "attention norm output", "log-sum-exp"];
    let inventory = plan.inventory(0);
    let entries = inventory.iter().filter(|entry| entry.module == Module::Attention && entry.role == Role::Activation);
    let bytes: u64 = entries.filter(|entry| !of_all.contains(&entry.name)).map(|entry| entry.bytes().bytes()).sum();
    bytes / 2
}

/// One layer with a mixer alone.
fn of_mixer(mixer: Mixer) -> u64 {
    of_layers("m", mixer)
}

/// Dense layers of a list.
fn of_layers(list: &str, mixer: Mixer) -> u64 {
    let list = LayerList::parse(list);
    let layers = Layers { dense: list.layers(), moe: 0, ffn: 8, list, ..Layers::DEFAULT };
    kept(Architecture {
        hidden: 16,
        vocab: 32,
        layers,
        attention: Attention::Gqa(GROUPED),
        mixer,
        ..Architecture::DEFAULT
    })
}

/// Each operation keeps its input. Of the numbers below, those of heads, groups and channels are halved on a rank.
#[test]
fn mixers() {
    // Two of four query heads, one of two key/value heads: query, key, value, output.
    let local = LocalGqa { heads: 4, kv_heads: 2, head_dim: 8, value_dim: 6, ..LocalGqa::DEFAULT };
    assert_eq!(of_mixer(Mixer::LocalGqa(local)), TOKENS * (2 * 8 + 8 + 6 + 2 * 6));
    // Keys and values of the layer in front are kept there alone.
    let like = LocalGqa { heads: 4, kv_heads: 2, head_dim: 8, ..LocalGqa::DEFAULT };
    let reader = LocalGqa { shared_kv: Switch::On, ..like };
    let [own, shared] = [like, reader].map(|gqa| of_layers("am", Mixer::LocalGqa(gqa)));
    assert_eq!(own - shared, TOKENS * (8 + 8));
    // One head of queries and keys, two of values: these before and behind the convolution; decay and write strength of the
    // heads of values; gate, output and gated output.
    let net = GatedDeltaNet { key_heads: 2, value_heads: 4, key_dim: 4, value_dim: 6, conv: 4 };
    assert_eq!(of_mixer(Mixer::GatedDeltaNet(net)), TOKENS * (2 * (4 + 4 + 12) + 2 * 2 + 3 * 12));
    // One head: three projections before and behind convolutions, two latents of full width, write strength, and decay, gate,
    // output and gated output.
    let kda = Kda { heads: 2, head_dim: 4, conv: 4 };
    assert_eq!(of_mixer(Mixer::Kda(kda)), TOKENS * (6 * 4 + 2 * 4 + 1 + 4 * 4));
    // One head: three projections before and behind activation; output before and behind its norm, gate, gated output.
    let lightning = Lightning { heads: 2, head_dim: 4, block: 2 };
    assert_eq!(of_mixer(Mixer::Lightning(lightning)), TOKENS * (2 * 3 * 4 + 4 * 4));
    // Four channels and their gate; behind the convolution; time step of rank 3 and two matrices of 2 before and behind norms;
    // time step, output, gated output of each channel.
    let mamba = Mamba1 { inner: 8, state: 2, conv: 4, time_rank: 3 };
    assert_eq!(of_mixer(Mixer::Mamba1(mamba)), TOKENS * (2 * 4 + 4 + 2 * (3 + 2 * 2) + 3 * 4));
    // Two heads of 3 with their gate and time steps, and one group's two matrices of 2; these but for gate and time step behind
    // the convolution; output and gated output.
    let mamba = Mamba2 { heads: 4, head_dim: 3, state: 2, groups: 2, conv: 4 };
    assert_eq!(of_mixer(Mixer::Mamba2(mamba)), TOKENS * ((6 + 6 + 2 * 2 + 2) + (6 + 2 * 2) + 2 * 6));
}

/// Query latent, queries and outputs of two heads, the one key/value before and behind its norm, output latents of one of
/// two groups; and what is compressed, whole on each rank.
#[test]
fn compressed_attention() {
    let attention = Attention::Compressed(Compressed {
        heads: 4,
        q_rank: 5,
        head_dim: 8,
        output_groups: 2,
        output_rank: 3,
        compress: 2,
        compress_heavy: 4,
        indexer_heads: 3,
        indexer_dim: 7,
        window: 128,
    });
    let of = |list| {
        let layers = Layers { dense: 1, moe: 0, ffn: 8, list: LayerList::parse(list), ..Layers::DEFAULT };
        kept(Architecture { hidden: 16, vocab: 32, layers, attention, ..Architecture::DEFAULT })
    };
    let window = 5 + 2 * 2 * 8 + 2 * 8 + 3;
    assert_eq!(of("a"), TOKENS * window);
    assert_eq!(of("h"), TOKENS * (window + 2 * 8));
    assert_eq!(of("c"), TOKENS * (window + 4 * 8 + 3 * 7 + 4 * 7 + 3));
}

/// Parameters of a layer with experts alone, and of one with a dense network alone.
#[test]
fn blocks_that_stand_alone() {
    let experts = Experts { routed: 4, shared: 1, active: 2, ffn: 6, latent: 10, ..Experts::DEFAULT };
    let of = |list, dense, moe, gated| {
        let layers = Layers { dense, moe, ffn: 8, list: LayerList::parse(list), gated, ..Layers::DEFAULT };
        let attention = Attention::Gqa(GROUPED);
        let architecture = Architecture {
            hidden: 16,
            vocab: 32,
            norms_per_layer: 1,
            layers,
            attention,
            experts,
            ..Architecture::DEFAULT
        };
        architecture.parameters().total()
    };
    // Beside attention, which has a norm of its own: router, two projections to and from the latent width, four experts of
    // two or three matrices within it, a shared one outside.
    let attention = of("a", 1, 0, Switch::On) - 3 * 16 * 8;
    for (matrices, gated) in [(2, Switch::Off), (3, Switch::On)] {
        let moe = 16 + 4 * 16 + 2 * 16 * 10 + 4 * matrices * 10 * 6 + matrices * 16 * 6;
        assert_eq!(of("ae", 0, 1, gated) - attention, moe);
        assert_eq!(of("ad", 1, 0, gated) - attention, 16 + matrices * 16 * 8);
    }
}
