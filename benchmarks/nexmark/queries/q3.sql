-- Who sells things of category 10 in three states. A person and an auction may be any time apart.
CREATE STREAM q3 AS
SELECT op, P.name, P.city, P.state, A.id
FROM auction AS A INNER JOIN person AS P ON A.seller = P.id
WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')
EMIT CHANGES;
