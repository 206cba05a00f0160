// node search_check.js SITE: each query of the table below finds the page that it is about first.
// Sphinx's own scripts run here, with as much of a browser as they ask for.

const fs = require("fs");
const path = require("path");
const vm = require("vm");

const FIRST = {
  "numba": "coming_from_numba",
  "custom rule": "rules_and_memory",
  "custom gradient": "rules_and_memory",
  "own rule": "rules_and_memory",
  "jax": "coming_from",
  "least squares": "reference/fgrad.scipy.optimize#fgrad.scipy.optimize.least_squares",
  "curve fit": "howto/fitting#fit-a-curve-with-errors-of-the-parameters",
  "fit a curve": "howto/fitting#fit-a-curve-with-errors-of-the-parameters",
  "fit a model": "howto/fitting",
  "train": "howto/fitting",
  "optimizer": "learn/trees#optimizers",
  "optimiser": "learn/trees#optimizers",
  "speed up a loop": "howto/speed#speed-up-a-plain-loop",
  "loops": "learn/loops",
  "vmap": "learn/vmap",
  "jit": "learn/jit",
  "per-sample gradients": "howto/derivatives",
  "gradient of each example": "howto/derivatives#take-the-gradient-of-each-example-and-clip-it",
  "nan": "learn/debugging#a-nan",
  "find a nan": "howto/fitting#find-and-stop-at-a-nan",
  "constraints": "howto/fitting#minimise-with-bounds-and-constraints",
  "minimize": "howto/fitting#minimise-with-scipy",
  "resume training": "howto/fitting#stop-and-resume-a-training-run",
  "save parameters": "howto/models#save-and-load-parameters",
  "ode": "howto/science",
  "fit an ode": "howto/science#fit-an-ode-to-data",
  "posterior": "howto/science#sample-a-posterior-with-hamiltonian-monte-carlo",
  "bayesian": "howto/science",
  "mcmc": "howto/science",
  "random keys": "learn/random",
  "sparse jacobian": "rules_and_memory#sparse-jacobians",
  "memory": "learn/memory",
  "gpu": "gpu",
  "export to C": "export",
  "doctor": "command_line",
  "custom_vjp": "reference/fgrad#fgrad.custom_vjp",
  "NanError": "errors#nanerror",
};

const nothing = () =>
  new Proxy(function () {}, { get: (_, key) => (key === Symbol.toPrimitive ? () => "" : nothing()), set: () => true, apply: nothing });

const browser = () => {
  const listeners = [];
  const document = {
    addEventListener: (_, f) => listeners.push(f),
    createElement: nothing,
    documentElement: { dataset: { content_root: "./" } },
    getElementById: () => null,
    querySelector: () => null,
    querySelectorAll: () => [],
  };
  const page = { document, console, URLSearchParams, _ready: () => {}, _: (text) => text, SPHINX_HIGHLIGHT_ENABLED: false };
  page.DOCUMENTATION_OPTIONS = { FILE_SUFFIX: ".html", LINK_SUFFIX: ".html", SHOW_SEARCH_SUMMARY: false };
  page.window = page;
  vm.createContext(page);
  return { page, listeners };
};

const loaded = (site) => {
  const { page, listeners } = browser();
  const scripts = ["_static/search.js", "_static/language_data.js", "_static/searchtools.js", "searchindex.js"];
  for (const file of scripts) vm.runInContext(fs.readFileSync(path.join(site, file), "utf8"), page, { filename: file });
  listeners.forEach((f) => f());
  return (query) => {
    page.asked = query;
    return vm.runInContext("Search._performSearch(...Search._parseQuery(asked)).reverse()", page);
  };
};

const main = (site, queries) => {
  const find = loaded(site);
  let wrong = 0;
  for (const query of queries.length ? queries : Object.keys(FIRST)) {
    const found = find(query).map((item) => item[0] + item[2]);
    const right = FIRST[query] === undefined || found[0] === FIRST[query] || (found[0] || "").split("#")[0] === FIRST[query];
    wrong += !right;
    if (!right || queries.length) console.log(`${query}: ${found.slice(0, 5).join(", ") || "nothing"}${right ? "" : `; ${FIRST[query]} is meant`}`);
  }
  console.log(`search: ${wrong} of ${queries.length || Object.keys(FIRST).length} queries find another page first`);
  process.exit(wrong ? 1 : 0);
};

main(process.argv[2], process.argv.slice(3));
