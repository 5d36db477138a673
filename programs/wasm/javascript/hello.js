// A component in JavaScript, for jco and componentize-js: the events of a service worker.
addEventListener("fetch", (event) => event.respondWith(answer(event.request)));

async function answer(request) {
  const url = new URL(request.url);
  if (url.pathname === "/echo") {
    return new Response(request.body, { headers: { "content-type": "text/plain" } });
  }
  if (url.pathname.startsWith("/ask/")) {
    const response = await fetch(url.pathname.slice(5).replace("/", "://"));
    return new Response(await response.text(), { status: response.status });
  }
  return new Response("hello from JavaScript\n", { headers: { "content-type": "text/plain" } });
}
