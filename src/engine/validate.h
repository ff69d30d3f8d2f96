// Is a request one that this model, with this cache, can ever run?
#pragma once

#include "engine/load_model.h"
#include "sched/request.h"
#include "sched/scheduler.h"

namespace tandem {

// Clamps max_tokens (and min_tokens) to the context and to the cache. Throws as Engine::submit
// says.
void validate(Request& request, const ModelCard& card, const SchedulerLimits& limits);

}  // namespace tandem
