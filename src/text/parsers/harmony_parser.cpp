#include "text/parsers/harmony_parser.h"

#include <algorithm>

namespace tandem {
namespace {

constexpr std::string_view kStart = "<|start|>", kChannel = "<|channel|>",
                           kConstrain = "<|constrain|>", kMessage = "<|message|>", kEnd = "<|end|>",
                           kCall = "<|call|>", kReturn = "<|return|>";
constexpr std::string_view kMarkers[] = {kStart, kChannel, kConstrain, kMessage,
                                         kEnd,   kCall,    kReturn};

// The word behind `key`, up to white space or a marker.
std::string_view word_behind(std::string_view header, std::string_view key) {
  const size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  header.remove_prefix(at + key.size());
  return header.substr(0, header.find_first_of(" \t\r\n<"));
}

}  // namespace

void HarmonyParser::push(std::string_view text, OutputEvents& out) {
  writer_.write_to(out);
  utf8_.push(text, pending_);
  run(/*last=*/false);
}

void HarmonyParser::finish(OutputEvents& out) {
  writer_.write_to(out);
  utf8_.flush(pending_);
  run(/*last=*/true);
  // Arguments that are whole lack nothing but the token that ends them.
  end_message();
}

void HarmonyParser::run(bool last) {
  size_t at = 0;
  const std::string_view all = pending_;
  while (at < all.size() && !closed_) {
    const size_t place = std::min(all.find('<', at), all.size());
    text(all.substr(at, place - at));
    at = place;
    const std::string_view rest = all.substr(at);
    const auto found = std::find_if(std::begin(kMarkers), std::end(kMarkers),
                                    [&](auto marker) { return rest.starts_with(marker); });
    if (found != std::end(kMarkers)) {
      marker(*found);
      at += found->size();
      continue;
    }
    const bool may_follow =
        !last && std::any_of(std::begin(kMarkers), std::end(kMarkers),
                             [&](auto marker) { return marker.starts_with(rest); });
    if (may_follow) break;
    if (rest.empty()) break;
    text(rest.substr(0, 1));
    ++at;
  }
  if (closed_) at = all.size();
  pending_.erase(0, at);
}

void HarmonyParser::text(std::string_view text) {
  if (text.empty()) return;
  switch (mode_) {
    case Mode::kHeader: header_ += text; return;
    case Mode::kCall: arguments(text); return;
    case Mode::kReasoning:
    case Mode::kContent: say(mode_, text); return;
  }
}

void HarmonyParser::say(Mode mode, std::string_view text) {
  const bool apart = new_message_ && said_ == mode;
  new_message_ = false;
  said_ = mode;
  if (mode == Mode::kReasoning) {
    if (apart) writer_.reasoning("\n");
    writer_.reasoning(text);
  } else {
    if (apart) writer_.content("\n");
    writer_.content(text);
  }
}

void HarmonyParser::marker(std::string_view marker) {
  if (marker == kMessage) {
    if (mode_ == Mode::kHeader) begin_message();
    return;
  }
  if (marker == kConstrain) {
    if (mode_ == Mode::kHeader) header_ += ' ';
    return;
  }
  if (mode_ != Mode::kHeader || marker != kChannel) end_message();
  if (marker == kStart || marker == kChannel) {
    if (mode_ != Mode::kHeader) header_.clear();
    mode_ = Mode::kHeader;
    header_ += marker;
  } else {
    mode_ = Mode::kContent;
  }
}

void HarmonyParser::begin_message() {
  std::string_view recipient = word_behind(header_, "to=");
  const bool reasons = word_behind(header_, kChannel) == "analysis";
  new_message_ = true;
  if (recipient.starts_with("functions.")) recipient.remove_prefix(10);
  if (!recipient.empty() && writer_.tools().find(recipient)) {
    writer_.begin(recipient, {});
    scanner_ = {};
    any_argument_ = whole_ = false;
    mode_ = Mode::kCall;
  } else {
    mode_ = reasons && recipient.empty() ? Mode::kReasoning : Mode::kContent;
    if (!recipient.empty()) say(mode_, header_ + std::string(kMessage));
  }
  header_.clear();
}

void HarmonyParser::arguments(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (whole_ || (!any_argument_ && is_json_space(text[i]))) continue;
    const bool object = any_argument_ || text[i] == '{';
    const auto state = object ? scanner_.feed(text[i], out) : JsonScanner::State::kBad;
    any_argument_ = true;
    if (state == JsonScanner::State::kBad) {
      writer_.arguments(out, 0);
      mode_ = Mode::kContent;
      say(mode_, text.substr(i));
      return;
    }
    whole_ = state == JsonScanner::State::kDone;
  }
  writer_.arguments(out, 0);
}

void HarmonyParser::end_message() {
  if (mode_ != Mode::kCall) return;
  mode_ = Mode::kContent;
  if (!any_argument_) writer_.arguments("{}", 0);
  if (!any_argument_ || whole_) writer_.end();
  closed_ = writer_.full();
}

}  // namespace tandem
