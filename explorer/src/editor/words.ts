// Words of the query language that the editor colours and completes. The server's parser is the judge of queries.

export const KEYWORDS = (
  "SELECT DISTINCT TOP VALUE AS FROM IN JOIN WHERE AND OR NOT BETWEEN LIKE ESCAPE EXISTS ARRAY GROUP BY ORDER ASC DESC OFFSET LIMIT " +
  "IS NULL TRUE FALSE UNDEFINED UDF RANK"
).split(" ");

/** Names with what they take. */
export const FUNCTIONS: Record<string, string> = {
  ABS: "(number)", ACOS: "(number)", ARRAY_CONCAT: "(array, array, …)", ARRAY_CONTAINS: "(array, value, partly?)",
  ARRAY_CONTAINS_ANY: "(array, value, …)", ARRAY_CONTAINS_ALL: "(array, value, …)", ARRAY_LENGTH: "(array)", ARRAY_SLICE: "(array, start, count?)",
  ASIN: "(number)", ATAN: "(number)", ATN2: "(number, number)", AVG: "(number)", CEILING: "(number)", 
  CONCAT: "(text, text, …)", CONTAINS: "(text, part, anyCase?)", COS: "(number)", COT: "(number)", COUNT: "(value)",
  DateTimeAdd: "(part, number, time)", DateTimeBin: "(time, part, size?, origin?)", DateTimeDiff: "(part, from, to)", DateTimeFromParts: "(year, month, day, …)",
  DateTimePart: "(part, time)", DateTimeToTicks: "(time)", DateTimeToTimestamp: "(time)", DEGREES: "(number)", ENDSWITH: "(text, end, anyCase?)", EXP: "(number)", FLOOR: "(number)",
  GetCurrentDateTime: "()", GetCurrentTicks: "()", GetCurrentTimestamp: "()", INDEX_OF: "(text, part, start?)",
  IS_ARRAY: "(value)", IS_BOOL: "(value)", IS_DEFINED: "(value)", IS_FINITE_NUMBER: "(value)", IS_INTEGER: "(value)", IS_NULL: "(value)", IS_NUMBER: "(value)",
  IS_OBJECT: "(value)", IS_PRIMITIVE: "(value)", IS_STRING: "(value)", LEFT: "(text, count)", LENGTH: "(text)", LOG: "(number, base?)", LOG10: "(number)", LOWER: "(text)",
  LTRIM: "(text, chars?)", MAX: "(value)", MIN: "(value)", ObjectToArray: "(object)", PI: "()", POWER: "(number, exponent)", RADIANS: "(number)", RAND: "()",
  RegexMatch: "(text, pattern, flags?)", REPLACE: "(text, from, to)", REPLICATE: "(text, count)", REVERSE: "(text)", RIGHT: "(text, count)", ROUND: "(number, digits?)",
  RTRIM: "(text, chars?)", SetDifference: "(array, array)", SetEqual: "(array, array)", SetIntersect: "(array, array)", SetUnion: "(array, array)", SIGN: "(number)", SIN: "(number)", SQRT: "(number)", SQUARE: "(number)",
  STARTSWITH: "(text, start, anyCase?)", STRINGEQUALS: "(text, text, anyCase?)", StringJoin: "(array, separator)", StringSplit: "(text, separator)", StringToArray: "(text)", StringToBoolean: "(text)", StringToNull: "(text)", StringToNumber: "(text)", StringToObject: "(text)",
  ST_DISTANCE: "(geometry, geometry)", ST_INTERSECTS: "(geometry, geometry)", ST_ISVALID: "(geometry)", ST_WITHIN: "(geometry, geometry)",
  SUBSTRING: "(text, start, count)", SUM: "(number)", TAN: "(number)", TicksToDateTime: "(ticks)", TimestampToDateTime: "(milliseconds)", ToString: "(value)", TRIM: "(text, chars?)", TRUNC: "(number)", UPPER: "(text)",
};
