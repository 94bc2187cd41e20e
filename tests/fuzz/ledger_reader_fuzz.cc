// Whatever stands in a segment or a journal is read or refused, and what the ledger writes reads back as it
// was given.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/ledger/chain.h"
#include "gateway/ledger/export.h"
#include "gateway/ledger/parse.h"
#include "gateway/ledger/record.h"
#include "gateway/ledger/render.h"

namespace {

using namespace gateway::ledger;

void Require(bool holds) {
  if (!holds) std::abort();
}

void ReadLine(std::string_view line, RecordParser& parser) {
  if (const auto parts = SplitLine(line)) {
    Require(parts->body.data() == line.data() && parts->body.size() < line.size());
    (void)FindUint(parts->body, "open_seq");
    (void)FindText(parts->body, "request");
  }
  Record record;
  if (!parser.Parse(line, &record).ok()) return;
  std::string row;
  AppendCsv(&row, record);
  Require(row.ends_with('\n'));
}

void ReadPayload(std::string_view payload) {
  OpenRecord open;
  CloseRecord close;
  ContentRecord content;
  uint64_t open_n = 0;
  size_t used = 0;
  if (DecodeOpen(payload, &open, &used)) {
    Require(used <= payload.size());
    DecodeClose(payload.substr(used), &close, &open_n);
  }
  DecodeClose(payload, &close, &open_n);
  DecodeContent(payload, &content, &open_n);
}

// Printable, so that it is stored as it is, and within every cap.
std::string Word(std::string_view text, size_t at) {
  std::string word(text.substr(std::min(at, text.size()), 40));
  for (char& c : word) c = static_cast<char>(32 + static_cast<unsigned char>(c) % 95);
  return word;
}

void WriteAndRead(std::string_view text, RecordParser& parser) {
  const std::string words[] = {Word(text, 0), Word(text, 10), Word(text, 20), Word(text, 30), Word(text, 40)};
  OpenRecord open;
  open.time_us = 1'700'000'000'000'000;
  open.request = words[0];
  open.client_request = words[1];
  open.tenant = words[2];
  open.model = words[3];
  open.client = words[4];
  std::string line;
  const Digest link = (RenderOpen(&line, 7, {}, open), FinishLine(&line, 0, Digest{}));
  line.pop_back();
  const auto parts = SplitLine(line);
  Require(parts && parts->seq == 7 && parts->link == link && Link(Digest{}, parts->body) == link);
  Record record;
  Require(parser.Parse(line, &record).ok());
  Require(record.request == words[0] && record.client_request == words[1] && record.tenant == words[2] &&
          record.model == words[3] && record.client == words[4] && record.kind == Kind::kOpen);

  std::string payload(kMaxOpenPayload, '\0');
  payload.resize(EncodeOpen(open, payload.data()));
  OpenRecord again;
  size_t used = 0;
  Require(DecodeOpen(payload, &again, &used) && used == payload.size());
  Require(again.request == open.request && again.client == open.client && again.time_us == open.time_us);
  Require(!DecodeOpen(std::string_view(payload).substr(0, payload.size() - 1), &again, &used));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static RecordParser parser;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    ReadLine(rest.substr(0, end), parser);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  ReadPayload(text);
  WriteAndRead(text, parser);
  return 0;
}
