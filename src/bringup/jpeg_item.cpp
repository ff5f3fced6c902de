// SPDX-License-Identifier: Apache-2.0
// JPEG pictures decoded as a loader's workers do, by the host engine. The picture is made here: a baseline JPEG in
// 4:2:0 of random coefficients, which costs the decoder what a photograph of that size and number of bytes does.
#include <cstdint>

#include "firmware_shims/media_engine.h"
#include "src/base/check.h"
#include "src/base/error.h"
#include "src/bringup/machine_limits.h"
#include "src/bringup/workbench.h"

namespace bascule {
namespace {

constexpr int kWidth = 640, kHeight = 480;

// Both code tables have codes of 4 bits alone: the code of a symbol is its place in the list.
constexpr std::uint8_t kDcSizes[] = {0, 1, 2, 3, 4};
constexpr std::uint8_t kAcSymbols[] = {0x00, 0x01, 0x02, 0x03,
                                       0x11, 0x12, 0x21, 0x31};  // run, size; 0x00: end of block

template <std::size_t Count>
void add_codes(std::vector<std::uint8_t>* bytes, std::uint8_t table, const std::uint8_t (&symbols)[Count]) {
  bytes->insert(bytes->end(), {0xff, 0xc4, 0, 19 + Count, table, 0, 0, 0, Count, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  bytes->insert(bytes->end(), symbols, symbols + Count);
}

std::vector<std::uint8_t> make_jpeg() {
  std::vector<std::uint8_t> bytes = {0xff, 0xd8, 0xff, 0xdb, 0, 67, 0};
  bytes.insert(bytes.end(), 64, 12);  // one quantisation table, of equal steps
  bytes.insert(bytes.end(), {0xff, 0xc0, 0, 17, 8, kHeight >> 8, kHeight & 255, kWidth >> 8, kWidth & 255, 3,  //
                             1, 0x22, 0, 2, 0x11, 0, 3, 0x11, 0});
  add_codes(&bytes, 0x00, kDcSizes);
  add_codes(&bytes, 0x10, kAcSymbols);
  bytes.insert(bytes.end(), {0xff, 0xda, 0, 12, 3, 1, 0, 2, 0, 3, 0, 0, 63, 0});
  unsigned byte = 0, bits = 0;
  const auto put = [&](unsigned value, int count) {
    for (int i = count - 1; i >= 0; --i) {
      byte = (byte << 1 | (value >> i & 1u)) & 255u;
      if (++bits % 8 != 0) continue;
      bytes.push_back(static_cast<std::uint8_t>(byte));
      if (byte == 255u) bytes.push_back(0);  // or it would begin a marker
    }
  };
  std::uint32_t state = 1;
  const auto random = [&](unsigned below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % below;
  };
  constexpr int kBlocks = kWidth / 16 * (kHeight / 16) * 6;  // four of brightness and two of colour in each 16 x 16
  constexpr int kCoefficients = 9;
  for (int block = 0; block < kBlocks; ++block) {
    const unsigned dc = random(sizeof kDcSizes);
    put(dc, 4);
    put(random(1u << kDcSizes[dc]), kDcSizes[dc]);
    for (int i = 0; i < kCoefficients; ++i) {
      const unsigned symbol = 1 + random(sizeof kAcSymbols - 1);
      const int size = kAcSymbols[symbol] & 15;
      put(symbol, 4);
      put(random(1u << size), size);
    }
    put(0, 4);
  }
  while (bits % 8 != 0) put(1, 1);
  bytes.insert(bytes.end(), {0xff, 0xd9});
  return bytes;
}

// An engine of one thread, as a worker has it, and where its pixels go.
class Decoder : NonCopyable {
 public:
  Decoder() : memory_(media_engine_memory_needed(&config_)), pixels_(kPixels * sizeof(float)) {
    config_.memory = memory_.data();
    config_.memory_bytes = media_engine_memory_needed(&config_);
    const media_engine_status status = media_engine_open(&engine_, &config_);
    if (status != MEDIA_ENGINE_OK) throw Error(ErrorKind::kData, "media engine", media_engine_status_text(status));
  }
  ~Decoder() { media_engine_close(engine_); }

  static constexpr std::uint32_t kSide = 288;

  void decode(const std::vector<std::uint8_t>& picture) {
    constexpr std::uint64_t kWaitNs = 600'000'000'000;
    media_engine_job job = {};
    job.encoded = picture.data();
    job.encoded_bytes = picture.size();
    job.pixels = pixels_.floats();
    job.side = kSide;
    job.preparation = MEDIA_ENGINE_TRAINING;
    job.element = MEDIA_ENGINE_FLOAT32;
    for (double& value : job.std) value = 0.5;
    media_engine_completion completion = {};
    BASCULE_CHECK(media_engine_submit(engine_, &job) == MEDIA_ENGINE_OK);  // a picture and an engine of our own
    BASCULE_CHECK(media_engine_wait(engine_, &completion, kWaitNs) == MEDIA_ENGINE_OK);
    BASCULE_CHECK(completion.status == MEDIA_ENGINE_OK);
  }

 private:
  static constexpr std::size_t kPixels = std::size_t{3} * kSide * kSide;

  static media_engine_config small_config() {
    media_engine_config config = media_engine_default_config(media_engine_host());
    config.picture_bytes = std::size_t{8} << 20;
    return config;
  }

  media_engine_config config_ = small_config();
  AlignedMemory memory_, pixels_;
  media_engine* engine_ = nullptr;
};

class JpegItem : public Item {
 public:
  explicit JpegItem(Workbench& bench) : bench_(bench), picture_(make_jpeg()) {
    for (int core = 0; core < bench.core_count(); ++core) decoders_.push_back(std::make_unique<Decoder>());
    const std::string name =
        std::to_string(kWidth) + " x " + std::to_string(kHeight) + " to " + std::to_string(Decoder::kSide);
    for (const int core : bench.cores()) probe(name, "pictures/s", core, [this] { return alone(); });
    probe(name, "pictures/s", -1, [this] { return together(); });
  }

 private:
  double alone() {
    return 1.0 / seconds_of(bench_, [&] { decoders_.front()->decode(picture_); });
  }
  double together() {
    const std::int64_t pictures = std::int64_t{2} * bench_.core_count();
    const double seconds = seconds_of(bench_, [&] {
      bench_.share(pictures,
                   [&](std::int64_t, int thread) { decoders_[static_cast<std::size_t>(thread)]->decode(picture_); });
    });
    return static_cast<double>(pictures) / seconds;
  }

  Workbench& bench_;
  std::vector<std::uint8_t> picture_;
  std::vector<std::unique_ptr<Decoder>> decoders_;
};

}  // namespace

std::unique_ptr<Item> make_jpeg_item(Workbench& bench) { return std::make_unique<JpegItem>(bench); }

}  // namespace bascule
