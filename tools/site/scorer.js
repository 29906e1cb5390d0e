// Ranking of the site's search: Sphinx's own, with two changes. A heading that contains the whole query comes before pages
// that have its words. Pages to look something up in, pages for those who work on devmem, and translations come after
// pages for readers with a question. Names of objects keep their places.
const laterPages = ["benchmarks", "changelog", "contributing", "decisions/", "reference/", "zh/"];
const laterBy = 20;
const headingBonus = 10;
var Scorer = {
  score: ([docname, title, anchor, descr, score, filename, kind]) =>
    score
    + (kind === "title" ? headingBonus : 0)
    - (kind !== "object" && laterPages.some((start) => docname.startsWith(start)) ? laterBy : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
