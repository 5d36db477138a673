// A component in JavaScript, for jco and componentize-js: the events of a service worker.
addEventListener("fetch", (event) => event.respondWith(answer(event.request)));

async function answer(request) {
  const url = new URL(request.url);
  if (url.pathname === "/echo") {
    return new Response(request.body, { headers: { "content-type": "text/plain" } });
  }
  if (url.pathname.startsWith("/ask/")) {
    const target = url.pathname.slice("/ask/".length).replace("/", "://") + url.search;
    const response = await fetch(target);
    return new Response(response.body, { status: response.status });
  }
  return new Response("hello from JavaScript\n", { headers: { "content-type": "text/plain" } });
}
