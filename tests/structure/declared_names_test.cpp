// SPDX-License-Identifier: Apache-2.0
#include "declared_names.hpp"
#include "tokens.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace {

using structure::macros_defined_by;
using structure::names_declared_by;
using structure::tokens_of;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<std::string> names_of(std::string_view code)
{
  std::vector<std::string> names;
  for (auto const& each : names_declared_by(tokens_of(code)).names) {
    names.push_back(each.forward ? each.name + " (forward)" : each.name);
  }
  return names;
}

TEST(DeclaredNames, AreTypes)
{
  EXPECT_THAT(
      names_of("struct a { int x; void f(); enum { e }; }; class alignas(8) b final : a<int> {};"),
      ElementsAre("a", "b"));
  EXPECT_THAT(names_of("struct a; template <class T> class b; struct c {};"),
              ElementsAre("a (forward)", "b (forward)", "c"));
  EXPECT_THAT(names_of("template <> struct a<int> {}; class b::c { };"), IsEmpty());
  EXPECT_THAT(names_of("using a = int; using std::b; using namespace c;"), ElementsAre("a", "b"));
  EXPECT_THAT(names_of("template <class T>\nconcept a = requires(T x) { x.f(); } && b<T>;"),
              ElementsAre("a"));
}

TEST(DeclaredNames, AreEnumerationsAndTheirValuesWithoutAScope)
{
  EXPECT_THAT(names_of("enum class a : int { b, c }; enum class d;"),
              ElementsAre("a", "d (forward)"));
  EXPECT_THAT(names_of("enum a { b, c = 1 };"), UnorderedElementsAre("a", "b", "c"));
}

TEST(DeclaredNames, AreFunctions)
{
  EXPECT_THAT(
      names_of("[[nodiscard]] inline std::vector<int> const& a(int b) noexcept(c) { d(); }\n"
               "auto e() -> f<int>; struct g {};"),
      ElementsAre("a", "e", "g"));
  EXPECT_THAT(
      names_of("template <class T>\n  requires a<T> && (b(1) || c) && requires(T x) { d(x); }\n"
               "decltype(auto) e(T f) requires g<T> { }\nint h();"),
      ElementsAre("e", "h"));
  EXPECT_THAT(names_of("template <class T> a(T) -> a<T>; a() -> a<>;"), ElementsAre("a", "a"));
  EXPECT_THAT(
      names_of("inline int a::b(int c) { return c; } a::a(int d) : e(d), f{d} { g(); } int h;"),
      ElementsAre("h"));
  EXPECT_THAT(names_of("bool operator==(a, b) { return c(); }\nint operator()(int);\n"
                       "consteval d operator\"\"_bags(char const*, size_t);"),
              ElementsAre("_bags"));
}

TEST(DeclaredNames, AreVariables)
{
  EXPECT_THAT(names_of("inline constexpr int a = b(1); extern c<d, (e > f)> g; h i{j};\n"
                       "constexpr auto k = [](int l) { return m; }; int n[3];"),
              ElementsAre("a", "g", "i", "k", "n"));
  EXPECT_THAT(names_of("template <class T> constexpr bool a = false;\n"
                       "template <> inline constexpr bool a<int> = true; static_assert(b(1));"),
              ElementsAre("a"));
}

TEST(DeclaredNames, KnowTheirNamespaces)
{
  auto const found =
      names_declared_by(tokens_of("namespace a::inline b {\nnamespace { int c; }\nint "
                                  "d;\n}\nnamespace e = a;\nextern \"C\" { int f; }"));
  std::vector<std::string> names;
  for (auto const& each : found.names) { names.push_back(each.space + "::" + each.name); }
  EXPECT_THAT(names, ElementsAre("a::b::c", "a::b::d", "::f"));
  EXPECT_THAT(found.spaces, UnorderedElementsAre("a", "b", "e"));
}

TEST(DefinedMacros, AreFoundInEverySpellingButForTheGuard)
{
  EXPECT_THAT(
      macros_defined_by("#define A_HPP\n#define f(x) x\n#  define B 1\n#ifdef C\n", "A_HPP"),
      ElementsAre("f", "B"));
}

}  // namespace
