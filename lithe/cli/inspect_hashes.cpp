#include "lithe/cli/inspect_hashes.h"

#include <cstdio>
#include <iostream>

#include "lithe/analyze/hash_collisions.h"
#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/data/corpus.h"
#include "lithe/model/model.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

int inspect_hashes(const std::vector<std::string>& runs, const std::vector<std::string>& files, bool json) {
  Json all = {{"runs", Json::array()}};
  for (const std::string& run : runs) {
    check_usage(std::filesystem::is_directory(run), "inspect", "'", run,
                "' is not a directory; give the --out directory of a training run");
    const ModelConfig config = load_config(Path(run) / "config.json");
    const TokenStore text = tokenize_in_memory(Corpus(files, {.documents = "file"}), *load_tokenizer(run));
    const std::vector<analyze::HashTableUse> uses = analyze::hash_table_uses(config, text);
    check_usage(!uses.empty(), "inspect", "--hashes: '", run,
                "' has no mixer engram, embedding byte_ngrams or hash_sum, or head hash_codes; --words shows the "
                "hashes of words");
    if (json) {
      Json tables = Json::array();
      for (const analyze::HashTableUse& u : uses)
        tables.push_back({{"part", u.part},
                          {"what", u.what},
                          {"rows", u.rows},
                          {"distinct", u.distinct},
                          {"used", u.used},
                          {"sharing", u.sharing},
                          {"all_alike", u.all_alike}});
      all["runs"].push_back({{"run", run}, {"tables", tables}});
      continue;
    }
    std::printf("%s\n%-22s %-22s %10s %10s %10s %10s %10s\n", run.c_str(), "part", "what", "rows", "distinct", "used",
                "sharing", "all alike");
    for (const analyze::HashTableUse& u : uses)
      std::printf("%-22s %-22s %10lld %10lld %10lld %10lld %10lld\n", u.part.c_str(), u.what.c_str(),
                  static_cast<long long>(u.rows), static_cast<long long>(u.distinct), static_cast<long long>(u.used),
                  static_cast<long long>(u.sharing), static_cast<long long>(u.all_alike));
  }
  if (json) std::cout << dump(all, 2, Invalid::replaced) << "\n";
  return 0;
}

}  // namespace lithe
