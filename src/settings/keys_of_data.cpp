// SPDX-License-Identifier: Apache-2.0
// The keys of a model and its data.
#include "src/settings/key_tables.h"

namespace bascule {
namespace {

// In the order of the enumerators.
constexpr const char* kDropouts[] = {"config", "off"};
constexpr const char* kPoolings[] = {"mean", "cls", "max"};
constexpr const char* kPreprocessings[] = {"training", "processor"};
constexpr const char* kAugments[] = {"none", "crop_flip"};
constexpr const char* kInterpolations[] = {"bicubic", "bilinear"};
constexpr const char* kTextLayouts[] = {"blocks", "lines"};
constexpr const char* kMaskings[] = {"counted", "bernoulli"};
constexpr const char* kOnBadSample[] = {"stop", "skip"};

using Model = ModelSettings;
using Data = DataSettings;
using Engine = MediaEngineSettings;
using Simulation = SimulationSettings;

constexpr Key kDataKeys[] = {
    // [model]
    {"model", "model_name_or_path", path<&Model::model_name_or_path>(), kSameFiles,
     "Hugging Face folder: `config.json`, weights, tokenizer, preprocessor", "required"},
    {"model", "tokenizer_name", path<&Model::tokenizer_name>(), kSameFiles,
     "folder of the tokenizer, if it is not in the model folder"},
    {"model", "head", HeadKey{member<&Model::head>()}, kNumbers, "training task"},
    {"model", "from_scratch", boolean<&Model::from_scratch>(), kNumbers,
     "initialise the weights from `config.json` and the seed; the folder needs no weights"},
    {"model", "freeze", FreezeKey{member<&Model::freeze>()}, kNumbers, "parts of the model that are not trained"},
    {"model", "precision", choice<&Model::precision>(kNumberTypes), kNumbers,
     "number type of matrix products; what is trained, and its moments, are always float32"},
    {"model", "dropout", choice<&Model::dropout>(kDropouts), kNumbers,
     "`config`: the rates in `config.json`; `off`: no dropout"},
    {"model", "image_size", integer<&Model::image_size>(0, 65536), kNumbers,
     "side of pictures, pixels (image classification); resizes the position table when weights are loaded; 0: as in "
     "`config.json`",
     nullptr, "0"},
    {"model", "pooling", choice<&Model::pooling>(kPoolings), kNumbers,
     "how a text's rows become its vector: their mean, the first row (`cls`) or the largest numbers (`max`); for heads "
     "that embed texts",
     "the folder's, or `mean` without `modules.json`", "\"mean\""},
    {"model", "normalize", boolean<&Model::normalize>(), kNumbers,
     "whether vectors of texts get the length 1; for heads that embed texts", "true if `modules.json` has Normalize",
     "false"},
    // [data]
    {"data", "train_file", paths<&Data::train_file>(), kSameRows,
     "`.jsonl`, `.json`, `.csv`, `.tsv`, a folder with `metadata.jsonl` or `metadata.csv`, or shards "
     "`shard-{000..127}.tar`; a list or a "
     "glob such as `part-*.jsonl` names several; `.txt`: a text corpus"},
    {"data", "validation_file", paths<&Data::validation_file>(), kFromThereOn,
     "data for evaluation, in the same formats"},
    {"data", "validation_share", real_below<&Data::validation_share>(0.0, 1.0), kNumbers,
     "share of `train_file` to hold out for evaluation where no `validation_file` is named: rows of one picture stay "
     "together, and rows that are added move no others; 0: none",
     nullptr, "0.0"},
    {"data", "test_file", paths<&Data::test_file>(), kFromThereOn, "data for prediction, in the same formats"},
    {"data", "validation_corpus", paths<&Data::validation_corpus>(), kFromThereOn,
     "documents for evaluation by retrieval in place of `validation_file`, `.jsonl` with `_id`, `title` and `text`, "
     "for heads that embed texts",
     nullptr, "\"\""},
    {"data", "validation_queries", paths<&Data::validation_queries>(), kFromThereOn,
     "its queries, `.jsonl` with `_id` and `text`", nullptr, "\"\""},
    {"data", "validation_relevance", paths<&Data::validation_relevance>(), kFromThereOn,
     "its judgements, `.tsv` with query id, document id and score", nullptr, "\"\""},
    {"data", "test_corpus", paths<&Data::test_corpus>(), kFromThereOn,
     "the same for prediction, in place of `test_file`", nullptr, "\"\""},
    {"data", "test_queries", paths<&Data::test_queries>(), kFromThereOn, "its queries", nullptr, "\"\""},
    {"data", "test_relevance", paths<&Data::test_relevance>(), kFromThereOn, "its judgements", nullptr, "\"\""},
    {"data", "image_column", text<&Data::image_column>(false), kNumbers,
     "column with the path of the picture; in shards the extension of pictures (default: `jpg`, `jpeg`, `png` and "
     "`webp`)"},
    {"data", "caption_column", text<&Data::caption_column>(false), kNumbers,
     "column with the caption; in shards an extension or a key of `.json` (default: `.txt`)"},
    {"data", "text_column", text<&Data::text_column>(true), kNumbers,
     "column with the text, for models that read no pictures, or with the source; empty: `caption_column`", nullptr,
     "\"\""},
    {"data", "text_pair_column", text<&Data::text_pair_column>(true), kNumbers,
     "column with the second text of each row, for heads that read pairs of texts", nullptr, "\"\""},
    {"data", "negative_columns", WordsKey{member<&Data::negative_columns>()}, kNumbers,
     "columns with texts that do not belong to the one in `text_column`, behind `text_pair_column`, for heads that "
     "embed texts",
     nullptr, "[]"},
    {"data", "prompts", WordsKey{member<&Data::prompts>()}, kNumbers,
     "texts put before those of `text_column`, `text_pair_column` and `negative_columns`, one for each column, for "
     "heads "
     "that embed texts; empty: none",
     nullptr, "[]"},
    {"data", "summary_column", text<&Data::summary_column>(true), kNumbers,
     "column with the target of each row, for heads that write a text; the source is in `text_column`", nullptr,
     "\"\""},
    {"data", "label_column", text<&Data::label_column>(true), kNumbers,
     "column with each row's class, value, 0/1 label or list of tags; empty: folders are classes"},
    {"data", "label_all_tokens", boolean<&Data::label_all_tokens>(), kNumbers,
     "every token of a word has the word's tag, `I-X` for `B-X` behind the first token where the data has it; false: "
     "only the first token has one",
     nullptr, "false"},
    {"data", "max_seq_length", integer<&Data::max_seq_length>(2, 65536), kNumbers,
     "maximum length of a text in tokens, including the special ones; longer texts are truncated",
     "128; for heads that embed texts the folder's"},
    {"data", "source_prefix", text<&Data::source_prefix>(true), kNumbers,
     "text put before each source, such as `summarize: `", nullptr, "\"\""},
    {"data", "max_source_length", integer<&Data::max_source_length>(2, kMostTokens), kNumbers,
     "maximum length of a source in tokens, including its prefix and the special ones; longer ones are truncated",
     nullptr, "1024"},
    {"data", "max_target_length", integer<&Data::max_target_length>(2, kMostTokens), kNumbers,
     "maximum length of a target in tokens, including the special ones; longer ones are truncated", nullptr, "128"},
    {"data", "val_max_target_length", integer<&Data::val_max_target_length>(0, kMostTokens), kFromThereOn,
     "the same for validation and test; 0: `max_target_length`", nullptr, "0"},
    {"data", "ignore_pad_token_for_loss", boolean<&Data::ignore_pad_token_for_loss>(), kNumbers,
     "false: the loss also counts the padding of targets up to their maximum length; requires `pad_to_max_length = "
     "true`",
     nullptr, "true"},
    {"data", "pad_to_max_length", boolean<&Data::pad_to_max_length>(), kNumbers,
     "pad targets to their maximum length; no effect with `ignore_pad_token_for_loss = true`, as padding is then never "
     "computed",
     nullptr, "false"},
    {"data", "mlm_probability", real_above<&Data::mlm_probability>(0.0, 1.0), kNumbers,
     "fraction of tokens to predict, for masked language modelling"},
    {"data", "masking", choice<&Data::masking>(kMaskings), kNumbers,
     "`counted`: predict that fraction of each sample's tokens, rounded; `bernoulli`: draw for each token "
     "independently",
     nullptr, "\"counted\""},
    {"data", "max_predictions_per_seq", integer<&Data::max_predictions_per_seq>(1, kNoPredictionLimit), kNumbers,
     "maximum number of tokens to predict in a sample, with `masking = \"counted\"`", nullptr, "65536"},
    {"data", "text_layout", choice<&Data::text_layout>(kTextLayouts), kNumbers,
     "samples of a text corpus: `blocks` of `max_seq_length` tokens, cut from its documents laid end to end, or one of "
     "its `lines` each",
     nullptr, "\"blocks\""},
    {"data", "dupe_factor", integer<&Data::dupe_factor>(1, 1000), kNumbers,
     "passes over each document of a text corpus that make pairs of texts for training", nullptr, "10"},
    {"data", "short_seq_probability", real<&Data::short_seq_probability>(0.0, 1.0), kNumbers,
     "fraction of these passes that make pairs of a random shorter length", nullptr, "0.1"},
    {"data", "negative_fraction", real<&Data::negative_fraction>(0.0, 1.0), kNumbers,
     "fraction of samples paired with another picture's caption, for image-text matching without labels"},
    {"data", "preprocessing", choice<&Data::preprocessing>(kPreprocessings), kNumbers,
     "`training`: as in the published training script; `processor`: byte for byte as Transformers' image processor "
     "with torchvision"},
    {"data", "augment", choice<&Data::augment>(kAugments), kNumbers,
     "random changes to training pictures; `crop_flip`: a random resized crop, as torchvision's, mirrored left to "
     "right with probability 1/2",
     nullptr, "\"none\""},
    {"data", "random_resized_crop_scale", range<&Data::random_resized_crop_scale>(0.0, 1.0), kNumbers,
     "least and greatest area of a random crop, as fractions of the picture's", nullptr, "[0.08, 1.0]"},
    {"data", "random_resized_crop_ratio", range<&Data::random_resized_crop_ratio>(1e-3, 1e3), kNumbers,
     "least and greatest ratio of width to height of a random crop", nullptr, "[0.75, 1.3333333333333333]"},
    {"data", "rand_augment_num_ops", integer<&Data::rand_augment_num_ops>(0, 16), kNumbers,
     "operations of RandAugment on each training picture, drawn from torchvision's fourteen; 0: off", nullptr, "0"},
    {"data", "rand_augment_magnitude", integer<&Data::rand_augment_magnitude>(0, 1000), kNumbers,
     "strength of these operations: a bin, counted from 0", nullptr, "9"},
    {"data", "rand_augment_num_magnitude_bins", integer<&Data::rand_augment_num_magnitude_bins>(2, 1001), kNumbers,
     "bins from the weakest to the strongest form of an operation", nullptr, "31"},
    {"data", "color_jitter_brightness", real<&Data::color_jitter_brightness>(0.0, 10.0), kNumbers,
     "x: multiply the brightness of each training picture by a random factor from max(0, 1 - x) to 1 + x; 0: off",
     nullptr, "0.0"},
    {"data", "color_jitter_contrast", real<&Data::color_jitter_contrast>(0.0, 10.0), kNumbers, "the same for contrast",
     nullptr, "0.0"},
    {"data", "color_jitter_saturation", real<&Data::color_jitter_saturation>(0.0, 10.0), kNumbers,
     "the same for saturation", nullptr, "0.0"},
    {"data", "color_jitter_hue", real<&Data::color_jitter_hue>(0.0, 0.5), kNumbers,
     "x: shift the hue of each training picture by a random part of a turn from -x to x; 0: off", nullptr, "0.0"},
    {"data", "random_erasing_probability", real<&Data::random_erasing_probability>(0.0, 1.0), kNumbers,
     "probability with which a random box of a training picture becomes 0, after normalising; 0: off", nullptr, "0.0"},
    {"data", "random_erasing_scale", range<&Data::random_erasing_scale>(0.0, 1.0), kNumbers,
     "least and greatest area of that box, as fractions of the picture's", nullptr, "[0.02, 0.33]"},
    {"data", "random_erasing_ratio", range<&Data::random_erasing_ratio>(1e-3, 1e3), kNumbers,
     "least and greatest ratio of height to width of that box", nullptr, "[0.3, 3.3]"},
    {"data", "interpolation", choice<&Data::interpolation>(kInterpolations), kNumbers,
     "filter that resizes pictures, antialiased, with `preprocessing = \"training\"`", nullptr, "\"bicubic\""},
    {"data", "eval_crop_ratio", real<&Data::eval_crop_ratio>(0.1, 1.0), kNumbers,
     "side of the centre crop as a fraction of the shorter side after resizing, in evaluation and where `augment` is "
     "\"none\"; with 0.875 a picture for 224 pixels is first resized to 256",
     nullptr, "1.0"},
    {"data", "mixup_alpha", real<&Data::mixup_alpha>(0.0, 4.0), kNumbers,
     "mix the pictures and labels of training samples in pairs, with a share from Beta(alpha, alpha); from 0.1 on; 0: "
     "off",
     nullptr, "0.0"},
    {"data", "cutmix_alpha", real<&Data::cutmix_alpha>(0.0, 4.0), kNumbers,
     "exchange boxes between pairs of pictures, sized by Beta(alpha, alpha); 0: off", nullptr, "0.0"},
    {"data", "dataloader_num_workers", integer<&Data::dataloader_num_workers>(0, 1024), kFree,
     "loader threads; 0: the training thread loads the data"},
    {"data", "dataloader_drop_last", boolean<&Data::dataloader_drop_last>(), kNumbers,
     "drop the last, incomplete batch of an epoch"},
    {"data", "ring_slots", integer<&Data::ring_slots>(2, 1024), kFree,
     "batches in memory at once; one is filled while another is used"},
    {"data", "on_bad_sample", choice<&Data::on_bad_sample>(kOnBadSample), kFromThereOn,
     "where a picture is damaged, or its file is missing, or a source or target is empty: `stop`: report the row and "
     "stop; `skip`: list and count it; training uses the next good row in its place, evaluation omits it"},
    {"data", "max_eval_samples", integer<&Data::max_eval_samples>(0, kMany), kFromThereOn,
     "evaluate only the first N samples of `validation_file`; 0: all", nullptr, "0"},
    {"data", "max_predict_samples", integer<&Data::max_predict_samples>(0, kMany), kFromThereOn,
     "predict only the first N samples of `test_file`; 0: all", nullptr, "0"},
    // [media_engine]
    {"media_engine", "queue_depth", integer<&Engine::queue_depth>(1, 4096), kFree,
     "maximum number of pictures in flight"},
    {"media_engine", "memory_mib", integer<&Engine::memory_mib>(1, 1 << 20), kWhileTraining,
     "memory reserved for the engine when it opens, MiB"},
    {"media_engine", "max_megapixels", integer<&Engine::max_megapixels>(1, 178), kNumbers,
     "maximum picture size, megapixels; larger pictures count as bad samples"},
    {"media_engine", "scale_in_decoder", boolean<&Engine::scale_in_decoder>(), kNumbers,
     "let the JPEG decoder downscale pictures that are more than twice too large; faster, but changes pixels"},
    {"media_engine", "fallback", boolean<&Engine::fallback>(), kFree,
     "continue with the host engine if the device fails permanently"},
    {kSimulationTable, "units", integer<&Simulation::units>(1, 64), kFree, "decode units of the device"},
    {kSimulationTable, "pictures_per_second", real<&Simulation::pictures_per_second>(0.0, 1e9), kFree,
     "decoding rate of one unit; 0: as fast as the host computes"},
    {kSimulationTable, "latency_ms", real<&Simulation::latency_ms>(0.0, 1e6), kFree,
     "delay from doorbell to start of decoding, milliseconds"},
    {kSimulationTable, "polling", boolean<&Simulation::polling>(), kFree,
     "the driver polls instead of using interrupts"},
    {kSimulationTable, "timeout_ms", integer<&Simulation::timeout_ms>(1, 1000000), kFree,
     "how long past the device's own estimate a picture may take before the driver treats it as lost, milliseconds"},
    {kSimulationTable, "faults", WordsKey{member<&Simulation::faults>()}, kFree,
     "faults to inject: `name:probability` (per picture) or `name@n` (at the n-th picture); see "
     "`firmware_shims/README.md`"},
    {kSimulationTable, "fault_seed", integer<&Simulation::fault_seed>(0, kMaxSeed), kFree,
     "seed of the injected faults"},
};

}  // namespace

Span<const Key> keys_of_data() { return {kDataKeys, std::size(kDataKeys)}; }

}  // namespace bascule
