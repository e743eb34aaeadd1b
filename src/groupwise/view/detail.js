// The selected completion: alone, in its group, and its problem over the steps.

let drawing = 0;

async function drawDetail() {
  drawing += 1;
  const own = drawing;
  const row = list.at < 0 ? undefined : list.rows[list.at];
  byId("detail").hidden = row === undefined;
  byId("nothing").hidden = row !== undefined;
  if (row === undefined) return;
  const content = await contentOf(row);
  if (own !== drawing) return;
  const [id, domain, question, answer] = data.problems[data.problem[row]];
  byId("where").textContent = `step ${data.step[row]} · ${id}${domain ? ` · ${domain}` : ""}`;
  byId("question").textContent = question || id;
  byId("gold").replaceChildren("Answer: ", make("strong", { class: "model-text", text: answer || "–" }));
  byId("prompt").textContent = content.prompt;
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const isOwn = tab.dataset.tab === state.tab;
    tab.setAttribute("aria-selected", String(isOwn));
    tab.tabIndex = isOwn ? 0 : -1;
    if (isOwn) byId("panel").setAttribute("aria-labelledby", tab.id);
  }
  byId("readout").textContent = "";
  const panel = byId("panel");
  panel.className = `panel-${state.tab}`;
  byId("readout").hidden = state.tab !== "one";
  const draw = { one: drawOne, group: drawGroup, steps: drawSteps }[state.tab];
  const parts = await draw(row, content);
  if (own !== drawing) return;
  panel.replaceChildren(...parts);
  drawLegend(content);
}

function factsOf(row, content) {
  const facts = make("dl", { class: "facts" });
  const add = (name, ...values) => facts.append(make("div", {}, make("dt", { text: name }), make("dd", {}, ...values)));
  add("Outcome", outcomeMark(row));
  add("Reward", shown(data.total[row]));
  add("Advantage", advantageMark(data.advantage[row]));
  data.components.forEach((name, k) => { if (data.rewards[k][row] !== null) add(name, shown(data.rewards[k][row])); });
  for (const [name, spans] of Object.entries(content.values.spans ?? {})) add(`${name}, part by part`, spans.map((span) => shown(span[2])).join(" · "));
  if (content.extracted) add("Read as the answer", make("span", { class: "model-text", text: content.extracted }));
  if (content.method) add("Compared by", content.method);
  if (content.flags.length > 0) add("Flags", content.flags.join(", "));
  for (const [name, reason] of Object.entries(content.detail)) add(`${name}, why`, make("span", { class: "model-text", text: reason }));
  add("Ended by", data.finishes[data.finish[row]] || "–");
  add("Tokens", counted(data.tokens[row]));
  return facts;
}

async function drawOne(row, content) {
  const text = make("div", { class: "completion model-text", tabindex: "0", role: "group", "aria-label": "Completion, token by token with the arrow keys" });
  const tokens = fillWithTokens(text, row, content);
  if (tokens !== null && tokens.length > 0) tellTokens(text, tokens);
  return [factsOf(row, content), text];
}

async function drawGroup(row) {
  const rows = groupOf(row);
  const totals = rows.map((own) => data.total[own]).filter((value) => value !== null);
  const mean = totals.length ? totals.reduce((a, b) => a + b, 0) / totals.length : null;
  const contents = await Promise.all(rows.map(contentOf));
  const cards = rows.map((own, i) => {
    const text = make("div", { class: "completion model-text", tabindex: "0", role: "group", "aria-label": `Completion ${data.sample[own]}` });
    fillWithTokens(text, own, contents[i]);
    const choose = make("button", { type: "button", class: "choose", text: `Sample ${data.sample[own]}` });
    choose.addEventListener("click", () => goTo(own, "one"));
    const head = make("div", { class: "card-head" }, choose, make("span", { text: shown(data.total[own]), title: "Reward" }), advantageMark(data.advantage[own]), outcomeMark(own));
    return make("article", { class: own === row ? "card is-selected" : "card" }, head, text);
  });
  const trained = data.advantage[row] === null ? "; the group was not trained on" : "";
  return [
    make("p", { class: "quiet", text: `${rows.length} completions of one prompt, mean reward ${shown(mean)}${trained}.` }),
    make("div", { class: "cards" }, ...cards),
  ];
}

async function drawSteps(row) {
  const groups = new Map();
  for (const own of rowsOfProblem(data.problem[row])) {
    const key = `${data.step[own]}.${data.position[own]}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(own);
  }
  const parts = await Promise.all([...groups.values()].map(async (rows) => {
    const items = await Promise.all(rows.map(async (own) => {
      const { text, extracted } = await contentOf(own);
      const choose = make("button", { type: "button", class: own === row ? "line is-selected" : "line" },
        outcomeMark(own), make("span", { text: shown(data.total[own]) }),
        make("span", { class: "line-text model-text", text: extracted ? `${extracted} ← ${text.slice(0, 400)}` : text.slice(0, 400) }));
      choose.addEventListener("click", () => goTo(own, "one"));
      return make("li", {}, choose);
    }));
    const known = rows.map((own) => data.total[own]).filter((value) => value !== null);
    const mean = known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
    return { step: data.step[rows[0]], mean, element: make("section", { class: "step-group" },
      make("h3", { text: `Step ${data.step[rows[0]]}: mean reward ${shown(mean)}` }), make("ul", {}, ...items)) };
  }));
  const note = parts.length === 1 ? "This problem came up once." : `This problem came up ${parts.length} times.`;
  return [make("p", { class: "quiet", text: note }), ...(parts.length > 1 ? [curveOf(parts, [600, 90], true)] : []), ...parts.map((part) => part.element)];
}

// Shows a row that the filters may leave out, in a view.
function goTo(row, tab) {
  state.tab = tab;
  const at = list.rows.indexOf(row);
  if (at >= 0) {
    select(at);
    return;
  }
  const kept = { tab, row: keyOf(row), colour: state.colour, pane: state.pane };
  Object.assign(state, EMPTY, kept);
  fillFields();
  refresh();
}
