// RequestBody: the client's body and what was read from it.
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
  std::optional<router::MultipartScanner> form;  // of a multipart body, whose files stream through
  bool takes_memory = false;                     // beyond its connection's own buffer

  // Set by `read_body`:
  bool whole = false;                    // read to its end
  std::string_view text;                 // the body; of a form: what was read to find the model
  std::string form_text;                 // what was read of a form so far; holds `text` of a form
  std::optional<BodyMemory::Hold> room;  // what it takes; set by `claim_memory`

  // Set by `read_facts` and `check_content`:
  std::string forced_text;  // the body with what policies force; then it is `text`
  router::BodyFacts facts;
  int64_t prompt_tokens = 0;  // estimated, until the engine reports them

  // For requests that are not counted in tokens alone.
  int64_t Images() const;      // asked for
  int64_t Characters() const;  // of the text that is to be spoken
  // The longest sound, in milliseconds, that a body of this length can hold in any coding of speech. Without a
  // length: that the bytes read so far can hold.
  int64_t MostAudioMs(std::optional<uint64_t> content_length) const;
};

}  // namespace gateway
