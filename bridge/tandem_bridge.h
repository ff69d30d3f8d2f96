/* The C interface of the Rust bridge: tokenizers, chat templates, grammars.
 *
 * Texts are a pointer and a length, UTF-8, and need to live for the length of
 * the call only. Functions that can fail return a tb_status and then, unless
 * it is TB_OK, leave a message in `error`, which the caller zeroes before and
 * frees after. Out-parameters are written on TB_OK only. No panic crosses the
 * border: it becomes TB_INTERNAL.
 *
 * Threads: any function may be called from any thread. A const handle may be
 * used by several threads at once; a non-const one by one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  TB_OK = 0,
  TB_INVALID = 1,     /* an argument is wrong; the message says which */
  TB_UNSUPPORTED = 2, /* understood, but not supported */
  TB_BUDGET = 3,      /* a template or grammar went over its budget */
  TB_INTERNAL = 4     /* a bug of ours */
} tb_status;

/* Borrowed bytes. */
typedef struct {
  const uint8_t* data;
  size_t size;
} tb_str;

/* Bytes that the bridge allocated: release with tb_buffer_free. */
typedef struct {
  uint8_t* data;
  size_t size;
  size_t capacity;
} tb_buffer;

/* Token ids that the bridge allocated: release with tb_ids_free. */
typedef struct {
  int32_t* data;
  size_t size;
  size_t capacity;
} tb_ids;

/* Both accept null and all-zero values, and leave the value empty. */
void tb_buffer_free(tb_buffer* buffer);
void tb_ids_free(tb_ids* ids);

/* --- Tokenizer ----------------------------------------------------------- */

typedef struct tb_tokenizer tb_tokenizer;

/* The tokenizer.* metadata of a GGUF file. Absent arrays have count 0, absent
 * ids are -1, absent flags are -1. `tokens[i]` is id i. */
typedef struct {
  tb_str model;        /* tokenizer.ggml.model: gpt2 or llama */
  tb_str pre;          /* tokenizer.ggml.pre */
  tb_str architecture; /* general.architecture */
  const tb_str* tokens;
  size_t token_count;
  const float* scores;
  size_t score_count;
  const int32_t* types; /* tokenizer.ggml.token_type */
  size_t type_count;
  const tb_str* merges; /* "left right" */
  size_t merge_count;
  int32_t bos_id;
  int32_t eos_id;
  int32_t unknown_id;
  int8_t add_bos;
  int8_t add_eos;
  int8_t add_space_prefix;
} tb_gguf_vocab;

/* What each id stands for: token i is bytes[ends[i-1] .. ends[i]). */
typedef struct {
  const uint8_t* bytes;
  const uint32_t* ends;
  const uint8_t* kinds; /* TB_KIND_ bits */
  size_t count;
  bool strips_leading_space; /* a decoded text loses one space at its start */
} tb_table;

enum {
  TB_KIND_ADDED = 1,   /* cut out of the text before the model sees it */
  TB_KIND_CONTROL = 2, /* skipped in decoded text */
  TB_KIND_HOLE = 4     /* no token has this id */
};

enum {
  TB_ENCODE_PARSE_SPECIAL = 1, /* spellings of control tokens become their ids */
  TB_ENCODE_ADD_SPECIAL = 2    /* with the BOS and EOS the tokenizer adds */
};

/* From the bytes of a tokenizer.json and, unless it is empty, those of a
 * tokenizer_config.json, which may define added tokens and name control
 * tokens. */
tb_status tb_tokenizer_from_json(tb_str json, tb_str config, tb_tokenizer** out, tb_buffer* error);

/* From GGUF metadata. TB_UNSUPPORTED if `model` or `pre` is unknown. */
tb_status tb_tokenizer_from_gguf(const tb_gguf_vocab* vocab, tb_tokenizer** out, tb_buffer* error);

void tb_tokenizer_free(tb_tokenizer* tokenizer);

/* Text to ids. `mark` is 0 or a character that template rendering put inside
 * spellings that must stay text: it hides them and is not encoded itself. */
tb_status tb_tokenizer_encode(const tb_tokenizer* tokenizer, tb_str text, uint32_t flags,
                              uint32_t mark, tb_ids* out, tb_buffer* error);

/* The arrays live as long as the tokenizer. */
tb_table tb_tokenizer_table(const tb_tokenizer* tokenizer);

/* The id of a token as the vocabulary spells it, or -1. */
int32_t tb_tokenizer_token_to_id(const tb_tokenizer* tokenizer, tb_str token);

/* The reverse. TB_INVALID if there is no such id. */
tb_status tb_tokenizer_id_to_token(const tb_tokenizer* tokenizer, int32_t id, tb_buffer* out,
                                   tb_buffer* error);

/* --- Chat templates ------------------------------------------------------ */

typedef struct tb_template tb_template;

/* Compiles a Jinja chat template. With a tokenizer (or null), rendering marks
 * the spellings of its control tokens in the caller's texts. The tokenizer
 * need not outlive the template. */
tb_status tb_template_compile(tb_str source, const tb_tokenizer* tokenizer, tb_template** out,
                              tb_buffer* error);

void tb_template_free(tb_template* chat_template);

/* JSON texts. */
typedef struct {
  tb_str messages;  /* array of objects */
  tb_str variables; /* object: the caller's other variables, tools among them */
  tb_str constants; /* object: texts of the model's files; they win */
  bool add_generation_prompt;
  int64_t now; /* what strftime_now shows, in seconds since 1970 */
} tb_template_input;

/* Renders. The character in `mark` (0 if there is no tokenizer) was put into
 * spellings that must not become control tokens: encode the text with it, or
 * remove it. TB_INVALID also for raise_exception, with its message; TB_BUDGET
 * beyond a fixed number of steps or bytes. */
tb_status tb_template_render(const tb_template* chat_template, const tb_template_input* input,
                             tb_buffer* out, uint32_t* mark, tb_buffer* error);

/* --- Grammars ------------------------------------------------------------ */

/* Compiles grammars for one vocabulary. */
typedef struct tb_grammars tb_grammars;

/* One generation under a grammar. */
typedef struct tb_matcher tb_matcher;

enum { TB_JSON_SCHEMA = 0, TB_REGEX = 1, TB_LARK = 2 };

/* Takes its share of the tokenizer, which may be freed at once. Any of the
 * `eos_count` (1 or more) ids ends a text. Takes tenths of a second. */
tb_status tb_grammars_new(const tb_tokenizer* tokenizer, const int32_t* eos_ids, size_t eos_count,
                          tb_grammars** out, tb_buffer* error);

void tb_grammars_free(tb_grammars* grammars);

/* TB_INVALID with what is wrong with the text. */
tb_status tb_grammars_compile(const tb_grammars* grammars, int32_t kind, tb_str text,
                              tb_matcher** out, tb_buffer* error);

void tb_matcher_free(tb_matcher* matcher);

/* Independent of the original. */
tb_status tb_matcher_clone(const tb_matcher* matcher, tb_matcher** out, tb_buffer* error);

/* Sets bit i % 32 of bits[i / 32] if token i may come next and clears all
 * others. Where nothing may follow, the EOS ids may. */
tb_status tb_matcher_mask(tb_matcher* matcher, uint32_t* bits, size_t words, tb_buffer* error);

/* TB_INVALID if the token is not allowed here. */
tb_status tb_matcher_accept(tb_matcher* matcher, int32_t id, tb_buffer* error);

/* Takes the last `count` tokens back. */
tb_status tb_matcher_rollback(tb_matcher* matcher, size_t count, tb_buffer* error);

/* Nothing but EOS may come any more. */
bool tb_matcher_is_stopped(const tb_matcher* matcher);

#ifdef __cplusplus
}
#endif
