#include "text/parsers/event_writer.h"

#include <algorithm>
#include <utility>

#include "text/parsers/output_parser.h"

namespace tandem {

using Kind = OutputEvent::Kind;

void append_event(OutputEvent event, OutputEvents& out) {
  const bool piece = event.kind == Kind::kContent || event.kind == Kind::kReasoning ||
                     event.kind == Kind::kArguments;
  if (piece && event.text.empty()) return;
  if (piece && !out.empty() && out.back().kind == event.kind && out.back().call == event.call) {
    out.back().text += event.text;
  } else {
    out.push_back(std::move(event));
  }
}

void EventWriter::content(std::string_view text) {
  append_event({.kind = Kind::kContent, .text = std::string(text), .id = {}}, *out_);
}

void EventWriter::reasoning(std::string_view text) {
  append_event({.kind = Kind::kReasoning, .text = std::string(text), .id = {}}, *out_);
}

void EventWriter::begin(std::string_view name, std::string_view id) {
  append_event({.kind = Kind::kCallBegin,
                .call = calls_++,
                .text = std::string(name),
                .id = std::string(id)},
               *out_);
  commit(0);
}

void EventWriter::arguments(std::string_view json, size_t held) {
  append_event({.kind = Kind::kArguments, .call = calls_ - 1, .text = std::string(json), .id = {}},
               *out_);
  commit(held);
}

void EventWriter::end() {
  ++ended_;
  append_event({.kind = Kind::kCallEnd, .call = calls_ - 1, .text = {}, .id = {}}, *out_);
  commit(0);
}

void EventWriter::commit(size_t held) {
  untouched_ = false;
  raw_.erase(0, raw_.size() - std::min(held, raw_.size()));
}

std::string EventWriter::take_unsure() { return std::exchange(raw_, {}); }

}  // namespace tandem
