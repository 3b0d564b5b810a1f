#include "lithe/text/tokenizer_roles.h"

#include <algorithm>
#include <span>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/text/json_section.h"

namespace lithe {
namespace {

constexpr std::string_view bos_names[] = {"<s>",   "<bos>",        "<|begin_of_text|>", "<|startoftext|>",
                                          "[CLS]", "<|endoftext|>"};
constexpr std::string_view eos_names[] = {"</s>", "<eos>", "<|end_of_text|>", "[SEP]", "<|endoftext|>"};
constexpr std::string_view pad_names[] = {"<pad>", "[PAD]", "<|pad|>", "<|padding|>"};
constexpr std::string_view unk_names[] = {"<unk>", "[UNK]"};
constexpr std::string_view cls_names[] = {"[CLS]"};
constexpr std::string_view sep_names[] = {"[SEP]"};
constexpr std::string_view mask_names[] = {"[MASK]", "<mask>"};

void read_role(const JsonSection& section, const char* key, Role& role) {
  // An absent key says nothing; null says that there is none.
  if (role.stated || !section.states(key)) return;
  role.stated = true;
  if (section.has(key))
    role.token = section.value(key).is_object() ? section.section(key).text("content") : section.text(key);
}

std::optional<int32_t> find_role(const Role& role, const char* key, const Vocabulary& vocabulary,
                                 const std::vector<AddedToken>& added, std::span<const std::string_view> names,
                                 const std::string& origin) {
  if (role.stated) {
    if (!role.token) return {};
    const auto id = vocabulary.find(*role.token);
    check(id.has_value(), "tokenizer", "'", origin, "': ", key, " '", *role.token, "' is not in the vocabulary");
    return id;
  }
  for (const std::string_view name : names)
    for (const AddedToken& token : added)
      if (token.special && token.content == name) return token.id;
  return {};
}

}  // namespace

void read_roles(const std::string& json, const std::string& origin, Roles& roles) {
  const auto tree = parse_json_sorted(json, origin);
  const JsonSection section(tree, "'" + origin + "'");
  read_role(section, "bos_token", roles.bos);
  read_role(section, "eos_token", roles.eos);
  read_role(section, "pad_token", roles.pad);
  read_role(section, "unk_token", roles.unk);
  read_role(section, "cls_token", roles.cls);
  read_role(section, "sep_token", roles.sep);
  read_role(section, "mask_token", roles.mask);
}

bool names_end_of_text(const std::vector<std::string>& specials) {
  return std::any_of(specials.begin(), specials.end(), [](const std::string& special) {
    return std::find(std::begin(eos_names), std::end(eos_names), special) != std::end(eos_names);
  });
}

std::string roles_json(const Tokenizer& tokenizer) {
  const auto token = [&](std::optional<int32_t> id) { return id ? Json(tokenizer.token(*id)) : Json(nullptr); };
  const Specials& s = tokenizer.specials();
  Json config = Json::object();
  if (tokenizer.width() == 1) config["tokenizer_class"] = "PreTrainedTokenizerFast";  // none of theirs has codes
  config.update({{"bos_token", token(s.bos)},
                 {"eos_token", token(s.eos)},
                 {"pad_token", token(s.pad)},
                 {"unk_token", token(s.unk)}});
  // Hugging Face writes these for encoders only.
  if (s.cls) config["cls_token"] = token(s.cls);
  if (s.sep) config["sep_token"] = token(s.sep);
  if (s.mask) config["mask_token"] = token(s.mask);
  return dump(config, 2) + "\n";
}

Specials assign_roles(const Roles& roles, const Vocabulary& vocabulary, const std::vector<AddedToken>& added,
                      std::optional<int32_t> model_unk, const std::string& origin) {
  Specials s;
  const auto find = [&](const Role& role, const char* key, std::span<const std::string_view> names) {
    return find_role(role, key, vocabulary, added, names, origin);
  };
  s.bos = find(roles.bos, "bos_token", bos_names);
  s.eos = find(roles.eos, "eos_token", eos_names);
  s.pad = find(roles.pad, "pad_token", pad_names);
  s.unk = find(roles.unk, "unk_token", unk_names);
  if (!roles.unk.stated && model_unk) s.unk = model_unk;
  s.cls = find(roles.cls, "cls_token", cls_names);
  s.sep = find(roles.sep, "sep_token", sep_names);
  s.mask = find(roles.mask, "mask_token", mask_names);
  return s;
}

}  // namespace lithe
