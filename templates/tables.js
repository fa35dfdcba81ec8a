// Tables can be sorted, searched and paged where scripts run; nothing else needs one. The page's policy
// allows this text only. Rows that a page without scripts has no room for lie in it as text, in a
// <script type="text/plain">: they are escaped as all rows are, and become elements when they are shown.
const PAGE = 500, SEARCHED = 20;
const collator = new Intl.Collator(undefined, { numeric: true });
const MARKS = { lt: "<", gt: ">", amp: "&", "#34": '"', "#39": "'" };
const plain = (html) =>
  html.replace(/<[^>]*>/g, " ").replace(/&(lt|gt|amp|#34|#39);/g, (_, name) => MARKS[name]);

function elements(rows) {
  const missing = rows.filter((row) => !row.element);
  const holder = document.createElement("template");
  holder.innerHTML = missing.map((row) => row.html).join("");
  Array.from(holder.content.children).forEach((element, place) => { missing[place].element = element; });
  return rows.map((row) => row.element);
}

function sortKey(row, column) {
  row.cells ??= row.html.split("</td>");
  const cell = row.cells[column] ?? "";
  const value = /^[^>]*<td[^>]* data-value="([^"]*)"/.exec(cell);
  if (value === null) return plain(cell).trim();
  return value[1] === "" ? -Infinity : Number(value[1]);
}

function ordered(one, two) {
  if (typeof one === "number" && typeof two === "number") return one === two ? 0 : one < two ? -1 : 1;
  return collator.compare(one, two);
}

function prepare(table) {
  const body = table.tBodies[0], ends = [];
  const titles = Array.from(table.tHead.querySelectorAll("th"), (head) => head.textContent);
  // On a narrow screen a row is a list of its cells, each after its title.
  const label = () => body.querySelectorAll("td:not([colspan])").forEach((cell) => {
    cell.dataset.title = titles[cell.cellIndex];
  });
  let rows = [], shown, page = 0;
  for (const element of Array.from(body.rows)) {
    const rest = element.querySelector("script");
    if (rest) rows = rows.concat(rest.textContent.match(/<tr>[^]*?<\/tr>/g).map((html) => ({ html })));
    if (!element.classList.contains("more")) rows.push({ html: element.innerHTML, element });
    else if (!rest || rest.dataset.left) ends.push(element);
    if (rest && rest.dataset.left) element.cells[0].textContent = rest.dataset.left;
  }
  shown = rows;
  const controls = document.createElement("p");
  const words = document.createElement("input"), said = document.createElement("span");
  const turns = [["earlier rows", -1], ["more rows", 1]].map(([name, step]) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: name });
    button.addEventListener("click", () => { page += step; show(); });
    return button;
  });
  const show = () => {
    const first = page * PAGE, last = Math.min(first + PAGE, shown.length);
    const count = (number) => number.toLocaleString("en");
    said.textContent = shown.length > PAGE
      ? `${count(first + 1)} to ${count(last)} of ${count(shown.length)} rows` : `${count(shown.length)} of ${count(rows.length)} rows`;
    turns[0].disabled = page === 0;
    turns[1].disabled = last >= shown.length;
    body.replaceChildren(...elements(shown.slice(first, last)), ...ends);
    label();
  };
  const sift = () => {
    const wanted = words.value.toLowerCase();
    shown = wanted ? rows.filter((row) => (row.text ??= plain(row.html).toLowerCase()).includes(wanted)) : rows;
    page = 0;
    show();
  };
  if (rows.length > SEARCHED) {
    Object.assign(words, { type: "search", placeholder: "search" });
    words.setAttribute("aria-label", "Search in this table");
    words.addEventListener("input", sift);
    said.setAttribute("role", "status");
    controls.className = "controls";
    controls.append(words, ...(rows.length > PAGE ? turns : []), said);
    (table.closest(".scroll") ?? table).before(controls);
    show();
  }
  label();
  table.tHead.querySelectorAll("th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      table.tHead.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const keys = new Map(rows.map((row) => [row, sortKey(row, column)]));
      rows.sort((one, two) => (down ? -1 : 1) * ordered(keys.get(one), keys.get(two)));
      sift();
    });
  });
}

document.querySelectorAll("table.sortable").forEach(prepare);
