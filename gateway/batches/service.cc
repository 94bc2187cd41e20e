#include "gateway/batches/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>
#include <utility>
#include <variant>
#include <vector>

#include "conf/json_dump.h"
#include "conf/text.h"
#include "gateway/batches/batch_request.h"
#include "gateway/batches/listing.h"
#include "gateway/batches/message_batch.h"
#include "gateway/batches/message_requests.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"

namespace gateway::batches {
namespace {

using Shown = nlohmann::ordered_json;

constexpr conf::Duration kSweepFilesEvery = std::chrono::minutes(10);
constexpr size_t kMostListedFiles = 10'000;
constexpr size_t kMostListedBatches = 100;
constexpr size_t kMostListedMessageBatches = 1000;
constexpr size_t kMostNamedProblems = 10;  // in the message of a refusal
constexpr size_t kUsualBatches = 20;

Reply Refused(api::ApiError error) {
  Reply reply;
  reply.error = std::move(error);
  return reply;
}
Reply Refused(api::Code code, std::string message, std::string param = {}) {
  return Refused(api::Make(code, std::move(message), std::move(param)));
}

// Text of clients may be no UTF-8.
Reply Answered(const Shown& shown) {
  Reply reply;
  reply.json = conf::DumpJson(shown);
  return reply;
}

Reply NoSuch(std::string_view what, std::string_view id) {
  return Refused(api::Code::kNotFound, fmt::format("there is no {} {}", what, id.substr(0, 128)),
                 fmt::format("{}_id", what));
}

Shown Deleted(const std::string& id) {
  return {{"id", id}, {"object", "file"}, {"deleted", true}};
}

// `requests[2].params.model`
std::string MemberOf(const BatchProblem& problem) {
  std::string member = fmt::format("requests[{}]", problem.line.value_or(1) - 1);
  constexpr std::string_view kBody = "body";
  if (problem.param.starts_with(kBody)) {
    member += fmt::format(".params{}", std::string_view(problem.param).substr(kBody.size()));
  } else if (!problem.param.empty()) {
    member += fmt::format(".{}", problem.param);
  }
  return member;
}

Shown Show(const Batch& batch) {
  return batch.of_messages() ? ShowMessageBatch(batch) : ShowBatch(batch);
}

// Where a line of a message batch's input came from, and what is wrong there.
std::string WordsOf(const BatchProblem& problem) {
  if (!problem.line) return problem.message;
  return fmt::format("{}: {}", MemberOf(problem), problem.message);
}

}  // namespace

Service::Service(net::Loop& loop, store::Store& store, ledger::ContentKeys* keys, std::string dir,
                 Batches::Environment environment)
    : net::Alarm(loop.watchdog),
      loop_(loop),
      runtime_(environment.runtime),
      files_(
          loop, store, keys, std::move(dir), [this] { return runtime_()->config().files; },
          environment.sharing),
      batches_(loop, store, files_, std::move(environment)) {}

net::Task<absl::Status> Service::Start() {
  if (absl::Status started = co_await files_.Start(); !started.ok()) co_return started;
  co_return co_await batches_.Start();
}

void Service::Begin() {
  files_.Begin();
  batches_.Begin();
  OnAlarm();
}

void Service::Stop() {
  stopped_ = true;
  Clear();
  batches_.Stop();
  files_.Stop();
}

void Service::OnAlarm() {
  SetAfter(kSweepFilesEvery);
  if (!std::exchange(sweeping_, true)) loop_.tasks.Spawn(Sweep());
}

net::Task<void> Service::Sweep() {
  co_await batches_.stored().Sweep(net::Now());
  if (!stopped_) co_await files_.Sweep(batches_.stored().UsedFiles(), net::Now());
  sweeping_ = false;
}

void Service::Take(Call call, std::function<void(Reply)> done) {
  loop_.Post(
      [this, call = std::move(call), done = std::move(done)] { loop_.tasks.Spawn(Answer(call, done)); });
}

net::Task<void> Service::Answer(Call call, std::function<void(Reply)> done) {
  done(co_await ReplyTo(std::move(call)));
}

// So that a client sees here what another gateway has told it. Without the store, with what is known.
net::Task<void> Service::CatchUp() {
  if (!files_.sharing().shared()) co_return;
  (co_await batches_.stored().CatchUpShared()).IgnoreError();
  (co_await files_.CatchUpShared()).IgnoreError();
}

net::Task<Reply> Service::ReplyTo(Call call) {
  if (!runtime_()->config().files && call.op != Op::kAbandonFile) {
    co_return Refused(
        api::Code::kNotFound,
        "this gateway keeps no files and runs no batches: its configuration has no section files");
  }
  if (call.op != Op::kAbandonFile) co_await CatchUp();
  const std::string tenant = call.principal->tenant;
  const std::string key = call.principal->key;
  switch (call.op) {
    case Op::kHoldFile: {
      auto held = co_await files_.Hold(tenant, call.upload.bytes);
      if (auto* const error = std::get_if<api::ApiError>(&held)) co_return Refused(std::move(*error));
      Reply reply;
      reply.place = std::get<Files::Place>(std::move(held));
      co_return reply;
    }
    case Op::kKeepFile: {
      call.upload.tenant = tenant;
      call.upload.key = key;
      auto kept = co_await files_.Keep(std::move(call.upload), net::Now());
      if (auto* const error = std::get_if<api::ApiError>(&kept)) co_return Refused(std::move(*error));
      co_return Answered(ShowFile(std::get<StoredFile>(kept), files_.max_age()));
    }
    case Op::kAbandonFile:
      co_await files_.Abandon(call.upload.id);
      co_return Reply();
    case Op::kListFiles:
      co_return ListFiles(call);
    case Op::kGetFile: {
      const StoredFile* const file = files_.Find(tenant, call.id, net::Now());
      co_return file ? Answered(ShowFile(*file, files_.max_age())) : NoSuch("file", call.id);
    }
    case Op::kFileContent:
      co_return co_await ContentOf(call, call.id);
    case Op::kDeleteFile:
      co_return co_await DeleteFile(std::move(call));
    case Op::kCreateBatch:
      co_return co_await CreateBatch(std::move(call));
    case Op::kCreateMessages:
      co_return co_await CreateMessages(std::move(call));
    case Op::kListBatches:
      co_return ListBatches(call);
    case Op::kGetBatch:
    case Op::kCancelBatch:
    case Op::kBatchResults:
    case Op::kDeleteBatch:
      break;
  }
  const std::optional<Batch> batch = batches_.Find(tenant, call.id);
  if (!batch || batch->of_messages() != call.of_messages) co_return NoSuch("batch", call.id);
  if (call.op == Op::kGetBatch) co_return Answered(Show(*batch));
  if (call.op == Op::kDeleteBatch) co_return co_await DeleteBatch(std::move(call));
  if (call.op == Op::kCancelBatch) {
    auto cancelled = co_await batches_.Cancel(tenant, call.id, key, net::Now());
    if (auto* const error = std::get_if<api::ApiError>(&cancelled)) co_return Refused(std::move(*error));
    co_return Answered(Show(std::get<Batch>(cancelled)));
  }
  if (!HasEnded(batch->state) || batch->output_file.empty()) {
    co_return Refused(api::Code::kNotFound,
                      fmt::format("the batch {} has no results yet; it has them when it has ended", call.id));
  }
  co_return co_await ContentOf(std::move(call), batch->output_file);
}

net::Task<Reply> Service::ContentOf(Call call, std::string id) {
  const StoredFile* const file = files_.Find(call.principal->tenant, id, net::Now());
  if (file == nullptr) co_return NoSuch("file", id);
  absl::StatusOr<Files::Place> place = co_await files_.PlaceOf(*file);
  if (absl::IsUnavailable(place.status())) {
    log::Error("a file cannot be read", {{"file", id}, {"why", conf::Std(place.status().message())}});
    co_return Refused(api::Code::kStoreUnavailable, "the gateway cannot read this file now; try again");
  }
  if (!place.ok()) {
    co_return Refused(api::Code::kNotFound, fmt::format("the content of the file {} was erased", id),
                      "file_id");
  }
  Reply reply;
  reply.place = *std::move(place);
  co_return reply;
}

Reply Service::ListFiles(const Call& call) {
  auto read = PageOf(call.query, kMostListedFiles, kMostListedFiles);
  if (auto* const error = std::get_if<api::ApiError>(&read)) return Refused(std::move(*error));
  const Page& page = std::get<Page>(read);
  std::vector<Listed> all;
  for (const StoredFile* const file : files_.OfTenant(call.principal->tenant, net::Now())) {
    Shown shown = ShowFile(*file, files_.max_age());
    if (page.purpose.empty() || shown["purpose"] == page.purpose)
      all.push_back({{file->created, file->id}, std::move(shown)});
  }
  if (!page.ascending) std::ranges::reverse(all);
  return Listing(all, page);
}

Reply Service::Listing(const std::vector<Listed>& all, const Page& page) {
  auto list = ListOf(all, page, places_);
  if (auto* const error = std::get_if<api::ApiError>(&list)) return Refused(std::move(*error));
  return Answered(std::get<Shown>(list));
}

Reply Service::ListBatches(const Call& call) {
  auto read =
      PageOf(call.query, kUsualBatches, call.of_messages ? kMostListedMessageBatches : kMostListedBatches);
  if (auto* const error = std::get_if<api::ApiError>(&read)) return Refused(std::move(*error));
  Page& page = std::get<Page>(read);
  page.ascending = false;
  std::vector<Listed> all;
  for (const Batch& batch : batches_.OfTenant(call.principal->tenant)) {
    if (batch.of_messages() == call.of_messages) all.push_back({{batch.created, batch.id}, Show(batch)});
  }
  return Listing(all, page);
}

net::Task<Reply> Service::DeleteFile(Call call) {
  if (const std::optional<std::string> user = batches_.stored().UserOf(call.id);
      user && files_.Find(call.principal->tenant, call.id, net::Now()) != nullptr) {
    co_return Refused(api::Code::kConflict,
                      fmt::format("the batch {} needs this file until it has ended", *user), "file_id");
  }
  auto removed = co_await files_.Remove(call.principal->tenant, call.id, call.principal->key, net::Now());
  if (auto* const error = std::get_if<api::ApiError>(&removed)) co_return Refused(std::move(*error));
  co_return Answered(Deleted(call.id));
}

net::Task<Reply> Service::CreateBatch(Call call) {
  auto read = ReadCreation(call.body);
  if (auto* const error = std::get_if<api::ApiError>(&read)) co_return Refused(std::move(*error));
  auto& creation = std::get<Creation>(read);
  creation.principal = call.principal;
  auto created = co_await batches_.Create(std::move(creation), net::Now());
  if (auto* const error = std::get_if<api::ApiError>(&created)) co_return Refused(std::move(*error));
  co_return Answered(ShowBatch(std::get<Batch>(created)));
}

// Anthropic's API has no batch that fails as a whole: what is wrong with its requests is said at once.
net::Task<Reply> Service::CreateMessages(Call call) {
  const std::string file = call.upload.id;
  const absl::StatusOr<InputIndex> index = co_await batches_.Check(
      files_.UploadPathOf(file), files_.KeyOfFile(file), std::string(kMessagesUrl), call.principal);
  if (!index.ok() || !index->problems.empty()) {
    co_await files_.Abandon(file);
    if (!index.ok())
      co_return Refused(api::Code::kInternalError, "the gateway could not read the requests of this batch");
    std::string message;
    for (const BatchProblem& problem : index->problems | std::views::take(kMostNamedProblems))
      message += fmt::format("{}{}", message.empty() ? "" : "; ", WordsOf(problem));
    if (index->problem_count > kMostNamedProblems)
      message += fmt::format("; and {} more", index->problem_count - kMostNamedProblems);
    co_return Refused(api::Code::kInvalidValue, std::move(message), MemberOf(index->problems.front()));
  }
  const std::string key = call.principal->key;
  call.upload.tenant = call.principal->tenant;
  call.upload.key = key;
  call.upload.purpose = Purpose::kBatch;
  call.upload.name = fmt::format("{}.jsonl", file);
  auto kept = co_await files_.Keep(std::move(call.upload), net::Now());
  if (auto* const error = std::get_if<api::ApiError>(&kept)) co_return Refused(std::move(*error));
  Creation creation{.principal = call.principal,
                    .input_file = file,
                    .endpoint = std::string(kMessagesUrl),
                    .lines = index->total};
  auto created = co_await batches_.Create(std::move(creation), net::Now());
  if (auto* const error = std::get_if<api::ApiError>(&created)) {
    static_cast<void>(co_await files_.Remove(call.principal->tenant, file, key, net::Now()));
    co_return Refused(std::move(*error));
  }
  co_return Answered(Show(std::get<Batch>(created)));
}

// With its input and its results.
net::Task<Reply> Service::DeleteBatch(Call call) {
  const std::string tenant = call.principal->tenant;
  const std::string key = call.principal->key;
  auto deleted = co_await batches_.stored().Delete(tenant, call.id, key);
  if (auto* const error = std::get_if<api::ApiError>(&deleted)) co_return Refused(std::move(*error));
  const auto& batch = std::get<Batch>(deleted);
  for (const std::string& file : {batch.input_file, batch.output_file}) {
    if (!file.empty()) static_cast<void>(co_await files_.Remove(tenant, file, key, net::Now()));
  }
  co_return Answered({{"id", call.id}, {"type", "message_batch_deleted"}});
}

}  // namespace gateway::batches
