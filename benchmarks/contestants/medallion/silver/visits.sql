CREATE MATERIALIZED VIEW silver.visits
TBLPROPERTIES ('lakehouse.key' = 'id')
AS SELECT id, customer, product, kind, at, CAST(at AS DATE) AS day
FROM bronze.clicks
WHERE kind <> 'bot'
