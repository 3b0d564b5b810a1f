#include "lithe/report/page.h"
#include "lithe/compare/result.h"
namespace lithe::compare {
std::string to_page(const Comparison& c) {
  report::Page page(c.experiment.name, "", "Comparison");
  return page.html();
}
}  // namespace lithe::compare
