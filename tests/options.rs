//! What options of attention hold on a rank, counted by hand: the difference to the same model without them.

use moe_model::Plan;
use moe_model::spec::{Accounting, Architecture, Attention, Gqa, Kernel, Layers, Mla, Paper, QkNorm, Spec, Switch};
use moe_model::spec::{Batch, Mesh, WorkedExample};

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
