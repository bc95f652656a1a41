package shardlake;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosClientBuilder;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.OutputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.Base64;
import java.util.Locale;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * The server that the suite runs against, and its clients.
 *
 * <p>{@code SHARDLAKE_HTTP}, {@code SHARDLAKE_HTTPS} and {@code SHARDLAKE_KEY} name the server, {@code SHARDLAKE_CA_FILE} is the
 * certificate of its authority. All clients use TLS and trust that authority alone. {@code SHARDLAKE_MODE} says how they connect:
 * {@code direct}, which is the SDK's default, or {@code gateway}.
 */
final class Server {
    static final String HTTP = required("SHARDLAKE_HTTP");
    static final String HTTPS = required("SHARDLAKE_HTTPS");
    static final String KEY = required("SHARDLAKE_KEY");
    static final boolean IS_DIRECT = isDirect(required("SHARDLAKE_MODE"));
    static final Path AUTHORITY = Path.of(required("SHARDLAKE_CA_FILE"));

    static {
        trustAuthority();
    }

    private static final CosmosClient CLIENT = builder().buildClient();
    private static final CosmosAsyncClient ASYNC_CLIENT = builder().buildAsyncClient();

    private Server() {}

    static String required(String name) {
        String value = System.getenv(name);
        if (value == null || value.isEmpty()) {
            throw new IllegalStateException(name + " is not set");
        }
        return value;
    }

    /** A client for all tests that need none of their own. */
    static CosmosClient client() {
        return CLIENT;
    }

    static CosmosAsyncClient asyncClient() {
        return ASYNC_CLIENT;
    }

    static CosmosClientBuilder builder() {
        return withoutKey().key(KEY);
    }

    static CosmosClientBuilder withoutKey() {
        return inMode(new CosmosClientBuilder().endpoint(HTTPS).contentResponseOnWriteEnabled(true));
    }

    static CosmosClientBuilder inMode(CosmosClientBuilder builder) {
        return IS_DIRECT ? builder : builder.gatewayMode();
    }

    private static boolean isDirect(String mode) {
        return switch (mode) {
            case "direct" -> true;
            case "gateway" -> false;
            default -> throw new IllegalStateException("SHARDLAKE_MODE is " + mode);
        };
    }

    /** The JVM's own trust store, which the SDK reads, holds the server's authority. */
    private static void trustAuthority() {
        try (var certificate = Files.newInputStream(AUTHORITY)) {
            KeyStore store = KeyStore.getInstance("PKCS12");
            store.load(null, null);
            var authority = CertificateFactory.getInstance("X.509").generateCertificate(certificate);
            store.setCertificateEntry("shardlake", authority);
            Path file = Files.createTempFile("shardlake-trust", ".p12");
            file.toFile().deleteOnExit();
            try (OutputStream out = Files.newOutputStream(file)) {
                store.store(out, "changeit".toCharArray());
            }
            System.setProperty("javax.net.ssl.trustStore", file.toString());
            System.setProperty("javax.net.ssl.trustStorePassword", "changeit");
        } catch (Exception failure) {
            throw new IllegalStateException("the server's authority cannot be trusted", failure);
        }
    }

    /** The answer of the operator interface. Its requests are signed as all others are; the link is the path. */
    static JsonNode operate(String method, String path, JsonNode body) {
        return operate(HTTP, method, path, body);
    }

    /** The same of another server. */
    static JsonNode operate(String server, String method, String path, JsonNode body) {
        try {
            String date = DateTimeFormatter.RFC_1123_DATE_TIME.format(ZonedDateTime.now(ZoneOffset.UTC));
            String payload = method.toLowerCase(Locale.ROOT) + "\nshardlake\n" + path + "\n" + date.toLowerCase(Locale.ROOT) + "\n\n";
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(Base64.getDecoder().decode(KEY), "HmacSHA256"));
            String signature = Base64.getEncoder().encodeToString(mac.doFinal(payload.getBytes(StandardCharsets.UTF_8)));
            String authorization = "type=master&ver=1.0&sig=" + signature;
            HttpRequest request = HttpRequest.newBuilder(URI.create(server + path))
                    .header("authorization", java.net.URLEncoder.encode(authorization, StandardCharsets.UTF_8))
                    .header("x-ms-date", date)
                    .header("content-type", "application/json")
                    .method(method, HttpRequest.BodyPublishers.ofString(body == null ? "" : body.toString()))
                    .build();
            HttpResponse<String> response = OPERATOR.send(request, HttpResponse.BodyHandlers.ofString());
            assertTrue(response.statusCode() < 300, method + " " + path + ": " + response.statusCode() + " " + response.body());
            return Items.JSON.readTree(response.body());
        } catch (java.io.IOException | java.security.GeneralSecurityException failure) {
            throw new IllegalStateException(failure);
        } catch (InterruptedException stopped) {
            throw new IllegalStateException("interrupted", stopped);
        }
    }

    private static final HttpClient OPERATOR = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
}
