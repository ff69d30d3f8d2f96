//! The pre-tokenizers that `tokenizer.ggml.pre` names: how byte-level BPE
//! vocabularies cut text into words before merging.
use tokenizers::normalizers::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior};

use crate::ffi::{invalid, unsupported, Outcome};

const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const QWEN35: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}",
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const O200K: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*",
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+",
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const DEEPSEEK_V3: [&str; 3] = [
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    concat!(
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
        r##"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
    ),
];
const DEEPSEEK_CODER: [&str; 5] =
    [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", r"\p{N}"];

#[derive(Clone, Copy)]
enum Cut {
    /// The pattern of GPT-2, which the byte-level step brings along.
    Gpt2,
    /// Each digit on its own, then the pattern of GPT-2.
    DigitsGpt2,
    /// These patterns, one after the other.
    Patterns(&'static [&'static str]),
}

struct Row {
    names: &'static [&'static str],
    cut: Cut,
    nfc: bool,
    /// A word that is itself a token is taken whole.
    ignore_merges: bool,
    adds_bos: bool,
}

const fn row(names: &'static [&'static str], cut: Cut) -> Row {
    Row { names, cut, nfc: false, ignore_merges: false, adds_bos: false }
}

const TABLE: &[Row] = &[
    row(&["gpt-2", "default", "phi-2", "mpt", "olmo", "jina-es", "jina-de"], Cut::Gpt2),
    row(&["smollm", "starcoder", "refact", "codeshell"], Cut::DigitsGpt2),
    Row { nfc: true, ..row(&["command-r"], Cut::DigitsGpt2) },
    Row { nfc: true, ..row(&["qwen2", "deepseek-r1-qwen", "megrez"], Cut::Patterns(&[QWEN2])) },
    Row { nfc: true, ..row(&["qwen35"], Cut::Patterns(&[QWEN35])) },
    Row {
        ignore_merges: true,
        adds_bos: true,
        ..row(&["llama-bpe", "llama3", "llama-v3", "falcon3"], Cut::Patterns(&[LLAMA3]))
    },
    row(&["dbrx", "smaug-bpe", "chatglm-bpe", "glm4"], Cut::Patterns(&[LLAMA3])),
    Row { ignore_merges: true, adds_bos: true, ..row(&["lfm2"], Cut::Patterns(&[LLAMA3])) },
    row(&["gpt-4o", "gpt-oss"], Cut::Patterns(&[O200K])),
    Row { adds_bos: true, ..row(&["llama4"], Cut::Patterns(&[O200K])) },
    Row { ignore_merges: true, adds_bos: true, ..row(&["tekken"], Cut::Patterns(&[TEKKEN])) },
    row(&["deepseek-v3", "deepseek-r1"], Cut::Patterns(&DEEPSEEK_V3)),
    row(&["deepseek-coder"], Cut::Patterns(&DEEPSEEK_CODER)),
];

/// What one pre-tokenizer name stands for.
pub struct Pre {
    pub normalizer: Option<NormalizerWrapper>,
    pub pre_tokenizer: PreTokenizerWrapper,
    pub ignore_merges: bool,
    pub adds_bos: bool,
}

pub fn by_name(name: &str) -> Outcome<Pre> {
    let row = TABLE.iter().find(|row| row.names.contains(&name)).ok_or_else(|| {
        let known: Vec<_> = TABLE.iter().flat_map(|row| row.names).copied().collect();
        unsupported(format!(
            "tokenizer.ggml.pre \"{name}\" is unknown; known are {}",
            known.join(", ")
        ))
    })?;
    Ok(Pre {
        normalizer: row.nfc.then(|| NFC.into()),
        pre_tokenizer: pre_tokenizer(row.cut)?,
        ignore_merges: row.ignore_merges,
        adds_bos: row.adds_bos,
    })
}

fn pre_tokenizer(cut: Cut) -> Outcome<PreTokenizerWrapper> {
    let byte_level = |use_regex| ByteLevel::new(false, true, use_regex).into();
    let mut steps: Vec<PreTokenizerWrapper> = Vec::new();
    match cut {
        Cut::Gpt2 => return Ok(byte_level(true)),
        Cut::DigitsGpt2 => {
            steps.push(Digits::new(true).into());
            steps.push(byte_level(true));
        }
        Cut::Patterns(patterns) => {
            for pattern in patterns {
                let pattern = SplitPattern::Regex((*pattern).to_owned());
                let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
                    .map_err(|e| invalid(format!("pre-tokenizer pattern: {e}")))?;
                steps.push(split.into());
            }
            steps.push(byte_level(false));
        }
    }
    Ok(Sequence::new(steps).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_builds() {
        for name in TABLE.iter().flat_map(|row| row.names) {
            assert!(by_name(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_known() {
        let message = by_name("qwen99").err().unwrap().message;
        assert!(message.contains("qwen99") && message.contains("llama-bpe"), "{message}");
    }
}
