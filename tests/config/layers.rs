//! Layers that configs tell apart, and what stands in them.

use super::*;

/// Layers with experts may stand apart, the last layer being one; dense ones have a width of their own then.
#[test]
fn every_second_layer() {
    let mut scout = config("llama-4-scout");
    let text = scout["text_config"].as_object_mut().expect("it is an object");
    text.insert("interleave_moe_layer_step".to_owned(), 2.into());
    text.insert("num_local_experts".to_owned(), 128.into());
    let maverick = Architecture::from_config_json(&Value::Object(scout).to_string()).expect("it can be read");
    assert_eq!(Some(maverick), Preset::named("llama_4_maverick").map(|preset| preset.architecture));

    let layers = with("qwen3-30b-a3b", "decoder_sparse_step", Some("3")).expect("it can be read").layers;
    assert_eq!((layers.dense, layers.moe, layers.moe_every, layers.ffn), (32, 16, 3, 6144));
    for (step, said) in [("0", "is not a number above 0"), ("5", "does not divide `num_hidden_layers` = 48")] {
        let error = with("qwen3-30b-a3b", "decoder_sparse_step", Some(step)).expect_err(step).to_string();
        assert!(error.contains(said), "{error}");
    }
}

/// Some layers may be dense though others around them have experts; others then count as if they had.
#[test]
fn dense_layers_among_others() {
    let some = with("qwen3-30b-a3b", "mlp_only_layers", Some("[0, 47, 9]")).expect("it can be read").layers;
    assert_eq!(some, Layers { dense: 3, moe: 45, ffn: 6144, list: LayerList::parse("aA*8aA*37a"), ..Layers::DEFAULT });
    let fault = fault("qwen3-30b-a3b", "mlp_only_layers", Some("[3, 48]")).to_string();
    assert!(fault.contains("holds 48; there are 48 layers, from 0"), "{fault}");
    let renamed = with("qwen3-30b-a3b", "num_experts", None).expect_err("there is no number of experts").to_string();
    assert!(renamed.contains("the config lacks `num_experts`"), "{renamed}");
}

/// A list says what each layer is: of each exactly one thing that is known.
#[test]
fn layers_are_listed() {
    for (name, field, count) in [
        ("mimo-v2-flash", "hybrid_layer_pattern", 48),
        ("mimo-v2-flash", "moe_layer_freq", 48),
        ("minimax-text-01", "layer_types", 80),
        ("nemotron-3-nano-30b-a3b", "layers_block_type", 52),
        ("deepseek-v4-flash", "compress_ratios", 43),
    ] {
        let said = |value| fault(name, field, value).to_string();
        assert!(
            said(Some("[]")).contains(&format!("as many as `num_hidden_layers` = {count}")),
            "{}",
            said(Some("[]"))
        );
        for other in ["2", "\"sliding_attention\"", "[0]", "null", "0.0", "-1"] {
            let said = fault(name, field, Some(&format!("[{other}]"))).to_string();
            assert!(said.ends_with(&format!("holds {other}, which is not supported yet")), "{said}");
        }
        assert_eq!(said(Some("\"MEM*\"")), format!("`{field}` = \"MEM*\" is not a list"));
        if field != "layers_block_type" {
            assert_eq!(said(None), format!("the config lacks `{field}`"));
        }
    }
}

/// What none of the layers has is not described.
#[test]
fn what_no_layer_has_is_left_out() {
    let all = |item: &str, count| format!("[{}]", vec![item; count].join(", "));
    let full = with("mimo-v2-flash", "hybrid_layer_pattern", Some(&all("0", 48))).expect("it can be read");
    assert_eq!((full.mixer, full.layers.list), (Mixer::None, LayerList::parse("aA*47")));
    let soft = with("minimax-text-01", "layer_types", Some(&all("\"full_attention\"", 80))).expect("it can be read");
    assert_eq!((soft.mixer, soft.layers.list), (Mixer::None, LayerList::parse("A*80")));
    let dense = with("jamba-v0.1", "num_experts", Some("1")).expect("it can be read");
    let layers = Layers { dense: 32, ffn: 14_336, list: LayerList::parse("(mmmmammm)*4"), ..Layers::DEFAULT };
    assert_eq!((dense.layers, dense.experts), (layers, Experts::DEFAULT));
    for architecture in [full, soft, dense] {
        let violations = judge(&Spec { architecture, layout: Layout::DEFAULT });
        assert!(violations.is_empty(), "{violations}");
    }
}

/// There is room for 256.
#[test]
fn long_lists_are_refused() {
    for name in ["deepseek-v4-flash", "jamba-v0.1", "mimo-v2-flash", "minimax-text-01"] {
        for count in ["257", "18446744073709551615"] {
            let said = fault(name, "num_hidden_layers", Some(count)).to_string();
            assert!(said.starts_with(&format!("`num_hidden_layers` = {count} is more than 256 layers: no ")), "{said}");
        }
    }
    let longest = with("jamba-v0.1", "num_hidden_layers", Some("256")).expect("it can be read");
    assert_eq!(longest.layers.list, LayerList::parse("(mMmMaMmM)*32"));
    let nemotron = |count| {
        let pattern = format!("\"{}\"", "M".repeat(count));
        let changes = [("hybrid_override_pattern", Some(&*pattern)), ("num_hidden_layers", None)];
        changed("nemotron-3-nano-30b-a3b", &changes)
    };
    assert_eq!(nemotron(256).expect("it can be read").layers.list.layers(), 256);
    let said = nemotron(257).expect_err("it is too long").to_string();
    assert!(said.starts_with("error: `hybrid_override_pattern` = \"MMM"), "{said}");
    assert!(said.ends_with("… is more than 256 layers: no longer list of them is supported yet"), "{said}");
}

#[test]
fn jamba_counts_from_an_offset() {
    let list = |field, value| with("jamba-v0.1", field, Some(value)).expect("it can be read").layers.list.to_string();
    assert_eq!(list("attn_layer_offset", "0"), "(aMmMmMmM)*4");
    assert_eq!(list("expert_layer_period", "4"), "(mMmmaMmm)*4");
    assert_eq!(list("num_hidden_layers", "9"), "mMmMaMmMm");
    let said = |field, value| fault("jamba-v0.1", field, Some(value)).to_string();
    assert_eq!(said("attn_layer_period", "0"), "`attn_layer_period` = 0 is not a number above 0");
    assert_eq!(said("attn_layer_offset", "8"), "`attn_layer_offset` = 8 is not below `attn_layer_period` = 8");
    assert_eq!(said("expert_layer_offset", "9"), "`expert_layer_offset` = 9 is not below `expert_layer_period` = 2");
}

/// The inner width is so many hidden widths; the rank of the time step may follow from one.
#[test]
fn mamba_is_measured_by_the_hidden_state() {
    let mamba = |field, value| match with("jamba-v0.1", field, value).expect("it can be read").mixer {
        Mixer::Mamba1(Mamba1 { inner, time_rank, .. }) => (inner, time_rank),
        other => panic!("{other:?}"),
    };
    assert_eq!(mamba("mamba_expand", Some("3")), (12_288, 256));
    assert_eq!(mamba("mamba_dt_rank", Some("100")), (8192, 100));
    for auto in [None, Some("null"), Some("\"auto\"")] {
        assert_eq!(mamba("mamba_dt_rank", auto), (8192, 256));
    }
    let changes = [("mamba_dt_rank", Some("\"auto\"")), ("hidden_size", Some("4128"))];
    let odd = changed("jamba-v0.1", &changes).expect("it can be read").mixer;
    assert_eq!(odd, Mixer::Mamba1(Mamba1 { inner: 8256, state: 16, conv: 4, time_rank: 258 }));
    assert!(fault("jamba-v0.1", "mamba_dt_rank", Some("\"many\"")).to_string().ends_with("is not a whole number"));
    // An inner width that 64 bits do not hold is not another one.
    assert_eq!(mamba("mamba_expand", Some("18446744073709551615")).0, u64::MAX);
}

/// Whether heads have sinks is said of layers with a window, and of the others.
#[test]
fn sinks_are_switched() {
    let sinks = |changes: &[(&str, Option<&str>)]| {
        let model = changed("mimo-v2-flash", changes).expect("it can be read");
        let (Attention::Gqa(Gqa { sinks, .. }), Mixer::LocalGqa(local)) = (model.attention, model.mixer) else {
            panic!("{model:?}");
        };
        (sinks.is_on(), local.sinks.is_on())
    };
    let (full, local) = ("add_full_attention_sink_bias", "add_swa_attention_sink_bias");
    assert_eq!(sinks(&[(full, Some("true"))]), (true, true));
    assert_eq!(sinks(&[(local, Some("false"))]), (false, false));
    for field in [full, local] {
        assert_eq!(fault("mimo-v2-flash", field, None).to_string(), format!("the config lacks `{field}`"));
    }
    for field in ["v_head_dim", "swa_v_head_dim"] {
        let said = fault("mimo-v2-flash", field, Some("0")).to_string();
        assert_eq!(said, format!("`{field}` = 0 is not a number above 0"));
    }
}

/// Each layer of Nemotron-H is one block, by a letter or by a word.
#[test]
fn layers_of_one_block() {
    const NANO: &str = "nemotron-3-nano-30b-a3b";
    let (pattern, list) = ("hybrid_override_pattern", "layers_block_type");
    let nano = with(NANO, "torch_dtype", None).expect("it can be read");
    let words = |[mamba, attention]: [&str; 2]| {
        let letters = config(NANO)[pattern].as_str().expect("it is a string").to_owned();
        let word = |letter| match letter {
            'M' => mamba,
            '*' => attention,
            _ => "moe",
        };
        serde_json::to_string(&letters.chars().map(word).collect::<Vec<_>>()).expect("words are JSON")
    };
    for names in [["mamba", "attention"], ["linear_attention", "full_attention"]] {
        let words = words(names);
        for letters in [None, Some(&*config(NANO)[pattern].to_string())] {
            assert_eq!(changed(NANO, &[(pattern, letters), (list, Some(&words))]), Ok(nano));
            assert_eq!(
                changed(NANO, &[(pattern, letters), (list, Some(&words)), ("num_hidden_layers", None)]),
                Ok(nano)
            );
        }
    }
    let said = |field, value| fault(NANO, field, value).to_string();
    assert_eq!(said(pattern, None), format!("the config lacks `{pattern}`"));
    assert_eq!(said(pattern, Some("[\"M\"]")), format!("`{pattern}` = [\"M\"] is not a string"));
    assert!(said(pattern, Some("\"M|E\"")).ends_with(r#"holds "|", which is not supported yet"#));
    assert!(said(pattern, Some("\"ME\"")).ends_with("is not a list of as many as `num_hidden_layers` = 52"));
    assert!(said("num_hidden_layers", Some("51")).contains("is not a list of as many as `num_hidden_layers` = 51"));
    let other = words(["mamba", "mamba"]);
    assert!(said(list, Some(&other)).ends_with("is not what `hybrid_override_pattern` says"));
}

/// What a config says of blocks that no layer is may be missing.
#[test]
fn nemotron_with_dense_networks() {
    const NANO: &str = "nemotron-3-nano-30b-a3b";
    const MOE: &[&str] = &[
        "moe_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "n_group",
        "n_routed_experts",
        "n_shared_experts",
        "num_experts_per_tok",
        "topk_group",
    ];
    let (pattern, layers) = (("hybrid_override_pattern", Some("\"M-M*-\"")), ("num_hidden_layers", Some("5")));
    let without: Vec<_> = MOE.iter().map(|field| (*field, None)).chain([pattern, layers]).collect();
    let dense = changed(NANO, &without).expect("it can be read");
    assert_eq!(changed(NANO, &[pattern, layers]), Ok(dense));
    let expected =
        Layers { dense: 2, ffn: 1856, list: LayerList::parse("mdmad"), gated: Switch::Off, ..Layers::DEFAULT };
    assert_eq!((dense.layers, dense.experts), (expected, Experts::DEFAULT));
    let error = changed(NANO, &[pattern, layers, ("intermediate_size", None)]).expect_err("it has no width");
    assert_eq!(error.to_string(), "error: the config lacks `intermediate_size`");
    assert!(with(NANO, "intermediate_size", None).is_ok(), "no layer is that wide");
    let latent = |value| with(NANO, "moe_latent_size", value).map(|model| model.experts.latent);
    assert_eq!((latent(Some("1024")), latent(Some("null")), latent(None)), (Ok(1024), Ok(0), Ok(0)));
    let said = fault(NANO, "moe_latent_size", Some("0")).to_string();
    assert_eq!(said, "`moe_latent_size` = 0 is not a number above 0");
}

/// Arctic's code takes the absence of two fields for another model.
#[test]
fn experts_beside_a_dense_network() {
    for (field, other) in [("moe_layer_frequency", "2"), ("parallel_attn_mlp_res", "false")] {
        assert_eq!(fault("arctic", field, None).to_string(), format!("the config lacks `{field}`"));
        let said = fault("arctic", field, Some(other)).to_string();
        assert!(said.starts_with(&format!("`{field}` = {other} is not supported yet")), "{said}");
    }
    let arctic = with("arctic", "torch_dtype", None);
    assert_eq!(with("arctic", "use_residual", Some("true")), arctic);
    assert!(matches!(fault("arctic", "use_residual", Some("false")).reason, Reason::Unsupported { .. }));
    // The network beside the experts is as wide as the hidden state, they are as wide as the config says.
    let wide = changed("arctic", &[("hidden_size", Some("7224")), ("intermediate_size", Some("64"))]);
    assert!(wide.is_ok_and(|wide| (wide.layers.ffn, wide.experts.ffn) == (7224, 64)));
}

/// A ratio says how a layer compresses.
#[test]
fn ratios_are_kinds_of_attention() {
    const FLASH: &str = "deepseek-v4-flash";
    let list = |ratios: &[u64]| serde_json::to_string(ratios).expect("numbers are JSON");
    let ratios: Vec<u64> =
        config(FLASH)["compress_ratios"].as_array().expect("it is a list").iter().filter_map(Value::as_u64).collect();
    let read = |ratios: &[u64]| with(FLASH, "compress_ratios", Some(&list(ratios)));
    let said = |ratios: &[u64]| fault(FLASH, "compress_ratios", Some(&list(ratios))).to_string();
    // With the ratio of its MTP module and without, but not with more or less.
    assert_eq!((ratios.len(), read(&ratios[..43])), (44, read(&ratios)));
    assert!(said(&ratios[..42]).ends_with("as many as `num_hidden_layers` = 43, or of 1 MTP modules more"));
    assert!(said(&[&*ratios, &[0]].concat()).contains("is not a list of as many as"));
    assert!(fault(FLASH, "num_nextn_predict_layers", Some("0")).to_string().starts_with("`compress_ratios` = [0,0,4"));

    let heavy = |of: &dyn Fn(u64) -> u64| ratios.iter().map(|ratio| of(*ratio)).collect::<Vec<_>>();
    let compressed = |model: Architecture| match model.attention {
        Attention::Compressed(Compressed { compress, compress_heavy, .. }) => (compress, compress_heavy),
        other => panic!("{other:?}"),
    };
    let other = read(&heavy(&|ratio| if ratio == 128 { 64 } else { ratio })).expect("it can be read");
    assert_eq!(compressed(other), (4, 64));
    let light = read(&heavy(&|ratio| ratio.min(4))).expect("it can be read");
    assert_eq!(light.layers.list, LayerList::parse("AAC*41"));
    let two = said(&heavy(&|ratio| if ratio == 0 { 64 } else { ratio }));
    assert!(two.contains("holds 64 and 128: no more than one ratio above 4 is supported yet"), "{two}");
    for small in [1, 2, 3] {
        let said = said(&heavy(&|ratio| if ratio == 4 { small } else { ratio }));
        assert!(said.ends_with(&format!("holds {small}, which is not supported yet")), "{said}");
    }
    let said = |field, value| fault(FLASH, field, Some(value)).to_string();
    assert_eq!(said("num_hash_layers", "44"), "`num_hash_layers` = 44 is more than `num_hidden_layers` = 43");
    assert_eq!(said("hc_mult", "0"), "`hc_mult` = 0 is not a number above 0");
}

/// What a layer is made of, by a word for each or by a number; what says both must say one thing.
#[test]
fn layers_are_told_apart() {
    const NEXT: &str = "qwen3-next-80b-a3b";
    const STEP: &str = "full_attention_interval";
    let (full, linear) = ("full_attention", "linear_attention");
    let published = words(&[linear, linear, linear, full], 48);
    let whole = with(NEXT, STEP, Some("4"));
    assert_eq!(changed(NEXT, &[(STEP, None), ("layer_types", Some(&published))]), whole);
    assert_eq!(changed(NEXT, &[("layer_types", Some(&published))]), whole);
    let layers = |changes: Changes<'_>| changed(NEXT, changes).expect("it can be read").layers.list;
    assert_eq!(layers(&[(STEP, Some("5"))]), LayerList::parse("(MMMMA)*9MMM"));
    assert_eq!(
        layers(&[(STEP, None), ("layer_types", Some(&words(&[full, linear], 48)))]),
        LayerList::parse("(AM)*24")
    );
    // Where no layer has it, there is no mixer.
    let plain = with(NEXT, STEP, Some("1")).expect("it can be read");
    assert_eq!((plain.mixer, plain.layers.list), (Mixer::None, LayerList::parse("A*48")));

    let said = |changes: Changes<'_>| fault_of(NEXT, changes).to_string();
    assert_eq!(said(&[(STEP, None)]), "the config lacks `full_attention_interval`");
    assert_eq!(said(&[(STEP, Some("0"))]), "`full_attention_interval` = 0 is not a number above 0");
    let both = said(&[(STEP, Some("3")), ("layer_types", Some(&published))]);
    assert_eq!(both, "`full_attention_interval` = 3 is not what `layer_types` says");
    let alone = |value: &str| said(&[(STEP, None), ("layer_types", Some(value))]);
    assert!(alone(&words(&[full], 47)).ends_with("is not a list of as many as `num_hidden_layers` = 48"));
    assert!(
        alone(&words(&[full, "sliding_attention"], 48))
            .ends_with("holds \"sliding_attention\", which is not supported yet")
    );
    assert_eq!(alone("4"), "`layer_types` = 4 is not a list");

    // Within an object, by the path.
    let said = fault("qwen3.5-35b-a3b", "text_config.full_attention_interval", Some("5")).to_string();
    assert_eq!(said, "`text_config.full_attention_interval` = 5 is not what `layer_types` says");
}

/// A list holds a bounded number of layers. Where they are alike there is none.
#[test]
fn no_more_layers_than_a_list_holds() {
    let (full, sparse) = (words(&["full_attention"], 300), words(&["sparse"], 257));
    for (name, within) in [
        ("qwen3-next-80b-a3b", ""),
        ("qwen3.5-35b-a3b", "text_config."),
        ("gemma-4-26b-a4b", "text_config."),
        ("hunyuan-large", ""),
        ("kimi-linear-48b-a3b", ""),
    ] {
        let count = format!("{within}num_hidden_layers");
        for many in ["257", "4294967296", "18446744073709551615"] {
            let said = fault(name, &count, Some(many)).to_string();
            assert!(said.starts_with(&format!("`{count}` = {many} is more than 256 layers: ")), "{said}");
        }
        assert!(with(name, &format!("{within}layer_types"), Some(&full)).is_err(), "{name}");
    }
    let both = [("layer_types", Some(&*full)), ("mlp_layer_types", Some(&*sparse))];
    let error = changed("kimi-linear-48b-a3b", &both).expect_err("both are too long");
    assert_eq!(error.faults().len(), 2, "{error}");
    let alike = changed("hunyuan-large", &[("use_cla", Some("false")), ("num_hidden_layers", Some("300"))]);
    assert_eq!(
        alike.map(|model| (model.layers, model.mixer)),
        Ok((Layers { moe: 300, ..Layers::DEFAULT }, Mixer::None))
    );
    assert!(with("longcat-flash", "num_layers", Some("300")).is_ok());
}

/// Layers of Hunyuan-Large that read the keys and values of one in front, and options of all its layers.
#[test]
fn keys_and_values_are_shared() {
    const LARGE: &str = "hunyuan-large";
    let read = |field, value| with(LARGE, field, Some(value)).unwrap_or_else(|e| panic!("{field}: {e}"));
    assert_eq!(read("cla_share_factor", "3").layers.list, LayerList::parse("(AMM)*21A"));
    let plain = read("cla_share_factor", "1");
    assert_eq!(Ok(plain), with(LARGE, "use_cla", Some("false")));
    assert_eq!(Ok(plain), with(LARGE, "use_cla", None));
    assert_eq!((plain.mixer, plain.layers), (Mixer::None, Layers { moe: 64, ..Layers::DEFAULT }));
    let unnormed = read("use_qk_norm", "false");
    assert_eq!(Ok(unnormed), with(LARGE, "use_qk_norm", None));
    assert!(matches!(unnormed.attention, Attention::Gqa(Gqa { qk_norm: QkNorm::None, .. })));
    assert!(matches!(unnormed.mixer, Mixer::LocalGqa(LocalGqa { qk_norm: QkNorm::None, .. })));
    for (field, value) in [
        ("attention_head_dim", "80"),
        ("head_dim", "80"),
        ("moe_intermediate_size", "18304"),
        ("norm_type", "\"hf_rms\""),
        ("norm_type", "\"rms\""),
    ] {
        assert_eq!(Ok(read(field, value)), with(LARGE, field, None), "{field}");
    }

    let said = |field, value| fault(LARGE, field, value).to_string();
    assert_eq!(said("cla_share_factor", None), "the config lacks `cla_share_factor`");
    assert_eq!(said("cla_share_factor", Some("0")), "`cla_share_factor` = 0 is not a number above 0");
    assert_eq!(said("use_cla", Some("2")), "`use_cla` = 2 is not true or false");
    assert_eq!(said("use_mixed_mlp_moe", None), "the config lacks `use_mixed_mlp_moe`");
    assert!(said("use_mixed_mlp_moe", Some("false")).starts_with("`use_mixed_mlp_moe` = false is not supported yet"));
    for width in ["attention_head_dim", "head_dim"] {
        let even = format!("`{width}` = 128 is not `hidden_size` over `num_attention_heads`, 80");
        assert_eq!(said(width, Some("128")), even);
    }
    assert!(said("moe_intermediate_size", Some("3072")).starts_with("`intermediate_size` = 18304 is not `moe_"));
    assert!(said("num_experts", Some("1")).starts_with("`num_experts` = 1 makes every layer dense"));
}

/// Kimi Linear's config as it is published: what is linear attention's in an object, layers by their numbers from 1.
#[test]
fn linear_attention_may_have_an_object() {
    const KIMI: &str = "kimi-linear-48b-a3b";
    let object = |full: &[u64], linear: &[u64]| {
        let [full, linear] = [full, linear].map(|layers| layers.iter().copied().collect::<Value>());
        format!(
            r#"{{"full_attn_layers": {full}, "kda_layers": {linear}, "head_dim": 128, "num_heads": 32,
                "short_conv_kernel_size": 4}}"#
        )
    };
    // As published: the last layer has attention too.
    let full = [4, 8, 12, 16, 20, 24, 27];
    let rest = |full: &[u64]| (1..=27).filter(|layer| !full.contains(layer)).collect::<Vec<u64>>();
    let flat = ["linear_head_dim", "linear_num_heads", "linear_conv_kernel_dim", "layer_types", "mlp_layer_types"];
    let read = |object: &str, more: Changes<'_>| {
        let first = [("linear_attn_config", Some(object)), ("first_k_dense_replace", Some("1"))];
        let changes = flat.iter().map(|name| (*name, None)).chain(first).chain(more.iter().copied());
        changed(KIMI, &changes.collect::<Vec<_>>())
    };
    let published = read(&object(&full, &rest(&full)), &[]).expect("it can be read");
    assert_eq!(published.layers.list, LayerList::parse("mMMA(MMMA)*5MMA"));
    assert_eq!((published.layers.dense, published.layers.moe), (1, 26));
    assert_eq!(published.mixer, Mixer::Kda(Kda { heads: 32, head_dim: 128, conv: 4 }));
    // What transformers takes for its layers is another model.
    let other = [5, 9, 13, 17, 21, 25];
    let object_of_other = object(&other, &rest(&other));
    let written = with(KIMI, "linear_attn_config", None);
    assert_eq!(read(&object_of_other, &[]), written);
    assert_eq!(with(KIMI, "linear_attn_config", Some(&object_of_other)), written, "both, and they agree");

    let said = |object: &str, more: Changes<'_>| {
        let error = read(object, more).expect_err(object);
        assert_eq!(error.faults().len(), 1, "{error}");
        error.faults()[0].to_string()
    };
    let right = object(&full, &rest(&full));
    let uneven = "does not say of each layer from 1 to `num_hidden_layers` = 27, once, what it is";
    for (full, linear) in [
        (&full[..6], rest(&full)),
        (&[&full[..], &[28]].concat(), rest(&full)),
        (&[&full[..], &[4]].concat(), rest(&full)),
        (&[&full[..], &[1]].concat(), rest(&full)),
        (&[0, 4, 8, 12, 16, 20, 24], rest(&full)),
    ] {
        let said = said(&object(full, &linear), &[]);
        assert!(said.starts_with("`linear_attn_config` = {") && said.ends_with(uneven), "{said}");
    }
    for (field, value) in [("linear_head_dim", "64"), ("linear_num_heads", "16"), ("linear_conv_kernel_dim", "3")] {
        let said = said(&right, &[(field, Some(value))]);
        assert!(said.starts_with(&format!("`{field}` = {value} is not what `linear_attn_config` says: ")), "{said}");
    }
    assert!(
        said(&right, &[("layer_types", Some(&words(&["full_attention"], 27)))])
            .ends_with("is not what `linear_attn_config` says")
    );
    assert_eq!(said("[]", &[]), "`linear_attn_config` = [] is not an object");
    let lacking = said("{}", &[]);
    assert!(
        lacking.starts_with("the config lacks `linear_attn_config.num_heads`, `linear_attn_config.head_dim`"),
        "{lacking}"
    );
    assert!(said(&right.replace("[4,8,", "[\"4\",8,"), &[]).ends_with("is not a list of whole numbers"));
    // Kimi K3's, whose gates have the full rank.
    let unknown = said(&right.replace("\"num_heads\"", "\"use_full_rank_gate\": true, \"num_heads\""), &[]);
    assert!(unknown.starts_with("`linear_attn_config.use_full_rank_gate` = true is not a known field"), "{unknown}");
    assert_eq!(said(&right, &[("num_hidden_layers", None)]), "the config lacks `num_hidden_layers`");

    assert!(
        said(&right, &[("tie_word_embeddings", Some("1"))]).starts_with("`tie_word_embeddings` = 1 is not supported")
    );

    // Without the object what is beside it must be there.
    for name in ["layer_types", "linear_head_dim", "linear_num_heads", "linear_conv_kernel_dim"] {
        assert_eq!(fault(KIMI, name, None).to_string(), format!("the config lacks `{name}`"));
    }
    // Which layers are dense: by a word each, or so many first.
    assert_eq!(fault(KIMI, "mlp_layer_types", None).to_string(), "the config lacks `first_k_dense_replace`");
    let first = |number| changed(KIMI, &[("mlp_layer_types", None), ("first_k_dense_replace", Some(number))]);
    assert_eq!(first("1"), written);
    assert_eq!(with(KIMI, "first_k_dense_replace", Some("1")), written);
    let mixed = r#"["sparse", "dense", "sparse"]"#;
    let few = [("num_hidden_layers", Some("3")), ("mlp_layer_types", Some(mixed))];
    let few = [&few[..], &[("layer_types", Some(r#"["linear_attention", "linear_attention", "full_attention"]"#))]];
    let few = changed(KIMI, &few.concat()).expect("it can be read").layers;
    assert_eq!((few.list, few.dense, few.moe), (LayerList::parse("MmA"), 1, 2));
    let more = first("28").expect_err("there are 27").to_string();
    assert_eq!(more, "error: `first_k_dense_replace` = 28 is more than `num_hidden_layers` = 27");
    let both = fault(KIMI, "first_k_dense_replace", Some("2")).to_string();
    assert_eq!(both, "`first_k_dense_replace` = 2 is not what `mlp_layer_types` says");
}

/// Gemma 4's heads: those of layers without a window, and those of the others.
#[test]
fn heads_of_layers_without_a_window() {
    const GEMMA: &str = "gemma-4-26b-a4b";
    let of = |changes: Changes<'_>| {
        let model = changed(GEMMA, changes).unwrap_or_else(|e| panic!("{e}"));
        let Attention::Gqa(gqa) = model.attention else { panic!("it is grouped") };
        (gqa.kv_heads, gqa.head_dim, gqa.key_as_value.is_on())
    };
    let (heads, equal) = ("text_config.num_global_key_value_heads", "text_config.attention_k_eq_v");
    assert_eq!(of(&[]), (2, 512, true));
    assert_eq!(of(&[(heads, Some("null"))]), (8, 512, true));
    assert_eq!(of(&[(equal, Some("false")), (heads, Some("null"))]), (8, 512, false));
    assert_eq!(of(&[(equal, None), (heads, None)]), (8, 512, false));
    assert_eq!(of(&[("text_config.global_head_dim", Some("256"))]), (2, 256, true));

    let said = |field: &str, value: Option<&str>| fault(GEMMA, field, value).to_string();
    let denied =
        "`text_config.num_global_key_value_heads` = 2 is not `num_key_value_heads` = 8, though keys are not values";
    assert_eq!(said(equal, Some("false")), denied);
    assert_eq!(said(heads, Some("0")), format!("`{heads}` = 0 is not a number above 0"));
    let types = "text_config.layer_types";
    assert!(said(types, Some(&words(&["sliding_attention"], 30))).ends_with("does not end with `full_attention`"));
    for field in [types, "text_config.enable_moe_block", "text_config.hidden_size_per_layer_input"] {
        assert_eq!(said(field, None), format!("the config lacks `{field}`"));
        assert_eq!(said(field, Some("null")), format!("the config lacks `{field}`"));
    }
    for (field, value) in
        [("text_config.enable_moe_block", "false"), ("text_config.hidden_size_per_layer_input", "256")]
    {
        assert!(said(field, Some(value)).starts_with(&format!("`{field}` = {value} is not supported yet")));
    }
    let biased = with(GEMMA, "text_config.attention_bias", Some("true")).expect("it can be read");
    assert!(matches!(biased.attention, Attention::Gqa(Gqa { bias: Bias::All, .. })));
    assert!(matches!(biased.mixer, Mixer::LocalGqa(LocalGqa { bias: Bias::All, .. })));
}

/// A model around a decoder says whether its head is the embedding, and the decoder may say the same.
#[test]
fn a_decoder_does_not_deny_its_model() {
    for (name, absent, denied) in [("gemma-4-26b-a4b", true, "false"), ("qwen3.5-35b-a3b", false, "true")] {
        let (outer, inner) = ("tie_word_embeddings", "text_config.tie_word_embeddings");
        let tied =
            |changes: Changes<'_>| changed(name, changes).unwrap_or_else(|e| panic!("{e}")).tied_embeddings.is_on();
        assert_eq!(tied(&[(outer, None), (inner, None)]), absent, "{name}");
        assert_eq!(tied(&[(outer, Some(denied)), (inner, Some(denied))]), !absent, "{name}");
        let said = fault(name, inner, Some(denied)).to_string();
        assert_eq!(said, format!("`{outer}` = {absent} is not what `{inner}` says"));
        assert_eq!(fault(name, inner, Some("1")).to_string(), format!("`{inner}` = 1 is not true or false"));
        assert!(with(name, "vision_config", None).is_ok(), "a tower is no part of it");
    }
}

/// LongCat-Flash's two blocks of a layer.
#[test]
fn a_layer_of_two_blocks() {
    const LONGCAT: &str = "longcat-flash";
    let whole = with(LONGCAT, "num_hidden_layers", Some("56"));
    assert_eq!(whole, with(LONGCAT, "num_hidden_layers", None));
    assert_eq!(with(LONGCAT, "zero_expert_num", Some("null")).map(|model| model.experts.identity), Ok(0));
    let said = |field, value| fault(LONGCAT, field, Some(value)).to_string();
    let odd = "`num_hidden_layers` = 28 is not twice `num_layers` = 28, two blocks a layer";
    assert_eq!(said("num_hidden_layers", "28"), odd);
    for none in ["0", "null"] {
        assert_eq!(said("q_lora_rank", none), format!("`q_lora_rank` = {none} is not a number above 0"));
    }
    assert!(said("qk_head_dim", "128").contains("is not `qk_nope_head_dim` + `qk_rope_head_dim` = 128 + 64"));
    assert!(said("mtp_num_layers", "1").contains("is not a known field of `longcat_flash`"));
}
