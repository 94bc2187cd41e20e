// A page of the console, as the admin listener sends it. The console (a floor above) finds it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gateway::admin {

struct WebPage {
  int status = 200;
  std::string_view body;  // lives as long as the process
  std::vector<std::pair<std::string, std::string>> headers;
};

// The page or the file at a path that is no call of the API; nothing: there is none.
using FindPage = std::optional<WebPage>(std::string_view path, std::string_view accept_encoding,
                                        std::string_view if_none_match);

}  // namespace gateway::admin
