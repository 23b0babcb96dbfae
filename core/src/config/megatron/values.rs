//! Values as people write them on a command line or in YAML.

use alloc::string::String;
use alloc::vec::Vec;
use serde_json::{Map, Value};

/// Arguments with numbers as numbers, however they are written.
pub(super) fn normal(arguments: &Map<String, Value>) -> Map<String, Value> {
    arguments.iter().map(|(name, value)| (name.replace('_', "-"), number(value))).collect()
}

fn number(value: &Value) -> Value {
    match value.as_str().and_then(|text| text.trim().parse::<u64>().ok()) {
        Some(number) => Value::from(number),
        None => value.clone(),
    }
}

/// A decimal number, in thousandths.
pub(super) fn thousandths(value: &Value) -> Option<u64> {
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    let scaled = number * 1000.0;
    // Within the bounds of a declaration.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (0.0..=1e12).contains(&scaled).then_some((scaled + 0.5) as u64)
}

/// The words of a list such as `[layernorm mla_up_proj]`, `["a", "b"]` or `a b`.
pub(super) fn words(value: &Value) -> Vec<String> {
    if let Some(list) = value.as_array() {
        return list.iter().filter_map(Value::as_str).map(Into::into).collect();
    }
    let text = value.as_str().unwrap_or_default().trim().trim_matches(['[', ']']);
    text.split([' ', ',']).filter(|word| !word.is_empty()).map(Into::into).collect()
}

/// The most layers that a pattern may have.
const LONGEST: usize = 1 << 16;

/// A pattern such as `([0]*3+[1]*58)*1` or `[0,1,1]`: whether each layer has experts. None where it is not one, or longer
/// than any model.
pub(super) fn pattern(text: &str) -> Option<Vec<bool>> {
    let bare: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    let Some(group) = bare.strip_prefix('(') else { return sum(&bare) };
    let (group, times) = group.split_once(')')?;
    let times = if times.is_empty() { 1 } else { times.strip_prefix('*')?.parse::<usize>().ok()? };
    let layers = sum(group)?;
    (layers.len().checked_mul(times)? <= LONGEST).then(|| layers.repeat(times))
}

/// Lists behind each other: `[0]*3+[1]*58`.
fn sum(bare: &str) -> Option<Vec<bool>> {
    let mut layers = Vec::new();
    for term in bare.split('+') {
        let (list, times) = match term.split_once(']') {
            Some((list, "")) => (list, 1),
            Some((list, times)) => (list, times.strip_prefix('*')?.parse::<usize>().ok()?),
            None => return None,
        };
        let items = list.strip_prefix('[')?.split(',').map(|item| match item {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        });
        let items: Vec<bool> = items.collect::<Option<_>>()?;
        if items.len().checked_mul(times)? > LONGEST - layers.len() {
            return None;
        }
        for _ in 0..times {
            layers.extend_from_slice(&items);
        }
    }
    Some(layers)
}

#[cfg(test)]
mod tests {
    use super::{normal, pattern, thousandths, words};
    use alloc::vec;
    use alloc::vec::Vec;
    use serde_json::json;

    #[test]
    fn patterns_are_read_as_python_means_them() {
        let read = |text| pattern(text).map(|layers| layers.iter().map(|layer| u8::from(*layer)).collect::<Vec<_>>());
        assert_eq!(read("([0]*3+[1]*2)"), Some(vec![0, 0, 0, 1, 1]));
        assert_eq!(read("[0,1]*2+[1]"), Some(vec![0, 1, 0, 1, 1]));
        assert_eq!(read("([0]+[1]*2) * 2"), Some(vec![0, 1, 1, 0, 1, 1]));
        for text in ["", "3", "[0]*", "[2]", "[0]*99999999999", "[0]x3", "[0", "[0]*3+"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn values_are_read_however_they_are_written() {
        assert_eq!(words(&json!("[layernorm mla_up_proj]")), ["layernorm", "mla_up_proj"]);
        assert_eq!(words(&json!(["moe"])), ["moe"]);
        assert_eq!([json!("1e-2"), json!(1.25), json!(2)].map(|value| thousandths(&value)), [10, 1250, 2000].map(Some));
        let arguments = json!({ "num_layers": "12", "swiglu": true });
        assert_eq!(json!(normal(arguments.as_object().unwrap())), json!({ "num-layers": 12, "swiglu": true }));
    }
}
