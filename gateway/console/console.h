// The console's files by their paths, with the headers that a browser needs to keep them safe and cached.
//
// Pure; any thread. What the pages show comes from the admin API alone.
#pragma once

#include <optional>
#include <string_view>

#include "gateway/admin/web_page.h"

namespace gateway::console {

// A path of a page gives the document whatever follows its first segment, so that links into the console
// work. Answers 304 when `if_none_match` names what the client would get.
std::optional<admin::WebPage> Find(std::string_view path, std::string_view accept_encoding,
                                   std::string_view if_none_match);

}  // namespace gateway::console
