#include "lithe/probe/tasks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "lithe/base/did_you_mean.h"
#include "lithe/base/fields.h"

namespace lithe::probe {
namespace {

const std::set<std::string> kFunction = {"ADP", "AUX", "CCONJ", "DET", "PART", "PRON", "SCONJ"};
const std::set<std::string> kContent = {"NOUN", "VERB", "ADJ", "ADV", "PROPN", "NUM", "INTJ"};

// An instance before its labels have numbers.
struct Named {
  Instance instance;
  std::vector<std::string> labels;
};

const std::vector<std::string>& column_of(const Corpus& corpus, const TreeSentence& s, const std::string& column,
                                          const std::string& task) {
  const auto found = s.tags.find(column);
  check_usage(found != s.tags.end(), "probe", "task ", task, " needs the column '", column, "', which '", corpus.file,
              "' does not have; give a treebank that has it");
  return found->second;
}

// "Number" of "Case=Nom|Number=Sing"; empty: none.
std::string feature_of(const std::string& feats, const std::string& key) {
  for (size_t at = 0; at < feats.size();) {
    const size_t end = std::min(feats.find('|', at), feats.size()), equal = feats.find('=', at);
    if (equal < end && feats.compare(at, equal - at, key) == 0) return feats.substr(equal + 1, end - equal - 1);
    at = end + 1;
  }
  return "";
}

// Calls f(sentence, first word, number of the sentence).
template <class F>
void each_sentence(const Corpus& corpus, F&& f) {
  const std::vector<int64_t> first = corpus.first_words();
  for (size_t s = 0; s < corpus.sentences.size(); ++s) f(corpus.sentences[s], first[s], s);
}

// label_of(sentence, word) -> the label of a word, or empty.
template <class F>
std::vector<Named> of_words(const Corpus& corpus, F&& label_of) {
  std::vector<Named> out;
  each_sentence(corpus, [&](const TreeSentence& s, int64_t first, size_t) {
    for (size_t w = 0; w < s.words.size(); ++w)
      if (const std::string label = label_of(s, w); !label.empty())
        out.push_back({{.first = {first + int64_t(w), first + int64_t(w) + 1}, .type = s.words[w]}, {label}});
  });
  return out;
}

std::vector<Named> labelled_words(const std::string& task, const std::string& column, const Corpus& corpus) {
  const std::string name = column.substr(0, column.find('.')),
                    key = name.size() < column.size() ? column.substr(name.size() + 1) : "";
  return of_words(corpus, [&](const TreeSentence& s, size_t w) {
    const std::string& tag = column_of(corpus, s, name, task)[w];
    const std::string label = key.empty() ? tag : feature_of(tag, key);
    return label == "_" ? std::string() : label;
  });
}

std::vector<Named> relations(const Corpus& corpus) {
  std::vector<Named> out;
  each_sentence(corpus, [&](const TreeSentence& s, int64_t first, size_t) {
    check_usage(s.heads.words() == int64_t(s.words.size()), "probe", "task deprel needs heads, which '", corpus.file,
                "' does not have; give a dependency treebank");
    const std::vector<std::string>& tags = column_of(corpus, s, "deprel", "deprel");
    for (size_t w = 0; w < s.words.size(); ++w)
      if (const int64_t head = s.heads.heads[w])
        out.push_back({{.first = {first + int64_t(w), first + int64_t(w) + 1},
                        .second = {first + head - 1, first + head},
                        .type = s.words[w]},
                       {tags[w]}});
  });
  return out;
}

// Nodes over words that are not right above one.
std::vector<Named> constituents(const Corpus& corpus) {
  std::vector<Named> out;
  each_sentence(corpus, [&](const TreeSentence& s, int64_t first, size_t) {
    const std::vector<ConstTree::Node>& nodes = s.constituents.nodes;
    check_usage(!nodes.empty(), "probe", "task constituents needs phrases, which '", corpus.file,
                "' does not have; give bracketed trees (.ptb)");
    std::vector<Span> spans(nodes.size(), Span{-1, -1});
    std::vector<char> tag(nodes.size(), 0);
    int64_t word = first;
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (!nodes[n].leaf) continue;
      if (nodes[n].parent >= 0) tag[size_t(nodes[n].parent)] = 1;
      for (int32_t up = nodes[n].parent; up >= 0; up = nodes[size_t(up)].parent) {
        if (spans[size_t(up)].begin < 0) spans[size_t(up)].begin = word;
        spans[size_t(up)].end = word + 1;
      }
      ++word;
    }
    for (size_t n = 0; n < nodes.size(); ++n)
      if (!nodes[n].leaf && !tag[n]) out.push_back({{.first = spans[n]}, {nodes[n].label}});
  });
  return out;
}

std::vector<Named> given_spans(const std::string& task, const Corpus& corpus) {
  check_usage(corpus.has_spans, "probe", "task ", task, " needs files of spans (.jsonl), got '", corpus.file, "'");
  std::vector<Named> out;
  each_sentence(corpus, [&](const TreeSentence& s, int64_t first, size_t number) {
    for (const SpanTarget& t : corpus.spans[number]) {
      Named named{{.first = {first + t.first.begin, first + t.first.end}}, t.labels};
      if (t.second.size() > 0) named.instance.second = {first + t.second.begin, first + t.second.end};
      if (t.first.size() == 1) named.instance.type = s.words[size_t(t.first.begin)];
      out.push_back(std::move(named));
    }
  });
  return out;
}

std::vector<Named> numbers(const Corpus& corpus, bool logarithm) {
  std::vector<Named> out;
  each_sentence(corpus, [&](const TreeSentence& s, int64_t first, size_t) {
    for (size_t w = 0; w < s.words.size(); ++w) {
      const double x = number_of(s.words[w]);
      if (std::isnan(x)) continue;
      const double value = logarithm ? std::copysign(std::log10(1 + std::abs(x)), x) : x;
      out.push_back({{.first = {first + int64_t(w), first + int64_t(w) + 1}, .value = value}, {}});
    }
  });
  return out;
}

std::vector<Named> lengths(const Corpus& corpus, const std::vector<int64_t>& longest) {
  std::vector<Named> out;
  each_sentence(corpus, [&](const TreeSentence& s, int64_t first, size_t) {
    const auto m = int64_t(s.words.size());
    const auto bin = size_t(length_bin(m, longest));
    const std::string low = cat(bin ? longest[bin - 1] + 1 : 1);
    out.push_back({{.first = {first, first + m}},
                   {bin < longest.size() ? cat(low, " to ", longest[bin]) : cat(low, " or more")}});
  });
  return out;
}

std::vector<Named> orders(const Corpus& corpus, uint64_t seed) {
  std::vector<Named> out;
  each_sentence(corpus, [&](const TreeSentence& s, int64_t first, size_t number) {
    const auto m = uint64_t(s.words.size());
    if (m < 2) return;
    const RandomKey key{seed, uint64_t(number), 0, purpose_of("probe.order_pair")};
    for (uint64_t pair = 0; pair < 2; ++pair) {
      const auto i = int64_t(random_below(key, 2 * pair, m)), skip = int64_t(random_below(key, 2 * pair + 1, m - 1));
      const int64_t j = skip < i ? skip : skip + 1;
      out.push_back({{.first = {first + i, first + i + 1}, .second = {first + j, first + j + 1}},
                     {i < j ? "first before second" : "second before first"}});
    }
  });
  return out;
}

std::vector<Named> swaps(const Corpus& corpus, uint64_t seed) {
  const std::vector<Swap> drawn = draw_swaps(corpus, seed);
  std::vector<Named> out;
  each_sentence(corpus, [&](const TreeSentence&, int64_t first, size_t number) {
    const Swap& swap = drawn[number];
    if (swap.at >= 0)
      out.push_back(
          {{.first = {first + swap.at, first + swap.at + 1}, .second = {first + swap.at + 1, first + swap.at + 2}},
           {swap.swap ? "swapped" : "in order"}});
  });
  return out;
}

std::vector<std::string> frequent_words(const Corpus& corpus, int64_t most) {
  std::map<std::string, int64_t> counts;
  for (const TreeSentence& s : corpus.sentences)
    for (const std::string& word : s.words) ++counts[word];
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [word, count] : counts) order.emplace_back(-count, word);
  std::sort(order.begin(), order.end());
  std::vector<std::string> out;
  for (size_t i = 0; i < std::min(order.size(), size_t(most)); ++i) out.push_back(order[i].second);
  return out;
}

std::vector<int64_t> even_bins(const Corpus& corpus, size_t bins) {
  std::vector<int64_t> lengths, out;
  for (const TreeSentence& s : corpus.sentences) lengths.push_back(int64_t(s.words.size()));
  std::sort(lengths.begin(), lengths.end());
  for (size_t b = 1; b < bins && !lengths.empty(); ++b) {
    const int64_t longest = lengths[b * (lengths.size() - 1) / bins];
    if (out.empty() || longest > out.back()) out.push_back(longest);
  }
  if (!out.empty() && out.back() == lengths.back()) out.pop_back();
  return out;
}

// Numbers the labels by the training instances, sorted.
void number_labels(Task& task, std::vector<Named> train, std::vector<Named> test) {
  std::map<std::string, int32_t> index;
  for (const Named& n : train)
    for (const std::string& label : n.labels) index[label] = 0;
  for (auto& [label, number] : index) number = int32_t(task.labels.size()), task.labels.push_back(label);
  const auto take = [&](std::vector<Named>& from, std::vector<Instance>& to, bool counted) {
    for (Named& n : from) {
      for (const std::string& label : n.labels) {
        const auto found = index.find(label);
        const bool known = found != index.end();
        if (known || !task.several_labels) n.instance.labels.push_back(known ? found->second : -1);
        if (counted) task.unknown += !known;
      }
      to.push_back(std::move(n.instance));
    }
  };
  take(train, task.train, false);
  take(test, task.test, true);
}

}  // namespace

void check_task(const std::string& name) {
  check_usage(std::find(kTasks.begin(), kTasks.end(), name) != kTasks.end() || name.rfind("label:", 0) == 0, "probe",
              "there is no task '", name, "'; tasks are ", join(kTasks), did_you_mean(name, kTasks));
}

Task make_task(const std::string& name, const Corpus& train, const Corpus& test, const TaskOptions& options) {
  Task task{.name = name};
  const auto make = [&](const std::string& title, auto&& instances) {
    task.title = title;
    number_labels(task, instances(train), instances(test));
  };
  if (name == "pos" || name == "xpos" || name.rfind("label:", 0) == 0) {
    const std::string column = name == "pos"
                                   ? (train.sentences.empty() || train.sentences[0].tags.count("upos") ? "upos" : "pos")
                               : name == "xpos" ? "xpos"
                                                : name.substr(6);
    make("the tag of a word (" + column + ")", [&](const Corpus& c) { return labelled_words(name, column, c); });
  } else if (name == "deprel") {
    make("the relation of a word to its head", relations);
  } else if (name == "constituents") {
    make("the label of a phrase", constituents);
  } else if (name == "spans" || name == "sense") {
    make(name == "sense" ? "the sense of a word" : "the label of a span, or of two",
         [&](const Corpus& c) { return given_spans(name, c); });
    const bool pairs = !task.train.empty() && task.train[0].second.size() > 0;
    for (const auto* part : {&task.train, &task.test})
      for (const Instance& i : *part) {
        task.several_labels = task.several_labels || i.labels.size() != 1;
        check_usage((i.second.size() > 0) == pairs, "probe",
                    "files of spans must have span2 in all targets or in none");
      }
  } else if (name == "word") {
    const std::vector<std::string> words = frequent_words(train, options.vocabulary);
    const std::set<std::string> known(words.begin(), words.end());
    make(cat("which of ", words.size(), " frequent words stands here"), [&](const Corpus& c) {
      return of_words(
          c, [&](const TreeSentence& s, size_t w) { return known.count(s.words[w]) ? s.words[w] : std::string(); });
    });
  } else if (name == "function") {
    make("function word or content word", [&](const Corpus& c) {
      return of_words(c, [&](const TreeSentence& s, size_t w) {
        const std::string& tag = column_of(c, s, "upos", name)[w];
        return kFunction.count(tag)  ? std::string("function")
               : kContent.count(tag) ? std::string("content")
                                     : std::string();
      });
    });
  } else if (name == "numeracy") {
    task.regression = true;
    make(options.log_numbers ? "the value of a number, log10(1 + x)" : "the value of a number",
         [&](const Corpus& c) { return numbers(c, options.log_numbers); });
  } else if (name == "length") {
    const std::vector<int64_t> longest = options.bins.empty() ? even_bins(train, 6) : options.bins;
    check_usage(
        std::is_sorted(longest.begin(), longest.end(), std::less_equal<>()) && (longest.empty() || longest[0] > 0),
        "probe", "the longest lengths of bins must increase from 1 on");
    make("the length of the sentence, in bins", [&](const Corpus& c) { return lengths(c, longest); });
  } else if (name == "order") {
    make("which of two words of a sentence comes first", [&](const Corpus& c) { return orders(c, options.seed); });
  } else if (name == "swap") {
    task.swapped = true;
    make("whether two neighbouring words were swapped", [&](const Corpus& c) { return swaps(c, options.seed); });
  } else {
    fail("probe", "task ", name, " has no labels");
  }
  check_usage(!task.train.empty() && !task.test.empty(), "probe", "task ", name, " finds nothing to predict in ",
              task.train.empty() ? train.file : test.file);
  check_usage(task.regression || task.labels.size() >= 2, "probe", "task ", name, " has only ", task.labels.size(),
              " label in '", train.file, "'; there is nothing to tell apart");
  return task;
}

}  // namespace lithe::probe
