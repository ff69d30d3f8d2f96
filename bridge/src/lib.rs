//! Tokenizers, chat templates and grammars behind a C interface: see
//! `tandem_bridge.h`.
mod added;
mod ffi;
mod ffi_tokenizer;
mod from_gguf;
mod from_json;
mod pretok;
mod sentencepiece;
mod table;
mod tokenizer;
