#include <ballast/partition/attention_padded_batches.hpp>
#include <ballast/partition/best_of.hpp>
#include <ballast/partition/conv_transformer_batches.hpp>

int main()
{
  auto const policy =
      ballast::best_of{ballast::conv_transformer_batches{}, ballast::attention_padded_batches{}};
  return policy.restricts() ? 0 : 1;
}
