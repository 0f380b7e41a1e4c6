"""A Django REST framework API over the flights database, with every way of paging the framework has.

    FLIGHTS_DB=flights.db gunicorn --bind 127.0.0.1:PORT --chdir tests/apps/drf app:application

/offset/<table>     LimitOffsetPagination: limit, offset -> count, next, previous, results
/page/<table>       PageNumberPagination: page, page_size; a page after the last one is a 404
/cursor/<table>     CursorPagination: next is a URL with an opaque cursor
/throttled/<table>  like /offset, but an answer is a 429 with Retry-After when the last one is less than the
                    throttle's second ago
"""

import os

import django
from django.conf import settings

settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["FLIGHTS_DB"]}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    INSTALLED_APPS=["rest_framework"],
    REST_FRAMEWORK={
        "DEFAULT_AUTHENTICATION_CLASSES": [],
        "DEFAULT_PERMISSION_CLASSES": [],
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
        "UNAUTHENTICATED_USER": None,
    },
    ROOT_URLCONF=__name__,
    SECRET_KEY="not a secret: nothing is signed",
    USE_TZ=True,
)
django.setup()

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connection, models  # noqa: E402
from django.urls import path  # noqa: E402
from rest_framework import generics, pagination, serializers, throttling  # noqa: E402

FIELDS = {"INTEGER": models.IntegerField, "REAL": models.FloatField, "TEXT": models.TextField}


def model_of(table):
    """A read-only model with the columns that the table has."""
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA table_info({table})")
        columns = [(row[1], row[2]) for row in cursor.fetchall() if row[1] != "id"]
    members = {name: FIELDS[kind](null=True) for name, kind in columns}
    members["Meta"] = type("Meta", (), {"app_label": "flights", "db_table": table, "managed": False})
    members["__module__"] = __name__
    return type(table.capitalize(), (models.Model,), members)


class Offset(pagination.LimitOffsetPagination):
    default_limit = 100
    max_limit = 1000


class Page(pagination.PageNumberPagination):
    page_size = 100
    page_size_query_param = "page_size"
    max_page_size = 1000


class Cursor(pagination.CursorPagination):
    page_size = 100
    page_size_query_param = "page_size"
    max_page_size = 5000
    ordering = "id"


class EverySecond(throttling.SimpleRateThrottle):
    """Three answers a second; the framework says `Retry-After: 1` to the next request."""

    rate = "3/second"

    def get_cache_key(self, request, view):
        return "everyone"


def view_of(table, pages, throttles=()):
    shown = type("Shown", (serializers.ModelSerializer,), {
        "Meta": type("Meta", (), {"model": table, "fields": "__all__"}),
    })
    view = type("View", (generics.ListAPIView,), {
        "queryset": table.objects.order_by("id"),
        "serializer_class": shown,
        "pagination_class": pages,
        "throttle_classes": list(throttles),
    })
    return view.as_view()


urlpatterns = []
for name in ["airports", "planes", "weather"]:
    table = model_of(name)
    urlpatterns += [
        path(f"offset/{name}", view_of(table, Offset)),
        path(f"page/{name}", view_of(table, Page)),
        path(f"cursor/{name}", view_of(table, Cursor)),
        path(f"throttled/{name}", view_of(table, Offset, [EverySecond])),
    ]

application = get_wsgi_application()
