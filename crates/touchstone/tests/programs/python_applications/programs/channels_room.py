"""The rooms of the tutorial of Django Channels in one file: Django for HTTP, a consumer for WebSockets, and
groups by a layer in memory."""

import asyncio
import json

import django
from channels.db import database_sync_to_async
from channels.generic.http import AsyncHttpConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.conf import settings

settings.configure(
    DEBUG=False,
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="a key for tests",
    CHANNEL_LAYERS={"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}},
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
)
django.setup()

from django.core.asgi import get_asgi_application  # noqa: E402
from django.http import HttpResponse, JsonResponse  # noqa: E402
from django.urls import path  # noqa: E402


def front(request):
    """In a thread, as it is not a coroutine."""
    return HttpResponse(f"{request.method} of {request.path}, {len(request.body)} bytes")


async def later(request):
    await asyncio.sleep(0.01)
    return JsonResponse({"query": request.GET.dict()})


urlpatterns = [path("", front), path("later", later)]


class Room(AsyncWebsocketConsumer):
    async def connect(self):
        self.group = "room-" + self.scope["url_route"]["kwargs"]["name"]
        await self.channel_layer.group_add(self.group, self.channel_name)
        await self.accept()

    async def disconnect(self, code):
        await self.channel_layer.group_discard(self.group, self.channel_name)

    async def receive(self, text_data=None, bytes_data=None):
        message = {"type": "room.message", "message": json.loads(text_data)["message"]}
        await self.channel_layer.group_send(self.group, message)

    async def room_message(self, event):
        await self.send(text_data=json.dumps({"message": event["message"]}))


class Clock(AsyncHttpConsumer):
    """An answer in pieces, from a consumer."""

    async def handle(self, body):
        answer = await database_sync_to_async(lambda: b"%d bytes, " % len(body))()
        await self.send_headers(headers=[(b"Content-Type", b"text/plain")])
        await self.send_body(answer, more_body=True)
        await self.send_body(b"and the end")


pages = get_asgi_application()
application = ProtocolTypeRouter({
    "http": URLRouter([path("clock", Clock.as_asgi()), path("", pages), path("later", pages)]),
    "websocket": AllowedHostsOriginValidator(URLRouter([path("room/<str:name>", Room.as_asgi())])),
})
