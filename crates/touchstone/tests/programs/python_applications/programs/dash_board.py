"""A board in Dash with one callback."""

from dash import Dash, Input, Output, dcc, html

app = Dash(__name__)
app.layout = html.Div(
    [
        dcc.Dropdown(["red", "green"], "red", id="choice"),
        html.Div(id="chosen"),
    ]
)


@app.callback(Output("chosen", "children"), Input("choice", "value"))
def chosen(value):
    return f"You chose {value}"


application = app.server
