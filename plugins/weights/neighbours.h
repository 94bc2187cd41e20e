// Neighbours: the stores of other nodes that one fetch may ask before the source, in order; and which of them it
// no longer asks, with the reason. A neighbour that cannot be reached, lacks the weights or sends wrong bytes is
// not asked again for this fetch.
//
// Any thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/weights/file_plan.h"
#include "plugins/weights/order.h"
#include "plugins/weights/web.h"

namespace plugins::weights {

class Neighbours {
 public:
  // `say` hears each reason. The caller keeps `order` alive.
  Neighbours(const WeightsOrder& order, std::function<void(std::string_view)> say);

  // The files, as the first neighbour that has them lists them; the listing has the digest, so each file's hash
  // is right. NotFound: no neighbour has them. Thread: the loop's of `web`.
  gateway::net::Task<absl::StatusOr<FilePlan>> Plan(Web& web);

  // The first neighbour from `at` on that is still asked.
  std::optional<size_t> Next(size_t at) const;
  // For a file with that SHA-256.
  WebRequest RequestFor(size_t neighbour, std::string_view sha256) const;

  // It has failed with that error, and is not asked again. DataLoss: it sent wrong bytes.
  void Leave(size_t neighbour, const absl::Status& why);
  // It has sent wrong bytes, perhaps to another thread: nothing of it is believed.
  bool IsWrong(size_t neighbour) const;

  // The reasons why neighbours were given up, except that a neighbour does not have the weights.
  std::vector<std::string> notes() const;

 private:
  struct Neighbour {
    std::string url{};  // without a slash at its end
    bool asked = true;
    bool wrong = false;
  };

  const WeightsOrder& order_;
  const std::string hex_;
  const std::shared_ptr<Credentials> credentials_;
  const std::function<void(std::string_view)> say_;
  mutable std::mutex mutex_;
  std::vector<Neighbour> all_;
  std::vector<std::string> notes_;
};

}  // namespace plugins::weights
