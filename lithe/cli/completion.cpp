// Completion scripts of shells, made of what --help says.
#include <iostream>
#include <memory>
#include <sstream>

#include "lithe/base/error.h"
#include "lithe/cli/command.h"

namespace lithe {
namespace {

std::string joined(const std::vector<std::string>& words, const std::string& between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

std::string names_of(const VerbDoc& verb) {
  std::string out;
  for (const OptionDoc& o : verb.options)
    if (!o.positional) out += (out.empty() ? "" : " ") + joined(o.names, " ");
  return out;
}

std::string bash(const std::vector<VerbDoc>& all) {
  std::string verbs, cases;
  for (const VerbDoc& verb : all) {
    verbs += (verbs.empty() ? "" : " ") + verb.name;
    cases += cat("    ", verb.name, ")\n      case \"$before\" in\n");
    for (const OptionDoc& o : verb.options)
      if (!o.choices.empty() && !o.positional)
        cases += cat("        ", joined(o.names, "|"), ") words=\"", joined(o.choices, " "), "\" ;;\n");
    for (const OptionDoc& o : verb.options)
      if (!o.choices.empty() && o.positional)
        cases += cat("        ", verb.name, ") words=\"", joined(o.choices, " "), "\" ;;\n");
    cases += cat("        *) case \"$word\" in -*) words=\"", names_of(verb), "\" ;; esac ;;\n      esac\n      ;;\n");
  }
  return cat(R"(# bash completion of lithe: . <(lithe completion bash)
_lithe() {
  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W ")",
             verbs, R"( --help --version" -- "$word"))
    return
  fi
  case "${COMP_WORDS[1]}" in
)",
             cases, R"(  esac
  COMPREPLY=()
  if [ -n "$words" ]; then COMPREPLY=($(compgen -W "$words" -- "$word")); fi
}
complete -o default -F _lithe lithe
)");
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

// Inside of '...' of a shell.
std::string quoted(const std::string& text) { return replaced(text, "'", "'\\''"); }

std::string zsh(const std::vector<VerbDoc>& all) {
  // Brackets and colons divide what _arguments reads.
  const auto plain = [](const std::string& text) {
    std::string out = quoted(replaced(text, "\\", ""));
    for (const char* c : {"[", "]", ":"}) out = replaced(out, c, std::string("\\") + c);
    return out;
  };
  std::string verbs, cases;
  for (const VerbDoc& verb : all) {
    verbs += cat("    '", verb.name, ":", plain(verb.help), "'\n");
    cases += cat("    ", verb.name, ")\n      _arguments");
    for (const OptionDoc& o : verb.options) {
      const std::string what =
          o.choices.empty() ? (o.value == "TEXT" ? "_files" : "") : "(" + joined(o.choices, " ") + ")";
      if (o.positional) {
        cases += cat(" \\\n        '", o.several ? "*" : "", ":", o.names[0], ":", what, "'");
        continue;
      }
      for (const std::string& name : o.names)
        cases += cat(" \\\n        '*", name, "[", plain(o.help), "]", o.value.empty() ? "" : ":value:" + what, "'");
    }
    cases += "\n      ;;\n";
  }
  return cat(
      "#compdef lithe\n# zsh completion of lithe: lithe completion zsh > ~/.zfunc/_lithe\n_lithe() {\n  local -a "
      "verbs\n  verbs=(\n",
      verbs,
      "  )\n  if (( CURRENT == 2 )); then\n    _describe subcommand verbs\n    return\n  fi\n"
      "  local verb=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $verb in\n",
      cases, "  esac\n}\nif [ \"$funcstack[1]\" = _lithe ]; then _lithe \"$@\"; else compdef _lithe lithe; fi\n");
}

std::string fish(const std::vector<VerbDoc>& all) {
  std::string out = "# fish completion of lithe: lithe completion fish | source\n";
  for (const VerbDoc& verb : all)
    out += cat("complete -c lithe -f -n __fish_use_subcommand -a ", verb.name, " -d '", quoted(verb.help), "'\n");
  for (const VerbDoc& verb : all)
    for (const OptionDoc& o : verb.options) {
      const std::string when = cat("complete -c lithe -n '__fish_seen_subcommand_from ", verb.name, "'");
      if (o.positional) {
        if (!o.choices.empty()) out += cat(when, " -f -a '", joined(o.choices, " "), "'\n");
        continue;
      }
      out += when;
      for (const std::string& name : o.names)
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!o.choices.empty())
        out += cat(" -x -a '", joined(o.choices, " "), "'");
      else if (!o.value.empty())
        out += o.value == "TEXT" ? " -r" : " -x";
      out += cat(" -d '", quoted(o.help), "'\n");
    }
  return out;
}

}  // namespace

Command add_completion(CommandLine& app) {
  auto shell = std::make_shared<std::string>();
  app.add_option("shell", *shell, "bash, zsh or fish").required().one_of({"bash", "zsh", "fish"});
  app.footer("Example: . <(lithe completion bash)");
  return [shell] {
    const std::vector<VerbDoc> all = describe_verbs(verbs());
    std::cout << (*shell == "bash" ? bash(all) : *shell == "zsh" ? zsh(all) : fish(all));
    return 0;
  };
}

}  // namespace lithe
