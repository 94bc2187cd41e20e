// Job: a running request: its parameters, its answer, and how far that is computed and sent.
//
// Owner: the coroutine that serves the request; the engine refers to it from Submit until its last token or
// Cancel.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/net/task.h"
#include "tools/engine/answer.h"
#include "tools/engine/request.h"

namespace tidegate_engine {

// One sequence of the model: a choice of a generation, or one text of a pooling request.
struct Choice {
  const Prompt* prompt = nullptr;
  Answer answer;
  uint64_t sequence = 0;   // id in the model
  uint32_t generated = 0;  // tokens that the model has computed
  uint32_t sent = 0;       // tokens handed to the protocol
  uint32_t cached_tokens = 0;
  uint32_t given_tokens = 0;  // of the prompt, by another engine
  bool done = false;
  conf::TimePoint last_token;
};

struct Usage {
  uint64_t prompt = 0;
  uint64_t completion = 0;
  uint64_t cached = 0;
};

struct Job {
  Generation request;  // empty prompts for pooling
  std::string id;
  std::string model;               // as the client named it
  uint32_t adapter = 0;            // LoRA, as scheduler::engine::Request has it
  int64_t created = 0;             // Unix seconds
  std::string kv_transfer_params;  // of the answer; empty: null
  bool report_usage = true;
  bool endless = false;
  std::vector<Choice> choices;
  size_t unfinished = 0;
  bool cancelled = false;
  bool advanced = false;  // is in the list of Engine::Step
  conf::TimePoint submitted;
  gateway::net::Event progress;

  // State of a streaming protocol between tokens.
  std::string chunk_head;  // the part of every chunk that does not change
  uint64_t event_number = 0;
  int open_item = -2;  // -2: none; -1: content; else the call
  uint32_t items = 0;

  bool finished() const { return unfinished == 0; }
  bool HasUnsent() const;
  // Tokens sent or, for a whole answer, generated: the same once all are sent.
  Usage SentUsage() const;
};

// ,"usage":{…} in the OpenAI form, without the comma.
void AppendUsage(const Usage& usage, std::string& out);

}  // namespace tidegate_engine
