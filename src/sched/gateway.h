// Who may use the model now. One first-come, first-served domain: it is held by the
// batch (from the first row it admits until none runs), by one row of the serial
// lane, or by one piece of exclusive work such as mounting an adapter.
//
// - While something else waits, the batch takes in no new rows: those that run
//   finish, the domain is handed on, and then the batch takes its turn again. At each
//   turn it takes in the rows that wait then, so neither side starves.
// - Release is idempotent, and means "leave the queue" for one that waits.
//
// Integers only, a plain value; the engine thread calls, and runs what is told.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace tandem {

class ExclusiveDomain {
 public:
  using Ticket = int64_t;

  // Queues a ticket that neither waits nor holds.
  void request(Ticket ticket);
  void request_first(Ticket ticket);
  // If nobody holds the domain, the ticket that has waited longest does from now on.
  // Returns it, or nothing when the holder is the same as before.
  std::optional<Ticket> grant();
  // Gives the domain back, or leaves the queue; nothing for any other ticket.
  void release(Ticket ticket);

  std::optional<Ticket> holder() const { return holder_; }
  bool waits(Ticket ticket) const;
  int waiting() const { return static_cast<int>(waiting_.size()); }
  // Held, or about to be.
  bool locked() const { return holder_.has_value() || !waiting_.empty(); }

 private:
  std::optional<Ticket> holder_;
  std::deque<Ticket> waiting_;
};

class Gateway {
 public:
  // Rows of the serial lane by their id, exclusive work by negative numbers.
  void request(int64_t id) { domain_.request(id); }
  // A row that had the domain and made way for others wants it again.
  void request_again(int64_t id) { domain_.request_first(id); }
  // Finished, failed or cancelled, wherever it was. Any number of times.
  void release(int64_t id) { domain_.release(id); }

  struct Turn {
    int64_t id = 0;             // the serial row or exclusive work that holds; 0 = none
    bool batch_admits = false;  // new rows may join the batch
  };
  // Hands the domain on where it is free. `batch_started`: rows of the batch have run
  // and are not finished; `batch_waits`: a row could be admitted.
  Turn turn(bool batch_started, bool batch_waits);

  bool locked() const { return domain_.locked(); }
  // Tickets that wait for their turn, the batch's among them.
  int waiting() const { return domain_.waiting(); }
  bool holds(int64_t id) const { return domain_.holder() == id; }
  bool waits(int64_t id) const { return domain_.waits(id); }

 private:
  static constexpr ExclusiveDomain::Ticket kBatch = 0;

  ExclusiveDomain domain_;
};

}  // namespace tandem
