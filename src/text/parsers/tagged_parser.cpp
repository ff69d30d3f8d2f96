#include "text/parsers/tagged_parser.h"

#include <algorithm>

#include "text/parsers/json_scanner.h"

namespace tandem {
namespace {

// Bounds of what is read twice.
constexpr size_t kUnsureMax = 256 << 10;
constexpr int kFailuresMax = 64;

// Bytes of the first character.
size_t character_size(std::string_view text) {
  size_t size = 1;
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) ++size;
  return size;
}

}  // namespace

TaggedParser::TaggedParser(OutputParserOptions options)
    : writer_(std::move(options.tools)), format_(std::move(options.format)) {
  if (!writer_.tools().empty()) openers_ = call_openers(format_.tools);
  for (const CallOpener& opener : openers_) starts_ += opener.text.front();
  if (!format_.think_open.empty()) starts_ += format_.think_open.front();
  if (options.in_reasoning && !format_.think_close.empty()) {
    mode_ = Mode::kReasoning;
    skips_space_ = true;
  }
}

void TaggedParser::push(std::string_view text, OutputEvents& out) {
  writer_.write_to(out);
  utf8_.push(text, pending_);
  run(/*last=*/false);
}

void TaggedParser::finish(OutputEvents& out) {
  writer_.write_to(out);
  utf8_.flush(pending_);
  run(/*last=*/true);
}

void TaggedParser::run(bool last) {
  bool more = true;
  while (more) {
    switch (mode_) {
      case Mode::kContent: more = read_content(last); break;
      case Mode::kReasoning: more = read_reasoning(last); break;
      case Mode::kCall: more = read_call(last); break;
      case Mode::kClosed:
        at_ = pending_.size();
        more = false;
        break;
    }
  }
  pending_.erase(0, at_);
  at_ = 0;
}

void TaggedParser::skip_space() {
  while (at_ < pending_.size() && is_json_space(pending_[at_])) ++at_;
  if (at_ < pending_.size()) skips_space_ = false;
}

TaggedParser::Found TaggedParser::look(size_t place, bool first, bool last) const {
  Found found;
  const std::string_view rest = std::string_view(pending_).substr(place);
  const auto consider = [&](const std::string& text, const CallOpener* opener) {
    if (rest.starts_with(text) && text.size() > found.size) {
      found.opener = opener;
      found.size = text.size();
    }
    found.may_follow |= !last && rest.size() < text.size() && text.starts_with(rest);
  };
  if (first && !format_.think_open.empty()) consider(format_.think_open, nullptr);
  for (const CallOpener& opener : openers_)
    if (first || !opener.only_first) consider(opener.text, &opener);
  return found;
}

bool TaggedParser::read_content(bool last) {
  if (skips_space_) skip_space();
  if (openers_.empty() && !first_) {
    writer_.content(std::string_view(pending_).substr(at_));
    at_ = pending_.size();
    return false;
  }
  // White space before an opening belongs to it, so it waits.
  size_t space = at_;
  for (size_t place = at_; place < pending_.size(); ++place) {
    if (is_json_space(pending_[place])) continue;
    const bool first = first_ && space == at_;
    Found found;
    if (starts_.find(pending_[place]) != std::string::npos) found = look(place, first, last);
    if (found.size == 0 && !found.may_follow) {
      space = place + 1;
      continue;
    }
    writer_.content(std::string_view(pending_).substr(at_, space - at_));
    if (space > at_) first_ = false;
    at_ = space;
    if (found.may_follow) return false;
    begin(found);
    return true;
  }
  if (space > at_) first_ = false;
  if (last) space = pending_.size();
  writer_.content(std::string_view(pending_).substr(at_, space - at_));
  at_ = space;
  return false;
}

// The opening stands at at_, behind white space.
void TaggedParser::begin(const Found& found) {
  size_t space = at_;
  while (is_json_space(pending_[space])) ++space;
  const size_t end = space + found.size;
  if (!found.opener) {
    at_ = end;
    mode_ = Mode::kReasoning;
    skips_space_ = true;
    return;
  }
  call_ = found.opener->make();
  mode_ = Mode::kCall;
  const size_t read_end = found.opener->replayed ? space : end;
  opener_size_ = end - at_;
  writer_.start();
  for (; at_ < read_end; ++at_) writer_.read(pending_[at_]);
}

bool TaggedParser::read_reasoning(bool last) {
  if (skips_space_) skip_space();
  const std::string_view rest = std::string_view(pending_).substr(at_);
  const std::string& close = format_.think_close;
  size_t end = rest.find(close);
  const bool found = end != std::string_view::npos;
  if (!found) {
    end = rest.size();
    for (size_t size = std::min(close.size() - 1, rest.size()); size > 0 && !last; --size) {
      if (!rest.ends_with(std::string_view(close).substr(0, size))) continue;
      end = rest.size() - size;
      break;
    }
  }
  const size_t held = end;
  if (found || !last)
    while (end > 0 && is_json_space(rest[end - 1])) --end;
  writer_.reasoning(rest.substr(0, end));
  at_ += found ? held + close.size() : end;
  if (!found) return false;
  mode_ = Mode::kContent;
  first_ = skips_space_ = true;
  return true;
}

bool TaggedParser::read_call(bool last) {
  CallParser::State state = CallParser::State::kMore;
  while (at_ < pending_.size() && state == CallParser::State::kMore && !writer_.full()) {
    const char c = pending_[at_++];
    writer_.read(c);
    state = call_->feed(c, writer_);
    if (writer_.unsure() > kUnsureMax) state = CallParser::State::kBad;
  }
  if (writer_.full()) {
    mode_ = Mode::kClosed;
    return true;
  }
  if (state == CallParser::State::kMore && last) state = call_->finish(writer_);
  if (state == CallParser::State::kMore) return false;
  if (state == CallParser::State::kBad) {
    not_a_call();
    return true;
  }
  writer_.commit(0);
  call_.reset();
  mode_ = Mode::kContent;
  first_ = skips_space_ = true;
  return true;
}

// Gives back what was read, so that a call may begin later in it; at least a
// character of it is content.
void TaggedParser::not_a_call() {
  const size_t opener = writer_.untouched() ? opener_size_ : 0;
  const std::string raw = writer_.take_unsure();
  call_.reset();
  mode_ = Mode::kContent;
  first_ = skips_space_ = false;
  if (++failures_ >= kFailuresMax) {
    openers_.clear();
    starts_.clear();
  }
  const size_t sure = raw.empty() ? 0 : std::max(std::min(opener, raw.size()), character_size(raw));
  writer_.content(std::string_view(raw).substr(0, sure));
  pending_.replace(0, at_, raw.substr(sure));
  at_ = 0;
}

}  // namespace tandem
