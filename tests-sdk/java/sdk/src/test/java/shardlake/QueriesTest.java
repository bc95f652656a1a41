package shardlake;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static shardlake.Items.item;
import static shardlake.Refusals.refused;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosItemIdentity;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.SqlParameter;
import com.azure.cosmos.models.SqlQuerySpec;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.function.Predicate;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Queries over five partitions. Every result is compared with a plain evaluation here. */
class QueriesTest extends OwnDatabase {
    private static final int ITEMS = 240;
    private static final List<String> COLOURS = List.of("red", "green", "blue");
    private final List<ObjectNode> data = IntStream.range(0, ITEMS).mapToObj(QueriesTest::row).toList();
    private CosmosContainer items;

    private static ObjectNode row(int n) {
        ObjectNode row = item("i" + n, "k" + n % 24, n).put("colour", COLOURS.get(n % 3)).put("price", n * 37 % 101);
        row.withArray("tags").add("t" + n % 4).add("u" + n % 2);
        return switch (n % 5) {
            case 0 -> row;
            case 1 -> row.putNull("mixed");
            case 2 -> row.put("mixed", n % 2 == 0);
            case 3 -> row.put("mixed", n);
            default -> row.put("mixed", "s" + n % 10);
        };
    }

    @BeforeAll
    void fill() {
        items = container(byPk(), FIVE_PARTITIONS);
        Motion.writeAll(items, data);
    }

    private static int price(ObjectNode row) {
        return row.get("price").asInt();
    }

    private static String colour(ObjectNode row) {
        return row.get("colour").asText();
    }

    private List<ObjectNode> where(Predicate<ObjectNode> condition) {
        return data.stream().filter(condition).toList();
    }

    private static List<Integer> numbers(List<ObjectNode> rows) {
        return rows.stream().map(row -> row.get("n").asInt()).sorted().toList();
    }

    private <T> List<T> all(String query, Class<T> type) {
        return items.queryItems(query, new CosmosQueryRequestOptions(), type).stream().toList();
    }

    private <T extends Comparable<T>> List<T> sorted(String query, Class<T> type) {
        return all(query, type).stream().sorted().toList();
    }

    // check: queries
    @Test
    void filtersHaveParametersAndScopes() {
        var spec = new SqlQuerySpec("SELECT VALUE c.n FROM c WHERE c.price > @low AND c.colour IN (@a, @b)",
                new SqlParameter("@low", 60), new SqlParameter("@a", "red"), new SqlParameter("@b", "blue"));
        List<ObjectNode> wanted = where(row -> price(row) > 60 && !colour(row).equals("green"));
        var everywhere = new CosmosQueryRequestOptions();
        assertEquals(numbers(wanted), items.queryItems(spec, everywhere, Integer.class).stream().sorted().toList());
        var within = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKey("k3"));
        List<ObjectNode> ofKey = wanted.stream().filter(row -> row.get("pk").asText().equals("k3")).toList();
        assertEquals(numbers(ofKey), items.queryItems(spec, within, Integer.class).stream().sorted().toList());
        List<ObjectNode> all = items.readAllItems(new PartitionKey("k3"), ObjectNode.class).stream().toList();
        assertEquals(numbers(where(row -> row.get("pk").asText().equals("k3"))), numbers(all));
    }

    // check: queries-async
    @Test
    void theAsynchronousClientReadsTheSameRows() {
        var spec = new SqlQuerySpec("SELECT VALUE c.n FROM c WHERE c.price > @low", new SqlParameter("@low", 60));
        List<Integer> found = async(items).queryItems(spec, Integer.class).collectList().block();
        assertEquals(numbers(where(row -> price(row) > 60)), found.stream().sorted().toList());
    }

    // check: order-by
    @Test
    void rowsComeInOrder() {
        List<Integer> ascending = numbers(data);
        List<Integer> descending = ascending.stream().sorted(Comparator.reverseOrder()).toList();
        assertEquals(ascending, all("SELECT VALUE c.n FROM c ORDER BY c.n", Integer.class));
        assertEquals(descending, all("SELECT VALUE c.n FROM c ORDER BY c.n DESC", Integer.class));
    }

    // check: order-by-types
    @Test
    void valuesOfAllTypesHaveAnOrder() {
        List<JsonNode> rows = all("SELECT c.mixed FROM c ORDER BY c.mixed", JsonNode.class);
        assertEquals(ITEMS, rows.size());
        List<Integer> ranks = rows.stream().map(row -> rank(row.get("mixed"))).toList();
        assertEquals(ranks.stream().sorted().toList(), ranks);
        List<JsonNode> backwards = all("SELECT c.mixed FROM c ORDER BY c.mixed DESC", JsonNode.class);
        List<Integer> reversed = backwards.stream().map(row -> -rank(row.get("mixed"))).toList();
        assertEquals(reversed.stream().sorted().toList(), reversed);
    }

    private static int rank(JsonNode value) {
        return value == null ? 0 : value.isNull() ? 1 : value.isBoolean() ? 2 : value.isNumber() ? 3 : 4;
    }

    // check: top-offset-limit
    @Test
    void partsOfAnOrderAreRead() {
        List<Integer> prices = where(row -> colour(row).equals("green")).stream().map(QueriesTest::price).sorted().toList();
        String green = " FROM c WHERE c.colour = 'green' ORDER BY c.price";
        assertEquals(prices, all("SELECT VALUE c.price" + green, Integer.class));
        assertEquals(prices.subList(0, 7), all("SELECT TOP 7 VALUE c.price" + green, Integer.class));
        assertEquals(prices.subList(5, 17), all("SELECT VALUE c.price" + green + " OFFSET 5 LIMIT 12", Integer.class));
        assertEquals(9, all("SELECT TOP 9 * FROM c", ObjectNode.class).size());
        assertEquals(10, all("SELECT * FROM c OFFSET 230 LIMIT 50", ObjectNode.class).size());
        assertEquals(0, all("SELECT TOP 0 * FROM c", ObjectNode.class).size());
    }

    // check: distinct
    @Test
    void distinctRowsComeOnce() {
        assertEquals(COLOURS.stream().sorted().toList(), sorted("SELECT DISTINCT VALUE c.colour FROM c", String.class));
        List<Integer> prices = data.stream().map(QueriesTest::price).distinct().sorted().toList();
        assertEquals(prices, all("SELECT DISTINCT VALUE c.price FROM c ORDER BY c.price", Integer.class));
        long pairs = data.stream().map(row -> colour(row) + row.get("tags")).distinct().count();
        assertEquals(pairs, all("SELECT DISTINCT c.colour, c.tags FROM c", ObjectNode.class).size());
    }

    // check: aggregates
    @Test
    void aggregatesAreMerged() {
        int sum = data.stream().mapToInt(QueriesTest::price).sum();
        assertEquals(List.of(ITEMS), all("SELECT VALUE COUNT(1) FROM c", Integer.class));
        assertEquals(List.of(where(row -> row.has("mixed")).size()), all("SELECT VALUE COUNT(c.mixed) FROM c", Integer.class));
        assertEquals(List.of(0), all("SELECT VALUE COUNT(1) FROM c WHERE c.n < 0", Integer.class));
        assertEquals(List.of((double) sum), all("SELECT VALUE SUM(c.price) FROM c", Double.class));
        assertEquals(sum / (double) ITEMS, all("SELECT VALUE AVG(c.price) FROM c", Double.class).get(0), 1e-9);
        assertEquals(List.of(0), all("SELECT VALUE MIN(c.price) FROM c", Integer.class));
        assertEquals(List.of(100), all("SELECT VALUE MAX(c.price) FROM c", Integer.class));
    }

    // check: group-by
    @Test
    void groupsAreMerged() {
        List<ObjectNode> groups = all("SELECT c.colour, COUNT(1) AS n, SUM(c.price) AS total FROM c GROUP BY c.colour", ObjectNode.class);
        assertEquals(COLOURS.size(), groups.size());
        for (ObjectNode group : groups) {
            List<ObjectNode> members = where(row -> colour(row).equals(colour(group)));
            assertEquals(members.size(), group.get("n").asInt());
            assertEquals(members.stream().mapToInt(QueriesTest::price).sum(), group.get("total").asInt());
        }
    }

    // check: joins
    @Test
    void arraysOfAnItemAreJoined() {
        List<String> pairs = all("SELECT VALUE CONCAT(c.id, t) FROM c JOIN t IN c.tags WHERE t IN ('t1', 'u0')", String.class);
        List<String> wanted = data.stream().flatMap(row -> IntStream.range(0, 2)
                .mapToObj(place -> row.get("tags").get(place).asText())
                .filter(tag -> tag.equals("t1") || tag.equals("u0"))
                .map(tag -> Items.id(row) + tag)).sorted().toList();
        assertEquals(wanted, pairs.stream().sorted().toList());
        List<Integer> existing = sorted("SELECT VALUE c.n FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = 't3')", Integer.class);
        assertEquals(numbers(where(row -> row.get("n").asInt() % 4 == 3)), existing);
    }

    // check: query-pages
    @Test
    void pagesKeepTheirSizeAndGoOnInAnotherClient() {
        for (String query : List.of("SELECT VALUE c.n FROM c", "SELECT VALUE c.n FROM c ORDER BY c.n")) {
            List<Integer> found = new ArrayList<>();
            String token = null;
            do {
                try (var another = Server.builder().buildClient()) {
                    var seen = another.getDatabase(database.getId()).getContainer(items.getId());
                    var pages = seen.queryItems(query, new CosmosQueryRequestOptions(), Integer.class);
                    var page = pages.iterableByPage(token, 60).iterator().next();
                    assertTrue(page.getResults().size() <= 60);
                    assertTrue(page.getRequestCharge() > 0);
                    found.addAll(page.getResults());
                    token = page.getContinuationToken();
                }
            } while (token != null);
            assertEquals(numbers(data), query.contains("ORDER") ? found : found.stream().sorted().toList());
        }
    }

    // check: feed-ranges
    @Test
    void feedRangesDivideTheContainer() {
        List<FeedRange> ranges = items.getFeedRanges();
        assertEquals(5, ranges.size());
        List<Integer> found = new ArrayList<>();
        for (FeedRange range : ranges) {
            var options = new CosmosQueryRequestOptions().setFeedRange(FeedRange.fromString(range.toString()));
            items.queryItems("SELECT VALUE c.n FROM c", options, Integer.class).forEach(found::add);
        }
        assertEquals(numbers(data), found.stream().sorted().toList());
    }

    // check: read-many
    @Test
    void manyItemsAreReadAtOnce() {
        List<CosmosItemIdentity> wanted = new ArrayList<>();
        data.stream().filter(row -> row.get("n").asInt() % 2 == 0).forEach(row ->
                wanted.add(new CosmosItemIdentity(new PartitionKey(row.get("pk").asText()), Items.id(row))));
        wanted.add(new CosmosItemIdentity(new PartitionKey("k1"), "absent"));
        var found = items.readMany(wanted, ObjectNode.class);
        assertEquals(numbers(where(row -> row.get("n").asInt() % 2 == 0)), numbers(found.getResults()));
        assertTrue(found.getRequestCharge() > 0);
        var byKeys = items.readManyByPartitionKeys(List.of(new PartitionKey("k1"), new PartitionKey("k2")), ObjectNode.class);
        assertEquals(numbers(where(row -> List.of("k1", "k2").contains(row.get("pk").asText()))), numbers(list(byKeys)));
    }

    // check: query-metrics
    @Test
    void metricsAndChargesComeWithTheRows() {
        var options = new CosmosQueryRequestOptions().setQueryMetricsEnabled(true).setIndexMetricsEnabled(true);
        options.setPartitionKey(new PartitionKey("k7"));
        var page = items.queryItems("SELECT * FROM c WHERE c.n = 7", options, ObjectNode.class).iterableByPage().iterator().next();
        assertEquals(1, page.getResults().size());
        assertTrue(page.getRequestCharge() > 2 && page.getRequestCharge() < 10, () -> "" + page.getRequestCharge());
        var context = page.getCosmosDiagnostics().getDiagnosticsContext();
        assertNotNull(context);
        assertEquals(page.getRequestCharge(), context.getTotalRequestCharge(), 0.01);
        assertTrue(page.getCosmosDiagnostics().toString().contains("retrievedDocumentCount"));
    }

    // check: query-errors
    @Test
    void mistakesAre400() {
        var error = refused(400, () -> all("SELECT * FROM c WHERE c.a == 1", ObjectNode.class));
        assertTrue(error.getMessage().contains("Syntax error, incorrect syntax near '='"), error.getMessage());
        refused(400, () -> all("SELECT * FROM c WHERE absent.a = 1", ObjectNode.class));
        // Two orders need a composite index.
        refused(400, () -> all("SELECT * FROM c ORDER BY c.n, c.price", ObjectNode.class));
    }
}
