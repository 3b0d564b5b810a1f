// All parts by slot and name. Filled by the generated list of register_<slot>_<name> calls.
#pragma once

#include <map>

#include "lithe/nn/slots.h"

namespace lithe {

/// What `lithe list`, the docs and the conformance suite know of a part.
struct PartInfo {
  std::string spec;                          // id in docs/methods.tsv, "mixer.gqa"; may be empty
  std::string summary;                       // one line
  std::string source;                        // paper, equation
  bool causal = true, bidirectional = true;  // mixers: which modes it has
  bool cross = false;                        // mixers: has a cross form
  bool per_token = false;                    // mixers: a row depends on no other
  int64_t token_width = 1;                   // embeddings: Args::token_width that the default options want
  int64_t payload_below = 0;                 // embeddings of codes: bound on the payload's ints; 0: any 32 bits
  std::vector<std::string> samples =
      {};  // options, as in recipes, that the conformance suite runs on beside the defaults
};

class Registry {
 public:
  struct Entry {
    std::string slot, name;
    PartInfo info;
    std::function<Node(const Node& options, const std::string& where)> resolve;  // defaults filled in, strict
    std::function<std::vector<FieldDoc>()> describe;
    std::function<std::unique_ptr<Part>(const Scope&, const Node& options, const void* args)> make;
  };

  /// Defined in the generated list, which registers every part of lithe/parts/ by its file name.
  static Registry& instance();

  /// P is built as P(scope, config, args): const Scope&, const Config&, const Interface::Args&.
  template <class Interface, class P, class Config>
  void add(const std::string& name, PartInfo info) {
    Entry e;
    e.slot = Interface::slot;
    e.name = name;
    e.info = std::move(info);
    const auto read = [](const Node& options, const std::string& where) {
      Config config;
      read_fields(options.is_null() ? Node::map() : options, where, [&](Fields& f) { config.fields(f); });
      return config;
    };
    e.resolve = [read](const Node& options, const std::string& where) {
      Config config = read(options, where);
      return write_fields([&](Fields& f) { config.fields(f); });
    };
    e.describe = [] {
      Config config;
      return describe_fields([&](Fields& f) { config.fields(f); });
    };
    e.make = [read, name, info = e.info](const Scope& scope, const Node& options,
                                         const void* given) -> std::unique_ptr<Part> {
      const auto& args = *static_cast<const typename Interface::Args*>(given);
      if constexpr (requires { args.cross; }) refuse_cross_without(args.cross, info, Interface::slot, name);
      if constexpr (requires { args.causal; }) refuse_direction_without(args.causal, info, Interface::slot, name);
      return std::make_unique<P>(scope, read(options, scope.path()), args);
    };
    insert(std::move(e));
  }

  /// A part that stands elsewhere now: errors say that `spelling` takes its place.
  void moved(const std::string& slot, const std::string& name, const std::string& spelling) {
    moved_[{slot, name}] = spelling;
  }

  /// Builds the part; options that were not resolved yet are read with their defaults.
  template <class Interface>
  std::unique_ptr<Interface> make(const PartChoice& choice, const Scope& scope,
                                  const typename Interface::Args& args) const {
    std::unique_ptr<Part> part = get(Interface::slot, choice.type, {}).make(scope, choice.options, &args);
    return std::unique_ptr<Interface>(static_cast<Interface*>(part.release()));
  }

  /// Fails (usage) when there is none, naming the nearest.
  const Entry& get(const std::string& slot, const std::string& name, const Mark& where) const;
  std::vector<const Entry*> slot(const std::string& slot) const;  // by name
  std::vector<const Entry*> all() const;                          // by slot, name

 private:
  Registry();
  static void refuse_cross_without(bool cross, const PartInfo& info, const char* slot, const std::string& name);
  static void refuse_direction_without(bool causal, const PartInfo& info, const char* slot, const std::string& name);
  void insert(Entry entry);
  std::map<std::pair<std::string, std::string>, Entry> entries_;
  std::map<std::pair<std::string, std::string>, std::string> moved_;
};

/// For parts without options.
struct NoOptions {
  void fields(Fields&) {}
};

}  // namespace lithe
