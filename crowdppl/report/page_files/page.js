"use strict";
for (const table of document.querySelectorAll("table.long")) {
  const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
  const tools = document.createElement("div"), none = document.createElement("p");
  const input = document.createElement("input"), save = document.createElement("button");
  tools.className = "tools";
  input.type = "search";
  input.placeholder = WORDS.search;
  input.setAttribute("aria-label", WORDS.search);
  save.type = "button";
  save.textContent = WORDS.download;
  none.textContent = WORDS.none;
  none.setAttribute("role", "status");
  none.hidden = true;
  tools.append(input, save);
  table.parentElement.before(tools, none);
  const text = rows.map(row => row.textContent.toLowerCase());
  input.addEventListener("input", () => {
    const asked = input.value.toLowerCase();
    let left = 0;
    rows.forEach((row, n) => { row.hidden = !text[n].includes(asked); left += !row.hidden; });
    none.hidden = left > 0;
  });
  const key = cell => cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, {numeric: true});
      const sorted = [...rows].sort((a, b) => compare(key(a.cells[column]), key(b.cells[column])));
      body.append(...(down ? sorted.reverse() : sorted));
    });
  });
  save.addEventListener("click", () => {
    const quoted = x => '"' + x.replaceAll('"', '""') + '"';
    // text that a spreadsheet would run as a formula gets a quote before it
    const plain = cell => cell.dataset.v ?? quoted(cell.textContent.trim().replace(/^(?=[=+\-@\t])/, "'"));
    const shown = [...body.rows].filter(row => !row.hidden);
    const lines = [heads.map(head => quoted(head.textContent.trim())).join(","), ...shown.map(row => [...row.cells].map(plain).join(","))];
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff" + lines.join("\r\n") + "\r\n"], {type: "text/csv"}));
    link.download = table.dataset.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}
