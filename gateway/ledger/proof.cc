#include "gateway/ledger/proof.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "conf/hex.h"
#include "conf/json_dump.h"
#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/ledger/record.h"
#include "gateway/ledger/segment.h"

namespace gateway::ledger {
namespace {

using nlohmann::ordered_json;

absl::Status Wrong(std::string why) {
  return absl::InvalidArgumentError(why);
}

absl::Status NoSuchRecord(uint64_t record) {
  return absl::NotFoundError(
      fmt::format("the ledger has no record {}; retention may have removed it", record));
}

// The segment that holds the record, if the ledger has it; the record may also come after the end.
std::optional<SegmentName> SegmentWith(const std::vector<SegmentName>& segments, uint64_t record) {
  std::optional<SegmentName> found;
  for (const SegmentName& segment : segments) {
    if (segment.first_seq <= record) found = segment;
  }
  return found;
}

}  // namespace

absl::StatusOr<Proof> MakeProof(const std::string& dir, uint64_t record, size_t max_bytes) {
  const absl::StatusOr<std::vector<SegmentName>> segments = ListSegments(dir);
  if (!segments.ok()) return segments.status();
  const std::optional<SegmentName> segment = SegmentWith(*segments, record);
  if (record == 0 || !segment) return NoSuchRecord(record);
  absl::StatusOr<LineReader> reader = LineReader::Open(segment->path);
  if (!reader.ok()) return reader.status();
  Proof proof{.record = record, .lines = {}};
  size_t bytes = 0;
  while (true) {
    const absl::StatusOr<std::optional<std::string_view>> line = reader->Next();
    if (!line.ok()) return line.status();
    if (!*line) break;
    const std::optional<LineParts> parts = SplitLine(**line);
    if (!parts) return absl::DataLossError("the ledger is damaged at this record: run tidegate audit verify");
    if (parts->seq < record) {
      proof.previous = parts->link;
      continue;
    }
    if (parts->seq == record && segment->first_seq == record &&
        !conf::ParseHex(FindText(parts->body, "previous").value_or(""), proof.previous))
      return absl::DataLossError(
          "the segment does not name the chain that it continues: run tidegate audit verify");
    bytes += (*line)->size();
    if (bytes > max_bytes) {
      return absl::ResourceExhaustedError(
          fmt::format("the proof would be larger than {} MiB: it needs all records up to the next checkpoint",
                      max_bytes >> 20));
    }
    proof.lines.emplace_back(**line);
    if (parts->kind == Name(Kind::kCheckpoint)) return proof;
  }
  if (proof.lines.empty()) return NoSuchRecord(record);
  return absl::FailedPreconditionError(
      fmt::format("no checkpoint has been signed after record {} yet; try again in a few minutes", record));
}

absl::StatusOr<ProofReport> CheckProof(const Proof& proof, const PublicKey& key) {
  if (proof.lines.empty()) return Wrong("the proof has no records");
  Digest link = proof.previous;
  uint64_t seq = proof.record;
  for (size_t i = 0; i < proof.lines.size(); ++i, ++seq) {
    const std::optional<LineParts> parts = SplitLine(proof.lines[i]);
    if (!parts) return Wrong(fmt::format("line {} is not a record", i + 1));
    if (parts->seq != seq)
      return Wrong(fmt::format("record {} is in the place of record {}", parts->seq, seq));
    if (Link(link, parts->body) != parts->link)
      return Wrong(fmt::format("record {} does not match its chain hash: it was changed", seq));
    if (i + 1 == proof.lines.size()) {
      if (parts->kind != Name(Kind::kCheckpoint)) return Wrong("the proof does not end with a checkpoint");
      if (!CheckpointIsSigned(*parts, link, key)) {
        return Wrong(
            fmt::format("the signature of checkpoint {} was not made with this key for this place", seq));
      }
    }
    link = parts->link;
  }
  return ProofReport{.checkpoint = seq - 1, .link = link};
}

std::string ProofText(const Proof& proof) {
  const ordered_json out = {{"object", "proof"},
                            {"version", 1},
                            {"record", proof.record},
                            {"previous", conf::Hex(proof.previous)},
                            {"lines", proof.lines}};
  return conf::DumpJson(out) + "\n";
}

absl::StatusOr<Proof> ParseProof(std::string_view text) {
  const ordered_json json = conf::ParseOrderedJson(text);
  if (!json.is_object() || !json.contains("record") || !json["record"].is_number_unsigned() ||
      !json.contains("previous") || !json["previous"].is_string() || !json.contains("lines") ||
      !json["lines"].is_array())
    return Wrong("this is not a proof of a record");
  if (!json.contains("version") || json["version"] != 1)
    return Wrong("the version of this proof is unknown: it must be 1");
  Proof proof{.record = json["record"].get<uint64_t>(), .lines = {}};
  if (!conf::ParseHex(json["previous"].get<std::string>(), proof.previous))
    return Wrong("`previous` must be 64 hex digits");
  for (const ordered_json& line : json["lines"]) {
    if (!line.is_string()) return Wrong("each of `lines` must be a text");
    proof.lines.push_back(line.get<std::string>());
  }
  return proof;
}

}  // namespace gateway::ledger
