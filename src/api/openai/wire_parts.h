// Pieces that OpenAI's chat and completion replies share.
#pragma once

#include "api/json_text.h"
#include "api/reply_writer.h"

namespace tandem::api::openai {

OrderedJson usage_json(const UsageSum& usage);

// {"id","object","created","model","choices"}
OrderedJson reply_json(const CallHead& head, const char* object, OrderedJson choices);

// Null while the row runs; rows that were cancelled or failed end in an error.
OrderedJson finish_json(FinishReason finish);

OrderedJson ids_json(const std::vector<TokenInfo>& tokens);

// The error as the last event of a stream.
void append_stream_error(const Error& error, std::string& out);

// True when the bytes are whole UTF-8 characters.
bool is_whole_utf8(std::string_view bytes);

}  // namespace tandem::api::openai
