// DatasetFile: a data set on its way to the disk, and its manifest. The file gets its name when it is whole and
// on the disk: until then it is NAME.part, which is removed if it never becomes whole. The manifest, NAME.manifest.json,
// says what the file is, with its SHA-256.
//
// Owner: the command that writes it. Blocks; one thread.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/fields.h"
#include "conf/shown.h"
#include "gateway/datasets/dataset.h"
#include "gateway/net/fd.h"

namespace gateway::datasets {

struct Manifest {
  std::string object = "tidegate.dataset";
  std::string format = "openai-jsonl";
  std::string file;  // its name, without folders
  uint64_t bytes = 0;
  std::string sha256;
  uint64_t examples = 0;
  std::string where;  // the expression; empty: every request
  std::string tenant;
  std::string since, until;  // the range of time, as RFC 3339; empty: from the begin
  bool use_corrections = false;
  std::vector<std::string> rules;              // of redaction, that were applied
  std::map<std::string, uint64_t> redactions;  // by rule: what was taken out
  DatasetCounts counts;
  uint64_t from_seq = 0;  // records of the ledger that were read
  uint64_t to_seq = 0;
  std::string made_at;
};

template <class O>
constexpr void Bind(O& o, Manifest& of) {
  o.Required("object", of.object);
  o.Required("format", of.format);
  o.Required("file", of.file);
  o.Required("bytes", of.bytes);
  o.Required("sha256", of.sha256);
  o.Required("examples", of.examples);
  o.Required("where", of.where);
  o.Required("tenant", of.tenant);
  o.Required("since", of.since);
  o.Required("until", of.until);
  o.Required("use_corrections", of.use_corrections);
  o.Required("rules", of.rules);
  o.Required("redactions", of.redactions);
  o.Required("counts", of.counts);
  o.Required("from_seq", of.from_seq);
  o.Required("to_seq", of.to_seq);
  o.Required("made_at", of.made_at);
}

class DatasetFile {
 public:
  // AlreadyExists: there is such a file, or its manifest.
  static absl::StatusOr<std::unique_ptr<DatasetFile>> Create(const std::string& path);
  ~DatasetFile();
  DatasetFile(const DatasetFile&) = delete;
  DatasetFile& operator=(const DatasetFile&) = delete;

  // A line, without its end.
  absl::Status Add(std::string_view line);
  // Gives the file its name, and writes the manifest, whose file, bytes and hash it sets.
  absl::Status Finish(Manifest& manifest);

  static std::string ManifestPath(const std::string& path) { return path + ".manifest.json"; }

 private:
  class Hash;
  DatasetFile(std::string path, net::Fd file);
  std::string PartPath() const { return path_ + ".part"; }

  const std::string path_;
  net::Fd file_;
  std::unique_ptr<Hash> hash_;
  std::string buffer_;
  uint64_t bytes_ = 0;
  bool finished_ = false;
};

}  // namespace gateway::datasets
