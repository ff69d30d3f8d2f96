// The reply of a generating endpoint: rows of the engine written by a
// ReplyWriter, as they come or when all have ended.
#pragma once

#include <memory>
#include <vector>

#include "api/reply_writer.h"
#include "server/http.h"
#include "server/served_model.h"

namespace tandem::server {

class Generation : public Producer {
 public:
  Generation(std::vector<std::unique_ptr<Row>> rows, std::unique_ptr<api::ReplyWriter> writer);
  ~Generation() override;

  State pump(std::string& out) override;
  void set_waker(std::function<void()> wake) override;
  void stop() override;
  bool streams() const override { return writer_->streams(); }
  std::string summary() const override;

 private:
  // False when nothing waits in that row.
  bool take(int row, std::string& out);
  void end_early(const Error& error, std::string& out);

  std::vector<std::unique_ptr<Row>> rows_;  // null once ended
  std::unique_ptr<api::ReplyWriter> writer_;
  api::UsageSum usage_{1};
  size_t running_;
  bool begun_ = false;  // bytes have been appended
  bool stopping_ = false;
  bool ended_ = false;
};

HttpReply generation_reply(std::vector<std::unique_ptr<Row>> rows,
                           std::unique_ptr<api::ReplyWriter> writer);

}  // namespace tandem::server
