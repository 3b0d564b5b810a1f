#include <algorithm>
#include <cstdio>
#include <iostream>

#include "lithe/base/capabilities.h"
#include "lithe/base/did_you_mean.h"
#include "lithe/base/json.h"
#include "lithe/cli/command.h"
#include "lithe/nn/registry.h"
#include "lithe/recipe/recipe.h"

namespace lithe {
namespace {

struct ListOptions {
  std::string filter;
  bool json = false, keys = false, markdown = false;
};

bool has_oracles(const std::string& id) {
  const auto& tested = ids_with_oracles();
  return std::find(tested.begin(), tested.end(), id) != tested.end();
}

bool matches(const std::string& filter, const std::string& text) {
  return filter.empty() || text.find(filter) != std::string::npos;
}

std::string line_of(const Registry::Entry& e) {
  return cat(e.slot, " ", e.name, " ", e.info.spec, " ", e.info.summary, " ", e.info.source);
}
std::string line_of(const Capability& c) { return cat(c.kind, " ", c.id, " ", c.summary, " ", c.source); }

// Options that choose one of several forms: "`form` fixed, adaptive, predictive or tree".
std::string forms_of(const Registry::Entry& e) {
  constexpr std::string_view kChoice = "one of ";
  std::string out;
  for (const FieldDoc& d : e.describe())
    if (d.rule.starts_with(kChoice))
      out += cat(out.empty() ? "" : "; ", "`", d.path, "` ", d.rule.substr(kChoice.size()));
  return out;
}

// Of mixers and fields, which can stand where.
std::string modes_of(const Registry::Entry& e) {
  if (e.slot != "mixer" && e.slot != "field") return "";
  std::vector<std::string> out;
  if (e.info.causal) out.push_back("decoders");
  if (e.info.bidirectional) out.push_back("encoders");
  if (e.info.cross) out.push_back("cross-attention");
  return join(out);
}

// An empty answer would look like a finding.
void check_matches(const ListOptions& o, const std::vector<std::string>& lines, const std::vector<std::string>& names) {
  for (const std::string& line : lines)
    if (matches(o.filter, line)) return;
  const std::string near = did_you_mean(o.filter, names);
  fail_usage("list", "nothing matches '", o.filter, "'",
             near.empty() ? cat("; lithe list", o.keys ? " --keys" : "", " shows all") : near);
}

// An item of a Markdown list, in lines that fit a page.
void print_item(const std::string& text) {
  constexpr size_t kColumns = 120;
  std::string line = "-";
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (line.size() + 1 + end - at > kColumns) {
      std::puts(line.c_str());
      line = " ";
    }
    line += " " + text.substr(at, end - at);
    at = end + 1;
  }
  std::puts(line.c_str());
}

void print_keys(const ListOptions& o) {
  Recipe recipe;
  auto docs = describe_fields([&](Fields& f) { recipe.fields(f); });
  std::vector<std::string> paths, names;
  const auto note = [&](const FieldDoc& d, const std::string& prefix) {
    paths.push_back(prefix + d.path);
    names.push_back(d.path);
    names.push_back(d.path.substr(d.path.rfind('.') + 1));
  };
  const auto prefix_of = [&](const Registry::Entry& e) { return o.markdown ? "" : e.slot + " " + e.name + ": "; };
  for (const FieldDoc& d : docs) note(d, "");
  for (const auto* entry : Registry::instance().all())
    for (const FieldDoc& d : entry->describe()) note(d, prefix_of(*entry));
  check_matches(o, paths, names);
  Json json = Json::array();
  const auto show = [&](const FieldDoc& d, const std::string& prefix, const Registry::Entry* part) {
    const std::string path = prefix + d.path;
    if (!matches(o.filter, path)) return;
    if (o.json) {
      json.push_back(
          {{"key", d.path}, {"type", d.type}, {"default", d.default_value}, {"rule", d.rule}, {"help", d.help}});
      if (part) json.back().update({{"slot", part->slot}, {"part", part->name}});
    } else if (o.markdown) {
      print_item(cat("`", path, "` (", d.type, d.default_value.empty() ? "" : cat(", default `", d.default_value, "`"),
                     "): ", d.help, d.rule.empty() ? "" : "; " + d.rule));
    } else {
      std::printf("%-44s %s%s%s\n", path.c_str(), d.help.c_str(), d.rule.empty() ? "" : (" (" + d.rule + ")").c_str(),
                  d.default_value.empty() ? "" : (" [" + d.default_value + "]").c_str());
    }
  };
  for (const FieldDoc& d : docs) show(d, "", nullptr);
  for (const auto* entry : Registry::instance().all()) {
    const auto options = entry->describe();
    if (o.markdown && !options.empty() && o.filter.empty())
      std::printf("\n### %s `%s`\n\n%s%s\n\n", entry->slot.c_str(), entry->name.c_str(), entry->info.summary.c_str(),
                  entry->info.source.empty() ? "" : (" [" + entry->info.source + "]").c_str());
    for (const FieldDoc& d : options) show(d, prefix_of(*entry), entry);
  }
  if (o.json) std::cout << dump(json, 2) << "\n";
}

int run_list(const ListOptions& o) {
  const auto parts = Registry::instance().all();
  if (o.keys) {
    print_keys(o);
    return 0;
  }
  std::vector<std::string> lines, names;
  for (const auto* e : parts) {
    lines.push_back(line_of(*e));
    names.insert(names.end(), {e->name, e->slot, e->info.spec});
  }
  for (const Capability& c : capabilities()) {
    lines.push_back(line_of(c));
    names.insert(names.end(), {c.id, c.kind});
  }
  check_matches(o, lines, names);
  if (o.json) {
    Json json = {{"parts", Json::array()}, {"capabilities", Json::array()}, {"ids", Json::array()}};
    std::vector<std::string> ids;
    for (const auto* e : parts) {
      if (!matches(o.filter, line_of(*e))) continue;
      json["parts"].push_back({{"slot", e->slot},
                               {"name", e->name},
                               {"id", e->info.spec},
                               {"summary", e->info.summary},
                               {"forms", forms_of(*e)},
                               {"modes", modes_of(*e)},
                               {"source", e->info.source}});
      if (!e->info.spec.empty()) ids.push_back(e->info.spec);
    }
    for (const Capability& c : capabilities()) {
      if (!matches(o.filter, line_of(c))) continue;
      json["capabilities"].push_back(
          {{"id", c.id}, {"kind", c.kind}, {"summary", c.summary}, {"source", c.source}, {"file", c.file}});
      ids.push_back(c.id);
    }
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    for (const std::string& id : ids)
      if (has_oracles(id)) json["ids"].push_back(id);
    std::cout << dump(json, 2) << "\n";
    return 0;
  }
  std::string slot;
  for (const auto* e : parts) {
    if (!matches(o.filter, line_of(*e))) continue;
    if (e->slot != slot) std::printf("%s%s\n", slot.empty() ? "" : "\n", e->slot.c_str());
    slot = e->slot;
    std::printf("  %-16s %-22s %s%s\n", e->name.c_str(), e->info.spec.c_str(), e->info.summary.c_str(),
                e->info.source.empty() ? "" : (" [" + e->info.source + "]").c_str());
  }
  std::vector<Capability> all = capabilities();
  std::sort(all.begin(), all.end(),
            [](const Capability& a, const Capability& b) { return std::pair(a.kind, a.id) < std::pair(b.kind, b.id); });
  std::string kind;
  for (const Capability& c : all) {
    if (!matches(o.filter, line_of(c))) continue;
    if (c.kind != kind) std::printf("\n%s\n", (kind = c.kind).c_str());
    std::printf("  %-39s %s [%s]%s\n", c.id.c_str(), c.summary.c_str(), c.source.c_str(),
                has_oracles(c.id) ? "" : " (not covered by oracles)");
  }
  return 0;
}

}  // namespace

Command add_list(CommandLine& app) {
  auto o = std::make_shared<ListOptions>();
  app.add_option("filter", o->filter, "show only lines that contain this text: a slot, an id, a word");
  const Option keys = app.add_flag("--keys", o->keys, "show the keys of a recipe and of every part instead");
  const Option markdown = app.add_flag("--markdown", o->markdown, "with --keys: as Markdown lists").needs(keys);
  app.add_flag("--json", o->json,
               "print parts, methods and the ids whose oracles are tested as JSON; with --keys, the keys")
      .excludes(markdown);
  app.footer("Example: lithe list attention\n         lithe list --keys train.");
  return [o] { return run_list(*o); };
}

}  // namespace lithe
