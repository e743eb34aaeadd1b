// Start, fields, and keys.

const FIELDS = { search: "search", problem: "problem", "step-from": "from", "step-to": "to", "reward-from": "low", "reward-to": "high", sort: "sort", colour: "colour" };
const CHIPS = { outcomes: "outcome", finishes: "finish", uses: "use" };
const TABS = ["one", "group", "steps"];
const THEMES = ["", "dark", "light"];

async function refresh() {
  const result = await searched(state.search.trim(), (share) => { byId("summary").textContent = `Searching … ${Math.round(100 * share)} %`; });
  if (result === null) return;
  const rows = fittingRows(result.matches);
  showRows(rows);
  summarise(rows);
  const active = activeFilters();
  byId("filter-count").textContent = active ? `(${active} active)` : "";
  selectionChanged();
}

function summarise(rows) {
  let sum = 0;
  let known = 0;
  let right = 0;
  const correct = data.outcomes.indexOf("correct");
  for (const row of rows) {
    if (data.total[row] !== null) { sum += data.total[row]; known += 1; }
    if (data.outcome[row] === correct) right += 1;
  }
  const parts = [`${counted(rows.length)} of ${counted(data.count)} completions`];
  if (known > 0) parts.push(`mean reward ${shown(sum / known)}`);
  if (rows.length > 0 && correct >= 0) parts.push(`${((100 * right) / rows.length).toFixed(1)} % correct`);
  byId("summary").textContent = parts.join(" · ");
  drawTimeline(rows);
}

function selectionChanged() {
  document.body.dataset.pane = state.pane;
  writeAddress();
  drawDetail();
}

function fillFields() {
  for (const [id, name] of Object.entries(FIELDS)) byId(id).value = state[name];
  if (byId("sort").value === "") byId("sort").value = state.sort = EMPTY.sort;
  for (const id of Object.keys(CHIPS)) {
    const wanted = new Set(state[id].split(",").filter((name) => name !== ""));
    for (const button of byId(id).children) button.setAttribute("aria-pressed", String(wanted.has(data[id][button.dataset.number])));
  }
}

function makeChips(id, column) {
  const names = data[id];
  const sizes = names.map(() => 0);
  for (const number of data[column]) sizes[number] += 1;
  byId(id).replaceChildren(...names.map((name, number) => {
    const button = make("button", { type: "button", class: "chip", "aria-pressed": "false", text: `${(name || "–").replace("_", " ")} ${counted(sizes[number])}` });
    button.dataset.number = number;
    button.addEventListener("click", () => {
      const wanted = new Set(state[id].split(",").filter((other) => other !== ""));
      if (!wanted.delete(name)) wanted.add(name);
      state[id] = [...wanted].join(",");
      fillFields();
      refresh();
    });
    button.hidden = sizes[number] === 0 || sizes[number] === data.count;
    return button;
  }));
  byId(id).hidden = [...byId(id).children].every((button) => button.hidden);
}

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  byId("theme").textContent = { "": "Theme: system", dark: "Theme: dark", light: "Theme: light" }[theme];
  try { localStorage.setItem("groupwise-theme", theme); } catch { /* a page from a file may have no storage */ }
}

function nextTheme() {
  setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "") + 1) % THEMES.length]);
}

function showTab(tab) {
  state.tab = tab;
  selectionChanged();
}

function nextColour() {
  const options = [...byId("colour").options].map((option) => option.value);
  state.colour = options[(options.indexOf(state.colour) + 1) % options.length];
  fillFields();
  selectionChanged();
}

function backToList() {
  state.pane = "list";
  selectionChanged();
  byId("list").focus();
}

const page = () => Math.max(1, Math.floor(byId("list").clientHeight / ROW_HEIGHT) - 1);
const KEYS = {
  j: () => select(list.at + 1), k: () => select(list.at - 1),
  n: () => select(nextGroup(1)), p: () => select(nextGroup(-1)),
  1: () => showTab("one"), 2: () => showTab("group"), 3: () => showTab("steps"),
  c: nextColour, t: nextTheme,
  "/": () => { state.pane = "list"; selectionChanged(); byId("search").focus(); },
  f: () => { state.pane = "list"; selectionChanged(); byId("filters").open = true; byId("problem").focus(); },
  "?": () => byId("help").showModal(),
  Escape: backToList,
};
const LIST_KEYS = {
  ArrowDown: () => select(list.at + 1), ArrowUp: () => select(list.at - 1),
  PageDown: () => select(list.at + page()), PageUp: () => select(list.at - page()),
  Home: () => select(0), End: () => select(list.rows.length - 1),
  Enter: () => { state.pane = "detail"; selectionChanged(); byId("panel").focus(); },
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  const isField = event.target.matches("input, select, textarea");
  if (isField && event.key === "Escape") { event.target.blur(); byId("list").focus(); return; }
  if (isField) return;
  const act = (event.target.id === "list" && LIST_KEYS[event.key]) || KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

function wire() {
  let waiting;
  for (const [id, name] of Object.entries(FIELDS)) {
    const take = () => { state[name] = byId(id).value; if (name === "colour") selectionChanged(); else refresh(); };
    byId(id).addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(take, name === "search" ? 250 : 60); });
    byId(id).addEventListener("change", () => { clearTimeout(waiting); take(); });
  }
  byId("reset").addEventListener("click", () => {
    Object.assign(state, EMPTY, { row: state.row, tab: state.tab, colour: state.colour, pane: state.pane });
    fillFields();
    refresh();
  });
  byId("list").addEventListener("scroll", drawList, { passive: true });
  byId("list").addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (row === null) return;
    state.pane = "detail";
    select(Number(row.dataset.at));
  });
  byId("timeline").addEventListener("click", (event) => {
    const step = stepAt(event);
    if (step === undefined) return;
    Object.assign(state, { from: String(step), to: String(step) });
    fillFields();
    refresh();
  });
  const tabs = document.querySelectorAll("[role=tab]");
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => showTab(tab.dataset.tab));
    tab.addEventListener("keydown", (event) => {
      const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!move) return;
      const next = tabs[(i + move + TABS.length) % TABS.length];
      showTab(next.dataset.tab);
      next.focus();
    });
  });
  byId("back").addEventListener("click", backToList);
  byId("theme").addEventListener("click", nextTheme);
  byId("help-open").addEventListener("click", KEYS["?"]);
  addEventListener("resize", drawList);
  addEventListener("hashchange", () => { readAddress(); fillFields(); refresh(); });
  document.addEventListener("keydown", onKey);
}

async function begin() {
  await loadIndex();
  byId("run-name").textContent = data.run;
  const [first, last] = [data.steps[0], data.steps.at(-1)];
  const facts = [`${counted(data.count)} completions of ${counted(data.problems.length)} problems, steps ${first} to ${last}.`, ...data.notes];
  byId("facts").textContent = facts.join(" ");
  byId("sort").replaceChildren(...Object.keys(sortColumns()).flatMap((name) => {
    const label = { order: "step", total: "reward" }[name] ?? name;
    return [make("option", { value: name, text: `${label}, ascending` }), make("option", { value: `${name}|down`, text: `${label}, descending` })];
  }));
  for (const [id, column] of Object.entries(CHIPS)) makeChips(id, column);
  let theme = "";
  try { theme = localStorage.getItem("groupwise-theme") ?? ""; } catch { /* see setTheme */ }
  setTheme(THEMES.includes(theme) ? theme : "");
  byId("filters").open = matchMedia("(min-width: 60rem)").matches;
  readAddress();
  fillFields();
  wire();
  await refresh();
  document.body.dataset.ready = "true";
}

begin().catch((error) => {
  byId("facts").textContent = `This page cannot be read: ${error.message}. It needs a browser of 2023 or later.`;
});
