// SPDX-License-Identifier: Apache-2.0
// Words for findings: "12 of 1,583 captions", "1 picture", "0.76 %".
#pragma once

#include <cstdint>
#include <string>

namespace bascule {

std::string count_text(std::int64_t count);  // "1,583"
// "1 picture", "1,583 pictures".
std::string counted(std::int64_t count, const std::string& noun);
std::string share_text(std::int64_t part, std::int64_t all);  // "0.76 %", of nothing "0 %"
// "is" or "are".
inline const char* verb_of(std::int64_t count) { return count == 1 ? "is" : "are"; }
inline const char* has_of(std::int64_t count) { return count == 1 ? "has" : "have"; }

}  // namespace bascule
