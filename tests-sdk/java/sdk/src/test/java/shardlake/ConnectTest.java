package shardlake;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The program of {@code docs/connect.md}, with each way to trust the server that the page names. */
class ConnectTest {
    @TempDir
    private Path directory;

    private record Ended(int status, String output) {}

    /** Runs a command to its end. */
    private Ended run(List<String> command) {
        try {
            Path output = Files.createTempFile(directory, "output", ".txt");
            var process = new ProcessBuilder(command).directory(directory.toFile()).redirectErrorStream(true).redirectOutput(output.toFile()).start();
            return new Ended(process.waitFor(), Files.readString(output));
        } catch (IOException | InterruptedException failure) {
            throw new IllegalStateException(failure);
        }
    }

    private Ended runProgram(String endpoint, String... settings) throws IOException {
        String page = Files.readString(Path.of(Server.required("SHARDLAKE_DOCS"), "connect.md"));
        Matcher snippet = Pattern.compile("^```java\\n(import .*?)^```$", Pattern.MULTILINE | Pattern.DOTALL).matcher(page);
        assertTrue(snippet.find(), "the page has a program for Java");
        for (String setting : settings) {
            String documented = setting.replaceAll("=.*[\\\\/]", "=");
            assertTrue(page.contains(documented), "the page names " + documented);
        }
        assertTrue(snippet.group(1).contains("https://localhost:8081/"));
        String connected = endpoint.startsWith("https") ? snippet.group(1) : snippet.group(1).replace(".key(key)", ".key(key).gatewayMode()");
        String program = connected.replace("https://localhost:8081/", endpoint).replace("java-shop", Items.unique("java-shop"));
        Path file = Files.writeString(directory.resolve("Shop.java"), program);
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-XX:TieredStopAtLevel=1"));
        command.addAll(List.of(settings));
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), file.toString()));
        return run(command);
    }

    private static void printed(Ended ended) {
        assertEquals(0, ended.status(), ended.output());
        assertTrue(ended.output().endsWith("42\n1\n"), ended.output());
    }

    // check: documented-snippets
    @Test
    void theProgramRunsWithATrustStore() throws IOException {
        Path store = directory.resolve("trust.p12");
        String keytool = Path.of(System.getProperty("java.home"), "bin", "keytool").toString();
        Ended made = run(List.of(keytool, "-importcert", "-noprompt", "-alias", "shardlake", "-file", Server.AUTHORITY.toString(), "-keystore", store.toString(), "-storepass", "changeit"));
        assertEquals(0, made.status(), made.output());
        printed(runProgram(Server.HTTPS, "-Djavax.net.ssl.trustStore=" + store, "-Djavax.net.ssl.trustStorePassword=changeit"));
    }

    // check: tls-unverified
    @Test
    void theProgramRunsWithoutVerification() throws IOException {
        printed(runProgram(Server.HTTPS, "-DCOSMOS.EMULATOR_SERVER_CERTIFICATE_VALIDATION_DISABLED=true"));
    }

    // check: plain-http
    @Test
    void theProgramRunsOverPlainHttp() throws IOException {
        String endpoint = Server.HTTP.replace("127.0.0.1", "localhost");
        printed(runProgram(endpoint, "-DCOSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED=true"));
    }

    // check: unknown-authority
    @Test
    void anUnknownAuthorityIsNotTrusted() throws IOException {
        assertNotEquals(0, runProgram(Server.HTTPS).status());
    }
}
