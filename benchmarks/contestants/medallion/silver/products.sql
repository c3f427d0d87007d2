CREATE MATERIALIZED VIEW silver.products
TBLPROPERTIES ('lakehouse.key' = 'id')
AS SELECT id, upper(name) AS name, category
FROM bronze.products
