// SPDX-License-Identifier: Apache-2.0
#include "src/seal/sealed_loader.h"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <vector>

#include "src/base/error.h"
#include "src/files/input_file.h"
#include "src/runtime/choose_isa.h"
#include "src/seal/sealed_writers.h"

namespace bascule {
namespace {

Span<PictureDigest> all_digests(const RunData& data, const MemoryPlan& plan, const Arena& arena) {
  const std::size_t pictures = picture_digest_count(data.loader);
  if (pictures == 0) return {};
  return {arena.as<PictureDigest>(plan[kPictureDigests]), pictures};
}

std::uint64_t loaded_samples(void* loader) { return static_cast<const Loader*>(loader)->loaded_samples(); }
std::int64_t row_being_read(void* loader) { return static_cast<const Loader*>(loader)->row_being_read(); }

}  // namespace

SealedLoader::SealedLoader(const RunData& data, const MemoryPlan& plan, const Arena& arena, Group& group)
    : data_(data),
      digests_(all_digests(data, plan, arena)),
      saved_(digests_.empty() ? nullptr : arena.as<std::uint64_t>(plan[kPictureDigests]) + digests_.size()),
      loader_(data.loader, data.plan, Span<std::byte>(arena.at(plan[kLoaderMemory]), plan[kLoaderMemory].bytes),
              digests_),
      progress_(group, loaded_samples, row_being_read, &loader_) {}

Span<PictureDigest> SealedLoader::training_digests() {
  const RecordedSplit* const train = data_.find(Split::kTrain);
  return train != nullptr ? loader_.picture_digests(train->stream) : Span<PictureDigest>();
}

Span<std::uint64_t> SealedLoader::saved_digests() { return {saved_, training_digests().size()}; }

void SealedLoader::resume(const ResumePoint& point, const Group& group) {
  if (group.is_leader()) resume_digests(point);
  if (!group.is_first()) return;  // whose list goes on with those of all ranks
  const RecordedSplit* const train = data_.find(Split::kTrain);
  const auto is_row = [&](std::int64_t row) { return row >= 0 && row < train->manifest->rows(); };
  std::vector<ReplacedSample> replaced;
  for (const ReplacedSample& one : point.replacements) {
    if (one.row < 0) continue;  // it ended the run
    if (!is_row(one.row) || !is_row(one.bad_row)) {
      throw Error(ErrorKind::kData, point.folder, "refers to a row that " + train->manifest->name() + " does not have",
                  "remove the checkpoint");
    }
    replaced.push_back(one);
  }
  loader_.stream(train->stream)
      .restore_replacements(Span<const ReplacedSample>(replaced),
                            static_cast<std::int64_t>(point.number("bad_samples")));
}

// Older checkpoints have no digests. Where rows or sizes changed, none are read, and they are taken anew.
void SealedLoader::resume_digests(const ResumePoint& point) {
  const RecordedSplit* const train = data_.find(Split::kTrain);
  const Span<PictureDigest> digests = training_digests();
  const std::string path = point.folder + "/" + kPictureDigestsFile;
  const std::string now(DigestText(train->manifest->data_digest()).text());
  const std::string* const then = find_value(point.data, "data.train_file");
  if (then == nullptr || *then != now || digests.empty() || !std::filesystem::exists(path)) return;
  const InputFile file(path);
  std::vector<std::uint64_t> saved(digests.size());
  if (file.size() != static_cast<std::int64_t>(saved.size() * sizeof saved[0])) return;
  file.read(saved.data(), 0, saved.size() * sizeof saved[0]);
  for (std::size_t i = 0; i < saved.size(); ++i) digests[i].store(saved[i], std::memory_order_relaxed);
}

SealedTapes::SealedTapes(RecordedRun& run, Isa isa, const Arena& arena, Group& group, bool simulates)
    : threads_(simulates ? Threads(SimulatedThreads{run.threads, run.threads > usable_cores()})
                         : Threads(run.threads, run.threads == usable_cores(), &group.heart(), &group.position())) {
  run.session.seal(arena, run.plan, kernels_for(isa, run.settings.machine), run.threads, &group);
  if (!run.graphs.trains()) return;
  if (run.graphs.has_pieces())
    pieces_ = std::make_unique<BatchPieces>(run.session, run.graphs.by_use, arena.at(run.plan[kPiecesMemory]));
  const DistributedSettings& distributed = run.settings.distributed;
  Training& training = run.session.training();
  if (group.nodes() > 1) {
    const PlannedRange& lane = run.plan[kLaneMemory];
    training.update().connect(Span<std::byte>(arena.at(lane), lane.bytes), distributed.wire_type == WireType::kBf16);
  }
  if (group.size() > 1 && distributed.distribution_strategy == Strategy::kDdp)
    training.overlap_reduction(static_cast<std::size_t>(distributed.bucket_mib) << 20);
}

void SealedTapes::say_unpinned(void (*say)(const std::string& line)) const {
  if (threads_.pin_error() == 0) return;
  say(std::string("threads: the system refused to pin them to cores (") + std::strerror(threads_.pin_error()) +
      "): they may share a core or move, which is slower");
}

}  // namespace bascule
