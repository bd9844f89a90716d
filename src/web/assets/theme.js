// Applies the chosen theme before the first paint. By default, the system decides.
try {
  const theme = localStorage.getItem("retake-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is blocked: the system decides.
}
