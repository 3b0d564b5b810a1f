#include "lithe/eval/prediction.h"

#include <sstream>

namespace lithe {

std::string label_name(int32_t label, const std::vector<std::string>& names) {
  if (label < 0) return "_";
  return names.empty() ? std::to_string(label) : names[size_t(label)];
}

namespace {

Json names_of(const std::vector<int32_t>& labels, const std::vector<std::string>& names) {
  Json out = Json::array();
  for (const int32_t label : labels) out.push_back(label < 0 ? Json() : Json(label_name(label, names)));
  return out;
}

}  // namespace

Example example_without_label(const std::string& line, TaskType type) {
  Example e;
  if (type == TaskType::tagging || type == TaskType::parsing) {
    std::istringstream words(line);
    for (std::string word; words >> word;) e.words.push_back(word);
    check_usage(!e.words.empty(), "predict", "a line without words has nothing to tag");
    e.tags.assign(e.words.size(), -1);
    return e;
  }
  if (type == TaskType::text) {
    e.text = line;
    e.answers.emplace_back();
    return e;
  }
  const size_t tab = line.find('\t');
  e.text = line.substr(0, tab);
  e.has_pair = tab != std::string::npos;
  if (e.has_pair) e.pair = line.substr(tab + 1);
  check_usage(type != TaskType::span || e.has_pair, "predict",
              "a line must hold a question, a tab, and the text that may answer it");
  return e;
}

Json prediction_json(TaskType type, const TaskAnswers& answers, size_t i, const std::vector<std::string>& names) {
  const Prediction& p = answers.predictions[i];
  Json json = Json::object();
  switch (type) {
    case TaskType::classification:
      json["label"] = label_name(p.label, names);
      json["probability"] = answers.probabilities[i][size_t(p.label)];
      for (size_t c = 0; c < answers.probabilities[i].size(); ++c)
        json["probabilities"][label_name(int32_t(c), names)] = answers.probabilities[i][c];
      break;
    case TaskType::regression: json["value"] = p.value; break;
    case TaskType::tagging: json["tags"] = names_of(p.tags, names); break;
    case TaskType::parsing:
      json["heads"] = Json::array();
      for (const int32_t head : p.heads) json["heads"].push_back(head < 0 ? Json() : Json(head));
      json["labels"] = names_of(p.tags, names);
      break;
    case TaskType::transcription: json["labels"] = names_of(p.tags, names); break;
    case TaskType::span:
    case TaskType::text: json["answer"] = p.text; break;
  }
  return json;
}

std::string prediction_text(TaskType type, const TaskAnswers& answers, size_t i, const std::vector<std::string>& names,
                            const std::vector<std::string>& words) {
  const Prediction& p = answers.predictions[i];
  std::string text;
  switch (type) {
    case TaskType::classification:
      return cat(label_name(p.label, names), "\t", answers.probabilities[i][size_t(p.label)]);
    case TaskType::regression: return cat(p.value);
    case TaskType::tagging:
      for (size_t w = 0; w < p.tags.size(); ++w) text += cat(w ? " " : "", words[w], "/", label_name(p.tags[w], names));
      return text;
    case TaskType::parsing:
      for (size_t w = 0; w < p.heads.size(); ++w)
        text +=
            cat(w ? " " : "", words[w], "/", p.heads[w] < 0 ? "_" : cat(p.heads[w]), "/", label_name(p.tags[w], names));
      return text;
    case TaskType::transcription:
      for (const int32_t tag : p.tags) text += label_name(tag, names);
      return text;
    case TaskType::span:
    case TaskType::text: return p.text;
  }
  return text;
}

}  // namespace lithe
