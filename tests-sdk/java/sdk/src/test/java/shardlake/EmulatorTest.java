package shardlake;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.testcontainers.containers.CosmosDBEmulatorContainer;
import org.testcontainers.utility.DockerImageName;

/** Emulator mode by the Testcontainers module, with a process in the container's place. */
class EmulatorTest {
    /** The expression of the module's wait strategy. */
    private static final Pattern STARTED = Pattern.compile("(?s).*Started\\r\\n$");

    @TempDir
    private Path directory;

    private final class InPlace extends CosmosDBEmulatorContainer {
        private Process process;
        private int port;

        InPlace() {
            super(DockerImageName.parse("mcr.microsoft.com/cosmosdb/linux/azure-cosmos-emulator:latest"));
        }

        @Override
        public void start() {
            try {
                var program = new ProcessBuilder(System.getenv("SHARDLAKE_BINARY"), "serve", "--emulator");
                var variables = program.environment();
                variables.clear();
                for (String port : new String[] {"PORT", "EXPLORER_PORT", "HEALTH_PORT"}) {
                    variables.put(port, "0");
                }
                variables.put("DATA_PATH", directory.resolve("data").toString());
                variables.put("SHARDLAKE_DURABILITY", "memory");
                process = program.redirectError(ProcessBuilder.Redirect.DISCARD).start();
                waitUntilStarted();
            } catch (IOException failure) {
                throw new IllegalStateException(failure);
            }
        }

        private void waitUntilStarted() throws IOException {
            var output = new StringBuilder();
            var reader = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
            while (!STARTED.matcher(output).matches()) {
                int letter = reader.read();
                assertTrue(letter >= 0, "the program ended: " + output);
                output.append((char) letter);
            }
            Matcher listening = Pattern.compile("Now listening on: http://[0-9.]+:(\\d+)").matcher(output);
            assertTrue(listening.find(), output.toString());
            port = Integer.parseInt(listening.group(1));
        }

        @Override
        public void stop() {
            process.destroy();
        }

        @Override
        public String getHost() {
            return "localhost";
        }

        @Override
        public Integer getMappedPort(int original) {
            assertEquals(8081, original);
            return port;
        }
    }

    @Test
    void theKeyStoreOfTheModuleTrustsTheServer() throws Exception {
        try (var container = new InPlace()) {
            container.start();
            KeyStore trusted = container.buildNewKeyStore();
            var managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            managers.init(trusted);
            var context = SSLContext.getInstance("TLS");
            context.init(null, managers.getTrustManagers(), null);
            var request = (HttpsURLConnection) URI.create(container.getEmulatorEndpoint() + "/").toURL().openConnection();
            request.setSSLSocketFactory(context.getSocketFactory());
            // By default it asks for HTML, as a browser does.
            request.setRequestProperty("Accept", "application/json");
            assertEquals(200, request.getResponseCode());
            String account = new String(request.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertTrue(account.contains("\"id\":\"cosmosdev\""), account);
        }
    }
}
