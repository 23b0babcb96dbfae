//! Checkpoints tensor by tensor: names, shapes and kinds of every one are what transformers saves of the model (of
//! Grok-1, what its own code does). See `tests/data/README.md` for the files.

mod beside;
mod models;

use moe_model::checkpoint::{Kind, Naming, Pattern, Tensor};
use moe_model::inventory::Module;
use moe_model::preset::{PRESETS, Preset};
use moe_model::spec::{Architecture, Attention, Dtype, Experts, Gqa, Layers};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// How the others' checkpoints are named, in the order of [`beside::BESIDE`].
const NAMINGS: [&Naming; 3] = [&Naming::ARCTIC, &Naming::HUNYUAN_V1_MOE, &Naming::KIMI_LINEAR];

/// Every file, and the model that it is of.
fn models() -> impl Iterator<Item = (&'static str, &'static Naming, Architecture)> {
    let named = models::MODELS.iter().map(|(model, name)| {
        let preset = Preset::named(name).unwrap_or_else(|| panic!("no preset {name}"));
        (*model, preset.naming, preset.architecture)
    });
    named.chain(
        beside::BESIDE.iter().zip(NAMINGS).map(|((model, architecture), naming)| (*model, naming, *architecture)),
    )
}

/// Shape and kind of every tensor, by its name.
type Tensors = BTreeMap<String, (Vec<u64>, Kind)>;

/// Takes in what a pattern stands for; no name may stand twice.
fn add(tensors: &mut Tensors, names: &Pattern, shape: &[u64], kind: Kind) {
    for name in names.names() {
        let before = tensors.insert(name, (shape.to_vec(), kind));
        assert!(before.is_none(), "a name of {names} stands twice");
    }
}

fn expanded<'t>(list: impl IntoIterator<Item = &'t Tensor>) -> Tensors {
    let mut tensors = Tensors::new();
    for tensor in list {
        add(&mut tensors, &tensor.name, &tensor.shape, tensor.kind);
    }
    tensors
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/tensors")
}

fn file(model: &str) -> Value {
    let path = folder().join(format!("{model}.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("the file is JSON")
}

/// Pattern, shape and kind of each line of a file.
fn lines(list: &Value) -> impl Iterator<Item = (&str, Vec<u64>, Kind)> {
    list.as_array().expect("a list of tensors").iter().map(|line| {
        let shape = line[1].as_array().expect("a shape").iter();
        let kind = match line[2].as_str() {
            Some("param") => Kind::Parameter,
            Some("buffer") => Kind::Buffer,
            other => panic!("what is {other:?}?"),
        };
        let shape = shape.map(|length| length.as_u64().expect("a length")).collect();
        (line[0].as_str().expect("a pattern"), shape, kind)
    })
}

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).unwrap_or_else(|| panic!("{text} is a pattern"))
}

fn of_file(list: &Value) -> Tensors {
    let mut tensors = Tensors::new();
    for (text, shape, kind) in lines(list) {
        add(&mut tensors, &pattern(text), &shape, kind);
    }
    tensors
}

/// Maps are equal; of two that are not, what either has alone.
fn assert_same(model: &str, ours: &Tensors, theirs: &Tensors) {
    let alone = |a: &Tensors, b: &Tensors| {
        let alone = a.iter().filter(|(name, tensor)| b.get(*name) != Some(tensor));
        alone.take(9).map(|(name, tensor)| format!("{name}: {tensor:?}")).collect::<Vec<_>>()
    };
    assert!(ours == theirs, "{model}: only ours {:#?}, only theirs {:#?}", alone(ours, theirs), alone(theirs, ours));
}

#[test]
fn every_tensor_has_its_name_shape_and_kind() {
    for (model, naming, architecture) in models() {
        let (list, file) = (architecture.checkpoint(naming), file(model));
        let main = || list.iter().filter(|tensor| tensor.module != Module::Mtp);
        assert_same(model, &expanded(main()), &of_file(&file["tensors"]));
        let elements: u64 = main().map(Tensor::elements).sum();
        assert_eq!(Some(elements), file["checkpoint_elements"].as_u64(), "{model}");
    }
}

/// What transformers holds of the modules in memory, as checkpoints name it: `mtp` of the file.
fn mtp_of_file(list: &Value, layer: u64) -> Tensors {
    let mut tensors = Tensors::new();
    for (text, shape, kind) in lines(list) {
        let behind = text.strip_prefix("layers.{0}.").expect("there is one module").replace("mtp_block.", "");
        let name = format!("model.layers.{layer}.{}", behind.replace("post_norm.", "shared_head.norm."));
        let Some((before, projection)) = name.split_once("experts.").filter(|_| shape.len() == 3) else {
            add(&mut tensors, &pattern(&name), &shape, kind);
            continue;
        };
        let (names, rows) = match projection {
            "gate_up_proj" => (&["gate_proj", "up_proj"] as &[_], shape[1] / 2),
            _ => (&["down_proj"] as &[_], shape[1]),
        };
        for projection in names {
            let name = format!("{before}experts.{{0..{}}}.{projection}.weight", shape[0] - 1);
            add(&mut tensors, &pattern(&name), &[rows, shape[2]], kind);
        }
    }
    tensors
}

#[test]
fn mtp_modules_are_further_layers() {
    let mut tested = 0;
    for (model, naming, architecture) in models() {
        let file = file(model);
        let list: Vec<Tensor> =
            architecture.checkpoint(naming).into_iter().filter(|tensor| tensor.module == Module::Mtp).collect();
        let (copies, own): (Vec<_>, Vec<_>) = list.iter().partition(|tensor| tensor.kind == Kind::Copy);
        if file["mtp"].is_null() {
            let is_of_hub = WHOLE_ON_HUB.iter().any(|(name, ..)| *name == model);
            assert!(list.is_empty() || is_of_hub, "{model}");
            continue;
        }
        tested += 1;
        let layer = architecture.layers.count();
        assert_same(model, &expanded(own.iter().copied()), &mtp_of_file(&file["mtp"], layer));
        let parameters = own.iter().filter(|tensor| tensor.kind == Kind::Parameter);
        assert_eq!(parameters.map(|tensor| tensor.elements()).sum::<u64>(), architecture.mtp_parameters(), "{model}");
        let table = (vec![architecture.vocab, architecture.hidden], Kind::Copy);
        let name = |name| (format!("model.layers.{layer}.{name}"), table.clone());
        let expected = [name("embed_tokens.weight"), name("shared_head.head.weight")].into_iter().collect();
        assert_same(model, &expanded(copies.iter().copied()), &expected);
    }
    assert_eq!(tested, 3);
}

/// Dense layers are those between, and any in front.
#[test]
fn layers_with_experts_stand_apart() {
    for (lead, moe, moe_every) in [(0, 24, 2), (2, 3, 2), (1, 2, 4), (0, 1, 3), (3, 1, 2), (2, 5, 1)] {
        let layers = Layers { dense: lead + moe * (moe_every - 1), moe, ffn: 4, moe_every, ..Layers::DEFAULT };
        let model = Architecture {
            layers,
            attention: Attention::Gqa(Gqa { heads: 1, kv_heads: 1, head_dim: 4, ..Gqa::DEFAULT }),
            experts: Experts { routed: 1, active: 1, ffn: 4, ..Experts::DEFAULT },
            hidden: 4,
            vocab: 4,
            ..Architecture::DEFAULT
        };
        let names: Vec<String> = model
            .checkpoint(&Naming::LLAMA)
            .iter()
            .flat_map(|tensor| tensor.name.names().collect::<Vec<_>>())
            .filter(|name| name.ends_with(".mlp.gate.weight") || name.ends_with(".mlp.gate_proj.weight"))
            .collect();
        let expected = (0..layers.count()).map(|layer| {
            let has_experts = layer >= lead && (layer - lead) % moe_every == moe_every - 1;
            format!("model.layers.{layer}.mlp.{}.weight", if has_experts { "gate" } else { "gate_proj" })
        });
        let (mut names, mut expected) = (names, expected.collect::<Vec<_>>());
        names.sort();
        expected.sort();
        assert_eq!(names, expected, "{layers:?}");
    }
}

/// Elements of whole checkpoints as the hub counts them: parameters, buffers, multi-token prediction, and the copies that
/// come with it, but for GLM-5.
const WHOLE_ON_HUB: &[(&str, u64, bool)] = &[
    ("deepseek-r1", 684_489_845_504, true),
    ("deepseek-v3.2", 685_355_329_792, true),
    ("glm-4.5", 358_337_791_296, true),
    ("glm-5", 753_864_139_008, false),
];

#[test]
fn whole_checkpoints_have_the_hubs_elements() {
    for (model, hub, copies) in WHOLE_ON_HUB {
        let (_, naming, architecture) = models().find(|(name, ..)| name == model).expect("it is listed");
        let list = architecture.checkpoint(naming);
        let stored = list.iter().filter(|tensor| *copies || tensor.kind != Kind::Copy);
        assert_eq!(stored.map(Tensor::elements).sum::<u64>(), *hub, "{model}");
    }
}

/// What published checkpoints hold that are quantised in blocks: elements by format (DeepSeek-V3, by the hub), or all of
/// them (MiniMax-M2.5), to the last scale.
#[test]
fn scales_of_blocks_are_those_of_the_hub() {
    let in_blocks = |name| {
        let preset = Preset::named(name).expect("there is the preset");
        preset.architecture.checkpoint_in_blocks(preset.naming, [128, 128])
    };
    let list = in_blocks("deepseek_v3");
    let of = |format| list.iter().filter(|tensor| tensor.element.name == format).map(Tensor::elements).sum::<u64>();
    assert_eq!([of("bf16"), of("fp8"), of("fp32")], [3_918_786_560, 680_571_043_840, 41_555_600]);
    assert_eq!(list.iter().map(Tensor::elements).sum::<u64>(), 684_531_386_000);
    let named = |name: &str| list.iter().find(|tensor| tensor.name.to_string().ends_with(name)).expect(name);
    let scale = named("{3..60}.mlp.experts.{0..255}.down_proj.weight_scale_inv");
    assert_eq!((&*scale.shape, scale.count(), scale.kind.name()), (&[56, 16][..], 58 * 256, "scale"));
    // The last block of 576 rows holds 64 of them.
    assert_eq!(named("{0..60}.self_attn.kv_a_proj_with_mqa.weight_scale_inv").shape, [5, 56]);
    assert_eq!(named("{61}.eh_proj.weight").element.name, "bf16");

    let list = in_blocks("minimax_m2_5");
    assert_eq!(list.iter().map(Tensor::elements).sum::<u64>(), 228_703_644_928);
}

/// Weights in memory are those of the list, buffers in their own formats.
#[test]
fn weights_in_memory() {
    for (model, naming, architecture) in models() {
        let list = architecture.checkpoint(naming);
        let stored = list.iter().filter(|tensor| tensor.module != Module::Mtp);
        let bytes: u64 = stored.map(|tensor| tensor.bytes().bytes()).sum();
        assert_eq!(architecture.weight_bytes(Dtype::Bf16).bytes(), bytes, "{model}");
    }
    let flash = Preset::named("deepseek_v4_flash").expect("there is the preset").architecture;
    let buffers = 4 * 40 * 256 + 8 * 3 * 129_280 * 6;
    assert_eq!(flash.weight_bytes(Dtype::Fp32).bytes(), 4 * flash.parameters().total() + buffers);
}

#[test]
fn active_parameters_without_the_ends() {
    for (model, _, architecture) in models() {
        let file = file(model);
        let ours = architecture.active_without_input_embedding();
        assert_eq!(Some(ours), file["active_without_input_embedding"].as_u64(), "{model}");
        let ours = architecture.active_without_embedding_and_head();
        assert_eq!(Some(ours), file["active_without_embedding_and_head"].as_u64(), "{model}");
    }
}

/// The list of tensors says what the sums say.
#[test]
fn lists_agree_with_sums() {
    let presets = PRESETS.iter().map(|preset| (preset.naming, preset.architecture));
    for (naming, architecture) in presets.chain(models().map(|(_, naming, architecture)| (naming, architecture))) {
        let list = architecture.checkpoint(naming);
        let sum = |kind, module: &dyn Fn(Module) -> bool| {
            let of = list.iter().filter(|tensor| tensor.kind == kind && module(tensor.module));
            of.map(Tensor::elements).sum::<u64>()
        };
        assert_eq!(sum(Kind::Parameter, &|module| module != Module::Mtp), architecture.parameters().total());
        assert_eq!(sum(Kind::Parameter, &|module| module == Module::Mtp), architecture.mtp_parameters());
        assert_eq!(sum(Kind::Buffer, &|module| module != Module::Mtp), architecture.buffer_elements());
        for tensor in &list {
            let module = tensor.module;
            let expected = if module == Module::Mtp {
                architecture.mtp_parameters()
            } else {
                architecture.module_parameters(module)
            };
            assert_eq!(sum(Kind::Parameter, &|other| other == module), expected, "{module:?}");
        }
    }
}

#[test]
fn every_file_and_every_naming_is_tested() {
    let mut files: Vec<String> = fs::read_dir(folder())
        .expect("the folder is there")
        .map(|file| file.expect("the folder can be listed").file_name().to_string_lossy().replace(".json", ""))
        .collect();
    files.sort();
    let mut names: Vec<&str> = models().map(|(model, ..)| model).collect();
    names.sort_unstable();
    assert_eq!(files, names);
    for naming in Naming::ALL {
        assert!(models().any(|(_, other, _)| other.name == naming.name), "{}", naming.name);
        assert_eq!(Naming::named(naming.name), Some(*naming), "a name stands once");
    }
}
