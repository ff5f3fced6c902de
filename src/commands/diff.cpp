// SPDX-License-Identifier: Apache-2.0
#include "src/commands/diff.h"

#include <cstdio>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/record/hash_log.h"

namespace bascule {

int diff_command(const DiffArguments& arguments) {
  const Parting parting = find_parting(HashLog(arguments.a), HashLog(arguments.b));
  const bool is_equal = parting.step == 0;
  if (arguments.json) {
    Json document = {{"equal", is_equal},
                     {"equal_updates", parting.equal_updates},
                     {"first_update", parting.first_common},
                     {"last_update", parting.last_common}};
    if (!is_equal) {
      document["update"] = parting.step;
      document["tensor"] = parting.tensor;
      document["kind"] = parting.is_gradient ? "gradient" : "value";
      document["values_that_differ"] = static_cast<std::uint64_t>(parting.values);
      document["gradients_that_differ"] = static_cast<std::uint64_t>(parting.gradients);
    }
    std::printf("%s\n", json_text(document, 2).c_str());
  } else if (is_equal) {
    std::printf("equal: all values and gradients of %lld hashed updates, %lld to %lld\n",
                static_cast<long long>(parting.equal_updates), static_cast<long long>(parting.first_common),
                static_cast<long long>(parting.last_common));
  } else {
    std::printf("update %lld: the %s of %s differs\n", static_cast<long long>(parting.step),
                parting.is_gradient ? "gradient" : "value", parting.tensor.c_str());
    std::printf(
        "it is the first in the order of the tape; differing in this update: values, as it read them: %zu, gradients: "
        "%zu\n",
        parting.values, parting.gradients);
    std::printf("%lld hashed updates before it are equal\n", static_cast<long long>(parting.equal_updates));
  }
  return is_equal ? 0 : exit_code(ErrorKind::kNotAsRecorded);
}

}  // namespace bascule
