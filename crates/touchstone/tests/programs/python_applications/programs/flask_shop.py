"""A small shop in Flask: sessions, forms, an upload, streaming, JSON, cookies, redirects and errors."""

from flask import (
    Flask,
    Response,
    abort,
    flash,
    get_flashed_messages,
    jsonify,
    make_response,
    redirect,
    render_template_string,
    request,
    session,
    url_for,
)

app = Flask(__name__)
app.secret_key = "a key of these tests"

PAGE = """<!doctype html><title>shop</title>{% for m in messages %}<p>{{ m }}</p>{% endfor %}
<ul>{% for name, count in cart.items() %}<li>{{ name }}: {{ count }}</li>{% endfor %}</ul>
<a href="{{ url_for('cart') }}">cart</a> <a href="{{ url_for('item', name='a b/ü') }}">item</a>"""


@app.get("/")
def front():
    return render_template_string(PAGE, cart=session.get("cart", {}), messages=get_flashed_messages())


@app.post("/cart")
def cart():
    name = request.form["name"]
    session["cart"] = session.get("cart", {}) | {name: request.form.get("count", type=int)}
    flash(f"{name} is in the cart")
    return redirect(url_for("front", _external=True), 303)


@app.get("/item/<path:name>")
def item(name):
    query = request.args.to_dict(flat=False)
    return jsonify(name=name, query=query, root=request.script_root, url=request.url)


@app.post("/upload")
def upload():
    one = request.files["file"]
    return jsonify(name=one.filename, kind=one.mimetype, bytes=len(one.read()), form=request.form.to_dict())


@app.route("/json", methods=["GET", "PUT", "DELETE"])
def echo():
    return jsonify(method=request.method, json=request.get_json(silent=True), remote=request.remote_addr)


@app.get("/stream")
def stream():
    return Response((f"line {number}\n" for number in range(1000)), mimetype="text/plain")


@app.get("/cookies")
def cookies():
    answer = make_response(dict(request.cookies))
    answer.set_cookie("one", "1", max_age=60, httponly=True)
    answer.set_cookie("two", "2 and more", samesite="Lax")
    answer.delete_cookie("three")
    return answer


@app.get("/cached")
def cached():
    answer = make_response("cached")
    answer.add_etag()
    return answer.make_conditional(request)


@app.get("/teapot")
def teapot():
    abort(418)


@app.get("/fails")
def fails():
    raise RuntimeError("secret of the application")
