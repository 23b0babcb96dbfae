//! A Spec in files, TOML and JSON: every key under the path that errors name, nothing lost, each fault named.

use moe_model::spec::file::{Declared, Document};
use moe_model::spec::{
    Accounting, Attention, Dtype, Field, Kda, LayerList, Layout, Mixer, NUMBER_MAX, Routing, Service, Serving, Spec,
    StageList, Stages, Value, percent,
};
use moe_model::{Key, Plan, law, moe_model};
use serde_json::Value as Json;

moe_model! {
    /// A model with both kinds of groups.
    pub struct Small;

    hidden: 128,
    vocab: 1000,
    layers: layers { dense: 1, moe: 7, ffn: 96 },
    attention: mla { heads: 8, kv_rank: 16, nope: 8, rope: 4, value: 8 },
    experts: experts { routed: 16, shared: 1, active: 2, ffn: 32 },

    layout Main: layout {
        mesh: mesh { dp: 4, tp: 2, pp: 2, ep: 4, sequence_parallel: on },
        zero: optimizer,
        batch: batch { sequence: 64, micro: 2, count: 4 },
        routing: dropless { skew: 1.25 },
        accounting: paper { kernel: flash },
        headroom: percent(10),
    },
}

/// The same, as a file. `kind` may stand anywhere in its table.
const SMALL: &str = r#"
hidden = 128
vocab = 1_000
layers = { dense = 1, moe = 7, ffn = 96 }
zero = "optimizer"
headroom = "10%"

[attention]
heads = 8
kv_rank = 16
nope = 8
rope = 4
value = 8
kind = "mla"

[experts]
routed = 16
shared = 1
active = 2
ffn = 32

[mesh]
dp = 4
tp = 2
pp = 2
ep = 4
sequence_parallel = true

[batch]
sequence = 64
micro = 2
count = 4

[routing]
kind = "dropless"
skew = 1.25

[accounting]
kind = "paper"
kernel = "flash"
"#;

fn from_toml(text: &str) -> Result<Spec, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

#[test]
fn a_spec_survives_json() {
    let spec = *Small::MAIN.spec();
    let json = serde_json::to_string(&spec).expect("a Spec is data");
    let back: Spec = serde_json::from_str(&json).expect("what was written can be read");
    assert_eq!(back, spec);
    assert_eq!(Plan::new(back).expect("the Spec is legal"), Small::MAIN);
    assert_eq!(back.layout.headroom, percent(10));
}

#[test]
fn a_file_says_what_a_declaration_says() {
    assert_eq!(from_toml(SMALL).as_ref(), Ok(Small::MAIN.spec()));
}

/// Every leaf of a random kind and value, legal or not, through both formats.
#[test]
fn random_specs_survive_files() {
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..500 {
        let spec = random_spec(&mut random);
        let json = serde_json::to_string(&spec).expect("a Spec is data");
        assert_eq!(serde_json::from_str::<Spec>(&json).expect("what was written can be read"), spec, "{json}");
        let toml = toml::to_string(&spec).expect("a Spec is data");
        assert_eq!(from_toml(&toml).as_ref(), Ok(&spec), "{toml}");
    }
}

fn random_spec(random: &mut fastrand::Rng) -> Spec {
    let mut spec = Spec::DEFAULT;
    let groups = [Key::Attention, Key::Mixer, Key::Routing, Key::Serving, Key::Accounting];
    let kinds = [Attention::KINDS, Mixer::KINDS, Routing::KINDS, Service::KINDS, Accounting::KINDS];
    for (key, kinds) in groups.into_iter().zip(kinds) {
        if !matches!(key, Key::Mixer | Key::Serving) || random.bool() {
            spec.choose(key, random.u64(..kinds.len() as u64));
        }
    }
    let numbers = spec.numbers();
    for &key in Key::ALL.iter().filter(|key| numbers.get(**key).is_some()) {
        let code = match Spec::field(key).map(|field| &field.value) {
            Some(Value::StageList) => {
                let stages: Vec<String> = (0..random.usize(1..9)).map(|_| "t".repeat(random.usize(..7))).collect();
                let list = format!("E{}{}L", stages.join("|"), "m".repeat(random.usize(..3)));
                spec.layout.stages.list = if random.bool() { StageList::NONE } else { StageList::parse(&list) };
                continue;
            }
            Some(Value::LayerList) => {
                let letters = if random.bool() { "aAmMcChH" } else { "amched" };
                let letter = |random: &mut fastrand::Rng| char::from(letters.as_bytes()[random.usize(..letters.len())]);
                let list: String = (0..random.usize(1..80)).map(|_| letter(random)).collect();
                spec.architecture.layers.list = LayerList::parse(&list);
                continue;
            }
            Some(Value::Choice { words, .. }) => random.u64(..words.len() as u64),
            _ if random.bool() => random.u64(..100),
            _ => random.u64(..=2 * NUMBER_MAX),
        };
        spec.set(key, code);
    }
    // Beside it none is read.
    if spec.layout.served().is_some() {
        spec.layout.accounting = Accounting::PAPER;
    }
    spec
}

#[test]
fn keys_have_one_name() {
    let mut spec = *Small::MAIN.spec();
    spec.layout.stages.list = StageList::parse("Ettt|tttttL");
    spec.architecture.layers.list = LayerList::parse("aaAAAAAA");
    let json = serde_json::to_value(spec).expect("a Spec is data");
    let numbers = spec.numbers();
    for key in Key::ALL.iter().filter(|key| numbers.get(**key).is_some()) {
        let pointer = format!("/{}", key.path().replace('.', "/"));
        if law::follows_at_zero(*key) && numbers.of(*key) == 0 {
            assert_eq!(json.pointer(&pointer), None, "{} was not said", key.path());
            continue;
        }
        let value = json.pointer(&pointer).unwrap_or_else(|| panic!("no {} in {json:#}", key.path()));
        let code = numbers.of(*key);
        match Spec::field(*key).map(|field| &field.value) {
            Some(Value::Choice { words, .. }) => {
                let place = words.iter().position(|word| value == word.word);
                assert_eq!(place.map(|place| place as u64), Some(code), "{}", key.path());
            }
            Some(Value::StageList) => assert_eq!(*value, "Ettt|t*5L"),
            Some(Value::LayerList) => assert_eq!(*value, "aaA*6"),
            Some(Value::Percent) => assert_eq!(*value, format!("{code}%"), "{}", key.path()),
            Some(Value::Decimal) => assert_eq!(value.to_string(), "1.25", "{}", key.path()),
            _ => assert_eq!(value.as_u64(), Some(code), "{}", key.path()),
        }
    }
}

/// A table's key that names its kind would hide a key of that name.
#[test]
fn no_key_is_called_kind() {
    assert!(Key::ALL.iter().all(|key| key.name() != "kind"));
}

#[test]
fn what_is_absent_is_at_its_default() {
    let text = r#"
        hidden = 1
        vocab = 1
        layers = {}
        attention = { kind = "gqa", heads = 1, kv_heads = 1 }
        mesh.pp = 1
        batch.sequence = 1
        accounting = "paper"
    "#;
    assert_eq!(from_toml(text), Ok(Spec::DEFAULT));
    let declared: Declared = toml::from_str(text).expect("it can be read");
    assert!(declared.written.has(Key::MeshPp) && !declared.written.has(Key::MeshTp));
}

/// A layout string stands in its own place or in that of its group; what is meant as one is read as one.
#[test]
fn stage_lists() {
    let with = |stages: &str| from_toml(&format!("stages = {stages}\n{SMALL}"));
    let list = StageList::parse("Ettt|tttttL");
    for stages in ["\"Ettt|tttttL\"", "{ list = \"Et*3|t*5L\" }"] {
        assert_eq!(with(stages).map(|spec| spec.layout.stages), Ok(Stages { list, ..Stages::EVEN }));
    }
    let fault = with("\"Ettt|ttttt\"").expect_err("the loss is missing");
    assert!(fault.contains("`stages.list` cannot be read at character 11: the loss `L` comes last"), "{fault}");
    let fault = with("\"Et|[tt|]*30L\"").expect_err("brackets");
    assert!(fault.contains("character 4: `[` is no letter of the notation"), "{fault}");
    assert!(fault.ends_with("= help: a group stands in parentheses: `(tt|)*30`\n"), "{fault}");
    let fault = with("\"evn\"").expect_err("no word");
    assert!(fault.contains("did you mean `even`?"), "{fault}");
    let fault = with("{ list = 4 }").expect_err("a number");
    assert!(fault.contains("`stages.list` is a layout string such as \"Et|(tt|)*30mL\", not `4`"), "{fault}");
}

/// A layer list, and the mixer that stands in some of its layers.
#[test]
fn layer_lists() {
    let hybrid =
        SMALL.replace("[attention]", "[mixer]\nkind = \"kda\"\nheads = 2\nhead_dim = 8\nconv = 4\n\n[attention]");
    let with = |list: &str| from_toml(&hybrid.replace("ffn = 96 }", &format!("ffn = 96, list = {list} }}")));
    let spec = with("\"aMMA\"").expect("it can be read").architecture;
    assert_eq!(spec.layers.list, LayerList::parse("aMMA"));
    assert_eq!(spec.mixer, Mixer::Kda(Kda { heads: 2, head_dim: 8, conv: 4 }));
    let fault = with("\"aMLA\"").expect_err("no letter");
    assert!(fault.contains("`layers.list` cannot be read at character 3: `L` is no letter of the notation"), "{fault}");
    assert!(fault.ends_with("= help: a layer with the mixer of `mixer` is `m`, with experts `M`\n"), "{fault}");
    let fault = with("4").expect_err("a number");
    assert!(fault.contains("`layers.list` is a layer list such as \"(MMMA)*12\", not `4`"), "{fault}");
}

/// The only kind of a group may be named, and a word may stand for any group that has one.
#[test]
fn kinds_and_words() {
    let with = |more: &str| from_toml(&format!("stages = 'even'\nrouting = 'balanced'\n{more}\n{SMALL}")).map(|_| ());
    // Keys given twice are for TOML itself to refuse.
    assert!(with("").is_err());
    let rest =
        SMALL.replace("[routing]\nkind = \"dropless\"\nskew = 1.25\n", "").replace("[mesh]", "[mesh]\nkind = 'mesh'");
    let spec = from_toml(&format!("stages = 'even'\nrouting = 'balanced'\n{rest}")).expect("it can be read");
    assert_eq!(spec.layout.routing, Routing::BALANCED);
    let paper = "[accounting]\nkind = \"paper\"\nkernel = \"flash\"\n";
    for (written, accounting) in [
        ("accounting = 'worked_example'", Accounting::WORKED_EXAMPLE),
        ("accounting = { kind = 'worked_example' }", Accounting::WORKED_EXAMPLE),
        ("accounting = 'paper'", Accounting::PAPER),
    ] {
        let spec = from_toml(&format!("{written}\n{}", SMALL.replace(paper, ""))).expect("it can be read");
        assert_eq!(spec.layout.accounting, accounting);
    }
}

/// What is said of one change of the file, in TOML, in full.
#[track_caller]
fn assert_says(from: &str, to: &str, expected: &str) {
    assert!(SMALL.contains(from), "{from} is in the file");
    let said = from_toml(&SMALL.replacen(from, to, 1)).expect_err("it cannot be read");
    assert_eq!(said.trim_end(), expected, "with {to}");
}

/// What serves has requests and a context, and no rules of training; what trains has a batch and an accounting.
#[test]
fn serving() {
    let tables = |text: &str| format!("architecture = 'llama_3_1_8b'\nmesh = {{ dp = 2 }}\n{text}");
    let served =
        from_toml(&tables("serving = { requests = 8, context = 4096, cache = 'fp8' }")).expect("it can be read");
    let serving = Serving { requests: 8, context: 4096, cache: Dtype::Fp8, ..Serving::DEFAULT };
    assert_eq!(
        served.layout,
        Layout { serving: Service::Serving(serving), mesh: served.layout.mesh, ..Layout::DEFAULT }
    );
    assert_eq!(from_toml(&toml::to_string(&served).expect("a Spec is data")), Ok(served));
    assert!(!toml::to_string(&served).expect("a Spec is data").contains("accounting"));
    for (text, expected) in [
        ("serving = 'none'", "the Spec lacks `batch` and `accounting`"),
        ("serving = { requests = 8 }", "`serving` lacks `context`"),
        (
            "serving = { requests = 8, context = 64 }\naccounting = 'paper'",
            "`accounting` is not read beside `serving`\n= help: leave it out: what is worked on without a backward needs no \
             rules of a framework",
        ),
        ("serving = 'on'", "`serving` cannot be `on`\n= help: write `none`, or a table of its keys"),
    ] {
        let said = from_toml(&tables(text)).expect_err("it cannot be read");
        assert_eq!(said.trim_end(), expected, "{text}");
    }
}

#[test]
fn keys_that_are_not_known_not_there_or_there_twice() {
    for (from, to, expected) in [
        ("tp = 2", "tpp = 2", "`mesh` has no key `tpp`\n= help: did you mean `tp`?"),
        (
            "tp = 2",
            "microbatch = 2",
            "`mesh` has no key `microbatch`\n= help: its keys are `dp`, `tp`, `pp`, `vpp`, `cp`, `ep`, `etp`, `context`, `cp_inner`, `world` \
             and `sequence_parallel`",
        ),
        ("hidden = 128", "hidden = 128\ntp = 2", "the Spec has no key `tp`\n= help: `tp` is a key of `mesh`"),
        (
            "hidden = 128",
            "hidden = 128\nvocabulary = 2",
            "the Spec has no key `vocabulary`\n= help: its keys are `hidden`, `vocab`, `tied_embeddings`, \
             `head_bias`, `norm`, `norms_per_layer`, `layer_scalar`, `hyper_connections`, `positions`, `layers`, `attention`, `mixer`, `experts`, `mtp`, `mesh`, `stages`, `schedule`, `zero`, `placement`, `precision`, `batch`, `recompute`, `recompute_layers`, `recompute_together`, `modules`, `routing`, \
             `serving`, `accounting`, `target`, `device` and `headroom`",
        ),
        ("tp = 2", "headroom = 2", "`mesh` has no key `headroom`\n= help: `headroom` stands outside `mesh`"),
        (
            "kv_rank = 16",
            "kv_heads = 16",
            "`attention` has no key `kv_heads`\n= help: `kv_heads` is a key of the kind `gqa`\n\
             error: `attention` lacks `kv_rank`",
        ),
        ("hidden = 128\nvocab = 1_000\n", "", "the Spec lacks `hidden` and `vocab`"),
        ("hidden = 128", "hidden_size = 128", "the Spec has no key `hidden_size`\n= help: did you mean `hidden`?"),
        ("tp = 2", "tensor_parallel = 2", "`mesh` has no key `tensor_parallel`\n= help: did you mean `tp`?"),
        (
            "tp = 2",
            "context_parallel_size = 2",
            "`mesh` has no key `context_parallel_size`\n= help: did you mean `cp`?",
        ),
        (
            "sequence = 64",
            "sequence_length = 64",
            "`batch` has no key `sequence_length`\n= help: did you mean `sequence`?",
        ),
        (
            "zero = \"optimizer\"",
            "zero = { stage = 1 }",
            "`zero` has no key `stage`\n= help: in place of the group write `optimizer` for ZeRO-1, `gradients` for ZeRO-2, \
             `parameters` for ZeRO-3",
        ),
        ("sequence = 64", "", "`batch` lacks `sequence`"),
        ("kind = \"mla\"", "", "`attention` lacks `kind`\n= help: it is `mla`, `gqa` or `compressed`"),
    ] {
        assert_says(from, to, expected);
    }
}

#[test]
fn numbers_that_are_none() {
    for (to, expected) in [
        ("\"2\"", "`mesh.tp` is a whole number, not `\"2\"`\n= help: write it without quotes: `2`"),
        ("\"two\"", "`mesh.tp` is a whole number, not `\"two\"`"),
        ("2.5", "`mesh.tp` is a whole number, not `2.5`"),
        ("2.0", "`mesh.tp` is a whole number, not `2.0`\n= help: write `2`"),
        ("1e3", "`mesh.tp` is a whole number, not `1000.0`\n= help: write `1000`"),
        ("-2", "`mesh.tp` = -2 is negative"),
        ("18446744073709551616", "`mesh.tp` = 18446744073709551616 does not fit in 64 bits"),
        ("true", "`mesh.tp` is a whole number, not `true`"),
        ("[2]", "`mesh.tp` is a whole number, not a list"),
        ("{ a = 2 }", "`mesh.tp` is a whole number, not a table"),
        ("inf", "`mesh.tp` is a whole number, not `inf`"),
    ] {
        assert_says("tp = 2", &format!("tp = {to}"), expected);
    }
    for (to, expected) in [
        ("1.2345", "`routing.skew` = 1.2345 has more than three decimal places"),
        ("-1.25", "`routing.skew` = -1.25 is negative"),
        ("-1", "`routing.skew` = -1 is negative"),
        ("nan", "`routing.skew` is a decimal number such as 1.25, not `NaN`"),
        (
            "\"1.25\"",
            "`routing.skew` is a decimal number such as 1.25, not `\"1.25\"`\n= help: write it without quotes: `1.25`",
        ),
        ("\"high\"", "`routing.skew` is a decimal number such as 1.25, not `\"high\"`"),
        ("1e30", "`routing.skew` = 1000000000000000000000000000000 does not fit in 64 bits, counted in thousandths"),
    ] {
        assert_says("skew = 1.25", &format!("skew = {to}"), expected);
    }
    for (to, expected) in [
        ("10", "`headroom` is a percentage, not `10`\n= help: write `\"10%\"`"),
        ("\"10\"", "`headroom` is a percentage, not `\"10\"`\n= help: write `\"10%\"`"),
        ("\"12.5%\"", "`headroom` is a percentage, not `\"12.5%\"`\n= help: write `\"10%\"`"),
        ("\"-5%\"", "`headroom` is a percentage, not `\"-5%\"`\n= help: write `\"10%\"`"),
        ("0.2", "`headroom` is a percentage, not `0.2`\n= help: write `\"20%\"`"),
        ("{ percent = 10 }", "`headroom` is a percentage, not a table\n= help: write `\"10%\"`"),
        ("\"99999999999999999999%\"", "`headroom` = 99999999999999999999 does not fit in 64 bits"),
    ] {
        assert_says("headroom = \"10%\"", &format!("headroom = {to}"), expected);
    }
}

#[test]
fn words_that_are_not_in_the_list() {
    let zero = "zero = \"optimizer\"";
    for (from, to, expected) in [
        (zero, "zero = \"optimiser\"", "`zero` cannot be `optimiser`\n= help: did you mean `optimizer`?"),
        (
            zero,
            "zero = \"all\"",
            "`zero` cannot be `all`\n= help: write `none`, `optimizer`, `gradients` or `parameters`, or a table of its keys",
        ),
        (
            zero,
            "zero = { kind = \"optimizer\" }",
            "`zero.kind` cannot be `optimizer`\n= help: `optimizer` takes no keys: write it in the table's place",
        ),
        (
            zero,
            "zero = 1",
            "`zero` cannot be `1`\n= help: ZeRO-1 is `optimizer`, ZeRO-2 `gradients`, ZeRO-3 `parameters`",
        ),
        (
            zero,
            "zero.dense = \"zero2\"",
            "`zero.dense` cannot be `zero2`\n= help: ZeRO-1 is `optimizer`, ZeRO-2 `gradients`, ZeRO-3 `parameters`",
        ),
        (zero, "schedule = \"1F1B\"", "`schedule` cannot be `1F1B`\n= help: did you mean `one_f_one_b`?"),
        (zero, "schedule = \"GPipe\"", "`schedule` cannot be `GPipe`\n= help: did you mean `gpipe`?"),
        (zero, "schedule = \"zb-v\"", "`schedule` cannot be `zb-v`\n= help: did you mean `zb_v`?"),
        (zero, "device = \"A100\"", "`device` cannot be `A100`\n= help: did you mean `a100_40gb` or `a100_80gb`?"),
        (
            zero,
            "precision.weights = \"bfloat16\"",
            "`precision.weights` cannot be `bfloat16`\n= help: did you mean `bf16`?",
        ),
        (zero, "precision.weights = \"half\"", "`precision.weights` cannot be `half`\n= help: did you mean `fp16`?"),
        (
            zero,
            "precision = \"bf16\"",
            "`precision` cannot be `bf16`\n= help: write a table with `bf16` as its `weights`",
        ),
        (
            zero,
            "stages = 16",
            "`stages` cannot be `16`\n= help: write `even`, a layout string such as \"Et|(tt|)*30mL\", or a table of its keys",
        ),
        (zero, "recompute = 1", "`recompute` cannot be `1`\n= help: write `none`, `full` or `selective`"),
        (zero, "recompute = true", "`recompute` cannot be `true`\n= help: write `none`, `full` or `selective`"),
        (zero, "recompute = { all = 1 }", "`recompute` cannot be a table\n= help: write `none`, `full` or `selective`"),
        (zero, "placement = \"placement\"", "`placement` cannot be `placement`\n= help: write a table of its keys"),
        (zero, "placement = 3", "`placement` cannot be `3`\n= help: write a table of its keys"),
        (
            "kind = \"mla\"",
            "kind = \"mha\"",
            "`attention.kind` cannot be `mha`\n= help: multi-head attention is `gqa` with as many `kv_heads` as `heads`",
        ),
        (
            "kind = \"mla\"",
            "kind = \"flash\"",
            "`attention.kind` cannot be `flash`\n= help: write `mla`, `gqa` or `compressed`",
        ),
        ("kind = \"mla\"", "kind = 1", "`attention.kind` cannot be `1`\n= help: write `mla`, `gqa` or `compressed`"),
        (
            "sequence_parallel = true",
            "sequence_parallel = \"yes\"",
            "`mesh.sequence_parallel` cannot be `yes`\n= help: write `on`",
        ),
    ] {
        assert_says(from, to, expected);
    }
    let mut json = serde_json::to_value(Small::MAIN.spec()).expect("a Spec is data");
    for (key, value, expected) in [
        ("attention", Json::from("mla"), "`attention` cannot be `mla`\n= help: write a table of kind `mla`"),
        ("attention", Json::from("mlb"), "`attention` cannot be `mlb`\n= help: write a table of kind `mla`"),
        (
            "accounting",
            Json::from("flash"),
            "`accounting` cannot be `flash`\n= help: write a table of kind `paper` with `flash` as its `kernel`",
        ),
        ("attention", Json::from("mha"), "`attention` cannot be `mha`\n= help: write a table of kind `gqa`"),
        (
            "routing",
            Json::from("even"),
            "`routing` cannot be `even`\n= help: write `balanced` or `worst`, or a table of kind `dropless` or `capacity`",
        ),
        ("mesh", Json::Null, "`mesh` cannot be null\n= help: write a table of its keys"),
    ] {
        let before = std::mem::replace(&mut json[key], value);
        let said = serde_json::from_value::<Spec>(json.clone()).expect_err("it cannot be read").to_string();
        assert_eq!(said, expected);
        json[key] = before;
    }
}

/// JSON lets a key stand twice, and has no whole numbers beyond 64 bits.
#[test]
fn what_only_json_can_say() {
    let json = serde_json::to_string(Small::MAIN.spec()).expect("a Spec is data");
    for (from, to, expected) in [
        ("\"tp\":2", "\"tp\":2,\"tp\":2", "`mesh.tp` is given twice"),
        ("\"kind\":\"mla\"", "\"kind\":\"mla\",\"kind\":\"gqa\"", "`attention.kind` is given twice"),
        ("\"tp\":2", "\"tp\":18446744073709551616", "`mesh.tp` = 1.8446744073709552e19 does not fit in 64 bits"),
        ("\"tp\":2", "\"t\\u0000p\":2", "`mesh` has no key `t\\u{0}p`\n= help: did you mean `tp`?"),
    ] {
        assert!(json.contains(from), "{from} is in {json}");
        let said = serde_json::from_str::<Spec>(&json.replacen(from, to, 1)).expect_err("it cannot be read");
        assert_eq!(said.to_string(), expected, "with {to}");
    }
    let said = serde_json::from_str::<Spec>("[]").expect_err("it cannot be read").to_string();
    assert_eq!(said, "invalid type: sequence, expected a table of keys at line 1 column 0");
}

#[test]
fn every_fault_is_said_with_its_path() {
    let text =
        SMALL.replace("tp = 2", "tpp = 2\npp = \"2\"").replace("\npp = 2\n", "\n").replace("\"flash\"", "\"flesh\"");
    let document: Document = toml::from_str(&text).expect("it is TOML");
    let faults = document.read().expect_err("it cannot be read");
    let paths: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
    // The order of a file's tables is the format's: TOML's reader sorts keys.
    assert_eq!(paths, ["accounting.kernel", "mesh.pp", "mesh.tpp"]);
    assert_eq!(
        faults.to_string(),
        "`accounting.kernel` cannot be `flesh`\n= help: did you mean `flash`?\n\
         error: `mesh.pp` is a whole number, not `\"2\"`\n= help: write it without quotes: `2`\n\
         error: `mesh` has no key `tpp`\n= help: did you mean `tp`?"
    );
}

/// A number out of range can be read: the laws say more of it.
#[test]
fn numbers_out_of_range_are_for_the_laws() {
    let text = SMALL.replace("tp = 2", "tp = 0").replace("hidden = 128", "hidden = 18446744073709551615");
    let declared: Declared = toml::from_str(&text).expect("it can be read");
    let violations = declared.judge().to_string();
    assert!(violations.contains("`mesh.tp` = 0 is less than 1"), "{violations}");
    assert!(violations.contains("`hidden` = 18446744073709551615 is more than 2147483648"), "{violations}");
}

/// Beyond what a number with a point keeps, writing fails rather than write another number.
#[test]
fn a_decimal_is_written_exactly_or_not_at_all() {
    let mut spec = *Small::MAIN.spec();
    spec.set(Key::RoutingSkew, u64::MAX);
    let said = serde_json::to_string(&spec).expect_err("it has too many digits").to_string();
    assert_eq!(said, "`routing.skew` has more digits than a file keeps");
}

/// Whatever the table of keys says, the reader reads: each key of each group with each of its words.
#[test]
fn every_word_can_be_read() {
    let json = serde_json::to_value(Small::MAIN.spec()).expect("a Spec is data");
    for Field { key, value, .. } in Layout::FIELDS {
        let Value::Choice { words, .. } = value else { continue };
        for (place, word) in words.iter().enumerate() {
            let mut json = json.clone();
            json[key.path()] = Json::from(word.word);
            let mut expected = *Small::MAIN.spec();
            expected.set(*key, place as u64);
            let read: Spec = serde_json::from_value(json).expect("the word is in the list");
            assert_eq!(read, expected, "{}: {}", key.path(), word.word);
        }
    }
}
