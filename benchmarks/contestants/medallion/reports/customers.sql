CREATE MATERIALIZED VIEW reports.customers
TBLPROPERTIES ('lakehouse.key' = 'id')
AS SELECT c.id, c.country, c.segment, o.first_day, o.last_day, o.orders, r.revenue
FROM silver.customers c
LEFT JOIN gold.orders_by_customer o ON o.customer = c.id
LEFT JOIN gold.revenue_by_customer r ON r.customer = c.id
