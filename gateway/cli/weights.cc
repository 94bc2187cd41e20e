// tidegate weights: the store of models' weights on this node. `fetch` is the step before an engine, which every
// launcher runs: it brings the weights into the store, holds them there, and becomes the engine. `serve` lets the
// fetches of other nodes read the store.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "conf/reader.h"
#include "conf/text.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/interruption.h"
#include "gateway/cli/output.h"
#include "gateway/cli/problems.h"
#include "gateway/config/model_policy.h"
#include "gateway/config/sources.h"
#include "gateway/net/clock.h"
#include "gateway/net/files.h"
#include "gateway/net/tls.h"
#include "plugins/weights/digest.h"
#include "plugins/weights/fetch.h"
#include "plugins/weights/neighbour_server.h"

namespace gateway::cli {
namespace {

using nlohmann::ordered_json;
namespace weights = plugins::weights;

constexpr size_t kLongestPolicy = 4U << 20;

struct WeightsOptions {
  std::string store;
  std::string size;
  std::string policy;
  std::string cache;
  std::string path;
  std::vector<std::string> neighbours;
  std::string ca;
  std::string token = "env:TIDEGATE_WEIGHTS_TOKEN";
  std::string listen = ":9470";
  std::string certificate;
  std::string key;
  size_t connections = 64;
  uint32_t threads = 4;
  std::vector<std::string> digests;
  std::vector<std::string> command;
  bool json = false;
};

void Say(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

// The token of the neighbours. No message repeats what was given in its place.
absl::StatusOr<std::string> TokenOf(const std::string& reference, std::string_view option) {
  const auto wrong = [&](std::string_view why) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", option, why));
  };
  const conf::Sources sources = SystemSources();
  std::string token;
  if (reference.starts_with("env:")) {
    const std::string name = reference.substr(4);
    std::optional<std::string> value = sources.environment(name);
    if (!value) return wrong(fmt::format("the variable {} is not set; set it, or give file:PATH", name));
    token = *std::move(value);
  } else if (reference.starts_with("file:")) {
    absl::StatusOr<std::string> text = sources.file(reference.substr(5));
    if (!text.ok()) return wrong(conf::Std(text.status().message()));
    token = *std::move(text);
  } else {
    return wrong("must be env:NAME or file:PATH, since other users of this machine can read a command line");
  }
  while (token.ends_with('\n') || token.ends_with('\r')) token.pop_back();
  constexpr size_t kShortest = 16;
  const auto is_plain = [](char c) { return c > ' ' && c < 0x7f; };
  if (token.size() < kShortest || !std::ranges::all_of(token, is_plain)) {
    return wrong(
        fmt::format("the token in {} must have at least {} characters, all of them ASCII without spaces",
                    reference, kShortest));
  }
  return token;
}

// Of the policy's weights, into the store that the command line names.
absl::StatusOr<weights::WeightsOrder> OrderOfPolicy(const WeightsOptions& options) {
  if (options.store.empty())
    return absl::InvalidArgumentError("--policy needs --store, the folder of this node for weights");
  const absl::StatusOr<std::string> text = net::ReadFile(options.policy, kLongestPolicy);
  if (!text.ok()) return text.status();
  const auto loaded = config::ReadModelPolicy(*text, options.policy, SystemSources());
  if (!loaded.value) {
    PrintProblems(loaded.problems, false);
    return absl::InvalidArgumentError(fmt::format("{} is not a valid policy", options.policy));
  }
  if (!loaded.value->weights) {
    return absl::InvalidArgumentError(
        fmt::format("{} has no section weights, which says where they come from", options.policy));
  }
  weights::WeightsOrder order;
  order.store = options.store;
  order.digest = loaded.value->weights->digest;
  order.model = loaded.value->model();
  order.source = config::SourceOf(*loaded.value->weights);
  order.neighbours = options.neighbours;
  if (!order.neighbours.empty()) {
    absl::StatusOr<std::string> token = TokenOf(options.token, "--neighbour-token");
    if (!token.ok()) return token.status();
    order.access = {*std::move(token), options.ca};
  }
  if (!options.size.empty()) {
    const std::optional<uint64_t> size = conf::ParseSize(options.size);
    if (!size)
      return absl::InvalidArgumentError(
          fmt::format("--size: \"{}\" is not a size; give one such as 500GiB", options.size));
    order.size = *size;
  }
  return order;
}

// The variable may hold secrets, and is gone after this.
absl::StatusOr<weights::WeightsOrder> OrderOfEnvironment() {
  const char* const text = std::getenv(weights::kOrderVariable);
  if (text == nullptr) {
    return absl::InvalidArgumentError(
        "give --policy and --store; without them the order of a launcher is expected in the variable "
        "TIDEGATE_WEIGHTS");
  }
  absl::StatusOr<weights::WeightsOrder> order = weights::ReadOrder(text);
  unsetenv(weights::kOrderVariable);
  return order;
}

// What was fetched in one step.
using FetchedAll = std::vector<weights::FetchedWeights>;

void Inherit(const weights::Lease& lease) {
  fcntl(lease.lock.get(), F_SETFD, 0);
}

// The leases are handed on, so that the kernel holds them as long as the program lives.
int Become(const std::vector<std::string>& command, const FetchedAll& fetched) {
  for (const weights::FetchedWeights& one : fetched) {
    Inherit(one.weights);
    if (one.cache) Inherit(*one.cache);
  }
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGXFSZ, SIG_DFL);
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv.front(), argv.data());
  const int error = errno;
  fmt::print(stderr, "tidegate: cannot run {}: {}\n", VisibleLines(command.front()), std::strerror(error));
  constexpr int kNotFound = 127;
  constexpr int kNotExecutable = 126;
  return error == ENOENT ? kNotFound : kNotExecutable;
}

int FetchStep(const WeightsOptions& options) {
  absl::StatusOr<weights::WeightsOrder> order =
      options.policy.empty() ? OrderOfEnvironment() : OrderOfPolicy(options);
  if (!order.ok()) return Fail(order.status());
  std::signal(SIGXFSZ, SIG_IGN);  // a limit of files is an error that is told
  // One after the other: each is reported by itself, and all are held from then on.
  std::vector<weights::WeightsOrder> orders = {*order};
  for (const weights::AlsoOrdered& also : order->also) {
    weights::WeightsOrder& next = orders.emplace_back(*order);
    next.digest = also.digest;
    next.model = also.name;
    next.source = also.source;
    next.neighbours = also.neighbours;
    next.cache.clear();
  }
  FetchedAll all;
  for (const weights::WeightsOrder& one : orders) {
    weights::FetchOptions how;
    how.report = [](const weights::FetchProgress& progress) { Say(weights::ProgressLine(progress)); };
    how.say = [](std::string_view text) { Say(fmt::format("tidegate: {}\n", VisibleLines(text))); };
    absl::StatusOr<weights::FetchedWeights> fetched = weights::FetchWeights(one, std::move(how));
    if (!fetched.ok()) {
      const std::string why(conf::Std(fetched.status().message()));
      Say(weights::ProgressLine({.phase = weights::FetchPhase::kFailed, .at = net::Now(), .why = why}));
      return Fail(fetched.status());
    }
    all.push_back(*std::move(fetched));
  }
  if (!options.command.empty()) return Become(options.command, all);
  for (const weights::FetchedWeights& one : all) fmt::print("{}\n", one.weights.folder);
  return kOk;
}

int HoldWeights(const WeightsOptions& options) {
  const absl::StatusOr<weights::Store> store = weights::Store::OpenExisting(options.store);
  if (!store.ok()) return Fail(store.status());
  const Interruption interruption;
  std::vector<weights::Lease> leases;
  for (const std::string& digest : options.digests) {
    const std::optional<std::string> hex = weights::HexOfDigest(digest);
    if (!hex)
      return Fail(absl::InvalidArgumentError(
          fmt::format("--digest: \"{}\" is not a digest; it must be sha256: and 64 hex digits", digest)));
    auto held = store->Hold("sha256-" + *hex, net::Now());
    if (!held.ok()) return Fail(held.status());
    if (!held->has_value())
      return Fail(absl::NotFoundError(fmt::format("{} has no weights {}", options.store, digest)));
    leases.push_back(*std::move(*held));
  }
  std::optional<weights::Lease> cache;
  if (!options.cache.empty()) {
    auto lease = store->HoldCache("cache-" + options.cache, net::Now());
    if (!lease.ok()) return Fail(lease.status());
    cache = *std::move(lease);
  }
  while (!interruption.seen()) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return kOk;
}

int ServeWeights(const WeightsOptions& options) {
  const absl::StatusOr<weights::Store> store = weights::Store::Open(options.store);
  if (!store.ok()) return Fail(store.status());
  absl::StatusOr<std::string> token = TokenOf(options.token, "--token");
  if (!token.ok()) return Fail(token.status());
  weights::NeighbourServer::Options how;
  how.address = options.listen;
  how.token = *std::move(token);
  how.connections = options.connections;
  how.threads = options.threads;
  if (options.certificate.empty() != options.key.empty())
    return Fail(absl::InvalidArgumentError("--certificate and --key belong together; give both, or none"));
  if (!options.certificate.empty()) {
    auto tls =
        net::TlsContext::Server({.certificate = options.certificate, .key = options.key, .client_ca = {}});
    if (!tls.ok()) return Fail(tls.status());
    how.tls = *std::move(tls);
  }
  how.on_sent = [](const weights::NeighbourServer::Sent& sent) {
    Say(fmt::format("tidegate: {} {} of {}, {}, to {} in {:.1f} s\n",
                    sent.bytes == sent.of ? "sent" : "broke off", VisibleLines(sent.path),
                    sent.id.substr(0, 19), weights::InBytes(sent.bytes), sent.peer,
                    conf::ToSeconds(sent.took)));
  };
  const Interruption interruption;
  const auto server = weights::NeighbourServer::Start(*store, std::move(how));
  if (!server.ok()) return Fail(server.status());
  Say(fmt::format("tidegate: serves the weights of {} on port {}\n", options.store, (*server)->port()));
  while (!interruption.seen()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return kOk;
}

std::string StateOf(const weights::StoredEntry& stored) {
  if (!stored.entry.complete) return stored.entry.held ? "being fetched" : "incomplete";
  if (stored.entry.held) return "in use";
  return stored.entry.pinned ? "pinned" : "kept";
}

int ListStore(const WeightsOptions& options) {
  const absl::StatusOr<weights::Store> store = weights::Store::OpenExisting(options.store);
  if (!store.ok()) return Fail(store.status());
  const auto entries = store->List();
  if (!entries.ok()) return Fail(entries.status());
  if (options.json) {
    ordered_json out = ordered_json::array();
    for (const weights::StoredEntry& stored : *entries) {
      const bool cache = stored.entry.id.starts_with("cache-");
      out.push_back({{"kind", cache ? "compile_cache" : "weights"},
                     {"id", cache ? stored.entry.id : "sha256:" + stored.entry.id.substr(7)},
                     {"model", stored.record.model},
                     {"source", stored.record.source},
                     {"bytes", stored.entry.bytes},
                     {"bytes_of_neighbours", stored.record.neighbours},
                     {"files", stored.record.files},
                     {"state", StateOf(stored)},
                     {"pinned", stored.record.pinned},
                     {"used_at", conf::FormatTime(stored.entry.used)}});
    }
    fmt::print("{}\n", AsText(out));
    return kOk;
  }
  Table table({{"MODEL"}, {"WEIGHTS"}, {"SIZE", true}, {"STATE"}, {"LAST USED"}, {"FROM"}});
  for (const weights::StoredEntry& stored : *entries) {
    constexpr size_t kShown = 19;  // "sha256-" and twelve digits
    std::string from = stored.record.source.empty() ? "-" : stored.record.source;
    if (stored.record.neighbours > 0)
      from += fmt::format(" ({} from neighbours)", weights::InBytes(stored.record.neighbours));
    table.Add({stored.record.model.empty() ? "-" : stored.record.model, stored.entry.id.substr(0, kShown),
               weights::InBytes(stored.entry.bytes), StateOf(stored), conf::FormatTime(stored.entry.used),
               std::move(from)});
  }
  fmt::print("{}", table.Render());
  return kOk;
}

// The one entry whose id or digest begins so.
absl::StatusOr<std::string> FindEntry(const weights::Store& store, const std::string& text) {
  const auto entries = store.List();
  if (!entries.ok()) return entries.status();
  std::string prefix = text;
  if (prefix.starts_with("sha256:")) prefix[6] = '-';
  std::vector<std::string> found;
  for (const weights::StoredEntry& stored : *entries) {
    if (stored.entry.id.starts_with(prefix) || stored.entry.id.starts_with("sha256-" + prefix))
      found.push_back(stored.entry.id);
  }
  if (found.empty())
    return absl::NotFoundError(fmt::format("the store has no {}; see tidegate weights list", text));
  std::ranges::sort(found);
  if (found.front() != found.back())
    return absl::InvalidArgumentError(fmt::format("{} names several entries; give more digits", text));
  return found.front();
}

template <class Act>
int ForEach(const WeightsOptions& options, Act act) {
  const absl::StatusOr<weights::Store> store = weights::Store::OpenExisting(options.store);
  if (!store.ok()) return Fail(store.status());
  for (const std::string& text : options.digests) {
    const absl::StatusOr<std::string> id = FindEntry(*store, text);
    const absl::Status done = id.ok() ? act(*store, *id) : id.status();
    if (!done.ok()) return Fail(done);
  }
  return kOk;
}

int PrintDigest(const WeightsOptions& options) {
  const absl::StatusOr<std::string> digest = weights::DigestOfPath(options.path);
  if (!digest.ok()) return Fail(digest.status());
  fmt::print("{}\n", *digest);
  return kOk;
}

using SharedWeightsOptions = std::shared_ptr<WeightsOptions>;

void AddStoreOption(CLI::App& command, const SharedWeightsOptions& options) {
  command.add_option("--store", options->store, "The folder of this node for weights: scaling.weights.store")
      ->required();
}

void AddFetch(CLI::App& group, Run& run) {
  CLI::App* const fetch =
      group.add_subcommand("fetch", "Bring a model's weights into the store, and run a command with them");
  auto options = std::make_shared<WeightsOptions>();
  fetch->add_option("--policy", options->policy,
                    "The policy whose weights are fetched; default: the order in TIDEGATE_WEIGHTS, as a "
                    "launcher gives it");
  fetch->add_option("--store", options->store, "With --policy: the folder of this node for weights");
  fetch->add_option("--size", options->size,
                    "With --policy: how much the store may hold (500GiB); default: what the disk has room "
                    "for");
  fetch->add_option(
      "--neighbour", options->neighbours,
      "With --policy: the URL of another node's tidegate weights serve, which is asked before the "
      "source; may be given several times");
  fetch
      ->add_option("--neighbour-token", options->token,
                   "Where the neighbours' token is: env:NAME or file:PATH")
      ->capture_default_str();
  fetch->add_option("--neighbour-ca", options->ca,
                    "A file with the certificate authorities of neighbours; default: the system's");
  fetch->add_option("COMMAND", options->command,
                    "After --: the command that replaces this program; the weights stay while it runs");
  fetch->footer(
      "The weights are fetched once, even if several commands ask for them, verified by their digest, and "
      "resumed\n"
      "after a break. Without a command, their folder is printed.\n\n"
      "Example:\n"
      "  tidegate weights fetch --policy conf/policies/scaling/chat.yaml --store /var/lib/tidegate/weights");
  fetch->callback([options, &run] { run = [options] { return FetchStep(*options); }; });
}

void AddHold(CLI::App& group, Run& run) {
  CLI::App* const hold = group.add_subcommand(
      "hold", "Keep weights in the store until SIGTERM, beside an engine in a container");
  auto options = std::make_shared<WeightsOptions>();
  AddStoreOption(*hold, options);
  hold->add_option("--digest", options->digests,
                   "Digest of the weights: sha256:HEX; may be given several times")
      ->required();
  hold->add_option("--cache", options->cache, "The key of a compile cache that is kept, too");
  hold->footer(
      "Example:\n  tidegate weights hold --store /var/lib/tidegate-weights --digest sha256:0123…  # the "
      "whole digest");
  hold->callback([options, &run] { run = [options] { return HoldWeights(*options); }; });
}

void AddServeWeights(CLI::App& group, Run& run) {
  CLI::App* const serve =
      group.add_subcommand("serve", "Let other nodes fetch the weights of this node, until SIGTERM");
  auto options = std::make_shared<WeightsOptions>();
  AddStoreOption(*serve, options);
  serve
      ->add_option("--listen", options->listen, "Address and port: 10.0.0.7:9470, or :9470 for all addresses")
      ->capture_default_str();
  serve
      ->add_option("--token", options->token,
                   "Where the token is that other nodes give: env:NAME or file:PATH")
      ->capture_default_str();
  serve->add_option("--certificate", options->certificate,
                    "A PEM file with the certificate for TLS; default: no TLS");
  serve->add_option("--key", options->key, "A PEM file with the private key of --certificate");
  serve->add_option("--connections", options->connections, "Connections at a time; others are closed at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  serve->add_option("--threads", options->threads, "Threads that read the disk and send")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  serve->footer(
      "Only complete weights are served, by their digest, and are kept in the store meanwhile. Fetches ask "
      "this\n"
      "server if scaling.weights.neighbours of the gateway's configuration names it.\n\n"
      "Example:\n"
      "  tidegate weights serve --store /var/lib/tidegate-weights --token file:/etc/tidegate/weights-token");
  serve->callback([options, &run] { run = [options] { return ServeWeights(*options); }; });
}

void AddList(CLI::App& group, Run& run) {
  CLI::App* const list = group.add_subcommand("list", "Show what the store of this node holds");
  auto options = std::make_shared<WeightsOptions>();
  AddStoreOption(*list, options);
  list->add_flag("--json", options->json, "Print JSON");
  list->footer("Example:\n  tidegate weights list --store /var/lib/tidegate-weights");
  list->callback([options, &run] { run = [options] { return ListStore(*options); }; });
}

template <class Act>
void AddForEach(CLI::App& group, Run& run, const char* name, const char* help, Act act) {
  CLI::App* const command = group.add_subcommand(name, help);
  auto options = std::make_shared<WeightsOptions>();
  AddStoreOption(*command, options);
  command->add_option("WEIGHTS", options->digests, "Digests, or their first digits")->required();
  command->footer(
      fmt::format("Example:\n  tidegate weights {} --store /var/lib/tidegate-weights 0123456789ab", name));
  command->callback([options, act, &run] { run = [options, act] { return ForEach(*options, act); }; });
}

void AddDigest(CLI::App& group, Run& run) {
  CLI::App* const digest =
      group.add_subcommand("digest", "Print the digest of a file or folder, as a policy names it");
  auto options = std::make_shared<WeightsOptions>();
  digest->add_option("PATH", options->path, "The file or folder")->required();
  digest->footer(
      "The digest of a folder is the SHA-256 of its listing, which other tools compute, too:\n"
      "  find . -type f -printf '%P\\n' | LC_ALL=C sort | xargs -d '\\n' sha256sum | sha256sum\n\n"
      "Example:\n"
      "  tidegate weights digest /mnt/models/qwen3-8b");
  digest->callback([options, &run] { run = [options] { return PrintDigest(*options); }; });
}

}  // namespace

void AddWeights(CLI::App& app, Run& run) {
  CLI::App* const group =
      app.add_subcommand("weights", "Fetch, serve, list, pin and verify models' weights on this node");
  group->require_subcommand(1);
  AddFetch(*group, run);
  AddHold(*group, run);
  AddServeWeights(*group, run);
  AddList(*group, run);
  AddForEach(*group, run, "pin", "Keep weights even if others need their room",
             [](const weights::Store& store, const std::string& id) { return store.SetPinned(id, true); });
  AddForEach(*group, run, "unpin", "Let the store remove weights again",
             [](const weights::Store& store, const std::string& id) { return store.SetPinned(id, false); });
  AddForEach(*group, run, "verify", "Read weights again and compare them with their hashes",
             [](const weights::Store& store, const std::string& id) {
               absl::Status right = weights::VerifyWeights(store, id);
               if (right.ok()) fmt::print("{} is as it was fetched\n", id);
               return right;
             });
  AddForEach(*group, run, "remove", "Remove weights that no replica uses",
             [](const weights::Store& store, const std::string& id) { return store.Remove(id); });
  AddDigest(*group, run);
}

}  // namespace gateway::cli
