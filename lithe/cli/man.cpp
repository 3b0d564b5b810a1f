// Manual pages, made of what --help says.
#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>

#include "lithe/base/did_you_mean.h"
#include "lithe/base/error.h"
#include "lithe/base/files.h"
#include "lithe/base/machine.h"
#include "lithe/cli/command.h"

namespace lithe {
namespace {

struct ManOptions {
  std::string verb, out;
};

// Text that roff prints as it is.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  std::istringstream lines(out);
  std::string safe;
  for (std::string line; std::getline(lines, line);)  // a dot or an apostrophe would begin a request
    safe += cat(line.starts_with('.') || line.starts_with('\'') ? "\\&" : "", line, "\n");
  return safe;
}

std::string heading(const std::string& name) {
  std::string upper = name;
  for (char& c : upper) c = char(std::toupper(static_cast<unsigned char>(c)));
  return cat(".TH ", upper, " 1 \"\" \"lithe ", build_info().version, "\" \"User Commands\"\n");
}

std::string footer_of(const std::string& text) {
  return text.empty() ? "" : cat(".SH NOTES\n.nf\n", roff(text), ".fi\n");
}

std::string options_of(const VerbDoc& verb) {
  std::string out;
  for (const OptionDoc& o : verb.options) {
    std::string head;
    for (const std::string& name : o.names) head += (head.empty() ? "" : ", ") + name;
    const std::string tag = roff(head);
    out += cat(".TP\n\\fB", tag.substr(0, tag.size() - 1), "\\fR", o.value.empty() ? "" : " " + o.value,
               o.several ? " ..." : "", "\n", roff(o.help + (o.required ? " (required)" : "")));
  }
  return out;
}

std::string page_of(const VerbDoc& verb) {
  std::string words;
  for (const OptionDoc& o : verb.options)
    if (o.positional)
      words += cat(" ", o.required ? "" : "[", o.names[0], o.several ? "..." : "", o.required ? "" : "]");
  const std::string name = "lithe-" + verb.name;
  return cat(heading(name), ".SH NAME\n", roff(name + " - " + verb.help), ".SH SYNOPSIS\n.B lithe ", verb.name,
             "\n[OPTIONS]", roff(words), ".SH OPTIONS\n", options_of(verb), footer_of(verb.footer),
             ".SH SEE ALSO\n.BR lithe (1)\n");
}

std::string page_of_program(const std::vector<VerbDoc>& all) {
  const ProgramHelp help = program_help();
  std::string out = cat(
      heading("lithe"), ".SH NAME\n", roff("lithe - train, measure and run efficient Transformers on CPUs"),
      ".SH SYNOPSIS\n.B lithe\nSUBCOMMAND [OPTIONS]\n.SH DESCRIPTION\n", roff(help.description), ".SH SUBCOMMANDS\n");
  for (const VerbDoc& verb : all) out += cat(".TP\n.BR lithe-", verb.name, " (1)\n", roff(verb.help));
  return out + footer_of(help.footer);
}

int run_man(const ManOptions& o) {
  const std::vector<VerbDoc> all = describe_verbs(verbs());
  if (!o.out.empty()) {
    std::filesystem::create_directories(o.out);
    write_file(Path(o.out) / "lithe.1", page_of_program(all));
    for (const VerbDoc& verb : all) write_file(Path(o.out) / ("lithe-" + verb.name + ".1"), page_of(verb));
    return 0;
  }
  if (o.verb.empty()) {
    std::cout << page_of_program(all);
    return 0;
  }
  std::vector<std::string> names;
  for (const VerbDoc& verb : all) {
    names.push_back(verb.name);
    if (verb.name != o.verb) continue;
    std::cout << page_of(verb);
    return 0;
  }
  fail_usage("man", "there is no subcommand '", o.verb, "'", did_you_mean(o.verb, names));
}

}  // namespace

Command add_man(CommandLine& app) {
  auto o = std::make_shared<ManOptions>();
  const Option verb = app.add_option("subcommand", o->verb, "whose page to print; default: the program's");
  app.add_option("--out", o->out, "write all pages into this directory instead")
      .output({.kind = OutputRule::Kind::shared, .own = {"lithe.1", "lithe-*"}})
      .excludes(verb);
  app.footer("Example: lithe man train | man -l -");
  return [o] { return run_man(*o); };
}

}  // namespace lithe
