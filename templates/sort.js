// Tables can be sorted where scripts run; nothing else needs one. The page's policy allows this text only.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  table.tHead.querySelectorAll("th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      table.tHead.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => {
        const cell = row.cells[column];
        if (!cell) return "";
        if (cell.dataset.value === undefined) return cell.textContent;
        return cell.dataset.value === "" ? -Infinity : Number(cell.dataset.value);
      };
      const rows = Array.from(body.rows).filter((row) => !row.classList.contains("more"));
      const rest = Array.from(body.rows).filter((row) => row.classList.contains("more"));
      rows.sort((one, two) => {
        const [a, b] = [key(one), key(two)];
        const order = typeof a === "number" && typeof b === "number"
          ? (a === b ? 0 : a < b ? -1 : 1)
          : String(a).localeCompare(String(b), undefined, { numeric: true });
        return down ? -order : order;
      });
      body.append(...rows, ...rest);
    });
  });
}
