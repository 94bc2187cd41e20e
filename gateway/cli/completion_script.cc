#include "gateway/cli/completion_script.h"

#include <absl/strings/str_replace.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "gateway/audit/feedback_usage.h"
#include "gateway/ledger/index.h"
#include "gateway/ledger/record.h"

namespace gateway::cli {
namespace {

constexpr char kBash[] = R"sh(# Completion of tidegate for bash, made by `tidegate completion bash`.
_tidegate() {
  local cur prev path word i value='' words='' names='' list=0 commands='' options='' before=''
  COMPREPLY=()
  cur=${COMP_WORDS[COMP_CWORD]}
  prev=${COMP_WORDS[COMP_CWORD-1]}
  if [[ $cur == '=' ]]; then
    cur=''
  elif [[ $prev == '=' && $COMP_CWORD -ge 2 ]]; then
    prev=${COMP_WORDS[COMP_CWORD-2]}
  fi
  path=tidegate
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    case "$path $word" in
      @PATHS@) path="$path $word" ;;
    esac
  done
  case "$path $prev" in
@VALUES@  esac
  if [[ -z $value ]]; then
    case "$path" in
@OFFERS@    esac
    if [[ $cur == -* ]]; then
      COMPREPLY=($(compgen -W "$options" -- "$cur"))
      return
    fi
    words="$commands $words"
  fi
  if [[ -n $names ]]; then
    words="$words $("${COMP_WORDS[0]}" completion-words "$names" 2>/dev/null)"
  fi
  if [[ $list == 1 && $cur == *,* ]]; then
    before="${cur%,*},"
    cur=${cur##*,}
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  if [[ -n $before ]]; then COMPREPLY=("${COMPREPLY[@]/#/$before}"); fi
}
complete -o default -F _tidegate tidegate
)sh";

constexpr char kZsh[] = R"sh(#compdef tidegate
# Completion of tidegate for zsh, made by `tidegate completion zsh`.
_tidegate() {
  local at word cur prev value='' of='' names='' list=0 positional=''
  local -a commands options offered
  cur=${words[CURRENT]}
  prev=${words[CURRENT-1]}
  at=tidegate
  for word in "${(@)words[2,CURRENT-1]}"; do
    case "$at $word" in
      @PATHS@) at="$at $word" ;;
    esac
  done
  case "$at $prev" in
@VALUES@  esac
  if [[ -z $value ]]; then
    case "$at" in
@OFFERS@    esac
    if [[ $cur == -* ]]; then
      _describe -o 'option' options
      return
    fi
    if (( $#commands )); then _describe 'command' commands; fi
    if [[ -z $positional ]]; then return; fi
  fi
  offered=(${=of})
  if [[ -n $names ]]; then
    offered+=(${(f)"$(${words[1]} completion-words $names 2>/dev/null)"})
  fi
  if (( ! $#offered )); then
    _files
  elif [[ $list == 1 ]]; then
    compset -P '*,'
    compadd -S '' -a offered
  else
    compadd -a offered
  fi
}
if [[ $funcstack[1] == _tidegate ]]; then _tidegate "$@"; else compdef _tidegate tidegate; fi
)sh";

struct Parameter {
  std::vector<std::string> names = {};  // "-c", "--config"; of a positional: its name
  std::string about = {};
  bool takes_value = true;
  bool is_list = false;                 // words joined by commas
  std::vector<std::string> words = {};  // that it may be; none: see `kind`
  std::string_view kind = {};           // of names that a gateway knows; empty: files
};

struct Command {
  std::string path;  // "tidegate jobs submit"
  std::string about;
  std::vector<const CLI::App*> below = {};
  std::vector<Parameter> options = {};
  std::vector<Parameter> positionals = {};
};

// Words that the options themselves do not check, since the gateway does.
std::vector<std::string> KnownWords(std::string_view option) {
  std::vector<std::string> words;
  if (option == "--by") {
    for (size_t i = 0; i < ledger::kUsageBys; ++i) words.emplace_back(Name(static_cast<ledger::UsageBy>(i)));
    words.emplace_back(kByFeedback);
  } else if (option == "--kind") {
    for (size_t i = 0; i < ledger::kKinds; ++i) words.emplace_back(Name(static_cast<ledger::Kind>(i)));
  } else if (option == "--role") {
    words = {"member", "lead", "viewer", "operator", "admin"};
  } else if (option == "--rights") {
    words = {"submit_jobs"};
  }
  return words;
}

// The words of IsMember: "TEXT:{table,csv,json}".
std::vector<std::string> CheckedWords(const CLI::Option& option) {
  std::vector<std::string> words;
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  const size_t close = type.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return words;
  for (size_t at = open + 1; at < close;) {
    const size_t end = std::min(type.find(',', at), close);
    words.push_back(type.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::string FirstLine(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

Parameter ParameterOf(const CLI::Option& option, std::string_view command) {
  Parameter out{.about = FirstLine(option.get_description())};
  if (option.nonpositional()) {
    for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  } else {
    out.names.push_back(option.get_single_name());
  }
  out.takes_value = option.get_items_expected_max() > 0;
  out.is_list = option.get_delimiter() != '\0';
  if (!out.takes_value) return out;
  out.words = CheckedWords(option);
  if (out.words.empty()) out.words = KnownWords(out.names.back());
  if (out.words.empty()) out.kind = NamesFor(command, out.names.back());
  return out;
}

void AddCommands(const CLI::App& app, const std::string& path, std::vector<Command>& out) {
  Command command{.path = path, .about = FirstLine(app.get_description())};
  command.below = app.get_subcommands(
      [](const CLI::App* one) { return !one->get_group().empty() && !one->get_name().empty(); });
  for (const CLI::Option* option : app.get_options()) {
    Parameter parameter = ParameterOf(*option, path);
    (option->nonpositional() ? command.options : command.positionals).push_back(std::move(parameter));
  }
  const std::vector<const CLI::App*> below = command.below;
  out.push_back(std::move(command));
  for (const CLI::App* each : below) AddCommands(*each, path + " " + each->get_name(), out);
}

std::vector<Command> CommandsOf(const CLI::App& app) {
  std::vector<Command> commands;
  AddCommands(app, app.get_name(), commands);
  return commands;
}

// A text in single quotes of a shell.
std::string Quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string OptionNames(const Command& command) {
  std::vector<std::string> names;
  for (const Parameter& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return fmt::format("{}", fmt::join(names, " "));
}

// What sets the words, names and list of a value; `words` is the shell's variable for the words.
std::string ValueLine(const Parameter& parameter, std::string_view words) {
  return fmt::format("{}={} names={} list={}", words,
                     Quoted(fmt::format("{}", fmt::join(parameter.words, " "))), Quoted(parameter.kind),
                     parameter.is_list ? 1 : 0);
}

// A case of a shell's `case` for each command and each of its options that takes a value.
std::string ValueCases(const std::vector<Command>& commands, std::string_view words) {
  std::string out;
  for (const Command& command : commands) {
    for (const Parameter& option : command.options) {
      if (!option.takes_value) continue;
      std::string patterns;
      for (const std::string& name : option.names)
        patterns += (patterns.empty() ? "" : "|") + Quoted(command.path + " " + name);
      out += fmt::format("    {}) value=1 {} ;;\n", patterns, ValueLine(option, words));
    }
  }
  return out;
}

std::string PathCases(const std::vector<Command>& commands) {
  std::string patterns;
  for (const Command& command : commands) {
    for (const CLI::App* below : command.below)
      patterns += (patterns.empty() ? "" : "|") + Quoted(command.path + " " + below->get_name());
  }
  return patterns;
}

}  // namespace

std::string_view NamesFor(std::string_view command, std::string_view parameter) {
  if (parameter == "--model") return "models";
  if (parameter == "--tenant" || parameter == "tenant") return "tenants";
  if (parameter == "--queue") return "queues";
  if (parameter == "node") return "nodes";
  if (parameter == "id" && command.starts_with("tidegate jobs ")) return "jobs";
  if (parameter == "id" && command.starts_with("tidegate keys ")) return "keys";
  return {};
}

std::string BashCompletion(const CLI::App& app) {
  const std::vector<Command> commands = CommandsOf(app);
  std::string offers;
  for (const Command& command : commands) {
    std::vector<std::string> below;
    for (const CLI::App* each : command.below) below.push_back(each->get_name());
    offers += fmt::format("      {}) commands={} options={}", Quoted(command.path),
                          Quoted(fmt::format("{}", fmt::join(below, " "))), Quoted(OptionNames(command)));
    if (!command.positionals.empty()) offers += " " + ValueLine(command.positionals.front(), "words");
    offers += " ;;\n";
  }
  return absl::StrReplaceAll(
      kBash,
      {{"@PATHS@", PathCases(commands)}, {"@VALUES@", ValueCases(commands, "words")}, {"@OFFERS@", offers}});
}

std::string ZshCompletion(const CLI::App& app) {
  const std::vector<Command> commands = CommandsOf(app);
  const auto described = [](const std::string& name, const std::string& about) {
    return Quoted(fmt::format("{}:{}", name, about));
  };
  std::string offers;
  for (const Command& command : commands) {
    std::vector<std::string> below;
    for (const CLI::App* each : command.below)
      below.push_back(described(each->get_name(), FirstLine(each->get_description())));
    std::vector<std::string> options;
    for (const Parameter& option : command.options) {
      for (const std::string& name : option.names) options.push_back(described(name, option.about));
    }
    offers += fmt::format("      {}) commands=({}) options=({})", Quoted(command.path), fmt::join(below, " "),
                          fmt::join(options, " "));
    if (!command.positionals.empty())
      offers += " positional=1 " + ValueLine(command.positionals.front(), "of");
    offers += " ;;\n";
  }
  return absl::StrReplaceAll(
      kZsh,
      {{"@PATHS@", PathCases(commands)}, {"@VALUES@", ValueCases(commands, "of")}, {"@OFFERS@", offers}});
}

}  // namespace gateway::cli
