// Results are sorted, searched and paged in their place, by htmx. An answer that holds none, as
// that to a bad filter or of a service without its database, is loaded as without scripts: as if
// it had the header HX-Redirect.
"use strict";
document.addEventListener("htmx:response:error", ({ detail }) => {
  detail.ctx.hx.redirect = detail.ctx.request.action;
});
