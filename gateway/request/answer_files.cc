// answer_files: answers requests for files and batches, which the gateway keeps itself. Reads and writes the
// bytes of downloads and uploads in pieces, on threads beside the shard.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>

#include "conf/text.h"
#include "gateway/batches/kept_file.h"
#include "gateway/batches/message_requests.h"
#include "gateway/batches/place_reader.h"
#include "gateway/batches/service.h"
#include "gateway/batches/upload_form.h"
#include "gateway/log.h"
#include "gateway/net/files.h"
#include "gateway/net/off_loop.h"
#include "gateway/request/answer.h"
#include "gateway/request/form_reader.h"
#include "gateway/request/stages.h"
#include "gateway/shard/shard.h"
#include "router/facts/multipart.h"

namespace gateway::stages {
namespace {

using batches::Call;
using batches::Op;
using batches::Reply;
using net::http::FieldId;
using net::http::Verb;

constexpr size_t kPieceBytes = 1u << 20;    // of a file, in memory
constexpr size_t kMaxCreation = 64u << 10;  // bytes of a body that creates a batch

// What the path and the method ask for. An upload is kHoldFile.
struct AskedOperation {
  Op op;
  std::string id;
};

// None if the path does not take this method, or does not exist; `known` tells which.
std::optional<AskedOperation> FindOperation(const Exchange& x, bool& known) {
  struct Way {
    std::string_view below;  // the path behind the id
    Verb method;
    Op op;
  };
  static constexpr Way kFiles[] = {{"", Verb::get, Op::kGetFile},
                                   {"", Verb::delete_, Op::kDeleteFile},
                                   {"/content", Verb::get, Op::kFileContent}};
  static constexpr Way kBatches[] = {{"", Verb::get, Op::kGetBatch},
                                     {"/cancel", Verb::post, Op::kCancelBatch}};
  static constexpr Way kMessageBatches[] = {{"", Verb::get, Op::kGetBatch},
                                            {"", Verb::delete_, Op::kDeleteBatch},
                                            {"/cancel", Verb::post, Op::kCancelBatch},
                                            {"/results", Verb::get, Op::kBatchResults}};
  const Verb method = x.client.head().method;
  const router::Api api = x.identity.spec->api;
  const std::string_view rest = x.identity.path_rest;
  known = true;
  if (rest.empty()) {
    if (method == Verb::get)
      return AskedOperation{api == router::Api::kFiles ? Op::kListFiles : Op::kListBatches, {}};
    if (method == Verb::post)
      return AskedOperation{api == router::Api::kBatches ? Op::kCreateBatch : Op::kHoldFile, {}};
    return std::nullopt;
  }
  const size_t slash = rest.find('/');
  const std::string_view below = slash == std::string_view::npos ? std::string_view() : rest.substr(slash);
  const std::span<const Way> ways = api == router::Api::kFiles     ? std::span<const Way>(kFiles)
                                    : api == router::Api::kBatches ? std::span<const Way>(kBatches)
                                                                   : std::span<const Way>(kMessageBatches);
  known = std::ranges::find(ways, below, &Way::below) != ways.end();
  for (const Way& way : ways) {
    if (way.below == below && way.method == method)
      return AskedOperation{way.op, std::string(rest.substr(0, slash))};
  }
  return std::nullopt;
}

bool OfMessages(const Exchange& x) {
  return x.identity.spec->api == router::Api::kMessageBatches;
}

// Passes the call to the control loop and waits for its reply.
net::Task<Reply> AskBatches(Exchange& x, Call call) {
  call.principal = x.identity.principal;
  call.of_messages = OfMessages(x);
  net::Event done;
  Reply reply;
  x.shard.shared.batches->Take(std::move(call), [&x, &done, &reply](Reply given) {
    // Runs on the control loop; this frame waits for the post.
    x.shard.loop.Post([&done, &reply, given = std::move(given)] {
      reply = given;
      done.Set();
    });
  });
  co_await done.Wait();
  co_return reply;
}

net::Task<StageResult> SendReply(Exchange& x, Reply reply) {
  if (reply.error) co_return x.Fail(*std::move(reply.error));
  co_await SendOwn(x, 200, "application/json", reply.json);
  co_return StageResult::kAnswered;
}

StageResult BadBody(Exchange& x, const batches::UploadForm& form) {
  const bool field = !form.param().empty();
  return x.Fail(field ? api::Code::kInvalidValue : api::Code::kInvalidMultipart, form.error(), form.param());
}
StageResult BadBody(Exchange& x, const batches::MessageRequests& requests) {
  const bool member = !requests.param().empty();
  return x.Fail(member ? api::Code::kInvalidValue : api::Code::kInvalidJson, requests.error(),
                requests.param());
}

StageResult NotWritten(Exchange& x, const absl::Status& status) {
  log::Error("an upload cannot be written", {{"why", conf::Std(status.message())}});
  return x.Fail(api::Code::kStoreUnavailable, "the gateway cannot write the file now; try again");
}

// Reads the body, and writes the file that `reader` extracts from it piece by piece. `bytes`: the file's size.
template <class Reader>
net::Task<StageResult> WriteUpload(Exchange& x, const batches::Files::Place& place, Reader& reader,
                                   uint64_t& bytes) {
  using batches::KeptFile;
  absl::StatusOr<KeptFile> file = co_await net::OffLoop(x.shard.loop, [&place]() -> absl::StatusOr<KeptFile> {
    // Files may have been turned on by a reload.
    const std::string folder = place.path.substr(0, place.path.rfind('/'));
    if (absl::Status made = net::MakeDirectories(folder, 0700); !made.ok()) return made;
    return KeptFile::Create(place.path, place.key);
  });
  if (!file.ok()) co_return NotWritten(x, file.status());
  std::string pending;
  bool ends = false;
  while (!ends) {
    std::string_view piece;
    const auto status = co_await x.client.connection().ReadBodyPiece(piece);
    if (status != net::http::ServerConnection::Status::kOk)
      co_return x.Fail(BodyFailure(status, place.most_bytes).error);
    ends = piece.empty();
    if (!ends && !reader.Feed(piece, pending)) co_return BadBody(x, reader);
    if (ends && !reader.Finish()) co_return BadBody(x, reader);
    if (bytes + pending.size() > place.most_bytes) {
      co_return x.Fail(api::Code::kRequestTooLarge,
                       fmt::format("the file is larger than the {} bytes allowed", place.most_bytes), "file");
    }
    if (pending.size() < kPieceBytes && !ends) continue;
    const absl::Status written =
        co_await net::OffLoop(x.shard.loop, [&file, &pending, ends]() -> absl::Status {
          if (absl::Status wrote = file->Append(pending); !wrote.ok()) return wrote;
          return ends ? file->Sync() : absl::OkStatus();
        });
    if (!written.ok()) co_return NotWritten(x, written);
    bytes += pending.size();
    pending.clear();
  }
  co_return StageResult::kContinue;
}

// Keeps what `reader` extracts from the body as a file; then makes the call `keep` with it.
template <class Reader>
net::Task<StageResult> TakeUpload(Exchange& x, Reader& reader, Call keep) {
  Call hold;
  hold.op = Op::kHoldFile;
  const std::optional<uint64_t> body = x.client.head().content_length;
  hold.upload.bytes =
      body && *body < UINT64_MAX / Reader::kMostGrowth ? *body * Reader::kMostGrowth : UINT64_MAX;
  Reply held = co_await AskBatches(x, std::move(hold));
  if (held.error) co_return x.Fail(*std::move(held.error));
  uint64_t bytes = 0;
  const StageResult written = co_await WriteUpload(x, held.place, reader, bytes);
  keep.upload.id = held.place.id;
  if (written != StageResult::kContinue) {
    keep.op = Op::kAbandonFile;
    co_await AskBatches(x, std::move(keep));
    co_return written;
  }
  x.client.SetReusable(true);
  keep.upload.bytes = bytes;
  if constexpr (std::is_same_v<Reader, batches::UploadForm>) {
    keep.upload.purpose = reader.purpose();
    keep.upload.name = reader.filename();
    keep.upload.age = reader.age();
  }
  co_return co_await SendReply(x, co_await AskBatches(x, std::move(keep)));
}

net::Task<StageResult> Upload(Exchange& x) {
  x.client.SetReusable(false);  // until the body is read
  if (OfMessages(x)) {
    batches::MessageRequests requests;
    co_return co_await TakeUpload(x, requests, {.op = Op::kCreateMessages});
  }
  const std::optional<std::string> boundary =
      router::MultipartScanner::BoundaryOf(x.client.head().Find(FieldId::content_type));
  if (!boundary) {
    co_return x.Fail(api::Code::kUnsupportedMediaType,
                     "Content-Type must be multipart/form-data with one valid boundary");
  }
  batches::UploadForm form(*boundary);
  co_return co_await TakeUpload(x, form, {.op = Op::kKeepFile});
}

net::Task<StageResult> Download(Exchange& x, Call call) {
  Reply found = co_await AskBatches(x, std::move(call));
  if (found.error) co_return x.Fail(*std::move(found.error));
  const uint64_t bytes = found.place.most_bytes;
  batches::PlaceReader reader(x.shard.loop, std::move(found.place));
  // The first piece comes before the head: what is wrong with a file is seen there, mostly.
  std::string piece;
  absl::Status read = co_await reader.Open();
  if (read.ok()) read = co_await reader.Next(piece);
  if (!read.ok()) {
    log::Error("a file cannot be read", {{"why", conf::Std(read.message())}});
    if (absl::IsUnavailable(read))
      co_return x.Fail(api::Code::kStoreUnavailable, "the gateway cannot read this file now; try again");
    co_return x.Fail(api::Code::kInternalError, "the gateway cannot read this file");
  }
  x.answer_head.clear();
  const std::string_view type = OfMessages(x) ? "application/x-jsonl" : "application/octet-stream";
  RenderRelayedHead(x, nullptr, 200, type, {bytes}, x.answer_head);
  x.outcome.status = 200;
  x.delivery.head_sent = true;
  if (!co_await x.client.connection().Write(net::AsBuffer(x.answer_head))) co_return x.Gone();
  while (!piece.empty()) {
    if (!co_await x.client.connection().Write(net::AsBuffer(piece))) co_return x.Gone();
    x.outcome.counts.bytes_out += piece.size();
    if (!(co_await reader.Next(piece)).ok())
      co_return x.Fail(api::Code::kInternalError, "the gateway cannot read the rest of this file");
  }
  x.outcome.answer_whole = true;
  co_return StageResult::kAnswered;
}

}  // namespace

StageResult AsksForFiles(Exchange& x) {
  const router::Api api = x.identity.spec->api;
  const bool asks = api == router::Api::kFiles || api == router::Api::kBatches || OfMessages(x);
  return asks ? StageResult::kWaits : StageResult::kContinue;
}

net::Task<StageResult> AnswerFiles(Exchange& x) {
  bool known = false;
  std::optional<AskedOperation> asked = FindOperation(x, known);
  const net::http::Head& head = x.client.head();
  const bool has_body = head.chunked || head.content_length.value_or(0) > 0;
  if (!asked) {
    x.client.SetReusable(!has_body);
    const std::string_view path = std::string_view(head.target).substr(0, head.target.find('?'));
    if (known) {
      co_return x.Fail(api::Code::kMethodNotAllowed,
                       fmt::format("{} does not take the method {}", path, head.method_text));
    }
    co_return x.Fail(api::Code::kNotFound,
                     fmt::format("the endpoint {} {} does not exist", head.method_text, path));
  }
  if (x.shard.shared.batches == nullptr) {
    x.client.SetReusable(!has_body);
    co_return x.Fail(
        api::Code::kNotFound,
        "this gateway keeps no files and runs no batches: its configuration has no section `files`");
  }
  const bool keeps = asked->op == Op::kHoldFile || asked->op == Op::kCreateBatch;
  if (keeps && x.shard.shared.disk_low.load(std::memory_order_relaxed)) {
    x.client.SetReusable(false);
    co_return x.Fail(api::Code::kStoreUnavailable,
                     "the gateway's disk is nearly full: it keeps no new files or batches");
  }
  if (asked->op == Op::kHoldFile) co_return co_await Upload(x);
  Call call;
  call.op = asked->op;
  call.id = std::move(asked->id);
  if (call.op == Op::kFileContent || call.op == Op::kBatchResults)
    co_return co_await Download(x, std::move(call));
  if (const size_t query = head.target.find('?'); query != std::string_view::npos)
    call.query = head.target.substr(query + 1);
  const auto status = co_await x.client.connection().ReadBody(kMaxCreation);
  if (status != net::http::ServerConnection::Status::kOk) {
    x.client.SetReusable(false);
    co_return x.Fail(BodyFailure(status, kMaxCreation).error);
  }
  call.body = x.client.connection().body();
  co_return co_await SendReply(x, co_await AskBatches(x, std::move(call)));
}

}  // namespace gateway::stages
