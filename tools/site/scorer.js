// Ranking of the site's search: Sphinx's own, but pages to look something up in, and pages for those who work on
// devmem, come after pages for readers with a question. Names of objects keep their places.
const laterPages = ["benchmarks", "changelog", "contributing", "decisions/", "reference/"];
const laterBy = 20;
var Scorer = {
  score: ([docname, title, anchor, descr, score, filename, kind]) =>
    kind !== "object" && laterPages.some((start) => docname.startsWith(start)) ? score - laterBy : score,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
