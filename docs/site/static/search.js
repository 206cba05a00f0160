// What Sphinx's search does not find: headings that have all words of a query, in any order; functions
// whose names are several words; British and American spellings.
const spelled = (word) => word.replace(/is(e|ed|er|ers|es|ing|ation|ations)$/, "iz$1");

// The stems of a text's words, in American spelling, without those that mean nothing.
const stems = (text) => {
  const stemmer = new Stemmer();
  const words = splitQuery(text.toLowerCase()).filter((word) => !stopwords.has(word));
  return words.map((word) => stemmer.stemWord(spelled(word)));
};

// 20 for a heading that has the words, up to 30 if it has no others; a page's title before others.
const headings = (wanted) => {
  const { alltitles, docnames, filenames, titles } = Search._index;
  const found = [];
  for (const [title, places] of Object.entries(alltitles)) {
    const words = stems(title);
    if (!wanted.length || !wanted.every((word) => words.includes(word))) continue;
    for (const [file, id] of places) {
      const whole = titles[file] === title;
      const score = 20 + (10 * wanted.length) / words.length + (whole ? 8 : 0);
      const name = whole ? title : `${titles[file]} > ${title}`;
      found.push([docnames[file], name, id ? `#${id}` : "", null, score, filenames[file], "title"]);
    }
  }
  return found;
};

// "least squares" is the function least_squares; a whole name comes before texts that have it.
const functions = (query) => {
  const name = query.trim().toLowerCase().split(/[\s-]+/).join("_");
  const found = Search.performObjectSearch(name, new Set([name]));
  const whole = found.filter((item) => item[1].toLowerCase().split(".").pop() === name);
  return whole.map((item) => [...item.slice(0, 4), 30, ...item.slice(5)]);
};

const extend = () => {
  if (typeof Search === "undefined") return;
  const perform = Search._performSearch;
  const byTerms = Search.performTermsSearch;
  let query = "";
  Search._performSearch = (asked, ...rest) => {
    query = asked;
    return perform(asked, ...rest);
  };
  Search.performTermsSearch = (terms, excluded) => {
    const wanted = stems(query);
    const other = new Set(wanted);
    const texts = byTerms(terms, excluded);
    const more = wanted.every((word) => terms.has(word)) ? [] : byTerms(other, excluded);
    return [...texts, ...more, ...headings(wanted), ...functions(query)];
  };
};

document.addEventListener("DOMContentLoaded", extend);
