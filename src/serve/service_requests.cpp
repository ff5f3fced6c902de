// SPDX-License-Identifier: Apache-2.0
// From a request to inputs in the queue, or to the reason why it is refused.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "src/base/clock.h"
#include "src/runtime/guard.h"
#include "src/serve/service.h"

namespace bascule {
namespace {

constexpr char kHealthy[] = "{\"status\": \"ok\"}", kReady[] = "{\"status\": \"ready\"}";
constexpr std::int64_t kUsualSeed = 42, kUsualGuesses = 5;  // as `bascule draw` and `bascule fill` have them

bool is_json_type(std::string_view type) noexcept {
  const std::string_view name = type.substr(0, std::min(type.find(';'), type.size()));
  return type.empty() || equals_ignoring_case(name.substr(0, name.find_last_not_of(' ') + 1), "application/json");
}

// Whether it is the bytes of a picture: some clients send them without a type.
bool is_picture_body(const HttpRequest& request) noexcept {
  const std::string_view body = request.body;
  return request.content_type.substr(0, 6) == "image/" ||
         (request.content_type.empty() && !body.empty() && body[0] != '{');
}

}  // namespace

void Service::request(const HttpRequest& request) noexcept {
  switch (service_.endpoint(request.endpoint)) {
    case ServedEndpoint::kHealth: return answer(request, 200, kHealthy, {}, nullptr);
    case ServedEndpoint::kReady:
      if (server_->is_draining()) return refuse(request, refusal(503, kUnhealthy, "the server is being stopped"));
      return answer(request, 200, kReady, {}, nullptr);
    case ServedEndpoint::kInfo: return answer(request, 200, info_, {}, nullptr);
    case ServedEndpoint::kModels: return answer(request, 200, models_, {}, nullptr);
    case ServedEndpoint::kUi: return answer(request, 200, page_.html, page_.headers, nullptr);
    case ServedEndpoint::kMetrics: return answer_metrics(request);
    default: break;
  }
  Job& job = jobs_[request.ticket.slot];
  job = Job();
  job.request = request;
  job.endpoint = service_.endpoint(request.endpoint);
  const Refusal refused = admit(request, &job);
  if (!refused.is_given()) return;
  free_inputs(job.first);
  refuse(request, refused);
}

void Service::answer_metrics(const HttpRequest& request) noexcept {
  char* const room = server_->reserve(request.ticket, ServiceMetrics::kMostTextBytes);
  if (room == nullptr) return refuse(request, refusal(429, kOverloaded, "no memory is free for the answer"));
  ServiceFigures figures;
  figures.waiting_inputs = workers_->waiting();
  figures.connections = server_->connections();
  figures.planned_bytes = service_.plan.peak_bytes();
  ForeignAllocations foreign[64];
  const std::size_t count = foreign_allocations(foreign, std::size(foreign));
  for (std::size_t i = 0; i < count; ++i) figures.foreign_allocations += foreign[i].calls;
  const std::size_t bytes = metrics_.write(figures, service_.http.endpoints, {room, ServiceMetrics::kMostTextBytes});
  answer(request, 200, {room, bytes}, {}, nullptr);
}

Refusal Service::admit(const HttpRequest& request, Job* job) noexcept {
  const bool reads_pictures = service_.model->reads_pictures();
  const bool is_json = is_json_type(request.content_type) && !(reads_pictures && is_picture_body(request));
  if (!is_json && !reads_pictures) return refusal(415, kValidationError, "the body must be application/json");
  const bool is_tokenize = job->endpoint == ServedEndpoint::kTokenize;
  // Before any work is done for it.
  if (!is_tokenize) {
    if (const Refusal refused = check_wait(job); refused.is_given()) return refused;
  }
  RequestOptions options;
  options.is_one = true;  // bytes of a picture
  Refusal refused;
  if (is_json) {
    const RequestForm form = job->endpoint != ServedEndpoint::kOpenAi        ? RequestForm::kNative
                             : service_.model->task() == ServedTask::kWrites ? RequestForm::kCompletion
                             : service_.model->task() == ServedTask::kDraws  ? RequestForm::kDrawing
                                                                             : RequestForm::kOpenAi;
    refused = read_request(request.body, form, &options);
  }
  if (!refused.is_given()) refused = check_options(options, job);
  if (!refused.is_given()) refused = encode_inputs(options, job);
  // A picture takes longer than most clients would wait for anything: only those before it count.
  if (!refused.is_given() && !is_tokenize && service_.model->drawer() == nullptr) refused = check_wait(job);
  if (!refused.is_given()) refused = reserve(job);
  if (refused.is_given()) return refused;
  if (is_tokenize) {
    answer(request, 200, {job->room, writer_.write(job->options, job->first, {job->room, job->room_bytes})}, {}, job);
    free_inputs(job->first);
    return {};
  }
  job->is_open = true;
  const std::int64_t now = monotonic_ns();
  for (ServedInput* input = job->first; input != nullptr; input = input->next) input->queued_ns = now;
  workers_->admit(job->first);
  return {};
}

Refusal Service::check_wait(Job* job) noexcept {
  if (workers_->predicted_wait_ns(job->first) <= longest_wait_ns_) return {};
  metrics_.refused(RefusedFor::kWait);
  return refusal(429, kOverloaded, "the request would wait for too long");
}

Refusal Service::reserve(Job* job) noexcept {
  job->room_bytes = writer_.most_bytes(job->options, job->first);
  // Pictures that are written in the document stand behind the answer: the log reads the document again.
  std::size_t picture_bytes = 0;
  for (const ServedInput* input = job->first; input != nullptr; input = input->next)
    picture_bytes += input->is_base64 ? input->picture.size() : 0;
  const ServedDrawer* const drawer = service_.model->drawer();
  if (drawer != nullptr) picture_bytes = drawer->most_file_bytes();
  job->room = server_->reserve(job->request.ticket, job->room_bytes + picture_bytes);
  if (job->room == nullptr) {
    metrics_.refused(RefusedFor::kMemory);
    return refusal(429, kOverloaded, "no memory is free for the answer");
  }
  char* picture = job->room + job->room_bytes;
  if (drawer != nullptr) job->first->file = picture;
  for (ServedInput* input = job->first; input != nullptr; input = input->next) {
    if (!input->is_base64) continue;
    const std::optional<std::size_t> bytes = read_base64(input->picture, picture);
    if (!bytes) return invalid("a picture must be base64, without line breaks");
    input->picture = {picture, *bytes};
    picture += *bytes;
  }
  return {};
}

Refusal Service::check_options(const RequestOptions& options, Job* job) noexcept {
  const ServedModel& model = *service_.model;
  const ServedTask task = model.task();
  const bool makes_vectors = task == ServedTask::kVectors;
  const bool is_written = task == ServedTask::kWrites && job->endpoint != ServedEndpoint::kTokenize;
  const bool details = options.details.value_or(false);
  const std::int64_t most = model.written();
  job->options.form = job->endpoint == ServedEndpoint::kTokenize
                          ? AnswerForm::kTokens
                          : form_of(task, job->endpoint == ServedEndpoint::kOpenAi);
  if (model.drawer() != nullptr) return check_drawing_options(options);
  if (options.height || options.width || options.steps || options.guidance || options.negative.is_there())
    return invalid("the model draws no pictures");
  if (!is_written && (options.new_tokens || details))
    return invalid("`max_new_tokens` and `details` have no meaning here");
  if (is_written && options.new_tokens.value_or(1) > most)
    return invalid("at most %jd tokens are written (max_new_tokens)", most);
  if (is_written && options.top.value_or(1) != 1) return invalid("`top_k` is not supported: texts are not sampled");
  if (options.top && (makes_vectors || task == ServedTask::kValues || task == ServedTask::kTags))
    return invalid("`top_k` has no meaning with this model");
  if (task == ServedTask::kPictureClasses && !options.is_one) return invalid("a request has one picture");
  if (!makes_vectors && (options.normalize || options.prompt_name.is_there()))
    return invalid("`normalize` and `prompt_name` have no meaning with this model");
  if (options.normalize && !*options.normalize && model.sentence().normalize)
    return invalid("`normalize` cannot be false: the model's vectors have the length 1");
  if (options.dimensions && *options.dimensions != model.numbers())
    return invalid("`dimensions` must be %jd", model.numbers());
  AnswerOptions& form = job->options;
  form.base64 = options.base64;
  form.is_one = options.is_one;
  form.normalizes = options.normalize.value_or(false) && !model.sentence().normalize;
  form.is_nested = job->endpoint != ServedEndpoint::kPredict && task != ServedTask::kPictureClasses &&
                   (task != ServedTask::kClasses || !model.reads_pictures());
  form.details = details;
  if (form.form == AnswerForm::kOpenAiTexts)
    std::snprintf(form.id, sizeof form.id, "cmpl-%.24s", Sha256Text(job->request.body).text().data() + sizeof "sha256");
  return {};
}

Refusal Service::check_drawing_options(const RequestOptions& options) noexcept {
  const ServedDrawer& drawer = *service_.model->drawer();
  const DrawingOptions& drawn = drawer.options();
  const double guidance = static_cast<double>(drawn.guidance);
  if (!options.is_one) return invalid("a request has one picture");
  if (options.height.value_or(drawn.height) != drawn.height || options.width.value_or(drawn.width) != drawn.width)
    return invalid("pictures have %jd x %jd pixels", drawn.width, drawn.height);
  if (options.steps.value_or(drawer.steps()) != drawer.steps())
    return invalid("pictures have %jd steps (num_inference_steps)", drawer.steps());
  if (static_cast<float>(options.guidance.value_or(guidance)) != drawn.guidance)
    return invalid("pictures have a guidance_scale of %g", guidance);
  if (options.negative.is_there() && !drawn.is_guided())
    return invalid("`negative_prompt` has no effect: guidance_scale is 1 or less");
  if (options.top || options.normalize || options.prompt_name.is_there() || options.new_tokens ||
      options.details.value_or(false))
    return invalid("the request has a member that has no meaning with this model");
  return {};
}

Refusal Service::encode_inputs(const RequestOptions& options, Job* job) noexcept {
  const std::size_t count = options.is_one ? 1 : options.inputs.count();
  const std::size_t most = static_cast<std::size_t>(serve_.max_client_batch_size);
  if (count > most) return invalid("the request has %zu inputs; max_client_batch_size is %zu", count, most);
  if (count > free_.size()) {
    metrics_.refused(RefusedFor::kQueue);
    return refusal(429, kOverloaded, "too many inputs are waiting");
  }
  const ServedTask task = service_.model->task();
  const bool has_few = task == ServedTask::kWords || task == ServedTask::kPictureClasses;
  ServedInput** end = &job->first;
  for (JsonView item = options.is_one ? options.inputs : options.inputs.first(); job->inputs < count;
       item = options.is_one ? item : item.next()) {
    ServedInput& input = memory_.input[free_.back()];
    free_.pop_back();
    input.next = nullptr;
    input.request = job->request.ticket.slot;
    input.is_dropped = input.is_late = input.is_first_of_batch = false;
    input.refused = MEDIA_ENGINE_OK;
    input.is_base64 = input.has_picture = false;
    input.tokens = input.selected = 0;
    *end = &input;
    end = &input.next;
    ++job->inputs;
    input.top = options.top.value_or(has_few ? kUsualGuesses : kMostGuesses);
    if (const ServedWriter* const writer = service_.model->writer()) {
      input.most_written = options.new_tokens.value_or(writer->usual_tokens());
      input.wants_logs = job->options.details && writer->options().num_beams == 1;
    }
    if (const Refusal refused = encode_input(item, options, &input); refused.is_given()) return refused;
    if (job->options.form == AnswerForm::kTokens && !options.special_tokens.value_or(true)) {
      const Tokenizer& tokenizer = service_.model->tokenizer();
      const std::int64_t before = static_cast<std::int64_t>(tokenizer.before().size());
      input.tokens -= before + static_cast<std::int64_t>(tokenizer.after().size());
      std::copy_n(input.ids + before, input.tokens, input.ids);
    }
  }
  job->remaining = job->inputs;
  return {};
}

Refusal Service::encode_input(const JsonView& item, const RequestOptions& options, ServedInput* input) noexcept {
  const ServedModel& model = *service_.model;
  RequestInput asked;
  if (!model.reads_texts()) return take_picture(item, input);
  if (item.is_there()) {
    if (const Refusal refused = read_input(item, options, &asked); refused.is_given()) return refused;
  }
  const bool has_text = asked.first.is_there() || asked.ids.is_there();
  const bool has_picture = asked.picture.is_there() || !item.is_there();
  const bool is_tokenize = jobs_[input->request].options.form == AnswerForm::kTokens;
  if (is_tokenize ? has_picture : !model.answers(has_text, has_picture))
    return invalid("the model cannot be asked about %s", !has_picture ? "a text without a picture"
                                                         : has_text   ? "a picture with a text"
                                                                      : "a picture alone");
  if (has_picture) {
    if (const Refusal refused = take_picture(asked.picture, input); refused.is_given() || !has_text) return refused;
  }
  return asked.ids.is_there() ? encode_ids(asked.ids, options, input) : encode_text(asked, options, input);
}

// The body as a whole, or base64 in JSON, which reserve() decodes.
Refusal Service::take_picture(const JsonView& item, ServedInput* input) noexcept {
  const HttpRequest& request = jobs_[input->request].request;
  input->has_picture = true;
  input->picture = request.body;
  if (!item.is_there()) return {};
  input->is_base64 = true;
  return read_picture(item, &input->picture);
}

Refusal Service::encode_text(const RequestInput& asked, const RequestOptions& options, ServedInput* input) noexcept {
  const ServedModel& model = *service_.model;
  if (asked.second.is_there() && !model.reads_pairs()) return invalid("the model does not read pairs of texts");
  for (const JsonView& text : {asked.first, asked.second}) {
    if (text.raw_string().size() > service_.text_bytes)
      return refusal(413, kValidationError, "a text has more than %zu bytes", service_.text_bytes);
  }
  input->text = asked.first;
  if (model.drawer() != nullptr) return encode_drawing(asked, options, input);
  std::string_view prompt;
  if (const Refusal refused = find_prompt(options, &prompt); refused.is_given()) return refused;
  char* const room = memory_.texts[0];
  Texts texts{asked.first.string({room + prompt.size(), service_.text_bytes})};
  if (!prompt.empty()) {
    std::memmove(room + prompt.size(), texts.first.data(), texts.first.size());
    std::memcpy(room, prompt.data(), prompt.size());
    texts.first = {room, prompt.size() + texts.first.size()};
  }
  if (model.writer() != nullptr && texts.first.size() == prompt.size())
    return refusal(400, kEmptyInput, "an input is empty");
  if (asked.second.is_there()) texts.second = asked.second.string({memory_.texts[1], service_.text_bytes});
  const Refusal refused = model.encode(texts, cuts(options), {memory_.scratch, memory_.scratch_bytes}, input);
  const bool needs_mask = model.task() == ServedTask::kWords && input->selected == 0 &&
                          jobs_[input->request].endpoint != ServedEndpoint::kTokenize;
  return !refused.is_given() && needs_mask ? invalid("an input has no mask token") : refused;
}

Refusal Service::encode_drawing(const RequestInput& asked, const RequestOptions& options, ServedInput* input) noexcept {
  const PromptTokenizer& tokenizer = service_.model->drawer()->tokenizer();
  if (options.negative.raw_string().size() > service_.text_bytes)
    return refusal(413, kValidationError, "a text has more than %zu bytes", service_.text_bytes);
  const std::string_view prompt = asked.first.string({memory_.texts[0], service_.text_bytes});
  std::string_view negative;
  if (options.negative.is_there()) negative = options.negative.string({memory_.texts[1], service_.text_bytes});
  if (prompt.empty()) return refusal(400, kEmptyInput, "the prompt is empty");
  const std::int64_t tokens = service_.model->longest();
  std::int32_t* ids = input->ids;
  for (const std::string_view text : {prompt, negative}) {
    if (!tokenizer.encode_into(text, cuts(options), ids, {memory_.scratch, memory_.scratch_bytes}))
      return refusal(422, kTokenizerError, "a prompt has more than %jd tokens", tokens);
    ids += tokens;
  }
  input->tokens = tokens;
  input->seed = static_cast<std::uint64_t>(options.seed.value_or(kUsualSeed));
  input->file_bytes = 0;
  return {};
}

// Of the folder's prompts the one that is named, else the default one.
Refusal Service::find_prompt(const RequestOptions& options, std::string_view* prompt) noexcept {
  if (!options.prompt_name.is_there()) {
    *prompt = default_prompt_;
    return {};
  }
  const SentenceFolder& sentence = service_.model->sentence();
  for (const auto& [name, text] : sentence.prompts) {
    if (!options.prompt_name.equals(name)) continue;
    if (!sentence.include_prompt && !text.empty())
      return invalid("the model leaves prompts out of its vectors, which is not supported");
    *prompt = text;
    return {};
  }
  if (options.prompt_name.equals("query") || options.prompt_name.equals("document")) return {};
  return invalid("the model has no prompt of that name");
}

Refusal Service::encode_ids(const JsonView& ids, const RequestOptions& options, ServedInput* input) noexcept {
  const ServedModel& model = *service_.model;
  if (model.task() != ServedTask::kVectors) return invalid("token ids are taken for vectors only: write texts");
  input->tokens = 0;
  for (JsonView id = ids.first(); id.is_there(); id = id.next()) {
    const std::int64_t number = *id.integer();
    if (number < 0 || number >= model.model().inputs().texts[0].vocabulary_size)
      return invalid("a token id is outside the vocabulary");
    if (input->tokens == model.longest()) {
      if (cuts(options)) break;
      return model.too_long();
    }
    input->ids[input->tokens++] = static_cast<std::int32_t>(number);
  }
  input->second_begin = input->tokens;
  input->selected = 0;
  return {};
}

}  // namespace bascule
