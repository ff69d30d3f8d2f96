//! Messages as transformers hands them to a template, and in the plainer form
//! for templates that know texts only.
use serde_json::{Map, Value};

use crate::ffi::{invalid, Outcome};

/// Keys that are null are left out; reasoning goes by all of its names.
pub fn normalise(messages: &mut Value, joins_parts: bool) -> Outcome<()> {
    let Value::Array(list) = messages else {
        return Err(invalid("messages: expected an array of objects"));
    };
    for (i, message) in list.iter_mut().enumerate() {
        let Value::Object(message) = message else {
            return Err(invalid(format!("messages[{i}]: expected an object")));
        };
        message.retain(|_, value| !value.is_null());
        name_reasoning(message);
        if joins_parts {
            join_parts(message);
        }
    }
    Ok(())
}

/// Gives every message a text; true if that changed anything.
pub fn plain_contents(messages: &mut Value) -> bool {
    let mut changed = false;
    for message in messages.as_array_mut().into_iter().flatten() {
        if let Value::Object(message) = message {
            changed |= join_parts(message);
            if !message.contains_key("content") {
                message.insert("content".into(), "".into());
                changed = true;
            }
        }
    }
    changed
}

const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

fn name_reasoning(message: &mut Map<String, Value>) {
    let Some(value) = REASONING.iter().find_map(|name| message.get(*name)).cloned() else {
        return;
    };
    for name in REASONING {
        message.entry(name).or_insert_with(|| value.clone());
    }
}

/// A list of texts becomes one text; a list that holds other things stays.
fn join_parts(message: &mut Map<String, Value>) -> bool {
    let Some(Value::Array(parts)) = message.get("content") else {
        return false;
    };
    let text = |part: &Value| match part {
        Value::String(text) => Some(text.clone()),
        _ => part["text"].as_str().map(String::from),
    };
    let Some(joined) = parts.iter().map(text).collect::<Option<String>>() else {
        return false;
    };
    message.insert("content".into(), joined.into());
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nulls_go_and_texts_join() {
        let mut messages = json!([
            {"role": "assistant", "content": null, "thinking": "t"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"text": "b"}]},
            {"role": "user", "content": [{"type": "image"}]},
        ]);
        normalise(&mut messages, true).unwrap();
        assert!(messages[0].get("content").is_none());
        assert_eq!(messages[0]["reasoning_content"], "t");
        assert_eq!(messages[1]["content"], "ab");
        assert!(messages[2]["content"].is_array());
        assert!(plain_contents(&mut messages));
        assert_eq!(messages[0]["content"], "");
        assert!(!plain_contents(&mut messages));
    }
}
