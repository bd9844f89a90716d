// The search results that the user came from: kept for this tab, so that the loupe can go on to the next one.

const KEPT = "retake-results";

/** Keeps the results that are in the page: their URL, and the links to them in order. */
export function keepResults(results) {
  try { sessionStorage.setItem(KEPT, JSON.stringify(results)); } catch { /* Then the loupe has no next result. */ }
}

/** Returns the links before and after a page among the results at this URL; null if it is not one of them. */
export function neighbours(address, path) {
  let results = null;
  try { results = JSON.parse(sessionStorage.getItem(KEPT)); } catch { /* Storage is blocked or damaged. */ }
  if (results?.address !== address || !Array.isArray(results.links)) return null;
  const links = results.links.filter((link) => typeof link === "string" && link.startsWith("/sessions/"));
  const at = links.indexOf(path);
  return at < 0 ? null : { before: links[at - 1], after: links[at + 1] };
}
