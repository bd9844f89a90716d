// The theme that was chosen, set before anything is painted. Without a choice the system decides.
try {
  const theme = localStorage.getItem("retake-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is blocked: the system decides.
}
