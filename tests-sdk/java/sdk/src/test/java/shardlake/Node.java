package shardlake;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.CosmosEndToEndOperationLatencyPolicyConfigBuilder;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A server of a test's own. It has one port for all its lives, and the authority that the JVM trusts. */
final class Node implements AutoCloseable {
    private final Path directory;
    private final List<String> arguments;
    private Process process;
    private int port;

    Node(Path directory, String... arguments) throws IOException {
        this.directory = directory;
        this.arguments = List.of(arguments);
        Path tls = Files.createDirectories(directory.resolve("data/tls"));
        try (var files = Files.list(Server.AUTHORITY.getParent())) {
            for (Path file : files.toList()) {
                Files.copy(file, tls.resolve(file.getFileName().toString()), StandardCopyOption.COPY_ATTRIBUTES);
            }
        }
        start();
    }

    void start() throws IOException {
        List<String> command = new ArrayList<>(List.of(Server.required("SHARDLAKE_BINARY"), "serve", "--listen=127.0.0.1:" + port,
                "--data-dir=" + directory.resolve("data"), "--shards=2", "--throughput=unlimited"));
        command.addAll(arguments);
        Path log = directory.resolve("log");
        process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.appendTo(log.toFile())).start();
        var output = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        String line = output.readLine();
        if (line == null) {
            throw new IllegalStateException("the server did not start: " + Files.readString(log));
        }
        port = URI.create(Items.JSON.readTree(line).at("/endpoints/0").asText()).getPort();
    }

    void end(boolean isKilled) throws InterruptedException {
        if (isKilled) {
            process.destroyForcibly();
        } else {
            process.destroy();
        }
        assertTrue(process.waitFor(8, TimeUnit.MINUTES), "the server has ended");
    }

    /**
     * A client whose operations end at last. The SDK loses a request where a connection closes between the moment in which it is
     * chosen and the moment in which the request is written to it: the request then waits for ever.
     */
    CosmosClient patientClient() {
        var limit = new CosmosEndToEndOperationLatencyPolicyConfigBuilder(Duration.ofSeconds(40)).build();
        return builder().endToEndOperationLatencyPolicyConfig(limit).buildClient();
    }

    CosmosClient client() {
        return builder().buildClient();
    }

    private CosmosClientBuilder builder() {
        return Server.inMode(new CosmosClientBuilder().endpoint("https://localhost:" + port + "/").key(Server.KEY));
    }

    /** The address for the operator's requests and for figures. */
    String operator() {
        return "http://127.0.0.1:" + port + "/";
    }

    /** The number of requests of a kind so far, as {@code /metrics} has it. */
    long requests(String operation) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(operator() + "metrics")).build();
        String page = HTTP.send(request, HttpResponse.BodyHandlers.ofString()).body();
        String start = "shardlake_requests_total{operation=\"" + operation + "\"";
        return page.lines().filter(line -> line.startsWith(start)).mapToLong(line -> Long.parseLong(line.substring(line.lastIndexOf(' ') + 1))).sum();
    }

    private static final HttpClient HTTP = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    @Override
    public void close() {
        process.destroyForcibly();
    }
}
