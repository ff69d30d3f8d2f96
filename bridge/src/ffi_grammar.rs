//! The C functions on grammars. Safety: as the header says.
#![allow(clippy::missing_safety_doc)]
use std::sync::Arc;

use llguidance::Matcher;

use crate::ffi::{border, invalid, slice, Buffer, Str};
use crate::grammar::{accept, internal, mask, Grammars};
use crate::tokenizer::Tokenizer;

#[no_mangle]
pub unsafe extern "C" fn tb_grammars_new(
    tokenizer: *const Tokenizer,
    eos_ids: *const i32,
    eos_count: usize,
    out: *mut *mut Grammars,
    error: *mut Buffer,
) -> i32 {
    border(error, || {
        Arc::increment_strong_count(tokenizer);
        let tokenizer = Arc::from_raw(tokenizer);
        let eos: Vec<u32> = slice(eos_ids, eos_count).iter().map(|&id| id as u32).collect();
        out.write(Box::into_raw(Box::new(Grammars::new(tokenizer, &eos)?)));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn tb_grammars_free(grammars: *mut Grammars) {
    if !grammars.is_null() {
        drop(Box::from_raw(grammars));
    }
}

#[no_mangle]
pub unsafe extern "C" fn tb_grammars_compile(
    grammars: *const Grammars,
    kind: i32,
    text: Str,
    out: *mut *mut Matcher,
    error: *mut Buffer,
) -> i32 {
    border(error, || {
        let tag = match kind {
            0 => "json_schema",
            1 => "regex",
            2 => "lark",
            other => return Err(invalid(format!("grammar kind {other} is unknown"))),
        };
        let matcher = (*grammars).compile(tag, text.utf8("the grammar")?)?;
        out.write(Box::into_raw(Box::new(matcher)));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn tb_matcher_free(matcher: *mut Matcher) {
    if !matcher.is_null() {
        drop(Box::from_raw(matcher));
    }
}

#[no_mangle]
pub unsafe extern "C" fn tb_matcher_clone(
    matcher: *const Matcher,
    out: *mut *mut Matcher,
    error: *mut Buffer,
) -> i32 {
    border(error, || {
        out.write(Box::into_raw(Box::new((*matcher).deep_clone())));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn tb_matcher_mask(
    matcher: *mut Matcher,
    bits: *mut u32,
    words: usize,
    error: *mut Buffer,
) -> i32 {
    border(error, || mask(&mut *matcher, std::slice::from_raw_parts_mut(bits, words)))
}

#[no_mangle]
pub unsafe extern "C" fn tb_matcher_accept(
    matcher: *mut Matcher,
    id: i32,
    error: *mut Buffer,
) -> i32 {
    border(error, || accept(&mut *matcher, id))
}

#[no_mangle]
pub unsafe extern "C" fn tb_matcher_rollback(
    matcher: *mut Matcher,
    count: usize,
    error: *mut Buffer,
) -> i32 {
    border(error, || (*matcher).rollback(count).map_err(internal))
}

#[no_mangle]
pub unsafe extern "C" fn tb_matcher_is_stopped(matcher: *const Matcher) -> bool {
    (*matcher).is_stopped()
}
