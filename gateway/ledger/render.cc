#include "gateway/ledger/render.h"

#include <absl/strings/escaping.h>

#include <charconv>

#include "conf/json_text.h"
#include "conf/text.h"

namespace gateway::ledger {
namespace {

template <class Number>
void AppendNumber(std::string* out, Number value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out->append(digits, static_cast<size_t>(end - digits));
}

LineWriter Begin(std::string* out, uint64_t seq, int64_t time_us, Kind kind, Origin origin) {
  LineWriter line(out, seq, time_us, kind);
  if (origin.n != 0) line.Uint("shard", origin.shard).Uint("n", origin.n);
  return line;
}

void Identity(LineWriter& line, const OpenRecord& of) {
  line.Text("request", of.request).Text("tenant", of.tenant).Text("key", of.key).Text("model", of.model);
  line.Text("api", of.api);
}

void Optional(LineWriter& line, std::string_view key, int64_t value) {
  if (value >= 0) line.Int(key, value);
}
void Optional(LineWriter& line, std::string_view key, std::string_view value) {
  if (!value.empty()) line.Text(key, value);
}

}  // namespace

LineWriter::LineWriter(std::string* out, uint64_t seq, int64_t time_us, Kind kind) : out_(out) {
  out_->append("{\"seq\":");
  AppendNumber(out_, seq);
  Int("time_us", time_us).Text("kind", Name(kind));
}

void LineWriter::Key(std::string_view key) {
  // Appends the name in one piece: names are the largest part of a line.
  const size_t at = out_->size();
  out_->resize(at + key.size() + 4);
  char* end = std::copy_n(",\"", 2, out_->data() + at);
  end = std::copy(key.begin(), key.end(), end);
  std::copy_n("\":", 2, end);
}

LineWriter& LineWriter::Int(std::string_view key, int64_t value) {
  Key(key);
  AppendNumber(out_, value);
  return *this;
}

LineWriter& LineWriter::Uint(std::string_view key, uint64_t value) {
  Key(key);
  AppendNumber(out_, value);
  return *this;
}

LineWriter& LineWriter::Bool(std::string_view key, bool value) {
  return Raw(key, value ? "true" : "false");
}

LineWriter& LineWriter::Text(std::string_view key, std::string_view value) {
  Key(key);
  out_->push_back('"');
  conf::AppendEscaped(*out_, value);
  out_->push_back('"');
  return *this;
}

LineWriter& LineWriter::Raw(std::string_view key, std::string_view json) {
  Key(key);
  out_->append(json);
  return *this;
}

void RenderOpen(std::string* out, uint64_t seq, Origin origin, const OpenRecord& record) {
  LineWriter line = Begin(out, seq, record.time_us, Kind::kOpen, origin);
  Identity(line, record);
  line.Bool("stream", record.stream);
  Optional(line, "client_request", record.client_request);
  Optional(line, "client", record.client);
}

void RenderClose(std::string* out, uint64_t seq, Origin origin, uint64_t open_seq, const OpenRecord& of,
                 const CloseRecord& record) {
  LineWriter line = Begin(out, seq, record.time_us, Kind::kClose, origin);
  line.Uint("open_seq", open_seq);
  if (open_seq != 0) line.Int("open_time_us", of.time_us);
  Identity(line, of);
  if (open_seq == 0) {
    Optional(line, "client_request", of.client_request);
    Optional(line, "client", of.client);
  }
  const Counts& counts = record.counts;
  line.Text("reason", Name(record.reason)).Uint("status", record.status);
  line.Uint("input", counts.input).Uint("cached", counts.cached).Uint("output", counts.output);
  line.Text("source", Name(counts.source)).Int("cost_micro_usd", counts.cost_micro_usd);
  line.Uint("bytes_in", counts.bytes_in)
      .Uint("bytes_out", counts.bytes_out)
      .Uint("attempts", counts.attempts);
  Optional(line, "served_model", record.served_model);
  Optional(line, "replica", record.replica);
  Optional(line, "prefill", record.prefill);
  Optional(line, "limit", record.limit);
  Optional(line, "error", record.error);
  Optional(line, "queue_us", record.queue_us);
  Optional(line, "ttft_us", counts.ttft_us);
  Optional(line, "itl_mean_us", record.itl_mean_us);
  Optional(line, "itl_max_us", record.itl_max_us);
  Optional(line, "total_us", record.total_us);
  Optional(line, "overhead_us", record.overhead_us);
}

void RenderContent(std::string* out, uint64_t seq, Origin origin, uint64_t open_seq, const OpenRecord& of,
                   const ContentRecord& record) {
  LineWriter line = Begin(out, seq, record.time_us, Kind::kContent, origin);
  line.Uint("open_seq", open_seq);
  Identity(line, of);
  line.Text("part", Name(record.part)).Uint("bytes", record.full_bytes);
  line.Bool("cut", record.full_bytes > record.kept_bytes());
  if (record.sealed_by.empty()) {
    line.Text("text", record.text);
  } else {
    line.Text("content_key", record.sealed_by)
        .Raw("ciphertext", '"' + absl::Base64Escape(conf::Abseil(record.text)) + '"');
  }
}

void RenderDevices(std::string* out, uint64_t seq, const DeviceRecord& record) {
  LineWriter line(out, seq, record.from_us, Kind::kDevices);
  line.Int("until_us", record.until_us).Text("tenant", record.tenant);
  Optional(line, "model", record.model);
  Optional(line, "job", record.job);
  line.Text("device", record.device).Int("device_us", record.device_us).Int("held_us", record.held_us);
  if (record.weight > 0) line.Uint("weight", record.weight);
  if (record.energy_mj > 0) line.Int("energy_mj", record.energy_mj);
  if (record.energy_micro_usd > 0) line.Int("energy_micro_usd", record.energy_micro_usd);
  if (record.co2_mg > 0) line.Int("co2_mg", record.co2_mg);
}

void RenderEvent(std::string* out, uint64_t seq, const Event& event) {
  LineWriter line(out, seq, event.time_us, event.kind);
  line.Text("action", event.action);
  Optional(line, "actor", event.actor);
  Optional(line, "subject", event.subject);
  Optional(line, "tenant", event.tenant);
  if (!event.detail.empty()) line.Raw("detail", event.detail);
}

}  // namespace gateway::ledger
