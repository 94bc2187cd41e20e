#include "plugins/weights/fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/net/clock.h"
#include "gateway/net/files.h"
#include "gateway/net/loop.h"
#include "gateway/net/tls.h"
#include "plugins/weights/copy.h"
#include "plugins/weights/digest.h"
#include "plugins/weights/fetch_files.h"
#include "plugins/weights/file_plan.h"
#include "plugins/weights/listing.h"
#include "plugins/weights/neighbours.h"

namespace plugins::weights {
namespace {

namespace fs = std::filesystem;
using gateway::net::Now;

constexpr std::string_view kPrefix = "sha256-";
constexpr conf::Duration kLookAgain = std::chrono::milliseconds(200);

std::string IdOf(std::string_view digest) {
  return fmt::format("{}{}", kPrefix, HexOfDigest(digest).value_or(std::string()));
}

// Removes files of an earlier plan, such as the plan of another source.
absl::Status RemoveStrangers(const std::string& folder, const FilePlan& plan) {
  std::set<std::string> wanted;
  for (const PlannedFile& file : plan.files) wanted.insert(file.path);
  std::vector<fs::path> strangers;
  std::error_code error;
  fs::recursive_directory_iterator walk(folder, error);
  if (error) return absl::OkStatus();  // there is none
  for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
    const std::string path = walk->path().lexically_relative(folder).generic_string();
    if (walk->is_directory()) {
      const auto next = wanted.lower_bound(path + "/");
      if (next == wanted.end() || !next->starts_with(path + "/")) strangers.push_back(walk->path());
    } else if (!wanted.contains(path)) {
      strangers.push_back(walk->path());
    }
  }
  for (const fs::path& path : strangers) {
    if (!error) fs::remove_all(path, error);
  }
  return error ? gateway::net::SystemError("clear", folder, error.value()) : absl::OkStatus();
}

// The bytes that one fetch has moved.
struct Moved {
  uint64_t transferred = 0;
  uint64_t neighbours = 0;  // of these, from their stores
  std::vector<std::string> notes{};
};

// One fetch, whose right this process has.
class OneFetch {
 public:
  OneFetch(const Store& store, const WeightsOrder& order, const FetchOptions& options)
      : store_(store),
        order_(order),
        options_(options),
        id_(IdOf(order.digest)),
        neighbours_(order, options.say) {}

  absl::StatusOr<Moved> Run() {
    absl::StatusOr<Moved> done = Steps();
    // Parts are not kept if they cannot become right, or if others need their room.
    const bool keep =
        done.ok() || (!absl::IsDataLoss(done.status()) && !absl::IsResourceExhausted(done.status()));
    if (!keep) store_.RemoveParts(id_).IgnoreError();
    return done;
  }

 private:
  absl::StatusOr<Moved> Steps() {
    const absl::StatusOr<Web::Options> web_options = Trusting(order_.ca);
    if (!web_options.ok()) return web_options.status();
    const absl::StatusOr<Web::Options> near = NeighboursWeb();
    if (!near.ok()) return near.status();
    options_.report({.phase = FetchPhase::kFetching, .at = Now()});
    absl::StatusOr<FilePlan> plan = PlanBy(*near, [this](Web& web) { return neighbours_.Plan(web); });
    const bool by_neighbour = plan.ok();
    if (!by_neighbour) plan = SourcePlan(*web_options);
    if (!plan.ok()) return plan.status();
    uint64_t total = 0;
    for (const PlannedFile& file : plan->files) total += file.size.value_or(0);
    if (absl::Status room = MakeRoom(total); !room.ok()) return room;
    const std::string folder = store_.PartsOf(id_) + "/files";
    if (absl::Status cleared = RemoveStrangers(folder, *plan); !cleared.ok()) return cleared;
    absl::StatusOr<FetchedFiles> fetched =
        FetchFiles(*plan, {.folder = folder,
                           .tags = store_.PartsOf(id_) + "/tags",
                           .connections = order_.connections,
                           .web = *web_options,
                           .neighbours = by_neighbour ? &neighbours_ : nullptr,
                           .neighbours_web = *near,
                           .source_plan = [&] { return SourcePlan(*web_options); },
                           .make_room = [this](uint64_t bytes) { return MakeRoom(bytes); },
                           .report =
                               [this](uint64_t bytes, uint64_t of) {
                                 options_.report(
                                     {.phase = FetchPhase::kFetching, .bytes = bytes, .of = of, .at = Now()});
                               },
                           .report_every = options_.report_every});
    if (!fetched.ok()) return fetched.status();
    if (absl::Status right = Compare(*plan, fetched->files); !right.ok()) return right;
    const absl::Status published = store_.Publish(id_, folder,
                                                  {.model = order_.model,
                                                   .source = InWords(order_.source),
                                                   .bytes = fetched->bytes,
                                                   .neighbours = fetched->neighbours,
                                                   .files = static_cast<uint32_t>(fetched->files.size()),
                                                   .fetched = Now()},
                                                  WriteListing(fetched->files), plan->manifest);
    if (!published.ok()) return published;
    return Moved{fetched->transferred, fetched->neighbours, neighbours_.notes()};
  }

  // `ca`: a file of authorities; empty: the system's.
  absl::StatusOr<Web::Options> Trusting(const std::string& ca) const {
    Web::Options out = options_.web;
    if (ca.empty()) return out;
    auto made = gateway::net::TlsContext::Client({.ca = ca, .certificate = {}, .key = {}});
    if (!made.ok()) return made.status();
    out.tls = *std::move(made);
    return out;
  }

  // A neighbour is left at the first try that brings nothing.
  absl::StatusOr<Web::Options> NeighboursWeb() const {
    absl::StatusOr<Web::Options> out = Trusting(order_.access.ca.empty() ? order_.ca : order_.access.ca);
    if (!out.ok()) return out;
    out->connect = options_.neighbour_connect;
    out->silence = options_.neighbour_silence;
    out->tries = 1;
    out->redirects = 0;
    return out;
  }

  template <class Ask>
  static absl::StatusOr<FilePlan> PlanBy(const Web::Options& web_options, Ask ask) {
    gateway::net::Loop loop([](const std::exception_ptr& error) { std::rethrow_exception(error); });
    Web web(loop, web_options);
    return gateway::net::Await(loop, ask(web));
  }
  absl::StatusOr<FilePlan> SourcePlan(const Web::Options& web_options) const {
    return PlanBy(web_options, [this](Web& web) { return PlanFiles(web, order_); });
  }

  absl::Status MakeRoom(uint64_t bytes) const {
    Store::Need need{.bytes = bytes, .limit = order_.size, .now = Now()};
    for (const std::string& digest : order_.pins) need.pinned.push_back(IdOf(digest));
    return store_.MakeRoom(id_, need).status();
  }

  absl::Status Compare(const FilePlan& plan, const std::vector<ListedFile>& files) const {
    if (plan.digest == DigestOf::kManifest) return absl::OkStatus();
    const std::string hex =
        plan.digest == DigestOf::kFile ? files.front().sha256 : Sha256Hex(WriteListing(files));
    if (hex == HexOfDigest(order_.digest)) return absl::OkStatus();
    return absl::DataLossError(fmt::format(
        "{}: {} sha256:{}, and should be {}", InWords(order_.source),
        plan.digest == DigestOf::kFile ? "its digest is" : "the digest of its files is", hex, order_.digest));
  }

  const Store& store_;
  const WeightsOrder& order_;
  const FetchOptions& options_;
  const std::string id_;
  Neighbours neighbours_;
};

// How far the process is that fetches them.
FetchProgress ProgressElsewhere(const Store& store, const std::string& id) {
  FetchProgress progress{.phase = FetchPhase::kWaiting, .at = Now()};
  progress.bytes = TreeBytes(store.PartsOf(id) + "/files");
  const absl::StatusOr<std::string> need = gateway::net::ReadFile(store.PartsOf(id) + "/need", 64);
  if (need.ok()) progress.of = conf::ReadNumber<uint64_t>(*need).value_or(0);
  return progress;
}

}  // namespace

absl::StatusOr<FetchedWeights> FetchWeights(const WeightsOrder& order, FetchOptions options) {
  const absl::StatusOr<Store> store = Store::Open(order.store);
  if (!store.ok()) return store.status();
  const std::string id = IdOf(order.digest);
  FetchedWeights out;
  conf::TimePoint next_report{};
  while (true) {
    absl::StatusOr<std::optional<Lease>> held = store->Hold(id, Now());
    if (!held.ok()) return held.status();
    if (held->has_value()) {
      out.weights = **std::move(held);
      break;
    }
    absl::StatusOr<std::optional<gateway::net::Fd>> right = store->TryFetch(id);
    if (!right.ok()) return right.status();
    if (!right->has_value()) {
      if (Now() >= next_report) {
        options.report(ProgressElsewhere(*store, id));
        next_report = Now() + options.report_every;
      }
      std::this_thread::sleep_for(kLookAgain);
      continue;
    }
    std::error_code error;
    if (fs::is_directory(store->FolderOf(id), error)) continue;  // another has just fetched them
    absl::StatusOr<Moved> moved = OneFetch(*store, order, options).Run();
    if (!moved.ok()) return moved.status();
    out.transferred += moved->transferred;
    out.neighbours += moved->neighbours;
    std::ranges::move(moved->notes, std::back_inserter(out.notes));
  }
  if (!order.cache.empty()) {
    absl::StatusOr<Lease> cache = store->HoldCache("cache-" + order.cache, Now());
    if (!cache.ok()) return cache.status();
    out.cache = *std::move(cache);
  }
  const absl::StatusOr<std::vector<StoredEntry>> entries = store->List();
  if (!entries.ok()) return entries.status();
  for (const StoredEntry& stored : *entries) {
    if (!stored.entry.complete || !stored.entry.id.starts_with(kPrefix)) continue;
    out.holds.push_back(stored.entry.id.substr(kPrefix.size()));
    if (stored.entry.id == id) out.bytes = stored.entry.bytes;
  }
  options.report({.phase = FetchPhase::kFetched,
                  .bytes = out.bytes,
                  .of = out.bytes,
                  .transferred = out.transferred,
                  .neighbours = out.neighbours,
                  .notes = out.notes,
                  .at = Now(),
                  .holds = out.holds});
  return out;
}

absl::StatusOr<std::string> DigestOfPath(const std::string& path) {
  absl::StatusOr<FilePlan> plan = PlanPath({path});
  if (plan.ok()) plan = Checked(*std::move(plan), path);
  if (!plan.ok()) return plan.status();
  std::vector<ListedFile> files;
  for (const PlannedFile& file : plan->files) {
    absl::StatusOr<std::string> sha256 = HashFile(file.from);
    if (!sha256.ok()) return sha256.status();
    files.push_back({file.path, *std::move(sha256)});
  }
  return "sha256:" +
         (plan->digest == DigestOf::kFile ? files.front().sha256 : Sha256Hex(WriteListing(files)));
}

absl::Status VerifyWeights(const Store& store, const std::string& id) {
  const absl::StatusOr<std::string> listing = store.ListingOf(id);
  if (!listing.ok()) return listing.status();
  const absl::StatusOr<std::vector<ListedFile>> files = ReadListing(*listing, id);
  if (!files.ok()) return files.status();
  for (const ListedFile& file : *files) {
    const std::string path = fmt::format("{}/{}", store.FolderOf(id), file.path);
    const absl::StatusOr<std::string> sha256 = HashFile(path);
    if (!sha256.ok()) return sha256.status();
    if (*sha256 != file.sha256) {
      return absl::DataLossError(
          fmt::format("{}: its SHA-256 is {}, and should be {}; remove the weights with tidegate weights "
                      "remove, and they are fetched again",
                      conf::Visible(path), *sha256, file.sha256));
    }
  }
  return absl::OkStatus();
}

}  // namespace plugins::weights
