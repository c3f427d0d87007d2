CREATE MATERIALIZED VIEW silver.customers
TBLPROPERTIES ('lakehouse.key' = 'id')
AS SELECT id, country, coalesce(segment, 'none') AS segment
FROM bronze.customers
