package shardlake;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static shardlake.Items.item;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosItemIdentity;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Queries that are open, or resumed from their tokens, while partitions split, move and merge between any two pages. */
class MotionTest extends OwnDatabase {
    private static final int ITEMS = 160;
    private static final int PAGE = 15;
    private static final List<ObjectNode> DATA = IntStream.range(0, ITEMS).mapToObj(MotionTest::row).toList();
    private static final Function<JsonNode, Integer> N = row -> row.isObject() ? row.get("n").asInt() : row.asInt();

    private static ObjectNode row(int n) {
        return item("i" + n, "k" + n % 50, n).put("tie", n % 5).put("colour", "c" + n % 40);
    }

    /** Each query with the rows that it returns, in their order where it has one. */
    enum Kind {
        PLAIN("SELECT c.n FROM c", false, wanted(row -> true)),
        FILTERED("SELECT VALUE c.n FROM c WHERE c.tie > 1", false, wanted(row -> row.get("tie").asInt() > 1)),
        ORDERED("SELECT c.n FROM c ORDER BY c.n", true, wanted(row -> true)),
        DESCENDING("SELECT c.n FROM c ORDER BY c.n DESC", true, reversed(wanted(row -> true))),
        EQUAL_ORDERED("SELECT c.n FROM c ORDER BY c.tie", false, wanted(row -> true)),
        DISTINCT("SELECT DISTINCT VALUE c.n FROM c", false, wanted(row -> true)),
        ORDERED_DISTINCT("SELECT DISTINCT VALUE c.n FROM c ORDER BY c.n", true, wanted(row -> true)),
        GROUPED("SELECT COUNT(1) AS n, c.colour FROM c GROUP BY c.colour", false, IntStream.range(0, 40).mapToObj(group -> ITEMS / 40).toList()),
        LIMITED("SELECT c.n FROM c ORDER BY c.n OFFSET 20 LIMIT 130", true, wanted(row -> true).subList(20, 150)),
        TOP("SELECT TOP 100 c.n FROM c ORDER BY c.n", true, wanted(row -> true).subList(0, 100));

        final String query;
        final boolean isOrdered;
        final List<Integer> rows;

        Kind(String query, boolean isOrdered, List<Integer> rows) {
            this.query = query;
            this.isOrdered = isOrdered;
            this.rows = rows;
        }

        void isReadBy(List<Integer> found) {
            assertEquals(rows, isOrdered ? found : found.stream().sorted().toList());
        }

        private static List<Integer> wanted(Predicate<ObjectNode> condition) {
            return DATA.stream().filter(condition).map(N).toList();
        }

        private static List<Integer> reversed(List<Integer> rows) {
            return rows.stream().sorted(Comparator.reverseOrder()).toList();
        }
    }

    private CosmosContainer filled() {
        CosmosContainer container = container();
        Motion.writeAll(container, DATA);
        return container;
    }

    // check: motion-open-queries
    @ParameterizedTest
    @EnumSource
    void anOpenQueryReturnsEachRowOnce(Kind kind) {
        CosmosContainer container = filled();
        Motion motion = new Motion(database, container, kind.ordinal());
        Set<String> made = new HashSet<>();
        List<Integer> found = new ArrayList<>();
        // One page at a time: the SDK asks for a page ahead at most.
        var pages = async(container).queryItems(kind.query, new CosmosQueryRequestOptions(), JsonNode.class).byPage(PAGE);
        Iterator<FeedResponse<JsonNode>> read = pages.toIterable(1).iterator();
        while (read.hasNext()) {
            found.addAll(read.next().getResults().stream().map(N).toList());
            made.add(motion.next());
        }
        kind.isReadBy(found);
        assertTrue(kind == Kind.GROUPED || made.size() == 3, () -> "the query met a split, a move and a merge: " + made);
    }

    // check: motion-tokens
    @ParameterizedTest
    @EnumSource(names = {"PLAIN", "FILTERED", "ORDERED", "DESCENDING", "ORDERED_DISTINCT", "LIMITED", "TOP"})
    void aQueryGoesOnFromItsToken(Kind kind) {
        CosmosContainer container = filled();
        // The SDK resumes an order by the range of its token. After a merge it reads the merged partition both as a whole and
        // by that range, so that rows come twice with any server.
        boolean canMerge = !kind.query.contains("ORDER BY");
        int start = kind.ordinal() + 1;
        Motion motion = canMerge ? new Motion(database, container, start) : Motion.withoutMerges(database, container, start);
        List<Integer> found = new ArrayList<>();
        String token = null;
        do {
            var pages = container.queryItems(kind.query, new CosmosQueryRequestOptions(), JsonNode.class);
            var page = pages.iterableByPage(token, PAGE).iterator().next();
            found.addAll(page.getResults().stream().map(N).toList());
            token = page.getContinuationToken();
            motion.next();
        } while (token != null);
        kind.isReadBy(found);
    }

    // check: motion-read-many
    @Test
    void manyItemsAreReadBetweenTheSteps() {
        CosmosContainer container = filled();
        Motion motion = new Motion(database, container, 0);
        var wanted = DATA.stream().map(row -> new CosmosItemIdentity(new PartitionKey(row.get("pk").asText()), Items.id(row))).toList();
        for (int round = 0; round < 8; round++) {
            var found = container.readMany(wanted, JsonNode.class).getResults().stream().map(N).sorted().toList();
            assertEquals(Kind.PLAIN.rows, found);
            motion.next();
        }
    }

    // check: motion-aggregates
    @Test
    void aggregatesPointReadsAndWritesGoOnBetweenTheSteps() {
        CosmosContainer container = filled();
        Motion motion = new Motion(database, container, 0);
        for (int round = 0; round < 8; round++) {
            var options = new CosmosQueryRequestOptions();
            assertEquals(List.of(ITEMS + round), container.queryItems("SELECT VALUE COUNT(1) FROM c", options, Integer.class).stream().toList());
            ObjectNode read = DATA.get(round * 19);
            assertEquals(N.apply(read), N.apply(container.readItem(Items.id(read), new PartitionKey(read.get("pk").asText()), ObjectNode.class).getItem()));
            motion.next();
            container.createItem(item("w" + round, "k" + round, 1000 + round));
        }
    }

    // check: motion-bulk
    @Test
    void bulkGoesOnBetweenTheSteps() {
        CosmosContainer container = container();
        Motion motion = new Motion(database, container, 0);
        for (int part = 0; part < 8; part++) {
            Motion.writeAll(container, DATA.subList(part * 20, part * 20 + 20));
            motion.next();
        }
        var all = container.queryItems("SELECT c.n FROM c", new CosmosQueryRequestOptions(), JsonNode.class).stream().map(N).sorted().toList();
        assertEquals(Kind.PLAIN.rows, all);
    }

    // check: motion-hierarchical
    @Test
    void aQueryOfAPrefixReturnsEachRowOnce() {
        CosmosContainer container = container(byPaths("/tenant", "/user"), 400);
        for (int n = 0; n < 90; n++) {
            ObjectNode item = Items.JSON.createObjectNode().put("id", "i" + n).put("n", n);
            container.createItem(item.put("tenant", "t" + n % 3).put("user", "u" + n % 10));
        }
        Motion motion = new Motion(database, container, 0);
        var options = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKeyBuilder().add("t1").build());
        var pages = async(container).queryItems("SELECT c.n FROM c", options, JsonNode.class).byPage(4);
        List<Integer> found = new ArrayList<>();
        for (FeedResponse<JsonNode> page : pages.toIterable(1)) {
            found.addAll(page.getResults().stream().map(N).toList());
            motion.next();
        }
        assertEquals(IntStream.range(0, 30).mapToObj(n -> n * 3 + 1).toList(), found.stream().sorted().toList());
    }
}
