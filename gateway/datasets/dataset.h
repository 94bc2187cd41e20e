// A data set out of the ledger: the requests that an expression wants, with the prompts and answers that the
// policies of their tenants have kept, redacted. Content that was not kept, or was erased, is counted and
// left out.
//
// DatasetSteps reads the segments once, beside a running gateway, in any process. A prompt and an answer stand
// before the close of their request; recent ones are held, at most kHeldBytes, and others found again by the
// index. Blocks; one thread at a time.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/fields.h"
#include "gateway/datasets/expression.h"
#include "gateway/ledger/content_keys.h"
#include "gateway/ledger/index.h"
#include "gateway/ledger/tail.h"
#include "plugins/redaction/redaction.h"

namespace gateway::datasets {

// What became of the requests that the expression wanted.
struct DatasetCounts {
  static constexpr std::string_view kSchema = "DatasetCounts";

  uint64_t requests = 0;      // that the expression wants
  uint64_t examples = 0;      // of these, in the set
  uint64_t corrected = 0;     // of the examples, with a correction in place of the answer
  uint64_t not_kept = 0;      // left out: the prompt or the answer was not stored
  uint64_t erased = 0;        // left out: its content was erased
  uint64_t cut = 0;           // left out: it was stored in part, since it is large
  uint64_t unreadable = 0;    // left out: it has no text, images, or cannot be opened with its key
  uint64_t other_api = 0;     // left out: not of chat or Messages
  uint64_t not_redacted = 0;  // left out: a pattern took too long

  DatasetCounts& operator+=(const DatasetCounts& other);
};

template <class O>
constexpr void Bind(O& o, DatasetCounts& of) {
  o.Required("requests", of.requests);
  o.Required("examples", of.examples);
  o.Required("corrected", of.corrected);
  o.Required("not_kept", of.not_kept);
  o.Required("erased", of.erased);
  o.Required("cut", of.cut);
  o.Required("unreadable", of.unreadable);
  o.Required("other_api", of.other_api);
  o.Required("not_redacted", of.not_redacted);
}

struct DatasetQuery {
  uint64_t from_seq = 1;
  int64_t since_us = 0;                                    // by the end of the request
  int64_t until_us = std::numeric_limits<int64_t>::max();  // not included
  std::string tenant = {};                                 // this tenant and those below it; empty: all
  bool use_corrections = false;
};

class DatasetSteps {
 public:
  static constexpr size_t kHeldBytes = 64 << 20;

  // All must outlive it. `index` is up to date.
  DatasetSteps(std::string ledger_dir, ledger::Index& index, const ledger::ContentKeys& keys,
               const Expression& where, const plugins::Redaction& redaction, DatasetQuery query);

  // Reads up to `max_seen` records and passes each example, a line without its end, to `out`. False: there are
  // no more, or `out` returned false; it has that example then.
  absl::StatusOr<bool> Step(uint64_t max_seen, const std::function<bool(std::string_view)>& out);

  uint64_t last_seq() const { return last_seq_; }  // that was read
  const DatasetCounts& counts() const { return counts_; }
  const plugins::Redaction::Counts& redacted() const { return redacted_; }

 private:
  // The lines of a request's content records.
  struct Content {
    std::string prompt, answer;
  };
  void Hold(const ledger::Tail::Entry& entry);
  void Forget(uint64_t open_seq);
  absl::StatusOr<std::optional<std::string>> Take(const ledger::Tail::Entry& entry);
  absl::StatusOr<Content> ContentOf(const ledger::Record& close);
  // The text of a content record; nothing, and it is counted why.
  std::optional<std::string> Open(const std::string& line);
  std::string CorrectionOf(const std::vector<ledger::KeptFeedback>& feedback) const;

  const std::string dir_;
  ledger::Index& index_;
  const ledger::ContentKeys& keys_;
  const Expression& where_;
  const plugins::Redaction& redaction_;
  const DatasetQuery query_;
  ledger::Tail tail_;
  ledger::RecordParser parser_;
  ledger::Record record_;
  absl::flat_hash_map<uint64_t, Content> held_;  // by the number of the open record
  std::deque<uint64_t> order_;                   // of held_, the oldest first
  size_t held_bytes_ = 0;
  uint64_t last_seq_ = 0;
  DatasetCounts counts_;
  plugins::Redaction::Counts redacted_;
};

}  // namespace gateway::datasets
