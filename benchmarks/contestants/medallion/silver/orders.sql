CREATE MATERIALIZED VIEW silver.orders
TBLPROPERTIES ('lakehouse.key' = 'id')
AS SELECT o.id, o.customer, o.day, o.status, c.country
FROM bronze.orders o JOIN bronze.customers c ON c.id = o.customer
