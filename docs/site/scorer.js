// Which pages come first where several have the words: lessons and recipes before notes on versions.
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: (result) => {
    const [page, title, anchor, kind, score] = result;
    const later = /^(project|results|design|examples)\/|^jax_names$/;
    if (later.test(page)) return score - 30;
    if (/^(learn|howto)\/(?!index)/.test(page)) return score + 12;
    if (/^(reference|notebooks)\/|^course$/.test(page)) return score;
    return score + 10; // guides
  },
};
