"""SQLAlchemy: the ORM, reflection, and its inspector."""

import datetime
import decimal

import sqlalchemy as sa
from check import URL, done, same
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "alchemy_customer"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(50), unique=True)
    orders: Mapped[list["Order"]] = relationship(back_populates="customer", cascade="all, delete-orphan")


class Order(Base):
    __tablename__ = "alchemy_order"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int] = mapped_column(sa.ForeignKey("alchemy_customer.id"))
    price: Mapped[decimal.Decimal] = mapped_column(sa.Numeric(10, 2))
    at: Mapped[datetime.datetime] = mapped_column(server_default=sa.func.now())
    customer: Mapped[Customer] = relationship(back_populates="orders")


engine = sa.create_engine(URL.replace("postgresql:", "postgresql+psycopg:"))
Base.metadata.create_all(engine)
with Session(engine) as session:
    session.add(Customer(name="ann", orders=[Order(price=1), Order(price=decimal.Decimal("2.50"))]))
    session.add(Customer(name="bob"))
    session.commit()
    totals = session.execute(
        sa.select(Customer.name, sa.func.sum(Order.price))
        .outerjoin(Order)
        .group_by(Customer.name)
        .order_by("name")
    ).all()
    same("totals", [tuple(row) for row in totals], [("ann", decimal.Decimal("3.50")), ("bob", None)])
    session.delete(session.scalars(sa.select(Customer).where(Customer.name == "ann")).one())
    session.rollback()
    same("rolled back", session.scalar(sa.select(sa.func.count()).select_from(Order)), 2)

inspector = sa.inspect(engine)
same("tables", {"alchemy_customer", "alchemy_order"} <= set(inspector.get_table_names()), True)
columns = {column["name"]: column for column in inspector.get_columns("alchemy_order")}
same("numeric", (columns["price"]["type"].precision, columns["price"]["type"].scale), (10, 2))
same("primary key", inspector.get_pk_constraint("alchemy_order")["constrained_columns"], ["id"])
same(
    "foreign keys",
    [key["referred_table"] for key in inspector.get_foreign_keys("alchemy_order")],
    ["alchemy_customer"],
)
same(
    "unique",
    [key["column_names"] for key in inspector.get_unique_constraints("alchemy_customer")],
    [["name"]],
)
reflected = sa.MetaData()
reflected.reflect(engine, only=["alchemy_order", "alchemy_customer"])
same(
    "reflected",
    [column.name for column in reflected.tables["alchemy_order"].columns],
    ["id", "customer_id", "price", "at"],
)
Base.metadata.drop_all(engine)
done("SQLAlchemy", sa.__version__, "ORM, rollback, inspector, reflection, create_all and drop_all")
