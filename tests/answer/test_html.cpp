// SPDX-License-Identifier: Apache-2.0
#include "src/answer/report.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/answer/page.h"
#include "tests/answer/page_text.h"
#include "tests/answer/sample_report.h"
#include "tests/logs/sample_metrics.h"

namespace bascule {
namespace {

using test::contains;
using test::count;
using test::unbalanced;

TEST(UnbalancedItself, FindsWhatItShouldFind) {
  EXPECT_EQ(unbalanced("<!DOCTYPE html><p class=\"a>b\">x<line x=\"1\"/></p>"), "");
  EXPECT_NE(unbalanced("<p><b></p></b>"), "");
  EXPECT_NE(unbalanced("<p>"), "");
  EXPECT_NE(unbalanced("</p>"), "");
}

TEST(Html, IsOneFileThatAsksForNothing) {
  const std::string html = report_html(test::sample_report());
  for (const char* outside : {"http:", "https:", "src=", "@import", "<script", "<link", "<img", "<iframe"}) {
    EXPECT_FALSE(contains(html, outside)) << outside;
  }
  EXPECT_TRUE(contains(html, "default-src 'none'"));
}

TEST(Html, EveryElementIsClosed) {
  EXPECT_EQ(unbalanced(report_html(test::sample_report())), "");
  EXPECT_EQ(unbalanced(report_html(Report{})), "");
}

TEST(Html, TheMemorySectionSaysWhatIsKnown) {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  Report report;
  EXPECT_FALSE(contains(report_html(report), "Planned before the first step"));
  report.memory = {{"weights", 3 * kGiB, ""}, {"workspace", kGiB, ""}};
  report.planned_bytes = 4 * kGiB;
  const std::string planned = "Planned before the first step: <b>4.00 GiB</b>";
  EXPECT_TRUE(contains(report_html(report), planned + ".</p>"));
  EXPECT_TRUE(contains(report_html(report), "75.0 %"));
  for (const auto& [bytes, words] : {std::pair{&report.resident_bytes, "resident: "},
                                     {&report.lower_bound_bytes, "lower bound for any placement: "},
                                     {&report.machine_bytes, "this machine has "}}) {
    *bytes = 2 * kGiB;
    EXPECT_TRUE(contains(report_html(report), planned + "; " + words + "<b>2.00 GiB</b>.</p>")) << words;
    *bytes = 0;
  }
  report.recomputation = "a <b";
  EXPECT_TRUE(contains(report_html(report), planned + ". Recomputation: a &lt;b.</p>"));
}

TEST(Html, OtherIsWhatThePartsOfAStepLeave) {
  Report report;
  report.train.totals = {10, 80, 20.0, {1.0, 6.0, 9.0, 0.5, 2.5}};
  const std::string html = report_html(report);
  EXPECT_TRUE(contains(html, "other</th><td class=\"n\">100 ms</td><td class=\"n\">5.0 %</td>"))
      << html.substr(html.find("other</th>"), 200);
}

TEST(Html, TextFromOutsideIsEscapedWhereverItStands) {
  const std::string evil = "</style><script>\"'&";
  Report report = test::sample_report();
  report.title = report.model_name = report.dataset = report.architecture = report.finished_at = evil;
  report.all_settings.push_back({evil, evil});
  report.provenance.push_back({evil, evil});
  report.contracts.push_back({evil, ContractState::kKept, evil});
  report.memory.push_back({evil, std::uint64_t{1} << 30, evil});
  report.operations.push_back({evil, 1, 1.0, 0.0});
  report.facts.push_back({evil, evil, {{evil, evil}}});
  const std::size_t picture = report.pictures.size();
  report.pictures.push_back({evil, evil, {0xff, 0xd8}});
  report.caption_examples.push_back({kNoPicture, evil, {{picture, "", 0.5, false}}, {picture, "", 0.1, true}, 7});
  report.picture_examples.push_back({picture, "", {{kNoPicture, evil, 0.5, false}}, {kNoPicture, evil, 0.1, true}, 7});
  report.class_accuracies.push_back({evil, 2, 1});
  report.confusions.push_back({evil, evil, 1});
  report.class_examples.push_back({picture, evil, {{evil, 0.5, false}, {evil, 0.25, true}}});
  report.entity_figures.push_back({evil, 0.5, 0.5, 0.5, 1, 1});
  report.tagged_texts.push_back({{evil, evil}, {{evil, 0, 2, true}}, {{evil, 1, 2, false}}});
  report.sentence_examples.push_back({{{evil, "", {}}, {evil, evil, {{evil, 0.5, true}}}}, true, true, false, 0.5});
  const std::string html = report_html(report);
  EXPECT_FALSE(contains(html, "<script"));
  EXPECT_EQ(count(html, "</style>"), 1u);
  EXPECT_EQ(unbalanced(html), "");
  EXPECT_GE(count(html, "&lt;/style&gt;&lt;script&gt;&quot;&#39;&amp;"), 25u);
}

TEST(Html, EntitiesAreMarkedInTheirWords) {
  Report report;
  report.entity_figures = {{"PER", 0.25, 0.5, 1.0 / 3.0, 2, 4}};
  report.tagged_texts = {{{"a", "b", "c", "d"}, {{"PER", 1, 3, true}}, {{"LOC", 0, 1, false}, {"PER", 1, 3, true}}}};
  const std::string html = report_html(report);
  EXPECT_TRUE(contains(html, "a <mark class=\"right\">b c<sub>PER ✓</sub></mark> d</p>"));
  EXPECT_TRUE(contains(html, "<mark>a<sub>LOC</sub></mark> <mark class=\"right\">b c<sub>PER ✓</sub></mark> d</p>"));
  EXPECT_TRUE(contains(html, "33.3"));
  EXPECT_EQ(unbalanced(html), "");
}

TEST(Html, EachShownPictureIsEmbeddedOnceAndOthersNotAtAll) {
  Report report = test::sample_report();
  report.map = {};
  report.pictures.assign(5, {"a.jpg", "a cat", {0xff, 0xd8, 0xff}});
  report.caption_examples = {{kNoPicture, "x", {{0, "", 0.9, true}, {1, "", 0.8, false}}, {0, "", 0.9, true}, 1},
                             {kNoPicture, "y", {{1, "", 0.9, false}, {0, "", 0.8, false}}, {3, "", 0.1, true}, 12}};
  report.picture_examples = {
      {2, "", {{kNoPicture, "x", 0.5, false}}, {kNoPicture, "the right caption", 0.1, true}, 1234}};
  report.class_examples = {{2, "a", {}}};
  const std::string html = report_html(report);
  EXPECT_EQ(count(html, "data:image/jpeg;base64,/9j/"), 4u);
  report.pictures[1].file = {0x89, 'P', 'N', 'G'};
  EXPECT_EQ(count(report_html(report), "data:image/png;base64,iVBORw"), 1u);
  report.pictures[1].file = {'R', 'I', 'F', 'F'};
  EXPECT_EQ(count(report_html(report), "data:image/webp;base64,UklGRg"), 1u);
}

TEST(Html, TheRightOneFollowsWithItsRankWhereItIsNotAmongTheHits) {
  Report report;
  report.pictures.assign(3, {"a.jpg", "a cat", {0xff, 0xd8, 0xff}});
  report.caption_examples = {{kNoPicture, "x", {{0, "", 0.9, true}, {1, "", 0.8, false}}, {0, "", 0.9, true}, 1},
                             {kNoPicture, "y", {{1, "", 0.9, false}, {0, "", 0.8, false}}, {2, "", 0.125, true}, 12}};
  report.picture_examples = {
      {2, "", {{kNoPicture, "x", 0.5, false}}, {kNoPicture, "the right caption", 0.25, true}, 1234}};
  const std::string html = report_html(report);
  EXPECT_EQ(count(html, "rank "), 2u);
  EXPECT_TRUE(contains(html,
                       "<li class=\"right\"><div class=\"picture small p2\" role=\"img\" aria-label=\"a cat\" "
                       "title=\"a.jpg\"></div><span>0.125 ✓<br>rank 12</span></li>"));
  EXPECT_TRUE(
      contains(html, "0.250<br>rank 1,234</span><span class=\"clamped\" dir=\"auto\">the right caption</span>"));
}

TEST(Html, ClassesAreShownWithTheirAccuracyAndTheirConfusions) {
  const std::string html = report_html(test::sample_report());
  EXPECT_TRUE(contains(html,
                       "<th scope=\"row\">face &amp; hair</th><td class=\"n\">25.0 %</td><td class=\"n\">1</td>"
                       "<td class=\"n\">4</td>"));
  EXPECT_TRUE(contains(html, "<th scope=\"row\">food</th><td>animal</td><td class=\"n\">7</td>"));
  EXPECT_TRUE(contains(html, "<b>animal</b> 61.0 %</span></li>\n<li><span><span class=\"right\"><b>food</b> 30.0 % ✓"));
}

TEST(Html, MaskedTokensAreFramedAndNumberedWithTheirGuesses) {
  const std::string html = report_html(test::sample_report());
  EXPECT_TRUE(contains(html, "the <mark title=\"the model saw [MASK]\">list<sub>1</sub></mark> [SEP] it [SEP] </p>"));
  EXPECT_TRUE(contains(html, "<li>1 &nbsp; <span class=\"right\"><b>list</b> 50.0 % ✓</span> &nbsp; <b>&lt;tuple&gt;"));
  EXPECT_EQ(count(html, "The second text does not follow the first one; the model: follows, 75.0 %"), 1u);
}

TEST(Html, TheBestValueIsThatOfItsSplit) {
  Report report;
  report.metrics = {test::kOfWords, std::size(test::kOfWords)};
  const auto add = [&](Split split, double loss, double perplexity, double accuracy) {
    EvaluationRecord record;
    record.split = split;
    record.loss = loss;
    record[test::kPerplexity] = perplexity;
    record[test::kAccuracy] = accuracy;
    report.evaluations.push_back(record);
  };
  add(Split::kValidation, 0.5, 31.0, 0.25);
  add(Split::kValidation, 0.75, 30.0, 0.375);
  add(Split::kTest, 0.125, 10.0, 0.625);  // better than all of validation, and the only one of its split
  const std::string html = report_html(report);
  EXPECT_EQ(count(html, "class=\"n best\""), 3u);
  for (const char* best : {"0.5000", "30.00", "37.5 %"})
    EXPECT_TRUE(contains(html, std::string("<td class=\"n best\">") + best + "</td>")) << best;
}

TEST(Html, AFigureThatHasNoBestIsNeverInBold) {
  const Metric kLengthOfText = {"gen_len", "tokens", 4, false, false, 0, 0, true, false};
  Report report;
  report.metrics = {&kLengthOfText, 1};
  for (const double length : {7.0, 9.0}) {
    EvaluationRecord record;
    record.loss = length;
    record[kLengthOfText] = length;
    report.evaluations.push_back(record);
  }
  EXPECT_EQ(count(report_html(report), "class=\"n best\""), 1u) << "that of the loss";
}

TEST(Html, KeyBreaksBehindAnUnderscore) {
  EXPECT_TRUE(contains(html_of(std::vector<NamedText>{{"warmup_steps", "a_b"}}),
                       "<th scope=\"row\">warmup_<wbr>steps</th><td>a_b</td>"));
}

// Chromium measures the page itself, where it is installed (check_pages.py).
TEST(Html, TheLinksOfAPageWithEverySectionFitIntoALineOfASmallWindow) {
  Report report = test::sample_report();
  report.facts.push_back({"Allocations by libraries after the seal", "", {{"a", "b"}}});
  const std::string html = report_html(report),
                    nav = html.substr(html.find("<nav"), html.find("</nav>") - html.find("<nav"));
  double pixels = 0.0;
  for (std::size_t at = nav.find("<a "); at != std::string::npos; at = nav.find("<a ", at + 1)) {
    const std::size_t begin = nav.find('>', at) + 1;
    pixels += 7.5 * static_cast<double>(nav.find('<', begin) - begin) + 16.0;  // a letter, and the gap behind the link
  }
  EXPECT_EQ(count(nav, "<a "), 14u);
  EXPECT_LE(pixels, 1000.0 - 2 * 24.0 + 16.0);
}

TEST(Html, EveryEvaluationOfTheAverageHasARowBehindThatOfTheWeights) {
  const std::string html = report_html(test::sample_report_with_average());
  std::string table = html.substr(html.find("<section id=\"evaluation\">"));
  table = table.substr(0, table.find("</table>"));
  std::vector<std::string> rows;
  for (std::size_t at = table.find("<tr><th scope=\"row\">"); at != std::string::npos;
       at = table.find("<tr><th scope=\"row\">", at + 1)) {
    const std::string row = table.substr(at + 20, table.find("</td>", at) - at - 20);
    rows.push_back(row.substr(0, row.find("</th>")) + " " + row.substr(row.rfind('>') + 1));
  }
  const std::vector<std::string> expected = {
      "validation 100", "validation, averaged weights 100", "validation 200", "validation, averaged weights 200",
      "validation 300", "validation, averaged weights 300", "validation 400", "validation, averaged weights 400",
      "test 400",       "test, averaged weights 400"};
  EXPECT_EQ(rows, expected);
  // Loss and six recalls, of the weights and of the average; there is one test, which is the best of nothing.
  const std::size_t test = table.find("<th scope=\"row\">test");
  EXPECT_EQ(count(table.substr(0, test), "class=\"n best\""), 2u * 7u);
  EXPECT_EQ(count(table.substr(test), "class=\"n best\""), 0u);
}

TEST(Html, EveryHeadOfATableSaysWhatItHeads) {
  const std::string html = report_html(test::sample_report());
  EXPECT_GT(count(html, "<th "), 20u);
  EXPECT_EQ(count(html, "<th"), count(html, "<th scope=") + count(html, "<thead>"));
}

TEST(Html, ContractsThatARunDoesNotJudgeAreCountedApart) {
  Report report;
  report.contracts = {
      {"a", ContractState::kKept, ""}, {"b", ContractState::kKept, ""}, {"c", ContractState::kNotChecked, ""}};
  EXPECT_TRUE(contains(report_html(report), "<b>2 <small>kept</small></b><i>1 not checked</i>"));
  report.contracts.push_back({"d", ContractState::kBroken, ""});
  EXPECT_TRUE(contains(report_html(report), "<b>2 <small>kept</small></b><i>1 broken, 1 not checked</i>"));
}

TEST(Html, AHitThatNamesNoPictureIsAnEmptyFrame) {
  Report report;
  report.caption_examples = {{kNoPicture, "x", {{99, "", 0.9, true}}, {99, "", 0.9, true}, 1}};
  EXPECT_EQ(unbalanced(report_html(report)), "");
}

TEST(Html, WhatIsMissingLeavesNoEmptySection) {
  const std::string html = report_html(Report{});
  EXPECT_EQ(count(html, "<section"), 0u);
  EXPECT_EQ(count(html, "<figure class"), 0u);
}

TEST(Html, ShowsEveryPartOfAFullReport) {
  const std::string html = report_html(test::sample_report());
  for (const char* id : {"curves", "evaluation", "captions", "pictures", "map", "classes", "class-examples",
                         "sentences", "time", "memory", "contracts", "facts0", "settings", "same-bits"}) {
    EXPECT_TRUE(contains(html, std::string("<section id=\"") + id + "\"")) << id;
  }
  EXPECT_EQ(count(html, "<figure class=\"chart\">"), 6u);
}

TEST(HtmlEscape, ReplacesWhatIsNotUtf8AndKeepsWhatIs) {
  EXPECT_EQ(html_escape("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(html_escape("caf\xc3\xa9 \xf0\x9f\x8d\x88"), "caf\xc3\xa9 \xf0\x9f\x8d\x88");
  EXPECT_EQ(html_escape("\xff|\xc3|\xed\xa0\x80"), "\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(html_escape("\xc0\xbc"), "\xef\xbf\xbd\xef\xbf\xbd");  // "<" in too many bytes
  EXPECT_EQ(html_escape(std::string("a\0b\n", 4)),
            "a\xef\xbf\xbd"
            "b ");
  EXPECT_EQ(html_escape("\x7f|\x1f|\t\r\n|~ "), "\xef\xbf\xbd|\xef\xbf\xbd|   |~ ");
}

TEST(HtmlText, NumbersArePlainAndShort) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& [value, text] : {std::pair<double, const char*>{1.5, "1.5"},
                                    {2.0, "2"},
                                    {100.0, "100"},
                                    {0.25, "0.25"},
                                    {-1.5, "-1.5"},
                                    {-0.001, "0"},
                                    {0.0, "0"},
                                    {0.126, "0.13"},
                                    {infinity, "0"},
                                    {std::nan(""), "0"}})
    EXPECT_EQ(html_number(value), text);
  EXPECT_EQ(score_text(0.70549), "0.705");
  EXPECT_EQ(score_text(-1.0), "-1.000");
}

TEST(HtmlText, ATableHasItsNameItsHeadsAndItsCells) {
  Table table{"l>", {"a<b", number("n"), {"p", ColumnKind::kProse}, {"o", ColumnKind::kNote}, {"", ColumnKind::kBar}}};
  EXPECT_EQ(html_of(table) + html_with_heading(table), "");
  table.rows.push_back({"x&", Cell("7", true), "s", "t", bar_cell(0.25)});
  const std::string begin =
      "\" tabindex=\"0\" role=\"region\" aria-label=\"l&gt;\"><table><thead><tr><th scope=\"col\">a&lt;b</th>"
      "<th scope=\"col\" class=\"n\">n</th><th scope=\"col\">p</th><th scope=\"col\">o</th>"
      "<td class=\"bar-head\"></td></tr></thead><tbody>\n<tr><th scope=\"row\">x&amp;</th>";
  const std::string row =
      "<td class=\"n best\">7</td><td dir=\"auto\">s</td><td class=\"note\">t</td><td class=\"bar\"><span "
      "style=\"width:25%\"></span></td></tr>\n</tbody></table></div>\n";
  EXPECT_EQ(html_of(table), "<div class=\"wide" + begin + row);
  EXPECT_EQ(html_with_heading(table), "<h3>l&gt;</h3>\n" + html_of(table));
  EXPECT_EQ(text_of(table), "a<b  n  p  o\nx&   7  s  t  \u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\n");
  EXPECT_EQ(text_of(table, true), "  x&  7  s  t  \u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\n");
  table.rows.resize(12, table.rows[0]);
  EXPECT_EQ(html_of(table).find("<div class=\"wide\" "), 0U);
  table.rows.push_back(table.rows[0]);
  EXPECT_EQ(html_of(table).find("<div class=\"wide tall\" "), 0U);
  const std::vector<NamedText> pairs = {{"k", "<"}, {"longer", "w"}};
  EXPECT_EQ(html_of(pairs),
            "<table class=\"pairs\"><tbody>\n<tr><th scope=\"row\">k</th><td>&lt;</td></tr>\n<tr><th "
            "scope=\"row\">longer</th><td>w</td></tr>\n</tbody></table>\n");
  EXPECT_EQ(text_of(pairs), "  k       <\n  longer  w\n");
}

TEST(HtmlText, APageHasItsPartsInOrder) {
  EXPECT_EQ(html_begin(""), "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
  EXPECT_EQ(html_begin("bascule x"), html_begin("") + "<meta name=\"generator\" content=\"bascule x\">\n");
  HtmlPage page;
  page.title = "TITLE<";
  page.product = "PRODUCT";
  page.note = "NOTE";
  page.generator = "GENERATOR";
  page.style = "STYLE";
  page.subtitle = "SUBTITLE";
  page.lead = "LEAD";
  page.sections = {{"FIRST", "ONE", true, "first", "1st"}, {"EMPTY", "", true, "empty", "0th"}, {"", "TWO", false}};
  page.footer = "FOOTER";
  const std::string html = html_page(page);
  std::size_t at = 0;
  for (const char* part :
       {"GENERATOR", "viewport", "default-src 'none'; img-src data:; style-src 'unsafe-inline'",
        "<title>TITLE&lt; \xc2\xb7 PRODUCT</title>", "<style>", "STYLE</style>\n</head>\n<body>\n",
        "PRODUCT \xc2\xb7 NOTE</div>\n<h1 dir=\"auto\">TITLE&lt;</h1>\n<p class=\"sub\">SUBTITLE</p>\nLEAD</header>\n",
        "<nav aria-label=\"Sections\"><div class=\"inner\"><a href=\"#first\">1st</a></div></nav>\n<main>\n",
        "<section id=\"first\"><h2>FIRST</h2>\n<div class=\"card\">\nONE</div>\n</section>\n<section>TWO</section>\n",
        "</main>\n<footer class=\"inner\">Written by Bascule. FOOTER</footer>\n</body>\n</html>\n"}) {
    const std::size_t found = html.find(part, at);
    ASSERT_NE(found, std::string::npos) << part;
    at = found;
  }
  EXPECT_EQ(html.find(html_begin("GENERATOR")), 0U);
  EXPECT_TRUE(contains(html, html_style()));
  page.picture = "PICTURE";
  EXPECT_TRUE(contains(html_page(page), "<div class=\"asked\">PICTURE<h1 dir=\"auto\">TITLE&lt;</h1></div>\n"));
}

TEST(Base64, MatchesTheVectorsOfRfc4648) {
  const auto encoded = [](const std::string& text) { return base64({text.begin(), text.end()}); };
  EXPECT_EQ(encoded(""), "");
  EXPECT_EQ(encoded("f"), "Zg==");
  EXPECT_EQ(encoded("fo"), "Zm8=");
  EXPECT_EQ(encoded("foo"), "Zm9v");
  EXPECT_EQ(encoded("foobar"), "Zm9vYmFy");
  EXPECT_EQ(encoded("\xff\xef\xbf\xfb"), "/++/+w==");
  const auto url = [](const std::string& text) { return picture_url({text.begin(), text.end()}); };
  EXPECT_EQ(url("\x89PNG"), "data:image/png;base64,iVBORw==");
  EXPECT_EQ(url("RIFF"), "data:image/webp;base64,UklGRg==");
  EXPECT_EQ(url("\xff\xd8"), "data:image/jpeg;base64,/9g=");
  for (const char* other : {"\x89", "\x89x", "xP", "R", "Rx", "xI"})
    EXPECT_EQ(url(other).rfind("data:image/jpeg;base64,", 0), 0U) << other;
}

}  // namespace
}  // namespace bascule
