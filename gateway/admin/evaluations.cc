// Batches that compare models by a data set, and their answers side by side. Files are read on the readers' thread.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <variant>

#include "gateway/admin/answers/evaluations.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "gateway/batches/place_reader.h"
#include "gateway/batches/service.h"
#include "gateway/datasets/comparison.h"
#include "gateway/datasets/evaluation.h"

namespace gateway::admin {
namespace {

using batches::Batch;
using batches::Files;

// Of a set and its results, in bytes; the command reads larger ones.
constexpr uint64_t kMostShown = 64u << 20;

answers::Evaluation ShownEvaluation(const Batch& batch, const datasets::Evaluation& marks) {
  return {.id = batch.id,
          .tenant = batch.tenant,
          .set = marks.set_name,
          .models = marks.models,
          .state = std::string(batches::NameOf(batch.state)),
          .created = {batch.created},
          .ended = batch.ended ? std::optional<answers::Time>({*batch.ended}) : std::nullopt,
          .lines = batch.counts.total,
          .completed = batch.counts.completed,
          .failed = batch.counts.failed};
}

// The files of an evaluation: its set, then its results.
using Places = std::vector<Files::Place>;

net::Task<std::variant<Places, Answer>> PlacesOf(Files& files, Batch batch, std::string set,
                                                 const Call& call) {
  Places places;
  uint64_t bytes = 0;
  for (const std::string& id : {set, batch.output_file, batch.error_file}) {
    // A batch without failures has no file of them.
    const batches::StoredFile* const file = files.Find(batch.tenant, id, call.now);
    if (file == nullptr && id != set) continue;
    if (file == nullptr) {
      co_return Refuse(api::Code::kNotFound,
                       fmt::format("the data set of {} is no longer kept; `tidegate dataset evaluate --set "
                                   "FILE --batch {}` compares with your copy",
                                   batch.id, batch.id),
                       call.request_id);
    }
    absl::StatusOr<Files::Place> place = co_await files.PlaceOf(*file);
    if (absl::IsUnavailable(place.status())) co_return Refuse(place.status(), call.request_id);
    if (!place.ok()) {
      co_return Refuse(api::Code::kNotFound, fmt::format("the content of {} was erased", batch.id),
                       call.request_id);
    }
    bytes += place->most_bytes;
    places.push_back(*std::move(place));
  }
  if (bytes > kMostShown) {
    co_return Refuse(
        api::Code::kConflict,
        fmt::format("the set and the answers have {} MiB, more than the {} MiB that are shown here; "
                    "use `tidegate dataset evaluate --batch {}`",
                    bytes >> 20, kMostShown >> 20, batch.id),
        call.request_id);
  }
  co_return places;
}

absl::StatusOr<datasets::Comparison> CompareKept(const Places& places,
                                                 const std::vector<std::string>& models) {
  const absl::StatusOr<std::string> text = batches::ReadPlace(places.front(), kMostShown);
  if (!text.ok()) return text.status();
  const auto set = datasets::ReadSet(*text, datasets::kMostExamples);
  if (!set.ok()) return set.status();
  std::string results;
  for (size_t i = 1; i < places.size(); ++i) {
    const absl::StatusOr<std::string> part = batches::ReadPlace(places[i], kMostShown);
    if (!part.ok()) return part.status();
    results += *part;
  }
  return datasets::Compare(*set, models, results);
}

Answer NoEvaluation(const Call& call) {
  return Refuse(api::Code::kNotFound,
                fmt::format("no evaluation has the id \"{}\" at this gateway", call.item), call.request_id);
}

}  // namespace

Answer ListEvaluations(const Operations& operations, const Call& call) {
  std::vector<answers::Evaluation> rows;
  if (const batches::Service* const service = operations.shared->batches) {
    for (const Batch& batch : service->batches().All()) {
      const std::optional<datasets::Evaluation> marks = datasets::ReadMarks(batch.metadata);
      if (marks && call.May(Permission::kReadContent, batch.tenant))
        rows.push_back(ShownEvaluation(batch, *marks));
    }
  }
  return ListPage(std::move(rows), &answers::Evaluation::id, call);
}

net::Task<Answer> ShowEvaluation(const Operations& operations, const Call& call) {
  if (operations.shared->batches == nullptr) co_return NoEvaluation(call);
  batches::Service& service = *operations.shared->batches;
  const std::vector<Batch> all = service.batches().All();
  const auto batch = std::ranges::find(all, call.item, &Batch::id);
  const auto marks = batch != all.end() ? datasets::ReadMarks(batch->metadata) : std::nullopt;
  if (!marks || !call.May(Permission::kReadContent, batch->tenant)) co_return NoEvaluation(call);
  const std::variant<Places, Answer> places =
      co_await PlacesOf(service.files(), *batch, marks->set_file, call);
  if (const Answer* const refused = std::get_if<Answer>(&places)) co_return *refused;
  absl::StatusOr<datasets::Comparison> comparison = absl::UnknownError("not compared");
  const bool read =
      co_await call.read([&] { comparison = CompareKept(std::get<Places>(places), marks->models); });
  if (!read) co_return RefuseCrowded(call.request_id);
  if (!comparison.ok()) co_return Refuse(comparison.status(), call.request_id);
  std::vector<datasets::ComparedRow>& rows = comparison->rows;
  std::vector<std::string> numbers;
  for (size_t i = 1; i <= rows.size(); ++i) numbers.push_back(std::to_string(i));
  const std::variant<Page, Answer> page = PageOf({numbers.begin(), numbers.end()}, call);
  if (const Answer* const refused = std::get_if<Answer>(&page)) co_return *refused;
  const auto [begin, end] = std::get<Page>(page);
  answers::EvaluationPage out;
  out.evaluation = ShownEvaluation(*batch, *marks);
  out.models = std::move(comparison->models);
  out.examples = rows.size();
  out.has_more = end < rows.size();
  if (out.has_more) out.next = numbers[end - 1];
  out.data.assign(std::make_move_iterator(rows.begin() + static_cast<ptrdiff_t>(begin)),
                  std::make_move_iterator(rows.begin() + static_cast<ptrdiff_t>(end)));
  co_return Json(out);
}

}  // namespace gateway::admin
