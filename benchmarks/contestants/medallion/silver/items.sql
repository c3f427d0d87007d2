CREATE MATERIALIZED VIEW silver.items
TBLPROPERTIES ('lakehouse.key' = 'id')
AS SELECT i.id, i.product, i.quantity, i.price * i.quantity AS revenue, o.day, o.customer, o.status
FROM bronze.items i JOIN bronze.orders o ON o.id = i.order_id
