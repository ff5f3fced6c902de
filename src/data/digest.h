// SPDX-License-Identifier: Apache-2.0
// XXH3 of what comes in parts. Made before the seal; nothing else here allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

struct XXH3_state_s;

namespace bascule {

class Digest {
 public:
  Digest();

  void reset() noexcept;
  void add(const void* data, std::size_t bytes) noexcept;
  void add_number(std::uint64_t number) noexcept { add(&number, sizeof number); }
  // Of all that was added so far.
  std::uint64_t value() const noexcept;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace bascule
