// SPDX-License-Identifier: Apache-2.0
#include "src/serve/request_text.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace bascule {
namespace {

Refusal read(const std::string& body, RequestForm form, RequestOptions* options) {
  return read_request(body, form, options);
}

TEST(RequestText, TakesWhatClientsSend) {
  RequestOptions options;
  std::string body = R"({"inputs": "hello", "normalize": true, "prompt_name": "query", "truncate": true})";
  ASSERT_FALSE(read(body, RequestForm::kNative, &options).is_given());
  EXPECT_TRUE(options.is_one);
  EXPECT_EQ(options.normalize, true);
  EXPECT_EQ(options.truncate, true);
  EXPECT_TRUE(options.prompt_name.equals("query"));
  options = {};
  body = R"({"inputs": "a [MASK]", "parameters": {"top_k": 3}})";
  ASSERT_FALSE(read(body, RequestForm::kNative, &options).is_given());
  EXPECT_EQ(options.top, 3);
  options = {};
  body = R"({"input": ["a", "b"], "model": "m", "encoding_format": "base64", "user": "x"})";
  ASSERT_FALSE(read(body, RequestForm::kOpenAi, &options).is_given());
  EXPECT_TRUE(options.base64);
  EXPECT_FALSE(options.is_one);
  EXPECT_EQ(options.inputs.count(), 2u);
  options = {};
  body = R"({"input": [1, 2, 3]})";
  ASSERT_FALSE(read(body, RequestForm::kOpenAi, &options).is_given());
  EXPECT_TRUE(options.is_one);
}

TEST(RequestText, EachHostileBodyHasOneReason) {
  const struct {
    RequestForm form;
    std::string body;
    int status;
    const char* said;
  } cases[] = {
      {RequestForm::kNative, "", 400, "the body is not JSON: byte 0: the document ends early"},
      {RequestForm::kNative, R"({"inputs": "a", "inputs": "b"})", 400,
       "the body is not JSON: byte 24: an object has a member twice"},
      {RequestForm::kNative, std::string(100000, '['), 400, nullptr},
      {RequestForm::kNative, "[1]", 422, "the body must be a JSON object"},
      {RequestForm::kNative, "{}", 422, "`inputs` is missing"},
      {RequestForm::kNative, R"({"inputs": 7})", 422, "`inputs` must be a string or an array"},
      {RequestForm::kNative, R"({"inputs": []})", 400, "`inputs` is empty"},
      {RequestForm::kNative, R"({"inputs": "a", "truncate": "yes"})", 422, "`truncate` must be true or false"},
      {RequestForm::kNative, R"({"inputs": "a", "parameters": []})", 422, "`parameters` must be an object"},
      {RequestForm::kNative, R"({"inputs": "a", "parameters": {"top_k": 0}})", 422,
       "`top_k` must be an integer from 1 to 100"},
      {RequestForm::kNative, R"({"inputs": "a", "parameters": {"top_k": 1e400}})", 422,
       "`top_k` must be an integer from 1 to 100"},
      {RequestForm::kNative, R"({"inputs": "a", "parameters": {"targets": ["b"]}})", 422,
       "the request has a member that is not known here"},
      {RequestForm::kNative, R"({"inputs": "a", "x": 1})", 422, "the request has a member that is not known here"},
      {RequestForm::kOpenAi, R"({"inputs": "a"})", 422, "`input` is missing"},
      {RequestForm::kOpenAi, R"({"input": "a", "encoding_format": "hex"})", 422,
       "`encoding_format` must be `float` or `base64`"},
      {RequestForm::kOpenAi, R"({"input": "a", "modality": "audio"})", 422, "`modality` must be `text` or `image`"},
      {RequestForm::kOpenAi, R"({"input": "a", "model": 3})", 422, "`model` must be a string"},
  };
  for (const auto& one : cases) {
    RequestOptions options;
    const Refusal refused = read(one.body, one.form, &options);
    EXPECT_EQ(refused.status, one.status) << one.body.substr(0, 60);
    if (one.said != nullptr) {
      EXPECT_STREQ(refused.message, one.said) << one.body.substr(0, 60);
    }
  }
}

TEST(RequestText, Base64IsRead) {
  for (const auto& [text, bytes] : {std::pair<std::string, const char*>{"Zg==", "f"},
                                    {"Zm8=", "fo"},
                                    {"Zm9v", "foo"},
                                    {"Zm9vYg", "foob"},
                                    {"//79", "\xff\xfe\xfd"}}) {
    std::string room = text;
    const std::optional<std::size_t> count = read_base64(text, room.data());
    ASSERT_TRUE(count) << text;
    EXPECT_EQ(room.substr(0, *count), bytes);
  }
  for (const char* wrong : {"", "=", "A", "Zm9v Zg==", "Zm9\n", "Z===", "Zm_v", "Zm9vA", "Zm9\\", "Zm9\\v"}) {
    std::string room = wrong;
    EXPECT_FALSE(read_base64(wrong, room.data())) << wrong;
  }
}

TEST(RequestText, ASlashOfBase64MayBeEscaped) {
  const std::string text = R"(\/\/79)";
  std::string room = text;
  const std::optional<std::size_t> count = read_base64(text, room.data());
  ASSERT_TRUE(count);
  EXPECT_EQ(room.substr(0, *count), "\xff\xfe\xfd");
}

TEST(RequestText, APictureIsBase64OrADataUri) {
  for (const auto& [text, wanted] : {std::pair<std::string, const char*>{R"("Zm9v")", "Zm9v"},
                                     {R"("data:image/png;base64,Zm9v")", "Zm9v"},
                                     {R"("data:image\/png;base64,Zm9v")", "Zm9v"},
                                     {R"("data:Zm9v")", ""},
                                     {R"("data:")", ""},
                                     {"7", ""}}) {
    std::string_view base64;
    ASSERT_FALSE(read_picture(JsonView(text), &base64).is_given()) << text;
    EXPECT_EQ(base64, wanted) << text;
  }
  for (const char* text : {R"("http://a/1.png")", R"("https://a/1.png")"}) {
    std::string_view base64;
    EXPECT_EQ(read_picture(JsonView(text), &base64).status, 422) << text;
  }
}

TEST(RequestText, ARequestHasInputsOrMessages) {
  const std::string messages = R"("messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}])";
  RequestOptions options;
  std::string body = "{" + messages + "}";
  EXPECT_FALSE(read(body, RequestForm::kOpenAi, &options).is_given());
  EXPECT_TRUE(options.is_content);
  options = {};
  body = R"({"input": "a", )" + messages + "}";
  EXPECT_STREQ(read(body, RequestForm::kOpenAi, &options).message, "a request has `input` or `messages`, not both");
  options = {};
  body = R"({"input": "a", "messages": null})";
  EXPECT_FALSE(read(body, RequestForm::kOpenAi, &options).is_given());
  EXPECT_FALSE(options.is_content);
}

TEST(RequestText, AnInputIsATextAPairOrTokenIds) {
  RequestInput input;
  std::string text = R"({"text": "a", "text_pair": "b"})";
  ASSERT_FALSE(read_input(JsonView(text), {}, &input).is_given());
  EXPECT_TRUE(input.first.equals("a") && input.second.equals("b"));
  text = "[1, 2]";
  ASSERT_FALSE(read_input(JsonView(text), {}, &input).is_given());
  EXPECT_EQ(input.ids.count(), 2u);
  EXPECT_FALSE(input.first.is_there());
  for (const char* wrong : {"7", "[\"a\"]", "[1.5]", "[]", "{\"text_pair\": \"b\"}", "{\"text\": \"a\", \"x\": 1}"})
    EXPECT_TRUE(read_input(JsonView(wrong), {}, &input).is_given()) << wrong;
}

}  // namespace
}  // namespace bascule
