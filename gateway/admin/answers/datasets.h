// Answers of the admin API about data sets.
#pragma once

#include <map>

#include "gateway/admin/answers/answer_fields.h"
#include "gateway/datasets/dataset.h"

namespace gateway::admin::answers {

// A part of a data set.
struct DatasetPage {
  static constexpr std::string_view kSchema = "DatasetPage";

  std::string object = "dataset.page";
  std::vector<std::string> lines;  // of JSON, in the form of OpenAI's fine-tuning
  datasets::DatasetCounts counts;
  std::vector<std::string> rules;  // of redaction, that are applied
  std::map<std::string, uint64_t> redactions;
  bool has_more = false;
  uint64_t next_from_seq = 0;
};

template <class O>
constexpr void Bind(O& o, DatasetPage& page) {
  o.Required("object", page.object);
  o.Required("lines", page.lines);
  o.Required("counts", page.counts);
  o.Required("rules", page.rules);
  o.Required("redactions", page.redactions);
  o.Required("has_more", page.has_more);
  o.Required("next_from_seq", page.next_from_seq);
}

}  // namespace gateway::admin::answers
