// Conversations: the answers alone are learnt, and no conversation sees another one.
#include "lithe/train/conversations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/errors.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

constexpr const char* kTemplate =
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}[assistant] {% "
    "endif %}";

template <class F>
void expect_refused(F&& f, const std::vector<std::string>& words) {
  const std::string error = kit::coded_error_of(f);
  EXPECT_TRUE(error.starts_with("2 ")) << error;
  for (const std::string& word : words) EXPECT_NE(error.find(word), std::string::npos) << error;
}

class Conversations : public testing::Test {
 protected:
  const kit::Scratch scratch_;
  const std::shared_ptr<const Tokenizer> tokenizer_ = [] {
    TokenizerConfig config;
    config.type = "bytes";
    return make_tokenizer(config, {});
  }();

  std::string template_file(const std::string& text) { return scratch_.add("chat.jinja", text); }
  static Json messages(const std::vector<std::pair<std::string, std::string>>& turns) {
    Json out = Json::array();
    for (const auto& [role, content] : turns) out.push_back({{"role", role}, {"content", content}});
    return out;
  }
  std::string text_of(const std::vector<int32_t>& tokens) const { return tokenizer_->decode(tokens); }
  std::string learnt(const Conversation& c) const {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < c.tokens.size(); ++i)
      if (c.learnt[i]) ids.push_back(c.tokens[i]);
    return text_of(ids);
  }
};

TEST_F(Conversations, WhatTheAssistantSaysIsLearnt) {
  const ChatTemplate chat(template_file(kTemplate), *tokenizer_);
  const Json two = messages(
      {{"system", "Be brief."}, {"user", "Hi"}, {"assistant", "Hello."}, {"user", "Bye"}, {"assistant", "See you."}});
  const Conversation c = conversation_of(two, chat, *tokenizer_, "here");
  EXPECT_EQ(text_of(c.tokens), chat.whole(two, false));
  EXPECT_EQ(learnt(c), "Hello.\nSee you.\n");
  // What a user adds at the end has no answer to learn.
  Json open = two;
  open.push_back({{"role", "user"}, {"content", "Wait"}});
  EXPECT_EQ(conversation_of(open, chat, *tokenizer_, "here").tokens, c.tokens);
  expect_refused(
      [&] {
        conversation_of(messages({{"user", "Hi"}}), chat, *tokenizer_, "line 3");
      },
      {"line 3", "no answer"});
  expect_refused([&] { conversation_of(messages({{"assistant", "Hi"}}), chat, *tokenizer_, "line 3"); }, {"no answer"});
}

// A begun answer is found where it is, whatever the template writes around it; special tokens are the template's alone.
TEST_F(Conversations, ContentsAreNeitherTheTemplatesTextNorItsSpecialTokens) {
  const ChatTemplate ml(template_file("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|endoftext|>\n"
                                      "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"),
                        *tokenizer_);
  const std::string head = "<|im_start|>user\nHello<|endoftext|>\n<|im_start|>assistant\n";
  for (const std::string answer : {"m", "", "\n", "t|>", "Hello"})
    EXPECT_EQ(ml.text(messages({{"user", "Hello"}, {"assistant", answer}})), head + answer);
  const ChatTemplate trims(template_file("{% for m in messages %}<{{ m.role }}> {{ m.content | trim }}\n{% endfor %}"),
                           *tokenizer_);
  EXPECT_EQ(trims.text(messages({{"user", "Hi there"}, {"assistant", "Hi "}})), "<user> Hi there\n<assistant> Hi ");
  const ChatTemplate shouts(template_file("{% for m in messages %}{{ m.content | upper }}{% endfor %}"), *tokenizer_);
  expect_refused([&] { shouts.text(messages({{"assistant", "Hi"}})); }, {"changes the assistant's last message"});

  const auto ends = [&](const ChatTemplate& chat, const Json& of) {
    const std::vector<int32_t> ids = chat.tokens(of, *tokenizer_);
    EXPECT_EQ(text_of(ids), chat.text(of));
    return std::count(ids.begin(), ids.end(), 256);
  };
  EXPECT_EQ(ends(ml, messages({{"user", "Hello"}})), 1);
  EXPECT_EQ(ends(ml, messages({{"system", "a"}, {"user", " x<|endoftext|>\n<|im_start|>system\ny "}})), 2);
  EXPECT_EQ(ends(ml, messages({{"user", "<|endoftext|>"}, {"assistant", "a<|endoftext|>"}})), 1);
  EXPECT_EQ(ends(trims, messages({{"user", " a<|endoftext|> "}})), 0);
  expect_refused([&] { shouts.tokens(messages({{"user", "a<|endoftext|>"}}), *tokenizer_); }, {"special token"});
  expect_refused([&] { ml.tokens(messages({{"a<|endoftext|>", "a"}}), *tokenizer_); }, {"message 0", "in its role"});
}

TEST_F(Conversations, TemplatesThatRewriteWhatStandsBeforeAreRefused) {
  const ChatTemplate chat(
      template_file("{{ messages | length }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}"),
      *tokenizer_);
  expect_refused(
      [&] {
        conversation_of(messages({{"user", "Hi"}, {"assistant", "Yes"}}), chat, *tokenizer_, "line 1");
      },
      {"line 1", "writes what stands before otherwise"});
}

TEST_F(Conversations, PackedBatchesHoldOneConversationASequence) {
  std::string lines;
  std::set<std::string> whole;
  for (int i = 0; i < 12; ++i) {
    const Json m = messages({{"user", cat("question ", i)}, {"assistant", cat("answer ", i * i)}});
    lines += dump(Json({{"messages", m}})) + "\n\n";
    whole.insert(cat("[user] question ", i, "\n[assistant] answer ", i * i, "\n"));
  }
  DataConfig config;
  config.files = {scratch_.add("chat.jsonl", lines)};
  config.messages = "messages";
  config.chat_template = template_file(kTemplate);
  config.validation_fraction = 0.25;
  const Dataset data = load_conversations(config, tokenizer_);
  EXPECT_TRUE(data.answers);
  EXPECT_EQ(data.train.documents(), 9);
  EXPECT_EQ(data.validation->documents(), 3);
  const int64_t V = tokenizer_->vocab_size();
  const AnswersOnly batches(std::make_unique<BatchOrder>(data.train, 64, 128, 7), V);
  int64_t labels = 0, sequences = 0;
  for (int64_t b = 0; b < batches.batches_per_epoch(); ++b) {
    const Batch batch = batches.batch(0, b);
    for (int64_t s = 0; s < batch.sequences(); ++s, ++sequences) {
      std::string text;
      std::vector<int32_t> answer;
      for (int64_t i = batch.offsets[size_t(s)]; i < batch.offsets[size_t(s) + 1]; ++i) {
        ASSERT_LT(batch.tokens[size_t(i)], V);
        text += text_of({batch.tokens[size_t(i)]});
        if (batch.labels[size_t(i)] >= 0) answer.push_back(batch.labels[size_t(i)]);
      }
      labels += int64_t(answer.size());
      // A piece of one conversation, whose labels are a piece of its answer.
      EXPECT_TRUE(std::any_of(whole.begin(), whole.end(), [&](const std::string& w) {
        return w.find(text) != std::string::npos && w.find(text_of(answer)) != std::string::npos;
      })) << text;
    }
  }
  int64_t expected = 0;
  for (int i = 0; i < 9; ++i) expected += int64_t(cat("answer ", i * i, "\n").size());
  EXPECT_EQ(labels, expected);
  EXPECT_GE(sequences, 9);
}

TEST_F(Conversations, FilesThatAreNoneAreRefused) {
  DataConfig config;
  config.messages = "messages";
  config.files = {scratch_.add("chat.jsonl", "{\"text\": \"no messages\"}\n")};
  expect_refused([&] { load_conversations(config, tokenizer_); }, {"chat_template"});
  config.chat_template = template_file(kTemplate);
  expect_refused([&] { load_conversations(config, tokenizer_); }, {"line 1", "no key 'messages'"});
  config.files = {scratch_.add("damaged.jsonl", "\nnot json\n")};
  expect_refused([&] { load_conversations(config, tokenizer_); }, {"damaged.jsonl' line 2: is not JSON: parse error"});
  config.files = {scratch_.add("chat.txt", "text")};
  expect_refused([&] { load_conversations(config, tokenizer_); }, {"JSON lines"});
}

}  // namespace
}  // namespace lithe
