package shardlake;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static shardlake.Items.item;

import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.ThrottlingRetryOptions;
import com.azure.cosmos.models.CosmosItemResponse;
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

/**
 * Budgets as the SDK sees them. The suite's server refuses nothing for its throughput, so that this class starts its own. Its
 * limits are scaled down: one write needs more than a second's budget, so that refusals do not depend on the speed of the machine.
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
                "--listen", "127.0.0.1:0", "--tls-cert", certificate("server.pem"), "--tls-key", certificate("server-key.pem"));
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

    /** About 6 RU each, all at once: 400 RU/s have 400 RU. */
    private static Flux<CosmosItemResponse<ObjectNode>> writes(CosmosAsyncContainer container, int count) {
        return Flux.range(0, count).flatMap(n -> container.createItem(item("i" + n, "k" + n)), count);
    }

    // check: throttling-retries
    @Test
    void retriesEndWithAllWritten() {
        var patient = new ThrottlingRetryOptions().setMaxRetryAttemptsOnThrottledRequests(100).setMaxRetryWaitTime(Duration.ofSeconds(3600));
        withContainer(patient, container -> {
            List<CosmosItemResponse<ObjectNode>> written = writes(container, 300).collectList().block();
            assertEquals(300, written.size());
            assertEquals(List.of(300), container.queryItems("SELECT VALUE COUNT(1) FROM c", Integer.class).collectList().block());
        });
    }

    // check: throttling
    @Test
    void aClientThatDoesNotRetryGets429() {
        var impatient = new ThrottlingRetryOptions().setMaxRetryAttemptsOnThrottledRequests(0);
        withContainer(impatient, container -> {
            List<CosmosException> refused = Flux.range(0, 2000)
                    .flatMap(n -> container.createItem(item("i" + n, "k" + n)).then(reactor.core.publisher.Mono.<CosmosException>empty()).onErrorResume(CosmosException.class, reactor.core.publisher.Mono::just), 500)
                    .take(1)
                    .collectList()
                    .block();
            assertEquals(1, refused.size(), "a write was refused");
            CosmosException error = refused.get(0);
            assertEquals(429, error.getStatusCode());
            assertEquals(3200, error.getSubStatusCode());
            assertTrue(error.getRetryAfterDuration().toMillis() >= 1);
            assertTrue(error.getRequestCharge() >= 0);
        });
    }
}
