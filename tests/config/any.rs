//! Whatever is read has an answer: mutations of published configs, lists of layers, text.

use super::*;

/// Any field replaced by anything, one or many at once: an answer, and a number that is out of range is a breach.
#[test]
fn any_config_has_an_answer() {
    const VALUES: &[&str] = &[
        "null",
        "true",
        "false",
        "0",
        "1",
        "2",
        "3",
        "7",
        "-1",
        "1.5",
        "1e300",
        "4294967296",
        "2147483648",
        "9223372036854775807",
        "18446744073709551615",
        "18446744073709551616",
        "\"\"",
        "\"silu\"",
        "\"7168\"",
        "\"auto\"",
        "\"M*E-\"",
        "[]",
        "[0, 1, 4, 128]",
        "[[[[1]]]]",
        "{}",
        "{\"a\": {\"b\": [null]}}",
        "[\"dense\"]",
        "[\"sparse\", 1]",
        "[\"full_attention\", \"linear_attention\", \"sliding_attention\"]",
        "{\"full_attn_layers\": [0, 1, 1], \"kda_layers\": [18446744073709551615], \"num_heads\": 2}",
    ];
    let mut random = fastrand::Rng::with_seed(11);
    let configs: Vec<Map<String, Value>> = published().map(|(name, _)| config(name)).collect();
    let objects = configs.iter().flat_map(|config| config.values().filter_map(Value::as_object).chain([config]));
    let known = objects.flat_map(|object| object.keys().cloned());
    let fields: Vec<String> = known.chain(["linear_attn_config".to_owned()]).collect();
    let (mut read, mut refused) = (0, 0);
    for _ in 0..6000 {
        let mut config = configs[random.usize(..configs.len())].clone();
        for _ in 0..random.usize(1..4) {
            let field = &fields[random.usize(..fields.len())];
            let is_within = random.bool() && config.get("text_config").is_some_and(Value::is_object);
            let object = if is_within { config["text_config"].as_object_mut() } else { Some(&mut config) };
            let object = object.expect("it is one");
            match random.usize(..8) {
                0 => drop(object.remove(field)),
                1 => drop(object.insert(format!("{field}_"), Value::from(1))),
                _ => {
                    let value = VALUES[random.usize(..VALUES.len())];
                    object.insert(field.clone(), serde_json::from_str(value).expect("the value is JSON"));
                }
            }
        }
        match Architecture::from_config_json(&Value::Object(config.clone()).to_string()) {
            Ok(architecture) => {
                read += 1;
                holds_what_was_read(&architecture, &config);
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(read > 500 && refused > 500, "{read} read, {refused} refused");
}

/// Lists of layers of any length, of what they may hold and of what they may not.
#[test]
fn any_list_of_layers_has_an_answer() {
    const LISTS: &[(&str, &str, &[&str])] = &[
        ("deepseek-v4-flash", "compress_ratios", &["0", "4", "128", "64", "3"]),
        ("mimo-v2-flash", "hybrid_layer_pattern", &["0", "1", "2"]),
        ("mimo-v2-flash", "moe_layer_freq", &["0", "1", "null"]),
        ("minimax-text-01", "layer_types", &["\"full_attention\"", "\"linear_attention\"", "\"attention\""]),
        ("nemotron-3-nano-30b-a3b", "layers_block_type", &["\"mamba\"", "\"attention\"", "\"mlp\"", "\"moe\"", "0"]),
        ("nemotron-3-nano-30b-a3b", "hybrid_override_pattern", &["M", "*", "-", "E", "é"]),
    ];
    let mut random = fastrand::Rng::with_seed(13);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..3000 {
        let (name, field, items) = LISTS[random.usize(..LISTS.len())];
        let count = *random.choice(&[0, 1, 2, 43, 44, 48, 52, 80, 255, 256, 257, 300]).expect("there are some");
        // Mostly of what is known.
        let known = items.len() - usize::from(random.usize(..100) > 0);
        let items: Vec<&str> = (0..count).map(|_| items[random.usize(..known)]).collect();
        let list = if field == "hybrid_override_pattern" {
            Value::from(items.concat()).to_string()
        } else {
            format!("[{}]", items.join(","))
        };
        let counted = random.bool().then(|| count.to_string());
        let mut changes = vec![(field, Some(&*list))];
        if let Some(counted) = &counted {
            changes.push(("num_hidden_layers", Some(counted)));
        }
        if field == "layers_block_type" && random.bool() {
            changes.push(("hybrid_override_pattern", None));
        }
        match changed(name, &changes) {
            Ok(architecture) => {
                read += 1;
                let layers = architecture.layers;
                assert!(layers.count() <= 256 && layers.list.count(LayerKind::Moe) == layers.moe, "{layers:?}");
                let _ = judge(&Spec { architecture, layout: Layout::DEFAULT });
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(read > 200 && refused > 200, "{read} read, {refused} refused");
}

/// No number was wrapped or cut on its way: each is one of the config's, or made of two of them.
fn holds_what_was_read(architecture: &Architecture, config: &Map<String, Value>) {
    let spec = Spec { architecture: *architecture, layout: Layout::DEFAULT };
    // By the name that most configs use, or by that of one in several levels.
    let field = |names: &[&str]| names.iter().find_map(|name| number(config, name));
    assert_eq!(Some(architecture.hidden), field(&["hidden_size", "text_config.hidden_size", "d_model"]));
    assert_eq!(Some(architecture.vocab), field(&["vocab_size", "text_config.vocab_size"]));
    let Layers { dense, moe, list, .. } = architecture.layers;
    let layers = if list.is_none() { u128::from(dense) + u128::from(moe) } else { u128::from(list.layers()) };
    // Of LongCat-Flash's, `num_hidden_layers` counts blocks.
    let counted = field(&["num_layers", "num_hidden_layers", "text_config.num_hidden_layers", "n_layers"]);
    // Where each layer is listed by letters, nothing else need count them.
    assert!(counted.map_or(list.is_alone(), |counted| layers == u128::from(counted)), "{counted:?} layers");
    let heads = field(&["num_attention_heads", "text_config.num_attention_heads", "n_heads"]);
    assert_eq!(spec.numbers().get(Key::AttentionHeads), heads);
    let violations = judge(&spec);
    assert!(spec.is_in_range() || violations.iter().any(|violation| violation.id() == "number-range"), "{violations}");
}

/// The text itself cut, doubled and overwritten.
#[test]
fn any_text_has_an_answer() {
    let mut random = fastrand::Rng::with_seed(12);
    let texts: Vec<&String> = configs().values().collect();
    for _ in 0..4000 {
        let mut bytes = texts[random.usize(..texts.len())].clone().into_bytes();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len());
            match random.usize(..3) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = b"{}[]\",:0123456789eE-.tfn\\ "[random.usize(..26)],
                _ => bytes.extend_from_within(at..),
            }
        }
        if let Err(error) = Architecture::from_config_json(&String::from_utf8_lossy(&bytes)) {
            assert!(!error.to_string().is_empty());
        }
    }
}
