#include "sched/gateway.h"

#include <algorithm>

#include "base/error.h"

namespace tandem {

void ExclusiveDomain::request(Ticket ticket) {
  INVARIANT(holder_ != ticket && !waits(ticket));
  waiting_.push_back(ticket);
}

void ExclusiveDomain::request_first(Ticket ticket) {
  INVARIANT(holder_ != ticket && !waits(ticket));
  waiting_.push_front(ticket);
}

std::optional<ExclusiveDomain::Ticket> ExclusiveDomain::grant() {
  if (holder_ || waiting_.empty()) return std::nullopt;
  holder_ = waiting_.front();
  waiting_.pop_front();
  return holder_;
}

void ExclusiveDomain::release(Ticket ticket) {
  if (holder_ == ticket) {
    holder_.reset();
  } else {
    std::erase(waiting_, ticket);
  }
}

bool ExclusiveDomain::waits(Ticket ticket) const {
  return std::find(waiting_.begin(), waiting_.end(), ticket) != waiting_.end();
}

Gateway::Turn Gateway::turn(bool batch_started, bool batch_waits) {
  if (holds(kBatch) && !batch_started) domain_.release(kBatch);
  if (batch_waits && !holds(kBatch) && !waits(kBatch)) domain_.request(kBatch);
  if (!batch_waits && !batch_started && waits(kBatch)) domain_.release(kBatch);
  const bool first_turn = domain_.grant() == kBatch;
  const int64_t id = domain_.holder().value_or(kBatch);
  return {.id = id, .batch_admits = holds(kBatch) && (first_turn || domain_.waiting() == 0)};
}

}  // namespace tandem
