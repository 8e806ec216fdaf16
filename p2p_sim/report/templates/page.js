"use strict";
// Tables sort by a click on a heading; without this script they are read in the order of the axes.
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const sort = (column, ascending) => {
    const numeric = headings[column].classList.contains("number");
    const keyed = [...body.rows].map((row) => {
      const text = row.cells[column].dataset.v;
      return { row, empty: text === "", key: numeric ? Number(text) : text };
    });
    const compare = (a, b) => (numeric ? (a < b ? -1 : a > b ? 1 : 0) : a.localeCompare(b, "en", { numeric: true }));
    keyed.sort((a, b) => (a.empty || b.empty ? a.empty - b.empty : (ascending ? 1 : -1) * compare(a.key, b.key)));
    body.append(...keyed.map((entry) => entry.row));
    headings.forEach((heading, index) =>
      index === column ? heading.setAttribute("aria-sort", ascending ? "ascending" : "descending") : heading.removeAttribute("aria-sort"));
    table.dataset.sorted = column + (ascending ? " ascending" : " descending");
  };
  if (body.rows.length > 1) {
    headings.forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sort(column, heading.getAttribute("aria-sort") !== "ascending"));
      heading.append(button);
    });
  }
}
// Tables of more than 50 lines are folded, except in print.
const MOST_LINES = 50;
for (const table of document.querySelectorAll("main table")) {
  const size = table.tBodies[0].rows.length;
  if (size <= MOST_LINES) continue;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "unfold";
  const fold = (folded) => {
    table.classList.toggle("folded", folded);
    button.setAttribute("aria-expanded", String(!folded));
    button.textContent = folded ? `Show all ${size} lines` : `Show the first ${MOST_LINES} lines`;
  };
  button.addEventListener("click", () => fold(!table.classList.contains("folded")));
  fold(true);
  table.closest(".scroll").after(button);
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && document.querySelector("figure:target")) location.hash = "#figures";
});
