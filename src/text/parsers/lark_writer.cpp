#include "text/parsers/lark_writer.h"

#include "text/parsers/json_scanner.h"
#include "text/tokenizer.h"

namespace tandem {

std::string escaped_regex(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view(R"(\/.*+?()[]{}|^$)").find(c) != std::string_view::npos) out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

LarkWriter::LarkWriter(const OutputFormat& format, const Tokenizer& tokenizer) {
  for (const std::string& text : marker_texts(format))
    if (const auto id = tokenizer.token_to_id(text); id && tokenizer.is_special(*id))
      control_.push_back({text, *id});
}

bool LarkWriter::is_control(std::string_view text) const {
  for (const Marker& marker : control_)
    if (marker.text == text) return true;
  return false;
}

std::string LarkWriter::spell(std::string_view text) const {
  std::string out, plain;
  const auto flush = [&] {
    if (!plain.empty()) {
      if (!out.empty()) out += ' ';
      out += json_string(plain);
    }
    plain.clear();
  };
  while (!text.empty()) {
    const Marker* found = nullptr;
    for (const Marker& marker : control_)
      if (text.starts_with(marker.text) && (!found || marker.text.size() > found->text.size()))
        found = &marker;
    if (found) {
      flush();
      out += (out.empty() ? "<[" : " <[") + std::to_string(found->id) + "]>";
      text.remove_prefix(found->text.size());
    } else {
      plain += text.front();
      text.remove_prefix(1);
    }
  }
  flush();
  return out.empty() ? "\"\"" : out;
}

std::string LarkWriter::until(const std::string& close) {
  if (is_control(close)) return std::string(kAnyText) + " " + spell(close);
  const std::string name = "until_" + std::to_string(untils_++);
  rules_ += name + "[lazy]: /(.|\\n)*" + escaped_regex(close) + "/\n";
  return name;
}

void LarkWriter::rule(const std::string& name, const std::string& body) {
  rules_ += name + ": " + body + "\n";
}

}  // namespace tandem
