// SPDX-License-Identifier: Apache-2.0
// In place of request_reader.cpp in a program without Boost.Beast: HttpServer refuses to start, so nothing calls these.
#include "src/http/request_reader.h"

namespace bascule {

bool has_request_parser() noexcept { return false; }

RequestReader::~RequestReader() = default;
void RequestReader::reset() noexcept {}
Span<char> RequestReader::space() noexcept { return {}; }
ReadState RequestReader::take(std::size_t) noexcept { return state_; }
ReadState RequestReader::read_body(Span<char>, std::uint64_t) noexcept { return state_; }
bool RequestReader::fits_behind_head() const noexcept { return false; }
ReadState RequestReader::next() noexcept { return state_; }

}  // namespace bascule
