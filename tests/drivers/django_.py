"""Django: the schema editor, models with references, queries, transactions, bulk inserts, introspection."""

import datetime
import decimal
import io

import django
from check import DATABASE, HOST, PORT, USER, done, same
from django.conf import settings

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": HOST,
            "PORT": PORT,
            "USER": USER,
            "NAME": DATABASE,
        }
    },
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"],
    USE_TZ=True,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import IntegrityError, connection, models, transaction  # noqa: E402


class Author(models.Model):
    name = models.CharField(max_length=100, unique=True)
    born = models.DateField(null=True)

    class Meta:
        app_label = "contenttypes"
        db_table = "django_author"


class Book(models.Model):
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
    title = models.CharField(max_length=200, db_index=True)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    published = models.DateTimeField(null=True)
    is_sold = models.BooleanField(default=False)

    class Meta:
        app_label = "contenttypes"
        db_table = "django_book"


with connection.schema_editor() as editor:
    editor.create_model(Author)
    editor.create_model(Book)

ann = Author.objects.create(name="Ann", born=datetime.date(1980, 2, 29))
bob = Author.objects.create(name="Bob")
when = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
books = Book.objects.bulk_create(
    [
        Book(
            author=author, title=f"{author.name} {number}", price=decimal.Decimal(number) / 4, published=when
        )
        for author in (ann, bob)
        for number in range(1, 4)
    ]
)
same("keys of bulk_create", all(book.pk for book in books), True)
same("count", Book.objects.count(), 6)
same("joined", Book.objects.filter(author__name="Ann", price__gt=0.3).count(), 2)
totals = (
    Author.objects.annotate(total=models.Sum("books__price")).order_by("name").values_list("name", "total")
)
same("totals", list(totals), [("Ann", decimal.Decimal("1.50")), ("Bob", decimal.Decimal("1.50"))])
same("like", Book.objects.filter(title__icontains="ANN").count(), 3)
same("dates", Book.objects.filter(published__year=2024, published__month=1).count(), 6)
same("truncated", Book.objects.dates("published", "month")[0], datetime.date(2024, 1, 1))
same("in", Book.objects.filter(author__in=Author.objects.filter(born__isnull=True)).count(), 3)
same("page", [book.title for book in Book.objects.order_by("-title")[1:3]], ["Bob 2", "Bob 1"])
same("exists", Book.objects.filter(is_sold=True).exists(), False)
same("updated", Book.objects.filter(author=ann).update(is_sold=True, price=models.F("price") * 2), 3)
same("got", Book.objects.select_related("author").get(title="Ann 1").price, decimal.Decimal("0.50"))
same("prefetched", [len(author.books.all()) for author in Author.objects.prefetch_related("books")], [3, 3])
found, made = Author.objects.get_or_create(name="Cid")
same("made", made, True)
same("not made", Author.objects.get_or_create(name="Cid")[1], False)

try:
    with transaction.atomic():
        Author.objects.create(name="Ann")
    raise SystemExit("a second Ann")
except IntegrityError:
    pass
with transaction.atomic():
    Author.objects.create(name="Dan")
    try:
        with transaction.atomic():
            Author.objects.create(name="Eve")
            raise ValueError
    except ValueError:
        pass
same("savepoints", Author.objects.filter(name__in=["Dan", "Eve"]).count(), 1)
same("deleted", ann.delete()[0], 4)

Book.objects.bulk_create(
    [Book(author=bob, title="new", price=1), Book(id=books[-1].id, author=bob, title="again", price=2)],
    update_conflicts=True,
    update_fields=["title"],
    unique_fields=["id"],
)
same("upserted", Book.objects.filter(title="again").count(), 1)

with connection.cursor() as cursor:
    names = connection.introspection.table_names(cursor)
    same("table names", {"django_author", "django_book"} <= set(names), True)
    columns = connection.introspection.get_table_description(cursor, "django_book")
    same(
        "columns",
        [column.name for column in columns],
        ["id", "author_id", "title", "price", "published", "is_sold"],
    )
    relations = connection.introspection.get_relations(cursor, "django_book")
    same("relations", relations, {"author_id": ("id", "django_author")})
    constraints = connection.introspection.get_constraints(cursor, "django_book")
    same("primary key", [c["columns"] for c in constraints.values() if c["primary_key"]], [["id"]])
    same(
        "foreign key",
        [c["foreign_key"] for c in constraints.values() if c["foreign_key"]],
        [("django_author", "id")],
    )

models_of = io.StringIO()
call_command("inspectdb", "django_book", stdout=models_of)
same("inspectdb", "price = models.DecimalField(max_digits=8, decimal_places=2)" in models_of.getvalue(), True)
call_command("migrate", verbosity=0)
with connection.schema_editor() as editor:
    field = models.IntegerField(default=7)
    field.set_attributes_from_name("pages")
    editor.add_field(Book, field)
    editor.delete_model(Book)
    editor.delete_model(Author)
done(
    "Django",
    django.get_version(),
    "schema editor, migrate, ORM queries, bulk_create, upsert, atomic, inspectdb",
)
