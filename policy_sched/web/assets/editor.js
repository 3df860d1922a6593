// The editor of policies: the language server's checks, completions and hovers, and trials of the edited text.
"use strict";
(() => {
  const root = document.querySelector("[data-editor]");
  if (!root) return;
  const find = (name) => root.querySelector(`[data-part="${name}"]`);
  const given = JSON.parse(find("files").textContent);
  const files = new Map(given.files.map((one) => [one.path, { old: one.added ? "" : one.text.replaceAll("\r\n", "\n"), doc: one.added ? CodeMirror.Doc(one.text, "yaml") : null, added: !!one.added, given: one.text }]));
  const select = find("file"), state = find("state"), list = find("problems"), meaning = find("meaning"), result = document.querySelector("#result");
  let current = "";

  async function post(address, body) {
    const response = await fetch(address, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(await response.text());
    return response;
  }

  function element(name, text, kind) {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  // What is shown of a word.

  function described(entry) {
    const made = document.createDocumentFragment();
    made.append(element("pre", entry.title), element("p", entry.what, "dim"));
    if (entry.text) made.append(element("p", entry.text));
    if (entry.example) made.append(element("pre", entry.example));
    return made;
  }

  function explain(entry) {
    meaning.replaceChildren(entry ? described(entry) : element("p", "No description.", "dim"));
  }

  // Checks.

  async function check(text, done, _options, editor) {
    const path = current;
    let found;
    try {
      found = (await (await post("/policies/editor", { asked: "check", path, text })).json()).problems;
    } catch (error) {
      if (path === current) { state.textContent = "not checked: " + error.message; state.className = "bad"; }
      return;
    }
    if (path !== current || text !== editor.getValue()) return;
    done(found.map((one) => ({
      from: CodeMirror.Pos(one.line, one.start), to: CodeMirror.Pos(one.line, Math.max(one.end, one.start + 1)),
      severity: one.severity === "error" ? "error" : "warning",
      message: [one.code + ": " + one.message, one.context, one.hint].filter(Boolean).join("\n"),
    })));
    list.replaceChildren(...found.map(problem));
    const errors = found.filter((one) => one.severity === "error").length;
    state.textContent = found.length ? `${found.length} problem${found.length > 1 ? "s" : ""}` : "no problems";
    state.className = errors ? "bad" : found.length ? "warn" : "good";
  }

  function problem(one) {
    const item = element("li"), button = element("button", `line ${one.line + 1}`);
    button.type = "button";
    button.addEventListener("click", () => { editor.setCursor(one.line, one.start); editor.focus(); });
    item.append(button, " ", element("span", `${one.severity} ${one.code}`, "badge " + (one.severity === "error" ? "bad" : "warn")), " " + one.message);
    if (one.hint) item.append(element("p", one.hint, "dim"));
    return item;
  }

  // Completions.

  async function complete(editor) {
    const at = editor.getCursor();
    const found = await (await post("/policies/editor", { asked: "complete", path: current, text: editor.getValue(), line: at.line, character: at.ch })).json();
    const data = {
      from: CodeMirror.Pos(at.line, found.from), to: at,
      list: found.suggestions.map((one) => ({ text: one.label, entry: one, render: (place) => { place.append(element("span", one.label), " ", element("small", one.kind)); } })),
    };
    CodeMirror.on(data, "select", (one) => explain(one.entry));
    return data;
  }

  function hint(editor) { editor.showHint({ hint: complete, completeSingle: false }); }

  // Hovers.

  const bubble = element("div", "", "bubble");
  bubble.hidden = true;
  bubble.setAttribute("role", "tooltip");
  document.body.append(bubble);
  let waiting = 0;

  async function word(at) {
    return (await (await post("/policies/editor", { asked: "hover", path: current, text: editor.getValue(), line: at.line, character: at.ch })).json()).entry;
  }

  function hover(event) {
    if (bubble.contains(event.target)) return;
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      bubble.hidden = true;
      const text = event.target.closest && event.target.closest(".CodeMirror-line");
      if (!text) return;
      const entry = await word(editor.coordsChar({ left: event.clientX, top: event.clientY }, "window"));
      if (!entry) return;
      bubble.replaceChildren(described(entry));
      bubble.hidden = false;
      bubble.style.left = Math.max(8, Math.min(event.clientX, innerWidth - bubble.offsetWidth - 8)) + "px";
      bubble.style.top = (event.clientY + 18 + bubble.offsetHeight > innerHeight ? Math.max(8, event.clientY - bubble.offsetHeight - 12) : event.clientY + 18) + "px";
    }, 350);
  }

  // The editor.

  const editor = CodeMirror.fromTextArea(find("text"), {
    mode: "yaml", lineNumbers: true, indentUnit: 2, tabSize: 2, gutters: ["CodeMirror-lint-markers", "CodeMirror-linenumbers"],
    screenReaderLabel: "Text of the file", lint: { getAnnotations: check, async: true, delay: 250, highlightLines: false },
    extraKeys: { Tab: false, "Shift-Tab": false, "Ctrl-Space": hint, "Ctrl-Enter": attempt, "Cmd-Enter": attempt, "Ctrl-I": async (one) => explain(await word(one.getCursor())) },
  });
  editor.getScrollerElement().tabIndex = 0; // it scrolls, so keys have to reach it
  editor.on("inputRead", (one, change) => { if (change.text[0] === ".") hint(one); });
  editor.on("changes", marked);
  editor.getWrapperElement().addEventListener("mousemove", hover);
  editor.getWrapperElement().addEventListener("mouseleave", () => { clearTimeout(waiting); waiting = setTimeout(() => { if (!bubble.matches(":hover")) bubble.hidden = true; }, 300); });
  bubble.addEventListener("mouseleave", () => { bubble.hidden = true; });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") bubble.hidden = true; });

  function show(path, line) {
    current = path;
    select.value = path;
    const one = files.get(path);
    one.doc = one.doc || CodeMirror.Doc(one.old, "yaml");
    list.replaceChildren();
    state.textContent = "checking";
    state.className = "dim";
    editor.swapDoc(one.doc);
    if (line) { editor.setCursor(line - 1, 0); editor.scrollIntoView(null, 120); }
    editor.performLint();
    marked();
  }

  function edits() {
    const found = {};
    for (const [path, one] of files) if (one.doc && (one.added || one.doc.getValue() !== one.old)) found[path] = one.doc.getValue();
    return found;
  }

  function marked() {
    const changed = edits();
    for (const option of select.options) option.textContent = option.value + (option.value in changed ? " (edited)" : "");
    find("patch").disabled = find("revert").disabled = !Object.keys(changed).length;
  }

  select.addEventListener("change", () => { show(select.value); history.replaceState(null, "", "?file=" + encodeURIComponent(current)); });
  find("revert").addEventListener("click", () => {
    const one = files.get(current);
    one.doc.setValue(one.added ? one.given : one.old);
  });
  find("add").addEventListener("submit", async (event) => {
    event.preventDefault();
    const place = find("name"), note = find("note");
    try {
      const made = await (await post("/policies/new", { name: place.value, known: [...files.keys()] })).json();
      files.set(made.path, { old: "", doc: CodeMirror.Doc(made.text, "yaml"), added: true, given: made.text });
      select.append(new Option(made.path, made.path));
      note.textContent = "";
      place.value = "";
      show(made.path);
      editor.focus();
    } catch (error) {
      note.textContent = error.message;
    }
  });
  addEventListener("beforeunload", (event) => { if (Object.entries(edits()).some(([path, text]) => text !== files.get(path).given)) event.preventDefault(); });

  // Trials and patches.

  function attempt() {
    asked("try", "Deciding with both sets of policies ...", { seeds: Number(find("seeds").value) });
  }

  async function asked(name, words, more) {
    const button = find(name);
    if (button.disabled) return;
    button.disabled = true;
    result.setAttribute("aria-busy", "true");
    result.replaceChildren(element("p", words, "dim sheet"));
    let text;
    try {
      text = await (await post("/policies/" + name, { edits: edits(), file: current, ...more })).text();
    } catch (error) {
      text = "";
      result.replaceChildren(element("p", error.message, "bad sheet"));
    }
    button.disabled = false;
    result.removeAttribute("aria-busy");
    if (text) htmx.swap(result, text, { swapStyle: "innerHTML" });
    result.scrollIntoView({ block: "start" });
    result.focus({ preventScroll: true });
  }

  async function patch() {
    try {
      const made = await (await post("/policies/patch", { edits: edits() })).blob();
      const link = element("a");
      link.href = URL.createObjectURL(made);
      link.download = "policies.patch";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    } catch (error) {
      result.replaceChildren(element("p", error.message, "bad sheet"));
    }
  }

  find("try").addEventListener("click", attempt);
  find("prove")?.addEventListener("click", () => asked("prove", "Asking for every pod and node ...", {}));
  find("patch").addEventListener("click", patch);
  if (files.size) show(files.has(given.file) ? given.file : files.keys().next().value, given.line);
  root.dataset.ready = "true";
})();
