package shardlake;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static shardlake.Items.item;

import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.ThrottlingRetryOptions;
import com.azure.cosmos.models.CosmosItemResponse;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.io.TempDir;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * Budgets as the SDK sees them. The suite's server refuses nothing for its throughput, so that this class starts its own. Its
 * limits are scaled down: 400 RU/s are 67 partitions of 6 RU/s, as much as one write costs.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class ThrottlingTest {
    @TempDir
    private static Path directory;

    private Process server;
    private JsonNode ready;

    @BeforeAll
    void startServer() throws IOException {
        var command = List.of(Server.required("SHARDLAKE_BINARY"), "serve", "--durability", "memory", "--data-dir", directory.resolve("data").toString(),
                "--listen", "127.0.0.1:0", "--limits-scale", "1/1000", "--tls-cert", certificate("server.pem"), "--tls-key", certificate("server-key.pem"));
        ProcessBuilder builder = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD);
        // A variable that begins so is a setting of a server, and an unknown one is an error.
        builder.environment().keySet().removeIf(name -> name.startsWith("SHARDLAKE_"));
        server = builder.start();
        ready = Items.JSON.readTree(new BufferedReader(new InputStreamReader(server.getInputStream())).readLine());
    }

    /** The certificate of the suite's server, whose authority the JVM trusts. */
    private static String certificate(String name) {
        Path file = Server.AUTHORITY.resolveSibling(name);
        assertTrue(Files.exists(file), file::toString);
        return file.toString();
    }

    @AfterAll
    void stopServer() {
        server.destroy();
        server.onExit().join();
    }

    private void withContainer(ThrottlingRetryOptions retries, Consumer<CosmosAsyncContainer> work) {
        String endpoint = ready.get("endpoints").get(1).asText().replace("127.0.0.1", "localhost");
        try (CosmosAsyncClient client = Server.withoutKey().endpoint(endpoint).key(ready.get("key").asText()).throttlingRetryOptions(retries).buildAsyncClient()) {
            String id = Items.unique("throttled");
            client.createDatabase(id).block();
            client.getDatabase(id).createContainer("items", "/pk", ThroughputProperties.createManualThroughput(400)).block();
            work.accept(client.getDatabase(id).getContainer("items"));
        }
    }

    private static CosmosQueryRequestOptions within(String pk) {
        return new CosmosQueryRequestOptions().setPartitionKey(new PartitionKey(pk));
    }

    // check: throttling-retries
    @Test
    void retriesEndWithAllWritten() {
        var patient = new ThrottlingRetryOptions().setMaxRetryAttemptsOnThrottledRequests(100).setMaxRetryWaitTime(Duration.ofSeconds(3600));
        withContainer(patient, container -> {
            List<CosmosItemResponse<ObjectNode>> written = Flux.range(0, 6).flatMap(n -> container.createItem(item("i" + n, "k")), 6).collectList().block();
            assertEquals(6, written.size());
            assertTrue(written.stream().anyMatch(one -> one.getDiagnostics().toString().contains("429")), "some were refused at first");
            assertEquals(List.of(6), container.queryItems("SELECT VALUE COUNT(1) FROM c", within("k"), Integer.class).collectList().block());
        });
    }

    // check: throttling
    @Test
    void aClientThatDoesNotRetryGets429() {
        var impatient = new ThrottlingRetryOptions().setMaxRetryAttemptsOnThrottledRequests(0);
        withContainer(impatient, container -> {
            List<CosmosException> refused = Flux.range(0, 100)
                    .flatMap(n -> container.createItem(item("i" + n, "k")).then(Mono.<CosmosException>empty()).onErrorResume(CosmosException.class, Mono::just), 100)
                    .take(1)
                    .collectList()
                    .block();
            assertEquals(1, refused.size(), "a write was refused");
            CosmosException error = refused.get(0);
            assertEquals(429, error.getStatusCode());
            assertEquals(3200, error.getSubStatusCode());
            assertTrue(error.getRetryAfterDuration().toMillis() >= 1);
        });
    }
}
