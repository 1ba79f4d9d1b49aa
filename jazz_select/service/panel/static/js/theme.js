// Before anything is painted, so that nothing flashes: light or dark, as chosen here or as the system has it.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => { try { return localStorage.getItem("jazz.theme"); } catch { return null; } };
  const apply = () => { document.documentElement.dataset.theme = chosen() ?? (system.matches ? "dark" : "light"); };
  system.addEventListener("change", apply);
  apply();
  globalThis.jazzTheme = {
    chosen: () => chosen() ?? "auto",
    choose(theme) {
      try {
        if (theme === "auto") localStorage.removeItem("jazz.theme");
        else localStorage.setItem("jazz.theme", theme);
      } catch { /* a browser that keeps nothing goes by the system */ }
      apply();
    },
  };
})();
