-- Queries whose rows are compared under every setting of Spark, by test_settings_of_rows.py.
CREATE TEMPORARY VIEW one AS SELECT * FROM VALUES (1) AS (k);
CREATE TEMPORARY VIEW texts AS SELECT * FROM VALUES
  ('1'), (' 2 '), ('1.5'), ('1e3'), ('2024-7-1'), ('2024-02-30'), ('1500-01-01 25:00:00'), ('yes'), ('NaN'), (NULL) AS (s);
CREATE TEMPORARY VIEW numbers AS SELECT * FROM VALUES
  (1, 'a', 1.50, 2.5D), (2, 'A', 2.25, double('NaN')), (2, NULL, NULL, -0.0D), (NULL, 'b ', 9.99, 0.0D) AS (k, s, d, f);
CREATE TEMPORARY VIEW times AS SELECT * FROM VALUES
  (TIMESTAMP'2024-03-31 00:59:59.999999Z', TIMESTAMP_NTZ'2024-03-31 02:30:00', DATE'2024-02-29'),
  (TIMESTAMP'1500-01-01 00:00:00Z', TIMESTAMP_NTZ'1582-10-10 00:00:00', DATE'0001-01-01') AS (ts, ntz, day);

-- Casts
SELECT try_cast(s AS INT), try_cast(s AS TINYINT), try_cast(s AS DECIMAL(5,2)), try_cast(s AS DOUBLE), try_cast(s AS DATE),
  try_cast(s AS TIMESTAMP), try_cast(s AS TIMESTAMP_NTZ), try_cast(s AS BOOLEAN), hex(try_cast(s AS BINARY)) FROM texts;
SELECT string(k), string(d), string(f), string(array(k, NULL)), string(map(1, k)), string(struct(k, s)), string(d * 1e10BD),
  string(1e20D), string(x'00ff'), string(INTERVAL '1' DAY * k), string(make_interval(0, k)) FROM numbers;
SELECT string(ts), string(ntz), string(day), date(ts), bigint(ts), double(ts), CAST(ntz AS TIMESTAMP), ts = ntz, ts > day FROM times;

-- Numbers and types
SELECT k / 3, d / 3, d * d, d + 1, d % 0.4, -7 % k, pmod(-7, k), 5 DIV k, round(d, 1), bround(d, 1), f + 1.1, 1.0, 1e3,
  0.1 = 0.1D, k = '2', s || k, greatest(k, 10L), coalesce(s, string(k)), k IN (1, 2L), nvl(d, 1.2345), abs(f), hash(f), xxhash64(f),
  ceil(d, 1), CAST(1 AS DECIMAL(38, 10)) * CAST(3 AS DECIMAL(38, 10)), CAST(1 AS DECIMAL(38, 18)) / 3,
  1 / CAST(3 AS DECIMAL(30, 20)), k & 3, k ^ 1, ~k, -k, shiftright(-8, 1), -8 >> 1 FROM numbers;
SELECT NOT k = 1, !(k = 1), k BETWEEN 1 AND 2, k <=> NULL, s NOT LIKE 'a%', s LIKE ANY ('a', 'b%'), if(k = 1, '1', 2),
  CASE k WHEN 1 THEN 1.5 ELSE 2 END, decode(k, 1, '1', 2), nullif(k, 1) FROM numbers;
SELECT typeof(1.0), typeof(1e3), typeof(d / k), typeof(d * k), typeof(NULL), typeof(array()), typeof(ceil(d)), typeof(sum(d)),
  typeof(avg(d)), typeof(sum(k)), typeof(TIMESTAMP'2024-01-01 00:00:00'), typeof(date_add(DATE'2024-01-01', 1)),
  typeof(DATE'2024-01-02' - DATE'2024-01-01'), typeof(make_timestamp(2024, 2, 28, 0, 0, 1)),
  typeof(to_timestamp('2024-01-01')), typeof(date_trunc('day', '2024-01-01')) FROM numbers GROUP BY d, k;

-- Times
SELECT date_format(ts, 'yyyy-MM-dd G E HH:mm:ss.SSS XXX'), hour(ts), weekofyear(day), date_trunc('week', ts), trunc(day, 'Q'),
  add_months(day, 12), months_between(ts, day), last_day(day), ts - INTERVAL '1' HOUR, day - DATE'2024-01-01',
  ts - TIMESTAMP'2024-01-01 00:00:00', unix_timestamp(ts), day + INTERVAL '1' MONTH, to_utc_timestamp(ntz, 'Europe/Berlin'),
  from_utc_timestamp(ts, 'Asia/Kolkata'), extract(YEAROFWEEK FROM day), date_part('seconds', ts) FROM times;
SELECT to_date('01.07.2024', 'dd.MM.yyyy'), try_to_timestamp('2024-07-01 1', 'yyyy-MM-dd H'), from_unixtime(0),
  to_timestamp('1582-10-10'), timestamp_seconds(1.5), make_timestamp(2024, 2, 28, 0, 0, 60),
  to_unix_timestamp('2024-01-01', 'yyyy-MM-dd'), make_date(2023, 2, 28), date_from_unix_date(-800000), try_to_date('2024-13-01'),
  unix_timestamp('2024-01-01 00:00:00'), sequence(DATE'2024-01-31', DATE'2024-04-01', INTERVAL '1' MONTH) FROM one;

-- Texts
SELECT 'a\nb', r'a\nb', 'a' 'b', 'ab' LIKE 'a_', 'a%b' LIKE 'a\\%b', regexp_replace('aXbX', '(x)', '$1', 1), rlike('A', '(?i)a'),
  split('a,b,,', ','), initcap('ab cd-ef ßa'), upper('straße'), lower('İ'), trim('  a '), trim(BOTH 'x' FROM 'xax'),
  lpad('a', 3), substring('abc', 0, 2), substr('abc', -5, 3), locate('', 'a'), format_number(12345.678, 2),
  format_string('%s %05d', 'a', 7), typeof(concat(x'41', x'42')), typeof(elt(1, x'41', x'42')), hex('ä'), conv('zz', 36, -10),
  base64(repeat(x'41', 80)), hex(encode('ä', 'UTF-16')), url_decode('a%20b'), parse_url('http://a/b?c=d', 'QUERY', 'c'),
  sentences('a b. c'), to_char(12.5, '99.99'), to_number('1,234', '9,999'), overlay('abc' PLACING 'x' FROM 2),
  concat_ws(',', array('a', NULL), 'b'), hex(try_to_binary('zz', 'hex')), space(2), chr(300), left('abc', -1), repeat('a', 0),
  soundex('Ab'), levenshtein('a', 'bc'), mask('Ab1'), reverse('ab') FROM one;
SELECT CAST('a' AS CHAR(3)) = 'a', length(CAST('a ' AS CHAR(3))), length(CAST('a ' AS VARCHAR(3))), 'a' = 'a ',
  typeof(CAST('a' AS CHAR(3))), 'a' COLLATE UTF8_LCASE = 'A', min(s COLLATE UNICODE_CI), count(DISTINCT s COLLATE UTF8_LCASE),
  max(s COLLATE UTF8_BINARY_RTRIM), collation(s COLLATE UNICODE), contains('İ' COLLATE UNICODE_CI, 'i') FROM numbers GROUP BY s;

-- JSON, CSV, XML, variants
SELECT from_json('{"a": 1, "A": 2, "a": 3}', 'a INT'), from_json('{"a": "x", "b": 1}', 'a INT, b INT'),
  from_json('{"a": 1.0}', 'a STRING'), from_json('[1, "x", 3]', 'ARRAY<INT>'), from_json('{"a": ', 'a INT'),
  from_json('{"t": "2024-01-01T00:00:00", "d": "01/02/2024"}', 't TIMESTAMP, d DATE', map('dateFormat', 'dd/MM/yyyy')),
  from_json('{"a": NaN}', 'a DOUBLE'), from_json('{"a": {"b": 1.00}}', 'a STRING'), from_json('', 'a INT'),
  from_json('{"a": [{"b": 1}, {"b": "x"}]}', 'a ARRAY<STRUCT<b: INT>>'),
  from_json('{"m": {"k": "x", "l": 2}}', 'm MAP<STRING, INT>'), from_json('{"t": "2024-01-01 1"}', 't TIMESTAMP'),
  to_json(struct(NULL AS a, 1 AS b, TIMESTAMP'2024-01-01 00:00:00Z' AS t)), to_json(map('a', CAST(NULL AS INT))),
  get_json_object('{"a":[{"b":1},{"b":2}]}', '$.a[*].b'), get_json_object('{"a": 1.0}', '$.a'),
  schema_of_json('{"a": 1, "b": [1.5, "2024-01-01"]}'), json_array_length('[1,2'), json_object_keys('{"a": 1}'),
  str_to_map('a:1,b:2') FROM one;
SELECT from_csv('1,x', 'a INT, b INT'), from_csv('a,,""', 'a STRING, b STRING, c STRING'),
  from_csv('2024-01-01 1,1', 't TIMESTAMP, b DECIMAL(3,1)'), from_csv('1,2', 'a INT, b INT').b,
  to_csv(struct(1, NULL, '', 'a"b', TIMESTAMP'2024-01-01 00:00:00Z')), schema_of_csv('1,a,2024-01-01 00:00:00'),
  from_xml('<p><a>1</a><a>x</a></p>', 'a ARRAY<INT>'), to_xml(struct(1 AS a, NULL AS b)), schema_of_xml('<p><a>1</a></p>'),
  xpath('<a><b>1</b></a>', 'a/b/text()') FROM one;
SELECT to_json(parse_json('{"a": 1.10, "b": 1e400}')), variant_get(parse_json('{"a": "x"}'), '$.a', 'STRING'),
  try_variant_get(parse_json('{"a": "x"}'), '$.a', 'INT'), to_json(try_parse_json('{"a": 1, "a": 2}')),
  to_json(parse_json('{"b": 1, "a": [1.0]}')), schema_of_variant(parse_json('[1, "a"]')) FROM one;
SELECT s, j.* FROM numbers LATERAL VIEW OUTER json_tuple('{"a": 1.0, "b": null}', 'a', 'b') j;

-- Arrays and maps
SELECT array_sort(array(3, NULL, 1)), sort_array(array(3, NULL, 1), false), size(NULL), cardinality(NULL),
  array_distinct(array(0.0D, -0.0D, double('NaN'), double('NaN'))), array_union(array(0.0D), array(-0.0D)),
  map_concat(map('a', 1), map('b', 2)), map_from_entries(array(struct('a', 1))), array_contains(array(1, NULL), 2),
  arrays_overlap(array(1, NULL), array(2)), try_element_at(array(1), 2), try_element_at(map('a', 1), 'b'),
  transform(array(1, 2), (x, i) -> x + i), filter(array(1, NULL), x -> x > 0), exists(array(1, NULL), x -> x > 1),
  forall(array(1, NULL), x -> x > 0), aggregate(array(1, 2), 0, (a, x) -> a + x), array_max(array(1D, double('NaN'))),
  zip_with(array(1), array(2, 3), (a, b) -> a + b), slice(array(1, 2, 3), -2, 2), flatten(array(array(1), NULL)),
  array_join(array('a', NULL), ','), array_insert(array(1, 2), -1, 9), array_repeat(1, -1), get(array(1), 3),
  map_zip_with(map('a', 1), map('b', 2), (k, a, b) -> a), array_position(array(1, NULL), NULL), map(0.0D, 1, 1D, 2)[-0.0D],
  array_remove(array(1, NULL), 1), array_except(array(1, NULL), array(NULL)), array_compact(array(1, NULL)) FROM one;
SELECT k, explode_outer(array(s, 'z')), k2 FROM numbers LATERAL VIEW posexplode(array(1)) AS p, k2;
SELECT inline(array(struct(1 AS a, 'x' AS b))) FROM one;

-- Groups
SELECT k, s, count(*), sum(d), avg(d), max(f), min(f), bool_or(f > 1), max_by(s, d), mode(s), percentile(d, 0.5),
  approx_percentile(d, 0.5), stddev(d), var_pop(f), first(s, true), try_sum(d), listagg(s, ',') FROM numbers GROUP BY k, s;
SELECT stddev_samp(d), stddev(k), var_samp(d), skewness(d), kurtosis(d), corr(k, d), covar_samp(k, d) FROM numbers WHERE k = 1;
SELECT k, s, sum(d), grouping_id() FROM numbers GROUP BY ROLLUP (k, s);
SELECT f, count(*), array_sort(collect_set(k)), array_sort(collect_list(s)) FROM numbers GROUP BY f;
SELECT count(DISTINCT f), count(DISTINCT k, s), sum(DISTINCT k), approx_count_distinct(s), corr(k, d), median(d),
  histogram_numeric(d, 2), count_if(k > 1), regr_slope(k, d), bit_xor(k), sum(f), sum(INTERVAL '1' DAY) FROM numbers;
SELECT lower(s) AS k, upper(s) AS u, count(*) FROM numbers GROUP BY k, u, lower(s);
SELECT k AS s, count(*) FROM numbers GROUP BY k, s;
SELECT 2, count(*) FROM numbers GROUP BY 1;
SELECT -1, max(k) FROM numbers GROUP BY ALL;
SELECT count(*) FROM numbers HAVING count(*) > 1;
SELECT count(*) FROM numbers WHERE k > 9 HAVING count(*) > 1;
SELECT window.start, count(*) FROM times GROUP BY window(ts, '1 day');
SELECT * FROM (SELECT k, s, d FROM numbers) PIVOT (sum(d) FOR s IN ('a', 'b '));
SELECT * FROM (SELECT k, d, f FROM numbers) UNPIVOT INCLUDE NULLS (v FOR c IN (d, f));

SELECT count(*) FROM numbers WHERE k > 9 GROUP BY GROUPING SETS (());
SELECT listagg(DISTINCT k, ',') WITHIN GROUP (ORDER BY k) FROM numbers;
SELECT n.k FROM numbers n WHERE EXISTS (SELECT count(*) FROM one WHERE one.k = n.k HAVING count(*) = 0);
SELECT n.k FROM numbers n WHERE (SELECT count(*) + 1 FROM one WHERE one.k = n.k) = 1;
SELECT n.k FROM numbers n WHERE n.k IN (SELECT count(*) + 1 FROM one WHERE one.k > n.k);
SELECT n.k, x.c FROM numbers n LEFT JOIN LATERAL (SELECT count(*) AS c FROM one WHERE one.k = n.k) x;

-- Order and names
SELECT 1 AS a, array(7, 8)[a] AS b, a + 1 AS c;
SELECT '${spark.app.name}', "it" 's', '\\d' = r'\d', 'a\\' FROM one;
SELECT s FROM numbers ORDER BY 1 DESC NULLS LAST LIMIT 2;
SELECT k FROM (SELECT -k AS k, f FROM numbers) ORDER BY k DESC, f LIMIT 2 OFFSET 1;
SELECT s, k FROM numbers ORDER BY ALL LIMIT 2;
SELECT k + 10 AS a, k + 1 AS l, l * 2 AS e FROM numbers;
SELECT 'x' AS s, s || 'y' AS l, K FROM numbers WHERE s != 'x';
SELECT l FROM (SELECT 1 AS k, 5 AS s), LATERAL (SELECT 2 AS s, s + 1 AS l);
SELECT `(k|s)`, "a" FROM (SELECT 1 AS k, 2 AS s, 3 AS `(k|s)`);
SELECT `k.*` FROM (SELECT 1 AS k1, 2 AS k2, 3 AS `k.*`);
SELECT "k" FROM one;
SELECT struct(1 AS a, 2 AS b).A FROM one;
WITH t AS (SELECT 1 AS k), u AS (WITH t AS (SELECT 2 AS k) SELECT * FROM t) SELECT * FROM t, u;
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT sum(n) FROM r;
FROM numbers |> WHERE k > 1 |> AGGREGATE sum(k) GROUP BY s;

-- Several tables
SELECT a.k, b.k FROM numbers a LEFT JOIN numbers b ON a.f = b.f AND a.s <=> b.s;
SELECT * FROM numbers a FULL JOIN (SELECT k, upper(s) AS s FROM numbers) b USING (k, s);
SELECT * FROM numbers NATURAL JOIN (SELECT s, 1 AS one FROM numbers);
SELECT count(*) FROM one a, one b JOIN one c ON c.k = b.k RIGHT JOIN numbers d ON d.k = c.k;
SELECT a.k, d.s FROM one a, numbers b RIGHT JOIN numbers d ON d.k = b.k + 5;
SELECT k FROM numbers WHERE k NOT IN (SELECT k FROM numbers WHERE s = 'a' OR s IS NULL);
SELECT k FROM numbers WHERE k NOT IN (SELECT k FROM numbers WHERE s = 'a');
SELECT k, (SELECT count(*) FROM one WHERE one.k = n.k) AS c, EXISTS (SELECT 1 FROM one WHERE one.k > n.k) AS e FROM numbers n;
SELECT n.k, x.v FROM numbers n, LATERAL (SELECT n.k + 1 AS v UNION ALL SELECT n.d) x;
SELECT /*+ BROADCAST(o) */ n.k FROM numbers n, one o, one p WHERE n.k = o.k AND p.k = o.k;
SELECT k, s, row_number() OVER (ORDER BY f, s), rank() OVER (ORDER BY k), lag(s) IGNORE NULLS OVER (ORDER BY f, s),
  sum(d) OVER (PARTITION BY k ORDER BY f RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), last(s) OVER (ORDER BY f, s),
  ntile(3) OVER (ORDER BY f, s), percent_rank() OVER (ORDER BY k) FROM numbers;
SELECT k FROM numbers UNION SELECT d FROM numbers INTERSECT SELECT f FROM numbers;
SELECT k FROM numbers EXCEPT SELECT k FROM numbers WHERE s = 'a';
SELECT k, s FROM numbers EXCEPT ALL SELECT k, 'a' FROM one;
SELECT k FROM numbers MINUS SELECT '2';

-- Stored; THEN parts the statements of a query
CREATE OR REPLACE TABLE delta.`{path}` (k INT, s STRING, c CHAR(3), v STRUCT<a: INT, b: INT>, at TIMESTAMP, day DATE, d DECIMAL(5, 2))
  USING delta PARTITIONED BY (s, at) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')
THEN INSERT INTO delta.`{path}` VALUES (1, '', 'a', NULL, TIMESTAMP'2024-07-01 22:30:00Z', DATE'2024-07-01', 1.5),
  (2, 'b', 'b', named_struct('a', 1, 'b', 2), NULL, DATE'1500-01-01', NULL), (3, 'b', 'c', NULL, NULL, NULL, 2.25)
THEN MERGE INTO delta.`{path}` t USING (SELECT k + 1 AS k, 'b' AS s, 'bb' AS c, CAST(NULL AS STRUCT<a: INT, b: INT>) AS v,
  CAST(NULL AS TIMESTAMP) AS at, day, 3.14 AS d FROM one, times) n ON t.k = n.k AND day(n.day) = 29
  WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
THEN SELECT *, c = 'a', length(c), date(at) FROM delta.`{path}` WHERE s IS NULL OR s >= '' ORDER BY k;

-- Refused by Spark as it stands; each is a query of its own.
SELECT 1 / (k - 1) FROM one;
SELECT 2147483647 + k FROM one;
SELECT CAST('x' AS INT) FROM one;
SELECT CAST(300 AS TINYINT) FROM one;
SELECT array(k)[5] FROM one;
SELECT element_at(array(k), 0) FROM one;
SELECT element_at(array(k), 7) FROM one;
SELECT map('a', k)['b'] FROM one;
SELECT map('a', 1, 'a', 2) FROM one;
SELECT to_date('x') FROM one;
SELECT date('2024-02-30') FROM one;
SELECT CAST(12345.6 AS DECIMAL(3, 1)) FROM one;
SELECT to_timestamp('2024', 'yyyy-MM-dd') FROM one;
SELECT abs(-2147483647 - k) FROM one;
SELECT make_date(2024, 2, 30) FROM one;
SELECT CAST(k AS DATE) FROM one;
SELECT hex(CAST(k AS BINARY)) FROM one;
SELECT CAST(true AS TIMESTAMP) FROM one;
SELECT to_json(parse_json('{"a": 1, "a": 2}')) FROM one;
SELECT sum(9223372036854775807) + 1 FROM one;
SELECT elt(5, 'a') FROM one;
SELECT next_day('2024-01-01', 'x') FROM one;
SELECT conv('99999999999999999999', 10, 10) FROM one;
SELECT CAST(double('NaN') AS INT) FROM one;
SELECT bigint(1e30D) FROM one;
SELECT TIMESTAMP'2024-01-01 00:00:00' + 1 FROM one;
SELECT 'a' + 1 FROM one;
SELECT size('a') FROM one;
SELECT 1 = true FROM one;
SELECT CAST('a' AS BOOLEAN) FROM one;
SELECT decode(x'41ff', 'US-ASCII') FROM one;
SELECT hex(encode('ä', 'US-ASCII')) FROM one;
SELECT hex(encode('a', 'cp1252')) FROM one;
SELECT date_format(TIMESTAMP'2024-01-01 00:00:00', 'YYYY aa') FROM one;
SELECT to_date('2024-1-1', 'yyyy-MM-dd') FROM one;
SELECT url_decode('%') FROM one;
SELECT struct(1 AS a, 2 AS A).a FROM one;
SELECT (SELECT x FROM VALUES (1), (2) y(x)) FROM one;
SELECT k, count(*) FROM numbers;
SELECT round(2147483647, -1) FROM one;
SELECT 5 % (k - 1) FROM one;
SELECT `(k)?+.+` FROM numbers;
SELECT from_json('{"a": 1, "b": 2}', 'a INT, A INT') FROM one;
SELECT count(*) FROM one GROUP BY ();
SELECT date_sub('2024-01-01', '1.2') FROM one;
SELECT exists(array(1), x -> 'a') FROM one;
SELECT interval 1 month + interval 1 day FROM one;
SELECT (INTERVAL '1' MONTH + INTERVAL '1' DAY) FROM one;
SELECT try_cast(k AS STRING) LIKE 'a' ESCAPE 'ab' FROM one;
SELECT array_insert(array(1), 0, 1) FROM one;
SELECT percentile_approx(k, 1.5) FROM one;
SELECT substring('abc', 1.5) FROM one;
SELECT 'a' IN (SELECT 1) FROM one;
SELECT sequence(1, 5, -1) FROM one;
