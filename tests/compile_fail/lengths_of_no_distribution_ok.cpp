#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

struct fixed {
  ballast::tokens length = 7;
  ballast::tokens operator()(ballast::random_source&) const { return length; }
};

int main()
{
  ballast::clamped_lengths<fixed> const lengths{fixed{}, 1, 9};
  return lengths.shortest == 1 ? 0 : 1;
}
