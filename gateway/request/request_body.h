// RequestBody: the client's body and the facts read from it.
//
// Part of the exchange.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/limits/body_memory.h"
#include "router/facts/body_facts.h"
#include "router/facts/multipart.h"

namespace gateway {

struct RequestBody {
  // Set by `check_body`:
  std::optional<router::MultipartScanner> form;  // for a multipart body
  bool takes_memory = false;                     // more than its connection's own buffer

  // Set by `read_body`:
  bool whole = false;                    // read to its end
  std::string_view text;                 // the body; for a form: the part read to find the model
  std::string form_text;                 // for a form: all that was read so far; `text` is a view of it
  std::optional<BodyMemory::Hold> room;  // the memory that it takes; set by `claim_memory`

  // Set by `read_facts` and `check_content`:
  std::string forced_text;  // the body with what policies force; `text` is then a view of it
  router::BodyFacts facts;
  int64_t prompt_tokens = 0;  // estimated, until the engine reports them

  // Units besides tokens:
  int64_t Images() const;      // images that the request asks for
  int64_t Characters() const;  // characters of the text to speak
  // The longest sound, in milliseconds, that a body of this length can hold in any speech codec. Without a
  // length: the longest sound in the bytes read so far.
  int64_t MostAudioMs(std::optional<uint64_t> content_length) const;
};

}  // namespace gateway
