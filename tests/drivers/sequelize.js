// Sequelize: sync, models, associations, transactions, metadata.
const { DataTypes, Sequelize } = require("sequelize");
const { connection, run, same } = require("./node_check.js");

run("Sequelize", "sequelize", "sync, models, associations, bulkCreate, transactions, describeTable", async () => {
  const sequelize = new Sequelize({ ...connection, username: connection.user, dialect: "postgres", logging: false });
  await sequelize.authenticate();
  const Customer = sequelize.define("customer", { name: { type: DataTypes.STRING, unique: true } }, { tableName: "sequelize_customer" });
  const Order = sequelize.define("order", { price: DataTypes.DECIMAL(10, 2), paid: DataTypes.BOOLEAN }, { tableName: "sequelize_order" });
  Customer.hasMany(Order);
  Order.belongsTo(Customer);
  await sequelize.sync({ force: true });
  const ann = await Customer.create({ name: "ann", orders: [{ price: 1.5 }, { price: 2 }] }, { include: [Order] });
  same("keys", [ann.id, ann.orders.length], [1, 2]);
  await Customer.bulkCreate([{ name: "bob" }, { name: "cid" }]);
  const found = await Customer.findAll({ include: [Order], order: [["name", "ASC"], [Order, "price", "DESC"]] });
  same("found", found.map(({ name, orders }) => [name, orders.map(({ price }) => price)]), [["ann", ["2.00", "1.50"]], ["bob", []], ["cid", []]]);
  same("sum", await Order.sum("price"), 3.5);
  same("count", await Customer.count({ where: { name: { [Sequelize.Op.like]: "%b%" } } }), 1);
  const [, made] = await Customer.findOrCreate({ where: { name: "dan" } });
  same("made", made, true);
  await ann.update({ name: "anna" });
  same("updated", (await Customer.findByPk(1)).name, "anna");
  await Customer.upsert({ id: 1, name: "annie" });
  same("upserted", (await Customer.findOne({ where: { id: 1 } })).name, "annie");
  await sequelize.transaction(async (transaction) => {
    await Order.destroy({ where: {}, transaction });
    throw new Error("undo");
  }).catch(() => {});
  same("rolled back", await Order.count(), 2);
  const described = await sequelize.getQueryInterface().describeTable("sequelize_order");
  same("described", [described.id.primaryKey, described.price.type, described.paid.allowNull], [true, "NUMERIC", true]);
  const tables = await sequelize.getQueryInterface().showAllTables();
  same("tables", JSON.stringify(tables).includes("sequelize_order"), true);
  await sequelize.sync({ alter: true });
  await sequelize.drop();
  await sequelize.close();
});
