// SPDX-License-Identifier: Apache-2.0
// Tasks that a function describes, dealt to threads.
#pragma once

#include <cstdint>
#include <functional>

#include "src/runtime/threads.h"

namespace bascule {

// run(task, thread) for each task, by whichever thread is free.
void share_work(Threads& threads, std::int64_t tasks, const std::function<void(std::int64_t task, int thread)>& run);

}  // namespace bascule
