//! Tokenizers, chat templates and grammars behind a C interface: see
//! `tandem_bridge.h`.
mod added;
mod ffi;
mod ffi_grammar;
mod ffi_template;
mod ffi_tokenizer;
mod from_gguf;
mod from_json;
mod grammar;
mod marker;
mod messages;
mod pretok;
mod pyjson;
mod sentencepiece;
mod table;
mod template;
mod tokenizer;
