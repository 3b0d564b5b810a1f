// How much quality a cheaper model keeps, and what its parameters buy [TH 3.4.6].
#pragma once

namespace lithe {

enum class Better { higher, lower };  // accuracy; perplexity

/// Performance retention ratio in percent: 100 score / reference, or 100 (2 - score / reference) where lower is better.
/// Below zero when a lower-is-better score is more than twice the reference. The reference must be above 0.
double prr(double score, double reference, Better better);

/// Performance elasticity of parameters: the relative gain in score over the relative growth in parameters, both
/// against a base model; with its sign turned where lower is better. NaN where it is undefined: equal parameters.
double peop(double score, double base_score, double parameters, double base_parameters, Better better);

}  // namespace lithe
