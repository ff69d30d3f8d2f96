// Everything the engine thread knows of one request.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "engine/emitter.h"
#include "engine/kv_pools.h"
#include "engine/stream_channel.h"
#include "sampling/row_sampler.h"
#include "sched/request.h"
#include "sched/row_resource.h"

namespace tandem {

struct Row {
  Row(Request r, std::shared_ptr<StreamChannel> c, std::span<const int32_t> stop_ids,
      const Tokenizer* tokenizer)
      : request(std::move(r)),
        channel(std::move(c)),
        tokens(request.prompt),
        sampler(request.sampling, request.choice, request.prompt),
        emitter(request, stop_ids, tokenizer) {}

  RowId id() const { return channel->id(); }
  int32_t prompt_length() const { return static_cast<int32_t>(request.prompt.size()); }
  bool wants_prompt_logprobs() const { return request.prompt_logprobs >= 0; }

  bool cancelled() const { return channel->cancelled() || (abort && abort->load()); }

  const Request request;
  const std::shared_ptr<StreamChannel> channel;
  Route route;
  ResourceOwner resource;
  std::shared_ptr<const std::atomic<bool>> abort;  // may be null
  std::vector<int32_t> tokens;                     // prompt and generated
  RowSampler sampler;
  Emitter emitter;
  RowPages pages;
  int32_t prompt_delivered = 0;  // prompt tokens, where their log-probabilities are wanted
  bool admitted = false;         // has run; it may wait again since
  bool paused = false;
  bool made_way = false;  // had the exclusive domain, and is to ask again
  int preemptions = 0;
  Clock::time_point submitted_at = Clock::now();
  Clock::time_point admitted_at;
  Clock::time_point first_token_at;
  Clock::time_point last_token_at;
};

}  // namespace tandem
