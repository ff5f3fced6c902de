// SPDX-License-Identifier: Apache-2.0
// The settings of a run: one plain struct per table of the TOML file, read once before anything else and constant from
// then on. A room receives the struct of its own table, with the origin where its errors name the line, never the
// whole; but for what walks every key: printing, digests, the comparison with a checkpoint's. Where a key's name, range
// and meaning stand: key_tables.h.
//
//   const Settings settings = read_settings("config/demo.toml", model_words);
//   refuse_unsupported(settings);
//
// Everything here belongs to the time before the seal: it allocates and throws Error.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/mapped_memory.h"
#include "src/base/paths.h"

namespace bascule {

// A file or folder as the user wrote it, and where that is: an absolute path, relative ones taken from the TOML file's
// folder.
struct PathSetting {
  std::string written;   // "" when not given
  std::string resolved;  // "" when not given

  bool is_given() const { return !written.empty(); }
  // For messages: the path as seen from the current folder.
  std::string shown() const { return shown_path(resolved); }
};

// The files of one split, in order: paths, patterns of shards ("shard-{000..127}.tar") and globs ("part-*.jsonl"),
// which find_data_files() (src/index/data_files.h) resolves.
struct PathsSetting {
  PathsSetting() = default;
  PathsSetting(std::string path) : written{std::move(path)} {}

  std::vector<std::string> written;  // none when not given
  std::string start;                 // the folder that relative ones start from; "": where the process is
  bool stays_inside = false;         // ".." does not lead out of `start`

  bool is_given() const { return !written.empty(); }
  // For people.
  std::string text() const { return shown_list(written); }
  // Whether they are plain text, "part-*.txt": a corpus instead of rows.
  bool is_corpus() const {
    constexpr std::string_view kEnding = ".txt";
    const auto is_text = [&](const std::string& path) {
      return path.size() > kEnding.size() && path.compare(path.size() - kEnding.size(), kEnding.size(), kEnding) == 0;
    };
    return is_given() && std::all_of(written.begin(), written.end(), is_text);
  }
};

// A retrieval in the form of BEIR: documents, queries, and which documents are right for which query.
struct RetrievalFiles {
  PathsSetting corpus, queries, relevance;

  bool is_given() const { return corpus.is_given(); }
};

enum class Precision { kFloat32, kBf16 };
enum class Dropout { kConfig, kOff };
enum class Pooling { kMean, kCls, kMax };  // of the rows of a text, to its vector
// Of the vectors of a row's texts. The first two: the second text is to be found among all second ones and negatives.
enum class EmbeddingLoss { kRanking, kSymmetricRanking, kCosent, kCosineSimilarity };
// Whether the other texts of a batch are negatives of a text; else scores are compared.
constexpr bool has_negatives(EmbeddingLoss loss) {
  return loss == EmbeddingLoss::kRanking || loss == EmbeddingLoss::kSymmetricRanking;
}
enum class Preprocessing { kTraining, kProcessor };
enum class Augment { kNone, kCropFlip };
enum class Interpolation { kBicubic, kBilinear };
enum class TextLayout { kBlocks, kLines };  // of a corpus
enum class Masking { kCounted, kBernoulli };
enum class Tracking { kNone, kMlflow };
enum class BatchSampler { kBatchSampler, kNoDuplicates };
enum class OnBadSample { kStop, kSkip };
enum class Scheduler {
  kLinear,
  kCosine,
  kConstant,
  kConstantWithWarmup,
  kPolynomial,
  kCosineWithRestarts,
  kInverseSqrt,
  kCosineWithMinLr,
  kPolynomialJump
};
enum class Optimizer { kAdamW, kLamb, kAdafactor };
enum class Interval { kNo, kSteps, kEpoch };
// When the search of a sample ends before its sequences are full: once the finished list is full (kYes), or once no
// going sequence is likely to beat the worst of the finished list. Its best score to come is estimated with the length
// that it has (kNo), or with the one that favours it most (kNever).
enum class EarlyStopping { kYes, kNo, kNever };
enum class GradientCheckpointing { kOff, kSelective, kFull, kFit };
enum class Resume { kAuto, kNever, kOlder, kCheckpoint };
enum class Strategy { kFastDdp, kDdp, kSharded };
enum class WireType { kFloat32, kBf16 };
enum class IsaSetting { kAuto, kAvx2, kAvx512, kScalar, kAvx512Bf16, kAmx };
enum class Bf16Sums { kPairs, kTiles };
enum class Products { kOurs, kOnednn };  // whose matrix products

// The settings that a folder's model permits.
struct HeadWords {
  std::string name;
  bool reads_labels = false, uses_negatives = false, has_classes = false;
  std::vector<std::string> smaller_is_better;  // figures of its evaluations, beside the loss
  bool mixes_labels = false;                   // its loss takes two labels a sample
  bool reads_pairs = false;                    // of texts
  bool reads_targets = false;                  // a sample is two texts: a source, and the target that is made of it
  bool reads_words = false;                    // a text is a list of words, and its label a list of their tags
  bool embeds_texts = false;                   // it makes a vector of a text: model.pooling, model.normalize
};
// The defaults of these keys for heads that embed texts, from the model's folder.
struct SentenceWords {
  Pooling pooling = Pooling::kMean;
  bool normalize = false;
  std::int64_t max_seq_length = 0;  // tokens
};
struct ModelWords {
  std::vector<HeadWords> heads;        // the first is the default
  std::vector<std::string> parts;      // that model.freeze may name
  std::vector<std::string> frozen;     // the default of model.freeze
  std::vector<std::string> idle = {};  // parts without a gradient: freezing them changes nothing
  bool draws = false;                  // the folder holds a pipeline: it has no heads
  std::string body = {};               // the model lies in this folder below the one that is named; empty: in that
  // Asked only for a head that embeds texts. Throws Error{kData}. None: the keys have been resolved.
  std::function<SentenceWords()> find_sentence = {};
};
// The words of the model in a folder; if the folder does not exist, those of a usual model.
using FindModelWords = std::function<ModelWords(const std::string& folder)>;

struct NumberRange {
  double least = 0.0, most = 0.0;

  bool operator==(const NumberRange& other) const { return least == other.least && most == other.most; }
};

struct ModelSettings {
  PathSetting model_name_or_path;
  PathSetting tokenizer_name;  // written "": `resolved` is then the model folder
  std::string head;
  bool from_scratch = false;
  std::vector<std::string> freeze;  // parts that keep their weights, in the order of ModelWords::parts
  Precision precision = Precision::kFloat32;
  Dropout dropout = Dropout::kConfig;
  std::int64_t image_size = 0;       // pixels a side; 0: that of config.json
  Pooling pooling = Pooling::kMean;  // of heads that embed texts; not written: the folder's, as the next
  bool normalize = false;
};

// As many as a text may have tokens.
inline constexpr std::int64_t kNoPredictionLimit = 65536;

struct DataSettings {
  PathsSetting train_file;
  PathsSetting validation_file;
  PathsSetting test_file;
  PathsSetting validation_corpus, validation_queries, validation_relevance;  // in place of these files
  PathsSetting test_corpus, test_queries, test_relevance;
  double validation_share = 0.0;  // of train_file, held out in place of validation_file; 0: none
  std::string image_column = "image";
  std::string caption_column = "caption";
  std::string text_column;                    // "": caption_column
  std::string text_pair_column;               // "": a sample has one text
  std::vector<std::string> negative_columns;  // of texts that are wrong for text_column, behind text_pair_column
  std::vector<std::string> prompts;           // put before the texts of these columns, one each; none: nothing is
  std::string summary_column;                 // of the target, whose source is in text_column
  std::string label_column;                   // "": labels are made by exchanging captions
  bool label_all_tokens = false;              // of words with tags; false: the first token of a word alone has its tag
  std::int64_t max_seq_length = 128;
  std::string source_prefix;  // put before each source
  std::int64_t max_source_length = 1024, max_target_length = 128;
  std::int64_t val_max_target_length = 0;  // of validation and test; 0: max_target_length
  bool ignore_pad_token_for_loss = true;   // false: targets are padded to their maximal length, and padding is learnt
  bool pad_to_max_length = false;          // without effect where padding is ignored
  TextLayout text_layout = TextLayout::kBlocks;
  std::int64_t dupe_factor = 10;  // of pairs
  double short_seq_probability = 0.1;
  double mlm_probability = 0.15;
  Masking masking = Masking::kCounted;
  std::int64_t max_predictions_per_seq = kNoPredictionLimit;  // with kCounted
  double negative_fraction = 0.5;
  Preprocessing preprocessing = Preprocessing::kTraining;
  Augment augment = Augment::kNone;  // of training pictures
  NumberRange random_resized_crop_scale = {0.08, 1.0};
  NumberRange random_resized_crop_ratio = {3.0 / 4.0, 4.0 / 3.0};
  std::int64_t rand_augment_num_ops = 0;  // of training pictures, as all below; 0: off
  std::int64_t rand_augment_magnitude = 9, rand_augment_num_magnitude_bins = 31;
  double color_jitter_brightness = 0.0, color_jitter_contrast = 0.0, color_jitter_saturation = 0.0;  // 0: off
  double color_jitter_hue = 0.0;
  double random_erasing_probability = 0.0;
  NumberRange random_erasing_scale = {0.02, 0.33}, random_erasing_ratio = {0.3, 3.3};
  Interpolation interpolation = Interpolation::kBicubic;
  double eval_crop_ratio = 1.0;
  double mixup_alpha = 0.0, cutmix_alpha = 0.0;  // of training samples; 0: off
  std::int64_t dataloader_num_workers = 1;
  bool dataloader_drop_last = false;
  std::int64_t ring_slots = 3;
  OnBadSample on_bad_sample = OnBadSample::kStop;
  std::int64_t max_eval_samples = 0, max_predict_samples = 0;  // rows of validation and test; 0: all

  // Of rows whose texts are embedded each by itself.
  std::size_t text_columns() const { return (text_pair_column.empty() ? 1 : 2) + negative_columns.size(); }

  // The first key that is set of those that change training pictures at random; "": none.
  std::string random_change() const;

  // The file that the samples of the validation are in.
  const PathsSetting& evaluation_file() const {
    if (validation_corpus.is_given()) return validation_corpus;
    return validation_share > 0.0 ? train_file : validation_file;
  }
  // Those of the prediction.
  const PathsSetting& prediction_file() const { return test_corpus.is_given() ? test_corpus : test_file; }
  RetrievalFiles validation_retrieval() const { return {validation_corpus, validation_queries, validation_relevance}; }
  RetrievalFiles test_retrieval() const { return {test_corpus, test_queries, test_relevance}; }

  // The length of targets in validation and test.
  std::int64_t eval_target_length() const {
    return val_max_target_length > 0 ? val_max_target_length : max_target_length;
  }
};

// Behaviour of the simulated device; used only if the media engine hpu_sim is built in.
struct SimulationSettings {
  bool is_given = false;  // the file has [media_engine.simulation]
  std::int64_t units = 2;
  double pictures_per_second = 0.0;  // of one unit; 0: as fast as the host computes
  double latency_ms = 0.0;
  bool polling = false;
  std::int64_t timeout_ms = 2000;
  std::vector<std::string> faults;
  std::int64_t fault_seed = 1;
};

struct MediaEngineSettings {
  std::int64_t queue_depth = 16;
  std::int64_t memory_mib = 256;
  std::int64_t max_megapixels = 178;
  bool scale_in_decoder = false;
  bool fallback = true;
  SimulationSettings simulation;
};

// One [[training.groups]]: tensors that the user sets apart.
struct GroupSettings {
  std::string match;  // a glob on names of the checkpoint, with or without the body's prefix
  double learning_rate_multiplier = 1.0;
  double weight_decay = -1.0;  // of all its tensors; below 0: not written, the rule for all holds
  bool freeze = false;
};

// Settings of every run, also of one that trains nothing. The keys stand in [training], where users of Hugging Face
// look for them.
struct RunSettings {
  PathSetting output_dir;
  std::int64_t seed = 42;
  Resume resume = Resume::kAuto;
  PathSetting resume_checkpoint;  // with kCheckpoint: the value of training.resume is a path
};

struct TrainingSettings {
  bool do_train = false;  // not written: true if train_file is given; read_settings has resolved that
  bool do_eval = false;
  bool do_predict = false;
  double num_train_epochs = 5.0;  // steps = ceil(epochs * steps of an epoch); 0 where max_steps decides
  std::int64_t max_steps = 0;     // 0 where num_train_epochs decides; exactly one of the two is above 0
  std::int64_t per_device_train_batch_size = 40;
  std::int64_t per_device_eval_batch_size = 16;
  // Of training; not written: kNoDuplicates where the other texts of a batch are negatives.
  BatchSampler batch_sampler = BatchSampler::kBatchSampler;
  double learning_rate = 1e-5;
  double weight_decay = 0.0;
  Optimizer optimizer = Optimizer::kAdamW;
  double adam_beta1 = 0.9;  // of both
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1.0;  // 0: no clipping
  bool fused_update = false;
  double label_smoothing_factor = 0.0;
  double ema_decay = 0.0;      // of the averaged weights; 0: there are none
  std::int64_t ema_steps = 1;  // the average takes a step every so many updates
  Scheduler lr_scheduler_type = Scheduler::kLinear;
  std::int64_t lr_schedule_steps = 0;  // updates that the schedule is made for; 0: all of the run
  std::int64_t warmup_steps = 0;       // at most one of the two is above 0
  double warmup_ratio = 0.0;           // steps = ceil(ratio * the schedule's)
  double warmup_start_ratio = 0.0;     // of learning_rate
  double lr_power = 1.0;               // polynomial, polynomial_jump
  double lr_end = 1e-7;                // polynomial
  std::int64_t lr_num_cycles = 1;      // cosine_with_restarts
  std::int64_t lr_timescale = 0;       // inverse_sqrt; 0: the warm-up's updates, or 10,000 without one
  double min_lr_ratio = 0.0;           // cosine_with_min_lr, which needs it above 0
  std::int64_t gradient_accumulation_steps = 1;
  GradientCheckpointing gradient_checkpointing = GradientCheckpointing::kSelective;
  bool gather_negatives = false;
  EmbeddingLoss loss = EmbeddingLoss::kRanking;  // of heads that embed texts
  double similarity_scale = 20.0;                // by which it multiplies cosines
  std::int64_t mini_batch_size = 0;              // samples of a batch that go through the model at a time; 0: all
  std::int64_t logging_steps = 10;
  Interval eval_strategy = Interval::kNo;     // not written: kSteps where eval_steps is above 0
  std::int64_t eval_steps = 0;                // above 0 where the strategy is kSteps, else 0
  Interval save_strategy = Interval::kSteps;  // not written: kSteps where save_steps is above 0
  std::int64_t save_steps = 500;              // above 0 where the strategy is kSteps, else 0
  std::int64_t save_total_limit = 2;          // 0: all
  bool load_best_model_at_end = false;
  std::string metric_for_best_model;         // "": no evaluation is the best; "loss" where a best one is needed
  bool greater_is_better = false;            // not written: true but for losses and perplexity
  std::int64_t early_stopping_patience = 0;  // evaluations without a better one; 0: never
  double early_stopping_threshold = 0.0;
  std::int64_t throughput_warmup_steps = 3;
  bool predict_with_generate = false;  // evaluations also judge the texts that the model writes
  bool generate_ema = false;           // those of the averaged weights too
  std::vector<GroupSettings> groups;   // a tensor belongs to the first that matches it
};

// How texts are written in evaluations, with the names and defaults of Transformers' generation_config.json.
struct GenerationSettings {
  std::int64_t num_beams = 1;       // 1: greedy search
  std::int64_t max_length = 0;      // ids, the start token among them; 0: the length of targets in evaluations
  std::int64_t max_new_tokens = 0;  // behind the start token; 0: max_length counts
  std::int64_t min_length = 0;
  std::int64_t min_new_tokens = 0;  // 0: min_length counts
  double length_penalty = 1.0;
  EarlyStopping early_stopping = EarlyStopping::kNo;
  std::int64_t no_repeat_ngram_size = 0;

  // The lengths that the keys together make: ids, the start token among them.
  std::int64_t length(const DataSettings& data) const {
    if (max_new_tokens > 0) return max_new_tokens + 1;
    return max_length > 0 ? max_length : data.eval_target_length();
  }
  std::int64_t least_length() const { return min_new_tokens > 0 ? min_new_tokens + 1 : min_length; }
};

enum class ResumeDrawing { kAuto, kNever };

// A run that draws pictures and trains nothing.
struct DrawSettings {
  bool is_given = false;             // the file has [draw], and none of training or its data
  std::vector<std::string> prompts;  // exactly one of the two is there
  PathSetting prompts_file;
  std::string negative_prompt;
  std::int64_t num_images_per_prompt = 1, batch_size = 1;
  std::int64_t height = 0, width = 0;  // pixels; 0: as the model was trained
  std::int64_t num_inference_steps = 50;
  double guidance_scale = 7.5;
  std::string scheduler = "default", timestep_spacing;
  PathSetting latents_file;
  bool png_text = true;
  std::int64_t throughput_warmup_batches = 3;
  ResumeDrawing resume = ResumeDrawing::kAuto;
};

// Before the path of a socket in ServeSettings::listen.
inline constexpr char kUnixAddress[] = "unix:";

// A finished model that answers requests over HTTP.
struct ServeSettings {
  bool is_given = false;  // the file has [serve]; keys.h says whether it trains first
  std::string listen = "127.0.0.1:3000";
  std::string served_model_name;  // "": the name of the model's folder
  PathSetting api_key_file;
  bool allow_remote_without_key = false;
  std::vector<std::string> cors_allow_origin;
  std::int64_t workers = 0;                    // batches at a time; 0: by the cores
  std::int64_t max_concurrent_requests = 512;  // inputs that are queued or computed
  std::int64_t max_batch_tokens = 4096;        // rows of a batch
  std::int64_t max_batch_requests = 32;        // inputs of a batch
  std::int64_t max_client_batch_size = 32;     // inputs of a request
  bool auto_truncate = false;
  std::int64_t payload_limit = 2'000'000;  // bytes of a body
  std::int64_t max_picture_pixels = 33'554'432;
  std::int64_t max_new_tokens = 256;      // of a text that is written, at most
  std::int64_t generation_slots = 8;      // texts that are written at a time
  std::int64_t num_inference_steps = 50;  // of a picture that is drawn
  double guidance_scale = 7.5;
  std::int64_t max_connections = 1024;
  double latency_bound_ms = 0.0;  // 0: none
  double queue_timeout_seconds = 10.0;
  double request_timeout_seconds = 10.0;
  double idle_timeout_seconds = 60.0;
  double drain_timeout_seconds = 30.0;
  PathSetting access_log;            // "": none is kept
  bool access_log_requests = false;  // which needs the log
  bool ui = false;                   // a page for people
};

struct DistributedSettings {
  std::int64_t world_size = 1;
  Strategy distribution_strategy = Strategy::kFastDdp;
  WireType wire_type = WireType::kFloat32;
  std::int64_t bucket_mib = 25;
  std::int64_t sharded_stage = 1;
  std::int64_t timeout_seconds = 60;
  PathSetting hostfile;
  int machines = 1;  // not a key: how many the ranks are spread over, set when their places are known
};

struct MachineSettings {
  double memory_limit_gib = 0.0;  // 0: what the machine or its control group has
  std::int64_t threads = 0;       // 0: every core of this rank
  IsaSetting isa = IsaSetting::kAuto;
  Products products = Products::kOurs;
  Bf16Sums bf16_sums = Bf16Sums::kPairs;
  HugePages huge_pages = HugePages::kTransparent;
  bool lock_memory = false;
  double step_seconds = 0.0;  // > 0: an exact wait in place of the arithmetic
};

struct ReportSettings {
  bool tensorboard = true;
  bool html = true;
  bool profile = false;
  std::int64_t hash_steps = 0;   // tensors are hashed every so many updates; 0: never
  double status_seconds = 10.0;  // between two writes of status.json; 0: it is not written
  Tracking tracking = Tracking::kNone;
  PathSetting tracking_dir;  // empty: "mlruns" beside the output folder
  std::string mlperf_log;    // the organisation that the log names; "": there is no such log
};

// Where the settings came from, so that an error found later can still name the line.
struct SettingsOrigin {
  std::string file;                          // as it was given to read_settings
  std::map<std::string, std::string> where;  // "data.ring_slots" -> "file:line:column"; only what was written
};

struct Settings {
  ModelSettings model;
  DataSettings data;
  MediaEngineSettings media_engine;
  RunSettings run;
  TrainingSettings training;
  GenerationSettings generation;
  DrawSettings draw;
  ServeSettings serve;
  DistributedSettings distributed;
  MachineSettings machine;
  ReportSettings report;
  SettingsOrigin origin;
  ModelWords words;

  // Null: the model has no such head.
  const HeadWords* head() const;
};

// Every key's default.
Settings default_settings(const ModelWords& words);

// Reads, checks every key against its type and range, resolves paths and the keys whose default depends on others, and
// checks what must hold between keys. Throws Error{kSettings}.
Settings read_settings(const std::string& path, const FindModelWords& find);

// The same from text: `name` stands in messages for the file, relative paths are taken from `directory`.
Settings read_settings_text(std::string_view text, const std::string& name, const std::string& directory,
                            const FindModelWords& find);

// "file:line:column" of a key such as "data.ring_slots" or a table such as "data", or the file where it was not
// written.
std::string where_written(const SettingsOrigin& origin, const std::string& key);
std::string where_written(const Settings& settings, const std::string& key);

// "training.groups[0]": what messages, the digest and where_written call a group.
std::string group_name(std::size_t index);

// Throws Error{kSettings} for the first setting that is valid, but that this build cannot do.
void refuse_unsupported(const Settings& settings);

// Canonical TOML: every key, in the order of the reference, paths as written. Read back from a file in the same folder
// it gives the same settings.
std::string print_settings(const Settings& settings);

// Checks keys against each other, as when a file is read; each alone was checked then. Throws Error{kSettings} for the
// first contradiction.
void check_settings(const Settings& settings);

// XXH3 of number_keys() (resume_rules.h), 16 hexadecimal digits. On one machine `wire_type` does not count.
std::string settings_digest(const Settings& settings);

// A key as the reference describes it, in plain text.
struct KeyReference {
  std::string key;  // "data.ring_slots"; of a table that may be there many times "training.groups[].match"
  std::string meaning, allowed, default_value;
  const char* may_change;  // see resume_rules.h
};
std::vector<KeyReference> key_reference(const ModelWords& words);

// Every key with type, range, default and meaning: as Markdown, and for a terminal, whose width is the caller's matter.
std::string settings_reference(const ModelWords& words);
std::string settings_help(const ModelWords& words);

}  // namespace bascule
