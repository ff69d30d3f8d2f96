//! The C functions on tokenizers. Safety: as the header says.
#![allow(clippy::missing_safety_doc)]
use std::sync::Arc;

use crate::added::Matching;
use crate::ffi::{border, invalid, slice, Buffer, Ids, Outcome, Str};
use crate::tokenizer::{EncodeOptions, Tokenizer};
use crate::{from_gguf, from_json};

pub const PARSE_SPECIAL: u32 = 1;
pub const ADD_SPECIAL: u32 = 2;

#[repr(C)]
pub struct GgufVocab {
    model: Str,
    pre: Str,
    architecture: Str,
    tokens: *const Str,
    token_count: usize,
    scores: *const f32,
    score_count: usize,
    types: *const i32,
    type_count: usize,
    merges: *const Str,
    merge_count: usize,
    bos_id: i32,
    eos_id: i32,
    unknown_id: i32,
    add_bos: i8,
    add_eos: i8,
    add_space_prefix: i8,
}

#[repr(C)]
pub struct Table {
    bytes: *const u8,
    ends: *const u32,
    kinds: *const u8,
    count: usize,
    strips_leading_space: bool,
}

#[no_mangle]
pub unsafe extern "C" fn tb_tokenizer_from_json(
    json: Str,
    config: Str,
    out: *mut *const Tokenizer,
    error: *mut Buffer,
) -> i32 {
    border(error, || {
        out.write(Arc::into_raw(Arc::new(from_json::build(json.bytes(), config.bytes())?)));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn tb_tokenizer_from_gguf(
    vocab: *const GgufVocab,
    out: *mut *const Tokenizer,
    error: *mut Buffer,
) -> i32 {
    border(error, || {
        out.write(Arc::into_raw(Arc::new(from_gguf::build(&read_vocab(&*vocab)?)?)));
        Ok(())
    })
}

unsafe fn read_vocab<'a>(c: &GgufVocab) -> Outcome<from_gguf::Vocab<'a>> {
    let texts = |data: *const Str, count| {
        slice(data, count).iter().map(|s| String::from_utf8_lossy(s.bytes())).collect()
    };
    let id = |id: i32| u32::try_from(id).ok();
    let flag = |flag: i8| (flag >= 0).then_some(flag != 0);
    Ok(from_gguf::Vocab {
        model: c.model.utf8("tokenizer.ggml.model")?,
        pre: c.pre.utf8("tokenizer.ggml.pre")?,
        architecture: c.architecture.utf8("general.architecture")?,
        tokens: texts(c.tokens, c.token_count),
        scores: slice(c.scores, c.score_count),
        types: slice(c.types, c.type_count),
        merges: texts(c.merges, c.merge_count),
        bos: id(c.bos_id),
        eos: id(c.eos_id),
        unknown: id(c.unknown_id),
        add_bos: flag(c.add_bos),
        add_eos: flag(c.add_eos),
        add_space_prefix: flag(c.add_space_prefix),
    })
}

#[no_mangle]
pub unsafe extern "C" fn tb_tokenizer_free(tokenizer: *const Tokenizer) {
    if !tokenizer.is_null() {
        drop(Arc::from_raw(tokenizer));
    }
}

#[no_mangle]
pub unsafe extern "C" fn tb_tokenizer_encode(
    tokenizer: *const Tokenizer,
    text: Str,
    flags: u32,
    mark: u32,
    out: *mut Ids,
    error: *mut Buffer,
) -> i32 {
    border(error, || {
        let mark = match mark {
            0 => None,
            code => Some(
                char::from_u32(code)
                    .ok_or_else(|| invalid(format!("mark {code:#x} is not a character")))?,
            ),
        };
        let options = EncodeOptions {
            matching: Matching { parse_special: flags & PARSE_SPECIAL != 0, mark },
            add_special: flags & ADD_SPECIAL != 0,
        };
        out.write((*tokenizer).encode(text.utf8("the text")?, options)?.into());
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn tb_tokenizer_table(tokenizer: *const Tokenizer) -> Table {
    let tokenizer = &*tokenizer;
    Table {
        bytes: tokenizer.table.bytes.as_ptr(),
        ends: tokenizer.table.ends.as_ptr(),
        kinds: tokenizer.table.kinds.as_ptr(),
        count: tokenizer.table.len(),
        strips_leading_space: tokenizer.strips_leading_space,
    }
}

#[no_mangle]
pub unsafe extern "C" fn tb_tokenizer_token_to_id(tokenizer: *const Tokenizer, token: Str) -> i32 {
    let id = std::str::from_utf8(token.bytes()).ok().and_then(|t| (*tokenizer).token_to_id(t));
    id.map_or(-1, |id| id as i32)
}

#[no_mangle]
pub unsafe extern "C" fn tb_tokenizer_id_to_token(
    tokenizer: *const Tokenizer,
    id: i32,
    out: *mut Buffer,
    error: *mut Buffer,
) -> i32 {
    border(error, || {
        let count = (*tokenizer).table.len();
        let token = u32::try_from(id).ok().and_then(|id| (*tokenizer).id_to_token(id));
        let token = token
            .ok_or_else(|| invalid(format!("token id {id} is not in the vocabulary of {count}")))?;
        out.write(token.into_bytes().into());
        Ok(())
    })
}
