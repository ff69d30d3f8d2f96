//! A tokenizer from the texts of tokenizer.json and tokenizer_config.json.
use std::collections::BTreeMap;

use serde_json::Value;
use tokenizers::{AddedToken, Encoding, PostProcessor, PostProcessorWrapper, Token};

use crate::ffi::{invalid, unsupported, Outcome};
use crate::table::Spelling;
use crate::tokenizer::{Parts, Tokenizer};

pub fn build(json: &[u8], config: &[u8]) -> Outcome<Tokenizer> {
    let whole: Value =
        serde_json::from_slice(json).map_err(|e| invalid(format!("tokenizer.json: {e}")))?;
    let (spelling, strips_leading_space) = read_decoder(&whole["decoder"])?;
    drop(whole);
    let inner = tokenizers::Tokenizer::from_bytes(json)
        .map_err(|e| invalid(format!("tokenizer.json: {e}")))?
        .into_inner();
    let mut added: BTreeMap<_, _> = inner.get_added_tokens_decoder().into_iter().collect();
    if !config.is_empty() {
        let config = serde_json::from_slice(config)
            .map_err(|e| invalid(format!("tokenizer_config.json: {e}")))?;
        add_from_config(&config, &mut added)?;
    }
    let (prefix, suffix) = surroundings(inner.get_post_processor())?;
    Tokenizer::new(Parts {
        normalizer: inner.get_normalizer().cloned(),
        pre_tokenizer: inner.get_pre_tokenizer().cloned(),
        model: inner.get_model().clone(),
        added: added.into_iter().collect(),
        spelling,
        strips_leading_space,
        prefix,
        suffix,
    })
}

/// The configuration may define more added tokens, and names control tokens.
fn add_from_config(config: &Value, added: &mut BTreeMap<u32, AddedToken>) -> Outcome<()> {
    for (id, token) in config["added_tokens_decoder"].as_object().into_iter().flatten() {
        let wrong = |e: String| {
            invalid(format!("tokenizer_config.json: added_tokens_decoder[\"{id}\"]: {e}"))
        };
        let number = id.parse::<u32>().map_err(|e| wrong(e.to_string()))?;
        let flag = |name: &str, absent: bool| token[name].as_bool().unwrap_or(absent);
        let content = token["content"].as_str().ok_or_else(|| wrong("no content".into()))?;
        let special = flag("special", false);
        let token = AddedToken::from(content, special)
            .normalized(flag("normalized", !special))
            .single_word(flag("single_word", false))
            .lstrip(flag("lstrip", false))
            .rstrip(flag("rstrip", false));
        added.insert(number, token);
    }
    let named = ["bos_token", "eos_token", "unk_token", "pad_token"].map(|name| &config[name]);
    let listed = config["additional_special_tokens"].as_array().into_iter().flatten();
    let control: Vec<_> = named.into_iter().chain(listed).filter_map(token_text).collect();
    for token in added.values_mut() {
        token.special |= control.contains(&token.content.as_str());
    }
    Ok(())
}

/// A token is named by its text, or by an object that holds it.
fn token_text(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token["content"].as_str())
}

/// How the decoder spells bytes, and whether it drops one leading space.
fn read_decoder(decoder: &Value) -> Outcome<(Spelling, bool)> {
    let steps: Vec<&Value> = match decoder["type"].as_str() {
        None => return Ok((Spelling::Plain, false)),
        Some("Sequence") => decoder["decoders"].as_array().into_iter().flatten().collect(),
        Some(_) => vec![decoder],
    };
    let mut spelling = Spelling::Plain;
    let mut strips = false;
    for step in steps {
        match step["type"].as_str().unwrap_or_default() {
            "ByteLevel" => spelling = Spelling::ByteLevel,
            "ByteFallback" => spelling = Spelling::Sentencepiece,
            "Replace" if step["pattern"]["String"] == "\u{2581}" && step["content"] == " " => {
                spelling = Spelling::Sentencepiece
            }
            "Metaspace" => {
                spelling = Spelling::Sentencepiece;
                strips = step["prepend_scheme"] != "never" && step["add_prefix_space"] != false;
            }
            "WordPiece" => (spelling, strips) = (Spelling::Wordpiece, true),
            "Strip" if step["content"] == " " => strips = step["start"].as_u64() > Some(0),
            "Fuse" => {}
            other => {
                return Err(unsupported(format!(
                    "tokenizer.json: decoder \"{other}\" is not supported; supported are \
                     ByteLevel, ByteFallback, Fuse, Metaspace, Replace of U+2581, Strip of a \
                     space, and WordPiece"
                )))
            }
        }
    }
    Ok((spelling, strips))
}

/// The ids that the post-processor puts before and after a text.
fn surroundings(processor: Option<&PostProcessorWrapper>) -> Outcome<(Vec<u32>, Vec<u32>)> {
    const TEXT: u32 = u32::MAX;
    let Some(processor) = processor else {
        return Ok((Vec::new(), Vec::new()));
    };
    let text = Encoding::from_tokens(vec![Token::new(TEXT, String::new(), (0, 0))], 0);
    let whole = processor
        .process(text, None, true)
        .map_err(|e| invalid(format!("tokenizer.json: post_processor: {e}")))?;
    let ids = whole.get_ids();
    let at = ids
        .iter()
        .position(|&id| id == TEXT)
        .ok_or_else(|| unsupported("tokenizer.json: post_processor drops the text it is given"))?;
    Ok((ids[..at].to_vec(), ids[at + 1..].to_vec()))
}
