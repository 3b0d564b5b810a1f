// Which tokens begin and end a text, pad, or stand for what is unknown.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lithe/text/added_tokens.h"
#include "lithe/text/tokenizer.h"
#include "lithe/text/vocabulary.h"

namespace lithe {

/// What tokenizer_config.json says about one role.
struct Role {
  bool stated = false;  // else the role is found by the usual names
  std::optional<std::string> token;
};
struct Roles {
  Role bos, eos, pad, unk, cls, sep, mask;
};

/// Reads bos_token, eos_token, pad_token, unk_token, cls_token, sep_token and mask_token of a tokenizer_config.json or
/// special_tokens_map.json into the roles not stated yet.
void read_roles(const std::string& json, const std::string& origin, Roles& roles);
/// True when a special token has a usual name of the role eos, so that the role needs not be stated.
bool names_end_of_text(const std::vector<std::string>& specials);
/// tokenizer_config.json for these tokens.
std::string roles_json(const Tokenizer& tokenizer);

/// Ids of the roles. Those not stated are special tokens of the usual names; `model_unk` goes before a name. Fails on a
/// stated token that the vocabulary does not have.
Specials assign_roles(const Roles& roles, const Vocabulary& vocabulary, const std::vector<AddedToken>& added,
                      std::optional<int32_t> model_unk, const std::string& origin);

std::unique_ptr<Tokenizer> parse_tokenizer(std::string json, const std::string& origin, const Roles& roles);

}  // namespace lithe
