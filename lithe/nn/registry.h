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
  bool standard = false;                     // what a model has in this slot where its recipe names none
  bool causal = true, bidirectional = true;  // mixers: which modes it has
  bool cross = false;                        // mixers: has a cross form
  bool recurs = false;                       // cross forms: rows read those before them, and there is no other form
  bool per_token = false;                    // mixers: a row depends on no other
  int64_t token_width = 1;                   // embeddings: Args::token_width that the default options want
  int64_t payload_below = 0;                 // embeddings of codes: bound on the payload's ints; 0: any 32 bits
  std::vector<std::string> samples =
      {};  // options, as in recipes, that the conformance suite runs on beside the defaults
  std::vector<std::string> sees_ahead_samples = {};  // the same of forms that have no causal form

  ~PartInfo();  // not inline: every part has one of these
};

class Registry {
 public:
  struct Entry {
    std::string slot, name;
    PartInfo info;
    Node (*resolve)(const Node& options, const std::string& where);  // defaults filled in, strict
    std::vector<FieldDoc> (*describe)();
    std::unique_ptr<Part> (*make)(const Scope&, const Node& options, const void* args);
  };

  /// Defined in the generated list, which registers every part of lithe/parts/ by its file name.
  static Registry& instance();

  /// P is built as P(scope, config, args): const Scope&, const Config&, const Interface::Args&.
  template <class Interface, class P, class Config>
  void add(const char* name, const PartInfo& info) {
    insert(Interface::slot, name, info, resolve_config<Config>, describe_config<Config>,
           [](const Scope& scope, const Node& options, const void* args) -> std::unique_ptr<Part> {
             return std::make_unique<P>(scope, read_config<Config>(options, scope.path()),
                                        *static_cast<const typename Interface::Args*>(args));
           });
  }

  /// The same for a part of several forms, which make(scope, config, args) chooses among.
  template <class Interface, class Config, auto make>
  void add_forms(const char* name, const PartInfo& info) {
    insert(Interface::slot, name, info, resolve_config<Config>, describe_config<Config>,
           [](const Scope& scope, const Node& options, const void* args) -> std::unique_ptr<Part> {
             return make(scope, read_config<Config>(options, scope.path()),
                         *static_cast<const typename Interface::Args*>(args));
           });
  }

  /// A part that stands elsewhere now: errors say that `spelling` takes its place.
  void moved(const std::string& slot, const std::string& name, const std::string& spelling) {
    moved_[{slot, name}] = spelling;
  }

  /// Builds the part; options that were not resolved yet are read with their defaults.
  template <class Interface>
  std::unique_ptr<Interface> make(const PartChoice& choice, const Scope& scope,
                                  const typename Interface::Args& args) const {
    const Entry& entry = get(Interface::slot, choice.type, {});
    if constexpr (requires { args.cross; }) refuse_cross_without(args.cross, entry);
    if constexpr (requires { args.causal; }) refuse_direction_without(args.causal, entry);
    return std::unique_ptr<Interface>(static_cast<Interface*>(entry.make(scope, choice.options, &args).release()));
  }

  /// Fails (usage) when there is none, naming the nearest.
  const Entry& get(const std::string& slot, const std::string& name, const Mark& where) const;
  std::vector<const Entry*> slot(const std::string& slot) const;  // by name
  /// The slot's part that is the standard one, with its default options.
  PartChoice standard(const std::string& slot) const;
  std::vector<const Entry*> all() const;  // by slot, name

 private:
  Registry();
  static void refuse_cross_without(bool cross, const Entry& entry);
  static void refuse_direction_without(bool causal, const Entry& entry);
  void insert(const char* slot, const char* name, const PartInfo& info, decltype(Entry::resolve) resolve,
              decltype(Entry::describe) describe, decltype(Entry::make) make);
  template <class Config>
  static Config read_config(const Node& options, const std::string& where) {
    Config config;
    read_fields(options.is_null() ? Node::map() : options, where, [&](Fields& f) { config.fields(f); });
    return config;
  }
  template <class Config>
  static Node resolve_config(const Node& options, const std::string& where) {
    Config config = read_config<Config>(options, where);
    return write_fields([&](Fields& f) { config.fields(f); });
  }
  template <class Config>
  static std::vector<FieldDoc> describe_config() {
    Config config;
    return describe_fields([&](Fields& f) { config.fields(f); });
  }
  std::map<std::pair<std::string, std::string>, Entry> entries_;
  std::map<std::pair<std::string, std::string>, std::string> moved_;
};

/// For parts without options.
struct NoOptions {
  void fields(Fields&) {}
};

}  // namespace lithe
