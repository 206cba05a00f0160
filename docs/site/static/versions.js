/* A list of the versions that stand beside this one, below the name of the site. */
document.addEventListener("DOMContentLoaded", async () => {
  const root = document.documentElement.dataset.content_root;
  const here = new URL(root, location.href).pathname.split("/").at(-2);
  const answer = await fetch(root + "../versions.json").catch(() => null);
  const versions = answer && answer.ok ? await answer.json() : [];
  const brand = document.querySelector(".sidebar-brand");
  if (!brand || versions.length < 2) return;
  const list = document.createElement("select");
  list.ariaLabel = "version";
  list.className = "versions";
  for (const name of versions) list.add(new Option(name, name, false, name === here));
  list.onchange = () => (location.href = `${root}../${list.value}/index.html`);
  brand.after(list);
});
