#include "lithe/text/tokenizer_roles.h"

#include <initializer_list>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/text/json_section.h"

namespace lithe {
namespace {

void read_role(const JsonSection& section, const char* key, Role& role) {
  // An absent key says nothing; null says that there is none.
  if (role.stated || !section.states(key)) return;
  role.stated = true;
  if (section.has(key))
    role.token = section.value(key).is_object() ? section.section(key).text("content") : section.text(key);
}

std::optional<int32_t> find_role(const Role& role, const char* key, const Vocabulary& vocabulary,
                                 const std::vector<AddedToken>& added, std::initializer_list<std::string_view> names,
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

std::string roles_json(const Tokenizer& tokenizer) {
  const auto token = [&](std::optional<int32_t> id) { return id ? Json(tokenizer.token(*id)) : Json(nullptr); };
  const Specials& s = tokenizer.specials();
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"bos_token", token(s.bos)},
                 {"eos_token", token(s.eos)},
                 {"pad_token", token(s.pad)},
                 {"unk_token", token(s.unk)}};
  // Hugging Face writes these for encoders only.
  if (s.cls) config["cls_token"] = token(s.cls);
  if (s.sep) config["sep_token"] = token(s.sep);
  if (s.mask) config["mask_token"] = token(s.mask);
  return config.dump(2) + "\n";
}

Specials assign_roles(const Roles& roles, const Vocabulary& vocabulary, const std::vector<AddedToken>& added,
                      std::optional<int32_t> model_unk, const std::string& origin) {
  Specials s;
  s.bos = find_role(roles.bos, "bos_token", vocabulary, added,
                    {"<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "[CLS]", "<|endoftext|>"}, origin);
  s.eos = find_role(roles.eos, "eos_token", vocabulary, added,
                    {"</s>", "<eos>", "<|end_of_text|>", "[SEP]", "<|endoftext|>"}, origin);
  s.pad = find_role(roles.pad, "pad_token", vocabulary, added, {"<pad>", "[PAD]", "<|pad|>", "<|padding|>"}, origin);
  s.unk = find_role(roles.unk, "unk_token", vocabulary, added, {"<unk>", "[UNK]"}, origin);
  if (!roles.unk.stated && model_unk) s.unk = model_unk;
  s.cls = find_role(roles.cls, "cls_token", vocabulary, added, {"[CLS]"}, origin);
  s.sep = find_role(roles.sep, "sep_token", vocabulary, added, {"[SEP]"}, origin);
  s.mask = find_role(roles.mask, "mask_token", vocabulary, added, {"[MASK]", "<mask>"}, origin);
  return s;
}

}  // namespace lithe
