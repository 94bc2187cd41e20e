#include "gateway/config/load.h"

#include <utility>

#include "conf/document.h"
#include "conf/file_problem.h"
#include "conf/reader.h"
#include "conf/text.h"
#include "gateway/config/adapters.h"
#include "gateway/config/check.h"
#include "gateway/config/load_scaling.h"

namespace gateway {

namespace {

constexpr std::string_view kKnownKeys[] = {
#include "gateway/config/known_keys.inc"
};

}  // namespace

LoadResult LoadConfig(const std::string& path, const conf::Sources& sources,
                      const config::MachineProbe& probe) {
  const absl::StatusOr<std::string> text = sources.file(path);
  if (text.ok()) return ParseConfig(*text, path, sources, probe);
  LoadResult out;
  out.problems.push_back(conf::FileProblem(path, conf::Std(text.status().message())));
  return out;
}

LoadResult ParseConfig(std::string_view text, const std::string& file, const conf::Sources& sources,
                       const config::MachineProbe& probe) {
  LoadResult out;
  conf::Document document(text, file, sources);
  document.KnowKeys(kKnownKeys);
  Config config;
  std::vector<conf::Problem> elsewhere;  // in files that this one names
  if (document.parsed()) {
    conf::Read(document.root(), config);
    config::CheckServer(document, config);
    config::CheckAuth(document, config);
    config::CheckPeople(document, config);
    config::CheckTenants(document, config);
    config::CheckModels(document, config);
    config::CheckRouting(document, config);
    config::CheckDisaggregation(document, config);
    config::CheckLedger(document, config);
    config::CheckFiles(document, config);
    config::LoadScaling(document, config, probe, elsewhere);
  }
  out.problems = document.TakeProblems();
  out.problems.insert(out.problems.end(), elsewhere.begin(), elsewhere.end());
  out.defaulted = document.TakeDefaulted();
  if (!out.problems.empty()) return out;
  config::TakeFromBases(config.models);
  out.config = std::move(config);
  return out;
}

}  // namespace gateway
