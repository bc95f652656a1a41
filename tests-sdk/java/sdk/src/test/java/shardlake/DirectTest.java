package shardlake;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static shardlake.Items.item;

import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.channels.ClosedChannelException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** The traffic of a client: its requests for addresses, and bursts. */
class DirectTest extends OwnDatabase {
    private static final int RANGES = 5;
    private static final int BURSTS = Integer.parseInt(System.getenv().getOrDefault("SHARDLAKE_BURSTS", "2"));

    @TempDir
    private Path directory;

    /** Writes, reads and queries that reach each partition. */
    private static void work(CosmosContainer container) {
        for (int n = 0; n < 100; n++) {
            container.upsertItem(item("i" + n, "k" + n, n));
            ObjectNode read = container.readItem("i" + n, new PartitionKey("k" + n), ObjectNode.class).getItem();
            assertEquals(n, read.get("n").asInt());
        }
        var numbers = container.queryItems("SELECT VALUE c.n FROM c ORDER BY c.n", new CosmosQueryRequestOptions(), Integer.class);
        assertEquals(IntStream.range(0, 100).boxed().toList(), numbers.stream().sorted().toList());
    }

    // check: direct-addresses
    @ParameterizedTest
    @ValueSource(strings = {"Session", "Strong", "BoundedStaleness"})
    void addressesAreAskedForOnce(String level) throws Exception {
        try (Node node = new Node(directory.resolve(level), "--consistency=" + level); CosmosClient client = node.client()) {
            client.createDatabaseIfNotExists("d");
            client.getDatabase("d").createContainerIfNotExists("c", "/pk", ThroughputProperties.createManualThroughput(FIVE_PARTITIONS));
            CosmosContainer container = client.getDatabase("d").getContainer("c");
            work(container);
            long first = node.requests("Addresses");
            // Each range, and the databases.
            assertTrue(first <= (Server.IS_DIRECT ? RANGES + 1 : 0), first + " requests for addresses");
            work(container);
            assertEquals(first, node.requests("Addresses"), "nothing makes the client ask again");
        }
    }

    /**
     * The SDK sometimes closes a channel that it has just made while a request waits on it (4.81.0): its pool takes the channel back
     * before it has noted that the channel was given away. The stack says that its own request manager closed it.
     */
    private static boolean isClosedBySdk(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            StackTraceElement[] stack = cause.getStackTrace();
            if (cause instanceof ClosedChannelException && stack.length > 0 && stack[0].getMethodName().equals("close")) {
                return true;
            }
        }
        return false;
    }

    private static boolean isAbsent(Throwable error) {
        return error instanceof CosmosException failed && failed.getStatusCode() == 404;
    }

    private static Mono<Integer> created(CosmosAsyncContainer container, String id) {
        return container.createItem(item(id, id)).onErrorResume(DirectTest::isClosedBySdk, closed -> container.upsertItem(item(id, id)))
            .map(response -> response.getStatusCode() == 200 ? 201 : response.getStatusCode());
    }

    private static Mono<Integer> deleted(CosmosAsyncContainer container, String id) {
        Mono<Integer> delete = container.deleteItem(id, new PartitionKey(id)).map(response -> response.getStatusCode());
        return delete.onErrorResume(DirectTest::isClosedBySdk, closed -> delete.onErrorResume(DirectTest::isAbsent, absent -> Mono.just(204)));
    }

    // check: direct-bursts
    @Test
    void burstsHaveAnAnswerForEachRequest() {
        CosmosContainer container = container(byPk(), FIVE_PARTITIONS);
        for (int burst = 0; burst < BURSTS; burst++) {
            List<String> ids = IntStream.range(burst * 300, burst * 300 + 300).mapToObj(n -> "b" + n).toList();
            var created = Flux.fromIterable(ids).flatMap(id -> created(async(container), id), 50);
            assertEquals(List.of(201), created.distinct().collectList().block());
            var deleted = Flux.fromIterable(ids).flatMap(id -> deleted(async(container), id), 50);
            assertEquals(300, deleted.filter(status -> status == 204).count().block());
        }
    }
}
